# SPDX-License-Identifier: MIT
"""Runs a function in several processes that are one process group. Without torch or the library, tests are skipped with
the reason."""
import multiprocessing
import os
import queue
import socket
import sys
import traceback

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LIMIT_SECONDS = 120


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


def _collect(results, size, seconds):
    values = {}
    while len(values) < size:
        rank, error, value = results.get(timeout=seconds)
        assert error is None, f"rank {rank}:\n{error}"
        values[rank] = value
    return [values[rank] for rank in range(size)]


def run_ranks(size, function, *arguments, backend="isomer", seconds=LIMIT_SECONDS):
    """function(*arguments) on each rank of a new group; returns the ranks' values. backend None: it makes the group
    itself. Processes are forked from one that has no group."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [context.Process(target=_rank, args=(function, rank, size, port, backend, results, arguments))
                 for rank in range(size)]
    for process in processes:
        process.start()
    try:
        values = _collect(results, size, seconds)
        for process in processes:
            process.join(seconds)
            assert process.exitcode == 0, f"{process.name} ended with {process.exitcode}"
        return values
    except queue.Empty:
        raise AssertionError(f"not all of {size} ranks ended within {seconds} s") from None
    finally:
        for process in processes:
            process.kill()


@pytest.fixture
def ranks():
    reason = why_not()
    if reason:
        pytest.skip(reason)
    return run_ranks
