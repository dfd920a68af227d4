/* SPDX-License-Identifier: MIT */
/* The calls of the symmetric heaps (section 9.3, and shmemx_malloc): the offset allocator over a heap segment, and the
 * barriers around it. One core serves the host heap and the device heap: struct heap says what differs.
 * Invariant: all PEs make the same calls in the same order, so every PE's allocator answers the same offset; nothing is
 * exchanged. What was never handed out (above the allocator's top) is zero, and on the host has no pages.
 * Called by users; iso_memory_start and _stop by init.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "../state/alloc.h"
#include "../gpu/device.h"
#include "../node/wait.h"
#include "../profile/profile.h"
#include "memory.h"
#include "../transport/order.h"
#include "../transport/transport.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From this size on a freed object gives its pages back to the system: faulting them in again costs less than holding
 * them. Below, the pages stay for the next object. */
#define GIVE_BACK_BYTES ((size_t)16 << 20)
#define PUNCH_BYTES ((size_t)64 << 20)
#define POISON 0xdd /* of freed memory, under SHMEM_DEBUG */

/* One heap, for the length of a call: where it is and what its memory needs. */
struct heap {
    const char *name;
    const char *variable; /* what makes it larger */
    struct segment *segment;
    struct alloc *alloc;
    size_t start; /* of the first object in the segment */
    void (*fill)(void *at, int byte, size_t len);
    int (*back)(size_t bytes,
                const char *call); /* physical memory under the first bytes of the segment; NULL: is there */
};

struct alloc_request {
    const struct heap *heap;
    const char *call;
    size_t align;
    size_t size;
};

static void fill_host(void *at, int byte, size_t len) { memset(at, byte, len); }

static struct heap host_heap(void)
{
    struct heap h = {"symmetric heap",
                     "SHMEM_SYMMETRIC_SIZE",
                     &ISO->segments[SEGMENT_INDEX_HEAP],
                     ISO->alloc,
                     iso_segment_heap_start(),
                     fill_host,
                     NULL};
    return h;
}

/* Only while a device runs. */
static struct heap device_heap(void)
{
    const struct device *d = ISO->device;
    struct heap h = {"device heap",  "SHMEM_DEVICE_HEAP_SIZE", &ISO->segments[SEGMENT_INDEX_DEVICE],
                     d->alloc,       d->control_bytes,         iso_agent_fill,
                     iso_device_back};
    return h;
}

/* Of the object at ptr: the device heap when it lies there, else the host's. */
static struct heap heap_of(const void *ptr)
{
    const struct segment *s = &ISO->segments[SEGMENT_INDEX_DEVICE];
    return (size_t)((const char *)ptr - s->base) < s->len ? device_heap() : host_heap();
}

static char *objects_of(const struct heap *h) { return h->segment->base + h->start; }

int iso_memory_start(void)
{
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP];
    size_t start = iso_segment_heap_start();
    if (heap->len <= start) {
        log_error("shmem_init: a heap of %zu bytes has no room for objects behind its %zu bytes of control area",
                  heap->len, start);
        return -ENOSPC;
    }
    ISO->alloc = iso_alloc_create(heap->len - start, 0);
    if (ISO->alloc == NULL) {
        int rc = -errno;
        log_error("shmem_init: the allocator of a heap of %zu bytes cannot be made: %m; at most 16 TiB are possible",
                  heap->len - start);
        return rc;
    }
    heap->limit = start;
    int rc = iso_segment_add_part(SEGMENT_INDEX_LOCAL, heap, heap->len, ISO->part_bytes);
    return rc != 0 ? rc : iso_segment_add_part(SEGMENT_INDEX_TEAM, heap, heap->len + ISO->part_bytes, ISO->part_bytes);
}

void iso_memory_stop(void)
{
    __atomic_store_n(&ISO->lent, LENT_NOTHING, __ATOMIC_RELAXED);
    iso_alloc_destroy(ISO->alloc);
    ISO->alloc = NULL;
}

/* ---- parts of the calls ---- */

/* What shmem_barrier_all does: also the puts of other contexts to an object arrive before it is reused. */
static int heap_barrier(const char *call)
{
    iso_quiet_all(call);
    return iso_barrier_sync(ISO->world, call);
}

