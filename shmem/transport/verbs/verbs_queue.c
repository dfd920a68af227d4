/* SPDX-License-Identifier: MIT */
/* Work requests and their completions, messages that come, and waits for both. Called by the other verbs files with
 * network.lock held. */
#include "../../../bootstrap/log.h"
#include "../../node/wait.h"
#include "../word.h"
#include "../network/apply.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { POLL_MAX = 16 };

/* ---- failure ---- */

/* "queue pair 17 from pe 0 (host a, rxea port 1, fe80::1) to pe 3 (host b)": for sentences. */
static const char *describe_ends(const struct verbs *v, const struct verbs_queue *q, char *text, size_t bytes)
{
    snprintf(text, bytes, "pe %d (host %.63s, %s port %d) to pe %d (host %s, %s)", ISO->my_pe, ISO->host,
             v->port.device, v->port.number, q->pe, ISO->peers[q->pe].host, q->peer_port);
    return text;
}

static struct verbs_request *request_at(struct verbs_queue *q, uint64_t n)
{
    return &q->requests[n & (VERBS_DEPTH - 1)];
}

static void drop_requests(struct verbs *v, struct verbs_queue *q)
{
    for (; q->done < q->made; q->done++) {
        const struct verbs_request *r = request_at(q, q->done);
        if (r->slot >= 0)
            v->free_slots[v->n_free_slots++] = r->slot;
        if (r->mr != NULL)
            iso_verbs_unregister(v, r->mr);
    }
    q->n_batch = 0;
    q->answered = q->asked_posted = q->asked;
    q->late_done = q->late_made;
    v->in_flight -= q->in_flight;
    q->in_flight = 0;
}

/* Queue pairs go to the error state, so that the device leaves memory alone. */
void iso_verbs_drop_all(void)
{
    struct verbs *v = ISO->verbs;
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_ERR;
    v->net.lost = v->net.bereft = true; /* not yet where a wait has ended because the job was broken elsewhere */
    for (uint32_t i = 0; i < v->n_queues; i++) {
        struct verbs_queue *q = v->queues[i];
        if (q->qp != &v->no_qp)
            (void)v->lib.modify_qp(q->qp, &attr, IBV_QP_STATE);
        drop_requests(v, q);
        q->on_batched = false;
    }
    v->batched = v->late = NULL;
}

/* Without its queue pairs the device leaves memory alone. Completions that have come already are passed over. */
void iso_verbs_drop_pe(int pe)
{
    struct verbs *v = ISO->verbs;
    for (uint32_t i = 0; i < v->n_queues; i++) {
        struct verbs_queue *q = v->queues[i];
        if (q->pe != pe || q->qp == &v->no_qp)
            continue;
        v->lib.destroy_qp(q->qp);
        q->qp = &v->no_qp;
        drop_requests(v, q);
    }
}

static const char *cause_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no answer: the link or the node is down, or the process there is gone";
    case IBV_WC_LOC_QP_OP_ERR:
        return "the device here refused it: its link may be down";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the process there does not take messages";
    case IBV_WC_REM_ACCESS_ERR:
        return "the key does not fit the memory there";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
        return "the local memory is not registered, or was unmapped during the operation";
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return "the other end refused it";
    default:
        return "the connection is broken";
    }
}

void iso_verbs_fail_request(struct verbs *v, const struct verbs_queue *q, const struct verbs_request *r,
                            const char *why)
{
    static const char *const names[] = {
        [IBV_WR_RDMA_WRITE] = "put", [IBV_WR_SEND] = "message", [IBV_WR_RDMA_READ] = "get"};
    char ends[VERBS_ENDS_BYTES];
    iso_network_lose(&v->net, q->pe, "a %s%s of %u bytes at address %#llx from %s failed: %s",
                     q->incoming ? "answer by " : "", names[r->opcode], r->len, (unsigned long long)r->remote,
                     describe_ends(v, q, ends, sizeof ends), why);
}

/* ---- slots of the ring of copies ---- */

