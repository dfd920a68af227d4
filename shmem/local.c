/* SPDX-License-Identifier: MIT */
/* Objects that not all PEs have: of one PE alone (local), or of a team. They lie in parts of their own behind the heaps, so
 * that the heaps' own objects stay alike on all PEs. A part has the same size on all PEs and is addressable whole: an
 * address in it means a place of any PE, also where this PE has nothing there. Invariant: a local object takes no other
 * PE's program; an object of a team has one offset on all members. Called by users; the parts are made by memory.c and
 * device_heap.c. */
#include "../bootstrap/log.h"
#include "agree.h"
#include "alloc.h"
#include "gpu/device.h"
#include "memory.h"
#include "ops/order.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define ALIGNMENT ((size_t)256) /* of objects: vectors and caches of every device */
#define OFFSET_BITS 48          /* of what shmemx_offset_of tells: the segment's index stands above */

/* The part for that kind of memory, LOCAL or TEAM; NULL after a sentence. */
static struct segment *part_of_kind(const char *call, int kind, enum segment_kind of)
{
    bool is_local = of == SEGMENT_LOCAL;
    if (kind == SHMEMX_HOST)
        return &ISO->segments[is_local ? SEGMENT_INDEX_LOCAL : SEGMENT_INDEX_TEAM];
    if (kind == SHMEMX_DEVICE || kind == SHMEMX_DEVICE_BULK)
        return iso_device_running(call) != NULL
                   ? &ISO->segments[is_local ? SEGMENT_INDEX_DEVICE_LOCAL : SEGMENT_INDEX_DEVICE_TEAM]
                   : NULL;
    log_error("%s: kind is %d, allowed: SHMEMX_HOST (%d), SHMEMX_DEVICE (%d), SHMEMX_DEVICE_BULK (%d)", call, kind,
              SHMEMX_HOST, SHMEMX_DEVICE, SHMEMX_DEVICE_BULK);
    return NULL;
}

static ISO_COLD void report_full(const char *call, const struct segment *part, size_t size)
{
    struct alloc_stats s = iso_alloc_stats(part->alloc);
    log_error("%s: no room for %zu bytes: %zu of the %zu bytes of %s %s memory are used (objects: %zu), the largest free "
              "range has %zu bytes; raise SHMEM_LOCAL_SIZE",
              call, size, s.used, s.cap, part->on_device ? "device" : "host", iso_segment_kind_name(part->kind),
              s.objects, s.largest_free);
}

/* The object that begins at ptr in the host's or the device's part of that kind; NULL after a sentence. */
static struct segment *object_at(const char *call, const void *ptr, enum segment_kind of, struct alloc_object *object)
{
    struct segment *part = iso_segment_of(ptr, 1);
    if (part == NULL || part->kind != of) {
        log_error("%s: ptr %p is not %s memory of this library", call, ptr, iso_segment_kind_name(of));
        return NULL;
    }
    size_t offset = (size_t)((const char *)ptr - part->base);
    if (iso_alloc_find(part->alloc, offset, object) && object->offset == offset)
        return part;
    log_error("%s: ptr %p is not the start of an object of this PE: it was freed before, or never allocated", call, ptr);
    return NULL;
}

/* ---- of one PE ---- */

static void *local_malloc(const char *call, size_t size, int kind)
{
    iso_check_life(call);
    struct segment *part = part_of_kind(call, kind, SEGMENT_LOCAL);
    size_t offset;
    if (part == NULL || size == 0)
        return NULL;
    int rc = iso_alloc_get(part->alloc, ALIGNMENT, size, &offset);
    if (rc != 0) {
        report_full(call, part, size);
        return NULL;
    }
    if (part->on_device && iso_grow_back(part, offset + size, call) != 0) {
        iso_alloc_free(part->alloc, offset);
        return NULL;
    }
    return part->base + offset;
}

SHMEM_API(shmemx_local_malloc, pshmemx_local_malloc);
void *pshmemx_local_malloc(size_t size, int kind) { return local_malloc("shmemx_local_malloc", size, kind); }

