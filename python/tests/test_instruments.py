# SPDX-License-Identifier: MIT
"""torch's instruments see the calls of a group as they see gloo's: profiler, dispatch modes, hooks, flight recorder."""
import json
import os
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from torch_names import all_gather_single, reduce_scatter_single  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def every_call():
    """Each call of torch.distributed once, with its answer checked."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, everyone = torch.full((4,), rank + 1.0), [torch.full((4,), member + 1.0) for member in range(size)]
    total = sum(everyone)

    def new(count=1):
        return torch.zeros(4 * count)

    def check(tensor, expected):
        assert torch.equal(tensor, expected), (tensor, expected)

    tensor = mine.clone()
    dist.all_reduce(tensor)
    check(tensor, total)
    work = dist.all_reduce(tensor := mine.clone(), async_op=True)
    work.wait()
    check(tensor, total)
    dist.broadcast(tensor, 1)
    dist.reduce(tensor := mine.clone(), 0)
    check(tensor, total if rank == 0 else tensor)
    dist.all_gather(parts := [new() for _ in range(size)], mine)
    check(torch.cat(parts), torch.cat(everyone))
    all_gather_single(whole := new(size), mine)
    check(whole, torch.cat(everyone))
    reduce_scatter_single(part := new(), torch.cat(everyone))
    check(part, size * mine)
    dist.reduce_scatter(part := new(), [each.clone() for each in everyone])
    check(part, size * mine)
    dist.gather(mine, parts := [new() for _ in range(size)] if rank == 0 else None)
    check(torch.cat(parts) if rank == 0 else mine, torch.cat(everyone) if rank == 0 else mine)
    dist.scatter(part := new(), everyone if rank == 0 else None)
    check(part, mine)
    dist.all_to_all_single(part := new(), mine)
    check(part, torch.cat([each[rank * 4 // size:(rank + 1) * 4 // size] for each in everyone]))
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        tensors = [mine.clone() for _ in range(3)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        check(tensor, total)
    if rank == 0:
        dist.send(mine, 1)
    elif rank == 1:
        dist.recv(part, 0)
        check(part, everyone[0])
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (rank + 1) % size),
                                    dist.P2POp(dist.irecv, part, (rank - 1) % size)])
    for work in works:
        work.wait()
    check(part, everyone[rank - 1])
    dist.barrier()


class Names(TorchDispatchMode):
    """The operations of c10d, in their order."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "c10d":
            self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def seen_by_modes():
    from torch.distributed.tensor.debug import CommDebugMode
    dist.barrier()
    with Names() as outer:
        with CommDebugMode() as counts, Names() as inner:
            every_call()
    assert outer.seen == inner.seen
    return inner.seen, {str(name): count for name, count in counts.get_comm_counts().items()}


@pytest.mark.parametrize("size", (2, 4))
def test_dispatch_modes_see_what_they_see_of_gloo(ranks, size):
    assert ranks(size, seen_by_modes) == ranks(size, seen_by_modes, backend="gloo")


def trace_of(program, tmp):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        program()
    path = os.path.join(tmp, f"{dist.get_backend()}.{dist.get_rank()}.json")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    return sorted(events, key=lambda event: event["ts"])


def seen_by_profiler(tmp):
    dist.barrier()
    return trace_of(every_call, tmp)


def test_a_trace_has_the_operations_of_gloo(ranks, tmp_path):
    mine, of_gloo = ranks(2, seen_by_profiler, str(tmp_path)), ranks(2, seen_by_profiler, str(tmp_path), backend="gloo")
    for rank in range(2):
        names = [[event["name"] for event in events[rank] if event["name"].startswith("c10d::")]
                 for events in (mine, of_gloo)]
        assert names[0] == names[1] and "c10d::allreduce_" in names[0]
        calls = [event for event in mine[rank] if event["name"].startswith("isomer:")]
        assert len(calls) == len(names[0])
        first, = {json.dumps({key: calls[0]["args"][key] for key in (
            "Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size", "Process Group Name",
            "Process Group Ranks", "Rank", "Input Dims")}, sort_keys=True)}
        assert json.loads(first) == {
            "Collective name": "all_reduce", "dtype": "Float", "In msg nelems": 4, "Out msg nelems": 4, "Group size": 2,
            "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Rank": rank, "Input Dims": [[4]]}
        # the call lies within its operation
        outer = next(event for event in mine[rank] if event["name"] == "c10d::allreduce_")
        assert outer["ts"] <= calls[0]["ts"] and calls[0]["ts"] + calls[0]["dur"] <= outer["ts"] + outer["dur"]


