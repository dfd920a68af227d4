/* SPDX-License-Identifier: MIT */
/* Random programs of collectives, puts and signals against a model, in kernels and on streams. A program is a list of
 * operations on two streams: calls on streams, launches of kernels that make several calls each, and graphs of both,
 * replayed. Each operation has a team, a slot, a form, a count (zero and odd ones too), an element type and two places:
 * device heap, registered pages, a registered buffer whose ends share their pages with other data, host heap; and
 * private memory where no peer touches it, which each PE draws for itself. In front of an operation every byte of both
 * places is poison. Behind it the stream, or the kernel itself, compares them with the model and poisons them again: so
 * data that comes too early, too late or elsewhere is found.
 * SHMEM_TEST_PROGRAMS: how many programs (40). SHMEM_TEST_PROGRAM=n: number n alone. A failure says which that is, and
 * the seed. */
#include "coll_case.h"

enum { LANES = 2, SLOTS = 2, BLOCKS = 3, MOST_BYTES = 24000, MOST_OPS = 40, PROGRAMS = 40, MOST_REPLAYS = 4 };
enum { OP_PUT = KINDS, OP_GET, OP_MEET, OPS };
enum place { PLACE_HEAP, PLACE_PAGES, PLACE_ODD, PLACE_HOST, PLACE_OWN, PLACES };
enum phase { PHASE_NONE, PHASE_DEST_BEFORE, PHASE_SOURCE_BEFORE, PHASE_DEST, PHASE_SOURCE, PHASE_RECEIVED, PHASE_CALL };
#define OP_NAMES KIND_NAMES, "put", "get", "barrier"
#define PLACE_NAMES "heap", "pages", "odd", "host heap", "own"
#define PHASE_NAMES "", "dest before it", "source before it", "dest", "source behind it", "received", "its result"

/* One operation as this PE sees it; kernels read it in device memory. */
struct op {
    unsigned char *dest, *source;
    uint64_t *blocks;          /* alltoallv: bytes, source and dest offsets; n each */
    uint64_t *received;        /* alltoallv: symmetric */
    uint64_t *signals, *taken; /* put: symmetric, counts of puts of each sender; how many this PE has taken */
    uint64_t nelems;
    int32_t kind, bytes_log2, op; /* bytes of an element; SHMEMX_SUM .. */
    int32_t me, n, root, to, from;
    int32_t first, stride; /* member m is PE first + m * stride of the world */
    uint32_t salt, late;
    int32_t grid;  /* by all blocks together, else by one */
    int32_t block; /* which one then */
    int32_t handle, in_place, how;
};

struct run_args {
    shmemd_t h[TEAMS * SLOTS];
    const struct op *ops;
    uint64_t first, n_ops; /* of ops */
    const uint64_t *count; /* replays so far */
    uint64_t *wrong;       /* [4] phase, number, byte, replay */
};

/* ---- the model: bytes of element i that a member has in a replay ---- */

