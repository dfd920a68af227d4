/* SPDX-License-Identifier: MIT */
/* Rows of tables of algorithms as text: what SHMEM_COLL forces, the built-in tables, and the file of tuned rows, read
 * and written. Everything that a person may have typed is checked here; a sentence says what is wrong and what there
 * is. Called by select.c, stream_choice.c and the tuner. */
#include "select.h"

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- words and sentences ---- */

static const char *const needs_names[] = {"direct", "dest",    "source", "apart",      "nodes",
                                          "ll128",  "streams", "far",    "span",       "node_order",
                                          "order",  "spare",   "over",   "background", "stage"};
enum { NEEDS = sizeof needs_names / sizeof needs_names[0] };
_Static_assert(ISOD_NEEDS_STAGE == 1 << (NEEDS - 1), "each need has a name");

const char *iso_select_needs_text(unsigned needs, char *text, size_t bytes)
{
    size_t used = 0;
    snprintf(text, bytes, "any");
    for (int i = 0; i < NEEDS && used < bytes; i++)
        if ((needs >> i & 1) != 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? "+" : "", needs_names[i]);
    return text;
}

static bool wrong(char sentence[512], const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(char sentence[512], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, 512, format, args);
    va_end(args);
    return false;
}

/* Ends the text at the first such character; what comes after it, or NULL. */
static char *cut(char *text, char at)
{
    char *found = strchr(text, at);
    if (found != NULL)
        *found++ = '\0';
    return found;
}

/* A decimal number from `least` to `most`, all of the text. */
static bool read_number(const char *text, unsigned least, unsigned most, unsigned *value)
{
    unsigned v = 0;
    if (*text == '\0')
        return false;
    for (; isdigit((unsigned char)*text) && v <= most; text++)
        v = v * 10 + (unsigned)(*text - '0');
    *value = v;
    return *text == '\0' && v >= least && v <= most;
}

static int find_kind(const struct select_plane *plane, const char *name)
{
    for (int kind = 0; kind < plane->n_kinds; kind++)
        if (strcmp(plane->kinds[kind], name) == 0)
            return kind;
    return -1;
}

/* The names of a kind's algorithms, or of all kinds (kind < 0). */
static void list_names(const struct select_plane *plane, int kind, char *text, size_t bytes)
{
    size_t used = 0;
    int n = kind < 0 ? plane->n_kinds : plane->n_algorithms;
    text[0] = '\0';
    for (int i = 0; i < n && used < bytes; i++)
        if (kind < 0 || plane->algorithms[i].kind == kind)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     kind < 0 ? plane->kinds[i] : plane->algorithms[i].name);
}

const struct select_algorithm *iso_select_find(const struct select_plane *plane, int kind, const char *name)
{
    for (int i = 0; i < plane->n_algorithms; i++)
        if (plane->algorithms[i].kind == kind && strcmp(plane->algorithms[i].name, name) == 0)
            return &plane->algorithms[i];
    return NULL;
}

/* A row without limits, of kind and algorithm by name. */
static bool name_row(const struct select_plane *plane, const char *kind_name, const char *name, struct select_row *row,
                     char sentence[512])
{
    char names[256];
    int kind = find_kind(plane, kind_name);
    *row = (struct select_row){.max_bytes = SIZE_MAX, .max_pes = INT_MAX};
    if (kind < 0) {
        list_names(plane, -1, names, sizeof names);
        return wrong(sentence, "\"%.64s\" is not a collective %s; there are %s", kind_name, plane->where, names);
    }
    row->algorithm = iso_select_find(plane, kind, name);
    if (row->algorithm == NULL) {
        list_names(plane, kind, names, sizeof names);
        return wrong(sentence, "\"%.64s\" is not an algorithm of %s %s; there are %s", name, kind_name, plane->where,
                     names);
    }
    row->needs = row->algorithm->needs;
    return true;
}

static bool shape_row(const struct select_plane *plane, const char *blocks, const char *threads, struct select_row *row,
                      char sentence[512])
{
    if (!read_number(blocks, 1, SELECT_MOST_BLOCKS, &row->shape.grid))
        return wrong(sentence, "\"%.64s\" is not a number of blocks; allowed: 1..%d", blocks, SELECT_MOST_BLOCKS);
    if (!read_number(threads, 1, plane->most_threads, &row->shape.threads))
        return wrong(sentence, "\"%.64s\" is not a number of threads; allowed: 1..%u", threads, plane->most_threads);
    return true;
}

