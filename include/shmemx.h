/* SPDX-License-Identifier: MIT */
/* Extensions to OpenSHMEM, host part: start with a unique id, registered buffers, devices (device memory, handles for
 * kernels, launch, calls on streams), self-description. The in-kernel part is shmem_device.h. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- start without a launcher: the user's own store (MPI, torchrun's store, a file) carries an id of 128 bytes ----
 * RANK and WORLD_SIZE of torchrun alone start nothing: pass them in attr, with an id. */

/* Address, port and secret of the process that becomes PE 0. Opaque, may be copied as bytes. */
typedef struct {
    unsigned char bytes[128];
} shmemx_uniqueid_t;

typedef struct {
    int rank;                    /* this process becomes that PE, 0 .. size - 1 */
    int size;                    /* PEs of the job */
    const shmemx_uniqueid_t *id; /* the same on all */
    int requested;               /* SHMEM_THREAD_ level */
    int provided;                /* out: the level in force */
} shmemx_init_attr_t;

/* Called once, by the process that becomes rank 0, before init; it listens from here on. 0, or nonzero with a sentence
 * on stderr. */
int shmemx_get_uniqueid(shmemx_uniqueid_t *id);
/* As shmem_init_thread; takes precedence over any launcher. Collective over the `size` processes. 0, or nonzero with a
 * sentence on stderr. */
int shmemx_init_attr(shmemx_init_attr_t *attr);

/* ---- registered buffers: memory that the user has already becomes symmetric ---- */

typedef struct {
    size_t mapped_bytes; /* whole pages, reached by loads and stores of local peers */
    size_t staged_bytes; /* the partial pages at the ends: puts and gets only, no atomics and no signals */
    int is_device;       /* 1: the buffer is device memory; all of it is mapped or nothing */
    char method[24];       /* how it is shared: "pages", "vmm", "ipc", "staged" */
} shmemx_buffer_info_t;

/* Collective over the world, equal len_bytes, one buffer of each PE; addresses may differ. From its return to the
 * unregister, [addr, addr + len_bytes) is a symmetric address range in every call. Contents are kept. Whole pages are
 * remapped in place. The memory is ordinary private memory (malloc, mmap), is not freed before it is unregistered, and
 * is not touched by other threads during the call. Or it is device memory, of shmemx_device_init's device, from the
 * vendor's own allocator: shared by the first way that works (info->method says which). On all PEs the same kind.
 * AMD: what its allocators give is for data that kernels read which begin later; signals, polls, atomics, and data for
 * kernels that run already, need memory of shmemx_malloc. info may be NULL. Whole pages are shared with children that
 * are forked meanwhile, as the symmetric heap is. 0, or nonzero on all PEs, with a sentence on stderr of one at least:
 * then nothing is registered. Wrong arguments end the job. */
int shmemx_buffer_register(void *addr, size_t len_bytes, shmemx_buffer_info_t *info);
/* Collective over the world; addr as registered. Begins as shmem_barrier_all: what was put there has arrived. Contents
 * are kept. 0, or nonzero with a sentence on stderr: the pages stay shared with children that are forked. */
int shmemx_buffer_unregister(void *addr);

/* ---- devices: a GPU, or the CPU as a device (the build's flavour decides) ----
 * Nothing of a device is touched before the first call of this part. Each PE uses one device: SHMEM_DEVICE, or its
 * number on the node modulo the number of devices; several PEs may share one. A device that the program has made
 * current does not change that: calls of this part, and host calls on device memory, make the PE's device current in
 * the thread that calls, and leave it so. With HIP 7 the PEs of a node must have the same HIP_VISIBLE_DEVICES, or each
 * PE one device alone: it maps no memory of a device whose number at its PE is none of the caller's device numbers. */

/* Collective over the world; shmemx_malloc and shmemx_device_handle on SHMEM_TEAM_WORLD do it when it was not done.
 * 0, or nonzero with one sentence on stderr: there is no device here, or not on all PEs. The host calls work on. */
int shmemx_device_init(void);
/* "cuda 0: NVIDIA H200, memory shared by vmm", or why there is none; like shmemx_info_text. */
size_t shmemx_device_text(char *text, size_t bytes);

/* What memory is for. */
#define SHMEMX_HOST 0   /* the symmetric heap of shmem_malloc */
#define SHMEMX_DEVICE 1 /* the device heap: peers' stores are seen by polls, their atomics compose with ours */
/* As SHMEMX_DEVICE, for bulk data only: do not poll, signal or do atomics there. In this version it is the same memory
 * on every device; one whose coherent memory is the slower one (AMD) may use another kind for it later. */
#define SHMEMX_DEVICE_BULK 2

