/* SPDX-License-Identifier: MIT */
/* Double of an RDMA device, for one PE without a job: what is posted completes in order, unless the test holds it;
 * messages come when the test brings them. PE 0 is this process; of the others there are queue pairs and keys only.
 * Included by verbs_queue_test.c, verbs_port_test.c. */
#ifndef VERBS_DOUBLE_H
#define VERBS_DOUBLE_H

#include "heap_double.h"

#include "../../shmem/transport/verbs/verbs.h"

#include <errno.h>
#include <sys/eventfd.h>

enum { NIC_COMPLETIONS = 8192, NIC_ARRIVALS = 256 };

static struct {
    struct ibv_context context;
    struct ibv_cq sent, received;
    struct ibv_srq srq;
    struct ibv_mr mr;
    struct ibv_comp_channel events;
    uint64_t completions[NIC_COMPLETIONS]; /* ids, as posted */
    unsigned made, taken, most;            /* most: that were under way at once */
    bool held;                             /* atomic: none is given */
    unsigned bad;                          /* the next so many fail */
    unsigned errors;                       /* queue pairs that were put into the error state */
    unsigned destroyed;                    /* queue pairs */
    struct ibv_wc arrivals[NIC_ARRIVALS];
    unsigned arrived, read;
    unsigned registered, unregistered;
    size_t registered_bytes;
    void (*on_post)(struct ibv_qp *qp, const struct ibv_send_wr *wr);
    void (*on_poll)(void);
} nic;

/* ---- what the device does ---- */

static int nic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)bad;
    for (; wr != NULL; wr = wr->next) {
        if (nic.on_post != NULL)
            nic.on_post(qp, wr);
        if ((wr->send_flags & IBV_SEND_SIGNALED) != 0)
            nic.completions[nic.made++ % NIC_COMPLETIONS] = wr->wr_id;
    }
    nic.most = ISO_MAX(nic.most, nic.made - nic.taken);
    return 0;
}

static int nic_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    int n = 0;
    if (nic.on_poll != NULL)
        nic.on_poll();
    if (cq == &nic.received)
        for (; n < most && nic.read < nic.arrived; n++)
            wc[n] = nic.arrivals[nic.read++ % NIC_ARRIVALS];
    else if (!__atomic_load_n(&nic.held, __ATOMIC_RELAXED))
        for (; n < most && nic.taken < nic.made; n++)
            wc[n] = (struct ibv_wc){.wr_id = nic.completions[nic.taken++ % NIC_COMPLETIONS],
                                    .status = nic.bad > 0 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS};
    nic.bad -= ISO_MIN(nic.bad, cq == &nic.sent ? (unsigned)n : 0);
    return n;
}

static int nic_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    nic.errors += attr->qp_state == IBV_QPS_ERR && mask == IBV_QP_STATE;
    return qp->context == &nic.context ? 0 : EINVAL;
}

static int nic_destroy_qp(struct ibv_qp *qp)
{
    nic.destroyed++;
    free(qp);
    return 0;
}

static const char *nic_status_text(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? "no answer" : "another status";
}

static int nic_notify(struct ibv_cq *cq, int solicited)
{
    (void)cq;
    return solicited;
}

static int nic_post_receive(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)wr, (void)bad;
    return srq == &nic.srq ? 0 : EINVAL;
}

static struct ibv_srq *nic_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    (void)pd, (void)attr;
    return &nic.srq;
}

static struct ibv_mr *nic_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    (void)pd, (void)at, (void)access;
    nic.registered++;
    nic.registered_bytes += len;
    return &nic.mr;
}

static int nic_dereg_mr(struct ibv_mr *mr)
{
    nic.unregistered++;
    return mr == &nic.mr ? 0 : EINVAL;
}

/* ---- the PE over it ---- */

static inline void give_key(struct verbs *v, int pe, uint64_t from, uint64_t to)
{
    const struct network_key key = {.start = REMOTE_BASE + from, .end = REMOTE_BASE + to, .key = 1};
    CHECK_OR_EXIT(iso_range_add(&v->net.peers[pe].keys, sizeof key, &key) != NULL);
}

