/* SPDX-License-Identifier: MIT */
/* A kernel by the installed headers alone, of both halves of the in-kernel API: numbers go to the right neighbour, and
 * an all-reduce adds what has arrived. installed.sh compiles it, by the flavour's compiler. */
#include "installed_kernels.h"

SHMEMD_KERNEL(ring, struct ring_args, a)
{
    int me = shmemd_my_pe(a.h), right = (me + 1) % shmemd_n_pes(a.h);
    long mine = me + 1;
    if (shmemd_thread_index() == 0)
        shmemd_long_put_signal(a.h, a.inbox, &mine, 1, a.signal, 1, SHMEM_SIGNAL_SET, right);
    shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_EQ, 1);
    (void)shmemd_long_sum_reduce_block(a.h, a.sum, a.inbox, 1);
}
