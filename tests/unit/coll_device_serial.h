/* SPDX-License-Identifier: MIT */
/* What calls of in-kernel collectives do, by definition: lists of calls over the objects of all PEs, and the same calls
 * one after the other on a copy of the objects. Included by coll_device_test.c. */
#ifndef COLL_DEVICE_SERIAL_H
#define COLL_DEVICE_SERIAL_H

#include "coll_device_model.h"

/* ---- what is called ---- */

enum kind { SYNC, BARRIER, BROADCAST, FCOLLECT, ALLTOALL, PERMUTE, REDUCE, SCATTER, KINDS };
enum form { BLOCK, GRID, FORMS };

/* Representations X(name, bytes, logic, ordered). */
#define REPRS(X)    \
    X(i8, 1, 1, 1)  \
    X(u8, 1, 1, 1)  \
    X(i16, 2, 1, 1) \
    X(u16, 2, 1, 1) \
    X(i32, 4, 1, 1) \
    X(u32, 4, 1, 1) \
    X(i64, 8, 1, 1) \
    X(u64, 8, 1, 1) X(f32, 4, 0, 1) X(f64, 8, 0, 1) X(f16, 2, 0, 1) X(bf16, 2, 0, 1) X(c32, 8, 0, 0) X(c64, 16, 0, 0)
enum repr {
#define ENUMERATOR(name, bytes, logic, ordered) REPR_##name,
    REPRS(ENUMERATOR)
#undef ENUMERATOR
        REPR_COUNT
};
static const size_t repr_bytes[] = {
#define BYTES(name, bytes, logic, ordered) bytes,
    REPRS(BYTES)
#undef BYTES
};
static const bool repr_logic[] = {
#define LOGIC(name, bytes, logic, ordered) logic,
    REPRS(LOGIC)
#undef LOGIC
};
static const bool repr_ordered[] = {
#define ORDERED(name, bytes, logic, ordered) ordered,
    REPRS(ORDERED)
#undef ORDERED
};

static bool repr_has(int repr, int op)
{
    if (op == ISOD_OP_and_reduce || op == ISOD_OP_or_reduce || op == ISOD_OP_xor_reduce)
        return repr_logic[repr];
    return repr_ordered[repr] || (op != ISOD_OP_max_reduce && op != ISOD_OP_min_reduce);
}

struct combo {
    enum kind kind;
    enum form form;
    int repr, op; /* reductions */
};

enum { MOST_CALLS = 12 };

/* Offsets are those of the slot's objects; one for each block, or [0] for the grid. */
struct call {
    struct combo what;
    size_t elem_bytes, nelems, bytes;
    int root;
    int to[MOST_PES], from[MOST_PES];
    size_t dest[MOST_LANES], source[MOST_LANES];
    bool own_block; /* reducescatter into the own block of source */
};

struct plan {
    int n_calls;
    struct call calls[MOST_CALLS];
    size_t used; /* bytes of objects */
    uint64_t seed;
};

/* All objects and a guard behind them. */
static size_t compared_bytes(const struct plan *p) { return p->used + 64 < OBJECT_BYTES ? p->used + 64 : OBJECT_BYTES; }

static size_t dest_of(const struct call *c, unsigned instance, int pe)
{
    return c->dest[instance] + (c->own_block ? (size_t)pe * c->bytes : 0);
}

/* ---- the same, serially ---- */

/* The part of integers that does not depend on signs. */
static uint64_t integer_one(int op, uint64_t x, uint64_t y, bool less)
{
    switch (op) {
    case ISOD_OP_and_reduce:
        return x & y;
    case ISOD_OP_or_reduce:
        return x | y;
    case ISOD_OP_xor_reduce:
        return x ^ y;
    case ISOD_OP_sum_reduce:
        return x + y;
    case ISOD_OP_prod_reduce:
        return x * y;
    case ISOD_OP_max_reduce:
        return less ? y : x;
    default:
        return less ? x : y;
    }
}
static double real_one(int op, double x, double y)
{
    return op == ISOD_OP_sum_reduce                ? x + y
           : op == ISOD_OP_prod_reduce             ? x * y
           : (op == ISOD_OP_max_reduce) == (x > y) ? x
                                                   : y;
}
static void complex_one(int op, double *re, double *im, double x, double y, bool single)
{
    double r = *re + x, i = *im + y;
    if (op == ISOD_OP_prod_reduce && single) {
        r = (float)((float)((float)*re * (float)x) - (float)((float)*im * (float)y));
        i = (float)((float)((float)*re * (float)y) + (float)((float)*im * (float)x));
    } else if (op == ISOD_OP_prod_reduce) {
        r = *re * x - *im * y;
        i = *re * y + *im * x;
    }
    *re = single ? (double)(float)r : r;
    *im = single ? (double)(float)i : i;
}

static uint64_t integer_get(const void *p, size_t bytes, bool is_signed)
{
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    if (is_signed && bytes < 8 && (v >> (8 * bytes - 1)) != 0)
        v |= ~(uint64_t)0 << 8 * bytes;
    return v;
}

static double real_get(int repr, const void *p)
{
    float f;
    double d;
    uint16_t half;
    memcpy(&half, p, 2);
    memcpy(&f, p, 4);
    if (repr == REPR_f16 || repr == REPR_bf16)
        return repr == REPR_f16 ? isod_half_to_float(half) : isod_bfloat16_to_float(half);
    if (repr == REPR_f32)
        return f;
    memcpy(&d, p, 8);
    return d;
}
static void real_put(int repr, void *p, double d)
{
    float f = (float)d;
    uint16_t half = repr == REPR_f16 ? isod_half_from_float(f) : isod_bfloat16_from_float(f);
    if (repr == REPR_f64)
        memcpy(p, &d, 8);
    else if (repr == REPR_f32)
        memcpy(p, &f, 4);
    else
        memcpy(p, &half, 2);
}

