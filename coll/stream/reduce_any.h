/* SPDX-License-Identifier: MIT */
/* Elements of reductions on streams whose kind and operator are arguments: one switch a batch of members, instead of
 * some hundred kernels. Includes: stream_device.h. Included by reduce_any_kernels.c and hier_kernels.c. */
#ifndef ISO_REDUCE_ANY_H
#define ISO_REDUCE_ANY_H

#include "stream_device.h"

/* Formats of 8 bits: half a unit is combined at a time, so that an accumulator of floats is no larger than others. */
#define ISOD_ELEMS 8
#define ISOD_T uint8_t
#define ISOD_A float
#define ISOD_ONE isod_one_f32
#define ISOD_NAME e4m3
#define ISOD_UP isod_e4m3_to_float
#define ISOD_DOWN isod_e4m3_from_float
#include "../kernel/reduce_acc.h"
#undef ISOD_NAME
#undef ISOD_UP
#undef ISOD_DOWN
#define ISOD_NAME e5m2
#define ISOD_UP isod_e5m2_to_float
#define ISOD_DOWN isod_e5m2_from_float
#include "../kernel/reduce_acc.h"
#undef ISOD_ELEMS
#undef ISOD_T
#undef ISOD_A
#undef ISOD_ONE
#undef ISOD_NAME
#undef ISOD_UP
#undef ISOD_DOWN

PRIM_FN bool any_is_by_halves(const struct isod_stream_coll *what) { return what->dtype >= ISOD_DTYPE_e4m3; }
PRIM_FN uint32_t any_parts(const struct isod_stream_coll *what) { return any_is_by_halves(what) ? 2 : 1; }

/* A unit, or word `part` of one, as it is combined: short formats are floats there. */
struct any_acc {
    uint64_t word[4];
    uint32_t part;
};
PRIM_FN struct any_acc any_begin(uint32_t part)
{
    struct any_acc a = {{0, 0, 0, 0}, part};
    return a;
}

#define ANY_JOIN(NAME, ...)                          \
    case ISOD_DTYPE_##NAME: {                        \
        struct isod_acc_##NAME b;                    \
        __builtin_memcpy(&b, a, sizeof(b));          \
        isod_acc_join_##NAME(&b, v, m, n, what->op); \
        __builtin_memcpy(a, &b, sizeof(b));          \
        break;                                       \
    }
/* The m-th of n joins. */
PRIM_FN void any_join(const struct isod_stream_coll *what, struct any_acc *a, struct prim_vec16 v, int32_t m, int32_t n)
{
    if (any_is_by_halves(what))
        v.word[0] = a->part == 0 ? v.word[0] : v.word[1];
    switch (what->dtype) {
        ISOD_STREAM_DTYPES(ANY_JOIN)
    }
}
/* isod_acc_batch for the call's type and operator. A loop that stays one: what it holds is long. */
PRIM_FN void any_batch(const struct isod_stream_coll *what, struct any_acc *a, const struct prim_vec16 *v,
                       int32_t first, int32_t n)
{
    struct prim_vec16 next = v[0], second = v[1], third = v[2];
    for (int32_t k = 0; k < ISOD_BATCH; k++) {
        any_join(what, a, next, first + k, n);
        next = second;
        second = third;
        third = v[3];
    }
}

#define ANY_VEC(NAME, ...)                  \
    case ISOD_DTYPE_##NAME: {               \
        struct isod_acc_##NAME b;           \
        __builtin_memcpy(&b, a, sizeof(b)); \
        v = isod_acc_vec_##NAME(&b);        \
        break;                              \
    }
/* Rounded; zero in the other part of the unit. */
PRIM_FN struct prim_vec16 any_vec(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct prim_vec16 v = {{0, 0}};
    switch (what->dtype) {
        ISOD_STREAM_DTYPES(ANY_VEC)
    }
    if (any_is_by_halves(what) && a->part != 0) {
        v.word[1] = v.word[0];
        v.word[0] = 0;
    }
    return v;
}

#define ANY_SCALE(NAME, T)                                                                  \
    case ISOD_DTYPE_##NAME: {                                                               \
        struct isod_acc_##NAME b;                                                           \
        __builtin_memcpy(&b, &scaled, sizeof(b));                                           \
        PRIM_UNROLL                                                                         \
        for (unsigned i = 0; i < sizeof(b) / sizeof(T); i++)                                \
            b.e[i] = what->scaling == ISOD_SCALING_TIMES ? b.e[i] * (T)by : b.e[i] / (T)by; \
        __builtin_memcpy(&scaled, &b, sizeof(b));                                           \
        break;                                                                              \
    }
/* The end of a whole combination. */
PRIM_FN struct prim_vec16 any_result(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct any_acc scaled = *a;
    if (what->scaling != ISOD_SCALING_NONE) {
        double by = what->scaling == ISOD_SCALING_BY_MEMBERS ? (double)what->h.n_pes
                    : what->scale_from != NULL               ? *what->scale_from
                                                             : what->scale;
        switch (what->dtype) {
            ANY_SCALE(f32, float)
            ANY_SCALE(f64, double)
            ANY_SCALE(f16, float)
            ANY_SCALE(bf16, float)
            ANY_SCALE(e4m3, float)
            ANY_SCALE(e5m2, float)
        }
    }
    return any_vec(what, &scaled);
}

/* Both parts of a unit. */
PRIM_FN void any_unite(struct prim_vec16 *whole, struct prim_vec16 part)
{
    whole->word[0] |= part.word[0];
    whole->word[1] |= part.word[1];
}

#endif
