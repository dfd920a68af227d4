/* SPDX-License-Identifier: MIT */
/* Reductions inside kernels: allreduce (OpenSHMEM's reduce) and reducescatter, for every operator and every way in
 * which elements are kept in memory. The schedules are a template, reduce_elem.h; here is what they share, the
 * operators, and the list of representations.
 * Invariant: integers wrap; nothing here is undefined for any value. Includes: coll_device.h, move_device.h,
 * half_device.h, shmem_types.h. Included by include/shmem_device_coll.h. */
#ifndef ISO_REDUCE_DEVICE_H
#define ISO_REDUCE_DEVICE_H

#include "../../device/api/half_device.h"
#include "../../include/shmem_types.h"
#include "move_device.h"

/* ISOD_OP_sum_reduce and so on. */
enum isod_reduce_op {
#define ISOD_ENUMERATOR(op, ...) ISOD_OP_##op,
    SHMEM_REDUCE_OPS(ISOD_ENUMERATOR, )
#undef ISOD_ENUMERATOR
        ISOD_REDUCE_OPS
};

/* One call. Member m's result comes from source + m * stride of all members: stride 0 is allreduce. */
struct isod_reduce {
    char *dest;
    const char *source;
    uint64_t bytes, stride;
    uint32_t call;
};

PRIM_FN struct isod_reduce isod_reduce_of(void *dest, const void *source, uint64_t bytes, uint64_t stride)
{
    struct isod_reduce w;
    w.dest = (char *)dest;
    w.source = (const char *)source;
    w.bytes = bytes;
    w.stride = stride;
    w.call = stride == 0 ? ISOD_CALL_REDUCE : ISOD_CALL_REDUCESCATTER;
    return w;
}

/* Units first .. last - 1 of an array of `bytes` that members hold at `source`, combined into `dest`. */
enum isod_span_from { ISOD_SPAN_SOURCES, ISOD_SPAN_STAGES };
enum isod_span_to { ISOD_SPAN_ALL, ISOD_SPAN_OWN };
struct isod_span {
    char *dest;
    const char *source;
    uint64_t first, last, bytes;
    enum isod_span_from from;
    enum isod_span_to to;
};

PRIM_FN struct isod_span isod_span_direct(const struct isod_coll *c, const struct isod_reduce *w)
{
    uint64_t units = isod_units(w->bytes), me = (uint64_t)c->h.my_pe, n = (uint64_t)c->h.n_pes;
    bool all = w->stride == 0;
    struct isod_span s;
    s.dest = w->dest;
    s.source = w->source + me * w->stride;
    s.first = all ? units * me / n : 0;
    s.last = all ? units * (me + 1) / n : units;
    s.bytes = w->bytes;
    s.from = ISOD_SPAN_SOURCES;
    s.to = all ? ISOD_SPAN_ALL : ISOD_SPAN_OWN;
    return s;
}

/* The piece at `at`, which fits a stage. */
PRIM_FN struct isod_span isod_span_staged(const struct isod_coll *c, const struct isod_reduce *w, uint64_t at)
{
    struct isod_span s;
    s.dest = w->dest + at;
    s.source = w->source + (uint64_t)c->h.my_pe * w->stride + at;
    s.bytes = w->bytes - at < c->inbox_bytes ? w->bytes - at : c->inbox_bytes;
    s.first = 0;
    s.last = isod_units(s.bytes);
    s.from = ISOD_SPAN_STAGES;
    s.to = ISOD_SPAN_OWN;
    return s;
}

/* Member m's operand of the span. */
PRIM_FN const char *isod_operand(const struct isod_coll *c, const struct isod_span *s, int32_t m)
{
    if (m == c->h.my_pe)
        return s->source;
    return s->from == ISOD_SPAN_STAGES ? c->here + isod_stage_at(c, m) : isod_near(c->h, s->source, m);
}

