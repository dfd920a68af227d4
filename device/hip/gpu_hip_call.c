/* SPDX-License-Identifier: MIT */
/* AMD GPUs: what a call of HIP needs around it: the device that is current, the mode of a thread while a stream is
 * captured, and the sentence of a failure. Includes gpu_hip.h. Called by gpu_hip*.c. */
#include "gpu_hip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

static int error_of(hipError_t e)
{
    switch (e) {
    case hipSuccess:
        return 0;
    case hipErrorOutOfMemory:
        return -ENOMEM;
    case hipErrorInvalidValue:
        return -EINVAL;
    case hipErrorNotSupported:
        return -ENOTSUP;
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
        return -ENODEV;
    default:
        return -EIO;
    }
}

int iso_hip_result(struct gpu *gpu, const char *call, hipError_t e)
{
    if (e == hipSuccess)
        return 0;
    (void)hipGetLastError(); /* HIP would report it again, by a call that it does not concern */
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof(gpu->error), "%s: %s (%s)", call, hipGetErrorName(e), hipGetErrorString(e));
    pthread_mutex_unlock(&gpu->lock);
    return error_of(e);
}

int iso_hip_refuse(struct gpu *gpu, int status, const char *sentence)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof(gpu->error), "%s", sentence);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* ---- before and after a call ---- */

int iso_hip_enter(const struct gpu *gpu)
{
    int before = -1;
    if (hipGetDevice(&before) == hipSuccess && before == gpu->info.device)
        return -1;
    (void)hipSetDevice(gpu->info.device);
    return before;
}
void iso_hip_give_back(const int *before)
{
    if (*before >= 0)
        (void)hipSetDevice(*before);
}

bool iso_hip_is_off(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && strcmp(text, "0") == 0;
}

hipStreamCaptureMode iso_hip_relax(void)
{
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    (void)hipThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
void iso_hip_restore(hipStreamCaptureMode mode) { (void)hipThreadExchangeStreamCaptureMode(&mode); }
