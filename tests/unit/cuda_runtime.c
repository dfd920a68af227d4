/* SPDX-License-Identifier: MIT */
/* What NVIDIA's flavour says of errors of the CUDA runtime. Without a device: the runtime is not called but for
 * words. */
#include "../../device/cuda/gpu_cuda.c"

#include "../check.h"

/* The whole sentence must fit, the longest name of a call included. */
static void static_runtime_is_named(struct gpu *gpu)
{
    CHECK(cuda_check(gpu, "cudaOccupancyMaxActiveBlocksPerMultiprocessor", cudaErrorInvalidDeviceFunction) == -EIO);
    CHECK(strncmp(iso_gpu_error(gpu), "cudaOccupancy", 13) == 0);
    CHECK(strstr(iso_gpu_error(gpu), "nvcc -cudart shared") != NULL);
    CHECK(strstr(iso_gpu_error(gpu), "isomer::isomer") != NULL);
    CHECK(strstr(iso_gpu_error(gpu), "for this device") != NULL);
}

static void other_errors_keep_their_words(struct gpu *gpu)
{
    CHECK(cuda_check(gpu, "cudaMalloc", cudaErrorMemoryAllocation) == -ENOMEM);
    CHECK(strstr(iso_gpu_error(gpu), "out of memory") != NULL && strstr(iso_gpu_error(gpu), "-cudart") == NULL);
    CHECK(cuda_check(gpu, "cudaMalloc", cudaSuccess) == 0);
}

static void code_is_found(void)
{
    CHECK(has_code("90", 9, 0) && has_code("80,90a", 9, 0) && has_code("80,90", 8, 9) && has_code("90a,120", 12, 0));
    CHECK(!has_code("", 9, 0) && !has_code("80", 9, 0) && !has_code("89", 8, 6) && !has_code("90", 12, 0));
}

int main(void)
{
    static struct gpu gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static_runtime_is_named(&gpu);
    other_errors_keep_their_words(&gpu);
    code_is_found();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
