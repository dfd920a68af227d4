/* SPDX-License-Identifier: MIT */
/* What the networks have in common: see network.h. */
#include "network.h"
#include "../../bootstrap/log.h"
#include "../node/channel.h"
#include "../pe_state.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CAUSE_ROUNDS = 30, CAUSE_NS = 10000000, BREAK_NS = 1000000 };

bool iso_network_lock_unless_failed(struct network_guard *g)
{
    pthread_mutex_lock(&g->lock);
    if (ISO_LIKELY(!iso_network_failed(g)))
        return true;
    pthread_mutex_unlock(&g->lock);
    return false;
}

void iso_network_lock(struct network_guard *g)
{
    if (ISO_LIKELY(iso_network_lock_unless_failed(g)))
        return;
    for (;;)
        pause(); /* another thread is ending the process */
}

void iso_network_lose(struct network_guard *g, const struct network_loss *loss, const char *text)
{
    const struct timespec t = {0, CAUSE_NS};
    bool returns = ISO->errors == SHMEMX_ERRORS_RETURN;
    if (g->lost) /* what follows from the loss */
        return;
    if (returns)
        g->lost = true;
    else
        __atomic_store_n(&g->failed, true, __ATOMIC_RELEASE); /* pairs with iso_network_failed */
    if (returns && loss->drop != NULL)
        loss->drop();
    iso_network_unlock(g);
    /* The death of a peer, or the end of the job by another PE, explains more than the network's error does. */
    for (int i = 0; i < CAUSE_ROUNDS && !iso_job_is_broken(); i++) {
        iso_channel_progress();
        nanosleep(&t, NULL);
    }
    /* The peers lose the connection by the drop, and may tell so before it has come to its end. */
    bool first = returns ? iso_job_claim(loss->pe, text) : !iso_job_is_broken();
    if (first)
        log_error("%s", text);
    if (!returns)
        iso_job_break(loss->pe, text);
    if (first)
        iso_job_tell();
    if (loss->drop_after != NULL) {
        iso_network_lock(g);
        loss->drop_after();
        iso_network_unlock(g);
    }
    if (first)
        iso_job_claimed();
    iso_network_lock(g);
}

void iso_network_await_break(struct network_guard *g)
{
    const struct timespec t = {0, BREAK_NS};
    while (g->lost && !iso_job_is_broken()) {
        iso_network_unlock(g);
        nanosleep(&t, NULL);
        iso_network_lock(g);
    }
}

int iso_network_ask(struct network_guard *g, int pe, void *info, size_t bytes)
{
    unsigned char request[CHANNEL_BODY_BYTES] = {0}, answer[CHANNEL_BODY_BYTES] = {0};
    memcpy(request, info, bytes);
    iso_network_unlock(g);
    int rc = iso_channel_ask(pe, request, answer);
    iso_network_lock(g);
    memcpy(info, answer, bytes);
    return rc;
}