/* SHMEM_DEBUG: the arguments agree on all PEs; pointers are compared as offsets, since bases may differ. */
static int match(const char *call, const char *what, uint64_t value)
{
    if (ISO_LIKELY(!ISO->debug))
        return 0;
    char name[64];
    snprintf(name, sizeof name, "%s (%s)", call, what);
    struct agree_args args = {name, value, 0, 0};
    return iso_agree_match(ISO->world, args);
}

/* Relaxed, pairs with nothing: other threads of this PE learn of an object by the program's own synchronisation. */
static void raise_limit(const struct heap *h, size_t end)
{
    end = (end + ISO_ALLOC_UNIT - 1) / ISO_ALLOC_UNIT * ISO_ALLOC_UNIT;
    if (h->alloc == ISO->alloc && iso_segment_lends_objects()) /* shmemx_resume raises it */
        return;
    if (end > h->segment->limit)
        __atomic_store_n(&h->segment->limit, end, __ATOMIC_RELAXED);
    if (h->alloc == ISO->alloc) /* for people who look at the job */
        __atomic_store_n(&ISO->control->heap_bytes, h->segment->limit - h->start, __ATOMIC_RELAXED);
}

/* One PE prints for all: every PE has failed alike. */
static enum log_level level_of_one(void) { return ISO->my_pe == 0 ? LOG_ERROR : LOG_INFO; }

static ISO_COLD void report_heap_full(const struct alloc_request *r)
{
    struct alloc_stats s = iso_alloc_stats(r->heap->alloc);
    char cap[96];
    char aligned[64] = "";
    bool chosen = r->heap->alloc == ISO->alloc && ISO->env->symmetric_size == 0;
    snprintf(cap, sizeof cap, chosen ? "its cap is the machine's memory, since %s is not set" : "raise %s",
             r->heap->variable);
    if (r->align > ISO_LINE)
        snprintf(aligned, sizeof aligned, " at a multiple of %zu", r->align);
    iso_log(level_of_one(),
            "%s: no room for %zu bytes%s: %zu of the %s's %zu bytes are used (objects: %zu), the largest free range has "
            "%zu bytes; %s",
            r->call, r->size, aligned, s.used, r->heap->name, s.cap, s.objects, s.largest_free, cap);
}

/* What the addresses of all PEs' first objects are multiples of: an offset can promise no more. */
static size_t common_alignment(const struct heap *h)
{
    uintptr_t bits = 0;
    for (int pe = 0; pe < ISO->n_pes; pe++)
        bits |= (uintptr_t)h->segment->peers[pe].base + h->start;
    return (size_t)(bits & (0 - bits));
}

/* NULL: no room, said so. */
static char *allocate(const struct alloc_request *r)
{
    const struct heap *h = r->heap;
    size_t offset;
    int rc = iso_alloc_get(h->alloc, r->align, r->size, &offset);
    if (rc == -ENOSPC) {
        report_heap_full(r);
        return NULL;
    }
    if (rc != 0) { /* other PEs may have succeeded: the heaps are not symmetric any more */
        (void)iso_refuse_alone(r->call, "no memory is left for the bookkeeping of the %s's %zu objects", h->name,
                               iso_alloc_stats(h->alloc).objects);
        return NULL;
    }
    if (h->back != NULL && h->back(h->start + offset + r->size, r->call) != 0) {
        iso_alloc_free(h->alloc, offset);
        return NULL;
    }
    raise_limit(h, h->start + offset + r->size);
    return objects_of(h) + offset;
}

static void *allocate_and_exchange(const struct alloc_request *r)
{
    struct profile_span span = iso_profile_enter(PROFILE_HEAP, r->call, r->size);
    bool same = match(r->call, "size", r->size) == 0;
    void *object = same ? allocate(r) : NULL;
    if (same && heap_barrier(r->call) != 0)
        object = NULL;
    iso_profile_leave(&span);
    return object;
}

