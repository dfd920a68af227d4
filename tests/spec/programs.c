/* SPDX-License-Identifier: MIT */
/* A random program against a model: objects are allocated, aligned, resized, registered and freed; teams are split
 * and destroyed, contexts made; between these, puts, gets, strided forms, p, g and atomics of every type, signals
 * with every kind of wait, locks, and collectives of every kind on random teams and active sets, in random sizes.
 * Each PE writes only its own lane of each object. What a PE does in a phase depends on its stream of random numbers
 * only, so every PE also goes through the phases of the others, without the calls, and knows what its memory must
 * hold. What all do together depends on the common stream. SHMEM_TEST_SEED repeats a program, SHMEM_TEST_ROUNDS is
 * its length. (traffic.c of tests/cluster is for threads, long messages and several nodes.) */
#include "../check.h"
#include "amo_table.h"
#include "move_table.h"
#include "reduce_table.h"
#include "rma_table.h"

#include <stdarg.h>

enum { PES = 16, OBJECTS = 6, TEAMS = 6, CTXS = 5, PENDING = 40, CELLS = 8, SCALARS = 4, LOCKS = 6, WINDOW = 10 };
enum { CELL_AT = 0, SCALAR_AT = 64, DATA_AT = 128 }; /* in a lane: atomics, p and g, everything else */
enum { MOST_LANE = 24 << 10, MOST_MOVE = 20000, SYNCS = 1100, ROUNDS = 1200, PHASES = 1000000 };

struct scalar { /* what p wrote: values of which not all bytes have a meaning; row 0 has p and g */
    int row, value;
};

struct object {
    unsigned char *base; /* NULL: none */
    unsigned char *own;  /* the allocation of a registered buffer; NULL: in the heap */
    size_t lane;         /* bytes that each writer has of it */
    unsigned char *sent; /* [PE][lane] what this PE has written there */
    unsigned char *here; /* [writer][lane] what they have written here */
    struct scalar sent_scalars[PES][SCALARS], here_scalars[PES][SCALARS];
};

struct group {
    bool live;
    int n, world[PES], me; /* me -1: not a member */
    shmem_team_t team;
};

struct context {
    bool live;
    int group;
    shmem_ctx_t ctx;
};

enum kind { PUT, PUT_NBI, GET, GET_NBI, IPUT, IGET, IBPUT, IBGET, P, G, AMO, KINDS };

/* One call of a phase, as its PE's stream chose it. */
struct op {
    enum kind kind;
    int object, context, member, pe, row;
    size_t at, n, bsize; /* offset in the lane; elements, or blocks of bsize elements */
    ptrdiff_t far, near; /* strides of the symmetric and of the local side */
    enum amo amo;
    uint64_t value, compare;
};

/* A call that has returned and may not be complete; or bytes that a get still fills. */
struct pending {
    int context, object, pe;
    size_t begin, end;
    unsigned char *local, *expected; /* freed then; expected NULL: nothing to compare */
    size_t bytes;
};

struct program {
    int me, npes;
    unsigned step; /* of the common sequence; part of every failure's words */
    const char *doing;
    struct object objects[OBJECTS];
    struct group groups[TEAMS];
    struct context contexts[CTXS];
    struct pending pending[PENDING];
    int npending;
    unsigned char *source, *dests, *expected, *more; /* of collectives; [WINDOW] dests of dest_bytes */
    size_t dest_bytes;
    long *syncs, *locks, *counter;
    uint64_t *signals;   /* [PE] */
    uint64_t sent[PES]; /* to the PE so many places behind */
    unsigned char *mail; /* [PE][MAIL] */
    long operations, collectives;
};

enum { MAIL = 4096 };

static size_t below(struct check_random *r, size_t limit) { return check_random_below(r, limit); }
static bool chance(struct check_random *r, size_t one_in) { return below(r, one_in) == 0; }
static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Says where in the program, too. */
static void expect(const struct program *g, bool ok, const char *format, ...)
{
    char what[200], whole[300];
    va_list arguments;
    if (ok)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof(whole), "step %u (%s): %s", g->step, g->doing, what);
    CHECK_NAMED(false, whole);
}

static void *need(size_t bytes)
{
    void *p = calloc(bytes + 1, 1);
    CHECK_OR_EXIT(p != NULL);
    return p;
}

/* ---- phases: one-sided calls of each PE ---- */

static void settle(struct program *g, int context)
{
    int left = 0;
    shmem_ctx_quiet(g->contexts[context].ctx);
    for (int i = 0; i < g->npending; i++) {
        struct pending *p = &g->pending[i];
        if (p->context != context) {
            g->pending[left++] = *p;
            continue;
        }
        if (p->expected != NULL)
            expect(g, memcmp(p->local, p->expected, p->bytes) == 0, "a get from pe %d that quiet completed, %zu bytes",
                   p->pe, p->bytes);
        if (p->local != NULL)
            memset(p->local, 0xee, p->bytes); /* nothing may need it any more */
        free(p->local);
        free(p->expected);
    }
    g->npending = left;
}

