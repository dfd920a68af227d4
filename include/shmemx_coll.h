/* SPDX-License-Identifier: MIT */
/* Collectives on streams: extensions to OpenSHMEM. Included by shmemx.h.
 *
 * A call enqueues: it begins after the work that is in the stream now, ends before later work, and returns at once. It
 * may be captured into a graph and replayed any number of times; no part of it runs on the host.
 *
 * Buffers: later work in the stream may rewrite source and read dest. Peers may write dest and read source from the
 * moment this PE's stream has come to the call until the call ends on that stream, never before and never after.
 * Therefore back-to-back calls on the same buffers need nothing between them. dest and source do not overlap; the calls
 * below say where they may be equal.
 *
 * Results: reductions combine elements in the order of members, floats of 16 and 8 bits in float with one rounding. In
 * a team that spans nodes, first the elements of each node are combined so, then the results of the nodes, in the order
 * of their first members. So results are the same bits on all members, in every run and by every algorithm. They are
 * batch-invariant: the bits of an element depend on the members' elements alone, not on nelems, its place, the
 * algorithm, a graph, or where buffers lie. Not so for a team of other members, in another order, or divided into other
 * nodes, nor for SHMEMX_AVG beside a sum that the caller divides. NaNs are NaNs, of any bits. Integers wrap.
 *
 * Who calls, memory, copy engines, nodes, what is returned, and errors while a call runs: at shmemx_coll_on_stream,
 * whose contract all calls on streams have. On host memory: shmemx_coll_on_host. */
#ifndef SHMEMX_COLL_H
#define SHMEMX_COLL_H

#include "shmemx.h" /* may be included in either order */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one call for all of them ---- */

/* Kinds of calls. n is the number of members.
 * ALLREDUCE      nelems of all members, combined, to dest of all members; dest may be source, then on all members
 * REDUCESCATTER  source holds n blocks of nelems; member m gets the combination of the blocks m; its dest may be its
 *                own block m of source
 * FCOLLECT       nelems of each member (all-gather), in their order, to dest of all members, n * nelems; source may be
 *                this PE's own block of dest
 * ALLTOALL       block m (nelems) of source to block my_pe of member m's dest
 * ALLTOALLV      as `blocks` says; nelems is not used
 * BROADCAST      the root's source to dest of all members, the root's too; dest may be source, then on all members
 * PERMUTE        nelems of source to the dest of member `to`, where this PE is `from`; a PE that sends to itself
 *                receives from itself, and may have dest == source
 * BARRIER        as shmemx_barrier_on_stream, in the slot's sequence
 * SYNC           as shmemx_sync_on_stream, in the slot's sequence
 * GATHER         nelems of each member, in their order, to dest of the root, n * nelems; at the root source may be its
 *                own block of dest
 * SCATTER        block m (nelems) of the root's source, n * nelems, to dest of member m; at the root dest may be its
 *                own block of source
 * REDUCE         as ALLREDUCE, the same bits, to dest of the root alone; at the root dest may be source
 * GATHER and REDUCE do not look at dest, SCATTER not at source, of a member that is not the root: it may be NULL. */
enum {
    SHMEMX_ALLREDUCE,
    SHMEMX_REDUCESCATTER,
    SHMEMX_FCOLLECT,
    SHMEMX_ALLTOALL,
    SHMEMX_ALLTOALLV,
    SHMEMX_BROADCAST,
    SHMEMX_PERMUTE,
    SHMEMX_BARRIER,
    SHMEMX_SYNC,
    SHMEMX_GATHER,
    SHMEMX_SCATTER,
    SHMEMX_REDUCE
};

/* Types of elements in memory. complexf and complexd have sum and prod only.
 * FLOAT8_E4M3, FLOAT8_E5M2   8 bits, as torch.float8_e4m3fn and torch.float8_e5m2 have them. Results are rounded as
 *                            torch 2.13 rounds a float: to nearest, ties to even; NaN stays NaN. e4m3 has no infinity
 *                            and saturates: larger results than 448, infinite ones too, become 448 (torch before 2.13
 *                            may make NaN of them). In e5m2 61440 and more become infinity.
 * BOOL                       one byte, 0 or 1; other bytes are not for reductions. A sum, like max, is "or"; a product,
 *                            like min, is "and" */
enum {
    SHMEMX_UINT8, /* bytes */
    SHMEMX_INT8,
    SHMEMX_UINT16,
    SHMEMX_INT16,
    SHMEMX_UINT32,
    SHMEMX_INT32,
    SHMEMX_UINT64,
    SHMEMX_INT64,
    SHMEMX_FLOAT,
    SHMEMX_DOUBLE,
    SHMEMX_HALF,
    SHMEMX_BFLOAT16,
    SHMEMX_COMPLEXF,
    SHMEMX_COMPLEXD,
    SHMEMX_FLOAT8_E4M3,
    SHMEMX_FLOAT8_E5M2,
    SHMEMX_BOOL
};
/* and, or, xor: integers and bool only. The last two are for real types only (float, double, half, bfloat16, and both
 * of 8 bits). min and max of a NaN and a number are one of them.
 * SHMEMX_AVG         the sum divided by the number of members
 * SHMEMX_SCALED_SUM  the sum times a factor, which is equal on all members: `scale`, or the word at `scale_from`
 * The sum is made in float for formats of 16 and 8 bits, then divided or multiplied, then rounded once: a sum that is
 * beyond the type's range may have a result within it. (On streams, parts of these formats are rounded on their way
 * between nodes.) */
