/* SPDX-License-Identifier: MIT */
/* What the kinds, types and operators of shmemx_coll.h are: a row for each number, for calls on host memory, on streams
 * and in batches alike. Includes: on_stream.h, shmemx_coll.h. Used by coll/. */
#ifndef ISO_KINDS_H
#define ISO_KINDS_H

#include "../../include/shmemx_coll.h"
#include "../stream/on_stream.h"

/* ---- kinds ---- */

/* With blocks or splits that the host knows, a kind is another one to tables. With a norm it is one to the checks: the
 * tables have its allreduce. */
enum {
    CALL_USER_KINDS = SHMEMX_REDUCE + 1,
    CALL_ALLTOALLV_HOST = CALL_USER_KINDS,
    CALL_FCOLLECT_SPLITS,
    CALL_REDUCESCATTER_SPLITS,
    CALL_TABLE_KINDS,
    CALL_ALLREDUCE_RMS_NORM = CALL_TABLE_KINDS,
    CALL_ALL_KINDS
};
enum {
    OF_TYPE = 1,
    REDUCES = 2,
    OF_BLOCKS = 4,
    HAS_ENGINES = 8,
    PEERS_READ = 16,
    PEERS_WRITE = 32,
    NO_DATA = 64,
    MANY_TO = 128, /* n blocks in dest, in source */
    MANY_FROM = 256,
    ROOTED = 512,
    TO_ROOT = 1024, /* dest, or source, is the root's alone */
    FROM_ROOT = 2048,
    HAS_STAGE = 4096 /* may go by a stage */
};
struct call_kind {
    const char *name;  /* "SHMEMX_ALLREDUCE" */
    uint32_t for_kernels;
    unsigned is; /* of the numbers above */
};
extern const struct call_kind iso_call_kinds[CALL_ALL_KINDS];
extern const char *const iso_call_kinds_of_tables[CALL_ALL_KINDS]; /* "allreduce" */

#define CALL_ONE(...) +1 /* counts rows */

/* ---- types: X(type, representation in kernels, in what the host combines it, bytes, alignment, what it is) ---- */

enum call_number { INTEGER, REAL, COMPLEX };
#define CALL_TYPES(X)                             \
    X(SHMEMX_UINT8, u8, u8, 1, 1, INTEGER)        \
    X(SHMEMX_INT8, i8, i8, 1, 1, INTEGER)         \
    X(SHMEMX_UINT16, u16, u16, 2, 2, INTEGER)     \
    X(SHMEMX_INT16, i16, i16, 2, 2, INTEGER)      \
    X(SHMEMX_UINT32, u32, u32, 4, 4, INTEGER)     \
    X(SHMEMX_INT32, i32, i32, 4, 4, INTEGER)      \
    X(SHMEMX_UINT64, u64, u64, 8, 8, INTEGER)     \
    X(SHMEMX_INT64, i64, i64, 8, 8, INTEGER)      \
    X(SHMEMX_FLOAT, f32, f32, 4, 4, REAL)         \
    X(SHMEMX_DOUBLE, f64, f64, 8, 8, REAL)        \
    X(SHMEMX_HALF, f16, f32, 2, 2, REAL)          \
    X(SHMEMX_BFLOAT16, bf16, f32, 2, 2, REAL)     \
    X(SHMEMX_COMPLEXF, c32, c32, 8, 4, COMPLEX)   \
    X(SHMEMX_COMPLEXD, c64, c64, 16, 8, COMPLEX)  \
    X(SHMEMX_FLOAT8_E4M3, e4m3, f32, 1, 1, REAL)  \
    X(SHMEMX_FLOAT8_E5M2, e5m2, f32, 1, 1, REAL)  \
    X(SHMEMX_BOOL, u8, u8, 1, 1, INTEGER)
enum { CALL_TYPES_END = 0 CALL_TYPES(CALL_ONE) };
struct call_type {
    const char *name;
    int32_t for_kernels; /* enum isod_elem */
    unsigned bytes, alignment;
    enum call_number is;
};
extern const struct call_type iso_call_types[CALL_TYPES_END];

/* ---- operators: X(operator, as shmem_types.h names it, numbers up to this kind have it, scaling) ---- */

#define CALL_OPS(X)                                  \
    X(SHMEMX_SUM, sum_reduce, COMPLEX, NONE)         \
    X(SHMEMX_PROD, prod_reduce, COMPLEX, NONE)       \
    X(SHMEMX_MIN, min_reduce, REAL, NONE)            \
    X(SHMEMX_MAX, max_reduce, REAL, NONE)            \
    X(SHMEMX_AND, and_reduce, INTEGER, NONE)         \
    X(SHMEMX_OR, or_reduce, INTEGER, NONE)           \
    X(SHMEMX_XOR, xor_reduce, INTEGER, NONE)         \
    X(SHMEMX_AVG, sum_reduce, REAL, BY_MEMBERS)      \
    X(SHMEMX_SCALED_SUM, sum_reduce, REAL, TIMES)
enum { CALL_OPS_END = 0 CALL_OPS(CALL_ONE) };
struct call_op {
    const char *name;
    int32_t for_kernels;
    enum call_number most;
    enum isod_scaling scaling; /* then of real numbers alone */
};
extern const struct call_op iso_call_ops[CALL_OPS_END];

/* A sum of bool is "or". */
#define CALL_IS_OR(type, op) ((type) == SHMEMX_BOOL && (op) == SHMEMX_SUM)

#endif
