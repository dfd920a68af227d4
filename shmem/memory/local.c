/* SPDX-License-Identifier: MIT */
/* Objects that not all PEs have: of one PE alone (local), or of a team. They lie in parts of their own behind the heaps,
 * so that the heaps' own objects stay alike on all PEs. A part has the same size on all PEs and is addressable whole: an
 * address in it means a place of any PE, also where this PE has nothing there. Invariant: a local object takes no other
 * PE's program; an object of a team has one offset on all members. Called by users; the parts are made by memory.c and
 * device_heap.c. */
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "../state/alloc.h"
#include "../gpu/device.h"
#include "../team/slot.h"
#include "memory.h"
#include "../transport/order.h"

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
    log_error("%s: no room for %zu bytes: %zu of the %zu bytes of %s %s memory are used (objects: %zu), the largest "
              "free range has %zu bytes; raise SHMEM_LOCAL_SIZE",
              call, size, s.used, s.cap, part->on_device ? "device" : "host", iso_segment_kind_name(part->kind),
              s.objects, s.largest_free);
}

/* The object that begins at ptr in the host's or the device's part of that kind; NULL after a sentence. */
static struct segment *object_at(const char *call, const void *ptr, enum segment_kind of, struct alloc_object *object)
{
    struct segment *part = iso_segment_of(ptr, 1);
    if (part == NULL)
        part = iso_segment_lent(ptr); /* its objects may be freed */
    if (part == NULL || part->kind != of) {
        log_error("%s: ptr %p is not %s memory of this library", iso_call_name(call), ptr, iso_segment_kind_name(of));
        return NULL;
    }
    size_t offset = (size_t)((const char *)ptr - part->base);
    if (iso_alloc_find(part->alloc, offset, object) && object->offset == offset)
        return part;
    log_error("%s: ptr %p is not the start of an object of this PE: it was freed before, or never allocated",
              iso_call_name(call), ptr);
    return NULL;
}

/* ---- of one PE ---- */

static void *local_malloc(const char *call, size_t size, int kind)
{
    if (iso_enter(call) != 0)
        return NULL;
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
    if (iso_enter(call) != 0)
        return;
    struct segment *part = ptr != NULL ? object_at(call, ptr, SEGMENT_LOCAL, &object) : NULL;
    if (part == NULL)
        return;
    iso_memory_give_back(part, object.offset, object.size); /* before another thread may have it */
    iso_alloc_free(part->alloc, object.offset);
}

SHMEM_API(shmemx_local_free, pshmemx_local_free);
void pshmemx_local_free(void *ptr) { local_free("shmemx_local_free", ptr); }

/* ---- for torch ---- */

/* Freed memory has no work left in a stream, so any stream may have it next. */
SHMEM_API(shmemx_torch_malloc, pshmemx_torch_malloc);
void *pshmemx_torch_malloc(ssize_t size, int device, shmemx_stream_t stream)
{
    (void)stream;
    const struct device *d = iso_device_running(__func__);
    if (d == NULL)
        return NULL;
    if (size >= 0 && device == d->info->device)
        return local_malloc("shmemx_torch_malloc", (size_t)size, SHMEMX_DEVICE);
    log_error("shmemx_torch_malloc: size %zd on device %d; the least is 0, and device %d is the one that this PE uses",
              size, device, d->info->device);
    return NULL;
}

/* A stream that is being captured cannot be waited for, and its graph uses the memory as long as it lives. After
 * shmem_finalize the memory has gone: programs end in any order. */
SHMEM_API(shmemx_torch_free, pshmemx_torch_free);
void pshmemx_torch_free(void *ptr, ssize_t size, int device, shmemx_stream_t stream)
{
    struct device *d = ISO->life == LIFE_RUNNING ? ISO->device : NULL;
    (void)size;
    (void)device;
    if (ptr == NULL || d == NULL || !d->running)
        return;
    if (iso_gpu_stream_is_capturing(d->gpu, stream))
        return;
    if (iso_gpu_stream_wait(d->gpu, stream) == 0)
        local_free("shmemx_torch_free", ptr);
    else
        log_error("shmemx_torch_free: the work in stream %p failed, so ptr %p is not freed: %s", stream, ptr,
                  iso_gpu_error(d->gpu));
}

