/* SPDX-License-Identifier: MIT */
/* The structures that a handle points to: the host lays them out and kernels read them, in device memory or pinned host
 * memory. The same bytes for every compiler: fixed-size members, no enum, no bool, pointers of 8 bytes. Invariant: only
 * lanes, grid, status, the rings, and of a team `ended`, `masks` and `deadline_ns` change while a kernel runs; the host
 * changes the rest only between kernels.
 * Includes: prim.h. Used by shmem/ (which writes them), device/ and coll/ kernels. */
#ifndef ISO_STATE_H
#define ISO_STATE_H

#include "prim.h"

/* ---- pinned host memory: records of kernels for the host, and the word by which the host stops them ---- */

/* The call that left a record: X(id, name). A kernel stores the number, the host prints the name. */
#define ISOD_CALLS(X)                                              \
    X(NONE, "a kernel")                                            \
    X(WAIT_UNTIL, "shmemd_wait_until")                             \
    X(SIGNAL_WAIT_UNTIL, "shmemd_signal_wait_until")               \
    X(GET_PACKET, "shmemd_get_packet")                             \
    X(QUIET, "shmemd_quiet")                                       \
    X(RING, "a call by the proxy")                                 \
    X(BARRIER, "shmemd_barrier")                                   \
    X(SYNC, "shmemd_sync")                                         \
    X(BROADCAST, "shmemd_broadcast")                               \
    X(FCOLLECT, "shmemd_fcollect")                                 \
    X(ALLTOALL, "shmemd_alltoall")                                 \
    X(ALLTOALLV, "shmemd_alltoallv")                               \
    X(REDUCE, "shmemd_reduce")                                     \
    X(REDUCESCATTER, "shmemd_reducescatter")                       \
    X(PERMUTE, "shmemd_permute")                                   \
    X(GRID, "a barrier of the grid")                               \
    X(ON_STREAM_WAIT, "shmemx_signal_wait_until_on_stream")        \
    X(ON_STREAM_BARRIER, "shmemx_barrier_on_stream")               \
    X(ON_STREAM_ALLREDUCE, "SHMEMX_ALLREDUCE on a stream")         \
    X(ON_STREAM_REDUCESCATTER, "SHMEMX_REDUCESCATTER on a stream") \
    X(ON_STREAM_FCOLLECT, "SHMEMX_FCOLLECT on a stream")           \
    X(ON_STREAM_ALLTOALL, "SHMEMX_ALLTOALL on a stream")           \
    X(ON_STREAM_ALLTOALLV, "SHMEMX_ALLTOALLV on a stream")         \
    X(ON_STREAM_BROADCAST, "SHMEMX_BROADCAST on a stream")         \
    X(ON_STREAM_PERMUTE, "SHMEMX_PERMUTE on a stream")             \
    X(ON_STREAM_GATHER, "SHMEMX_GATHER on a stream")               \
    X(ON_STREAM_SCATTER, "SHMEMX_SCATTER on a stream")             \
    X(ON_STREAM_REDUCE, "SHMEMX_REDUCE on a stream")               \
    X(ON_STREAM_SYNC, "SHMEMX_BARRIER or _SYNC on a stream")       \
    X(ON_STREAM_SEND, "shmemx_send_on_stream")                     \
    X(ON_STREAM_RECV, "shmemx_recv_on_stream")                     \
    X(ON_STREAM_PROBE, "the first collective on streams of a team and slot")
enum isod_call {
#define ISOD_ENUMERATOR(id, name) ISOD_CALL_##id,
    ISOD_CALLS(ISOD_ENUMERATOR)
#undef ISOD_ENUMERATOR
        ISOD_CALL_COUNT
};

