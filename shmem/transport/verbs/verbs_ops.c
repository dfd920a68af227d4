/* SPDX-License-Identifier: MIT */
/* The operations. A range is split where the peer's key ends, where a registered region of this PE ends (if it is used
 * in place), and at the longest message of the device. Local bytes go, in this order: within the request; copied into a
 * slot (a blocking put, which returns at once then); in place, where they lie in a segment; in place by a registration
 * for this operation only; copied into slots. Device memory goes in place only: transport.c has asked
 * iso_network_moves_device. */
#include "verbs.h"

#include <string.h>

struct verbs_move {
    struct verbs *v;
    struct verbs_queue *q;
    uint64_t remote;
    char *local;
    size_t len;        /* still to go */
    struct ibv_mr *mr; /* of local memory, for this operation only */
    uint64_t mr_made;  /* the queue's `made` behind the last request that needs it */
    uint8_t opcode;
    bool nbi;
    bool ordered;   /* after all earlier puts of the queue */
    bool on_device; /* local memory */
    bool once_failed;
    bool busy; /* local memory is in use until completion */
};

static void set_remote(struct ibv_send_wr *wr, uint64_t remote, uint32_t rkey)
{
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = rkey;
}

static struct verbs_request request_of(const struct verbs_move *m, size_t n)
{
    return (struct verbs_request){.remote = m->remote, .len = (uint32_t)n, .slot = -1, .opcode = m->opcode};
}

/* ---- the ways of the local bytes: each adds one request for at most n bytes and says how many it took ---- */

/* Joins a small put to the one before, if that is not posted yet and both sides continue it. */
static bool join_inline(struct verbs_move *m, uint32_t rkey, size_t n)
{
    struct verbs_queue *q = m->q;
    if (!m->nbi || q->n_batch == 0 || q->fenced == q->made)
        return false;
    struct ibv_send_wr *wr = &q->batch[q->n_batch - 1];
    struct ibv_sge *s = wr->sg_list;
    const char *own = (const char *)q->small, *at = (const char *)(uintptr_t)s->addr;
    bool user = at < own || at >= own + sizeof q->small;
    if (wr->opcode != IBV_WR_RDMA_WRITE || (wr->send_flags & IBV_SEND_INLINE) == 0 || !user ||
        wr->wr.rdma.rkey != rkey || at + s->length != m->local || wr->wr.rdma.remote_addr + s->length != m->remote ||
        s->length + n > q->inline_bytes)
        return false;
    s->length += (uint32_t)n;
    q->requests[(q->made - 1) & (VERBS_DEPTH - 1)].len = s->length;
    m->v->counts.joined++;
    return true;
}

static size_t add_slot(struct verbs_move *m, uint32_t rkey, size_t n)
{
    struct verbs *v = m->v;
    n = ISO_MIN(n, (size_t)VERBS_SLOT_BYTES);
    struct verbs_request request = request_of(m, n);
    request.slot = iso_verbs_take_slot(v);
    char *slot = iso_verbs_slot(v, request.slot);
    if (m->opcode == IBV_WR_RDMA_READ) {
        request.dest = m->local;
        m->busy = true;
    } else {
        memcpy(slot, m->local, n);
        v->counts.copies++;
    }
    struct ibv_send_wr *wr = iso_verbs_add(v, m->q, &request);
    *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)slot, (uint32_t)n, v->memory_mr->lkey};
    set_remote(wr, m->remote, rkey);
    return n;
}

static size_t add_registered(struct verbs_move *m, uint32_t rkey, uint32_t lkey, size_t n)
{
    const struct verbs_request request = request_of(m, n);
    struct ibv_send_wr *wr = iso_verbs_add(m->v, m->q, &request);
    *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)m->local, (uint32_t)n, lkey};
    set_remote(wr, m->remote, rkey);
    m->busy = true;
    return n;
}

/* 0: the device cannot use the local bytes where they are. */
static size_t add_in_place(struct verbs_move *m, uint32_t rkey, size_t n)
{
    int error;
    bool get = m->opcode == IBV_WR_RDMA_READ;
    const struct network_region *r = iso_network_region_of(&m->v->net, m->local, &error);
    if (r != NULL) {
        m->q->fills_device |= m->on_device && get;
        uint32_t lkey = ((const struct ibv_mr *)r->mr)->lkey;
        return add_registered(m, rkey, lkey, ISO_MIN(n, r->end - (uint64_t)(uintptr_t)m->local));
    }
    if (m->on_device) {
        iso_network_lose(&m->v->net, -1, "device memory at %p of pe %d (host %s) is not registered", (void *)m->local,
                         ISO->my_pe, ISO->host);
        return n;
    }
    if (m->mr == NULL && !m->once_failed && m->len >= VERBS_REGISTER_MIN)
        m->mr = iso_verbs_register_once(m->v, m->local, m->len, get);
    m->once_failed = m->mr == NULL;
    if (m->mr == NULL)
        return 0;
    n = add_registered(m, rkey, m->mr->lkey, n);
    m->mr_made = m->q->made;
    return n;
}

