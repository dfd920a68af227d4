/* SPDX-License-Identifier: MIT */
/* Waits and tests of every TYPENAME as rows of a table; values travel as int64_t. A row's `set` is how the type's
 * objects are updated from elsewhere: the two short types (deprecated) have no atomics. */
#ifndef P2P_TABLE_H
#define P2P_TABLE_H

#include <shmem.h>
#include <shmem_types.h>
#include <stdbool.h>

struct p2p {
    const char *name;
    size_t size;
    bool is_signed;
    void (*set)(void *ivar, int64_t value, int pe);
    void (*store)(void *ivars, size_t i, int64_t value); /* a local element of an array */
    void (*wait_until)(void *, int, int64_t);
    int (*test)(void *, int, int64_t);
    void (*wait_all)(void *, size_t, const int *, int, int64_t);
    size_t (*wait_any)(void *, size_t, const int *, int, int64_t);
    size_t (*wait_some)(void *, size_t, size_t *, const int *, int, int64_t);
    void (*wait_all_vector)(void *, size_t, const int *, int, const void *);
    size_t (*wait_any_vector)(void *, size_t, const int *, int, const void *);
    size_t (*wait_some_vector)(void *, size_t, size_t *, const int *, int, const void *);
    int (*test_all)(void *, size_t, const int *, int, int64_t);
    size_t (*test_any)(void *, size_t, const int *, int, int64_t);
    size_t (*test_some)(void *, size_t, size_t *, const int *, int, int64_t);
    int (*test_all_vector)(void *, size_t, const int *, int, const void *);
    size_t (*test_any_vector)(void *, size_t, const int *, int, const void *);
    size_t (*test_some_vector)(void *, size_t, size_t *, const int *, int, const void *);
};

#define P2P_SCALAR(NAME, TYPE, SET)                                                                          \
    static void p2p_set_##NAME(void *ivar, int64_t value, int pe) { SET((TYPE *)ivar, (TYPE)value, pe); }    \
    static void p2p_store_##NAME(void *ivars, size_t i, int64_t value) { ((TYPE *)ivars)[i] = (TYPE)value; } \
    static void p2p_wait_until_##NAME(void *ivar, int cmp, int64_t value)                                    \
    {                                                                                                        \
        shmem_##NAME##_wait_until((TYPE *)ivar, cmp, (TYPE)value);                                           \
    }                                                                                                        \
    static int p2p_test_##NAME(void *ivar, int cmp, int64_t value)                                           \
    {                                                                                                        \
        return shmem_##NAME##_test((TYPE *)ivar, cmp, (TYPE)value);                                          \
    }

/* One array operation without indices and its vector form; RETURN is `return` or nothing. */
#define P2P_ARRAY(NAME, TYPE, RESULT, RETURN, OP)                                                             \
    static RESULT p2p_##OP##_##NAME(void *v, size_t n, const int *status, int cmp, int64_t value)             \
    {                                                                                                         \
        RETURN shmem_##NAME##_##OP((TYPE *)v, n, status, cmp, (TYPE)value);                                   \
    }                                                                                                         \
    static RESULT p2p_##OP##_vector_##NAME(void *v, size_t n, const int *status, int cmp, const void *values) \
    {                                                                                                         \
        RETURN shmem_##NAME##_##OP##_vector((TYPE *)v, n, status, cmp, (const TYPE *)values);                 \
    }
#define P2P_SOME(NAME, TYPE, OP)                                                                                   \
    static size_t p2p_##OP##_##NAME(void *v, size_t n, size_t *indices, const int *status, int cmp, int64_t value) \
    {                                                                                                              \
        return shmem_##NAME##_##OP((TYPE *)v, n, indices, status, cmp, (TYPE)value);                               \
    }                                                                                                              \
    static size_t p2p_##OP##_vector_##NAME(void *v, size_t n, size_t *indices, const int *status, int cmp,         \
                                           const void *values)                                                     \
    {                                                                                                              \
        return shmem_##NAME##_##OP##_vector((TYPE *)v, n, indices, status, cmp, (const TYPE *)values);             \
    }

#define P2P_ARRAYS(NAME, TYPE)                            \
    P2P_ARRAY(NAME, TYPE, void, , wait_until_all)         \
    P2P_ARRAY(NAME, TYPE, size_t, return, wait_until_any) \
    P2P_SOME(NAME, TYPE, wait_until_some)                 \
    P2P_ARRAY(NAME, TYPE, int, return, test_all)          \
    P2P_ARRAY(NAME, TYPE, size_t, return, test_any)       \
    P2P_SOME(NAME, TYPE, test_some)
#define P2P_SHORT(NAME, TYPE, ...)           \
    P2P_SCALAR(NAME, TYPE, shmem_##NAME##_p) \
    P2P_ARRAYS(NAME, TYPE)
#define P2P_STANDARD(NAME, TYPE, ...)                 \
    P2P_SCALAR(NAME, TYPE, shmem_##NAME##_atomic_set) \
    P2P_ARRAYS(NAME, TYPE)

SHMEM_P2P_SHORT_TYPES(P2P_SHORT, )
SHMEM_STD_TYPES(P2P_STANDARD, )

#define P2P_ROW(NAME, TYPE, ...)        \
    {#NAME,                             \
     sizeof(TYPE),                      \
     (TYPE)-1 < (TYPE)1,                \
     p2p_set_##NAME,                    \
     p2p_store_##NAME,                  \
     p2p_wait_until_##NAME,             \
     p2p_test_##NAME,                   \
     p2p_wait_until_all_##NAME,         \
     p2p_wait_until_any_##NAME,         \
     p2p_wait_until_some_##NAME,        \
     p2p_wait_until_all_vector_##NAME,  \
     p2p_wait_until_any_vector_##NAME,  \
     p2p_wait_until_some_vector_##NAME, \
     p2p_test_all_##NAME,               \
     p2p_test_any_##NAME,               \
     p2p_test_some_##NAME,              \
     p2p_test_all_vector_##NAME,        \
     p2p_test_any_vector_##NAME,        \
     p2p_test_some_vector_##NAME},

static const struct p2p p2p_table[] = {SHMEM_P2P_TYPES(P2P_ROW, )};
enum { P2P_ROWS = sizeof(p2p_table) / sizeof(p2p_table[0]) };

#endif
