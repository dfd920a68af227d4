/* SPDX-License-Identifier: MIT */
/* OpenSHMEM 1.6, host interface. The comment above each family is its contract; section numbers are those of the
 * specification. Extensions are in shmemx.h.
 *
 * Addresses. A symmetric address is the caller's own address of an object that every PE has. Such objects are memory of
 * shmem_malloc and its like, global and static variables of the program (not const, not of a shared library), and
 * buffers given to shmemx_buffer_register. All three work in every call that asks for a symmetric address. Exception:
 * the partial pages at the ends of a registered buffer take puts and gets only. Device memory is symmetric once a
 * device runs: shmemx.h says in which calls; the others end the job with a sentence. `source` of a put and `dest` of a
 * get are any memory. PE arguments count in the team of the context, or in the world where the call has no context.
 *
 * Errors. A call that returns no status ends the job, after one sentence on stderr, when an argument is wrong: a PE out
 * of range, an address that is not symmetric, a range past its segment, a misaligned atomic, an unknown handle, a null
 * pointer for a result. So does a call before shmem_init or after shmem_finalize. Calls of length 0 do nothing, but
 * their PE is checked. A child that a PE forks before shmem_finalize is not part of the job. Each call that needs the
 * job, shmem_init included, ends the child, and only the child, with a sentence. The child has its own copy of the
 * global variables, but shares the heap and registered buffers with its parent.
 *
 * Completion. A put, a non-fetching atomic or a signal is complete at its target after shmem_quiet, or when a wait or
 * test there has seen an update that was ordered behind it. Threads: every call may be made at the thread level in
 * force. */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C++" {
#include <cstddef>
#ifdef __GLIBCXX__ /* <complex> would take longer to compile than all of this header, which has pointers only */
namespace std
{
_GLIBCXX_BEGIN_NAMESPACE_VERSION
template <typename> class complex;
_GLIBCXX_END_NAMESPACE_VERSION
}
#else
#include <complex>
#endif
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

/* Version of these headers: 10000 * major + 100 * minor + patch. The build takes its own version from here.
 * shmem_info_get_name gives the version of the library that runs. */
#define ISOMER_VERSION 200
#define ISOMER_VERSION_STRING "0.2.0"

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

/* pSync and pWrk of active sets must be symmetric and long enough. Their contents are neither read nor written. */
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

/* Opaque values: compared with ==, never dereferenced, valid on the PE that got them. A call that gets a destroyed
 * handle recognises it. */
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

/* Start and end the library. Collective over all PEs of the job. Each shmem_init is balanced by one shmem_finalize; the
 * last shmem_finalize ends the library, which may then be started again. shmem_init ends the job if the library cannot
 * start. */
void shmem_init(void);
void shmem_finalize(void);
/* *initialized becomes 1 between init and the last finalize, else 0. May be called at any time. */
void shmem_query_initialized(int *initialized);
/* The number of this PE, 0 .. shmem_n_pes() - 1, and the number of PEs in the job. */
int shmem_my_pe(void);
int shmem_n_pes(void);
/* Ends all PEs with this status. One PE calls it, and its streams are flushed. Its exit handlers need no finalize. */
SHMEM_NORETURN void shmem_global_exit(int status);
/* 1 if `pe` can be reached, else 0. A PE that does not exist gives 0. */
int shmem_pe_accessible(int pe);
/* 1 if `addr` is a symmetric address by which this PE reaches `pe`, else 0. */
int shmem_addr_accessible(const void *addr, int pe);
/* The address at which the caller loads and stores `pe`'s copy of `dest`. It is not a symmetric address. NULL where
 * there is none: `pe` is on another node, `dest` is not symmetric or is device memory, the team is not valid. A PE that
 * does not exist is an error. */
void *shmem_ptr(const void *dest, int pe);
void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe);
/* The version of the specification: SHMEM_MAJOR_VERSION and SHMEM_MINOR_VERSION. May be called at any time. */
void shmem_info_get_version(int *major, int *minor);
/* `name` has room for SHMEM_MAX_NAME_LEN characters, the final null included. */
void shmem_info_get_name(char *name);

/* Deprecated. */
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);

/* ---- threads (section 9.2) ---- */

/* As shmem_init. `requested` is a SHMEM_THREAD_ level; *provided becomes the level in force. Returns 0, or nonzero if
 * the library did not start. */
int shmem_init_thread(int requested, int *provided);
/* *provided becomes the level in force. */
void shmem_query_thread(int *provided);

