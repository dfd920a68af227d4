/* SPDX-License-Identifier: MIT */
/* shmem_set_lock, shmem_test_lock, shmem_clear_lock: mutual exclusion, what is written under a lock is seen by the next
 * holder, locks are independent of each other, and nobody starves. */
#include "../check.h"

enum { LOCKS = 16 };

/* All of it on PE 0, except the locks, which every PE has. */
struct shared {
    long counter;
    long owner;
    long spread[LOCKS];
};

/* A read-modify-write by plain get and put loses counts as soon as two PEs are inside. */
static void count_inside(long *counter)
{
    long value = shmem_long_g(counter, 0);
    shmem_long_p(counter, value + 1, 0);
}

static void test_exclusion(struct shared *shared, long *lock)
{
    enum { TIMES = 200 };
    int me = shmem_my_pe();
    shared->counter = 0;
    shared->owner = -1;
    shmem_barrier_all();
    for (int i = 0; i < TIMES; i++) {
        shmem_set_lock(lock);
        CHECK_EQ(shmem_long_g(&shared->owner, 0), -1);
        shmem_long_p(&shared->owner, me, 0);
        shmem_quiet();
        count_inside(&shared->counter);
        shmem_quiet();
        CHECK_EQ(shmem_long_g(&shared->owner, 0), me);
        shmem_long_p(&shared->owner, -1, 0);
        shmem_clear_lock(lock); /* completes the puts */
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&shared->counter, 0), (long)TIMES * shmem_n_pes());
    shmem_barrier_all();
}

static void test_try(struct shared *shared, long *lock)
{
    enum { TIMES = 50 };
    int me = shmem_my_pe();
    int npes = shmem_n_pes();

    /* Free: 0 and taken. Taken by another: 1, at once. */
    for (int holder = 0; holder < npes; holder++) {
        if (me == holder)
            CHECK_EQ(shmem_test_lock(lock), 0);
        shmem_barrier_all();
        if (me != holder)
            CHECK_EQ(shmem_test_lock(lock), 1);
        shmem_barrier_all();
        if (me == holder)
            shmem_clear_lock(lock);
        shmem_barrier_all();
    }

    shared->counter = 0;
    shmem_barrier_all();
    for (int i = 0; i < TIMES; i++) {
        int taken = 1;
        while ((taken = shmem_test_lock(lock)) != 0) {
            CHECK_EQ(taken, 1);
            check_pause();
        }
        count_inside(&shared->counter);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&shared->counter, 0), (long)TIMES * npes);
    shmem_barrier_all();
}

/* Waiting and trying PEs on the same lock. */
static void test_mixed(struct shared *shared, long *lock)
{
    enum { TIMES = 100 };
    struct check_random random = check_random_stream(100 + (uint64_t)shmem_my_pe());
    shared->counter = 0;
    shmem_barrier_all();
    for (int i = 0; i < TIMES; i++) {
        if (check_random_below(&random, 2) != 0) {
            shmem_set_lock(lock);
        } else {
            while (shmem_test_lock(lock) != 0)
                check_pause();
        }
        count_inside(&shared->counter);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&shared->counter, 0), (long)TIMES * shmem_n_pes());
    shmem_barrier_all();
}

static void test_many(struct shared *shared, long *locks)
{
    enum { TIMES = 20 };
    int npes = shmem_n_pes();
    struct check_random random = check_random_stream(200 + (uint64_t)shmem_my_pe());
    memset(shared->spread, 0, sizeof(shared->spread));
    shmem_barrier_all();
    /* One after the other in an order of its own. */
    for (int i = 0; i < TIMES; i++) {
        size_t first = check_random_below(&random, LOCKS);
        for (size_t k = 0; k < LOCKS; k++) {
            size_t at = (first + 5 * k) % LOCKS;
            shmem_set_lock(&locks[at]);
            count_inside(&shared->spread[at]);
            shmem_clear_lock(&locks[at]);
        }
    }
    /* All of them at a time, taken in one order (so that nobody deadlocks) and freed in another. */
    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < LOCKS; k++)
            shmem_set_lock(&locks[k]);
        for (int k = 0; k < LOCKS; k++)
            count_inside(&shared->spread[k]);
        for (int k = 0; k < LOCKS; k++)
            shmem_clear_lock(&locks[(k * 7) % LOCKS]);
    }
    shmem_barrier_all();
    for (int k = 0; k < LOCKS; k++)
        CHECK_EQ(shmem_long_g(&shared->spread[k], 0), 2L * TIMES * npes);
    shmem_barrier_all();
}

/* First come, first served: while PE 0 takes the lock over and over, everybody else gets it too. A PE that has asked
 * before cannot be passed by, so between two turns of one PE no other has more than a few. */
static void test_fairness(struct shared *shared, long *lock)
{
    enum { TIMES = 300 };
    long most = 0;
    shared->counter = 0;
    shmem_barrier_all();
    long before = -1;
    for (int i = 0; i < TIMES; i++) {
        shmem_set_lock(lock);
        long turn = shmem_long_g(&shared->counter, 0);
        shmem_long_p(&shared->counter, turn + 1, 0);
        shmem_clear_lock(lock);
        if (before >= 0 && turn - before > most)
            most = turn - before;
        before = turn;
    }
    shmem_barrier_all();
    /* Smoke only: the scheduler may keep a PE from asking for a while, but not for half of the test. */
    if (shmem_n_pes() > 1)
        CHECK(most < (long)TIMES * shmem_n_pes());
    CHECK_EQ(shmem_long_g(&shared->counter, 0), (long)TIMES * shmem_n_pes());
    shmem_barrier_all();
}

/* Clearing completes what was put to other PEs too. */
static void test_clear_is_quiet(long *lock, long *cells)
{
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    memset(cells, 0, (size_t)npes * sizeof(long));
    shmem_barrier_all();
    for (long turn = 0; turn < 20; turn++) {
        const long value = 1000 + turn * npes + me;
        shmem_set_lock(lock);
        /* All copies are equal whenever nobody is inside. */
        long seen = shmem_long_g(&cells[0], 0);
        for (int pe = 1; pe < npes; pe++)
            CHECK_EQ(shmem_long_g(&cells[0], pe), seen);
        for (int pe = 0; pe < npes; pe++)
            shmem_long_put_nbi(&cells[0], &value, 1, pe);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    struct shared *shared = (struct shared *)check_alloc(sizeof(*shared));
    long *locks = (long *)shmem_calloc(LOCKS, sizeof(long));
    long *cells = (long *)check_alloc((size_t)shmem_n_pes() * sizeof(long));
    CHECK_OR_EXIT(locks != NULL);
    test_exclusion(shared, &locks[0]);
    test_try(shared, &locks[1]);
    test_mixed(shared, &locks[2]);
    test_many(shared, locks);
    test_fairness(shared, &locks[3]);
    test_clear_is_quiet(&locks[4], cells);
    check_free(cells);
    shmem_free(locks);
    check_free(shared);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
