/* SPDX-License-Identifier: MIT */
/* Batches: calls between shmemx_coll_group_begin and _end of a thread are collected, checked together at the end, and
 * enqueued by few launches. First all sends and receives of each stream by one, which makes progress with all of them
 * at once; then the collectives in their order, where small all-gathers and all-to-alls of one slot, with no other call
 * of that slot between them, are one launch, whatever streams this PE has them on. Invariant: what is merged depends on
 * facts that are equal on all members (docs/collectives.md), and on the calls of the batch, which are, too.
 * Called by users, coll_stream.c, pairs.c, collectives.c. */
#include "../batch.h"
#include "../../../bootstrap/log.h"
#include "../coll_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct collected {
    bool is_pair, done;
    struct pair_call pair;
    shmemx_coll_t coll;
    shmemx_blocks_t blocks; /* a copy: the user's may be on a stack */
    shmemx_stream_t stream;
    struct stream_call call; /* coll, checked */
};

struct group {
    int depth; /* begins without their end */
    struct collected *calls;
    size_t n, room;
    bool incomplete; /* a call had no memory */
};

static _Thread_local struct group group;

#define DECLARE(name) extern void isod_stream_##name##_kernel(void);
ISOD_STREAM_BATCHES(DECLARE)
#undef DECLARE

/* ---- collect ---- */

static struct collected *add(shmemx_stream_t stream)
{
    if (group.n == group.room) {
        size_t room = group.room * 2 + 16;
        struct collected *calls = (struct collected *)realloc(group.calls, room * sizeof *calls);
        if (calls == NULL) {
            log_error("shmemx_coll_group_begin: no memory for %zu calls", room);
            group.incomplete = true;
            return NULL;
        }
        group.calls = calls;
        group.room = room;
    }
    struct collected *c = &group.calls[group.n++];
    memset(c, 0, sizeof *c);
    c->stream = stream;
    return c;
}

/* ---- check ---- */

/* All of them, so that each wrong one has its sentence. 0, or the first one's error. */
static int check(struct group *g)
{
    int first = g->incomplete ? -EIO : 0;
    for (size_t i = 0; i < g->n; i++) {
        struct collected *c = &g->calls[i];
        if (c->coll.blocks != NULL)
            c->coll.blocks = &c->blocks;
        int rc = c->is_pair ? iso_pairs_check(&c->pair) : iso_stream_admit(&c->call, &c->coll, c->stream);
        first = first != 0 ? first : rc;
    }
    return first;
}

/* ---- sends and receives ---- */

static int enqueue_pairs(struct group *g)
{
    const struct pair_call **calls = (const struct pair_call **)malloc((g->n + 1) * sizeof *calls);
    size_t n = 0;
    if (calls == NULL) {
        log_error("shmemx_coll_group_end: no memory for %zu calls", g->n);
        return 1;
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->calls[i].is_pair)
            calls[n++] = &g->calls[i].pair;
    int rc = n > 0 ? iso_pairs_enqueue(calls, n) : 0;
    free(calls);
    return rc;
}

/* ---- collectives ---- */

/* LL where the table has it for an all-gather of all these bytes from and to private memory. */
static gpu_kernel choose(const struct stream_call *first, uint64_t bytes, struct select_shape *shape)
{
    struct select_facts f = first->facts;
    f.kind = SHMEMX_FCOLLECT;
    f.type = SHMEMX_UINT8;
    f.block = bytes;
    f.bytes = bytes * (uint64_t)f.n_pes;
    f.has &= ~(unsigned)(ISOD_NEEDS_DEST | ISOD_NEEDS_SOURCE);
    f.near = 0;
    struct select_choice choice = iso_stream_choose(first->slot->table, &f);
    *shape = choice.shape;
    bool ll = f.direct && (strcmp(choice.algorithm->name, "ll") == 0 || strcmp(choice.algorithm->name, "ll128") == 0);
    uint64_t most = (uint64_t)ISOD_LL_EPOCHS * f.inbox_bytes, least = (bytes + most - 1) / most;
    if (!ll || least > f.most_blocks)
        return isod_stream_batch_staged_kernel;
    shape->grid = ISO_MAX(shape->grid, (unsigned)least);
    return isod_stream_batch_ll_kernel;
}