/* A piece at a time: the network stands still meanwhile. */
void iso_memory_punch(const struct segment *segment, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    to &= ~(page - 1);
    from = (from + page - 1) & ~(page - 1);
    for (size_t len; from < to; from += len) {
        len = ISO_MIN(to - from, (size_t)PUNCH_BYTES);
        /* Where the network holds these pages, it would go on writing to pages that no PE maps any more. */
        if (!iso_transport_lock_unpinned(segment, from, len))
            continue;
        if (madvise(segment->base + from, len, MADV_REMOVE) != 0)
            log_debug("giving %zu bytes of the heap back to the system failed: %m", len);
        iso_transport_unlock();
    }
}

void iso_memory_allow(const struct segment *segment, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), front;
    from &= ~(page - 1);
    if (to <= from || mprotect(segment->base + from, to - from, PROT_READ | PROT_WRITE) == 0)
        return;
    /* No room for more mappings. Access to all objects makes them fewer; loads of lent ones then see zeros. */
    struct alloc *objects = iso_segment_objects(segment, &front);
    to = front + iso_alloc_top(objects);
    front &= ~(page - 1);
    if (mprotect(segment->base + front, to - front, PROT_READ | PROT_WRITE) != 0)
        iso_fatal("isomer", "%zu bytes of the heap that were lent back cannot be accessed again: %s", to - front,
                  strerror(errno));
}

void iso_memory_give_back(const struct segment *segment, size_t from, size_t size)
{
    if (segment->on_device)
        return;
    if (iso_segment_lends_objects()) /* another object may come there */
        iso_memory_allow(segment, from, from + size);
    if (size >= GIVE_BACK_BYTES)
        iso_memory_punch(segment, from, from + size);
}

static void retire(const struct heap *h, size_t offset, size_t size)
{
    iso_memory_give_back(h->segment, h->start + offset, size);
    if (ISO->debug && size < GIVE_BACK_BYTES && iso_segment_lent(objects_of(h) + offset) == NULL)
        h->fill(objects_of(h) + offset, POISON, size);
}

static ISO_COLD int refuse_pointer(const struct heap *h, const char *call, const void *ptr)
{
    struct alloc_object object;
    char *objects = objects_of(h);
    size_t offset = (size_t)((const char *)ptr - objects);
    if (offset >= h->segment->len - h->start)
        return iso_refuse(call, "ptr %p is not in the %s (%p to %p)", ptr, h->name, (void *)objects,
                          (void *)(h->segment->base + h->segment->limit));
    if (iso_alloc_find(h->alloc, offset, &object))
        return iso_refuse(call,
                          "ptr %p lies %zu bytes inside the object of %zu bytes at %p, only its start can be given", ptr,
                          offset - object.offset, object.size, (void *)(objects + object.offset));
    return iso_refuse(call, "ptr %p is not an object of the %s: it was freed before, or never allocated", ptr, h->name);
}

/* The live object that begins at ptr. 0, or -EINVAL after a sentence. */
static int heap_object_at(const struct heap *h, const char *call, const void *ptr, struct alloc_object *object)
{
    size_t offset = (size_t)((const char *)ptr - objects_of(h));
    bool found = iso_alloc_find(h->alloc, offset, object) && object->offset == offset;
    return found ? 0 : refuse_pointer(h, call, ptr);
}

/* ---- the calls' bodies, with the name that errors and waits carry ---- */

static void *get_object(const struct heap *h, const char *call, size_t size)
{
    struct alloc_request r = {h, call, ISO_LINE, size};
    return size == 0 ? NULL : allocate_and_exchange(&r);
}

static void *get_aligned(const struct heap *h, const char *call, size_t alignment, size_t size)
{
    if (size == 0)
        return NULL;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        iso_log(level_of_one(), "%s: alignment %zu is not a power of two", call, alignment);
        return NULL;
    }
    if (match(call, "alignment", alignment) != 0)
        return NULL;
    if (alignment > common_alignment(h)) {
        iso_log(level_of_one(), "%s: alignment %zu is above %zu, which is all that the %ss of all PEs have in common",
                call, alignment, common_alignment(h), h->name);
        (void)heap_barrier(call);
        return NULL;
    }
    struct alloc_request r = {h, call, ISO_MAX(alignment, (size_t)ISO_LINE), size};
    return allocate_and_exchange(&r);
}

