/* SPDX-License-Identifier: MIT */
/* NVSHMEM's extensions over this library: calls of warps and blocks, on streams, launches, starts with an id or by MPI.
 * As compat/nvshmem.h, which it includes; what differs and what is missing: docs/nvshmem.md. */
#ifndef COMPAT_NVSHMEMX_H
#define COMPAT_NVSHMEMX_H

#include "nvshmem.h"

#ifndef COMPAT_EXTERNS

#define NVSHMEMX_SUCCESS 0
enum nvshmemx_status {
    NVSHMEMX_ERROR_INVALID_VALUE = 1,
    NVSHMEMX_ERROR_OUT_OF_MEMORY,
    NVSHMEMX_ERROR_NOT_SUPPORTED,
    NVSHMEMX_ERROR_SYMMETRY,
    NVSHMEMX_ERROR_GPU_NOT_SELECTED,
    NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
    NVSHMEMX_ERROR_INTERNAL
};

#ifdef COMPAT_CUDA
typedef cudaStream_t compat_stream_t;
#else
typedef shmemx_stream_t compat_stream_t;
#endif

/* ---- start ---- */

enum {
    NVSHMEMX_INIT_THREAD_PES = 1,
    NVSHMEMX_INIT_WITH_MPI_COMM = 1 << 1,
    NVSHMEMX_INIT_WITH_SHMEM = 1 << 2,
    NVSHMEMX_INIT_WITH_UNIQUEID = 1 << 3
};
typedef shmemx_uniqueid_t nvshmemx_uniqueid_t;
#define NVSHMEMX_UNIQUEID_INITIALIZER {{0}}
typedef struct {
    int version;
    void *mpi_comm; /* of an MPI_Comm, whose ranks become the PEs */
    int rank, size;
    const nvshmemx_uniqueid_t *id;
} nvshmemx_init_attr_t;
#define NVSHMEMX_INIT_ATTR_INITIALIZER {1, NULL, 0, 0, NULL}

COMPAT_HOST int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *id) { return shmemx_get_uniqueid(id); }
COMPAT_HOST int nvshmemx_set_attr_uniqueid_args(int rank, int size, const nvshmemx_uniqueid_t *id,
                                                nvshmemx_init_attr_t *attr)
{
    attr->rank = rank;
    attr->size = size;
    attr->id = id;
    return NVSHMEMX_SUCCESS;
}
COMPAT_HOST int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attr)
{
    attr->mpi_comm = mpi_comm;
    return NVSHMEMX_SUCCESS;
}
/* By an id, which a communicator of MPI carries to its ranks where mpi.h was included before this header; else by the
 * launcher of the job. */
COMPAT_HOST int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t *attr)
{
    int provided;
    compat_variables();
#ifdef MPI_VERSION
    if ((flags & NVSHMEMX_INIT_WITH_MPI_COMM) != 0 && attr != NULL && attr->mpi_comm != NULL)
        return compat_init_by_comm("nvshmem_init", *(MPI_Comm *)attr->mpi_comm) == 0 ? NVSHMEMX_SUCCESS
                                                                                    : NVSHMEMX_ERROR_INTERNAL;
#endif
    if ((flags & NVSHMEMX_INIT_WITH_UNIQUEID) == 0)
        return nvshmem_init_thread(NVSHMEM_THREAD_SERIALIZED, &provided);
    if (attr == NULL || attr->id == NULL) {
        fprintf(stderr, "nvshmemx_init_attr: no id; call nvshmemx_set_attr_uniqueid_args first\n");
        return NVSHMEMX_ERROR_INVALID_VALUE;
    }
    return compat_init_by_id("nvshmem_init", attr->rank, attr->size, attr->id) == 0 ? NVSHMEMX_SUCCESS
                                                                                   : NVSHMEMX_ERROR_INTERNAL;
}
COMPAT_HOST int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t *attr)
{
    return nvshmemx_init_attr(flags, attr);
}
COMPAT_HOST void nvshmemx_hostlib_finalize(void) { nvshmem_finalize(); }
COMPAT_HOST void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch)
{
    *major = ISOMER_VERSION / 10000;
    *minor = ISOMER_VERSION / 100 % 100;
    *patch = ISOMER_VERSION % 100;
}
COMPAT_HOST const char *nvshmemx_status_string(int status)
{
    return status == NVSHMEMX_SUCCESS ? "success" : "an error, of which a sentence stands on stderr";
}
COMPAT_HOST int nvshmemx_init_status(void) { return compat_host_state()->uses != 0 ? 2 : 0; }
#define NVSHMEM_STATUS_NOT_INITIALIZED 0
#define NVSHMEM_STATUS_IS_INITIALIZED 2

