/* SPDX-License-Identifier: MIT */
/* The channel of this PE: its connections, requests over them, and what their ends mean. All of it happens in
 * make_progress, under one lock, by any thread that calls. Nothing in it blocks but the sending of frames that fit
 * the sockets' buffers. Silence is found by the kernel (keepalive and user timeout of TCP), an end by the end of the
 * stream. A connection that has ended stays in memory until make_progress returns, since callers may still look at it.
 * Static functions are called with channel.lock held, but for those under "waits" and "start". */
#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "channel_state.h"
#include "node_file.h"
#include "peer.h"
#include "wait.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEND_S 5.0       /* a frame fits the socket's buffer: to wait means that the other end reads no more */
#define HANDSHAKE_S 10.0 /* for a PE that has called us */
#define ATTEMPT_S 3.0    /* for one address of a PE that we call */
#define RETRY_S 0.05     /* after all addresses have failed */
#define GOODBYE_S 10.0   /* the longest wait for good-byes */
#define PROGRESS_MS 20   /* what no descriptor tells: attempts to repeat, deaths on this node */
#define EVENTS 64
#define ACCEPTS 256
#define STRANGERS 32  /* connections that may be silent, besides one of each node */
#define SILENT_S 0.25 /* a hello comes sooner */
#define REST_S 0.2    /* between two looks for a free descriptor */

/* ---- sentences ---- */

/* "pe 3 on b (node x)" */
static const char *describe_process(int pe, char text[192])
{
    const struct peer *peer = &ISO->peers[pe];
    if (strcmp(peer->node, peer->host) == 0)
        snprintf(text, 192, "pe %d on %s", pe, peer->host);
    else
        snprintf(text, 192, "pe %d on %s (node %s)", pe, peer->host, peer->node);
    return text;
}

static bool is_on_my_host(int pe) { return strcmp(ISO->peers[pe].host, ISO->peers[ISO->my_pe].host) == 0; }

const char *iso_channel_text(int pe, char *text, size_t bytes)
{
    const struct channel *c = ISO->channel;
    struct tcp_address address;
    char name[TCP_NAME_BYTES];
    size_t n = 0;
    snprintf(text, bytes, "none");
    for (int i = 0; c != NULL && c->started && n + 2 < bytes &&
                    iso_interface_pick(&c->targets[pe].addresses, &c->mine, is_on_my_host(pe), i, &address);
         i++) {
        iso_tcp_name(&address, name);
        snprintf(text + n, bytes - n, i > 0 ? ", %s" : "%s", name);
        n += strlen(text + n);
    }
    return text;
}

/* ---- connections ---- */

