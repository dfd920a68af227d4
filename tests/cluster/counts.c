/* SPDX-License-Identifier: MIT */
/* What operations on a PE of another node cost in calls of the library to the device: work requests, posts,
 * completions, copies, system calls, read from the network section of shmemx_info_text, before and after. PE 0 acts,
 * the others wait. Two PEs on two nodes; elsewhere there is no such section, and it is skipped. */
#include "network_counts.h"

enum { ROUNDS = 100, MANY = 1000, STRIDE = 2, WORDS = MANY * STRIDE + 8 };

/* A message from before the count may come late and wake the progress thread, some hundred operations must not. */
static void check_free_of_copies(const struct counts *c)
{
    CHECK_EQ(c->copies, 0);
    CHECK_EQ(c->system_calls, 0);
    CHECK(c->events <= ROUNDS / 10);
}

static void check_words(uint64_t *there, uint64_t *here)
{
    struct counts before, c;
    read_counts(&before);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        shmem_uint64_p(there, i, 1);
        shmem_quiet();
    }
    c = since(&before);
    CHECK_EQ(c.requests, ROUNDS);
    CHECK_EQ(c.posts, ROUNDS);
    CHECK_EQ(c.completions, ROUNDS);
    check_free_of_copies(&c);

    read_counts(&before);
    for (int i = 0; i < ROUNDS; i++)
        shmem_uint64_get(here, there, 1, 1);
    c = since(&before);
    CHECK_EQ(c.requests, ROUNDS);
    CHECK_EQ(c.posts, ROUNDS);
    check_free_of_copies(&c);
    CHECK_EQ(*here, ROUNDS - 1);
}

static void check_signals(uint64_t *there, const uint64_t *here, uint64_t *signal)
{
    struct counts before, c;
    read_counts(&before);
    for (uint64_t i = 1; i <= ROUNDS; i++)
        shmem_uint64_put_signal(there, here, 1, signal, i, SHMEM_SIGNAL_SET, 1);
    shmem_quiet();
    c = since(&before);
    CHECK_EQ(c.requests, 2 * ROUNDS);
    CHECK_EQ(c.posts, ROUNDS);
    check_free_of_copies(&c);
}

static void check_many(uint64_t *there, const uint64_t *here)
{
    struct counts before, c;
    read_counts(&before);
    for (size_t i = 0; i < MANY; i++)
        shmem_uint64_put_nbi(there + i * STRIDE, here + i * STRIDE, 1, 1);
    shmem_quiet();
    c = since(&before);
    CHECK_EQ(c.requests, MANY);
    CHECK(c.posts >= 1 && c.posts <= MANY / 16);
    CHECK(c.completions >= 1 && c.completions <= MANY / 16);
    check_free_of_copies(&c);
}

static void check_atomics(uint64_t *there)
{
    struct counts before, c;
    read_counts(&before);
    for (int i = 0; i < ROUNDS; i++)
        (void)shmem_uint64_atomic_fetch_inc(there, 1);
    c = since(&before);
    CHECK_EQ(c.messages, ROUNDS);
    CHECK_EQ(c.requests, ROUNDS);
    CHECK_EQ(c.posts, ROUNDS);
    CHECK_EQ(c.copies, 0); /* answers may wake the progress thread, by events */
    CHECK_EQ(c.system_calls, 0);
}

static int test_main(void)
{
    struct counts c;
    CHECK_INIT();
    if (!read_counts(&c) || shmem_n_pes() != 2) {
        shmem_finalize();
        return CHECK_SKIP("needs two PEs on two nodes");
    }
    uint64_t *there = (uint64_t *)shmem_calloc(WORDS, 8), *here = (uint64_t *)shmem_calloc(WORDS, 8);
    CHECK_OR_EXIT(there != NULL && here != NULL);
    if (shmem_my_pe() == 0) { /* connects, registers, asks for keys */
        shmem_uint64_put(there, here, WORDS, 1);
        shmem_uint64_get(here, there, WORDS, 1);
        shmem_quiet();
    }
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        shmem_uint64_p(there, 0, 1); /* behind the flags of the barrier: quiet does not wait for those */
        shmem_quiet();
        check_words(there, here);
        check_signals(there, here, there + WORDS - 1);
        check_many(there, here);
        check_atomics(there + WORDS - 2);
    }
    shmem_barrier_all();
    shmem_free(here);
    shmem_free(there);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