char *iso_verbs_slot(const struct verbs *v, int16_t slot) { return v->slots + (size_t)slot * VERBS_SLOT_BYTES; }

int16_t iso_verbs_take_slot(struct verbs *v) { return v->free_slots[--v->n_free_slots]; }

/* ---- posting ---- */

struct ibv_send_wr *iso_verbs_add(struct verbs *v, struct verbs_queue *q, const struct verbs_request *request)
{
    if (q->n_batch == VERBS_BATCH)
        iso_verbs_post(v, q);
    unsigned i = q->n_batch++;
    struct ibv_send_wr *wr = &q->batch[i];
    *request_at(q, q->made++) = *request;
    memset(wr, 0, sizeof *wr);
    wr->wr_id = (uint64_t)q->index << VERBS_ID_BITS | (q->made & VERBS_ID_MASK);
    wr->next = NULL;
    wr->opcode = (enum ibv_wr_opcode)request->opcode;
    wr->sg_list = &q->sges[i];
    wr->num_sge = 1;
    wr->send_flags = q->reads_first ? IBV_SEND_FENCE : 0;
    q->reads_first = false;
    if (i > 0)
        wr[-1].next = wr;
    else
        v->in_flight++, q->in_flight++; /* the batch's; counted now, since all batches may be posted at once */
    if (!q->on_batched) {
        q->on_batched = true;
        q->next_batched = v->batched;
        v->batched = q;
    }
    v->counts.requests++;
    return wr;
}

bool iso_verbs_small_needs_slot(const struct verbs_queue *q) { return q->inline_bytes < sizeof(struct verbs_message); }

void iso_verbs_attach_small(struct verbs *v, struct verbs_queue *q, struct ibv_send_wr *wr, const void *data,
                            size_t len)
{
    char *at = (char *)&q->small[wr - q->batch];
    if (iso_verbs_small_needs_slot(q)) {
        struct verbs_request *r = request_at(q, q->made - 1);
        r->slot = iso_verbs_take_slot(v);
        at = iso_verbs_slot(v, r->slot);
        wr->sg_list->lkey = v->memory_mr->lkey;
    } else {
        wr->send_flags |= IBV_SEND_INLINE;
    }
    memcpy(at, data, len);
    wr->sg_list->addr = (uint64_t)(uintptr_t)at;
    wr->sg_list->length = (uint32_t)len;
}

void iso_verbs_post(struct verbs *v, struct verbs_queue *q)
{
    struct ibv_send_wr *bad;
    char ends[VERBS_ENDS_BYTES];
    if (q->n_batch == 0)
        return;
    if (iso_network_has_lost(&v->net, q->pe)) {
        drop_requests(v, q);
        return;
    }
    q->batch[q->n_batch - 1].send_flags |= IBV_SEND_SIGNALED;
    int rc = ibv_post_send(q->qp, q->batch, &bad);
    q->n_batch = 0;
    q->asked_posted = q->asked;
    v->counts.posts++;
    iso_network_add(&v->net.counts.posts, 1);
    if (ISO_UNLIKELY(rc != 0)) {
        errno = rc;
        __extension__ iso_network_lose(&v->net, -1, "posting %llu requests from %s failed: %m",
                                       (unsigned long long)(q->made - q->done),
                                       describe_ends(v, q, ends, sizeof ends));
    }
}

void iso_verbs_post_all(struct verbs *v)
{
    while (v->batched != NULL) {
        struct verbs_queue *q = v->batched;
        v->batched = q->next_batched;
        q->on_batched = false;
        iso_verbs_post(v, q);
    }
}

/* Answers have completions that requests leave to them. */
static bool has_answer_room(const struct verbs *v, const struct verbs_queue *q)
{
    return q->made - q->done < VERBS_DEPTH && v->n_free_slots >= iso_verbs_small_needs_slot(q) &&
           v->in_flight < VERBS_COMPLETIONS;
}

/* ---- completions ---- */

