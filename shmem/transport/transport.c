/* SPDX-License-Identifier: MIT */
/* Operations on memory to which the CPU has no pointer. Chooses a transport for each peer at init. Device memory of
 * this node goes to the agent (device_agent.c), all else to the peer's transport. Ranges that span segments of one
 * registered buffer are split here. */
#include "transport.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/yield.h"
#include "../../device/gpu.h"
#include "device_agent.h"
#include "word.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct transport_ops *const rows[] = {
#ifdef ISO_PES_AS_THREADS
    &iso_transport_double,
#endif
    &iso_transport_ipc,
    &iso_transport_verbs,
    &iso_transport_ofi,
};
enum { ROWS = sizeof rows / sizeof rows[0] };

int iso_transport_check(void)
{
    const char *wish = ISO->env->transport, *verbs = iso_transport_verbs.name, *ofi = iso_transport_ofi.name;
    size_t n = strcspn(wish, ":");
    bool provider = wish[n] == ':';
    if (wish[0] == '\0' || strcmp(wish, verbs) == 0 || strcmp(wish, ofi) == 0 ||
        (n == strlen(ofi) && strncmp(wish, ofi, n) == 0 && provider && wish[n + 1] != '\0'))
        return 0;
    log_error("shmem_init: SHMEM_TRANSPORT is \"%s\"; allowed: verbs, ofi, ofi:PROVIDER (a name that fi_info -l "
              "shows), or empty: verbs where all hosts have an RDMA port, else ofi",
              wish);
    return -EINVAL;
}

const struct transport_ops *iso_transport_choose(const struct peer *peer, const char **why)
{
    const char *wish = ISO->env->transport, *name = iso_transport_ofi.name;
    bool built = iso_transport_ofi.open != NULL;
    bool ofi = wish[0] != '\0' ? strncmp(wish, name, strlen(name)) == 0 : ISO->prefers_ofi && built;
    for (int i = 0; i < ROWS; i++) {
        bool is_other = rows[i] == (ofi ? &iso_transport_verbs : &iso_transport_ofi);
        if (!is_other && rows[i]->reaches(peer, why))
            return rows[i];
    }
    return NULL;
}

/* ---- life cycle ---- */

static bool is_used(const struct transport_ops *row)
{
    for (int pe = 0; ISO->peers != NULL && pe < ISO->n_pes; pe++)
        if (ISO->peers[pe].transport == row)
            return true;
    return false;
}

int iso_transport_open(void)
{
    int rc = 0;
    for (int i = 0; i < ROWS && rc == 0; i++)
        if (rows[i]->open != NULL && is_used(rows[i]))
            rc = rows[i]->open();
    return rc;
}

int iso_transport_start(void)
{
    int rc = 0;
    for (int i = 0; i < ROWS && rc == 0; i++)
        if (rows[i]->start != NULL && is_used(rows[i]))
            rc = rows[i]->start();
    return rc;
}

void iso_transport_stop(void)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->stop != NULL)
            rows[i]->stop();
}

void iso_transport_forget(const struct segment *segment)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->forget != NULL)
            rows[i]->forget(segment);
}

void iso_transport_drop_pe(int pe)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->drop_pe != NULL)
            rows[i]->drop_pe(pe);
}

static void unlock_rows(int n)
{
    for (int i = 0; i < n; i++)
        if (rows[i]->unlock != NULL)
            rows[i]->unlock();
}

bool iso_transport_lock_unpinned(const struct segment *segment, size_t offset, size_t len)
{
    for (int i = 0; i < ROWS; i++) {
        if (rows[i]->lock_unpinned == NULL || rows[i]->lock_unpinned(segment, offset, len))
            continue;
        unlock_rows(i);
        return false;
    }
    return true;
}

void iso_transport_unlock(void) { unlock_rows(ROWS); }

void iso_transport_exchange_device(const struct segment *segment)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->exchange_device != NULL && is_used(rows[i]))
            rows[i]->exchange_device(segment);
}

size_t iso_transport_text(char *text, size_t bytes)
{
    size_t n = 0;
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->text != NULL)
            n += rows[i]->text(n < bytes ? text + n : NULL, n < bytes ? bytes - n : 0);
    return n;
}

