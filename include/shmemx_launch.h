/* SPDX-License-Identifier: MIT */
/* Launches of kernels, the same on every device: extensions to OpenSHMEM. Included by shmemx.h, where streams, graphs
 * and the device are; apart, since C++ kernels need this much of the host's calls and compile faster without the
 * rest. */
#ifndef SHMEMX_LAUNCH_H
#define SHMEMX_LAUNCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A stream of the device: hipStream_t, cudaStream_t, or the CPU device's. */
typedef void *shmemx_stream_t; /* NULL: the default stream, which is neither captured nor destroyed */

/* The number of blocks of this kernel, of `block_threads` threads each and with shared_bytes of dynamic shared memory,
 * that may wait for one another at once on this PE's device. Where PEs share a device it is this PE's share. Never more
 * than SHMEM_DEVICE_BLOCKS, which bounds the blocks that use collectives. Not collective. -1 after a sentence: no device
 * runs, kernel is a null pointer, block_threads is outside 1 .. 1024, shared_bytes is more than the device has for a
 * block (the CPU device: 227 KiB), or the device cannot run such blocks. */
typedef void (*shmemx_kernel_t)(void);
int shmemx_max_blocks(shmemx_kernel_t kernel, int block_threads, size_t shared_bytes);
/* The same without the bound by SHMEM_DEVICE_BLOCKS: the largest grid of a cooperative launch. Its further blocks may
 * use everything but collectives of their own block number: see shmemd_lane. */
int shmemx_max_grid(shmemx_kernel_t kernel, int block_threads, size_t shared_bytes);

/* Launches a kernel that SHMEMD_KERNEL has made:
 *     shmemx_launch(SHMEMX_KERNEL(ring), blocks, 256, 0, &args, sizeof args, stream);
 * The kernel may stand in another file: declare it by SHMEMX_DECLARE_KERNEL, not in the file that defines it nor in a
 * header of both. `args` is the kernel's one struct, copied before the call returns, and args_bytes its size. The CPU
 * device refuses another size. GPUs do not check: the kernel takes as many bytes as its struct has. `blocks` is 1 or
 * more, block_threads 1 .. 1024; shared_bytes is dynamic shared memory (SHMEMD_DYNAMIC_SHARED), at most what the device
 * has for a block (the CPU device: 227 KiB). Not collective. Nonzero after a sentence also: no device runs, an argument
 * is outside its range, the kernel cannot run with so many threads or so much memory. C++ kernels with arguments of
 * their own: shmem_device.hpp. */
#ifdef __cplusplus
#define SHMEMX_DECLARE_KERNEL(name) extern "C" void name(void)
#else
#define SHMEMX_DECLARE_KERNEL(name) extern void name(void)
#endif
#define SHMEMX_KERNEL(name) ((shmemx_kernel_t)(name))
int shmemx_launch(shmemx_kernel_t kernel, unsigned blocks, unsigned block_threads, size_t shared_bytes,
                  const void *args, size_t args_bytes, shmemx_stream_t stream);
/* The same for blocks that wait for one another: all of them can run at once, or the call returns nonzero after a
 * sentence that names the largest grid (shmemx_max_grid). It counts this PE's share of the device, and no other kernels
 * that may be running. The vendor's own barriers of a grid work in it (cooperative groups). */
int shmemx_launch_cooperative(shmemx_kernel_t kernel, unsigned blocks, unsigned block_threads, size_t shared_bytes,
                              const void *args, size_t args_bytes, shmemx_stream_t stream);

/* A grid or a block in three dimensions; 0 counts as 1. */
typedef struct {
    unsigned x, y, z;
} shmemx_dim_t;
/* How a kernel is launched. Begin with SHMEMX_LAUNCH_ATTR and set what you need. */
typedef struct {
    size_t struct_bytes; /* sizeof(shmemx_launch_attr_t) */
    shmemx_dim_t grid;   /* blocks */
    shmemx_dim_t block;  /* threads, 1024 at most */
    size_t shared_bytes; /* as of shmemx_launch */
    const void *args;    /* the kernel's one struct, and its size */
    size_t args_bytes;
    void *const *arguments; /* not NULL: a pointer to each argument of the kernel, in their order, instead of args. On
                             * the CPU device kernels have one argument, and only the first pointer is taken */
    int cooperative;        /* 1: as shmemx_launch_cooperative */
} shmemx_launch_attr_t;
#define SHMEMX_LAUNCH_ATTR {sizeof(shmemx_launch_attr_t), {1, 1, 1}, {1, 1, 1}, 0, NULL, 0, NULL, 0}
/* Launches a kernel as *attr says, which is read during the call. Returns as shmemx_launch; nonzero also when
 * attr->struct_bytes is another size. */
int shmemx_launch_attr(shmemx_kernel_t kernel, const shmemx_launch_attr_t *attr, shmemx_stream_t stream);

/* Copies `bytes` bytes from value to the variable `name`, a C name, of a module that the program has loaded: a
 * CUmodule, a hipModule_t, on the CPU device what dlopen gives. For handles of kernels that are compiled by themselves
 * (COMPAT_SYMBOL of compat/state.h). Not collective. The copy is done when the call returns. Nonzero after a sentence:
 * no device runs, an argument is a null pointer, the module has no variable of this name and size (the CPU device does
 * not know sizes). */
int shmemx_module_write(void *module, const char *name, const void *value, size_t bytes);
/* The same for the module that this PE's device has of a library: a CUlibrary, which Numba and cuda.core load; on the
 * CPU device what dlopen gives. Nonzero for AMD. */
int shmemx_library_write(void *library, const char *name, const void *value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