/* The other streams of calls that go with the first: `before`, its stream waits for their work; else they for it. */
static int join(struct stream_call *const *calls, uint32_t n, bool before)
{
    const struct stream_call *first = calls[0];
    for (uint32_t i = 1; i < n; i++) {
        shmemx_stream_t other = calls[i]->stream;
        uint32_t same = 0;
        while (calls[same]->stream != other)
            same++;
        if (same < i)
            continue;
        if (iso_gpu_stream_after(first->device->gpu, before ? first->stream : other,
                                 before ? other : first->stream) != 0) {
            log_error("shmemx_coll_group_end: the streams of calls of slot %d cannot wait for each other: %s",
                      first->slot->number, iso_gpu_error(first->device->gpu));
            return 1;
        }
    }
    return 0;
}

static int launch_group(struct stream_call *const *calls, struct isod_batch *b)
{
    const struct stream_call *first = calls[0];
    struct select_shape shape;
    gpu_kernel kernel = choose(first, (uint64_t)b->units * 16, &shape);
    struct gpu_launch l = {.kernel = kernel,
                           .grid.x = shape.grid,
                           .block.x = shape.threads,
                           .args = b,
                           .args_bytes = sizeof *b,
                           .early = true};
    b->h = first->slot->handle;
    b->call = first->args.call;
    b->share = (b->units + shape.grid - 1) / shape.grid;
    if (iso_stream_slot_order(first) != 0 || join(calls, b->n, true) != 0)
        return 1;
    struct stream_span span;
    iso_device_trace_enter(&span, PROFILE_STREAM, first->call.name,
                           (uint64_t)b->units * 16 * (uint64_t)first->facts.n_pes, first->stream);
    span.how = kernel == isod_stream_batch_ll_kernel ? "batch_ll" : "batch_staged";
    int rc = iso_gpu_launch(first->device->gpu, &l, first->stream);
    iso_device_trace_leave(&span);
    if (rc == 0)
        return join(calls, b->n, false);
    log_error("shmemx_coll_group_end: %s", iso_gpu_error(first->device->gpu));
    return 1;
}

static bool is_captured(const struct stream_call *c)
{
    return iso_gpu_stream_is_capturing(c->device->gpu, c->stream);
}
/* By what all members have alike: a stream is this PE's own. Members capture these kinds alike. No stream waits from
 * within a capture for one outside of it. */
static bool fits(const struct stream_call *c, const struct stream_call *first)
{
    const shmemx_coll_t *coll = c->call.coll;
    bool moves = (coll->kind == SHMEMX_FCOLLECT || coll->kind == SHMEMX_ALLTOALL) && coll->engines == 0;
    return moves && coll->splits == NULL && c->args.bytes > 0 && c->args.bytes <= c->facts.inbox_bytes &&
           (c->stream == first->stream || is_captured(c) == is_captured(first));
}

/* The call, and with it those behind that may go with it: up to the next call of its slot that may not. */
static int enqueue_from(struct group *g, size_t at)
{
    struct stream_call *first = &g->calls[at].call, *calls[ISOD_BATCH_CALLS];
    struct isod_batch b;
    b.n = b.units = 0;
    for (size_t i = at; i < g->n; i++) {
        struct collected *c = &g->calls[i];
        const struct isod_stream_coll *args = &c->call.args;
        if (c->is_pair || c->done || c->call.slot != first->slot)
            continue;
        if (!fits(&c->call, first) || b.n == ISOD_BATCH_CALLS)
            break;
        calls[b.n] = &c->call;
        b.calls[b.n++] = (struct isod_batch_call){args->dest, args->source, (uint32_t)args->bytes, b.units,
                                                  c->coll.kind == SHMEMX_ALLTOALL, 0};
        b.units += (uint32_t)((args->bytes + 15) / 16);
    }
    if (b.n < 2) {
        g->calls[at].done = true;
        return iso_stream_run(first);
    }
    for (size_t i = at, left = b.n; left > 0; i++) {
        struct collected *c = &g->calls[i];
        if (c->is_pair || c->done || c->call.slot != first->slot)
            continue;
        c->done = true;
        c->call.merged = (struct stream_merged){b.n - (uint32_t)left, b.n};
        left--;
        if (iso_stream_note(&c->call) != 0)
            return 1;
    }
    return launch_group(calls, &b);
}