struct transport_counts iso_transport_count(void)
{
    struct transport_counts sum = {.longest_pe = -1};
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->count != NULL)
            rows[i]->count(&sum);
    return sum;
}

/* ---- what no row supports ---- */

_Noreturn ISO_COLD static void unsupported(const char *call, struct place at, const char *what)
{
    const struct segment *s = at.segment;
    if (s != NULL && s->staged)
        iso_fatal(call,
                  "%s on bytes %zu.. of a registered buffer that share a page with other data is not possible; "
                  "align the buffer to %d bytes, or put the word into the symmetric heap",
                  what, iso_place_offset(at), 4096);
    iso_fatal(call, "%s on %s memory of pe %d is not supported by transport %s", what,
              s != NULL ? iso_segment_kind_name(s->kind) : "spanning", at.pe, ISO->peers[at.pe].transport->name);
}

static const struct transport_ops *ops_of(const struct place *at) { return ISO->peers[at->pe].transport; }

/* ---- device memory, of either side ---- */

/* The address for this PE's device, when the agent is to do it; NULL: it is for the transport. */
static char *by_agent(const struct place *at, const char *call)
{
    const struct segment *s = at->segment;
    if (ISO_UNLIKELY(s->kind == SEGMENT_BUFFER && s->peers[at->pe].base == NULL))
        iso_fatal(call, "pe %d is not a member of the team that the buffer at %p is registered for", at->pe,
                  (void *)s->base);
    if (!s->on_device)
        return NULL;
    if (s->peers[at->pe].gpu_ptr != NULL)
        return s->peers[at->pe].gpu_ptr + iso_place_offset(*at);
    if (ops_of(at)->by_pointer)
        iso_fatal(call, "the device of this PE does not reach memory of the device of pe %d", at->pe);
    return NULL;
}

struct far_move {
    struct ctx *ctx;
    const char *call;
    bool put; /* else a get */
    bool nbi;
    enum agent_side side; /* what the local memory is */
};

/* Local memory of a move. UNKNOWN: it is not symmetric, so only the driver could say more. */
static enum agent_side side_of_local(const void *addr)
{
    if (ISO_LIKELY(!ISO->careful) || ISO->device == NULL)
        return AGENT_HOST;
    const struct segment *s = iso_segment_of(addr, 1);
    if (s == NULL)
        s = iso_segment_lent(addr); /* move() says so */
    return s == NULL ? AGENT_UNKNOWN : s->on_device ? AGENT_DEVICE : AGENT_HOST;
}

bool iso_far_is_local_slow(const void *addr) { return side_of_local(addr) == AGENT_DEVICE; }

/* Does the local side pass through host memory? Device memory does that the transport does not move itself. Memory that
 * is not symmetric may be combined with device memory of a peer; that of the proxy is its stages, on the host. */
static bool needs_bounce(const struct far_move *m, struct place at, const void *local, size_t len)
{
    const struct transport_ops *ops = ops_of(&at);
    if (m->side == AGENT_DEVICE)
        return ops->moves_device == NULL || !ops->moves_device(at, local, len);
    return m->side == AGENT_UNKNOWN && at.segment->on_device && !m->ctx->of_proxy &&
           iso_gpu_pointer_kind(iso_agent_gpu(), local) == GPU_POINTER_DEVICE;
}

static void move_transported(const struct far_move *m, struct place at, char *local, size_t len)
{
    const struct transport_ops *ops = ops_of(&at);
    struct far_local side = {local, len, m->side == AGENT_DEVICE, m->nbi};
    if ((m->put ? ops->put : ops->get) == NULL)
        unsupported(m->call, at, m->put ? "put" : "get");
    bool bounces = needs_bounce(m, at, local, len);
    if (bounces) {
        side = (struct far_local){malloc(len), len, false, false};
        if (side.addr == NULL)
            iso_fatal(m->call, "no memory for a copy of %zu bytes of device memory", len);
    }
    if (m->put || side.nbi)
        iso_ctx_mark_dirty(m->ctx);
    if (m->put && bounces)
        iso_agent_move(side.addr, AGENT_HOST, local, AGENT_DEVICE, len);
    (m->put ? ops->put : ops->get)(m->ctx, at, &side);
    if (!bounces)
        return;
    if (!m->put)
        iso_agent_move(local, AGENT_DEVICE, side.addr, AGENT_HOST, len);
    free(side.addr);
}

