// SPDX-License-Identifier: MIT
// rocSHMEM's names over this library, for programs that are written for it: the host, and kernels for AMD or for the
// CPU device. Put include/compat before rocSHMEM's own folder on the include path, and link libisomer. What each name
// does, what differs and what is missing: docs/rocshmem.md. A name that is missing is a compile-time error.
//
// Kernels have no handle here: each translation unit keeps one in constant memory, which rocshmem_init fills, with and
// without -fgpu-rdc.
//
// Contexts name a team, in which the PE numbers of their calls count. They have no order of their own: each fence and
// quiet covers the operations of all contexts that the calling group has issued, and of whatever it has synchronised
// with. On AMD that is by shmemd_group_sync or by a call of a group, not by __syncthreads alone (shmem_device.h).
//
// Calls of waves and work-groups synchronise their group at both ends, the non-blocking ones too. Collectives and
// barriers of a team are one sequence, whoever calls; the next caller is ordered behind the last one by the program.
#ifndef COMPAT_ROCSHMEM_HPP
#define COMPAT_ROCSHMEM_HPP

#if defined(__CUDACC__) && !defined(__HIP__)
#error "compat/rocshmem/rocshmem.hpp is for AMD and for the CPU device: kernels for NVIDIA use nvshmem.h"
#endif
#if defined(__HIP__)
#include <hip/hip_runtime.h> // before the others

#include <hip/hip_fp16.h>
#if __has_include(<hip/hip_bf16.h>)
#include <hip/hip_bf16.h>
#endif
#endif
#if __has_include(<mpi.h>) // as rocSHMEM's header does; nothing of it is called unless the program starts by MPI
#include <mpi.h>
#endif
#include <array>
#include <cstddef>

#include "../state.h"

