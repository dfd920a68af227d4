/* SPDX-License-Identifier: MIT */
/* Messages that come: operations for this PE's CPU, and answers to its own. One shared receive queue takes them from
 * all peers. Operations are applied in the order of arrival, which is the order of each queue pair, and each is answered
 * once. A word belongs to the processor of its memory: host words get CPU atomics here, as from local PEs; device words
 * go to the agent. Nothing here waits for room, since a peer may have to read first to make room: an answer that has
 * none is kept. Called by verbs_wait.c with network.lock held. */
#include "../../../bootstrap/log.h"
#include "../../ops/word.h"
#include "../network/apply.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

enum { READ_MAX = 16, REFUSED = 1 };

/* ---- the receive queue ---- */

static char *receive_at(const struct verbs *v, uint64_t i) { return v->memory + i * VERBS_RECEIVE_BYTES; }

/* Buffers that may be written again. */
static void post_receives(struct verbs *v, const uint64_t *numbers, int n)
{
    struct ibv_recv_wr wrs[READ_MAX], *bad;
    struct ibv_sge sges[READ_MAX];
    for (int i = 0; i < n; i++) {
        sges[i] =
            (struct ibv_sge){(uint64_t)(uintptr_t)receive_at(v, numbers[i]), VERBS_RECEIVE_BYTES, v->memory_mr->lkey};
        memset(&wrs[i], 0, sizeof wrs[i]);
        wrs[i].wr_id = numbers[i];
        wrs[i].sg_list = &sges[i];
        wrs[i].num_sge = 1;
        wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
    }
    int rc = n > 0 ? ibv_post_srq_recv(v->srq, wrs, &bad) : 0;
    if (rc != 0) {
        errno = rc;
        __extension__ iso_network_lose(&v->net, -1, "giving %d receive buffers to %s port %d of host %s failed: %m", n,
                                       v->port.device, v->port.number, ISO->boot.host);
    }
}

int iso_verbs_receive_start(struct verbs *v)
{
    struct ibv_srq_init_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.attr.max_wr = VERBS_RECEIVES;
    attr.attr.max_sge = 1;
    v->srq = v->lib.create_srq(v->pd, &attr);
    if (v->srq == NULL) {
        log_error("shmem_init: the RDMA device %s of host %s gives no shared receive queue of %d entries: %m",
                  v->port.device, ISO->boot.host, VERBS_RECEIVES);
        return -EIO;
    }
    pthread_mutex_lock(&v->net.lock);
    for (uint64_t i = 0; i < VERBS_RECEIVES; i++)
        post_receives(v, &i, 1);
    pthread_mutex_unlock(&v->net.lock);
    return 0;
}

/* ---- answers ---- */

static void add_answer(struct verbs *v, struct verbs_queue *q, const struct verbs_message *back)
{
    const struct verbs_request request = {
        .remote = back->compare, .len = back->bytes, .slot = -1, .opcode = (uint8_t)IBV_WR_SEND};
    iso_verbs_attach_small(v, q, iso_verbs_add(v, q, &request), back, sizeof *back);
    v->counts.answers++;
}

static void answer(struct verbs *v, struct verbs_queue *q, const struct verbs_message *m, bool refused, uint64_t before)
{
    const struct verbs_message back = {.type = VERBS_ANSWER,
                                       .bytes = m->bytes,
                                       .group = m->group,
                                       .pe = ISO->my_pe,
                                       .serial = m->serial,
                                       .addr = refused ? REFUSED : 0,
                                       .operand = before,
                                       .compare = m->addr};
    char ends[VERBS_ENDS_BYTES];
    if (q->late_made == q->late_done && iso_verbs_has_answer_room(v, q)) {
        add_answer(v, q, &back);
        return;
    }
    if (q->late_made - q->late_done == VERBS_CREDITS) {
        iso_network_lose(&v->net, -1, "more than %d messages from %s have no answer", VERBS_CREDITS,
                         iso_verbs_ends(v, q, ends, sizeof ends));
        return;
    }
    if (q->late_made == q->late_done) {
        q->next_late = v->late;
        v->late = q;
    }
    q->late[q->late_made++ & (VERBS_CREDITS - 1)] = back;
}

void iso_verbs_answer_late(struct verbs *v)
{
    struct verbs_queue **at = &v->late;
    iso_verbs_post_all(v); /* only posted requests give slots back */
    while (*at != NULL) {
        struct verbs_queue *q = *at;
        while (q->late_done < q->late_made && iso_verbs_has_answer_room(v, q))
            add_answer(v, q, &q->late[q->late_done++ & (VERBS_CREDITS - 1)]);
        iso_verbs_post(v, q);
        if (q->late_done == q->late_made)
            *at = q->next_late;
        else
            at = &q->next_late;
    }
}

/* ---- reading ---- */

static bool apply_copy(struct verbs *v, const struct verbs_message *m)
{
    char *device = (char *)(uintptr_t)m->addr, *stage = v->peers[m->pe].stage;
    const struct segment *s = iso_segment_of(device, m->compare);
    if (s == NULL || !s->on_device || stage == NULL || m->compare > VERBS_STAGE_BYTES)
        return false;
    if (m->type == VERBS_TO_DEVICE)
        iso_agent_copy(device, stage, m->compare);
    else
        iso_agent_copy(stage, device, m->compare);
    return true;
}

