/* SPDX-License-Identifier: MIT */
/* The other side of the one `if`: what the CPU has no pointer to. Chooses a transport per peer at init, and carries
 * each far operation to the right place: device memory of this node to the agent (device_agent.c), the rest to the
 * peer's transport. Ranges that span the pieces of one registered buffer are split here. */
#include "transport.h"
#include "../gpu/device.h"
#include "../ops/word.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct transport_ops *const rows[] = {
#ifdef ISO_PES_AS_THREADS
    &iso_transport_double,
#endif
    &iso_transport_ipc,
    &iso_transport_verbs,
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const struct transport_ops *iso_transport_choose(const struct peer *peer, const char **why)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->reaches(peer, why))
            return rows[i];
    return NULL;
}

/* ---- life cycle ---- */

static bool is_used(const struct transport_ops *row)
{
    for (int pe = 0; ISO->peers != NULL && pe < ISO->n_pes; pe++)
        if (ISO->peers[pe].transport == row)
            return true;
    return false;
}

int iso_transport_open(void)
{
    int rc = 0;
    for (int i = 0; i < ROWS && rc == 0; i++)
        if (rows[i]->open != NULL && is_used(rows[i]))
            rc = rows[i]->open();
    return rc;
}

int iso_transport_start(void)
{
    int rc = 0;
    for (int i = 0; i < ROWS && rc == 0; i++)
        if (rows[i]->start != NULL && is_used(rows[i]))
            rc = rows[i]->start();
    return rc;
}

void iso_transport_stop(void)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->stop != NULL)
            rows[i]->stop();
}

void iso_transport_forget(const struct segment *segment)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->forget != NULL)
            rows[i]->forget(segment);
}

static void release_rows(int n)
{
    for (int i = 0; i < n; i++)
        if (rows[i]->release != NULL)
            rows[i]->release();
}

bool iso_transport_hold(const struct segment *segment, size_t offset, size_t len)
{
    for (int i = 0; i < ROWS; i++) {
        if (rows[i]->hold == NULL || rows[i]->hold(segment, offset, len))
            continue;
        release_rows(i);
        return false;
    }
    return true;
}

void iso_transport_release(void) { release_rows(ROWS); }

void iso_transport_exchange_device(const struct segment *segment)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->exchange_device != NULL && is_used(rows[i]))
            rows[i]->exchange_device(segment);
}

size_t iso_transport_text(char *text, size_t bytes)
{
    size_t n = 0;
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->text != NULL)
            n += rows[i]->text(n < bytes ? text + n : NULL, n < bytes ? bytes - n : 0);
    return n;
}

/* ---- what no row supports ---- */

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

struct far_move {
    struct ctx *ctx;
    const char *call;
    bool nbi;
    bool own; /* local memory is a word of the library's, on the host */
};

/* Only of what is not symmetric the driver must be asked; such memory is allowed with device memory of a peer. */
static bool is_foreign_device(const struct far_move *m, const struct place *at, const void *local)
{
    return at->segment->on_device && !m->own && !m->ctx->of_proxy && iso_segment_of(local, 1) == NULL &&
           iso_gpu_pointer_kind(ISO->device->gpu, local) == GPU_POINTER_DEVICE;
}

/* Device memory that the transport does not move itself: it passes through host memory. */
static bool needs_bounce(const struct far_move *m, const struct place *at, const void *local, size_t len)
{
    const struct transport_ops *ops = ops_of(at);
    if (iso_far_is_local(local))
        return ops->moves_device == NULL || !ops->moves_device(*at, local, len);
    return is_foreign_device(m, at, local);
}

static void *bounce(size_t len, const char *call)
{
    void *memory = malloc(len);
    if (memory == NULL)
        iso_fatal(call, "no memory for a copy of %zu bytes of device memory", len);
    return memory;
}

