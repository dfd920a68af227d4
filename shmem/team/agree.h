/* SPDX-License-Identifier: MIT */
/* The library's own exchanges between the members of a team: agreement, and the comparison of SHMEM_DEBUG. */
#ifndef ISO_AGREE_H
#define ISO_AGREE_H

#include "team.h"

/* In calls that return errors (error.h) a broken job makes all of these return early, with -EIO where they return rc.
 * */

/* SHMEM_DEBUG: all members call the same operation with the same sizes and root, else the job ends, or -EINVAL after a
 * sentence. No-op otherwise. */
struct agree_args {
    const char *call;
    uint64_t bytes;
    int root;
    uint32_t dest; /* 1 + offset of dest, modulo 2^32; 0: none */
};
int iso_agree_match(struct team *team, struct agree_args args);
/* Likewise for one more argument, by its name. */
int iso_agree_same(struct team *team, const char *call, const char *what, int64_t value);
/* The smallest of the members' values, on every member. Collective, small, for agreement on success. 0 in a broken job:
 * a member that is gone has failed. */
uint64_t iso_agree_min(struct team *team, uint64_t mine, const char *call);
/* 0 when rc is 0 on all members; else rc, or -EIO, and the lowest PE with an error says `sentence`. */
int iso_agree_outcome(struct team *team, int rc, const char *sentence, const char *call);
/* Member i's `bytes` (at most 56) at all + i * bytes, on every member. No member has it before all have called. */
int iso_agree_gather(struct team *team, const void *mine, size_t bytes, void *all, const char *call);
/* Collective over the team: *number becomes a segment number for a new buffer, free on all members. 0, or -errno after a
 * sentence. */
int iso_agree_segment_number(struct team *team, int *number, const char *call);
/* Collective over the team: where members on other nodes have what lies at `base` here, whole in one segment or in the
 * pieces of a buffer. Nothing at all on one node. 0 or -errno after a sentence (another member's `len` differs). */
int iso_agree_addresses(struct team *team, char *base, size_t len, const char *call);

/* ---- first calls ----
 * The first call that a team's members make with a slot makes what the slot needs, together. No program thinks of it as
 * a collective of the host: its threads make such calls of several slots in any order, and beside collectives of the
 * host. So the exchanges of one use a slot that exists for its time, and the members find each other by team and
 * number, not by order. Its waits end when the team is broken; then that slot is not used again.
 * Slots from ISO_SLOTS_OF_USERS on are the library's own: that of barrier and sync on streams, used by one block; that
 * of what a member does alone on streams, which no first call makes; and one of collectives on streams for each slot of
 * users.
 */
#define ISO_SLOTS_OF_USERS 256
enum { ISO_SLOT_ON_STREAM = ISO_SLOTS_OF_USERS, ISO_SLOT_OF_MEMBER, ISO_SLOT_STREAM_FIRST };
ISO_INLINE int iso_slot_of_users(int slot) /* for messages */
{
    return slot < ISO_SLOT_STREAM_FIRST ? slot : slot - ISO_SLOT_STREAM_FIRST;
}

struct first_call {
    struct team *team;
    int number;          /* of what is made: alike on all members */
    struct team members; /* the team, with that slot: for the functions above, and for nothing that stays */
};
/* Collective over the team. 0; or -errno after a sentence, and then there is no end. `end` waits for no member. */
int iso_first_call_begin(struct first_call *f, struct team *team, int number, const char *call);
void iso_first_call_end(struct first_call *f);

#endif
