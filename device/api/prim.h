/* SPDX-License-Identifier: MIT */
/* The portability contract of schedules and kernels: the functions that a target (a CPU, an AMD or an NVIDIA GPU) must
 * give, the functions derived from them, and an #error for each missing one. Compiles as C11, C++17, HIP and CUDA. All
 * atomics are of system scope: any PE of the node, on any processor, may be on the other side. Includes one target
 * header and nothing else of ours. Used by shmem/, coll/ and kernels. */
#ifndef ISO_PRIM_H
#define ISO_PRIM_H

#if defined(__CUDACC_RTC__) /* run-time compiled: no system headers */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* 16 bytes that travel as one load or store where the target has such. Aligned to 16 in prim_load16 and prim_store16.
 */
struct prim_vec16 {
    uint64_t word[2];
};

/* LL: 8 bytes of data with their epoch twice, so that each 8-byte half shows by itself whether it has arrived. */
struct prim_ll {
    uint32_t data0, epoch0, data1, epoch1;
};

/* The threads that do something together. A value; every call over a group is made by all its threads, with equal
 * arguments. A wave is what the hardware runs in lockstep: a warp of 32 on NVIDIA, a wavefront of 64 on gfx9. */
enum prim_group_kind { PRIM_THREAD, PRIM_WAVE, PRIM_BLOCK };
struct prim_group {
    enum prim_group_kind kind;
};

/* A grid or a block in three dimensions, or a place in one. */
struct prim_dim {
    unsigned x, y, z;
};

/* What an atomic of threads of one PE orders, in bits, and whom it concerns. */
enum prim_order { PRIM_RELAXED = 0, PRIM_ACQUIRE = 1, PRIM_RELEASE = 2, PRIM_ACQ_REL = 3 };
enum prim_scope { PRIM_OF_BLOCK, PRIM_OF_DEVICE };

/* A barrier of some waves of a block, in memory that the block shares. */
struct prim_named {
    uint32_t id, threads;         /* number of the hardware's barrier, where there are such; who meets */
    uint32_t arrived, generation; /* where there are none */
};

/* The compiler's own macros name the target: __HIP__ is clang's HIP mode, __CUDACC__ is nvcc, __CUDA__ is clang's CUDA
 * mode. A compiler for any other device must not get the CPU's functions: it would drop them all without a word. */
#if defined(__HIP__)
#include "prim_hip.h"
#elif defined(__CUDACC__) || defined(__CUDA__)
#include "prim_cuda.h"
#elif defined(__GNUC__) && !defined(__NVPTX__) && !defined(__AMDGCN__) && !defined(__SPIR__) && !defined(__SPIRV__)
#include "prim_cpu.h"
#else
#error "device/api/prim.h: no target for this compiler: use nvcc, clang -x cuda or clang -x hip, or compile for a CPU"
#endif

