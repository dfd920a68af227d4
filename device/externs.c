/* SPDX-License-Identifier: MIT */
/* The in-kernel API as functions that other tool chains link into their kernels: Triton's externs, run-time compiled
 * modules, anything that reads LLVM bitcode or PTX. shmemd_extern_X is shmemd_X of include/shmem_device.h with the same
 * arguments, but the handle by address: 64 bytes that the program has copied to where its kernels load them. All names
 * are C names; types with a struct of their own (half, bfloat16) move as bytes or as ushort. shmemd_program_X, at the
 * end, are for languages whose kernels have no threads.
 * Nothing of the library links this file. Where the compilers are, a build makes lib/isomer_device-ARCH.bc
 * (device/bitcode.cmake) and, for CUDA, lib/isomer_device.ptx of it, and installs them in lib/isomer/; by hand (rdc, or
 * the functions would stay inside the file):
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
EXTERN(int, pe_is_alive, (const shmemd_t *h, int pe), return shmemd_pe_is_alive(*h, pe);)
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
MOVE_SIGNAL(putmem_each_signal)

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
EXTERN_FORMS(int, pe_signal_wait_until,
             (const shmemd_t *h, const uint64_t *sig_addr, int cmp, uint64_t cmp_value, int pe),
             (*h, sig_addr, cmp, cmp_value, pe))
EXTERN_FORMS(void, fence, (const shmemd_t *h), (*h))
EXTERN_FORMS(void, pe_fence, (const shmemd_t *h, int pe), (*h, pe))
EXTERN_FORMS(void, quiet, (const shmemd_t *h), (*h))
EXTERN_FORMS(void, flush, (const shmemd_t *h), (*h))
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
    EXTERN_FORMS(int, NAME##_wait_until_for,                                                                 \
                 (const shmemd_t *h, const TYPE *ivar, int cmp, TYPE cmp_value, uint64_t ns),                \
                 (*h, ivar, cmp, cmp_value, ns))                                                             \
    EXTERN(int, NAME##_test, (const shmemd_t *h, const TYPE *ivar, int cmp, TYPE cmp_value),                 \
           return shmemd_##NAME##_test(*h, ivar, cmp, cmp_value);)
SHMEM_STD_TYPES(STD, )
POST(float, float, atomic_add)
FETCH(float, float, atomic_fetch_add)
POST(double, double, atomic_add)
FETCH(double, double, atomic_fetch_add)
/* Halves as bits, two of them as those of their word. */
#define HALF(NAME)                                                                                        \
    EXTERN(uint16_t, NAME##_atomic_fetch_add, (const shmemd_t *h, void *dest, uint16_t value, int pe),    \
           shmemd_##NAME##_t v = {value};                                                                 \
           return shmemd_##NAME##_atomic_fetch_add(*h, (shmemd_##NAME##_t *)dest, v, pe).bits;)
HALF(half)
HALF(bfloat16)
#define PAIR(NAME)                                                                                    \
    EXTERN(uint32_t, NAME##_atomic_fetch_add, (const shmemd_t *h, void *dest, uint32_t value, int pe), \
           shmemd_##NAME##_t v; isod_unbits(&v, value, 4);                                            \
           v = shmemd_##NAME##_atomic_fetch_add(*h, (shmemd_##NAME##_t *)dest, v, pe);                \
           return (uint32_t)isod_bits(&v, 4);)
PAIR(half2)
PAIR(bfloat162)

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
EXTERN_FORMS(int, barrier, (const shmemd_t *h), (*h))
EXTERN_FORMS(int, sync, (const shmemd_t *h), (*h))
EXTERN(int, broadcastmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes, int root),
       return shmemd_broadcastmem_block(*h, dest, source, bytes, root);)
EXTERN(int, fcollectmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes),
       return shmemd_fcollectmem_block(*h, dest, source, bytes);)
EXTERN(int, alltoallmem_block, (const shmemd_t *h, void *dest, const void *source, size_t bytes),
       return shmemd_alltoallmem_block(*h, dest, source, bytes);)
EXTERN(int, alltoallvmem_block,
       (const shmemd_t *h, void *dest, const size_t *dest_bytes, const size_t *dest_displs, const void *source,
        const size_t *source_bytes, const size_t *source_displs),
       return shmemd_alltoallvmem_block(*h, dest, dest_bytes, dest_displs, source, source_bytes, source_displs);)

/* ---- by a whole block: languages whose kernels have no threads (Triton) ----
 * All threads of a block call shmemd_program_X with equal arguments. The block's own stores before the call are there
 * for it, and its results are there for the whole block, which so acts as one caller. Addresses are integers, and each
 * function returns a value, because a call of Triton has neither pointers nor no result. Functions named _each are the
 * exception: the threads call them with different arguments, and several may with the same ones. */
