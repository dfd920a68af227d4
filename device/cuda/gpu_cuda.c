/* SPDX-License-Identifier: MIT */
/* gpu.h for NVIDIA: the device, streams, copies and kernels, by the CUDA runtime. The driver's calls are looked up at
 * run time, so that a program starts on a machine without a driver and is told so. Invariants: no file-scope state;
 * every call makes the device current in its thread first. Includes gpu_cuda.h. Called by shmem/, gpu_cuda_memory.c. */
#include "gpu_cuda.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The first call that the driver lacks, or NULL. */
static const char *driver_look_up(struct driver *driver)
{
    void *entry;
#define X(name)                  \
    entry = driver_entry(#name); \
    if (entry == NULL)           \
        return #name;            \
    memcpy(&driver->name, &entry, sizeof entry);
    ISO_CUDA_DRIVER_CALLS(X)
#undef X
    return NULL;
}

/* ---- the device ---- */

void iso_cuda_use(const struct gpu *gpu) { (void)cudaSetDevice(gpu->info.device); }

enum cudaStreamCaptureMode iso_cuda_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
void iso_cuda_restore(enum cudaStreamCaptureMode mode) { (void)cudaThreadExchangeStreamCaptureMode(&mode); }

int iso_cuda_failed(struct gpu *gpu, int rc, const char *what, const char *words)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof gpu->error, "%s: %s", what, words != NULL ? words : "unknown error");
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* The runtime forgets its error. A kernel is known to the copy of the runtime that its program links, and nvcc links a
 * static one unless it is told. */
int iso_cuda_check(struct gpu *gpu, const char *what, cudaError_t e)
{
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    if (e == cudaErrorInvalidDeviceFunction)
        return iso_cuda_failed(gpu, -EIO, what,
                               "invalid device function: the program is linked with a static CUDA runtime (link it with "
                               "nvcc -cudart shared, or with CMake's isomer::isomer), or the kernel is not compiled for "
                               "this device");
    return iso_cuda_failed(gpu, e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, what, cudaGetErrorString(e));
}

int iso_cuda_check_driver(struct gpu *gpu, const char *what, CUresult e)
{
    const char *words = NULL;
    if (e == CUDA_SUCCESS)
        return 0;
    gpu->driver.cuGetErrorString(e, &words);
    return iso_cuda_failed(gpu, e == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, what, words);
}

/* The first CUDA call. Kernels are to be loaded then and not when they are first launched, which waits for those that
 * run: and they may be waiting for the new one. Streams that wait for words of peers should hold up as few others as
 * can be, and so share as few queues. Who has set the variables has it his way. */
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

static int choose(int local_rank, const char *choice, int n, char *why, size_t why_bytes)
{
    char *end;
    if (choice[0] == '\0')
        return local_rank % n;
    errno = 0;
    long device = strtol(choice, &end, 10);
    if (errno == 0 && *end == '\0' && device >= 0 && device < n)
        return (int)device;
    snprintf(why, why_bytes, "SHMEM_DEVICE=%s is no number in 0..%d", choice, n - 1);
    return -EINVAL;
}

/* More streams than this share queues, and what waits in one may then stand before what it waits for. */
static unsigned hardware_queues(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    long n = text != NULL ? strtol(text, NULL, 10) : 0;
    return n >= 1 && n <= 32 ? (unsigned)n : 8; /* device_count has set it; too late if CUDA ran before */
}

static int describe(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    struct cudaDeviceProp prop;
    int rc = RUNTIME(gpu, cudaGetDeviceProperties, &prop, info->device);
    if (rc != 0)
        return rc;
    info->flavour = "cuda";
    snprintf(info->name, sizeof info->name, "%.63s", prop.name);
    info->memory_bytes = prop.totalGlobalMem;
    info->multiprocessors = prop.multiProcessorCount;
    info->wave_size = prop.warpSize;
    info->can_ipc = prop.unifiedAddressing != 0;
    info->hardware_queues = hardware_queues();
    info->joins_captures = info->polls_foreign = true;
    int has = 0;
    gpu->has_words = gpu->driver.cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                                      info->device) == CUDA_SUCCESS &&
                     has != 0;
    return RUNTIME(gpu, cudaDeviceGetPCIBusId, info->id, (int)sizeof info->id, info->device);
}