/* ---- what a target must give ----
 *
 * PRIM_FN, PRIM_COLD_FN                 qualifiers of a function of this header and of a schedule; the second is for
 *                                       what is rarely called and must not cost registers where it is not
 * PRIM_RESTRICT                         restrict in the target's spelling
 * PRIM_KERNEL(name, TYPE, a)            begins a kernel that takes one struct by value; its body follows
 * PRIM_KERNEL_BOUNDED(name, TYPE, a, threads)   the same for blocks of at most so many threads, which may have more
 *                                       registers then, or are held to what that many leave for each
 * PRIM_SHARED(TYPE, name, count)        an array that the threads of a block share, uninitialised; use as name[i]
 * PRIM_SHARED_DYNAMIC(TYPE, name)       a pointer to as many bytes of such memory as the launch says, aligned to 16
 * PRIM_GLOBAL, PRIM_GLOBAL_BOUNDED(threads)   of C++: begin the declaration of a function that is a kernel, of any
 *                                       arguments, in a namespace, or behind a template's <...>. PRIM_CALLS_GLOBAL: it
 *                                       is a plain function, which the launch has to call with its arguments
 * PRIM_BOTH_FN, PRIM_EITHER(kernel, host)   of C++: begin a function of kernels and of the host; an expression for each
 *
 * prim_rank(g) prim_size(g)             place of the calling thread in the group, number of threads
 * prim_sync(g)                          all threads of the group are here; their earlier stores are seen by the group
 * prim_sync_or(g, p)                    the same; true when p was true for any of them
 * prim_broadcast_u64(g, v)              the same; the first thread's v
 * prim_block_index() prim_block_count() of the grid, counted in one dimension
 * prim_wave_size()
 * prim_grid_dim() prim_block_dim()      in three dimensions; prim_block_place() prim_thread_place() in them
 * prim_ballot(p)                        by all threads of a wave: bit i is the p of thread i
 * prim_shuffle_T(v, lane)               by all threads of a wave: the v of that thread. Neither orders memory
 *
 * T is u32 or u64, naturally aligned:
 * prim_load_relaxed_T(p)                never torn, never cached where a peer's store would be missed
 * prim_load_acquire_T(p)                later accesses of this thread stay after it; pairs with store_release, signal
 * prim_store_relaxed_T(p, v)            also for u8 and u16
 * prim_store_release_T(p, v)            earlier accesses of this thread stay before it; pairs with load_acquire
 * prim_fetch_add_T(p, v), _and, _or, _xor, prim_swap_T(p, v)      the old value
 * prim_cas_T(p, expected, desired)      the old value, stored iff it was `expected`
 *                                       All of them: acquire and release on the CPU, relaxed in kernels of GPUs, where
 *                                       order comes from fences: prim_gather_stores or prim_fence_before_signal before
 *                                       one; after one prim_acquire_after_atomic, or prim_peek of the same word and
 *                                       prim_acquire_from_peer
 *
 * Among threads of this PE, in its device memory or in memory that a block shares; of T. `order` and `scope` are
 * constants. RELEASE pairs with ACQUIRE of the same scope:
 * prim_local_load_T(p, order, scope)    RELAXED or ACQUIRE
 * prim_local_store_T(p, v, order, scope)   RELAXED or RELEASE
 * prim_local_fetch_add_T(p, v, order, scope), prim_local_swap_T, prim_local_cas_T(p, expected, desired, order, scope)
 *                                       the old value
 *
 * Flags behind data. The group calls prim_gather_stores(g); then any of its threads, each for itself, may call
 * prim_fence_flag() and then prim_store_flag: who sees that flag sees all that the group stored before.
 * prim_gather_stores(g)                 a sync of the group; where a thread's stores must be flushed by the thread that
 *                                       made them (gfx9), it does that before the sync
 * prim_fence_flag()                     by each thread that stores flags (NVIDIA: the system fence, cumulative over the
 *                                       sync); where gather_stores did everything: nothing
 * prim_store_flag_u64(p, v), _u32       a relaxed store of system scope; on the CPU a release store
 * prim_peek_u64(p), _u32                one look at a flag (AMD: relaxed; CPU, NVIDIA: acquire); after it has said what
 *                                       one waits for: prim_acquire_from_peer(), then a prim_sync of those who read
 * prim_acquire_from_peer()              after a peek saw the flag, before the data is read. NVIDIA: nothing, the peek
 *                                       is the acquire; so it counts behind a peek or poll only
 * prim_acquire_after_atomic()           by the thread that made an atomic, or a relaxed load, and has its result: later
 *                                       accesses stay behind it; then a prim_sync of those who read
 * prim_fence_before_signal()            both halves for the calling thread alone: its earlier stores, and those that
 *                                       others have settled before a sync with it, are seen by whoever sees its later
 *                                       flag
 * prim_settle_stores(g)                 by each thread before a sync of g: after that sync the fence of any thread of
 *                                       g covers the stores of all. On gfx9 each wave waits for its own stores here,
 *                                       since nothing else can; a bare sync shows them to the group only. NVIDIA:
 *                                       nothing, fences are cumulative
 * prim_fence_full()                     earlier stores are visible everywhere before later loads are done (quiet)
 *
 * prim_load16(p) prim_store16(p, v)     16 bytes, not atomic
 * prim_load16_odd(p)                    the same at any address; the aligned 16 bytes about an end may be read whole
 * prim_copies_odd_by_words()            whether the copies below are narrow where ends are misaligned to each other
 * prim_copy(g, dest, source, bytes)     the whole group copies; no overlap; any alignment; not a synchronisation
 * prim_copy_put(g, dest, source, bytes) the same towards a peer's memory: stores that leave early and cache nothing
 * prim_copy_get(g, dest, source, bytes) the same from a peer's memory: loads never answered by a stale cache
 * prim_store_ll(p, data0, data1, epoch) 16 aligned bytes, each half whole; needs no fence; system scope
 * prim_load_ll(p)                       relaxed, each half whole
 *
 * LL128: 128 aligned bytes in 8 pieces of 16, the last 8 bytes the line's flag. Neighbours of a wave handle one
 * together, a piece each. They need no fence where the hardware keeps such a line whole on its way
 * (coll/stream/kernels/ll128_device.h finds out). All threads of the wave call these at the same time, `yes` alike for
 * all pieces of a line.
 *
 * prim_ll128_lanes()                    threads of one line: 8, or 1, which then goes over all pieces upwards; 8 take
 *                                       blocks of whole eights
 * prim_ll128_store(line, piece, v, yes) v as the piece; of piece 7, word[1] is the flag. One store of the wave where
 *                                       the target can, else the flag behind the rest; system scope
 * prim_ll128_look(line, piece, flag, v) by one thread alone: looks at its piece; false: the line has not come, as far
 *                                       as this piece can tell. When all pieces of a line have said true, which
 *                                       prim_wave_or tells, it has, and then
 * prim_ll128_take(line, piece, v)       by one thread alone: v is the piece
 * prim_wave_or(p)                       true when p was true for any thread of the wave
 * prim_votes_between_polls()            true: pieces come with the looks, so all of a wave look until a vote has found
 *                                       nothing missing; false: who misses something looks until it has come, and
 *                                       votes then
 * prim_stream_wait()                    by all threads, first in a kernel that is launched early (struct gpu_launch):
 *                                       the kernels before it in the stream have ended, their stores are seen
 * prim_stream_pass()                    last in it: this block waits for no peer any more, so the kernel behind it, if
 *                                       launched early, may come. Not sooner: one that came and had to wait would hold
 *                                       places that kernels of other streams need, for which peers may be waiting
 * prim_load_const_u64(p), _u32          of what does not change while a kernel runs (tables): may be cached and hoisted
 * prim_sqrt(x)                          of a float, rounded correctly
 * prim_half_to_float(h), prim_half_from_float(f), prim_bfloat16_from_float(f), prim_e4m3_from_float(f)
 *                                       conversions of half_device.h; only of a target that defines PRIM_HAS_HALF,
 *                                       PRIM_HAS_BFLOAT16, PRIM_HAS_E4M3
 * prim_here_i32(v)                      v, for rare paths in a loop. AMD's compiler does not move a computation with the
 *                                       result out of the loop, where that would take registers
 * prim_pause()                          between two polls; on the CPU device other threads of the block run meanwhile
 * prim_clock_ns()                       monotone, for deadlines, comparable on one processor only
 */
