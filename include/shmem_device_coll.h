/* SPDX-License-Identifier: MIT */
/* In-kernel collectives. Included by shmem_device.h.
 *
 * Who calls. _block: all threads of a block. Block b works with the blocks b of the other members, or with those that
 * shmemd_lane chooses. They make the same calls in the same order, with equal sizes. Blocks do not wait for other
 * blocks of their PE. _grid: all threads of all blocks of the kernel, in grids of equally many blocks on every member;
 * all blocks must be able to run at once (shmemx_max_blocks). _group(h, g, ...), of all but alltoallv: g is
 * shmemd_thread(), shmemd_wave() or shmemd_block(). A thread and a wave call in the sequence of their block, one of
 * them at a time: another one comes next behind a shmemd_group_sync of the block. In barrier and sync one member may
 * take part by a thread, another one by a wave or a block. In all else the groups of all members are of one kind, since
 * each kind's data goes its own ways (and on NVIDIA all are compiled with -rdc=true, or none is). A handle, that is a
 * (team, slot), is used by one kernel at a time; kernels that run at the same time use different slots.
 *
 * Arguments: dest and source are symmetric: device memory or registered buffers, aligned to their elements. Copies are
 * fastest at multiples of 16. Sizes may be 0. dest and source do not overlap, unless the call allows it.
 *
 * Buffers: everything that the group (the block, the grid) has stored before the call is part of its source, without a
 * sync in between. Others may write dest as soon as this PE has entered the call, never before. When the call returns,
 * the whole dest is there for all threads of the group (the block, the grid), and source may be written. Only barrier
 * completes puts of the caller.
 *
 * Return: 0, equal for all threads. Nonzero: a wait has given up, now or earlier, or the call was wrong
 * (shmemx_device_error says why); then dest is undefined.
 *
 * Up to 8 KiB by a block, 4 KiB by a wave and 512 bytes by a thread, less above 8 PEs, data takes one hop; else two.
 */
#ifndef SHMEM_DEVICE_COLL_H
#define SHMEM_DEVICE_COLL_H

#include "shmem_device.h" /* may be included in either order */

#include "../coll/kernel/alltoallv_device.h"
#include "../coll/kernel/few_device.h"
#include "../coll/kernel/move_device.h"
#include "../coll/kernel/reduce_device.h"
#include "../coll/kernel/sync_device.h"

/* ---- lanes ----
 * A lane is one sequence of block collectives of a handle. Block b uses lane b. This function returns the handle with
 * which _block calls use lane `lane`, on whichever block they are made. So blocks with different numbers on the members
 * can work together: the last block that is done, or a block that a counter has chosen. _grid calls and all else are as
 * with h.
 *     if (last) rc = shmemd_barrier_block(shmemd_lane(h, 0));
 * `lane` is equal on all members and below SHMEM_DEVICE_BLOCKS; with another one the calls return nonzero. Where no
 * lane was chosen, block b uses lane b: a kernel that mixes both takes lanes from its number of blocks on. One block of
 * a PE at a time uses a lane. When another block uses it later in the same kernel, the program orders the two as it
 * does for memory: by grid_sync, or by an atomic behind a fence of the first and an acquire by the second. Two blocks
 * at once are misuse, reported where it is noticed. */
PRIM_FN shmemd_t shmemd_lane(shmemd_t h, unsigned lane) { return isod_with_lane(h, lane); }

/* ---- synchronisation (sections 9.10.1 to 9.10.4) ---- */

/* Completes everything that this PE's kernels have sent (quiet); all members that return see it. */
PRIM_FN int shmemd_barrier_block(shmemd_t h) { return isod_barrier_block(h); }
PRIM_FN int shmemd_barrier_grid(shmemd_t h) { return isod_barrier_grid(h); }
/* Arrival only: it orders no memory and completes nothing, and is fast for that reason. */
PRIM_FN int shmemd_sync_block(shmemd_t h) { return isod_sync_block(h); }
PRIM_FN int shmemd_sync_grid(shmemd_t h) { return isod_sync_grid(h); }
/* The same by the calling thread, by its wave, and by any group. */
PRIM_FN int shmemd_barrier(shmemd_t h) { return isod_barrier_few(h, prim_group_thread()); }
PRIM_FN int shmemd_barrier_wave(shmemd_t h) { return isod_barrier_few(h, prim_group_wave()); }
PRIM_FN int shmemd_sync(shmemd_t h) { return isod_sync_few(h, prim_group_thread()); }
PRIM_FN int shmemd_sync_wave(shmemd_t h) { return isod_sync_few(h, prim_group_wave()); }
PRIM_FN int shmemd_barrier_group(shmemd_t h, shmemd_group_t g)
{
    return g.kind == PRIM_BLOCK ? isod_barrier_block(h) : isod_barrier_few(h, g);
}
PRIM_FN int shmemd_sync_group(shmemd_t h, shmemd_group_t g)
{
    return g.kind == PRIM_BLOCK ? isod_sync_block(h) : isod_sync_few(h, g);
}
/* Synchronises the blocks of this PE's grid: they see each other's stores. No other PE takes part. */
PRIM_FN int shmemd_grid_sync(shmemd_t h) { return isod_grid_sync(h) ? 1 : 0; }