static int enqueue_group(struct group *g)
{
    int rc = enqueue_pairs(g);
    for (size_t i = 0; i < g->n && rc == 0; i++) {
        struct collected *c = &g->calls[i];
        if (c->is_pair || c->done)
            continue;
        if (c->call.slot == NULL) /* of no bytes */
            rc = iso_stream_note(&c->call);
        else
            rc = enqueue_from(g, i);
    }
    return rc;
}

void iso_group_stop(void)
{
    if (group.depth > 0)
        log_error("shmemx_coll_group_end: it was not called for a batch of %zu calls, which are not made", group.n);
    free(group.calls);
    memset(&group, 0, sizeof group);
}

/* ---- public ---- */

SHMEM_API(shmemx_coll_group_begin, pshmemx_coll_group_begin);
int pshmemx_coll_group_begin(void)
{
    if (iso_device_running(__func__) == NULL)
        return 1;
    group.depth++;
    return 0;
}

SHMEM_API(shmemx_coll_group_end, pshmemx_coll_group_end);
int pshmemx_coll_group_end(void)
{
    if (group.depth == 0) {
        if (iso_enter(__func__) != 0)
            return 1;
        log_error("shmemx_coll_group_end: this thread has no group; call shmemx_coll_group_begin before");
        return 1;
    }
    if (--group.depth > 0)
        return 0;
    struct group g = group;
    memset(&group, 0, sizeof group);
    int rc = check(&g);
    if (rc == 0)
        rc = enqueue_group(&g) == 0 ? 0 : -EIO;
    free(g.calls);
    return rc;
}

SHMEM_API(shmemx_coll_on_stream, pshmemx_coll_on_stream);
int pshmemx_coll_on_stream(const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    struct stream_call c;
    if (ISO_UNLIKELY(group.depth > 0)) {
        if (coll == NULL) {
            log_error("shmemx_coll_on_stream: coll is a null pointer");
            group.incomplete = true;
            return -EINVAL;
        }
        struct collected *added = add(stream);
        if (added == NULL)
            return 1;
        added->coll = *coll;
        if (coll->blocks != NULL)
            added->blocks = *coll->blocks;
        return 0;
    }
    int rc = iso_stream_admit(&c, coll, stream);
    return rc != 0 ? rc : iso_stream_run(&c) == 0 ? 0 : -EIO;
}

static int one(const struct pair_call *c)
{
    if (group.depth > 0) {
        struct collected *added = add(c->stream);
        if (added == NULL)
            return 1;
        added->is_pair = true;
        added->pair = *c;
        return 0;
    }
    const struct pair_call *calls[] = {c};
    int rc = iso_pairs_check(c);
    return rc != 0 ? rc : iso_pairs_enqueue(calls, 1) == 0 ? 0 : -EIO;
}

SHMEM_API(shmemx_send_on_stream, pshmemx_send_on_stream);
int pshmemx_send_on_stream(shmem_team_t team, const void *source, size_t bytes, int to, int tag, shmemx_stream_t stream)
{
    struct pair_call c = {team, (void *)(uintptr_t)source, bytes, to, tag, true, stream};
    return one(&c);
}

SHMEM_API(shmemx_recv_on_stream, pshmemx_recv_on_stream);
int pshmemx_recv_on_stream(shmem_team_t team, void *dest, size_t bytes, int from, int tag, shmemx_stream_t stream)
{
    struct pair_call c = {team, dest, bytes, from, tag, false, stream};
    return one(&c);
}