/* ---- SHMEM_COLL ---- */

static const struct select_plane *const planes[] = {&iso_select_host, &iso_select_stream};
enum { PLANES = sizeof planes / sizeof planes[0] };

/* "host.barrier" without its prefix, and *plane. */
static const char *find_plane(const char *kind, const struct select_plane **plane, char sentence[512])
{
    const char *dot = strchr(kind, '.');
    char where[64] = "";
    for (int p = 0; p < PLANES; p++) {
        *plane = planes[p];
        size_t len = strlen(planes[p]->name), used = strlen(where);
        if (dot != NULL && (size_t)(dot - kind) == len && strncmp(kind, planes[p]->name, len) == 0)
            return dot + 1;
        if (dot == NULL && find_kind(planes[p], kind) >= 0)
            snprintf(where + used, sizeof where - used, "%s%s.%.16s", used > 0 ? " or " : "", planes[p]->name, kind);
    }
    if (dot != NULL)
        (void)wrong(sentence, "\"%.*s\" is not a place of collectives; there are host and stream", (int)(dot - kind),
                    kind);
    else if (where[0] != '\0')
        (void)wrong(sentence, "\"%.64s\" does not say where; write %s", kind, where);
    else
        (void)wrong(sentence,
                    "\"%.64s\" is not a collective; write host. or stream. and a kind of \"isomer-info --table\"",
                    kind);
    return NULL;
}

/* One "plane.kind=algorithm[:blocks[xthreads]]", which it takes apart. */
static bool force(char *text, const struct select_plane *only, struct select_rows *to, char sentence[512])
{
    struct select_row row;
    const struct select_plane *plane;
    char *name = cut(text, '='), *blocks = name != NULL ? cut(name, ':') : NULL;
    char *threads = blocks != NULL ? cut(blocks, 'x') : NULL;
    const char *kind = find_plane(text, &plane, sentence);
    if (kind == NULL || !name_row(plane, kind, name != NULL ? name : "", &row, sentence))
        return false;
    if (blocks != NULL && plane->most_threads == 0)
        return wrong(sentence, "\":%.64s\" is not possible; algorithms %s have no blocks", blocks, plane->where);
    if (blocks != NULL && !shape_row(plane, blocks, threads != NULL ? threads : "256", &row, sentence))
        return false;
    if (to->n == SELECT_MOST_ROWS)
        return wrong(sentence, "this is one too many; allowed: %d", SELECT_MOST_ROWS);
    if (plane == only)
        to->row[to->n++] = row;
    return true;
}

int iso_select_forced(const char *variable, const struct select_plane *plane, struct select_rows *to)
{
    char sentence[512], whole[128], *text = strdup(variable), *rest = text, *one;
    bool right = text != NULL;
    if (!right)
        log_error("SHMEM_COLL: no memory");
    while (right && (one = strsep(&rest, ",")) != NULL) {
        snprintf(whole, sizeof whole, "%s", one);
        right = *one == '\0' || force(one, plane, to, sentence);
        if (!right)
            log_error("SHMEM_COLL: in \"%s\", %s", whole, sentence);
    }
    free(text);
    return right ? 0 : -EINVAL;
}

/* ---- a table ---- */

struct reader {
    const struct select_plane *plane;
    char *rest;
    int line;
    char *sentence; /* [512] */
};

/* The next line that says something, without comment and white space around it; NULL: the end. */
static char *next_line(struct reader *r)
{
    while (*r->rest != '\0') {
        char *begin = r->rest, *end = begin + strcspn(begin, "\n");
        r->rest = *end != '\0' ? end + 1 : end;
        *end = '\0';
        r->line++;
        begin[strcspn(begin, "#\r")] = '\0';
        begin += strspn(begin, " \t");
        for (end = begin + strlen(begin); end > begin && (end[-1] == ' ' || end[-1] == '\t'); end--)
            end[-1] = '\0';
        if (*begin != '\0')
            return begin;
    }
    return NULL;
}