SHMEMD_FN uint64_t op_unit(const struct op *o) { return o->nelems << o->bytes_log2; }
SHMEMD_FN bool op_scatters(const struct op *o)
{
    return o->kind == SHMEMX_REDUCESCATTER || o->kind == SHMEMX_ALLTOALL || o->kind == SHMEMX_ALLTOALLV;
}
SHMEMD_FN bool op_gathers(const struct op *o)
{
    return o->kind == SHMEMX_FCOLLECT || o->kind == SHMEMX_ALLTOALL || o->kind == SHMEMX_ALLTOALLV;
}
SHMEMD_FN uint64_t op_source_bytes(const struct op *o) { return op_unit(o) * (op_scatters(o) ? (uint64_t)o->n : 1); }
SHMEMD_FN uint64_t op_dest_bytes(const struct op *o) { return op_unit(o) * (op_gathers(o) ? (uint64_t)o->n : 1); }
SHMEMD_FN uint64_t op_elem(const struct op *o, int32_t member, uint64_t count, uint64_t i)
{
    uint64_t pe = (uint64_t)(o->first + member * o->stride);
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + (count << 40 ^ pe << 32 ^ o->salt) * 0xd1342543de82ef95u;
    z ^= z >> 29;
    return o->bytes_log2 == 3 ? z : z & (((uint64_t)1 << (8 << o->bytes_log2)) - 1);
}
SHMEMD_FN uint64_t op_fold(const struct op *o, uint64_t x, uint64_t y)
{
    return o->op == SHMEMX_SUM ? x + y
           : o->op == SHMEMX_MAX ? (x > y ? x : y)
           : o->op == SHMEMX_MIN ? (x < y ? x : y)
           : o->op == SHMEMX_AND ? (x & y)
           : o->op == SHMEMX_OR  ? (x | y)
                                 : (x ^ y);
}
/* alltoallv: bytes from one member to another */
SHMEMD_FN uint64_t op_v_bytes(const struct op *o, int32_t from, int32_t to, uint64_t count)
{
    uint32_t x = form_mix((uint32_t)(from * 64 + to) ^ o->salt, (uint32_t)count);
    return x % 4 == 0 ? 0 : x / 4 % (op_unit(o) + 1);
}
SHMEMD_FN unsigned char op_byte(const struct op *o, int32_t member, uint64_t count, uint64_t at)
{
    return (unsigned char)(op_elem(o, member, count, at >> o->bytes_log2) >> 8 * (at & ((1u << o->bytes_log2) - 1)));
}
SHMEMD_FN unsigned char op_reduced(const struct op *o, uint64_t count, uint64_t at)
{
    uint64_t i = at >> o->bytes_log2, sum;
    sum = op_elem(o, 0, count, i);
    for (int32_t m = 1; m < o->n; m++)
        sum = op_fold(o, sum, op_elem(o, m, count, i));
    return (unsigned char)(sum >> 8 * (at & ((1u << o->bytes_log2) - 1)));
}
SHMEMD_FN unsigned char op_expected(const struct op *o, uint64_t count, uint64_t at)
{
    uint64_t unit = op_unit(o), mine = (uint64_t)o->me * unit;
    int32_t member = (int32_t)(at / unit);
    switch (o->kind) {
    case SHMEMX_ALLREDUCE:
        return op_reduced(o, count, at);
    case SHMEMX_REDUCESCATTER:
        return op_reduced(o, count, mine + at);
    case SHMEMX_FCOLLECT:
        return op_byte(o, member, count, at % unit);
    case SHMEMX_ALLTOALL:
        return op_byte(o, member, count, mine + at % unit);
    case SHMEMX_ALLTOALLV:
        if (at % unit >= op_v_bytes(o, member, o->me, count))
            return CHECK_POISON;
        return op_byte(o, member, count, mine + at % unit);
    case SHMEMX_BROADCAST:
        return op_byte(o, o->root, count, at);
    default: /* permute, put, get */
        return op_byte(o, o->from, count, at);
    }
}

/* ---- in kernels: in front of an operation and behind it. A byte is another thread's in each loop ---- */

SHMEMD_FN void op_tell(struct run_args a, enum phase phase, uint64_t number, uint64_t at, uint64_t count)
{
    a.wrong[1] = number; /* by any thread */
    a.wrong[2] = at;
    a.wrong[3] = count;
    a.wrong[0] = (uint64_t)phase;
}
SHMEMD_FN void op_sync(struct run_args a, const struct op *o)
{
    if (o->grid != 0)
        (void)shmemd_grid_sync(a.h[o->handle]);
    else
        shmemd_group_sync(shmemd_block());
}
struct op_range {
    uint64_t first, step;
};
SHMEMD_FN struct op_range op_range_of(const struct op *o)
{
    struct op_range r;
    r.first = (uint64_t)shmemd_thread_index();
    r.step = (uint64_t)shmemd_block_size();
    if (o->grid != 0) {
        r.first += (uint64_t)shmemd_block_index() * shmemd_block_size();
        r.step *= (uint64_t)shmemd_block_count();
    }
    return r;
}
SHMEMD_FN bool op_inside(const unsigned char *p, const unsigned char *begin, uint64_t bytes)
{
    return p >= begin && p < begin + bytes;
}

SHMEMD_FN void op_make(struct run_args a, const struct op *o, uint64_t number, uint64_t count)
{
    struct op_range r = op_range_of(o);
    uint64_t dest_bytes = op_dest_bytes(o), source_bytes = op_source_bytes(o);
    if (o->late != 0 && shmemd_thread_index() == 0)
        form_dawdle(form_mix(o->late, (uint32_t)count) % 300);
    op_sync(a, o);
    for (uint64_t i = r.first; i < dest_bytes; i += r.step)
        if (o->dest[i] != CHECK_POISON)
            op_tell(a, PHASE_DEST_BEFORE, number, i, count);
    for (uint64_t i = r.first; i < source_bytes; i += r.step)
        if (o->source[i] != CHECK_POISON)
            op_tell(a, PHASE_SOURCE_BEFORE, number, i, count);
    op_sync(a, o);
    for (uint64_t i = r.first; i < source_bytes; i += r.step)
        o->source[i] = op_byte(o, o->me, count, i);
    for (uint64_t m = r.first; o->kind == SHMEMX_ALLTOALLV && m < (uint64_t)o->n; m += r.step) {
        o->blocks[m] = op_v_bytes(o, o->me, (int32_t)m, count);
        o->blocks[(uint64_t)o->n + m] = m * op_unit(o);
        o->blocks[2 * (uint64_t)o->n + m] = (uint64_t)o->me * op_unit(o);
    }
}

