/* SPDX-License-Identifier: MIT */
/* Queue pairs, made by the first operation of a context group on a peer. The initiator makes its end and asks the peer
 * through the channel, and the peer makes the partner. Each direction has its own, so two PEs may connect to each other
 * at once. Queue pair numbers travel over the authenticated channel only. The device repeats unanswered requests after
 * SHMEM_NIC_TIMEOUT or more. It repeats without limit to a receiver that has no buffer ready: the channel watches
 * whether that PE lives. Soft-RoCE also counts a packet out of order, or a late answer of a busy host, as a retry.
 * There it repeats without limit (seven means that to it), and verbs_thread.c decides when that was too long. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { RETRIES = 6, RETRIES_SOFTWARE = 7, RNR_RETRIES_FOR_EVER = 7, RNR_TIMER = 12, HOPS = 64 };
#define DEFAULT_TIMEOUT_S 0.25

/* ---- one end ---- */

/* NULL: errno says why. */
static struct verbs_queue *make_queue(struct verbs *v, int pe, int group, bool incoming)
{
    static const uint32_t widths[] = {VERBS_INLINE, 96, 64, 48, 0};
    _Static_assert(sizeof(struct verbs_message) <= 48, "the least width but none has room for a message");
    struct verbs_queue *q = (struct verbs_queue *)calloc(1, sizeof *q);
    if (q == NULL)
        return NULL;
    q->pe = pe;
    q->group = group;
    q->incoming = incoming;

    /* As much inline data as the device gives: a message that fits inline is as fast as a small put. */
    for (size_t i = 0; q->qp == NULL && i < sizeof widths / sizeof widths[0]; i++) {
        struct ibv_qp_init_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.send_cq = v->sent;
        attr.recv_cq = v->received;
        attr.srq = v->srq;
        attr.qp_type = IBV_QPT_RC;
        attr.cap.max_send_wr = VERBS_DEPTH;
        attr.cap.max_send_sge = 1;
        attr.cap.max_inline_data = widths[i];
        q->qp = v->lib.create_qp(v->pd, &attr);
        q->inline_bytes = attr.cap.max_inline_data;
    }
    int error = q->qp == NULL ? errno : 0;
    v->counts.queue_pairs++;
    if (q->qp != NULL && v->n_queues == v->max_queues) {
        uint32_t max = ISO_MAX(2 * v->max_queues, 16u);
        struct verbs_queue **grown =
            max <= VERBS_QUEUES_MAX ? (struct verbs_queue **)realloc(v->queues, sizeof *grown * max) : NULL;
        error = grown != NULL ? 0 : max > VERBS_QUEUES_MAX ? ENOSPC : ENOMEM;
        v->queues = grown != NULL ? grown : v->queues;
        v->max_queues = grown != NULL ? max : v->max_queues;
    }
    if (q->qp != NULL && error == 0) {
        q->index = v->n_queues;
        v->queues[v->n_queues++] = q;
        return q;
    }
    if (q->qp != NULL)
        v->lib.destroy_qp(q->qp);
    free(q);
    errno = error != 0 ? error : ENOMEM;
    return NULL;
}

static void describe_port(const struct verbs *v, struct verbs_hello *hello)
{
    hello->lid = v->port.lid;
    hello->mtu = v->port.mtu;
    hello->read_depth = v->port.read_depth;
    hello->ethernet = v->port.ethernet;
    hello->global = v->port.global;
    hello->port = v->port.number;
    memcpy(hello->gid, v->port.gid.raw, sizeof hello->gid);
    snprintf(hello->device, sizeof hello->device, "%.31s", v->port.device);
}

static void describe(const struct verbs *v, const struct verbs_queue *q, uint32_t psn, struct verbs_hello *hello)
{
    hello->qpn = q->qp->qp_num;
    hello->psn = psn;
    hello->group = (uint32_t)q->group;
    describe_port(v, hello);
}

static int to_init(const struct verbs *v, const struct verbs_queue *q)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = v->port.number;
    attr.qp_access_flags = q->incoming ? (unsigned)(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) : 0;
    return -v->lib.modify_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Does an address need the GID? It does between subnets of InfiniBand too: their GIDs have different prefixes. */
static bool is_global(const struct verbs_port *port, const struct verbs_hello *other)
{
    static const uint8_t none[16] = {0};
    bool known = memcmp(port->gid.raw, none, sizeof none) != 0 && memcmp(other->gid, none, sizeof none) != 0;
    return port->ethernet || port->global || other->global || (known && memcmp(port->gid.raw, other->gid, 8) != 0);
}

