/* SPDX-License-Identifier: MIT */
/* Batch-invariant: the bits of a sum depend on what is summed alone. Sources of 1 byte to 64 MiB repeat a pattern whose
 * length is a prime, and so must results: the sums of one pattern, made one by one, stand at every place of a call of
 * every size, by each algorithm that a run forces, at once and in graphs. SHMEM_TEST_BYTES: the largest source, 64 MiB.
 * The same of the all-reduce with a norm: coll_norm.c. */
#include "coll_case.h"

enum { PERIOD = 4099, GRAPH_BYTES = 1 << 18 };

struct place {
    char *source, *dest; /* symmetric */
    unsigned char *image, *seen;
    size_t room;
    struct coll_team world[TEAMS];
    shmemx_stream_t stream;
};

/* `bytes` of the pattern of `period` bytes, from `from` on. */
static void repeat(unsigned char *to, size_t bytes, const unsigned char *pattern, size_t period, size_t from)
{
    for (size_t at = 0; at < bytes;) {
        size_t in = (from + at) % period, some = period - in < bytes - at ? period - in : bytes - at;
        memcpy(to + at, pattern + in, some);
        at += some;
    }
}

static void check(struct place *p, const shmemx_coll_t *q, unsigned round, const char *how)
{
    const struct values_type *t = &values_types[q->type];
    const struct coll_team *w = &p->world[TEAM_WORLD];
    unsigned char pattern[PERIOD * 4];
    size_t bytes = q->nelems * t->bytes;
    char text[120];
    snprintf(text, sizeof text, "%s of %zu %s, %s", q->kind == SHMEMX_ALLREDUCE ? "allreduce" : "reducescatter",
             q->nelems, t->name, how);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(p->stream), 0, text);
    values_reduce(q->type, SHMEMX_SUM, w->world, w->n, round, 0, PERIOD, pattern);
    memset(p->image, CHECK_POISON, bytes + 16);
    repeat(p->image, bytes, pattern, PERIOD * t->bytes, q->kind == SHMEMX_ALLREDUCE ? 0 : (size_t)w->me * bytes);
    device_read(p->seen, p->dest, bytes + 16);
    (void)CHECK_BYTES_NAMED(p->seen, p->image, bytes + 16, text);
}

static void fill(struct place *p, const shmemx_coll_t *q, unsigned round)
{
    const struct values_type *t = &values_types[q->type];
    const struct coll_team *w = &p->world[TEAM_WORLD];
    unsigned char pattern[PERIOD * 4];
    size_t bytes = q->nelems * t->bytes, all = q->kind == SHMEMX_ALLREDUCE ? bytes : bytes * (size_t)w->n;
    values_make(t, SHMEMX_SUM, shmem_my_pe(), round, 0, PERIOD, pattern);
    repeat(p->image, all, pattern, PERIOD * t->bytes, 0);
    device_write(p->source, p->image, all);
    memset(p->image, CHECK_POISON, bytes + 16);
    device_write(p->dest, p->image, bytes + 16);
}

static void one_size(struct place *p, int kind, int type, size_t all)
{
    size_t n = kind == SHMEMX_ALLREDUCE ? 1 : (size_t)p->world[TEAM_WORLD].n;
    size_t nelems = all / n / values_types[type].bytes;
    shmemx_coll_t q = shmemx_coll_of(kind, SHMEM_TEAM_WORLD, p->dest, p->source, nelems, type);
    shmemx_graph_t graph;
    fill(p, &q, 1);
    CHECK_EQ(shmemx_coll_on_stream(&q, p->stream), 0);
    check(p, &q, 1, "at once");
    if (all > GRAPH_BYTES || device_flag("SHMEM_TEST_NO_GRAPHS") || nelems == 0)
        return;
    fill(p, &q, 2);
    CHECK_OR_EXIT(shmemx_graph_begin(p->stream) == 0);
    CHECK_EQ(shmemx_coll_on_stream(&q, p->stream), 0);
    CHECK_OR_EXIT(shmemx_graph_end(p->stream, &graph) == 0);
    CHECK_EQ(shmemx_graph_launch(graph, p->stream), 0);
    check(p, &q, 2, "in a graph");
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

static int test_main(void)
{
    struct place p;
    COLL_INIT();
    p.room = (size_t)device_number("SHMEM_TEST_BYTES", 64 << 20);
    p.source = (char *)shmemx_align(128, p.room + 128, SHMEMX_DEVICE);
    p.dest = (char *)shmemx_align(128, p.room + 128, SHMEMX_DEVICE);
    p.image = (unsigned char *)malloc(p.room + 128);
    p.seen = (unsigned char *)malloc(p.room + 128);
    CHECK_OR_EXIT(p.source != NULL && p.dest != NULL && p.image != NULL && p.seen != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&p.stream) == 0 && shmemx_slot_prepare(SHMEM_TEAM_WORLD, 0, 0) == 0);
    coll_teams_make(p.world);
    for (int kind = SHMEMX_ALLREDUCE; kind <= SHMEMX_REDUCESCATTER; kind++) {
        for (size_t bytes = 1; bytes <= p.room && bytes <= 1 << 20; bytes = bytes * 5 + 3) {
            one_size(&p, kind, SHMEMX_UINT8, bytes);
            one_size(&p, kind, SHMEMX_BFLOAT16, bytes);
            one_size(&p, kind, SHMEMX_FLOAT, bytes);
        }
        for (size_t bytes = 4 << 20; bytes <= p.room; bytes *= 4)
            one_size(&p, kind, SHMEMX_BFLOAT16, bytes);
    }
    CHECK_EQ(shmemx_stream_destroy(p.stream), 0);
    shmem_barrier_all();
    shmemx_free(p.source);
    shmemx_free(p.dest);
    free(p.image);
    free(p.seen);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
