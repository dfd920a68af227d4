/* SPDX-License-Identifier: MIT */
/* The in-kernel API: kernels put, get, signal, wait and run collectives by themselves. The same source is for AMD
 * (HIP), NVIDIA (CUDA) and the CPU as a device. Header-only: no separate device code is linked, no module is
 * initialised, and run-time compilers take it too.
 *
 * Handles. Every call takes a shmemd_t by value. The host makes it by shmemx_device_handle and passes it in the
 * kernel's arguments. PE numbers count in the handle's team, 0 .. shmemd_n_pes(h) - 1. On the CPU device another number
 * ends the job with a sentence, and so do null pointers, misaligned words and wrong constants, unless SHMEMD_NO_CHECKS
 * is defined. On GPUs the behaviour is undefined. Roots, and to and from of permute, are checked on all devices.
 *
 * Addresses. A symmetric address is this PE's own address of memory of shmemx_malloc (device heap), of a registered
 * buffer, or of the host heap and global variables, which the proxy reaches where kernels do not. Local addresses are
 * any memory that the kernel can load or store. Waits, tests and signal_fetch take words that the kernel can load
 * itself: of the device heap, or of a registered buffer of device memory, but not on AMD (see shmemx_buffer_register).
 * Objects of a type are aligned as the type is. The ranges of one call do not overlap.
 *
 * Groups. Each operation exists once over a group of threads, which share the work: at shmemd_thread.
 *
 * Paths. Where this PE's device reaches the other PE's memory, an operation is loads and stores. Elsewhere it goes to a
 * ring, from which a thread of the host (the proxy) takes it. All calls work on both paths. Kernels for one node may be
 * compiled with SHMEMD_NO_RING: see below.
 *
 * Errors. No call traps; waits give up when a peer has died: at shmemd_status.
 *
 * Includes: shmem_types.h, the bodies in device/, and at the end the collectives and what threads of one PE do among
 * themselves. C++ programs include shmem_device.hpp, which has one name for all types. */
#ifndef SHMEM_DEVICE_H
#define SHMEM_DEVICE_H

#include "../device/api/state.h"

#include "../device/api/half_device.h"
#include "../device/api/order_device.h"
#include "../device/api/p2p_device.h"
#include "../device/api/rma_device.h"
#include "../device/api/signal_device.h"
#include "shmem_types.h"

/* 16-bit floating point, as bits, since compilers' own types differ. Conversions from float round to the nearest, ties
 * to even; a NaN stays a NaN. */
typedef struct {
    uint16_t bits; /* IEEE binary16: 1 sign, 5 exponent, 10 fraction */
} shmemd_half_t;
typedef struct {
    uint16_t bits; /* the upper half of an IEEE binary32 */
} shmemd_bfloat16_t;
PRIM_FN float shmemd_half_to_float(shmemd_half_t x) { return isod_half_to_float(x.bits); }
PRIM_FN float shmemd_bfloat16_to_float(shmemd_bfloat16_t x) { return isod_bfloat16_to_float(x.bits); }
PRIM_FN shmemd_half_t shmemd_half_from_float(float f)
{
    const shmemd_half_t x = {isod_half_from_float(f)};
    return x;
}
PRIM_FN shmemd_bfloat16_t shmemd_bfloat16_from_float(float f)
{
    const shmemd_bfloat16_t x = {isod_bfloat16_from_float(f)};
    return x;
}

/* As in shmem.h, which may be included beside this one. */
#ifndef SHMEM_CMP_EQ
#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_LT 3
#define SHMEM_CMP_LE 4
#define SHMEM_CMP_GT 5
#define SHMEM_CMP_GE 6
#endif
#ifndef SHMEM_SIGNAL_SET
#define SHMEM_SIGNAL_SET 1
#define SHMEM_SIGNAL_ADD 2
#endif

/* ---- SHMEMD_NO_RING ----
 * Defined before this header is included, for all kernels of the source file: they hold no code of the ring, and so take
 * fewer registers. For PEs that are reached by pointer alone: of one node, without SHMEM_FORCE_PROXY; not for the host
 * heap on a GPU. An operation on other memory is not done. The host says so on stderr with the number of the PE, and the
 * handle has given up (shmemd_status). A collective on a team with such a member returns nonzero at once, on all
 * members. fence and quiet do not wait for what other kernels have put on the ring. */

/* ---- kernels and groups ---- */

/* SHMEMD_KERNEL(name, TYPE, a) { body } defines a kernel that takes one struct TYPE by value, named a in the body.
 * Launch it by shmemx_launch(SHMEMX_KERNEL(name), ...) on any device, or the vendor's way on a GPU. */
#define SHMEMD_KERNEL(name, TYPE, a) PRIM_KERNEL(name, TYPE, a)
/* The same for blocks of at most `threads` threads. On NVIDIA a kernel of more than 64 registers cannot have blocks of
 * 1024 threads, and shmemx_launch says so. With this form the compiler uses at most the registers that `threads` leaves
 * for each. */
#define SHMEMD_KERNEL_BOUNDED(name, TYPE, a, threads) PRIM_KERNEL_BOUNDED(name, TYPE, a, threads)
/* Declares, at the start of a kernel's body, an array that the threads of a block share. Used as name[i];
 * uninitialised. */
#define SHMEMD_SHARED(TYPE, name, count) PRIM_SHARED(TYPE, name, count)
/* Begins a function that kernels call. */
#define SHMEMD_FN PRIM_FN

