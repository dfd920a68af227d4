/* SPDX-License-Identifier: MIT */
/* The other side of the one `if`: what the CPU has no pointer to. Chooses a transport per peer at init, and carries
 * each far operation to the right place: device memory of this node to the copy agent, the rest to the peer's
 * transport. Ranges that span the pieces of one registered buffer are split here. */
#include "transport.h"

#include <stdio.h>
#include <string.h>

static const struct transport_ops *const rows[] = {
#ifdef ISO_PES_AS_THREADS
    &iso_transport_double,
#endif
    &iso_transport_ipc,
};

const struct transport_ops *iso_transport_choose(const struct peer *peer, const char **why)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i]->reaches(peer, why))
            return rows[i];
    return NULL;
}

_Noreturn ISO_COLD static void unsupported(const char *call, struct place at, const char *what)
{
    const struct segment *s = at.segment;
    if (s != NULL && s->staged)
        iso_fatal(
            call,
            "%s on bytes %zu.. of a registered buffer piece that shares its page with other data is not possible; "
            "align the buffer to %d bytes, or put the word into the symmetric heap",
            what, at.offset, 4096);
    iso_fatal(call, "%s on %s memory of pe %d is not supported by transport %s", what,
              s != NULL ? iso_segment_kind_name(s->kind) : "spanning", at.pe, ISO->peers[at.pe].transport->name);
}

static const struct transport_ops *ops_of(const struct place *at) { return ISO->peers[at->pe].transport; }

static bool by_copy_agent(const struct place *at, const char *call)
{
    if (at->segment->kind != SEGMENT_DEVICE || at->segment->peers[at->pe].gpu_ptr == NULL)
        return false;
    if (ISO->copy_agent == NULL)
        iso_fatal(call, "device memory is not supported in this build (GPU=cpu)");
    return true;
}

/* The part of [addr, addr + len) that lies in the piece where addr lies. */
static size_t piece(const void *addr, size_t len, struct place *at, const char *call, const char *arg)
{
    *at = iso_place(addr, 1, at->pe, call, arg);
    return ISO_MIN(len, at->segment->limit - at->offset);
}

static void put_piece(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call)
{
    if (to.cpu != NULL) {
        memcpy(to.cpu, source, len);
    } else if (by_copy_agent(&to, call)) {
        ISO->copy_agent->copy(to.segment->peers[to.pe].gpu_ptr + to.offset, source, len);
    } else if (ops_of(&to)->put != NULL) {
        ctx->remote_dirty = true;
        ops_of(&to)->put(ctx, to, source, len);
    } else {
        unsupported(call, to, "put");
    }
}

static void get_piece(struct ctx *ctx, void *dest, struct place from, size_t len, const char *call)
{
    if (from.cpu != NULL)
        memcpy(dest, from.cpu, len);
    else if (by_copy_agent(&from, call))
        ISO->copy_agent->copy(dest, from.segment->peers[from.pe].gpu_ptr + from.offset, len);
    else if (ops_of(&from)->get != NULL)
        ops_of(&from)->get(ctx, dest, from, len);
    else
        unsupported(call, from, "get");
}

void iso_far_put(struct ctx *ctx, struct place to, const void *dest, const void *source, size_t len, const char *call)
{
    if (to.segment != NULL) {
        put_piece(ctx, to, source, len, call);
        return;
    }
    for (size_t done = 0, n; done < len; done += n) {
        n = piece((const char *)dest + done, len - done, &to, call, "dest");
        put_piece(ctx, to, (const char *)source + done, n, call);
    }
}

void iso_far_get(struct ctx *ctx, void *dest, struct place from, const void *source, size_t len, const char *call)
{
    if (from.segment != NULL) {
        get_piece(ctx, dest, from, len, call);
        return;
    }
    for (size_t done = 0, n; done < len; done += n) {
        n = piece((const char *)source + done, len - done, &from, call, "source");
        get_piece(ctx, (char *)dest + done, from, n, call);
    }
}

uint64_t iso_far_amo(struct ctx *ctx, struct place at, struct amo op, const char *call)
{
    if (at.segment == NULL || at.segment->kind == SEGMENT_DEVICE || at.segment->staged || ops_of(&at)->amo == NULL)
        unsupported(call, at, "an atomic operation");
    ctx->remote_dirty = true;
    return ops_of(&at)->amo(ctx, at, op);
}

void iso_far_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op, const char *call)
{
    if (at.segment == NULL || at.segment->kind == SEGMENT_DEVICE || at.segment->staged || ops_of(&at)->signal == NULL)
        unsupported(call, at, "a signal");
    ctx->remote_dirty = true;
    ops_of(&at)->signal(ctx, at, value, sig_op);
}

void iso_far_fence(struct ctx *ctx)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i]->fence != NULL)
            rows[i]->fence(ctx);
}

void iso_far_quiet(struct ctx *ctx)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i]->quiet != NULL)
            rows[i]->quiet(ctx);
    ctx->remote_dirty = false;
}

void iso_transport_progress(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i]->progress != NULL)
            rows[i]->progress();
}
