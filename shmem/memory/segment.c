/* SPDX-License-Identifier: MIT */
/* The segment table: the host heap (one sparse memfd as large as the cap), the program's data segment, the device heap
 * (device_heap.c), the parts behind both heaps (local.c), registered buffers. Addresses never move. The heap and the
 * data of a peer are mapped once, by the first operation on them; all else of the table is written by collective calls
 * only. Every operation reads it without a lock. Called by init.c, pe.c, buffer.c and, through iso_place, by every
 * operation. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/memory_file.h"
#include "../../device/api/state.h"
#include "../state/alloc.h"
#include "../state/data_segment.h"
#include "../gpu/device.h"
#include "../node/node_file.h"
#include "../node/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const kind_names[] = {"heap", "data", "device", "buffer", "local", "team"};

const char *iso_segment_kind_name(enum segment_kind kind) { return kind_names[kind]; }

void iso_segment_identity(unsigned char build_id[20], size_t *data_bytes)
{
    const struct data_segment *data = iso_data_segment();
    memcpy(build_id, data->build_id, 20);
    *data_bytes = data->refusal == NULL ? data->len : 0;
}

/* Address space of `bytes`, with a multiple of `align` at `start` in it. NULL: there is not so much. */
static char *reserve_aligned(size_t bytes, size_t start, size_t align)
{
    char *at = (char *)mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == (char *)MAP_FAILED)
        return NULL;
    size_t lead = (0 - ((uintptr_t)at + start)) & (align - 1);
    if (lead > 0)
        munmap(at, lead);
    munmap(at + lead + bytes, align - lead);
    return at + lead;
}

/* Bytes that are mapped from the base on: the parts behind the heap too. */
static size_t span_of(const struct segment *s)
{
    return s->kind == SEGMENT_HEAP ? s->len + 2 * ISO->part_bytes : s->len;
}

static int map_heap(struct segment *heap, size_t heap_bytes)
{
    size_t bytes = heap_bytes + 2 * ISO->part_bytes;
    char why[256];
    heap->fd = iso_memory_file_make("isomer-heap", MFD_ALLOW_SEALING, bytes, why, sizeof why);
    if (heap->fd < 0) {
        log_error("shmem_init: a heap of %zu bytes (SHMEM_SYMMETRIC_SIZE) cannot be made: %s", heap_bytes, why);
        return heap->fd;
    }
    /* A peer that shrank the file would turn loads of this PE into SIGBUS. */
    fcntl(heap->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);

    /* The first object lies at a multiple of a power of two that is no less than the heap, so that what shmem_align can
     * promise does not depend on luck. Where the address space is limited, the power is smaller, but at least 2 MiB for
     * huge pages. */
    const size_t least = (size_t)2 << 20;
    size_t start = iso_segment_heap_start(), align = (size_t)1 << 30;
#ifndef __SANITIZE_THREAD__ /* its part of the address space is small, and going beyond ends the process */
    while (align < bytes)
        align *= 2;
#endif
    char *at = reserve_aligned(bytes, start, align);
    while (at == NULL && align > least)
        at = reserve_aligned(bytes, start, align /= 2);
    if (at == NULL ||
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, heap->fd, 0) != (void *)at) {
        log_error("shmem_init: mapping a heap of %zu bytes failed: %m; lower SHMEM_SYMMETRIC_SIZE", heap_bytes);
        return -errno;
    }

    if (ISO->env->huge_pages)
        madvise(at, bytes, MADV_HUGEPAGE); /* isomer-info tells whether the kernel honours it */
    heap->base = at;
    heap->len = heap_bytes;
    return 0;
}

/* In the kernels' table. */
static int number_of(int index)
{
    static const int numbers[SEGMENT_INDEX_FREE] = {
        [SEGMENT_INDEX_DEVICE] = ISOD_SEGMENT_HEAP,
        [SEGMENT_INDEX_HEAP] = ISOD_SEGMENT_HOST_HEAP,
        [SEGMENT_INDEX_DATA] = ISOD_SEGMENT_DATA,
        [SEGMENT_INDEX_LOCAL] = ISOD_SEGMENT_PARTS,
        [SEGMENT_INDEX_TEAM] = ISOD_SEGMENT_PARTS + 1,
        [SEGMENT_INDEX_DEVICE_LOCAL] = ISOD_SEGMENT_PARTS + 2,
        [SEGMENT_INDEX_DEVICE_TEAM] = ISOD_SEGMENT_PARTS + 3,
    };
    return numbers[index];
}

