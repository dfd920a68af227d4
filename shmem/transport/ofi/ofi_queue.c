/* SPDX-License-Identifier: MIT */
/* Operations of the provider, their completions, messages that have come, and waits for all of them. Called by the
 * other files of this folder with network.lock held. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../../device/gpu.h"
#include "../device_agent.h"
#include "../../node/wait.h"
#include "../word.h"
#include "../network/apply.h"
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Operations of the provider: posted, or kept while it has no room (FI_EAGAIN, or its queue's size), in the order of
 * each peer. Errors end or break the job with a sentence, and nothing is posted any more. Called by the other files of
 * this folder with network.lock held. */

/* ---- failure ---- */

static const char *ofi_describe_ends(const struct ofi *o, int pe, char *text, size_t bytes)
{
    char here[64];
    snprintf(text, bytes, "pe %d (host %.63s, %s at %s) to pe %d (host %.63s)", ISO->my_pe, ISO->host,
             o->info->fabric_attr->prov_name,
             iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, here, sizeof here), pe, ISO->peers[pe].host);
    return text;
}

/* The job is broken, or soon will be, and errors return. Without an endpoint the provider leaves all memory alone, but
 * its completion queue may still name what the endpoint owned: `lost` keeps all threads away from both. */
void iso_ofi_drop_all(void)
{
    struct ofi *o = ISO->ofi;
    o->net.lost = o->net.bereft = true; /* not yet where a wait has ended because the job was broken elsewhere */
    iso_ofi_endpoint_close(o);
    for (int group = 0; group < NETWORK_GROUPS; group++)
        for (struct ofi_queue *q = iso_ofi_first(o, group); q != NULL; q = iso_ofi_next(q)) {
            q->asks.done = q->asks.made;
            q->moves.done = q->moves.made;
            q->asks.ended = q->moves.ended = 0;
            q->first_held = NULL;
        }
    o->first_waiting = -1;
    o->unposted = NULL;
    o->packed = NULL;
    o->unacked = NULL;
    o->posted = 0;
}

/* Loses the network by the operation. */
static ISO_COLD void lose_by(struct ofi *o, const struct ofi_op *op, const char *why)
{
    static const char *const names[] = {[OFI_SEND] = "message", [OFI_WRITE] = "put", [OFI_READ] = "get"};
    char ends[OFI_ENDS_BYTES];
    iso_network_lose(&o->net, op->pe, "a %s of %zu bytes from %s failed: %s", names[op->kind], op->len,
                     ofi_describe_ends(o, op->pe, ends, sizeof ends), why);
}

/* ---- operations ---- */

/* Mapped as shared, so that a fork leaves the pages alone. */
static int add_slab(struct ofi *o)
{
    size_t each = sizeof(struct ofi_message) + o->data_max;
    struct ofi_slab *slab = (struct ofi_slab *)calloc(1, sizeof *slab);
    if (slab == NULL)
        return -ENOMEM;
    slab->bytes = OFI_SLAB_OPS * each;
    void *at = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = at != MAP_FAILED ? iso_ofi_register(o, at, slab->bytes, OFI_LOCAL, &slab->mr) : -ENOMEM;
    if (rc != 0) {
        if (at != MAP_FAILED)
            munmap(at, slab->bytes);
        free(slab);
        return rc;
    }
    slab->memory = (char *)at;
    slab->next = o->slabs;
    o->slabs = slab;
    for (int i = 0; i < OFI_SLAB_OPS; i++) {
        struct ofi_op *op = &slab->ops[i];
        op->buffer = slab->memory + (size_t)i * each;
        op->buffer_mr = slab->mr;
        op->next = o->free_ops;
        o->free_ops = op;
    }
    return 0;
}

/* Two operations are free to be taken, as many as one call takes. False: there is no memory, and all is lost. */
static bool has_spare(struct ofi *o)
{
    if (ISO_LIKELY(o->free_ops != NULL && o->free_ops->next != NULL))
        return true;
    int rc = o->net.lost ? 0 : add_slab(o);
    if (rc != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for the messages of libfabric: %s", ISO->my_pe,
                         ISO->host, o->lib.error_text(-rc));
    return !o->net.lost;
}

