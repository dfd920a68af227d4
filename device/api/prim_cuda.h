/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs (sm_70 and later) as a target of prim.h, by nvcc, run-time compiled, or by clang in CUDA mode: inline
 * PTX, no CUDA header. Words of atomics, flags and lines, the dest of a put and the source of a get are in global
 * memory (device memory of any GPU or pinned host memory). The local end of a copy is any memory, a thread's stack and
 * the kernel's parameters too: it is accessed by plain loads and stores of generic addresses, since PTX defines strong
 * ones for global and shared memory only. Accesses are `asm volatile` with a memory clobber: the compiler keeps their
 * order, the fences tell the hardware. Included by prim.h only. */
#ifndef ISO_PRIM_CUDA_H
#define ISO_PRIM_CUDA_H

/* clang's CUDA mode without CUDA's headers (-nocudainc): the words of the language that those headers define. */
#ifndef __CUDACC__
#include <__clang_cuda_builtin_vars.h>
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline, unused))
#define __noinline__ __attribute__((noinline))
#define __syncthreads_or(p) __nvvm_bar0_or(p)
#define __syncwarp(mask) __nvvm_bar_warp_sync(mask)
#define __any_sync(mask, p) __nvvm_vote_any_sync(mask, p)
#define __ballot_sync(mask, p) (unsigned)__nvvm_vote_ballot_sync(mask, p)
static __device__ __forceinline__ unsigned __shfl_sync(unsigned mask, unsigned v, int lane)
{
    return (unsigned)__nvvm_shfl_sync_idx_i32(mask, (int)v, lane, 31);
}
static __device__ __forceinline__ unsigned long long __shfl_sync(unsigned mask, unsigned long long v, int lane)
{
    uint32_t low = (uint32_t)__nvvm_shfl_sync_idx_i32(mask, (int)(uint32_t)v, lane, 31);
    return (unsigned long long)(uint32_t)__nvvm_shfl_sync_idx_i32(mask, (int)(uint32_t)(v >> 32), lane, 31) << 32 | low;
}
static __device__ __forceinline__ uint32_t __ldg(const uint32_t *p) { return __nvvm_ldg_ui(p); }
static __device__ __forceinline__ uint64_t __ldg(const uint64_t *p) { return __nvvm_ldg_ul(p); }
#endif

#define PRIM_FN static __device__ __forceinline__
/* With -rdc=true a function that the linker may replace by another file's has its callers keep the ABI: they leave what
 * they hold in preserved registers or on the stack, and the kernel takes as many registers as the largest function. Of a
 * function that is known to be its own, ptxas adds up what a chain of calls holds, and kernels of 1024 threads cannot be
 * launched. Tags keep apart what is not the same function: of another release, and under other macros of the program. */
#ifdef __CUDACC_RDC__
#ifdef SHMEMD_NO_RING
#define PRIM_CUDA_PATHS "near"
#else
#define PRIM_CUDA_PATHS "ring"
#endif
#ifdef ISOD_OWN_BY_ANY_ADDRESS
#define PRIM_CUDA_OWN "any_address"
#else
#define PRIM_CUDA_OWN "symmetric"
#endif
#define PRIM_CUDA_RELEASE "isomer_200" /* ISOMER_VERSION */
#define PRIM_COLD_FN               \
    inline __device__ __noinline__ \
        __attribute__((unused, abi_tag(PRIM_CUDA_RELEASE, PRIM_CUDA_PATHS, PRIM_CUDA_OWN)))
#define PRIM_CALLS_BY_ABI
#else
#define PRIM_COLD_FN static __device__ __noinline__ __attribute__((unused))
#endif
#define PRIM_RESTRICT __restrict__
#define PRIM_UNROLL _Pragma("unroll")
#define PRIM_ROLLED _Pragma("unroll 1")
#define PRIM_WAIT_FOR_WORD _Pragma("unroll 8")
#define PRIM_WAIT_FOR_LINES _Pragma("unroll 1")

/* A source may say how large its blocks get at most, before it includes us: kernels whose blocks may have 1024 threads
 * get by with 64 registers a thread then. Else the compiler takes what it likes, and a launch of larger blocks than
 * that allows is refused. 1: ptxas does not spill to make room for two of them. */
#ifdef PRIM_MAX_THREADS
#define PRIM_CUDA_BOUNDS __launch_bounds__(PRIM_MAX_THREADS, 1)
#else
#define PRIM_CUDA_BOUNDS
#endif
#define PRIM_KERNEL(name, TYPE, a) extern "C" __global__ void PRIM_CUDA_BOUNDS name(const __grid_constant__ TYPE a)
/* A function that other compilers' code links; kept in PTX and LTO by -rdc=true. */
#define PRIM_EXTERN extern "C" __device__ __attribute__((used))
/* The same for one kernel, whose blocks have at most `threads` threads. Without the 1 the compiler spills registers for
 * the sake of more blocks. */