/* The epoll set has it from now on; `what` is &channel.listener or a link. 0 or -errno. */
static int watch_fd(struct channel *c, int fd, uint32_t events, void *what)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events;
    event.data.ptr = what;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return errno == EEXIST && epoll_ctl(c->epoll, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

/* A connection that is not up yet. NULL: no memory, and fd is closed. */
static struct link *add_link(struct channel *c, int fd, int pe, const char *name, double seconds)
{
    struct link *link = (struct link *)calloc(1, sizeof *link);
    if (link == NULL) {
        close(fd);
        return NULL;
    }
    int rc = iso_tcp_limit_silence(fd, ISO->env->node_timeout);
    if (rc != 0)
        log_warn("a silent node may go unnoticed: keepalive of TCP cannot be set: %s", strerror(-rc));
    link->socket.fd = fd;
    link->pe = pe;
    link->deadline = iso_deadline_in(seconds);
    snprintf(link->name, sizeof link->name, "%s", name);
    link->next = c->pending;
    c->pending = link;
    return link;
}

static void remove_link(struct channel *c, const struct link *link)
{
    struct link **lists[] = {&c->pending, &c->links};
    for (int i = 0; i < 2; i++)
        for (struct link **at = lists[i]; *at != NULL; at = &(*at)->next)
            if (*at == link) {
                *at = link->next;
                return;
            }
}

static void finish_request(struct channel *c, struct channel_request *request, int rc)
{
    uint64_t one = 1;
    for (struct channel_request **at = &c->requests; *at != NULL; at = &(*at)->next)
        if (*at == request) {
            *at = request->next;
            break;
        }
    if (request->answer == NULL) {
        free(request);
        return;
    }
    request->rc = rc;
    request->done = true;
    if (write(request->event, &one, sizeof one) != sizeof one)
        log_debug("channel: eventfd: %m"); /* its thread looks by itself, a little later */
}

static void fail_requests(struct channel *c, int pe, int rc)
{
    for (struct channel_request *request = c->requests, *next; request != NULL; request = next) {
        next = request->next;
        if (request->pe == pe)
            finish_request(c, request, rc);
    }
}

/* Another connection to the PE takes its place, or the PE's requests have failed. */
static void close_link(struct channel *c, struct link *link)
{
    struct channel_target *t = link->pe >= 0 ? &c->targets[link->pe] : NULL;
    for (struct early_request *early = c->early; early != NULL; early = early->next)
        if (early->link == link)
            early->link = NULL;
    remove_link(c, link);
    if (t != NULL && t->dialed == link)
        t->dialed = NULL;
    if (t != NULL && t->up == link) {
        t->up = NULL;
        for (struct link *other = c->links; other != NULL && t->up == NULL; other = other->next)
            if (other->pe == link->pe && !other->gone)
                t->up = other;
        fail_requests(c, link->pe, -ECONNRESET);
    }
    close(link->socket.fd); /* which takes it out of the epoll set */
    link->socket.fd = -1;
    link->next = c->closed;
    c->closed = link;
}

static void free_links(struct link **list)
{
    while (*list != NULL) {
        struct link *link = *list;
        *list = link->next;
        if (link->socket.fd >= 0)
            close(link->socket.fd);
        free(link);
    }
}

/* ---- the ends of connections ---- */

static void report_death(const struct link *link, int rc)
{
    char sentence[512], who[192];
    if (iso_job_has_reason()) {
        iso_job_lose_pe(link->pe);
        return;
    }
    describe_process(link->pe, who);
    if (rc == -EBADMSG || rc == -EPROTO)
        snprintf(sentence, sizeof sentence, "a message from %s (%s) was changed or added on its way", who, link->name);
    else if (rc == -EPIPE || rc == -ECONNRESET)
        snprintf(sentence, sizeof sentence, "%s died: its connection (%s) ended without a good-bye", who, link->name);
    else
        snprintf(sentence, sizeof sentence,
                 "%s is taken for dead: nothing comes over its connection (%s): %s (SHMEM_NODE_TIMEOUT is %.3g s); "
                 "its host or the network to it has failed",
                 who, link->name, strerror(-rc), ISO->env->node_timeout);
    log_error("%s%s", sentence, iso_job_then());
    iso_job_break(link->pe, sentence);
}

/* An attempt to connect is over: the next address follows, or the same ones again after a while. */
static void fail_attempt(struct channel *c, struct link *link, int rc)
{
    struct channel_target *t = &c->targets[link->pe];
    t->error = rc == -EPIPE ? -ECONNRESET : rc;
    t->refused = t->refused && rc == -ECONNREFUSED;
    t->attempt++;
    log_debug("channel: pe %d at %s: %s", link->pe, link->name, strerror(-t->error));
    close_link(c, link);
}

/* By what happened to it: a death ends the job, an attempt is repeated, a stranger is dropped. */
static void end_link(struct channel *c, struct link *link, int rc)
{
    if (link->state == LINK_UP && !link->gone && !c->closing && !iso_is_aborting(ISO))
        report_death(link, rc);
    if (link->state != LINK_UP && !link->socket.accepted) {
        fail_attempt(c, link, rc);
        return;
    }
    if (link->state != LINK_UP && (rc == -EBADMSG || rc == -EPROTO || rc == -EACCES))
        iso_handshake_warn_dropped(link->name, iso_handshake_why(&link->in.handshake, rc));
    close_link(c, link);
}

static uint32_t body_bytes(uint32_t kind)
{
    bool has_body = kind == CHANNEL_REQUEST || kind == CHANNEL_ANSWER || kind == CHANNEL_TEAM_END;
    return has_body ? CHANNEL_BODY_BYTES : kind == CHANNEL_EXIT ? sizeof(struct end_cause) : 0;
}

static int send_frame(struct link *link, enum channel_kind kind, uint32_t number, const void *body)
{
    struct frame frame = {kind, number, body_bytes(kind)};
    return iso_frame_send(&link->socket, &frame, body, NULL, iso_deadline_in(SEND_S));
}

/* To all that are connected, as far as it can be sent: a connection that has ended is noticed when it is read. */
static void send_to_all(struct channel *c, enum channel_kind kind, uint32_t number)
{
    for (struct link *link = c->links; link != NULL; link = link->next)
        if (link->socket.fd >= 0)
            (void)send_frame(link, kind, number, NULL);
}

/* ---- calls to other PEs: their addresses one after the other, again and again until SHMEM_BOOT_TIMEOUT. Two PEs that
 * call each other at once have two connections, which is no harm ---- */

/* Of the accepted connections that are not up: how many, and the one that has been silent for longest, which comes last
 * in the list. NULL: there is none. */
static struct link *oldest_pending(const struct channel *c, int *n)
{
    struct link *oldest = NULL;
    *n = 0;
    for (struct link *link = c->pending; link != NULL; link = link->next) {
        if (!link->socket.accepted)
            continue;
        ++*n;
        if (oldest == NULL || link->in.handshake.phase <= oldest->in.handshake.phase)
            oldest = link;
    }
    return oldest;
}

/* No descriptor is left, and strangers may have them. A PE calls again. False: no connection can be dropped. */
static bool drop_oldest(struct channel *c)
{
    int n;
    struct link *oldest = oldest_pending(c, &n);
    if (oldest == NULL)
        return false;
    iso_handshake_warn_dropped(oldest->name, "no file descriptors are left, and it was silent");
    close_link(c, oldest);
    return true;
}

/* Begins to call the next address of the PE. */
static void dial(struct channel *c, int pe)
{
    struct channel_target *t = &c->targets[pe];
    struct tcp_address address;
    char name[TCP_NAME_BYTES];
    if (!iso_interface_pick(&t->addresses, &c->mine, is_on_my_host(pe), t->attempt, &address)) {
        bool refused = t->attempt > 0 && t->refused;
        t->attempt = 0;
        t->refused = true;
        t->retry = iso_deadline_in(RETRY_S);
        if (refused && iso_job_outlives()) /* a PE listens until its end */
            iso_job_lose_pe(pe);
        return;
    }
    iso_tcp_name(&address, name);
    int fd = iso_tcp_connect_begin(&address);
    struct link *link = fd >= 0 ? add_link(c, fd, pe, name, ATTEMPT_S) : NULL;
    if (link == NULL) {
        t->error = fd < 0 ? fd : -ENOMEM;
        t->refused = t->refused && fd == -ECONNREFUSED;
        t->attempt++;
        if (t->error == -EMFILE || t->error == -ENFILE)
            drop_oldest(c);
        return;
    }
    t->dialed = link;
    int rc = watch_fd(c, fd, EPOLLIN | EPOLLOUT, link);
    if (rc != 0)
        fail_attempt(c, link, rc);
}

/* Its requests have failed, with a sentence. */
static void give_up(struct channel *c, int pe)
{
    struct channel_target *t = &c->targets[pe];
    char who[192], where[256];
    const char *why = t->error == -EBADMSG || t->error == -EPROTO || t->error == -EACCES
                          ? "the process that answers there is not that PE"
                          : strerror(-t->error);
    log_error("pe %d on %s cannot connect to %s at %s within SHMEM_BOOT_TIMEOUT (%.3g s): %s; SHMEM_NETWORK chooses "
              "the interface",
              ISO->my_pe, ISO->peers[ISO->my_pe].host, describe_process(pe, who),
              iso_channel_text(pe, where, sizeof where), ISO->env->boot_timeout, why);
    fail_requests(c, pe, t->error != 0 ? t->error : -ETIMEDOUT);
    t->give_up = 0;
    if (iso_job_outlives())
        iso_job_lose_pe(pe);
}

/* A connection to the PE is wanted, within SHMEM_BOOT_TIMEOUT from now. */
static void want_link(struct channel_target *t)
{
    if (t->give_up == 0 && t->up == NULL)
        t->give_up = iso_deadline_in(ISO->env->boot_timeout);
}

/* The next attempt, if one is due. */
static void try_to_connect(struct channel *c, int pe)
{
    struct channel_target *t = &c->targets[pe];
    if (t->up != NULL || t->give_up == 0 || t->dialed != NULL)
        return;
    int64_t now = iso_deadline_now();
    if (now > t->give_up)
        give_up(c, pe);
    else if (now >= t->retry)
        dial(c, pe);
}

/* ---- the handshake ---- */

static void make_secret(const struct channel *c, int dialer, int acceptor, unsigned char secret[AUTH_BYTES])
{
    iso_auth_code(c->targets[dialer].token, c->targets[acceptor].token, CHANNEL_TOKEN_BYTES, secret);
}

static void connected(struct channel *c, struct link *link)
{
    const struct hello hello = iso_handshake_hello(HANDSHAKE_CHANNEL, (uint32_t)ISO->my_pe, (uint32_t)link->pe);
    unsigned char secret[AUTH_BYTES];
    int fd = link->socket.fd, rc = iso_tcp_connect_end(fd);
    if (rc == 0)
        rc = watch_fd(c, fd, EPOLLIN, link);
    if (rc == 0) {
        make_secret(c, ISO->my_pe, link->pe, secret);
        link->state = LINK_HANDSHAKE;
        rc = iso_handshake_dial(&link->in.handshake, &link->socket, fd, secret, &hello);
    }
    if (rc != 0)
        fail_attempt(c, link, rc);
}

static void become_up(struct channel *c, struct link *link)
{
    struct channel_target *t = &c->targets[link->pe];
    remove_link(c, link);
    link->state = LINK_UP;
    link->next = c->links;
    c->links = link;
    if (t->dialed == link)
        t->dialed = NULL;
    if (t->up == NULL)
        t->up = link;
    t->give_up = 0;
    t->attempt = 0;
    if (c->closing)
        (void)send_frame(link, CHANNEL_GOODBYE, 0, NULL); /* too late for that of iso_channel_bye */
    if (iso_job_outlives()) /* too late for that of iso_channel_tell_exit */
        (void)send_frame(link, CHANNEL_EXIT, 0, &ISO->broken.cause);
    for (int pe = 0; c->n_told > 0 && pe < ISO->n_pes; pe++)
        if (c->targets[pe].gone)
            (void)send_frame(link, CHANNEL_GONE, (uint32_t)pe, NULL);
    log_debug("channel: connected with pe %d (%s)", link->pe, link->name);
}

/* 1: a part of the handshake came; 0: nothing yet; -errno. */
static int shake_channel_hands(struct channel *c, struct link *link)
{
    unsigned char secret[AUTH_BYTES];
    int rc = iso_handshake_receive(&link->in.handshake, &link->socket);
    if (rc <= 0)
        return rc;
    if (rc == HANDSHAKE_HELLO) {
        struct hello hello = iso_handshake_said(&link->in.handshake); /* of a PE of another node, to this one */
        if (hello.service != HANDSHAKE_CHANNEL || !iso_handshake_is_current(&hello) ||
            hello.detail != (uint32_t)ISO->my_pe || hello.pe >= (uint32_t)ISO->n_pes || ISO->peers[hello.pe].local)
            return -EBADMSG;
        link->pe = (int)hello.pe;
        make_secret(c, link->pe, ISO->my_pe, secret);
        rc = iso_handshake_answer(&link->in.handshake, &link->socket, secret);
    } else if (link->socket.accepted) {
        rc = send_frame(link, CHANNEL_WELCOME, 0, NULL);
        if (rc == 0)
            become_up(c, link);
    } else {
        /* The other end has proved itself, and soon believes in us, so that giving up would be our death to it: it is
         * waited for as long as the connection is wanted. */
        link->state = LINK_AWAITS_WELCOME;
        link->deadline = c->targets[link->pe].give_up != 0 ? c->targets[link->pe].give_up : DEADLINE_NEVER;
        rc = 0;
    }
    return rc == 0 ? 1 : rc;
}

/* ---- requests ---- */

static void answer_request(struct channel *c, struct link *link, uint32_t number, const void *body)
{
    unsigned char answer[CHANNEL_BODY_BYTES] = {0};
    c->handler(link->pe, body, answer);
    int rc = link->socket.fd >= 0 ? send_frame(link, CHANNEL_ANSWER, number, answer) : 0;
    if (rc != 0)
        end_link(c, link, rc);
}

/* Those that are not sent yet, to all that are connected. */
static void send_requests(struct channel *c)
{
    for (struct channel_request *request = c->requests, *next; request != NULL; request = next) {
        struct channel_target *t = &c->targets[request->pe];
        next = request->next;
        if (request->sent)
            continue;
        if (t->up == NULL) {
            bool wanted = t->give_up != 0;
            try_to_connect(c, request->pe);
            if (wanted && t->give_up == 0)
                return; /* given up, and with it requests of this list */
            continue;
        }
        request->sent = true;
        enum channel_kind kind = request->answer != NULL ? CHANNEL_REQUEST : CHANNEL_TEAM_END;
        int rc = send_frame(t->up, kind, request->number, request->body);
        if (rc != 0) {
            end_link(c, t->up, rc);
            return; /* the list may be another one now */
        }
        if (kind == CHANNEL_TEAM_END)
            finish_request(c, request, 0);
    }
}

/* ---- frames ---- */

static void take_frame(struct channel *c, struct link *link, const struct frame *frame)
{
    struct early_request *early, **end = &c->early;
    if (link->state == LINK_AWAITS_WELCOME) {
        if (frame->kind == CHANNEL_WELCOME)
            become_up(c, link);
        else
            end_link(c, link, -EBADMSG);
        return;
    }
    switch (frame->kind) {
    case CHANNEL_REQUEST:
        if (c->handler != NULL) {
            answer_request(c, link, frame->number, link->in.body);
            return;
        }
        /* The request stays until there is a handler. Without memory for it the other end would wait for ever. */
        early = (struct early_request *)calloc(1, sizeof *early);
        if (early == NULL)
            iso_fatal("the set-up of a connection", "no memory for a request of pe %d", link->pe);
        early->link = link;
        early->number = frame->number;
        memcpy(early->body, link->in.body, sizeof early->body);
        while (*end != NULL)
            end = &(*end)->next;
        *end = early;
        return;
    case CHANNEL_ANSWER:
        for (struct channel_request *request = c->requests; request != NULL; request = request->next)
            if (request->sent && request->number == frame->number && request->pe == link->pe) {
                memcpy(request->answer, link->in.body, CHANNEL_BODY_BYTES);
                finish_request(c, request, 0);
                return;
            }
        return;
    case CHANNEL_GOODBYE:
        link->gone = true;
        return;
    case CHANNEL_LEFT:
        iso_peer_leaves(link->pe, frame->number);
        return;
    case CHANNEL_TEAM_END:
        ISO->above.hear_team_end((int)frame->number, link->in.body);
        return;
    case CHANNEL_EXIT:
        link->gone = !iso_job_masks(); /* else the end of the connection is news, where this returns */
        link->in.cause.why[sizeof link->in.cause.why - 1] = '\0';
        iso_job_hear(&link->in.cause);
        return;
    case CHANNEL_GONE:
        if (frame->number >= (uint32_t)ISO->n_pes)
            end_link(c, link, -EBADMSG);
        else
            iso_job_lose_pe((int)frame->number);
        return;
    default:
        end_link(c, link, -EBADMSG);
    }
}

/* 1: a frame came; 0: nothing yet; -errno. */
static int read_frame(struct channel *c, struct link *link)
{
    struct frame frame;
    int rc = iso_frame_head(&link->socket, &frame);
    if (rc != 1)
        return rc;
    if (frame.len != body_bytes(frame.kind))
        return -EBADMSG;
    rc = iso_frame_rest(&link->socket, link->in.body);
    if (rc == 1)
        take_frame(c, link, &frame);
    return rc;
}

/* ---- progress ---- */

/* The program has all descriptors: connections wait in the kernel for a while. During the start no PE can do without. */
static void rest_listener(struct channel *c)
{
    static const char *const why = "no file descriptors are left for connections of other nodes; raise ulimit -n";
    if (!c->complete)
        iso_fatal("the set-up of a connection", "pe %d: %s", ISO->my_pe, why);
    if (!c->has_rested)
        log_warn("%s; until then they wait", why);
    c->has_rested = true;
    epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->listener, NULL);
    c->listen_again = iso_deadline_in(REST_S);
}