SHMEMD_FN void op_look(struct run_args a, const struct op *o, uint64_t number, uint64_t count)
{
    struct op_range r = op_range_of(o);
    uint64_t dest_bytes = op_dest_bytes(o), source_bytes = op_source_bytes(o);
    for (uint64_t i = r.first; i < dest_bytes; i += r.step)
        if (o->dest[i] != op_expected(o, count, i))
            op_tell(a, PHASE_DEST, number, i, count);
    for (uint64_t i = r.first; i < source_bytes; i += r.step)
        if (!op_inside(&o->source[i], o->dest, dest_bytes) && o->source[i] != op_byte(o, o->me, count, i))
            op_tell(a, PHASE_SOURCE, number, i, count);
    for (uint64_t m = r.first; o->kind == SHMEMX_ALLTOALLV && m < (uint64_t)o->n; m += r.step)
        if (o->received[m] != op_v_bytes(o, (int32_t)m, o->me, count))
            op_tell(a, PHASE_RECEIVED, number, m, count);
    op_sync(a, o);
    for (uint64_t i = r.first; i < dest_bytes; i += r.step)
        o->dest[i] = CHECK_POISON;
    for (uint64_t i = r.first; i < source_bytes; i += r.step)
        if (!op_inside(&o->source[i], o->dest, dest_bytes))
            o->source[i] = CHECK_POISON;
    op_sync(a, o);
}

/* ---- in kernels: the calls ---- */

#define OP_BY_FORM(NAME, ...) (o->grid != 0 ? shmemd_##NAME##_grid(__VA_ARGS__) : shmemd_##NAME##_block(__VA_ARGS__))

SHMEMD_FN int op_reduce(shmemd_t h, const struct op *o)
{
    uint32_t *dest4 = (uint32_t *)(void *)o->dest, *source4 = (uint32_t *)(void *)o->source;
    uint64_t *dest8 = (uint64_t *)(void *)o->dest, *source8 = (uint64_t *)(void *)o->source;
    if (o->bytes_log2 == 2 && o->kind == SHMEMX_ALLREDUCE)
        return OP_BY_FORM(uint32_sum_reduce, h, dest4, source4, o->nelems);
    if (o->bytes_log2 == 2)
        return OP_BY_FORM(uint32_sum_reducescatter, h, dest4, source4, o->nelems);
    if (o->kind == SHMEMX_ALLREDUCE)
        return OP_BY_FORM(uint64_max_reduce, h, dest8, source8, o->nelems);
    return OP_BY_FORM(uint64_max_reducescatter, h, dest8, source8, o->nelems);
}

/* The receiver is ready behind the barrier; and behind the one in front of the next put it has taken this signal. */
SHMEMD_FN int op_put(shmemd_t h, const struct op *o)
{
    uint64_t *signal = o->signals + o->me, bytes = op_unit(o);
    int rc = shmemd_barrier_block(h);
    switch (o->how) {
    case 0:
        shmemd_putmem_signal_block(h, o->dest, o->source, bytes, signal, 1, SHMEM_SIGNAL_ADD, o->to);
        break;
    case 1:
        shmemd_putmem_block(h, o->dest, o->source, bytes, o->to);
        shmemd_fence_block(h);
        if (shmemd_thread_index() == 0)
            shmemd_signal_op(h, signal, 1, SHMEM_SIGNAL_ADD, o->to);
        break;
    case 2:
        shmemd_group_sync(shmemd_block());
        shmemd_putmem_nbi_block(h, o->dest, o->source, bytes, o->to);
        shmemd_group_sync(shmemd_block());
        shmemd_quiet_block(h);
        if (shmemd_thread_index() == 0)
            shmemd_signal_op(h, signal, 1, SHMEM_SIGNAL_ADD, o->to);
        break;
    default:
        shmemd_group_sync(shmemd_block());
        if (shmemd_thread_index() == 0)
            shmemd_putmem_signal(h, o->dest, o->source, bytes, signal, 1, SHMEM_SIGNAL_ADD, o->to);
    }
    uint64_t taken = o->taken[o->from] + 1;
    (void)shmemd_signal_wait_until_block(h, o->signals + o->from, SHMEM_CMP_GE, taken);
    shmemd_group_sync(shmemd_block()); /* all have read it */
    if (shmemd_thread_index() == 0)
        o->taken[o->from] = taken;
    shmemd_group_sync(shmemd_block());
    return rc;
}
/* Sources are there behind the first barrier, and stay until the second. */
SHMEMD_FN int op_get(shmemd_t h, const struct op *o)
{
    int rc = shmemd_barrier_block(h);
    shmemd_getmem_block(h, o->dest, o->source, op_unit(o), o->from);
    return rc | shmemd_barrier_block(h);
}

