/* SPDX-License-Identifier: MIT */
/* The operations. Small moves are messages, which take a copy of the bytes; from OFI_BULK_MIN on, moves of host memory
 * go by RMA, in place, split where the peer's key or a registration of this PE ends. A message that must follow RMAs
 * waits for their completion, and an RMA after a fence for the answers of the messages before it. The local side is
 * host memory always: transport.c bounces device memory, since moves_device is NULL. */
#include "../../ops/word.h"
#include "ofi.h"

#include <string.h>

ISO_INLINE uint64_t remote_of(struct place at)
{
    return (uint64_t)(uintptr_t)at.segment->peers[at.pe].base + at.offset;
}

/* ---- moves ---- */

struct move {
    struct ofi *o;
    struct ofi_queue *q;
    uint64_t remote;
    char *local;
    size_t len;
    bool put;
};

static void move_by_messages(struct move *m, size_t len)
{
    for (size_t n; len > 0; len -= n, m->len -= n, m->local += n, m->remote += n) {
        n = ISO_MIN(len, m->o->data_max);
        if (n < len) /* words stay whole */
            n -= (m->remote + n) & 7;
        struct ofi_message message = {
            .type = m->put ? OFI_PUT : OFI_GET, .addr = m->remote, .len = (uint32_t)n};
        iso_ofi_send(m->o, m->q, &message, m->local, m->put ? NULL : m->local);
    }
}

/* One RMA at most, of up to n bytes: how many. */
static size_t add_bulk(struct move *m, const struct ofi_key *key, size_t n)
{
    struct ofi *o = m->o;
    struct ofi_queue *q = m->q;
    struct fid_mr *once = NULL;
    iso_ofi_wait(o, q, q->fenced, 0, "fence");
    iso_ofi_make_room(o, q, &q->moves);
    struct fid_mr *mr = iso_ofi_local(o, m->local, &n, &once);
    struct ofi_op *op = iso_ofi_take(o, q->pe, m->put ? OFI_WRITE : OFI_READ);
    op->own = true;
    o->own++;
    op->local = m->local;
    op->len = n;
    op->mr = mr;
    op->once = once;
    op->remote = m->remote - key->origin;
    op->key = key->key;
    op->addr = m->remote;
    op->q = q;
    op->number = q->moves.made++;
    *(m->put ? &o->counts.writes : &o->counts.reads) += 1;
    iso_ofi_submit(o, op);
    return n;
}

static void move_all(struct move *m)
{
    while (m->len > 0) {
        if (!m->o->bulk || m->len < OFI_BULK_MIN) {
            move_by_messages(m, m->len);
            return;
        }
        struct ofi_key key = iso_ofi_key_of(m->o, m->q->pe, m->remote);
        size_t n = (size_t)ISO_MIN((uint64_t)ISO_MIN(m->len, m->o->bulk_max), key.end - m->remote);
        if (key.by_message != 0) {
            move_by_messages(m, n);
            continue;
        }
        n = add_bulk(m, &key, n);
        m->len -= n;
        m->local += n;
        m->remote += n;
    }
}

static struct move move_of(struct ctx *ctx, struct place at, const struct far_local *local, bool put)
{
    struct move m = {ISO->ofi, NULL, remote_of(at), (char *)local->addr, local->len, put};
    iso_ofi_lock(m.o);
    m.q = iso_ofi_queue_to(m.o, ctx, at.pe);
    return m;
}

/* After a blocking call the local memory of earlier ones that did not block is free, too. */
void iso_ofi_put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    struct move m = move_of(ctx, to, source, true);
    move_all(&m);
    if (!source->nbi)
        iso_ofi_wait(m.o, m.q, 0, m.q->moves.made, "put");
    iso_ofi_unlock(m.o);
}

void iso_ofi_get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    struct move m = move_of(ctx, from, dest, false);
    move_all(&m);
    if (!dest->nbi)
        iso_ofi_wait(m.o, m.q, m.q->asks.made, m.q->moves.made, "get");
    iso_ofi_unlock(m.o);
}

/* Messages, since a provider made of software may write a part of a word first. */
void iso_ofi_put_words(struct ctx *ctx, struct place to, const void *words, size_t len)
{
    const struct far_local source = {(void *)(uintptr_t)words, len, false, false};
    struct move m = move_of(ctx, to, &source, true);
    iso_ofi_wait(m.o, m.q, 0, m.q->moves.made, "put");
    move_by_messages(&m, len);
    iso_ofi_unlock(m.o);
}

/* ---- atomics and signals ---- */

static struct ofi_message amo_message(uint64_t remote, struct amo op)
{
    return (struct ofi_message){.type = OFI_AMO,
                                .op = (uint8_t)op.op,
                                .bytes = (uint8_t)op.bytes,
                                .addr = remote,
                                .operand = op.operand,
                                .compare = op.compare};
}

uint64_t iso_ofi_amo(struct ctx *ctx, struct place at, struct amo op)
{
    struct ofi *o = ISO->ofi;
    struct ofi_message message = amo_message(remote_of(at), op);
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
    struct ofi_message message = amo_message(remote_of(at), op);
    iso_ofi_lock(o);
    iso_ofi_send(o, iso_ofi_queue_to(o, ctx, at.pe), &message, NULL, fetch);
    iso_ofi_unlock(o);
}

void iso_ofi_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op)
{
    struct ofi *o = ISO->ofi;
    const struct amo op = {sig_op == SHMEM_SIGNAL_ADD ? AMO_ADD : AMO_SET, 8, value, 0, false};
    struct ofi_message message = amo_message(remote_of(at), op);
    iso_ofi_lock(o);
    struct ofi_queue *q = iso_ofi_queue_to(o, ctx, at.pe);
    iso_ofi_wait(o, q, 0, q->moves.made, "signal");
    iso_ofi_send(o, q, &message, NULL, NULL);
    iso_ofi_unlock(o);
}

/* ---- order and completion ---- */

void iso_ofi_fence(struct ctx *ctx)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return;
    iso_ofi_lock(o);
    for (struct ofi_queue *q = o->groups[iso_ofi_group(ctx)]; q != NULL; q = q->next_in_group) {
        iso_ofi_wait(o, q, 0, q->moves.made, "fence");
        q->fenced = q->asks.made;
    }
    iso_ofi_unlock(o);
}

void iso_ofi_quiet(struct ctx *ctx)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return;
    iso_ofi_lock(o);
    for (struct ofi_queue *q = o->groups[iso_ofi_group(ctx)]; q != NULL; q = q->next_in_group)
        iso_ofi_wait(o, q, q->asks.made, q->moves.made, "quiet");
    iso_ofi_unlock(o);
}

void iso_ofi_pe_quiet(struct ctx *ctx, int pe)
{
    struct ofi *o = ISO->ofi;
    iso_ofi_lock(o);
    struct ofi_queue *q = o->peers[pe].out[iso_ofi_group(ctx)];
    if (q != NULL)
        iso_ofi_wait(o, q, q->asks.made, q->moves.made, "quiet");
    iso_ofi_unlock(o);
}
