/* SPDX-License-Identifier: MIT */
/* The type-generic names, shmem_put(dest, source, nelems, pe) and so on. C11 selects by the type that the first pointer
 * points to; C++ has overloads. Where a call has a form with a context, one more argument chooses that form. const and
 * volatile do not matter for the selection in C11; in C++ waits and tests take volatile words as well.
 *
 * Included by shmem.h, after the declarations. Stamped from the tables of shmem_types.h, distinct types only: variables
 * of the second names (int32_t, size_t, ...) are of one of these types. */
#ifndef SHMEM_GENERIC_H
#define SHMEM_GENERIC_H

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

/* ---- C11 ---- */

/* The function shmem_TYPE_op for the type of *p. The last association ends the list and matches no real type. */
struct shmem_type_without_this_operation {
    char unused;
};
#define SHMEM_CASE(NAME, TYPE, op, ...) \
    TYPE:                               \
    shmem##NAME##op,
#define SHMEM_CASE_CTX(NAME, TYPE, op, ...) \
    TYPE:                                   \
    shmem_ctx##NAME##op,
#define SHMEM_SELECT(TABLE, op, p) _Generic(*(p), TABLE(SHMEM_CASE, op, ) struct shmem_type_without_this_operation : 0)
#define SHMEM_SELECT_CTX(TABLE, op, p) \
    _Generic(*(p), TABLE(SHMEM_CASE_CTX, op, ) struct shmem_type_without_this_operation : 0)

/* The call: without a context, with one, with a team. */
#define SHMEM_CALL(TABLE, op, p, ...) SHMEM_SELECT(TABLE, op, p)(p, __VA_ARGS__)
#define SHMEM_CALL_CTX(TABLE, op, ctx, p, ...) SHMEM_SELECT_CTX(TABLE, op, p)(ctx, p, __VA_ARGS__)
#define SHMEM_CALL_TEAM(TABLE, op, team, p, ...) SHMEM_SELECT(TABLE, op, p)(team, p, __VA_ARGS__)

/* SHMEM_FORM_n gives `longer` for n + 1 arguments and `shorter` for n: the arguments shift it to the place that is
 * picked. Operation names are passed with an underscore in front, so that no macro of the user's (g, p, add) replaces
 * them. */
#define SHMEM_FORM_2(a, b, c, pick, ...) pick
#define SHMEM_FORM_3(a, b, c, d, pick, ...) pick
#define SHMEM_FORM_4(a, b, c, d, e, pick, ...) pick
#define SHMEM_FORM_5(a, b, c, d, e, f, pick, ...) pick
#define SHMEM_FORM_6(a, b, c, d, e, f, g, pick, ...) pick
#define SHMEM_FORM_7(a, b, c, d, e, f, g, h, pick, ...) pick
#define SHMEM_CALL_N(n, TABLE, op, ...) \
    SHMEM_FORM_##n(__VA_ARGS__, SHMEM_CALL_CTX, SHMEM_CALL, )(TABLE, op, __VA_ARGS__)

/* RMA and signals: the number is that of the arguments without a context. */
#define shmem_put(...) SHMEM_CALL_N(4, SHMEM_RMA_DISTINCT, _put, __VA_ARGS__)
#define shmem_get(...) SHMEM_CALL_N(4, SHMEM_RMA_DISTINCT, _get, __VA_ARGS__)
#define shmem_put_nbi(...) SHMEM_CALL_N(4, SHMEM_RMA_DISTINCT, _put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) SHMEM_CALL_N(4, SHMEM_RMA_DISTINCT, _get_nbi, __VA_ARGS__)
#define shmem_p(...) SHMEM_CALL_N(3, SHMEM_RMA_DISTINCT, _p, __VA_ARGS__)
#define shmem_g(...) SHMEM_CALL_N(2, SHMEM_RMA_DISTINCT, _g, __VA_ARGS__)
#define shmem_iput(...) SHMEM_CALL_N(6, SHMEM_RMA_DISTINCT, _iput, __VA_ARGS__)
#define shmem_iget(...) SHMEM_CALL_N(6, SHMEM_RMA_DISTINCT, _iget, __VA_ARGS__)
#define shmem_ibput(...) SHMEM_CALL_N(7, SHMEM_RMA_DISTINCT, _ibput, __VA_ARGS__)
#define shmem_ibget(...) SHMEM_CALL_N(7, SHMEM_RMA_DISTINCT, _ibget, __VA_ARGS__)
#define shmem_put_signal(...) SHMEM_CALL_N(7, SHMEM_RMA_DISTINCT, _put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEM_CALL_N(7, SHMEM_RMA_DISTINCT, _put_signal_nbi, __VA_ARGS__)
#define shmem_signal_add(...) SHMEM_FORM_3(__VA_ARGS__, shmem_ctx_signal_add, (shmem_signal_add), )(__VA_ARGS__)
#define shmem_signal_set(...) SHMEM_FORM_3(__VA_ARGS__, shmem_ctx_signal_set, (shmem_signal_set), )(__VA_ARGS__)

