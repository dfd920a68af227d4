/* SPDX-License-Identifier: MIT */
/* Communication contexts (section 9.5) and sessions (section 9.9). A handle is index and generation, so a destroyed or
 * made-up handle is noticed. Between PEs that share pointers a context has nothing outstanding but the order of
 * stores; what a transport needs per context hangs off it. */

#include "../transport/order.h"
#include "team.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CTXS_MAX 65536
#define TABLE_BYTES (CTXS_MAX * sizeof(struct ctx *))
#define FIRST_INDEX 2 /* 0 is SHMEM_CTX_INVALID, 1 SHMEM_CTX_DEFAULT */

static struct ctx *find_ctx(shmem_ctx_t handle)
{
    struct state *self = ISO;
    int i = (int)((uintptr_t)handle & (CTXS_MAX - 1)); /* the rest is the generation */
    if (handle == SHMEM_CTX_DEFAULT)
        return &self->ctx_default;
    struct ctx *ctx = i >= FIRST_INDEX && i < __atomic_load_n(&self->n_ctxs, __ATOMIC_ACQUIRE) ? self->ctxs[i] : NULL;
    return ctx != NULL && ctx->handle == handle ? ctx : NULL;
}

struct ctx *iso_ctx_find(shmem_ctx_t handle, const char *call)
{
    iso_check_life(call);
    struct ctx *ctx = find_ctx(handle);
    if (ctx == NULL)
        iso_fatal_ctx(call, handle);
    return ctx;
}

void iso_fatal_ctx(const char *call, shmem_ctx_t ctx)
{
    if (ctx == SHMEM_CTX_INVALID)
        iso_fatal(call, "ctx is SHMEM_CTX_INVALID");
    iso_fatal(call, "ctx %p is not a context of this PE (destroyed, or never made)", (void *)ctx);
}

int iso_ctx_start(void)
{
    struct state *self = ISO;
    memset(&self->ctx_default, 0, sizeof self->ctx_default);
    self->ctx_default.handle = SHMEM_CTX_DEFAULT;
    self->ctx_default.team = self->world;
    self->ctx_default.world_of = self->world->world_of;
    self->ctx_default.n_pes = self->n_pes;
    self->ctx_words = self->ctx_default;
    /* The table never moves, so that look-ups need no lock. Its untouched pages cost nothing, while calloc would write
     * zeros into memory that the program has freed. */
    void *table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return -ENOMEM;
    self->ctxs = (struct ctx **)table;
    self->n_ctxs = FIRST_INDEX;
    self->free_ctx = 0;
    return 0;
}

void iso_ctx_stop(void)
{
    struct state *self = ISO;
    for (int i = 0; self->ctxs != NULL && i < self->n_ctxs; i++)
        free(self->ctxs[i]);
    if (self->ctxs != NULL)
        munmap(self->ctxs, TABLE_BYTES);
    self->ctxs = NULL;
    self->n_ctxs = 0;
    self->ctx_default.n_pes = 0;
}

/* A free place: one of a destroyed context (its generation goes on), else the next. Under tables_lock. */
static struct ctx *take_ctx_place(int *index)
{
    struct state *self = ISO;
    if (self->free_ctx != 0) {
        *index = self->free_ctx;
        self->free_ctx = self->ctxs[*index]->next_free;
        return self->ctxs[*index];
    }
    if (self->n_ctxs == CTXS_MAX)
        return NULL;
    struct ctx *ctx = (struct ctx *)calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return NULL;
    *index = self->n_ctxs;
    self->ctxs[*index] = ctx;
    __atomic_store_n(&self->n_ctxs, *index + 1, __ATOMIC_RELEASE); /* pairs with the acquire in find() */
    return ctx;
}