SHMEMD_FN int op_call(shmemd_t h, const struct op *o)
{
    uint64_t bytes = op_unit(o);
    switch (o->kind) {
    case SHMEMX_ALLREDUCE:
    case SHMEMX_REDUCESCATTER:
        return op_reduce(h, o);
    case SHMEMX_FCOLLECT:
        return OP_BY_FORM(fcollectmem, h, o->dest, o->source, bytes);
    case SHMEMX_ALLTOALL:
        return OP_BY_FORM(alltoallmem, h, o->dest, o->source, bytes);
    case SHMEMX_BROADCAST:
        return OP_BY_FORM(broadcastmem, h, o->dest, o->source, bytes, o->root);
    case SHMEMX_PERMUTE:
        return OP_BY_FORM(permutemem, h, o->dest, o->source, bytes, o->to, o->from);
    case OP_PUT:
        return op_put(h, o);
    case OP_GET:
        return op_get(h, o);
    default:
        return o->how % 2 == 0 ? OP_BY_FORM(barrier, h) : OP_BY_FORM(sync, h);
    }
}

SHMEMD_KERNEL(run_ops, struct run_args, a)
{
    uint64_t count = *a.count;
    for (uint64_t i = a.first; i < a.first + a.n_ops; i++) {
        const struct op *o = &a.ops[i];
        if (o->grid == 0 && o->block != (int32_t)shmemd_block_index())
            continue;
        op_make(a, o, i, count);
        if (op_call(a.h[o->handle], o) != 0)
            op_tell(a, PHASE_CALL, i, 0, count);
        op_look(a, o, i, count);
    }
}

/* Around a call on a stream. */
SHMEMD_KERNEL(make_op, struct run_args, a) { op_make(a, &a.ops[a.first], a.first, *a.count); }
SHMEMD_KERNEL(look_op, struct run_args, a) { op_look(a, &a.ops[a.first], a.first, *a.count); }

struct tick_args {
    uint64_t *count;
};
SHMEMD_KERNEL(tick, struct tick_args, a)
{
    if (shmemd_thread_index() == 0)
        *a.count += 1;
}

/* ---- on the host ---- */

struct lane {
    shmemx_stream_t stream;
    struct op *ops;  /* device heap, [MOST_OPS] */
    uint64_t *words; /* device heap: count, wrong[4]; then of each region those that its operations have */
    int n_ops;
};
struct programs {
    struct coll_team teams[TEAMS];
    shmemd_t handles[LANES][TEAMS * SLOTS]; /* in kernels */
    char *arena[PLACES], *buffer[PLACES];   /* buffer: what was registered, or allocated */
    size_t region, arena_bytes;             /* of a lane's block: dest and source lie in one each */
    struct lane lanes[LANES];
    struct check_random common, mine;
    unsigned program;
    bool cpu;
    struct op list[LANES][MOST_OPS];
    char names[LANES][MOST_OPS][160];
    unsigned long long calls;
};

/* A lane's regions: one for each block, one for the grid, one for calls on the stream. Words of a region: blocks [3],
 * received, signals and taken of each team. */
enum { REGIONS = BLOCKS + 2, WORDS_HEAD = 8, WORDS_REGION = (4 + 2 * TEAMS) * MOST_PES };
static const char *const op_names[] = {OP_NAMES};
static int below(struct programs *p, int n) { return (int)check_random_below(&p->common, (size_t)n); }

