/* SPDX-License-Identifier: MIT */
/* Which algorithm a collective on a stream takes: rows, read from top to bottom; the first that can do a call does it.
 * They come in this order: forced by SHMEM_COLL_ON_STREAM, tuned (a file), built in for this device, built in for any
 * device. Invariant: a choice depends on what all members have alike and nothing else; the rows for any device can do
 * every call but alltoallv without a symmetric dest.
 * Called by coll_stream.c and stream_slot.c, which see to it that members with different rows do not use them. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define ALL_PES INT_MAX
#define ALL_BYTES SIZE_MAX

/* ---- the built-in rows ---- */

/* clang-format off */

/* Measured at 2 and 4 PEs (2026-11), NVLink, multicast off; above, as at 4. Lines behind wide ones are for devices of
 * this name on which the latter came in parts.
 *   kind                  algorithm  bytes         PEs      blocks, threads */
static const struct stream_row h200_rows[] = {
    {SHMEMX_ALLREDUCE,     "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_ALLREDUCE,     "ll",   8 * KIB,      2,       {64, 128}},
    {SHMEMX_ALLREDUCE,     "ll128",    128 * KIB,    2,       {64, 128}},
    {SHMEMX_ALLREDUCE,     "ll128",    384 * KIB,    2,       {64, 512}},
    {SHMEMX_ALLREDUCE,     "ll128",    1 * MIB,      2,       {128, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll128",   2 * MIB,      2,       {128, 512}},
    {SHMEMX_ALLREDUCE,     "read",    32 * MIB,     2,       {128, 512}},
    {SHMEMX_ALLREDUCE,     "ll",   16 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_ALLREDUCE,     "ll128",    128 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll128",   384 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll128",   1 * MIB,      ALL_PES, {64, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll128",   32 * MIB,     ALL_PES, {128, 512}},
    {SHMEMX_ALLREDUCE,     "ll",   48 * KIB,     4,       {64, 128}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll",  192 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_ALLREDUCE,     "twoshot_read",   2 * MIB,      ALL_PES, {64, 128}},
    {SHMEMX_ALLREDUCE,     "twoshot_read",   32 * MIB,     ALL_PES, {64, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_dest",   ALL_BYTES,    ALL_PES, {128, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_read",   ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_copy",   ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_REDUCESCATTER, "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_REDUCESCATTER, "ll",   16 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_REDUCESCATTER, "ll128",    96 * KIB,     2,       {64, 128}},
    {SHMEMX_REDUCESCATTER, "ll128",    384 * KIB,    2,       {64, 256}},
    {SHMEMX_REDUCESCATTER, "ll",   64 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_REDUCESCATTER, "ll128",    384 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_REDUCESCATTER, "ll",   256 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_REDUCESCATTER, "ll128",    640 * KIB,    2,       {128, 256}},
    {SHMEMX_REDUCESCATTER, "ll128",    1536 * KIB,   2,       {128, 512}},
    {SHMEMX_REDUCESCATTER, "read",    8 * MIB,      2,       {128, 256}},
    {SHMEMX_REDUCESCATTER, "read",    ALL_BYTES,    2,       {128, 512}},
    {SHMEMX_REDUCESCATTER, "ll128",    512 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_REDUCESCATTER, "ll128",    2 * MIB,      ALL_PES, {64, 512}},
    {SHMEMX_REDUCESCATTER, "read",    32 * MIB,     ALL_PES, {64, 128}},
    {SHMEMX_REDUCESCATTER, "read",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_FCOLLECT,      "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_FCOLLECT,      "ll",   64 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_FCOLLECT,      "ll128",    384 * KIB,    2,       {64, 256}},
    {SHMEMX_FCOLLECT,      "ll128",    1536 * KIB,   2,       {128, 512}},
    {SHMEMX_FCOLLECT,      "ll128",    384 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_FCOLLECT,      "ll128",    512 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_FCOLLECT,      "ll128",    1 * MIB,      ALL_PES, {64, 512}},
    {SHMEMX_FCOLLECT,      "ll",   256 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_FCOLLECT,      "push",    32 * MIB,     ALL_PES, {64, 128}},
    {SHMEMX_FCOLLECT,      "push",    128 * MIB,    ALL_PES, {128, 512}},
    {SHMEMX_FCOLLECT,      "engines", ALL_BYTES,    ALL_PES, {1, 1}},
    {SHMEMX_FCOLLECT,      "push",    ALL_BYTES,    ALL_PES, {128, 512}},
    {SHMEMX_ALLTOALL,      "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_ALLTOALL,      "ll",   64 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_ALLTOALL,      "ll128",    384 * KIB,    2,       {64, 256}},
    {SHMEMX_ALLTOALL,      "ll128",    1536 * KIB,   2,       {128, 512}},
    {SHMEMX_ALLTOALL,      "ll128",    384 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_ALLTOALL,      "ll128",    512 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_ALLTOALL,      "ll128",    1 * MIB,      ALL_PES, {64, 512}},
    {SHMEMX_ALLTOALL,      "ll",   256 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_ALLTOALL,      "push",    32 * MIB,     ALL_PES, {64, 128}},
    {SHMEMX_ALLTOALL,      "push",    128 * MIB,    ALL_PES, {128, 512}},
    {SHMEMX_ALLTOALL,      "engines", ALL_BYTES,    ALL_PES, {1, 1}},
    {SHMEMX_ALLTOALL,      "push",    ALL_BYTES,    ALL_PES, {128, 512}},
    {SHMEMX_ALLTOALLV,     "push",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_BROADCAST,     "ll",   4 * KIB,      ALL_PES, {64, 128}},
    {SHMEMX_BROADCAST,     "ll128",    64 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_BROADCAST,     "ll128",    8 * MIB,      2,       {128, 256}},
    {SHMEMX_BROADCAST,     "ll128",    192 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_BROADCAST,     "twoshot_ll128",   3 * MIB,      ALL_PES, {128, 256}},
    {SHMEMX_BROADCAST,     "ll",   128 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_BROADCAST,     "read",    128 * MIB,    2,       {128, 256}},
    {SHMEMX_BROADCAST,     "engines", ALL_BYTES,    2,       {2, 1}},
    {SHMEMX_BROADCAST,     "twoshot_read",   2 * MIB,      ALL_PES, {64, 256}},
    {SHMEMX_BROADCAST,     "twoshot_read",   128 * MIB,    ALL_PES, {64, 128}},
    {SHMEMX_BROADCAST,     "twoshot_read",   ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_BROADCAST,     "read",    ALL_BYTES,    ALL_PES, {64, 256}},
    {SHMEMX_PERMUTE,       "ll",   32 * KIB,     ALL_PES, {64, 128}},
    {SHMEMX_PERMUTE,       "ll128",    128 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_PERMUTE,       "ll128",    512 * KIB,    ALL_PES, {64, 512}},
    {SHMEMX_PERMUTE,       "ll",   128 * KIB,    ALL_PES, {64, 128}},
    {SHMEMX_PERMUTE,       "push",    32 * MIB,     ALL_PES, {64, 128}},
    {SHMEMX_PERMUTE,       "push",    128 * MIB,    ALL_PES, {64, 512}},
    {SHMEMX_PERMUTE,       "engines", ALL_BYTES,    ALL_PES, {1, 1}},
};

/* Guessed from what is published of 8 MI300X: one link for each pair, so stores of all pairs at once; never measured. */
static const struct stream_row mi300x_rows[] = {
    {SHMEMX_ALLREDUCE,     "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_ALLREDUCE,     "ll",   128 * KIB,    2,       {64, 256}},
    {SHMEMX_ALLREDUCE,     "ll",   64 * KIB,     ALL_PES, {64, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll",  256 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_read",   4 * MIB,      ALL_PES, {80, 512}},
    {SHMEMX_ALLREDUCE,     "twoshot_push",   ALL_BYTES,    ALL_PES, {80, 512}},
    {SHMEMX_REDUCESCATTER, "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_REDUCESCATTER, "ll",   256 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_REDUCESCATTER, "read",    4 * MIB,      ALL_PES, {80, 512}},
    {SHMEMX_REDUCESCATTER, "push",    ALL_BYTES,    ALL_PES, {80, 512}},
    {SHMEMX_FCOLLECT,      "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_FCOLLECT,      "ll",   256 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_FCOLLECT,      "push",    32 * MIB,     ALL_PES, {80, 512}},
    {SHMEMX_FCOLLECT,      "engines", ALL_BYTES,    ALL_PES, {8, 1}},
    {SHMEMX_ALLTOALL,      "hier",    ALL_BYTES,    ALL_PES, {64, 512}},
    {SHMEMX_ALLTOALL,      "ll",   256 * KIB,    ALL_PES, {64, 256}},
    {SHMEMX_ALLTOALL,      "push",    32 * MIB,     ALL_PES, {80, 512}},
    {SHMEMX_ALLTOALL,      "engines", ALL_BYTES,    ALL_PES, {8, 1}},
    {SHMEMX_BROADCAST,     "ll",   64 * KIB,     ALL_PES, {64, 256}},
    {SHMEMX_BROADCAST,     "read",    ALL_BYTES,    ALL_PES, {80, 512}},
    {SHMEMX_PERMUTE,       "ll",   64 * KIB,     ALL_PES, {64, 256}},
    {SHMEMX_PERMUTE,       "push",    16 * MIB,     ALL_PES, {64, 512}},
    {SHMEMX_PERMUTE,       "engines", ALL_BYTES,    ALL_PES, {1, 1}},
};

/* Threads of a block take turns on a core, and blocks as well: one of each kind of work, as long as it is short. */
static const struct stream_row cpu_rows[] = {
    {SHMEMX_ALLREDUCE,      "hier",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLREDUCE,      "ll",   512,          ALL_PES, {1, 32}},
    {SHMEMX_ALLREDUCE,      "twoshot_read",   256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_ALLREDUCE,      "twoshot_read",   ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLREDUCE,      "twoshot_copy",   ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLREDUCE,      "read",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLREDUCE,      "pipelined",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_REDUCESCATTER,  "hier",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_REDUCESCATTER,  "ll",   1 * KIB,      ALL_PES, {1, 32}},
    {SHMEMX_REDUCESCATTER,  "read",    256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_REDUCESCATTER,  "read",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_REDUCESCATTER,  "push",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_REDUCESCATTER,  "pipelined",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_FCOLLECT,       "hier",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_FCOLLECT,       "ll",   512,          ALL_PES, {1, 32}},
    {SHMEMX_FCOLLECT,       "push",    256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_FCOLLECT,       "push",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_FCOLLECT,       "staged",  ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLTOALL,       "hier",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLTOALL,       "ll",   1 * KIB,      ALL_PES, {1, 32}},
    {SHMEMX_ALLTOALL,       "push",    256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_ALLTOALL,       "push",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLTOALL,       "staged",  ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_ALLTOALLV,      "push",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_BROADCAST,      "ll",   512,          ALL_PES, {1, 32}},
    {SHMEMX_BROADCAST,      "read",    256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_BROADCAST,      "read",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_BROADCAST,      "staged",  ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_PERMUTE,        "ll",   512,          ALL_PES, {1, 32}},
    {SHMEMX_PERMUTE,        "push",    256 * KIB,    ALL_PES, {1, 32}},
    {SHMEMX_PERMUTE,        "push",    ALL_BYTES,    ALL_PES, {2, 32}},
    {SHMEMX_PERMUTE,        "staged",  ALL_BYTES,    ALL_PES, {2, 32}},
};

/* Behind all others, so each kind ends in a row that can do everything. Engines are last: on request only. */
static const struct stream_row any_rows[] = {
    {SHMEMX_ALLREDUCE,     "hier",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "ll",   64 * KIB,     ALL_PES, {32, 128}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll",  256 * KIB,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_read",   ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_copy",   ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_push",   ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "read",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "twoshot_ll",  ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLREDUCE,     "pipelined",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_REDUCESCATTER, "hier",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_REDUCESCATTER, "ll",   256 * KIB,    ALL_PES, {32, 128}},
    {SHMEMX_REDUCESCATTER, "push",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_REDUCESCATTER, "pipelined",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_FCOLLECT,      "hier",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_FCOLLECT,      "ll",   256 * KIB,    ALL_PES, {32, 128}},
    {SHMEMX_FCOLLECT,      "push",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_FCOLLECT,      "staged",  ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_FCOLLECT,      "engines", ALL_BYTES,    ALL_PES, {8, 1}},
    {SHMEMX_ALLTOALL,      "hier",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLTOALL,      "ll",   256 * KIB,    ALL_PES, {32, 128}},
    {SHMEMX_ALLTOALL,      "push",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLTOALL,      "staged",  ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_ALLTOALL,      "engines", ALL_BYTES,    ALL_PES, {8, 1}},
    {SHMEMX_ALLTOALLV,     "push",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_BROADCAST,     "ll",   64 * KIB,     ALL_PES, {32, 128}},
    {SHMEMX_BROADCAST,     "read",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_BROADCAST,     "staged",  ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_BROADCAST,     "engines", ALL_BYTES,    ALL_PES, {8, 1}},
    {SHMEMX_PERMUTE,       "ll",   64 * KIB,     ALL_PES, {32, 128}},
    {SHMEMX_PERMUTE,       "push",    ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_PERMUTE,       "staged",  ALL_BYTES,    ALL_PES, {32, 256}},
    {SHMEMX_PERMUTE,       "engines", ALL_BYTES,    ALL_PES, {1, 1}},
    {SHMEMX_BARRIER,       "flags",   ALL_BYTES,    32,      {1, 32}},
    {SHMEMX_BARRIER,       "flags",   ALL_BYTES,    ALL_PES, {1, 64}},
    {SHMEMX_SYNC,          "flags",   ALL_BYTES,    32,      {1, 32}},
    {SHMEMX_SYNC,          "flags",   ALL_BYTES,    ALL_PES, {1, 64}},
};
/* clang-format on */

#define ROWS(rows) rows, (int)(sizeof(rows) / sizeof((rows)[0]))
static const struct machine {
    const char *name; /* how the device's name begins */
    const struct stream_row *rows;
    int n;
} machines[] = {{"NVIDIA H200", ROWS(h200_rows)}, {"AMD Instinct MI300X", ROWS(mi300x_rows)}, {"cpu", ROWS(cpu_rows)}};

/* ---- the table in force ---- */

enum origin { FORCED, TUNED, FOR_DEVICE, FOR_ANY, ORIGINS };

struct entry {
    struct stream_row row;
    const struct stream_algorithm *algorithm;
    enum origin origin;
    bool exact; /* the shape is not scaled by size */
    bool explained;
};

enum { MOST_BUILT_IN = 128, MOST_ENTRIES = 2 * STREAM_MOST_ROWS + MOST_BUILT_IN };
struct stream_table {
    char machine[64];
    char from[ORIGINS][320]; /* for explanations: where its rows come from */
    int n;
    struct entry entries[MOST_ENTRIES];
};
_Static_assert(sizeof any_rows + sizeof h200_rows <= MOST_BUILT_IN * sizeof(struct stream_row), "built-in rows fit");

/* "cpu", "NVIDIA H200" */
const char *iso_stream_machine(const struct gpu_info *device)
{
    return strcmp(device->flavour, "cpu") == 0 ? "cpu" : device->name;
}

/* A forced row without a shape takes what is possible, as far as a call is large enough for it. */
static struct entry entry_of(const struct stream_row *row, enum origin origin)
{
    const struct stream_shape largest = {STREAM_MOST_BLOCKS, 256};
    bool shaped = row->shape.grid != 0;
    struct entry e = {*row, iso_stream_algorithm_find(row->kind, row->algorithm), origin, origin == FORCED && shaped,
                      false};
    if (!shaped)
        e.row.shape = largest;
    return e;
}

static void add_rows(struct stream_table *t, const struct stream_row *rows, int n, enum origin origin)
{
    for (int i = 0; i < n; i++)
        t->entries[t->n++] = entry_of(&rows[i], origin);
}

static bool add_forced(struct stream_table *t, const char *variable)
{
    struct stream_rows rows = {.n = 0};
    if (iso_stream_text_forced(variable, &rows) != 0)
        return false;
    snprintf(t->from[FORCED], sizeof t->from[FORCED], "forced by SHMEM_COLL_ON_STREAM");
    add_rows(t, rows.row, rows.n, FORCED);
    return true;
}

/* What a cache holds may be missing or old: then it is left out. What the user names has to be right. */
static bool add_tuned(struct stream_table *t, const struct gpu_info *device)
{
    char path[sizeof t->from[TUNED] - 32], sentence[512] = "";
    struct stream_rows rows = {.n = 0};
    bool named = ISO->env->coll_table[0] != '\0';
    iso_stream_text_path(device, path, sizeof path);
    int rc = path[0] != '\0' ? iso_stream_text_read(path, device, &rows, sentence) : -ENOENT;
    if (rc == 0) {
        snprintf(t->from[TUNED], sizeof t->from[TUNED], "row of the table in %s", path);
        add_rows(t, rows.row, rows.n, TUNED);
    } else if (named) {
        log_error("SHMEM_COLL_TABLE: %s", sentence);
    } else if (rc != -ENOENT && rc != -ENOTDIR) {
        log_warn("%s; the tuned table is not used", sentence);
    }
    return rc == 0 || !named;
}

/* ---- open, close, compare ---- */

static void add_for_device(struct stream_table *t)
{
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        if (strncmp(t->machine, machines[i].name, strlen(machines[i].name)) == 0) {
            snprintf(t->from[FOR_DEVICE], sizeof t->from[FOR_DEVICE], "row of the built-in table for %s",
                     machines[i].name);
            add_rows(t, machines[i].rows, machines[i].n, FOR_DEVICE);
            return;
        }
}

static struct stream_table *create(const struct gpu_info *device)
{
    struct stream_table *t = (struct stream_table *)calloc(1, sizeof *t);
    if (t == NULL) {
        log_error("no memory for the table of collectives on streams");
        return NULL;
    }
    snprintf(t->from[FOR_ANY], sizeof t->from[FOR_ANY], "row of the built-in table for any device");
    snprintf(t->machine, sizeof t->machine, "%s", device != NULL ? iso_stream_machine(device) : "any device");
    return t;
}

static struct stream_table *add_built_in(struct stream_table *t)
{
    add_for_device(t);
    add_rows(t, any_rows, (int)(sizeof any_rows / sizeof any_rows[0]), FOR_ANY);
    return t;
}

struct stream_table *iso_stream_table_open(const struct gpu_info *device)
{
    struct stream_table *t = create(device);
    if (t == NULL || device == NULL || (add_forced(t, ISO->env->coll_on_stream) && add_tuned(t, device)))
        return t != NULL ? add_built_in(t) : NULL;
    free(t);
    return NULL;
}

struct stream_table *iso_stream_table_built_in(const struct gpu_info *device)
{
    struct stream_table *t = create(device);
    return t != NULL ? add_built_in(t) : NULL;
}

void iso_stream_table_close(struct stream_table *table) { free(table); }

/* FNV-1a. */
static uint64_t mix(uint64_t sum, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        sum = (sum ^ (value >> 8 * i & 0xff)) * 0x100000001b3u;
    return sum;
}

uint64_t iso_stream_table_sum(const struct stream_table *table)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < table->n; i++) {
        const struct entry *e = &table->entries[i];
        sum = mix(sum, (uint64_t)(e->algorithm - iso_stream_algorithms));
        sum = mix(sum, e->row.max_bytes);
        sum = mix(sum, (uint64_t)e->row.max_pes);
        sum = mix(sum, (uint64_t)e->row.shape.grid << 32 | e->row.shape.threads);
        sum = mix(sum, e->exact);
    }
    return sum;
}

/* ---- the choice ---- */

static unsigned most_blocks(const struct entry *e, const struct stream_facts *f)
{
    if (e->row.kind == SHMEMX_BARRIER || e->row.kind == SHMEMX_SYNC)
        return 1;
    return ISO_MIN(e->row.shape.grid, e->algorithm->engines ? (unsigned)ISO_ENGINE_STREAMS : f->most_blocks);
}

static bool has_what_it_needs(const struct stream_algorithm *a, const struct stream_facts *f)
{
    unsigned ranges = a->needs & (ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE);
    bool direct = (a->needs & (ISOD_NEEDS_DIRECT | ISOD_NEEDS_NODES)) != 0;
    bool combines = a->sums == NULL || a->any != NULL || (f->op == SHMEMX_SUM && a->sums[f->type] != NULL);
    return (a->needs & ~f->has) == 0 && !(direct && (ranges & ~f->near) != 0) && combines;
}

static bool can(const struct entry *e, const struct stream_facts *f)
{
    const struct stream_algorithm *a = e->algorithm;
    if (e->row.kind != f->kind || (f->engines && !a->engines))
        return false;
    if (f->bytes > e->row.max_bytes || f->n_pes > e->row.max_pes || !has_what_it_needs(a, f))
        return false;
    return a->capacity == NULL || f->bytes <= a->capacity(f, most_blocks(e, f));
}

/* As many blocks as have something to do, of no more threads than have a unit each, or what the algorithm counts. */
static struct stream_shape scale(const struct stream_facts *f, const struct stream_algorithm *a,
                                 struct stream_shape most)
{
    const unsigned wave = 64; /* of the device that has the largest: members may have different ones */
    struct stream_shape s = most;
    uint64_t units = (f->block + 15) / 16 * 16 / ISO_MIN(a->bytes, 16u),
             of_block = (uint64_t)a->bytes * most.threads;
    uint64_t worth = ISO_MAX((f->block + of_block - 1) / of_block, (uint64_t)1);
    s.grid = (unsigned)ISO_MIN(worth, (uint64_t)most.grid);
    if (a->capacity != NULL && a->capacity(f, s.grid) < f->bytes)
        s.grid = most.grid;
    if (s.grid == 1 && units < most.threads)
        s.threads = ISO_MIN(most.threads, ISO_MAX(((unsigned)units + wave - 1) / wave * wave, wave));
    return s;
}

static struct stream_shape shape_of(const struct entry *e, const struct stream_facts *f)
{
    struct stream_shape most = {most_blocks(e, f), ISO_MIN(e->row.shape.threads, f->most_threads)};
    if ((e->algorithm->needs & ISOD_NEEDS_WHOLE_LINES) != 0)
        most.threads = (most.threads + 7) / 8 * 8; /* they share lines; most_threads is a power of two */
    return e->exact || e->algorithm->bytes == 0 ? most : scale(f, e->algorithm, most);
}

bool iso_stream_row_can(const struct stream_row *row, const struct stream_facts *f, struct stream_shape *shape)
{
    struct entry e = entry_of(row, TUNED);
    bool possible = can(&e, f);
    if (possible)
        *shape = shape_of(&e, f);
    return possible;
}

struct stream_choice iso_stream_choose(const struct stream_table *table, const struct stream_facts *f)
{
    struct stream_choice choice = {NULL, {0, 0}, "", -1, false};
    for (int i = 0; i < table->n; i++) {
        const struct entry *e = &table->entries[i];
        if (can(e, f)) {
            choice.algorithm = e->algorithm;
            choice.shape = shape_of(e, f);
            choice.why = table->from[e->origin];
            choice.row = i;
            choice.not_forced &= e->origin != FORCED;
            break;
        }
        choice.not_forced |= e->origin == FORCED && e->row.kind == f->kind;
    }
    return choice;
}

/* ---- as text ---- */

size_t iso_stream_choice_text(const struct stream_facts *f, const struct stream_choice *choice, char *text,
                              size_t bytes)
{
    char shape[64];
    unsigned n = choice->shape.grid, threads = choice->shape.threads;
    if (choice->algorithm == NULL)
        return (size_t)snprintf(text, bytes, "%s: no algorithm can do this call", iso_stream_kind_name(f->kind));
    if (choice->algorithm->engines)
        snprintf(shape, sizeof shape, "at most %u stream%s", n, n > 1 ? "s" : "");
    else
        snprintf(shape, sizeof shape, "%u block%s of %u thread%s", n, n > 1 ? "s" : "", threads,
                 threads > 1 ? "s" : "");
    int len = snprintf(text, bytes, "%s of %zu bytes on %d PEs, on a stream: %s, %s (%s%s: %s)",
                       iso_stream_kind_name(f->kind), f->bytes, f->n_pes, choice->algorithm->name,
                       shape, choice->why, choice->not_forced ? ", because the forced one cannot do this" : "",
                       choice->algorithm->why);
    return len > 0 ? (size_t)len : 0;
}

void iso_stream_table_explain(struct stream_table *table, const struct stream_call *c,
                              const struct stream_choice *choice)
{
    char text[768];
    if (!ISO->env->coll_explain || choice->row < 0 || table->entries[choice->row].explained || c->args.h.my_pe != 0)
        return;
    table->entries[choice->row].explained = true;
    (void)iso_stream_choice_text(&c->facts, choice, text, sizeof text);
    log_answer("%s", text);
}

struct text {
    char *at;
    size_t bytes, used;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = t->used < t->bytes ? t->bytes - t->used : 0;
    int n = vsnprintf(left > 0 ? t->at + t->used : NULL, left, format, args);
    va_end(args);
    t->used += n > 0 ? (size_t)n : 0;
}

static void add_entry(struct text *t, const struct entry *e)
{
    static const char *const origins[ORIGINS] = {"forced", "tuned", "built in", "any device"};
    char bytes[24] = "any", pes[16] = "any";
    if (e->row.max_bytes != ALL_BYTES)
        snprintf(bytes, sizeof bytes, "<= %zu", e->row.max_bytes);
    if (e->row.max_pes != ALL_PES)
        snprintf(pes, sizeof pes, "<= %d", e->row.max_pes);
    add(t, "%-13s %-9s %-12s %-6s %6u %7u  %-10s %s\n", iso_stream_kind_name(e->row.kind), e->row.algorithm, bytes, pes,
        e->row.shape.grid, e->row.shape.threads, origins[e->origin], e->algorithm->why);
}

size_t iso_stream_table_text(const struct stream_table *table, char *text, size_t bytes)
{
    struct text t = {text, bytes, 0};
    add(&t, "on streams, for %s:\n%-13s %-9s %-12s %-6s %6s %7s  %-10s %s\n", table->machine, "kind", "algorithm",
        "bytes", "PEs", "blocks", "threads", "from", "why");
    for (int kind = 0; kind < STREAM_KINDS; kind++)
        for (int i = 0; i < table->n; i++)
            if (table->entries[i].row.kind == kind)
                add_entry(&t, &table->entries[i]);
    return t.used;
}
