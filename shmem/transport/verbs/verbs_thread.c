/* SPDX-License-Identifier: MIT */
/* The progress thread serves peers while this PE computes. It sleeps until a message, the channel or the device wakes
 * it. Threads of this PE that wait poll the queues themselves, and those that sleep are woken by the same events.
 * Meanwhile the progress thread leaves the events alone, so that it does not take a core at each message, and checks
 * again after a moment whether they still wait. */
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "verbs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

enum { WATCH_TIMEOUTS = 40 };
#define LOOKS_LONGER 3u /* doublings of NETWORK_LOOK_NS where each look costs the network's own time */
enum { FD_CHANNEL, FD_DEVICE, FD_WAKE, FD_EVENTS, FDS };

bool iso_verbs_progress(void)
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
static void watch(struct verbs *v)
{
    char why[160];
    double limit_s = WATCH_TIMEOUTS * iso_verbs_timeout_s();
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

bool iso_verbs_rest(uint64_t ns)
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
    watch(v); /* the thread may sleep too, and a stuck queue wakes no thread */
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

/* Threads of this PE do the work, or answers wait, or else events are requested. Waits poll less on a core that the
 * network or another PE needs too. */
uint64_t iso_verbs_look(void)
{
    struct verbs *v = ISO->verbs;
    uint64_t now = iso_wait_now_ns(), next_ns = 0;
    iso_verbs_lock(v);
    if (iso_network_is_busy(&v->net, now, v->port.software ? 1 : NETWORK_BUSY_POLLS)) {
        watch(v);
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
                         ISO->boot.host, text);
        iso_verbs_unlock(v);
    }
    if (type == IBV_EVENT_PORT_ERR)
        log_warn("%s port %d of host %s has lost its link: %s", v->port.device, v->port.number, ISO->boot.host, text);
    else
        log_debug("verbs: %s of host %s: %s", v->port.device, ISO->boot.host, text);
}

void iso_verbs_sleep(uint64_t look_ns)
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
