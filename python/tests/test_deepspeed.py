# SPDX-License-Identifier: MIT
"""ZeRO-3 of DeepSpeed on the CPU: with the backend isomer, and with gloo and install(), beside gloo alone."""
import os
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
os.environ.update(DS_ACCELERATOR="cpu", DS_SKIP_CUDA_CHECK="1")  # read at its import
pytest.importorskip("deepspeed", reason="deepspeed is not installed")
import deepspeed  # noqa: E402
import torch._dynamo  # noqa: E402, F401 (here once, and not in each forked rank)
import torch.distributed as dist  # noqa: E402

import host_streams  # noqa: E402
import isomer_shmem  # noqa: E402

STEPS = 6
WIDTH = 37
_of_gloo = {}  # losses by dtype


@pytest.fixture(autouse=True)
def no_compiled_parts(monkeypatch):
    """DeepSpeed compiles its collectives in shared memory where it finds a compiler; they are not what is tested."""
    monkeypatch.setitem(deepspeed.ops.__compatible_ops__, "deepspeed_shm_comm", False)


def begin(backend):
    os.environ["LOCAL_RANK"] = os.environ["RANK"]  # else DeepSpeed asks MPI
    deepspeed.init_distributed(dist_backend=backend, verbose=False)


def the_engine(dtype):
    torch.manual_seed(3)
    settings = {"train_micro_batch_size_per_gpu": 8, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
                "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 5000,
                                      "stage3_prefetch_bucket_size": 4 * WIDTH * WIDTH}}
    if dtype == torch.bfloat16:
        settings["bf16"] = {"enabled": True}
    with deepspeed.zero.Init(config_dict_or_path=settings):
        model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
                                      for _ in range(4)])
    engine, *_ = deepspeed.initialize(model=model, config=settings, model_parameters=model.parameters())
    return engine


def losses(dtype):
    engine = the_engine(dtype)
    seen = []
    values = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank())).to(dtype)
    for _ in range(STEPS):
        loss = (engine(values).float() - values.float()).square().mean()
        engine.backward(loss)
        engine.step()
        seen.append(loss.item())
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
        weights = torch.cat([parameter.detach().float().flatten() for parameter in engine.module.parameters()])
    engine.destroy()
    return seen, weights.tolist()


def train(backend, dtype, install):
    begin(backend)
    assert dist.get_backend() == backend
    installed = isomer_shmem.deepspeed.install() if install else None
    result = losses(dtype)
    if installed:
        stats = installed.stats()
        assert installed.active and stats["all_gathers"] > 4 * STEPS and stats["all_gather_bytes"] > 0
        installed.remove()
    elif backend == "isomer":
        assert isinstance(dist.group.WORLD, isomer_shmem.IsomerGroup)
    return result


def train_on_streams(dtype):
    """Gradients are reduced by parts, on streams of the CPU device, whose calls end before torch goes on."""
    from isomer_shmem import _device, _parts, _stream
    _parts.PARTS_BYTES, _device.for_tests = 0, host_streams.HostStreams
    enqueue = _stream.StreamCore.call

    def call(core, *arguments, **named):
        enqueue(core, *arguments, **named)
        core.settle()
    _stream.StreamCore.call = call
    begin("gloo")
    installed = isomer_shmem.deepspeed.install()
    with host_streams.on():
        result = losses(dtype)
    assert installed.stats()["reduce_scatters"] >= STEPS, installed.stats()
    installed.remove()
    assert deepspeed.runtime.zero.stage3.reduce_scatter_coalesced.__module__.startswith("deepspeed.")
    return result


def gloo(ranks, dtype):
    if dtype not in _of_gloo:
        _of_gloo[dtype] = ranks(2, train, "gloo", dtype, False, backend=None)
    return _of_gloo[dtype]


