/* SPDX-License-Identifier: MIT */
/* The lines of isomer-info and the doctor about devices: which one this PE uses, how its memory is shared and why, the
 * objects of the heap, the cost of several PEs on one device, and settings of the environment that cause failures.
 * Starts nothing. Called by info.c. */
#include "../../bootstrap/env.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static const char *method(const struct device *d) { return d->sharing == GPU_SHARE_VMM ? "vmm" : "ipc"; }

static const char *path_of(const struct segment *s, int pe)
{
    return iso_handle_near(s, pe) != NULL ? "by pointer" : "by the proxy";
}

/* One range of PEs for each run of equal answers. */
static void write_paths(FILE *out, const struct segment *s)
{
    bool hides = ISO->env->force_proxy || ISO->env->virtual_nodes[0] != '\0';
    fprintf(out, "  kernels of PE %d reach the device heaps of", ISO->my_pe);
    for (int from = 0, to; from < ISO->n_pes; from = to) {
        const char *path = path_of(s, from);
        for (to = from + 1; to < ISO->n_pes && strcmp(path_of(s, to), path) == 0; to++)
            continue;
        if (to - from == 1)
            fprintf(out, "%s PE %d %s", from > 0 ? "," : "", from, path);
        else
            fprintf(out, "%s PEs %d-%d %s", from > 0 ? "," : "", from, to - 1, path);
    }
    fprintf(out, "%s\n", !hides ? "" : ISO->env->force_proxy ? " (SHMEM_FORCE_PROXY)" : " (SHMEM_VIRTUAL_NODES)");
}

void iso_device_write_info(FILE *out)
{
    const struct device *d = ISO->device;
    if (d == NULL || !d->running) {
        char text[512] = "";
        iso_gpu_survey(text, sizeof text);
        fprintf(out, "device: none in use; %s\n", text);
        return;
    }
    const struct segment *s = &ISO->segments[SEGMENT_INDEX_DEVICE];
    struct alloc_stats objects = iso_alloc_stats(d->alloc), control = iso_alloc_stats(d->control);
    fprintf(out, "device of PE %d: %s, number %d of %d, %s (%s), %llu MiB, %d multiprocessors, waves of %d\n",
            ISO->my_pe, d->info->flavour, d->info->device, d->info->n_devices, d->info->name, d->info->id,
            (unsigned long long)(d->info->memory_bytes / MIB), d->info->multiprocessors, d->info->wave_size);
    fprintf(out, "  memory is shared by %s: %s\n", method(d), d->sharing_why);
    fprintf(out,
            "  heap %p: at most %zu MiB, %zu MiB allocated in %d chunk%s, %zu objects use %zu MiB; %zu slots use %zu "
            "of %zu KiB\n",
            (void *)s->base, objects.cap / MIB, (d->backed_bytes - d->control_bytes) / MIB,
            d->n_chunks > 0 ? d->n_chunks : 1, d->n_chunks > 1 ? "s" : "", objects.objects,
            objects.used / MIB, control.objects, control.used >> 10, d->control_bytes >> 10);
    write_paths(out, s);
    if (d->engines_why[0] != '\0')
        fprintf(out, "  copy engines: not used on streams: %s\n", d->engines_why);
    if (strcmp(d->info->flavour, "hip") == 0)
        fprintf(out, "  graphs: DEBUG_HIP_GRAPH_MIN_OVERLAP=%s (0: branches may wait for one another)\n",
                getenv("DEBUG_HIP_GRAPH_MIN_OVERLAP"));
    if (d->device_peers > 1)
        fprintf(out, "  %d PEs of this node share this device: see isomer-info --doctor\n", d->device_peers);
}

SHMEM_API(shmemx_device_text, pshmemx_device_text);
size_t pshmemx_device_text(char *text, size_t bytes)
{
    const struct device *d = ISO->device;
    char line[256];
    int n;
    if (d != NULL && d->running)
        n = snprintf(line, sizeof line, "%s device %d of %d, %s, memory shared by %s", d->info->flavour,
                     d->info->device, d->info->n_devices, d->info->name, method(d));
    else
        n = snprintf(line, sizeof line, "no device in use");
    if (text != NULL && bytes > 0)
        snprintf(text, bytes, "%s", line);
    return (size_t)n;
}

