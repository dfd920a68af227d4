/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: gpu.h by the CUDA runtime and the driver. The driver's calls are looked up at run time: a program starts
 * on a machine without a driver and gets a sentence. Invariants: no file-scope state; every call makes the device
 * current in its thread first, and gives back the device that was current. cudaMalloc, cudaFree, cudaHostAlloc and
 * mapping may synchronise the device: only set-up calls use them. Includes gpu.h, log.h. Called by shmem/, coll/. */
#include "../../bootstrap/log.h"
#include "../gpu.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Looked up at run time: nothing links libcuda. */
#define DRIVER_CALLS(X)                       \
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
    X(cuModuleGetGlobal)                      \
    X(cuLibraryGetModule)                     \
    X(cuStreamBatchMemOp)

struct driver {
#define X(name) __typeof__(&name) name;
    DRIVER_CALLS(X)
#undef X
};

/* Making a stream may wait for all kernels that run, under a lock that copies need as well, and the kernels may be
 * waiting for these copies. Therefore streams are made when the device is opened, and destroyed streams serve again. */
enum { SPARE_STREAMS = 64 };

struct gpu {
    struct gpu_info info;
    struct driver driver;
    CUcontext context;                 /* the device's primary one; NULL: not started yet */
    size_t granularity;                /* of chunks */
    cudaStream_t stream;               /* for what this layer does to memory; non-blocking */
    cudaStream_t spare[SPARE_STREAMS]; /* of low priority, made ahead; guarded by lock */
    unsigned n_spare;
    bool has_words;       /* streams store words and wait for them */
    int early;            /* kernels may be launched early: 1 yes, -1 no, 0 not known yet; atomic */
    pthread_mutex_t lock; /* error, spare */
    char error[256];
};

/* ---- before and after a call ---- */

/* The context and the device to make current again. */
struct cuda_before {
    const struct gpu *gpu;
    CUcontext context; /* NULL: none */
    int device;        /* -1: none */
};

/* A thread in which nothing has been made current has no context, although cudaGetDevice says 0: contexts tell. */
static struct cuda_before enter(const struct gpu *gpu)
{
    const struct driver *driver = &gpu->driver;
    struct cuda_before before = {gpu, NULL, -1};
    CUcontext now = NULL;
    unsigned flags = 0;
    int device = -1, is_active = 0;
    if (driver->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now != NULL && now == gpu->context)
        return before;
    if (cudaGetDevice(&device) == cudaSuccess && device != gpu->info.device &&
        driver->cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active)
        before.device = device;
    before.context = now;
    (void)cudaSetDevice(gpu->info.device);
    return before;
}

/* The context comes last: it may be one that the program has made itself. */
static void give_back(const struct cuda_before *before)
{
    if (before->device >= 0)
        (void)cudaSetDevice(before->device);
    if (before->context != NULL)
        (void)before->gpu->driver.cuCtxSetCurrent(before->context);
}

/* Makes the PE's device current until the scope ends. Then the device that was current before is current again. A
 * device that the process does not use yet is the exception: making it current would take about 500 MB of its memory,
 * so the PE's device stays. Uses may be nested. What goes wrong, the next call says. */
#define use_device(gpu) USE_DEVICE_AS(device_before, gpu)
#define USE_DEVICE_AS(name, gpu) __attribute__((cleanup(give_back), unused)) const struct cuda_before name = enter(gpu)

/* While a program captures a stream in CUDA's default mode, waits and allocations of every thread are forbidden and
 * invalidate the capture, except for threads that relax their mode. Returns the mode to restore. */
static enum cudaStreamCaptureMode relax_capture(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
static void restore_capture(enum cudaStreamCaptureMode mode) { (void)cudaThreadExchangeStreamCaptureMode(&mode); }

/* ---- failures ---- */

static int cuda_failed(struct gpu *gpu, int rc, const char *what, const char *words)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof gpu->error, "%s: %s", what, words != NULL ? words : "unknown error");
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* 0, or -errno with the sentence that iso_gpu_error gives. The runtime forgets its error. A kernel is registered with
 * the copy of the runtime that its program links, and nvcc links a static one by default. */
static int cuda_check(struct gpu *gpu, const char *what, cudaError_t e)
{
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    if (e == cudaErrorInvalidDeviceFunction)
        return cuda_failed(gpu, -EIO, what,
                           "invalid device function: the program is linked with a static CUDA runtime (link it with "
                           "nvcc -cudart shared, or with CMake's isomer::isomer), or the kernel is not compiled for "
                           "this device");
    return cuda_failed(gpu, e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, what, cudaGetErrorString(e));
}

