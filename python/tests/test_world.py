# SPDX-License-Identifier: MIT
"""The job behind the groups: start, teams of any ranks, fork, death, exit."""
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

from conftest import LIMIT_SECONDS, _free_port, tell, wait_for, why_not  # noqa: E402
import isomer_shmem as iso  # noqa: E402
from isomer_shmem import _world  # noqa: E402
from torch_names import all_gather_single, reduce_scatter_single  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def record(**changes):
    return {"error": None, "world": None, "pe": 0, "pes": [0, 0], "free": [], "tag": 5, "rank": 0, "members": [0, 1],
            **changes}


def test_members_decide_alike_from_their_records():
    assert _world.decide([record(), record()]) == ("start", None)
    assert _world.decide([record(), record(error="no library")])[0] == "fail"
    assert _world.decide([record(world="a"), record()])[0] == "gloo"
    assert _world.decide([record(world="a"), record(world="b")])[0] == "gloo"
    assert _world.decide([record(world="a"), record(world="a")]) == ("team", 5)
    assert _world.decide([record(world="a", free=[9, 7]), record(world="a", free=[7, 9, 1])]) == ("team", 7)
    assert _world.decide([record(world="a", free=[9]), record(world="a", free=[7])]) == ("team", 5)
    assert _world.decide([record(world="a", free=[9]), record(world="a", free=[9], pes=[0, 1])]) == ("team", 5)
    what, why = _world.decide([record(), record(rank=2, members=[0, 2])])
    assert what == "fail" and "[0, 1] by rank 0, and [0, 2] by rank 2" in why


def group_sum(group, members):
    tensor = torch.tensor([2 ** dist.get_rank()])
    dist.all_reduce(tensor, group=group)
    assert tensor == sum(2 ** member for member in members)


def footprint():
    """What a process has: memory in MiB, threads, descriptors and mappings, shared ones too."""
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
    with open("/proc/self/maps") as file:
        maps = len(file.readlines())
    return {"MiB": resident, "threads": len(os.listdir("/proc/self/task")), "fds": len(os.listdir("/proc/self/fd")),
            "maps": maps}


def check_growth(before, after, rounds):
    """Keys of torch's store stay in rank 0's memory: 0.16 MiB for a round of 41 groups. The mappings of malloc come and
    go: what each group, or every second one, left behind would be more."""
    assert after["MiB"] - before["MiB"] < 2 + (0.3 if dist.get_rank() == 0 else 0.1) * rounds, (before, after)
    for what, allowed in (("threads", 3), ("fds", 3), ("maps", 20 * (rounds - 2))):
        assert after[what] <= before[what] + allowed, (what, before, after)


def pass_on(group, members):
    """The first of the members sends to the last."""
    rank, tensor = dist.get_rank(), torch.full((3,), float(len(members)))
    if len(members) > 1 and rank == members[0]:
        dist.send(tensor, members[-1], group=group)
    elif len(members) > 1 and rank == members[-1]:
        dist.recv(tensor.fill_(0), members[0], group=group)
        assert torch.all(tensor == len(members))


def many_groups(rounds):
    rank, size = dist.get_rank(), dist.get_world_size()
    lists = [[0, 1], [1, 0], [size - 1, 0], [1, size - 1], list(range(size)), list(reversed(range(size))), [0],
             [size - 1, 1, 0]]
    for iteration in range(rounds):
        made = []
        # torch names later groups by the number of groups of a rank, so each rank makes one
        local = [0, 1] if rank < 2 else [rank]
        made.append(dist.new_group(local, use_local_synchronization=True))
        group_sum(made[0], local)
        for i in range(40):
            members = lists[i % len(lists)]
            group = dist.new_group(members)
            if rank in members:
                assert group._core is not None
                group_sum(group, members)
                pass_on(group, members)
                made.append(group)
        for group in made if iteration % 2 else reversed(made):
            dist.destroy_process_group(group)
        del made, group
        gc.collect()
        if iteration == 1:
            before = footprint()
    if rounds > 2:
        check_growth(before, footprint(), rounds)
    lease = dist.group.WORLD._core.lease
    assert lease.world.leases == 1
    return sum(len(teams) for teams in lease.world.free_teams.values())


