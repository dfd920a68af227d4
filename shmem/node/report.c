/* SPDX-License-Identifier: MIT */
/* The report of waits that last longer than SHMEM_TIMEOUT: one for all PEs of the node, printed by the PE whose deadline
 * passes first. It groups the records that waiting PEs publish: "pe 1-31 wait in shmem_barrier_all for pe 0".
 * invariant: a wait stays silent only when a report that began after its record was published is complete, so none is
 * lost when the PE that prints one dies. Called by wait.c; proxy.c and coll/ ask for the deadline. */

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../memory/segment.h"
#include "../team/slot.h"
#include "peer.h"
#include "wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLAIM_NS 2000000000u /* a report takes milliseconds: a PE that has begun one for so long is gone */
#define ENTRIES_OF_PE (ISO_WAIT_RECORDS + 1)

struct entry {
    int pe;
    bool printed;
    struct wait_record record; /* a copy; peer of a lock: its holder, -1: not known */
};

struct report {
    struct entry *entries;
    int n;
    bool *set;     /* [n_pes] what a line is about */
    bool *others;  /* [n_pes] what it waits for */
    uint64_t now;
};

/* What a line says of several waits. */
struct report_group {
    const struct wait_record *record; /* the first one's */
    int n_pes, n_waits;
    bool one_peer;
    uint64_t oldest_ns, newest_ns; /* when they began */
};

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

/* ---- the claim ---- */

/* NULL: not to be read from here. Memory of a PE that is a thread of this process goes when it leaves. */
static struct control *control_of(int pe)
{
    const struct state *self = ISO;
    if (self->peers[pe].threaded && iso_peer_has_left(pe))
        return NULL;
    return (struct control *)(void *)self->peers[pe].control;
}

/* ---- what is known ---- */

