/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: what a call of the runtime or the driver needs around it: the device that is current, the mode of a
 * thread while a stream is captured, and the sentence of a failure. Includes gpu_cuda.h. Called by gpu_cuda*.c. */
#include "gpu_cuda.h"

#include <errno.h>
#include <stdio.h>

/* ---- before and after a call ---- */

/* A thread in which nothing has been made current has no context, although cudaGetDevice says 0: contexts tell. */
struct iso_cuda_before iso_cuda_enter(const struct gpu *gpu)
{
    const struct driver *driver = &gpu->driver;
    struct iso_cuda_before before = {gpu, NULL, -1};
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
void iso_cuda_give_back(const struct iso_cuda_before *before)
{
    if (before->device >= 0)
        (void)cudaSetDevice(before->device);
    if (before->context != NULL)
        (void)before->gpu->driver.cuCtxSetCurrent(before->context);
}

enum cudaStreamCaptureMode iso_cuda_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
void iso_cuda_restore(enum cudaStreamCaptureMode mode) { (void)cudaThreadExchangeStreamCaptureMode(&mode); }

/* ---- failures ---- */

int iso_cuda_failed(struct gpu *gpu, int rc, const char *what, const char *words)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof gpu->error, "%s: %s", what, words != NULL ? words : "unknown error");
    pthread_mutex_unlock(&gpu->lock);
    return rc;
}

/* The runtime forgets its error. A kernel is registered with the copy of the runtime that its program links, and nvcc
 * links a static one by default. */
int iso_cuda_check(struct gpu *gpu, const char *what, cudaError_t e)
{
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    if (e == cudaErrorInvalidDeviceFunction)
        return iso_cuda_failed(
            gpu, -EIO, what,
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