#define AT(T, address) ((T *)(uintptr_t)(address))
#define PROGRAM_ARGS(...) __VA_ARGS__
#define PROGRAM(R, name, args, ...)                                       \
    PRIM_EXTERN R shmemd_program_##name(uint64_t handle PROGRAM_ARGS args) \
    {                                                                     \
        const shmemd_t h = *AT(const shmemd_t, handle);                   \
        __VA_ARGS__                                                       \
    }
#define PROGRAM_FIRST if (shmemd_thread_index() == 0)

/* The first thread's v. Triton's own shared memory begins behind this array, and tensor cores need it at a multiple of
 * 1024 bytes. The element that is used is one that no compiler knows, or it would leave the others out. */
#ifdef ISO_PRIM_CPU_H
#define PROGRAM_ALIGNED /* shared memory has the alignment of malloc, and nothing stands behind it */
#else
#define PROGRAM_ALIGNED __attribute__((aligned(1024)))
#endif
struct PROGRAM_ALIGNED program_words {
    uint64_t word[128];
};
PRIM_FN uint64_t program_tell(uint64_t v)
{
    PRIM_SHARED(struct program_words, words, 1);
    uint64_t *word = &words[0].word[shmemd_block_index() % 128];
    if (shmemd_thread_index() == 0)
        *word = v;
    shmemd_group_sync(shmemd_block());
    v = *word;
    shmemd_group_sync(shmemd_block()); /* the next call may write it */
    return v;
}
PRIM_FN int program_or(int v) { return prim_sync_or(shmemd_block(), v != 0) ? 1 : 0; }

PROGRAM(int, my_pe, (), return shmemd_my_pe(h);)
PROGRAM(int, n_pes, (), return shmemd_n_pes(h);)
PROGRAM(uint64_t, ptr, (, uint64_t addr, int pe), return (uint64_t)(uintptr_t)shmemd_ptr(h, AT(const void, addr), pe);)
PROGRAM(int, status, (), return program_or(shmemd_status(h));)

#define PROGRAM_MOVE(name)                                                          \
    PROGRAM(int, name, (, uint64_t dest, uint64_t source, uint64_t bytes, int pe),  \
            shmemd_group_sync(shmemd_block());                                      \
            shmemd_##name##_block(h, AT(void, dest), AT(const void, source), bytes, pe); return 0;)
PROGRAM_MOVE(putmem)
PROGRAM_MOVE(getmem)
PROGRAM_MOVE(putmem_nbi)
PROGRAM_MOVE(getmem_nbi)
#define PROGRAM_MOVE_SIGNAL(name)                                                                                     \
    PROGRAM(int, name,                                                                                                \
            (, uint64_t dest, uint64_t source, uint64_t bytes, uint64_t sig_addr, uint64_t signal, int op, int pe),     \
            shmemd_group_sync(shmemd_block());                                                                        \
            shmemd_##name##_block(h, AT(void, dest), AT(const void, source), bytes, AT(uint64_t, sig_addr), signal,   \
                                  op, pe);                                                                            \
            return 0;)
PROGRAM_MOVE_SIGNAL(putmem_signal)
PROGRAM_MOVE_SIGNAL(putmem_signal_nbi)

/* The signal comes behind all that the block has done before: there is no thread whose order could matter. */
PROGRAM(
    int, signal_op, (, uint64_t sig_addr, uint64_t signal, int sig_op, int pe), shmemd_fence_block(h);
    PROGRAM_FIRST shmemd_signal_op(h, AT(uint64_t, sig_addr), signal, sig_op, pe); return 0;)
PROGRAM(
    uint64_t, signal_fetch, (, uint64_t sig_addr), uint64_t v = 0;
    PROGRAM_FIRST v = shmemd_signal_fetch(h, AT(const uint64_t, sig_addr)); return program_tell(v);)
