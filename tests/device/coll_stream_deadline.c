/* SPDX-License-Identifier: MIT */
/* A collective on a stream that one member does not join: past SHMEM_TIMEOUT the others have a record of who waits for
 * waited; after shmemx_device_abort they have one of giving up and the streams go on; when all members have given up,
 * the slot does nothing any more and dest stays as it is; another slot of the same team works meanwhile; and a
 * collective reset repairs the slot. For every kind, by the algorithms that SHMEM_COLL forces or the library chooses.
 * Run with SHMEM_TIMEOUT of a fraction of a second. */
#include "coll_turn.h"

enum { SLOT = 7, OTHER_SLOT = 8, WORDS = 600 };

static const char *const kind_names[] = {KIND_NAMES};

struct deadline {
    struct coll_team teams[TEAMS];
    struct turn_place place, other;
    shmemx_stream_t stream, second;
    unsigned turns;
};

/* The PE that does not come; all others wait for it in every kind. */
static int missing(const struct deadline *d) { return d->teams[TEAM_WORLD].n - 1; }

/* Rooted at the missing PE; or round the ring, so that PE 0 waits for it. */
static void set(struct deadline *d, struct turn *t, struct turn_place *place, int kind, int slot, bool engines)
{
    const struct coll_team *world = &d->teams[TEAM_WORLD];
    turn_set(t, place, world, kind, TURN_BOTH, WORDS, 2 + d->turns);
    t->a.root = t->q.root = missing(d);
    t->a.from = t->q.from = (world->me + world->n - 1) % world->n;
    t->q.to = (world->me + 1) % world->n;
    t->q.slot = slot;
    if (engines)
        turn_set_engines(t, true);
}

static void works(struct deadline *d, struct turn_place *place, shmemx_stream_t stream, int kind, int slot,
                  bool engines)
{
    struct turn t;
    for (int i = 0; i < 4; i++) {
        set(d, &t, place, kind, slot, engines);
        t.a.turn = ++d->turns;
        turn_enqueue(&t, stream, kind_names[kind]);
    }
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    turn_check(place, kind_names[kind]);
}

/* Until one of this slot with this mark comes; others may be on the list. */
static bool error_of(shmemx_device_error_t *error, int gave_up, int slot)
{
    do {
        if (!CHECK_NAMED(device_next_error(error), "a record comes in time"))
            return false;
    } while (error->gave_up != gave_up || error->team_slot != slot);
    return true;
}

/* A list that is full takes no more. */
static void forget_records(void)
{
    shmemx_device_error_t error;
    while (shmemx_device_error(&error) != 0)
        continue;
}

/* In every algorithm; in a permutation others may wait, too. */
static bool waits(const struct deadline *d, int kind)
{
    return shmem_my_pe() != missing(d) && (kind != SHMEMX_PERMUTE || shmem_my_pe() == 0);
}

static void expire(struct deadline *d, int kind, bool engines)
{
    struct turn t;
    shmemx_device_error_t error;
    set(d, &t, &d->place, kind, SLOT, engines);
    if (shmem_my_pe() != missing(d))
        turn_call(&t, d->stream, kind_names[kind]);
    if (waits(d, kind) && error_of(&error, 0, SLOT)) {
        CHECK(error.pe >= 0 && error.pe < shmem_n_pes());
        CHECK(error.waited_seconds >= 0.1 && error.waited_seconds < DEVICE_PATIENCE_S);
        CHECK_NAMED(error.call[0] != 0, "the record names the call");
    }
}

/* A device may have fewer queues than streams, and engines of one slot stand behind those of another then. */
static void works_meanwhile(struct deadline *d, int kind, bool engines)
{
    if (device_is_cpu())
        works(d, &d->other, d->second, kind, OTHER_SLOT, engines);
    else
        works(d, &d->other, d->second, SHMEMX_ALLREDUCE, OTHER_SLOT, false);
}

/* One call in the slot by all members; by engines it is refused. What the host's wait for it has returned. */
static int call_dead(struct deadline *d, int kind, bool engines, const char *what)
{
    struct turn t;
    set(d, &t, &d->place, kind, SLOT, engines);
    int rc = shmemx_coll_on_stream(&t.q, d->stream);
    CHECK_NAMED(!engines || rc != 0, what);
    rc = shmemx_stream_synchronize(d->stream);
    shmem_barrier_all();
    return rc;
}

/* The streams go on. Who comes late may still find all that the others have sent; each call more leaves fewer members
 * that do, so after one for each of them nobody is left. */
static void give_up(struct deadline *d, int kind, bool engines)
{
    shmemx_device_error_t error;
    forget_records();
    shmemx_device_abort();
    int rc = shmemx_stream_synchronize(d->stream);
    if (waits(d, kind)) {
        CHECK_NAMED(rc != 0, "the host's wait returns nonzero when a call has given up");
        (void)error_of(&error, 1, SLOT);
    }
    shmem_barrier_all();
    for (int i = 0; i < shmem_n_pes() && !engines; i++)
        (void)call_dead(d, kind, engines, kind_names[kind]);
}

/* Dest is what it was, whatever is called. */
static void stays_silent(struct deadline *d, int kind, bool engines)
{
    char text[100];
    snprintf(text, sizeof(text), "%s in a slot that has given up%s", kind_names[kind], engines ? ", by engines" : "");
    turn_fill(&d->place, d->place.dest[0], d->place.words, TURN_POISON);
    turn_fill(&d->place, d->place.source[0], d->place.words, TURN_POISON);
    shmem_barrier_all();
    int rc = call_dead(d, kind, engines, text);
    CHECK_NAMED(rc != 0 || !waits(d, kind), "the host's wait returns nonzero until the reset"); /* a root may not wait */
    turn_check_poison(&d->place, text);
}

static void recover(void)
{
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, SLOT), 0);
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, OTHER_SLOT), 0);
    forget_records();
}

static void one_kind(struct deadline *d, int kind, bool engines)
{
    works(d, &d->place, d->stream, kind, SLOT, engines);
    works(d, &d->other, d->second, kind, OTHER_SLOT, engines);
    shmem_barrier_all();
    expire(d, kind, engines);
    works_meanwhile(d, kind, engines);
    shmem_barrier_all();
    give_up(d, kind, engines);
    stays_silent(d, kind, engines);
    recover();
    works(d, &d->place, d->stream, kind, SLOT, engines);
    works(d, &d->other, d->second, kind, OTHER_SLOT, engines);
}

static int test_main(void)
{
    COLL_INIT();
    struct deadline d;
    memset(&d, 0, sizeof(d));
    coll_teams_make(d.teams);
    turn_place_make(&d.place, (uint64_t)WORDS * (uint64_t)shmem_n_pes());
    turn_place_make(&d.other, (uint64_t)WORDS * (uint64_t)shmem_n_pes());
    CHECK_OR_EXIT(shmemx_stream_create(&d.stream) == 0 && shmemx_stream_create(&d.second) == 0);
    for (int kind = 0; kind < KINDS && shmem_n_pes() > 1; kind++) {
        one_kind(&d, kind, false);
        if (turn_has_engines(kind, TURN_BOTH))
            one_kind(&d, kind, true);
    }
    CHECK_EQ(shmemx_stream_destroy(d.second), 0);
    CHECK_EQ(shmemx_stream_destroy(d.stream), 0);
    turn_place_drop(&d.other);
    turn_place_drop(&d.place);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