static void put_far(const struct far_move *m, struct place to, const void *source, size_t len)
{
    bool local = needs_bounce(m, &to, source, len);
    void *copy = local ? bounce(len, m->call) : NULL;
    const struct transport_ops *ops = ops_of(&to);
    if (local)
        iso_agent_copy(copy, source, len);
    iso_ctx_mark_dirty(m->ctx);
    if (m->nbi && !local && ops->put_nbi != NULL)
        ops->put_nbi(m->ctx, to, source, len);
    else
        ops->put(m->ctx, to, local ? copy : source, len);
    free(copy);
}

static void get_far(const struct far_move *m, void *dest, struct place from, size_t len)
{
    bool local = needs_bounce(m, &from, dest, len);
    void *copy = local ? bounce(len, m->call) : NULL;
    const struct transport_ops *ops = ops_of(&from);
    if (m->nbi && !local && ops->get_nbi != NULL) {
        iso_ctx_mark_dirty(m->ctx);
        ops->get_nbi(m->ctx, dest, from, len);
        return;
    }
    ops->get(m->ctx, local ? copy : dest, from, len);
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
static void put_piece(const struct far_move *m, struct place to, const void *source, size_t len)
{
    char *device;
    if (to.cpu != NULL && !iso_far_is_local(source))
        memcpy(to.cpu, source, len);
    else if (to.cpu != NULL)
        iso_agent_copy(to.cpu, source, len);
    else if ((device = by_agent(&to, m->call)) != NULL)
        iso_agent_copy(device, source, len);
    else if (ops_of(&to)->put != NULL)
        put_far(m, to, source, len);
    else
        unsupported(m->call, to, "put");
}

static void get_piece(const struct far_move *m, void *dest, struct place from, size_t len)
{
    const char *device;
    if (from.cpu != NULL && !iso_far_is_local(dest))
        memcpy(dest, from.cpu, len);
    else if (from.cpu != NULL)
        iso_agent_copy(dest, from.cpu, len);
    else if ((device = by_agent(&from, m->call)) != NULL)
        iso_agent_copy(dest, device, len);
    else if (ops_of(&from)->get != NULL)
        get_far(m, dest, from, len);
    else
        unsupported(m->call, from, "get");
}

static void put_pieces(const struct far_move *m, struct place to, const char *dest, const char *source, size_t len)
{
    if (to.segment != NULL) {
        put_piece(m, to, source, len);
        return;
    }
    for (size_t done = 0, n; done < len; done += n) {
        n = piece(dest + done, len - done, &to, m->call, "dest");
        put_piece(m, to, source + done, n);
    }
}

static void get_pieces(const struct far_move *m, char *dest, struct place from, const char *source, size_t len)
{
    if (from.segment != NULL) {
        get_piece(m, dest, from, len);
        return;
    }
    for (size_t done = 0, n; done < len; done += n) {
        n = piece(source + done, len - done, &from, m->call, "source");
        get_piece(m, dest + done, from, n);
    }
}

void iso_far_put(struct ctx *ctx, struct place to, const void *dest, const void *source, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, false, false};
    put_pieces(&m, to, (const char *)dest, (const char *)source, len);
}

void iso_far_put_nbi(struct ctx *ctx, struct place to, const void *dest, const void *source, size_t len,
                     const char *call)
{
    const struct far_move m = {ctx, call, true, false};
    put_pieces(&m, to, (const char *)dest, (const char *)source, len);
}

void iso_far_get(struct ctx *ctx, void *dest, struct place from, const void *source, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, false, false};
    get_pieces(&m, (char *)dest, from, (const char *)source, len);
}

void iso_far_get_nbi(struct ctx *ctx, void *dest, struct place from, const void *source, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, true, false};
    get_pieces(&m, (char *)dest, from, (const char *)source, len);
}

uint64_t iso_far_amo(struct ctx *ctx, struct place at, struct amo op, const char *call)
{
    char *device = at.segment != NULL ? by_agent(&at, call) : NULL;
    if (device != NULL)
        return iso_agent_amo(device, op);
    if (at.segment == NULL || at.segment->staged || ops_of(&at)->amo == NULL)
        unsupported(call, at, "an atomic operation");
    iso_ctx_mark_dirty(ctx);
    return ops_of(&at)->amo(ctx, at, op);
}

