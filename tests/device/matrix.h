/* SPDX-License-Identifier: MIT */
/* Cases out of a product of dimensions. A selection covers every pair of values of every two dimensions: each case is
 * built around a pair that is not covered yet, the rest at random, the best of several tries; pairs that no valid case
 * has are found out and left. The same cases on all PEs, from check.h's seed. SHMEM_TEST_FULL=1: the whole product. */
#ifndef MATRIX_H
#define MATRIX_H

#define PRIM_COLD_CALLS 1 /* of so many kernels, the rare paths may be calls: AMD's compiler takes minutes else */
#include "device_test.h"

/* Types of collectives, X(NAME, TYPE, extra...), without those that are kernels' own. All names of a type that is kept
 * alike become the same code, which gcc folds before it becomes expensive; for other compilers and under sanitizers one
 * name stands for each way to be kept, or compiling takes minutes. The names are stamped alike for all compilers. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MATRIX_ALL_NAMES 1
#endif
#ifdef MATRIX_ALL_NAMES
#define MATRIX_C_TYPES(...) SHMEM_DEVICE_ARITH_TYPES(__VA_ARGS__)
#define MATRIX_LOGIC_TYPES(...) SHMEM_LOGIC_TYPES(__VA_ARGS__)
#else
#define MATRIX_REAL_TYPES(X, ...) X(float, float, __VA_ARGS__) X(double, double, __VA_ARGS__)
#define MATRIX_C_TYPES(...) MATRIX_LOGIC_TYPES(__VA_ARGS__) MATRIX_REAL_TYPES(__VA_ARGS__)
#define MATRIX_LOGIC_TYPES(...) SHMEM_ALIAS_TYPES(SHMEM_IF_LOGIC, __VA_ARGS__)
#endif

enum { MATRIX_DIMS = 12, MATRIX_TRIES = 24 };

struct matrix_dim {
    const char *name;
    int n;
};

struct matrix {
    const char *name;
    const struct matrix_dim *dims; /* ends with name == NULL */
    bool (*valid)(const int *value);
    void (*run)(void *state, const int *value);
    void *state;
};

/* Pairs of values, one byte each: covered or not. */
struct matrix_pairs {
    int n_dims;
    size_t start[MATRIX_DIMS][MATRIX_DIMS];
    size_t count, left;
    unsigned char *covered;
};

static inline void matrix_pairs_make(struct matrix_pairs *p, const struct matrix_dim *dims)
{
    p->count = 0;
    for (p->n_dims = 0; dims[p->n_dims].name != NULL; p->n_dims++)
        continue;
    for (int i = 0; i < p->n_dims; i++)
        for (int j = i + 1; j < p->n_dims; j++) {
            p->start[i][j] = p->count;
            p->count += (size_t)dims[i].n * (size_t)dims[j].n;
        }
    p->left = p->count;
    p->covered = (unsigned char *)calloc(p->count, 1);
    CHECK_OR_EXIT(p->covered != NULL && p->n_dims <= MATRIX_DIMS);
}

/* How many pairs of this case are new; takes them when `take`. */
static inline size_t matrix_gain(struct matrix_pairs *p, const struct matrix_dim *dims, const int *value, bool take)
{
    size_t gain = 0;
    for (int i = 0; i < p->n_dims; i++)
        for (int j = i + 1; j < p->n_dims; j++) {
            unsigned char *at = &p->covered[p->start[i][j] + (size_t)value[i] * (size_t)dims[j].n + (size_t)value[j]];
            gain += *at == 0;
            *at = (unsigned char)(*at | take);
        }
    if (take)
        p->left -= gain;
    return gain;
}

/* The two dimensions and values of pair number `pair`. */
static inline void matrix_pair(const struct matrix_pairs *p, const struct matrix_dim *dims, size_t pair, int *at)
{
    for (int i = 0; i < p->n_dims; i++)
        for (int j = i + 1; j < p->n_dims; j++)
            if (pair >= p->start[i][j] && pair - p->start[i][j] < (size_t)dims[i].n * (size_t)dims[j].n) {
                size_t rest = pair - p->start[i][j];
                at[0] = i;
                at[1] = j;
                at[2] = (int)(rest / (size_t)dims[j].n);
                at[3] = (int)(rest % (size_t)dims[j].n);
            }
}

/* The best of several valid cases with that pair. false: none was found. */
static inline bool matrix_around(const struct matrix *m, struct matrix_pairs *p, size_t pair,
                                 struct check_random *random, int *value)
{
    size_t best = 0;
    int at[4] = {0, 0, 0, 0}, tried[MATRIX_DIMS];
    matrix_pair(p, m->dims, pair, at);
    for (int round = 0, found = 0; round < 40 * MATRIX_TRIES && found < MATRIX_TRIES; round++) {
        for (int i = 0; i < p->n_dims; i++)
            tried[i] = (int)check_random_below(random, (size_t)m->dims[i].n);
        tried[at[0]] = at[2];
        tried[at[1]] = at[3];
        if (!m->valid(tried))
            continue;
        found++;
        size_t gain = matrix_gain(p, m->dims, tried, false);
        if (gain > best) {
            best = gain;
            memcpy(value, tried, sizeof(tried));
        }
    }
    return best > 0;
}

static inline size_t matrix_select(const struct matrix *m, size_t most)
{
    struct matrix_pairs pairs;
    struct check_random random = check_random_stream(77);
    size_t cases = 0;
    int value[MATRIX_DIMS] = {0};
    matrix_pairs_make(&pairs, m->dims);
    size_t pair = check_random_below(&random, pairs.count);
    while (pairs.left > 0 && cases < most) {
        while (pairs.covered[pair] != 0)
            pair = (pair + 1) % pairs.count;
        if (matrix_around(m, &pairs, pair, &random, value)) {
            (void)matrix_gain(&pairs, m->dims, value, true);
            m->run(m->state, value);
            cases++;
        } else {
            pairs.covered[pair] = 1;
            pairs.left--;
        }
        pair = check_random_below(&random, pairs.count);
    }
    free(pairs.covered);
    return cases;
}

static inline size_t matrix_product(const struct matrix *m)
{
    int value[MATRIX_DIMS] = {0}, i;
    size_t cases = 0;
    do {
        if (m->valid(value)) {
            m->run(m->state, value);
            cases++;
        }
        for (i = 0; m->dims[i].name != NULL && ++value[i] == m->dims[i].n; i++)
            value[i] = 0;
    } while (m->dims[i].name != NULL);
    return cases;
}

static inline void matrix_run(const struct matrix *m)
{
    size_t most = (size_t)device_number("SHMEM_TEST_CASES", 1000000);
    size_t cases = device_flag("SHMEM_TEST_FULL") ? matrix_product(m) : matrix_select(m, most);
    CHECK(cases > 0);
    if (check_self.pe == 0)
        printf("%s: %zu cases\n", m->name, cases);
}

#endif