enum {
    SHMEMX_SUM,
    SHMEMX_PROD,
    SHMEMX_MIN,
    SHMEMX_MAX,
    SHMEMX_AND,
    SHMEMX_OR,
    SHMEMX_XOR,
    SHMEMX_AVG,
    SHMEMX_SCALED_SUM
};

/* Sizes and places of an ALLTOALLV. The first three are arrays of n words in this PE's device memory, read when the
 * call runs: bytes[m], less than 64 GiB, go to member m, from source + source_offset[m] to dest + dest_offset[m] of
 * member m. Room at the receiver is not checked. `received` is reachable, or NULL on all members: word m of it becomes
 * the number of bytes that came from member m. */
typedef struct {
    const uint64_t *bytes, *source_offset, *dest_offset;
    uint64_t *received;
} shmemx_blocks_t;

/* The same where the host knows the sizes, also of what comes: arrays of n words in memory of the host, read before the
 * call returns; so a graph replays what they were at its capture. send_bytes[m], less than 64 GiB, from source +
 * send_offset[m] go to member m; receive_bytes[m] of member m go to dest + receive_offset[m]. Offsets are in bytes;
 * NULL: the blocks lie one behind the other. dest and source are any memory, each member's elsewhere; blocks do not
 * overlap. dest may be NULL where nothing comes, source where nothing is sent.
 *
 * receive_bytes[m] is send_bytes of member m for this one. Where it is not, the smaller number of bytes arrives,
 * nothing is written elsewhere, and the call ends. The receiver prints a sentence with both numbers, and
 * shmemx_device_error has them. On a stream it is then as if the receiver had given up at the end of the call:
 * shmemx_stream_synchronize returns nonzero there until shmemx_device_reset (shmemx_device_abort). Members whose sizes
 * fit are not told. SHMEM_DEBUG=1 finds this when the calls are enqueued, and ends the job. */
typedef struct {
    const size_t *send_bytes, *send_offset;
    const size_t *receive_bytes, *receive_offset;
} shmemx_host_blocks_t;

/* An FCOLLECT or REDUCESCATTER whose block is n parts, as the parameters of a model are. Arrays of the host, n words
 * each, read before the call returns, and equal on all members. Part i is nelems[i] elements, at offset[i] of a
 * member's block; offset NULL: the parts lie one behind the other. Among the blocks of all members, part i of all of
 * them stands together: that of member m is at offset[i] * n_pes + m * nelems[i]. So
 *   FCOLLECT        part i of member m: from its source + offset[i] to offset[i] * n_pes + m * nelems[i] of all dests
 *   REDUCESCATTER   part i: what all sources have at offset[i] * n_pes + m * nelems[i], combined, to offset[i] of
 *                   member m's dest
 * Parts are in ascending order, do not overlap, and lie within `nelems` of the call, the size of a block. Elements in
 * no part are neither read nor written. Not in place; engines only by `stage_bytes`. dest and source are any memory,
 * each member's elsewhere.
 *
 * Parts that lie apart, as tensors do: `dests` and `sources` are NULL, or n addresses each, of this PE, aligned to the
 * elements; the address of a part of no elements is not looked at. With dests, `dest` of the call is not looked at, and
 * part i goes to dests[i]; with sources, part i comes from sources[i]. There it is nelems[i] elements, or n_pes *
 * nelems[i] where all members' parts stand together. Only copy engines carry such calls; where they cannot, the call is
 * an error. So is it with `to_float`. All members give the same ones of the two, each its own addresses. */
typedef struct {
    size_t n;
    const size_t *nelems, *offset;
    void *const *dests;
    const void *const *sources;
} shmemx_splits_t;

/* An ALLREDUCE that ends in what follows it in a transformer: for each row (token), residual becomes residual + the sum
 * of all members' rows, and dest becomes its RMS norm times weight. By shmemx_allreduce_rms_norm_on_stream, or as a
 * field of shmemx_coll_t, whose other fields then are: kind SHMEMX_ALLREDUCE, op SHMEMX_SUM; source, rows * hidden
 * elements of `type`; nelems, that number; dest, as many elements of dest_type. On streams only.
 *
 *   type        SHMEMX_FLOAT, SHMEMX_HALF or SHMEMX_BFLOAT16, of source, residual and weight
 *   dest_type   the same, or SHMEMX_FLOAT8_E4M3
 *   hidden      elements of a row: a multiple of 8, 8 .. 16384
 *   residual    rows * hidden elements, equal on all members; weight: hidden elements, equal on all members
 *   eps         0 or more
 *   sum         where the members' sums go on the way to dest: rows * hidden elements of `type`; NULL: dest. It may be
 *               source, whose values are lost then. For SHMEMX_FLOAT8_E4M3 it is given, since dest is too short
 *   scale, scales   for SHMEMX_FLOAT8_E4M3 one of them, else both are NULL. scale: one float, which is read, equal on
 *               all members. scales: a float for each row, which is written
 *
 * The sum is the allreduce's. The new residual is made in float from residual and sum, rounded once. From the rounded
 * residual x, in float: y = x / sqrt(mean(x * x) + eps) * weight. Of dest_type = type y is rounded once. Of
 * SHMEMX_FLOAT8_E4M3 y * (1 / scale) is rounded as that type's results are, where scale is the one that is given, or the
 * largest |y| of the row / 448, at least 1 / (448 * 512), which `scales` gets.
 * The bits of a row depend on the members' rows, residual, weight and this struct alone: not on the number of rows, the
 * place among them, the algorithm, or the member.
 *
 * Memory: device memory of any kind, each member's elsewhere. It is aligned to 16 bytes; a dest of SHMEMX_FLOAT8_E4M3 to
 * 8, scale and scales to 4. Where dest_type is type, dest, source and sum may each be another one of them. Other
 * overlaps of what is written are errors. The struct is read before the call returns, in a batch by the end of the
 * group; scale when the call runs. The sums come by the algorithm that the tables have for an allreduce of memory that
 * peers do not reach, then one kernel does the rest. background and stage_bytes change nothing. */
