/* SPDX-License-Identifier: MIT */
/* Small puts that continue each other, here and there, become one work request: how many did is read from the network
 * section of shmemx_info_text, and what has arrived is compared. Nothing joins across a fence, a gap on either side, or
 * backwards. PE 0 acts. Two PEs on two nodes; elsewhere it is skipped. */
#include "network_counts.h"

enum { MANY = 960, STRIDE = 2, WORDS = MANY * STRIDE };

enum shape { ADJACENT, FENCED, GAP_HERE, GAP_THERE, BACKWARDS, SHAPES };
static const char *const names[] = {"adjacent", "with fences", "a gap here", "a gap there", "backwards"};

static size_t index_there(enum shape shape, size_t i)
{
    return shape == GAP_THERE ? STRIDE * i : shape == BACKWARDS ? MANY - 1 - i : i;
}

static size_t index_here(enum shape shape, size_t i)
{
    return shape == GAP_HERE ? STRIDE * i : shape == BACKWARDS ? MANY - 1 - i : i;
}

/* MANY puts of a word each in this shape; what they cost. */
static struct counts put_all(enum shape shape, uint64_t *there, const uint64_t *here)
{
    struct counts before;
    shmem_quiet();
    CHECK_OR_EXIT(read_counts(&before));
    for (size_t i = 0; i < MANY; i++) {
        shmem_uint64_put_nbi(there + index_there(shape, i), here + index_here(shape, i), 1, 1);
        if (shape == FENCED)
            shmem_fence();
    }
    shmem_quiet();
    return since(&before);
}

static void check_arrived(enum shape shape, const uint64_t *there, const uint64_t *here, uint64_t *copy)
{
    shmem_uint64_get(copy, there, WORDS, 1);
    for (size_t i = 0; i < MANY; i++)
        CHECK_EQ_NAMED(copy[index_there(shape, i)], here[index_here(shape, i)], names[shape]);
}

static void check_shape(enum shape shape, uint64_t *there, uint64_t *here, uint64_t *copy)
{
    for (size_t i = 0; i < WORDS; i++)
        here[i] = check_self.seed + (uint64_t)shape * WORDS + i;
    struct counts c = put_all(shape, there, here);
    CHECK_EQ_NAMED(c.requests + c.joined, MANY, names[shape]);
    if (shape == ADJACENT)
        CHECK(c.joined >= MANY / 2);
    else
        CHECK_EQ_NAMED(c.joined, 0, names[shape]);
    check_arrived(shape, there, here, copy);
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
    uint64_t *copy = (uint64_t *)calloc(WORDS, 8);
    CHECK_OR_EXIT(there != NULL && here != NULL && copy != NULL);
    if (shmem_my_pe() == 0) {
        shmem_uint64_put(there, here, WORDS, 1); /* connects, asks for keys */
        for (int shape = 0; shape < SHAPES; shape++)
            check_shape((enum shape)shape, there, here, copy);
    }
    shmem_barrier_all();
    free(copy);
    shmem_free(here);
    shmem_free(there);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