/* Atomics. */
#define shmem_atomic_fetch(...) SHMEM_CALL_N(2, SHMEM_EXT_DISTINCT, _atomic_fetch, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) SHMEM_CALL_N(3, SHMEM_EXT_DISTINCT, _atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_set(...) SHMEM_CALL_N(3, SHMEM_EXT_DISTINCT, _atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) SHMEM_CALL_N(3, SHMEM_EXT_DISTINCT, _atomic_swap, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) SHMEM_CALL_N(4, SHMEM_EXT_DISTINCT, _atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) SHMEM_CALL_N(4, SHMEM_STD_DISTINCT, _atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) SHMEM_CALL_N(5, SHMEM_STD_DISTINCT, _atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_inc(...) SHMEM_CALL_N(2, SHMEM_STD_DISTINCT, _atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) SHMEM_CALL_N(2, SHMEM_STD_DISTINCT, _atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) SHMEM_CALL_N(3, SHMEM_STD_DISTINCT, _atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_add(...) SHMEM_CALL_N(3, SHMEM_STD_DISTINCT, _atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) SHMEM_CALL_N(3, SHMEM_STD_DISTINCT, _atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) SHMEM_CALL_N(4, SHMEM_STD_DISTINCT, _atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) SHMEM_CALL_N(4, SHMEM_BIT_DISTINCT, _atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) SHMEM_CALL_N(4, SHMEM_BIT_DISTINCT, _atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) SHMEM_CALL_N(3, SHMEM_BIT_DISTINCT, _atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) SHMEM_CALL_N(4, SHMEM_BIT_DISTINCT, _atomic_fetch_xor_nbi, __VA_ARGS__)

/* Deprecated atomics. */
#define shmem_fetch(...) SHMEM_CALL(SHMEM_OLD_EXT_DISTINCT, _fetch, __VA_ARGS__)
#define shmem_set(...) SHMEM_CALL(SHMEM_OLD_EXT_DISTINCT, _set, __VA_ARGS__)
#define shmem_swap(...) SHMEM_CALL(SHMEM_OLD_EXT_DISTINCT, _swap, __VA_ARGS__)
#define shmem_cswap(...) SHMEM_CALL(SHMEM_OLD_STD_DISTINCT, _cswap, __VA_ARGS__)
#define shmem_finc(...) SHMEM_CALL(SHMEM_OLD_STD_DISTINCT, _finc, __VA_ARGS__)
#define shmem_inc(...) SHMEM_CALL(SHMEM_OLD_STD_DISTINCT, _inc, __VA_ARGS__)
#define shmem_fadd(...) SHMEM_CALL(SHMEM_OLD_STD_DISTINCT, _fadd, __VA_ARGS__)
#define shmem_add(...) SHMEM_CALL(SHMEM_OLD_STD_DISTINCT, _add, __VA_ARGS__)