struct ofi_op *iso_ofi_take(struct ofi *o, int pe, enum ofi_kind kind)
{
    struct ofi_op *op = o->free_ops;
    o->free_ops = op->next;
    op->kind = kind;
    op->pe = pe;
    op->next = NULL;
    op->own = false;
    op->local = op->buffer;
    op->mr = op->buffer_mr;
    op->once = NULL;
    op->q = NULL;
    op->then = NULL;
    return op;
}

/* The operation is complete. */
static void give_op(struct ofi *o, struct ofi_op *op)
{
    if (op->once != NULL)
        fi_close(&op->once->fid);
    op->once = NULL;
    o->own -= op->own;
    op->next = o->free_ops;
    o->free_ops = op;
}

/* An operation that is not posted, or has failed, and the message that was to follow. */
static void drop_op(struct ofi *o, struct ofi_op *op)
{
    if (op->then != NULL)
        give_op(o, op->then);
    give_op(o, op);
}

static void drop_list(struct ofi *o, struct ofi_op **first)
{
    while (*first != NULL) {
        struct ofi_op *op = *first;
        *first = op->next;
        drop_op(o, op);
    }
}

/* ---- posting ---- */

/* False: the provider has no room now. */
static bool post(struct ofi *o, struct ofi_op *op)
{
    struct iovec bytes = {op->local, op->len};
    void *desc = op->mr != NULL ? fi_mr_desc(op->mr) : NULL;
    ssize_t rc;
    if (ISO_UNLIKELY(o->net.lost)) /* without effect, and soon without an endpoint */
        return true;
    if (op->kind != OFI_RECEIVE && o->posted >= o->depth)
        return false;
    if (op->kind == OFI_SEND || op->kind == OFI_RECEIVE) {
        struct fi_msg m;
        memset(&m, 0, sizeof m);
        m.msg_iov = &bytes;
        m.desc = &desc;
        m.iov_count = 1;
        m.addr = op->kind == OFI_SEND ? o->peers[op->pe].address : FI_ADDR_UNSPEC;
        m.context = &op->context;
        rc = op->kind == OFI_SEND ? fi_sendmsg(o->ep, &m, FI_COMPLETION) : fi_recvmsg(o->ep, &m, FI_COMPLETION);
    } else {
        const struct fi_rma_iov remote = {op->remote, op->len, op->key};
        struct fi_msg_rma m;
        memset(&m, 0, sizeof m);
        m.msg_iov = &bytes;
        m.desc = &desc;
        m.iov_count = 1;
        m.addr = o->peers[op->pe].address;
        m.rma_iov = &remote;
        m.rma_iov_count = 1;
        m.context = &op->context;
        rc = op->kind == OFI_WRITE ? fi_writemsg(o->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                                   : fi_readmsg(o->ep, &m, FI_COMPLETION);
    }
    if (rc == -FI_EAGAIN) {
        iso_network_add(&o->net.counts.retries, op->kind != OFI_RECEIVE);
        return false;
    }
    if (rc != 0 && op->kind == OFI_RECEIVE)
        iso_network_lose(&o->net, -1, "giving a receive buffer to %s of host %s failed: %s",
                         o->info->fabric_attr->prov_name, ISO->host, o->lib.error_text((int)-rc));
    else if (rc != 0) {
        lose_by(o, op, o->lib.error_text((int)-rc));
        drop_op(o, op);
    } else if (op->kind != OFI_RECEIVE) {
        o->posted++;
        iso_network_add(&o->net.counts.posts, 1);
    }
    return true; /* while lost, without effect */
}

void iso_ofi_submit(struct ofi *o, struct ofi_op *op)
{
    struct ofi_peer *peer = &o->peers[op->pe];
    const uint64_t one = 1;
    if (iso_network_has_lost(&o->net, op->pe)) {
        drop_op(o, op);
        return;
    }
    if (ISO_UNLIKELY(o->asleep)) { /* it looks at intervals from now on: a lost packet may be repeated by calls alone */
        o->asleep = false;
        (void)!write(o->net.wake, &one, sizeof one);
    }
    if (ISO_UNLIKELY(peer->first_ns == 0))
        peer->first_ns = iso_clock_now_ns();
    if (peer->first_op == NULL && post(o, op))
        return;
    o->counts.blocked++;
    iso_network_add(&o->net.counts.refused, 1);
    op->next = NULL;
    if (peer->first_op != NULL)
        peer->last_op->next = op;
    else
        peer->first_op = op;
    peer->last_op = op;
    if (!peer->waits) {
        peer->waits = true;
        peer->next_waiting = o->first_waiting;
        o->first_waiting = op->pe;
    }
}

/* Takes the queue's pack off the list and posts it. */
void iso_ofi_submit_pack(struct ofi *o, struct ofi_queue *q)
{
    struct ofi_queue **at = &o->packed;
    struct ofi_op *op = q->pack;
    while (*at != q)
        at = &(*at)->next_packed;
    *at = q->next_packed;
    q->pack = NULL;
    iso_ofi_submit(o, op);
}

void iso_ofi_submit_packs(struct ofi *o)
{
    while (o->packed != NULL)
        iso_ofi_submit_pack(o, o->packed);
}

/* What is posted stays the provider's until it fails, which take_error expects. Its address stays, too. */
void iso_ofi_drop_pe(int pe)
{
    struct ofi *o = ISO->ofi;
    struct ofi_peer *peer = &o->peers[pe];
    for (int group = 0; group < NETWORK_GROUPS; group++) {
        struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[pe].out[group];
        if (q == NULL)
            continue;
        q->asks.done = q->asks.made;
        q->moves.done = q->moves.made;
        q->asks.ended = q->moves.ended = 0;
        q->due = 0;
        drop_list(o, &q->first_held);
        if (q->pack != NULL)
            iso_ofi_submit_pack(o, q); /* which drops it */
    }
    drop_list(o, &peer->first_op); /* post_waiting takes it off the list */
    peer->first_ns = 0;
}

/* Posts the messages whose RMAs are complete. */
static void submit_held(struct ofi *o, struct ofi_queue *q)
{
    while (q->first_held != NULL && q->moves.done >= q->first_held->number) {
        struct ofi_op *op = q->first_held;
        q->first_held = op->next;
        iso_ofi_submit(o, op);
    }
}

/* As far as the provider has room now. */
static void post_waiting(struct ofi *o)
{
    int *at = &o->first_waiting;
    while (*at >= 0) {
        int pe = *at;
        struct ofi_peer *peer = &o->peers[pe];
        while (peer->first_op != NULL) {
            struct ofi_op *op = peer->first_op;
            peer->first_op = op->next; /* it may be complete, and used again, once posted */
            bool posted = post(o, op);
            if (iso_network_has_lost(&o->net, pe)) /* the lock was given up */
                return;
            if (posted)
                continue;
            op->next = peer->first_op;
            peer->first_op = op;
            break;
        }
        peer->waits = peer->first_op != NULL;
        if (peer->waits)
            at = &peer->next_waiting;
        else
            *at = peer->next_waiting;
    }
}

/* Likewise, the buffers that were read. */
static void post_receives(struct ofi *o)
{
    while (o->unposted != NULL) {
        struct ofi_op *op = o->unposted;
        if (!post(o, op) || o->net.lost)
            return;
        o->unposted = op->next;
    }
}

int iso_ofi_post_start(struct ofi *o)
{
    size_t n = ISO_MAX(ISO_MIN(o->info->rx_attr->size, (size_t)OFI_RECEIVES), (size_t)1);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = o->free_ops == NULL ? add_slab(o) : 0;
        if (rc != 0)
            break;
        struct ofi_op *op = iso_ofi_take(o, -1, OFI_RECEIVE);
        op->len = sizeof(struct ofi_message) + o->data_max;
        op->next = o->unposted;
        o->unposted = op;
    }
    if (rc == 0) {
        post_receives(o);
        return o->net.lost ? -EIO : 0;
    }
    log_error("shmem_init: %zu receive buffers for libfabric's provider %s cannot be had: %s", n,
              o->info->fabric_attr->prov_name, o->lib.error_text(-rc));
    return rc;
}

