/* SPDX-License-Identifier: MIT */
/* shmemx_coll_tune: measures what the algorithms of collectives on streams take on this machine, and writes the rows of
 * the tuned table. A trial is one algorithm with one shape, for one kind, size and team: a call whose result is looked
 * at, then a graph of calls, replayed. Whatever is decided is decided by numbers of the slowest member, so all members
 * decide alike. PE 0 is in all teams; it has all rows, and gives them to the others.
 * Called by users (isomer-info --tune). */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../../include/pshmem.h"
#include "../../../shmem/team/agree.h"
#include "../../../shmem/collectives.h"
#include "../../../shmem/node/wait.h"
#include "../coll_stream.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_TRIALS = 160, /* of one size: algorithms times shapes, and what smaller sizes and the built-in table take */
    MOST_SIZES = 10,
    MOST_TEAMS = 3,
    MOST_CALLS = 20, /* of a graph */
    SAMPLES = 9,
    LOOKS = 8, /* at a result: so many windows of so many elements */
    WINDOW = 4096,
    PERIOD = 4093 /* of what sources hold: a prime, so that parts that have changed places show */
};
static const size_t least_bytes = (size_t)1 << 10, largest_bytes = (size_t)256 << 20, cpu_bytes = (size_t)1 << 20;
static const uint64_t graph_ns = 1000000; /* what a graph should take: far more than its launch */
static const double hopeless = 1.5;       /* times the fastest: not worth all samples */
static const double margin = 0.03;        /* an advantage below it is noise */
static const double steady = 1.15;        /* two measurements of the same calls differ by less on a quiet machine */
static const char call[] = "shmemx_coll_tune";

static const int kinds[] = {SHMEMX_ALLREDUCE, SHMEMX_REDUCESCATTER, SHMEMX_FCOLLECT,
                            SHMEMX_ALLTOALL,  SHMEMX_BROADCAST,     SHMEMX_PERMUTE};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
_Static_assert(MOST_TEAMS *(KINDS + 1) * MOST_SIZES <= SELECT_MOST_ROWS, "rows fit; allreduce may have two a size");

/* A row without its limits. */
struct tune_way {
    const struct select_algorithm *algorithm; /* NULL: none yet */
    struct select_shape most;
};

struct trial {
    struct tune_way way;
    struct select_shape shape; /* what a call of this size takes of it */
    unsigned calls;            /* of its graph */
    bool final;                /* measured twice */
    double us;                 /* 0: not measured */
    double noise;              /* what us may be off by: half the distance of the quartiles, in parts of us */
    double spread;             /* measured twice: the longer time over the shorter one */
};

/* Calls in place cannot take all that others can, so they get rows of their own where the best is none for them. */
enum buffers { APART, IN_PLACE, BUFFERS };

struct result {
    size_t bytes;
    struct tune_way best[BUFFERS];
};

struct tuning {
    struct device *device;
    struct team *world;
    char path[512];
    const char *table; /* SHMEM_COLL_TABLE: not asked meanwhile, since it may name what is to be made here */
    bool had_streams;  /* collectives on streams were called before */
    size_t capacity;   /* the largest size, and the bytes of dest and of source */
    bool whole;        /* all sizes are measured: the last row is for larger ones, too */
    bool talks;
    uint16_t *dest, *source; /* symmetric device memory */
    shmemx_stream_t stream;
    struct select_table *built_in;
    struct select_rows rows;
    int n_gains;
    double gains[MOST_TEAMS * KINDS * MOST_SIZES]; /* built-in row's time over that of the new one */
    int n_spread;                                  /* of these, the built-in row's two times were not steady */
};

/* One size. */
struct trials {
    struct tuning *t;
    shmemx_coll_t coll;
    struct stream_call c;
    int n;
    struct trial trial[MOST_TRIALS];
};

/* The others' kernels wait for what has failed here. */
static void need(int rc, const char *what)
{
    if (rc != 0)
        iso_fatal(call, "%s failed on this PE, and the others wait for it", what);
}