/* ---- of a team ---- */

/* Equal on all members? One more exchange than the smallest value alone. */
static bool is_equal(struct team *team, uint64_t value, const char *call)
{
    uint64_t least = iso_agree_min(team, value, call);
    return least == ~iso_agree_min(team, ~value, call);
}

enum taking { TOOK_NO_MEMORY, TOOK_NOTHING, TOOK };

/* The lowest offset that is free on all members, taken on all. Members ask for what is free at or above the highest
 * answer, until all answer the same. NULL part: this member has none. 0; -ENOSPC, -ENOMEM on all members. */
static int take_local_place(struct team *team, const struct segment *part, size_t size, size_t *offset,
                            const char *call)
{
    for (uint64_t from = 0;;) {
        size_t free_at = SIZE_MAX;
        if (part != NULL && iso_alloc_first(part->alloc, (size_t)from, size, &free_at) != 0)
            free_at = SIZE_MAX;
        uint64_t least = iso_agree_min(team, free_at, call);
        from = ~iso_agree_min(team, ~(uint64_t)free_at, call);
        if (from == SIZE_MAX)
            return -ENOSPC;
        if (least != from)
            continue;
        int rc = iso_alloc_take(part->alloc, free_at, size); /* another thread may have been faster */
        enum taking mine = rc == 0 ? TOOK : rc == -ENOMEM ? TOOK_NO_MEMORY : TOOK_NOTHING;
        uint64_t worst = iso_agree_min(team, (uint64_t)mine, call);
        *offset = free_at;
        if (worst == TOOK)
            return 0;
        if (mine == TOOK)
            iso_alloc_free(part->alloc, free_at);
        if (worst == TOOK_NO_MEMORY)
            return -ENOMEM;
    }
}

/* NULL after a sentence. */
static struct team *team_of_buffer(shmem_team_t handle, const char *call)
{
    if (iso_enter(call) != 0)
        return NULL;
    struct team *team = iso_team_or_null(handle);
    if (team == NULL)
        log_error("%s: team %p is not a team of this PE, or was destroyed", call, (void *)handle);
    return team != NULL && iso_slot_rc(&team->slot, call) == 0 ? team : NULL;
}

SHMEM_API(shmemx_team_malloc, pshmemx_team_malloc);
void *pshmemx_team_malloc(shmem_team_t team_handle, size_t size, int kind)
{
    static const char call[] = "shmemx_team_malloc";
    size_t offset;
    struct team *team = team_of_buffer(team_handle, call);
    if (team == NULL)
        return NULL;
    if (!is_equal(team, (uint64_t)size ^ (uint64_t)(unsigned)kind << 60, call)) {
        if (iso_slot_rc(&team->slot, call) == 0) /* else the members have not told */
            log_error("%s: size %zu and kind %d differ between members; they must be equal", call, size, kind);
        return NULL;
    }
    if (size == 0)
        return NULL;
    struct segment *part = part_of_kind(call, kind, SEGMENT_TEAM);
    int rc = take_local_place(team, part, size, &offset, call);
    if (rc != 0) {
        if (part != NULL && iso_slot_rc(&team->slot, call) == 0)
            report_full(call, part, size);
        return NULL;
    }
    (void)iso_alloc_own(part->alloc, offset, team_handle);
    rc = part->on_device ? iso_grow_back(part, offset + size, call) : 0;
    if (iso_agree_min(team, rc == 0, call) != 0) /* on all, so the members may use it on return */
        return part->base + offset;
    iso_alloc_free(part->alloc, offset);
    return NULL;
}