/* Not more than ACCEPTS, so that connections that are up are read too. A PE says at once who it is, so where more are
 * silent than there may be, the oldest goes: strangers do not take the program's descriptors. */
static void accept_all(struct channel *c)
{
    char name[TCP_NAME_BYTES];
    int n, most = ISO->n_nodes + STRANGERS;
    for (int i = 0; i < ACCEPTS; i++) {
        struct link *oldest = oldest_pending(c, &n);
        if (n >= most && oldest->deadline - iso_deadline_in(HANDSHAKE_S - SILENT_S) > 0)
            return; /* it may be a PE whose hello is on its way; the next look is soon */
        if (n >= most) {
            iso_handshake_warn_dropped(oldest->name, "it was silent and others are waiting");
            close_link(c, oldest);
        }
        int fd = iso_tcp_accept(c->listener, name);
        if (fd == -EMFILE || fd == -ENFILE) {
            if (drop_oldest(c))
                continue;
            rest_listener(c);
            return;
        }
        if (fd < 0)
            return;
        struct link *link = add_link(c, fd, -1, name, HANDSHAKE_S);
        if (link == NULL)
            continue;
        link->state = LINK_HANDSHAKE;
        iso_handshake_accept(&link->in.handshake, &link->socket, fd);
        if (watch_fd(c, fd, EPOLLIN, link) != 0)
            close_link(c, link);
    }
}