typedef struct {
    void *residual;
    const void *weight;
    size_t hidden;
    double eps;
    int dest_type;
    const float *scale;
    float *scales;
    void *sum;
} shmemx_rms_norm_t;

/* One call. Fields that the kind does not need are zero. */
typedef struct {
    int kind;          /* SHMEMX_ALLREDUCE .. SHMEMX_REDUCE */
    shmem_team_t team; /* root, to and from are PE numbers of it */
    void *dest;
    const void *source;
    size_t nelems;
    int type;                      /* SHMEMX_UINT8 .. SHMEMX_BOOL */
    int op;                        /* reductions: SHMEMX_SUM .. */
    int root;                      /* broadcast, gather, scatter, reduce */
    int to, from;                  /* permute */
    const shmemx_blocks_t *blocks; /* alltoallv */

    int slot; /* 0 .. 255: which sequence of calls this one belongs to */
    /* 1: by copy engines, without compute units: fcollect, alltoall, broadcast, permute, with a dest whose place is
     * known (see "Memory"), where pointers reach all members; else an error. An error also where copies by engines did
     * not arrive when the device started (some HIP of 2026; isomer-info says why). In graphs, and where streams cannot
     * wait for a word of memory, one wave waits. All members make such a call in a graph, or none does. */
    int engines;
    /* fcollect with engines: a signal for each piece, so that a receiver can begin with it. Piece c of member m's block
     * is chunk_bytes at c * chunk_bytes, the last one shorter. It has arrived when word m * ceil(bytes / chunk_bytes) +
     * c of `signals` has become *signal_value. `bytes` is the size of a block. `signals` is device memory with words
     * for all members, this PE included; its place is known as that of dest is. signal_value points to one word of this
     * PE's device memory, read when the call runs and equal on all members. Wait by shmemd_signal_wait_until or
     * shmemx_signal_wait_until_on_stream. */
    uint64_t *signals;
    const uint64_t *signal_value;
    size_t chunk_bytes;
    /* SHMEMX_SCALED_SUM: the factor. scale_from: NULL, or a word of this PE's device memory, read when the call runs (in
     * a graph: at each launch); then `scale` is not used. */
    double scale;
    const double *scale_from;
    const shmemx_host_blocks_t *host_blocks; /* alltoallv, instead of `blocks`, then on all members */
    const shmemx_splits_t *splits;           /* fcollect, reducescatter; NULL: a block is one piece */
    /* 1: dest is symmetric and at the same place on all members, or symmetric on none: engines may carry the call */
    int same_place;
    /* 1: a computation of this PE runs beside the call and is what counts: the call leaves it the multiprocessors, by
     * copy engines or few blocks, where a table has rows for this ("background"), and may take longer. 0: nothing does.
     * Equal on all members. It changes no result, and nothing in shmemx_coll_on_host. */
    int background;
    /* The most device memory that the slot may take on each member for a stage: 4 KiB for each member, or more; 0:
     * none. With it, where pointers reach all members and outside of captures, engines may carry fcollect with any
     * dest, and bring what is summed in allreduce and reducescatter: sum, average and scaled sum of half, bfloat16 and
     * types of 4 and 8 bytes; of complex ones the sum. Between nodes and outside of captures, allreduce, reducescatter,
     * fcollect and broadcast may use it for memory that peers do not reach, which is copied to it and from it a piece
     * at a time. All members make such a call in a capture, or none does. Equal on all members. A call that needs more
     * than the slot has waits on the host, as the first one does, until all members have come to it and the slot's last
     * call here has ended. When a member has no room, all go on with what there is. Kept until the team goes. */
    size_t stage_bytes;
    /* 1: dest has floats, to which the sum is not rounded: reducescatter with `splits`, of half or bfloat16, by sum,
     * average or scaled sum, on streams, by copy engines (`stage_bytes`). Equal on all members. */
    int to_float;
    const shmemx_rms_norm_t *rms_norm; /* allreduce; NULL: no residual, no norm */
} shmemx_coll_t;

