/* SPDX-License-Identifier: MIT */
/* RDMA between nodes: queue pairs to peers, the progress thread, start and end, the text for isomer-info, and the row
 * in transport.c. verbs.h describes the state. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "verbs.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>

/* Queue pairs, made by the first operation of a context group on a peer. The initiator makes its end and asks the peer
 * through the channel, and the peer makes the partner. Each direction has its own, so two PEs may connect to each other
 * at once. Queue pair numbers travel over the authenticated channel only. The device repeats unanswered requests after
 * SHMEM_NIC_TIMEOUT or more. It repeats without limit to a receiver that has no buffer ready: the channel watches
 * whether that PE lives. Soft-RoCE also counts a packet out of order, or a late answer of a busy host, as a retry.
 * There it repeats without limit (seven means that to it), and the thread decides when that was too long. */

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

static void describe_nic(const struct verbs *v, const struct verbs_queue *q, uint32_t psn, struct verbs_hello *hello)
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

/* SHMEM_NIC_TIMEOUT or its default. */
static double ack_timeout_s(void) { return ISO->env->nic_timeout > 0 ? ISO->env->nic_timeout : DEFAULT_TIMEOUT_S; }

static int to_send(const struct verbs *v, const struct verbs_queue *q, uint32_t psn, const struct verbs_hello *other)
{
    struct ibv_qp_attr attr;
    double us = 4.096; /* the device counts in powers of 2 of 4.096 us */
    memset(&attr, 0, sizeof attr);
    for (; us < ack_timeout_s() * 1e6 && attr.timeout < 31; us *= 2)
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
        psn = (uint32_t)iso_clock_now_ns();
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
    describe_nic(v, q, psn, mine);
    int rc = to_init(v, q);
    return rc != 0 ? rc : connect_queue(v, q, psn, hello);
}

/* Of struct network_port. */
static int verbs_answer_request(int pe, const void *request, void *answer)
{
    struct verbs_hello hello, mine = {0};
    _Static_assert(sizeof hello <= CHANNEL_BODY_BYTES, "one message of the channel");
    memcpy(&hello, request, sizeof hello);
    int rc = hello.type == VERBS_CONNECT ? answer_connect(ISO->verbs, pe, &hello, &mine) : -EPROTO;
    memcpy(answer, &mine, sizeof mine);
    return rc;
}

/* ---- the initiator's side ---- */

/* An error of the other end, or of the way there, is one of this peer alone. */
ISO_COLD static struct network_queue *fail_connect(struct verbs *v, int pe, bool there, int error)
{
    errno = -error;
    __extension__ iso_network_lose(&v->net, there ? pe : -1, "connecting pe %d (host %s, %s port %d) to pe %d (host %s) by a queue "
                                   "pair failed %s: %m", ISO->my_pe, ISO->host, v->port.device, v->port.number, pe,
                                   ISO->peers[pe].host, there ? "there" : "here");
    return NULL;
}

static const char *layer_of(bool ethernet) { return ethernet ? "Ethernet" : "InfiniBand"; }

/* This one and the next are of struct network_port. */
static struct network_queue *verbs_nowhere(int pe)
{
    ISO->verbs->nowhere.pe = pe;
    return &ISO->verbs->nowhere.link;
}

static struct network_queue *make_connection(int pe, int group)
{
    struct verbs *v = ISO->verbs;
    struct verbs_hello mine = {.type = VERBS_CONNECT};
    uint32_t psn = make_psn();
    struct verbs_queue *q = make_queue(v, pe, group, false);
    int rc = q != NULL ? to_init(v, q) : -errno;
    if (rc != 0)
        return fail_connect(v, pe, false, rc);
    describe_nic(v, q, psn, &mine);
    struct verbs_hello other = mine;
    rc = iso_network_ask(&v->net, pe, &other, sizeof other);
    if (iso_network_has_lost(&v->net, pe))
        return NULL;
    if (rc == 0 && other.error == -EPROTO && other.port != 0)
        iso_network_lose(&v->net, -1, "pe %d (host %s) uses %s port %d, which is %s, and pe %d (host %s) uses %.32s "
                         "port %d, which is %s: they cannot talk to each other; set SHMEM_NIC so that all PEs use "
                         "ports of one kind", ISO->my_pe, ISO->host, v->port.device, v->port.number,
                         layer_of(v->port.ethernet), pe, ISO->peers[pe].host, other.device, other.port,
                         layer_of(other.ethernet != 0));
    if (rc != 0 || other.error != 0)
        return fail_connect(v, pe, true, rc != 0 ? rc : other.error);
    rc = connect_queue(v, q, psn, &other);
    if (rc != 0)
        return fail_connect(v, pe, false, rc);
    log_debug("verbs: connected to pe %d (host %s, %s), group %d", pe, ISO->peers[pe].host, q->peer_port, group);
    return &q->link;
}

