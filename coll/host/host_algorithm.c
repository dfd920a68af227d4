/* SPDX-License-Identifier: MIT */
/* The algorithms of the host's collectives, of which the table may name any. An algorithm says what it needs.
 * Called by host_choice.c and by coll/select, which reads their names. */
#include "../select/select.h"
#include "alltoall.h"
#include "bcast.h"
#include "collect.h"
#include "hier_move.h"
#include "hier_reduce.h"
#include "reduce.h"
#include "scan.h"

/* ---- the algorithms ---- */

static bool fits_inbox(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return f->bytes <= ISO_INBOX_BYTES;
}
static bool fits_stage(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return f->bytes <= ISO_STAGE_BYTES;
}
/* The node scratch holds a block of each member, or one for each pair of members. */
static bool fits_scratch(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return f->bytes <= ISO_SCRATCH_BYTES / (size_t)f->n_pes;
}
static bool fits_scratch_rows(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return f->bytes <= ISO_SCRATCH_BYTES / (size_t)f->n_pes / (size_t)f->n_pes;
}
/* Of several nodes: n + 1 blocks, each rounded up and behind a head. */
static bool holds_heads(const struct select_facts *f, size_t bytes)
{
    return bytes <= ISO_SCRATCH_BYTES && (bytes + 16) * ((size_t)f->n_pes + 1) <= ISO_SCRATCH_BYTES;
}
static bool fits_operands(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return holds_heads(f, f->bytes);
}
static bool fits_heads(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return holds_heads(f, ISO_INBOX_BYTES);
}
static bool fits_node_rows(const struct select_facts *f, unsigned blocks)
{
    (void)blocks;
    return f->bytes <= ISO_SCRATCH_BYTES / (size_t)f->n_pes / (size_t)f->most_near;
}

