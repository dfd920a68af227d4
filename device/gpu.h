/* SPDX-License-Identifier: MIT */
/* The run-time half of portability: what the library asks of the device that this PE uses. One of gpu_cpu.c, gpu_hip.c
 * and gpu_cuda.c is in a build. All functions return 0 or -errno unless they say otherwise; on failure
 * iso_gpu_error(gpu) is a sentence with the vendor's own words. Calls may come from any thread of the PE; each of them
 * makes the PE's device current and leaves it so. Nothing here synchronises the device unless it says so.
 * Includes nothing of ours but bootstrap/{log,env}.h. Used by shmem/, coll/. */
#ifndef ISO_GPU_H
#define ISO_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu;                       /* the device of one PE */
typedef void *gpu_stream;         /* hipStream_t, cudaStream_t, or the CPU device's; NULL: the default stream */
typedef void *gpu_graph;          /* an instantiated graph */
typedef void (*gpu_kernel)(void); /* a kernel's address: SHMEMD_KERNEL made it */

/* What memory is for. COMMUNICATION: a peer's store is seen by a poll, a peer's atomic composes with ours (AMD:
 * fine-grained or uncached; elsewhere ordinary). BULK: ordinary memory, polls and atomics by peers are not for it. */
enum gpu_memory { GPU_COMMUNICATION, GPU_BULK };

/* How device memory becomes visible to other processes. */
enum gpu_sharing { GPU_SHARE_VMM, GPU_SHARE_IPC };

/* What a peer needs to map a piece of memory. Bytes travel by the mesh, fd (-1: none) by SCM_RIGHTS. */
struct gpu_key {
    unsigned char bytes[64];
    int fd;
};

struct gpu_info {
    const char *flavour; /* "cpu", "hip", "cuda" */
    char name[64];       /* "NVIDIA H200" */
    char id[40];         /* PCI address, or "cpu": equal on PEs that share a device */
    int device, n_devices;
    int multiprocessors;
    int wave_size;
    uint64_t memory_bytes;
    bool can_vmm;             /* chunks that grow, shared by descriptors */
    bool can_ipc;             /* fixed allocations, shared by keys */
    char vmm_why[96];         /* why not, when !can_vmm */
    const char *ipc_why;      /* why not, when !can_ipc; NULL: nobody says */
    unsigned hardware_queues; /* streams that run at once, 0: unknown */
    bool joins_captures;      /* a captured stream may take others along (iso_gpu_stream_after) */
    bool polls_foreign;       /* polls and atomics work in memory of the vendor's own allocator as in this layer's */
    bool orders_writes;       /* kernels that run see what network devices write to this device's memory in the order of
                               * the writes; else a read by that network device goes between them */
};

/* ---- the device ---- */

/* Chooses a device: `choice` is SHMEM_DEVICE (a number), or "" for local rank modulo number of devices. -ENODEV: there
 * is none; `why` gets one sentence. Does not start a device that no PE asked for. */
int iso_gpu_open(struct gpu **gpu, int local_rank, const char *choice, char *why, size_t why_bytes);
void iso_gpu_close(struct gpu *gpu); /* NULL-tolerant; streams and memory of this layer must be gone */
const struct gpu_info *iso_gpu_describe(const struct gpu *gpu);
const char *iso_gpu_error(const struct gpu *gpu);
/* Can kernels of this device load and store memory of the device with that id (struct gpu_info.id)? Enables it. */
bool iso_gpu_reaches(struct gpu *gpu, const char *id);
/* For isomer-info without starting anything: one sentence about devices on this machine, found or not. */
void iso_gpu_survey(char *text, size_t bytes);

/* ---- memory that peers map ---- */

size_t iso_gpu_granularity(struct gpu *gpu); /* chunks and reservations are multiples of it */
/* Address space only (VMM method); aligned to the granularity. */
int iso_gpu_reserve(struct gpu *gpu, size_t len, char **base);
void iso_gpu_unreserve(struct gpu *gpu, char *base, size_t len); /* everything in it unmapped before */
/* Physical memory at [at, at + len) of a reservation, readable and writable by this device, zeroed; key->fd exports it.
 */
int iso_gpu_chunk_create(struct gpu *gpu, char *at, size_t len, enum gpu_memory kind, struct gpu_key *key);
int iso_gpu_chunk_import(struct gpu *gpu, char *at, size_t len, const struct gpu_key *key); /* takes key->fd */
void iso_gpu_chunk_release(struct gpu *gpu, char *at, size_t len); /* of either kind: unmaps, frees when last */
/* One fixed allocation (IPC method), zeroed. */
int iso_gpu_shared_create(struct gpu *gpu, size_t len, enum gpu_memory kind, char **base, struct gpu_key *key);
int iso_gpu_shared_import(struct gpu *gpu, const struct gpu_key *key, size_t len, char **base);
void iso_gpu_shared_close(struct gpu *gpu, char *base, size_t len);   /* an imported one */
void iso_gpu_shared_destroy(struct gpu *gpu, char *base, size_t len); /* our own */
/* For memory that the program has allocated by the vendor's calls: `*start`, `*len` get the whole allocation around
 * `ptr`; `key` exports it by the first way that works, *method its name ("vmm", "ipc"). -ENOTSUP: none does. */
