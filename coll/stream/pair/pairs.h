/* SPDX-License-Identifier: MIT */
/* Sends and receives on streams: what their host half (pairs.c) and their kernels (pair_kernels.c) have in common.
 * A pair is one sender, one receiver and a tag of a team. Each end has a record of it in its device heap, made when
 * that end first needs it, without the other. The receiver's kernel writes where its record is into the directory of
 * the sender, a table at the same place of all device heaps; the sender's kernel looks there, and tells the place of
 * its own record with its first data. So no host waits for the other, and the first call may be in a capture.
 * A message is a header and pieces. Pieces travel over lanes, each with stages in the receiver's memory, a count of the
 * pieces that were stored there, and at the sender a count of those that were taken. Counts only grow, in device
 * memory, so a graph may be replayed. Invariant of a lane: taken <= stored <= taken + ISOD_PAIR_STAGES.
 * Includes: on_stream.h. Used by coll/stream/. */
#ifndef ISO_PAIRS_H
#define ISO_PAIRS_H

#include "../on_stream.h"

enum {
    ISOD_PAIR_LANES = 8,
    ISOD_PAIR_STAGES = 4,
    ISOD_PAIR_HEADERS = 8,  /* a sender is at most 5 messages ahead of the slowest block of the receiver */
    ISOD_PAIR_PIECE = 16384, /* bytes of a stage */
    ISOD_PAIR_ENTRIES = 32,  /* of each receiver in a sender's directory: pairs of the two that may be alive */
    ISOD_PAIR_UNIT = 128     /* alignment of records */
};
#define ISOD_PAIR_THREADS 256 /* of a block, at most: fewer than other kernels, since these need many registers */

/* One entry of a directory: [n_pes of the world][ISOD_PAIR_ENTRIES], by receiver, who alone writes. */
struct isod_pair_entry {
    uint64_t where; /* offset of the receiver's record in its heap, and in the low bits its lanes */
    uint64_t check; /* of the pair's key and `where`, so that either word may arrive first; 0: no entry */
};
PRIM_FN uint64_t isod_pair_check(uint64_t key, uint64_t where) { return key ^ (where * 0x9e3779b97f4a7c15u | 1); }

/* A record, at either end. Stages of a receiver follow: [lanes][ISOD_PAIR_STAGES] of ISOD_PAIR_PIECE bytes. */
struct isod_pair {
    /* Written by the other end, of each lane. `count`: at the receiver pieces that were stored, at the sender those
     * that were taken. `at`: at the receiver the offset of the sender's record in its heap; stored before the first
     * count. */
    struct {
        uint64_t count, at;
        uint64_t pad[14];
    } theirs[ISOD_PAIR_LANES];
    struct prim_ll headers[ISOD_PAIR_HEADERS]; /* at the receiver, by the sender: of message m in m % HEADERS */

    /* This end's own, between its kernels. */
    uint64_t where;    /* sender: as in the entry, 0: not known yet; receiver: 1: the entry was written */
    uint64_t messages; /* all before this launch */
    uint64_t left;     /* atomic: parts of this launch that are done */
    uint64_t dead;     /* 1: given up, or misused: calls do nothing until the reset of the team */
    uint64_t blocks;   /* atomic, of a launch's first pair: blocks that are done; from bit 32 on: with wrong lengths */
    uint64_t pad[3];
    uint64_t rings[ISOD_PAIR_LANES]; /* 1 + the ring on which the lane's last count has left, 0: none has */
    /* Of lane i: count: pieces moved so far; begun: those before the message in progress. Of part i of this launch:
     * message: its number in the launch; lane: the one at hand; read, at a receiver: headers that it has read, of all
     * launches, atomic since the first part looks at it. Written by one block at a time. */
    struct {
        uint64_t count, begun, message, lane, read;
    } own[ISOD_PAIR_LANES];
    uint64_t spare[8]; /* stages begin on a line */
};

/* A header carries its number (1 + messages before it, low 32 bits) as an LL word does, so fresh memory is none. */
#define ISOD_PAIR_HEADER(bytes, lanes) ((uint64_t)(bytes) | (uint64_t)(lanes) << 40 | (uint64_t)1 << 63)
#define ISOD_PAIR_BYTES_OF(header) ((header) & (((uint64_t)1 << 40) - 1))
#define ISOD_PAIR_LANES_OF(header) ((uint32_t)((header) >> 40) & 0xffu)

/* ---- arguments of a launch: all sends and receives of one stream in a batch. Part `p` of the launch is part p % parts
 * of pair p / parts; block b has the parts b, b + grid .. and goes on with each of them as far as it can, in turn. So
 * sends and receives make progress at once in any order, as long as all blocks of the grid run ---- */

struct isod_pair_use {
    uint64_t key;
    uint32_t at;         /* of this end's record in the heap, in ISOD_PAIR_UNIT bytes */
    int32_t peer;        /* world */
    uint16_t first, n;   /* messages of it in `messages` */
    uint8_t sends;       /* 1, or 0: receives */
    uint8_t lanes;       /* receiver: of its record */
    uint8_t entry, spare; /* receiver: its entry in the sender's directory */
};
struct isod_pair_message {
    char *data;
    uint64_t bytes;
};

enum { ISOD_PAIRS_FEW = 4, ISOD_PAIRS_MANY = 96 }; /* a kernel's arguments are at most 4 KiB */
#define ISOD_PAIRS(name, most)                    \
    struct name {                                 \
        shmemd_t h;                               \
        uint64_t directory; /* offset in heaps */ \
        uint32_t n, parts;                        \
        struct isod_pair_use uses[most];          \
        struct isod_pair_message messages[most];  \
    }
ISOD_PAIRS(isod_pairs_few, ISOD_PAIRS_FEW);
ISOD_PAIRS(isod_pairs_many, ISOD_PAIRS_MANY);

/* Kernels: X(name) is isod_stream_##name##_kernel. */
#define ISOD_STREAM_PAIRS(X) X(pairs_few) X(pairs_many)

#endif
