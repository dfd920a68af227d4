/* SPDX-License-Identifier: MIT */
/* What the two files of the program that installed.sh builds say to each other. */
#ifndef INSTALLED_KERNELS_H
#define INSTALLED_KERNELS_H

#include <shmem_device.h>

struct ring_args {
    shmemd_t h;
    long *inbox, *sum; /* symmetric */
    uint64_t *signal;
};

#endif
