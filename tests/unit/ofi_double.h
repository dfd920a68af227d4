/* SPDX-License-Identifier: MIT */
/* Double of a libfabric provider, for one PE without a job: what is posted completes in order, unless the test holds
 * it, refuses it or makes it fail; messages come when the test brings them. PE 0 is this process; of the others there
 * are addresses and tokens only. Included by ofi_queue_test.c. */
#ifndef OFI_DOUBLE_H
#define OFI_DOUBLE_H

#include "heap_double.h"

#include "../../shmem/transport/ofi/ofi.h"

#include <sys/mman.h>

enum { NET_QUEUE = 4096, NET_SENT = 1024, TOKEN_IN = 4711, TOKEN_OUT = 815 };

struct net_entry {
    struct fi_cq_msg_entry entry;
    int error; /* 0: none */
};

static struct {
    struct fid_ep ep;
    struct fid_cq cq;
    struct fid_fabric fabric;
    struct fid_domain domain;
    struct fid_av av;
    struct fi_info info;
    struct fi_fabric_attr fabric_attr;
    struct fi_domain_attr domain_attr;
    struct fi_tx_attr tx_attr;
    struct fi_rx_attr rx_attr;
    struct net_entry queue[NET_QUEUE];
    unsigned made, taken;
    void *receives[NET_QUEUE]; /* contexts */
    char *buffers[NET_QUEUE];
    unsigned given, used;
    struct ofi_message sent[NET_SENT]; /* the last ones */
    char last_data[OFI_DATA_BYTES];    /* of the last one */
    unsigned n_sent, n_posts, n_writes, n_reads; /* messages; sends that carried them */
    bool held;          /* completions of what is posted from now on do not come */
    unsigned refusals;  /* the next so many posts find no room */
    int post_error;     /* of the next posts; 0: none */
    int complete_error; /* of what is posted from now on */
    int register_error;
    int close_error; /* of the endpoint */
    unsigned registered, bound, closed_mrs, closed_eps;
    char *stage;          /* NULL: the test knows none */
    bool stage_was_there; /* its pages, when the endpoint was closed */
    unsigned reads, trywaits; /* calls */
    void (*on_read)(void);
} net;

/* ---- what the provider does ---- */

static int net_close(struct fid *fid)
{
    if (fid == &net.ep.fid && net.bound > net.closed_mrs)
        return -FI_EBUSY;
    if (fid == &net.ep.fid) {
        net.stage_was_there = net.stage != NULL && msync(net.stage, OFI_STAGE_BYTES, MS_ASYNC) == 0;
        net.closed_eps++;
        return -net.close_error;
    }
    if (fid->fclass == FI_CLASS_MR) {
        net.closed_mrs++;
        free(fid);
    }
    return 0;
}
/* A registration to the endpoint, which it keeps open. */
static int net_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    CHECK(fid->fclass == FI_CLASS_MR && to == &net.ep.fid && flags == 0);
    net.bound++;
    return 0;
}
static int net_control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)argument;
    CHECK_EQ(command, FI_ENABLE);
    return 0;
}
static struct fi_ops net_fid_ops = {
    .size = sizeof(struct fi_ops), .close = net_close, .bind = net_bind, .control = net_control};

static void net_complete(void *context, size_t len, int error)
{
    struct net_entry *e = &net.queue[net.made++ % NET_QUEUE];
    *e = (struct net_entry){{.op_context = context, .len = len}, error};
}

/* 0: it is taken. */
static ssize_t net_post(void *context)
{
    if (net.refusals > 0) {
        net.refusals--;
        return -FI_EAGAIN;
    }
    if (net.post_error != 0)
        return -net.post_error;
    if (!net.held)
        net_complete(context, 0, net.complete_error);
    return 0;
}

static ssize_t net_sendmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    const char *at = (const char *)m->msg_iov->iov_base, *end = at + m->msg_iov->iov_len;
    ssize_t rc = net_post(m->context);
    CHECK(ep == &net.ep && flags == FI_COMPLETION &&
          end - at <= (ptrdiff_t)sizeof(struct ofi_message) + OFI_DATA_BYTES);
    net.n_posts += rc == 0;
    while (rc == 0 && at < end) {
        struct ofi_message *to = &net.sent[net.n_sent++ % NET_SENT];
        CHECK_OR_EXIT(end - at >= (ptrdiff_t)sizeof *to);
        memcpy(to, at, sizeof *to);
        size_t len = to->type == OFI_PUT || to->type == OFI_ANSWER ? to->len : 0;
        CHECK_OR_EXIT(end - at >= (ptrdiff_t)(sizeof *to + len));
        memcpy(net.last_data, at + sizeof *to, len);
        at += sizeof *to + len;
    }
    return rc;
}