/* The PE that this one calls in the ring of iso_channel_start, without those that are gone; -1: none. */
static int next_in_ring(void)
{
    const struct state *self = ISO;
    int node = iso_pe_my_node(), n = self->n_nodes, next = -1, nearest = n;
    for (int i = 0; i < self->my_local; i++)
        if (!iso_peer_is_gone(self->local_pes[i]))
            return -1;
    for (int pe = 0; pe < self->n_pes; pe++) {
        int distance = (self->peers[pe].node_number - node + n) % n;
        if (distance == 0 || distance >= nearest || iso_peer_is_gone(pe))
            continue;
        nearest = distance;
        next = pe;
    }
    return next;
}

static void send_exit(struct channel *c, const struct end_cause *cause)
{
    for (struct link *link = c->links; link != NULL; link = link->next)
        if (!link->gone && link->socket.fd >= 0)
            (void)send_frame(link, CHANNEL_EXIT, 0, cause);
}

/* In a broken job: all that are connected hear which PEs are gone, and the ring goes on without them. */
static void tell_gone(struct channel *c)
{
    int n_gone = __atomic_load_n(&ISO->n_gone, __ATOMIC_ACQUIRE); /* pairs with drop_pe in pe.c */
    if (c->n_told < n_gone)
        c->next_in_ring = next_in_ring();
    for (int pe = 0; c->n_told < n_gone && pe < ISO->n_pes; pe++) {
        if (c->targets[pe].gone || !iso_peer_is_gone(pe))
            continue;
        c->targets[pe].gone = true;
        if (c->n_told++ == 0)
            send_exit(c, &ISO->broken.cause); /* iso_channel_tell_exit may have found the lock taken */
        send_to_all(c, CHANNEL_GONE, (uint32_t)pe);
    }
    if (c->n_told == 0 || c->next_in_ring < 0 || !iso_job_outlives() || iso_peer_is_gone(c->next_in_ring))
        return;
    want_link(&c->targets[c->next_in_ring]);
    try_to_connect(c, c->next_in_ring);
}

