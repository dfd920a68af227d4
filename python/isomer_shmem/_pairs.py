# SPDX-License-Identifier: MIT
"""Sends and receives between the members of a team.

Messages from one member to another with one tag are a channel: a team of these two PEs, made at the first message. So
channels never wait for each other, and for no collective. Short messages go through a ring in the receiver's memory:
their sends end at once while there is room, and receives of what has come do, so that neither needs another thread.
A long message is one call of the channel's team. Each member tells its peers by a word in their memory how many
messages of a channel it has begun to send, and how many to receive: a channel's team is made when both have come, and a
receive from any source looks where something has been sent.
"""
import hashlib
import threading
import time
import weakref
from ctypes import CDLL, byref, c_int, c_uint64, c_void_p, memmove, memset

from . import _lib
from ._core import Core, copy_into, plain, plain_dest
from ._work import Sequence

TAGS = 8  # 0 .. 7; larger ones are gloo's
WORD = 8
NOWHERE, FAR = 2 ** 64 - 1, 2 ** 64 - 2  # of a member's words: it has none, or not all members reach them
SENT, RECEIVED = 0, 1
TEAM_WORLD = 1
ENTRIES, ENTRY_BYTES = 4, 64 << 10  # of a ring; one message takes several entries, at most all
SHORT_BYTES = ENTRIES * ENTRY_BYTES
LENGTH_BITS = 20  # of an entry's word: its number, and the bytes of the message that begins there
LONG = (1 << LENGTH_BITS) - 1  # instead of the bytes: the message is a call of the team
WORD_STEP, DATA_AT = 64, 512  # words of a ring lie in cache lines of their own, in front of the entries
SPINS = 20  # looks at a word before the processor is given to others
PATIENCE_SECONDS = 0.001  # in which short messages are left to the thread that waits for them
give_processor = CDLL(None).sched_yield


class Pairs:
    """The words of a team, and the channels' teams. Lives as long as the team: later groups of the same PEs go on."""

    def __init__(self, world, pes, tag):
        self.world, self.pes, self.tag = world, pes, tag
        self.me = pes.index(world.pe)
        self.channels, self.counts = {}, {}  # by (from, to, tag)
        self.lock, self.lease = threading.Lock(), None  # of the group that has the team now: a weak reference
        self.rings = {}  # of the file pool: by bytes
        self.at_one_place, self.has_room = set(), True  # the addresses of the rings' buffers; False: no more of these
        self.place, self._of, self.is_near = NOWHERE, [None] * len(pes), False
        nbytes = self.nbytes()[0]
        own = world.lib.shmemx_local_malloc(nbytes, _lib.HOST_MEMORY)
        self.refusal = None if own else world.last_error()  # no error here: the other members are in the team, too
        if not own:
            return
        memset(own, 0, nbytes)
        world.check(world.lib.shmemx_keep(own))  # counts and short messages outlast suspend()
        world.own_word = world.own_word or own
        offset = c_uint64()
        world.check(world.lib.shmemx_offset_of(own, byref(offset)))
        # else another node's memory has no address here, and gloo does it all
        self._of = [self._address(pe, offset.value) for pe in pes]
        self.place = offset.value if all(self._of) else FAR

    def _address(self, pe, place):
        """None where loads and stores do not reach it."""
        return self.world.lib.shmem_ptr(self.world.lib.shmemx_at_offset(pe, place), pe)

    def nbytes(self):
        """(of the words, of the channels' rings)"""
        return 2 * len(self.pes) * TAGS * WORD, len(self.channels) * (DATA_AT + SHORT_BYTES)

    def meet(self, places):
        """Takes the places that the members have told. False: a member has no words."""
        self.is_near = FAR not in places
        if self.is_near:  # most places are equal on all members
            self._of = [known if place == self.place else self._address(pe, place)
                        for known, pe, place in zip(self._of, self.pes, places)]
        return NOWHERE not in places

    def word(self, at, which, peer, tag):
        """In member `at`'s memory, written by `peer` alone."""
        return c_uint64.from_address(self._of[at] + ((which * len(self.pes) + peer) * TAGS + tag) * WORD)

    def has_come(self, which, peer, tag):
        return self.word(self.me, which, peer, tag).value

    def begin(self, channel):
        """This member has come to its next message of the channel: the Channel, made when the peer has come."""
        lease = self.lease()
        lease.check_usable()  # a forked child must not write into a peer's memory
        source, dest, tag = channel
        which, peer = (SENT, dest) if source == self.me else (RECEIVED, source)
        self.counts[channel] = count = self.counts.get(channel, 0) + 1
        self.word(peer, which, self.me, tag).value = count
        if channel not in self.channels:
            wait(lease.check_alive, lambda: self.has_come(1 - which, peer, tag))
            lease.check_alive()  # the peer's word may be of a call that has ended with the group
            self.channels[channel] = Channel(self._pair(channel))
        return self.channels[channel]

    def _pair(self, channel):
        pes = tuple(self.pes[member] for member in channel[:2])
        name = repr((self.tag, pes, channel[2])).encode()
        tag = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1
        team = c_void_p()
        self.world.check(self.world.lib.shmemx_team_create((c_int * 2)(*pes), 2, c_uint64(tag), byref(team)))
        return Pair(self, pes, team)


