/* SPDX-License-Identifier: MIT */
/* A table of algorithms: how it is put together, compared, asked and printed. host_choice.c and stream_choice.c know
 * the facts and make the choice. Called by these and by stream_slot.c, which sees to it that members with different
 * rows do not use them. */
#include "select.h"

#include "../../bootstrap/log.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- putting a table together ---- */

struct select_table *iso_select_create(const struct select_plane *plane, const char *machine)
{
    struct select_table *t = (struct select_table *)calloc(1, sizeof *t);
    if (t == NULL) {
        log_error("no memory for the table of collectives %s", plane->where);
        return NULL;
    }
    t->plane = plane;
    snprintf(t->machine, sizeof t->machine, "%s", machine);
    return t;
}

void iso_select_close(struct select_table *table)
{
    for (int i = 0; table != NULL && i < SELECT_ORIGINS; i++)
        free(table->texts[i]);
    free(table);
}

bool iso_select_add(struct select_table *t, struct select_rows *rows, enum select_origin origin)
{
    const struct select_shape largest = {SELECT_MOST_BLOCKS, 256}; /* of a forced row without a shape */
    t->texts[origin] = rows->text;
    rows->text = NULL;
    if (t->n + rows->n > SELECT_MOST_ENTRIES) {
        log_error("the table of collectives %s has more than %d rows", t->plane->where, SELECT_MOST_ENTRIES);
        return false;
    }
    for (int i = 0; i < rows->n; i++) {
        struct select_entry *e = &t->entries[t->n++];
        bool shaped = rows->row[i].shape.grid != 0;
        *e = (struct select_entry){rows->row[i], origin, origin == SELECT_FORCED && shaped, false};
        if (t->plane->most_threads != 0 && !shaped)
            e->row.shape = largest;
    }
    return true;
}

bool iso_select_add_forced(struct select_table *t, const char *variable)
{
    struct select_rows rows = {.n = 0, .text = NULL};
    snprintf(t->from[SELECT_FORCED], sizeof t->from[SELECT_FORCED], "forced by SHMEM_COLL");
    return iso_select_forced(variable, t->plane, &rows) == 0 && iso_select_add(t, &rows, SELECT_FORCED);
}

/* Rows of one of the files in tables/. tests/unit/select_test.c reads them all, so a wrong one is not shipped. */
static bool add_text(struct select_table *t, const struct select_text *text, enum select_origin origin)
{
    struct select_rows rows = {.n = 0, .text = (char *)malloc(text->bytes)};
    char sentence[512] = "no memory";
    const char *name;
    if (rows.text != NULL)
        memcpy(rows.text, text->text, text->bytes);
    if (rows.text == NULL || !iso_select_parse(t->plane, NULL, &rows, sentence)) {
        log_error("coll/select/tables/%s.table:%d: %s", text->name, rows.line, sentence);
        free(rows.text);
        return false;
    }
    (void)iso_select_devices(rows.header, &name);
    snprintf(t->from[origin], sizeof t->from[origin], "row of the built-in table for %s%s",
             t->plane->most_threads != 0 ? "" : "the ", name);
    return iso_select_add(t, &rows, origin);
}

/* The first line of a file that is not a comment names machines, joined by " | ", or how their names begin. */
static bool add_for(struct select_table *t, const char *machine, enum select_origin origin)
{
    for (int i = 0; i < iso_select_n_texts; i++) {
        const char *at = (const char *)iso_select_texts[i].text, *name;
        char header[160];
        while (*at == '#' || *at == '\n')
            at += strcspn(at, "\n") + 1;
        snprintf(header, sizeof header, "%.*s", (int)strcspn(at, "\n"), at);
        (void)iso_select_devices(header, &name);
        for (const char *end; name != NULL; name = end != NULL ? end + 3 : NULL) {
            end = strstr(name, " | ");
            if (strncmp(machine, name, end != NULL ? (size_t)(end - name) : strlen(name)) == 0)
                return add_text(t, &iso_select_texts[i], origin);
        }
    }
    return true;
}

bool iso_select_add_built_in(struct select_table *t)
{
    if (t->plane->most_threads == 0)
        return add_for(t, "host", SELECT_FOR_DEVICE);
    return (strcmp(t->machine, "any device") == 0 || add_for(t, t->machine, SELECT_FOR_DEVICE)) &&
           add_for(t, "any device", SELECT_FOR_ANY);
}

void iso_select_finish(struct select_table *t)
{
    struct select_entry e;
    for (int i = 1; i < t->n; i++) { /* by insertion, which keeps the order of rows of a kind */
        int at = i;
        for (e = t->entries[i]; at > 0 && t->entries[at - 1].row.algorithm->kind > e.row.algorithm->kind; at--)
            t->entries[at] = t->entries[at - 1];
        t->entries[at] = e;
    }
    for (int i = 0; i < t->n; i++)
        if (t->entries[i].origin > SELECT_TUNED && (t->entries[i].row.needs & ISOD_NEEDS_BACKGROUND) != 0)
            t->beside[t->entries[i].row.algorithm->kind] = true;
    for (int kind = 0, i = 0; kind <= t->plane->n_kinds; kind++) {
        while (i < t->n && t->entries[i].row.algorithm->kind < kind)
            i++;
        t->kind[kind] = &t->entries[i];
    }
}

