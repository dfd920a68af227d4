# SPDX-License-Identifier: MIT
"""The one job of this process, and the teams in it.

A process is in one job at a time. The first group starts it, through the group's store; later groups become teams of it.
The last group that is destroyed ends it, and so does the end of the program. Teams are kept and used again, because the
end of a team is collective and the end of a torch group is not.
"""
import atexit
import ctypes
import errno
import functools
import json
import multiprocessing.util
import os
import re
import sys
import threading
import time
import traceback
import weakref
from array import array
from ctypes import byref, c_uint64, c_void_p
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import PrefixStore

from . import _lib, _work
from ._core import Core
from ._lib import IsomerError
from ._pairs import TEAM_WORLD, Pairs

FEW_QUEUES = 4
EXIT_SECONDS = 10.0  # how long other PEs are waited for where one may not come: most of all at the end of a program

_lock = threading.RLock()
_world = None
_cores = weakref.WeakSet()  # groups of this process that are not destroyed
_has_exit_hook = False
_exit_status = None  # of sys.exit
_last_store = None  # of the job that has ended, until the next one


# What the library says, in words of torch: (what is found, what stands for it).
_CAUSE = re.compile(r"^.*(?:the job (?:was broken [\d.]+ s ago|is broken)|this team was broken by pe \d+): |"
                    r"; call shmemx_leave$")
_CALL_NAMES = re.compile(r"^(?:shmemx?_\w+(?:, SHMEMX_\w+)?: )+| by shmemx_leave\b")
_MESSAGE = re.compile(r"^shmemx_(?:signal_)?(send|recv|wait)(?:_until)?_on_stream has")
_PES = re.compile(r"\bpe(s?)\b(?: (\d+))?", re.IGNORECASE)


def compares_calls():
    """Are calls on streams compared between ranks? It is asked for as other backends are."""
    return os.environ.get("ISOMER_CHECK") == "1" or os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


