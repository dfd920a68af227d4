/* SPDX-License-Identifier: MIT */
/* The connections of this PE to PEs of other nodes: who is connected, who is being called, who waits for an answer.
 * Everything happens in `step`, under one lock, by whatever thread comes by; nothing in it blocks but the sending of
 * messages that fit the sockets' buffers. Two PEs that call each other at once have two connections, which is no harm.
 * Silence is found by the kernel (keepalive and user timeout of TCP), an end by the end of the stream. */
#include "channel.h"

#include "../../bootstrap/wire.h"
#include "interface.h"
#include "link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define RETRY_NS 50000000u
#define ATTEMPT_NS 3000000000u /* for one address */
#define PART_S 10.0            /* the longest wait for good-byes */
#define EVENTS 64
#define REST_MS 20 /* what is not awaited by a descriptor: attempts to repeat, deaths on this node */

/* Another PE, as this one reaches it. */
struct target {
    struct channel_address address;
    unsigned char token[CHANNEL_TOKEN_BYTES];
    struct link *up;     /* NULL: not connected */
    struct link *dialed; /* under way; becomes `up` */
    int attempt;         /* the address to try next */
    int error;           /* of the last attempt */
    uint64_t give_up_ns; /* 0: nobody wants it */
    uint64_t retry_ns;
};

struct ask {
    struct ask *next;
    int pe;
    uint32_t id;
    bool sent, done;
    int rc;
    const void *request;
    void *answer;
    int event; /* an eventfd: `done` was set, perhaps by another thread */
};

/* A request that came before there was a handler. */
struct parked {
    struct parked *next;
    struct link *link;
    uint32_t id;
    unsigned char body[CHANNEL_BODY_BYTES];
};

struct channel {
    pthread_mutex_t lock; /* recursive: the end of the job may begin under it */
    bool inside;          /* guards against a handler that calls back */
    bool parting;         /* the end of a connection is no death any more */
    int epoll, listener;
    struct channel_address mine;
    bool started;           /* all of `targets` is known */
    struct target *targets; /* [n_pes] */
    struct link *links;
    struct link *dead; /* freed at the end of a step: somebody may still look at them */
    struct ask *asks;  /* not done yet */
    struct parked *parked;
    uint32_t next_id;
    channel_handler *handler;
};

static struct channel *channel(void) { return ISO->channel; }

/* ---- sentences ---- */

static void describe_pe(int pe, char *text, size_t bytes)
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
    const struct channel *c = channel();
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
    struct channel *c = channel();
    snprintf(text, bytes, "none");
    if (c != NULL && c->started)
        list_addresses(pe, text, bytes);
    return text;
}

/* ---- the end of connections ---- */

static void finish_ask(struct channel *c, struct ask *ask, int rc)
{
    uint64_t one = 1;
    for (struct ask **at = &c->asks; *at != NULL; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            break;
        }
    ask->rc = rc;
    ask->done = true;
    if (write(ask->event, &one, sizeof one) != sizeof one)
        log_debug("channel: eventfd: %m"); /* its thread looks by itself, a little later */
}

static void fail_asks(struct channel *c, int pe, int rc)
{
    for (struct ask *ask = c->asks, *next; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->pe == pe)
            finish_ask(c, ask, rc);
    }
}

/* Nobody points to it any more, but the step that is under way. */
static void forget(struct channel *c, const struct link *link)
{
    struct target *t = &c->targets[link->pe];
    for (struct parked *p = c->parked; p != NULL; p = p->next)
        if (p->link == link)
            p->link = NULL;
    if (t->dialed == link)
        t->dialed = NULL;
    if (t->up != link)
        return;
    t->up = NULL;
    for (struct link *other = c->links; other != NULL && t->up == NULL; other = other->next)
        if (other != link && other->pe == link->pe && other->state == LINK_UP && !other->gone)
            t->up = other;
    fail_asks(c, link->pe, -ECONNRESET);
}

