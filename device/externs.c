/* SPDX-License-Identifier: MIT */
/* The in-kernel API as functions that other tool chains link into their kernels: Triton's externs, run-time compiled
 * modules, anything that reads LLVM bitcode or PTX. shmemd_extern_X is shmemd_X of include/shmem_device.h with the same
 * arguments, but the handle by address: 64 bytes that the program has copied to where its kernels load them. All names
 * are C names; types with a struct of their own (half, bfloat16) move as bytes or as ushort.
 * Nothing of the library links this file. A build for a GPU makes lib/isomer_device.ptx or lib/isomer_device-ARCH.bc of
 * it and installs them in lib/isomer/; by hand (rdc, or the functions would stay inside the file):
 *     AMD     clang -x hip --cuda-device-only -fgpu-rdc -nogpulib -nogpuinc -O3 --offload-arch=gfx942 -emit-llvm -c
 *     NVIDIA  nvcc -x cu -arch=compute_90 -rdc=true -ptx        (or -dlto -dc for LTO)
 *             clang -x cuda --cuda-device-only -fgpu-rdc -nocudalib -nocudainc -O3 --cuda-gpu-arch=sm_90 -emit-llvm -c
 * Includes: include/shmem_device.h. */
#include "../include/shmem_device.h"

#define EXTERN(R, name, args, ...) \
    PRIM_EXTERN R shmemd_extern_##name args { __VA_ARGS__ }

/* By the thread, the wave, the block; CALL has the handle and the arguments in parentheses, without a result or with.
 */
