/* SPDX-License-Identifier: MIT */
/* What the networks have in common: the lock of a network, its end by a failure, and questions to the same network of
 * another PE. Invariant: the channel's lock is taken before that of a network, so no function of channel.h is called
 * with the guard held. Included by the networks' files. */
#ifndef ISO_NETWORK_H
#define ISO_NETWORK_H

#include "../base.h"

#include <pthread.h>

#define NETWORK_TEXT_BYTES 768 /* of the sentence of a loss */

struct network_guard {
    pthread_mutex_t lock;
    bool failed; /* atomic: the job is ending by an error, nothing is posted any more */
    bool lost;   /* the job is broken and this PE goes on: operations have no effect, and waits end */
};

/* As pthread_mutex_lock; after a failure the call never returns, since another thread is ending the process. */
void iso_network_lock(struct network_guard *g);
/* For handlers of the channel, which must come back. False after a failure, without the lock. */
bool iso_network_lock_unless_failed(struct network_guard *g);
ISO_INLINE void iso_network_unlock(struct network_guard *g) { pthread_mutex_unlock(&g->lock); }
/* Has the process begun to end by a failure of the network? Pairs with the release in network.c. */
ISO_INLINE bool iso_network_failed(const struct network_guard *g)
{
    return __atomic_load_n(&g->failed, __ATOMIC_ACQUIRE);
}

struct network_loss {
    int pe; /* that is not reached; -1: none, or not known */
    void (*drop)(void), (*drop_after)(void);
};

/* The network or a peer fails: ends the job; or, with SHMEMX_ERRORS_RETURN, sets `lost`, ends all operations of the
 * network by `drop` at once, or by `drop_after` when the sentence is out (where peers would see the end before it), breaks
 * the job and returns. Either may be NULL. Gives up the lock meanwhile, and first lets a report of a peer's death arrive,
 * which explains more. No effect while `lost`. */
ISO_COLD void iso_network_lose(struct network_guard *g, const struct network_loss *loss, const char *text);

/* While `lost`: waits until the thread that lost the network has broken the job, and gives up the lock meanwhile. An
 * operation without effect must not return before, as if it had had one. */
ISO_COLD void iso_network_await_break(struct network_guard *g);

/* Asks the PE through the channel. `info`, a struct that begins with its type, is replaced by the answer. Gives up the
 * lock meanwhile. 0, or -errno: there was no answer, and all of `info` is 0. */
int iso_network_ask(struct network_guard *g, int pe, void *info, size_t bytes);

#endif
