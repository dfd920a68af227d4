/* SPDX-License-Identifier: MIT */
/* What the networks have in common, but for memory: see network.h. */
#include "network.h"
#include "../../../bootstrap/boot.h"
#include "../../../bootstrap/log.h"
#include "../../../bootstrap/thread.h"
#include "../../node/channel.h"
#include "../../node/peer.h"
#include "../../node/wait.h"
#include "../../state/pe_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 768, CAUSE_ROUNDS = 30, CAUSE_NS = 10000000, BREAK_NS = 1000000 };

/* ---- the lock ---- */

bool iso_network_lock_unless_failed(struct network *n)
{
    pthread_mutex_lock(&n->lock);
    if (ISO_LIKELY(!iso_network_failed(n)))
        return true;
    pthread_mutex_unlock(&n->lock);
    return false;
}

void iso_network_lock(struct network *n)
{
    if (ISO_LIKELY(iso_network_lock_unless_failed(n)))
        return;
    for (;;)
        pause(); /* another thread is ending the process */
}

/* ---- failure ---- */

static void drop_peer(struct network *n, int pe)
{
    if (n->peers[pe].gone)
        return;
    n->peers[pe].gone = n->bereft = true;
    n->port->drop_pe(pe);
}

void iso_network_drop_pe(struct network *n, int pe)
{
    if (n == NULL || !iso_job_outlives() || !iso_network_lock_unless_failed(n))
        return;
    if (!n->lost)
        drop_peer(n, pe);
    iso_network_unlock(n);
}

void iso_network_lose(struct network *n, int pe, const char *format, ...)
{
    const struct timespec t = {0, CAUSE_NS};
    bool returns = ISO->errors == SHMEMX_ERRORS_RETURN, one = returns && pe >= 0 && iso_job_masks();
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n->lost || (one && n->peers[pe].gone)) /* what follows from the loss */
        return;
    if (one)
        drop_peer(n, pe);
    else if (returns)
        n->lost = n->bereft = true;
    else
        __atomic_store_n(&n->failed, true, __ATOMIC_RELEASE); /* pairs with iso_network_failed */
    if (returns && !one && !n->port->drops_late)
        n->port->drop();
    iso_network_unlock(n);
    /* The death of a peer, or the end of the job by another PE, explains more than the network's error does. */
    for (int i = 0; i < CAUSE_ROUNDS && !iso_job_is_broken(); i++) {
        iso_channel_progress();
        nanosleep(&t, NULL);
    }
    /* The peers lose the connection by the drop, and may tell so before it has come to its end. */
    bool first = returns ? iso_job_claim(pe, text) : !iso_job_is_broken();
    if (first)
        log_error("%s", text);
    if (!returns)
        iso_job_break(pe, text);
    if (first)
        iso_job_tell();
    if (!one && n->port->drops_late) {
        iso_network_lock(n);
        n->port->drop();
        iso_network_unlock(n);
    }
    if (first)
        iso_job_claimed();
    else if (one) /* the job is broken by another one */
        iso_job_lose_pe(pe);
    iso_network_lock(n);
}

void iso_network_await_break(struct network *n)
{
    const struct timespec t = {0, BREAK_NS};
    while (n->bereft && !iso_job_is_broken()) {
        iso_network_unlock(n);
        nanosleep(&t, NULL);
        iso_network_lock(n);
    }
}

/* ---- peers ---- */

struct network_queue *iso_network_connect(struct network *n, int pe, int group)
{
    struct network_peer *peer = &n->peers[pe];
    struct wait wait = ISO_WAIT("connecting", pe, NULL, 1);
    while (peer->connecting && !iso_network_has_lost(n, pe)) /* another thread makes the connection */
        iso_network_pause(n, &wait, 0);
    iso_wait_end(&wait);
    if (peer->out[group] != NULL)
        return peer->out[group];
    if (iso_network_has_lost(n, pe))
        return n->port->nowhere(pe);
    peer->connecting = true;
    struct network_queue *q = n->port->connect(pe, group);
    peer->connecting = false;
    if (q == NULL || iso_network_has_lost(n, pe))
        return n->port->nowhere(pe);
    peer->out[group] = q;
    q->next_in_group = n->groups[group];
    n->groups[group] = q;
    return q;
}