static int to_receive(const struct verbs *v, const struct verbs_queue *q, const struct verbs_hello *other)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = (enum ibv_mtu)ISO_MIN(v->port.mtu, other->mtu);
    attr.dest_qp_num = other->qpn;
    attr.rq_psn = other->psn;
    attr.max_dest_rd_atomic = v->port.read_depth;
    attr.min_rnr_timer = RNR_TIMER;
    attr.ah_attr.port_num = v->port.number;
    attr.ah_attr.dlid = other->lid;
    if (is_global(&v->port, other)) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, other->gid, sizeof other->gid);
        attr.ah_attr.grh.sgid_index = v->port.gid_index;
        attr.ah_attr.grh.hop_limit = HOPS;
    }
    return -v->lib.modify_qp(q->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

double iso_verbs_timeout_s(void) { return ISO->env->nic_timeout > 0 ? ISO->env->nic_timeout : DEFAULT_TIMEOUT_S; }

static int to_send(const struct verbs *v, const struct verbs_queue *q, uint32_t psn, const struct verbs_hello *other)
{
    struct ibv_qp_attr attr;
    double us = 4.096; /* the device counts in powers of 2 of 4.096 us */
    memset(&attr, 0, sizeof attr);
    for (; us < iso_verbs_timeout_s() * 1e6 && attr.timeout < 31; us *= 2)
        attr.timeout++;
    attr.qp_state = IBV_QPS_RTS;
    attr.retry_cnt = v->port.software ? RETRIES_SOFTWARE : RETRIES;
    attr.rnr_retry = RNR_RETRIES_FOR_EVER;
    attr.sq_psn = psn;
    attr.max_rd_atomic = ISO_MIN(v->port.read_depth, other->read_depth);
    return -v->lib.modify_qp(q->qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC);
}

/* 0 or -errno. Both ends receive before either sends: the partner was ready before it answered the initiator. */
static int connect_queue(struct verbs *v, struct verbs_queue *q, uint32_t psn, const struct verbs_hello *other)
{
    char address[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, other->gid, address, sizeof address);
    snprintf(q->peer_port, sizeof q->peer_port, "%.31s port %d, %s", other->device, other->port, address);
    int rc = to_receive(v, q, other);
    v->counts.system_calls += 2;
    if (rc == 0)
        rc = to_send(v, q, psn, other);
    q->ready = rc == 0;
    return rc;
}

static uint32_t make_psn(void)
{
    uint32_t psn = 0;
    if (getrandom(&psn, sizeof psn, 0) != sizeof psn)
        psn = (uint32_t)iso_wait_now_ns();
    return psn & 0xffffff;
}

/* ---- the target's side ---- */

static int answer_connect(struct verbs *v, int pe, const struct verbs_hello *hello, struct verbs_hello *mine)
{
    uint32_t psn = make_psn();
    if (hello->group >= NETWORK_GROUPS)
        return -EINVAL;
    if (hello->ethernet != v->port.ethernet) {
        describe_port(v, mine);
        return -EPROTO;
    }
    if (v->peers[pe].in[hello->group] != NULL)
        return -EALREADY;
    struct verbs_queue *q = make_queue(v, pe, (int)hello->group, true);
    if (q == NULL)
        return -errno;
    v->peers[pe].in[hello->group] = q;
    describe(v, q, psn, mine);
    int rc = to_init(v, q);
    return rc != 0 ? rc : connect_queue(v, q, psn, hello);
}

int iso_verbs_answer(int pe, const void *request, void *answer)
{
    struct verbs_hello hello, mine = {0};
    _Static_assert(sizeof hello <= CHANNEL_BODY_BYTES, "one message of the channel");
    memcpy(&hello, request, sizeof hello);
    int rc = hello.type == VERBS_CONNECT ? answer_connect(ISO->verbs, pe, &hello, &mine) : -EPROTO;
    memcpy(answer, &mine, sizeof mine);
    return rc;
}

/* ---- the initiator's side ---- */

ISO_COLD static struct network_queue *fail_connect(struct verbs *v, int pe, const char *where, int error)
{
    errno = -error;
    __extension__ iso_network_lose(&v->net, -1, "connecting pe %d (host %s, %s port %d) to pe %d (host %s) by a queue "
                                   "pair failed %s: %m", ISO->my_pe, ISO->boot.host, v->port.device, v->port.number, pe,
                                   ISO->peers[pe].host, where);
    return NULL;
}

static const char *layer_of(bool ethernet) { return ethernet ? "Ethernet" : "InfiniBand"; }

struct network_queue *iso_verbs_connect(int pe, int group)
{
    struct verbs *v = ISO->verbs;
    struct verbs_hello mine = {.type = VERBS_CONNECT};
    uint32_t psn = make_psn();
    struct verbs_queue *q = make_queue(v, pe, group, false);
    int rc = q != NULL ? to_init(v, q) : -errno;
    if (rc != 0)
        return fail_connect(v, pe, "here", rc);
    describe(v, q, psn, &mine);
    struct verbs_hello other = mine;
    rc = iso_network_ask(&v->net, pe, &other, sizeof other);
    if (rc == 0 && other.error == -EPROTO && other.port != 0)
        iso_network_lose(&v->net, -1, "pe %d (host %s) uses %s port %d, which is %s, and pe %d (host %s) uses %.32s "
                         "port %d, which is %s: they cannot talk to each other; set SHMEM_NIC so that all PEs use "
                         "ports of one kind", ISO->my_pe, ISO->boot.host, v->port.device, v->port.number,
                         layer_of(v->port.ethernet), pe, ISO->peers[pe].host, other.device, other.port,
                         layer_of(other.ethernet != 0));
    if (rc != 0 || other.error != 0)
        return fail_connect(v, pe, "there", rc != 0 ? rc : other.error);
    rc = connect_queue(v, q, psn, &other);
    if (rc != 0)
        return fail_connect(v, pe, "here", rc);
    log_debug("verbs: connected to pe %d (host %s, %s), group %d", pe, ISO->peers[pe].host, q->peer_port, group);
    return &q->link;
}
