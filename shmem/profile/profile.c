/* SPDX-License-Identifier: MIT */
/* The counters' life: a block for each thread that calls, sums over them, and what is timed. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/wait.h"
#include "../state/alloc.h"
#include "profile.h"
#include "ranges.h"
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_ROWS "all others"

_Thread_local struct profile_mine iso_profile_mine = {1, NULL};

/* ---- blocks ---- */

/* The thread ends. Pairs with take_block: its successor goes on from what it has counted. */
static void give_block(void *block) { __atomic_store_n(&((struct profile_block *)block)->taken, 0, __ATOMIC_RELEASE); }

size_t iso_profile_sums_bytes(void)
{
    return sizeof(struct profile_sums) + (size_t)ISO->n_pes * sizeof(struct profile_peer);
}

static struct profile_block *find_block(struct profile *p)
{
    for (struct profile_block *b = iso_profile_first_block(p); b != NULL; b = b->next) {
        uint32_t free_one = 0;
        if (__atomic_compare_exchange_n(&b->taken, &free_one, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return b;
    }
    struct profile_block *b = (struct profile_block *)calloc(1, sizeof *b + (size_t)ISO->n_pes * sizeof *b->peers);
    if (b == NULL)
        iso_fatal("SHMEM_PROFILE", "there is no memory for the counters of another thread");
    b->taken = 1;
    for (int i = 0; i < PROFILE_CALLS; i++) {
        b->calls[i].longest_pe = -1;
        b->turns[i] = (struct profile_turn){1, p->traces || p->range_push != NULL ? PROFILE_ALL : PROFILE_EXACT};
    }
    b->next = iso_profile_first_block(p);
    /* Release: pairs with the acquire of iso_profile_first_block; the block is seen whole. */
    while (!__atomic_compare_exchange_n(&p->blocks, &b->next, b, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        continue;
    return b;
}

struct profile_block *iso_profile_take_block(void)
{
    struct profile *p = ISO->profile;
    iso_profile_mine = (struct profile_mine){ISO->profile_life, find_block(p)};
    pthread_setspecific(p->key, iso_profile_mine.block);
    return iso_profile_mine.block;
}

bool iso_profile_is_asked(const struct env *env) { return env->profile[0] != '\0' && strcmp(env->profile, "0") != 0; }

/* The processor's counter, where the system itself takes it for its clock, and so has found it to be even on all
 * cores. */
static bool has_counter(void)
{
    char name[32] = "";
    FILE *clock = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    bool known = clock != NULL && fgets(name, sizeof name, clock) != NULL &&
                 (strcmp(name, "tsc\n") == 0 || strcmp(name, "arch_sys_counter\n") == 0);
    if (clock != NULL)
        fclose(clock);
    return known;
}

void iso_profile_measure_clock(void)
{
    struct profile *p = ISO->profile;
    uint64_t ticks = p != NULL ? iso_profile_ticks(p) - p->first_clock.ticks : 0;
    if (ticks != 0)
        p->ns_per_tick = (double)(iso_clock_now_ns() - p->first_clock.ns) / (double)ticks;
}

int iso_profile_start(void)
{
    struct state *self = ISO;
    bool traces = iso_trace_is_asked(self->env), ranges = iso_ranges_are_asked(self->env);
    bool counts = iso_profile_is_asked(self->env) || self->env->metrics[0] != '\0';
    if (!counts && !traces && !ranges)
        return 0;
    struct profile *p = (struct profile *)calloc(1, sizeof *p);
    if (p == NULL || pthread_key_create(&p->key, give_block) != 0) {
        log_error("shmem_init: there is no memory for the counters that SHMEM_PROFILE, SHMEM_METRICS and SHMEM_TRACE "
                  "ask for");
        free(p);
        return -ENOMEM;
    }
    p->counts_ticks = has_counter();
    p->ns_per_tick = 1;
    p->began_ns = iso_clock_now_ns();
    p->first_clock = (struct trace_clock){iso_profile_ticks(p), p->began_ns};
    p->counts = counts;
    p->traces = traces;
    p->trace_stops = true; /* until the end of the start */
    if (ranges)
        iso_ranges_start(p);
    self->profile = p;
    self->profile_life = p->began_ns << 20 | ((uintptr_t)p >> 4 & 0xffffe) | 1;
    return traces ? iso_trace_start(p) : 0;
}

void iso_profile_stop(void)
{
    struct profile *p = ISO->profile;
    if (p == NULL)
        return;
    ISO->profile = NULL;
    ISO->profile_life = 0;
    pthread_key_delete(p->key); /* no thread gives a block back from here on */
    for (struct profile_block *b = iso_profile_first_block(p), *next; b != NULL; b = next) {
        next = b->next;
        iso_trace_close(b->trace);
        free(b);
    }
    free(p);
}

/* ---- time ---- */

static void open_trace(struct profile *p, struct profile_block *b)
{
    __atomic_store_n(&b->trace, iso_trace_open(p), __ATOMIC_RELEASE); /* pairs with iso_trace_finish */
}

uint64_t iso_profile_begin_timed(struct profile_block *block, enum profile_call call, const char *name)
{
    struct profile *p = ISO->profile;
    if (p->range_push != NULL && call != PROFILE_TEST) /* tests are made in loops */
        (void)p->range_push(iso_call_name(name));
    if (p->traces && block->trace == NULL)
        open_trace(p, block);
    return iso_profile_ticks(p);
}

static void trace_call(const struct profile_span *span, uint64_t now)
{
    struct trace_event e = {.begin = span->began,
                            .ticks = now - span->began,
                            .bytes = span->bytes,
                            .key = span->key,
                            .more = span->more,
                            .what = trace_what(span->pe, span->call, 0)};
    if (span->call == PROFILE_HEAP)
        e.key = iso_alloc_stats(ISO->alloc).used;
    iso_trace_add(span->block->trace, span->name, &e);
}

/* A call that was not timed comes here when it has waited. A wait has counted itself, and stands for no other call. */
void iso_profile_end_timed(struct profile_span span)
{
    struct profile_count *c = &span.block->calls[span.call];
    const struct profile *p = ISO->profile;
    uint64_t now = span.began != 0 ? iso_profile_ticks(p) : 0, waited = c->waited_ns - span.waited_ns, rest = 0;
    if (now != 0 && span.block->trace != NULL && span.call != PROFILE_TEST)
        trace_call(&span, now);
    if (now != 0 && p->range_pop != NULL && span.call != PROFILE_TEST)
        (void)p->range_pop();
    if (!p->counts)
        return;
    if (now != 0) {
        uint64_t ns = (uint64_t)((double)(now - span.began) * p->ns_per_tick);
        rest = (ns > waited ? ns - waited : 0) * (waited == 0 ? span.weight : 1);
    }
    iso_profile_add(&c->ns, rest);
    if (span.row == NULL)
        return;
    iso_profile_add(&span.row->ns, rest + waited);
    iso_profile_add(&span.row->waited_ns, waited);
}

static void trace_wait(struct trace_thread *t, const struct wait *wait, uint64_t ns, int pe)
{
    const struct profile *p = ISO->profile;
    uint64_t ticks = (uint64_t)((double)ns / p->ns_per_tick);
    const struct trace_event e = {.begin = iso_profile_ticks(p) - ticks,
                                  .ticks = ticks,
                                  .key = (uint64_t)(uintptr_t)wait->addr,
                                  .more = 8,
                                  .what = trace_what(pe, TRACE_KIND_WAIT, 0)};
    iso_trace_add(t, wait->call, &e);
}

/* Of the calling thread; NULL: nothing is traced. */
static struct trace_thread *own_trace(void)
{
    struct profile *p = ISO->profile;
    if (p == NULL || !p->traces)
        return NULL;
    struct profile_block *b = iso_profile_block();
    if (b->trace == NULL)
        open_trace(p, b);
    return b->trace;
}

void iso_profile_ran(const struct profile_run *run)
{
    struct trace_thread *t = own_trace();
    if (t != NULL)
        iso_trace_add_run(t, run);
}

void iso_profile_note_streams(const struct trace_streams *streams, const struct profile_run *first)
{
    struct trace_thread *t = own_trace();
    if (t != NULL)
        iso_trace_note_streams(t, streams, first);
}

void iso_profile_kernel_wait(const char *call, int pe, uint64_t ns)
{
    const struct profile *p = ISO->profile;
    struct trace_thread *t = own_trace();
    if (t == NULL)
        return;
    uint64_t ticks = (uint64_t)((double)ns / p->ns_per_tick);
    const struct trace_event e = {
        .begin = iso_profile_ticks(p) - ticks, .ticks = ticks, .what = trace_what(pe, TRACE_KIND_KERNEL, 0)};
    iso_trace_add(t, call, &e);
}

void iso_profile_wait(const struct wait *wait, uint64_t ns, int pe)
{
    if (ISO->life != LIFE_RUNNING) /* the number of PEs may not be known yet */
        return;
    struct profile_block *b = iso_profile_block();
    struct profile_count *c = &b->calls[b->current];
    if (ISO->profile->traces && b->trace == NULL) /* a call that is not counted itself */
        open_trace(ISO->profile, b);
    if (b->trace != NULL)
        trace_wait(b->trace, wait, ns, pe);
    iso_profile_add(&c->ns, ns);
    iso_profile_add(&c->waited_ns, ns);
    if (ns <= c->longest_ns)
        return;
    __atomic_store_n(&c->longest_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&c->longest_pe, pe, __ATOMIC_RELAXED);
}

/* ---- collectives ---- */

struct profile_row *iso_profile_seek_row(struct profile_block *block, uintptr_t key, uint64_t size)
{
    int i = 0;
    while (i < PROFILE_CELLS - 1 && block->keys[i] != 0 && (block->keys[i] != key || block->cells[i].size != size))
        i++;
    if (block->keys[i] == 0)
        return NULL;
    block->recent = &block->cells[i];
    block->recent_key = key;
    block->recent_size = size;
    return block->recent;
}

struct profile_row *iso_profile_new_row(struct profile_block *block, struct profile_what what, const char *kind,
                                        const char *name)
{
    int i = 0;
    while (block->keys[i] != 0) /* one is free, since seek_row has found none */
        i++;
    bool last = i == PROFILE_CELLS - 1;
    struct profile_row *row = &block->cells[i];
    char text[PROFILE_NAME_BYTES] = "";
    uint64_t words[sizeof text / 8];
    if (last)
        snprintf(text, sizeof text, OTHER_ROWS);
    else
        snprintf(text, sizeof text, "%s %s", kind, name);
    memcpy(words, text, sizeof text);
    block->keys[i] = what.key + iso_profile_team(what.slot);
    __atomic_store_n(&row->size, last ? 64 : iso_profile_size(what.bytes), __ATOMIC_RELAXED);
    __atomic_store_n(&row->call, last ? (uint64_t)PROFILE_COLLECTIVE : (uint64_t)what.call, __ATOMIC_RELAXED);
    __atomic_store_n(&row->team, last ? (uint64_t)PROFILE_TEAMS : iso_profile_team(what.slot), __ATOMIC_RELAXED);
    for (size_t w = 0; w < sizeof words / 8; w++)
        __atomic_store_n((uint64_t *)(void *)row->name + w, words[w], __ATOMIC_RELAXED);
    return iso_profile_row(block, what);
}

const char *iso_profile_team_name(int index)
{
    static const char *const names[PROFILE_TEAMS] = {
        "world",  "shared", "slot 2",  "slot 3",  "slot 4",  "slot 5",  "slot 6",  "slot 7",
        "slot 8", "slot 9", "slot 10", "slot 11", "slot 12", "slot 13", "slot 14", "slot 15 and above"};
    return names[index];
}

/* ---- sums ---- */

static uint64_t load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); } /* see the header */

static void add_calls(struct profile_count *sum, const struct profile_count *c)
{
    sum->count += load(&c->count);
    sum->bytes += load(&c->bytes);
    sum->ns += load(&c->ns);
    sum->waited_ns += load(&c->waited_ns);
    uint64_t longest = load(&c->longest_ns);
    if (longest <= sum->longest_ns)
        return;
    sum->longest_ns = longest;
    sum->longest_pe = __atomic_load_n(&c->longest_pe, __ATOMIC_RELAXED);
}

void iso_profile_add_row(struct profile_row sums[PROFILE_ROWS], const struct profile_row *row)
{
    static const char others[PROFILE_NAME_BYTES] = OTHER_ROWS;
    int i = 0;
    while (i < PROFILE_ROWS - 1 && sums[i].name[0] != '\0' &&
           (sums[i].size != row->size || memcmp(sums[i].name, row->name, sizeof row->name) != 0))
        i++;
    bool last = i == PROFILE_ROWS - 1;
    memcpy(sums[i].name, last ? others : row->name, sizeof row->name);
    sums[i].size = last ? 64 : row->size;
    sums[i].count += row->count;
    sums[i].bytes += row->bytes;
    sums[i].ns += row->ns;
    sums[i].waited_ns += row->waited_ns;
}

static void add_cell(struct profile_sums *sum, const struct profile_row *cell)
{
    struct profile_row row;
    for (size_t w = 0; w < sizeof row / 8; w++) {
        uint64_t word = load((const uint64_t *)(const void *)cell + w);
        memcpy((char *)&row + w * 8, &word, 8);
    }
    if (row.name[0] == '\0')
        return;
    iso_profile_add_row(sum->rows, &row);
    sum->calls[row.call].count += row.count;
    sum->calls[row.call].bytes += row.bytes;
    if (row.team >= PROFILE_TEAMS)
        return;
    struct profile_team *team = &sum->teams[row.team];
    team->count += row.count;
    team->bytes += row.bytes;
    team->ns += row.ns;
    team->waited_ns += row.waited_ns;
}

static void add_peer(struct profile_sums *sum, int pe, const struct profile_peer *peer)
{
    for (int i = 0; i < PROFILE_TO_CALLS; i++) {
        struct profile_pair *pair = &sum->peers[pe].by_call[i],
                            add = {load(&peer->by_call[i].count), load(&peer->by_call[i].bytes)};
        pair->count += add.count;
        pair->bytes += add.bytes;
        sum->calls[PROFILE_FIRST_TO + i].count += add.count;
        sum->calls[PROFILE_FIRST_TO + i].bytes += add.bytes;
    }
}

void iso_profile_sum(struct profile_sums *sum)
{
    memset(sum, 0, iso_profile_sums_bytes());
    for (int i = 0; i < PROFILE_CALLS; i++)
        sum->calls[i].longest_pe = -1;
    for (const struct profile_block *b = iso_profile_first_block(ISO->profile); b != NULL; b = b->next) {
        for (int i = 0; i < PROFILE_CALLS; i++)
            add_calls(&sum->calls[i], &b->calls[i]);
        for (int i = 0; i < PROFILE_CELLS; i++)
            add_cell(sum, &b->cells[i]);
        for (int pe = 0; pe < ISO->n_pes; pe++)
            add_peer(sum, pe, &b->peers[pe]);
    }
}
