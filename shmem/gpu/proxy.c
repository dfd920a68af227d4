/* SPDX-License-Identifier: MIT */
/* The host thread behind the kernels of one PE. It executes the entries that kernels post to the rings
 * (device/api/ring.h), in the order of each ring. It collects and prints the records of waits that last too long. It
 * watches the peers, since a program whose main thread waits for a stream does not. The thread spins only right after
 * work, then yields, then sleeps, so that it takes no time from programs that use no ring. A second thread watches the
 * first one, since a vendor's call can hold it up. Invariant: `done` of a ring is stored after what it counts is
 * visible at its target. Started and stopped by device_start.c; no kernel runs when it stops. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/thread.h"
#include "../../bootstrap/yield.h"
#include "../collectives.h"
#include "../node/wait.h"
#include "../profile/profile.h"
#include "../team/agree.h"
#include "../transport/order.h"
#include "../transport/word.h"
#include "device.h"

#include "../../device/api/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define T word32
#define DIRECT direct32
#include "../transport/amo_direct.h"
#define T word64
#define DIRECT direct64
#include "../transport/amo_direct.h"

#define BATCH 64         /* entries of one ring before the next ring's turn */
#define SPIN_NS 20000u   /* after the last entry: with a core of its own */
#define YIELD_NS 300000u /* after the last entry */
#define SLEEP_MIN_NS 50000u
#define SLEEP_MAX_NS 1000000u
#define WATCH_NS 50000000u           /* between two looks at the peers' sockets */
#define WATCH_STREAMS_NS 1000000u    /* between two looks at streams that wait without a kernel */
#define WATCH_PROXY_NS 250000000u    /* between two looks at the proxy */
#define HELD_NS 1000000000u          /* in one turn of its loop: it is held up */
#define PRINTED_MOST 16              /* records of one episode: until the abort word is cleared */
#define KEPT_MOST (2 * ISOD_RECORDS) /* for shmemx_device_error */

/* One ring as the host sees it. */
struct served {
    struct isod_entry *entries;
    uint64_t *done;
    uint64_t *results;
    char *stages;
    uint64_t next; /* ticket to execute next; the proxy thread's own */
};

/* Pinned memory of one ring; `done`, as struct isod_ring describes it, has a line of its own. */
struct pinned_ring {
    _Alignas(ISO_LINE) uint64_t done[2];
    _Alignas(ISO_LINE) struct isod_entry entries[ISOD_RING_ENTRIES];
    uint64_t results[ISOD_RING_ENTRIES];
    char stages[ISOD_RING_STAGES * ISOD_RING_STAGE_BYTES];
};

/* Device memory of one ring, beside its struct isod_ring. */
struct device_ring {
    uint64_t turns[ISOD_RING_ENTRIES];
    uint64_t leases[ISOD_RING_STAGES];
};

struct printed {
    struct isod_record of;
    uint64_t at_ns;
};

struct proxy {
    struct state *state;
    struct device *device;
    struct ctx ctx; /* of its operations: no other thread's */
    struct isod_host *host, *host_for_kernels;
    struct pinned_ring *pinned;
    void *memory; /* device: struct isod_ring [ISOD_RINGS], then struct device_ring [ISOD_RINGS] */
    struct served served[ISOD_RINGS];
    pthread_t thread, watcher;
    bool started, watched;
    uint32_t stop; /* atomic */

    /* What the watcher sees of the thread, relaxed: it is for people. */
    uint64_t turns;          /* of its loop */
    int32_t kind, pe;        /* of the last entry that it has begun; kind -1: there is nothing to do */
    pthread_mutex_t resting; /* with stops: the watcher's rest, which the end cuts short */
    pthread_cond_t stops;

    pthread_mutex_t records_lock; /* all below */
    struct isod_record kept[KEPT_MOST];
    struct isod_record first[KEPT_MOST]; /* of each (team, slot) that gave up, until its reset */
    unsigned n_kept, n_first, printed;
    struct printed last[PRINTED_MOST]; /* a ring: n_printed so far */
    unsigned n_printed;
};

/* ---- one entry ---- */