class World:
    """A running job. name is equal on its PEs and on no other job; ranks are those of its PEs in the default group.
    seconds: how long a kernel may wait that is in a call of no group."""

    def __init__(self, name, pe, ranks, uniqueid, is_one_node, seconds):
        self.name, self.pe, self.ranks, self.size = name, pe, ranks, len(ranks)
        self.pid, self.seconds = os.getpid(), seconds
        self._broken, self.alive = None, set()  # its leases that are not closed
        self.has_lost_teams = False  # a group has broken and the job has not
        self.free_teams = {}  # PE numbers: {tag: (team, its Pairs)}
        self.leases = 0
        self.own_word = None  # an address in its memory
        self.symmetric = {}  # address of a symmetric tensor: weak reference to its memory
        self.at_end = []  # functions of this world
        self.streams = None  # of its device; see _stream.streams_of
        self.limits = {}  # leases with calls on streams: time limit in seconds
        self.lib, self.device = _lib.load(), _lib.flavour()
        self.device_number, self._has_device = self._own_device(), False
        self._start(uniqueid, is_one_node)
        self._looks = threading.Lock()  # the watch is in the library
        _work.watch.add(self)

    @property
    def broken(self):
        """Why no call of any group works any more, or None."""
        return self._broken

    @broken.setter
    def broken(self, reason):
        self._broken = reason
        for lease in list(self.alive):
            lease.broken = lease.broken or reason

    def _start(self, uniqueid, is_one_node):
        if compares_calls():
            os.environ["SHMEM_DEBUG"] = "1"
            os.environ.setdefault("SHMEM_LOG", "warn")
        ident = _lib.UniqueId.from_buffer_copy(bytes.fromhex(uniqueid))
        attr = _lib.InitAttr(ctypes.sizeof(_lib.InitAttr), self.pe, self.size, ctypes.pointer(ident),
                             _lib.THREAD_MULTIPLE, 0, self.device_number, 0, 0, 0,
                             self.seconds + 1, _lib.ERRORS_RETURN)  # groups' calls on the host have ended by then
        _lib.check(self.lib.shmemx_init_attr(byref(attr)), "shmemx_init_attr")
        try:
            if self.device != "cpu" or not is_one_node:  # its thread serves other nodes while the program computes
                self.start_device()
            if attr.provided < _lib.THREAD_MULTIPLE:
                raise IsomerError("the library runs already, without SHMEM_THREAD_MULTIPLE")
        except IsomerError:
            self.lib.shmemx_leave()
            raise

    def _own_device(self):
        """torch's current GPU, where the library and torch have one; else -1: the library's choice."""
        import torch
        return torch.cuda.current_device() if self.device != "cpu" and torch.cuda.is_available() else -1

    def start_device(self):
        """Starts the device, if it has not started. Collective over the job. A GPU starts with the job, and so
        does the CPU as a device on several nodes. On one node it starts when kernels need it: most programs have
        none."""
        if not self._has_device:
            _lib.check(self.lib.shmemx_device_init(), "shmemx_device_init")
            self._has_device = True

    def finish_calls(self):
        """Waits for the calls of all groups, but for sends and receives."""
        for group in list(_cores):
            if group.is_open() and group.lease.broken is None:
                group.run_now("suspend", lambda _: None)

    def check_time(self):
        """By the watch: a PE that has died or left is noticed while this one is in no call, and before a call of shmem.h
        that would end this process; kernels that wait too long are ended. Asks the device nothing, so it is allowed
        during captures."""
        error = _lib.DeviceError()
        while True:
            with self._looks:
                if self.broken is not None:
                    return
                if not self._has_device:
                    self.lib.shmemx_status(TEAM_WORLD, 0, None)  # looks at the other PEs, as a device's thread does
                if self.is_broken():
                    reason = self.last_error()
                    break
                if not self._has_device or self.lib.shmemx_device_error(byref(error)) != 1:
                    return
            self._end_wait(error)
        self.abort(reason)

    def need_device(self, name, pes):
        """The device for a call `name` of a group of `pes`; without one, only a group of the whole job can start it."""
        if not self._has_device and len(pes) != self.size:
            raise IsomerError(f"{name}: the CPU has not started as a device for kernels; call isomer_shmem.prepare() on "
                              "all ranks first")
        self.start_device()

    def check_usable(self):
        """Raises where no call may be made: a forked child, a job that has ended or broken."""
        if self.broken is not None:
            raise IsomerError(self.broken)

    def check_alive(self, team=TEAM_WORLD):
        """check_usable, and raises when another PE has died; for loops that wait without the library."""
        self.check_usable()
        # shmemx_status tells of kernels that gave up; a call that is no description fails once the job is broken
        if self.lib.shmemx_status(team, 0, None) != 0 or self.is_broken():
            self.abort(self.last_error())
            raise IsomerError(self.broken)

    def is_broken(self):
        return self.own_word and self.lib.shmemx_offset_of(self.own_word, byref(c_uint64())) != 0

    def last_error(self):
        """The sentence of this thread's last call that failed, or why the job is broken."""
        sentence = _lib.text_of(self.lib.shmemx_error_text)
        if self.is_broken():
            sentence = _lib.text_of(self.lib.shmemx_error_text)
        return self.in_words(sentence) or "a wait gave up"

    def in_words(self, sentence):
        """A sentence of the library with ranks for PEs, and without the calls of C around it."""
        for call, name in _lib.TORCH_NAMES.items():
            sentence = sentence.replace(f"{call} on a stream", f"{name} on a stream")
        sentence = _MESSAGE.sub(r"\1 on a stream has", sentence)
        sentence = _CALL_NAMES.sub("", _CAUSE.sub("", sentence))
        return _PES.sub(self._rank, sentence)

    def _rank(self, found):
        pe = int(found[2] or self.size)
        return f"rank{found[1]} {self.ranks[pe]}" if pe < self.size else "rank" + found[0][2:]

    def names(self, pes):
        """The ranks of some PEs, as errors name a group."""
        return "/".join(str(self.ranks[pe]) for pe in pes[:8])

    def check(self, status):
        """Raises the library's own sentence when a call of it has failed."""
        if status != 0:
            raise IsomerError(self.broken or self.last_error())

    def check_stream(self, stream):
        """The host waits for a stream. Raises once when a group was broken, whose calls may have been in the stream;
        each time when a wait has given up in another way. When that wait is of no group, as one for local memory, all
        groups end."""
        if self.lib.shmemx_stream_synchronize(stream) == 0:
            return
        sentence = self.last_error()
        for lease in list(self.alive):
            lease.learn()
        self.check_call(self.lib.shmemx_stream_synchronize(stream))
        raise IsomerError(sentence)

    def check_address(self, address):
        """The address, or the same where a call gave none."""
        self.check(0 if address else 1)
        return address

    def check_call(self, status):
        """Of a call that several ranks make. After a wrong argument, with which nothing was done, the next call fits
        those of the others. After any other error it may not: the job is broken."""
        if status not in (0, -errno.EINVAL):
            self.abort(self.last_error())
        self.check(status)

    def _end_wait(self, error):
        """Ends the group of which a kernel has waited longer than it allows, or the job, where the wait belongs to no
        group."""
        waited, pe = error.waited_seconds, f" for pe {error.pe}" if error.pe >= 0 else ""
        lease = next((each for each in list(self.alive)  # other threads change them, and a lease's team
                      if (team := each.team) and team.value == error.team), None)
        # A wait that gave up for no team, or the job's: else a member has broken the team, which may have ended here.
        is_wrong = error.gave_up == 2 or (error.gave_up and error.team in (None, TEAM_WORLD))
        if self.is_broken():
            self.abort(self.last_error())
        elif is_wrong or waited >= self.limits.get(lease, self.seconds):
            (lease or self).abort_here(
                self.in_words(f"{error.call.decode(errors='replace')} has waited {waited:.1f} s{pe}") +
                (" and given up" if error.gave_up else f", the timeout of {'its group' if lease else 'the job'},"))

    def abort_here(self, reason):
        """abort by this rank, whom the sentence names to the others."""
        self.abort(f"{reason} on rank {self.ranks[self.pe]}")

    def abort(self, reason):
        """Ends all waits of this PE; every later call raises `reason`, also on the other ranks once this one has left.
        Any thread."""
        if self.broken is None:
            for lease in list(self.alive):
                lease.call_hooks()
            self.broken = reason
            self.lib.shmemx_break(reason.encode(errors="replace")[:255])

    def take_team(self, pes, tag):
        """The team of the PEs under this tag and its Pairs: one that is free, or a new one, collective over the PEs."""
        kept = self.free_teams.get(pes, {})
        if tag in kept:
            return kept.pop(tag)
        team = c_void_p()
        numbers = array("i", pes)
        self.check(self.lib.shmemx_team_create(numbers.buffer_info()[0], len(pes), tag, byref(team)))
        return team, Pairs(self, pes, tag)

    def give_team(self, pes, tag, team, pairs):
        """Keeps a team for a later group of the same PEs. Not collective."""
        self.free_teams.setdefault(pes, {})[tag] = team, pairs

    def stop(self, seconds):
        """Ends the job for this PE. Waits up to `seconds` for the other PEs; without them it leaves."""
        for ending in self.at_end:
            ending(self)
        why = _failure()
        if why is not None and seconds <= 0:
            self.abort_here(f"the program has ended {why}")
        if self.has_lost_teams:  # a rank that was late may not come
            seconds = min(seconds, EXIT_SECONDS)
        self.broken = self.broken or (None if seconds > 0 and self._all_arrive(seconds) else "the job was left")
        _work.watch.remove(self)
        with self._looks:  # it looks no more
            broken, self.broken = self.broken, self.broken or "the job has ended"
        if broken:
            self.lib.shmemx_leave()
        else:
            self.lib.shmem_finalize()
        self.free_teams.clear()  # which name this object

    def _all_arrive(self, seconds):
        limit = threading.Timer(seconds, self.lib.shmemx_break, [b"the other PEs did not come to the end of the job"])
        limit.daemon = True
        limit.start()
        call = _lib.Coll(kind=_lib.SYNC, team=1)  # SHMEM_TEAM_WORLD
        status = self.lib.shmemx_coll_on_host(byref(call))
        limit.cancel()
        return status == 0