static void take_answer(struct verbs *v, const struct verbs_message *m)
{
    struct verbs_queue *q = iso_verbs_out(v, m->pe, m->group);
    const struct verbs_ask *ask = &q->asks[m->serial & (VERBS_CREDITS - 1)];
    char ends[VERBS_ENDS_BYTES];
    uint64_t first = q->answered; /* the first whose value is wanted must not be passed over */
    while (first < m->serial && q->asks[first & (VERBS_CREDITS - 1)].fetch == NULL)
        first++;
    if (first != m->serial || m->serial >= q->asked) {
        iso_network_lose(&v->net, -1, "answer %llu to a message from %s came after answer %llu of %llu",
                         (unsigned long long)m->serial, iso_verbs_ends(v, q, ends, sizeof ends),
                         (unsigned long long)q->answered, (unsigned long long)q->asked);
        return;
    }
    if (m->addr == REFUSED) {
        iso_network_lose(&v->net, -1, "an atomic operation or copy from %s was refused: there is no segment at that "
                         "address", iso_verbs_ends(v, q, ends, sizeof ends));
        return;
    }
    if (ask->fetch != NULL)
        iso_word_to(ask->fetch, m->operand, ask->bytes);
    q->answered = m->serial + 1;
    iso_verbs_post(v, q); /* the requests that waited for it */
}

/* The message must have come by a queue pair of the sender that it names. */
static bool is_from_peer(const struct verbs *v, const struct verbs_message *m, const struct ibv_wc *wc)
{
    if (m->pe < 0 || m->pe >= ISO->n_pes || m->group >= NETWORK_GROUPS)
        return false;
    const struct verbs_peer *peer = &v->peers[m->pe];
    const struct verbs_queue *q = m->type == VERBS_ANSWER ? iso_verbs_out(v, m->pe, m->group) : peer->in[m->group];
    return q != NULL && q->qp->qp_num == wc->qp_num && m->type >= VERBS_AMO && m->type <= VERBS_ANSWER;
}

/* All messages of a completion have one sender. Returns the queue with an answer to post, or NULL. */
static struct verbs_queue *read_one(struct verbs *v, const struct ibv_wc *wc)
{
    struct verbs_message m;
    struct verbs_queue *q = NULL;
    if (wc->status != IBV_WC_SUCCESS) {
        if (iso_network_ended(&v->net))
            return NULL;
        iso_network_lose(&v->net, -1, "receiving a message by %s port %d on host %s failed: %s (status %d)",
                         v->port.device, v->port.number, ISO->boot.host, v->lib.wc_status_str(wc->status),
                         (int)wc->status);
        return NULL;
    }
    const char *at = receive_at(v, wc->wr_id), *end = at + wc->byte_len;
    for (; at < end; at += sizeof m) {
        memcpy(&m, at, sizeof m);
        if (wc->byte_len % sizeof m != 0 || !is_from_peer(v, &m, wc)) {
            iso_network_lose(&v->net, -1, "a message of %u bytes by queue pair %u of pe %d (host %s) has an unknown "
                             "form", wc->byte_len, wc->qp_num, ISO->my_pe, ISO->boot.host);
            return NULL;
        }
        if (m.type == VERBS_ANSWER)
            take_answer(v, &m);
        if (m.type == VERBS_ANSWER)
            continue;
        uint64_t before = 0;
        bool is_amo = m.type == VERBS_AMO || m.type == VERBS_FETCH;
        const struct amo op = {(enum amo_op)m.op, m.bytes, m.operand, m.compare, true};
        bool good = is_amo ? iso_apply_amo(m.addr, op, &before) : apply_copy(v, &m);
        q = v->peers[m.pe].in[m.group];
        q->unacked = good && m.type == VERBS_AMO;
        q->unacked_serial = m.serial;
        if (!q->unacked)
            answer(v, q, &m, !good, before);
    }
    return q;
}

/* One answer for all messages of a round that want no value. */
static void post_answers(struct verbs *v, struct verbs_queue *q)
{
    if (q->unacked)
        answer(v, q, &(struct verbs_message){.group = (uint8_t)q->group, .serial = q->unacked_serial}, false, 0);
    q->unacked = false;
    iso_verbs_post(v, q);
}

/* Answers of one round go out together, with at most one post for each run of messages from one peer. */
static int read_some(struct verbs *v)
{
    struct ibv_wc wc[READ_MAX];
    uint64_t numbers[READ_MAX];
    struct verbs_queue *last = NULL;
    int n = v->net.lost ? 0 : ibv_poll_cq(v->received, READ_MAX, wc);
    if (n < 0)
        iso_network_lose(&v->net, -1, "reading the messages of %s port %d on host %s failed (%d): the device has an "
                         "error", v->port.device, v->port.number, ISO->boot.host, n);
    for (int i = 0; i < n && !v->net.lost; i++) {
        struct verbs_queue *q = read_one(v, &wc[i]);
        numbers[i] = wc[i].wr_id;
        if (q == NULL || q == last)
            continue;
        if (last != NULL)
            post_answers(v, last);
        last = q;
    }
    if (v->net.lost)
        return 0;
    if (last != NULL)
        post_answers(v, last);
    post_receives(v, numbers, n);
    return n;
}

bool iso_verbs_read(struct verbs *v)
{
    int n = read_some(v);
    bool any = n > 0;
    while (n == READ_MAX)
        n = read_some(v);
    return any;
}
