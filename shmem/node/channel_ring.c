/* SPDX-License-Identifier: MIT */
/* The watch over nodes that nobody talks to: the lowest PE of each node is connected with that of the next one, so that
 * every node has two others that notice when it dies. Used by channel.c at the start. */
#include "channel_state.h"

#include "../../bootstrap/net/wire.h"

#include <errno.h>

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
    iso_channel_step(c);
    if (ring->calls)
        iso_channel_call_pursue(c, ring->next, iso_wait_now_ns());
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
            iso_channel_describe(ring->before, who, sizeof who);
            log_error("shmem_init: %s has not connected to pe %d on %s within SHMEM_BOOT_TIMEOUT (%.3g s)", who,
                      ISO->my_pe, ISO->peers[ISO->my_pe].host, ISO->env.boot_timeout);
            return -ETIMEDOUT;
        }
        iso_channel_rest(c, -1, &wait);
    }
    return rc < 0 ? rc : 0;
}

int iso_channel_ring_close(struct channel *c)
{
    const struct state *self = ISO;
    int node = iso_pe_my_node(), n = self->n_nodes;
    struct ring ring = {self->node_first[(node + n - 1) % n], self->node_first[(node + 1) % n], n > 2 || node == 0};
    if (self->node_first[node] != self->my_pe)
        return 0;
    pthread_mutex_lock(&c->lock);
    if (ring.calls)
        iso_channel_call_want(&c->targets[ring.next], iso_wait_now_ns());
    pthread_mutex_unlock(&c->lock);
    return await_ring(c, &ring);
}