def many_alive():
    """200 groups under the usual limit of descriptors; they have none of their own, and gloo starts for none."""
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    group_sum(dist.group.WORLD, [0, 1])
    before = footprint()
    groups = [dist.new_group([0, 1]) for _ in range(200)]
    for group in groups:
        group_sum(group, [0, 1])
    after = footprint()
    assert after["fds"] <= before["fds"] + 2 and after["threads"] <= before["threads"] + 2, (before, after)


def test_200_groups_at_once_take_no_descriptors(ranks):
    ranks(2, many_alive)


def different_groups():
    """Ranks that make different groups under one name learn of it."""
    rank = dist.get_rank()
    if rank != 1:
        with pytest.raises(Exception, match="different groups under one name.*new_group in the same order on all ranks"):
            dist.new_group([0, 1] if rank == 0 else [0, 2])


def test_ranks_that_make_different_groups_raise(ranks):
    ranks(3, different_groups)


def test_forty_groups_made_and_destroyed_again(ranks):
    once = ranks(3, many_groups, 1)
    rounds = int(os.environ.get("SHMEM_TEST_ROUNDS", 5))
    assert ranks(3, many_groups, rounds, seconds=120 + 60 * rounds) == once  # teams are used again


def again(folder):
    gc.disable()  # a destroyed group, and the job, are freed at once
    for attempt in range(4):
        dist.init_process_group("isomer", init_method=f"file://{folder}/{attempt}", rank=int(os.environ["RANK"]),
                                world_size=int(os.environ["WORLD_SIZE"]))
        group_sum(None, range(dist.get_world_size()))
        gone = [weakref.ref(dist.group.WORLD), weakref.ref(dist.group.WORLD.lease.world)]
        dist.destroy_process_group()
        end = time.monotonic() + 5  # the watch may be looking at it
        while any(each() for each in gone) and time.monotonic() < end:
            time.sleep(0.01)
        assert _world._world is None and [each() for each in gone] == [None, None]


def test_init_and_destroy_in_the_same_process(ranks, tmp_path):
    ranks(2, again, str(tmp_path), backend=None)


def again_on_one_store():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), size, rank == 0)
    for attempt in range(3):
        time.sleep(0.05 * ((rank + attempt) % size))  # each comes first once: old keys of the others are there
        dist.init_process_group("isomer", store=store, rank=rank, world_size=size)
        group_sum(None, range(size))
        pair = dist.new_group([0, 1])
        if rank < 2:
            group_sum(pair, [0, 1])
        dist.destroy_process_group()
    store.set(f"end/{rank}", "")
    if rank == 0:  # whose store it is
        store.wait([f"end/{each}" for each in range(size)])


def test_names_come_again_on_one_store(ranks):
    ranks(3, again_on_one_store, backend=None)


def beside_gloo():
    size = dist.get_world_size()
    group = dist.new_group(backend="isomer")
    assert group._core is not None
    group_sum(group, range(size))
    group_sum(None, range(size))


def test_isomer_group_beside_a_gloo_default_group(ranks):
    ranks(3, beside_gloo, backend="gloo")


def goes_on_one_sided():
    """Calls of shmem.h would end this process; the watch has noticed the death, and no call here yet."""
    window, tensor = iso.new_window(iso.zeros(3)), iso.zeros(3)
    place = iso.place(tensor)
    if dist.get_rank() == 1:
        wait_for("in no call", [0, 2])
        os._exit(0)
    tell("in no call")
    while dist.group.WORLD.lease.broken is None:
        time.sleep(0.01)
    for call in (lambda: iso.put(tensor, torch.ones(3), 1), lambda: iso.get(torch.ones(3), tensor, 1), iso.quiet,
                 lambda: window.put(torch.ones(3), 1), lambda: iso.put(place, torch.ones(3))):
        with pytest.raises(iso.IsomerError, match="died"):
            call()
    iso.shrink([1])


