/* SPDX-License-Identifier: MIT */
/* A matrix product on a stream for the examples: C[rows][n] = A[rows][k] x B[k][n], row by row in memory, bfloat16 in,
 * float out. By cuBLAS or hipBLAS where the build has found it (EXAMPLE_CUBLAS, EXAMPLE_HIPBLAS), else by a plain
 * kernel. */
#ifndef EXAMPLE_MATMUL_H
#define EXAMPLE_MATMUL_H

#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double matmul_ms(void) /* now */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static inline uint16_t bf16_of(float v) /* of numbers that bfloat16 holds exactly */
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* What the examples multiply: small integers, so that sums are exact in float, and do not depend on their order. */
static inline float a_of(int pe, size_t i) { return (float)((pe * 7 + (int)(i % 13)) % 5 - 2); }
static inline float b_of(int pe, size_t i) { return (float)((pe * 3 + (int)(i % 11)) % 7 - 3); }

static inline void fill(uint16_t *to, size_t elems, float (*value)(int, size_t))
{
    uint16_t *host = (uint16_t *)malloc(elems * sizeof *host);
    for (size_t i = 0; i < elems; i++)
        host[i] = bf16_of(value(shmem_my_pe(), i));
    shmem_putmem(to, host, elems * sizeof *host, shmem_my_pe());
    free(host);
}

SHMEMD_FN float matmul_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float v;
    __builtin_memcpy(&v, &wide, sizeof v); /* the one of string.h is not for devices */
    return v;
}

#if defined(EXAMPLE_CUBLAS)
#include <cublas_v2.h>
#define MATMUL_BY "cuBLAS"
typedef cublasHandle_t matmul_t;

static inline int matmul_open(matmul_t *m, shmemx_stream_t stream)
{
    return cublasCreate(m) != CUBLAS_STATUS_SUCCESS ||
           cublasSetStream(*m, (cudaStream_t)stream) != CUBLAS_STATUS_SUCCESS;
}
static inline void matmul_close(matmul_t m) { cublasDestroy(m); }
/* cuBLAS counts columns first, so it is given the transposed product. */
static inline int matmul(matmul_t m, float *c, const uint16_t *a, const uint16_t *b, size_t rows, size_t k, size_t n)
{
    const float one = 1, zero = 0;
    return cublasGemmEx(m, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)rows, (int)k, &one, b, CUDA_R_16BF, (int)n, a,
                        CUDA_R_16BF, (int)k, &zero, c, CUDA_R_32F, (int)n, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS;
}

#elif defined(EXAMPLE_HIPBLAS)
#include <hipblas/hipblas.h>
#define MATMUL_BY "hipBLAS"
typedef hipblasHandle_t matmul_t;

static inline int matmul_open(matmul_t *m, shmemx_stream_t stream)
{
    return hipblasCreate(m) != HIPBLAS_STATUS_SUCCESS ||
           hipblasSetStream(*m, (hipStream_t)stream) != HIPBLAS_STATUS_SUCCESS;
}
static inline void matmul_close(matmul_t m) { hipblasDestroy(m); }
static inline int matmul(matmul_t m, float *c, const uint16_t *a, const uint16_t *b, size_t rows, size_t k, size_t n)
{
    const float one = 1, zero = 0;
    return hipblasGemmEx(m, HIPBLAS_OP_N, HIPBLAS_OP_N, (int)n, (int)rows, (int)k, &one, b, HIPBLAS_R_16B, (int)n, a,
                         HIPBLAS_R_16B, (int)k, &zero, c, HIPBLAS_R_32F, (int)n, HIPBLAS_R_32F,
                         HIPBLAS_GEMM_DEFAULT) != HIPBLAS_STATUS_SUCCESS;
}

#else
#define MATMUL_BY "a plain kernel"
typedef shmemx_stream_t matmul_t;

struct matmul_args {
    float *c;
    const uint16_t *a, *b;
    size_t rows, k, n;
};

SHMEMD_KERNEL(matmul_plain, struct matmul_args, m)
{
    size_t first = (size_t)shmemd_block_index() * shmemd_block_size() + shmemd_thread_index();
    for (size_t i = first; i < m.rows * m.n; i += (size_t)shmemd_block_count() * shmemd_block_size()) {
        const uint16_t *row = m.a + i / m.n * m.k, *column = m.b + i % m.n;
        float sum = 0;
        for (size_t x = 0; x < m.k; x++)
            sum += matmul_float(row[x]) * matmul_float(column[x * m.n]);
        m.c[i] = sum;
    }
}

static inline int matmul_open(matmul_t *m, shmemx_stream_t stream)
{
    *m = stream;
    return 0;
}
static inline void matmul_close(matmul_t m) { (void)m; }
static inline int matmul(matmul_t m, float *c, const uint16_t *a, const uint16_t *b, size_t rows, size_t k, size_t n)
{
    struct matmul_args args = {c, a, b, rows, k, n};
    return shmemx_launch(SHMEMX_KERNEL(matmul_plain), 2, 64, 0, &args, sizeof args, m);
}
#endif

#endif
