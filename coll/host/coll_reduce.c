/* SPDX-License-Identifier: MIT */
/* Reductions and scans: shmem_TYPE_OP_reduce, shmem_TYPE_sum_inscan and _exscan on teams (sections 9.10.9, 9.10.10),
 * and the deprecated shmem_TYPE_OP_to_all on active sets. All are stamped from shmem_types.h, one line each; what a
 * type looks like in memory chooses its kernels (reduce_op.h), the schedules are in reduce.h and scan.h. Invariant: all
 * members come here with equal numbers of elements of equal types. */
#include "../call/kinds.h"
#include "coll.h"
#include "reduce_op.h"

/* A call as the user made it. */
struct typed_reduction {
    void *dest;
    const void *source;
    size_t nelems;
    const struct reduce_kernels *kernels;
    const char *call;
};

/* float compares exactly: -1 becomes 255 or more in an unsigned type. */
#define IS_SIGNED(TYPE) ((float)(TYPE)-1 == -1.0f)
#define INTEGER_KERNELS(TYPE) reduce_integers[IS_SIGNED(TYPE)][sizeof(TYPE) % 9]
/* clang-format off */
#define KERNELS_OF(TYPE)                                                                                               \
    _Generic((TYPE)0,                                                                                                  \
        float: &reduce_f32, double: &reduce_f64, long double: &reduce_fmax,                                            \
        SHMEM_COMPLEX(float): &reduce_c32, SHMEM_COMPLEX(double): &reduce_c64,                                         \
        default: INTEGER_KERNELS(TYPE))