static void drop(struct channel *c, struct link *link)
{
    if (link->pe >= 0)
        forget(c, link);
    for (struct link **at = &c->links; *at != NULL; at = &(*at)->next)
        if (*at == link) {
            *at = link->next;
            break;
        }
    close(link->fd); /* which takes it out of the epoll set */
    link->fd = -1;
    link->next = c->dead;
    c->dead = link;
}

static void bury(struct channel *c)
{
    while (c->dead != NULL) {
        struct link *next = c->dead->next;
        iso_link_free(c->dead);
        c->dead = next;
    }
}

_Noreturn static void report_death(const struct link *link, int rc)
{
    char sentence[512], who[192];
    describe_pe(link->pe, who, sizeof who);
    if (rc == -EBADMSG)
        snprintf(sentence, sizeof sentence, "a message from %s (%s) was changed or added on its way; ending the job",
                 who, link->name);
    else if (rc == -EPIPE || rc == -ECONNRESET)
        snprintf(sentence, sizeof sentence, "%s died: its connection (%s) ended without a good-bye; ending the job",
                 who, link->name);
    else
        snprintf(sentence, sizeof sentence,
                 "%s is taken for dead: nothing comes over its connection (%s): %s (SHMEM_NODE_TIMEOUT is %.3g s); "
                 "its host or the network to it has failed; ending the job",
                 who, link->name, strerror(-rc), ISO->env.node_timeout);
    log_error("%s", sentence);
    iso_abort_job(1, sentence);
}

/* This attempt is over; the next address, or the same ones again after a while. */
static void fail_attempt(struct channel *c, struct link *link, int rc)
{
    struct target *t = &c->targets[link->pe];
    t->error = rc == -EPIPE ? -ECONNRESET : rc;
    t->attempt++;
    log_debug("channel: pe %d at %s: %s", link->pe, link->name, strerror(-t->error));
    drop(c, link);
}

static void end(struct channel *c, struct link *link, int rc)
{
    if (link->state == LINK_UP && !link->gone && !c->parting && !ISO->aborting)
        report_death(link, rc);
    if (link->state == LINK_UP || !link->dialer) {
        if (link->state != LINK_UP && rc == -EBADMSG)
            log_warn("dropped a connection from %s that is not from a PE of this job", link->name);
        drop(c, link);
    } else {
        fail_attempt(c, link, rc);
    }
}

/* ---- answers and requests ---- */

static void take_answer(struct channel *c, const struct link *link)
{
    for (struct ask *ask = c->asks; ask != NULL; ask = ask->next)
        if (ask->sent && ask->id == link->in.id && ask->pe == link->pe) {
            memcpy(ask->answer, link->in.body, CHANNEL_BODY_BYTES);
            finish_ask(c, ask, 0);
            return;
        }
}

static void answer(struct channel *c, struct link *link, uint32_t id, const void *request)
{
    unsigned char body[CHANNEL_BODY_BYTES] = {0};
    c->handler(link->pe, request, body);
    int rc = link->fd >= 0 ? iso_link_send(link, LINK_ANSWER, id, 0, body) : 0;
    if (rc != 0)
        end(c, link, rc);
}

/* Without memory for it the other end would wait for ever. */
static void park(struct channel *c, struct link *link)
{
    struct parked *p = (struct parked *)calloc(1, sizeof *p);
    if (p == NULL)
        iso_fatal("the set-up of a connection", "no memory for a request of pe %d", link->pe);
    p->link = link;
    p->id = link->in.id;
    memcpy(p->body, link->in.body, sizeof p->body);
    struct parked **at = &c->parked;
    while (*at != NULL)
        at = &(*at)->next;
    *at = p;
}

