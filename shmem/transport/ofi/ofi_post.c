/* SPDX-License-Identifier: MIT */
/* Operations of the provider: posted, or kept while it has no room (FI_EAGAIN, or its queue's size), in the order of
 * each peer; then completed. Errors end or break the job with a sentence, and nothing is posted any more. Called by the
 * other files of this folder with ofi.guard held. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { READ_MAX = 16 };
#define WATCH_NS 100000000u

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
static void drop_all(void)
{
    struct ofi *o = ISO->ofi;
    o->guard.lost = true; /* not yet where a wait has ended because the job was broken elsewhere */
    iso_ofi_endpoint_close(o);
    for (int group = 0; group < OFI_GROUPS; group++)
        for (struct ofi_queue *q = o->groups[group]; q != NULL; q = q->next_in_group) {
            q->asks.done = q->asks.made;
            q->moves.done = q->moves.made;
            q->asks.ended = q->moves.ended = 0;
        }
    o->first_waiting = -1;
    o->unposted = NULL;
    o->packed = NULL;
    o->unacked = NULL;
    o->posted = 0;
}

/* The endpoint closes after the sentence is out, since peers report its end at once, as an error of the network. */
void iso_ofi_lose(struct ofi *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    iso_network_lose(&o->guard, NULL, drop_all, format, args);
    va_end(args);
}

