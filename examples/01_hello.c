/* SPDX-License-Identifier: MIT */
/* Who am I, how many are we, and one word written into every other PE. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>

/* Globals are symmetric: every PE has this word, at the same place, and every other PE may write it. */
static int greetings;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes();
    for (int pe = 0; pe < npes; pe++)
        shmem_int_atomic_inc(&greetings, pe);
    shmem_barrier_all(); /* everybody's increments are done */
    printf("hello from PE %d of %d, greeted %d times\n", me, npes, greetings);
    int right = greetings == npes;
    shmem_finalize();
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