static void complete_work(struct verbs *v, const struct ibv_wc *wc)
{
    struct verbs_queue *q = v->queues[wc->wr_id >> VERBS_ID_BITS];
    uint64_t made = wc->wr_id & VERBS_ID_MASK;
    char why[192];
    if (iso_network_has_lost(&v->net, q->pe)) /* nothing is under way to it */
        return;
    v->in_flight--;
    q->in_flight--;
    v->counts.completions++;
    if (ISO_UNLIKELY(wc->status != IBV_WC_SUCCESS) && !iso_network_ended(&v->net)) {
        snprintf(why, sizeof why, "%s (status %d): %s", v->lib.wc_status_str(wc->status), (int)wc->status,
                 cause_of(wc->status));
        iso_verbs_fail_request(v, q, request_at(q, made - 1), why);
        return;
    }
    for (; q->done < made; q->done++) {
        const struct verbs_request *r = request_at(q, q->done);
        if (r->slot >= 0 && r->dest != NULL) {
            memcpy(r->dest, iso_verbs_slot(v, r->slot), r->len);
            v->counts.copies++;
        }
        if (r->slot >= 0)
            v->free_slots[v->n_free_slots++] = r->slot;
        if (r->mr != NULL)
            iso_verbs_unregister(v, r->mr);
    }
}

static int reap_some(struct verbs *v)
{
    struct ibv_wc wc[POLL_MAX];
    if (v->in_flight == 0 || v->net.lost)
        return 0;
    int n = ibv_poll_cq(v->sent, POLL_MAX, wc);
    if (ISO_UNLIKELY(n < 0))
        iso_network_lose(&v->net, -1, "reading the completions of %s port %d on host %s failed (%d): the device has an "
                         "error", v->port.device, v->port.number, ISO->host, n);
    for (int i = 0; i < n; i++)
        complete_work(v, &wc[i]);
    return v->net.lost ? 0 : n;
}

/* Takes the completions that have come. True: there were some. */
static bool reap(struct verbs *v)
{
    int n = reap_some(v);
    bool any = n > 0;
    while (n == POLL_MAX)
        n = reap_some(v);
    return any;
}

/* Messages that come: operations for this PE's CPU, and answers to its own. One shared receive queue takes them from
 * all peers. Operations are applied in the order of arrival, which is the order of each queue pair, and each is answered
 * once. A word belongs to the processor of its memory: host words get CPU atomics here, as from local PEs; device words
 * go to the agent. Nothing here waits for room, since a peer may have to read first to make room: an answer that has
 * none is kept. */

enum { READ_MAX = 16, REFUSED = 1 };

/* ---- the receive queue ---- */

static char *receive_at(const struct verbs *v, uint64_t i) { return v->memory + i * VERBS_RECEIVE_BYTES; }

/* Buffers that may be written again. */
static void verbs_post_receives(struct verbs *v, const uint64_t *numbers, int n)
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
                                       v->port.device, v->port.number, ISO->host);
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
                  v->port.device, ISO->host, VERBS_RECEIVES);
        return -EIO;
    }
    pthread_mutex_lock(&v->net.lock);
    for (uint64_t i = 0; i < VERBS_RECEIVES; i++)
        verbs_post_receives(v, &i, 1);
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
    if (q->late_made == q->late_done && has_answer_room(v, q)) {
        add_answer(v, q, &back);
        return;
    }
    if (q->late_made - q->late_done == VERBS_CREDITS) {
        iso_network_lose(&v->net, -1, "more than %d messages from %s have no answer", VERBS_CREDITS,
                         describe_ends(v, q, ends, sizeof ends));
        return;
    }
    if (q->late_made == q->late_done) {
        q->next_late = v->late;
        v->late = q;
    }
    q->late[q->late_made++ & (VERBS_CREDITS - 1)] = back;
}

