/* SPDX-License-Identifier: MIT */
/* Messages that have come. They are applied in the order of their serial numbers, which is that of the queue, whatever
 * the order of arrival, each exactly once. Those that want a value back are answered alone; one answer for all others
 * of a round says up to which number they are applied. Reading never waits. Called with network.lock held, by
 * waits and by the progress thread. */
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "../../ops/word.h"
#include "../network/apply.h"
#include "ofi.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

/* NULL: all is lost. */
static struct ofi_op *answer_to(struct ofi *o, int pe, struct ofi_message m)
{
    if (!iso_ofi_has_spare(o))
        return NULL;
    struct ofi_op *op = iso_ofi_take(o, pe, OFI_SEND);
    m.type = OFI_ANSWER;
    m.pe = ISO->my_pe;
    m.token = o->peers[pe].token_out;
    memcpy(op->buffer, &m, sizeof m);
    op->len = sizeof m;
    o->counts.answers++;
    return op;
}

void iso_ofi_send_answers(struct ofi *o)
{
    while (o->unacked != NULL) {
        struct ofi_incoming *in = o->unacked;
        o->unacked = in->next_unacked;
        in->unacked = false;
        in->later = 0;
        const struct ofi_message m = {
            .op = OFI_DONE, .group = (uint8_t)in->group, .serial = in->expected - 1, .shared = 1};
        struct ofi_op *op = answer_to(o, in->pe, m);
        if (op != NULL)
            iso_ofi_submit(o, op);
    }
}

/* ---- at the target ---- */

static bool apply_copy(const struct ofi *o, const struct ofi_message *m)
{
    const char *stage = o->peers[m->pe].stage;
    if (stage == NULL || m->compare == 0 || m->compare > OFI_STAGE_BYTES || m->operand > OFI_STAGE_BYTES - m->compare)
        return false;
    return iso_apply_put(m->addr, stage + m->operand, (size_t)m->compare);
}

/* Applies the message and answers it, now or with others. */
static void apply(struct ofi *o, struct ofi_incoming *in, const struct ofi_message *m, const char *data)
{
    const struct amo amo = {(enum amo_op)m->op, m->bytes, m->operand, m->compare, true};
    struct ofi_message back = {.op = OFI_DONE, .group = m->group, .serial = m->serial, .addr = m->addr};
    bool good = true;
    if (m->type == OFI_PUT)
        good = iso_apply_put(m->addr, data, m->len);
    else if (m->type == OFI_COPY)
        good = apply_copy(o, m);
    else if (m->type == OFI_FLUSH && m->op != 0 && ISO->device != NULL)
        iso_gpu_flush_writes(ISO->device->gpu);
    else if (m->type != OFI_GET && m->type != OFI_FLUSH)
        good = iso_apply_amo(m->addr, amo, &back.operand);
    if (good && m->type != OFI_FETCH && m->type != OFI_GET) {
        bool now = m->haste == OFI_NOW || ++in->later >= OFI_CREDITS / 2;
        if (now && !in->unacked) {
            in->unacked = true;
            in->next_unacked = o->unacked;
            o->unacked = in;
        }
        return;
    }
    if (m->type == OFI_GET)
        back.len = m->len;
    struct ofi_op *op = answer_to(o, m->pe, back);
    if (op == NULL)
        return;
    if (m->type == OFI_GET) {
        good = iso_apply_get(op->buffer + sizeof back, m->addr, m->len);
        op->len += m->len;
    }
    if (!good) {
        back.type = OFI_ANSWER;
        back.op = OFI_REFUSED;
        back.pe = ISO->my_pe;
        back.token = o->peers[m->pe].token_out;
        back.len = 0;
        memcpy(op->buffer, &back, sizeof back);
        op->len = sizeof back;
    }
    iso_ofi_submit(o, op);
}

/* NULL: all is lost. */
static struct ofi_incoming *incoming_of(struct ofi *o, const struct ofi_message *m)
{
    struct ofi_peer *peer = &o->peers[m->pe];
    if (peer->in == NULL) {
        peer->in = (struct ofi_incoming *)calloc(NETWORK_GROUPS, sizeof *peer->in);
        if (peer->in == NULL) {
            iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for the messages of pe %d", ISO->my_pe,
                             ISO->boot.host, m->pe);
            return NULL;
        }
        for (int group = 0; group < NETWORK_GROUPS; group++) {
            peer->in[group].pe = m->pe;
            peer->in[group].group = group;
        }
    }
    return &peer->in[m->group];
}

static void hold(struct ofi *o, struct ofi_incoming *in, const char *bytes, size_t len)
{
    struct ofi_held *held = (struct ofi_held *)malloc(sizeof *held + len);
    if (held == NULL) {
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for a message of pe %d that came before its turn",
                         ISO->my_pe, ISO->boot.host, in->pe);
        return;
    }
    held->len = len;
    memcpy(held->bytes, bytes, len);
    held->next = in->held;
    in->held = held;
    o->counts.held++;
}

