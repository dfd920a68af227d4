/* SPDX-License-Identifier: MIT */
/* Device memory lent back: physical memory of the heap and of its parts goes, addresses stay, so handles, pointers that
 * programs keep and captured graphs are right when it has come again. What handles have written lies in host memory
 * meanwhile, and so do objects where the user asks for it. Invariant: no PE's streams have work, and no call of any PE
 * takes the device, from the first agreement of shmemx_suspend to the last one of shmemx_resume; memory is mapped by
 * peers only while its owner has it. Called by lending.c, and by device_start.c at the end. */
#include "../../bootstrap/log.h"
#include "../collectives.h"
#include "../transport/device_agent.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PARTS = 3 };

/* Contents that lie in host memory, from the heap's base on. */
struct kept_range {
    size_t at, len;
    char *bytes;
};

struct suspension {
    bool keeps; /* all objects, not only those that are marked so */
    size_t limits[PARTS]; /* of the three segments */
    size_t n_ranges;
    struct kept_range *ranges;
    char *memory; /* of all ranges */
    size_t bytes;
};

static struct segment *part(int i)
{
    static const int indices[PARTS] = {SEGMENT_INDEX_DEVICE, SEGMENT_INDEX_DEVICE_LOCAL, SEGMENT_INDEX_DEVICE_TEAM};
    return &ISO->segments[indices[i]];
}

/* ---- contents ---- */

static int add_objects(struct suspension *s, struct alloc *alloc, size_t from)
{
    struct alloc_object object;
    for (size_t at = 0; iso_alloc_next(alloc, at, &object); at = object.offset + 1) {
        if (!s->keeps && !object.kept && alloc != ISO->device->control)
            continue;
        struct kept_range *grown = (struct kept_range *)realloc(s->ranges, (s->n_ranges + 1) * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        s->ranges = grown;
        s->ranges[s->n_ranges++] = (struct kept_range){from + object.offset, object.size, NULL};
        s->bytes += object.size;
    }
    return 0;
}

/* Objects of a part lie at its beginning: the rest was never backed. */
static int keep_contents(struct device *d, struct suspension *s)
{
    char *base = part(0)->base;
    int rc = add_objects(s, d->control, 0);
    if (rc == 0)
        rc = add_objects(s, d->alloc, d->control_bytes);
    for (int i = 1; rc == 0 && i < PARTS; i++)
        rc = add_objects(s, part(i)->alloc, (size_t)(part(i)->base - base));
    if (rc != 0 || s->bytes == 0)
        return rc;
    void *memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    s->memory = (char *)memory;
    char *at = s->memory;
    for (size_t i = 0; i < s->n_ranges; i++) {
        s->ranges[i].bytes = at;
        iso_agent_move(at, AGENT_HOST, base + s->ranges[i].at, AGENT_DEVICE, s->ranges[i].len);
        at += s->ranges[i].len;
    }
    return 0;
}

static void forget_suspension(struct suspension *s)
{
    if (s == NULL)
        return;
    if (s->memory != NULL)
        munmap(s->memory, s->bytes);
    free(s->ranges);
    free(s);
}

/* ---- suspend ---- */

void iso_device_look_at_lending(const struct device *d, char *sentence, size_t bytes)
{
    sentence[0] = '\0';
    if (d->sharing != GPU_SHARE_VMM)
        snprintf(sentence, bytes, "cannot lend back memory that is shared by ipc: %s", d->sharing_why);
    else if (ISO->n_nodes > 1)
        snprintf(sentence, bytes, "cannot lend back memory that PEs of %d nodes reach by a network", ISO->n_nodes);
    else if (__atomic_load_n(&d->captures, __ATOMIC_RELAXED) > 0)
        snprintf(sentence, bytes, "has a stream that is being captured");
}

int iso_device_suspend(struct device *d, bool keeps, const char *call)
{
    char sentence[128];
    int rc = iso_device_agree(call, iso_device_finish_streams(call), "has work in its streams that failed");
    if (rc != 0)
        return rc;
    struct suspension *s = (struct suspension *)calloc(1, sizeof *s);
    rc = -ENOMEM;
    if (s != NULL) {
        s->keeps = keeps;
        rc = keep_contents(d, s);
    }
    snprintf(sentence, sizeof sentence, "has no host memory for %zu bytes of contents", s != NULL ? s->bytes : 0);
    rc = iso_device_agree(call, rc, sentence);
    if (rc != 0) {
        forget_suspension(s);
        return rc;
    }
    for (int i = 0; i < PARTS; i++) { /* addresses are refused from here on */
        s->limits[i] = part(i)->limit;
        __atomic_store_n(&part(i)->limit, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&d->suspension, s, __ATOMIC_RELEASE); /* pairs with iso_device_is_suspended */
    iso_grow_drop_peers(d);
    iso_heap_drop_peers(d);
    iso_barrier_sync(ISO->world, call); /* no PE maps another one's memory any more */
    iso_heap_drop_own(d);
    iso_barrier_sync(ISO->world, call); /* all of it is free */
    return 0;
}

/* ---- resume ---- */

static void end_suspension(struct device *d)
{
    struct suspension *s = d->suspension;
    for (int i = 0; i < PARTS; i++)
        __atomic_store_n(&part(i)->limit, s->limits[i], __ATOMIC_RELAXED);
    for (size_t i = 0; i < s->n_ranges; i++)
        iso_agent_move(part(0)->base + s->ranges[i].at, AGENT_DEVICE, s->ranges[i].bytes, AGENT_HOST, s->ranges[i].len);
    __atomic_store_n(&d->suspension, NULL, __ATOMIC_RELEASE); /* pairs with iso_device_is_suspended */
    forget_suspension(s);
}

int iso_device_resume(struct device *d, const char *call)
{
    int rc = iso_heap_make_again(d, call);
    if (rc != 0)
        return rc;
    rc = iso_device_agree(call, iso_grow_make_again(d, call), "cannot have its own device memory again");
    if (rc == 0) {
        end_suspension(d);
        iso_barrier_sync(ISO->world, call); /* no peer writes before the contents are there */
        return 0;
    }
    iso_grow_drop_peers(d);
    iso_heap_drop_peers(d);
    iso_barrier_sync(ISO->world, call); /* no PE maps another one's memory any more */
    iso_heap_drop_own(d);
    iso_barrier_sync(ISO->world, call); /* all of it is free */
    return rc;
}

/* Alone: with memory that no peer maps, for what is put away at the end. */
int iso_device_end_suspension(struct device *d, bool alone, const char *call)
{
    if (!iso_device_is_suspended(d))
        return 0;
    if (!alone)
        return iso_device_resume(d, call);
    for (int c = 0; c < d->n_chunks + d->n_grown; c++) {
        struct device_chunk chunk = c < d->n_chunks ? d->chunks[c] : d->grown[c - d->n_chunks];
        struct gpu_key key = {{0}, -1};
        int rc = iso_gpu_chunk_create(d->gpu, part(0)->base + chunk.at, chunk.len, GPU_COMMUNICATION, &key);
        if (rc != 0) {
            log_error("%s: there is no device memory for what shmemx_suspend has lent back: %s", iso_call_name(call),
                      iso_gpu_error(d->gpu));
            iso_heap_drop_own(d);
            return rc;
        }
        if (key.fd >= 0)
            close(key.fd);
    }
    end_suspension(d);
    return 0;
}
