/* SPDX-License-Identifier: MIT */
/* NVSHMEM's standard names over this library, for programs that are written for it: the host in C and C++, kernels in
 * C++ (nvcc, or the CPU device). Put this folder before NVSHMEM's on the include path, and link libisomer. What each
 * name does, what differs and what is missing: docs/nvshmem.md. A name that is missing is a compile-time error.
 *
 * Kernels have no handle here: each translation unit keeps one in constant memory, which nvshmem_init fills. Units of
 * libraries that are loaded later are filled at the next call of the host. With and without -rdc=true.
 *
 * Group calls synchronise their group at both ends, the non-blocking ones too. Collectives and barriers of a team are
 * one sequence, whichever thread, warp or block calls; the next caller is ordered behind the last one by the program.
 */
#ifndef COMPAT_NVSHMEM_H
#define COMPAT_NVSHMEM_H

#if defined(__HIP__)
#error "compat/nvshmem.h is for NVIDIA and for the CPU device: kernels for AMD use shmem_device.hpp"
#endif
#if defined(__CUDACC__) && !defined(COMPAT_EXTERNS)
#define COMPAT_CUDA
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif
#include "state.h"

/* ---- constants and types ---- */

#define NVSHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define NVSHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define NVSHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define NVSHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define NVSHMEM_THREAD_SINGLE SHMEM_THREAD_SINGLE
#define NVSHMEM_THREAD_FUNNELED SHMEM_THREAD_FUNNELED
#define NVSHMEM_THREAD_SERIALIZED SHMEM_THREAD_SERIALIZED
#define NVSHMEM_THREAD_MULTIPLE SHMEM_THREAD_MULTIPLE
#ifdef COMPAT_EXTERNS /* other tool chains have NVSHMEM's numbers, not its header */
enum {
    NVSHMEM_CMP_EQ,
    NVSHMEM_CMP_NE,
    NVSHMEM_CMP_GT,
    NVSHMEM_CMP_LE,
    NVSHMEM_CMP_LT,
    NVSHMEM_CMP_GE,
    NVSHMEM_SIGNAL_SET = 9,
    NVSHMEM_SIGNAL_ADD = 10
};
#define COMPAT_CMP(cmp) ((int)(0x634521u >> 4 * (unsigned)(cmp)) & 7) /* a digit of SHMEM_CMP_ for each */
#define COMPAT_SIGNAL(op) ((op) - NVSHMEM_SIGNAL_SET + SHMEM_SIGNAL_SET) /* a wrong one stays wrong */
#else
#define NVSHMEM_CMP_EQ SHMEM_CMP_EQ
#define NVSHMEM_CMP_NE SHMEM_CMP_NE
#define NVSHMEM_CMP_LT SHMEM_CMP_LT
#define NVSHMEM_CMP_LE SHMEM_CMP_LE
#define NVSHMEM_CMP_GT SHMEM_CMP_GT
#define NVSHMEM_CMP_GE SHMEM_CMP_GE
#define NVSHMEM_SIGNAL_SET SHMEM_SIGNAL_SET
#define NVSHMEM_SIGNAL_ADD SHMEM_SIGNAL_ADD
#define COMPAT_CMP(cmp) (cmp)
#define COMPAT_SIGNAL(op) (op)
#endif
/* Rows of the tables for these types: there are none in C. */
#ifdef COMPAT_CUDA
#define COMPAT_HALVES(X, ...)     \
    X(half, __half, __VA_ARGS__) \
    X(bfloat16, __nv_bfloat16, __VA_ARGS__)
#elif defined(__cplusplus)
#define COMPAT_HALVES(X, ...) SHMEM_HALF_LIST(COMPAT_HALF, X, __VA_ARGS__)
#define COMPAT_HALF(NAME, T, AMO, RED, OLD, X, ...) X(NAME, T, __VA_ARGS__)
#else
#define COMPAT_HALVES(X, ...)
#endif

