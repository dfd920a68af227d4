/* SPDX-License-Identifier: MIT */
/* Elements of reductions: how each type is kept in memory, combined, scaled and rounded. Schedules have an accumulator
 * of a unit, 16 bytes, and four functions: isod_acc_of, isod_acc_join, isod_acc_scale, isod_acc_vec. The type is their
 * first argument: a constant in a kernel of one type, where nothing is left of the question, else a value of the call.
 * A new format is a line of ISOD_ELEMS; a new operator is a body for each kind of number.
 * Invariant: integers wrap; nothing here is undefined for any value. Includes: half_device.h, shmem_types.h. Included
 * by reduce_device.h. */
#ifndef ISO_ELEM_DEVICE_H
#define ISO_ELEM_DEVICE_H

#include "../../device/api/half_device.h"
#include "../../include/shmem_types.h"

/* ISOD_OP_sum_reduce and so on. */
enum isod_reduce_op {
#define ISOD_ENUMERATOR(op, ...) ISOD_OP_##op,
    SHMEM_REDUCE_OPS(ISOD_ENUMERATOR, )
#undef ISOD_ENUMERATOR
        ISOD_REDUCE_OPS,
    ISOD_OP_maxloc_reduce = ISOD_REDUCE_OPS,
    ISOD_OP_minloc_reduce
};

/* ---- operators ---- */

/* A body for each operator of SHMEM_REDUCE_OPS, by its name there: an operator without one does not compile. Integers
 * wrap, since they are computed in isod_wrap, an unsigned type of at least int's width. */
#define ISOD_INTEGER_and_reduce (isod_wrap) x &(isod_wrap)y
#define ISOD_INTEGER_or_reduce (isod_wrap) x | (isod_wrap)y
#define ISOD_INTEGER_xor_reduce (isod_wrap) x ^ (isod_wrap)y
#define ISOD_INTEGER_max_reduce x > y ? x : y
#define ISOD_INTEGER_min_reduce x < y ? x : y
#define ISOD_INTEGER_sum_reduce (isod_wrap) x + (isod_wrap)y
#define ISOD_INTEGER_prod_reduce (isod_wrap) x *(isod_wrap)y
#define ISOD_REAL_max_reduce x > y ? x : y
#define ISOD_REAL_min_reduce x < y ? x : y
#define ISOD_REAL_sum_reduce x + y
#define ISOD_REAL_prod_reduce x *y

/* isod_one_i8(op, x, y) and so on: a chain of questions over the operators that the kind of number has. */
#define ISOD_IF(KIND, OP) op == ISOD_OP_##OP ? (isod_one)(ISOD_##KIND##_##OP):
#define ISOD_IF_INTEGER(OP, ...) ISOD_IF(INTEGER, OP)
#define ISOD_ONE_INTEGER(NAME, T, W)                             \
    PRIM_FN T isod_one_##NAME(int op, T x, T y)                  \
    {                                                            \
        typedef T isod_one;                                      \
        typedef W isod_wrap;                                     \
        return SHMEM_REDUCE_OPS(ISOD_IF_INTEGER, )(isod_one)(x); \
    }
#define ISOD_IF_REAL(OP, OLD, TABLE, ...) ISOD_IF_REAL_##TABLE(OP)
#define ISOD_IF_REAL_LOGIC(OP)
#define ISOD_IF_REAL_MINMAX(OP) ISOD_IF(REAL, OP)
#define ISOD_IF_REAL_SUM(OP) ISOD_IF(REAL, OP)
#define ISOD_ONE_REAL(NAME, T)                      \
    PRIM_FN T isod_one_##NAME(int op, T x, T y)     \
    {                                               \
        typedef T isod_one;                         \
        return SHMEM_REDUCE_OPS(ISOD_IF_REAL, )(x); \
    }
#define ISOD_IF_COMPLEX(OP, OLD, TABLE, S, ...) ISOD_IF_COMPLEX_##TABLE(OP, S)
#define ISOD_IF_COMPLEX_LOGIC(OP, S)
#define ISOD_IF_COMPLEX_MINMAX(OP, S)
#define ISOD_IF_COMPLEX_SUM(OP, S) op == ISOD_OP_##OP ? isod_##S##_##OP(x, y):
/* One copy of the product in a program: a compiler that fuses multiplication and addition does it alike for all. */
#define ISOD_ONE_COMPLEX(NAME, T)                                                                         \
    struct isod_##NAME {                                                                                  \
        T re, im;                                                                                         \
    };                                                                                                    \
    PRIM_COLD_FN struct isod_##NAME isod_##NAME##_prod_reduce(struct isod_##NAME x, struct isod_##NAME y) \
    {                                                                                                     \
        struct isod_##NAME z = {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};                    \
        return z;                                                                                         \
    }                                                                                                     \
    PRIM_FN struct isod_##NAME isod_##NAME##_sum_reduce(struct isod_##NAME x, struct isod_##NAME y)       \
    {                                                                                                     \
        struct isod_##NAME z = {x.re + y.re, x.im + y.im};                                                \
        return z;                                                                                         \
    }                                                                                                     \
    PRIM_FN struct isod_##NAME isod_one_##NAME(int op, struct isod_##NAME x, struct isod_##NAME y) {      \
        return SHMEM_REDUCE_OPS(ISOD_IF_COMPLEX, NAME, )(x);                                              \
    }