static void apply_held(struct ofi *o, struct ofi_incoming *in)
{
    struct ofi_message m;
    for (struct ofi_held **at = &in->held; !o->net.lost && *at != NULL;) {
        struct ofi_held *held = *at;
        memcpy(&m, held->bytes, sizeof m);
        if (m.serial != in->expected) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        in->expected++;
        apply(o, in, &m, held->bytes + sizeof m);
        free(held);
        at = &in->held; /* the next one may be anywhere in the list */
    }
}

static void take_request(struct ofi *o, const struct ofi_message *m, const char *bytes, size_t len)
{
    struct ofi_incoming *in = incoming_of(o, m);
    if (in == NULL)
        return;
    if (m->serial - in->expected >= OFI_CREDITS) {
        iso_network_lose(&o->net, -1, "message %llu of pe %d (host %s) has come where pe %d (host %s) expects %llu: "
                         "the network has lost one or delivered one twice", (unsigned long long)m->serial, m->pe,
                         ISO->peers[m->pe].host, ISO->my_pe, ISO->boot.host, (unsigned long long)in->expected);
        return;
    }
    if (m->serial != in->expected || !o->peers[m->pe].known) {
        hold(o, in, bytes, len);
        return;
    }
    in->expected++;
    apply(o, in, m, bytes + sizeof *m);
    if (ISO_UNLIKELY(in->held != NULL))
        apply_held(o, in);
}

void iso_ofi_take_early(struct ofi *o)
{
    o->early = false;
    for (int pe = 0; pe < ISO->n_pes; pe++)
        for (int group = 0; group < NETWORK_GROUPS && o->peers[pe].known && o->peers[pe].in != NULL; group++)
            apply_held(o, &o->peers[pe].in[group]);
}

/* ---- at the initiator ---- */

static void take_answer(struct ofi *o, const struct ofi_message *m, const char *data)
{
    struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[m->pe].out[m->group];
    char ends[OFI_ENDS_BYTES];
    if (q == NULL || m->serial >= q->asks.made) {
        iso_network_lose(&o->net, -1, "an answer to message %llu has come, which was not sent from %s",
                         (unsigned long long)m->serial, iso_ofi_ends(o, m->pe, ends, sizeof ends));
        return;
    }
    if (m->op != OFI_DONE) {
        iso_network_lose(&o->net, -1, "an operation at address %#llx from %s was refused: there is no segment at that "
                         "address", (unsigned long long)m->addr, iso_ofi_ends(o, m->pe, ends, sizeof ends));
        return;
    }
    if (m->serial < q->asks.done) /* one for several that was overtaken by the next */
        return;
    struct ofi_ask ask = q->asked[m->serial % OFI_CREDITS];
    if (m->shared == 0 && !ask.plain && (q->asks.ended >> (m->serial & 63) & 1) == 0) {
        if (m->len != 0)
            memcpy(ask.into, data, ISO_MIN(ask.len, m->len));
        else if (ask.into != NULL)
            iso_word_to(ask.into, m->operand, ask.len);
        q->due--;
        iso_ofi_window_end(&q->asks, m->serial);
    }
    /* Each end may move asks.done on, past others that had ended. */
    for (uint64_t n = q->asks.done; n <= m->serial; n = ISO_MAX(n + 1, q->asks.done)) {
        struct ofi_ask *other = &q->asked[n % OFI_CREDITS];
        if (!other->plain)
            continue;
        if (other->part >= 0)
            o->peers[m->pe].free_parts |= 1u << other->part;
        other->part = -1;
        q->due -= other->now;
        other->now = false;
        iso_ofi_window_end(&q->asks, n);
    }
}

/* ---- both ---- */

static bool is_from_peer(const struct ofi *o, const struct ofi_message *m)
{
    if (m->pe < 0 || m->pe >= ISO->n_pes || m->group >= NETWORK_GROUPS || m->type < OFI_AMO || m->type > OFI_ANSWER)
        return false;
    const struct ofi_peer *peer = &o->peers[m->pe];
    return peer->token_in != 0 && m->token == peer->token_in && m->len <= o->data_max;
}

void iso_ofi_receive(struct ofi *o, const char *bytes, size_t len)
{
    size_t n;
    do {
        struct ofi_message m = {0};
        if (len >= sizeof m)
            memcpy(&m, bytes, sizeof m);
        n = sizeof m + iso_ofi_data_of(&m);
        if (ISO_UNLIKELY(len < sizeof m || n > len || !is_from_peer(o, &m))) {
            if (o->counts.strangers++ == 0)
                log_warn("a message of %zu bytes by libfabric does not come from a PE of this job, and is dropped",
                         len);
            return;
        }
        o->peers[m.pe].heard = true;
        if (m.type == OFI_ANSWER)
            take_answer(o, &m, bytes + sizeof m);
        else
            take_request(o, &m, bytes, n);
        bytes += n;
        len -= n;
    } while (len > 0 && !o->net.lost);
}