/* FNV-1a. */
static uint64_t mix(uint64_t sum, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        sum = (sum ^ (value >> 8 * i & 0xff)) * 0x100000001b3u;
    return sum;
}

uint64_t iso_select_sum(const struct select_table *table)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (int i = 0; i < table->n; i++) {
        const struct select_entry *e = &table->entries[i];
        sum = mix(sum, (uint64_t)(e->row.algorithm - table->plane->algorithms));
        sum = mix(sum, (uint64_t)e->row.needs << 32 | (uint32_t)e->row.max_pes);
        sum = mix(sum, e->row.max_bytes);
        sum = mix(sum, (uint64_t)e->row.shape.grid << 32 | e->row.shape.threads);
        sum = mix(sum, e->exact);
    }
    return sum;
}

/* ---- a choice, as text ---- */

struct select_choice iso_select_choice_of(const struct select_table *t, const struct select_facts *f,
                                          const struct select_entry *e)
{
    struct select_choice choice = {NULL, {0, 0}, "", "", -1, false};
    const struct select_entry *first = t->kind[f->kind];
    choice.not_forced = first < t->kind[f->kind + 1] && first->origin == SELECT_FORCED;
    if (e == NULL)
        return choice;
    choice.algorithm = e->row.algorithm;
    choice.from = t->from[e->origin];
    choice.why = e->row.why != NULL ? e->row.why : e->row.algorithm->why;
    choice.row = (int)(e - t->entries);
    choice.not_forced &= e->origin != SELECT_FORCED;
    return choice;
}

size_t iso_select_choice_text(const struct select_plane *plane, const struct select_facts *f,
                              const struct select_choice *choice, char *text, size_t bytes)
{
    char shape[64] = "";
    unsigned n = choice->shape.grid, threads = choice->shape.threads;
    if (choice->algorithm == NULL)
        return (size_t)snprintf(text, bytes, "%s: no algorithm can do this call", plane->kinds[f->kind]);
    if (choice->algorithm->engines)
        snprintf(shape, sizeof shape, ", at most %u stream%s", n, n > 1 ? "s" : "");
    else if (plane->most_threads != 0)
        snprintf(shape, sizeof shape, ", %u block%s of %u thread%s", n, n > 1 ? "s" : "", threads,
                 threads > 1 ? "s" : "");
    int len = snprintf(text, bytes, "%s of %zu bytes on %d PEs, %s%s: %s%s (%s%s: %s)", plane->kinds[f->kind], f->bytes,
                       f->n_pes, plane->where,
                       (f->has & ISOD_NEEDS_OVER) != 0         ? ", more PEs than cores"
                       : (f->has & ISOD_NEEDS_BACKGROUND) != 0 ? ", beside a computation"
                                                               : "",
                       choice->algorithm->name, shape, choice->from,
                       choice->not_forced ? ", because the forced one cannot do this" : "", choice->why);
    return len > 0 ? (size_t)len : 0;
}

void iso_select_explain(struct select_table *table, const struct select_facts *f,
                        const struct select_choice *choice)
{
    char text[768];
    if (choice->row < 0 || table->entries[choice->row].explained)
        return;
    table->entries[choice->row].explained = true;
    (void)iso_select_choice_text(table->plane, f, choice, text, sizeof text);
    log_answer("%s", text);
}

/* ---- the table as text ---- */

struct text {
    char *at;
    size_t bytes, used;
};

static void add_row_text(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_row_text(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = t->used < t->bytes ? t->bytes - t->used : 0;
    int n = vsnprintf(left > 0 ? t->at + t->used : NULL, left, format, args);
    va_end(args);
    t->used += n > 0 ? (size_t)n : 0;
}

static const char columns[] = "%-13s %-15s %-11s %-6s %-8s %-23s %-10s %s\n";

size_t iso_select_table_text(const struct select_table *table, char *text, size_t bytes)
{
    static const char *const origins[SELECT_ORIGINS] = {"forced", "tuned", "built in", "any device"};
    const struct select_plane *plane = table->plane;
    struct text t = {text, bytes, 0};
    add_row_text(&t, "%s%s%s:\n", plane->where, table->machine[0] != '\0' ? ", for " : "", table->machine);
    add_row_text(&t, columns, "kind", "algorithm", "bytes", "PEs", "blocks", "needs", "from", "why");
    for (int i = 0; i < table->n; i++) {
        char most_bytes[24] = "any", pes[16] = "any", shape[24] = "-", needs[128];
        const struct select_row *row = &table->entries[i].row;
        if (row->max_bytes != SIZE_MAX)
            snprintf(most_bytes, sizeof most_bytes, "<= %zu", row->max_bytes);
        if (row->max_pes != INT_MAX)
            snprintf(pes, sizeof pes, "<= %d", row->max_pes);
        if (plane->most_threads != 0)
            snprintf(shape, sizeof shape, "%ux%u", row->shape.grid, row->shape.threads);
        add_row_text(&t, columns, plane->kinds[row->algorithm->kind], row->algorithm->name, most_bytes, pes, shape,
                     iso_select_needs_text(row->needs, needs, sizeof needs), origins[table->entries[i].origin],
                     row->why != NULL ? row->why : row->algorithm->why);
    }
    return t.used;
}
