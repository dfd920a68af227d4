/* SPDX-License-Identifier: MIT */
/* shmem_barrier_all, shmem_sync_all, shmem_team_sync, and the deprecated shmem_barrier and shmem_sync on active sets
 * (sections 9.10.1 to 9.10.4). The barrier itself is shmem/team/barrier.c. */
#include "../../shmem/team/agree.h"
#include "../../shmem/transport/order.h"
#include "coll.h"

/* The operations that a barrier completes before it synchronises. Among the PEs that take part, the barrier's own
 * release stores and acquire loads order every store by pointer: a PE that has left sees the stores of all PEs before
 * they entered. A full fence is needed only where PEs stay outside, which an active set may leave. A transport is asked
 * when it has work. */
static void complete_puts(const struct team *team, const char *call)
{
    struct ctx *ctx = &ISO->ctx_default;
    iso_drain_rings(call);
    if (team->n_pes != ISO->n_pes)
        iso_quiet(ctx);
    else if (ISO_UNLIKELY(iso_ctx_is_dirty(ctx)))
        iso_far_quiet(ctx);
}

static void synchronise(struct team *team, const char *call)
{
    struct agree_args args = {call, 0, 0, 0};
    if (ISO_UNLIKELY(ISO->debug))
        iso_agree_match(team, args);
    if (ISO_UNLIKELY(ISO->profile != NULL))
        iso_host_count_barrier(team, call);
    else
        iso_barrier_sync(team, call);
}

SHMEM_API(shmem_barrier_all, pshmem_barrier_all);
void pshmem_barrier_all(void)
{
    iso_check_life(__func__);
    complete_puts(ISO->world, __func__);
    synchronise(ISO->world, __func__);
}

SHMEM_API(shmem_sync_all, pshmem_sync_all);
void pshmem_sync_all(void)
{
    iso_check_life(__func__);
    synchronise(ISO->world, __func__);
}

SHMEM_API(shmem_team_sync, pshmem_team_sync);
int pshmem_team_sync(shmem_team_t handle)
{
    struct team *team = iso_coll_team(handle, __func__);
    if (team == NULL)
        return -1;
    synchronise(team, __func__);
    return 0;
}

SHMEM_API(shmem_barrier, pshmem_barrier);
void pshmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct coll_set set = {PE_start, logPE_stride, PE_size, pSync, SHMEM_BARRIER_SYNC_SIZE};
    struct team *team = iso_coll_active_set(set, __func__);
    complete_puts(team, __func__);
    synchronise(team, __func__);
    iso_coll_active_set_end(team, __func__);
}

SHMEM_API(shmem_sync, pshmem_sync);
void pshmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct coll_set set = {PE_start, logPE_stride, PE_size, pSync, SHMEM_SYNC_SIZE};
    struct team *team = iso_coll_active_set(set, __func__);
    synchronise(team, __func__);
    iso_coll_active_set_end(team, __func__);
}