ISOD_ONE_INTEGER(i8, int8_t, uint32_t)
ISOD_ONE_INTEGER(u8, uint8_t, uint32_t)
ISOD_ONE_INTEGER(i16, int16_t, uint32_t)
ISOD_ONE_INTEGER(u16, uint16_t, uint32_t)
ISOD_ONE_INTEGER(i32, int32_t, uint32_t)
ISOD_ONE_INTEGER(u32, uint32_t, uint32_t)
ISOD_ONE_INTEGER(i64, int64_t, uint64_t)
ISOD_ONE_INTEGER(u64, uint64_t, uint64_t)
ISOD_ONE_REAL(f32, float)
ISOD_ONE_REAL(f64, double)
ISOD_ONE_COMPLEX(c32, float)
ISOD_ONE_COMPLEX(c64, double)

/* A value and where it is. */
#define ISOD_ONE_LOC(NAME, T, AT)                                                                                     \
    struct isod_##NAME {                                                                                              \
        T value;                                                                                                      \
        AT at;                                                                                                        \
    };                                                                                                                \
    PRIM_FN struct isod_##NAME isod_one_##NAME(int op, struct isod_##NAME x, struct isod_##NAME y)                    \
    {                                                                                                                 \
        bool better = op == ISOD_OP_maxloc_reduce ? y.value > x.value : y.value < x.value;                            \
        return better || (y.value == x.value && y.at < x.at) ? y : x;                                                 \
    }
ISOD_ONE_LOC(f32_loc, float, int32_t)
ISOD_ONE_LOC(i32_loc, int32_t, int32_t)
ISOD_ONE_LOC(f64_loc, double, int64_t)
ISOD_ONE_LOC(i64_loc, int64_t, int64_t)
ISOD_ONE_LOC(f64x2_loc, double, double)

/* ---- types ---- */

/* X(name, as kept in memory, as combined, one operation, from memory, to memory, how many an accumulator has, what
 * numbers they are). In the order of shmemx types. Short formats are combined as floats; of formats of 8 bits half a
 * unit at a time, the first one, so that an accumulator is no larger than others. */
#define ISOD_ELEMS(X)                                                                                 \
    X(u8, uint8_t, uint8_t, isod_one_u8, ISOD_SAME, ISOD_SAME, 16, INTEGER)                           \
    X(i8, int8_t, int8_t, isod_one_i8, ISOD_SAME, ISOD_SAME, 16, INTEGER)                             \
    X(u16, uint16_t, uint16_t, isod_one_u16, ISOD_SAME, ISOD_SAME, 8, INTEGER)                        \
    X(i16, int16_t, int16_t, isod_one_i16, ISOD_SAME, ISOD_SAME, 8, INTEGER)                          \
    X(u32, uint32_t, uint32_t, isod_one_u32, ISOD_SAME, ISOD_SAME, 4, INTEGER)                        \
    X(i32, int32_t, int32_t, isod_one_i32, ISOD_SAME, ISOD_SAME, 4, INTEGER)                          \
    X(u64, uint64_t, uint64_t, isod_one_u64, ISOD_SAME, ISOD_SAME, 2, INTEGER)                        \
    X(i64, int64_t, int64_t, isod_one_i64, ISOD_SAME, ISOD_SAME, 2, INTEGER)                          \
    X(f32, float, float, isod_one_f32, ISOD_SAME, ISOD_SAME, 4, REAL)                                 \
    X(f64, double, double, isod_one_f64, ISOD_SAME, ISOD_SAME, 2, REAL)                               \
    X(f16, uint16_t, float, isod_one_f32, isod_half_to_float, isod_half_from_float, 8, REAL)          \
    X(bf16, uint16_t, float, isod_one_f32, isod_bfloat16_to_float, isod_bfloat16_from_float, 8, REAL) \
    X(c32, struct isod_c32, struct isod_c32, isod_one_c32, ISOD_SAME, ISOD_SAME, 2, COMPLEX)          \
    X(c64, struct isod_c64, struct isod_c64, isod_one_c64, ISOD_SAME, ISOD_SAME, 1, COMPLEX)          \
    X(e4m3, uint8_t, float, isod_one_f32, isod_e4m3_to_float, isod_e4m3_from_float, 8, REAL)          \
    X(e5m2, uint8_t, float, isod_one_f32, isod_e5m2_to_float, isod_e5m2_from_float, 8, REAL)
