/* SPDX-License-Identifier: MIT */
/* A spin lock by compare_swap: shmemd_acquire behind it, so that plain loads of the thread that took it, or of its whole
 * block, may read what the last holder stored; a fence before it is given back. Every PE counts up the same words
 * of PE 0; none of the additions may be lost. SHMEM_TEST_ROUNDS rounds in all. */
#include "device_test.h"

enum { THREADS = 128, WORDS = 200 };

/* In device memory; PE 0's is used by all. */
struct guarded {
    uint64_t lock;
    uint64_t pad[15];
    uint64_t words[WORDS];
};

struct lock_args {
    shmemd_t h;
    struct guarded *guarded;
    uint64_t rounds;
    int32_t by_block;
};

SHMEMD_FN void take_lock(shmemd_t h, uint64_t *lock)
{
    if (shmemd_thread_index() == 0)
        while (shmemd_uint64_atomic_compare_swap(h, lock, 0, (uint64_t)shmemd_my_pe(h) + 1, 0) != 0)
            ;
}

/* Plain loads and stores where there is a pointer. */
SHMEMD_FN void count_up(struct lock_args a, uint32_t first, uint32_t step)
{
    uint64_t *near_words = (uint64_t *)shmemd_ptr(a.h, a.guarded->words, 0);
    for (uint32_t i = first; i < WORDS; i += step)
        if (near_words != 0)
            near_words[i]++;
        else
            shmemd_uint64_p(a.h, &a.guarded->words[i], shmemd_uint64_g(a.h, &a.guarded->words[i], 0) + 1, 0);
}

SHMEMD_KERNEL(locks, struct lock_args, a)
{
    uint32_t me = (uint32_t)shmemd_thread_index();
    for (uint64_t round = 0; round < a.rounds; round++) {
        take_lock(a.h, &a.guarded->lock);
        if (a.by_block != 0) {
            shmemd_acquire_block(a.h);
            count_up(a, me, (uint32_t)shmemd_block_size());
            shmemd_group_sync(shmemd_block());
        } else if (me == 0) {
            shmemd_acquire(a.h);
            count_up(a, 0, 17);
        }
        if (me == 0) {
            shmemd_fence(a.h);
            shmemd_uint64_atomic_set(a.h, &a.guarded->lock, 0, 0);
        }
        shmemd_group_sync(shmemd_block());
    }
}

static int test_main(void)
{
    DEVICE_INIT();
    struct lock_args a;
    struct guarded seen;
    memset(&a, 0, sizeof(a));
    a.guarded = (struct guarded *)shmemx_calloc(1, sizeof(*a.guarded), SHMEMX_DEVICE);
    a.rounds = (uint64_t)device_number("SHMEM_TEST_ROUNDS", 2000) / 2;
    CHECK_OR_EXIT(a.guarded != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (a.by_block = 0; a.by_block <= 1; a.by_block++)
        DEVICE_RUN(locks, 1, THREADS, a);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        uint64_t each = a.rounds * (uint64_t)shmem_n_pes();
        device_read(&seen, a.guarded, sizeof(seen));
        CHECK_EQ(seen.lock, 0);
        for (int i = 0; i < WORDS; i++)
            CHECK_EQ(seen.words[i], i % 17 == 0 ? 2 * each : each);
    }
    shmem_barrier_all();
    shmemx_free(a.guarded);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