static int make_stream(struct gpu *gpu, bool high_priority, cudaStream_t *stream)
{
    int least = 0, greatest = 0;
    iso_cuda_use(gpu);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return RUNTIME(gpu, cudaStreamCreateWithPriority, stream, cudaStreamNonBlocking, high_priority ? greatest : least);
}

static int make_spare_streams(struct gpu *gpu)
{
    int rc = 0;
    for (; gpu->n_spare < ISO_CUDA_SPARE_STREAMS && rc == 0; gpu->n_spare += rc == 0)
        rc = make_stream(gpu, false, &gpu->spare[gpu->n_spare]);
    return rc;
}

static int start(struct gpu *gpu)
{
    const char *missing = driver_look_up(&gpu->driver);
    if (missing != NULL)
        return iso_cuda_failed(gpu, -ENODEV, "the NVIDIA driver is too old, it lacks", missing);
    int rc = RUNTIME(gpu, cudaStreamCreateWithFlags, &gpu->stream, cudaStreamNonBlocking);
    if (rc == 0)
        rc = describe(gpu);
    if (rc == 0)
        rc = make_spare_streams(gpu);
    if (rc == 0)
        iso_cuda_probe_memory(gpu);
    return rc;
}

int iso_gpu_open(struct gpu **gpu, int local_rank, const char *choice, char *why, size_t why_bytes)
{
    int n, rc = device_count(&n, why, why_bytes);
    if (rc != 0)
        return rc;
    int device = choose(local_rank, choice, n, why, why_bytes);
    if (device < 0)
        return device;
    struct gpu *g = (struct gpu *)calloc(1, sizeof *g);
    if (g == NULL) {
        snprintf(why, why_bytes, "no memory for its description");
        return -ENOMEM;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->info.device = device;
    g->info.n_devices = n;
    rc = start(g);
    if (rc != 0) {
        snprintf(why, why_bytes, "device %d: %s", device, g->error);
        iso_gpu_close(g);
        return -ENODEV;
    }
    *gpu = g;
    return 0;
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    iso_cuda_use(gpu);
    if (gpu->stream != NULL)
        (void)cudaStreamDestroy(gpu->stream);
    while (gpu->n_spare > 0)
        (void)cudaStreamDestroy(gpu->spare[--gpu->n_spare]);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }
const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }

/* A device that this process does not see (each PE was given one of its own) is taken for reachable: whether it is,
 * only mapping its memory tells. Mapping of either method enables what is needed; where PEs are threads of one process,
 * nothing is mapped and the access is enabled here. */
bool iso_gpu_reaches(struct gpu *gpu, const char *id)
{
    int other, can = 0;
    iso_cuda_use(gpu);
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
        snprintf(prop.name, sizeof prop.name, "a device that says: %s", cudaGetErrorString(cudaGetLastError()));
    const char *loading = getenv("CUDA_MODULE_LOADING");
    snprintf(text, bytes, "%d NVIDIA device%s, the first is %s%s", n, n > 1 ? "s" : "", prop.name,
             loading != NULL && strcmp(loading, "LAZY") == 0
                 ? "; CUDA_MODULE_LOADING=LAZY: a kernel's first launch may wait for kernels that wait for it"
                 : "");
}

/* ---- streams ---- */

static cudaStream_t stream_of(gpu_stream stream) { return (cudaStream_t)stream; }

static cudaError_t query(cudaStream_t stream)
{
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    cudaError_t e = cudaStreamQuery(stream);
    iso_cuda_restore(mode);
    return e;
}

