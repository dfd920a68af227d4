/* SPDX-License-Identifier: MIT */
/* Messages to peers: operations for the target's CPU, which verbs_receive.c there applies and answers. Each takes a
 * credit of its queue pair until its answer has come.
 * Called by verbs_ops.c and verbs_staged.c with network.lock held. */
#include "verbs.h"

#include <string.h>

static bool has_credit(const struct verbs_queue *q) { return q->asked - q->answered < VERBS_CREDITS; }

/* After it there is room, and the message may be added. */
static void ask(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch)
{
    do {
        if (!has_credit(q))
            iso_verbs_wait(v, q, 0, q->asked - VERBS_CREDITS + 1, "an answer to an atomic operation");
        iso_verbs_make_room(v, q, 1, iso_verbs_small_needs_slot(q));
    } while (!has_credit(q)); /* both give up the lock: another thread may have been faster */
    message->group = (uint8_t)q->group;
    message->pe = ISO->my_pe;
    message->serial = q->asked;
    if (message->type == VERBS_AMO && fetch != NULL)
        message->type = VERBS_FETCH;
    q->asks[q->asked++ & (VERBS_CREDITS - 1)] = (struct verbs_ask){fetch, message->bytes};
    v->counts.messages++;
}

static void add_alone(struct verbs *v, struct verbs_queue *q, const struct verbs_message *message)
{
    const struct verbs_request request = {
        .remote = message->addr, .len = message->bytes, .slot = -1, .opcode = (uint8_t)IBV_WR_SEND};
    iso_verbs_attach_small(v, q, iso_verbs_add(v, q, &request), message, sizeof *message);
}

void iso_verbs_send(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch)
{
    ask(v, q, message, fetch);
    add_alone(v, q, message);
    iso_verbs_post(v, q);
}

/* Into the request that was added last, if that is one of messages, and has room. */
static bool join_pack(struct verbs *v, struct verbs_queue *q, const struct verbs_message *message)
{
    if (q->n_batch == 0)
        return false;
    const struct ibv_send_wr *wr = &q->batch[q->n_batch - 1];
    struct ibv_sge *s = wr->sg_list;
    if (wr->opcode != IBV_WR_SEND || (wr->send_flags & IBV_SEND_INLINE) != 0 ||
        s->length + sizeof *message > VERBS_RECEIVE_BYTES)
        return false;
    memcpy((char *)(uintptr_t)s->addr + s->length, message, sizeof *message);
    s->length += (uint32_t)sizeof *message;
    v->counts.joined++;
    return true;
}

void iso_verbs_send_later(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch)
{
    ask(v, q, message, fetch);
    bool later = q->asked_posted > q->answered; /* that answer posts it, see take_answer */
    if (later && join_pack(v, q, message))
        return;
    if (later && v->n_free_slots > 0) { /* the first of several that will travel together */
        const struct verbs_request request = {.remote = message->addr,
                                              .len = message->bytes,
                                              .slot = iso_verbs_take_slot(v),
                                              .opcode = (uint8_t)IBV_WR_SEND};
        struct ibv_send_wr *wr = iso_verbs_add(v, q, &request);
        char *slot = iso_verbs_slot(v, request.slot);
        memcpy(slot, message, sizeof *message);
        *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)slot, sizeof *message, v->memory_mr->lkey};
        return;
    }
    add_alone(v, q, message);
    iso_verbs_post(v, q);
}
