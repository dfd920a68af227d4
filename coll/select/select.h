/* SPDX-License-Identifier: MIT */
/* Which algorithm a collective takes, on the host and on streams: one struct of facts, one of algorithms, one of rows,
 * one table, one grammar, one printer. A table is read from top to bottom; the first row of the call's kind that can do
 * the call does it. Rows come in this order: forced by SHMEM_COLL, tuned (a file), built in for this device, built in
 * for any device. Built-in rows are the files in tables/, compiled in.
 * Invariant: a choice depends on facts that all members have alike and on nothing else; every kind but alltoallv ends
 * in a row without needs and limits.
 * Includes: needs.h, device/gpu.h. Used by coll/. */
#ifndef ISO_SELECT_H
#define ISO_SELECT_H

#include "../../device/gpu.h"
#include "needs.h"

struct coll;
struct coll_work;
struct stream_call;
struct team;

/* ---- what a choice may depend on ---- */

/* The facts of a call that are equal on all its members. The choice of an algorithm and of its shape gets this struct
 * and nothing else of a call: a member that decided by a fact of its own would run another schedule than the others,
 * with wrong data and a hang. docs/collectives.md, "What a choice may depend on", lists what may come in here. */
struct select_facts {
    int kind;
    unsigned has; /* ISOD_NEEDS_ that this call fulfils; DEST and SOURCE: of buffers that peers touch */
    size_t bytes; /* host: a member's block (collect: 0, since lengths differ). Streams: allreduce, broadcast, permute:
                     one block; else all blocks */
    int n_pes;
    int most_near; /* host: members of the fullest of several nodes; 0: the team is on one node */
    /* Streams: */
    int type, op; /* of reductions, enum of shmemx_coll.h; else SHMEMX_UINT8, SHMEMX_SUM */
    bool scaled;  /* op is a sum times a factor: SHMEMX_SCALED_SUM, or SHMEMX_AVG of 2, 4, 8 .. members */
    bool engines; /* asked for */
    bool direct;  /* all members reach each other's device heaps by pointers */
    uint32_t inbox_bytes;
    size_t block;         /* bytes of one block, as kernels get them */
    unsigned near;        /* of DEST and SOURCE in `has` those that pointers reach wherever they reach device heaps */
    size_t stage;         /* bytes that the slot's stage may have; 0: none */
    bool apart;           /* splits lie apart, or their sums are floats: only engines by a stage do that */
    bool known;           /* hosts know where dest is on all members: by shmemx_rendezvous, or because the caller says
                             that it is at the same place everywhere */
    unsigned most_blocks; /* of a kernel in this slot, and threads of a block */
    unsigned most_threads;
};

/* ---- algorithms ---- */

/* Kernels run `grid` blocks of `threads`; engines take `grid` streams. */
struct select_shape {
    unsigned grid, threads;
};
enum { SELECT_MOST_BLOCKS = 1024 };

typedef void coll_run_fn(struct coll *c, const struct coll_work *w);
typedef void coll_barrier_fn(struct team *team, const char *call);

