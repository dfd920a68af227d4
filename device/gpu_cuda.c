/* SPDX-License-Identifier: MIT */
/* gpu.h for NVIDIA: the CUDA runtime, and driver calls looked up at run time, so that a program starts on a machine
 * without a driver and is told so. Memory here is ordinary device memory: it is coherent towards peers, so
 * GPU_BULK and GPU_COMMUNICATION are alike. Invariants: no file-scope state; every call makes the device current in its
 * thread first; what this layer does to memory it does on a stream of its own and waits for that stream alone.
 * cudaMalloc, cudaFree, cudaHostAlloc and mapping may synchronise the device: only set-up calls do them. */
#include "gpu.h"

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

/* ---- the driver's calls ---- */

#define DRIVER_CALLS(X)               \
    X(cuGetErrorString)               \
    X(cuDeviceGetAttribute)           \
    X(cuMemGetAddressRange)           \
    X(cuMemGetAllocationGranularity)  \
    X(cuMemAddressReserve)            \
    X(cuMemAddressFree)               \
    X(cuMemCreate)                    \
    X(cuMemRelease)                   \
    X(cuMemMap)                       \
    X(cuMemUnmap)                     \
    X(cuMemSetAccess)                 \
    X(cuMemExportToShareableHandle)   \
    X(cuMemImportFromShareableHandle) \
    X(cuMemRetainAllocationHandle)    \
    X(cuMemGetAllocationPropertiesFromHandle)

struct driver {
#define X(name) __typeof__(&name) name;
    DRIVER_CALLS(X)
#undef X
};

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
    DRIVER_CALLS(X)
#undef X
    return NULL;
}

/* ---- the device ---- */

struct gpu {
    struct gpu_info info;
    struct driver driver;
    size_t granularity;   /* of chunks */
    cudaStream_t stream;  /* for what this layer does to memory; non-blocking */
    pthread_mutex_t lock; /* error */
    char error[256];
};

/* What goes wrong here is said by the call that follows. */
static void use(const struct gpu *gpu) { (void)cudaSetDevice(gpu->info.device); }

static int failed(struct gpu *gpu, int rc, const char *what, const char *words)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof gpu->error, "%s: %s", what, words != NULL ? words : "unknown error");
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* 0, or -errno with a sentence; the runtime forgets its error. */
static int check(struct gpu *gpu, const char *what, cudaError_t e)
{
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    return failed(gpu, e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, what, cudaGetErrorString(e));
}

static int check_driver(struct gpu *gpu, const char *what, CUresult e)
{
    const char *words = NULL;
    if (e == CUDA_SUCCESS)
        return 0;
    gpu->driver.cuGetErrorString(e, &words);
    return failed(gpu, e == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, what, words);
}

/* RUNTIME(gpu, cudaFree, ptr): the call with this PE's device current; 0, or -errno with a sentence. */
#define RUNTIME(gpu, call, ...) (use(gpu), check(gpu, #call, call(__VA_ARGS__)))
#define DRIVER(gpu, call, ...) (use(gpu), check_driver(gpu, #call, (gpu)->driver.call(__VA_ARGS__)))

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }
static char *pointer(CUdeviceptr p) { return (char *)(uintptr_t)p; }

/* The first CUDA call. Kernels are to be loaded then and not when they are first launched, which waits for those that
 * run: and they may be waiting for the new one. Who has set the variable has it his way. */
static int device_count(int *n, char *why, size_t why_bytes)
{
    int driver = 0;
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
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
    return n >= 1 && n <= 32 ? (unsigned)n : 8;
}

