/* SPDX-License-Identifier: MIT */
/* The flight recorder's comparison: what each PE of this node has called last, team by team. Called by report.c. */
#include "flight.h"
#include "../../bootstrap/log.h"
#include "peer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char iso_flight_anchor[] = "flight recorder";

enum { MOST_MISSING = 4 }; /* PEs with a line each */

/* A copy of an entry. */
struct flown {
    int pe;
    uint64_t number;
    const char *name;
    uint64_t bytes;
    int root, slot;
    bool done;
};

struct flights {
    struct flown *of; /* of all PEs of the node, by PE; of one PE in no order */
    int n;
};

/* A call that is named outside of the library has no name in another process. */
static const char *name_at(const char *at)
{
    Dl_info own, its;
    bool known = dladdr(iso_flight_anchor, &own) != 0 && dladdr(at, &its) != 0 && own.dli_fbase == its.dli_fbase;
    return known ? iso_call_name(at) : "a call";
}

static bool read_entry(int pe, const struct flight_entry *e, struct flown *flown)
{
    /* Acquire: pairs with the stores of iso_flight_begin, of which the number is the first and the last. */
    uint64_t number = __atomic_load_n(&e->number, __ATOMIC_ACQUIRE);
    uint64_t name = __atomic_load_n(&e->name, __ATOMIC_ACQUIRE);
    uint64_t bytes = __atomic_load_n(&e->bytes, __ATOMIC_ACQUIRE);
    uint32_t root = __atomic_load_n(&e->root, __ATOMIC_ACQUIRE);
    uint32_t slot_done = __atomic_load_n(&e->slot_done, __ATOMIC_ACQUIRE);
    if (number == 0 || __atomic_load_n(&e->number, __ATOMIC_RELAXED) != number)
        return false;
    *flown = (struct flown){pe, number, name_at(iso_flight_anchor + (int64_t)name), bytes, (int)root,
                            (int)(slot_done >> 1), (slot_done & 1) != 0};
    return true;
}

static void take_pe(struct flights *flights, int pe)
{
    const struct control *control = (const struct control *)(const void *)iso_peer_control(pe);
    for (int i = 0; control != NULL && i < ISO_FLIGHTS; i++)
        flights->n += read_entry(pe, &control->flights[i], &flights->of[flights->n]);
}

static const struct flown *find(const struct flights *flights, int pe, int slot, uint64_t number)
{
    for (int i = 0; i < flights->n; i++)
        if (flights->of[i].pe == pe && flights->of[i].slot == slot && flights->of[i].number == number)
            return &flights->of[i];
    return NULL;
}

/* The last call of `pe` in the slot, first: the oldest that is still recorded; NULL: none. */
static const struct flown *end_of(const struct flights *flights, int pe, int slot, bool first)
{
    const struct flown *end = NULL;
    for (int i = 0; i < flights->n; i++) {
        const struct flown *f = &flights->of[i];
        if (f->pe == pe && f->slot == slot && (end == NULL || (first ? f->number < end->number : f->number > end->number)))
            end = f;
    }
    return end;
}

static bool differ(const struct flown *a, const struct flown *b)
{
    return strcmp(a->name, b->name) != 0 || a->bytes != b->bytes || a->root != b->root;
}

/* The root is said where it, or that of `beside`, is not 0: calls without one have 0 there. */
static const char *text_of(const struct flown *f, const struct flown *beside, char text[128])
{
    int n = snprintf(text, 128, "%s", f->name);
    if (f->bytes != 0)
        n += snprintf(text + n, 128 - (size_t)n, " of %llu bytes", (unsigned long long)f->bytes);
    if (f->bytes != 0 && (f->root != 0 || beside->root != 0))
        snprintf(text + n, 128 - (size_t)n, ", root %d", f->root);
    return text;
}

static const char *team_name(int slot, char text[32])
{
    snprintf(text, 32, slot > 1 ? "the team of slot %d" : slot == 0 ? "the world" : "the team of the node", slot);
    return text;
}