static bool all_of(struct team *team, bool mine) { return iso_agree_min(team, mine, call) != 0; }

/* ---- data: bfloat16, small whole numbers ---- */

static uint16_t bf16_of(unsigned v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest, even */
}

/* 0 .. 7 */
static unsigned value_of(int member, size_t i)
{
    return ((uint32_t)(i % PERIOD) + (uint32_t)member * PERIOD) * 0x9e3779b1u >> 29;
}

static int fill_source(struct tuning *t)
{
    enum { PERIODS = 8, ELEMS = PERIOD * PERIODS };
    uint16_t *image = (uint16_t *)malloc(ELEMS * sizeof *image);
    if (image == NULL) {
        log_error("%s: no memory", call);
        return -ENOMEM;
    }
    for (size_t i = 0; i < ELEMS; i++)
        image[i] = bf16_of(value_of(ISO->my_pe, i));
    for (size_t at = 0; at < t->capacity / 2; at += ELEMS)
        iso_agent_copy(t->source + at, image, 2 * ISO_MIN((size_t)ELEMS, t->capacity / 2 - at));
    free(image);
    return 0;
}

static uint16_t expected(const struct stream_call *c, size_t i)
{
    size_t each = c->call.coll->nelems, own = (size_t)c->args.h.my_pe * each;
    unsigned sum = 0;
    switch (c->call.coll->kind) {
    case SHMEMX_FCOLLECT:
        return bf16_of(value_of((int)(i / each), i % each));
    case SHMEMX_ALLTOALL:
        return bf16_of(value_of((int)(i / each), own + i % each));
    case SHMEMX_BROADCAST:
    case SHMEMX_PERMUTE:
        return bf16_of(value_of(c->args.from, i));
    default:
        for (int m = 0; m < c->args.h.n_pes; m++)
            sum += value_of(m, c->call.coll->kind == SHMEMX_REDUCESCATTER ? own + i : i);
        return bf16_of(sum);
    }
}

static size_t elems_of_dest(const struct stream_call *c)
{
    return c->call.coll->nelems * (c->args.dest_stride != 0 ? (size_t)c->args.h.n_pes : 1);
}

/* All of a small dest, parts of a large one. */
static bool is_right(const struct tuning *t, const struct stream_call *c, const struct trial *r)
{
    uint16_t seen[WINDOW];
    size_t whole = elems_of_dest(c), len = ISO_MIN(whole, (size_t)WINDOW);
    for (size_t look = 0; look < LOOKS; look++) {
        size_t at = (whole - len) / (LOOKS - 1) * look;
        iso_agent_copy(seen, t->dest + at, len * sizeof *seen);
        for (size_t i = 0; i < len; i++)
            if (seen[i] != expected(c, at + i)) {
                log_error("%s: %s of %zu bytes on %d PEs by %s, %u x %u, went wrong: element %zu of dest is %#06x, "
                          "expected %#06x; nothing is written",
                          call, iso_select_stream.kinds[c->call.coll->kind], c->facts.bytes, (int)c->args.h.n_pes,
                          r->way.algorithm->name, r->shape.grid, r->shape.threads, at + i, seen[i],
                          expected(c, at + i));
                return false;
            }
    }
    return true;
}

/* ---- one trial ---- */

static void enqueue_round(const struct trials *s, const struct trial *r, unsigned calls)
{
    for (unsigned i = 0; i < calls; i++)
        need(r->way.algorithm->run(&s->c, r->way.algorithm, r->shape), "a call");
}

static void synchronize(const struct trials *s)
{
    need(pshmemx_stream_synchronize(s->t->stream), "waiting for the stream");
}

/* Is what it does right? No element of a result is -NaN. */
static int check_options(const struct trials *s, const struct trial *r)
{
    need(iso_gpu_fill(s->t->device->gpu, s->t->dest, 0xff, elems_of_dest(&s->c) * 2, s->t->stream), "filling dest");
    enqueue_round(s, r, 1);
    synchronize(s);
    return all_of(s->c.call.team, is_right(s->t, &s->c, r)) ? 0 : -EIO;
}

