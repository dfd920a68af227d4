/* SPDX-License-Identifier: MIT */
/* Kernels of sums on streams, one for each schedule and way in which elements are kept, so that an addition is one
 * instruction and nothing is asked about types and operators. Launched by stream_algorithm.c.
 * Includes: dest_stream.h, ll128_device.h. */
#include "dest_stream.h"
#include "ll128_device.h"

#define ISOD_NAME u32
#include "reduce_stream.h"
#define ISOD_NAME u64
#include "reduce_stream.h"
#define ISOD_NAME f32
#include "reduce_stream.h"
#define ISOD_NAME f64
#include "reduce_stream.h"
#define ISOD_NAME f16
#include "reduce_stream.h"
#define ISOD_NAME bf16
#include "reduce_stream.h"

#define SUM_KERNELS(NAME, ...)                                                              \
    ISOD_STREAM_KERNEL(reduce_lines_sum_##NAME, isod_stream_lines_##NAME(&a))               \
    ISOD_STREAM_KERNEL(reduce_lines2_sum_##NAME, isod_stream_lines2_##NAME(&a))             \
    ISOD_STREAM_KERNEL(reduce_wide_sum_##NAME, isod_stream_wide_##NAME(&a))                 \
    ISOD_STREAM_KERNEL(reduce_wide2_sum_##NAME, isod_stream_wide2_##NAME(&a))               \
    ISOD_STREAM_KERNEL(reduce_read_sum_##NAME, isod_stream_read_##NAME(&a))                 \
    ISOD_STREAM_KERNEL(reduce_read2_sum_##NAME, isod_stream_read2_##NAME(&a))               \
    ISOD_STREAM_KERNEL(reduce_push2_sum_##NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_ALL)) \
    ISOD_STREAM_KERNEL(reduce_dest2_sum_##NAME, isod_stream_dest2_##NAME(&a))               \
    ISOD_STREAM_KERNEL(reduce_push_sum_##NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_OWN))
ISOD_STREAM_SUM_KERNELS_FOR(SUM_KERNELS, )
