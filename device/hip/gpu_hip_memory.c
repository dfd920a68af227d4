/* SPDX-License-Identifier: MIT */
/* AMD GPUs: memory of this PE alone, of the device and of the host; memory that peers map, by chunks (VMM) or whole
 * allocations (IPC), of the library and of the program; and which of it the installed HIP can give, found out by
 * trying. Includes gpu_hip.h. Called by shmem/, coll/, gpu_hip*.c. */
#include "gpu_hip.h"

#include <dlfcn.h>
#include <errno.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names of newer headers, by their numbers. */
#define UNCACHED_MEMORY 0x3      /* hipDeviceMallocUncached, HIP 5.7 */
#define UNCACHED_TYPE 0x40000000 /* hipMemAllocationTypeUncached, HIP 7 */

/* Physical memory mapped at a place of a reservation. */
struct hip_chunk {
    char *at;
    size_t len;
    hipMemGenericAllocationHandle_t memory;
    struct hip_chunk *next;
};

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    iso_hip_use(gpu);
    *ptr = NULL;
    hipStreamCaptureMode mode = iso_hip_relax();
    int status = iso_hip_result(gpu, "hipMalloc", hipMalloc(ptr, len));
    iso_hip_restore(mode);
    if (status == 0)
        status = iso_hip_clear(gpu, *ptr, len);
    if (status == 0)
        return 0;
    iso_gpu_free(gpu, *ptr);
    *ptr = NULL;
    return status;
}

void iso_gpu_free(struct gpu *gpu, void *ptr)
{
    if (ptr == NULL)
        return;
    iso_hip_use(gpu);
    hipStreamCaptureMode mode = iso_hip_relax();
    (void)iso_hip_settle(gpu);
    (void)iso_hip_result(gpu, "hipFree", hipFree(ptr));
    iso_hip_restore(mode);
}

int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device)
{
    iso_hip_use(gpu);
    *host = *device = NULL;
    hipStreamCaptureMode mode = iso_hip_relax();
    int status =
        iso_hip_result(gpu, "hipHostMalloc",
                       hipHostMalloc(host, len, hipHostMallocCoherent | hipHostMallocMapped | hipHostMallocPortable));
    iso_hip_restore(mode);
    if (status != 0)
        return status;
    status = iso_hip_result(gpu, "hipHostGetDevicePointer", hipHostGetDevicePointer(device, *host, 0));
    if (status == 0) {
        memset(*host, 0, len);
        return 0;
    }
    iso_gpu_host_free(gpu, *host);
    *host = NULL;
    return status;
}

void iso_gpu_host_free(struct gpu *gpu, void *host)
{
    if (host == NULL)
        return;
    iso_hip_use(gpu);
    hipStreamCaptureMode mode = iso_hip_relax();
    (void)iso_hip_settle(gpu);
    (void)iso_hip_result(gpu, "hipHostFree", hipHostFree(host));
    iso_hip_restore(mode);
}

/* ---- pointers ---- */

static enum gpu_pointer look_at(struct gpu *gpu, const void *ptr, hipPointerAttribute_t *attributes)
{
    memset(attributes, 0, sizeof(*attributes));
    iso_hip_use(gpu);
    if (hipPointerGetAttributes(attributes, ptr) != hipSuccess) {
        (void)hipGetLastError();
        return GPU_POINTER_HOST;
    }
#if HIP_VERSION >= 60000000
    hipMemoryType type = attributes->type;
#else
    hipMemoryType type = attributes->memoryType;
#endif
    if (type == hipMemoryTypeDevice)
        return GPU_POINTER_DEVICE;
    return type == hipMemoryTypeHost || attributes->isManaged ? GPU_POINTER_PINNED : GPU_POINTER_HOST;
}

enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr)
{
    hipPointerAttribute_t attributes;
    return look_at(gpu, ptr, &attributes);
}

bool iso_hip_is_own_memory(struct gpu *gpu, const void *ptr)
{
    hipPointerAttribute_t attributes;
    return look_at(gpu, ptr, &attributes) == GPU_POINTER_DEVICE && attributes.device == gpu->info.device;
}

/* ---- memory that peers map: chunks (VMM) ---- */

size_t iso_gpu_granularity(struct gpu *gpu) { return gpu->granularity; }

