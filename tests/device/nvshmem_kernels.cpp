// SPDX-License-Identifier: MIT
// The module of nvshmem_module.cpp.
#include "../../device/nvshmem_externs.cpp"
#include "nvshmem_kernels.hpp"
