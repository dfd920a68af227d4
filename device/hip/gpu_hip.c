/* SPDX-License-Identifier: MIT */
/* AMD GPUs: the device and its kernels; device/gpu.h over libamdhip64. All files of the flavour compile with the
 * headers of HIP 5.2 and run with HIP 5.2 to 7: newer features are numbers, tried at run time, and each has a way
 * without it. Includes gpu_hip.h. Called by shmem/, coll/. */
#include "gpu_hip.h"

#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_TO_COPY_WORDS_BY_ENGINES 70100000
#define FIRST_TO_LOSE_COPIES 70000000
#define FIRST_TO_END_JOINED_CAPTURES 50600000 /* of hipRuntimeGetVersion: 5.6, the oldest that is known to */

/* ---- kernels ---- */

/* The address by which clang's host pass registers a kernel; C has no conversion for it. */
static const void *address_of(gpu_kernel kernel)
{
    const void *address;
    memcpy(&address, &kernel, sizeof(address));
    return address;
}

static dim3 one_dimension(unsigned n)
{
    dim3 d = {n, 1, 1};
    return d;
}

int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    void *pieces[1]; /* one struct; HIP copies it and does not write it */
    memcpy(&pieces[0], &launch->args, sizeof(pieces[0]));
    iso_hip_use(gpu);
    return iso_hip_result(gpu, "hipLaunchKernel",
                          hipLaunchKernel(address_of(launch->kernel), one_dimension(launch->grid),
                                          one_dimension(launch->block), pieces, launch->shared_bytes,
                                          (hipStream_t)stream));
}

int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel)
{
    struct hipFuncAttributes attributes;
    char sentence[240];
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipFuncGetAttributes", hipFuncGetAttributes(&attributes, address_of(kernel)));
    if (status == 0)
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%.110s; this build has kernels for " ISO_HIP_ARCH ": for another device (rocminfo names it) configure with "
             "-DISO_HIP_ARCH",
             gpu->error);
    return iso_hip_refuse(gpu, status, sentence);
}

int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks)
{
    int each = 0;
    iso_hip_use(gpu);
    int status = iso_hip_result(
        gpu, "hipOccupancyMaxActiveBlocksPerMultiprocessor",
        hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, address_of(kernel), (int)block, shared_bytes));
    *blocks = status == 0 ? each * gpu->info.multiprocessors : 0;
    return status;
}

/* ---- the device ---- */

static int attribute(hipDeviceAttribute_t which, int device)
{
    int value = 0;
    return hipDeviceGetAttribute(&value, which, device) == hipSuccess ? value : 0;
}

struct runtimes {
    const char *first;
    char *why;
    size_t why_bytes;
};

/* 1, with a sentence: it is a second HIP runtime. Streams and memory of one are unknown to the other. */
static int find_second_runtime(struct dl_phdr_info *library, size_t bytes, void *arg)
{
    static const char name[] = "/libamdhip64";
    struct runtimes *found = (struct runtimes *)arg;
    const char *file = strrchr(library->dlpi_name, '/');
    (void)bytes;
    if (file == NULL || strncmp(file, name, sizeof(name) - 1) != 0)
        return 0;
    if (found->first == NULL) {
        found->first = library->dlpi_name;
        return 0;
    }
    snprintf(found->why, found->why_bytes,
             "two HIP runtimes are in this process, %.60s and %.60s; build Isomer with the HIP that the program loads "
             "(PyTorch brings one), of the same major release",
             found->first, library->dlpi_name);
    return 1;
}

/* Number of the device that `choice` or the local rank means, or -errno after a sentence. The first HIP call, unless
 * the program has made one. HIP 7 puts branches of a graph that look small into one stream, and then a kernel that
 * waits for another branch never ends: so the variable is set here, unless it is set already. */
static int choose(int local_rank, const char *choice, int *n_devices, char *why, size_t why_bytes)
{
    char *end = NULL;
    int n = 0;
    if (dl_iterate_phdr(find_second_runtime, &(struct runtimes){NULL, why, why_bytes}) != 0)
        return -ELIBACC;
    (void)setenv("DEBUG_HIP_GRAPH_MIN_OVERLAP", "0", 0);
    hipError_t e = hipGetDeviceCount(&n);
    if (e != hipSuccess || n == 0) {
        snprintf(why, why_bytes, "no AMD device: hipGetDeviceCount says %s", hipGetErrorName(e));
        return -ENODEV;
    }
    *n_devices = n;
    if (choice == NULL || choice[0] == '\0')
        return local_rank % n;
    long number = strtol(choice, &end, 10);
    if (*end == '\0' && number >= 0 && number < n)
        return (int)number;
    snprintf(why, why_bytes, "SHMEM_DEVICE=%.40s is not a number in 0..%d", choice, n - 1);
    return -EINVAL;
}

