/* SPDX-License-Identifier: MIT */
/* Memory of teams: overlapping teams allocate in their own order, each object has one place on all members, and calls
 * of the host, of streams and of kernels reach it there. What the members free is used again, and shmemx_memory_stats
 * follows. Wrong uses are refused. */
#include "device_test.h"

enum { KINDS = 2, WORDS = 40, TEAMS = 3, ROUNDS = 4 };

static const int kinds[KINDS] = {SHMEMX_HOST, SHMEMX_DEVICE};

/* ---- teams: the world, neighbours (0 1)(2 3).., and the others (0)(1 2)(3 4).. in reverse order ---- */

struct teams {
    shmem_team_t of[TEAMS];
};

static shmem_team_t pair_of(int first, bool reversed)
{
    int pes[2] = {first, first + 1}, swapped[2] = {first + 1, first}, one[1] = {check_self.pe};
    shmem_team_t team = SHMEM_TEAM_INVALID;
    bool alone = first < 0 || first + 1 >= check_self.npes;
    int *list = alone ? one : reversed ? swapped : pes;
    CHECK_EQ(shmemx_team_create(list, alone ? 1 : 2, 7 + (uint64_t)reversed, &team), 0);
    CHECK_OR_EXIT(team != SHMEM_TEAM_INVALID);
    return team;
}

static void make_teams(struct teams *t)
{
    t->of[0] = SHMEM_TEAM_WORLD;
    t->of[1] = pair_of(check_self.pe / 2 * 2, false);
    t->of[2] = pair_of((check_self.pe + 1) / 2 * 2 - 1, true);
}

/* ---- an object of a team ---- */

/* The world PE of the member behind this one. */
static int next_of(shmem_team_t team)
{
    int n = shmem_team_n_pes(team);
    return shmem_team_translate_pe(team, (shmem_team_my_pe(team) + 1) % n, SHMEM_TEAM_WORLD);
}
static int previous_of(shmem_team_t team)
{
    int n = shmem_team_n_pes(team);
    return shmem_team_translate_pe(team, (shmem_team_my_pe(team) + n - 1) % n, SHMEM_TEAM_WORLD);
}

static uint64_t word_of(uint64_t *object, int i)
{
    uint64_t value;
    device_read(&value, object + i, sizeof value);
    return value;
}

static uint64_t *new_object(shmem_team_t team, size_t words, int kind)
{
    uint64_t *object = (uint64_t *)shmemx_team_malloc(team, words * sizeof(uint64_t), kind), offset = 0;
    CHECK_OR_EXIT(object != NULL);
    uint64_t *zeros = (uint64_t *)calloc(words, sizeof *zeros);
    CHECK_OR_EXIT(zeros != NULL);
    device_write(object, zeros, words * sizeof *zeros);
    free(zeros);
    CHECK_EQ(shmemx_offset_of(object, &offset), 0);
    CHECK(shmemx_at_offset(next_of(team), offset) == object);
    CHECK_EQ(shmem_team_sync(team), 0);
    return object;
}

static void check_calls(shmem_team_t team, uint64_t *object)
{
    int next = next_of(team), previous = previous_of(team);
    uint64_t block[5], offset, seen = 0;
    for (int i = 0; i < 5; i++)
        block[i] = (uint64_t)(100 * check_self.pe + i);
    CHECK_EQ(shmemx_offset_of(object, &offset), 0);
    block[4] = offset;
    shmem_uint64_put_signal(object, block, 5, object + 5, 1, SHMEM_SIGNAL_ADD, next);
    shmem_signal_wait_until(object + 5, SHMEM_CMP_EQ, 1);
    CHECK_EQ(word_of(object, 3), (uint64_t)(100 * previous + 3));
    CHECK_EQ(word_of(object, 4), offset); /* one place on all members */
    shmem_uint64_get(&seen, object + 5, 1, next);
    CHECK(seen <= 1);
    CHECK_EQ(shmem_team_sync(team), 0);
    for (int i = 0; i < shmem_team_n_pes(team); i++)
        shmem_uint64_atomic_add(object + 6, 5, shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD));
    shmem_quiet();
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(word_of(object, 6), (uint64_t)(5 * shmem_team_n_pes(team)));
}

