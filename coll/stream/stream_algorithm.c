/* SPDX-License-Identifier: MIT */
/* The algorithms of collectives on streams that the table may name, and their kernels. An algorithm says what it needs
 * of a call and how much it can carry; the table chooses one of those that can do a call.
 * Invariant: every kind but alltoallv has one without needs, for any operator and any size.
 * Called by coll_stream.c, stream_slot.c (kernels), stream_choice.c and the tuner. */
#include "../../bootstrap/log.h"
#include "batch.h"
#include "coll_stream.h"
#include "pair/pairs.h"

#include <string.h>

/* ---- kernels ---- */

#define DECLARE(name) extern void isod_stream_##name##_kernel(void);
#define DECLARE_MOVE(name, needs) DECLARE(name)
#define DECLARE_SUM(representation, name) DECLARE(name##_sum_##representation)
#define DECLARE_SUMS_SUM(name) ISOD_STREAM_SUM_KERNELS_FOR(DECLARE_SUM, name)
#define DECLARE_SUMS_ANY(name) DECLARE(name##_any)
#define DECLARE_SUMS_ALL(name) DECLARE_SUMS_SUM(name) DECLARE_SUMS_ANY(name)
#define DECLARE_REDUCE(name, needs, operators) DECLARE_SUMS_##operators(name)
ISOD_STREAM_MOVES(DECLARE_MOVE)
ISOD_STREAM_REDUCES(DECLARE_REDUCE)
ISOD_STREAM_PAIRS(DECLARE)
ISOD_STREAM_BATCHES(DECLARE)

#define LIST(name) isod_stream_##name##_kernel,
#define LIST_MOVE(name, needs) LIST(name)
#define LIST_SUM(representation, name) LIST(name##_sum_##representation)
#define LIST_REDUCE_SUM(name) ISOD_STREAM_SUM_KERNELS_FOR(LIST_SUM, name)
#define LIST_REDUCE_ANY(name) LIST(name##_any)
#define LIST_REDUCE_ALL(name) LIST_REDUCE_SUM(name) LIST_REDUCE_ANY(name)
#define LIST_REDUCE(name, needs, operators) LIST_REDUCE_##operators(name)
const gpu_kernel iso_stream_kernels[] = {ISOD_STREAM_MOVES(LIST_MOVE) ISOD_STREAM_REDUCES(LIST_REDUCE)
                                             ISOD_STREAM_BATCHES(LIST)};
const gpu_kernel iso_pair_kernels[] = {ISOD_STREAM_PAIRS(LIST)};
const int iso_pair_n_kernels = sizeof(iso_pair_kernels) / sizeof(iso_pair_kernels[0]);
const int iso_stream_n_kernels = sizeof(iso_stream_kernels) / sizeof(iso_stream_kernels[0]);

/* By type: reduce_ll_sums and so on. */
#define BY_TYPE(representation, type, name) [type] = isod_stream_##name##_sum_##representation##_kernel,
#define TABLE_SUM(name) static const gpu_kernel name##_sums[CALL_TYPES_END] = {ISOD_STREAM_SUMS_FOR(BY_TYPE, name)};
#define TABLE_ANY(name)
#define TABLE_ALL(name) TABLE_SUM(name)
#define TABLE(name, needs, operators) TABLE_##operators(name)
ISOD_STREAM_REDUCES(TABLE)

#define MOVE_NEEDS(name, needs) NEEDS_##name = (needs),
#define REDUCE_NEEDS(name, needs, operators) NEEDS_##name = (needs),
enum { ISOD_STREAM_MOVES(MOVE_NEEDS) ISOD_STREAM_REDUCES(REDUCE_NEEDS) };

/* ---- how much they carry ---- */

/* An inbox holds inbox_bytes of each member's block in an epoch. */
static bool fits_epochs(const struct select_facts *f, unsigned blocks, unsigned epochs)
{
    size_t one = (size_t)blocks * f->inbox_bytes * epochs;
    bool of_blocks = f->kind != SHMEMX_ALLREDUCE && f->kind != SHMEMX_BROADCAST && f->kind != SHMEMX_PERMUTE;
    return f->bytes <= (of_blocks ? one * (size_t)f->n_pes : one);
}
static bool fits_ll(const struct select_facts *f, unsigned blocks) { return fits_epochs(f, blocks, ISOD_LL_EPOCHS); }
static bool fits_ll128(const struct select_facts *f, unsigned blocks)
{
    return fits_epochs(f, blocks, ISOD_EPOCHS_OF_CALL);
}