static int describe(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    size_t bytes = 0;
    int version = 0, device = info->device;
    const char *queues = getenv("GPU_MAX_HW_QUEUES"); /* HIP's own variable; it makes 4 */
    info->flavour = "hip";
    info->lock_calls = "hipFree, hipHostFree, hipStreamDestroy, hipDeviceSynchronize of HIP 5";
    int status = iso_hip_result(gpu, "hipDeviceGetName", hipDeviceGetName(info->name, (int)sizeof(info->name), device));
    if (status == 0)
        status =
            iso_hip_result(gpu, "hipDeviceGetPCIBusId", hipDeviceGetPCIBusId(info->id, (int)sizeof(info->id), device));
    if (status == 0)
        status = iso_hip_result(gpu, "hipDeviceTotalMem", hipDeviceTotalMem(&bytes, device));
    info->memory_bytes = bytes;
    info->multiprocessors = attribute(hipDeviceAttributeMultiprocessorCount, device);
    info->wave_size = attribute(hipDeviceAttributeWarpSize, device);
    info->shared_bytes = (size_t)attribute(hipDeviceAttributeMaxSharedMemoryPerBlock, device);
    info->hardware_queues = queues != NULL && atoi(queues) > 0 ? (unsigned)atoi(queues) : 4;
    if (hipRuntimeGetVersion(&version) != hipSuccess)
        version = 0;
    info->joins_captures = version >= FIRST_TO_END_JOINED_CAPTURES;
    info->tries_engines = version >= FIRST_TO_LOSE_COPIES;
    info->kernels_copy_words = version < FIRST_TO_COPY_WORDS_BY_ENGINES;
    if (status == 0 && info->wave_size != 64)
        status = iso_hip_refuse(gpu, -ENODEV, "its waves are not of 64 threads: only gfx9 (MI200, MI300, MI350) is supported");
    return status;
}

static int start(struct gpu *gpu)
{
    iso_hip_use(gpu);
    int status = describe(gpu);
    /* Refused where the device is in use already: then it waits as the program has chosen. */
    if (status == 0 && hipSetDeviceFlags(hipDeviceScheduleBlockingSync) != hipSuccess)
        (void)hipGetLastError();
    if (status == 0)
        status = iso_hip_open_streams(gpu);
    if (status != 0)
        return status;
    iso_hip_open_engines(gpu);
    iso_hip_probe_memory(gpu);
    gpu->error[0] = '\0'; /* of the probes */
    return 0;
}

int iso_gpu_open(struct gpu **gpu, int local_rank, const char *choice, char *why, size_t why_bytes)
{
    int n_devices = 0, device = choose(local_rank, choice, &n_devices, why, why_bytes);
    *gpu = NULL;
    if (device < 0)
        return device;
    struct gpu *made = (struct gpu *)calloc(1, sizeof(*made));
    if (made == NULL) {
        snprintf(why, why_bytes, "no host memory left");
        return -ENOMEM;
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->stage_lock, NULL);
    made->info.device = device;
    made->info.n_devices = n_devices;
    if (start(made) != 0) {
        snprintf(why, why_bytes, "AMD device %d cannot be used: %s", device, made->error);
        iso_gpu_close(made);
        return -ENODEV;
    }
    (void)hipSetDevice(device); /* the program's own calls mean it from now on, in this thread */
    *gpu = made;
    return 0;
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    iso_hip_close_engines(gpu);
    iso_hip_close_streams(gpu);
    pthread_mutex_destroy(&gpu->stage_lock);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }
const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }

bool iso_gpu_reaches(struct gpu *gpu, const char *id)
{
    int peer = -1, can = 0;
    if (strcmp(id, gpu->info.id) == 0)
        return true;
    iso_hip_use(gpu);
    if (hipDeviceGetByPCIBusId(&peer, id) != hipSuccess) {
        /* Hidden from this process (HIP_VISIBLE_DEVICES): opening its memory is what tells. */
        char path[80];
        (void)hipGetLastError();
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.40s", id);
        return access(path, F_OK) == 0;
    }
    if (hipDeviceCanAccessPeer(&can, gpu->info.device, peer) != hipSuccess || !can) {
        (void)hipGetLastError();
        return false;
    }
    hipError_t e = hipDeviceEnablePeerAccess(peer, 0);
    if (e != hipSuccess)
        (void)hipGetLastError();
    return e == hipSuccess || e == hipErrorPeerAccessAlreadyEnabled;
}

/* ---- survey: the kernel driver's own list, nothing is started ---- */

/* The gfx number of a node of the topology, 0: not a GPU. */
static unsigned node_version(const char *node)
{
    char path[160], name[64];
    unsigned long value = 0, version = 0, simds = 0;
    snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%.60s/properties", node);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    while (fscanf(file, "%63s %lu", name, &value) == 2) {
        if (strcmp(name, "simd_count") == 0)
            simds = value;
        else if (strcmp(name, "gfx_target_version") == 0)
            version = value;
    }
    fclose(file);
    return simds > 0 ? (unsigned)version : 0;
}

void iso_gpu_survey(char *text, size_t bytes)
{
    unsigned devices = 0, version = 0;
    DIR *nodes = opendir("/sys/class/kfd/kfd/topology/nodes");
    struct dirent *entry;
    while (nodes != NULL && (entry = readdir(nodes)) != NULL) {
        unsigned found = entry->d_name[0] == '.' ? 0 : node_version(entry->d_name);
        devices += found != 0;
        version = found != 0 ? found : version;
    }
    if (nodes != NULL)
        closedir(nodes);
    if (devices == 0)
        snprintf(text, bytes, "hip: no AMD device on this machine (the amdgpu driver lists none)");
    else
        snprintf(text, bytes, "hip: %u AMD device%s of gfx%u%u%x, kernels of this build for " ISO_HIP_ARCH "%s", devices,
                 devices == 1 ? "" : "s", version / 10000, version / 100 % 100, version % 100,
                 access("/dev/kfd", R_OK | W_OK) == 0 ? "" : ", but this user may not open /dev/kfd: join the group render");
}
