/* SPDX-License-Identifier: MIT */
/* The ends of connections: deaths, attempts that fail, strangers. A link that has ended stays in memory until the end
 * of the step, since somebody may still look at it. Used by channel*.c, under the lock. */
#include "channel_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Nobody points to it any more, but the step that is under way. */
static void forget(struct channel *c, const struct link *link)
{
    struct target *t = &c->targets[link->pe];
    iso_channel_ask_forget(c, link);
    if (t->dialed == link)
        t->dialed = NULL;
    if (t->up != link)
        return;
    t->up = NULL;
    for (struct link *other = c->links; other != NULL && t->up == NULL; other = other->next)
        if (other != link && other->pe == link->pe && !other->gone)
            t->up = other;
    iso_channel_ask_fail(c, link->pe, -ECONNRESET);
}

void iso_channel_end_now(struct channel *c, struct link *link)
{
    if (link->pe >= 0)
        forget(c, link);
    iso_channel_remove(c, link);
    close(link->fd); /* which takes it out of the epoll set */
    link->fd = -1;
    link->next = c->dead;
    c->dead = link;
}

void iso_channel_end_bury(struct channel *c)
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
    iso_channel_describe(link->pe, who, sizeof who);
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

void iso_channel_end(struct channel *c, struct link *link, int rc)
{
    if (link->state == LINK_UP && !link->gone && !c->parting && !ISO->aborting)
        report_death(link, rc);
    if (link->state == LINK_UP || !link->dialer) {
        if (link->state != LINK_UP && rc == -EBADMSG)
            log_warn("dropped a connection from %s that is not from a PE of this job", link->name);
        iso_channel_end_now(c, link);
    } else {
        iso_channel_call_fail(c, link, rc);
    }
}