/* Reasons of a record of misuse: X(id, sentence with `expected` and `seen` of the record). */
#define ISOD_MISUSES(X)                                                                                                \
    X(LANES,                                                                                                           \
      "lanes are below %llu (SHMEM_DEVICE_BLOCKS); the lane of this call, its block number or shmemd_lane's, is %llu " \
      "(32766: or more)")                                                                                              \
    X(USERS, "%llu other blocks may be in a collective of this lane, team and slot at once, there were %llu: "         \
             "kernels that run at the same time need different slots, blocks of a kernel different lanes")             \
    X(ROOT, "PE numbers of the team are below %llu, the root is %lld")                                                 \
    X(PARTNER, "PE numbers of the team are below %llu, to or from is %lld; a PE that sends to itself receives from "   \
               "itself")                                                                                               \
    X(BLOCKS, "host_blocks->receive_bytes is %llu, but the member sends %llu bytes; no more than the smaller number "  \
              "arrives")                                                                                                \
    X(NUMBERS, "a member expects %llu bytes of another one that sends %llu (dest_nelems, source_nelems); no more "      \
               "than the smaller number arrives")                                                                      \
    X(NO_RING, "memory of world pe %llu of %llu PEs is reached by the ring only, and this kernel is compiled with "     \
               "SHMEMD_NO_RING; compile it without")                                                                   \
    X(LENGTH, "the receive is of %llu bytes, but its message has %llu; both ends must name the same length")
enum isod_misuse {
#define ISOD_ENUMERATOR(id, sentence) ISOD_MISUSE_##id,
    ISOD_MISUSES(ISOD_ENUMERATOR)
#undef ISOD_ENUMERATOR
        ISOD_MISUSE_COUNT
};
/* One wait that passed its deadline, or was given up, or is traced. A kernel writes the fields, then `state`; the host
 * reads. */
enum { ISOD_RECORD_FREE, ISOD_RECORD_LATE, ISOD_RECORD_GAVE_UP, ISOD_RECORD_MISUSE, ISOD_RECORD_TRACE };
struct isod_record {
    uint32_t call; /* enum isod_call */
    int32_t pe;    /* world PE waited for, -1: any */
    uint64_t addr, expected, seen;
    uint64_t waited_ns;     /* MISUSE: enum isod_misuse */
    int32_t team, slot;     /* of the handle */
    uint32_t block, thread; /* thread: or ISOD_THREAD_OF_STREAM, who is none */
    uint64_t state; /* ISOD_RECORD_; stored last, system scope; pairs with the acquire load of the progress thread */
};
#define ISOD_THREAD_OF_STREAM 0xffffffffu

#define ISOD_RECORDS 64
enum { ISOD_ABORT_NOT, ISOD_ABORT_ALL, ISOD_ABORT_DEATH };
struct isod_host {
    uint64_t abort;     /* not 0: every wait gives up, but of DEATH as isod_stops says; written by the host */
    uint64_t taken;     /* records that the host has taken so far: their places are free again; written by the host */
    uint64_t ring_used; /* 1 once a kernel has posted to any ring; written by kernels, before the entry */
    uint64_t gave_up;   /* 1: the status of some handle of this PE is not 0; stored after that status, by whoever sets
                         * it; the reset clears it when no such handle is left */
    uint64_t unreached; /* not 0: a kernel without a ring met memory that no pointer reaches: the `name` of its team,
                         * and in the lower half the world PE; taken by the host */
    uint64_t pad[3];
    struct isod_record records[ISOD_RECORDS];
    /* uint64_t [n_pes of the world] follows: 1: that PE has died or left; stored before `abort` */
};
#define ISOD_GONE(host) ((uint64_t *)(void *)((host) + 1))

/* ---- device memory: one per PE ---- */

/* The table of decision "one table, one if", as kernels see it. */
struct isod_segment {
    char *base; /* as this PE's programs and kernels name it */
    uint64_t len;
    char **peers; /* [n_pes of the world] its address for loads and stores of this PE's kernels; NULL: by the ring */
};

/* Numbers of segments in that table: the same on all PEs that have the segment, as long as it exists. So a number and
 * an offset name a place of any PE. */
