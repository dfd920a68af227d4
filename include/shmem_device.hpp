// SPDX-License-Identifier: MIT
// The in-kernel API in C++ (11 and later): one name for all types, in `namespace shmemd`, and kernels that are
// templates, stand in namespaces and take arguments of their own. Calls do what those of shmem_device.h do, whose
// comments hold.
//
//     template <class T> SHMEMD_GLOBAL void pass(shmemd_t h, T *inbox, const T *mine, size_t n, uint64_t *signal)
//     {
//         int right = (shmemd_my_pe(h) + 1) % shmemd_n_pes(h);
//         shmemd::put_signal(h, shmemd::block(), inbox, mine, n, signal, 1, SHMEM_SIGNAL_SET, right);
//         shmemd::signal_wait_until(h, shmemd::block(), signal, SHMEM_CMP_EQ, 1);
//     }
//     shmemd::launch(pass<__half>, 1, 256, 0, stream, h, inbox, mine, n, signal);
//
// Groups. shmemd::thread(), wave(), block() stand behind the handle; without one the calling thread acts alone.
// Collectives take block() or grid(); barrier and sync all four.
//
// Types. The type of a call is that of `dest` (put, p, atomics) or of the pointer that stands in its place. Other
// arguments are converted to it, as in calls of shmemd_NAME_put. Allowed are the types of the tables in shmem_types.h,
// and those of vendors: __half, __nv_bfloat16, fp8 types of CUDA; __half, hip_bfloat16, __hip_bfloat16 and fp8 types of
// HIP; _Float16. They count as shmemd_half_t, shmemd_bfloat16_t or bytes. Their headers may be included before or after
// this one. A type that a call does not have is refused with a sentence.
//
// A type of the program: template <> struct shmemd::type<mine> : shmemd::counts_as<float> {}; where mine has the size
// and the bits of a float.
#ifndef SHMEM_DEVICE_HPP
#define SHMEM_DEVICE_HPP

#ifndef __cplusplus
#error "shmem_device.hpp is C++; C programs include shmem_device.h"
#endif

#include "shmem_device.h"

// ---- vendors' types, declared only: complete where the program includes their header ----

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
struct __nv_fp8_e8m0;
struct hip_bfloat16;
struct __hip_bfloat16;
struct __hip_bfloat162;
struct __hip_fp8_e4m3;
struct __hip_fp8_e5m2;
struct __hip_fp8_e4m3_fnuz;
struct __hip_fp8_e5m2_fnuz;