/* All there is to do now. Nothing blocks. */
static void make_progress(struct channel *c)
{
    struct epoll_event events[EVENTS];
    if (c->inside || !c->started)
        return;
    c->inside = true;
    int n = epoll_wait(c->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct link *link = (struct link *)events[i].data.ptr;
        if (events[i].data.ptr == &c->listener)
            accept_all(c);
        else if (link->socket.fd >= 0 && link->state == LINK_CONNECTING)
            connected(c, link);
        else
            for (int rc = 1; rc > 0 && link->socket.fd >= 0;) {
                rc = link->state == LINK_HANDSHAKE ? shake_channel_hands(c, link) : read_frame(c, link);
                if (rc < 0 && link->socket.fd >= 0)
                    end_link(c, link, rc);
            }
    }
    int64_t now = c->pending != NULL || c->listen_again != 0 ? iso_deadline_now() : 0;
    if (c->listen_again != 0 && now > c->listen_again && watch_fd(c, c->listener, EPOLLIN, &c->listener) == 0)
        c->listen_again = 0;
    for (struct link *link = c->pending, *next; link != NULL; link = next) {
        next = link->next;
        if (now > link->deadline) /* a silent stranger, or a host that does not answer a call */
            end_link(c, link, -ETIMEDOUT);
    }
    send_requests(c);
    tell_gone(c);
    free_links(&c->closed);
    c->inside = false;
}

