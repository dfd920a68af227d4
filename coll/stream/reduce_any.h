/* SPDX-License-Identifier: MIT */
/* Elements of reductions on streams whose kind and operator are arguments: one switch a batch of members, instead of
 * some hundred kernels. Includes: stream_device.h. Included by reduce_any_kernels.c and hier_kernels.c. */
#ifndef ISO_REDUCE_ANY_H
#define ISO_REDUCE_ANY_H

#include "stream_device.h"

/* A unit, as it is combined: 16-bit formats are floats there. */
struct any_acc {
    uint64_t word[4];
};

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
PRIM_FN struct prim_vec16 any_vec(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct prim_vec16 v = {{0, 0}};
    switch (what->dtype) {
        ISOD_STREAM_DTYPES(ANY_VEC)
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
        }
    }
    return any_vec(what, &scaled);
}

#endif
