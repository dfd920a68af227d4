# SPDX-License-Identifier: MIT
"""The order of a group's calls, their results, and their time limits.

A group's calls run one after the other: by the caller when nothing is under way and the call is synchronous, or need
not wait for other members; else by the group's own thread, or by the thread that waits for the call, whichever comes
first. So all members have one order, whatever their threads do.
"""
import collections
import os
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed import _Work


def not_compiled(cls):
    """Methods that torch calls while a compiled model runs (DDP's buckets, collectives in graphs) are no part of the
    model: torch.compile leaves them, and what they call, as they are. Calls take no longer by it."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # a torch without it
        return cls
    left_alone = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    for method in vars(cls).values():
        code = getattr(getattr(method, "fget", None) or method, "__code__", None)
        if code is not None:
            set_code_exec_strategy(code, left_alone)
    return cls


_changed = threading.Condition()  # of all works: few threads wait at a time, and a call makes no lock of its own
IN_CHILD = ("this process was forked from a rank and has no job of its own; start it by spawn, or make its process "
            "group in it")


def after_fork():
    """In a child, whose parent's other threads may have had the lock."""
    global _changed
    _changed = threading.Condition()


@not_compiled
class IsomerWork(_Work):
    """The result of one call. A real torch.distributed.Work: torch's own code waits for it."""

    _finished, _error, _future, _sequence = False, None, None, None
    sources = ()  # of a receive from any source: the one that it was from

    def __init__(self, name, outputs):
        _Work.__init__(self)  # super() takes a fifth of a call longer
        self._name, self._outputs = name, outputs

    def finish(self, error=None):
        """Called once, by the thread that has run the call."""
        with _changed:
            self._finished, self._error = True, error
            _changed.notify_all()
            future = self._future
        if future is not None:
            self._fill(future)

    def _fill(self, future):
        if self._error is None:
            future.set_result(self._outputs)
        else:
            future.set_exception(self._error)

    def wait(self, timeout=None):
        if not self._finished:
            if timeout is None and self._sequence is not None:
                self._sequence.help(self)
            self._wait(timeout.total_seconds() if timeout is not None else 0)
        if self._error is not None:
            raise self._error
        return True

    def _wait(self, seconds):
        with _changed:
            if not _changed.wait_for(lambda: self._finished, seconds if seconds > 0 else None):
                raise dist.DistBackendError(f"isomer: wait for {self._name}: not done after {seconds} s")

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._finished

    def is_success(self):
        return self._finished and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._outputs

    def _source_rank(self):
        return self.sources[0] if self.sources else -1

    def get_future(self):
        with _changed:
            if self._future is not None:
                return self._future
            future = self._future = torch.futures.Future()
            finished = self._finished
        if finished:
            self._fill(future)
        return future


@not_compiled
class AllWork(IsomerWork):
    """Several results that are waited for as one."""

    def __init__(self, works):
        super().__init__("coalesced calls", [])
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works])


class Watch:
    """One thread per process that looks for calls that last longer than their limit."""

    PERIOD_SECONDS = 0.25

    def __init__(self):
        self._sequences, self._thread, self._pid = (), None, None
        self._lock = threading.Lock()

    def add(self, sequence):
        if self._pid != os.getpid():
            self._sequences, self._thread, self._pid, self._lock = (), None, os.getpid(), threading.Lock()
        with self._lock:
            self._sequences += (sequence,)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="isomer-watch", daemon=True)
                self._thread.start()

    def remove(self, sequence):
        with self._lock:
            self._sequences = tuple(each for each in self._sequences if each is not sequence)

    def _run(self):
        while True:
            time.sleep(self.PERIOD_SECONDS)
            for sequence in self._sequences:
                sequence.check_time()
            sequence = None  # which would live until the next look


watch = Watch()