/* Only what was handed out before needs zeroing: what lies above the top is zero still. */
static void *get_zeroed(const struct heap *h, const char *call, size_t count, size_t size)
{
    size_t bytes;
    if (count == 0 || size == 0)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX; /* more than any heap has: fails below, with the numbers */
    if (match(call, "count * size", bytes) != 0)
        return NULL;
    char *used_end = objects_of(h) + iso_alloc_top(h->alloc);
    struct profile_span span = iso_profile_enter(PROFILE_HEAP, call, bytes);
    struct alloc_request r = {h, call, ISO_LINE, bytes};
    char *object = allocate(&r);
    if (object != NULL && object < used_end)
        h->fill(object, 0, ISO_MIN(bytes, (size_t)(used_end - object)));
    if (heap_barrier(call) != 0)
        object = NULL;
    iso_profile_leave(&span);
    return object;
}

static void give(const char *call, void *ptr)
{
    struct alloc_object object;
    if (iso_enter(call) != 0 || ptr == NULL)
        return;
    struct profile_span span = iso_profile_enter(PROFILE_HEAP, call, 0);
    struct heap h = heap_of(ptr);
    if (heap_object_at(&h, call, ptr, &object) == 0 && match(call, "offset of ptr", object.offset) == 0 &&
        heap_barrier(call) == 0) {
        if (iso_alloc_free(h.alloc, object.offset) != 0) /* another thread was faster */
            (void)refuse_pointer(&h, call, ptr);
        else
            retire(&h, object.offset, object.size);
    }
    iso_profile_leave(&span);
}

static void *call_malloc(const char *call, size_t size)
{
    iso_check_life(call);
    struct heap h = host_heap();
    return get_object(&h, call, size);
}

static void *call_align(const char *call, size_t alignment, size_t size)
{
    iso_check_life(call);
    struct heap h = host_heap();
    return get_aligned(&h, call, alignment, size);
}

static void *call_realloc(const char *call, void *ptr, size_t size)
{
    if (ptr == NULL)
        return call_malloc(call, size);
    if (size == 0) {
        give(call, ptr);
        return NULL;
    }
    iso_check_life(call);
    struct heap h = host_heap();
    if (heap_of(ptr).segment != h.segment)
        iso_fatal(call, "ptr %p is device memory, which cannot change its size; allocate, copy and free", ptr);
    struct alloc_object old;
    if (heap_object_at(&h, call, ptr, &old) != 0)
        return NULL;
    if (old.lent)
        iso_fatal(call, "ptr %p " ISO_LENT_BACK, ptr);
    struct profile_span span = iso_profile_enter(PROFILE_HEAP, call, size);
    (void)match(call, "offset of ptr", old.offset);
    (void)match(call, "size", size);
    (void)heap_barrier(call);
    char *object = objects_of(&h) + old.offset;
    int rc = iso_alloc_resize(h.alloc, old.offset, size);
    if (rc == -ENOSPC) { /* not where it is; NULL: nowhere, and the old object is as it was */
        struct alloc_request r = {&h, call, ISO_LINE, size};
        object = allocate(&r);
        if (object != NULL) {
            memcpy(object, objects_of(&h) + old.offset, ISO_MIN(old.size, size));
            if (old.kept)
                (void)iso_alloc_keep(h.alloc, (size_t)(object - objects_of(&h)));
            iso_alloc_free(h.alloc, old.offset);
            retire(&h, old.offset, old.size);
        }
    } else if (rc != 0) {
        iso_fatal(call, "no memory is left for the bookkeeping of the heap's objects");
    } else {
        raise_limit(&h, h.start + old.offset + size);
        if (size < old.size)
            retire(&h, old.offset + size, old.size - size);
    }
    (void)heap_barrier(call);
    iso_profile_leave(&span);
    return object;
}

/* ---- public ---- */

SHMEM_API(shmem_malloc, pshmem_malloc);
void *pshmem_malloc(size_t size) { return call_malloc("shmem_malloc", size); }

SHMEM_API(shmem_align, pshmem_align);
void *pshmem_align(size_t alignment, size_t size) { return call_align("shmem_align", alignment, size); }