#define PRIM_KERNEL_BOUNDED(name, TYPE, a, threads) \
    extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ TYPE a)
#define PRIM_SHARED(TYPE, name, count) __shared__ TYPE name[count]
#define PRIM_SHARED_DYNAMIC(TYPE, name)                                              \
    extern __shared__ __attribute__((aligned(16))) unsigned char prim_cuda_shared[]; \
    TYPE *const name = (TYPE *)(void *)prim_cuda_shared
#define PRIM_GLOBAL __global__ PRIM_CUDA_BOUNDS
#define PRIM_GLOBAL_BOUNDED(threads) __global__ __launch_bounds__(threads, 1)

#define PRIM_BOTH_FN static __host__ __device__ __forceinline__
#ifdef __CUDA_ARCH__
#define PRIM_EITHER(kernel, host) (kernel)
#else
#define PRIM_EITHER(kernel, host) (host)
#endif

#if defined(__CUDACC_RTC__)
#define __builtin_memcpy memcpy /* the name that the run-time compiler knows */
#endif

/* ---- groups ---- */

#define PRIM_GIVES_GROUP
PRIM_FN unsigned prim_wave_size(void) { return 32; }
PRIM_FN unsigned prim_block_index(void) { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
PRIM_FN unsigned prim_block_count(void) { return gridDim.x * gridDim.y * gridDim.z; }

PRIM_FN unsigned prim_cuda_thread(void) { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
PRIM_FN unsigned prim_cuda_threads(void) { return blockDim.x * blockDim.y * blockDim.z; }

PRIM_FN unsigned prim_rank(struct prim_group g)
{
    if (g.kind == PRIM_THREAD)
        return 0;
    return g.kind == PRIM_WAVE ? prim_cuda_thread() % 32u : prim_cuda_thread();
}
/* The last wave of a block may be short. */
PRIM_FN unsigned prim_size(struct prim_group g)
{
    if (g.kind == PRIM_THREAD)
        return 1;
    if (g.kind == PRIM_BLOCK)
        return prim_cuda_threads();
    unsigned rest = prim_cuda_threads() - prim_cuda_thread() / 32u * 32u;
    return rest < 32u ? rest : 32u;
}
/* Lanes that a short wave does not have count as arrived. */
PRIM_FN void prim_sync(struct prim_group g)
{
    if (g.kind == PRIM_BLOCK)
        __syncthreads();
    else if (g.kind == PRIM_WAVE)
        __syncwarp(0xffffffffu);
}
PRIM_FN bool prim_sync_or(struct prim_group g, bool p)
{
    if (g.kind == PRIM_BLOCK)
        return __syncthreads_or(p) != 0;
    if (g.kind == PRIM_THREAD)
        return p;
    __syncwarp(0xffffffffu); /* a vote alone orders no memory */
    return __any_sync(0xffffffffu, p) != 0;
}

/* The second sync lets the next broadcast write. */
PRIM_FN uint64_t prim_cuda_block_broadcast(uint64_t v)
{
    PRIM_SHARED(uint64_t, told, 1);
    if (prim_cuda_thread() == 0)
        told[0] = v;
    __syncthreads();
    v = told[0];
    __syncthreads();
    return v;
}
PRIM_FN uint64_t prim_broadcast_u64(struct prim_group g, uint64_t v)
{
    if (g.kind == PRIM_BLOCK)
        return prim_cuda_block_broadcast(v);
    prim_sync(g); /* a shuffle alone orders no memory */
    return g.kind == PRIM_WAVE ? (uint64_t)__shfl_sync(0xffffffffu, (unsigned long long)v, 0) : v;
}

/* ---- atomics ----
 * Scope .sys: any GPU or CPU may be on the other side. Fetch-ops are relaxed: an acq_rel one would wait for all earlier
 * stores of the thread at every call, and OpenSHMEM orders its atomics by fence, quiet and signals only. */

#define PRIM_GIVES_ATOMICS
#define PRIM_CUDA_LOAD(name, T, ptx, reg)                                      \
    PRIM_FN T name(const T *p)                                                 \
    {                                                                          \
        T v;                                                                   \
        asm volatile("ld." ptx " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
        return v;                                                              \
    }
#define PRIM_CUDA_STORE(name, T, ptx, reg) \
    PRIM_FN void name(T *p, T v) { asm volatile("st." ptx " [%0], %1;" : : "l"(p), reg(v) : "memory"); }
#define PRIM_CUDA_FETCH(name, T, ptx, reg)                                                                        \
    PRIM_FN T name(T *p, T v)                                                                                     \
    {                                                                                                             \
        T old;                                                                                                    \
        asm volatile("atom.relaxed.sys.global." ptx " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
        return old;                                                                                               \
    }
#define PRIM_CUDA_CAS(name, T, ptx, reg)                                     \
    PRIM_FN T name(T *p, T expected, T desired)                              \
    {                                                                        \
        T old;                                                               \
        asm volatile("atom.relaxed.sys.global.cas." ptx " %0, [%1], %2, %3;" \
                     : "=" reg(old)                                          \
                     : "l"(p), reg(expected), reg(desired)                   \
                     : "memory");                                            \
        return old;                                                          \
    }
#define PRIM_CUDA_ATOMICS(name, T, bits, reg)                                       \
    PRIM_CUDA_LOAD(prim_load_relaxed_##name, T, "relaxed.sys.global.u" bits, reg)   \
    PRIM_CUDA_LOAD(prim_load_acquire_##name, T, "acquire.sys.global.u" bits, reg)   \
    PRIM_CUDA_STORE(prim_store_relaxed_##name, T, "relaxed.sys.global.u" bits, reg) \
    PRIM_CUDA_STORE(prim_store_release_##name, T, "release.sys.global.u" bits, reg) \
    PRIM_CUDA_FETCH(prim_fetch_add_##name, T, "add.u" bits, reg)                    \
    PRIM_CUDA_FETCH(prim_fetch_and_##name, T, "and.b" bits, reg)                    \
    PRIM_CUDA_FETCH(prim_fetch_or_##name, T, "or.b" bits, reg)                      \
    PRIM_CUDA_FETCH(prim_fetch_xor_##name, T, "xor.b" bits, reg)                    \
    PRIM_CUDA_FETCH(prim_swap_##name, T, "exch.b" bits, reg)                        \
    PRIM_CUDA_CAS(prim_cas_##name, T, "b" bits, reg)
PRIM_CUDA_ATOMICS(u32, uint32_t, "32", "r")
PRIM_CUDA_ATOMICS(u64, uint64_t, "64", "l")
PRIM_CUDA_LOAD(prim_load_relaxed_u16, uint16_t, "relaxed.sys.global.u16", "h")
PRIM_CUDA_STORE(prim_store_relaxed_u16, uint16_t, "relaxed.sys.global.u16", "h")
PRIM_FN uint8_t prim_load_relaxed_u8(const uint8_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return (uint8_t)v;
}
PRIM_FN void prim_store_relaxed_u8(uint8_t *p, uint8_t v)
{
    asm volatile("st.relaxed.sys.global.u8 [%0], %1;" : : "l"(p), "r"((uint32_t)v) : "memory");
}

/* ---- among threads of this PE: generic addresses, which may be shared memory ---- */

#define PRIM_GIVES_LOCAL
PRIM_FN struct prim_dim prim_grid_dim(void)
{
    struct prim_dim d = {gridDim.x, gridDim.y, gridDim.z};
    return d;
}
PRIM_FN struct prim_dim prim_block_dim(void)
{
    struct prim_dim d = {blockDim.x, blockDim.y, blockDim.z};
    return d;
}
PRIM_FN struct prim_dim prim_block_place(void)
{
    struct prim_dim d = {blockIdx.x, blockIdx.y, blockIdx.z};
    return d;
}
PRIM_FN struct prim_dim prim_thread_place(void)
{
    struct prim_dim d = {threadIdx.x, threadIdx.y, threadIdx.z};
    return d;
}
PRIM_FN uint64_t prim_ballot(bool p) { return __ballot_sync(0xffffffffu, p); }
PRIM_FN uint32_t prim_shuffle_u32(uint32_t v, uint32_t lane) { return __shfl_sync(0xffffffffu, v, (int)lane); }
PRIM_FN uint64_t prim_shuffle_u64(uint64_t v, uint32_t lane)
{
    return (uint64_t)__shfl_sync(0xffffffffu, (unsigned long long)v, (int)lane);
}

/* A fence before a relaxed access is its release, one behind it its acquire. */
PRIM_FN void prim_cuda_local_fence(int order, int bit, int scope)
{
    if ((order & bit) == 0)
        return;
    if (scope == PRIM_OF_BLOCK)
        asm volatile("fence.acq_rel.cta;" : : : "memory");
    else
        asm volatile("fence.acq_rel.gpu;" : : : "memory");
}
#define PRIM_CUDA_LOCAL_OP(name, T, op, reg)                                                                  \
    PRIM_FN T name(T *p, T v, int order, int scope)                                                           \
    {                                                                                                         \
        T old;                                                                                                \
        prim_cuda_local_fence(order, PRIM_RELEASE, scope);                                                    \
        if (scope == PRIM_OF_BLOCK)                                                                           \
            asm volatile("atom.relaxed.cta." op " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
        else                                                                                                  \
            asm volatile("atom.relaxed.gpu." op " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
        prim_cuda_local_fence(order, PRIM_ACQUIRE, scope);                                                    \
        return old;                                                                                           \
    }
#define PRIM_CUDA_LOCAL(name, T, bits, reg)                                                      \
    PRIM_FN T prim_local_load_##name(const T *p, int order, int scope)                           \
    {                                                                                            \
        T v;                                                                                     \
        if (scope == PRIM_OF_BLOCK)                                                              \
            asm volatile("ld.relaxed.cta.u" bits " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
        else                                                                                     \
            asm volatile("ld.relaxed.gpu.u" bits " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
        prim_cuda_local_fence(order, PRIM_ACQUIRE, scope);                                       \
        return v;                                                                                \
    }                                                                                            \
    PRIM_FN void prim_local_store_##name(T *p, T v, int order, int scope)                        \
    {                                                                                            \
        prim_cuda_local_fence(order, PRIM_RELEASE, scope);                                       \
        if (scope == PRIM_OF_BLOCK)                                                              \
            asm volatile("st.relaxed.cta.u" bits " [%0], %1;" : : "l"(p), reg(v) : "memory");    \
        else                                                                                     \
            asm volatile("st.relaxed.gpu.u" bits " [%0], %1;" : : "l"(p), reg(v) : "memory");    \
    }                                                                                            \
    PRIM_CUDA_LOCAL_OP(prim_local_fetch_add_##name, T, "add.u" bits, reg)                        \
    PRIM_CUDA_LOCAL_OP(prim_local_swap_##name, T, "exch.b" bits, reg)                            \
    PRIM_FN T prim_local_cas_##name(T *p, T expected, T desired, int order, int scope)           \
    {                                                                                            \
        T old;                                                                                   \
        prim_cuda_local_fence(order, PRIM_RELEASE, scope);                                       \
        if (scope == PRIM_OF_BLOCK)                                                              \
            asm volatile("atom.relaxed.cta.cas.b" bits " %0, [%1], %2, %3;"                      \
                         : "=" reg(old)                                                          \
                         : "l"(p), reg(expected), reg(desired)                                   \
                         : "memory");                                                            \
        else                                                                                     \
            asm volatile("atom.relaxed.gpu.cas.b" bits " %0, [%1], %2, %3;"                      \
                         : "=" reg(old)                                                          \
                         : "l"(p), reg(expected), reg(desired)                                   \
                         : "memory");                                                            \
        prim_cuda_local_fence(order, PRIM_ACQUIRE, scope);                                       \
        return old;                                                                              \
    }
PRIM_CUDA_LOCAL(u32, uint32_t, "32", "r")
PRIM_CUDA_LOCAL(u64, uint64_t, "64", "l")

#define PRIM_HAS_NAMED
PRIM_FN void prim_named_sync(struct prim_named *b)
{
    asm volatile("barrier.sync %0, %1;" : : "r"(b->id), "r"(b->threads) : "memory");
}

/* ---- fences ---- */

#define PRIM_GIVES_FENCES
/* Cumulative: the fence of the thread that stores the flag covers what the group stored before this sync. */
PRIM_FN void prim_gather_stores(struct prim_group g) { prim_sync(g); }
PRIM_FN void prim_settle_stores(struct prim_group g) { (void)g; } /* likewise */
PRIM_FN void prim_fence_flag(void) { asm volatile("fence.acq_rel.sys;" : : : "memory"); }
PRIM_FN void prim_fence_before_signal(void) { asm volatile("fence.acq_rel.sys;" : : : "memory"); }
PRIM_FN void prim_fence_full(void) { asm volatile("fence.sc.sys;" : : : "memory"); }
PRIM_FN void prim_store_flag_u32(uint32_t *p, uint32_t v) { prim_store_relaxed_u32(p, v); }
PRIM_FN void prim_store_flag_u64(uint64_t *p, uint64_t v) { prim_store_relaxed_u64(p, v); }

/* The look itself acquires: behind it the first-level cache is invalidated, which costs nothing while one waits. A
 * fence after the last look would wait for all outstanding stores of the thread, about as long as a trip to a peer. */
PRIM_FN uint32_t prim_peek_u32(const uint32_t *p) { return prim_load_acquire_u32(p); }
PRIM_FN uint64_t prim_peek_u64(const uint64_t *p) { return prim_load_acquire_u64(p); }
PRIM_FN void prim_acquire_from_peer(void) { asm volatile("" : : : "memory"); }
PRIM_FN void prim_acquire_after_atomic(void) { asm volatile("fence.acq_rel.sys;" : : : "memory"); }

/* Release store: the same wait as the fence has, without its half that invalidates. Pairs with prim_poll, prim_peek. */
#define PRIM_HAS_SIGNAL
PRIM_FN void prim_signal_u64(struct prim_group g, uint64_t *flag, uint64_t value)
{
    prim_gather_stores(g);
    if (prim_rank(g) == 0)
        prim_store_release_u64(flag, value);
}

/* ---- copies ---- */

#define PRIM_GIVES_COPY
#include "odd_device.h"
PRIM_FN struct prim_vec16 prim_load16(const void *p)
{
    struct prim_vec16 v;
    asm volatile("ld.v2.u64 {%0, %1}, [%2];" : "=l"(v.word[0]), "=l"(v.word[1]) : "l"(p) : "memory");
    return v;
}
PRIM_FN void prim_store16(void *p, struct prim_vec16 v)
{
    asm volatile("st.v2.u64 [%0], {%1, %2};" : : "l"(p), "l"(v.word[0]), "l"(v.word[1]) : "memory");
}
PRIM_FN void prim_store_ll(void *p, uint32_t data0, uint32_t data1, uint32_t epoch)
{
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(data0), "r"(epoch), "r"(data1), "r"(epoch)
                 : "memory");
}
PRIM_FN struct prim_ll prim_load_ll(const void *p)
{
    struct prim_ll v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.data0), "=r"(v.epoch0), "=r"(v.data1), "=r"(v.epoch1)
                 : "l"(p)
                 : "memory");
    return v;
}
/* The stores of a wave's 8 neighbours are one write of 128 bytes, and their loads one read. */
PRIM_FN unsigned prim_ll128_lanes(void) { return 8; }
PRIM_FN void prim_ll128_store(char *line, uint32_t piece, struct prim_vec16 v, bool yes)
{
    if (yes)
        asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
                     :
                     : "l"(line + piece * 16), "l"(v.word[0]), "l"(v.word[1])
                     : "memory");
}
PRIM_FN bool prim_ll128_look(const char *line, uint32_t piece, uint64_t flag, struct prim_vec16 *v)
{
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(v->word[0]), "=l"(v->word[1])
                 : "l"(line + piece * 16)
                 : "memory");
    return piece != 7 || v->word[1] == flag;
}
PRIM_FN void prim_ll128_take(const char *line, uint32_t piece, struct prim_vec16 *v)
{
    (void)line;
    (void)piece;
    (void)v; /* came with the look */
}
PRIM_FN bool prim_votes_between_polls(void) { return true; }
#define PRIM_HAS_WAVE_OR
PRIM_FN bool prim_wave_or(bool p) { return __any_sync(0xffffffffu, p) != 0; }

/* The same value for the whole kernel, so that one load serves a loop with fences in it. As a load that the compiler
 * knows it stays behind the question whether p is a null pointer; a line of PTX would not. */
PRIM_FN uint32_t prim_load_const_u32(const uint32_t *p) { return __ldg(p); }
PRIM_FN uint64_t prim_load_const_u64(const uint64_t *p) { return __ldg(p); }

/* A load for nothing: into the first-level cache, which keeps it until the next acquire. */
#define PRIM_HAS_EXPECT_LOAD
PRIM_FN void prim_expect_load(const void *p)
{
    asm volatile("{ .reg .u32 nothing; ld.global.u8 nothing, [%0]; }" : : "l"(p) : "memory");
}

/* From the first-level cache, until the next acquire invalidates that. */
#define PRIM_HAS_LOAD_LAZY
PRIM_CUDA_LOAD(prim_load_lazy_u64, uint64_t, "global.u64", "l")

PRIM_FN struct prim_vec16 prim_load16_odd(const void *p)
{
    unsigned shift = (unsigned)(uintptr_t)p & 15u;
    const char *at = (const char *)p - shift;
    return prim_odd_vec(prim_load16(at), prim_load16(at + (shift != 0 ? 16 : 0)), shift);
}
/* prim_copy and its relatives take the widest words that both ends have in common. */
PRIM_FN bool prim_copies_odd_by_words(void) { return true; }

/* How the two ends of a copy are accessed. A load from a peer must not be answered by the first-level cache, which no
 * peer's store invalidates: relaxed loads of system scope pass it by, and travel as vectors all the same. */
enum prim_cuda_way { PRIM_CUDA_LOCAL, PRIM_CUDA_PUT, PRIM_CUDA_GET };

PRIM_FN struct prim_vec16 prim_cuda_load16(enum prim_cuda_way way, const char *p)
{
    struct prim_vec16 v;
    if (way == PRIM_CUDA_GET)
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(v.word[0]), "=l"(v.word[1])
                     : "l"(p)
                     : "memory");
    else
        asm volatile("ld.v2.u64 {%0, %1}, [%2];" : "=l"(v.word[0]), "=l"(v.word[1]) : "l"(p) : "memory");
    return v;
}
PRIM_FN void prim_cuda_store16(enum prim_cuda_way way, char *p, struct prim_vec16 v)
{
    if (way == PRIM_CUDA_PUT)
        asm volatile("st.global.v2.u64 [%2], {%0, %1};" : : "l"(v.word[0]), "l"(v.word[1]), "l"(p) : "memory");
    else
        asm volatile("st.v2.u64 [%2], {%0, %1};" : : "l"(v.word[0]), "l"(v.word[1]), "l"(p) : "memory");
}

/* With many waves a short copy's time is its instructions, so numbers have 32 bits, and whole rounds have no predicates.
 * There a wave's vectors lie side by side, so that one address serves all of a thread. */
#define PRIM_CUDA_WIDE 6          /* vectors in flight; 8 do not fit beside the cold paths in 64 registers */
#define PRIM_CUDA_MOST (1u << 31) /* vectors; what is more goes before them by words, and takes longer */
PRIM_FN void prim_cuda_copy_whole(enum prim_cuda_way way, struct prim_group g, char **dest, const char **source,
                                  uint32_t *count)
{
    const uint32_t size = prim_size(g), rank = prim_rank(g), unit = g.kind == PRIM_THREAD ? 1 : 32;
    const uint32_t at = (rank / unit * PRIM_CUDA_WIDE * unit + rank % unit) * 16;
    if (size % unit != 0)
        return;
    PRIM_ROLLED
    for (; *count >= PRIM_CUDA_WIDE * size; *count -= PRIM_CUDA_WIDE * size) {
        struct prim_vec16 v[PRIM_CUDA_WIDE];
#pragma unroll
        for (uint32_t k = 0; k < PRIM_CUDA_WIDE; k++)
            v[k] = prim_cuda_load16(way, *source + at + k * unit * 16);
#pragma unroll
        for (uint32_t k = 0; k < PRIM_CUDA_WIDE; k++)
            prim_cuda_store16(way, *dest + at + k * unit * 16, v[k]);
        *dest += PRIM_CUDA_WIDE * size * 16;
        *source += PRIM_CUDA_WIDE * size * 16;
    }
}
/* What is less than a round, and all where a wave is short: each thread every size-th vector. Loads beyond the end load
 * the last vector again: a load that is skipped would keep its registers' older values alive, through the whole kernel.
 */
PRIM_FN void prim_cuda_copy_parts(enum prim_cuda_way way, struct prim_group g, char *dest, const char *source,
                                  uint32_t count, uint32_t n)
{
    const uint32_t size = prim_size(g), last = count - 1;
    PRIM_ROLLED
    for (uint32_t i = prim_rank(g); i < count; i += n * size) {
        struct prim_vec16 v[PRIM_CUDA_WIDE];
#pragma unroll
        for (uint32_t k = 0; k < n; k++)
            v[k] = prim_cuda_load16(way, source + (uint64_t)(i + k * size < last ? i + k * size : last) * 16);
#pragma unroll
        for (uint32_t k = 0; k < n; k++)
            if (k == 0 || i + k * size <= last)
                prim_cuda_store16(way, dest + (uint64_t)(i + k * size) * 16, v[k]);
    }
}
/* A get's loads take longer, so it keeps more of them in flight at the end, too. */
PRIM_FN void prim_cuda_copy16(enum prim_cuda_way way, struct prim_group g, char *dest, const char *source,
                              uint32_t count)
{
    prim_cuda_copy_whole(way, g, &dest, &source, &count);
    prim_cuda_copy_parts(way, g, dest, source, count, way == PRIM_CUDA_GET ? PRIM_CUDA_WIDE : 4);
}

/* One word of 1, 2, 4 or 8 bytes, from a peer's memory or from any of this PE's. */
PRIM_FN uint64_t prim_cuda_load_word(enum prim_cuda_way way, unsigned width, const char *p)
{
    uint64_t v = 0;
    uint32_t w = 0;
    uint16_t h = 0;
    if (way == PRIM_CUDA_GET)
        return width == 8   ? prim_load_relaxed_u64((const uint64_t *)(const void *)p)
               : width == 4 ? prim_load_relaxed_u32((const uint32_t *)(const void *)p)
               : width == 2 ? prim_load_relaxed_u16((const uint16_t *)(const void *)p)
                            : prim_load_relaxed_u8((const uint8_t *)p);
    if (width == 8)
        asm volatile("ld.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    else if (width == 4)
        asm volatile("ld.u32 %0, [%1];" : "=r"(w) : "l"(p) : "memory");
    else if (width == 2)
        asm volatile("ld.u16 %0, [%1];" : "=h"(h) : "l"(p) : "memory");
    else
        asm volatile("ld.u8 %0, [%1];" : "=r"(w) : "l"(p) : "memory");
    return width == 8 ? v : width == 2 ? h : w;
}
PRIM_FN void prim_cuda_store_word(unsigned width, char *p, uint64_t v)
{
    if (width == 8)
        asm volatile("st.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
    else if (width == 4)
        asm volatile("st.u32 [%0], %1;" : : "l"(p), "r"((uint32_t)v) : "memory");
    else if (width == 2)
        asm volatile("{ .reg .u16 t; cvt.u16.u32 t, %1; st.u16 [%0], t; }" : : "l"(p), "r"((uint32_t)v) : "memory");
    else
        asm volatile("st.u8 [%0], %1;" : : "l"(p), "r"((uint32_t)v) : "memory");
}
/* [0, bytes) without the `gap` bytes from `head` on, by words of `width`. */
PRIM_FN void prim_cuda_copy_words(enum prim_cuda_way way, unsigned width, struct prim_group g, char *dest,
                                  const char *source, size_t bytes, size_t head, size_t gap)
{
    size_t step = (size_t)prim_size(g) * width;
    for (size_t i = (size_t)prim_rank(g) * width; i < bytes - gap; i += step) {
        const size_t at = i < head ? i : i + gap;
        prim_cuda_store_word(width, dest + at, prim_cuda_load_word(way, width, source + at));
    }
}
PRIM_FN void prim_cuda_copy_by(enum prim_cuda_way way, unsigned width, struct prim_group g, char *dest,
                               const char *source, size_t bytes, size_t head, size_t gap)
{
    if (width == 8)
        prim_cuda_copy_words(way, 8, g, dest, source, bytes, head, gap);
    else if (width == 4)
        prim_cuda_copy_words(way, 4, g, dest, source, bytes, head, gap);
    else if (width == 2)
        prim_cuda_copy_words(way, 2, g, dest, source, bytes, head, gap);
    else
        prim_cuda_copy_words(way, 1, g, dest, source, bytes, head, gap);
}

/* The largest power of two, at most 16, that divides x. */
PRIM_FN unsigned prim_cuda_width(uint64_t x)
{
    unsigned low = (unsigned)x | 16u;
    return low & (0u - low);
}

/* Whether a part of the copy goes by vectors of 16 bytes. */
PRIM_FN bool prim_cuda_has_vectors(const char *dest, const char *source, size_t bytes)
{
    return (((uintptr_t)dest ^ (uintptr_t)source) & 15u) == 0 && bytes >= ((0u - (uintptr_t)dest) & 15u) + 16;
}

/* Without vectors: the widest words that both ends have in common, and at both edges of them whole elements, as far as
 * the addresses and the length tell: each load of a get is a way to the peer and back. */
PRIM_FN void prim_cuda_copy_short(enum prim_cuda_way way, struct prim_group g, char *dest, const char *source,
                                  size_t bytes)
{
    const unsigned width = prim_cuda_width(((uintptr_t)dest ^ (uintptr_t)source) | 8u);
    const unsigned edge = prim_cuda_width((uintptr_t)dest | (uintptr_t)source | bytes | 8u);
    size_t head = (0u - (uintptr_t)dest) & (width - 1);
    if (head > bytes)
        head = bytes;
    const size_t body = (bytes - head) & ~(size_t)(width - 1);
    prim_cuda_copy_by(way, width, g, dest + head, source + head, body, 0, 0);
    if (body != bytes)
        prim_cuda_copy_by(way, edge, g, dest, source, bytes, head, body);
}
/* From where on the copy goes by vectors, at most MOST of them; bytes: none does. */
PRIM_FN size_t prim_cuda_vectors_at(const char *dest, const char *source, size_t bytes)
{
    size_t head = (0u - (uintptr_t)dest) & 15u;
    if (!prim_cuda_has_vectors(dest, source, bytes))
        return bytes;
    const size_t vectors = (bytes - head) / 16;
    return head + (vectors > PRIM_CUDA_MOST ? (vectors - PRIM_CUDA_MOST) * 16 : 0);
}
/* What is before those vectors and behind them, or the whole copy. */
PRIM_FN void prim_cuda_copy_odd_by(enum prim_cuda_way way, struct prim_group g, char *dest, const char *source,
                                   size_t bytes)
{
    if (bytes == 4 && (((uintptr_t)dest | (uintptr_t)source) & 3) == 0) { /* one float, say */
        if (prim_rank(g) == 0)
            prim_cuda_store_word(4, dest, prim_cuda_load_word(way, 4, source));
        return;
    }
    const size_t at = prim_cuda_vectors_at(dest, source, bytes), end = bytes - ((bytes - at) & 15u);
    prim_cuda_copy_short(way, g, dest, source, at);
    if (end != bytes)
        prim_cuda_copy_short(way, g, dest + end, source + end, bytes - end);
}
/* A function for each kind of load: what a way is must not be asked at each word. */
PRIM_COLD_FN void prim_cuda_get_odd(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    prim_cuda_copy_odd_by(PRIM_CUDA_GET, g, dest, source, bytes);
}
PRIM_COLD_FN void prim_cuda_put_odd(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    prim_cuda_copy_odd_by(PRIM_CUDA_PUT, g, dest, source, bytes);
}

/* The odd part comes first, by one call that finds out what it is, so that a copy of whole vectors has no instruction
 * for its sake. */
PRIM_FN void prim_cuda_copy(enum prim_cuda_way way, struct prim_group g, void *dest, const void *source, size_t bytes)
{
    char *d = (char *)dest;
    const char *s = (const char *)source;
    if (((((uintptr_t)d | (uintptr_t)s | bytes) & 15) | bytes / 16 / PRIM_CUDA_MOST) != 0) {
        if (way == PRIM_CUDA_GET)
            prim_cuda_get_odd(g, d, s, bytes);
        else
            prim_cuda_put_odd(g, d, s, bytes);
        const size_t at = prim_cuda_vectors_at(d, s, bytes);
        if (at == bytes)
            return;
        d += at;
        s += at;
        bytes -= at;
    }
    prim_cuda_copy16(way, g, d, s, (uint32_t)(bytes / 16));
}
PRIM_FN void prim_copy(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source, size_t bytes)
{
    prim_cuda_copy(PRIM_CUDA_LOCAL, g, dest, source, bytes);
}
PRIM_FN void prim_copy_put(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    prim_cuda_copy(PRIM_CUDA_PUT, g, dest, source, bytes);
}
PRIM_FN void prim_copy_get(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    prim_cuda_copy(PRIM_CUDA_GET, g, dest, source, bytes);
}

#define PRIM_HAS_VECTOR_EACH
PRIM_FN bool prim_cuda_vector_each(enum prim_cuda_way way, struct prim_group g, char *dest, const char *source,
                                   size_t bytes)
{
    uintptr_t all = (uintptr_t)dest | (uintptr_t)source | bytes;
    if ((all & 15) != 0 || bytes > 16 * (size_t)prim_size(g))
        return false;
    size_t at = 16 * (size_t)prim_rank(g);
    if (at < bytes)
        prim_cuda_store16(way, dest + at, prim_cuda_load16(way, source + at));
    return true;
}
PRIM_FN bool prim_put_vector_each(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    return prim_cuda_vector_each(PRIM_CUDA_PUT, g, dest, source, bytes);
}
PRIM_FN bool prim_get_vector_each(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    return prim_cuda_vector_each(PRIM_CUDA_GET, g, dest, source, bytes);
}

/* ---- early kernels ---- */

/* Where kernels are compiled for less than 9.0 nothing is launched early: gpu_cuda.c asks. */
PRIM_FN float prim_sqrt(float x)
{
    float root;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

#define PRIM_HAS_STREAM_WAIT
PRIM_FN void prim_stream_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}
PRIM_FN void prim_stream_pass(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

/* ---- formats ---- */

#define PRIM_HAS_HALF
PRIM_FN float prim_half_to_float(uint16_t half)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(half));
    return f;
}
PRIM_FN uint16_t prim_half_from_float(float f)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(f));
    return half;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define PRIM_HAS_BFLOAT16
PRIM_FN uint16_t prim_bfloat16_from_float(float f)
{
    uint16_t b;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f));
    return b;
}
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define PRIM_HAS_E4M3
PRIM_FN uint8_t prim_e4m3_from_float(float f)
{
    uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(f));
    return (uint8_t)two;
}
#endif

/* ---- time ---- */

#define PRIM_GIVES_TIME
PRIM_FN int32_t prim_here_i32(int32_t v) { return v; }
PRIM_FN void prim_pause(void) {} /* a poll waits for the second-level cache anyway; sleeping would cost latency */
PRIM_FN uint64_t prim_clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

#endif