/* What still runs in a stream that was destroyed may wait for what will be put into a new one. NULL: all have work. */
static cudaStream_t take_idle(struct gpu *gpu)
{
    cudaStream_t taken = NULL;
    pthread_mutex_lock(&gpu->lock);
    for (unsigned i = gpu->n_spare; i-- > 0 && taken == NULL;)
        if (query(gpu->spare[i]) == cudaSuccess) {
            taken = gpu->spare[i];
            gpu->spare[i] = gpu->spare[--gpu->n_spare];
        }
    pthread_mutex_unlock(&gpu->lock);
    return taken;
}

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    iso_cuda_use(gpu);
    cudaStream_t s = high_priority ? NULL : take_idle(gpu);
    int rc = s == NULL ? make_stream(gpu, high_priority, &s) : 0;
    *stream = s;
    return rc;
}

/* One that iso_gpu_stream_create may give to others: the program may have made it itself. */
static bool is_spare(cudaStream_t stream)
{
    int least = 0, greatest = 0, priority = 1;
    unsigned flags = 0;
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return cudaStreamGetPriority(stream, &priority) == cudaSuccess && priority == least &&
           cudaStreamGetFlags(stream, &flags) == cudaSuccess && (flags & cudaStreamNonBlocking) != 0;
}

void iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    cudaStream_t s = stream_of(stream);
    iso_cuda_use(gpu);
    bool spare = is_spare(s);
    pthread_mutex_lock(&gpu->lock);
    bool kept = spare && gpu->n_spare < ISO_CUDA_SPARE_STREAMS;
    if (kept)
        gpu->spare[gpu->n_spare++] = s;
    pthread_mutex_unlock(&gpu->lock);
    if (!kept)
        (void)RUNTIME(gpu, cudaStreamDestroy, s);
}

/* A query takes about a microsecond: short work is met by polling, longer work leaves the core to others. */
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    const struct timespec nap = {0, 50000};
    cudaError_t e;
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    for (unsigned polls = 0; (e = cudaStreamQuery(stream_of(stream))) == cudaErrorNotReady; polls++) {
        if (polls > 4000)
            nanosleep(&nap, NULL);
        else if (polls > 50)
            sched_yield();
    }
    iso_cuda_restore(mode);
    return iso_cuda_check(gpu, "cudaStreamQuery", e);
}

int iso_gpu_wait_all(struct gpu *gpu)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    cudaError_t e = cudaDeviceSynchronize();
    iso_cuda_restore(mode);
    return e == cudaErrorCudartUnloading ? 0 : iso_cuda_check(gpu, "cudaDeviceSynchronize", e); /* after its exit */
}

bool iso_gpu_stream_is_idle(struct gpu *gpu, gpu_stream stream)
{
    iso_cuda_use(gpu);
    return query(stream_of(stream)) != cudaErrorNotReady;
}

int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier)
{
    cudaEvent_t event;
    int rc = RUNTIME(gpu, cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaEventRecord, event, stream_of(earlier));
    if (rc == 0)
        rc = RUNTIME(gpu, cudaStreamWaitEvent, stream_of(later), event, 0);
    (void)cudaEventDestroy(event); /* freed when it has happened */
    return rc;
}

/* The default stream may not even be asked while another one is captured: then it counts as captured. */
bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    iso_cuda_use(gpu);
    cudaError_t e = cudaStreamIsCapturing(stream_of(stream), &status);
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return e == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
}

int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemcpyAsync, dest, source, len, cudaMemcpyDefault, stream_of(stream));
}

int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemsetAsync, dest, byte, len, stream_of(stream));
}

bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream)
{
    return gpu->has_words && !iso_gpu_stream_is_capturing(gpu, stream);
}

/* Stores come with a barrier of their own; the flag that leaves it out is gone from this version of the call. */
static CUstreamBatchMemOpParams word_op(const struct gpu_word *word)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    if (word->waits) {
        op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        op.waitValue.address = (CUdeviceptr)(uintptr_t)word->at;
        op.waitValue.value64 = word->value;
        op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
        op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        op.writeValue.address = (CUdeviceptr)(uintptr_t)word->at;
        op.writeValue.value64 = word->value;
        op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    return op;
}

