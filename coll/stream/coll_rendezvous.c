/* SPDX-License-Identifier: MIT */
/* shmemx_rendezvous: the members of a team tell each other where a range of memory of theirs lies. Kernels learn places
 * in each call, with the arrival of the members; hosts enqueue copies without waiting for a member, so they have to
 * know before. Invariant: all members have the same ranges of a team with the same places, in the same order: what a new
 * rendezvous forgets, all forget. Called by users, coll_stream.c, stream_slot.c (when a team goes). */
#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "coll_stream.h"

#include <stdlib.h>

static const char call[] = "shmemx_rendezvous";

static struct stream_range **list_of(struct device *d) { return (struct stream_range **)&d->ranges; }

void iso_stream_range_drop(struct stream_range *range)
{
    if (range != NULL)
        free(range->places);
    free(range);
}

static struct stream_range *create(const struct team *team, char *address, size_t bytes)
{
    size_t n = (size_t)team->n_pes;
    struct stream_range *range = (struct stream_range *)calloc(1, sizeof *range + n * sizeof range->near[0]);
    uint64_t *places = (uint64_t *)calloc(n, sizeof *places);
    if (range == NULL || places == NULL) {
        free(range);
        free(places);
        return NULL;
    }
    range->team = team;
    range->address = address;
    range->bytes = bytes;
    range->places = places;
    return range;
}

/* ---- what the members tell each other ---- */

struct rendezvous_member {
    uint64_t place, bytes;
    uint64_t is_wrong; /* 1: and it has said why */
};

/* 0, or -errno on all members after a sentence. */
static int exchange(struct team *team, struct stream_range *range, struct rendezvous_member mine, const char *who)
{
    struct rendezvous_member *all = (struct rendezvous_member *)calloc((size_t)team->n_pes, sizeof *all);
    if (all == NULL)
        return iso_refuse_alone(who, "no memory for a team of %d", team->n_pes);
    int rc = iso_agree_gather(team, &mine, sizeof mine, all, who), wrong = -1, other = -1;
    for (int i = 0; i < team->n_pes && rc == 0; i++) {
        wrong = all[i].is_wrong != 0 && wrong < 0 ? i : wrong;
        other = all[i].bytes != mine.bytes && other < 0 ? i : other;
    }
    if (rc == 0 && wrong >= 0 && mine.is_wrong == 0)
        iso_log_elsewhere("%s: pe %d failed and says why", who, team->world_of[wrong]);
    else if (rc == 0 && wrong < 0 && other >= 0)
        log_error("%s: bytes is %zu here and %zu on pe %d; it must be equal on all members", who, (size_t)mine.bytes,
                  (size_t)all[other].bytes, team->world_of[other]);
    for (int i = 0; i < team->n_pes && rc == 0 && wrong < 0 && other < 0; i++)
        range->places[i] = all[i].place;
    free(all);
    return rc != 0 ? rc : wrong >= 0 || other >= 0 ? -1 : 0;
}

/* ---- the list ---- */

static bool overlaps(const struct stream_range *a, const struct stream_range *b)
{
    for (int i = 0; i < a->team->n_pes; i++)
        if (a->places[i] < b->places[i] + b->bytes && b->places[i] < a->places[i] + a->bytes)
            return true;
    return false;
}

/* Of the same team; at the same place of it on all members. */
static bool holds(const struct stream_range *whole, const struct stream_range *part)
{
    uint64_t at = part->places[0] - whole->places[0];
    for (int i = 0; i < whole->team->n_pes; i++)
        if (part->places[i] - whole->places[i] != at)
            return false;
    return at < whole->bytes && part->bytes <= whole->bytes - at;
}

/* Takes range. By what all members know alike. */
static void keep(struct device *d, struct stream_range *range)
{
    uint64_t number = 0;
    bool is_known = false;
    pthread_mutex_lock(&d->lock);
    for (const struct stream_range *old = *list_of(d); old != NULL; old = old->next)
        if (old->team == range->team) {
            is_known = is_known || holds(old, range);
            number = ISO_MAX(number, old->number);
        }
    for (struct stream_range **at = list_of(d); *at != NULL && !is_known;) {
        struct stream_range *old = *at;
        if (old->team == range->team && overlaps(old, range)) {
            *at = old->next;
            iso_stream_range_drop(old);
        } else {
            at = &old->next;
        }
    }
    if (!is_known) {
        range->number = number + 1;
        range->next = *list_of(d);
        *list_of(d) = range;
    }
    pthread_mutex_unlock(&d->lock);
    if (is_known)
        iso_stream_range_drop(range);
}

const struct stream_range *iso_stream_range_find(struct device *d, const struct team *team, const void *addr,
                                                 size_t bytes)
{
    const struct stream_range *found = NULL;
    pthread_mutex_lock(&d->lock);
    for (const struct stream_range *r = *list_of(d); r != NULL && found == NULL; r = r->next) {
        size_t at = (size_t)((const char *)addr - r->address);
        if (r->team == team && at < r->bytes && bytes <= r->bytes - at)
            found = r;
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

void iso_stream_ranges_forget(struct device *d, const struct team *team)
{
    pthread_mutex_lock(&d->lock);
    for (struct stream_range **at = list_of(d); *at != NULL;) {
        struct stream_range *old = *at;
        if (team == NULL || old->team == team) {
            *at = old->next;
            iso_stream_range_drop(old);
        } else {
            at = &old->next;
        }
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- the call ---- */

struct stream_range *iso_stream_range_make(struct team *members, void *address, size_t bytes, const char *who)
{
    struct stream_range *range = create(members, (char *)address, bytes);
    struct rendezvous_member mine = {0, bytes, range == NULL || (address == NULL && bytes != 0)};
    if (range == NULL)
        log_error("%s: no memory", who);
    if (mine.is_wrong == 0 && bytes != 0)
        mine.place = iso_segment_place(address);
    if (exchange(members, range, mine, who) != 0) {
        iso_stream_range_drop(range);
        return NULL;
    }
    for (int i = 0; i < members->n_pes && bytes != 0; i++) {
        const struct segment *s = iso_segment_of_place(range->places[i]);
        char *base = s != NULL ? iso_handle_near(s, members->world_of[i]) : NULL;
        if (base != NULL)
            range->near[i] = base + (range->places[i] & (((uint64_t)1 << ISOD_PLACE_BITS) - 1));
    }
    return range;
}

SHMEM_API(shmemx_rendezvous, pshmemx_rendezvous);
int pshmemx_rendezvous(shmem_team_t team_handle, void *address, size_t bytes)
{
    struct device *d = iso_device_running(call);
    struct team *team = d != NULL ? iso_team_or_null(team_handle) : NULL;
    if (d != NULL && team == NULL)
        log_error("%s: team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)", call);
    if (team == NULL)
        return 1;
    bool found = bytes == 0 || iso_segment_of(address, bytes) != NULL;
    if (!found)
        log_error("%s: address %p (%zu bytes) is not memory that the other members can reach: it has to be in one "
                  "object of shmemx_malloc, shmemx_team_malloc or shmemx_local_malloc, or in a registered buffer",
                  call, address, bytes);
    struct stream_range *range = iso_stream_range_make(team, found ? address : NULL, bytes, call);
    if (range == NULL)
        return 1;
    if (bytes == 0) {
        iso_stream_range_drop(range);
        iso_stream_ranges_forget(d, team);
        return 0;
    }
    keep(d, range);
    return 0;
}
