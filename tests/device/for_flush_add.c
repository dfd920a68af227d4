/* SPDX-License-Identifier: MIT */
/* wait_until_for, flush, atomic add of float, double and pairs of halves, one signal for puts of many threads.
 * Waits that never hold end after their time, those that do hold say so to the whole group, and what was ordered
 * before the word may be read then. After a flush the source of put_nbi is overwritten, and the target still gets what
 * it held before. Sums of small integers are exact in any order: no addition of any thread of any PE may be lost. Behind
 * the one signal of a wave, and of a block, the data of each of its threads is there. */
#include "device_test.h"

#include <math.h>

enum { THREADS = 96, COUNT = 3000, ROUNDS = 8, EACH = 48 };
enum { PAIR_THREADS = 4, PAIR_ADDS = 8 }; /* bfloat16 holds integers up to 256 */

struct for_args {
    shmemd_t h;
    uint64_t *words;         /* [4]: a flag, one that stays 0, wrong results */
    int32_t *inbox, *outbox; /* [COUNT] */
    float *sum_f;            /* PE 0's is used by all */
    double *sum_d;
    shmemd_half2_t *sum_h; /* [2], of the second one a half is added alone */
    shmemd_bfloat162_t *sum_b;
    char *each, *each_out; /* [THREADS][EACH] */
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
    if (shmemd_thread_index() < PAIR_THREADS)
        for (int i = 0; i < PAIR_ADDS; i++) {
            const shmemd_half2_t h2 = {shmemd_half_from_float(1), shmemd_half_from_float(-1)};
            const shmemd_bfloat162_t b2 = {shmemd_bfloat16_from_float(-1), shmemd_bfloat16_from_float(1)};
            shmemd_half2_atomic_add(a.h, a.sum_h, h2, 0);
            shmemd_half_atomic_add(a.h, &a.sum_h[1].x, h2.y, 0);
            shmemd_bfloat16_atomic_add(a.h, &a.sum_b[1].y, b2.y, 0);
            (void)shmemd_bfloat162_atomic_fetch_add(a.h, a.sum_b, b2, 0);
        }
    (void)shmemd_barrier_block(a.h);
}

/* Thread t sends up to EACH - 1 bytes to place t; a thread in eight has nothing. */
SHMEMD_FN uint32_t each_bytes(uint32_t thread, uint32_t round) { return (thread + round) * 5 % 8 * 6; }
SHMEMD_KERNEL(each_then_signal, struct for_args, a)
{
    const int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h), right = (me + 1) % n, left = (me + n - 1) % n;
    const uint32_t rank = shmemd_thread_index(), wave = shmemd_group_size(shmemd_wave());
    const uint32_t waves = (THREADS + wave - 1) / wave;
    uint64_t expected = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const uint32_t bytes = each_bytes(rank, round);
        char *to = a.each + rank * EACH + round % 2, *from = a.each_out + rank * EACH;
        for (uint32_t i = 0; i < EACH; i++)
            from[i] = (char)(rank + round * 3 + i + (uint32_t)me);
        if (round % 2 == 0)
            shmemd_putmem_each_signal_wave(a.h, to, from, bytes, &a.words[3], 1, SHMEM_SIGNAL_ADD, right);
        else
            shmemd_putmem_each_signal_block(a.h, to, from, bytes, &a.words[3], 1, SHMEM_SIGNAL_ADD, right);
        expected += round % 2 == 0 ? waves : 1;
        (void)shmemd_signal_wait_until_block(a.h, &a.words[3], SHMEM_CMP_EQ, expected);
        for (uint32_t i = 0; i < bytes; i++)
            count_wrong(a, to[i] != (char)(rank + round * 3 + i + (uint32_t)left));
        shmemd_pe_fence_block(a.h, right);
        count_wrong(a, shmemd_barrier_block(a.h) != 0);
    }
}

/* On the host, where kernels' functions cannot be called: of numbers that are not subnormal. */
static float half_number(shmemd_half_t x)
{
    float size = ldexpf((float)(0x400 | (x.bits & 0x3ff)), (x.bits >> 10 & 31) - 25);
    return x.bits >> 15 != 0 ? -size : size;
}
static float bfloat16_number(shmemd_bfloat16_t x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static int test_main(void)
{
    DEVICE_INIT();
    struct for_args a;
    uint64_t seen[4];
    const uint64_t no_signals = 0;
    memset(&a, 0, sizeof(a));
    a.words = (uint64_t *)shmemx_calloc(4, sizeof(uint64_t), SHMEMX_DEVICE);
    a.inbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.outbox = (int32_t *)shmemx_calloc(COUNT, sizeof(int32_t), SHMEMX_DEVICE);
    a.sum_f = (float *)shmemx_calloc(1, sizeof(float), SHMEMX_DEVICE);
    a.sum_d = (double *)shmemx_calloc(1, sizeof(double), SHMEMX_DEVICE);
    a.sum_h = (shmemd_half2_t *)shmemx_calloc(2, sizeof(shmemd_half2_t), SHMEMX_DEVICE);
    a.sum_b = (shmemd_bfloat162_t *)shmemx_calloc(2, sizeof(shmemd_bfloat162_t), SHMEMX_DEVICE);
    a.each = (char *)shmemx_calloc(THREADS, EACH, SHMEMX_DEVICE);
    a.each_out = (char *)shmemx_calloc(THREADS, EACH, SHMEMX_DEVICE);
    a.adds = (uint64_t)device_number("SHMEM_TEST_ROUNDS", 40);
    CHECK_OR_EXIT(a.words != NULL && a.inbox != NULL && a.outbox != NULL && a.sum_f != NULL && a.sum_d != NULL);
    CHECK_OR_EXIT(a.sum_h != NULL && a.sum_b != NULL && a.each != NULL && a.each_out != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    DEVICE_RUN(waits_for, 1, THREADS, a);
    DEVICE_RUN(adds, 1, THREADS, a);
    for (int again = 0; again < 2; again++) {
        device_write(&a.words[3], &no_signals, sizeof(no_signals));
        shmem_barrier_all();
        DEVICE_RUN(each_then_signal, 1, THREADS, a);
        shmem_barrier_all();
    }
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
        const float pairs = (float)(PAIR_THREADS * PAIR_ADDS * shmem_n_pes());
        shmemd_half2_t h2[2];
        shmemd_bfloat162_t b2[2];
        device_read(h2, a.sum_h, sizeof(h2));
        device_read(b2, a.sum_b, sizeof(b2));
        CHECK(half_number(h2[0].x) == pairs && half_number(h2[0].y) == -pairs);
        CHECK(half_number(h2[1].x) == -pairs && h2[1].y.bits == 0);
        CHECK(bfloat16_number(b2[0].x) == -pairs && bfloat16_number(b2[0].y) == pairs);
        CHECK(bfloat16_number(b2[1].y) == pairs && b2[1].x.bits == 0);
    }
    shmem_barrier_all();
    shmemx_free(a.each_out);
    shmemx_free(a.each);
    shmemx_free(a.sum_b);
    shmemx_free(a.sum_h);
    shmemx_free(a.sum_d);
    shmemx_free(a.sum_f);
    shmemx_free(a.outbox);
    shmemx_free(a.inbox);
    shmemx_free(a.words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