/* Each member reduces an inbox for all; two epochs a round. */
static bool fits_twoshot_ll(const struct select_facts *f, unsigned blocks)
{
    return f->bytes <= (size_t)blocks * f->inbox_bytes * (size_t)f->n_pes * (ISOD_LL_EPOCHS / 2);
}
static bool fits_twoshot_ll128(const struct select_facts *f, unsigned blocks)
{
    return f->bytes <= (size_t)blocks * f->inbox_bytes * (size_t)f->n_pes * (ISOD_EPOCHS_OF_CALL / 2);
}

/* An epoch has a line of head and lines in pairs. */
static bool fits_head(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return isod_ll128_bytes((uint32_t)f->inbox_bytes) >= 3 * 128;
}

/* A unit for each member, or more. The rest behind equal parts goes by LL, so it has to be less than an inbox. */
static bool fits_spans(const struct select_facts *f, unsigned blocks)
{
    size_t least = 16 * (size_t)f->n_pes;
    (void)blocks;
    return f->bytes >= least && least <= f->inbox_bytes;
}

/* ---- run ---- */

static int run_move(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    return iso_stream_launch(c, a->move, shape, true);
}

static int run_reduce(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    return iso_stream_launch(c, iso_stream_reduction(a, &c->facts), shape, true);
}

/* Loads and stores, where pointers reach what peers touch; on that the members agree. */
static int run_reduce_pipelined(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const struct select_facts *f = &c->facts;
    unsigned touched = f->kind == SHMEMX_ALLREDUCE ? ISOD_NEEDS_SOURCE | ISOD_NEEDS_DEST : ISOD_NEEDS_SOURCE;
    struct stream_call any = *c;
    any.args.by_pointer = (f->has & ISOD_NEEDS_DIRECT) != 0 && (f->near & touched) == touched;
    return run_reduce(&any, a, shape);
}

/* A source that peers do not reach is copied to dest, which they reach: then it is a call in place. */
static int run_reduce_brought(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct stream_call brought = *c;
    brought.args.brought = c->args.source;
    brought.args.source = c->args.dest;
    brought.args.source_place = c->args.dest_place;
    return run_reduce(&brought, a, shape);
}

/* Blocks get parts of the members' equal spans; dest_stride is the whole, with what is left behind the spans. */
static int run_reduce_spans(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct stream_call spans = *c;
    spans.args.bytes = c->args.bytes / 16 / (unsigned)c->args.h.n_pes * 16;
    spans.args.source_stride = spans.args.bytes;
    spans.args.dest_stride = c->args.bytes;
    return run_reduce(&spans, a, shape);
}

/* To a stage, or from it: a block of each member, or one (strides of 0). */
struct stage_blocks {
    char *dest;
    const char *source;
    size_t dest_stride, source_stride, bytes;
};
static int copy_by_stage(const struct stream_call *c, const struct stage_blocks *p)
{
    int rc = 0;
    for (int m = 0; rc == 0 && m < (p->dest_stride != 0 ? c->args.h.n_pes : 1); m++)
        rc = iso_gpu_copy(c->device->gpu, p->dest + (size_t)m * p->dest_stride, p->source + (size_t)m * p->source_stride,
                          p->bytes, c->stream);
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(c->device->gpu));
    return rc;
}

/* Between nodes: what peers touch is copied to the stage, and from it, a piece at a time. No peer touches the stage when
 * a piece's kernel has ended here, so the next piece may follow. */
static int run_by_stage(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const struct stream_range *stage = c->slot->stage.range;
    const struct isod_stream_coll *whole = &c->args;
    bool roots = call_is(&c->call, ROOTED); /* broadcast, whose dest no peer touches: it is read */
    size_t row = iso_stage_row(stage->bytes, iso_engine_row(c), whole->h.n_pes), bytes;
    size_t most = call_is(&c->call, OF_BLOCKS) ? row : row * (size_t)whole->h.n_pes;
    gpu_kernel kernel = a->move != NULL ? a->move : iso_stream_reduction(a, &c->facts);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < whole->bytes; at += bytes) {
        struct stream_call piece = *c;
        struct isod_stream_coll *p = &piece.args;
        p->bytes = bytes = ISO_MIN(most, whole->bytes - at);
        p->source += at;
        p->dest += at;
        if (call_is(&c->call, PEERS_READ)) {
            p->source = stage->address;
            p->source_place = iso_segment_place(stage->address);
            p->source_stride = whole->source_stride != 0 ? row : 0;
            if (!roots || whole->from == whole->h.my_pe)
                rc = copy_by_stage(c, &(struct stage_blocks){stage->address, whole->source + at, p->source_stride,
                                                          whole->source_stride, bytes});
        }
        if (call_is(&c->call, PEERS_WRITE) && !roots) {
            p->dest = stage->address;
            p->dest_place = iso_segment_place(stage->address);
            p->dest_stride = whole->dest_stride != 0 ? row : 0;
        }
        rc = rc == 0 ? iso_stream_launch(&piece, kernel, shape, false) : rc;
        if (rc == 0 && p->dest == stage->address)
            rc = copy_by_stage(c, &(struct stage_blocks){whole->dest + at, stage->address, whole->dest_stride,
                                                      p->dest_stride, bytes});
    }
    return rc == 0 ? 0 : 1;
}

