/* SPDX-License-Identifier: MIT */
/* What follows the all-reduce of a call with shmemx_rms_norm_t, in a kernel behind it: its sum is added to a residual,
 * whose rows are normalised. Includes: on_stream.h. Used by coll/. */
#ifndef ISO_NORM_H
#define ISO_NORM_H

#include "on_stream.h"

#define ISOD_NORM_SUMS 512u /* leaves of the tree by which a row's squares are summed */

enum { ISOD_NORM_HIDDEN = 16384 };

enum isod_norm_out { ISOD_NORM_AS_TYPE, ISOD_NORM_E4M3 };

/* out may be sum. */
struct isod_stream_norm {
    const char *sum;
    char *residual, *out;
    const char *weight;
    const float *scale; /* e4m3: not NULL: the factor; else `scales` gets one of each row */
    float *scales;
    uint32_t rows, row_bytes, hidden;
    float eps;
    uint32_t to; /* enum isod_norm_out */
};

/* Types of rows, a kernel each: X(representation). */
#define ISOD_STREAM_NORM_TYPES(X) X(f32) X(f16) X(bf16)

#endif
