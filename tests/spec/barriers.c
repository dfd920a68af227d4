/* SPDX-License-Identifier: MIT */
/* shmem_barrier_all, shmem_sync_all, shmem_team_sync: nobody leaves before everybody has come, on all teams, many
 * times, and what they promise about stores and operations; one-sided operations need no call at their target. */
#include "../check.h"
#include "team_set.h"

/* Arrivals are counted on the last PE; a PE that leaves early sees too few. */
static void test_nobody_leaves_early(long *arrived)
{
    enum { ROUNDS = 150 };
    int npes = shmem_n_pes();
    struct check_random random = check_random_stream(900 + (uint64_t)shmem_my_pe());
    *arrived = 0;
    shmem_barrier_all();
    for (long round = 1; round <= ROUNDS; round++) {
        if (check_random_below(&random, 20) == 0)
            usleep(200);
        shmem_long_atomic_inc(arrived, npes - 1);
        shmem_quiet();
        switch (round % 3) {
        case 0:
            shmem_barrier_all();
            break;
        case 1:
            shmem_sync_all();
            break;
        default:
            CHECK_EQ(shmem_team_sync(SHMEM_TEAM_WORLD), 0);
        }
        CHECK(shmem_long_atomic_fetch(arrived, npes - 1) >= round * npes);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_atomic_fetch(arrived, npes - 1), (long)ROUNDS * npes);
    shmem_barrier_all();
}

/* The same on each team, counted on its PE 0. Nobody else is held up: only members call. */
static void test_teams(long *arrived, const struct team_set *set)
{
    enum { ROUNDS = 60 };
    for (int t = 0; t < TEAMS; t++) {
        shmem_team_t team = set->teams[t];
        *arrived = 0;
        shmem_barrier_all();
        for (long round = 1; team != SHMEM_TEAM_INVALID && round <= ROUNDS; round++) {
            int root = team_world_pe(team, 0);
            shmem_long_atomic_inc(arrived, root);
            shmem_quiet();
            CHECK_EQ(shmem_team_sync(team), 0);
            long seen = shmem_long_atomic_fetch(arrived, root);
            CHECK_NAMED(seen >= round * shmem_team_n_pes(team), team_names[t]);
        }
        shmem_barrier_all();
    }
}

/* Syncs make plain stores visible: through shmem_ptr, and own stores to a reader's get. */
static void test_stores(long *cells)
{
    enum { ROUNDS = 60 };
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    long *there = (long *)shmem_ptr(&cells[1], right);
    for (long round = 1; round <= ROUNDS; round++) {
        cells[0] = 10 * round + me;
        if (there != NULL)
            *there = 20 * round + me;
        if (round % 2)
            shmem_sync_all();
        else
            shmem_barrier_all();
        CHECK_EQ(shmem_long_g(&cells[0], left), 10 * round + left);
        if (shmem_ptr(&cells[1], left) != NULL) /* it stored here */
            CHECK_EQ(cells[1], 20 * round + left);
        shmem_sync_all();
    }
}

/* The target is outside of the library; the others get done all the same. */
static void test_progress(long *cells)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    long got = -1;
    if (npes == 1)
        return;
    long *own = (long *)check_alloc((size_t)npes * 2 * sizeof(long));
    memset(cells, 0, 4 * sizeof(long));
    shmem_barrier_all();
    if (me == 0) {
        /* Twenty seconds: only a library that needs calls at the target takes as long. */
        for (int i = 0; i < 20000 && __atomic_load_n(&cells[3], __ATOMIC_ACQUIRE) != npes - 1; i++)
            usleep(1000);
        CHECK_EQ(__atomic_load_n(&cells[3], __ATOMIC_ACQUIRE), npes - 1);
    } else {
        const long value = 5;
        shmem_long_put(&own[2 * me], &value, 1, 0);
        shmem_long_p(&own[2 * me + 1], value, 0);
        shmem_quiet();
        shmem_long_get(&got, &own[2 * me], 1, 0);
        CHECK_EQ(got, 5);
        CHECK(shmem_long_atomic_fetch_inc(&cells[0], 0) >= 0);
        shmem_long_atomic_inc(&cells[3], 0);
        shmem_quiet();
    }
    check_free(own);
}

static int test_main(void)
{
    CHECK_INIT();
    long *cells = (long *)check_alloc(4 * sizeof(long));
    struct team_set set = team_set_make();
    test_nobody_leaves_early(cells);
    test_teams(cells, &set);
    test_stores(cells);
    test_progress(cells);
    team_set_destroy(&set);
    check_free(cells);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
