/* SPDX-License-Identifier: MIT */
/* Copies: threads, as many as a device has copy engines, take the first copy whose dependencies are fulfilled, so that
 * none waits for a kernel that it has nothing to do with. */
#include "hsa_own.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 2, ANY_ENGINE = -1 };

struct copy {
    struct copy *next;
    char *dest;
    const char *source;
    size_t len; /* of a row */
    uint32_t rows, slices;
    size_t dest_pitch, dest_slice, source_pitch, source_slice;
    int engine;
    hsa_signal_t done;
    uint32_t n_before;
    hsa_signal_t before[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy *copies, **last_copy = &copies; /* under the lock, like the next ones */
static unsigned engines_started;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER; /* the list */
static _Atomic uint32_t busy;                               /* engines, as bits */

/* ---- engines ---- */

static bool is_ready(const struct copy *c, int engine)
{
    if (c->engine != ANY_ENGINE && c->engine != engine)
        return false;
    for (uint32_t i = 0; i < c->n_before; i++)
        if (c->before[i].handle != 0 && own_signal_load(c->before[i]) > 0)
            return false;
    return true;
}

/* Waits while there is none at all. */
static struct copy *take_ready(int engine)
{
    pthread_mutex_lock(&lock);
    while (copies == NULL)
        pthread_cond_wait(&not_empty, &lock);
    struct copy **link = &copies, *found;
    while ((found = *link) != NULL && !is_ready(found, engine))
        link = &found->next;
    if (found != NULL) {
        *link = found->next;
        if (last_copy == &found->next)
            last_copy = link;
        atomic_fetch_or(&busy, 1u << engine);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void perform(const struct copy *c)
{
    uint64_t start = own_now();
    for (uint32_t z = 0; z < c->slices; z++)
        for (uint32_t y = 0; y < c->rows; y++)
            memmove(c->dest + z * c->dest_slice + y * c->dest_pitch,
                    c->source + z * c->source_slice + y * c->source_pitch, c->len);
    if (c->done.handle != 0)
        own_signal_times(c->done, start, own_now());
}

static void *run_engine(void *number)
{
    int engine = (int)(intptr_t)number;
    for (;;) {
        uint32_t seen = own_events();
        struct copy *c = take_ready(engine);
        if (c == NULL) {
            own_events_sleep(seen, MS);
            continue;
        }
        perform(c);
        atomic_fetch_and(&busy, ~(1u << engine));
        if (c->done.handle != 0)
            own_signal_subtract(c->done, 1);
        free(c);
    }
    return NULL;
}

static bool start_engines(void)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    while (engines_started < ENGINES &&
           pthread_create(&thread, NULL, run_engine, (void *)(intptr_t)engines_started) == 0) {
        pthread_detach(thread);
        engines_started++;
    }
    pthread_mutex_unlock(&lock);
    return engines_started == ENGINES;
}

/* ---- requests ---- */

static hsa_status_t request(const struct copy *what, const hsa_signal_t *before)
{
    if (what->dest == NULL || what->source == NULL || (what->n_before > 0 && before == NULL))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct copy *c = malloc(sizeof(*c) + what->n_before * sizeof(*before));
    if (c == NULL || !start_engines()) {
        free(c);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    memcpy(c, what, sizeof(*c));
    if (what->n_before > 0)
        memcpy(c->before, before, what->n_before * sizeof(*before));
    pthread_mutex_lock(&lock);
    *last_copy = c;
    last_copy = &c->next;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&lock);
    own_events_happened(); /* for an engine whose copies are not ready */
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t request_line(void *dest, const void *source, size_t size, uint32_t n_before,
                                 const hsa_signal_t *before, hsa_signal_t done, int engine)
{
    struct copy c = {NULL, dest, source, size, 1, 1, 0, 0, 0, 0, engine, done, n_before};
    return request(&c, before);
}

hsa_status_t hsa_amd_memory_async_copy(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from, size_t size,
                                       uint32_t n_before, const hsa_signal_t *before, hsa_signal_t done)
{
    if (own_agent(to) == NULL || own_agent(from) == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    return request_line(dest, source, size, n_before, before, done, ANY_ENGINE);
}

hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t *dest, const hsa_dim3_t *dest_offset,
                                            const hsa_pitched_ptr_t *source, const hsa_dim3_t *source_offset,
                                            const hsa_dim3_t *range, hsa_agent_t agent, hsa_amd_copy_direction_t dir,
                                            uint32_t n_before, const hsa_signal_t *before, hsa_signal_t done)
{
    (void)dir;
    if (dest == NULL || source == NULL || dest_offset == NULL || source_offset == NULL || range == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (own_agent(agent) == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    struct copy c = {NULL,        dest->base,    source->base,  range->x,   range->y, range->z, dest->pitch,
                     dest->slice, source->pitch, source->slice, ANY_ENGINE, done,     n_before};
    c.dest += dest_offset->x + dest_offset->y * dest->pitch + dest_offset->z * dest->slice;
    c.source += source_offset->x + source_offset->y * source->pitch + source_offset->z * source->slice;
    return request(&c, before);
}

/* ---- engines by their numbers: since ROCm 5.6, so that the header may lack them ---- */

hsa_status_t hsa_amd_memory_async_copy_on_engine(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from,
                                                 size_t size, uint32_t n_before, const hsa_signal_t *before,
                                                 hsa_signal_t done, unsigned engine, bool never_compute_units);
hsa_status_t hsa_amd_memory_copy_engine_status(hsa_agent_t to, hsa_agent_t from, uint32_t *mask);
hsa_status_t hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t to, hsa_agent_t from, uint32_t *mask);

hsa_status_t hsa_amd_memory_async_copy_on_engine(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from,
                                                 size_t size, uint32_t n_before, const hsa_signal_t *before,
                                                 hsa_signal_t done, unsigned engine, bool never_compute_units)
{
    (void)never_compute_units;
    if (own_agent(to) == NULL || own_agent(from) == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    if (__builtin_popcount(engine) != 1 || engine >> ENGINES != 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return request_line(dest, source, size, n_before, before, done, __builtin_ctz(engine));
}

static bool are_device_and_other(hsa_agent_t to, hsa_agent_t from)
{
    const struct agent *a = own_agent(to), *b = own_agent(from);
    return a != NULL && b != NULL && (a->kind == HSA_DEVICE_TYPE_GPU || b->kind == HSA_DEVICE_TYPE_GPU);
}

hsa_status_t hsa_amd_memory_copy_engine_status(hsa_agent_t to, hsa_agent_t from, uint32_t *mask)
{
    if (mask == NULL || !are_device_and_other(to, from))
        return mask == NULL ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_AGENT;
    *mask = ((1u << ENGINES) - 1) & ~atomic_load(&busy);
    return *mask != 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

hsa_status_t hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t to, hsa_agent_t from, uint32_t *mask)
{
    if (mask == NULL || !are_device_and_other(to, from))
        return mask == NULL ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_AGENT;
    *mask = 0; /* all are alike */
    return HSA_STATUS_SUCCESS;
}

/* ---- copies and fills at once ---- */

hsa_status_t hsa_memory_copy(void *dest, const void *source, size_t size)
{
    if (dest == NULL || source == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    memmove(dest, source, size);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count)
{
    if (ptr == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    for (uint32_t *at = ptr; count > 0; count--)
        *at++ = value;
    return HSA_STATUS_SUCCESS;
}
