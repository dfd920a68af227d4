/* SPDX-License-Identifier: MIT */
/* Kernels that are compiled with SHMEMD_NO_RING: every kind of call by pointer, in the device heap and in memory that is
 * found by the table. Where a PE is reached by the ring only, an operation does not happen, the handle gives up and the
 * host has an error that names the PE; a collective refuses the team on all members, and none of them hangs. */
#define SHMEMD_NO_RING
#include "device_test.h"

enum { THREADS = 64, COUNT = 700 };

struct no_ring_args {
    shmemd_t h;
    uint64_t *words; /* [4]: a signal, a sum, results, by the table or not */
    int32_t *inbox, *outbox;
    uint64_t *wrong;
    int32_t *host_word; /* of the host's heap, which kernels of the CPU device reach */
};

SHMEMD_KERNEL(moves, struct no_ring_args, a)
{
    const int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h), right = (me + 1) % n, left = (me + n - 1) % n;
    const uint32_t rank = shmemd_thread_index();
    int bad = 0;
    for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
        a.outbox[i] = me * 1000 + (int32_t)i;
    shmemd_group_sync(shmemd_block());
    shmemd_int32_put_signal_block(a.h, a.inbox, a.outbox, COUNT, &a.words[0], 1, SHMEM_SIGNAL_SET, right);
    (void)shmemd_signal_wait_until_block(a.h, &a.words[0], SHMEM_CMP_EQ, 1);
    for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
        bad += a.inbox[i] != left * 1000 + (int32_t)i;
    shmemd_uint64_atomic_add(a.h, &a.words[1], 1, 0);
    bad += shmemd_barrier_block(a.h) != 0;
    if (rank == 0) {
        bad += shmemd_uint64_g(a.h, &a.words[1], 0) != (uint64_t)n * shmemd_block_size();
        shmemd_putmem_signal(a.h, a.inbox, a.outbox, 8, &a.words[0], 2, SHMEM_SIGNAL_SET, right);
        shmemd_uint64_wait_until(a.h, &a.words[0], SHMEM_CMP_EQ, 2);
        bad += a.inbox[1] != left * 1000 + 1;
        if (a.host_word != 0) {
            shmemd_int32_p(a.h, a.host_word, me + 5, right);
            shmemd_quiet(a.h);
        }
    }
    bad += shmemd_int32_max_reduce_block(a.h, a.inbox, a.outbox, COUNT) != 0;
    for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
        bad += a.inbox[i] != (n - 1) * 1000 + (int32_t)i;
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, me);
}

SHMEMD_KERNEL(sends, struct no_ring_args, a)
{
    const int right = (shmemd_my_pe(a.h) + 1) % shmemd_n_pes(a.h);
    if (shmemd_thread_index() == 0) {
        shmemd_uint64_p(a.h, &a.words[2], 7, right);
        if (shmemd_status(a.h) == 0)
            *a.wrong = 1;
    }
}

SHMEMD_KERNEL(meets, struct no_ring_args, a)
{
    const int rc = shmemd_barrier_block(a.h), rc2 = shmemd_sync_wave(a.h);
    if (rc == 0 || rc2 == 0)
        *a.wrong = 1;
}

static void check_refused(const struct no_ring_args *a, shmemx_kernel_t kernel)
{
    const int right = (shmem_my_pe() + 1) % shmem_n_pes();
    shmemx_device_error_t error;
    CHECK_OR_EXIT(shmemx_launch(kernel, 1, THREADS, 0, a, sizeof(*a), NULL) == 0);
    CHECK(shmemx_stream_synchronize(NULL) != 0);
    CHECK_EQ(shmemx_status(SHMEM_TEAM_WORLD, 0, &error), 1);
    CHECK_EQ(error.gave_up, 2);
    CHECK_EQ(error.seen, (uint64_t)shmem_n_pes());
    CHECK(error.expected != (uint64_t)shmem_my_pe() && error.expected < error.seen);
    CHECK(kernel != SHMEMX_KERNEL(sends) || error.expected == (uint64_t)right);
    shmem_barrier_all();
    CHECK(shmemx_device_reset(SHMEM_TEAM_WORLD, 0) == 0);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct no_ring_args a;
    uint64_t wrong;
    memset(&a, 0, sizeof(a));
    a.words = (uint64_t *)shmemx_calloc(4, sizeof(uint64_t), SHMEMX_DEVICE);
    a.inbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.outbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    int32_t *host_word = (int32_t *)shmem_calloc(1, sizeof(int32_t));
    CHECK_OR_EXIT(a.words != NULL && a.inbox != NULL && a.outbox != NULL && a.wrong != NULL && host_word != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
#ifdef ISO_PRIM_CPU_H
    a.host_word = host_word;
#endif
    if (shmem_n_pes() == 1 || !device_flag("SHMEM_FORCE_PROXY")) {
        DEVICE_RUN(moves, 1, THREADS, a);
        shmem_barrier_all();
        if (a.host_word != NULL)
            CHECK_EQ(*host_word, (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes() + 5);
    } else {
        check_refused(&a, SHMEMX_KERNEL(sends));
        check_refused(&a, SHMEMX_KERNEL(meets));
    }
    device_read(&wrong, a.wrong, sizeof(wrong));
    CHECK_EQ(wrong, 0);
    shmem_barrier_all();
    shmem_free(host_word);
    shmemx_free(a.wrong);
    shmemx_free(a.outbox);
    shmemx_free(a.inbox);
    shmemx_free(a.words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
