/* SPDX-License-Identifier: MIT */
/* The kernels of collectives on streams, on the CPU device: random jobs of 1 to 8 PEs, in which each PE launches kernel
 * after kernel on two slots at once, out of step with the others; every kernel, every representation and operator, in
 * several grids, sizes around every threshold, misaligned, in place, numbers of steps that wrap. Around its kernels a
 * PE writes into dest before and into source after, as its stream may: whoever writes or reads too early or too late is
 * found. Each call is repeated serially on a copy of all memory, and all of it is compared, bit by bit.
 * Then: members that do not come, for every kernel.
 * usage: stream_kernels_test [full]     full: all of it twenty times
 * SHMEM_TEST_SEED repeats a run. */
#include "../../coll/on_stream.h"
#include "coll_device_serial.h"

/* ---- the kernels ---- */

#define DECLARE(name) void isod_stream_##name##_kernel(const void *args_of);
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
enum room { NO_LIMIT, LINES, LINES2, SPANS };
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
    MOVE_ROW(BROADCAST, broadcast_lines, LINES)
    MOVE_ROW(BROADCAST, broadcast_wide, LINES)
    MOVE_ROW(BROADCAST, broadcast_wide2, LINES)
    MOVE_ROW(BROADCAST, broadcast_read, NO_LIMIT)
    MOVE_ROW(BROADCAST, broadcast_read2, NO_LIMIT)
    MOVE_ROW(BROADCAST, broadcast_staged, NO_LIMIT)
    MOVE_ROW(FCOLLECT, exchange_lines, LINES)
    MOVE_ROW(FCOLLECT, exchange_wide, LINES)
    MOVE_ROW(FCOLLECT, exchange_push, NO_LIMIT)
    MOVE_ROW(FCOLLECT, exchange_staged, NO_LIMIT)
    MOVE_ROW(ALLTOALL, exchange_lines, LINES)
    MOVE_ROW(ALLTOALL, exchange_wide, LINES)
    MOVE_ROW(ALLTOALL, exchange_push, NO_LIMIT)
    MOVE_ROW(ALLTOALL, exchange_staged, NO_LIMIT)
    MOVE_ROW(PERMUTE, permute_lines, LINES)
    MOVE_ROW(PERMUTE, permute_wide, LINES)
    MOVE_ROW(PERMUTE, permute_push, NO_LIMIT)
    MOVE_ROW(PERMUTE, permute_staged, NO_LIMIT)
    MOVE_ROW(ALLTOALLV, alltoallv_push, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_lines, LINES)
    SUM_ROWS(REDUCE, reduce_lines2, LINES2)
    SUM_ROWS(REDUCE, reduce_wide, LINES)
    SUM_ROWS(REDUCE, reduce_wide2, LINES2)
    SUM_ROWS(REDUCE, reduce_read, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_read2, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_push2, NO_LIMIT)
    SUM_ROWS(REDUCE, reduce_dest2, SPANS)
    ANY_ROW(REDUCE, reduce_lines, LINES)
    ANY_ROW(REDUCE, reduce_long, NO_LIMIT)
    SUM_ROWS(SCATTER, reduce_lines, LINES)
    SUM_ROWS(SCATTER, reduce_wide, LINES)
    SUM_ROWS(SCATTER, reduce_read, NO_LIMIT)
    SUM_ROWS(SCATTER, reduce_push, NO_LIMIT)
    ANY_ROW(SCATTER, reduce_lines, LINES)
    ANY_ROW(SCATTER, reduce_long, NO_LIMIT)
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
#define KEPT_OF(name, bytes, logic, ordered) [REPR_##name] = ISOD_KEPT_##name,
static const int kept_of[REPR_COUNT] = {REPRS(KEPT_OF)};

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
    a.kept = kept_of[c->what.repr];
    if (l->algorithm->room == SPANS)
        a.bytes = a.source_stride = c->bytes / 16 / (size_t)a.h.n_pes * 16;
    isod_stream_shares(&a, l->blocks);
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
    size_t packet = s->packet_bytes / elem, n = (size_t)s->n;
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
        return 16 / elem * n * (1 + check_random_below(random, 6 * s->packet_bytes / 16 * blocks));
    default:
        return 1 + check_random_below(random, 6000) / elem;
    }
}

