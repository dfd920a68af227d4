/* SPDX-License-Identifier: MIT */
/* The handshake of the PEs of one node: each dials those below it, both ends say hello, and with it go the descriptors
 * of their segments. A connection must come from our own user and carry the token of the PE that it is meant for.
 * invariant: PEs answer while they dial, so nobody waits for somebody who waits. Called by pe.c. */
#include "mesh.h"

#include "../bootstrap/wire.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Where the handshake with a PE of this node stands. A dialler's hello comes first, then the other's. */
enum stage { STAGE_APART, STAGE_OWES, STAGE_AWAITS, STAGE_MET }; /* OWES: this PE has to send its hello */

struct partner {
    int sock;
    enum stage stage;
};

/* Descriptors that were sent and not yet received are counted for each user, and the kernel takes no more than the
 * sender's limit of open files (root is exempt). So a PE awaits the answers of a few at a time only; and one that is
 * refused goes on receiving before it tries again: when all are refused, all receive. */
enum { AWAITED_MOST = 4, REFUSED_PAUSE_MS = 1, LOOK_MS = 100 };

struct meeting {
    const struct row *rows;
    struct partner *partners; /* by local number; one's own stays apart */
    int *callers;             /* [n_local] connections that have not said who they are, the oldest first */
    int n_callers;
    int dialled, awaited; /* lower PEs: connected with so far, of them not answered yet */
    int missing;          /* PEs not met */
    bool refused;         /* the last hello: too many descriptors are under way */
    unsigned char cores[128];
};

/* ---- hello ---- */

struct hello_body {
    unsigned char token[16]; /* of the PE it is sent to */
    int32_t pe;
    uint64_t heap_base, data_base;
    unsigned char cores[128]; /* affinity mask */
};

static void fill_hello(struct mesh_message *m, const struct row *to, int *fds, int *n_fds)
{
    struct state *self = ISO;
    struct hello_body body;
    memset(&body, 0, sizeof body);
    memcpy(body.token, to->token, sizeof body.token);
    body.pe = self->my_pe;
    body.heap_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_HEAP].base;
    body.data_base = (uint64_t)(uintptr_t)self->segments[SEGMENT_INDEX_DATA].base;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        memcpy(body.cores, &cores, ISO_MIN(sizeof body.cores, sizeof cores));
    fds[0] = self->segments[SEGMENT_INDEX_HEAP].fd;
    fds[1] = self->segments[SEGMENT_INDEX_DATA].fd;
    *n_fds = self->segments[SEGMENT_INDEX_DATA].limit != 0 ? 2 : 1;
    m->type = MESH_HELLO;
    memcpy(m->body, &body, sizeof body);
}

static int send_hello(int sock, const struct row *to)
{
    struct mesh_message m;
    int fds[2], n;
    memset(&m, 0, sizeof m);
    fill_hello(&m, to, fds, &n);
    return iso_mesh_send(sock, &m, fds, n);
}

/* invariant: called once per local peer; fds are owned by the segments afterwards. */
static int accept_hello(int pe, int sock, const struct hello_body *body, int *fds, int n_fds)
{
    struct peer *peer = &ISO->peers[pe];
    peer->pid = iso_mesh_peer_pid(sock);
    peer->threaded = peer->pid == (int)getpid();
    for (int i = 0; i < n_fds && peer->threaded; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    int rc = iso_segment_add_peer(SEGMENT_INDEX_HEAP, pe, (char *)(uintptr_t)body->heap_base, fds[0]);
    if (rc == 0 && n_fds > 1 && ISO->segments[SEGMENT_INDEX_DATA].limit != 0)
        rc = iso_segment_add_peer(SEGMENT_INDEX_DATA, pe, (char *)(uintptr_t)body->data_base, fds[1]);
    else if (n_fds > 1 && fds[1] >= 0)
        close(fds[1]);
    peer->sock = rc == 0 ? sock : -1; /* else it stays the meeting's */
    return rc;
}

static void say_no_files(const char *what)
{
    log_error("shmem_init: %s: this PE has no file descriptor left for the %d PEs of its node; raise ulimit -n", what,
              ISO->n_local);
}

static void add_cores(unsigned char *all, const unsigned char *cores)
{
    for (int i = 0; i < 128; i++)
        all[i] |= cores[i];
}

static bool is_known(const struct mesh_message *m, const struct hello_body *body, const struct row *rows, int expect_pe)
{
    return m->type == MESH_HELLO && memcmp(body->token, rows[ISO->my_pe].token, sizeof body->token) == 0 &&
           body->pe >= 0 && body->pe < ISO->n_pes && (expect_pe < 0 || body->pe == expect_pe) &&
           ISO->peers[body->pe].local && ISO->peers[body->pe].sock < 0;
}

/* The PE whose hello was there, -EAGAIN, or -errno; -EPROTO: the connection is not from a PE of this job. */
static int take_hello(struct meeting *m, int sock, int expect_pe)
{
    struct mesh_message message;
    struct hello_body body;
    int fds[MESH_FDS_MAX], n_fds = 0;
    int rc = iso_mesh_receive(sock, &message, fds, &n_fds);
    if (rc != 0)
        return rc;
    if (message.type == MESH_EXIT && expect_pe >= 0) /* of the PE that we dialled */
        iso_exit_quietly(message.status);
    if (message.type == MESH_BYE) /* its start failed, and it has said why */
        return -ECONNRESET;
    memcpy(&body, message.body, sizeof body);
    if (n_fds < 1 || !is_known(&message, &body, m->rows, expect_pe)) {
        iso_mesh_close_fds(fds, n_fds);
        return -EPROTO;
    }
    add_cores(m->cores, body.cores);
    rc = accept_hello(body.pe, sock, &body, fds, n_fds);
    return rc != 0 ? rc : body.pe;
}

static int connect_to(const struct row *row)
{
    struct sockaddr_un name;
    memset(&name, 0, sizeof name);
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, row->sock_name, sizeof row->sock_name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)row->sock_name_len);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, len) == 0 && iso_mesh_peer_is_user(fd))
        return fd;
    int rc = -errno;
    if (fd >= 0)
        close(fd);
    return rc < 0 ? rc : -EPERM;
}