static void places_make(struct programs *p)
{
    size_t odd = 8 + 24 * (size_t)shmem_my_pe();
    p->region = (size_t)MOST_BYTES + 256;
    p->arena_bytes = p->region * 2 * REGIONS * LANES;
    size_t pages = (p->arena_bytes + 2 * 4096 - 1) / 4096 * 4096 + 4096;
    p->buffer[PLACE_HEAP] = (char *)shmemx_align(128, pages, SHMEMX_DEVICE);
    p->buffer[PLACE_PAGES] = (char *)own_malloc(pages);
    p->buffer[PLACE_ODD] = (char *)own_malloc(pages);
    p->buffer[PLACE_HOST] = p->cpu ? (char *)shmem_align(128, pages) : NULL;
    p->buffer[PLACE_OWN] = p->cpu ? (char *)own_malloc(pages) : NULL;
    CHECK_OR_EXIT(p->buffer[PLACE_HEAP] != NULL && p->buffer[PLACE_PAGES] != NULL && p->buffer[PLACE_ODD] != NULL);
    memcpy(p->arena, p->buffer, sizeof p->arena);
    p->arena[PLACE_ODD] += odd;
    CHECK_OR_EXIT(shmemx_buffer_register(p->arena[PLACE_PAGES], pages, NULL) == 0);
    CHECK_OR_EXIT(shmemx_buffer_register(p->arena[PLACE_ODD], p->arena_bytes + 13, NULL) == 0);
    char *poison = (char *)malloc(p->arena_bytes);
    CHECK_OR_EXIT(poison != NULL);
    memset(poison, CHECK_POISON, p->arena_bytes);
    for (int i = 0; i < PLACES; i++)
        if (p->arena[i] != NULL && i != PLACE_OWN)
            device_write(p->arena[i], poison, p->arena_bytes);
        else if (p->arena[i] != NULL)
            memset(p->arena[i], CHECK_POISON, p->arena_bytes);
    free(poison);
}
static void places_drop(struct programs *p)
{
    shmem_barrier_all();
    CHECK_EQ(shmemx_buffer_unregister(p->arena[PLACE_ODD]), 0);
    CHECK_EQ(shmemx_buffer_unregister(p->arena[PLACE_PAGES]), 0);
    if (p->cpu) {
        own_free(p->buffer[PLACE_OWN]);
        shmem_free(p->buffer[PLACE_HOST]);
    }
    own_free(p->buffer[PLACE_ODD]);
    own_free(p->buffer[PLACE_PAGES]);
    shmemx_free(p->buffer[PLACE_HEAP]);
}

static void lanes_make(struct programs *p)
{
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &p->lanes[i];
        l->ops = (struct op *)shmemx_calloc(MOST_OPS, sizeof(struct op), SHMEMX_DEVICE);
        l->words = (uint64_t *)shmemx_calloc(WORDS_HEAD + REGIONS * WORDS_REGION, 8, SHMEMX_DEVICE);
        CHECK_OR_EXIT(l->ops != NULL && l->words != NULL && shmemx_stream_create(&l->stream) == 0);
        for (int t = 0; t < TEAMS; t++)
            for (int s = 0; s < SLOTS; s++) {
                shmemd_t *h = &p->handles[i][t * SLOTS + s];
                CHECK_OR_EXIT(shmemx_device_handle(p->teams[t].team, i * SLOTS + s, h) == 0);
            }
    }
}
static void lanes_drop(struct programs *p)
{
    for (int i = LANES - 1; i >= 0; i--) {
        CHECK_EQ(shmemx_stream_destroy(p->lanes[i].stream), 0);
        shmemx_free(p->lanes[i].words);
        shmemx_free(p->lanes[i].ops);
    }
}

/* ---- drawing an operation ---- */

static uint64_t draw_nelems(struct programs *p, uint64_t most)
{
    static const uint64_t sizes[] = {4, 40, 300, 2100, 8200, MOST_BYTES};
    uint64_t size = sizes[below(p, 6)];
    return below(p, 12) == 0 ? 0 : 1 + check_random_below(&p->common, size < most ? size : most);
}

/* On a stream. In kernels both ends are symmetric, the same on all PEs. */
static bool peers_touch(const struct op *o, bool dest)
{
    if (dest)
        return o->kind != SHMEMX_REDUCESCATTER;
    return o->kind == SHMEMX_ALLREDUCE || o->kind == SHMEMX_REDUCESCATTER || o->kind == SHMEMX_BROADCAST;
}

/* One end: its place, and its offset in the region. Each PE draws for itself where no peer touches it. */
static const char *draw_end(struct programs *p, struct op *o, int lane, int region, bool dest)
{
    static const char *const names[] = {PLACE_NAMES};
    static const enum place places[] = {PLACE_HEAP, PLACE_HEAP, PLACE_PAGES, PLACE_ODD,
                                        PLACE_ODD,  PLACE_HOST, PLACE_OWN};
    bool on_stream = region > BLOCKS, may_be_own = on_stream && !(dest && o->kind == SHMEMX_ALLTOALLV);
    struct check_random *random = on_stream && !peers_touch(o, dest) ? &p->mine : &p->common;
    enum place at = places[check_random_below(random, may_be_own ? 7 : 6)];
    size_t shift = check_random_below(random, 128), all = (size_t)(lane * REGIONS + region) * 2 + (dest ? 0 : 1);
    if (shift % 3 == 0)
        shift -= shift % 16;
    at = p->arena[at] != NULL ? at : PLACE_HEAP;
    unsigned char *end = (unsigned char *)p->arena[at] + all * p->region + (shift >> o->bytes_log2 << o->bytes_log2);
    if (dest)
        o->dest = end;
    else
        o->source = end;
    return names[at];
}

