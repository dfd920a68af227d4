/* SPDX-License-Identifier: MIT */
/* Elements of reductions on streams whose type and operator are arguments, as reduce_any.h has them, by two functions
 * that the kernels call: so a kernel has one copy of this code, which is long, and loses no registers to it.
 * Includes: stream_device.h. Included by reduce_stream.h. */
#ifndef ISO_REDUCE_JOIN_H
#define ISO_REDUCE_JOIN_H

#include "stream_device.h"

/* Short formats are combined as floats, four at a time: a unit has two parts of them, or four. Of others it is one. */
PRIM_FN uint32_t join_parts_of(int32_t dtype)
{
    return dtype == ISOD_ELEM_f16 || dtype == ISOD_ELEM_bf16      ? 2
           : dtype == ISOD_ELEM_e4m3 || dtype == ISOD_ELEM_e5m2 ? 4
                                                                 : 1;
}
PRIM_FN uint32_t join_parts(const struct isod_stream_coll *what) { return join_parts_of(what->dtype); }

/* A part of a unit, as in memory or four floats. */
struct join_acc {
    struct prim_vec16 acc;
    uint32_t part;
};
PRIM_FN struct join_acc join_begin(uint32_t part)
{
    struct join_acc a = {{{0, 0}}, part};
    return a;
}

PRIM_FN struct prim_vec16 join_of_floats(float e0, float e1, float e2, float e3)
{
    struct prim_vec16 v;
    v.word[0] = isod_float_bits(e0) | (uint64_t)isod_float_bits(e1) << 32;
    v.word[1] = isod_float_bits(e2) | (uint64_t)isod_float_bits(e3) << 32;
    return v;
}
#define JOIN_UP(UP, T, bits, word)                                                          \
    join_of_floats(UP((T)(word)), UP((T)((word) >> (bits))), UP((T)((word) >> 2 * (bits))), \
                  UP((T)((word) >> 3 * (bits))))
/* The part of a unit. */
PRIM_FN struct prim_vec16 join_of(int32_t dtype, struct prim_vec16 v, uint32_t part)
{
    uint64_t half = part >= join_parts_of(dtype) / 2 ? v.word[1] : v.word[0];
    uint32_t quarter = (uint32_t)(half >> 32 * (part & 1));
    switch (dtype) {
    case ISOD_ELEM_f16:
        return JOIN_UP(isod_half_to_float, uint16_t, 16, half);
    case ISOD_ELEM_bf16:
        return JOIN_UP(isod_bfloat16_to_float, uint16_t, 16, half);
    case ISOD_ELEM_e4m3:
        return JOIN_UP(isod_e4m3_to_float, uint8_t, 8, quarter);
    case ISOD_ELEM_e5m2:
        return JOIN_UP(isod_e5m2_to_float, uint8_t, 8, quarter);
    default:
        return v;
    }
}

/* The operators of numbers. Signed integers wrap as unsigned ones do, and are greater where unsigned ones with another
 * highest bit are: `flip` of both, and of the result. */
#define JOIN_ONE(ONE, op, x, y)                                          \
    ((op) == ISOD_OP_max_reduce    ? ONE(ISOD_OP_max_reduce, (x), (y))  \
     : (op) == ISOD_OP_min_reduce  ? ONE(ISOD_OP_min_reduce, (x), (y))  \
     : (op) == ISOD_OP_prod_reduce ? ONE(ISOD_OP_prod_reduce, (x), (y)) \
                                   : ONE(ISOD_OP_sum_reduce, (x), (y)))
#define JOIN_JOIN(NAME, T, COUNT, RESULT)                                                           \
    PRIM_FN void join_member_##NAME(struct prim_vec16 *a, const struct prim_vec16 *b, int op, T flip) \
    {                                                                                              \
        T x[COUNT], y[COUNT];                                                                      \
        (void)op;                                                                                  \
        (void)flip;                                                                                \
        __builtin_memcpy(x, a, sizeof(x));                                                         \
        __builtin_memcpy(y, b, sizeof(y));                                                         \
        PRIM_UNROLL                                                                                \
        for (unsigned i = 0; i < COUNT; i++)                                                       \
            x[i] = RESULT;                                                                         \
        __builtin_memcpy(a, x, sizeof(x));                                                         \
    }
