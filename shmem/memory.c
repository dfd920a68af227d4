/* SPDX-License-Identifier: MIT */
/* The symmetric heap's calls (section 9.3): the offset allocator over the heap segment, and the barriers around it.
 * Invariant: all PEs make the same calls in the same order, so every PE's allocator answers the same offset; nothing is
 * exchanged. What was never handed out (above the allocator's top) is zero and has no pages.
 * Called by users; iso_memory_start and _stop by init.c, iso_debug_object by segment.c. */
#include "internal.h"
#include "alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From this size on a freed object gives its pages back to the system: faulting them in again costs less than holding
 * them. Below, the pages stay for the next object. */
#define GIVE_BACK_BYTES ((size_t)16 << 20)
#define POISON 0xdd /* of freed memory, under SHMEM_DEBUG */

struct request {
    const char *call;
    size_t align;
    size_t size;
};

static struct segment *heap(void) { return &ISO->segments[SEGMENT_INDEX_HEAP]; }
static char *heap_objects(void) { return heap()->base + iso_memory_heap_start(); }

int iso_memory_start(void)
{
    size_t start = iso_memory_heap_start();
    if (heap()->len <= start) {
        log_error("shmem_init: a heap of %zu bytes has no room for objects behind its %zu bytes of control area",
                  heap()->len, start);
        return -ENOSPC;
    }
    ISO->alloc = iso_alloc_create(heap()->len - start, 0);
    if (ISO->alloc == NULL) {
        int rc = -errno;
        log_error("shmem_init: the allocator of a heap of %zu bytes cannot be made: %m; at most 16 TiB are possible",
                  heap()->len - start);
        return rc;
    }
    heap()->limit = start;
    return 0;
}

void iso_memory_stop(void)
{
    iso_alloc_destroy(ISO->alloc);
    ISO->alloc = NULL;
}

/* ---- parts of the calls ---- */

/* What shmem_barrier_all does: also the puts of other contexts to an object arrive before it is reused. */
static void barrier(const char *call)
{
    iso_quiet_all();
    iso_barrier_sync(&ISO->world, call);
}

/* SHMEM_DEBUG: the arguments agree on all PEs; pointers are compared as offsets, since bases may differ. */
static void match(const char *call, const char *what, uint64_t value)
{
    if (ISO_LIKELY(!ISO->env.debug))
        return;
    char name[64];
    snprintf(name, sizeof name, "%s (%s)", call, what);
    struct coll_args args = {name, value, 0};
    iso_coll_debug_match(&ISO->world, args);
}

/* Relaxed, pairs with nothing: other threads of this PE learn of an object by the program's own synchronisation. */
static void raise_limit(void)
{
    __atomic_store_n(&heap()->limit, iso_memory_heap_start() + iso_alloc_top(ISO->alloc), __ATOMIC_RELAXED);
}

/* One PE speaks for all: every PE has failed alike. */
static ISO_COLD void report_full(const char *call, size_t size)
{
    struct alloc_stats s = iso_alloc_stats(ISO->alloc);
    iso_log(
        ISO->my_pe == 0 ? LOG_ERROR : LOG_INFO,
        "%s: no room for %zu bytes: %zu of the heap's %zu bytes are used (objects: %zu), the largest free range has "
        "%zu bytes; raise SHMEM_SYMMETRIC_SIZE",
        call, size, s.used, s.cap, s.objects, s.largest_free);
}

/* What the addresses of all PEs' heaps are multiples of: an offset can promise no more. */
static size_t common_alignment(void)
{
    uintptr_t bits = 0;
    for (int i = 0; i < ISO->n_local; i++)
        bits |= (uintptr_t)heap()->peers[ISO->local_pes[i]].base;
    bits |= iso_memory_heap_start();
    return (size_t)(bits & (0 - bits));
}

/* NULL: no room, said so. */
static char *allocate(struct request r)
{
    size_t offset;
    int rc = iso_alloc_get(ISO->alloc, r.align, r.size, &offset);
    if (rc == -ENOSPC) {
        report_full(r.call, r.size);
        return NULL;
    }
    if (rc != 0) /* other PEs may have succeeded: the heaps are not symmetric any more */
        iso_fatal(r.call, "no memory is left for the bookkeeping of the heap's %zu objects",
                  iso_alloc_stats(ISO->alloc).objects);
    raise_limit();
    return heap_objects() + offset;
}

