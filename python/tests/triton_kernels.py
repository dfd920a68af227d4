# SPDX-License-Identifier: MIT
"""Kernels of tests/test_cuda.py: Triton reads their source from a file."""
import triton

import isomer_shmem.triton as shmem


@triton.jit
def ring(handle, inbox, mine, flag, n, value):
    me = shmem.my_pe(handle)
    shmem.put_signal(handle, inbox, mine, n, flag, value, (me + 1) % shmem.n_pes(handle))
    shmem.signal_wait_until(handle, flag, shmem.GE, value)
