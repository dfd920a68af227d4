/* SPDX-License-Identifier: MIT */
/* OpenSHMEM 1.6, host interface. The comment above each family is its contract; section numbers are those of the
 * specification. Extensions are in shmemx.h.
 *
 * Addresses. A symmetric address is the caller's own address of an object that every PE has: memory of shmem_malloc and
 * its like, a global or static variable of the program (not const, not of a shared library), or a buffer given to
 * shmemx_buffer_register. All three work in every call that asks for a symmetric address, but for the partial pages at
 * the ends of a registered buffer, which take puts and gets only. Device memory is symmetric once a device runs:
 * shmemx.h says in which calls, the others end the job with a sentence. `source` of a put and `dest` of a get are any
 * memory. PE arguments count in the team of the context: the world, where the call has no context.
 *
 * Errors. A call without a status that is called wrongly (PE out of range, address not symmetric, range past its
 * segment, misaligned atomic, unknown handle, null pointer for a result, before shmem_init or after shmem_finalize)
 * says so in one sentence on stderr and ends the job. Zero lengths do nothing, but their PE is checked. A child that a
 * PE forks has no part in the job: each call that needs the job, and shmem_init too, ends the child, and only the
 * child, with a sentence. It has its own copy of the global variables, but shares the heap and registered buffers with
 * its parent.
 *
 * Completion. A put, a non-fetching atomic or a signal is complete at its target after shmem_quiet, or when a wait or
 * test there has seen something ordered behind it. Threads: every call may be made at the thread level in force. */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C++" {
#include <complex>
}
#define SHMEM_COMPLEX(T) std::complex<T>
#else
#define SHMEM_COMPLEX(T) T _Complex
#endif

#include "shmem_types.h"

#if defined(__cplusplus)
#define SHMEM_NORETURN [[noreturn]]
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define SHMEM_NORETURN _Noreturn
#else
#define SHMEM_NORETURN __attribute__((noreturn))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- constants (section 6); a leading underscore is the deprecated spelling ---- */

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 6
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "Isomer " ISOMER_VERSION_STRING

/* The version of the headers, ours: 10000 * major + 100 * minor + patch. The build takes its own from here. The version
 * of the library that runs: shmem_info_get_name. */
#define ISOMER_VERSION 100
#define ISOMER_VERSION_STRING "0.1.0"

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

#define SHMEM_CMP_EQ 1
#define SHMEM_CMP_NE 2
#define SHMEM_CMP_LT 3
#define SHMEM_CMP_LE 4
#define SHMEM_CMP_GT 5
#define SHMEM_CMP_GE 6

#define SHMEM_SIGNAL_SET 1
#define SHMEM_SIGNAL_ADD 2

#define SHMEM_CTX_SERIALIZED (1L << 0)
#define SHMEM_CTX_PRIVATE (1L << 1)
#define SHMEM_CTX_NOSTORE (1L << 2)
#define SHMEM_CTX_SESSION_BATCH (1L << 0)
#define SHMEM_CTX_SESSION_TOTAL_OPS (1L << 0)
#define SHMEM_TEAM_NUM_CONTEXTS (1L << 0)
#define SHMEM_MALLOC_ATOMICS_REMOTE (1L << 0)
#define SHMEM_MALLOC_SIGNAL_REMOTE (1L << 1)

/* pSync and pWrk of active sets: must be symmetric and long enough; their contents are neither read nor written. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 8
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

/* ---- handles and configurations (sections 7, 9.4, 9.5, 9.9) ---- */

/* Opaque values, compared with ==, never dereferenced, valid on the PE that got them. A destroyed handle is recognised
 * when it is used again. */
typedef struct shmem_team *shmem_team_t;
typedef struct shmem_ctx *shmem_ctx_t;

#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2) /* the PEs that share pointers with the caller, its node */
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)

typedef struct {
    int num_contexts; /* contexts that will be made from the team; mask SHMEM_TEAM_NUM_CONTEXTS */
} shmem_team_config_t;

typedef struct {
    size_t total_ops; /* expected RMA calls of the session; mask SHMEM_CTX_SESSION_TOTAL_OPS */
} shmem_ctx_session_config_t;

/* ---- set-up, exit and queries (section 9.1) ---- */

/* Collective over all PEs of the job. Each call is balanced by one shmem_finalize; the library ends with the last of
 * these and may then be started again. shmem_init ends the job if it cannot start. */
