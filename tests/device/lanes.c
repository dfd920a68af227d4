/* SPDX-License-Identifier: MIT */
/* Block collectives over a lane that shmemd_lane has chosen: the block that makes them is the last one of its grid to
 * be done, another one on each PE, or blocks that meet crosswise, all lanes at once, or another block in each round.
 * Every collective, short and long. */
#include "device_test.h"

enum { BLOCKS = 4, THREADS = 64, MOST = 2048, CALLS = 8, ROUNDS = 6 };

struct lane_args {
    shmemd_t h;
    int *done;        /* [1] blocks of this PE that are done */
    uint32_t *source; /* [BLOCKS][n_pes * MOST] symmetric: PE * 1000003 + place */
    uint32_t *dest;   /* [BLOCKS][CALLS][n_pes * MOST] likewise */
    int *rc;          /* [BLOCKS], symmetric: what the calls of the block returned, or'ed; -1: made none */
    int32_t nelems, pattern, round;
};

enum { LAST_BLOCK, CROSSWISE, ANOTHER_EACH, PATTERNS };
static const char *const pattern_names[] = {"the last block", "crosswise", "another block each round"};

/* What a block can call, in two kernels: a compiler needs more than twice as long for one of all. `at`: the part of the
 * arrays. */
SHMEMD_FN int move_all(shmemd_t h, struct lane_args a, uint32_t at)
{
    const size_t n = (size_t)a.nelems, all = (size_t)shmemd_n_pes(h) * MOST;
    const int me = shmemd_my_pe(h), pes = shmemd_n_pes(h);
    uint32_t *source = a.source + at * all, *dest = a.dest + at * CALLS * all;
    int rc = shmemd_sync_block(h);
    rc |= shmemd_uint32_broadcast_block(h, dest, source, n, pes - 1);
    rc |= shmemd_uint32_fcollect_block(h, dest + all, source, n);
    rc |= shmemd_uint32_alltoall_block(h, dest + 2 * all, source, n);
    rc |= shmemd_uint32_permute_block(h, dest + 3 * all, source, n, (me + 1) % pes, (me + pes - 1) % pes);
    return rc;
}
SHMEMD_FN int sum_all(shmemd_t h, struct lane_args a, uint32_t at)
{
    const size_t n = (size_t)a.nelems, all = (size_t)shmemd_n_pes(h) * MOST;
    uint32_t *source = a.source + at * all, *dest = a.dest + at * CALLS * all;
    int rc = shmemd_barrier_block(h);
    rc |= shmemd_uint32_sum_reduce_block(h, dest + 4 * all, source, n);
    rc |= shmemd_uint32_sum_reducescatter_block(h, dest + 5 * all, source, n);
    rc |= shmemd_barrier_block(h);
    return rc;
}

/* Whether this block makes the calls, and by which lane. last: shared. */
SHMEMD_FN bool has_turn(struct lane_args a, int *last, uint32_t *lane)
{
    const uint32_t block = shmemd_block_index(), me = (uint32_t)shmemd_my_pe(a.h);
    if (a.pattern == LAST_BLOCK) {
        /* In another order on each PE; the wait acquires what earlier blocks have done. */
        uint32_t turn = (block + me + (uint32_t)a.round) % BLOCKS;
        if (shmemd_thread_index() == 0) {
            shmemd_int_wait_until(a.h, a.done, SHMEM_CMP_GE, (int)turn);
            *last = shmemd_int_atomic_fetch_add(a.h, a.done, 1, (int)me) == BLOCKS - 1;
        }
        shmemd_group_sync(shmemd_block());
        *lane = 0;
        return *last != 0;
    }
    *lane = a.pattern == CROSSWISE ? (block + me + (uint32_t)a.round) % BLOCKS : 2;
    return a.pattern == CROSSWISE || block == (me + (uint32_t)a.round) % BLOCKS;
}
SHMEMD_KERNEL(move_by_lanes, struct lane_args, a)
{
    SHMEMD_SHARED(int, last, 1);
    uint32_t lane;
    if (!has_turn(a, last, &lane))
        return;
    int rc = move_all(shmemd_lane(a.h, lane), a, lane);
    if (shmemd_thread_index() == 0)
        a.rc[shmemd_block_index()] = rc;
}
SHMEMD_KERNEL(sum_by_lanes, struct lane_args, a)
{
    SHMEMD_SHARED(int, last, 1);
    uint32_t lane;
    if (!has_turn(a, last, &lane))
        return;
    int rc = sum_all(shmemd_lane(a.h, lane), a, lane);
    if (shmemd_thread_index() == 0)
        a.rc[shmemd_block_index()] = rc;
}

