/* SPDX-License-Identifier: MIT */
/* The handshake of the PEs of one node: each dials the lowest one, which gives it the descriptor of the file that all
 * share (node_file.h); it writes its row there and says that it is ready; when all are, the lowest PE says so to each.
 * So a start takes a few messages for each PE, however many there are. A connection must come from our own user and
 * carry the token of the PE that it is meant for. Called by pe.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/node_file.h"
#include "../node/node_socket.h"
#include "../node/peer.h"

#include "../../bootstrap/net/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { REFUSED_PAUSE_MS = 1, LOOK_MS = 100 };

struct greeting {
    unsigned char token[16]; /* of the PE it is sent to */
    int32_t pe;              /* the sender */
};

static void say_no_files(const char *what)
{
    log_error("shmem_init: %s: this PE has no file descriptor left for the %d PEs of its node; raise ulimit -n", what,
              ISO->n_local);
}

static int fail_handshake(int pe, int rc)
{
    errno = -rc;
    if (rc == -EMFILE)
        say_no_files("descriptors were lost");
    else
        log_error("shmem_init: pe %d on this host did not complete the handshake: %m", pe);
    return rc;
}

/* fd -1: none. Too many descriptors under way: their receivers are about to take them. */
static int greet(int sock, enum node_socket_type type, const struct row *to, int fd)
{
    struct node_socket_message m;
    struct greeting greeting;
    memset(&m, 0, sizeof m);
    memset(&greeting, 0, sizeof greeting);
    memcpy(greeting.token, to->token, sizeof greeting.token);
    greeting.pe = ISO->my_pe;
    m.type = type;
    memcpy(m.body, &greeting, sizeof greeting);
    int rc;
    while ((rc = iso_node_socket_send(sock, &m, &fd, fd >= 0 ? 1 : 0)) == -ETOOMANYREFS)
        poll(NULL, 0, REFUSED_PAUSE_MS);
    return rc;
}

/* A greeting of this type for this PE, with a descriptor where fd is not NULL. -EAGAIN: nothing there yet; -EPROTO:
 * not from a PE of this job. */
static int take_greeting(int sock, enum node_socket_type type, const struct row *mine, int *pe, int *fd)
{
    struct node_socket_message m;
    struct greeting greeting;
    int fds[NODE_SOCKET_FDS_MAX], n_fds = 0;
    int rc = iso_node_socket_receive(sock, &m, fds, &n_fds);
    if (rc != 0)
        return rc;
    memcpy(&greeting, m.body, sizeof greeting);
    *pe = greeting.pe;
    if (m.type != type || n_fds != (fd != NULL) || memcmp(greeting.token, mine->token, sizeof greeting.token) != 0) {
        iso_node_socket_close_fds(fds, n_fds);
        return -EPROTO;
    }
    if (fd != NULL)
        *fd = fds[0];
    return 0;
}

/* Waits for it. -ETIMEDOUT after SHMEM_BOOT_TIMEOUT. */
static int await_greeting(int sock, enum node_socket_type type, const struct row *mine, int64_t deadline, int *fd)
{
    int rc, pe;
    while ((rc = take_greeting(sock, type, mine, &pe, fd)) == -EAGAIN) {
        struct pollfd there = {sock, POLLIN, 0};
        iso_poll(&there, 1, LOOK_MS);
        if (iso_deadline_poll_ms(deadline) == 0)
            return -ETIMEDOUT;
    }
    return rc;
}

/* ---- the lowest PE ---- */

struct rendezvous {
    const struct row *rows;
    int *callers; /* [n_local] connections that have not said who they are, the oldest first */
    int n_callers;
    int missing; /* PEs that have not said hello */
    struct pollfd *polls;
};

static void drop_caller(struct rendezvous *m, int i)
{
    char name[32];
    snprintf(name, sizeof name, "pid %d", iso_node_socket_peer_pid(m->callers[i]));
    iso_handshake_warn_dropped(name, "it is not a PE of this job");
    close(m->callers[i]);
    m->callers[i] = -1;
}

