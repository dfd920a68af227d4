/* SPDX-License-Identifier: MIT */
/* The report of waits that last longer than SHMEM_TIMEOUT: one for all PEs of the node, printed by the PE whose deadline
 * passes first: the graph (graph.h) of the records that waiting PEs publish.
 * invariant: a wait stays silent only when a report that began after its record was published is complete, so none is
 * lost when the PE that prints one dies. Called by wait.c; proxy.c and coll/ ask for the deadline. */

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../team/slot.h"
#include "flight.h"
#include "graph.h"
#include "peer.h"
#include "wait.h"

#define CLAIM_NS 2000000000u /* a report takes milliseconds: a PE that has begun one for so long is gone */
/* ---- deadlines ---- */

static uint64_t timeout_of_job(void)
{
    return ISO->env->timeout > 0 ? (uint64_t)(ISO->env->timeout * 1e9) : 0;
}

uint64_t iso_report_timeout_ns(const struct slot *slot)
{
    uint64_t own = slot != NULL ? __atomic_load_n(&slot->timeout_ns, __ATOMIC_RELAXED) : 0;
    return own == 0 ? timeout_of_job() : own == ISO_TIMEOUT_NEVER ? 0 : own;
}

const char *iso_report_limit_name(uint64_t waited_ns)
{
    return timeout_of_job() != 0 && waited_ns > timeout_of_job() ? "SHMEM_TIMEOUT" : "its team's timeout";
}

static struct control *control_of(int pe) { return (struct control *)(void *)iso_peer_control(pe); }

/* ---- who is absent ---- */

static bool waits_now(int pe)
{
    const struct control *control = control_of(pe);
    for (int i = 0; i < ISO_WAIT_RECORDS; i++)
        if (__atomic_load_n(&control->waits[i].since_ns, __ATOMIC_RELAXED) != 0)
            return true;
    return false;
}

int iso_report_only_absent(const struct wait *wait)
{
    const struct state *self = ISO;
    const struct slot *slot = wait->slot;
    int absent = -1, n = slot != NULL ? slot->n_pes : self->n_pes;
    for (int i = 0; i < n; i++) {
        int pe = slot != NULL ? slot->views[i].pe : i;
        if (pe == self->my_pe)
            continue;
        if (!self->peers[pe].local || control_of(pe) == NULL)
            return -1; /* it may be the one: that is not known here */
        if (waits_now(pe))
            continue;
        if (absent >= 0)
            return -1;
        absent = pe;
    }
    return absent;
}

/* ---- the report ---- */

bool iso_report_has_exited(int pe)
{
    const struct control *control = ISO->peers[pe].local ? control_of(pe) : NULL;
    /* Relaxed: it is for people, and the end of the process is noticed otherwise. */
    return control != NULL && __atomic_load_n(&control->exited, __ATOMIC_RELAXED) != 0;
}

static void take_reported_pe(struct graph *graph, int pe)
{
    const struct peer *peer = &ISO->peers[pe];
    const struct control *control = control_of(pe);
    struct graph_pe *p = &graph->pes[pe];
    snprintf(p->host, sizeof p->host, "%s", peer->host);
    if (peer->pid > 0)
        iso_graph_look_at_process(p, peer->pid);
    if (control != NULL)
        iso_graph_take(graph, pe, control);
    else
        p->state = GRAPH_CLOSED;
    if (p->state != GRAPH_EXITED && iso_peer_has_left(pe))
        p->state = GRAPH_LEFT;
}

static void print_pe(void *out, const char *line) { iso_log(*(const enum log_level *)out, "  %s", line); }

static void print_all(enum log_level level, const struct wait *wait, uint64_t now, const char *limit)
{
    const struct state *self = ISO;
    struct graph *graph = iso_graph_create(self->n_pes, now);
    iso_log(level, "%s: this PE has been waiting %.1f s, longer than %s; %s:", iso_call_name(wait->call),
            (double)(now - wait->since_ns) / 1e9, limit, self->n_nodes > 1 ? "the PEs of its node" : "all PEs");
    for (int i = 0; i < self->n_local && graph != NULL; i++)
        take_reported_pe(graph, self->local_pes[i]);
    if (graph != NULL)
        iso_graph_write(graph, print_pe, &level);
    iso_graph_destroy(graph);
    if (level == LOG_ERROR)
        iso_flight_report();
}

/* ---- the claim ---- */

/* Of the node's lowest PE whose memory can be read; NULL: none. */
static struct report_claim *find_claim(void)
{
    const struct state *self = ISO;
    struct report_claim *claim = NULL;
    for (int i = 0; self->segments != NULL && i < self->n_local && claim == NULL; i++)
        if (control_of(self->local_pes[i]) != NULL)
            claim = &control_of(self->local_pes[i])->claim;
    return claim;
}

void iso_report_note(const struct wait *wait, uint64_t now)
{
    uint64_t after = ISO->env->timeout_note > 0 ? (uint64_t)(ISO->env->timeout_note * 1e9) : UINT64_MAX;
    struct report_claim *claim = NULL;
    uint64_t none = 0;
    if (now - wait->since_ns < after || wait->reported || iso_report_timeout_ns(wait->slot) <= after)
        return;
    if ((claim = find_claim()) != NULL && __atomic_load_n(&claim->noted, __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(&claim->noted, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        print_all(LOG_WARN, wait, now, "SHMEM_TIMEOUT_NOTE");
}

void iso_report_wait(struct wait *wait, uint64_t now)
{
    struct report_claim *claim = find_claim();
    /* Acquire and release pair among the PEs of the node, so that the lines of two reports follow each other. */
    wait->reported = claim != NULL && wait->shown_ns != 0 &&
                     wait->shown_ns < __atomic_load_n(&claim->done_ns, __ATOMIC_ACQUIRE);
    if (wait->reported)
        return;
    if (claim != NULL) {
        uint64_t begun = __atomic_load_n(&claim->begun_ns, __ATOMIC_ACQUIRE);
        bool taken = begun > __atomic_load_n(&claim->done_ns, __ATOMIC_ACQUIRE) && begun + CLAIM_NS > now;
        if (taken || !__atomic_compare_exchange_n(&claim->begun_ns, &begun, now, false, __ATOMIC_ACQ_REL,
                                                  __ATOMIC_RELAXED))
            return; /* a PE is printing; the next look sees whether it came to its end */
    }
    wait->reported = true;
    print_all(LOG_ERROR, wait, now, iso_report_limit_name(now - wait->since_ns));
    if (claim != NULL)
        __atomic_store_n(&claim->done_ns, now, __ATOMIC_RELEASE);
    if (ISO->env->timeout_abort)
        iso_abort_job(1, "a wait lasted longer than its timeout and SHMEM_TIMEOUT_ABORT is set");
}
