/* SPDX-License-Identifier: MIT */
/* Device memory lent back: physical memory of the heap and of its parts goes, addresses stay, so handles, pointers that
 * programs keep and captured graphs are right when it has come again. What handles have written lies in host memory
 * meanwhile, and so do objects where the user asks for it. Invariant: no PE's streams have work, and no call of any PE
 * takes the device, from the first agreement of shmemx_suspend to the last one of shmemx_resume; memory is mapped by
 * peers only while its owner has it. Called by users, and by device_start.c at the end. */
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
    bool keeps; /* objects, too */
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
    if (rc == 0 && s->keeps)
        rc = add_objects(s, d->alloc, d->control_bytes);
    for (int i = 1; rc == 0 && s->keeps && i < PARTS; i++)
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

static int prepare_suspension(struct device *d, int keep, const char *call)
{
    char sentence[256] = "";
    int rc = keep == 0 || keep == 1 ? 0 : -EINVAL;
    snprintf(sentence, sizeof sentence, "has keep %d, allowed: 0 and 1", keep);
    rc = iso_device_agree(call, rc, sentence);
    if (rc != 0)
        return rc;
    bool alike = iso_agree_min(ISO->world, (uint64_t)keep, call) == ~iso_agree_min(ISO->world, ~(uint64_t)keep, call);
    if (!alike)
        snprintf(sentence, sizeof sentence, "has keep %d and another PE has not; it must be equal on all", keep);
    else if (d->sharing != GPU_SHARE_VMM)
        snprintf(sentence, sizeof sentence, "cannot lend back memory that is shared by ipc: %s", d->sharing_why);
    else if (ISO->n_nodes > 1)
        snprintf(sentence, sizeof sentence, "cannot lend back memory that PEs of %d nodes reach by a network",
                 ISO->n_nodes);
    else if (__atomic_load_n(&d->captures, __ATOMIC_RELAXED) > 0)
        snprintf(sentence, sizeof sentence, "has a stream that is being captured");
    else
        sentence[0] = '\0';
    rc = iso_device_agree(call, sentence[0] == '\0' ? 0 : -ENOTSUP, sentence);
    return rc == 0 ? iso_device_agree(call, iso_device_finish_streams(call), "has work in its streams that failed") : rc;
}

SHMEM_API(shmemx_suspend, pshmemx_suspend);
int pshmemx_suspend(int keep)
{
    struct device *d = iso_device_running(__func__);
    char sentence[128];
    if (d == NULL || prepare_suspension(d, keep, __func__) != 0)
        return 1;
    struct suspension *s = (struct suspension *)calloc(1, sizeof *s);
    int rc = -ENOMEM;
    if (s != NULL) {
        s->keeps = keep != 0;
        rc = keep_contents(d, s);
    }
    snprintf(sentence, sizeof sentence, "has no host memory for %zu bytes of contents", s != NULL ? s->bytes : 0);
    rc = iso_device_agree(__func__, rc, sentence);
    if (rc != 0) {
        forget_suspension(s);
        return 1;
    }
    for (int i = 0; i < PARTS; i++) { /* addresses are refused from here on */
        s->limits[i] = part(i)->limit;
        __atomic_store_n(&part(i)->limit, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&d->suspension, s, __ATOMIC_RELEASE); /* pairs with iso_device_is_suspended */
    iso_grow_drop_peers(d);
    iso_heap_drop_peers(d);
    iso_barrier_sync(ISO->world, __func__); /* no PE maps another one's memory any more */
    iso_heap_drop_own(d);
    iso_barrier_sync(ISO->world, __func__); /* all of it is free */
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

/* 0, or -errno after a sentence on all PEs alike: it is still suspended then. */
static int resume(struct device *d, const char *call)
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

SHMEM_API(shmemx_resume, pshmemx_resume);
int pshmemx_resume(void)
{
    struct device *d = iso_enter(__func__) == 0 ? iso_device_left(__func__) : NULL;
    if (d != NULL && !iso_device_is_suspended(d)) {
        log_error("shmemx_resume: device memory is not lent back: shmemx_suspend comes first");
        return 1;
    }
    return d == NULL || resume(d, __func__) != 0 ? 1 : 0;
}

/* Alone: with memory that no peer maps, for what is put away at the end. */
int iso_device_end_suspension(struct device *d, bool alone, const char *call)
{
    if (!iso_device_is_suspended(d))
        return 0;
    if (!alone)
        return resume(d, call);
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
