/* SPDX-License-Identifier: MIT */
/* NVSHMEM's header for units without kernels, which its later versions have. Here the calls of kernels are in it, too. */
#include "nvshmemx.h"
