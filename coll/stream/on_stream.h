/* SPDX-License-Identifier: MIT */
/* Collectives on streams: what their host half (coll_stream.c, stream_choice.c, coll_engine.c) and their kernels
 * (coll_kernels.c) have in common. A call becomes a struct stream_call, is checked, gets a row of the table, and the
 * row's algorithm enqueues kernels or copies. Block b of a kernel works with the blocks b of the other members, over
 * lane b of the slot's handle, on an equal part of the data: no block waits for another block of its PE.
 * Includes: shmem_device.h, shmem_device_coll.h, select/needs.h. Used by coll/. */
#ifndef ISO_ON_STREAM_H
#define ISO_ON_STREAM_H

#ifndef ISOD_LANES_ARE_CHOSEN
#define ISOD_LANES_ARE_BLOCKS /* in kernels of the library: before the first include of device/api/state.h */
#endif
#include "../../include/shmem_device_coll.h"
#include "../select/needs.h"

/* ---- kernels ---- */

/* The one argument of all of them. Data for member m is at source + m * source_stride, data of member m
 * goes to dest + m * dest_stride, `bytes` each; reductions: member m's result comes from source + m * source_stride of
 * all members, stride 0 is allreduce, and `bytes` is of the result. reduce_twoshot_dest: `bytes` and source_stride are
 * of one of the members' spans, dest_stride is of the whole. */
struct isod_stream_coll {
    shmemd_t h;
    char *dest;
    const char *source;
    uint64_t bytes, dest_stride, source_stride;
    uint64_t dest_place, source_place; /* where dest and source are, for the others (place_stream.h); 0: not reached */
    int32_t to, from;     /* permute; broadcast, gather, scatter, reduce: from is the root */
    uint32_t call;        /* enum isod_call, for records */
    int32_t op, dtype;    /* reductions: enum isod_reduce_op, enum isod_elem */
    uint32_t by_pointer;  /* reduce_pipelined: 1: all members by loads and stores; 0: staged. Alike on all members */
    uint64_t share, span; /* see "sizes" below; iso_stream_launch fills them in */
    const char *brought;  /* reduce_twoshot_read: not NULL: copied to source, which is dest, before others read that;
                             reduce_arrived: the stage */
    /* alltoallv, [n] each */
    const uint64_t *v_bytes, *v_source, *v_dest;
    uint64_t *v_received;
    uint64_t v_received_place;
    /* Reductions, of real types: what happens to a sum before it is rounded. scale_from: NULL, or the factor's place. */
    uint32_t scaling; /* enum isod_scaling */
    double scale;
    const double *scale_from;
    const int32_t *nodes; /* of hier_stream.h; NULL: all members are on one node, or each on its own */
    /* What the host knows of blocks or splits, in device memory of the slot. alltoallv: bytes sent, their places, bytes
     * received, their places, [n] each; `bytes` is the largest block sent, of each member its own. Splits:
     * n_splits + 1 begins in a packed block, then n_splits places in a member's block; `bytes` is of a packed block. */
    const uint64_t *list;
    uint32_t n_splits;
    uint32_t to_float; /* reduce_arrived, of 16-bit floats: 1: dest has floats */
    uint32_t tell; /* engine_end: so many members, `tell_first` first, get flags by it; 0: engines have copied them */
    int32_t tell_first;
};

/* The argument of `list`, a kernel that stores words which the host knows: so a graph has them, and the host's arrays
 * may change when the call is enqueued. */
enum { ISOD_STREAM_LIST_WORDS = 448 }; /* with the rest less than 4 KiB, the most of a launch */
struct isod_stream_list {
    uint64_t *to;
    uint64_t n; /* words */
    uint64_t word[ISOD_STREAM_LIST_WORDS];
};

/* AVG divides, so that the result is the nearest number also where 1 / n is none. */
enum isod_scaling { ISOD_SCALING_NONE, ISOD_SCALING_TIMES, ISOD_SCALING_BY_MEMBERS };

/* Threads of a block, at most; members of a team, at most, for kernels that need ISOD_NEEDS_DIRECT or _NODES: a block
 * keeps a table of them. */
#define ISOD_STREAM_THREADS 512
#define ISOD_STREAM_MEMBERS 128

