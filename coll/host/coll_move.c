/* SPDX-License-Identifier: MIT */
/* Broadcast, collect, fcollect, alltoall, alltoalls (sections 9.10.5 to 9.10.8): the typed and mem forms on teams and
 * the deprecated 32 and 64 bit forms on active sets. All are stamped from shmem_types.h; each becomes a struct
 * typed_move and goes through one function per operation, which checks it and runs the schedule in force. */
#include "coll.h"

/* A call as the user made it. */
struct typed_move {
    const char *call;
    void *dest;
    const void *source;
    size_t nelems, elem_bytes;
    ptrdiff_t dst, sst; /* alltoalls */
    int root;           /* broadcast */
    bool root_dest;
};

typedef void move_fn(struct team *team, const struct typed_move *m);

static struct coll_work work_of(const struct typed_move *m)
{
    struct coll_work w = {.nelems = m->nelems, .elem_bytes = m->elem_bytes, .root = m->root};
    w.bytes = iso_coll_bytes(m->nelems, m->elem_bytes, 1);
    w.root_dest = m->root_dest;
    w.dst = m->dst;
    w.sst = m->sst;
    return w;
}

/* dest and source, of so many bytes each. */
static void set_memory(struct coll_work *w, const struct typed_move *m, size_t dest_bytes, size_t source_bytes)
{
    w->dest = iso_coll_mem(m->dest, dest_bytes, "dest", m->call);
    w->source = iso_coll_mem(m->source, source_bytes, "source", m->call);
    if (ISO_LIKELY(!ISO->debug) || m->dst > 1 || m->sst > 1 || dest_bytes == 0 || source_bytes == 0)
        return; /* strided ranges may lie between each other, so only dense ones are looked at */
    uintptr_t dest = (uintptr_t)m->dest, source = (uintptr_t)m->source;
    if (dest < source + source_bytes && source < dest + dest_bytes)
        iso_fatal(m->call, "dest %p (%zu bytes) and source %p (%zu bytes) overlap", m->dest, dest_bytes, m->source,
                  source_bytes);
}

static void broadcast(struct team *team, const struct typed_move *m)
{
    if (ISO_CHECKS && ISO_UNLIKELY((unsigned)m->root >= (unsigned)team->n_pes))
        iso_fatal(m->call, "PE_root %d is outside 0..%d", m->root, team->n_pes - 1);
    struct coll_work w = work_of(m);
    set_memory(&w, m, w.bytes, w.bytes);
    iso_coll_run(COLL_BROADCAST, team, &w, m->call);
}

/* The length of dest is known only when all members have told theirs: the schedule checks it then. */
static void collect(struct team *team, const struct typed_move *m)
{
    struct coll_work w = work_of(m);
    set_memory(&w, m, w.bytes, w.bytes);
    iso_coll_run(COLL_COLLECT, team, &w, m->call);
}

static void fcollect(struct team *team, const struct typed_move *m)
{
    struct coll_work w = work_of(m);
    set_memory(&w, m, iso_coll_bytes(w.bytes, (size_t)team->n_pes, 1), w.bytes);
    iso_coll_run(COLL_FCOLLECT, team, &w, m->call);
}

static void alltoall(struct team *team, const struct typed_move *m)
{
    struct coll_work w = work_of(m);
    size_t all = iso_coll_bytes(w.bytes, (size_t)team->n_pes, 1);
    set_memory(&w, m, all, all);
    iso_coll_run(COLL_ALLTOALL, team, &w, m->call);
}

/* Bytes from the first to behind the last of `nelems` elements. */
static size_t extent(size_t nelems, ptrdiff_t stride, size_t elem_bytes)
{
    if (nelems == 0)
        return 0;
    size_t bytes = iso_coll_bytes(nelems - 1, (size_t)stride, elem_bytes);
    return bytes > SIZE_MAX - elem_bytes ? SIZE_MAX : bytes + elem_bytes;
}

static void alltoalls(struct team *team, const struct typed_move *m)
{
    if (ISO_CHECKS && ISO_UNLIKELY(m->dst < 1))
        iso_fatal(m->call, "dst %td is outside 1..%td", m->dst, PTRDIFF_MAX);
    if (ISO_CHECKS && ISO_UNLIKELY(m->sst < 1))
        iso_fatal(m->call, "sst %td is outside 1..%td", m->sst, PTRDIFF_MAX);
    struct coll_work w = work_of(m);
    size_t all = iso_coll_bytes(m->nelems, (size_t)team->n_pes, 1);
    set_memory(&w, m, extent(all, m->dst, m->elem_bytes), extent(all, m->sst, m->elem_bytes));
    bool dense = m->dst == 1 && m->sst == 1; /* the strides are equal on all members */
    iso_coll_run(dense ? COLL_ALLTOALL : COLL_ALLTOALLS, team, &w, m->call);
}

/* ---- teams ---- */