static int dial(struct meeting *m, int place)
{
    int pe = ISO->local_pes[place], sock = connect_to(&m->rows[pe]);
    errno = -sock;
    if (sock == -EMFILE)
        say_no_files("a unix socket cannot be made");
    else if (sock < 0)
        log_error("shmem_init: pe %d has the same node name (%s) but its unix socket cannot be reached: %m; it has "
                  "ended, or else give PEs that do not share memory different SHMEM_NODE",
                  pe, ISO->peers[pe].node);
    if (sock < 0)
        return sock;
    m->partners[place] = (struct partner){sock, STAGE_OWES};
    m->awaited++;
    return 0;
}

static int dial_lower(struct meeting *m)
{
    int rc = 0;
    while (rc == 0 && m->dialled < ISO->my_local && m->awaited < AWAITED_MOST)
        rc = dial(m, m->dialled++);
    return rc;
}

static void meet(struct meeting *m, int place)
{
    m->partners[place].stage = STAGE_MET;
    m->missing--;
}

static int fail_handshake(int pe, int rc)
{
    errno = -rc;
    log_error("shmem_init: pe %d on this host did not complete the handshake: %m", pe);
    return rc;
}

/* Sends the hellos that are owed, until one is refused. */
static int send_hellos(struct meeting *m)
{
    m->refused = false;
    for (int i = 0; i < ISO->n_local && !m->refused; i++) {
        struct partner *partner = &m->partners[i];
        int pe = ISO->local_pes[i];
        if (partner->stage != STAGE_OWES)
            continue;
        int rc = send_hello(partner->sock, &m->rows[pe]);
        m->refused = rc == -ETOOMANYREFS;
        if (rc != 0 && !m->refused)
            return fail_handshake(pe, rc);
        if (rc == 0 && i < ISO->my_local)
            partner->stage = STAGE_AWAITS;
        else if (rc == 0)
            meet(m, i);
    }
    return 0;
}

static int take_answers(struct meeting *m)
{
    for (int i = 0; i < m->dialled; i++) {
        int pe = ISO->local_pes[i];
        int rc = m->partners[i].stage == STAGE_AWAITS ? take_hello(m, m->partners[i].sock, pe) : -EAGAIN;
        if (rc == -EAGAIN)
            continue;
        if (rc == -EMFILE)
            say_no_files("descriptors were lost");
        else if (rc < 0)
            fail_handshake(pe, rc);
        if (rc < 0)
            return rc;
        m->awaited--;
        meet(m, i);
    }
    return 0;
}

static void drop_caller(struct meeting *m, int i, bool is_closed)
{
    if (!is_closed)
        log_warn("shmem_init: dropped a connection that is not from a PE of this job (pid %d)",
                 iso_mesh_peer_pid(m->callers[i]));
    close(m->callers[i]);
    m->callers[i] = -1;
}

/* One that is a stranger is dropped, and the start goes on. */
static int hear_caller(struct meeting *m, int i)
{
    int sock = m->callers[i], rc = take_hello(m, sock, -1);
    if (rc == -EAGAIN)
        return 0;
    if (rc == -EMFILE)
        say_no_files("descriptors were lost");
    if (rc == -EPROTO || rc == -ECONNRESET)
        drop_caller(m, i, rc == -ECONNRESET);
    if (rc < 0)
        return rc == -EPROTO || rc == -ECONNRESET ? 0 : rc;
    m->callers[i] = -1;
    for (int place = ISO->my_local + 1; place < ISO->n_local; place++)
        if (ISO->local_pes[place] == rc)
            m->partners[place] = (struct partner){sock, STAGE_OWES};
    return 0;
}

