/* SPDX-License-Identifier: MIT */
/* The run-time half of portability: the functions that the library calls on the device of this PE. A build contains one
 * of gpu_cpu.c, gpu_hip*.c and gpu_cuda.c. All functions return 0 or -errno unless they say otherwise. After a failure
 * iso_gpu_error(gpu) is a sentence with the vendor's own words. Any thread of the PE may call. iso_gpu_open leaves the
 * PE's device current in its thread. Each other call makes it current, and gives back the device that was current
 * before (CUDA: if the process uses that one). No function synchronises the device unless it says so. Includes nothing
 * of ours but bootstrap/{log,env,memory_file}.h. Used by shmem/, coll/. */
#ifndef ISO_GPU_H
#define ISO_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu;                       /* the device of one PE */
typedef void *gpu_stream;         /* hipStream_t, cudaStream_t, or the CPU device's; NULL: the default stream */
typedef void *gpu_graph;          /* an instantiated graph */
typedef void *gpu_mark;           /* a place in a stream: an event of the vendor's, or the CPU device's */
typedef void (*gpu_kernel)(void); /* a kernel's address: SHMEMD_KERNEL made it */

/* Kinds of memory. COMMUNICATION: polls see stores of peers, and atomics of all PEs compose (AMD: fine-grained or
 * uncached; elsewhere ordinary). BULK: ordinary memory, not for polls and atomics of peers. */
enum gpu_memory { GPU_COMMUNICATION, GPU_BULK };

/* How device memory becomes visible to other processes. */
enum gpu_sharing { GPU_SHARE_VMM, GPU_SHARE_IPC };

/* The bytes and the descriptor (-1: none) by which a peer maps a piece of memory. Both travel by the node socket. */
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
    size_t shared_bytes;      /* the most dynamic shared memory of a block */
    bool can_vmm;             /* chunks that grow, shared by descriptors */
    bool can_ipc;             /* fixed allocations, shared by keys */
    char vmm_why[96];         /* why not, when !can_vmm */
    const char *ipc_why;      /* why not, when !can_ipc; NULL: the device does not say */
    const char *lock_calls;   /* the vendor's calls that wait for kernels and keep threads from copying; "": none */
    unsigned hardware_queues; /* streams that run at once, 0: unknown */
    bool joins_captures;      /* a captured stream may take others along (iso_gpu_stream_after) */
    bool polls_foreign;       /* polls and atomics work in memory of the vendor's own allocator as in this layer's */
    bool tries_engines;       /* iso_gpu_try_engines is to be asked before copies on streams to peers are relied on */
    bool kernels_copy_words;  /* copies of a few bytes on streams are kernels of the vendor's, copy engines or not */
    bool orders_writes;       /* kernels that run see what network devices write to this device's memory in the order of
                               * the writes; else a read by that network device goes between them */
};

/* ---- the device ---- */

/* Opens a device. `choice` is SHMEM_DEVICE (a number), or "" for the local rank modulo the number of devices. Does not
 * start a device that no PE asked for. `why` gets one sentence with each error. -EINVAL: `choice` is no number
 * of a device. -ENODEV: there is no device, or it cannot be used. */
int iso_gpu_open(struct gpu **result, int local_rank, const char *choice, char *why, size_t why_bytes);
void iso_gpu_close(struct gpu *gpu); /* NULL-tolerant; streams and memory of this layer must be gone */
const struct gpu_info *iso_gpu_describe(const struct gpu *gpu);
const char *iso_gpu_error(const struct gpu *gpu);
/* True when kernels of this device can load and store memory of the device with that struct gpu_info.id. Enables it. */
bool iso_gpu_reaches(struct gpu *gpu, const char *id);
/* For isomer-info: one sentence about the devices of this machine, found or not. Starts nothing. */
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
/* The whole allocation around an address. `key` exports it by `method`. */
struct gpu_allocation {
    char *start;
    size_t len;
    struct gpu_key key;
    enum gpu_sharing method;
};
/* Export memory that the program has allocated by the vendor's calls, around `ptr`, by the first method that works:
 * another PE imports it as a chunk or as a shared allocation. -ENOTSUP: no method works. */
int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, struct gpu_allocation *a);

/* ---- memory that network devices reach ---- */

/* Makes a dma-buf of memory of this device and PE. *fd is its descriptor, which the caller closes, and *offset the
 * place of `at` in it. It holds [at, at + len) and the rest of the pages at its ends. -ENOTSUP or another error: none
 * for this memory. */
int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset);
/* After it, kernels that run see data that a network device has written to memory of this device and reported to the
 * host. */
void iso_gpu_flush_writes(struct gpu *gpu);

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr); /* device memory, zeroed */
void iso_gpu_free(struct gpu *gpu, void *ptr);              /* NULL-tolerant */
/* Host memory that kernels load and store: *host for the CPU, *device for kernels; pinned, coherent, zeroed. */
int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device);
void iso_gpu_host_free(struct gpu *gpu, void *host);

enum gpu_pointer { GPU_POINTER_HOST, GPU_POINTER_PINNED, GPU_POINTER_DEVICE };
/* The kind of memory at ptr. Slow: never on a hot path. */
enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr);