/* ---- data (sections 9.10.5 to 9.10.8), in bytes and in elements of any type of put and get ----
 * broadcast: the root's source to dest of all members, the root's too; in place at the root.
 * fcollect: nelems of each member, in the order of members, to dest (n_pes * nelems) of all members.
 * alltoall: block m (nelems) of source to block my_pe of member m's dest.
 * permute: source to the dest of PE `to`, where this PE is `from`; a PE that sends to itself receives from itself.
 * alltoallv: source_nelems[m] elements from source + source_displs[m] to member m, which expects as many from this PE:
 * they go to its dest + dest_displs[this PE]. Arrays are in any memory that the kernel can load, have n_pes elements,
 * and count elements (mem: bytes); only the member itself reads them. The two numbers of a pair are equal, and
 * below 1 TiB - 2 bytes; else both its members return nonzero, and the smaller number arrives, of two larger ones
 * nothing. */
#define SHMEMD_BY_block shmemd_t h
#define SHMEMD_BY_grid shmemd_t h
#define SHMEMD_BY_group shmemd_t h, shmemd_group_t g
#define SHMEMD_AS_block h
#define SHMEMD_AS_grid h
#define SHMEMD_AS_group h, g
#define SHMEMD_EXCHANGE(form)                                                                                        \
    PRIM_FN int shmemd_broadcastmem_##form(SHMEMD_BY_##form, void *dest, const void *source, size_t bytes, int root) \
    {                                                                                                                \
        SHMEMD_CHECK_BYTES(bytes);                                                                                   \
        PRIM_CHECK_ADDR("dest", dest, bytes, 1u);                                                                    \
        struct isod_move w = isod_move_of(dest, source, bytes);                                                      \
        w.from = root;                                                                                               \
        return isod_broadcast_##form(SHMEMD_AS_##form, w);                                                           \
    }                                                                                                                \
    PRIM_FN int shmemd_fcollectmem_##form(SHMEMD_BY_##form, void *dest, const void *source, size_t bytes)            \
    {                                                                                                                \
        SHMEMD_CHECK_BUFFERS(bytes);                                                                                 \
        struct isod_move w = isod_move_of(dest, source, bytes);                                                      \
        w.dest_stride = bytes;                                                                                       \
        return isod_exchange_##form(SHMEMD_AS_##form, w, ISOD_CALL_FCOLLECT);                                        \
    }                                                                                                                \
    PRIM_FN int shmemd_alltoallmem_##form(SHMEMD_BY_##form, void *dest, const void *source, size_t bytes)            \
    {                                                                                                                \
        SHMEMD_CHECK_BUFFERS(bytes);                                                                                 \
        struct isod_move w = isod_move_of(dest, source, bytes);                                                      \
        w.dest_stride = w.source_stride = bytes;                                                                     \
        return isod_exchange_##form(SHMEMD_AS_##form, w, ISOD_CALL_ALLTOALL);                                        \
    }                                                                                                                \
    PRIM_FN int shmemd_permutemem_##form(SHMEMD_BY_##form, void *dest, const void *source, size_t bytes, int to,     \
                                         int from)                                                                   \
    {                                                                                                                \
        SHMEMD_CHECK_BUFFERS(bytes);                                                                                 \
        struct isod_move w = isod_move_of(dest, source, bytes);                                                      \
        w.to = to;                                                                                                   \
        w.from = from;                                                                                               \
        return isod_permute_##form(SHMEMD_AS_##form, w);                                                             \
    }
SHMEMD_EXCHANGE(block)
SHMEMD_EXCHANGE(grid)
SHMEMD_EXCHANGE(group)