void iso_ofi_post_stop(struct ofi *o)
{
    while (o->slabs != NULL) {
        struct ofi_slab *slab = o->slabs;
        o->slabs = slab->next;
        munmap(slab->memory, slab->bytes);
        free(slab);
    }
}

/* Messages that have come. They are applied in the order of their serial numbers, which is that of the queue, whatever
 * the order of arrival, each exactly once. Those that want a value back are answered alone; one answer for all others
 * of a round says up to which number they are applied. Reading never waits. Called with network.lock held, by
 * waits and by the progress thread. */

/* ---- answers ---- */

/* NULL: all is lost. */
static struct ofi_op *answer_to(struct ofi *o, int pe, struct ofi_message m)
{
    if (!has_spare(o))
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

/* Sends the answers that several messages share. */
static void send_answers(struct ofi *o)
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
        iso_gpu_flush_writes(iso_agent_gpu());
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
                             ISO->host, m->pe);
            return NULL;
        }
        for (int group = 0; group < NETWORK_GROUPS; group++) {
            peer->in[group].pe = m->pe;
            peer->in[group].group = group;
        }
    }
    return &peer->in[m->group];
}

static void hold_message(struct ofi *o, struct ofi_incoming *in, const char *bytes, size_t len)
{
    struct ofi_held *held = (struct ofi_held *)malloc(sizeof *held + len);
    if (held == NULL) {
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for a message of pe %d that came before its turn",
                         ISO->my_pe, ISO->host, in->pe);
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
                         ISO->peers[m->pe].host, ISO->my_pe, ISO->host, (unsigned long long)in->expected);
        return;
    }
    if (m->serial != in->expected || !o->peers[m->pe].known) {
        hold_message(o, in, bytes, len);
        return;
    }
    in->expected++;
    apply(o, in, m, bytes + sizeof *m);
    if (ISO_UNLIKELY(in->held != NULL))
        apply_held(o, in);
}