#define EXTERN_FORMS(R, name, args, call)                               \
    EXTERN(R, name, args, RETURN_##R shmemd_##name call;)               \
    EXTERN(R, name##_wave, args, RETURN_##R shmemd_##name##_wave call;) \
    EXTERN(R, name##_block, args, RETURN_##R shmemd_##name##_block call;)
#define RETURN_void
#define RETURN_int return
#define RETURN_uint64_t return

/* ---- who and where ---- */

EXTERN(int, my_pe, (const shmemd_t *h), return shmemd_my_pe(*h);)
EXTERN(int, n_pes, (const shmemd_t *h), return shmemd_n_pes(*h);)
EXTERN(int, translate_pe, (const shmemd_t *h, int pe, const shmemd_t *other),
       return shmemd_translate_pe(*h, pe, *other);)
EXTERN(void *, ptr, (const shmemd_t *h, const void *addr, int pe), return shmemd_ptr(*h, addr, pe);)
EXTERN(int, status, (const shmemd_t *h), return shmemd_status(*h);)
EXTERN(void, pause, (void), shmemd_pause();)

/* ---- bytes ---- */

#define MOVE(name)                                                                                      \
    EXTERN_FORMS(void, name, (const shmemd_t *h, void *dest, const void *source, size_t bytes, int pe), \
                 (*h, dest, source, bytes, pe))
MOVE(putmem)
MOVE(getmem)
MOVE(putmem_nbi)
MOVE(getmem_nbi)

#define MOVE_SIGNAL(name)                                                                              \
    EXTERN_FORMS(void, name,                                                                           \
                 (const shmemd_t *h, void *dest, const void *source, size_t bytes, uint64_t *sig_addr, \
                  uint64_t signal, int sig_op, int pe),                                                \
                 (*h, dest, source, bytes, sig_addr, signal, sig_op, pe))
MOVE_SIGNAL(putmem_signal)
MOVE_SIGNAL(putmem_signal_nbi)

EXTERN_FORMS(void, put_packet,
             (const shmemd_t *h, void *dest, const void *source, size_t bytes, uint32_t epoch, int pe),
             (*h, dest, source, bytes, epoch, pe))
EXTERN_FORMS(int, get_packet, (const shmemd_t *h, void *dest, const void *source, size_t bytes, uint32_t epoch),
             (*h, dest, source, bytes, epoch))

/* ---- signals, order ---- */

EXTERN(void, signal_op, (const shmemd_t *h, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe),
       shmemd_signal_op(*h, sig_addr, signal, sig_op, pe);)
EXTERN(uint64_t, signal_fetch, (const shmemd_t *h, const uint64_t *sig_addr), return shmemd_signal_fetch(*h, sig_addr);)
EXTERN_FORMS(uint64_t, signal_wait_until, (const shmemd_t *h, const uint64_t *sig_addr, int cmp, uint64_t cmp_value),
             (*h, sig_addr, cmp, cmp_value))
EXTERN_FORMS(void, fence, (const shmemd_t *h), (*h))
EXTERN_FORMS(void, quiet, (const shmemd_t *h), (*h))
EXTERN_FORMS(void, acquire, (const shmemd_t *h), (*h))

/* ---- one element ---- */

#define ONE(NAME, TYPE, ...)                                                    \
    EXTERN(void, NAME##_p, (const shmemd_t *h, TYPE *dest, TYPE value, int pe), \
           shmemd_##NAME##_p(*h, dest, value, pe);)                             \
    EXTERN(TYPE, NAME##_g, (const shmemd_t *h, const TYPE *source, int pe), return shmemd_##NAME##_g(*h, source, pe);)
SHMEM_DEVICE_ARITH_TYPES(ONE, )

/* ---- atomics ---- */

#define POST(NAME, TYPE, op)                                                       \
    EXTERN(void, NAME##_##op, (const shmemd_t *h, TYPE *dest, TYPE value, int pe), \
           shmemd_##NAME##_##op(*h, dest, value, pe);)
#define FETCH(NAME, TYPE, op)                                                      \
    EXTERN(TYPE, NAME##_##op, (const shmemd_t *h, TYPE *dest, TYPE value, int pe), \
           return shmemd_##NAME##_##op(*h, dest, value, pe);)

#define EXT(NAME, TYPE, ...)                                                           \
    EXTERN(TYPE, NAME##_atomic_fetch, (const shmemd_t *h, const TYPE *source, int pe), \
           return shmemd_##NAME##_atomic_fetch(*h, source, pe);)                       \
    POST(NAME, TYPE, atomic_set)                                                       \
    FETCH(NAME, TYPE, atomic_swap)
SHMEM_EXT_TYPES(EXT, )

#define STD(NAME, TYPE, ...)                                                                                 \
    EXTERN(TYPE, NAME##_atomic_compare_swap, (const shmemd_t *h, TYPE *dest, TYPE cond, TYPE value, int pe), \
           return shmemd_##NAME##_atomic_compare_swap(*h, dest, cond, value, pe);)                           \
    EXTERN(void, NAME##_atomic_inc, (const shmemd_t *h, TYPE *dest, int pe),                                 \
           shmemd_##NAME##_atomic_inc(*h, dest, pe);)                                                        \
    EXTERN(TYPE, NAME##_atomic_fetch_inc, (const shmemd_t *h, TYPE *dest, int pe),                           \
           return shmemd_##NAME##_atomic_fetch_inc(*h, dest, pe);)                                           \
    POST(NAME, TYPE, atomic_add)                                                                             \
    FETCH(NAME, TYPE, atomic_fetch_add)                                                                      \
    EXTERN_FORMS(void, NAME##_wait_until, (const shmemd_t *h, const TYPE *ivar, int cmp, TYPE cmp_value),    \
                 (*h, ivar, cmp, cmp_value))                                                                 \
    EXTERN(int, NAME##_test, (const shmemd_t *h, const TYPE *ivar, int cmp, TYPE cmp_value),                 \
           return shmemd_##NAME##_test(*h, ivar, cmp, cmp_value);)
SHMEM_STD_TYPES(STD, )

#define BIT(NAME, TYPE, ...)            \
    POST(NAME, TYPE, atomic_and)        \
    FETCH(NAME, TYPE, atomic_fetch_and) \
    POST(NAME, TYPE, atomic_or)         \
    FETCH(NAME, TYPE, atomic_fetch_or)  \
    POST(NAME, TYPE, atomic_xor)        \
    FETCH(NAME, TYPE, atomic_fetch_xor)
SHMEM_BIT_TYPES(BIT, )

/* ---- collectives: by the block ---- */

/* *chosen becomes the handle to give to the calls below. */
EXTERN(void, lane, (const shmemd_t *h, unsigned lane, shmemd_t *chosen), *chosen = shmemd_lane(*h, lane);)
EXTERN(int, barrier_block, (const shmemd_t *h), return shmemd_barrier_block(*h);)
EXTERN(int, sync_block, (const shmemd_t *h), return shmemd_sync_block(*h);)
EXTERN(int, broadcastmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes, int root),
       return shmemd_broadcastmem_block(*h, dest, source, bytes, root);)
EXTERN(int, fcollectmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes),
       return shmemd_fcollectmem_block(*h, dest, source, bytes);)
EXTERN(int, alltoallmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes),
       return shmemd_alltoallmem_block(*h, dest, source, bytes);)