static hipMemAllocationProp chunk_properties(const struct gpu *gpu, hipMemAllocationType type)
{
    hipMemAllocationProp properties;
    memset(&properties, 0, sizeof(properties));
    properties.type = type;
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = gpu->info.device;
#if HIP_VERSION >= 70000000
    properties.requestedHandleTypes = hipMemHandleTypePosixFileDescriptor;
#else
    properties.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
#endif
    return properties;
}

int iso_gpu_reserve(struct gpu *gpu, size_t len, char **base)
{
    void *at = NULL;
    iso_hip_use(gpu);
    int status =
        iso_hip_result(gpu, "hipMemAddressReserve", hipMemAddressReserve(&at, len, gpu->granularity, (void *)NULL, 0));
    *base = status == 0 ? (char *)at : NULL;
    return status;
}

void iso_gpu_unreserve(struct gpu *gpu, char *base, size_t len)
{
    iso_hip_use(gpu);
    if (base != NULL)
        (void)iso_hip_result(gpu, "hipMemAddressFree", hipMemAddressFree(base, len));
}

/* Takes `memory` in all cases. Its handle is kept until the unmapping: HIP before 6 lets the pages go with it. */
static int map_chunk(struct gpu *gpu, char *at, size_t len, hipMemGenericAllocationHandle_t memory)
{
    hipMemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = hipMemLocationTypeDevice;
    access.location.id = gpu->info.device;
    access.flags = hipMemAccessFlagsProtReadWrite;
    struct hip_chunk *chunk = (struct hip_chunk *)malloc(sizeof(*chunk));
    int status = chunk == NULL ? iso_hip_refuse(gpu, -ENOMEM, "no host memory left for the record of a chunk")
                               : iso_hip_result(gpu, "hipMemMap", hipMemMap(at, len, 0, memory, 0));
    if (status == 0) {
        status = iso_hip_result(gpu, "hipMemSetAccess", hipMemSetAccess(at, len, &access, 1));
        if (status != 0)
            (void)hipMemUnmap(at, len);
    }
    if (status != 0) {
        (void)hipMemRelease(memory);
        free(chunk);
        return status;
    }
    chunk->at = at;
    chunk->len = len;
    chunk->memory = memory;
    pthread_mutex_lock(&gpu->lock);
    chunk->next = gpu->chunks;
    gpu->chunks = chunk;
    pthread_mutex_unlock(&gpu->lock);
    return 0;
}

void iso_gpu_chunk_release(struct gpu *gpu, char *at, size_t len)
{
    iso_hip_use(gpu);
    pthread_mutex_lock(&gpu->lock);
    struct hip_chunk **link = &gpu->chunks;
    while (*link != NULL && (*link)->at != at)
        link = &(*link)->next;
    struct hip_chunk *chunk = *link;
    if (chunk != NULL)
        *link = chunk->next;
    pthread_mutex_unlock(&gpu->lock);
    if (chunk == NULL)
        return;
    iso_hip_forget_peer(gpu, at);
    (void)iso_hip_result(gpu, "hipMemUnmap", hipMemUnmap(at, len));
    (void)iso_hip_result(gpu, "hipMemRelease", hipMemRelease(chunk->memory));
    free(chunk);
}

_Static_assert(sizeof(((struct gpu_info *)0)->id) <= sizeof(((struct gpu_key *)0)->bytes), "a key holds a device's id");

/* A key with a descriptor names the owning device, because importers cannot ask. */
static void begin_key(const struct gpu *gpu, struct gpu_key *key)
{
    memset(key, 0, sizeof(*key));
    memcpy(key->bytes, gpu->info.id, sizeof(gpu->info.id));
    key->fd = -1;
}

int iso_gpu_chunk_create(struct gpu *gpu, char *at, size_t len, enum gpu_memory kind, struct gpu_key *key)
{
    hipMemGenericAllocationHandle_t memory;
    hipMemAllocationType type = kind == GPU_BULK ? hipMemAllocationTypePinned : gpu->vmm_type;
    hipMemAllocationProp properties = chunk_properties(gpu, type);
    int fd = -1;
    iso_hip_use(gpu);
    begin_key(gpu, key);
    int status = iso_hip_result(gpu, "hipMemCreate", hipMemCreate(&memory, len, &properties, 0));
    if (status != 0)
        return status;
    status = iso_hip_result(gpu, "hipMemExportToShareableHandle",
                            hipMemExportToShareableHandle(&fd, memory, hipMemHandleTypePosixFileDescriptor, 0));
    if (status != 0) {
        (void)hipMemRelease(memory);
        return status;
    }
    status = map_chunk(gpu, at, len, memory);
    if (status == 0) {
        status = iso_hip_clear(gpu, at, len);
        if (status != 0)
            iso_gpu_chunk_release(gpu, at, len);
    }
    if (status == 0)
        key->fd = fd;
    else
        close(fd);
    return status;
}

