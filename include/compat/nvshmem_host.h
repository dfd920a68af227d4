/* SPDX-License-Identifier: MIT */
/* NVSHMEM's header for units without kernels, which its later versions have: here the calls of kernels are there, too. */
#include "nvshmemx.h"