namespace rocshmem
{

// ---- constants and types ----

#define ROCSHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define ROCSHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define ROCSHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
constexpr char VERSION[] = "3.3.0"; // of the rocSHMEM whose calls these are: PyTorch asks for 3.3.0 or later
enum ROCSHMEM_STATUS { ROCSHMEM_SUCCESS = 0, ROCSHMEM_ERROR = 1 };
enum ROCSHMEM_OP {
    ROCSHMEM_SUM,
    ROCSHMEM_MAX,
    ROCSHMEM_MIN,
    ROCSHMEM_PROD,
    ROCSHMEM_AND,
    ROCSHMEM_OR,
    ROCSHMEM_XOR,
    ROCSHMEM_REPLACE
};
enum ROCSHMEM_SIGNAL_OPS { ROCSHMEM_SIGNAL_SET = SHMEM_SIGNAL_SET, ROCSHMEM_SIGNAL_ADD = SHMEM_SIGNAL_ADD };
enum rocshmem_cmps {
    ROCSHMEM_CMP_EQ = SHMEM_CMP_EQ,
    ROCSHMEM_CMP_NE = SHMEM_CMP_NE,
    ROCSHMEM_CMP_GT = SHMEM_CMP_GT,
    ROCSHMEM_CMP_GE = SHMEM_CMP_GE,
    ROCSHMEM_CMP_LT = SHMEM_CMP_LT,
    ROCSHMEM_CMP_LE = SHMEM_CMP_LE
};
enum rocshmem_thread_ops { // WG_FUNNELED is of kernels, where every thread may call
    ROCSHMEM_THREAD_SINGLE,
    ROCSHMEM_THREAD_FUNNELED,
    ROCSHMEM_THREAD_WG_FUNNELED,
    ROCSHMEM_THREAD_SERIALIZED,
    ROCSHMEM_THREAD_MULTIPLE
};
enum rocshmem_team_configs { ROCSHMEM_TEAM_DEFAULT_CONFIGS, ROCSHMEM_TEAM_NUM_CONTEXTS };
typedef struct {
    int num_contexts;
} rocshmem_team_config_t;
const int ROCSHMEM_CTX_ZERO = 0; // options of contexts are not read
const int ROCSHMEM_CTX_NOSTORE = 1;
const int ROCSHMEM_CTX_SERIALIZED = 2;
const int ROCSHMEM_CTX_WG_PRIVATE = 4;
const int ROCSHMEM_CTX_SHARED = 8;

// A team: its number and 1, so that zeroed memory is no team.
struct rocshmem_team_t {
    intptr_t number_and_1;
    rocshmem_team_t() = default;
    constexpr rocshmem_team_t(std::nullptr_t) : number_and_1(0) {}
    constexpr explicit rocshmem_team_t(int number) : number_and_1(number + 1) {}
    constexpr bool operator==(const rocshmem_team_t &other) const { return number_and_1 == other.number_and_1; }
    constexpr bool operator!=(const rocshmem_team_t &other) const { return number_and_1 != other.number_and_1; }
};
constexpr rocshmem_team_t ROCSHMEM_TEAM_INVALID(nullptr);
constexpr rocshmem_team_t ROCSHMEM_TEAM_WORLD(COMPAT_WORLD);
PRIM_BOTH_FN int32_t number_of(rocshmem_team_t team) { return (int32_t)team.number_and_1 - 1; }

// A context: the team in which its PE numbers count. Zeroed memory is the default one.
struct rocshmem_ctx_t {
    intptr_t ctx_opaque; // 0, or -1: not made
    intptr_t team_opaque;
    constexpr bool operator==(const rocshmem_ctx_t &other) const
    {
        return ctx_opaque == other.ctx_opaque && team_opaque == other.team_opaque;
    }
    constexpr bool operator!=(const rocshmem_ctx_t &other) const { return !(*this == other); }
};
constexpr rocshmem_ctx_t ROCSHMEM_CTX_DEFAULT = {0, COMPAT_WORLD};
constexpr rocshmem_ctx_t ROCSHMEM_CTX_INVALID = {-1, -1};
PRIM_FN shmemd_t handle_of(rocshmem_ctx_t ctx) { return compat::handle((int32_t)ctx.team_opaque); }

#if defined(__HIP__)
typedef hipStream_t compat_stream_t;
#else
typedef shmemx_stream_t compat_stream_t;
#endif

// ---- start and end ----

enum { ROCSHMEM_UNIQUE_ID_BYTES = sizeof(shmemx_uniqueid_t) };
typedef std::array<uint8_t, ROCSHMEM_UNIQUE_ID_BYTES> rocshmem_uniqueid_t;
struct rocshmem_init_attr_t {
    int32_t rank;
    int32_t nranks;
    rocshmem_uniqueid_t uid;
    void *mpi_comm; // of an MPI_Comm, whose ranks become the PEs
};
constexpr unsigned ROCSHMEM_INIT_WITH_MPI_COMM = 0;
constexpr unsigned ROCSHMEM_INIT_WITH_UNIQUEID = 1;

COMPAT_HOST int to_theirs(int level)
{
    return level < SHMEM_THREAD_SERIALIZED    ? level
           : level == SHMEM_THREAD_SERIALIZED ? (int)ROCSHMEM_THREAD_SERIALIZED
                                              : (int)ROCSHMEM_THREAD_MULTIPLE;
}
COMPAT_HOST void variables() { compat_heap_size("ROCSHMEM_HEAP_SIZE"); }
// Queries may come before rocshmem_init, and start the library then; rocshmem_init finds it running.
COMPAT_HOST bool &is_early()
{
    static bool early = false;
    return early;
}
COMPAT_HOST void start_early()
{
    int provided;
    if (compat_host_state()->uses == 0) {
        variables();
        if (compat_init("rocshmem_init", SHMEM_THREAD_SERIALIZED, &provided) != 0)
            compat_die("rocshmem_my_pe", "the library cannot start");
        is_early() = true;
    }
}
COMPAT_HOST int rocshmem_init_thread(int requested, int *provided)
{
    static const int ours[] = {SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_FUNNELED,
                               SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE};
    if (requested < ROCSHMEM_THREAD_SINGLE || requested > ROCSHMEM_THREAD_MULTIPLE) {
        fprintf(stderr, "rocshmem_init_thread: requested is %d, allowed are the ROCSHMEM_THREAD_ levels, 0 to 4\n",
                requested);
        return ROCSHMEM_ERROR;
    }
    int rc = 0;
    variables();
    if (is_early())
        shmem_query_thread(provided);
    else
        rc = compat_init("rocshmem_init", ours[requested], provided);
    is_early() = false;
    *provided = to_theirs(*provided);
    return rc;
}
COMPAT_HOST void rocshmem_init()
{
    int provided;
    if (rocshmem_init_thread(ROCSHMEM_THREAD_SERIALIZED, &provided) != 0)
        exit(1); // the library has said why
}
COMPAT_HOST int rocshmem_get_uniqueid(rocshmem_uniqueid_t *uid)
{
    return shmemx_get_uniqueid((shmemx_uniqueid_t *)(void *)uid->data());
}
COMPAT_HOST int rocshmem_set_attr_uniqueid_args(int rank, int nranks, rocshmem_uniqueid_t *uid,
                                                rocshmem_init_attr_t *attr)
{
    attr->rank = rank;
    attr->nranks = nranks;
    attr->uid = *uid;
    return ROCSHMEM_SUCCESS;
}
#ifdef MPI_VERSION
COMPAT_HOST void rocshmem_init(MPI_Comm comm)
{
    variables();
    if (compat_init_by_comm("rocshmem_init", comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm) != 0)
        exit(1);
}
COMPAT_HOST int rocshmem_init_thread(int requested, int *provided, MPI_Comm comm)
{
    (void)requested;
    rocshmem_init(comm);
    shmem_query_thread(provided);
    *provided = to_theirs(*provided);
    return ROCSHMEM_SUCCESS;
}
#endif
COMPAT_HOST int rocshmem_init_attr(unsigned flags, rocshmem_init_attr_t *attr)
{
    variables();
    if (flags == ROCSHMEM_INIT_WITH_UNIQUEID)
        return compat_init_by_id("rocshmem_init", attr->rank, attr->nranks,
                                 (const shmemx_uniqueid_t *)(const void *)attr->uid.data());
#ifdef MPI_VERSION
    if (attr != NULL && attr->mpi_comm != NULL)
        return compat_init_by_comm("rocshmem_init", *(MPI_Comm *)attr->mpi_comm);
#endif
    int provided;
    return rocshmem_init_thread(ROCSHMEM_THREAD_SERIALIZED, &provided);
}
COMPAT_HOST void rocshmem_finalize() { compat_end(); }
COMPAT_HOST void rocshmem_global_exit(int status) { shmem_global_exit(status); }
COMPAT_HOST void rocshmem_info_get_version(int *major, int *minor) { shmem_info_get_version(major, minor); }
COMPAT_HOST void rocshmem_info_get_name(char *name) { shmem_info_get_name(name); }
COMPAT_HOST void rocshmem_vendor_get_version_info(int *major, int *minor, int *patch)
{
    *major = ISOMER_VERSION / 10000;
    *minor = ISOMER_VERSION / 100 % 100;
    *patch = ISOMER_VERSION % 100;
}
// An error with a sentence, of programs that call it on a path that they seldom take.
COMPAT_HOST int rocshmem_hipmodule_init(void *module, void *stream = NULL)
{
    (void)module, (void)stream;
    fprintf(stderr, "rocshmem_hipmodule_init: modules do not get the handle here; pass a shmemd_t of "
                    "shmemx_device_handle to their kernels\n");
    return ROCSHMEM_ERROR;
}
COMPAT_HOST void rocshmem_dump_stats()
{
    fprintf(stderr, "rocshmem_dump_stats: nothing is counted; SHMEM_PROFILE=1 prints what the job has done\n");
}
COMPAT_HOST void rocshmem_reset_stats() {} // there is nothing that could be reset

// ---- memory: all of it is device memory ----

COMPAT_HOST void *rocshmem_malloc(size_t size) { return compat_here(), shmemx_malloc(size, SHMEMX_DEVICE); }
COMPAT_HOST void rocshmem_free(void *ptr) { shmemx_free(ptr); }
COMPAT_HOST int rocshmem_buffer_register(void *addr, size_t length)
{
    (void)length; // local buffers need no registration here
    return addr != NULL ? ROCSHMEM_SUCCESS : ROCSHMEM_ERROR;
}
COMPAT_HOST int rocshmem_buffer_unregister(void *addr) { return rocshmem_buffer_register(addr, 0); }

// ---- contexts and teams ----

COMPAT_HOST int rocshmem_ctx_create(int64_t options, rocshmem_ctx_t *ctx)
{
    (void)options;
    *ctx = ROCSHMEM_CTX_DEFAULT;
    return ROCSHMEM_SUCCESS;
}
COMPAT_HOST void rocshmem_ctx_destroy(rocshmem_ctx_t ctx) { (void)ctx, shmem_quiet(); }
COMPAT_HOST int rocshmem_team_split_strided(rocshmem_team_t parent, int start, int stride, int size,
                                            const rocshmem_team_config_t *config, long mask, rocshmem_team_t *new_team)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    (void)config, (void)mask;
    int rc = shmem_team_split_strided(compat_team_of(number_of(parent)), start, stride, size, NULL, 0, &team);
    *new_team = rocshmem_team_t(rc != 0 ? -1 : compat_team_made(__func__, team));
    return rc;
}
COMPAT_HOST void rocshmem_team_destroy(rocshmem_team_t team) { compat_team_end(number_of(team)); }