/* What lines can carry depends on how it is split. */
static bool has_room(const struct algorithm *a, const struct shape *s, unsigned blocks, size_t bytes)
{
    size_t share = ((bytes + 15) / 16 + blocks - 1) / blocks * 16;
    size_t span = (share / 16 + (size_t)s->n - 1) / (size_t)s->n * 16;
    if (a->room == SPANS)
        return bytes >= 16 * (size_t)s->n && 16 * (size_t)s->n <= s->packet_bytes;
    if (a->room == LINES)
        return share <= (size_t)s->packet_bytes * ISOD_STEPS_OF_CALL;
    return a->room == NO_LIMIT || span <= (size_t)s->packet_bytes * (ISOD_STEPS_OF_CALL / 2);
}

static bool fits(const struct algorithm *a, const struct shape *s, const struct call *c, const struct launch *l)
{
    if (a->kind != (int)c->what.kind || (!s->direct && (a->needs & ISOD_NEEDS_DIRECT) != 0))
        return false;
    if (a->repr != ANY && (c->what.op != ISOD_OP_sum_reduce || repr_summed_as(c->what.repr) != a->repr))
        return false;
    if ((a->needs & ISOD_NEEDS_APART) != 0 && c->what.kind == REDUCE && c->dest[0] == c->source[0])
        return false;
    return has_room(a, s, l->blocks, c->bytes);
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

/* ---- a job: scripts on two slots at once ---- */

struct job {
    struct model *m;
    struct script scripts[SLOTS];
    char *expected[SLOTS]; /* [n][OBJECT_BYTES] */
    char *buffers[SLOTS][MOST_PES];
};

/* Of each PE, the objects as a registered buffer. */
static void lay_out_buffers(struct job *j)
{
    for (int pe = 0; pe < j->m->shape.n; pe++) {
        struct isod_world *w = &j->m->pes[pe].world;
        w->n_segments = 1 + SLOTS;
        for (int slot = 0; slot < SLOTS; slot++) {
            j->buffers[slot][pe] = model_objects(j->m, slot, pe);
            w->segments[1 + slot].base = model_objects(j->m, slot, pe);
            w->segments[1 + slot].len = OBJECT_BYTES;
            w->segments[1 + slot].peers = j->buffers[slot];
        }
    }
}

static void job_prepare(struct job *j, struct shape shape, struct check_random *random)
{
    j->m = model_create(shape);
    lay_out_buffers(j);
    for (int slot = 0; slot < SLOTS; slot++) {
        struct script *p = &j->scripts[slot];
        j->expected[slot] = (char *)malloc((size_t)shape.n * OBJECT_BYTES);
        if (j->expected[slot] == NULL)
            abort();
        fill_objects(&p->plan, &shape, j->expected[slot], random);
        for (int pe = 0; pe < shape.n; pe++)
            memcpy(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES,
                   compared_bytes(&p->plan));
        for (int i = 0; i < p->plan.n_calls; i++)
            repeat_launch(&p->plan.calls[i], &p->launches[i], j->expected[slot], shape.n);
    }
}

static void job_run(struct job *j, struct check_random *random)
{
    struct pe_side sides[SLOTS][MOST_PES];
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            struct pe_side *s = &sides[slot][pe];
            s->m = j->m;
            s->script = &j->scripts[slot];
            s->slot = slot;
            s->pe = pe;
            s->seed = check_random_next(random);
            if (pthread_create(&s->thread, NULL, pe_run, s) != 0)
                abort();
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        for (int pe = 0; pe < j->m->shape.n; pe++)
            pthread_join(sides[slot][pe].thread, NULL);
}

/* Says which call it was: those that write what is wrong. */
static void job_explain(const struct job *j, int slot, int pe)
{
    const struct shape *s = &j->m->shape;
    const struct script *p = &j->scripts[slot];
    const char *seen = model_objects(j->m, slot, pe), *expected = j->expected[slot] + (size_t)pe * OBJECT_BYTES;
    size_t at = 0;
    while (seen[at] == expected[at])
        at++;
    fprintf(stderr, "n %d, packet %u, direct %d, flat %d, step %llu, slot %d, pe %d, byte %zu\n", s->n, s->packet_bytes,
            s->direct, s->flat, (unsigned long long)s->step, slot, pe, at);
    for (int i = 0; i < p->plan.n_calls; i++) {
        const struct call *c = &p->plan.calls[i];
        const struct launch *l = &p->launches[i];
        size_t dest = dest_of(c, 0, pe);
        bool here = at >= dest && at < dest + c->bytes * dests_of(c, s->n);
        fprintf(stderr, "%s call %d: %s, %u blocks of %u, repr %d, op %d, %zu bytes, dest %zu, source %zu%s\n",
                here ? "->" : "  ", i, l->algorithm->name, l->blocks, l->threads, c->what.repr, c->what.op, c->bytes,
                dest, source_at(c, l, pe), l->in_buffer ? ", in a buffer" : "");
    }
}

static void job_check(struct job *j)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            CHECK_EQ(prim_load_relaxed_u64(&j->m->pes[pe].slots[slot].team.status), 0);
            CHECK_EQ(prim_load_relaxed_u64(&j->m->pes[pe].world.records_used), 0);
            if (!CHECK_BYTES(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES,
                             compared_bytes(&j->scripts[slot].plan)))
                job_explain(j, slot, pe);
        }
        free(j->expected[slot]);
    }
    for (int pe = 1; pe < j->m->shape.n; pe++) /* lanes are equal on all members */
        for (unsigned lane = 0; lane < j->m->shape.lanes; lane++)
            CHECK_EQ(j->m->pes[pe].slots[0].lanes[lane].step, j->m->pes[0].slots[0].lanes[lane].step);
    model_destroy(j->m);
}

