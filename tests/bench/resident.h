/* SPDX-License-Identifier: MIT */
/* How much memory this process has in RAM. For programs of several libraries: nothing of ours is needed. */
#ifndef BENCH_RESIDENT_H
#define BENCH_RESIDENT_H

#include <stdio.h>

/* KiB, -1 where the system does not say. */
static inline long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

#endif
