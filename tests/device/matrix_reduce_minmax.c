/* SPDX-License-Identifier: MIT */
/* Kernels of matrix_reduce.c: max, min. */
#include "matrix_reduce.h"

#define OF_LOGIC(OP)
#define OF_MINMAX(OP) REDUCE_MINMAX_TYPES(REDUCE_KERNEL, OP, )
#define OF_SUM(OP)
#define KERNELS(OP, OLD, TABLE, ...) OF_##TABLE(OP)
SHMEM_REDUCE_OPS(KERNELS, )
