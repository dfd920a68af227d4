/* SPDX-License-Identifier: MIT */
/* Reads the files of SHMEM_TRACE, brings them to one clock, finds what ended each wait, and writes trace.json, which
 * Perfetto and Chrome load, and trace.svg beside them. The files of a job that still runs may change meanwhile: what was
 * overwritten is left out. What a file says is checked before it is used as a size or an index. */
#include "info_trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PES_MOST = 1 << 22, LOOK_BACK = 4096, LONGEST = 5 };
#define SHORT_NS 500 /* no arrow for a shorter wait */
#define BASE_NS 1000000.0 /* of two readings of a clock, at least, to compute its speed */

/* The clock of a node, by what all its files tell. */
struct node_clock {
    struct trace_clock first, last;
    double ns_per_tick;
    struct trace_sync syncs[TRACE_SYNCS];
};

/* ---- files ---- */

static bool is_valid(const struct trace_head *h, size_t bytes)
{
    if (bytes < sizeof *h || __atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) != TRACE_MAGIC || h->n_pes < 1 ||
        h->n_pes > PES_MOST || h->pe < 0 || h->pe >= h->n_pes || h->node < 0 || h->node >= h->n_pes || h->capacity == 0 ||
        (h->capacity & (h->capacity - 1)) != 0 || !(h->ns_per_tick > 0))
        return false;
    if (bytes != trace_events_at(h->n_pes) + (size_t)h->capacity * sizeof(struct trace_event))
        return false;
    for (int i = 0; i < TRACE_NAMES; i++)
        if (memchr(h->names[i], '\0', TRACE_NAME_BYTES) == NULL)
            return false;
    for (int i = 0; i < TRACE_KINDS; i++)
        if (memchr(h->kinds[i], '\0', TRACE_KIND_BYTES) == NULL)
            return false;
    return memchr(h->host, '\0', sizeof h->host) != NULL && memchr(h->label, '\0', sizeof h->label) != NULL;
}

static void add_file(struct trace *trace, const char *path)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t bytes = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? (size_t)about.st_size : 0;
    void *at = bytes >= sizeof(struct trace_head) ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    struct line *lines = NULL;
    if (at == MAP_FAILED || !is_valid((const struct trace_head *)at, bytes))
        fprintf(stderr, "isomer-info: %s is no file of SHMEM_TRACE of this version; it is left out\n", path);
    else
        lines = (struct line *)realloc(trace->lines, (trace->n_lines + 1) * sizeof *lines);
    if (lines == NULL)
        return;
    trace->lines = lines;
    lines[trace->n_lines++] = (struct line){.head = (const struct trace_head *)at};
}

static int by_pe(const void *a, const void *b)
{
    const struct trace_head *x = ((const struct line *)a)->head, *y = ((const struct line *)b)->head;
    return x->pe != y->pe ? (x->pe > y->pe) - (x->pe < y->pe) : (x->thread > y->thread) - (x->thread < y->thread);
}

/* The files of the job that began last. */
static bool read_folder(struct trace *trace, const char *folder)
{
    char path[4096];
    const struct trace_head *newest = NULL;
    size_t n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        fprintf(stderr, "isomer-info: the folder %s cannot be read: %s\n", folder, strerror(errno));
        return false;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t len = strlen(e->d_name);
        if (len < 6 || strncmp(e->d_name, "isomer.", 7) != 0 || strcmp(e->d_name + len - 6, ".trace") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        add_file(trace, path);
    }
    closedir(dir);
    for (size_t i = 0; i < trace->n_lines; i++)
        if (newest == NULL || trace->lines[i].head->began_s > newest->began_s)
            newest = trace->lines[i].head;
    if (newest == NULL) {
        fprintf(stderr, "isomer-info: there is no file of SHMEM_TRACE in %s; run the job with SHMEM_TRACE=%s\n", folder, folder);
        return false;
    }
    trace->job = newest->job;
    trace->n_pes = newest->n_pes;
    for (size_t i = 0; i < trace->n_lines; i++)
        if (trace->lines[i].head->job == trace->job && trace->lines[i].head->n_pes == trace->n_pes)
            trace->lines[n++] = trace->lines[i];
    if (n < trace->n_lines)
        fprintf(stderr, "isomer-info: %zu files of earlier jobs are left out\n", trace->n_lines - n);
    trace->n_lines = n;
    qsort(trace->lines, n, sizeof *trace->lines, by_pe);
    return true;
}

