/* SPDX-License-Identifier: MIT */
/* What NVSHMEM's and rocSHMEM's names share on the host: the state of a PE, teams by number, start and end. Included by
 * compat/nvshmem.h and compat/rocshmem/rocshmem.hpp only. With COMPAT_EXTERNS (device/nvshmem_externs.cpp) there is no
 * host code, and the names of kernels are C functions that other tool chains link. */
#ifndef COMPAT_STATE_H
#define COMPAT_STATE_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef COMPAT_EXTERNS
#include "../shmem.h"
#include "../shmemx.h"
#endif
#define ISOD_OWN_BY_ANY_ADDRESS /* NVSHMEM's programs put to themselves in memory that is not symmetric */
#ifdef __cplusplus
#include "../shmem_device.hpp"
#else
#include "../shmem_device.h"
#endif

/* Teams are numbers, for kernels too. COMPAT_NODE is the last that is always there. */
enum { COMPAT_WORLD = 0, COMPAT_SHARED = 1, COMPAT_NODE = 2, COMPAT_TEAMS = 256, COMPAT_ROOM = 256 << 20 };

/* What kernels read; in a module that the program itself loads, under this name. */
#define COMPAT_SYMBOL "isomer_compat_state"
struct compat_kernels {
    shmemd_t *teams; /* [COMPAT_TEAMS] in device memory; all 0: no such team */
    shmemd_t world;
};

#ifndef COMPAT_EXTERNS

/* A translation unit with kernels: how it takes the state. */
struct compat_unit {
    int (*take)(const struct compat_kernels *state); /* 0, or the vendor's error */
    struct compat_unit *next;
    int is_filled;
};
struct compat_host {
    const char *name;                 /* of the call that has started the library */
    int uses;                         /* init and finalize in pairs */
    shmem_team_t teams[COMPAT_TEAMS]; /* SHMEM_TEAM_INVALID: no such team */
    struct compat_kernels kernels;
    struct compat_unit *units;
};
/* One for all translation units of a program. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((weak)) struct compat_host *compat_host_state(void);
__attribute__((weak)) struct compat_host *compat_host_state(void)
{
    static struct compat_host host;
    return &host;
}
#ifdef __cplusplus
}
#endif

#define COMPAT_HOST static inline __attribute__((unused))

COMPAT_HOST void compat_die(const char *call, const char *why)
{
    fprintf(stderr, "%s: %s\n", call, why);
    shmem_global_exit(1);
}
/* Units that came later take the state, too. */
COMPAT_HOST struct compat_host *compat_here(void)
{
    struct compat_host *host = compat_host_state();
    for (struct compat_unit *unit = host->units; unit != NULL && host->uses != 0; unit = unit->next)
        if (!unit->is_filled) {
            if (unit->take(&host->kernels) != 0)
                compat_die(host->name, "the handle of a translation unit cannot be written: another device is current "
                                       "than this PE's, or its kernels are for another device");
            unit->is_filled = 1;
        }
    return host;
}
COMPAT_HOST shmem_team_t compat_team_of(int team)
{
    struct compat_host *host = compat_here();
    return team < 0 || team >= COMPAT_TEAMS ? SHMEM_TEAM_INVALID : host->teams[team];
}

/* ---- teams ---- */

/* Collective over the members: makes the team known to kernels under `number`. */
COMPAT_HOST void compat_team_add(struct compat_host *host, shmem_team_t team, int number)
{
    shmemd_t h;
    if (shmemx_device_handle(team, 0, &h) != 0)
        compat_die(host->name, "a team cannot be made: no device memory, or no device");
    shmem_putmem(host->kernels.teams + number, &h, sizeof h, shmem_my_pe());
    host->teams[number] = team;
    if (number == COMPAT_WORLD)
        host->kernels.world = h;
}
/* The number of a team that has been split off; -1 where this PE is no member. */
COMPAT_HOST int compat_team_made(const char *call, shmem_team_t team)
{
    struct compat_host *host = compat_here();
    int number = COMPAT_NODE + 1;
    if (team == SHMEM_TEAM_INVALID)
        return -1;
    while (number < COMPAT_TEAMS && host->teams[number] != SHMEM_TEAM_INVALID)
        number++;
    if (number == COMPAT_TEAMS)
        compat_die(call, "256 teams are alive, that is the most");
    compat_team_add(host, team, number);
    return number;
}
COMPAT_HOST void compat_team_end(int team)
{
    struct compat_host *host = compat_here();
    if (team <= COMPAT_NODE || team >= COMPAT_TEAMS || host->teams[team] == SHMEM_TEAM_INVALID)
        return;
    shmemd_t none;
    memset(&none, 0, sizeof none);
    shmem_putmem(host->kernels.teams + team, &none, sizeof none, shmem_my_pe());
    shmem_team_destroy(host->teams[team]);
    host->teams[team] = SHMEM_TEAM_INVALID;
}

/* ---- start and end ---- */

#ifndef __cplusplus
extern int setenv(const char *name, const char *value, int overwrite); /* strict C hides it */
#endif
/* Before the library starts: their size of the heap, where ours is not set. Theirs does not count what the library
 * itself needs, which here lies in the heap: slots of teams. */
