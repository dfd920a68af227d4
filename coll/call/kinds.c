/* SPDX-License-Identifier: MIT */
/* The rows of kinds.h. One that is missing among others is an error of the compiler. */
#include "kinds.h"

/* X(kind, the user's kind, name in tables, call in records, what it is) */
#define CALL_KINDS(X)                                                                                                  \
    X(SHMEMX_ALLREDUCE, SHMEMX_ALLREDUCE, allreduce, ALLREDUCE,                                                        \
      OF_TYPE | REDUCES | HAS_STAGE | PEERS_READ | PEERS_WRITE)                                                        \
    X(SHMEMX_REDUCESCATTER, SHMEMX_REDUCESCATTER, reducescatter, REDUCESCATTER,                                        \
      OF_TYPE | REDUCES | OF_BLOCKS | HAS_STAGE | MANY_FROM | PEERS_READ)                                              \
    X(SHMEMX_FCOLLECT, SHMEMX_FCOLLECT, fcollect, FCOLLECT,                                                            \
      OF_TYPE | OF_BLOCKS | MANY_TO | HAS_ENGINES | HAS_STAGE | PEERS_WRITE)                                           \
    X(SHMEMX_ALLTOALL, SHMEMX_ALLTOALL, alltoall, ALLTOALL,                                                            \
      OF_TYPE | OF_BLOCKS | MANY_TO | MANY_FROM | HAS_ENGINES | PEERS_WRITE)                                           \
    X(SHMEMX_ALLTOALLV, SHMEMX_ALLTOALLV, alltoallv, ALLTOALLV, PEERS_WRITE)                                           \
    X(SHMEMX_BROADCAST, SHMEMX_BROADCAST, broadcast, BROADCAST,                                                        \
      OF_TYPE | ROOTED | HAS_ENGINES | HAS_STAGE | PEERS_READ | PEERS_WRITE)                                           \
    X(SHMEMX_PERMUTE, SHMEMX_PERMUTE, permute, PERMUTE, OF_TYPE | HAS_ENGINES | PEERS_WRITE)                           \
    X(SHMEMX_BARRIER, SHMEMX_BARRIER, barrier, SYNC, NO_DATA)                                                          \
    X(SHMEMX_SYNC, SHMEMX_SYNC, sync, SYNC, NO_DATA)                                                                   \
    X(SHMEMX_GATHER, SHMEMX_GATHER, gather, GATHER, OF_TYPE | OF_BLOCKS | MANY_TO | ROOTED | TO_ROOT)                  \
    X(SHMEMX_SCATTER, SHMEMX_SCATTER, scatter, SCATTER, OF_TYPE | OF_BLOCKS | MANY_FROM | ROOTED | FROM_ROOT)          \
    X(SHMEMX_REDUCE, SHMEMX_REDUCE, reduce, REDUCE, OF_TYPE | REDUCES | ROOTED | TO_ROOT)                              \
    X(CALL_ALLTOALLV_HOST, SHMEMX_ALLTOALLV, alltoallv_host, ALLTOALLV, 0)                                             \
    X(CALL_FCOLLECT_SPLITS, SHMEMX_FCOLLECT, fcollect_splits, FCOLLECT, OF_TYPE | OF_BLOCKS | MANY_TO | HAS_STAGE)     \
    X(CALL_REDUCESCATTER_SPLITS, SHMEMX_REDUCESCATTER, reducescatter_splits, REDUCESCATTER,                            \
      OF_TYPE | REDUCES | OF_BLOCKS | MANY_FROM | HAS_STAGE)                                                           \
    X(CALL_ALLREDUCE_RMS_NORM, SHMEMX_ALLREDUCE, allreduce_rms_norm, ALLREDUCE, OF_TYPE | REDUCES)

#define KIND_ROW(kind, user, table, call, is) [kind] = {#user, ISOD_CALL_ON_STREAM_##call, is},
#define KIND_NAME(kind, user, table, call, is) [kind] = #table,
const struct call_kind iso_call_kinds[] = {CALL_KINDS(KIND_ROW)};
const char *const iso_call_kinds_of_tables[] = {CALL_KINDS(KIND_NAME)};

#define TYPE_ROW(type, elem, host, bytes, alignment, is) [type] = {#type, ISOD_ELEM_##elem, bytes, alignment, is},
const struct call_type iso_call_types[] = {CALL_TYPES(TYPE_ROW)};

#define OP_ROW(op, reduce, most, scaling) [op] = {#op, ISOD_OP_##reduce, most, ISOD_SCALING_##scaling},
const struct call_op iso_call_ops[] = {CALL_OPS(OP_ROW)};

_Static_assert(0 CALL_KINDS(CALL_ONE) == CALL_ALL_KINDS, "a row for each kind");
