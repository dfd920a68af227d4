/* SPDX-License-Identifier: MIT */
/* The one place where a kernel waits. A poll is a relaxed look; every ISOD_POLLS_PER_LOOK polls the abort word and the
 * clock are looked at. Past the deadline it leaves a record for the host and goes on; when the abort word is set it
 * gives up: false, the handle's status is set, later calls on the handle do nothing, nothing traps. A wait also
 * gives up when the host has ended the handle of a broken team. A team that masks deaths gives up less: isod_stops.
 * Includes: state.h. Used by every *_device.h that waits. */
#ifndef ISO_WAIT_DEVICE_H
#define ISO_WAIT_DEVICE_H

#include "state.h"

#define ISOD_POLLS_PER_LOOK 1024u

/* The PE that is waited for and the call, for the record. */
struct isod_waited {
    uint32_t call; /* enum isod_call */
    int32_t pe;    /* world PE, -1: any */
};
PRIM_FN struct isod_waited isod_who(uint32_t call, int32_t world_pe)
{
    struct isod_waited who;
    who.call = call;
    who.pe = world_pe;
    return who;
}

/* A poll that has failed, as a record tells it. */
struct isod_missed {
    struct isod_waited who;
    const void *addr;
    uint64_t expected, seen;
};
PRIM_FN struct isod_missed isod_missed_at(struct isod_waited who, const void *addr, uint64_t expected, uint64_t seen)
{
    struct isod_missed m;
    m.who = who;
    m.addr = addr;
    m.expected = expected;
    m.seen = seen;
    return m;
}

/* What ends a wait: the word, and what it is compared with. Its kind, and cmp, which is SHMEM_CMP_ as in shmem.h, are
 * constants wherever this is inlined. */
enum isod_word { ISOD_U64, ISOD_I64, ISOD_U32, ISOD_I32 };
enum isod_cmp { ISOD_EQ = 1, ISOD_NE, ISOD_LT, ISOD_LE, ISOD_GT, ISOD_GE };
struct isod_until {
    const void *addr;
    int word, cmp;
    uint64_t value;
};
PRIM_FN struct isod_until isod_until_of(int word, const void *addr, int cmp, uint64_t value)
{
    struct isod_until u;
    u.addr = addr;
    u.word = word;
    u.cmp = cmp;
    u.value = value;
    return u;
}

PRIM_FN bool isod_compare_signed(int64_t a, int cmp, int64_t b)
{
    return cmp == ISOD_EQ   ? a == b
           : cmp == ISOD_NE ? a != b
           : cmp == ISOD_GT ? a > b
           : cmp == ISOD_GE ? a >= b
           : cmp == ISOD_LT ? a < b
                            : a <= b;
}
PRIM_FN bool isod_compare_unsigned(uint64_t a, int cmp, uint64_t b)
{
    return cmp == ISOD_EQ   ? a == b
           : cmp == ISOD_NE ? a != b
           : cmp == ISOD_GT ? a > b
           : cmp == ISOD_GE ? a >= b
           : cmp == ISOD_LT ? a < b
                            : a <= b;
}
/* Words narrower than 64 bits are compared by their low 32 bits. */
PRIM_FN bool isod_holds(struct isod_until u, uint64_t seen)
{
    if (u.word == ISOD_I64)
        return isod_compare_signed((int64_t)seen, u.cmp, (int64_t)u.value);
    if (u.word == ISOD_I32)
        return isod_compare_signed((int32_t)(uint32_t)seen, u.cmp, (int32_t)(uint32_t)u.value);
    if (u.word == ISOD_U32)
        return isod_compare_unsigned((uint32_t)seen, u.cmp, (uint32_t)u.value);
    return isod_compare_unsigned(seen, u.cmp, u.value);
}
PRIM_FN uint64_t isod_peek(struct isod_until u)
{
    if (u.word == ISOD_U32 || u.word == ISOD_I32)
        return prim_peek_u32((const uint32_t *)u.addr);
    return prim_peek_u64((const uint64_t *)u.addr);
}

/* Sticky; pairs with the store of isod_handle_give_up. */
PRIM_FN bool isod_is_dead(shmemd_t h) { return prim_load_lazy_u64(&h.team->status) == ISOD_STATUS_GAVE_UP; }

/* The place of a record, or ISOD_NO_RECORD: the host has not taken the earlier ones yet. */
#define ISOD_NO_RECORD (~(uint32_t)0)
PRIM_FN uint32_t isod_record_take(struct isod_world *world)
{
    uint32_t index, seen = prim_load_relaxed_u32(&world->records_used);
    do {
        index = seen;
        /* Acquire: the host has read what stood there before it counted it as taken. */
        if (index - (uint32_t)prim_load_acquire_u64(&world->host->taken) >= ISOD_RECORDS)
            return ISOD_NO_RECORD;
        seen = prim_cas_u32(&world->records_used, index, index + 1);
    } while (seen != index);
    return index % ISOD_RECORDS;
}

