// SPDX-License-Identifier: MIT
// What NVSHMEM's and rocSHMEM's names do in kernels and shmem_device.hpp does not: the handle of a translation unit,
// barriers of a team that any thread, wave or block makes, and collectives by a thread or a wave. Included by
// compat/state.h only.
#ifndef COMPAT_KERNELS_HPP
#define COMPAT_KERNELS_HPP

namespace compat
{

// ---- the handle ----

#ifdef PRIM_CALLS_GLOBAL
PRIM_FN compat_kernels state() { return compat_host_state()->kernels; }
#else
static __constant__ compat_kernels unit_state;
PRIM_FN compat_kernels state() { return unit_state; }
#ifdef __HIP__
static int take(const compat_kernels *from)
{
    return (int)hipMemcpyToSymbol(HIP_SYMBOL(unit_state), from, sizeof *from, 0, hipMemcpyHostToDevice);
}
#else
static int take(const compat_kernels *from) { return (int)cudaMemcpyToSymbol(unit_state, from, sizeof *from); }
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
PRIM_FN shmemd_t world() { return state().world; }
PRIM_FN compat_team team_of(int32_t team) { return state().teams[team]; }
PRIM_FN shmemd_t handle(int32_t team) { return team == COMPAT_WORLD ? world() : team_of(team).h; }

PRIM_FN void quiet() { shmemd_quiet(world()); }

// ---- barriers ----
// Each member has a word at each member: the number of barriers that it has entered. Threads of the group share the
// members out. The word is stored behind a fence or quiet of the group, and pairs with the wait there.
template <class G> PRIM_FN int agree(const compat_team &t, G group, bool completes)
{
    const shmemd_group_t g = shmemd::group_of(group);
    const unsigned rank = shmemd_group_rank(g), size = shmemd_group_size(g), n = (unsigned)shmemd_n_pes(t.h);
    shmemd_group_sync(g);
    if (completes)
        shmemd_quiet_group(t.h, g);
    else
        shmemd_fence_group(t.h, g);
    uint64_t epoch = 0;
    if (rank == 0)
        epoch = shmemd_uint64_local_fetch_add(t.epoch, 1, SHMEMD_ACQ_REL, SHMEMD_SCOPE_DEVICE) + 1;
    epoch = shmemd_group_broadcast(g, epoch);
    for (unsigned pe = rank; pe < n; pe += size)
        shmemd_signal_op(t.h, t.epochs + shmemd_my_pe(t.h), epoch, SHMEM_SIGNAL_SET, (int)pe);
    for (unsigned pe = rank; pe < n; pe += size)
        (void)shmemd_signal_wait_until(t.h, t.epochs + pe, SHMEM_CMP_GE, epoch);
    shmemd_group_sync(g);
    return isod_is_dead(t.h) ? 1 : 0;
}
template <class G> PRIM_FN int barrier(int32_t team, G group) { return agree(team_of(team), group, true); }
template <class G> PRIM_FN int sync(int32_t team, G group) { return agree(team_of(team), group, false); }

// ---- collectives: by a block those of the library, on the lane that all blocks of a team share ----

PRIM_FN shmemd_t lane_of(int32_t team) { return shmemd_lane(handle(team), 0); }

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
PRIM_FN void send(const compat_team &t, G group, char *dest, const char *source, size_t bytes, int pe)
{
    if (dest != source || pe != shmemd_my_pe(t.h))
        shmemd_putmem_nbi_group(t.h, shmemd::group_of(group), dest, source, bytes, pe);
}
template <class G> PRIM_FN int broadcast(int32_t team, G group, void *dest, const void *source, size_t bytes, int root)
{
    const compat_team t = team_of(team);
    int rc = agree(t, group, false);
    if (shmemd_my_pe(t.h) == root)
        for (int pe = 0; pe < shmemd_n_pes(t.h); pe++)
            send(t, group, (char *)dest, (const char *)source, bytes, pe);
    return rc | agree(t, group, true);
}
template <class G> PRIM_FN int fcollect(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    const compat_team t = team_of(team);
    int rc = agree(t, group, false);
    for (int pe = 0; pe < shmemd_n_pes(t.h); pe++)
        send(t, group, (char *)dest + (size_t)shmemd_my_pe(t.h) * bytes, (const char *)source, bytes, pe);
    return rc | agree(t, group, true);
}
template <class G> PRIM_FN int alltoall(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    const compat_team t = team_of(team);
    int rc = agree(t, group, false);
    for (int pe = 0; pe < shmemd_n_pes(t.h); pe++)
        send(t, group, (char *)dest + (size_t)shmemd_my_pe(t.h) * bytes, (const char *)source + (size_t)pe * bytes,
             bytes, pe);
    return rc | agree(t, group, true);
}

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
// Where dest is source, nobody writes an element before all have read it.
#define COMPAT_REDUCTION(op, old, TABLE, ...)                                                                  \
    template <class T> PRIM_FN T gather_##op(shmemd_t h, const T *source)                                      \
    {                                                                                                          \
        T sum = shmemd::g(h, source, 0);                                                                       \
        for (int pe = 1; pe < shmemd_n_pes(h); pe++)                                                           \
            sum = combine_##op(sum, shmemd::g(h, source, pe));                                                 \
        return sum;                                                                                            \
    }                                                                                                          \
    template <class T, class G> PRIM_FN int op(int32_t team, G group, T *dest, const T *source, size_t nelems) \
    {                                                                                                          \
        const compat_team t = team_of(team);                                                                   \
        const size_t rank = shmemd::rank(group), size = shmemd::size(group);                                   \
        int rc = agree(t, group, false);                                                                       \
        for (size_t first = 0; first < nelems; first += size) {                                                \
            T sum = T();                                                                                       \
            if (first + rank < nelems)                                                                         \
                sum = gather_##op(t.h, source + first + rank);                                                 \
            if (dest == source)                                                                                \
                rc |= agree(t, group, false);                                                                  \
            if (first + rank < nelems)                                                                         \
                dest[first + rank] = sum;                                                                      \
        }                                                                                                      \
        return rc | agree(t, group, true);                                                                     \
    }                                                                                                          \
    template <class T, class G>                                                                                \
    PRIM_FN int op##scatter(int32_t team, G group, T *dest, const T *source, size_t nelems)                    \
    {                                                                                                          \
        const compat_team t = team_of(team);                                                                   \
        int rc = agree(t, group, false);                                                                       \
        for (size_t i = shmemd::rank(group); i < nelems; i += shmemd::size(group))                             \
            dest[i] = gather_##op(t.h, source + (size_t)shmemd_my_pe(t.h) * nelems + i);                       \
        return rc | agree(t, group, true);                                                                     \
    }                                                                                                          \
    template <class T>                                                                                         \
    PRIM_FN int op(int32_t team, shmemd::block_group block, T *dest, const T *source, size_t nelems)           \
    {                                                                                                          \
        return shmemd::op(lane_of(team), block, dest, source, nelems);                                         \
    }                                                                                                          \
    template <class T>                                                                                         \
    PRIM_FN int op##scatter(int32_t team, shmemd::block_group block, T *dest, const T *source, size_t nelems)  \
    {                                                                                                          \
        return shmemd::op##scatter(lane_of(team), block, dest, source, nelems);                                \
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
    const compat_team t = team_of(team);
    const size_t rank = shmemd::rank(group), size = shmemd::size(group);
    int rc = agree(t, group, false);
    for (size_t first = 0; first < nelems; first += size) {
        isod_f64x2_loc best = {0, 0}, next;
        for (int pe = 0; first + rank < nelems && pe < shmemd_n_pes(t.h); pe++) {
            next.value = shmemd::g(t.h, (const double *)(source + first + rank), pe);
            next.at = shmemd::g(t.h, (const double *)(source + first + rank) + 1, pe);
            best = pe == 0 ? next : isod_one_f64x2_loc(ISOD_OP_maxloc_reduce, best, next);
        }
        if (dest == source)
            rc |= agree(t, group, false);
        if (first + rank < nelems)
            __builtin_memcpy((void *)(dest + first + rank), (const void *)&best, sizeof best);
    }
    return rc | agree(t, group, true);
}
#undef COMPAT_REDUCTION

} // namespace compat

#endif