void iso_far_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch, const char *call)
{
    const struct transport_ops *ops = ops_of(&at);
    bool direct = at.segment != NULL && (!at.segment->on_device || at.segment->peers[at.pe].gpu_ptr == NULL);
    if (!direct || at.segment->staged || ops->amo_nbi == NULL) {
        uint64_t before = iso_far_amo(ctx, at, op, call);
        iso_word_to(fetch, before, op.bytes);
        return;
    }
    iso_ctx_mark_dirty(ctx);
    ops->amo_nbi(ctx, at, op, fetch);
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
    iso_ctx_mark_dirty(ctx);
    ops_of(&at)->signal(ctx, at, value, sig_op);
}

/* The transport's, whatever kind of memory it is: the agent does not reach it. */
static bool is_transported(const struct place *at)
{
    const struct segment *s = at->segment;
    return s != NULL && (!s->on_device || (s->peers[at->pe].gpu_ptr == NULL && !ops_of(at)->by_pointer));
}

void iso_far_put_signal(struct ctx *ctx, const struct far_message *m)
{
    const struct transport_ops *ops = ops_of(&m->to);
    const struct far_move move = {ctx, m->call, m->nbi, false};
    bool one = ops->put_signal != NULL && is_transported(&m->to) && is_transported(&m->at) && !m->at.segment->staged;
    if (one && !needs_bounce(&move, &m->to, m->source, m->len)) {
        iso_ctx_mark_dirty(ctx);
        ops->put_signal(ctx, m);
        return;
    }
    put_pieces(&move, m->to, (const char *)m->dest, (const char *)m->source, m->len);
    iso_far_signal(ctx, m->at, m->signal, m->sig_op, m->call);
}

void iso_far_put_words(struct ctx *ctx, struct place to, const uint64_t *words, size_t n, const char *call)
{
    const struct transport_ops *ops = ops_of(&to);
    if (ops->put_words == NULL || to.segment->on_device)
        unsupported(call, to, "a put of words");
    iso_ctx_mark_dirty(ctx);
    ops->put_words(ctx, to, words, n * sizeof *words);
}

uint64_t iso_far_load(struct ctx *ctx, struct place at, unsigned bytes, const char *call)
{
    const char *device = by_agent(&at, call);
    uint64_t value = 0;
    if (device != NULL)
        return iso_agent_load(device, bytes);
    get_piece(&(struct far_move){ctx, call, false, true}, &value, at, bytes);
    return value;
}

void iso_far_store(struct ctx *ctx, struct place at, uint64_t value, unsigned bytes, const char *call)
{
    char *device = by_agent(&at, call);
    if (device != NULL)
        iso_agent_store(device, value, bytes);
    else
        put_piece(&(struct far_move){ctx, call, false, true}, at, &value, bytes);
}

void iso_far_fence(struct ctx *ctx)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->fence != NULL)
            rows[i]->fence(ctx);
}

void iso_far_quiet(struct ctx *ctx)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->quiet != NULL)
            rows[i]->quiet(ctx);
    iso_ctx_clean(ctx);
}

void iso_far_pe_quiet(struct ctx *ctx, int pe)
{
    const struct transport_ops *ops = ISO->peers[pe].transport;
    if (ops->pe_quiet != NULL)
        ops->pe_quiet(ctx, pe);
    else if (ops->quiet != NULL)
        ops->quiet(ctx);
}

bool iso_transport_progress(void)
{
    bool worked = false;
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->progress != NULL)
            worked |= rows[i]->progress();
    return worked;
}

void iso_transport_rest(uint64_t ns)
{
    const struct timespec t = {0, (long)ns};
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->rest != NULL && rows[i]->rest(ns))
            return;
    nanosleep(&t, NULL);
}