/* Groups. Each operation exists once over a group: shmemd_X_group(h, g, ...). All threads of g call it with equal
 * arguments and share the work; g is shmemd_thread(), shmemd_wave() or shmemd_block(). There are three shorter names:
 * shmemd_X (the calling thread alone), shmemd_X_wave, shmemd_X_block. A wave is 32 threads on NVIDIA, 64 on AMD, 32 or
 * 64 on the CPU. Call shmemd_group_sync before a call when other threads of the group prepare its `source`, or still
 * use a `dest` that it overwrites. The calls themselves synchronise the group as follows:
 *
 *                                        at its start   at its end
 *     put, get, iput, iget               no             yes
 *     put_nbi, get_nbi                   no             no
 *     put_signal, put_signal_nbi         no             behind the data and before the signal; then only the first
 *                                                       thread works on: source may be written, and the signal may
 *                                                       still be under way when the other threads return
 *     put_each_signal                    no             as put_signal
 *     put_packet                         no             yes
 *     get_packet                         no             yes, dest is there for all of the group
 *     wait_until, wait_until_for,        no: one thread yes, for all of the group (wave and block forms)
 *     signal_wait_until, pe_signal_...   waits at once
 *     fence, quiet, pe_fence,            fence: yes;    yes
 *     pe_quiet (npes > 0)                quiet: no, but each thread completes its own stores before the sync at the end
 *     flush                              one and the same
 *     barrier, sync, data collectives    yes            yes, see shmem_device_coll.h
 *     p, g, atomics, signal_op,          of one thread: no synchronisation
 *     signal_fetch, test, waits for
 *     sets, pause
 *
 * NVSHMEM's group puts and gets synchronise at both ends, the non-blocking ones too: see docs/porting.md. */
PRIM_FN shmemd_group_t shmemd_thread(void) { return prim_group_thread(); }
PRIM_FN shmemd_group_t shmemd_wave(void) { return prim_group_wave(); }
PRIM_FN shmemd_group_t shmemd_block(void) { return prim_group_block(); }
/* The calling thread's place in the group, 0 .. shmemd_group_size(g) - 1. */
PRIM_FN unsigned shmemd_group_rank(shmemd_group_t g) { return prim_rank(g); }
PRIM_FN unsigned shmemd_group_size(shmemd_group_t g) { return prim_size(g); }
/* Synchronises the group: its threads see each other's earlier stores. A later fence or quiet of any of them covers
 * everything that all of them have issued before (see ordering). */
PRIM_FN void shmemd_group_sync(shmemd_group_t g) { prim_sync_settled(g); }

/* Grid and block count in one dimension. */
PRIM_FN unsigned shmemd_block_index(void) { return prim_block_index(); }
PRIM_FN unsigned shmemd_block_count(void) { return prim_block_count(); }
PRIM_FN unsigned shmemd_thread_index(void) { return prim_rank(prim_group_block()); }
PRIM_FN unsigned shmemd_block_size(void) { return prim_size(prim_group_block()); }
/* Monotone nanoseconds; values of different processors cannot be compared. */
PRIM_FN uint64_t shmemd_clock_ns(void)
{
    prim_pass();
    return prim_clock_ns();
}
/* Pauses between two polls of the program's own loop. Loops over plain or volatile loads, or over atomics of the
 * compiler or the vendor, must call it: on the CPU device no other thread runs otherwise, so the value may never come.
 * Loops over test, signal_fetch, fetching atomics, g, get or quiet need no pause. Called by one thread. It orders
 * nothing and does not synchronise.
 *     the CPU device    other threads of the block and other blocks run; after 0.1 s without other work the core
 *                       is left to others for 50 us at a time
 *     AMD               s_sleep, some 64 cycles
 *     NVIDIA            nothing: a poll waits for the second-level cache anyway */
PRIM_FN void shmemd_pause(void) { prim_pause_of_program(); }

/* The share of this block when the grid divides nelems elements: contiguous; shares differ by at most one element. */
struct shmemd_slice {
    size_t first, count;
};
PRIM_FN struct shmemd_slice shmemd_slice_of_block(size_t nelems)
{
    size_t block = prim_block_index(), each = nelems / prim_block_count(), rest = nelems % prim_block_count();
    struct shmemd_slice slice = {block * each + (block < rest ? block : rest), each + (block < rest ? 1u : 0u)};
    return slice;
}

/* First statements of a call; __func__ is its name. The PE; a number of bytes; buffers of so many; all of it; the word of an atomic, a
 * signal or a wait; a comparison; a signal; an area of packets; strides. */
#define SHMEMD_CHECK_PE PRIM_CHECK_PE("pe", pe, h.n_pes)
#define SHMEMD_CHECK_BYTES(bytes) \
    PRIM_CHECK_VALUE(__func__, "the number of bytes", bytes, (uint64_t)(bytes) >> 47 == 0, "0 .. 2^47 - 1")
#define SHMEMD_CHECK_BUFFERS(bytes)           \
    SHMEMD_CHECK_BYTES(bytes);                \
    PRIM_CHECK_ADDR("dest", dest, bytes, 1u); \
    PRIM_CHECK_ADDR("source", source, bytes, 1u)
#define SHMEMD_CHECK_MOVE(bytes) \
    SHMEMD_CHECK_BUFFERS(bytes); \
    SHMEMD_CHECK_PE
#define SHMEMD_CHECK_WORD(at, bytes) PRIM_CHECK_ADDR(#at, at, bytes, bytes)
#define SHMEMD_CHECK_CMP \
    PRIM_CHECK_VALUE(__func__, "cmp", cmp, (unsigned)(cmp) - 1u < 6u, "SHMEM_CMP_EQ (1) .. SHMEM_CMP_GE (6)")
#define SHMEMD_CHECK_SIGNAL                                                    \
    SHMEMD_CHECK_WORD(sig_addr, 8u);                                           \
    PRIM_CHECK_VALUE(__func__, "sig_op", sig_op, (unsigned)(sig_op) - 1u < 2u, \
                     "SHMEM_SIGNAL_SET (1) or SHMEM_SIGNAL_ADD (2)")
