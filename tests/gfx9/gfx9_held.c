/* SPDX-License-Identifier: MIT */
/* Stores to global memory as late as gfx9 may make them, with GFX9_WEAK=1: each stays in its block's list until its own
 * wave waits for it (s_waitcnt vmcnt) or ends; a barrier, or a wait or write-back of another wave, changes nothing.
 * All waves of the block see it meanwhile, since they share a first-level cache, and an atomic on the same word comes
 * behind it. What nobody waits for reaches memory once nothing in the dispatch has gone on for a while.
 * One entry for each word of 8 bytes; a later store of another wave to that word makes the earlier one arrive. */
#include "gfx9_own.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 512 };

struct held {
    struct held *next;
    uint64_t word; /* address / 8 */
    struct wave *wave;
    uint64_t number;  /* of the instruction, in its wave */
    uint8_t bytes[8]; /* of which those in the mask are stored */
    uint8_t mask;
};

struct held_stores {
    struct held *buckets[BUCKETS];
    uint32_t n;
};

struct held_stores *gfx9_held_new(void) { return calloc(1, sizeof(struct held_stores)); }

static struct held **place_of(struct held_stores *all, uint64_t word)
{
    struct held **at = &all->buckets[(word ^ word >> 9) % BUCKETS];
    while (*at != NULL && (*at)->word != word)
        at = &(*at)->next;
    return at;
}

/* Whole words whole: they may be flags. */
static void arrive(struct held_stores *all, struct held **at)
{
    struct held *h = *at;
    uint8_t *to = (uint8_t *)(uintptr_t)(h->word * 8);
    *at = h->next;
    all->n--;
    h->wave->n_held--;
    for (int i = 0; i < 8; i++) {
        uint64_t v8;
        uint32_t v4;
        if (i == 0 && h->mask == 0xff) {
            memcpy(&v8, h->bytes, 8);
            __atomic_store_n((uint64_t *)(void *)to, v8, __ATOMIC_RELEASE);
            break;
        }
        if (i % 4 == 0 && (h->mask >> i & 15) == 15) {
            memcpy(&v4, h->bytes + i, 4);
            __atomic_store_n((uint32_t *)(void *)(to + i), v4, __ATOMIC_RELEASE);
            i += 3;
        } else if (h->mask >> i & 1) {
            __atomic_store_n(to + i, h->bytes[i], __ATOMIC_RELEASE);
        }
    }
    free(h);
}

static void hold_byte(struct wave *w, uint64_t address, uint8_t value)
{
    struct held_stores *all = w->group->held;
    struct held **at = place_of(all, address / 8);
    if (*at != NULL && (*at)->wave != w) {
        arrive(all, at);
        at = place_of(all, address / 8);
    }
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL)
            abort();
        (*at)->word = address / 8;
        (*at)->wave = w;
        all->n++;
        w->n_held++;
    }
    (*at)->number = w->n_memory;
    (*at)->bytes[address % 8] = value;
    (*at)->mask |= (uint8_t)(1u << address % 8);
}

void gfx9_hold(struct wave *w, const void *to, const void *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        hold_byte(w, (uint64_t)(uintptr_t)to + i, ((const uint8_t *)from)[i]);
}

void gfx9_held_look(const struct wave *w, const void *from, void *to, uint32_t bytes)
{
    struct held_stores *all = w->group->held;
    for (uint32_t i = 0; all->n != 0 && i < bytes; i++) {
        uint64_t address = (uint64_t)(uintptr_t)from + i;
        const struct held *h = *place_of(all, address / 8);
        if (h != NULL && (h->mask >> address % 8 & 1))
            ((uint8_t *)to)[i] = h->bytes[address % 8];
    }
}

void gfx9_held_word(const struct wave *w, const void *word)
{
    struct held **at = place_of(w->group->held, (uint64_t)(uintptr_t)word / 8);
    if (*at != NULL)
        arrive(w->group->held, at);
}

void gfx9_held_wait(const struct wave *w, uint64_t left)
{
    struct held_stores *all = w->group->held;
    for (uint32_t b = 0; b < BUCKETS && w->n_held != 0; b++)
        for (struct held **at = &all->buckets[b]; *at != NULL;) {
            if ((*at)->wave == w && (*at)->number + left <= w->n_memory)
                arrive(all, at);
            else
                at = &(*at)->next;
        }
}

void gfx9_held_all(struct held_stores *all)
{
    for (uint32_t b = 0; b < BUCKETS; b++)
        while (all->buckets[b] != NULL)
            arrive(all, &all->buckets[b]);
}
