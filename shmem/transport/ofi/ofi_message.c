/* SPDX-License-Identifier: MIT */
/* Messages are sent: operations for the target's CPU, in the order of the queue. Called with network.lock held. */
#include "ofi.h"

#include <string.h>

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

struct ofi_op *iso_ofi_prepare(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, void *into, int part)
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
static bool join(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, const void *data, void *into)
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

static void send(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, const void *data, void *into, bool more)
{
    iso_ofi_make_room(o, q, OFI_NEEDS_ASK);
    if (ISO_UNLIKELY(o->net.lost))
        return;
    if (m->type == OFI_AMO && into != NULL)
        m->type = OFI_FETCH;
    bool burst = q->burst_look == o->looks && q->burst >= OFI_JOIN_MIN;
    bool later = more || (is_plain(m) && (burst || q->due >= OFI_JOIN_MIN));
    bool held = q->moves.done < q->follow, joined = !held && join(o, q, m, data, into);
    if (q->pack != NULL && !(joined && later)) /* a target keeps what is behind the pack until that comes */
        iso_ofi_submit_pack(o, q);
    if (joined || o->net.lost)
        return;
    struct ofi_op *op = iso_ofi_prepare(o, q, m, into, -1);
    if (m->type == OFI_PUT) {
        memcpy(op->buffer + sizeof *m, data, m->len);
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
    send(o, q, m, data, into, false);
}

void iso_ofi_send_both(struct ofi *o, struct ofi_queue *q, struct ofi_message *put, const void *data,
                       struct ofi_message *signal)
{
    send(o, q, put, data, NULL, true);
    send(o, q, signal, NULL, NULL, false);
}

void iso_ofi_flush(struct ofi *o, struct ofi_queue *q, uint64_t asked)
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
    iso_ofi_flush(o, q, asked);
    iso_ofi_wait(o, q, asked, moved, what);
}