/* One segment. A CPU pointer may come here too: the local side is device memory, or the place was found just now. */
static void move_in_segment(const struct far_move *m, struct place at, char *local, size_t len)
{
    enum agent_side side = at.cpu != NULL ? AGENT_HOST : AGENT_DEVICE;
    char *near = at.cpu != NULL ? at.cpu : by_agent(&at, m->call);
    if (near == NULL)
        move_transported(m, at, local, len);
    else if (side == AGENT_HOST && m->side != AGENT_DEVICE)
        memcpy(m->put ? near : local, m->put ? local : near, len);
    else if (m->put)
        iso_agent_move(near, side, local, m->side, len);
    else
        iso_agent_move(local, m->side, near, side, len);
}

/* A range that spans segments of one registered buffer is split where they end. */
static void move(const struct far_move *m, struct place at, char *local, size_t len)
{
    if (m->side == AGENT_DEVICE && iso_segment_lent(local) != NULL)
        iso_fatal_address(m->call, m->put ? "source" : "dest", local, len);
    if (at.segment != NULL) {
        move_in_segment(m, at, local, len);
        return;
    }
    for (size_t done = 0, n; done < len; done += n) {
        struct place piece = iso_place(at.addr + done, 1, at.pe, m->call, m->put ? "dest" : "source");
        n = ISO_MIN(len - done, piece.segment->limit - iso_place_offset(piece));
        move_in_segment(m, piece, local + done, n);
    }
}

void iso_far_put(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, .put = true, .side = side_of_local(source)};
    move(&m, to, (char *)(uintptr_t)source, len);
}

void iso_far_put_nbi(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, .put = true, .nbi = true, .side = side_of_local(source)};
    move(&m, to, (char *)(uintptr_t)source, len);
}

void iso_far_get(struct ctx *ctx, struct place from, void *dest, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, .side = side_of_local(dest)};
    move(&m, from, (char *)dest, len);
}

void iso_far_get_nbi(struct ctx *ctx, struct place from, void *dest, size_t len, const char *call)
{
    const struct far_move m = {ctx, call, .nbi = true, .side = side_of_local(dest)};
    move(&m, from, (char *)dest, len);
}

uint64_t iso_far_amo(struct ctx *ctx, struct place at, struct amo op, const char *call)
{
    char *device = at.segment != NULL ? by_agent(&at, call) : NULL;
    if (device != NULL)
        return iso_agent_amo(device, op);
    if (at.segment == NULL || at.segment->staged || ops_of(&at)->amo == NULL)
        unsupported(call, at, "an atomic operation");
    iso_ctx_mark_dirty(ctx);
    return ops_of(&at)->amo(ctx, at, op);
}

void iso_far_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch, const char *call)
{
    const struct transport_ops *ops = ops_of(&at);
    bool direct = at.segment != NULL && (!at.segment->on_device || at.segment->peers[at.pe].gpu_ptr == NULL);
    if (!direct || at.segment->staged || ops->amo_nbi == NULL) {
        uint64_t before = iso_far_amo(ctx, at, op, call);
        iso_word_to(fetch, before, op.bytes);
        return;
    }
    iso_ctx_mark_dirty(ctx);
    ops->amo_nbi(ctx, at, op, fetch);
}

/* On device memory, earlier copies of the agent are complete, so the signal is ordered behind them. */
void iso_far_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op, const char *call)
{
    char *device = at.segment != NULL ? by_agent(&at, call) : NULL;
    const struct amo add = {AMO_ADD, 8, value, 0, false};
    if (device != NULL && sig_op == SHMEM_SIGNAL_SET) {
        iso_agent_store(device, value, 8);
        return;
    }
    if (device != NULL) {
        (void)iso_agent_amo(device, add);
        return;
    }
    if (at.segment == NULL || at.segment->staged || ops_of(&at)->signal == NULL)
        unsupported(call, at, "a signal");
    iso_ctx_mark_dirty(ctx);
    ops_of(&at)->signal(ctx, at, value, sig_op);
}