def _has_few_queues():
    """Whether calls that wait for each other could share one of the device's queues."""
    text = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "")
    return text.isdigit() and int(text) < FEW_QUEUES


class Lease:
    """A team of the running job, for one group."""

    def __init__(self, world, pes, tag, team, pairs, limit):
        self.world, self.pes, self.tag, self.team, self.pairs = world, pes, tag, team, pairs
        self.one_slot = False  # of calls on streams; the same on all members
        self.broken = None  # why no call of the group works any more
        self.abort_hooks = {}  # by torch's number
        pairs.lease = weakref.ref(self)
        world.alive.add(self)
        world.leases += 1
        self.sequence = _work.Sequence(world.names(pes), self.abort_here, limit, Core(self))

    # ---- errors, as of World ----

    def check_usable(self):
        if self.broken is not None:
            raise IsomerError(self.broken)

    def learn(self, slot=0):
        """Looks whether a member has broken the team, a PE has died, or a call of the slot has given up. Streams do not
        fail by a broken team any more from here on."""
        if self.team and (self.world.lib.shmemx_status(self.team, slot, None) != 0 or self.world.is_broken()):
            self._note(self.world.last_error())

    def check_alive(self):
        """check_usable, and raises when a PE has died or a member has broken the team."""
        self.check_usable()
        self.learn()
        self.check_usable()

    def check_call(self, status):
        """After a wrong argument, with which nothing was done, the next call fits those of the others. After any other
        error it may not: the group is broken."""
        if status == -errno.EINVAL:
            raise IsomerError(self.broken or self.world.last_error())
        if status != 0:
            self._note(self.world.last_error())
            raise IsomerError(self.broken)

    def _note(self, sentence):
        (self.world if self.world.is_broken() else self).abort(sentence)

    def call_hooks(self):
        hooks, self.abort_hooks = self.abort_hooks, {}
        for hook in hooks.values():
            try:
                hook()
            except Exception:  # of the program; the group ends nevertheless
                traceback.print_exc()

    def abort_here(self, reason):
        self.abort(f"{reason} on rank {self.world.ranks[self.world.pe]}")

    def abort_quietly(self, reason):
        """Without the hooks, which are returned: the program knows of it."""
        hooks, self.abort_hooks = self.abort_hooks, {}
        self.abort_here(reason)
        return hooks

    def abort(self, reason):
        """Ends all waits in the group's calls, on all members; every later one raises `reason`. Other groups go on,
        where the library can end the team alone (shmemx_team_break). Any thread."""
        if self.broken is not None:
            return
        self.call_hooks()
        self.broken, text, is_alone = reason, reason.encode(errors="replace"), len(self.pes) > 1
        if is_alone and self.world.lib.shmemx_team_break(self.team, text) != 0:
            self.world.abort(reason)
            return
        self.world.has_lost_teams = True
        for channel in list(self.pairs.channels.values()):
            if channel.core.n > 1:
                self.world.lib.shmemx_team_break(channel.core.lease.team, text)

    def agree(self):
        """Whether all members have what a group needs; they tell each other. An error when one has died, or has not come
        within the limit. Collective."""
        mine, places = array("Q", [self.pairs.place]), array("Q", bytes(8 * len(self.pes)))
        self.sequence.run("start", lambda core: core.call(
            _lib.FCOLLECT, places.buffer_info()[0], mine.buffer_info()[0], 1, _lib.UINT64), [], None, False)
        return self.pairs.meet(places)

    def close(self, seconds, ends_job=True):
        """Gives the team back. The last lease ends the job, and waits up to `seconds` for the other PEs."""
        global _world
        with _lock:
            if self.team is None or os.getpid() != self.world.pid:
                return
            if self.broken is None and self.pairs.refusal is None:
                self.world.give_team(self.pes, self.tag, self.team, self.pairs)
            elif self.broken is not None:
                self.world.lib.shmemx_status(self.team, 0, None)  # so that streams do not fail by it any more
            self.team = self.sequence = None  # which names this object
            self.world.alive.discard(self)
            self.world.leases -= 1
            if self.world.leases == 0 and ends_job and _world is self.world:
                _world = None
                self.world.stop(seconds)


