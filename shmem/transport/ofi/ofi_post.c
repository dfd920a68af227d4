/* SPDX-License-Identifier: MIT */
/* Operations of the provider: posted, or kept while it has no room (FI_EAGAIN, or its queue's size), in the order of
 * each peer. Errors end or break the job with a sentence, and nothing is posted any more. Called by the other files of
 * this folder with network.lock held. */
#include "../../../bootstrap/log.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- failure ---- */

const char *iso_ofi_ends(const struct ofi *o, int pe, char *text, size_t bytes)
{
    char here[64];
    snprintf(text, bytes, "pe %d (host %.63s, %s at %s) to pe %d (host %.63s)", ISO->my_pe, ISO->boot.host,
             o->info->fabric_attr->prov_name,
             iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, here, sizeof here), pe, ISO->peers[pe].host);
    return text;
}

/* The job is broken, or soon will be, and errors return. Without an endpoint the provider leaves all memory alone, but
 * its completion queue may still name what the endpoint owned: `lost` keeps all threads away from both. */
void iso_ofi_drop_all(void)
{
    struct ofi *o = ISO->ofi;
    o->net.lost = true; /* not yet where a wait has ended because the job was broken elsewhere */
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

ISO_COLD void iso_ofi_lose_by(struct ofi *o, const struct ofi_op *op, const char *why)
{
    static const char *const names[] = {[OFI_SEND] = "message", [OFI_WRITE] = "put", [OFI_READ] = "get"};
    char ends[OFI_ENDS_BYTES];
    iso_network_lose(&o->net, op->pe, "a %s of %zu bytes from %s failed: %s", names[op->kind], op->len,
                     iso_ofi_ends(o, op->pe, ends, sizeof ends), why);
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

bool iso_ofi_has_spare(struct ofi *o)
{
    if (ISO_LIKELY(o->free_ops != NULL && o->free_ops->next != NULL))
        return true;
    int rc = o->net.lost ? 0 : add_slab(o);
    if (rc != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for the messages of libfabric: %s", ISO->my_pe,
                         ISO->boot.host, o->lib.error_text(-rc));
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

void iso_ofi_give(struct ofi *o, struct ofi_op *op)
{
    if (op->once != NULL)
        fi_close(&op->once->fid);
    op->once = NULL;
    o->own -= op->own;
    op->next = o->free_ops;
    o->free_ops = op;
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
    if (rc == -FI_EAGAIN)
        return false;
    if (rc != 0 && op->kind == OFI_RECEIVE)
        iso_network_lose(&o->net, -1, "giving a receive buffer to %s of host %s failed: %s",
                         o->info->fabric_attr->prov_name, ISO->boot.host, o->lib.error_text((int)-rc));
    else if (rc != 0)
        iso_ofi_lose_by(o, op, o->lib.error_text((int)-rc));
    else
        o->posted += op->kind != OFI_RECEIVE;
    return true; /* while lost, without effect */
}

void iso_ofi_submit(struct ofi *o, struct ofi_op *op)
{
    struct ofi_peer *peer = &o->peers[op->pe];
    const uint64_t one = 1;
    if (ISO_UNLIKELY(o->net.lost))
        return;
    if (ISO_UNLIKELY(o->asleep)) { /* it looks at intervals from now on: a lost packet may be repeated by calls alone */
        o->asleep = false;
        (void)!write(o->net.wake, &one, sizeof one);
    }
    if (ISO_UNLIKELY(peer->first_ns == 0))
        peer->first_ns = iso_wait_now_ns();
    if (peer->first_op == NULL && post(o, op))
        return;
    o->counts.blocked++;
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

void iso_ofi_submit_held(struct ofi *o, struct ofi_queue *q)
{
    while (q->first_held != NULL && q->moves.done >= q->first_held->number) {
        struct ofi_op *op = q->first_held;
        q->first_held = op->next;
        iso_ofi_submit(o, op);
    }
}

void iso_ofi_post_waiting(struct ofi *o)
{
    int *at = &o->first_waiting;
    while (*at >= 0) {
        struct ofi_peer *peer = &o->peers[*at];
        while (peer->first_op != NULL) {
            struct ofi_op *op = peer->first_op, *next = op->next; /* it may be complete, and used again, once posted */
            if (!post(o, op))
                break;
            if (o->net.lost)
                return;
            peer->first_op = next;
        }
        peer->waits = peer->first_op != NULL;
        if (peer->waits)
            at = &peer->next_waiting;
        else
            *at = peer->next_waiting;
    }
}

void iso_ofi_post_receives(struct ofi *o)
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
        iso_ofi_post_receives(o);
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