/* Waits and tests. */
#define shmem_wait_until(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until, __VA_ARGS__)
#define shmem_test(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test, __VA_ARGS__)
#define shmem_wait_until_all(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_all, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_any, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_some, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _wait_until_some_vector, __VA_ARGS__)
#define shmem_test_all(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_all, __VA_ARGS__)
#define shmem_test_all_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_all_vector, __VA_ARGS__)
#define shmem_test_any(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_any, __VA_ARGS__)
#define shmem_test_any_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_any_vector, __VA_ARGS__)
#define shmem_test_some(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_some, __VA_ARGS__)
#define shmem_test_some_vector(...) SHMEM_CALL(SHMEM_P2P_DISTINCT, _test_some_vector, __VA_ARGS__)

/* Collectives; shmem_sync with one argument takes a team, with four an active set. */
#define shmem_sync(...) SHMEM_SYNC_FORM(__VA_ARGS__, (shmem_sync), , , shmem_team_sync, )(__VA_ARGS__)
#define SHMEM_SYNC_FORM(a, b, c, d, pick, ...) pick
#define shmem_alltoall(...) SHMEM_CALL_TEAM(SHMEM_RMA_DISTINCT, _alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) SHMEM_CALL_TEAM(SHMEM_RMA_DISTINCT, _alltoalls, __VA_ARGS__)
#define shmem_broadcast(...) SHMEM_CALL_TEAM(SHMEM_RMA_DISTINCT, _broadcast, __VA_ARGS__)
#define shmem_collect(...) SHMEM_CALL_TEAM(SHMEM_RMA_DISTINCT, _collect, __VA_ARGS__)
#define shmem_fcollect(...) SHMEM_CALL_TEAM(SHMEM_RMA_DISTINCT, _fcollect, __VA_ARGS__)
#define shmem_and_reduce(...) SHMEM_CALL_TEAM(SHMEM_LOGIC_DISTINCT, _and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) SHMEM_CALL_TEAM(SHMEM_LOGIC_DISTINCT, _or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) SHMEM_CALL_TEAM(SHMEM_LOGIC_DISTINCT, _xor_reduce, __VA_ARGS__)
#define shmem_max_reduce(...) SHMEM_CALL_TEAM(SHMEM_MINMAX_DISTINCT, _max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) SHMEM_CALL_TEAM(SHMEM_MINMAX_DISTINCT, _min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) SHMEM_CALL_TEAM(SHMEM_SUM_DISTINCT, _sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) SHMEM_CALL_TEAM(SHMEM_SUM_DISTINCT, _prod_reduce, __VA_ARGS__)
#define shmem_sum_inscan(...) SHMEM_CALL_TEAM(SHMEM_SUM_DISTINCT, _sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...) SHMEM_CALL_TEAM(SHMEM_SUM_DISTINCT, _sum_exscan, __VA_ARGS__)

#elif defined(__cplusplus) && __cplusplus >= 201103L

/* ---- C++ ---- */