static const char *call_of_kind(uint32_t kind)
{
    static const char *const names[] = {"shmemd_put", "shmemd_put",    "shmemd_put", "shmemd_get",
                                        "shmemd_get", "shmemd_atomic", "shmemd_g",   "shmemd_signal_op"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : "the proxy";
}
static const char *call_of(const struct isod_entry *e) { return call_of_kind(e->kind); }

/* Ends the job with a sentence when PE or address is wrong, in either error mode: a kernel cannot do so by itself. */
static struct place place_of(const struct isod_entry *e, uint64_t bytes, const char *arg)
{
    if (e->pe < 0 || e->pe >= ISO->n_pes)
        iso_fatal_pe(call_of(e), e->pe, ISO->n_pes);
    return iso_place((const void *)(uintptr_t)e->addr, (size_t)bytes, e->pe, call_of(e), arg);
}

static uint64_t atomic_at(struct proxy *p, struct place at, struct amo op, const char *call)
{
    if (at.cpu == NULL)
        return iso_far_amo(&p->ctx, at, op, call);
    return op.bytes == 4 ? direct32((word32 *)(void *)at.cpu, op) : direct64((word64 *)(void *)at.cpu, op);
}

/* Of at most 8 bytes, aligned; far ones of 4 or 8. */
static void put_word(struct proxy *p, struct place to, const void *source, uint64_t bytes, const char *call)
{
    uint64_t word = iso_word_of(source, bytes);
    if (to.cpu != NULL)
        iso_word_store(to.cpu, word, bytes);
    else
        iso_far_store(&p->ctx, to, word, (unsigned)bytes, call);
}

/* Words, and both halves of a packet, arrive whole, since a thread may poll them. Longer data has no such promise. */
static void put(struct proxy *p, const struct isod_entry *e, const void *source, uint64_t bytes)
{
    struct place to = place_of(e, bytes, "dest");
    bool line = e->kind == ISOD_RING_INLINE && bytes == 2 * sizeof(uint64_t);
    uint64_t most = line ? sizeof(uint64_t) : bytes;
    bool word = most <= sizeof(uint64_t) && (most & (most - 1)) == 0 && ((uintptr_t)to.addr & (most - 1)) == 0;
    word = word && to.segment != NULL && e->kind != ISOD_RING_DIRECT;
    word = word && (to.cpu != NULL || (bytes >= 4 && to.segment->on_device));
    if (word && line) {
        put_word(p, to, source, 8, call_of(e));
        put_word(p, iso_place_behind(to, 8), (const char *)source + 8, 8, call_of(e));
    } else if (word) {
        put_word(p, to, source, bytes, call_of(e));
    } else if (to.cpu != NULL && e->kind != ISOD_RING_DIRECT) {
        memcpy(to.cpu, source, bytes);
    } else {
        /* Entries, stages and sources stay as they are until `done` has passed: then quiet has. */
        iso_far_put_nbi(&p->ctx, to, source, bytes, call_of(e));
    }
}

static void get(struct proxy *p, const struct isod_entry *e, void *dest, uint64_t bytes)
{
    struct place from = place_of(e, bytes, "source");
    if (from.cpu != NULL && e->kind != ISOD_RING_GET_DIRECT)
        memcpy(dest, from.cpu, bytes);
    else
        /* Blocking: a later signal may say that the source was read, and would overtake a get that is under way. */
        iso_far_get(&p->ctx, from, dest, bytes, call_of(e));
}

static uint64_t proxy_amo(struct proxy *p, const struct isod_entry *e)
{
    struct place at = place_of(e, e->bytes, "dest");
    iso_check_aligned(call_of(e), "dest", (const void *)(uintptr_t)e->addr, e->bytes);
    struct amo op = {(enum amo_op)e->op, e->bytes, e->word[0], e->word[1], e->word[2] != 0};
    return atomic_at(p, at, op, call_of(e));
}

/* Words of 4 and 8 bytes are fetched by an atomic, which never sees half of a word. Staged bytes have no atomics. */
static uint64_t get_word(struct proxy *p, const struct isod_entry *e)
{
    uint64_t word = 0;
    struct place from = place_of(e, e->bytes, "source");
    iso_check_aligned(call_of(e), "source", (const void *)(uintptr_t)e->addr, e->bytes);
    struct amo fetch = {AMO_FETCH, e->bytes, 0, 0, true};
    bool has_atomics = from.cpu != NULL || (from.segment != NULL && !from.segment->staged);
    if (e->bytes >= 4 && has_atomics)
        return atomic_at(p, from, fetch, call_of(e));
    if (from.cpu != NULL)
        return iso_word_load(from.cpu, e->bytes);
    iso_far_get(&p->ctx, from, &word, e->bytes, call_of(e));
    return word;
}

/* After all earlier puts of its ring: those by pointer are ordered by the release of the word, the others by quiet, of
 * that PE alone. */
static void proxy_send_signal(struct proxy *p, const struct isod_entry *e)
{
    struct place at = place_of(e, 8, "sig_addr");
    iso_check_aligned(call_of(e), "sig_addr", (const void *)(uintptr_t)e->addr, 8);
    struct amo op = {e->op == SHMEM_SIGNAL_ADD ? AMO_ADD : AMO_SET, 8, e->word[0], 0, false};
    if (at.cpu != NULL && iso_ctx_is_dirty(&p->ctx))
        iso_far_pe_quiet(&p->ctx, e->pe); /* else the signal overtakes a transport */
    if (at.cpu != NULL)
        (void)direct64((word64 *)(void *)at.cpu, op); /* release: pairs with the acquire of the wait */
    else
        iso_far_signal(&p->ctx, at, e->word[0], (int)e->op, call_of(e));
}

static void execute(struct proxy *p, struct served *s, const struct isod_entry *e, uint64_t *result)
{
    char *stage = s->stages + e->word[0] % ISOD_RING_STAGES * ISOD_RING_STAGE_BYTES;
    __atomic_store_n(&p->kind, (int32_t)e->kind, __ATOMIC_RELAXED);
    __atomic_store_n(&p->pe, e->pe, __ATOMIC_RELAXED);
    bool moves = e->kind == ISOD_RING_STAGED || e->kind == ISOD_RING_DIRECT || e->kind == ISOD_RING_GET_STAGED ||
                 e->kind == ISOD_RING_GET_DIRECT;
    uint64_t bytes = moves ? e->word[1] : e->kind == ISOD_RING_SIGNAL ? 8 : e->bytes;
    struct profile_span span = iso_profile_enter(PROFILE_PROXY, call_of(e), bytes);
    span.pe = e->pe;
    span.key = e->addr;
    span.more = span.bytes;
    switch (e->kind) {
    case ISOD_RING_INLINE:
        put(p, e, e->word, ISO_MIN(e->bytes, (uint32_t)sizeof e->word));
        break;
    case ISOD_RING_STAGED:
        put(p, e, stage, e->word[1]);
        break;
    case ISOD_RING_DIRECT:
        put(p, e, (const void *)(uintptr_t)e->word[0], e->word[1]);
        break;
    case ISOD_RING_GET_STAGED:
        get(p, e, stage, e->word[1]);
        break;
    case ISOD_RING_GET_DIRECT:
        get(p, e, (void *)(uintptr_t)e->word[0], e->word[1]);
        break;
    case ISOD_RING_AMO:
        /* Relaxed: ordered by the release store of `done`, which its reader has acquired. */
        __atomic_store_n(result, proxy_amo(p, e), __ATOMIC_RELAXED);
        break;
    case ISOD_RING_GET_WORD:
        __atomic_store_n(result, get_word(p, e), __ATOMIC_RELAXED); /* likewise */
        break;
    case ISOD_RING_SIGNAL:
        proxy_send_signal(p, e);
        break;
    default:
        iso_fatal("the proxy", "an entry of kind %u is not known; a kernel has written beyond its memory", e->kind);
    }
    iso_profile_leave(&span);
}

/* ---- the rings ---- */

/* All before is visible at its targets. Release: pairs with the peek in isod_ring_is_done, and orders results and data
 * that a kernel has asked for before it. */
static void publish_done(struct served *s) { __atomic_store_n(s->done, s->next, __ATOMIC_RELEASE); }

/* Entries executed. Where a transport is on the way, serve_all publishes them, else each is published by itself. */
static unsigned serve_ring(struct proxy *p, struct served *s)
{
    unsigned n = 0;
    for (; n < BATCH; n++) {
        struct isod_entry *e = &s->entries[s->next % ISOD_RING_ENTRIES];
        /* Acquire: pairs with the flag store in isod_ring_write; the entry, and data it names, were stored before. */
        if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) != s->next + 1)
            break;
        uint64_t *result = &s->results[s->next % ISOD_RING_ENTRIES];
        bool is_pe = e->pe >= 0 && e->pe < ISO->n_pes;
        if (ISO_UNLIKELY(__atomic_load_n(&p->host->abort, __ATOMIC_RELAXED) == ISOD_ABORT_DEATH) && is_pe &&
            __atomic_load_n(&ISOD_GONE(p->host)[e->pe], __ATOMIC_RELAXED) != 0) /* pairs with lose_pe */
            /* Nothing is done for a PE that is gone: its memory may never have been mapped here. */
            __atomic_store_n(result, 0, __ATOMIC_RELAXED);
        else
            execute(p, s, e, result);
        s->next++;
        if (!iso_ctx_is_dirty(&p->ctx)) {
            iso_quiet(&p->ctx);
            publish_done(s);
        }
    }
    return n;
}

