/* SPDX-License-Identifier: MIT */
/* The host's part of the device: which one this PE uses, its heap and how peers map it, the agents by which the host
 * copies device memory and acts on its words, the image of the tables that kernels read, handles, and the proxy.
 * Everything hangs off ISO->device. Includes: device/{gpu,state,ring}.h. Used by shmem/, coll/. */
#ifndef ISO_DEVICE_H
#define ISO_DEVICE_H

#include "../../device/api/state.h"
#include "../../device/gpu.h"
#include "../../include/shmemx.h"
#include "../team/agree.h"
#include "../state/alloc.h"
#include "../node/peer.h"
#include "../profile/profile.h"
#include "../transport/device_agent.h"

#include <stdio.h>

struct grow;    /* device_grow.c */
struct handles; /* handle.c */
struct proxy;   /* proxy.c */
struct suspension; /* device_suspend.c */
struct device_trace; /* device_trace.c */

/* Blocks of memory of which pieces are handed out (device_pool.c). */
struct device_pool {
    struct pool_block *blocks; /* device->lock */
    bool of_host;              /* pinned host memory; else device memory */
};

/* VMM: physical memory at [at, at + len) of every PE's heap. */
struct device_chunk {
    size_t at, len;
};
#define ISO_DEVICE_CHUNKS 64 /* each doubles the heap, or nearly: never reached */

struct device {
    struct gpu *gpu;
    const struct gpu_info *info;
    enum gpu_sharing sharing;
    char sharing_why[160]; /* the method of the ladder and why, for isomer-info */
    char *window;          /* address range that holds all local PEs' heaps; NULL: each is mapped where it fell */
    size_t window_stride;  /* local PE i's heap is at window + i * stride */
    size_t window_bytes;
    size_t heap_bytes;   /* address range of one heap: cap */
    size_t part_bytes;   /* behind it: of local objects, and as much of those of teams */
    size_t span_bytes;   /* the heap and its two parts, rounded to the granularity */
    size_t granularity;  /* of chunks and heaps, the largest of all PEs */
    size_t backed_bytes; /* VMM: chunks cover [0, backed) on every PE; IPC: the whole heap */
    struct device_chunk chunks[ISO_DEVICE_CHUNKS];
    int n_chunks;
    struct device_chunk grown[2 * ISO_DEVICE_CHUNKS]; /* of the parts, of this PE alone; offsets from the heap's base */
    int n_grown;                                      /* atomic */
    bool grow_failed[2];      /* some PEs may have mapped memory behind grown_bytes, so no more is added there */
    size_t grown_bytes[2];    /* VMM: backed of the part of local objects, of that of teams; atomic */
    pthread_mutex_t grow_lock; /* the three above */
    struct grow *grow;         /* device_grow.c; NULL: no peer's memory is imported here */
    bool *reaches;         /* [n_local] this PE's device loads and stores memory of that PE's */
    size_t control_bytes;  /* front of the heap: slot memory of handles; objects begin behind it */
    struct alloc *alloc;   /* objects; offsets from control_bytes; alike on all PEs */
    struct alloc *control; /* slot memory, offsets from 0; each PE's own */
    int device_peers;      /* local PEs that use the same device, this one among them */
    pthread_mutex_t lock;  /* control, handles */
    struct device_pool images, told; /* of handles; of words by which streams tell what they wait for */
    struct handles *handles;
    struct proxy *proxy;
    void *streams; /* coll: collectives on streams, atomic; NULL: none was called */
    void *ranges;  /* coll: what shmemx_rendezvous has told (coll_rendezvous.c); lock */
    void *pairs;   /* coll: sends and receives on streams (pairs.c) */
    void *probe;   /* coll: results of the LL128 probe (stream_probe.c) */
    char engines_why[224]; /* why no copy engines copy to peers; empty: they do. Empty on all PEs or on none */
    struct device_trace *trace; /* NULL: what streams run is not traced */
    int captures;  /* atomic: streams between shmemx_graph_begin and _end */
    struct suspension *suspension; /* atomic; not NULL: the memory of the heap and its parts is lent back */
    bool running;  /* device_start.c has brought everything up */
};