/* Of the slowest member, from when all have come. graph NULL: one plain call. */
static uint64_t sample(const struct trials *s, const struct trial *r, shmemx_graph_t graph)
{
    iso_barrier_sync(s->c.call.team, call);
    uint64_t begin = iso_clock_now_ns();
    if (graph != NULL)
        need(pshmemx_graph_launch(graph, s->t->stream), "the launch of a graph");
    else
        enqueue_round(s, r, 1);
    synchronize(s);
    uint64_t ns = iso_clock_now_ns() - begin;
    return ~iso_agree_min(s->c.call.team, ~ns, call); /* the most */
}

static shmemx_graph_t capture(const struct trials *s, const struct trial *r, unsigned calls)
{
    shmemx_graph_t graph = NULL;
    need(pshmemx_graph_begin(s->t->stream), "the begin of a graph");
    enqueue_round(s, r, calls);
    need(pshmemx_graph_end(s->t->stream, &graph), "the end of a graph");
    return graph;
}

static int by_value(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* `limit`: times longer than this are not looked at again; 0: all are. */
static void time_graph(const struct trials *s, struct trial *r, double limit)
{
    uint64_t ns[SAMPLES];
    int n = 0;
    shmemx_graph_t graph = capture(s, r, r->calls);
    (void)sample(s, r, graph); /* the first launch may load something */
    while (n < 2)
        ns[n++] = sample(s, r, graph);
    r->us = (double)ISO_MIN(ns[0], ns[1]) * 1e-3 / r->calls;
    if (limit == 0 || r->us <= limit) {
        while (n < SAMPLES)
            ns[n++] = sample(s, r, graph);
        qsort(ns, SAMPLES, sizeof ns[0], by_value);
        r->us = (double)ns[SAMPLES / 2] * 1e-3 / r->calls;
        r->noise = 0.5 * (double)(ns[SAMPLES - 1 - SAMPLES / 4] - ns[SAMPLES / 4]) / (double)ns[SAMPLES / 2];
    }
    need(pshmemx_graph_destroy(graph), "the end of a graph");
}

/* For what is going to be compared: a disturbance of the machine does not last for both times. */
static void time_again(const struct trials *s, struct trial *r)
{
    struct trial other = *r;
    if (r->final)
        return;
    time_graph(s, &other, 0);
    double spread = ISO_MAX(other.us, r->us) / ISO_MIN(other.us, r->us);
    if (other.us < r->us)
        *r = other;
    r->final = true;
    r->spread = spread;
}

static bool serves(const struct tune_way *way, enum buffers buffers)
{
    return buffers == APART || way->algorithm->kind != SHMEMX_ALLREDUCE ||
           (way->algorithm->needs & ISOD_NEEDS_APART) == 0;
}

/* -1: nothing that serves was measured. */
static int fastest(const struct trials *s, enum buffers buffers)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (s->trial[i].us > 0 && serves(&s->trial[i].way, buffers) && (best < 0 || s->trial[i].us < s->trial[best].us))
            best = i;
    return best;
}

static int measure(struct trials *s, struct trial *r)
{
    int best = fastest(s, serves(&r->way, IN_PLACE) ? IN_PLACE : APART), rc = check_options(s, r);
    if (rc != 0)
        return rc;
    uint64_t calls = graph_ns / ISO_MAX(sample(s, r, NULL), (uint64_t)1);
    r->calls = (unsigned)ISO_MIN(ISO_MAX(calls, (uint64_t)1), (uint64_t)MOST_CALLS);
    time_graph(s, r, best >= 0 ? hopeless * s->trial[best].us : 0);
    if (s->t->talks) /* SHMEM_LOG=debug: every trial */
        log_debug("%s of %zu bytes on %d PEs: %s, %u x %u, %.2f us", iso_select_stream.kinds[s->coll.kind],
                  s->c.facts.bytes, s->c.facts.n_pes, r->way.algorithm->name, r->shape.grid, r->shape.threads, r->us);
    return 0;
}

/* ---- which trials ---- */