static void settle_all(struct program *g)
{
    for (int i = 0; i < CTXS; i++)
        if (g->contexts[i].live && g->groups[g->contexts[i].group].me >= 0)
            settle(g, i);
}

/* Whatever may still be under way to these bytes is complete afterwards. */
static void order(struct program *g, const struct op *op, size_t begin, size_t end)
{
    for (int i = 0; i < g->npending; i++) {
        const struct pending *p = &g->pending[i];
        if (p->object == op->object && p->pe == op->pe && p->begin < end && begin < p->end) {
            settle(g, p->context);
            i = -1;
        }
    }
    if (g->npending == PENDING)
        settle_all(g);
}

static void remember(struct program *g, const struct op *op, size_t begin, size_t end, struct pending p)
{
    p.context = op->context;
    p.object = op->object;
    p.pe = op->pe;
    p.begin = begin;
    p.end = end;
    g->pending[g->npending++] = p;
}

static bool is_strided(enum kind kind) { return kind >= IPUT && kind <= IBGET; }

/* Bytes from the first element to behind the last. */
static size_t span_of(const struct op *op, ptrdiff_t stride)
{
    size_t size = rma_table[op->row].size;
    return is_strided(op->kind) ? ((op->n - 1) * (size_t)stride + op->bsize) * size : op->n * size;
}

static bool is_inside(const struct group *group, int pe)
{
    for (int i = 0; i < group->n; i++)
        if (group->world[i] == pe)
            return true;
    return false;
}

/* From a random one on, the first object that there is, and the first context that the writer has. */
static bool choose_target(const struct program *g, struct check_random *r, struct op *op, int writer)
{
    op->object = (int)below(r, OBJECTS);
    op->context = (int)below(r, CTXS);
    size_t member = below(r, 1000);
    for (int i = 0; g->objects[op->object].base == NULL && i < OBJECTS; i++)
        op->object = (op->object + 1) % OBJECTS;
    while (!g->contexts[op->context].live || !is_inside(&g->groups[g->contexts[op->context].group], writer))
        op->context = (op->context + 1) % CTXS; /* the default one at the latest */
    const struct group *group = &g->groups[g->contexts[op->context].group];
    op->member = (int)(member % (size_t)group->n);
    op->pe = group->world[op->member];
    return g->objects[op->object].base != NULL;
}

/* False: the PE does nothing here. Uses up the same numbers whoever asks. */
static bool choose(const struct program *g, struct check_random *r, int writer, struct op *op)
{
    memset(op, 0, sizeof(*op));
    op->kind = (enum kind)below(r, KINDS);
    op->value = check_random_next(r);
    op->compare = check_random_next(r);
    size_t rest = below(r, 1u << 30), many = below(r, 8);
    op->far = 1 + (ptrdiff_t)below(r, 5);
    op->near = 1 + (ptrdiff_t)below(r, 3);
    op->bsize = 1;
    if (!choose_target(g, r, op, writer))
        return false;
    const struct object *o = &g->objects[op->object];
    if (op->kind == AMO) {
        op->row = (int)(rest % AMO_ROWS);
        const struct amo_row *row = &amo_table[op->row];
        op->amo = (enum amo)(row->first + (enum amo)(rest / AMO_ROWS % (size_t)(row->end - row->first)));
        op->at = CELL_AT + 8 * (rest >> 20) % (8 * CELLS);
        return o->own == NULL; /* the ends of a registered buffer take puts and gets only */
    }
    op->row = (int)(rest % RMA_ROWS);
    if (op->kind == P || op->kind == G) {
        while (rma_table[op->row].p == NULL)
            op->row = (op->row + 1) % RMA_ROWS;
        op->at = SCALAR_AT + 16 * ((rest >> 10) % SCALARS);
        return true;
    }
    size_t size = rma_table[op->row].size, room = o->lane - DATA_AT;
    if (is_strided(op->kind) && rma_table[op->row].iput == NULL)
        op->kind = op->kind % 2 != 0 ? GET : PUT;
    op->n = 1 + (rest >> 8) % (many == 0 ? MOST_LANE : many < 3 ? 512 : 24);
    if (op->kind == IBPUT || op->kind == IBGET) {
        op->bsize = 1 + (rest >> 4) % 4;
        op->far += (ptrdiff_t)op->bsize - 1;
        op->near += (ptrdiff_t)op->bsize - 1;
    }
    while (op->n > 1 && span_of(op, op->far) > room)
        op->n /= 2;
    if (span_of(op, op->far) > room)
        return false;
    op->at = DATA_AT + (rest >> 3) % (room - span_of(op, op->far) + 1) / size * size;
    return true;
}

static unsigned char put_byte(const struct op *op, size_t i) { return (unsigned char)((op->value >> (i % 57)) + i); }