/* Takes the messages that came before their sender's address. */
static void take_early(struct ofi *o)
{
    o->early = false;
    for (int pe = 0; pe < ISO->n_pes; pe++)
        for (int group = 0; group < NETWORK_GROUPS && o->peers[pe].known && o->peers[pe].in != NULL; group++)
            apply_held(o, &o->peers[pe].in[group]);
}

/* ---- at the initiator ---- */

static void ofi_take_answer(struct ofi *o, const struct ofi_message *m, const char *data)
{
    struct ofi_queue *q = (struct ofi_queue *)(void *)o->net.peers[m->pe].out[m->group];
    char ends[OFI_ENDS_BYTES];
    if (q == NULL || m->serial >= q->asks.made) {
        iso_network_lose(&o->net, -1, "an answer to message %llu has come, which was not sent from %s",
                         (unsigned long long)m->serial, ofi_describe_ends(o, m->pe, ends, sizeof ends));
        return;
    }
    if (m->op != OFI_DONE) {
        iso_network_lose(&o->net, -1,
                         "an operation at address %#llx from %s was refused: there is no segment at that "
                         "address",
                         (unsigned long long)m->addr, ofi_describe_ends(o, m->pe, ends, sizeof ends));
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

/* One message has come, or several together. */
static void take_messages(struct ofi *o, const char *bytes, size_t len)
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
            ofi_take_answer(o, &m, bytes + sizeof m);
        else
            take_request(o, &m, bytes, n);
        bytes += n;
        len -= n;
    } while (len > 0 && !o->net.lost);
}

