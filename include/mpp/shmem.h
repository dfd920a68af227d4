/* SPDX-License-Identifier: MIT */
/* The deprecated path of shmem.h. */
#ifndef MPP_SHMEM_H
#define MPP_SHMEM_H

#include "../shmem.h"

#endif
