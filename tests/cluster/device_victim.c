/* SPDX-License-Identifier: MIT */
/* One PE of a fault test with kernels: `device_victim WHAT MILLISECONDS PE` runs kernels without end until PE is killed
 * by SIGKILL, by a timer, so at any instruction. WHAT: wait (the kernels of the others wait for a signal that the
 * victim does not send), barrier (they hang in a barrier), busy (puts, signals, atomics and collectives of all to all).
 * With PE < 0 nobody dies and busy ends by itself after some rounds. A PE that finds its kernel at an end without an
 * error, though the kernel can only have given up, says so. */
#include "../check.h"

#include <shmem_device.h>

enum { WORDS = 512, THREADS = 64, ROUNDS = 200 };

struct victim_args {
    shmemd_t h;
    uint64_t *signal, *data, *counter; /* symmetric */
    uint64_t round;
};

SHMEMD_KERNEL(wait_for_signal, struct victim_args, a)
{
    (void)shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_EQ, 4711);
}
SHMEMD_KERNEL(wait_for_barrier, struct victim_args, a) { (void)shmemd_barrier_block(a.h); }
SHMEMD_KERNEL(talk, struct victim_args, a)
{
    int n = shmemd_n_pes(a.h), next = (shmemd_my_pe(a.h) + 1) % n;
    shmemd_uint64_put_signal_block(a.h, a.data, a.data + WORDS, WORDS, a.signal, a.round, SHMEM_SIGNAL_SET, next);
    shmemd_uint64_atomic_inc(a.h, a.counter, next);
    (void)shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_GE, a.round);
    (void)shmemd_uint64_sum_reduce_block(a.h, a.data + 2 * WORDS, a.data + WORDS, WORDS);
    (void)shmemd_barrier_block(a.h);
}

/* What shmemx_stream_synchronize has returned. */
static int run(shmemx_kernel_t kernel, const struct victim_args *a)
{
    if (shmemx_launch(kernel, 1, THREADS, 0, a, sizeof(*a), NULL) != 0)
        exit(2);
    return shmemx_stream_synchronize(NULL);
}

static void wait_in_vain(shmemx_kernel_t kernel, const struct victim_args *a)
{
    if (run(kernel, a) == 0)
        fprintf(stderr, "a kernel gave up, but shmemx_stream_synchronize returned 0\n");
}

static void prepare(struct victim_args *a)
{
    memset(a, 0, sizeof(*a));
    a->signal = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    a->counter = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    a->data = (uint64_t *)shmemx_calloc(3 * WORDS, 8, SHMEMX_DEVICE);
    if (a->signal == NULL || a->counter == NULL || a->data == NULL ||
        shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a->h) != 0)
        exit(2);
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    struct victim_args a;
    if (argc < 4)
        return 2;
    int victim = atoi(argv[3]);
    shmem_init();
    if (shmemx_device_init() != 0) {
        fprintf(stderr, "skipped: there is no device for every PE\n");
        return 77;
    }
    prepare(&a);
    bool dies = shmem_my_pe() == victim;
    if (dies)
        check_die_after(atol(argv[2]));
    if (strcmp(argv[1], "busy") == 0)
        for (a.round = 1; victim >= 0 || a.round <= ROUNDS; a.round++)
            if (run(SHMEMX_KERNEL(talk), &a) != 0)
                break;
    while (dies)
        pause();
    if (strcmp(argv[1], "wait") == 0)
        wait_in_vain(SHMEMX_KERNEL(wait_for_signal), &a);
    else if (strcmp(argv[1], "barrier") == 0)
        wait_in_vain(SHMEMX_KERNEL(wait_for_barrier), &a);
    if (victim >= 0)
        shmem_barrier_all(); /* whoever comes through waits for the dead one here */
    shmem_finalize();
    return 0;
}
