/* SPDX-License-Identifier: MIT */
/* Compiled only, as C and as C++: names that a program may have macros for must not spoil the headers, neither before
 * nor after their inclusion; constants are constants; the generic calls take all types, const, arrays and each other.
 */
#include <iso646.h>
#include <sys/param.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" { /* as programs do around C headers */
#endif
#include <shmem.h>
#include <pshmem.h>
#include <shmemx.h>
#ifdef __cplusplus
}
#endif

/* Handles and constants in initializers and case labels. */
static const shmem_team_t teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED, SHMEM_TEAM_INVALID};
static const shmem_ctx_t ctxs[] = {SHMEM_CTX_DEFAULT, SHMEM_CTX_INVALID};
static long psync[SHMEM_REDUCE_SYNC_SIZE > SHMEM_BCAST_SYNC_SIZE ? SHMEM_REDUCE_SYNC_SIZE : SHMEM_BCAST_SYNC_SIZE];
static const char vendor[SHMEM_MAX_NAME_LEN] = SHMEM_VENDOR_STRING;

int constants(int cmp);
int constants(int cmp)
{
    switch (cmp) {
    case SHMEM_CMP_EQ:
    case SHMEM_CMP_NE:
    case SHMEM_CMP_LT:
    case SHMEM_CMP_LE:
    case SHMEM_CMP_GT:
    case SHMEM_CMP_GE:
        return _SHMEM_CMP_EQ == SHMEM_CMP_EQ && SHMEM_SYNC_SIZE >= SHMEM_ALLTOALLS_SYNC_SIZE;
    default:
        return teams[0] == SHMEM_TEAM_WORLD && ctxs[0] != SHMEM_CTX_INVALID && psync[0] == SHMEM_SYNC_VALUE &&
               vendor[0] != '\0' && (cmp & (SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED | SHMEM_CTX_NOSTORE)) == 0;
    }
}

/* The function does not return, and compilers know it. */
int ends(int status);
int ends(int status)
{
    if (status == 0)
        return 0;
    shmem_global_exit(status);
}

#ifndef SHMEM_NO_GENERIC

/* What programs define for themselves. */
#define g 9.81
#define p (*pointer)
#define put 1
#define get 2
#define add 3
#define set 4
#define inc 5
#define swap 6
#define test 7
#define uint unsigned int
#define uchar unsigned char
#define ulong unsigned long
#define schar signed char
#define op 8
#define dest 9
#define source 10

struct pair {
    double first;
    int64_t second[4];
};

int generics(struct pair *here, const struct pair *there, unsigned char *bytes, size_t *sizes);
int generics(struct pair *here, const struct pair *there, unsigned char *bytes, size_t *sizes)
{
    static int grid[3][5];
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    shmem_put(&here->first, &there->first, 1, 0);
    shmem_get(ctx, here->second, there->second, 4, 0);
    shmem_p(bytes, 3, 0);
    shmem_p(ctx, &bytes[1], 'x', 0);
    /* one inside another */
    shmem_p(&here->first, shmem_g(&there->first, 1) + shmem_g(ctx, &there->first, (int)shmem_g(&there->second[0], 2)),
            0);
    shmem_put(grid[1], grid[2], sizeof grid[0] / sizeof grid[0][0], shmem_team_my_pe(SHMEM_TEAM_WORLD));
    shmem_iput(&grid[0][0], &grid[1][0], 5, 1, 3, 0);
    shmem_atomic_add(sizes, 1, 0);
    shmem_atomic_set(&here->first, 2.5, 0);
    if (shmem_atomic_fetch_inc(ctx, &here->second[1], 0) > 0)
        shmem_inc(&grid[0][0], 0);
    shmem_set(&here->first, 1.0, 0);
    shmem_put_signal(bytes, bytes + 8, 4, (uint64_t *)0, 1, SHMEM_SIGNAL_ADD, 0);
    shmem_signal_set((uint64_t *)0, 1, 0);
    shmem_signal_set(ctx, (uint64_t *)0, 1, 0);
    shmem_wait_until(&here->second[0], SHMEM_CMP_NE, 0);
    shmem_sync(SHMEM_TEAM_WORLD);
    shmem_sync(0, 0, 1, psync);
    shmem_sum_reduce(SHMEM_TEAM_WORLD, here->second, there->second, 4);
    shmem_and_reduce(SHMEM_TEAM_WORLD, bytes, (const unsigned char *)bytes + 8, 4);
    return shmem_test(&grid[0][0], SHMEM_CMP_GT, 1);
}

#else

/* A tool's definition of a name that is also generic. */
#ifdef __cplusplus
extern "C" {
#endif
void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    pshmem_sync(PE_start, logPE_stride, PE_size, pSync);
}
void shmem_wait_until(long *ivar, int cmp, long cmp_value) { pshmem_wait_until(ivar, cmp, cmp_value); }
#ifdef __cplusplus
}
#endif

#endif