/* ---- device_state.c: the running device, and what PEs agree on about it ---- */

/* The running device; ends in NULL with a sentence when shmemx_device_init was not called. Not collective. */
struct device *iso_device_running(const char *call);
/* Likewise, also in a broken job: for calls that give something back. */
struct device *iso_device_left(const char *call);

/* Waits until all work in this PE's streams is done; where no device runs, returns at once. 0, or -errno after a
 * sentence. */
int iso_device_finish_streams(const char *call);
/* Likewise, at most that long, without a look at the peers. -ETIMEDOUT without a sentence. */
int iso_device_idle_within(uint64_t timeout_ns);
/* `rc`: the result of a step on this PE. All PEs get 0, or all get an error; of the PEs that failed the lowest one says
 * `sentence`, so the whole job says one. */
int iso_device_agree(const char *call, int rc, const char *sentence);
/* As iso_pe_exchange, and agreed upon; _new_offers: [n_local] without descriptors, _close_offers: NULL-tolerant. */
int iso_device_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call);
struct pe_offer *iso_device_new_offers(void);
void iso_device_close_offers(struct pe_offer *offers);
bool iso_device_imports(const struct device *device, int local); /* that PE's memory is mapped by an import of ours */

/* ---- device_start.c ---- */

/* Collective over the world, idempotent: device, heap, agent, handles, proxy. 0, or -errno after a sentence on every
 * PE. All PEs get the same answer. */
int iso_device_start(const char *call);
void iso_device_stop(void); /* in finalize, after a barrier; NULL-tolerant */
/* Without the other PEs. 0, or -ETIMEDOUT after a sentence: a stream is not idle 10 s after all waits gave up; nothing
 * is freed then. */
int iso_device_leave(const char *call);
/* The running device, or NULL after a sentence (`call` is collective over the world: starts it). */
struct device *iso_device_need(const char *call);

/* ---- device_heap.c ---- */

/* The device, how its memory is shared, the heap and the peers' mappings of it. 0, or -errno after a sentence, on all
 * PEs alike. After an error too the two others take down what is there. */
int iso_heap_open(struct device *device, const char *call);
void iso_heap_unmap(struct device *device); /* of the peers' memory; when no PE has that of this one mapped any more: */
void iso_heap_free(struct device *device);
/* Likewise, but addresses stay: this PE's mappings of its peers' chunks; when no PE has any, its own chunks and what it
 * has added to its parts. And again, with undefined contents: chunks of the heap, collective; 0, or -errno after a
 * sentence, on all PEs alike, and nothing is there. */
void iso_heap_drop_peers(struct device *device);
void iso_heap_drop_own(struct device *device);
int iso_heap_make_again(struct device *device, const char *call);
/* Physical memory for the first `bytes` of every PE's heap. Collective over the world, with equal arguments, and
 * nothing at all when it is there already. 0, or -errno after a sentence, on all PEs alike. */
int iso_device_back(size_t bytes, const char *call);

/* ---- device_grow.c: memory of one PE alone, mapped by the others without their programs ---- */

/* The thread of this PE that maps what others have added. *offer gets its address for iso_grow_meet. Nothing at all
 * where no PE imports anything. 0 or -errno. */
int iso_grow_start(struct device *device, struct pe_offer *offer);
void iso_grow_meet(struct device *device, const struct pe_offer *theirs); /* [n_local] */
void iso_grow_stop(struct device *device);                                /* unmaps what others have added */
void iso_grow_drop_peers(struct device *device);                          /* likewise, and goes on */
/* What this PE has added, again after iso_heap_drop_own; undefined contents. No other PE's program takes part. 0, or
 * -errno after a sentence. */
int iso_grow_make_again(struct device *device, const char *call);
/* Physical memory for the first `bytes` of a part of this PE's device memory: when it returns 0, the PEs of the node
 * have mapped it. No other PE's program takes part. 0, or -errno after a sentence. Any thread. */