/* Sends kept answers as far as there is room. */
static void answer_late(struct verbs *v)
{
    struct verbs_queue **at = &v->late;
    iso_verbs_post_all(v); /* only posted requests give slots back */
    while (*at != NULL) {
        struct verbs_queue *q = *at;
        while (q->late_done < q->late_made && has_answer_room(v, q))
            add_answer(v, q, &q->late[q->late_done++ & (VERBS_CREDITS - 1)]);
        iso_verbs_post(v, q);
        if (q->late_done == q->late_made)
            *at = q->next_late;
        else
            at = &q->next_late;
    }
}

/* ---- reading ---- */

static bool verbs_apply_copy(struct verbs *v, const struct verbs_message *m)
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

static void verbs_take_answer(struct verbs *v, const struct verbs_message *m)
{
    struct verbs_queue *q = iso_verbs_out(v, m->pe, m->group);
    const struct verbs_ask *ask = &q->asks[m->serial & (VERBS_CREDITS - 1)];
    char ends[VERBS_ENDS_BYTES];
    uint64_t first = q->answered; /* the first whose value is wanted must not be passed over */
    while (first < m->serial && q->asks[first & (VERBS_CREDITS - 1)].fetch == NULL)
        first++;
    if (first != m->serial || m->serial >= q->asked) {
        iso_network_lose(&v->net, -1, "answer %llu to a message from %s came after answer %llu of %llu",
                         (unsigned long long)m->serial, describe_ends(v, q, ends, sizeof ends),
                         (unsigned long long)q->answered, (unsigned long long)q->asked);
        return;
    }
    if (m->addr == REFUSED) {
        iso_network_lose(&v->net, -1, "an atomic operation or copy from %s was refused: there is no segment at that "
                         "address", describe_ends(v, q, ends, sizeof ends));
        return;
    }
    if (ask->fetch != NULL)
        iso_word_to(ask->fetch, m->operand, ask->bytes);
    q->answered = m->serial + 1;
    iso_verbs_post(v, q); /* the requests that waited for it */
}

/* The message must have come by a queue pair of the sender that it names. */
static bool verbs_is_from_peer(const struct verbs *v, const struct verbs_message *m, const struct ibv_wc *wc)
{
    if (m->pe < 0 || m->pe >= ISO->n_pes || m->group >= NETWORK_GROUPS)
        return false;
    const struct verbs_peer *peer = &v->peers[m->pe];
    const struct verbs_queue *q = m->type == VERBS_ANSWER ? iso_verbs_out(v, m->pe, m->group) : peer->in[m->group];
    return q != NULL && q->qp->qp_num == wc->qp_num && m->type >= VERBS_AMO && m->type <= VERBS_ANSWER;
}

/* It came by a queue pair that is not there any more. */
static bool is_of_gone(const struct verbs *v, const struct ibv_wc *wc)
{
    for (uint32_t i = 0; i < v->n_queues; i++)
        if (v->queues[i]->qp->qp_num == wc->qp_num)
            return false;
    return v->net.bereft;
}

/* All messages of a completion have one sender. Returns the queue with an answer to post, or NULL. */
static struct verbs_queue *read_one(struct verbs *v, const struct ibv_wc *wc)
{
    struct verbs_message m;
    struct verbs_queue *q = NULL;
    if (wc->status != IBV_WC_SUCCESS) {
        if (iso_network_ended(&v->net) || is_of_gone(v, wc))
            return NULL;
        iso_network_lose(&v->net, -1, "receiving a message by %s port %d on host %s failed: %s (status %d)",
                         v->port.device, v->port.number, ISO->host, v->lib.wc_status_str(wc->status),
                         (int)wc->status);
        return NULL;
    }
    const char *at = receive_at(v, wc->wr_id), *end = at + wc->byte_len;
    for (; at < end; at += sizeof m) {
        memcpy(&m, at, sizeof m);
        if (wc->byte_len % sizeof m != 0 || !verbs_is_from_peer(v, &m, wc)) {
            if (is_of_gone(v, wc))
                return NULL;
            iso_network_lose(&v->net, -1, "a message of %u bytes by queue pair %u of pe %d (host %s) has an unknown "
                             "form", wc->byte_len, wc->qp_num, ISO->my_pe, ISO->host);
            return NULL;
        }
        if (m.type == VERBS_ANSWER)
            verbs_take_answer(v, &m);
        if (m.type == VERBS_ANSWER)
            continue;
        uint64_t before = 0;
        bool is_amo = m.type == VERBS_AMO || m.type == VERBS_FETCH;
        const struct amo op = {(enum amo_op)m.op, m.bytes, m.operand, m.compare, true};
        bool good = is_amo ? iso_apply_amo(m.addr, op, &before) : verbs_apply_copy(v, &m);
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
                         "error", v->port.device, v->port.number, ISO->host, n);
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
    verbs_post_receives(v, numbers, n);
    return n;
}