static size_t add_any(struct verbs_move *m, uint32_t rkey, size_t n)
{
    bool put = m->opcode == IBV_WR_RDMA_WRITE;
    if (put && n <= m->q->inline_bytes && !m->on_device) {
        if (join_inline(m, rkey, n))
            return n;
        struct verbs_request request = request_of(m, n);
        struct ibv_send_wr *wr = iso_verbs_add(m->v, m->q, &request);
        wr->send_flags |= IBV_SEND_INLINE;
        wr->sg_list->addr = (uint64_t)(uintptr_t)m->local;
        wr->sg_list->length = (uint32_t)n;
        set_remote(wr, m->remote, rkey);
        return n;
    }
    if (!put || m->nbi || n > VERBS_COPY_MAX || m->on_device) {
        size_t added = add_in_place(m, rkey, n);
        if (added != 0)
            return added;
    }
    iso_verbs_make_room(m->v, m->q, 1, 1);
    return add_slot(m, rkey, n);
}

/* Notes where the next flush will read. */
static void note_nic_write(struct verbs_queue *q, uint64_t remote, const struct network_key *key)
{
    if (ISO_LIKELY(key->flushes == 0))
        return;
    q->unflushed = remote;
    q->unflushed_key = (uint32_t)key->key;
}

/* Adds the requests for all bytes; posts early when they are many or large. */
static void add_regions(struct verbs_move *m)
{
    size_t longest = m->opcode == IBV_WR_RDMA_READ ? m->v->port.max_read : m->v->port.max_message;
    while (m->len > 0) {
        struct network_key key = iso_network_key_of(&m->v->net, m->q->pe, m->remote);
        size_t n = ISO_MIN(ISO_MIN(m->len, key.end - m->remote), longest);
        if (key.by_cpu != 0) {
            if (m->opcode == IBV_WR_RDMA_WRITE)
                iso_verbs_staged_put(m->v, m->q, m->remote, m->local, n);
            else
                iso_verbs_staged_get(m->v, m->q, m->remote, m->local, n);
        } else {
            iso_verbs_make_room(m->v, m->q, 1, 0);
            n = add_any(m, (uint32_t)key.key, n);
            if (m->opcode == IBV_WR_RDMA_WRITE)
                note_nic_write(m->q, m->remote, &key);
        }
        m->remote += n;
        m->local += n;
        m->len -= n;
        if (m->q->n_batch == VERBS_BATCH || n > VERBS_SLOT_BYTES)
            iso_verbs_post(m->v, m->q);
    }
    if (m->mr == NULL)
        return;
    if (m->q->done < m->mr_made) /* the last request that needs the registration ends it */
        m->q->requests[(m->mr_made - 1) & (VERBS_DEPTH - 1)].mr = m->mr;
    else
        iso_verbs_unregister(m->v, m->mr);
}

static struct verbs_move verbs_move_of(struct place at, const struct far_local *local, enum ibv_wr_opcode opcode)
{
    return (struct verbs_move){.v = ISO->verbs,
                               .remote = iso_network_remote(at),
                               .local = (char *)local->addr,
                               .len = local->len,
                               .opcode = (uint8_t)opcode,
                               .nbi = local->nbi,
                               .on_device = local->on_device};
}

static void move_by_nic(struct ctx *ctx, int pe, struct verbs_move m)
{
    iso_verbs_lock(m.v);
    m.q = iso_verbs_queue_to(m.v, ctx, pe);
    if (m.ordered)
        iso_verbs_flush(m.v, m.q);
    add_regions(&m);
    if (!m.nbi) {
        iso_verbs_post(m.v, m.q);
        if (m.busy) {
            iso_verbs_wait(m.v, m.q, m.q->made, 0, m.opcode == IBV_WR_RDMA_WRITE ? "put" : "get");
            iso_verbs_flush_own(m.q);
        }
    }
    iso_verbs_unlock(m.v);
}

void iso_verbs_put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    move_by_nic(ctx, to.pe, verbs_move_of(to, source, IBV_WR_RDMA_WRITE));
}

void iso_verbs_get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    move_by_nic(ctx, from.pe, verbs_move_of(from, dest, IBV_WR_RDMA_READ));
}

/* The bytes go inline or by a copy, and the device writes aligned words whole, as it does that of a signal. */
void iso_verbs_put_words(struct ctx *ctx, struct place to, const void *words, size_t len)
{
    const struct far_local source = {(void *)(uintptr_t)words, len, false, false};
    struct verbs_move m = verbs_move_of(to, &source, IBV_WR_RDMA_WRITE);
    m.ordered = true;
    move_by_nic(ctx, to.pe, m);
}

