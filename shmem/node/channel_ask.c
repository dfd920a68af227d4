/* SPDX-License-Identifier: MIT */
/* Requests to other PEs and their answers; requests of others, which wait while there is no handler yet.
 * Used by channel*.c, under the lock but for iso_channel_ask. */
#include "channel_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- of others ---- */

static void answer(struct channel *c, struct link *link, uint32_t id, const void *request)
{
    unsigned char body[CHANNEL_BODY_BYTES] = {0};
    c->handler(link->pe, request, body);
    int rc = link->fd >= 0 ? iso_link_send(link, LINK_ANSWER, id, 0, body) : 0;
    if (rc != 0)
        iso_channel_end(c, link, rc);
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

void iso_channel_ask_answer(struct channel *c, struct link *link)
{
    unsigned char body[CHANNEL_BODY_BYTES];
    if (c->handler == NULL) {
        park(c, link);
        return;
    }
    memcpy(body, link->in.body, sizeof body);
    answer(c, link, link->in.id, body);
}

void iso_channel_ask_answer_parked(struct channel *c)
{
    while (c->parked != NULL) {
        struct parked *p = c->parked;
        c->parked = p->next;
        if (p->link != NULL)
            answer(c, p->link, p->id, p->body);
        free(p);
    }
}

void iso_channel_ask_forget(struct channel *c, const struct link *link)
{
    for (struct parked *p = c->parked; p != NULL; p = p->next)
        if (p->link == link)
            p->link = NULL;
}

void iso_channel_ask_free(struct channel *c)
{
    while (c->parked != NULL) {
        struct parked *next = c->parked->next;
        free(c->parked);
        c->parked = next;
    }
}

/* ---- of this PE ---- */

static void finish(struct channel *c, struct ask *ask, int rc)
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

void iso_channel_ask_fail(struct channel *c, int pe, int rc)
{
    for (struct ask *ask = c->asks, *next; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->pe == pe)
            finish(c, ask, rc);
    }
}

void iso_channel_ask_take(struct channel *c, const struct link *link)
{
    for (struct ask *ask = c->asks; ask != NULL; ask = ask->next)
        if (ask->sent && ask->id == link->in.id && ask->pe == link->pe) {
            memcpy(ask->answer, link->in.body, CHANNEL_BODY_BYTES);
            finish(c, ask, 0);
            return;
        }
}

void iso_channel_ask_send(struct channel *c, uint64_t now)
{
    for (struct ask *ask = c->asks, *next; ask != NULL; ask = next) {
        struct target *t = &c->targets[ask->pe];
        next = ask->next;
        if (ask->sent)
            continue;
        if (t->up == NULL) {
            iso_channel_call_pursue(c, ask->pe, now);
            continue;
        }
        ask->sent = true;
        int rc = iso_link_send(t->up, LINK_REQUEST, ask->id, 0, ask->request);
        if (rc != 0) {
            iso_channel_end(c, t->up, rc);
            return; /* the list may be another one now */
        }
    }
}

/* Past SHMEM_TIMEOUT it is said once, as of every wait. */
static void report_slow(int pe, uint64_t since, bool *reported)
{
    double waited = (double)(iso_wait_now_ns() - since) / 1e9;
    char who[192];
    if (*reported || ISO->env.timeout <= 0 || waited < ISO->env.timeout)
        return;
    *reported = true;
    iso_channel_describe(pe, who, sizeof who);
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
        iso_channel_step(c);
        bool done = ask->done;
        pthread_mutex_unlock(&c->lock);
        if (done)
            return;
        iso_channel_rest(c, ask->event, &wait);
        report_slow(ask->pe, since, &reported);
    }
}

int iso_channel_ask(int pe, const void *request, void *answer_body)
{
    struct channel *c = ISO->channel;
    if (c == NULL || !c->started || ISO->peers[pe].local)
        iso_fatal("the set-up of a connection", "pe %d is on the node of this PE: there is no channel to it", pe);
    struct ask ask = {NULL, pe, 0, false, false, 0, request, answer_body, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_lock(&c->lock);
    ask.id = c->next_id++;
    ask.next = c->asks;
    c->asks = &ask;
    iso_channel_call_want(&c->targets[pe], iso_wait_now_ns());
    pthread_mutex_unlock(&c->lock);
    wait_for(c, &ask);
    if (ask.event >= 0)
        close(ask.event);
    return ask.rc;
}
