/* SPDX-License-Identifier: MIT */
/* AMD GPUs as a target of prim.h: gfx9 (waves of 64), clang's builtins, no HIP header needed (-nogpuinc -nogpulib).
 * Invariants: everything that a peer may see is of system scope, never agent; all the pointers of atomics, flags and
 * lines, the destination of copy_put and the source of copy_get are global memory, never PRIM_SHARED; a cache
 * write-back is followed by a wait of our own, since clang 18 to 22 leave out theirs where they take nothing to be
 * pending. tests/unit/isa.sh checks the emitted instructions. Included by prim.h only. */
#ifndef ISO_PRIM_HIP_H
#define ISO_PRIM_HIP_H

#ifndef __cplusplus
#error "device/api/prim_hip.h: HIP is C++; compile with -x hip"
#endif
#if defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
#error \
    "device/api/prim_hip.h: only gfx9 (MI200, MI300, MI350) is supported: its waits and scope bits are spelled out here"
#endif

/* Under a full HIP installation its header, in whichever order the user includes; otherwise the two declarations by
 * which clang's host pass launches kernels. */
#if defined(__CLANG_HIP_RUNTIME_WRAPPER_H__) && !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#elif !defined(HIP_INCLUDE_HIP_HIP_RUNTIME_API_H) && !defined(__HIP_DEVICE_COMPILE__)
typedef struct dim3 {
    uint32_t x, y, z;
} dim3;
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, struct ihipStream_t *);
#endif

#define PRIM_FN static inline __attribute__((device, always_inline, unused))
/* Inlined as well: a call would give the kernel a stack in scratch memory, which costs more than the registers. A
 * source with hundreds of calls would take minutes to compile; it defines PRIM_COLD_CALLS before its includes. */
#ifdef PRIM_COLD_CALLS
#define PRIM_COLD_FN static __attribute__((device, noinline, unused))
#else
#define PRIM_COLD_FN PRIM_FN
#endif
#define PRIM_RESTRICT __restrict__
#define PRIM_UNROLL _Pragma("unroll")
#define PRIM_ROLLED _Pragma("unroll 1")
#define PRIM_WAIT_FOR_WORD _Pragma("unroll 8")
#define PRIM_WAIT_FOR_LINES _Pragma("unroll 1")
/* A source may say fewer before its includes, and get more registers. */
#ifndef PRIM_MAX_THREADS
#define PRIM_MAX_THREADS 1024
#endif
/* A second way through a call, in a function of its own, spills scalar registers. */
#define PRIM_GETS_WORDS(g) ((g).kind == PRIM_THREAD) /* of a block it would take 14 registers more */
#define PRIM_FEW_SCALARS
#define PRIM_KERNEL(name, TYPE, a) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, PRIM_MAX_THREADS))) void name(TYPE a)
/* A function that code of other compilers links, as bitcode. */
#define PRIM_EXTERN extern "C" __attribute__((device, used, visibility("default")))
#define PRIM_KERNEL_BOUNDED(name, TYPE, a, threads) \
    extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads))) void name(TYPE a)
#define PRIM_SHARED(TYPE, name, count) __attribute__((shared)) TYPE name[count]
#define PRIM_SHARED_DYNAMIC(TYPE, name)                                                    \
    extern __attribute__((shared, aligned(16))) unsigned char prim_hip_shared_of_launch[]; \
    TYPE *const name = (TYPE *)(void *)prim_hip_shared_of_launch
#define PRIM_GLOBAL __attribute__((global, amdgpu_flat_work_group_size(1, PRIM_MAX_THREADS)))
#define PRIM_GLOBAL_BOUNDED(threads) __attribute__((global, amdgpu_flat_work_group_size(1, threads)))
#define PRIM_BOTH_FN static inline __attribute__((host, device, unused))
#ifdef __HIP_DEVICE_COMPILE__
#define PRIM_EITHER(kernel, host) (kernel)
#else
#define PRIM_EITHER(kernel, host) (host)
#endif

/* ---- pointers ----
 * A pointer that came out of memory is of no known address space: the compiler would take it for perhaps shared memory
 * and emit flat instructions. What peers see is global memory. */