def test_one_sided_calls_after_a_death():
    check_survivors(goes_on_one_sided, 3, dead=(1,))


def dies_and_goes_on():
    """Ranks 1 and 3 of 5 die, one after the other; what the others have made on the way ends with each death. They have
    made different numbers of groups, one of them with the rank that died."""
    rank, group = dist.get_rank(), dist.group.WORLD
    half = dist.new_group([0, 2, 4])
    if rank in (0, 1):
        dist.new_group([0, 1])
    with pytest.raises(ValueError, match=r"ranks_to_exclude is \[\]|outside 0..4"):
        iso.shrink([] if rank == 0 else [5])
    with pytest.raises(ValueError, match="not rank"):
        iso.shrink([rank])
    for dead, left in ((1, 4), (2, 3)):
        if dist.get_rank() == dead:
            wait_for(f"{dead} may die", [each for each in range(left + 1) if each != dead])  # these are in no call
            os._exit(0)
        tell(f"{dead} may die")
        with pytest.raises(dist.DistBackendError, match="died"):
            dist.all_reduce(torch.ones(1))
        assert iso.shrink([dead]) is group is dist.group.WORLD and dist.get_world_size() == left
        group_sum(None, range(left))
        pass_on(None, list(range(left)))
        part = dist.new_group([left - 1, 0])
        if dist.get_rank() in (0, left - 1):
            group_sum(part, [0, left - 1])
        if rank != 3:
            with pytest.raises(Exception, match="is not initialized in the world group map"):
                dist.all_reduce(torch.ones(1), group=half)
    assert {0: 0, 2: 1, 4: 2}[rank] == dist.get_rank()
    results = [None] * 3
    dist.all_gather_object(results, rank)
    assert results == [0, 2, 4]


def all_live_and_part():
    """No rank has died: the excluded one learns that the others have left. A group of some ranks shrinks alone."""
    rank, part = dist.get_rank(), dist.new_group([1, 2, 3])
    dist.barrier()  # rank 2 has made it
    if rank == 2:
        for group, why in ((part, "reconfigured"), (None, "left|reconfigured")):
            with pytest.raises(dist.DistBackendError, match=why):
                while True:
                    dist.all_reduce(torch.ones(1), group=group)
            if group is part:
                group_sum(None, range(4))
                dist.distributed_c10d._get_default_store().set("rank 2 has its sum", b"")
        return
    if rank != 0:
        assert iso.shrink([1], part) is part and dist.get_process_group_ranks(part) == [1, 3]
        group_sum(part, [1, 3])
    group_sum(None, range(4))
    dist.distributed_c10d._get_default_store().get("rank 2 has its sum")  # its call may end with an error before
    group = iso.shrink([2])
    for _ in range(20):
        group_sum(group, [0, 1, 2])
    assert group is dist.group.WORLD and part not in dist.distributed_c10d._world.pg_names


def check_survivors(function, size, dead):
    """Ranks `dead` of `size` end in a function of this file, and the others come to its end."""
    body = (f"sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
            f"from test_world import {function.__name__}\n"
            f"{function.__name__}()\n"
            "print('went on')\n")
    said = outputs_of(start_ranks(body, size), LIMIT_SECONDS)
    assert [out for out, _ in said] == ["" if rank in dead else "went on\n" for rank in range(size)], said


def test_ranks_without_a_dead_one_go_on():
    check_survivors(dies_and_goes_on, 5, dead=(1, 3))


def test_ranks_part_without_a_death(ranks):
    ranks(4, all_live_and_part)


def collect(what, ranks):
    """The handles of these ranks, by the store, which is no part of the job."""
    store, me = dist.distributed_c10d._get_default_store(), int(os.environ["RANK"])
    store.set(f"{what} {me}", iso.get_reconfigure_handle())
    store.wait([f"{what} {rank}" for rank in ranks], timedelta(seconds=60))
    return [store.get(f"{what} {rank}").decode() for rank in ranks]


