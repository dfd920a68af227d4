/* SPDX-License-Identifier: MIT */
/* Inboxes of a slot: at most ISO_INBOX_BYTES that arrive with their epoch in one cache line. For staged epochs only, in
 * which every member sends to every other one. Used by agree.c and coll/host/. */
#ifndef ISO_INBOX_H
#define ISO_INBOX_H

#include "slot.h"

#include <string.h>

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

/* At most once for each other member in an epoch; bytes may be 0. `near`: the memory of member `to`, NULL when it is
 * far. */
ISO_INLINE void iso_inbox_send(struct inbox box, char *near, int to, const void *data, size_t bytes)
{
    if (ISO_LIKELY(near != NULL)) {
        struct slot_inbox *inbox = iso_inbox_at(box, near, box.me);
        if (bytes > 0) /* the address of nothing may be NULL */
            memcpy(inbox->payload, data, bytes);
        prim_signal_u64(prim_group_thread(), &inbox->seq, box.epoch); /* pairs with iso_inbox_wait */
    } else {
        iso_inbox_far_send(box, to, data, bytes);
    }
}

/* The payload that `from`, whose view is `view`, has sent in this epoch. It lies in this PE's memory at the start of a
 * cache line. It is valid until this member sends in the next staged epoch: its sender may then begin the epoch after
 * that one, which uses the same bank. Bytes past the sent length are undefined. */
ISO_INLINE const void *iso_inbox_wait(struct inbox box, const struct slot_view *view, int from)
{
    struct slot_inbox *inbox = iso_inbox_at(box, box.slot->memory, from);
    if (prim_poll_u64(&inbox->seq) >= box.epoch)
        return inbox->payload;
    if (ISO_LIKELY(view->near != NULL))
        iso_slot_wait(box.slot, &inbox->seq, box.epoch, view->pe, box.call);
    else
        iso_inbox_far_wait(box, from);
    return inbox->payload;
}

#endif