/* The progress thread serves peers while this PE computes. It sleeps until a message, the channel or the device wakes
 * it. Threads of this PE that wait poll the queues themselves, and those that sleep are woken by the same events.
 * Meanwhile the progress thread leaves the events alone, so that it does not take a core at each message, and checks
 * again after a moment whether they still wait. */

enum { WATCH_TIMEOUTS = 40 };
#define LOOKS_LONGER 3u /* doublings of NETWORK_LOOK_NS where each look costs the network's own time */
enum { FD_CHANNEL, FD_DEVICE, FD_WAKE, FD_EVENTS, FDS };

static bool verbs_progress(void)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL || !iso_network_begin_look(&v->net))
        return false;
    iso_verbs_post_all(v);
    iso_verbs_poll(v);
    return iso_network_end_look(&v->net);
}

/* ---- events: called with the lock, which guards `armed` ---- */

static void ask_for_event(struct ibv_cq *cq, bool *armed)
{
    if (!*armed)
        ibv_req_notify_cq(cq, 0);
    *armed = true;
}

static void take_events(struct verbs *v)
{
    struct ibv_cq *cq;
    void *context;
    while (v->lib.get_cq_event(v->events, &cq, &context) == 0) {
        v->lib.ack_cq_events(cq, 1);
        *(cq == v->received ? &v->armed : &v->armed_sent) = false;
        v->counts.events++;
    }
}

/* ---- devices made of software repeat unacknowledged requests for ever ---- */

/* Counts looks, not time: a process that was stopped has not waited. */
static void watch_events(struct verbs *v)
{
    char why[160];
    double limit_s = WATCH_TIMEOUTS * ack_timeout_s();
    if (!v->port.software || !iso_network_watches(&v->net))
        return;
    for (uint32_t i = 0; i < v->n_queues; i++) {
        struct verbs_queue *q = v->queues[i];
        bool under_way = q->done + q->n_batch < q->made;
        q->stuck = under_way && q->done == q->watched ? q->stuck + 1 : 0;
        q->watched = q->done;
        if (q->stuck * (NETWORK_WATCH_NS / 1e9) < limit_s)
            continue;
        snprintf(why, sizeof why,
                 "not acknowledged for %.1f s (%d times SHMEM_NIC_TIMEOUT): the link or the node is down", limit_s,
                 WATCH_TIMEOUTS);
        iso_verbs_fail_request(v, q, &q->requests[q->done & (VERBS_DEPTH - 1)], why);
        return;
    }
}

/* ---- a wait that sleeps ---- */

static bool verbs_rest(uint64_t ns)
{
    struct verbs *v = ISO->verbs;
    const struct timespec t = {0, (long)ns};
    if (v == NULL || iso_network_failed(&v->net))
        return false;
    struct pollfd fd = {v->events->fd, POLLIN, 0};
    iso_verbs_lock(v);
    v->net.sleepers++;
    v->net.polls += NETWORK_BUSY_POLLS + 1; /* a sleep lasts no longer than NETWORK_LOOK_NS */
    v->counts.sleeps++;
    watch_events(v); /* the thread may sleep too, and a stuck queue wakes no thread */
    iso_verbs_post_all(v);
    ask_for_event(v->received, &v->armed);
    if (v->in_flight > 0)
        ask_for_event(v->sent, &v->armed_sent);
    if (!iso_verbs_poll(v)) { /* a completion before the request for an event makes no event */
        iso_verbs_unlock(v);
        int n = ppoll(&fd, 1, &t, NULL);
        iso_verbs_lock(v);
        if (n > 0)
            take_events(v);
    }
    if (!v->armed) { /* the event was the thread's too, which may sleep on while this thread stops polling */
        ask_for_event(v->received, &v->armed);
        iso_verbs_poll(v);
    }
    v->net.sleepers--;
    iso_verbs_unlock(v);
    return true;
}

/* ---- the thread ---- */

/* This one and the next are of struct network_port. Threads of this PE do the work, or answers wait, or else events are
 * requested. Waits poll less on a core that the network or another PE needs too. */
