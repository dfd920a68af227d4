/* SPDX-License-Identifier: MIT */
/* SHMEM_TRACE of what streams run: each call that the host enqueues stands between two marks of its stream
 * (device/gpu.h). Later calls look which marks the streams have come to, and write those calls into the trace with
 * times of the host's clock. No stream of the program and no peer is waited for, and no mark is made after the start:
 * a call that finds none free has no times and is counted. Calls of a stream end one after the other, so only its first
 * is looked at. In a stream that is being captured nothing is marked; a launch of the graph is one call.
 *
 * Clocks: a mark of a stream of our own is set and reached between two readings of the host's clock. That bounds from
 * both sides how far the device's clock is ahead. So does each traced call: it runs after it was enqueued, and ends
 * before its end is seen. The bounds get wider with time, as clocks drift, and narrower with each comparison.
 * Called by stream.c, launch.c, coll/stream (by device.h), device_start.c, init.c. */
#include "../../bootstrap/log.h"
#include "../../bootstrap/yield.h"
#include "../node/wait.h"
#include "../profile/trace.h"
#include "device.h"

#include <errno.h>
#include <stdlib.h>

enum { ENTRIES = 2048, STREAMS = 64, COMPARISONS = 16 };
#define LOOK_NS 1000000            /* between two looks */
#define COMPARE_NS 100000000       /* between two comparisons of the clocks, */
#define PATIENCE_NS 200000         /* for each of which a call waits so long at most; */
#define START_PATIENCE_NS 20000000 /* at the start, where nothing runs yet */
#define DRIFT 10000                /* clocks drift apart by 1 / 10000 of the time at most */
#define ROUNDED_NS 1000            /* of marks */
#define UNKNOWN ((int64_t)1 << 61)

/* A call between its marks. */
struct stream_entry {
    struct stream_entry *next; /* of its stream, or free */
    gpu_mark begin, end;
    struct profile_run run;
};

struct traced_stream {
    gpu_stream stream;
    unsigned number;
    struct stream_entry *first, *last; /* in the order of their ends; NULL: none */
    uint64_t ended, used; /* ticks: the end of the last call that was written; the last one was enqueued */
};

/* Times of the host are of CLOCK_MONOTONIC, ticks of the profile's clock; those of the device since its first mark. */
struct device_trace {
    pthread_mutex_t lock; /* all below, but for an entry that a thread has taken */
    struct gpu *gpu;
    struct trace_clock clock; /* the host's, read at the last look */
    double ns_per_tick;       /* since the start */
    gpu_stream own;           /* of comparisons */
    gpu_mark since, compared; /* since: the last mark of `own` that was reached, at since_ns of the device */
    int64_t since_ns;
    int64_t low, high, as_of; /* the device's clock is ahead of the host's by low to high, at as_of of the host's */
    int64_t next_look, next_comparison;
    uint64_t pending, unmarked; /* as in struct trace_streams */
    struct stream_entry *free;
    unsigned n_streams, next_number;
    struct traced_stream streams[STREAMS];
    struct stream_entry entries[ENTRIES];
};

/* ---- clocks ---- */

static int64_t host_ns(const struct device_trace *t, uint64_t ticks)
{
    return (int64_t)t->clock.ns + (int64_t)((double)(int64_t)(ticks - t->clock.ticks) * t->ns_per_tick);
}

static uint64_t host_ticks(const struct device_trace *t, int64_t ns)
{
    return t->clock.ticks + (uint64_t)(int64_t)((double)(ns - (int64_t)t->clock.ns) / t->ns_per_tick);
}

static int64_t host_now(const struct device_trace *t) { return host_ns(t, iso_profile_ticks(ISO->profile)); }

/* Again where the thread was interrupted between the readings. */
static void read_host_clocks(struct device_trace *t)
{
    const struct profile *p = ISO->profile;
    uint64_t before, after;
    int tries = 0;
    do {
        before = iso_profile_ticks(p);
        t->clock.ns = iso_clock_now_ns();
        after = iso_profile_ticks(p);
    } while ((double)(after - before) * p->ns_per_tick > ROUNDED_NS && ++tries < 4);
    t->clock.ticks = before + (after - before) / 2;
    t->ns_per_tick = (double)(t->clock.ns - p->first_clock.ns) / (double)(t->clock.ticks - p->first_clock.ticks);
}

/* Bounds found at `at` of the host. Those that contradict the old ones are taken alone. */
static void take_bounds(struct device_trace *t, int64_t at, int64_t low, int64_t high)
{
    low -= ROUNDED_NS;
    high += ROUNDED_NS;
    if (low > high)
        return;
    int64_t drift = (at > t->as_of ? at - t->as_of : t->as_of - at) / DRIFT;
    bool agree = low <= t->high + drift && high >= t->low - drift;
    t->low = agree ? ISO_MAX(low, t->low - drift) : low;
    t->high = agree ? ISO_MIN(high, t->high + drift) : high;
    t->as_of = at;
}