static ssize_t net_recvmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    CHECK(ep == &net.ep && flags == FI_COMPLETION);
    net.receives[net.given % NET_QUEUE] = m->context;
    net.buffers[net.given++ % NET_QUEUE] = (char *)m->msg_iov->iov_base;
    return 0;
}

static ssize_t net_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    CHECK(ep == &net.ep && flags == (FI_COMPLETION | FI_DELIVERY_COMPLETE));
    ssize_t rc = net_post(m->context);
    net.n_writes += rc == 0;
    return rc;
}

static ssize_t net_readmsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    CHECK(ep == &net.ep && flags == FI_COMPLETION);
    ssize_t rc = net_post(m->context);
    net.n_reads += rc == 0;
    return rc;
}

static ssize_t net_cq_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fi_cq_msg_entry *out = (struct fi_cq_msg_entry *)buffer;
    size_t n = 0;
    CHECK(cq == &net.cq);
    net.reads++;
    if (net.on_read != NULL)
        net.on_read();
    for (; n < count && net.taken < net.made && net.queue[net.taken % NET_QUEUE].error == 0; n++)
        out[n] = net.queue[net.taken++ % NET_QUEUE].entry;
    return n > 0 ? (ssize_t)n : net.taken < net.made ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t net_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    const struct net_entry *e = &net.queue[net.taken++ % NET_QUEUE];
    CHECK(cq == &net.cq && flags == 0);
    entry->op_context = e->entry.op_context;
    entry->err = e->error;
    return 1;
}

static const char *net_cq_strerror(struct fid_cq *cq, int prov_errno, const void *data, char *text, size_t bytes)
{
    (void)cq, (void)data, (void)text, (void)bytes;
    return prov_errno == 0 ? "the double" : "another error";
}

static int net_reg(struct fid *fid, const void *at, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                   uint64_t flags, struct fid_mr **mr, void *context)
{
    (void)at, (void)len, (void)access, (void)offset, (void)flags, (void)context;
    CHECK(fid == &net.domain.fid);
    if (net.register_error != 0)
        return -net.register_error;
    *mr = (struct fid_mr *)calloc(1, sizeof **mr);
    CHECK_OR_EXIT(*mr != NULL);
    (*mr)->fid.fclass = FI_CLASS_MR;
    (*mr)->fid.ops = &net_fid_ops;
    (*mr)->key = key;
    (*mr)->mem_desc = *mr;
    net.registered++;
    return 0;
}

static int net_insert(struct fid_av *av, const void *name, size_t count, fi_addr_t *address, uint64_t flags,
                      void *context)
{
    (void)name, (void)flags, (void)context;
    CHECK(av == &net.av && count == 1);
    *address = 1;
    return 1;
}

static int net_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    CHECK(fabric == &net.fabric && count == 1 && fids[0] == &net.cq.fid);
    net.trywaits++;
    return FI_SUCCESS;
}

static struct fi_ops_fabric net_fabric_ops = {.size = sizeof net_fabric_ops, .trywait = net_trywait};
static struct fi_ops_av net_av_ops = {.size = sizeof net_av_ops, .insert = net_insert};
static struct fi_ops_msg net_msg = {.size = sizeof net_msg, .sendmsg = net_sendmsg, .recvmsg = net_recvmsg};
static struct fi_ops_rma net_rma = {.size = sizeof net_rma, .writemsg = net_writemsg, .readmsg = net_readmsg};
static struct fi_ops_cq net_cq_ops = {
    .size = sizeof net_cq_ops, .read = net_cq_read, .readerr = net_cq_readerr, .strerror = net_cq_strerror};
static struct fi_ops_mr net_mr_ops = {.size = sizeof net_mr_ops, .reg = net_reg};

static const char *net_error_text(int error) { return strerror(error); }
static void net_freeinfo(struct fi_info *info) { CHECK(info == &net.info); }

/* ---- the PE over it ---- */