COMPAT_HOST void compat_heap_size(const char *theirs)
{
    static const char units[] = "kmgt";
    const char *value = getenv(theirs);
    char *end, text[32];
    if (value == NULL || getenv("SHMEM_DEVICE_HEAP_SIZE") != NULL)
        return;
    double bytes = strtod(value, &end);
    for (int i = 0; i < 4 && *end != '\0'; i++)
        if ((*end | 0x20) == units[i])
            bytes *= (double)((uint64_t)1 << (10 * (i + 1)));
    snprintf(text, sizeof text, "%.0f", bytes + (double)COMPAT_ROOM);
    setenv("SHMEM_DEVICE_HEAP_SIZE", text, 0);
}
/* The library runs: its device, the teams. */
COMPAT_HOST void compat_begin(const char *call)
{
    struct compat_host *host = compat_host_state();
    if (host->uses++ != 0)
        return;
    host->name = call;
    if (shmemx_device_init() != 0)
        compat_die(call, "no device runs");
    for (int i = 0; i < COMPAT_TEAMS; i++)
        host->teams[i] = SHMEM_TEAM_INVALID;
    host->kernels.teams =
        (shmemd_t *)shmemx_local_malloc(COMPAT_TEAMS * sizeof *host->kernels.teams, SHMEMX_DEVICE);
    shmemd_t *none = (shmemd_t *)calloc(COMPAT_TEAMS, sizeof *none);
    if (host->kernels.teams == NULL || none == NULL)
        compat_die(call, "no device memory");
    shmem_putmem(host->kernels.teams, none, COMPAT_TEAMS * sizeof *none, shmem_my_pe());
    free(none);
    compat_team_add(host, SHMEM_TEAM_WORLD, COMPAT_WORLD);
    compat_team_add(host, SHMEM_TEAM_SHARED, COMPAT_SHARED);
    compat_team_add(host, SHMEM_TEAM_SHARED, COMPAT_NODE);
    for (struct compat_unit *unit = host->units; unit != NULL; unit = unit->next)
        unit->is_filled = 0;
    (void)compat_here();
}
/* By the launcher of the job. Returns 0 or an error. */
COMPAT_HOST int compat_init(const char *call, int requested, int *provided)
{
    int rc = shmem_init_thread(requested, provided);
    if (rc == 0)
        compat_begin(call);
    return rc;
}
COMPAT_HOST int compat_init_by_id(const char *call, int rank, int size, const shmemx_uniqueid_t *id)
{
    shmemx_init_attr_t ours = SHMEMX_INIT_ATTR;
    ours.rank = rank;
    ours.size = size;
    ours.id = id;
    ours.requested = SHMEM_THREAD_SERIALIZED;
    int rc = shmemx_init_attr(&ours);
    if (rc == 0)
        compat_begin(call);
    return rc;
}
#ifdef MPI_VERSION
/* The ranks of a communicator become the PEs. */
COMPAT_HOST int compat_init_by_comm(const char *call, MPI_Comm comm)
{
    shmemx_uniqueid_t id;
    int rank, size;
    memset(&id, 0, sizeof id);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int failed = rank == 0 ? shmemx_get_uniqueid(&id) : 0;
    MPI_Bcast(&failed, 1, MPI_INT, 0, comm);
    MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, comm);
    return failed != 0 ? failed : compat_init_by_id(call, rank, size, &id);
}
#endif
COMPAT_HOST void compat_end(void)
{
    compat_host_state()->uses--;
    shmem_finalize();
}
/* Gives the state to a module or library that the program has loaded. 0, or 1 after a sentence. */
COMPAT_HOST int compat_module(const char *call, void *loaded, int (*write)(void *, const char *, const void *, size_t))
{
    struct compat_host *host = compat_here();
    if (host->uses == 0) {
        fprintf(stderr, "%s: the library does not run; start it first\n", call);
        return 1;
    }
    return write(loaded, COMPAT_SYMBOL, &host->kernels, sizeof host->kernels);
}

#endif

/* ---- calls of host and kernels ---- */

#if defined(COMPAT_EXTERNS)
#define COMPAT_BOTH PRIM_EXTERN
#define COMPAT_GROUP_FN PRIM_EXTERN
#define COMPAT_EITHER(kernel, host) kernel
#include "kernels.hpp"
#elif defined(__cplusplus)
#define COMPAT_BOTH PRIM_BOTH_FN
#define COMPAT_GROUP_FN PRIM_FN
#define COMPAT_EITHER(kernel, host) PRIM_EITHER(kernel, host)
#include "kernels.hpp"
#else
#define COMPAT_BOTH COMPAT_HOST
#define COMPAT_EITHER(kernel, host) host
#endif
/* A call with a result, and one without. `kernel` and `host` are expressions. */
#define COMPAT_CALL(R, name, params, kernel, host) \
    COMPAT_BOTH R name params { return COMPAT_EITHER(kernel, host); }
#define COMPAT_DO(name, params, kernel, host) \
    COMPAT_BOTH void name params { COMPAT_EITHER(kernel, host); }
/* Collectives of the host are calls on the default stream, and wait for it. */
#define COMPAT_WAITED(call) ((call) | shmemx_stream_synchronize(NULL))
/* A call of a group that synchronises it at both ends. */
#define COMPAT_SYNCED(group, call)                 \
    {                                              \
        const shmemd_group_t compat_group = group; \
        shmemd_group_sync(compat_group);           \
        call;                                      \
        shmemd_group_sync(compat_group);           \
    }
/* A call that is missing: a sentence at compile time, or no function. */
#ifdef COMPAT_EXTERNS
#define COMPAT_MISSING(name, sentence)
#else
#define COMPAT_MISSING(name, sentence)                                          \
    template <class... A> PRIM_BOTH_FN void *name(A...)                         \
    {                                                                           \
        static_assert(sizeof...(A) > 99, #name " is not in Isomer: " sentence); \
        return nullptr;                                                         \
    }
#endif

#endif