namespace shmemd
{

// ---- groups ----

struct thread_group {
};
struct wave_group {
};
struct block_group {
};
struct grid_group {
};
PRIM_FN thread_group thread() { return thread_group(); }
PRIM_FN wave_group wave() { return wave_group(); }
PRIM_FN block_group block() { return block_group(); }
PRIM_FN grid_group grid() { return grid_group(); }

template <class T> struct never {
    enum { yes = 0 };
};
PRIM_FN shmemd_group_t group_of(thread_group) { return shmemd_thread(); }
PRIM_FN shmemd_group_t group_of(wave_group) { return shmemd_wave(); }
PRIM_FN shmemd_group_t group_of(block_group) { return shmemd_block(); }
PRIM_FN shmemd_group_t group_of(shmemd_group_t g) { return g; }
template <class G> PRIM_FN shmemd_group_t group_of(G)
{
    static_assert(never<G>::yes,
                  "this call takes shmemd::thread(), shmemd::wave() or shmemd::block() behind the handle");
    return shmemd_thread();
}

// ---- types ----

// What T counts as: its bits and what may be done with them; a type that only moves has no atomics and no reductions.
template <class T> struct counts_as {
    typedef T as;
    enum { only_moves = 0 };
};
template <class T> struct moves_as {
    typedef T as;
    enum { only_moves = 1 };
};
template <class T> struct type : counts_as<T> {
};
template <> struct type<__half> : counts_as<shmemd_half_t> {
};
template <> struct type<__nv_bfloat16> : counts_as<shmemd_bfloat16_t> {
};
template <> struct type<hip_bfloat16> : counts_as<shmemd_bfloat16_t> {
};
template <> struct type<__hip_bfloat16> : counts_as<shmemd_bfloat16_t> {
};
template <> struct type<__half2> : counts_as<shmemd_half2_t> {
};
template <> struct type<__nv_bfloat162> : counts_as<shmemd_bfloat162_t> {
};
template <> struct type<__hip_bfloat162> : counts_as<shmemd_bfloat162_t> {
};
#define SHMEMD_MOVES(T)                                    \
    template <> struct type<T> : moves_as<unsigned char> { \
    };
SHMEMD_MOVES(__nv_fp8_e4m3)
SHMEMD_MOVES(__nv_fp8_e5m2)
SHMEMD_MOVES(__nv_fp8_e8m0)
SHMEMD_MOVES(__hip_fp8_e4m3)
SHMEMD_MOVES(__hip_fp8_e5m2)
SHMEMD_MOVES(__hip_fp8_e4m3_fnuz)
SHMEMD_MOVES(__hip_fp8_e5m2_fnuz)
SHMEMD_MOVES(bool)
#undef SHMEMD_MOVES
#ifdef __FLT16_MANT_DIG__
template <> struct type<_Float16> : counts_as<shmemd_half_t> {
};
#endif

namespace table // which types the tables of shmem_types.h have, each C type once
{
template <class T> struct rma : never<T> {
};
template <class T> struct ext : never<T> {
};
template <class T> struct amo : never<T> {
};
template <class T> struct add : never<T> {
};
template <class T> struct bit : never<T> {
};
template <class T> struct sum : never<T> {
};
template <class T> struct minmax : never<T> {
};
template <class T> struct logic : never<T> {
};
template <class T> struct loc : never<T> {
};
#define SHMEMD_IN(NAME, TYPE, table, ...) \
    template <> struct table<TYPE> {      \
        enum { yes = 1 };                 \
    };
#define SHMEMD_IN_DEVICE(table)                               \
    SHMEM_DISTINCT_TYPES(SHMEM_IF_DEVICE, SHMEMD_IN, table, ) \
    SHMEM_DEVICE_HALF_TYPES(SHMEMD_IN, table, )
SHMEMD_IN_DEVICE(rma)
SHMEMD_IN_DEVICE(sum)
SHMEMD_IN_DEVICE(minmax)
#define SHMEMD_IN_LOC(NAME)                   \
    SHMEMD_IN(, shmemd_##NAME##_loc_t, rma, ) \
    SHMEMD_IN(, shmemd_##NAME##_loc_t, loc, )
SHMEMD_IN_LOC(float)
SHMEMD_IN_LOC(int32)
SHMEMD_IN_LOC(double)
SHMEMD_IN_LOC(int64)
SHMEMD_IN_LOC(double2)
#undef SHMEMD_IN_LOC
SHMEMD_IN(, shmemd_complexf_t, rma, )
SHMEMD_IN(, shmemd_complexd_t, rma, )
SHMEMD_IN(, shmemd_complexf_t, sum, )
SHMEMD_IN(, shmemd_complexd_t, sum, )
SHMEM_EXT_DISTINCT(SHMEMD_IN, ext, )
SHMEM_STD_DISTINCT(SHMEMD_IN, amo, )
SHMEM_STD_DISTINCT(SHMEMD_IN, add, )
SHMEMD_IN(, float, add, )
SHMEMD_IN(, double, add, )
SHMEMD_IN(, shmemd_half_t, add, )
SHMEMD_IN(, shmemd_bfloat16_t, add, )
SHMEMD_IN(, shmemd_half2_t, rma, )
SHMEMD_IN(, shmemd_half2_t, add, )
SHMEMD_IN(, shmemd_bfloat162_t, rma, )
SHMEMD_IN(, shmemd_bfloat162_t, add, )
SHMEM_BIT_DISTINCT(SHMEMD_IN, bit, )
SHMEM_LOGIC_DISTINCT(SHMEMD_IN, logic, )
#undef SHMEMD_IN
#undef SHMEMD_IN_DEVICE

// `as`, or a type that every table has, so that a refused call has one error.
template <int yes, class T> struct known {
    typedef unsigned long as;
};
template <class T> struct known<1, T> {
    typedef T as;
};
} // namespace table

// A parameter from which T is not deduced: other arguments are converted to what the pointer says.
template <class T> struct same {
    typedef T as;
};

// In the calls below: A is what T counts as. A sentence where the table has no such type.
#define SHMEMD_NEEDS(table_name, T, moving, words)                                                                \
    enum { is_known = table::table_name<typename type<T>::as>::yes && (moving || !type<T>::only_moves) ? 1 : 0 }; \
    static_assert(is_known == 1, words);                                                                          \
    typedef typename table::known<is_known, typename type<T>::as>::as A
#define SHMEMD_NEEDS_MOVES(T)                                                                                         \
    SHMEMD_NEEDS(                                                                                                     \
        rma, T, 1,                                                                                                    \
        "put, get, p, g and data collectives: the type that the first pointer points to is no type of "               \
        "shmem_types.h, or is const; use the forms for bytes (shmemd_putmem and so on), or specialise shmemd::type"); \
    static_assert(sizeof(T) == sizeof(A) || is_known == 0, "shmemd::type gives a type of another size")

#define SHMEMD_NEEDS_ONE(T)                                                                   \
    SHMEMD_NEEDS_MOVES(T);                                                                    \
    static_assert(alignof(A) == sizeof(A),                                                    \
                  "p and g: by one access, of types of 1, 2, 4 and 8 bytes that are aligned " \
                  "to their size; complex numbers and values with a location go by put and get")

template <class A, class T> PRIM_FN A bits_as(T value)
{
    A bits;
    __builtin_memcpy((void *)&bits, (const void *)&value, sizeof(T) < sizeof(A) ? sizeof(T) : sizeof(A));
    return bits;
}

// ---- one element ----

template <class T> PRIM_FN void p(shmemd_t h, T *dest, typename same<T>::as value, int pe)
{
    SHMEMD_NEEDS_ONE(T);
    SHMEMD_CHECK_WORD(dest, sizeof(A));
    SHMEMD_CHECK_PE;
    isod_p(h, dest, &value, sizeof(A), pe);
}
template <class T> PRIM_FN T g(shmemd_t h, const T *source, int pe)
{
    SHMEMD_NEEDS_ONE(T);
    A bits;
    SHMEMD_CHECK_WORD(source, sizeof(A));
    SHMEMD_CHECK_PE;
    isod_g(h, &bits, source, sizeof(A), pe);
    return bits_as<T>(bits);
}

// ---- put, get, strided, with a signal: (h, dest, source, ...) and (h, group, dest, source, ...) ----

#define SHMEMD_BOTH(name, params, ...)                                                     \
    template <class T> PRIM_FN void name(shmemd_t h, SHMEMD_ARGS params)                   \
    {                                                                                      \
        const shmemd_group_t g = shmemd_thread();                                          \
        SHMEMD_NEEDS_MOVES(T);                                                             \
        __VA_ARGS__                                                                        \
    }                                                                                      \
    template <class T, class G> PRIM_FN void name(shmemd_t h, G group, SHMEMD_ARGS params) \
    {                                                                                      \
        const shmemd_group_t g = group_of(group);                                          \
        SHMEMD_NEEDS_MOVES(T);                                                             \
        __VA_ARGS__                                                                        \
    }
#define SHMEMD_SOURCE T *dest, const typename same<T>::as *source
SHMEMD_BOTH(put, (SHMEMD_SOURCE, size_t nelems, int pe),
            shmemd_putmem_group(h, g, dest, source, nelems * sizeof(A), pe);)
SHMEMD_BOTH(get, (SHMEMD_SOURCE, size_t nelems, int pe),
            shmemd_getmem_group(h, g, dest, source, nelems * sizeof(A), pe);)
SHMEMD_BOTH(put_nbi, (SHMEMD_SOURCE, size_t nelems, int pe),
            shmemd_putmem_nbi_group(h, g, dest, source, nelems * sizeof(A), pe);)
SHMEMD_BOTH(get_nbi, (SHMEMD_SOURCE, size_t nelems, int pe),
            shmemd_getmem_nbi_group(h, g, dest, source, nelems * sizeof(A), pe);)
#define SHMEMD_STRIDES                                                         \
    const struct isod_strided s = {dest, source, dst, sst, nelems, sizeof(A)}; \
    SHMEMD_CHECK_STRIDES(sizeof(A));
SHMEMD_BOTH(iput, (SHMEMD_SOURCE, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),
            SHMEMD_STRIDES isod_iput(h, g, s, pe);)
SHMEMD_BOTH(iget, (SHMEMD_SOURCE, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),
            SHMEMD_STRIDES isod_iget(h, g, s, pe);)

// A signal is a word of 8 bytes without a sign: uint64_t, unsigned long or unsigned long long.
template <class S> struct is_signal : never<S> {
};
template <> struct is_signal<unsigned long> {
    enum { yes = sizeof(unsigned long) == 8 };
};
template <> struct is_signal<unsigned long long> {
    enum { yes = sizeof(unsigned long long) == 8 };
};
#define SHMEMD_NEEDS_SIGNAL(S)                                                                                     \
    static_assert(is_signal<S>::yes, "a signal is a uint64_t (or unsigned long long): sig_addr points to another " \
                                     "type")
#define SHMEMD_WITH_SIGNAL(name)                                                                                       \
    template <class T, class S>                                                                                        \
    PRIM_FN void name(shmemd_t h, SHMEMD_SOURCE, size_t nelems, S *sig_addr, uint64_t signal, int sig_op, int pe)      \
    {                                                                                                                  \
        SHMEMD_NEEDS_MOVES(T);                                                                                         \
        SHMEMD_NEEDS_SIGNAL(S);                                                                                        \
        shmemd_putmem_signal(h, dest, source, nelems * sizeof(A), (uint64_t *)sig_addr, signal, sig_op, pe);           \
    }                                                                                                                  \
    template <class T, class S, class G>                                                                               \
    PRIM_FN void name(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems, S *sig_addr, uint64_t signal, int sig_op,     \
                      int pe)                                                                                          \
    {                                                                                                                  \
        SHMEMD_NEEDS_MOVES(T);                                                                                         \
        SHMEMD_NEEDS_SIGNAL(S);                                                                                        \
        shmemd_putmem_signal_group(h, group_of(group), dest, source, nelems * sizeof(A), (uint64_t *)sig_addr, signal, \
                                   sig_op, pe);                                                                        \
    }
SHMEMD_WITH_SIGNAL(put_signal)
SHMEMD_WITH_SIGNAL(put_signal_nbi)
template <class T, class S, class G>
PRIM_FN void put_each_signal(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems, S *sig_addr, uint64_t signal,
                             int sig_op, int pe)
{
    SHMEMD_NEEDS_MOVES(T);
    SHMEMD_NEEDS_SIGNAL(S);
    shmemd_putmem_each_signal_group(h, group_of(group), dest, source, nelems * sizeof(A), (uint64_t *)sig_addr, signal,
                                    sig_op, pe);
}
template <class S> PRIM_FN void signal_op(shmemd_t h, S *sig_addr, uint64_t signal, int sig_op, int pe)
{
    SHMEMD_NEEDS_SIGNAL(S);
    shmemd_signal_op(h, (uint64_t *)sig_addr, signal, sig_op, pe);
}
template <class S> PRIM_FN uint64_t signal_fetch(shmemd_t h, const S *sig_addr)
{
    SHMEMD_NEEDS_SIGNAL(S);
    return shmemd_signal_fetch(h, (const uint64_t *)sig_addr);
}
template <class S> PRIM_FN uint64_t signal_wait_until(shmemd_t h, const S *sig_addr, int cmp, uint64_t cmp_value)
{
    SHMEMD_NEEDS_SIGNAL(S);
    return shmemd_signal_wait_until(h, (const uint64_t *)sig_addr, cmp, cmp_value);
}
template <class S, class G>
PRIM_FN uint64_t signal_wait_until(shmemd_t h, G group, const S *sig_addr, int cmp, uint64_t cmp_value)
{
    SHMEMD_NEEDS_SIGNAL(S);
    return shmemd_signal_wait_until_group(h, group_of(group), (const uint64_t *)sig_addr, cmp, cmp_value);
}

template <class S> PRIM_FN int pe_signal_wait_until(shmemd_t h, const S *sig_addr, int cmp, uint64_t cmp_value, int pe)
{
    SHMEMD_NEEDS_SIGNAL(S);
    return shmemd_pe_signal_wait_until(h, (const uint64_t *)sig_addr, cmp, cmp_value, pe);
}
template <class S, class G>
PRIM_FN int pe_signal_wait_until(shmemd_t h, G group, const S *sig_addr, int cmp, uint64_t cmp_value, int pe)
{
    SHMEMD_NEEDS_SIGNAL(S);
    return shmemd_pe_signal_wait_until_group(h, group_of(group), (const uint64_t *)sig_addr, cmp, cmp_value, pe);
}

// ---- atomics, waits and tests: `named` has an overload for each type of a table, the calls find it by A ----

namespace named
{
#define SHMEMD_EXT_OF(NAME, T, ...)                                                                                    \
    PRIM_FN T atomic_fetch(shmemd_t h, const T *source, int pe) { return shmemd##NAME##_atomic_fetch(h, source, pe); } \
    PRIM_FN void atomic_set(shmemd_t h, T *dest, T value, int pe) { shmemd##NAME##_atomic_set(h, dest, value, pe); }   \
    PRIM_FN T atomic_swap(shmemd_t h, T *dest, T value, int pe)                                                        \
    {                                                                                                                  \
        return shmemd##NAME##_atomic_swap(h, dest, value, pe);                                                         \
    }                                                                                                                  \
    PRIM_FN T shuffle(T value, unsigned thread) { return shmemd##NAME##_shuffle(value, thread); }
SHMEM_EXT_DISTINCT(SHMEMD_EXT_OF, )
#define SHMEMD_AMO_OF(NAME, T, ...)                                                                                    \
    PRIM_FN T atomic_compare_swap(shmemd_t h, T *dest, T cond, T value, int pe)                                        \
    {                                                                                                                  \
        return shmemd##NAME##_atomic_compare_swap(h, dest, cond, value, pe);                                           \
    }                                                                                                                  \
    PRIM_FN T atomic_fetch_inc(shmemd_t h, T *dest, int pe) { return shmemd##NAME##_atomic_fetch_inc(h, dest, pe); }   \
    PRIM_FN void atomic_inc(shmemd_t h, T *dest, int pe) { shmemd##NAME##_atomic_inc(h, dest, pe); }                   \
    PRIM_FN T atomic_fetch_add(shmemd_t h, T *dest, T value, int pe)                                                   \
    {                                                                                                                  \
        return shmemd##NAME##_atomic_fetch_add(h, dest, value, pe);                                                    \
    }                                                                                                                  \
    PRIM_FN void atomic_add(shmemd_t h, T *dest, T value, int pe) { shmemd##NAME##_atomic_add(h, dest, value, pe); }   \
    PRIM_FN void wait_until(shmemd_t h, shmemd_group_t g, const T *ivar, int cmp, T value)                             \
    {                                                                                                                  \
        shmemd##NAME##_wait_until_group(h, g, ivar, cmp, value);                                                       \
    }                                                                                                                  \
    PRIM_FN int wait_until_for(shmemd_t h, shmemd_group_t g, const T *ivar, int cmp, T value, uint64_t ns)             \
    {                                                                                                                  \
        return shmemd##NAME##_wait_until_for_group(h, g, ivar, cmp, value, ns);                                        \
    }                                                                                                                  \
    PRIM_FN int test(shmemd_t h, const T *ivar, int cmp, T value) { return shmemd##NAME##_test(h, ivar, cmp, value); } \
    PRIM_FN T local_load(const T *at, int order, int scope) { return shmemd##NAME##_local_load(at, order, scope); }    \
    PRIM_FN void local_store(T *at, T value, int order, int scope)                                                     \
    {                                                                                                                  \
        shmemd##NAME##_local_store(at, value, order, scope);                                                           \
    }                                                                                                                  \
    PRIM_FN T local_fetch_add(T *at, T value, int order, int scope)                                                    \
    {                                                                                                                  \
        return shmemd##NAME##_local_fetch_add(at, value, order, scope);                                                \
    }                                                                                                                  \
    PRIM_FN T local_swap(T *at, T value, int order, int scope)                                                         \
    {                                                                                                                  \
        return shmemd##NAME##_local_swap(at, value, order, scope);                                                     \
    }                                                                                                                  \
    PRIM_FN T local_compare_swap(T *at, T cond, T value, int order, int scope)                                         \
    {                                                                                                                  \
        return shmemd##NAME##_local_compare_swap(at, cond, value, order, scope);                                       \
    }
SHMEM_STD_DISTINCT(SHMEMD_AMO_OF, )
#define SHMEMD_REAL_OF(NAME, T)                                      \
    PRIM_FN T atomic_fetch_add(shmemd_t h, T *dest, T value, int pe) \
    {                                                                \
        return shmemd_##NAME##_atomic_fetch_add(h, dest, value, pe); \
    }                                                                \
    PRIM_FN void atomic_add(shmemd_t h, T *dest, T value, int pe) { shmemd_##NAME##_atomic_add(h, dest, value, pe); }
SHMEMD_REAL_OF(float, float)
SHMEMD_REAL_OF(double, double)
SHMEMD_REAL_OF(half, shmemd_half_t)
SHMEMD_REAL_OF(bfloat16, shmemd_bfloat16_t)
SHMEMD_REAL_OF(half2, shmemd_half2_t)
SHMEMD_REAL_OF(bfloat162, shmemd_bfloat162_t)
#define SHMEMD_BIT_OF(op, fetch_op, ...) SHMEM_BIT_DISTINCT(SHMEMD_BIT_TYPE_OF, op, fetch_op)
#define SHMEMD_BIT_TYPE_OF(NAME, T, op, fetch_op)                                                      \
    PRIM_FN void op(shmemd_t h, T *dest, T value, int pe) { shmemd##NAME##_##op(h, dest, value, pe); } \
    PRIM_FN T fetch_op(shmemd_t h, T *dest, T value, int pe) { return shmemd##NAME##_##fetch_op(h, dest, value, pe); }
SHMEM_BIT_OPS(SHMEMD_BIT_OF, )
// Arrays: any and all have no indices, some has.
#define SHMEMD_ARRAY_OF(R, op, ...) SHMEM_STD_DISTINCT(SHMEMD_ARRAY_TYPE_OF, R, op)
#define SHMEMD_ARRAY_TYPE_OF(NAME, T, R, op)                                                                      \
    PRIM_FN R op(shmemd_t h, const T *ivars, size_t nelems, const int *status, int cmp, T value)                  \
    {                                                                                                             \
        return shmemd##NAME##_##op(h, ivars, nelems, status, cmp, value);                                         \
    }                                                                                                             \
    PRIM_FN R op##_vector(shmemd_t h, const T *ivars, size_t nelems, const int *status, int cmp, const T *values) \
    {                                                                                                             \
        return shmemd##NAME##_##op##_vector(h, ivars, nelems, status, cmp, values);                               \
    }
SHMEM_ARRAY_WAIT_OPS(SHMEMD_ARRAY_OF, )
#define SHMEMD_SOME_OF(op, ...) SHMEM_STD_DISTINCT(SHMEMD_SOME_TYPE_OF, op)
#define SHMEMD_SOME_TYPE_OF(NAME, T, op)                                                                               \
    PRIM_FN size_t op(shmemd_t h, const T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T value) \
    {                                                                                                                  \
        return shmemd##NAME##_##op(h, ivars, nelems, indices, status, cmp, value);                                     \
    }                                                                                                                  \
    PRIM_FN size_t op##_vector(shmemd_t h, const T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                               const T *values)                                                                        \
    {                                                                                                                  \
        return shmemd##NAME##_##op##_vector(h, ivars, nelems, indices, status, cmp, values);                           \
    }
SHMEM_ARRAY_SOME_OPS(SHMEMD_SOME_OF, )
} // namespace named

#define SHMEMD_NEEDS_EXT(T) \
    SHMEMD_NEEDS(ext, T, 0, \
                 "fetch, set, swap and shuffle: not of this type; types with them: 4 and 8 bytes, not long double")
#define SHMEMD_NEEDS_AMO(T) \
    SHMEMD_NEEDS(amo, T, 0, "inc, compare_swap, waits and tests: of integers of 4 and 8 bytes only")
#define SHMEMD_NEEDS_ADD(T) \
    SHMEMD_NEEDS(add, T, 0, "add: of integers of 4 and 8 bytes, floats of 2, 4 and 8 bytes, and pairs of halves only")
#define SHMEMD_NEEDS_BIT(T) \
    SHMEMD_NEEDS(bit, T, 0, "atomic and, or, xor: of unsigned integers of 4 and 8 bytes, int32_t and int64_t only")
#define SHMEMD_VALUE typename same<T>::as value

template <class T> PRIM_FN T atomic_fetch(shmemd_t h, const T *source, int pe)
{
    SHMEMD_NEEDS_EXT(T);
    return bits_as<T>(named::atomic_fetch(h, (const A *)source, pe));
}
template <class T> PRIM_FN void atomic_set(shmemd_t h, T *dest, SHMEMD_VALUE, int pe)
{
    SHMEMD_NEEDS_EXT(T);
    named::atomic_set(h, (A *)dest, bits_as<A>(value), pe);
}
template <class T> PRIM_FN T atomic_swap(shmemd_t h, T *dest, SHMEMD_VALUE, int pe)
{
    SHMEMD_NEEDS_EXT(T);
    return bits_as<T>(named::atomic_swap(h, (A *)dest, bits_as<A>(value), pe));
}
template <class T> PRIM_FN T atomic_compare_swap(shmemd_t h, T *dest, typename same<T>::as cond, SHMEMD_VALUE, int pe)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::atomic_compare_swap(h, (A *)dest, bits_as<A>(cond), bits_as<A>(value), pe));
}
template <class T> PRIM_FN T atomic_fetch_inc(shmemd_t h, T *dest, int pe)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::atomic_fetch_inc(h, (A *)dest, pe));
}
template <class T> PRIM_FN void atomic_inc(shmemd_t h, T *dest, int pe)
{
    SHMEMD_NEEDS_AMO(T);
    named::atomic_inc(h, (A *)dest, pe);
}
template <class T> PRIM_FN T atomic_fetch_add(shmemd_t h, T *dest, SHMEMD_VALUE, int pe)
{
    SHMEMD_NEEDS_ADD(T);
    return bits_as<T>(named::atomic_fetch_add(h, (A *)dest, bits_as<A>(value), pe));
}
template <class T> PRIM_FN void atomic_add(shmemd_t h, T *dest, SHMEMD_VALUE, int pe)
{
    SHMEMD_NEEDS_ADD(T);
    named::atomic_add(h, (A *)dest, bits_as<A>(value), pe);
}
#define SHMEMD_BIT_CALL(op, fetch_op, ...)                                           \
    template <class T> PRIM_FN void op(shmemd_t h, T *dest, SHMEMD_VALUE, int pe)    \
    {                                                                                \
        SHMEMD_NEEDS_BIT(T);                                                         \
        named::op(h, (A *)dest, bits_as<A>(value), pe);                              \
    }                                                                                \
    template <class T> PRIM_FN T fetch_op(shmemd_t h, T *dest, SHMEMD_VALUE, int pe) \
    {                                                                                \
        SHMEMD_NEEDS_BIT(T);                                                         \
        return bits_as<T>(named::fetch_op(h, (A *)dest, bits_as<A>(value), pe));     \
    }
SHMEM_BIT_OPS(SHMEMD_BIT_CALL, )

template <class T> PRIM_FN void wait_until(shmemd_t h, const T *ivar, int cmp, SHMEMD_VALUE)
{
    SHMEMD_NEEDS_AMO(T);
    named::wait_until(h, shmemd_thread(), (const A *)ivar, cmp, bits_as<A>(value));
}
template <class T, class G> PRIM_FN void wait_until(shmemd_t h, G group, const T *ivar, int cmp, SHMEMD_VALUE)
{
    SHMEMD_NEEDS_AMO(T);
    named::wait_until(h, group_of(group), (const A *)ivar, cmp, bits_as<A>(value));
}
template <class T> PRIM_FN int wait_until_for(shmemd_t h, const T *ivar, int cmp, SHMEMD_VALUE, uint64_t ns)
{
    SHMEMD_NEEDS_AMO(T);
    return named::wait_until_for(h, shmemd_thread(), (const A *)ivar, cmp, bits_as<A>(value), ns);
}
template <class T, class G>
PRIM_FN int wait_until_for(shmemd_t h, G group, const T *ivar, int cmp, SHMEMD_VALUE, uint64_t ns)
{
    SHMEMD_NEEDS_AMO(T);
    return named::wait_until_for(h, group_of(group), (const A *)ivar, cmp, bits_as<A>(value), ns);
}
template <class T> PRIM_FN int test(shmemd_t h, const T *ivar, int cmp, SHMEMD_VALUE)
{
    SHMEMD_NEEDS_AMO(T);
    return named::test(h, (const A *)ivar, cmp, bits_as<A>(value));
}
#define SHMEMD_ARRAY_CALL(R, op, ...)                                                                 \
    template <class T>                                                                                \
    PRIM_FN R op(shmemd_t h, const T *ivars, size_t nelems, const int *status, int cmp, SHMEMD_VALUE) \
    {                                                                                                 \
        SHMEMD_NEEDS_AMO(T);                                                                          \
        return named::op(h, (const A *)ivars, nelems, status, cmp, bits_as<A>(value));                \
    }                                                                                                 \
    template <class T>                                                                                \
    PRIM_FN R op##_vector(shmemd_t h, const T *ivars, size_t nelems, const int *status, int cmp,      \
                          const typename same<T>::as *values)                                         \
    {                                                                                                 \
        SHMEMD_NEEDS_AMO(T);                                                                          \
        return named::op##_vector(h, (const A *)ivars, nelems, status, cmp, (const A *)values);       \
    }
SHMEM_ARRAY_WAIT_OPS(SHMEMD_ARRAY_CALL, )
#define SHMEMD_SOME_CALL(op, ...)                                                                                      \
    template <class T>                                                                                                 \
    PRIM_FN size_t op(shmemd_t h, const T *ivars, size_t nelems, size_t *indices, const int *status, int cmp,          \
                      SHMEMD_VALUE)                                                                                    \
    {                                                                                                                  \
        SHMEMD_NEEDS_AMO(T);                                                                                           \
        return named::op(h, (const A *)ivars, nelems, indices, status, cmp, bits_as<A>(value));                        \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    PRIM_FN size_t op##_vector(shmemd_t h, const T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                               const typename same<T>::as *values)                                                     \
    {                                                                                                                  \
        SHMEMD_NEEDS_AMO(T);                                                                                           \
        return named::op##_vector(h, (const A *)ivars, nelems, indices, status, cmp, (const A *)values);               \
    }
SHMEM_ARRAY_SOME_OPS(SHMEMD_SOME_CALL, )

// ---- ordering ----

#define SHMEMD_ORDER_CALL(name)                         \
    PRIM_FN void name(shmemd_t h) { shmemd_##name(h); } \
    template <class G> PRIM_FN void name(shmemd_t h, G group) { shmemd_##name##_group(h, group_of(group)); }
SHMEMD_ORDER_CALL(fence)
SHMEMD_ORDER_CALL(flush)
SHMEMD_ORDER_CALL(quiet)
SHMEMD_ORDER_CALL(acquire)
PRIM_FN void pe_fence(shmemd_t h, int pe) { shmemd_pe_fence(h, pe); }
template <class G> PRIM_FN void pe_fence(shmemd_t h, G group, int pe) { shmemd_pe_fence_group(h, group_of(group), pe); }

// ---- collectives: (h, group, dest, source, ...); they return as those of shmem_device_coll.h. A group is thread(),
// wave(), block() or grid(), for alltoallv one of the last two ----

PRIM_FN shmemd_group_t among(thread_group) { return shmemd_thread(); }
PRIM_FN shmemd_group_t among(wave_group) { return shmemd_wave(); }
PRIM_FN shmemd_group_t among(shmemd_group_t g) { return g; }
PRIM_FN block_group among(block_group g) { return g; }
PRIM_FN grid_group among(grid_group g) { return g; }
template <class G> PRIM_FN block_group among(G)
{
    static_assert(never<G>::yes, "a collective takes shmemd::thread(), wave(), block() or grid() behind the handle");
    return block_group();
}

namespace named
{
#define SHMEMD_COLL_OF(form)                                                                              \
    PRIM_FN int barrier(SHMEMD_IN_##form) { return shmemd_barrier_##form(SHMEMD_AS_##form); }             \
    PRIM_FN int sync(SHMEMD_IN_##form) { return shmemd_sync_##form(SHMEMD_AS_##form); }                   \
    PRIM_FN int broadcast(SHMEMD_IN_##form, void *dest, const void *source, size_t bytes, int root)       \
    {                                                                                                     \
        return shmemd_broadcastmem_##form(SHMEMD_AS_##form, dest, source, bytes, root);                   \
    }                                                                                                     \
    PRIM_FN int fcollect(SHMEMD_IN_##form, void *dest, const void *source, size_t bytes)                  \
    {                                                                                                     \
        return shmemd_fcollectmem_##form(SHMEMD_AS_##form, dest, source, bytes);                          \
    }                                                                                                     \
    PRIM_FN int alltoall(SHMEMD_IN_##form, void *dest, const void *source, size_t bytes)                  \
    {                                                                                                     \
        return shmemd_alltoallmem_##form(SHMEMD_AS_##form, dest, source, bytes);                          \
    }                                                                                                     \
    PRIM_FN int permute(SHMEMD_IN_##form, void *dest, const void *source, size_t bytes, int to, int from) \
    {                                                                                                     \
        return shmemd_permutemem_##form(SHMEMD_AS_##form, dest, source, bytes, to, from);                 \
    }
#define SHMEMD_IN_block shmemd_t h, block_group
#define SHMEMD_IN_grid shmemd_t h, grid_group
#define SHMEMD_IN_group shmemd_t h, shmemd_group_t g
SHMEMD_COLL_OF(block)
SHMEMD_COLL_OF(grid)
SHMEMD_COLL_OF(group)
PRIM_FN int alltoallv(shmemd_t h, block_group, const isod_vector &w) { return isod_alltoallv_block(h, w); }
PRIM_FN int alltoallv(shmemd_t h, grid_group, const isod_vector &w) { return isod_alltoallv_grid(h, w); }
#define SHMEMD_REDUCE_FORM_OF(NAME, T, op, form)                                            \
    PRIM_FN int op(SHMEMD_IN_##form, T *dest, const T *source, size_t nelems)               \
    {                                                                                       \
        return shmemd##NAME##_##op##_##form(SHMEMD_AS_##form, dest, source, nelems);        \
    }                                                                                       \
    PRIM_FN int op##scatter(SHMEMD_IN_##form, T *dest, const T *source, size_t nelems)      \
    {                                                                                       \
        return shmemd##NAME##_##op##scatter_##form(SHMEMD_AS_##form, dest, source, nelems); \
    }
#define SHMEMD_REDUCE_NAMED_OF(NAME, T, op, ...) \
    SHMEMD_REDUCE_FORM_OF(NAME, T, op, block)    \
    SHMEMD_REDUCE_FORM_OF(NAME, T, op, grid)     \
    SHMEMD_REDUCE_FORM_OF(NAME, T, op, group)
#define SHMEMD_REDUCE_TYPE_OF(NAME, T, op, ...) SHMEMD_REDUCE_NAMED_OF(_##NAME, T, op, )
#define SHMEMD_REDUCE_OF_LOGIC(op) SHMEM_LOGIC_DISTINCT(SHMEMD_REDUCE_NAMED_OF, op, )
#define SHMEMD_REDUCE_OF_MINMAX(op)                                    \
    SHMEM_DISTINCT_TYPES(SHMEM_IF_DEVICE, SHMEMD_REDUCE_TYPE_OF, op, ) \
    SHMEM_DEVICE_HALF_TYPES(SHMEMD_REDUCE_TYPE_OF, op, )
#define SHMEMD_REDUCE_OF_SUM(op)                             \
    SHMEMD_REDUCE_OF_MINMAX(op)                              \
    SHMEMD_REDUCE_TYPE_OF(complexf, shmemd_complexf_t, op, ) \
    SHMEMD_REDUCE_TYPE_OF(complexd, shmemd_complexd_t, op, )
#define SHMEMD_REDUCE_OF(op, old, TABLE, ...) SHMEMD_REDUCE_OF_##TABLE(op)
SHMEM_REDUCE_OPS(SHMEMD_REDUCE_OF, )
#define SHMEMD_REDUCE_LOC_OF(NAME)                                      \
    SHMEMD_REDUCE_TYPE_OF(NAME, shmemd_##NAME##_loc_t, maxloc_reduce, ) \
    SHMEMD_REDUCE_TYPE_OF(NAME, shmemd_##NAME##_loc_t, minloc_reduce, )
SHMEMD_REDUCE_LOC_OF(float)
SHMEMD_REDUCE_LOC_OF(int32)
SHMEMD_REDUCE_LOC_OF(double)
SHMEMD_REDUCE_LOC_OF(int64)
SHMEMD_REDUCE_LOC_OF(double2)
} // namespace named

template <class G> PRIM_FN int barrier(shmemd_t h, G group) { return named::barrier(h, among(group)); }
template <class G> PRIM_FN int sync(shmemd_t h, G group) { return named::sync(h, among(group)); }
template <class T, class G> PRIM_FN int broadcast(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems, int root)
{
    SHMEMD_NEEDS_MOVES(T);
    return named::broadcast(h, among(group), dest, source, nelems * sizeof(A), root);
}
template <class T, class G> PRIM_FN int fcollect(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems)
{
    SHMEMD_NEEDS_MOVES(T);
    return named::fcollect(h, among(group), dest, source, nelems * sizeof(A));
}
template <class T, class G> PRIM_FN int alltoall(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems)
{
    SHMEMD_NEEDS_MOVES(T);
    return named::alltoall(h, among(group), dest, source, nelems * sizeof(A));
}
template <class T, class G> PRIM_FN int permute(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems, int to, int from)
{
    SHMEMD_NEEDS_MOVES(T);
    return named::permute(h, among(group), dest, source, nelems * sizeof(A), to, from);
}
// Its groups.
template <class G> struct meets {
    enum { yes = 0 };
    typedef block_group group;
};
template <> struct meets<block_group> {
    enum { yes = 1 };
    typedef block_group group;
};
template <> struct meets<grid_group> {
    enum { yes = 1 };
    typedef grid_group group;
};
template <class T, class G>
PRIM_FN int alltoallv(shmemd_t h, G, T *dest, const size_t *dest_nelems, const size_t *dest_displs,
                      const typename same<T>::as *source, const size_t *source_nelems, const size_t *source_displs)
{
    static_assert(meets<G>::yes, "alltoallv is made by a block or a grid: shmemd::block() or shmemd::grid()");
    SHMEMD_NEEDS_MOVES(T);
    isod_vector w = isod_vector_of(dest, source, sizeof(A));
    w.dest_nelems = dest_nelems;
    w.dest_displs = dest_displs;
    w.source_nelems = source_nelems;
    w.source_displs = source_displs;
    return named::alltoallv(h, typename meets<G>::group(), w);
}
#define SHMEMD_NEEDS_LOGIC(T) SHMEMD_NEEDS(logic, T, 0, "reductions and, or, xor: of integers only, as in shmem.h")
#define SHMEMD_NEEDS_MINMAX(T) \
    SHMEMD_NEEDS(minmax, T, 0, \
                 "reductions min and max: of real numbers of the tables; fp8 and complex have none in kernels")
#define SHMEMD_NEEDS_SUM(T) \
    SHMEMD_NEEDS(sum, T, 0, "reductions sum and prod: of types of the tables; fp8 has none in kernels")
#define SHMEMD_REDUCE_CALL(op, old, TABLE, ...)                                                            \
    template <class T, class G> PRIM_FN int op(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems)          \
    {                                                                                                      \
        SHMEMD_NEEDS_##TABLE(T);                                                                           \
        return named::op(h, among(group), (A *)dest, (const A *)source, nelems);                           \
    }                                                                                                      \
    template <class T, class G> PRIM_FN int op##scatter(shmemd_t h, G group, SHMEMD_SOURCE, size_t nelems) \
    {                                                                                                      \
        SHMEMD_NEEDS_##TABLE(T);                                                                           \
        return named::op##scatter(h, among(group), (A *)dest, (const A *)source, nelems);                  \
    }
#define SHMEMD_NEEDS_LOC(T) \
    SHMEMD_NEEDS(loc, T, 0, "maxloc and minloc: of shmemd_float_loc_t, int32, double, int64 and double2 only")
SHMEM_REDUCE_OPS(SHMEMD_REDUCE_CALL, )
SHMEMD_REDUCE_CALL(maxloc_reduce, , LOC, )
SHMEMD_REDUCE_CALL(minloc_reduce, , LOC, )

// ---- threads of one PE: shmem_device_local.h ----

template <class G> PRIM_FN unsigned rank(G group) { return shmemd_group_rank(group_of(group)); }
template <class G> PRIM_FN unsigned size(G group) { return shmemd_group_size(group_of(group)); }
template <class G> PRIM_FN void group_sync(G group) { shmemd_group_sync(group_of(group)); }
template <class G> PRIM_FN bool any(G group, bool p) { return shmemd_group_any(group_of(group), p) != 0; }
template <class G> PRIM_FN bool all(G group, bool p) { return shmemd_group_all(group_of(group), p) != 0; }
PRIM_FN uint64_t ballot(bool p) { return shmemd_wave_ballot(p); }
// Of arithmetic types of 4 and 8 bytes. _up and _down: a thread whose partner is outside of the wave gets its own
// value.
template <class T> PRIM_FN T shuffle(T value, unsigned thread)
{
    SHMEMD_NEEDS_EXT(T);
    return bits_as<T>(named::shuffle(bits_as<A>(value), thread));
}
template <class T> PRIM_FN T shuffle_xor(T value, unsigned mask)
{
    unsigned me = rank(wave()), other = me ^ mask;
    return shuffle(value, other < size(wave()) ? other : me);
}
template <class T> PRIM_FN T shuffle_up(T value, unsigned step)
{
    unsigned me = rank(wave());
    return shuffle(value, me >= step ? me - step : me);
}
template <class T> PRIM_FN T shuffle_down(T value, unsigned step)
{
    unsigned me = rank(wave());
    return shuffle(value, step < size(wave()) - me ? me + step : me);
}
template <class T> PRIM_FN T local_load(const T *at, int order, int scope)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::local_load((const A *)at, order, scope));
}
template <class T> PRIM_FN void local_store(T *at, SHMEMD_VALUE, int order, int scope)
{
    SHMEMD_NEEDS_AMO(T);
    named::local_store((A *)at, bits_as<A>(value), order, scope);
}
template <class T> PRIM_FN T local_fetch_add(T *at, SHMEMD_VALUE, int order, int scope)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::local_fetch_add((A *)at, bits_as<A>(value), order, scope));
}
template <class T> PRIM_FN T local_swap(T *at, SHMEMD_VALUE, int order, int scope)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::local_swap((A *)at, bits_as<A>(value), order, scope));
}
template <class T> PRIM_FN T local_compare_swap(T *at, typename same<T>::as cond, SHMEMD_VALUE, int order, int scope)
{
    SHMEMD_NEEDS_AMO(T);
    return bits_as<T>(named::local_compare_swap((A *)at, bits_as<A>(cond), bits_as<A>(value), order, scope));
}

} // namespace shmemd

// ---- kernels ----

// Begins a kernel in C++: SHMEMD_GLOBAL void name(arguments) { body }. It may be a template and may stand in a
// namespace. Arguments are copied as bytes. _BOUNDED as of SHMEMD_KERNEL_BOUNDED.
#define SHMEMD_GLOBAL PRIM_GLOBAL
#define SHMEMD_GLOBAL_BOUNDED(threads) PRIM_GLOBAL_BOUNDED(threads)

#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__)
#include "../device/api/launch.hpp"
#endif

#endif
