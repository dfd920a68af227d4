/* SPDX-License-Identifier: MIT */
/* Shared by the files of the AMD flavour: the state of one PE's device. Memory that peers poll is uncached, else
 * fine-grained. In coarse-grained memory, which hipMalloc and (before its uncached type) hipMemCreate give, a poll may
 * never see a peer's store. Includes gpu.h. Used by gpu_hip*.c only. */
#ifndef ISO_GPU_HIP_H
#define ISO_GPU_HIP_H

#define __HIP_PLATFORM_AMD__ 1
#include "../gpu.h"

#include <hip/hip_runtime_api.h>
#include <pthread.h>

#define ISO_HIP_GRANULARITY ((size_t)2 << 20)

struct hip_chunk;       /* gpu_hip_memory.c */
struct made_stream; /* gpu_hip.c */
struct engines;     /* gpu_hip_engine.c */

struct gpu {
    struct gpu_info info;
    hipStream_t stream;            /* of this layer: zeroing */
    unsigned communication;        /* flag of hipExtMallocWithFlags for memory that peers poll; 0: there is none */
    bool coarse;                   /* what is called fine-grained is not, so that there is none */
    hipMemAllocationType vmm_type; /* of hipMemCreate; likewise */
    bool fd_by_pointer;            /* hipMemImportFromShareableHandle takes the descriptor's address (HIP before 7.1) */
    size_t granularity;
    pthread_mutex_t stage_lock; /* stage */
    char *stage;                /* pinned memory through which unpinned host memory travels */
    pthread_mutex_t lock;       /* chunks, error, engine_copies, streams */
    struct hip_chunk *chunks;
    struct made_stream *streams; /* that this layer has made and not destroyed */
    int (*export_dmabuf)(const void *at, size_t len, int *fd, uint64_t *offset); /* HSA; NULL: an older one */
    volatile uint32_t *hdp_flush; /* register: what came over the bus is in memory after a store to it; NULL: none */
    bool engine_copies;           /* HIP copies between device memories by a copy engine */
    struct engines *engines;      /* those that can be told to copy; NULL: none */
    char error[320];
};

/* ---- gpu_hip.c ---- */

/* Makes the PE's device current until the scope ends. Then the device that was current before is current again. Uses
 * may be nested. What goes wrong, the next call says. */
#define iso_hip_use(gpu) \
    __attribute__((cleanup(iso_hip_give_back), unused)) const int device_before = iso_hip_enter(gpu)
int iso_hip_enter(const struct gpu *gpu); /* number of the device to make current again; -1: none */
void iso_hip_give_back(const int *before);

/* 0, or -errno with the sentence that iso_gpu_error gives. */
int iso_hip_result(struct gpu *gpu, const char *call, hipError_t e);
int iso_hip_refuse(struct gpu *gpu, int status, const char *sentence); /* status, a -errno */
bool iso_hip_is_off(const char *name);                                 /* a variable of HIP's or HSA's is "0" */
/* While a program captures a stream in HIP's default mode, waits and allocations of every thread are forbidden, except
 * for threads that relax their mode. Returns the mode to restore. */
hipStreamCaptureMode iso_hip_relax(void);
void iso_hip_restore(hipStreamCaptureMode mode);

int iso_hip_clear(struct gpu *gpu, void *ptr, size_t len); /* zeroed when it returns */
/* Waits, by polling, until the streams that this layer has made are idle. hipFree, hipHostFree, hipStreamDestroy and
 * hipDeviceSynchronize of HIP 5 wait for them, too, but hold a lock meanwhile that each copy needs. The streams' work
 * may be waiting for copies of the proxy. Therefore such calls come behind this one. Returns whether a stream is
 * captured; such a stream is not waited for. */
bool iso_hip_settle(struct gpu *gpu);

/* ---- gpu_hip_memory.c ---- */

/* Finds out on small pieces which memory peers may poll, and how it can be shared: fills gpu->info. */
void iso_hip_probe_memory(struct gpu *gpu);
bool iso_hip_is_own_memory(struct gpu *gpu, const void *ptr); /* of the PE's device, as HIP sees it */

/* ---- gpu_hip_engine.c ---- */

/* Finds out whether the HSA runtime copies by engines that it is told: fills gpu->engines, or leaves NULL. */
void iso_hip_open_engines(struct gpu *gpu);
void iso_hip_close_engines(struct gpu *gpu);
/* Notes that a peer's memory is mapped at `at`, for the choice of engines only. `id` is the struct gpu_info.id of the
 * peer's device. NULL: an allocation opened by a key, whose device the runtime knows. */
void iso_hip_note_peer(struct gpu *gpu, char *at, size_t len, const char *id);
void iso_hip_forget_peer(struct gpu *gpu, const char *at); /* if it was noted */

#endif
