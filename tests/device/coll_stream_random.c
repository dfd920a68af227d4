/* SPDX-License-Identifier: MIT */
/* Very many collectives on streams, all at once: three streams, each with buffers of its own and every call of random
 * kind, size, team, slot and place of its buffers, with kernels in front of and behind each that make and look at the
 * data. The calls of a stream use one of its own slots each, so those of different streams may meet in any order.
 * SHMEM_TEST_CALLS is how many (100000; the number that ctest gives is smaller). */
#include "coll_turn.h"

enum { LANES = 3, SLOTS_OF_LANE = 2, BATCH = 300, MOST_WORDS = 6000, CALLS = 100000 };

static const char *const kind_names[] = {KIND_NAMES};
static const char *const where_names[] = {TURN_WHERE_NAMES};

struct lane {
    struct turn_place place;
    shmemx_stream_t stream;
    char last[200];
};
struct random_state {
    struct coll_team teams[TEAMS];
    struct lane lanes[LANES];
    struct check_random common; /* the same numbers on all PEs */
    struct check_random mine;
    unsigned calls;
};

static int lane_slot(struct random_state *s, int lane)
{
    return lane + LANES * (int)check_random_below(&s->common, SLOTS_OF_LANE);
}

/* Mostly small, sometimes large. */
static uint64_t random_words(struct random_state *s)
{
    static const uint64_t most[] = {4, 4, 40, 40, 1100, MOST_WORDS};
    return 1 + check_random_below(&s->common, most[check_random_below(&s->common, 6)]);
}

static void meet(struct random_state *s, int lane, const struct coll_team *team)
{
    shmemx_coll_t q = shmemx_coll_of(check_random_below(&s->common, 2) == 0 ? SHMEMX_BARRIER : SHMEMX_SYNC, team->team,
                                     NULL, NULL, 0, SHMEMX_UINT8);
    q.slot = lane_slot(s, lane);
    CHECK_EQ(shmemx_coll_on_stream(&q, s->lanes[lane].stream), 0);
}

static void turn(struct random_state *s, int lane, const struct coll_team *team, int kind)
{
    struct lane *l = &s->lanes[lane];
    uint64_t words = random_words(s);
    enum turn_where where = (enum turn_where)check_random_below(&s->common, TURN_WHERES);
    bool engines = check_random_below(&s->common, 4) == 0, signals = check_random_below(&s->common, 2) == 0;
    struct turn t;
    if (!turn_has_where(kind, where))
        where = TURN_BOTH;
    turn_set(&t, &l->place, team, kind, where, words, s->calls);
    t.q.slot = lane_slot(s, lane);
    t.q.background = (int)(s->calls % 2);
    if (engines && turn_has_engines(kind, where))
        turn_set_engines(&t, signals);
    t.a.late = check_random_below(&s->mine, 8) == 0 ? (uint32_t)check_random_next(&s->mine) | 1 : 0;
    snprintf(l->last, sizeof(l->last), "up to call %u: %s, %s, %llu words, %d members, slot %d%s", s->calls,
             kind_names[kind], where_names[where], (unsigned long long)words, team->n, t.q.slot,
             t.q.engines != 0 ? ", engines" : "");
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] stream %d, %s\n", check_self.pe, lane, l->last + 6);
    turn_enqueue(&t, l->stream, l->last);
}

static void one_call(struct random_state *s)
{
    int lane = (int)check_random_below(&s->common, LANES);
    const struct coll_team *team = &s->teams[check_random_below(&s->common, TEAMS)];
    int kind = (int)check_random_below(&s->common, KINDS + 1);
    s->calls++;
    if (kind == KINDS)
        meet(s, lane, team);
    else
        turn(s, lane, team, kind);
    if (check_random_below(&s->mine, 200) == 0)
        usleep((useconds_t)check_random_below(&s->mine, 500));
}

static bool look(struct random_state *s)
{
    bool ok = true;
    for (int i = 0; i < LANES; i++) {
        CHECK_EQ(shmemx_stream_synchronize(s->lanes[i].stream), 0);
        ok = turn_check(&s->lanes[i].place, s->lanes[i].last) && ok;
    }
    return ok;
}

static int test_main(void)
{
    DEVICE_INIT();
    struct random_state s;
    unsigned calls = (unsigned)device_number("SHMEM_TEST_CALLS", CALLS);
    memset(&s, 0, sizeof(s));
    coll_teams_make(s.teams);
    s.common = check_random_stream(3);
    s.mine = check_random_stream(1000 + (uint64_t)shmem_my_pe());
    for (int i = 0; i < LANES; i++) {
        turn_place_make(&s.lanes[i].place, (uint64_t)MOST_WORDS * (uint64_t)shmem_n_pes());
        CHECK_OR_EXIT(shmemx_stream_create(&s.lanes[i].stream) == 0);
    }
    /* Slots are made by their first calls, with all members, in the order in which the program makes the calls. */
    while (s.calls < calls) {
        one_call(&s);
        if (s.calls % BATCH == 0)
            look(&s);
    }
    look(&s);
    for (int i = 0; i < LANES; i++) {
        turn_check_poison(&s.lanes[i].place, "behind what was used");
        CHECK_EQ(shmemx_stream_destroy(s.lanes[i].stream), 0);
        turn_place_drop(&s.lanes[i].place);
    }
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
