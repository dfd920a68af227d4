/* SPDX-License-Identifier: MIT */
/* The kernel of a reduction, and the launch of one kernel of a collective on a stream. Called by the algorithms:
 * stream_algorithm.c, stream_list.c and coll_engine.c. */
#include "../../bootstrap/log.h"
#include "coll_stream.h"

gpu_kernel iso_stream_reduction(const struct select_algorithm *a, const struct select_facts *f)
{
    bool sums = f->op == SHMEMX_SUM || (f->scaled && a->scales) || (f->op == SHMEMX_AVG && a->averages);
    gpu_kernel sum = sums && a->sums != NULL ? a->sums[f->type] : NULL;
    /* Lines have 15 words: an element of two words would lie in two of them. As a sum it is two elements. */
    bool cut = f->type == SHMEMX_COMPLEXD && (a->needs & ISOD_NEEDS_WHOLE_LINES) != 0;
    return sum != NULL ? sum : cut ? NULL : a->any;
}

int iso_stream_launch(const struct stream_call *c, gpu_kernel kernel, struct select_shape shape, bool early)
{
    struct isod_stream_coll args = c->args;
    struct gpu_launch l = {.kernel = kernel,
                           .grid.x = shape.grid,
                           .block.x = shape.threads,
                           .args = &args,
                           .args_bytes = sizeof args,
                           .early = early};
    uint64_t units = (args.bytes + 15) / 16, share = (units + shape.grid - 1) / shape.grid, n = (uint64_t)args.h.n_pes;
    args.share = share * 16;
    args.span = (share + n - 1) / n * 16;
    int rc = iso_gpu_launch(c->device->gpu, &l, c->stream);
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(c->device->gpu));
    return rc == 0 ? 0 : 1;
}