/* One quiet for all rings: it takes a round trip, and the blocks of a kernel post to different rings at once. */
static unsigned serve_all(struct proxy *p)
{
    unsigned n = 0;
    for (unsigned i = 0; i < ISOD_RINGS; i++)
        n += serve_ring(p, &p->served[i]);
    if (n == 0)
        return 0;
    iso_quiet(&p->ctx);
    for (unsigned i = 0; i < ISOD_RINGS; i++)
        if (*p->served[i].done != p->served[i].next) /* no other thread writes it */
            publish_done(&p->served[i]);
    __atomic_store_n(&p->kind, -1, __ATOMIC_RELAXED);
    return n;
}

/* ---- records of waits ---- */

static const char *call_name(uint32_t call)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        ISOD_CALLS(NAME)
#undef NAME
    };
    return call < ISOD_CALL_COUNT ? names[call] : "a kernel";
}

_Static_assert(offsetof(struct isod_record, call) == 0 && offsetof(struct isod_record, pe) == 4 &&
                   offsetof(struct isod_record, team) == 40 && offsetof(struct isod_record, slot) == 44 &&
                   offsetof(struct isod_record, block) == 48 && offsetof(struct isod_record, thread) == 52,
               "isod_record_begin stores two fields as one word");

/* Calls on streams without a slot of the user's have one of the library's own. */
static bool has_users_slot(const struct isod_record *r)
{
    return r->slot != ISO_SLOT_ON_STREAM && r->slot != ISO_SLOT_OF_MEMBER;
}
/* "slot 3 of team 1" */
static void record_place(const struct isod_record *r, char *text, size_t bytes)
{
    if (has_users_slot(r))
        snprintf(text, bytes, "slot %d of team %d", r->slot, r->team);
    else
        snprintf(text, bytes, "a stream, team %d", r->team);
}