void shmem_init(void);
void shmem_finalize(void);
/* *initialized becomes 1 between init and the last finalize, else 0. Works at any time. */
void shmem_query_initialized(int *initialized);
/* This PE, 0 .. shmem_n_pes() - 1, and the number of PEs in the job. */
int shmem_my_pe(void);
int shmem_n_pes(void);
/* One PE ends all PEs with this status; open streams of the caller are flushed. */
SHMEM_NORETURN void shmem_global_exit(int status);
/* 1 if `pe` can be reached, else 0: also for a PE that does not exist. */
int shmem_pe_accessible(int pe);
/* 1 if `addr` is a symmetric address by which this PE reaches `pe`, else 0. */
int shmem_addr_accessible(const void *addr, int pe);
/* The address at which the caller loads and stores `pe`'s copy of `dest`, or NULL where that is not possible (another
 * node, an address that is not symmetric, device memory, a team that is none). It is no symmetric address. A PE that
 * does not exist is an error. */
void *shmem_ptr(const void *dest, int pe);
void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe);
void shmem_info_get_version(int *major, int *minor);
/* `name` has room for SHMEM_MAX_NAME_LEN characters, the final null included. */
void shmem_info_get_name(char *name);

/* Deprecated. */
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);

/* ---- threads (section 9.2) ---- */

/* As shmem_init, with a SHMEM_THREAD_ level; *provided is the level in force. Nonzero: the library did not start. */
int shmem_init_thread(int requested, int *provided);
void shmem_query_thread(int *provided);

/* ---- symmetric memory (section 9.3) ---- */

/* All collective over the world, with equal arguments on all PEs; all but calloc's zeroing leave contents undefined.
 * They return when every PE has the memory; free and realloc begin as shmem_barrier_all: what was put into the object
 * is there, but for contexts that another thread has to itself. Size 0 gives NULL (and frees, in realloc). NULL when
 * no PE has room left, after a sentence with the numbers. `alignment` is any power of two up to the size of the heap;
 * above, or where the address space is too small for it, NULL after a sentence with what is possible. Pages are first
 * touched by whoever writes them first, usually their owner. */
void *shmem_malloc(size_t size);
void *shmem_calloc(size_t count, size_t size);
void *shmem_align(size_t alignment, size_t size);
void *shmem_realloc(void *ptr, size_t size);
void shmem_free(void *ptr);
/* hints: 0 or SHMEM_MALLOC_ flags combined by |. */
void *shmem_malloc_with_hints(size_t size, long hints);

/* Deprecated. */
void *shmalloc(size_t size);
void *shmemalign(size_t alignment, size_t size);
void *shrealloc(void *ptr, size_t size);
void shfree(void *ptr);

/* ---- teams (section 9.4) ---- */

/* The caller's number in `team` and its size, -1 for SHMEM_TEAM_INVALID. */
int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
/* 0, or nonzero for SHMEM_TEAM_INVALID; any other handle that is no team, and bits of config_mask that are not known,
 * are errors. Fields not in config_mask stay as they are. */
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config);
/* The number in dest_team of the PE that is src_pe in src_team, -1 where there is none. */
int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
/* Collective over parent_team, equal arguments. Members are start, start + stride, ... of the parent, `size` of them;
 * others get SHMEM_TEAM_INVALID in *new_team. 0, or nonzero on all where no team was made. */
int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team);
/* Collective over parent_team. PE i of the parent lies at x = i % xrange, y = i / xrange; it gets the team of its row
 * in *xaxis_team and that of its column in *yaxis_team. */
int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
                        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
                        shmem_team_t *yaxis_team);
/* Collective over the team. Its shareable contexts go with it. When kernels or streams have used it, each member waits
 * first until all streams of its device are idle. */
void shmem_team_destroy(shmem_team_t team);

/* ---- contexts (section 9.5) and sessions (section 9.9) ---- */

/* Not collective. options: 0 or SHMEM_CTX_ flags. 0, or nonzero and SHMEM_CTX_INVALID in *ctx. */
int shmem_ctx_create(long options, shmem_ctx_t *ctx);
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
/* Completes what is outstanding on it (a quiet). SHMEM_CTX_INVALID is ignored, SHMEM_CTX_DEFAULT an error. */
void shmem_ctx_destroy(shmem_ctx_t ctx);
/* 0, or nonzero and SHMEM_TEAM_INVALID in *team for SHMEM_CTX_INVALID. */
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);
/* Hints around a series of calls on one context; they change nothing in what the calls promise. Options that are not
 * known are ignored. */
