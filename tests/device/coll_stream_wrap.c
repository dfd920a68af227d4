/* SPDX-License-Identifier: MIT */
/* The low half of the epochs wraps around, which lines and their inboxes depend on: with SHMEM_DEVICE_EPOCH=4294967293
 * (and a few numbers before it) that is within the first calls of a slot. So each kind, size and place of the buffers
 * has a slot of its own here, and a few turns in it; for every algorithm, as SHMEM_COLL forces them. */
#include "coll_turn.h"

static const char *const kind_names[] = {KIND_NAMES};
static const char *const where_names[] = {TURN_WHERE_NAMES};
static const enum turn_where places[] = {TURN_BOTH, TURN_NEITHER};
static const uint64_t word_counts[] = {4, 1499};
enum { PLACES = 2, COUNTS = 2, TURNS = 5, MOST_WORDS = 1500, MOST_SLOTS = 256, BLOCKS = 8 };

struct wrap {
    struct coll_team teams[TEAMS];
    struct turn_place place;
    shmemx_stream_t stream;
    int slots;
    unsigned turns;
};

/* Enqueued at once, and each longer than the one before: so packets that nobody has written yet are looked at, whose
 * number is 0, as well as those of the calls before. */
static void one_slot(struct wrap *w, int kind, enum turn_where where, uint64_t words, bool engines)
{
    struct turn t;
    char text[200];
    snprintf(text, sizeof(text), "%s, %s, %llu words%s, the first %d calls of slot %d", kind_names[kind],
             where_names[where], (unsigned long long)words, engines ? ", engines" : "", TURNS, w->slots);
    CHECK_OR_EXIT(w->slots < MOST_SLOTS);
    /* a GPU has no room for so many slots of all blocks */
    CHECK_OR_EXIT(shmemx_slot_prepare(w->teams[TEAM_WORLD].team, w->slots, BLOCKS) == 0);
    for (int i = 0; i < TURNS; i++) {
        turn_set(&t, &w->place, &w->teams[TEAM_WORLD], kind, where, words * (uint64_t)(i + 1) / TURNS + 1, w->turns++);
        if (engines)
            turn_set_engines(&t, true);
        t.q.slot = w->slots;
        t.a.late = device_mix(w->turns, (uint32_t)shmem_my_pe() + (uint32_t)check_self.seed) | 1;
        turn_enqueue(&t, w->stream, text);
    }
    w->slots++;
    CHECK_EQ_NAMED(shmemx_stream_synchronize(w->stream), 0, text);
    turn_check(&w->place, text);
}

static void one_kind(struct wrap *w, int kind)
{
    for (int p = 0; p < PLACES; p++)
        for (int c = 0; c < COUNTS && turn_has_where(kind, places[p]); c++) {
            one_slot(w, kind, places[p], word_counts[c], false);
            if (turn_has_engines(kind, places[p]))
                one_slot(w, kind, places[p], word_counts[c], true);
        }
    turn_check_poison(&w->place, kind_names[kind]);
}

static int test_main(void)
{
    COLL_INIT();
    struct wrap w;
    memset(&w, 0, sizeof(w));
    coll_teams_make(w.teams);
    turn_place_make(&w.place, (uint64_t)MOST_WORDS * (uint64_t)shmem_n_pes());
    CHECK_OR_EXIT(shmemx_stream_create(&w.stream) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        one_kind(&w, kind);
    CHECK_EQ(shmemx_stream_destroy(w.stream), 0);
    turn_place_drop(&w.place);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