def _after_fork():
    """A child has the memory of the job and no part in it."""
    global _lock
    _lock = threading.RLock()
    if _world is not None:
        _world.broken = _work.IN_CHILD
        _work.after_fork()
        for core in list(_cores):
            core.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def exchange(store, stage, rank, size, timeout, record):
    """All members' records, in the order of ranks."""
    store.set(f"{stage}/{rank}", json.dumps(record))
    return _parse(store, stage, _get_all(store, [f"{stage}/{member}" for member in range(size)], timeout))


def exchange_members(store, rank, size, timeout, record):
    """(how often the group's name has come on this store, the part of the store for this time, all members' records).
    Old keys may be under the name. All members make it equally often: the default group has its members, and other
    groups are named within one time of that (default_time)."""
    mine, values = f"made/{rank}", []
    if store.has_extended_api():  # the number of times comes with the records of the first time, which it most often is
        store.append(mine, ".")
        store.set(f"1/member/{rank}", json.dumps(record))
        made, *values = _get_all(store, [mine, *(f"1/member/{member}" for member in range(size))], timeout)
        count = len(made)
    else:
        count = store.add(mine, 1)
    part = PrefixStore(str(count), store)
    if values and count == 1:
        return count, part, _parse(part, "member", values)
    return count, part, exchange(part, "member", rank, size, timeout, record)