int iso_grow_back(const struct segment *part, size_t bytes, const char *call);

/* ---- device_suspend.c: device memory lent back. For shmemx_suspend and shmemx_resume (lending.c) ---- */

/* `sentence` gets why this PE's device memory cannot be lent back now; "": it can. */
void iso_device_look_at_lending(const struct device *device, char *sentence, size_t bytes);
/* Collective over the world, with equal `keeps`: contents of all objects are kept, else of those that are marked so.
 * 0, or nonzero after a sentence on all PEs, and nothing has changed. */
int iso_device_suspend(struct device *device, bool keeps, const char *call);
/* Collective over the world. 0, or nonzero after a sentence on all PEs, and it is still lent. */
int iso_device_resume(struct device *device, const char *call);

ISO_INLINE bool iso_device_is_suspended(const struct device *device)
{
    /* Pairs with shmemx_suspend and shmemx_resume, for threads that only look. */
    return __atomic_load_n(&device->suspension, __ATOMIC_ACQUIRE) != NULL;
}
/* Before memory is written at the end: it is there again, with the contents that handles need. `alone`: without the
 * other PEs, for this PE only. 0, or -errno after a sentence. */
int iso_device_end_suspension(struct device *device, bool alone, const char *call);

/* ---- device_trace.c: calls that streams run, for SHMEM_TRACE ---- */

/* One call that is being enqueued, on the stack. host.block NULL: nothing is counted, and the rest is not set. */
struct stream_span {
    struct profile_span host;
    const char *how; /* its algorithm, a constant of the library; the caller sets it. NULL: none */
    gpu_stream stream;
    struct stream_entry *entry; /* NULL: it is not marked */
    bool is_marked;
};
ISO_COLD void iso_device_trace_begin(struct stream_span *span, enum profile_call call, const char *name, size_t bytes,
                                     gpu_stream stream);
ISO_COLD void iso_device_trace_end(struct stream_span *span);
/* As iso_profile_enter and _leave, around what is enqueued in a stream. A device runs. */
ISO_INLINE void iso_device_trace_enter(struct stream_span *span, enum profile_call call, const char *name, size_t bytes,
                                       gpu_stream stream)
{
    span->host.block = NULL;
    if (ISO_UNLIKELY(ISO->profile != NULL))
        iso_device_trace_begin(span, call, name, bytes, stream);
}
ISO_INLINE void iso_device_trace_leave(struct stream_span *span)
{
    if (ISO_UNLIKELY(span->host.block != NULL))
        iso_device_trace_end(span);
}
void iso_device_trace_start(struct device *device); /* no-op where nothing is traced */
void iso_device_trace_stop(struct device *device); /* streams are idle */
void iso_device_trace_look(struct device *device); /* writes all calls that have ended; NULL-tolerant */

/* ---- device_engines.c ---- */

/* Collective over the world: fills engines_why. 0, or -errno. */
int iso_engines_start(struct device *device);

/* ---- device_buffer.c: registered buffers of the vendor's allocator ---- */

enum gpu_pointer iso_device_pointer_kind(const void *ptr); /* host memory, where no device runs */
/* Device memory, to be registered here? Collective over the team. 0, or -errno on all members after a sentence when
 * only some members' buffers are. */
int iso_device_buffer_is(const struct buffer *buffer, bool *is_device);
/* Collective. 0, or -errno after a sentence, on all members alike; the segment is the last of the table. */
int iso_device_buffer_register(const struct buffer *buffer, shmemx_buffer_info_t *info);
void iso_device_buffer_forget(struct segment *segment); /* closes what was imported; takes it out of the table */
/* A buffer of either kind was registered or unregistered while a device runs. */
void iso_device_table_changed(void);

/* ---- device_info.c ---- */

void iso_device_write_info(FILE *out); /* starts nothing */
/* The doctor's findings about devices; severity: 0 fine, 1 works but, 2 will not work. */
void iso_device_examine(void (*find)(void *doctor, int severity, const char *sentence), void *doctor);

/* ---- device_pool.c: small pieces of memory that stays until the device stops ---- */

