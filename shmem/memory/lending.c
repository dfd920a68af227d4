/* SPDX-License-Identifier: MIT */
/* Memory lent back: shmemx_suspend, and shmemx_resume. The device's part is device_suspend.c. On the host the pages of
 * the heap's file go and all mappings stay, so addresses are right when they are written again. Epochs, flags and
 * allocators lie elsewhere. On one node a lent object has no access in this process. It lies behind the limit of its
 * segment, so calls refuse it; local objects are addressable by peers' places, so those are not refused. Invariant: no
 * PE is in a call with a stage or an object between the first agreement and the last barrier. Called by users. */
#include "../../bootstrap/log.h"
#include "../collectives.h"
#include "../gpu/device.h"
#include "../node/wait.h"
#include "../state/alloc.h"
#include "../team/slot.h"
#include "../transport/order.h"
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const int lendable[] = {SEGMENT_INDEX_HEAP, SEGMENT_INDEX_LOCAL, SEGMENT_INDEX_TEAM};
enum { LENDABLE = sizeof lendable / sizeof lendable[0] };

/* ---- the host's memory ---- */

/* Whole pages. Where the process has no room for more mappings, loads see zeros; and on several nodes, since a network
 * registers kept objects together with what lies around them. */
static void forbid(const struct segment *s, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (ISO->n_nodes > 1)
        return;
    from = (from + page - 1) & ~(page - 1);
    to &= ~(page - 1);
    if (to > from && mprotect(s->base + from, to - from, PROT_NONE) != 0)
        log_debug("loads of %zu bytes that are lent back cannot be forbidden: %m", to - from);
}

static size_t end_of(const struct alloc_object *object)
{
    return object->offset + (object->size + ISO_ALLOC_UNIT - 1) / ISO_ALLOC_UNIT * ISO_ALLOC_UNIT;
}

/* The system keeps pages that the program has locked. */
static void lend(const struct segment *s, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (from + page - 1) & ~(page - 1);
    if (to > first)
        (void)munlock(s->base + first, (to - first) & ~(page - 1));
    iso_memory_punch(s, from, to);
}

/* All between objects that are kept goes. Then a run of lent objects without a gap has no access: pages that can be
 * written alone can go. */
static void lend_objects(const struct segment *s)
{
    size_t front, gone = 0, run = 0, run_end = 0;
    struct alloc *alloc = iso_segment_objects(s, &front);
    struct alloc_object object;
    iso_alloc_lend(alloc);
    for (size_t at = 0; iso_alloc_next(alloc, at, &object); at = object.offset + 1)
        if (object.kept) {
            lend(s, front + gone, front + object.offset);
            gone = end_of(&object);
        }
    lend(s, front + gone, front + iso_alloc_top(alloc));
    for (size_t at = 0; iso_alloc_next(alloc, at, &object); at = object.offset + 1) {
        if (object.kept || object.offset != run_end) {
            forbid(s, front + run, front + run_end);
            run = object.kept ? end_of(&object) : object.offset;
        }
        run_end = end_of(&object);
    }
    forbid(s, front + run, front + run_end);
}

static void lend_host(bool keeps)
{
    struct segment *segments = ISO->segments;
    size_t stage = iso_slot_stage_offset(ISO);
    for (int i = 0; i < ISO_SLOTS_ALL; i++)
        lend(&segments[SEGMENT_INDEX_HEAP], iso_slot_offset(i) + stage, iso_slot_offset(i + 1));
    __atomic_store_n(&ISO->lent, keeps ? LENT_STAGES : LENT_OBJECTS, __ATOMIC_RELAXED);
    if (keeps)
        return;
    __atomic_store_n(&segments[SEGMENT_INDEX_HEAP].limit, iso_segment_heap_start(), __ATOMIC_RELAXED);
    __atomic_store_n(&segments[SEGMENT_INDEX_TEAM].limit, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < LENDABLE; i++)
        lend_objects(&segments[lendable[i]]);
}