static int check_driver(struct gpu *gpu, const char *what, CUresult e)
{
    const char *words = NULL;
    if (e == CUDA_SUCCESS)
        return 0;
    gpu->driver.cuGetErrorString(e, &words);
    return cuda_failed(gpu, e == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, what, words);
}

/* RUNTIME(gpu, cudaFree, ptr): the call with this PE's device current; 0, or -errno with a sentence. */
#define RUNTIME(gpu, call, ...)                    \
    __extension__({                                \
        USE_DEVICE_AS(before_call, gpu);           \
        cuda_check(gpu, #call, call(__VA_ARGS__)); \
    })
#define DRIVER(gpu, call, ...)                                     \
    __extension__({                                                \
        USE_DEVICE_AS(before_call, gpu);                           \
        check_driver(gpu, #call, (gpu)->driver.call(__VA_ARGS__)); \
    })

/* ---- kernels ---- */

static const void *function_of(gpu_kernel kernel) { return (const void *)(uintptr_t)kernel; }

/* More dynamic shared memory than every device has, 48 KiB, must be asked for. */
static int allow_shared(struct gpu *gpu, gpu_kernel kernel, size_t bytes)
{
    if (bytes <= (size_t)48 << 10)
        return 0;
    return RUNTIME(gpu, cudaFuncSetAttribute, function_of(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                   (int)bytes);
}

static dim3 dim_of(struct gpu_dim d)
{
    dim3 dim = {d.x, d.y != 0 ? d.y : 1, d.z != 0 ? d.z : 1};
    return dim;
}

int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    void *argument = (void *)(uintptr_t)launch->args;
    void **arguments = launch->arguments != NULL ? (void **)(uintptr_t)launch->arguments : &argument;
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = {.gridDim = dim_of(launch->grid),
                                 .blockDim = dim_of(launch->block),
                                 .dynamicSmemBytes = launch->shared_bytes,
                                 .stream = (cudaStream_t)stream,
                                 .attrs = attributes};
    use_device(gpu);
    int rc = allow_shared(gpu, launch->kernel, launch->shared_bytes);
    if (rc != 0)
        return rc;

    /* Kernels wait for those before them when they, and the PTX that they come from, are for 9.0 or later; all kernels
     * of a build are alike. Graphs take such launches since driver 12.3. Relaxed: all threads find the same. */
    int known = __atomic_load_n(&gpu->early, __ATOMIC_RELAXED), driver = 0;
    struct cudaFuncAttributes of;
    if (launch->early && known == 0) {
        bool can = RUNTIME(gpu, cudaDriverGetVersion, &driver) == 0 && driver >= 12030 &&
                   RUNTIME(gpu, cudaFuncGetAttributes, &of, function_of(launch->kernel)) == 0 && of.ptxVersion >= 90 &&
                   of.binaryVersion >= 90;
        known = can ? 1 : -1;
        __atomic_store_n(&gpu->early, known, __ATOMIC_RELAXED);
    }
    if (launch->early && known > 0) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (launch->cooperative) {
        attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[config.numAttrs++].val.cooperative = 1;
    }
    return RUNTIME(gpu, cudaLaunchKernelExC, &config, function_of(launch->kernel), arguments);
}

int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel)
{
    struct cudaFuncAttributes attributes;
    return RUNTIME(gpu, cudaFuncGetAttributes, &attributes, function_of(kernel));
}

int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks)
{
    int each = 0;
    *blocks = 0;
    use_device(gpu);
    int rc = allow_shared(gpu, kernel, shared_bytes);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor, &each, function_of(kernel), (int)block,
                 shared_bytes);
    *blocks = each * gpu->info.multiprocessors;
    return rc;
}

int iso_gpu_module_write(struct gpu *gpu, void *module, const char *name, const void *value, size_t len)
{
    CUdeviceptr at = 0;
    size_t bytes = 0;
    if (DRIVER(gpu, cuModuleGetGlobal, &at, &bytes, (CUmodule)module, name) != 0)
        return -ENOENT;
    if (bytes != len)
        return cuda_failed(gpu, -ENOENT, "cuModuleGetGlobal", "the variable has another size");
    int rc = RUNTIME(gpu, cudaMemcpyAsync, (void *)at, value, len, cudaMemcpyHostToDevice, gpu->stream);
    return rc == 0 ? iso_gpu_stream_wait(gpu, gpu->stream) : rc;
}

int iso_gpu_library_module(struct gpu *gpu, void *library, void **module)
{
    return DRIVER(gpu, cuLibraryGetModule, (CUmodule *)module, (CUlibrary)library);
}

/* ---- streams ---- */

