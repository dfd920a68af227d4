/* SPDX-License-Identifier: MIT */
/* Which algorithm a collective on a stream takes, and with how many blocks and threads: the streams' table, and the
 * choice by the facts of a call. The rows for any device can do every call but alltoallv without a reachable dest.
 * Called by coll_stream.c, stream_slot.c, which sees to it that members with different rows do not use them, and the
 * tuner. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

/* A file in the cache may be missing or old: then it is left out. A file that the user names has to be right. */
static bool add_tuned(struct select_table *t, const struct gpu_info *device)
{
    char path[sizeof t->from[SELECT_TUNED] - 32], sentence[512] = "";
    struct select_rows rows = {.n = 0, .text = NULL};
    bool named = ISO->env->coll_table[0] != '\0';
    iso_select_path(ISO->env->coll_table, device, path, sizeof path);
    int rc = path[0] != '\0' ? iso_select_read(path, device, &rows, sentence) : -ENOENT;
    if (rc == 0) {
        snprintf(t->from[SELECT_TUNED], sizeof t->from[SELECT_TUNED], "row of the table in %s", path);
        return iso_select_add(t, &rows, SELECT_TUNED);
    }
    if (named)
        log_error("SHMEM_COLL_TABLE: %s", sentence);
    else if (rc != -ENOENT && rc != -ENOTDIR)
        log_warn("%s; the tuned table is not used", sentence);
    return !named;
}

static struct select_table *built_in(struct select_table *t)
{
    if (iso_select_add_built_in(t)) {
        iso_select_finish(t);
        return t;
    }
    iso_select_close(t);
    return NULL;
}

struct select_table *iso_stream_table_built_in(const struct gpu_info *device)
{
    struct select_table *t =
        iso_select_create(&iso_select_stream, device != NULL ? iso_select_machine(device) : "any device");
    return t != NULL ? built_in(t) : NULL;
}

struct select_table *iso_stream_table_open(const struct gpu_info *device)
{
    if (device == NULL)
        return iso_stream_table_built_in(NULL);
    struct select_table *t = iso_select_create(&iso_select_stream, iso_select_machine(device));
    if (t != NULL && iso_select_add_forced(t, ISO->env->coll) && add_tuned(t, device))
        return built_in(t);
    iso_select_close(t);
    return NULL;
}

/* ---- the choice ---- */

static unsigned most_blocks(const struct select_entry *e, const struct select_facts *f)
{
    if (f->kind == SHMEMX_BARRIER || f->kind == SHMEMX_SYNC)
        return 1;
    return ISO_MIN(e->row.shape.grid, e->row.algorithm->engines ? (unsigned)ISO_ENGINE_STREAMS : f->most_blocks);
}

static bool can(const struct select_entry *e, const struct select_facts *f)
{
    const struct select_algorithm *a = e->row.algorithm;
    if (!iso_select_row_fits(&e->row, f, most_blocks(e, f)))
        return false;

    /* Where pointers have to reach all members, they have to reach the ranges that peers touch, too. */
    unsigned ranges = a->needs & (ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE);
    if ((a->needs & (ISOD_NEEDS_DIRECT | ISOD_NEEDS_NODES)) != 0 && (ranges & ~f->near) != 0)
        return false;

    /* Engines copy where the hosts know that dest is. */
    if (a->engines && !a->stages && !f->known)
        return false;

    if (f->apart && !a->stages)
        return false;

    /* There has to be a kernel for the type and the operator. */
    bool combines = (a->sums == NULL && a->any == NULL) || iso_stream_reduction(a, f) != NULL;
    return combines && (a->engines || !f->engines);
}

static struct select_shape shape_of(const struct select_entry *e, const struct select_facts *f)
{
    const struct select_algorithm *a = e->row.algorithm;
    struct select_shape s = {most_blocks(e, f), ISO_MIN(e->row.shape.threads, f->most_threads)};
    if ((a->needs & ISOD_NEEDS_WHOLE_LINES) != 0)
        s.threads = (s.threads + 7) / 8 * 8; /* they share lines; most_threads is a power of two */
    if (e->exact || a->bytes == 0)
        return s;

    /* As many blocks as have something to do, or as the algorithm needs for so many bytes. */
    unsigned most = s.grid;
    uint64_t of_block = (uint64_t)a->bytes * s.threads;
    uint64_t worth = ISO_MAX((f->block + of_block - 1) / of_block, (uint64_t)1);
    s.grid = (unsigned)ISO_MIN(worth, (uint64_t)most);
    if (a->fits != NULL && !a->fits(f, s.grid))
        s.grid = most;

    /* A single block has no more threads than have a unit each, in whole waves. */
    const unsigned wave = 64; /* of the device that has the largest: members may have different ones */
    uint64_t units = (f->block + 15) / 16 * 16 / ISO_MIN(a->bytes, 16u);
    if (s.grid == 1 && units < s.threads)
        s.threads = ISO_MIN(s.threads, ISO_MAX(((unsigned)units + wave - 1) / wave * wave, wave));
    return s;
}

bool iso_stream_row_can(const struct select_row *row, const struct select_facts *f, struct select_shape *shape)
{
    struct select_entry e = {*row, SELECT_TUNED, false, false};
    bool possible = row->algorithm->kind == f->kind && can(&e, f);
    if (possible)
        *shape = shape_of(&e, f);
    return possible;
}

/* The tuner measures calls alone. Where a built-in row is for calls beside a computation, its rows are not for these. */
static bool is_for(const struct select_table *t, const struct select_entry *e, const struct select_facts *f)
{
    return e->origin != SELECT_TUNED || (f->has & ISOD_NEEDS_BACKGROUND) == 0 ||
           (e->row.needs & ISOD_NEEDS_BACKGROUND) != 0 || !t->beside[f->kind];
}

struct select_choice iso_stream_choose(const struct select_table *table, const struct select_facts *f)
{
    const struct select_entry *e = table->kind[f->kind], *end = table->kind[f->kind + 1];
    while (e < end && !(is_for(table, e, f) && can(e, f)))
        e++;
    struct select_choice choice = iso_select_choice_of(table, f, e < end ? e : NULL);
    if (e < end)
        choice.shape = shape_of(e, f);
    return choice;
}