void shmem_ctx_session_start(shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask);
void shmem_ctx_session_stop(shmem_ctx_t ctx);

/* ---- remote memory access (section 9.6) ----
 * TYPENAME: the 24 standard RMA types. SIZE: 8, 16, 32, 64, 128 bits, addresses aligned to it. mem: bytes. Each also
 * with a context in front: shmem_ctx_TYPENAME_put and so on. */

#define SHMEM_DECLARE_COPY(name, T)                                     \
    void shmem_##name(T *dest, const T *source, size_t nelems, int pe); \
    void shmem_ctx_##name(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, int pe);
#define SHMEM_DECLARE_STRIDED(name, T)                                                                            \
    void shmem_##name(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);             \
    void shmem_ctx_##name(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                          int pe);
#define SHMEM_DECLARE_BLOCKS(name, T)                                                                                \
    void shmem_##name(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe); \
    void shmem_ctx_##name(shmem_ctx_t ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,     \
                          size_t nblocks, int pe);

/* put: nelems elements from local `source` to symmetric `dest` on `pe`; `source` may be reused on return.
 * get: nelems elements from symmetric `source` on `pe` to local `dest`; they are there on return.
 * put_nbi: `source` must not change, get_nbi: `dest` is not valid, before the next quiet of that context. */