/* ---- the algorithms ---- */

#define KERNEL(kernel, per_thread, how_much, how) \
    .needs = NEEDS_##kernel, .bytes = per_thread, .fits = how_much, .run = how
#define MOVE(kernel, bytes, fits) KERNEL(kernel, bytes, fits, run_move), .move = isod_stream_##kernel##_kernel
#define SUMS(kernel, bytes, fits) KERNEL(kernel, bytes, fits, run_reduce), .sums = kernel##_sums
#define SCALED(kernel, bytes, fits) SUMS(kernel, bytes, fits), .scales = true
#define LINES(kernel, fits) SCALED(kernel, 8, fits), .any = isod_stream_##kernel##_any_kernel
#define BROUGHT(kernel, per_thread) \
    .needs = (NEEDS_##kernel) & ~(unsigned)ISOD_NEEDS_SOURCE, .bytes = per_thread, .run = run_reduce_brought, \
    .sums = kernel##_sums, .scales = true
#define SPANS(kernel, bytes) KERNEL(kernel, bytes, fits_spans, run_reduce_spans), .sums = kernel##_sums
#define ANY(kernel, bytes) KERNEL(kernel, bytes, NULL, run_reduce), .any = isod_stream_##kernel##_any_kernel
#define HIER_TO_ALL(kernel, per_thread) \
    .needs = (NEEDS_##kernel) | ISOD_NEEDS_DEST, .bytes = per_thread, .run = run_reduce, \
    .any = isod_stream_##kernel##_any_kernel
#define PIPELINED(kernel, bytes) \
    KERNEL(kernel, bytes, NULL, run_reduce_pipelined), .any = isod_stream_##kernel##_any_kernel
#define ALL(kernel, bytes, fits) \
    KERNEL(kernel, bytes, fits, run_reduce), .sums = kernel##_sums, .any = isod_stream_##kernel##_any_kernel
#define ENGINES(function) \
    .needs = ISOD_NEEDS_DIRECT | ISOD_NEEDS_DEST | ISOD_NEEDS_STREAMS, .engines = true, .run = function

#define STAGED(kernel, how) \
    .needs = ISOD_NEEDS_DIRECT | ISOD_NEEDS_STAGE, .stages = true, .bytes = 64, .run = how, .sums = kernel##_sums, \
    .scales = true, .averages = true
/* Between nodes, from and to memory that peers do not reach. */
#define BY_STAGE(need) .needs = (need) | ISOD_NEEDS_STAGE, .stages = true, .bytes = 64, .run = run_by_stage
#define MOVE_BY_STAGE(need, kernel) BY_STAGE(need), .move = isod_stream_##kernel##_kernel
#define HIER_BY_STAGE BY_STAGE(ISOD_NEEDS_NODES), .any = isod_stream_reduce_hier_any_kernel

/* clang-format off */
static const struct select_algorithm algorithms[] = {
/*   kind                  name             kernel, bytes a thread, how much it carries */
    {SHMEMX_ALLREDUCE,     "ll",            ALL(reduce_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_ALLREDUCE,     "twoshot_ll",    SUMS(reduce_twoshot_ll, 16, fits_twoshot_ll),
     .why = "two hops of LL, a part each to reduce"},
    {SHMEMX_ALLREDUCE,     "ll128",         LINES(reduce_ll128, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_ALLREDUCE,     "twoshot_ll128", LINES(reduce_twoshot_ll128, fits_twoshot_ll128),
     .why = "two hops of LL128, a part each to reduce"},
    {SHMEMX_ALLREDUCE,     "read",          SCALED(reduce_read, 64, NULL),
     .why = "each member reads all sources, whole data"},
    {SHMEMX_ALLREDUCE,     "twoshot_read",  SCALED(reduce_twoshot_read, 64, NULL),
     .why = "each member reads a part of all and stores it to all"},
    {SHMEMX_ALLREDUCE,     "twoshot_copy",  BROUGHT(reduce_twoshot_read, 64),
     .why = "source copied to dest, then as twoshot_read"},
    {SHMEMX_ALLREDUCE,     "twoshot_dest",  SPANS(reduce_twoshot_dest, 64),
     .why = "stores only, piece by piece, staged in dest"},
    {SHMEMX_ALLREDUCE,     "hier",          HIER_TO_ALL(reduce_hier, 64),
     .why = "parts of nodes, then between nodes, at once"},
    {SHMEMX_ALLREDUCE,     "hier_staged",   HIER_BY_STAGE,
     .why = "copied to where nodes reach it, then as hier"},
    {SHMEMX_ALLREDUCE,     "engines",       STAGED(reduce_arrived, iso_engine_allreduce),
     .why = "copy engines bring parts and results, a part each to sum"},
    {SHMEMX_ALLREDUCE,     "pipelined",     PIPELINED(reduce_pipelined, 64),
     .why = "any memory, any operator, any path"},

    {SHMEMX_REDUCESCATTER, "ll",            ALL(reduce_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_REDUCESCATTER, "ll128",         LINES(reduce_ll128, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_REDUCESCATTER, "read",          SCALED(reduce_read, 64, NULL),
     .why = "each member reads its block of all sources"},
    {SHMEMX_REDUCESCATTER, "push",          SCALED(reduce_push, 64, NULL),
     .why = "stores only, piece by piece, any memory"},
    {SHMEMX_REDUCESCATTER, "hier",          ANY(reduce_hier, 64),
     .why = "parts of nodes, then between nodes, at once"},
    {SHMEMX_REDUCESCATTER, "hier_staged",   HIER_BY_STAGE,
     .why = "copied to where nodes reach it, then as hier"},
    {SHMEMX_REDUCESCATTER, "engines",       STAGED(reduce_arrived, iso_engine_reducescatter),
     .why = "copy engines bring what one pass sums"},
    {SHMEMX_REDUCESCATTER, "pipelined",     PIPELINED(reduce_pipelined, 64),
     .why = "any memory, any operator, any path"},

    {SHMEMX_FCOLLECT,      "ll",            MOVE(exchange_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_FCOLLECT,      "ll128",         MOVE(exchange_ll128, 8, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_FCOLLECT,      "push",          MOVE(exchange_push, 64, NULL),
     .why = "straight into dest"},
    {SHMEMX_FCOLLECT,      "engines",       ENGINES(iso_engine_exchange),
     .why = "copy engines, no compute units"},
    {SHMEMX_FCOLLECT,      "hier",          MOVE(gather_hier, 64, NULL),
     .why = "a piece crosses once and is handed on"},
    {SHMEMX_FCOLLECT,      "hier_staged",   MOVE_BY_STAGE(ISOD_NEEDS_NODES, gather_hier),
     .why = "as hier, then copied from where nodes reach it"},
    {SHMEMX_FCOLLECT,      "push_staged",   MOVE_BY_STAGE(ISOD_NEEDS_FAR, exchange_push),
     .why = "as push, then copied from where peers reach it"},
    {SHMEMX_FCOLLECT,      "engines_staged",
     .needs = ISOD_NEEDS_DIRECT | ISOD_NEEDS_STAGE, .engines = true, .stages = true, .run = iso_engine_fcollect_staged,
     .why = "copy engines to a stage, and from it to any memory"},
    {SHMEMX_FCOLLECT,      "staged",        MOVE(exchange_staged, 64, NULL),
     .why = "any memory, any path"},

    {SHMEMX_ALLTOALL,      "ll",            MOVE(exchange_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_ALLTOALL,      "ll128",         MOVE(exchange_ll128, 8, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_ALLTOALL,      "push",          MOVE(exchange_push, 64, NULL),
     .why = "straight into dest"},
    {SHMEMX_ALLTOALL,      "engines",       ENGINES(iso_engine_exchange),
     .why = "copy engines, no compute units"},
    {SHMEMX_ALLTOALL,      "hier",          MOVE(exchange_hier, 64, NULL),
     .why = "by stores and by the ring at once"},
    {SHMEMX_ALLTOALL,      "staged",        MOVE(exchange_staged, 64, NULL),
     .why = "any memory, any path"},

    {SHMEMX_ALLTOALLV,     "push",          MOVE(alltoallv_push, 0, NULL),
     .why = "straight into dest"},

    {SHMEMX_BROADCAST,     "ll",            MOVE(broadcast_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_BROADCAST,     "ll128",         MOVE(broadcast_ll128, 8, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_BROADCAST,     "twoshot_ll128", MOVE(broadcast_twoshot_ll128, 8, fits_ll128),
     .why = "a part to each, which sends it on, by LL128"},
    {SHMEMX_BROADCAST,     "read",          MOVE(broadcast_read, 64, NULL),
     .why = "all read at the same time, whole data"},
    {SHMEMX_BROADCAST,     "twoshot_read",  MOVE(broadcast_twoshot_read, 64, NULL),
     .why = "each member reads a part and stores it to all"},
    {SHMEMX_BROADCAST,     "read_staged",   MOVE_BY_STAGE(ISOD_NEEDS_FAR, broadcast_read),
     .why = "copied to where peers read it"},
    {SHMEMX_BROADCAST,     "engines",       ENGINES(iso_engine_broadcast),
     .why = "copy engines, no compute units"},
    {SHMEMX_BROADCAST,     "staged",        MOVE(broadcast_staged, 64, NULL),
     .why = "any memory, any path"},

    {SHMEMX_PERMUTE,       "ll",            MOVE(permute_ll, 16, fits_ll),
     .why = "one hop, data and flag in one store"},
    {SHMEMX_PERMUTE,       "ll128",         MOVE(permute_ll128, 8, fits_ll128),
     .why = "one hop, 120 bytes and their flag in one store"},
    {SHMEMX_PERMUTE,       "push",          MOVE(permute_push, 64, NULL),
     .why = "straight into dest"},
    {SHMEMX_PERMUTE,       "engines",       ENGINES(iso_engine_permute),
     .why = "copy engines, no compute units"},
    {SHMEMX_PERMUTE,       "staged",        MOVE(permute_staged, 64, NULL),
     .why = "any memory, any path"},

    {SHMEMX_BARRIER,       "flags",         MOVE(barrier, 0, NULL),
     .why = "one hop of flags, or rounds of them"},
    {SHMEMX_SYNC,          "flags",         MOVE(sync, 0, NULL),
     .why = "one hop of flags, or rounds of them"},

    {SHMEMX_GATHER,        "staged",        MOVE(gather_staged, 64, NULL),
     .why = "to the root alone; any memory, any path"},
    {SHMEMX_SCATTER,       "staged",        MOVE(scatter_staged, 64, NULL),
     .why = "by the root alone; any memory, any path"},
    {SHMEMX_REDUCE,        "staged",        ANY(reduce_rooted, 64),
     .why = "a part each to reduce, results to the root; any memory, any path"},
    {CALL_ALLTOALLV_HOST, "ll128",
     .needs = NEEDS_alltoallv_ll128, .fits = fits_head, .run = iso_list_run_blocks,
     .move = isod_stream_alltoallv_ll128_kernel, .why = "120 bytes and their flag in one store"},
    {CALL_ALLTOALLV_HOST, "staged",
     .needs = NEEDS_alltoallv_staged, .run = iso_list_run_blocks, .move = isod_stream_alltoallv_staged_kernel,
     .why = "any memory, any path"},
    {CALL_FCOLLECT_SPLITS, "engines_staged",
     .needs = ISOD_NEEDS_DIRECT | ISOD_NEEDS_STAGE, .engines = true, .stages = true, .run = iso_engine_fcollect_staged,
     .why = "copy engines to a stage, and from it to the parts"},
    {CALL_FCOLLECT_SPLITS, "staged",
     .needs = NEEDS_splits_staged, .bytes = 64, .run = iso_list_run_splits, .move = isod_stream_splits_staged_kernel,
     .why = "packed on the way; any memory, any path"},
    {CALL_REDUCESCATTER_SPLITS, "engines", STAGED(reduce_arrived, iso_engine_reducescatter),
     .why = "copy engines bring what one pass for each part sums"},
    {CALL_REDUCESCATTER_SPLITS, "staged",
     .needs = NEEDS_reduce_splits, .bytes = 64, .run = iso_list_run_splits, .any = isod_stream_reduce_splits_any_kernel,
     .why = "packed on the way; any memory, any path"},
};
/* clang-format on */

const struct select_plane iso_select_stream = {
    "stream", "on a stream", iso_call_kinds_of_tables, CALL_TABLE_KINDS, algorithms,
    sizeof algorithms / sizeof algorithms[0], ISOD_STREAM_THREADS};