// Contexts of a work-group: all threads call; one writes *ctx, which may be shared memory.
PRIM_FN int rocshmem_wg_team_create_ctx(rocshmem_team_t team, long options, rocshmem_ctx_t *ctx)
{
    const rocshmem_ctx_t made = {0, number_of(team)};
    (void)options;
    shmemd_group_sync(shmemd_block());
    if (shmemd_group_rank(shmemd_block()) == 0)
        *ctx = team == ROCSHMEM_TEAM_INVALID ? ROCSHMEM_CTX_INVALID : made;
    shmemd_group_sync(shmemd_block());
    return team == ROCSHMEM_TEAM_INVALID ? ROCSHMEM_ERROR : ROCSHMEM_SUCCESS;
}
PRIM_FN int rocshmem_wg_ctx_create(int64_t options, rocshmem_ctx_t *ctx)
{
    return rocshmem_wg_team_create_ctx(ROCSHMEM_TEAM_WORLD, (long)options, ctx);
}
PRIM_FN void rocshmem_wg_ctx_destroy(rocshmem_ctx_t *ctx)
{
    shmemd_quiet_block(compat::world());
    if (shmemd_group_rank(shmemd_block()) == 0)
        *ctx = ROCSHMEM_CTX_INVALID;
    shmemd_group_sync(shmemd_block());
}
PRIM_FN void rocshmem_wg_init() {} // kernels need no start
PRIM_FN void rocshmem_wg_finalize() {}
PRIM_FN void rocshmem_wg_init_thread(int requested, int *provided)
{
    (void)requested, *provided = ROCSHMEM_THREAD_MULTIPLE;
}

// ---- calls of host and kernels; with a context, and in the default one ----

COMPAT_HOST int queried_thread()
{
    int level;
    shmem_query_thread(&level);
    return to_theirs(level);
}
COMPAT_DO(rocshmem_query_thread, (int *provided), (void)(*provided = ROCSHMEM_THREAD_MULTIPLE),
          (void)(*provided = queried_thread()))
COMPAT_CALL(int, rocshmem_my_pe, (), compat::world().my_pe, (start_early(), shmem_my_pe()))
COMPAT_CALL(int, rocshmem_n_pes, (), compat::world().n_pes, (start_early(), shmem_n_pes()))
PRIM_FN int rocshmem_ctx_my_pe(rocshmem_ctx_t ctx) { return handle_of(ctx).my_pe; }
PRIM_FN int rocshmem_ctx_n_pes(rocshmem_ctx_t ctx) { return handle_of(ctx).n_pes; }
COMPAT_CALL(int, rocshmem_team_my_pe, (rocshmem_team_t team), compat::my_pe(number_of(team)),
            shmem_team_my_pe(compat_team_of(number_of(team))))
COMPAT_CALL(int, rocshmem_team_n_pes, (rocshmem_team_t team), compat::n_pes(number_of(team)),
            shmem_team_n_pes(compat_team_of(number_of(team))))
COMPAT_CALL(int, rocshmem_team_translate_pe, (rocshmem_team_t team, int pe, rocshmem_team_t other),
            compat::translate_pe(number_of(team), pe, number_of(other)),
            shmem_team_translate_pe(compat_team_of(number_of(team)), pe, compat_team_of(number_of(other))))
COMPAT_CALL(void *, rocshmem_ptr, (const void *dest, int pe), shmemd_ptr(compat::world(), dest, pe),
            shmemx_device_ptr(dest, pe))