#define PRIM_HIP_GLOBAL __attribute__((address_space(1)))
#define PRIM_HIP_CONSTANT __attribute__((address_space(4)))
#define PRIM_HIP_AT(T, p) ((PRIM_HIP_GLOBAL T *)(p))
typedef uint32_t prim_hip_vec __attribute__((ext_vector_type(4), may_alias));

/* ---- groups ---- */

#define PRIM_GIVES_GROUP
PRIM_FN uint32_t prim_wave_size(void) { return 64; }

PRIM_FN uint32_t prim_hip_block_rank(void)
{
    uint32_t rank = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
    uint32_t z = __builtin_amdgcn_workitem_id_z(), nx = __builtin_amdgcn_workgroup_size_x();
    return rank + nx * (y + (uint32_t)__builtin_amdgcn_workgroup_size_y() * z);
}
PRIM_FN uint32_t prim_hip_block_size(void)
{
    uint32_t nx = __builtin_amdgcn_workgroup_size_x(), ny = __builtin_amdgcn_workgroup_size_y();
    return nx * ny * __builtin_amdgcn_workgroup_size_z();
}
PRIM_FN uint32_t prim_hip_lane(void) { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

PRIM_FN uint32_t prim_rank(struct prim_group g)
{
    return g.kind == PRIM_THREAD ? 0 : g.kind == PRIM_WAVE ? prim_hip_lane() : prim_hip_block_rank();
}
PRIM_FN uint32_t prim_size(struct prim_group g)
{
    if (g.kind == PRIM_THREAD)
        return 1;
    if (g.kind == PRIM_BLOCK)
        return prim_hip_block_size();
    uint32_t left = prim_hip_block_size() - prim_hip_block_rank() / 64 * 64; /* the last wave may be a part */
    return left < 64 ? left : 64;
}

/* A block runs on one compute unit and its stores pass one first-level cache in order, so the group sees them without
 * a wait for memory. Peers do not: see prim_gather_stores. Each release pairs with the acquire of the others. */
PRIM_FN void prim_sync(struct prim_group g)
{
    if (g.kind == PRIM_WAVE) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
        __builtin_amdgcn_wave_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    } else if (g.kind == PRIM_BLOCK) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
}

PRIM_FN bool prim_hip_block_or(bool p)
{
    PRIM_SHARED(uint32_t, votes, 16); /* one of each wave: 1024 / 64 */
    struct prim_group block = {PRIM_BLOCK};
    uint32_t rank = prim_hip_block_rank(), waves = (prim_hip_block_size() + 63) / 64, any = 0;
    uint64_t vote = __builtin_amdgcn_ballot_w64(p);
    if (rank % 64 == 0)
        votes[rank / 64] = vote != 0;
    prim_sync(block);
    for (uint32_t i = 0; i < waves; i++)
        any |= votes[i];
    prim_sync(block); /* the next call may write votes */
    return any != 0;
}
PRIM_FN bool prim_sync_or(struct prim_group g, bool p)
{
    if (g.kind == PRIM_BLOCK)
        return prim_hip_block_or(p);
    prim_sync(g);
    return g.kind == PRIM_WAVE ? __builtin_amdgcn_ballot_w64(p) != 0 : p;
}

PRIM_FN uint64_t prim_hip_block_broadcast(uint64_t v)
{
    PRIM_SHARED(uint64_t, word, 1);
    struct prim_group block = {PRIM_BLOCK};
    if (prim_hip_block_rank() == 0)
        word[0] = v;
    prim_sync(block);
    v = word[0];
    prim_sync(block); /* the next call may write it */
    return v;
}
/* The first thread's v. */
PRIM_FN uint64_t prim_broadcast_u64(struct prim_group g, uint64_t v)
{
    if (g.kind == PRIM_BLOCK)
        return prim_hip_block_broadcast(v);
    prim_sync(g);
    if (g.kind == PRIM_THREAD)
        return v;
    uint32_t low = (uint32_t)__builtin_amdgcn_readfirstlane((int)(uint32_t)v);
    uint32_t high = (uint32_t)__builtin_amdgcn_readfirstlane((int)(uint32_t)(v >> 32));
    return (uint64_t)high << 32 | low;
}