/* Takes a place and stores what the team knows; isod_record_tell follows. NULL: there is no place. */
PRIM_FN struct isod_record *isod_record_begin(struct isod_team *team, struct isod_waited who, uint64_t waited_ns)
{
    const uint32_t index = isod_record_take(team->world);
    if (index == ISOD_NO_RECORD)
        return (struct isod_record *)0;
    struct isod_record *r = &team->world->host->records[index];
    uint64_t *words = (uint64_t *)(void *)r; /* of two fields each: 0 call and pe, 5 team and slot, 6 block and thread */
    prim_store_relaxed_u64(&words[0], who.call | (uint64_t)(uint32_t)who.pe << 32);
    prim_store_relaxed_u64(&r->waited_ns, waited_ns);
    prim_store_relaxed_u64(&words[5], (uint32_t)team->team | (uint64_t)(uint32_t)team->slot << 32);
    prim_store_relaxed_u64(&words[6], prim_block_index() | (uint64_t)prim_rank(prim_group_block()) << 32);
    return r;
}
/* The other fields, then the state: pairs with the acquire load of the host's progress thread. */
PRIM_FN void isod_record_tell(struct isod_record *r, struct isod_missed m, uint64_t state)
{
    prim_store_relaxed_u64(&r->addr, (uint64_t)(uintptr_t)m.addr);
    prim_store_relaxed_u64(&r->expected, m.expected);
    prim_store_relaxed_u64(&r->seen, m.seen);
    prim_fence_before_signal();
    prim_store_flag_u64(&r->state, state);
}

/* ---- the death of a PE ---- */

/* Relaxed, pairs with the host's store: it stands for itself. */
PRIM_FN bool isod_is_gone(const struct isod_world *world, int32_t world_pe)
{
    return prim_load_relaxed_u64(&ISOD_GONE(world->host)[world_pe]) != 0;
}
/* The abort word is set by a death alone, which this team masks. The host may change the mask and the deadline of a team
 * while kernels run: lazy, each stands for itself. */
PRIM_FN bool isod_outlives(struct isod_team *team)
{
    return prim_load_lazy_u64(&team->masks) != 0 && prim_load_relaxed_u64(&team->world->host->abort) == ISOD_ABORT_DEATH;
}
PRIM_FN bool isod_is_collective(struct isod_waited who)
{
    return who.call >= ISOD_CALL_BARRIER && who.call <= ISOD_CALL_PERMUTE;
}
/* Where deaths are masked, waits go on but for those that cannot end: for a PE that is gone, and in a collective of a
 * team with such a member. A member that gives up sends nothing more, so the others must give up for its sake too. */
PRIM_FN bool isod_stops(struct isod_team *team, struct isod_waited who)
{
    if (!isod_outlives(team))
        return prim_load_relaxed_u64(&team->world->host->abort) != ISOD_ABORT_NOT;
    if (!isod_is_collective(who)) {
        const int32_t pe = prim_here_i32(who.pe);
        return pe >= 0 && isod_is_gone(team->world, pe);
    }
    int32_t left = team->n_pes;
    while (left > 0 && !isod_is_gone(team->world, team->world_of[left - 1]))
        left--;
    return left != 0;
}

/* The handle does nothing from here on, or no collective. The host sees the second word behind the end of the kernel, or
 * else together with the first one (forget_give_up in handle.c). */
PRIM_FN void isod_handle_give_up(struct isod_team *team)
{
    prim_store_relaxed_u64(&team->status, isod_outlives(team) ? ISOD_STATUS_BEREFT : ISOD_STATUS_GAVE_UP);
    prim_fence_before_signal();
    prim_store_relaxed_u64(&team->world->host->gave_up, 1);
}

/* Not 0: the handle has given up, or the host stops this PE's kernels, upon which it gives up now. */
PRIM_FN int isod_status(struct isod_team *team)
{
    if (prim_load_lazy_u64(&team->status) == ISOD_STATUS_GAVE_UP)
        return 1;
    if (prim_load_relaxed_u64(&team->world->host->abort) == ISOD_ABORT_NOT || isod_outlives(team))
        return 0;
    isod_handle_give_up(team);
    return 1;
}

/* State of one wait, in registers of the waiting thread: its address is never taken, which would put it into memory. */
struct isod_waiting {
    uint64_t since; /* when it has first looked at the clock, in ns but for the lowest byte; 0: not yet */
    uint32_t polls;
};
#define ISOD_SINCE_TOLD 1u    /* has left a record */
#define ISOD_SINCE_GAVE_UP 2u /* in each later look, too */
#define ISOD_SINCE_TRACED 4u  /* times that it was traced: to the end of the byte */
#define ISOD_SINCE_TIME (~(uint64_t)0xff)
PRIM_FN bool isod_has_given_up(struct isod_waiting w) { return (w.since & ISOD_SINCE_GAVE_UP) != 0; }