/* A CUmodule, a CUlibrary; on the CPU device what dlopen gives. */
COMPAT_HOST int nvshmemx_cumodule_init(void *module) { return compat_module(__func__, module, shmemx_module_write); }
COMPAT_HOST int nvshmemx_cumodule_finalize(void *module) { return (void)module, NVSHMEMX_SUCCESS; }
COMPAT_HOST int nvshmemx_culibrary_init(void *library) { return compat_module(__func__, library, shmemx_library_write); }
COMPAT_HOST int nvshmemx_culibrary_finalize(void *library) { return (void)library, NVSHMEMX_SUCCESS; }

/* ---- memory ---- */

COMPAT_HOST int nvshmemx_buffer_register(void *addr, size_t bytes)
{
    (void)bytes; /* local buffers need no registration here */
    return addr != NULL ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INVALID_VALUE;
}
COMPAT_HOST int nvshmemx_buffer_unregister(void *addr) { return nvshmemx_buffer_register(addr, 0); }
COMPAT_HOST void *nvshmemx_buffer_register_symmetric(void *addr, size_t bytes, int flags)
{
    (void)flags;
    return shmemx_buffer_register(addr, bytes, NULL) == 0 ? addr : NULL;
}
COMPAT_HOST int nvshmemx_buffer_unregister_symmetric(void *addr, size_t bytes)
{
    (void)bytes;
    return shmemx_buffer_unregister(addr) == 0 ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INVALID_VALUE;
}

/* ---- launches: all blocks run at once, or the call returns an error ---- */

#ifdef COMPAT_CUDA
COMPAT_HOST int nvshmemx_collective_launch(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared_bytes,
                                           cudaStream_t stream)
{
    (void)compat_here();
    cudaError_t e = cudaLaunchCooperativeKernel(kernel, grid, block, args, shared_bytes, stream);
    if (e == cudaSuccess)
        return NVSHMEMX_SUCCESS;
    fprintf(stderr, "nvshmemx_collective_launch: %s\n", cudaGetErrorString(e));
    return NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}
COMPAT_HOST int nvshmemx_collective_launch_query_gridsize(const void *kernel, dim3 block, void **args,
                                                          size_t shared_bytes, int *gridsize)
{
    int device = 0, processors = 0, each = 0;
    (void)args;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)(block.x * block.y * block.z),
                                                          shared_bytes);
    *gridsize = each * processors;
    return e == cudaSuccess ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INTERNAL;
}
/* A kernel that keeps its type, as the CPU device needs it. */
template <class... P>
int nvshmemx_collective_launch(void (*kernel)(P...), dim3 grid, dim3 block, void **args, size_t shared_bytes,
                               cudaStream_t stream)
{
    return nvshmemx_collective_launch((const void *)kernel, grid, block, args, shared_bytes, stream);
}
template <class... P>
int nvshmemx_collective_launch_query_gridsize(void (*kernel)(P...), dim3 block, void **args, size_t shared_bytes,
                                              int *gridsize)
{
    return nvshmemx_collective_launch_query_gridsize((const void *)kernel, block, args, shared_bytes, gridsize);
}
#elif defined(__cplusplus)
/* A kernel by its type, which says what the arguments are: without a cast to const void *. */
namespace compat
{
inline void take(shmemd::launching::values<> *, void **) {}
template <class F, class... R> void take(shmemd::launching::values<F, R...> *v, void **args)
{
    v->first = *static_cast<const F *>(args[0]);
    take(&v->rest, args + 1);
}
} // namespace compat
template <class... P>
int nvshmemx_collective_launch(void (*kernel)(P...), shmemd::dim grid, shmemd::dim block, void **args,
                               size_t shared_bytes, compat_stream_t stream)
{
    shmemd::launching::bundle<P...> b = shmemd::launching::bundle<P...>();
    shmemx_launch_attr_t attr = shmemd::launching::attr_of(grid, block, shared_bytes, true);
    (void)compat_here();
    b.kernel = kernel;
    compat::take(&b.arguments, args);
    attr.args = &b;
    attr.args_bytes = sizeof b;
    return shmemx_launch_attr(shmemd::launching::kernel_of(kernel), &attr, stream) == 0
               ? NVSHMEMX_SUCCESS
               : NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}
