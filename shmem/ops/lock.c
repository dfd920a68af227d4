/* SPDX-License-Identifier: MIT */
/* shmem_set_lock, shmem_test_lock, shmem_clear_lock (section 9.13): a ticket lock, first come, first served. The lock
 * lives in one copy of the user's long, that of its home PE (home_of): low half `serving`, high half `next`, both
 * counted modulo 2^32. Invariant: the lock is free when they are equal; only the holder writes `serving`. For reports,
 * a holder other than the home writes HELD to its own copy. Under SHMEM_DEBUG the copy of the PE after the home holds
 * the holder's PE + 1 instead. So a PE that waits for itself is found, unless another of its threads may clear the
 * lock. All other copies stay 0. */

#include "../node/peer.h"
#include "../node/wait.h"
#include "lock.h"
#include "../transport/order.h"

_Static_assert(sizeof(long) == 8, "a lock is two 32-bit counters in one long");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "`serving` is the half at the address of the long");

#define ONE_TICKET ((uint64_t)1 << 32)
#define HELD 1

typedef uint32_t half_word __attribute__((__may_alias__)); /* half of the user's long */

/* One PE's copy of the user's long. */
struct word {
    struct place place;
    const char *call;
};

static uint32_t serving_of(uint64_t value) { return (uint32_t)value; }
static uint32_t next_of(uint64_t value) { return (uint32_t)(value >> 32); }

/* ---- access to a word: by pointer, else by messages that the owner of the word applies ---- */

ISO_INLINE uint64_t *word_pointer(const struct word *word) { return (uint64_t *)(void *)word->place.cpu; }

static ISO_COLD uint64_t far_amo(const struct word *word, struct amo op)
{
    return iso_far_amo(&ISO->ctx_default, word->place, op, word->call);
}

/* Acquire: pairs with the release of `serving` in the holder's clear_lock. The holder's stores are visible to the PE
 * that it serves. */
ISO_INLINE uint64_t load_acquire(const struct word *word)
{
    if (ISO_LIKELY(word->place.cpu != NULL))
        return __atomic_load_n(word_pointer(word), __ATOMIC_ACQUIRE);
    return far_amo(word, (struct amo){.op = AMO_FETCH, .bytes = 8, .fetches = true});
}

/* Acquire as above, for the ticket that is served at once. */
ISO_INLINE uint64_t take_ticket(const struct word *word)
{
    if (ISO_LIKELY(word->place.cpu != NULL))
        return __atomic_fetch_add(word_pointer(word), ONE_TICKET, __ATOMIC_ACQUIRE);
    return far_amo(word, (struct amo){.op = AMO_ADD, .bytes = 8, .operand = ONE_TICKET, .fetches = true});
}

/* Acquire on success, as above. */
ISO_INLINE bool take_ticket_if(const struct word *word, uint64_t free_value)
{
    uint64_t seen = free_value;
    if (ISO_LIKELY(word->place.cpu != NULL))
        return __atomic_compare_exchange_n(word_pointer(word), &seen, free_value + ONE_TICKET, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED);
    seen = far_amo(
        word,
        (struct amo){
            .op = AMO_CSWAP, .bytes = 8, .operand = free_value + ONE_TICKET, .compare = free_value, .fetches = true});
    return seen == free_value;
}

/* Release: pairs with the three acquires above. A plain store is enough, the holder alone writes this half. */
ISO_INLINE void serve(const struct word *word, uint32_t ticket)
{
    if (ISO_LIKELY(word->place.cpu != NULL))
        __atomic_store_n((half_word *)(void *)word->place.cpu, ticket, __ATOMIC_RELEASE);
    else
        (void)far_amo(word, (struct amo){.op = AMO_SET, .bytes = 4, .operand = ticket});
}

/* ---- where the words are ---- */

/* The same on all PEs: it depends only on the offset of the lock in its segment, and spreads neighbouring locks. The
 * segments of a registered buffer begin where each PE's pages begin, so PE 0 is the home of all its locks. */
static int home_of(const long *lock)
{
    const struct segment *segment = iso_segment_of(lock, sizeof(*lock));
    if (segment == NULL || segment->kind == SEGMENT_BUFFER)
        return 0;
    uint64_t offset = (uint64_t)((const char *)lock - segment->base) / sizeof(*lock);
    return (int)(((offset * 0x9e3779b97f4a7c15u) >> 32) % (uint64_t)ISO->n_pes);
}

ISO_INLINE struct word word_at(const long *lock, int pe, const char *call)
{
    struct word word = {iso_place(lock, sizeof(*lock), pe, call, "lock"), call};
    if (iso_place_is_device(&word.place))
        iso_fatal(call, "lock %p is device memory: locks work on host memory", (const void *)lock);
    return word;
}

ISO_INLINE struct word home_word(const long *lock, const char *call)
{
    iso_check_life(call);
    iso_check_aligned(call, "lock", lock, sizeof(*lock));
    return word_at(lock, home_of(lock), call);
}

/* ---- SHMEM_DEBUG: who holds it ---- */

/* The holder's note; with one PE there is no copy for it. Only the holder writes it, so relaxed access is enough for
 * the question "is it me", and the lock itself orders the notes of different holders. */
static struct word note_of(const struct word *home, const long *lock)
{
    return word_at(lock, (home->place.pe + 1) % ISO->n_pes, home->call);
}

