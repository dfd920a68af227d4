/* SPDX-License-Identifier: MIT */
/* Profiling interface, section 10. Each function shmem_x also exists as pshmem_x, of the same type, and shmem_x itself
 * is a weak symbol. A tool defines shmem_x, counts, and calls pshmem_x. Type-generic names have no second form: they
 * call the typed functions, which have one. Deprecated names without the prefix shmem_ get a p in front. */
#ifndef PSHMEM_H
#define PSHMEM_H

#include "shmem.h"
#include "shmemx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PSHMEM(name) extern __typeof__(shmem_##name) pshmem_##name;
#define PSHMEM_CTX(name) PSHMEM(name) PSHMEM(ctx_##name)
#define PSHMEM_TYPED(NAME, TYPE, op, ...) PSHMEM(NAME##_##op)
#define PSHMEM_TYPED_CTX(NAME, TYPE, op, ...) PSHMEM_CTX(NAME##_##op)

/* Set-up, threads, memory. */
PSHMEM(init)
PSHMEM(finalize)
PSHMEM(query_initialized)
PSHMEM(my_pe)
PSHMEM(n_pes)
SHMEM_NORETURN void pshmem_global_exit(int status);
PSHMEM(pe_accessible)
PSHMEM(addr_accessible)
PSHMEM(ptr)
PSHMEM(team_ptr)
PSHMEM(info_get_version)
PSHMEM(info_get_name)
PSHMEM(init_thread)
PSHMEM(query_thread)
PSHMEM(malloc)
PSHMEM(calloc)
PSHMEM(align)
PSHMEM(realloc)
PSHMEM(free)
PSHMEM(malloc_with_hints)
PSHMEM(pcontrol)
extern __typeof__(start_pes) pstart_pes;
extern __typeof__(_my_pe) p_my_pe;
extern __typeof__(_num_pes) p_num_pes;
extern __typeof__(shmalloc) pshmalloc;
extern __typeof__(shmemalign) pshmemalign;
extern __typeof__(shrealloc) pshrealloc;
extern __typeof__(shfree) pshfree;

/* Teams, contexts, sessions. */
PSHMEM(team_my_pe)
PSHMEM(team_n_pes)
PSHMEM(team_get_config)
PSHMEM(team_translate_pe)
PSHMEM(team_split_strided)
PSHMEM(team_split_2d)
PSHMEM(team_destroy)
PSHMEM(team_create_ctx)
PSHMEM(ctx_create)
PSHMEM(ctx_destroy)
PSHMEM(ctx_get_team)
PSHMEM(ctx_session_start)
PSHMEM(ctx_session_stop)

