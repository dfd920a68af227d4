/* SPDX-License-Identifier: MIT */
/* The channel of this PE: its life, what is accepted, heard and believed. Everything happens in `iso_channel_step`,
 * under one lock, by whatever thread comes by; nothing in it blocks but the sending of messages that fit the sockets'
 * buffers. Silence is found by the kernel (keepalive and user timeout of TCP), an end by the end of the stream. */
#include "channel_state.h"

#include "../../bootstrap/net/wire.h"
#include "interface.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PART_S 10.0 /* the longest wait for good-byes */
#define EVENTS 64
#define ACCEPTS 256
#define REST_MS 20 /* what is not awaited by a descriptor: attempts to repeat, deaths on this node */

/* ---- sentences ---- */

void iso_channel_describe(int pe, char *text, size_t bytes)
{
    const struct peer *peer = &ISO->peers[pe];
    if (strcmp(peer->node, peer->host) == 0)
        snprintf(text, bytes, "pe %d on %s", pe, peer->host);
    else
        snprintf(text, bytes, "pe %d on %s (node %s)", pe, peer->host, peer->node);
}

/* "10.0.0.1:4711, [fd00::1]:4711" */
static void list_addresses(int pe, char *text, size_t bytes)
{
    const struct channel *c = ISO->channel;
    const struct target *t = &c->targets[pe];
    bool same_host = strcmp(ISO->peers[pe].host, ISO->peers[ISO->my_pe].host) == 0;
    struct sockaddr_storage address;
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; iso_interface_pick(&t->address, &c->mine, same_host, i, &address) && n + 2 < bytes; i++) {
        if (i > 0)
            n += (size_t)snprintf(text + n, bytes - n, ", ");
        iso_interface_name(&address, text + n, bytes - n);
        n += strlen(text + n);
    }
}

const char *iso_channel_text(int pe, char *text, size_t bytes)
{
    struct channel *c = ISO->channel;
    snprintf(text, bytes, "none");
    if (c != NULL && c->started)
        list_addresses(pe, text, bytes);
    return text;
}

/* ---- messages ---- */

static void take_message(struct channel *c, struct link *link)
{
    switch (link->in.kind) {
    case LINK_REQUEST:
        iso_channel_ask_answer(c, link);
        return;
    case LINK_ANSWER:
        iso_channel_ask_take(c, link);
        return;
    case LINK_BYE:
        link->gone = true;
        return;
    case LINK_LEFT:
        iso_pe_take_left(link->pe, link->in.id);
        return;
    case LINK_EXIT:
        iso_exit_quietly(link->in.value);
    default:
        iso_channel_end(c, link, -EBADMSG);
    }
}

/* ---- the handshake ---- */

static struct link_tokens tokens_of(const struct channel *c, const struct link *link)
{
    const unsigned char *mine = c->targets[ISO->my_pe].token, *theirs = c->targets[link->pe].token;
    struct link_tokens tokens = {link->dialer ? mine : theirs, link->dialer ? theirs : mine};
    return tokens;
}

static void become_up(struct channel *c, struct link *link)
{
    struct target *t = &c->targets[link->pe];
    iso_channel_remove(c, link);
    link->state = LINK_UP;
    link->next = c->links;
    c->links = link;
    if (t->dialed == link)
        t->dialed = NULL;
    if (t->up == NULL)
        t->up = link;
    t->give_up_ns = 0;
    t->attempt = 0;
    if (c->parting)
        (void)iso_link_send(link, LINK_BYE, 0, 0, NULL); /* too late for that of iso_channel_bye */
    log_debug("channel: connected with pe %d (%s)", link->pe, link->name);
}

/* The other end's number must be that of a PE of another node, and ours the one that it means. */
static int take_hello(struct channel *c, struct link *link)
{
    int pe = link->in.value;
    if (link->in.kind != LINK_HELLO || link->in.id != (uint32_t)ISO->my_pe || pe < 0 || pe >= ISO->n_pes ||
        ISO->peers[pe].local)
        return -EBADMSG;
    link->pe = pe;
    return iso_link_challenge(link, tokens_of(c, link));
}

/* From here on the other end believes in us, so that giving up would be our death to it; it is alive, and has proven
 * who it is: it is waited for as long as somebody wants it. */
static int prove(const struct channel *c, struct link *link)
{
    uint64_t give_up_ns = c->targets[link->pe].give_up_ns;
    link->deadline_ns = give_up_ns != 0 ? give_up_ns : UINT64_MAX;
    return iso_link_prove(link, tokens_of(c, link));
}

