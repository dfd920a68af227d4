/* SPDX-License-Identifier: MIT */
/* Kernels of sums on streams, one for each schedule and way in which elements are kept, so that an addition is one
 * instruction and nothing is asked about types and operators. Launched by stream_algorithm.c.
 * Includes: stream_device.h. */
#include "stream_device.h"

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

#define SUM_KERNEL(kernel, NAME, CALL)                                                                               \
    PRIM_KERNEL_BOUNDED(isod_stream_##kernel##_sum_##NAME##_kernel, struct isod_stream_coll, a, ISOD_STREAM_THREADS) \
    {                                                                                                                \
        int rc = 0;                                                                                                  \
        if (prim_call_begin())                                                                                       \
            rc = CALL;                                                                                               \
        (void)prim_call_end(rc);                                                                                     \
    }
#define SUM_KERNELS(NAME, ...)                                                       \
    SUM_KERNEL(reduce_lines, NAME, isod_stream_lines_##NAME(&a))                \
    SUM_KERNEL(reduce_lines2, NAME, isod_stream_lines2_##NAME(&a))              \
    SUM_KERNEL(reduce_read, NAME, isod_stream_read_##NAME(&a))                  \
    SUM_KERNEL(reduce_read2, NAME, isod_stream_read2_##NAME(&a))                \
    SUM_KERNEL(reduce_push2, NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_ALL)) \
    SUM_KERNEL(reduce_push, NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_OWN))
ISOD_STREAM_SUM_KERNELS_FOR(SUM_KERNELS, )