def check_new(group, size):
    """The group's numbers are those of its members, by every way; new groups of it work, too."""
    me = group.rank()
    assert group is dist.group.WORLD and (dist.get_world_size(), dist.get_rank(), group.size()) == (size, me, size)
    assert dist.get_process_group_ranks(group) == list(range(size))
    group_sum(None, range(size))
    pass_on(None, list(range(size)))
    ranks = [None] * size
    dist.all_gather_object(ranks, me)
    assert ranks == list(range(size))
    root = torch.full((3,), float(me))
    dist.broadcast(root, src=size - 1)
    assert root.eq(size - 1).all()
    part = dist.new_group([0, size - 1])
    if me in (0, size - 1):
        group_sum(part, [0, size - 1])
    dist.destroy_process_group(part)


def goes_on_in_its_group():
    """Ranks 1 and 3 of 5 die, one after the other. The group's object stays."""
    me, group = dist.get_rank(), dist.group.WORLD
    half = dist.new_group([0, 2, 4])
    left = [0, 1, 2, 3, 4]
    for uuid, dead in enumerate((1, 3)):
        handles = collect(f"before {dead}", left)
        if me == dead:
            os._exit(0)
        with pytest.raises(dist.DistBackendError, match="died|left"):
            while True:
                dist.all_reduce(torch.ones(1))
        place = left.index(dead)
        left.remove(dead)
        del handles[place]
        begin = time.monotonic()
        assert iso.reconfigure(uuid, handles).wait()
        assert time.monotonic() - begin < 20
        assert group.rank() == left.index(me)
        check_new(group, len(left))
        assert dist.ProcessGroup.size(group) == len(left)  # as C++ asks
    with pytest.raises(dist.DistBackendError, match="group was reconfigured|died"):
        half.allreduce([torch.ones(1)]).wait()  # torch counts by ranks of the default group, which has others now
    with pytest.raises(RuntimeError, match="uuid 1 was already used"):
        iso.reconfigure(1, handles)
    with pytest.raises(ValueError, match="handles has 2 entries, none of them of this rank"):
        iso.reconfigure(9, [handle for rank, handle in enumerate(handles) if rank != group.rank()])
    with pytest.raises(ValueError, match="two of one rank"):
        iso.reconfigure(9, handles + handles)
    for strange in ("x", "3", "{}", 3):
        with pytest.raises(ValueError, match="entries come from get_reconfigure_handle"):
            iso.reconfigure(9, [strange])


def test_survivors_go_on_in_the_same_group():
    check_survivors(goes_on_in_its_group, 5, dead=(1, 3))


