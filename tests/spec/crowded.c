/* SPDX-License-Identifier: MIT */
/* More PEs than cores: a loop of the program over shmem_test_lock or a test leaves the core to the PE that it tests
 * for. A call that does not yield is repeated until the time slice ends, many thousands of times a turn. */
#define _GNU_SOURCE /* CPU_SET */
#include "../check.h"

enum { TIMES = 40, MOST_A_TURN = 1000 };

static void share_one_core(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

static void test_locks(long *lock)
{
    long failed = 0;
    for (int i = 0; i < TIMES; i++) {
        while (shmem_test_lock(lock) != 0)
            failed++;
        check_pause(); /* the others come while it is held */
        shmem_clear_lock(lock);
    }
    CHECK(failed < (long)TIMES * MOST_A_TURN);
}

/* The word goes round. */
static void test_words(long *word)
{
    int me = shmem_my_pe(), npes = shmem_n_pes();
    long failed = 0;
    for (long turn = 1; turn <= TIMES; turn++) {
        if (me == 0)
            shmem_long_p(word, turn, 1 % npes);
        while (!shmem_long_test(word, SHMEM_CMP_GE, turn))
            failed++;
        if (me != 0)
            shmem_long_p(word, turn, (me + 1) % npes);
    }
    CHECK(failed < (long)TIMES * MOST_A_TURN);
}

static int test_main(void)
{
    share_one_core(); /* before the library counts cores */
    CHECK_INIT();
    long *lock = (long *)shmem_calloc(2, sizeof(long));
    CHECK_OR_EXIT(lock != NULL);
    test_locks(&lock[0]);
    shmem_barrier_all();
    test_words(&lock[1]);
    shmem_barrier_all();
    shmem_free(lock);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
