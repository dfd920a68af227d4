/* SPDX-License-Identifier: MIT */
/* Agreement on slots: random subsets of the PEs open, use and close slots in an order that only the members of each
 * subset share. All members get the same index, no PE has an index twice, old flags are never larger than the first
 * epoch, the three barriers hold, when all is closed all slots are free again, and one that is being closed counts as
 * free. Needs more than one PE. */
#include "../check.h"

#include "../../shmem/team/slot.h"

#include <errno.h>

enum { GROUPS = 24, ROUNDS = 400, PES_MOST = 64 };

struct group {
    struct team team;
    int world_of[PES_MOST];
    bool open, member;
};

static void choose_members(struct group *g, struct check_random *random)
{
    int n = check_self.npes, stride = 1 + (int)check_random_below(random, 2);
    int most = (n + stride - 1) / stride;
    int size = 2 + (int)check_random_below(random, (size_t)(most > 2 ? most - 1 : 1));
    int start = (int)check_random_below(random, (size_t)n);
    bool backwards = check_random_below(random, 2) == 0;
    if (size > most)
        stride = 1, size = 2;
    start %= n - (size - 1) * stride;
    memset(g, 0, sizeof(*g));
    g->team.n_pes = size;
    g->team.my_pe = -1;
    g->team.world_of = g->world_of;
    for (int i = 0; i < size; i++) {
        g->world_of[i] = start + (backwards ? size - 1 - i : i) * stride;
        if (g->world_of[i] == check_self.pe)
            g->team.my_pe = i;
    }
    g->team.start = g->world_of[0];
    g->member = g->team.my_pe >= 0;
}

/* No flag that an earlier user of this memory left is larger than the epoch this team begins behind. Members that were
 * faster may have begun a first meeting, which takes a few epochs. */
static bool flags_are_old(const struct group *g)
{
    for (int sender = 0; sender < check_self.npes; sender++) {
        const char *flag = g->team.slot.memory + iso_slot_flag_offset(sender);
        uint64_t begun = sender < g->team.n_pes ? 8 : 0;
        if (prim_load_relaxed_u64((const uint64_t *)(const void *)flag) > g->team.slot.seq + begun)
            return false;
    }
    return true;
}

static bool index_is_mine_once(const struct group *groups, const struct group *g)
{
    for (int i = 0; i < GROUPS; i++)
        if (&groups[i] != g && groups[i].open && groups[i].member && groups[i].team.slot.index == g->team.slot.index)
            return false;
    return g->team.slot.index >= 2 && g->team.slot.index < ISO_SLOTS;
}

static void open_group(struct group *groups, struct group *g, struct check_random *random, uint64_t split)
{
    choose_members(g, random);
    g->open = true;
    if (!g->member)
        return;
    struct slot_key key = {g->team.start, g->world_of[1] - g->world_of[0], g->team.n_pes, 0, split, 0};
    CHECK_EQ(iso_slot_open(&g->team.slot, key, g->world_of, g->team.n_pes, 0), 0);
    CHECK(index_is_mine_once(groups, g));
    CHECK(flags_are_old(g));
}

/* Each member writes its place at the next one, in any of the three ways of meeting. */
static void use_group(struct group *g, int which, uint64_t *words, uint64_t value)
{
    if (!g->member)
        return;
    int n = g->team.n_pes, me = g->team.my_pe, next = g->world_of[(me + 1) % n];
    void (*const meet[])(struct team *,
                         const char *) = {iso_barrier_flags, iso_barrier_dissemination,
                                          g->team.slot.central != NULL ? iso_barrier_central : iso_barrier_flags};
    meet[value % 3](&g->team, "slot_test"); /* all have looked at what the use before, also of another group, wrote */
    shmem_uint64_p(&words[which], value, next);
    shmem_quiet();
    meet[(value + 1) % 3](&g->team, "slot_test");
    CHECK(words[which] == value);
}

static void close_group(struct group *g)
{
    if (g->member)
        iso_slot_close(&g->team.slot, g->world_of, g->team.n_pes);
    g->open = false;
}