/* Reads messages that have come: applies and answers them, or takes the answer. True: there were some. Never waits: an
 * answer for which there is no room is kept. */
static bool read_messages(struct verbs *v)
{
    int n = read_some(v);
    bool any = n > 0;
    while (n == READ_MAX)
        n = read_some(v);
    return any;
}

/* Looks at what has come, and waits. Each look takes completions, sends kept answers and reads messages, so a PE that
 * waits serves its peers. What stands above, posting and reading, never waits for room or an
 * answer: else two PEs could wait for each other. Called by the other verbs files, with network.lock held. */

bool iso_verbs_poll(struct verbs *v)
{
    bool any = reap(v);
    if (ISO_UNLIKELY(v->late != NULL))
        answer_late(v);
    any |= read_messages(v);
    v->net.pending_events |= any;
    return any;
}

static void verbs_pause_and_poll(struct verbs *v, struct wait *wait, uint64_t seen)
{
    (void)iso_network_pause(&v->net, wait, seen);
    if (v->net.lost)
        return;
    v->net.polls++;
    wait->worked |= iso_verbs_poll(v);
}

static bool can_add(const struct verbs *v, const struct verbs_queue *q, unsigned requests, int slots)
{
    return q->made + requests - q->done <= VERBS_DEPTH && v->n_free_slots >= slots &&
           v->in_flight + requests < VERBS_COMPLETIONS - VERBS_DEPTH;
}

void iso_verbs_make_room(struct verbs *v, struct verbs_queue *q, unsigned requests, int slots)
{
    if (ISO_LIKELY(can_add(v, q, requests, slots)))
        return;
    struct wait wait = ISO_WAIT("room in a send queue", q->pe, NULL, q->made + requests - VERBS_DEPTH);
    iso_network_add(&v->net.counts.credit_waits, 1);
    iso_verbs_post_all(v);
    iso_verbs_poll(v);
    while (!can_add(v, q, requests, slots)) {
        verbs_pause_and_poll(v, &wait, q->done);
        if (iso_network_has_lost(&v->net, q->pe))
            iso_verbs_post_all(v);
    }
    iso_network_end_wait(&v->net, &wait);
    if (ISO_UNLIKELY(v->net.bereft))
        iso_network_await_break(&v->net);
}

static bool verbs_is_done(const struct verbs_queue *q, uint64_t made, uint64_t asked)
{
    return q->done >= made && q->answered >= asked;
}

void iso_verbs_wait(struct verbs *v, struct verbs_queue *q, uint64_t made, uint64_t asked, const char *what)
{
    if (verbs_is_done(q, made, asked) && !iso_network_has_lost(&v->net, q->pe))
        return;
    struct wait wait = ISO_WAIT(what, q->pe, NULL, made > q->done ? made : asked);
    iso_verbs_post(v, q);
    iso_verbs_poll(v);
    while (!verbs_is_done(q, made, asked)) {
        verbs_pause_and_poll(v, &wait, made > q->done ? q->done : q->answered);
        if (iso_network_has_lost(&v->net, q->pe))
            drop_requests(v, q);
    }
    iso_network_end_wait(&v->net, &wait);
    if (ISO_UNLIKELY(v->net.bereft))
        iso_network_await_break(&v->net);
}