def other_members():
    """Down to one rank each, up again, in another order, after abort(), and beside another group. What has the group's
    object goes on, too: a DDP model, whose C++ asks it for its size."""
    def check_model(mean):
        model.zero_grad()
        model(torch.full((1, 3), 1.0 + me)).sum().backward()
        assert torch.allclose(next(model.parameters()).grad, torch.full((2, 3), mean))

    def check_name_again():
        """torch before 2.14 names it alike each time. Rank 1 comes when old records of rank 0 may still be there. With
        torch 2.14 rank 2 gives other names to new groups from here on, until the next reconfigure()."""
        time.sleep(0.3 * (dist.get_rank() == 0))
        named = dist.new_group([0, 1], use_local_synchronization=True) if dist.get_rank() < 2 else None
        if named is not None:
            group_sum(named, [0, 1])
            dist.destroy_process_group(named)
    me, group, everyone = dist.get_rank(), dist.group.WORLD, [0, 1, 2]
    model, hooks = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2, bias=False)), []
    check_model(2.0)
    collect("model", everyone)
    group.register_abort_hook(7, lambda: hooks.append(1))
    iso.reconfigure(10 + me, [iso.get_reconfigure_handle()])
    assert (dist.get_world_size(), dist.get_rank()) == (1, 0)
    dist.all_reduce(alone := torch.ones(2))
    assert alone.eq(1).all()
    check_model(1.0 + me)
    iso.reconfigure(20, collect("up", everyone))
    check_new(group, 3)
    check_name_again()
    check_model(2.0)
    iso.reconfigure(21, collect("turned", everyone)[::-1])
    assert dist.get_rank() == 2 - me
    check_new(group, 3)
    tensor, other = iso.zeros(3), dist.new_group(everyone)
    check_name_again()
    iso.reconfigure(22, collect("again", everyone))  # all stay in the job, and so do its tensors and groups
    check_new(group, 3)
    group_sum(other, everyone)
    iso.put(tensor, torch.full((3,), me + 1.0), (me + 1) % 3)
    iso.barrier()
    assert tensor.eq((me - 1) % 3 + 1).all()
    collect("barrier has ended", everyone)
    assert hooks == []
    group.abort()
    for call in (lambda: dist.all_reduce(torch.ones(1)), lambda: dist.send(torch.ones(1), (dist.get_rank() + 1) % 3),
                 lambda: iso.empty(3)):
        with pytest.raises(dist.DistBackendError, match="the process group was aborted on rank"):
            call()
    assert str(group.get_error()) == "ErrorType.COMM_ERROR"
    assert hooks == [1]
    iso.reconfigure(23, collect("aborted", everyone))
    check_new(group, 3)
    group_sum(other, everyone)
    if me == 2:  # late: not a member at first
        handles = collect("late", everyone)
    else:
        iso.reconfigure(24, collect("without 2", [0, 1]))
        group_sum(None, [0, 1])  # no new group: torch counts them on each rank, and names them so
        handles = collect("late", everyone)
    iso.reconfigure(25, handles)
    check_new(group, 3)


def test_a_group_gets_other_members(ranks):
    ranks(3, other_members)


def two_jobs():
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1], backend="isomer"), dist.new_group([2, 3], backend="isomer")]
    mine = [2 * (rank // 2), 2 * (rank // 2) + 1]
    group_sum(pairs[rank // 2], mine)
    with pytest.warns(UserWarning, match="in different jobs of Isomer"):
        everyone = dist.new_group(backend="isomer")
    group_sum(everyone, range(4))
    assert everyone._core is None
    calls_by_gloo(everyone, rank)


def calls_by_gloo(group, rank):
    """Calls for which gloo has another name, or takes the tensors one by one."""
    mine, all_values = torch.full((2,), float(rank)), torch.arange(4.0).repeat_interleave(2)
    gathered, scattered, exchanged = torch.zeros(8), torch.zeros(2), torch.zeros(8)
    all_gather_single(gathered, mine, group=group)
    reduce_scatter_single(scattered, all_values, group=group)
    dist.all_to_all_single(exchanged, all_values, group=group)
    assert torch.equal(gathered, all_values) and scattered.eq(4 * rank).all() and exchanged.eq(rank).all()
    pair = [torch.zeros(8), torch.zeros(4)]
    group.all_gather_single_coalesced(pair, [mine, mine[:1]]).wait()
    assert torch.equal(pair[0], all_values) and torch.equal(pair[1], torch.arange(4.0))
    lists = [[torch.zeros(2)] for _ in range(4)]
    group.allgather_coalesced(lists, [mine]).wait()
    assert torch.equal(torch.cat([each for each, in lists]), all_values)


def test_groups_of_different_jobs_go_to_gloo_on_all_ranks(ranks):
    from isomer_shmem._dispatch import CALLS
    assert [row.gloo for row in CALLS.values() if not hasattr(dist.ProcessGroupGloo, row.gloo)] == []
    ranks(4, two_jobs, backend="gloo")


def without_library():
    from isomer_shmem import _lib
    if os.environ["RANK"] == "1":
        os.environ["ISOMER_LIB"], _lib._library = "/nowhere/libisomer.so", None
    with pytest.raises(RuntimeError, match="/nowhere/libisomer.so"):
        dist.init_process_group("isomer")


def test_all_ranks_learn_that_one_has_no_library(ranks):
    ranks(3, without_library, backend=None)


def without_memory():
    """Rank 1 has a team and no memory for a group: gloo does it on all ranks, and the job goes on."""
    lib, rank = dist.group.WORLD.lease.world.lib, dist.get_rank()
    malloc, everyone = lib.shmemx_local_malloc, list(range(dist.get_world_size()))
    if rank == 1:
        lib.shmemx_local_malloc = lambda nbytes, kind: None
    with pytest.warns(UserWarning, match="a group of 3 has no team, because"):
        group = dist.new_group(everyone)
    assert group._core is None
    group_sum(group, everyone)
    lib.shmemx_local_malloc = malloc
    for members in (None, dist.new_group(everyone)):
        group_sum(members, everyone)
        pass_on(members, everyone)


def test_all_ranks_learn_that_one_has_no_memory_for_a_group(ranks):
    ranks(3, without_memory)


def dies_while_it_starts():
    rank = dist.get_rank()
    if rank == 1:
        _world.Lease.agree = lambda lease: os._exit(0)
    with pytest.raises(RuntimeError, match=r"rank 1 \(pid .*died"):
        dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=5))


def dies_before_it_comes():
    if dist.get_rank() == 1:
        os._exit(0)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"rank 1 \(pid .*died"):
        dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=60))
    assert time.monotonic() - begin < 20


