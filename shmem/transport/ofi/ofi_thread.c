/* SPDX-License-Identifier: MIT */
/* The progress thread serves peers while this PE computes: most providers make progress only when they are called. It
 * sleeps on the descriptor of the completion queue; where there is none, for LOOK_NS. Waits of this PE poll the queue
 * themselves. The thread leaves it alone as long as they do, and looks more rarely whether they still do when nothing
 * comes. */
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Polls by waits within LOOK_NS that show that waits do the thread's work. When nothing has come for IDLE_LOOKS, the
 * next looks follow after IDLE_NS. */
enum { BUSY_POLLS = 16, LOOK_NS = 1000000, IDLE_LOOKS = 100, IDLE_NS = 8000000, NAP_NS = 50000 };
enum { FD_CHANNEL, FD_WAKE, FD_EVENTS, FDS };

bool iso_ofi_progress(void)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL || iso_network_failed(&o->guard) || pthread_mutex_trylock(&o->guard.lock) != 0)
        return false;
    o->polls++;
    iso_ofi_poll(o);
    bool any = o->pending_events; /* also set by a wait that was about to sleep, and by the thread */
    o->pending_events = false;
    pthread_mutex_unlock(&o->guard.lock);
    return any;
}

/* May this thread sleep on the descriptor? Else something has come meanwhile; a second queue knows nothing of that. While lost there is no endpoint, and
 * rxm of libfabric 1.17 would read the memory of the closed one here. */
static bool may_sleep(struct ofi *o)
{
    struct fid *fid = o->bell != NULL ? &o->bell->fid : &o->cq->fid;
    return !o->guard.lost && fi_trywait(o->fabric, &fid, 1) == FI_SUCCESS && (o->bell == NULL || !iso_ofi_poll(o));
}

/* A wait that sleeps. It polls before and after: a poll makes a dozen system calls in a provider made of software. */
bool iso_ofi_rest(uint64_t ns)
{
    struct ofi *o = ISO->ofi;
    const struct timespec t = {0, (long)ns}, nap = {0, (long)ISO_MIN(ns, (uint64_t)NAP_NS)};
    if (o == NULL || o->fd < 0 || iso_network_failed(&o->guard))
        return false;
    struct pollfd fd = {o->fd, POLLIN, 0};
    iso_ofi_lock(o);
    o->sleepers++;
    o->polls += BUSY_POLLS + 1;
    o->counts.sleeps++;
    iso_ofi_watch(o);
    if (o->first_waiting >= 0 || o->guard.lost) { /* nothing says when the provider has room */
        iso_ofi_unlock(o);
        nanosleep(&nap, NULL);
        iso_ofi_lock(o);
    } else if (may_sleep(o)) {
        iso_ofi_unlock(o);
        int n = ppoll(&fd, 1, &t, NULL);
        iso_ofi_lock(o);
        if (n > 0)
            iso_ofi_poll(o);
    }
    o->sleepers--;
    iso_ofi_unlock(o);
    return true;
}

/* ---- the thread ---- */

/* Nanoseconds until the next look; 0: until the descriptor says so. */
static uint64_t prepare(struct ofi *o)
{
    uint64_t now = iso_wait_now_ns(), next_ns = LOOK_NS;
    iso_ofi_lock(o);
    o->asleep = false;
    bool busy = o->sleepers > 0 || o->polls > BUSY_POLLS * (now - o->looked_ns) / LOOK_NS;
    o->polls = 0;
    o->looked_ns = now;
    iso_ofi_watch(o);
    if (busy) {
        o->busy_looks = o->counts.completions + o->received == o->looked_events ? o->busy_looks + 1 : 0;
        o->looked_events = o->counts.completions + o->received;
        next_ns = o->busy_looks < IDLE_LOOKS ? LOOK_NS : IDLE_NS;
    } else if (!o->guard.lost) {
        o->busy_looks = 0;
        bool more = true; /* not for ever: calls of this PE want the lock, perhaps for what its peers are waiting for */
        for (int i = 0; i < BUSY_POLLS && more; i++)
            more = iso_ofi_poll(o);
        bool waits = o->first_waiting >= 0 || o->unposted != NULL || o->posted > 0;
        if (more || (o->fd >= 0 && !may_sleep(o)))
            next_ns = 1;
        else if (o->fd >= 0)
            next_ns = waits ? LOOK_NS : 0;
    }
    o->asleep = next_ns == 0;
    iso_ofi_unlock(o);
    return next_ns;
}

static void sleep_until_work(uint64_t look_ns, struct ofi *o)
{
    const struct timespec look = {0, (long)look_ns};
    struct pollfd fds[FDS] = {[FD_CHANNEL] = {iso_channel_fd(), POLLIN, 0},
                              [FD_WAKE] = {o->wake, POLLIN, 0},
                              [FD_EVENTS] = {o->fd, POLLIN, 0}};
    uint64_t wakes;
    int n = ppoll(fds, look_ns >= LOOK_NS ? FD_EVENTS : FDS, look_ns != 0 ? &look : NULL, NULL);
    if (n > 0 && fds[FD_WAKE].revents != 0) /* `stopping` is set before */
        (void)!read(o->wake, &wakes, sizeof wakes);
    if (n > 0 && fds[FD_CHANNEL].revents != 0)
        iso_channel_progress();
}

static void *run(void *argument)
{
    iso_thread_adopt((struct state *)argument);
    struct ofi *o = ISO->ofi;
    while (!__atomic_load_n(&o->stopping, __ATOMIC_ACQUIRE)) /* pairs with iso_ofi_thread_stop */
        sleep_until_work(prepare(o), o);
    return NULL;
}

int iso_ofi_thread_start(struct ofi *o)
{
    o->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = o->wake < 0 ? -errno : iso_thread_start(&o->thread, run, ISO);
    o->has_thread = rc == 0;
    if (rc == 0)
        return 0;
    errno = -rc;
    log_error("shmem_init: the thread that serves other nodes cannot be started: %m");
    return rc;
}

void iso_ofi_thread_stop(struct ofi *o)
{
    const uint64_t one = 1;
    __atomic_store_n(&o->stopping, true, __ATOMIC_RELEASE); /* pairs with run() */
    if (o->has_thread && write(o->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(o->thread, NULL);
    o->has_thread = false;
    if (o->wake >= 0)
        close(o->wake);
    o->wake = -1;
}