def wait(check_alive, condition):
    """condition()'s value, once it is true. check_alive() raises where it will not be."""
    for _ in range(SPINS):
        if value := condition():
            return value
    pause, value, end = 0, condition(), time.monotonic() + PATIENCE_SECONDS
    while not value:
        if time.monotonic() < end:
            give_processor()
        else:
            time.sleep(min(pause, 1000) / 1e6)
            check_alive()
            pause += 20
        value = condition()
    return value


class Channel:
    """Messages from PE 0 of a pair to PE 1. `number` entries of the ring have been used, and `freed` of them again.

    Word i says what is in entry i; the word behind them, in the sender's memory, says how many entries are free again.
    """

    def __init__(self, pair):
        self.world, self.core, self.number, self.freed = pair.world, Core(pair), 0, 0
        self._pair = pair
        self._receiver, self._sender = pair.pes[1], pair.pes[0]
        lib = self.world.lib
        self._fetch, self._set, self._put = lib.shmem_signal_fetch, lib.shmem_signal_set, lib.shmem_putmem_signal
        self._ring = self.world.check_address(
            lib.shmemx_team_malloc(pair.team, DATA_AT + SHORT_BYTES, _lib.HOST_MEMORY))
        self.world.check(lib.shmemx_keep(self._ring))
        self._words = [self._ring + WORD_STEP * entry for entry in range(ENTRIES)]
        self._data = [self._ring + DATA_AT + ENTRY_BYTES * entry for entry in range(ENTRIES)]
        self._freed_word = self._ring + WORD_STEP * ENTRIES

    def has_room(self, nbytes):
        """Whether a send of a message waits for nothing."""
        return nbytes <= SHORT_BYTES and self._is_free(entries_of(nbytes))

    def _is_free(self, entries):
        if self.number + entries - self.freed > ENTRIES:
            self.freed = self._fetch(self._freed_word)
        return self.number + entries - self.freed <= ENTRIES

    def send(self, values):
        nbytes, address = values.nbytes, values.data_ptr()
        if nbytes > SHORT_BYTES:
            wait(self._pair.check_alive, lambda: self._is_free(1))
            self._store(self._ring, 0, LONG)
            self.core.exchange([None] * 2, [None, values])
            return
        wait(self._pair.check_alive, lambda: self._is_free(entries_of(nbytes)))
        self._store(address, min(nbytes, ENTRY_BYTES), nbytes)
        for at in range(ENTRY_BYTES, nbytes, ENTRY_BYTES):
            self._store(address + at, min(nbytes - at, ENTRY_BYTES), 0)

    def _store(self, address, nbytes, length):
        """Fills the next entry. A put of no bytes is a signal alone, and its address is not looked at."""
        entry, self.number = self.number % ENTRIES, self.number + 1
        self._put(self._data[entry], address or self._ring, nbytes, self._words[entry],
                  self.number << LENGTH_BITS | length, _lib.SIGNAL_SET, self._receiver)

    def _next(self):
        """The next entry's word when it is there, else 0. Words that are there may be of the round before."""
        word = self._fetch(self._words[self.number % ENTRIES])
        return word if word >> LENGTH_BITS > self.number else 0

    def has_come(self):
        """Whether a receive waits for nothing."""
        word = self._next()
        return word != 0 and word & LONG != LONG

    def receive(self, result):
        nbytes, address = result.nbytes, result.data_ptr()
        length = wait(self._pair.check_alive, self._next) & LONG
        if length == LONG:
            self._free(1)
            self.core.exchange([result, None], [None] * 2)
            return
        if length != nbytes:
            lease = self._pair.lease()
            lease.abort(self.world.in_words(f"the length of pe {self._receiver}'s tensor is {nbytes}, but pe "
                                            f"{self._sender} sends {length} bytes"))
            lease.check_usable()
        for at in range(0, max(nbytes, 1), ENTRY_BYTES):
            wait(self._pair.check_alive, self._next)
            memmove(address + at, self._data[self.number % ENTRIES], min(nbytes - at, ENTRY_BYTES))
            self._free(1)

    def _free(self, entries):
        self.number += entries
        self._set(self._freed_word, self.number, self._sender)