static struct verbs *open_double(int n_pes)
{
    struct verbs *v = (struct verbs *)calloc(1, sizeof *v);
    memset(&nic, 0, sizeof nic);
    CHECK_OR_EXIT(v != NULL);
    open_heap(n_pes);
    nic.context.ops.post_send = nic_post_send;
    nic.context.ops.poll_cq = nic_poll_cq;
    nic.context.ops.req_notify_cq = nic_notify;
    nic.context.ops.post_srq_recv = nic_post_receive;
    nic.sent.context = nic.received.context = nic.srq.context = &nic.context;
    nic.events.fd = eventfd(0, EFD_CLOEXEC);
    nic.context.async_fd = nic.events.fd;
    v->lib.reg_mr = nic_reg_mr;
    v->lib.dereg_mr = nic_dereg_mr;
    v->lib.create_srq = nic_create_srq;
    v->lib.modify_qp = nic_modify_qp;
    v->lib.destroy_qp = nic_destroy_qp;
    v->lib.wc_status_str = nic_status_text;
    v->device = &nic.context;
    v->events = &nic.events;
    v->sent = &nic.sent;
    v->received = &nic.received;
    v->port.max_message = v->port.max_read = 1u << 30;
    v->peers = (struct verbs_peer *)calloc((size_t)n_pes, sizeof *v->peers);
    CHECK_EQ(iso_network_open(&v->net, &iso_verbs_port), 0);
    v->net.device_direct = v->net.pins = true;
    CHECK_EQ(iso_verbs_memory_start(v), 0);
    CHECK_EQ(iso_verbs_receive_start(v), 0);
    ISO->verbs = v;
    return v;
}

static void close_double(struct verbs *v)
{
    ISO->verbs = NULL;
    for (uint32_t i = 0; i < v->n_queues; i++) {
        if (v->queues[i]->qp != &v->no_qp)
            free(v->queues[i]->qp);
        free(v->queues[i]);
    }
    free(v->queues);
    iso_verbs_memory_stop(v);
    iso_network_close(&v->net);
    CHECK_EQ(nic.unregistered, nic.registered);
    close(nic.events.fd);
    free(v->peers);
    free(v);
    close_heap();
}

/* Of the default context: the one that PE 0 made to `pe`, or, incoming, its partner for what `pe` has made. */
static inline struct verbs_queue *add_queue(struct verbs *v, int pe, bool incoming, uint32_t inline_bytes)
{
    struct verbs_queue *q = (struct verbs_queue *)calloc(1, sizeof *q);
    struct ibv_qp *qp = (struct ibv_qp *)calloc(1, sizeof *qp);
    v->queues = (struct verbs_queue **)realloc(v->queues, sizeof(struct verbs_queue *) * (v->n_queues + 1));
    CHECK_OR_EXIT(q != NULL && qp != NULL && v->queues != NULL);
    qp->context = &nic.context;
    qp->qp_num = 100 + v->n_queues;
    q->qp = qp;
    q->pe = pe;
    q->incoming = incoming;
    q->ready = true;
    q->inline_bytes = inline_bytes;
    q->index = v->n_queues;
    v->queues[v->n_queues++] = q;
    if (incoming) {
        v->peers[pe].in[0] = q;
    } else {
        v->net.peers[pe].out[0] = &q->link;
        q->link.next_in_group = v->net.groups[0];
        v->net.groups[0] = &q->link;
    }
    return q;
}

static inline void bring(struct verbs *v, const struct verbs_queue *q, const struct verbs_message *message)
{
    unsigned i = nic.arrived % NIC_ARRIVALS;
    memcpy(v->memory + (size_t)i * VERBS_RECEIVE_BYTES, message, sizeof *message);
    nic.arrivals[i] = (struct ibv_wc){.wr_id = i, .byte_len = sizeof *message, .qp_num = q->qp->qp_num};
    nic.arrived++;
}

#endif