int iso_network_ask(struct network *n, int pe, void *info, size_t bytes)
{
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES] = {0};
    struct network_answer head;
    memcpy(request, info, bytes);
    iso_network_unlock(n);
    int rc = iso_channel_ask(pe, request, answer);
    memcpy(&head, answer, sizeof head);
    if (rc == 0 && head.error == -ESHUTDOWN && iso_job_outlives())
        iso_job_lose_pe(pe); /* it has ended its network, since it does not mask the death that this one masks */
    iso_network_lock(n);
    memcpy(info, answer, bytes);
    if (iso_job_outlives() && iso_peer_is_gone(pe)) /* it has been waited for in vain */
        drop_peer(n, pe);
    return rc;
}

/* ---- waits ---- */

bool iso_network_pause(struct network *n, struct wait *wait, uint64_t seen)
{
    wait->outlives = true;
    iso_network_unlock(n);
    int rc = iso_wait_pause(wait, seen);
    iso_network_lock(n);
    if (rc != 0 && !n->lost && iso_job_outlives())
        drop_peer(n, wait->peer);
    else if (rc != 0)
        n->port->drop();
    return !iso_network_has_lost(n, wait->peer);
}

void iso_network_end_wait(struct network *n, struct wait *wait)
{
    uint64_t ns = wait->since_ns != 0 ? iso_clock_now_ns() - wait->since_ns : 0;
    if (ns > 0) {
        iso_network_add(&n->counts.waits, 1);
        iso_network_add(&n->counts.waited_ns, ns);
    }
    if (ns > n->counts.longest_ns) {
        __atomic_store_n(&n->counts.longest_ns, ns, __ATOMIC_RELAXED);
        __atomic_store_n(&n->counts.longest_pe, wait->peer, __ATOMIC_RELAXED);
    }
    iso_wait_end(wait);
}

void iso_network_count(const struct network *n, struct transport_counts *sum)
{
    uint64_t longest = n != NULL ? __atomic_load_n(&n->counts.longest_ns, __ATOMIC_RELAXED) : 0;
    if (n == NULL)
        return;
    sum->posts += __atomic_load_n(&n->counts.posts, __ATOMIC_RELAXED);
    sum->refused += __atomic_load_n(&n->counts.refused, __ATOMIC_RELAXED);
    sum->retries += __atomic_load_n(&n->counts.retries, __ATOMIC_RELAXED);
    sum->credit_waits += __atomic_load_n(&n->counts.credit_waits, __ATOMIC_RELAXED);
    sum->waits += __atomic_load_n(&n->counts.waits, __ATOMIC_RELAXED);
    sum->waited_ns += __atomic_load_n(&n->counts.waited_ns, __ATOMIC_RELAXED);
    if (longest <= sum->longest_ns)
        return;
    sum->longest_ns = longest;
    sum->longest_pe = __atomic_load_n(&n->counts.longest_pe, __ATOMIC_RELAXED);
}

bool iso_network_watches(struct network *n)
{
    uint64_t now = iso_clock_now_ns();
    if (n->lost || iso_network_ended(n) || now - n->watched_ns < NETWORK_WATCH_NS)
        return false;
    n->watched_ns = now;
    return true;
}

/* ---- order and completion ---- */

void iso_network_fence(struct network *n, const struct ctx *ctx)
{
    if (n == NULL)
        return;
    iso_network_lock(n);
    for (struct network_queue *q = n->groups[iso_network_group(ctx)]; q != NULL; q = q->next_in_group)
        n->port->fence(q);
    iso_network_unlock(n);
}