/* The trial of a way: an earlier one, if calls of this size are the same by both. -1: it cannot do the call. */
static int add_trial(struct trials *s, struct tune_way way)
{
    struct select_row row = {way.algorithm, way.algorithm->needs, INT_MAX, SIZE_MAX, way.most, NULL};
    struct trial new_one = {.way = way};
    if (!iso_stream_row_can(&row, &s->c.facts, &new_one.shape))
        return -1;
    for (int i = 0; i < s->n; i++)
        if (s->trial[i].way.algorithm == way.algorithm && s->trial[i].shape.grid == new_one.shape.grid &&
            s->trial[i].shape.threads == new_one.shape.threads)
            return i;
    if (s->n == MOST_TRIALS)
        return -1;
    s->trial[s->n] = new_one;
    return s->n++;
}

/* The largest first: of shapes that a small call takes alike, the first stands in the row. Threads of the CPU device
 * take turns on a core, so more than a few cannot gain anything there. */
static void add_all(struct trials *s)
{
    static const unsigned cpu_threads[] = {32, 64, 32}, gpu_threads[] = {256, 512, 128};
    bool cpu = strcmp(s->t->device->info->flavour, "cpu") == 0;
    const unsigned *threads = cpu ? cpu_threads : gpu_threads;
    for (int k = 0; k < iso_select_stream.n_algorithms; k++) {
        const struct select_algorithm *a = &iso_select_stream.algorithms[k];
        unsigned most = a->engines ? ISO_ENGINE_STREAMS : ISO_MIN(s->c.facts.most_blocks, cpu ? 4 : SELECT_MOST_BLOCKS);

        /* Trials run in graphs: what graphs cannot hold has no place in the table. */
        bool captured = (a->needs & ISOD_NEEDS_STREAMS) == 0 || s->t->device->info->joins_captures;
        if (a->kind != s->coll.kind || !captured)
            continue;
        for (unsigned halves = 0; halves < 4 && most >> halves != 0; halves++)
            for (int i = 0; i < (a->engines ? 1 : 3); i++) {
                struct tune_way way = {a,
                                       {most >> halves, a->engines ? 1 : ISO_MIN(threads[i], s->c.facts.most_threads)}};
                (void)add_trial(s, way);
            }
    }
}

/* ---- one size ---- */

/* Equal on all members. Whole units of 16 bytes in each block, so `bytes` is nearly what the call has. */
static int describe_row(struct trials *s, int kind, const struct team *team, size_t bytes)
{
    bool of_blocks = kind != SHMEMX_ALLREDUCE && kind != SHMEMX_BROADCAST && kind != SHMEMX_PERMUTE;
    size_t n = (size_t)team->n_pes, each = of_blocks ? ISO_MAX(bytes / n / 16, (size_t)1) * 16 : bytes;
    s->n = 0;
    s->coll = shmemx_coll_of(kind, team->handle, s->t->dest, s->t->source, each / 2, SHMEMX_BFLOAT16);
    s->coll.to = (team->my_pe + 1) % team->n_pes;
    s->coll.from = (team->my_pe + team->n_pes - 1) % team->n_pes;
    int rc = iso_stream_admit(&s->c, &s->coll, s->t->stream);
    s->c.facts.known = true; /* both are symmetric, at the same places: as after shmemx_rendezvous */
    return rc;
}

/* The fastest, unless the incumbent is about as fast. */
static int pick(const struct trials *s, enum buffers buffers, int incumbent)
{
    int best = fastest(s, buffers);
    if (incumbent < 0 || best == incumbent)
        return best;
    const struct trial *new_one = &s->trial[best], *old = &s->trial[incumbent];
    double needed = ISO_MAX(margin, ISO_MAX(new_one->noise, old->noise));
    return new_one->us * (1 + needed) < old->us ? best : incumbent;
}