static int attribute(struct gpu *gpu, CUdevice_attribute name)
{
    int value = 0;
    return gpu->driver.cuDeviceGetAttribute(&value, name, gpu->info.device) == CUDA_SUCCESS ? value : 0;
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
    return RUNTIME(gpu, cudaDeviceGetPCIBusId, info->id, (int)sizeof info->id, info->device);
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

/* What the driver promises is tried: containers and virtual machines take some of it away. */
static void probe_vmm(struct gpu *gpu)
{
    CUmemAllocationProp prop = chunk_properties(gpu);
    struct gpu_key key = {{0}, -1};
    char *at = NULL;
    gpu->granularity = (size_t)2 << 20;
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

static int start(struct gpu *gpu)
{
    const char *missing = driver_look_up(&gpu->driver);
    if (missing != NULL)
        return failed(gpu, -ENODEV, "the NVIDIA driver is too old, it lacks", missing);
    int rc = RUNTIME(gpu, cudaStreamCreateWithFlags, &gpu->stream, cudaStreamNonBlocking);
    if (rc == 0)
        rc = describe(gpu);
    if (rc == 0)
        probe_vmm(gpu);
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
    use(gpu);
    if (gpu->stream != NULL)
        (void)cudaStreamDestroy(gpu->stream);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }
const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }

/* A device that this process does not see (each PE was given one of its own) is taken for reachable: whether it is,
 * only mapping its memory tells. Mapping of either rung enables what is needed; where PEs are threads of one process,
 * nothing is mapped and the access is enabled here. */
bool iso_gpu_reaches(struct gpu *gpu, const char *id)
{
    int other, can = 0;
    use(gpu);
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

/* ---- memory that peers map ---- */

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
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop;
    int rc = DRIVER(gpu, cuMemRetainAllocationHandle, &memory, at);
    if (rc != 0)
        return rc;
    rc = DRIVER(gpu, cuMemGetAllocationPropertiesFromHandle, &prop, memory);
    if (rc == 0 && ((unsigned)prop.requestedHandleTypes & BY_DESCRIPTOR) == 0)
        rc = failed(gpu, -ENOTSUP, "cuMemCreate", "this memory was not made to be shared");
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

int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, char **start, size_t *len, struct gpu_key *key,
                           enum gpu_sharing *rung)
{
    CUdeviceptr base = 0;
    int rc = DRIVER(gpu, cuMemGetAddressRange, &base, len, address(ptr));
    if (rc != 0)
        return rc;
    *start = pointer(base);
    *rung = GPU_SHARE_VMM;
    if (export_vmm(gpu, ptr, key) == 0)
        return 0;
    *rung = GPU_SHARE_IPC;
    return get_ipc_key(gpu, *start, key) == 0 ? 0 : -ENOTSUP;
}

int iso_gpu_import_foreign(struct gpu *gpu, const struct gpu_key *key, enum gpu_sharing rung, size_t len, char **base)
{
    if (rung == GPU_SHARE_IPC)
        return iso_gpu_shared_import(gpu, key, len, base);
    int rc = iso_gpu_reserve(gpu, len, base);
    if (rc != 0) {
        close(key->fd);
        return rc;
    }
    rc = iso_gpu_chunk_import(gpu, *base, len, key);
    if (rc != 0)
        iso_gpu_unreserve(gpu, *base, len);
    return rc;
}

void iso_gpu_close_foreign(struct gpu *gpu, char *base, size_t len, enum gpu_sharing rung)
{
    if (rung == GPU_SHARE_IPC) {
        iso_gpu_shared_close(gpu, base, len);
        return;
    }
    iso_gpu_chunk_release(gpu, base, len);
    iso_gpu_unreserve(gpu, base, len);
}

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    *ptr = NULL;
    int rc = RUNTIME(gpu, cudaMalloc, ptr, len);
    if (rc == 0)
        rc = zero(gpu, *ptr, len);
    if (rc != 0) {
        (void)cudaFree(*ptr);
        *ptr = NULL;
    }
    return rc;
}

void iso_gpu_free(struct gpu *gpu, void *ptr) { (void)RUNTIME(gpu, cudaFree, ptr); }

int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device)
{
    *host = *device = NULL;
    int rc = RUNTIME(gpu, cudaHostAlloc, host, len, cudaHostAllocPortable | cudaHostAllocMapped);
    if (rc != 0)
        return rc;
    memset(*host, 0, len);
    rc = RUNTIME(gpu, cudaHostGetDevicePointer, device, *host, 0);
    if (rc != 0) {
        (void)cudaFreeHost(*host);
        *host = NULL;
    }
    return rc;
}

void iso_gpu_host_free(struct gpu *gpu, void *host) { (void)RUNTIME(gpu, cudaFreeHost, host); }

/* Managed memory counts as pinned: both sides may load it. */
enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr)
{
    struct cudaPointerAttributes attributes;
    use(gpu);
    if (cudaPointerGetAttributes(&attributes, ptr) != cudaSuccess) {
        (void)cudaGetLastError();
        return GPU_POINTER_HOST;
    }
    if (attributes.type == cudaMemoryTypeDevice)
        return GPU_POINTER_DEVICE;
    bool pinned = attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeManaged;
    return pinned ? GPU_POINTER_PINNED : GPU_POINTER_HOST;
}

/* ---- streams ---- */

static cudaStream_t stream_of(gpu_stream stream) { return (cudaStream_t)stream; }

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    int least = 0, greatest = 0;
    cudaStream_t s = NULL;
    use(gpu);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    int rc = RUNTIME(gpu, cudaStreamCreateWithPriority, &s, cudaStreamNonBlocking, high_priority ? greatest : least);
    *stream = s;
    return rc;
}

void iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    (void)RUNTIME(gpu, cudaStreamDestroy, stream_of(stream));
}

/* A query takes about a microsecond: short work is met by polling, longer work leaves the core to others. */
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    const struct timespec nap = {0, 50000};
    cudaError_t e;
    use(gpu);
    for (unsigned polls = 0; (e = cudaStreamQuery(stream_of(stream))) == cudaErrorNotReady; polls++) {
        if (polls > 4000)
            nanosleep(&nap, NULL);
        else if (polls > 50)
            sched_yield();
    }
    return check(gpu, "cudaStreamQuery", e);
}

bool iso_gpu_stream_is_idle(struct gpu *gpu, gpu_stream stream)
{
    use(gpu);
    return cudaStreamQuery(stream_of(stream)) != cudaErrorNotReady;
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
    use(gpu);
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
    struct dim3 grid = {launch->grid, 1, 1}, block = {launch->block, 1, 1};
    void *argument = (void *)(uintptr_t)launch->args;
    int rc = allow_shared(gpu, launch->kernel, launch->shared_bytes);
    if (rc != 0)
        return rc;
    return RUNTIME(gpu, cudaLaunchKernel, function_of(launch->kernel), grid, block, &argument, launch->shared_bytes,
                   stream_of(stream));
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
    use(gpu);
    int rc = allow_shared(gpu, kernel, shared_bytes);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor, &each, function_of(kernel), (int)block,
                 shared_bytes);
    *blocks = each * gpu->info.multiprocessors;
    return rc;
}
