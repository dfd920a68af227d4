/* SPDX-License-Identifier: MIT */
/* All forms of the remote memory accesses as rows of one table: every TYPENAME of the standard RMA types, every SIZE,
 * and mem. A row's functions take the context by pointer: NULL is the form without one. */
#ifndef RMA_TABLE_H
#define RMA_TABLE_H

#include <shmem.h>
#include <shmem_types.h>

struct rma {
    const char *name;
    size_t size; /* bytes of an element */
    void (*put)(const shmem_ctx_t *, void *, const void *, size_t, int);
    void (*get)(const shmem_ctx_t *, void *, const void *, size_t, int);
    void (*put_nbi)(const shmem_ctx_t *, void *, const void *, size_t, int);
    void (*get_nbi)(const shmem_ctx_t *, void *, const void *, size_t, int);
    void (*put_signal)(const shmem_ctx_t *, void *, const void *, size_t, uint64_t *, uint64_t, int, int);
    void (*put_signal_nbi)(const shmem_ctx_t *, void *, const void *, size_t, uint64_t *, uint64_t, int, int);
    /* NULL for mem */
    void (*iput)(const shmem_ctx_t *, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, int);
    void (*iget)(const shmem_ctx_t *, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, int);
    void (*ibput)(const shmem_ctx_t *, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, size_t, int);
    void (*ibget)(const shmem_ctx_t *, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, size_t, int);
    /* NULL for SIZE and mem; values are small numbers that every type can hold */
    void (*p)(const shmem_ctx_t *, void *, int, int);
    int (*g)(const shmem_ctx_t *, const void *, int);
};

/* CALL(get, T)(ctx, ...) with the name in two parts: shmem_ A, shmem_ctx_ A. */
#define RMA_CALL(ctx, NAME, ...)                 \
    do {                                         \
        if (ctx != NULL)                         \
            shmem_ctx_##NAME(*ctx, __VA_ARGS__); \
        else                                     \
            shmem_##NAME(__VA_ARGS__);           \
    } while (0)

/* Contiguous forms. ID: of our function; T: the element type; the rest are the names of the calls. */
#define RMA_PLAIN(ID, T, PUT, GET)                                                                         \
    static void rma_put_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n, int pe)     \
    {                                                                                                      \
        RMA_CALL(ctx, PUT, (T *)dest, (const T *)source, n, pe);                                           \
    }                                                                                                      \
    static void rma_get_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n, int pe)     \
    {                                                                                                      \
        RMA_CALL(ctx, GET, (T *)dest, (const T *)source, n, pe);                                           \
    }                                                                                                      \
    static void rma_put_nbi_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n, int pe) \
    {                                                                                                      \
        RMA_CALL(ctx, PUT##_nbi, (T *)dest, (const T *)source, n, pe);                                     \
    }                                                                                                      \
    static void rma_get_nbi_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n, int pe) \
    {                                                                                                      \
        RMA_CALL(ctx, GET##_nbi, (T *)dest, (const T *)source, n, pe);                                     \
    }

#define RMA_SIGNAL(ID, T, PUT)                                                                                      \
    static void rma_put_signal_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n, uint64_t *at, \
                                    uint64_t signal, int op, int pe)                                                \
    {                                                                                                               \
        RMA_CALL(ctx, PUT##_signal, (T *)dest, (const T *)source, n, at, signal, op, pe);                           \
    }                                                                                                               \
    static void rma_put_signal_nbi_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, size_t n,           \
                                        uint64_t *at, uint64_t signal, int op, int pe)                              \
    {                                                                                                               \
        RMA_CALL(ctx, PUT##_signal_nbi, (T *)dest, (const T *)source, n, at, signal, op, pe);                       \
    }

#define RMA_STRIDED(ID, T, IPUT, IGET, IBPUT, IBGET)                                                                 \
    static void rma_iput_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,  \
                              size_t n, int pe)                                                                      \
    {                                                                                                                \
        RMA_CALL(ctx, IPUT, (T *)dest, (const T *)source, dst, sst, n, pe);                                          \
    }                                                                                                                \
    static void rma_iget_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,  \
                              size_t n, int pe)                                                                      \
    {                                                                                                                \
        RMA_CALL(ctx, IGET, (T *)dest, (const T *)source, dst, sst, n, pe);                                          \
    }                                                                                                                \
    static void rma_ibput_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                               size_t bsize, size_t n, int pe)                                                       \
    {                                                                                                                \
        RMA_CALL(ctx, IBPUT, (T *)dest, (const T *)source, dst, sst, bsize, n, pe);                                  \
    }                                                                                                                \
    static void rma_ibget_##ID(const shmem_ctx_t *ctx, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                               size_t bsize, size_t n, int pe)                                                       \
    {                                                                                                                \
        RMA_CALL(ctx, IBGET, (T *)dest, (const T *)source, dst, sst, bsize, n, pe);                                  \
    }

