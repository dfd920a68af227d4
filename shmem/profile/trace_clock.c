/* SPDX-License-Identifier: MIT */
/* The begin and the end of SHMEM_TRACE: the clocks of the nodes beside that of PE 0, and where segments lie.
 * In an exchange in which every PE sends to every other one, PE 0's stamp was made before its message came here, and
 * this PE's before it came there. Each exchange bounds the difference of both clocks from both sides, and the narrowest
 * bounds of some exchanges are as wide as two messages take. */
#include "trace.h"
#include "../memory/segment.h"
#include "../node/peer.h"
#include "../node/wait.h"
#include "../team/agree.h"

#include <stdlib.h>
#include <string.h>

enum { EXCHANGES = 24 };

struct stamps {
    uint64_t sent_ns, came_ns; /* before this exchange; behind the one before it, 0: there was none */
};

/* The bounds of this node's clock beside that of PE 0. False: the job is broken. */
static bool compare_clocks(struct trace_sync *sync, const char *call)
{
    const struct state *self = ISO;
    struct stamps mine = {0, 0}, before = {0, 0}, *all = (struct stamps *)calloc((size_t)self->n_pes, sizeof *all);
    *sync = (struct trace_sync){0, INT64_MIN, INT64_MAX};
    for (int i = 0; all != NULL && i <= EXCHANGES; i++) {
        mine.sent_ns = iso_clock_now_ns();
        if (iso_agree_gather(ISO->world, &mine, sizeof mine, all, call) != 0)
            break;
        uint64_t came = iso_clock_now_ns();
        int64_t high = (int64_t)(came - all[0].sent_ns), low = (int64_t)(before.sent_ns - all[0].came_ns);
        sync->high = ISO_MIN(sync->high, high);
        if (i > 0) /* of the exchange before */
            sync->low = ISO_MAX(sync->low, low);
        before = mine;
        mine.came_ns = came;
        sync->ns = came;
    }
    bool good = all != NULL && sync->low != INT64_MIN && !iso_job_is_broken();
    free(all);
    if (!good || self->peers[self->my_pe].node_number == self->peers[0].node_number)
        *sync = (struct trace_sync){0, 0, 0};
    return good;
}

/* Those that every PE has, in the order of their numbers. */
static void note_segments(struct profile *p)
{
    for (int i = 0; i < TRACE_SEGMENTS && i < ISO->n_segments; i++)
        p->segments[i] = (struct trace_segment){(uint64_t)(uintptr_t)ISO->segments[i].base, ISO->segments[i].len};
}

void iso_trace_begin(const char *call)
{
    struct profile *p = ISO->profile;
    if (p == NULL || !p->traces)
        return;
    if (ISO->n_nodes > 1)
        (void)compare_clocks(&p->syncs[0], call);
    note_segments(p);
    __atomic_store_n(&p->trace_stops, false, __ATOMIC_RELAXED);
}

void iso_trace_finish(const char *call)
{
    struct profile *p = ISO->profile;
    if (p == NULL || !p->traces)
        return;
    if (ISO->n_nodes > 1)
        (void)compare_clocks(&p->syncs[1], call);
    note_segments(p);
    __atomic_store_n(&p->trace_stops, true, __ATOMIC_RELAXED);
    for (const struct profile_block *b = iso_profile_first_block(p); b != NULL; b = b->next)
        if (__atomic_load_n(&b->trace, __ATOMIC_ACQUIRE) != NULL) /* pairs with open_trace of profile.c */
            iso_trace_complete(p, b);
}