void iso_channel_progress(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL || iso_is_aborting(ISO) || pthread_mutex_trylock(&c->lock) != 0)
        return;
    make_progress(c);
    pthread_mutex_unlock(&c->lock);
}

int iso_channel_fd(void) { return ISO->channel != NULL ? ISO->channel->epoll : -1; }

void iso_channel_set_handler(channel_handler *handler)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->handler = handler;
    while (handler != NULL && c->early != NULL) {
        struct early_request *early = c->early;
        c->early = early->next;
        if (early->link != NULL)
            answer_request(c, early->link, early->number, early->body);
        free(early);
    }
    free_links(&c->closed);
    pthread_mutex_unlock(&c->lock);
}

/* ---- waits: these functions take the lock by themselves ---- */

/* One round of a wait: until a connection, or `event` (-1: none), has something, or some milliseconds. */
static void wait_once(struct channel *c, int event, const struct wait *wait)
{
    struct pollfd fds[] = {{c->epoll, POLLIN, 0}, {event, POLLIN, 0}};
    poll(fds, event >= 0 ? 2 : 1, PROGRESS_MS);
    iso_channel_progress();
    iso_node_watch(wait);
}

int iso_channel_ask(int pe, const void *request_body, void *answer)
{
    struct channel *c = ISO->channel;
    if (c == NULL || !c->started || ISO->peers[pe].local)
        iso_fatal("the set-up of a connection", "pe %d is on the node of this PE: there is no channel to it", pe);
    struct channel_request request = {.pe = pe, .body = request_body, .answer = answer};
    struct wait wait = ISO_WAIT("the set-up of a connection", pe, NULL, 0);
    uint64_t since = iso_clock_now_ns();
    bool reported = false, done = false;
    char who[192];
    request.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_lock(&c->lock);
    request.number = c->next_number++;
    request.next = c->requests;
    c->requests = &request;
    want_link(&c->targets[pe]);
    pthread_mutex_unlock(&c->lock);
    for (;;) {
        pthread_mutex_lock(&c->lock);
        make_progress(c);
        done = request.done;
        pthread_mutex_unlock(&c->lock);
        if (done || iso_peer_is_lost(pe))
            break;
        wait_once(c, request.event, &wait);
        double waited = (double)(iso_clock_now_ns() - since) / 1e9;
        if (reported || ISO->env->timeout <= 0 || waited < ISO->env->timeout)
            continue;
        reported = true; /* it is said once, as of every wait past SHMEM_TIMEOUT */
        log_error("the set-up of a connection: %s has not answered for %.1f s, longer than SHMEM_TIMEOUT",
                  describe_process(pe, who), waited);
        if (ISO->env->timeout_abort)
            iso_abort_job(1, "a wait lasted longer than SHMEM_TIMEOUT and SHMEM_TIMEOUT_ABORT is set");
    }
    if (!done) {
        pthread_mutex_lock(&c->lock); /* no answer to it is awaited any more */
        struct channel_request **at = &c->requests;
        while (*at != NULL && *at != &request)
            at = &(*at)->next;
        if (*at != NULL)
            *at = request.next;
        pthread_mutex_unlock(&c->lock);
        request.rc = -EIO;
    }
    if (request.event >= 0)
        close(request.event);
    return request.rc;
}