/* ---- clocks ---- */

static void add_clock(struct node_clock *c, const struct trace_head *h)
{
    if (c->ns_per_tick == 0) {
        *c = (struct node_clock){h->first, h->last, h->ns_per_tick, {h->syncs[0], h->syncs[1]}};
        return;
    }
    if (h->first.ticks < c->first.ticks)
        c->first = h->first;
    if (h->last.ticks > c->last.ticks)
        c->last = h->last;
    for (int i = 0; i < TRACE_SYNCS; i++) {
        struct trace_sync *own = &c->syncs[i];
        const struct trace_sync *its = &h->syncs[i];
        bool narrower = its->ns != 0 && (own->ns == 0 || its->high - its->low < own->high - own->low);
        if (narrower)
            *own = *its;
    }
}

static double middle(const struct trace_sync *s) { return ((double)s->low + (double)s->high) / 2; }

/* On the clock of PE 0: between its two comparisons a clock drifts evenly. */
static int64_t ns_of(const struct node_clock *c, uint64_t ticks)
{
    double since = (double)(int64_t)(ticks - c->first.ticks) * c->ns_per_tick, ahead = 0;
    const struct trace_sync *begin = &c->syncs[0], *end = &c->syncs[1];
    if (begin->ns != 0)
        ahead = middle(begin);
    if (begin->ns != 0 && end->ns > begin->ns)
        ahead += (middle(end) - middle(begin)) * (since + (double)(int64_t)(c->first.ns - begin->ns)) /
                 (double)(end->ns - begin->ns);
    return (int64_t)c->first.ns + (int64_t)(since - ahead);
}

/* ---- events ---- */

static bool is_kind(const struct mark *m, const char *const *kinds)
{
    while (*kinds != NULL && strcmp(m->kind, *kinds) != 0)
        kinds++;
    return *kinds != NULL;
}

static const char *const writes[] = {"put", "p", "iput", "atomic", "put_signal", "signal", "proxy", NULL};
static const char *const collectives[] = {"barrier", "collective", NULL};
static const char *const waits[] = {"wait_until", NULL};
static const char *const for_device[] = {"proxy", "on_stream", NULL};
static const char *const heaps[] = {"heap", NULL};

/* A word that all PEs have: its segment and offset. 0: none. */
static uint64_t trace_key_of(const struct trace_head *h, uint64_t address)
{
    for (unsigned i = 0; i < TRACE_SEGMENTS; i++)
        if (address - h->segments[i].base < h->segments[i].bytes)
            return (uint64_t)(i + 1) << 48 | (address - h->segments[i].base);
    return 0;
}

static void take_trace_events(struct line *line, const struct node_clock *clock)
{
    const struct trace_head *h = line->head;
    const char *at = (const char *)h + trace_events_at(h->n_pes);
    const struct trace_event *events = (const struct trace_event *)(const void *)at;
    /* Acquire: pairs with the release of iso_trace_add. */
    uint64_t written = __atomic_load_n(&h->written, __ATOMIC_ACQUIRE);
    uint64_t first = written > h->capacity ? written - h->capacity : 0;
    line->is_whole = h->whole != 0;
    line->marks = (struct mark *)calloc(written - first + 1, sizeof *line->marks);
    if (line->marks == NULL)
        return;
    for (uint64_t i = first; i < written; i++)
        line->marks[i - first].e = events[i & (h->capacity - 1)];
    uint64_t now = __atomic_load_n(&h->written, __ATOMIC_ACQUIRE), gone = 0;
    if (now != written) /* one more may be half written */
        gone = now + 1 > h->capacity + first ? now + 1 - h->capacity - first : 0;
    line->lost = first + gone;
    for (uint64_t i = gone; i < written - first; i++) {
        struct mark m = line->marks[i];
        if (trace_name(m.e.what) >= TRACE_NAMES || trace_kind(m.e.what) >= TRACE_KINDS)
            continue;
        m.name = h->names[trace_name(m.e.what)];
        m.kind = h->kinds[trace_kind(m.e.what)];
        if (!is_kind(&m, collectives) && !is_kind(&m, heaps))
            m.e.key = trace_key_of(h, m.e.key);
        m.begin_ns = ns_of(clock, m.e.begin);
        m.end_ns = ns_of(clock, m.e.begin + m.e.ticks);
        line->marks[line->n++] = m;
    }
}

