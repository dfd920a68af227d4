/* SPDX-License-Identifier: MIT */
/* The barrier of a team, four ways. Which one runs is a row of the selection table (coll/select/tables/host.table).
 * Invariants: no member leaves before all have entered. A member that has left sees everything that any member stored
 * before entering. There is no quiet and no full fence in here: the flags are release stores and acquire loads. A flag
 * that stands for other members, too, is set only when the wait for these has brought theirs.
 * Called by coll/, memory.c, team.c and init.c. */
#include "../collectives.h"
#include "../node/flight.h"
#include "../node/wait.h"
#include "slot.h"

int iso_barrier_sync(struct team *team, const char *call)
{
    if (team->n_pes == 1)
        return 0;
    if (ISO_UNLIKELY(team->slot.barrier == NULL))
        team->slot.barrier = ISO->coll->choose_barrier(team);
    struct flight flight = iso_flight_begin(team, call, 0, 0);
    team->slot.barrier(team, call);
    iso_flight_end(&flight);
    return iso_slot_rc(&team->slot, call);
}

/* One hop, n - 1 lines each way: the fastest where every PE has a core and the team is small. */
void iso_barrier_flags(struct team *team, const char *call)
{
    struct slot *slot = &team->slot;
    int me = team->my_pe, n = team->n_pes;
    uint64_t epoch = ++slot->seq;
    for (int to = me + 1; to < n; to++)
        iso_slot_flag_set(slot, me, to, epoch, call);
    for (int to = 0; to < me; to++)
        iso_slot_flag_set(slot, me, to, epoch, call);
    for (int from = 0; from < n; from++)
        if (from != me)
            (void)iso_slot_flag_wait(slot, from, epoch, call);
}

/* After round k a member knows of the 2^(k+1) members behind it. Each round is an epoch, so a flag of a later round does
 * as well as the one that is waited for: its sender has been through the earlier rounds. */
void iso_barrier_dissemination(struct team *team, const char *call)
{
    struct slot *slot = &team->slot;
    int me = team->my_pe, n = team->n_pes;
    for (int distance = 1; distance < n; distance *= 2) {
        uint64_t epoch = ++slot->seq;
        iso_slot_flag_set(slot, me, (me + distance) % n, epoch, call);
        if (iso_slot_flag_wait(slot, (me - distance + n) % n, epoch, call) != 0)
            return;
    }
}

/* One atomic each and one word to look at: where PEs take turns on a core, each is scheduled once. */
void iso_barrier_central(struct team *team, const char *call)
{
    struct slot *slot = &team->slot;
    uint64_t epoch = ++slot->seq;
    iso_slot_central_pass(slot, team->n_pes, epoch, call);
}

/* ---- several nodes ---- */

/* A later epoch does as well: then the node has been through this one. Each word has one writer, so words of members
 * that spoke for the node in turn, over connections of their own, cannot overwrite each other out of order. */
static bool node_has_said(const struct slot *slot, int node, uint64_t epoch)
{
    const struct slot_nodes *nodes = slot->nodes;
    for (int i = nodes->begin[node]; i < nodes->begin[node + 1]; i++) {
        const char *flag = nodes->central + iso_slot_flag_offset(nodes->members[i]);
        if (prim_poll_u64((const uint64_t *)(const void *)flag) >= epoch)
            return true;
    }
    return false;
}

/* Whoever arrives last on its node runs already, and speaks for it: dissemination among the nodes, an epoch for each
 * round. The others look at one word of their node. */
void iso_barrier_hier(struct team *team, const char *call)
{
    struct slot *slot = &team->slot;
    const struct slot_nodes *nodes = slot->nodes;
    uint64_t before = slot->seq;
    for (int distance = 1; distance < nodes->n; distance *= 2)
        slot->seq++;
    if (!iso_slot_node_arrive(nodes)) {
        iso_slot_node_await(slot, slot->seq, call);
        return;
    }
    for (int distance = 1; distance < nodes->n; distance *= 2) {
        int to = (nodes->mine + distance) % nodes->n, from = (nodes->mine - distance + nodes->n) % nodes->n;
        iso_slot_flag_set(slot, team->my_pe, iso_slot_node_leader(nodes, to), ++before, call);
        int leader = iso_slot_node_leader(slot->nodes, from);
        const char *flag = slot->nodes->central + iso_slot_flag_offset(leader);
        struct wait wait = ISO_WAIT(call, slot->views[leader].pe, flag, before);
        int rc = 0;
        wait.slot = slot;
        while (rc == 0 && !node_has_said(slot, from, before))
            rc = iso_wait_pause(&wait, prim_poll_u64((const uint64_t *)(const void *)flag));
        iso_wait_end(&wait);
        if (rc != 0)
            return;
    }
    iso_slot_node_release(nodes, slot->seq);
}