void iso_channel_tell_team_end(int pe, int slot, const void *end)
{
    struct channel *c = ISO->channel;
    struct channel_request *request = (struct channel_request *)calloc(1, sizeof *request + CHANNEL_BODY_BYTES);
    if (request == NULL) { /* the other end would wait for ever */
        (void)iso_refuse_alone("shmemx_team_break", "no memory for a message to pe %d", pe);
        return;
    }
    memcpy(request + 1, end, CHANNEL_BODY_BYTES);
    request->pe = pe;
    request->number = (uint32_t)slot;
    request->body = request + 1;
    pthread_mutex_lock(&c->lock);
    request->next = c->requests;
    c->requests = request;
    want_link(&c->targets[pe]);
    make_progress(c);
    pthread_mutex_unlock(&c->lock);
}

/* ---- start ---- */

/* IPv6 only where this host has nothing else, or where that was asked for. On all interfaces, unless SHMEM_NETWORK names
 * one. */
static int start_listening(struct channel *c)
{
    struct tcp_address any;
    const char *why;
    memset(&any, 0, sizeof any);
    int rc = iso_boot_addresses(ISO->boot, ISO->env->network, &c->mine, &why);
    if (rc != 0) {
        log_error("shmem_init: SHMEM_NETWORK is \"%.64s\": %s", ISO->env->network, why);
        return rc;
    }
    any.ipv6 = c->mine.n_ip4 == 0;
    if (!any.ipv6)
        c->mine.n_ip6 = 0;
    if (ISO->env->network[0] != '\0') { /* it has one socket, so others are told one address */
        memcpy(any.bytes, any.ipv6 ? c->mine.ip6[0] : c->mine.ip4[0], any.ipv6 ? 16 : 4);
        c->mine.n_ip4 = !any.ipv6;
        c->mine.n_ip6 = any.ipv6;
    }
    c->listener = iso_tcp_listen(&any);
    if (c->listener < 0) {
        log_error("shmem_init: no port for connections of other nodes: %s", strerror(-c->listener));
        return c->listener;
    }
    c->mine.port = any.port;
    return watch_fd(c, c->listener, EPOLLIN, &c->listener);
}

int iso_channel_open(struct host_addresses *mine)
{
    struct channel *c = (struct channel *)calloc(1, sizeof *c);
    pthread_mutexattr_t attributes;
    if (c == NULL)
        return -ENOMEM;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    ISO->channel = c;
    iso_tcp_raise_files(); /* a connection to each PE of a large job */
    c->listener = -1;
    c->targets = (struct channel_target *)calloc((size_t)ISO->n_pes, sizeof *c->targets);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = c->targets != NULL && c->epoll >= 0 ? start_listening(c) : -ENOMEM;
    if (rc == 0)
        *mine = c->mine;
    else
        iso_channel_close();
    return rc;
}

void iso_channel_know(int pe, const struct host_addresses *addresses, const unsigned char token[CHANNEL_TOKEN_BYTES])
{
    struct channel_target *t = &ISO->channel->targets[pe];
    t->addresses = *addresses;
    memcpy(t->token, token, CHANNEL_TOKEN_BYTES);
}