/* Kernels of data: X(name, needs) is isod_stream_##name##_kernel. Those by LL and LL128 carry at most inbox_bytes a
 * block and epoch: by LL128 in at most ISOD_EPOCHS_OF_CALL epochs, by LL in ISOD_LL_EPOCHS, since its words are twice
 * the bytes of their data: above, stages are faster. */
#define ISOD_LL_EPOCHS 8u
#define ISOD_STREAM_MOVES(X)                                                           \
    X(exchange_ll, ISOD_NEEDS_DIRECT) /* fcollect, alltoall */                         \
    X(exchange_push, ISOD_NEEDS_DEST)                                                  \
    X(exchange_staged, ISOD_NEEDS_NOTHING)                                             \
    X(gather_hier, ISOD_NEEDS_NODES | ISOD_NEEDS_DEST)                                 \
    X(exchange_hier, ISOD_NEEDS_NODES | ISOD_NEEDS_DEST)                               \
    X(exchange_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES)                      \
    X(broadcast_ll, ISOD_NEEDS_DIRECT)                                                 \
    X(broadcast_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES)                     \
    X(broadcast_twoshot_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES)             \
    X(broadcast_read, ISOD_NEEDS_SOURCE)                                               \
    X(broadcast_twoshot_read, ISOD_NEEDS_DIRECT | ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE) \
    X(broadcast_staged, ISOD_NEEDS_NOTHING)                                            \
    X(permute_ll, ISOD_NEEDS_DIRECT)                                                   \
    X(permute_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES)                       \
    X(permute_push, ISOD_NEEDS_DEST)                                                   \
    X(permute_staged, ISOD_NEEDS_NOTHING)                                              \
    X(alltoallv_push, ISOD_NEEDS_DEST)                                                 \
    X(gather_staged, ISOD_NEEDS_NOTHING)                                               \
    X(scatter_staged, ISOD_NEEDS_NOTHING)                                              \
    X(alltoallv_staged, ISOD_NEEDS_NOTHING)                                            \
    X(alltoallv_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES)                     \
    X(splits_staged, ISOD_NEEDS_NOTHING) /* fcollect */                                \
    X(list, ISOD_NEEDS_NOTHING)          /* see struct isod_stream_list */             \
    X(barrier, ISOD_NEEDS_NOTHING)                                                     \
    X(sync, ISOD_NEEDS_NOTHING)                                                        \
    X(ll128_probe, ISOD_NEEDS_DIRECT) /* see below */                                  \
    X(engine_begin, ISOD_NEEDS_DIRECT) /* see below */                                 \
    X(engine_end, ISOD_NEEDS_DIRECT)

/* Kernels of reductions: X(name, needs, operators). SUM: isod_stream_##name##_sum_##representation##_kernel for the
 * representations of ISOD_STREAM_SUM_KERNELS_FOR. ANY: one, isod_stream_##name##_any_kernel, for all representations and
 * operators, which are arguments. ALL: both. */
#define ISOD_STREAM_REDUCES(X)                                                                             \
    /* One-shot: all members get all data, by LL. allreduce, reducescatter. */                             \
    X(reduce_ll, ISOD_NEEDS_DIRECT, ALL)                                                                   \
    /* Two-shot: a part each, its result to all, by LL. allreduce. */                                      \
    X(reduce_twoshot_ll, ISOD_NEEDS_DIRECT, SUM)                                                           \
    /* The same by LL128. */                                                                               \
    X(reduce_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES, ALL)                                       \
    X(reduce_twoshot_ll128, ISOD_NEEDS_DIRECT | ISOD_NEEDS_WHOLE_LINES, ALL)                               \
    /* All are here; each member reads all; all have read. allreduce, reducescatter. */                    \
    X(reduce_read, ISOD_NEEDS_DIRECT | ISOD_NEEDS_SOURCE | ISOD_NEEDS_APART, SUM)                          \
    /* All are here; reads a part of all and stores its result to all; all have done it. allreduce. */     \
    X(reduce_twoshot_read, ISOD_NEEDS_DIRECT | ISOD_NEEDS_SOURCE | ISOD_NEEDS_DEST, SUM)                   \
    /* Piece by piece, the next under way while one is reduced: parts into the dests of their owner, its   \
     * results into all dests, which are no sources. allreduce. */                                         \
    X(reduce_twoshot_dest, ISOD_NEEDS_DIRECT | ISOD_NEEDS_DEST | ISOD_NEEDS_APART, SUM)                    \
    /* Piece by piece, into the stages of the owner. reducescatter. */                                     \
    X(reduce_push, ISOD_NEEDS_DIRECT, SUM)                                                                 \
    /* A part of each node for each member of another, by the ring: reducescatter. Its results to all:     \
     * allreduce, which needs a reachable dest too. */                                                     \
    X(reduce_hier, ISOD_NEEDS_NODES | ISOD_NEEDS_SOURCE, ANY)                                              \
    /* As kernels of users do: reads where ranges that peers touch are in the heap, else all data into the \
     * stages of all. allreduce, reducescatter. */                                                         \
    X(reduce_pipelined, ISOD_NEEDS_NOTHING, ANY)                                                           \
    /* In the stages of a part's owner, who sends its result to the root: reduce. */                       \
    X(reduce_rooted, ISOD_NEEDS_NOTHING, ANY)                                                              \
    /* Splits, packed into the stages of their owner: reducescatter. */                                    \
    X(reduce_splits, ISOD_NEEDS_NOTHING, ANY)                                                              \
    /* What copy engines have brought, see below: allreduce, reducescatter. */                             \
    X(reduce_arrived, ISOD_NEEDS_DIRECT, SUM)

