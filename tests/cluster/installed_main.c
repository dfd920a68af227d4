/* SPDX-License-Identifier: MIT */
/* The host's half of installed_kernels.c, by the host's C compiler. installed.sh compiles and runs it. */
#include "installed_kernels.h"

#include <shmem.h>
#include <shmemx.h>

#include <stdio.h>

SHMEMX_DECLARE_KERNEL(ring);

static int run_ring(int me, int n)
{
    struct ring_args a;
    long inbox = 0, sum = 0;
    a.inbox = (long *)shmemx_calloc(1, sizeof(long), SHMEMX_DEVICE);
    a.sum = (long *)shmemx_calloc(1, sizeof(long), SHMEMX_DEVICE);
    a.signal = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0 ||
        shmemx_launch(SHMEMX_KERNEL(ring), 1, 64, 0, &a, sizeof(a), NULL) != 0 || shmemx_stream_synchronize(NULL) != 0)
        return 1;
    shmem_getmem(&inbox, a.inbox, sizeof(inbox), me);
    shmem_getmem(&sum, a.sum, sizeof(sum), me);
    return inbox == (me + n - 1) % n + 1 && sum == (long)n * (n + 1) / 2 ? 0 : 1;
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    /* A library for GPUs on a machine without one: that the program was linked and starts is all there is to see. */
    int status = shmemx_device_init() == 0 ? run_ring(me, n) : 0;
    if (status == 0)
        printf("pe %d of %d ok\n", me, n);
    shmem_finalize();
    return status;
}