class Sequence:
    """The calls of one group. `abort(sentence)` must end a call that is under way."""

    def __init__(self, group, abort):
        self._group, self._abort = group, abort
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue = collections.deque()
        self._is_busy, self._is_closed, self._thread = False, False, None
        self._under_way = None  # (name, when it began, its limit in seconds)
        self._work = None  # of the call under way, where a thread waits for it
        watch.add(self)

    def run(self, name, body, outputs, seconds, is_async, is_ready=None, patience=0.0):
        """Runs body() in its turn. Returns the work; an error of body() is in the work. An asynchronous call runs here,
        too, when is_ready() says that body() waits for no other member. The group's thread leaves a call for `patience`
        seconds to the one who waits for it."""
        work = IsomerWork(name, outputs)
        with self._lock:
            if self._is_closed:
                raise dist.DistBackendError(f"isomer: {name}: the process group has been destroyed")
            here = not self._is_busy and not self._queue and (not is_async or (is_ready is not None and is_ready()))
            if here:
                self._is_busy = True
            else:
                self._put((name, body, work, seconds, time.monotonic() + patience if patience else 0.0))
        if here:
            work._error = self._execute(name, body, seconds)
            work._finished = True  # nobody else has it yet
        return work

    def do(self, name, body, seconds):
        """The same for a synchronous call that needs no work: returns when it has ended, and raises its error."""
        with self._lock:
            here = not self._is_busy and not self._queue and not self._is_closed
            if here:
                self._is_busy = True
        if not here:
            self.run(name, body, [], seconds, False).wait()
            return
        error = self._execute(name, body, seconds)
        if error is not None:
            raise error

    def help(self, work):
        """Runs the call of `work` in the thread that waits for it, when it is the next one."""
        with self._lock:
            if self._is_busy or not self._queue or self._queue[0][2] is not work:
                return
            name, body, self._work, seconds, _ = self._queue.popleft()
            self._is_busy = True
        work.finish(self._execute(name, body, seconds))

    def _put(self, item):
        item[2]._sequence = self
        self._queue.append(item)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"isomer-{self._group}", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _serve(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_busy and (self._queue or self._is_closed))
                if not self._queue:
                    return
                early = self._queue[0][4] - time.monotonic() if self._queue[0][4] and not self._is_closed else 0.0
                if early <= 0:
                    name, body, work, seconds, _ = self._queue.popleft()
                    self._work, self._is_busy = work, True
            if early > 0:
                time.sleep(early)  # calls that come meanwhile need not wake this thread
                continue
            work.finish(self._execute(name, body, seconds))
            del body, work

    def _execute(self, name, body, seconds):
        """None, or the error."""
        self._under_way = name, time.monotonic(), seconds
        try:
            body()
            return None
        except Exception as caught:  # it belongs to the one who waits
            who, why = f"{name} of group {self._group}", str(caught)
            error = dist.DistBackendError("isomer: " + (why if why.startswith(who) else f"{who}: {why}"))
            error.__cause__ = caught
            return error
        finally:
            self._under_way = None
            with self._lock:
                self._is_busy, self._work = False, None
                if self._queue or self._is_closed:
                    self._changed.notify_all()

    def after_fork(self):
        """In a child. The parent's calls end there and not here; new ones meet what forbids them in their bodies."""
        works = [item[2] for item in self._queue] + ([self._work] if self._work is not None else [])
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._queue.clear()
        self._is_busy, self._thread, self._under_way, self._work = False, None, None, None
        for work in works:
            work.finish(dist.DistBackendError(f"isomer: {work._name} of group {self._group}: {IN_CHILD}"))

    def check_time(self):
        """Ends the call that has passed its limit. By the watch."""
        call = self._under_way
        if call is not None and time.monotonic() > call[1] + call[2]:
            self._abort(f"{call[0]} of group {self._group} has passed its timeout of {call[2]:g} s")

    def close(self, seconds):
        """Takes no more calls, and waits for those that it has: True when all ended in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: not self._is_busy and not self._queue, seconds)
        if ended and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if ended:
            watch.remove(self)
        return ended