#define SHMEMD_CHECK_AREA(area)               \
    PRIM_CHECK_ADDR(#area, area, bytes, 16u); \
    PRIM_CHECK_VALUE(__func__, "epoch", epoch, epoch != 0, "1 or more")
#define SHMEMD_CHECK_STRIDES(elem_bytes)                             \
    SHMEMD_CHECK_MOVE(nelems * (elem_bytes));                         \
    PRIM_CHECK_VALUE(__func__, "dst", dst, (dst) >= 1, "1 or more"); \
    PRIM_CHECK_VALUE(__func__, "sst", sst, (sst) >= 1, "1 or more")

/* ---- who and where ---- */

/* The number of this PE in the handle's team, and the number of its PEs. */
PRIM_FN int shmemd_my_pe(shmemd_t h) { return h.my_pe; }
PRIM_FN int shmemd_n_pes(shmemd_t h) { return h.n_pes; }
/* The number in the team of `other` of member `pe` of h. -1: it is not a member there, or h has no such member. The
 * time grows with the size of the team. */
PRIM_FN int shmemd_translate_pe(shmemd_t h, int pe, shmemd_t other) { return isod_translate_pe(h, pe, other); }
/* The address by which the calling kernel loads and stores `pe`'s copy of `addr`. NULL: pointers do not reach it, or
 * `addr` is not symmetric. */
PRIM_FN void *shmemd_ptr(shmemd_t h, const void *addr, int pe)
{
    SHMEMD_CHECK_PE;
    return isod_near(h, addr, pe);
}
/* 1; or 0 soon after `pe` has died or left the job, for good. It reads a word in memory of the host, which takes a GPU
 * about a microsecond. Only in the mode SHMEMX_ERRORS_RETURN, since else the job ends. Of the PEs on other nodes only
 * the first that dies is sure to be noticed. */
PRIM_FN int shmemd_pe_is_alive(shmemd_t h, int pe)
{
    SHMEMD_CHECK_PE;
    prim_pass();
    return isod_is_gone(h.world, isod_world_pe(h, pe)) ? 0 : 1;
}
/* 0; or nonzero after a wait on this handle has given up or a collective on it was misused, and soon after a peer has
 * died or after shmemx_device_abort: from then on the handle has given up. So a loop of a kernel's own ends by it:
 *     while (!shmemd_status(h) && shmemd_signal_fetch(h, sig) != value) shmemd_pause();
 * It reads a word in memory of the host, which takes a GPU about a microsecond.
 *
 * Errors. No call traps. The host reports on stderr a wait that lasts longer than SHMEM_TIMEOUT seconds, and the wait
 * goes on. On the CPU device it also reports a thread whose own loop over tests, fetches, g, get or pauses has seen no
 * change for so long. On GPUs such loops must look at the clock themselves. When a peer has died, or after
 * shmemx_device_abort, waits give up: they return, shmemd_status(h) is nonzero from then on, later waits return soon,
 * signal_op and put_signal send no signal, collectives return nonzero. A loop of the program's own looks at
 * shmemd_status. Puts, gets, packets, p, g and atomics by pointer
 * do not look at the status and still act: a program that sends packets or flags by p after a wait must look itself. By
 * the ring they do nothing then: fetched values are 0, and the dest of a get stays as it was. The host learns the
 * reason by shmemx_device_error and repairs the handle by shmemx_device_reset.
 *
 * Deaths that the team masks (shmemx_team_mask_deaths). The handle goes on when a PE has died: its status stays 0, and
 * puts, gets, atomics, signals, fences, quiet and waits among the PEs that live work as before. What is sent to a dead
 * PE is lost, and what is fetched from it is undefined, by the ring 0. By libfabric, bytes of a large get from a PE that
 * has died meanwhile may still come to its dest after the call. A wait for a word does not know which PE will
 * change it, so it goes on: wait by pe_signal_wait_until, which names the PE, or by wait_until_for, and ask
 * shmemd_pe_is_alive. Collectives of a team with a dead member return nonzero on all members that are in them and from
 * then on; make a team of the PEs of a smaller group before, or work by signals. shmemx_device_abort and shmemx_leave
 * end all waits as ever. */
PRIM_FN int shmemd_status(shmemd_t h)
{
    prim_pass();
    return isod_status(h.team);
}

/* ---- how the names are stamped: one body, four names ---- */

#define SHMEMD_ARGS(...) __VA_ARGS__
#define SHMEMD_FORMS(R, name, args, ...)                                             \
    PRIM_FN R shmemd_##name##_group(shmemd_t h, shmemd_group_t g, SHMEMD_ARGS args){ \
        __VA_ARGS__} PRIM_FN R shmemd_##name(shmemd_t h, SHMEMD_ARGS args)           \
    {                                                                                \
        const shmemd_group_t g = prim_group_thread();                                \
        __VA_ARGS__                                                                  \
    }                                                                                \
    PRIM_FN R shmemd_##name##_wave(shmemd_t h, SHMEMD_ARGS args)                     \
    {                                                                                \
        const shmemd_group_t g = prim_group_wave();                                  \
        __VA_ARGS__                                                                  \
    }                                                                                \
    PRIM_FN R shmemd_##name##_block(shmemd_t h, SHMEMD_ARGS args)                    \
    {                                                                                \
        const shmemd_group_t g = prim_group_block();                                 \
        __VA_ARGS__                                                                  \
    }

/* ---- one element (section 9.6): by the calling thread ----
 * p stores and g loads one element, whole, by one access. NAME: the types of shmem.h except long double and complex;
 * also half and bfloat16 (shmemd_half_t, shmemd_bfloat16_t: structs of their bits, converted by shmemd_half_to_float,
 * shmemd_half_from_float and so on). A p of 4 or 8 bytes may be a flag for a wait or test at the target, behind a
 * fence. g is never answered from a cache that does not see peers' stores. */
#define SHMEMD_ONE(NAME, TYPE, ...)                                            \
    PRIM_FN void shmemd_##NAME##_p(shmemd_t h, TYPE *dest, TYPE value, int pe) \
    {                                                                          \
        SHMEMD_CHECK_WORD(dest, sizeof(value));                                \
        SHMEMD_CHECK_PE;                                                       \
        isod_p(h, dest, &value, sizeof(value), pe);                            \
    }                                                                          \
    PRIM_FN TYPE shmemd_##NAME##_g(shmemd_t h, const TYPE *source, int pe)     \
    {                                                                          \
        TYPE value;                                                            \
        SHMEMD_CHECK_WORD(source, sizeof(value));                              \
        SHMEMD_CHECK_PE;                                                       \
        isod_g(h, &value, source, sizeof(value), pe);                          \
        return value;                                                          \
    }
