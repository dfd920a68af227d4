// SPDX-License-Identifier: MIT
// What NVSHMEM's and rocSHMEM's names do in kernels and shmem_device.hpp does not: the handle of a translation unit,
// and collectives of a team by its number, which any thread, wave or block makes. Included by compat/state.h only.
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
static int take(const compat_kernels *from) { return (int)cudaMemcpyToSymbol(isomer_compat_state, from, sizeof *from); }
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

// ---- collectives: the library's, on that lane ----

// A root that is none is misuse by a block, as in the library; a thread and a wave have -1, as for a team that is none.
PRIM_FN bool tells(shmemd::block_group) { return true; }
template <class G> PRIM_FN bool tells(G) { return false; }
template <class G> PRIM_FN int broadcast(int32_t team, G group, void *dest, const void *source, size_t bytes, int root)
{
    if (!tells(group) && (root < 0 || root >= shmemd_n_pes(handle(team)))) // as all members see it
        return -1;
    return shmemd::named::broadcast(lane_of(team), shmemd::among(group), dest, source, bytes, root);
}
template <class G> PRIM_FN int fcollect(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    return shmemd::named::fcollect(lane_of(team), shmemd::among(group), dest, source, bytes);
}
template <class G> PRIM_FN int alltoall(int32_t team, G group, void *dest, const void *source, size_t bytes)
{
    return shmemd::named::alltoall(lane_of(team), shmemd::among(group), dest, source, bytes);
}
template <class T>
PRIM_FN int alltoallv(int32_t team, T *dest, const size_t *dest_nelems, const size_t *dest_displs, const T *source,
                      const size_t *source_nelems, const size_t *source_displs)
{
    return shmemd::alltoallv(lane_of(team), shmemd::block(), dest, dest_nelems, dest_displs, source, source_nelems,
                             source_displs);
}

#ifdef COMPAT_EXTERNS
#define COMPAT_REDUCE_FN PRIM_COLD_FN
#else
#define COMPAT_REDUCE_FN PRIM_FN
#endif
#define COMPAT_REDUCTION(op, ...)                                                                    \
    template <class T, class G>                                                                      \
    COMPAT_REDUCE_FN int op(int32_t team, G group, T *dest, const T *source, size_t nelems)          \
    {                                                                                                \
        return shmemd::op(lane_of(team), group, dest, source, nelems);                               \
    }                                                                                                \
    template <class T, class G>                                                                      \
    COMPAT_REDUCE_FN int op##scatter(int32_t team, G group, T *dest, const T *source, size_t nelems) \
    {                                                                                                \
        return shmemd::op##scatter(lane_of(team), group, dest, source, nelems);                      \
    }
SHMEM_REDUCE_OPS(COMPAT_REDUCTION, )
#undef COMPAT_REDUCTION

// Of pairs of doubles, a value and its location.
template <class T, class G> PRIM_FN int maxloc_reduce(int32_t team, G group, T *dest, const T *source, size_t nelems)
{
    return shmemd::maxloc_reduce(lane_of(team), group, (shmemd_double2_loc_t *)dest,
                                 (const shmemd_double2_loc_t *)source, nelems);
}

} // namespace compat

#endif