/* Collective over the world, as shmem_malloc, calloc, align and free; equal arguments on all PEs. NULL when size is 0
 * or no room is left (with a sentence). shmem_free and shmemx_free take objects of any kind, shmem_realloc only those
 * of the host. Which calls take device addresses:
 *   put, get, p, g, strided, non-blocking     yes, as target and as local argument. Local memory that is on the device
 *                                             but not symmetric: only when the target is device memory
 *   put_signal, signal_set, signal_add, signal_fetch, atomics, wait and test     yes (a kernel of one thread does it);
 *                                             what an atomic fetches goes to host memory
 *   collectives, locks                         no: they end the job with a sentence; use shmem_device.h or _on_stream
 *   shmem_ptr                                  NULL: the CPU cannot load it
 */
void *shmemx_malloc(size_t size, int kind);
void *shmemx_calloc(size_t count, size_t size, int kind);
void *shmemx_align(size_t alignment, size_t size, int kind);
void shmemx_free(void *ptr);

/* ---- handles: what a kernel communicates by, see shmem_device.h ---- */

struct shmemd; /* shmemd_t is complete in shmem_device.h, which includes this file */
/* Collective over the team, never while a stream is being captured. `slot` is a small number, 0 .. 255, equal on all
 * members: one (team, slot) is one ordered sequence of collectives, the same on all members; kernels that may run at
 * the same time and use collectives take different slots. The same (team, slot) again gives the same handle. A handle
 * lives until its team is destroyed or shmem_finalize, and may be part of graphs.
 * *handle is written. 0, or nonzero with a sentence on stderr. */
int shmemx_device_handle(shmem_team_t team, int slot, struct shmemd *handle);

/* Blocks of `block_threads` threads of this kernel that may wait for one another at once on this PE's device, its share
 * where PEs share one; never more than SHMEM_DEVICE_BLOCKS, which bounds the blocks that use collectives.
 * -1 with a sentence: no device. */
typedef void (*shmemx_kernel_t)(void);
int shmemx_max_blocks(shmemx_kernel_t kernel, int block_threads, size_t shared_bytes);

/* What went wrong in kernels of this PE since the last call: the first record, which it takes off the list. */
typedef struct {
    char call[64];          /* "shmemd_signal_wait_until" */
    int pe;                 /* waited for, in the world; -1: any */
    int team_slot;          /* of the handle */
    unsigned block, thread; /* who waited; 0, 0 where the stream itself did, without a kernel */
    const void *addr;       /* what it looked at */
    uint64_t expected, seen;
    double waited_seconds;
    int gave_up; /* 0: passed SHMEM_TIMEOUT and goes on; 1: gave up; 2: misuse of the slot */
} shmemx_device_error_t;
/* 1: *error was written; 0: nothing went wrong. Never blocks. */
int shmemx_device_error(shmemx_device_error_t *error);
/* Makes all waits of this PE's kernels give up: they return, their handles do nothing from then on. Not collective.
 * The library does the same when a peer has died, before it ends the job.
 * The error of a wait that gave up, or of a slot that was misused, belongs to the (team, slot) of its handle: kernels
 * see it by shmemd_status. The host cannot tell which streams have used that handle. So on this PE, from the end of the
 * kernel or collective until the reset of the (team, slot), shmemx_stream_synchronize of every stream waits as always
 * and then returns nonzero, and shmemx_graph_launch launches nothing and returns nonzero. Other members learn of it
 * when their own waits give up. Calls of the vendor's (cudaStreamSynchronize, events) do not know of this error: call
 * shmemx_stream_synchronize behind them before results are used. */
void shmemx_device_abort(void);
/* Collective over the handle's team, with no kernel running that uses it, after all its members have called
 * shmemx_device_abort or a kernel of theirs gave up: the handle works again, and so do barrier and sync on streams of
 * this team, the collectives on streams of this (team, slot), and the point-to-point calls on streams, which have no
 * slot. 0, or nonzero with a sentence. */
int shmemx_device_reset(shmem_team_t team, int slot);

/* ---- streams and launch: the same on every device; on a GPU a stream is the vendor's own (hipStream_t, cudaStream_t)
 * and a kernel may as well be launched the vendor's way ----
 * A device may have fewer queues than there are streams: what shares one runs in turn, so a kernel that waits holds up
 * the streams beside it. HIP gives a process 4 unless GPU_MAX_HW_QUEUES says more, CUDA 8
 * (CUDA_DEVICE_MAX_CONNECTIONS); both are read when the device is first used. */

typedef void *shmemx_stream_t; /* NULL: the default stream */
typedef void *shmemx_graph_t;
/* 0, or nonzero with a sentence on stderr; so are all calls below. shmem_finalize, and shmem_team_destroy of a team
 * that kernels or streams have used, first wait until all streams of this PE's device are idle: they free memory that
 * what is enqueued uses. So no stream waits then for what comes later in the program, and none is being captured. */