/* Enqueues one call.
 *
 * Who calls: all members of the team make the calls of one (team, slot) in the same order with equal arguments, each
 * on a stream of its own choice. Calls of one slot follow one another, also when a PE makes them on different streams:
 * a call then first waits for all work that is in the stream of the slot's last call when it is enqueued. In a capture
 * it waits for the last call of the slot in that capture, which its stream joins; no call waits from within a capture
 * for one outside of it, or the other way round. So launch a graph behind calls of its slots that are in other
 * streams, and behind other graphs with these slots (shmemx_stream_wait_stream). A stream of the vendor's that has a
 * slot's last call may be destroyed after the slot's next call on another stream, or with the team. Calls that may run
 * at the same time take different slots. Copy engines may carry fcollect, alltoall, broadcast and permute, with
 * `stage_bytes` also allreduce and reducescatter: all members make such a call in a capture, or none does. The first
 * call of a (team, slot) with data or a synchronisation to do makes what the slot needs and waits until all members do
 * so; it may not be in a capture. The members find each other by team and slot. So threads may make the first calls of
 * several slots in another order on each member, and beside collectives of the host on that team. shmemx_slot_prepare
 * does the same ahead.
 *
 * Memory: dest and source are device memory (on the CPU device any memory), aligned to their elements, complex ones to
 * their parts. Multiples of 16 are faster. A block, which is nelems of the type, is less than 64 GiB. With nelems 0
 * nothing is enqueued. dest and source may each be reachable or not. Reachable memory is symmetric (shmemx_malloc,
 * shmemx_team_malloc, registered buffers) or local (shmemx_local_malloc, shmemx_torch_malloc). A buffer that peers
 * touch is reachable on all members or on none: dest of fcollect, alltoall, alltoallv and permute, source of
 * reducescatter, both of allreduce and broadcast. It may lie at another place on each member and in each call, in
 * memory of another kind too: the members tell each other in the call, and a captured call keeps its own place. A
 * registered buffer counts as reachable when all members have it; where it is memory of the host (CPU device), it is a
 * registered buffer of the host on all members. Memory that peers touch lies in one registered buffer or in none. Other
 * buffers may differ between members: they may be registered for some of them, in part, or not at all.
 *   both reachable       the members' kernels or engines move data straight from source to dest
 *   only one of them     the same for fcollect, alltoall and permute when it is dest, for broadcast and reducescatter
 *                        when it is source, and for allreduce: pushes need a reachable dest, reads a reachable source
 *   otherwise            data goes by staging memory of the slot, piece by piece. Where stores of 128 bytes arrive whole
 *                        (NVLink), that is about as fast. Elsewhere it is so up to the size of packets
 *                        (SHMEM_DEVICE_BLOCKS times 8 KiB in teams of at most 8), above that about half as fast, and
 *                        allreduce sends n - 1 times the bytes
 *
 * alltoallv with `blocks` needs a reachable dest and `received`; its source is any device memory. dest and source of
 * gather, scatter, reduce, of alltoallv with `host_blocks`, and of fcollect and reducescatter with `splits` are any
 * device memory, which may be reachable on some members and not on others: all their data goes by staging memory.
 *
 * Copy engines need to know before the call where dest is on the members: by shmemx_rendezvous, or because dest is
 * symmetric and at the same place of the same object on all members. The caller says the latter by `same_place`, by
 * `engines`, or by a call by name (shmemx_T_fcollect_on_stream and the like): dests of these are symmetric and at the
 * same place on all members, or symmetric on none. Only then are large calls of fcollect, alltoall, broadcast and
 * permute given to engines without being asked.
 *
 * A team may span nodes: pointers reach only the members of the own node. When one of these nodes has several members,
 * data that many members of a node need, or have combined, crosses to another node once. That holds for fcollect with a
 * reachable dest, for reducescatter with a reachable source, and for allreduce when both are reachable. With
 * `stage_bytes` it also holds for other memory, in calls of more than 2 MiB.
 *
 * Return: 0; or after a sentence on stderr, with nothing enqueued, -EINVAL for a wrong argument, also a type that the
 * operator does not take; else -EIO: a slot that cannot be made, copy engines asked for where they cannot do it, a job
 * that is broken.
 * A member that gets -EINVAL has not taken part: the calls of the others wait until it makes the call again, and report
 * it after SHMEM_TIMEOUT.
 *
 * SHMEM_DEBUG=1 on all members compares each call with those of the other members when it is enqueued or captured:
 * kind, nelems, type, operator, scale, root, to with from, engines, same_place, background, stage_bytes, whether
 * signals is given, chunk_bytes, splits, whether they have dests and sources, to_float, rms_norm but for its addresses,
 * whether host_blocks is given and its sizes, and whether blocks->received is. It compares whether dest and source are
 * reachable and by what, as far as that must be alike; in allreduce and broadcast whether dest is source; of kinds that
 * copy engines may carry whether the call is captured, and in calls that they carry the place of dest; and which of a
 * batch's calls one kernel does. The first calls of a slot compare the slot. A sentence names the argument that differs
 * and both calls. Then the job ends, or is broken on all PEs with this sentence (SHMEMX_ERRORS_RETURN).
 * Calls that are 64 or more apart are not compared, and replays of graphs are not either.
 *
 * Errors while a call runs: after SHMEM_TIMEOUT, shmemx_device_error tells which PE is waited for, and the call goes on
 * waiting. After shmemx_device_abort it gives up, which is an error of its own, and ends. Its dest is undefined then,
 * and calls of this slot on this PE do nothing until shmemx_device_reset. Until then shmemx_stream_synchronize and
 * shmemx_graph_launch return nonzero on this PE (shmemx_device_abort). Members that have not given up may go on to the
 * end of the call, and write the dests of members that have. So synchronise all members' streams, and then reset,
 * before dest is used for anything else.
 *
 * Copies by engines are asked for, or are the library's choice for large data. They cannot be stopped once they are
 * enqueued: a member that has given up in such a call may still write the others' dest until its stream is idle,
 * whether they have come to the call or not. New calls by engines are refused while this PE's kernels are told to give
 * up; graphs are not. Copies that wait for a member may hold up copies of other slots, because a GPU has fewer queues
 * than streams. Therefore calls by engines of all slots are made in the same order on all members. */
int shmemx_coll_on_stream(const shmemx_coll_t *coll, shmemx_stream_t stream);