struct args {
    shmemd_t h;
    uint64_t *object;
    int pe;
};

SHMEMD_KERNEL(tell_next, struct args, a)
{
    shmemd_uint64_put_signal_block(a.h, a.object + 16, a.object, 4, a.object + 15, 3, SHMEM_SIGNAL_SET, a.pe);
}

static void check_device_calls(shmem_team_t team, uint64_t *object)
{
    struct args a;
    shmemx_stream_t stream;
    shmemx_coll_t c;
    uint64_t n = (uint64_t)shmem_team_n_pes(team), sum = 0;
    memset(&c, 0, sizeof c);
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h), 0);
    a.object = object;
    a.pe = next_of(team);
    CHECK_EQ(shmemx_launch(SHMEMX_KERNEL(tell_next), 1, 64, 0, &a, sizeof a, stream), 0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(object + 15, SHMEM_CMP_EQ, 3, stream), 0);
    c.kind = SHMEMX_ALLREDUCE;
    c.team = team;
    c.type = SHMEMX_UINT64;
    c.op = SHMEMX_SUM;
    c.source = object + 16;
    c.dest = object + 24;
    c.nelems = 4;
    CHECK_EQ(shmemx_coll_on_stream(&c, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    CHECK_EQ(word_of(object, 16), word_of(object, 16));
    for (uint64_t i = 0; i < n; i++) /* each member has told its neighbour what it got from another */
        sum += (uint64_t)(100 * shmem_team_translate_pe(team, (int)i, SHMEM_TEAM_WORLD) + 2);
    CHECK_EQ(word_of(object, 26), sum);
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
}

/* ---- many at once ---- */

static void check_objects(const struct teams *t, int kind)
{
    uint64_t *kept[ROUNDS][TEAMS];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TEAMS; i++) {
            uint64_t *object = new_object(t->of[i], (size_t)(WORDS + 1000 * round + i), kind);
            check_calls(t->of[i], object);
            if (kind == SHMEMX_DEVICE && round == 0)
                check_device_calls(t->of[i], object);
            kept[round][i] = object;
        }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < TEAMS; i++) {
            CHECK_EQ(shmemx_team_free(t->of[i], kept[round][i]), 0);
            CHECK(shmemx_team_free(t->of[i], kept[round][i]) != 0);
        }
    shmem_barrier_all();
    uint64_t *again = new_object(SHMEM_TEAM_WORLD, WORDS, kind); /* all is free: the first place */
    uint64_t offset = 1;
    CHECK_EQ(shmemx_offset_of(again, &offset), 0);
    CHECK_EQ(offset & (((uint64_t)1 << 48) - 1), 0);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, again), 0);
}

static void check_refusals(int kind)
{
    char on_stack;
    CHECK(shmemx_team_malloc(SHMEM_TEAM_INVALID, 8, kind) == NULL);
    CHECK(shmemx_team_malloc(SHMEM_TEAM_WORLD, 0, kind) == NULL);
    CHECK(shmemx_team_malloc(SHMEM_TEAM_WORLD, 8, 9) == NULL);
    CHECK(shmemx_team_malloc(SHMEM_TEAM_WORLD, (size_t)15 << 40, kind) == NULL);
    if (check_self.npes > 1)
        for (size_t least = 0; least <= 8; least += 8)
            CHECK(shmemx_team_malloc(SHMEM_TEAM_WORLD, least + (size_t)(check_self.pe == 0), kind) == NULL);
    CHECK(shmemx_team_free(SHMEM_TEAM_INVALID, NULL) != 0);
    CHECK(shmemx_team_free(SHMEM_TEAM_WORLD, &on_stack) != 0);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, NULL), 0);
    char *object = (char *)shmemx_team_malloc(SHMEM_TEAM_WORLD, 100, kind);
    CHECK_OR_EXIT(object != NULL);
    if (check_self.npes > 1)
        CHECK(shmemx_team_free(SHMEM_TEAM_WORLD, check_self.pe == 0 ? object : NULL) != 0);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, object), 0);
}

