/* SPDX-License-Identifier: MIT */
/* The all-reduce that adds to a residual and normalises: how many blocks it has, and how many lanes each of them has.
 * Both depend on the call's sizes and the table's shape alone, so they are alike on all members. Called through the
 * table. */
#include "norm.h" /* first */

#include "../../bootstrap/log.h"
#include "coll_stream.h"

/* A lane for each inbox that a row needs, of those that the shape has. A row that has more takes more rounds. */
static uint32_t lanes_of(const struct isod_stream_norm *args, struct select_shape shape)
{
    uint32_t lanes = 1;
    while (lanes < ISOD_NORM_LANES && 2 * lanes <= shape.grid &&
           (uint64_t)lanes * args->coll.h.inbox_bytes < args->row_bytes)
        lanes *= 2;
    return lanes;
}

static int run(const struct stream_call *c, gpu_kernel kernel, struct select_shape shape, uint32_t rows_of_block)
{
    const shmemx_rms_norm_t *norm = c->call.coll->rms_norm;
    struct isod_stream_norm args = {.coll = c->args,
                                    .out = c->args.dest,
                                    .weight = (const char *)norm->weight,
                                    .scale = norm->scale,
                                    .scales = norm->scales,
                                    .hidden = (uint32_t)norm->hidden,
                                    .eps = (float)norm->eps,
                                    .to = norm->dest_type == SHMEMX_FLOAT8_E4M3 ? ISOD_NORM_E4M3 : ISOD_NORM_AS_TYPE};
    struct gpu_launch l = {
        .kernel = kernel, .block.x = shape.threads, .args = &args, .args_bytes = sizeof args, .early = true};
    args.coll.dest = (char *)norm->residual;
    args.row_bytes = (uint32_t)(norm->hidden * c->call.elem_bytes);
    args.rows = (uint32_t)(c->args.bytes / args.row_bytes);
    args.lanes = rows_of_block != 0 ? lanes_of(&args, shape) : 1;
    uint32_t sets = rows_of_block != 0 ? (args.rows - 1) / rows_of_block + 1 : args.rows;
    l.grid.x = ISO_MIN(shape.grid / args.lanes, sets);
    int rc = iso_gpu_launch(c->device->gpu, &l, c->stream);
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(c->device->gpu));
    return rc == 0 ? 0 : 1;
}

int iso_norm_run_oneshot(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    return run(c, iso_stream_reduction(a, &c->facts), shape, 1);
}
int iso_norm_run_twoshot(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    return run(c, iso_stream_reduction(a, &c->facts), shape, (uint32_t)c->args.h.n_pes);
}
int iso_norm_run_staged(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    return run(c, a->any, shape, 0);
}