/* A piece with the contents of any earlier one. *base: for the CPU where the pool is of host memory, else for kernels;
 * *for_device: for kernels and streams. 0, or -errno. */
int iso_pool_get(struct device *d, struct device_pool *pool, size_t len, char **base, char **for_device);
void iso_pool_put(struct device *d, struct device_pool *pool, const void *base); /* NULL-tolerant */
void iso_pool_close(struct device *d, struct device_pool *pool);

/* ---- handle.c ---- */

int iso_handles_start(struct device *device); /* the world's image */
void iso_handles_stop(struct device *device);
/* The handle of a team's slot; the first time collective over the team, as a first call (agree.h). 0 or -errno after a
 * sentence. */
/* SHMEM_DEBUG=1: behind slot memory, for each member some notes on its calls (coll/call/notes.c). */
enum { ISO_HANDLE_NOTES = 64, ISO_HANDLE_NOTE_BYTES = 128 };
int iso_handle_open(struct team *team, int slot, shmemd_t *handle, const char *call);
/* Within a first call, whose number is the slot. `lanes`: at most so many, 0: as many as usual; for a new handle. */
struct first_call;
int iso_handle_make(struct first_call *f, int lanes, shmemd_t *handle, const char *call);
bool iso_handle_slot_is_valid(const char *call, int slot); /* of a user; false after a sentence */
/* Kernels have written so many of its lanes without an epoch. */
void iso_handle_note_lanes(const struct team *team, int slot, unsigned lanes);
bool iso_handle_is_open(struct team *team, int slot);
ISO_INLINE int32_t iso_handle_team_number(const struct team *team) /* for messages */
{
    return (int32_t)((uintptr_t)team->handle & 0xffff);
}
size_t iso_handle_slot_bytes(const struct team *team); /* slot memory of all its handles, here */
/* All PEs of the world, without slot memory: for what is not collective. */
shmemd_t iso_handle_local(void);
/* The same with words of the team, which end what its members do alone on streams, and nothing else: made by the first
 * call. Not collective. false: there is none, and no memory for it, or a stream is being captured. */
bool iso_handle_of_member(const struct team *team, shmemx_stream_t stream, shmemd_t *handle);
/* Where kernels of this PE load and store PE `pe`'s copy of the segment; NULL: by the ring. */
char *iso_handle_near(const struct segment *segment, int pe);
/* As a kernel that gives up: for what waits in a stream without one. */
void iso_handle_give_up(shmemd_t handle);
/* Waits of kernels end whose team was broken. By the proxy, again and again: another member may have broken it. */
void iso_handles_end_broken(struct device *device);
/* Has any handle of this PE given up? Then a sentence for `call` is logged, or kept where the team was broken and the
 * program does not know yet. Asks the device only if so. */
bool iso_handles_gave_up(struct device *device, const char *call);
/* The segment table has changed: the kernels' image of it follows. Collective calls only. */
void iso_handles_refresh(void);

/* ---- proxy.c: the thread that serves rings, prints records, watches peers for kernels that wait ---- */

int iso_proxy_start(struct device *device);
void iso_proxy_stop(struct device *device);
/* What the image of the world needs of it. */
struct isod_host *iso_proxy_host(struct device *device, struct isod_host **for_kernels);
struct isod_ring *iso_proxy_rings(struct device *device, uint32_t *n_rings); /* device address */
size_t iso_proxy_ring_bytes(bool on_device);
/* The abort word: all waits of this PE's kernels give up (no device: nothing); and back, for a reset. */
void iso_proxy_give_up(void);
void iso_proxy_resume(struct device *device, int team, int slot);
/* The first error of a kernel or stream of that team and slot, as records name them, since its last reset; with slot
 * below 0 of calls that have none. */
void iso_proxy_forget_team(struct device *device, int team);
bool iso_proxy_first_error(struct device *device, int team, int slot, shmemx_device_error_t *error);
/* A record that no kernel has left: of a stream that waits by itself. By the proxy's thread. */
void iso_proxy_report(struct device *device, const struct isod_record *record);

#endif
