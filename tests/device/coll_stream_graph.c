/* SPDX-License-Identifier: MIT */
/* Collectives on streams in graphs: calls of two teams and several slots on two streams that fork and join, captured
 * twice in different orders and replayed a thousand times, launched without a graph now and then, so that each slot's
 * sequence goes on through all three. The number of the turn lies in device memory and every turn's data depends on it.
 * Run once more with SHMEM_DEVICE_EPOCH=4294967293, where the low half of the epochs wraps around soon.
 * SHMEM_TEST_REPLAYS: how many. SHMEM_TEST_VICTIM=pe: replays go on until that PE is killed, after SHMEM_TEST_DEATH_MS
 * milliseconds, by SIGKILL from a timer; coll_stream_death.sh looks at what becomes of the others. */
#include "coll_turn.h"


enum { REPLAYS = 1000, SIDES = 2, GRAPHS = 2, LOOK = 100, MOST_WORDS = 2500 };

static const char *const kind_names[] = {KIND_NAMES};

/* One call of the sequence. Side: which stream and buffers. */
struct step {
    int side, kind, team, slot;
    enum turn_where where;
    uint64_t words;
    bool engines;
};
static const struct step steps[GRAPHS][7] = {{{0, SHMEMX_ALLREDUCE, TEAM_WORLD, 3, TURN_BOTH, 5, false},
                                              {0, SHMEMX_FCOLLECT, TEAM_PARITY, 3, TURN_BOTH, 700, false},
                                              {1, SHMEMX_ALLTOALL, TEAM_WORLD, 4, TURN_NEITHER, 130, false},
                                              {1, SHMEMX_BROADCAST, TEAM_PARITY, 4, TURN_IN_PLACE, 2500, false},
                                              {0, SHMEMX_REDUCESCATTER, TEAM_WORLD, 5, TURN_NEITHER, 1100, false},
                                              {1, SHMEMX_FCOLLECT, TEAM_WORLD, 6, TURN_BOTH, 1500, true},
                                              {0, SHMEMX_ALLREDUCE, TEAM_PARITY, 3, TURN_IN_PLACE, 2500, false}},
                                             {{1, SHMEMX_PERMUTE, TEAM_WORLD, 4, TURN_BOTH, 40, false},
                                              {0, SHMEMX_ALLREDUCE, TEAM_WORLD, 3, TURN_NEITHER, 2500, false},
                                              {0, SHMEMX_ALLTOALLV, TEAM_WORLD, 3, TURN_BOTH, 90, false},
                                              {1, SHMEMX_ALLTOALL, TEAM_PARITY, 4, TURN_BOTH, 800, true},
                                              {1, SHMEMX_FCOLLECT, TEAM_WORLD, 6, TURN_NEITHER, 1, false},
                                              {0, SHMEMX_PERMUTE, TEAM_PARITY, 5, TURN_BOTH, 2000, true},
                                              {0, SHMEMX_REDUCESCATTER, TEAM_PARITY, 5, TURN_IN_PLACE, 33, false}}};
enum { STEPS = sizeof(steps[0]) / sizeof(steps[0][0]) };

struct graph_state {
    struct coll_team teams[TEAMS];
    struct turn_place place[SIDES];
    shmemx_stream_t stream[SIDES];
    shmemx_graph_t graph[GRAPHS];
    uint64_t *count; /* turns done */
    uint64_t turns;
};

static void enqueue_step(struct graph_state *s, const struct step *step)
{
    struct turn t;
    char text[80];
    snprintf(text, sizeof(text), "%s on stream %d", kind_names[step->kind], step->side);
    turn_set(&t, &s->place[step->side], &s->teams[step->team], step->kind, step->where, step->words, 3);
    t.a.count = s->count;
    t.a.late = device_mix((uint32_t)step->words, (uint32_t)shmem_my_pe()) | 1;
    t.q.slot = step->slot;
    if (step->engines && turn_has_engines(step->kind, step->where))
        turn_set_engines(&t, true);
    turn_enqueue(&t, s->stream[step->side], text);
}

