# SPDX-License-Identifier: MIT
"""Sends and receives between the members of a team.

Messages from one member to another with one tag are a channel: a team of these two PEs, made at the first message,
whose calls move one message each. So channels never wait for each other, and for no collective. Each member tells its peers
by a word in their memory how many messages of a channel it has begun to send, and how many to receive: a channel's team
is made when both have come, and a receive from any source looks where something has been sent.
"""
import hashlib
import threading
import time
from ctypes import byref, c_int, c_uint64, c_void_p

from . import _lib
from ._core import Core, copy_into, plain, plain_dest
from ._work import Sequence

TAGS = 8  # 0 .. 7; larger ones are gloo's
WORD = 8
SENT, RECEIVED = 0, 1
TEAM_WORLD = 1


class Pairs:
    """The words of a team, and the channels' teams. Lives as long as the team: later groups of the same PEs go on."""

    def __init__(self, world, pes, tag, team):
        self.world, self.pes, self.tag = world, pes, tag
        self.me, n = pes.index(world.pe), len(pes)
        self.cores, self.counts = {}, {}  # by (from, to, tag)
        self.lock = threading.Lock()
        self.rings, self.stages = {}, {}  # of the file pool: by bytes; by kind of call
        self.at_one_place = set()  # the addresses of the rings' buffers
        nbytes = 2 * n * TAGS * WORD
        self._own = world.lib.shmemx_team_malloc(team, nbytes, _lib.HOST_MEMORY)
        if not self._own:
            _lib.check(1, "shmemx_team_malloc")
        self._of = [world.lib.shmem_ptr(self._own, pe) for pe in pes]
        self.is_near = all(self._of)  # else another node's memory has no address here, and gloo does it all

    def word(self, at, which, peer, tag):
        """In member `at`'s memory, written by `peer` alone."""
        return c_uint64.from_address(self._of[at] + ((which * len(self.pes) + peer) * TAGS + tag) * WORD)

    def has_come(self, which, peer, tag):
        return self.word(self.me, which, peer, tag).value

    def begin(self, channel):
        """This member has come to its next message of the channel. Its Core, which is made when the peer has come."""
        self.world.check_usable()  # a forked child must not write into a peer's memory
        source, dest, tag = channel
        which, peer = (SENT, dest) if source == self.me else (RECEIVED, source)
        self.counts[channel] = count = self.counts.get(channel, 0) + 1
        self.word(peer, which, self.me, tag).value = count
        if channel not in self.cores:
            self.wait(lambda: self.has_come(1 - which, peer, tag))
            self.cores[channel] = Core(self._pair(channel))
        return self.cores[channel]

    def wait(self, condition):
        """condition()'s value, once it is true. Ends when the job breaks."""
        pause, value = 0, condition()
        while not value:
            time.sleep(min(pause, 1000) / 1e6)
            self.world.check_alive(TEAM_WORLD)
            pause, value = pause + 20, condition()
        return value

    def _pair(self, channel):
        pes = tuple(self.pes[member] for member in channel[:2])
        name = repr((self.tag, pes, channel[2])).encode()
        tag = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1
        team = c_void_p()
        _lib.check(self.world.lib.shmemx_team_create((c_int * 2)(*pes), 2, c_uint64(tag), byref(team)),
                   "shmemx_team_create")
        return Pair(self.world, pes, team)


class Pair:
    """The team of a channel: member 0 sends to member 1."""

    def __init__(self, world, pes, team):
        self.world, self.pes, self.team = world, pes, team


class PointToPoint:
    """The sends and receives of one group. `seconds` is a function: how long a call may last."""

    def __init__(self, lease, seconds):
        self._pairs, self._abort, self._seconds = lease.pairs, lease.world.abort, seconds
        self._sequences = {}  # by channel; by tag for receives from any source
        self._taken = {}  # by channel: messages that a receive has been called for
        self._lock = threading.Lock()

    def takes(self, tag):
        """The same on all members."""
        return self._pairs.is_near and 0 <= tag < TAGS

    def send(self, tensor, peer, tag):
        def body():
            self._pairs.begin(channel).exchange([None] * 2, [None, plain(tensor)])
        channel = self._pairs.me, peer, tag
        with self._lock:
            return self._run("send", channel, body, tensor)

    def receive(self, tensor, peer, tag):
        with self._lock:
            return self._receive(tensor, (peer, self._pairs.me, tag))

    def _receive(self, tensor, channel):
        def body():
            result = plain_dest(tensor)
            self._pairs.begin(channel).exchange([result, None], [None] * 2)
            copy_into(tensor, result)
        self._taken[channel] = self._count(channel) + 1
        return self._run("recv", channel, body, tensor)

    def receive_from_any(self, tensor, tag):
        def body():
            work = self._pairs.wait(lambda: self._receive_what_has_come(tensor, tag, sources))
            work.wait()
        sources = []
        with self._lock:
            work = self._run("recv", tag, body, tensor)
        work.sources = sources
        return work

    def _receive_what_has_come(self, tensor, tag, sources):
        """The work of a receive, or None: nothing has come that no other receive was called for."""
        me = self._pairs.me
        with self._lock:
            for peer in range(len(self._pairs.pes)):
                if peer != me and self._pairs.has_come(SENT, peer, tag) > self._count((peer, me, tag)):
                    sources.append(peer)
                    return self._receive(tensor, (peer, me, tag))
        return None

    def _count(self, channel):
        return self._taken.get(channel, self._pairs.counts.get(channel, 0))

    def _run(self, name, key, body, tensor):
        sequence = self._sequences.get(key)
        if sequence is None:
            pes = "any" if isinstance(key, int) else "/".join(str(self._pairs.pes[member]) for member in key[:2])
            sequence = self._sequences[key] = Sequence(pes, self._abort)
        return sequence.run(name, body, [tensor], self._seconds(), True)

    def close(self, seconds):
        """Takes no more calls, and waits for those that it has: True when all ended in time."""
        deadline = time.monotonic() + seconds
        return all([sequence.close(max(0.0, deadline - time.monotonic())) for sequence in self._sequences.values()])