static bool may_be_in_place(const struct op *o, bool on_stream)
{
    bool can = o->kind == SHMEMX_ALLREDUCE || o->kind == SHMEMX_REDUCESCATTER;
    return can || (on_stream && (o->kind == SHMEMX_FCOLLECT || o->kind == SHMEMX_BROADCAST));
}
static void set_in_place(struct op *o)
{
    size_t own = (size_t)o->me * (size_t)(o->nelems << o->bytes_log2);
    o->in_place = 1;
    if (o->kind == SHMEMX_REDUCESCATTER)
        o->dest = o->source + own;
    else if (o->kind == SHMEMX_FCOLLECT)
        o->source = o->dest + own;
    else
        o->source = o->dest;
}

static void draw_type(struct programs *p, struct op *o, bool on_stream)
{
    static const int ops[] = {SHMEMX_SUM, SHMEMX_MAX, SHMEMX_MIN, SHMEMX_AND, SHMEMX_OR, SHMEMX_XOR};
    bool reduces = o->kind <= SHMEMX_REDUCESCATTER;
    o->bytes_log2 = below(p, 4);
    o->op = ops[below(p, 3) == 0 ? below(p, 6) : 0];
    if (reduces && !on_stream) { /* what op_reduce has */
        o->bytes_log2 = 2 + below(p, 2);
        o->op = o->bytes_log2 == 2 ? SHMEMX_SUM : SHMEMX_MAX;
    }
    if (o->kind == SHMEMX_ALLTOALLV)
        o->bytes_log2 = 0;
}

static void draw_kind(struct programs *p, struct op *o, bool on_stream)
{
    do
        o->kind = below(p, OPS);
    while (on_stream ? o->kind == OP_PUT || o->kind == OP_GET : o->kind == SHMEMX_ALLTOALLV);
    o->grid = !on_stream && o->kind != OP_PUT && o->kind != OP_GET && below(p, 4) == 0;
    o->block = on_stream || o->grid ? 0 : below(p, BLOCKS);
    draw_type(p, o, on_stream);
    o->nelems = draw_nelems(p, ((uint64_t)MOST_BYTES / (uint64_t)shmem_n_pes()) >> o->bytes_log2);
    if (o->kind == OP_MEET)
        o->nelems = 0;
}

/* Teams divide the world into parts of different sizes: what is drawn is alike in all of them. */
static void draw_team(struct programs *p, struct op *o)
{
    int team = below(p, TEAMS), by = below(p, 1000);
    const struct coll_team *t = &p->teams[team];
    o->handle = team * SLOTS + below(p, SLOTS);
    o->me = t->me;
    o->n = t->n;
    o->first = t->world[0];
    o->stride = t->n > 1 ? t->world[1] - t->world[0] : 0;
    o->root = by % t->n;
    o->to = (t->me + by) % t->n;
    o->from = (t->me + t->n - by % t->n) % t->n;
}

/* The next operation of a lane: by a call on its stream, or by a block or all blocks of a kernel. */
static int draw_op(struct programs *p, int lane, bool on_stream)
{
    struct lane *l = &p->lanes[lane];
    int number = l->n_ops++;
    struct op *o = &p->list[lane][number];
    memset(o, 0, sizeof *o);
    draw_kind(p, o, on_stream);
    draw_team(p, o);
    int region = on_stream ? BLOCKS + 1 : o->grid ? BLOCKS : o->block, team = o->handle / SLOTS;
    uint64_t *words = l->words + WORDS_HEAD + region * WORDS_REGION;
    const char *dest = draw_end(p, o, lane, region, true), *source = draw_end(p, o, lane, region, false);
    if (below(p, 4) == 0 && may_be_in_place(o, on_stream))
        set_in_place(o);
    o->how = below(p, 4);
    o->salt = (uint32_t)check_random_next(&p->common);
    o->late = check_random_below(&p->mine, 3) == 0 ? (uint32_t)check_random_next(&p->mine) | 1 : 0;
    o->blocks = words;
    o->received = words + 3 * MOST_PES;
    o->signals = words + (4 + team) * MOST_PES;
    o->taken = words + (4 + TEAMS + team) * MOST_PES;
    snprintf(p->names[lane][number], sizeof p->names[0][0],
             "%s %s, %llu elements of %d bytes, op %d, way %d, team %d, slot %d, dest %s, source %s%s",
             op_names[o->kind], on_stream ? "on a stream" : o->grid ? "by a grid" : "by a block",
             (unsigned long long)o->nelems, 1 << o->bytes_log2, o->op, o->how, team, o->handle % SLOTS, dest, source,
             o->in_place ? ", in place" : "");
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] program %u, stream %d, %d: %s\n", check_self.pe, p->program, lane, number,
                p->names[lane][number]);
    device_write(&l->ops[number], o, sizeof *o);
    p->calls++;
    return number;
}

