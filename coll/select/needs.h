/* SPDX-License-Identifier: MIT */
/* What an algorithm, or a row of a table, needs of a call: one mask for the host, for streams and for kernels. The
 * facts of a call (struct select_facts) say what the call has. Both are equal on all members.
 * Includes nothing: kernels include it. Used by coll/. */
#ifndef ISO_NEEDS_H
#define ISO_NEEDS_H

/* The names in tables are those of iso_select_needs_text: "direct", "dest", ... Kernels without DIRECT use the ring
 * where no pointer reaches. */
enum {
    ISOD_NEEDS_NOTHING = 0,
    /* Host: all members reach the memory of the team's leader by pointers. Streams: all members reach all device heaps,
     * and the ranges of dest and source that peers touch, by pointers. */
    ISOD_NEEDS_DIRECT = 1,
    ISOD_NEEDS_DEST = 2,         /* streams: peers reach dest: it is symmetric or local memory */
    ISOD_NEEDS_SOURCE = 4,       /* streams: peers reach source */
    ISOD_NEEDS_APART = 8,        /* dest is not source */
    ISOD_NEEDS_NODES = 16,       /* several nodes, with more than one member on one of them */
    ISOD_NEEDS_WHOLE_LINES = 32, /* streams: stores of 128 bytes arrive whole at all members, which was tried */
    ISOD_NEEDS_STREAMS = 64,     /* streams: more streams than the call's, which some captures do not take along */
    ISOD_NEEDS_FAR = 128,        /* not DIRECT */
    ISOD_NEEDS_SPAN = 256,       /* host: several nodes, whatever their members */
    ISOD_NEEDS_NODE_ORDER = 512, /* host: several nodes, whose members are numbered node by node */
    ISOD_NEEDS_ORDER = 1024,     /* host: NODE_ORDER, or the order of members does not matter to the bits */
    ISOD_NEEDS_SPARE = 2048,     /* host: the node has a core for each PE, or DIRECT is not given */
    ISOD_NEEDS_OVER = 4096,      /* host: DIRECT, and the node has more PEs than cores */
    ISOD_NEEDS_BACKGROUND = 8192, /* streams: the caller says that a computation runs beside the call */
    ISOD_NEEDS_STAGE = 16384 /* streams: not captured, and the slot may have a stage; if pointers reach all, STREAMS */
};

#endif
