/* SPDX-License-Identifier: MIT */
/* Inboxes of a slot: at most ISO_INBOX_BYTES that arrive with their epoch in one cache line. For staged epochs only, in
 * which every member sends to every other one. Used by agree.c and coll/host/. */
#ifndef ISO_INBOX_H
#define ISO_INBOX_H

#include "slot.h"

/* A member's side of one epoch. */
struct inbox {
    struct slot *slot;
    uint64_t epoch;
    int me;
    const char *call;
};

void iso_inbox_far_send(struct inbox box, int to, const void *data, size_t bytes);
/* True: the inbox of `from`, a far member, is complete in this memory, and reads like that of a near one from now on.
 * Exactly one member must take it. */
bool iso_inbox_far_take(struct inbox box, char *memory, int from);
void iso_inbox_far_wait(struct inbox box, int from);

ISO_INLINE struct slot_inbox *iso_inbox_at(struct inbox box, char *memory, int sender)
{
    return (struct slot_inbox *)(void *)(memory + iso_slot_inbox_offset(sender, box.slot->staged));
}

#endif
