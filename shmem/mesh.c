/* SPDX-License-Identifier: MIT */
/* Messages between the PEs of one node, and the death watch: a socket that closes without a good-bye is a dead PE.
 * Reading happens in waits (iso_pe_poll), by one thread at a time (mesh_lock). */
#include "mesh.h"

#include "transport/channel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int iso_mesh_send(int sock, const struct mesh_message *m, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MESH_FDS_MAX)];
    } control;
    struct iovec iov = {(void *)(uintptr_t)m, sizeof *m};
    struct msghdr h;
    memset(&h, 0, sizeof h);
    memset(&control, 0, sizeof control);
    h.msg_iov = &iov;
    h.msg_iovlen = 1;
    if (n_fds > 0) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &h, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *m ? 0 : n < 0 ? -errno : -EIO;
}

static int take_fds(struct msghdr *h, int *fds)
{
    int n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)n);
    }
    return n;
}

int iso_mesh_receive(int sock, struct mesh_message *m, int *fds, int *n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * MESH_FDS_MAX)];
    } control;
    struct iovec iov = {m, sizeof *m};
    struct msghdr h;
    memset(&h, 0, sizeof h);
    h.msg_iov = &iov;
    h.msg_iovlen = 1;
    h.msg_control = control.bytes;
    h.msg_controllen = sizeof control.bytes;
    *n_fds = 0;
    ssize_t n;
    do
        n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ECONNRESET) /* it closed with unread messages of ours; its own last words come first */
        n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    *n_fds = take_fds(&h, fds);
    bool cut = (h.msg_flags & MSG_CTRUNC) != 0; /* there is room for all that is ever sent: this PE may open no more */
    if (n == (ssize_t)sizeof *m && !cut)
        return 0;
    iso_mesh_close_fds(fds, *n_fds);
    *n_fds = 0;
    return n == 0 ? -ECONNRESET : n != (ssize_t)sizeof *m ? -EPROTO : -EMFILE;
}

