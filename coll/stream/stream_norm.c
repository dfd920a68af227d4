/* SPDX-License-Identifier: MIT */
/* The end of an all-reduce with residual and norm: the kernel behind it. Called by coll_stream.c. */
#include "norm.h" /* first */

#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <string.h>

#define DECLARE(representation) extern void isod_stream_norm_##representation##_kernel(void);
#define LIST(representation) isod_stream_norm_##representation##_kernel,
ISOD_STREAM_NORM_TYPES(DECLARE)
const gpu_kernel iso_norm_kernels[] = {ISOD_STREAM_NORM_TYPES(LIST)};
const int iso_norm_n_kernels = sizeof iso_norm_kernels / sizeof iso_norm_kernels[0];

/* Registers hold a row of up to four units a thread. Where there are many rows, smaller blocks leave fewer idle. */
enum { MOST_ROWS_BY_LARGE_BLOCKS = 128, MOST_BLOCKS = 2048, MOST_BLOCKS_OF_CPU = 2 };

int iso_norm_run(const struct stream_call *c)
{
    const shmemx_rms_norm_t *norm = c->call.coll->rms_norm;
    struct isod_stream_norm args = {.sum = c->args.dest,
                                    .residual = (char *)norm->residual,
                                    .out = (char *)c->call.coll->dest,
                                    .weight = (const char *)norm->weight,
                                    .scale = norm->scale,
                                    .scales = norm->scales,
                                    .row_bytes = (uint32_t)(norm->hidden * c->call.elem_bytes),
                                    .hidden = (uint32_t)norm->hidden,
                                    .eps = (float)norm->eps,
                                    .to = norm->dest_type == SHMEMX_FLOAT8_E4M3 ? ISOD_NORM_E4M3 : ISOD_NORM_AS_TYPE};
    args.rows = (uint32_t)(c->args.bytes / args.row_bytes);
    bool small = args.rows > MOST_ROWS_BY_LARGE_BLOCKS && args.row_bytes <= 16 * 4 * ISOD_NORM_SUMS / 2;
    bool cpu = strcmp(c->device->info->flavour, "cpu") == 0; /* a core takes the threads in turns */
    int32_t type = c->args.dtype;
    struct gpu_launch l = {.kernel = iso_norm_kernels[type == ISOD_ELEM_f32 ? 0 : type == ISOD_ELEM_f16 ? 1 : 2],
                           .grid.x = ISO_MIN(args.rows, cpu ? MOST_BLOCKS_OF_CPU : MOST_BLOCKS),
                           .block.x = ISO_MIN(small ? ISOD_NORM_SUMS / 2 : ISOD_NORM_SUMS, c->slot->most_threads),
                           .args = &args,
                           .args_bytes = sizeof args,
                           .early = true};
    int rc = iso_gpu_launch(c->device->gpu, &l, c->stream);
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(c->device->gpu));
    return rc == 0 ? 0 : 1;
}
