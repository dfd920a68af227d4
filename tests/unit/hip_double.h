/* SPDX-License-Identifier: MIT */
/* A double of the HIP runtime over host memory, for hip*_test.c: just strict enough to show wrong use. It knows what
 * every piece of memory is, counts what is alive, and can be older or newer HIPs, and fail at any call. One thread, but
 * for what copies by engines call. */
#ifndef HIP_DOUBLE_H
#define HIP_DOUBLE_H

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

/* What the machine and its HIP are like, and what was seen of the program's use of it. */
static struct {
    int devices, wave, version;
    bool uncached, fine_grained, ipc, engine_copies, uncached_chunks;
    bool coarse; /* fine-grained memory is not: HSA tells */
    bool fd_by_value;
    bool capturing;      /* somebody else's stream */
    int captures;        /* of streams that we have made */
    bool stays_captured; /* a capture does not end */
    bool hides_peers;    /* HIP 7, where the owner's number of its device is none of ours */
    int loses;           /* each loses-th copy by an engine is not made, and reports success; 0: none */
    int fail_at;         /* number of the call that fails, 0: none */
    uint32_t flush;      /* the register that brings writes from the bus to memory */
    uint64_t marks, marks_reached; /* events so far, a quarter of a millisecond between two; those that have happened */

    int calls, live, current;
    int user; /* number + 1 of the device that the calls below are for, 0: any */
    int pageable, wild, engine, polled; /* copies of unpinned memory, numbers taken for addresses, ... */
} hip;

enum { HIP_RANGES = 64 };
static struct hip_range {
    char *at;
    size_t len;
    hipMemoryType type;
    int device;
    bool is_chunk, is_coarse;
    int opened; /* times by a key: then it is a peer's */
} hip_ranges[HIP_RANGES];
static pthread_mutex_t hip_lock = PTHREAD_MUTEX_INITIALIZER; /* what copies by engines use of the above */

/* While somebody captures, in the mode that forbids it to others, this thread must have relaxed its own. */
static _Thread_local hipStreamCaptureMode hip_mode = hipStreamCaptureModeGlobal;
static void hip_waits_or_allocates(void) { CHECK(!hip.capturing || hip_mode == hipStreamCaptureModeRelaxed); }

/* HIP 5 waits for streams with a lock that others need: nobody may leave the waiting to it. */
static void hip_would_hold_lock(void) { CHECK_EQ(hip.polled, 0); }

/* True when this call is the one that fails. HSA's calls name their device, HIP's mean the current one. */
static bool hip_is_failing(void) { return ++hip.calls == hip.fail_at; }
static bool hip_fails(void)
{
    CHECK(hip.user == 0 || hip.current == hip.user - 1);
    return hip_is_failing();
}
static int hip_ours(void) { return hip.user == 0 ? hip.current : hip.user - 1; }

static struct hip_range *hip_find(const void *ptr)
{
    for (int i = 0; i < HIP_RANGES; i++)
        if (hip_ranges[i].at != NULL && (uintptr_t)ptr - (uintptr_t)hip_ranges[i].at < hip_ranges[i].len)
            return &hip_ranges[i];
    return NULL;
}

static void hip_note(void *at, size_t len, hipMemoryType type)
{
    int i = 0;
    while (hip_ranges[i].at != NULL)
        i++;
    hip_ranges[i].at = (char *)at;
    hip_ranges[i].len = len;
    hip_ranges[i].type = type;
    hip_ranges[i].device = hip.current;
    hip_ranges[i].is_chunk = hip_ranges[i].is_coarse = false;
    hip_ranges[i].opened = 0;
    hip.live++;
}

static hipError_t hip_make(void **ptr, size_t len, hipMemoryType type)
{
    if (hip_fails())
        return hipErrorOutOfMemory;
    *ptr = malloc(len);
    memset(*ptr, 0xaa, len); /* never zeroed by chance */
    hip_note(*ptr, len, type);
    return hipSuccess;
}

static hipError_t hip_unmake(void *ptr)
{
    struct hip_range *range = hip_find(ptr);
    if (range == NULL || range->at != (char *)ptr)
        return hipErrorInvalidValue;
    free(ptr);
    range->at = NULL;
    hip.live--;
    return hipSuccess;
}

/* ---- errors, devices ---- */

