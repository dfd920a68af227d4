/* SPDX-License-Identifier: MIT */
/* The schedules of sums by LL128 once more, for all types and operators, which are arguments. Launched by
 * stream_algorithm.c. Includes: reduce_stream.h. */
#include "reduce_stream.h"

ISOD_STREAM_KERNEL(reduce_ll128_any, isod_stream_oneshot(&a, ISOD_BY_LL128, REDUCE_ANY))
ISOD_STREAM_KERNEL(reduce_twoshot_ll128_any, isod_stream_twoshot(&a, ISOD_BY_LL128, REDUCE_ANY))
