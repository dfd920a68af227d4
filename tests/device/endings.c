/* SPDX-License-Identifier: MIT */
/* What ends while streams still have work: a team is destroyed, and another one takes its memory; a capture is ended on
 * a stream that has not begun it; a stream that is being captured is destroyed; the library is finalized. */
#include "device_test.h"

enum { ELEMS = 500, CALLS = 20, TURNS = 20000, ROUNDS = 3 };

struct dawdle_args {
    uint32_t turns;
};

SHMEMD_KERNEL(dawdle, struct dawdle_args, a) { form_dawdle(a.turns); }

struct endings {
    int32_t *dest, *source; /* symmetric, [ELEMS] */
    int32_t *spare;         /* likewise, of the default stream */
    shmemx_stream_t stream;
    int me, n;
};

/* Late enough that the host has gone on before the device begins. */
static void enqueue(struct endings *e, shmem_team_t team, int calls)
{
    struct dawdle_args late = {TURNS};
    DEVICE_LAUNCH(dawdle, 1, 1, late, e->stream);
    for (int i = 0; i < calls; i++)
        CHECK_EQ(shmemx_int32_sum_reduce_on_stream(team, e->dest, e->source, ELEMS, e->stream), 0);
    CHECK_EQ(shmemx_barrier_on_stream(team, e->stream), 0);
}

static void fill(struct endings *e, int32_t round)
{
    int32_t values[ELEMS];
    for (int i = 0; i < ELEMS; i++)
        values[i] = i + round * (e->me + 1);
    device_write(e->source, values, sizeof values);
    memset(values, CHECK_POISON, sizeof values);
    device_write(e->dest, values, sizeof values);
    shmem_barrier_all();
}

static void check(struct endings *e, int32_t round)
{
    int32_t seen[ELEMS], expected[ELEMS];
    for (int i = 0; i < ELEMS; i++)
        expected[i] = i * e->n + round * (e->n * (e->n + 1) / 2);
    device_read(seen, e->dest, sizeof seen);
    CHECK_BYTES_NAMED((unsigned char *)seen, (unsigned char *)expected, sizeof seen, "the sum");
    shmem_barrier_all();
}

/* What is enqueued is done when the team is gone, and the next team's memory is nobody else's. */
static void destroy_teams(struct endings *e)
{
    for (int32_t round = 0; round < ROUNDS; round++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, e->n, NULL, 0, &team), 0);
        fill(e, round);
        enqueue(e, team, CALLS);
        shmem_team_destroy(team);
        check(e, round);
    }
}

static void end_captures(struct endings *e)
{
    shmemx_stream_t other = NULL;
    shmemx_graph_t graph = NULL, none = NULL;
    CHECK_EQ(shmemx_stream_create(&other), 0);
    fill(e, 7);
    enqueue(e, SHMEM_TEAM_WORLD, 1);
    CHECK_EQ(shmemx_stream_synchronize(e->stream), 0);
    CHECK_EQ(shmemx_graph_begin(e->stream), 0);
    CHECK_EQ(shmemx_int32_sum_reduce_on_stream(SHMEM_TEAM_WORLD, e->dest, e->source, ELEMS, e->stream), 0);
    CHECK(shmemx_graph_end(other, &none) != 0);
    CHECK(shmemx_graph_end(NULL, &none) != 0);
    CHECK(shmemx_stream_destroy(e->stream) != 0);
    CHECK_EQ(shmemx_graph_end(e->stream, &graph), 0);
    CHECK(shmemx_graph_end(e->stream, &none) != 0);
    fill(e, 8);
    CHECK_EQ(shmemx_graph_launch(graph, e->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(e->stream), 0);
    check(e, 8);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    CHECK_EQ(shmemx_stream_destroy(other), 0);
}

/* Collective over a team that is new while another stream is being captured: refused, by all members alike. */
static void open_while_captured(struct endings *e)
{
    shmemx_stream_t other = NULL;
    shmemx_graph_t graph = NULL;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmemx_stream_create(&other), 0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, e->n, NULL, 0, &team), 0);
    CHECK_EQ(shmemx_graph_begin(other), 0);
    CHECK(shmemx_barrier_on_stream(team, e->stream) != 0);
    CHECK_EQ(shmemx_barrier_on_stream(SHMEM_TEAM_WORLD, other), 0);
    CHECK_EQ(shmemx_graph_end(other, &graph), 0);
    CHECK_EQ(shmemx_barrier_on_stream(team, e->stream), 0);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    CHECK(shmemx_barrier_on_stream(SHMEM_TEAM_INVALID, e->stream) != 0);
    shmem_team_destroy(team);
    CHECK(shmemx_sync_on_stream(team, e->stream) != 0);
    CHECK_EQ(shmemx_stream_destroy(other), 0);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct endings e;
    memset(&e, 0, sizeof e);
    e.me = shmem_my_pe();
    e.n = shmem_n_pes();
    e.dest = (int32_t *)shmemx_malloc(ELEMS * sizeof *e.dest, SHMEMX_DEVICE);
    e.source = (int32_t *)shmemx_malloc(ELEMS * sizeof *e.source, SHMEMX_DEVICE);
    e.spare = (int32_t *)shmemx_malloc(ELEMS * sizeof *e.spare, SHMEMX_DEVICE);
    CHECK_OR_EXIT(e.dest != NULL && e.source != NULL && e.spare != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&e.stream) == 0);
    destroy_teams(&e);
    end_captures(&e);
    open_while_captured(&e);
    fill(&e, 9);
    enqueue(&e, SHMEM_TEAM_WORLD, CALLS); /* and nobody waits for it */
    CHECK_EQ(shmemx_putmem_on_stream(e.spare, e.spare + ELEMS / 2, 8, e.me, NULL), 0);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