/* The same on host memory, at once and without a device, in every flavour. All kinds, types and operators, as above,
 * with these differences:
 *   who calls     all members, with equal arguments, in one order with the other collectives of shmem.h on this team;
 *                 `slot` is not looked at, `engines` and the signals are zero
 *   splits        without dests, sources and to_float
 *   memory        dest, source, scale_from and all that `blocks` points to are host memory at any address, of any
 *                 alignment, private or symmetric, another one on each member; `received` may be NULL on some members.
 *                 Where receive_bytes of host_blocks is wrong, the receiver returns nonzero after the sentence.
 *                 No member writes another's dest, or reads its source after its call has returned: they are busy only
 *                 while the own call runs. On one node, blocks above 16 KiB (allreduce: above that for each member) are
 *                 read where they lie: memory of this library by pointer, private memory by process_vm_readv, where the
 *                 kernel allows it to all members.
 *                 Symmetric memory that the caller writes is not seen by peers before they are told. A block may have
 *                 any size, but one of host_blocks is less than 64 GiB.
 *   results       elements are combined in the order of members, also between nodes, 16-bit and 8-bit floats in float,
 *                 rounded once: on one node the same bits as on a stream
 *   BARRIER       as shmem_quiet on all contexts of this PE, and SYNC
 * Each member needs 16 KiB of staging memory for each other member, which each team has. Reductions that read private
 * memory allocate at most 1 MiB while they run; else a call allocates nothing.
 *
 * Returns 0 when this member's dest is complete and its source may be written, which says nothing of the others; or
 * after a sentence on stderr -EINVAL for a wrong argument, with nothing done, or for a call that differs from another
 * member's, with dest undefined, so that the team can go on; or -EIO with dest undefined: a job that is broken
 * (SHMEMX_ERRORS_RETURN), blocks of other sizes than a member sends. With nelems 0 nothing else is done.
 * A member with a wrong argument has not taken part: the others wait until it makes the call again, and report it after
 * SHMEM_TIMEOUT.
 *
 * Calls that differ: where pointers reach all members, each call compares kind, nelems, type, operator, the factor of
 * SHMEMX_SCALED_SUM, root, splits, background, whether host_blocks is given, its send_bytes with receive_bytes, and to
 * with from.
 * When one of the last two differs, both members of the pair return -EIO, and all other data arrives. Any other
 * difference is an error of all members: a sentence on each names both calls and the first argument that differs. In
 * SHMEMX_ERRORS_RETURN all return -EINVAL; else the job ends. A call with nelems 0, a BARRIER or SYNC of more than 8
 * members, teams with members on other nodes, and calls of shmem.h on the same team are compared with SHMEM_DEBUG=1
 * only. Without it, a call with nelems 0 that meets another one is found at the next call of its member. */
int shmemx_coll_on_host(const shmemx_coll_t *coll);

/* ---- send and receive ----
 *
 * shmemx_send_on_stream enqueues a message of `bytes` bytes from `source` to member `to` of the team, and
 * shmemx_recv_on_stream the receive of one from member `from` into `dest`. Both return at once; they begin and end in
 * their streams as collectives do, and may be captured into graphs.
 *
 * Arguments: source and dest are device memory of any kind and alignment (on the CPU device any memory); to and from
 * are PE numbers of the team, also this PE's own. bytes is less than 64 GiB and may be 0, and then the pointer is not
 * looked at. tag is 0 or more.
 *
 * Matching: the k-th send of a member to another with a tag and a team goes to the k-th receive there with that tag and
 * team, counted in the order in which the calls are enqueued (in a graph: in which they run, at each launch). Messages
 * of different tags do not wait for each other. Calls of one sender, receiver, tag and direction follow one another,
 * also on different streams, as those of a slot do. At most 32 tags of teams that are alive may be in use from one PE
 * to another.
 *
 * Who calls: these two members. Nothing is made together: no other member takes part, and no call waits on the host.
 * The first call of this PE on a stream, of any kind here, loads kernels and may not be in a capture.
 *
 * Buffers and blocking: a receive ends on its stream when dest is complete, a send when source may be rewritten. A send
 * may end before its receive begins: once the receiver's stream has come to its first receive of that sender and tag,
 * up to 4 messages of at most 16 KiB, or 64 KiB or more of a longer one, are kept for later receives. Before that,
 * and beyond it, a send waits for its receive. So two members that send to each other before they receive may wait
 * forever: put both calls into a batch (below), in any order, or on two streams.
 *
 * Memory: the receiver has 514 KiB of slot memory for each sender and tag, less where there is little, and the sender
 * 1.5 KiB, until the team is destroyed.
 *
 * Returns 0; or after a sentence on stderr, with nothing enqueued, -EINVAL for a wrong argument, else -EIO: too many
 * tags, no memory.
 * When a receive and its message differ in length, dest is not written. The receiver reports both lengths; then it is
 * as if the receive had given up. The sender is not told.
 * Errors while a call runs are those of collectives: after the team's timeout, shmemx_device_error tells which PE is
 * waited for. After a call has given up, sends and receives of the team on this PE do nothing until shmemx_device_reset
 * of the team, with any slot, which begins all its sends and receives anew. Those in a batch with another team's, and
 * those that began in a capture (shmemx_team_break), keep SHMEM_TIMEOUT, and do not end with their team alone: when one
 * gives up, all of these on this PE, and point-to-point calls on streams on memory of no team, do nothing. */
int shmemx_send_on_stream(shmem_team_t team, const void *source, size_t bytes, int to, int tag, shmemx_stream_t stream);
int shmemx_recv_on_stream(shmem_team_t team, void *dest, size_t bytes, int from, int tag, shmemx_stream_t stream);

