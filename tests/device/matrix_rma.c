/* SPDX-License-Identifier: MIT */
/* Puts, gets and signals from kernels and on streams: operation x type x form (thread, wave, block, stream) x size x
 * alignment x stride x route (team, distance, memory of the other side). Every unit of a grid, or every call on the
 * stream, moves a slice of its own. After a put with signal the receiver's kernel, running meanwhile, waits for the
 * signals and copies what it finds: it must be the data; a stream does so behind its waits, or behind a barrier. */
#include "matrix.h"

enum {
    OP_P,
    OP_PUT,
    OP_PUT_NBI,
    OP_IPUT,
    OP_SIGNAL,
    OP_SIGNAL_NBI,
    OP_SIGNAL_ALONE,
    OP_G,
    OP_GET,
    OP_GET_NBI,
    OP_IGET,
    OP_COUNT
};
static const char *const op_names[] = {"p",         "put", "put_nbi", "iput",    "put_signal", "put_signal_nbi",
                                       "signal_op", "g",   "get",     "get_nbi", "iget"};
enum { FORM_STREAM = FORM_COUNT, RMA_FORM_COUNT };
static const char *const form_names[] = {FORM_NAMES, "stream"};

enum { BLOCKS = 3, THREADS = 64, APART = 13, MOST_UNITS = BLOCKS * THREADS / APART, ROOM = 512 << 10 };

struct rma_args {
    shmemd_t h;
    char *dest;
    const char *source;
    uint64_t *sig;
    char *landed; /* where the receiver copies dest to; NULL: it does not look */
    uint64_t nelems, dest_step, source_step, landed_bytes;
    int64_t dst, sst;
    uint64_t signal;
    int32_t op, form, pe, units, sig_op;
};

/* Every APART-th thread, so that one wave has several and some waves none at its begin; -1: takes no part. */
SHMEMD_FN int32_t unit_of(int32_t form, int32_t units)
{
    int32_t unit = form_unit(form);
    if (form == FORM_THREAD)
        unit = unit % APART == 0 ? unit / APART : -1;
    return unit < units ? unit : -1;
}
SHMEMD_FN void quiet_of(shmemd_t h, int32_t form)
{
    if (form == FORM_THREAD)
        shmemd_quiet(h);
    else if (form == FORM_WAVE)
        shmemd_quiet_wave(h);
    else
        shmemd_quiet_block(h);
}
/* The last block: who sees a signal sees the data in front of it. */
SHMEMD_FN void receive(struct rma_args a)
{
    uint32_t size = (uint32_t)shmemd_block_size(), me = (uint32_t)shmemd_thread_index();
    for (uint32_t u = me; u < (uint32_t)a.units; u += size)
        (void)shmemd_signal_wait_until(a.h, a.sig + u, SHMEM_CMP_EQ, a.signal);
    shmemd_group_sync(shmemd_block());
    for (uint64_t i = me; i < a.landed_bytes; i += size)
        a.landed[i] = a.dest[i];
}

