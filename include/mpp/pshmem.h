/* SPDX-License-Identifier: MIT */
/* The deprecated path of pshmem.h. */
#ifndef MPP_PSHMEM_H
#define MPP_PSHMEM_H

#include "../pshmem.h"

#endif