/* Writes result->best; `before`: those of the next smaller size. 0, or -errno after a sentence. */
static int tune_size(struct trials *s, const struct result *before, struct result *result)
{
    int incumbent[BUFFERS] = {-1, -1};
    add_all(s); /* first, so that rows have large shapes, which larger calls may want whole */
    for (int b = 0; b < BUFFERS; b++)
        if (before != NULL)
            incumbent[b] = add_trial(s, before->best[b]);
    struct select_choice choice = iso_stream_choose(s->t->built_in, &s->c.facts);
    struct tune_way chosen = {choice.algorithm, choice.shape};
    int built_in = add_trial(s, chosen);

    /* Two rounds: all, then those that are compared. */
    for (int i = 0; i < s->n; i++)
        if (measure(s, &s->trial[i]) != 0)
            return -EIO;
    time_again(s, &s->trial[built_in]);
    for (int b = 0; b < BUFFERS; b++) {
        time_again(s, &s->trial[fastest(s, (enum buffers)b)]);
        if (incumbent[b] >= 0)
            time_again(s, &s->trial[incumbent[b]]);
    }

    int best = pick(s, APART, incumbent[APART]);
    result->best[APART] = result->best[IN_PLACE] = s->trial[best].way;
    if (!serves(&s->trial[best].way, IN_PLACE))
        result->best[IN_PLACE] = s->trial[pick(s, IN_PLACE, incumbent[IN_PLACE])].way;

    const struct trial *now = &s->trial[best], *old = &s->trial[built_in];
    if (s->t->talks)
        fprintf(stderr,
                "%-13s %3d PEs %9zu bytes: %-13s %3u x %-3u %10.1f us   (built in: %-13s %3u x %-3u %10.1f us)\n",
                iso_select_stream.kinds[s->coll.kind], (int)s->c.args.h.n_pes, s->c.facts.bytes,
                now->way.algorithm->name, now->shape.grid, now->shape.threads, now->us, old->way.algorithm->name,
                old->shape.grid, old->shape.threads, old->us);
    s->t->gains[s->t->n_gains++] = old->us / now->us;
    s->t->n_spread += old->spread > steady;
    return 0;
}

/* ---- rows ---- */

static bool is_same(const struct tune_way *a, const struct tune_way *b)
{
    return a->algorithm == b->algorithm && a->most.grid == b->most.grid && a->most.threads == b->most.threads;
}

/* Up to where result i holds: half way, in powers, to the next. */
static size_t limit_of(const struct tuning *t, const struct result *results, int i, int n)
{
    if (i + 1 < n)
        return results[i].bytes * 2;
    return t->whole ? SIZE_MAX : results[i].bytes;
}

static void add_row(struct tuning *t, const struct tune_way *way, size_t max_bytes, int max_pes)
{
    struct select_row row = {way->algorithm, way->algorithm->needs, max_pes, max_bytes, way->most, NULL};
    t->rows.row[t->rows.n++] = row;
}

static int tune_kind(struct tuning *t, struct team *team, int kind)
{
    struct result results[MOST_SIZES];
    struct trials s;
    int n = 0, first = 0;
    s.t = t;
    for (size_t bytes = least_bytes; bytes <= t->capacity; bytes *= 4) {
        results[n].bytes = bytes;
        int rc = describe_row(&s, kind, team, bytes) == 0 ? 0 : -EIO;
        if (rc == 0)
            rc = tune_size(&s, n > 0 ? &results[n - 1] : NULL, &results[n]);
        if (rc != 0)
            return rc;
        n++;
    }

    /* One row for neighbours that are alike. Behind a row that calls in place cannot take, those for them: other calls
     * never come to these. */
    for (int last = 0; last < n; last++) {
        const struct tune_way *best = results[last].best;
        if (last + 1 < n && is_same(&best[APART], &results[last + 1].best[APART]))
            continue;
        add_row(t, &best[APART], limit_of(t, results, last, n), team->n_pes);
        for (int i = first; i <= last && !serves(&best[APART], IN_PLACE); i++)
            if (i == last || !is_same(&results[i].best[IN_PLACE], &results[i + 1].best[IN_PLACE]))
                add_row(t, &results[i].best[IN_PLACE], limit_of(t, results, i, n), team->n_pes);
        first = last + 1;
    }
    return 0;
}

/* ---- teams ---- */