static uint64_t verbs_look_for_work(void)
{
    struct verbs *v = ISO->verbs;
    uint64_t now = iso_clock_now_ns(), next_ns = 0;
    iso_verbs_lock(v);
    if (iso_network_is_busy(&v->net, now, v->port.software ? 1 : NETWORK_BUSY_POLLS)) {
        watch_events(v);
        next_ns = (uint64_t)NETWORK_LOOK_NS << ISO_MIN(v->net.busy_looks++, v->port.software ? LOOKS_LONGER : 0u);
    } else {
        v->net.busy_looks = 0;
        ask_for_event(v->received, &v->armed);
        iso_verbs_poll(v);
        /* completions make room for answers, and no event was asked for */
        next_ns = v->late != NULL ? NETWORK_LOOK_NS : 0;
    }
    iso_verbs_unlock(v);
    return next_ns;
}

static void take_device_event(struct verbs *v)
{
    struct ibv_async_event event;
    if (v->lib.get_async_event(v->device, &event) != 0)
        return;
    enum ibv_event_type type = event.event_type;
    const char *text = v->lib.event_type_str(type);
    v->lib.ack_async_event(&event);
    if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_SRQ_ERR) {
        iso_verbs_lock(v);
        iso_network_lose(&v->net, -1, "the RDMA device %s of pe %d (host %s) reports: %s", v->port.device, ISO->my_pe,
                         ISO->host, text);
        iso_verbs_unlock(v);
    }
    if (type == IBV_EVENT_PORT_ERR)
        log_warn("%s port %d of host %s has lost its link: %s", v->port.device, v->port.number, ISO->host, text);
    else
        log_debug("verbs: %s of host %s: %s", v->port.device, ISO->host, text);
}

static void verbs_sleep_until_work(uint64_t look_ns)
{
    struct verbs *v = ISO->verbs;
    const struct timespec look = {0, (long)look_ns};
    bool busy = look_ns != 0;
    struct pollfd fds[FDS] = {[FD_CHANNEL] = {iso_channel_fd(), POLLIN, 0},
                              [FD_DEVICE] = {v->device->async_fd, POLLIN, 0},
                              [FD_WAKE] = {v->net.wake, POLLIN, 0},
                              [FD_EVENTS] = {v->events->fd, POLLIN, 0}};
    int n = ppoll(fds, busy ? FD_EVENTS : FDS, busy ? &look : NULL, NULL);
    if (n <= 0)
        return;
    if ((fds[FD_EVENTS].revents & POLLIN) != 0) {
        iso_verbs_lock(v);
        take_events(v);
        iso_verbs_poll(v);
        iso_verbs_unlock(v);
    }
    if (fds[FD_CHANNEL].revents != 0)
        iso_channel_progress();
    if ((fds[FD_DEVICE].revents & POLLIN) != 0)
        take_device_event(v);
}

static bool verbs_reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : "another node: by RDMA (libibverbs)";
    return !peer->local;
}

static size_t text(char *at, size_t bytes)
{
    const struct verbs *v = ISO->verbs;
    size_t n;
    if (v == NULL)
        return 0;
    n = (size_t)snprintf(at, bytes, "%s port %d gid %d: keys %llu, ", v->port.device, v->port.number, v->port.gid_index,
                         (unsigned long long)v->net.asked_keys);
#define X(name)                                                                                     \
    n += (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "%s %llu, ", #name, \
                          (unsigned long long)v->counts.name);
    VERBS_COUNTS(X)
#undef X
    return n + iso_verbs_reach_text(v, n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0);
}

static const char *error_text(int error) { return strerror(error); }

static void verbs_complete(void)
{
    struct verbs *v = ISO->verbs;
    for (uint32_t i = 0; i < v->n_queues; i++) {
        iso_verbs_post(v, v->queues[i]);
        iso_verbs_wait(v, v->queues[i], v->queues[i]->made, v->queues[i]->asked, "shmem_finalize");
    }
}

const struct network_port iso_verbs_port = {
    .name = "verbs",
    .drop = iso_verbs_drop_all,
    .drop_pe = iso_verbs_drop_pe,
    .nowhere = verbs_nowhere,
    .connect = make_connection,
    .fence = iso_verbs_fence,
    .begin_quiet = iso_verbs_begin_quiet,
    .end_quiet = iso_verbs_end_quiet,
    .complete = verbs_complete,
    .look = verbs_look_for_work,
    .sleep = verbs_sleep_until_work,
    .text = text,
    .error_text = error_text,
    .expose = iso_verbs_expose,
    .conceal = iso_verbs_conceal,
    .make_key = iso_verbs_make_key,
    .answer = verbs_answer_request,
};

/* ---- start ---- */

