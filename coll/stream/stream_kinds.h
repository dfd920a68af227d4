/* SPDX-License-Identifier: MIT */
/* What the kinds, types and operators of collectives on streams are: a row for each number of shmemx_coll.h.
 * Included by coll_stream.c and stream_notes.c. */
#ifndef ISO_STREAM_KINDS_H
#define ISO_STREAM_KINDS_H

#include "coll_stream.h"

enum {
    OF_TYPE = 1,
    REDUCES = 2,
    OF_BLOCKS = 4,
    HAS_ENGINES = 8,
    PEERS_READ = 16,
    PEERS_WRITE = 32,
    NO_DATA = 64,
    MANY_TO = 128, /* n blocks in dest, in source */
    MANY_FROM = 256,
    ROOTED = 512,
    TO_ROOT = 1024, /* dest, or source, is the root's alone */
    FROM_ROOT = 2048
};
struct stream_kind {
    const char *name;
    uint32_t call;
    unsigned is; /* of the numbers above */
};
extern const struct stream_kind iso_stream_kinds[STREAM_KINDS];

enum stream_number { INTEGER, REAL, COMPLEX };
struct stream_type {
    const char *name;
    unsigned bytes, alignment;
    enum stream_number is;
};
extern const struct stream_type iso_stream_types[SHMEMX_BOOL + 1];

struct stream_op {
    const char *name;
    int32_t for_kernels;
    enum stream_number most; /* numbers up to this kind have it */
    enum isod_scaling scaling;
};
extern const struct stream_op iso_stream_ops[SHMEMX_SCALED_SUM + 1];

#endif