/* The first PEs of the job, on a team of their own, so no slot of the user is touched; the others wait. */
static int tune_team(struct tuning *t, int n_pes)
{
    shmem_team_t handle;
    int rc = 0;
    if (pshmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n_pes, NULL, 0, &handle) != 0) {
        log_error("%s: no team of %d PEs can be made", call, n_pes);
        return -ENOSPC;
    }
    if (handle != SHMEM_TEAM_INVALID) {
        struct team *team = iso_team(handle, call);
        for (int k = 0; k < KINDS && rc == 0; k++)
            rc = tune_kind(t, team, kinds[k]);
        pshmem_team_destroy(handle);
    }
    return all_of(t->world, rc == 0) ? 0 : -EIO;
}

/* 2, 4, 8 .. and the whole job: the largest ones. Smaller teams take the rows of the next larger one. */
static int tune_teams(struct tuning *t)
{
    int n_pes = ISO->n_pes, least = 2, rc = 0;
    while (least < n_pes && least << (MOST_TEAMS - 1) < n_pes)
        least *= 2;
    for (int n = least; n < n_pes && rc == 0; n *= 2)
        rc = tune_team(t, n);
    return rc == 0 ? tune_team(t, n_pes) : rc;
}

/* ---- the table ---- */

struct sent {
    uint64_t max_bytes;
    uint32_t grid, threads;
    int32_t algorithm, max_pes, n;
};

/* PE 0's rows go to all PEs, row by row. The first PE of each node writes them. */
static int write_rows(struct tuning *t)
{
    struct sent *all = (struct sent *)calloc((size_t)ISO->n_pes, sizeof *all);
    int n = 1, rc = 0;
    if (all == NULL)
        iso_fatal(call, "no memory for %d PEs", ISO->n_pes); /* the others would wait for this PE */
    for (int i = 0; i < n; i++) {
        struct sent mine = {0, 0, 0, 0, 0, t->rows.n};
        if (i < t->rows.n) {
            const struct select_row *own = &t->rows.row[i];
            mine.max_bytes = own->max_bytes;
            mine.grid = own->shape.grid;
            mine.threads = own->shape.threads;
            mine.algorithm = (int32_t)(own->algorithm - iso_select_stream.algorithms);
            mine.max_pes = own->max_pes;
        }
        iso_agree_gather(t->world, &mine, sizeof mine, all, call);
        n = all[0].n;
        const struct select_algorithm *a = &iso_select_stream.algorithms[all[0].algorithm];
        struct select_row row = {a, a->needs, all[0].max_pes, all[0].max_bytes, {all[0].grid, all[0].threads}, NULL};
        t->rows.row[i] = row;
    }
    t->rows.n = n;
    free(all);

    if (ISO->my_local == 0)
        rc = iso_select_write(t->path, t->device->info, &t->rows);
    return all_of(t->world, rc == 0) ? 0 : -EIO;
}