/* Grids of one dimension are the rule: the divisions are for the others. */
PRIM_FN uint32_t prim_block_index(void)
{
    uint32_t x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
    uint32_t z = __builtin_amdgcn_workgroup_id_z();
    if ((y | z) == 0)
        return x;
    uint32_t nx = __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
    uint32_t ny = __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y();
    return x + nx * (y + ny * z);
}
PRIM_FN uint32_t prim_block_count(void)
{
    uint32_t n = __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
    uint32_t y = __builtin_amdgcn_grid_size_y(), ny = __builtin_amdgcn_workgroup_size_y();
    uint32_t z = __builtin_amdgcn_grid_size_z(), nz = __builtin_amdgcn_workgroup_size_z();
    return y == ny && z == nz ? n : n * (y / ny) * (z / nz);
}

/* ---- fences ---- */

#define PRIM_GIVES_FENCES

/* Until this wave's stores and cache write-backs are done: vmcnt(0) of gfx9, nothing else. The empty statements keep
 * the compiler from moving accesses over it. */
PRIM_FN void prim_hip_wait_stores(void)
{
    __asm__ volatile("" ::: "memory");
    __builtin_amdgcn_s_waitcnt(0x0f70);
    __asm__ volatile("" ::: "memory");
}

/* Waits until the wave's stores are in the second-level cache, which the write-back of any wave of the block covers.
 * Lanes of one wave need no wait: the fence of any lane waits for the stores of all lanes. */
PRIM_FN void prim_settle_stores(struct prim_group g)
{
    if (g.kind == PRIM_BLOCK)
        prim_hip_wait_stores();
}

/* This thread's stores, and stores settled before a sync with this thread, leave all caches. Pairs with
 * prim_acquire_from_peer of the thread that saw the later flag. */
PRIM_FN void prim_fence_before_signal(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    prim_hip_wait_stores();
}
/* Pairs with prim_fence_before_signal, prim_gather_stores of the peer: loads that follow miss what was cached before.
 * Once per block is enough, its threads share the caches. */
PRIM_FN void prim_acquire_from_peer(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }
/* The same; the atomic before it has come back. */
PRIM_FN void prim_acquire_after_atomic(void) { prim_acquire_from_peer(); }
/* Pairs with itself on other processors: of two threads that store, fence and load, at least one sees the store of the
 * other. The wait stands before the invalidation: else a plain load of another wave could bring a line back into the
 * cache before this thread's stores are out. */
PRIM_FN void prim_fence_full(void)
{
    prim_fence_before_signal();
    prim_acquire_from_peer();
}

/* By every thread, since a barrier does not wait for the stores of other waves: each thread flushes its own and waits.
 * After the barrier, a relaxed flag of any thread is behind all these stores. Pairs with peek and
 * prim_acquire_from_peer. */
PRIM_FN void prim_gather_stores(struct prim_group g)
{
    prim_fence_before_signal();
    prim_sync(g);
}
PRIM_FN void prim_fence_flag(void) {}

/* ---- atomics: relaxed, system scope; the fences above order them ---- */

/* How instructions spell system scope: of loads, and of read-modify-writes that return the old value; of stores; of
 * read-modify-writes that do not. Stores and read-modify-writes of gfx90a are always of system scope. */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define PRIM_HIP_FRESH " sc0 sc1"
#define PRIM_HIP_OUT " sc0 sc1"
#define PRIM_HIP_UPDATE " sc1"
#else
#define PRIM_HIP_FRESH " glc"
#define PRIM_HIP_OUT ""
#define PRIM_HIP_UPDATE ""
#endif