/* A sentence of the program's on stderr, which NVSHMEM's perftest uses. */
#define NVSHMEMI_ERROR_PRINT(...) fprintf(stderr, __VA_ARGS__)

/* Teams are numbers, for kernels too. */
typedef int32_t nvshmem_team_t;
typedef struct {
    int num_contexts;
} nvshmem_team_config_t;
#define NVSHMEM_TEAM_INVALID (-1)
#define NVSHMEM_TEAM_WORLD COMPAT_WORLD
#define NVSHMEM_TEAM_SHARED COMPAT_SHARED
#define NVSHMEMX_TEAM_NODE COMPAT_NODE

#ifndef COMPAT_EXTERNS

/* ---- start and end ---- */

COMPAT_HOST void compat_variables(void) { compat_heap_size("NVSHMEM_SYMMETRIC_SIZE"); }
COMPAT_HOST int nvshmem_init_thread(int requested, int *provided)
{
    compat_variables();
    return compat_init("nvshmem_init", requested, provided);
}
COMPAT_HOST void nvshmem_init(void)
{
    int provided;
    (void)nvshmem_init_thread(NVSHMEM_THREAD_SERIALIZED, &provided);
}
COMPAT_HOST void nvshmem_finalize(void) { compat_end(); }
COMPAT_HOST void nvshmem_query_thread(int *provided) { shmem_query_thread(provided); }
COMPAT_HOST void nvshmem_global_exit(int status) { shmem_global_exit(status); }
COMPAT_HOST void nvshmem_info_get_version(int *major, int *minor) { shmem_info_get_version(major, minor); }
COMPAT_HOST void nvshmem_info_get_name(char *name) { shmem_info_get_name(name); }

/* ---- memory: all of it is device memory ---- */

COMPAT_HOST void *nvshmem_malloc(size_t size) { return compat_here(), shmemx_malloc(size, SHMEMX_DEVICE); }
COMPAT_HOST void *nvshmem_calloc(size_t n, size_t size) { return compat_here(), shmemx_calloc(n, size, SHMEMX_DEVICE); }
COMPAT_HOST void *nvshmem_align(size_t alignment, size_t size)
{
    return compat_here(), shmemx_align(alignment, size, SHMEMX_DEVICE);
}
COMPAT_HOST void nvshmem_free(void *ptr) { shmemx_free(ptr); }

/* ---- teams of the host ---- */

COMPAT_HOST int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                                           const nvshmem_team_config_t *config, long mask, nvshmem_team_t *new_team)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    (void)config, (void)mask;
    int rc = shmem_team_split_strided(compat_team_of(parent), start, stride, size, NULL, 0, &team);
    *new_team = rc != 0 ? NVSHMEM_TEAM_INVALID : compat_team_made(__func__, team);
    return rc;
}
COMPAT_HOST int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange, const nvshmem_team_config_t *xconfig,
                                      long xmask, nvshmem_team_t *xteam, const nvshmem_team_config_t *yconfig,
                                      long ymask, nvshmem_team_t *yteam)
{
    shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID;
    (void)xconfig, (void)xmask, (void)yconfig, (void)ymask;
    int rc = shmem_team_split_2d(compat_team_of(parent), xrange, NULL, 0, &x, NULL, 0, &y);
    *xteam = rc != 0 ? NVSHMEM_TEAM_INVALID : compat_team_made(__func__, x);
    *yteam = rc != 0 ? NVSHMEM_TEAM_INVALID : compat_team_made(__func__, y);
    return rc;
}
COMPAT_HOST void nvshmem_team_destroy(nvshmem_team_t team) { compat_team_end(team); }

#endif

/* ---- calls of host and kernels ---- */

COMPAT_CALL(int, nvshmem_my_pe, (void), compat::world().my_pe, shmem_my_pe())
COMPAT_CALL(int, nvshmem_n_pes, (void), compat::world().n_pes, shmem_n_pes())
COMPAT_CALL(int, nvshmem_team_my_pe, (nvshmem_team_t team), compat::my_pe(team),
            shmem_team_my_pe(compat_team_of(team)))