/* The transport moves this memory, since the agent does not reach it. */
static bool is_transported(const struct place *at)
{
    const struct segment *s = at->segment;
    if (s != NULL && ISO_UNLIKELY(s->kind == SEGMENT_BUFFER && s->peers[at->pe].base == NULL))
        return false; /* no member of its team: by_agent says so */
    return s != NULL && (!s->on_device || (s->peers[at->pe].gpu_ptr == NULL && !ops_of(at)->by_pointer));
}

void iso_far_put_signal(struct ctx *ctx, const struct far_message *m)
{
    const struct transport_ops *ops = ops_of(&m->to);
    char *source = (char *)(uintptr_t)m->source;
    const struct far_move put = {ctx, m->call, .put = true, .nbi = m->nbi, .side = side_of_local(source)};
    bool one = ops->put_signal != NULL && is_transported(&m->to) && is_transported(&m->at) && !m->at.segment->staged;
    if (one && !needs_bounce(&put, m->to, source, m->len)) {
        iso_ctx_mark_dirty(ctx);
        ops->put_signal(ctx, m, &(struct far_local){source, m->len, put.side == AGENT_DEVICE, m->nbi});
        return;
    }
    move(&put, m->to, source, m->len);
    iso_far_signal(ctx, m->at, m->signal, m->sig_op, m->call);
}

void iso_far_put_words(struct ctx *ctx, struct place to, const uint64_t *words, size_t n, const char *call)
{
    const struct transport_ops *ops = ops_of(&to);
    if (ops->put_words == NULL || to.segment->on_device)
        unsupported(call, to, "a put of words");
    iso_ctx_mark_dirty(ctx);
    ops->put_words(ctx, to, words, n * sizeof *words);
}

uint64_t iso_far_load(struct ctx *ctx, struct place at, unsigned bytes, const char *call)
{
    const char *device = by_agent(&at, call);
    uint64_t value = 0;
    if (device != NULL)
        return iso_agent_load(device, bytes);
    move_transported(&(struct far_move){ctx, call, .side = AGENT_HOST}, at, (char *)&value, bytes);
    return value;
}

void iso_far_store(struct ctx *ctx, struct place at, uint64_t value, unsigned bytes, const char *call)
{
    char *device = by_agent(&at, call);
    if (device != NULL)
        iso_agent_store(device, value, bytes);
    else
        move_transported(&(struct far_move){ctx, call, .put = true, .side = AGENT_HOST}, at, (char *)&value, bytes);
}

void iso_far_fence(struct ctx *ctx)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->fence != NULL)
            rows[i]->fence(ctx);
}

void iso_far_quiet(struct ctx *ctx)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->quiet != NULL)
            rows[i]->quiet(ctx);
    /* A quiet ends the flag, but not for a context that threads share: an operation that another thread has begun
     * meanwhile would be hidden from its own quiet. */
    bool shared =
        ISO->thread_level == SHMEM_THREAD_MULTIPLE && (ctx->options & (SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED)) == 0;
    if (!shared)
        __atomic_store_n(&ctx->remote_dirty, false, __ATOMIC_RELAXED);
}

void iso_far_pe_quiet(struct ctx *ctx, int pe)
{
    const struct transport_ops *ops = ISO->peers[pe].transport;
    if (ops->pe_quiet != NULL)
        ops->pe_quiet(ctx, pe);
    else if (ops->quiet != NULL)
        ops->quiet(ctx);
}

bool iso_transport_progress(void)
{
    bool worked = false;
    for (int i = 0; i < ROWS; i++)
        if (rows[i]->progress != NULL)
            worked |= rows[i]->progress();
    return worked;
}

void iso_transport_polled(void)
{
    iso_transport_progress();
    if (ISO->spin_most == 0)
        iso_yield(NULL);
}

bool iso_transport_rest(uint64_t ns)
{
    bool slept = false;
    for (int i = 0; i < ROWS && !slept; i++)
        slept = rows[i]->rest != NULL && rows[i]->rest(ns);
    return slept;
}