#define PRIM_GIVES_ATOMICS
/* Pointers to memory that is not global would need flat instructions, and waits for two counters. */
#define PRIM_HIP_ATOMIC(name, T, p, ...) name(PRIM_HIP_AT(T, p), __VA_ARGS__, __HIP_MEMORY_SCOPE_SYSTEM)
#define PRIM_HIP_WORD(name, T)                                                   \
    PRIM_FN T prim_load_relaxed_##name(const T *p)                               \
    {                                                                            \
        return PRIM_HIP_ATOMIC(__hip_atomic_load, const T, p, __ATOMIC_RELAXED); \
    }                                                                            \
    PRIM_FN void prim_store_relaxed_##name(T *p, T v)                            \
    {                                                                            \
        PRIM_HIP_ATOMIC(__hip_atomic_store, T, p, v, __ATOMIC_RELAXED);          \
    }
#define PRIM_HIP_FETCH(op, name, T)                                                 \
    PRIM_FN T prim_fetch_##op##_##name(T *p, T v)                                   \
    {                                                                               \
        return PRIM_HIP_ATOMIC(__hip_atomic_fetch_##op, T, p, v, __ATOMIC_RELAXED); \
    }
#define PRIM_HIP_ATOMICS(name, T)                                                                                  \
    PRIM_HIP_WORD(name, T)                                                                                         \
    PRIM_HIP_FETCH(add, name, T)                                                                                   \
    PRIM_FN T prim_swap_##name(T *p, T v)                                                                          \
    {                                                                                                              \
        return PRIM_HIP_ATOMIC(__hip_atomic_exchange, T, p, v, __ATOMIC_RELAXED);                                  \
    }                                                                                                              \
    PRIM_FN T prim_cas_##name(T *p, T expected, T desired)                                                         \
    {                                                                                                              \
        PRIM_HIP_ATOMIC(__hip_atomic_compare_exchange_strong, T, p, &expected, desired, __ATOMIC_RELAXED,          \
                        __ATOMIC_RELAXED);                                                                         \
        return expected;                                                                                           \
    }                                                                                                              \
    PRIM_FN T prim_load_acquire_##name(const T *p)                                                                 \
    {                                                                                                              \
        T v = prim_load_relaxed_##name(p);                                                                         \
        prim_acquire_from_peer(); /* pairs with store_release, signal */                                           \
        return v;                                                                                                  \
    }                                                                                                              \
    PRIM_FN void prim_store_release_##name(T *p, T v)                                                              \
    {                                                                                                              \
        prim_fence_before_signal(); /* pairs with load_acquire, poll */                                            \
        prim_store_relaxed_##name(p, v);                                                                           \
    }                                                                                                              \
    PRIM_FN void prim_store_flag_##name(T *p, T v) { prim_store_relaxed_##name(p, v); } /* behind gather_stores */ \
    PRIM_FN T prim_peek_##name(const T *p) { return prim_load_relaxed_##name(p); }      /* before acquire_from_peer */
PRIM_HIP_WORD(u8, uint8_t)
PRIM_HIP_WORD(u16, uint16_t)
PRIM_HIP_ATOMICS(u32, uint32_t)
PRIM_HIP_ATOMICS(u64, uint64_t)

/* and, or, xor as instructions: clang from 20 on makes compare-and-swap loops of the builtins, for the sake of memory
 * behind PCIe, where these three do not exist. The library uses them on device memory only, of this GPU or of a GPU in
 * its hive of Infinity Fabric links, where they exist. An atomic without an old value is not waited for; the wait of a
 * later fence counts it. */
#define PRIM_HIP_BIT(op, name, T, suffix)                                                                       \
    PRIM_FN T prim_fetch_##op##_##name(T *p, T v)                                                               \
    {                                                                                                           \
        T old;                                                                                                  \
        __asm__ volatile("global_atomic_" #op suffix " %0, %1, %2, off" PRIM_HIP_FRESH "\n\ts_waitcnt vmcnt(0)" \
                         : "=&v"(old)                                                                           \
                         : "v"(PRIM_HIP_AT(T, p)), "v"(v)                                                       \
                         : "memory");                                                                           \
        return old;                                                                                             \
    }                                                                                                           \
    PRIM_FN void prim_##op##_##name(T *p, T v)                                                                  \
    {                                                                                                           \
        __asm__ volatile("global_atomic_" #op suffix " %0, %1, off" PRIM_HIP_UPDATE                             \
                         :                                                                                      \
                         : "v"(PRIM_HIP_AT(T, p)), "v"(v)                                                       \
                         : "memory");                                                                           \
    }
#define PRIM_HAS_BIT_UPDATES
PRIM_HIP_BIT(and, u32, uint32_t, "")
PRIM_HIP_BIT(or, u32, uint32_t, "")
PRIM_HIP_BIT(xor, u32, uint32_t, "")
PRIM_HIP_BIT(and, u64, uint64_t, "_x2")
PRIM_HIP_BIT(or, u64, uint64_t, "_x2")
PRIM_HIP_BIT(xor, u64, uint64_t, "_x2")
#undef PRIM_HIP_BIT
#undef PRIM_HIP_ATOMICS
#undef PRIM_HIP_FETCH
#undef PRIM_HIP_WORD
#undef PRIM_HIP_ATOMIC

/* From the first-level cache, until the next acquire empties that; workgroup scope keeps the compiler from hoisting. */
#define PRIM_HAS_LOAD_LAZY
PRIM_FN uint64_t prim_load_lazy_u64(const uint64_t *p)
{
    return __hip_atomic_load(PRIM_HIP_AT(const uint64_t, p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

/* ---- among threads of this PE: generic addresses, which may be shared memory ---- */

#define PRIM_GIVES_LOCAL
PRIM_FN struct prim_dim prim_block_dim(void)
{
    struct prim_dim d = {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
                         __builtin_amdgcn_workgroup_size_z()};
    return d;
}
PRIM_FN struct prim_dim prim_grid_dim(void)
{
    struct prim_dim block = prim_block_dim();
    struct prim_dim d = {__builtin_amdgcn_grid_size_x() / block.x, __builtin_amdgcn_grid_size_y() / block.y,
                         __builtin_amdgcn_grid_size_z() / block.z};
    return d;
}
PRIM_FN struct prim_dim prim_block_place(void)
{
    struct prim_dim d = {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                         __builtin_amdgcn_workgroup_id_z()};
    return d;
}
PRIM_FN struct prim_dim prim_thread_place(void)
{
    struct prim_dim d = {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                         __builtin_amdgcn_workitem_id_z()};
    return d;
}
PRIM_FN uint64_t prim_ballot(bool p) { return __builtin_amdgcn_ballot_w64(p); }
PRIM_FN uint32_t prim_shuffle_u32(uint32_t v, uint32_t lane)
{
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane * 4), (int)v);
}
PRIM_FN uint64_t prim_shuffle_u64(uint64_t v, uint32_t lane)
{
    uint64_t high = prim_shuffle_u32((uint32_t)(v >> 32), lane);
    return high << 32 | prim_shuffle_u32((uint32_t)v, lane);
}

/* A fence before a relaxed access is its release, one behind it its acquire. A block is one compute unit, so its scope
 * needs no cache. */
PRIM_FN void prim_hip_local_release(int order, int scope)
{
    if ((order & PRIM_RELEASE) == 0)
        return;
    if (scope == PRIM_OF_BLOCK) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    } else {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        prim_hip_wait_stores();
    }
}
PRIM_FN void prim_hip_local_acquire(int order, int scope)
{
    if ((order & PRIM_ACQUIRE) == 0)
        return;
    if (scope == PRIM_OF_BLOCK)
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    else
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
}
#define PRIM_HIP_LOCAL_OP(name, T, op)                                                            \
    PRIM_FN T name(T *p, T v, int order, int scope)                                               \
    {                                                                                             \
        prim_hip_local_release(order, scope);                                                     \
        T old = scope == PRIM_OF_BLOCK ? op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP) \
                                       : op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);    \
        prim_hip_local_acquire(order, scope);                                                     \
        return old;                                                                               \
    }