def ddp_trace(tmp):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))

    def step():
        model(torch.ones(2, 4)).sum().backward()
    step()
    return [event["name"] for event in trace_of(step, tmp)]


def test_a_trace_shows_the_buckets_of_ddp(ranks, tmp_path):
    for names in ranks(2, ddp_trace, str(tmp_path)):
        assert "c10d::allreduce_" in names and "isomer:all_reduce" in names


def without_instruments():
    from isomer_shmem import _instruments
    _instruments.by_torch = None
    every_call()


def test_calls_go_straight_while_nothing_looks(ranks):
    ranks(2, without_instruments)


def errors_under_a_mode():
    rank = dist.get_rank()
    with Names():
        with pytest.raises(ValueError, match="it must have 8"):
            all_gather_single(torch.zeros(7), torch.zeros(4))
        with pytest.raises(NotImplementedError, match="BAND"):
            dist.all_reduce(torch.zeros(4), dist.ReduceOp.BAND)
        tensor = torch.full((3,), rank)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.ones(3, dtype=tensor.dtype))


def test_errors_under_a_mode_are_the_same(ranks):
    ranks(2, errors_under_a_mode)


def fakes():
    from torch._subclasses.fake_tensor import FakeTensorMode
    if dist.get_rank() == 0:  # alone: nothing is sent
        with FakeTensorMode(), Names() as names:
            dist.all_reduce(torch.ones(4))
        assert names.seen == ["c10d.allreduce_.default"]
    dist.barrier()


@pytest.mark.parametrize("backend", ("gloo", "isomer"))
def test_fake_tensors_are_torchs(ranks, backend):
    ranks(2, fakes, backend=backend)


def hooks():
    before, behind = [], []
    group = dist.group.WORLD
    group.register_pre_hook(1, lambda args: before.append((str(args.name), len(args.input_tensors))))
    group.register_post_hook(2, lambda args: behind.append(str(args.name)))
    every_call()
    return before, behind


@pytest.mark.skipif(VERSION < (2, 14), reason="torch has no hooks")
def test_hooks_are_called_as_those_of_gloo(ranks):
    assert ranks(2, hooks) == ranks(2, hooks, backend="gloo")


def flight():
    from torch._C._distributed_c10d import _dump_fr_trace
    every_call()
    entries = pickle.loads(_dump_fr_trace())["entries"]
    return [(entry["profiling_name"].split(":")[-1], entry["input_sizes"]) for entry in entries]


def with_flight_recorder():
    os.environ["TORCH_FR_BUFFER_SIZE"] = "200"
    dist.init_process_group("isomer")
    return flight()


@pytest.mark.skipif(VERSION < (2, 14), reason="torch has no flight recorder for other backends than its own")
def test_the_flight_recorder_has_the_calls(ranks):
    for entries in ranks(2, with_flight_recorder, backend=None):
        assert len(entries) >= 15 and any("reduce" in name.lower() for name, _ in entries), entries


def abort_hooks():
    from datetime import timedelta

    from torch._C._distributed_c10d import ErrorType
    group, called = dist.group.WORLD, []
    group.register_abort_hook(1, lambda: called.append(group.get_error()))
    group.register_abort_hook(2, lambda: called.append("no"))
    group.unregister_abort_hook(2)
    group.set_timeout(timedelta(seconds=0.5))
    assert group.get_error() == ErrorType.SUCCESS
    if dist.get_rank() == 0:
        with pytest.raises(dist.DistBackendError, match="timeout"):
            dist.all_reduce(torch.zeros(1))
        assert called == [ErrorType.SUCCESS] and group.get_error() == ErrorType.TIMEOUT
    else:
        import time
        time.sleep(2)
        with pytest.raises(dist.DistBackendError):
            dist.all_reduce(torch.zeros(1))
        assert called == [ErrorType.SUCCESS] and group.get_error() != ErrorType.SUCCESS


def test_abort_hooks_are_called_before_the_job_breaks(ranks):
    ranks(2, abort_hooks)
