/* SPDX-License-Identifier: MIT */
/* The memory of a slot, and what is done with it: epochs, flags, packets, staging, the scratch of the leader.
 * A flag or packet lies in the receiver's memory and has one writer. Its number is the epoch, which only grows, from one
 * user of the slot to the next as well, so nothing is ever reset and old contents are never mistaken for new ones.
 * Invariant: slot->seq is equal on all members whenever none of them is inside a collective.
 * Used by shmem/team/slot.c, shmem/team/barrier.c and coll/. */
#ifndef ISO_SLOT_H
#define ISO_SLOT_H

#include "../../device/api/prim.h"
#include "../state/pe_state.h"
#include "../memory/segment.h"
#include "team.h"

#define ISO_SLOTS 1024                 /* sequences of collectives that may be alive on one PE */
#define ISO_SLOTS_FIRST_CALLS 64        /* more of them, which only first calls of slots take, for their time */
#define ISO_SLOTS_ALL (ISO_SLOTS + ISO_SLOTS_FIRST_CALLS)
#define ISO_SLOTS_KEPT (ISO_SLOTS / 2) /* active sets keep those below; the rest is for teams, and for single calls */

/* A slot in the memory of one PE:
 *   [0]      counter of the central barrier      (the leader's is used)
 *   [64]     its release word                    (the leader's is used)
 *   [128]    struct slot_end
 *   [256]    per sender: flag line, packet line of bank 0, packet line of bank 1, a spare line, the words of a far
 *            packet of bank 0 and of bank 1, two lines each. Behind the flag its line has a struct slot_word of bank 0
 *            and one of bank 1
 *   [scratch] 2 banks of ISO_SCRATCH_BYTES          (the leader's is used)
 *   [stage]   per sender: 2 banks of ISO_STAGE_BYTES
 * scratch and stage begin at a page; pages that no member uses have no memory behind them. */
enum {
    SLOT_COUNTER = 0,
    SLOT_RELEASE = ISO_LINE,
    SLOT_END = 2 * ISO_LINE,
    SLOT_SENDERS = 4 * ISO_LINE,
    SLOT_SENDER_BYTES = 8 * ISO_LINE,
    SLOT_WORDS = 8,                  /* of a sender */
    SLOT_FAR_INBOXES = 4 * ISO_LINE, /* of a sender */
    SLOT_FAR_INBOX_BYTES = 2 * ISO_LINE,
    SLOT_PAGE = 4096
};
#define ISO_INBOX_BYTES 56  /* payload; the epoch number is the rest of the line */
#define ISO_SCRATCH_BYTES 4096 /* of one bank */
#define ISO_STAGE_BYTES 8192 /* of one sender and bank */

/* A packet is one line: it arrives in one hop, payload and number together. */
struct slot_inbox {
    unsigned char payload[ISO_INBOX_BYTES];
    uint64_t seq; /* stored last, release; pairs with the acquire load of its receiver */
};

/* Which call its sender is in: of the two banks, in turn, as packets are. It is written before the flag of its epoch,
 * which orders it, and costs no line of its own. */
struct slot_word {
    uint64_t amount, more; /* arguments of the call */
    uint64_t call;         /* which it is; its low half is the low half of the epoch, so an old word is not taken */
};

/* Zero as long as the team is whole. Invariant: a member whose wait ends by it has stored `by` at all members of its
 * node before, and sends nothing more. So a call has the right data on a member that found all it waited for, and then
 * found the word zero. */
struct slot_end {
    uint64_t by;   /* 1 + the PE that has broken the team; pairs: signal of any member, acquire of the owner */
    uint64_t told; /* bits. SLOT_TELLING: the member that has set it writes `why`; SLOT_TOLD: it is there */
    char why[SLOT_SENDERS - SLOT_END - 2 * sizeof(uint64_t)];
};
enum { SLOT_TELLING = 1, SLOT_TOLD = 2 };

/* From a sender that no pointer reaches: words of which each carries the number beside four bytes, since nothing else
 * is said of the order in which the bytes of one put arrive. The first one has the length of the payload. Zero before
 * they come, and again when the receiver has made a struct slot_inbox of them. */
#define ISO_FAR_WORDS (1 + ISO_INBOX_BYTES / 4)
ISO_INLINE uint64_t iso_slot_far_word(uint64_t epoch, uint32_t data)
{
    return (uint64_t)(uint32_t)(epoch << 1 | 1) << 32 | data; /* never 0 */
}

/* Member i of the team as this PE sees it. */
struct slot_view {
    char *near; /* its slot memory, NULL: reached by the transport */
    int pe;     /* world */
};