/* ---- enqueueing ---- */

static struct run_args args_of(const struct programs *p, int lane, int first, int n)
{
    const struct lane *l = &p->lanes[lane];
    struct run_args a;
    memset(&a, 0, sizeof a);
    memcpy(a.h, p->handles[lane], sizeof a.h);
    a.ops = l->ops;
    a.first = (uint64_t)first;
    a.n_ops = (uint64_t)n;
    a.count = l->words;
    a.wrong = l->words + 1;
    return a;
}

/* Blocks of different members may have different sizes. */
static void enqueue_kernel(struct programs *p, int lane)
{
    int first = p->lanes[lane].n_ops, n = 1 + below(p, 6);
    unsigned threads = 32 * (1 + (unsigned)check_random_below(&p->mine, 3));
    for (int i = 0; i < n; i++)
        (void)draw_op(p, lane, false);
    struct run_args a = args_of(p, lane, first, n);
    DEVICE_LAUNCH(run_ops, BLOCKS, threads, a, p->lanes[lane].stream);
}

static bool takes_engines(const struct programs *p, const struct op *o)
{
    const unsigned char *heap = (const unsigned char *)p->arena[PLACE_HEAP];
    bool kind = o->kind == SHMEMX_FCOLLECT || o->kind == SHMEMX_ALLTOALL || o->kind == SHMEMX_BROADCAST ||
                o->kind == SHMEMX_PERMUTE;
    bool in_heap = o->dest >= heap && o->dest < heap + p->arena_bytes;
    return kind && o->how == 0 && in_heap && !device_flag("SHMEM_FORCE_PROXY") && getenv("SHMEM_VIRTUAL_NODES") == NULL;
}

static void enqueue_call(struct programs *p, int lane)
{
    static const int types[] = {SHMEMX_UINT8, SHMEMX_UINT16, SHMEMX_UINT32, SHMEMX_UINT64};
    int number = draw_op(p, lane, true);
    const struct op *o = &p->list[lane][number];
    shmemx_stream_t stream = p->lanes[lane].stream;
    struct run_args a = args_of(p, lane, number, 1);
    shmemx_coll_t q = shmemx_coll_of(o->kind, p->teams[o->handle / SLOTS].team, o->dest, o->source,
                                     o->kind == SHMEMX_ALLTOALLV ? 0 : (size_t)o->nelems, types[o->bytes_log2]);
    shmemx_blocks_t blocks = {o->blocks, o->blocks + o->n, o->blocks + 2 * o->n, o->received};
    if (o->kind == OP_MEET)
        q = shmemx_coll_of(o->how % 2 == 0 ? SHMEMX_BARRIER : SHMEMX_SYNC, q.team, NULL, NULL, 0, SHMEMX_UINT8);
    q.op = o->kind <= SHMEMX_REDUCESCATTER ? o->op : SHMEMX_SUM;
    q.root = o->kind == SHMEMX_BROADCAST ? o->root : 0;
    q.to = o->kind == SHMEMX_PERMUTE ? o->to : 0;
    q.from = o->kind == SHMEMX_PERMUTE ? o->from : 0;
    q.blocks = o->kind == SHMEMX_ALLTOALLV ? &blocks : NULL;
    q.slot = lane * SLOTS + o->handle % SLOTS;
    q.engines = takes_engines(p, o) ? 1 : 0;
    DEVICE_LAUNCH(make_op, 1, 64, a, stream);
    CHECK_OR_EXIT(shmemx_coll_on_stream(&q, stream) == 0);
    DEVICE_LAUNCH(look_op, 1, 64, a, stream);
}

static void enqueue_some(struct programs *p, int lane, int n)
{
    for (int i = 0; i < n; i++)
        if (below(p, 2) == 0)
            enqueue_kernel(p, lane);
        else
            enqueue_call(p, lane);
}