static int make_queues(struct verbs *v)
{
    v->events = v->lib.create_comp_channel(v->device);
    if (v->events != NULL) {
        v->sent = v->lib.create_cq(v->device, VERBS_COMPLETIONS, NULL, v->events, 0);
        v->received = v->lib.create_cq(v->device, VERBS_RECEIVES, NULL, v->events, 0);
    }
    if (v->sent == NULL || v->received == NULL) {
        log_error("shmem_init: the RDMA device %s of host %s gives no completion queues of %d and %d entries: %m",
                  v->port.device, ISO->host, VERBS_COMPLETIONS, VERBS_RECEIVES);
        return -EIO;
    }
    /* A thread that takes an event must never sleep in the read: another thread may have been faster. */
    fcntl(v->events->fd, F_SETFL, fcntl(v->events->fd, F_GETFL) | O_NONBLOCK);
    fcntl(v->device->async_fd, F_SETFL, fcntl(v->device->async_fd, F_GETFL) | O_NONBLOCK);
    return 0;
}

static const struct library_function functions[] = {
#define X(field, name) {#name, offsetof(struct verbs_library, field)},
    VERBS_FUNCTIONS(X)
#undef X
    {NULL, 0}};
static const struct library_needs needs = {
    .file = "libibverbs.so.1",
    .purpose = "this job has PEs on several nodes, which needs RDMA",
    .install = "the packages libibverbs1 and ibverbs-providers",
    .newer = "libibverbs1 28 or later",
    .functions = functions,
};

static int open_verbs(void)
{
    struct verbs *v = (struct verbs *)calloc(1, sizeof *v);
    if (v == NULL)
        return -ENOMEM;
    ISO->verbs = v;
    v->net.device_direct = v->net.pins = true;
    v->peers = (struct verbs_peer *)calloc((size_t)ISO->n_pes, sizeof *v->peers);
    int rc = iso_network_open(&v->net, &iso_verbs_port);
    if (rc == 0)
        rc = v->peers != NULL ? iso_verbs_reach_start(v) : -ENOMEM;
    if (rc == 0)
        rc = iso_library_open(&needs, &v->lib);
    if (rc == 0) {
        void *newer = dlsym(v->lib.handle, "ibv_reg_dmabuf_mr");
        memcpy(&v->lib.reg_dmabuf_mr, &newer, sizeof newer);
        rc = iso_verbs_device_open(v);
    }
    if (rc == 0)
        rc = make_queues(v);
    return rc;
}

NETWORK_FORWARDERS(verbs)

static int start(void)
{
    struct verbs *v = ISO->verbs;
    int rc = iso_verbs_memory_start(v);
    if (rc == 0)
        rc = iso_verbs_receive_start(v);
    if (rc != 0)
        return rc;
    if (v->port.software) { /* polls that do not yield would keep the network from the cores */
        ISO->oversubscribed = ISO->soft_network = true;
        prctl(PR_SET_TIMERSLACK, 1000ul); /* sleeps of this thread: 1 us late instead of 50 */
    }
    iso_channel_set_handler(answer);
    log_debug("verbs: %s port %d, GID %d%s", v->port.device, v->port.number, v->port.gid_index,
              v->port.software ? ", made of software" : "");
    return iso_network_thread_start(&v->net);
}

/* ---- end ---- */

static void verbs_destroy(struct verbs *v)
{
    for (uint32_t i = 0; i < v->n_queues; i++) {
        if (v->queues[i]->qp != &v->no_qp)
            v->lib.destroy_qp(v->queues[i]->qp);
        free(v->queues[i]);
    }
    free(v->queues);
    if (v->srq != NULL)
        v->lib.destroy_srq(v->srq);
    if (v->received != NULL)
        v->lib.destroy_cq(v->received);
    if (v->sent != NULL)
        v->lib.destroy_cq(v->sent);
    if (v->events != NULL)
        v->lib.destroy_comp_channel(v->events);
    iso_verbs_memory_stop(v);
    if (v->pd != NULL)
        v->lib.dealloc_pd(v->pd);
    if (v->device != NULL)
        v->lib.close_device(v->device);
    iso_network_close(&v->net);
    free(v->peers);
    free(v);
}

static void verbs_stop(void)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL)
        return;
    iso_network_stop(&v->net);
    ISO->verbs = NULL;
    verbs_destroy(v);
}

const struct transport_ops iso_transport_verbs = {
    .name = "verbs",
    .open = open_verbs,
    .start = start,
    .stop = verbs_stop,
    NETWORK_ROW,
    .text = text,
    .reaches = verbs_reaches,
    .put = iso_verbs_put,
    .get = iso_verbs_get,
    .amo = iso_verbs_amo,
    .amo_nbi = iso_verbs_amo_nbi,
    .signal = iso_verbs_signal,
    .put_signal = iso_verbs_put_signal,
    .put_words = iso_verbs_put_words,
    .progress = verbs_progress,
    .rest = verbs_rest,
};
