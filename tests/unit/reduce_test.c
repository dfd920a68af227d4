/* SPDX-License-Identifier: MIT */
/* The kernels of coll/host/reduce_op.h against an element-wise reference: every operator and representation, lengths
 * around the step of the vector loop, all alignments of the elements, out apart from or equal to either operand;
 * nothing past the end is written. Which kernels a type has and which not. Stands alone: needs no PEs and no library. */
#include "../../coll/host/reduce_op.h"

#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 300, ALIGNMENTS = 5, ROOM = LONGEST + ALIGNMENTS + 8 };

static int failures;
static uint64_t random_state = 0x1234567;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void fail(const char *what, const char *type, size_t nelems, size_t at)
{
    if (++failures <= 20)
        fprintf(stderr, "reduce_test: %s of %s, %zu elements: element %zu is wrong\n", what, type, nelems, at);
}

/* One application of a kernel: where the operands begin, and which of them is overwritten. */
struct trial {
    size_t nelems, shift;
    int overwrites; /* 0: neither, 1: a, 2: b */
};

/* The extremes come often, since that is where integers wrap and signs matter. */
#define FILL_INTEGER(T) (random_next() % 4 == 0 ? (T)(random_next() % 2 - 1) : (T)random_next())
#define FILL_REAL(T) ((T)((double)(int64_t)random_next() / 1e12))
#define FILL_COMPLEX(T) ((T)(FILL_REAL(double) + FILL_REAL(double) * I))

/* ---- the reference: in the widest type that holds every result, then cut ---- */

#define REFERENCE_INTEGER(T, op, x, y)                            \
    ((op) == OP_and_reduce   ? (T)((x) & (y))                     \
     : (op) == OP_or_reduce  ? (T)((x) | (y))                     \
     : (op) == OP_xor_reduce ? (T)((x) ^ (y))                     \
     : (op) == OP_max_reduce ? ((y) > (x) ? (y) : (x))            \
     : (op) == OP_min_reduce ? ((y) < (x) ? (y) : (x))            \
     : (op) == OP_sum_reduce ? (T)((uint64_t)(x) + (uint64_t)(y)) \
                             : (T)((uint64_t)(x) * (uint64_t)(y)))
#define REFERENCE_REAL(T, op, x, y)                    \
    ((op) == OP_max_reduce   ? ((y) > (x) ? (y) : (x)) \
     : (op) == OP_min_reduce ? ((y) < (x) ? (y) : (x)) \
     : (op) == OP_sum_reduce ? (T)((x) + (y))          \
                             : (T)((x) * (y)))
#define REFERENCE_COMPLEX(T, op, x, y) ((op) == OP_sum_reduce ? (T)((x) + (y)) : (T)((x) * (y)))

#define TRY(NAME, T, KIND)                                                          \
    static void try_##NAME(enum reduce_op op, struct trial t)                       \
    {                                                                               \
        static T a[ROOM], b[ROOM], apart[ROOM], expected[ROOM];                     \
        for (size_t i = 0; i < ROOM; i++) {                                         \
            a[i] = FILL_##KIND(T);                                                  \
            b[i] = FILL_##KIND(T);                                                  \
            apart[i] = FILL_##KIND(T);                                              \
        }                                                                           \
        T *out = t.overwrites == 0 ? apart : t.overwrites == 1 ? a : b;             \
        for (size_t i = 0; i < ROOM; i++)                                           \
            expected[i] = out[i];                                                   \
        for (size_t i = t.shift; i < t.shift + t.nelems; i++)                       \
            expected[i] = REFERENCE_##KIND(T, op, a[i], b[i]);                      \
        reduce_##NAME.apply[op](out + t.shift, a + t.shift, b + t.shift, t.nelems); \
        for (size_t i = 0; i < ROOM; i++)                                           \
            if (out[i] != expected[i])                                              \
                fail(op_names[op], #NAME, t.nelems, i);                             \
    }

static const char *const op_names[] = {
#define OP_NAME(op, ...) #op,
    SHMEM_REDUCE_OPS(OP_NAME, )};

#define REPRESENTATIONS(X)          \
    X(i8, int8_t, INTEGER)          \
    X(u8, uint8_t, INTEGER)         \
    X(i16, int16_t, INTEGER)        \
    X(u16, uint16_t, INTEGER)       \
    X(i32, int32_t, INTEGER)        \
    X(u32, uint32_t, INTEGER)       \
    X(i64, int64_t, INTEGER)        \
    X(u64, uint64_t, INTEGER)       \
    X(f32, float, REAL)             \
    X(f64, double, REAL)            \
    X(fmax, long double, REAL)      \
    X(c32, float _Complex, COMPLEX) \
    X(c64, double _Complex, COMPLEX)

REPRESENTATIONS(TRY)

/* ---- what exists ---- */

enum kind { INTEGER, REAL, COMPLEX };

static int has(enum kind kind, enum reduce_op op)
{
    switch (op) {
    case OP_and_reduce:
    case OP_or_reduce:
    case OP_xor_reduce:
        return kind == INTEGER;
    case OP_max_reduce:
    case OP_min_reduce:
        return kind != COMPLEX;
    default:
        return 1;
    }
}

static void check_table(const char *name, const struct reduce_kernels *kernels, enum kind kind, size_t bytes)
{
    for (int op = 0; op < REDUCE_OPS; op++)
        if ((kernels->apply[op] != NULL) != has(kind, (enum reduce_op)op))
            fail(op_names[op], name, 0, 0);
    if (kernels->elem_bytes != bytes)
        fail("size", name, 0, bytes);
}

static void run_trials(void (*try_one)(enum reduce_op, struct trial), const struct reduce_kernels *kernels)
{
    for (int op = 0; op < REDUCE_OPS; op++)
        for (size_t nelems = 0; kernels->apply[op] != NULL && nelems <= LONGEST; nelems += 1 + nelems / 40)
            for (size_t shift = 0; shift < ALIGNMENTS; shift++) {
                struct trial t = {nelems, shift, (int)((nelems + shift) % 3)};
                try_one((enum reduce_op)op, t);
            }
}

int main(void)
{
#define RUN(NAME, T, KIND)                               \
    check_table(#NAME, &reduce_##NAME, KIND, sizeof(T)); \
    run_trials(try_##NAME, &reduce_##NAME);
    REPRESENTATIONS(RUN)
    for (size_t bytes = 1; bytes <= 8; bytes *= 2)
        for (int is_signed = 0; is_signed < 2; is_signed++)
            if (reduce_integers[is_signed][bytes] == NULL || reduce_integers[is_signed][bytes]->elem_bytes != bytes)
                fail("table", is_signed ? "signed integers" : "unsigned integers", bytes, 0);
    if (reduce_integers[1][4] != &reduce_i32 || reduce_integers[0][8] != &reduce_u64)
        fail("table", "integers", 0, 0);
    if (failures != 0)
        fprintf(stderr, "reduce_test: %d failures\n", failures);
    return failures != 0;
}
