/* SPDX-License-Identifier: MIT */
/* The one place where a PE waits: spin, yield, then sleep; meanwhile notice dead peers, and have a wait that lasts
 * too long reported (report.c). With more PEs than cores it does not spin at all, and only for a short time where
 * yields show that others wait on the same core, as PEs of another job do. Plain stores of peers (a GPU's, a NIC's)
 * cannot wake a futex, so the last stage is a timed sleep that stays below one per cent of what was waited already (6
 * per cent where the network is software); messages and completions of another node end it. While they come, the
 * waiting PE stays awake for the next. A wait that lasts is published in the control area, where every PE of the node
 * can read it. */
#include "../../bootstrap/log.h"
#include "../../bootstrap/yield.h"
#include "../memory/segment.h"
#include "../team/slot.h"
#include "channel.h"
#include "node_file.h"
#include "peer.h"
#include "../profile/profile.h"
#include "wait.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLLS_PER_LOOK 16               /* so many polls take as long as a look at the network */
#define POLLS_PER_LOOK_SOFTWARE 32      /* where the network is software */
#define SPIN_IN_TURNS 64u               /* polls, where waits take turns on a core: each keeps the others from it */
#define YIELDS_NEAR_PER_LOOK 8          /* likewise, of a wait for a PE of this node */
#define LOOKS_PER_YIELD 4               /* at the network: an answer that comes during a yield is seen later */
#define YIELDS_PER_LOOK 32              /* between two looks at the clock */
#define SLEEP_AFTER_NS 20000000u        /* yield this long first */
#define SLEEP_AFTER_SOFTWARE_NS 200000u /* as long as some messages take */
#define SLEEP_SHARE 128                 /* of what was waited already: so much later may its end be seen */
#define SLEEP_SHARE_SOFTWARE 16         /* each look takes time of a core that the network needs */
#define SLEEP_MIN_NS 50000u
#define SLEEP_MAX_NS 1000000u
#define SLEEP_LONG_NS 16000000u /* likewise, after 4 s: 250 looks a second at a network would take 1 % of a core */
#define SLEEP_LONG_SHARE 256
#define POLL_PEERS_NS 10000000u /* between two looks at the sockets of the peers */
#define LOOK_FOR_HOLDER_NS 100000000u /* of a lock, in the copies of all PEs: of a wait that lasts, as often */

/* ---- the published record; pairs with read_record of any PE, relaxed on both sides: it is for people ---- */