static cudaStream_t cuda_stream_of(gpu_stream stream) { return (cudaStream_t)stream; }

static int make_stream(struct gpu *gpu, bool high_priority, cudaStream_t *stream)
{
    int least = 0, greatest = 0;
    use_device(gpu);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return RUNTIME(gpu, cudaStreamCreateWithPriority, stream, cudaStreamNonBlocking, high_priority ? greatest : least);
}

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    cudaStream_t s = NULL;
    use_device(gpu);

    /* Takes an idle stream only: work that still runs in a destroyed stream may wait for work of the new one. */
    enum cudaStreamCaptureMode mode = relax_capture();
    pthread_mutex_lock(&gpu->lock);
    for (unsigned i = high_priority ? 0 : gpu->n_spare; i-- > 0 && s == NULL;)
        if (cudaStreamQuery(gpu->spare[i]) == cudaSuccess) {
            s = gpu->spare[i];
            gpu->spare[i] = gpu->spare[--gpu->n_spare];
        }
    pthread_mutex_unlock(&gpu->lock);
    restore_capture(mode);
    int rc = s == NULL ? make_stream(gpu, high_priority, &s) : 0;
    *stream = s;
    return rc;
}

int iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    cudaStream_t s = cuda_stream_of(stream);
    int least = 0, greatest = 0, priority = 1;
    bool is_spare = false;
    unsigned flags = 0;
    use_device(gpu);

    /* iso_gpu_stream_create hands a stream out again, if it is like its own: the program may have made this one. */
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    bool again = cudaStreamGetPriority(s, &priority) == cudaSuccess && priority == least &&
                 cudaStreamGetFlags(s, &flags) == cudaSuccess && (flags & cudaStreamNonBlocking) != 0;
    pthread_mutex_lock(&gpu->lock);
    for (unsigned i = 0; i < gpu->n_spare; i++)
        is_spare = is_spare || gpu->spare[i] == s;
    bool kept = !is_spare && again && gpu->n_spare < SPARE_STREAMS;
    if (kept)
        gpu->spare[gpu->n_spare++] = s;
    pthread_mutex_unlock(&gpu->lock);
    if (is_spare)
        return cuda_failed(gpu, -EBADF, "cudaStreamDestroy", "the stream is destroyed already");
    return kept || stream == NULL ? 0 : RUNTIME(gpu, cudaStreamDestroy, s);
}

/* A query takes about a microsecond: short work is met by polling, longer work leaves the core to others. */
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    const struct timespec nap = {0, 50000};
    cudaError_t e;
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    for (unsigned polls = 0; (e = cudaStreamQuery(cuda_stream_of(stream))) == cudaErrorNotReady; polls++) {
        if (polls > 4000)
            nanosleep(&nap, NULL);
        else if (polls > 50)
            sched_yield();
    }
    restore_capture(mode);
    return cuda_check(gpu, "cudaStreamQuery", e);
}

int iso_gpu_wait_all(struct gpu *gpu)
{
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    cudaError_t e = cudaDeviceSynchronize();
    restore_capture(mode);
    return e == cudaErrorCudartUnloading ? 0 : cuda_check(gpu, "cudaDeviceSynchronize", e); /* after its exit */
}

int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier)
{
    cudaEvent_t event;
    use_device(gpu);
    int rc = RUNTIME(gpu, cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaEventRecord, event, cuda_stream_of(earlier));
    if (rc == 0)
        rc = RUNTIME(gpu, cudaStreamWaitEvent, cuda_stream_of(later), event, 0);
    (void)cudaEventDestroy(event); /* freed when it has happened */
    return rc;
}

/* The default stream may not even be asked while another one is captured: then it counts as captured. */
bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    use_device(gpu);
    cudaError_t e = cudaStreamIsCapturing(cuda_stream_of(stream), &status);
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return e == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
}

/* ---- copies and words ---- */

int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemcpyAsync, dest, source, len, cudaMemcpyDefault, cuda_stream_of(stream));
}

int iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len)
{
    (void)gpu, (void)theirs, (void)ours, (void)len;
    return 0; /* not asked: no runtime is known to lose copies */
}

int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemsetAsync, dest, byte, len, cuda_stream_of(stream));
}

bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream)
{
    return gpu->has_words && !iso_gpu_stream_is_capturing(gpu, stream);
}