/* ---- symmetric memory (section 9.3) ---- */

/* Allocate and free memory of the symmetric heap. Sizes are in bytes. `alignment` is any power of two up to the size of
 * the heap. calloc zeroes the memory, realloc keeps the contents up to the smaller size, the others leave them
 * undefined. Collective over the world, with equal arguments on all PEs. An allocation returns when every PE has the
 * memory. free and realloc begin as shmem_barrier_all: puts into the object have arrived, except those on a private
 * context of another thread. Return NULL for size 0 (realloc frees then). NULL after a sentence: no room is left
 * (SHMEM_SYMMETRIC_SIZE is the cap), or the alignment is no power of two, is above the size of the heap, or needs more
 * address space than there is. A page is first touched by the PE that writes it first, usually its owner. */
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

/* The caller's number in `team`, and the number of its members. -1 for SHMEM_TEAM_INVALID. */
int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
/* Writes the fields of *config that config_mask names; the others stay as they are. Returns 0, or nonzero for
 * SHMEM_TEAM_INVALID. Any other handle that is not a team, and unknown bits of config_mask, are errors. */
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config);
/* The number in dest_team of the PE that is src_pe in src_team, or -1 if it is not a member there. */
int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
/* Makes a team of the PEs start, start + stride, ... of the parent, `size` of them. Collective over parent_team, with
 * equal arguments. *new_team becomes the team on its members and SHMEM_TEAM_INVALID on the others. Returns 0, or
 * nonzero on all PEs when no team was made: also for numbers that name no PE of the parent. */
int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team);
/* Makes a team of each row and each column of a grid: PE i of the parent lies at x = i % xrange, y = i / xrange.
 * Collective over parent_team, with equal arguments. *xaxis_team becomes the team of the caller's row, *yaxis_team that
 * of its column. Returns as shmem_team_split_strided, nonzero for an xrange below 1. */
int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
                        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
                        shmem_team_t *yaxis_team);
/* Destroys the team and its shareable contexts. Collective over the team. When kernels or streams have used the team,
 * each member first waits until all streams of its device are idle. SHMEM_TEAM_INVALID is ignored; SHMEM_TEAM_WORLD and
 * SHMEM_TEAM_SHARED are errors. */
void shmem_team_destroy(shmem_team_t team);

/* ---- contexts (section 9.5) and sessions (section 9.9) ---- */

/* Makes a context. `options` is 0 or SHMEM_CTX_ flags. Not collective. Returns 0; or nonzero, with SHMEM_CTX_INVALID in
 * *ctx: team is SHMEM_TEAM_INVALID, or there is no memory or number left for another one. Unknown flags are an
 * error. */
int shmem_ctx_create(long options, shmem_ctx_t *ctx);
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
/* Destroys the context after a quiet of it. SHMEM_CTX_INVALID is ignored; SHMEM_CTX_DEFAULT is an error. */
void shmem_ctx_destroy(shmem_ctx_t ctx);
/* *team becomes the team of the context. Returns 0; or nonzero for SHMEM_CTX_INVALID, with SHMEM_TEAM_INVALID in *team.
 */
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);
/* Hints around a series of calls on one context. They do not change what the calls promise. Unknown options are
 * ignored. */
void shmem_ctx_session_start(shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask);
void shmem_ctx_session_stop(shmem_ctx_t ctx);

/* ---- remote memory access (section 9.6) ----
 * TYPENAME: the 24 standard RMA types. SIZE: 8, 16, 32, 64, 128 bits; addresses are aligned to the size. mem: bytes.
 * Each call also exists with a context as first argument: shmem_ctx_TYPENAME_put and so on. */

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

/* put: nelems elements from local `source` to symmetric `dest` on `pe`. `source` may be reused on return.
 * get: nelems elements from symmetric `source` on `pe` to local `dest`. The elements are there on return.
 * put_nbi: `source` must not change before the next quiet of the context. get_nbi: `dest` is not valid before it. */
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

/* p: stores one value to symmetric `dest` on `pe`, by one store there. A value of up to 8 bytes is seen whole, and a
 * wait may look for it. g: returns the value of symmetric `source` on `pe`. */
#define SHMEM_DECLARE_P_G(NAME, TYPE, ...)                                      \
    void shmem_##NAME##_p(TYPE *dest, TYPE value, int pe);                      \
    void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe); \
    TYPE shmem_##NAME##_g(const TYPE *source, int pe);                          \
    TYPE shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE *source, int pe);
SHMEM_RMA_TYPES(SHMEM_DECLARE_P_G, )

