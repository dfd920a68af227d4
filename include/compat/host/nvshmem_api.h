/* SPDX-License-Identifier: MIT */
/* NVSHMEM's path of its host calls: PyTorch's symmetric memory takes it. */
#include "../nvshmem.h"