int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream)
{
    enum { AT_ONCE = 64 };
    CUstreamBatchMemOpParams ops[AT_ONCE];
    int rc = 0;
    for (int done = 0, some; done < n && rc == 0; done += some) {
        some = n - done < AT_ONCE ? n - done : AT_ONCE;
        memset(ops, 0, (size_t)some * sizeof ops[0]);
        for (int i = 0; i < some; i++) {
            const struct gpu_word *word = &words[done + i];
            if (word->waits) {
                ops[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
                ops[i].waitValue.address = (CUdeviceptr)(uintptr_t)word->at;
                ops[i].waitValue.value64 = word->value;
                ops[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
            } else {
                /* Stores come with a barrier of their own; this version of the call has no flag that leaves it out. */
                ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
                ops[i].writeValue.address = (CUdeviceptr)(uintptr_t)word->at;
                ops[i].writeValue.value64 = word->value;
                ops[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
            }
        }
        rc = DRIVER(gpu, cuStreamBatchMemOp, (CUstream)cuda_stream_of(stream), (unsigned)some, ops, 0);
    }
    return rc;
}

/* ---- marks: events, which the device's front end stamps ---- */

int iso_gpu_mark_create(struct gpu *gpu, gpu_mark *mark)
{
    cudaEvent_t event = NULL;
    int rc = RUNTIME(gpu, cudaEventCreateWithFlags, &event, cudaEventDefault);
    *mark = event;
    return rc;
}

void iso_gpu_mark_destroy(struct gpu *gpu, gpu_mark mark)
{
    if (mark != NULL)
        (void)RUNTIME(gpu, cudaEventDestroy, (cudaEvent_t)mark);
}

int iso_gpu_mark_set(struct gpu *gpu, gpu_mark mark, gpu_stream stream)
{
    return RUNTIME(gpu, cudaEventRecord, (cudaEvent_t)mark, cuda_stream_of(stream));
}

int iso_gpu_mark_time(struct gpu *gpu, gpu_mark since, gpu_mark mark, int64_t *ns)
{
    float ms = 0;
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    cudaError_t e = cudaEventQuery((cudaEvent_t)mark);
    if (e == cudaSuccess)
        e = cudaEventElapsedTime(&ms, (cudaEvent_t)since, (cudaEvent_t)mark);
    restore_capture(mode);
    *ns = (int64_t)((double)ms * 1e6);
    return e == cudaErrorNotReady ? -EBUSY : cuda_check(gpu, "cudaEventElapsedTime", e);
}

/* ---- graphs ---- */

/* Relaxed: other threads of this PE may allocate and wait during the capture. */
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream)
{
    return RUNTIME(gpu, cudaStreamBeginCapture, cuda_stream_of(stream), cudaStreamCaptureModeRelaxed);
}

int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t executable = NULL;
    use_device(gpu);
    int rc = RUNTIME(gpu, cudaStreamEndCapture, cuda_stream_of(stream), &captured);
    if (rc == 0)
        rc = RUNTIME(gpu, cudaGraphInstantiate, &executable, captured, 0);
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    *graph = executable;
    return rc;
}

int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream)
{
    return RUNTIME(gpu, cudaGraphLaunch, (cudaGraphExec_t)graph, cuda_stream_of(stream));
}

int iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph)
{
    return RUNTIME(gpu, cudaGraphExecDestroy, (cudaGraphExec_t)graph);
}

/* ---- copy engines: the driver's own choice ---- */

int iso_gpu_copy_by_engine(struct gpu *gpu, void *dest, const void *source, size_t len)
{
    (void)dest, (void)source, (void)len;
    return cuda_failed(gpu, -ENOTSUP, "a copy by a chosen engine", "CUDA chooses engines itself");
}

/* ---- memory that peers map: chunks (VMM) or whole allocations (IPC) ---- */

/* All of it is ordinary device memory, which is coherent towards peers: GPU_BULK and GPU_COMMUNICATION are alike. It is
 * zeroed on this layer's own stream, and that stream alone is waited for. */
static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }
static char *pointer(CUdeviceptr p) { return (char *)(uintptr_t)p; }

static int attribute(struct gpu *gpu, CUdevice_attribute name)
{
    int value = 0;
    return gpu->driver.cuDeviceGetAttribute(&value, name, gpu->info.device) == CUDA_SUCCESS ? value : 0;
}

#define BY_DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
static CUmemAllocationProp chunk_properties(struct gpu *gpu)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = gpu->info.device;
    prop.requestedHandleTypes = BY_DESCRIPTOR;
    if (attribute(gpu, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        prop.allocFlags.gpuDirectRDMACapable = 1;
    return prop;
}

size_t iso_gpu_granularity(struct gpu *gpu) { return gpu->granularity; }

int iso_gpu_reserve(struct gpu *gpu, size_t len, char **base)
{
    CUdeviceptr at = 0;
    int rc = DRIVER(gpu, cuMemAddressReserve, &at, len, gpu->granularity, 0, 0);
    *base = pointer(at);
    return rc;
}

void iso_gpu_unreserve(struct gpu *gpu, char *base, size_t len)
{
    (void)DRIVER(gpu, cuMemAddressFree, address(base), len);
}

static int grant(struct gpu *gpu, char *at, size_t len, int device)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return DRIVER(gpu, cuMemSetAccess, address(at), len, &access, 1);
}