static void local_free(const char *call, void *ptr)
{
    struct alloc_object object;
    iso_check_life(call);
    struct segment *part = ptr != NULL ? object_at(call, ptr, SEGMENT_LOCAL, &object) : NULL;
    if (part == NULL)
        return;
    iso_memory_give_back(part, object.offset, object.size); /* before another thread may have it */
    iso_alloc_free(part->alloc, object.offset);
}

SHMEM_API(shmemx_local_free, pshmemx_local_free);
void pshmemx_local_free(void *ptr) { local_free("shmemx_local_free", ptr); }

/* ---- places ---- */

SHMEM_API(shmemx_offset_of, pshmemx_offset_of);
int pshmemx_offset_of(const void *addr, uint64_t *offset)
{
    iso_check_life(__func__);
    const struct segment *s = iso_segment_of(addr, 1);
    if (offset == NULL || s == NULL || s->kind == SEGMENT_BUFFER) {
        log_error("shmemx_offset_of: %s%p is %s", offset == NULL ? "offset of " : "addr ", addr,
                  offset == NULL ? "a null pointer"
                  : s == NULL    ? "not memory of this library"
                                 : "in a registered buffer, which has no offset; give its address on each PE");
        return 1;
    }
    *offset = (uint64_t)(s - ISO->segments) << OFFSET_BITS | (uint64_t)((const char *)addr - s->base);
    return 0;
}

SHMEM_API(shmemx_at_offset, pshmemx_at_offset);
void *pshmemx_at_offset(int pe, uint64_t offset)
{
    iso_check_life(__func__);
    uint64_t index = offset >> OFFSET_BITS, at = offset & ((UINT64_C(1) << OFFSET_BITS) - 1);
    if (pe < 0 || pe >= ISO->n_pes) {
        log_error("shmemx_at_offset: pe is %d, allowed: 0..%d", pe, ISO->n_pes - 1);
        return NULL;
    }
    const struct segment *s = index < SEGMENT_INDEX_FREE ? &ISO->segments[index] : NULL;
    if (s != NULL && at < __atomic_load_n(&s->limit, __ATOMIC_RELAXED)) /* as in iso_segment_of */
        return s->base + at;
    log_error("shmemx_at_offset: offset %#llx is not of shmemx_offset_of on a PE of this job%s",
              (unsigned long long)offset,
              s != NULL && s->limit == 0 ? ", or this PE has not called shmemx_device_init" : "");
    return NULL;
}

static void describe_object(const struct segment *s, const char *addr, shmemx_address_info_t *info)
{
    bool is_heap = s->kind == SEGMENT_HEAP || s->kind == SEGMENT_DEVICE;
    struct alloc *alloc = s->kind == SEGMENT_HEAP     ? ISO->alloc
                          : s->kind == SEGMENT_DEVICE ? ISO->device->alloc
                                                      : s->alloc;
    size_t front = !is_heap ? 0 : s->on_device ? ISO->device->control_bytes : iso_memory_heap_start();
    size_t at = (size_t)(addr - s->base);
    struct alloc_object object;
    if (alloc == NULL || at < front || !iso_alloc_find(alloc, at - front, &object))
        return;
    info->object = s->base + front + object.offset;
    info->object_bytes = object.size;
}

SHMEM_API(shmemx_address_info, pshmemx_address_info);
int pshmemx_address_info(const void *addr, shmemx_address_info_t *info)
{
    static const int places[] = {SHMEMX_PLACE_HEAP,   SHMEMX_PLACE_DATA,  SHMEMX_PLACE_HEAP, /* enum segment_kind */
                                 SHMEMX_PLACE_BUFFER, SHMEMX_PLACE_LOCAL, SHMEMX_PLACE_TEAM};
    iso_check_life(__func__);
    if (info == NULL) {
        log_error("shmemx_address_info: info is a null pointer");
        return 1;
    }
    memset(info, 0, sizeof *info);
    const struct segment *s = iso_segment_of(addr, 1);
    if (s == NULL)
        return 1;
    info->place = places[s->kind];
    info->kind = s->on_device ? SHMEMX_DEVICE : SHMEMX_HOST;
    info->is_symmetric = s->kind != SEGMENT_LOCAL;
    describe_object(s, (const char *)addr, info);
    return 0;
}