ISO_COLD static void lose_by(struct ofi *o, const struct ofi_op *op, const char *why)
{
    static const char *const names[] = {[OFI_SEND] = "message", [OFI_WRITE] = "put", [OFI_READ] = "get"};
    char ends[OFI_ENDS_BYTES];
    iso_ofi_lose(o, "a %s of %zu bytes from %s failed: %s", names[op->kind], op->len,
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
    int rc = at != MAP_FAILED ? iso_ofi_register(o, at, slab->bytes, false, &slab->mr) : -ENOMEM;
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
    int rc = o->guard.lost ? 0 : add_slab(o);
    if (rc != 0)
        iso_ofi_lose(o, "pe %d (host %s) has no memory for the messages of libfabric: %s", ISO->my_pe, ISO->boot.host,
                     o->lib.error_text(-rc));
    return !o->guard.lost;
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

static void give(struct ofi *o, struct ofi_op *op)
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
    if (ISO_UNLIKELY(o->guard.lost)) /* without effect, and soon without an endpoint */
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
        iso_ofi_lose(o, "giving a receive buffer to %s of host %s failed: %s", o->info->fabric_attr->prov_name,
                     ISO->boot.host, o->lib.error_text((int)-rc));
    else if (rc != 0)
        lose_by(o, op, o->lib.error_text((int)-rc));
    else
        o->posted += op->kind != OFI_RECEIVE;
    return true; /* while lost, without effect */
}

void iso_ofi_submit(struct ofi *o, struct ofi_op *op)
{
    struct ofi_peer *peer = &o->peers[op->pe];
    if (ISO_UNLIKELY(o->guard.lost))
        return;
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

static void post_waiting(struct ofi *o)
{
    int *at = &o->first_waiting;
    while (*at >= 0) {
        struct ofi_peer *peer = &o->peers[*at];
        while (peer->first_op != NULL) {
            struct ofi_op *op = peer->first_op, *next = op->next; /* it may be complete, and used again, once posted */
            if (!post(o, op))
                break;
            if (o->guard.lost)
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

static void post_receives(struct ofi *o)
{
    while (o->unposted != NULL) {
        struct ofi_op *op = o->unposted;
        if (!post(o, op) || o->guard.lost)
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
        return o->guard.lost ? -EIO : 0;
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
        for (int i = 0; i < OFI_SLAB_OPS; i++) /* of operations that were lost */
            if (slab->ops[i].once != NULL)
                fi_close(&slab->ops[i].once->fid);
        if (slab->mr != NULL)
            fi_close(&slab->mr->fid);
        munmap(slab->memory, slab->bytes);
        free(slab);
    }
}

/* ---- completions ---- */

static void complete(struct ofi *o, const struct fi_cq_msg_entry *entry)
{
    struct ofi_op *op = (struct ofi_op *)entry->op_context;
    if (op->kind == OFI_RECEIVE) {
        iso_ofi_receive(o, op->buffer, entry->len);
        op->next = o->unposted;
        o->unposted = op;
        return;
    }
    o->posted--;
    o->counts.completions++;
    if (op->q != NULL) {
        o->peers[op->pe].heard = true;
        iso_ofi_window_end(&op->q->moves, op->number);
    }
    if (op->then != NULL)
        iso_ofi_submit(o, op->then);
    give(o, op);
}

/* The provider has an error entry. */
static void take_error(struct ofi *o)
{
    struct fi_cq_err_entry error;
    char why[300], detail[160] = "";
    memset(&error, 0, sizeof error);
    if (fi_cq_readerr(o->cq, &error, 0) <= 0 || __atomic_load_n(&o->ended, __ATOMIC_RELAXED))
        return;
    const char *more = fi_cq_strerror(o->cq, error.prov_errno, error.err_data, detail, sizeof detail);
    const struct ofi_op *op = (const struct ofi_op *)error.op_context;
    snprintf(why, sizeof why, "%s (%.150s)", o->lib.error_text(error.err), more != NULL ? more : "no details");
    if (op == NULL || op->kind == OFI_RECEIVE)
        iso_ofi_lose(o, "receiving a message by %s of pe %d (host %s) failed: %s", o->info->fabric_attr->prov_name,
                     ISO->my_pe, ISO->boot.host, why);
    else
        lose_by(o, op, why);
}

bool iso_ofi_poll(struct ofi *o)
{
    struct fi_cq_msg_entry entries[READ_MAX];
    bool any = false;
    ssize_t n;
    if (ISO_UNLIKELY(o->guard.lost))
        return false;
    do {
        n = fi_cq_read(o->cq, entries, READ_MAX);
        for (ssize_t i = 0; i < n && !o->guard.lost; i++)
            complete(o, &entries[i]);
        any |= n > 0;
        if (n == -FI_EAVAIL)
            take_error(o);
        else if (n < 0 && n != -FI_EAGAIN && !__atomic_load_n(&o->ended, __ATOMIC_RELAXED))
            iso_ofi_lose(o, "reading the completions of %s of pe %d (host %s) failed: %s",
                         o->info->fabric_attr->prov_name, ISO->my_pe, ISO->boot.host, o->lib.error_text((int)-n));
        if (ISO_UNLIKELY(o->guard.lost))
            return true;
    } while (n == READ_MAX);
    if (ISO_UNLIKELY(o->early))
        iso_ofi_take_early(o);
    if (o->unacked != NULL)
        iso_ofi_send_answers(o);
    if (o->packed != NULL)
        iso_ofi_submit_packs(o);
    if (ISO_UNLIKELY(o->first_waiting >= 0))
        post_waiting(o);
    if (o->unposted != NULL)
        post_receives(o);
    o->pending_events |= any;
    return any;
}

/* ---- waiting ---- */

static void pause_and_poll(struct ofi *o, struct wait *wait, uint64_t seen)
{
    iso_ofi_unlock(o);
    int rc = iso_wait_pause(wait, seen);
    iso_ofi_lock(o);
    if (rc != 0)
        drop_all();
    o->polls++;
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
    if (ISO_LIKELY(!o->guard.lost && iso_ofi_has_spare(o) && can_begin(o, q, needs)))
        return;
    struct wait wait = ISO_WAIT("put", q->pe, NULL, q->asks.made - OFI_CREDITS + 1);
    iso_ofi_poll(o);
    while (!o->guard.lost && !(can_begin(o, q, needs) && iso_ofi_has_spare(o)))
        pause_and_poll(o, &wait, q->asks.done);
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(o->guard.lost))
        iso_network_await_break(&o->guard);
}

static bool is_done(const struct ofi_queue *q, uint64_t asked, uint64_t moved)
{
    return q->asks.done >= asked && q->moves.done >= moved;
}

void iso_ofi_wait(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what)
{
    if (!o->guard.lost && is_done(q, asked, moved))
        return;
    struct wait wait = ISO_WAIT(what, q->pe, NULL, asked > q->asks.done ? asked : moved);
    iso_ofi_poll(o);
    while (!o->guard.lost && !is_done(q, asked, moved))
        pause_and_poll(o, &wait, asked > q->asks.done ? q->asks.done : q->moves.done);
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(o->guard.lost))
        iso_network_await_break(&o->guard);
}

/* A provider may try for ever to connect to a port that a firewall closes. */
void iso_ofi_watch(struct ofi *o)
{
    double limit_s = ISO->env->boot_timeout;
    uint64_t now = iso_wait_now_ns();
    char ends[OFI_ENDS_BYTES];
    if (o->guard.lost || now - o->watched_ns < WATCH_NS || limit_s <= 0 || __atomic_load_n(&o->ended, __ATOMIC_RELAXED))
        return;
    o->watched_ns = now;
    for (int group = 0; group < OFI_GROUPS; group++)
        for (const struct ofi_queue *q = o->groups[group]; q != NULL; q = q->next_in_group) {
            const struct ofi_peer *peer = &o->peers[q->pe];
            if (peer->heard || peer->first_ns == 0 || (double)(now - peer->first_ns) / 1e9 < limit_s)
                continue;
            iso_ofi_lose(o, "nothing has come back from %s for %.0f s (SHMEM_BOOT_TIMEOUT): a firewall may close the "
                         "port there, or that address is not reached from here; SHMEM_NETWORK names another",
                         iso_ofi_ends(o, q->pe, ends, sizeof ends), limit_s);
            return;
        }
}