static int on_team(shmem_team_t handle, move_fn *run, const struct typed_move *m)
{
    struct team *team = iso_coll_team(handle, m->call);
    if (ISO_UNLIKELY(team == NULL))
        return -1;
    run(team, m);
    return 0;
}

#define TEAM_MOVE(NAME, TYPE, BYTES, run)                                                           \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                         \
    int pshmem_##NAME(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)             \
    {                                                                                               \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems}; \
        m.elem_bytes = BYTES;                                                                       \
        return on_team(team, run, &m);                                                              \
    }
#define TEAM_BROADCAST(NAME, TYPE, BYTES)                                                            \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                          \
    int pshmem_##NAME(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root) \
    {                                                                                                \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems};  \
        m.elem_bytes = BYTES;                                                                        \
        m.root = PE_root;                                                                            \
        m.root_dest = true;                                                                          \
        return on_team(team, broadcast, &m);                                                         \
    }
#define TEAM_ALLTOALLS(NAME, TYPE, BYTES)                                                                             \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                                           \
    int pshmem_##NAME(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems) \
    {                                                                                                                 \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems};                   \
        m.elem_bytes = BYTES;                                                                                         \
        m.dst = dst;                                                                                                  \
        m.sst = sst;                                                                                                  \
        return on_team(team, alltoalls, &m);                                                                          \
    }

#define TEAM_MOVES(NAME, TYPE, ...)                          \
    TEAM_BROADCAST(NAME##_broadcast, TYPE, sizeof(TYPE))     \
    TEAM_MOVE(NAME##_collect, TYPE, sizeof(TYPE), collect)   \
    TEAM_MOVE(NAME##_fcollect, TYPE, sizeof(TYPE), fcollect) \
    TEAM_MOVE(NAME##_alltoall, TYPE, sizeof(TYPE), alltoall) \
    TEAM_ALLTOALLS(NAME##_alltoalls, TYPE, sizeof(TYPE))
SHMEM_RMA_TYPES(TEAM_MOVES, )

TEAM_BROADCAST(broadcastmem, void, 1)
TEAM_MOVE(collectmem, void, 1, collect)
TEAM_MOVE(fcollectmem, void, 1, fcollect)
TEAM_MOVE(alltoallmem, void, 1, alltoall)
TEAM_ALLTOALLS(alltoallsmem, void, 1)

/* ---- active sets (deprecated) ---- */

static void on_set(struct coll_set set, move_fn *run, const struct typed_move *m)
{
    struct team *team = iso_coll_active_set(set, m->call);
    run(team, m);
    iso_coll_active_set_end(team, m->call);
}

#define SET_ARGUMENTS int PE_start, int logPE_stride, int PE_size, long *pSync
#define SET_OF(SYNC_SIZE) ((struct coll_set){PE_start, logPE_stride, PE_size, pSync, SYNC_SIZE})

#define SET_MOVE(NAME, BYTES, run, SYNC_SIZE)                                                       \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                         \
    void pshmem_##NAME(void *dest, const void *source, size_t nelems, SET_ARGUMENTS)                \
    {                                                                                               \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems}; \
        m.elem_bytes = BYTES;                                                                       \
        on_set(SET_OF(SYNC_SIZE), run, &m);                                                         \
    }
#define SET_BROADCAST(NAME, BYTES)                                                                  \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                         \
    void pshmem_##NAME(void *dest, const void *source, size_t nelems, int PE_root, SET_ARGUMENTS)   \
    {                                                                                               \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems}; \
        m.elem_bytes = BYTES;                                                                       \
        m.root = PE_root;                                                                           \
        on_set(SET_OF(SHMEM_BCAST_SYNC_SIZE), broadcast, &m);                                       \
    }
#define SET_ALLTOALLS(NAME, BYTES)                                                                                 \
    SHMEM_API(shmem_##NAME, pshmem_##NAME);                                                                        \
    void pshmem_##NAME(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, SET_ARGUMENTS) \
    {                                                                                                              \
        struct typed_move m = {.call = __func__, .dest = dest, .source = source, .nelems = nelems};                \
        m.elem_bytes = BYTES;                                                                                      \
        m.dst = dst;                                                                                               \
        m.sst = sst;                                                                                               \
        on_set(SET_OF(SHMEM_ALLTOALLS_SYNC_SIZE), alltoalls, &m);                                                  \
    }

#define SET_MOVES(BITS, BYTES, ...)                                     \
    SET_BROADCAST(broadcast##BITS, BYTES)                               \
    SET_MOVE(collect##BITS, BYTES, collect, SHMEM_COLLECT_SYNC_SIZE)    \
    SET_MOVE(fcollect##BITS, BYTES, fcollect, SHMEM_COLLECT_SYNC_SIZE)  \
    SET_MOVE(alltoall##BITS, BYTES, alltoall, SHMEM_ALLTOALL_SYNC_SIZE) \
    SET_ALLTOALLS(alltoalls##BITS, BYTES)
SHMEM_SET_SIZES(SET_MOVES, )