static struct shape random_shape(int n, struct check_random *random)
{
    static const unsigned threads[] = {1, 5, 32, 64, 130};
    static const uint32_t packets[] = {32, 64, 240, 512, 2048};
    static const uint64_t below[] = {2, 3, 15, 20, 60, 300};
    struct shape s;
    memset(&s, 0, sizeof(s));
    s.n = n;
    s.blocks = 1 + (unsigned)check_random_below(random, 3);
    s.threads = threads[check_random_below(random, 5)];
    s.lanes = s.blocks + (unsigned)check_random_below(random, 2);
    s.wave = check_random_below(random, 2) == 0 ? 32 : 64;
    s.packet_bytes = packets[check_random_below(random, 5)];
    s.direct = check_random_below(random, 5) != 0;
    s.flat = check_random_below(random, 2) == 0;
    s.step = check_random_below(random, 2) == 0
                 ? check_random_below(random, 3)
                 : ((uint64_t)(1 + check_random_below(random, 5)) << 32) - below[check_random_below(random, 6)];
    return s;
}

/* Every kind, representation and operator, alltoallv among them, in jobs of MOST_CALLS calls a slot. */
static void run_combos(int n, struct check_random *random)
{
    struct combos all = combos_all();
    combos_shuffle(&all, random);
    struct job *j = (struct job *)malloc(sizeof(*j));
    for (int next = 0; j != NULL && next < all.count;) {
        struct shape s = random_shape(n, random);
        memset(j->scripts, 0, sizeof(j->scripts));
        for (int slot = 0; slot < SLOTS; slot++)
            for (int i = 0; i < MOST_CALLS; i++, next++) {
                struct combo what = all.list[next % all.count];
                what.form = GRID;
                if (check_random_below(random, 12) == 0)
                    what.kind = (enum kind)ALLTOALLV;
                else if (check_random_below(random, 3) == 0)
                    what.op = ISOD_OP_sum_reduce;
                add_call(&j->scripts[slot], &s, what, random);
            }
        job_prepare(j, s, random);
        job_run(j, random);
        job_check(j);
    }
    free(j);
}

/* ---- members that do not come ---- */

static const struct isod_record *record_of(struct model *m, int pe, uint64_t state)
{
    for (int i = 0; i < ISOD_RECORDS; i++)
        if (prim_poll_u64(&m->pes[pe].host.records[i].state) == state)
            return &m->pes[pe].host.records[i];
    return NULL;
}

/* The first of three PEs alone: its kernel leaves a record, gives up and ends, and so does the next one, at once. What
 * the others wait for in memory is not written: no flag of a later step. */