#define JOIN_JOIN_INTEGER(NAME, T, COUNT) \
    JOIN_JOIN(NAME, T, COUNT, (T)(JOIN_ONE(isod_one_##NAME, op, (T)(x[i] ^ flip), (T)(y[i] ^ flip)) ^ flip))
#define JOIN_JOIN_REAL(NAME, T, COUNT) JOIN_JOIN(NAME, T, COUNT, JOIN_ONE(isod_one_##NAME, op, x[i], y[i]))
#define JOIN_JOIN_COMPLEX(NAME, COUNT) JOIN_JOIN(NAME, struct isod_##NAME, COUNT, isod_##NAME##_prod_reduce(x[i], y[i]))
JOIN_JOIN_INTEGER(u8, uint8_t, 16)
JOIN_JOIN_INTEGER(u16, uint16_t, 8)
JOIN_JOIN_INTEGER(u32, uint32_t, 4)
JOIN_JOIN_INTEGER(u64, uint64_t, 2)
JOIN_JOIN_REAL(f32, float, 4)
JOIN_JOIN_REAL(f64, double, 2)
JOIN_JOIN_COMPLEX(c32, 2)
JOIN_JOIN_COMPLEX(c64, 1)

/* A sum of complex numbers is that of its parts. */
PRIM_FN void join_member_complex(struct prim_vec16 *a, const struct prim_vec16 *b, int op, int32_t dtype)
{
    struct isod_c32 none = {0, 0};
    struct isod_c64 nothing = {0, 0};
    if (dtype == ISOD_ELEM_c32 && op == ISOD_OP_prod_reduce)
        join_member_c32(a, b, op, none);
    else if (dtype == ISOD_ELEM_c32)
        join_member_f32(a, b, op, 0);
    else if (op == ISOD_OP_prod_reduce)
        join_member_c64(a, b, op, nothing);
    else
        join_member_f64(a, b, op, 0);
}

/* The others. */
enum { JOIN_FIRST = -1, JOIN_LOGIC = -2 }; /* beside types */
PRIM_FN bool join_is_logic(int op)
{
    return op == ISOD_OP_and_reduce || op == ISOD_OP_or_reduce || op == ISOD_OP_xor_reduce;
}
PRIM_FN void join_member_logic(struct prim_vec16 *a, const struct prim_vec16 *b, int op)
{
    PRIM_UNROLL
    for (unsigned i = 0; i < 2; i++)
        a->word[i] = op == ISOD_OP_and_reduce  ? a->word[i] & b->word[i]
                     : op == ISOD_OP_or_reduce ? a->word[i] | b->word[i]
                                               : a->word[i] ^ b->word[i];
}

/* A part and that of a unit, joined. A function that stays one: it is long, and kernels have it in several places. */
PRIM_CALL_FN struct prim_vec16 join_units(struct join_acc acc, struct prim_vec16 v, int32_t dtype, int32_t op)
{
    struct prim_vec16 a = acc.acc, b = join_of(dtype, v, acc.part);
    bool signs = op == ISOD_OP_max_reduce || op == ISOD_OP_min_reduce;
    switch (op == JOIN_FIRST ? JOIN_FIRST : join_is_logic(op) ? JOIN_LOGIC : dtype) {
    case JOIN_FIRST:
        return b;
    case JOIN_LOGIC:
        join_member_logic(&a, &b, op);
        break;
    case ISOD_ELEM_u8:
    case ISOD_ELEM_i8:
        join_member_u8(&a, &b, op, signs && dtype == ISOD_ELEM_i8 ? 0x80u : 0);
        break;
    case ISOD_ELEM_u16:
    case ISOD_ELEM_i16:
        join_member_u16(&a, &b, op, signs && dtype == ISOD_ELEM_i16 ? 0x8000u : 0);
        break;
    case ISOD_ELEM_u32:
    case ISOD_ELEM_i32:
        join_member_u32(&a, &b, op, signs && dtype == ISOD_ELEM_i32 ? 0x80000000u : 0);
        break;
    case ISOD_ELEM_u64:
    case ISOD_ELEM_i64:
        join_member_u64(&a, &b, op, signs && dtype == ISOD_ELEM_i64 ? (uint64_t)1 << 63 : 0);
        break;
    case ISOD_ELEM_c32:
    case ISOD_ELEM_c64:
        join_member_complex(&a, &b, op, dtype);
        break;
    case ISOD_ELEM_f64:
        join_member_f64(&a, &b, op, 0);
        break;
    default: /* f32, and what is combined as that */
        join_member_f32(&a, &b, op, 0);
    }
    return a;
}

/* isod_acc_join for the call's type and operator: the m-th of n. */
PRIM_FN void join_member(const struct isod_stream_coll *what, struct join_acc *a, struct prim_vec16 v, int32_t m,
                         int32_t n)
{
    if (m < n)
        a->acc = join_units(*a, v, what->dtype, m == 0 ? JOIN_FIRST : what->op);
}
/* isod_acc_batch for the call's type and operator. */
PRIM_FN void join_batch(const struct isod_stream_coll *what, struct join_acc *a, const struct prim_vec16 *v,
                       int32_t first, int32_t n)
{
    struct prim_vec16 next = v[0], second = v[1], third = v[2];
    PRIM_ROLLED
    for (int32_t k = 0; k < ISOD_BATCH; k++) {
        join_member(what, a, next, first + k, n);
        next = second;
        second = third;
        third = v[3];
    }
}

#define JOIN_DOWN(DOWN, bits, e)                                                         \
    (DOWN(e[0]) | (uint64_t)DOWN(e[1]) << (bits) | (uint64_t)DOWN(e[2]) << 2 * (bits) | \
     (uint64_t)DOWN(e[3]) << 3 * (bits))
/* Scaled, rounded; zero in the other parts of the unit. Integers and complex numbers are not scaled. */
PRIM_CALL_FN struct prim_vec16 join_ended(struct join_acc a, int32_t dtype, uint32_t scaling, double by)
{
    struct isod_acc acc = {{a.acc.word[0], a.acc.word[1], 0, 0}};
    struct prim_vec16 v = {{0, 0}};
    uint64_t bits = 0;
    float e[4];
    if (scaling != ISOD_SCALING_NONE && dtype == ISOD_ELEM_f64)
        isod_acc_scale(ISOD_ELEM_f64, &acc, by, scaling != ISOD_SCALING_TIMES);
    else if (scaling != ISOD_SCALING_NONE && (dtype == ISOD_ELEM_f32 || join_parts_of(dtype) > 1))
        isod_acc_scale(ISOD_ELEM_f32, &acc, by, scaling != ISOD_SCALING_TIMES);
    __builtin_memcpy(e, &acc, sizeof(e));
    switch (dtype) {
    case ISOD_ELEM_f16:
        bits = JOIN_DOWN(isod_half_from_float, 16, e);
        break;
    case ISOD_ELEM_bf16:
        bits = JOIN_DOWN(isod_bfloat16_from_float, 16, e);
        break;
    case ISOD_ELEM_e4m3:
        bits = JOIN_DOWN(isod_e4m3_from_float, 8, e) << 32 * (a.part & 1);
        break;
    case ISOD_ELEM_e5m2:
        bits = JOIN_DOWN(isod_e5m2_from_float, 8, e) << 32 * (a.part & 1);
        break;
    default:
        v.word[0] = acc.word[0];
        v.word[1] = acc.word[1];
        return v;
    }
    bool high = a.part >= join_parts_of(dtype) / 2;
    v.word[0] = high ? 0 : bits;
    v.word[1] = high ? bits : 0;
    return v;
}
/* The end of a whole combination. */
PRIM_FN struct prim_vec16 join_result(const struct isod_stream_coll *what, const struct join_acc *a)
{
    double by = what->scaling == ISOD_SCALING_BY_MEMBERS                                ? (double)what->h.n_pes
                : what->scaling == ISOD_SCALING_TIMES && what->scale_from != NULL ? *what->scale_from
                                                                                  : what->scale;
    return join_ended(*a, what->dtype, what->scaling, by);
}

/* All parts of a unit. */
PRIM_FN void join_unite(struct prim_vec16 *whole, struct prim_vec16 part)
{
    whole->word[0] |= part.word[0];
    whole->word[1] |= part.word[1];
}

#endif
