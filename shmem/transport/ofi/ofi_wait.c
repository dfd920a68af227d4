/* SPDX-License-Identifier: MIT */
/* Completions and messages are looked for, and waits look until what they wait for is there. Called by the other files
 * of this folder with network.lock held. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <stdio.h>
#include <string.h>

enum { READ_MAX = 16 };

/* ---- completions ---- */

static void complete(struct ofi *o, const struct fi_cq_msg_entry *entry)
{
    struct ofi_op *op = (struct ofi_op *)entry->op_context;
    if (op->kind == OFI_RECEIVE) {
        o->received++;
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
        if (ISO_UNLIKELY(op->q->first_held != NULL))
            iso_ofi_submit_held(o, op->q);
    }
    if (op->then != NULL)
        iso_ofi_submit(o, op->then);
    iso_ofi_give(o, op);
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
                         o->info->fabric_attr->prov_name, ISO->my_pe, ISO->boot.host, why);
    } else {
        iso_ofi_lose_by(o, op, why);
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
            complete(o, &entries[i]);
        any |= n > 0;
        if (n == -FI_EAVAIL)
            take_error(o);
        else if (n < 0 && n != -FI_EAGAIN && !iso_network_ended(&o->net))
            iso_network_lose(&o->net, -1, "reading the completions of %s of pe %d (host %s) failed: %s",
                             o->info->fabric_attr->prov_name, ISO->my_pe, ISO->boot.host, o->lib.error_text((int)-n));
        if (ISO_UNLIKELY(o->net.lost))
            return true;
    } while (n == READ_MAX);
    if (ISO_UNLIKELY(o->early))
        iso_ofi_take_early(o);
    if (o->unacked != NULL)
        iso_ofi_send_answers(o);
    if (o->packed != NULL)
        iso_ofi_submit_packs(o);
    o->looks++;
    if (ISO_UNLIKELY(o->first_waiting >= 0))
        iso_ofi_post_waiting(o);
    if (o->unposted != NULL)
        iso_ofi_post_receives(o);
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
    if (ISO_LIKELY(!o->net.lost && iso_ofi_has_spare(o) && can_begin(o, q, needs)))
        return;
    uint64_t in_window = q->asks.made < OFI_CREDITS ? q->asks.made : OFI_CREDITS;
    struct wait wait = ISO_WAIT("room for an operation", q->pe, NULL, q->asks.made - in_window + 1);
    iso_ofi_poll(o);
    while (!o->net.lost && !(can_begin(o, q, needs) && iso_ofi_has_spare(o)))
        pause_and_poll(o, &wait, q->asks.done);
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(o->net.lost))
        iso_network_await_break(&o->net);
}

static bool is_done(const struct ofi_queue *q, uint64_t asked, uint64_t moved)
{
    return q->asks.done >= asked && q->moves.done >= moved;
}

void iso_ofi_wait(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what)
{
    if (!o->net.lost && is_done(q, asked, moved))
        return;
    struct wait wait = ISO_WAIT(what, q->pe, NULL, asked > q->asks.done ? asked : moved);
    iso_ofi_poll(o);
    while (!o->net.lost && !is_done(q, asked, moved))
        pause_and_poll(o, &wait, asked > q->asks.done ? q->asks.done : q->moves.done);
    iso_wait_end(&wait);
    if (ISO_UNLIKELY(o->net.lost))
        iso_network_await_break(&o->net);
}

/* A provider may try for ever to connect to a port that a firewall closes. */
void iso_ofi_watch(struct ofi *o)
{
    double limit_s = ISO->env->boot_timeout;
    uint64_t now = iso_wait_now_ns();
    char ends[OFI_ENDS_BYTES];
    if (limit_s <= 0 || !iso_network_watches(&o->net))
        return;
    for (int group = 0; group < NETWORK_GROUPS; group++)
        for (const struct ofi_queue *q = iso_ofi_first(o, group); q != NULL; q = iso_ofi_next(q)) {
            const struct ofi_peer *peer = &o->peers[q->pe];
            if (peer->heard || peer->first_ns == 0 || (double)(now - peer->first_ns) / 1e9 < limit_s)
                continue;
            iso_network_lose(&o->net, -1, "nothing has come back from %s for %.0f s (SHMEM_BOOT_TIMEOUT): a firewall "
                             "may close the port there, or that address is not reached from here; SHMEM_NETWORK names "
                             "another", iso_ofi_ends(o, q->pe, ends, sizeof ends), limit_s);
            return;
        }
}