static void print_misuse(const struct isod_record *r)
{
    char place[48];
    char what[256] = "it was called wrongly", from[32] = "", who[48] = "";
    unsigned long long expected = r->expected, seen = r->seen;
    switch (r->waited_ns) {
#define SENTENCE(id, sentence)                                 \
    case ISOD_MISUSE_##id:                                     \
        snprintf(what, sizeof what, sentence, expected, seen); \
        break;
        ISOD_MISUSES(SENTENCE)
#undef SENTENCE
    }
    if (r->pe >= 0)
        snprintf(from, sizeof from, ", from pe %d", r->pe);
    if (r->waited_ns != ISOD_MISUSE_NO_RING) /* such a kernel does not say who */
        snprintf(who, sizeof who, "block %u, thread %u: ", r->block, r->thread);
    record_place(r, place, sizeof place);
    log_error("%s%s: %s%s (%s)", call_name(r->call), from, who, what, place);
}

static void print_record(const struct isod_record *r)
{
    char waited[32] = "any PE", who[48] = "its stream", how[96], place[48];
    double seconds = (double)r->waited_ns / 1e9;
    if (r->thread != ISOD_THREAD_OF_STREAM)
        snprintf(who, sizeof who, "block %u, thread %u", r->block, r->thread);
    if (r->pe >= 0)
        snprintf(waited, sizeof waited, "pe %d", r->pe);
    if (r->state == ISOD_RECORD_MISUSE) {
        print_misuse(r);
        return;
    }
    if (r->state == ISOD_RECORD_LATE)
        snprintf(how, sizeof how, "has been waiting %.1f s for %s, longer than %s", seconds, waited,
                 iso_report_limit_name(r->waited_ns));
    else
        snprintf(how, sizeof how, "gave up waiting for %s after %.1f s", waited, seconds);
    record_place(r, place, sizeof place);
    log_error("%s: %s %s: address %#" PRIx64 ", expected %" PRIu64 ", seen %" PRIu64 " (%s)", call_name(r->call), who,
              how, r->addr, r->expected, r->seen, place);
}

/* The record of that team and slot; NULL: there is none. records_lock is held. */
static struct isod_record *first_of(struct proxy *p, int team, int slot)
{
    for (unsigned i = 0; i < p->n_first; i++)
        if (p->first[i].slot == slot && (p->first[i].team == team || slot < 0))
            return &p->first[i];
    return NULL;
}

/* Each thread of a kernel tells of its own wait: the first is printed for all that wait in this call for this PE since
 * before it was printed. records_lock is held. */
static bool is_repeated(struct proxy *p, const struct isod_record *r)
{
    uint64_t now = iso_clock_now_ns();
    for (unsigned i = 0; i < PRINTED_MOST && r->state != ISOD_RECORD_MISUSE; i++) {
        const struct isod_record *of = &p->last[i].of;
        if (of->state == r->state && of->call == r->call && of->pe == r->pe && of->team == r->team &&
            of->slot == r->slot && now - r->waited_ns < p->last[i].at_ns)
            return true;
    }
    p->last[p->n_printed++ % PRINTED_MOST] = (struct printed){*r, now};
    return false;
}

/* records_lock is held. */
static void keep_record(struct proxy *p, const struct isod_record *r)
{
    if (r->state != ISOD_RECORD_LATE && p->n_first < KEPT_MOST && first_of(p, r->team, r->slot) == NULL)
        p->first[p->n_first++] = *r;
    if (p->n_kept < KEPT_MOST)
        p->kept[p->n_kept++] = *r;
    if (r->state == ISOD_RECORD_LATE)
        iso_wait_show_kernel(call_name(r->call), r->pe, r->addr, r->waited_ns);
    if (is_repeated(p, r))
        return;
    if (p->printed++ < PRINTED_MOST)
        print_record(r);
    else if (p->printed == PRINTED_MOST + 1)
        log_error("more waits of kernels were reported than are printed; shmemx_device_error tells them");
}

