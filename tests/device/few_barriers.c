/* SPDX-License-Identifier: MIT */
/* Barrier and sync by one thread, by a wave and by a block in turns, in one sequence, and by different groups on
 * different PEs. What was sent before a barrier is there behind it; nobody leaves a sync before all have come. Two
 * blocks at once, each in its own sequence, then one sequence on a chosen lane. */
#include "device_test.h"

enum { BLOCKS = 2, THREADS = 96, ROUNDS = 30 };

struct few_args {
    shmemd_t h;
    uint64_t *inbox; /* [BLOCKS][n_pes] the number of the sender's round */
    uint64_t *wrong;
};

/* By the group of this turn on this PE; behind a sync of the block. */
SHMEMD_FN int meet(shmemd_t h, uint32_t turn, int is_barrier)
{
    const uint32_t rank = shmemd_thread_index(), wave = shmemd_group_size(shmemd_wave());
    int rc = 0;
    shmemd_group_sync(shmemd_block());
    if (turn % 3 == 0) {
        if (rank == 0)
            rc = is_barrier ? shmemd_barrier(h) : shmemd_sync(h);
    } else if (turn % 3 == 1) {
        if (rank < wave && rank == shmemd_group_rank(shmemd_wave()))
            rc = is_barrier ? shmemd_barrier_wave(h) : shmemd_sync_wave(h);
    } else
        rc = is_barrier ? shmemd_barrier_block(h) : shmemd_sync_block(h);
    shmemd_group_sync(shmemd_block());
    return rc;
}

SHMEMD_KERNEL(few, struct few_args, a)
{
    const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h), rank = shmemd_thread_index();
    const uint32_t block = shmemd_block_index();
    uint64_t *inbox = a.inbox + block * n;
    int bad = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t pe = rank; pe < n; pe += shmemd_block_size())
            shmemd_uint64_p(a.h, &inbox[me], round, (int)pe);
        bad += meet(a.h, round / 2 + me, 1) != 0;
        for (uint32_t pe = rank; pe < n; pe += shmemd_block_size())
            bad += shmemd_uint64_g(a.h, &inbox[pe], (int)me) != round;
        bad += meet(a.h, round + 2 * me, 0) != 0; /* all have read */
    }
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, (int)me);
}

/* The blocks take turns on lane 5. */
SHMEMD_KERNEL(few_on_a_lane, struct few_args, a)
{
    int bad = 0;
    for (uint32_t round = 0; round < 6; round++) {
        if (shmemd_block_index() == round % BLOCKS)
            bad += meet(shmemd_lane(a.h, 5), round / 2, (int)(round & 1)) != 0;
        bad += shmemd_grid_sync(a.h) != 0;
    }
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, shmemd_my_pe(a.h));
}

static int test_main(void)
{
    DEVICE_INIT();
    struct few_args a;
    uint64_t wrong;
    memset(&a, 0, sizeof(a));
    a.inbox = (uint64_t *)shmemx_calloc((size_t)BLOCKS * (size_t)shmem_n_pes(), sizeof(uint64_t), SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.inbox != NULL && a.wrong != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (int again = 0; again < 2; again++) {
        DEVICE_RUN(few, BLOCKS, THREADS, a);
        DEVICE_RUN(few_on_a_lane, BLOCKS, THREADS, a);
    }
    device_read(&wrong, a.wrong, sizeof(wrong));
    CHECK_EQ(wrong, 0);
    shmem_barrier_all();
    shmemx_free(a.wrong);
    shmemx_free(a.inbox);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
