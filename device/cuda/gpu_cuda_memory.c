/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: memory that peers map, by chunks (VMM) or whole allocations (IPC), of the library and of the program;
 * and memory of this PE alone. All of it is ordinary device memory: it is coherent towards peers, so GPU_BULK and
 * GPU_COMMUNICATION are alike. This file zeroes memory on a stream of its own and waits for that stream alone.
 * cudaMalloc, cudaFree, cudaHostAlloc and mapping may synchronise the device: only set-up calls use them. Includes
 * gpu_cuda.h. Called by shmem/, gpu_cuda.c. */
#include "gpu_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }
static char *pointer(CUdeviceptr p) { return (char *)(uintptr_t)p; }

static int attribute(struct gpu *gpu, CUdevice_attribute name)
{
    int value = 0;
    return gpu->driver.cuDeviceGetAttribute(&value, name, gpu->info.device) == CUDA_SUCCESS ? value : 0;
}

/* ---- memory that peers map ---- */

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
    iso_cuda_use(gpu);
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop;
    int rc = DRIVER(gpu, cuMemRetainAllocationHandle, &memory, at);
    if (rc != 0)
        return rc;
    rc = DRIVER(gpu, cuMemGetAllocationPropertiesFromHandle, &prop, memory);
    if (rc == 0 && ((unsigned)prop.requestedHandleTypes & BY_DESCRIPTOR) == 0)
        rc = iso_cuda_failed(gpu, -ENOTSUP, "cuMemCreate", "this memory was not made to be shared");
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
    iso_cuda_use(gpu);
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
    iso_cuda_use(gpu);
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
    iso_cuda_use(gpu);
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
    iso_cuda_use(gpu);
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
                           enum gpu_sharing *method)
{
    CUdeviceptr base = 0;
    int rc = DRIVER(gpu, cuMemGetAddressRange, &base, len, address(ptr));
    if (rc != 0)
        return rc;
    *start = pointer(base);
    *method = GPU_SHARE_VMM;
    if (export_vmm(gpu, ptr, key) == 0)
        return 0;
    *method = GPU_SHARE_IPC;
    return get_ipc_key(gpu, *start, key) == 0 ? 0 : -ENOTSUP;
}

/* ---- memory that network devices reach ---- */

int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)at & ~(page - 1);
    size_t whole = (((uintptr_t)at + len + page - 1) & ~(page - 1)) - start;
    *fd = -1;
    *offset = (uintptr_t)at - start;
    if (!attribute(gpu, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        return iso_cuda_failed(gpu, -ENOTSUP, "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED", "this driver makes no dma-bufs");
    return DRIVER(gpu, cuMemGetHandleForAddressRange, fd, (CUdeviceptr)start, whole,
                  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

void iso_gpu_flush_writes(struct gpu *gpu)
{
    if (!gpu->info.orders_writes)
        (void)DRIVER(gpu, cuFlushGPUDirectRDMAWrites, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

/* Tries the features that the driver promises: containers and virtual machines take some of them away. */
void iso_cuda_probe_memory(struct gpu *gpu)
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

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    *ptr = NULL;
    int rc = RUNTIME(gpu, cudaMalloc, ptr, len);
    if (rc == 0)
        rc = zero(gpu, *ptr, len);
    if (rc != 0) {
        (void)cudaFree(*ptr);
        *ptr = NULL;
    }
    iso_cuda_restore(mode);
    return rc;
}

/* cudaFree and cudaFreeHost wait for all kernels, and hold a lock meanwhile that copies of other threads need: a kernel
 * that waits for the proxy then waits for ever. cudaDeviceSynchronize in front of them would end every capture. So
 * callers free behind iso_gpu_wait_all. Two do not: a second probe at the same time frees its tools, and a member frees
 * its table of nodes when another member has no memory for one. */
void iso_gpu_free(struct gpu *gpu, void *ptr)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    (void)RUNTIME(gpu, cudaFree, ptr);
    iso_cuda_restore(mode);
}

int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
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
    iso_cuda_restore(mode);
    return rc;
}

void iso_gpu_host_free(struct gpu *gpu, void *host)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    (void)RUNTIME(gpu, cudaFreeHost, host);
    iso_cuda_restore(mode);
}

/* Managed memory counts as pinned: both sides may load it. */
enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr)
{
    struct cudaPointerAttributes attributes;
    iso_cuda_use(gpu);
    if (cudaPointerGetAttributes(&attributes, ptr) != cudaSuccess) {
        (void)cudaGetLastError();
        return GPU_POINTER_HOST;
    }
    if (attributes.type == cudaMemoryTypeDevice)
        return GPU_POINTER_DEVICE;
    bool pinned = attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeManaged;
    return pinned ? GPU_POINTER_PINNED : GPU_POINTER_HOST;
}