int iso_gpu_chunk_import(struct gpu *gpu, char *at, size_t len, const struct gpu_key *key)
{
    hipMemGenericAllocationHandle_t memory;
    char owner[sizeof(gpu->info.id)];
    int fd = key->fd;
    void *name = gpu->fd_by_pointer ? (void *)&fd : (void *)(intptr_t)fd;
    memcpy(owner, key->bytes, sizeof(owner) - 1);
    owner[sizeof(owner) - 1] = '\0'; /* the bytes may be anything */
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipMemImportFromShareableHandle",
                                hipMemImportFromShareableHandle(&memory, name, hipMemHandleTypePosixFileDescriptor));
    if (status == 0)
        status = map_chunk(gpu, at, len, memory);
    if (status == 0)
        iso_hip_note_peer(gpu, at, len, owner);
    close(fd);
    return status;
}

/* ---- memory that peers map: one allocation (IPC) ---- */

_Static_assert(sizeof(hipIpcMemHandle_t) <= sizeof(((struct gpu_key *)0)->bytes), "a key holds a HIP IPC handle");

static int export_ipc(struct gpu *gpu, void *base, struct gpu_key *key)
{
    hipIpcMemHandle_t handle;
    memset(&handle, 0, sizeof(handle));
    memset(key, 0, sizeof(*key));
    key->fd = -1;
    int status = iso_hip_result(gpu, "hipIpcGetMemHandle", hipIpcGetMemHandle(&handle, base));
    memcpy(key->bytes, &handle, sizeof(handle));
    return status;
}

static const char *why_none(const struct gpu *gpu)
{
    return gpu->coarse ? "hipExtMallocWithFlags has no uncached device memory, and gives coarse-grained memory for "
                         "fine-grained, in which polls do not see stores of peers"
                       : "hipExtMallocWithFlags gives neither uncached nor fine-grained device memory";
}

static int allocate_kind(struct gpu *gpu, size_t len, enum gpu_memory kind, void **base)
{
    if (kind == GPU_BULK)
        return iso_hip_result(gpu, "hipMalloc", hipMalloc(base, len));
    if (gpu->communication == 0)
        return iso_hip_refuse(gpu, -ENOTSUP, why_none(gpu));
    return iso_hip_result(gpu, "hipExtMallocWithFlags", hipExtMallocWithFlags(base, len, gpu->communication));
}

int iso_gpu_shared_create(struct gpu *gpu, size_t len, enum gpu_memory kind, char **base, struct gpu_key *key)
{
    void *made = NULL;
    iso_hip_use(gpu);
    *base = NULL;
    int status = allocate_kind(gpu, len, kind, &made);
    if (status == 0)
        status = iso_hip_clear(gpu, made, len);
    if (status == 0)
        status = export_ipc(gpu, made, key);
    if (status == 0)
        *base = (char *)made;
    else
        iso_gpu_free(gpu, made);
    return status;
}

int iso_gpu_shared_import(struct gpu *gpu, const struct gpu_key *key, size_t len, char **base)
{
    hipIpcMemHandle_t handle;
    void *at = NULL;
    iso_hip_use(gpu);
    memcpy(&handle, key->bytes, sizeof(handle));
    int status =
        iso_hip_result(gpu, "hipIpcOpenMemHandle", hipIpcOpenMemHandle(&at, handle, hipIpcMemLazyEnablePeerAccess));
    *base = status == 0 ? (char *)at : NULL;
    if (status == 0) {
        iso_hip_note_peer(gpu, *base, len, NULL);
        return 0;
    }
    char sentence[300];
    snprintf(
        sentence, sizeof(sentence),
        "%.64s; all PEs of a node need one network and one PID namespace (docker: --network=host --pid=host) and the "
        "same HIP_VISIBLE_DEVICES: a device's number must be below %d, the number of devices here",
        gpu->error, gpu->info.n_devices);
    return iso_hip_refuse(gpu, status, sentence);
}

