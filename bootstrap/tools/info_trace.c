/* SPDX-License-Identifier: MIT */
/* Reads the files of SHMEM_TRACE, brings them to one clock, finds what ended each wait, and writes trace.json, which
 * Perfetto and Chrome load, and trace.svg beside them. The files of a job that still runs may change meanwhile: what
 * was overwritten is left out. What a file says is checked before it is used as a size or an index. */
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
#define SHORT_NS 500      /* no arrow for a shorter wait */
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
        h->n_pes > PES_MOST || h->pe < 0 || h->pe >= h->n_pes || h->node < 0 || h->node >= h->n_pes ||
        h->capacity == 0 || (h->capacity & (h->capacity - 1)) != 0 || !(h->ns_per_tick > 0))
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
    lines[trace->n_lines++] = (struct line){.head = (const struct trace_head *)at, .stream = -1};
}

static int compare_ints(int a, int b) { return (a > b) - (a < b); }

static int by_pe(const void *a, const void *b)
{
    const struct line *x = (const struct line *)a, *y = (const struct line *)b;
    int by = compare_ints(x->head->pe, y->head->pe);
    by = by != 0 ? by : compare_ints(x->stream, y->stream);
    return by != 0 ? by : compare_ints(x->head->thread, y->head->thread);
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
        fprintf(stderr, "isomer-info: there is no file of SHMEM_TRACE in %s; run the job with SHMEM_TRACE=%s\n", folder,
                folder);
        return false;
    }
    trace->job = newest->job;
    trace->n_pes = newest->n_pes;
    for (size_t i = 0; i < trace->n_lines; i++)
        if (trace->lines[i].head->job == trace->job && trace->lines[i].head->n_pes == trace->n_pes)
            trace->lines[n++] = trace->lines[i];
    if (n < trace->n_lines)
        fprintf(stderr, "isomer-info: %zu files of earlier jobs are left out\n", trace->n_lines - n);
    trace->n_lines = trace->n_files = n;
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
static const char *const enqueues[] = {"on_stream", "launch", "graph_launch", NULL};
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
        if (trace_kind(m.e.what) == TRACE_KIND_STREAM) {
            unsigned how = trace_stream_how(m.e.key);
            m.enqueued_ns = ns_of(clock, m.e.more);
            m.how = how > 0 && how < TRACE_NAMES ? h->names[how] : NULL;
        } else if (!is_kind(&m, collectives) && !is_kind(&m, heaps))
            m.e.key = trace_key_of(h, m.e.key);
        m.begin_ns = ns_of(clock, m.e.begin);
        m.end_ns = ns_of(clock, m.e.begin + m.e.ticks);
        line->marks[line->n++] = m;
    }
}

/* The line of a stream of that file's PE; NULL: no memory. */
static struct line *line_of_stream(struct trace *trace, size_t file, int stream)
{
    for (size_t i = trace->n_files; i < trace->n_lines; i++)
        if (trace->lines[i].stream == stream && trace->lines[i].head->pe == trace->lines[file].head->pe)
            return &trace->lines[i];
    struct line *lines = (struct line *)realloc(trace->lines, (trace->n_lines + 1) * sizeof *lines);
    if (lines == NULL)
        return NULL;
    trace->lines = lines;
    lines[trace->n_lines] = (struct line){.head = lines[file].head, .stream = stream};
    return &lines[trace->n_lines++];
}

/* From the line of the thread that has seen them end to those of their streams. */
static void move_to_streams(struct trace *trace, size_t file)
{
    size_t n = 0;
    for (size_t k = 0; k < trace->lines[file].n; k++) {
        struct mark m = trace->lines[file].marks[k];
        if (trace_kind(m.e.what) != TRACE_KIND_STREAM) {
            trace->lines[file].marks[n++] = m;
            continue;
        }
        struct line *line = line_of_stream(trace, file, (int)(trace_stream_number(m.e.key) & 0x7fffffff));
        if (line != NULL && (line->n & (line->n - 1)) == 0) { /* at each power of two */
            struct mark *marks = (struct mark *)realloc(line->marks, (line->n == 0 ? 1 : 2 * line->n) * sizeof *marks);
            line->marks = marks != NULL ? marks : line->marks;
            line = marks != NULL ? line : NULL;
        }
        if (line != NULL)
            line->marks[line->n++] = m;
    }
    trace->lines[file].n = n;
}

