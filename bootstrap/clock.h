/* SPDX-License-Identifier: MIT */
/* The clock of all waits: processes of a node may compare what it says. Used by all layers. */
#ifndef ISO_CLOCK_H
#define ISO_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t iso_clock_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