/* ---- atomics and signals ---- */

uint64_t iso_verbs_amo(struct ctx *ctx, struct place at, struct amo op)
{
    struct verbs *v = ISO->verbs;
    struct verbs_message message = {.type = VERBS_AMO, NETWORK_AMO(iso_network_remote(at), op)};
    uint64_t before = 0;
    iso_verbs_lock(v);
    struct verbs_queue *q = iso_verbs_queue_to(v, ctx, at.pe);
    if (op.fetches) {
        iso_verbs_send(v, q, &message, &before);
        iso_verbs_wait(v, q, 0, message.serial + 1, "an atomic operation");
    } else {
        iso_verbs_send_later(v, q, &message, NULL);
    }
    iso_verbs_unlock(v);
    return op.bytes == 4 ? (uint32_t)before : before;
}

void iso_verbs_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch)
{
    struct verbs *v = ISO->verbs;
    struct verbs_message message = {.type = VERBS_AMO, NETWORK_AMO(iso_network_remote(at), op)};
    iso_verbs_lock(v);
    iso_verbs_send_later(v, iso_verbs_queue_to(v, ctx, at.pe), &message, fetch);
    iso_verbs_unlock(v);
}

/* Goes behind the requests of the queue and is posted with them. A word of staged device memory goes by the stage. */
static void add_signal(struct verbs_move *m, uint64_t remote, uint64_t value, int sig_op)
{
    struct verbs *v = m->v;
    iso_verbs_flush(v, m->q);
    if (sig_op == SHMEM_SIGNAL_ADD) {
        const struct amo add = {AMO_ADD, 8, value, 0, false};
        struct verbs_message message = {.type = VERBS_AMO, NETWORK_AMO(remote, add)};
        iso_verbs_send(v, m->q, &message, NULL);
        return;
    }
    struct network_key key = iso_network_key_of(&v->net, m->q->pe, remote);
    if (key.by_cpu != 0) {
        iso_verbs_staged_put(v, m->q, remote, (const char *)&value, sizeof value);
        return;
    }
    const struct verbs_request request = {
        .remote = remote, .len = sizeof value, .slot = -1, .opcode = (uint8_t)IBV_WR_RDMA_WRITE};
    iso_verbs_make_room(v, m->q, 1, iso_verbs_small_needs_slot(m->q));
    struct ibv_send_wr *wr = iso_verbs_add(v, m->q, &request);
    iso_verbs_attach_small(v, m->q, wr, &value, sizeof value);
    set_remote(wr, remote, (uint32_t)key.key);
    note_nic_write(m->q, remote, &key);
    iso_verbs_post(v, m->q);
}

void iso_verbs_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op)
{
    struct verbs_move m = {.v = ISO->verbs};
    iso_verbs_lock(m.v);
    m.q = iso_verbs_queue_to(m.v, ctx, at.pe);
    add_signal(&m, iso_network_remote(at), value, sig_op);
    iso_verbs_unlock(m.v);
}

void iso_verbs_put_signal(struct ctx *ctx, const struct far_message *message, const struct far_local *source)
{
    struct verbs_move m = verbs_move_of(message->to, source, IBV_WR_RDMA_WRITE);
    iso_verbs_lock(m.v);
    m.q = iso_verbs_queue_to(m.v, ctx, message->to.pe);
    add_regions(&m);
    uint64_t made = m.q->made;
    add_signal(&m, iso_network_remote(message->at), message->signal, message->sig_op);
    if (m.busy && !m.nbi)
        iso_verbs_wait(m.v, m.q, made, 0, "put_signal");
    iso_verbs_unlock(m.v);
}

/* ---- order and completion ---- */

/* Stores of one queue pair arrive in order, except stores to GPUs. Messages, which the target's CPU applies, may be
 * overtaken. */
void iso_verbs_fence(struct network_queue *queue)
{
    struct verbs_queue *q = (struct verbs_queue *)(void *)queue;
    iso_verbs_flush(ISO->verbs, q);
    q->fenced = q->made;
    iso_verbs_wait(ISO->verbs, q, 0, q->asked, "fence");
}

void iso_verbs_begin_quiet(const struct ctx *ctx, struct network_queue *queue)
{
    struct verbs_queue *q = (struct verbs_queue *)(void *)queue;
    (void)ctx;
    iso_verbs_flush(ISO->verbs, q);
    iso_verbs_post(ISO->verbs, q);
}

void iso_verbs_end_quiet(const struct ctx *ctx, struct network_queue *queue)
{
    struct verbs_queue *q = (struct verbs_queue *)(void *)queue;
    iso_verbs_begin_quiet(ctx, queue); /* another thread may have added more */
    iso_verbs_wait(ISO->verbs, q, q->made, q->asked, "quiet");
    iso_verbs_flush_own(q);
}
