/* SPDX-License-Identifier: MIT */
/* The progress thread serves peers while this PE computes: most providers make progress only when they are called. It
 * sleeps on the descriptor of the completion queue; where there is none, for NETWORK_LOOK_NS. Waits of this PE poll the
 * queue themselves. The thread leaves it alone as long as they do, and looks more rarely whether they still do when
 * nothing comes. */
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/wait.h"
#include "ofi.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

/* When nothing has come for IDLE_LOOKS, the next looks follow after IDLE_NS. */
enum { IDLE_LOOKS = 100, IDLE_NS = 8000000, NAP_NS = 50000 };
enum { FD_CHANNEL, FD_WAKE, FD_EVENTS, FDS };

bool iso_ofi_progress(void)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL || !iso_network_begin_look(&o->net))
        return false;
    iso_ofi_poll(o);
    return iso_network_end_look(&o->net);
}

/* May this thread sleep on the descriptor? Else something has come meanwhile; a second queue knows nothing of that.
 * While lost there is no endpoint, and rxm of libfabric 1.17 would read the memory of the closed one here. */
static bool may_sleep(struct ofi *o)
{
    struct fid *fid = o->bell != NULL ? &o->bell->fid : &o->cq->fid;
    return !o->net.lost && fi_trywait(o->fabric, &fid, 1) == FI_SUCCESS && (o->bell == NULL || !iso_ofi_poll(o));
}

/* A wait that sleeps. It polls before and after: a poll makes a dozen system calls in a provider made of software. */
bool iso_ofi_rest(uint64_t ns)
{
    struct ofi *o = ISO->ofi;
    const struct timespec t = {0, (long)ns}, nap = {0, (long)ISO_MIN(ns, (uint64_t)NAP_NS)};
    if (o == NULL || o->fd < 0 || iso_network_failed(&o->net))
        return false;
    struct pollfd fd = {o->fd, POLLIN, 0};
    iso_ofi_lock(o);
    o->net.sleepers++;
    o->net.polls += NETWORK_BUSY_POLLS + 1;
    o->counts.sleeps++;
    iso_ofi_watch(o);
    if (o->first_waiting >= 0 || o->net.lost) { /* nothing says when the provider has room */
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
    o->net.sleepers--;
    iso_ofi_unlock(o);
    return true;
}

/* ---- the thread ---- */

uint64_t iso_ofi_look(void)
{
    struct ofi *o = ISO->ofi;
    uint64_t next_ns = NETWORK_LOOK_NS;
    iso_ofi_lock(o);
    o->asleep = false;
    iso_ofi_watch(o);
    if (iso_network_is_busy(&o->net, iso_wait_now_ns(), NETWORK_BUSY_POLLS)) {
        o->net.busy_looks = o->counts.completions + o->received == o->looked_events ? o->net.busy_looks + 1 : 0;
        o->looked_events = o->counts.completions + o->received;
        next_ns = o->net.busy_looks < IDLE_LOOKS ? next_ns : (uint64_t)IDLE_NS;
    } else if (!o->net.lost) {
        o->net.busy_looks = 0;
        bool more = true; /* not for ever: calls of this PE want the lock, perhaps for what its peers are waiting for */
        for (int i = 0; i < NETWORK_BUSY_POLLS && more; i++)
            more = iso_ofi_poll(o);
        bool waits = o->first_waiting >= 0 || o->unposted != NULL || o->posted > 0;
        if (more || (o->fd >= 0 && !may_sleep(o)))
            next_ns = 1;
        else if (o->fd >= 0)
            next_ns = waits ? NETWORK_LOOK_NS : 0;
    }
    o->asleep = next_ns == 0;
    iso_ofi_unlock(o);
    return next_ns;
}

void iso_ofi_sleep(uint64_t look_ns)
{
    struct ofi *o = ISO->ofi;
    const struct timespec look = {0, (long)look_ns};
    struct pollfd fds[FDS] = {[FD_CHANNEL] = {iso_channel_fd(), POLLIN, 0},
                              [FD_WAKE] = {o->net.wake, POLLIN, 0},
                              [FD_EVENTS] = {o->fd, POLLIN, 0}};
    uint64_t wakes;
    int n = ppoll(fds, look_ns >= NETWORK_LOOK_NS ? FD_EVENTS : FDS, look_ns != 0 ? &look : NULL, NULL);
    if (n > 0 && fds[FD_WAKE].revents != 0) /* `stopping` is set before */
        (void)!read(o->net.wake, &wakes, sizeof wakes);
    if (n > 0 && fds[FD_CHANNEL].revents != 0)
        iso_channel_progress();
}
