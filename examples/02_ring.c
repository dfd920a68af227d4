/* SPDX-License-Identifier: MIT */
/* Put to the right neighbour, get from the left one, and a token that goes round by put and flag. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 1000 };

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes(), wrong = 0;
    int right = (me + 1) % npes, left = (me + npes - 1) % npes;
    /* Allocation is collective: the same calls on every PE give objects that every PE can reach. */
    long *inbox = (long *)shmem_calloc(WORDS, sizeof *inbox);
    long *outbox = (long *)shmem_calloc(WORDS, sizeof *outbox);
    long *token = (long *)shmem_calloc(1, sizeof *token);
    if (!inbox || !outbox || !token)
        shmem_global_exit(EXIT_FAILURE);

    for (long i = 0; i < WORDS; i++)
        outbox[i] = 1000000L * me + i;
    shmem_long_put(inbox, outbox, WORDS, right);
    shmem_barrier_all(); /* completes the put and tells the receiver */
    for (long i = 0; i < WORDS; i++)
        wrong += inbox[i] != 1000000L * left + i;

    long mine[WORDS]; /* the local side may be any memory */
    shmem_long_get(mine, outbox, WORDS, left);
    for (long i = 0; i < WORDS; i++)
        wrong += mine[i] != inbox[i];

    /* The token: each PE waits for it, adds its number, and hands it on. */
    if (me != 0)
        shmem_long_wait_until(token, SHMEM_CMP_NE, 0);
    shmem_long_p(token, *token + me + 1, right);
    shmem_barrier_all();
    if (me == 0) {
        long expected = (long)npes * (npes + 1) / 2;
        printf("the token went round %d PEs and came back as %ld\n", npes, *token);
        wrong += *token != expected;
    }
    if (wrong)
        fprintf(stderr, "02_ring: PE %d saw %d wrong words\n", me, wrong);
    shmem_free(token);
    shmem_free(outbox);
    shmem_free(inbox);
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