/* Where byte i of what moves lies, from the first one on. */
static size_t place_of(const struct op *op, ptrdiff_t stride, size_t i)
{
    size_t block = op->bsize * rma_table[op->row].size;
    return is_strided(op->kind) ? i / block * (size_t)stride * rma_table[op->row].size + i % block : i;
}

static size_t moved(const struct op *op) { return op->n * op->bsize * rma_table[op->row].size; }

/* What the lane holds afterwards. */
static void simulate(const struct op *op, unsigned char *lane, struct scalar *scalars)
{
    uint64_t old = 0, now;
    switch (op->kind) {
    case PUT:
    case PUT_NBI:
    case IPUT:
    case IBPUT:
        for (size_t i = 0; i < moved(op); i++)
            lane[op->at + place_of(op, op->far, i)] = put_byte(op, i);
        break;
    case P:
        scalars[(op->at - SCALAR_AT) / 16] = (struct scalar){op->row, (int)(op->value % 100)};
        break;
    case AMO:
        memcpy(&old, lane + op->at, amo_table[op->row].size);
        now = amo_model(op->amo, old, op->compare % 3 != 0 ? amo_value(&amo_table[op->row], op->compare) : old,
                        amo_value(&amo_table[op->row], op->value));
        memcpy(lane + op->at, &now, amo_table[op->row].size);
        break;
    default:
        break;
    }
}

static void do_put(struct program *g, const struct op *op, unsigned char *dest, const shmem_ctx_t *ctx)
{
    const struct rma *row = &rma_table[op->row];
    size_t local_bytes = span_of(op, op->near), begin = op->at, end = begin + span_of(op, op->far);
    unsigned char *local = (unsigned char *)need(local_bytes);
    order(g, op, begin, end);
    for (size_t i = 0; i < moved(op); i++)
        local[place_of(op, op->near, i)] = put_byte(op, i);
    if (op->kind == PUT)
        row->put(ctx, dest, local, op->n, op->member);
    else if (op->kind == PUT_NBI)
        row->put_nbi(ctx, dest, local, op->n, op->member);
    else if (op->kind == IPUT)
        row->iput(ctx, dest, local, op->far, op->near, op->n, op->member);
    else
        row->ibput(ctx, dest, local, op->far, op->near, op->bsize, op->n, op->member);
    if (op->kind != PUT_NBI) { /* the source is the caller's again */
        memset(local, 0xcc, local_bytes);
        free(local);
        local = NULL;
    }
    remember(g, op, begin, end, (struct pending){.local = local, .bytes = local_bytes});
}

static void do_get(struct program *g, const struct op *op, unsigned char *source, const shmem_ctx_t *ctx)
{
    const struct rma *row = &rma_table[op->row];
    const unsigned char *model = g->objects[op->object].sent + (size_t)op->pe * g->objects[op->object].lane + op->at;
    size_t local_bytes = span_of(op, op->near), begin = op->at, end = begin + span_of(op, op->far);
    unsigned char *local = (unsigned char *)need(local_bytes), *expected = (unsigned char *)need(local_bytes);
    order(g, op, begin, end);
    memset(local, 0x77, local_bytes);
    memset(expected, 0x77, local_bytes);
    for (size_t i = 0; i < moved(op); i++)
        expected[place_of(op, op->near, i)] = model[place_of(op, op->far, i)];
    if (op->kind == GET)
        row->get(ctx, local, source, op->n, op->member);
    else if (op->kind == GET_NBI)
        row->get_nbi(ctx, local, source, op->n, op->member);
    else if (op->kind == IGET)
        row->iget(ctx, local, source, op->near, op->far, op->n, op->member);
    else
        row->ibget(ctx, local, source, op->near, op->far, op->bsize, op->n, op->member);
    if (op->kind == GET_NBI) {
        remember(g, op, begin, end, (struct pending){.local = local, .expected = expected, .bytes = local_bytes});
        return;
    }
    expect(g, memcmp(local, expected, local_bytes) == 0, "get %s of %zu elements from pe %d", row->name, op->n, op->pe);
    free(local);
    free(expected);
}

static void do_word(struct program *g, const struct op *op, unsigned char *at, const shmem_ctx_t *ctx)
{
    const struct object *o = &g->objects[op->object];
    order(g, op, op->at, op->at + 16);
    if (op->kind == P) {
        rma_table[op->row].p(ctx, at, (int)(op->value % 100), op->member);
        remember(g, op, op->at, op->at + 16, (struct pending){.local = NULL});
    } else if (op->kind == G) {
        const struct scalar *s = &o->sent_scalars[op->pe][(op->at - SCALAR_AT) / 16];
        int seen = rma_table[s->row].g(ctx, at, op->member);
        expect(g, seen == s->value, "g %s from pe %d is %d, expected %d", rma_table[s->row].name, op->pe, seen,
               s->value);
    } else {
        const struct amo_row *row = &amo_table[op->row];
        uint64_t old = 0, compare = amo_value(row, op->compare);
        memcpy(&old, o->sent + (size_t)op->pe * o->lane + op->at, row->size);
        if (op->compare % 3 == 0)
            compare = old;
        uint64_t seen = row->call(ctx, op->amo, at, compare, amo_value(row, op->value), op->member);
        expect(g, !amo_fetches(op->amo) || seen == old, "atomic %d of %s on pe %d has %#llx, expected %#llx", op->amo,
               row->name, op->pe, (unsigned long long)seen, (unsigned long long)old);
        remember(g, op, op->at, op->at + 8, (struct pending){.local = NULL});
    }
}