/* clang-format off */
static const struct select_algorithm algorithms[] = {
    {COLL_BARRIER,   "central",         ISOD_NEEDS_DIRECT, .barrier = iso_barrier_central,
     .why = "PEs share cores: one atomic each, and each is scheduled once"},
    {COLL_BARRIER,   "hier",            ISOD_NEEDS_NODES, .barrier = iso_barrier_hier,
     .why = "PEs of several nodes: a counter on each, log2 n messages for each"},
    {COLL_BARRIER,   "flags",           ISOD_NEEDS_NOTHING, .barrier = iso_barrier_flags,
     .why = "one hop"},
    {COLL_BARRIER,   "dissemination",   ISOD_NEEDS_NOTHING, .barrier = iso_barrier_dissemination,
     .why = "log2 n hops instead of n lines to read"},

    {COLL_BROADCAST, "hier",            ISOD_NEEDS_NODES, .run_host = hier_bcast,
     .why = "PEs of several nodes: one message to each, handed on by pointer"},
    {COLL_BROADCAST, "pipe",            ISOD_NEEDS_SPAN, .run_host = hier_bcast_pipe,
     .why = "from node to node in chunks"},
    {COLL_BROADCAST, "push",            ISOD_NEEDS_NOTHING, .run_host = bcast_push,
     .why = "one hop, and no answer is needed"},
    {COLL_BROADCAST, "tree",            ISOD_NEEDS_NOTHING, .run_host = bcast_tree,
     .why = "the root writes log2 n dests instead of n"},
    {COLL_BROADCAST, "pull",            ISOD_NEEDS_NOTHING, .run_host = bcast_pull,
     .why = "receivers copy at the same time, and each cache line crosses once"},

    {COLL_COLLECT,   "hier",            ISOD_NEEDS_NODES, .fits = fits_heads, .run_host = hier_collect,
     .why = "PEs of several nodes: each block once to each node, copied there by pointer"},
    {COLL_COLLECT,   "push",            ISOD_NEEDS_NOTHING, .run_host = collect_push,
     .why = "lengths and short blocks in one hop, long blocks straight into dest"},
    {COLL_COLLECT,   "pull",            ISOD_NEEDS_NOTHING, .run_host = collect_pull,
     .why = "lengths and short blocks in one hop; of long blocks, each cache line crosses once"},

    {COLL_FCOLLECT,  "node_scratch",    ISOD_NEEDS_DIRECT, .fits = fits_scratch, .run_host = fcollect_scratch,
     .why = "PEs share cores: each touches few lines and is scheduled once"},
    {COLL_FCOLLECT,  "hier",            ISOD_NEEDS_NODES, .fits = fits_operands, .run_host = hier_fcollect,
     .why = "PEs of several nodes: all blocks of a node in one message"},
    {COLL_FCOLLECT,  "rails",           ISOD_NEEDS_NODES, .run_host = hier_fcollect_rails,
     .why = "PEs of several nodes: each block once to each node, copied there by pointer as it comes"},
    {COLL_FCOLLECT,  "inbox",           ISOD_NEEDS_NOTHING, .fits = fits_inbox, .run_host = fcollect_inbox,
     .why = "one hop, data and flag in one cache line"},
    {COLL_FCOLLECT,  "push",            ISOD_NEEDS_NOTHING, .run_host = fcollect_push,
     .why = "one hop, straight into dest"},
    {COLL_FCOLLECT,  "pull",            ISOD_NEEDS_NOTHING, .run_host = fcollect_pull,
     .why = "each cache line crosses once, which is worth a second synchronisation"},

    {COLL_ALLTOALL,  "node_scratch",    ISOD_NEEDS_DIRECT, .fits = fits_scratch_rows, .run_host = alltoall_scratch,
     .why = "PEs share cores: each touches few lines and is scheduled once"},
    {COLL_ALLTOALL,  "hier",            ISOD_NEEDS_NODES, .fits = fits_node_rows, .run_host = hier_alltoall,
     .why = "PEs of several nodes: all blocks from node to node in one message"},
    {COLL_ALLTOALL,  "inbox",           ISOD_NEEDS_NOTHING, .fits = fits_inbox, .run_host = alltoall_inbox,
     .why = "one hop, data and flag in one cache line"},
    {COLL_ALLTOALL,  "push",            ISOD_NEEDS_NOTHING, .run_host = alltoall_push,
     .why = "one hop, straight into dest"},
    {COLL_ALLTOALL,  "pull",            ISOD_NEEDS_NOTHING, .run_host = alltoall_pull,
     .why = "each cache line crosses once, which is worth a second synchronisation"},

    {COLL_ALLTOALLS, "inbox",           ISOD_NEEDS_NOTHING, .fits = fits_inbox, .run_host = alltoalls_inbox,
     .why = "one hop, data and flag in one cache line"},
    {COLL_ALLTOALLS, "staged",          ISOD_NEEDS_FAR, .run_host = alltoalls_staged,
     .why = "packed where no pointer reaches"},
    {COLL_ALLTOALLS, "push",            ISOD_NEEDS_NOTHING, .run_host = alltoalls_push,
     .why = "one hop, straight into dest"},

    {COLL_REDUCE,    "node_scratch",    ISOD_NEEDS_DIRECT, .run_host = reduce_scratch,
     .why = "PEs share cores: one synchronisation"},
    {COLL_REDUCE,    "hier",            ISOD_NEEDS_NODES, .fits = fits_operands, .run_host = hier_reduce,
     .why = "PEs of several nodes: all operands of a node in one message"},
    {COLL_REDUCE,    "inbox",           ISOD_NEEDS_NOTHING, .fits = fits_inbox, .run_host = reduce_inbox,
     .why = "one hop, data and flag in one cache line"},
    {COLL_REDUCE,    "staged",          ISOD_NEEDS_NOTHING, .fits = fits_stage, .run_host = reduce_staged,
     .why = "one hop, each member reduces all"},
    {COLL_REDUCE,    "twoshot",         ISOD_NEEDS_NOTHING, .run_host = reduce_twoshot,
     .why = "each member reduces a part for all"},
    {COLL_REDUCE,    "chain",           ISOD_NEEDS_SPAN | ISOD_NEEDS_ORDER, .run_host = hier_reduce_chain,
     .why = "PEs of several nodes: parts run through the nodes in chunks, results back"},
    {COLL_REDUCE,    "twoshot_central", ISOD_NEEDS_DIRECT, .run_host = reduce_twoshot_central,
     .why = "each member reduces a part; PEs share cores and synchronise by a counter"},

    {COLL_SCAN,      "node_scratch",    ISOD_NEEDS_DIRECT, .run_host = scan_scratch,
     .why = "PEs share cores: one synchronisation"},
    {COLL_SCAN,      "hier",            ISOD_NEEDS_NODES, .fits = fits_operands, .run_host = hier_scan,
     .why = "PEs of several nodes: all operands of a node in one message"},
    {COLL_SCAN,      "inbox",           ISOD_NEEDS_NOTHING, .fits = fits_inbox, .run_host = scan_inbox,
     .why = "one hop, data and flag in one cache line"},
    {COLL_SCAN,      "chain",           ISOD_NEEDS_NODE_ORDER | ISOD_NEEDS_APART, .run_host = hier_scan_chain,
     .why = "PEs of several nodes: sums run through the nodes in chunks"},
    {COLL_SCAN,      "twoshot_central", ISOD_NEEDS_DIRECT, .run_host = scan_twoshot_central,
     .why = "each member scans a part; PEs share cores and synchronise by a counter"},
    {COLL_SCAN,      "twoshot",         ISOD_NEEDS_NOTHING, .run_host = scan_twoshot,
     .why = "each member scans a part for all"},
};
/* clang-format on */

static const char *const kinds[COLL_OPS] = {"barrier",  "broadcast", "collect", "fcollect",
                                            "alltoall", "alltoalls", "reduce",  "scan"};
const struct select_plane iso_select_host = {"host", "on the host", kinds, COLL_OPS, algorithms,
                                             sizeof algorithms / sizeof algorithms[0], 0};
