/* SPDX-License-Identifier: MIT */
/* Which algorithm a collective of the host takes: the facts of a call, the table, the choice, and the run. Of the
 * algorithms that can do a call, coll/select/tables/host.table and SHMEM_COLL choose one.
 * Called by coll_sync.c, coll_move.c, coll_reduce.c, coll_on_host.c and collectives.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "../../shmem/node/flight.h"
#include "../../shmem/profile/profile.h"
#include "../../shmem/collectives.h"
#include "../select/select.h"
#include "coll.h"

#include <limits.h>

static struct select_table *in_force(void) { return (struct select_table *)ISO->select; }

/* ---- the choice ---- */

static struct select_facts facts_of(enum coll_op op, const struct team *team, const struct coll_work *w)
{
    const struct slot_nodes *nodes = team->slot.nodes;
    struct select_facts f = {.kind = (int)op, .n_pes = team->n_pes};
    bool central = team->slot.central != NULL, node_order = nodes != NULL && nodes->in_order;
    f.has = central ? ISOD_NEEDS_DIRECT : ISOD_NEEDS_FAR;
    f.has |= central && ISO->oversubscribed ? ISOD_NEEDS_OVER : ISOD_NEEDS_SPARE;
    if (nodes != NULL) {
        f.most_near = nodes->most_near;
        f.has |= (f.most_near > 1 ? ISOD_NEEDS_NODES : 0) | (f.most_near > 0 ? ISOD_NEEDS_SPAN : 0) |
                 (node_order ? ISOD_NEEDS_NODE_ORDER | ISOD_NEEDS_ORDER : 0);
    }
    if (w != NULL) {
        f.bytes = op == COLL_COLLECT ? 0 : w->bytes;
        f.has |= w->exact ? ISOD_NEEDS_ORDER : 0;
        if (f.bytes == 0 || w->dest.base != w->source.base) /* which the specification has alike on all members */
            f.has |= ISOD_NEEDS_APART;
    }
    return f;
}

const struct select_algorithm *iso_host_choose(enum coll_op op, const struct team *team, const struct coll_work *w)
{
    struct select_facts facts = facts_of(op, team, w);
    struct select_table *t = in_force();
    const struct select_entry *e = t->kind[op];
    /* Each kind has a row without conditions (is_total): the walk ends inside the kind's rows. */
    while (!iso_select_row_fits(&e->row, &facts, 1))
        e++;
    if (ISO_UNLIKELY(ISO->env->coll_explain) && team->my_pe == 0) {
        struct select_choice choice = iso_select_choice_of(t, &facts, e);
        iso_select_explain(t, &facts, &choice);
    }
    return e->row.algorithm;
}

/* ---- run ---- */

static struct profile_span count_algorithm(const struct select_algorithm *a, enum coll_op op, struct profile_what what)
{
    struct profile_span span = iso_profile_begin_row(what);
    if (ISO_UNLIKELY(span.row == NULL))
        span.row = iso_profile_new_row(span.block, what, iso_select_host.kinds[op], a->name);
    return span;
}

/* With which call of which team it is, alike on all members. */
ISO_INLINE void leave_choice(const struct profile_span *span, const struct team *team)
{
    if (ISO_LIKELY(span->block == NULL) || ISO_LIKELY(!iso_profile_close(span)))
        return;
    struct profile_span whole = *span;
    whole.key = team->slot.calls;
    whole.more = (uint64_t)team->slot.index << 32 | ((uint32_t)team->world_of[0] + 1);
    iso_profile_end_timed(whole);
}

void iso_coll_run(enum coll_op op, struct team *team, const struct coll_work *w, const char *call)
{
    struct coll c = {&team->slot, team->slot.views, 0, team->my_pe, team->n_pes, call, team};
    if (ISO_UNLIKELY(ISO->debug)) {
        uint32_t dest = w->dest.segment != NULL ? (uint32_t)w->dest.offset + 1 : 0;
        uint64_t bytes = op == COLL_COLLECT ? w->elem_bytes : w->bytes;
        iso_agree_match(team, (struct agree_args){call, bytes, w->root, dest});
    }
    const struct select_algorithm *a = iso_host_choose(op, team, w);
    struct profile_span span;
    span.block = NULL;
    if (ISO_UNLIKELY(ISO->profile != NULL))
        span = count_algorithm(
            a, op, (struct profile_what){PROFILE_COLLECTIVE, (uintptr_t)a, team->slot.index, w->bytes, call});
    if (ISO_LIKELY(team->n_pes > 1)) {
        struct flight flight = iso_flight_begin(team, call, op == COLL_COLLECT ? w->elem_bytes : w->bytes, w->root);
        a->run_host(&c, w);
        iso_flight_end(&flight);
    } else {
        a->run_host(&c, w);
    }
    leave_choice(&span, team);
}

/* The team's algorithm is chosen once; the table is asked for its name alone. */
void iso_host_count_barrier(struct team *team, const char *call)
{
    struct profile_span span;
    if (ISO_UNLIKELY(team->slot.barrier == NULL) && team->n_pes > 1)
        team->slot.barrier = ISO->coll->choose_barrier(team);
    if (ISO_LIKELY(team->n_pes > 1)) {
        const struct profile_what what = {PROFILE_BARRIER, (uintptr_t)team->slot.barrier, team->slot.index, 0, call};
        span = iso_profile_begin_row(what);
        if (ISO_UNLIKELY(span.row == NULL))
            span.row = iso_profile_new_row(span.block, what, iso_select_host.kinds[COLL_BARRIER],
                                           iso_host_choose(COLL_BARRIER, team, NULL)->name);
    } else {
        span = iso_profile_begin(PROFILE_BARRIER, call, 0);
    }
    iso_barrier_sync(team, call);
    leave_choice(&span, team);
}

/* ---- the table ---- */

/* The last row of each kind can do every call. */
static bool is_total(const struct select_table *t)
{
    for (int op = 0; op < COLL_OPS; op++) {
        const struct select_entry *last = t->kind[op + 1] - 1;
        if (last < t->kind[op] || last->row.needs != ISOD_NEEDS_NOTHING || last->row.algorithm->fits != NULL ||
            last->row.max_bytes != SIZE_MAX || last->row.max_pes != INT_MAX) {
            log_error("coll/select/tables/host.table: the last row of %s cannot do every call",
                      iso_select_host.kinds[op]);
            return false;
        }
    }
    return true;
}

struct select_table *iso_host_table_open(const char *forced)
{
    struct select_table *t = iso_select_create(&iso_select_host, "");
    if (t != NULL && iso_select_add_forced(t, forced) && iso_select_add_built_in(t)) {
        iso_select_finish(t);
        if (is_total(t))
            return t;
    }
    iso_select_close(t);
    return NULL;
}

/* Before the start: without what SHMEM_COLL forces. */
size_t iso_coll_table_text(char *text, size_t bytes)
{
    struct select_table *t = in_force() != NULL ? in_force() : iso_host_table_open("");
    size_t len = t != NULL ? iso_select_table_text(t, text, bytes) : 0;
    if (t != in_force())
        iso_select_close(t);
    return len;
}