#define SHMEMD_EXCHANGE_TYPE(NAME, TYPE, form, ...)                                                               \
    PRIM_FN int shmemd_##NAME##_broadcast_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems, \
                                                 int root)                                                        \
    {                                                                                                             \
        return shmemd_broadcastmem_##form(SHMEMD_AS_##form, dest, source, nelems * sizeof(TYPE), root);           \
    }                                                                                                             \
    PRIM_FN int shmemd_##NAME##_fcollect_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems)  \
    {                                                                                                             \
        return shmemd_fcollectmem_##form(SHMEMD_AS_##form, dest, source, nelems * sizeof(TYPE));                  \
    }                                                                                                             \
    PRIM_FN int shmemd_##NAME##_alltoall_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems)  \
    {                                                                                                             \
        return shmemd_alltoallmem_##form(SHMEMD_AS_##form, dest, source, nelems * sizeof(TYPE));                  \
    }                                                                                                             \
    PRIM_FN int shmemd_##NAME##_permute_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems,   \
                                               int to, int from)                                                  \
    {                                                                                                             \
        return shmemd_permutemem_##form(SHMEMD_AS_##form, dest, source, nelems * sizeof(TYPE), to, from);         \
    }
SHMEM_DEVICE_TYPES(SHMEMD_EXCHANGE_TYPE, block, )
SHMEM_DEVICE_TYPES(SHMEMD_EXCHANGE_TYPE, grid, )
SHMEM_DEVICE_TYPES(SHMEMD_EXCHANGE_TYPE, group, )

#define SHMEMD_VECTOR(name, T, bytes, form)                                                                       \
    PRIM_FN int shmemd_##name##_##form(shmemd_t h, T *dest, const size_t *dest_nelems, const size_t *dest_displs, \
                                       const T *source, const size_t *source_nelems, const size_t *source_displs) \
    {                                                                                                             \
        struct isod_vector w = isod_vector_of(dest, source, bytes);                                               \
        w.dest_nelems = dest_nelems;                                                                              \
        w.dest_displs = dest_displs;                                                                              \
        w.source_nelems = source_nelems;                                                                          \
        w.source_displs = source_displs;                                                                          \
        return isod_alltoallv_##form(h, w);                                                                       \
    }
