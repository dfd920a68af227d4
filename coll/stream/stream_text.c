/* SPDX-License-Identifier: MIT */
/* Rows of the table of collectives on streams as text: what SHMEM_COLL_ON_STREAM forces, and the file of tuned rows,
 * read and written. Everything that a person may have typed is checked here; a sentence says what is wrong and what
 * there is. Called by stream_table.c; the writer by whoever tunes. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int find_kind(const char *name)
{
    for (int kind = 0; kind < STREAM_KINDS; kind++)
        if (strcmp(iso_stream_kind_name(kind), name) == 0)
            return kind;
    return -1;
}

/* ---- words and sentences ---- */

/* The names of a kind's algorithms, or of all kinds (kind < 0). */
static void list_names(int kind, char *text, size_t bytes)
{
    size_t used = 0;
    int n = kind < 0 ? STREAM_KINDS : iso_stream_n_algorithms;
    text[0] = '\0';
    for (int i = 0; i < n && used < bytes; i++) {
        const struct stream_algorithm *a = &iso_stream_algorithms[i];
        if (kind < 0 || a->kind == kind)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                     kind < 0 ? iso_stream_kind_name(i) : a->name);
    }
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

/* kind and algorithm of a row by name; false: `sentence` says what there is. */
static bool name_row(const char *kind, const char *name, struct stream_row *row, char *sentence, size_t bytes)
{
    char names[256];
    row->kind = find_kind(kind);
    if (row->kind < 0) {
        list_names(-1, names, sizeof names);
        snprintf(sentence, bytes, "\"%.64s\" is no collective on streams; there are %s", kind, names);
        return false;
    }
    const struct stream_algorithm *a = iso_stream_algorithm_find(row->kind, name);
    if (a == NULL) {
        list_names(row->kind, names, sizeof names);
        snprintf(sentence, bytes, "\"%.64s\" is no algorithm of %s; there are %s", name, kind, names);
        return false;
    }
    row->algorithm = a->name;
    return true;
}

static bool shape_row(const char *blocks, const char *threads, struct stream_row *row, char *sentence, size_t bytes)
{
    if (!read_number(blocks, 1, STREAM_MOST_BLOCKS, &row->shape.grid)) {
        snprintf(sentence, bytes, "\"%.64s\" is no number of blocks; allowed: 1..%d", blocks, STREAM_MOST_BLOCKS);
        return false;
    }
    if (!read_number(threads, 1, ISOD_STREAM_THREADS, &row->shape.threads)) {
        snprintf(sentence, bytes, "\"%.64s\" is no number of threads; allowed: 1..%d", threads, ISOD_STREAM_THREADS);
        return false;
    }
    return true;
}

/* ---- SHMEM_COLL_ON_STREAM ---- */

/* Ends the text at the first such character; what comes after it, or NULL. */
static char *cut(char *text, char at)
{
    char *found = strchr(text, at);
    if (found != NULL)
        *found++ = '\0';
    return found;
}

/* One "kind=name[:blocks[xthreads]]", which it takes apart. */
static bool force(char *text, struct stream_rows *to, char *sentence, size_t bytes)
{
    struct stream_row row = {0, NULL, SIZE_MAX, INT_MAX, {0, 0}};
    char *name = cut(text, '='), *blocks = name != NULL ? cut(name, ':') : NULL;
    char *threads = blocks != NULL ? cut(blocks, 'x') : NULL;
    if (!name_row(text, name != NULL ? name : "", &row, sentence, bytes) ||
        (blocks != NULL && !shape_row(blocks, threads != NULL ? threads : "256", &row, sentence, bytes)))
        return false;
    if (to->n == STREAM_MOST_ROWS) {
        snprintf(sentence, bytes, "it is one too many; at most %d are possible", STREAM_MOST_ROWS);
        return false;
    }
    to->row[to->n++] = row;
    return true;
}