static void compare_with_device(struct device_trace *t, int64_t patience_ns)
{
    int64_t sent = host_now(t), seen = sent, ns = 0;
    int rc = iso_gpu_mark_set(t->gpu, t->compared, t->own);
    t->next_comparison = sent + COMPARE_NS;
    if (rc != 0)
        return;
    do {
        rc = iso_gpu_mark_time(t->gpu, t->since, t->compared, &ns);
        seen = host_now(t);
        if (rc != 0)
            (void)iso_yield(NULL);
    } while (rc == -EBUSY && seen - sent < patience_ns);
    if (rc != 0)
        return;
    gpu_mark since = t->compared;
    t->compared = t->since;
    t->since = since;
    t->since_ns += ns;
    take_bounds(t, seen, t->since_ns - seen, t->since_ns - sent);
}

/* ---- calls that have ended ---- */

static void give_entry(struct device_trace *t, struct stream_entry *e)
{
    e->next = t->free;
    t->free = e;
}

/* `begin` and `end`: of the device. */
static void write_run(struct device_trace *t, struct traced_stream *s, struct profile_run *run, int64_t begin,
                      int64_t end)
{
    int64_t sent = host_ns(t, run->enqueued), seen = host_now(t);
    take_bounds(t, ISO_MIN(ISO_MAX(end - t->low / 2 - t->high / 2, sent), seen), end - seen, begin - sent);
    int64_t ahead = t->low / 2 + t->high / 2;
    run->begin = host_ticks(t, ISO_MIN(ISO_MAX(begin - ahead, sent), seen));
    run->end = host_ticks(t, ISO_MIN(ISO_MAX(end - ahead, sent), seen));
    run->begin = ISO_MAX(ISO_MAX(run->begin, run->enqueued), s->ended);
    run->end = ISO_MAX(run->end, run->begin);
    s->ended = run->end;
    iso_profile_ran(run);
}

static void look_at_stream(struct device_trace *t, struct traced_stream *s)
{
    int64_t begin = 0, end = 0;
    for (struct stream_entry *e; (e = s->first) != NULL; give_entry(t, e)) {
        int rc = iso_gpu_mark_time(t->gpu, t->since, e->end, &end);
        if (rc == -EBUSY)
            return;
        if (rc == 0)
            rc = iso_gpu_mark_time(t->gpu, t->since, e->begin, &begin);
        if (rc == 0)
            write_run(t, s, &e->run, t->since_ns + begin, t->since_ns + end);
        else
            t->unmarked++;
        t->pending--;
        s->first = e->next;
    }
    s->last = NULL;
}

static void note_look(const struct device_trace *t)
{
    bool known = t->high - t->low < UNKNOWN;
    const struct trace_streams streams = {.ticks = iso_profile_ticks(ISO->profile),
                                          .pending = t->pending,
                                          .unmarked = t->unmarked,
                                          .error_ns = known ? (uint64_t)(t->high - t->low) / 2 : UINT64_MAX};
    const struct profile_run *first = NULL;
    for (const struct traced_stream *s = t->streams; s < t->streams + t->n_streams; s++)
        if (s->first != NULL && (first == NULL || s->first->run.enqueued < first->enqueued))
            first = &s->first->run;
    iso_profile_note_streams(&streams, first);
}

/* Calls first: their times are older than the comparison. */
static void look_at_streams(struct device_trace *t)
{
    read_host_clocks(t);
    int64_t now = (int64_t)t->clock.ns;
    t->next_look = now + LOOK_NS;
    for (unsigned i = 0; i < t->n_streams; i++)
        look_at_stream(t, &t->streams[i]);
    if (now >= t->next_comparison)
        compare_with_device(t, PATIENCE_NS);
    note_look(t);
}

/* ---- calls that are enqueued ---- */

/* The stream's place; a new one's is that of the stream without work that was used longest ago. NULL: none. */
static struct traced_stream *find_traced(struct device_trace *t, gpu_stream stream)
{
    struct traced_stream *oldest = NULL;
    for (struct traced_stream *s = t->streams; s < t->streams + t->n_streams; s++) {
        if (s->stream == stream)
            return s;
        if (s->first == NULL && (oldest == NULL || s->used < oldest->used))
            oldest = s;
    }
    if (t->n_streams < STREAMS)
        oldest = &t->streams[t->n_streams++];
    if (oldest != NULL)
        *oldest = (struct traced_stream){.stream = stream, .number = stream != NULL ? ++t->next_number : 0};
    return oldest;
}

