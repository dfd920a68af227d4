/* SPDX-License-Identifier: MIT */
/* A work queue without a master: PEs take tasks with an atomic counter, and keep the best result under a lock.
 * The task: which start below LIMIT has the longest Collatz sequence? */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 300000, TASK = 1000 };

/* Symmetric; everybody uses those of PE 0. */
static long next_task, tasks_done, lock;
static long best[2]; /* start, length */

static long collatz_length(long start)
{
    long length = 1;
    for (unsigned long n = (unsigned long)start; n != 1; length++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return length;
}

static void search(long from, long to, long found[2])
{
    for (long start = from; start < to; start++) {
        long length = collatz_length(start);
        if (length > found[1])
            found[0] = start, found[1] = length;
    }
}

/* A longer sequence wins, of equally long ones the smaller start: the result does not depend on who was first. */
static void keep_best(const long found[2])
{
    long known[2];
    shmem_set_lock(&lock);
    shmem_long_get(known, best, 2, 0);
    if (found[1] > known[1] || (found[1] == known[1] && found[0] < known[0])) {
        shmem_long_put(best, found, 2, 0);
        shmem_quiet(); /* before the lock is free */
    }
    shmem_clear_lock(&lock);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), wrong = 0;
    long taken = 0;
    for (;; taken++) {
        long task = shmem_long_atomic_fetch_inc(&next_task, 0);
        if (task >= LIMIT / TASK)
            break;
        long found[2] = {0, 0};
        search(task * TASK + 1, (task + 1) * TASK + 1, found);
        keep_best(found);
        shmem_long_atomic_inc(&tasks_done, 0);
    }
    printf("PE %d did %ld tasks\n", me, taken);
    shmem_barrier_all();
    if (me == 0) {
        long serial[2] = {0, 0};
        search(1, LIMIT + 1, serial);
        printf("%ld tasks done; the longest sequence starts with %ld and has %ld numbers\n", tasks_done, best[0],
               best[1]);
        wrong = tasks_done != LIMIT / TASK || best[0] != serial[0] || best[1] != serial[1];
    }
    if (wrong)
        fprintf(stderr, "05_queue: the serial search finds something else\n");
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
