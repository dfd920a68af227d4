/* SPDX-License-Identifier: MIT */
/* Teams, and the sequence of collectives (slot) that each of them owns. */
#ifndef ISO_TEAM_H
#define ISO_TEAM_H

#include "../../include/shmem.h"
#include "../state/base.h"

struct team;
struct slot_end;
struct slot_nodes;
struct slot {
    int index;       /* in the control area at the front of every PE's heap; -1: none (team of one PE) */
    int n_pes;       /* members */
    uint64_t seq;    /* steps done; a step's flag value; equal on all members between calls */
    uint64_t staged; /* staged steps done; its parity chooses the bank */
    uint64_t timeout_ns; /* of waits in its calls, atomic; 0: as SHMEM_TIMEOUT says */
    char *memory;    /* this PE's part of the slot */
    struct slot_end *end;  /* slot.h; NULL: a team of one PE */
    char *central;   /* the leader's part; NULL: not all members reach each other by pointer (alike on all of them) */
    struct slot_nodes *nodes;                             /* slot.h; NULL: one node (alike on all of them) */
    struct slot_view *views;                              /* [n_pes of the team], slot.h */
    uint64_t calls; /* recorded by flight.h; begins at seq, so that no user of the slot repeats an earlier number */
    void (*barrier)(struct team *team, const char *call); /* the algorithm in force, chosen by the first barrier */
    const struct slot *of; /* of a first call (agree.h): the team's slot, whose end ends this one; else NULL */
};

struct team {
    shmem_team_t handle;
    int my_pe; /* -1 never: a PE has only teams that it belongs to */
    int n_pes;
    int start, stride; /* world_of[i] == start + i * stride, or stride == 0 && n_pes > 1: irregular (SHARED) */
    int *world_of;     /* [n_pes] */
    shmem_team_config_t config;
    struct slot slot;
    bool masks_deaths; /* in kernels; atomic */
    uint64_t splits;   /* splits of this team so far; part of the key of a new slot */
    int contexts_made; /* live contexts of this team, to destroy with it */
    struct team *next_free; /* of a free place */
};

#define ISO_TIMEOUT_NEVER UINT64_MAX /* as slot->timeout_ns */

struct team *iso_team(shmem_team_t handle, const char *call); /* fatal when invalid */
struct team *iso_team_or_null(shmem_team_t handle);           /* NULL when invalid */
int iso_team_pe(const struct team *team, int world_pe);       /* its number in the team; -1: it is no member */
shmem_team_t iso_team_at(int index); /* the team in that place; SHMEM_TEAM_INVALID: there is none any more */
int iso_team_start(void); /* world and shared */
void iso_team_stop(void);

/* All members have arrived. No quiet. 0, or -EIO in a call that returns errors: the job is broken, and they have not.
 * (barrier.c) */
int iso_barrier_sync(struct team *team, const char *call);

#endif