#if !defined(PRIM_FN) || !defined(PRIM_COLD_FN) || !defined(PRIM_RESTRICT)
#error "device/api/prim.h: the target gives no PRIM_FN, PRIM_COLD_FN or PRIM_RESTRICT"
#endif
#if !defined(PRIM_KERNEL) || !defined(PRIM_SHARED)
#error "device/api/prim.h: the target gives no PRIM_KERNEL or PRIM_SHARED"
#endif
#ifndef PRIM_GIVES_GROUP
#error "device/api/prim.h: the target gives no prim_rank, prim_size, prim_sync, prim_sync_or and places in the grid"
#endif
#ifndef PRIM_GIVES_ATOMICS
#error "device/api/prim.h: the target gives no atomic loads, stores, fetch-ops and compare-swap"
#endif
#ifndef PRIM_GIVES_LOCAL
#error "device/api/prim.h: the target gives no dimensions, ballots, shuffles and local atomics"
#endif
#ifndef PRIM_GIVES_FENCES
#error "device/api/prim.h: the target gives no gather_stores, settle_stores, fence_flag, store_flag, peek and fences"
#endif
#ifndef PRIM_GIVES_COPY
#error "device/api/prim.h: the target gives no 16-byte accesses, copies and lines"
#endif
#ifndef PRIM_GIVES_TIME
#error "device/api/prim.h: the target gives no prim_pause and prim_clock_ns"
#endif