SHMEM_DEVICE_TYPES(SHMEMD_ONE, )

/* ---- put and get (section 9.6): nelems elements, of the type, of BITS bits (put8 .. put128), or bytes (putmem) ----
 * put: from local `source` to symmetric `dest` on `pe`. source may be written again on return. The data is at its
 * target after a quiet, and a fence orders it before later operations.
 * get: from symmetric `source` on `pe` to local `dest`, which is complete on return.
 * _nbi: source must not be written, and dest must not be read, before a quiet. nelems 0 does nothing. */
#define SHMEMD_MOVE(name, T, bytes)                                                         \
    SHMEMD_FORMS(void, put##name, (T * dest, const T *source, size_t nelems, int pe),       \
                 SHMEMD_CHECK_MOVE(nelems * (bytes));                                        \
                 isod_put(h, g, isod_bytes_of(dest, source, nelems * (bytes)), pe);)        \
    SHMEMD_FORMS(void, get##name, (T * dest, const T *source, size_t nelems, int pe),       \
                 SHMEMD_CHECK_MOVE(nelems * (bytes));                                        \
                 isod_get(h, g, isod_bytes_of(dest, source, nelems * (bytes)), pe);)        \
    SHMEMD_FORMS(void, put##name##_nbi, (T * dest, const T *source, size_t nelems, int pe), \
                 SHMEMD_CHECK_MOVE(nelems * (bytes));                                        \
                 isod_put_nbi(h, g, isod_bytes_of(dest, source, nelems * (bytes)), pe);)    \
    SHMEMD_FORMS(void, get##name##_nbi, (T * dest, const T *source, size_t nelems, int pe), \
                 SHMEMD_CHECK_MOVE(nelems * (bytes));                                        \
                 isod_get_nbi(h, g, isod_bytes_of(dest, source, nelems * (bytes)), pe);)
#define SHMEMD_MOVE_TYPE(NAME, TYPE, ...)                                                        \
    SHMEMD_FORMS(void, NAME##_put, (TYPE * dest, const TYPE *source, size_t nelems, int pe),     \
                 SHMEMD_CHECK_MOVE(nelems * sizeof(TYPE));                                       \
                 isod_put(h, g, isod_bytes_of(dest, source, nelems * sizeof(TYPE)), pe);)        \
    SHMEMD_FORMS(void, NAME##_get, (TYPE * dest, const TYPE *source, size_t nelems, int pe),     \
                 SHMEMD_CHECK_MOVE(nelems * sizeof(TYPE));                                       \
                 isod_get(h, g, isod_bytes_of(dest, source, nelems * sizeof(TYPE)), pe);)        \
    SHMEMD_FORMS(void, NAME##_put_nbi, (TYPE * dest, const TYPE *source, size_t nelems, int pe), \
                 SHMEMD_CHECK_MOVE(nelems * sizeof(TYPE));                                       \
                 isod_put_nbi(h, g, isod_bytes_of(dest, source, nelems * sizeof(TYPE)), pe);)    \
    SHMEMD_FORMS(void, NAME##_get_nbi, (TYPE * dest, const TYPE *source, size_t nelems, int pe), \
                 SHMEMD_CHECK_MOVE(nelems * sizeof(TYPE));                                       \
                 isod_get_nbi(h, g, isod_bytes_of(dest, source, nelems * sizeof(TYPE)), pe);)
#define SHMEMD_MOVE_SIZE(BITS, BYTES, ...) SHMEMD_MOVE(BITS, void, BYTES)
SHMEM_DEVICE_TYPES(SHMEMD_MOVE_TYPE, )
SHMEM_SIZES(SHMEMD_MOVE_SIZE, )
SHMEMD_MOVE(mem, void, 1)

/* Strided put and get: element i goes from source + i * sst to dest + i * dst. Strides count elements and are at least
 * 1. */