#define PRIM_HIP_LOCAL(name, T)                                                                             \
    PRIM_FN T prim_local_load_##name(const T *p, int order, int scope)                                      \
    {                                                                                                       \
        T v = scope == PRIM_OF_BLOCK ? __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP) \
                                     : __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);    \
        prim_hip_local_acquire(order, scope);                                                               \
        return v;                                                                                           \
    }                                                                                                       \
    PRIM_FN void prim_local_store_##name(T *p, T v, int order, int scope)                                   \
    {                                                                                                       \
        prim_hip_local_release(order, scope);                                                               \
        if (scope == PRIM_OF_BLOCK)                                                                         \
            __hip_atomic_store(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);                       \
        else                                                                                                \
            __hip_atomic_store(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                           \
    }                                                                                                       \
    PRIM_HIP_LOCAL_OP(prim_local_fetch_add_##name, T, __hip_atomic_fetch_add)                               \
    PRIM_HIP_LOCAL_OP(prim_local_swap_##name, T, __hip_atomic_exchange)                                     \
    PRIM_FN T prim_local_cas_##name(T *p, T expected, T desired, int order, int scope)                      \
    {                                                                                                       \
        prim_hip_local_release(order, scope);                                                               \
        if (scope == PRIM_OF_BLOCK)                                                                         \
            __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED, \
                                                 __HIP_MEMORY_SCOPE_WORKGROUP);                             \
        else                                                                                                \
            __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED, \
                                                 __HIP_MEMORY_SCOPE_AGENT);                                 \
        prim_hip_local_acquire(order, scope);                                                               \
        return expected;                                                                                    \
    }
PRIM_HIP_LOCAL(u32, uint32_t)
PRIM_HIP_LOCAL(u64, uint64_t)
#undef PRIM_HIP_LOCAL
#undef PRIM_HIP_LOCAL_OP

/* ---- copies ---- */

#define PRIM_GIVES_COPY

/* Aligned to 16, of any address space. */
PRIM_FN struct prim_vec16 prim_load16(const void *p)
{
    struct prim_vec16 v;
    __builtin_memcpy(&v, __builtin_assume_aligned(p, 16), 16);
    return v;
}
PRIM_FN void prim_store16(void *p, struct prim_vec16 v) { __builtin_memcpy(__builtin_assume_aligned(p, 16), &v, 16); }

/* Of any alignment: one instruction, the hardware allows it. */
PRIM_FN prim_hip_vec prim_hip_load_any(const char *p)
{
    prim_hip_vec v;
    __builtin_memcpy(&v, p, 16);
    return v;
}
PRIM_FN struct prim_vec16 prim_load16_odd(const void *p)
{
    struct prim_vec16 v;
    __builtin_memcpy(&v, p, 16);
    return v;
}
PRIM_FN bool prim_copies_odd_by_words(void) { return false; }
PRIM_FN void prim_hip_store_any(char *p, prim_hip_vec v) { __builtin_memcpy(p, &v, 16); }

/* The data leaves early and is not kept in the caches. The fence before the flag writes back what they keep all the
 * same. */
PRIM_FN void prim_hip_store_out(char *p, prim_hip_vec v)
{
    __builtin_nontemporal_store(v, PRIM_HIP_AT(prim_hip_vec, p));
}

/* Loads of system scope, 16 bytes each, that miss what the caches hold: atomics have 8 bytes at most, and nontemporal
 * loads may hit. The compiler does not know that the results come later, so a wait follows each group of loads. */
PRIM_FN prim_hip_vec prim_hip_load_fresh(const char *p)
{
    prim_hip_vec v;
    __asm__ volatile("global_load_dwordx4 %0, %1, off" PRIM_HIP_FRESH "\n\ts_waitcnt vmcnt(0)"
                     : "=&v"(v)
                     : "v"(PRIM_HIP_AT(const char, p))
                     : "memory");
    return v;
}
PRIM_FN void prim_hip_load_fresh4(const char *p, uint64_t step, prim_hip_vec v[4])
{
    __asm__ volatile("global_load_dwordx4 %0, %4, off" PRIM_HIP_FRESH
                     "\n\tglobal_load_dwordx4 %1, %5, off" PRIM_HIP_FRESH
                     "\n\tglobal_load_dwordx4 %2, %6, off" PRIM_HIP_FRESH
                     "\n\tglobal_load_dwordx4 %3, %7, off" PRIM_HIP_FRESH "\n\ts_waitcnt vmcnt(0)"
                     : "=&v"(v[0]), "=&v"(v[1]), "=&v"(v[2]), "=&v"(v[3])
                     : "v"(PRIM_HIP_AT(const char, p)), "v"(PRIM_HIP_AT(const char, p + step)),
                       "v"(PRIM_HIP_AT(const char, p + 2 * step)), "v"(PRIM_HIP_AT(const char, p + 3 * step))
                     : "memory");
}

/* How many bytes until p is aligned to 16, at most `bytes`. */
PRIM_FN uint64_t prim_hip_head(const void *p, uint64_t bytes)
{
    uint64_t head = (0 - (uint64_t)(uintptr_t)p) & 15;
    return head < bytes ? head : bytes;
}

/* One thread's part of a copy: pieces of 16 bytes at [at, end) in steps, four at a time while four are left. The three
 * copies differ by `LOAD4`, `LOAD` and `STORE`. */
#define PRIM_HIP_PIECES(LOAD4, LOAD, STORE)       \
    for (; at + 3 * step < end; at += 4 * step) { \
        prim_hip_vec v[4];                        \
        LOAD4(from + at, step, v);                \
        STORE(to + at, v[0]);                     \
        STORE(to + at + step, v[1]);              \
        STORE(to + at + 2 * step, v[2]);          \
        STORE(to + at + 3 * step, v[3]);          \
    }                                             \
    for (; at < end; at += step)                  \
        STORE(to + at, LOAD(from + at));
PRIM_FN void prim_hip_load_any4(const char *p, uint64_t step, prim_hip_vec v[4])
{
    v[0] = prim_hip_load_any(p);
    v[1] = prim_hip_load_any(p + step);
    v[2] = prim_hip_load_any(p + 2 * step);
    v[3] = prim_hip_load_any(p + 3 * step);
}

/* The two edges of it, before `head` and from `end` on: by words of 4 bytes where all is made of them. Each load of a
 * get is a way to the peer and back. */
#define PRIM_HIP_EDGES(T, LOAD, STORE)                                                     \
    for (uint64_t i = sizeof(T) * rank; i < bytes - (end - head); i += sizeof(T) * size) { \
        const uint64_t edge = i < head ? i : i + (end - head);                             \
        STORE((T *)(void *)(to + edge), LOAD((const T *)(const void *)(from + edge)));     \
    }
PRIM_FN uint32_t prim_hip_load_u32(const uint32_t *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return v;
}
PRIM_FN void prim_hip_store_u32(uint32_t *p, uint32_t v) { __builtin_memcpy(p, &v, 4); }
PRIM_FN uint8_t prim_hip_load_u8(const uint8_t *p) { return *p; }
PRIM_FN void prim_hip_store_u8(uint8_t *p, uint8_t v) { *p = v; }

PRIM_FN void prim_copy(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source, size_t bytes)
{
    char *to = (char *)dest;
    const char *from = (const char *)source;
    uint64_t rank = prim_rank(g), size = prim_size(g), head = prim_hip_head(to, bytes), step = 16 * size;
    uint64_t at = head + 16 * rank, end = head + (bytes - head) / 16 * 16;
    PRIM_HIP_PIECES(prim_hip_load_any4, prim_hip_load_any, prim_hip_store_any)
    if ((((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0)
        PRIM_HIP_EDGES(uint32_t, prim_hip_load_u32, prim_hip_store_u32)
    else
        PRIM_HIP_EDGES(uint8_t, prim_hip_load_u8, prim_hip_store_u8)
}

PRIM_FN void prim_copy_put(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    char *to = (char *)dest;
    const char *from = (const char *)source;
    uint64_t rank = prim_rank(g), size = prim_size(g), head = prim_hip_head(to, bytes), step = 16 * size;
    uint64_t at = head + 16 * rank, end = head + (bytes - head) / 16 * 16;
    PRIM_HIP_PIECES(prim_hip_load_any4, prim_hip_load_any, prim_hip_store_out)
    if ((((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0)
        PRIM_HIP_EDGES(uint32_t, prim_hip_load_u32, prim_store_relaxed_u32)
    else
        PRIM_HIP_EDGES(uint8_t, prim_hip_load_u8, prim_store_relaxed_u8)
}

PRIM_FN void prim_copy_get(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    char *to = (char *)dest;
    const char *from = (const char *)source;
    uint64_t rank = prim_rank(g), size = prim_size(g), head = prim_hip_head(from, bytes), step = 16 * size;
    uint64_t at = head + 16 * rank, end = head + (bytes - head) / 16 * 16;
    PRIM_HIP_PIECES(prim_hip_load_fresh4, prim_hip_load_fresh, prim_hip_store_any)
    if ((((uintptr_t)to | (uintptr_t)from | bytes) & 3) == 0)
        PRIM_HIP_EDGES(uint32_t, prim_load_relaxed_u32, prim_hip_store_u32)
    else
        PRIM_HIP_EDGES(uint8_t, prim_load_relaxed_u8, prim_hip_store_u8)
}
#undef PRIM_HIP_EDGES
#undef PRIM_HIP_PIECES

/* The hardware keeps 8 bytes whole on every path, so an LL word is two stores and two loads. */
PRIM_FN void prim_store_ll(struct prim_ll *p, uint32_t data0, uint32_t data1, uint32_t epoch)
{
    uint64_t *words = (uint64_t *)(void *)p;
    prim_store_relaxed_u64(words, (uint64_t)epoch << 32 | data0);
    prim_store_relaxed_u64(words + 1, (uint64_t)epoch << 32 | data1);
}
PRIM_FN struct prim_ll prim_load_ll(const struct prim_ll *p)
{
    const uint64_t *words = (const uint64_t *)(const void *)p;
    uint64_t first = prim_load_relaxed_u64(words), second = prim_load_relaxed_u64(words + 1);
    struct prim_ll line = {(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second, (uint32_t)(second >> 32)};
    return line;
}

/* A store and a load of system scope each; whether 8 of them arrive as one is not promised. */
PRIM_FN uint32_t prim_ll128_lanes(void) { return 8; }
PRIM_FN void prim_ll128_store(char *line, uint32_t piece, struct prim_vec16 v, bool yes)
{
    if (yes)
        __asm__ volatile("global_store_dwordx4 %0, %1, off" PRIM_HIP_OUT
                         :
                         : "v"(PRIM_HIP_AT(char, line + piece * 16)), "v"(prim_hip_load_any((const char *)&v))
                         : "memory");
}
PRIM_FN bool prim_ll128_look(const char *line, uint32_t piece, uint64_t flag, struct prim_vec16 *v)
{
    prim_hip_vec seen = prim_hip_load_fresh(line + piece * 16);
    __builtin_memcpy(v, &seen, 16);
    return piece != 7 || v->word[1] == flag;
}
PRIM_FN void prim_ll128_take(const char *line, uint32_t piece, struct prim_vec16 *v)
{
    (void)line;
    (void)piece;
    (void)v; /* came with the look */
}

PRIM_FN bool prim_votes_between_polls(void) { return true; }

/* By the scalar cache, which is empty when a kernel starts. */
PRIM_FN uint64_t prim_load_const_u64(const uint64_t *p) { return *(PRIM_HIP_CONSTANT const uint64_t *)p; }
PRIM_FN uint32_t prim_load_const_u32(const uint32_t *p) { return *(PRIM_HIP_CONSTANT const uint32_t *)p; }

/* ---- time ---- */

PRIM_FN float prim_sqrt(float x) { return __builtin_sqrtf(x); }

#define PRIM_GIVES_TIME
PRIM_FN int32_t prim_here_i32(int32_t v)
{
    asm volatile("" : "+v"(v));
    return v;
}
PRIM_FN void prim_pause(void) { __builtin_amdgcn_s_sleep(1); } /* some 64 cycles */
/* A counter of 100 MHz on all gfx9. */
PRIM_FN uint64_t prim_clock_ns(void) { return __builtin_amdgcn_s_memrealtime() * 10; }

#endif