COMPAT_CALL(int, nvshmem_team_n_pes, (nvshmem_team_t team), compat::n_pes(team),
            shmem_team_n_pes(compat_team_of(team)))
COMPAT_CALL(int, nvshmem_team_translate_pe, (nvshmem_team_t team, int pe, nvshmem_team_t other),
            compat::translate_pe(team, pe, other),
            shmem_team_translate_pe(compat_team_of(team), pe, compat_team_of(other)))
COMPAT_CALL(void *, nvshmem_ptr, (const void *ptr, int pe), shmemd_ptr(compat::world(), ptr, pe),
            shmemx_device_ptr(ptr, pe))
/* NULL says that the team has no multicast. Here no team has. */
COMPAT_CALL(void *, nvshmemx_mc_ptr, (nvshmem_team_t team, const void *ptr), ((void)team, (void)ptr, (void *)NULL),
            ((void)team, (void)ptr, (void *)NULL))

/* Calls of types and sizes are those of bytes. */
#define COMPAT_MEM(name, ours)                                              \
    COMPAT_DO(name, (void *dest, const void *source, size_t bytes, int pe), \
              shmemd_##ours(compat::world(), dest, source, bytes, pe), shmem_##ours(dest, source, bytes, pe))
#define COMPAT_MEM_SIGNAL(name, ours)                                                                           \
    COMPAT_DO(name,                                                                                             \
              (void *dest, const void *source, size_t bytes, uint64_t *sig_addr, uint64_t signal, int sig_op,   \
               int pe),                                                                                         \
              shmemd_##ours(compat::world(), dest, source, bytes, sig_addr, signal, COMPAT_SIGNAL(sig_op), pe), \
              shmem_##ours(dest, source, bytes, sig_addr, signal, sig_op, pe))
COMPAT_MEM(nvshmem_putmem, putmem)
COMPAT_MEM(nvshmem_getmem, getmem)
COMPAT_MEM(nvshmem_putmem_nbi, putmem_nbi)
COMPAT_MEM(nvshmem_getmem_nbi, getmem_nbi)
COMPAT_MEM_SIGNAL(nvshmem_putmem_signal, putmem_signal)
COMPAT_MEM_SIGNAL(nvshmem_putmem_signal_nbi, putmem_signal_nbi)

#define COMPAT_MOVE(FN, T, name, mem, bytes)                      \
    FN void name(T *dest, const T *source, size_t nelems, int pe) \
    {                                                             \
        mem(dest, source, nelems * (bytes), pe);                  \
    }
#define COMPAT_MOVE_SIGNAL(FN, T, name, mem, bytes)                                                                \
    FN void name(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) \
    {                                                                                                              \
        mem(dest, source, nelems * (bytes), sig_addr, signal, sig_op, pe);                                         \
    }
#define COMPAT_MOVES(FN, T, prefix, put, get, form, bytes)                             \
    COMPAT_MOVE(FN, T, put##form, prefix##_putmem##form, bytes)                        \
    COMPAT_MOVE(FN, T, get##form, prefix##_getmem##form, bytes)                        \
    COMPAT_MOVE(FN, T, put##_nbi##form, prefix##_putmem_nbi##form, bytes)              \
    COMPAT_MOVE(FN, T, get##_nbi##form, prefix##_getmem_nbi##form, bytes)              \
    COMPAT_MOVE_SIGNAL(FN, T, put##_signal##form, prefix##_putmem_signal##form, bytes) \
    COMPAT_MOVE_SIGNAL(FN, T, put##_signal_nbi##form, prefix##_putmem_signal_nbi##form, bytes)
#define COMPAT_RMA(NAME, T, ...) \
    COMPAT_MOVES(COMPAT_BOTH, T, nvshmem, nvshmem_##NAME##_put, nvshmem_##NAME##_get, , sizeof(T))
#define COMPAT_WORD(NAME, T, ...)                                                                                 \
    COMPAT_DO(nvshmem_##NAME##_p, (T * dest, const T value, int pe), shmemd::p(compat::world(), dest, value, pe), \
              shmem_putmem(dest, &value, sizeof(T), pe))                                                          \
    COMPAT_BOTH T nvshmem_##NAME##_g(const T *source, int pe)                                                     \
    {                                                                                                             \
        T value;                                                                                                  \
        COMPAT_EITHER((void)(value = shmemd::g(compat::world(), source, pe)),                                     \
                      shmem_getmem(&value, source, sizeof(T), pe));                                               \
        return value;                                                                                             \
    }
#define COMPAT_SIZES(BITS, BYTES, ...)                                                                 \
    COMPAT_MOVES(COMPAT_BOTH, void, nvshmem, nvshmem_put##BITS, nvshmem_get##BITS, , BYTES)            \
    COMPAT_STRIDED(void, nvshmem_iput##BITS, nvshmem_iget##BITS, shmemd_iput##BITS, shmemd_iget##BITS, \
                   shmem_iput##BITS, shmem_iget##BITS)
#define COMPAT_STRIDED(T, iput, iget, put_kernel, get_kernel, put_host, get_host)                     \
    COMPAT_DO(iput, (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
              put_kernel(compat::world(), dest, source, dst, sst, nelems, pe),                        \
              put_host(dest, source, dst, sst, nelems, pe))                                           \
    COMPAT_DO(iget, (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
              get_kernel(compat::world(), dest, source, dst, sst, nelems, pe),                        \
              get_host(dest, source, dst, sst, nelems, pe))
#define COMPAT_STRIDED_TYPE(NAME, T, ...)                                                                       \
    COMPAT_STRIDED(T, nvshmem_##NAME##_iput, nvshmem_##NAME##_iget, shmemd_##NAME##_iput, shmemd_##NAME##_iget, \
                   shmem_##NAME##_iput, shmem_##NAME##_iget)
#define COMPAT_STRIDED_HALF(NAME, T, ...)                                                                     \
    COMPAT_STRIDED(T, nvshmem_##NAME##_iput, nvshmem_##NAME##_iget, shmemd_iput16, shmemd_iget16, shmem_iput16, \
                   shmem_iget16)
SHMEM_DEVICE_ARITH_TYPES(COMPAT_RMA, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_WORD, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_STRIDED_TYPE, )
COMPAT_HALVES(COMPAT_RMA, )
COMPAT_HALVES(COMPAT_STRIDED_HALF, )
#ifndef COMPAT_EXTERNS /* other tool chains pass such a value in ways of their own */
COMPAT_HALVES(COMPAT_WORD, )
#endif
SHMEM_SIZES(COMPAT_SIZES, )

COMPAT_CALL(uint64_t, nvshmem_signal_fetch, (const uint64_t *sig_addr), shmemd_signal_fetch(compat::world(), sig_addr),
            shmem_signal_fetch(sig_addr))
COMPAT_CALL(uint64_t, nvshmem_signal_wait_until, (uint64_t *sig_addr, int cmp, uint64_t cmp_value),
            shmemd_signal_wait_until(compat::world(), sig_addr, COMPAT_CMP(cmp), cmp_value),
            shmem_signal_wait_until(sig_addr, cmp, cmp_value))

/* ---- atomics ---- */

#define COMPAT_EXT(NAME, T, ...)                                                                                    \
    COMPAT_CALL(T, nvshmem_##NAME##_atomic_fetch, (const T *source, int pe),                                        \
                shmemd_##NAME##_atomic_fetch(compat::world(), source, pe), shmem_##NAME##_atomic_fetch(source, pe)) \
    COMPAT_DO(nvshmem_##NAME##_atomic_set, (T * dest, T value, int pe),                                             \
              shmemd_##NAME##_atomic_set(compat::world(), dest, value, pe),                                         \
              shmem_##NAME##_atomic_set(dest, value, pe))                                                           \
    COMPAT_CALL(T, nvshmem_##NAME##_atomic_swap, (T * dest, T value, int pe),                                       \
                shmemd_##NAME##_atomic_swap(compat::world(), dest, value, pe),                                      \
                shmem_##NAME##_atomic_swap(dest, value, pe))
SHMEM_EXT_TYPES(COMPAT_EXT, )
#define COMPAT_AMO(NAME, T, ...)                                                                                      \
    COMPAT_CALL(T, nvshmem_##NAME##_atomic_compare_swap, (T * dest, T cond, T value, int pe),                         \
                shmemd_##NAME##_atomic_compare_swap(compat::world(), dest, cond, value, pe),                          \
                shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe))                                            \
    COMPAT_CALL(T, nvshmem_##NAME##_atomic_fetch_inc, (T * dest, int pe),                                             \
                shmemd_##NAME##_atomic_fetch_inc(compat::world(), dest, pe),                                          \
                shmem_##NAME##_atomic_fetch_inc(dest, pe))                                                            \
    COMPAT_DO(nvshmem_##NAME##_atomic_inc, (T * dest, int pe), shmemd_##NAME##_atomic_inc(compat::world(), dest, pe), \
              shmem_##NAME##_atomic_inc(dest, pe))                                                                    \
    COMPAT_FETCH_OP(NAME, T, atomic_fetch_add)                                                                        \
    COMPAT_OP(NAME, T, atomic_add)
#define COMPAT_FETCH_OP(NAME, T, op)                                   \
    COMPAT_CALL(T, nvshmem_##NAME##_##op, (T * dest, T value, int pe), \
                shmemd_##NAME##_##op(compat::world(), dest, value, pe), shmem_##NAME##_##op(dest, value, pe))
#define COMPAT_OP(NAME, T, op)                                    \
    COMPAT_DO(nvshmem_##NAME##_##op, (T * dest, T value, int pe), \
              shmemd_##NAME##_##op(compat::world(), dest, value, pe), shmem_##NAME##_##op(dest, value, pe))
SHMEM_STD_TYPES(COMPAT_AMO, )
#define COMPAT_BIT(NAME, T, ...)               \
    COMPAT_OP(NAME, T, atomic_and)             \
    COMPAT_OP(NAME, T, atomic_or)              \
    COMPAT_OP(NAME, T, atomic_xor)             \
    COMPAT_FETCH_OP(NAME, T, atomic_fetch_and) \
    COMPAT_FETCH_OP(NAME, T, atomic_fetch_or)  \
    COMPAT_FETCH_OP(NAME, T, atomic_fetch_xor)
SHMEM_BIT_TYPES(COMPAT_BIT, )

/* ---- waits and tests ---- */

#define COMPAT_WAIT(NAME, T, ...)                                                        \
    COMPAT_DO(nvshmem_##NAME##_wait_until, (T * ivar, int cmp, T value),                 \
              shmemd_##NAME##_wait_until(compat::world(), ivar, COMPAT_CMP(cmp), value), \
              shmem_##NAME##_wait_until(ivar, cmp, value))                               \
    COMPAT_CALL(int, nvshmem_##NAME##_test, (T * ivar, int cmp, T value),                \
                shmemd_##NAME##_test(compat::world(), ivar, COMPAT_CMP(cmp), value),     \
                shmem_##NAME##_test(ivar, cmp, value))
SHMEM_STD_TYPES(COMPAT_WAIT, )
#define COMPAT_ARRAY_DO(NAME, T, op)                                                                             \
    COMPAT_DO(nvshmem_##NAME##_##op, (T * ivars, size_t nelems, const int *status, int cmp, T value),            \
              shmemd_##NAME##_##op(compat::world(), ivars, nelems, status, COMPAT_CMP(cmp), value),              \
              shmem_##NAME##_##op(ivars, nelems, status, cmp, value))                                            \
    COMPAT_DO(nvshmem_##NAME##_##op##_vector, (T * ivars, size_t nelems, const int *status, int cmp, T *values), \
              shmemd_##NAME##_##op##_vector(compat::world(), ivars, nelems, status, COMPAT_CMP(cmp), values),    \
              shmem_##NAME##_##op##_vector(ivars, nelems, status, cmp, values))
#define COMPAT_ARRAY(NAME, T, R, op)                                                                                  \
    COMPAT_CALL(R, nvshmem_##NAME##_##op, (T * ivars, size_t nelems, const int *status, int cmp, T value),            \
                shmemd_##NAME##_##op(compat::world(), ivars, nelems, status, COMPAT_CMP(cmp), value),                 \
                shmem_##NAME##_##op(ivars, nelems, status, cmp, value))                                               \
    COMPAT_CALL(R, nvshmem_##NAME##_##op##_vector, (T * ivars, size_t nelems, const int *status, int cmp, T *values), \
                shmemd_##NAME##_##op##_vector(compat::world(), ivars, nelems, status, COMPAT_CMP(cmp), values),       \
                shmem_##NAME##_##op##_vector(ivars, nelems, status, cmp, values))
#define COMPAT_SOME(NAME, T, op)                                                                                \
    COMPAT_CALL(size_t, nvshmem_##NAME##_##op,                                                                  \
                (T * ivars, size_t nelems, size_t *indices, const int *status, int cmp, T value),               \
                shmemd_##NAME##_##op(compat::world(), ivars, nelems, indices, status, COMPAT_CMP(cmp), value),  \
                shmem_##NAME##_##op(ivars, nelems, indices, status, cmp, value))                                \
    COMPAT_CALL(size_t, nvshmem_##NAME##_##op##_vector,                                                         \
                (T * ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *values),             \
                shmemd_##NAME##_##op##_vector(compat::world(), ivars, nelems, indices, status, COMPAT_CMP(cmp), \
                                              values),                                                          \
                shmem_##NAME##_##op##_vector(ivars, nelems, indices, status, cmp, values))
#define COMPAT_ARRAYS(NAME, T, ...)               \
    COMPAT_ARRAY_DO(NAME, T, wait_until_all)      \
    COMPAT_ARRAY(NAME, T, size_t, wait_until_any) \
    COMPAT_ARRAY(NAME, T, int, test_all)          \
    COMPAT_ARRAY(NAME, T, size_t, test_any)       \
    COMPAT_SOME(NAME, T, wait_until_some)         \
    COMPAT_SOME(NAME, T, test_some)
SHMEM_STD_TYPES(COMPAT_ARRAYS, )

/* ---- order, and collectives by a thread or by the host ---- */

COMPAT_DO(nvshmem_fence, (void), shmemd_fence(compat::world()), shmem_fence())
COMPAT_DO(nvshmem_quiet, (void), compat::quiet(), shmem_quiet())
COMPAT_CALL(int, nvshmem_barrier, (nvshmem_team_t team), compat::barrier(team, shmemd::thread()),
            (shmem_quiet(), shmem_team_sync(compat_team_of(team))))
COMPAT_DO(nvshmem_barrier_all, (void), (void)compat::barrier(NVSHMEM_TEAM_WORLD, shmemd::thread()),
          (compat_here(), shmem_barrier_all()))
COMPAT_CALL(int, nvshmem_team_sync, (nvshmem_team_t team), compat::sync(team, shmemd::thread()),
            shmem_team_sync(compat_team_of(team)))
COMPAT_CALL(int, nvshmem_sync, (nvshmem_team_t team), compat::sync(team, shmemd::thread()),
            shmem_team_sync(compat_team_of(team)))
COMPAT_DO(nvshmem_sync_all, (void), (void)compat::sync(NVSHMEM_TEAM_WORLD, shmemd::thread()), shmem_sync_all())

COMPAT_CALL(int, nvshmem_broadcastmem, (nvshmem_team_t team, void *dest, const void *source, size_t bytes, int root),
            compat::broadcast(team, shmemd::thread(), dest, source, bytes, root),
            COMPAT_WAITED(shmemx_broadcastmem_on_stream(compat_team_of(team), dest, source, bytes, root, NULL)))
#define COMPAT_COLL_MEM(op)                                                                                  \
    COMPAT_CALL(int, nvshmem_##op##mem, (nvshmem_team_t team, void *dest, const void *source, size_t bytes), \
                compat::op(team, shmemd::thread(), dest, source, bytes),                                     \
                COMPAT_WAITED(shmemx_##op##mem_on_stream(compat_team_of(team), dest, source, bytes, NULL)))
COMPAT_COLL_MEM(fcollect)
COMPAT_COLL_MEM(alltoall)
#define COMPAT_COLL(FN, T, name, prefix, form)                                                            \
    FN int name##_broadcast##form(nvshmem_team_t team, T *dest, const T *source, size_t nelems, int root) \
    {                                                                                                     \
        return prefix##_broadcastmem##form(team, dest, source, nelems * sizeof(T), root);                 \
    }                                                                                                     \
    FN int name##_fcollect##form(nvshmem_team_t team, T *dest, const T *source, size_t nelems)            \
    {                                                                                                     \
        return prefix##_fcollectmem##form(team, dest, source, nelems * sizeof(T));                        \
    }                                                                                                     \
    FN int name##_alltoall##form(nvshmem_team_t team, T *dest, const T *source, size_t nelems)            \
    {                                                                                                     \
        return prefix##_alltoallmem##form(team, dest, source, nelems * sizeof(T));                        \
    }
#define COMPAT_COLL_TYPE(NAME, T, ...) COMPAT_COLL(COMPAT_BOTH, T, nvshmem_##NAME, nvshmem, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_COLL_TYPE, )
COMPAT_HALVES(COMPAT_COLL_TYPE, )

#define COMPAT_REDUCE(NAME, T, op)                                                                                 \
    COMPAT_CALL(int, nvshmem_##NAME##_##op, (nvshmem_team_t team, T * dest, const T *source, size_t nelems),       \
                (compat::op(team, shmemd::thread(), dest, source, nelems)),                                        \
                COMPAT_WAITED(shmemx_##NAME##_##op##_on_stream(compat_team_of(team), dest, source, nelems, NULL))) \
    COMPAT_CALL(                                                                                                   \
        int, nvshmem_##NAME##_##op##scatter, (nvshmem_team_t team, T * dest, const T *source, size_t nelems),      \
        (compat::op##scatter(team, shmemd::thread(), dest, source, nelems)),                                       \
        COMPAT_WAITED(shmemx_##NAME##_##op##scatter_on_stream(compat_team_of(team), dest, source, nelems, NULL)))
#define COMPAT_REDUCE_TYPE(NAME, T, op, ...) COMPAT_REDUCE(NAME, T, op)
#define COMPAT_REDUCE_LOGIC(op) SHMEM_LOGIC_TYPES(COMPAT_REDUCE_TYPE, op, )
#define COMPAT_REDUCE_MINMAX(op) \
    SHMEM_DEVICE_ARITH_TYPES(COMPAT_REDUCE_TYPE, op, ) COMPAT_HALVES(COMPAT_REDUCE_TYPE, op, )
#define COMPAT_REDUCE_SUM(op) COMPAT_REDUCE_MINMAX(op)
#define COMPAT_REDUCE_OP(op, old, TABLE, ...) COMPAT_REDUCE_##TABLE(op)
SHMEM_REDUCE_OPS(COMPAT_REDUCE_OP, )

#include "nvshmemx.h" /* as NVSHMEM's header does */

#endif
