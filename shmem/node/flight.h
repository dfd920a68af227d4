/* SPDX-License-Identifier: MIT */
/* The flight recorder: the last calls of collectives of each PE, always on. It lies in the control area, so that every PE
 * of the node can read it, also that of a PE which is stuck. It has no times: a clock costs more than the rest of it. */
#ifndef ISO_FLIGHT_H
#define ISO_FLIGHT_H

#include "../state/pe_state.h"
#include "wait.h"

extern const char iso_flight_anchor[] __attribute__((visibility("hidden")));

/* On the stack of the call. */
struct flight {
    struct flight_entry *entry;
    uint64_t number;
};

/* Call number team->slot.calls + 1 of the team begins. The members of a team count alike as long as they call alike. */
ISO_INLINE struct flight iso_flight_begin(struct team *team, const char *call, uint64_t bytes, int root)
{
    struct state *self = ISO;
    uint64_t place;
    if (ISO_UNLIKELY(self->thread_level == SHMEM_THREAD_MULTIPLE)) /* relaxed: a number each is all that is needed */
        place = __atomic_fetch_add(&self->flights, 1, __ATOMIC_RELAXED);
    else
        place = self->flights++;
    struct flight f = {&self->control->flights[place % ISO_FLIGHTS], ++team->slot.calls};
    uint64_t name = (uint64_t)(call - iso_flight_anchor); /* the same in all processes that have loaded this library */
    /* Pairs with read_entry of flight.c: the entry is whole when its number is there before and behind the rest. */
    __atomic_store_n(&f.entry->number, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f.entry->name, name, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->root, (uint32_t)root, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->slot_done, (uint32_t)team->slot.index << 1, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->number, f.number, __ATOMIC_RELEASE);
    return f;
}

ISO_INLINE void iso_flight_end(const struct flight *f)
{
    /* Between its threads 256 calls of others may have taken the place. */
    if (ISO_LIKELY(__atomic_load_n(&f->entry->number, __ATOMIC_RELAXED) == f->number))
        __atomic_store_n(&f->entry->slot_done, __atomic_load_n(&f->entry->slot_done, __ATOMIC_RELAXED) | 1,
                         __ATOMIC_RELAXED);
}

/* Prints where the PEs of this node differ: of each team with a call in progress, the first call that is not the same on
 * all of them, else who has not come to the last one. By reports of waits. */
void iso_flight_compare(void);

#endif