/* ---- what is derived ---- */

PRIM_FN struct prim_group prim_group_of(enum prim_group_kind kind)
{
    struct prim_group g;
    g.kind = kind;
    return g;
}
PRIM_FN struct prim_group prim_group_thread(void) { return prim_group_of(PRIM_THREAD); }
PRIM_FN struct prim_group prim_group_wave(void) { return prim_group_of(PRIM_WAVE); }
PRIM_FN struct prim_group prim_group_block(void) { return prim_group_of(PRIM_BLOCK); }

/* A hint: this thread will store into the line at p soon; fetch it for writing now. Nothing where a target has no such
 * instruction. */
#ifndef PRIM_HAS_EXPECT_STORE
PRIM_FN void prim_expect_store(const void *p) { (void)p; }
#endif

/* A hint: this thread will load from p soon; begin now. */
#ifndef PRIM_HAS_EXPECT_LOAD
PRIM_FN void prim_expect_load(const void *p) { (void)p; }
#endif

/* Where a vote without order among stores and loads is cheaper, a target has that. */
#ifndef PRIM_HAS_WAVE_OR
PRIM_FN bool prim_wave_or(bool p) { return prim_sync_or(prim_group_wave(), p); }
#endif

/* A word that is looked at often and changes hardly ever (an error status): may come from a cache of this processor
 * that sees its own stores. Where the target has nothing cheaper: a relaxed load. */
#ifndef PRIM_HAS_LOAD_LAZY
PRIM_FN uint64_t prim_load_lazy_u64(const uint64_t *p) { return prim_load_relaxed_u64(p); }
#endif

/* Where nothing is launched early there is nothing to wait for. */
#ifndef PRIM_HAS_STREAM_WAIT
PRIM_FN void prim_stream_wait(void) {}
PRIM_FN void prim_stream_pass(void) {}
#endif

/* Before a loop of few turns, of which nothing may be left: over an array that must be in registers. */
#ifndef PRIM_UNROLL
#define PRIM_UNROLL
#endif
/* Before a loop that stays one, since what it holds is long. */
#ifndef PRIM_ROLLED
#define PRIM_ROLLED
#endif

/* Behind an array whose elements are set and read under the same conditions: a CPU's compiler may not see that they are
 * the same, and warns; on a GPU zeroes would be instructions. */
#ifndef PRIM_UNSET
#define PRIM_UNSET
#endif

/* Before the loop of a wait: how many looks stand one behind the other in its code. A jump back between two looks is
 * latency, and so is code that has to be fetched: some where a look is one word, one where it is many loads. */
#ifndef PRIM_WAIT_FOR_WORD
#define PRIM_WAIT_FOR_WORD
#define PRIM_WAIT_FOR_LINES
#endif

/* A function for one type, which a switch over types calls: where the type is a constant, one of them is left. */
#ifndef PRIM_ELEM_FN
#define PRIM_ELEM_FN PRIM_FN
#endif

/* A function that stays one where it is used many times, but is no rare path: a target may say it differently. */
#ifndef PRIM_CALL_FN
#define PRIM_CALL_FN PRIM_COLD_FN
#endif

