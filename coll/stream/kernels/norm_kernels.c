/* SPDX-License-Identifier: MIT */
/* The kernel behind an all-reduce that adds rows to a residual and normalises them: see ../norm.h. A block does whole
 * rows. Invariant: the bits of a row depend on its values and its length alone, not on the threads or the row's place:
 * squares are summed by a tree of ISOD_NORM_SUMS leaves, whoever adds them. Launched by stream_norm.c. Includes: norm.h,
 * stream_device.h. */
#include "stream_device.h"

#include "../norm.h"

/* The sum, rounded, and what it is added to. */
PRIM_FN struct prim_vec16 norm_add(enum isod_elem elem, struct prim_vec16 sum, struct prim_vec16 to)
{
    struct isod_acc a;
    isod_acc_of(elem, &a, to);
    isod_acc_join(elem, &a, sum, 1, 2, ISOD_OP_sum_reduce);
    return isod_acc_vec(elem, &a);
}

/* ---- a row: its sums ---- */

#define ISOD_NORM_SUMS 512u /* leaves of the tree */

struct norm_floats {
    float e[8]; /* of a unit; where it has four, the others are 0 */
};
PRIM_FN struct norm_floats norm_floats_of(enum isod_elem elem, struct prim_vec16 v)
{
    struct isod_acc a = {{0, 0, 0, 0}};
    struct norm_floats f;
    isod_acc_of(elem, &a, v);
    __builtin_memcpy(&f, &a, sizeof(f));
    return f;
}
PRIM_FN struct prim_vec16 norm_floats_vec(enum isod_elem elem, const struct norm_floats *f)
{
    struct isod_acc a;
    __builtin_memcpy(&a, f, sizeof(a));
    return isod_acc_vec(elem, &a);
}

/* A square is exact, in float of the short types, in double of floats: so it does not matter where a compiler makes one
 * instruction of a product and a sum. */
PRIM_FN float norm_squares(enum isod_elem elem, struct prim_vec16 v)
{
    struct norm_floats f = norm_floats_of(elem, v);
    if (elem == ISOD_ELEM_f32) {
        double d[4] = {(double)f.e[0], (double)f.e[1], (double)f.e[2], (double)f.e[3]};
        return (float)((d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]));
    }
    float low = (f.e[0] * f.e[0] + f.e[1] * f.e[1]) + (f.e[2] * f.e[2] + f.e[3] * f.e[3]);
    float high = (f.e[4] * f.e[4] + f.e[5] * f.e[5]) + (f.e[6] * f.e[6] + f.e[7] * f.e[7]);
    return low + high;
}

/* Of n values, `stride` apart: value i with value i + n / 2, and so on. No loop over an array, which would be stack. */
PRIM_FN float norm_4(const float *p, uint32_t stride)
{
    return (p[0] + p[2 * stride]) + (p[stride] + p[3 * stride]);
}
PRIM_FN float norm_16(const float *p, uint32_t stride)
{
    return (norm_4(p, 4 * stride) + norm_4(p + 2 * stride, 4 * stride)) +
           (norm_4(p + stride, 4 * stride) + norm_4(p + 3 * stride, 4 * stride));
}

/* Memory of the block: leaf p has the units p, p + ISOD_NORM_SUMS .. in this order. */
PRIM_FN float *norm_leaves(void)
{
    PRIM_SHARED(float, leaves, 512);
    return leaves;
}
/* Their sum, for all threads. Two syncs. */
PRIM_FN float norm_sum(void)
{
    PRIM_SHARED(float, branches, 32);
    prim_sync(prim_group_block());
    for (uint32_t q = prim_rank(prim_group_block()); q < 32; q += prim_size(prim_group_block()))
        branches[q] = norm_16(norm_leaves() + q, 32);
    prim_sync(prim_group_block());
    return norm_16(branches, 2) + norm_16(branches + 1, 2);
}