template <class... P>
int nvshmemx_collective_launch_query_gridsize(void (*kernel)(P...), shmemd::dim block, void **args, size_t shared_bytes,
                                              int *gridsize)
{
    (void)args;
    *gridsize = shmemd::max_grid(kernel, (int)(block.x * block.y * block.z), shared_bytes);
    return *gridsize > 0 ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INVALID_VALUE;
}
#define COMPAT_NEEDS_TYPE                                                                                         \
    static_assert(sizeof...(A) > 99, "the CPU device cannot launch a kernel by its address alone: leave out the " \
                                     "cast to const void *");                                                     \
    return NVSHMEMX_ERROR_NOT_SUPPORTED
template <class... A> int nvshmemx_collective_launch(const void *, A...) { COMPAT_NEEDS_TYPE; }
template <class... A> int nvshmemx_collective_launch_query_gridsize(const void *, A...) { COMPAT_NEEDS_TYPE; }
#endif

/* ---- on streams ---- */

#define COMPAT_ON_STREAM(T, put, get, bytes)                                                                  \
    COMPAT_HOST void put##_on_stream(T *dest, const T *source, size_t nelems, int pe, compat_stream_t stream) \
    {                                                                                                         \
        if (shmemx_putmem_on_stream(dest, source, nelems * (bytes), pe, stream) != 0)                         \
            shmem_global_exit(1);                                                                             \
    }                                                                                                         \
    COMPAT_HOST void get##_on_stream(T *dest, const T *source, size_t nelems, int pe, compat_stream_t stream) \
    {                                                                                                         \
        if (shmemx_getmem_on_stream(dest, source, nelems * (bytes), pe, stream) != 0)                         \
            shmem_global_exit(1);                                                                             \
    }
#define COMPAT_SIGNAL_ON_STREAM(T, name, bytes)                                                                        \
    COMPAT_HOST void name##_on_stream(T *dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t signal,    \
                                      int sig_op, int pe, compat_stream_t stream)                                      \
    {                                                                                                                  \
        if (shmemx_putmem_signal_on_stream(dest, source, nelems * (bytes), sig_addr, signal, sig_op, pe, stream) != 0) \
            shmem_global_exit(1);                                                                                      \
    }
#define COMPAT_ON_STREAMS(T, put, get, put_nbi, get_nbi, put_signal, put_signal_nbi, bytes) \
    COMPAT_ON_STREAM(T, put, get, bytes)                                                    \
    COMPAT_ON_STREAM(T, put_nbi, get_nbi, bytes)                                            \
    COMPAT_SIGNAL_ON_STREAM(T, put_signal, bytes)                                           \
    COMPAT_SIGNAL_ON_STREAM(T, put_signal_nbi, bytes)
#define COMPAT_STREAM_TYPE(NAME, T, ...)                                                                          \
    COMPAT_ON_STREAMS(T, nvshmemx_##NAME##_put, nvshmemx_##NAME##_get, nvshmemx_##NAME##_put_nbi,                 \
                      nvshmemx_##NAME##_get_nbi, nvshmemx_##NAME##_put_signal, nvshmemx_##NAME##_put_signal_nbi,  \
                      sizeof(T))                                                                                  \
    COMPAT_COLL_ON_STREAM(T, nvshmemx_##NAME##_broadcast, nvshmemx_##NAME##_fcollect, nvshmemx_##NAME##_alltoall, \
                          sizeof(T))