/* A real type without kernels is refused: only integers cut 0.5 to 0. Reductions in kernels have the same types. */
#define CHECK_KERNELS(NAME, TYPE, ...)                                                                                 \
    _Static_assert(_Generic((TYPE)0,                                                                                   \
                       float: 1, double: 1, long double: 1, SHMEM_COMPLEX(float): 1, SHMEM_COMPLEX(double): 1,         \
                       default: (TYPE)0.5 == 0 && sizeof(TYPE) <= 8), "no reduction kernels for the type " #NAME);
SHMEM_SUM_TYPES(CHECK_KERNELS, )
/* clang-format on */

coll_combine_fn *iso_reduce_combine(int type, int op)
{
#define KERNELS(type, elem, host, ...) [type] = &reduce_##host,
#define OPERATOR(op, name, ...) [op] = OP_##name,
    static const struct reduce_kernels *const of_type[] = {CALL_TYPES(KERNELS)};
    static const enum reduce_op of_op[] = {CALL_OPS(OPERATOR)};
    return of_type[type]->apply[CALL_IS_OR(type, op) ? OP_or_reduce : of_op[op]];
}

static struct coll_work reduce_work_of(const struct typed_reduction *r, enum reduce_op op)
{
    struct coll_work w = {.nelems = r->nelems, .elem_bytes = r->kernels->elem_bytes, .combine = r->kernels->apply[op]};
    w.exact = r->kernels != &reduce_f32 && r->kernels != &reduce_f64 && r->kernels != &reduce_fmax &&
              r->kernels != &reduce_c32 && r->kernels != &reduce_c64; /* integers wrap: the order does not matter */
    w.bytes = iso_coll_bytes(r->nelems, w.elem_bytes, 1);
    w.dest = iso_coll_mem(r->dest, w.bytes, "dest", r->call);
    w.source = iso_coll_mem(r->source, w.bytes, "source", r->call);
    /* The same array or disjoint: schedules write parts of dest while other parts of source are needed. */
    const char *dest = (const char *)r->dest, *source = (const char *)r->source;
    if (ISO_CHECKS && dest != source && dest < source + w.bytes && source < dest + w.bytes)
        iso_fatal(r->call,
                  "dest %p and source %p overlap in part of their %zu bytes; they must be the same or disjoint",
                  r->dest, r->source, w.bytes);
    return w;
}

static void reduce(struct team *team, const struct typed_reduction *r, enum reduce_op op)
{
    struct coll_work w = reduce_work_of(r, op);
    if (team->n_pes > 1)
        iso_coll_run(COLL_REDUCE, team, &w, r->call);
    else if (w.bytes > 0 && w.dest.base != w.source.base)
        memcpy(w.dest.base, w.source.base, w.bytes);
}

static int reduce_team(shmem_team_t handle, const struct typed_reduction *r, enum reduce_op op)
{
    struct team *team = iso_coll_team(handle, r->call);
    if (team == NULL)
        return -1;
    reduce(team, r, op);
    return 0;
}

static int scan(struct team *team, const struct typed_reduction *r, struct coll_work w)
{
    if (team->n_pes > 1)
        iso_coll_run(COLL_SCAN, team, &w, r->call);
    else if (w.bytes > 0 && w.exclusive)
        memset(w.dest.base, 0, w.bytes);
    else if (w.bytes > 0 && w.dest.base != w.source.base)
        memcpy(w.dest.base, w.source.base, w.bytes);
    return 0;
}

static int sum_inscan(shmem_team_t handle, const struct typed_reduction *r)
{
    struct team *team = iso_coll_team(handle, r->call);
    return team != NULL ? scan(team, r, reduce_work_of(r, OP_sum_reduce)) : -1;
}

static int sum_exscan(shmem_team_t handle, const struct typed_reduction *r)
{
    struct team *team = iso_coll_team(handle, r->call);
    if (team == NULL)
        return -1;
    struct coll_work w = reduce_work_of(r, OP_sum_reduce);
    w.exclusive = true;
    return scan(team, r, w);
}

/* The arguments that only the deprecated form has. */
struct old_arguments {
    int nreduce;
    struct coll_set set;
    const void *pwrk;
};

/* pWrk is checked, and not used: members read each other's source. */
static void reduce_old(struct typed_reduction *r, const struct old_arguments *old, enum reduce_op op)
{
    struct team *team = iso_coll_active_set(old->set, r->call);
    if (ISO_CHECKS && ISO_UNLIKELY(old->nreduce < 0))
        iso_fatal(r->call, "nreduce is %d, it is 0 or more", old->nreduce);
    r->nelems = (size_t)old->nreduce;
    if (ISO_CHECKS) {
        size_t pwrk_elems = ISO_MAX(r->nelems / 2 + 1, (size_t)SHMEM_REDUCE_MIN_WRKDATA_SIZE);
        (void)iso_coll_mem(old->pwrk, pwrk_elems * r->kernels->elem_bytes, "pWrk", r->call);
    }
    reduce(team, r, op);
    iso_coll_active_set_end(team, r->call);
}

/* ---- the functions ---- */

#define TEAM_REDUCE(NAME, TYPE, OP, ...)                                                        \
    SHMEM_API(shmem_##NAME##_##OP, pshmem_##NAME##_##OP);                                       \
    int pshmem_##NAME##_##OP(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce) \
    {                                                                                           \
        struct typed_reduction r = {dest, source, nreduce, KERNELS_OF(TYPE), __func__};         \
        return reduce_team(team, &r, OP_##OP);                                                  \
    }
#define TEAM_REDUCES(OP, OLD, TABLE, ...) SHMEM_##TABLE##_TYPES(TEAM_REDUCE, OP, )
SHMEM_REDUCE_OPS(TEAM_REDUCES, )

#define TEAM_SCAN(NAME, TYPE, OP, ...)                                                         \
    SHMEM_API(shmem_##NAME##_##OP, pshmem_##NAME##_##OP);                                      \
    int pshmem_##NAME##_##OP(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems) \
    {                                                                                          \
        struct typed_reduction r = {dest, source, nelems, KERNELS_OF(TYPE), __func__};         \
        return OP(team, &r);                                                                   \
    }
#define TEAM_SCANS(OP, ...) SHMEM_SUM_TYPES(TEAM_SCAN, OP, )
SHMEM_SCAN_OPS(TEAM_SCANS, )

#define SET_REDUCE(NAME, TYPE, OP, OLD, ...)                                                                          \
    SHMEM_API(shmem_##NAME##_##OLD, pshmem_##NAME##_##OLD);                                                           \
    void pshmem_##NAME##_##OLD(TYPE *dest, const TYPE *source, int nreduce, int PE_start, int logPE_stride,           \
                               int PE_size, TYPE *pWrk, long *pSync)                                                  \
    {                                                                                                                 \
        struct typed_reduction r = {dest, source, 0, KERNELS_OF(TYPE), __func__};                                     \
        struct old_arguments old = {nreduce, {PE_start, logPE_stride, PE_size, pSync, SHMEM_REDUCE_SYNC_SIZE}, pWrk}; \
        reduce_old(&r, &old, OP_##OP);                                                                                \
    }
#define SET_REDUCES(OP, OLD, TABLE, ...) SHMEM_SET_##TABLE##_TYPES(SET_REDUCE, OP, OLD, )
SHMEM_REDUCE_OPS(SET_REDUCES, )