enum {
    ISOD_SEGMENT_HEAP, /* the device heap */
    ISOD_SEGMENT_HOST_HEAP,
    ISOD_SEGMENT_DATA,
    ISOD_SEGMENT_PARTS, /* local and team memory of the host, then of the device */
    ISOD_SEGMENT_BUFFERS = ISOD_SEGMENT_PARTS + 4 /* registered buffers; those that are free have no length */
};
#define ISOD_PLACE_BITS 48 /* of a place's offset; the segment's number stands above */

struct isod_ring; /* ring.h */

#define ISOD_SEGMENTS 512
struct isod_world {
    int32_t my_pe, n_pes;
    uint32_t n_segments; /* the largest number in use and 1 */
    uint32_t n_rings;
    struct isod_host *host; /* the kernels' address of it */
    uint64_t deadline_ns;   /* of a wait, then it leaves a record; 0: never */
    uint64_t trace_ns;      /* likewise, and whenever that time has doubled: for SHMEM_TRACE; 0: never */
    uint32_t records_used;  /* atomic: the lower half of the number of records handed out so far; less than
                             * host->taken + ISOD_RECORDS, others are lost */
    uint32_t spare;
    uint64_t ring_used;     /* atomic: 1 since a kernel has first posted to a ring */
    struct isod_ring *rings;
    struct isod_segment segments[ISOD_SEGMENTS];
};

/* ---- device memory: one per (team, slot) ---- */

/* One sequence of block collectives: block b of this PE and blocks b of the others. Three lines: what the block alone
 * reads and writes; where the members are, so that the first look at it costs one trip to memory; and a word that
 * is looked at past the first-level cache, which would throw the others out of it. */
#define ISOD_NEAR 16
struct isod_lane {
    uint64_t epoch;  /* epochs done; the number that flags carry; equal on all members between calls */
    uint64_t staged; /* epochs done that used the inbox; its parity chooses the bank */
    uint64_t dead;   /* 1: a call of this lane was given up or misused; calls on it do nothing until the reset */
    uint64_t engine; /* the number that copy engines bring behind their payload; see coll/stream/on_stream.h */
    uint64_t pad[12];
    char *near[ISOD_NEAR]; /* of the first members: this lane in their slot memory; NULL: by the ring */
    uint64_t users;        /* 1: a block is inside a collective on this lane; another one that finds it so is misuse */
    uint64_t spare[15];
};

struct isod_grid {
    uint64_t arrived; /* atomic: bit 63 turns whenever all blocks have arrived, see isod_grid_sync */
    uint64_t spare[15];
};

struct isod_team {
    int32_t my_pe, n_pes;
    int32_t lanes;        /* blocks that may use collectives at once */
    int32_t direct;       /* 1: every member reaches every member by pointer (equal on all members) */
    uint32_t inbox_bytes; /* payload of one sender's inbox */
    int32_t team, slot;   /* for messages */
    uint32_t spare;
    int32_t *world_of; /* [n_pes] */
    char **heaps;      /* [n_pes] the member's device heap for our kernels; NULL: by the ring */
    char **memory;     /* [n_pes] the member's slot memory, likewise */
    uint64_t *offsets; /* [n_pes] where that slot memory lies in the member's device heap, for the ring */
    struct isod_grid *grid;
    uint64_t deadline_ns; /* of a wait; 0: as the world's; ISOD_DEADLINE_NEVER: it leaves no record */
    uint64_t name;        /* bit 63, and team and slot as isod_name_team and isod_name_slot find them */
    uint64_t masks;       /* 1: the death of a PE stops collectives only (shmemx_team_mask_deaths) */
    struct isod_world *world;
    uint64_t pad[3];
    uint64_t status; /* ISOD_STATUS_; sticky until the collective reset */
    uint64_t ended;  /* 1: the host has ended the handle, and set `status` before: waits give up, too. Relaxed, system
                      * scope, pairs with the look of isod_look_at: it stands for itself */
    uint64_t alone[14];
    /* struct isod_lane [lanes] follows */
};
/* GAVE_UP: calls on this handle do nothing. BEREFT: collectives do nothing, since a member is dead; all else goes on. */
enum { ISOD_STATUS_GOOD, ISOD_STATUS_GAVE_UP, ISOD_STATUS_BEREFT };
#define ISOD_DEADLINE_NEVER (~(uint64_t)0)
PRIM_FN uint64_t isod_name_of(int32_t team, int32_t slot)
{
    return (uint64_t)1 << 63 | (uint64_t)((uint32_t)team & 0x7ffffu) << 44 | (uint64_t)((uint32_t)slot & 0xfffu) << 32;
}
PRIM_FN int32_t isod_name_team(uint64_t name) { return (int32_t)(name >> 44 & 0x7ffffu); }
PRIM_FN int32_t isod_name_slot(uint64_t name) { return (int32_t)((name >> 32 & 0xfffu) ^ 0x800u) - 0x800; }
#define ISOD_LANES(team) ((struct isod_lane *)(void *)((team) + 1))