static bool is_wait(const struct mark *m) { return trace_kind(m->e.what) == TRACE_KIND_WAIT; }

/* A wait stands before the call that it is inside of; its begin is computed backwards, by the nanosecond. */
static void nest_waits(struct line *line)
{
    for (size_t i = 0; i < line->n; i++)
        for (size_t k = i; k-- > 0 && is_wait(&line->marks[k]) && line->marks[k].end_ns > line->marks[i].begin_ns;)
            if (!is_wait(&line->marks[i]) && line->marks[k].begin_ns < line->marks[i].begin_ns)
                line->marks[k].begin_ns = line->marks[i].begin_ns;
}

static bool take_all(struct trace *trace)
{
    struct node_clock *clocks = (struct node_clock *)calloc((size_t)trace->n_pes, sizeof *clocks);
    int64_t begin = INT64_MAX;
    if (clocks == NULL)
        return false;
    for (size_t i = 0; i < trace->n_lines; i++)
        add_clock(&clocks[trace->lines[i].head->node], trace->lines[i].head);
    for (struct node_clock *c = clocks; c < clocks + trace->n_pes; c++) { /* its speed, where it has run long enough */
        double ticks = (double)(c->last.ticks - c->first.ticks);
        if (ticks * c->ns_per_tick > BASE_NS)
            c->ns_per_tick = (double)(c->last.ns - c->first.ns) / ticks;
    }
    for (size_t i = 0; i < trace->n_lines; i++) {
        struct line *line = &trace->lines[i];
        take_trace_events(line, &clocks[line->head->node]);
        nest_waits(line);
        for (size_t k = 0; k < line->n; k++)
            begin = line->marks[k].begin_ns < begin ? line->marks[k].begin_ns : begin;
    }
    free(clocks);
    for (size_t i = 0; i < trace->n_lines; i++)
        for (size_t k = 0; k < trace->lines[i].n; k++) {
            struct mark *m = &trace->lines[i].marks[k];
            m->begin_ns -= begin;
            m->end_ns -= begin;
            trace->end_ns = m->end_ns > trace->end_ns ? m->end_ns : trace->end_ns;
        }
    return true;
}

static void count_bytes(struct trace *trace)
{
    size_t n = (size_t)trace->n_pes;
    trace->bytes = n <= 4096 ? (uint64_t *)calloc(n * n, sizeof *trace->bytes) : NULL;
    for (size_t i = 0; i < trace->n_lines && trace->bytes != NULL; i++) {
        const struct line *line = &trace->lines[i];
        uint64_t *row = trace->bytes + (size_t)line->head->pe * n;
        const uint64_t *counted = (const uint64_t *)(const void *)(line->head + 1);
        for (size_t pe = 0; pe < n && line->is_whole; pe++)
            row[pe] += counted[pe];
        for (size_t k = 0; k < line->n; k++) { /* counters do not know what is done for kernels and on streams */
            const struct mark *m = &line->marks[k];
            int pe = trace_pe(m->e.what);
            if ((!line->is_whole || is_kind(m, for_device)) && pe >= 0 && (size_t)pe < n)
                row[pe] += m->e.bytes; /* 0 of waits */
        }
    }
}

