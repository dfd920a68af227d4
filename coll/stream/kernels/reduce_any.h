/* SPDX-License-Identifier: MIT */
/* Elements of reductions on streams whose kind and operator are arguments: one switch a batch of members, instead of
 * some hundred kernels. Includes: stream_device.h. Included by reduce_any_kernels.c and hier_kernels.c. */
#ifndef ISO_REDUCE_ANY_H
#define ISO_REDUCE_ANY_H

#include "stream_device.h"

PRIM_FN bool any_is_by_halves(const struct isod_stream_coll *what) { return what->dtype >= ISOD_ELEM_e4m3; }
PRIM_FN uint32_t any_parts(const struct isod_stream_coll *what) { return any_is_by_halves(what) ? 2 : 1; }

/* A unit, or word `part` of one. */
struct any_acc {
    struct isod_acc acc;
    uint32_t part;
};
PRIM_FN struct any_acc any_begin(uint32_t part)
{
    struct any_acc a = {{{0, 0, 0, 0}}, part};
    return a;
}

/* The m-th of n joins. */
PRIM_FN void any_join(const struct isod_stream_coll *what, struct any_acc *a, struct prim_vec16 v, int32_t m, int32_t n)
{
    if (any_is_by_halves(what))
        v.word[0] = a->part == 0 ? v.word[0] : v.word[1];
    isod_acc_join((enum isod_elem)what->dtype, &a->acc, v, m, n, what->op);
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

/* Rounded; zero in the other part of the unit. */
PRIM_FN struct prim_vec16 any_vec(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct prim_vec16 v = isod_acc_vec((enum isod_elem)what->dtype, &a->acc);
    if (any_is_by_halves(what) && a->part != 0) {
        v.word[1] = v.word[0];
        v.word[0] = 0;
    }
    return v;
}

/* The end of a whole combination. */
PRIM_FN struct prim_vec16 any_result(const struct isod_stream_coll *what, const struct any_acc *a)
{
    struct any_acc scaled = *a;
    if (what->scaling != ISOD_SCALING_NONE) {
        double by = what->scaling == ISOD_SCALING_BY_MEMBERS ? (double)what->h.n_pes
                    : what->scale_from != NULL               ? *what->scale_from
                                                             : what->scale;
        isod_acc_scale((enum isod_elem)what->dtype, &scaled.acc, by, what->scaling != ISOD_SCALING_TIMES);
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