unsigned iso_select_devices(const char *header, const char **name)
{
    char number[16] = "";
    unsigned n = 0;
    size_t digits = strcspn(header, " ");
    snprintf(number, sizeof number, "%.*s", (int)digits, header);
    bool counted = read_number(number, 1, 65536, &n) && strncmp(header + digits, " x ", 3) == 0;
    *name = counted ? header + digits + 3 : header;
    return counted ? n : 0;
}

/* "cpu", "NVIDIA H200" */
const char *iso_select_machine(const struct gpu_info *device)
{
    return strcmp(device->flavour, "cpu") == 0 ? "cpu" : device->name;
}

/* "far+over": added to row->needs. */
static bool read_needs(char *text, struct select_row *row, char sentence[512])
{
    char names[128], *one;
    while (strcmp(text, "any") != 0 && (one = strsep(&text, "+")) != NULL) {
        int i = 0;
        while (i < NEEDS && strcmp(one, needs_names[i]) != 0)
            i++;
        if (i == NEEDS)
            return wrong(sentence, "\"%.64s\" is not a need; there are any, %s, joined by +", one,
                         iso_select_needs_text((1u << NEEDS) - 1, names, sizeof names));
        row->needs |= 1u << i;
        if (text == NULL)
            break;
    }
    return true;
}

/* "allreduce ll 128k 4 64 128 [needs] ["why"]": kind, algorithm, most bytes, most PEs, on streams blocks and
 * threads. */
static bool read_row(struct reader *r, char *line, struct select_row *row)
{
    char *field[7], *one, *why = cut(line, '"'), *behind = why != NULL ? cut(why, '"') : NULL;
    unsigned pes = 0;
    int n = 0, least = r->plane->most_threads != 0 ? 6 : 4;
    if (why != NULL && (behind == NULL || *behind != '\0'))
        return wrong(r->sentence, "the reason has to stand in quotes at the end of the row");
    for (char *rest = line; (one = strsep(&rest, " \t")) != NULL;)
        if (*one != '\0' && n++ < 7)
            field[n - 1] = one;
    if (n < least || n > least + 1)
        return wrong(r->sentence, "%d fields; a row has %d: kind algorithm bytes PEs%s [needs] [\"why\"]", n, least,
                     r->plane->most_threads != 0 ? " blocks threads" : "");
    if (!name_row(r->plane, field[0], field[1], row, r->sentence) ||
        (r->plane->most_threads != 0 && !shape_row(r->plane, field[4], field[5], row, r->sentence)) ||
        (n > least && !read_needs(field[least], row, r->sentence)))
        return false;
    if (strcmp(field[2], "any") != 0 && iso_env_parse_size(field[2], &row->max_bytes) != 0)
        return wrong(r->sentence, "\"%.64s\" is not a size; allowed: bytes, with a suffix k, m or g, or any", field[2]);
    if (strcmp(field[3], "any") != 0 && !read_number(field[3], 1, INT_MAX / 10, &pes))
        return wrong(r->sentence, "\"%.64s\" is not a number of PEs; allowed: 1..%d, or any", field[3], INT_MAX / 10);
    if (pes != 0)
        row->max_pes = (int)pes;
    row->why = why;
    return true;
}

bool iso_select_parse(const struct select_plane *plane, const struct gpu_info *device, struct select_rows *to,
                      char sentence[512])
{
    struct reader r = {plane, to->text, 0, sentence};
    char *one = next_line(&r);
    bool right = one != NULL || wrong(sentence, "the file says nothing");
    to->header = one;

    /* "8 x NVIDIA H200": of how many devices of which name the table is. */
    if (right && device != NULL) {
        const char *name, *machine = iso_select_machine(device);
        unsigned n = iso_select_devices(one, &name);
        if (n == 0)
            right = wrong(sentence,
                          "\"%.80s\" is not a header; a header names the devices of the table, like \"8 x NVIDIA H200\"",
                          one);
        else if (strcmp(name, machine) != 0)
            right = wrong(sentence, "the table is for \"%.63s\", this device is \"%s\"", name, machine);
        else if ((int)n != device->n_devices)
            log_info("the table of collectives on streams was tuned with %u devices, here are %d", n,
                     device->n_devices);
    }

    while (right && (one = next_line(&r)) != NULL) {
        if (to->n == SELECT_MOST_ROWS)
            right = wrong(sentence, "more than %d rows", SELECT_MOST_ROWS);
        else
            right = read_row(&r, one, &to->row[to->n++]);
    }
    to->line = r.line;
    return right;
}

