// SPDX-License-Identifier: MIT
// What NVSHMEM's and rocSHMEM's names do in kernels and shmem_device.hpp does not: the handle of a translation unit,
// barriers of a team that any thread, wave or block makes, and collectives by a thread or a wave. Included by
// compat/state.h only.
#ifndef COMPAT_KERNELS_HPP
#define COMPAT_KERNELS_HPP

// The state of a module, which the host fills by this name: COMPAT_SYMBOL. With -rdc=true each file of a program has
// one, and modules have no such name.
#ifndef PRIM_CALLS_GLOBAL
#if !defined(COMPAT_EXTERNS) && (defined(__HIP__) || defined(__CUDACC_RDC__))
static
#endif
__constant__ compat_kernels isomer_compat_state;
#elif defined(COMPAT_EXTERNS)
compat_kernels isomer_compat_state;
#endif

namespace compat
{

// ---- the handle ----

#if defined(PRIM_CALLS_GLOBAL) && !defined(COMPAT_EXTERNS)
PRIM_FN compat_kernels state() { return compat_host_state()->kernels; }
#else
PRIM_FN compat_kernels state() { return isomer_compat_state; }
#ifndef COMPAT_EXTERNS
#ifdef __HIP__
static int take(const compat_kernels *from)
{
    return (int)hipMemcpyToSymbol(HIP_SYMBOL(isomer_compat_state), from, sizeof *from, 0, hipMemcpyHostToDevice);
}
#else
static int take(const compat_kernels *from)
{
    return (int)cudaMemcpyToSymbol(isomer_compat_state, from, sizeof *from);
}
#endif
struct unit_here {
    compat_unit unit;
    unit_here()
    {
        unit.take = take;
        unit.is_filled = 0;
        unit.next = compat_host_state()->units;
        compat_host_state()->units = &unit;
    }
    ~unit_here() // of a library that is unloaded
    {
        compat_unit **at = &compat_host_state()->units;
        while (*at != nullptr && *at != &unit)
            at = &(*at)->next;
        if (*at != nullptr)
            *at = unit.next;
    }
};
static unit_here this_unit;
#endif
#endif
PRIM_FN shmemd_t world() { return state().world; }
PRIM_FN bool is_team(int32_t team)
{
    return team == COMPAT_WORLD || ((uint32_t)team < COMPAT_TEAMS && state().teams[team].n_pes != 0);
}
PRIM_FN shmemd_t handle(int32_t team)
{
    PRIM_CHECK_VALUE("a kernel's call of a team", "team", team, is_team(team), "the number of a team that is alive");
    return team == COMPAT_WORLD ? world() : state().teams[team];
}
// As on the host, -1: no such team.
PRIM_FN int my_pe(int32_t team) { return is_team(team) ? handle(team).my_pe : -1; }
PRIM_FN int n_pes(int32_t team) { return is_team(team) ? handle(team).n_pes : -1; }
PRIM_FN int translate_pe(int32_t team, int pe, int32_t other)
{
    return is_team(team) && is_team(other) ? shmemd_translate_pe(handle(team), pe, handle(other)) : -1;
}

PRIM_FN void quiet() { shmemd_quiet(world()); }

// ---- barriers: the library's, on the lane that all blocks of a team share ----

PRIM_FN shmemd_t lane_of(int32_t team) { return shmemd_lane(handle(team), 0); }

template <class G> PRIM_FN int barrier(int32_t team, G group) { return shmemd::barrier(lane_of(team), group); }
// The library's orders no memory; here others may then read what the group has stored, and write what it has read.
template <class G> PRIM_FN int sync(int32_t team, G group)
{
    shmemd_fence_group(handle(team), shmemd::group_of(group));
    return shmemd::sync(lane_of(team), group);
}

// ---- collectives: by a block those of the library, on that lane ----

PRIM_FN int broadcast(int32_t team, shmemd::block_group, void *dest, const void *source, size_t bytes, int root)
{
    return shmemd_broadcastmem_block(lane_of(team), dest, source, bytes, root);
}
PRIM_FN int fcollect(int32_t team, shmemd::block_group, void *dest, const void *source, size_t bytes)
{
    return shmemd_fcollectmem_block(lane_of(team), dest, source, bytes);
}
PRIM_FN int alltoall(int32_t team, shmemd::block_group, void *dest, const void *source, size_t bytes)
{
    return shmemd_alltoallmem_block(lane_of(team), dest, source, bytes);
}
template <class T>
PRIM_FN int alltoallv(int32_t team, T *dest, const size_t *dest_nelems, const size_t *dest_displs, const T *source,
                      const size_t *source_nelems, const size_t *source_displs)
{
    return shmemd::alltoallv(lane_of(team), shmemd::block(), dest, dest_nelems, dest_displs, source, source_nelems,
                             source_displs);
}
// By a thread or a wave: dests are free when all have entered, and complete when all are done.
template <class G>
PRIM_FN void send(shmemd_t h, G group, char *dest, const char *source, size_t bytes, int pe)
{
    if (dest != source || pe != shmemd_my_pe(h))
        shmemd_putmem_nbi_group(h, shmemd::group_of(group), dest, source, bytes, pe);
}
template <class G> PRIM_FN int broadcast(int32_t team, G group, void *dest, const void *source, size_t bytes, int root)
{
    const shmemd_t h = handle(team);
    if (root < 0 || root >= shmemd_n_pes(h)) // as all members see it
        return -1;
    int rc = sync(team, group);
    if (shmemd_my_pe(h) == root)
        for (int pe = 0; pe < shmemd_n_pes(h); pe++)
            send(h, group, (char *)dest, (const char *)source, bytes, pe);
    return rc | barrier(team, group);
}
template <class G> PRIM_FN int fcollect(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    const shmemd_t h = handle(team);
    int rc = sync(team, group);
    for (int pe = 0; pe < shmemd_n_pes(h); pe++)
        send(h, group, (char *)dest + (size_t)shmemd_my_pe(h) * bytes, (const char *)source, bytes, pe);
    return rc | barrier(team, group);
}
template <class G> PRIM_FN int alltoall(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    const shmemd_t h = handle(team);
    int rc = sync(team, group);
    for (int pe = 0; pe < shmemd_n_pes(h); pe++)
        send(h, group, (char *)dest + (size_t)shmemd_my_pe(h) * bytes, (const char *)source + (size_t)pe * bytes,
             bytes, pe);
    return rc | barrier(team, group);
}

#ifdef COMPAT_EXTERNS
#define COMPAT_REDUCE_FN PRIM_COLD_FN
#else
#define COMPAT_REDUCE_FN PRIM_FN
#endif

// ---- reductions by a thread or a wave: each thread combines elements that it gets, in the order of members ----

#define COMPAT_COMBINE(op, expression) \
    template <class T> PRIM_FN T combine_##op(T a, T b) { return (T)(expression); }
COMPAT_COMBINE(sum_reduce, a + b)
COMPAT_COMBINE(prod_reduce, a *b)
COMPAT_COMBINE(min_reduce, b < a ? b : a)
COMPAT_COMBINE(max_reduce, a < b ? b : a)
COMPAT_COMBINE(and_reduce, a &b)
COMPAT_COMBINE(or_reduce, a | b)
COMPAT_COMBINE(xor_reduce, a ^ b)
#undef COMPAT_COMBINE
// Halves are combined as floats, and rounded once.
template <class T> PRIM_FN T widen(T x) { return x; }
template <class T> PRIM_FN void narrow(T *to, T x) { *to = x; }
PRIM_FN float widen(shmemd_half_t x) { return shmemd_half_to_float(x); }
PRIM_FN float widen(shmemd_bfloat16_t x) { return shmemd_bfloat16_to_float(x); }
PRIM_FN void narrow(shmemd_half_t *to, float x) { *to = shmemd_half_from_float(x); }
PRIM_FN void narrow(shmemd_bfloat16_t *to, float x) { *to = shmemd_bfloat16_from_float(x); }
#ifdef COMPAT_CUDA
PRIM_FN float widen(__half x) { return __half2float(x); }
PRIM_FN float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
PRIM_FN void narrow(__half *to, float x) { *to = __float2half(x); }
PRIM_FN void narrow(__nv_bfloat16 *to, float x) { *to = __float2bfloat16(x); }
#endif
// Where dest is source, nobody writes an element before all have read it.
#define COMPAT_REDUCTION(op, old, TABLE, ...)                                                                           \
    template <class T> PRIM_FN T gather_##op(shmemd_t h, const T *source)                                               \
    {                                                                                                                   \
        T result;                                                                                                       \
        auto all = widen(shmemd::g(h, source, 0));                                                                      \
        for (int pe = 1; pe < shmemd_n_pes(h); pe++)                                                                    \
            all = combine_##op(all, widen(shmemd::g(h, source, pe)));                                                   \
        narrow(&result, all);                                                                                           \
        return result;                                                                                                  \
    }                                                                                                                   \
    template <class T, class G> COMPAT_REDUCE_FN int op(int32_t team, G group, T *dest, const T *source, size_t nelems) \
    {                                                                                                                   \
        const shmemd_t h = handle(team);                                                                                \
        const size_t rank = shmemd::rank(group), size = shmemd::size(group);                                            \
        int rc = sync(team, group);                                                                                     \
        for (size_t first = 0; first < nelems; first += size) {                                                         \
            T sum = T();                                                                                                \
            if (first + rank < nelems)                                                                                  \
                sum = gather_##op(h, source + first + rank);                                                            \
            if (dest == source)                                                                                         \
                rc |= sync(team, group);                                                                                \
            if (first + rank < nelems)                                                                                  \
                dest[first + rank] = sum;                                                                               \
        }                                                                                                               \
        return rc | barrier(team, group);                                                                               \
    }                                                                                                                   \
    template <class T, class G>                                                                                         \
    COMPAT_REDUCE_FN int op##scatter(int32_t team, G group, T *dest, const T *source, size_t nelems)                    \
    {                                                                                                                   \
        const shmemd_t h = handle(team);                                                                                \
        int rc = sync(team, group);                                                                                     \
        for (size_t i = shmemd::rank(group); i < nelems; i += shmemd::size(group))                                      \
            dest[i] = gather_##op(h, source + (size_t)shmemd_my_pe(h) * nelems + i);                                    \
        return rc | barrier(team, group);                                                                               \
    }                                                                                                                   \
    template <class T>                                                                                                  \
    COMPAT_REDUCE_FN int op(int32_t team, shmemd::block_group block, T *dest, const T *source, size_t nelems)           \
    {                                                                                                                   \
        return shmemd::op(lane_of(team), block, dest, source, nelems);                                                  \
    }                                                                                                                   \
    template <class T>                                                                                                  \
    COMPAT_REDUCE_FN int op##scatter(int32_t team, shmemd::block_group block, T *dest, const T *source, size_t nelems)  \
    {                                                                                                                   \
        return shmemd::op##scatter(lane_of(team), block, dest, source, nelems);                                         \
    }
SHMEM_REDUCE_OPS(COMPAT_REDUCTION, )

// Of pairs of doubles, a value and its location.
template <class T>
PRIM_FN int maxloc_reduce(int32_t team, shmemd::block_group block, T *dest, const T *source, size_t nelems)
{
    return shmemd::maxloc_reduce(lane_of(team), block, (shmemd_double2_loc_t *)dest,
                                 (const shmemd_double2_loc_t *)source, nelems);
}
template <class T>
PRIM_FN int maxloc_reduce(int32_t team, shmemd::wave_group group, T *dest, const T *source, size_t nelems)
{
    const shmemd_t h = handle(team);
    const size_t rank = shmemd::rank(group), size = shmemd::size(group);
    int rc = sync(team, group);
    for (size_t first = 0; first < nelems; first += size) {
        isod_f64x2_loc best = {0, 0}, next;
        for (int pe = 0; first + rank < nelems && pe < shmemd_n_pes(h); pe++) {
            next.value = shmemd::g(h, (const double *)(source + first + rank), pe);
            next.at = shmemd::g(h, (const double *)(source + first + rank) + 1, pe);
            best = pe == 0 ? next : isod_one_f64x2_loc(ISOD_OP_maxloc_reduce, best, next);
        }
        if (dest == source)
            rc |= sync(team, group);
        if (first + rank < nelems)
            __builtin_memcpy((void *)(dest + first + rank), (const void *)&best, sizeof best);
    }
    return rc | barrier(team, group);
}
#undef COMPAT_REDUCTION

} // namespace compat

#endif