const char *hipGetErrorName(hipError_t e) { return e == hipErrorNoDevice ? "hipErrorNoDevice" : "hipErrorDouble"; }
const char *hipGetErrorString(hipError_t e) { return e == hipErrorOutOfMemory ? "out of memory" : "as was asked"; }
hipError_t hipGetLastError(void) { return hipSuccess; }
hipError_t hipGetDeviceCount(int *count)
{
    CHECK(getenv("DEBUG_HIP_GRAPH_MIN_OVERLAP") != NULL); /* read by the first call */
    *count = hip.devices;
    return hip.devices > 0 ? hipSuccess : hipErrorNoDevice;
}
hipError_t hipSetDevice(int device)
{
    pthread_mutex_lock(&hip_lock);
    hip.current = device;
    pthread_mutex_unlock(&hip_lock);
    return hipSuccess;
}
hipError_t hipGetDevice(int *device)
{
    pthread_mutex_lock(&hip_lock);
    *device = hip.current;
    pthread_mutex_unlock(&hip_lock);
    return hipSuccess;
}
hipError_t hipSetDeviceFlags(unsigned flags)
{
    (void)flags;
    return hip_fails() ? hipErrorSetOnActiveProcess : hipSuccess;
}
hipError_t hipDeviceGetName(char *name, int len, hipDevice_t device)
{
    snprintf(name, (size_t)len, "double %d", device);
    return hip_fails() ? hipErrorInvalidDevice : hipSuccess;
}
hipError_t hipDeviceGetPCIBusId(char *id, int len, int device)
{
    snprintf(id, (size_t)len, "0000:0%d:00.0", device);
    return hip_fails() ? hipErrorInvalidDevice : hipSuccess;
}
hipError_t hipDeviceGetByPCIBusId(int *device, const char *id)
{
    *device = id[6] - '0';
    return *device < hip.devices ? hipSuccess : hipErrorInvalidDevice;
}
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    (void)device;
    *bytes = (size_t)64 << 30;
    return hip_fails() ? hipErrorInvalidDevice : hipSuccess;
}
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device)
{
    uint32_t *flush = &hip.flush;
    (void)device;
    if (which == hipDeviceAttributeHdpMemFlushCntl)
        memcpy(value, &flush, sizeof(flush));
    else
        *value = which == hipDeviceAttributeWarpSize ? hip.wave : 304;
    return hipSuccess;
}
hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer && peer != 3;
    return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    return peer == 2 ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
}

/* ---- streams: what is enqueued is done at once; the next three polls say it is not ready ---- */

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -1;
    return hipSuccess;
}

/* A captured stream's next node comes behind `last`. A node is a number. */
enum { HIP_NODES = 4 };
struct hip_stream {
    bool captured;
    int joins; /* by events */
    size_t n;
    hipGraphNode_t last[HIP_NODES];
};
static struct hip_stream *hip_stream_of(hipStream_t stream) { return (struct hip_stream *)(void *)stream; }

hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority)
{
    void *made = NULL;
    CHECK(flags == hipStreamNonBlocking && priority <= 0);
    hipError_t e = hip_make(&made, sizeof(struct hip_stream), hipMemoryTypeHost);
    if (e == hipSuccess)
        memset(made, 0, sizeof(struct hip_stream));
    *stream = (hipStream_t)made;
    return e;
}
hipError_t hipStreamDestroy(hipStream_t stream)
{
    hip_would_hold_lock();
    hip.captures -= hip_stream_of(stream)->captured; /* which end with their stream */
    return hip_unmake(stream);
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    hipStreamCaptureMode before = hip_mode;
    hip_mode = *mode;
    *mode = before;
    return hipSuccess;
}
/* HIP 7 gives a capture up when the device is synchronised, or its own stream asked. */
hipError_t hipDeviceSynchronize(void)
{
    hip_waits_or_allocates();
    hip_would_hold_lock();
    CHECK_EQ(hip.captures, 0);
    return hip_fails() ? hipErrorLaunchFailure : hipSuccess;
}
hipError_t hipStreamQuery(hipStream_t stream)
{
    hip_waits_or_allocates();
    CHECK(stream == NULL ? hip.captures == 0 : !hip_stream_of(stream)->captured);
    if (hip.polled > 0)
        return hip.polled--, hipErrorNotReady;
    return hip_fails() ? hipErrorLaunchFailure : hipSuccess;
}
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
    bool captured = hip_stream_of(stream)->captured;
    *status = captured ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
}
/* What has been captured: nodes and, for each, how many come behind it. */
static struct {
    size_t n, behind[HIP_NODES];
    hipGraphNode_t nodes[HIP_NODES];
} hip_graph;
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *n)
{
    CHECK((void *)graph == (void *)&hip_graph);
    if (nodes == NULL)
        *n = hip_graph.n;
    for (size_t i = 0; nodes != NULL && i < *n; i++)
        nodes[i] = hip_graph.nodes[i];
    return hip_fails() ? hipErrorInvalidValue : hipSuccess;
}
hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *behind, size_t *n)
{
    CHECK(behind == NULL);
    for (size_t i = 0; i < hip_graph.n; i++)
        if (hip_graph.nodes[i] == node)
            *n = hip_graph.behind[i];
    return hip_fails() ? hipErrorInvalidValue : hipSuccess;
}
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id,
                                      hipGraph_t *graph, const hipGraphNode_t **nodes, size_t *n)
{
    if (hip_fails())
        return hipErrorInvalidHandle;
    (void)hipStreamIsCapturing(stream, status);
    *id = 1;
    *graph = hip_graph.n > 0 ? (hipGraph_t)(void *)&hip_graph : NULL;
    *nodes = hip_stream_of(stream)->last;
    *n = hip_stream_of(stream)->n;
    return hipSuccess;
}
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *nodes, size_t n, unsigned flags)
{
    struct hip_stream *s = hip_stream_of(stream);
    if (hip_fails() || flags != hipStreamAddCaptureDependencies || !s->captured || s->n + n > HIP_NODES)
        return hipErrorInvalidValue;
    for (size_t i = 0; i < n; i++)
        s->last[s->n++] = nodes[i];
    return hipSuccess;
}
hipError_t hipRuntimeGetVersion(int *version)
{
    *version = hip.version;
    return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    void *made = NULL;
    (void)flags;
    hipError_t e = hip_make(&made, 8, hipMemoryTypeHost);
    *event = (hipEvent_t)made;
    return e;
}
hipError_t hipEventDestroy(hipEvent_t event) { return hip_unmake(event); }
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    (void)stream;
    if (hip_fails())
        return hipErrorInvalidHandle;
    *(uint64_t *)(void *)event = ++hip.marks;
    return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t event)
{
    hip_waits_or_allocates();
    return *(uint64_t *)(void *)event > hip.marks_reached ? hipErrorNotReady : hipSuccess;
}
hipError_t hipEventElapsedTime(float *ms, hipEvent_t from, hipEvent_t to)
{
    if (hip_fails())
        return hipErrorInvalidHandle;
    *ms = ((float)*(uint64_t *)(void *)to - (float)*(uint64_t *)(void *)from) / 4;
    return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    (void)event, (void)flags;
    hip_stream_of(stream)->joins++;
    return hip_fails() ? hipErrorInvalidHandle : hipSuccess;
}

/* ---- memory and copies ---- */