/* The memory mapped at `at`, when it was made to be shared by descriptors. */
static int export_vmm(struct gpu *gpu, void *at, struct gpu_key *key)
{
    use_device(gpu);
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop;
    int rc = DRIVER(gpu, cuMemRetainAllocationHandle, &memory, at);
    if (rc != 0)
        return rc;
    rc = DRIVER(gpu, cuMemGetAllocationPropertiesFromHandle, &prop, memory);
    if (rc == 0 && ((unsigned)prop.requestedHandleTypes & BY_DESCRIPTOR) == 0)
        rc = cuda_failed(gpu, -ENOTSUP, "cuMemCreate", "this memory was not made to be shared");
    memset(key, 0, sizeof *key);
    key->fd = -1;
    if (rc == 0)
        rc = DRIVER(gpu, cuMemExportToShareableHandle, &key->fd, memory, BY_DESCRIPTOR, 0);
    gpu->driver.cuMemRelease(memory);
    return rc;
}

/* Maps at [at, at + len), for this device. The mapping keeps the memory: the handle is given back in any case. */
static int map(struct gpu *gpu, char *at, size_t len, CUmemGenericAllocationHandle memory)
{
    use_device(gpu);
    int rc = DRIVER(gpu, cuMemMap, address(at), len, 0, memory, 0);
    gpu->driver.cuMemRelease(memory);
    if (rc != 0)
        return rc;
    rc = grant(gpu, at, len, gpu->info.device);
#ifdef ISO_PES_AS_THREADS /* the kernels of other PEs use this very mapping */
    for (int i = 0, can = 0; i < gpu->info.n_devices && rc == 0; i++)
        if (cudaDeviceCanAccessPeer(&can, i, gpu->info.device) == cudaSuccess && can)
            rc = grant(gpu, at, len, i);
#endif
    if (rc != 0)
        iso_gpu_chunk_release(gpu, at, len);
    return rc;
}

static int zero(struct gpu *gpu, void *at, size_t len)
{
    int rc = RUNTIME(gpu, cudaMemsetAsync, at, 0, len, gpu->stream);
    return rc == 0 ? iso_gpu_stream_wait(gpu, gpu->stream) : rc;
}

int iso_gpu_chunk_create(struct gpu *gpu, char *at, size_t len, enum gpu_memory kind, struct gpu_key *key)
{
    use_device(gpu);
    CUmemAllocationProp prop = chunk_properties(gpu);
    CUmemGenericAllocationHandle memory;
    (void)kind;
    memset(key, 0, sizeof *key);
    key->fd = -1;
    int rc = DRIVER(gpu, cuMemCreate, &memory, len, &prop, 0);
    if (rc == 0)
        rc = map(gpu, at, len, memory);
    if (rc != 0)
        return rc;
    rc = zero(gpu, at, len);
    if (rc == 0)
        rc = export_vmm(gpu, at, key);
    if (rc != 0)
        iso_gpu_chunk_release(gpu, at, len);
    return rc;
}

int iso_gpu_chunk_import(struct gpu *gpu, char *at, size_t len, const struct gpu_key *key)
{
    CUmemGenericAllocationHandle memory;
    int rc = DRIVER(gpu, cuMemImportFromShareableHandle, &memory, (void *)(uintptr_t)key->fd, BY_DESCRIPTOR);
    close(key->fd);
    return rc == 0 ? map(gpu, at, len, memory) : rc;
}

void iso_gpu_chunk_release(struct gpu *gpu, char *at, size_t len) { (void)DRIVER(gpu, cuMemUnmap, address(at), len); }

static int get_ipc_key(struct gpu *gpu, char *base, struct gpu_key *key)
{
    cudaIpcMemHandle_t handle;
    _Static_assert(sizeof handle <= sizeof key->bytes, "a key holds the handle");
    int rc = RUNTIME(gpu, cudaIpcGetMemHandle, &handle, base);
    memset(key, 0, sizeof *key);
    key->fd = -1;
    if (rc == 0)
        memcpy(key->bytes, &handle, sizeof handle);
    return rc;
}