/* Sums by kernels of their own: X(representation, ...). Signed integers wrap as unsigned ones do, and complex numbers
 * are pairs, so the host gives those to these: X(representation, shmemx type, ...). */
#define ISOD_STREAM_SUM_KERNELS_FOR(X, ...) \
    X(u32, __VA_ARGS__)                     \
    X(u64, __VA_ARGS__)                     \
    X(f32, __VA_ARGS__)                     \
    X(f64, __VA_ARGS__)                     \
    X(f16, __VA_ARGS__)                     \
    X(bf16, __VA_ARGS__)
#define ISOD_STREAM_SUMS_FOR(X, ...)      \
    X(u32, SHMEMX_UINT32, __VA_ARGS__)    \
    X(u32, SHMEMX_INT32, __VA_ARGS__)     \
    X(u64, SHMEMX_UINT64, __VA_ARGS__)    \
    X(u64, SHMEMX_INT64, __VA_ARGS__)     \
    X(f32, SHMEMX_FLOAT, __VA_ARGS__)     \
    X(f64, SHMEMX_DOUBLE, __VA_ARGS__)    \
    X(f16, SHMEMX_HALF, __VA_ARGS__)      \
    X(bf16, SHMEMX_BFLOAT16, __VA_ARGS__) \
    X(f32, SHMEMX_COMPLEXF, __VA_ARGS__)  \
    X(f64, SHMEMX_COMPLEXD, __VA_ARGS__)

/* ---- copy engines: flags that engines copy ----
 * engine_begin, one block: an epoch of lane 0, in which all members flag each other and wait for each other's flags:
 * all dests may be written. It stores the number of the next epoch in lane 0's `engine`, and what engines then copy are
 * payload and, behind it on the same stream, those 8 bytes onto the receiver's flag of this member. engine_end, one
 * block: that next epoch; it waits for the flags of all members that send to this one (to == -1: of all others, else of
 * member `from`; from == my_pe: of none). Flags only grow, so a member that nothing was sent to in a call misses
 * nothing. */

/* reduce_arrived: row m of the stage, at brought + m * dest_stride, is what member m has sent; the own one is `source`.
 * Waits for no member. */

/* ---- LL128: do stores of 128 bytes arrive whole? ----
 * ll128_probe, by some blocks of whole eights of threads, all members at once: in each of `bytes` rounds each
 * member sends lines of a pattern of its own to all others, as LL128 does. It waits for their lines as LL128 does, and
 * looks at every word of them. The kernel adds how many words were old to *v_received, device memory. Rounds
 * are numbered from `share` on, equal on all members, above all epochs and all numbers of earlier probes. */
#define ISOD_PROBE_FIRST ((uint64_t)1 << 63)
enum { ISOD_PROBE_LINES = 64 }; /* of a block to each member and round, at most as many as fit */

/* ---- sizes ----
 * Blocks get whole units of 16 bytes, equal parts but for the last ones, alike on all members, whose grids are equal.
 * `share` is the bytes of a block's part, less than 64 GiB; `span` is the bytes of each member's part of that, for
 * kernels that split it among the members. A kernel by LL goes over its part in rounds (reduce_ll: inbox_bytes of it;
 * reduce_twoshot_ll: n_pes times that). */

#endif