/* The largest of the threads' values, which are no NaN. Two syncs. */
PRIM_FN float norm_most(float mine)
{
    PRIM_SHARED(float, all, 512);
    PRIM_SHARED(float, most, 32);
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    all[rank] = mine;
    prim_sync(prim_group_block());
    for (uint32_t q = rank; q < 32; q += size) {
        float m = 0;
        for (uint32_t i = q; i < size; i += 32)
            m = all[i] > m ? all[i] : m;
        most[q] = m;
    }
    prim_sync(prim_group_block());
    float m = 0;
    PRIM_UNROLL
    for (uint32_t q = 0; q < 32; q++)
        m = most[q] > m ? most[q] : m;
    return m;
}

/* ---- a row ---- */

typedef uint32_t __attribute__((__may_alias__)) norm_any32;
typedef uint64_t __attribute__((__may_alias__)) norm_any64;

struct norm_row {
    const struct isod_stream_norm *a;
    const char *sum;
    char *residual, *to;
    uint64_t number;
    uint32_t units;
    float factor, by; /* of the norm; of e4m3, 1 / scale */
};

/* Unit u of the new residual, which it becomes. */
PRIM_FN struct prim_vec16 norm_join(const struct norm_row *r, uint32_t u, enum isod_elem elem)
{
    char *to = r->residual + (uint64_t)u * 16;
    struct prim_vec16 x = norm_add(elem, prim_load16(r->sum + (uint64_t)u * 16), prim_load16(to));
    prim_store16(to, x);
    return x;
}
PRIM_FN struct prim_vec16 norm_weight(const struct norm_row *r, uint32_t u)
{
    return prim_load16(r->a->weight + (uint64_t)u * 16);
}

PRIM_FN struct norm_floats norm_scaled(const struct norm_row *r, struct prim_vec16 x, struct prim_vec16 weight,
                                       enum isod_elem elem)
{
    struct norm_floats y = norm_floats_of(elem, x), w = norm_floats_of(elem, weight);
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        y.e[i] = y.e[i] * r->factor * w.e[i];
    return y;
}
PRIM_FN float norm_largest(struct norm_floats y, float most)
{
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        float size = y.e[i] < 0 ? -y.e[i] : y.e[i];
        most = size > most ? size : most;
    }
    return most;
}
PRIM_FN void norm_store(const struct norm_row *r, uint32_t u, struct norm_floats y, enum isod_elem elem)
{
    if (r->a->to != ISOD_NORM_E4M3) {
        prim_store16(r->to + (uint64_t)u * 16, norm_floats_vec(elem, &y));
        return;
    }
    uint64_t bytes = 0;
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        bytes |= (uint64_t)isod_e4m3_from_float(y.e[i] * r->by) << 8 * i;
    if (elem == ISOD_ELEM_f32)
        *(norm_any32 *)(void *)(r->to + (uint64_t)u * 4) = (uint32_t)bytes;
    else
        *(norm_any64 *)(void *)(r->to + (uint64_t)u * 8) = bytes;
}

#define ISOD_E4M3_MOST 448.0f
#define ISOD_E4M3_LEAST (1.0f / (448.0f * 512.0f)) /* of a scale */

/* The leaves are there. */
PRIM_FN float norm_factor(const struct isod_stream_norm *a)
{
    return 1.0f / prim_sqrt(norm_sum() / (float)a->hidden + a->eps);
}
/* most: of this thread; not looked at where the scale is given. */
PRIM_FN float norm_by(const struct norm_row *r, float most)
{
    if (r->a->scale != 0)
        return 1.0f / *r->a->scale;
    float scale = norm_most(most) / ISOD_E4M3_MOST;
    scale = scale > ISOD_E4M3_LEAST ? scale : ISOD_E4M3_LEAST;
    if (prim_is_first(prim_group_block()))
        r->a->scales[r->number] = scale;
    return 1.0f / scale;
}

