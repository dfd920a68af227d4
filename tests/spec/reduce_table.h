/* SPDX-License-Identifier: MIT */
/* Team reductions and scans as rows of a table, with a serial reference of each: `make` gives values that no order of
 * evaluation can round or overflow, `fold` combines, `same` compares values (long double has bytes without meaning). */
#ifndef REDUCE_TABLE_H
#define REDUCE_TABLE_H

#include <complex.h>
#include <shmem.h>
#include <shmem_types.h>
#include <stdbool.h>
#include <stdlib.h>

enum scan { NO_SCAN, INCLUSIVE, EXCLUSIVE };

struct reduction {
    const char *name;
    size_t size;
    enum scan scan;
    int (*call)(shmem_team_t, void *, const void *, size_t);
    void (*make)(void *out, size_t n, int pe, unsigned round);
    void (*make_rough)(void *out, size_t n, int pe, unsigned round); /* values whose sums round; NULL: none */
    void (*fold)(void *into, const void *more, size_t n);
    bool (*same)(const void *a, const void *b, size_t n);
};

/* -7 .. 7 */
static inline int reduce_small(size_t i, int pe, unsigned round)
{
    return (int)((i * 7 + (size_t)pe * 5 + round * 3 + (i >> 6)) % 15) - 7;
}
/* 1 and -1, and 2 on every third PE: products stay in range. */
static inline int reduce_factor(size_t i, int pe, unsigned round)
{
    if (pe % 3 == 0)
        return 2;
    return (i + (size_t)pe + round) % 2 ? 1 : -1;
}
static inline unsigned long long reduce_bits(size_t i, int pe, unsigned round)
{
    unsigned long long x = (i + 1) * 0x9e3779b97f4a7c15u ^ ((unsigned long long)pe + 3) * 0xc2b2ae3d27d4eb4fu ^ round;
    return x ^ (x >> 29);
}
static inline double reduce_rough(size_t i, int pe, unsigned round)
{
    return 1.0 + (double)(reduce_bits(i, pe, round) >> 40) / 16777259.0;
}

/* For each type: the values of each family. IMAGINARY is 0 or I: complex types get both parts. */
#define REDUCE_MAKE(ID, NAME, TYPE, EXPRESSION)                                 \
    static void make_##ID##_##NAME(void *out, size_t n, int pe, unsigned round) \
    {                                                                           \
        for (size_t i = 0; i < n; i++)                                          \
            ((TYPE *)out)[i] = (TYPE)(EXPRESSION);                              \
    }
#define REDUCE_FOLD(ID, NAME, TYPE, EXPRESSION)                            \
    static void fold_##ID##_##NAME(void *into, const void *more, size_t n) \
    {                                                                      \
        for (size_t i = 0; i < n; i++) {                                   \
            TYPE a = ((TYPE *)into)[i];                                    \
            TYPE b = ((const TYPE *)more)[i];                              \
            ((TYPE *)into)[i] = (TYPE)(EXPRESSION);                        \
        }                                                                  \
    }
#define REDUCE_SAME(NAME, TYPE)                                     \
    static bool same_##NAME(const void *a, const void *b, size_t n) \
    {                                                               \
        for (size_t i = 0; i < n; i++)                              \
            if (((const TYPE *)a)[i] != ((const TYPE *)b)[i])       \
                return false;                                       \
        return true;                                                \
    }
#define REDUCE_CALL(NAME, TYPE, OP)                                                            \
    static int call_##OP##_##NAME(shmem_team_t team, void *dest, const void *source, size_t n) \
    {                                                                                          \
        return shmem_##NAME##_##OP(team, (TYPE *)dest, (const TYPE *)source, n);               \
    }

#define REDUCE_REAL_SUM(NAME, TYPE, ...)                       \
    REDUCE_MAKE(sum, NAME, TYPE, reduce_small(i, pe, round))   \
    REDUCE_MAKE(prod, NAME, TYPE, reduce_factor(i, pe, round)) \
    REDUCE_MAKE(rough, NAME, TYPE, reduce_rough(i, pe, round))
#define REDUCE_COMPLEX_SUM(NAME, TYPE, ...)                                                                \
    REDUCE_MAKE(sum, NAME, TYPE, reduce_small(i, pe, round) + reduce_small(i + 1, pe, round) * _Complex_I) \
    REDUCE_MAKE(prod, NAME, TYPE, reduce_factor(i, pe, round) + (int)(i % 2) * _Complex_I)                 \
    REDUCE_MAKE(rough, NAME, TYPE, reduce_rough(i, pe, round) + reduce_rough(i + 1, pe, round) * _Complex_I)