def _parse(store, stage, values):
    records = json.loads(b"[%s]" % b",".join(values))
    if any(isinstance(each, dict) and (each.get("error") or each.get("failure")) for each in records):
        _let_others_read(store, stage, len(values))
    return records


LOOK_SECONDS = 1.0  # of a wait for the store, before it looks for deaths; torch prints two lines then


def _get_all(store, keys, timeout):
    """The values of the keys, once they are there. Each call of a store is a round trip. Raises when the job breaks, in
    which the members are."""
    if not store.has_extended_api():
        store.wait(keys, timeout)
        return [store.get(key) for key in keys]
    world = _world if _world is not None and _world.broken is None and not _world.is_broken() else None
    before, end = store.timeout, time.monotonic() + timeout.total_seconds()
    store.set_timeout(timeout if world is None else min(timeout, timedelta(seconds=LOOK_SECONDS)))
    try:
        try:
            return store.multi_get(keys)
        except dist.DistStoreError:
            if world is None:
                raise
        while not store.check(keys):
            if time.monotonic() > end:
                raise dist.DistStoreError("isomer: not all members of the group have come within "
                                          f"{timeout.total_seconds():g} s") from None
            time.sleep(0.02)
            if world.broken is not None or world.is_broken():
                if not store.check(keys):  # a member may have told all, and then left the job
                    world.check_alive()
        return store.multi_get(keys)
    except dist.DistNetworkError:  # the store's process has ended; it may have heard of a death first
        until = time.monotonic() + LOOK_SECONDS
        while world is not None and time.monotonic() < until:
            if world.broken is not None or world.is_broken():
                world.check_alive()
            time.sleep(0.01)
        raise
    finally:
        store.set_timeout(before)


def _let_others_read(store, stage, size):
    """A member that fails may end at once, and its process may hold the store: the others read their records first."""
    store.add(f"{stage}/read", 1)
    deadline = time.monotonic() + 5
    try:
        while store.add(f"{stage}/read", 0) < size and time.monotonic() < deadline:
            time.sleep(0.01)
    except RuntimeError:
        pass  # the store's process has ended, after all members had read


