/* SPDX-License-Identifier: MIT */
/* The teams that every collective is tried on. A PE that is not a member has SHMEM_TEAM_INVALID there. Teams of equal
 * index overlap nowhere, so all PEs can go through the list together, with a barrier behind each that reuses buffers.
 */
#ifndef TEAM_SET_H
#define TEAM_SET_H

#include "../check.h"

enum { TEAMS = 8 };

struct team_set {
    shmem_team_t teams[TEAMS];
};

static const char *const team_names[TEAMS] = {"world", "shared",  "odd PEs",    "reversed",
                                              "rows",  "columns", "each alone", "all but PE 0, backwards"};

static inline struct team_set team_set_make(void)
{
    struct team_set set;
    int npes = shmem_n_pes();
    for (int i = 0; i < TEAMS; i++)
        set.teams[i] = SHMEM_TEAM_INVALID;
    set.teams[0] = SHMEM_TEAM_WORLD;
    set.teams[1] = SHMEM_TEAM_SHARED;
    if (npes > 1) {
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0, &set.teams[2]), 0);
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes - 1, NULL, 0, &set.teams[7]), 0);
    }
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &set.teams[3]), 0);
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, NULL, 0, &set.teams[4], NULL, 0, &set.teams[5]), 0);
    shmem_team_t row = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &set.teams[6], NULL, 0, &row), 0);
    shmem_team_destroy(row);
    return set;
}

static inline void team_set_destroy(struct team_set *set)
{
    shmem_barrier_all();
    for (int i = 2; i < TEAMS; i++)
        shmem_team_destroy(set->teams[i]);
}

static inline int team_world_pe(shmem_team_t team, int pe)
{
    return shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD);
}

#endif
