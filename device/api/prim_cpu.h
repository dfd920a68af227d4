/* SPDX-License-Identifier: MIT */
/* The CPU as a target of prim.h: C11 compilers' atomic builtins and libc. Host code of every flavour uses it, by groups
 * of one thread: then all of it is constants and plain code. In kernels of the CPU device a thread of a block is a
 * fiber: places, waves and blocks are asked of the runtime in fiber.c, by the functions shmemd_cpu_*. They are weak,
 * since host code of other flavours compiles calls to them that it never makes.
 * Included by prim.h only. */
#ifndef ISO_PRIM_CPU_H
#define ISO_PRIM_CPU_H

#include <string.h>
#include <time.h>

/* SHMEMD_CPU_CALLS: the compiler chooses what it inlines. A file of many kernels is compiled in a tenth of the time,
 * and they run slower. */
#ifdef SHMEMD_CPU_CALLS
#define PRIM_FN static inline __attribute__((unused))
#else
#define PRIM_FN static inline __attribute__((always_inline, unused))
#endif
/* The compiler chooses: inlined by force, all types would stand in each switch before its constant is known. */
#define PRIM_ELEM_FN static inline __attribute__((unused))
/* Not `cold`: GCC takes what follows such a call for cold, too, and whole schedules were optimised for size. */
#define PRIM_COLD_FN static __attribute__((noinline, unused))
#define PRIM_RESTRICT __restrict__
#define PRIM_UNSET = {{{0}}}

#ifdef __cplusplus
#define PRIM_CPU_C extern "C"
#else
#define PRIM_CPU_C
#endif

/* ---- the runtime ---- */

/* Where a thread of a kernel is; changes only between prim_call_begin and _end. */
struct shmemd_cpu_thread {
    uint32_t rank, size;  /* in the block */
    uint32_t lane, lanes; /* in the wave; the last wave of a block may have fewer lanes than wave_size */
    uint32_t wave_size;
    uint32_t block_index, block_count;
    uint32_t grid_dim[2], block_dim[2]; /* x and y */
};

#define PRIM_CPU_RUNTIME PRIM_CPU_C __attribute__((visibility("default"), weak))
/* Of the calling thread; outside of kernels that of a grid of one thread. */
PRIM_CPU_RUNTIME __attribute__((const)) const struct shmemd_cpu_thread *shmemd_cpu_self(void);
/* A wave or a block synchronises; returns the values of all its threads, or'ed. Runs other threads meanwhile. */
PRIM_CPU_RUNTIME uint64_t shmemd_cpu_sync(enum prim_group_kind kind, uint64_t value);
/* Runs other threads; outside of kernels it is the processor's pause. */
PRIM_CPU_RUNTIME void shmemd_cpu_pause(void);
/* prim_look, and prim_pause of the program with addr NULL; prim_pass. */
PRIM_CPU_RUNTIME void shmemd_cpu_look(const char *call, const void *addr, uint64_t value);
PRIM_CPU_RUNTIME void shmemd_cpu_pass(void);
/* A poll has seen the value that it waited for. */
PRIM_CPU_RUNTIME void shmemd_cpu_seen(void);
/* prim_call_begin and prim_call_end. */
PRIM_CPU_RUNTIME bool shmemd_cpu_call_begin(void);
PRIM_CPU_RUNTIME int shmemd_cpu_call_end(int rc);
/* Memory of the block, the same for all its threads that ask with equal keys; aligned to 64. Key NULL: the dynamic
 * shared memory of the launch. */
PRIM_CPU_RUNTIME void *shmemd_cpu_shared(const void *key, size_t bytes);

/* With a seed: keeps back a put of a kernel's thread. False: the caller stores. A put that is kept back reaches its
 * place by a fence of its thread, or, once its thread has settled it, of any thread of the wave or the block; at the
 * latest when its thread waits or ends, or when no thread of the grid goes on. */
PRIM_CPU_RUNTIME bool shmemd_cpu_hold(void *dest, const void *source, size_t bytes);
PRIM_CPU_RUNTIME void shmemd_cpu_settle(enum prim_group_kind kind);
PRIM_CPU_RUNTIME void shmemd_cpu_release(void); /* all that a fence of the calling thread covers */