/* The address for its owner: also this CPU's pointer where the PE is in this process. */
static void set_peer(struct segment *segment, int pe, char *base)
{
    struct segment_peer *peer = &segment->peers[pe];
    const struct peer *owner = &ISO->peers[pe];
    bool in_place = pe == ISO->my_pe || (owner->threaded && owner->by_pointer);
    peer->base = base;
    peer->cpu_ptr = in_place ? base : NULL;
}

int iso_segment_start(size_t heap_bytes, size_t part_bytes)
{
    struct state *self = ISO;
    self->part_bytes = part_bytes;
    size_t table_bytes = ISO_SEGMENTS_MAX * sizeof *self->segments;
    self->segments = (struct segment *)aligned_alloc(ISO_LINE, table_bytes);
    if (self->segments == NULL)
        return -ENOMEM;
    memset(self->segments, 0, table_bytes);
    self->n_segments = SEGMENT_INDEX_FREE;
    for (int i = 0; i < SEGMENT_INDEX_FREE; i++) {
        struct segment *s = &self->segments[i];
        s->fd = -1;
        s->number = number_of(i);
        s->peers = (struct segment_peer *)calloc((size_t)self->n_pes, sizeof *s->peers);
        if (s->peers == NULL)
            return -ENOMEM;
    }
    int rc = map_heap(&self->segments[SEGMENT_INDEX_HEAP], heap_bytes);
    if (rc != 0)
        return rc;
    self->segments[SEGMENT_INDEX_HEAP].limit = iso_segment_heap_start(); /* other nodes may come before we allocate */

    const struct data_segment *data = iso_data_segment();
    struct segment *globals = &self->segments[SEGMENT_INDEX_DATA];
    self->data_refusal = data->refusal;
    globals->kind = SEGMENT_DATA;
    if (data->refusal == NULL) {
        globals->base = data->base;
        globals->len = globals->limit = data->len;
        globals->fd = data->fd;
    }

    self->segments[SEGMENT_INDEX_DEVICE].kind = SEGMENT_DEVICE; /* device_heap.c fills it */
    self->segments[SEGMENT_INDEX_DEVICE].on_device = true;
    for (int i = 0; i <= SEGMENT_INDEX_DEVICE; i++)
        set_peer(&self->segments[i], self->my_pe, self->segments[i].base);
    self->peers[self->my_pe].control = self->segments[SEGMENT_INDEX_HEAP].base;
    self->control = (struct control *)(void *)self->segments[SEGMENT_INDEX_HEAP].base;
    return 0;
}

int iso_segment_add_part(int index, struct segment *heap, size_t at, size_t len)
{
    struct segment *part = &ISO->segments[index];
    part->alloc = iso_alloc_create(len, 0);
    if (part->alloc == NULL)
        return -errno;
    part->kind = index == SEGMENT_INDEX_LOCAL || index == SEGMENT_INDEX_DEVICE_LOCAL ? SEGMENT_LOCAL : SEGMENT_TEAM;
    part->within = heap;
    part->on_device = heap->on_device;
    part->base = heap->base + at;
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        const struct segment_peer *from = &heap->peers[pe];
        part->peers[pe] = (struct segment_peer){from->cpu_ptr != NULL ? from->cpu_ptr + at : NULL,
                                                from->gpu_ptr != NULL ? from->gpu_ptr + at : NULL,
                                                from->base != NULL ? from->base + at : NULL, from->key};
    }
    part->len = len;
    __atomic_store_n(&part->limit, len, __ATOMIC_RELEASE); /* pairs with look-ups of threads that serve other nodes */
    return 0;
}

void iso_segment_clear_part(int index)
{
    struct segment *part = &ISO->segments[index];
    struct segment_peer *peers = part->peers;
    iso_alloc_destroy(part->alloc);
    if (peers != NULL)
        memset(peers, 0, (size_t)ISO->n_pes * sizeof *peers);
    memset(part, 0, sizeof *part);
    part->peers = peers;
    part->fd = -1;
    part->number = number_of(index);
}

void iso_segment_learn(void)
{
    struct state *self = ISO;
    for (int i = 0; i < self->n_local; i++) {
        const struct node_member *member = &self->node->members[i];
        int pe = self->local_pes[i];
        if (pe == self->my_pe)
            continue;
        set_peer(&self->segments[SEGMENT_INDEX_HEAP], pe, (char *)(uintptr_t)member->heap_base);
        set_peer(&self->segments[SEGMENT_INDEX_DATA], pe, (char *)(uintptr_t)member->data_base);
    }
}

