/* SPDX-License-Identifier: MIT */
/* Kernels of matrix_reduce.c: and, or, xor. */
#include "matrix_reduce.h"

#define OF_LOGIC(OP) REDUCE_LOGIC_TYPES(REDUCE_KERNEL, OP, )
#define OF_MINMAX(OP)
#define OF_SUM(OP)
#define KERNELS(OP, OLD, TABLE, ...) OF_##TABLE(OP)
SHMEM_REDUCE_OPS(KERNELS, )