def decide(records):
    """What all members do: ("fail", sentence), ("start", None), ("gloo", sentence) or ("team", tag). A function of
    the members' records alone, so that all members decide alike."""
    for rank, record in enumerate(records):
        if record["error"]:
            return "fail", f"{record['error']} (rank {rank})"
        if record["members"] != records[0]["members"]:
            return "fail", (f"the ranks make different groups under one name: its members are {records[0]['members']} "
                            f"by rank {records[0]['rank']}, and {record['members']} by rank {record['rank']}; call "
                            "new_group in the same order on all ranks")
    worlds = {record["world"] for record in records}
    if worlds == {None}:
        return "start", None
    if len(worlds) > 1:
        return "gloo", "its members are in different jobs of Isomer: make the first group of all ranks"
    pes = [record["pe"] for record in records]
    common = set(records[0]["free"]).intersection(*(record["free"] for record in records))
    if common and all(record["pes"] == pes for record in records):
        return "team", min(common)
    return "team", records[0]["tag"]


def _describe(rank, ranks):
    """This process as the other members must know it. Teams of exactly the members' PEs can be used again: this one
    tells which PEs it takes them for."""
    record = {"error": None, "world": None, "pe": rank, "pes": [], "free": [], "rank": ranks[rank], "members": ranks,
              "tag": int.from_bytes(os.urandom(8), "little") >> 1, "one_slot": _has_few_queues(),
              "node": [os.uname().nodename, os.environ.get("SHMEM_NODE", "")]}
    try:
        _lib.load()
        if _world is not None:
            _world.check_usable()
            pes = [_world.ranks.index(each) for each in ranks if each in _world.ranks]
            record.update(world=_world.name, pe=_world.pe, pes=pes, free=sorted(_world.free_teams.get(tuple(pes), {})))
        elif rank == 0:
            record.update(id=_lib.new_uniqueid(), name=os.urandom(16).hex())
    except IsomerError as error:
        record["error"] = str(error)
    return record


def _take(records, rank, timeout):
    """Starts the job, or joins the members in a team of it: (lease, why there is none)."""
    global _world
    what, detail = decide(records)
    if what == "fail":
        raise IsomerError(detail)
    if what == "gloo":
        return None, detail
    first = records[0]
    if what == "start":
        is_one_node = all(record["node"] == first["node"] for record in records)
        _world = World(first["name"], rank, [record["rank"] for record in records], first["id"], is_one_node,
                       timeout.total_seconds())
        pes, tag = tuple(range(len(records))), first["tag"]
    else:
        pes, tag = tuple(record["pe"] for record in records), detail
    try:
        lease = Lease(_world, pes, tag, *_world.take_team(pes, tag), _work.Limit(timeout.total_seconds()))
    except IsomerError as error:
        return None, str(error)
    return lease, lease.pairs.refusal


def keep_store(world, store):
    """A rank may begin the next job on the same address before the rank that holds the store has left this one."""
    global _last_store
    if world.leases == 0:
        _last_store = store


default_time = 0  # how often the default group was made on its store


def join(store, rank, ranks, timeout, is_default=False):
    """The part of the store for this time, and a lease on a team of the group's members, or None and the reason, the
    same way on all members. Collective over the members. Raises on all members where one has no library or cannot start
    the job."""
    global _last_store, default_time
    size = len(ranks)
    with _lock:
        if _is_child():  # whose store's connection is the parent's, too
            raise IsomerError(_work.IN_CHILD)
        if _world is not None and not is_default and (_world.broken is not None or _world.is_broken()):
            _world.check_alive()  # a member that has died never comes, and the others know of it
        count, store, records = exchange_members(store, rank, size, timeout, _describe(rank, ranks))
        default_time = count if is_default else default_time
        lease, reason, failure = None, None, None
        try:
            lease, reason = _take(records, rank, timeout)
            _register_exit()
        except IsomerError as error:
            failure = str(error)
        try:  # by the team, which takes no round trips to the store
            is_agreed = lease is not None and lease.agree()
        except dist.DistBackendError as error:  # other members may have agreed, and tell no outcome
            is_agreed, failure, timeout = False, str(error.__cause__), min(timeout, timedelta(seconds=EXIT_SECONDS))
        if is_agreed:
            lease.one_slot = any(record["one_slot"] for record in records)
        else:
            if lease is not None:
                lease.sequence.close(0)
                lease.close(0)
            lease, reason = None, _why_not(store, rank, size, timeout, failure, reason)
        _last_store = None
        return store, lease, reason