#define COMPAT_STREAM_SIZE(BITS, BYTES, ...)                                                  \
    COMPAT_ON_STREAMS(void, nvshmemx_put##BITS, nvshmemx_get##BITS, nvshmemx_put##BITS##_nbi, \
                      nvshmemx_get##BITS##_nbi, nvshmemx_put##BITS##_signal, nvshmemx_put##BITS##_signal_nbi, BYTES)
/* In slot 0 of the team. */
#define COMPAT_COLL_ON_STREAM(T, call_b, call_f, call_a, bytes)                                                   \
    COMPAT_HOST int call_b##_on_stream(nvshmem_team_t team, T *dest, const T *source, size_t nelems, int root,    \
                                       compat_stream_t stream)                                                    \
    {                                                                                                             \
        return shmemx_broadcastmem_on_stream(compat_team_of(team), dest, source, nelems * (bytes), root, stream); \
    }                                                                                                             \
    COMPAT_HOST int call_f##_on_stream(nvshmem_team_t team, T *dest, const T *source, size_t nelems,              \
                                       compat_stream_t stream)                                                    \
    {                                                                                                             \
        return shmemx_fcollectmem_on_stream(compat_team_of(team), dest, source, nelems * (bytes), stream);        \
    }                                                                                                             \
    COMPAT_HOST int call_a##_on_stream(nvshmem_team_t team, T *dest, const T *source, size_t nelems,              \
                                       compat_stream_t stream)                                                    \
    {                                                                                                             \
        return shmemx_alltoallmem_on_stream(compat_team_of(team), dest, source, nelems * (bytes), stream);        \
    }
SHMEM_DEVICE_ARITH_TYPES(COMPAT_STREAM_TYPE, )
SHMEM_SIZES(COMPAT_STREAM_SIZE, )
COMPAT_ON_STREAMS(void, nvshmemx_putmem, nvshmemx_getmem, nvshmemx_putmem_nbi, nvshmemx_getmem_nbi,
                  nvshmemx_putmem_signal, nvshmemx_putmem_signal_nbi, 1)
COMPAT_COLL_ON_STREAM(void, nvshmemx_broadcastmem, nvshmemx_fcollectmem, nvshmemx_alltoallmem, 1)
#define COMPAT_REDUCE_ON_STREAM(NAME, T, op)                                                                         \
    COMPAT_HOST int nvshmemx_##NAME##_##op##_on_stream(nvshmem_team_t team, T *dest, const T *source, size_t nelems, \
                                                       compat_stream_t stream)                                       \
    {                                                                                                                \
        return shmemx_##NAME##_##op##_on_stream(compat_team_of(team), dest, source, nelems, stream);                 \
    }                                                                                                                \
    COMPAT_HOST int nvshmemx_##NAME##_##op##scatter_on_stream(nvshmem_team_t team, T *dest, const T *source,         \
                                                              size_t nelems, compat_stream_t stream)                 \
    {                                                                                                                \
        return shmemx_##NAME##_##op##scatter_on_stream(compat_team_of(team), dest, source, nelems, stream);          \
    }
#define COMPAT_STREAM_REDUCE_TYPE(NAME, T, op, ...) COMPAT_REDUCE_ON_STREAM(NAME, T, op)
#define COMPAT_STREAM_LOGIC(op) SHMEM_LOGIC_TYPES(COMPAT_STREAM_REDUCE_TYPE, op, )
#define COMPAT_STREAM_MINMAX(op) \
    SHMEM_DEVICE_ARITH_TYPES(COMPAT_STREAM_REDUCE_TYPE, op, ) COMPAT_HALVES(COMPAT_STREAM_REDUCE_TYPE, op, )
#define COMPAT_STREAM_SUM(op) COMPAT_STREAM_MINMAX(op)
#define COMPAT_STREAM_OP(op, old, TABLE, ...) COMPAT_STREAM_##TABLE(op)
COMPAT_HALVES(COMPAT_STREAM_TYPE, )
SHMEM_REDUCE_OPS(COMPAT_STREAM_OP, )