#define COMPAT_ARGS(...) __VA_ARGS__
#define COMPAT_CTX_DO(name, params, kernel, host)                                \
    COMPAT_BOTH void rocshmem_ctx_##name(rocshmem_ctx_t ctx, COMPAT_ARGS params) \
    {                                                                            \
        (void)ctx;                                                               \
        COMPAT_EITHER(kernel, host);                                             \
    }                                                                            \
    COMPAT_BOTH void rocshmem_##name(COMPAT_ARGS params)                         \
    {                                                                            \
        const rocshmem_ctx_t ctx = {0, COMPAT_WORLD};                            \
        (void)ctx;                                                               \
        COMPAT_EITHER(kernel, host);                                             \
    }
#define COMPAT_CTX_CALL(R, name, params, kernel, host)                        \
    COMPAT_BOTH R rocshmem_ctx_##name(rocshmem_ctx_t ctx, COMPAT_ARGS params) \
    {                                                                         \
        (void)ctx;                                                            \
        return COMPAT_EITHER(kernel, host);                                   \
    }                                                                         \
    COMPAT_BOTH R rocshmem_##name(COMPAT_ARGS params)                         \
    {                                                                         \
        const rocshmem_ctx_t ctx = {0, COMPAT_WORLD};                         \
        (void)ctx;                                                            \
        return COMPAT_EITHER(kernel, host);                                   \
    }
// The same of kernels only; `body` is a block of statements.
#define COMPAT_CTX_KERNEL(R, name, params, ...)                                           \
    PRIM_FN R rocshmem_ctx_##name(rocshmem_ctx_t ctx, COMPAT_ARGS params) { __VA_ARGS__ } \
    PRIM_FN R rocshmem_##name(COMPAT_ARGS params)                                         \
    {                                                                                     \
        const rocshmem_ctx_t ctx = {0, COMPAT_WORLD};                                     \
        __VA_ARGS__                                                                       \
    }

// ---- put, get, with a signal ----

#define COMPAT_ROC_MOVE(T, name, ours, bytes, form, group)                                                   \
    COMPAT_CTX_KERNEL(void, name##_##form, (T * dest, const T *source, size_t nelems, int pe),               \
                      COMPAT_SYNCED(group, shmemd_##ours##_group(handle_of(ctx), compat_group, dest, source, \
                                                                 nelems *(bytes), pe)))
#define COMPAT_ROC_SIGNAL_PARAMS(T) \
    (T * dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)
#define COMPAT_ROC_SIGNAL(T, name, ours, bytes, form, group)                                                 \
    COMPAT_CTX_KERNEL(void, name##_##form, COMPAT_ROC_SIGNAL_PARAMS(T),                                      \
                      COMPAT_SYNCED(group, shmemd_##ours##_group(handle_of(ctx), compat_group, dest, source, \
                                                                 nelems *(bytes), sig_addr, signal, sig_op, pe)))