static void test_alone(const struct algorithm *a)
{
    struct shape shape = {3, 2, 40, 2, 32, 64, true, false, 100};
    struct job j;
    struct call c;
    struct launch l;
    memset(&j, 0, sizeof(j));
    memset(&c, 0, sizeof(c));
    memset(&l, 0, sizeof(l));
    j.m = model_create(shape);
    lay_out_buffers(&j);
    memset(model_objects(j.m, 0, 0), 0, 4096);
    c.what.kind = (enum kind)a->kind;
    c.what.repr = a->repr == ANY ? REPR_i32 : a->repr;
    c.bytes = 96;
    c.root = 1;
    c.to[0] = c.from[0] = 1;
    c.dest[0] = 2048;
    l.algorithm = a;
    l.blocks = a->kind == SYNC || a->kind == BARRIER ? 1 : 2;
    struct pe_side s = {.m = j.m, .slot = 0, .pe = 0};
    struct isod_stream_coll args = args_of(&s, &c, &l);
    uint64_t words[3 * MOST_PES];
    if (a->kind == ALLTOALLV)
        blocks_of(&s, &c, &l, words, &args);
    struct model_grid grid;
    memset(&grid, 0, sizeof(grid));
    shape.blocks = l.blocks;
    j.m->pes[0].world.deadline_ns = 5 * 1000 * 1000;
    model_grid_start(&grid, &shape, a->kernel, &args, 0);
    for (int i = 0; i < 3000 && record_of(j.m, 0, ISOD_RECORD_LATE) == NULL; i++)
        usleep(2000);
    const struct isod_record *r = record_of(j.m, 0, ISOD_RECORD_LATE);
    if (CHECK_NAMED(r != NULL, a->name)) {
        CHECK_EQ_NAMED(r->call, ISOD_CALL_ON_STREAM_ALLREDUCE, a->name);
        CHECK_NAMED(r->pe == 1 || r->pe == 2, a->name);
    }
    prim_store_relaxed_u64(&j.m->pes[0].host.abort, 1);
    model_grid_join(&grid);
    model_grid_start(&grid, &shape, a->kernel, &args, 0);
    model_grid_join(&grid);
    CHECK_EQ_NAMED(shmemd_status(args.h), 1, a->name);
    for (unsigned lane = 0; lane < l.blocks; lane++) {
        uint64_t *flags = (uint64_t *)(void *)j.m->pes[0].slots[0].lanes[lane].near[1];
        CHECK_NAMED(flags[0] <= shape.step + 1, a->name);
        CHECK_EQ_NAMED(j.m->pes[0].slots[0].lanes[lane].dead, 1, a->name);
    }
    model_destroy(j.m);
}

/* More blocks than lanes: those without one say so, and nothing is written. */
static void test_lanes(void)
{
    struct shape shape = {1, 3, 8, 2, 32, 64, true, true, 0};
    struct model *m = model_create(shape);
    struct pe_side s = {.m = m, .slot = 0, .pe = 0};
    struct call c;
    struct launch l;
    memset(&c, 0, sizeof(c));
    memset(&l, 0, sizeof(l));
    c.what.kind = FCOLLECT;
    c.bytes = 96;
    c.dest[0] = 2048;
    l.algorithm = &algorithms[0]; /* one that splits nothing */
    l.blocks = 3;
    struct isod_stream_coll args = args_of(&s, &c, &l);
    memset(args.dest, 1, 96);
    memset(model_objects(m, 0, 0), 2, 96);
    struct model_grid grid;
    memset(&grid, 0, sizeof(grid));
    model_grid_start(&grid, &shape, isod_stream_exchange_push_kernel, &args, 0);
    model_grid_join(&grid);
    const struct isod_record *r = record_of(m, 0, ISOD_RECORD_MISUSE);
    if (CHECK(r != NULL))
        CHECK_EQ(r->waited_ns, ISOD_MISUSE_LANES);
    CHECK_EQ(args.dest[63], 2);
    CHECK_EQ(args.dest[64], 1);
    model_destroy(m);
}

static uint64_t random_seed(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED");
    return seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
}

int main(int argc, char **argv)
{
#ifdef PRIM_CPU_TSAN
    static const int sizes[] = {1, 2, 3}; /* races need no more, and each PE is several times slower */
#else
    static const int sizes[] = {1, 2, 3, 4, 8};
#endif
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    check_self.seed = random_seed();
    printf("seed %llu\n", (unsigned long long)check_self.seed);
    struct check_random random = check_random_stream(1);
    for (int i = 0; i < ALGORITHMS; i++)
        test_alone(&algorithms[i]);
    test_lanes();
    for (int round = 0; round < (full ? 20 : 1); round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            run_combos(sizes[i], &random);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
