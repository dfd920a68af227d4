/* SPDX-License-Identifier: MIT */
/* What a call costs its author's kernel: one call a kernel, no bounds. Compiled by cuda_resources.sh as it is, for
 * blocks of 1024 threads, and with SHMEMD_NO_RING, for NVIDIA and for AMD. ISO_AUTHOR: the names' end, author or
 * author_near. */
#include <shmem_device.h>

struct author {
    shmemd_t h;
    uint64_t *dest, *source, *signal;
    size_t nelems;
    size_t *counts;
    uint64_t value;
    int32_t pe, cmp;
};
#define PASTE_(a, b, c, d) a##b##c##d
#define PASTE(a, b, c, d) PASTE_(a, b, c, d)
#define AUTHOR(name) SHMEMD_KERNEL(PASTE(isod_, ISO_AUTHOR, _##name, _kernel), struct author, a)

AUTHOR(p) { shmemd_uint64_p(a.h, a.dest, a.value, a.pe); }
AUTHOR(g) { *a.dest = shmemd_uint64_g(a.h, a.source, a.pe); }
AUTHOR(atomic_fetch_add) { *a.dest = shmemd_uint64_atomic_fetch_add(a.h, a.source, a.value, a.pe); }
AUTHOR(fence) { shmemd_fence(a.h); }
AUTHOR(quiet) { shmemd_quiet(a.h); }
AUTHOR(signal_wait) { *a.dest = shmemd_signal_wait_until(a.h, a.signal, SHMEM_CMP_GE, a.value); }
AUTHOR(put_signal)
{
    shmemd_uint64_put_signal(a.h, a.dest, a.source, a.nelems, a.signal, a.value, SHMEM_SIGNAL_SET, a.pe);
}
AUTHOR(put_nbi_wave) { shmemd_uint64_put_nbi_wave(a.h, a.dest, a.source, a.nelems, a.pe); }
AUTHOR(put_block) { shmemd_uint64_put_block(a.h, a.dest, a.source, a.nelems, a.pe); }
AUTHOR(get_block) { shmemd_uint64_get_block(a.h, a.dest, a.source, a.nelems, a.pe); }
AUTHOR(put_signal_block)
{
    shmemd_uint64_put_signal_block(a.h, a.dest, a.source, a.nelems, a.signal, a.value, SHMEM_SIGNAL_SET, a.pe);
}
AUTHOR(barrier_block) { *a.counts = (size_t)shmemd_barrier_block(a.h); }
AUTHOR(fcollect_block) { *a.counts = (size_t)shmemd_uint64_fcollect_block(a.h, a.dest, a.source, a.nelems); }
AUTHOR(alltoallv_block)
{
    int rc = shmemd_uint64_alltoallv_block(a.h, a.dest, a.counts, a.counts, a.source, a.counts, a.counts);
    *a.signal = (uint64_t)rc;
}
AUTHOR(reduce_block)
{
    float *dest = (float *)(void *)a.dest;
    *a.counts = (size_t)shmemd_float_sum_reduce_block(a.h, dest, (const float *)(const void *)a.source, a.nelems);
}