/* ---- the tuned rows: a file ---- */

int iso_select_read(const char *path, const struct gpu_info *device, struct select_rows *to, char sentence[512])
{
    enum { MOST = 1 << 16 };
    char why[512] = "";
    FILE *in = fopen(path, "re");
    char *text = in != NULL ? (char *)malloc(MOST + 1) : NULL;
    size_t bytes = text != NULL ? fread(text, 1, MOST + 1, in) : 0;
    int error = bytes > MOST ? EFBIG : in != NULL && ferror(in) ? EIO : errno;
    bool whole = text != NULL && bytes <= MOST && !ferror(in);
    if (in != NULL)
        fclose(in);
    to->n = 0;
    to->text = text;
    if (whole) {
        text[bytes] = '\0';
        if (iso_select_parse(&iso_select_stream, device, to, why))
            return 0;
        error = EINVAL;
        snprintf(sentence, 512, "%.160s:%d: %.320s", path, to->line, why);
    } else {
        snprintf(sentence, 512, "%.320s: %s", path, strerror(error));
    }
    free(to->text);
    to->text = NULL;
    return -error;
}

void iso_select_path(const char *named, const struct gpu_info *device, char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    path[0] = '\0';
    if (named[0] != '\0') {
        snprintf(path, bytes, "%s", named);
        return;
    }
    if (cache != NULL && cache[0] == '/') /* as its specification has it: others are ignored */
        snprintf(path, bytes, "%s/isomer/", cache);
    else if (home != NULL && home[0] != '\0')
        snprintf(path, bytes, "%s/.cache/isomer/", home);
    else
        return;

    /* The machine's name, by letters that are safe in a file's name. */
    size_t used = strlen(path);
    for (const char *letter = iso_select_machine(device); *letter != '\0' && used + 1 < bytes; letter++)
        path[used++] = isalnum((unsigned char)*letter) || *letter == '.' ? *letter : '-';
    path[used] = '\0';
    snprintf(path + used, bytes - used, ".table");
}

/* ---- write it ---- */

static int make_folders(const char *path)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

static int write_select_rows(const char *path, const struct gpu_info *device, const struct select_rows *rows)
{
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return -errno;
    fprintf(out, "%d x %s\n# kind         algorithm            bytes   PEs blocks threads needs\n", device->n_devices,
            iso_select_machine(device));
    for (int i = 0; i < rows->n; i++) {
        const struct select_row *row = &rows->row[i];
        char bytes[24] = "any", pes[16] = "any", needs[128];
        if (row->max_bytes != SIZE_MAX)
            snprintf(bytes, sizeof bytes, "%zu", row->max_bytes);
        if (row->max_pes != INT_MAX)
            snprintf(pes, sizeof pes, "%d", row->max_pes);
        fprintf(out, "%-13s %-15s %10s %5s %5u %5u %s\n", iso_select_stream.kinds[row->algorithm->kind],
                row->algorithm->name, bytes, pes, row->shape.grid, row->shape.threads,
                iso_select_needs_text(row->needs & ~row->algorithm->needs, needs, sizeof needs));
    }
    int rc = ferror(out) ? -EIO : 0;
    return fclose(out) != 0 && rc == 0 ? -errno : rc;
}

int iso_select_write(const char *path, const struct gpu_info *device, const struct select_rows *rows)
{
    char aside[512];
    int rc = -ENAMETOOLONG;
    if ((size_t)snprintf(aside, sizeof aside, "%s.%d", path, (int)getpid()) < sizeof aside)
        rc = make_folders(path);
    if (rc == 0) {
        rc = write_select_rows(aside, device, rows);
        if (rc == 0 && rename(aside, path) != 0)
            rc = -errno;
        if (rc != 0)
            (void)unlink(aside);
    }
    if (rc != 0)
        log_error("the table of collectives on streams cannot be written to %s: %s", path, strerror(-rc));
    return rc;
}
