/* SPDX-License-Identifier: MIT */
/* Kernels of sums on streams, one for each schedule and way in which elements are kept, so that an addition is one
 * instruction and nothing is asked about types and operators, but whether a factor comes last. Launched by
 * stream_algorithm.c. Includes: dest_stream.h, ll128_device.h. */
#include "dest_stream.h"
#include "ll128_device.h"

#define ISOD_NAME u32
#include "reduce_stream.h"
#define ISOD_NAME u64
#include "reduce_stream.h"
#define ISOD_NAME f32
#define ISOD_SCALE float
#include "reduce_stream.h"
#define ISOD_NAME f64
#define ISOD_SCALE double
#include "reduce_stream.h"
#define ISOD_NAME f16
#define ISOD_SCALE float
#include "reduce_stream.h"
#define ISOD_NAME bf16
#define ISOD_SCALE float
#include "reduce_stream.h"

#define SUM_KERNELS(NAME, ...)                                                                          \
    ISOD_STREAM_KERNEL(reduce_ll_sum_##NAME, isod_stream_oneshot_##NAME(&a, ISOD_BY_LL))                \
    ISOD_STREAM_KERNEL(reduce_twoshot_ll_sum_##NAME, isod_stream_twoshot_##NAME(&a, ISOD_BY_LL))        \
    ISOD_STREAM_KERNEL(reduce_ll128_sum_##NAME, isod_stream_oneshot_##NAME(&a, ISOD_BY_LL128))          \
    ISOD_STREAM_KERNEL(reduce_twoshot_ll128_sum_##NAME, isod_stream_twoshot_##NAME(&a, ISOD_BY_LL128))  \
    ISOD_STREAM_KERNEL(reduce_read_sum_##NAME, isod_stream_read_##NAME(&a))                             \
    ISOD_STREAM_KERNEL(reduce_twoshot_read_sum_##NAME, isod_stream_twoshot_read_##NAME(&a))             \
    ISOD_STREAM_KERNEL(reduce_twoshot_push_sum_##NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_ALL))      \
    ISOD_STREAM_KERNEL(reduce_twoshot_dest_sum_##NAME, isod_stream_twoshot_dest_##NAME(&a))             \
    ISOD_STREAM_KERNEL(reduce_push_sum_##NAME, isod_stream_push_##NAME(&a, ISOD_SPAN_OWN))
ISOD_STREAM_SUM_KERNELS_FOR(SUM_KERNELS, )
