/* SPDX-License-Identifier: MIT */
/* Puts and gets of a session in the user's memory, and stages: inbox_bytes per sender and bank, for members that no
 * pointer reaches. Includes: session_device.h.
 * Rule of all schedules: a flag never takes a faster way than the data before it. Flags go by pointer wherever pointers
 * reach the member's heap. Data in the heap takes the same way, so a fence, or the order of the ring, is enough. But
 * pointers may reach the heap and no registered buffer whose ends share their pages with other data. So data that goes
 * by the ring to a member whose flags go by pointer is there before the put returns.
 * Invariant: schedules put data to other members by the functions here alone; then they may flag by any function. */
#ifndef ISO_STAGES_DEVICE_H
#define ISO_STAGES_DEVICE_H

#include "session_device.h"

/* Will a flag to this member go by pointer, past what is on the ring? */
PRIM_FN bool isod_flag_overtakes(const struct isod_coll *c, int32_t to) { return isod_coll_memory(c, to) != 0; }

/* By all threads of g, a wave or the block, into dest (as this member names it) of member `to`; then a flag behind
 * prim_gather_stores by the block. */
PRIM_FN void isod_coll_put_far(struct isod_coll *c, struct prim_group g, int32_t to, struct isod_bytes b)
{
    isod_ring_put(c->h, g, b, isod_world_pe(c->h, to));
    if (isod_flag_overtakes(c, to) && prim_is_first(g))
        c->failed = isod_coll_flush(c->h.team, c->call) || c->failed;
}
/* The same, where `near` is dest there, or NULL. */
PRIM_FN void isod_coll_put_at(struct isod_coll *c, struct prim_group g, int32_t to, char *near, struct isod_bytes b)
{
    if (near != 0)
        prim_copy_put(g, near, b.source, b.len);
    else
        isod_coll_put_far(c, g, to, b);
}
PRIM_FN void isod_coll_put(struct isod_coll *c, int32_t to, char *dest, const char *source, uint64_t bytes)
{
    isod_coll_put_at(c, prim_group_block(), to, isod_near(c->h, dest, to), isod_bytes_of(dest, source, bytes));
}
/* A word, by the calling thread; `near` is dest there, or NULL. */
PRIM_FN void isod_coll_put_word_at(struct isod_coll *c, int32_t to, char *near, char *dest, uint64_t value)
{
    if (near != 0) {
        prim_store_relaxed_u64((uint64_t *)(void *)near, value);
        return;
    }
    isod_ring_put_words(c->h, dest, isod_words_of(value, 0, 8), isod_world_pe(c->h, to));
    if (isod_flag_overtakes(c, to))
        c->failed = isod_coll_flush(c->h.team, c->call) || c->failed;
}
/* From source (as this member names it) of member `from`, after its flag. */
PRIM_FN void isod_coll_get(struct isod_coll *c, int32_t from, char *dest, const char *source, uint64_t bytes)
{
    const char *near = isod_near(c->h, source, from);
    if (near != 0)
        prim_copy_get(prim_group_block(), dest, near, bytes);
    else
        isod_ring_get(c->h, prim_group_block(), isod_bytes_of(dest, source, bytes), isod_world_pe(c->h, from));
}
PRIM_FN void isod_coll_copy_own(char *dest, const char *source, uint64_t bytes)
{
    if (dest != source)
        prim_copy(prim_group_block(), dest, source, bytes);
}

/* Where `sender`'s stage of the epoch in progress is, from the begin of the lane on. */
PRIM_FN uint64_t isod_stage_at(const struct isod_coll *c, int32_t sender)
{
    uint64_t n = (uint64_t)c->h.n_pes, banks = isod_flags_bytes(c->h.n_pes) + 4 * n * c->inbox_bytes;
    return banks + ((c->staged & 1) * n + (uint64_t)sender) * c->inbox_bytes;
}
PRIM_FN void isod_stage_put(struct isod_coll *c, int32_t to, const char *source, uint64_t bytes)
{
    char *memory = isod_coll_memory(c, to);
    uint64_t at = isod_stage_at(c, c->h.my_pe);
    if (memory != 0)
        prim_copy_put(prim_group_block(), memory + at, source, bytes);
    else
        isod_coll_put_far(c, prim_group_block(), to, isod_bytes_of(isod_coll_far_memory(c, to) + at, source, bytes));
}

#endif