/* ---- arrows ---- */

struct spot { /* an event and where it stands */
    const struct line *line;
    const struct mark *mark;
};

struct spots {
    struct spot *of;
    size_t n;
};

static struct spots select_marks(const struct trace *trace, const char *const *kinds)
{
    struct spots p = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < trace->n_lines; i++)
            for (size_t k = 0; k < trace->lines[i].n; k++)
                if (is_kind(&trace->lines[i].marks[k], kinds)) {
                    if (pass == 1)
                        p.of[n] = (struct spot){&trace->lines[i], &trace->lines[i].marks[k]};
                    n++;
                }
        if (pass == 0 && (p.of = (struct spot *)calloc(n + 1, sizeof *p.of)) == NULL)
            return p;
        p.n = n;
    }
    return p;
}

static int order_events(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_target(const void *a, const void *b)
{
    const struct mark *x = ((const struct spot *)a)->mark, *y = ((const struct spot *)b)->mark;
    int by = order_events((uint64_t)(int64_t)trace_pe(x->e.what), (uint64_t)(int64_t)trace_pe(y->e.what));
    return by != 0 ? by : order_events((uint64_t)x->begin_ns, (uint64_t)y->begin_ns);
}

static int by_call(const void *a, const void *b)
{
    const struct mark *x = ((const struct spot *)a)->mark, *y = ((const struct spot *)b)->mark;
    int by = order_events(x->e.more, y->e.more);
    by = by != 0 ? by : order_events(x->e.key, y->e.key);
    return by != 0 ? by : order_events((uint64_t)x->begin_ns, (uint64_t)y->begin_ns);
}

static void add_arrow(struct trace *trace, struct spot from, int64_t from_ns, struct spot to)
{
    if ((trace->n_arrows & (trace->n_arrows - 1)) == 0) { /* at each power of two */
        size_t room = trace->n_arrows == 0 ? 1 : 2 * trace->n_arrows;
        struct arrow *arrows = (struct arrow *)realloc(trace->arrows, room * sizeof *arrows);
        if (arrows == NULL)
            return;
        trace->arrows = arrows;
    }
    trace->arrows[trace->n_arrows++] = (struct arrow){from.line, to.line, from.mark, to.mark, from_ns};
}

/* The last write to the words of the wait that had begun when the wait ended. */
static const struct spot *find_write(const struct spots *p, struct spot wait)
{
    const struct trace_event *w = &wait.mark->e;
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        const struct mark *m = p->of[at].mark;
        int pe = trace_pe(m->e.what), mine = wait.line->head->pe;
        if (pe < mine || (pe == mine && m->begin_ns <= wait.mark->end_ns))
            low = at + 1;
        else
            high = at;
    }
    for (size_t i = low, looked = 0; i-- > 0 && looked < LOOK_BACK && trace_pe(p->of[i].mark->e.what) == wait.line->head->pe; looked++) {
        const struct trace_event *e = &p->of[i].mark->e;
        if (e->key != 0 && e->key < w->key + w->more && w->key < e->key + e->more)
            return &p->of[i];
    }
    return NULL;
}

static void find_writes(struct trace *trace)
{
    struct spots written = select_marks(trace, writes), waited = select_marks(trace, waits);
    if (written.of != NULL && written.n > 0)
        qsort(written.of, written.n, sizeof *written.of, by_target);
    for (size_t i = 0; i < waited.n && written.of != NULL; i++) {
        const struct mark *m = waited.of[i].mark;
        const struct spot *from = m->end_ns - m->begin_ns > SHORT_NS && m->e.key != 0 ? find_write(&written, waited.of[i]) : NULL;
        /* A write by pointer that had ended before has ended nothing. */
        if (from != NULL && (from->mark->end_ns > m->begin_ns || from->line->head->node != waited.of[i].line->head->node))
            add_arrow(trace, *from, from->mark->begin_ns, waited.of[i]);
    }
    free(written.of);
    free(waited.of);
}