hipError_t hipMalloc(void **ptr, size_t len)
{
    hip_waits_or_allocates();
    return hip_make(ptr, len, hipMemoryTypeDevice);
}
hipError_t hipFree(void *ptr)
{
    hip_waits_or_allocates();
    hip_would_hold_lock();
    return hip_unmake(ptr);
}
hipError_t hipHostMalloc(void **ptr, size_t len, unsigned flags)
{
    CHECK((flags & hipHostMallocCoherent) != 0);
    hip_waits_or_allocates();
    return hip_make(ptr, len, hipMemoryTypeHost);
}
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return hip_fails() ? hipErrorInvalidValue : hipSuccess;
}
hipError_t hipHostFree(void *ptr)
{
    hip_waits_or_allocates();
    hip_would_hold_lock();
    return hip_unmake(ptr);
}
hipError_t hipExtMallocWithFlags(void **ptr, size_t len, unsigned flags)
{
    if (flags == 3 ? !hip.uncached : flags == hipDeviceMallocFinegrained ? !hip.fine_grained : true)
        return hipErrorInvalidValue;
    hipError_t e = hip_make(ptr, len, hipMemoryTypeDevice);
    if (e == hipSuccess)
        hip_find(*ptr)->is_coarse = flags == hipDeviceMallocFinegrained && hip.coarse;
    return e;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
    struct hip_range *range = hip_find(ptr);
    if (range == NULL)
        return hipErrorInvalidValue;
    attributes->device = range->device;
#if HIP_VERSION >= 60000000
    attributes->type = range->type;
#else
    attributes->memoryType = range->type;
#endif
    return hipSuccess;
}
hipError_t hipMemcpyAsync(void *dest, const void *source, size_t len, hipMemcpyKind kind, hipStream_t stream)
{
    struct hip_range *to = hip_find(dest), *from = hip_find(source);
    (void)stream;
    if ((int)kind == 1024 && !hip.engine_copies)
        return hipErrorInvalidMemcpyDirection;
    if (hip_fails())
        return hipErrorLaunchFailure;
    hip.engine += (int)kind == 1024;
    if ((int)kind == 1024 && hip.loses != 0 && hip.engine % hip.loses == 0)
        return hipSuccess; /* as HIP of 2026 towards peers whose engines it does not know */
    hip.pageable += to == NULL || from == NULL;
    hip.polled = 3;
    memcpy(dest, source, len);
    return hipSuccess;
}
hipError_t hipMemsetAsync(void *dest, int byte, size_t len, hipStream_t stream)
{
    (void)stream;
    if (hip_fails())
        return hipErrorLaunchFailure;
    CHECK(hip_find(dest) != NULL);
    hip.polled = 3;
    memset(dest, byte, len);
    return hipSuccess;
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *len, hipDeviceptr_t ptr)
{
    struct hip_range *range = hip_find(ptr);
    if (range == NULL || hip_fails())
        return hipErrorInvalidValue;
    *base = range->at;
    *len = range->len;
    return hipSuccess;
}

/* ---- keys: the address itself ---- */

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
    if (!hip.ipc || hip_fails())
        return hipErrorNotSupported;
    memcpy(handle, &ptr, sizeof(ptr));
    return hipSuccess;
}
hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
    (void)flags;
    if (hip_fails() || hip.hides_peers)
        return hipErrorInvalidValue;
    memcpy(ptr, &handle, sizeof(*ptr));
    hip_find(*ptr)->opened++;
    hip.live++;
    return hipSuccess;
}
hipError_t hipIpcCloseMemHandle(void *ptr)
{
    hip_find(ptr)->opened--;
    hip.live--;
    return hipSuccess;
}

/* ---- chunks: memfds; a handle is a descriptor of its own, plus one ---- */

static hipMemGenericAllocationHandle_t hip_handle(int fd)
{
    return (hipMemGenericAllocationHandle_t)(intptr_t)(fd + 1);
}
static int hip_fd(hipMemGenericAllocationHandle_t handle) { return (int)(intptr_t)handle - 1; }

