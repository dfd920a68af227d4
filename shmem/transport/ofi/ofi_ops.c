/* SPDX-License-Identifier: MIT */
/* The operations. Small moves are messages, which take a copy of the bytes; from OFI_BULK_MIN on, moves go by RMA, in
 * parts where the peer's key or a registration of this PE ends. A put by the stage is an RMA and a message, numbered at
 * once and sent at the completion of the RMA: what comes later in the queue is applied behind it. So is a message that
 * must follow RMAs that go straight to their place. An RMA after a fence waits for the answers of the messages before
 * it.
 * Device memory as local side goes by RMA, whatever its size, or transport.c bounces it: see
 * iso_network_moves_device. */
#include "../../../device/gpu.h"
#include "../device_agent.h"
#include "../word.h"
#include "ofi.h"

#include <string.h>

/* Messages are sent: operations for the target's CPU, in the order of the queue. Called with network.lock held. */

static bool is_plain(const struct ofi_message *m)
{
    return m->type == OFI_AMO || m->type == OFI_PUT || m->type == OFI_COPY || m->type == OFI_FLUSH;
}

static void number(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, void *into, int part)
{
    m->group = (uint8_t)q->group;
    m->pe = ISO->my_pe;
    m->token = o->peers[q->pe].token_out;
    m->serial = q->asks.made++;
    bool now = m->haste == OFI_NOW;
    q->asked[m->serial % OFI_CREDITS] =
        (struct ofi_ask){into, m->type == OFI_GET ? m->len : m->bytes, is_plain(m), now, part, m->addr};
    q->due += now;
    if (now)
        q->prompt = q->asks.made;
    if (m->haste != OFI_NEVER_WANTED)
        q->wanted = q->asks.made;
    q->burst = q->burst_look == o->looks ? q->burst + 1 : 1;
    q->burst_look = o->looks;
    o->counts.messages++;
}

/* The message, numbered, to be submitted by the caller: room is there. `part` of the stage is free at its answer. */
static struct ofi_op *prepare_op(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, void *into, int part)
{
    struct ofi_op *op = iso_ofi_take(o, q->pe, OFI_SEND);
    op->own = true;
    o->own++;
    number(o, q, m, into, part);
    memcpy(op->buffer, m, sizeof *m);
    op->len = sizeof *m;
    return op;
}

/* Into the queue's pack; false: there is none with so much room. */
static bool join_message(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, const void *data, void *into)
{
    struct ofi_op *op = q->pack;
    size_t len = iso_ofi_data_of(m);
    if (op == NULL || op->len + sizeof *m + len > sizeof *m + o->data_max)
        return false;
    number(o, q, m, into, -1);
    memcpy(op->buffer + op->len, m, sizeof *m);
    if (len > 0)
        memcpy(op->buffer + op->len + sizeof *m, data, len);
    op->len += sizeof *m + len;
    o->counts.joined++;
    return true;
}

/* Until the RMAs that it must follow are complete. Later messages of the queue are held behind it. */
static void hold(struct ofi_queue *q, struct ofi_op *op)
{
    op->number = q->follow;
    if (q->first_held != NULL)
        q->last_held->next = op;
    else
        q->first_held = op;
    q->last_held = op;
}

/* Memory of this PE that a message is about, NULL for none: what it brings, and where its answer goes. */
struct ofi_ends {
    const void *data;
    void *into;
};

/* `more`: another one for the same queue comes at once. */
static void send(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, struct ofi_ends ends, bool more)
{
    iso_ofi_make_room(o, q, OFI_NEEDS_ASK);
    if (iso_network_has_lost(&o->net, q->pe))
        return;
    if (m->type == OFI_AMO && ends.into != NULL)
        m->type = OFI_FETCH;
    bool burst = q->burst_look == o->looks && q->burst >= OFI_JOIN_MIN;
    bool later = more || (is_plain(m) && (burst || q->due >= OFI_JOIN_MIN));
    bool held = q->moves.done < q->follow, joined = !held && join_message(o, q, m, ends.data, ends.into);
    if (q->pack != NULL && !(joined && later)) /* a target keeps what is behind the pack until that comes */
        iso_ofi_submit_pack(o, q);
    if (joined || iso_network_has_lost(&o->net, q->pe))
        return;
    struct ofi_op *op = prepare_op(o, q, m, ends.into, -1);
    if (m->type == OFI_PUT) {
        memcpy(op->buffer + sizeof *m, ends.data, m->len);
        op->len += m->len;
    }
    if (ISO_UNLIKELY(held)) {
        hold(q, op);
        return;
    }
    if (!later) {
        iso_ofi_submit(o, op);
        return;
    }
    q->pack = op;
    q->next_packed = o->packed;
    o->packed = q;
}

