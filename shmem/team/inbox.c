/* SPDX-License-Identifier: MIT */
/* Inboxes between members that reach each other by a transport only. */
#include "inbox.h"
#include "../node/wait.h"
#include "../transport/far.h"

#include <string.h>

/* One put: each word carries its epoch. */
void iso_inbox_far_send(struct inbox box, int to, const void *data, size_t bytes)
{
    uint64_t words[ISO_FAR_WORDS];
    uint32_t parts[ISO_INBOX_BYTES / 4] = {0};
    size_t n = 1 + (bytes + 3) / 4;
    if (bytes > 0)
        memcpy(parts, data, bytes);
    words[0] = iso_slot_far_word(box.epoch, (uint32_t)bytes);
    for (size_t i = 1; i < n; i++)
        words[i] = iso_slot_far_word(box.epoch, parts[i - 1]);
    size_t offset = iso_slot_far_inbox_offset(box.me, box.slot->staged);
    struct place place = iso_slot_place(box.slot, offset, box.slot->views[to].pe);
    iso_far_put_words(&ISO->ctx_words, place, words, n, box.call);
}

/* A word of this epoch is here. Acquire: pairs with its arrival (put_words of the transport); earlier puts of its
 * sender, as into a stage, are there too. */
static bool has_come(const uint64_t *word, uint64_t epoch)
{
    return prim_poll_u64(word) >> 32 == iso_slot_far_word(epoch, 0) >> 32;
}

bool iso_inbox_far_take(struct inbox box, char *memory, int from)
{
    uint64_t *words = (uint64_t *)(void *)(memory + iso_slot_far_inbox_offset(from, box.slot->staged));
    struct slot_inbox *inbox = iso_inbox_at(box, memory, from);
    if (!has_come(words, box.epoch))
        return false;
    size_t n = 1 + ((uint32_t)prim_poll_u64(words) + 3) / 4;
    for (size_t i = 1; i < n; i++)
        if (!has_come(words + i, box.epoch))
            return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t part = (uint32_t)prim_poll_u64(words + i);
        prim_store_relaxed_u64(words + i, 0); /* the sender needs an inbox of this member first */
        if (i > 0)
            memcpy(inbox->payload + 4 * (i - 1), &part, sizeof(part));
    }
    prim_signal_u64(prim_group_thread(), &inbox->seq, box.epoch); /* pairs with hier_speaker of this node */
    return true;
}

void iso_inbox_far_wait(struct inbox box, int from)
{
    const uint64_t *word =
        (const uint64_t *)(const void *)(box.slot->memory + iso_slot_far_inbox_offset(from, box.slot->staged));
    struct wait wait = ISO_WAIT(box.call, box.slot->views[from].pe, word, iso_slot_far_word(box.epoch, 0));
    wait.slot = box.slot;
    while (!iso_inbox_far_take(box, box.slot->memory, from) && iso_wait_pause(&wait, prim_poll_u64(word)) == 0)
        continue;
    iso_wait_end(&wait);
}