/* iput, iget: nelems elements; element i goes from source[i * sst] to dest[i * dst]. Strides count elements and are 1
 * or more. ibput, ibget: nblocks blocks of bsize elements; block i goes from source[i * sst] to dest[i * dst]. Strides
 * are bsize or more. Completion as put and get. */
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
 * Each works on one naturally aligned symmetric object of `pe`, exclusively of all other atomics, waits and tests of
 * the same type on that object. Fetching calls return the value before; their _nbi forms write it to local `fetch`,
 * which is valid after quiet. Calls that fetch nothing may return before they are applied. Each is ordered after the
 * caller's earlier stores to memory of the same node: a PE that sees the new value by a wait, test or fetch sees these
 * stores too. On host words they are atomics of the CPU; on words of the device heap (shmemx.h) they are atomics of the
 * device. */

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

/* A put, then the update of *sig_addr on `pe`: SHMEM_SIGNAL_SET writes `signal`, SHMEM_SIGNAL_ADD adds it. A PE that
 * sees the update by a wait, test or signal_fetch sees the data. Both addresses are symmetric, of any kind each, and do
 * not overlap. With nelems 0 only the signal is sent. `source` may be reused on return; for _nbi only after quiet. */
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
/* The caller's own signal word. Data that was put before the update that the value shows is visible. */
uint64_t shmem_signal_fetch(const uint64_t *sig_addr);
/* Waits until *sig_addr compares, by SHMEM_CMP_, with cmp_value. Returns the value that satisfied the comparison. */
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);

/* ---- collectives (section 9.10) ----
 * Called by all members of the team, in the same order, with equal counts and roots; `dest` and `source` are the same
 * symmetric objects on all members. dest and source must not overlap; reductions and scans also allow dest == source.
 * On return dest is complete and source may be reused on the calling PE. They return 0, or nonzero for
 * SHMEM_TEAM_INVALID. SHMEM_DEBUG=1 compares call, counts and root across PEs, and finds overlaps in all calls. */

/* Waits for all PEs, and completes all operations of the caller on the default context (quiet). */
void shmem_barrier_all(void);
/* Waits for all PEs of the world or the team. Own stores are visible afterwards; puts need a quiet before the call. */
void shmem_sync_all(void);
int shmem_team_sync(shmem_team_t team);

/* Counts are elements; the mem forms count bytes.
 * broadcast: nelems from PE_root's source to dest on all members, the root included.
 * collect: the sources of all members one after another in PE order; nelems may differ. fcollect: the same with equal
 * nelems.
 * alltoall: block j (nelems) of the source of PE i becomes block i of dest on PE j. alltoalls: the same with strides
 * between elements. */
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

/* sum_inscan: PE i gets the sum over PEs 0..i. sum_exscan: PE i gets the sum over PEs 0..i-1, and PE 0 gets 0. */
#define SHMEM_DECLARE_SCAN(op, ...) SHMEM_SUM_TYPES(SHMEM_DECLARE_SCAN_TYPE, op)
#define SHMEM_DECLARE_SCAN_TYPE(NAME, TYPE, op) \
    int shmem_##NAME##_##op(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);
SHMEM_SCAN_OPS(SHMEM_DECLARE_SCAN, )

/* Deprecated: active sets. Members are the PEs PE_start + i * 2^logPE_stride, i < PE_size. shmem_barrier includes a
 * quiet of the default context. broadcast does not write the root's dest. There may be any number of sets and of pSync
 * arrays. Threads of one PE that are in calls on the same set at the same time pass different pSync. */
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
 * Waits for and tests of symmetric words of the calling PE, which other PEs or threads change by p, atomics or signals.
 * `cmp` is a SHMEM_CMP_ constant. status[i] != 0 leaves element i out; status may be NULL. _vector compares element i
 * with cmp_values[i]. For an empty set, all is satisfied at once, any gives SIZE_MAX, some gives 0. any and some find
 * every element that stays satisfied within finitely many calls. When a wait returns or a test succeeds, everything
 * that the changing PE ordered before its change (fence, quiet, put_signal) is visible. A wait that lasts longer than
 * SHMEM_TIMEOUT goes on; one report for the PEs of a node says which PEs wait, in which call, and for which PE. */

/* Standard AMO types. Also short and unsigned short: deprecated, and for arrays an extension. */
#define SHMEM_DECLARE_P2P(NAME, TYPE, ...)                               \
    void shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE cmp_value); \
    int shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE cmp_value);