/* All members of a group have the index that its first member has. */
static void check_agreement(const struct group *g, int which, int *indexes)
{
    if (g->member && g->team.my_pe == 0)
        for (int i = 0; i < g->team.n_pes; i++)
            shmem_int_p(&indexes[which], g->team.slot.index, g->world_of[i]);
    shmem_barrier_all();
    if (g->member)
        CHECK_EQ(indexes[which], g->team.slot.index);
    shmem_barrier_all();
}

static void test_random(struct group *groups, uint64_t *words, int *indexes)
{
    struct check_random random = check_random_stream(7);
    for (int round = 0; round < ROUNDS; round++) {
        int which = (int)check_random_below(&random, GROUPS);
        struct group *g = &groups[which];
        if (!g->open)
            open_group(groups, g, &random, (uint64_t)which); /* the key comes again when the same members do */
        for (size_t i = 1 + check_random_below(&random, 4); i > 0; i--)
            use_group(g, which, words, (uint64_t)round * 8 + i);
        if (round % 16 == 0)
            check_agreement(g, which, indexes);
        if (check_random_below(&random, 3) == 0)
            close_group(g);
    }
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].open)
            close_group(&groups[i]);
    shmem_barrier_all();
}

/* Slots of all PEs until none is left: how many there were. All are given back. */
static int count_slots(struct slot *slots, const int *world_of)
{
    int count = 0, status = 0;
    for (; count < ISO_SLOTS; count++) {
        struct slot_key key = {0, 1, check_self.npes, 0, (uint64_t)count, 0};
        status = iso_slot_open(&slots[count], key, world_of, check_self.npes, 0);
        if (status != 0)
            break;
    }
    CHECK_EQ(status, -ENOSPC);
    for (int i = 0; i < count; i++)
        iso_slot_close(&slots[i], world_of, check_self.npes);
    shmem_barrier_all();
    return count;
}

/* All are in use but the one that is being closed: who opens waits for the last member that closes it. */
static void test_opening_at_the_limit(struct slot *slots, const int *world_of)
{
    enum { FREE = 2, ALL = ISO_SLOTS - FREE, TIMES = 20 };
    int npes = check_self.npes, me = check_self.pe;
    struct slot_key key = {0, 1, npes, 0, 0, 0};
    for (int i = 0; i < ALL; i++, key.split++)
        CHECK_EQ(iso_slot_open(&slots[i], key, world_of, npes, 0), 0);
    for (int i = 0; i < TIMES; i++, key.split++) {
        shmem_barrier_all();
        if (me == npes - 1)
            usleep(1000);
        iso_slot_close(&slots[i], world_of, npes);
        CHECK_EQ(iso_slot_open(&slots[i], key, world_of, npes, 0), 0);
    }
    for (int i = 0; i < ALL; i++)
        iso_slot_close(&slots[i], world_of, npes);
    shmem_barrier_all();
}

static void test_exhaustion(void)
{
    int world_of[PES_MOST];
    struct slot *slots = (struct slot *)calloc(ISO_SLOTS, sizeof(*slots));
    CHECK_OR_EXIT(slots != NULL);
    for (int i = 0; i < check_self.npes; i++)
        world_of[i] = i;
    for (int round = 0; round < 2; round++)
        CHECK_EQ(count_slots(slots, world_of), ISO_SLOTS - 2); /* but world and shared */
    test_opening_at_the_limit(slots, world_of);
    free(slots);
}

static int test(void)
{
    CHECK_INIT();
    if (check_self.npes < 2 || check_self.npes > PES_MOST) {
        shmem_finalize();
        return CHECK_SKIP("needs 2 to 64 PEs: a launcher, or PEs as threads");
    }
    struct group *groups = (struct group *)calloc(GROUPS, sizeof(*groups));
    uint64_t *words = (uint64_t *)shmem_calloc(GROUPS, sizeof(*words));
    int *indexes = (int *)shmem_calloc(GROUPS, sizeof(*indexes));
    CHECK_OR_EXIT(groups != NULL && words != NULL && indexes != NULL);
    test_random(groups, words, indexes);
    test_exhaustion();
    shmem_free(indexes);
    shmem_free(words);
    free(groups);
    return CHECK_DONE();
}
CHECK_MAIN(test)
