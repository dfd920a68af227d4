/* SPDX-License-Identifier: MIT */
/* Teams (section 9.4): ordered subsets of the PEs, each with a slot of its own for collectives. A PE holds only the
 * teams that it belongs to. A handle is index and generation, so a destroyed or made-up handle is found out. */
#include "agree.h"
#include "../collectives.h"
#include "../node/peer.h"
#include "../transport/order.h"
#include "slot.h"
#include "../../bootstrap/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TEAMS_MAX 65536
#define FIRST_INDEX 3 /* 0 is SHMEM_TEAM_INVALID, 1 SHMEM_TEAM_WORLD, 2 SHMEM_TEAM_SHARED */

/* Never moves: look-ups take no lock. */
struct team_table {
    int n;
    struct team *free;          /* places of destroyed teams */
    struct team *of[TEAMS_MAX]; /* [index of handle], NULL where free */
};

struct team *iso_team_or_null(shmem_team_t handle)
{
    struct state *self = ISO;
    int i = (int)((uintptr_t)handle & (TEAMS_MAX - 1));
    if (handle == SHMEM_TEAM_WORLD && self->life == LIFE_RUNNING)
        return self->world;
    struct team_table *teams = self->teams;
    if (teams == NULL || i <= 0 || i >= __atomic_load_n(&teams->n, __ATOMIC_ACQUIRE)) /* pairs with take_place */
        return NULL;
    struct team *team = teams->of[i];
    return team != NULL && team->handle == handle ? team : NULL;
}

/* Of the handle of a destroyed team until another team has its place. No handle that is given out has it. */
#define RETIRED ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))

shmem_team_t iso_team_at(int index)
{
    const struct team *team = ISO->teams->of[index];
    shmem_team_t handle = team != NULL ? __atomic_load_n(&team->handle, __ATOMIC_RELAXED) : SHMEM_TEAM_INVALID;
    return ((uintptr_t)handle & RETIRED) == 0 ? handle : SHMEM_TEAM_INVALID;
}

struct team *iso_team(shmem_team_t handle, const char *call)
{
    iso_check_life(call);
    struct team *team = iso_team_or_null(handle);
    if (team == NULL)
        iso_fatal_team(call, handle);
    return team;
}

static int refuse_split(const char *call, shmem_team_t team)
{
    if (team == SHMEM_TEAM_INVALID)
        return iso_refuse(call, "team is SHMEM_TEAM_INVALID");
    return iso_refuse(call, "team %p is not a team of this PE (destroyed, or never made)", (void *)team);
}

void iso_fatal_team(const char *call, shmem_team_t team)
{
    (void)refuse_split(call, team);
    iso_abort_job(1, "an invalid team"); /* a call that returns errors does not come here */
}

/* ---- members ---- */

int iso_team_pe(const struct team *team, int world_pe)
{
    if (team->stride != 0) {
        int i = (world_pe - team->start) / team->stride;
        return i >= 0 && i < team->n_pes && team->world_of[i] == world_pe ? i : -1;
    }
    for (int i = 0; i < team->n_pes; i++)
        if (team->world_of[i] == world_pe)
            return i;
    return -1;
}

/* By world_of. Its slot is opened by the caller. */
static void describe_team(struct team *team, int n_pes)
{
    team->n_pes = n_pes;
    team->start = team->world_of[0];
    team->stride = n_pes > 1 ? team->world_of[1] - team->world_of[0] : 1;
    for (int i = 1; i < n_pes; i++)
        if (team->world_of[i] != team->start + i * team->stride)
            team->stride = 0;
    team->my_pe = iso_team_pe(team, ISO->my_pe);
    team->slot.index = -1;
}

static int open_slot(struct team *team, int parent_slot, uint64_t split)
{
    struct slot_key key = {team->start, team->n_pes > 1 ? team->world_of[1] - team->start : 0, team->n_pes, parent_slot,
                           split, 0};
    return iso_slot_open(&team->slot, key, team->world_of, team->n_pes, 0);
}

static void close_team(struct team *team)
{
    if (team->slot.index >= 0)
        iso_slot_close(&team->slot, team->world_of, team->n_pes);
    pthread_mutex_lock(&ISO->tables_lock);
    free(team->world_of);
    team->world_of = NULL;
    team->next_free = ISO->teams->free;
    ISO->teams->free = team;
    pthread_mutex_unlock(&ISO->tables_lock);
}