#define SHMEMD_VECTOR_TYPE(NAME, TYPE, ...)                    \
    SHMEMD_VECTOR(NAME##_alltoallv, TYPE, sizeof(TYPE), block) \
    SHMEMD_VECTOR(NAME##_alltoallv, TYPE, sizeof(TYPE), grid)
SHMEMD_VECTOR(alltoallvmem, void, 1, block)
SHMEMD_VECTOR(alltoallvmem, void, 1, grid)
SHMEM_DEVICE_TYPES(SHMEMD_VECTOR_TYPE, )

/* ---- reductions (section 9.10.9) ----
 * shmemd_NAME_OP_reduce_{block,grid}(h, dest, source, nelems): nelems elements of all members, combined element by
 * element, to dest of all members. dest may be source.
 * shmemd_NAME_OP_reducescatter_{block,grid}(h, dest, source, nelems): source holds n_pes blocks of nelems; member m
 * gets the combination of the blocks m. Its dest may be its own block m of source.
 * OP: sum, prod, min, max; and, or, xor of integers as in shmem.h; sum and prod of complexf and complexd; sum, prod,
 * min, max of half and bfloat16, combined in float and rounded once.
 * shmemd_NAME_maxloc_reduce_{block,grid}, minloc, and their reducescatter: elements are a value and a location, which
 * goes with it (structs shmemd_NAME_loc_t). Of equal values the one with the smaller location is taken. A NaN is
 * neither greater nor smaller. NAME: float and int32, with locations of 32 bits; double and int64, of 64 bits; double2,
 * whose location is a double.
 * Elements are combined in the order of members, as by the host's shmem_NAME_OP_reduce: results are the same bits on
 * all PEs and in every run. Integers wrap. */
typedef struct {
    float re, im;
} shmemd_complexf_t;
typedef struct {
    double re, im;
} shmemd_complexd_t;

/* How an element of each type lies in memory: an enumerator of elem_device.h without its first part. The underscore is
 * there because of macros of the user's (f32). */
#define SHMEMD_ELEM_float _f32
#define SHMEMD_ELEM_double _f64
#if '\377' < 0
#define SHMEMD_ELEM_char _i8
#else
#define SHMEMD_ELEM_char _u8
#endif
#define SHMEMD_ELEM_schar _i8
#define SHMEMD_ELEM_short _i16
#define SHMEMD_ELEM_int _i32
#define SHMEMD_ELEM_long _i64
#define SHMEMD_ELEM_longlong _i64
#define SHMEMD_ELEM_uchar _u8
#define SHMEMD_ELEM_ushort _u16
#define SHMEMD_ELEM_uint _u32
#define SHMEMD_ELEM_ulong _u64
#define SHMEMD_ELEM_ulonglong _u64
#define SHMEMD_ELEM_int8 _i8
#define SHMEMD_ELEM_int16 _i16
#define SHMEMD_ELEM_int32 _i32
#define SHMEMD_ELEM_int64 _i64
#define SHMEMD_ELEM_uint8 _u8
#define SHMEMD_ELEM_uint16 _u16
#define SHMEMD_ELEM_uint32 _u32
#define SHMEMD_ELEM_uint64 _u64
#define SHMEMD_ELEM_size _u64
#define SHMEMD_ELEM_ptrdiff _i64
typedef char shmemd_long_has_8_bytes[sizeof(long) == 8 && sizeof(size_t) == 8 ? 1 : -1];

#define SHMEMD_REDUCE_STAMP(NAME, TYPE, OP, form, elem)                                                               \
    PRIM_FN int shmemd_##NAME##_##OP##_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems)        \
    {                                                                                                                 \
        SHMEMD_CHECK_BUFFERS(nelems * sizeof(TYPE));                                                                  \
        struct isod_reduce w = isod_reduce_of(dest, source, nelems * sizeof(TYPE), 0);                                \
        return isod_reduce_##form(SHMEMD_AS_##form, w, ISOD_ELEM##elem, ISOD_OP_##OP, isod_reduce_pipelined##elem);   \
    }                                                                                                                 \
    PRIM_FN int shmemd_##NAME##_##OP##scatter_##form(SHMEMD_BY_##form, TYPE *dest, const TYPE *source, size_t nelems) \
    {                                                                                                                 \
        SHMEMD_CHECK_BUFFERS(nelems * sizeof(TYPE));                                                                  \
        size_t bytes = nelems * sizeof(TYPE);                                                                         \
        struct isod_reduce w = isod_reduce_of(dest, source, bytes, bytes);                                            \
        return isod_reduce_##form(SHMEMD_AS_##form, w, ISOD_ELEM##elem, ISOD_OP_##OP, isod_reduce_pipelined##elem);   \
    }
#define SHMEMD_REDUCE_AS(NAME, TYPE, OP, elem)       \
    SHMEMD_REDUCE_STAMP(NAME, TYPE, OP, block, elem) \
    SHMEMD_REDUCE_STAMP(NAME, TYPE, OP, grid, elem)  \
    SHMEMD_REDUCE_STAMP(NAME, TYPE, OP, group, elem)
#define SHMEMD_REDUCE_TYPE(NAME, TYPE, OP, ...) SHMEMD_REDUCE_AS(NAME, TYPE, OP, SHMEMD_ELEM_##NAME)
#define SHMEMD_REDUCE_LOGIC(OP) SHMEM_LOGIC_TYPES(SHMEMD_REDUCE_TYPE, OP, )
#define SHMEMD_REDUCE_MINMAX(OP)                       \
    SHMEM_DEVICE_ARITH_TYPES(SHMEMD_REDUCE_TYPE, OP, ) \
    SHMEMD_REDUCE_AS(half, shmemd_half_t, OP, _f16)    \
    SHMEMD_REDUCE_AS(bfloat16, shmemd_bfloat16_t, OP, _bf16)
#define SHMEMD_REDUCE_SUM(OP)                               \
    SHMEMD_REDUCE_MINMAX(OP)                                \
    SHMEMD_REDUCE_AS(complexf, shmemd_complexf_t, OP, _c32) \
    SHMEMD_REDUCE_AS(complexd, shmemd_complexd_t, OP, _c64)
#define SHMEMD_REDUCE_OP(OP, OLD, TABLE, ...) SHMEMD_REDUCE_##TABLE(OP)
SHMEM_REDUCE_OPS(SHMEMD_REDUCE_OP, )

typedef struct {
    float value;
    int32_t at;
} shmemd_float_loc_t;
typedef struct {
    int32_t value, at;
} shmemd_int32_loc_t;
typedef struct {
    double value;
    int64_t at;
} shmemd_double_loc_t;
typedef struct {
    int64_t value, at;
} shmemd_int64_loc_t;
typedef struct {
    double value, at;
} shmemd_double2_loc_t;
#define SHMEMD_REDUCE_LOC(NAME, elem)                                  \
    SHMEMD_REDUCE_AS(NAME, shmemd_##NAME##_loc_t, maxloc_reduce, elem) \
    SHMEMD_REDUCE_AS(NAME, shmemd_##NAME##_loc_t, minloc_reduce, elem)
SHMEMD_REDUCE_LOC(float, _f32_loc)
SHMEMD_REDUCE_LOC(int32, _i32_loc)
SHMEMD_REDUCE_LOC(double, _f64_loc)
SHMEMD_REDUCE_LOC(int64, _i64_loc)
SHMEMD_REDUCE_LOC(double2, _f64x2_loc)

#endif
