/* SPDX-License-Identifier: MIT */
/* The other side of the one `if`: what the CPU has no pointer to. Chooses a transport per peer at init, and carries
 * each far operation to the right place: device memory of this node to the agent (device_agent.c), the rest to the
 * peer's transport. Ranges that span the pieces of one registered buffer are split here. */
#include "transport.h"
#include "../device.h"

#include <stdlib.h>
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

/* ---- device memory, of either side ---- */

/* The address for this PE's device, when the agent is to do it; NULL: it is for the transport. */
static char *by_agent(const struct place *at, const char *call)
{
    const struct segment *s = at->segment;
    if (!s->on_device)
        return NULL;
    if (s->peers[at->pe].gpu_ptr != NULL)
        return s->peers[at->pe].gpu_ptr + at->offset;
    if (ops_of(at)->by_pointer)
        iso_fatal(call, "the device of this PE does not reach memory of the device of pe %d", at->pe);
    return NULL;
}

bool iso_far_is_local_slow(const void *addr) { return ISO->device != NULL && iso_device_holds(addr); }

/* Device memory passes through host memory towards a transport, which knows only that. */
static void *bounce(size_t len, const char *call)
{
    void *memory = malloc(len);
    if (memory == NULL)
        iso_fatal(call, "no memory for a copy of %zu bytes of device memory", len);
    return memory;
}

static void put_far(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call)
{
    bool local = iso_far_is_local(source);
    void *copy = local ? bounce(len, call) : NULL;
    if (local)
        iso_agent_copy(copy, source, len);
    ctx->remote_dirty = true;
    ops_of(&to)->put(ctx, to, local ? copy : source, len);
    free(copy);
}

static void get_far(struct ctx *ctx, void *dest, struct place from, size_t len, const char *call)
{
    bool local = iso_far_is_local(dest);
    void *copy = local ? bounce(len, call) : NULL;
    ops_of(&from)->get(ctx, local ? copy : dest, from, len);
    if (local)
        iso_agent_copy(dest, copy, len);
    free(copy);
}

/* ---- pieces ---- */

/* The part of [addr, addr + len) that lies in the piece where addr lies. */
static size_t piece(const void *addr, size_t len, struct place *at, const char *call, const char *arg)
{
    *at = iso_place(addr, 1, at->pe, call, arg);
    return ISO_MIN(len, at->segment->limit - at->offset);
}

/* A CPU pointer may come here too: the local side is device memory then, or the place was found piece by piece. */
static void put_piece(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call)
{
    char *device;
    if (to.cpu != NULL && !iso_far_is_local(source))
        memcpy(to.cpu, source, len);
    else if (to.cpu != NULL)
        iso_agent_copy(to.cpu, source, len);
    else if ((device = by_agent(&to, call)) != NULL)
        iso_agent_copy(device, source, len);
    else if (ops_of(&to)->put != NULL)
        put_far(ctx, to, source, len, call);
    else
        unsupported(call, to, "put");
}

static void get_piece(struct ctx *ctx, void *dest, struct place from, size_t len, const char *call)
{
    const char *device;
    if (from.cpu != NULL && !iso_far_is_local(dest))
        memcpy(dest, from.cpu, len);
    else if (from.cpu != NULL)
        iso_agent_copy(dest, from.cpu, len);
    else if ((device = by_agent(&from, call)) != NULL)
        iso_agent_copy(dest, device, len);
    else if (ops_of(&from)->get != NULL)
        get_far(ctx, dest, from, len, call);
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
    char *device = at.segment != NULL ? by_agent(&at, call) : NULL;
    if (device != NULL)
        return iso_agent_amo(device, op);
    if (at.segment == NULL || at.segment->staged || ops_of(&at)->amo == NULL)
        unsupported(call, at, "an atomic operation");
    ctx->remote_dirty = true;
    return ops_of(&at)->amo(ctx, at, op);
}

/* On device memory: earlier copies of the agent are done, so the order is there. */
void iso_far_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op, const char *call)
{
    char *device = at.segment != NULL ? by_agent(&at, call) : NULL;
    const struct amo add = {AMO_ADD, 8, value, 0, false};
    if (device != NULL && sig_op == SHMEM_SIGNAL_SET) {
        iso_agent_store(device, value, 8);
        return;
    }
    if (device != NULL) {
        (void)iso_agent_amo(device, add);
        return;
    }
    if (at.segment == NULL || at.segment->staged || ops_of(&at)->signal == NULL)
        unsupported(call, at, "a signal");
    ctx->remote_dirty = true;
    ops_of(&at)->signal(ctx, at, value, sig_op);
}

uint64_t iso_far_load(struct ctx *ctx, struct place at, unsigned bytes, const char *call)
{
    const char *device = by_agent(&at, call);
    uint64_t value = 0;
    if (device != NULL)
        return iso_agent_load(device, bytes);
    get_piece(ctx, &value, at, bytes, call);
    return value;
}

void iso_far_store(struct ctx *ctx, struct place at, uint64_t value, unsigned bytes, const char *call)
{
    char *device = by_agent(&at, call);
    if (device != NULL)
        iso_agent_store(device, value, bytes);
    else
        put_piece(ctx, at, &value, bytes, call);
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