#define SHMEMD_STRIDED(put, get, T, bytes)                                                                    \
    SHMEMD_FORMS(void, put, (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
                 const struct isod_strided s = {dest, source, dst, sst, nelems, bytes};                       \
                 SHMEMD_CHECK_STRIDES(bytes); isod_iput(h, g, s, pe);)                                        \
    SHMEMD_FORMS(void, get, (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
                 const struct isod_strided s = {dest, source, dst, sst, nelems, bytes};                       \
                 SHMEMD_CHECK_STRIDES(bytes); isod_iget(h, g, s, pe);)
#define SHMEMD_STRIDED_TYPE(NAME, TYPE, ...) SHMEMD_STRIDED(NAME##_iput, NAME##_iget, TYPE, sizeof(TYPE))
#define SHMEMD_STRIDED_SIZE(BITS, BYTES, ...) SHMEMD_STRIDED(iput##BITS, iget##BITS, void, BYTES)
SHMEM_DEVICE_TYPES(SHMEMD_STRIDED_TYPE, )
SHMEM_SIZES(SHMEMD_STRIDED_SIZE, )

/* ---- signals (section 9.8) ----
 * A put, then the update of the symmetric word *sig_addr on `pe`, 8 aligned bytes: SHMEM_SIGNAL_SET writes `signal`,
 * SHMEM_SIGNAL_ADD adds it. A thread that sees the update by a wait, test or signal_fetch sees the data, and everything
 * that the calling group has stored before, to any PE by pointer. With nelems 0 only the signal is sent, ordered in the
 * same way. source may be written again on return; for _nbi after a quiet. */
#define SHMEMD_PUT_SIGNAL(name, T, bytes)                                                                             \
    SHMEMD_FORMS(void, name,                                                                                          \
                 (T * dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe), \
                 SHMEMD_CHECK_SIGNAL;                                                                                 \
                 SHMEMD_CHECK_MOVE(nelems * (bytes));                                                                 \
                 isod_put_signal(h, g, isod_bytes_of(dest, source, nelems * (bytes)),                                 \
                                 isod_signal_of(sig_addr, signal, sig_op), pe);)
#define SHMEMD_PUT_SIGNAL_TYPE(NAME, TYPE, ...)              \
    SHMEMD_PUT_SIGNAL(NAME##_put_signal, TYPE, sizeof(TYPE)) \
    SHMEMD_PUT_SIGNAL(NAME##_put_signal_nbi, TYPE, sizeof(TYPE))
#define SHMEMD_PUT_SIGNAL_SIZE(BITS, BYTES, ...)       \
    SHMEMD_PUT_SIGNAL(put##BITS##_signal, void, BYTES) \
    SHMEMD_PUT_SIGNAL(put##BITS##_signal_nbi, void, BYTES)
SHMEM_DEVICE_TYPES(SHMEMD_PUT_SIGNAL_TYPE, )
SHMEM_SIZES(SHMEMD_PUT_SIGNAL_SIZE, )
SHMEMD_PUT_SIGNAL_SIZE(mem, 1, )

/* One signal for puts of all threads of a wave or a block: each thread has a dest, source and number of bytes of its
 * own, 0 too. The update is the same for all of them: sig_addr, signal, sig_op and pe, which is the target of all the
 * data. All threads of the group call. Otherwise as put_signal. */
SHMEMD_FORMS(void, putmem_each_signal,
             (void *dest, const void *source, size_t bytes, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe),
             SHMEMD_CHECK_SIGNAL; SHMEMD_CHECK_MOVE(bytes);
             isod_put_each_signal(h, g, isod_bytes_of(dest, source, bytes), isod_signal_of(sig_addr, signal, sig_op),
                                  pe);)

/* The update alone, by the calling thread. It orders nothing: put a fence between data of other calls and this signal.
 */
PRIM_FN void shmemd_signal_op(shmemd_t h, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)
{
    SHMEMD_CHECK_SIGNAL;
    SHMEMD_CHECK_PE;
    isod_signal_send(h, isod_signal_of(sig_addr, signal, sig_op), pe);
}
/* The value of this PE's own word. The calling thread may read data that was put before the update that the value
 * shows. */
PRIM_FN uint64_t shmemd_signal_fetch(shmemd_t h, const uint64_t *sig_addr)
{
    (void)h;
    SHMEMD_CHECK_WORD(sig_addr, 8u);
    return isod_signal_fetch(sig_addr);
}
/* Waits until this PE's own word compares, by SHMEM_CMP_, with cmp_value. One thread polls. Returns to all threads of
 * the group the value that satisfied the comparison; all of them may then read data that was put before. A wait that
 * gives up (see Errors) returns the value that it saw last. */
SHMEMD_FORMS(uint64_t, signal_wait_until, (const uint64_t *sig_addr, int cmp, uint64_t cmp_value),
             SHMEMD_CHECK_WORD(sig_addr, 8u); SHMEMD_CHECK_CMP;
             return isod_signal_wait(h, g, sig_addr, cmp, cmp_value);)

/* The same for an update that `pe` makes. 0: the word compares. Nonzero: it does not, and that PE has died or left the
 * job, or the handle has given up. */
SHMEMD_FORMS(int, pe_signal_wait_until, (const uint64_t *sig_addr, int cmp, uint64_t cmp_value, int pe),
             SHMEMD_CHECK_WORD(sig_addr, 8u); SHMEMD_CHECK_CMP; SHMEMD_CHECK_PE;
             return isod_signal_wait_of(h, g, ISOD_UNTIL(uint64_t, sig_addr, cmp, cmp_value), pe);)

/* ---- packets (LL): data that carries its own flag; the fastest way for up to some KiB ----
 * put_packet sends `bytes` from `source` to the symmetric area `dest` of `pe`. get_packet waits for them in this PE's
 * own area `source` and copies them to `dest`. An area has 2 * bytes, rounded up to 16, is aligned to 16 and used for
 * nothing else: each 16 bytes carry 8 bytes of data and the epoch twice. `epoch` is not 0 and differs from those of the
 * area's last contents; counting up does. The sender does not learn when the area is free: the program must, for
 * instance by two areas in turn, where each PE waits for the other in each epoch.
 *
 * put_packet: source may be written again when it returns; the group has synchronised. */
SHMEMD_FORMS(void, put_packet, (void *dest, const void *source, size_t bytes, uint32_t epoch, int pe),
             SHMEMD_CHECK_AREA(dest); PRIM_CHECK_ADDR("source", source, bytes, 1u); SHMEMD_CHECK_PE;
             isod_put_packet(h, g, dest, isod_packet_of(source, bytes, epoch), pe); prim_sync_settled(g);)
/* When it returns 0, dest is complete and readable by the whole group. Nonzero: it has given up, and dest is undefined.
 */
SHMEMD_FORMS(int, get_packet, (void *dest, const void *source, size_t bytes, uint32_t epoch),
             SHMEMD_CHECK_AREA(source); PRIM_CHECK_ADDR("dest", dest, bytes, 1u);
             return isod_get_packet(h, g, dest, isod_packet_of(source, bytes, epoch));)

/* ---- atomics (section 9.7): by the calling thread, on one symmetric element on `pe`, aligned ----
 * They compose with each other, from kernels and hosts of all PEs. A host's own instructions on the word do not: it
 * must use the library's atomics. Atomics without a result return before they have happened; a quiet completes them.
 * They order nothing else: call fence before an atomic, acquire after it. On AMD and, or, xor by pointer need device
 * memory of this GPU, or of one that Infinity Fabric links to it, because PCIe has no such operations. */
#define SHMEMD_AMO_EXT(NAME, TYPE, ...)                                                                               \
    PRIM_FN TYPE shmemd_##NAME##_atomic_fetch(shmemd_t h, const TYPE *source, int pe)                                 \
    {                                                                                                                 \
        TYPE old;                                                                                                     \
        SHMEMD_CHECK_WORD(source, sizeof(TYPE));                                                                      \
        SHMEMD_CHECK_PE;                                                                                              \
        isod_unbits(&old, isod_amo(h, isod_op_fetch(ISOD_AMO_FETCH, 0, sizeof(old)), source, pe), sizeof(old));       \
        return old;                                                                                                   \
    }                                                                                                                 \
    PRIM_FN void shmemd_##NAME##_atomic_set(shmemd_t h, TYPE *dest, TYPE value, int pe)                               \
    {                                                                                                                 \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                                        \
        SHMEMD_CHECK_PE;                                                                                              \
        (void)isod_amo(h, isod_op_post(ISOD_AMO_SET, isod_bits(&value, sizeof(value)), sizeof(value)), dest, pe);     \
    }                                                                                                                 \
    PRIM_FN TYPE shmemd_##NAME##_atomic_swap(shmemd_t h, TYPE *dest, TYPE value, int pe)                              \
    {                                                                                                                 \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                                        \
        SHMEMD_CHECK_PE;                                                                                              \
        uint64_t bits = isod_bits(&value, sizeof(value));                                                             \
        isod_unbits(&value, isod_amo(h, isod_op_fetch(ISOD_AMO_SWAP, bits, sizeof(value)), dest, pe), sizeof(value)); \
        return value;                                                                                                 \
    }
SHMEM_EXT_TYPES(SHMEMD_AMO_EXT, )

#define SHMEMD_AMO_STD(NAME, TYPE, ...)                                                                     \
    PRIM_FN TYPE shmemd_##NAME##_atomic_compare_swap(shmemd_t h, TYPE *dest, TYPE cond, TYPE value, int pe) \
    {                                                                                                       \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                              \
        SHMEMD_CHECK_PE;                                                                                    \
        return (TYPE)isod_amo(h, isod_op_compare((uint64_t)cond, (uint64_t)value, sizeof(TYPE)), dest, pe); \
    }                                                                                                       \
    SHMEMD_AMO_FETCH_OP(NAME, TYPE, atomic_fetch_add, ISOD_AMO_ADD)                                         \
    SHMEMD_AMO_OP(NAME, TYPE, atomic_add, ISOD_AMO_ADD)                                                     \
    PRIM_FN TYPE shmemd_##NAME##_atomic_fetch_inc(shmemd_t h, TYPE *dest, int pe)                           \
    {                                                                                                       \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                              \
        SHMEMD_CHECK_PE;                                                                                    \
        return (TYPE)isod_amo(h, isod_op_fetch(ISOD_AMO_ADD, 1, sizeof(TYPE)), dest, pe);                   \
    }                                                                                                       \
    PRIM_FN void shmemd_##NAME##_atomic_inc(shmemd_t h, TYPE *dest, int pe)                                 \
    {                                                                                                       \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                              \
        SHMEMD_CHECK_PE;                                                                                    \
        (void)isod_amo(h, isod_op_post(ISOD_AMO_ADD, 1, sizeof(TYPE)), dest, pe);                           \
    }
#define SHMEMD_AMO_FETCH_OP(NAME, TYPE, name, op)                                             \
    PRIM_FN TYPE shmemd_##NAME##_##name(shmemd_t h, TYPE *dest, TYPE value, int pe)           \
    {                                                                                         \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                \
        SHMEMD_CHECK_PE;                                                                      \
        return (TYPE)isod_amo(h, isod_op_fetch(op, (uint64_t)value, sizeof(TYPE)), dest, pe); \
    }
#define SHMEMD_AMO_OP(NAME, TYPE, name, op)                                           \
    PRIM_FN void shmemd_##NAME##_##name(shmemd_t h, TYPE *dest, TYPE value, int pe)   \
    {                                                                                 \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                        \
        SHMEMD_CHECK_PE;                                                              \
        (void)isod_amo(h, isod_op_post(op, (uint64_t)value, sizeof(TYPE)), dest, pe); \
    }
SHMEM_STD_TYPES(SHMEMD_AMO_STD, )

/* add and fetch_add of floats: a loop of compare_swap, so both return after the addition. They compose with the other
 * atomics of the word. Additions of several PEs happen in any order, so the last bits of a sum may differ. A half and a
 * bfloat16 are added as float and rounded to the nearest. They are exchanged with the aligned 4 bytes around them, so
 * the neighbour in these is written by atomics only, too. Two of them that are one word of 4 bytes, aligned to 4, are
 * both added at once. */
typedef struct {
    shmemd_half_t x, y; /* x has the lower address */
} __attribute__((aligned(4))) shmemd_half2_t;
typedef struct {
    shmemd_bfloat16_t x, y;
} __attribute__((aligned(4))) shmemd_bfloat162_t;
#define SHMEMD_AMO_REAL(NAME, TYPE, REAL)                                                     \
    PRIM_FN TYPE shmemd_##NAME##_atomic_fetch_add(shmemd_t h, TYPE *dest, TYPE value, int pe) \
    {                                                                                         \
        SHMEMD_CHECK_WORD(dest, sizeof(TYPE));                                                \
        SHMEMD_CHECK_PE;                                                                      \
        const struct isod_addend a = {isod_bits(&value, sizeof(value)), sizeof(value), REAL}; \
        isod_unbits(&value, isod_amo_add(h, a, dest, pe), sizeof(value));                     \
        return value;                                                                         \
    }                                                                                         \
    PRIM_FN void shmemd_##NAME##_atomic_add(shmemd_t h, TYPE *dest, TYPE value, int pe)       \
    {                                                                                         \
        (void)shmemd_##NAME##_atomic_fetch_add(h, dest, value, pe);                           \
    }
SHMEMD_AMO_REAL(float, float, ISOD_FLOAT)
SHMEMD_AMO_REAL(double, double, ISOD_DOUBLE)
SHMEMD_AMO_REAL(half, shmemd_half_t, ISOD_HALF)
SHMEMD_AMO_REAL(bfloat16, shmemd_bfloat16_t, ISOD_BFLOAT16)
SHMEMD_AMO_REAL(half2, shmemd_half2_t, ISOD_HALF)
SHMEMD_AMO_REAL(bfloat162, shmemd_bfloat162_t, ISOD_BFLOAT16)

#define SHMEMD_AMO_BIT(NAME, TYPE, ...)                             \
    SHMEMD_AMO_FETCH_OP(NAME, TYPE, atomic_fetch_and, ISOD_AMO_AND) \
    SHMEMD_AMO_FETCH_OP(NAME, TYPE, atomic_fetch_or, ISOD_AMO_OR)   \
    SHMEMD_AMO_FETCH_OP(NAME, TYPE, atomic_fetch_xor, ISOD_AMO_XOR) \
    SHMEMD_AMO_OP(NAME, TYPE, atomic_and, ISOD_AMO_AND)             \
    SHMEMD_AMO_OP(NAME, TYPE, atomic_or, ISOD_AMO_OR)               \
    SHMEMD_AMO_OP(NAME, TYPE, atomic_xor, ISOD_AMO_XOR)
SHMEM_BIT_TYPES(SHMEMD_AMO_BIT, )

/* ---- point-to-point synchronization (section 9.11) ----
 * Waits for and tests of symmetric words of this PE, which others change by p, atomics or signals; the standard AMO
 * types. `cmp` is a SHMEM_CMP_ constant. test returns 1 or 0. One thread of the group polls. When a wait returns or a
 * test succeeds, everything that the changing PE ordered before its change (fence, quiet, put_signal) may be read: by
 * the calling thread, and after wait_until_wave and _block by all threads of the group.
 * wait_until_for gives up after ns nanoseconds and leaves no report: 1, the word holds; 0, it has not held within that
 * time, or the handle has given up (shmemd_status). The word is looked at once at least, so ns may be 0. */
#define SHMEMD_WAIT(NAME, TYPE, ...)                                                                              \
    SHMEMD_FORMS(void, NAME##_wait_until, (const TYPE *ivar, int cmp, TYPE cmp_value),                            \
                 SHMEMD_CHECK_WORD(ivar, sizeof(TYPE));                                                           \
                 SHMEMD_CHECK_CMP; isod_wait_until(h, g, ISOD_UNTIL(TYPE, ivar, cmp, cmp_value));)                \
    SHMEMD_FORMS(int, NAME##_wait_until_for, (const TYPE *ivar, int cmp, TYPE cmp_value, uint64_t ns),            \
                 SHMEMD_CHECK_WORD(ivar, sizeof(TYPE));                                                           \
                 SHMEMD_CHECK_CMP; return isod_wait_until_for(h, g, ISOD_UNTIL(TYPE, ivar, cmp, cmp_value), ns);) \
    PRIM_FN int shmemd_##NAME##_test(shmemd_t h, const TYPE *ivar, int cmp, TYPE cmp_value)                       \
    {                                                                                                             \
        (void)h;                                                                                                  \
        SHMEMD_CHECK_WORD(ivar, sizeof(TYPE));                                                                    \
        SHMEMD_CHECK_CMP;                                                                                         \
        return isod_test(ISOD_UNTIL(TYPE, ivar, cmp, cmp_value));                                                 \
    }
SHMEM_STD_TYPES(SHMEMD_WAIT, )

/* Arrays, by the calling thread. status[i] != 0 leaves element i out; status may be NULL. _vector compares element i
 * with cmp_values[i]. any returns the index that it found. For an empty set, all is satisfied at once, any gives
 * SIZE_MAX, some gives 0. any and some find every element that stays satisfied within finitely many calls. A wait that
 * gives up returns the same as for an empty set. */
#define SHMEMD_CHECK_SET                                                      \
    PRIM_CHECK_ADDR("ivars", ivars, nelems * sizeof(*ivars), sizeof(*ivars)); \
    SHMEMD_CHECK_CMP
#define SHMEMD_ARRAY(NAME, TYPE, R, op, call)                                                                         \
    PRIM_FN R shmemd_##NAME##_##op(shmemd_t h, const TYPE *ivars, size_t nelems, const int *status, int cmp,          \
                                   TYPE cmp_value)                                                                    \
    {                                                                                                                 \
        const struct isod_set s = {ivars, nelems, status, cmp, ISOD_WORD_OF(TYPE), &cmp_value, false};                \
        SHMEMD_CHECK_SET;                                                                                             \
        (void)h;                                                                                                      \
        call;                                                                                                         \
    }                                                                                                                 \
    PRIM_FN R shmemd_##NAME##_##op##_vector(shmemd_t h, const TYPE *ivars, size_t nelems, const int *status, int cmp, \
                                            const TYPE *cmp_values)                                                   \
    {                                                                                                                 \
        const struct isod_set s = {ivars, nelems, status, cmp, ISOD_WORD_OF(TYPE), cmp_values, true};                 \
        SHMEMD_CHECK_SET;                                                                                             \
        (void)h;                                                                                                      \
        call;                                                                                                         \
    }
#define SHMEMD_ARRAY_TYPE(NAME, TYPE, ...)                                        \
    SHMEMD_ARRAY(NAME, TYPE, void, wait_until_all, isod_wait_all(h, &s))          \
    SHMEMD_ARRAY(NAME, TYPE, size_t, wait_until_any, return isod_wait_any(h, &s)) \
    SHMEMD_ARRAY(NAME, TYPE, int, test_all, return isod_test_all(&s))             \
    SHMEMD_ARRAY(NAME, TYPE, size_t, test_any, return isod_test_any(&s))
SHMEM_STD_TYPES(SHMEMD_ARRAY_TYPE, )
/* some: writes the satisfied elements to `indices`, which has room for nelems. Returns their number. */
#define SHMEMD_SOME(NAME, TYPE, op, call)                                                                       \
    PRIM_FN size_t shmemd_##NAME##_##op(shmemd_t h, const TYPE *ivars, size_t nelems, size_t *indices,          \
                                        const int *status, int cmp, TYPE cmp_value)                             \
    {                                                                                                           \
        const struct isod_set s = {ivars, nelems, status, cmp, ISOD_WORD_OF(TYPE), &cmp_value, false};          \
        SHMEMD_CHECK_SET;                                                                                       \
        (void)h;                                                                                                \
        return call;                                                                                            \
    }                                                                                                           \
    PRIM_FN size_t shmemd_##NAME##_##op##_vector(shmemd_t h, const TYPE *ivars, size_t nelems, size_t *indices, \
                                                 const int *status, int cmp, const TYPE *cmp_values)            \
    {                                                                                                           \
        const struct isod_set s = {ivars, nelems, status, cmp, ISOD_WORD_OF(TYPE), cmp_values, true};           \
        SHMEMD_CHECK_SET;                                                                                       \
        (void)h;                                                                                                \
        return call;                                                                                            \
    }
#define SHMEMD_SOME_TYPE(NAME, TYPE, ...)                                    \
    SHMEMD_SOME(NAME, TYPE, wait_until_some, isod_wait_some(h, &s, indices)) \
    SHMEMD_SOME(NAME, TYPE, test_some, isod_test_some(&s, indices))
SHMEM_STD_TYPES(SHMEMD_SOME_TYPE, )

/* ---- ordering (section 9.12) ----
 * These calls cover operations on this PE's handles that were issued by the calling group, and by threads with which it
 * has synchronised before. fence: operations issued before it arrive at each PE before those issued after it. quiet:
 * completes all of them at their targets, gets and non-blocking calls included. pe_quiet: the same for operations
 * towards the npes PEs listed. pe_fence: a fence of operations towards one PE. flush: sources of put_nbi and
 * put_signal_nbi may be written again; it orders nothing, completes nothing at its target, and dest of get_nbi still
 * needs a quiet. Not collective. Paths:
 *
 *                      before \ after         by pointer             by the ring
 *     fence            stores (p, put, set)   one system fence       the fence, then the ring's order
 *                      ring                   waits for the proxy    waits for the proxy
 *     quiet, pe_quiet  stores, gets           waits until visible everywhere
 *                      ring                   waits for the proxy, whose copies (by copy engine too) and messages are
 *                                             then visible at the target
 *     flush            put_nbi                the group synchronises: each thread has read its part of the source
 *     put_signal       its own data           fence; behind the ring: waits for the proxy       the ring's order
 *     put_packet       its own data           in the data            in the data
 *     signal_op, p,    nothing
 *     atomics
 *     barrier          as quiet, then all members; sync: nothing
 *
 * A thread has synchronised with everything that the threads of a group have issued before a shmemd_group_sync of that
 * group, or before the end of a blocking call of that group (put, iput, get, iget, put_signal, packets, waits,
 * collectives; not shmemd_sync_). So after shmemd_X_put_block, or after put_nbi calls and a shmemd_group_sync, the
 * fence and signal_op of one thread follow the data of the whole block. On AMD a barrier of the vendor's own
 * (__syncthreads) is not enough: a fence there waits for the stores of its own wave only, so call shmemd_group_sync.
 *
 * acquire: call it after an atomic or a g of this thread has returned a value. Later calls and loads may then read data
 * that another thread or PE ordered before that value (by fence, quiet, put_signal). After acquire_wave and _block, so
 * may all threads of the group, whichever of them made the atomic. Atomics do not acquire by themselves, and a fence
 * does not on all devices. A lock is taken by
 *     while (shmemd_int_atomic_compare_swap(h, lock, 0, 1, 0) != 0);
 *     shmemd_acquire(h);
 * and given back by shmemd_fence(h); shmemd_int_atomic_set(h, lock, 0, 0). Waits, tests and signal_fetch acquire by
 * themselves.
 *
 * Atomics by pointer count as stores here. Calls of the host and on streams are ordered with a kernel by its start and
 * end. A kernel may end without a quiet. Its operations by pointer are complete then. Its operations by the ring are
 * complete after shmemx_quiet_on_stream or shmemx_barrier_on_stream behind the kernel, or after
 * shmemx_stream_synchronize and then a quiet of the host: shmem_quiet, shmem_barrier_all, shmem_finalize (shmem.h,
 * section 9.12). */
#define SHMEMD_ORDER(name, ...)                                                             \
    PRIM_FN void shmemd_##name##_group(shmemd_t h, shmemd_group_t g) { isod_##name(h, g); } \
    PRIM_FN void shmemd_##name(shmemd_t h) { isod_##name(h, prim_group_thread()); }         \
    PRIM_FN void shmemd_##name##_wave(shmemd_t h) { isod_##name(h, prim_group_wave()); }    \
    PRIM_FN void shmemd_##name##_block(shmemd_t h) { isod_##name(h, prim_group_block()); }
SHMEMD_ORDER(fence, )
SHMEMD_ORDER(quiet, )
SHMEMD_ORDER(flush, )
SHMEMD_ORDER(acquire, )
/* fence towards one PE: operations towards `pe` alone are ordered, which costs as much. */
SHMEMD_FORMS(void, pe_fence, (int pe), SHMEMD_CHECK_PE; (void)pe; isod_fence(h, g);)
SHMEMD_FORMS(void, pe_quiet, (const int *target_pes, size_t npes),
             for (size_t i = 0; i < npes; i++) PRIM_CHECK_PE("target_pes", target_pes[i], h.n_pes);
             isod_pe_quiet(h, g, target_pes, npes);)

/* ---- collectives; threads of one PE ---- */

#include "shmem_device_coll.h"
#include "shmem_device_local.h"

#endif