extern "C++" {

/* A row stamps shmem_op(args) and, where the family has contexts, shmem_op(ctx, args). R: result. The arguments come
 * twice in parentheses, declared and passed on. */
#define SHMEM_STRIP(...) __VA_ARGS__
#define SHMEM_OVERLOAD(NAME, R, op, declared, passed) \
    inline R shmem_##op(SHMEM_STRIP declared) { return shmem##NAME##_##op(SHMEM_STRIP passed); }
#define SHMEM_OVERLOADS(NAME, R, op, declared, passed)          \
    SHMEM_OVERLOAD(NAME, R, op, declared, passed)               \
    inline R shmem_##op(shmem_ctx_t ctx, SHMEM_STRIP declared)  \
    {                                                           \
        return shmem_ctx##NAME##_##op(ctx, SHMEM_STRIP passed); \
    }

#define SHMEM_OVERLOAD_RMA(NAME, T, ...)                                                                             \
    SHMEM_OVERLOADS(NAME, void, put, (T * dest, const T *source, size_t nelems, int pe), (dest, source, nelems, pe)) \
    SHMEM_OVERLOADS(NAME, void, get, (T * dest, const T *source, size_t nelems, int pe), (dest, source, nelems, pe)) \
    SHMEM_OVERLOADS(NAME, void, put_nbi, (T * dest, const T *source, size_t nelems, int pe),                         \
                    (dest, source, nelems, pe))                                                                      \
    SHMEM_OVERLOADS(NAME, void, get_nbi, (T * dest, const T *source, size_t nelems, int pe),                         \
                    (dest, source, nelems, pe))                                                                      \
    SHMEM_OVERLOADS(NAME, void, p, (T * dest, T value, int pe), (dest, value, pe))                                   \
    SHMEM_OVERLOADS(NAME, T, g, (const T *source, int pe), (source, pe))                                             \
    SHMEM_OVERLOADS(NAME, void, iput,                                                                                \
                    (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),                \
                    (dest, source, dst, sst, nelems, pe))                                                            \
    SHMEM_OVERLOADS(NAME, void, iget,                                                                                \
                    (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),                \
                    (dest, source, dst, sst, nelems, pe))                                                            \
    SHMEM_OVERLOADS(NAME, void, ibput,                                                                               \
                    (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe), \
                    (dest, source, dst, sst, bsize, nblocks, pe))                                                    \
    SHMEM_OVERLOADS(NAME, void, ibget,                                                                               \
                    (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe), \
                    (dest, source, dst, sst, bsize, nblocks, pe))                                                    \
    SHMEM_OVERLOADS(                                                                                                 \
        NAME, void, put_signal,                                                                                      \
        (T * dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t value, int sig_op, int pe),          \
        (dest, source, nelems, sig_addr, value, sig_op, pe))                                                         \
    SHMEM_OVERLOADS(                                                                                                 \
        NAME, void, put_signal_nbi,                                                                                  \
        (T * dest, const T *source, size_t nelems, uint64_t *sig_addr, uint64_t value, int sig_op, int pe),          \
        (dest, source, nelems, sig_addr, value, sig_op, pe))
SHMEM_RMA_DISTINCT(SHMEM_OVERLOAD_RMA, )

inline void shmem_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t value, int pe)
{
    shmem_ctx_signal_add(ctx, sig_addr, value, pe);
}
inline void shmem_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t value, int pe)
{
    shmem_ctx_signal_set(ctx, sig_addr, value, pe);
}

#define SHMEM_OVERLOAD_EXT(NAME, T, ...)                                                                     \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch, (const T *source, int pe), (source, pe))                          \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_nbi, (T * fetch, const T *source, int pe), (fetch, source, pe)) \
    SHMEM_OVERLOADS(NAME, void, atomic_set, (T * dest, T value, int pe), (dest, value, pe))                  \
    SHMEM_OVERLOADS(NAME, T, atomic_swap, (T * dest, T value, int pe), (dest, value, pe))                    \
    SHMEM_OVERLOADS(NAME, void, atomic_swap_nbi, (T * fetch, T * dest, T value, int pe), (fetch, dest, value, pe))
SHMEM_EXT_DISTINCT(SHMEM_OVERLOAD_EXT, )

#define SHMEM_OVERLOAD_STD(NAME, T, ...)                                                                        \
    SHMEM_OVERLOADS(NAME, T, atomic_compare_swap, (T * dest, T cond, T value, int pe), (dest, cond, value, pe)) \
    SHMEM_OVERLOADS(NAME, void, atomic_compare_swap_nbi, (T * fetch, T * dest, T cond, T value, int pe),        \
                    (fetch, dest, cond, value, pe))                                                             \
    SHMEM_OVERLOADS(NAME, void, atomic_inc, (T * dest, int pe), (dest, pe))                                     \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch_inc, (T * dest, int pe), (dest, pe))                                  \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_inc_nbi, (T * fetch, T * dest, int pe), (fetch, dest, pe))         \
    SHMEM_OVERLOADS(NAME, void, atomic_add, (T * dest, T value, int pe), (dest, value, pe))                     \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch_add, (T * dest, T value, int pe), (dest, value, pe))                  \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_add_nbi, (T * fetch, T * dest, T value, int pe), (fetch, dest, value, pe))
SHMEM_STD_DISTINCT(SHMEM_OVERLOAD_STD, )