int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream)
{
    enum { AT_ONCE = 64 };
    CUstreamBatchMemOpParams ops[AT_ONCE];
    int rc = 0;
    for (int done = 0, some; done < n && rc == 0; done += some) {
        some = n - done < AT_ONCE ? n - done : AT_ONCE;
        for (int i = 0; i < some; i++)
            ops[i] = word_op(&words[done + i]);
        rc = DRIVER(gpu, cuStreamBatchMemOp, (CUstream)stream_of(stream), (unsigned)some, ops, 0);
    }
    return rc;
}

/* Relaxed: what other threads of this PE do meanwhile, allocations included, is none of the capture's business. */
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream)
{
    return RUNTIME(gpu, cudaStreamBeginCapture, stream_of(stream), cudaStreamCaptureModeRelaxed);
}

int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t executable = NULL;
    int rc = RUNTIME(gpu, cudaStreamEndCapture, stream_of(stream), &captured);
    if (rc == 0)
        rc = RUNTIME(gpu, cudaGraphInstantiate, &executable, captured, 0);
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    *graph = executable;
    return rc;
}

int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream)
{
    return RUNTIME(gpu, cudaGraphLaunch, (cudaGraphExec_t)graph, stream_of(stream));
}

void iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph)
{
    (void)RUNTIME(gpu, cudaGraphExecDestroy, (cudaGraphExec_t)graph);
}

/* ---- copy engines: the driver's own choice ---- */

int iso_gpu_engines(struct gpu *gpu)
{
    (void)gpu;
    return 0;
}

int iso_gpu_copy_by_engine(struct gpu *gpu, int engine, void *dest, const void *source, size_t len)
{
    (void)engine, (void)dest, (void)source, (void)len;
    return iso_cuda_failed(gpu, -ENOTSUP, "a copy by an engine of one's choice", "CUDA chooses engines itself");
}

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

/* Kernels know to wait for those before them when they, and the PTX that they come from, are for 9.0 or later; all of a
 * build are alike. Graphs take such launches since driver 12.3. */
static bool can_be_early(struct gpu *gpu, gpu_kernel kernel)
{
    int known = __atomic_load_n(&gpu->early, __ATOMIC_RELAXED), driver = 0; /* relaxed: whoever asks finds the same */
    struct cudaFuncAttributes of;
    if (known != 0)
        return known > 0;
    bool can = RUNTIME(gpu, cudaDriverGetVersion, &driver) == 0 && driver >= 12030 &&
               RUNTIME(gpu, cudaFuncGetAttributes, &of, function_of(kernel)) == 0 && of.ptxVersion >= 90 &&
               of.binaryVersion >= 90;
    __atomic_store_n(&gpu->early, can ? 1 : -1, __ATOMIC_RELAXED);
    return can;
}

int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    void *argument = (void *)(uintptr_t)launch->args;
    cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    cudaLaunchConfig_t config = {.gridDim = {launch->grid, 1, 1},
                                 .blockDim = {launch->block, 1, 1},
                                 .dynamicSmemBytes = launch->shared_bytes,
                                 .stream = stream_of(stream),
                                 .attrs = &early};
    int rc = allow_shared(gpu, launch->kernel, launch->shared_bytes);
    if (rc != 0)
        return rc;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = launch->early && can_be_early(gpu, launch->kernel) ? 1 : 0;
    return RUNTIME(gpu, cudaLaunchKernelExC, &config, function_of(launch->kernel), &argument);
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
    iso_cuda_use(gpu);
    int rc = allow_shared(gpu, kernel, shared_bytes);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor, &each, function_of(kernel), (int)block,
                 shared_bytes);
    *blocks = each * gpu->info.multiprocessors;
    return rc;
}