DTYPES = [pytest.param(torch.float32, marks=pytest.mark.long), torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=["torch.float32", "torch.bfloat16"])
@pytest.mark.parametrize("backend, install", [("isomer", False), ("gloo", True)], ids=["backend", "install"])
def test_zero3_as_gloo(ranks, backend, install, dtype):
    expected = gloo(ranks, dtype)
    assert expected[0][0][-1] < expected[0][0][0] and expected[0][1] == expected[1][1]
    got = ranks(2, train, backend, dtype, install, backend=None)
    assert got == expected  # two summands have one order, and a gather moves bytes


@pytest.mark.parametrize("dtype", DTYPES, ids=["torch.float32", "torch.bfloat16"])
def test_zero3_by_parts_as_gloo(ranks, dtype):
    assert ranks(2, train_on_streams, dtype, backend=None) == gloo(ranks, dtype)


def rounds(backend):
    """Both paths, in groups whose ranks are not those of the world."""
    begin(backend)
    me = dist.get_rank()
    pair, alone = dist.new_group([0, 2]), dist.new_group([1])
    installed = isomer_shmem.deepspeed.install()
    comm = deepspeed.comm
    for group, members in ((None, [0, 1, 2]), (pair, [0, 2]), (alone, [1])):
        for async_op in (False, True):
            for dtype in (torch.float32, torch.bfloat16, torch.uint8):
                mine = torch.full((5,), 10 * me + 1).to(dtype)
                gathered = torch.zeros(5 * len(members), dtype=dtype)
                work = comm.allgather_fn(gathered, mine, group=group, async_op=async_op)
                if me not in members:
                    assert not gathered.any()
                    continue
                if async_op:
                    assert isinstance(work, dist.Work)
                    work.wait()
                expected = torch.cat([torch.full((5,), 10 * member + 1) for member in members]).to(dtype)
                assert torch.equal(gathered, expected)
            if me in members:
                inputs = [torch.full((size,), me + size, dtype=torch.int32) for size in (1, 0, 33)]
                outputs = [torch.zeros(size * len(members), dtype=torch.int32) for size in (1, 0, 33)]
                work = comm.all_gather_coalesced(outputs, inputs, group=group, async_op=async_op)
                if async_op:
                    work.wait()
                for size, output in zip((1, 0, 33), outputs):
                    assert torch.equal(output, torch.cat([torch.full((size,), member + size, dtype=torch.int32)
                                                          for member in members]))
    before = installed.stats()["all_gathers"]
    assert before == 2 * (2 * 4)  # in two groups each
    installed.remove()
    gathered = torch.zeros(9)
    comm.allgather_fn(gathered, torch.full((3,), float(me)))
    assert gathered.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2] and installed.stats()["all_gathers"] == before
    backend = comm.comm.cdb
    assert backend.all_gather_function is dist.all_gather_into_tensor
    assert "all_gather_coalesced" not in vars(backend)  # DeepSpeed's own fails with torch 2.13


@pytest.mark.parametrize("backend", ["gloo", "isomer"])
def test_group_is_honoured(ranks, backend):
    ranks(3, rounds, backend, backend=None)


def without_library():
    begin("gloo")
    if dist.get_rank() == 1:
        os.environ["ISOMER_LIB"] = "/nonexistent/libisomer.so"
        isomer_shmem._lib._library = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        installed = isomer_shmem.deepspeed.install()
    gathered = torch.zeros(2)
    deepspeed.comm.allgather_fn(gathered, torch.tensor([float(dist.get_rank())]))
    assert gathered.tolist() == [0, 1] and not installed.active and installed.stats()["all_gathers"] == 0
    installed.remove()
    return [str(warning.message) for warning in caught if "isomer" in str(warning.message)]


def test_one_rank_without_library_falls_back_everywhere(ranks):
    first, second = ranks(2, without_library, backend=None)
    assert len(first) == 1 and "loading the library failed on rank 1" in first[0] and second == []


def too_early():
    with pytest.raises(RuntimeError, match="call deepspeed.init_distributed first"):
        isomer_shmem.deepspeed.install()


def test_before_init_distributed(ranks):
    ranks(1, too_early, backend=None)
