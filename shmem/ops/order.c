/* SPDX-License-Identifier: MIT */
/* Fence, quiet and quiet towards some PEs (section 9.12), and the quiet before a barrier or the end. Stores by pointer
 * need a processor fence and nothing else (iso_fence, iso_quiet in order.h). A context asks its transport only when
 * it has sent something there. By the specification, a call on an invalid context does nothing. */

#include "../profile/profile.h"
#include "../transport/order.h"

/* Operations of kernels that have ended count as the default context's. The proxy sends them over its own context, so
 * a fence waits for them too. */
ISO_INLINE void fence(shmem_ctx_t ctx, const char *call)
{
    struct profile_span span = iso_profile_enter(PROFILE_FENCE, call, 0);
    if (ctx == SHMEM_CTX_DEFAULT)
        iso_drain_rings(call);
    if (ctx != SHMEM_CTX_INVALID)
        iso_fence(iso_ctx(ctx, call));
    iso_profile_leave(&span);
}

ISO_INLINE void quiet(shmem_ctx_t ctx, const char *call)
{
    struct profile_span span = iso_profile_enter(PROFILE_QUIET, call, 0);
    if (ctx == SHMEM_CTX_DEFAULT)
        iso_drain_rings(call);
    if (ctx != SHMEM_CTX_INVALID)
        iso_quiet(iso_ctx(ctx, call));
    iso_profile_leave(&span);
    if (ISO_UNLIKELY(__atomic_load_n(&ISO->broken.stage, __ATOMIC_ACQUIRE) == 2)) /* puts to other nodes may be lost */
        (void)iso_job_give_up(call);
}

SHMEM_API(shmem_fence, pshmem_fence);
void pshmem_fence(void)
{
    iso_check_life(__func__);
    fence(SHMEM_CTX_DEFAULT, __func__);
}

SHMEM_API(shmem_ctx_fence, pshmem_ctx_fence);
void pshmem_ctx_fence(shmem_ctx_t ctx)
{
    iso_check_life(__func__);
    fence(ctx, __func__);
}

SHMEM_API(shmem_quiet, pshmem_quiet);
void pshmem_quiet(void)
{
    iso_check_life(__func__);
    quiet(SHMEM_CTX_DEFAULT, __func__);
}

SHMEM_API(shmem_ctx_quiet, pshmem_ctx_quiet);
void pshmem_ctx_quiet(shmem_ctx_t ctx)
{
    iso_check_life(__func__);
    quiet(ctx, __func__);
}

/* By pointer the fence is the whole price, for all PEs at once; transports are asked PE by PE. The context stays dirty:
 * it may have more under way, to others. */
static void pe_quiet(struct ctx *ctx, const int *target_pes, size_t npes, const char *call)
{
    if (npes == 0)
        return;
    if (ISO_CHECKS && ISO_UNLIKELY(target_pes == NULL))
        iso_fatal(call, "target_pes is null, but npes is %zu", npes);
    for (size_t i = 0; i < npes; i++)
        (void)iso_world_pe(ctx, target_pes[i], call);
    if (ctx == &ISO->ctx_default)
        iso_drain_rings(call);
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* as in iso_quiet */
#endif
    for (size_t i = 0; i < npes && iso_ctx_is_dirty(ctx); i++)
        iso_far_pe_quiet(ctx, iso_world_pe(ctx, target_pes[i], call));
}

SHMEM_API(shmem_pe_quiet, pshmem_pe_quiet);
void pshmem_pe_quiet(const int *target_pes, size_t npes)
{
    iso_check_life(__func__);
    pe_quiet(&ISO->ctx_default, target_pes, npes, __func__);
}

SHMEM_API(shmem_ctx_pe_quiet, pshmem_ctx_pe_quiet);
void pshmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes)
{
    iso_check_life(__func__);
    if (ctx != SHMEM_CTX_INVALID)
        pe_quiet(iso_ctx(ctx, __func__), target_pes, npes, __func__);
}

void iso_quiet_all(const char *call)
{
    struct state *self = ISO;
    iso_drain_rings(call);
    iso_quiet(&self->ctx_default);

    /* The table never moves and its entries stay, so this look needs no lock. A context made by another thread
     * meanwhile has no operations that this quiet must cover. */
    int n = __atomic_load_n(&self->n_ctxs, __ATOMIC_ACQUIRE), first = 0; /* pairs with the release store in ctx.c */
    while (first < n && self->ctxs[first] == NULL)
        first++;
    if (ISO_LIKELY(first == n))
        return;

    /* Destroyed contexts keep their entry, without a team. A context that promises use by one thread at a time may be
     * in another thread's hands while threads are free to call; its owner's own quiet is what completes it. */
    const long promises = self->thread_level == SHMEM_THREAD_MULTIPLE ? SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED : 0;
    pthread_mutex_lock(&self->tables_lock);
    for (int i = first; i < self->n_ctxs; i++) {
        struct ctx *ctx = self->ctxs[i];
        if (ctx != NULL && ctx->team != NULL && (ctx->options & promises) == 0 && iso_ctx_is_dirty(ctx))
            iso_far_quiet(ctx);
    }
    pthread_mutex_unlock(&self->tables_lock);
}