static void perform(struct program *g, const struct op *op)
{
    const struct object *o = &g->objects[op->object];
    unsigned char *at = o->base + (size_t)g->me * o->lane + op->at;
    shmem_ctx_t handle = g->contexts[op->context].ctx;
    const shmem_ctx_t *ctx = op->context == 0 && op->value % 2 != 0 ? NULL : &handle;
    g->operations++;
    if (op->kind == P || op->kind == G || op->kind == AMO)
        do_word(g, op, at, ctx);
    else if (op->kind == PUT || op->kind == PUT_NBI || op->kind == IPUT || op->kind == IBPUT)
        do_put(g, op, at, ctx);
    else
        do_get(g, op, at, ctx);
    if (op->value % 61 == 0)
        shmem_ctx_fence(handle);
    if (op->value % 97 == 0)
        settle(g, op->context);
}

/* This PE's memory against what all others have done to it. */
static void compare(const struct program *g)
{
    for (int i = 0; i < OBJECTS; i++) {
        const struct object *o = &g->objects[i];
        for (int writer = 0; o->base != NULL && writer < g->npes; writer++) {
            const unsigned char *seen = o->base + (size_t)writer * o->lane, *model = o->here + (size_t)writer * o->lane;
            expect(g, memcmp(seen, model, SCALAR_AT) == 0, "object %d: atomics of pe %d", i, writer);
            expect(g, memcmp(seen + DATA_AT, model + DATA_AT, o->lane - DATA_AT) == 0, "object %d: data of pe %d", i,
                   writer);
            for (int k = 0; k < SCALARS; k++) {
                const struct scalar *s = &o->here_scalars[writer][k];
                int value = rma_table[s->row].g(NULL, seen + SCALAR_AT + 16 * k, g->me);
                expect(g, value == s->value, "object %d: p of pe %d is %d, expected %d", i, writer, value, s->value);
            }
        }
    }
}

/* What changes memory here, and, when it is this PE's own, what its lanes hold elsewhere. */
static void one_op(struct program *g, const struct op *op, int writer)
{
    struct object *o = &g->objects[op->object];
    if (op->pe == g->me)
        simulate(op, o->here + (size_t)writer * o->lane, o->here_scalars[writer]);
    if (writer == g->me)
        simulate(op, o->sent + (size_t)op->pe * o->lane, o->sent_scalars[op->pe]);
}

static void phase(struct program *g, struct check_random *common)
{
    size_t many = 1 + below(common, 200);
    g->doing = "one-sided calls";
    for (int writer = 0; writer < g->npes; writer++) {
        struct check_random own = check_random_stream(PHASES + (uint64_t)g->step * PES + (uint64_t)writer);
        for (size_t i = 0; i < many; i++) {
            struct op op;
            if (!choose(g, &own, writer, &op))
                continue;
            if (writer == g->me)
                perform(g, &op);
            one_op(g, &op, writer);
        }
    }
    settle_all(g);
    shmem_barrier_all();
    compare(g);
    shmem_barrier_all();
}

/* ---- signals and waits: from each PE to another one, which looks at what comes with them ---- */

static void await(struct program *g, int from, uint64_t value, size_t way)
{
    uint64_t *word = &g->signals[from];
    int status[PES];
    size_t index, indices[PES];
    for (int pe = 0; pe < PES; pe++)
        status[pe] = pe != from;
    switch (way) {
    case 0:
        expect(g, shmem_signal_wait_until(word, SHMEM_CMP_GE, value) == value, "signal_wait_until");
        break;
    case 1:
        shmem_uint64_wait_until(word, SHMEM_CMP_EQ, value);
        break;
    case 2:
        while (!shmem_uint64_test(word, SHMEM_CMP_EQ, value))
            check_pause();
        break;
    case 3:
        index = shmem_uint64_wait_until_any(g->signals, (size_t)g->npes, status, SHMEM_CMP_EQ, value);
        expect(g, index == (size_t)from, "wait_until_any gives %zu, expected %d", index, from);
        break;
    case 4:
        index = shmem_uint64_wait_until_some(g->signals, (size_t)g->npes, indices, status, SHMEM_CMP_EQ, value);
        expect(g, index == 1 && indices[0] == (size_t)from, "wait_until_some gives %zu", index);
        break;
    case 5:
        while (!shmem_uint64_test_all(g->signals, (size_t)g->npes, status, SHMEM_CMP_GE, value))
            check_pause();
        break;
    case 6:
        while (shmem_signal_fetch(word) != value)
            check_pause();
        break;
    default:
        shmem_uint64_wait_until_all(g->signals, (size_t)g->npes, status, SHMEM_CMP_NE, value - 1);
    }
}