void iso_network_quiet(struct network *n, const struct ctx *ctx)
{
    if (n == NULL)
        return;
    iso_network_lock(n);
    struct network_queue *first = n->groups[iso_network_group(ctx)];
    for (struct network_queue *q = first; q != NULL; q = q->next_in_group)
        n->port->begin_quiet(ctx, q);
    for (struct network_queue *q = first; q != NULL; q = q->next_in_group)
        n->port->end_quiet(ctx, q);
    iso_network_unlock(n);
}

void iso_network_pe_quiet(struct network *n, const struct ctx *ctx, int pe)
{
    iso_network_lock(n);
    struct network_queue *q = n->peers[pe].out[iso_network_group(ctx)];
    if (q != NULL) {
        n->port->begin_quiet(ctx, q);
        n->port->end_quiet(ctx, q);
    }
    iso_network_unlock(n);
}

/* ---- the progress thread: it serves peers while this PE computes ---- */

bool iso_network_is_busy(struct network *n, uint64_t now_ns, unsigned many)
{
    bool busy = n->sleepers > 0 || n->polls > many * (now_ns - n->looked_ns) / NETWORK_LOOK_NS;
    n->polls = 0;
    n->looked_ns = now_ns;
    return busy;
}

/* The thread is gone before its network is. */
static void *run_network(void *argument)
{
    struct network *n = (struct network *)argument;
    iso_thread_adopt(n->state);
    while (!__atomic_load_n(&n->stopping, __ATOMIC_ACQUIRE)) /* pairs with iso_network_thread_stop */
        n->port->sleep(n->port->look());
    return NULL;
}

int iso_network_thread_start(struct network *n)
{
    n->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = n->wake < 0 ? -errno : iso_thread_start(&n->thread, "isomer-network", run_network, n);
    n->has_thread = rc == 0;
    if (rc == 0)
        return 0;
    errno = -rc;
    log_error("shmem_init: the thread that serves other nodes cannot be started: %m");
    return rc;
}

void iso_network_thread_stop(struct network *n)
{
    const uint64_t one = 1;
    __atomic_store_n(&n->stopping, true, __ATOMIC_RELEASE); /* pairs with run() */
    if (n->has_thread && write(n->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(n->thread, NULL);
    n->has_thread = false;
    if (n->wake >= 0)
        close(n->wake);
    n->wake = -1;
}

/* ---- life ---- */

int iso_network_open(struct network *n, const struct network_port *port)
{
    n->port = port;
    n->state = ISO;
    n->wake = -1;
    pthread_mutex_init(&n->lock, NULL);
    n->peers = (struct network_peer *)calloc((size_t)ISO->n_pes, sizeof *n->peers);
    return n->peers != NULL ? 0 : -ENOMEM;
}

/* The barrier covers the operations of all PEs, and the thread serves them meanwhile. Behind it no connection is needed.
 * An error of a connection whose other end is gone is ignored. */
void iso_network_stop(struct network *n)
{
    char line[1280];
    if (ISO->life == LIFE_ENDING) {
        iso_network_lock(n);
        n->port->complete();
        iso_network_unlock(n);
        iso_boot_barrier(ISO->boot);
        __atomic_store_n(&n->ended, true, __ATOMIC_RELAXED);
    }
    iso_network_thread_stop(n);
    if (iso_log_shows(LOG_DEBUG) && n->port->text(line, sizeof line) > 0)
        log_debug("%s: %s", n->port->name, line);
    iso_channel_set_handler(NULL);
    ISO->soft_network = false;
}

void iso_network_close(struct network *n)
{
    for (int pe = 0; n->peers != NULL && pe < ISO->n_pes; pe++)
        free(n->peers[pe].keys.rows);
    free(n->peers);
    free(n->regions.rows);
    pthread_mutex_destroy(&n->lock);
}