static int take_callers(struct rendezvous *m)
{
    for (int sock; (sock = accept4(ISO->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        if (m->n_callers == ISO->n_local) { /* PEs speak at once, so the oldest caller is not one */
            drop_caller(m, 0);
            memmove(m->callers, m->callers + 1, (size_t)(--m->n_callers) * sizeof *m->callers);
        }
        m->callers[m->n_callers++] = sock;
        if (!iso_node_socket_peer_is_user(sock))
            drop_caller(m, --m->n_callers);
    }
    if (errno == EMFILE) {
        say_no_files("a connection cannot be accepted");
        return -EMFILE;
    }
    return 0;
}

/* A caller that is a stranger, or has gone again, is dropped, and the start goes on. */
static int hear_caller(struct rendezvous *m, int i)
{
    int sock = m->callers[i], pe;
    int rc = take_greeting(sock, NODE_SOCKET_HELLO, &m->rows[ISO->my_pe], &pe, NULL);
    if (rc == -EAGAIN)
        return 0;
    if (rc == -ECONNRESET) {
        close(sock);
        m->callers[i] = -1;
        return 0;
    }
    bool expected = rc == 0 && pe >= 0 && pe < ISO->n_pes && pe != ISO->my_pe && ISO->peers[pe].local &&
                    ISO->peers[pe].sock < 0;
    if (rc == -EPROTO || (rc == 0 && !expected)) {
        drop_caller(m, i);
        return 0;
    }
    if (rc != 0)
        return fail_handshake(ISO->my_pe, rc);
    m->callers[i] = -1;
    m->missing--;
    ISO->peers[pe].sock = sock;
    rc = greet(sock, NODE_SOCKET_WELCOME, &m->rows[pe], ISO->node_fd);
    return rc != 0 ? fail_handshake(pe, rc) : 0;
}

static int say_missing(int missing)
{
    log_error("shmem_init: %d PEs of this host have not connected within SHMEM_BOOT_TIMEOUT (%.0f s)", missing,
              ISO->env->boot_timeout);
    return -ETIMEDOUT;
}

static int welcome_all(struct rendezvous *m, int64_t deadline)
{
    int rc = 0;
    while (rc == 0 && m->missing > 0) {
        int n = 0;
        m->polls[n++] = (struct pollfd){ISO->listener, POLLIN, 0};
        for (int i = 0; i < m->n_callers; i++)
            m->polls[n++] = (struct pollfd){m->callers[i], POLLIN, 0};
        iso_poll(m->polls, (unsigned)n, LOOK_MS);
        if (iso_deadline_poll_ms(deadline) == 0)
            return say_missing(m->missing);
        rc = take_callers(m);
        int kept = 0;
        for (int i = 0; i < m->n_callers; i++) {
            if (rc == 0)
                rc = hear_caller(m, i);
            if (m->callers[i] >= 0)
                m->callers[kept++] = m->callers[i];
        }
        m->n_callers = kept;
    }
    return rc;
}

/* No PE goes on before all are ready: then each row of the file is what it will be. */
static int start_all(const struct rendezvous *m, int64_t deadline)
{
    struct state *self = ISO;
    for (int i = 1; i < self->n_local; i++) {
        int pe = self->local_pes[i];
        int rc = await_greeting(self->peers[pe].sock, NODE_SOCKET_READY, &m->rows[self->my_pe], deadline, NULL);
        if (rc != 0)
            return rc == -ETIMEDOUT ? say_missing(self->n_local - i) : fail_handshake(pe, rc);
        iso_node_try(i);
    }
    for (int i = 1; i < self->n_local; i++) {
        int pe = self->local_pes[i], rc = greet(self->peers[pe].sock, NODE_SOCKET_GO, &m->rows[pe], -1);
        if (rc != 0)
            return fail_handshake(pe, rc);
    }
    return 0;
}

/* The same on all PEs. It tells nothing of the token. */
static uint32_t job_number(const struct row *rows)
{
    static const char what[] = "name of the job";
    unsigned char code[AUTH_BYTES];
    uint32_t number;
    iso_auth_code(rows[0].token, what, sizeof what, code);
    memcpy(&number, code, sizeof number);
    return number;
}

static int gather_node(const struct row *rows, int64_t deadline)
{
    size_t n = (size_t)ISO->n_local;
    struct rendezvous m = {rows, (int *)calloc(n, sizeof(int)), 0, ISO->n_local - 1,
                           (struct pollfd *)calloc(n + 1, sizeof(struct pollfd))};
    int rc = m.callers != NULL && m.polls != NULL ? iso_node_make(job_number(rows)) : -ENOMEM;
    if (rc == 0)
        rc = iso_node_join();
    if (rc == 0)
        rc = welcome_all(&m, deadline);
    if (rc == 0)
        rc = start_all(&m, deadline);
    iso_node_socket_close_fds(m.callers, m.n_callers);
    free(m.callers);
    free(m.polls);
    return rc;
}

/* ---- the others ---- */

static int connect_to(const struct row *row)
{
    struct sockaddr_un name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, row->sock_name, sizeof row->sock_name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)row->sock_name_len);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, len) == 0 && iso_node_socket_peer_is_user(fd))
        return fd;
    int rc = -errno;
    if (fd >= 0)
        close(fd);
    return rc < 0 ? rc : -EPERM;
}