/* A step of a rare path. Where calls keep an ABI (PRIM_CALLS_BY_ABI) a kernel takes as many registers as the largest of
 * its functions: steps are functions. Elsewhere it takes the sum of a chain of calls, and they are inlined. */
#ifdef PRIM_CALLS_BY_ABI
#define PRIM_PART_FN PRIM_COLD_FN
#else
#define PRIM_PART_FN PRIM_FN
#endif

/* Around all that a block does in one call of the library, made by all its threads with equal arguments:
 *     if (prim_call_begin())
 *         rc = ...;
 *     return prim_call_end(rc);
 * A target where synchronisation of a block costs more than its work may let one thread do that work for all: it is a
 * block, and a wave, of one thread from begin to end, so places and sizes from outside do not count inside; begin is
 * false for the others, which wait; and the rc is the same for all. Calls may be made within calls. Not a sync by
 * itself. */
#ifndef PRIM_HAS_CALL
PRIM_FN bool prim_call_begin(void) { return true; }
PRIM_FN int prim_call_end(int rc) { return rc; }
#endif

/* Arguments of the program's, first in the call that got them: where the target checks, a wrong one ends the process
 * with a sentence. Elsewhere the arguments of these macros are not evaluated. `arg` is the argument's name.
 *
 * PRIM_CHECK_PE(arg, pe, n_pes)                          0 .. n_pes - 1; the call is __func__
 * PRIM_CHECK_ADDR(arg, addr, bytes, alignment)           not NULL where bytes is not 0, and aligned; likewise
 * PRIM_CHECK_VALUE(call, arg, value, holds, allowed)     an integer for which `holds`; `allowed` says which do */
#ifndef PRIM_CHECK_PE
#define PRIM_CHECK_PE(arg, pe, n_pes) ((void)0)
#define PRIM_CHECK_ADDR(arg, addr, bytes, alignment) ((void)0)
#define PRIM_CHECK_VALUE(call, arg, value, holds, allowed) ((void)0)
#endif

/* Loops of the program's own. A thread that has looked at a word for the program, without waiting, says what it saw;
 * one that may be in a loop around a call that looks at nothing says that it passes. Where threads run in turn (the CPU
 * device) others then run from time to time, and a thread that sees the same for longer than SHMEM_TIMEOUT is reported.
 *
 * prim_look(call, addr, value)                  by the calling thread; `call` is the public name
 * prim_look_at_bytes(call, addr, seen, bytes)   likewise; `seen` is a copy of what was looked at, of which some counts
 * prim_pass()
 * prim_pause_of_program()                       prim_pause in a loop that the library does not know */
#ifndef PRIM_HAS_LOOK
PRIM_FN void prim_look(const char *call, const void *addr, uint64_t value)
{
    (void)call;
    (void)addr;
    (void)value;
}
PRIM_FN void prim_look_at_bytes(const char *call, const void *addr, const void *seen, size_t bytes)
{
    (void)call;
    (void)addr;
    (void)seen;
    (void)bytes;
}
PRIM_FN void prim_pass(void) {}
PRIM_FN void prim_pause_of_program(void) { prim_pause(); }
#endif

/* prim_fetch_and, _or, _xor without the old value, where a target has cheaper ones. */
#ifndef PRIM_HAS_BIT_UPDATES
PRIM_FN void prim_and_u32(uint32_t *p, uint32_t v) { (void)prim_fetch_and_u32(p, v); }
PRIM_FN void prim_or_u32(uint32_t *p, uint32_t v) { (void)prim_fetch_or_u32(p, v); }
PRIM_FN void prim_xor_u32(uint32_t *p, uint32_t v) { (void)prim_fetch_xor_u32(p, v); }
PRIM_FN void prim_and_u64(uint64_t *p, uint64_t v) { (void)prim_fetch_and_u64(p, v); }
PRIM_FN void prim_or_u64(uint64_t *p, uint64_t v) { (void)prim_fetch_or_u64(p, v); }
PRIM_FN void prim_xor_u64(uint64_t *p, uint64_t v) { (void)prim_fetch_xor_u64(p, v); }
#endif

