/* SPDX-License-Identifier: MIT */
/* wait_until_for, flush, and atomic add of float and double.
 * Waits that never hold end after their time, those that do hold say so to the whole group, and what was ordered
 * before the word may be read then. After a flush the source of put_nbi is overwritten, and the target still gets what
 * it held before. Sums of small integers are exact in any order: no addition of any thread of any PE may be lost. */
#include "device_test.h"

enum { THREADS = 96, COUNT = 3000, ROUNDS = 8 };

struct for_args {
    shmemd_t h;
    uint64_t *words;         /* [4]: a flag, one that stays 0, wrong results */
    int32_t *inbox, *outbox; /* [COUNT] */
    float *sum_f;            /* PE 0's is used by all */
    double *sum_d;
    uint64_t adds;
};

SHMEMD_FN void count_wrong(struct for_args a, int wrong)
{
    if (wrong != 0)
        shmemd_uint64_atomic_add(a.h, &a.words[2], 1, shmemd_my_pe(a.h));
}

SHMEMD_KERNEL(waits_for, struct for_args, a)
{
    const int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h), right = (me + 1) % n, left = (me + n - 1) % n;
    const uint32_t rank = shmemd_thread_index();
    const uint64_t before = shmemd_clock_ns();
    count_wrong(a, shmemd_uint64_wait_until_for_block(a.h, &a.words[1], SHMEM_CMP_NE, 0, 3000000) != 0);
    count_wrong(a, shmemd_clock_ns() - before < 3000000 && rank == 0);
    count_wrong(a, shmemd_uint64_wait_until_for(a.h, &a.words[1], SHMEM_CMP_EQ, 0, 0) != 1); /* looked at once */
    count_wrong(a, shmemd_uint64_wait_until_for_wave(a.h, &a.words[1], SHMEM_CMP_GT, 0, 0) != 0);
    for (int32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
            a.outbox[i] = round * 1000 + me;
        shmemd_group_sync(shmemd_block());
        shmemd_int32_put_nbi_block(a.h, a.inbox, a.outbox, COUNT, right);
        shmemd_flush_block(a.h);
        for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
            a.outbox[COUNT - 1 - i] = -1;
        shmemd_fence_block(a.h);
        if (rank == 0)
            shmemd_signal_op(a.h, &a.words[0], (uint64_t)round, SHMEM_SIGNAL_SET, right);
        while (shmemd_uint64_wait_until_for_block(a.h, &a.words[0], SHMEM_CMP_GE, (uint64_t)round, 100000) == 0 &&
               shmemd_status(a.h) == 0)
            ;
        for (uint32_t i = rank; i < COUNT; i += shmemd_block_size())
            count_wrong(a, a.inbox[i] != round * 1000 + left);
        count_wrong(a, shmemd_barrier_block(a.h) != 0);
    }
}

SHMEMD_KERNEL(adds, struct for_args, a)
{
    double last = -1;
    for (uint64_t i = 0; i < a.adds; i++) {
        shmemd_float_atomic_add(a.h, a.sum_f, 1.0f, 0);
        const double old = shmemd_double_atomic_fetch_add(a.h, a.sum_d, 2.0, 0);
        count_wrong(a, old <= last); /* what this thread has seen before only grows */
        last = old;
    }
    (void)shmemd_barrier_block(a.h);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct for_args a;
    uint64_t seen[4];
    memset(&a, 0, sizeof(a));
    a.words = (uint64_t *)shmemx_calloc(4, sizeof(uint64_t), SHMEMX_DEVICE);
    a.inbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.outbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.sum_f = (float *)shmemx_calloc(1, sizeof(float), SHMEMX_DEVICE);
    a.sum_d = (double *)shmemx_calloc(1, sizeof(double), SHMEMX_DEVICE);
    a.adds = (uint64_t)device_number("SHMEM_TEST_ROUNDS", 40);
    CHECK_OR_EXIT(a.words != NULL && a.inbox != NULL && a.outbox != NULL && a.sum_f != NULL && a.sum_d != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    DEVICE_RUN(waits_for, 1, THREADS, a);
    DEVICE_RUN(adds, 1, THREADS, a);
    shmem_barrier_all();
    device_read(seen, a.words, sizeof(seen));
    CHECK_EQ(seen[2], 0);
    CHECK_EQ(seen[0], ROUNDS);
    if (shmem_my_pe() == 0) {
        const double all = (double)a.adds * THREADS * shmem_n_pes();
        float f;
        double d;
        device_read(&f, a.sum_f, sizeof(f));
        device_read(&d, a.sum_d, sizeof(d));
        CHECK(f == (float)all);
        CHECK(d == 2 * all);
    }
    shmem_barrier_all();
    shmemx_free(a.sum_d);
    shmemx_free(a.sum_f);
    shmemx_free(a.outbox);
    shmemx_free(a.inbox);
    shmemx_free(a.words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