/* ---- streams ---- */

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority,
                          gpu_stream *stream); /* never waits for the default one */
int iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream); /* NULL-tolerant */
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream); /* the host waits until it is idle, by yielding */
int iso_gpu_wait_all(struct gpu *gpu); /* until all streams of this process on the device are, the vendor's own too */
/* Work enqueued in `later` from now on begins when the work that is in `earlier` now is done. */
int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier);
bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream);
/* Copies between any two of host, pinned and device memory, by a copy engine where there is one. The vendor may stage
 * host memory that is not pinned, and then blocks. */
int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream);
/* Tries such copies, large ones, in both directions and in two streams, between `theirs`, memory of another PE, and
 * `ours`, device memory of this PE: len bytes each that nobody else uses. `theirs` is zero before and after. Runtimes
 * are known that lose such copies and report success. 0; or -errno: what is lost, and iso_gpu_copy takes another way
 * from now on. Waits. */
int iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len);
int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream);
/* Words of 8 bytes that a stream itself stores and waits for, in the order given, without a kernel. A store is a
 * release of system scope: a thread that acquires the word sees the stream's earlier work. A wait ends when the word is
 * `value` or larger; later work of the stream sees everything that was done before the store. Words are in memory of
 * this device, of peers where kernels reach it, or in iso_gpu_host_alloc's by the device's address. A stream that waits
 * may hold up other streams of its hardware queue. */
struct gpu_word {
    uint64_t *at;
    uint64_t value;
    bool waits;
};
/* True when this device has such words and the stream is not being captured: a graph would bring the same values each
 * time. */
bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream);
int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream);
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream);
int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph);
int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream);
int iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph);

/* ---- marks: when a stream came to a place ---- */

int iso_gpu_mark_create(struct gpu *gpu, gpu_mark *mark);
void iso_gpu_mark_destroy(struct gpu *gpu, gpu_mark mark); /* NULL-tolerant */
/* The device notes its clock in the mark when the work that is in the stream now is done. It takes no processor for
 * that, so a kernel that fills the device holds up no mark. Not in a stream that is being captured. One thread at a time
 * sets a mark; one that no stream has come to yet may be set again. */
int iso_gpu_mark_set(struct gpu *gpu, gpu_mark mark, gpu_stream stream);
/* *ns: from `since`, which its stream has come to, to `mark` by the device's clock, less than 0 if it was before. The
 * error is at most 1 us and 2^-24 of *ns. -EBUSY: the stream of `mark` has not come to it. */
int iso_gpu_mark_time(struct gpu *gpu, gpu_mark since, gpu_mark mark, int64_t *ns);

/* ---- copy engines ---- */

/* Copies between device memories that kernels of this device reach, by an engine that is idle, in turn. Belongs to no
 * stream: the source has been written, and its stores are visible, before the call. Done when it returns; it waits by
 * yielding. Copies of several threads run side by side where the link has several engines. A copy that lasts longer
 * than SHMEM_TIMEOUT is reported. -ENOTSUP: no byte was copied, but iso_gpu_copy can copy them. */
int iso_gpu_copy_by_engine(struct gpu *gpu, void *dest, const void *source, size_t len);

/* ---- kernels ---- */

/* Blocks of a grid and threads of a block in three dimensions; y and z: 0 counts as 1. */
struct gpu_dim {
    unsigned x, y, z;
};
static inline uint64_t iso_gpu_count(struct gpu_dim d)
{
    return (uint64_t)d.x * (d.y != 0 ? d.y : 1) * (d.z != 0 ? d.z : 1);
}
/* args is the kernel's one struct; arguments, where it is not NULL, has a pointer to each of its arguments instead. Both
 * are copied before the call returns. */
struct gpu_launch {
    gpu_kernel kernel;
    struct gpu_dim grid, block;
    size_t shared_bytes; /* dynamic */
    const void *args;
    size_t args_bytes;
    void *const *arguments;
    bool cooperative; /* the vendor's own barriers of a grid work; the caller has asked iso_gpu_max_blocks */
    bool early; /* its blocks may come while the last ones of the kernel before it in the stream still end, if that has
                 * said so by prim_stream_pass; it begins with prim_stream_wait. A hint, which not all devices take */
};
int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream);
/* Loads the kernel's code now, so that no later launch has to (which may synchronise the device). */
int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel);
/* *blocks becomes the number of blocks of `block` threads that can be resident at once on the whole device. */
int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks);

/* Writes len bytes to the variable `name` of a module that the program has loaded by the vendor's calls, or by dlopen on
 * the CPU device. -ENOENT: the module has no variable of this name and size. Waits for the copy. */
int iso_gpu_module_write(struct gpu *gpu, void *module, const char *name, const void *value, size_t len);
/* *module becomes the module that this device has of a library that the program has loaded (CUlibrary); on the CPU
 * device both are what dlopen gives. -ENOTSUP: the vendor has no libraries. */
int iso_gpu_library_module(struct gpu *gpu, void *library, void **module);

#endif