/* RMA and signals. */
#define PSHMEM_RMA_TYPE(NAME, TYPE, ...) \
    PSHMEM_CTX(NAME##_put)               \
    PSHMEM_CTX(NAME##_get)               \
    PSHMEM_CTX(NAME##_put_nbi)           \
    PSHMEM_CTX(NAME##_get_nbi)           \
    PSHMEM_CTX(NAME##_p)                 \
    PSHMEM_CTX(NAME##_g)                 \
    PSHMEM_CTX(NAME##_iput)              \
    PSHMEM_CTX(NAME##_iget)              \
    PSHMEM_CTX(NAME##_ibput)             \
    PSHMEM_CTX(NAME##_ibget)             \
    PSHMEM_CTX(NAME##_put_signal)        \
    PSHMEM_CTX(NAME##_put_signal_nbi)
SHMEM_RMA_TYPES(PSHMEM_RMA_TYPE, )
#define PSHMEM_COPY_SIZE(BITS, BYTES, ...) \
    PSHMEM_CTX(put##BITS)                  \
    PSHMEM_CTX(get##BITS)                  \
    PSHMEM_CTX(put##BITS##_nbi)            \
    PSHMEM_CTX(get##BITS##_nbi)            \
    PSHMEM_CTX(put##BITS##_signal)         \
    PSHMEM_CTX(put##BITS##_signal_nbi)
SHMEM_SIZES(PSHMEM_COPY_SIZE, )
PSHMEM_COPY_SIZE(mem, 1, )
#define PSHMEM_STRIDED_SIZE(BITS, BYTES, ...) \
    PSHMEM_CTX(iput##BITS)                    \
    PSHMEM_CTX(iget##BITS)                    \
    PSHMEM_CTX(ibput##BITS)                   \
    PSHMEM_CTX(ibget##BITS)
SHMEM_SIZES(PSHMEM_STRIDED_SIZE, )
/* These four names are overloaded in C++, so their types are written out. */
void pshmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe);
void pshmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe);
void pshmem_sync(SHMEM_ACTIVE_SET, long *pSync);
void pshmem_wait_until(long *ivar, int cmp, long cmp_value);
PSHMEM(ctx_signal_add)
PSHMEM(ctx_signal_set)
PSHMEM(signal_fetch)
PSHMEM(signal_wait_until)

/* Atomics. */
SHMEM_EXT_TYPES(PSHMEM_TYPED_CTX, atomic_fetch, )
SHMEM_EXT_TYPES(PSHMEM_TYPED_CTX, atomic_fetch_nbi, )
SHMEM_EXT_TYPES(PSHMEM_TYPED_CTX, atomic_set, )
SHMEM_EXT_TYPES(PSHMEM_TYPED_CTX, atomic_swap, )
SHMEM_EXT_TYPES(PSHMEM_TYPED_CTX, atomic_swap_nbi, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_compare_swap, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_compare_swap_nbi, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_inc, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_fetch_inc, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_fetch_inc_nbi, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_add, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_fetch_add, )
SHMEM_STD_TYPES(PSHMEM_TYPED_CTX, atomic_fetch_add_nbi, )
#define PSHMEM_BIT(op, fetch_op, ...) SHMEM_BIT_TYPES(PSHMEM_BIT_TYPE, op, fetch_op)
#define PSHMEM_BIT_TYPE(NAME, TYPE, op, fetch_op) \
    PSHMEM_CTX(NAME##_##op)                       \
    PSHMEM_CTX(NAME##_##fetch_op)                 \
    PSHMEM_CTX(NAME##_##fetch_op##_nbi)
SHMEM_BIT_OPS(PSHMEM_BIT, )
SHMEM_OLD_EXT_TYPES(PSHMEM_TYPED, fetch, )
SHMEM_OLD_EXT_TYPES(PSHMEM_TYPED, set, )
SHMEM_OLD_EXT_TYPES(PSHMEM_TYPED, swap, )
SHMEM_OLD_STD_TYPES(PSHMEM_TYPED, cswap, )
SHMEM_OLD_STD_TYPES(PSHMEM_TYPED, finc, )
SHMEM_OLD_STD_TYPES(PSHMEM_TYPED, inc, )
SHMEM_OLD_STD_TYPES(PSHMEM_TYPED, fadd, )
SHMEM_OLD_STD_TYPES(PSHMEM_TYPED, add, )

/* Collectives. */
PSHMEM(barrier_all)
PSHMEM(sync_all)
PSHMEM(team_sync)
PSHMEM(barrier)
SHMEM_RMA_TYPES(PSHMEM_TYPED, alltoall, )
SHMEM_RMA_TYPES(PSHMEM_TYPED, alltoalls, )
SHMEM_RMA_TYPES(PSHMEM_TYPED, broadcast, )
SHMEM_RMA_TYPES(PSHMEM_TYPED, collect, )
SHMEM_RMA_TYPES(PSHMEM_TYPED, fcollect, )
#define PSHMEM_MOVE_SIZE(BITS, BYTES, ...) \
    PSHMEM(alltoall##BITS)                 \
    PSHMEM(alltoalls##BITS)                \
    PSHMEM(broadcast##BITS)                \
    PSHMEM(collect##BITS)                  \
    PSHMEM(fcollect##BITS)
SHMEM_SET_SIZES(PSHMEM_MOVE_SIZE, )
PSHMEM_MOVE_SIZE(mem, 1, )
#define PSHMEM_REDUCE(op, set_op, GROUP, ...) \
    SHMEM_##GROUP##_TYPES(PSHMEM_TYPED, op, ) SHMEM_SET_##GROUP##_TYPES(PSHMEM_TYPED, set_op, )
SHMEM_REDUCE_OPS(PSHMEM_REDUCE, )
#define PSHMEM_SCAN(op, ...) SHMEM_SUM_TYPES(PSHMEM_TYPED, op, )
SHMEM_SCAN_OPS(PSHMEM_SCAN, )

/* Waits, tests, ordering, locks. */
SHMEM_P2P_TYPES(PSHMEM_TYPED, wait_until, )
SHMEM_P2P_TYPES(PSHMEM_TYPED, test, )
#define PSHMEM_ARRAY_TYPE(NAME, TYPE, op, ...) PSHMEM(NAME##_##op) PSHMEM(NAME##_##op##_vector)
#define PSHMEM_ARRAY(R, op, ...) SHMEM_P2P_TYPES(PSHMEM_ARRAY_TYPE, op, )
#define PSHMEM_SOME(op, ...) SHMEM_P2P_TYPES(PSHMEM_ARRAY_TYPE, op, )
SHMEM_ARRAY_WAIT_OPS(PSHMEM_ARRAY, )
SHMEM_ARRAY_SOME_OPS(PSHMEM_SOME, )
SHMEM_OLD_WAIT_TYPES(PSHMEM_TYPED, wait, )
PSHMEM(wait)
PSHMEM_CTX(fence)
PSHMEM_CTX(quiet)
PSHMEM_CTX(pe_quiet)
PSHMEM(set_lock)
PSHMEM(test_lock)
PSHMEM(clear_lock)

/* Extensions. */
#define PSHMEMX(name) extern __typeof__(shmemx_##name) pshmemx_##name;
PSHMEMX(get_uniqueid)
PSHMEMX(init_attr)
PSHMEMX(set_error_mode)
PSHMEMX(error_text)
PSHMEMX(set_error_handler)
PSHMEMX(break)
PSHMEMX(leave)
PSHMEMX(buffer_register)
PSHMEMX(team_buffer_register)
PSHMEMX(team_buffer_unregister)
PSHMEMX(buffer_unregister)
PSHMEMX(heap_is_valid)
PSHMEMX(version)
PSHMEMX(struct_bytes)
PSHMEMX(info_text)
PSHMEMX(doctor_text)
PSHMEMX(job_text)
PSHMEMX(team_create)
PSHMEMX(team_split_color)
PSHMEMX(team_mask_deaths)
PSHMEMX(team_set_timeout)
PSHMEMX(team_break)
PSHMEMX(suspend)
PSHMEMX(keep)
PSHMEMX(resume)
PSHMEMX(memory_stats)
PSHMEMX(local_malloc)
PSHMEMX(local_free)
PSHMEMX(torch_malloc)
PSHMEMX(torch_free)
PSHMEMX(team_malloc)
PSHMEMX(team_free)
PSHMEMX(offset_of)
PSHMEMX(at_offset)
PSHMEMX(device_ptr)
PSHMEMX(address_info)
PSHMEMX(device_init)
PSHMEMX(device_text)
PSHMEMX(malloc)
PSHMEMX(calloc)
PSHMEMX(align)
PSHMEMX(free)
PSHMEMX(device_handle)
PSHMEMX(max_blocks)
PSHMEMX(max_grid)
PSHMEMX(module_write)
PSHMEMX(library_write)
PSHMEMX(device_error)
PSHMEMX(status)
PSHMEMX(device_abort)
PSHMEMX(device_reset)
PSHMEMX(stream_create)
PSHMEMX(stream_destroy)
PSHMEMX(stream_synchronize)
PSHMEMX(stream_wait_stream)
PSHMEMX(launch)
PSHMEMX(launch_cooperative)
PSHMEMX(launch_attr)
PSHMEMX(graph_begin)
PSHMEMX(graph_end)
PSHMEMX(graph_launch)
PSHMEMX(graph_destroy)
PSHMEMX(putmem_on_stream)
PSHMEMX(getmem_on_stream)
PSHMEMX(putmem_signal_on_stream)
PSHMEMX(signal_op_on_stream)
PSHMEMX(signal_wait_until_on_stream)
PSHMEMX(quiet_on_stream)
PSHMEMX(barrier_on_stream)
PSHMEMX(sync_on_stream)
PSHMEMX(coll_on_stream)
PSHMEMX(send_on_stream)
PSHMEMX(recv_on_stream)
PSHMEMX(coll_group_begin)
PSHMEMX(coll_group_end)
PSHMEMX(coll_on_host)
PSHMEMX(slot_prepare)
PSHMEMX(slots)
PSHMEMX(rendezvous)
PSHMEMX(coll_explain)
PSHMEMX(coll_tune)

#ifdef __cplusplus
}
#endif

#endif
