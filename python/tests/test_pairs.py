# SPDX-License-Identifier: MIT
"""Sends and receives: orders, tags, layouts, any source, beside collectives, and their errors."""
import os
import random
import time
import warnings
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402

from conftest import tell, wait_for  # noqa: E402

LENGTHS = (0, 1, 7, 1000, 8193, 70001)
DTYPES = (torch.float32, torch.uint8, torch.bfloat16, torch.int64, torch.complex64, torch.bool)


def message(number, length, dtype):
    return ((torch.arange(length) + number) % 5).to(dtype)


def traffic(rounds):
    """Random messages between all ranks with several tags, all under way at once, called in different orders."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for number in range(rounds):
        common, own = random.Random(number), random.Random(number * 10 + rank)
        messages = [(*common.sample(range(size), 2), common.randrange(3), common.choice(LENGTHS), common.choice(DTYPES))
                    for _ in range(common.randrange(1, 16))]
        mine = [(index, each) for index, each in enumerate(messages) if rank in each[:2]]
        channels = list({each[:3] for _, each in mine})
        own.shuffle(channels)  # messages of a channel keep their order
        works, received = [], []
        for channel in channels:
            for index, (source, dest, tag, length, dtype) in mine:
                if (source, dest, tag) != channel:
                    continue
                values, strided = message(index, length, dtype), own.random() < 0.5
                memory = torch.zeros(2 * length, dtype=dtype)
                tensor = memory[::2] if strided else torch.zeros(length, dtype=dtype)
                if source == rank:
                    tensor.copy_(values)
                    works.append(dist.isend(tensor, dest, tag=tag))
                else:
                    works.append(dist.irecv(tensor, source, tag=tag))
                    received.append((tensor, values, memory))
        total = torch.tensor([rank])
        dist.all_reduce(total)  # collectives do not wait for messages
        assert total == size * (size - 1) // 2
        own.shuffle(works)
        for work in works:
            assert isinstance(work, dist.Work) and work.wait() and work.is_completed()
        for tensor, values, memory in received:
            assert torch.equal(tensor, values) and not memory[1::2].any()


@pytest.mark.parametrize("size", (2, 3, 4))
def test_messages_of_all_ranks_and_tags(ranks, size):
    ranks(size, traffic, 25)


def ring():
    rank, size = dist.get_rank(), dist.get_world_size()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for length in LENGTHS:
            got, sent = torch.full((length,), -1.0), torch.full((length,), float(rank))
            pair = [dist.P2POp(dist.isend, sent, (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)]
            for work in dist.batch_isend_irecv(pair if rank % 2 else pair[::-1]):
                work.wait()
            assert torch.all(got == (rank - 1) % size)
        for length in LENGTHS:  # blocking, even ranks first
            got, sent = torch.full((length,), -1.0), torch.full((length,), float(rank))
            if rank % 2 == 0:
                dist.send(sent, (rank + 1) % size)
                dist.recv(got, (rank - 1) % size)
            else:
                dist.recv(got, (rank - 1) % size)
                dist.send(sent, (rank + 1) % size)
            assert torch.all(got == (rank - 1) % size)
        assert not caught, [str(each.message) for each in caught]
        group = dist.new_group([1, 0])  # ranks in a group differ from those of the world
        if rank < 2:
            got = torch.zeros(3)
            works = [dist.isend(torch.full((3,), 1.0 + rank), 1 - rank, group=group),
                     dist.irecv(got, 1 - rank, group=group)]
            [work.wait() for work in works]
            assert torch.all(got == 2 - rank)
        dist.barrier()
        assert not any("send and recv" in str(each.message) for each in caught)
        got = torch.zeros(3)
        for tag in (8, 12345):  # gloo's, with one warning
            works = [dist.isend(torch.full((3,), 7.0 * rank), (rank + 1) % size, tag=tag),
                     dist.irecv(got, (rank - 1) % size, tag=tag)]
            [work.wait() for work in works]
            assert torch.all(got == 7 * ((rank - 1) % size))
        mine, apart = torch.arange(12.0).view(4, 3).t() + rank, [torch.zeros(3, 8)[:, ::2] for _ in range(3)]
        sent = dist.isend(mine, (rank + 1) % size, tag=9), dist.isend(mine, (rank + 1) % size, tag=10)
        works = [dist.irecv(apart[i], (rank - 1) % size, tag=9 + i) for i in range(2)]
        [work.wait() for work in (*works, *sent)]
        dist.send(mine, (rank + 1) % size, tag=11) if rank == 0 else dist.recv(apart[2], rank - 1, tag=11)
        dist.recv(apart[2], size - 1, tag=11) if rank == 0 else dist.send(mine, (rank + 1) % size, tag=11)
        for tensor in apart:
            assert torch.equal(tensor, torch.arange(12.0).view(4, 3).t() + (rank - 1) % size)
    assert len([each for each in caught if "for tags 0 to 7" in str(each.message)]) == 1
    with pytest.raises(NotImplementedError, match=r"the tag is 8; it must be in 0\.\.7, or name the source"):
        dist.recv(torch.zeros(3), tag=8)


def test_rings_groups_and_large_tags(ranks):
    ranks(4, ring)


def short_sends():
    """Sends end without the receiver while the ring has room; then the messages wait for it, in their order."""
    lengths, rank = (0, 1, 60000, 65536, 65537, 200000, 262144, 262145, 3), dist.get_rank()
    gloo = dist.new_group(backend="gloo")
    messages = [(torch.arange(length) + length).to(torch.uint8) for length in lengths * 3]
    if rank == 0:
        dist.send(torch.ones(1), 1)  # the channel's first message
        dist.barrier(gloo)  # it has left the ring
        for _ in range(5):
            short = [dist.isend(torch.full((1000,), number), 1) for number in range(4)]
            assert all(work.is_completed() for work in short)
            dist.barrier(gloo)
            dist.barrier(gloo)
        works = [dist.isend(each, 1) for each in messages]
        assert not works[-1].is_completed()
        dist.barrier(gloo)
        [work.wait() for work in works]
        work = dist.isend(messages[1], 1)
        dist.barrier(gloo)
    else:
        dist.recv(torch.empty(1), 0)
        dist.barrier(gloo)
        for _ in range(5):
            dist.barrier(gloo)
            got = [torch.empty(1000, dtype=torch.int64) for _ in range(4)]
            works = [dist.irecv(each, 0) for each in got]
            assert all(work.is_completed() for work in works)
            assert all(torch.all(each == number) for number, each in enumerate(got))
            dist.barrier(gloo)
        dist.barrier(gloo)
        got = [torch.zeros_like(each) for each in messages]
        works = [dist.irecv(each, 0) for each in got]
        [work.wait() for work in works]
        assert all(map(torch.equal, got, messages))
        work = dist.irecv(got[1].zero_(), 0)
        dist.barrier(gloo)
        deadline = time.monotonic() + 20
        while not work.is_completed() and time.monotonic() < deadline:  # without a wait, too
            time.sleep(0.001)
        assert torch.equal(got[1], messages[1])


def test_short_sends_end_while_there_is_room(ranks):
    ranks(2, short_sends)


def any_source():
    rank, size = dist.get_rank(), dist.get_world_size()
    rounds = 12
    if rank == 0:
        seen = {source: 0 for source in range(1, size)}
        for number in range(rounds * (size - 1)):
            tensor = torch.full((5,), -1)
            if number == 3:  # one that names its source in between
                source, taken = 1, dist.recv(tensor, 1, tag=2)
                assert taken == 1
            else:
                source = dist.recv(tensor, tag=2)
            assert torch.all(tensor == 1000 * source + seen[source])
            seen[source] += 1
        assert seen == {source: rounds for source in range(1, size)}
        tensor = torch.empty(0)
        assert dist.recv(tensor, tag=3) == 1
    else:
        for number in range(rounds):
            dist.send(torch.full((5,), 1000 * rank + number), 0, tag=2)
        if rank == 1:
            dist.send(torch.empty(0), 0, tag=3)


def test_any_source_gives_each_message_once(ranks):
    ranks(3, any_source)


def again():
    """Groups of the same ranks take the same teams again, and their messages go on."""
    rank = dist.get_rank()
    pairs = dist.group.WORLD.lease.world
    for number in range(5):
        group = dist.new_group([0, 1])
        tensor = torch.full((4,), float(number + rank))
        if rank == 0:
            dist.send(tensor, 1, group=group)
        else:
            tensor.fill_(-1)
            assert dist.recv(tensor, group=group) == 0
            assert torch.all(tensor == number)
        dist.destroy_process_group(group)
        assert len(pairs.free_teams[0, 1]) == 1


def test_later_groups_go_on(ranks):
    ranks(2, again)


def wrong_length():
    rank = dist.get_rank()
    if rank == 0:
        try:
            dist.send(torch.ones(9), 1)
            dist.barrier()
        except dist.DistBackendError:
            pass
    else:
        with pytest.raises(dist.DistBackendError, match="is 20, but rank 0 sends 36 bytes"):
            dist.recv(torch.ones(5), 0)


def test_a_receive_of_another_length_raises(ranks):
    ranks(2, wrong_length)


def never_sent():
    dist.init_process_group("isomer", timeout=timedelta(seconds=4))
    dist.barrier()
    if dist.get_rank() == 1:
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="recv of group .* has passed its timeout of 4 s"):
            dist.recv(torch.ones(4), 0)
        assert 3 < time.monotonic() - begin < 60
        tell("has raised")
    else:
        wait_for("has raised", [1])
    dist.destroy_process_group()


def test_a_receive_of_nothing_raises_after_the_timeout(ranks):
    ranks(2, never_sent, backend=None)


def deserted(first):
    """`first` messages come before the sender dies; the receiver learns of its death within seconds."""
    dist.barrier()  # rank 0 has the store, from which rank 1 may still read at the end of its start
    for _ in range(first):
        dist.send(torch.ones(4), 1) if dist.get_rank() == 0 else dist.recv(torch.empty(4), 0)
    if dist.get_rank() == 0:
        os.kill(os.getpid(), 9)
    begin = time.monotonic()
    try:
        dist.recv(torch.empty(4), 0)
    except dist.DistBackendError as error:
        print(f"{time.monotonic() - begin:.1f} s: {error}", flush=True)
    os._exit(1)


@pytest.mark.parametrize("first", (0, 1))
def test_a_receive_from_a_dead_rank_raises(ranks, capfd, first):
    with pytest.raises(AssertionError):
        ranks(2, deserted, first)
    assert "rank 0" in (said := capfd.readouterr().out) and "died" in said


def far():
    from isomer_shmem import _pairs, _world

    class Far(_world.Pairs):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.place = _pairs.FAR

    if os.environ["RANK"] == "1":
        _world.Pairs = Far
    dist.init_process_group("isomer")
    rank, tensor = dist.get_rank(), torch.zeros(3)
    with pytest.warns(UserWarning, match="groups on one node; gloo does it"):
        works = [dist.isend(torch.full((3,), 1.0 + rank), 1 - rank), dist.irecv(tensor, 1 - rank)]
    [work.wait() for work in works]
    assert torch.all(tensor == 2 - rank)


def test_all_ranks_take_gloo_when_one_does_not_reach_another(ranks):
    ranks(2, far, backend=None)