COMPAT_HOST void nvshmemx_signal_op_on_stream(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                              compat_stream_t stream)
{
    if (shmemx_signal_op_on_stream(sig_addr, signal, sig_op, pe, stream) != 0)
        shmem_global_exit(1);
}
COMPAT_HOST void nvshmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t value,
                                                      compat_stream_t stream)
{
    if (shmemx_signal_wait_until_on_stream(sig_addr, cmp, value, stream) != 0)
        shmem_global_exit(1);
}
COMPAT_HOST void nvshmemx_quiet_on_stream(compat_stream_t stream)
{
    if (shmemx_quiet_on_stream(stream) != 0)
        shmem_global_exit(1);
}
COMPAT_HOST void nvshmemx_flush_on_stream(compat_stream_t stream) { nvshmemx_quiet_on_stream(stream); }
COMPAT_HOST int nvshmemx_barrier_on_stream(nvshmem_team_t team, compat_stream_t stream)
{
    return shmemx_barrier_on_stream(compat_team_of(team), stream);
}
COMPAT_HOST void nvshmemx_barrier_all_on_stream(compat_stream_t stream)
{
    if (nvshmemx_barrier_on_stream(NVSHMEM_TEAM_WORLD, stream) != 0)
        shmem_global_exit(1);
}
COMPAT_HOST int nvshmemx_team_sync_on_stream(nvshmem_team_t team, compat_stream_t stream)
{
    return shmemx_sync_on_stream(compat_team_of(team), stream);
}
COMPAT_HOST int nvshmemx_sync_on_stream(nvshmem_team_t team, compat_stream_t stream)
{
    return nvshmemx_team_sync_on_stream(team, stream);
}
COMPAT_HOST void nvshmemx_sync_all_on_stream(compat_stream_t stream)
{
    if (nvshmemx_team_sync_on_stream(NVSHMEM_TEAM_WORLD, stream) != 0)
        shmem_global_exit(1);
}

#endif

#ifdef __cplusplus

COMPAT_DO(nvshmemx_signal_op, (uint64_t *sig_addr, uint64_t signal, int sig_op, int pe),
          shmemd_signal_op(compat::world(), sig_addr, signal, COMPAT_SIGNAL(sig_op), pe),
          shmem_putmem_signal(sig_addr, sig_addr, 0, sig_addr, signal, COMPAT_SIGNAL(sig_op), pe))

/* ---- by a warp or a block: form is warp, group its group here. The group synchronises at both ends ---- */

#define COMPAT_GROUP_MEM(ours, form, group)                                                             \
    COMPAT_GROUP_FN void nvshmemx_##ours##_##form(void *dest, const void *source, size_t bytes, int pe) \
        COMPAT_SYNCED(group, shmemd_##ours##_group(compat::world(), compat_group, dest, source, bytes, pe))
#define COMPAT_GROUP_MEM_SIGNAL(ours, form, group)                                                                  \
    COMPAT_GROUP_FN void nvshmemx_##ours##_##form(void *dest, const void *source, size_t bytes, uint64_t *sig_addr, \
                                                  uint64_t signal, int sig_op, int pe)                              \
        COMPAT_SYNCED(group, shmemd_##ours##_group(compat::world(), compat_group, dest, source, bytes, sig_addr,    \
                                                   signal, COMPAT_SIGNAL(sig_op), pe))
