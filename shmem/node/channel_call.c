/* SPDX-License-Identifier: MIT */
/* Calls to other PEs: their addresses one after the other, again and again until SHMEM_BOOT_TIMEOUT. Two PEs that call
 * each other at once have two connections, which is no harm. Used by channel*.c, under the lock. */
#include "channel_state.h"

#include "../../bootstrap/net/wire.h"
#include "interface.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#define RETRY_NS 50000000u
#define ATTEMPT_NS 3000000000u /* for one address */

/* This attempt is over; the next address, or the same ones again after a while. */
void iso_channel_call_fail(struct channel *c, struct link *link, int rc)
{
    struct target *t = &c->targets[link->pe];
    t->error = rc == -EPIPE ? -ECONNRESET : rc;
    t->attempt++;
    log_debug("channel: pe %d at %s: %s", link->pe, link->name, strerror(-t->error));
    iso_channel_end_now(c, link);
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
        if (t->error == -EMFILE || t->error == -ENFILE)
            iso_channel_make_room(c);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* an improvement only */
    iso_channel_watch_silence(fd);
    link->deadline_ns = now + ATTEMPT_NS;
    t->dialed = link;
    iso_channel_add(c, link);
    int rc = connect(fd, (const struct sockaddr *)&address, iso_interface_bytes(&address)) == 0 ? 0 : -errno;
    if (rc == 0 || rc == -EINPROGRESS)
        rc = iso_channel_watch(c, fd, EPOLLIN | EPOLLOUT, link);
    if (rc != 0)
        iso_channel_call_fail(c, link, rc);
}

void iso_channel_call_connected(struct channel *c, struct link *link)
{
    int error = 0;
    socklen_t len = sizeof error;
    int rc = getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? -error : -errno;
    if (rc == 0)
        rc = iso_channel_watch(c, link->fd, EPOLLIN, link);
    if (rc == 0)
        rc = iso_link_hello(link, ISO->my_pe);
    if (rc != 0)
        iso_channel_call_fail(c, link, rc);
}

/* Nobody answered within SHMEM_BOOT_TIMEOUT. */
static void give_up(struct channel *c, int pe)
{
    struct target *t = &c->targets[pe];
    char who[192], where[256];
    iso_channel_describe(pe, who, sizeof who);
    iso_channel_text(pe, where, sizeof where);
    log_error("pe %d on %s cannot connect to %s at %s within SHMEM_BOOT_TIMEOUT (%.3g s): %s; SHMEM_NETWORK chooses "
              "the interface",
              ISO->my_pe, ISO->peers[ISO->my_pe].host, who, where, ISO->env.boot_timeout,
              t->error == -EBADMSG ? "what answers there is not that PE" : strerror(-t->error));
    iso_channel_ask_fail(c, pe, t->error != 0 ? t->error : -ETIMEDOUT);
    t->give_up_ns = 0;
}

void iso_channel_call_want(struct target *t, uint64_t now)
{
    double seconds = ISO->env.boot_timeout;
    if (t->give_up_ns == 0 && t->up == NULL)
        t->give_up_ns = seconds > 0 && seconds < 1e9 ? now + (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

void iso_channel_call_pursue(struct channel *c, int pe, uint64_t now)
{
    struct target *t = &c->targets[pe];
    if (t->up != NULL || t->give_up_ns == 0)
        return;
    if (now > t->give_up_ns && t->dialed == NULL)
        give_up(c, pe);
    else if (t->dialed == NULL && now >= t->retry_ns)
        dial(c, pe, now);
}
