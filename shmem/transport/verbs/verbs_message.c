/* SPDX-License-Identifier: MIT */
/* Messages to peers: operations for the target's CPU, which verbs_queue.c there applies and answers. Each takes a
 * credit of its queue pair until its answer has come.
 * Called by verbs_ops.c with network.lock held. */
#include "../../node/wait.h"
#include "verbs.h"

#include <string.h>

static bool has_credit(const struct verbs_queue *q) { return q->asked - q->answered < VERBS_CREDITS; }

/* After it there is room, and the message may be added. */
static void ask(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch)
{
    do {
        if (!has_credit(q)) {
            iso_network_add(&v->net.counts.credit_waits, 1);
            iso_verbs_wait(v, q, 0, q->asked - VERBS_CREDITS + 1, "an answer to an atomic operation");
        }
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

/* Device memory of a peer that its network device cannot reach. The bytes go through host memory at the target, the
 * stage, which belongs to the pair of initiator and target; the target's agent copies from and to it. One piece moves
 * at a time and is answered, so the operations are complete on return. Called by verbs_ops.c with network.lock held,
 * which is given up while waiting. */

/* Takes the stage at the peer for this thread. */
static uint64_t take_stage(struct verbs *v, int pe, uint64_t remote, uint32_t *rkey)
{
    struct wait wait = ISO_WAIT("the stage of device memory", pe, NULL, 1);
    while (v->peers[pe].staging && !iso_network_has_lost(&v->net, pe))
        iso_network_pause(&v->net, &wait, 0);
    iso_wait_end(&wait);
    v->peers[pe].staging = true;
    struct network_key key = iso_network_key_of(&v->net, pe, remote);
    *rkey = (uint32_t)key.key;
    return key.at;
}

static void give_stage(struct verbs *v, int pe) { v->peers[pe].staging = false; }

static void ask_copy(struct verbs *v, struct verbs_queue *q, enum verbs_type type, uint64_t remote, size_t len)
{
    struct verbs_message message = {.type = (uint8_t)type, .bytes = 8, .addr = remote, .compare = len};
    iso_verbs_send(v, q, &message, NULL);
    iso_verbs_wait(v, q, 0, message.serial + 1, "a copy of device memory");
}

/* One request by a slot, between local memory and the stage. */
struct stage_part {
    uint64_t stage;
    uint32_t rkey;
    char *local;
    size_t len;
};

static void add_parts(struct verbs *v, struct verbs_queue *q, struct stage_part p, size_t len,
                      enum ibv_wr_opcode opcode)
{
    for (; len > 0; len -= p.len, p.stage += p.len, p.local += p.len) {
        p.len = ISO_MIN(len, (size_t)VERBS_SLOT_BYTES);
        struct verbs_request request = {.remote = p.stage, .len = (uint32_t)p.len, .opcode = (uint8_t)opcode};
        iso_verbs_make_room(v, q, 1, 1);
        request.slot = iso_verbs_take_slot(v);
        char *slot = iso_verbs_slot(v, request.slot);
        if (opcode == IBV_WR_RDMA_READ) {
            request.dest = p.local;
        } else {
            memcpy(slot, p.local, p.len);
            v->counts.copies++;
        }
        struct ibv_send_wr *wr = iso_verbs_add(v, q, &request);
        *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)slot, (uint32_t)p.len, v->memory_mr->lkey};
        wr->wr.rdma.remote_addr = p.stage;
        wr->wr.rdma.rkey = p.rkey;
    }
}

void iso_verbs_staged_put(struct verbs *v, struct verbs_queue *q, uint64_t remote, const char *source, size_t len)
{
    struct stage_part p = {.local = (char *)(uintptr_t)source};
    p.stage = take_stage(v, q->pe, remote, &p.rkey);
    for (size_t n; len > 0; len -= n, p.local += n, remote += n) {
        n = ISO_MIN(len, (size_t)VERBS_STAGE_BYTES);
        add_parts(v, q, p, n, IBV_WR_RDMA_WRITE);
        ask_copy(v, q, VERBS_TO_DEVICE, remote, n);
    }
    give_stage(v, q->pe);
}

void iso_verbs_staged_get(struct verbs *v, struct verbs_queue *q, uint64_t remote, char *dest, size_t len)
{
    struct stage_part p = {.local = dest};
    p.stage = take_stage(v, q->pe, remote, &p.rkey);
    for (size_t n; len > 0; len -= n, p.local += n, remote += n) {
        n = ISO_MIN(len, (size_t)VERBS_STAGE_BYTES);
        ask_copy(v, q, VERBS_FROM_DEVICE, remote, n);
        add_parts(v, q, p, n, IBV_WR_RDMA_READ);
        iso_verbs_post(v, q);
        iso_verbs_wait(v, q, q->made, 0, "a get of device memory");
    }
    give_stage(v, q->pe);
}