int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, char **start, size_t *len, struct gpu_key *key,
                           enum gpu_sharing *method);
int iso_gpu_import_foreign(struct gpu *gpu, const struct gpu_key *key, enum gpu_sharing method, size_t len, char **base);
void iso_gpu_close_foreign(struct gpu *gpu, char *base, size_t len, enum gpu_sharing method);

/* ---- memory that network devices reach ---- */

/* A dma-buf of memory of this device and PE: *fd, which the caller closes, and *offset, where in it `at` lies. It holds
 * [at, at + len) and the rest of the pages at its ends. -ENOTSUP or another error: this memory has none. */
int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset);
/* What a network device has written to memory of this device, and told the host of, is seen by kernels that run. */
void iso_gpu_flush_writes(struct gpu *gpu);

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr); /* device memory, zeroed */
void iso_gpu_free(struct gpu *gpu, void *ptr);              /* NULL-tolerant */
/* Host memory that kernels load and store: *host for the CPU, *device for kernels; pinned, coherent, zeroed. */
int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device);
void iso_gpu_host_free(struct gpu *gpu, void *host);

enum gpu_pointer { GPU_POINTER_HOST, GPU_POINTER_PINNED, GPU_POINTER_DEVICE };
/* What kind of memory ptr points to. Slow: never on a hot path. */
enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr);

/* ---- streams ---- */

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority,
                          gpu_stream *stream); /* never waits for the default one */
void iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream);
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream); /* the host waits until it is idle, by yielding */
bool iso_gpu_stream_is_idle(struct gpu *gpu, gpu_stream stream);
int iso_gpu_wait_all(struct gpu *gpu); /* until all streams of this process on the device are, the vendor's own too */
/* `later` goes on when what is in `earlier` now is done. */
int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier);
bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream);
/* Any mixture of host, pinned and device memory; by a copy engine where there is one. Host memory that is not pinned
 * may be staged by the vendor and then blocks. */
int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream);
int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream);
/* Words of 8 bytes that a stream itself stores and waits for, in the order given, with no kernel and so no place on the
 * device. A store: whoever acquires it sees what the stream has done before (release, system scope). A wait ends when
 * the word is `value` or larger; what comes behind it in the stream sees what was done before the store. Memory of this
 * device, of peers where kernels reach it, or iso_gpu_host_alloc's, by the device's address. A stream that waits may
 * hold up others that share its hardware queue. */
struct gpu_word {
    uint64_t *at;
    uint64_t value;
    bool waits;
};
/* Can this device, and is the stream not being captured? A graph would bring the same values each time. */
bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream);
int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream);
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream);
int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph);
int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream);
void iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph);

/* ---- copy engines ---- */

#define GPU_ANY_ENGINE (-1) /* one that is idle, in turn */
/* Copy engines of this device that a copy can name, by 0 to one less; 0: the vendor's runtime does not let one choose.
 * It does not grow, and falls to 0 when they turn out not to work. */
int iso_gpu_engines(struct gpu *gpu);
/* Between device memories that kernels of this device reach; done when it returns, which waits by yielding. Belongs to
 * no stream: what is to be copied has been written, and seen to be. Copies of several threads go side by side when they
 * name different engines; towards some peers fewer engines are of use than there are, then numbers share one. What
 * lasts longer than SHMEM_TIMEOUT is reported. -ENOTSUP: nothing was copied, but iso_gpu_copy can do it. */
int iso_gpu_copy_by_engine(struct gpu *gpu, int engine, void *dest, const void *source, size_t len);

/* ---- kernels ---- */

/* args: the kernel's one struct, copied before it returns. grid and block count in one dimension. */
struct gpu_launch {
    gpu_kernel kernel;
    unsigned grid, block;
    size_t shared_bytes; /* dynamic */
    const void *args;
    size_t args_bytes;
    bool early; /* its blocks may come while the last ones of the kernel before it in the stream still end, if that has
                 * said so by prim_stream_pass; it begins with prim_stream_wait. A hint, which not all devices take */
};
int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream);
/* Loads the kernel's code now, so that no later launch has to (which may synchronise the device). */
int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel);
/* Blocks of `block` threads that can be resident, and thus wait for one another, at once on the whole device. */
int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks);

#endif