/* Report what PRIM_CHECK_PE, _ADDR and _VALUE refuse. */
PRIM_CPU_RUNTIME __attribute__((noreturn)) void shmemd_cpu_wrong_pe(const char *call, const char *arg, int pe,
                                                                    int n_pes);
PRIM_CPU_RUNTIME __attribute__((noreturn)) void shmemd_cpu_wrong_addr(const char *call, const char *arg,
                                                                      const void *addr, size_t alignment);
PRIM_CPU_RUNTIME __attribute__((noreturn)) void shmemd_cpu_wrong_value(const char *call, const char *arg, int64_t value,
                                                                       const char *allowed);

PRIM_CPU_RUNTIME uint64_t shmemd_cpu_clock_ns(void); /* prim_clock_ns where <time.h> hides it */

/* ---- kernels ---- */

/* A function that other compilers' code links. */
#define PRIM_EXTERN PRIM_CPU_C __attribute__((visibility("default")))

/* A kernel has one signature on this target, so that the launch can call it: its struct is found at an address. The
 * launch asks for the size of that struct first, by NULL: then nothing runs. */
#define PRIM_KERNEL(name, TYPE, a)                      \
    static void name##_kernel_body(TYPE a);             \
    PRIM_CPU_C size_t name(const void *args_of);        \
    PRIM_CPU_C size_t name(const void *args_of)         \
    {                                                   \
        if (args_of != NULL)                            \
            name##_kernel_body(*(const TYPE *)args_of); \
        return sizeof(TYPE);                            \
    }                                                   \
    static void name##_kernel_body(TYPE a)

#define PRIM_KERNEL_BOUNDED(name, TYPE, a, threads) PRIM_KERNEL(name, TYPE, a)