/* Forks, joins, and counts. */
static void enqueue_sequence(struct graph_state *s, int which)
{
    struct turn_tick_args tick = {s->count};
    CHECK_EQ(shmemx_stream_wait_stream(s->stream[1], s->stream[0]), 0);
    for (int i = 0; i < STEPS; i++)
        enqueue_step(s, &steps[which][i]);
    CHECK_EQ(shmemx_stream_wait_stream(s->stream[0], s->stream[1]), 0);
    DEVICE_LAUNCH(turn_tick, 1, TURN_THREADS, tick, s->stream[0]);
}

static void capture(struct graph_state *s, int which)
{
    CHECK_OR_EXIT(shmemx_graph_begin(s->stream[0]) == 0);
    enqueue_sequence(s, which);
    CHECK_OR_EXIT(shmemx_graph_end(s->stream[0], &s->graph[which]) == 0);
}

static void plain(struct graph_state *s, int which)
{
    enqueue_sequence(s, which);
    s->turns++;
}
static void replay(struct graph_state *s, int which)
{
    CHECK_OR_EXIT(shmemx_graph_launch(s->graph[which], s->stream[0]) == 0);
    s->turns++;
}

static void look(struct graph_state *s, const char *what)
{
    uint64_t count;
    CHECK_EQ(shmemx_stream_synchronize(s->stream[0]), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream[1]), 0);
    for (int side = 0; side < SIDES; side++)
        turn_check(&s->place[side], what);
    device_read(&count, s->count, 8);
    CHECK_EQ_NAMED(count, s->turns, what);
}

/* One in eight without a graph. */
static void replays(struct graph_state *s, long n)
{
    struct check_random random = check_random_stream(5);
    for (long i = 0; i < n; i++) {
        int which = (int)check_random_below(&random, GRAPHS);
        if (check_random_below(&random, 8) == 0)
            plain(s, which);
        else
            replay(s, which);
        if (i % LOOK == LOOK - 1)
            look(s, "replayed");
    }
    look(s, "replayed");
}

/* ---- a death in the midst of it ---- */

static void until_death(struct graph_state *s, long victim)
{
    shmem_barrier_all();
    if (shmem_my_pe() == victim)
        check_die_after(device_number("SHMEM_TEST_DEATH_MS", 100));
    for (;;)
        replays(s, LOOK);
}

static void state_make(struct graph_state *s)
{
    memset(s, 0, sizeof(*s));
    coll_teams_make(s->teams);
    for (int side = 0; side < SIDES; side++) {
        turn_place_make(&s->place[side], (uint64_t)MOST_WORDS * (uint64_t)shmem_n_pes());
        CHECK_OR_EXIT(shmemx_stream_create(&s->stream[side]) == 0);
    }
    s->count = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(s->count != NULL);
}
static void state_drop(struct graph_state *s)
{
    for (int which = 0; which < GRAPHS; which++)
        CHECK_EQ(shmemx_graph_destroy(s->graph[which]), 0);
    shmem_barrier_all();
    shmemx_free(s->count);
    for (int side = SIDES - 1; side >= 0; side--) {
        CHECK_EQ(shmemx_stream_destroy(s->stream[side]), 0);
        turn_place_drop(&s->place[side]);
    }
}

static int test_main(void)
{
    DEVICE_INIT();
    struct graph_state s;
    long victim = device_number("SHMEM_TEST_VICTIM", -1);
    state_make(&s);
    for (int which = 0; which < GRAPHS; which++)
        plain(&s, which); /* makes the slots */
    look(&s, "without a graph");
    for (int which = 0; which < GRAPHS; which++)
        capture(&s, which);
    look(&s, "captured, not run");
    if (victim >= 0)
        until_death(&s, victim);
    replays(&s, device_number("SHMEM_TEST_REPLAYS", REPLAYS));
    plain(&s, 0);
    look(&s, "after the graphs");
    for (int side = 0; side < SIDES; side++)
        turn_check_poison(&s.place[side], "behind what was used");
    state_drop(&s);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