/* Completions and messages are looked for, and waits look until what they wait for is there. Called by the other files
 * of this folder with network.lock held. */

enum { READ_MAX = 16 };

/* ---- completions ---- */

static void complete_op(struct ofi *o, const struct fi_cq_msg_entry *entry)
{
    struct ofi_op *op = (struct ofi_op *)entry->op_context;
    if (op->kind == OFI_RECEIVE) {
        o->received++;
        take_messages(o, op->buffer, entry->len);
        op->next = o->unposted;
        o->unposted = op;
        return;
    }
    o->posted--;
    o->counts.completions++;
    if (op->q != NULL) {
        o->peers[op->pe].heard = true;
        iso_ofi_window_end(&op->q->moves, op->number);
        if (ISO_UNLIKELY(op->q->first_held != NULL))
            submit_held(o, op->q);
    }
    if (op->then != NULL)
        iso_ofi_submit(o, op->then);
    give_op(o, op);
}

/* A receive failed by one message, or one connection: a stranger's. No PE sends more than a buffer holds, and the end of
 * a PE's connection is told by its own operations and by the channel. */
static bool is_of_stranger(int error)
{
    return error == FI_ETRUNC || error == FI_EMSGSIZE || error == FI_ECONNRESET || error == FI_ECONNABORTED ||
           error == FI_ENOTCONN;
}

/* The provider has an error entry. */
static void take_error(struct ofi *o)
{
    struct fi_cq_err_entry error;
    char why[300], detail[160] = "";
    memset(&error, 0, sizeof error);
    if (fi_cq_readerr(o->cq, &error, 0) <= 0 || iso_network_ended(&o->net))
        return;
    const char *more = fi_cq_strerror(o->cq, error.prov_errno, error.err_data, detail, sizeof detail);
    struct ofi_op *op = (struct ofi_op *)error.op_context;
    snprintf(why, sizeof why, "%s (%.150s)", o->lib.error_text(error.err), more != NULL ? more : "no details");
    bool received = op == NULL || op->kind == OFI_RECEIVE;
    if (received && is_of_stranger(error.err)) {
        if (o->counts.strangers++ == 0)
            log_warn("a message by libfabric does not come from a PE of this job, and is dropped: %s", why);
        if (op != NULL) {
            op->next = o->unposted;
            o->unposted = op;
        }
    } else if (received) {
        iso_network_lose(&o->net, -1, "receiving a message by %s of pe %d (host %s) failed: %s",
                         o->info->fabric_attr->prov_name, ISO->my_pe, ISO->host, why);
    } else {
        o->posted--;
        if (!iso_network_has_lost(&o->net, op->pe))
            lose_by(o, op, why);
        if (!o->net.lost)
            drop_op(o, op);
    }
}

bool iso_ofi_poll(struct ofi *o)
{
    struct fi_cq_msg_entry entries[READ_MAX];
    bool any = false;
    ssize_t n;
    if (ISO_UNLIKELY(o->net.lost))
        return false;
    do {
        n = fi_cq_read(o->cq, entries, READ_MAX);
        for (ssize_t i = 0; i < n && !o->net.lost; i++)
            complete_op(o, &entries[i]);
        any |= n > 0;
        if (n == -FI_EAVAIL)
            take_error(o);
        else if (n < 0 && n != -FI_EAGAIN && !iso_network_ended(&o->net))
            iso_network_lose(&o->net, -1, "reading the completions of %s of pe %d (host %s) failed: %s",
                             o->info->fabric_attr->prov_name, ISO->my_pe, ISO->host, o->lib.error_text((int)-n));
        if (ISO_UNLIKELY(o->net.lost))
            return true;
    } while (n == READ_MAX);
    if (ISO_UNLIKELY(o->early))
        take_early(o);
    if (o->unacked != NULL)
        send_answers(o);
    if (o->packed != NULL)
        iso_ofi_submit_packs(o);
    o->looks++;
    if (ISO_UNLIKELY(o->first_waiting >= 0))
        post_waiting(o);
    if (o->unposted != NULL)
        post_receives(o);
    o->net.pending_events |= any;
    return any;
}