/* The address of the key names the place in the source. */
#define PRIM_SHARED(TYPE, name, count) \
    static const char name##_key = 0;  \
    TYPE *const name = (TYPE *)shmemd_cpu_shared(&name##_key, sizeof(TYPE) * (size_t)(count))

#define PRIM_SHARED_DYNAMIC(TYPE, name) TYPE *const name = (TYPE *)shmemd_cpu_shared(NULL, 0)

#define PRIM_CALLS_GLOBAL
#define PRIM_GLOBAL __attribute__((unused))
#define PRIM_GLOBAL_BOUNDED(threads) PRIM_GLOBAL

/* Outside of kernels a wave is one thread. */
#define PRIM_BOTH_FN static inline __attribute__((unused))
#define PRIM_EITHER(kernel, host) (shmemd_cpu_self()->wave_size != 1 ? (kernel) : (host))

/* ---- groups ---- */

#define PRIM_GIVES_GROUP
PRIM_FN uint32_t prim_rank(struct prim_group g)
{
    if (g.kind == PRIM_THREAD)
        return 0;
    return g.kind == PRIM_WAVE ? shmemd_cpu_self()->lane : shmemd_cpu_self()->rank;
}
PRIM_FN uint32_t prim_size(struct prim_group g)
{
    if (g.kind == PRIM_THREAD)
        return 1;
    return g.kind == PRIM_WAVE ? shmemd_cpu_self()->lanes : shmemd_cpu_self()->size;
}
PRIM_FN bool prim_sync_or(struct prim_group g, bool p)
{
    return g.kind == PRIM_THREAD ? p : shmemd_cpu_sync(g.kind, p) != 0;
}
PRIM_FN uint64_t prim_broadcast_u64(struct prim_group g, uint64_t v)
{
    return g.kind == PRIM_THREAD ? v : shmemd_cpu_sync(g.kind, prim_rank(g) == 0 ? v : 0);
}
PRIM_FN void prim_sync(struct prim_group g) { (void)prim_sync_or(g, false); }

/* The last thread to arrive does it, unless the order of threads is random. */
#define PRIM_HAS_CALL
PRIM_FN bool prim_call_begin(void) { return shmemd_cpu_call_begin(); }
PRIM_FN int prim_call_end(int rc) { return shmemd_cpu_call_end(rc); }

PRIM_FN uint32_t prim_block_index(void) { return shmemd_cpu_self()->block_index; }
PRIM_FN uint32_t prim_block_count(void) { return shmemd_cpu_self()->block_count; }
PRIM_FN uint32_t prim_wave_size(void) { return shmemd_cpu_self()->wave_size; }

PRIM_FN struct prim_dim prim_cpu_dim(const uint32_t xy[2], uint32_t count)
{
    struct prim_dim d = {xy[0], xy[1], count / (xy[0] * xy[1])};
    return d;
}
PRIM_FN struct prim_dim prim_cpu_place(const uint32_t xy[2], uint32_t index)
{
    struct prim_dim d = {index % xy[0], index / xy[0] % xy[1], index / (xy[0] * xy[1])};
    return d;
}
PRIM_FN struct prim_dim prim_grid_dim(void)
{
    const struct shmemd_cpu_thread *self = shmemd_cpu_self();
    return prim_cpu_dim(self->grid_dim, self->block_count);
}
PRIM_FN struct prim_dim prim_block_dim(void)
{
    const struct shmemd_cpu_thread *self = shmemd_cpu_self();
    return prim_cpu_dim(self->block_dim, self->size);
}
PRIM_FN struct prim_dim prim_block_place(void)
{
    const struct shmemd_cpu_thread *self = shmemd_cpu_self();
    return prim_cpu_place(self->grid_dim, self->block_index);
}
PRIM_FN struct prim_dim prim_thread_place(void)
{
    const struct shmemd_cpu_thread *self = shmemd_cpu_self();
    return prim_cpu_place(self->block_dim, self->rank);
}

PRIM_FN uint64_t prim_ballot(bool p) { return shmemd_cpu_sync(PRIM_WAVE, (uint64_t)p << shmemd_cpu_self()->lane); }
/* The second sync lets the next shuffle write. */
PRIM_FN uint64_t prim_shuffle_u64(uint64_t v, uint32_t lane)
{
    PRIM_SHARED(uint64_t, told, 1024);
    uint32_t rank = shmemd_cpu_self()->rank;
    told[rank] = v;
    (void)shmemd_cpu_sync(PRIM_WAVE, 0);
    v = told[rank - shmemd_cpu_self()->lane + lane % shmemd_cpu_self()->wave_size];
    (void)shmemd_cpu_sync(PRIM_WAVE, 0);
    return v;
}
PRIM_FN uint32_t prim_shuffle_u32(uint32_t v, uint32_t lane) { return (uint32_t)prim_shuffle_u64(v, lane); }

/* ---- checks ---- */

#ifndef SHMEMD_NO_CHECKS
#define PRIM_CHECK_PE(arg, pe, n_pes)                                  \
    (__builtin_expect((uint32_t)(pe) >= (uint32_t)(n_pes), 0)          \
         ? shmemd_cpu_wrong_pe(__func__, arg, (int)(pe), (int)(n_pes)) \
         : (void)0)
#define PRIM_CHECK_ADDR(arg, addr, bytes, alignment)                                                       \
    (__builtin_expect((bytes) != 0 && ((addr) == NULL || ((uintptr_t)(addr) & ((alignment) - 1)) != 0), 0) \
         ? shmemd_cpu_wrong_addr(__func__, arg, addr, alignment)                                           \
         : (void)0)
#define PRIM_CHECK_VALUE(call, arg, value, holds, allowed) \
    (__builtin_expect(!(holds), 0) ? shmemd_cpu_wrong_value(call, arg, (int64_t)(value), allowed) : (void)0)
#endif

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
PRIM_FN uint8_t prim_load_relaxed_u8(const uint8_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
PRIM_FN uint16_t prim_load_relaxed_u16(const uint16_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
PRIM_FN void prim_store_relaxed_u8(uint8_t *p, uint8_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
PRIM_FN void prim_store_relaxed_u16(uint16_t *p, uint16_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }

/* ---- fences ---- */

#define PRIM_GIVES_FENCES
#ifdef __SANITIZE_THREAD__
#define PRIM_CPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PRIM_CPU_TSAN 1
#endif
#endif

/* NULL in other flavours. */
PRIM_FN void prim_cpu_release(void)
{
    if (shmemd_cpu_release)
        shmemd_cpu_release();
}

/* ThreadSanitizer does not model fences: every flag is itself a release store, every look at one an acquire load. */
PRIM_FN void prim_fence_before_signal(void)
{
    prim_cpu_release();
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
PRIM_FN void prim_acquire_from_peer(void)
{
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
    if (shmemd_cpu_seen) /* NULL in other flavours */
        shmemd_cpu_seen();
}
PRIM_FN void prim_acquire_after_atomic(void) { prim_acquire_from_peer(); } /* the atomic has acquired */
PRIM_FN void prim_fence_full(void)
{
    prim_cpu_release();
#ifndef PRIM_CPU_TSAN
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Among threads of this PE. What a thread has put to peers is behind its release for whoever acquires that: a fence of
 * another one covers it, as fences of GPUs do. */
#define PRIM_GIVES_LOCAL
PRIM_FN void prim_cpu_local_release(int order, int scope)
{
    if ((order & PRIM_RELEASE) == 0)
        return;
    if (scope == PRIM_OF_BLOCK)
        shmemd_cpu_settle(PRIM_BLOCK);
    else
        shmemd_cpu_release();
}
#define PRIM_CPU_ORDER(order)                     \
    ((order) == PRIM_RELAXED   ? __ATOMIC_RELAXED \
     : (order) == PRIM_ACQUIRE ? __ATOMIC_ACQUIRE \
     : (order) == PRIM_RELEASE ? __ATOMIC_RELEASE \
                               : __ATOMIC_ACQ_REL)
#define PRIM_CPU_LOCAL(name, T)                                                                   \
    PRIM_FN T prim_local_load_##name(const T *p, int order, int scope)                            \
    {                                                                                             \
        (void)scope;                                                                              \
        return order == PRIM_RELAXED ? prim_load_relaxed_##name(p) : prim_load_acquire_##name(p); \
    }                                                                                             \
    PRIM_FN void prim_local_store_##name(T *p, T v, int order, int scope)                         \
    {                                                                                             \
        prim_cpu_local_release(order, scope);                                                     \
        if (order == PRIM_RELAXED)                                                                \
            prim_store_relaxed_##name(p, v);                                                      \
        else                                                                                      \
            prim_store_release_##name(p, v);                                                      \
    }                                                                                             \
    PRIM_FN T prim_local_fetch_add_##name(T *p, T v, int order, int scope)                        \
    {                                                                                             \
        prim_cpu_local_release(order, scope);                                                     \
        return __atomic_fetch_add(p, v, PRIM_CPU_ORDER(order));                                   \
    }                                                                                             \
    PRIM_FN T prim_local_swap_##name(T *p, T v, int order, int scope)                             \
    {                                                                                             \
        prim_cpu_local_release(order, scope);                                                     \
        return __atomic_exchange_n(p, v, PRIM_CPU_ORDER(order));                                  \
    }                                                                                             \
    PRIM_FN T prim_local_cas_##name(T *p, T expected, T desired, int order, int scope)            \
    {                                                                                             \
        prim_cpu_local_release(order, scope);                                                     \
        __atomic_compare_exchange_n(p, &expected, desired, false, PRIM_CPU_ORDER(order),          \
                                    order &PRIM_ACQUIRE ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);   \
        return expected;                                                                          \
    }
PRIM_CPU_LOCAL(u32, uint32_t)
PRIM_CPU_LOCAL(u64, uint64_t)
#undef PRIM_CPU_LOCAL

/* The threads of a block are one thread of the CPU, so the sync has put their stores before the flag's release store.
 */
PRIM_FN void prim_gather_stores(struct prim_group g)
{
    prim_cpu_release();
    prim_sync(g);
}
PRIM_FN void prim_settle_stores(struct prim_group g)
{
    if (g.kind != PRIM_THREAD)
        shmemd_cpu_settle(g.kind);
}
PRIM_FN void prim_fence_flag(void) {}
PRIM_FN void prim_store_flag_u64(uint64_t *p, uint64_t v) { prim_store_release_u64(p, v); } /* pairs with peek, poll */
PRIM_FN void prim_store_flag_u32(uint32_t *p, uint32_t v) { prim_store_release_u32(p, v); }
PRIM_FN uint64_t prim_peek_u64(const uint64_t *p)
{
    return prim_load_acquire_u64(p);
} /* pairs with store_flag, signal */
PRIM_FN uint32_t prim_peek_u32(const uint32_t *p) { return prim_load_acquire_u32(p); }

/* One release store is fence and flag at once: a plain store on x86, stlr on Arm. Pairs with prim_poll_u64. */
#define PRIM_HAS_SIGNAL
#define PRIM_ACQUIRES_FREELY /* an acquire is a plain load on x86 */
#define PRIM_GETS_WORDS(g) false /* no load of a get is atomic, so thread sanitizer sees a race in it */
PRIM_FN void prim_signal_u64(struct prim_group g, uint64_t *flag, uint64_t value)
{
    prim_gather_stores(g);
    if (prim_rank(g) == 0)
        prim_store_flag_u64(flag, value);
}

/* ---- copies ---- */

#define PRIM_GIVES_COPY
PRIM_FN struct prim_vec16 prim_load16(const void *p)
{
    struct prim_vec16 v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
PRIM_FN struct prim_vec16 prim_load16_odd(const void *p) { return prim_load16(p); }
PRIM_FN bool prim_copies_odd_by_words(void) { return true; } /* it does not; so that the other way runs here, too */
PRIM_FN void prim_store16(void *p, struct prim_vec16 v) { __builtin_memcpy(p, &v, sizeof(v)); }

/* The part of a copy that the calling thread makes: a slice of whole cache lines. */
struct prim_cpu_part {
    size_t at, bytes;
};
PRIM_FN struct prim_cpu_part prim_cpu_part_of(struct prim_group g, size_t bytes)
{
    struct prim_cpu_part part = {0, bytes};
    if (g.kind != PRIM_THREAD) {
        size_t slice = ((bytes + prim_size(g) - 1) / prim_size(g) + 63) / 64 * 64;
        part.at = prim_rank(g) * slice;
        part.bytes = part.at >= bytes ? 0 : bytes - part.at < slice ? bytes - part.at : slice;
    }
    return part;
}

PRIM_FN void prim_copy(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source, size_t bytes)
{
    struct prim_cpu_part part = prim_cpu_part_of(g, bytes);
    if (part.bytes > 0) /* addresses of nothing may be null; glibc ends non-temporal copies with sfence: fences work */
        memcpy((char *)dest + part.at, (const char *)source + part.at, part.bytes);
}
#define PRIM_HAS_HOLD_PUT
PRIM_FN bool prim_hold_put(void *dest, const void *source, size_t bytes)
{
    return shmemd_cpu_hold(dest, source, bytes);
}
PRIM_FN void prim_copy_put(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    struct prim_cpu_part part = prim_cpu_part_of(g, bytes);
    if (part.bytes > 0 && !prim_hold_put((char *)dest + part.at, (const char *)source + part.at, part.bytes))
        memcpy((char *)dest + part.at, (const char *)source + part.at, part.bytes);
}
PRIM_FN void prim_copy_get(struct prim_group g, void *PRIM_RESTRICT dest, const void *PRIM_RESTRICT source,
                           size_t bytes)
{
    prim_copy(g, dest, source, bytes);
}

/* The halves need no order among each other, nor towards anything else: each shows by its epoch that it has arrived.
 * Under ThreadSanitizer they are flags, since who has seen a line may store into what its sender has read. */
#ifdef PRIM_CPU_TSAN
#define PRIM_CPU_LINE_STORE __ATOMIC_RELEASE
#define PRIM_CPU_LINE_LOAD __ATOMIC_ACQUIRE
#else
#define PRIM_CPU_LINE_STORE __ATOMIC_RELAXED
#define PRIM_CPU_LINE_LOAD __ATOMIC_RELAXED
#endif
PRIM_FN void prim_store_ll(struct prim_ll *p, uint32_t data0, uint32_t data1, uint32_t epoch)
{
    struct prim_ll line;
    struct prim_vec16 v;
    line.data0 = data0;
    line.epoch0 = epoch;
    line.data1 = data1;
    line.epoch1 = epoch;
    __builtin_memcpy(&v, &line, sizeof(v));
    uint64_t *to = (uint64_t *)(void *)p;
    __atomic_store_n(&to[0], v.word[0], PRIM_CPU_LINE_STORE); /* pairs with prim_load_ll */
    __atomic_store_n(&to[1], v.word[1], PRIM_CPU_LINE_STORE);
}
PRIM_FN struct prim_ll prim_load_ll(const struct prim_ll *p)
{
    const uint64_t *from = (const uint64_t *)(const void *)p;
    struct prim_ll line;
    struct prim_vec16 v;
    v.word[0] = __atomic_load_n(&from[0], PRIM_CPU_LINE_LOAD); /* pairs with prim_store_ll */
    v.word[1] = __atomic_load_n(&from[1], PRIM_CPU_LINE_LOAD);
    __builtin_memcpy(&line, &v, sizeof(line));
    return line;
}

/* The flag is a release store behind the pieces of the other threads. A block that is no whole eights, or does its
 * calls by one thread, has a line in a thread's hands. Words are atomic: a line is written again when flags say,
 * without a fence, that it has been read. */
PRIM_FN uint32_t prim_ll128_lanes(void) { return shmemd_cpu_self()->size % 8 == 0 ? 8 : 1; }
PRIM_FN void prim_ll128_store(char *line, uint32_t piece, struct prim_vec16 v, bool yes)
{
    struct prim_group wave = {PRIM_WAVE};
    uint64_t *to = (uint64_t *)(void *)(line + (size_t)piece * 16);
    if (yes)
        prim_store_relaxed_u64(to, v.word[0]);
    if (yes && piece != 7)
        prim_store_relaxed_u64(to + 1, v.word[1]);
    if (prim_ll128_lanes() != 1)
        prim_sync(wave);
    if (yes && piece == 7)
        prim_store_release_u64(to + 1, v.word[1]); /* pairs with prim_ll128_look */
}
PRIM_FN bool prim_ll128_look(const char *line, uint32_t piece, uint64_t flag, struct prim_vec16 *v)
{
    (void)v;
    return (piece != 7 && prim_ll128_lanes() != 1) ||
           prim_load_acquire_u64((const uint64_t *)(const void *)(line + 120)) ==
               flag; /* pairs with prim_ll128_store */
}
PRIM_FN void prim_ll128_take(const char *line, uint32_t piece, struct prim_vec16 *v)
{
    const uint64_t *from = (const uint64_t *)(const void *)(line + (size_t)piece * 16);
    v->word[0] = prim_load_relaxed_u64(from);
    if (piece != 7)
        v->word[1] = prim_load_relaxed_u64(from + 1);
}

PRIM_FN bool prim_votes_between_polls(void) { return false; } /* a round of votes alone would never be idle */

PRIM_FN uint64_t prim_load_const_u64(const uint64_t *p) { return *p; }
PRIM_FN uint32_t prim_load_const_u32(const uint32_t *p) { return *p; }

#if defined(__x86_64__) /* __builtin_prefetch(p, 1) reads only, unless the compiler may assume prefetchw */
#define PRIM_HAS_EXPECT_STORE
PRIM_FN void prim_expect_store(const void *p) { __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p)); }
#endif

/* ---- time ---- */

/* Files that use it are compiled without errno of mathematics: no library is called. */
PRIM_FN float prim_sqrt(float x) { return __builtin_sqrtf(x); }

#define PRIM_GIVES_TIME
PRIM_FN void prim_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}
PRIM_FN int32_t prim_here_i32(int32_t v) { return v; }
PRIM_FN void prim_pause(void)
{
    if (shmemd_cpu_pause) /* NULL in other flavours */
        shmemd_cpu_pause();
    else
        prim_cpu_relax();
}
#define PRIM_HAS_LOOK
PRIM_FN void prim_look(const char *call, const void *addr, uint64_t value)
{
    if (shmemd_cpu_look) /* NULL in other flavours */
        shmemd_cpu_look(call, addr, value);
}
PRIM_FN void prim_look_at_bytes(const char *call, const void *addr, const void *seen, size_t bytes)
{
    uint64_t sum = 0, word = 0;
    for (size_t at = 0; at < bytes && at < 64; at += 8) {
        memcpy(&word, (const char *)seen + at, bytes - at < 8 ? bytes - at : 8);
        sum = sum * 31 + word;
    }
    prim_look(call, addr, sum);
}
PRIM_FN void prim_pass(void)
{
    if (shmemd_cpu_pass) /* NULL in other flavours */
        shmemd_cpu_pass();
}
PRIM_FN void prim_pause_of_program(void)
{
    if (shmemd_cpu_look) /* NULL in other flavours */
        shmemd_cpu_look("shmemd_pause", NULL, 0);
    else
        prim_cpu_relax();
}
PRIM_FN uint64_t prim_clock_ns(void)
{
#ifdef CLOCK_MONOTONIC
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#else /* strictly ISO C */
    return shmemd_cpu_clock_ns();
#endif
}

#endif