void iso_gpu_shared_close(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    iso_hip_use(gpu);
    if (base == NULL)
        return;
    iso_hip_forget_peer(gpu, base);
    (void)iso_hip_result(gpu, "hipIpcCloseMemHandle", hipIpcCloseMemHandle(base));
}

void iso_gpu_shared_destroy(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    iso_gpu_free(gpu, base);
}

/* ---- memory of the program ---- */

static int export_vmm(struct gpu *gpu, void *base, struct gpu_key *key)
{
    hipMemGenericAllocationHandle_t memory = NULL;
    begin_key(gpu, key);
    int status = iso_hip_result(gpu, "hipMemRetainAllocationHandle", hipMemRetainAllocationHandle(&memory, base));
    if (status != 0)
        return status;
    status = iso_hip_result(gpu, "hipMemExportToShareableHandle",
                            hipMemExportToShareableHandle(&key->fd, memory, hipMemHandleTypePosixFileDescriptor, 0));
    (void)hipMemRelease(memory);
    return status;
}

int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, struct gpu_allocation *a)
{
    hipDeviceptr_t base = NULL;
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipMemGetAddressRange", hipMemGetAddressRange(&base, &a->len, ptr));
    if (status != 0)
        return status;
    a->start = (char *)base;
    a->method = GPU_SHARE_IPC;
    if (export_ipc(gpu, base, &a->key) == 0)
        return 0;
    a->method = GPU_SHARE_VMM;
    return export_vmm(gpu, base, &a->key) == 0 ? 0 : -ENOTSUP;
}

/* ---- memory that network devices reach ---- */

/* The descriptor that shares a chunk is its dma-buf. For allocations the runtime below HIP makes one. */
int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    struct hip_chunk chunk = {NULL, 0, NULL, NULL};
    pthread_mutex_lock(&gpu->lock);
    for (const struct hip_chunk *c = gpu->chunks; c != NULL && chunk.at == NULL; c = c->next)
        if ((size_t)(at - c->at) < c->len)
            chunk = *c;
    pthread_mutex_unlock(&gpu->lock);
    *fd = -1;
    *offset = 0;
    iso_hip_use(gpu);
    if (chunk.at != NULL) {
        *offset = (uint64_t)(at - chunk.at);
        return iso_hip_result(gpu, "hipMemExportToShareableHandle",
                              hipMemExportToShareableHandle(fd, chunk.memory, hipMemHandleTypePosixFileDescriptor, 0));
    }
    if (gpu->export_dmabuf == NULL)
        return iso_hip_refuse(gpu, -ENOTSUP, "this ROCm has no hsa_amd_portable_export_dmabuf");
    return gpu->export_dmabuf(at, len, fd, offset) == 0
               ? 0
               : iso_hip_refuse(gpu, -ENOTSUP, "hsa_amd_portable_export_dmabuf makes no dma-buf of this memory");
}

/* The read forces the store out to the device. */
void iso_gpu_flush_writes(struct gpu *gpu)
{
    if (gpu->hdp_flush == NULL)
        return;
    *gpu->hdp_flush = 1;
    (void)*gpu->hdp_flush;
}

/* ---- what there is ---- */

/* Where a device has no other pool, HIP silently takes the pool of coarse-grained memory. False where the HSA runtime
 * does not tell. */
static bool says_coarse(const void *ptr)
{
    hsa_status_t (*ask)(const void *, hsa_amd_pointer_info_t *, void *(*)(size_t), uint32_t *, hsa_agent_t **);
    void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD), *entry = NULL;
    hsa_amd_pointer_info_t info;
    memset(&info, 0, sizeof(info));
    info.size = sizeof(info);
    if (library != NULL)
        entry = dlsym(library, "hsa_amd_pointer_info");
    memcpy(&ask, &entry, sizeof(entry));
    return ask != NULL && ask(ptr, &info, NULL, NULL, NULL) == HSA_STATUS_SUCCESS &&
           info.type != HSA_EXT_POINTER_TYPE_UNKNOWN && info.size == sizeof(info) &&
           (info.global_flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) != 0;
}