static void take_host_again(void)
{
    bool has_objects = !iso_segment_lends_objects();
    for (int i = 0; !has_objects && i < LENDABLE; i++) {
        struct segment *s = &ISO->segments[lendable[i]];
        size_t front;
        struct alloc *alloc = iso_segment_objects(s, &front);
        size_t end = front + iso_alloc_top(alloc);
        iso_memory_allow(s, front, end);
        iso_alloc_end_lending(alloc);
        __atomic_store_n(&s->limit, s->kind == SEGMENT_HEAP ? end : s->len, __ATOMIC_RELAXED);
        if (s->kind == SEGMENT_HEAP)
            __atomic_store_n(&ISO->control->heap_bytes, end - front, __ATOMIC_RELAXED); /* as raise_limit */
    }
    __atomic_store_n(&ISO->lent, LENT_NOTHING, __ATOMIC_RELAXED);
}

/* ---- public ---- */

static struct device *device_that_runs(void)
{
    return ISO->device != NULL && ISO->device->running ? ISO->device : NULL;
}

/* 0, or -errno after a sentence, on all PEs alike. */
static int may_suspend(const struct device *d, int keep, const char *call)
{
    char sentence[256];
    snprintf(sentence, sizeof sentence, "has keep %d, allowed: 0 and 1", keep);
    int rc = iso_agree_outcome(ISO->world, keep == 0 || keep == 1 ? 0 : -EINVAL, sentence, call);
    if (rc != 0)
        return rc;
    sentence[0] = '\0';
    uint64_t least = iso_agree_min(ISO->world, (uint64_t)keep, call);
    if (least != ~iso_agree_min(ISO->world, ~(uint64_t)keep, call))
        snprintf(sentence, sizeof sentence, "has keep %d and another PE has not; it must be equal on all", keep);
    else if (d != NULL)
        iso_device_look_at_lending(d, sentence, sizeof sentence);
    return iso_agree_outcome(ISO->world, sentence[0] == '\0' ? 0 : -ENOTSUP, sentence, call);
}

SHMEM_API(shmemx_suspend, pshmemx_suspend);
int pshmemx_suspend(int keep)
{
    if (iso_enter(__func__) != 0)
        return 1;
    if (ISO->lent != LENT_NOTHING) {
        log_error("shmemx_suspend: memory is lent back already; call shmemx_resume first, on all PEs");
        return 1;
    }
    struct device *d = device_that_runs();
    iso_quiet_all(__func__); /* all PEs' puts have arrived at the agreement */
    if (may_suspend(d, keep, __func__) != 0 || (d != NULL && iso_device_suspend(d, keep != 0, __func__) != 0))
        return 1;
    lend_host(keep != 0);
    return iso_barrier_sync(ISO->world, __func__) != 0;
}

SHMEM_API(shmemx_resume, pshmemx_resume);
int pshmemx_resume(void)
{
    if (iso_enter(__func__) != 0)
        return 1;
    if (ISO->lent == LENT_NOTHING) {
        log_error("shmemx_resume: memory is not lent back: shmemx_suspend comes first");
        return 1;
    }
    struct device *d = device_that_runs(); /* it may have started since */
    if (d != NULL && iso_device_is_suspended(d) && iso_device_resume(d, __func__) != 0)
        return 1;
    take_host_again();
    iso_handles_refresh(); /* the kernels' table may have been written meanwhile, without what was lent */
    return iso_barrier_sync(ISO->world, __func__) != 0; /* no peer writes before */
}

SHMEM_API(shmemx_keep, pshmemx_keep);
int pshmemx_keep(void *ptr)
{
    size_t front;
    if (iso_enter(__func__) != 0)
        return 1;
    const struct segment *s = iso_segment_of(ptr, 1), *lent = iso_segment_lent(ptr);
    struct alloc *alloc = s != NULL && lent == NULL ? iso_segment_objects(s, &front) : NULL;
    if (alloc != NULL && iso_alloc_keep(alloc, (size_t)((char *)ptr - s->base) - front) == 0)
        return 0;
    log_error("shmemx_keep: ptr %p is not the start of an object of this PE%s", ptr,
              lent != NULL ? " that is there: it is lent back" : "");
    return 1;
}