// name: of the type, and of ours; both without a suffix.
#define COMPAT_ROC_MOVES(T, name, ours, bytes)                                      \
    COMPAT_CTX_DO(name, (T * dest, const T *source, size_t nelems, int pe),         \
                  shmemd_##ours(handle_of(ctx), dest, source, nelems *(bytes), pe), \
                  shmem_##ours(dest, source, nelems *(bytes), pe))                  \
    COMPAT_ROC_MOVE(T, name, ours, bytes, wave, shmemd_wave())                      \
    COMPAT_ROC_MOVE(T, name, ours, bytes, wg, shmemd_block())
#define COMPAT_ROC_SIGNALS(T, name, ours, bytes)                                                              \
    COMPAT_CTX_DO(name, COMPAT_ROC_SIGNAL_PARAMS(T),                                                          \
                  shmemd_##ours(handle_of(ctx), dest, source, nelems *(bytes), sig_addr, signal, sig_op, pe), \
                  shmem_##ours(dest, source, nelems *(bytes), sig_addr, signal, sig_op, pe))                  \
    COMPAT_ROC_SIGNAL(T, name, ours, bytes, wave, shmemd_wave())                                              \
    COMPAT_ROC_SIGNAL(T, name, ours, bytes, wg, shmemd_block())
#define COMPAT_ROC_RMA(T, put, get, bytes)                    \
    COMPAT_ROC_MOVES(T, put, putmem, bytes)                   \
    COMPAT_ROC_MOVES(T, get, getmem, bytes)                   \
    COMPAT_ROC_MOVES(T, put##_nbi, putmem_nbi, bytes)         \
    COMPAT_ROC_MOVES(T, get##_nbi, getmem_nbi, bytes)         \
    COMPAT_ROC_SIGNALS(T, put##_signal, putmem_signal, bytes) \
    COMPAT_ROC_SIGNALS(T, put##_signal_nbi, putmem_signal_nbi, bytes)
template <class T> COMPAT_HOST T got(const T *source, int pe)
{
    T value;
    shmem_getmem(&value, source, sizeof value, pe);
    return value;
}
#define COMPAT_ROC_TYPE(NAME, T, ...)                                                                \
    COMPAT_ROC_RMA(T, NAME##_put, NAME##_get, sizeof(T))                                             \
    COMPAT_CTX_DO(NAME##_p, (T * dest, T value, int pe), shmemd::p(handle_of(ctx), dest, value, pe), \
                  shmem_putmem(dest, &value, sizeof(T), pe))                                         \
    COMPAT_CTX_CALL(T, NAME##_g, (const T *source, int pe), shmemd::g(handle_of(ctx), source, pe), got(source, pe))
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_TYPE, )
COMPAT_ROC_RMA(void, putmem, getmem, 1)
#if defined(__HIP__)
COMPAT_ROC_TYPE(half, __half, )
#if __has_include(<hip/hip_bf16.h>)
COMPAT_ROC_TYPE(bfloat16, __hip_bfloat16, )
#endif
#endif

PRIM_FN uint64_t rocshmem_signal_fetch(const uint64_t *sig_addr)
{
    return shmemd_signal_fetch(compat::world(), sig_addr);
}
PRIM_FN uint64_t signal_of(shmemd_group_t group, const uint64_t *sig_addr)
{
    uint64_t value = shmemd_group_rank(group) == 0 ? rocshmem_signal_fetch(sig_addr) : 0;
    value = shmemd_group_broadcast(group, value);
    shmemd_acquire_group(compat::world(), group);
    return value;
}
PRIM_FN uint64_t rocshmem_signal_fetch_wave(const uint64_t *sig_addr) { return signal_of(shmemd_wave(), sig_addr); }
PRIM_FN uint64_t rocshmem_signal_fetch_wg(const uint64_t *sig_addr) { return signal_of(shmemd_block(), sig_addr); }

// ---- atomics ----

#define COMPAT_ROC_AMO(R, NAME, call, params, args)                                                     \
    COMPAT_CTX_CALL(R, NAME##_##call, params, shmemd_##NAME##_##call(handle_of(ctx), COMPAT_ARGS args), \
                    shmem_##NAME##_##call args)
#define COMPAT_ROC_EXT(NAME, T, ...)                                                       \
    COMPAT_ROC_AMO(T, NAME, atomic_fetch, (const T *source, int pe), (source, pe))         \
    COMPAT_ROC_AMO(void, NAME, atomic_set, (T * dest, T value, int pe), (dest, value, pe)) \
    COMPAT_ROC_AMO(T, NAME, atomic_swap, (T * dest, T value, int pe), (dest, value, pe))
SHMEM_EXT_TYPES(COMPAT_ROC_EXT, )
#define COMPAT_ROC_STD(NAME, T, ...)                                                                           \
    COMPAT_ROC_AMO(T, NAME, atomic_compare_swap, (T * dest, T cond, T value, int pe), (dest, cond, value, pe)) \
    COMPAT_ROC_AMO(T, NAME, atomic_fetch_inc, (T * dest, int pe), (dest, pe))                                  \
    COMPAT_ROC_AMO(void, NAME, atomic_inc, (T * dest, int pe), (dest, pe))                                     \
    COMPAT_ROC_AMO(T, NAME, atomic_fetch_add, (T * dest, T value, int pe), (dest, value, pe))                  \
    COMPAT_ROC_AMO(void, NAME, atomic_add, (T * dest, T value, int pe), (dest, value, pe))
SHMEM_STD_TYPES(COMPAT_ROC_STD, )
#define COMPAT_ROC_BIT_OP(NAME, T, op)                                                      \
    COMPAT_ROC_AMO(void, NAME, atomic_##op, (T * dest, T value, int pe), (dest, value, pe)) \
    COMPAT_ROC_AMO(T, NAME, atomic_fetch_##op, (T * dest, T value, int pe), (dest, value, pe))
#define COMPAT_ROC_BIT(NAME, T, ...) \
    COMPAT_ROC_BIT_OP(NAME, T, and)  \
    COMPAT_ROC_BIT_OP(NAME, T, or)   \
    COMPAT_ROC_BIT_OP(NAME, T, xor)
SHMEM_BIT_TYPES(COMPAT_ROC_BIT, )

// ---- waits and tests ----

#define COMPAT_ROC_P2P(R, NAME, call, params, args)                                                             \
    COMPAT_CALL(R, rocshmem_##NAME##_##call, params, shmemd_##NAME##_##call(compat::world(), COMPAT_ARGS args), \
                shmem_##NAME##_##call args)
#define COMPAT_ROC_SET(R, NAME, T, call)                                                                      \
    COMPAT_ROC_P2P(R, NAME, call, (T * ivars, size_t nelems, const int *status, int cmp, T value),            \
                   (ivars, nelems, status, cmp, value))                                                       \
    COMPAT_ROC_P2P(R, NAME, call##_vector, (T * ivars, size_t nelems, const int *status, int cmp, T *values), \
                   (ivars, nelems, status, cmp, values))
#define COMPAT_ROC_WAIT(NAME, T, ...)                                                                  \
    COMPAT_ROC_P2P(void, NAME, wait_until, (T * ivars, int cmp, T value), (ivars, cmp, value))         \
    COMPAT_ROC_P2P(int, NAME, test, (T * ivars, int cmp, T value), (ivars, cmp, value))                \
    COMPAT_ROC_SET(void, NAME, T, wait_until_all)                                                      \
    COMPAT_ROC_SET(size_t, NAME, T, wait_until_any)                                                    \
    COMPAT_ROC_P2P(size_t, NAME, wait_until_some,                                                      \
                   (T * ivars, size_t nelems, size_t *indices, const int *status, int cmp, T value),   \
                   (ivars, nelems, indices, status, cmp, value))                                       \
    COMPAT_ROC_P2P(size_t, NAME, wait_until_some_vector,                                               \
                   (T * ivars, size_t nelems, size_t *indices, const int *status, int cmp, T *values), \
                   (ivars, nelems, indices, status, cmp, values))
SHMEM_STD_TYPES(COMPAT_ROC_WAIT, )

// Other types, in kernels: a loop over g of this PE, which ends when the handle has given up.
template <class T> PRIM_FN bool holds(T seen, int cmp, T value)
{
    switch (cmp) {
    case ROCSHMEM_CMP_EQ: return seen == value;
    case ROCSHMEM_CMP_NE: return seen != value;
    case ROCSHMEM_CMP_GT: return seen > value;
    case ROCSHMEM_CMP_GE: return seen >= value;
    case ROCSHMEM_CMP_LT: return seen < value;
    default: return seen <= value;
    }
}
template <class T> PRIM_FN int test(const T *ivar, int cmp, T value)
{
    const shmemd_t h = compat::world();
    if (!holds(shmemd::g(h, ivar, h.my_pe), cmp, value))
        return 0;
    shmemd_acquire(h);
    return 1;
}
template <class T> PRIM_FN void wait_until(const T *ivar, int cmp, T value)
{
    while (!test(ivar, cmp, value) && !shmemd_status(compat::world()))
        shmemd_pause();
}
#define COMPAT_ROC_OTHER(NAME, T)                                                                            \
    PRIM_FN void rocshmem_##NAME##_wait_until(T *ivars, int cmp, T value) { wait_until(ivars, cmp, value); } \
    PRIM_FN int rocshmem_##NAME##_test(T *ivars, int cmp, T value) { return test(ivars, cmp, value); }
COMPAT_ROC_OTHER(float, float)
COMPAT_ROC_OTHER(double, double)
COMPAT_ROC_OTHER(char, char)
COMPAT_ROC_OTHER(schar, signed char)
COMPAT_ROC_OTHER(short, short)
COMPAT_ROC_OTHER(uchar, unsigned char)
COMPAT_ROC_OTHER(ushort, unsigned short)
COMPAT_ROC_OTHER(int8, int8_t)
COMPAT_ROC_OTHER(int16, int16_t)
COMPAT_ROC_OTHER(uint8, uint8_t)
COMPAT_ROC_OTHER(uint16, uint16_t)

// ---- order ----

COMPAT_DO(rocshmem_ctx_fence, (rocshmem_ctx_t ctx), shmemd_fence(handle_of(ctx)), ((void)ctx, shmem_fence()))
COMPAT_DO(rocshmem_fence, (), shmemd_fence(compat::world()), shmem_fence())
PRIM_FN void rocshmem_ctx_fence(rocshmem_ctx_t ctx, int pe) { shmemd_pe_fence(handle_of(ctx), pe); }
PRIM_FN void rocshmem_fence(int pe) { shmemd_pe_fence(compat::world(), pe); }
COMPAT_DO(rocshmem_ctx_quiet, (rocshmem_ctx_t ctx), shmemd_quiet(handle_of(ctx)), ((void)ctx, shmem_quiet()))
COMPAT_DO(rocshmem_quiet, (), compat::quiet(), shmem_quiet())
COMPAT_CTX_KERNEL(void, pe_quiet, (const int *target_pes, size_t npes),
                  shmemd_pe_quiet(handle_of(ctx), target_pes, npes);)
PRIM_FN void rocshmem_threadfence_system()
{
    shmemd_fence(compat::world());
    shmemd_acquire(compat::world());
}
PRIM_FN void rocshmem_ctx_threadfence_system(rocshmem_ctx_t ctx) { (void)ctx, rocshmem_threadfence_system(); }

// ---- barriers: by a thread, by a wave, by a work-group; in older names wg_ stands in front ----

COMPAT_DO(rocshmem_barrier_all, (), (void)compat::barrier(COMPAT_WORLD, shmemd::thread()),
          (compat_here(), shmem_barrier_all()))
COMPAT_DO(rocshmem_sync_all, (), (void)compat::sync(COMPAT_WORLD, shmemd::thread()), shmem_sync_all())
PRIM_FN void rocshmem_barrier() { rocshmem_barrier_all(); }
#define COMPAT_ROC_BARRIER(form, group)                                                       \
    PRIM_FN void rocshmem_barrier_all##form() { (void)compat::barrier(COMPAT_WORLD, group); } \
    PRIM_FN void rocshmem_barrier##form() { (void)compat::barrier(COMPAT_WORLD, group); }     \
    PRIM_FN void rocshmem_sync_all##form() { (void)compat::sync(COMPAT_WORLD, group); }
#define COMPAT_ROC_TEAM_BARRIER(form, group)                                         \
    COMPAT_CTX_KERNEL(void, barrier##form, (rocshmem_team_t team), COMPAT_ROC_UNUSED \
                      (void)compat::barrier(number_of(team), group);)                \
    COMPAT_CTX_KERNEL(void, sync##form, (rocshmem_team_t team), COMPAT_ROC_UNUSED    \
                      (void)compat::sync(number_of(team), group);)
#define COMPAT_ROC_UNUSED (void)ctx;
COMPAT_ROC_BARRIER(_wave, shmemd::wave())
COMPAT_ROC_BARRIER(_wg, shmemd::block())
COMPAT_ROC_TEAM_BARRIER(, shmemd::thread())
COMPAT_ROC_TEAM_BARRIER(_wave, shmemd::wave())
COMPAT_ROC_TEAM_BARRIER(_wg, shmemd::block())
PRIM_FN void rocshmem_wg_barrier_all() { rocshmem_barrier_all_wg(); }
PRIM_FN void rocshmem_ctx_wg_barrier_all(rocshmem_ctx_t ctx) { (void)ctx, rocshmem_barrier_all_wg(); }
PRIM_FN void rocshmem_wg_sync_all() { rocshmem_sync_all_wg(); }
PRIM_FN void rocshmem_ctx_wg_sync_all(rocshmem_ctx_t ctx) { (void)ctx, rocshmem_sync_all_wg(); }
COMPAT_CTX_KERNEL(void, wg_team_sync, (rocshmem_team_t team), COMPAT_ROC_UNUSED rocshmem_sync_wg(team);)

// ---- collectives: nelems is of each pair or each PE ----

#define COMPAT_ROC_COLL(T, NAME, call_b, call_f, call_a, bytes, group)                                               \
    COMPAT_CTX_KERNEL(int, NAME##call_b, (rocshmem_team_t team, T * dest, const T *source, size_t nelems, int root), \
                      COMPAT_ROC_UNUSED return compat::broadcast(number_of(team), group, dest, source,               \
                                                                 nelems * (bytes), root);)                           \
    COMPAT_CTX_KERNEL(int, NAME##call_f, (rocshmem_team_t team, T * dest, const T *source, size_t nelems),           \
                      COMPAT_ROC_UNUSED return compat::fcollect(number_of(team), group, dest, source,                \
                                                                nelems * (bytes));)                                  \
    COMPAT_CTX_KERNEL(int, NAME##call_a, (rocshmem_team_t team, T * dest, const T *source, size_t nelems),           \
                      COMPAT_ROC_UNUSED return compat::alltoall(number_of(team), group, dest, source,                \
                                                                nelems * (bytes));)
#define COMPAT_ROC_COLLS(T, NAME, bytes)                                                                          \
    COMPAT_ROC_COLL(T, NAME, broadcast_wave, fcollect_wave, alltoall_wave, bytes, shmemd::wave())                 \
    COMPAT_ROC_COLL(T, NAME, broadcast_wg, fcollect_wg, alltoall_wg, bytes, shmemd::block())                      \
    COMPAT_ROC_COLL(T, NAME, wg_broadcast, wg_fcollect, wg_alltoall, bytes, shmemd::block())                      \
    COMPAT_HOST int rocshmem_ctx_##NAME##broadcast(rocshmem_ctx_t ctx, rocshmem_team_t team, T *dest,             \
                                                   const T *source, size_t nelems, int root)                      \
    {                                                                                                             \
        (void)ctx;                                                                                                \
        return COMPAT_WAITED(shmemx_broadcastmem_on_stream(compat_team_of(number_of(team)), dest, source,         \
                                                           nelems * (bytes), root, NULL));                        \
    }                                                                                                             \
    template <class N>                                                                                            \
    COMPAT_HOST int rocshmem_ctx_##NAME##broadcast(rocshmem_ctx_t, T *, const T *, N, int, int, int, int, long *) \
    {                                                                                                             \
        static_assert(sizeof(N) > 99,                                                                             \
                      "rocshmem_ctx_" #NAME "broadcast with an active set is not in Isomer: take a team");        \
        return 1;                                                                                                 \
    }
#define COMPAT_ROC_COLL_TYPE(NAME, T, ...) COMPAT_ROC_COLLS(T, NAME##_, sizeof(T))
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_COLL_TYPE, )
#define COMPAT_ROC_VECTOR(NAME, T, ...)                                                                             \
    PRIM_FN void rocshmem_##NAME##_alltoallv_wg(rocshmem_team_t team, T *dest, const size_t *dest_nelems,           \
                                                const size_t *dest_displs, const T *source,                         \
                                                const size_t *source_nelems, const size_t *source_displs)           \
    {                                                                                                               \
        (void)compat::alltoallv(number_of(team), dest, dest_nelems, dest_displs, source, source_nelems,             \
                                source_displs);                                                                     \
    }
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_VECTOR, )
#define COMPAT_ROC_COLL_MEM(form, group) \
    COMPAT_ROC_COLL(void, , broadcastmem_##form, fcollectmem_##form, alltoallmem_##form, 1, group)
COMPAT_ROC_COLL_MEM(wave, shmemd::wave())
COMPAT_ROC_COLL_MEM(wg, shmemd::block())

// NAME and T are theirs; AS_NAME and AS, of the same size, are what the library reduces.
#define COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op, call, group)                                                 \
    COMPAT_CTX_KERNEL(int, NAME##_##call, (rocshmem_team_t team, T * dest, const T *source, size_t nreduce), \
                      COMPAT_ROC_UNUSED return compat::op(number_of(team), group, (AS *)dest,                \
                                                          (const AS *)source, nreduce);)
#define COMPAT_ROC_REDUCE_HOST(NAME, T, AS_NAME, AS, call, ours)                                                      \
    COMPAT_HOST int rocshmem_ctx_##NAME##_##call##_on_stream(rocshmem_ctx_t ctx, rocshmem_team_t team, T *dest,       \
                                                             const T *source, size_t nreduce, compat_stream_t stream) \
    {                                                                                                                 \
        (void)ctx;                                                                                                    \
        return shmemx_##AS_NAME##_##ours##_on_stream(compat_team_of(number_of(team)), (AS *)dest, (const AS *)source, \
                                                     nreduce, stream);                                                \
    }                                                                                                                 \
    COMPAT_HOST int rocshmem_ctx_##NAME##_##call(rocshmem_ctx_t ctx, rocshmem_team_t team, T *dest, const T *source,  \
                                                 size_t nreduce)                                                      \
    {                                                                                                                 \
        return COMPAT_WAITED(rocshmem_ctx_##NAME##_##call##_on_stream(ctx, team, dest, source, nreduce, NULL));       \
    }
#define COMPAT_ROC_REDUCE_AS(NAME, T, AS_NAME, AS, op)                                                \
    COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op##_reduce, op##_reduce_wave, shmemd::wave())                \
    COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op##_reduce, op##_reduce_wg, shmemd::block())                 \
    COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op##_reduce, op##_wg_reduce, shmemd::block())                 \
    COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op##_reducescatter, op##_reduce_scatter_wave, shmemd::wave()) \
    COMPAT_ROC_REDUCE_FORM(NAME, T, AS, op##_reducescatter, op##_reduce_scatter_wg, shmemd::block())  \
    COMPAT_ROC_REDUCE_HOST(NAME, T, AS_NAME, AS, op##_reduce, op##_reduce)                            \
    COMPAT_ROC_REDUCE_HOST(NAME, T, AS_NAME, AS, op##_reduce_scatter, op##_reducescatter)
#define COMPAT_ROC_REDUCE(NAME, T, op, ...) COMPAT_ROC_REDUCE_AS(NAME, T, NAME, T, op)
#define COMPAT_ROC_LOGIC(op)                                       \
    SHMEM_LOGIC_TYPES(COMPAT_ROC_REDUCE, op, )                     \
    COMPAT_ROC_REDUCE_AS(short, short, ushort, unsigned short, op) \
    COMPAT_ROC_REDUCE_AS(int, int, uint, unsigned, op)             \
    COMPAT_ROC_REDUCE_AS(long, long, ulong, unsigned long, op)     \
    COMPAT_ROC_REDUCE_AS(longlong, long long, ulonglong, unsigned long long, op)
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_REDUCE, sum, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_REDUCE, prod, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_REDUCE, min, )
SHMEM_DEVICE_ARITH_TYPES(COMPAT_ROC_REDUCE, max, )
COMPAT_ROC_LOGIC(and)
COMPAT_ROC_LOGIC(or)
COMPAT_ROC_LOGIC(xor)

// ---- on streams: an error ends the job ----

#define COMPAT_ROC_ON_STREAM(name, params, call)        \
    COMPAT_HOST void rocshmem_##name##_on_stream params \
    {                                                   \
        if (shmemx_##call != 0)                         \
            shmem_global_exit(1);                       \
    }
COMPAT_ROC_ON_STREAM(quiet, (compat_stream_t stream), quiet_on_stream(stream))
COMPAT_ROC_ON_STREAM(barrier_all, (compat_stream_t stream),
                     barrier_on_stream(compat_team_of(COMPAT_WORLD), stream))
COMPAT_ROC_ON_STREAM(sync_all, (compat_stream_t stream), sync_on_stream(compat_team_of(COMPAT_WORLD), stream))
COMPAT_ROC_ON_STREAM(alltoallmem,
                     (rocshmem_team_t team, void *dest, const void *source, size_t size, compat_stream_t stream),
                     alltoallmem_on_stream(compat_team_of(number_of(team)), dest, source, size, stream))
COMPAT_ROC_ON_STREAM(broadcastmem,
                     (rocshmem_team_t team, void *dest, const void *source, size_t nelems, int root,
                      compat_stream_t stream),
                     broadcastmem_on_stream(compat_team_of(number_of(team)), dest, source, nelems, root, stream))
COMPAT_ROC_ON_STREAM(getmem, (void *dest, const void *source, size_t nelems, int pe, compat_stream_t stream),
                     getmem_on_stream(dest, source, nelems, pe, stream))
COMPAT_ROC_ON_STREAM(putmem, (void *dest, const void *source, size_t nelems, int pe, compat_stream_t stream),
                     putmem_on_stream(dest, source, nelems, pe, stream))
COMPAT_ROC_ON_STREAM(putmem_signal,
                     (void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op,
                      int pe, compat_stream_t stream),
                     putmem_signal_on_stream(dest, source, nelems, sig_addr, signal, sig_op, pe, stream))
COMPAT_ROC_ON_STREAM(signal_wait_until,
                     (uint64_t *sig_addr, int cmp, uint64_t cmp_value, compat_stream_t stream),
                     signal_wait_until_on_stream(sig_addr, cmp, cmp_value, stream))

// ---- what is missing: a sentence at compile time ----

COMPAT_MISSING(rocshmem_get_device_ctx, "modules of the driver do not get the handle; pass a shmemd_t to their kernels")
#define COMPAT_NO_STRIDE "peers' buffers are not told by a stride; take shmemx_buffer_register"
COMPAT_MISSING(rocshmem_buffer_register_vmm, COMPAT_NO_STRIDE)
COMPAT_MISSING(rocshmem_sym_buffer_register, COMPAT_NO_STRIDE)
COMPAT_MISSING(rocshmem_sym_buffer_unregister, "take shmemx_buffer_unregister")
#define COMPAT_NO_KERNEL "its kernels are not for programs; take the call on a stream"
COMPAT_MISSING(rocshmem_barrier_all_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_barrier_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_sync_all_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_team_sync_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_alltoallmem_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_broadcastmem_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_reduce_on_stream_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_putmem_signal_kernel, COMPAT_NO_KERNEL)
COMPAT_MISSING(rocshmem_signal_wait_until_kernel, COMPAT_NO_KERNEL)
#define COMPAT_NO_SET "sets are of integers of 4 and 8 bytes; wait for each element"
#define COMPAT_MISSING_SET(NAME)                                           \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_all, COMPAT_NO_SET)        \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_any, COMPAT_NO_SET)        \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_some, COMPAT_NO_SET)       \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_all_vector, COMPAT_NO_SET) \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_any_vector, COMPAT_NO_SET) \
    COMPAT_MISSING(rocshmem_##NAME##_wait_until_some_vector, COMPAT_NO_SET)
COMPAT_MISSING_SET(float)
COMPAT_MISSING_SET(double)
COMPAT_MISSING_SET(char)
COMPAT_MISSING_SET(schar)
COMPAT_MISSING_SET(short)
COMPAT_MISSING_SET(uchar)
COMPAT_MISSING_SET(ushort)
COMPAT_MISSING_SET(int8)
COMPAT_MISSING_SET(int16)
COMPAT_MISSING_SET(uint8)
COMPAT_MISSING_SET(uint16)

} // namespace rocshmem

#endif
