/* SPDX-License-Identifier: MIT */
/* Contexts. Every operation belongs to one. */
#ifndef ISO_CTX_H
#define ISO_CTX_H

#include "../../include/shmem.h"
#include "../state/base.h"

struct team;

struct ctx {
    shmem_ctx_t handle;
    long options;
    struct team *team; /* PE arguments count in it */
    const int *world_of;
    int n_pes;
    bool remote_dirty; /* a transport may have work of this context outstanding; see iso_ctx_is_dirty */
    bool in_session;
    bool of_proxy; /* local memory is symmetric, or the host's */
    void *transport_priv;
    int next_free; /* of a destroyed context: the place of the one destroyed before it, 0: none */
};

ISO_COLD struct ctx *iso_ctx_find(shmem_ctx_t handle, const char *call);
/* A context of a team; team NULL: none, and 1. */
int iso_ctx_create(const char *call, struct team *team, long options, shmem_ctx_t *handle);
int iso_ctx_start(void);
void iso_ctx_stop(void);
void iso_ctx_destroy_of_team(struct team *team);

/* Set before an operation of a transport. Relaxed: the flag tells a thread of its own operations. */
ISO_INLINE bool iso_ctx_is_dirty(const struct ctx *ctx)
{
    return __atomic_load_n(&ctx->remote_dirty, __ATOMIC_RELAXED);
}
ISO_INLINE void iso_ctx_mark_dirty(struct ctx *ctx)
{
    if (!iso_ctx_is_dirty(ctx))
        __atomic_store_n(&ctx->remote_dirty, true, __ATOMIC_RELAXED);
}

#endif