static int by_end(const void *a, const void *b)
{
    const struct mark *x = (const struct mark *)a, *y = (const struct mark *)b;
    return x->end_ns != y->end_ns ? (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns)
                                  : (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
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
    for (size_t i = 0; i < trace->n_files; i++) {
        take_trace_events(&trace->lines[i], &clocks[trace->lines[i].head->node]);
        move_to_streams(trace, i);
        nest_waits(&trace->lines[i]);
    }
    free(clocks);
    for (size_t i = trace->n_files; i < trace->n_lines; i++)
        qsort(trace->lines[i].marks, trace->lines[i].n, sizeof *trace->lines[i].marks, by_end);
    qsort(trace->lines, trace->n_lines, sizeof *trace->lines, by_pe);
    for (size_t i = 0; i < trace->n_lines; i++)
        trace->lines[i].track = PES_MOST + 1 + (int)i;
    for (size_t i = 0; i < trace->n_lines; i++)
        for (size_t k = 0; k < trace->lines[i].n; k++)
            begin = trace->lines[i].marks[k].begin_ns < begin ? trace->lines[i].marks[k].begin_ns : begin;
    for (size_t i = 0; i < trace->n_lines; i++)
        for (size_t k = 0; k < trace->lines[i].n; k++) {
            struct mark *m = &trace->lines[i].marks[k];
            m->begin_ns -= begin;
            m->end_ns -= begin;
            m->enqueued_ns -= begin;
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
        for (size_t pe = 0; pe < n && line->is_whole && line->stream < 0; pe++)
            row[pe] += counted[pe];
        for (size_t k = 0; k < line->n; k++) { /* counters do not know what is done for kernels and on streams */
            const struct mark *m = &line->marks[k];
            int pe = trace_pe(m->e.what);
            if (line->stream < 0 && (!line->is_whole || is_kind(m, for_device)) && pe >= 0 && (size_t)pe < n)
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

static void add_arrow(struct arrows *arrows, struct spot from, int64_t from_ns, struct spot to)
{
    if ((arrows->n & (arrows->n - 1)) == 0) { /* at each power of two */
        size_t room = arrows->n == 0 ? 1 : 2 * arrows->n;
        struct arrow *of = (struct arrow *)realloc(arrows->of, room * sizeof *of);
        if (of == NULL)
            return;
        arrows->of = of;
    }
    arrows->of[arrows->n++] = (struct arrow){from.line, to.line, from.mark, to.mark, from_ns};
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
    for (size_t i = low, looked = 0;
         i-- > 0 && looked < LOOK_BACK && trace_pe(p->of[i].mark->e.what) == wait.line->head->pe; looked++) {
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
        const struct spot *from =
            m->end_ns - m->begin_ns > SHORT_NS && m->e.key != 0 ? find_write(&written, waited.of[i]) : NULL;
        /* A write by pointer that had ended before has ended nothing. */
        if (from != NULL &&
            (from->mark->end_ns > m->begin_ns || from->line->head->node != waited.of[i].line->head->node))
            add_arrow(&trace->waits, *from, from->mark->begin_ns, waited.of[i]);
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
                add_arrow(&trace->waits, last, last.mark->begin_ns, p.of[i]);
    }
    free(p.of);
}

static int by_begin(const void *a, const void *b)
{
    const struct spot *x = (const struct spot *)a, *y = (const struct spot *)b;
    int by = compare_ints(x->line->head->pe, y->line->head->pe);
    by = by != 0 ? by : compare_ints(x->line->head->thread & 0xffff, y->line->head->thread & 0xffff);
    return by != 0 ? by : order_events(x->mark->e.begin, y->mark->e.begin);
}

/* From what a thread has enqueued to the call of the stream, which knows when that was. */
static void find_enqueues(struct trace *trace)
{
    struct spots p = select_marks(trace, enqueues);
    if (p.n > 0)
        qsort(p.of, p.n, sizeof *p.of, by_begin);
    for (size_t i = 0; i < trace->n_lines && p.n > 0; i++)
        for (size_t k = 0; k < trace->lines[i].n && trace->lines[i].stream >= 0; k++) {
            const struct line *line = &trace->lines[i];
            const struct trace_event *e = &line->marks[k].e;
            const struct trace_head head = {.pe = line->head->pe, .thread = (int32_t)trace_stream_thread(e->key)};
            const struct line thread = {.head = &head};
            const struct mark enqueued = {.e = {.begin = e->more}};
            const struct spot key = {&thread, &enqueued};
            const struct spot *from = (const struct spot *)bsearch(&key, p.of, p.n, sizeof *p.of, by_begin);
            if (from != NULL)
                add_arrow(&trace->queued, *from, from->mark->begin_ns, (struct spot){line, &line->marks[k]});
        }
    free(p.of);
}

static int by_length(const void *a, const void *b)
{
    int64_t x = info_trace_length((const struct arrow *)a), y = info_trace_length((const struct arrow *)b);
    return (y > x) - (y < x);
}

/* ---- JSON, the format of Chrome's trace events ---- */

static void write_trace_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text,
              out);
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
    fprintf(
        out,
        ", node %d)\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}},\n",
        h->node, h->pe + 1, h->pe);
    fprintf(out, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"", h->pe + 1,
            line->track);
    if (line->stream > 0)
        fprintf(out, "stream %d", line->stream);
    else
        write_trace_text(out, line->stream == 0 ? "default stream" : h->label);
    fputs("\"}}", out);
}

/* They overlap, since many threads wait at once: not boxes of a thread, but pairs of a begin and an end. */
static void write_kernel(FILE *out, const struct line *line, const struct mark *m)
{
    static uint64_t id;
    id++;
    for (int end = 0; end < 2; end++) {
        fprintf(out,
                ",\n{\"ph\":\"%s\",\"id\":%" PRIu64
                ",\"name\":\"kernel waits in %s\",\"cat\":\"kernel\",\"pid\":%d,\"tid\":%d",
                end ? "e" : "b", id, m->name, line->head->pe + 1, line->track);
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
    fprintf(out, "\",\"pid\":%d,\"tid\":%d", line->head->pe + 1, line->track);
    write_time(out, "ts", m->begin_ns);
    write_time(out, "dur", m->end_ns - m->begin_ns);
    fprintf(out, ",\"args\":{\"bytes\":%" PRIu64, m->e.bytes);
    if (trace_pe(m->e.what) >= 0)
        fprintf(out, ",\"pe\":%d", trace_pe(m->e.what));
    if (is_kind(m, collectives))
        fprintf(out, ",\"team_slot\":%" PRIu64 ",\"call\":%" PRIu64, m->e.more >> 32, m->e.key);
    if (line->stream >= 0)
        write_time(out, "queued", m->begin_ns - m->enqueued_ns);
    if (m->how != NULL) {
        fputs(",\"algorithm\":\"", out);
        write_trace_text(out, m->how);
        fputs("\"", out);
    }
    fputs("}}", out);
    if (is_kind(m, heaps)) {
        fprintf(out, ",\n{\"ph\":\"C\",\"name\":\"symmetric heap\",\"pid\":%d", line->head->pe + 1);
        write_time(out, "ts", m->end_ns);
        fprintf(out, ",\"args\":{\"bytes\":%" PRIu64 "}}", m->e.key);
    }
}

static void write_arrows(FILE *out, const struct arrows *arrows, const char *name, size_t first)
{
    for (size_t i = 0; i < arrows->n; i++) {
        const struct arrow *a = &arrows->of[i];
        for (int end = 0; end < 2; end++) {
            const struct line *line = end ? a->to_line : a->from_line;
            int64_t inside = a->to_line->stream < 0            ? a->to->end_ns - 1
                             : a->to->begin_ns < a->to->end_ns ? a->to->begin_ns + 1
                                                               : a->to->begin_ns;
            fprintf(out, ",\n{%s,\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d",
                    end ? "\"ph\":\"f\",\"bp\":\"e\"" : "\"ph\":\"s\"", name,
                    a->to_line->stream < 0 ? "wait" : "stream", line->head->pe + 1, line->track);
            write_time(out, "ts", end ? inside : a->from_ns);
            fprintf(out, ",\"id\":%zu}", first + i);
        }
    }
}

static void write_json(const struct trace *trace, FILE *out)
{
    fprintf(out,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"job\":\"%08" PRIx32 "\",\"n_pes\":%d},\"traceEvents\":[\n",
            trace->job, trace->n_pes);
    for (size_t i = 0; i < trace->n_lines; i++) {
        fputs(i > 0 ? ",\n" : "", out);
        write_line_names(out, &trace->lines[i]);
    }
    for (size_t i = 0; i < trace->n_lines; i++)
        for (size_t k = 0; k < trace->lines[i].n; k++)
            write_mark(out, &trace->lines[i], &trace->lines[i].marks[k]);
    write_arrows(out, &trace->waits, "ends a wait", 1);
    write_arrows(out, &trace->queued, "is run", trace->waits.n + 1);
    fputs("\n]}\n", out);
}

/* ---- the command ---- */

static int64_t busy_ns(const struct line *line)
{
    int64_t busy = 0;
    for (size_t k = 0; k < line->n; k++)
        busy += line->marks[k].end_ns - line->marks[k].begin_ns;
    return busy;
}

static int by_busy(const void *a, const void *b)
{
    int64_t x = busy_ns(*(const struct line *const *)a), y = busy_ns(*(const struct line *const *)b);
    return (y > x) - (y < x);
}

static void tell_busy_streams(const struct trace *trace)
{
    const struct line **streams = (const struct line **)calloc(trace->n_lines + 1, sizeof *streams);
    size_t n = 0;
    for (size_t i = 0; i < trace->n_lines && streams != NULL; i++)
        if (trace->lines[i].stream >= 0)
            streams[n++] = &trace->lines[i];
    if (n > 0)
        qsort(streams, n, sizeof *streams, by_busy);
    for (size_t i = 0; i < n && i < LONGEST; i++) {
        const struct line *line = streams[i];
        const struct mark *late = line->marks;
        int64_t queued = 0;
        for (const struct mark *m = line->marks; m < line->marks + line->n; m++) {
            queued += m->begin_ns - m->enqueued_ns;
            late = m->begin_ns - m->enqueued_ns > late->begin_ns - late->enqueued_ns ? m : late;
        }
        printf("  pe %d, stream %d: busy for %.6f s with %zu calls; in its queue for %.6f s each, %s for %.6f s\n",
               line->head->pe, line->stream, (double)busy_ns(line) / 1e9, line->n,
               (double)queued / 1e9 / (double)line->n, late->name, (double)(late->begin_ns - late->enqueued_ns) / 1e9);
    }
    free(streams);
}

/* The thread of its PE that has looked at the streams last. */
static bool looked_last(const struct trace *trace, const struct line *line)
{
    bool last = line->stream < 0 && line->head->streams.ticks != 0;
    for (size_t i = 0; i < trace->n_lines && last; i++)
        last = trace->lines[i].head->pe != line->head->pe ||
               trace->lines[i].head->streams.ticks <= line->head->streams.ticks;
    return last;
}

static void tell_streams(const struct trace *trace)
{
    uint64_t pending = 0, unmarked = 0, error_ns = 0;
    size_t ran = 0;
    bool looked = false;
    for (const struct line *line = trace->lines; line < trace->lines + trace->n_lines; line++) {
        const struct trace_streams *s = &line->head->streams;
        ran += line->stream >= 0 ? line->n : 0;
        if (!looked_last(trace, line))
            continue;
        looked = true;
        pending += s->pending;
        unmarked += s->unmarked;
        error_ns = s->error_ns > error_ns ? s->error_ns : error_ns;
    }
    if (!looked)
        return;
    printf("streams: %zu calls, %" PRIu64 " more had not ended, %" PRIu64 " have no times; clocks of devices ", ran,
           pending, unmarked);
    if (error_ns == UINT64_MAX)
        printf("are not known\n");
    else
        printf("to within %.6f s\n", (double)error_ns / 1e9);
    for (const struct line *line = trace->lines; line < trace->lines + trace->n_lines; line++) {
        const struct trace_streams *s = &line->head->streams;
        unsigned name = trace_stream_how(s->first); /* of the call that holds up the rest */
        if (looked_last(trace, line) && s->pending > 0 && name < TRACE_NAMES)
            printf("  pe %d, stream %u: %s had not ended, %.6f s after it was enqueued\n", line->head->pe,
                   trace_stream_number(s->first), line->head->names[name],
                   (double)(s->ticks - s->enqueued) * line->head->ns_per_tick / 1e9);
    }
    tell_busy_streams(trace);
}

static void tell_trace(const struct trace *trace)
{
    uint64_t lost = 0;
    size_t n = 0;
    for (size_t i = 0; i < trace->n_lines; i++) {
        lost += trace->lines[i].lost;
        n += trace->lines[i].n;
    }
    printf("job %08" PRIx32 ": %d PEs, %zu events in %zu files, %.6f s; %" PRIu64 " older events are lost\n",
           trace->job, trace->n_pes, n, trace->n_files, (double)trace->end_ns / 1e9, lost);
    for (size_t i = 0; i < trace->waits.n && i < LONGEST; i++) {
        const struct arrow *a = &trace->waits.of[i];
        printf("  pe %d was in %s for %.6f s until %s of pe %d\n", a->to_line->head->pe, a->to->name,
               (double)info_trace_length(a) / 1e9, a->from->name, a->from_line->head->pe);
    }
    tell_streams(trace);
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
    find_enqueues(&trace);
    if (trace.waits.n > 0)
        qsort(trace.waits.of, trace.waits.n, sizeof *trace.waits.of, by_length);
    if (trace.queued.n > 0)
        qsort(trace.queued.of, trace.queued.n, sizeof *trace.queued.of, by_length);
    tell_trace(&trace);
    int status = write_file(&trace, folder, "trace.json", write_json);
    return write_file(&trace, folder, "trace.svg", info_trace_draw) != 0 ? 1 : status;
}