/* The member that began last lets the others go. */
static void find_last_members(struct trace *trace)
{
    struct spots p = select_marks(trace, collectives);
    if (p.n > 0)
        qsort(p.of, p.n, sizeof *p.of, by_call);
    for (size_t begin = 0, end; begin < p.n; begin = end) {
        const struct trace_event *e = &p.of[begin].mark->e;
        for (end = begin + 1; end < p.n && p.of[end].mark->e.key == e->key && p.of[end].mark->e.more == e->more;)
            end++;
        struct spot last = p.of[end - 1];
        for (size_t i = begin; i + 1 < end; i++)
            if (last.mark->begin_ns - p.of[i].mark->begin_ns > SHORT_NS && p.of[i].mark->end_ns >= last.mark->begin_ns)
                add_arrow(trace, last, last.mark->begin_ns, p.of[i]);
    }
    free(p.of);
}

static int by_length(const void *a, const void *b)
{
    const struct mark *x = ((const struct arrow *)a)->to, *y = ((const struct arrow *)b)->to;
    return order_events((uint64_t)(y->end_ns - y->begin_ns), (uint64_t)(x->end_ns - x->begin_ns));
}

/* ---- JSON, the format of Chrome's trace events ---- */

static int track_of(const struct line *line) { return line->head->pe * 1000 + line->head->thread + 1; }

static void write_trace_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
}

static void write_time(FILE *out, const char *key, int64_t ns)
{
    fprintf(out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void write_line_names(FILE *out, const struct line *line)
{
    const struct trace_head *h = line->head;
    fprintf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"pe %d (", h->pe + 1, h->pe);
    write_trace_text(out, h->host);
    fprintf(out, ", node %d)\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}},\n",
            h->node, h->pe + 1, h->pe);
    fprintf(out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"", h->pe + 1, track_of(line));
    write_trace_text(out, h->label);
    fputs("\"}}", out);
}

/* They overlap, since many threads wait at once: not boxes of a thread, but pairs of a begin and an end. */
static void write_kernel(FILE *out, const struct line *line, const struct mark *m)
{
    static uint64_t id;
    id++;
    for (int end = 0; end < 2; end++) {
        fprintf(out, ",\n{\"ph\":\"%s\",\"id\":%" PRIu64 ",\"name\":\"kernel waits in %s\",\"cat\":\"kernel\",\"pid\":%d,\"tid\":%d",
                end ? "e" : "b", id, m->name, line->head->pe + 1, track_of(line));
        write_time(out, "ts", end ? m->end_ns : m->begin_ns);
        if (!end)
            fprintf(out, ",\"args\":{\"pe\":%d}", trace_pe(m->e.what));
        fputs("}", out);
    }
}

static void write_mark(FILE *out, const struct line *line, const struct mark *m)
{
    if (trace_kind(m->e.what) == TRACE_KIND_KERNEL) {
        write_kernel(out, line, m);
        return;
    }
    fputs(",\n{\"ph\":\"X\",\"name\":\"", out);
    if (is_wait(m))
        fputs("wait in ", out);
    write_trace_text(out, m->name);
    fputs("\",\"cat\":\"", out);
    write_trace_text(out, m->kind);
    fprintf(out, "\",\"pid\":%d,\"tid\":%d", line->head->pe + 1, track_of(line));
    write_time(out, "ts", m->begin_ns);
    write_time(out, "dur", m->end_ns - m->begin_ns);
    fprintf(out, ",\"args\":{\"bytes\":%" PRIu64, m->e.bytes);
    if (trace_pe(m->e.what) >= 0)
        fprintf(out, ",\"pe\":%d", trace_pe(m->e.what));
    if (is_kind(m, collectives))
        fprintf(out, ",\"team_slot\":%" PRIu64 ",\"call\":%" PRIu64, m->e.more >> 32, m->e.key);
    fputs("}}", out);
    if (is_kind(m, heaps)) {
        fprintf(out, ",\n{\"ph\":\"C\",\"name\":\"symmetric heap\",\"pid\":%d", line->head->pe + 1);
        write_time(out, "ts", m->end_ns);
        fprintf(out, ",\"args\":{\"bytes\":%" PRIu64 "}}", m->e.key);
    }
}

static void write_arrow_end(FILE *out, const char *phase, const struct line *line, int64_t ns)
{
    fprintf(out, ",\n{%s,\"name\":\"ends a wait\",\"cat\":\"wait\",\"pid\":%d,\"tid\":%d", phase, line->head->pe + 1, track_of(line));
    write_time(out, "ts", ns);
}

static void write_json(const struct trace *trace, FILE *out)
{
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"job\":\"%08" PRIx32 "\",\"n_pes\":%d},\"traceEvents\":[\n", trace->job,
            trace->n_pes);
    for (size_t i = 0; i < trace->n_lines; i++) {
        fputs(i > 0 ? ",\n" : "", out);
        write_line_names(out, &trace->lines[i]);
    }
    for (size_t i = 0; i < trace->n_lines; i++)
        for (size_t k = 0; k < trace->lines[i].n; k++)
            write_mark(out, &trace->lines[i], &trace->lines[i].marks[k]);
    for (size_t i = 0; i < trace->n_arrows; i++) {
        const struct arrow *a = &trace->arrows[i];
        write_arrow_end(out, "\"ph\":\"s\"", a->from_line, a->from_ns);
        fprintf(out, ",\"id\":%zu}", i + 1);
        write_arrow_end(out, "\"ph\":\"f\",\"bp\":\"e\"", a->to_line, a->to->end_ns - 1); /* inside of it */
        fprintf(out, ",\"id\":%zu}", i + 1);
    }
    fputs("\n]}\n", out);
}