void iso_ofi_send(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, const void *data, void *into)
{
    send(o, q, m, (struct ofi_ends){data, into}, false);
}

/* Asks for an answer to the queue's first `asked` messages, where none is on its way; gives up the lock meanwhile. */
static void flush_queue(struct ofi *o, struct ofi_queue *q, uint64_t asked)
{
    struct ofi_message flush = {.type = OFI_FLUSH, .haste = OFI_NOW};
    if (asked <= ISO_MAX(q->asks.done, q->prompt))
        return;
    if (asked <= q->wanted) /* by the program */
        q->hurry = OFI_CREDITS;
    iso_ofi_send(o, q, &flush, NULL, NULL);
}

void iso_ofi_settle(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what)
{
    flush_queue(o, q, asked);
    iso_ofi_wait(o, q, asked, moved, what);
}

/* ---- moves ---- */

struct ofi_move {
    struct ofi *o;
    struct ofi_queue *q;
    uint64_t remote;
    char *local;
    size_t len;
    bool put;
    bool on_device; /* local memory */
    enum ofi_haste haste;
};

static void move_by_messages(struct ofi_move *m, size_t len)
{
    for (size_t n; len > 0; len -= n, m->len -= n, m->local += n, m->remote += n) {
        n = ISO_MIN(len, m->o->data_max);
        if (n < len) /* words stay whole */
            n -= (m->remote + n) & 7;
        struct ofi_message message = {
            .type = m->put ? OFI_PUT : OFI_GET, .addr = m->remote, .len = (uint32_t)n, .haste = m->haste};
        iso_ofi_send(m->o, m->q, &message, m->local, m->put ? NULL : m->local);
    }
}

/* An RMA for the first n bytes of the move; room is there. */
static struct ofi_op *add_rma(struct ofi_move *m, const struct network_key *key, uint64_t at, size_t n,
                              struct fid_mr *mr)
{
    struct ofi *o = m->o;
    struct ofi_op *op = iso_ofi_take(o, m->q->pe, m->put ? OFI_WRITE : OFI_READ);
    op->own = true;
    o->own++;
    op->local = m->local;
    op->len = n;
    op->mr = mr;
    op->remote = at - key->at;
    op->key = key->key;
    op->q = m->q;
    op->number = m->q->moves.made++;
    *(m->put ? &o->counts.writes : &o->counts.reads) += 1;
    return op;
}

/* How many of up to n bytes it took. */
static size_t add_direct(struct ofi_move *m, const struct network_key *key, size_t n)
{
    struct fid_mr *once = NULL;
    if (m->put)
        iso_ofi_settle(m->o, m->q, m->q->fenced, 0, "fence");
    iso_ofi_make_room(m->o, m->q, OFI_NEEDS_MOVE);
    if (iso_network_has_lost(&m->o->net, m->q->pe))
        return n;
    struct fid_mr *mr = iso_ofi_local(m->o, m->local, &n, &once);
    if (iso_network_has_lost(&m->o->net, m->q->pe))
        return n;
    struct ofi_op *op = add_rma(m, key, m->remote, n, mr);
    op->once = once;
    m->q->unflushed |= m->put && key->flushes != 0;
    m->q->fills_device |= !m->put && m->on_device;
    iso_ofi_submit(m->o, op);
    return n;
}

/* The registration may cover more than a put that ends early for the sake of whole words. */
static size_t add_staged(struct ofi_move *m, size_t n)
{
    struct ofi *o = m->o;
    struct ofi_peer *peer = &o->peers[m->q->pe];
    const struct network_key key = iso_ofi_stage_of(o, m->q->pe);
    struct fid_mr *once = NULL;
    n = ISO_MIN(n, (size_t)OFI_PART_BYTES);
    iso_ofi_make_room(o, m->q, OFI_NEEDS_ASK | OFI_NEEDS_MOVE | OFI_NEEDS_PART);
    if (iso_network_has_lost(&o->net, m->q->pe))
        return n;
    struct fid_mr *mr = iso_ofi_local(o, m->local, &n, &once);
    if (iso_network_has_lost(&o->net, m->q->pe))
        return n;
    if (n < m->len && n > 8)
        n -= (m->remote + n) & 7;
    int part = __builtin_ctz(peer->free_parts);
    peer->free_parts &= ~(1u << part);
    struct ofi_message message = {
        .type = OFI_COPY, .addr = m->remote, .operand = (uint64_t)part * OFI_PART_BYTES, .compare = n};
    struct ofi_op *op = add_rma(m, &key, key.start + message.operand, n, mr);
    op->once = once;
    op->then = prepare_op(o, m->q, &message, NULL, part);
    iso_ofi_submit(o, op);
    return n;
}