/* The lowest PEs of the nodes are a ring: two other nodes notice when a node dies. */
int iso_channel_start(void)
{
    const struct state *self = ISO;
    struct channel *c = self->channel;
    int node = iso_pe_my_node(), n = self->n_nodes, rc = 0;
    int before = self->node_first[(node + n - 1) % n]; /* calls this PE */
    struct channel_target *next = &c->targets[self->node_first[(node + 1) % n]];
    bool in_ring = self->node_first[node] == self->my_pe;
    bool calls = in_ring && (n > 2 || node == 0); /* this PE calls `next`; with two nodes one call does */
    struct wait wait = ISO_WAIT("shmem_init", before, NULL, 0);
    int64_t deadline = iso_deadline_in(self->env->boot_timeout);
    char who[192];
    pthread_mutex_lock(&c->lock);
    c->started = true;
    if (calls)
        want_link(next);
    pthread_mutex_unlock(&c->lock);
    while (in_ring) {
        pthread_mutex_lock(&c->lock);
        make_progress(c);
        if (calls)
            try_to_connect(c, (int)(next - c->targets));
        bool complete = next->up != NULL && c->targets[before].up != NULL;
        if (calls && next->up == NULL && next->give_up == 0) /* try_to_connect has said why */
            rc = next->error != 0 ? next->error : -ETIMEDOUT;
        pthread_mutex_unlock(&c->lock);
        if (complete || rc != 0) {
            c->complete = rc == 0;
            return rc;
        }
        if (iso_deadline_now() > deadline && (!calls || next->up != NULL)) {
            log_error("shmem_init: %s has not connected to pe %d on %s within SHMEM_BOOT_TIMEOUT (%.3g s)",
                      describe_process(before, who), self->my_pe, self->peers[self->my_pe].host,
                      self->env->boot_timeout);
            return -ETIMEDOUT;
        }
        wait_once(c, -1, &wait);
    }
    c->complete = true;
    return 0;
}

/* ---- the end ---- */

static bool all_gone(const struct channel *c)
{
    for (const struct link *link = c->links; link != NULL; link = link->next)
        if (!link->gone)
            return false;
    for (const struct link *link = c->pending; link != NULL; link = link->next)
        if (link->state == LINK_AWAITS_WELCOME) /* up at the other end, which would take our end for a death */
            return false;
    return true;
}

void iso_channel_tell_left(uint32_t left_at)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    send_to_all(c, CHANNEL_LEFT, left_at);
    pthread_mutex_unlock(&c->lock);
}

/* Waits for the others' good-byes: what they had under way to this PE has arrived then, and a connection that is closed
 * with unread frames would take ours away with it. */
void iso_channel_bye(void)
{
    struct channel *c = ISO->channel;
    struct wait wait = ISO_WAIT("shmem_finalize", -1, NULL, 0);
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    send_to_all(c, CHANNEL_GOODBYE, 0);
    int64_t deadline = iso_deadline_in(GOODBYE_S);
    while (!all_gone(c) && iso_deadline_now() < deadline) {
        make_progress(c);
        if (all_gone(c))
            break;
        pthread_mutex_unlock(&c->lock);
        wait_once(c, -1, &wait);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void iso_channel_close(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    ISO->channel = NULL;
    free_links(&c->links);
    free_links(&c->pending);
    free_links(&c->closed);
    while (c->requests != NULL)
        finish_request(c, c->requests, -ECONNRESET);
    while (c->early != NULL) {
        struct early_request *next = c->early->next;
        free(c->early);
        c->early = next;
    }
    if (c->listener >= 0)
        close(c->listener);
    if (c->epoll >= 0)
        close(c->epoll);
    free(c->targets);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Another thread may be inside, and this one may be, in the middle of anything: what cannot be said now is not said,
 * and the others find the connection closed. */
void iso_channel_tell_exit(const struct end_cause *cause)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    for (int tries = 0; pthread_mutex_trylock(&c->lock) != 0; tries++) {
        if (tries == 20)
            return;
        usleep(1000);
    }
    send_exit(c, cause);
    pthread_mutex_unlock(&c->lock);
}

/* In a forked child: the parent's death must be seen. */
void iso_channel_after_fork(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    for (const struct link *link = c->links; link != NULL; link = link->next)
        close(link->socket.fd);
    for (const struct link *link = c->pending; link != NULL; link = link->next)
        close(link->socket.fd);
    close(c->listener);
    close(c->epoll);
    ISO->channel = NULL; /* its memory stays: another thread may have been inside at the fork */
}
