/* SPDX-License-Identifier: MIT */
/* The portability contract of schedules and kernels: what a target (a CPU, an AMD or an NVIDIA GPU) must give, what is
 * derived from it, and an #error for what is missing. Compiles as C11, C++17, HIP and CUDA.
 * All atomics are of system scope: any PE of the node, on any processor, may be on the other side.
 * Includes one target header and nothing else of ours. Used by shmem/, coll/ and kernels. */
#ifndef ISO_PRIM_H
#define ISO_PRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16 bytes that travel as one load or store where the target has such. Aligned to 16 in prim_load16 and prim_store16.
 */
struct prim_vec16 {
    uint64_t word[2];
};

enum prim_group_kind { PRIM_THREAD, PRIM_WAVE, PRIM_BLOCK };

#if defined(__HIP__) || defined(__CUDACC__)
#error "device/prim.h: there is no target header for this compiler; a GPU target is one file device/prim_<target>.h"
#else
#include "prim_cpu.h"
#endif

/* ---- what a target must give ----
 *
 * PRIM_FN                               qualifiers of a function of this header and of a schedule
 * PRIM_RESTRICT                         restrict in the target's spelling
 * PRIM_HAS_WAVE, PRIM_HAS_BLOCK         0 or 1: groups of more than one thread
 *
 * struct prim_group                     a value: the threads that do something together
 * prim_group_thread()                   the calling thread alone; prim_group_wave, prim_group_block where the target
 * has prim_rank(g) prim_size(g)             place of the calling thread in the group, number of threads prim_sync(g)
 * all threads of the group are here; their earlier stores are seen by the group
 *
 * T is u32 or u64, naturally aligned:
 * prim_load_relaxed_T(p)                never torn, never cached where a peer's store would be missed
 * prim_load_acquire_T(p)                later accesses of this thread stay after it; pairs with store_release, signal
 * prim_store_relaxed_T(p, v)
 * prim_store_release_T(p, v)            earlier accesses of this thread stay before it; pairs with load_acquire
 * prim_fetch_add_T(p, v), _and, _or, _xor, prim_swap_T(p, v)      acquire and release; the old value
 * prim_cas_T(p, expected, desired)      acquire and release; the old value, stored iff it was `expected`
 *
 * prim_fence_before_signal()            every storing thread executes it before the (relaxed) store of a flag: its
 *                                       stores are then visible at a peer that saw the flag and did acquire_from_peer
 * prim_acquire_from_peer()              after a relaxed load saw the flag, before the data is read
 * prim_fence_full()                     earlier stores are visible everywhere before later loads are done (quiet)
 *
 * prim_load16(p) prim_store16(p, v)     16 bytes, not atomic
 * prim_copy(g, dest, source, bytes)     the whole group copies; no overlap; not a synchronisation
 * prim_pause()                          between two polls
 * prim_clock_ns()                       monotone, for deadlines, comparable on one processor only
 */
#if !defined(PRIM_FN) || !defined(PRIM_RESTRICT)
#error "device/prim.h: the target gives no PRIM_FN or PRIM_RESTRICT"
#endif
#if !defined(PRIM_HAS_WAVE) || !defined(PRIM_HAS_BLOCK)
#error "device/prim.h: the target does not say which groups it has (PRIM_HAS_WAVE, PRIM_HAS_BLOCK)"
#endif
#ifndef PRIM_GIVES_GROUP
#error "device/prim.h: the target gives no struct prim_group with prim_rank, prim_size and prim_sync"
#endif
#ifndef PRIM_GIVES_ATOMICS
#error "device/prim.h: the target gives no atomic loads, stores, fetch-ops and compare-swap"
#endif
#ifndef PRIM_GIVES_FENCES
#error "device/prim.h: the target gives no fence_before_signal, acquire_from_peer and fence_full"
#endif
#ifndef PRIM_GIVES_COPY
#error "device/prim.h: the target gives no prim_load16, prim_store16 and prim_copy"
#endif
#ifndef PRIM_GIVES_TIME
#error "device/prim.h: the target gives no prim_pause and prim_clock_ns"
#endif

/* ---- what is derived ---- */

/* A hint: this thread will store into the line at p soon; fetch it for writing now. Nothing where a target has no such
 * instruction. */
#ifndef PRIM_HAS_EXPECT_STORE
PRIM_FN void prim_expect_store(const void *p) { (void)p; }
#endif

/* The first thread of a group does what must be done once. */
PRIM_FN bool prim_is_first(struct prim_group g) { return prim_rank(g) == 0; }

/* A flag behind data that the whole group has stored: seen by a peer only after the data. Where the target's fence and
 * store are one instruction (PRIM_HAS_SIGNAL), that; pairs with prim_poll_u64. */
#ifndef PRIM_HAS_SIGNAL
PRIM_FN void prim_signal_u64(struct prim_group g, uint64_t *flag, uint64_t value)
{
    prim_fence_before_signal(); /* by every storing thread: a block barrier alone does not wait for other waves' stores
                                 */
    prim_sync(g);
    if (prim_is_first(g))
        prim_store_relaxed_u64(flag, value);
}
#endif

/* One look at a flag. What was stored before its value was signalled may be read once the caller has seen that value.
 */
PRIM_FN uint64_t prim_poll_u64(const uint64_t *flag) { return prim_load_acquire_u64(flag); }

PRIM_FN uint64_t prim_fetch_sub_u64(uint64_t *p, uint64_t v) { return prim_fetch_add_u64(p, (uint64_t)0 - v); }

/* The larger of *p and v stays; the old value. */
PRIM_FN uint64_t prim_fetch_max_u64(uint64_t *p, uint64_t v)
{
    uint64_t old = prim_load_relaxed_u64(p);
    while (old < v) {
        uint64_t seen = prim_cas_u64(p, old, v);
        if (seen == old)
            break;
        old = seen;
    }
    return old;
}

#endif