static int shake_hands(struct channel *c, struct link *link)
{
    int rc;
    switch (link->state) {
    case LINK_AWAITS_HELLO:
        return take_hello(c, link);
    case LINK_AWAITS_CHALLENGE:
        return prove(c, link);
    case LINK_AWAITS_PROOF:
        rc = iso_link_welcome(link, tokens_of(c, link));
        break;
    default:
        rc = link->in.kind == LINK_WELCOME ? 0 : -EBADMSG;
    }
    if (rc == 0)
        become_up(c, link);
    return rc;
}

static void read_link(struct channel *c, struct link *link)
{
    int rc;
    while (link->fd >= 0 && (rc = iso_link_receive(link)) != 0) {
        if (rc == 1 && link->state != LINK_UP)
            rc = shake_hands(c, link);
        else if (rc == 1)
            take_message(c, link);
        if (rc < 0 && link->fd >= 0)
            iso_channel_end(c, link, rc);
    }
}

/* ---- new connections ---- */

void iso_channel_watch_silence(int fd)
{
    double seconds = ISO->env.node_timeout;
    int on = 1, idle = (int)(seconds * 0.4), interval = (int)(seconds * 0.2), probes = 3;
    unsigned limit = (unsigned)(seconds * 1000);
    if (seconds <= 0 || seconds > 30000)
        return;
    idle = ISO_MAX(idle, 1);
    interval = ISO_MAX(interval, 1);
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit) != 0)
        log_warn("a silent node may go unnoticed: keepalive of TCP cannot be set: %m");
}

int iso_channel_watch(struct channel *c, int fd, uint32_t events, void *what)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events;
    event.data.ptr = what;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return errno == EEXIST && epoll_ctl(c->epoll, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

void iso_channel_add(struct channel *c, struct link *link)
{
    link->next = c->young;
    c->young = link;
}

static bool take_out(struct link **at, const struct link *link)
{
    while (*at != NULL && *at != link)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = link->next;
    return true;
}

void iso_channel_remove(struct channel *c, const struct link *link)
{
    if (!take_out(&c->young, link))
        take_out(&c->links, link);
}

bool iso_channel_make_room(struct channel *c)
{
    struct link *oldest = NULL;
    for (struct link *link = c->young; link != NULL; link = link->next)
        if (!link->dialer && (oldest == NULL || link->state <= oldest->state))
            oldest = link;
    if (oldest == NULL)
        return false;
    log_debug("channel: dropped a connection from %s, no file descriptors are left", oldest->name);
    iso_channel_end_now(c, oldest);
    return true;
}

static void take_in(struct channel *c, int fd, const char *name)
{
    iso_channel_watch_silence(fd);
    struct link *link = iso_link_new(fd, false, -1, name);
    if (link == NULL)
        return;
    iso_channel_add(c, link);
    if (iso_channel_watch(c, fd, EPOLLIN, link) != 0)
        iso_channel_end_now(c, link);
}

/* At most so many that others get their turn. */
static void accept_all(struct channel *c, int listener)
{
    char name[WIRE_NAME_BYTES];
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = iso_wire_accept(listener, name);
        if (fd >= 0)
            take_in(c, fd, name);
        else if (fd != -EMFILE && fd != -ENFILE)
            return;
        else if (!iso_channel_make_room(c))
            iso_fatal("the set-up of a connection",
                      "pe %d has no file descriptors left for connections of other nodes; raise ulimit -n", ISO->my_pe);
    }
}

/* ---- progress ---- */

/* Strangers that say nothing, and hosts that do not answer a call. */
static void expire(struct channel *c, uint64_t now)
{
    for (struct link *link = c->young, *next; link != NULL; link = next) {
        next = link->next;
        if (now > link->deadline_ns)
            iso_channel_end(c, link, -ETIMEDOUT);
    }
}

static void take_event(struct channel *c, const struct epoll_event *event)
{
    struct link *link = (struct link *)event->data.ptr;
    if (event->data.ptr == &c->listener)
        accept_all(c, c->listener);
    else if (link->fd >= 0 && link->state == LINK_CONNECTING)
        iso_channel_call_connected(c, link);
    else if (link->fd >= 0)
        read_link(c, link);
}

void iso_channel_step(struct channel *c)
{
    struct epoll_event events[EVENTS];
    if (c->inside || !c->started)
        return;
    c->inside = true;
    int n = epoll_wait(c->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        take_event(c, &events[i]);
    uint64_t now = c->asks != NULL || c->young != NULL ? iso_wait_now_ns() : 0;
    expire(c, now);
    iso_channel_ask_send(c, now);
    iso_channel_end_bury(c);
    c->inside = false;
}

void iso_channel_progress(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL || ISO->aborting || pthread_mutex_trylock(&c->lock) != 0)
        return;
    iso_channel_step(c);
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
    if (handler != NULL)
        iso_channel_ask_answer_parked(c);
    iso_channel_end_bury(c);
    pthread_mutex_unlock(&c->lock);
}

