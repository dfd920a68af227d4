/* SPDX-License-Identifier: MIT */
/* Preloaded: a monotonic clock that runs by turns at 1/5 and 9/5 of its speed, alike in all processes, so that two
 * measurements of one thing differ on any machine. It is never off by more than PERIOD_S. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <time.h>

#define PERIOD_S 0.05

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t);
int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*next)(clockid_t, struct timespec *);
    const double turn = 2 * M_PI / PERIOD_S;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = next(clock, t);
    if (rc != 0 || clock != CLOCK_MONOTONIC)
        return rc;
    double phase = fmod((double)(t->tv_sec % 3600) + 1e-9 * (double)t->tv_nsec, PERIOD_S);
    long ns = t->tv_nsec + (long)(1e9 * 0.8 / turn * (sin(turn * phase) + 1));
    t->tv_sec += ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}