/* ---- waiting ---- */

static void pause_and_poll(struct ofi *o, struct wait *wait, uint64_t seen)
{
    (void)iso_network_pause(&o->net, wait, seen);
    o->net.polls++;
    wait->worked |= iso_ofi_poll(o);
}

static bool can_begin(const struct ofi *o, const struct ofi_queue *q, unsigned needs)
{
    return o->own < OFI_OPS_MAX && ((needs & OFI_NEEDS_ASK) == 0 || q->asks.made - q->asks.done < OFI_CREDITS) &&
           ((needs & OFI_NEEDS_MOVE) == 0 || q->moves.made - q->moves.done < OFI_CREDITS) &&
           ((needs & OFI_NEEDS_PART) == 0 || o->peers[q->pe].free_parts != 0);
}

void iso_ofi_make_room(struct ofi *o, struct ofi_queue *q, unsigned needs)
{
    if (ISO_LIKELY(!iso_network_has_lost(&o->net, q->pe) && has_spare(o) && can_begin(o, q, needs)))
        return;
    uint64_t in_window = q->asks.made < OFI_CREDITS ? q->asks.made : OFI_CREDITS;
    struct wait wait = ISO_WAIT("room for an operation", q->pe, NULL, q->asks.made - in_window + 1);
    iso_network_add(&o->net.counts.credit_waits, 1);
    iso_ofi_poll(o);
    while (!iso_network_has_lost(&o->net, q->pe) && !(can_begin(o, q, needs) && has_spare(o)))
        pause_and_poll(o, &wait, q->asks.done);
    iso_network_end_wait(&o->net, &wait);
    if (ISO_UNLIKELY(o->net.bereft))
        iso_network_await_break(&o->net);
}

static bool is_done(const struct ofi_queue *q, uint64_t asked, uint64_t moved)
{
    return q->asks.done >= asked && q->moves.done >= moved;
}

void iso_ofi_wait(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what)
{
    if (!iso_network_has_lost(&o->net, q->pe) && is_done(q, asked, moved))
        return;
    struct wait wait = ISO_WAIT(what, q->pe, NULL, asked > q->asks.done ? asked : moved);
    iso_ofi_poll(o);
    while (!iso_network_has_lost(&o->net, q->pe) && !is_done(q, asked, moved))
        pause_and_poll(o, &wait, asked > q->asks.done ? q->asks.done : q->moves.done);
    iso_network_end_wait(&o->net, &wait);
    if (ISO_UNLIKELY(o->net.bereft))
        iso_network_await_break(&o->net);
}

/* A provider may try for ever to connect to a port that a firewall closes. */
void iso_ofi_watch(struct ofi *o)
{
    double limit_s = ISO->env->boot_timeout;
    uint64_t now = iso_clock_now_ns();
    char ends[OFI_ENDS_BYTES];
    if (limit_s <= 0 || !iso_network_watches(&o->net))
        return;
    for (int group = 0; group < NETWORK_GROUPS; group++)
        for (const struct ofi_queue *q = iso_ofi_first(o, group); q != NULL; q = iso_ofi_next(q)) {
            const struct ofi_peer *peer = &o->peers[q->pe];
            if (peer->heard || peer->first_ns == 0 || (double)(now - peer->first_ns) / 1e9 < limit_s)
                continue;
            iso_network_lose(&o->net, -1,
                             "nothing has come back from %s for %.0f s (SHMEM_BOOT_TIMEOUT): a firewall "
                             "may close the port there, or that address is not reached from here; SHMEM_NETWORK names "
                             "another",
                             ofi_describe_ends(o, q->pe, ends, sizeof ends), limit_s);
            return;
        }
}