static void move_all(struct ofi_move *m)
{
    while (m->len > 0) {
        if (!m->o->bulk || (m->len < OFI_BULK_MIN && !m->on_device)) {
            move_by_messages(m, m->len);
            return;
        }
        bool staged = m->put && m->o->staged;
        struct network_key key = {0};
        size_t n = ISO_MIN(m->len, m->o->bulk_max);
        if (!staged) {
            key = iso_network_key_of(&m->o->net, m->q->pe, m->remote);
            n = (size_t)ISO_MIN((uint64_t)n, key.end - m->remote);
        }
        if (key.by_cpu != 0) {
            move_by_messages(m, n);
            continue;
        }
        n = staged ? add_staged(m, n) : add_direct(m, &key, n);
        m->len -= n;
        m->local += n;
        m->remote += n;
    }
}

/* Kernels of the peer see what RMAs have written to its device memory before what follows. */
static void flush_there(struct ofi *o, struct ofi_queue *q)
{
    struct ofi_message flush = {.type = OFI_FLUSH, .op = 1, .haste = OFI_LATER};
    if (ISO_LIKELY(!q->unflushed))
        return;
    q->follow = q->moves.made;
    q->unflushed = false;
    iso_ofi_send(o, q, &flush, NULL, NULL);
}

/* Kernels of this PE see what RMAs have read into its device memory. */
static void flush_here(struct ofi_queue *q)
{
    if (ISO_LIKELY(!q->fills_device))
        return;
    q->fills_device = q->moves.done < q->moves.made; /* another thread's may be under way: it will wait, too */
    iso_gpu_flush_writes(iso_agent_gpu());
}

/* The next messages must not be seen before RMAs that go straight to their place. Nobody waits for that. */
static void follow_direct(struct ofi *o, struct ofi_queue *q)
{
    if (o->staged)
        return;
    flush_there(o, q);
    q->follow = q->moves.made;
}

/* Of a signal, or a word of a slot. The first message to a peer is answered: iso_ofi_watch waits for that. */
static enum ofi_haste haste_of(const struct ofi *o, const struct ctx *ctx, struct ofi_queue *q)
{
    if (!o->peers[q->pe].heard)
        return OFI_NOW;
    if (ctx == &ISO->ctx_words)
        return OFI_NEVER_WANTED;
    if (q->hurry == 0)
        return OFI_LATER;
    q->hurry--;
    return OFI_NOW;
}

static struct ofi_move ofi_move_of(struct ctx *ctx, struct place at, const struct far_local *local, bool put)
{
    struct ofi_move m = {ISO->ofi,   NULL, iso_network_remote(at), (char *)local->addr,
                         local->len, put,  local->on_device,       OFI_NOW};
    iso_ofi_lock(m.o);
    m.q = iso_ofi_queue_to(m.o, ctx, at.pe);
    if (ctx == &ISO->ctx_words)
        m.haste = haste_of(m.o, ctx, m.q);
    return m;
}

/* After a blocking call the local memory of earlier ones that did not block is free, too. */
void iso_ofi_put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    struct ofi_move m = ofi_move_of(ctx, to, source, true);
    move_all(&m);
    if (!source->nbi)
        iso_ofi_wait(m.o, m.q, 0, m.q->moves.made, "put");
    iso_ofi_unlock(m.o);
}

void iso_ofi_get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    struct ofi_move m = ofi_move_of(ctx, from, dest, false);
    move_all(&m);
    if (!dest->nbi)
        iso_ofi_wait(m.o, m.q, m.q->prompt, m.q->moves.made, "get");
    if (!dest->nbi)
        flush_here(m.q);
    iso_ofi_unlock(m.o);
}

/* Messages, since a provider made of software may write a part of a word first. */
void iso_ofi_put_words(struct ctx *ctx, struct place to, const void *words, size_t len)
{
    const struct far_local source = {(void *)(uintptr_t)words, len, false, false};
    struct ofi_move m = ofi_move_of(ctx, to, &source, true);
    follow_direct(m.o, m.q);
    move_by_messages(&m, len);
    iso_ofi_unlock(m.o);
}