/* Finds out on a small piece which memory peers may poll, and whether a key can share it. */
static void probe_ipc(struct gpu *gpu)
{
    static const unsigned flags[] = {UNCACHED_MEMORY, hipDeviceMallocFinegrained};
    struct gpu_key key;
    void *piece = NULL;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && piece == NULL; i++) {
        gpu->communication = flags[i];
        if (allocate_kind(gpu, ISO_HIP_GRANULARITY, GPU_COMMUNICATION, &piece) != 0)
            piece = NULL;
        gpu->coarse = piece != NULL && flags[i] == hipDeviceMallocFinegrained && says_coarse(piece);
        if (gpu->coarse) {
            (void)hipFree(piece);
            piece = NULL;
        }
    }
    if (piece == NULL) {
        gpu->communication = 0;
        gpu->info.ipc_why = why_none(gpu);
        return;
    }
    gpu->info.can_ipc = export_ipc(gpu, piece, &key) == 0;
    (void)hipFree(piece);
}

/* Makes, exports, imports and maps one granule. 0 or -errno. */
static int probe_granule(struct gpu *gpu)
{
    struct gpu_key key;
    char *ours = NULL, *theirs = NULL;
    size_t len = gpu->granularity;
    int status = iso_gpu_reserve(gpu, len, &ours);
    if (status == 0)
        status = iso_gpu_reserve(gpu, len, &theirs);
    if (status == 0)
        status = iso_gpu_chunk_create(gpu, ours, len, GPU_COMMUNICATION, &key);
    if (status == 0) {
        /* An address given for a number is a bad descriptor, the reverse would be a wild pointer: so in this order. */
        struct gpu_key again = key;
        again.fd = dup(key.fd);
        gpu->fd_by_pointer = true;
        status = iso_gpu_chunk_import(gpu, theirs, len, &again);
        gpu->fd_by_pointer = status == 0;
        if (status != 0)
            status = iso_gpu_chunk_import(gpu, theirs, len, &key);
        else
            close(key.fd);
        iso_gpu_chunk_release(gpu, ours, len);
        if (status == 0)
            iso_gpu_chunk_release(gpu, theirs, len);
    }
    iso_gpu_unreserve(gpu, theirs, len);
    iso_gpu_unreserve(gpu, ours, len);
    return status;
}

static void probe_vmm(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    size_t granularity = 0;
    gpu->granularity = ISO_HIP_GRANULARITY;
    gpu->vmm_type = (hipMemAllocationType)UNCACHED_TYPE;
    int says = 0;
#if HIP_VERSION >= 60000000 /* older ones have no such attribute, and no uncached type either */
    if (hipDeviceGetAttribute(&says, hipDeviceAttributeVirtualMemoryManagementSupported, info->device) != hipSuccess)
        says = 0;
#endif
    if (says == 0) {
        snprintf(info->vmm_why, sizeof(info->vmm_why), "the device or its HIP (%d.%d) has no virtual memory management",
                 HIP_VERSION_MAJOR, HIP_VERSION_MINOR);
        return;
    }
    hipMemAllocationProp properties = chunk_properties(gpu, gpu->vmm_type);
    if (hipMemGetAllocationGranularity(&granularity, &properties, hipMemAllocationGranularityRecommended) ==
            hipSuccess &&
        granularity > ISO_HIP_GRANULARITY)
        gpu->granularity = granularity;
    info->can_vmm = probe_granule(gpu) == 0;
    if (!info->can_vmm)
        snprintf(info->vmm_why, sizeof(info->vmm_why), "no uncached memory that grows (older is coarse): %.45s",
                 gpu->error);
}

void iso_hip_probe_memory(struct gpu *gpu)
{
    probe_ipc(gpu);
    probe_vmm(gpu);

    void *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD), *entry = NULL;
    uint32_t *flush = NULL; /* HIP stores an address there, whatever the type of the argument says */
    if (library != NULL)
        entry = dlsym(library, "hsa_amd_portable_export_dmabuf");
    memcpy(&gpu->export_dmabuf, &entry, sizeof(entry));
    if (hipDeviceGetAttribute((int *)(void *)&flush, hipDeviceAttributeHdpMemFlushCntl, gpu->info.device) == hipSuccess)
        gpu->hdp_flush = flush;
}
