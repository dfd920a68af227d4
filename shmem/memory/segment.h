/* SPDX-License-Identifier: MIT */
/* Segments: symmetric memory, and where the copies of all PEs are. One table, into which every operation looks. */
#ifndef ISO_SEGMENT_H
#define ISO_SEGMENT_H

#include "../state/pe_state.h"

/* LOCAL: what this PE has allocated alone; the same offset is another object, or none, on other PEs. TEAM: objects of
 * teams, at the same offset on the members. Both exist for the host and for the device. */
enum segment_kind { SEGMENT_HEAP, SEGMENT_DATA, SEGMENT_DEVICE, SEGMENT_BUFFER, SEGMENT_LOCAL, SEGMENT_TEAM };

/* Where one PE's copy of a segment is, seen from here. The table that every operation looks into. */
struct segment_peer {
    char *cpu_ptr; /* loads and stores by this CPU; NULL: device memory, staged edge, another node, or never used so
                      far (heap and data; iso_segment_reach maps them). Atomic */
    char *gpu_ptr; /* loads and stores by this PE's GPU; NULL: not reachable by it */
    char *base;    /* its address in the owner's own address space */
    uint64_t key;  /* what the transport of that PE needs to address it */
};

/* invariant: limit <= len; peers[me].base == base; [base, base + len) of two segments never overlap. */
struct segment {
    _Alignas(ISO_LINE) char *base;
    size_t limit; /* bytes that objects may occupy now: [base, base + limit) is addressable */
    struct segment_peer *peers;
    size_t len;
    enum segment_kind kind;
    int fd;             /* memfd behind it, -1: none */
    bool staged;        /* partial page of a registered buffer: no pointers to it, puts and gets only */
    bool on_device;     /* device memory: of kind DEVICE, or a registered buffer of the GPU's own allocator */
    struct segment *within; /* LOCAL, TEAM: the heap behind whose end it is mapped, in one piece with it; else NULL */
    struct alloc *alloc;    /* LOCAL, TEAM: this PE's objects in it; else NULL */
    size_t first_bytes; /* buffers: the length given at registration, on the piece that begins it; else 0 */
    int number;         /* in the kernels' table; of a buffer's first piece: the same on all PEs that have the buffer */
    void *foreign;      /* device_buffer.c: what it has imported for this segment */
};

/* segment.c: heap [0], data [1], device heap [2] and the parts behind the heaps [3 .. 6] always exist (limit 0 where
 * unusable), then buffers. Invariant: parts of a heap have the same size on all PEs, limit == len. While objects are
 * lent back, limits end before them, and only iso_segment_search finds those that are there. */
#define ISO_SEGMENTS_MAX 512
enum {
    SEGMENT_INDEX_HEAP = 0,
    SEGMENT_INDEX_DATA = 1,
    SEGMENT_INDEX_DEVICE = 2,
    SEGMENT_INDEX_LOCAL = 3,
    SEGMENT_INDEX_TEAM = 4,
    SEGMENT_INDEX_DEVICE_LOCAL = 5,
    SEGMENT_INDEX_DEVICE_TEAM = 6,
    SEGMENT_INDEX_FREE = 7
};

/* ---- look-ups: the hot path ---- */

struct segment *iso_segment_search(const void *addr, size_t len); /* segments after the first two; NULL: none */
struct segment *iso_segment_lent(const void *addr); /* memory that shmemx_suspend has lent back; NULL: no such */
ISO_INLINE bool iso_segment_lends_objects(void) /* of the host */
{
    return __atomic_load_n(&ISO->lent, __ATOMIC_RELAXED) == LENT_OBJECTS;
}
#define ISO_LENT_BACK "is memory that is lent back; call shmemx_resume first, on all PEs"
/* The objects of a segment, which begin `front` bytes behind its base. NULL: it has none that the library allocates. */
struct alloc *iso_segment_objects(const struct segment *segment, size_t *front);

/* The segment that holds [addr, addr + len) of this PE, or NULL. Heap or data segment is chosen without a branch, so
 * that global variables cost what heap objects cost. */
ISO_INLINE struct segment *iso_segment_of(const void *addr, size_t len)
{
    struct segment *s = ISO->segments;
    const struct segment *data = &s[SEGMENT_INDEX_DATA];
    s += (size_t)((const char *)addr - data->base) < data->limit;
    /* Relaxed: another thread of this PE may be in shmem_malloc; it passes its object on by its own means. */
    size_t offset = (size_t)((const char *)addr - s->base), limit = __atomic_load_n(&s->limit, __ATOMIC_RELAXED);
    if (ISO_LIKELY(offset < limit && len <= limit - offset))
        return s;
    return iso_segment_search(addr, len);
}