static ISO_COLD uint64_t note_read(const struct word *home, const long *lock)
{
    struct word note = note_of(home, lock);
    if (note.place.cpu != NULL)
        return __atomic_load_n(word_pointer(&note), __ATOMIC_RELAXED);
    return far_amo(&note, (struct amo){.op = AMO_FETCH, .bytes = 8, .fetches = true});
}

static ISO_COLD void note_write(const struct word *home, const long *lock, uint64_t value)
{
    struct word note = note_of(home, lock);
    if (note.place.cpu != NULL)
        __atomic_store_n(word_pointer(&note), value, __ATOMIC_RELAXED);
    else
        (void)far_amo(&note, (struct amo){.op = AMO_SWAP, .bytes = 8, .operand = value, .fetches = true});
}

ISO_INLINE bool keeps_notes(void) { return ISO_UNLIKELY(ISO->debug) && ISO->n_pes > 1; }

/* ---- otherwise: the mark in the holder's copy ---- */

/* By the holder, before `serving` goes on; relaxed, since only reports of PEs of the node read it. */
ISO_INLINE void mark(const struct word *home, long *lock, long value)
{
    if (home->place.pe != ISO->my_pe && !keeps_notes())
        __atomic_store_n(lock, value, __ATOMIC_RELAXED);
}

/* NULL: not by pointer. Memory of a PE that was a thread goes when it leaves, and a PE that has left is not mapped any
 * more; one that has not may be mapped by this look. */
static const uint64_t *copy_at(const struct segment *segment, size_t offset, int pe)
{
    const struct peer *peer = &ISO->peers[pe];
    const char *cpu = __atomic_load_n(&segment->peers[pe].cpu_ptr, __ATOMIC_ACQUIRE);
    bool left = iso_peer_has_left(pe);
    if (left && peer->threaded)
        return NULL;
    if (cpu == NULL && !left && ISO->life == LIFE_RUNNING)
        cpu = iso_segment_look(segment, pe);
    return (const uint64_t *)(const void *)(cpu != NULL ? cpu + offset : NULL);
}

int iso_lock_holder(const struct segment *segment, size_t offset)
{
    const struct state *self = ISO;
    int home = home_of((const long *)(const void *)(segment->base + offset));
    const uint64_t *copy = copy_at(segment, offset, (home + 1) % self->n_pes);
    bool all_seen = true;
    if (keeps_notes())
        return copy != NULL ? (int)__atomic_load_n(copy, __ATOMIC_RELAXED) - 1 : -1;
    for (int pe = 0; pe < self->n_pes; pe++) {
        copy = copy_at(segment, offset, pe);
        if (copy != NULL && pe != home && __atomic_load_n(copy, __ATOMIC_RELAXED) == HELD)
            return pe;
        all_seen &= copy != NULL;
    }
    return all_seen ? home : -1; /* the home has the word itself, and no copy to mark */
}

/* ---- the calls ---- */

SHMEM_API(shmem_set_lock, pshmem_set_lock);
void pshmem_set_lock(long *lock)
{
    struct word home = home_word(lock, __func__);
    if (keeps_notes() && ISO->thread_level != SHMEM_THREAD_MULTIPLE &&
        note_read(&home, lock) == (uint64_t)ISO->my_pe + 1)
        iso_fatal(__func__, "lock %p is already held by this PE: waiting for it would never end", (const void *)lock);
    uint64_t seen = take_ticket(&home);
    if (ISO_UNLIKELY(serving_of(seen) != next_of(seen))) {
        /* The reported peer is "any": tickets do not tell which PE holds the lock, a report looks for it. */
        struct wait wait = ISO_WAIT(__func__, -1, lock, next_of(seen));
        wait.kind = WAIT_LOCK;
        uint32_t serving;
        while ((serving = serving_of(load_acquire(&home))) != next_of(seen))
            iso_wait_pause(&wait, serving);
        iso_wait_end(&wait);
    }
    if (keeps_notes())
        note_write(&home, lock, (uint64_t)ISO->my_pe + 1);
    mark(&home, lock, HELD);
}

SHMEM_API(shmem_test_lock, pshmem_test_lock);
int pshmem_test_lock(long *lock)
{
    struct word home = home_word(lock, __func__);
    uint64_t seen = load_acquire(&home);
    /* A failed exchange means that another PE has set the lock since: that is an answer, not a reason to retry. */
    if (serving_of(seen) != next_of(seen) || !take_ticket_if(&home, seen)) {
        iso_transport_polled();
        return 1;
    }
    if (keeps_notes())
        note_write(&home, lock, (uint64_t)ISO->my_pe + 1);
    mark(&home, lock, HELD);
    return 0;
}

SHMEM_API(shmem_clear_lock, pshmem_clear_lock);
void pshmem_clear_lock(long *lock)
{
    struct word home = home_word(lock, __func__);
    uint64_t seen = load_acquire(&home);
    if (ISO_CHECKS && ISO_UNLIKELY(serving_of(seen) == next_of(seen)))
        iso_fatal(__func__, "lock %p is not held by any PE", (const void *)lock);
    if (keeps_notes()) {
        uint64_t note = note_read(&home, lock);
        if (note == 0)
            iso_fatal(__func__, "lock %p is not held by any PE", (const void *)lock);
        if (note != (uint64_t)ISO->my_pe + 1)
            iso_fatal(__func__, "lock %p is held by pe %d, not by this PE", (const void *)lock, (int)note - 1);
        note_write(&home, lock, 0);
    }
    mark(&home, lock, 0);
    iso_drain_rings(__func__);
    iso_quiet(&ISO->ctx_default);
    serve(&home, serving_of(seen) + 1);
}