/* With locations; not among the types of calls on streams. */
#define ISOD_LOC_ELEMS(X)                                                                                    \
    X(f32_loc, struct isod_f32_loc, struct isod_f32_loc, isod_one_f32_loc, ISOD_SAME, ISOD_SAME, 2, COMPLEX) \
    X(i32_loc, struct isod_i32_loc, struct isod_i32_loc, isod_one_i32_loc, ISOD_SAME, ISOD_SAME, 2, COMPLEX) \
    X(f64_loc, struct isod_f64_loc, struct isod_f64_loc, isod_one_f64_loc, ISOD_SAME, ISOD_SAME, 1, COMPLEX) \
    X(i64_loc, struct isod_i64_loc, struct isod_i64_loc, isod_one_i64_loc, ISOD_SAME, ISOD_SAME, 1, COMPLEX) \
    X(f64x2_loc, struct isod_f64x2_loc, struct isod_f64x2_loc, isod_one_f64x2_loc, ISOD_SAME, ISOD_SAME, 1, COMPLEX)
#define ISOD_ALL_ELEMS(X) ISOD_ELEMS(X) ISOD_LOC_ELEMS(X)
/* Of the questions below: kernels that ask at run time are not burdened by types that they never have. */
#ifdef ISOD_LANES_ARE_BLOCKS
#define ISOD_ASKED_ELEMS(X) ISOD_ELEMS(X)
#else
#define ISOD_ASKED_ELEMS(X) ISOD_ALL_ELEMS(X)
#endif
#define ISOD_SAME(x) (x)
enum isod_elem {
#define ISOD_ENUMERATOR(NAME, ...) ISOD_ELEM_##NAME,
    ISOD_ALL_ELEMS(ISOD_ENUMERATOR)
#undef ISOD_ENUMERATOR
};

/* A unit as it is combined. */
struct isod_acc {
    uint64_t word[4];
};

/* From memory, joining, to memory. Elements of 4 bytes are taken from words by shifts: else clang for gfx942 splits
 * what is loaded for each of them, and waits for a load before the next one. */
/* clang-format off */
#define ISOD_ELEM_FUNCTIONS(NAME, T, A, ONE, UP, DOWN, N, KIND)                                                  \
    struct isod_acc_##NAME {                                                                                     \
        A e[N];                                                                                                  \
    };                                                                                                           \
    PRIM_ELEM_FN struct isod_acc_##NAME isod_acc_of_##NAME(struct prim_vec16 v)                                  \
    {                                                                                                            \
        struct isod_acc_##NAME a;                                                                                \
        T e[N];                                                                                                  \
        PRIM_UNROLL                                                                                              \
        for (unsigned i = 0; sizeof(T) == 4 && i < N; i++) {                                                     \
            uint32_t bits = (uint32_t)(v.word[i / 2 % 2] >> 32 * (i % 2));                                       \
            __builtin_memcpy(&e[i], &bits, sizeof(T) < 4 ? sizeof(T) : 4);                                       \
        }                                                                                                        \
        if (sizeof(T) != 4)                                                                                      \
            __builtin_memcpy(e, &v, sizeof(e));                                                                  \
        PRIM_UNROLL                                                                                              \
        for (unsigned i = 0; i < N; i++)                                                                         \
            a.e[i] = UP(e[i]);                                                                                   \
        return a;                                                                                                \
    }                                                                                                            \
    PRIM_ELEM_FN void isod_acc_join_##NAME(struct isod_acc_##NAME *a, struct prim_vec16 v, int32_t m, int32_t n, \
                                           int op)                                                               \
    {                                                                                                            \
        if (m == 0) {                                                                                            \
            *a = isod_acc_of_##NAME(v);                                                                          \
        } else if (m < n) {                                                                                      \
            struct isod_acc_##NAME b = isod_acc_of_##NAME(v);                                                    \
            PRIM_UNROLL                                                                                          \
            for (unsigned i = 0; i < N; i++)                                                                     \
                a->e[i] = ONE(op, a->e[i], b.e[i]);                                                              \
        }                                                                                                        \
    }                                                                                                            \
    PRIM_ELEM_FN struct prim_vec16 isod_acc_vec_##NAME(const struct isod_acc_##NAME *a)                          \
    {                                                                                                            \
        struct prim_vec16 v = {{0, 0}};                                                                          \
        T e[N];                                                                                                  \
        PRIM_UNROLL                                                                                              \
        for (unsigned i = 0; i < N; i++)                                                                         \
            e[i] = DOWN(a->e[i]);                                                                                \
        __builtin_memcpy(&v, e, sizeof(e));                                                                      \
        return v;                                                                                                \
    }