def dies_and_the_store_follows():
    """Rank 0, whose process has the store, hears of the death first, and ends."""
    if dist.get_rank() == 1:
        os._exit(0)
    if dist.get_rank() == 2:
        _world.LOOK_SECONDS = 30
    with pytest.raises(RuntimeError, match=r"rank 1 \(pid .*died"):
        dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=60))


def dies_long_before():
    """The death is known when the group is made."""
    if dist.get_rank() == 1:
        os._exit(0)
    while not _world._world.is_broken():
        time.sleep(0.01)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"rank 1 \(pid .*died"):
        dist.new_group(list(range(dist.get_world_size())), timeout=timedelta(seconds=60))
    assert time.monotonic() - begin < 20


def test_a_rank_that_dies_while_a_group_starts_is_named():
    check_survivors(dies_while_it_starts, 3, dead=(1,))
    check_survivors(dies_before_it_comes, 3, dead=(1,))
    check_survivors(dies_and_the_store_follows, 3, dead=(1,))
    check_survivors(dies_long_before, 3, dead=(1,))


def forks():
    group_sum(None, range(dist.get_world_size()))
    check_child()
    if dist.get_rank() == 0:  # rank 1 comes to these calls when the child has ended
        under_way, queued = (dist.all_reduce(torch.ones(4), async_op=True) for _ in range(2))
        while not dist.group.WORLD._sequence._under_way:
            time.sleep(0.01)
        check_child((under_way, queued))
        tell("child has ended")
    else:
        wait_for("child has ended", [0])
        under_way, queued = (dist.all_reduce(torch.ones(4), async_op=True) for _ in range(2))
    under_way.wait()
    queued.wait()
    pass_on(None, [0, 1])
    group_sum(None, range(dist.get_world_size()))


def check_child(works=()):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        for work in works:
            with pytest.raises(dist.DistBackendError, match="was forked from a rank"):
                work.wait()
        try:
            dist.all_reduce(torch.ones(1))
        except dist.DistBackendError as error:
            first = "was forked from a rank" in str(error)
        with pytest.raises(iso.IsomerError, match="was forked from a rank"):
            dist.new_group()
        try:
            dist.send(torch.ones(1), 1 - dist.get_rank())
        except dist.DistBackendError as error:
            os._exit(0 if first and "was forked from a rank" in str(error) else 3)
        os._exit(4)
    assert os.waitpid(child, 0)[1] == 0


def test_forked_child_is_refused_and_harms_nothing(ranks):
    ranks(2, forks)