static struct ofi *open_net_with(int n_pes, bool local_keys, bool bind_endpoint)
{
    static char name[] = "double";
    struct ofi *o = (struct ofi *)calloc(1, sizeof *o);
    memset(&net, 0, sizeof net);
    CHECK_OR_EXIT(o != NULL);
    open_heap(n_pes);
    net.ep.fid.ops = net.cq.fid.ops = net.domain.fid.ops = net.av.fid.ops = net.fabric.fid.ops = &net_fid_ops;
    net.fabric.ops = &net_fabric_ops;
    net.ep.msg = &net_msg;
    net.ep.rma = &net_rma;
    net.cq.ops = &net_cq_ops;
    net.av.ops = &net_av_ops;
    net.domain.mr = &net_mr_ops;
    net.fabric_attr.prov_name = name;
    net.domain_attr.mr_key_size = 8;
    net.rx_attr.size = 64;
    net.info = (struct fi_info){.fabric_attr = &net.fabric_attr, .domain_attr = &net.domain_attr,
                                .tx_attr = &net.tx_attr, .rx_attr = &net.rx_attr};
    o->info = &net.info;
    o->ep = &net.ep;
    o->cq = &net.cq;
    o->fabric = &net.fabric;
    o->domain = &net.domain;
    o->av = &net.av;
    o->lib.error_text = net_error_text;
    o->lib.freeinfo = net_freeinfo;
    o->fd = o->first_waiting = -1;
    o->local_keys = local_keys;
    o->bind_endpoint = bind_endpoint;
    o->bulk = o->staged = true;
    o->data_max = OFI_DATA_BYTES;
    o->bulk_max = (size_t)1 << 30;
    o->depth = OFI_POSTED_MAX;
    CHECK_EQ(iso_network_open(&o->net, &iso_ofi_port), 0);
    o->peers = (struct ofi_peer *)calloc((size_t)n_pes, sizeof *o->peers);
    CHECK_OR_EXIT(o->peers != NULL);
    for (int pe = 1; pe < n_pes; pe++) {
        o->peers[pe].known = true;
        o->peers[pe].token_in = TOKEN_IN;
        o->peers[pe].token_out = TOKEN_OUT;
        o->peers[pe].next_waiting = -1;
        o->peers[pe].there = (struct network_key){.start = REMOTE_BASE, .end = REMOTE_BASE + OFI_STAGE_BYTES, .key = 1};
        o->peers[pe].free_parts = (1u << OFI_PARTS) - 1;
    }
    CHECK_EQ(iso_ofi_post_start(o), 0);
    ISO->ofi = o;
    return o;
}

static struct ofi *open_net(int n_pes, bool local_keys) { return open_net_with(n_pes, local_keys, false); }

static void close_net(struct ofi *o)
{
    ISO->ofi = NULL;
    iso_ofi_endpoint_close(o);
    iso_ofi_unregister(o);
    iso_ofi_memory_stop(o);
    iso_ofi_post_stop(o);
    CHECK_EQ(net.closed_mrs, net.registered);
    CHECK_EQ(net.closed_eps, 1);
    for (int pe = 0; pe < ISO->n_pes; pe++) {
        for (int group = 0; group < NETWORK_GROUPS; group++) {
            struct ofi_held *held = o->peers[pe].in != NULL ? o->peers[pe].in[group].held : NULL;
            for (struct ofi_held *next; held != NULL; held = next) {
                next = held->next;
                free(held);
            }
            free(o->net.peers[pe].out[group]);
        }
        free(o->peers[pe].in);
    }
    iso_network_close(&o->net);
    free(o->peers);
    free(o);
    close_heap();
}

/* The message comes from its `pe`, as a PE of the job. */
static void bring(struct ofi_message m, const void *data)
{
    char *buffer = net.buffers[net.used % NET_QUEUE];
    size_t len = m.type == OFI_PUT || m.type == OFI_ANSWER ? m.len : 0;
    CHECK_OR_EXIT(net.used < net.given);
    m.token = TOKEN_IN;
    memcpy(buffer, &m, sizeof m);
    if (len > 0)
        memcpy(buffer + sizeof m, data, len);
    net_complete(net.receives[net.used++ % NET_QUEUE], sizeof m + len, 0);
}

/* Another one behind the last one that was brought, in the same message of the provider. */
static void bring_behind(struct ofi_message m, const void *data)
{
    struct fi_cq_msg_entry *entry = &net.queue[(net.made - 1) % NET_QUEUE].entry;
    char *buffer = net.buffers[(net.used - 1) % NET_QUEUE] + entry->len;
    size_t len = m.type == OFI_PUT ? m.len : 0;
    m.token = TOKEN_IN;
    memcpy(buffer, &m, sizeof m);
    if (len > 0)
        memcpy(buffer + sizeof m, data, len);
    entry->len += sizeof m + len;
}

static void poll_net(struct ofi *o)
{
    iso_ofi_lock(o);
    iso_ofi_poll(o);
    iso_ofi_unlock(o);
}

#endif
