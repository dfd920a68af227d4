/* SPDX-License-Identifier: MIT */
/* Exchanges of {base, len, descriptor} between those members of a team that are on one node: iso_pe_exchange without
 * the other PEs. What is not a descriptor goes by the team's inboxes. For descriptors each member opens a unix socket
 * for the time of the exchange, whose name goes the same way: no PE is needed that takes no part.
 * Called by buffer.c and device_buffer.c. */
#include "team_offer.h"
#include "../../bootstrap/log.h"
#include "agree.h"
#include "../node/node_socket.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 8, PIECE_BYTES = 56, LATE_MS = 1000 };

/* Of one member; in pieces that fit an inbox. */
struct told {
    struct pe_offer offer; /* fd: 1: there is one, -1: none */
    char name[NAME_BYTES]; /* abstract unix address, made by the kernel */
    int32_t name_len;      /* 0: none */
    int32_t spare;
};

/* ---- sockets ---- */

/* -errno: no descriptor can come to this member. */
static int listen_for_team(struct told *told)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return -errno;
    bool is_open = bind(sock, (struct sockaddr *)&address, len) == 0 && listen(sock, ISO_MAX(ISO->n_local, 16)) == 0;
    len = sizeof address;
    is_open = is_open && getsockname(sock, (struct sockaddr *)&address, &len) == 0;
    int name_len = is_open ? (int)(len - offsetof(struct sockaddr_un, sun_path)) : 0;
    if (name_len <= 0 || name_len > NAME_BYTES) {
        close(sock);
        return -EADDRNOTAVAIL;
    }
    memcpy(told->name, address.sun_path, (size_t)name_len);
    told->name_len = name_len;
    return sock;
}

/* The listener has room for all members, so this waits for nobody. */
static int send_to(const struct told *to, int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct node_socket_message m;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)to->name_len);
    int sock = to->name_len > 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
    memset(&m, 0, sizeof m);
    m.type = NODE_SOCKET_OFFER;
    m.local = ISO->my_local;
    if (sock < 0)
        return to->name_len > 0 ? -errno : -ENOTCONN;
    memcpy(address.sun_path, to->name, (size_t)to->name_len);
    int rc = connect(sock, (struct sockaddr *)&address, len) == 0 ? iso_node_socket_send(sock, &m, &fd, 1) : -errno;
    close(sock);
    return rc;
}

/* A descriptor that is still wanted; others that connect are not heard. */
static void take_one(int listener, struct pe_offer *theirs, const bool *wanted)
{
    struct node_socket_message m;
    int fds[NODE_SOCKET_FDS_MAX], n_fds = 0, sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return;
    struct pollfd ready = {sock, POLLIN, 0};
    bool good = iso_node_socket_peer_is_user(sock) && poll(&ready, 1, LATE_MS) == 1 &&
                iso_node_socket_receive(sock, &m, fds, &n_fds) == 0;
    if (good && m.type == NODE_SOCKET_OFFER && m.local >= 0 && m.local < ISO->n_local && n_fds == 1 &&
        wanted[m.local] && theirs[m.local].fd < 0)
        theirs[m.local].fd = fds[0];
    else if (good)
        iso_node_socket_close_fds(fds, n_fds);
    close(sock);
}

/* ---- the exchange ---- */

static int gather_offers(struct team *team, const struct told *mine, struct told *all, const char *call)
{
    char *piece = (char *)malloc((size_t)team->n_pes * PIECE_BYTES);
    int rc = piece != NULL ? 0 : iso_refuse_alone(call, "no memory for a team of %d", team->n_pes);
    for (size_t at = 0; rc == 0 && at < sizeof *mine; at += PIECE_BYTES) {
        size_t bytes = ISO_MIN((size_t)PIECE_BYTES, sizeof *mine - at);
        rc = iso_agree_gather(team, (const char *)mine + at, bytes, piece, call);
        for (int i = 0; rc == 0 && i < team->n_pes; i++)
            memcpy((char *)&all[i] + at, piece + (size_t)i * bytes, bytes);
    }
    free(piece);
    return rc;
}

/* -1: none. */
struct team_fds {
    int mine; /* for the others */
    int listener;
};

/* All have been sent when the members agree on it, so whatever comes is there. */
static int trade_descriptors(struct team *team, const struct told *all, struct team_fds fds, struct pe_offer *theirs,
                             const char *call)
{
    bool *wanted = (bool *)calloc((size_t)ISO->n_local, sizeof *wanted);
    int failed = wanted != NULL ? 0 : -ENOMEM, n = 0;
    for (int i = 0; i < team->n_pes && wanted != NULL; i++) {
        const struct peer *peer = &ISO->peers[team->world_of[i]];
        if (peer->pe == ISO->my_pe || !peer->local || peer->threaded)
            continue;
        wanted[peer->place] = all[i].offer.fd >= 0;
        n += wanted[peer->place];
        int rc = fds.mine >= 0 ? send_to(&all[i], fds.mine) : 0;
        failed = failed != 0 ? failed : rc;
        if (rc != 0)
            log_error("%s: a descriptor cannot be sent to pe %d: %s; raise ulimit -n", iso_call_name(call), peer->pe,
                      strerror(-rc));
    }
    if (iso_agree_min(team, failed == 0, call) == 0)
        failed = failed != 0 ? failed : -EIO;
    for (struct pollfd ready = {fds.listener, POLLIN, 0}; failed == 0 && n > 0 && poll(&ready, 1, 0) == 1;)
        take_one(fds.listener, theirs, wanted);
    free(wanted);
    return failed;
}

int iso_team_exchange(struct team *team, const struct pe_offer *mine, struct pe_offer *theirs, const char *call)
{
    if (team == ISO->world)
        return iso_pe_exchange(mine, theirs, call);
    struct told told, *all = (struct told *)calloc((size_t)team->n_pes, sizeof *all);
    if (all == NULL)
        return iso_refuse_alone(call, "no memory for a team of %d", team->n_pes);
    memset(&told, 0, sizeof told);
    told.offer = *mine;
    told.offer.fd = mine->fd >= 0 ? 1 : -1;
    int listener = listen_for_team(&told), rc = gather_offers(team, &told, all, call);
    bool any = false;
    for (int i = 0; i < team->n_pes && rc == 0; i++) {
        const struct peer *peer = &ISO->peers[team->world_of[i]];
        any = any || all[i].offer.fd >= 0;
        if (!peer->local)
            continue;
        theirs[peer->place] = all[i].offer;
        theirs[peer->place].fd = -1;
    }
    if (rc == 0 && any)
        rc = trade_descriptors(team, all, (struct team_fds){mine->fd, listener}, theirs, call);
    if (listener >= 0)
        close(listener);
    free(all);
    return rc;
}