static int join_node(const struct row *rows, int64_t deadline)
{
    int lowest = ISO->local_pes[0], fd = -1;
    const struct row *mine = &rows[ISO->my_pe];
    int sock = connect_to(&rows[lowest]);
    errno = -sock;
    if (sock == -EMFILE)
        say_no_files("a unix socket cannot be made");
    else if (sock < 0)
        log_error("shmem_init: pe %d has the same node name (%s) but its unix socket cannot be reached: %m; it has "
                  "ended, or else give PEs that do not share memory different SHMEM_NODE",
                  lowest, ISO->peers[lowest].node);
    if (sock < 0)
        return sock;
    ISO->peers[lowest].sock = sock;
    int rc = greet(sock, NODE_SOCKET_HELLO, &rows[lowest], -1);
    if (rc == 0)
        rc = await_greeting(sock, NODE_SOCKET_WELCOME, mine, deadline, &fd);
    if (rc != 0)
        return fail_handshake(lowest, rc);
    rc = iso_node_take(fd);
    if (rc == 0)
        rc = iso_node_join();
    if (rc != 0)
        return rc;
    iso_node_try(0);
    rc = greet(sock, NODE_SOCKET_READY, &rows[lowest], -1);
    if (rc == 0)
        rc = await_greeting(sock, NODE_SOCKET_GO, mine, deadline, NULL);
    return rc != 0 ? fail_handshake(lowest, rc) : 0;
}

/* ---- all ---- */

/* Where PEs cannot open each other's memory (pid namespaces of their own, programs that may not be traced): all get
 * the descriptors of all, now. */
static int trade_memory(struct segment *segment)
{
    struct state *self = ISO;
    struct pe_offer mine = {.fd = segment->fd}, *theirs;
    if (segment->limit == 0)
        return 0;
    theirs = (struct pe_offer *)calloc((size_t)self->n_local, sizeof *theirs);
    int rc = theirs != NULL ? iso_pe_exchange(&mine, theirs, "shmem_init") : -ENOMEM;
    for (int i = 0; i < self->n_local && rc == 0; i++)
        if (i != self->my_local)
            rc = theirs[i].fd >= 0 ? iso_segment_map(segment, self->local_pes[i], theirs[i].fd) : -EMFILE;
    free(theirs);
    if (rc == -EMFILE)
        say_no_files("descriptors were lost");
    return rc;
}

int iso_rendezvous_hold(const struct row *rows)
{
    struct state *self = ISO;
    int64_t deadline = iso_deadline_in(self->env->boot_timeout);
    if (self->n_local == 1) { /* the file is for those who look at the job */
        int rc = iso_node_make(job_number(rows));
        return rc != 0 ? rc : iso_node_join();
    }
    int rc = self->my_local == 0 ? gather_node(rows, deadline) : join_node(rows, deadline);
    if (rc != 0)
        return rc;
    iso_node_learn();
    iso_segment_learn();
    if (!self->node->closed)
        return 0;
    rc = trade_memory(&self->segments[SEGMENT_INDEX_HEAP]);
    return rc != 0 ? rc : trade_memory(&self->segments[SEGMENT_INDEX_DATA]);
}
