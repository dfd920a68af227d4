/* SPDX-License-Identifier: MIT */
/* Which members of a team are on one node: those whose kernels reach each other by pointers, as each member has found
 * out for itself. The table is for kernels (accessors: hier_stream.h). It is alike on all members, or none has one.
 * Called by stream_slot.c. */
#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "coll_stream.h"

#include <errno.h>
#include <stdlib.h>

static const char call[] = "shmemx_coll_on_stream";

/* Nodes in the order of their first members: number of nodes; node, and place in it, of each member; members node by
 * node; how many are on lower nodes, for each node and one more. */
static int make_table(struct device *d, struct stream_slot *slot, const int32_t *leaders, int n)
{
    size_t bytes = (1 + 3 * (size_t)n + (size_t)n + 1) * sizeof(int32_t); /* at most */
    int32_t *table = (int32_t *)calloc(1, bytes), nodes = 0, at = 0;
    int rc = table != NULL ? iso_gpu_alloc(d->gpu, bytes, &slot->nodes) : -ENOMEM;
    if (rc != 0) {
        log_error("%s: no memory for the table of nodes of a team of %d", call, n);
        free(table);
        return rc;
    }
    int32_t *node = table + 1, *local = node + n, *sorted = local + n, *begin = sorted + n;
    for (int leader = 0; leader < n; leader++) {
        if (leaders[leader] != leader)
            continue;
        begin[nodes] = at;
        for (int m = leader; m < n; m++)
            if (leaders[m] == leader) {
                node[m] = nodes;
                local[m] = at - begin[nodes];
                sorted[at++] = m;
            }
        nodes++;
    }
    begin[nodes] = at;
    table[0] = nodes;
    iso_agent_copy(slot->nodes, table, bytes);
    free(table);
    return 0;
}

int iso_hier_share(struct device *d, struct team *team, struct stream_slot *slot, uint32_t *agrees)
{
    int n = team->n_pes, rc = 0;
    int32_t leader = slot != NULL ? 0 : team->my_pe, *leaders = (int32_t *)calloc((size_t)n, sizeof *leaders);
    if (leaders == NULL)
        return iso_refuse_alone(call, "no memory for a team of %d", n);

    /* A node is named by the first member that its members reach; this member reaches itself. */
    while (slot != NULL && slot->memory[leader] == NULL)
        leader++;
    if ((rc = iso_agree_gather(team, &leader, sizeof leader, leaders, call)) != 0) {
        free(leaders);
        return rc;
    }

    /* The table is for several nodes, with more than one member on one of them. */
    bool several = false, shared = false, same = true;
    for (int m = 0; m < n && slot != NULL; m++) {
        several |= leaders[m] != leaders[0];
        shared |= leaders[m] != m;
        same &= (slot->memory[m] != NULL) == (leaders[m] == leaders[team->my_pe]);
    }
    if (slot != NULL)
        *agrees = same;
    if (several && shared)
        rc = make_table(d, slot, leaders, n);
    free(leaders);
    return rc;
}