void iso_device_trace_begin(struct stream_span *span, enum profile_call call, const char *name, size_t bytes,
                            gpu_stream stream)
{
    struct device_trace *t = ISO->device->trace;
    span->host = iso_profile_begin(call, name, bytes);
    span->stream = stream;
    span->how = NULL;
    span->entry = NULL;
    if (t == NULL || span->host.block->trace == NULL || iso_gpu_stream_is_capturing(t->gpu, stream))
        return;
    pthread_mutex_lock(&t->lock);
    if (t->free == NULL || host_now(t) >= t->next_look)
        look_at_streams(t);
    span->entry = t->free;
    if (t->free != NULL)
        t->free = t->free->next;
    else
        t->unmarked++;
    pthread_mutex_unlock(&t->lock);
    span->is_marked = span->entry != NULL && iso_gpu_mark_set(t->gpu, span->entry->begin, stream) == 0;
}

void iso_device_trace_end(struct stream_span *span)
{
    struct device_trace *t = ISO->device->trace;
    struct stream_entry *e = span->entry;
    iso_profile_end(&span->host);
    if (e == NULL)
        return;
    bool is_marked = span->is_marked && !iso_gpu_stream_is_capturing(t->gpu, span->stream) && /* the call may join it */
                     iso_gpu_mark_set(t->gpu, e->end, span->stream) == 0;
    pthread_mutex_lock(&t->lock);
    struct traced_stream *s = is_marked ? find_traced(t, span->stream) : NULL;
    if (s == NULL) {
        t->unmarked++;
        give_entry(t, e);
    } else {
        e->next = NULL;
        e->run = (struct profile_run){.name = span->host.name,
                                      .how = span->how,
                                      .enqueued = span->host.began,
                                      .bytes = span->host.bytes,
                                      .pe = span->host.pe,
                                      .stream = s->number,
                                      .thread = iso_trace_number(span->host.block->trace)};
        if (s->first == NULL)
            s->first = e;
        else
            s->last->next = e;
        s->last = e;
        s->used = span->host.began;
        t->pending++;
    }
    note_look(t);
    pthread_mutex_unlock(&t->lock);
}

/* ---- start and end ---- */

void iso_device_trace_look(struct device *d)
{
    struct device_trace *t = d != NULL ? d->trace : NULL;
    if (t == NULL || ISO->profile == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    look_at_streams(t);
    pthread_mutex_unlock(&t->lock);
}

void iso_device_trace_stop(struct device *d)
{
    struct device_trace *t = d->trace;
    if (t == NULL)
        return;
    d->trace = NULL;
    for (struct stream_entry *e = t->entries; e < t->entries + ENTRIES; e++) {
        iso_gpu_mark_destroy(t->gpu, e->begin);
        iso_gpu_mark_destroy(t->gpu, e->end);
    }
    iso_gpu_mark_destroy(t->gpu, t->since);
    iso_gpu_mark_destroy(t->gpu, t->compared);
    if (t->own != NULL)
        iso_gpu_stream_destroy(t->gpu, t->own);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void iso_device_trace_start(struct device *d)
{
    if (ISO->profile == NULL || !ISO->profile->traces)
        return;
    struct device_trace *t = (struct device_trace *)calloc(1, sizeof *t);
    int rc = t != NULL ? 0 : -ENOMEM;
    if (rc == 0) {
        pthread_mutex_init(&t->lock, NULL);
        t->gpu = d->gpu;
        t->low = -UNKNOWN;
        t->high = UNKNOWN;
        read_host_clocks(t);
        d->trace = t;
        rc = iso_gpu_stream_create(t->gpu, false, &t->own);
    }
    for (int i = 0; rc == 0 && i < ENTRIES; i++) {
        rc = iso_gpu_mark_create(t->gpu, &t->entries[i].begin);
        rc = rc == 0 ? iso_gpu_mark_create(t->gpu, &t->entries[i].end) : rc;
        give_entry(t, &t->entries[i]);
    }
    rc = rc == 0 ? iso_gpu_mark_create(t->gpu, &t->since) : rc;
    rc = rc == 0 ? iso_gpu_mark_create(t->gpu, &t->compared) : rc;
    rc = rc == 0 ? iso_gpu_mark_set(t->gpu, t->since, t->own) : rc;
    rc = rc == 0 ? iso_gpu_stream_wait(t->gpu, t->own) : rc;
    for (int i = 0; rc == 0 && i < COMPARISONS; i++)
        compare_with_device(t, START_PATIENCE_NS);
    if (rc == 0)
        return;
    log_warn("SHMEM_TRACE: what streams run is not traced: %s", t != NULL ? iso_gpu_error(d->gpu) : "no memory is left");
    iso_device_trace_stop(d);
}