/* ---- the predefined teams ---- */

static int start_predefined(struct team *team, shmem_team_t handle, const int *pes, int n_pes)
{
    int *world_of = (int *)malloc(sizeof *world_of * (size_t)n_pes);
    if (world_of == NULL)
        return -ENOMEM;
    for (int i = 0; i < n_pes; i++)
        world_of[i] = pes != NULL ? pes[i] : i;
    memset(team, 0, sizeof *team);
    team->handle = handle;
    team->world_of = world_of;
    describe_team(team, n_pes);
    return open_slot(team, ISO_SLOT_OF_START, handle == SHMEM_TEAM_WORLD ? 0 : 1);
}

int iso_team_start(void)
{
    struct state *self = ISO;
    /* Not by calloc: as the table of ctx.c. */
    void *table = mmap(NULL, sizeof(struct team_table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct team_table *teams = self->teams = table != MAP_FAILED ? (struct team_table *)table : NULL;
    self->world = (struct team *)calloc(1, sizeof *self->world);
    self->shared = (struct team *)calloc(1, sizeof *self->shared);
    if (teams == NULL || self->world == NULL || self->shared == NULL)
        return -ENOMEM;
    int rc = start_predefined(self->world, SHMEM_TEAM_WORLD, NULL, self->n_pes);
    if (rc == 0)
        rc = start_predefined(self->shared, SHMEM_TEAM_SHARED, self->local_pes, self->n_local);
    teams->of[1] = self->world;
    teams->of[2] = self->shared;
    teams->n = FIRST_INDEX;
    return rc;
}

/* The slot is not given back: the control areas end with the teams, and those of other PEs may be gone already. */
static void drop_team(struct team *team)
{
    team->slot.index = -1;
    iso_slot_close(&team->slot, team->world_of, team->n_pes);
    free(team->world_of);
    team->world_of = NULL;
}

void iso_team_stop(void)
{
    struct state *self = ISO;
    struct team_table *teams = self->teams;
    for (int i = FIRST_INDEX; teams != NULL && i < teams->n; i++) {
        if (teams->of[i]->world_of != NULL)
            drop_team(teams->of[i]);
        free(teams->of[i]);
    }
    if (teams != NULL && teams->n != 0) {
        drop_team(self->shared);
        drop_team(self->world);
    }
    free(self->shared);
    free(self->world);
    self->shared = self->world = NULL;
    if (teams != NULL)
        munmap(teams, sizeof *teams);
    self->teams = NULL;
}

/* ---- split ---- */

/* A free place for a team of `n` PEs, with room for world_of: one of a destroyed team (its generation goes on), else the
 * next. NULL: no memory. */
static struct team *take_place(int n)
{
    struct state *self = ISO;
    struct team_table *teams = self->teams;
    int *world_of = (int *)malloc(sizeof *world_of * (size_t)n);
    if (world_of == NULL)
        return NULL;
    pthread_mutex_lock(&self->tables_lock);
    struct team *team = teams->free;
    int next = teams->n;
    if (team != NULL) {
        teams->free = team->next_free;
    } else if (next < TEAMS_MAX && (team = (struct team *)calloc(1, sizeof *team)) != NULL) {
        team->handle = (shmem_team_t)(uintptr_t)next; /* of generation 0, which is never given out */
        teams->of[next] = team;
        __atomic_store_n(&teams->n, next + 1, __ATOMIC_RELEASE); /* pairs with the acquire in iso_team_or_null */
    }
    if (team != NULL) {
        uintptr_t handle = ((uintptr_t)team->handle & ~RETIRED) + TEAMS_MAX; /* the next generation */
        memset(team, 0, sizeof *team);
        team->handle = (shmem_team_t)handle;
        team->world_of = world_of;
    }
    pthread_mutex_unlock(&self->tables_lock);
    if (team == NULL)
        free(world_of);
    return team;
}

struct triplet {
    int start, stride, size; /* in the parent's numbers */
};

/* The team of a place whose world_of is filled; `team` NULL: there was no memory. NULL on failure. Collective. */
static struct team *open_split(struct team *team, int n, const struct team *parent, uint64_t split, int *rc)
{
    *rc = -ENOMEM;
    if (team == NULL)
        return NULL;
    describe_team(team, n);
    *rc = open_slot(team, parent->slot.index, split);
    if (*rc == 0)
        return team;
    close_team(team);
    return NULL;
}

/* The new team on its members; NULL with *rc == 0 on the others. Collective over the members. */
static struct team *make_team(struct team *parent, struct triplet t, const shmem_team_config_t *config, int *rc)
{
    uint64_t split = parent->splits++;
    bool member = false;
    for (int i = 0; i < t.size; i++)
        member = member || t.start + i * t.stride == parent->my_pe;
    *rc = 0;
    if (!member)
        return NULL;
    struct team *team = take_place(t.size);
    for (int i = 0; team != NULL && i < t.size; i++)
        team->world_of[i] = parent->world_of[t.start + i * t.stride];
    if (team != NULL && config != NULL)
        team->config = *config;
    return open_split(team, t.size, parent, split, rc);
}

static void check_config(const char *call, const shmem_team_config_t *config, long mask)
{
    if ((mask & ~(long)SHMEM_TEAM_NUM_CONTEXTS) != 0)
        iso_fatal(call, "config_mask %#lx has bits outside SHMEM_TEAM_NUM_CONTEXTS", (unsigned long)mask);
    if (mask != 0 && config == NULL)
        iso_fatal(call, "config is a null pointer and config_mask is not 0");
    if (mask != 0 && config->num_contexts < 0)
        iso_fatal(call, "config->num_contexts is %d; it must be 0 or more", config->num_contexts);
}

static void retire_handle(struct team *team)
{
    __atomic_store_n(&team->handle, (shmem_team_t)((uintptr_t)team->handle | RETIRED), __ATOMIC_RELAXED);
}

static void destroy_team(struct team *team)
{
    iso_ctx_destroy_of_team(team);
    ISO->coll->streams.forget_team(team);
    if (ISO->above.forget_team != NULL)
        ISO->above.forget_team(team);
    retire_handle(team); /* at once */
    close_team(team);
}

SHMEM_API(shmem_team_split_strided, pshmem_team_split_strided);
int pshmem_team_split_strided(shmem_team_t parent_handle, int start, int stride, int size,
                              const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)
{
    iso_check_life(__func__);
    iso_check_out(__func__, "new_team", new_team);
    *new_team = SHMEM_TEAM_INVALID;
    if (parent_handle == SHMEM_TEAM_INVALID)
        return 1;
    struct team *parent = iso_team(parent_handle, __func__);
    struct triplet t = {start, stride, size};
    check_config(__func__, config, config_mask);
    iso_agree_same(parent, __func__, "start", start);
    iso_agree_same(parent, __func__, "stride", stride);
    iso_agree_same(parent, __func__, "size", size);
    if (size < 1 || start < 0 || start >= parent->n_pes || (stride == 0 && size > 1))
        return 1;
    long last = (long)start + (long)stride * (size - 1);
    if (last < 0 || last >= parent->n_pes)
        return 1;
    int rc;
    struct team *team = make_team(parent, t, config_mask != 0 ? config : NULL, &rc);
    bool all_made = iso_agree_min(parent, rc == 0, __func__) != 0;
    if (team != NULL && !all_made)
        destroy_team(team);
    else if (team != NULL)
        *new_team = team->handle;
    return all_made ? 0 : 1;
}

SHMEM_API(shmem_team_split_2d, pshmem_team_split_2d);
int pshmem_team_split_2d(shmem_team_t parent_handle, int xrange, const shmem_team_config_t *xaxis_config,
                         long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
                         long yaxis_mask, shmem_team_t *yaxis_team)
{
    iso_check_life(__func__);
    iso_check_out(__func__, "xaxis_team", xaxis_team);
    iso_check_out(__func__, "yaxis_team", yaxis_team);
    *xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
    if (parent_handle == SHMEM_TEAM_INVALID)
        return 1;
    struct team *parent = iso_team(parent_handle, __func__);
    check_config(__func__, xaxis_config, xaxis_mask);
    check_config(__func__, yaxis_config, yaxis_mask);
    iso_agree_same(parent, __func__, "xrange", xrange);
    if (xrange < 1)
        return 1;
    xrange = ISO_MIN(xrange, parent->n_pes);
    int x = parent->my_pe % xrange, y = parent->my_pe / xrange, rc_x, rc_y;
    struct triplet row = {y * xrange, 1, ISO_MIN(xrange, parent->n_pes - y * xrange)};
    struct triplet column = {x, xrange, (parent->n_pes - x + xrange - 1) / xrange};
    struct team *xteam = make_team(parent, row, xaxis_mask != 0 ? xaxis_config : NULL, &rc_x);
    struct team *yteam = make_team(parent, column, yaxis_mask != 0 ? yaxis_config : NULL, &rc_y);
    bool all_made = iso_agree_min(parent, rc_x == 0 && rc_y == 0, __func__) != 0;
    if (all_made) {
        *xaxis_team = xteam->handle;
        *yaxis_team = yteam->handle;
        return 0;
    }
    if (xteam != NULL)
        destroy_team(xteam);
    if (yteam != NULL)
        destroy_team(yteam);
    return 1;
}

/* ---- split by color ---- */

struct colored {
    int32_t color, key;
    int32_t pe; /* in the parent */
};

static int by_key(const void *a, const void *b)
{
    const struct colored *x = (const struct colored *)a, *y = (const struct colored *)b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->pe - y->pe;
}

SHMEM_API(shmemx_team_split_color, pshmemx_team_split_color);
int pshmemx_team_split_color(shmem_team_t parent_handle, int color, int key, shmem_team_t *new_team)
{
    if (iso_enter(__func__) != 0)
        return 1;
    if (new_team == NULL)
        return iso_refuse(__func__, "team is a null pointer");
    *new_team = SHMEM_TEAM_INVALID;
    if (parent_handle == SHMEM_TEAM_INVALID) {
        log_error("shmemx_team_split_color: parent is SHMEM_TEAM_INVALID");
        return 1;
    }
    struct team *parent = iso_team_or_null(parent_handle), *team = NULL;
    if (parent == NULL)
        return refuse_split(__func__, parent_handle);
    struct colored mine = {color, key, parent->my_pe},
                   *all = (struct colored *)malloc(sizeof *all * (size_t)parent->n_pes);
    uint64_t split = parent->splits++;
    int rc = 0;
    if (all == NULL)
        return iso_refuse_alone(__func__, "no memory for a team of %d", parent->n_pes);
    rc = iso_agree_gather(parent, &mine, sizeof mine, all, __func__);
    if (color >= 0 && rc == 0) {
        int n = 0; /* those of this color, in the order of the team */
        for (int i = 0; i < parent->n_pes; i++)
            if (all[i].color == color)
                all[n++] = all[i];
        qsort(all, (size_t)n, sizeof *all, by_key);
        team = take_place(n);
        for (int i = 0; team != NULL && i < n; i++)
            team->world_of[i] = parent->world_of[all[i].pe];
        team = open_split(team, n, parent, split, &rc);
    }
    free(all);
    bool all_made = iso_agree_min(parent, rc == 0, __func__) != 0;
    if (team != NULL && !all_made)
        destroy_team(team);
    else if (team != NULL)
        *new_team = team->handle;
    return all_made ? 0 : 1;
}

/* ---- how long its calls may wait ---- */

SHMEM_API(shmemx_team_set_timeout, pshmemx_team_set_timeout);
int pshmemx_team_set_timeout(shmem_team_t handle, double seconds)
{
    if (iso_enter(__func__) != 0)
        return 1;
    struct team *team = iso_team_or_null(handle);
    if (team == NULL || seconds != seconds) {
        log_error("%s: %s", iso_call_name(__func__),
                  team == NULL ? "team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)"
                               : "seconds is not a number; allowed: seconds, 0: never, below 0: SHMEM_TIMEOUT");
        return 1;
    }
    uint64_t timeout_ns = ISO_TIMEOUT_NEVER;
    if (seconds < 0)
        timeout_ns = 0;
    else if (seconds > 0 && seconds < 1e9) /* 30 years */
        timeout_ns = (uint64_t)(seconds * 1e9) + 1;
    __atomic_store_n(&team->slot.timeout_ns, timeout_ns, __ATOMIC_RELAXED);
    if (ISO->above.tell_kernels != NULL)
        ISO->above.tell_kernels(team);
    return 0;
}

SHMEM_API(shmemx_team_mask_deaths, pshmemx_team_mask_deaths);
int pshmemx_team_mask_deaths(shmem_team_t handle, int masks)
{
    if (iso_enter(__func__) != 0)
        return 1;
    struct team *team = iso_team_or_null(handle);
    if (team == NULL)
        return iso_refuse(__func__, "team %p is not a team of this PE", (void *)handle) != 0;
    if (masks != 0 && masks != 1)
        return iso_refuse(__func__, "masks is %d; allowed: 0, 1", masks) != 0;
    if (masks == 1 && ISO->errors != SHMEMX_ERRORS_RETURN)
        return iso_refuse(__func__, "the error mode of this PE is SHMEMX_ERRORS_ABORT, in which a death ends the job; "
                                    "call shmemx_set_error_mode(SHMEMX_ERRORS_RETURN) before") != 0;
    if (masks == 1)
        iso_job_mask(true);
    __atomic_store_n(&team->masks_deaths, masks == 1, __ATOMIC_RELAXED);
    if (ISO->above.tell_kernels != NULL)
        ISO->above.tell_kernels(team);
    return 0;
}

/* ---- a team that ends alone ---- */

SHMEM_API(shmemx_team_break, pshmemx_team_break);
int pshmemx_team_break(shmem_team_t handle, const char *why)
{
    const char *call = iso_call_name(__func__), *wrong = NULL;
    if (iso_enter(call) != 0)
        return 1;
    const struct team *team = iso_team_or_null(handle);
    const char *joint = "sends or receives of the team on streams were in one batch with those of another team, or "
                        "began in a capture, so they do not end alone; shmemx_break breaks the job";
    if (team == NULL || why == NULL)
        wrong = team == NULL ? "team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)"
                             : "why is a null pointer";
    else if (ISO->errors != SHMEMX_ERRORS_RETURN)
        wrong = "the error mode of this PE is SHMEMX_ERRORS_ABORT; call shmemx_set_error_mode before";
    else if (team == ISO->world || team == ISO->shared || team->n_pes == 1)
        wrong = "team is SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED or has one member; shmemx_break breaks the job";
    else if (team->slot.central == NULL && team->slot.nodes == NULL)
        wrong = "the members of the team do not reach each other by pointers; shmemx_break breaks the job";
    else if (!iso_slot_is_broken(&team->slot) && ISO->coll->streams.has_joint_pairs(team))
        wrong = joint;
    bool breaks = wrong == NULL && !iso_slot_is_broken(&team->slot);
    if (breaks)
        iso_slot_break(&team->slot, why);
    if (wrong == NULL && ISO->above.tell_kernels != NULL)
        ISO->above.tell_kernels(team);
    if (breaks && ISO->coll->streams.has_joint_pairs(team)) /* another thread has enqueued them meanwhile */
        wrong = joint;
    if (wrong != NULL)
        iso_log_elsewhere("%s: %s", call, wrong);
    return wrong != NULL;
}

/* ---- from a list, by its members alone ---- */

/* The place of each PE + 1, 0: not in the list, into `place` of all PEs, zeroed. False after a sentence. */
static bool list_is_valid(const char *call, const int *pes, int n, int *place)
{
    for (int i = 0; i < n; i++) {
        if (pes[i] < 0 || pes[i] >= ISO->n_pes) {
            log_error("%s: pes[%d] is %d; allowed: 0..%d", iso_call_name(call), i, pes[i], ISO->n_pes - 1);
            return false;
        }
        if (place[pes[i]] != 0) {
            log_error("%s: pes[%d] and pes[%d] are both %d; a PE may be listed once", iso_call_name(call),
                      place[pes[i]] - 1, i, pes[i]);
            return false;
        }
        place[pes[i]] = i + 1;
    }
    if (place[ISO->my_pe] == 0)
        log_error("%s: pes does not list the calling pe %d; only members may call", iso_call_name(call), ISO->my_pe);
    return place[ISO->my_pe] != 0;
}

static bool arguments_are_valid(const char *call, const int *pes, int n, const shmem_team_t *team)
{
    if (pes == NULL || team == NULL) {
        log_error("%s: %s is a null pointer", iso_call_name(call), pes == NULL ? "pes" : "team");
        return false;
    }
    if (n < 1 || n > ISO->n_pes) {
        log_error("%s: n is %d; allowed: 1..%d", iso_call_name(call), n, ISO->n_pes);
        return false;
    }
    int *place = (int *)calloc((size_t)ISO->n_pes, sizeof *place);
    if (place == NULL)
        return iso_refuse_alone(call, "no memory for a team of %d", n) == 0;
    bool valid = list_is_valid(call, pes, n, place);
    free(place);
    return valid;
}

SHMEM_API(shmemx_team_create, pshmemx_team_create);
int pshmemx_team_create(const int *pes, int n, uint64_t tag, shmem_team_t *new_team)
{
    if (iso_enter(__func__) != 0)
        return 1;
    if (new_team != NULL)
        *new_team = SHMEM_TEAM_INVALID;
    if (!arguments_are_valid(__func__, pes, n, new_team))
        return 1;
    /* Of the list in its order; lists that differ only there are different teams. FNV-1a over PEs, then mixed: each PE
     * reaches all bits. */
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)(unsigned)pes[i]) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    struct slot_key key = {pes[0], n > 1 ? pes[1] - pes[0] : 0, n, ISO_SLOT_OF_LIST, tag, hash};
    struct team *team = take_place(n);
    struct slot slot;
    int rc = iso_slot_open(&slot, key, pes, n, team != NULL ? 0 : -ENOMEM);
    if (team == NULL)
        return 1;
    memcpy(team->world_of, pes, sizeof *pes * (size_t)n);
    describe_team(team, n);
    team->slot = slot;
    if (rc != 0) {
        close_team(team);
        return 1;
    }
    *new_team = team->handle;
    return 0;
}