/* Nonzero: it has given up. */
#define PROGRAM_WAIT(NAME, TYPE)                                                                                    \
    PROGRAM(int, NAME##_wait_until, (, uint64_t ivar, int cmp, TYPE cmp_value),                                     \
            shmemd_##NAME##_wait_until_block(h, AT(const TYPE, ivar), cmp, cmp_value);                              \
            return program_or(shmemd_status(h));)                                                                   \
    PROGRAM(                                                                                                        \
        int, NAME##_test, (, uint64_t ivar, int cmp, TYPE cmp_value), int holds = 0;                                \
        PROGRAM_FIRST holds = shmemd_##NAME##_test(h, AT(const TYPE, ivar), cmp, cmp_value); return program_or(holds);)
PROGRAM_WAIT(int32, int32_t)
PROGRAM_WAIT(uint32, uint32_t)
PROGRAM_WAIT(int64, int64_t)
PROGRAM_WAIT(uint64, uint64_t)

PROGRAM(int, fence, (), shmemd_fence_block(h); return 0;)
PROGRAM(int, quiet, (), shmemd_group_sync(shmemd_block()); shmemd_quiet_block(h); return 0;)
PROGRAM(int, acquire, (), shmemd_acquire_block(h); return 0;)

/* Elements and atomics by their size: bits of any type. Small ones come as uint32_t. */
#define PROGRAM_ONE(NAME, TYPE, WIDE)                                                                       \
    PROGRAM(                                                                                                \
        int, NAME##_p, (, uint64_t dest, WIDE value, int pe),                                               \
        PROGRAM_FIRST shmemd_##NAME##_p(h, AT(TYPE, dest), (TYPE)value, pe); return 0;)                     \
    PROGRAM(                                                                                                \
        int, NAME##_p_each, (, uint64_t dest, WIDE value, int pe, int mask),                                \
        if (mask) shmemd_##NAME##_p(h, AT(TYPE, dest), (TYPE)value, pe); return 0;)                         \
    PROGRAM(                                                                                                \
        WIDE, NAME##_g, (, uint64_t source, int pe), uint64_t v = 0;                                        \
        PROGRAM_FIRST v = shmemd_##NAME##_g(h, AT(const TYPE, source), pe); return (WIDE)program_tell(v);)  \
    PROGRAM(WIDE, NAME##_g_each, (, uint64_t source, int pe, int mask),                                     \
            return mask ? (WIDE)shmemd_##NAME##_g(h, AT(const TYPE, source), pe) : (WIDE)0;)
PROGRAM_ONE(uint8, uint8_t, uint32_t)
PROGRAM_ONE(uint16, uint16_t, uint32_t)
PROGRAM_ONE(uint32, uint32_t, uint32_t)
PROGRAM_ONE(uint64, uint64_t, uint64_t)

#define PROGRAM_POST(NAME, TYPE, op)                               \
    PROGRAM(                                                       \
        int, NAME##_##op, (, uint64_t dest, TYPE value, int pe),   \
        PROGRAM_FIRST shmemd_##NAME##_##op(h, AT(TYPE, dest), value, pe); return 0;)
#define PROGRAM_FETCH(NAME, TYPE, op)                                                  \
    PROGRAM(                                                                           \
        TYPE, NAME##_##op, (, uint64_t dest, TYPE value, int pe), uint64_t v = 0;      \
        PROGRAM_FIRST v = shmemd_##NAME##_##op(h, AT(TYPE, dest), value, pe); return (TYPE)program_tell(v);)
#define PROGRAM_ATOMICS(NAME, TYPE)                                                                      \
    PROGRAM(                                                                                             \
        TYPE, NAME##_atomic_fetch, (, uint64_t source, int pe), uint64_t v = 0;                          \
        PROGRAM_FIRST v = shmemd_##NAME##_atomic_fetch(h, AT(const TYPE, source), pe);                   \
        return (TYPE)program_tell(v);)                                                                   \
    PROGRAM(                                                                                             \
        TYPE, NAME##_atomic_compare_swap, (, uint64_t dest, TYPE cond, TYPE value, int pe), uint64_t v = 0; \
        PROGRAM_FIRST v = shmemd_##NAME##_atomic_compare_swap(h, AT(TYPE, dest), cond, value, pe);       \
        return (TYPE)program_tell(v);)                                                                   \
    PROGRAM_POST(NAME, TYPE, atomic_set)                                                                 \
    PROGRAM_POST(NAME, TYPE, atomic_add)                                                                 \
    PROGRAM_POST(NAME, TYPE, atomic_and)                                                                 \
    PROGRAM_POST(NAME, TYPE, atomic_or)                                                                  \
    PROGRAM_POST(NAME, TYPE, atomic_xor)                                                                 \
    PROGRAM_FETCH(NAME, TYPE, atomic_swap)                                                               \
    PROGRAM_FETCH(NAME, TYPE, atomic_fetch_add)                                                          \
    PROGRAM_FETCH(NAME, TYPE, atomic_fetch_and)                                                          \
    PROGRAM_FETCH(NAME, TYPE, atomic_fetch_or)                                                           \
    PROGRAM_FETCH(NAME, TYPE, atomic_fetch_xor)
PROGRAM_ATOMICS(uint32, uint32_t)
PROGRAM_ATOMICS(uint64, uint64_t)

PROGRAM(int, barrier, (), return shmemd_barrier_block(h);)
PROGRAM(int, sync, (), return shmemd_sync_block(h);)
PROGRAM(int, broadcastmem, (, uint64_t dest, uint64_t source, uint64_t bytes, int root),
        return shmemd_broadcastmem_block(h, AT(void, dest), AT(const void, source), bytes, root);)
PROGRAM(int, fcollectmem, (, uint64_t dest, uint64_t source, uint64_t bytes),
        return shmemd_fcollectmem_block(h, AT(void, dest), AT(const void, source), bytes);)
PROGRAM(int, alltoallmem, (, uint64_t dest, uint64_t source, uint64_t bytes),
        return shmemd_alltoallmem_block(h, AT(void, dest), AT(const void, source), bytes);)