static void enqueue_graph(struct programs *p, int lane)
{
    shmemx_stream_t stream = p->lanes[lane].stream;
    struct tick_args t = {p->lanes[lane].words};
    shmemx_graph_t graph = NULL;
    int replays = 1 + below(p, MOST_REPLAYS), before = p->lanes[lane].n_ops;
    CHECK_OR_EXIT(shmemx_graph_begin(stream) == 0);
    enqueue_some(p, lane, 1 + below(p, 3));
    DEVICE_LAUNCH(tick, 1, 32, t, stream);
    CHECK_OR_EXIT(shmemx_graph_end(stream, &graph) == 0);
    for (int i = 0; i < replays; i++)
        CHECK_OR_EXIT(shmemx_graph_launch(graph, stream) == 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    p->calls += (unsigned long long)((replays - 1) * (p->lanes[lane].n_ops - before));
}

/* ---- programs ---- */

static void look_at_lane(struct programs *p, int lane)
{
    static const char *const phases[] = {PHASE_NAMES};
    uint64_t wrong[4], none[4] = {0, 0, 0, 0};
    char text[400];
    CHECK_EQ(shmemx_stream_synchronize(p->lanes[lane].stream), 0);
    device_read(wrong, p->lanes[lane].words + 1, sizeof wrong);
    p->lanes[lane].n_ops = 0;
    if (wrong[0] == PHASE_NONE)
        return;
    snprintf(text, sizeof text, "SHMEM_TEST_PROGRAM=%u, stream %d, %llu: %s: %s, byte %llu, replay %llu", p->program,
             lane, (unsigned long long)wrong[1], p->names[lane][wrong[1] % MOST_OPS], phases[wrong[0] % 7],
             (unsigned long long)wrong[2], (unsigned long long)wrong[3]);
    CHECK_NAMED(false, text);
    device_write(p->lanes[lane].words + 1, none, sizeof none);
}

/* Nothing was written beside what was used. */
static void look_at_places(struct programs *p)
{
    unsigned char *seen = (unsigned char *)malloc(p->arena_bytes);
    char text[80];
    CHECK_OR_EXIT(seen != NULL);
    shmem_barrier_all();
    for (int i = 0; i < PLACE_OWN; i++) {
        if (p->arena[i] == NULL)
            continue;
        device_read(seen, p->arena[i], p->arena_bytes);
        snprintf(text, sizeof text, "bytes beside those of operations, place %d, program %u", i, p->program);
        CHECK_NAMED(check_all_bytes(seen, CHECK_POISON, p->arena_bytes), text);
    }
    shmem_barrier_all();
    free(seen);
}

static void run_program(struct programs *p)
{
    p->common = check_random_stream(2 * (uint64_t)p->program);
    p->mine = check_random_stream(((uint64_t)p->program * MOST_PES + (uint64_t)shmem_my_pe()) * 2 + 1);
    for (int i = 1 + below(p, 4); i > 0; i--) {
        int lane = below(p, LANES), room = MOST_OPS - p->lanes[lane].n_ops;
        if (room < 3 * 6)
            continue;
        if (below(p, 3) == 0)
            enqueue_graph(p, lane);
        else
            enqueue_some(p, lane, 1 + below(p, 2));
    }
    for (int lane = 0; lane < LANES; lane++)
        look_at_lane(p, lane);
    if (p->program % 16 == 15)
        look_at_places(p);
}

/* The first call of a slot on a stream may not be captured. */
static void make_slots(struct programs *p)
{
    for (int i = 0; i < LANES * SLOTS * TEAMS; i++) {
        shmemx_coll_t q = shmemx_coll_of(SHMEMX_SYNC, p->teams[i % TEAMS].team, NULL, NULL, 0, SHMEMX_UINT8);
        q.slot = i / TEAMS;
        CHECK_OR_EXIT(shmemx_coll_on_stream(&q, p->lanes[0].stream) == 0);
    }
    CHECK_EQ(shmemx_stream_synchronize(p->lanes[0].stream), 0);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct programs *p = (struct programs *)calloc(1, sizeof *p);
    long only = device_number("SHMEM_TEST_PROGRAM", -1), n = device_number("SHMEM_TEST_PROGRAMS", PROGRAMS);
    CHECK_OR_EXIT(p != NULL);
    fflush(stdout); /* the seed, should a program never end */
    p->cpu = device_is_cpu();
    coll_teams_make(p->teams);
    places_make(p);
    lanes_make(p);
    make_slots(p);
    for (long i = only >= 0 ? only : 0; i < (only >= 0 ? only + 1 : n); i++) {
        p->program = (unsigned)i;
        run_program(p);
    }
    look_at_places(p);
    if (shmem_my_pe() == 0)
        printf("%ld programs, %llu operations on each PE\n", only >= 0 ? 1 : n, p->calls);
    lanes_drop(p);
    places_drop(p);
    free(p);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