/* ---- destroy ---- */

SHMEM_API(shmem_team_destroy, pshmem_team_destroy);
void pshmem_team_destroy(shmem_team_t handle)
{
    iso_check_life(__func__);
    if (handle == SHMEM_TEAM_INVALID)
        return;
    struct team *team = iso_team(handle, __func__);
    if (team == ISO->world || team == ISO->shared)
        iso_fatal(__func__, "SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED cannot be destroyed");
    iso_ctx_destroy_of_team(team);
    if (ISO->above.finish_team != NULL)
        ISO->above.finish_team(team, __func__);
    /* Nobody is inside a collective of this slot any more; or the team is broken, which may be heard of here alone. */
    bool met = !iso_slot_is_broken(&team->slot) && iso_barrier_sync(team, __func__) == 0;
    if (!met && ISO->above.team_has_handles != NULL && ISO->above.team_has_handles(team))
        retire_handle(team); /* kernels of the other members may still write to its memory, which stays */
    else
        destroy_team(team);
}

/* ---- contexts ---- */

SHMEM_API(shmem_team_create_ctx, pshmem_team_create_ctx);
int pshmem_team_create_ctx(shmem_team_t handle, long options, shmem_ctx_t *ctx)
{
    iso_check_life(__func__);
    return iso_ctx_create(__func__, iso_team_or_null(handle), options, ctx);
}