int iso_stream_text_forced(const char *variable, struct stream_rows *to)
{
    char sentence[512], whole[128], *text = strdup(variable), *rest = text, *one;
    bool right = text != NULL;
    if (!right)
        log_error("SHMEM_COLL_ON_STREAM: no memory");
    while (right && (one = strsep(&rest, ",")) != NULL) {
        snprintf(whole, sizeof whole, "%s", one);
        right = *one == '\0' || force(one, to, sentence, sizeof sentence);
        if (!right)
            log_error("SHMEM_COLL_ON_STREAM: in \"%s\", %s", whole, sentence);
    }
    free(text);
    return right ? 0 : -EINVAL;
}

/* ---- the tuned rows: a text file ---- */

struct file {
    const char *path;
    FILE *in;
    int line;
    char sentence[512];
};

static bool wrong(struct file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct file *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->sentence, sizeof f->sentence, format, args);
    va_end(args);
    return false;
}

/* The next line that says something, without comment and white space around it; NULL: the end, or `sentence` is set. */
static char *next_line(struct file *f, char *line, size_t bytes)
{
    while (fgets(line, (int)bytes, f->in) != NULL) {
        f->line++;
        if (strchr(line, '\n') == NULL && !feof(f->in)) {
            (void)wrong(f, "the line is longer than %zu characters", bytes - 2);
            return NULL;
        }
        line[strcspn(line, "#\r\n")] = '\0';
        char *begin = line + strspn(line, " \t"), *end = begin + strlen(begin);
        while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
            *--end = '\0';
        if (*begin != '\0')
            return begin;
    }
    return NULL;
}

/* "8 x NVIDIA H200": of how many devices of which name the table is. */
static bool read_header(struct file *f, const char *line, const struct gpu_info *device)
{
    char number[16] = "";
    unsigned n = 0;
    size_t digits = strcspn(line, " ");
    snprintf(number, sizeof number, "%.*s", (int)ISO_MIN(digits, sizeof number - 1), line);
    if (!read_number(number, 1, 65536, &n) || strncmp(line + digits, " x ", 3) != 0)
        return wrong(f, "\"%.80s\" is no header; it says for what the table is, like \"8 x NVIDIA H200\"", line);
    if (strcmp(line + digits + 3, iso_stream_machine(device)) != 0)
        return wrong(f, "the table is for \"%.63s\", this device is \"%s\"", line + digits + 3,
                     iso_stream_machine(device));
    if ((int)n != device->n_devices)
        log_info("%s was tuned with %u devices, here are %d", f->path, n, device->n_devices);
    return true;
}

/* "allreduce lines 128k 4 64 128": kind, algorithm, most bytes, most PEs, blocks, threads; "any" is no limit. */
static bool read_row(struct file *f, char *line, struct stream_row *row)
{
    char *field[6], *rest = line, *one;
    unsigned pes = 0;
    int n = 0;
    while ((one = strsep(&rest, " \t")) != NULL)
        if (*one != '\0' && n++ < 6)
            field[n - 1] = one;
    if (n != 6)
        return wrong(f, "%d fields; a row has 6: kind algorithm bytes PEs blocks threads", n);
    if (!name_row(field[0], field[1], row, f->sentence, sizeof f->sentence) ||
        !shape_row(field[4], field[5], row, f->sentence, sizeof f->sentence))
        return false;
    row->max_bytes = SIZE_MAX;
    row->max_pes = INT_MAX;
    if (strcmp(field[2], "any") != 0 && iso_env_parse_size(field[2], &row->max_bytes) != 0)
        return wrong(f, "\"%.64s\" is no size; allowed: bytes, with a suffix k, m or g, or any", field[2]);
    if (strcmp(field[3], "any") != 0 && !read_number(field[3], 1, INT_MAX / 10, &pes))
        return wrong(f, "\"%.64s\" is no number of PEs; allowed: 1..%d, or any", field[3], INT_MAX / 10);
    if (pes != 0)
        row->max_pes = (int)pes;
    return true;
}