#define RMA_FORMS(NAME, ...)                                        \
    (a.form == FORM_THREAD ? shmemd_##NAME(a.h, __VA_ARGS__)        \
     : a.form == FORM_WAVE ? shmemd_##NAME##_wave(a.h, __VA_ARGS__) \
                           : shmemd_##NAME##_block(a.h, __VA_ARGS__))

/* P, IPUT, G, IGET: statements; nothing where a family has none. */
#define RMA_KERNELS(ID, T, PUT, GET, P, IPUT, G, IGET)                                                       \
    SHMEMD_KERNEL(put_##ID, struct rma_args, a)                                                              \
    {                                                                                                        \
        int32_t unit = unit_of(a.form, a.units);                                                             \
        if (unit >= 0) {                                                                                     \
            T *dest = (T *)(void *)(a.dest + (uint64_t)unit * a.dest_step);                                  \
            const T *source = (const T *)(const void *)(a.source + (uint64_t)unit * a.source_step);          \
            if (a.op == OP_PUT)                                                                              \
                RMA_FORMS(PUT, dest, source, a.nelems, a.pe);                                                \
            else if (a.op == OP_PUT_NBI)                                                                     \
                RMA_FORMS(PUT##_nbi, dest, source, a.nelems, a.pe);                                          \
            else if (a.op == OP_SIGNAL)                                                                      \
                RMA_FORMS(PUT##_signal, dest, source, a.nelems, a.sig + unit, a.signal, a.sig_op, a.pe);     \
            else if (a.op == OP_SIGNAL_NBI)                                                                  \
                RMA_FORMS(PUT##_signal_nbi, dest, source, a.nelems, a.sig + unit, a.signal, a.sig_op, a.pe); \
            P IPUT quiet_of(a.h, a.form);                                                                    \
        }                                                                                                    \
        if (a.landed != 0 && shmemd_block_index() + 1 == shmemd_block_count())                               \
            receive(a);                                                                                      \
    }                                                                                                        \
    SHMEMD_KERNEL(get_##ID, struct rma_args, a)                                                              \
    {                                                                                                        \
        int32_t unit = unit_of(a.form, a.units);                                                             \
        if (unit >= 0) {                                                                                     \
            T *dest = (T *)(void *)(a.dest + (uint64_t)unit * a.dest_step);                                  \
            const T *source = (const T *)(const void *)(a.source + (uint64_t)unit * a.source_step);          \
            if (a.op == OP_GET)                                                                              \
                RMA_FORMS(GET, dest, source, a.nelems, a.pe);                                                \
            else if (a.op == OP_GET_NBI)                                                                     \
                RMA_FORMS(GET##_nbi, dest, source, a.nelems, a.pe);                                          \
            G IGET quiet_of(a.h, a.form);                                                                    \
        }                                                                                                    \
    }

#define RMA_P(NAME)   \
    if (a.op == OP_P) \
        shmemd_##NAME##_p(a.h, dest, *source, a.pe);
#define RMA_G(NAME)   \
    if (a.op == OP_G) \
        *dest = shmemd_##NAME##_g(a.h, source, a.pe);
#define RMA_IPUT(NAME)   \
    if (a.op == OP_IPUT) \
        RMA_FORMS(NAME, dest, source, (ptrdiff_t)a.dst, (ptrdiff_t)a.sst, a.nelems, a.pe);
#define RMA_IGET(NAME)   \
    if (a.op == OP_IGET) \
        RMA_FORMS(NAME, dest, source, (ptrdiff_t)a.dst, (ptrdiff_t)a.sst, a.nelems, a.pe);

#define RMA_SIGNAL_ALONE         \
    if (a.op == OP_SIGNAL_ALONE) \
        shmemd_signal_op(a.h, a.sig + unit, a.signal, a.sig_op, a.pe);

#define RMA_TYPED(NAME, TYPE, ...)                                                                   \
    RMA_KERNELS(NAME, TYPE, NAME##_put, NAME##_get, RMA_P(NAME), RMA_IPUT(NAME##_iput), RMA_G(NAME), \
                RMA_IGET(NAME##_iget))
/* The 128-bit forms get addresses of 16 bytes; which type names them does not matter. */
#define RMA_SIZED(BITS, BYTES, ...) \
    RMA_KERNELS(BITS, char, put##BITS, get##BITS, , RMA_IPUT(iput##BITS), , RMA_IGET(iget##BITS))
SHMEM_DEVICE_TYPES(RMA_TYPED, )
SHMEM_SIZES(RMA_SIZED, )
RMA_KERNELS(mem, char, putmem, getmem, RMA_SIGNAL_ALONE, , , )

struct rma_row {
    const char *name;
    size_t size;
    bool has_strided, has_single;
    shmemx_kernel_t put, get;
};
#define ROW_TYPED(NAME, TYPE, ...) \
    {#NAME, sizeof(TYPE), true, true, SHMEMX_KERNEL(put_##NAME), SHMEMX_KERNEL(get_##NAME)},
#define ROW_SIZED(BITS, BYTES, ...) {#BITS, BYTES, true, false, SHMEMX_KERNEL(put_##BITS), SHMEMX_KERNEL(get_##BITS)},
static const struct rma_row rows[] = {SHMEM_DEVICE_TYPES(ROW_TYPED, ) SHMEM_SIZES(ROW_SIZED, ){
    "mem", 1, false, false, SHMEMX_KERNEL(put_mem), SHMEMX_KERNEL(get_mem)}};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* The last ones are pieces of the ring, or go by copy engine. */
static const size_t counts[] = {1, 0, 2, 3, 7, 33, 64, 257, 1000, 4097, 65536, 150001};
struct pair {
    int dest, source;
};
static const struct pair shifts[] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}};
static const struct pair strides[] = {{1, 1}, {2, 1}, {1, 3}, {3, 2}};
struct route {
    const char *name;
    int team, distance, where;
};
static const struct route routes[] = {{"world next", 0, 1, 0},
                                      {"world self", 0, 0, 0},
                                      {"world far", 0, 2, 0},
                                      {"parity next", 1, 1, 0},
                                      {"world next's host heap", 0, 1, 1}};

/* What follows the calls on a stream: quiet; waits for the signals that come here; barrier; quiet and sync. */
enum { FINISH_QUIET, FINISH_WAIT, FINISH_BARRIER, FINISH_SYNC, FINISH_COUNT };
static const char *const finish_names[] = {"quiet", "wait", "barrier", "sync"};

enum dim { TYPE, OP, FORM, COUNT, SHIFT, STRIDE, SIG_OP, ROUTE, FINISH, GRAPH };
static const struct matrix_dim dims[] = {
    {"type", ROWS}, {"op", OP_COUNT}, {"form", RMA_FORM_COUNT}, {"count", 12}, {"shift", 4}, {"stride", 4},
    {"sig_op", 2},  {"route", 5},     {"finish", FINISH_COUNT}, {"graph", 2},  {NULL, 0}};

static bool is_strided(int op) { return op == OP_IPUT || op == OP_IGET; }
static bool is_single(int op) { return op == OP_P || op == OP_G; }
static bool has_signal(int op) { return op == OP_SIGNAL || op == OP_SIGNAL_NBI || op == OP_SIGNAL_ALONE; }
static bool is_bytes(const int *v) { return v[TYPE] == ROWS - 1; }

/* Bytes only, towards device memory. */
static bool stream_valid(const int *v)
{
    if (v[FORM] != FORM_STREAM)
        return v[FINISH] == FINISH_QUIET && v[GRAPH] == 0;
    if (!is_bytes(v) || routes[v[ROUTE]].where != 0 || (v[FINISH] == FINISH_WAIT && !has_signal(v[OP])))
        return false;
    return v[OP] == OP_PUT || v[OP] == OP_GET || v[OP] == OP_SIGNAL || v[OP] == OP_SIGNAL_ALONE;
}

static bool rma_valid(const int *v)
{
    const struct rma_row *row = &rows[v[TYPE]];
    if (!stream_valid(v) || (counts[v[COUNT]] > 5000 && (!is_bytes(v) || v[FORM] < FORM_BLOCK)))
        return false;
    if (v[OP] == OP_SIGNAL_ALONE &&
        (!is_bytes(v) || counts[v[COUNT]] != 0 || v[FORM] == FORM_WAVE || v[FORM] == FORM_BLOCK))
        return false;
    if (is_strided(v[OP]) ? !row->has_strided || counts[v[COUNT]] > 300 : v[STRIDE] != 0)
        return false;
    if (is_single(v[OP]) && (!row->has_single || v[FORM] != FORM_THREAD || counts[v[COUNT]] != 1))
        return false;
    if (v[FORM] == FORM_THREAD && counts[v[COUNT]] > 1000)
        return false;
    return has_signal(v[OP]) || v[SIG_OP] == 0;
}

struct rma {
    struct device_team team[2];
    struct area remote[2]; /* in the device heap, in the host heap: what the other PE puts into or gets from */
    struct area local, landed;
    struct area sig[2];
    shmemx_stream_t stream;
    unsigned round;
};

/* What the units of one case do, in bytes. */
struct shape {
    size_t size, n, dest_step, source_step, dest_shift, source_shift, dst, sst;
    int units;
    unsigned round;
};

static size_t slice_step(const struct shape *s, size_t stride, size_t shift)
{
    size_t span = s->n == 0 ? 0 : (s->n - 1) * stride + 1;
    return ((span + shift) * s->size + 15) / 16 * 16 + 16;
}
static struct shape rma_shape(const int *v, unsigned round)
{
    struct shape s;
    s.size = rows[v[TYPE]].size;
    s.n = counts[v[COUNT]];
    s.dst = (size_t)strides[v[STRIDE]].dest;
    s.sst = (size_t)strides[v[STRIDE]].source;
    s.dest_shift = (size_t)shifts[v[SHIFT]].dest;
    s.source_shift = (size_t)shifts[v[SHIFT]].source;
    s.dest_step = slice_step(&s, s.dst, s.dest_shift);
    s.source_step = slice_step(&s, s.sst, s.source_shift);
    s.units = v[FORM] == FORM_THREAD ? MOST_UNITS : BLOCKS;
    s.round = round;
    return s;
}

/* dest as it must become, from what world PE `from` has in its source. */
static void rma_model(struct area *dest, const struct shape *s, int from)
{
    unsigned char element[16];
    for (size_t u = 0; u < (size_t)s->units; u++)
        for (size_t i = 0; i < s->n; i++) {
            size_t at = u * s->source_step + (s->source_shift + i * s->sst) * s->size;
            for (size_t k = 0; k < s->size; k++)
                element[k] = check_byte(from, from, s->round, at + k);
            area_expect(dest, u * s->dest_step + (s->dest_shift + i * s->dst) * s->size, element, s->size);
        }
}

/* One call; a->pe is a PE of the world. */
static int stream_call(const struct rma_args *a, uint64_t unit, shmemx_stream_t stream)
{
    char *dest = a->dest + unit * a->dest_step;
    const char *source = a->source + unit * a->source_step;
    uint64_t *sig = a->sig + unit;
    if (a->op == OP_PUT)
        return shmemx_putmem_on_stream(dest, source, a->nelems, a->pe, stream);
    if (a->op == OP_GET)
        return shmemx_getmem_on_stream(dest, source, a->nelems, a->pe, stream);
    if (a->op == OP_SIGNAL)
        return shmemx_putmem_signal_on_stream(dest, source, a->nelems, sig, a->signal, a->sig_op, a->pe, stream);
    return shmemx_signal_op_on_stream(sig, a->signal, a->sig_op, a->pe, stream);
}

static void stream_enqueue(const int *v, const struct rma_args *a, shmem_team_t team, shmemx_stream_t stream)
{
    uint64_t units = (uint64_t)a->units;
    for (uint64_t u = 0; u < units; u++)
        CHECK_EQ(stream_call(a, u, stream), 0);
    for (uint64_t u = 0; u < units && v[FINISH] == FINISH_WAIT; u++)
        CHECK_EQ(shmemx_signal_wait_until_on_stream(a->sig + u, SHMEM_CMP_EQ, a->signal, stream), 0);
    if (v[FINISH] == FINISH_BARRIER)
        CHECK_EQ(shmemx_barrier_on_stream(team, stream), 0);
    else
        CHECK_EQ(shmemx_quiet_on_stream(stream), 0);
    if (v[FINISH] == FINISH_SYNC)
        CHECK_EQ(shmemx_sync_on_stream(team, stream), 0);
    if (a->landed != NULL)
        CHECK_EQ(shmemx_getmem_on_stream(a->landed, a->dest, a->landed_bytes, shmem_my_pe(), stream), 0);
}

static void stream_run(const int *v, const struct rma_args *a, shmem_team_t team, shmemx_stream_t stream)
{
    shmemx_graph_t graph;
    if (v[GRAPH] != 0)
        CHECK_OR_EXIT(shmemx_graph_begin(stream) == 0);
    stream_enqueue(v, a, team, stream);
    if (v[GRAPH] != 0) {
        CHECK_OR_EXIT(shmemx_graph_end(stream, &graph) == 0);
        CHECK_EQ(shmemx_graph_launch(graph, stream), 0);
    }
    CHECK_OR_EXIT(shmemx_stream_synchronize(stream) == 0);
    if (v[GRAPH] != 0)
        CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

static void rma_launch(struct rma *m, const int *v, const struct shape *s, struct rma_args *a)
{
    const struct rma_row *row = &rows[v[TYPE]];
    const struct device_team *team = &m->team[routes[v[ROUTE]].team];
    a->dest += s->dest_shift * s->size;
    a->source += s->source_shift * s->size;
    a->nelems = s->n;
    a->dest_step = s->dest_step;
    a->source_step = s->source_step;
    a->dst = (int64_t)s->dst;
    a->sst = (int64_t)s->sst;
    a->signal = 1000 + s->round;
    a->op = v[OP];
    a->form = v[FORM];
    a->units = s->units;
    a->sig_op = v[SIG_OP] == 0 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD;
    shmem_barrier_all();
    if (v[FORM] == FORM_STREAM) {
        a->pe = device_world_pe(team, a->pe);
        stream_run(v, a, team->team, m->stream);
    } else
        device_run(v[OP] < OP_G ? row->put : row->get, BLOCKS + (a->landed != NULL), THREADS, a, sizeof(*a));
    shmem_barrier_all();
}

/* The signals' area: zero before, the same number in each unit's after; the rest stays poison. */
static void rma_signals(struct area *sig, int units, uint64_t value)
{
    for (int u = 0; u < units; u++)
        area_expect(sig, (size_t)u * 8, &value, 8);
}

/* Whether the receiver copies what has come before it meets the others on the host. */
static bool lands(const int *v)
{
    if (v[FORM] != FORM_STREAM)
        return has_signal(v[OP]) && routes[v[ROUTE]].where == 0;
    return v[FINISH] == FINISH_WAIT || (v[FINISH] == FINISH_BARRIER && v[OP] != OP_GET);
}

static void rma_text(const int *v, char *text, size_t bytes)
{
    int len = snprintf(text, bytes, "%s %s by %s, %zu, shift %d, stride %d, sig_op %d, %s", rows[v[TYPE]].name,
                       op_names[v[OP]], form_names[v[FORM]], counts[v[COUNT]], v[SHIFT], v[STRIDE], v[SIG_OP],
                       routes[v[ROUTE]].name);
    if (v[FORM] == FORM_STREAM)
        snprintf(text + len, bytes - (size_t)len, ", %s%s", finish_names[v[FINISH]], v[GRAPH] != 0 ? ", graph" : "");
}

static void rma_case(void *state, const int *v)
{
    struct rma *m = (struct rma *)state;
    const struct route *route = &routes[v[ROUTE]];
    const struct device_team *team = &m->team[route->team];
    struct shape s = rma_shape(v, ++m->round);
    bool put = v[OP] < OP_G;
    struct area *dest = put ? &m->remote[route->where] : &m->local, *sig = &m->sig[route->where];
    struct area *source = put ? &m->local : &m->remote[route->where];
    int target = (team->me + route->distance) % team->n;
    int from = put ? ((team->me - route->distance) % team->n + team->n) % team->n : target;
    char text[160];
    struct rma_args a;
    memset(&a, 0, sizeof(a));
    rma_text(v, text, sizeof(text));
    area_fill(source, (size_t)s.units * s.source_step, shmem_my_pe(), s.round);
    area_poison(dest, (size_t)s.units * s.dest_step);
    area_poison(&m->landed, (size_t)s.units * s.dest_step);
    area_poison(sig, MOST_UNITS * 8);
    rma_signals(sig, s.units, 0);
    area_upload(sig);
    a.h = team->handle;
    a.dest = area_data(dest);
    a.source = area_data(source);
    a.sig = (uint64_t *)(void *)area_data(sig);
    a.landed = lands(v) ? area_data(&m->landed) + s.dest_shift * s.size : NULL;
    a.landed_bytes = (size_t)s.units * s.dest_step - s.dest_shift * s.size;
    a.pe = target;
    rma_launch(m, v, &s, &a);
    rma_model(dest, &s, device_world_pe(team, from));
    area_check(dest, text);
    area_check(source, text);
    if (a.landed != NULL) {
        memcpy(m->landed.image, dest->image, dest->used);
        area_check(&m->landed, text);
    }
    if (has_signal(v[OP]))
        rma_signals(sig, s.units, a.signal);
    area_check(sig, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct rma m;
    shmem_team_t parity = device_team_of_parity();
    memset(&m, 0, sizeof(m));
    for (int where = 0; where < 2; where++) {
        area_make(&m.remote[where], ROOM, where == 0 ? SHMEMX_DEVICE : SHMEMX_HOST);
        area_make(&m.sig[where], MOST_UNITS * 8, where == 0 ? SHMEMX_DEVICE : SHMEMX_HOST);
    }
    area_make(&m.local, ROOM, SHMEMX_DEVICE);
    area_make(&m.landed, ROOM, SHMEMX_DEVICE);
    device_team_open(&m.team[0], SHMEM_TEAM_WORLD, 0);
    device_team_open(&m.team[1], parity, 3);
    CHECK_OR_EXIT(shmemx_stream_create(&m.stream) == 0);
    for (int i = 0; i < 2; i++) /* the first of a team makes a handle, which no capture allows */
        CHECK_EQ(shmemx_barrier_on_stream(m.team[i].team, m.stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(m.stream), 0);
    struct matrix matrix = {"rma", dims, rma_valid, rma_case, &m};
    matrix_run(&matrix);
    CHECK_EQ(shmemx_stream_destroy(m.stream), 0);
    area_drop(&m.landed);
    area_drop(&m.local);
    for (int where = 0; where < 2; where++) {
        area_drop(&m.sig[where]);
        area_drop(&m.remote[where]);
    }
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