/* ---- the doctor ---- */

enum { FINE, WARNING, PROBLEM };

/* What torch is told by its variables about the memory of its tensors. */
static void examine_allocator(void (*find)(void *doctor, int severity, const char *sentence), void *doctor)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"};
    char text[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *settings = getenv(names[i]);
        bool is_async = settings != NULL && strstr(settings, "backend:cudaMallocAsync") != NULL;
        if (!is_async && (settings == NULL || strstr(settings, "expandable_segments:True") == NULL))
            continue;
        snprintf(text, sizeof text,
                 "%s has %s: calls take such tensors as any others, but no peer maps them, so large ones go by memory of "
                 "the library; %s",
                 names[i], is_async ? "backend:cudaMallocAsync" : "expandable_segments:True",
                 is_async ? "it has no pools, so isomer_shmem.mem_pool() raises; isomer_shmem.empty() takes its place"
                          : "peers reach those of isomer_shmem.mem_pool() by pointer");
        find(doctor, FINE, text);
    }
}

void iso_device_examine(void (*find)(void *doctor, int severity, const char *sentence), void *doctor)
{
    char text[640], survey[512] = "";
    const struct device *d = ISO->device;
    const char *overlap = getenv("DEBUG_HIP_GRAPH_MIN_OVERLAP"); /* opening the device sets it to 0 if it is not set */
    if (strcmp(ISO_GPU, "hip") == 0 && overlap != NULL && strcmp(overlap, "0") != 0)
        find(doctor, WARNING,
             "DEBUG_HIP_GRAPH_MIN_OVERLAP is set and not 0: HIP 7 may put branches of a graph into one stream, and a "
             "kernel that waits for another branch then never ends; unset it, or set it to 0");
    const char *legacy = getenv("HSA_ENABLE_IPC_MODE_LEGACY");
    if (strcmp(ISO_GPU, "hip") == 0 && legacy != NULL && strcmp(legacy, "0") != 0)
        find(doctor, WARNING,
             "HSA_ENABLE_IPC_MODE_LEGACY is set (some container images do): exporting device memory may fail with "
             "\"invalid argument\"; unset it when it does");
    if (strcmp(ISO_GPU, "cpu") != 0)
        examine_allocator(find, doctor);
    if (d == NULL || !d->running) {
        iso_gpu_survey(survey, sizeof survey);
        snprintf(text, sizeof text, "devices: %s", survey);
        find(doctor, FINE, text);
        return;
    }
    snprintf(text, sizeof text, "this PE uses %s %d (%s), its memory is shared by %s: %s", d->info->flavour,
             d->info->device, d->info->name, method(d), d->sharing_why);
    find(doctor, FINE, text);
    if (d->device_peers > 1 && strcmp(d->info->flavour, "cpu") != 0) {
        snprintf(text, sizeof text,
                 "%d PEs share %s: kernels of different processes run in turns, a time slice each (unless a service "
                 "such as MPS merges them), so a kernel that waits for a PE on the same device waits for whole time "
                 "slices",
                 d->device_peers, d->info->id);
        find(doctor, WARNING, text);
    }
    if (strstr(d->info->name, " MIG ") != NULL)
        find(doctor, WARNING,
             "this device is a MIG instance: CUDA shares no memory between instances, and those of one GPU have one PCI "
             "address, so PEs on two of them count as PEs that share a device; this library has not run there: give all "
             "PEs of a node one instance, or whole GPUs");
    unsigned queues = d->info->hardware_queues;
    if (queues == 0 || strcmp(d->info->flavour, "cpu") == 0)
        return;
    /* Streams beyond the queues of the hardware share one. */
    snprintf(text, sizeof text,
             "%u streams of this device run at once; the library uses a few. With more, a kernel that waits may stand "
             "in front of the one it waits for: set %s",
             queues, strcmp(d->info->flavour, "hip") == 0 ? "GPU_MAX_HW_QUEUES" : "CUDA_DEVICE_MAX_CONNECTIONS");
    find(doctor, queues < 8 ? WARNING : FINE, text);
}