/* ---- batches ----
 *
 * Between shmemx_coll_group_begin and shmemx_coll_group_end of a thread, its calls of shmemx_coll_on_stream (and of the
 * names below that stand for it), shmemx_send_on_stream and shmemx_recv_on_stream are collected and return 0. The end
 * checks all of them and enqueues them by few launches:
 *   sends and receives   those of one stream by one kernel, at most 96 of them. It makes progress with all at once, so
 *                        their order does not matter, except that of messages of one pair and tag. These are on
 *                        one stream.
 *   fcollect, alltoall   those of one slot whose blocks are at most as large as an inbox (8 KiB in teams of at most 8,
 *                        2 KiB of at most 32, else 512 bytes) by one kernel for 96 calls, when no other call of that
 *                        slot stands between them. Where this PE has them on several streams, the kernel begins when
 *                        all these streams have come to it, and all of them go on when it ends
 *   other calls          each as alone
 * On a stream, sends and receives come first, then the collectives in their order. Calls of a batch may run at the same
 * time: none of them reads or writes what another one writes. SHMEM_COLL does not choose for calls that are merged.
 *
 * Who calls: all members put the same collectives into the same batches, each on streams of its own choice. Those of
 * one slot are on streams of one capture, or on streams that are not captured. SHMEM_DEBUG=1 compares which calls one
 * kernel does. Sends and receives may be in different batches at both ends, or in none. Groups may be nested; then the
 * outermost end enqueues.
 *
 * Arrays that `blocks` points to are read when the calls run, the struct itself when the call is collected. What
 * `host_blocks` and `splits` point to is read by the end of the group.
 *
 * Returns 0; or nonzero after a sentence on stderr. begin: no device runs. end: the thread has no group, or a call is
 * wrong (-EINVAL where it is an argument). Then no call is enqueued. When a launch fails, the calls before it are. The
 * calls of a group that shmem_finalize finds open in its thread are not made, and a sentence says so. */
int shmemx_coll_group_begin(void);
int shmemx_coll_group_end(void);

/* Makes what collectives on streams of (team, slot) need, as their first call would: the warm-up before a capture. A
 * team may have all 256 slots; the memory for them is found when they are made. `slot` is 0 .. 255. max_blocks bounds
 * the blocks of the slot's calls, and so its memory: 1 or more, or 0 for as many as the device and SHMEM_DEVICE_BLOCKS
 * allow. One block moves fewer bytes a second, and is as fast for small messages. Device memory of a slot, on each PE,
 * in a team of n, for each block:
 *     n at most 8     n * 67,840 bytes + 128 (8 PEs: 530 KiB)
 *     n at most 32    n * 17,152 bytes + 256
 *     more            n *  4,480 bytes + the 8 n bytes of flags, rounded up to 128
 * and 32 n bytes for places, rounded up to 128, and 384 bytes for tables; and 16 n bytes and 8 KiB (n above 256: 32 n)
 * for each slot. The CPU device uses what is touched of it. shmemx_info_text says how much is in use.
 *
 * Collective over the team, with equal slot; threads may prepare several slots in any order, as in first calls. Must not
 * be called during a capture. Does nothing when the slot is made already. Returns 0; or nonzero after a sentence on
 * stderr, on all members when one has no memory for it. */
int shmemx_slot_prepare(shmem_team_t team, int slot, int max_blocks);

/* Tells all members of the team where each member's range of `bytes` at `address` lies: once, for the copy engines of
 * all later calls of this team. Dest (and `signals`) of a call by engines then lies in the range of one rendezvous, at
 * the same offset on all members; the ranges themselves may lie anywhere. So does any dest of a kind that engines may
 * carry, if it lies in such a range on one member. address: memory of shmemx_malloc,
 * shmemx_team_malloc or shmemx_local_malloc, or a registered buffer; bytes: its length, equal on all members.
 *
 * Collective over the team, at any time, in one order with its other collectives on the host. A range that lies in an
 * older one, at the same offset on all members, is known already. Older ranges that overlap it in another way, on any
 * member, are forgotten on all members; so are all ranges of the team when bytes is 0 (address is not looked at then),
 * and when the team is destroyed. Memory that is freed stays known: before calls of kinds that engines may carry use
 * memory in its place on some members only, forget it by another rendezvous.
 *
 * Returns 0; or nonzero on all members after a sentence on stderr: memory that is not reachable, bytes that differ, no
 * memory. Nonzero on this PE alone when `team` is not a team of this PE or no device runs. */
int shmemx_rendezvous(shmem_team_t team, void *address, size_t bytes);

/* Says in one line which algorithm such a call takes, and why. Writes at most `bytes` characters and returns the length
 * of the whole text, like snprintf. All members get the same answer, but need not all ask. Before the first call of a
 * (team, slot) the answer is that it is not known yet. Returns 0 after a sentence on stderr: the call would be wrong.
 * docs/collectives.md lists the tables and variables that decide. The first call of a (team, slot) tries whether the
 * algorithms with LL128 are possible. */
size_t shmemx_coll_explain(const shmemx_coll_t *coll, char *text, size_t bytes);