struct select_algorithm {
    int kind;
    const char *name;
    unsigned needs; /* ISOD_NEEDS_: to work at all, forced or not */
    /* Can it do a call of so many bytes and PEs (streams: with so many blocks)? NULL: any. */
    bool (*fits)(const struct select_facts *f, unsigned blocks);
    const char *why; /* what it is good at, for SHMEM_COLL_EXPLAIN; rows may say more */
    /* Host: */
    coll_run_fn *run_host;
    coll_barrier_fn *barrier; /* of a barrier, instead of run_host */
    /* Streams: */
    bool engines;   /* copies by engines */
    bool stages;    /* by the slot's stage */
    unsigned bytes; /* that a thread has before another block is worth it; 0: always the row's grid */
    /* Enqueues it. 0, or nonzero after a sentence. */
    int (*run)(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
    gpu_kernel move;        /* of data */
    const gpu_kernel *sums; /* of reductions: SHMEMX_SUM by type, NULL where there is none */
    bool scales;            /* `sums` take a factor, too */
    bool averages;          /* and SHMEMX_AVG of any number of members */
    gpu_kernel any;         /* of reductions: all types and operators; NULL: sums of the types in `sums` only */
};

/* Where collectives run. */
struct select_plane {
    const char *name;  /* "host", "stream": before a kind in SHMEM_COLL */
    const char *where; /* "on the host", "on a stream" */
    const char *const *kinds;
    int n_kinds;
    const struct select_algorithm *algorithms;
    int n_algorithms;
    unsigned most_threads; /* of a block; 0: rows have no blocks */
};
extern const struct select_plane iso_select_host, iso_select_stream; /* host_algorithm.c, stream_algorithm.c */

/* ---- rows ---- */

/* One line of a table. */
struct select_row {
    const struct select_algorithm *algorithm;
    unsigned needs;            /* those of the algorithm, and more where the row is for such calls only */
    int max_pes;               /* INT_MAX: any */
    size_t max_bytes;          /* as in struct select_facts; SIZE_MAX: any */
    struct select_shape shape; /* streams: the most, smaller calls take less; {0, 0}: forced without a shape */
    const char *why;           /* NULL: the algorithm's */
};

static inline bool iso_select_row_fits(const struct select_row *row, const struct select_facts *f, unsigned blocks)
{
    return (row->needs & ~f->has) == 0 && f->bytes <= row->max_bytes && f->n_pes <= row->max_pes &&
           (row->algorithm->fits == NULL || row->algorithm->fits(f, blocks));
}

enum { SELECT_MOST_ROWS = 256 };
struct select_rows {
    int n;
    struct select_row row[SELECT_MOST_ROWS];
    char *text;         /* allocated, or NULL: where `header` and `why` point to */
    const char *header; /* its first line */
    int line;           /* read last */
};

/* ---- a table ---- */

enum select_origin { SELECT_FORCED, SELECT_TUNED, SELECT_FOR_DEVICE, SELECT_FOR_ANY, SELECT_ORIGINS };

struct select_entry {
    struct select_row row;
    enum select_origin origin;
    bool exact; /* the shape is not scaled by size */
    bool explained;
};

enum { SELECT_MOST_KINDS = 16, SELECT_MOST_ENTRIES = 3 * SELECT_MOST_ROWS };
struct select_table {
    const struct select_plane *plane;
    char machine[64];                                      /* "cpu", "NVIDIA H200"; "" on the host */
    char from[SELECT_ORIGINS][320];                        /* for explanations: where its rows come from */
    char *texts[SELECT_ORIGINS];                           /* to be freed */
    int n;
    const struct select_entry *kind[SELECT_MOST_KINDS + 1]; /* rows of kind k: from [k] up to [k + 1] */
    bool beside[SELECT_MOST_KINDS]; /* [k]: a built-in row of kind k is for ISOD_NEEDS_BACKGROUND */
    struct select_entry entries[SELECT_MOST_ENTRIES];
};

/* An empty one; NULL after a sentence. */
struct select_table *iso_select_create(const struct select_plane *plane, const char *machine);
void iso_select_close(struct select_table *table); /* NULL-tolerant */
/* Adds rows behind those that are in it, and takes rows->text. False after a sentence: there are too many. */
bool iso_select_add(struct select_table *t, struct select_rows *rows, enum select_origin origin);
/* Adds what SHMEM_COLL forces, or the built-in rows: of the host, or for the table's device and for any. False after a
 * sentence. */
bool iso_select_add_forced(struct select_table *t, const char *variable);
bool iso_select_add_built_in(struct select_table *t);
/* After the last row: puts rows of a kind together, in their order. */
void iso_select_finish(struct select_table *t);
/* A number that is equal on PEs whose tables are; members whose tables differ may not run by them. */
uint64_t iso_select_sum(const struct select_table *table);

struct select_choice {
    const struct select_algorithm *algorithm; /* NULL: no row can do it */
    struct select_shape shape;
    const char *from; /* "row of the built-in table for NVIDIA H200", "forced by SHMEM_COLL", ... */
    const char *why;
    int row;         /* of the table */
    bool not_forced; /* something is forced that cannot do this call */
};

/* The choice that is this entry, or none (NULL). */
struct select_choice iso_select_choice_of(const struct select_table *t, const struct select_facts *f,
                                          const struct select_entry *e);

/* ---- as text ---- */

/* One line; like snprintf. */
size_t iso_select_choice_text(const struct select_plane *plane, const struct select_facts *f,
                              const struct select_choice *choice, char *text, size_t bytes);
/* SHMEM_COLL_EXPLAIN: the line, when this row was not chosen before. */
void iso_select_explain(struct select_table *table, const struct select_facts *f, const struct select_choice *choice);
/* Printable; like snprintf. */
size_t iso_select_table_text(const struct select_table *table, char *text, size_t bytes);

/* ---- rows as text (select_text.c) ---- */

/* NULL: there is none of this name. */
const struct select_algorithm *iso_select_find(const struct select_plane *plane, int kind, const char *name);
/* "plane.kind=algorithm[:blocks[xthreads]],...": checks all, adds those of `plane` (NULL: none). 0, or -errno after a
 * sentence. */
int iso_select_forced(const char *variable, const struct select_plane *plane, struct select_rows *to);
/* Reads rows out of to->text, which it takes apart. The header has to be of the device (NULL: of anything). False:
 * `sentence` says what is wrong, in to->line. */
bool iso_select_parse(const struct select_plane *plane, const struct gpu_info *device, struct select_rows *to,
                      char sentence[512]);
/* "direct+dest", or "any". */
const char *iso_select_needs_text(unsigned needs, char *text, size_t bytes);
/* "4 x NVIDIA H200": the number (0: there is none), and *name is what follows. */
unsigned iso_select_devices(const char *header, const char **name);
/* The file of tuned rows on streams, of this device. 0, or -errno with a sentence that names file and line. */
int iso_select_read(const char *path, const struct gpu_info *device, struct select_rows *to, char sentence[512]);
/* Writes one, and the folders above it; a reader meanwhile sees all of it or the old one. 0, or -errno after a
 * sentence. */
int iso_select_write(const char *path, const struct gpu_info *device, const struct select_rows *rows);
/* Where it is looked for: `named` (SHMEM_COLL_TABLE), else in the user's cache. "": nowhere. */
void iso_select_path(const char *named, const struct gpu_info *device, char *path, size_t bytes);
const char *iso_select_machine(const struct gpu_info *device); /* "cpu", "NVIDIA H200": whose table it takes */

/* ---- the built-in tables: tables/NAME.table, whole ---- */

struct select_text {
    const char *name;          /* "h200" */
    const unsigned char *text; /* ends in NUL */
    size_t bytes;              /* with it */
};
extern const struct select_text iso_select_texts[];
extern const int iso_select_n_texts;

#endif