#define SHMEM_OVERLOAD_BIT(NAME, T, ...)                                                                               \
    SHMEM_OVERLOADS(NAME, void, atomic_and, (T * dest, T value, int pe), (dest, value, pe))                            \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch_and, (T * dest, T value, int pe), (dest, value, pe))                         \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_and_nbi, (T * fetch, T * dest, T value, int pe),                          \
                    (fetch, dest, value, pe))                                                                          \
    SHMEM_OVERLOADS(NAME, void, atomic_or, (T * dest, T value, int pe), (dest, value, pe))                             \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch_or, (T * dest, T value, int pe), (dest, value, pe))                          \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_or_nbi, (T * fetch, T * dest, T value, int pe), (fetch, dest, value, pe)) \
    SHMEM_OVERLOADS(NAME, void, atomic_xor, (T * dest, T value, int pe), (dest, value, pe))                            \
    SHMEM_OVERLOADS(NAME, T, atomic_fetch_xor, (T * dest, T value, int pe), (dest, value, pe))                         \
    SHMEM_OVERLOADS(NAME, void, atomic_fetch_xor_nbi, (T * fetch, T * dest, T value, int pe), (fetch, dest, value, pe))
SHMEM_BIT_DISTINCT(SHMEM_OVERLOAD_BIT, )

/* Deprecated atomics. */
#define SHMEM_OVERLOAD_OLD_EXT(NAME, T, ...)                                        \
    SHMEM_OVERLOAD(NAME, T, fetch, (const T *source, int pe), (source, pe))         \
    SHMEM_OVERLOAD(NAME, void, set, (T * dest, T value, int pe), (dest, value, pe)) \
    SHMEM_OVERLOAD(NAME, T, swap, (T * dest, T value, int pe), (dest, value, pe))
SHMEM_OLD_EXT_DISTINCT(SHMEM_OVERLOAD_OLD_EXT, )

#define SHMEM_OVERLOAD_OLD_STD(NAME, T, ...)                                                     \
    SHMEM_OVERLOAD(NAME, T, cswap, (T * dest, T cond, T value, int pe), (dest, cond, value, pe)) \
    SHMEM_OVERLOAD(NAME, T, finc, (T * dest, int pe), (dest, pe))                                \
    SHMEM_OVERLOAD(NAME, void, inc, (T * dest, int pe), (dest, pe))                              \
    SHMEM_OVERLOAD(NAME, T, fadd, (T * dest, T value, int pe), (dest, value, pe))                \
    SHMEM_OVERLOAD(NAME, void, add, (T * dest, T value, int pe), (dest, value, pe))
SHMEM_OLD_STD_DISTINCT(SHMEM_OVERLOAD_OLD_STD, )

#define SHMEM_OVERLOAD_P2P(NAME, T, ...)                                              \
    SHMEM_OVERLOAD(NAME, void, wait_until, (volatile T * ivar, int cmp, T cmp_value), \
                   (const_cast<T *>(ivar), cmp, cmp_value))                           \
    SHMEM_OVERLOAD(NAME, int, test, (volatile T * ivar, int cmp, T cmp_value), (const_cast<T *>(ivar), cmp, cmp_value))
SHMEM_P2P_DISTINCT(SHMEM_OVERLOAD_P2P, )

