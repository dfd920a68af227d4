/* SPDX-License-Identifier: MIT */
/* The host code of the AMD flavour as one piece over the doubles of HIP and HSA, and the machine that hip*_test.c begin
 * with. Includes the flavour's sources: for a program that has no other flavour's in use. */
#ifndef HIP_FLAVOUR_H
#define HIP_FLAVOUR_H

#include <dlfcn.h>
static void *hsa_dlopen(const char *name, int flags);
static void *hsa_dlsym(void *library, const char *name);
#define dlopen hsa_dlopen
#define dlsym hsa_dlsym

#define ISO_HIP_ARCH "gfx90a, gfx942"
#include "../../device/hip/gpu_hip.c"
#include "../../device/hip/gpu_hip_engine.c"
#include "../../device/hip/gpu_hip_memory.c"

#include "hip_double.h"
#include "hsa_double.h"

/* MI300X under a recent HIP. */
static inline void machine(void)
{
    memset(&hip, 0, sizeof(hip));
    hip.devices = 4;
    hip.wave = 64;
    hip.uncached = hip.fine_grained = hip.ipc = hip.engine_copies = hip.uncached_chunks = hip.fd_by_value = true;
    hsa_machine();
}

/* Device 1. */
static inline struct gpu *opened(void)
{
    struct gpu *gpu = NULL;
    char why[200] = "";
    CHECK_OR_EXIT(iso_gpu_open(&gpu, 5, "", why, sizeof(why)) == 0);
    return gpu;
}
static inline void closed(struct gpu *gpu)
{
    iso_gpu_close(gpu);
    CHECK_EQ(hip.live, 0);
    CHECK_EQ(hip.wild, 0);
}

#endif