void iso_mesh_close_fds(const int *fds, int n_fds)
{
    for (int i = 0; i < n_fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static struct ucred credentials(int sock)
{
    struct ucred who = {-1, (uid_t)-1, (gid_t)-1};
    socklen_t len = sizeof who;
    getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len);
    return who;
}

int iso_mesh_peer_pid(int sock) { return (int)credentials(sock).pid; }

bool iso_mesh_peer_is_user(int sock) { return credentials(sock).uid == geteuid(); }

/* ---- the death watch ---- */

_Noreturn static void report_death(const struct peer *peer, const struct wait *wait)
{
    char sentence[256];
    if (wait == NULL)
        snprintf(sentence, sizeof sentence, "pe %d (pid %d on %s) died; ending the job", peer->pe, peer->pid,
                 peer->host);
    else
        snprintf(sentence, sizeof sentence, "%s: pe %d (pid %d on %s) died while this PE was waiting; ending the job",
                 iso_call_name(wait->call), peer->pe, peer->pid, peer->host);
    log_error("%s", sentence);
    iso_abort_job(1, sentence);
}

/* The message goes on without it: what it was for fails on this PE alone. */
static void report_no_files(const struct peer *peer)
{
    log_error("a descriptor from pe %d (pid %d on %s) found no room among the open files of this PE; raise ulimit -n",
              peer->pe, peer->pid, peer->host);
}

/* invariant: exchanges are separated by barriers, so one place is enough. */
static void take_offer(struct peer *peer, const struct mesh_message *m, const int *fds, int n_fds)
{
    if (__atomic_load_n(&peer->offer_full, __ATOMIC_ACQUIRE)) { /* pairs with the release in iso_pe_exchange */
        iso_mesh_close_fds(fds, n_fds);
        return;
    }
    memcpy(&peer->offer, m->body, sizeof peer->offer);
    peer->offer.fd = n_fds > 0 ? fds[0] : -1;
    __atomic_store_n(&peer->offer_full, true, __ATOMIC_RELEASE); /* the proxy's thread may be the one that reads it */
}

void iso_pe_take_left(int pe, uint32_t left_at)
{
    struct peer *peer = &ISO->peers[pe];
    peer->left_at = left_at;
    __atomic_store_n(&peer->left, true, __ATOMIC_RELEASE); /* pairs with has_left of waits */
}

/* One message, or the end, of this peer. Returns false when nothing was there. */
static bool read_peer(struct peer *peer, const struct wait *wait)
{
    struct mesh_message m;
    int fds[MESH_FDS_MAX], n_fds;
    int rc = iso_mesh_receive(peer->sock, &m, fds, &n_fds);
    if (rc == -EAGAIN)
        return false;
    if (rc == -EMFILE) {
        report_no_files(peer);
        rc = 0;
    }
    if (rc != 0 && !peer->gone)
        report_death(peer, wait);
    if (rc != 0) {
        close(peer->sock);
        peer->sock = -1;
        return false;
    }
    if (m.type == MESH_BYE)
        peer->gone = true;
    if (m.type == MESH_BYE || m.type == MESH_LEFT)
        iso_pe_take_left(peer->pe, (uint32_t)m.status);
    else if (m.type == MESH_EXIT)
        iso_exit_quietly(m.status);
    else if (m.type == MESH_OFFER)
        take_offer(peer, &m, fds, n_fds);
    else
        iso_mesh_close_fds(fds, n_fds);
    return true;
}

void iso_pe_poll(const struct wait *wait)
{
    struct state *self = ISO;
    iso_channel_progress();
    if (self->n_local <= 1 || self->aborting || pthread_mutex_trylock(&self->mesh_lock) != 0)
        return;
    for (int i = 0; i < self->n_local; i++) {
        struct peer *peer = &self->peers[self->local_pes[i]];
        while (peer->sock >= 0 && read_peer(peer, wait))
            ;
    }
    pthread_mutex_unlock(&self->mesh_lock);
}

/* Peers end at their next wait; local ones that do not wait within the grace are asked by SIGTERM, since there may be
 * no launcher that would do it. */
void iso_pe_tell_exit(int status)
{
    iso_mesh_tell_all(MESH_EXIT, status);
    iso_channel_tell_exit(status);
}

void iso_pe_end_stragglers(void)
{
    struct state *self = ISO;
    for (int tries = 0; self->peers != NULL && tries < 20; tries++) {
        int left = 0;
        for (int i = 0; i < self->n_local; i++) {
            const struct peer *peer = &self->peers[self->local_pes[i]];
            struct pollfd end = {peer->sock, 0, 0};
            bool there = peer->sock >= 0 && !peer->threaded && poll(&end, 1, 0) == 0;
            left += there;
            if (there && tries == 19 && peer->pid > 0)
                kill(peer->pid, SIGTERM);
        }
        if (left == 0)
            return;
        usleep(10000);
    }
}

void iso_mesh_tell_all(enum mesh_type type, int32_t status)
{
    struct state *self = ISO;
    struct mesh_message m;
    memset(&m, 0, sizeof m);
    m.type = type;
    m.status = status;
    for (int i = 0; self->peers != NULL && i < self->n_local; i++) {
        const struct peer *peer = &self->peers[self->local_pes[i]];
        if (peer->sock >= 0)
            iso_mesh_send(peer->sock, &m, NULL, 0);
    }
}

/* ---- offers: a collective exchange of {base, len, descriptor} ---- */

/* Too many descriptors under way (meeting.c says more): what is there for this PE is received between the attempts. */
static int send_offer(const struct pe_offer *mine, struct peer *to, const char *call)
{
    struct mesh_message m;
    memset(&m, 0, sizeof m);
    m.type = MESH_OFFER;
    memcpy(m.body, mine, sizeof *mine);
    struct wait w = ISO_WAIT(call, to->pe, NULL, 0);
    int rc = 0;
    while (to->sock >= 0 && (rc = iso_mesh_send(to->sock, &m, &mine->fd, mine->fd >= 0 ? 1 : 0)) == -ETOOMANYREFS) {
        iso_pe_poll(&w);
        iso_wait_pause(&w, 0);
    }
    iso_wait_end(&w);
    return rc;
}

/* Acquire: pairs with take_offer, which another thread of this PE may have run. */
static bool offer_is_there(const struct peer *peer) { return __atomic_load_n(&peer->offer_full, __ATOMIC_ACQUIRE); }

static struct pe_offer await_offer(struct peer *peer, const char *call)
{
    struct wait w = ISO_WAIT(call, peer->pe, NULL, 0);
    while (!offer_is_there(peer)) {
        iso_pe_poll(&w);
        if (!offer_is_there(peer))
            iso_wait_pause(&w, 0);
    }
    iso_wait_end(&w);
    struct pe_offer offer = peer->offer;
    __atomic_store_n(&peer->offer_full, false, __ATOMIC_RELEASE); /* pairs with take_offer: it has been read */
    if (peer->threaded && offer.fd >= 0) {
        close(offer.fd);
        offer.fd = -1;
    }
    return offer;
}

/* In each round the PEs meet in pairs, so that no more descriptors are under way than there are PEs. */
int iso_pe_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call)
{
    struct state *self = ISO;
    theirs[self->my_local] = *mine;
    theirs[self->my_local].fd = -1;
    for (int round = 0; round < self->n_local; round++) {
        int other = (round + self->n_local - self->my_local) % self->n_local;
        struct peer *peer = &self->peers[self->local_pes[other]];
        if (other == self->my_local)
            continue;
        int rc = send_offer(mine, peer, call);
        if (rc != 0)
            return rc;
        theirs[other] = await_offer(peer, call);
    }
    return 0;
}