#define SHMEM_OVERLOAD_ARRAY(NAME, T, ...)                                                                            \
    SHMEM_OVERLOAD(NAME, void, wait_until_all,                                                                        \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, T cmp_value),                      \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_value))                                          \
    SHMEM_OVERLOAD(NAME, void, wait_until_all_vector,                                                                 \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, const T *cmp_values),              \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_values))                                         \
    SHMEM_OVERLOAD(NAME, size_t, wait_until_any,                                                                      \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, T cmp_value),                      \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_value))                                          \
    SHMEM_OVERLOAD(NAME, size_t, wait_until_any_vector,                                                               \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, const T *cmp_values),              \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_values))                                         \
    SHMEM_OVERLOAD(NAME, size_t, wait_until_some,                                                                     \
                   (volatile T * ivars, size_t nelems, size_t * indices, const int *status, int cmp, T cmp_value),    \
                   (const_cast<T *>(ivars), nelems, indices, status, cmp, cmp_value))                                 \
    SHMEM_OVERLOAD(                                                                                                   \
        NAME, size_t, wait_until_some_vector,                                                                         \
        (volatile T * ivars, size_t nelems, size_t * indices, const int *status, int cmp, const T *cmp_values),       \
        (const_cast<T *>(ivars), nelems, indices, status, cmp, cmp_values))                                           \
    SHMEM_OVERLOAD(NAME, int, test_all, (volatile T * ivars, size_t nelems, const int *status, int cmp, T cmp_value), \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_value))                                          \
    SHMEM_OVERLOAD(NAME, int, test_all_vector,                                                                        \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, const T *cmp_values),              \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_values))                                         \
    SHMEM_OVERLOAD(NAME, size_t, test_any,                                                                            \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, T cmp_value),                      \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_value))                                          \
    SHMEM_OVERLOAD(NAME, size_t, test_any_vector,                                                                     \
                   (volatile T * ivars, size_t nelems, const int *status, int cmp, const T *cmp_values),              \
                   (const_cast<T *>(ivars), nelems, status, cmp, cmp_values))                                         \
    SHMEM_OVERLOAD(NAME, size_t, test_some,                                                                           \
                   (volatile T * ivars, size_t nelems, size_t * indices, const int *status, int cmp, T cmp_value),    \
                   (const_cast<T *>(ivars), nelems, indices, status, cmp, cmp_value))                                 \
    SHMEM_OVERLOAD(                                                                                                   \
        NAME, size_t, test_some_vector,                                                                               \
        (volatile T * ivars, size_t nelems, size_t * indices, const int *status, int cmp, const T *cmp_values),       \
        (const_cast<T *>(ivars), nelems, indices, status, cmp, cmp_values))
SHMEM_P2P_DISTINCT(SHMEM_OVERLOAD_ARRAY, )

inline int shmem_sync(shmem_team_t team) { return shmem_team_sync(team); }
#define SHMEM_OVERLOAD_MOVE(NAME, T, ...)                                                                            \
    SHMEM_OVERLOAD(NAME, int, alltoall, (shmem_team_t team, T * dest, const T *source, size_t nelems),               \
                   (team, dest, source, nelems))                                                                     \
    SHMEM_OVERLOAD(NAME, int, alltoalls,                                                                             \
                   (shmem_team_t team, T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems),      \
                   (team, dest, source, dst, sst, nelems))                                                           \
    SHMEM_OVERLOAD(NAME, int, broadcast, (shmem_team_t team, T * dest, const T *source, size_t nelems, int PE_root), \
                   (team, dest, source, nelems, PE_root))                                                            \
    SHMEM_OVERLOAD(NAME, int, collect, (shmem_team_t team, T * dest, const T *source, size_t nelems),                \
                   (team, dest, source, nelems))                                                                     \
    SHMEM_OVERLOAD(NAME, int, fcollect, (shmem_team_t team, T * dest, const T *source, size_t nelems),               \
                   (team, dest, source, nelems))
SHMEM_RMA_DISTINCT(SHMEM_OVERLOAD_MOVE, )

#define SHMEM_OVERLOAD_REDUCE(op, set_op, GROUP, ...) SHMEM_##GROUP##_DISTINCT(SHMEM_OVERLOAD_REDUCE_TYPE, op)
#define SHMEM_OVERLOAD_REDUCE_TYPE(NAME, T, op)                                                  \
    SHMEM_OVERLOAD(NAME, int, op, (shmem_team_t team, T * dest, const T *source, size_t nelems), \
                   (team, dest, source, nelems))
SHMEM_REDUCE_OPS(SHMEM_OVERLOAD_REDUCE, )
#define SHMEM_OVERLOAD_SCAN(op, ...) SHMEM_SUM_DISTINCT(SHMEM_OVERLOAD_REDUCE_TYPE, op)
SHMEM_SCAN_OPS(SHMEM_OVERLOAD_SCAN, )

} /* extern "C++" */

#endif

#endif
