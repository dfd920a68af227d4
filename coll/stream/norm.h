/* SPDX-License-Identifier: MIT */
/* The all-reduce whose sum is added to a residual and normalised (shmemx_rms_norm_t): what stream_norm.c and
 * norm_kernels.c have in common. A block does whole rows. It has `lanes` lanes, whose number is a power of two, so that
 * an inbox of each holds a part of the row: block b has the lanes from b * lanes on, and its threads are shared out among
 * them. The residual is what a sum is added to: no thread but the one that combines a unit touches that before the block
 * has synchronised.
 * Includes: on_stream.h. Used by coll/stream/. */
#ifndef ISO_NORM_H
#define ISO_NORM_H

#include "on_stream.h"

enum { ISOD_NORM_LANES = 8, ISOD_NORM_HIDDEN = 16384 };

enum isod_norm_out { ISOD_NORM_AS_TYPE, ISOD_NORM_E4M3 };

/* coll: dest is the residual; `bytes` is of all rows. */
struct isod_stream_norm {
    struct isod_stream_coll coll;
    char *out;
    const char *weight;
    const float *scale; /* e4m3: not NULL: the factor; else `scales` gets one of each row */
    float *scales;
    uint32_t rows, row_bytes, hidden;
    uint32_t lanes;
    float eps;
    uint32_t to; /* enum isod_norm_out */
};

/* Kernels: X(name, needs, operators), as ISOD_STREAM_REDUCES. */
#define ISOD_STREAM_NORMS(X)                                                                       \
    /* One-shot: all members get all rows. */                                                      \
    X(norm_ll, ISOD_NEEDS_DIRECT, SUM)                                                             \
    X(norm_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES, SUM)                                 \
    /* Two-shot: each member sums a part of as many rows as there are members, its result to all. */ \
    X(norm_twoshot_ll, ISOD_NEEDS_DIRECT, SUM)                                                     \
    X(norm_twoshot_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES, SUM)                         \
    /* All rows into the stages of all. */                                                         \
    X(norm_staged, ISOD_NEEDS_NOTHING, ANY)

/* Types of rows: X(representation, ...). */
#define ISOD_STREAM_NORM_TYPES(X, ...) \
    X(f32, __VA_ARGS__)                \
    X(f16, __VA_ARGS__)                \
    X(bf16, __VA_ARGS__)

#endif
