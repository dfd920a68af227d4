/* SPDX-License-Identifier: MIT */
/* AMD GPUs: host memory that the device reads and writes, and the kind of memory behind a pointer. Includes gpu_hip.h.
 * Called by shmem/, coll/, gpu_hip_*.c. */
#include "gpu_hip.h"

#include <string.h>

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