def late_message():
    """The group of a message whose partner comes after its timeout has ended, and nothing else."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    for tag, late in ((0, 1), (1, 0)):
        if dist.get_rank() != late:
            with pytest.raises(dist.DistBackendError, match="timeout of 1 s|has ended|the process group"):
                dist.recv(torch.ones(2), late, group=group, tag=tag)
            tell(f"message {tag} is over")
        else:
            wait_for(f"message {tag} is over", [1 - late])
            begin = time.monotonic()
            with pytest.raises(dist.DistBackendError, match="timeout of 1 s"):
                dist.send(torch.ones(2), 1 - late, group=group, tag=tag)
            assert time.monotonic() - begin < 5
        group_sum(None, [0, 1])


def test_a_late_message_ends_its_group_alone(ranks):
    ranks(2, late_message)


def other_members_next_time():
    """The default group is made again on one store; then the first group beside it has other members each time."""
    me, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), n, me == 0)
    for members in ([0], [0, 1, 2], [1, 2], [0, 1, 2], [0, 2]):
        dist.init_process_group("isomer", store=store, rank=me, world_size=n, timeout=timedelta(seconds=20))
        group = dist.new_group(members)
        if me in members:
            group_sum(group, members)
        dist.destroy_process_group()


def test_groups_of_the_next_job_have_other_members(ranks):
    ranks(3, other_members_next_time, backend=None)


def callback_that_calls():
    """Callbacks of futures make calls and wait for their futures, some of them nested, as hooks of DDP do."""
    def again(depth):
        def callback(future):
            inner = dist.all_reduce(torch.ones(2), async_op=True).get_future()
            return (inner.then(again(depth - 1)) if depth else inner).wait()
        return callback
    for depth in (0, 0, 3, 1):
        outer = dist.all_reduce(torch.ones(5), async_op=True).get_future().then(again(depth))
        assert outer.wait()[0].tolist() == [2.0, 2.0]
        group_sum(None, [0, 1])
    assert threading.active_count() < 20


def test_callbacks_make_calls_and_wait_for_them(ranks):
    ranks(2, callback_that_calls)


PROGRAM = """
import os, signal, sys, time, torch, torch.distributed as dist
import isomer_shmem
if __name__ == "__main__":
    dist.init_process_group("isomer")
    rank, size = dist.get_rank(), dist.get_world_size()
{body}
"""


def program_of(body):
    return PROGRAM.format(body=textwrap.indent(body, "    "))


def environment_of(**more):
    return {**os.environ, "PYTHONPATH": FOLDER, "OMP_NUM_THREADS": "1", **more}


def run_program(body, size=2, timeout=300, **options):
    reason = why_not()
    if reason:
        pytest.skip(reason)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"isomer-program-{os.getpid()}.py")
    with open(path, "w") as file:
        file.write(program_of(body))
    try:
        return subprocess.run(command + [path], env=environment_of(), timeout=timeout, capture_output=True, text=True)
    finally:
        os.unlink(path)


def test_torchrun_and_exit_without_destroy():
    done = run_program("x = torch.ones(1); dist.all_reduce(x); os.write(1, b'sum %d\\n' % int(x))", size=3)
    assert done.returncode == 0 and done.stdout.count("sum 3") == 3, done.stderr


def start_ranks(body, size):
    """The processes of a program, with pipes for what they print; no launcher ends them when one dies."""
    if reason := why_not():
        pytest.skip(reason)
    port = str(_free_port())
    return [subprocess.Popen([sys.executable, "-c", program_of(body)], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment_of(
                                 MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE=str(size)))
            for rank in range(size)]


def outputs_of(processes, seconds):
    """Of each process. One that lasts longer is killed, so that the error of another one is seen."""
    limit = threading.Timer(seconds, lambda: [process.kill() for process in processes])
    limit.start()
    try:
        return [process.communicate() for process in processes]
    finally:
        limit.cancel()


def ends_badly(how):
    """What rank 0 learns at once of the end of rank 1's program: the error's sentence, which it prints once."""
    body = ("dist.all_reduce(torch.ones(1))\n"
            f"if rank == 1:\n    {how}\n"
            "begin, errors = time.monotonic(), []\n"
            "for call in (dist.all_reduce, lambda tensor: dist.broadcast(tensor, 0)):\n"
            "    try: call(torch.ones(1))\n"
            "    except dist.DistBackendError as error: errors.append(str(error))\n"
            "assert time.monotonic() - begin < 5\n"
            "print('\\n'.join(errors))\n")
    processes = start_ranks(body, 2)
    (said, printed), _ = outputs_of(processes, 100)
    assert [process.returncode == 0 for process in processes] == [True, False], printed
    first, second = said.splitlines()
    assert first.removeprefix("isomer: all_reduce") == second.removeprefix("isomer: broadcast"), said
    assert printed.count("on rank 1") + printed.count("died") == 1, printed
    return first


def test_a_rank_that_exits_with_a_status_is_told_to_the_others_at_once():
    assert ends_badly("sys.exit(3)") == ("isomer: all_reduce of group 0/1: the program has ended with status 3 on rank "
                                         "1")


@pytest.mark.long
def test_mpirun_without_torchs_variables(tmp_path):
    if reason := why_not() or (None if shutil.which("mpirun") else "there is no mpirun"):
        pytest.skip(reason)
    body = "x = torch.ones(1); dist.all_reduce(x); os.write(1, b'sum %d\\n' % int(x)); dist.destroy_process_group()"
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-c", program_of(body)], timeout=120,
                          env=environment_of(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"),
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("sum 2") == 2, done.stdout + done.stderr


def test_an_exception_on_one_rank_ends_all():
    begin = time.monotonic()
    done = run_program("try:\n    if rank == 1: raise KeyError('one rank throws')\n    dist.all_reduce(torch.ones(1))\n"
                       "finally:\n    dist.destroy_process_group()")
    assert done.returncode != 0 and "one rank throws" in done.stderr
    assert time.monotonic() - begin < 60


def test_a_dead_rank_raises_in_wait():
    error = ends_badly("os.kill(os.getpid(), signal.SIGKILL)")
    assert re.fullmatch(r"isomer: all_reduce of group 0/1: rank 1 \(pid \d+ on \S+\) died", error), error


def test_elastic_restart_after_two_deaths():
    done = run_program("attempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                       "for step in range(8):\n"
                       "    x = torch.full((1000,), float(step)); dist.all_reduce(x)\n"
                       "    assert torch.all(x == step * size)\n"
                       "    if rank == 1 and step == 5 and attempt < 2: os.kill(os.getpid(), signal.SIGKILL)\n"
                       "os.write(1, b'attempt %d ends\\n' % attempt)\n"
                       "dist.destroy_process_group()", size=2, max_restarts=2)
    assert done.returncode == 0 and done.stdout.count("attempt 2 ends") == 2, done.stdout + done.stderr
    assert "AssertionError" not in done.stderr


@pytest.mark.long
def test_data_loader_workers_by_fork_and_spawn():
    done = run_program("def main():\n"
                       "    data = torch.utils.data.TensorDataset(torch.arange(64.0))\n"
                       "    for how, workers in (('fork', 2), ('spawn', 1)):\n"
                       "        loader = torch.utils.data.DataLoader(data, 8, num_workers=workers,\n"
                       "                                             persistent_workers=True,\n"
                       "                                             multiprocessing_context=how)\n"
                       "        for _ in range(2):\n"
                       "            total = sum(batch[0].sum() for batch in loader)\n"
                       "            dist.all_reduce(total)\n"
                       "            assert total == 2016 * size\n"
                       "        del loader\n"
                       "    os.write(1, b'loaded\\n')\n"
                       "    dist.destroy_process_group()\n"
                       "main()")
    assert done.returncode == 0 and done.stdout.count("loaded") == 2, done.stdout + done.stderr
