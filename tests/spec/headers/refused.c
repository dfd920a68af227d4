/* SPDX-License-Identifier: MIT */
/* Programs that must not compile, one a case, as C and as C++. Without a case, the file compiles. */
#include <shmem.h>

struct thing {
    int member;
};

void refused(struct thing *things, const long *constants, long *longs, float *floats, double *doubles, void *anything);
void refused(struct thing *things, const long *constants, long *longs, float *floats, double *doubles, void *anything)
{
    (void)things, (void)constants, (void)longs, (void)floats, (void)doubles, (void)anything;
    shmem_put(longs, constants, 1, 0);
#if CASE == 1 /* a structure is no OpenSHMEM type */
    shmem_put(things, things, 1, 0);
#endif
#if CASE == 2 /* nor is void in a typed call */
    shmem_get(anything, anything, 1, 0);
#endif
#if CASE == 3 /* the destination is const */
    shmem_p(constants, 1, 0);
#endif
#if CASE == 4 /* types of source and destination differ */
    shmem_put(longs, floats, 1, 0);
#endif
#if CASE == 5 /* too few arguments */
    shmem_put(longs, constants, 1);
#endif
#if CASE == 6 /* too many */
    shmem_put(SHMEM_CTX_DEFAULT, longs, constants, 1, 0, 0);
#endif
#if CASE == 7 /* no arithmetic atomics on floating point */
    shmem_atomic_add(floats, 1.0f, 0);
#endif
#if CASE == 8 /* no bitwise reduction of floating point */
    shmem_and_reduce(SHMEM_TEAM_WORLD, floats, floats, 1);
#endif
#if CASE == 9 /* a team is no context */
    shmem_p(SHMEM_TEAM_WORLD, longs, 1, 0);
#endif
#if CASE == 10 /* no waits on floating point */
    shmem_wait_until(doubles, SHMEM_CMP_EQ, 1.0);
#endif
#if CASE == 11 /* signals are uint64_t */
    shmem_put_signal(longs, constants, 1, doubles, 1, SHMEM_SIGNAL_SET, 0);
#endif
#if CASE == 12 /* a context is no team */
    shmem_sync(SHMEM_CTX_DEFAULT);
#endif
}
