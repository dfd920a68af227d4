# SPDX-License-Identifier: MIT
"""Windows: put, signal, wait_signal, remote tensors, on groups of isomer and beside gloo."""
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

import isomer_shmem as iso  # noqa: E402


def exchange(make_group, is_local):
    """Tensors whose sizes differ between ranks; each rank puts a piece for each other one at a place of its own."""
    group = make_group()
    me, n = dist.get_rank(group), dist.get_world_size(group)
    mine = iso.empty(4 * n + me, local=True) if is_local else iso.empty(4 * n, group=group)
    window = iso.new_window(mine.fill_(-1), group)
    assert window.get_tensor() is mine
    for step in range(20):
        for peer in range(n):
            window.put(torch.full((2, 2), 100.0 * step + me), peer, 4 * me)
            window.signal(peer)
        for peer in range(n):
            window.wait_signal(peer)
            assert mine[4 * peer:4 * peer + 4].eq(100 * step + peer).all(), (step, peer, mine)
        if is_local:
            assert mine[4 * n:].eq(-1).all()
        dist.barrier(group)
    remote = [window.map_remote_tensor(peer) for peer in range(n)]
    assert [len(each) for each in remote] == [4 * n + (peer if is_local else 0) for peer in range(n)]
    assert all(torch.equal(each[4 * me:4 * me + 4], torch.full((4,), 1900.0 + me)) for each in remote)
    dist.barrier(group)
    remote[(me + 1) % n][4 * me] = 7.0
    dist.barrier(group)
    assert mine[4 * ((me - 1) % n)] == 7.0
    del remote
    window.tensor_deregister()
    assert window.get_tensor() is None
    window.tensor_register(mine)
    window.put(mine[:1], me)
    window.tensor_deregister()


def world():
    return dist.group.WORLD


@pytest.mark.parametrize("is_local", [True, False])
def test_pieces_arrive_before_their_signals(ranks, is_local):
    ranks(3, exchange, world, is_local)


def reversed_pair():
    return dist.new_group([1, 0], use_local_synchronization=True)


def test_ranks_count_in_the_group(ranks):
    ranks(2, exchange, reversed_pair, True)


def test_window_of_a_gloo_group(ranks):
    ranks(2, exchange, world, True, backend="gloo")


def counts():
    """Signals are counted, so none is lost that comes early; a work waits in wait()."""
    me = dist.get_rank()
    window = dist.group.WORLD.new_window(iso.zeros(4, dtype=torch.int64))
    if me == 0:
        works = [window.put(torch.tensor([5]), 1, 3, async_op=True)]
        works += [window.signal(1, async_op=True) for _ in range(3)]
        assert all(work.is_completed() and work.wait() for work in works)
    dist.barrier()
    if me == 1:
        for _ in range(2):
            window.wait_signal(0)
        work, missing = (window.wait_signal(0, async_op=True) for _ in range(2))
        assert work.is_completed() and work.wait() and window.get_tensor()[3] == 5
        assert not missing.is_completed()
        begin = time.monotonic()
        with pytest.raises(iso.IsomerError, match="the signal is 3, not >= 4"):
            missing.wait(timedelta(seconds=0.3))
        assert time.monotonic() - begin < 10
    dist.barrier()
    if me == 0:
        window.signal(1)
    else:
        missing.wait()
    window.tensor_deregister()


def test_signals_are_counted_and_works_wait(ranks):
    ranks(2, counts)


def refusals():
    me = dist.get_rank()
    window = iso.new_window()
    with pytest.raises(ValueError, match="put: the window has no tensor; call tensor_register"):
        window.put(torch.ones(1), 0)
    with pytest.raises(ValueError, match="the tensor of rank 1 is not contiguous memory of the library"):
        window.tensor_register(iso.empty(4, local=True) if me == 0 else torch.ones(4))
    with pytest.raises(ValueError, match="4 bytes on rank 0 and 8 on rank 1"):
        window.tensor_register(iso.empty(4, local=True, dtype=torch.float32 if me == 0 else torch.float64))
    window.tensor_register(iso.empty(4 + me, local=True))
    for call in (lambda: window.put(torch.ones(1), 2), lambda: window.signal(-1), lambda: window.wait_signal(2),
                 lambda: window.map_remote_tensor(2)):
        with pytest.raises(ValueError, match="rank (2|-1) is outside 0..1"):
            call()
    with pytest.raises(ValueError, match="2 elements at 4 are outside of the 5 of rank 1"):
        window.put(torch.ones(2), 1, 4)
    with pytest.raises(ValueError, match="1 elements at -1 are outside"):
        window.put(torch.ones(1), 1, -1)
    with pytest.raises(ValueError, match="the tensor has torch.int32 and the window torch.float32"):
        window.put(torch.ones(1, dtype=torch.int32), 1)
    with pytest.raises(ValueError, match="the window has a tensor"):
        window.tensor_register(window.get_tensor())
    window.put(torch.empty(0), 1, 5)
    window.tensor_deregister()


def test_refusals_name_what_is_wrong(ranks):
    ranks(2, refusals)
