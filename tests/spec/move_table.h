/* SPDX-License-Identifier: MIT */
/* The collectives that move data, team-based, as rows of a table: every TYPENAME, and mem. */
#ifndef MOVE_TABLE_H
#define MOVE_TABLE_H

#include <shmem.h>
#include <shmem_types.h>

struct move {
    const char *name;
    size_t size;
    int (*broadcast)(shmem_team_t, void *, const void *, size_t, int);
    int (*collect)(shmem_team_t, void *, const void *, size_t);
    int (*fcollect)(shmem_team_t, void *, const void *, size_t);
    int (*alltoall)(shmem_team_t, void *, const void *, size_t);
    int (*alltoalls)(shmem_team_t, void *, const void *, ptrdiff_t, ptrdiff_t, size_t);
};

#define MOVE_CALLS(ID, T, BROADCAST, COLLECT, FCOLLECT, ALLTOALL, ALLTOALLS)                                        \
    static int move_broadcast_##ID(shmem_team_t team, void *dest, const void *source, size_t n, int root)           \
    {                                                                                                               \
        return shmem_##BROADCAST(team, (T *)dest, (const T *)source, n, root);                                      \
    }                                                                                                               \
    static int move_collect_##ID(shmem_team_t team, void *dest, const void *source, size_t n)                       \
    {                                                                                                               \
        return shmem_##COLLECT(team, (T *)dest, (const T *)source, n);                                              \
    }                                                                                                               \
    static int move_fcollect_##ID(shmem_team_t team, void *dest, const void *source, size_t n)                      \
    {                                                                                                               \
        return shmem_##FCOLLECT(team, (T *)dest, (const T *)source, n);                                             \
    }                                                                                                               \
    static int move_alltoall_##ID(shmem_team_t team, void *dest, const void *source, size_t n)                      \
    {                                                                                                               \
        return shmem_##ALLTOALL(team, (T *)dest, (const T *)source, n);                                             \
    }                                                                                                               \
    static int move_alltoalls_##ID(shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                                   size_t n)                                                                        \
    {                                                                                                               \
        return shmem_##ALLTOALLS(team, (T *)dest, (const T *)source, dst, sst, n);                                  \
    }
#define MOVE_TYPED(NAME, TYPE, ...) \
    MOVE_CALLS(NAME, TYPE, NAME##_broadcast, NAME##_collect, NAME##_fcollect, NAME##_alltoall, NAME##_alltoalls)
#define MOVE_ROW(ID, SIZE)                                                                                             \
    {                                                                                                                  \
#ID, SIZE, move_broadcast_##ID, move_collect_##ID, move_fcollect_##ID, move_alltoall_##ID, move_alltoalls_##ID \
    }
#define MOVE_TYPED_ROW(NAME, TYPE, ...) MOVE_ROW(NAME, sizeof(TYPE)),

SHMEM_RMA_TYPES(MOVE_TYPED, )
MOVE_CALLS(mem, void, broadcastmem, collectmem, fcollectmem, alltoallmem, alltoallsmem)

static const struct move move_table[] = {SHMEM_RMA_TYPES(MOVE_TYPED_ROW, ) MOVE_ROW(mem, 1)};
enum { MOVE_ROWS = sizeof(move_table) / sizeof(move_table[0]), MOVE_MEM = MOVE_ROWS - 1 };

#endif
