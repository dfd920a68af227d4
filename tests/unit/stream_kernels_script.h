/* SPDX-License-Identifier: MIT */
/* What PEs launch in stream_kernels_test.c: every kernel with what it needs of a call, one PE's side of a call, the
 * same calls serially, and scripts of random ones. */
#ifndef STREAM_KERNELS_SCRIPT_H
#define STREAM_KERNELS_SCRIPT_H

#include "../../coll/stream/on_stream.h"
#include "coll_device_serial.h"

/* ---- the kernels ---- */

#define DECLARE(name) size_t isod_stream_##name##_kernel(const void *args_of);
#define DECLARE_MOVE(name, needs) DECLARE(name)
#define DECLARE_SUM(representation, name) DECLARE(name##_sum_##representation)
#define DECLARE_REDUCE_SUM(name) ISOD_STREAM_SUM_KERNELS_FOR(DECLARE_SUM, name)
#define DECLARE_REDUCE_ANY(name) DECLARE(name##_any)
#define DECLARE_REDUCE_ALL(name) DECLARE_REDUCE_SUM(name) DECLARE_REDUCE_ANY(name)
#define DECLARE_REDUCE(name, needs, operators) DECLARE_REDUCE_##operators(name)
ISOD_STREAM_MOVES(DECLARE_MOVE)
ISOD_STREAM_REDUCES(DECLARE_REDUCE)

#define NEEDS_OF_MOVE(name, needs) NEEDS_##name = (needs),
#define NEEDS_OF_REDUCE(name, needs, operators) NEEDS_##name = (needs),
enum { ISOD_STREAM_MOVES(NEEDS_OF_MOVE) ISOD_STREAM_REDUCES(NEEDS_OF_REDUCE) };