def _plan(records):
    """Whether the members leave their jobs before they join: a function of their records alone. A job of which some PEs
    are no members is left where that ends no other group: those PEs may die."""
    jobs = {record["job"] for record in records}
    if len(jobs) == 1 and None not in jobs:
        return len(records) < records[0]["size"] and not any(record["others"] for record in records)
    for member, record in enumerate(records):
        if record["others"] and None not in jobs:
            raise IsomerError(f"reconfigure: member {member} of the new group has {record['others']} other groups in a "
                              "job that not all members are in; destroy these groups before")
    return True


def join_others(store, rank, ranks, timeout, named):
    """As join, for members who may be in different jobs or in a broken one: they leave them, or stay in the one that
    all of them are in. Also returns the highest `named` of the members."""
    with _lock:
        if _is_child():
            raise IsomerError(_work.IN_CHILD)
        try:
            is_whole = _world is not None and _world.broken is None and not _world.is_broken()
            records = exchange(store, "plan", rank, len(ranks), timeout,
                               {"job": _world.name if is_whole else None, "others": _world.leases if is_whole else 0,
                                "size": _world.size if is_whole else 0, "named": named})
            if _world is not None and (_plan(records) or not is_whole):
                _leave_job()
            _, lease, reason = join(PrefixStore("join", store), rank, ranks, timeout)
            return lease, reason, max(record["named"] for record in records)
        except BaseException:
            if _world is not None and _world.leases == 0:
                _leave_job()
            raise


def _leave_job():
    """Without the other PEs, for which the job is broken then."""
    global _world
    world, _world = _world, None
    world.abort_here("the process group was reconfigured")
    world.stop(0.0)


def _why_not(store, rank, size, timeout, failure, reason):
    """Why the members have no team, of the lowest one that knows it; raises where one could not start."""
    try:
        outcomes = exchange(store, "outcome", rank, size, timeout, {"failure": failure, "reason": reason})
    except dist.DistStoreError:
        if failure is None:
            raise
        raise IsomerError(failure) from None
    for member, outcome in enumerate(outcomes):
        if outcome["failure"] is not None:
            raise IsomerError(f"rank {member} of the group: {outcome['failure']}")
    return next(outcome["reason"] for outcome in outcomes if outcome["reason"] is not None)


def _is_child():
    """Whether the job is that of a parent, which has forked this process: the library starts no other one here."""
    return _world is not None and _world.pid != os.getpid()


def enter(core):
    """Has core.shutdown(seconds) called at the end of the program, before the interpreter is torn down."""
    _cores.add(core)


def leave(core):
    _cores.discard(core)


def _register_exit():
    global _has_exit_hook
    if not _has_exit_hook:
        _has_exit_hook = True
        atexit.register(_at_exit)
        _note_exit()
        # processes of multiprocessing that were forked do not run atexit
        multiprocessing.util.Finalize(None, _at_exit, exitpriority=10)


def _note_exit():
    """Has the argument of sys.exit kept: Python tells it to no one who ends the program."""
    leave_program = sys.exit

    @functools.wraps(leave_program)
    def exit(status=None):
        global _exit_status
        _exit_status = status
        leave_program(status)
    sys.exit = exit


def _failure():
    """How the program fails, or None."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if error is not None and not isinstance(error, SystemExit):
        return f"by {type(error).__name__}"
    status = error.code if error is not None else _exit_status
    return None if status in (None, 0) else f"with status {status if isinstance(status, int) else 1}"


def seconds_for_exit(limit):
    """How long to wait for the other PEs: not at all where this one fails."""
    return limit if _failure() is None else 0.0


def _at_exit():
    if _is_child():
        return
    why = _failure()
    if why is not None and _world is not None:
        _world.abort_here(f"the program has ended {why}")
    deadline = time.monotonic() + seconds_for_exit(EXIT_SECONDS)
    for core in list(_cores):
        core.shutdown(max(0.0, deadline - time.monotonic()))