/* Measures on the devices of this job which algorithm is best for each kind, size and team, and writes a table to
 * `path`. Later programs take their algorithms from it. `isomer-info --tune` is this call. Starts the device as
 * shmemx_device_init does. Takes twice the largest size of each PE's device heap, and seconds to minutes.
 *
 * path: the file on each node. One PE of the node writes it, as a whole or not at all. NULL: the place where programs
 * look for it: SHMEM_COLL_TABLE, else $XDG_CACHE_HOME/isomer or ~/.cache/isomer, a file for each kind of device.
 *
 * most_bytes: sizes are 1 KiB, 4 KiB .. up to it, and the table is for calls up to the largest size. 1024 or more;
 * beyond 256 MiB nothing changes. 0: all sizes, up to 256 MiB on a GPU and 1 MiB on the CPU device; the table is for
 * larger calls as well.
 *
 * verbose: nonzero shows progress on the stderr of PE 0, and at the end the place of the table and its gains.
 *
 * Measured are sums of bfloat16, over the whole job and over teams of 2, 4, 8 .. PEs, the largest two of them. A
 * program that has called no collective on a stream before takes the table from then on; any other keeps what it has. A
 * warning on stderr says when measurements spread: for more than a quarter of the calls, two times differed by 15 % or
 * more. The table is written all the same.
 *
 * Collective over the world, with equal arguments, while no other work is under way. Returns 0; or nonzero after a
 * sentence on stderr, with the table as it was: there is one PE only, the file cannot be written, there is no room, a
 * result is wrong. A failure of one PE while the others wait for it ends the job. */
int shmemx_coll_tune(const char *path, size_t most_bytes, int verbose);

/* ---- the same by name: slot 0, and the library chooses the algorithm ---- */

static inline shmemx_coll_t shmemx_coll_of(int kind, shmem_team_t team, void *dest, const void *source, size_t nelems,
                                           int type)
{
    shmemx_coll_t c; /* C++ warns of { 0 } */
    c.kind = kind;
    c.team = team;
    c.dest = dest;
    c.source = source;
    c.nelems = nelems;
    c.type = type;
    c.op = c.root = c.to = c.from = c.slot = c.engines = 0;
    c.blocks = NULL;
    c.signals = NULL;
    c.signal_value = NULL;
    c.chunk_bytes = 0;
    c.scale = 1;
    c.scale_from = NULL;
    c.host_blocks = NULL;
    c.splits = NULL;
    c.same_place = 0;
    c.background = 0;
    c.stage_bytes = 0;
    c.to_float = 0;
    c.rms_norm = NULL;
    return c;
}

static inline int shmemx_fcollectmem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes,
                                               shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_FCOLLECT, team, dest, source, bytes, SHMEMX_UINT8);
    c.same_place = 1;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_alltoallmem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes,
                                               shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLTOALL, team, dest, source, bytes, SHMEMX_UINT8);
    c.same_place = 1;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_alltoallv_on_stream(shmem_team_t team, void *dest, const void *source,
                                             const shmemx_blocks_t *blocks, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLTOALLV, team, dest, source, 0, SHMEMX_UINT8);
    c.blocks = blocks;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_alltoallv_host_on_stream(shmem_team_t team, void *dest, const void *source,
                                                  const shmemx_host_blocks_t *blocks, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLTOALLV, team, dest, source, 0, SHMEMX_UINT8);
    c.host_blocks = blocks;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_gathermem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes, int root,
                                             shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_GATHER, team, dest, source, bytes, SHMEMX_UINT8);
    c.root = root;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_scattermem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes, int root,
                                              shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_SCATTER, team, dest, source, bytes, SHMEMX_UINT8);
    c.root = root;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_reduce_on_stream(shmem_team_t team, void *dest, const void *source, size_t nelems, int type,
                                          int op, int root, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_REDUCE, team, dest, source, nelems, type);
    c.op = op;
    c.root = root;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_fcollect_splits_on_stream(shmem_team_t team, void *dest, const void *source, size_t nelems,
                                                   int type, const shmemx_splits_t *splits, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_FCOLLECT, team, dest, source, nelems, type);
    c.splits = splits;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_reducescatter_splits_on_stream(shmem_team_t team, void *dest, const void *source,
                                                        size_t nelems, int type, int op, const shmemx_splits_t *splits,
                                                        shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_REDUCESCATTER, team, dest, source, nelems, type);
    c.op = op;
    c.splits = splits;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_broadcastmem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes,
                                                int root, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_BROADCAST, team, dest, source, bytes, SHMEMX_UINT8);
    c.root = root;
    c.same_place = 1;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_permutemem_on_stream(shmem_team_t team, void *dest, const void *source, size_t bytes, int to,
                                              int from, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_PERMUTE, team, dest, source, bytes, SHMEMX_UINT8);
    c.to = to;
    c.from = from;
    c.same_place = 1;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_allreduce_on_stream(shmem_team_t team, void *dest, const void *source, size_t nelems, int type,
                                             int op, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, team, dest, source, nelems, type);
    c.op = op;
    return shmemx_coll_on_stream(&c, stream);
}
/* See shmemx_rms_norm_t. rows: as many tokens; 0: nothing is enqueued. type: of source, residual and weight. */
static inline int shmemx_allreduce_rms_norm_on_stream(shmem_team_t team, void *dest, const void *source, size_t rows,
                                                      int type, const shmemx_rms_norm_t *norm, shmemx_stream_t stream)
{
    size_t hidden = norm != NULL ? norm->hidden : 0;
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, team, dest, source,
                                     hidden == 0 || rows <= (size_t)-1 / hidden ? rows * hidden : (size_t)-1, type);
    c.rms_norm = norm;
    return shmemx_coll_on_stream(&c, stream);
}
static inline int shmemx_reducescatter_on_stream(shmem_team_t team, void *dest, const void *source, size_t nelems,
                                                 int type, int op, shmemx_stream_t stream)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_REDUCESCATTER, team, dest, source, nelems, type);
    c.op = op;
    return shmemx_coll_on_stream(&c, stream);
}

/* shmemx_NAME_OP_reduce_on_stream(team, dest, source, nelems, stream) and shmemx_NAME_OP_reducescatter_on_stream, for
 * the types and operators of the in-kernel calls. */