static bool read_rows(struct file *f, const struct gpu_info *device, struct stream_rows *to)
{
    char line[512], *text = next_line(f, line, sizeof line);
    if (text == NULL)
        return f->sentence[0] != '\0' ? false : wrong(f, "the file says nothing");
    if (!read_header(f, text, device))
        return false;
    while ((text = next_line(f, line, sizeof line)) != NULL) {
        if (to->n == STREAM_MOST_ROWS)
            return wrong(f, "more than %d rows", STREAM_MOST_ROWS);
        if (!read_row(f, text, &to->row[to->n++]))
            return false;
    }
    return f->sentence[0] == '\0';
}

/* Letters that need no thought in a file's name. */
static void add_file_name(char *path, size_t bytes, const char *machine)
{
    size_t used = strlen(path);
    for (; *machine != '\0' && used + 1 < bytes; machine++)
        path[used++] = isalnum((unsigned char)*machine) || *machine == '.' ? *machine : '-';
    path[used] = '\0';
    snprintf(path + used, bytes - used, ".table");
}

void iso_stream_text_path(const struct gpu_info *device, char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    path[0] = '\0';
    if (ISO->env->coll_table[0] != '\0') {
        snprintf(path, bytes, "%s", ISO->env->coll_table);
        return;
    }
    if (cache != NULL && cache[0] == '/') /* as its specification has it: others are ignored */
        snprintf(path, bytes, "%s/isomer/", cache);
    else if (home != NULL && home[0] != '\0')
        snprintf(path, bytes, "%s/.cache/isomer/", home);
    else
        return;
    add_file_name(path, bytes, iso_stream_machine(device));
}

int iso_stream_text_read(const char *path, const struct gpu_info *device, struct stream_rows *to, char sentence[512])
{
    struct file f = {path, fopen(path, "re"), 0, ""};
    if (f.in == NULL) {
        int rc = -errno;
        snprintf(sentence, 512, "%.320s: %s", path, strerror(errno));
        return rc;
    }
    bool right = read_rows(&f, device, to);
    fclose(f.in);
    if (!right)
        snprintf(sentence, 512, "%.160s:%d: %.320s", path, f.line, f.sentence);
    return right ? 0 : -EINVAL;
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

static void write_row(FILE *out, const struct stream_row *row)
{
    char bytes[24] = "any", pes[16] = "any";
    if (row->max_bytes != SIZE_MAX)
        snprintf(bytes, sizeof bytes, "%zu", row->max_bytes);
    if (row->max_pes != INT_MAX)
        snprintf(pes, sizeof pes, "%d", row->max_pes);
    fprintf(out, "%-13s %-9s %10s %5s %5u %5u\n", iso_stream_kind_name(row->kind), row->algorithm, bytes, pes,
            row->shape.grid, row->shape.threads);
}

static int write_rows(const char *path, const struct gpu_info *device, const struct stream_rows *rows)
{
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return -errno;
    fprintf(out, "%d x %s\n# kind         algorithm      bytes   PEs blocks threads\n", device->n_devices,
            iso_stream_machine(device));
    for (int i = 0; i < rows->n; i++)
        write_row(out, &rows->row[i]);
    int rc = ferror(out) ? -EIO : 0;
    return fclose(out) != 0 && rc == 0 ? -errno : rc;
}

int iso_stream_text_write(const char *path, const struct gpu_info *device, const struct stream_rows *rows)
{
    char aside[512];
    int rc = -ENAMETOOLONG;
    if ((size_t)snprintf(aside, sizeof aside, "%s.%d", path, (int)getpid()) < sizeof aside)
        rc = make_folders(path);
    if (rc == 0)
        rc = write_rows(aside, device, rows);
    if (rc == 0 && rename(aside, path) != 0)
        rc = -errno;
    if (rc != 0) {
        (void)unlink(aside);
        log_error("the table of collectives on streams cannot be written to %s: %s", path, strerror(-rc));
    }
    return rc;
}