hipError_t hipMemGetAllocationGranularity(size_t *granularity, const hipMemAllocationProp *properties,
                                          hipMemAllocationGranularity_flags flags)
{
    (void)properties, (void)flags;
    *granularity = (size_t)2 << 20;
    return hipSuccess;
}
hipError_t hipMemAddressReserve(void **ptr, size_t len, size_t alignment, void *at, unsigned long long flags)
{
    (void)alignment, (void)flags;
    if (hip_fails())
        return hipErrorOutOfMemory;
    *ptr = mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    hip.live++;
    return hipSuccess;
}
hipError_t hipMemAddressFree(void *ptr, size_t len)
{
    hip.live--;
    return munmap(ptr, len) == 0 ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t len, const hipMemAllocationProp *properties,
                        unsigned long long flags)
{
    (void)flags;
    if ((int)properties->type != hipMemAllocationTypePinned && !hip.uncached_chunks)
        return hipErrorInvalidValue;
    if (hip_fails())
        return hipErrorOutOfMemory;
    int fd = memfd_create("chunk", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(fd, (off_t)len), 0);
    *handle = hip_handle(fd);
    hip.live++;
    return hipSuccess;
}
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    hip.live--;
    return close(hip_fd(handle)) == 0 ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags)
{
    int fd = dup(hip_fd(handle));
    (void)type, (void)flags;
    if (hip_fails()) {
        close(fd);
        return hipErrorNotSupported;
    }
    memcpy(shareable, &fd, sizeof(fd));
    return hipSuccess;
}
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *name,
                                           hipMemAllocationHandleType type)
{
    int fd = (int)(intptr_t)name;
    (void)type;
    if (hip_fails())
        return hipErrorNotSupported;
    if (!hip.fd_by_value) {
        if ((uintptr_t)name < 4096) {
            hip.wild++; /* a real one would have crashed */
            return hipErrorInvalidValue;
        }
        memcpy(&fd, name, sizeof(fd));
    }
    fd = dup(fd);
    if (fd < 0)
        return hipErrorInvalidValue;
    *handle = hip_handle(fd);
    hip.live++;
    return hipSuccess;
}
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *ptr)
{
    (void)handle, (void)ptr;
    return hipErrorInvalidValue;
}
hipError_t hipMemMap(void *ptr, size_t len, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags)
{
    (void)flags;
    if (hip_fails())
        return hipErrorInvalidValue;
    void *at = mmap(ptr, len, PROT_NONE, MAP_SHARED | MAP_FIXED, hip_fd(handle), (off_t)offset);
    CHECK(at == ptr);
    hip_note(ptr, len, hipMemoryTypeDevice);
    hip_find(ptr)->is_chunk = true;
    return hipSuccess;
}
hipError_t hipMemSetAccess(void *ptr, size_t len, const hipMemAccessDesc *access, size_t count)
{
    (void)access, (void)count;
    if (hip_fails())
        return hipErrorInvalidValue;
    return mprotect(ptr, len, PROT_READ | PROT_WRITE) == 0 ? hipSuccess : hipErrorInvalidValue;
}
hipError_t hipMemUnmap(void *ptr, size_t len)
{
    struct hip_range *range = hip_find(ptr);
    CHECK(range != NULL && range->at == (char *)ptr && range->len == len);
    if (range != NULL)
        range->at = NULL;
    hip.live--;
    void *at = mmap(ptr, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return at == ptr ? hipSuccess : hipErrorInvalidValue;
}

/* ---- graphs and kernels ---- */

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    CHECK(stream != NULL && mode == hipStreamCaptureModeRelaxed);
    hip_stream_of(stream)->captured = true;
    hip.captures++;
    return hipSuccess;
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
    void *made = NULL;
    if (hip.stays_captured)
        return hipErrorStreamCaptureUnjoined;
    hip_stream_of(stream)->captured = false;
    hip.captures--;
    hipError_t e = hip_make(&made, 8, hipMemoryTypeHost);
    *graph = (hipGraph_t)made;
    return e;
}
hipError_t hipGraphInstantiate(hipGraphExec_t *made, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t len)
{
    void *memory = NULL;
    (void)graph, (void)node, (void)log, (void)len;
    hipError_t e = hip_make(&memory, 8, hipMemoryTypeHost);
    *made = (hipGraphExec_t)memory;
    return e;
}
hipError_t hipGraphDestroy(hipGraph_t graph) { return hip_unmake(graph); }
hipError_t hipGraphExecDestroy(hipGraphExec_t graph) { return hip_unmake(graph); }
hipError_t hipGraphLaunch(hipGraphExec_t graph, hipStream_t stream)
{
    (void)stream;
    return hip_find(graph) != NULL ? hipSuccess : hipErrorInvalidHandle;
}
/* A kernel of the double is a function of the host that takes its struct's address. */
hipError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, hipStream_t stream)
{
    void (*run)(void *);
    (void)shared, (void)stream;
    memcpy(&run, &kernel, sizeof(run));
    for (unsigned i = 0; i < grid.x * grid.y * grid.z * block.x * block.y * block.z; i++)
        run(args[0]);
    return hip_fails() ? hipErrorInvalidDeviceFunction : hipSuccess;
}
hipError_t hipLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **args, unsigned shared,
                                      hipStream_t stream)
{
    return hipLaunchKernel(kernel, grid, block, args, shared, stream);
}
hipError_t hipFuncGetAttributes(struct hipFuncAttributes *attributes, const void *kernel)
{
    memset(attributes, 0, sizeof(*attributes));
    return kernel != NULL ? hipSuccess : hipErrorInvalidDeviceFunction;
}
/* A module with one variable. */
struct hip_module {
    const char *name;
    uint64_t value;
};
hipError_t hipModuleGetGlobal(hipDeviceptr_t *at, size_t *bytes, hipModule_t module, const char *name)
{
    struct hip_module *m = (struct hip_module *)(void *)module;
    *at = &m->value;
    *bytes = sizeof m->value;
    return strcmp(m->name, name) == 0 ? hipSuccess : hipErrorNotFound;
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int block, size_t shared)
{
    (void)kernel, (void)shared;
    *blocks = 2048 / block;
    return hipSuccess;
}

#endif
