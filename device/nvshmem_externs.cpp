// SPDX-License-Identifier: MIT
// NVSHMEM's calls of kernels as C functions, with its names and signatures: for Triton, Numba and other tool chains
// whose kernels name them. They are those of include/compat, which says what each does. No handle: the module has one
// variable, COMPAT_SYMBOL, that the host fills once it has loaded the module (nvshmemx_cumodule_init,
// shmemx_module_write). Comparisons and signals are NVSHMEM's numbers.
// Half and bfloat16 are missing where a call takes or gives one by value, and all that is a template.
// Nothing of the library links this file. Built as device/externs.c is, for NVIDIA: lib/isomer_nvshmem-nvptx64.bc.
// Includes: include/compat/nvshmem.h.
#define COMPAT_EXTERNS
#include "../include/compat/nvshmem.h"