static void *allocate_and_meet(struct request r)
{
    match(r.call, "size", r.size);
    void *object = allocate(r);
    barrier(r.call);
    return object;
}

/* Gives whole pages of [offset, offset + size) back to the system; they read as zero afterwards. */
static void give_back(size_t offset, size_t size)
{
    if (size < GIVE_BACK_BYTES || heap()->fd < 0)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = (iso_memory_heap_start() + offset + page - 1) & ~(page - 1);
    size_t to = (iso_memory_heap_start() + offset + size) & ~(page - 1);
    if (fallocate(heap()->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) != 0)
        log_debug("giving %zu bytes of freed heap back to the system failed: %m", to - from);
}

static void retire(size_t offset, size_t size)
{
    if (ISO->env.debug && size < GIVE_BACK_BYTES)
        memset(heap_objects() + offset, POISON, size);
    give_back(offset, size);
}

static ISO_COLD _Noreturn void fatal_pointer(const char *call, const void *ptr)
{
    struct alloc_object object;
    size_t offset = (size_t)((const char *)ptr - heap_objects());
    if (offset >= heap()->len - iso_memory_heap_start())
        iso_fatal(call, "ptr %p is not in the symmetric heap (%p to %p)", ptr, (void *)heap_objects(),
                  (void *)(heap()->base + heap()->limit));
    if (iso_alloc_find(ISO->alloc, offset, &object))
        iso_fatal(call, "ptr %p lies %zu bytes inside the object of %zu bytes at %p, only its start can be given", ptr,
                  offset - object.offset, object.size, (void *)(heap_objects() + object.offset));
    iso_fatal(call, "ptr %p is no object of the symmetric heap: it was freed before, or never allocated", ptr);
}

/* The live object that begins at ptr; ends the job when there is none. */
static struct alloc_object object_at(const char *call, const void *ptr)
{
    struct alloc_object object;
    size_t offset = (size_t)((const char *)ptr - heap_objects());
    if (!iso_alloc_find(ISO->alloc, offset, &object) || object.offset != offset)
        fatal_pointer(call, ptr);
    return object;
}

/* ---- the calls' bodies, with the name that errors and waits carry ---- */

static void *call_malloc(const char *call, size_t size)
{
    iso_check_life(call);
    struct request r = {call, ISO_LINE, size};
    return size == 0 ? NULL : allocate_and_meet(r);
}

static void *call_align(const char *call, size_t alignment, size_t size)
{
    iso_check_life(call);
    if (size == 0)
        return NULL;
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
        log_error("%s: alignment %zu is not a power of two that is a multiple of %zu", call, alignment, sizeof(void *));
        return NULL;
    }
    match(call, "alignment", alignment);
    if (alignment > common_alignment()) {
        log_error("%s: alignment %zu is above %zu, which is all that the heaps of all PEs have in common", call,
                  alignment, common_alignment());
        barrier(call);
        return NULL;
    }
    struct request r = {call, ISO_MAX(alignment, (size_t)ISO_LINE), size};
    return allocate_and_meet(r);
}

static void call_free(const char *call, void *ptr)
{
    iso_check_life(call);
    if (ptr == NULL)
        return;
    struct alloc_object object = object_at(call, ptr);
    match(call, "offset of ptr", object.offset);
    barrier(call);
    if (iso_alloc_free(ISO->alloc, object.offset) != 0) /* another thread was faster */
        fatal_pointer(call, ptr);
    retire(object.offset, object.size);
}

static void *move(const char *call, struct alloc_object old, size_t size)
{
    struct request r = {call, ISO_LINE, size};
    char *object = allocate(r);
    if (object == NULL)
        return NULL;
    memcpy(object, heap_objects() + old.offset, ISO_MIN(old.size, size));
    iso_alloc_free(ISO->alloc, old.offset);
    retire(old.offset, old.size);
    return object;
}

