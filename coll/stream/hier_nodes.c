/* SPDX-License-Identifier: MIT */
/* Which members of a team are on one node: those whose kernels reach each other by pointers, as each member has found
 * out for itself. The table is for kernels (accessors: hier_stream.h); it is alike on all members, or none has one.
 * Called by stream_slot.c. */
#include "coll_stream.h"

int iso_hier_leader(char *const *memory)
{
    int m = 0;
    while (memory[m] == NULL) /* ends at this member */
        m++;
    return m;
}

bool iso_hier_agrees(char *const *memory, const int32_t *leaders, int n, int me)
{
    for (int m = 0; m < n; m++)
        if ((memory[m] != NULL) != (leaders[m] == leaders[me]))
            return false;
    return true;
}

bool iso_hier_is_worth(const int32_t *leaders, int n)
{
    bool several = false, shared = false;
    for (int m = 0; m < n; m++) {
        several |= leaders[m] != leaders[0];
        shared |= leaders[m] != m;
    }
    return several && shared;
}

size_t iso_hier_words(int n) { return 1 + 3 * (size_t)n + (size_t)n + 1; }

/* Nodes in the order of their first members: number of nodes; node, and place in it, of each member; members node by
 * node; how many are on lower nodes, for each node and one more. */
void iso_hier_fill(int32_t *table, const int32_t *leaders, int n)
{
    int32_t *node = table + 1, *local = node + n, *sorted = local + n, *begin = sorted + n;
    int32_t nodes = 0, at = 0;
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
}