/* Whole pages of the device: smaller allocations share a page, and a key opens all of it to the peer. */
int iso_gpu_shared_create(struct gpu *gpu, size_t len, enum gpu_memory kind, char **base, struct gpu_key *key)
{
    use_device(gpu);
    size_t page = gpu->granularity;
    void *memory = NULL;
    (void)kind;
    int rc = RUNTIME(gpu, cudaMalloc, &memory, (len + page - 1) / page * page);
    if (rc == 0)
        rc = zero(gpu, memory, len);
    if (rc == 0)
        rc = get_ipc_key(gpu, (char *)memory, key);
    if (rc != 0) {
        (void)cudaFree(memory);
        return rc;
    }
    *base = (char *)memory;
    return 0;
}

int iso_gpu_shared_import(struct gpu *gpu, const struct gpu_key *key, size_t len, char **base)
{
    use_device(gpu);
    cudaIpcMemHandle_t handle;
    void *memory = NULL;
    (void)len;
    memcpy(&handle, key->bytes, sizeof handle);
    int rc = RUNTIME(gpu, cudaIpcOpenMemHandle, &memory, handle, cudaIpcMemLazyEnablePeerAccess);
    *base = (char *)memory;
    return rc;
}

void iso_gpu_shared_close(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    (void)RUNTIME(gpu, cudaIpcCloseMemHandle, base);
}

void iso_gpu_shared_destroy(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    (void)RUNTIME(gpu, cudaFree, base);
}

int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, struct gpu_allocation *a)
{
    CUdeviceptr base = 0;
    int rc = DRIVER(gpu, cuMemGetAddressRange, &base, &a->len, address(ptr));
    if (rc != 0)
        return rc;
    a->start = pointer(base);
    a->method = GPU_SHARE_VMM;
    if (export_vmm(gpu, ptr, &a->key) == 0)
        return 0;
    a->method = GPU_SHARE_IPC;
    return get_ipc_key(gpu, a->start, &a->key) == 0 ? 0 : -ENOTSUP;
}

/* ---- memory that network devices reach ---- */