int iso_ctx_create(const char *call, struct team *team, long options, shmem_ctx_t *handle)
{
    const long known = SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE;
    struct state *self = ISO;
    int index;
    if ((options & ~known) != 0)
        iso_fatal(call, "options %#lx has bits outside SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE",
                  (unsigned long)options);
    iso_check_out(call, "ctx", handle);
    *handle = SHMEM_CTX_INVALID;
    if (team == NULL)
        return 1;
    pthread_mutex_lock(&self->tables_lock);
    struct ctx *ctx = take_ctx_place(&index);
    if (ctx != NULL) {
        uintptr_t generation = ((uintptr_t)ctx->handle >> 16) + 1;
        ctx->handle = (shmem_ctx_t)(generation << 16 | (uintptr_t)index);
        ctx->options = options;
        ctx->world_of = team->world_of;
        ctx->n_pes = team->n_pes;
        ctx->remote_dirty = ctx->in_session = false;
        ctx->team = team;
        team->contexts_made++;
        *handle = ctx->handle;
    }
    pthread_mutex_unlock(&self->tables_lock);
    return ctx != NULL ? 0 : 1;
}

SHMEM_API(shmem_ctx_create, pshmem_ctx_create);
int pshmem_ctx_create(long options, shmem_ctx_t *ctx)
{
    iso_check_life(__func__);
    return iso_ctx_create(__func__, ISO->world, options, ctx);
}

static void destroy_ctx(struct ctx *ctx)
{
    struct state *self = ISO;
    iso_quiet(ctx);
    pthread_mutex_lock(&self->tables_lock);
    ctx->team->contexts_made--;
    ctx->team = NULL;
    ctx->n_pes = 0;
    int index = (int)((uintptr_t)ctx->handle & (CTXS_MAX - 1));
    ctx->handle = (shmem_ctx_t)((uintptr_t)ctx->handle + ((uintptr_t)1 << 16)); /* the old handle is dead at once */
    ctx->next_free = self->free_ctx;
    self->free_ctx = index;
    pthread_mutex_unlock(&self->tables_lock);
}

void iso_ctx_destroy_of_team(struct team *team)
{
    for (int i = FIRST_INDEX; i < ISO->n_ctxs && team->contexts_made > 0; i++)
        if (ISO->ctxs[i]->team == team)
            destroy_ctx(ISO->ctxs[i]);
}

SHMEM_API(shmem_ctx_destroy, pshmem_ctx_destroy);
void pshmem_ctx_destroy(shmem_ctx_t handle)
{
    iso_check_life(__func__);
    if (handle == SHMEM_CTX_INVALID)
        return;
    if (handle == SHMEM_CTX_DEFAULT)
        iso_fatal(__func__, "SHMEM_CTX_DEFAULT cannot be destroyed");
    destroy_ctx(iso_ctx_find(handle, __func__));
}

SHMEM_API(shmem_ctx_get_team, pshmem_ctx_get_team);
int pshmem_ctx_get_team(shmem_ctx_t handle, shmem_team_t *team)
{
    iso_check_life(__func__);
    iso_check_out(__func__, "team", team);
    struct ctx *ctx = find_ctx(handle);
    *team = ctx != NULL ? ctx->team->handle : SHMEM_TEAM_INVALID;
    return ctx != NULL ? 0 : 1;
}

/* ---- sessions: hints for a transport that batches; stores of this host are as cheap as they get ---- */

SHMEM_API(shmem_ctx_session_start, pshmem_ctx_session_start);
void pshmem_ctx_session_start(shmem_ctx_t handle, long options, const shmem_ctx_session_config_t *config,
                              long config_mask)
{
    iso_check_life(__func__);
    if (handle == SHMEM_CTX_INVALID)
        return;
    struct ctx *ctx = iso_ctx(handle, __func__);
    (void)options; /* hints: also those of a later version are taken */
    if ((config_mask & ~(long)SHMEM_CTX_SESSION_TOTAL_OPS) != 0)
        iso_fatal(__func__, "config_mask %#lx has bits outside SHMEM_CTX_SESSION_TOTAL_OPS",
                  (unsigned long)config_mask);
    if (config_mask != 0 && config == NULL)
        iso_fatal(__func__, "config is a null pointer and config_mask is not 0");
    ctx->in_session = true;
}

SHMEM_API(shmem_ctx_session_stop, pshmem_ctx_session_stop);
void pshmem_ctx_session_stop(shmem_ctx_t handle)
{
    iso_check_life(__func__);
    if (handle != SHMEM_CTX_INVALID)
        iso_ctx(handle, __func__)->in_session = false;
}