/* Slot memory of one PE, one lane after the other; peers write it, each sender in its own part:
 *   flags   [n_pes] 8 bytes                               padded to 128 bytes
 *   inbox   [2 banks][n_pes] lines of 16 bytes            2 * inbox_bytes each (packets carry half data); where
 *                                                         pointers do not reach all members, the words of hier_stream.h
 *   stage   [2 banks][n_pes] raw bytes, inbox_bytes each (members that no pointer reaches)
 *   wide    [2 banks][n_pes] lines of 128 bytes, aligned to that, for inbox_bytes of data
 *   places  [n_pes] two of 16 bytes each, see coll/stream/kernels/place_stream.h       padded to 128 bytes
 * and behind the last lane, each as large as the flags of one, words that streams store and wait for (see
 * coll/stream/engine/engine_words.c):
 *   ready, arrived   [n_pes] 8 bytes */
PRIM_FN uint64_t isod_flags_bytes(int32_t n_pes) { return ((uint64_t)n_pes * 8 + 127) / 128 * 128; }
PRIM_FN uint64_t isod_ll128_at(int32_t n_pes, uint32_t inbox_bytes)
{
    return (isod_flags_bytes(n_pes) + 2 * (uint64_t)n_pes * 3 * inbox_bytes + 127) / 128 * 128;
}
/* Of one sender; 128 for each 120 bytes of data, or some more, since a division costs more. */
PRIM_FN uint32_t isod_ll128_bytes(uint32_t inbox_bytes) { return (inbox_bytes + inbox_bytes / 8 + 128) / 128 * 128; }
PRIM_FN uint64_t isod_places_at(int32_t n_pes, uint32_t inbox_bytes)
{
    return isod_ll128_at(n_pes, inbox_bytes) + 2 * (uint64_t)n_pes * isod_ll128_bytes(inbox_bytes);
}
PRIM_FN uint64_t isod_places_bytes(int32_t n_pes) { return ((uint64_t)n_pes * 32 + 127) / 128 * 128; }
PRIM_FN uint64_t isod_lane_bytes(int32_t n_pes, uint32_t inbox_bytes)
{
    return isod_places_at(n_pes, inbox_bytes) + isod_places_bytes(n_pes);
}

PRIM_FN uint64_t isod_slot_bytes(int32_t n_pes, uint32_t inbox_bytes, int32_t lanes)
{
    return (uint64_t)(uint32_t)lanes * isod_lane_bytes(n_pes, inbox_bytes) + 2 * isod_flags_bytes(n_pes);
}

/* ---- one word, by the host's hands (agent_kernels.c) or the proxy's ---- */

/* The order of enum amo_op of the host. */
enum isod_amo {
    ISOD_AMO_FETCH,
    ISOD_AMO_SET,
    ISOD_AMO_SWAP,
    ISOD_AMO_CSWAP,
    ISOD_AMO_ADD,
    ISOD_AMO_AND,
    ISOD_AMO_OR,
    ISOD_AMO_XOR
};