static void store_word(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

static void store_call(struct wait_record *r, const char *call)
{
    uint64_t words[sizeof r->call / 8] = {0};
    strncpy((char *)words, iso_call_name(call), sizeof r->call - 1);
    for (size_t i = 0; i < sizeof words / 8; i++)
        store_word(&r->call[i], words[i]);
}

static void store_team(struct wait_record *r, const struct slot *slot)
{
    int n = slot != NULL ? slot->n_pes : 0, first = n > 0 ? slot->views[0].pe : 0;
    int stride = n > 1 ? slot->views[1].pe - first : 1;
    for (int i = 2; i < n && stride != 0; i++)
        if (slot->views[i].pe != first + i * stride)
            stride = 0;
    store_word(&r->first, (uint64_t)first);
    store_word(&r->stride, (uint64_t)(int64_t)stride);
    store_word(&r->size, (uint64_t)n);
}

/* -1: not known. */
static int lock_holder(const struct state *self, const void *lock)
{
    for (int i = 0; i < self->n_segments; i++) {
        const struct segment *s = &self->segments[i];
        size_t offset = (size_t)((const char *)lock - s->base);
        if (s->len != 0 && offset < s->limit)
            return self->above.lock_holder(s, offset);
    }
    return -1;
}

static void publish_wait(struct wait *wait, uint64_t seen, uint64_t now)
{
    struct state *self = ISO;
    if (self->control == NULL)
        return;
    bool begins = wait->record < 0;
    unsigned used = __atomic_load_n(&self->wait_used, __ATOMIC_RELAXED);
    for (int i = 0; i < ISO_WAIT_RECORDS && wait->record < 0; i++)
        if ((used & (1u << i)) == 0 &&
            (__atomic_fetch_or(&self->wait_used, 1u << i, __ATOMIC_RELAXED) & (1u << i)) == 0)
            wait->record = i;
    if (wait->shown_ns == 0)
        wait->shown_ns = now;
    if (wait->record < 0) /* more threads wait than can be shown */
        return;
    struct wait_record *r = &self->control->waits[wait->record];
    if (begins) {
        store_call(r, wait->call);
        store_team(r, wait->slot);
        store_word(&r->kind, wait->kind);
        store_word(&r->cmp, (uint64_t)wait->cmp);
        store_word(&r->is_signed, wait->is_signed);
    }
    store_word(&r->addr, (uint64_t)(uintptr_t)wait->addr);
    store_word(&r->expected, wait->expected);
    store_word(&r->seen, seen);
    if (wait->slot != NULL && wait->slot->index == 0) /* this thread is inside, so it may read the number */
        store_word(&self->control->steps, wait->slot->seq);
    if (begins || wait->kind != WAIT_LOCK)
        __atomic_store_n(&r->peer, wait->peer, __ATOMIC_RELAXED);
    if (wait->kind == WAIT_LOCK && now - ISO_MAX(wait->since_ns, wait->looked_ns) > LOOK_FOR_HOLDER_NS) {
        wait->looked_ns = now;
        __atomic_store_n(&r->peer, lock_holder(self, wait->addr), __ATOMIC_RELAXED);
    }
    store_word(&r->since_ns, wait->since_ns);
}

void iso_wait_show(struct wait *wait)
{
    wait->since_ns = iso_clock_now_ns();
    publish_wait(wait, 0, wait->since_ns);
}

void iso_wait_show_kernel(const char *call, int pe, uint64_t addr, uint64_t waited_ns)
{
    struct wait_record *r = ISO->control != NULL ? &ISO->control->waits[ISO_WAIT_OF_KERNEL] : NULL;
    if (r == NULL || (call == NULL && __atomic_load_n(&r->since_ns, __ATOMIC_RELAXED) == 0))
        return;
    store_word(&r->since_ns, 0);
    if (call == NULL)
        return;
    store_call(r, call);
    store_word(&r->kind, WAIT_KERNEL);
    store_word(&r->addr, addr);
    __atomic_store_n(&r->peer, pe, __ATOMIC_RELAXED);
    store_word(&r->since_ns, iso_clock_now_ns() - waited_ns);
}

void iso_wait_finish(struct wait *wait)
{
    struct state *self = ISO;
    uint64_t now = iso_clock_now_ns();
    if (__atomic_load_n(&self->flight_since_ns, __ATOMIC_RELAXED) == 0) /* the first of its call; read by flight.h */
        __atomic_store_n(&self->flight_since_ns, wait->since_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&self->flight_ns, now, __ATOMIC_RELAXED);
    if (ISO_UNLIKELY(self->profile != NULL))
        iso_profile_wait(wait, now - wait->since_ns, wait->lates > 0 ? wait->late : wait->peer);
    if (wait->record < 0)
        return;
    store_word(&self->control->waits[wait->record].since_ns, 0);
    __atomic_fetch_and(&self->wait_used, ~(1u << wait->record), __ATOMIC_RELAXED);
}

/* ---- what ends a wait early ---- */

/* A PE whose launcher was killed would wait for ever, for others that wait likewise. Only PMIx's server stands between
 * this PE and process 1, so a new parent means that the server is gone. Scripts that start PEs by hand may end. */
static void check_launcher(const struct wait *wait)
{
    const struct state *self = ISO;
    const struct end_cause cause = {.pe = -1, .status = 1, .said = true, .why = "the launcher is gone"};
    if (self->parent_pid == 0 || getppid() == self->parent_pid || self->errors == SHMEMX_ERRORS_RETURN)
        return;
    log_error("%s: the launcher (pid %d) is gone while this PE was waiting; ending it", iso_call_name(wait->call),
              self->parent_pid);
    iso_job_hear(&cause);
}

/* ---- PEs that have left ---- */

/* A wait for any PE may be for a device or another thread of this one. */
static bool is_left_alone(const struct state *self)
{
    if (self->n_pes == 1 || self->device != NULL || self->thread_level == SHMEM_THREAD_MULTIPLE)
        return false;
    for (int pe = 0; pe < self->n_pes; pe++)
        if (pe != self->my_pe && !iso_peer_has_left(pe))
            return false;
    return true;
}

/* A PE that has left and without which this wait cannot end; n_pes: all others; -1: none. What a PE of this node wrote
 * is seen once its good-bye is; of another node only collectives are judged. */
static int missing_pe(const struct state *self, const struct wait *wait)
{
    if (self->life != LIFE_RUNNING)
        return -1;
    if (wait->peer >= 0 && self->peers[wait->peer].local && iso_peer_has_left(wait->peer))
        return wait->peer;
    const struct slot *slot = wait->slot;
    if (slot == NULL)
        return wait->peer < 0 && is_left_alone(self) ? self->n_pes : -1;
    /* All PEs had entered the world's last barrier before the first one left. So a member that is still inside of that
     * barrier gets out; its epoch tells it from a member in a later call. No PE is inside a call of another team then.
     */
    for (int i = 0; i < slot->n_pes; i++) {
        int pe = slot->views[i].pe;
        if (pe == self->my_pe || !iso_peer_has_left(pe))
            continue;
        /* Relaxed: iso_peer_has_left has acquired what iso_peer_leaves stored before. */
        uint32_t left_at = __atomic_load_n(&self->peers[pe].left_at, __ATOMIC_RELAXED);
        if (slot->index != 0 || (int32_t)((uint32_t)slot->seq - left_at) > 0)
            return pe;
    }
    return -1;
}

/* The second time that it finds the same: between the two, the wait has looked once more. */
static void check_left(struct wait *wait)
{
    const struct state *self = ISO;
    int pe = missing_pe(self, wait), before = wait->missing - 1;
    char who[32] = "all other PEs have", sentence[128];
    wait->missing = pe + 1;
    if (pe < 0 || pe != before)
        return;
    bool exited = true;
    for (int i = 0; i < self->n_pes && exited; i++)
        exited = i == self->my_pe || (pe < self->n_pes && i != pe) || iso_report_has_exited(i);
    if (pe < self->n_pes)
        snprintf(who, sizeof who, "pe %d has", pe);
    snprintf(sentence, sizeof sentence, "%s %s", who,
             exited ? "returned from main, or called exit, without shmem_finalize"
                    : "left the job, by shmem_finalize or a start that failed");
    log_error("%s, while this PE waits in %s; ending it", sentence, iso_call_name(wait->call));
    iso_job_break(pe < self->n_pes ? pe : -1, sentence);
}

void iso_wait_poll_peers(const struct wait *wait)
{
    iso_channel_progress();
    iso_node_watch(wait);
}

/* ---- who is late, where calls are counted: a vote of the looks, of which most stay for one PE ---- */

static void look_who_is_late(struct wait *wait)
{
    int pe = iso_report_only_absent(wait);
    if (pe < 0)
        return;
    if (wait->lates == 0)
        wait->late = pe;
    wait->lates += wait->late == pe ? 1u : -1u;
}

/* ---- the stages ---- */

static bool progress_wait(const struct state *self) { return self->above.progress != NULL && self->above.progress(); }

void iso_wait_spin(struct state *self, unsigned polls)
{
    __atomic_store_n(&self->spin, polls, __ATOMIC_RELAXED);
    __atomic_store_n(&self->spin_alone, self->ofi != NULL ? ISO_MIN(polls, 4u) : polls, __ATOMIC_RELAXED);
}

static void yield_core(struct state *self, struct wait *wait)
{
    enum yielded yielded = iso_yield(&wait->yielding_ns);
    unsigned spin = yielded == YIELDED_TURN ? ISO_MIN(self->spin_most, SPIN_IN_TURNS) : self->spin_most;
    if (yielded != YIELDED_SLEPT && spin != __atomic_load_n(&self->spin, __ATOMIC_RELAXED))
        iso_wait_spin(self, spin);
}

int iso_wait_slow(struct wait *wait, uint64_t seen)
{
    struct state *self = ISO;
    if (iso_job_is_broken() && (!wait->outlives || iso_peer_is_lost(wait->peer)))
        return iso_job_give_up(wait->call);
    if (wait->slot != NULL && ISO_UNLIKELY(iso_slot_is_broken(wait->slot)))
        return self->above.give_up_team(wait->slot, wait->call);
    /* What is waited for may come by the network, or need this PE to serve another. */
    bool network = self->verbs != NULL || self->ofi != NULL;
    bool near = network && wait->peer >= 0 && self->peers[wait->peer].local;
    if (wait->polls < __atomic_load_n(&self->spin, __ATOMIC_RELAXED)) {
        if (network && !near) {
            wait->polls += (self->soft_network ? POLLS_PER_LOOK_SOFTWARE : POLLS_PER_LOOK) - 1;
            wait->worked |= progress_wait(self);
        } else {
            iso_cpu_relax();
        }
        return 0;
    }
    if (!wait->sleeping && ++wait->yields % YIELDS_PER_LOOK != 0) {
        if (network && (!near || wait->yields % YIELDS_NEAR_PER_LOOK == 0))
            wait->worked |= progress_wait(self);
        /* A look at a network may itself be a system call. Where PEs share cores, each look gives the core away. */
        if (!network || near || self->spin_most == 0 || wait->yields % LOOKS_PER_YIELD == 0)
            yield_core(self, wait);
        return 0;
    }
    uint64_t now = iso_clock_now_ns();
    if (wait->since_ns == 0)
        wait->since_ns = wait->checked_ns = wait->busy_ns = now;
    uint64_t waited = now - wait->since_ns;
    if (progress_wait(self) || wait->worked)
        wait->busy_ns = now;
    wait->worked = false;
    if (now - wait->checked_ns > POLL_PEERS_NS) {
        wait->checked_ns = now;
        publish_wait(wait, seen, now);
        if (ISO_UNLIKELY(self->profile != NULL))
            look_who_is_late(wait);
        iso_wait_poll_peers(wait);
        check_left(wait);
        check_launcher(wait);
        iso_report_note(wait, now);
    }
    uint64_t timeout = wait->reported ? 0 : iso_report_timeout_ns(wait->slot);
    if (timeout != 0 && waited > timeout)
        iso_report_wait(wait, now);
    /* A yield may return at once although a thread of the kernel waits for the core, for milliseconds. Where the
     * network is software, the kernel carries what is waited for, so the wait sleeps soon. */
    wait->sleeping = now - wait->busy_ns > (self->soft_network ? SLEEP_AFTER_SOFTWARE_NS : SLEEP_AFTER_NS);
    if (!wait->sleeping) {
        yield_core(self, wait);
        return 0;
    }
    uint64_t share = waited / (self->soft_network ? SLEEP_SHARE_SOFTWARE : SLEEP_SHARE);
    uint64_t most = ISO_MIN(ISO_MAX(waited / SLEEP_LONG_SHARE, (uint64_t)SLEEP_MAX_NS), (uint64_t)SLEEP_LONG_NS);
    uint64_t ns = ISO_MIN(ISO_MAX(share, (uint64_t)SLEEP_MIN_NS), most);
    const struct timespec nap = {0, (long)ns};
    if (self->above.rest == NULL || !self->above.rest(ns))
        nanosleep(&nap, NULL);
    return 0;
}