#define SHMEMX_OP_sum_reduce SHMEMX_SUM
#define SHMEMX_OP_prod_reduce SHMEMX_PROD
#define SHMEMX_OP_min_reduce SHMEMX_MIN
#define SHMEMX_OP_max_reduce SHMEMX_MAX
#define SHMEMX_OP_and_reduce SHMEMX_AND
#define SHMEMX_OP_or_reduce SHMEMX_OR
#define SHMEMX_OP_xor_reduce SHMEMX_XOR
/* All conditions are constants. */
#define SHMEMX_INTEGER_OF(TYPE, bits) ((TYPE)-1 < (TYPE)1 ? SHMEMX_INT##bits : SHMEMX_UINT##bits)
#define SHMEMX_TYPE_OF(TYPE)                                                              \
    ((TYPE)0.5f != (TYPE)0 ? sizeof(TYPE) == sizeof(float) ? SHMEMX_FLOAT : SHMEMX_DOUBLE \
     : sizeof(TYPE) == 1   ? SHMEMX_INTEGER_OF(TYPE, 8)                                   \
     : sizeof(TYPE) == 2   ? SHMEMX_INTEGER_OF(TYPE, 16)                                  \
     : sizeof(TYPE) == 4   ? SHMEMX_INTEGER_OF(TYPE, 32)                                  \
                           : SHMEMX_INTEGER_OF(TYPE, 64))
#define SHMEMX_REDUCE_STAMP(NAME, TYPE, DTYPE, OP)                                                               \
    static inline int shmemx_##NAME##_##OP##_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source,        \
                                                       size_t nelems, shmemx_stream_t stream)                    \
    {                                                                                                            \
        return shmemx_allreduce_on_stream(team, dest, source, nelems, DTYPE, SHMEMX_OP_##OP, stream);            \
    }                                                                                                            \
    static inline int shmemx_##NAME##_##OP##scatter_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source, \
                                                              size_t nelems, shmemx_stream_t stream)             \
    {                                                                                                            \
        return shmemx_reducescatter_on_stream(team, dest, source, nelems, DTYPE, SHMEMX_OP_##OP, stream);        \
    }
#define SHMEMX_REDUCE_TYPE(NAME, TYPE, OP, ...) SHMEMX_REDUCE_STAMP(NAME, TYPE, SHMEMX_TYPE_OF(TYPE), OP)
#define SHMEMX_REDUCE_LOGIC(OP) SHMEM_LOGIC_TYPES(SHMEMX_REDUCE_TYPE, OP, )
#define SHMEMX_REDUCE_MINMAX(OP)                       \
    SHMEM_DEVICE_ARITH_TYPES(SHMEMX_REDUCE_TYPE, OP, ) \
    SHMEMX_REDUCE_STAMP(half, void, SHMEMX_HALF, OP)   \
    SHMEMX_REDUCE_STAMP(bfloat16, void, SHMEMX_BFLOAT16, OP)
#define SHMEMX_REDUCE_SUM(OP)                                \
    SHMEMX_REDUCE_MINMAX(OP)                                 \
    SHMEMX_REDUCE_STAMP(complexf, void, SHMEMX_COMPLEXF, OP) \
    SHMEMX_REDUCE_STAMP(complexd, void, SHMEMX_COMPLEXD, OP)
#define SHMEMX_REDUCE_OP(OP, OLD, TABLE, ...) SHMEMX_REDUCE_##TABLE(OP)
SHMEM_REDUCE_OPS(SHMEMX_REDUCE_OP, )

/* shmemx_NAME_{fcollect,alltoall,broadcast,permute}_on_stream, nelems of any type of put and get. */
/* A product that is too large becomes a size that is refused. */
static inline size_t shmemx_bytes_of(size_t nelems, size_t size)
{
    return nelems <= (size_t)-1 / size ? nelems * size : (size_t)-1;
}
#define SHMEMX_MOVE_TYPE(NAME, TYPE, ...)                                                                              \
    static inline int shmemx_##NAME##_fcollect_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source,            \
                                                         size_t nelems, shmemx_stream_t stream)                        \
    {                                                                                                                  \
        return shmemx_fcollectmem_on_stream(team, dest, source, shmemx_bytes_of(nelems, sizeof(TYPE)), stream);        \
    }                                                                                                                  \
    static inline int shmemx_##NAME##_alltoall_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source,            \
                                                         size_t nelems, shmemx_stream_t stream)                        \
    {                                                                                                                  \
        return shmemx_alltoallmem_on_stream(team, dest, source, shmemx_bytes_of(nelems, sizeof(TYPE)), stream);        \
    }                                                                                                                  \
    static inline int shmemx_##NAME##_broadcast_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source,           \
                                                          size_t nelems, int root, shmemx_stream_t stream)             \
    {                                                                                                                  \
        return shmemx_broadcastmem_on_stream(team, dest, source, shmemx_bytes_of(nelems, sizeof(TYPE)), root, stream); \
    }                                                                                                                  \
    static inline int shmemx_##NAME##_permute_on_stream(shmem_team_t team, TYPE *dest, const TYPE *source,             \
                                                        size_t nelems, int to, int from, shmemx_stream_t stream)       \
    {                                                                                                                  \
        return shmemx_permutemem_on_stream(team, dest, source, shmemx_bytes_of(nelems, sizeof(TYPE)), to, from,        \
                                           stream);                                                                    \
    }
SHMEM_RMA_TYPES(SHMEMX_MOVE_TYPE, )

#ifdef __cplusplus
}
#endif

#endif
