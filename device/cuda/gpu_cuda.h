/* SPDX-License-Identifier: MIT */
/* Shared by the files of the NVIDIA flavour: the state of one PE's device, and calls that leave a sentence when they
 * fail. Includes gpu.h. Used by gpu_cuda*.c only. */
#ifndef ISO_GPU_CUDA_H
#define ISO_GPU_CUDA_H

#include "../gpu.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

/* Looked up at run time: nothing links libcuda. */
#define ISO_CUDA_DRIVER_CALLS(X)              \
    X(cuGetErrorString)                       \
    X(cuCtxGetCurrent)                        \
    X(cuCtxSetCurrent)                        \
    X(cuDevicePrimaryCtxGetState)             \
    X(cuDeviceGetAttribute)                   \
    X(cuMemGetAddressRange)                   \
    X(cuMemGetHandleForAddressRange)          \
    X(cuFlushGPUDirectRDMAWrites)             \
    X(cuMemGetAllocationGranularity)          \
    X(cuMemAddressReserve)                    \
    X(cuMemAddressFree)                       \
    X(cuMemCreate)                            \
    X(cuMemRelease)                           \
    X(cuMemMap)                               \
    X(cuMemUnmap)                             \
    X(cuMemSetAccess)                         \
    X(cuMemExportToShareableHandle)           \
    X(cuMemImportFromShareableHandle)         \
    X(cuMemRetainAllocationHandle)            \
    X(cuMemGetAllocationPropertiesFromHandle) \
    X(cuStreamBatchMemOp)

struct driver {
#define X(name) __typeof__(&name) name;
    ISO_CUDA_DRIVER_CALLS(X)
#undef X
};

/* Making a stream may wait for all kernels that run, under a lock that copies need as well, and the kernels may be
 * waiting for these copies. Therefore streams are made when the device is opened, and destroyed streams serve again. */
enum { ISO_CUDA_SPARE_STREAMS = 64 };

struct gpu {
    struct gpu_info info;
    struct driver driver;
    CUcontext context;                          /* the device's primary one; NULL: not started yet */
    size_t granularity;                         /* of chunks */
    cudaStream_t stream;                        /* for what this layer does to memory; non-blocking */
    cudaStream_t spare[ISO_CUDA_SPARE_STREAMS]; /* of low priority, made ahead; guarded by lock */
    unsigned n_spare;
    bool has_words;       /* streams store words and wait for them */
    int early;            /* kernels may be launched early: 1 yes, -1 no, 0 not known yet; atomic */
    pthread_mutex_t lock; /* error, spare */
    char error[256];
};

/* ---- gpu_cuda_call.c ---- */

/* The context and the device to make current again. */
struct iso_cuda_before {
    const struct gpu *gpu;
    CUcontext context; /* NULL: none */
    int device;        /* -1: none */
};
struct iso_cuda_before iso_cuda_enter(const struct gpu *gpu);
void iso_cuda_give_back(const struct iso_cuda_before *before);

/* Makes the PE's device current until the scope ends. Then the device that was current before is current again. A
 * device that the process does not use yet is the exception: making it current would take about 500 MB of its memory,
 * so the PE's device stays. Uses may be nested. What goes wrong, the next call says. */
#define iso_cuda_use(gpu) ISO_CUDA_USE(device_before, gpu)
#define ISO_CUDA_USE(name, gpu) \
    __attribute__((cleanup(iso_cuda_give_back), unused)) const struct iso_cuda_before name = iso_cuda_enter(gpu)

/* While a program captures a stream in CUDA's default mode, waits and allocations of every thread are forbidden and
 * invalidate the capture, except for threads that relax their mode. Returns the mode to restore. */
enum cudaStreamCaptureMode iso_cuda_relax(void);
void iso_cuda_restore(enum cudaStreamCaptureMode mode);
int iso_cuda_failed(struct gpu *gpu, int rc, const char *what, const char *words); /* rc */
/* 0, or -errno with the sentence that iso_gpu_error gives. */
int iso_cuda_check(struct gpu *gpu, const char *what, cudaError_t e);
int iso_cuda_check_driver(struct gpu *gpu, const char *what, CUresult e);

/* RUNTIME(gpu, cudaFree, ptr): the call with this PE's device current; 0, or -errno with a sentence. */
#define RUNTIME(gpu, call, ...)                        \
    __extension__({                                    \
        ISO_CUDA_USE(before_call, gpu);                \
        iso_cuda_check(gpu, #call, call(__VA_ARGS__)); \
    })
#define DRIVER(gpu, call, ...)                                              \
    __extension__({                                                         \
        ISO_CUDA_USE(before_call, gpu);                                     \
        iso_cuda_check_driver(gpu, #call, (gpu)->driver.call(__VA_ARGS__)); \
    })

/* ---- gpu_cuda_stream.c ---- */

/* gpu->stream and the spare ones. After a failure close releases what is there. */
int iso_cuda_open_streams(struct gpu *gpu);
void iso_cuda_close_streams(struct gpu *gpu);

/* ---- gpu_cuda_memory.c ---- */

/* Finds out whether memory can be shared in chunks: fills gpu->info, gpu->granularity. */
void iso_cuda_probe_memory(struct gpu *gpu);

#endif