/* By halving: the library does without libm. */
static double geometric_mean(const double *x, int n)
{
    double low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = ISO_MIN(low, x[i]);
        high = ISO_MAX(high, x[i]);
    }
    for (int halving = 0; halving < 50; halving++) {
        double middle = (low + high) / 2, product = 1;
        for (int i = 0; i < n; i++)
            product *= x[i] / middle;
        if (product > 1)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- begin and end ---- */

static bool are_valid(const char *path, size_t most_bytes)
{
    if (ISO->n_pes == 1)
        log_error("%s: this job has 1 PE, and there is nothing to measure; start one for each device by a launcher: "
                  "oshrun, mpirun or srun",
                  call);
    else if (most_bytes != 0 && most_bytes < least_bytes)
        log_error("%s: most_bytes %zu is below %zu", call, most_bytes, least_bytes);
    else if (path != NULL && strlen(path) >= sizeof((struct tuning *)0)->path)
        log_error("%s: path has %zu characters, allowed are %zu", call, strlen(path),
                  sizeof((struct tuning *)0)->path - 1);
    else
        return true;
    return false;
}

/* On each PE that writes a table; a file that cannot be written is not worth minutes of measuring. */
static bool can_write(struct tuning *t, const char *path)
{
    char beside[sizeof t->path + 16];
    struct select_rows none = {.n = 0};
    if (path != NULL)
        snprintf(t->path, sizeof t->path, "%s", path);
    else
        iso_select_path(ISO->env->coll_table, t->device->info, t->path, sizeof t->path);
    if (ISO->my_local != 0)
        return true;
    if (t->path[0] == '\0') {
        log_error("%s: there is no place for a table: neither SHMEM_COLL_TABLE nor XDG_CACHE_HOME nor HOME is set",
                  call);
        return false;
    }
    snprintf(beside, sizeof beside, "%s.try", t->path);
    return iso_select_write(beside, t->device->info, &none) == 0 && unlink(beside) == 0;
}

/* Collective; what `end` takes away, whether it went well or not. */
static bool begin(struct tuning *t, size_t most_bytes)
{
    size_t all = strcmp(t->device->info->flavour, "cpu") == 0 ? cpu_bytes : largest_bytes;
    t->whole = most_bytes == 0 || most_bytes >= largest_bytes;
    t->capacity = most_bytes == 0 ? all : ISO_MIN(most_bytes, largest_bytes);
    t->had_streams = __atomic_load_n(&t->device->streams, __ATOMIC_RELAXED) != NULL; /* calls of other threads: none */
    t->table = ISO->env->coll_table;
    ISO->env->coll_table = "";
    t->dest = (uint16_t *)pshmemx_malloc(t->capacity, SHMEMX_DEVICE);
    t->source = t->dest != NULL ? (uint16_t *)pshmemx_malloc(t->capacity, SHMEMX_DEVICE) : NULL;
    if (t->source == NULL) { /* on all PEs */
        log_error("%s: no room for dest and source of %zu bytes in the device heap; SHMEM_DEVICE_HEAP_SIZE says how "
                  "large it may become, or take a smaller most_bytes",
                  call, t->capacity);
        return false;
    }
    t->built_in = iso_stream_table_built_in(t->device->info);
    return all_of(t->world, t->built_in != NULL && fill_source(t) == 0 && pshmemx_stream_create(&t->stream) == 0);
}

/* Where nothing was called before, the next call begins anew, and reads the new table. */
static void end(struct tuning *t)
{
    if (t->stream != NULL)
        (void)pshmemx_stream_destroy(t->stream);
    iso_select_close(t->built_in);
    pshmemx_free(t->source);
    pshmemx_free(t->dest);
    ISO->env->coll_table = t->table;
    if (!t->had_streams)
        iso_coll_streams_forget();
}

SHMEM_API(shmemx_coll_tune, pshmemx_coll_tune);
int pshmemx_coll_tune(const char *path, size_t most_bytes, int verbose)
{
    struct tuning t;
    memset(&t, 0, sizeof t);
    if (iso_enter(__func__) != 0 || !are_valid(path, most_bytes) || (t.device = iso_device_need(__func__)) == NULL)
        return 1;
    t.world = ISO->world;
    t.talks = verbose != 0 && ISO->my_pe == 0;
    if (!all_of(t.world, can_write(&t, path)))
        return 1;
    bool done = begin(&t, most_bytes) && tune_teams(&t) == 0 && write_rows(&t) == 0;
    end(&t);
    if (!done)
        return 1;

    if (t.talks)
        fprintf(stderr,
                "%d rows are in %s%s; by them the calls measured are %.2f times as fast as by the built-in table "
                "(geometric mean)\n",
                t.rows.n, t.path, ISO->n_local < ISO->n_pes ? " on each node" : "",
                geometric_mean(t.gains, t.n_gains));
    if (ISO->my_pe == 0 && 4 * t.n_spread > t.n_gains)
        log_warn("%s: of %d calls %d took %.0f %% longer or more in one of two measurements, so the rows may be wrong: "
                 "end what else runs on this machine and its devices, and tune again",
                 call, t.n_gains, t.n_spread, 100 * (steady - 1));
    return 0;
}
