/* SPDX-License-Identifier: MIT */
/* Work requests: collected, posted together, completed in order. Only the last request of a post asks for a completion;
 * its completion completes all before it. A completion of a store means that its bytes are in the target's memory, so
 * quiet needs nothing else. Errors end the job with a sentence, and nothing is posted any more. Nothing here waits, but
 * for an error's end. Called by the other verbs files, with network.lock held. */
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { POLL_MAX = 16 };

/* ---- failure ---- */

const char *iso_verbs_ends(const struct verbs *v, const struct verbs_queue *q, char *text, size_t bytes)
{
    snprintf(text, bytes, "pe %d (host %.63s, %s port %d) to pe %d (host %s, %s)", ISO->my_pe, ISO->boot.host,
             v->port.device, v->port.number, q->pe, ISO->peers[q->pe].host, q->peer_port);
    return text;
}

static struct verbs_request *request_at(struct verbs_queue *q, uint64_t n)
{
    return &q->requests[n & (VERBS_DEPTH - 1)];
}

void iso_verbs_drop(struct verbs *v, struct verbs_queue *q)
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
    v->in_flight = 0;
}

/* Queue pairs go to the error state, so that the device leaves memory alone. */
void iso_verbs_drop_all(void)
{
    struct verbs *v = ISO->verbs;
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_ERR;
    v->net.lost = true; /* not yet where a wait has ended because the job was broken elsewhere */
    for (uint32_t i = 0; i < v->n_queues; i++) {
        struct verbs_queue *q = v->queues[i];
        (void)v->lib.modify_qp(q->qp, &attr, IBV_QP_STATE);
        iso_verbs_drop(v, q);
        q->on_batched = false;
    }
    v->batched = v->late = NULL;
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
                     iso_verbs_ends(v, q, ends, sizeof ends), why);
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
        v->in_flight++; /* the batch's; counted now, since all batches may be posted at once */
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
    if (ISO_UNLIKELY(v->net.lost)) {
        iso_verbs_drop(v, q);
        return;
    }
    q->batch[q->n_batch - 1].send_flags |= IBV_SEND_SIGNALED;
    int rc = ibv_post_send(q->qp, q->batch, &bad);
    q->n_batch = 0;
    q->asked_posted = q->asked;
    v->counts.posts++;
    if (ISO_UNLIKELY(rc != 0)) {
        errno = rc;
        __extension__ iso_network_lose(&v->net, -1, "posting %llu requests from %s failed: %m",
                                       (unsigned long long)(q->made - q->done),
                                       iso_verbs_ends(v, q, ends, sizeof ends));
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

bool iso_verbs_has_answer_room(const struct verbs *v, const struct verbs_queue *q)
{
    return q->made - q->done < VERBS_DEPTH && v->n_free_slots >= iso_verbs_small_needs_slot(q) &&
           v->in_flight < VERBS_COMPLETIONS;
}

/* ---- completions ---- */

static void complete(struct verbs *v, const struct ibv_wc *wc)
{
    struct verbs_queue *q = v->queues[wc->wr_id >> VERBS_ID_BITS];
    uint64_t made = wc->wr_id & VERBS_ID_MASK;
    char why[192];
    v->in_flight--;
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
                         "error", v->port.device, v->port.number, ISO->boot.host, n);
    for (int i = 0; i < n && !v->net.lost; i++)
        complete(v, &wc[i]);
    return v->net.lost ? 0 : n;
}

bool iso_verbs_reap(struct verbs *v)
{
    int n = reap_some(v);
    bool any = n > 0;
    while (n == POLL_MAX)
        n = reap_some(v);
    return any;
}
