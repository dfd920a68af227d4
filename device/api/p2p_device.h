/* SPDX-License-Identifier: MIT */
/* Waits for and tests of words of this PE that others change: one word, and sets of words as OpenSHMEM has them. A set
 * is served by the calling thread alone. All polling is that of wait_device.h. `word` and `bytes` are constants
 * wherever this is inlined. Includes: place_device.h, wait_device.h. Used by include/shmem_device.h. */
#ifndef ISO_P2P_DEVICE_H
#define ISO_P2P_DEVICE_H

#include "place_device.h"
#include "wait_device.h"

/* Which comparison a C type has. */
#define ISOD_IS_SIGNED(TYPE) ((TYPE)-1 < (TYPE)1)
#define ISOD_WORD_OF(TYPE) \
    (sizeof(TYPE) == 8 ? (ISOD_IS_SIGNED(TYPE) ? ISOD_I64 : ISOD_U64) : (ISOD_IS_SIGNED(TYPE) ? ISOD_I32 : ISOD_U32))
#define ISOD_UNTIL(TYPE, ivar, cmp, value) isod_until_of(ISOD_WORD_OF(TYPE), ivar, cmp, (uint64_t)(value))

/* ---- one word ---- */

/* The first thread waits; the whole group may then read the data behind the word. */
PRIM_FN void isod_wait_until(shmemd_t h, shmemd_group_t g, struct isod_until u)
{
    if (prim_is_first(g))
        (void)isod_wait(h, u, isod_who(ISOD_CALL_WAIT_UNTIL, -1), (uint64_t *)0);
    prim_sync_settled(g);
}

/* The first thread waits, at most ns, and all of the group get its result. It leaves no record. */
PRIM_FN bool isod_wait_for(struct isod_team *team, struct isod_until u, uint64_t ns)
{
    const uint64_t since = prim_clock_ns();
    for (uint32_t polls = 1;; polls++) {
        if (isod_holds(u, isod_peek(u))) {
            prim_acquire_from_peer(); /* pairs with the release of who changed it */
            return true;
        }
        prim_pause();
        if (prim_clock_ns() - since >= ns || (polls % ISOD_POLLS_PER_LOOK == 0 && isod_status(team) != 0))
            return false;
    }
}
PRIM_FN int isod_wait_until_for(shmemd_t h, shmemd_group_t g, struct isod_until u, uint64_t ns)
{
    uint64_t holds = 0;
    if (prim_is_first(g))
        holds = isod_wait_for(h.team, u, ns) ? 1 : 0;
    prim_settle_stores(g);
    return (int)prim_broadcast_u64(g, holds);
}

/* For an update that `pe` makes. Not 0: given up, or the PE is gone and has not made it. */
PRIM_FN int isod_signal_wait_of(shmemd_t h, shmemd_group_t g, struct isod_until u, int32_t pe)
{
    uint64_t lost = 0;
    if (prim_is_first(g)) {
        const struct isod_waited who = isod_who(ISOD_CALL_SIGNAL_WAIT_UNTIL, ISOD_LOAD_I32(&h.team->world_of[pe]));
        if (!isod_wait(h, u, who, (uint64_t *)0)) {
            /* The look that found the PE gone was relaxed. This fence pairs with the store of its end by the host: one
             * more look then finds all that the PE changed before. */
            prim_acquire_after_atomic();
            lost = !isod_holds(u, isod_peek(u));
            prim_acquire_from_peer(); /* pairs with the release of the PE */
        }
    }
    prim_settle_stores(g);
    return (int)prim_broadcast_u64(g, lost);
}

PRIM_FN int isod_test(struct isod_until u)
{
    uint64_t seen = isod_peek(u);
    prim_acquire_from_peer(); /* pairs with the release of who changed it */
    prim_look("shmemd_test", u.addr, seen);
    return isod_holds(u, seen) ? 1 : 0;
}

/* ---- sets ---- */

#define ISOD_NOTHING (~(size_t)0) /* SIZE_MAX */

struct isod_set {
    const void *ivars;
    size_t nelems;
    const int *status; /* not 0: element left out; NULL: none is */
    int cmp, word;
    const void *values; /* one, or one for each */
    bool each;
};