/* isod_look_at is in every kernel that waits, at the end of a chain of calls whose registers add up. So it gets no more
 * than it decides by, and begins a record whose other fields its caller stores. */
struct isod_looked {
    uint64_t since;
    uint64_t record; /* its address, and ISOD_RECORD_ in the lowest bits; 0: none */
};
PRIM_COLD_FN struct isod_looked isod_look_at(struct isod_team *team, uint64_t since, struct isod_waited who)
{
    struct isod_looked l = {since, 0};
    bool stop = prim_load_relaxed_u64(&team->ended) != 0 || isod_stops(team, who);
    /* One thread tells the host: records of all threads of a grid, one behind the other, would take a second. Of a
     * death that the team masks only collectives tell, which cannot go on. */
    if (stop && (prim_load_relaxed_u64(&team->status) != ISOD_STATUS_GOOD ||
                 (isod_outlives(team) && !isod_is_collective(who)))) {
        l.since |= ISOD_SINCE_GAVE_UP;
        return l;
    }
    uint64_t now = prim_clock_ns() & ISOD_SINCE_TIME;
    uint64_t own = prim_load_lazy_u64(&team->deadline_ns), deadline = own != 0 ? own : team->world->deadline_ns;
    if (since == 0)
        since = l.since = now;
    uint64_t waited = now - (since & ISOD_SINCE_TIME);
    bool late = deadline != 0 && waited > deadline && (since & (ISOD_SINCE_TOLD | ISOD_SINCE_GAVE_UP)) == 0;
    if (!stop && !late && waited >> (since / ISOD_SINCE_TRACED & 63) <= team->world->trace_ns - 1) /* of 0: all */
        return l;
    l.since = stop ? since | ISOD_SINCE_GAVE_UP : late ? since | ISOD_SINCE_TOLD : since + ISOD_SINCE_TRACED;
    if (stop)
        isod_handle_give_up(team);
    struct isod_record *r = isod_record_begin(team, who, waited);
    if (r != 0)
        l.record = (uintptr_t)r | (stop ? ISOD_RECORD_GAVE_UP : late ? ISOD_RECORD_LATE : ISOD_RECORD_TRACE);
    return l;
}
PRIM_FN struct isod_waiting isod_look_and_tell(struct isod_team *team, struct isod_waiting w, struct isod_missed m)
{
    struct isod_looked l = isod_look_at(team, w.since, m.who);
    w.since = l.since;
    if (l.record != 0)
        isod_record_tell((struct isod_record *)(uintptr_t)(l.record & ~(uint64_t)7), m, l.record & 7);
    return w;
}
/* Collectives and messages of a handle that has given up go on to their end, since peers wait for their share; but not by
 * the ring, which sends nothing then. All other waits end. */
PRIM_FN struct isod_waiting isod_wait_look(struct isod_team *team, struct isod_waiting w, struct isod_missed m)
{
    w = isod_look_and_tell(team, w, m);
    if (prim_load_relaxed_u64(&team->status) == ISOD_STATUS_GAVE_UP &&
        (team->direct == 0 || m.who.call < ISOD_CALL_BARRIER || m.who.call == ISOD_CALL_ON_STREAM_WAIT))
        w.since |= ISOD_SINCE_GAVE_UP;
    return w;
}

/* One poll has failed. false: give up. For loops in which latency does not count: else as in isod_wait. */
PRIM_FN bool isod_wait_pause(struct isod_team *team, struct isod_waiting *w, struct isod_missed m)
{
    prim_pause();
    if (++w->polls % ISOD_POLLS_PER_LOOK != 0)
        return true;
    *w = isod_wait_look(team, *w, m);
    return !isod_has_given_up(*w);
}

/* By the calling thread alone: until the word compares true. What was stored before the word was stored may be read by
 * it afterwards (and by its group, after a prim_sync). false: given up. *seen, when not NULL, gets the last value. Two
 * loops, the inner one left from within: nothing but the look itself stands between two looks, and nothing behind the
 * last, since all of that is latency. */
PRIM_FN bool isod_wait_quietly(struct isod_team *team, struct isod_until u, struct isod_waited who, uint64_t *v)
{
    struct isod_waiting w = {0, 0};
    for (;;) {
        PRIM_WAIT_FOR_WORD
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; polls != 0; polls--) {
            *v = isod_peek(u);
            if (isod_holds(u, *v))
                return true;
            prim_pause();
        }
        w = isod_wait_look(team, w, isod_missed_at(who, u.addr, u.value, *v));
        if (isod_has_given_up(w))
            return false;
    }
}
PRIM_FN bool isod_wait(shmemd_t h, struct isod_until u, struct isod_waited who, uint64_t *seen)
{
    uint64_t v;
    bool come = isod_wait_quietly(h.team, u, who, &v);
    prim_acquire_from_peer();
    if (seen != 0)
        *seen = v;
    return come;
}

#endif