/* ---- what memory is for ---- */

static shmemx_memory_stats_t stats_of(shmem_team_t team, int kind)
{
    shmemx_memory_stats_t stats;
    memset(&stats, 0xff, sizeof stats);
    CHECK_EQ(shmemx_memory_stats(team, kind, &stats), 0);
    return stats;
}

/* Allocators round up. */
static void check_growth(size_t now, size_t before, size_t bytes)
{
    CHECK(now >= before + bytes);
    CHECK(now < before + bytes + 4096);
}

/* Each purpose grows by what is allocated for it, and shrinks back when that is freed. */
static void check_stats(shmem_team_t team, int kind)
{
    enum { BYTES = 30000 };
    const shmemx_memory_stats_t before = stats_of(team, kind);
    void *heap = shmemx_malloc(BYTES, kind), *local = shmemx_local_malloc(2 * BYTES, kind);
    void *of_team = shmemx_team_malloc(team, 3 * BYTES, kind);
    CHECK_OR_EXIT(heap != NULL && local != NULL && of_team != NULL);
    const shmemx_memory_stats_t full = stats_of(team, kind);
    check_growth(full.heap_bytes, before.heap_bytes, BYTES);
    check_growth(full.local_bytes, before.local_bytes, 2 * BYTES);
    check_growth(full.team_bytes, before.team_bytes, 3 * BYTES);
    if (kind == SHMEMX_DEVICE) /* of host memory only what was touched is held */
        CHECK(full.held_bytes >= full.heap_bytes + full.local_bytes + full.team_bytes + full.slot_bytes);
    CHECK_EQ(full.ring_bytes, before.ring_bytes);
    CHECK_EQ(full.pair_bytes, before.pair_bytes);
    CHECK_EQ(shmemx_team_free(team, of_team), 0);
    shmemx_local_free(local);
    shmemx_free(heap);
    const shmemx_memory_stats_t after = stats_of(team, kind);
    CHECK_EQ(after.heap_bytes, before.heap_bytes);
    CHECK_EQ(after.local_bytes, before.local_bytes);
    CHECK_EQ(after.team_bytes, before.team_bytes);
}

/* The first handle of a slot of the team takes memory for its collectives, the second one is the same. */
static void check_slot_stats(shmem_team_t team)
{
    shmemd_t h;
    size_t before = stats_of(team, SHMEMX_DEVICE).slot_bytes;
    CHECK_EQ(shmemx_device_handle(team, 9, &h), 0);
    size_t one = stats_of(team, SHMEMX_DEVICE).slot_bytes;
    CHECK(one > before);
    CHECK_EQ(shmemx_device_handle(team, 9, &h), 0);
    CHECK_EQ(stats_of(team, SHMEMX_DEVICE).slot_bytes, one);
}

/* Objects of the heap stay alike, whatever teams and single PEs have. */
static void check_heap_alike(void)
{
    uint64_t *object = (uint64_t *)shmem_malloc(sizeof(uint64_t));
    CHECK_OR_EXIT(object != NULL);
    shmem_uint64_p(object, 42, (check_self.pe + 1) % check_self.npes);
    shmem_barrier_all();
    CHECK_EQ(*object, 42);
    shmem_free(object);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct teams t;
    make_teams(&t);
    for (int k = 0; k < KINDS; k++) {
        void *local = check_self.pe % 2 == 0 ? shmemx_local_malloc(5000, kinds[k]) : NULL;
        check_objects(&t, kinds[k]);
        check_refusals(kinds[k]);
        check_stats(t.of[1], kinds[k]);
        shmemx_local_free(local);
        check_heap_alike();
    }
    check_slot_stats(t.of[1]);
    for (int i = 1; i < TEAMS; i++)
        shmem_team_destroy(t.of[i]);
    CHECK_HEAP();
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
