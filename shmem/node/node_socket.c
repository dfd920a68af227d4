/* SPDX-License-Identifier: MIT */
/* Messages between the PEs of one node, and exchanges of descriptors: all go through the lowest PE of the node, so
 * that no PE but this one has more than one socket. */
#include "node_socket.h"
#include "../../bootstrap/log.h"
#include "peer.h"
#include "wait.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int iso_node_socket_send(int sock, const struct node_socket_message *m, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * NODE_SOCKET_FDS_MAX)];
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

int iso_node_socket_receive(int sock, struct node_socket_message *m, int *fds, int *n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * NODE_SOCKET_FDS_MAX)];
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
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        *n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)*n_fds);
    }
    bool cut = (h.msg_flags & MSG_CTRUNC) != 0; /* there is room for all that is ever sent: this PE may open no more */
    if (n == (ssize_t)sizeof *m && !cut)
        return 0;
    iso_node_socket_close_fds(fds, *n_fds);
    *n_fds = 0;
    return n == 0 ? -ECONNRESET : n != (ssize_t)sizeof *m ? -EPROTO : -EMFILE;
}

void iso_node_socket_close_fds(const int *fds, int n_fds)
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

int iso_node_socket_peer_pid(int sock) { return (int)credentials(sock).pid; }

bool iso_node_socket_peer_is_user(int sock) { return credentials(sock).uid == geteuid(); }

/* ---- offers: a collective exchange of {base, len, descriptor} ---- */

/* Descriptors that were sent and not yet received are counted for each user, and the kernel takes no more than the
 * sender's limit of open files (root is exempt): then it tries again. */
static int send_offer(const struct pe_offer *offer, int local, const struct peer *to, const char *call)
{
    struct node_socket_message m;
    memset(&m, 0, sizeof m);
    m.type = NODE_SOCKET_OFFER;
    m.local = local;
    memcpy(m.body, offer, sizeof *offer);
    struct wait w = ISO_WAIT(call, to->pe, NULL, 0);
    int rc;
    while ((rc = iso_node_socket_send(to->sock, &m, &offer->fd, offer->fd >= 0 ? 1 : 0)) == -ETOOMANYREFS) {
        iso_wait_poll_peers(&w);
        if (iso_wait_pause(&w, 0) != 0)
            break;
    }
    iso_wait_end(&w);
    return rc;
}

/* Takes one offer, which may be any PE's, from the socket of `from`. A closed socket means that the PE has died or
 * left: a program's wait ends with a sentence, and a start fails. */
static int await_offer(const struct peer *from, struct pe_offer *theirs, const char *call)
{
    struct wait w = ISO_WAIT(call, from->pe, NULL, 0);
    struct node_socket_message m;
    int fds[NODE_SOCKET_FDS_MAX], n_fds, rc;
    while ((rc = iso_node_socket_receive(from->sock, &m, fds, &n_fds)) != 0 && rc != -EMFILE) {
        iso_wait_poll_peers(&w);
        if (rc != -EAGAIN && ISO->life != LIFE_RUNNING)
            break;
        if (iso_wait_pause(&w, 0) != 0)
            return -EIO;
    }
    iso_wait_end(&w);
    if (rc == -EMFILE) { /* the message goes on without it: what it was for fails on this PE alone */
        log_error("a descriptor from pe %d (pid %d on %s) found no room among the open files of this PE; raise "
                  "ulimit -n",
                  from->pe, from->pid, from->host);
    } else if (rc != 0) {
        log_error("%s: pe %d has ended its start", iso_call_name(call), from->pe);
        return rc;
    }
    if (m.type != NODE_SOCKET_OFFER || m.local < 0 || m.local >= ISO->n_local)
        return iso_refuse_alone(call, "pe %d sent a message of type %u where an offer is due", from->pe, m.type);
    struct pe_offer *offer = &theirs[m.local];
    memcpy(offer, m.body, sizeof *offer);
    offer->fd = n_fds > 0 ? fds[0] : -1;
    return 0;
}

int iso_pe_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call)
{
    struct state *self = ISO;
    const struct peer *lowest = &self->peers[self->local_pes[0]];
    int rc = 0;
    theirs[self->my_local] = *mine;
    if (self->my_local == 0) {
        for (int i = 1; i < self->n_local && rc == 0; i++)
            rc = await_offer(&self->peers[self->local_pes[i]], theirs, call);
        for (int of = 0; of < self->n_local; of++)
            for (int to = 1; to < self->n_local; to++)
                if (rc == 0 && of != to) /* each other PE gets the offers that are not its own */
                    rc = send_offer(&theirs[of], of, &self->peers[self->local_pes[to]], call);
    } else {
        rc = send_offer(mine, self->my_local, lowest, call);
        for (int i = 1; i < self->n_local && rc == 0; i++)
            rc = await_offer(lowest, theirs, call);
    }
    theirs[self->my_local].fd = -1;
    for (int i = 0; i < self->n_local; i++)
        if (self->peers[self->local_pes[i]].threaded && theirs[i].fd >= 0) {
            close(theirs[i].fd);
            theirs[i].fd = -1;
        }
    return rc;
}