#define REDUCE_SUM(NAME, TYPE, ...)      \
    REDUCE_FOLD(sum, NAME, TYPE, a + b)  \
    REDUCE_FOLD(prod, NAME, TYPE, a *b)  \
    REDUCE_SAME(NAME, TYPE)              \
    REDUCE_CALL(NAME, TYPE, sum_reduce)  \
    REDUCE_CALL(NAME, TYPE, prod_reduce) \
    REDUCE_CALL(NAME, TYPE, sum_inscan)  \
    REDUCE_CALL(NAME, TYPE, sum_exscan)
#define REDUCE_MINMAX(NAME, TYPE, ...)          \
    REDUCE_FOLD(max, NAME, TYPE, a > b ? a : b) \
    REDUCE_FOLD(min, NAME, TYPE, a < b ? a : b) \
    REDUCE_CALL(NAME, TYPE, max_reduce)         \
    REDUCE_CALL(NAME, TYPE, min_reduce)
#define REDUCE_LOGIC(NAME, TYPE, ...)                        \
    REDUCE_MAKE(bits, NAME, TYPE, reduce_bits(i, pe, round)) \
    REDUCE_FOLD(bit_and, NAME, TYPE, a &b)                   \
    REDUCE_FOLD(bit_or, NAME, TYPE, a | b)                   \
    REDUCE_FOLD(bit_xor, NAME, TYPE, a ^ b)                  \
    REDUCE_CALL(NAME, TYPE, and_reduce)                      \
    REDUCE_CALL(NAME, TYPE, or_reduce)                       \
    REDUCE_CALL(NAME, TYPE, xor_reduce)

SHMEM_RMA_TYPES(REDUCE_REAL_SUM, )
SHMEM_COMPLEX_TYPES(REDUCE_COMPLEX_SUM, )
SHMEM_SUM_TYPES(REDUCE_SUM, )
SHMEM_MINMAX_TYPES(REDUCE_MINMAX, )
SHMEM_LOGIC_TYPES(REDUCE_LOGIC, )

#define REDUCE_ROW(NAME, TYPE, SCAN, OP, MAKE, ROUGH, FOLD) \
    {#NAME "_" #OP, sizeof(TYPE), SCAN, call_##OP##_##NAME, MAKE##_##NAME, ROUGH, FOLD##_##NAME, same_##NAME},
#define REDUCE_SUM_ROWS(NAME, TYPE, ...)                                                  \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, sum_reduce, make_sum, make_rough_##NAME, fold_sum)    \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, prod_reduce, make_prod, make_rough_##NAME, fold_prod) \
    REDUCE_ROW(NAME, TYPE, INCLUSIVE, sum_inscan, make_sum, NULL, fold_sum)               \
    REDUCE_ROW(NAME, TYPE, EXCLUSIVE, sum_exscan, make_sum, NULL, fold_sum)
#define REDUCE_MINMAX_ROWS(NAME, TYPE, ...)                               \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, max_reduce, make_sum, NULL, fold_max) \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, min_reduce, make_sum, NULL, fold_min)
#define REDUCE_LOGIC_ROWS(NAME, TYPE, ...)                                     \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, and_reduce, make_bits, NULL, fold_bit_and) \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, or_reduce, make_bits, NULL, fold_bit_or)   \
    REDUCE_ROW(NAME, TYPE, NO_SCAN, xor_reduce, make_bits, NULL, fold_bit_xor)

static const struct reduction reduce_table[] = {
    SHMEM_SUM_TYPES(REDUCE_SUM_ROWS, ) SHMEM_MINMAX_TYPES(REDUCE_MINMAX_ROWS, ) SHMEM_LOGIC_TYPES(REDUCE_LOGIC_ROWS, )};
enum { REDUCE_ROWS = sizeof(reduce_table) / sizeof(reduce_table[0]) };

/* What member `me` of `n_pes` must get; `more` is scratch. An exclusive scan gives zeros to member 0. */
static inline void reduce_reference(const struct reduction *row, void *expected, void *more, size_t n, int me,
                                    int n_pes, unsigned round)
{
    int end = row->scan == NO_SCAN ? n_pes : row->scan == INCLUSIVE ? me + 1 : me;
    memset(expected, 0, n * row->size); /* all bits zero is 0 in every type */
    if (end > 0)
        row->make(expected, n, 0, round);
    for (int pe = 1; pe < end; pe++) {
        row->make(more, n, pe, round);
        row->fold(expected, more, n);
    }
}

#endif