/* Argument of the kernel isod_word_kernel: one atomic on a word of 4 or 8 bytes, or SET of 1 or 2. */
struct isod_word_task {
    void *word;
    uint64_t *old; /* pinned host memory */
    uint64_t operand, compare;
    uint32_t op; /* enum isod_amo */
    uint32_t bytes;
};

/* ---- the handle, by value in every kernel's arguments; at most 64 bytes ---- */

typedef struct shmemd_handle {
    char *heap;          /* this PE's device heap */
    uint64_t heap_bytes; /* of its address range */
    char *flat;          /* not NULL: member i's heap is at flat + i * flat_stride for our kernels */
    int64_t flat_stride;
    struct isod_team *team;
    struct isod_world *world;
    int32_t my_pe, n_pes; /* in the team */
    uint16_t lanes;       /* as in the team's state: here they cost no load */
    uint16_t direct;      /* bit 0: likewise; above: 1 + the lane that shmemd_lane has chosen, 0: none */
    uint32_t inbox_bytes;
} shmemd_t;

PRIM_FN bool isod_is_direct(shmemd_t h) { return (h.direct & 1) != 0; }
/* The same for what is chosen behind the start of a call, where kernels without a ring have refused other teams. */
PRIM_FN bool isod_goes_direct(shmemd_t h)
{
#ifdef SHMEMD_NO_RING
    (void)h;
    return true;
#else
    return isod_is_direct(h);
#endif
}

/* 1 + the lane that shmemd_lane has chosen; 0: none, as always in kernels of the library, which pay nothing for it. */
PRIM_FN uint32_t isod_lane_chosen(shmemd_t h)
{
#ifdef ISOD_LANES_ARE_BLOCKS
    (void)h;
    return 0;
#else
    return (uint32_t)h.direct >> 1;
#endif
}
/* The lane of the calling block's collectives. */
PRIM_FN uint32_t isod_lane_of(shmemd_t h)
{
    uint32_t chosen = isod_lane_chosen(h);
    return chosen != 0 ? chosen - 1 : prim_block_index();
}
#define ISOD_LANE_MOST 0x7ffeu /* whatever is larger is this one, and refused */
PRIM_FN shmemd_t isod_with_lane(shmemd_t h, uint32_t lane)
{
    h.direct = (uint16_t)((h.direct & 1) | ((lane < ISOD_LANE_MOST ? lane : ISOD_LANE_MOST) + 1) << 1);
    return h;
}
/* For calls of the grid: block b has lane b. */
PRIM_FN shmemd_t isod_without_lane(shmemd_t h)
{
    h.direct &= 1;
    return h;
}

/* The part of a handle that rare paths need: few registers where they are called. */
struct isod_origin {
    struct isod_world *world;
    struct isod_team *team;
};
PRIM_FN struct isod_origin isod_origin_of(shmemd_t h)
{
    struct isod_origin at = {h.world, h.team};
    return at;
}

typedef struct prim_group shmemd_group_t;

/* ---- arguments of the library's kernels for operations on streams (rma_kernels.c) ---- */

/* Of put, put with signal, get and signal, by one block; pe counts in the handle. */
struct isod_stream_move {
    shmemd_t h;
    void *dest;
    const void *source;
    uint64_t bytes;
    uint64_t *sig_addr;
    uint64_t signal;
    int32_t sig_op;
    int32_t pe;
};
/* Of a wait, by one thread. */
struct isod_stream_wait {
    shmemd_t h;
    const uint64_t *sig_addr;
    uint64_t value;
    int32_t cmp;
    int32_t spare;
};
/* Of quiet by one thread, of barrier and sync by one block. */
struct isod_stream_sync {
    shmemd_t h;
};
/* X(name) */
#define ISOD_STREAM_KERNELS(X) \
    X(isod_put_kernel)         \
    X(isod_put_signal_kernel)  \
    X(isod_get_kernel)         \
    X(isod_signal_kernel)      \
    X(isod_wait_kernel)        \
    X(isod_quiet_kernel)       \
    X(isod_barrier_kernel)     \
    X(isod_sync_kernel)

#endif