static void signals(struct program *g, struct check_random *common)
{
    int shift = (int)below(common, (size_t)g->npes), to = (g->me + shift) % g->npes;
    int from = (g->me + g->npes - shift) % g->npes;
    int row = (int)below(common, RMA_ROWS), way = (int)below(common, 8);
    size_t n = below(common, chance(common, 4) ? MAIL / 16 : 20), bytes = n * rma_table[row].size;
    bool add = chance(common, 2), nbi = chance(common, 2), split = chance(common, 4);
    uint64_t value = ++g->sent[shift]; /* equal on all PEs */
    unsigned char *local = (unsigned char *)need(bytes);
    g->doing = "signals";
    check_fill(local, bytes, g->me, to, g->step);
    uint64_t number = add ? 1 : value, *at = &g->signals[g->me];
    int op = add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET;
    if (split) {
        rma_table[row].put(NULL, g->mail + (size_t)g->me * MAIL, local, n, to);
        shmem_fence();
        if (add)
            shmem_signal_add(at, number, to);
        else
            shmem_signal_set(at, number, to);
    } else if (nbi) {
        rma_table[row].put_signal_nbi(NULL, g->mail + (size_t)g->me * MAIL, local, n, at, number, op, to);
    } else {
        rma_table[row].put_signal(NULL, g->mail + (size_t)g->me * MAIL, local, n, at, number, op, to);
        memset(local, 0xdd, bytes);
    }
    await(g, from, value, (size_t)way);
    expect(g, check_filled(g->mail + (size_t)from * MAIL, bytes, from, g->me, g->step),
           "%zu bytes from pe %d are not here behind their signal, waited for in way %d", bytes, from, way);
    shmem_barrier_all();
    free(local);
    g->operations++;
}

/* ---- locks ---- */