#define SHMEM_DECLARE_RMA(NAME, TYPE, ...)   \
    SHMEM_DECLARE_COPY(NAME##_put, TYPE)     \
    SHMEM_DECLARE_COPY(NAME##_get, TYPE)     \
    SHMEM_DECLARE_COPY(NAME##_put_nbi, TYPE) \
    SHMEM_DECLARE_COPY(NAME##_get_nbi, TYPE)
SHMEM_RMA_TYPES(SHMEM_DECLARE_RMA, )
#define SHMEM_DECLARE_RMA_SIZE(BITS, BYTES, ...) \
    SHMEM_DECLARE_COPY(put##BITS, void)          \
    SHMEM_DECLARE_COPY(get##BITS, void)          \
    SHMEM_DECLARE_COPY(put##BITS##_nbi, void)    \
    SHMEM_DECLARE_COPY(get##BITS##_nbi, void)
SHMEM_SIZES(SHMEM_DECLARE_RMA_SIZE, )
SHMEM_DECLARE_RMA_SIZE(mem, 1, )

/* p: one value to symmetric `dest` on `pe`, one store there; `value` is free on return. Up to 8 bytes it is seen whole,
 * and may be waited for. g: the value of symmetric `source` on `pe`. */
#define SHMEM_DECLARE_P_G(NAME, TYPE, ...)                                      \
    void shmem_##NAME##_p(TYPE *dest, TYPE value, int pe);                      \
    void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe); \
    TYPE shmem_##NAME##_g(const TYPE *source, int pe);                          \
    TYPE shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE *source, int pe);
SHMEM_RMA_TYPES(SHMEM_DECLARE_P_G, )

/* iput, iget: nelems elements; element i is taken from source[i * sst] and goes to dest[i * dst]. Strides count
 * elements, 1 or more. ibput, ibget: nblocks blocks of bsize elements; block i is taken from source[i * sst] and goes
 * to dest[i * dst], strides of bsize or more. Completion as put and get. */
#define SHMEM_DECLARE_STRIDED_TYPE(NAME, TYPE, ...) \
    SHMEM_DECLARE_STRIDED(NAME##_iput, TYPE)        \
    SHMEM_DECLARE_STRIDED(NAME##_iget, TYPE)        \
    SHMEM_DECLARE_BLOCKS(NAME##_ibput, TYPE)        \
    SHMEM_DECLARE_BLOCKS(NAME##_ibget, TYPE)
SHMEM_RMA_TYPES(SHMEM_DECLARE_STRIDED_TYPE, )
#define SHMEM_DECLARE_STRIDED_SIZE(BITS, BYTES, ...) \
    SHMEM_DECLARE_STRIDED(iput##BITS, void)          \
    SHMEM_DECLARE_STRIDED(iget##BITS, void)          \
    SHMEM_DECLARE_BLOCKS(ibput##BITS, void)          \
    SHMEM_DECLARE_BLOCKS(ibget##BITS, void)
SHMEM_SIZES(SHMEM_DECLARE_STRIDED_SIZE, )

/* ---- atomic memory operations (section 9.7) ----
 * On one naturally aligned symmetric object of `pe`, exclusive of all other atomics, waits and tests on it by the same
 * type. The fetching ones return the value before; _nbi ones put it into local `fetch`, valid after quiet. The others
 * may return before they are applied. Each is ordered after the caller's earlier stores to memory of the same node, so
 * whoever sees the new value by a wait, test or fetch sees these too. On host words they are atomics of the CPU, on
 * words of the device heap (shmemx.h) those of the device. */

/* Extended AMO types (floating point among them). */
#define SHMEM_DECLARE_EXT(NAME, TYPE, ...)                                                              \
    TYPE shmem_##NAME##_atomic_fetch(const TYPE *source, int pe);                                       \
    TYPE shmem_ctx_##NAME##_atomic_fetch(shmem_ctx_t ctx, const TYPE *source, int pe);                  \
    void shmem_##NAME##_atomic_fetch_nbi(TYPE *fetch, const TYPE *source, int pe);                      \
    void shmem_ctx_##NAME##_atomic_fetch_nbi(shmem_ctx_t ctx, TYPE *fetch, const TYPE *source, int pe); \
    void shmem_##NAME##_atomic_set(TYPE *dest, TYPE value, int pe);                                     \
    void shmem_ctx_##NAME##_atomic_set(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe);                \
    TYPE shmem_##NAME##_atomic_swap(TYPE *dest, TYPE value, int pe);                                    \
    TYPE shmem_ctx_##NAME##_atomic_swap(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe);               \
    void shmem_##NAME##_atomic_swap_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe);                   \
    void shmem_ctx_##NAME##_atomic_swap_nbi(shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE value, int pe);
SHMEM_EXT_TYPES(SHMEM_DECLARE_EXT, )

/* Standard AMO types. compare_swap writes `value` if the object equals `cond`. */
#define SHMEM_DECLARE_STD(NAME, TYPE, ...)                                                                           \
    TYPE shmem_##NAME##_atomic_compare_swap(TYPE *dest, TYPE cond, TYPE value, int pe);                              \
    TYPE shmem_ctx_##NAME##_atomic_compare_swap(shmem_ctx_t ctx, TYPE *dest, TYPE cond, TYPE value, int pe);         \
    void shmem_##NAME##_atomic_compare_swap_nbi(TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe);             \
    void shmem_ctx_##NAME##_atomic_compare_swap_nbi(shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, \
                                                    int pe);                                                         \
    void shmem_##NAME##_atomic_inc(TYPE *dest, int pe);                                                              \
    void shmem_ctx_##NAME##_atomic_inc(shmem_ctx_t ctx, TYPE *dest, int pe);                                         \
    TYPE shmem_##NAME##_atomic_fetch_inc(TYPE *dest, int pe);                                                        \
    TYPE shmem_ctx_##NAME##_atomic_fetch_inc(shmem_ctx_t ctx, TYPE *dest, int pe);                                   \
    void shmem_##NAME##_atomic_fetch_inc_nbi(TYPE *fetch, TYPE *dest, int pe);                                       \
    void shmem_ctx_##NAME##_atomic_fetch_inc_nbi(shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, int pe);                  \
    SHMEM_DECLARE_UPDATE(NAME, TYPE, atomic_add, atomic_fetch_add)
#define SHMEM_DECLARE_UPDATE(NAME, TYPE, op, fetch_op)                                   \
    void shmem_##NAME##_##op(TYPE *dest, TYPE value, int pe);                            \
    void shmem_ctx_##NAME##_##op(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe);       \
    TYPE shmem_##NAME##_##fetch_op(TYPE *dest, TYPE value, int pe);                      \
    TYPE shmem_ctx_##NAME##_##fetch_op(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe); \
    void shmem_##NAME##_##fetch_op##_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe);   \
    void shmem_ctx_##NAME##_##fetch_op##_nbi(shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE value, int pe);
SHMEM_STD_TYPES(SHMEM_DECLARE_STD, )

/* Bitwise AMO types: and, or, xor. */
#define SHMEM_DECLARE_BIT(op, fetch_op, ...) SHMEM_BIT_TYPES(SHMEM_DECLARE_BIT_TYPE, op, fetch_op)
#define SHMEM_DECLARE_BIT_TYPE(NAME, TYPE, op, fetch_op) SHMEM_DECLARE_UPDATE(NAME, TYPE, op, fetch_op)
SHMEM_BIT_OPS(SHMEM_DECLARE_BIT, )

/* Deprecated: atomic_fetch, atomic_set, atomic_swap; atomic_compare_swap, atomic_fetch_inc and so on. */
#define SHMEM_DECLARE_OLD_EXT(NAME, TYPE, ...)               \
    TYPE shmem_##NAME##_fetch(const TYPE *source, int pe);   \
    void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe); \
    TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe);
SHMEM_OLD_EXT_TYPES(SHMEM_DECLARE_OLD_EXT, )
#define SHMEM_DECLARE_OLD_STD(NAME, TYPE, ...)                            \
    TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe); \
    TYPE shmem_##NAME##_finc(TYPE *dest, int pe);                         \
    void shmem_##NAME##_inc(TYPE *dest, int pe);                          \
    TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe);             \
    void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe);
SHMEM_OLD_STD_TYPES(SHMEM_DECLARE_OLD_STD, )

/* ---- signals (section 9.8) ---- */

/* A put, then the update of *sig_addr on `pe` (SHMEM_SIGNAL_SET writes `signal`, SHMEM_SIGNAL_ADD adds it): whoever
 * sees the update by a wait, test or signal_fetch sees the data. Both addresses are symmetric, of any kind each; they
 * do not overlap. With nelems 0 only the signal is sent. _nbi: `source` must not change before quiet. */
#define SHMEM_DECLARE_SIGNAL(name, T)                                                                           \
    void shmem_##name(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, \
                      int pe);                                                                                  \
    void shmem_ctx_##name(shmem_ctx_t ctx, T *dest, const T *source, size_t nelems, uint64_t *sig_addr,         \
                          uint64_t signal, int sig_op, int pe);
#define SHMEM_DECLARE_SIGNAL_TYPE(NAME, TYPE, ...) \
    SHMEM_DECLARE_SIGNAL(NAME##_put_signal, TYPE)  \
    SHMEM_DECLARE_SIGNAL(NAME##_put_signal_nbi, TYPE)
SHMEM_RMA_TYPES(SHMEM_DECLARE_SIGNAL_TYPE, )
#define SHMEM_DECLARE_SIGNAL_SIZE(BITS, BYTES, ...) \
    SHMEM_DECLARE_SIGNAL(put##BITS##_signal, void)  \
    SHMEM_DECLARE_SIGNAL(put##BITS##_signal_nbi, void)
SHMEM_SIZES(SHMEM_DECLARE_SIGNAL_SIZE, )
SHMEM_DECLARE_SIGNAL_SIZE(mem, 1, )

/* The update alone. */
void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe);
void shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe);
/* The caller's own signal word; what was put before the update it shows is visible. */
uint64_t shmem_signal_fetch(const uint64_t *sig_addr);
/* Waits until *sig_addr compares, by SHMEM_CMP_, with cmp_value; returns the value that did. */
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

/* ---- collectives (section 9.10) ----
 * Called by all members of the team, in the same order, with equal counts and roots; `dest` and `source` are the same
 * symmetric objects on all. They return 0, when dest is complete and source free on the calling PE, and nonzero for
 * SHMEM_TEAM_INVALID; SHMEM_DEBUG=1 compares call, counts and root across PEs. Overlap of dest and source is allowed
 * only for reductions and scans, and there only as dest == source; SHMEM_DEBUG=1 finds it in the others too. */

/* All PEs; completes all operations of the caller on the default context too (quiet). */
void shmem_barrier_all(void);
/* Arrival only; own stores are visible afterwards, puts need their quiet before. */
void shmem_sync_all(void);
int shmem_team_sync(shmem_team_t team);

/* n: PEs of the team. broadcast: nelems from PE_root's source to all dest, the root's too. collect: the sources one
 * after another in PE order, nelems may differ; fcollect: equal nelems. alltoall: block j of the source of PE i (nelems
 * long) becomes block i of dest of PE j. alltoalls: the same with strides between elements. mem: elements are bytes. */
#define SHMEM_DECLARE_MOVE(name, T) int shmem_##name(shmem_team_t team, T *dest, const T *source, size_t nelems);
#define SHMEM_DECLARE_ALLTOALLS(name, T) \
    int shmem_##name(shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
#define SHMEM_DECLARE_BROADCAST(name, T) \
    int shmem_##name(shmem_team_t team, T *dest, const T *source, size_t nelems, int PE_root);
#define SHMEM_DECLARE_MOVES(NAME, TYPE, ...)        \
    SHMEM_DECLARE_MOVE(NAME##_alltoall, TYPE)       \
    SHMEM_DECLARE_ALLTOALLS(NAME##_alltoalls, TYPE) \
    SHMEM_DECLARE_BROADCAST(NAME##_broadcast, TYPE) \
    SHMEM_DECLARE_MOVE(NAME##_collect, TYPE)        \
    SHMEM_DECLARE_MOVE(NAME##_fcollect, TYPE)
SHMEM_RMA_TYPES(SHMEM_DECLARE_MOVES, )
SHMEM_DECLARE_MOVE(alltoallmem, void)
SHMEM_DECLARE_ALLTOALLS(alltoallsmem, void)
SHMEM_DECLARE_BROADCAST(broadcastmem, void)
SHMEM_DECLARE_MOVE(collectmem, void)
SHMEM_DECLARE_MOVE(fcollectmem, void)

/* Element-wise over the members: dest[k] = source[k] of PE 0 op source[k] of PE 1 op ... Results are bit-identical on
 * all PEs, and from run to run with the same algorithm and job shape. */
#define SHMEM_DECLARE_REDUCE(op, set_op, GROUP, ...) SHMEM_##GROUP##_TYPES(SHMEM_DECLARE_REDUCE_TYPE, op)
#define SHMEM_DECLARE_REDUCE_TYPE(NAME, TYPE, op) \
    int shmem_##NAME##_##op(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce);
SHMEM_REDUCE_OPS(SHMEM_DECLARE_REDUCE, )

/* sum_inscan: PE i gets the sum over PEs 0..i; sum_exscan: over 0..i-1, PE 0 gets 0. */
#define SHMEM_DECLARE_SCAN(op, ...) SHMEM_SUM_TYPES(SHMEM_DECLARE_SCAN_TYPE, op)
#define SHMEM_DECLARE_SCAN_TYPE(NAME, TYPE, op) \
    int shmem_##NAME##_##op(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);
SHMEM_SCAN_OPS(SHMEM_DECLARE_SCAN, )

/* Deprecated: active sets. Members are PE_start + i * 2^logPE_stride, i < PE_size. shmem_barrier includes a quiet of
 * the default context. broadcast does not write the root's dest. Sets and pSync arrays may be any number. Threads of
 * one PE that are in calls on the same set at the same time give different pSync. */
#define SHMEM_ACTIVE_SET int PE_start, int logPE_stride, int PE_size
void shmem_barrier(SHMEM_ACTIVE_SET, long *pSync);
void shmem_sync(SHMEM_ACTIVE_SET, long *pSync);
#define SHMEM_DECLARE_SET_MOVES(BITS, BYTES, ...)                                                            \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, SHMEM_ACTIVE_SET, long *pSync); \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,  \
                               SHMEM_ACTIVE_SET, long *pSync);                                               \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, SHMEM_ACTIVE_SET, \
                               long *pSync);                                                                 \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, SHMEM_ACTIVE_SET, long *pSync);  \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, SHMEM_ACTIVE_SET, long *pSync);
SHMEM_SET_SIZES(SHMEM_DECLARE_SET_MOVES, )
#define SHMEM_DECLARE_SET_REDUCE(op, set_op, GROUP, ...) \
    SHMEM_SET_##GROUP##_TYPES(SHMEM_DECLARE_SET_REDUCE_TYPE, set_op)
#define SHMEM_DECLARE_SET_REDUCE_TYPE(NAME, TYPE, set_op)                                                   \
    void shmem_##NAME##_##set_op(TYPE *dest, const TYPE *source, int nreduce, SHMEM_ACTIVE_SET, TYPE *pWrk, \
                                 long *pSync);
SHMEM_REDUCE_OPS(SHMEM_DECLARE_SET_REDUCE, )

/* ---- point-to-point synchronization (section 9.11) ----
 * On symmetric words of the calling PE that other PEs or threads change by p, atomics or signals. `cmp` is a SHMEM_CMP_
 * constant. What the changing PE ordered before its change (fence, quiet, put_signal) is visible when a wait returns or
 * a test succeeds. status[i] != 0 leaves element i out, status may be NULL. _vector: element i is compared with
 * cmp_values[i]. The empty set: all is satisfied at once, any gives SIZE_MAX, some gives 0. any and some find every
 * element that stays satisfied within finitely many calls. A wait past SHMEM_TIMEOUT goes on; one report for the
 * PEs of a node says which of them wait, in which call, and for waited. */

/* Standard AMO types; short and unsigned short too (deprecated, and of arrays an extension). */
#define SHMEM_DECLARE_P2P(NAME, TYPE, ...)                               \
    void shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE cmp_value); \
    int shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE cmp_value);
SHMEM_P2P_TYPES(SHMEM_DECLARE_P2P, )

/* Arrays of these types: all and any of wait_until and test. any returns the index found. */
#define SHMEM_DECLARE_ARRAY(R, op, ...) SHMEM_P2P_TYPES(SHMEM_DECLARE_ARRAY_TYPE, R, op)
#define SHMEM_DECLARE_ARRAY_TYPE(NAME, TYPE, R, op)                                                \
    R shmem_##NAME##_##op(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value); \
    R shmem_##NAME##_##op##_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);
SHMEM_ARRAY_WAIT_OPS(SHMEM_DECLARE_ARRAY, )
/* some: `indices` (room for nelems) gets the satisfied elements, their number is returned. */
#define SHMEM_DECLARE_SOME(op, ...) SHMEM_P2P_TYPES(SHMEM_DECLARE_SOME_TYPE, op)
#define SHMEM_DECLARE_SOME_TYPE(NAME, TYPE, op)                                                                  \
    size_t shmem_##NAME##_##op(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp,          \
                               TYPE cmp_value);                                                                  \
    size_t shmem_##NAME##_##op##_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                                        const TYPE *cmp_values);
SHMEM_ARRAY_SOME_OPS(SHMEM_DECLARE_SOME, )

/* Deprecated: wait while *ivar equals cmp_value. In C++, shmem_wait_until is a set of overloads instead. */
#define SHMEM_DECLARE_OLD_WAIT(NAME, TYPE, ...) void shmem_##NAME##_wait(TYPE *ivar, TYPE cmp_value);
SHMEM_OLD_WAIT_TYPES(SHMEM_DECLARE_OLD_WAIT, )
void shmem_wait(long *ivar, long cmp_value);
#if !defined(__cplusplus) || defined(SHMEM_NO_GENERIC)
void shmem_wait_until(long *ivar, int cmp, long cmp_value);
#endif

/* ---- ordering (section 9.12) ---- */

/* fence: puts, p, signals and atomics of the context before it arrive at each PE before those after it.
 * quiet: all operations of the context are complete at their targets, non-blocking ones too; pe_quiet: those towards
 * the npes PEs listed. Not collective.
 * An operation of a kernel of this PE (shmem_device.h) belongs to the default context as soon as the host has seen the
 * end of the kernel, by shmemx_stream_synchronize for instance. So all calls that fence or quiet the default context
 * cover it: those below, shmem_barrier_all, shmem_barrier, shmem_clear_lock, shmem_free and shmem_finalize. None of
 * them waits for what a kernel sends that still runs. */
void shmem_fence(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_quiet(void);
void shmem_ctx_quiet(shmem_ctx_t ctx);
void shmem_pe_quiet(const int *target_pes, size_t npes);
void shmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes);

/* ---- locks (section 9.13) ---- */

/* `lock` is a symmetric word, zero at first, used by these calls only; one lock for the whole job, first come first
 * served. test_lock: 0 when the lock was taken, 1 when another PE or thread has it. clear_lock begins with a quiet of
 * the default context. A PE whose only thread waits for a lock that it holds waits for ever: SHMEM_DEBUG=1 ends it. */
void shmem_set_lock(long *lock);
int shmem_test_lock(long *lock);
void shmem_clear_lock(long *lock);

/* ---- profiling (section 10): pshmem.h has the second name of every function ---- */

void shmem_pcontrol(int level, ...);

#ifdef __cplusplus
}
#endif

/* The type-generic names: C11 _Generic, C++ overloads. A tool that defines functions of the same names (shmem_sync,
 * shmem_wait_until, ...) turns them off by defining SHMEM_NO_GENERIC first. */
#ifndef SHMEM_NO_GENERIC
#include "shmem_generic.h"
#endif

#endif
