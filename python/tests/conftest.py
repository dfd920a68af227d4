# SPDX-License-Identifier: MIT
"""Runs a function in several processes that are one process group. Without torch or the library, tests are skipped with
the reason."""
import contextlib
import multiprocessing
import os
import queue
import random
import socket
import sys
import time
import traceback
from datetime import timedelta

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LIMIT_SECONDS = 300  # a guard, for a busy machine


def pytest_collection_modifyitems(items):
    """Most of their time is the start of interpreters that import torch, or they repeat others at one more size."""
    for item in items:
        if os.environ.get("ISOMER_TEST_FEW") and item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long, and ISOMER_TEST_FEW is set"))


def why_not():
    """Why tests of groups cannot run here; None where they can."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return "torch is not installed"
    import isomer_shmem
    try:
        isomer_shmem.load()
    except isomer_shmem.IsomerError as error:
        return str(error)
    return None


def _rank(function, rank, size, port, backend, results, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    try:
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)  # ranks share the processors
        import isomer_shmem  # noqa: F401
        if backend:
            dist.init_process_group(backend)
        value = function(*arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
        results.put((rank, None, value))
    except BaseException:
        results.put((rank, traceback.format_exc(), None))
        results.close()
        results.join_thread()
        os._exit(1)


def _collect(results, processes, seconds):
    """The ranks' values. A rank that ends without one is an error when the others have ended, too."""
    values, missing, until = {}, set(range(len(processes))), time.monotonic() + seconds
    while missing:
        ended = {rank for rank in missing if processes[rank].exitcode is not None}  # before the look for what they sent
        try:
            rank, error, value = results.get(timeout=0.2)
        except queue.Empty:
            assert ended != missing, f"rank {min(ended)} ended with {processes[min(ended)].exitcode}"
            assert time.monotonic() < until, f"not all of {len(processes)} ranks ended within {seconds} s"
            continue
        assert error is None, f"rank {rank}:\n{error}"
        values[rank] = value
        missing.remove(rank)
    return [values[rank] for rank in range(len(processes))]


def _free_port():
    """Below the ports that the system gives to connections of others, which may take a free one before rank 0 does."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def run_ranks(size, function, *arguments, backend="isomer", seconds=LIMIT_SECONDS, method="fork"):
    """function(*arguments) on each rank of a new group; returns the ranks' values. backend None: it makes the group
    itself. Processes are forked from one that has no group, or by method "spawn" new ones."""
    port = _free_port()
    context = multiprocessing.get_context(method)
    results = context.Queue()
    processes = [context.Process(target=_rank, args=(function, rank, size, port, backend, results, arguments))
                 for rank in range(size)]
    for process in processes:
        process.start()
    try:
        values = _collect(results, processes, seconds)
        for process in processes:
            process.join(seconds)
            assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"
        return values
    finally:
        for process in processes:
            process.kill()


def tell(what):
    """To ranks that wait_for it, by the group's store."""
    import torch.distributed as dist
    dist.distributed_c10d._get_default_store().set(f"{what} {dist.get_rank()}", "")


def wait_for(what, ranks):
    import torch.distributed as dist
    dist.distributed_c10d._get_default_store().wait([f"{what} {rank}" for rank in ranks], timedelta(seconds=60))


@pytest.fixture
def ranks():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    import torch.distributed.tensor.debug  # noqa: F401 (here once, and not in each forked rank)
    import torch.fx.experimental.symbolic_shapes  # noqa: F401
    return run_ranks