/* The length was agreed upon at start. Release: pairs with iso_segment_reach, which other threads may be in. */
int iso_segment_map(const struct segment *segment, int pe, int fd)
{
    void *at = mmap(NULL, span_of(segment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    int rc = at == MAP_FAILED ? -errno : 0;
    if (rc != 0)
        log_error(
            "mapping the %s segment of pe %d (%zu bytes) failed: %m; lower SHMEM_SYMMETRIC_SIZE or raise ulimit -v",
            kind_names[segment->kind], pe, span_of(segment));
    else
        __atomic_store_n(&segment->peers[pe].cpu_ptr, (char *)at, __ATOMIC_RELEASE);
    close(fd);
    return rc;
}

/* 0, or -errno. */
static int map_first(const struct segment *segment, int pe)
{
    struct state *self = ISO;
    int index = (int)(segment - self->segments), rc = 0;
    pthread_mutex_lock(&self->maps_lock);
    if (__atomic_load_n(&segment->peers[pe].cpu_ptr, __ATOMIC_ACQUIRE) == NULL) {
        int fd = iso_node_open(self->peers[pe].place, index);
        rc = fd >= 0 ? iso_segment_map(segment, pe, fd) : fd;
    }
    pthread_mutex_unlock(&self->maps_lock);
    return rc;
}

static bool may_be_mapped(const struct segment *segment, int pe)
{
    const struct peer *peer = &ISO->peers[pe];
    return segment->kind <= SEGMENT_DATA && segment->limit != 0 && peer->local && !peer->threaded && peer->by_pointer;
}

/* A part is where its heap is, which is at `heap`; NULL: not mapped. Relaxed: all threads store the same. */
static char *reach_part(const struct segment *part, int pe, char *heap)
{
    char *at = heap != NULL ? heap + (part->base - part->within->base) : NULL;
    if (at != NULL)
        __atomic_store_n(&part->peers[pe].cpu_ptr, at, __ATOMIC_RELAXED);
    return at;
}

char *iso_segment_look(const struct segment *segment, int pe)
{
    char **cpu_ptr = &segment->peers[pe].cpu_ptr;
    if (segment->within != NULL)
        return reach_part(segment, pe, iso_segment_look(segment->within, pe));
    if (__atomic_load_n(cpu_ptr, __ATOMIC_ACQUIRE) == NULL && may_be_mapped(segment, pe))
        (void)map_first(segment, pe);
    return __atomic_load_n(cpu_ptr, __ATOMIC_ACQUIRE);
}

/* A PE that is just ending has closed its files before its end can be seen. */
char *iso_segment_reach(const struct segment *segment, int pe)
{
    char **cpu_ptr = &segment->peers[pe].cpu_ptr, *cpu = __atomic_load_n(cpu_ptr, __ATOMIC_ACQUIRE);
    if (cpu != NULL)
        return cpu;
    if (segment->within != NULL)
        return reach_part(segment, pe, iso_segment_reach(segment->within, pe));
    if (!may_be_mapped(segment, pe))
        return NULL;
    int rc = map_first(segment, pe);
    for (int tries = 0; tries < 20 && !iso_job_is_broken() && (rc == -ENOENT || rc == -ESRCH); tries++) {
        iso_node_watch_now(NULL); /* has it died? */
        usleep(10000);
        rc = map_first(segment, pe);
    }
    if (rc != 0 && iso_job_is_broken()) /* it has died before: nothing reaches it */
        return NULL;
    if (rc != 0)
        iso_fatal("first access to a PE", "the %s segment of pe %d (pid %d) cannot be mapped: %s",
                  kind_names[segment->kind], pe, ISO->peers[pe].pid, strerror(-rc));
    return __atomic_load_n(cpu_ptr, __ATOMIC_ACQUIRE);
}

void iso_segment_remove(struct segment *segment)
{
    free(segment->peers);
    *segment = ISO->segments[--ISO->n_segments];
}

void iso_segment_stop(void)
{
    struct state *self = ISO;
    if (self->segments == NULL)
        return;
    struct segment *heap = &self->segments[SEGMENT_INDEX_HEAP];
    for (int i = SEGMENT_INDEX_LOCAL; i < SEGMENT_INDEX_FREE; i++)
        iso_segment_clear_part(i);
    for (int i = 0; i < SEGMENT_INDEX_FREE; i++) {
        struct segment *segment = &self->segments[i];
        for (int pe = 0; segment->peers != NULL && pe < ISO->n_pes; pe++) {
            struct segment_peer *peer = &segment->peers[pe];
            bool mapped = peer->cpu_ptr != NULL && pe != ISO->my_pe && !ISO->peers[pe].threaded;
            if (mapped && segment->kind <= SEGMENT_DATA)
                munmap(peer->cpu_ptr, span_of(segment));
        }
        free(segment->peers);
        segment->peers = NULL;
    }
    if (heap->base != NULL)
        munmap(heap->base, span_of(heap));
    if (heap->fd >= 0)
        close(heap->fd);
    free(self->segments);
    self->segments = NULL;
    self->n_segments = 0;
    self->control = NULL;
}

/* ---- places ---- */

int iso_segment_free_number(int from)
{
    struct state *self = ISO;
    for (int i = SEGMENT_INDEX_FREE; i < self->n_segments; i++)
        if (self->segments[i].number == from) {
            from++;
            i = SEGMENT_INDEX_FREE - 1;
        }
    return from;
}

uint64_t iso_segment_place(const void *addr)
{
    const struct segment *s = iso_segment_of(addr, 1);
    if (s == NULL)
        return 0;
    /* The piece that begins a buffer: offsets in a buffer are the same on all PEs, its pieces need not be. */
    for (int i = SEGMENT_INDEX_FREE; s->kind == SEGMENT_BUFFER && i < ISO->n_segments; i++) {
        const struct segment *first = &ISO->segments[i];
        if ((size_t)((const char *)addr - first->base) < first->first_bytes) {
            s = first;
            break;
        }
    }
    return (uint64_t)(unsigned)s->number << ISOD_PLACE_BITS | (uint64_t)((const char *)addr - s->base);
}

const struct segment *iso_segment_of_place(uint64_t place)
{
    for (int i = 0; i < ISO->n_segments; i++)
        if ((uint64_t)(unsigned)ISO->segments[i].number == place >> ISOD_PLACE_BITS)
            return &ISO->segments[i];
    return NULL;
}

struct alloc *iso_segment_objects(const struct segment *s, size_t *front)
{
    const struct device *d = ISO->device;
    *front = s->kind == SEGMENT_HEAP ? iso_segment_heap_start() : 0;
    if (s->kind == SEGMENT_HEAP)
        return ISO->alloc;
    if (s->kind != SEGMENT_DEVICE || d == NULL)
        return s->alloc;
    *front = d->control_bytes;
    return d->alloc;
}

/* The host's object at addr, in the heap or a part of it; NULL: there is none. */
static struct segment *host_object(const void *addr, struct alloc_object *object)
{
    static const int indices[] = {SEGMENT_INDEX_HEAP, SEGMENT_INDEX_LOCAL, SEGMENT_INDEX_TEAM};
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        struct segment *s = &ISO->segments[indices[i]];
        size_t front, at = (size_t)((const char *)addr - s->base);
        struct alloc *alloc = iso_segment_objects(s, &front);
        if (at < s->len)
            return at >= front && iso_alloc_find(alloc, at - front, object) ? s : NULL;
    }
    return NULL;
}

struct segment *iso_segment_search(const void *addr, size_t len)
{
    struct state *self = ISO;
    struct alloc_object object;
    for (int i = SEGMENT_INDEX_DEVICE; i < self->n_segments; i++) {
        struct segment *s = &self->segments[i];
        size_t offset = (size_t)((const char *)addr - s->base);
        if (offset < s->limit && len <= s->limit - offset)
            return s;
    }
    struct segment *s = ISO_UNLIKELY(iso_segment_lends_objects()) ? host_object(addr, &object) : NULL;
    if (s == NULL || object.lent)
        return NULL;
    size_t front, at = (size_t)((const char *)addr - s->base);
    (void)iso_segment_objects(s, &front);
    size_t end = front + object.offset + object.size; /* what fills the object up to its unit lies behind */
    return at <= end && len <= end - at ? s : NULL;
}

/* Behind its limit, so no other look-up finds it, but of local objects of the host. The device heap is lent with its
 * parts. */
struct segment *iso_segment_lent(const void *addr)
{
    struct state *self = ISO;
    struct alloc_object object;
    struct segment *of_host = ISO_UNLIKELY(iso_segment_lends_objects()) ? host_object(addr, &object) : NULL;
    if (of_host != NULL)
        return object.lent ? of_host : NULL;
    if (ISO_LIKELY(self->device == NULL || self->segments[SEGMENT_INDEX_DEVICE].limit != 0))
        return NULL;
    for (int i = SEGMENT_INDEX_DEVICE; i < SEGMENT_INDEX_FREE; i++) {
        struct segment *s = &self->segments[i];
        if (s->on_device && s->limit == 0 && (size_t)((const char *)addr - s->base) < s->len)
            return s;
    }
    return NULL;
}

/* The pieces of a registered buffer are neighbours in the address space: a range may span them. */
static bool spans_buffer(const char *addr, size_t len)
{
    while (len > 0) {
        struct segment *s = iso_segment_search(addr, 1);
        if (s == NULL)
            return false;
        size_t here = s->limit - (size_t)(addr - s->base);
        if (here >= len)
            return true;
        addr += here;
        len -= here;
    }
    return true;
}

/* SHMEM_DEBUG: the range must lie in one live object of the heap. The library's own part of the device heap is allowed:
 * the proxy puts there for kernels. */
static ISO_COLD void check_object(const char *call, const char *arg, const char *addr, size_t len)
{
    const struct state *self = ISO;
    const struct segment *device = &self->segments[SEGMENT_INDEX_DEVICE];
    bool on_device = (size_t)(addr - device->base) < device->len;
    const struct segment *heap = on_device ? device : &self->segments[SEGMENT_INDEX_HEAP];
    size_t start;
    struct alloc *alloc = iso_segment_objects(heap, &start);
    size_t in_heap = (size_t)(addr - heap->base), offset = in_heap - start;
    struct alloc_object object;
    if (in_heap >= heap->len || len == 0 || (in_heap < start && on_device))
        return;
    if (in_heap < start)
        iso_fatal(call, "%s %p is in the library's own part of the heap", arg, (const void *)addr);
    if (!iso_alloc_find(alloc, offset, &object))
        iso_fatal(call, "%s %p is in heap memory that is not allocated (freed before?)", arg, (const void *)addr);
    if (offset - object.offset > object.size || len > object.size - (offset - object.offset))
        iso_fatal(call, "%s %p with %zu bytes goes past the end of its object, %zu bytes at %p", arg,
                  (const void *)addr, len, object.size, (void *)(heap->base + start + object.offset));
}

struct place iso_place_slow(const void *addr, size_t len, int pe, const char *call, const char *arg)
{
    iso_check_life(call);
    struct place place = {NULL, iso_segment_of(addr, len), (char *)(uintptr_t)addr, pe};
    if (place.segment == NULL) {
        if (addr == NULL || !spans_buffer((const char *)addr, len))
            iso_fatal_address(call, arg, addr, len);
        return place;
    }
    if (ISO->debug)
        check_object(call, arg, (const char *)addr, len);
    char *cpu = iso_segment_reach(place.segment, pe);
    place.cpu = cpu != NULL ? cpu + iso_place_offset(place) : NULL;
    return place;
}

/* Says which segment the address missed, and by what. */
void iso_fatal_address(const char *call, const char *arg, const void *addr, size_t len)
{
    const struct state *self = ISO;
    iso_check_life(call);
    if (addr == NULL)
        iso_fatal(call, "%s is a null pointer", arg);
    if (iso_segment_lent(addr) != NULL)
        iso_fatal(call, "%s %p " ISO_LENT_BACK, arg, addr);
    if (len == SIZE_MAX) /* a size that does not fit, see iso_target_bytes */
        iso_fatal(call, "nelems is too large: the elements at %s %p have more bytes than an address space", arg, addr);
    for (int i = 0; i < self->n_segments; i++) {
        const struct segment *s = &self->segments[i];
        if ((const char *)addr < s->base || (const char *)addr >= s->base + s->limit)
            continue;
        iso_fatal(call, "%s %p with %zu bytes ends beyond the %s segment %p..%p", arg, addr, len,
                  iso_segment_kind_name(s->kind), (void *)s->base, (void *)(s->base + s->limit - 1));
    }
    const struct segment *heap = &self->segments[SEGMENT_INDEX_HEAP], *device = &self->segments[SEGMENT_INDEX_DEVICE];
    if ((size_t)((const char *)addr - device->base) < device->len)
        iso_fatal(call, "%s %p lies in the device heap beyond its objects, which end at %p", arg, addr,
                  (void *)(device->base + device->limit));
    if ((const char *)addr >= heap->base && (const char *)addr < heap->base + heap->len)
        iso_fatal(call, "%s %p lies in the symmetric heap beyond its objects, which end at %p", arg, addr,
                  (void *)(heap->base + heap->limit));
    iso_fatal(
        call,
        "%s %p (%zu bytes) is not symmetric: not in the heap %p..%p, %s%s, no registered buffer and no device memory",
        arg, addr, len, (void *)heap->base, (void *)(heap->base + heap->limit),
        self->data_refusal == NULL ? "no global variable of the program or a const one"
                                   : "and global variables are not symmetric here: ",
        self->data_refusal == NULL ? "" : self->data_refusal);
}
