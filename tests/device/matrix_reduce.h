/* SPDX-License-Identifier: MIT */
/* The kernels of matrix_reduce.c: one for each operator and type, with the four calls that both have in it. Stamped
 * from the tables of shmem_types.h, so that a new type or operator is here without a line. They fill three files, one
 * for each table of types that operators have, since compiling them takes longest of all tests.
 * Every name of a type that is kept alike becomes the same code: see MATRIX_ALL_NAMES. */
#ifndef MATRIX_REDUCE_H
#define MATRIX_REDUCE_H

#include "matrix_calls.h"

struct reduce_args {
    shmemd_t h;
    struct calls calls;
    int32_t scatter;
};

/* X(NAME, TYPE, extra...) for the types of an operator, by the name of its table in SHMEM_REDUCE_OPS. */
#define REDUCE_LOGIC_TYPES(...) MATRIX_LOGIC_TYPES(__VA_ARGS__)
#define REDUCE_MINMAX_TYPES(...) MATRIX_C_TYPES(__VA_ARGS__) SHMEM_DEVICE_HALF_TYPES(__VA_ARGS__)
#define REDUCE_COMPLEX_TYPES(X, ...)            \
    X(complexf, shmemd_complexf_t, __VA_ARGS__) \
    X(complexd, shmemd_complexd_t, __VA_ARGS__)
#define REDUCE_SUM_TYPES(...) REDUCE_MINMAX_TYPES(__VA_ARGS__) REDUCE_COMPLEX_TYPES(__VA_ARGS__)

/* OP: sum_reduce and so on. */
#define REDUCE_KERNEL(NAME, T, OP, ...)                                                                   \
    SHMEMD_FN int reduce_call_##NAME##_##OP(struct reduce_args a, T *dest, const T *source)               \
    {                                                                                                     \
        if (a.scatter == 0)                                                                               \
            return a.calls.grid == 0 ? shmemd_##NAME##_##OP##_block(a.h, dest, source, a.calls.nelems)    \
                                     : shmemd_##NAME##_##OP##_grid(a.h, dest, source, a.calls.nelems);    \
        return a.calls.grid == 0 ? shmemd_##NAME##_##OP##scatter_block(a.h, dest, source, a.calls.nelems) \
                                 : shmemd_##NAME##_##OP##scatter_grid(a.h, dest, source, a.calls.nelems); \
    }                                                                                                     \
    CALLS_KERNEL(reduce_##NAME##_##OP, reduce_args, T, reduce_call_##NAME##_##OP)

#endif
