/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: the device and its kernels; gpu.h by the CUDA runtime. The driver's calls are looked up at run time: a
 * program starts on a machine without a driver and gets a sentence. Invariants: no file-scope state; every call makes
 * the device current in its thread first, and gives back the device that was current. Includes gpu_cuda.h. Called by
 * shmem/, coll/. */
#include "gpu_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int choose(int local_rank, const char *choice, int n, char *why, size_t why_bytes)
{
    char *end;
    if (choice[0] == '\0')
        return local_rank % n;
    errno = 0;
    long device = strtol(choice, &end, 10);
    if (errno == 0 && *end == '\0' && device >= 0 && device < n)
        return (int)device;
    snprintf(why, why_bytes, "SHMEM_DEVICE=%s is not a number in 0..%d", choice, n - 1);
    return -EINVAL;
}

static int describe(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    struct cudaDeviceProp prop;
    int rc = RUNTIME(gpu, cudaGetDeviceProperties, &prop, info->device);
    if (rc != 0)
        return rc;
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
    int has = 0;
    gpu->has_words = gpu->driver.cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                                      info->device) == CUDA_SUCCESS &&
                     has != 0;
    return RUNTIME(gpu, cudaDeviceGetPCIBusId, info->id, (int)sizeof info->id, info->device);
}

static int start(struct gpu *gpu)
{
    void *entry;
#define X(name)                                                                                \
    entry = driver_entry(#name);                                                               \
    if (entry == NULL)                                                                         \
        return iso_cuda_failed(gpu, -ENODEV, "the NVIDIA driver is too old, it lacks", #name); \
    memcpy(&gpu->driver.name, &entry, sizeof entry);
    ISO_CUDA_DRIVER_CALLS(X)
#undef X
    iso_cuda_use(gpu);
    int rc = describe(gpu);
    if (rc == 0)
        rc = iso_cuda_open_streams(gpu);
    if (rc == 0) /* the stream has made it current, also where cudaSetDevice does not */
        rc = DRIVER(gpu, cuCtxGetCurrent, &gpu->context);
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
        snprintf(why, why_bytes, "no host memory left");
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
    (void)cudaSetDevice(device); /* the program's own calls mean it from now on, in this thread */
    *gpu = g;
    return 0;
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    iso_cuda_close_streams(gpu);
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
        snprintf(prop.name, sizeof prop.name, "a device that reports: %s", cudaGetErrorString(cudaGetLastError()));
    const char *loading = getenv("CUDA_MODULE_LOADING");
    snprintf(text, bytes, "%d NVIDIA device%s, the first is %s%s", n, n > 1 ? "s" : "", prop.name,
             loading != NULL && strcmp(loading, "LAZY") == 0
                 ? "; CUDA_MODULE_LOADING=LAZY: a kernel's first launch may wait for kernels that wait for it"
                 : "");
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

int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    void *argument = (void *)(uintptr_t)launch->args;
    cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    cudaLaunchConfig_t config = {.gridDim = {launch->grid, 1, 1},
                                 .blockDim = {launch->block, 1, 1},
                                 .dynamicSmemBytes = launch->shared_bytes,
                                 .stream = (cudaStream_t)stream,
                                 .attrs = &early};
    iso_cuda_use(gpu);
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
    early.val.programmaticStreamSerializationAllowed = 1;
    config.numAttrs = launch->early && known > 0 ? 1 : 0;
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