SHMEM_API(shmemx_team_free, pshmemx_team_free);
int pshmemx_team_free(shmem_team_t team_handle, void *ptr)
{
    static const char call[] = "shmemx_team_free";
    struct alloc_object object = {0};
    struct team *team = team_of_buffer(team_handle, call);
    if (team == NULL)
        return 1;
    struct segment *part = ptr != NULL ? object_at(call, ptr, SEGMENT_TEAM, &object) : NULL;
    iso_quiet_all(call);
    uint64_t place = part != NULL ? (uint64_t)(part - ISO->segments) << OFFSET_BITS | object.offset : 0;
    if (!is_equal(team, place, call)) { /* all members are here: no put of theirs is under way */
        if (iso_slot_rc(&team->slot, call) == 0)
            log_error("shmemx_team_free: ptr %p is not the same object on all members; nothing is freed", ptr);
        return 1;
    }
    if (part == NULL)
        return ptr != NULL;
    iso_memory_give_back(part, object.offset, object.size);
    return iso_alloc_free(part->alloc, object.offset) != 0;
}

/* ---- places ---- */

SHMEM_API(shmemx_offset_of, pshmemx_offset_of);
int pshmemx_offset_of(const void *addr, uint64_t *offset)
{
    if (iso_enter(__func__) != 0)
        return 1;
    const struct segment *s = iso_segment_of(addr, 1);
    if (s == NULL)
        s = iso_segment_lent(addr);
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
    if (iso_enter(__func__) != 0)
        return NULL;
    uint64_t index = offset >> OFFSET_BITS, at = offset & ((UINT64_C(1) << OFFSET_BITS) - 1);
    if (pe < 0 || pe >= ISO->n_pes) {
        log_error("shmemx_at_offset: pe is %d, allowed: 0..%d", pe, ISO->n_pes - 1);
        return NULL;
    }
    const struct segment *s = index < SEGMENT_INDEX_FREE ? &ISO->segments[index] : NULL;
    if (s != NULL && iso_segment_of(s->base + at, 1) == s)
        return s->base + at;
    log_error("shmemx_at_offset: offset %#llx is not of shmemx_offset_of on a PE of this job%s",
              (unsigned long long)offset,
              s != NULL && s->limit == 0 ? ", or this PE has not called shmemx_device_init or shmemx_resume" : "");
    return NULL;
}

SHMEM_API(shmemx_device_ptr, pshmemx_device_ptr);
void *pshmemx_device_ptr(const void *addr, int pe)
{
    if (iso_enter(__func__) != 0)
        return NULL;
    if (pe < 0 || pe >= ISO->n_pes) {
        log_error("shmemx_device_ptr: pe is %d, allowed: 0..%d", pe, ISO->n_pes - 1);
        return NULL;
    }
    const struct segment *s = iso_segment_of(addr, 1);
    char *base = s != NULL && s->on_device && s->peers != NULL ? iso_handle_near(s, pe) : NULL;
    return base != NULL ? base + ((const char *)addr - s->base) : NULL;
}

SHMEM_API(shmemx_address_info, pshmemx_address_info);
int pshmemx_address_info(const void *addr, shmemx_address_info_t *info)
{
    static const int places[] = {SHMEMX_PLACE_HEAP,   SHMEMX_PLACE_DATA,  SHMEMX_PLACE_HEAP, /* enum segment_kind */
                                 SHMEMX_PLACE_BUFFER, SHMEMX_PLACE_LOCAL, SHMEMX_PLACE_TEAM};
    if (iso_enter(__func__) != 0)
        return 1;
    if (info == NULL) {
        log_error("shmemx_address_info: info is a null pointer");
        return 1;
    }
    memset(info, 0, sizeof *info);
    const struct segment *s = iso_segment_of(addr, 1);
    if (s == NULL)
        s = iso_segment_lent(addr);
    if (s == NULL)
        return 1;
    info->place = places[s->kind];
    info->kind = s->on_device ? SHMEMX_DEVICE : SHMEMX_HOST;
    info->is_symmetric = s->kind != SEGMENT_LOCAL;

    size_t front, at = (size_t)((const char *)addr - s->base);
    struct alloc *alloc = iso_segment_objects(s, &front);
    struct alloc_object object;
    if (alloc != NULL && at >= front && iso_alloc_find(alloc, at - front, &object)) {
        info->object = s->base + front + object.offset;
        info->object_bytes = object.size;
    }
    return 0;
}
