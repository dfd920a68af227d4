// SPDX-License-Identifier: MIT
// nvshmem_calls.cpp once more: its kernels are in a module that the program loads, and whose calls are the functions of
// device/nvshmem_externs.cpp.
#include "nvshmem_calls.cpp"