/* How much a kernel can carry. */
enum room { NO_LIMIT, LINES, TWOSHOT_LL, SPANS };
enum { ANY = -1, ALLTOALLV = KINDS };
struct algorithm {
    const char *name;
    fiber_kernel kernel;
    int kind, repr; /* repr: of a kernel of sums; ANY: of any operator and type */
    unsigned needs;
    enum room room;
};
#define ROW(kind, kernel, repr, base, room) {#kernel, isod_stream_##kernel##_kernel, kind, repr, NEEDS_##base, room},
#define MOVE_ROW(kind, name, room) ROW(kind, name, ANY, name, room)
#define SUM_ROW(representation, kind, name, room) \
    ROW(kind, name##_sum_##representation, REPR_##representation, name, room)
#define SUM_ROWS(kind, name, room) ISOD_STREAM_SUM_KERNELS_FOR(SUM_ROW, kind, name, room)
#define ANY_ROW(kind, name, room) ROW(kind, name##_any, ANY, name, room)
/* clang-format off */
static const struct algorithm algorithms[] = {
    MOVE_ROW(SYNC, sync, NO_LIMIT)
    MOVE_ROW(BARRIER, barrier, NO_LIMIT)
    MOVE_ROW(BROADCAST, broadcast_ll, LINES)
    MOVE_ROW(BROADCAST, broadcast_ll128, LINES)
    MOVE_ROW(BROADCAST, broadcast_twoshot_ll128, LINES)
    MOVE_ROW(BROADCAST, broadcast_read, NO_LIMIT)
    MOVE_ROW(BROADCAST, broadcast_twoshot_read, NO_LIMIT)
    MOVE_ROW(BROADCAST, broadcast_staged, NO_LIMIT)
    MOVE_ROW(FCOLLECT, exchange_ll, LINES)
    MOVE_ROW(FCOLLECT, exchange_ll128, LINES)
    MOVE_ROW(FCOLLECT, exchange_push, NO_LIMIT)
    MOVE_ROW(FCOLLECT, exchange_staged, NO_LIMIT)
    MOVE_ROW(ALLTOALL, exchange_ll, LINES)
    MOVE_ROW(ALLTOALL, exchange_ll128, LINES)
    MOVE_ROW(ALLTOALL, exchange_push, NO_LIMIT)
    MOVE_ROW(ALLTOALL, exchange_staged, NO_LIMIT)
    MOVE_ROW(PERMUTE, permute_ll, LINES)
    MOVE_ROW(PERMUTE, permute_ll128, LINES)
    MOVE_ROW(PERMUTE, permute_push, NO_LIMIT)
    MOVE_ROW(PERMUTE, permute_staged, NO_LIMIT)
    MOVE_ROW(ALLTOALLV, alltoallv_push, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_ll, LINES)
    SUM_ROWS(REDUCE, reduce_twoshot_ll, TWOSHOT_LL)
    SUM_ROWS(REDUCE, reduce_ll128, LINES)
    SUM_ROWS(REDUCE, reduce_twoshot_ll128, TWOSHOT_LL)
    SUM_ROWS(REDUCE, reduce_read, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_twoshot_read, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_twoshot_push, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_twoshot_dest, SPANS)
    ANY_ROW(REDUCE, reduce_ll, LINES)
    ANY_ROW(REDUCE, reduce_pipelined, NO_LIMIT)
    SUM_ROWS(SCATTER, reduce_ll, LINES)
    SUM_ROWS(SCATTER, reduce_ll128, LINES)
    SUM_ROWS(SCATTER, reduce_read, NO_LIMIT)
    SUM_ROWS(SCATTER, reduce_push, NO_LIMIT)
    ANY_ROW(SCATTER, reduce_ll, LINES)
    ANY_ROW(SCATTER, reduce_pipelined, NO_LIMIT)
};
/* clang-format on */
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

/* The kernel that sums these: signed integers as unsigned ones, complex numbers as pairs. -1: none. */
static int repr_summed_as(int repr)
{
    static const int as[REPR_COUNT] = {
        [REPR_i8] = -1,        [REPR_u8] = -1,        [REPR_i16] = -1,       [REPR_u16] = -1,
        [REPR_i32] = REPR_u32, [REPR_u32] = REPR_u32, [REPR_i64] = REPR_u64, [REPR_u64] = REPR_u64,
        [REPR_f32] = REPR_f32, [REPR_f64] = REPR_f64, [REPR_f16] = REPR_f16, [REPR_bf16] = REPR_bf16,
        [REPR_c32] = REPR_f32, [REPR_c64] = REPR_f64};
    return as[repr];
}
#define DTYPE_OF(name, bytes, logic, ordered) [REPR_##name] = ISOD_DTYPE_##name,
static const int dtype_of[REPR_COUNT] = {REPRS(DTYPE_OF)};

/* ---- what a PE launches ---- */

struct launch {
    const struct algorithm *algorithm;
    unsigned blocks, threads;
    bool in_buffer;                             /* the objects are a registered buffer, not in the heap */
    bool own_source;                            /* fcollect: source is the own block of dest */
    uint64_t noise;                             /* what dest and source are overwritten with */
    uint64_t lengths[MOST_PES][MOST_PES], most; /* alltoallv: bytes from .. to .., and the most of them */
    size_t received;
};
struct script {
    struct plan plan;
    struct launch launches[MOST_CALLS];
};

static size_t dests_of(const struct call *c, int n)
{
    bool blocks = c->what.kind == FCOLLECT || c->what.kind == ALLTOALL || (int)c->what.kind == ALLTOALLV;
    return blocks ? (size_t)n : 1;
}
static size_t sources_of(const struct call *c, int n)
{
    bool blocks = c->what.kind == ALLTOALL || c->what.kind == SCATTER || (int)c->what.kind == ALLTOALLV;
    return blocks ? (size_t)n : 1;
}
static size_t source_at(const struct call *c, const struct launch *l, int pe)
{
    return c->source[0] + (l->own_source ? (size_t)pe * c->bytes : 0);
}
static bool is_in_place(const struct call *c, const struct launch *l)
{
    return c->dest[0] == c->source[0] || c->own_block || l->own_source;
}

static void noise_fill(uint64_t seed, int pe, char *p, size_t bytes)
{
    struct check_random random = {seed + (uint64_t)pe};
    check_random_fill(&random, p, bytes);
}
/* What a PE does to its own objects ahead of a call, and behind it. */
static void scribble_before(const struct call *c, const struct launch *l, char *objects, int pe, int n)
{
    if (!is_in_place(c, l))
        noise_fill(l->noise, pe, objects + dest_of(c, 0, pe), dests_of(c, n) * c->bytes);
}
static void scribble_after(const struct call *c, const struct launch *l, char *objects, int pe, int n)
{
    if (!is_in_place(c, l) && (l->noise & 1) != 0)
        noise_fill(l->noise, pe + n, objects + source_at(c, l, pe), sources_of(c, n) * c->bytes);
}

/* ---- one PE's side of it ---- */

struct pe_side {
    pthread_t thread;
    struct model *m;
    const struct script *script;
    int slot, pe;
    uint64_t seed;
};

static shmemd_t handle_for(const struct pe_side *s, const struct launch *l)
{
    shmemd_t h = model_handle(s->m, s->slot, s->pe);
    if (l->in_buffer)
        h.heap_bytes = SLOTS * s->m->slot_bytes;
    return h;
}

static struct isod_stream_coll args_of(const struct pe_side *s, const struct call *c, const struct launch *l)
{
    char *objects = model_objects(s->m, s->slot, s->pe);
    struct isod_stream_coll a;
    memset(&a, 0, sizeof(a));
    a.h = handle_for(s, l);
    a.dest = objects + dest_of(c, 0, s->pe);
    a.source = objects + source_at(c, l, s->pe);
    a.bytes = c->bytes;
    a.dest_stride = c->bytes;
    a.source_stride = c->what.kind == ALLTOALL || c->what.kind == SCATTER ? c->bytes : 0;
    a.to = c->to[s->pe];
    a.from = c->what.kind == BROADCAST ? c->root : c->from[s->pe];
    a.call = ISOD_CALL_ON_STREAM_ALLREDUCE;
    a.op = c->what.op;
    a.dtype = dtype_of[c->what.repr];
    a.by_pointer = a.h.direct != 0 && !l->in_buffer;
    if (l->algorithm->room == SPANS)
        a.bytes = a.source_stride = c->bytes / 16 / (size_t)a.h.n_pes * 16;
    uint64_t units = (a.bytes + 15) / 16, share = (units + l->blocks - 1) / l->blocks, n = (uint64_t)a.h.n_pes;
    a.share = share * 16; /* as iso_stream_launch does */
    a.span = (share + n - 1) / n * 16;
    return a;
}

/* The arrays of alltoallv, [3][n]: member m's block is number m in source and dest. */
static void blocks_of(const struct pe_side *s, const struct call *c, const struct launch *l, uint64_t *words,
                      struct isod_stream_coll *a)
{
    int n = s->m->shape.n;
    for (int m = 0; m < n; m++) {
        words[m] = l->lengths[s->pe][m];
        words[n + m] = (uint64_t)m * c->bytes;
        words[2 * n + m] = (uint64_t)s->pe * c->bytes;
    }
    a->v_bytes = words;
    a->v_source = words + n;
    a->v_dest = words + 2 * n;
    a->v_received = l->received != 0 ? (uint64_t *)(void *)(model_objects(s->m, s->slot, s->pe) + l->received) : NULL;
}

static void *pe_run(void *argument)
{
    struct pe_side *s = (struct pe_side *)argument;
    const struct shape *shape = &s->m->shape;
    struct fibers *fibers = iso_fibers_create();
    struct check_random random = {s->seed};
    char *objects = model_objects(s->m, s->slot, s->pe);
    for (int i = 0; i < s->script->plan.n_calls && fibers != NULL; i++) {
        const struct call *c = &s->script->plan.calls[i];
        const struct launch *l = &s->script->launches[i];
        uint64_t words[3 * MOST_PES];
        struct isod_stream_coll a = args_of(s, c, l);
        if (l->algorithm->kind == ALLTOALLV)
            blocks_of(s, c, l, words, &a);
        struct fiber_grid grid = {l->algorithm->kernel, &a, l->blocks, l->threads, shape->wave, 0};
        if (check_random_below(&random, 2) == 0)
            grid.seed = check_random_next(&random);
        if (check_random_below(&random, 6) == 0)
            usleep((unsigned)check_random_below(&random, 300));
        scribble_before(c, l, objects, s->pe, shape->n);
        if (iso_fibers_run(fibers, &grid) != 0)
            abort();
        scribble_after(c, l, objects, s->pe, shape->n);
    }
    if (fibers == NULL)
        abort();
    iso_fibers_destroy(fibers);
    return NULL;
}

/* ---- the same, serially ---- */

static void repeat_alltoallv(const struct call *c, const struct launch *l, char *memory, int n)
{
    for (int pe = 0; pe < n; pe++) {
        char *objects = memory + (size_t)pe * OBJECT_BYTES;
        for (int m = 0; m < n; m++) {
            const char *source = memory + (size_t)m * OBJECT_BYTES + c->source[0] + (size_t)pe * c->bytes;
            memcpy(objects + c->dest[0] + (size_t)m * c->bytes, source, l->lengths[m][pe]);
            if (l->received != 0)
                memcpy(objects + l->received + 8 * (size_t)m, &l->lengths[m][pe], 8);
        }
    }
}
static void repeat_own_source(const struct call *c, char *memory, int n)
{
    for (int pe = 0; pe < n; pe++)
        for (int m = 0; m < n; m++)
            if (m != pe)
                memcpy(memory + (size_t)pe * OBJECT_BYTES + c->dest[0] + (size_t)m * c->bytes,
                       memory + (size_t)m * OBJECT_BYTES + c->dest[0] + (size_t)m * c->bytes, c->bytes);
}
static void repeat_launch(const struct call *c, const struct launch *l, char *memory, int n)
{
    for (int pe = 0; pe < n; pe++)
        scribble_before(c, l, memory + (size_t)pe * OBJECT_BYTES, pe, n);
    if (l->algorithm->kind == ALLTOALLV)
        repeat_alltoallv(c, l, memory, n);
    else if (l->own_source)
        repeat_own_source(c, memory, n);
    else
        repeat(c, 1, memory, n);
    for (int pe = 0; pe < n; pe++)
        scribble_after(c, l, memory + (size_t)pe * OBJECT_BYTES, pe, n);
}

/* ---- random scripts ---- */

static void fill_elems(struct check_random *random, int repr, char *p, size_t nelems)
{
    for (size_t i = 0; i < nelems; i++, p += repr_bytes[repr]) {
        double x = (double)(int64_t)check_random_next(random) * 0x1p-60,
               y = (double)(int64_t)check_random_next(random) * 0x1p-60;
        if (repr < REPR_f32) {
            check_random_fill(random, p, repr_bytes[repr]);
        } else if (repr < REPR_c32) {
            real_put(repr, p, check_random_below(random, 50) == 0 ? x * 0x1p-14 : x);
        } else {
            real_put(repr == REPR_c32 ? REPR_f32 : REPR_f64, p, x);
            real_put(repr == REPR_c32 ? REPR_f32 : REPR_f64, p + repr_bytes[repr] / 2, y);
        }
    }
}

/* Room for `bytes`, behind a guard, aligned to an element or to 16. */
static size_t take(struct plan *p, struct check_random *random, size_t bytes, size_t elem_bytes)
{
    size_t at = (p->used + 31) / 16 * 16;
    if (check_random_below(random, 4) == 0)
        at += elem_bytes * (1 + check_random_below(random, 5));
    p->used = at + bytes;
    return at;
}

static size_t random_nelems(struct check_random *random, const struct shape *s, unsigned blocks, size_t elem)
{
    size_t packet = s->inbox_bytes / elem, n = (size_t)s->n;
    switch (check_random_below(random, 10)) {
    case 0:
        return 1 + check_random_below(random, 2);
    case 1:
        return 1 + check_random_below(random, 40);
    case 2:
        return packet * blocks + check_random_below(random, 3);
    case 3:
        return packet * n * blocks + check_random_below(random, 3);
    case 4:
        return packet > 1 ? packet - 1 : 1;
    case 5:
        return packet / 2 * n * blocks + check_random_below(random, 3);
    case 6:
        return 3 * packet + 7;
    case 7:
        return 16 / elem * blocks * n + check_random_below(random, 2);
    case 8:
        return 16 / elem * n * (1 + check_random_below(random, 6 * s->inbox_bytes / 16 * blocks));
    default:
        return 1 + check_random_below(random, 6000) / elem;
    }
}

/* What lines can carry depends on how it is split. */
static bool meets_needs(const struct algorithm *a, const struct shape *s, unsigned blocks, size_t bytes)
{
    size_t share = ((bytes + 15) / 16 + blocks - 1) / blocks * 16;
    size_t span = (share / 16 + (size_t)s->n - 1) / (size_t)s->n * 16;
    if (a->room == SPANS)
        return bytes >= 16 * (size_t)s->n && 16 * (size_t)s->n <= s->inbox_bytes;
    if (a->room == LINES)
        return share <= (size_t)s->inbox_bytes * ISOD_EPOCHS_OF_CALL;
    return a->room == NO_LIMIT || span <= (size_t)s->inbox_bytes * (ISOD_EPOCHS_OF_CALL / 2);
}

static bool fits(const struct algorithm *a, const struct shape *s, const struct call *c, const struct launch *l)
{
    if (a->kind != (int)c->what.kind || (!s->direct && (a->needs & ISOD_NEEDS_DIRECT) != 0))
        return false;
    if (a->repr != ANY && (c->what.op != ISOD_OP_sum_reduce || repr_summed_as(c->what.repr) != a->repr))
        return false;
    if ((a->needs & ISOD_NEEDS_APART) != 0 && c->what.kind == REDUCE && c->dest[0] == c->source[0])
        return false;
    return meets_needs(a, s, l->blocks, c->bytes);
}
static const struct algorithm *choose(const struct shape *s, const struct call *c, const struct launch *l,
                                      struct check_random *random)
{
    const struct algorithm *found[ALGORITHMS];
    size_t n = 0;
    for (int i = 0; i < ALGORITHMS; i++)
        if (fits(&algorithms[i], s, c, l))
            found[n++] = &algorithms[i];
    return n > 0 ? found[check_random_below(random, n)] : NULL;
}

static void random_partners(struct call *c, int n, struct check_random *random)
{
    for (int pe = 0; pe < n; pe++)
        c->to[pe] = pe;
    for (int pe = n - 1; pe > 0; pe--) {
        int other = (int)check_random_below(random, (size_t)pe + 1), swap = c->to[pe];
        c->to[pe] = c->to[other];
        c->to[other] = swap;
    }
    for (int pe = 0; pe < n; pe++)
        c->from[c->to[pe]] = pe;
}
static void random_lengths(struct launch *l, const struct call *c, int n, struct check_random *random)
{
    for (int pe = 0; pe < n; pe++)
        for (int m = 0; m < n; m++)
            l->lengths[pe][m] = check_random_below(random, 4) == 0 ? 0 : check_random_below(random, c->bytes + 1);
}

/* In place upon what the call before has left, which nobody has overwritten. */
static bool chain(struct script *p, struct check_random *random)
{
    struct call *c = &p->plan.calls[p->plan.n_calls];
    const struct call *last = p->plan.n_calls > 0 ? c - 1 : NULL;
    if (last == NULL || c->what.kind != REDUCE || last->what.kind != REDUCE || last->what.repr != c->what.repr ||
        check_random_below(random, 2) == 0)
        return false;
    struct combo what = c->what;
    *c = *last;
    c->what = what;
    memcpy(c->source, c->dest, sizeof(c->source));
    return true;
}

static void place(struct script *p, const struct shape *s, struct call *c, struct launch *l,
                  struct check_random *random)
{
    size_t dests = dests_of(c, s->n) * c->bytes, sources = sources_of(c, s->n) * c->bytes;
    bool same = check_random_below(random, 3) == 0;
    c->own_block = c->what.kind == SCATTER && same;
    l->own_source = c->what.kind == FCOLLECT && same;
    if (l->own_source) {
        c->dest[0] = c->source[0] = take(&p->plan, random, dests, c->elem_bytes);
        return;
    }
    c->source[0] = take(&p->plan, random, sources, c->elem_bytes);
    bool in_place = c->own_block || ((c->what.kind == REDUCE || c->what.kind == BROADCAST) && same);
    c->dest[0] = in_place ? c->source[0] : take(&p->plan, random, dests, c->elem_bytes);
    if ((int)c->what.kind == ALLTOALLV)
        l->received = same ? 0 : take(&p->plan, random, 8 * (size_t)s->n, 8);
}

static void add_call(struct script *p, const struct shape *s, struct combo what, struct check_random *random)
{
    struct call *c = &p->plan.calls[p->plan.n_calls];
    struct launch *l = &p->launches[p->plan.n_calls];
    size_t used = p->plan.used;
    memset(c, 0, sizeof(*c));
    memset(l, 0, sizeof(*l));
    bool meets = what.kind == SYNC || what.kind == BARRIER;
    c->what = what;
    l->blocks = meets ? 1 : 1 + (unsigned)check_random_below(random, s->blocks);
    l->threads = 1 + (unsigned)check_random_below(random, s->threads);
    if (check_random_below(random, 2) == 0) /* wide lines have a thread a piece then */
        l->threads = (l->threads + 7) / 8 * 8;
    l->in_buffer = check_random_below(random, 3) == 0;
    l->noise = check_random_next(random);
    if (!chain(p, random)) {
        c->elem_bytes = what.kind >= REDUCE && what.kind < KINDS ? repr_bytes[what.repr]
                                                                 : (size_t)1 << check_random_below(random, 5);
        c->nelems = meets ? 0 : random_nelems(random, s, l->blocks, c->elem_bytes);
        c->bytes = c->nelems * c->elem_bytes;
        c->root = (int)check_random_below(random, (size_t)s->n);
        random_partners(c, s->n, random);
        place(p, s, c, l, random);
    }
    random_lengths(l, c, s->n, random);
    l->algorithm = choose(s, c, l, random);
    if (l->algorithm != NULL && p->plan.used <= OBJECT_BYTES - 64)
        p->plan.n_calls++;
    else
        p->plan.used = used; /* no room in memory, or in lines */
}

/* Memory before the first call: noise, and elements where a reduction reads them first. */
static void fill_objects(const struct plan *p, const struct shape *s, char *memory, struct check_random *random)
{
    size_t n = (size_t)s->n;
    for (size_t pe = 0; pe < n; pe++) {
        char *objects = memory + pe * OBJECT_BYTES;
        check_random_fill(random, objects, compared_bytes(p));
        for (int i = 0; i < p->n_calls; i++)
            if (p->calls[i].what.kind == REDUCE || p->calls[i].what.kind == SCATTER)
                fill_elems(random, p->calls[i].what.repr, objects + p->calls[i].source[0],
                           p->calls[i].nelems * (p->calls[i].what.kind == SCATTER ? n : 1));
    }
}

#endif