static uint32_t value(int pe, size_t i) { return (uint32_t)pe * 1000003u + (uint32_t)i; }

static bool check_part(const struct lane_args *a, uint32_t lane, const char *what)
{
    const int me = shmem_my_pe(), pes = shmem_n_pes();
    const size_t n = (size_t)a->nelems, all = (size_t)pes * MOST, bytes = CALLS * all * 4;
    uint32_t *d = (uint32_t *)malloc(bytes), wrong = 0, sum = (uint32_t)(pes * (pes - 1) / 2) * 1000003u;
    CHECK_OR_EXIT(d != NULL);
    device_read(d, a->dest + lane * CALLS * all, bytes);
    for (size_t i = 0; i < n; i++) {
        wrong += d[i] != value(pes - 1, i);
        wrong += d[3 * all + i] != value((me + pes - 1) % pes, i);
        wrong += d[4 * all + i] != sum + (uint32_t)(i * (size_t)pes);
        wrong += d[5 * all + i] != sum + (uint32_t)(((size_t)me * n + i) * (size_t)pes);
        for (int pe = 0; pe < pes; pe++) {
            wrong += d[all + (size_t)pe * n + i] != value(pe, i);
            wrong += d[2 * all + (size_t)pe * n + i] != value(pe, (size_t)me * n + i);
        }
    }
    free(d);
    return CHECK_NAMED(wrong == 0, what);
}

static void check_pattern(struct lane_args *a, int pattern, int round)
{
    const int none[BLOCKS] = {-1, -1, -1, -1}, zero = 0;
    const size_t dest = (size_t)BLOCKS * CALLS * (size_t)shmem_n_pes() * MOST * 4;
    char *poison = (char *)malloc(dest);
    CHECK_OR_EXIT(poison != NULL);
    memset(poison, CHECK_POISON, dest);
    device_write(a->dest, poison, dest);
    free(poison);
    a->pattern = pattern;
    a->round = round;
    for (int kernel = 0; kernel < 2; kernel++) {
        int rc[BLOCKS], made = 0, bad = 0;
        device_write(a->rc, none, sizeof(none));
        device_write(a->done, &zero, sizeof(zero));
        shmem_barrier_all();
        if (kernel == 0)
            DEVICE_RUN(move_by_lanes, BLOCKS, THREADS, *a);
        else
            DEVICE_RUN(sum_by_lanes, BLOCKS, THREADS, *a);
        device_read(rc, a->rc, sizeof(rc));
        for (int b = 0; b < BLOCKS; b++) {
            made += rc[b] != -1;
            bad += rc[b] > 0;
        }
        CHECK_EQ_NAMED(made, pattern == CROSSWISE ? BLOCKS : 1, pattern_names[pattern]);
        CHECK_EQ_NAMED(bad, 0, pattern_names[pattern]);
    }
    for (uint32_t lane = 0; lane < BLOCKS; lane++)
        if (pattern == CROSSWISE || lane == (pattern == LAST_BLOCK ? 0u : 2u))
            check_part(a, lane, pattern_names[pattern]);
    shmem_barrier_all();
}

static int test_main(void)
{
    DEVICE_INIT();
    struct lane_args a;
    const size_t all = (size_t)shmem_n_pes() * MOST;
    memset(&a, 0, sizeof(a));
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 3, &a.h) == 0);
    a.done = (int *)shmemx_calloc(1, sizeof(int), SHMEMX_DEVICE);
    a.rc = (int *)shmemx_calloc(BLOCKS, sizeof(int), SHMEMX_DEVICE);
    a.source = (uint32_t *)shmemx_calloc(BLOCKS * all, 4, SHMEMX_DEVICE);
    a.dest = (uint32_t *)shmemx_calloc(BLOCKS * CALLS * all, 4, SHMEMX_DEVICE);
    uint32_t *values = (uint32_t *)malloc(BLOCKS * all * 4);
    CHECK_OR_EXIT(a.done != NULL && a.rc != NULL && a.source != NULL && a.dest != NULL && values != NULL);
    for (size_t i = 0; i < BLOCKS * all; i++)
        values[i] = value(shmem_my_pe(), i % all);
    device_write(a.source, values, BLOCKS * all * 4);
    free(values);
    for (int round = 0; round < ROUNDS; round++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            a.nelems = round % 2 == 0 ? 33 : MOST; /* by lines; between the members' buffers */
            check_pattern(&a, pattern, round);
        }
    shmemx_free(a.dest);
    shmemx_free(a.source);
    shmemx_free(a.rc);
    shmemx_free(a.done);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