/* ---- the command ---- */

static void tell_trace(const struct trace *trace)
{
    uint64_t lost = 0;
    size_t n = 0;
    for (size_t i = 0; i < trace->n_lines; i++) {
        lost += trace->lines[i].lost;
        n += trace->lines[i].n;
    }
    printf("job %08" PRIx32 ": %d PEs, %zu events in %zu files, %.6f s; %" PRIu64 " older events are lost\n", trace->job, trace->n_pes, n,
           trace->n_lines, (double)trace->end_ns / 1e9, lost);
    for (size_t i = 0; i < trace->n_arrows && i < LONGEST; i++) {
        const struct arrow *a = &trace->arrows[i];
        printf("  pe %d was in %s for %.6f s until %s of pe %d\n", a->to_line->head->pe, a->to->name,
               (double)(a->to->end_ns - a->to->begin_ns) / 1e9, a->from->name, a->from_line->head->pe);
    }
}

static int write_file(const struct trace *trace, const char *folder, const char *name,
                      void (*write_all)(const struct trace *trace, FILE *out))
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    bool good = out != NULL;
    if (good) {
        write_all(trace, out);
        good = ferror(out) == 0;
        good = fclose(out) == 0 && good;
    }
    if (good)
        printf("%s\n", path);
    else
        fprintf(stderr, "isomer-info: %s cannot be written: %s\n", path, strerror(errno));
    return good ? 0 : 1;
}

int info_trace(const char *folder)
{
    struct trace trace = {.job = 0}; /* the end of the process frees it */
    if (!read_folder(&trace, folder))
        return 1;
    if (!take_all(&trace)) {
        fprintf(stderr, "isomer-info: no memory for the clocks of %d nodes\n", trace.n_pes);
        return 1;
    }
    count_bytes(&trace);
    find_writes(&trace);
    find_last_members(&trace);
    if (trace.n_arrows > 0)
        qsort(trace.arrows, trace.n_arrows, sizeof *trace.arrows, by_length);
    tell_trace(&trace);
    int status = write_file(&trace, folder, "trace.json", write_json);
    return write_file(&trace, folder, "trace.svg", info_trace_draw) != 0 ? 1 : status;
}
