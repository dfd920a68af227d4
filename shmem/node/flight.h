/* SPDX-License-Identifier: MIT */
/* The flight recorder: the last calls of collectives of each PE, always on. It lies in the control area, so that every
 * PE of the node can read it, and other processes of the user, also that of a PE which is stuck.
 * Times: a clock costs more than the rest. A wait that outlasts its spinning reads one anyway, and so gives the call
 * that it is in an exact begin and end. Another call was short, and has the last time that was read: by such a wait, or
 * by each eighth call. */
#ifndef ISO_FLIGHT_H
#define ISO_FLIGHT_H

#include "../state/pe_state.h"
#include "../team/team.h"
#include "wait.h"

#include <stdio.h>

#define FLIGHT_CALLS_PER_LOOK 8 /* at the clock; a power of two */

/* On the stack of the call. */
struct flight {
    struct flight_entry *entry;
    uint64_t number;
};

ISO_COLD uint32_t iso_flight_new_name(const char *call, uint32_t at);
ISO_COLD void iso_flight_look_at_clock(void);

/* The number of the call's name in the control area: its text is there for other processes. */
ISO_INLINE uint32_t iso_flight_name(struct state *self, const char *call)
{
    uint32_t at = (uint32_t)((uint64_t)(uintptr_t)call * 0x9e3779b97f4a7c15u >> (64 - ISO_FLIGHT_NAME_BITS));
    /* Relaxed: pairs with the compare-and-swap of iso_flight_new_name, and stands for itself. */
    const char *there = __atomic_load_n(&self->control->names[at].call, __ATOMIC_RELAXED);
    return ISO_LIKELY(there == call) ? at : iso_flight_new_name(call, at);
}

/* Call number team->slot.calls + 1 of the team begins. The members of a team count alike as long as they call alike. */
ISO_INLINE struct flight iso_flight_begin(struct team *team, const char *call, uint64_t bytes, int root)
{
    struct state *self = ISO;
    uint64_t place;
    if (ISO_UNLIKELY(self->thread_level == SHMEM_THREAD_MULTIPLE)) /* relaxed: a number each is all that is needed */
        place = __atomic_fetch_add(&self->flights, 1, __ATOMIC_RELAXED);
    else
        place = self->flights++;
    if (ISO_UNLIKELY(place % FLIGHT_CALLS_PER_LOOK == 0))
        iso_flight_look_at_clock();
    __atomic_store_n(&self->flight_since_ns, 0, __ATOMIC_RELAXED); /* of any thread of this PE: times are for people */
    struct flight f = {&self->control->flights[place % ISO_FLIGHTS], ++team->slot.calls};
    /* Pairs with read_entry of flight.c: the entry is whole when its number is there before and behind the rest. */
    __atomic_store_n(&f.entry->number, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f.entry->name, iso_flight_name(self, call), __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->first, (uint32_t)team->world_of[0], __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->begin_ns, __atomic_load_n(&self->flight_ns, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->root, (uint32_t)root, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->slot_state, (uint32_t)team->slot.index << 2, __ATOMIC_RELEASE);
    __atomic_store_n(&f.entry->number, f.number, __ATOMIC_RELEASE);
    return f;
}

ISO_INLINE void iso_flight_end(const struct flight *f)
{
    struct state *self = ISO;
    /* Between its threads 256 calls of others may have taken the place. */
    if (ISO_UNLIKELY(__atomic_load_n(&f->entry->number, __ATOMIC_RELAXED) != f->number))
        return;
    uint64_t since = __atomic_load_n(&self->flight_since_ns, __ATOMIC_RELAXED);
    uint32_t state = __atomic_load_n(&f->entry->slot_state, __ATOMIC_RELAXED) | FLIGHT_DONE;
    if (since != 0) {
        __atomic_store_n(&f->entry->begin_ns, since, __ATOMIC_RELAXED);
        state |= FLIGHT_WAITED;
    }
    __atomic_store_n(&f->entry->end_ns, __atomic_load_n(&self->flight_ns, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&f->entry->slot_state, state, __ATOMIC_RELAXED);
}

/* Recorded calls of some PEs, copied. Several PEs may be added; NULL-tolerant, where there was no memory. */
struct flights;
struct flights *iso_flights_create(void);
void iso_flights_destroy(struct flights *flights);
void iso_flights_take(struct flights *flights, int pe, const struct control *control); /* perhaps another process's */
/* The files of that job in the folder; job 0: of the job that wrote last. The number of files. */
int iso_flights_read(struct flights *flights, const char *folder, uint32_t job);
/* What iso_flights_write has written on another host, and FLIGHTS_END behind it. 0; -1: it is not that, or not all. */
#define FLIGHTS_END "{\"end\": true}\n"
int iso_flights_take_text(struct flights *flights, char *text);
/* Tells where the PEs differ: of each team with a call in progress, the first call that is not the same on all of them,
 * else who has not come to the last one. */
typedef void flights_line(void *out, const char *line);
void iso_flights_compare(struct flights *flights, flights_line *line, void *out);
void iso_flights_write(const struct flights *flights, FILE *out); /* as JSON, a line a call */

/* At the report of a wait: compares the PEs of the node, writes their files where SHMEM_FLIGHT asks for them, and
 * compares all files of the job then. */
void iso_flight_report(void);
/* Writes the last calls to files; no-op without SHMEM_FLIGHT. `why`: a sentence. */
void iso_flight_record(enum flight_whose whose, const char *why);

#endif