/* Where [addr, addr + len) of world PE `pe` lies: cpu != NULL: use it directly; else go by `iso_far_*`. */
struct place {
    char *cpu;
    struct segment *segment; /* NULL: the range spans pieces of one registered buffer */
    char *addr;              /* the symmetric address: of this PE's own copy */
    int pe;
};

/* From the beginning of its segment, which is not NULL; the same on all PEs. */
ISO_INLINE size_t iso_place_offset(struct place place) { return (size_t)(place.addr - place.segment->base); }

/* `bytes` behind it. The caller has checked that they are in the range. */
ISO_INLINE struct place iso_place_behind(struct place place, size_t bytes)
{
    place.addr += bytes;
    if (place.cpu != NULL)
        place.cpu += bytes;
    return place;
}

/* Where this CPU loads and stores the copy of world PE `pe`; maps it if this is the first use. NULL: not by pointer. */
ISO_COLD char *iso_segment_reach(const struct segment *segment, int pe);
/* The same for reports: NULL also where it cannot be mapped. */
ISO_COLD char *iso_segment_look(const struct segment *segment, int pe);

ISO_COLD struct place iso_place_slow(const void *addr, size_t len, int pe, const char *call, const char *arg);

ISO_INLINE struct place iso_place(const void *addr, size_t len, int pe, const char *call, const char *arg)
{
    struct state *self = ISO;
    struct segment *s = ISO_UNLIKELY(self->life != LIFE_RUNNING) ? NULL : iso_segment_of(addr, len);
    if (ISO_UNLIKELY(s == NULL) || ISO_UNLIKELY(self->debug))
        return iso_place_slow(addr, len, pe, call, arg);
    struct place place = {NULL, s, (char *)(uintptr_t)addr, pe};
    char *cpu = __atomic_load_n(&s->peers[pe].cpu_ptr, __ATOMIC_RELAXED);
    if (ISO_LIKELY(cpu != NULL) || (cpu = iso_segment_reach(s, pe)) != NULL)
        place.cpu = cpu + iso_place_offset(place);
    return place;
}

/* A word there is for the device to read, not for this CPU. */
ISO_INLINE bool iso_place_is_device(const struct place *place)
{
    return ISO_UNLIKELY(place->cpu == NULL) && place->segment != NULL && place->segment->on_device;
}

/* A place, as all PEs that have the segment understand it (device/api/state.h). addr is of this PE's segments. */
uint64_t iso_segment_place(const void *addr);
/* The segment in which that place is, or begins; NULL: none that this PE has. */
const struct segment *iso_segment_of_place(uint64_t place);
struct team;
int iso_segment_free_number(int from); /* the lowest one at or above `from` that is free here; ISO_SEGMENTS_MAX: none */

/* ---- start and end; peers ---- */

/* The first object of the heap lies behind the control area, at this offset of the heap segment. */
ISO_INLINE size_t iso_segment_heap_start(void)
{
    const size_t huge = (size_t)2 << 20;
    return (ISO->control_bytes + huge - 1) & ~(huge - 1);
}

/* Heap with its two parts of part_bytes each, and data segment, of this PE; peers' pointers come by pe.c. */
int iso_segment_start(size_t heap_bytes, size_t part_bytes);
/* Once it is known where `heap` is for all PEs: its part at [at, at + len) from the heap's base. 0 or -errno. */
int iso_segment_add_part(int index, struct segment *heap, size_t at, size_t len);
void iso_segment_clear_part(int index);
void iso_segment_stop(void);
void iso_segment_learn(void); /* where heap and data of the local PEs are, from the file of the node */
void iso_segment_remove(struct segment *segment); /* a buffer, out of the table; what it maps is closed */
int iso_segment_map(const struct segment *segment, int pe, int fd);     /* takes fd. 0, or -errno after a sentence */
const char *iso_segment_kind_name(enum segment_kind kind);
/* The build id of the program (up to 20 bytes, zero padded) and the size of its data segment: equal on all PEs. */
void iso_segment_identity(unsigned char build_id[20], size_t *data_bytes);

/* ---- buffers of the user as segments (buffer.c) ---- */

/* One that is being registered. */
struct buffer {
    struct team *team; /* whose members have it */
    const char *call;
    char *addr;
    size_t len;
    int number; /* of its segment, or of the first one; free on all members */
};

void iso_buffer_stop(void);                      /* gives back what was never unregistered */

#endif
