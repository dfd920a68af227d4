/* SPDX-License-Identifier: MIT */
/* NVSHMEM's path of the extensions of its host calls. */
#include "../nvshmemx.h"