SHMEM_API(shmem_realloc, pshmem_realloc);
void *pshmem_realloc(void *ptr, size_t size) { return call_realloc("shmem_realloc", ptr, size); }

SHMEM_API(shmem_free, pshmem_free);
void pshmem_free(void *ptr) { give("shmem_free", ptr); }

/* Host memory serves atomics and signals equally well everywhere: there is nothing to choose by the hints. */
SHMEM_API(shmem_malloc_with_hints, pshmem_malloc_with_hints);
void *pshmem_malloc_with_hints(size_t size, long hints)
{
    iso_check_life("shmem_malloc_with_hints");
    if (size != 0)
        (void)match("shmem_malloc_with_hints", "hints", (uint64_t)hints);
    return call_malloc("shmem_malloc_with_hints", size);
}

SHMEM_API(shmem_calloc, pshmem_calloc);
void *pshmem_calloc(size_t count, size_t size)
{
    iso_check_life("shmem_calloc");
    struct heap h = host_heap();
    return get_zeroed(&h, "shmem_calloc", count, size);
}

SHMEM_API(shmalloc, pshmalloc);
void *pshmalloc(size_t size) { return call_malloc("shmalloc", size); }

SHMEM_API(shmemalign, pshmemalign);
void *pshmemalign(size_t alignment, size_t size) { return call_align("shmemalign", alignment, size); }

SHMEM_API(shrealloc, pshrealloc);
void *pshrealloc(void *ptr, size_t size) { return call_realloc("shrealloc", ptr, size); }

SHMEM_API(shfree, pshfree);
void pshfree(void *ptr) { give("shfree", ptr); }

SHMEM_API(shmemx_heap_is_valid, pshmemx_heap_is_valid);
int pshmemx_heap_is_valid(void)
{
    const struct device *d = ISO->device;
    if (ISO->life != LIFE_RUNNING) { /* a broken job has its heap still */
        (void)iso_refuse_entry("shmemx_heap_is_valid");
        return 0;
    }
    return iso_alloc_is_valid(ISO->alloc) && (d == NULL || iso_alloc_is_valid(d->alloc)) ? 1 : 0;
}

/* ---- public, with a kind ---- */

/* Bulk memory lies in the device heap too: its memory serves both on every device that there is so far. False: no
 * device, said so. */
static bool open_heap(const char *call, int kind, struct heap *h)
{
    if (iso_enter(call) != 0)
        return false;
    if (kind != SHMEMX_HOST && kind != SHMEMX_DEVICE && kind != SHMEMX_DEVICE_BULK)
        return iso_refuse(call, "kind is %d, allowed: SHMEMX_HOST (%d), SHMEMX_DEVICE (%d), SHMEMX_DEVICE_BULK (%d)",
                          kind, SHMEMX_HOST, SHMEMX_DEVICE, SHMEMX_DEVICE_BULK) == 0;
    if (match(call, "kind", (uint64_t)kind) != 0)
        return false;
    if (kind != SHMEMX_HOST && iso_device_need(call) == NULL)
        return false;
    *h = kind == SHMEMX_HOST ? host_heap() : device_heap();
    return true;
}

SHMEM_API(shmemx_malloc, pshmemx_malloc);
void *pshmemx_malloc(size_t size, int kind)
{
    struct heap h;
    return open_heap("shmemx_malloc", kind, &h) ? get_object(&h, "shmemx_malloc", size) : NULL;
}

SHMEM_API(shmemx_calloc, pshmemx_calloc);
void *pshmemx_calloc(size_t count, size_t size, int kind)
{
    struct heap h;
    return open_heap("shmemx_calloc", kind, &h) ? get_zeroed(&h, "shmemx_calloc", count, size) : NULL;
}

SHMEM_API(shmemx_align, pshmemx_align);
void *pshmemx_align(size_t alignment, size_t size, int kind)
{
    struct heap h;
    return open_heap("shmemx_align", kind, &h) ? get_aligned(&h, "shmemx_align", alignment, size) : NULL;
}

SHMEM_API(shmemx_free, pshmemx_free);
void pshmemx_free(void *ptr) { give("shmemx_free", ptr); }