static void locks(struct program *g, struct check_random *common)
{
    long *lock = &g->locks[below(common, LOCKS)];
    int home = (int)below(common, (size_t)g->npes), times = 1 + (int)below(common, 5);
    g->doing = "locks";
    *g->counter = 0;
    shmem_barrier_all();
    for (int i = 0; i < times; i++) {
        if ((g->me + i) % 2 != 0)
            shmem_set_lock(lock);
        else
            while (shmem_test_lock(lock) != 0)
                check_pause();
        long value = shmem_long_g(g->counter, home);
        shmem_long_p(g->counter, value + 1, home);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    long counted = shmem_long_g(g->counter, home);
    expect(g, counted == (long)times * g->npes, "%ld turns, expected %d", counted, times * g->npes);
    shmem_barrier_all();
    g->operations += times;
}

/* ---- objects ---- */

static void forget(struct object *o)
{
    free(o->sent);
    free(o->here);
    free(o->own);
    memset(o, 0, sizeof(*o));
}

static void close_object(struct program *g, struct object *o)
{
    if (o->own != NULL)
        expect(g, shmemx_buffer_unregister(o->base) == 0, "unregister");
    else
        shmem_free(o->base);
    forget(o);
}

/* Zeroes, as the models say. */
static void begin_object(struct program *g, struct object *o)
{
    size_t all = o->lane * (size_t)g->npes;
    o->sent = (unsigned char *)need(all);
    o->here = (unsigned char *)need(all);
    memset(o->base, 0, all);
    shmem_barrier_all();
}

static void open_object(struct program *g, struct object *o, struct check_random *common)
{
    size_t way = below(common, 6), alignment = (size_t)1 << below(common, 17), offset = 16 * below(common, 600);
    o->lane = round_up(DATA_AT + 64 + below(common, chance(common, 3) ? MOST_LANE : 1000), 64);
    size_t bytes = o->lane * (size_t)g->npes;
    g->doing = "a new object";
    if (way == 0) {
        offset += 48 * (size_t)g->me; /* pages begin elsewhere on each PE */
        o->own = (unsigned char *)need(bytes + offset + 16);
        o->base = (unsigned char *)(round_up((uintptr_t)o->own, 16) + offset);
        expect(g, shmemx_buffer_register(o->base, bytes, NULL) == 0, "register %zu bytes", bytes);
    } else if (way == 1) {
        o->base = (unsigned char *)shmem_align(alignment, bytes);
        expect(g, (uintptr_t)o->base % alignment == 0, "align %zu gives %p", alignment, (void *)o->base);
    } else if (way == 2) {
        o->base = (unsigned char *)shmem_calloc(bytes / 64, 64);
        expect(g, o->base == NULL || check_all_bytes(o->base, 0, bytes), "calloc %zu is not zero", bytes);
    } else if (way == 3) {
        o->base = (unsigned char *)shmem_malloc_with_hints(bytes, SHMEM_MALLOC_ATOMICS_REMOTE);
    } else {
        o->base = (unsigned char *)shmem_malloc(bytes);
    }
    CHECK_OR_EXIT(o->base != NULL);
    begin_object(g, o);
}

static void resize_object(struct program *g, struct object *o, struct check_random *common)
{
    size_t old_bytes = o->lane * (size_t)g->npes, lane = round_up(DATA_AT + 64 + below(common, MOST_LANE), 64);
    size_t bytes = lane * (size_t)g->npes, kept = bytes < old_bytes ? bytes : old_bytes;
    g->doing = "realloc";
    unsigned char *before = (unsigned char *)need(kept);
    memcpy(before, o->base, kept);
    o->base = (unsigned char *)shmem_realloc(o->base, bytes);
    CHECK_OR_EXIT(o->base != NULL);
    expect(g, memcmp(o->base, before, kept) == 0, "%zu bytes after realloc to %zu", kept, bytes);
    free(before);
    unsigned char *base = o->base;
    forget(o);
    o->base = base;
    o->lane = lane;
    begin_object(g, o);
}

static void objects(struct program *g, struct check_random *common)
{
    struct object *o = &g->objects[below(common, OBJECTS)];
    if (o->base == NULL)
        open_object(g, o, common);
    else if (o->own == NULL && chance(common, 2))
        resize_object(g, o, common);
    else
        close_object(g, o);
    expect(g, shmemx_heap_is_valid() == 1, "the heap");
}

/* ---- teams and contexts ---- */

static void destroy_context(struct program *g, int i)
{
    struct context *c = &g->contexts[i];
    if (c->live && g->groups[c->group].me >= 0) {
        settle(g, i);
        shmem_ctx_destroy(c->ctx);
    }
    c->live = false;
}

/* Those of a team go with it, but what they have under way must be known to be complete. */
static void destroy_group(struct program *g, int i)
{
    for (int k = 1; k < CTXS; k++)
        if (g->contexts[k].live && g->contexts[k].group == i)
            destroy_context(g, k);
    shmem_team_destroy(g->groups[i].team);
    g->groups[i].live = false;
}

static void check_group(const struct program *g, const struct group *t)
{
    expect(g, shmem_team_my_pe(t->team) == t->me, "my_pe is %d, expected %d", shmem_team_my_pe(t->team), t->me);
    expect(g, shmem_team_n_pes(t->team) == (t->me >= 0 ? t->n : -1), "n_pes is %d", shmem_team_n_pes(t->team));
    for (int i = 0; t->me >= 0 && i < t->n; i++)
        expect(g, shmem_team_translate_pe(t->team, i, SHMEM_TEAM_WORLD) == t->world[i], "translate_pe of %d", i);
}

static void teams(struct program *g, struct check_random *common)
{
    int i = 1 + (int)below(common, TEAMS - 1), from = (int)below(common, TEAMS);
    struct group *t = &g->groups[i];
    const struct group *parent = &g->groups[g->groups[from].live ? from : 0];
    size_t a = below(common, 1000), b = below(common, 1000), c = below(common, 1000);
    g->doing = "teams";
    if (t->live) {
        destroy_group(g, i);
        return;
    }
    memset(t, 0, sizeof(*t));
    t->live = true;
    int start = (int)(a % (size_t)parent->n), stride = 1 + (int)(b % 3);
    if (b % 2 != 0)
        stride = -stride;
    int most = stride > 0 ? (parent->n - 1 - start) / stride + 1 : start / -stride + 1;
    t->n = 1 + (int)(c % (size_t)most);
    t->me = -1;
    for (int k = 0; k < t->n; k++) {
        t->world[k] = parent->world[start + k * stride];
        if (t->world[k] == g->me)
            t->me = k;
    }
    t->team = SHMEM_TEAM_INVALID;
    if (parent->me >= 0)
        expect(g, shmem_team_split_strided(parent->team, start, stride, t->n, NULL, 0, &t->team) == 0,
               "split %d, %d, %d", start, stride, t->n);
    check_group(g, t);
    g->collectives++;
}

static void contexts(struct program *g, struct check_random *common)
{
    static const long options[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE};
    int i = 1 + (int)below(common, CTXS - 1), group = (int)below(common, TEAMS);
    struct context *c = &g->contexts[i];
    long option = options[below(common, 3)];
    g->doing = "contexts";
    if (c->live) {
        destroy_context(g, i);
        return;
    }
    if (!g->groups[group].live)
        return;
    c->live = true;
    c->group = group;
    c->ctx = SHMEM_CTX_INVALID;
    if (g->groups[group].me >= 0)
        expect(g, shmem_team_create_ctx(g->groups[group].team, option, &c->ctx) == 0, "create_ctx");
}

/* ---- collectives: a window of them, each with a dest of its own, sources used again at once ---- */

struct call {
    size_t kind, n, root, row;
    ptrdiff_t dst, sst;
    unsigned round;
    unsigned char *dest;
};

static void expect_blocks(const struct program *g, const struct call *c, int n_pes, int to, const char *what)
{
    for (int pe = 0; pe < n_pes; pe++)
        expect(g, check_filled(c->dest + (size_t)pe * c->n, c->n, pe, to, c->round), "%s of %zu bytes, from %d of %d",
               what, c->n, pe, n_pes);
}

static void call_collect(const struct program *g, const struct call *c, const struct group *t)
{
    size_t at = 0;
    for (int pe = 0; pe < t->n; pe++) {
        size_t len = c->n * (((size_t)pe + c->round) % 4) / 3;
        if (pe == t->me)
            expect(g, shmem_collectmem(t->team, c->dest, g->source, len) == 0, "collect");
    }
    for (int pe = 0; pe < t->n; pe++) {
        size_t len = c->n * (((size_t)pe + c->round) % 4) / 3;
        expect(g, check_filled(c->dest + at, len, pe, 0, c->round), "collect, %zu bytes from %d", len, pe);
        at += len;
    }
}

static void call_alltoalls(const struct program *g, const struct call *c, const struct group *t)
{
    const struct move *row = &move_table[c->row % MOVE_ROWS];
    size_t n = c->n % 90, all = n * (size_t)t->n;
    for (size_t k = 0; k < all; k++)
        check_fill(g->source + k * (size_t)c->sst * row->size, row->size, t->me, (int)(k / n), (unsigned)(k % n));
    expect(g, row->alltoalls(t->team, c->dest, g->source, c->dst, c->sst, n) == 0, "alltoalls");
    for (size_t k = 0; k < all; k++)
        expect(g,
               check_filled(c->dest + k * (size_t)c->dst * row->size, row->size, (int)(k / n), t->me,
                            (unsigned)(k % n)),
               "alltoalls %s of %zu, element %zu", row->name, n, k);
}

static void call_reduce(const struct program *g, const struct call *c, const struct group *t)
{
    const struct reduction *row = &reduce_table[c->row % REDUCE_ROWS];
    size_t n = c->n / 32;
    row->make(g->source, n, t->me, c->round);
    expect(g, row->call(t->team, c->dest, g->source, n) == 0, "%s", row->name);
    reduce_reference(row, g->expected, g->more, n, t->me, t->n, c->round);
    expect(g, row->same(c->dest, g->expected, n), "%s of %zu", row->name, n);
}

/* Members by start and stride in the world; with one of many pSync arrays. */
static void call_active_set(const struct program *g, const struct call *c)
{
    int start = (int)(c->root % (size_t)g->npes), log = (int)(c->row % 2), most = ((g->npes - 1 - start) >> log) + 1;
    int size = 1 + (int)(c->n % (size_t)most), offset = g->me - start, me = offset >> log;
    long *sync = g->syncs + c->row * 7919 % SYNCS * SHMEM_SYNC_SIZE;
    size_t n = c->n % 700;
    if (offset < 0 || (offset & ((1 << log) - 1)) != 0 || me >= size)
        return;
    check_fill(g->source, 8 * n, me, 0, c->round);
    if (c->round % 3 == 0) {
        shmem_barrier(start, log, size, sync);
        return;
    }
    if (c->round % 3 == 1)
        shmem_fcollect64(c->dest, g->source, n, start, log, size, sync);
    else
        shmem_broadcast64(c->dest, g->source, n, size - 1, start, log, size, sync);
    for (int pe = 0; c->round % 3 == 1 && pe < size; pe++)
        expect(g, check_filled(c->dest + (size_t)pe * 8 * n, 8 * n, pe, 0, c->round), "fcollect64 of %zu", n);
    if (c->round % 3 == 2 && me != size - 1)
        expect(g, check_filled(c->dest, 8 * n, size - 1, 0, c->round), "broadcast64 of %zu", n);
}

static void collective(struct program *g, const struct call *c, const struct group *t)
{
    int root = (int)(c->root % (size_t)t->n);
    for (int pe = 0; c->kind < 4 && pe < t->n; pe++)
        check_fill(g->source + (size_t)pe * c->n, c->n, t->me, c->kind == 2 ? pe : 0, c->round);
    switch (c->kind) {
    case 0:
        expect(g, shmem_broadcastmem(t->team, c->dest, g->source, c->n, root) == 0, "broadcast");
        expect(g, check_filled(c->dest, c->n, root, 0, c->round), "broadcast of %zu bytes from %d", c->n, root);
        break;
    case 1:
        expect(g, shmem_fcollectmem(t->team, c->dest, g->source, c->n) == 0, "fcollect");
        expect_blocks(g, c, t->n, 0, "fcollect");
        break;
    case 2:
        expect(g, shmem_alltoallmem(t->team, c->dest, g->source, c->n) == 0, "alltoall");
        expect_blocks(g, c, t->n, t->me, "alltoall");
        break;
    case 3:
        call_collect(g, c, t);
        break;
    case 4:
        call_alltoalls(g, c, t);
        break;
    case 5:
        expect(g, shmem_team_sync(t->team) == 0, "team_sync");
        break;
    default:
        call_reduce(g, c, t);
    }
}

static void collectives(struct program *g, struct check_random *common)
{
    size_t many = 1 + below(common, WINDOW);
    g->doing = "collectives";
    memset(g->dests, CHECK_POISON, g->dest_bytes * many);
    shmem_barrier_all();
    for (size_t i = 0; i < many; i++) {
        struct call c = {.kind = below(common, 10), .root = below(common, 1000), .row = below(common, 100000)};
        c.n = below(common, chance(common, 4) ? MOST_MOVE : chance(common, 2) ? 2000 : 80);
        c.dst = 1 + (ptrdiff_t)below(common, 4);
        c.sst = 1 + (ptrdiff_t)below(common, 4);
        c.round = g->step * WINDOW + (unsigned)i;
        c.dest = g->dests + i * g->dest_bytes;
        const struct group *t = &g->groups[below(common, TEAMS)];
        if (c.kind == 9)
            call_active_set(g, &c);
        else if (t->live && t->me >= 0)
            collective(g, &c, t);
        g->collectives++;
        expect(g, check_all_bytes(c.dest + g->dest_bytes - 64, CHECK_POISON, 64), "collective %zu of the window: bytes "
               "behind dest", i);
    }
    shmem_barrier_all();
}

/* ---- the program ---- */

static struct program *set_up(void)
{
    struct program *g = (struct program *)need(sizeof(*g));
    g->me = shmem_my_pe();
    g->npes = shmem_n_pes();
    CHECK_OR_EXIT(g->npes <= PES);
    g->dest_bytes = (size_t)g->npes * MOST_MOVE + 64;
    g->source = (unsigned char *)shmem_calloc(g->dest_bytes, 1);
    g->dests = (unsigned char *)shmem_malloc(g->dest_bytes * WINDOW);
    g->expected = (unsigned char *)need(MOST_MOVE);
    g->more = (unsigned char *)need(MOST_MOVE);
    g->syncs = (long *)shmem_calloc((size_t)SYNCS * SHMEM_SYNC_SIZE, sizeof(long));
    g->locks = (long *)shmem_calloc(LOCKS + 1, sizeof(long));
    g->counter = g->locks + LOCKS;
    g->signals = (uint64_t *)shmem_calloc(PES, sizeof(uint64_t));
    g->mail = (unsigned char *)shmem_calloc(PES, MAIL);
    CHECK_OR_EXIT(g->source != NULL && g->dests != NULL && g->syncs != NULL && g->locks != NULL && g->signals != NULL &&
                  g->mail != NULL);
    g->groups[0] = (struct group){.live = true, .n = g->npes, .me = g->me, .team = SHMEM_TEAM_WORLD};
    for (int pe = 0; pe < g->npes; pe++)
        g->groups[0].world[pe] = pe;
    g->contexts[0] = (struct context){true, 0, SHMEM_CTX_DEFAULT};
    return g;
}

static void tear_down(struct program *g)
{
    for (int i = 1; i < CTXS; i++)
        destroy_context(g, i);
    for (int i = 1; i < TEAMS; i++)
        if (g->groups[i].live)
            destroy_group(g, i);
    for (int i = 0; i < OBJECTS; i++)
        if (g->objects[i].base != NULL)
            close_object(g, &g->objects[i]);
    shmem_free(g->mail);
    shmem_free(g->signals);
    shmem_free(g->locks);
    shmem_free(g->syncs);
    shmem_free(g->dests);
    shmem_free(g->source);
    free(g->more);
    free(g->expected);
    free(g);
}

static int test_main(void)
{
    CHECK_INIT();
    const char *text = getenv("SHMEM_TEST_ROUNDS");
    unsigned rounds = text != NULL ? (unsigned)strtoul(text, NULL, 0) : ROUNDS;
    struct program *g = set_up();
    struct check_random common = check_random_stream(900);
    for (g->step = 0; g->step < rounds; g->step++) {
        size_t kind = below(&common, 100);
        if (kind < 20 || g->step < 2)
            objects(g, &common);
        else if (kind < 28)
            teams(g, &common);
        else if (kind < 34)
            contexts(g, &common);
        else if (kind < 60)
            phase(g, &common);
        else if (kind < 70)
            signals(g, &common);
        else if (kind < 74)
            locks(g, &common);
        else
            collectives(g, &common);
        if (check_self.failures != 0) /* what comes after it says nothing more */
            shmem_global_exit(CHECK_FAILED);
    }
    if (g->me == 0)
        printf("%u steps, %ld operations of PE 0, %ld collectives\n", g->step, g->operations, g->collectives);
    tear_down(g);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