/* Where it is, when there is room; else elsewhere. NULL: no room, the old object is as it was. */
static void *change_size(const char *call, struct alloc_object old, size_t size)
{
    int rc = iso_alloc_resize(ISO->alloc, old.offset, size);
    if (rc == -ENOSPC)
        return move(call, old, size);
    if (rc != 0)
        iso_fatal(call, "no memory is left for the bookkeeping of the heap's objects");
    raise_limit();
    if (size < old.size)
        retire(old.offset + size, old.size - size);
    return heap_objects() + old.offset;
}

static void *call_realloc(const char *call, void *ptr, size_t size)
{
    if (ptr == NULL)
        return call_malloc(call, size);
    if (size == 0) {
        call_free(call, ptr);
        return NULL;
    }
    iso_check_life(call);
    struct alloc_object old = object_at(call, ptr);
    match(call, "offset of ptr", old.offset);
    match(call, "size", size);
    barrier(call);
    void *object = change_size(call, old, size);
    barrier(call);
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
void pshmem_free(void *ptr) { call_free("shmem_free", ptr); }

/* Host memory serves atomics and signals equally well everywhere: there is nothing to choose by the hints. */
SHMEM_API(shmem_malloc_with_hints, pshmem_malloc_with_hints);
void *pshmem_malloc_with_hints(size_t size, long hints)
{
    iso_check_life("shmem_malloc_with_hints");
    if (size != 0)
        match("shmem_malloc_with_hints", "hints", (uint64_t)hints);
    return call_malloc("shmem_malloc_with_hints", size);
}

/* Only what was handed out before needs zeroing: pages above the top are the system's zero pages still. */
SHMEM_API(shmem_calloc, pshmem_calloc);
void *pshmem_calloc(size_t count, size_t size)
{
    const char *call = "shmem_calloc";
    size_t bytes;
    iso_check_life(call);
    if (count == 0 || size == 0)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX; /* more than any heap has: fails below, with the numbers */
    match(call, "count * size", bytes);
    char *used_end = heap_objects() + iso_alloc_top(ISO->alloc);
    struct request r = {call, ISO_LINE, bytes};
    char *object = allocate(r);
    if (object != NULL && object < used_end)
        memset(object, 0, ISO_MIN(bytes, (size_t)(used_end - object)));
    barrier(call);
    return object;
}

SHMEM_API(shmalloc, pshmalloc);
void *pshmalloc(size_t size) { return call_malloc("shmalloc", size); }

SHMEM_API(shmemalign, pshmemalign);
void *pshmemalign(size_t alignment, size_t size) { return call_align("shmemalign", alignment, size); }

SHMEM_API(shrealloc, pshrealloc);
void *pshrealloc(void *ptr, size_t size) { return call_realloc("shrealloc", ptr, size); }

SHMEM_API(shfree, pshfree);
void pshfree(void *ptr) { call_free("shfree", ptr); }

SHMEM_API(shmemx_heap_is_valid, pshmemx_heap_is_valid);
int pshmemx_heap_is_valid(void)
{
    iso_check_life("shmemx_heap_is_valid");
    return iso_alloc_is_valid(ISO->alloc) ? 1 : 0;
}

/* ---- SHMEM_DEBUG ---- */

void iso_debug_object(const char *call, const char *arg, const void *addr, size_t len)
{
    size_t in_heap = (size_t)((const char *)addr - heap()->base);
    struct alloc_object object;
    if (in_heap >= heap()->len || len == 0)
        return;
    if (in_heap < iso_memory_heap_start())
        iso_fatal(call, "%s %p is in the library's own part of the heap", arg, addr);
    size_t offset = in_heap - iso_memory_heap_start();
    if (!iso_alloc_find(ISO->alloc, offset, &object))
        iso_fatal(call, "%s %p is in heap memory that is not allocated (freed before?)", arg, addr);
    if (offset - object.offset > object.size || len > object.size - (offset - object.offset))
        iso_fatal(call, "%s %p with %zu bytes goes past the end of its object, %zu bytes at %p", arg, addr, len,
                  object.size, (void *)(heap_objects() + object.offset));
}