#define COMPAT_GROUP_STRIDED(T, name, ours, form, group)                                                              \
    COMPAT_GROUP_FN void name##_##form(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
        COMPAT_SYNCED(group, shmemd_##ours##_group(compat::world(), compat_group, dest, source, dst, sst, nelems, pe))
#define COMPAT_GROUP_TYPE(NAME, T, form, ...)                                                                    \
    COMPAT_MOVES(COMPAT_GROUP_FN, T, nvshmemx, nvshmemx_##NAME##_put, nvshmemx_##NAME##_get, _##form, sizeof(T)) \
    COMPAT_COLL(COMPAT_GROUP_FN, T, nvshmemx_##NAME, nvshmemx, _##form)
#define COMPAT_GROUP_IPUT(NAME, T, form, group, ...)                          \
    COMPAT_GROUP_STRIDED(T, nvshmemx_##NAME##_iput, NAME##_iput, form, group) \
    COMPAT_GROUP_STRIDED(T, nvshmemx_##NAME##_iget, NAME##_iget, form, group)
#define COMPAT_GROUP_IPUT_HALF(NAME, T, form, group, ...)               \
    COMPAT_GROUP_STRIDED(T, nvshmemx_##NAME##_iput, iput16, form, group) \
    COMPAT_GROUP_STRIDED(T, nvshmemx_##NAME##_iget, iget16, form, group)
#define COMPAT_GROUP_SIZE(BITS, BYTES, form, group, ...)                                                  \
    COMPAT_MOVES(COMPAT_GROUP_FN, void, nvshmemx, nvshmemx_put##BITS, nvshmemx_get##BITS, _##form, BYTES) \
    COMPAT_GROUP_STRIDED(void, nvshmemx_iput##BITS, iput##BITS, form, group)                              \
    COMPAT_GROUP_STRIDED(void, nvshmemx_iget##BITS, iget##BITS, form, group)
#define COMPAT_GROUP_COLL_MEM(op, form, value)                                                                       \
    COMPAT_GROUP_FN int nvshmemx_##op##mem_##form(nvshmem_team_t team, void *dest, const void *source, size_t bytes) \
    {                                                                                                                \
        return compat::op(team, value, dest, source, bytes);                                                         \
    }
#define COMPAT_GROUP_REDUCE(NAME, T, op, form, value, ...)                                                            \
    COMPAT_GROUP_FN int nvshmemx_##NAME##_##op##_##form(nvshmem_team_t team, T *dest, const T *source, size_t nelems) \
    {                                                                                                                 \
        return compat::op(team, value, dest, source, nelems);                                                         \
    }                                                                                                                 \
    COMPAT_GROUP_FN int nvshmemx_##NAME##_##op##scatter_##form(nvshmem_team_t team, T *dest, const T *source,         \
                                                               size_t nelems)                                         \
    {                                                                                                                 \
        return compat::op##scatter(team, value, dest, source, nelems);                                                \
    }
#define COMPAT_GROUP_LOGIC(op, form, value) SHMEM_LOGIC_TYPES(COMPAT_GROUP_REDUCE, op, form, value, )
#define COMPAT_GROUP_MINMAX(op, form, value)                          \
    SHMEM_DEVICE_ARITH_TYPES(COMPAT_GROUP_REDUCE, op, form, value, ) \
    COMPAT_HALVES(COMPAT_GROUP_REDUCE, op, form, value, )
#define COMPAT_GROUP_SUM(op, form, value) COMPAT_GROUP_MINMAX(op, form, value)
#define COMPAT_GROUP_OP(op, old, TABLE, form, value, ...) COMPAT_GROUP_##TABLE(op, form, value)
#define COMPAT_GROUP(form, group, value)                                                                                \
    COMPAT_GROUP_MEM(putmem, form, group)                                                                               \
    COMPAT_GROUP_MEM(getmem, form, group)                                                                               \
    COMPAT_GROUP_MEM(putmem_nbi, form, group)                                                                           \
    COMPAT_GROUP_MEM(getmem_nbi, form, group)                                                                           \
    COMPAT_GROUP_MEM_SIGNAL(putmem_signal, form, group)                                                                 \
    COMPAT_GROUP_MEM_SIGNAL(putmem_signal_nbi, form, group)                                                             \
    COMPAT_GROUP_FN int nvshmemx_broadcastmem_##form(nvshmem_team_t team, void *dest, const void *source, size_t bytes, \
                                                     int root)                                                          \
    {                                                                                                                   \
        return compat::broadcast(team, value, dest, source, bytes, root);                                               \
    }                                                                                                                   \
    COMPAT_GROUP_COLL_MEM(fcollect, form, value)                                                                        \
    COMPAT_GROUP_COLL_MEM(alltoall, form, value)                                                                        \
    SHMEM_DEVICE_ARITH_TYPES(COMPAT_GROUP_TYPE, form, )                                                                 \
    SHMEM_DEVICE_ARITH_TYPES(COMPAT_GROUP_IPUT, form, group, )                                                          \
    COMPAT_HALVES(COMPAT_GROUP_TYPE, form, )                                                                            \
    COMPAT_HALVES(COMPAT_GROUP_IPUT_HALF, form, group, )                                                                \
    SHMEM_SIZES(COMPAT_GROUP_SIZE, form, group, )                                                                       \
    SHMEM_REDUCE_OPS(COMPAT_GROUP_OP, form, value, )                                                                    \
    COMPAT_GROUP_FN int nvshmemx_barrier_##form(nvshmem_team_t team) { return compat::barrier(team, value); }           \
    COMPAT_GROUP_FN void nvshmemx_barrier_all_##form(void) { (void)compat::barrier(NVSHMEM_TEAM_WORLD, value); }        \
    COMPAT_GROUP_FN int nvshmemx_team_sync_##form(nvshmem_team_t team) { return compat::sync(team, value); }            \
    COMPAT_GROUP_FN int nvshmemx_sync_##form(nvshmem_team_t team) { return compat::sync(team, value); }                 \
    COMPAT_GROUP_FN void nvshmemx_sync_all_##form(void) { (void)compat::sync(NVSHMEM_TEAM_WORLD, value); }
COMPAT_GROUP(warp, shmemd_wave(), shmemd::wave())
COMPAT_GROUP(block, shmemd_block(), shmemd::block())

/* T: double2 of CUDA, or the program's own struct of two doubles. */
#define COMPAT_MAXLOC(form, group)                                                                                  \
    template <class T>                                                                                              \
    PRIM_FN int nvshmemx_double2_maxloc_reduce_##form(nvshmem_team_t team, T *dest, const T *source, size_t nelems) \
    {                                                                                                               \
        static_assert(sizeof(T) == 2 * sizeof(double), "maxloc is of double2: a value and its location");           \
        return compat::maxloc_reduce(team, group, dest, source, nelems);                                            \
    }
COMPAT_MAXLOC(warp, shmemd::wave())
COMPAT_MAXLOC(block, shmemd::block())

#define COMPAT_REAL_ADD(NAME, T)                                                   \
    COMPAT_GROUP_FN T nvshmemx_##NAME##_atomic_fetch_add(T *dest, T value, int pe) \
    {                                                                              \
        return shmemd_##NAME##_atomic_fetch_add(compat::world(), dest, value, pe); \
    }                                                                              \
    COMPAT_GROUP_FN void nvshmemx_##NAME##_atomic_add(T *dest, T value, int pe)    \
    {                                                                              \
        shmemd_##NAME##_atomic_add(compat::world(), dest, value, pe);              \
    }
COMPAT_REAL_ADD(float, float)
COMPAT_REAL_ADD(double, double)
#ifdef COMPAT_CUDA
#define COMPAT_HALF_ADD(NAME, T)                                                   \
    COMPAT_GROUP_FN T nvshmemx_##NAME##_atomic_fetch_add(T *dest, T value, int pe) \
    {                                                                              \
        return shmemd::atomic_fetch_add(compat::world(), dest, value, pe);         \
    }                                                                              \
    COMPAT_GROUP_FN void nvshmemx_##NAME##_atomic_add(T *dest, T value, int pe)    \
    {                                                                              \
        shmemd::atomic_add(compat::world(), dest, value, pe);                      \
    }
COMPAT_HALF_ADD(half, __half)
COMPAT_HALF_ADD(half2, __half2)
COMPAT_HALF_ADD(bfloat16, __nv_bfloat16)
COMPAT_HALF_ADD(bfloat162, __nv_bfloat162)
#endif
COMPAT_GROUP_FN void nvshmemx_flush(void) { shmemd_flush(compat::world()); }
COMPAT_GROUP_FN void nvshmemx_flush_warp(void) { shmemd_flush_wave(compat::world()); }
COMPAT_GROUP_FN void nvshmemx_flush_block(void) { shmemd_flush_block(compat::world()); }

/* ---- what is missing: a sentence at compile time ---- */

#define COMPAT_NO_REGION "there are no regions"
COMPAT_MISSING(nvshmemx_region_start, COMPAT_NO_REGION)
COMPAT_MISSING(nvshmemx_region_stop, COMPAT_NO_REGION)
COMPAT_MISSING(nvshmemx_region_start_block, COMPAT_NO_REGION)
COMPAT_MISSING(nvshmemx_region_stop_block, COMPAT_NO_REGION)
COMPAT_MISSING(nvshmemx_region_is_active, COMPAT_NO_REGION)
COMPAT_MISSING(nvshmem_team_get_config, "teams have no configuration")
COMPAT_MISSING(nvshmemx_team_init, "take nvshmem_team_split_strided, or shmemx_team_create")
COMPAT_MISSING(nvshmemx_team_get_uniqueid, "take nvshmem_team_split_strided, or shmemx_team_create")
COMPAT_MISSING(nvshmemx_signal_counted_reset, "there are no counted signals")
COMPAT_MISSING(nvshmemx_barrier_warpgroup, "take nvshmemx_barrier_warp or nvshmemx_barrier_block")
#define COMPAT_NO_SMEM "the library takes no shared memory of a kernel"
COMPAT_MISSING(nvshmemx_ask_smem, COMPAT_NO_SMEM)
COMPAT_MISSING(nvshmemx_give_smem, COMPAT_NO_SMEM)
COMPAT_MISSING(nvshmemx_release_smem, COMPAT_NO_SMEM)
COMPAT_MISSING(nvshmemx_collective_launch_attr, "take nvshmemx_collective_launch, or shmemx_launch_attr")
COMPAT_MISSING(nvshmemx_buffer_register_symmetric_at_preferred_address, "buffers stay where they are")
COMPAT_MISSING(nvshmemx_buffer_unregister_all, "unregister each buffer")
#define COMPAT_NO_WORD "not on streams; launch a kernel for it"
#define COMPAT_NO_QP "there are no queue pairs in kernels; take the call without qp_"
COMPAT_MISSING(nvshmemx_qp_create, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_fence, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_quiet, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_signal_op, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_fence_warp, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_fence_block, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_quiet_warp, COMPAT_NO_QP)
COMPAT_MISSING(nvshmemx_qp_quiet_block, COMPAT_NO_QP)
#define COMPAT_MISSING_SIZE(BITS, ...)                              \
    COMPAT_MISSING(nvshmemx_iput##BITS##_on_stream, COMPAT_NO_WORD) \
    COMPAT_MISSING(nvshmemx_iget##BITS##_on_stream, COMPAT_NO_WORD)
SHMEM_SIZES(COMPAT_MISSING_SIZE, )
#define COMPAT_MISSING_TYPE(NAME, T, ...)                            \
    COMPAT_MISSING(nvshmemx_##NAME##_p_on_stream, COMPAT_NO_WORD)    \
    COMPAT_MISSING(nvshmemx_##NAME##_g_on_stream, COMPAT_NO_WORD)    \
    COMPAT_MISSING(nvshmemx_##NAME##_iput_on_stream, COMPAT_NO_WORD) \
    COMPAT_MISSING(nvshmemx_##NAME##_iget_on_stream, COMPAT_NO_WORD) \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_put, COMPAT_NO_QP)           \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_put_warp, COMPAT_NO_QP)      \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_put_block, COMPAT_NO_QP)     \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_get, COMPAT_NO_QP)           \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_p, COMPAT_NO_QP)             \
    COMPAT_MISSING(nvshmemx_qp_##NAME##_g, COMPAT_NO_QP)
SHMEM_DEVICE_ARITH_TYPES(COMPAT_MISSING_TYPE, )
#define COMPAT_MISSING_WAIT(NAME, T, ...)                                      \
    COMPAT_MISSING(nvshmemx_##NAME##_wait_until_on_stream, COMPAT_NO_WORD)     \
    COMPAT_MISSING(nvshmemx_##NAME##_wait_until_all_on_stream, COMPAT_NO_WORD) \
    COMPAT_MISSING(nvshmemx_##NAME##_wait_until_all_vector_on_stream, COMPAT_NO_WORD)
SHMEM_STD_TYPES(COMPAT_MISSING_WAIT, )
#ifndef COMPAT_CUDA
COMPAT_MISSING(nvshmemx_half_atomic_add, "there is no __half on the CPU device; take shmemd_half_atomic_add")
COMPAT_MISSING(nvshmemx_half_atomic_fetch_add, "there is no __half on the CPU device; take shmemd_half_atomic_fetch_add")
#endif

#endif

#endif
