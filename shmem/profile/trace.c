/* SPDX-License-Identifier: MIT */
/* SHMEM_TRACE: the files, and how events come into them. */
#include "trace.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/node_file.h"
#include "../node/peer.h"
#include "../node/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HASH_BITS = 10, EVENTS_LEAST = 1024, EVENTS_MOST = 1 << 24 };
#define ANCHOR_NS 20000000u /* between two readings of both clocks */

/* A thread's file. Only head.written is read by others while it is written. */
struct trace_thread {
    struct trace_head *head;
    struct trace_event *events;
    size_t bytes;
    uint64_t written, mask; /* as in the head */
    uint64_t next_ticks;    /* then both clocks are read */
    struct {
        const char *text; /* by its address: names are constants of the library */
        uint16_t number;
    } names[1 << HASH_BITS];
};

bool iso_trace_is_asked(const struct env *env) { return env->trace[0] != '\0'; }

int iso_trace_start(struct profile *p)
{
    const char *folder = ISO->env->trace;
    size_t events = ISO->env->trace_events;
    if (events < EVENTS_LEAST || events > EVENTS_MOST) {
        log_error("shmem_init: SHMEM_TRACE_EVENTS is %zu; allowed: %d..%d", events, EVENTS_LEAST, EVENTS_MOST);
        return -EINVAL;
    }
    for (p->trace_events = EVENTS_LEAST; p->trace_events < events;)
        p->trace_events *= 2;
    char inside[4096];
    snprintf(inside, sizeof inside, "%s/.", folder);
    if ((mkdir(folder, 0777) == 0 || errno == EEXIST) && access(inside, W_OK | X_OK) == 0)
        return 0;
    int rc = -errno;
    log_error("shmem_init: SHMEM_TRACE: the folder %s cannot be made or used: %s; name one in a folder that exists and "
              "may be "
              "written",
              folder, strerror(errno));
    return rc;
}

/* ---- files ---- */

static struct trace_clock clock_now(const struct profile *p)
{
    return (struct trace_clock){iso_profile_ticks(p), iso_clock_now_ns()};
}

static void fill_head(struct trace_head *head, const struct profile *p, int thread)
{
    const struct state *self = ISO;
    *head = (struct trace_head){.job = self->node != NULL ? self->node->head.job : 0,
                                .pe = self->my_pe,
                                .n_pes = self->n_pes,
                                .node = self->peers[self->my_pe].node_number,
                                .thread = thread,
                                .pid = (uint32_t)getpid(),
                                .tid = (uint32_t)gettid(),
                                .capacity = p->trace_events,
                                .began_s = (uint64_t)time(NULL),
                                .n_names = 1,
                                .first = p->first_clock,
                                .last = clock_now(p),
                                .ns_per_tick = p->ns_per_tick};
    snprintf(head->host, sizeof head->host, "%s", self->peers[self->my_pe].host);
    if (thread == 0 || pthread_getname_np(pthread_self(), head->label, sizeof head->label) != 0)
        snprintf(head->label, sizeof head->label, "main");
    memcpy(head->syncs, p->syncs, sizeof head->syncs);
    memcpy(head->segments, p->segments, sizeof head->segments);
    for (int i = 0; i < PROFILE_CALLS; i++)
        snprintf(head->kinds[i], sizeof head->kinds[i], "%s", iso_profile_names[i]);
    snprintf(head->kinds[TRACE_KIND_WAIT], sizeof head->kinds[0], "wait");
    snprintf(head->kinds[TRACE_KIND_KERNEL], sizeof head->kinds[0], "kernel");
    snprintf(head->kinds[TRACE_KIND_STREAM], sizeof head->kinds[0], "stream");
    snprintf(head->names[0], sizeof head->names[0], "other calls"); /* where the table of names is full */
    __atomic_store_n(&head->magic, TRACE_MAGIC, __ATOMIC_RELEASE);
}

/* The file has all of its blocks: a full disk is an error here, and no signal later. It is a new one, since a job that
 * runs may still have the old one mapped. */
static void *map_trace_file(const char *path, size_t bytes)
{
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int rc = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    void *at = rc == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0) : MAP_FAILED;
    if (rc == 0 && at == MAP_FAILED)
        rc = errno;
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return at;
    if (fd >= 0)
        unlink(path);
    errno = rc;
    return NULL;
}