/* The nodes of a team that has several. They count by their lowest members. */
struct slot_nodes {
    int n, mine;   /* nodes; this member's */
    int n_near;    /* members on this node, ... */
    int me_near;   /* ... and this one's place among them */
    int most_near; /* members on the fullest node */
    bool in_order; /* members are numbered node by node */
    int *begin;    /* [n + 1] where in `members` those of a node begin */
    int *members;  /* [members of the team] node by node, ascending */
    char *central; /* the part of this node's first member: counter and scratch of the node */
};
/* The first member of a node: what other nodes send to its node lies in its part, for all of the node to read. */
ISO_INLINE int iso_slot_node_leader(const struct slot_nodes *nodes, int node)
{
    return nodes->members[nodes->begin[node]];
}

ISO_INLINE size_t iso_slot_scratch_offset(const struct state *self)
{
    size_t senders = SLOT_SENDERS + (size_t)self->n_pes * SLOT_SENDER_BYTES;
    return (senders + SLOT_PAGE - 1) & ~(size_t)(SLOT_PAGE - 1);
}
ISO_INLINE size_t iso_slot_stage_offset(const struct state *self)
{
    return iso_slot_scratch_offset(self) + 2 * (size_t)ISO_SCRATCH_BYTES;
}

ISO_INLINE size_t iso_slot_flag_offset(int sender) { return SLOT_SENDERS + (size_t)sender * SLOT_SENDER_BYTES; }
ISO_INLINE size_t iso_slot_word_offset(int sender, uint64_t staged)
{
    return iso_slot_flag_offset(sender) + SLOT_WORDS + (size_t)(staged & 1) * sizeof(struct slot_word);
}
ISO_INLINE size_t iso_slot_inbox_offset(int sender, uint64_t staged)
{
    return SLOT_SENDERS + (size_t)sender * SLOT_SENDER_BYTES + (1 + (size_t)(staged & 1)) * ISO_LINE;
}

ISO_INLINE size_t iso_slot_far_inbox_offset(int sender, uint64_t staged)
{
    return SLOT_SENDERS + (size_t)sender * SLOT_SENDER_BYTES + SLOT_FAR_INBOXES + (staged & 1) * SLOT_FAR_INBOX_BYTES;
}

ISO_INLINE struct slot_end *iso_slot_end(char *memory) { return (struct slot_end *)(void *)(memory + SLOT_END); }
ISO_INLINE bool iso_slot_is_broken(const struct slot *slot)
{
    return slot->end != NULL && prim_load_acquire_u64(&slot->end->by) != 0; /* pairs with tell_end */
}
/* Breaks the team of a slot: at all members, this one last. Those of other nodes hear of it by the channel. */
void iso_slot_break(const struct slot *slot, const char *why);
/* Another node's PE has broken the team whose slot has this index; `end`: a struct slot_end, at any address. */
void iso_slot_hear_end(int index, const void *end);
/* -EIO, and the reason is the last error of this thread. The team is broken. */
ISO_COLD int iso_slot_refuse(const struct slot *slot, const char *call);
/* A wait of `call` has found its team broken: as iso_job_give_up. */
ISO_COLD int iso_slot_give_up(const struct slot *slot, const char *call);
/* At the end of a call: 0: all its waits had what they waited for, and what it has read of peers was what they gave.
 * -EIO: the job or the team is broken; then the sentence is this thread's last error, not printed. */
ISO_INLINE int iso_slot_rc(const struct slot *slot, const char *call)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the look comes after all reads; pairs with iso_slot_break */
    if (ISO_UNLIKELY(iso_slot_is_broken(slot)) && !iso_job_is_broken())
        return iso_slot_refuse(slot, call);
    return iso_job_rc(call);
}

/* Where `offset` of this slot lies at world PE `pe`, for the far operations. */
struct place iso_slot_place(const struct slot *slot, size_t offset, int pe);

/* The far halves of the functions below, and their waits. `call` names the public call in reports. */
ISO_COLD void iso_slot_far_signal(const struct slot *slot, size_t offset, int pe, uint64_t value, const char *call);
/* Before the close, by a member whose last call on the slot has ended: the first member waits until all others have
 * closed it, the others go on. */
void iso_slot_await_others(const struct slot *slot, int my_pe, const char *call);
/* Until *word >= expected. -EIO: the wait is over without that (iso_wait_pause). */
int iso_slot_wait(const struct slot *slot, const uint64_t *word, uint64_t expected, int pe, const char *call);

/* Says to member `to` that this member has done epoch `epoch`, and all its earlier stores with it.
 * Pairs with the acquire load in iso_slot_flag_wait. */
ISO_INLINE void iso_slot_flag_set(const struct slot *slot, int me, int to, uint64_t epoch, const char *call)
{
    const struct slot_view *view = &slot->views[to];
    if (ISO_LIKELY(view->near != NULL))
        prim_signal_u64(prim_group_thread(), (uint64_t *)(void *)(view->near + iso_slot_flag_offset(me)), epoch);
    else
        iso_slot_far_signal(slot, iso_slot_flag_offset(me), view->pe, epoch, call);
}