def entries_of(nbytes):
    return max(1, -(-nbytes // ENTRY_BYTES))


class Pair:
    """The team of a channel: member 0 sends to member 1. Its errors are those of the group that has the Pairs now."""

    def __init__(self, pairs, pes, team):
        self.world, self.pes, self.team, self._pairs = pairs.world, pes, team, weakref.ref(pairs)

    def lease(self):
        return self._pairs().lease()

    @property
    def broken(self):
        return self.lease().broken

    def check_usable(self):
        self.lease().check_usable()

    def check_alive(self):
        self.lease().check_alive()

    def check_call(self, status):
        self.lease().check_call(status)


class PointToPoint:
    """The sends and receives of one group."""

    def __init__(self, lease, limit):
        self._pairs, self._lease, self._limit = lease.pairs, lease, limit
        self._sequences = {}  # by channel; by tag for receives from any source
        self._taken = {}  # by channel: messages that a receive has been called for
        self._lock = threading.Lock()

    def takes(self, tag):
        """The same on all members."""
        return self._pairs.is_near and 0 <= tag < TAGS

    def message(self, name, tensor, peer, tag):
        """"send" or "recv"."""
        with self._lock:
            if name == "send":
                return self._send(tensor, (self._pairs.me, peer, tag))
            return self._receive(tensor, (peer, self._pairs.me, tag))

    def _send(self, tensor, channel):
        def body(_):
            self._pairs.begin(channel).send(plain(tensor))

        def is_ready():
            made = self._pairs.channels.get(channel)
            return made is not None and made.has_room(tensor.nbytes)
        return self._run("send", channel, body, tensor, is_ready)

    def _receive(self, tensor, channel):
        def body(_):
            result = plain_dest(tensor)
            self._pairs.begin(channel).receive(result)
            copy_into(tensor, result)

        def is_ready():
            made = self._pairs.channels.get(channel)
            return made is not None and made.has_come()
        self._taken[channel] = self._count(channel) + 1
        return self._run("recv", channel, body, tensor, is_ready)

    def receive_from_any(self, tensor, tag):
        def body(_):
            work = wait(self._lease.check_alive, lambda: self._receive_what_has_come(tensor, tag, sources))
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

    def _run(self, name, key, body, tensor, is_ready=None):
        sequence = self._sequences.get(key)
        if sequence is None:
            ranks = "any"
            if not isinstance(key, int):
                ranks = self._lease.world.names([self._pairs.pes[member] for member in key[:2]])
            sequence = self._sequences[key] = Sequence(ranks, self._lease.abort_here, self._limit)
        patience = PATIENCE_SECONDS if is_ready is not None and tensor.nbytes <= SHORT_BYTES else 0.0
        return sequence.run(name, body, [tensor], None, True, is_ready, patience)

    def after_fork(self):
        """In a child, whose parent's other threads may have been in a call."""
        self._lock = threading.Lock()
        for sequence in self._sequences.values():
            sequence.after_fork()

    def close(self, seconds):
        """Takes no more calls, and waits for those that it has: True when all ended in time."""
        deadline = time.monotonic() + seconds
        return all([sequence.close(max(0.0, deadline - time.monotonic())) for sequence in self._sequences.values()])