/* By a block of ISOD_NORM_SUMS threads or half of them, in registers. All loads are under way at once. */
#define ISOD_NORM_KEPT 4u
PRIM_FN void norm_kept(struct norm_row *r, enum isod_elem elem)
{
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    struct prim_vec16 x[ISOD_NORM_KEPT] PRIM_UNSET, weight[ISOD_NORM_KEPT] PRIM_UNSET;
    float sum[2] = {0, 0}, most = 0;
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
        if (rank + k * size < r->units) {
            weight[k] = norm_weight(r, rank + k * size);
            x[k] = norm_join(r, rank + k * size, elem);
        }
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
        if (rank + k * size < r->units) {
            float more = norm_squares(elem, x[k]);
            sum[0] += k % 2 == 0 || size == ISOD_NORM_SUMS ? more : 0;
            sum[1] += k % 2 == 0 || size == ISOD_NORM_SUMS ? 0 : more;
        }
    norm_leaves()[rank] = sum[0];
    if (size != ISOD_NORM_SUMS)
        norm_leaves()[rank + size] = sum[1];
    r->factor = norm_factor(r->a);
    if (r->a->to == ISOD_NORM_E4M3) {
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
            if (r->a->scales != 0 && rank + k * size < r->units)
                most = norm_largest(norm_scaled(r, x[k], weight[k], elem), most);
        r->by = norm_by(r, most);
    }
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
        if (rank + k * size < r->units)
            norm_store(r, rank + k * size, norm_scaled(r, x[k], weight[k], elem), elem);
}

/* By any block: a thread reads again what it has written, unit by unit the same ones. */
PRIM_FN struct prim_vec16 norm_again(const struct norm_row *r, uint32_t u)
{
    return prim_load16(r->residual + (uint64_t)u * 16);
}
PRIM_FN void norm_any(struct norm_row *r, enum isod_elem elem)
{
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    float most = 0;
    for (uint32_t p = rank; p < ISOD_NORM_SUMS; p += size) {
        float sum = 0;
        for (uint32_t u = p; u < r->units; u += ISOD_NORM_SUMS)
            sum += norm_squares(elem, norm_join(r, u, elem));
        norm_leaves()[p] = sum;
    }
    r->factor = norm_factor(r->a);
    for (uint32_t p = rank; r->a->scales != 0 && p < ISOD_NORM_SUMS; p += size)
        for (uint32_t u = p; u < r->units; u += ISOD_NORM_SUMS)
            most = norm_largest(norm_scaled(r, norm_again(r, u), norm_weight(r, u), elem), most);
    if (r->a->to == ISOD_NORM_E4M3)
        r->by = norm_by(r, most);
    for (uint32_t p = rank; p < ISOD_NORM_SUMS; p += size)
        for (uint32_t u = p; u < r->units; u += ISOD_NORM_SUMS)
            norm_store(r, u, norm_scaled(r, norm_again(r, u), norm_weight(r, u), elem), elem);
}

/* No sync at a row's end: what the next one writes first, the leaves, was read before the last sync of this one. */
PRIM_FN void norm_rows(const struct isod_stream_norm *a, enum isod_elem elem)
{
    uint32_t size = prim_size(prim_group_block());
    struct norm_row r;
    r.a = a;
    r.units = a->row_bytes / 16;
    r.factor = r.by = 0;
    bool kept = (size == ISOD_NORM_SUMS || 2 * size == ISOD_NORM_SUMS) && r.units <= ISOD_NORM_KEPT * size;
    for (r.number = prim_block_index(); r.number < a->rows; r.number += prim_block_count()) {
        r.sum = a->sum + r.number * a->row_bytes;
        r.residual = a->residual + r.number * a->row_bytes;
        r.to = a->out + r.number * (a->to == ISOD_NORM_E4M3 ? a->hidden : a->row_bytes);
        if (kept)
            norm_kept(&r, elem);
        else
            norm_any(&r, elem);
    }
}

/* ---- kernels ---- */

/* Several blocks share a multiprocessor: bounded as blocks of twice their threads are. */
#define NORM_KERNEL(NAME)                                                                                        \
    PRIM_KERNEL_BOUNDED(isod_stream_norm_##NAME##_kernel, struct isod_stream_norm, a, 2 * ISOD_NORM_SUMS)        \
    {                                                                                                            \
        prim_stream_wait();                                                                                      \
        if (prim_call_begin())                                                                                   \
            norm_rows(&a, ISOD_ELEM_##NAME);                                                                     \
        (void)prim_call_end(0);                                                                                  \
        prim_stream_pass();                                                                                      \
    }
ISOD_STREAM_NORM_TYPES(NORM_KERNEL)
