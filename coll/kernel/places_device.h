/* SPDX-License-Identifier: MIT */
/* Two numbers of 64 bits from each member to each other one, its places: two words each, with the low 32 bits of the
 * epoch in both, so no flag beside them and no fence is needed.
 * Invariant: a member sends places again only after all that were sent them have done with them: its call ends behind a
 * flag of each. Includes: flags_device.h. */
#ifndef ISO_PLACES_DEVICE_H
#define ISO_PLACES_DEVICE_H

#include "flags_device.h"

/* Where in a lane `sender`'s place number `which`, 0 or 1, is. */
PRIM_FN uint64_t isod_place_at(const struct isod_coll *c, int32_t sender, uint32_t which)
{
    return isod_places_at(c->h.n_pes, c->inbox_bytes) + ((uint64_t)(uint32_t)sender * 2 + which) * 16;
}
PRIM_FN uint64_t isod_place_word(const struct isod_coll *c, uint64_t half)
{
    return (half & 0xffffffffu) | c->epoch << 32;
}
/* By the calling thread; `memory`: the member's lane. Pairs with isod_places_wait. */
PRIM_FN void isod_place_send_near(struct isod_coll *c, char *memory, uint32_t which, uint64_t place)
{
    uint64_t *words = (uint64_t *)(void *)(memory + isod_place_at(c, c->h.my_pe, which));
    prim_store_flag_u64(words + 1, isod_place_word(c, place >> 32));
    prim_store_flag_u64(words, isod_place_word(c, place));
}
PRIM_FN void isod_place_send(struct isod_coll *c, int32_t to, uint32_t which, uint64_t place)
{
    char *memory = isod_coll_memory(c, to);
    uint64_t at = isod_coll_lane_at(c) + isod_place_at(c, c->h.my_pe, which);
    if (memory != 0) {
        isod_place_send_near(c, memory, which, place);
        return;
    }
    isod_flag_store_far(c->h.team, to, at + 8, isod_place_word(c, place >> 32));
    isod_flag_store_far(c->h.team, to, at, isod_place_word(c, place));
}

struct isod_places {
    uint64_t first, second;
};
/* One look; `count`: 1 or 2. true: they are there. The load that acquires comes last, all are under way at once. */
PRIM_FN bool isod_places_look(const struct isod_coll *c, int32_t from, uint32_t count, struct isod_places *p)
{
    const uint64_t *words = (const uint64_t *)(const void *)(c->here + isod_place_at(c, from, 0));
    uint32_t epoch = (uint32_t)c->epoch;
    uint64_t high = prim_load_relaxed_u64(words + 1), second_low = (uint64_t)epoch << 32, second_high = second_low;
    if (count == 2) {
        second_low = prim_load_relaxed_u64(words + 2);
        second_high = prim_load_relaxed_u64(words + 3);
    }
    uint64_t low = prim_peek_u64(words);
    p->first = (low & 0xffffffffu) | high << 32;
    p->second = (second_low & 0xffffffffu) | second_high << 32;
    return (uint32_t)(low >> 32) == epoch && (uint32_t)(high >> 32) == epoch && (uint32_t)(second_low >> 32) == epoch &&
           (uint32_t)(second_high >> 32) == epoch;
}
/* By the calling thread, which has them then. After it prim_acquire_from_peer, and a sync of the threads that touch the
 * member's memory. */
PRIM_FN struct isod_places isod_places_wait(struct isod_coll *c, int32_t from, uint32_t count)
{
    struct isod_waiting w = {0, 0};
    struct isod_places p = {0, 0};
    while (!c->failed) {
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; polls != 0; polls--) {
            if (isod_places_look(c, from, count, &p))
                return p;
            prim_pause();
        }
        isod_coll_look(c, &w, from, c->here + isod_place_at(c, from, 0), 0);
    }
    return p;
}
/* A place that this block has waited for, for any thread. */
PRIM_FN uint64_t isod_place_sent(const struct isod_coll *c, int32_t from, uint32_t which)
{
    const uint64_t *words = (const uint64_t *)(const void *)(c->here + isod_place_at(c, from, which));
    return (prim_load_relaxed_u64(words) & 0xffffffffu) | prim_load_relaxed_u64(words + 1) << 32;
}

#endif