int shmemx_stream_create(shmemx_stream_t *stream);
/* What is enqueued is still done. Not while the stream is being captured. */
int shmemx_stream_destroy(shmemx_stream_t stream);
/* The host waits until all that is in it is done. Nonzero also when a wait on this PE has given up, in this stream or
 * another one, and no reset came since (shmemx_device_abort): then no result of this PE's streams may be relied on. */
int shmemx_stream_synchronize(shmemx_stream_t stream);
/* `later` goes on when what is in `earlier` now is done. A stream that is being captured takes `later` along, except
 * with HIP before 5.6, which never ends the capture of a second stream: refused there. */
int shmemx_stream_wait_stream(shmemx_stream_t later, shmemx_stream_t earlier);
/* A kernel made by SHMEMD_KERNEL, also in another file (declare it there by SHMEMX_DECLARE_KERNEL, which may not stand
 * in the file that defines it, nor in a header of both):
 *     shmemx_launch(SHMEMX_KERNEL(ring), blocks, 256, 0, &args, sizeof args, stream);
 * args is the kernel's one struct, copied before the call returns, and args_bytes its size. On the CPU device another
 * size is refused; on GPUs nobody looks: the kernel takes as many bytes as its struct has. */
#ifdef __cplusplus
#define SHMEMX_DECLARE_KERNEL(name) extern "C" void name(void)
#else
#define SHMEMX_DECLARE_KERNEL(name) extern void name(void)
#endif
#define SHMEMX_KERNEL(name) ((shmemx_kernel_t)(name))
int shmemx_launch(shmemx_kernel_t kernel, unsigned blocks, unsigned block_threads, size_t shared_bytes,
                  const void *args, size_t args_bytes, shmemx_stream_t stream);
/* What is enqueued between begin and end becomes a graph instead of running. shmemx_stream_synchronize refuses a stream
 * that is being captured. Each stream that the capture took along has joined again when it ends; else shmemx_graph_end
 * says so; the capture is lost then, but for AMD, where it goes on and can be ended again.
 * Branches of a graph may wait for each other's signals. HIP 7 puts branches into one stream where that looks as fast,
 * so that such a graph never ends: when the device is first used, DEBUG_HIP_GRAPH_MIN_OVERLAP is set to 0, which forbids
 * it, unless it is set already. HIP reads it at its first call: a program that makes that call before sets it itself.
 * At most 4 branches run at once there (DEBUG_HIP_FORCE_GRAPH_QUEUES). */
int shmemx_graph_begin(shmemx_stream_t stream);
int shmemx_graph_end(shmemx_stream_t stream, shmemx_graph_t *graph);
int shmemx_graph_launch(shmemx_graph_t graph, shmemx_stream_t stream);
int shmemx_graph_destroy(shmemx_graph_t graph);

/* ---- point-to-point on a stream: after what is in the stream now, before what comes later; they return at once and
 * may be captured into a graph (their first use on a PE may not: make a handle or call once before). dest and sig_addr
 * are symmetric: device memory, or registered buffers; memory of the host too, which goes by the proxy, but a wait is
 * on device memory, on every device. source is device memory of this PE, symmetric or not, or pinned. A put is complete
 * at the target when the quiet on the stream is; put_signal orders its signal behind its data. `team` is that of
 * shmem_team_; barrier and sync are collective over it and use a slot of their own, so they may run beside collectives;
 * those of the sequence of a slot are in shmemx_coll.h, SHMEMX_BARRIER and SHMEMX_SYNC. ---- */

int shmemx_putmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream);
int shmemx_getmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream);
int shmemx_putmem_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig_addr, uint64_t signal,
                                   int sig_op, int pe, shmemx_stream_t stream);
int shmemx_signal_op_on_stream(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, shmemx_stream_t stream);
int shmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t cmp_value, shmemx_stream_t stream);
int shmemx_quiet_on_stream(shmemx_stream_t stream);
int shmemx_barrier_on_stream(shmem_team_t team, shmemx_stream_t stream);
int shmemx_sync_on_stream(shmem_team_t team, shmemx_stream_t stream);

/* ---- self-description ---- */

/* 1 if the bookkeeping of this PE's symmetric heap is consistent, else 0. */
int shmemx_heap_is_valid(void);
/* Version, build flavour, launcher, nodes, PEs, segments, path to each PE and why, variables, selection table. Like
 * snprintf: writes at most `bytes` characters with the final null, returns the length of the whole text. */
size_t shmemx_info_text(char *text, size_t bytes);
/* What would not work here and what to do about it; like shmemx_info_text. Works before shmem_init too. */
size_t shmemx_doctor_text(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#include "shmemx_coll.h" /* collectives on streams */

#endif
