/* SPDX-License-Identifier: MIT */
/* The progress thread: serves peers while this PE computes. It sleeps until a message, the channel or the device wakes
 * it. While threads of this PE wait, they look at the queues themselves; then it asks for no events, so that it does
 * not take their core at each message, and looks again after a moment whether they still do. */
#include "verbs.h"
#include "channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A wait that sleeps polls at most 7 times in that time, one that yields far more often. */
enum { BUSY_POLLS = 16, LOOK_NS = 1000000 };
enum { FD_EVENTS, FD_CHANNEL, FD_DEVICE, FD_WAKE, FDS };

void iso_verbs_progress(void)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL || __atomic_load_n(&v->failed, __ATOMIC_ACQUIRE) || pthread_mutex_trylock(&v->lock) != 0)
        return;
    v->polls++;
    iso_verbs_post_all(v);
    iso_verbs_poll(v);
    pthread_mutex_unlock(&v->lock);
}

/* What came before the request for an event makes none: so look once more. */
static void arm(struct verbs *v)
{
    if (v->armed)
        return;
    ibv_req_notify_cq(v->received, 0);
    v->armed = true;
    iso_verbs_poll(v);
}

/* True: threads of this PE look at the queues themselves. */
static bool prepare(struct verbs *v)
{
    uint64_t now = iso_wait_now_ns();
    iso_verbs_enter(v);
    bool busy = v->polls >= BUSY_POLLS * (now - v->looked_ns) / LOOK_NS + 1;
    v->polls = 0;
    v->looked_ns = now;
    if (!busy)
        arm(v);
    iso_verbs_leave(v);
    return busy;
}

static void take_event(struct verbs *v)
{
    struct ibv_cq *cq;
    void *context;
    if (v->lib.get_cq_event(v->events, &cq, &context) != 0)
        return;
    v->lib.ack_cq_events(cq, 1);
    iso_verbs_enter(v);
    v->armed = false;
    v->counts.events++;
    v->counts.system_calls += 2;
    iso_verbs_poll(v);
    iso_verbs_leave(v);
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
        iso_verbs_enter(v);
        iso_verbs_fail(v, "the RDMA device %s of pe %d (host %s) reports: %s", v->port.device, ISO->my_pe,
                       ISO->boot.host, text);
    }
    if (type == IBV_EVENT_PORT_ERR)
        log_warn("%s port %d of host %s has lost its link: %s", v->port.device, v->port.number, ISO->boot.host, text);
    else
        log_debug("verbs: %s of host %s: %s", v->port.device, ISO->boot.host, text);
}

static void sleep_until_work(struct verbs *v, bool busy)
{
    const struct timespec look = {0, LOOK_NS};
    struct pollfd fds[FDS] = {[FD_EVENTS] = {v->events->fd, POLLIN, 0},
                              [FD_CHANNEL] = {iso_channel_fd(), POLLIN, 0},
                              [FD_DEVICE] = {v->device->async_fd, POLLIN, 0},
                              [FD_WAKE] = {v->wake, POLLIN, 0}};
    int n = ppoll(fds, FDS, busy ? &look : NULL, NULL);
    if (n <= 0)
        return;
    if ((fds[FD_EVENTS].revents & POLLIN) != 0)
        take_event(v);
    if (fds[FD_CHANNEL].revents != 0)
        iso_channel_progress();
    if ((fds[FD_DEVICE].revents & POLLIN) != 0)
        take_device_event(v);
}

static void *run(void *argument)
{
#ifdef ISO_PES_AS_THREADS
    iso_state_adopt((struct state *)argument);
#endif
    (void)argument;
    struct verbs *v = ISO->verbs;
    iso_log_set_pe(ISO->my_pe);
    while (!__atomic_load_n(&v->stopping, __ATOMIC_ACQUIRE)) /* pairs with iso_verbs_thread_stop */
        sleep_until_work(v, prepare(v));
    return NULL;
}

int iso_verbs_thread_start(struct verbs *v)
{
    v->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = v->wake < 0 ? errno : pthread_create(&v->thread, NULL, run, ISO);
    v->has_thread = rc == 0;
    if (rc == 0)
        return 0;
    errno = rc;
    log_error("shmem_init: the thread that serves other nodes cannot be started: %m");
    return -rc;
}

void iso_verbs_thread_stop(struct verbs *v)
{
    const uint64_t one = 1;
    __atomic_store_n(&v->stopping, true, __ATOMIC_RELEASE); /* pairs with run() */
    if (v->has_thread && write(v->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(v->thread, NULL);
    v->has_thread = false;
    if (v->wake >= 0)
        close(v->wake);
    v->wake = -1;
}