/* ---- atomics and signals ---- */

uint64_t iso_ofi_amo(struct ctx *ctx, struct place at, struct amo op)
{
    struct ofi *o = ISO->ofi;
    struct ofi_message message = {.type = OFI_AMO, NETWORK_AMO(iso_network_remote(at), op)};
    uint64_t before = 0;
    iso_ofi_lock(o);
    struct ofi_queue *q = iso_ofi_queue_to(o, ctx, at.pe);
    iso_ofi_send(o, q, &message, NULL, op.fetches ? &before : NULL);
    if (op.fetches)
        iso_ofi_wait(o, q, message.serial + 1, 0, "atomic");
    iso_ofi_unlock(o);
    return op.bytes == 4 ? iso_word_of(&before, 4) : before;
}

void iso_ofi_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch)
{
    struct ofi *o = ISO->ofi;
    struct ofi_message message = {.type = OFI_AMO, NETWORK_AMO(iso_network_remote(at), op)};
    iso_ofi_lock(o);
    iso_ofi_send(o, iso_ofi_queue_to(o, ctx, at.pe), &message, NULL, fetch);
    iso_ofi_unlock(o);
}

static struct ofi_message signal_message(struct place at, uint64_t value, int sig_op)
{
    const struct amo op = {sig_op == SHMEM_SIGNAL_ADD ? AMO_ADD : AMO_SET, 8, value, 0, false};
    return (struct ofi_message){.type = OFI_AMO, NETWORK_AMO(iso_network_remote(at), op)};
}

void iso_ofi_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op)
{
    struct ofi *o = ISO->ofi;
    struct ofi_message message = signal_message(at, value, sig_op);
    iso_ofi_lock(o);
    struct ofi_queue *q = iso_ofi_queue_to(o, ctx, at.pe);
    follow_direct(o, q);
    message.haste = (uint16_t)haste_of(o, ctx, q);
    iso_ofi_send(o, q, &message, NULL, NULL);
    iso_ofi_unlock(o);
}

void iso_ofi_put_signal(struct ctx *ctx, const struct far_message *message, const struct far_local *source)
{
    struct ofi_move m = ofi_move_of(ctx, message->to, source, true);
    struct ofi_message signal = signal_message(message->at, message->signal, message->sig_op);
    bool both = m.len + sizeof signal <= m.o->data_max && !m.on_device;
    if (!both)
        move_all(&m);
    follow_direct(m.o, m.q);
    if (!both && !source->nbi)
        iso_ofi_wait(m.o, m.q, 0, m.q->moves.made, "put_signal");
    signal.haste = (uint16_t)haste_of(m.o, ctx, m.q);
    struct ofi_message put = {.type = OFI_PUT, .addr = m.remote, .len = (uint32_t)m.len, .haste = signal.haste};
    if (both) { /* in one message of the provider where nothing comes between */
        send(m.o, m.q, &put, (struct ofi_ends){m.local, NULL}, true);
        send(m.o, m.q, &signal, (struct ofi_ends){NULL, NULL}, false);
    } else {
        iso_ofi_send(m.o, m.q, &signal, NULL, NULL);
    }
    iso_ofi_unlock(m.o);
}

/* ---- order and completion ---- */

void iso_ofi_fence(struct network_queue *queue)
{
    struct ofi_queue *q = (struct ofi_queue *)(void *)queue;
    follow_direct(ISO->ofi, q);
    if (!ISO->ofi->staged)
        iso_ofi_wait(ISO->ofi, q, 0, q->moves.made, "fence"); /* an RMA has no order with those before it */
    q->fenced = q->wanted;
}

static uint64_t wanted_by(const struct ctx *ctx, const struct ofi_queue *q)
{
    return ctx == &ISO->ctx_words ? q->asks.made : q->wanted;
}

void iso_ofi_begin_quiet(const struct ctx *ctx, struct network_queue *queue)
{
    struct ofi_queue *q = (struct ofi_queue *)(void *)queue;
    flush_there(ISO->ofi, q);
    flush_queue(ISO->ofi, q, wanted_by(ctx, q));
}

void iso_ofi_end_quiet(const struct ctx *ctx, struct network_queue *queue)
{
    struct ofi_queue *q = (struct ofi_queue *)(void *)queue;
    iso_ofi_submit_packs(ISO->ofi);
    iso_ofi_settle(ISO->ofi, q, wanted_by(ctx, q), q->moves.made, "quiet");
    flush_here(q);
}
