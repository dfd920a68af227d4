// SPDX-License-Identifier: MIT
// What NVSHMEM's calls cost a kernel: no bounds, since programs for NVSHMEM launch 1024 threads. Compiled by
// cuda_resources.sh as it is, and with -rdc=true. ISO_AUTHOR: the names' end, compat or compat_rdc.
#include <nvshmem.h>

#define PASTE_(a, b, c, d) a##b##c##d
#define PASTE(a, b, c, d) PASTE_(a, b, c, d)
#define COMPAT(name)                                             \
    extern "C" __global__ void PASTE(isod_, ISO_AUTHOR, _##name, \
                                     _kernel)(float *dest, const float *source, size_t nelems, int pe, uint64_t *sig)

COMPAT(p) { nvshmem_float_p(dest, 1, pe); }
COMPAT(g) { *dest = nvshmem_float_g(source, pe); }
COMPAT(fetch_add) { *sig = nvshmem_uint64_atomic_fetch_add(sig, nelems, pe); }
COMPAT(fence) { nvshmem_fence(); }
COMPAT(signal_op) { nvshmemx_signal_op(sig, 1, NVSHMEM_SIGNAL_ADD, pe); }
COMPAT(signal_wait) { nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, nelems); }
COMPAT(put_quiet)
{
    nvshmem_float_put_nbi(dest, source, nelems, pe);
    nvshmem_quiet();
}
COMPAT(put_block_quiet)
{
    nvshmemx_float_put_nbi_block(dest, source, nelems, pe);
    nvshmem_quiet();
}
COMPAT(get) { nvshmem_float_get(dest, source, nelems, pe); }
COMPAT(get_block) { nvshmemx_float_get_block(dest, source, nelems, pe); }
COMPAT(iput) { nvshmem_float_iput(dest, source, 2, 2, nelems, pe); }
COMPAT(put_signal) { nvshmem_float_put_signal(dest, source, nelems, sig, 1, NVSHMEM_SIGNAL_SET, pe); }
COMPAT(put_signal_block) { nvshmemx_float_put_signal_block(dest, source, nelems, sig, 1, NVSHMEM_SIGNAL_SET, pe); }
COMPAT(barrier) { nvshmem_barrier_all(); }
COMPAT(barrier_warp) { nvshmemx_barrier_all_warp(); }
COMPAT(barrier_block) { nvshmemx_barrier_all_block(); }
COMPAT(sync_block) { nvshmemx_sync_all_block(); }
COMPAT(reduce) { nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, dest, source, nelems); }
COMPAT(reduce_warp) { nvshmemx_float_sum_reduce_warp(NVSHMEM_TEAM_WORLD, dest, source, nelems); }
