# SPDX-License-Identifier: MIT
"""Variables that have to be set before torch or HIP reads them: the import of the package does it. Those that the user
has set stay."""
import contextlib
import os
import re
import warnings
import zlib

HIP = {"DEBUG_HIP_GRAPH_MIN_OVERLAP": "0", "GPU_MAX_HW_QUEUES": "8"}  # see shmemx_graph_begin, and isomer-info --doctor


def prepare_hip():
    """HIP reads them at its first call. Otherwise it may put a kernel that waits in front of the one it waits for."""
    import torch
    missing = {name: value for name, value in HIP.items() if name not in os.environ}
    if torch.version.hip is None or not missing:
        return
    if torch.cuda.is_initialized() or _has_kfd():
        warnings.warn("isomer: HIP has started before isomer_shmem was imported, without " +
                      " and ".join(f"{name}={value}" for name, value in missing.items()) +
                      ": kernels that wait for each other may never end; import isomer_shmem first, or set them",
                      stacklevel=3)
    os.environ.update(missing)  # also for processes that this one starts


def _has_kfd():
    """The driver is open, so HIP has started."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}") == "/dev/kfd":
                return True
    return False


def take_ranks():
    """Under mpirun, srun or oshrun: what env:// reads, the default of init_process_group."""
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        for name, value in ranks_of(os.environ).items():
            os.environ.setdefault(name, value)


LAUNCHERS = (  # the names of: rank, size, rank on the host, size on the host or hosts, the job
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"),
    ("PMIX_RANK", "OSHRUN_NPES", "PMIX_RANK", "OSHRUN_NPES", "PMIX_NAMESPACE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID"))


def ranks_of(environment):
    """torch's variables. On one host, address and port follow from the job's name; for srun on several, the address is
    the first node of its list. mpirun on several hosts does not say where rank 0 is: the user sets MASTER_ADDR."""
    for names in LAUNCHERS:
        rank, size, local_rank, local_size, job = (environment.get(name) for name in names)
        if rank is not None and size is not None:
            break
    else:
        return {}
    name = f"{os.getuid()} {job} {environment.get('SLURM_STEP_ID')}".encode()
    made = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank,
            "MASTER_PORT": str(10000 + zlib.crc32(name) % 20000)}  # below those that connections get
    if local_size == size:
        made["MASTER_ADDR"] = "127.0.0.1"
    elif nodes := environment.get("SLURM_STEP_NODELIST"):
        made["MASTER_ADDR"] = re.sub(r"\[([0-9]+).*", r"\1", nodes.split(",")[0])
    return made