/* PEs of which call number `like->number` of the slot is the same as `like`. */
static int count_alike(const struct flights *flights, const struct flown *like)
{
    int n = 0;
    for (int i = 0; i < ISO->n_local; i++) {
        const struct flown *f = find(flights, ISO->local_pes[i], like->slot, like->number);
        n += f != NULL && !differ(f, like);
    }
    return n;
}

static void tell_two(const struct flights *flights, const struct flown *one, const struct flown *other)
{
    char few[128], many[128], team[32], more[32] = "";
    int n = count_alike(flights, one), n_other = count_alike(flights, other);
    const struct flown *most = n >= n_other ? one : other, *least = n >= n_other ? other : one;
    if (ISO_MAX(n, n_other) > 1)
        snprintf(more, sizeof more, " and %d more", ISO_MAX(n, n_other) - 1);
    log_error("  the first call that differs is call %llu of %s: pe %d is in %s, pe %d%s in %s",
              (unsigned long long)one->number, team_name(one->slot, team), least->pe, text_of(least, most, few), most->pe, more,
              text_of(most, least, many));
}

/* The first call that is not the same on all PEs that have it; false: there is none. */
static bool tell_difference(const struct flights *flights, int slot, uint64_t from, uint64_t to)
{
    for (uint64_t number = from; number <= to; number++) {
        const struct flown *one = NULL;
        for (int i = 0; i < ISO->n_local; i++) {
            const struct flown *other = find(flights, ISO->local_pes[i], slot, number);
            one = one == NULL ? other : one;
            if (other == NULL || !differ(one, other))
                continue;
            tell_two(flights, one, other);
            return true;
        }
    }
    return false;
}

static void tell_missing(const struct flights *flights, int slot, const struct flown *last)
{
    char theirs[128], own[128], team[32];
    int n = 0;
    for (int i = 0; i < ISO->n_local; i++) {
        const struct flown *end = end_of(flights, ISO->local_pes[i], slot, false);
        if (end != NULL && end->number < last->number && n++ < MOST_MISSING)
            log_error("  pe %d has not come to call %llu of %s, %s: its last one was call %llu, %s%s", end->pe,
                      (unsigned long long)last->number, team_name(slot, team), text_of(last, last, theirs),
                      (unsigned long long)end->number, text_of(end, end, own), end->done ? "" : ", in which it is still");
    }
    if (n > MOST_MISSING)
        log_error("  nor have %d more PEs", n - MOST_MISSING);
}

/* Is the entry the only one by which this slot is looked at: the first that is in progress? */
static bool begins_slot(const struct flights *flights, int at)
{
    for (int i = 0; i < at; i++)
        if (!flights->of[i].done && flights->of[i].slot == flights->of[at].slot)
            return false;
    return !flights->of[at].done;
}

static void compare_slot(const struct flights *flights, int slot)
{
    const struct flown *last = NULL;
    uint64_t from = 1; /* all that have called at all still have it */
    for (int i = 0; i < ISO->n_local; i++) {
        const struct flown *end = end_of(flights, ISO->local_pes[i], slot, false);
        const struct flown *first = end_of(flights, ISO->local_pes[i], slot, true);
        last = last == NULL || (end != NULL && end->number > last->number) ? end : last;
        from = first != NULL ? ISO_MAX(from, first->number) : from;
    }
    if (last != NULL && !tell_difference(flights, slot, from, last->number))
        tell_missing(flights, slot, last);
}

void iso_flight_compare(void)
{
    struct flights flights = {
        (struct flown *)malloc((size_t)ISO->n_local * ISO_FLIGHTS * sizeof(struct flown)), 0};
    if (flights.of == NULL)
        return;
    for (int i = 0; i < ISO->n_local; i++)
        take_pe(&flights, ISO->local_pes[i]);
    for (int i = 0; i < flights.n; i++)
        if (begins_slot(&flights, i))
            compare_slot(&flights, flights.of[i].slot);
    free(flights.of);
}