SHMEM_P2P_TYPES(SHMEM_DECLARE_P2P, )

/* Arrays of these types: all and any of wait_until and test. any returns the index that it found. */
#define SHMEM_DECLARE_ARRAY(R, op, ...) SHMEM_P2P_TYPES(SHMEM_DECLARE_ARRAY_TYPE, R, op)
#define SHMEM_DECLARE_ARRAY_TYPE(NAME, TYPE, R, op)                                                \
    R shmem_##NAME##_##op(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value); \
    R shmem_##NAME##_##op##_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);
SHMEM_ARRAY_WAIT_OPS(SHMEM_DECLARE_ARRAY, )
/* some: writes the satisfied elements to `indices`, which has room for nelems. Returns their number. */
#define SHMEM_DECLARE_SOME(op, ...) SHMEM_P2P_TYPES(SHMEM_DECLARE_SOME_TYPE, op)
#define SHMEM_DECLARE_SOME_TYPE(NAME, TYPE, op)                                                                  \
    size_t shmem_##NAME##_##op(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp,          \
                               TYPE cmp_value);                                                                  \
    size_t shmem_##NAME##_##op##_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                                        const TYPE *cmp_values);
SHMEM_ARRAY_SOME_OPS(SHMEM_DECLARE_SOME, )

/* Deprecated: waits while *ivar equals cmp_value. In C++, shmem_wait_until is a set of overloads instead. */
#define SHMEM_DECLARE_OLD_WAIT(NAME, TYPE, ...) void shmem_##NAME##_wait(TYPE *ivar, TYPE cmp_value);
SHMEM_OLD_WAIT_TYPES(SHMEM_DECLARE_OLD_WAIT, )
void shmem_wait(long *ivar, long cmp_value);
#if !defined(__cplusplus) || defined(SHMEM_NO_GENERIC)
void shmem_wait_until(long *ivar, int cmp, long cmp_value);
#endif

/* ---- ordering (section 9.12) ---- */

/* fence: puts, p, signals and atomics of the context that come before it arrive at each PE before those that come after
 * it. quiet: completes all operations of the context at their targets, non-blocking ones included. pe_quiet: the same
 * for operations towards the npes PEs listed. Not collective.
 *
 * An operation of a kernel of this PE (shmem_device.h) belongs to the default context as soon as the host has seen the
 * end of the kernel, for instance by shmemx_stream_synchronize. From then on every call that fences or quiets the
 * default context covers it: those below, shmem_barrier_all, shmem_barrier, shmem_clear_lock, shmem_free and
 * shmem_finalize. None of them waits for operations of a kernel that still runs. */
void shmem_fence(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_quiet(void);
void shmem_ctx_quiet(shmem_ctx_t ctx);
void shmem_pe_quiet(const int *target_pes, size_t npes);
void shmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes);

/* ---- locks (section 9.13) ---- */

/* Locks of the whole job, granted in order of arrival. `lock` is a symmetric word, zero at first, used by these calls
 * only. test_lock returns 0 when it took the lock, and 1 when another PE or thread has it. clear_lock begins with a
 * quiet of the default context. A PE whose only thread waits for a lock that it holds waits for ever; SHMEM_DEBUG=1
 * ends such a PE. */
void shmem_set_lock(long *lock);
int shmem_test_lock(long *lock);
void shmem_clear_lock(long *lock);

/* ---- profiling (section 10): pshmem.h declares the second name of every function ---- */

void shmem_pcontrol(int level, ...);

/* ---- sanitizers ---- */

/* Under AddressSanitizer leaks of libpmix are not reported: it frees little of what it allocates at start. A function of
 * this name in the program takes the place of this one. A file that has it and includes this header defines
 * SHMEM_NO_SUPPRESSIONS before. */
#if defined(SHMEM_NO_SUPPRESSIONS)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHMEM_WITH_LEAK_REPORTS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SHMEM_WITH_LEAK_REPORTS
#endif
#ifdef SHMEM_WITH_LEAK_REPORTS
const char *__lsan_default_suppressions(void);
__attribute__((weak)) const char *__lsan_default_suppressions(void) { return "leak:libpmix\n"; }
#endif

#ifdef __cplusplus
}
#endif

/* The type-generic names: C11 _Generic, C++ overloads. A tool that defines functions of the same names (shmem_sync,
 * shmem_wait_until, ...) defines SHMEM_NO_GENERIC before this header. */
#ifndef SHMEM_NO_GENERIC
#include "shmem_generic.h"
#endif

#endif