static void end_if(bool late)
{
    if (!late || !ISO->env->timeout_abort)
        return;
    iso_proxy_give_up();
    iso_abort_job(1, "a kernel waited longer than its timeout and SHMEM_TIMEOUT_ABORT is set");
}

/* The word of a kernel without a ring, as a record. records_lock is held. */
static void look_for_unreached(struct proxy *p)
{
    uint64_t word = __atomic_load_n(&p->host->unreached, __ATOMIC_RELAXED);
    if (ISO_LIKELY(word == 0))
        return;
    const struct isod_record r = {.state = ISOD_RECORD_MISUSE, .call = ISOD_CALL_NONE, .pe = -1,
                                  .expected = (uint32_t)word, .seen = (uint64_t)ISO->n_pes,
                                  .waited_ns = ISOD_MISUSE_NO_RING,
                                  .team = isod_name_team(word), .slot = isod_name_slot(word)};
    __atomic_store_n(&p->host->gave_up, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&p->host->unreached, 0, __ATOMIC_RELEASE); /* both pair with any_gave_up */
    keep_record(p, &r);
}

/* Takes what has come from the mailbox. */
static void look_at_records(struct proxy *p)
{
    bool late = false; /* a wait is past SHMEM_TIMEOUT */
    pthread_mutex_lock(&p->records_lock);
    look_for_unreached(p);
    for (;;) {
        uint64_t taken = p->host->taken;
        struct isod_record *r = &p->host->records[taken % ISOD_RECORDS];
        /* Acquire: pairs with the flag store of isod_record_tell, which comes after the fields. */
        uint64_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
        if (state == ISOD_RECORD_FREE)
            break;
        late = late || state == ISOD_RECORD_LATE;
        if (state == ISOD_RECORD_TRACE)
            iso_profile_kernel_wait(call_name(r->call), r->pe, r->waited_ns / 2); /* the rest was in the record before */
        else
            keep_record(p, r);
        __atomic_store_n(&r->state, ISOD_RECORD_FREE, __ATOMIC_RELAXED);
        /* Release: pairs with the acquire load of isod_record_take, whose stores come after our reads. */
        __atomic_store_n(&p->host->taken, taken + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&p->records_lock);
    end_if(late);
}

void iso_proxy_report(struct device *device, const struct isod_record *record)
{
    struct proxy *p = device->proxy;
    pthread_mutex_lock(&p->records_lock);
    keep_record(p, record);
    pthread_mutex_unlock(&p->records_lock);
    end_if(record->state == ISOD_RECORD_LATE);
}

static void fill_error(shmemx_device_error_t *error, const struct isod_record *r)
{
    memset(error, 0, sizeof *error);
    snprintf(error->call, sizeof error->call, "%s", call_name(r->call));
    error->pe = r->pe;
    error->team_slot = has_users_slot(r) ? r->slot : -1;
    error->block = r->block;
    error->thread = r->thread != ISOD_THREAD_OF_STREAM ? r->thread : 0;
    error->addr = (const void *)(uintptr_t)r->addr;
    error->expected = r->expected;
    error->seen = r->seen;
    error->waited_seconds = r->state == ISOD_RECORD_MISUSE ? 0 : (double)r->waited_ns / 1e9;
    error->gave_up = r->state == ISOD_RECORD_LATE ? 0 : r->state == ISOD_RECORD_GAVE_UP ? 1 : 2;
    error->broken_by = iso_job_broken_by();
    error->team = r->slot != -1 ? iso_team_at(r->team) : SHMEM_TEAM_INVALID;
}

bool iso_proxy_first_error(struct device *device, int team, int slot, shmemx_device_error_t *error)
{
    struct proxy *p = device->proxy;
    look_at_records(p);
    pthread_mutex_lock(&p->records_lock);
    const struct isod_record *r = first_of(p, team, slot);
    if (r != NULL)
        fill_error(error, r);
    pthread_mutex_unlock(&p->records_lock);
    return r != NULL;
}

SHMEM_API(shmemx_device_error, pshmemx_device_error);
int pshmemx_device_error(shmemx_device_error_t *error)
{
    if (ISO->life != LIFE_RUNNING)
        return iso_refuse_entry(__func__);
    if (error == NULL)
        return iso_refuse(__func__, "error is a null pointer");
    struct proxy *p = ISO->device != NULL ? ISO->device->proxy : NULL;
    if (p == NULL)
        return 0; /* no kernel of ours has run */
    look_at_records(p);
    pthread_mutex_lock(&p->records_lock);
    int any = p->n_kept > 0;
    if (any) {
        fill_error(error, &p->kept[0]);
        memmove(p->kept, p->kept + 1, --p->n_kept * sizeof p->kept[0]);
    }
    pthread_mutex_unlock(&p->records_lock);
    return any;
}

/* ---- the abort word ---- */

/* Relaxed, pairs with the relaxed look of isod_stops: it stands for itself. */
void iso_proxy_give_up(void)
{
    struct proxy *p = ISO->device != NULL ? ISO->device->proxy : NULL;
    if (p != NULL && p->host != NULL)
        __atomic_store_n(&p->host->abort, ISOD_ABORT_ALL, __ATOMIC_RELAXED);
}

/* Any thread that hears of it. Release: a kernel that sees the second word soon sees the first one. */
static void lose_pe(int pe)
{
    struct proxy *p = ISO->device != NULL ? ISO->device->proxy : NULL;
    uint64_t none = ISOD_ABORT_NOT;
    if (p == NULL || p->host == NULL)
        return;
    __atomic_store_n(&ISOD_GONE(p->host)[pe], 1, __ATOMIC_RELAXED);
    (void)__atomic_compare_exchange_n(&p->host->abort, &none, ISOD_ABORT_DEATH, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
}

/* Another team may get its number. Its errors are told without a team. */
void iso_proxy_forget_team(struct device *device, int team)
{
    struct proxy *p = device->proxy;
    look_at_records(p);
    pthread_mutex_lock(&p->records_lock);
    for (unsigned i = p->n_first; i-- > 0;)
        if (p->first[i].team == team && p->first[i].slot != -1)
            p->first[i] = p->first[--p->n_first];
    for (unsigned i = 0; i < p->n_kept; i++)
        if (p->kept[i].team == team)
            p->kept[i].team = 0; /* no team's */
    pthread_mutex_unlock(&p->records_lock);
}

void iso_proxy_resume(struct device *device, int team, int slot)
{
    struct proxy *p = device->proxy;
    struct isod_record *r;
    pthread_mutex_lock(&p->records_lock);
    p->printed = 0;
    const int slots[] = {slot, ISO_SLOT_ON_STREAM, ISO_SLOT_OF_MEMBER, -1};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        while ((r = first_of(p, team, slots[i])) != NULL)
            *r = p->first[--p->n_first];
    pthread_mutex_unlock(&p->records_lock);
    pthread_mutex_lock(&device->lock); /* a watch of streams that has seen the abort must not end a later call */
    __atomic_store_n(&p->host->abort, ISOD_ABORT_NOT, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&device->lock);
}

SHMEM_API(shmemx_device_abort, pshmemx_device_abort);
void pshmemx_device_abort(void)
{
    if (ISO->life != LIFE_RUNNING)
        (void)iso_refuse_entry(__func__);
    else
        iso_proxy_give_up();
}

/* ---- the thread ---- */

static void rest(const struct proxy *p, uint64_t idle_ns)
{
    if (idle_ns < SPIN_NS && p->state->spin_most > 0) {
        iso_cpu_relax();
    } else if (idle_ns < (p->state->soft_network ? SPIN_NS : YIELD_NS)) { /* such a network needs the core itself */
        iso_yield(NULL);
    } else {
        uint64_t ns = ISO_MIN(ISO_MAX(idle_ns / 16, (uint64_t)SLEEP_MIN_NS), (uint64_t)SLEEP_MAX_NS);
        struct timespec t = {0, (long)ns};
        nanosleep(&t, NULL);
    }
}

static void *proxy_main(void *argument)
{
    struct proxy *p = (struct proxy *)argument;
    iso_thread_adopt(p->state);
    uint64_t worked = iso_clock_now_ns(), watched = worked, watched_streams = worked;
    while (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE) == 0) { /* pairs with iso_proxy_stop */
        __atomic_store_n(&p->turns, p->turns + 1, __ATOMIC_RELAXED);
        unsigned n = serve_all(p);
        uint64_t now = iso_clock_now_ns();
        look_at_records(p);
        if (now - watched_streams > WATCH_STREAMS_NS) {
            watched_streams = now;
            ISO->coll->streams.watch(&p->host->abort);
        }
        if (now - watched > WATCH_NS) {
            watched = now;
            iso_wait_poll_peers(NULL); /* ends the job when a peer has died; iso_abort_job frees the kernels first */
        }
        if (n > 0)
            worked = now;
        else
            rest(p, now - worked);
    }
    return NULL;
}

static void say_held_up(const struct proxy *p, uint64_t held_ns)
{
    int kind = __atomic_load_n(&p->kind, __ATOMIC_RELAXED);
    const char *calls = p->device->info->lock_calls;
    char doing[64] = "has not run";
    if (kind >= 0)
        snprintf(doing, sizeof doing, "has been in %s for pe %d", call_of_kind((uint32_t)kind),
                 __atomic_load_n(&p->pe, __ATOMIC_RELAXED));
    log_error("the proxy of this PE %s for %.1f s, and kernels may be waiting for it%s%s", doing, (double)held_ns / 1e9,
              calls[0] != '\0' ? "; another thread may hold it up by a call that waits for kernels: " : "", calls);
}

static bool has_record(struct proxy *p)
{
    pthread_mutex_lock(&p->records_lock);
    /* Relaxed: only whether there is one; look_at_records reads it. */
    uint64_t state = __atomic_load_n(&p->host->records[p->host->taken % ISOD_RECORDS].state, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&p->records_lock);
    return state != ISOD_RECORD_FREE;
}

/* A vendor's call may wait for kernels and hold a lock that copies need, while these kernels wait for the proxy to copy.
 * Then nobody else would print the kernels' records or notice a dead peer. Time in which the whole process was stopped
 * does not count. */
static void *watch_main(void *argument)
{
    struct proxy *p = (struct proxy *)argument;
    iso_thread_adopt(p->state);
    uint64_t seen = 0, held_ns = 0, looked = iso_clock_now_ns(), timeout = iso_report_timeout_ns(NULL);
    bool said = false;
    pthread_mutex_lock(&p->resting);
    while (__atomic_load_n(&p->stop, __ATOMIC_RELAXED) == 0) { /* of iso_proxy_stop, which signals under the mutex */
        uint64_t end = iso_clock_now_ns() + WATCH_PROXY_NS;
        const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
        (void)pthread_cond_timedwait(&p->stops, &p->resting, &until);
        uint64_t turns = __atomic_load_n(&p->turns, __ATOMIC_RELAXED), now = iso_clock_now_ns();
        held_ns = turns == seen ? held_ns + ISO_MIN(now - looked, (uint64_t)2 * WATCH_PROXY_NS) : 0;
        seen = turns;
        looked = now;
        said = said && held_ns != 0;
        if (held_ns < HELD_NS)
            continue;
        if (!said && ((timeout != 0 && held_ns > timeout) || has_record(p))) {
            said = true;
            say_held_up(p, held_ns);
        }
        look_at_records(p);
        iso_wait_poll_peers(NULL);
    }
    pthread_mutex_unlock(&p->resting);
    return NULL;
}

/* The tickets whose entries kernels have written so far. Entries lie in memory of the host and their numbers only grow,
 * so the host finds the largest number without asking the device, which may be busy with a kernel that waits for this
 * PE. All entries are looked at: the owner of an earlier ticket may still be writing its entry. */
static uint64_t posted(const struct pinned_ring *ring)
{
    uint64_t last = 0;
    if (__atomic_load_n(&ring->done[1], __ATOMIC_RELAXED) == 0)
        return 0;
    for (unsigned i = 0; i < ISOD_RING_ENTRIES; i++) { /* relaxed: the kernel's end made the numbers visible */
        uint64_t seq = __atomic_load_n(&ring->entries[i].seq, __ATOMIC_RELAXED);
        last = ISO_MAX(last, seq);
    }
    return last;
}

/* By iso_drain_rings. Kernels that go on may post more meanwhile; their entries are not waited for. */
static void drain_proxy(const char *call)
{
    struct proxy *p = ISO->device->proxy;
    for (unsigned i = 0; i < ISOD_RINGS; i++) {
        uint64_t last = posted(&p->pinned[i]), done;
        struct wait w = ISO_WAIT(call, -1, p->pinned[i].done, last);
        while ((done = __atomic_load_n(p->pinned[i].done, __ATOMIC_ACQUIRE)) < last && /* pairs with publish_done */
               iso_wait_pause(&w, done) == 0)
            continue;
        iso_wait_end(&w);
    }
}

/* ---- start and stop ---- */

static size_t memory_bytes(void) { return ISOD_RINGS * (sizeof(struct isod_ring) + sizeof(struct device_ring)); }

/* The rings as kernels see them. */
static int write_rings(struct proxy *p, struct pinned_ring *for_kernels)
{
    char *image = (char *)calloc(1, memory_bytes());
    if (image == NULL)
        return -ENOMEM;
    struct isod_ring *rings = (struct isod_ring *)(void *)image;
    struct device_ring *parts = (struct device_ring *)(void *)(rings + ISOD_RINGS);
    struct device_ring *at = (struct device_ring *)(void *)((struct isod_ring *)p->memory + ISOD_RINGS);
    for (unsigned i = 0; i < ISOD_RINGS; i++) {
        struct isod_ring *r = &rings[i];
        r->entries = for_kernels[i].entries;
        r->done = for_kernels[i].done;
        r->results = for_kernels[i].results;
        r->stages = for_kernels[i].stages;
        r->turns = at[i].turns;
        r->leases = at[i].leases;
        r->mask = ISOD_RING_ENTRIES - 1;
        for (unsigned t = 0; t < ISOD_RING_ENTRIES; t++)
            parts[i].turns[t] = t;
    }
    iso_agent_copy(p->memory, image, memory_bytes());
    free(image);
    return 0;
}

static int make_memory(struct proxy *p)
{
    struct gpu *gpu = p->device->gpu;
    void *host = NULL, *for_kernels = NULL;
    size_t bytes = sizeof *p->host + (size_t)ISO->n_pes * sizeof *ISOD_GONE(p->host);
    int rc = iso_gpu_host_alloc(gpu, bytes, &host, &for_kernels);
    if (rc != 0)
        return rc;
    p->host = (struct isod_host *)host;
    p->host_for_kernels = (struct isod_host *)for_kernels;
    rc = iso_gpu_host_alloc(gpu, ISOD_RINGS * sizeof *p->pinned, &host, &for_kernels);
    if (rc != 0)
        return rc;
    p->pinned = (struct pinned_ring *)host;
    for (unsigned i = 0; i < ISOD_RINGS; i++) {
        struct pinned_ring *ring = &p->pinned[i];
        p->served[i] = (struct served){ring->entries, ring->done, ring->results, ring->stages, 0};
    }
    rc = iso_gpu_alloc(gpu, memory_bytes(), &p->memory);
    return rc != 0 ? rc : write_rings(p, (struct pinned_ring *)for_kernels);
}

int iso_proxy_start(struct device *device)
{
    struct proxy *p = (struct proxy *)calloc(1, sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    p->state = ISO;
    p->device = device;
    p->kind = -1;
    p->ctx.options = SHMEM_CTX_PRIVATE;
    p->ctx.of_proxy = true;
    p->ctx.team = ISO->world;
    p->ctx.world_of = ISO->world->world_of;
    p->ctx.n_pes = ISO->n_pes;
    pthread_mutex_init(&p->records_lock, NULL);
    pthread_mutex_init(&p->resting, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->stops, &clock);
    pthread_condattr_destroy(&clock);
    device->proxy = p;
    p->state->at_end.stop_kernels = iso_proxy_give_up;
    p->state->at_end.lose_pe = lose_pe;
    p->state->above.drain_rings = drain_proxy;
    int rc = make_memory(p);
    if (rc == 0)
        __atomic_store_n(&p->state->ring_used, &p->host->ring_used, __ATOMIC_RELEASE); /* pairs with iso_drain_rings */
    if (rc != 0)
        log_error("pinned memory of the proxy cannot be made: %s", iso_gpu_error(device->gpu));
    else if ((rc = iso_thread_start(&p->thread, "isomer-proxy", proxy_main, p)) != 0)
        log_error("the proxy's thread cannot be made: %s", strerror(-rc));
    p->started = rc == 0;
    if (rc == 0 && (rc = iso_thread_start(&p->watcher, "isomer-watcher", watch_main, p)) != 0)
        log_error("the thread that watches the proxy cannot be made: %s", strerror(-rc));
    p->watched = p->started && rc == 0;
    if (rc != 0)
        iso_proxy_stop(device);
    return rc;
}

void iso_proxy_stop(struct device *device)
{
    struct proxy *p = device->proxy;
    if (p == NULL)
        return;
    __atomic_store_n(&p->stop, 1, __ATOMIC_RELEASE);
    if (p->started)
        pthread_join(p->thread, NULL);
    if (p->watched) {
        pthread_mutex_lock(&p->resting);
        pthread_cond_signal(&p->stops);
        pthread_mutex_unlock(&p->resting);
        pthread_join(p->watcher, NULL);
    }
    pthread_cond_destroy(&p->stops);
    pthread_mutex_destroy(&p->resting);
    device->proxy = NULL;
    __atomic_store_n(&p->state->ring_used, NULL, __ATOMIC_RELAXED);
    iso_gpu_free(device->gpu, p->memory);
    if (p->pinned != NULL)
        iso_gpu_host_free(device->gpu, p->pinned);
    if (p->host != NULL)
        iso_gpu_host_free(device->gpu, p->host);
    pthread_mutex_destroy(&p->records_lock);
    free(p);
}

struct isod_host *iso_proxy_host(struct device *device, struct isod_host **for_kernels)
{
    *for_kernels = device->proxy->host_for_kernels;
    return device->proxy->host;
}

size_t iso_proxy_ring_bytes(bool on_device)
{
    return on_device ? memory_bytes() : ISOD_RINGS * sizeof(struct pinned_ring);
}

struct isod_ring *iso_proxy_rings(struct device *device, uint32_t *n_rings)
{
    *n_rings = ISOD_RINGS;
    return (struct isod_ring *)device->proxy->memory;
}
