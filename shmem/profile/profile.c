/* SPDX-License-Identifier: MIT */
/* The counters' life: a block for each thread that calls, sums over them, and what is timed. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/wait.h"
#include "profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local struct profile_mine iso_profile_mine = {1, NULL};

const char *const iso_profile_names[PROFILE_CALLS] = {
#define X(id, name) name,
    ISO_PROFILE_CALLS(X)
#undef X
};

/* ---- blocks ---- */

/* The thread ends. Pairs with take_block: its successor goes on from what it has counted. */
static void give_block(void *block) { __atomic_store_n(&((struct profile_block *)block)->taken, 0, __ATOMIC_RELEASE); }

size_t iso_profile_block_bytes(void)
{
    return sizeof(struct profile_block) + (size_t)ISO->n_pes * sizeof(struct profile_peer);
}

static struct profile_block *first_block(struct profile *p) { return __atomic_load_n(&p->blocks, __ATOMIC_ACQUIRE); }

static struct profile_block *find_block(struct profile *p)
{
    for (struct profile_block *b = first_block(p); b != NULL; b = b->next) {
        uint32_t free_one = 0;
        if (__atomic_compare_exchange_n(&b->taken, &free_one, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return b;
    }
    struct profile_block *b = (struct profile_block *)calloc(1, iso_profile_block_bytes());
    if (b == NULL)
        iso_fatal("SHMEM_PROFILE", "there is no memory for the counters of another thread");
    b->taken = 1;
    for (int i = 0; i < PROFILE_CALLS; i++) {
        b->calls[i].longest_pe = -1;
        b->turns[i] = (struct profile_turn){1, PROFILE_EXACT};
    }
    b->next = first_block(p);
    /* Release: pairs with the acquire of first_block; the block is seen whole. */
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

int iso_profile_start(void)
{
    struct state *self = ISO;
    if (!iso_profile_is_asked(self->env) && self->env->metrics[0] == '\0')
        return 0;
    struct profile *p = (struct profile *)calloc(1, sizeof *p);
    if (p == NULL || pthread_key_create(&p->key, give_block) != 0) {
        log_error("shmem_init: there is no memory for the counters that SHMEM_PROFILE and SHMEM_METRICS ask for");
        free(p);
        return -ENOMEM;
    }
    p->began_ns = iso_wait_now_ns();
    self->profile = p;
    self->profile_life = p->began_ns << 20 | ((uintptr_t)p >> 4 & 0xffffe) | 1;
    return 0;
}

void iso_profile_stop(void)
{
    struct profile *p = ISO->profile;
    if (p == NULL)
        return;
    ISO->profile = NULL;
    ISO->profile_life = 0;
    pthread_key_delete(p->key); /* no thread gives a block back from here on */
    for (struct profile_block *b = first_block(p), *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    free(p);
}

/* ---- time ---- */

uint64_t iso_profile_clock(void) { return iso_wait_now_ns(); }

/* A call that was not timed comes here when it has waited. A wait has counted itself, and stands for no other call. */
void iso_profile_end_timed(struct profile_span span)
{
    struct profile_count *c = &span.block->calls[span.call];
    uint64_t waited = c->waited_ns - span.waited_ns, rest = 0;
    if (span.began_ns != 0) {
        uint64_t ns = iso_wait_now_ns() - span.began_ns;
        rest = (ns > waited ? ns - waited : 0) * (waited == 0 ? span.weight : 1);
    }
    iso_profile_add(&c->ns, rest);
    if (span.row != NULL)
        iso_profile_add(&span.row->ns, rest + waited);
    if (span.team == NULL)
        return;
    iso_profile_add(&span.team->ns, rest + waited);
    iso_profile_add(&span.team->waited_ns, waited);
}

void iso_profile_wait(uint64_t ns, int pe)
{
    if (ISO->life != LIFE_RUNNING) /* the number of PEs may not be known yet */
        return;
    struct profile_block *b = iso_profile_block();
    struct profile_count *c = &b->calls[b->current];
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
    while (i < PROFILE_ROWS - 1 && block->row_keys[i] != 0 && (block->row_keys[i] != key || block->rows[i].size != size))
        i++;
    if (block->row_keys[i] == 0)
        return NULL;
    block->recent = &block->rows[i];
    block->recent_key = key;
    block->recent_size = size;
    return block->recent;
}

struct profile_row *iso_profile_new_row(struct profile_block *block, uintptr_t key, const char *kind, const char *name,
                                        size_t bytes)
{
    int i = 0;
    while (block->row_keys[i] != 0) /* one is free, since seek_row has found none */
        i++;
    struct profile_row *row = &block->rows[i];
    char text[PROFILE_NAME_BYTES] = "";
    uint64_t words[sizeof text / 8];
    if (i == PROFILE_ROWS - 1)
        snprintf(text, sizeof text, "all others");
    else
        snprintf(text, sizeof text, "%s %s", kind, name);
    memcpy(words, text, sizeof text);
    block->row_keys[i] = key;
    __atomic_store_n(&row->size, i < PROFILE_ROWS - 1 ? iso_profile_size(bytes) : 64, __ATOMIC_RELAXED);
    for (size_t w = 0; w < sizeof words / 8; w++)
        __atomic_store_n((uint64_t *)(void *)row->name + w, words[w], __ATOMIC_RELAXED);
    return iso_profile_row(block, key, bytes);
}

const char *iso_profile_team_name(int index)
{
    static const char *const names[PROFILE_TEAMS] = {
        "world", "shared", "slot 2", "slot 3", "slot 4", "slot 5", "slot 6", "slot 7", "slot 8", "slot 9",
        "slot 10", "slot 11", "slot 12", "slot 13", "slot 14", "slot 15 and above"};
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

static void add_row(struct profile_row *sums, const struct profile_row *from)
{
    struct profile_row row;
    for (size_t w = 0; w < sizeof row / 8; w++) {
        uint64_t word = load((const uint64_t *)(const void *)from + w);
        memcpy((char *)&row + w * 8, &word, 8);
    }
    int i = 0;
    while (i < PROFILE_ROWS - 1 && sums[i].name[0] != '\0' &&
           (sums[i].size != row.size || memcmp(sums[i].name, row.name, sizeof row.name) != 0))
        i++;
    if (row.name[0] == '\0')
        return;
    memcpy(sums[i].name, row.name, sizeof row.name);
    sums[i].size = row.size;
    sums[i].count += row.count;
    sums[i].bytes += row.bytes;
    sums[i].ns += row.ns;
}

void iso_profile_sum(struct profile_block *sum)
{
    memset(sum, 0, iso_profile_block_bytes());
    for (int i = 0; i < PROFILE_CALLS; i++)
        sum->calls[i].longest_pe = -1;
    for (const struct profile_block *b = first_block(ISO->profile); b != NULL; b = b->next) {
        for (int i = 0; i < PROFILE_CALLS; i++)
            add_calls(&sum->calls[i], &b->calls[i]);
        for (int i = 0; i < PROFILE_ROWS; i++)
            add_row(sum->rows, &b->rows[i]);
        for (int i = 0; i < PROFILE_TEAMS; i++) {
            sum->teams[i].count += load(&b->teams[i].count);
            sum->teams[i].bytes += load(&b->teams[i].bytes);
            sum->teams[i].ns += load(&b->teams[i].ns);
            sum->teams[i].waited_ns += load(&b->teams[i].waited_ns);
        }
        for (int pe = 0; pe < ISO->n_pes; pe++)
            for (int i = 0; i < PROFILE_TO_CALLS; i++) {
                const struct profile_pair *pair = &b->peers[pe].by_call[i];
                struct profile_pair *sum_pair = &sum->peers[pe].by_call[i], add = {load(&pair->count), load(&pair->bytes)};
                sum_pair->count += add.count;
                sum_pair->bytes += add.bytes;
                sum->calls[PROFILE_FIRST_TO + i].count += add.count;
                sum->calls[PROFILE_FIRST_TO + i].bytes += add.bytes;
            }
    }
}
