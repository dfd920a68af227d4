/* SPDX-License-Identifier: MIT */
/* Active sets (deprecated form of the collectives): implicit teams by start, stride and size. The first call on a set
 * opens a slot for it, later ones find it again; sets may overlap and are used in any order. pSync is checked and not
 * used: the slot has flags of its own.
 * Threads of one PE may be inside collectives on the same set at the same time, if their pSync differ; so with
 * SHMEM_THREAD_MULTIPLE pSync is part of the set's identity. A program may use any number of sets and pSync addresses,
 * but slots are few. So only a set whose slot is below ISO_SLOTS_KEPT keeps it; any other one gives its slot back at
 * the end of the call, and opens one again in the next. The number of a slot is equal on all members, so they decide
 * alike. Called by coll_sync.c, coll_move.c, coll_reduce.c. */
#include "coll.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 64

struct set {
    struct team team; /* first: its address is the set's */
    int log_stride;
    uint64_t psync; /* its identity, with SHMEM_THREAD_MULTIPLE; else 0 */
    bool kept;      /* in the table; else it lives as long as one call */
    struct set *next;
};

struct sets {
    struct set *buckets[BUCKETS];
    pthread_mutex_t lock; /* taken with SHMEM_THREAD_MULTIPLE only */
};

/* ---- checks ---- */

static void check_inside(struct coll_set a, const char *call)
{
    int n = ISO->n_pes, me = ISO->my_pe;
    if (a.start < 0 || a.start >= n)
        iso_fatal(call, "PE_start %d is outside 0..%d", a.start, n - 1);
    if (a.log_stride < 0 || a.log_stride > 30)
        iso_fatal(call, "logPE_stride %d is outside 0..30", a.log_stride);
    if (a.size < 1 || a.size > n)
        iso_fatal(call, "PE_size %d is outside 1..%d", a.size, n);
    int64_t stride = (int64_t)1 << a.log_stride, last = a.start + (a.size - 1) * stride;
    if (last >= n)
        iso_fatal(call, "PE_start %d, logPE_stride %d, PE_size %d end with pe %lld, which is outside 0..%d", a.start,
                  a.log_stride, a.size, (long long)last, n - 1);
    if (me < a.start || me > last || (me - a.start) % stride != 0)
        iso_fatal(call, "the calling pe %d is not in the active set PE_start %d, logPE_stride %d, PE_size %d", me,
                  a.start, a.log_stride, a.size);
}

/* ---- the table ---- */

static struct set **bucket(struct sets *sets, struct coll_set a, uint64_t psync)
{
    uint64_t key = ((uint64_t)a.start * 37 + (uint64_t)a.size) * 31 + (uint64_t)a.log_stride + psync / sizeof(long);
    return &sets->buckets[(key * 0x9e3779b97f4a7c15u) >> 58];
}

static struct set *find_set(struct sets *sets, struct coll_set a, uint64_t psync)
{
    struct set *set = *bucket(sets, a, psync);
    while (set != NULL && (set->team.start != a.start || set->log_stride != a.log_stride ||
                           set->team.n_pes != a.size || set->psync != psync))
        set = set->next;
    return set;
}

static struct set *make_set(struct coll_set a, uint64_t psync, const char *call)
{
    struct set *set = (struct set *)calloc(1, sizeof(*set));
    int *world_of = (int *)malloc((size_t)a.size * sizeof(*world_of));
    if (set == NULL || world_of == NULL)
        iso_fatal(call, "no memory for an active set of %d PEs", a.size);
    set->log_stride = a.log_stride;
    set->psync = psync;
    struct team *team = &set->team;
    team->n_pes = a.size;
    team->start = a.start;
    team->stride = 1 << a.log_stride;
    team->my_pe = (ISO->my_pe - a.start) >> a.log_stride;
    team->world_of = world_of;
    for (int i = 0; i < a.size; i++)
        world_of[i] = a.start + i * team->stride;
    struct slot_key key = {a.start, team->stride, a.size, ISO_SLOT_OF_SET, psync, 0};
    if (iso_slot_open(&team->slot, key, world_of, a.size, 0) != 0)
        iso_fatal(call, "the active set PE_start %d, logPE_stride %d, PE_size %d gets no slot", a.start, a.log_stride,
                  a.size);
    set->kept = a.size > 1 && team->slot.index < ISO_SLOTS_KEPT;
    return set;
}

static void lock(struct sets *sets, bool shared)
{
    if (shared)
        pthread_mutex_lock(&sets->lock);
}

static void unlock(struct sets *sets, bool shared)
{
    if (shared)
        pthread_mutex_unlock(&sets->lock);
}

/* The lock is not held while a slot is opened: that waits for other PEs, whose threads may come in another order. Two
 * threads never make the same set, since they would be in one collective. */
struct team *iso_coll_active_set(struct coll_set a, const char *call)
{
    iso_check_life(call);
    if (ISO_CHECKS)
        check_inside(a, call);
    struct coll_mem psync = iso_coll_mem(a.psync, a.psync_longs * sizeof(long), "pSync", call);
    struct sets *sets = (struct sets *)ISO->active_sets;

    /* With threads pSync is part of the identity: equal on all PEs for equal pSync, different for different ones. The
     * identity is 0 where no threads share the table. */
    uint64_t identity = 0;
    if (ISO->thread_level == SHMEM_THREAD_MULTIPLE) {
        identity = 1;
        if (psync.segment != NULL)
            identity = psync.offset * ISO_SEGMENTS_MAX + (uint64_t)(psync.segment - ISO->segments) + 2;
    }

    bool shared = identity != 0;
    lock(sets, shared);
    struct set *set = find_set(sets, a, identity);
    unlock(sets, shared);
    if (ISO_LIKELY(set != NULL))
        return &set->team;
    set = make_set(a, identity, call);
    if (set->kept) {
        lock(sets, shared);
        set->next = *bucket(sets, a, identity);
        *bucket(sets, a, identity) = set;
        unlock(sets, shared);
    }
    return &set->team;
}

static void free_set(struct set *set)
{
    iso_slot_close(&set->team.slot, set->team.world_of, set->team.n_pes);
    free(set->team.world_of);
    free(set);
}

/* Member 0 stays until the others have closed the slot too. So a root that runs ahead holds one slot, not all of them,
 * and each member sees one grant of this set at a time. */
void iso_coll_active_set_end(struct team *team, const char *call)
{
    struct set *set = (struct set *)team; /* its first member */
    if (ISO_LIKELY(set->kept))
        return;
    iso_slot_await_others(&team->slot, team->my_pe, call);
    free_set(set);
}

/* ---- start and stop ---- */

int iso_active_set_start(void)
{
    struct sets *sets = (struct sets *)calloc(1, sizeof(*sets));
    if (sets == NULL)
        return -ENOMEM;
    pthread_mutex_init(&sets->lock, NULL);
    ISO->active_sets = sets;
    return 0;
}

void iso_active_set_stop(void)
{
    struct sets *sets = (struct sets *)ISO->active_sets;
    if (sets == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (sets->buckets[i] != NULL) {
            struct set *set = sets->buckets[i];
            sets->buckets[i] = set->next;
            set->team.slot.index = -1; /* not given back: the control areas end with the sets */
            free_set(set);
        }
    pthread_mutex_destroy(&sets->lock);
    free(sets);
    ISO->active_sets = NULL;
}