static void take_message(struct channel *c, struct link *link)
{
    unsigned char body[CHANNEL_BODY_BYTES];
    switch (link->in.kind) {
    case LINK_REQUEST:
        if (c->handler == NULL) {
            park(c, link);
            return;
        }
        memcpy(body, link->in.body, sizeof body);
        answer(c, link, link->in.id, body);
        return;
    case LINK_ANSWER:
        take_answer(c, link);
        return;
    case LINK_BYE:
        link->gone = true;
        return;
    case LINK_EXIT:
        iso_exit_quietly(link->in.value);
    default:
        end(c, link, -EBADMSG);
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
    link->state = LINK_UP;
    if (t->dialed == link)
        t->dialed = NULL;
    if (t->up == NULL)
        t->up = link;
    t->give_up_ns = 0;
    t->attempt = 0;
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

static int shake_hands(struct channel *c, struct link *link)
{
    int rc;
    switch (link->state) {
    case LINK_AWAITS_HELLO:
        return take_hello(c, link);
    case LINK_AWAITS_CHALLENGE:
        return iso_link_prove(link, tokens_of(c, link));
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
            end(c, link, rc);
    }
}

/* ---- new connections ---- */

/* A silent host is noticed after node_timeout: idle connections by probes, others by what is not acknowledged. */
static void watch_silence(int fd)
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

static int watch(struct channel *c, int fd, uint32_t events, void *what)
{
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events;
    event.data.ptr = what;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return 0;
    return errno == EEXIST && epoll_ctl(c->epoll, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

static void add_link(struct channel *c, struct link *link)
{
    link->next = c->links;
    c->links = link;
}

static void accept_all(struct channel *c, int listener)
{
    char name[WIRE_NAME_BYTES];
    int fd;
    while ((fd = iso_wire_accept(listener, name)) >= 0) {
        watch_silence(fd);
        struct link *link = iso_link_new(fd, false, -1, name);
        if (link == NULL)
            continue;
        add_link(c, link);
        if (watch(c, fd, EPOLLIN, link) != 0)
            drop(c, link);
    }
    if (fd == -EMFILE || fd == -ENFILE)
        iso_fatal("the set-up of a connection",
                  "pe %d has no file descriptors left for connections of other nodes; raise ulimit -n", ISO->my_pe);
}

/* Begins to call the next address of the PE. */
static void dial(struct channel *c, int pe, uint64_t now)
{
    struct target *t = &c->targets[pe];
    struct sockaddr_storage address;
    char name[WIRE_NAME_BYTES];
    bool same_host = strcmp(ISO->peers[pe].host, ISO->peers[ISO->my_pe].host) == 0;
    if (!iso_interface_pick(&t->address, &c->mine, same_host, t->attempt, &address)) {
        t->attempt = 0; /* all have failed: again, after a while */
        t->retry_ns = now + RETRY_NS;
        return;
    }
    iso_interface_name(&address, name, sizeof name);
    int on = 1, fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct link *link = fd >= 0 ? iso_link_new(fd, true, pe, name) : NULL;
    if (link == NULL) {
        t->error = fd < 0 ? -errno : -ENOMEM;
        t->attempt++;
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* an improvement only */
    watch_silence(fd);
    link->deadline_ns = now + ATTEMPT_NS;
    t->dialed = link;
    add_link(c, link);
    int rc = connect(fd, (const struct sockaddr *)&address, iso_interface_bytes(&address)) == 0 ? 0 : -errno;
    if (rc == 0 || rc == -EINPROGRESS)
        rc = watch(c, fd, EPOLLIN | EPOLLOUT, link);
    if (rc != 0)
        fail_attempt(c, link, rc);
}

static void take_connected(struct channel *c, struct link *link)
{
    int error = 0;
    socklen_t len = sizeof error;
    int rc = getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? -error : -errno;
    if (rc == 0)
        rc = watch(c, link->fd, EPOLLIN, link);
    if (rc == 0)
        rc = iso_link_hello(link, ISO->my_pe);
    if (rc != 0)
        fail_attempt(c, link, rc);
}

/* ---- what is wanted ---- */

/* Nobody answered within SHMEM_BOOT_TIMEOUT. */
static void give_up(struct channel *c, int pe)
{
    struct target *t = &c->targets[pe];
    char who[192], where[256];
    describe_pe(pe, who, sizeof who);
    list_addresses(pe, where, sizeof where);
    log_error("pe %d on %s cannot connect to %s at %s within SHMEM_BOOT_TIMEOUT (%.3g s): %s; SHMEM_NETWORK chooses "
              "the interface",
              ISO->my_pe, ISO->peers[ISO->my_pe].host, who, where, ISO->env.boot_timeout,
              t->error == -EBADMSG ? "what answers there is not that PE" : strerror(-t->error));
    fail_asks(c, pe, t->error != 0 ? t->error : -ETIMEDOUT);
    t->give_up_ns = 0;
}

static void want(struct target *t, uint64_t now)
{
    double seconds = ISO->env.boot_timeout;
    if (t->give_up_ns == 0 && t->up == NULL)
        t->give_up_ns = seconds > 0 && seconds < 1e9 ? now + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

static void pursue(struct channel *c, int pe, uint64_t now)
{
    struct target *t = &c->targets[pe];
    if (t->up != NULL || t->give_up_ns == 0)
        return;
    if (now > t->give_up_ns && t->dialed == NULL)
        give_up(c, pe);
    else if (t->dialed == NULL && now >= t->retry_ns)
        dial(c, pe, now);
}

static void send_asks(struct channel *c, uint64_t now)
{
    for (struct ask *ask = c->asks, *next; ask != NULL; ask = next) {
        struct target *t = &c->targets[ask->pe];
        next = ask->next;
        if (ask->sent)
            continue;
        if (t->up == NULL) {
            pursue(c, ask->pe, now);
            continue;
        }
        ask->sent = true;
        int rc = iso_link_send(t->up, LINK_REQUEST, ask->id, 0, ask->request);
        if (rc != 0) {
            end(c, t->up, rc);
            return; /* the list may be another one now */
        }
    }
}

/* Strangers that say nothing, and hosts that do not answer a call. */
static void expire(struct channel *c, uint64_t now)
{
    for (struct link *link = c->links, *next; link != NULL; link = next) {
        next = link->next;
        if (link->state != LINK_UP && now > link->deadline_ns)
            end(c, link, -ETIMEDOUT);
    }
}

/* ---- progress ---- */

static void take_event(struct channel *c, const struct epoll_event *event)
{
    struct link *link = (struct link *)event->data.ptr;
    if (event->data.ptr == &c->listener)
        accept_all(c, c->listener);
    else if (link->fd >= 0 && link->state == LINK_CONNECTING)
        take_connected(c, link);
    else if (link->fd >= 0)
        read_link(c, link);
}

/* With the lock. */
static void step(struct channel *c)
{
    struct epoll_event events[EVENTS];
    if (c->inside || !c->started)
        return;
    c->inside = true;
    int n = epoll_wait(c->epoll, events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        take_event(c, &events[i]);
    uint64_t now = c->asks != NULL || c->links != NULL ? iso_wait_now_ns() : 0;
    expire(c, now);
    send_asks(c, now);
    bury(c);
    c->inside = false;
}

void iso_channel_progress(void)
{
    struct channel *c = channel();
    if (c == NULL || ISO->aborting || pthread_mutex_trylock(&c->lock) != 0)
        return;
    step(c);
    pthread_mutex_unlock(&c->lock);
}

int iso_channel_fd(void) { return channel() != NULL ? channel()->epoll : -1; }

void iso_channel_set_handler(channel_handler *handler)
{
    struct channel *c = channel();
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->handler = handler;
    while (handler != NULL && c->parked != NULL) {
        struct parked *p = c->parked;
        c->parked = p->next;
        if (p->link != NULL)
            answer(c, p->link, p->id, p->body);
        free(p);
    }
    bury(c);
    pthread_mutex_unlock(&c->lock);
}

/* One round of a wait, outside the lock: until something comes, or some milliseconds. */
static void rest(struct channel *c, int event, const struct wait *wait)
{
    struct pollfd fds[] = {{c->epoll, POLLIN, 0}, {event, POLLIN, 0}};
    poll(fds, event >= 0 ? 2 : 1, REST_MS);
    iso_pe_poll(wait);
}

/* Past SHMEM_TIMEOUT it is said once, as of every wait. */
static void report_slow(int pe, uint64_t since, bool *reported)
{
    double waited = (double)(iso_wait_now_ns() - since) / 1e9;
    char who[192];
    if (*reported || ISO->env.timeout <= 0 || waited < ISO->env.timeout)
        return;
    *reported = true;
    describe_pe(pe, who, sizeof who);
    log_error("the set-up of a connection: %s does not answer since %.1f s, longer than SHMEM_TIMEOUT", who, waited);
    if (ISO->env.timeout_abort)
        iso_abort_job(1, "a wait lasted longer than SHMEM_TIMEOUT and SHMEM_TIMEOUT_ABORT is set");
}

static void wait_for(struct channel *c, const struct ask *ask)
{
    struct wait wait = ISO_WAIT("the set-up of a connection", ask->pe, NULL, 0);
    uint64_t since = iso_wait_now_ns();
    bool reported = false;
    for (;;) {
        pthread_mutex_lock(&c->lock);
        step(c);
        bool done = ask->done;
        pthread_mutex_unlock(&c->lock);
        if (done)
            return;
        rest(c, ask->event, &wait);
        report_slow(ask->pe, since, &reported);
    }
}

int iso_channel_ask(int pe, const void *request, void *answer_body)
{
    struct channel *c = channel();
    if (c == NULL || !c->started || ISO->peers[pe].local)
        iso_fatal("the set-up of a connection", "pe %d is on the node of this PE: there is no channel to it", pe);
    struct ask ask = {NULL, pe, 0, false, false, 0, request, answer_body, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_lock(&c->lock);
    ask.id = c->next_id++;
    ask.next = c->asks;
    c->asks = &ask;
    want(&c->targets[pe], iso_wait_now_ns());
    pthread_mutex_unlock(&c->lock);
    wait_for(c, &ask);
    if (ask.event >= 0)
        close(ask.event);
    return ask.rc;
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
    return watch(c, c->listener, EPOLLIN, &c->listener);
}

/* A connection to each PE of a large job needs more than the usual 1,024 descriptors. */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? 1 << 20 : ISO_MIN(limit.rlim_max, (rlim_t)1 << 20);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
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
    raise_files();
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

/* What the lowest PE of a node waits for at the start. */
struct ring {
    int before; /* calls us */
    int next;
    bool calls; /* we call `next`; with two nodes one call does */
};

/* 1: complete; 0: not yet; -errno after a sentence. */
static int look_at_ring(struct channel *c, const struct ring *ring)
{
    struct target *next = &c->targets[ring->next];
    pthread_mutex_lock(&c->lock);
    step(c);
    if (ring->calls)
        pursue(c, ring->next, iso_wait_now_ns());
    int rc = next->up != NULL && c->targets[ring->before].up != NULL;
    if (ring->calls && next->up == NULL && next->give_up_ns == 0)
        rc = next->error != 0 ? next->error : -ETIMEDOUT;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static int await_ring(struct channel *c, const struct ring *ring)
{
    struct wait wait = ISO_WAIT("shmem_init", ring->before, NULL, 0);
    int64_t deadline = iso_wire_deadline(ISO->env.boot_timeout);
    char who[192];
    int rc;
    while ((rc = look_at_ring(c, ring)) == 0) {
        if (iso_wire_now() > deadline && (!ring->calls || c->targets[ring->next].up != NULL)) {
            describe_pe(ring->before, who, sizeof who);
            log_error("shmem_init: %s has not connected to pe %d on %s within SHMEM_BOOT_TIMEOUT (%.3g s)", who,
                      ISO->my_pe, ISO->peers[ISO->my_pe].host, ISO->env.boot_timeout);
            return -ETIMEDOUT;
        }
        rest(c, -1, &wait);
    }
    return rc < 0 ? rc : 0;
}

/* The lowest PE of each node calls that of the next one. */
static int close_ring(struct channel *c)
{
    const struct state *self = ISO;
    int node = iso_pe_my_node(), n = self->n_nodes;
    struct ring ring = {self->node_first[(node + n - 1) % n], self->node_first[(node + 1) % n], n > 2 || node == 0};
    if (self->node_first[node] != self->my_pe)
        return 0;
    pthread_mutex_lock(&c->lock);
    if (ring.calls)
        want(&c->targets[ring.next], iso_wait_now_ns());
    pthread_mutex_unlock(&c->lock);
    return await_ring(c, &ring);
}

void iso_channel_know(int pe, const struct channel_address *address, const unsigned char token[CHANNEL_TOKEN_BYTES])
{
    struct target *t = &channel()->targets[pe];
    t->address = *address;
    memcpy(t->token, token, CHANNEL_TOKEN_BYTES);
}

int iso_channel_start(void)
{
    struct channel *c = channel();
    pthread_mutex_lock(&c->lock);
    c->started = true;
    pthread_mutex_unlock(&c->lock);
    return close_ring(c);
}

/* ---- the end ---- */

static bool all_gone(const struct channel *c)
{
    for (const struct link *link = c->links; link != NULL; link = link->next)
        if (link->state == LINK_UP && !link->gone)
            return false;
    return true;
}

/* Waits for the others' good-byes: what they had under way to this PE has arrived then, and a connection that is closed
 * with unread messages would take ours away with it. */
void iso_channel_bye(void)
{
    struct channel *c = channel();
    struct wait wait = ISO_WAIT("shmem_finalize", -1, NULL, 0);
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    c->parting = true;
    for (struct link *link = c->links; link != NULL; link = link->next)
        if (link->state == LINK_UP)
            (void)iso_link_send(link, LINK_BYE, 0, 0, NULL); /* one that is gone needs none */
    int64_t deadline = iso_wire_deadline(PART_S);
    while (!all_gone(c) && iso_wire_now() < deadline) {
        step(c);
        if (all_gone(c))
            break;
        pthread_mutex_unlock(&c->lock);
        rest(c, -1, &wait);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void iso_channel_close(void)
{
    struct channel *c = channel();
    if (c == NULL)
        return;
    ISO->channel = NULL;
    while (c->links != NULL)
        drop(c, c->links);
    bury(c);
    while (c->parked != NULL) {
        struct parked *next = c->parked->next;
        free(c->parked);
        c->parked = next;
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
void iso_channel_tell_exit(int status)
{
    struct channel *c = channel();
    if (c == NULL)
        return;
    for (int tries = 0; pthread_mutex_trylock(&c->lock) != 0; tries++) {
        if (tries == 20)
            return;
        usleep(1000);
    }
    for (struct link *link = c->links; link != NULL; link = link->next)
        if (link->state == LINK_UP && !link->gone && link->fd >= 0)
            (void)iso_link_send(link, LINK_EXIT, 0, status, NULL);
    pthread_mutex_unlock(&c->lock);
}

/* In a forked child: the parent's death must be seen. */
void iso_channel_after_fork(void)
{
    struct channel *c = channel();
    if (c == NULL)
        return;
    for (struct link *link = c->links; link != NULL; link = link->next)
        close(link->fd);
    close(c->listener);
    close(c->epoll);
    ISO->channel = NULL; /* its memory stays: another thread may have been inside at the fork */
}
