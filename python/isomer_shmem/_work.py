# SPDX-License-Identifier: MIT
"""The order of a group's calls, their results, and their time limits.

A group's calls run one after the other: by the caller when nothing is under way and the call is synchronous, or need
not wait for other members; else by the group's own thread, or by the thread that waits for the call, whichever comes
first. So all members have one order, whatever their threads do.
"""
import _thread
import collections
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import _Work

NO_TIME = timedelta(0)
MOST_FREE = 2  # threads of a group that wait for calls


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
IN_CHILD = "this process was forked from a rank and has no job of its own; start it by spawn"


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
        future = self.end(error)
        if future is not None:
            self.fill(future)

    def end(self, error):
        """finish without the callbacks of the future, which is returned if there is one."""
        with _changed:
            self._finished, self._error = True, error
            _changed.notify_all()
            return self._future

    def fill(self, future):
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
            self.fill(future)
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


@not_compiled
class CopiedWork(AllWork):
    """A receive by gloo into a contiguous tensor, whose data goes to where it belongs in wait(): gloo's works know of their
    end by it alone."""

    def __init__(self, work, received, tensor):
        super().__init__([work])
        self._received, self._tensor = received, tensor

    def wait(self, timeout=None):
        super().wait(timeout)
        if self._received is not None:
            self._tensor.detach().copy_(self._received)
            self._received = None
        return True

    def _source_rank(self):
        return self._works[0]._source_rank()


class Limit:
    """How long the calls of a group may take. Looked up when the watch asks: torch takes 0.5 us to say it."""

    def __init__(self, seconds):
        self.seconds = seconds

    def of(self, options):
        """Of one call. torch writes "as the group has it" as a negative or missing time."""
        timeout = getattr(options, "timeout", None)
        return self.seconds if timeout is None or timeout <= NO_TIME else timeout.total_seconds()


class Watch:
    """One thread per process that looks for calls that last longer than their limit."""

    PERIOD_SECONDS = 0.25

    def __init__(self):
        self._sequences, self._runs, self._pid = (), False, None
        self._lock = threading.Lock()

    def add(self, sequence):
        if self._pid != os.getpid():
            self._sequences, self._runs, self._pid, self._lock = (), False, os.getpid(), threading.Lock()
        with self._lock:
            self._sequences += (sequence,)
            if not self._runs:
                self._runs = True
                _thread.start_new_thread(self._run, ())  # a threading.Thread's start waits for the thread

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
    """The calls of one group: body(core) in its turn. `abort(sentence)` must end a call that is under way."""

    def __init__(self, group, abort, limit, core=None):
        self._group, self._abort, self.limit, self.core = group, abort, limit, core
        self._is_closed = False
        self._begin()
        watch.add(self)

    def _begin(self):
        self._turn = threading.Lock()  # the call that runs has it
        self._changed = threading.Condition()  # of the queue, and of the turn where calls are in the queue
        self._queue = collections.deque()
        self._threads, self._n_free = [], 0  # free: of those, in no callback of a future
        self._under_way = None  # (name, when it began, its options)
        self._work = None  # of the call under way, where a thread waits for it

    def run(self, name, body, outputs, options, is_async, is_ready=None, patience=0.0):
        """A synchronous call has ended on return, with None or its error. Else returns the work, which has the error.
        An asynchronous call runs here, too, when is_ready() says that body() waits for no other member. The group's
        thread leaves a call for `patience` seconds to the one who waits for it."""
        if not is_async and self._turn.acquire(False):
            if not self._queue and not self._is_closed:
                error = self._execute(name, body, options)
                if error is not None:
                    raise error
                return None
            self._give_turn()
        work = IsomerWork(name, outputs)
        with self._changed:
            if self._is_closed:
                raise dist.DistBackendError(f"isomer: {name}: the process group has been destroyed")
            here = not self._queue and is_ready is not None and is_ready() and self._turn.acquire(False)
            if not here:
                self._put((name, body, work, options, time.monotonic() + patience if patience else 0.0))
        if here:
            work._error = self._execute(name, body, options)
            work._finished = True  # nobody else has it yet
        if is_async:
            return work
        work.wait()
        return None

    def _give_turn(self):
        self._turn.release()
        if self._queue or self._is_closed:  # who comes to the queue later than this look wakes the thread itself
            with self._changed:
                self._changed.notify_all()

    def help(self, work):
        """Runs the call of `work` in the thread that waits for it, when it is the next one."""
        with self._changed:
            if not self._queue or self._queue[0][2] is not work or not self._turn.acquire(False):
                return
            name, body, self._work, options, _ = self._queue.popleft()
        work.finish(self._execute(name, body, options))

    def _put(self, item):
        item[2]._sequence = self
        self._queue.append(item)
        self._keep_one_free()
        self._changed.notify_all()

    def _keep_one_free(self):
        """A callback may wait for a later call, so another thread takes that."""
        if self._n_free == 0:
            self._n_free = 1
            self._threads.append(threading.Thread(target=self._serve, name=f"isomer-{self._group}", daemon=True))
            self._threads[-1].start()

    def _is_free(self):
        return not self._turn.locked()

    def _serve(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_free() and (self._queue or self._is_closed))
                if not self._queue:
                    self._n_free -= 1
                    return
                early = self._queue[0][4] - time.monotonic() if self._queue[0][4] and not self._is_closed else 0.0
                if early <= 0:
                    if not self._turn.acquire(False):
                        continue
                    name, body, work, options, _ = self._queue.popleft()
                    self._work = work
            if early > 0:
                time.sleep(early)  # calls that come meanwhile need not wake this thread
                continue
            future = work.end(self._execute(name, body, options))
            if future is not None and not self._call_back(work, future):
                return
            del body, work, future

    def _call_back(self, work, future):
        """False: there are enough other threads."""
        with self._changed:
            self._n_free -= 1
            if self._queue:
                self._keep_one_free()
        work.fill(future)
        with self._changed:
            is_needed = self._n_free < MOST_FREE
            if is_needed:
                self._n_free += 1
            else:
                self._threads.remove(threading.current_thread())
            return is_needed

    def _execute(self, name, body, options):
        """None, or the error. This thread has the turn, and gives it."""
        self._under_way = name, time.monotonic(), options
        try:
            body(self.core)
            return None
        except Exception as caught:  # it belongs to the one who waits
            who, why = f"{name} of group {self._group}", str(caught)
            error = dist.DistBackendError("isomer: " + (why if why.startswith(who) else f"{who}: {why}"))
            error.__cause__ = caught
            return error
        finally:
            self._under_way = self._work = None
            self._give_turn()

    def after_fork(self):
        """In a child. The parent's calls end there and not here; new ones meet what forbids them in their bodies."""
        works = [item[2] for item in self._queue] + ([self._work] if self._work is not None else [])
        self._begin()
        for work in works:
            work.finish(dist.DistBackendError(f"isomer: {work._name} of group {self._group}: {IN_CHILD}"))

    def check_time(self):
        """Ends the call that has passed its limit. By the watch."""
        call = self._under_way
        if call is not None and time.monotonic() > call[1] + (seconds := self.limit.of(call[2])):
            self._abort(f"{call[0]} of group {self._group} has passed its timeout of {seconds:g} s")

    def close(self, seconds):
        """Takes no more calls, and waits for those that it has: True when all ended in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._is_free() and not self._queue, seconds)
        for thread in list(self._threads) if ended else []:
            if thread is not threading.current_thread():
                thread.join()
        if ended:
            watch.remove(self)
        return ended
