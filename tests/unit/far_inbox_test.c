/* SPDX-License-Identifier: MIT */
/* CHECK_THREADS: packets between nodes, whose words the double delivers in an order of its own. All lengths, epochs
 * around the wraps of the number that a word carries, and epochs that have the same number: what an earlier one left,
 * longer or shorter, must not be taken for this one's. */
#include "../check.h"

#include "../../coll/host/coll.h"

enum { ROUNDS = 3 * (ISO_INBOX_BYTES + 1) };

static void fill(unsigned char *bytes, size_t n, int sender, int round)
{
    struct check_random random = check_random_stream((uint64_t)(sender * 1000 + round));
    check_random_fill(&random, bytes, n);
}

static size_t length_of(int sender, int round) { return (size_t)(7 * round + 11 * sender) % (ISO_INBOX_BYTES + 1); }

static void check_nothing_came(struct coll *c)
{
    for (int i = 1; i < c->n; i++)
        CHECK(!iso_inbox_far_take(coll_inbox(c), c->slot->memory, coll_other(c, i)));
}

static void exchange(struct coll *c, int round)
{
    unsigned char mine[ISO_INBOX_BYTES], theirs[ISO_INBOX_BYTES];
    size_t bytes = length_of(c->me, round);
    fill(mine, bytes, c->me, round);
    for (int i = 1; i < c->n; i++)
        coll_inbox_send(c, coll_other(c, i), mine, bytes);
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        const void *payload = coll_inbox_wait(c, from);
        fill(theirs, length_of(from, round), from, round);
        CHECK(memcmp(payload, theirs, length_of(from, round)) == 0);
        CHECK(coll_inbox_wait(c, from) == payload); /* once more: it was taken already */
    }
}

/* From epoch `first` on, each later by `stride`. */
static void run(struct coll *c, uint64_t first, uint64_t stride)
{
    for (int round = 0; round < ROUNDS; round++) {
        c->epoch = first + (uint64_t)round * stride;
        c->slot->staged++;
        check_nothing_came(c);
        shmem_barrier_all();
        exchange(c, round);
        shmem_barrier_all();
    }
}

static int test_main(void)
{
    static const uint64_t firsts[] = {1, (1u << 31) - 20, UINT32_MAX - 20, ((uint64_t)1 << 40) + INT32_MAX};
    shmem_team_t handle = SHMEM_TEAM_INVALID;
    CHECK_INIT();
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, check_self.npes, NULL, 0, &handle), 0);
    struct team *team = iso_team(handle, __func__);
    struct coll c = {&team->slot, team->slot.views, 0, team->my_pe, team->n_pes, __func__, team};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
        run(&c, firsts[i], 1);
    uint64_t last = firsts[3] + ROUNDS;
    run(&c, last, (uint64_t)1 << 31); /* all have the same number */
    last += (uint64_t)ROUNDS << 31;
    team->slot.seq = last;
    shmem_team_destroy(handle);
    return CHECK_DONE();
}

int main(void)
{
    setenv("CHECK_PES", "3", 1);
    setenv("SHMEM_TEST_NODES", "abc", 1);
    return check_run_threads(test_main);
}
