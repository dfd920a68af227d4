/* SPDX-License-Identifier: MIT */
/* The CPU as a target of prim.h: C11 compilers' atomic builtins and libc. A group is one thread here; waves and blocks
 * do not exist on this target yet, and PRIM_HAS_WAVE, PRIM_HAS_BLOCK say so.
 * Included by prim.h only. */
#ifndef ISO_PRIM_CPU_H
#define ISO_PRIM_CPU_H

#include <string.h>
#include <time.h>

#define PRIM_FN static inline __attribute__((always_inline, unused))
#define PRIM_RESTRICT __restrict__
#define PRIM_HAS_WAVE 0
#define PRIM_HAS_BLOCK 0

/* ---- groups ---- */

#define PRIM_GIVES_GROUP
struct prim_group {
    enum prim_group_kind kind; /* PRIM_THREAD */
};

PRIM_FN struct prim_group prim_group_thread(void)
{
    struct prim_group g = {PRIM_THREAD};
    return g;
}
PRIM_FN unsigned prim_rank(struct prim_group g)
{
    (void)g;
    return 0;
}
PRIM_FN unsigned prim_size(struct prim_group g)
{
    (void)g;
    return 1;
}
PRIM_FN void prim_sync(struct prim_group g) { (void)g; }

/* ---- atomics ---- */

#define PRIM_GIVES_ATOMICS
#define PRIM_CPU_ATOMICS(name, T)                                                                      \
    PRIM_FN T prim_load_relaxed_##name(const T *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }    \
    PRIM_FN T prim_load_acquire_##name(const T *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }    \
    PRIM_FN void prim_store_relaxed_##name(T *p, T v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }    \
    PRIM_FN void prim_store_release_##name(T *p, T v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }    \
    PRIM_FN T prim_fetch_add_##name(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }  \
    PRIM_FN T prim_fetch_and_##name(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_ACQ_REL); }  \
    PRIM_FN T prim_fetch_or_##name(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL); }    \
    PRIM_FN T prim_fetch_xor_##name(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_ACQ_REL); }  \
    PRIM_FN T prim_swap_##name(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL); }      \
    PRIM_FN T prim_cas_##name(T *p, T expected, T desired)                                             \
    {                                                                                                  \
        __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
        return expected;                                                                               \
    }
PRIM_CPU_ATOMICS(u32, uint32_t)
PRIM_CPU_ATOMICS(u64, uint64_t)
#undef PRIM_CPU_ATOMICS

/* ---- fences ---- */

#define PRIM_GIVES_FENCES
#ifdef __SANITIZE_THREAD__
#define PRIM_CPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PRIM_CPU_TSAN 1
#endif
#endif

/* ThreadSanitizer does not model fences; in its builds every flag is itself a release store (prim_signal_u64 below). */
PRIM_FN void prim_fence_before_signal(void)
{
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
PRIM_FN void prim_acquire_from_peer(void)
{
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}
PRIM_FN void prim_fence_full(void)
{
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* One release store is fence and flag at once: a plain store on x86, stlr on Arm. Pairs with prim_poll_u64. */
#define PRIM_HAS_SIGNAL
PRIM_FN void prim_signal_u64(struct prim_group g, uint64_t *flag, uint64_t value)
{
    (void)g;
    prim_store_release_u64(flag, value);
}

/* ---- copies ---- */

#define PRIM_GIVES_COPY
PRIM_FN struct prim_vec16 prim_load16(const void *p)
{
    struct prim_vec16 v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
PRIM_FN void prim_store16(void *p, struct prim_vec16 v) { __builtin_memcpy(p, &v, sizeof(v)); }

PRIM_FN void prim_copy(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source, size_t bytes)
{
    (void)g;
    if (bytes > 0)                   /* addresses of nothing may be null */
        memcpy(dest, source, bytes); /* glibc ends non-temporal copies with sfence: a release store orders them */
}

#if defined(__x86_64__) /* __builtin_prefetch(p, 1) reads only, unless the compiler may assume prefetchw */
#define PRIM_HAS_EXPECT_STORE
PRIM_FN void prim_expect_store(const void *p) { __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p)); }
#endif

/* ---- time ---- */

#define PRIM_GIVES_TIME
PRIM_FN void prim_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}
PRIM_FN uint64_t prim_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