/* clang-format on */
ISOD_ALL_ELEMS(ISOD_ELEM_FUNCTIONS)

/* ---- the four functions ---- */

/* The elements of `v`. */
PRIM_FN void isod_acc_of(enum isod_elem elem, struct isod_acc *a, struct prim_vec16 v)
{
    switch ((int)elem) {
#define ISOD_CASE(NAME, ...)                              \
    case ISOD_ELEM_##NAME: {                              \
        struct isod_acc_##NAME b = isod_acc_of_##NAME(v); \
        __builtin_memcpy(a, &b, sizeof(b));               \
        break;                                            \
    }
        ISOD_ASKED_ELEMS(ISOD_CASE)
#undef ISOD_CASE
    }
}

/* The m-th of n that join: each element op that of `v`; the first one begins, those behind the last do nothing. */
PRIM_FN void isod_acc_join(enum isod_elem elem, struct isod_acc *a, struct prim_vec16 v, int32_t m, int32_t n, int op)
{
    switch ((int)elem) {
#define ISOD_CASE(NAME, ...)                   \
    case ISOD_ELEM_##NAME: {                   \
        struct isod_acc_##NAME b;              \
        __builtin_memcpy(&b, a, sizeof(b));    \
        isod_acc_join_##NAME(&b, v, m, n, op); \
        __builtin_memcpy(a, &b, sizeof(b));    \
        break;                                 \
    }
        ISOD_ASKED_ELEMS(ISOD_CASE)
#undef ISOD_CASE
    }
}

#define ISOD_SCALE_INTEGER(NAME, A)
#define ISOD_SCALE_COMPLEX(NAME, A)
#define ISOD_SCALE_REAL(NAME, A)                               \
    {                                                          \
        struct isod_acc_##NAME b;                              \
        __builtin_memcpy(&b, a, sizeof(b));                    \
        PRIM_UNROLL                                            \
        for (unsigned i = 0; i < sizeof(b) / sizeof(A); i++)   \
            b.e[i] = divide ? b.e[i] / (A)by : b.e[i] * (A)by; \
        __builtin_memcpy(a, &b, sizeof(b));                    \
    }
/* Each element of a type of real numbers times `by`, or divided by it; others stay. */
PRIM_FN void isod_acc_scale(enum isod_elem elem, struct isod_acc *a, double by, bool divide)
{
    switch ((int)elem) {
#define ISOD_CASE(NAME, T, A, ONE, UP, DOWN, N, KIND) \
    case ISOD_ELEM_##NAME:                            \
        ISOD_SCALE_##KIND(NAME, A) break;
        ISOD_ASKED_ELEMS(ISOD_CASE)
#undef ISOD_CASE
    }
}

/* As in memory, each element rounded. */
PRIM_FN struct prim_vec16 isod_acc_vec(enum isod_elem elem, const struct isod_acc *a)
{
    struct prim_vec16 v = {{0, 0}};
    switch ((int)elem) {
#define ISOD_CASE(NAME, ...)                \
    case ISOD_ELEM_##NAME: {                \
        struct isod_acc_##NAME b;           \
        __builtin_memcpy(&b, a, sizeof(b)); \
        v = isod_acc_vec_##NAME(&b);        \
        break;                              \
    }
        ISOD_ASKED_ELEMS(ISOD_CASE)
#undef ISOD_CASE
    }
    return v;
}

/* Members first .. first + ISOD_BATCH - 1 join; v[k] is the unit of member first + k. */
PRIM_FN void isod_acc_batch(enum isod_elem elem, struct isod_acc *a, const struct prim_vec16 *v, int32_t first,
                            int32_t n, int op)
{
    isod_acc_join(elem, a, v[0], first, n, op);
    isod_acc_join(elem, a, v[1], first + 1, n, op);
    isod_acc_join(elem, a, v[2], first + 2, n, op);
    isod_acc_join(elem, a, v[3], first + 3, n, op);
}

#endif