PRIM_FN void isod_result_store(const struct isod_coll *c, const struct isod_span *s, uint64_t u, struct prim_vec16 v)
{
    isod_unit_store(s->dest + u * 16, v, s->bytes - u * 16);
    for (uint32_t i = 1; s->to == ISOD_SPAN_ALL && i <= isod_coll_others(c); i++)
        isod_unit_store(isod_near(c->h, s->dest, isod_coll_other(c, i)) + u * 16, v, s->bytes - u * 16);
}

/* Pointers reach what members read and write of each other, and all of them know it of each other: of the heap only.
 * dest of reducescatter is not asked: no other member touches it, so it may lie elsewhere on each. */
PRIM_FN struct isod_facts isod_reduce_facts(shmemd_t h, const struct isod_reduce *w)
{
    struct isod_facts f = isod_facts_of(h, w->bytes);
    uint64_t dest = (uint64_t)((uintptr_t)w->dest - (uintptr_t)h.heap);
    uint64_t source = (uint64_t)((uintptr_t)w->source - (uintptr_t)h.heap);
    f.in_heap = source < h.heap_bytes && (w->stride != 0 || dest < h.heap_bytes);
    return f;
}

/* The part that this block of a grid reduces; false: none. */
PRIM_FN bool isod_reduce_part(shmemd_t h, struct isod_reduce *w)
{
    uint64_t from = 0, len = 0;
    if (!isod_grid_part(h, w->bytes, &from, &len))
        return false;
    w->dest += from;
    w->source += from;
    w->bytes = len;
    return true;
}

/* ---- operators ---- */

#define ISOD_SAME(x) (x)

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

/* ---- the representations ---- */

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

#define ISOD_T int8_t
#define ISOD_A int8_t
#define ISOD_NAME i8
#define ISOD_ONE isod_one_i8
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T uint8_t
#define ISOD_A uint8_t
#define ISOD_NAME u8
#define ISOD_ONE isod_one_u8
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T int16_t
#define ISOD_A int16_t
#define ISOD_NAME i16
#define ISOD_ONE isod_one_i16
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T uint16_t
#define ISOD_A uint16_t
#define ISOD_NAME u16
#define ISOD_ONE isod_one_u16
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T int32_t
#define ISOD_A int32_t
#define ISOD_NAME i32
#define ISOD_ONE isod_one_i32
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T uint32_t
#define ISOD_A uint32_t
#define ISOD_NAME u32
#define ISOD_ONE isod_one_u32
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T int64_t
#define ISOD_A int64_t
#define ISOD_NAME i64
#define ISOD_ONE isod_one_i64
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T uint64_t
#define ISOD_A uint64_t
#define ISOD_NAME u64
#define ISOD_ONE isod_one_u64
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T float
#define ISOD_A float
#define ISOD_NAME f32
#define ISOD_ONE isod_one_f32
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T double
#define ISOD_A double
#define ISOD_NAME f64
#define ISOD_ONE isod_one_f64
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T uint16_t
#define ISOD_A float
#define ISOD_NAME f16
#define ISOD_ONE isod_one_f32
#define ISOD_UP isod_half_to_float
#define ISOD_DOWN isod_half_from_float
#include "reduce_elem.h"
#define ISOD_T uint16_t
#define ISOD_A float
#define ISOD_NAME bf16
#define ISOD_ONE isod_one_f32
#define ISOD_UP isod_bfloat16_to_float
#define ISOD_DOWN isod_bfloat16_from_float
#include "reduce_elem.h"
#define ISOD_T struct isod_c32
#define ISOD_A struct isod_c32
#define ISOD_NAME c32
#define ISOD_ONE isod_one_c32
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"
#define ISOD_T struct isod_c64
#define ISOD_A struct isod_c64
#define ISOD_NAME c64
#define ISOD_ONE isod_one_c64
#define ISOD_UP ISOD_SAME
#define ISOD_DOWN ISOD_SAME
#include "reduce_elem.h"

#endif