struct trace_thread *iso_trace_open(struct profile *p)
{
    char path[4096];
    if (__atomic_load_n(&p->trace_stops, __ATOMIC_RELAXED) || ISO->life != LIFE_RUNNING)
        return NULL;
    int thread = __atomic_fetch_add(&p->trace_threads, 1, __ATOMIC_RELAXED); /* a number for each is all */
    snprintf(path, sizeof path, "%s/isomer.%d.%d.trace", ISO->env->trace, ISO->my_pe, thread);
    size_t at = trace_events_at(ISO->n_pes);
    struct trace_thread *t = (struct trace_thread *)calloc(1, sizeof *t);
    size_t bytes = at + p->trace_events * sizeof(struct trace_event);
    char *file = t != NULL ? (char *)map_trace_file(path, bytes) : NULL;
    if (file == NULL) {
        __atomic_store_n(&p->trace_stops, true, __ATOMIC_RELAXED);
        log_error("SHMEM_TRACE: %s with %zu bytes cannot be made: %m; its thread and later ones are not traced, set "
                  "SHMEM_TRACE_EVENTS to less",
                  path, bytes);
        free(t);
        return NULL;
    }
    t->head = (struct trace_head *)(void *)file;
    t->events = (struct trace_event *)(void *)(file + at);
    t->bytes = bytes;
    t->mask = p->trace_events - 1;
    fill_head(t->head, p, thread);
    return t;
}

void iso_trace_close(struct trace_thread *t)
{
    if (t == NULL)
        return;
    munmap(t->head, t->bytes);
    free(t);
}

/* ---- events ---- */

static uint16_t name_number(struct trace_thread *t, const char *name)
{
    unsigned i = (unsigned)((uintptr_t)name * 0x9e3779b97f4a7c15u >> (64 - HASH_BITS));
    while (t->names[i].text != name && t->names[i].text != NULL)
        i = (i + 1) % (1u << HASH_BITS);
    if (ISO_LIKELY(t->names[i].text == name) || t->head->n_names == TRACE_NAMES)
        return t->names[i].number;
    uint16_t number = (uint16_t)t->head->n_names;
    snprintf(t->head->names[number], TRACE_NAME_BYTES, "%s", iso_call_name(name));
    t->names[i].text = name;
    t->names[i].number = number;
    __atomic_store_n(&t->head->n_names, number + 1u, __ATOMIC_RELEASE);
    return number;
}

static void store(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

/* Relaxed stores: a reader of a running job leaves out what was overwritten meanwhile. */
void iso_trace_add(struct trace_thread *t, const char *name, const struct trace_event *e)
{
    struct trace_head *head = t->head;
    uint64_t n = t->written;
    struct trace_event *to = &t->events[n & t->mask];
    store(&to->begin, e->begin);
    store(&to->ticks, e->ticks);
    store(&to->bytes, e->bytes);
    store(&to->key, e->key);
    store(&to->more, e->more);
    store(&to->what, e->what | name_number(t, name));
    t->written = n + 1;
    __atomic_store_n(&head->written, n + 1, __ATOMIC_RELEASE); /* pairs with the acquire of info_trace.c */
    if (ISO_UNLIKELY(e->begin + e->ticks > t->next_ticks)) {
        head->last = clock_now(ISO->profile);
        t->next_ticks = head->last.ticks + (uint64_t)((double)ANCHOR_NS / head->ns_per_tick);
    }
}

void iso_trace_add_run(struct trace_thread *t, const struct profile_run *run)
{
    unsigned how = run->how != NULL ? name_number(t, run->how) : 0;
    const struct trace_event e = {.begin = run->begin,
                                  .ticks = run->end - run->begin,
                                  .bytes = run->bytes,
                                  .key = trace_stream(run->stream, how, run->thread),
                                  .more = run->enqueued,
                                  .what = trace_what(run->pe, TRACE_KIND_STREAM, 0)};
    iso_trace_add(t, run->name, &e);
}

unsigned iso_trace_number(const struct trace_thread *t) { return (unsigned)t->head->thread; }

void iso_trace_note_streams(struct trace_thread *t, const struct trace_streams *streams,
                            const struct profile_run *first)
{
    if (first != NULL) {
        store(&t->head->streams.enqueued, first->enqueued);
        store(&t->head->streams.first, trace_stream(first->stream, name_number(t, first->name), first->thread));
    }
    store(&t->head->streams.ticks, streams->ticks);
    store(&t->head->streams.pending, streams->pending);
    store(&t->head->streams.unmarked, streams->unmarked);
    store(&t->head->streams.error_ns, streams->error_ns);
}

void iso_trace_complete(const struct profile *p, const struct profile_block *b)
{
    struct trace_head *head = b->trace->head;
    uint64_t *bytes = (uint64_t *)(void *)(head + 1);
    memset(bytes, 0, (size_t)head->n_pes * sizeof *bytes);
    for (int pe = 0; pe < head->n_pes; pe++)
        for (int call = 0; call < PROFILE_TO_CALLS; call++)
            bytes[pe] += __atomic_load_n(&b->peers[pe].by_call[call].bytes, __ATOMIC_RELAXED);
    memcpy(head->syncs, p->syncs, sizeof head->syncs);
    memcpy(head->segments, p->segments, sizeof head->segments);
    head->whole = 1;
}