void iso_channel_rest(struct channel *c, int event, const struct wait *wait)
{
    struct pollfd fds[] = {{c->epoll, POLLIN, 0}, {event, POLLIN, 0}};
    poll(fds, event >= 0 ? 2 : 1, REST_MS);
    iso_pe_poll(wait);
}

/* ---- start ---- */

/* IPv6 only where this host has nothing else, or where that was asked for. */
static int listen_on(struct channel *c)
{
    struct uid any = {.port = 0};
    any.ipv6 = c->mine.n_ip4 == 0;
    if (!any.ipv6)
        c->mine.n_ip6 = 0;
    snprintf(any.address, sizeof any.address, "%s", any.ipv6 ? "::" : "0.0.0.0");
    c->listener = iso_wire_listen(&any);
    if (c->listener < 0) {
        errno = -c->listener;
        log_error("shmem_init: no port for connections of other nodes: %m");
        return c->listener;
    }
    c->mine.port = any.port;
    return iso_channel_watch(c, c->listener, EPOLLIN, &c->listener);
}

int iso_channel_open(struct channel_address *mine)
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
    iso_wire_raise_files(); /* a connection to each PE of a large job */
    c->listener = -1;
    c->targets = (struct target *)calloc((size_t)ISO->n_pes, sizeof *c->targets);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = c->targets != NULL && c->epoll >= 0 ? iso_interface_find(&c->mine, ISO->env.network) : -ENOMEM;
    if (rc == 0)
        rc = listen_on(c);
    if (rc == 0)
        *mine = c->mine;
    else
        iso_channel_close();
    return rc;
}

void iso_channel_know(int pe, const struct channel_address *address, const unsigned char token[CHANNEL_TOKEN_BYTES])
{
    struct target *t = &ISO->channel->targets[pe];
    t->address = *address;
    memcpy(t->token, token, CHANNEL_TOKEN_BYTES);
}

int iso_channel_start(void)
{
    struct channel *c = ISO->channel;
    pthread_mutex_lock(&c->lock);
    c->started = true;
    pthread_mutex_unlock(&c->lock);
    return iso_channel_ring_close(c);
}

/* ---- the end ---- */

static bool all_gone(const struct channel *c)
{
    for (const struct link *link = c->links; link != NULL; link = link->next)
        if (!link->gone)
            return false;
    for (const struct link *link = c->young; link != NULL; link = link->next)
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
    for (struct link *link = c->links; link != NULL; link = link->next)
        (void)iso_link_send(link, LINK_LEFT, left_at, 0, NULL);
    pthread_mutex_unlock(&c->lock);
}

/* Waits for the others' good-byes: what they had under way to this PE has arrived then, and a connection that is closed
 * with unread messages would take ours away with it. */
void iso_channel_bye(void)
{
    struct channel *c = ISO->channel;
    struct wait wait = ISO_WAIT("shmem_finalize", -1, NULL, 0);
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->parting = true;
    for (struct link *link = c->links; link != NULL; link = link->next)
        (void)iso_link_send(link, LINK_BYE, 0, 0, NULL); /* one that is gone needs none */
    int64_t deadline = iso_wire_deadline(PART_S);
    while (!all_gone(c) && iso_wire_now() < deadline) {
        iso_channel_step(c);
        if (all_gone(c))
            break;
        pthread_mutex_unlock(&c->lock);
        iso_channel_rest(c, -1, &wait);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

static void free_all(struct link *link)
{
    while (link != NULL) {
        struct link *next = link->next;
        iso_link_free(link);
        link = next;
    }
}

void iso_channel_close(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    ISO->channel = NULL;
    free_all(c->links);
    free_all(c->young);
    free_all(c->dead);
    iso_channel_ask_free(c);
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
void iso_channel_tell_exit(int status)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    for (int tries = 0; pthread_mutex_trylock(&c->lock) != 0; tries++) {
        if (tries == 20)
            return;
        usleep(1000);
    }
    for (struct link *link = c->links; link != NULL; link = link->next)
        if (!link->gone && link->fd >= 0)
            (void)iso_link_send(link, LINK_EXIT, 0, status, NULL);
    pthread_mutex_unlock(&c->lock);
}

static void close_all(const struct link *link)
{
    for (; link != NULL; link = link->next)
        close(link->fd);
}

/* In a forked child: the parent's death must be seen. */
void iso_channel_after_fork(void)
{
    struct channel *c = ISO->channel;
    if (c == NULL)
        return;
    close_all(c->links);
    close_all(c->young);
    close(c->listener);
    close(c->epoll);
    ISO->channel = NULL; /* its memory stays: another thread may have been inside at the fork */
}