PRIM_FN bool isod_set_has(const struct isod_set *s, size_t i) { return s->status == 0 || s->status[i] == 0; }
PRIM_FN bool isod_set_is_wide(const struct isod_set *s) { return s->word == ISOD_U64 || s->word == ISOD_I64; }
PRIM_FN const void *isod_set_word(const struct isod_set *s, size_t i)
{
    return (const char *)s->ivars + i * (isod_set_is_wide(s) ? 8 : 4);
}
PRIM_FN uint64_t isod_set_value(const struct isod_set *s, size_t i)
{
    size_t at = s->each ? i : 0;
    uint64_t wide;
    uint32_t narrow;
    if (isod_set_is_wide(s)) {
        __builtin_memcpy(&wide, (const char *)s->values + at * 8, 8);
        return wide;
    }
    __builtin_memcpy(&narrow, (const char *)s->values + at * 4, 4);
    return narrow;
}
PRIM_FN struct isod_until isod_set_until(const struct isod_set *s, size_t i)
{
    return isod_until_of(s->word, isod_set_word(s, i), s->cmp, isod_set_value(s, i));
}
PRIM_FN bool isod_set_holds(const struct isod_set *s, size_t i)
{
    struct isod_until u = isod_set_until(s, i);
    return isod_holds(u, isod_peek(u));
}
/* A round counts as so many polls as the set has words. */
PRIM_FN bool isod_set_pause(shmemd_t h, const struct isod_set *s, struct isod_waiting *w, size_t i)
{
    struct isod_until u = isod_set_until(s, i);
    uint32_t to_look = ISOD_POLLS_PER_LOOK - w->polls % ISOD_POLLS_PER_LOOK;
    w->polls += (s->nelems < to_look ? (uint32_t)s->nelems : to_look) - 1;
    return isod_wait_pause(h.team, w,
                           isod_missed_at(isod_who(ISOD_CALL_WAIT_UNTIL, -1), u.addr, u.value, isod_peek(u)));
}

PRIM_FN void isod_wait_all(shmemd_t h, const struct isod_set *s)
{
    struct isod_waited who = isod_who(ISOD_CALL_WAIT_UNTIL, -1);
    for (size_t i = 0; i < s->nelems; i++)
        if (isod_set_has(s, i) && !isod_wait(h, isod_set_until(s, i), who, (uint64_t *)0))
            return;
}
PRIM_FN int isod_test_all(const struct isod_set *s)
{
    bool all = true;
    for (size_t i = 0; i < s->nelems && all; i++)
        all = !isod_set_has(s, i) || isod_set_holds(s, i);
    prim_acquire_from_peer(); /* pairs with the releases of who changed them */
    prim_look("shmemd_test_all", s->ivars, all);
    return all ? 1 : 0;
}

/* Where a search begins: anywhere, so that no satisfied word waits behind others for ever. */
PRIM_FN size_t isod_set_anywhere(const struct isod_set *s)
{
    if (s->nelems <= 1)
        return 0;
    uint64_t mixed = prim_clock_ns() * 0x9e3779b97f4a7c15u;
    return (size_t)((mixed ^ (mixed >> 32)) % s->nelems);
}

enum { ISOD_SET_EMPTY, ISOD_SET_NONE, ISOD_SET_FOUND };

/* One round over the set from `start`: FOUND and *found; NONE: nothing holds, *found is in the set; EMPTY. */
PRIM_FN int isod_set_find(const struct isod_set *s, size_t start, size_t *found)
{
    int result = ISOD_SET_EMPTY;
    for (size_t n = 0, i = start; n < s->nelems; n++, i = i + 1 == s->nelems ? 0 : i + 1) {
        if (!isod_set_has(s, i))
            continue;
        result = ISOD_SET_NONE;
        *found = i;
        if (isod_set_holds(s, i))
            return ISOD_SET_FOUND;
    }
    return result;
}
PRIM_FN size_t isod_wait_any(shmemd_t h, const struct isod_set *s)
{
    struct isod_waiting w = {0, 0};
    size_t start = isod_set_anywhere(s), i = 0;
    int result = isod_set_find(s, start, &i);
    while (result == ISOD_SET_NONE && isod_set_pause(h, s, &w, i))
        result = isod_set_find(s, start, &i);
    prim_acquire_from_peer(); /* pairs with the release of who changed word i */
    return result == ISOD_SET_FOUND ? i : ISOD_NOTHING;
}
PRIM_FN size_t isod_test_any(const struct isod_set *s)
{
    size_t i = 0;
    int result = isod_set_find(s, isod_set_anywhere(s), &i);
    prim_acquire_from_peer(); /* pairs with the release of who changed word i */
    prim_look("shmemd_test_any", s->ivars, (uint64_t)result);
    return result == ISOD_SET_FOUND ? i : ISOD_NOTHING;
}

/* One round, all words. *last: a word of the set, nelems where it is empty. */
PRIM_FN size_t isod_set_find_some(const struct isod_set *s, size_t *indices, size_t *last)
{
    size_t n = 0;
    *last = s->nelems;
    for (size_t i = 0; i < s->nelems; i++) {
        if (!isod_set_has(s, i))
            continue;
        *last = i;
        if (isod_set_holds(s, i))
            indices[n++] = i;
    }
    return n;
}
PRIM_FN size_t isod_wait_some(shmemd_t h, const struct isod_set *s, size_t *indices)
{
    struct isod_waiting w = {0, 0};
    size_t last, n = isod_set_find_some(s, indices, &last);
    while (n == 0 && last != s->nelems && isod_set_pause(h, s, &w, last))
        n = isod_set_find_some(s, indices, &last);
    prim_acquire_from_peer(); /* pairs with the releases of who changed them */
    return n;
}
PRIM_FN size_t isod_test_some(const struct isod_set *s, size_t *indices)
{
    size_t last, n = isod_set_find_some(s, indices, &last);
    prim_acquire_from_peer(); /* pairs with the releases of who changed them */
    prim_look("shmemd_test_some", s->ivars, n);
    return n;
}

#endif