/* ---- queries ---- */

SHMEM_API(shmem_team_my_pe, pshmem_team_my_pe);
int pshmem_team_my_pe(shmem_team_t handle)
{
    iso_check_life(__func__);
    const struct team *team = iso_team_or_null(handle);
    return team != NULL ? team->my_pe : -1;
}

SHMEM_API(shmem_team_n_pes, pshmem_team_n_pes);
int pshmem_team_n_pes(shmem_team_t handle)
{
    iso_check_life(__func__);
    const struct team *team = iso_team_or_null(handle);
    return team != NULL ? team->n_pes : -1;
}

SHMEM_API(shmem_team_get_config, pshmem_team_get_config);
int pshmem_team_get_config(shmem_team_t handle, long config_mask, shmem_team_config_t *config)
{
    iso_check_life(__func__);
    if (handle == SHMEM_TEAM_INVALID)
        return 1;
    const struct team *team = iso_team(handle, __func__);
    if ((config_mask & ~(long)SHMEM_TEAM_NUM_CONTEXTS) != 0)
        iso_fatal(__func__, "config_mask %#lx has bits outside SHMEM_TEAM_NUM_CONTEXTS", (unsigned long)config_mask);
    if (config_mask != 0 && config == NULL)
        iso_fatal(__func__, "config is a null pointer and config_mask is not 0");
    if (config_mask != 0)
        config->num_contexts = team->config.num_contexts;
    return 0;
}

SHMEM_API(shmem_team_translate_pe, pshmem_team_translate_pe);
int pshmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)
{
    iso_check_life(__func__);
    const struct team *from = iso_team_or_null(src_team), *to = iso_team_or_null(dest_team);
    if (from == NULL || to == NULL || src_pe < 0 || src_pe >= from->n_pes)
        return -1;
    return iso_team_pe(to, from->world_of[src_pe]);
}