int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)at & ~(page - 1);
    size_t whole = (((uintptr_t)at + len + page - 1) & ~(page - 1)) - start;
    *fd = -1;
    *offset = (uintptr_t)at - start;
    if (!attribute(gpu, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        return cuda_failed(gpu, -ENOTSUP, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED", "this driver makes no dma-bufs");
    return DRIVER(gpu, cuMemGetHandleForAddressRange, fd, (CUdeviceptr)start, whole,
                  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

void iso_gpu_flush_writes(struct gpu *gpu)
{
    if (!gpu->info.orders_writes)
        (void)DRIVER(gpu, cuFlushGPUDirectRDMAWrites, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    *ptr = NULL;
    int rc = RUNTIME(gpu, cudaMalloc, ptr, len);
    if (rc == 0)
        rc = zero(gpu, *ptr, len);
    if (rc != 0) {
        (void)cudaFree(*ptr);
        *ptr = NULL;
    }
    restore_capture(mode);
    return rc;
}

/* cudaFree and cudaFreeHost wait for all kernels, and hold a lock meanwhile that copies of other threads need: a kernel
 * that waits for the proxy then waits for ever. cudaDeviceSynchronize in front of them would end every capture. So
 * callers free behind iso_gpu_wait_all. Two do not: a second probe at the same time frees its tools, and a member frees
 * its table of nodes when another member has no memory for one. */
void iso_gpu_free(struct gpu *gpu, void *ptr)
{
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    (void)RUNTIME(gpu, cudaFree, ptr);
    restore_capture(mode);
}

int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device)
{
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    *host = *device = NULL;
    int rc = RUNTIME(gpu, cudaHostAlloc, host, len, cudaHostAllocPortable | cudaHostAllocMapped);
    if (rc == 0) {
        memset(*host, 0, len);
        rc = RUNTIME(gpu, cudaHostGetDevicePointer, device, *host, 0);
    }
    if (rc != 0) {
        (void)cudaFreeHost(*host);
        *host = NULL;
    }
    restore_capture(mode);
    return rc;
}

void iso_gpu_host_free(struct gpu *gpu, void *host)
{
    use_device(gpu);
    enum cudaStreamCaptureMode mode = relax_capture();
    (void)RUNTIME(gpu, cudaFreeHost, host);
    restore_capture(mode);
}

/* Managed memory counts as pinned: both sides may load it. */
enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr)
{
    struct cudaPointerAttributes attributes;
    use_device(gpu);
    if (cudaPointerGetAttributes(&attributes, ptr) != cudaSuccess) {
        (void)cudaGetLastError();
        return GPU_POINTER_HOST;
    }
    if (attributes.type == cudaMemoryTypeDevice)
        return GPU_POINTER_DEVICE;
    bool pinned = attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeManaged;
    return pinned ? GPU_POINTER_PINNED : GPU_POINTER_HOST;
}

/* Finds out whether memory can be shared in chunks: fills gpu->info, gpu->granularity. Tries the features that the
 * driver promises: containers and virtual machines take some of them away. */
static void probe_memory(struct gpu *gpu)
{
    CUmemAllocationProp prop = chunk_properties(gpu);
    struct gpu_key key = {{0}, -1};
    char *at = NULL;
    gpu->granularity = (size_t)2 << 20;
    gpu->info.orders_writes = attribute(gpu, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                              (int)CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    if (!attribute(gpu, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        !attribute(gpu, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
        snprintf(gpu->info.vmm_why, sizeof gpu->info.vmm_why, "the driver has no shareable virtual memory here");
        return;
    }
    int rc = DRIVER(gpu, cuMemGetAllocationGranularity, &gpu->granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (rc == 0)
        rc = iso_gpu_reserve(gpu, gpu->granularity, &at);
    if (rc == 0) {
        rc = iso_gpu_chunk_create(gpu, at, gpu->granularity, GPU_COMMUNICATION, &key);
        if (rc == 0) {
            close(key.fd);
            iso_gpu_chunk_release(gpu, at, gpu->granularity);
        }
        iso_gpu_unreserve(gpu, at, gpu->granularity);
    }
    gpu->info.can_vmm = rc == 0;
    if (rc != 0)
        snprintf(gpu->info.vmm_why, sizeof gpu->info.vmm_why, "%.90s", gpu->error);
}

/* ---- the driver's calls ---- */

static void *driver_entry(const char *name)
{
    enum cudaDriverEntryPointQueryResult found;
    void *entry = NULL;
#if CUDART_VERSION >= 12050
    cudaError_t e = cudaGetDriverEntryPointByVersion(name, &entry, 12040, cudaEnableDefault, &found);
#else
    cudaError_t e = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
    return e == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : NULL;
}

/* ---- the device ---- */

/* The first CUDA call. Kernels are loaded now and not at their first launch, which waits for kernels that run: these
 * may be waiting for the new one. Streams that wait for words of peers should hold up few other streams, and so share
 * few queues. Variables that are set already stay as they are. */
#define MOST_QUEUES "32" /* that CUDA has; 8 unless it is told */
static int device_count(int *n, char *why, size_t why_bytes)
{
    int driver = 0;
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", MOST_QUEUES, 0);
    cudaError_t e = cudaGetDeviceCount(n);
    if (e == cudaSuccess && *n > 0)
        return 0;
    const char *words = e == cudaSuccess ? "the driver shows none" : cudaGetErrorString(e);
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        words = "no driver is installed here";
    (void)cudaGetLastError();
    *n = 0;
    snprintf(why, why_bytes, "no NVIDIA device: %s", words);
    return -ENODEV;
}

/* Kernels for `archs`, as "80,90", run on devices with the same major number and the same or a larger minor one. */
static bool has_code(const char *archs, int major, int minor)
{
    for (; *archs != '\0'; archs += strcspn(archs, ","), archs += *archs == ',')
        if (strtol(archs, NULL, 10) / 10 == major && strtol(archs, NULL, 10) % 10 <= minor)
            return true;
    return false;
}

static int describe_cuda(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    struct cudaDeviceProp prop;
    int rc = RUNTIME(gpu, cudaGetDeviceProperties, &prop, info->device);
    if (rc != 0)
        return rc;
    if (!has_code(ISO_CUDA_ARCH, prop.major, prop.minor))
        log_warn("%s has compute capability %d.%d, for which this library has no kernels: the driver compiles them when "
                 "they are first launched, which may take minutes; build it with -DISO_CUDA_ARCH=%d%d",
                 prop.name, prop.major, prop.minor, prop.major, prop.minor);
    info->flavour = "cuda";
    info->lock_calls = "cudaFree, cudaFreeHost, cudaHostUnregister";
    snprintf(info->name, sizeof info->name, "%.63s", prop.name);
    info->memory_bytes = prop.totalGlobalMem;
    info->multiprocessors = prop.multiProcessorCount;
    info->wave_size = prop.warpSize;
    info->shared_bytes = prop.sharedMemPerBlockOptin;
    info->can_ipc = prop.unifiedAddressing != 0;

    /* More streams than this share queues, and a wait in one may then stand in front of the work that it waits for. */
    const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    long n = queues != NULL ? strtol(queues, NULL, 10) : 0;
    info->hardware_queues = n >= 1 && n <= 32 ? (unsigned)n : 8; /* device_count sets it, unless CUDA ran before */
    info->joins_captures = info->polls_foreign = true;
    gpu->has_words = attribute(gpu, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
    return RUNTIME(gpu, cudaDeviceGetPCIBusId, info->id, (int)sizeof info->id, info->device);
}

static int cuda_start(struct gpu *gpu)
{
    void *entry;
#define X(name)                                                                            \
    entry = driver_entry(#name);                                                           \
    if (entry == NULL)                                                                     \
        return cuda_failed(gpu, -ENODEV, "the NVIDIA driver is too old, it lacks", #name); \
    memcpy(&gpu->driver.name, &entry, sizeof entry);
    DRIVER_CALLS(X)
#undef X
    use_device(gpu);
    int rc = describe_cuda(gpu);
    if (rc == 0)
        rc = RUNTIME(gpu, cudaStreamCreateWithFlags, &gpu->stream, cudaStreamNonBlocking);
    for (; gpu->n_spare < SPARE_STREAMS && rc == 0; gpu->n_spare += rc == 0)
        rc = make_stream(gpu, false, &gpu->spare[gpu->n_spare]);
    if (rc == 0) /* the stream has made it current, also where cudaSetDevice does not */
        rc = DRIVER(gpu, cuCtxGetCurrent, &gpu->context);
    if (rc == 0)
        probe_memory(gpu);
    return rc;
}

int iso_gpu_open(struct gpu **result, int local_rank, const char *choice, char *why, size_t why_bytes)
{
    int n, rc = device_count(&n, why, why_bytes);
    if (rc != 0)
        return rc;
    char *end = NULL;
    errno = 0;
    long chosen = choice[0] == '\0' ? local_rank % n : strtol(choice, &end, 10);
    if (errno != 0 || (end != NULL && *end != '\0') || chosen < 0 || chosen >= n) {
        snprintf(why, why_bytes, "SHMEM_DEVICE=%s is not a number in 0..%d", choice, n - 1);
        return -EINVAL;
    }
    int device = (int)chosen;
    struct gpu *g = (struct gpu *)calloc(1, sizeof *g);
    if (g == NULL) {
        snprintf(why, why_bytes, "no host memory left");
        return -ENOMEM;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->info.device = device;
    g->info.n_devices = n;
    rc = cuda_start(g);
    if (rc != 0) {
        snprintf(why, why_bytes, "device %d: %s", device, g->error);
        iso_gpu_close(g);
        return -ENODEV;
    }
    (void)cudaSetDevice(device); /* the program's own calls mean it from now on, in this thread */
    *result = g;
    return 0;
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    if (gpu->stream != NULL) { /* else the driver's calls may not even be looked up */
        use_device(gpu);
        (void)cudaStreamDestroy(gpu->stream);
        while (gpu->n_spare > 0)
            (void)cudaStreamDestroy(gpu->spare[--gpu->n_spare]);
    }
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }
const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }

/* A device that this process does not see (each PE was given one of its own) counts as reachable: only mapping its
 * memory tells. Mapping of either method enables the access. Where PEs are threads of one process nothing is mapped,
 * and the access is enabled here. */
bool iso_gpu_reaches(struct gpu *gpu, const char *id)
{
    int other, can = 0;
    use_device(gpu);
    if (strcmp(id, gpu->info.id) == 0)
        return true;
    if (cudaDeviceGetByPCIBusId(&other, id) != cudaSuccess) {
        (void)cudaGetLastError();
        return true;
    }
    if (cudaDeviceCanAccessPeer(&can, gpu->info.device, other) != cudaSuccess || !can) {
        (void)cudaGetLastError();
        return false;
    }
#ifdef ISO_PES_AS_THREADS
    if (cudaDeviceEnablePeerAccess(other, 0) != cudaSuccess)
        (void)cudaGetLastError(); /* it already is */
#endif
    return true;
}

void iso_gpu_survey(char *text, size_t bytes)
{
    struct cudaDeviceProp prop;
    int n;
    if (device_count(&n, text, bytes) != 0)
        return;
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess)
        snprintf(prop.name, sizeof prop.name, "a device that reports: %s", cudaGetErrorString(cudaGetLastError()));
    const char *loading = getenv("CUDA_MODULE_LOADING");
    snprintf(text, bytes, "%d NVIDIA device%s, the first is %s%s", n, n > 1 ? "s" : "", prop.name,
             loading != NULL && strcmp(loading, "LAZY") == 0
                 ? "; CUDA_MODULE_LOADING=LAZY: a kernel's first launch may wait for kernels that wait for it"
                 : "");
}