/* dest = all members' elements, combined in order. */
static void combine_complex(int repr, int op, char *dest, char *const *sources, int n)
{
    int part = repr == REPR_c32 ? REPR_f32 : REPR_f64;
    size_t half = repr_bytes[part];
    double re = real_get(part, sources[0]), im = real_get(part, sources[0] + half);
    for (int m = 1; m < n; m++)
        complex_one(op, &re, &im, real_get(part, sources[m]), real_get(part, sources[m] + half), repr == REPR_c32);
    real_put(part, dest, re);
    real_put(part, dest + half, im);
}
static void combine(int repr, int op, char *dest, char *const *sources, int n)
{
    bool is_signed = repr == REPR_i8 || repr == REPR_i16 || repr == REPR_i32 || repr == REPR_i64;
    size_t bytes = repr_bytes[repr];
    if (repr >= REPR_c32) {
        combine_complex(repr, op, dest, sources, n);
    } else if (repr >= REPR_f32) {
        double x = real_get(repr, sources[0]);
        for (int m = 1; m < n; m++) {
            double y = real_one(op, x, real_get(repr, sources[m]));
            x = repr == REPR_f64 ? y : (double)(float)y;
        }
        real_put(repr, dest, x);
    } else {
        uint64_t x = integer_get(sources[0], bytes, is_signed);
        for (int m = 1; m < n; m++) {
            uint64_t y = integer_get(sources[m], bytes, is_signed);
            uint64_t z = integer_one(op, x, y, is_signed ? (int64_t)x < (int64_t)y : x < y);
            x = integer_get(&z, bytes, is_signed);
        }
        memcpy(dest, &x, bytes);
    }
}

/* `memory`: the members' objects, one after the other. */
static void repeat_reduction(const struct call *c, unsigned instance, char *memory, int n)
{
    char *result = (char *)malloc((size_t)n * c->bytes + 1);
    if (result == NULL)
        abort();
    for (int pe = 0; pe < n; pe++) {
        size_t from = c->source[instance] + (c->what.kind == SCATTER ? (size_t)pe * c->bytes : 0);
        for (size_t i = 0; i < c->bytes; i += c->elem_bytes) {
            char *sources[MOST_PES];
            for (int m = 0; m < n; m++)
                sources[m] = memory + (size_t)m * OBJECT_BYTES + from + i;
            combine(c->what.repr, c->what.op, result + (size_t)pe * c->bytes + i, sources, n);
        }
    }
    for (int pe = 0; pe < n; pe++)
        memcpy(memory + (size_t)pe * OBJECT_BYTES + dest_of(c, instance, pe), result + (size_t)pe * c->bytes, c->bytes);
    free(result);
}

static void repeat_move(const struct call *c, unsigned instance, char *memory, int n)
{
    for (int pe = 0; pe < n; pe++) {
        char *dest = memory + (size_t)pe * OBJECT_BYTES + c->dest[instance];
        for (int m = 0; m < n; m++) {
            const char *source = memory + (size_t)m * OBJECT_BYTES + c->source[instance];
            if (c->what.kind == BROADCAST && m == c->root)
                memmove(dest, source, c->bytes);
            else if (c->what.kind == FCOLLECT)
                memcpy(dest + (size_t)m * c->bytes, source, c->bytes);
            else if (c->what.kind == ALLTOALL)
                memcpy(dest + (size_t)m * c->bytes, source + (size_t)pe * c->bytes, c->bytes);
            else if (c->what.kind == PERMUTE && c->to[m] == pe)
                memcpy(dest, source, c->bytes);
        }
    }
}

static void repeat(const struct call *c, unsigned blocks, char *memory, int n)
{
    for (unsigned instance = 0; instance < (c->what.form == GRID ? 1 : blocks); instance++) {
        if (c->what.kind >= REDUCE)
            repeat_reduction(c, instance, memory, n);
        else
            repeat_move(c, instance, memory, n);
    }
}

/* ---- all combinations ---- */

struct combos {
    struct combo list[KINDS * FORMS + 2 * FORMS * REPR_COUNT * ISOD_REDUCE_OPS];
    int count;
};

static void combos_add(struct combos *all, enum kind kind, int repr, int op)
{
    for (int form = 0; form < FORMS; form++) {
        struct combo c = {kind, (enum form)form, repr, op};
        all->list[all->count++] = c;
    }
}

static struct combos combos_all(void)
{
    struct combos all;
    all.count = 0;
    for (int kind = SYNC; kind < REDUCE; kind++)
        combos_add(&all, (enum kind)kind, 0, 0);
    for (int repr = 0; repr < REPR_COUNT; repr++)
        for (int op = 0; op < ISOD_REDUCE_OPS; op++)
            if (repr_has(repr, op)) {
                combos_add(&all, REDUCE, repr, op);
                combos_add(&all, SCATTER, repr, op);
            }
    return all;
}

static void combos_shuffle(struct combos *all, struct check_random *random)
{
    for (int i = all->count - 1; i > 0; i--) {
        int other = (int)check_random_below(random, (size_t)i + 1);
        struct combo swap = all->list[i];
        all->list[i] = all->list[other];
        all->list[other] = swap;
    }
}

#endif