/* The sync that a call of the user's ends with: what the group has stored may be released by any of its threads. */
PRIM_FN void prim_sync_settled(struct prim_group g)
{
    prim_settle_stores(g);
    prim_sync(g);
}

/* Whether a get of at most 8 bytes a thread goes by one load of each. */
#ifndef PRIM_GETS_WORDS
#define PRIM_GETS_WORDS(g) true
#endif

/* Puts and gets of at most 16 bytes a thread, both ends and the size aligned to 16: without the general copy's
 * arithmetic. false: it is another copy, or the target gains nothing by it. */
#ifndef PRIM_HAS_VECTOR_EACH
PRIM_FN bool prim_put_vector_each(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    (void)g, (void)dest, (void)source, (void)bytes;
    return false;
}
PRIM_FN bool prim_get_vector_each(struct prim_group g, char *dest, const char *source, size_t bytes)
{
    (void)g, (void)dest, (void)source, (void)bytes;
    return false;
}
#endif

/* Keeps back what a put would store, until a fence covers it: false, the caller stores. True on the CPU device only,
 * where a seed makes memory weak. */
#ifndef PRIM_HAS_HOLD_PUT
PRIM_FN bool prim_hold_put(void *dest, const void *source, size_t bytes)
{
    (void)dest;
    (void)source;
    (void)bytes;
    return false;
}
#endif

/* The first thread of a group does what must be done once. */
PRIM_FN bool prim_is_first(struct prim_group g) { return prim_rank(g) == 0; }

/* A flag behind data that the whole group has stored: seen by a peer only after the data. Where the target's fence and
 * store are one instruction (PRIM_HAS_SIGNAL), that; pairs with prim_poll_u64, and with peek and acquire_from_peer. */
#ifndef PRIM_HAS_SIGNAL
PRIM_FN void prim_signal_u64(struct prim_group g, uint64_t *flag, uint64_t value)
{
    prim_gather_stores(g);
    if (prim_is_first(g)) {
        prim_fence_flag();
        prim_store_flag_u64(flag, value);
    }
}
#endif

/* Threads b->threads of some waves of a block meet; whole waves call, and see each other's earlier stores. One thread
 * of a wave stands for it: others that spin in the same wave could keep it from going on. Acquire and release of each
 * arrival chain the stores of all to the last one, whose release of the generation pairs with the looks of the rest. */
#ifndef PRIM_HAS_NAMED
PRIM_FN void prim_named_sync(struct prim_named *b)
{
    const struct prim_group wave = prim_group_wave();
    prim_settle_stores(prim_group_block());
    prim_sync(wave);
    if (prim_rank(wave) == 0) {
        uint32_t before = prim_local_load_u32(&b->generation, PRIM_RELAXED, PRIM_OF_BLOCK), size = prim_size(wave);
        if (prim_local_fetch_add_u32(&b->arrived, size, PRIM_ACQ_REL, PRIM_OF_BLOCK) + size == b->threads) {
            prim_local_store_u32(&b->arrived, 0, PRIM_RELAXED, PRIM_OF_BLOCK);
            prim_local_store_u32(&b->generation, before + 1, PRIM_RELEASE, PRIM_OF_BLOCK);
        } else
            for (uint32_t now = before; now == before;) {
                now = prim_local_load_u32(&b->generation, PRIM_ACQUIRE, PRIM_OF_BLOCK);
                prim_look("shmemd_named_barrier_sync", b, now);
            }
    }
    prim_sync(wave);
}
#endif

/* One look at a flag. Once the caller has seen a value it may read everything that was stored before that value was
 * signalled. */
PRIM_FN uint64_t prim_poll_u64(const uint64_t *flag) { return prim_load_acquire_u64(flag); }

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