static int hear_callers(struct meeting *m)
{
    int rc = 0, kept = 0;
    for (int i = 0; i < m->n_callers; i++) {
        if (rc == 0)
            rc = hear_caller(m, i);
        if (m->callers[i] >= 0)
            m->callers[kept++] = m->callers[i];
    }
    m->n_callers = kept;
    return rc;
}

/* PEs speak at once: where there is no room for one more, it is the oldest that is none. */
static void make_room(struct meeting *m)
{
    if (m->n_callers < ISO->n_local)
        return;
    drop_caller(m, 0, false);
    memmove(m->callers, m->callers + 1, (size_t)(--m->n_callers) * sizeof *m->callers);
}

static int take_callers(struct meeting *m)
{
    for (int sock; (sock = accept4(ISO->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        make_room(m);
        m->callers[m->n_callers++] = sock;
        if (!iso_mesh_peer_is_user(sock)) {
            drop_caller(m, m->n_callers - 1, false);
            m->n_callers--;
        }
    }
    if (errno == EMFILE) {
        say_no_files("a connection cannot be accepted");
        return -EMFILE;
    }
    return 0;
}

static int list_sockets(const struct meeting *m, struct pollfd *polls)
{
    int n = 0;
    polls[n++] = (struct pollfd){ISO->listener, POLLIN, 0};
    for (int i = 0; i < m->n_callers; i++)
        polls[n++] = (struct pollfd){m->callers[i], POLLIN, 0};
    for (int i = 0; i < m->dialled; i++)
        if (m->partners[i].stage == STAGE_AWAITS)
            polls[n++] = (struct pollfd){m->partners[i].sock, POLLIN, 0};
    return n;
}

/* Until something is there to receive, or a refused hello is to be tried again. */
static int await_hellos(const struct meeting *m, struct pollfd *polls, int64_t deadline)
{
    if (m->refused)
        poll(NULL, 0, REFUSED_PAUSE_MS);
    else
        poll(polls, (nfds_t)list_sockets(m, polls), LOOK_MS);
    if (iso_wire_poll_ms(deadline) != 0)
        return 0;
    log_error("shmem_init: %d PEs of this host have not connected within SHMEM_BOOT_TIMEOUT (%.0f s)%s", m->missing,
              ISO->env.boot_timeout,
              m->refused ? "; too many descriptors of this user are under way between processes: raise ulimit -n" : "");
    return -ETIMEDOUT;
}

static int meet_all(struct meeting *m, struct pollfd *polls)
{
    int64_t deadline = iso_wire_deadline(ISO->env.boot_timeout);
    for (;;) {
        int rc = dial_lower(m);
        if (rc == 0)
            rc = send_hellos(m);
        if (rc != 0 || m->missing == 0)
            return rc;
        rc = await_hellos(m, polls, deadline);
        if (rc == 0)
            rc = take_callers(m);
        if (rc == 0)
            rc = hear_callers(m);
        if (rc == 0)
            rc = take_answers(m);
        if (rc != 0)
            return rc;
    }
}

static void judge_cores(const unsigned char *cores)
{
    int n_cores = 0;
    for (int i = 0; i < 128; i++)
        n_cores += __builtin_popcount(cores[i]);
    ISO->oversubscribed = n_cores > 0 && ISO->n_local > n_cores;
}

/* Where it has failed: connections that no peer owns yet. Who is at their other end sees that they end. */
static void close_unmet(const struct meeting *m)
{
    for (int i = 0; m->partners != NULL && i < ISO->n_local; i++)
        if (m->partners[i].stage != STAGE_APART && ISO->peers[ISO->local_pes[i]].sock < 0)
            close(m->partners[i].sock);
}

int iso_meeting_hold(const struct row *rows)
{
    size_t n = (size_t)ISO->n_local;
    struct meeting m;
    cpu_set_t mine;
    memset(&m, 0, sizeof m);
    if (sched_getaffinity(0, sizeof mine, &mine) == 0)
        memcpy(m.cores, &mine, ISO_MIN(sizeof m.cores, sizeof mine));
    m.rows = rows;
    m.missing = ISO->n_local - 1;
    m.partners = (struct partner *)calloc(n, sizeof *m.partners);
    m.callers = (int *)calloc(n, sizeof *m.callers);
    struct pollfd *polls = (struct pollfd *)calloc(n + 1 + AWAITED_MOST, sizeof *polls);
    int rc = m.partners != NULL && m.callers != NULL && polls != NULL ? meet_all(&m, polls) : -ENOMEM;
    close_unmet(&m);
    iso_mesh_close_fds(m.callers, m.n_callers);
    free(m.partners);
    free(m.callers);
    free(polls);
    judge_cores(m.cores);
    return rc;
}