/* Until member `from` has said `epoch` or a later one. Returns what iso_slot_wait does. */
ISO_INLINE int iso_slot_flag_wait(const struct slot *slot, int from, uint64_t epoch, const char *call)
{
    const uint64_t *flag = (const uint64_t *)(void *)(slot->memory + iso_slot_flag_offset(from));
    return prim_poll_u64(flag) < epoch ? iso_slot_wait(slot, flag, epoch, slot->views[from].pe, call) : 0;
}

/* All n members have called it with this epoch: arrival on the leader's counter, then its release word. Only where
 * slot->central is set. The last one to arrive resets the counter before it releases, so that the counter is zero
 * between barriers. Release and acquire pair up along counter (all before) and release word (all after). */
ISO_INLINE void iso_slot_central_pass(const struct slot *slot, int n, uint64_t epoch, const char *call)
{
    uint64_t *counter = (uint64_t *)(void *)(slot->central + SLOT_COUNTER);
    uint64_t *release = (uint64_t *)(void *)(slot->central + SLOT_RELEASE);
    if (prim_fetch_add_u64(counter, 1) == (uint64_t)n - 1) {
        prim_store_relaxed_u64(counter, 0);
        prim_signal_u64(prim_group_thread(), release, epoch);
    } else if (prim_poll_u64(release) < epoch) {
        (void)iso_slot_wait(slot, release, epoch, -1, call);
    }
}

/* The members of this node, in two halves. arrive: true for the last one only, who speaks for the node and then calls
 * release; the others have to await it. Between them, that one may read what all have stored, and all that come behind
 * read what it has stored. `epoch`: of the release; it grows. */
ISO_INLINE bool iso_slot_node_arrive(const struct slot_nodes *nodes)
{
    uint64_t *counter = (uint64_t *)(void *)(nodes->central + SLOT_COUNTER);
    if (nodes->n_near > 1 && prim_fetch_add_u64(counter, 1) != (uint64_t)nodes->n_near - 1)
        return false;
    prim_store_relaxed_u64(counter, 0);
    return true;
}
ISO_INLINE void iso_slot_node_release(const struct slot_nodes *nodes, uint64_t epoch)
{
    prim_signal_u64(prim_group_thread(), (uint64_t *)(void *)(nodes->central + SLOT_RELEASE), epoch);
}
ISO_INLINE void iso_slot_node_await(const struct slot *slot, uint64_t epoch, const char *call)
{
    const uint64_t *release = (const uint64_t *)(const void *)(slot->nodes->central + SLOT_RELEASE);
    if (prim_poll_u64(release) < epoch)
        (void)iso_slot_wait(slot, release, epoch, -1, call);
}

size_t iso_slot_offset(int index); /* of its memory from the heap's base on, every index below ISO_SLOTS_ALL */
size_t iso_slot_control_bytes(int n_pes); /* size of the control area, page aligned; sets ISO->slot_bytes */
/* Identifies a new sequence of collectives: equal on all members, different from all others that are alive. */
struct slot_key {
    int32_t start, stride, size; /* of the team */
    int32_t parent;              /* slot index of the parent team, or ISO_SLOT_OF_ */
    uint64_t split;              /* number of the split in the parent; its tag where members make a team alone; of a
                                    first call: the team's slot index << 32 | the number of what it makes */
    uint64_t list;               /* of such a team: a hash of its PEs in their order; of a first call: the slot, as users
                                    know it; else 0 */
};
enum { ISO_SLOT_OF_SET = -1, ISO_SLOT_OF_START = -2, ISO_SLOT_OF_LIST = -3, ISO_SLOT_OF_FIRST_CALL = -4 };
/* Collective over the members. `status`: 0; or the -errno of a member that has failed already, which all members of a
 * list get then (where there is a parent, its members agree themselves). Index 0 is the world's, 1 SHARED's: no
 * agreement needed (ISO_SLOT_OF_START). For ISO_SLOT_OF_LIST no member goes on before all have called, and all get the
 * same result: -EINVAL: members that list each other under one tag have given different lists. Otherwise -ENOSPC: no
 * slot is free on all members; -ENOMEM. A sentence was logged. For ISO_SLOT_OF_FIRST_CALL the caller has set slot->of;
 * -EIO: that team is broken. */
int iso_slot_open(struct slot *slot, struct slot_key key, const int *world_of, int n_pes, int status);
void iso_slot_close(struct slot *slot, const int *world_of, int n_pes);
/* All members have arrived. No quiet. */

/* ---- barrier.c: the algorithms of iso_barrier_sync; rows of the selection table ---- */

void iso_barrier_flags(struct team *team, const char *call);         /* each member flags each: one hop */
void iso_barrier_dissemination(struct team *team, const char *call); /* log2 n hops of one flag each */
void iso_barrier_central(struct team *team, const char *call);       /* the leader's counter; slot->central != NULL */
void iso_barrier_hier(struct team *team, const char *call); /* one message a node and hop; slot->nodes != NULL */

#endif