static uint64_t load_word(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

/* The waiting PE published the address in its own address space. */
static int lock_holder(int pe, uint64_t addr)
{
    const struct state *self = ISO;
    for (int i = 0; i < self->n_segments; i++) {
        const struct segment *s = &self->segments[i];
        uint64_t offset = addr - (uint64_t)(uintptr_t)s->peers[pe].base;
        if (s->len != 0 && offset < s->limit)
            return self->above.lock_holder(s, (size_t)offset);
    }
    return -1;
}

static void take_pe(struct report *report, int pe)
{
    const struct control *control = control_of(pe);
    bool syncs = false;
    for (int i = 0; control != NULL && i < ENTRIES_OF_PE; i++) {
        struct entry *e = &report->entries[report->n];
        const uint64_t *from = (const uint64_t *)(const void *)&control->waits[i];
        uint64_t words[sizeof e->record / 8];
        for (size_t k = 0; k < sizeof words / 8; k++) /* pairs with publish of wait.c; a torn record is acceptable */
            words[k] = load_word(from + k);
        memcpy(&e->record, words, sizeof e->record);
        ((char *)e->record.call)[sizeof e->record.call - 1] = '\0';
        if (e->record.since_ns == 0 || (i == ISO_WAIT_OF_KERNEL && !syncs))
            continue; /* what a kernel waited for once says nothing now */
        e->pe = pe;
        e->printed = false;
        if (e->record.kind == WAIT_LOCK)
            e->record.peer = lock_holder(pe, e->record.addr);
        syncs |= e->record.kind == WAIT_STREAM;
        report->n++;
    }
}

/* ---- sentences ---- */

/* "pe 1-31, 33" */
static void write_pes(const bool *set, char *text, size_t bytes)
{
    int n = ISO->n_pes;
    size_t used = (size_t)snprintf(text, bytes, "pe ");
    const char *mark = "";
    for (int pe = 0; pe < n && used + 32 < bytes; pe++) {
        if (!set[pe])
            continue;
        int last = pe;
        while (last + 1 < n && set[last + 1])
            last++;
        used += (size_t)snprintf(text + used, bytes - used, last > pe ? "%s%d-%d" : "%s%d", mark, pe, last);
        mark = ", ";
        pe = last;
    }
    if (used + 32 >= bytes)
        snprintf(text + used, bytes - used, ", ...");
}

static struct report_group take_group(struct report *report, int first)
{
    struct report_group g = {&report->entries[first].record, 0, 0, true, UINT64_MAX, 0};
    memset(report->set, 0, (size_t)ISO->n_pes);
    for (int i = first; i < report->n; i++) {
        struct entry *e = &report->entries[i];
        const struct wait_record *a = &e->record, *b = g.record;
        bool alike = a->kind == b->kind && a->first == b->first && a->stride == b->stride && a->size == b->size &&
                     (a->size != 0 || a->peer == b->peer) && memcmp(a->call, b->call, sizeof a->call) == 0;
        if (e->printed || !alike)
            continue;
        e->printed = true;
        g.n_pes += !report->set[e->pe];
        g.n_waits++;
        g.one_peer &= e->record.peer == g.record->peer;
        report->set[e->pe] = true;
        g.oldest_ns = ISO_MIN(g.oldest_ns, e->record.since_ns);
        g.newest_ns = ISO_MAX(g.newest_ns, e->record.since_ns);
    }
    return g;
}

/* Members of the team that are not in the same call. Of other nodes that is not known here. */
static int take_missing(struct report *report, const struct wait_record *r)
{
    const struct state *self = ISO;
    int n = 0;
    memset(report->others, 0, (size_t)self->n_pes);
    for (uint64_t i = 0; i < r->size; i++) {
        uint64_t pe = r->first + i * r->stride; /* modulo 2^64: the stride may be negative */
        bool missing = pe < (uint64_t)self->n_pes && self->peers[pe].local && !report->set[pe];
        if (missing)
            report->others[pe] = true;
        n += missing;
    }
    return n;
}

static void write_waited(struct report *report, const struct report_group *g, char *text, size_t bytes)
{
    const struct wait_record *r = g->record;
    bool known = g->one_peer && r->peer >= 0 && r->peer < ISO->n_pes;
    if (r->kind == WAIT_STREAM)
        snprintf(text, bytes, "the work in %s stream%s", g->n_pes > 1 ? "their" : "its",
                 g->n_waits > 1 || r->addr == 0 ? "s" : "");
    else if (r->kind == WAIT_LOCK && known)
        snprintf(text, bytes, "pe %d, which holds the lock", (int)r->peer);
    else if (r->kind == WAIT_LOCK)
        snprintf(text, bytes, "the PE that holds the lock");
    else if (known && (r->size == 0 || !report->set[r->peer]))
        snprintf(text, bytes, "pe %d", (int)r->peer);
    else if (r->size == 0)
        snprintf(text, bytes, "any PE");
    else if (r->stride != 0 && take_missing(report, r) > 0)
        write_pes(report->others, text, bytes);
    else
        snprintf(text, bytes, "other members of the team");
}

static double seconds(uint64_t now, uint64_t since) { return since < now ? (double)(now - since) / 1e9 : 0.0; }

static void print_group(struct report *report, int first)
{
    struct report_group g = take_group(report, first);
    const struct wait_record *r = g.record;
    char who[512], waited[512], values[96] = "", words[256] = "", time[64];
    write_pes(report->set, who, sizeof who);
    write_waited(report, &g, waited, sizeof waited);
    static const char *const comparisons[] = {"", "== ", "!= ", "< ", "<= ", "> ", ">= "};
    const char *how = r->cmp < sizeof comparisons / sizeof comparisons[0] ? comparisons[r->cmp] : "";
    if (r->is_signed != 0)
        snprintf(values, sizeof values, "expected %s%" PRId64 ", seen %" PRId64, how, (int64_t)r->expected,
                 (int64_t)r->seen);
    else
        snprintf(values, sizeof values, "expected %s%" PRIu64 ", seen %" PRIu64, how, r->expected, r->seen);
    double most = seconds(report->now, g.oldest_ns), least = seconds(report->now, g.newest_ns);
    if (most - least < 0.05)
        snprintf(time, sizeof time, "for %.1f s", most);
    else
        snprintf(time, sizeof time, "for %.1f to %.1f s", least, most);
    if (r->kind == WAIT_STREAM && g.n_waits == 1 && r->addr != 0)
        snprintf(words, sizeof words, ": stream %#" PRIx64, r->addr);
    else if (r->kind == WAIT_KERNEL && g.n_waits == 1)
        snprintf(words, sizeof words, ": address %#" PRIx64, r->addr); /* the kernel's own report says more */
    else if (r->kind != WAIT_STREAM && g.n_waits == 1)
        snprintf(words, sizeof words, ": address %#" PRIx64 ", %s", r->addr, values);
    else if (r->kind == WAIT_WORD && r->size == 0)
        snprintf(words, sizeof words, " (pe %d: address %#" PRIx64 ", %s)", report->entries[first].pe, r->addr, values);
    log_error("  %s %s in %s for %s%s, %s", who,
              r->kind == WAIT_KERNEL ? "has a kernel that waits" : g.n_pes > 1 ? "wait" : "waits",
              (const char *)r->call, waited, words, time);
}

/* ---- PEs that do not wait ---- */

enum absence { WAITS, EXITED, OUTSIDE, LEFT, UNKNOWN };

static const struct absent {
    enum absence is;
    const char *one, *many;
} absences[] = {
    {EXITED, "has returned from main, or called exit, without shmem_finalize",
     "have returned from main, or called exit, without shmem_finalize"},
    {OUTSIDE, "does not wait in the library", "do not wait in the library"},
    {LEFT, "has left the job by shmem_finalize", "have left the job by shmem_finalize"},
    {UNKNOWN, "is not reachable by pointer: its waits are not known here",
     "are not reachable by pointer: their waits are not known here"},
};

static enum absence absence_of(const struct report *report, int pe)
{
    const struct control *control = control_of(pe);
    if (iso_report_has_exited(pe))
        return EXITED;
    if (iso_peer_has_left(pe))
        return LEFT;
    if (control == NULL)
        return UNKNOWN;
    for (int i = 0; i < report->n; i++)
        if (report->entries[i].pe == pe)
            return WAITS;
    return OUTSIDE;
}

static void print_absent(struct report *report, const struct absent *absent)
{
    const struct state *self = ISO;
    char who[512];
    int n = 0;
    memset(report->set, 0, (size_t)self->n_pes);
    for (int i = 0; i < self->n_local; i++)
        if (absence_of(report, self->local_pes[i]) == absent->is) {
            report->set[self->local_pes[i]] = true;
            n++;
        }
    if (n == 0)
        return;
    write_pes(report->set, who, sizeof who);
    log_error("  %s %s", who, n > 1 ? absent->many : absent->one);
}

bool iso_report_has_exited(int pe)
{
    const struct control *control = ISO->peers[pe].local ? control_of(pe) : NULL;
    return control != NULL && load_word(&control->exited) != 0;
}

/* ---- the report ---- */

static void print_all(const struct wait *wait, uint64_t now)
{
    const struct state *self = ISO;
    size_t n = (size_t)self->n_pes;
    struct report report = {.now = now};
    report.entries = (struct entry *)calloc((size_t)self->n_local * ENTRIES_OF_PE, sizeof *report.entries);
    report.set = (bool *)calloc(n, sizeof *report.set);
    report.others = (bool *)calloc(n, sizeof *report.others);
    log_error("%s: this PE has been waiting %.1f s, longer than %s; %s:", iso_call_name(wait->call),
              seconds(now, wait->since_ns), iso_report_limit_name(now - wait->since_ns),
              self->n_nodes > 1 ? "the PEs of its node" : "all PEs");
    if (report.entries != NULL && report.set != NULL && report.others != NULL) {
        for (int i = 0; i < self->n_local; i++)
            take_pe(&report, self->local_pes[i]);
        for (int i = 0; i < report.n; i++)
            if (!report.entries[i].printed)
                print_group(&report, i);
        for (size_t i = 0; i < sizeof absences / sizeof absences[0]; i++)
            print_absent(&report, &absences[i]);
    }
    free(report.entries);
    free(report.set);
    free(report.others);
}

void iso_report_wait(struct wait *wait, uint64_t now)
{
    const struct state *self = ISO;
    struct report_claim *claim = NULL;
    for (int i = 0; self->segments != NULL && i < self->n_local && claim == NULL; i++)
        if (control_of(self->local_pes[i]) != NULL)
            claim = &control_of(self->local_pes[i])->claim;
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
    print_all(wait, now);
    if (claim != NULL)
        __atomic_store_n(&claim->done_ns, now, __ATOMIC_RELEASE);
    if (ISO->env->timeout_abort)
        iso_abort_job(1, "a wait lasted longer than its timeout and SHMEM_TIMEOUT_ABORT is set");
}