#define RMA_SCALAR(ID, T, P, G)                                                                                    \
    static void rma_p_##ID(const shmem_ctx_t *ctx, void *dest, int value, int pe)                                  \
    {                                                                                                              \
        RMA_CALL(ctx, P, (T *)dest, (T)value, pe);                                                                 \
    }                                                                                                              \
    static int rma_g_##ID(const shmem_ctx_t *ctx, const void *source, int pe)                                      \
    {                                                                                                              \
        return (int)(ctx != NULL ? shmem_ctx_##G(*ctx, (const T *)source, pe) : shmem_##G((const T *)source, pe)); \
    }

#define RMA_ROW_PLAIN(ID) \
    rma_put_##ID, rma_get_##ID, rma_put_nbi_##ID, rma_get_nbi_##ID, rma_put_signal_##ID, rma_put_signal_nbi_##ID
#define RMA_ROW_STRIDED(ID) rma_iput_##ID, rma_iget_##ID, rma_ibput_##ID, rma_ibget_##ID

#define RMA_TYPED(NAME, TYPE, ...)                                                \
    RMA_PLAIN(NAME, TYPE, NAME##_put, NAME##_get)                                 \
    RMA_SIGNAL(NAME, TYPE, NAME##_put)                                            \
    RMA_STRIDED(NAME, TYPE, NAME##_iput, NAME##_iget, NAME##_ibput, NAME##_ibget) \
    RMA_SCALAR(NAME, TYPE, NAME##_p, NAME##_g)
#define RMA_SIZED(BITS, BYTES, ...)             \
    RMA_PLAIN(BITS, void, put##BITS, get##BITS) \
    RMA_SIGNAL(BITS, void, put##BITS)           \
    RMA_STRIDED(BITS, void, iput##BITS, iget##BITS, ibput##BITS, ibget##BITS)

SHMEM_RMA_TYPES(RMA_TYPED, )
SHMEM_SIZES(RMA_SIZED, )
RMA_PLAIN(mem, void, putmem, getmem)
RMA_SIGNAL(mem, void, putmem)

#define RMA_TYPED_ROW(NAME, TYPE, ...) \
    {#NAME, sizeof(TYPE), RMA_ROW_PLAIN(NAME), RMA_ROW_STRIDED(NAME), rma_p_##NAME, rma_g_##NAME},
#define RMA_SIZED_ROW(BITS, BYTES, ...) {#BITS, BYTES, RMA_ROW_PLAIN(BITS), RMA_ROW_STRIDED(BITS), NULL, NULL},

static const struct rma rma_table[] = {SHMEM_RMA_TYPES(RMA_TYPED_ROW, ) SHMEM_SIZES(RMA_SIZED_ROW, ){
    "mem", 1, RMA_ROW_PLAIN(mem), NULL, NULL, NULL, NULL, NULL, NULL}};
enum { RMA_ROWS = sizeof(rma_table) / sizeof(rma_table[0]) };

#endif
