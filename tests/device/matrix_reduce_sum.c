/* SPDX-License-Identifier: MIT */
/* Kernels of matrix_reduce.c: sum, prod. */
#include "matrix_reduce.h"

#define OF_LOGIC(OP)
#define OF_MINMAX(OP)
#define OF_SUM(OP) REDUCE_SUM_TYPES(REDUCE_KERNEL, OP, )
#define KERNELS(OP, OLD, TABLE, ...) OF_##TABLE(OP)
SHMEM_REDUCE_OPS(KERNELS, )
