/* SPDX-License-Identifier: MIT */
/* Collectives on streams whose dest and source lie at another place on each member and in each call: in the heap, in
 * memory of a team, in local memory, of the host too on the CPU device, at random offsets; in registered buffers; in
 * memory that no peer reaches. Every kind, several streams with slots of their own at once, one call after the other
 * with nothing between them but kernels that make and look (coll_turn.h), then graphs that are replayed, then copy
 * engines after shmemx_rendezvous. All memory is poison before and after each turn: a store at a wrong place is found
 * by the turn that finds it there, or by the last look at all of it. SHMEM_COLL forces algorithms, each of which must
 * have been the choice of a call where there are enough; SHMEM_TEST_CALLS is how many. */
#include "coll_turn.h"

enum { LANES = 3, BATCH = 60, MOST_WORDS = 3000, CALLS = 1500, GRAPHS = 6, GRAPH_CALLS = 5, REPLAYS = 20 };
enum { ENOUGH_CALLS = 200 }; /* for each algorithm that is forced to be chosen */

/* Where a member's buffer may be. The first ones are alike to the members: each takes any of them. */
enum origin { HEAP, TEAM, LOCAL, HOST_LOCAL, HOST_HEAP, ANYWHERE, REGISTERED = ANYWHERE, OWN, ORIGINS };
static const char *const origin_names[] = {"heap", "team", "local", "host local", "host heap", "registered", "own"};
static const char *const kind_names[] = {KIND_NAMES};

struct pool {
    char *base[2][ORIGINS]; /* of dest, of source; NULL: not on this device */
    char *raw[2];           /* of the registered ones */
};
struct lane {
    struct turn_place extras; /* blocks, signals, value, wrong */
    struct pool pool;
    uint64_t *blocks; /* local memory, elsewhere on each member */
    shmemx_stream_t stream;
    char last[300];
};
struct places_state {
    struct coll_team teams[TEAMS];
    struct lane lanes[LANES];
    struct check_random common, mine;
    uint64_t room; /* words of a buffer */
    unsigned calls, chosen[KINDS];
    bool cpu;
    bool few; /* calls: too few for each algorithm to be chosen, and fewer graphs */
};

/* ---- memory ---- */

static void fill_origin(struct places_state *s, struct lane *l, enum origin origin, char *memory)
{
    if (memory == NULL)
        return;
    if (origin == OWN)
        turn_fill_own(&l->extras, memory, l->extras.dest[0]);
    else
        turn_fill(&l->extras, memory, s->room, TURN_POISON);
}

/* What was allocated before differs between members, and so do the offsets. */
static void pool_make(struct places_state *s, struct lane *l, int buffer)
{
    struct pool *p = &l->pool;
    size_t bytes = s->room * 8, me = (size_t)shmem_my_pe(), pages = (bytes + 3 * 4096) / 4096 * 4096;
    void *before = shmemx_local_malloc(512 * (1 + 3 * me), SHMEMX_DEVICE);
    p->base[buffer][HEAP] = (char *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    p->base[buffer][TEAM] = (char *)shmemx_team_malloc(SHMEM_TEAM_WORLD, bytes, SHMEMX_DEVICE);
    p->base[buffer][LOCAL] = (char *)shmemx_local_malloc(bytes, SHMEMX_DEVICE);
    p->base[buffer][HOST_LOCAL] = s->cpu ? (char *)shmemx_local_malloc(bytes, SHMEMX_HOST) : NULL;
    p->base[buffer][HOST_HEAP] = s->cpu ? (char *)shmem_malloc(bytes) : NULL;
    p->raw[buffer] = (char *)own_malloc(pages);
    p->base[buffer][OWN] = (char *)own_malloc(pages);
    CHECK_OR_EXIT(before != NULL && p->base[buffer][HEAP] != NULL && p->base[buffer][TEAM] != NULL);
    CHECK_OR_EXIT(p->base[buffer][LOCAL] != NULL && p->raw[buffer] != NULL && p->base[buffer][OWN] != NULL);
    p->base[buffer][REGISTERED] = p->raw[buffer] + 24 + 8 * me; /* its ends share their pages */
    CHECK_OR_EXIT(shmemx_buffer_register(p->base[buffer][REGISTERED], bytes, NULL) == 0);
    shmemx_local_free(before);
    for (int origin = 0; origin < ORIGINS; origin++)
        fill_origin(s, l, (enum origin)origin, p->base[buffer][origin]);
}
static void pool_drop(struct places_state *s, struct lane *l, int buffer)
{
    struct pool *p = &l->pool;
    shmem_barrier_all();
    CHECK_EQ(shmemx_buffer_unregister(p->base[buffer][REGISTERED]), 0);
    own_free(p->base[buffer][OWN]);
    own_free(p->raw[buffer]);
    if (s->cpu)
        shmem_free(p->base[buffer][HOST_HEAP]);
    shmemx_local_free(p->base[buffer][HOST_LOCAL]);
    shmemx_local_free(p->base[buffer][LOCAL]);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, p->base[buffer][TEAM]), 0);
    shmemx_free(p->base[buffer][HEAP]);
}

/* Nothing was written but what the turns have seen. */
static void pool_check(struct places_state *s, struct lane *l, int buffer)
{
    for (int origin = 0; origin < OWN; origin++) {
        const char *memory = l->pool.base[buffer][origin];
        uint64_t wrong = 0;
        if (memory == NULL)
            continue;
        device_read(l->extras.host, memory, s->room * 8);
        for (uint64_t i = 0; i < s->room; i++)
            wrong += l->extras.host[i] != TURN_POISON;
        CHECK_EQ_NAMED(wrong, 0, origin_names[origin]);
    }
}

static void lane_make(struct places_state *s, struct lane *l)
{
    size_t me = (size_t)shmem_my_pe();
    turn_place_make(&l->extras, s->room);
    for (int buffer = 0; buffer < 2; buffer++)
        pool_make(s, l, buffer);
    void *before = shmemx_local_malloc(256 * (2 * me + 1), SHMEMX_DEVICE);
    l->blocks = (uint64_t *)shmemx_local_malloc(4 * MOST_PES * 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(before != NULL && l->blocks != NULL && shmemx_stream_create(&l->stream) == 0);
    shmemx_local_free(before);
    turn_fill(&l->extras, l->blocks, 4 * MOST_PES, 0);
}
static void lane_drop(struct places_state *s, struct lane *l)
{
    CHECK_EQ(shmemx_stream_destroy(l->stream), 0);
    for (int buffer = 0; buffer < 2; buffer++) {
        pool_check(s, l, buffer);
        pool_drop(s, l, buffer);
    }
    shmemx_local_free(l->blocks);
    turn_place_drop(&l->extras);
}

/* ---- calls ---- */

/* The class of a buffer is common, the rest is this member's own: which memory, and where in it. */
static uint64_t *somewhere(struct places_state *s, struct lane *l, int buffer, enum origin common, uint64_t words,
                           enum origin *taken)
{
    uint64_t aligned = check_random_below(&s->common, 2) != 0 ? 16 : 1; /* words: fast paths, and all others */
    *taken = common;
    while (common < ANYWHERE) {
        *taken = (enum origin)check_random_below(&s->mine, ANYWHERE);
        if (l->pool.base[buffer][*taken] != NULL)
            break;
    }
    uint64_t at = check_random_below(&s->mine, s->room - words + 1) / aligned * aligned;
    return (uint64_t *)(void *)(l->pool.base[buffer][*taken] + at * 8);
}
/* HEAP stands for anywhere. */
static enum origin random_class(struct places_state *s)
{
    static const enum origin classes[] = {HEAP, HEAP, HEAP, HEAP, REGISTERED, OWN};
    return classes[check_random_below(&s->common, 6)];
}

static void set_places(struct places_state *s, struct lane *l, struct turn *t, char *text, size_t bytes)
{
    enum origin dest = random_class(s), source = random_class(s);
    bool in_place = check_random_below(&s->common, 5) == 0 && t->a.kind != SHMEMX_ALLTOALL &&
                    t->a.kind != SHMEMX_ALLTOALLV && t->a.kind != SHMEMX_PERMUTE;
    uint64_t inner = (uint64_t)t->a.me * t->a.words;
    if (t->a.kind == SHMEMX_ALLTOALLV)
        dest = dest == OWN ? HEAP : dest;
    t->a.dest = somewhere(s, l, 0, dest, turn_dest_words(t->a), &dest);
    t->a.source = somewhere(s, l, 1, source, turn_source_words(t->a), &source);
    if (in_place && t->a.kind == SHMEMX_REDUCESCATTER)
        t->a.dest = t->a.source + inner;
    else if (in_place)
        t->a.source = t->a.kind == SHMEMX_FCOLLECT ? t->a.dest + inner : t->a.dest;
    t->q.dest = t->a.dest;
    t->q.source = t->a.source;
    snprintf(text, bytes, "dest %s, source %s%s", origin_names[dest], origin_names[source],
             in_place ? ", in place" : "");
}

/* The name that SHMEM_COLL gives for the kind is that of the algorithm that the call takes. */
static void count_choice(struct places_state *s, const shmemx_coll_t *q)
{
    const char *text = getenv("SHMEM_COLL");
    char wanted[40], line[700];
    int len = snprintf(wanted, sizeof(wanted), "stream.%s=", kind_names[q->kind]);
    const char *name = text != NULL ? strstr(text, wanted) : NULL;
    if (name == NULL || s->chosen[q->kind] != 0)
        return;
    (void)shmemx_coll_explain(q, line, sizeof(line));
    const char *choice = strstr(line, ": ");
    size_t end = strcspn(name + len, ":,");
    s->chosen[q->kind] += choice != NULL && strncmp(choice + 2, name + len, end) == 0 && choice[2 + end] == ',';
}

static void random_turn(struct places_state *s, struct lane *l, struct turn *t, int slot)
{
    static const uint64_t most[] = {4, 40, 300, 1100, MOST_WORDS};
    const struct coll_team *team = &s->teams[check_random_below(&s->common, TEAMS)];
    int kind = (int)check_random_below(&s->common, KINDS);
    uint64_t words = 1 + check_random_below(&s->common, most[check_random_below(&s->common, 5)]);
    char where[100];
    s->calls++;
    turn_set(t, &l->extras, team, kind, TURN_BOTH, words, s->calls);
    set_places(s, l, t, where, sizeof(where));
    t->q.slot = slot;
    t->a.blocks = l->blocks;
    t->v.bytes = l->blocks;
    t->v.source_offset = l->blocks + team->n;
    t->v.dest_offset = l->blocks + 2 * team->n;
    t->v.received = l->blocks + 3 * team->n;
    t->a.late = check_random_below(&s->mine, 8) == 0 ? (uint32_t)check_random_next(&s->mine) | 1 : 0;
    snprintf(l->last, sizeof(l->last), "up to call %u: %s, %llu words, %d members, %s, slot %d", s->calls,
             kind_names[kind], (unsigned long long)words, team->n, where, slot);
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] %s\n", check_self.pe, l->last + 6);
}

static bool look(struct places_state *s)
{
    bool ok = true;
    for (int i = 0; i < LANES; i++) {
        CHECK_EQ(shmemx_stream_synchronize(s->lanes[i].stream), 0);
        ok = turn_check(&s->lanes[i].extras, s->lanes[i].last) && ok;
    }
    return ok;
}

static void test_random(struct places_state *s)
{
    unsigned calls = (unsigned)device_number("SHMEM_TEST_CALLS", CALLS);
    while (s->calls < calls) {
        int lane = (int)check_random_below(&s->common, LANES);
        struct lane *l = &s->lanes[lane];
        struct turn t;
        random_turn(s, l, &t, lane + LANES * (int)check_random_below(&s->common, 2));
        turn_enqueue(&t, l->stream, l->last);
        count_choice(s, &t.q);
        if (s->calls % BATCH == 0)
            look(s);
    }
    look(s);
}

/* ---- graphs: the places are constants of a captured call ---- */

static void test_graph(struct places_state *s, struct lane *l)
{
    struct turn_tick_args tick = {l->extras.value};
    struct turn turns[GRAPH_CALLS];
    shmemx_graph_t graph;
    uint64_t count = 1000 * (uint64_t)s->calls;
    for (int i = 0; i < GRAPH_CALLS; i++) {
        random_turn(s, l, &turns[i], LANES * 2);
        turn_enqueue(&turns[i], l->stream, l->last); /* makes the slot */
        turns[i].a.count = l->extras.value;
    }
    CHECK_EQ(shmemx_stream_synchronize(l->stream), 0);
    device_write(l->extras.value, &count, 8);
    CHECK_OR_EXIT(shmemx_graph_begin(l->stream) == 0);
    for (int i = 0; i < GRAPH_CALLS; i++) {
        DEVICE_LAUNCH(turn_tick, 1, 1, tick, l->stream);
        turn_enqueue(&turns[i], l->stream, "in a graph");
    }
    CHECK_OR_EXIT(shmemx_graph_end(l->stream, &graph) == 0);
    for (int i = 0; i < (s->few ? REPLAYS / 4 : REPLAYS); i++)
        CHECK_EQ(shmemx_graph_launch(graph, l->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(l->stream), 0);
    turn_check(&l->extras, "a graph");
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

/* ---- copy engines ---- */

struct range {
    char *memory;
    enum origin origin;
};

/* Each member's range is in another kind of memory. */
static struct range range_of(struct places_state *s, struct lane *l)
{
    static const enum origin origins[] = {LOCAL, HEAP, TEAM, HOST_LOCAL};
    struct range r = {NULL, HEAP};
    r.origin = origins[(size_t)shmem_my_pe() % 4];
    if (l->pool.base[0][r.origin] == NULL)
        r.origin = LOCAL;
    (void)s;
    r.memory = l->pool.base[0][r.origin] + 128 * (size_t)shmem_my_pe();
    return r;
}

static void engine_turn(struct places_state *s, struct lane *l, const struct range *r, uint64_t room)
{
    static const int kinds[] = {SHMEMX_FCOLLECT, SHMEMX_ALLTOALL, SHMEMX_BROADCAST, SHMEMX_PERMUTE};
    const struct coll_team *team = &s->teams[check_random_below(&s->common, TEAMS)];
    int kind = kinds[check_random_below(&s->common, 4)];
    uint64_t words = 1 + check_random_below(&s->common, MOST_WORDS);
    enum origin source;
    struct turn t;
    s->calls++;
    turn_set(&t, &l->extras, team, kind, TURN_BOTH, words, s->calls);
    t.a.dest = (uint64_t *)(void *)r->memory + check_random_below(&s->common, room - turn_dest_words(t.a) + 1);
    t.a.source = somewhere(s, l, 1, random_class(s), turn_source_words(t.a), &source);
    t.q.dest = t.a.dest;
    t.q.source = t.a.source;
    turn_set_engines(&t, check_random_below(&s->common, 2) == 0);
    turn_enqueue(&t, l->stream, "by engines");
    CHECK_EQ(shmemx_stream_synchronize(l->stream), 0);
    snprintf(l->last, sizeof(l->last), "%s by engines, %llu words, %d members, range in %s, source %s",
             kind_names[kind], (unsigned long long)words, team->n, origin_names[r->origin], origin_names[source]);
    turn_check(&l->extras, l->last);
}

static void test_engines(struct places_state *s, struct lane *l)
{
    struct range r = range_of(s, l);
    uint64_t room = s->room - 16 * (uint64_t)shmem_n_pes(), private_word = 0;
    shmemx_coll_t q = shmemx_coll_of(SHMEMX_FCOLLECT, SHMEM_TEAM_WORLD, l->pool.base[0][LOCAL],
                                     l->pool.base[1][HEAP], 1, SHMEMX_UINT64);
    q.engines = 1;
    CHECK(shmemx_coll_on_stream(&q, l->stream) != 0); /* nobody knows where local memory is */
    CHECK(shmemx_rendezvous(SHMEM_TEAM_INVALID, r.memory, room * 8) != 0);
    bool odd_one = shmem_my_pe() == shmem_n_pes() - 1;
    CHECK(shmemx_rendezvous(SHMEM_TEAM_WORLD, odd_one ? (char *)&private_word : r.memory, 8) != 0);
    if (shmem_n_pes() > 1)
        CHECK(shmemx_rendezvous(SHMEM_TEAM_WORLD, r.memory, odd_one ? 16 : 8) != 0);
    for (int i = 0; i < TEAMS; i++) {
        CHECK_EQ(shmemx_rendezvous(s->teams[i].team, r.memory + 64, 64), 0); /* forgotten by the next one */
        CHECK_EQ(shmemx_rendezvous(s->teams[i].team, r.memory, room * 8), 0);
        CHECK_EQ(shmemx_rendezvous(s->teams[i].team, r.memory + 64, 64), 0); /* known already */
    }
    for (int i = 0; i < 60 && !device_flag("SHMEM_FORCE_PROXY") && getenv("SHMEM_VIRTUAL_NODES") == NULL; i++)
        engine_turn(s, l, &r, room);
    CHECK_EQ(shmemx_rendezvous(SHMEM_TEAM_WORLD, NULL, 0), 0);
    CHECK(shmemx_coll_on_stream(&q, l->stream) != 0);
}

/* ---- buffers of teams ---- */

/* Even and odd PEs at once, each parity a buffer of its own; the last PE's length or address is wrong at first. */
static void test_team_buffer(struct places_state *s, struct lane *l)
{
    const struct coll_team *team = &s->teams[TEAM_PARITY];
    size_t bytes = s->room * 8, pages = (bytes + 3 * 4096) / 4096 * 4096;
    char *raw = (char *)own_malloc(pages), *buffer = raw + 4096 + 8 * (size_t)shmem_my_pe();
    bool odd_one = team->me == team->n - 1;
    shmemx_buffer_info_t info;
    CHECK_OR_EXIT(raw != NULL);
    CHECK(shmemx_team_buffer_register(SHMEM_TEAM_INVALID, buffer, bytes, NULL) != 0);
    CHECK(shmemx_team_buffer_register(team->team, odd_one ? NULL : buffer, bytes, NULL) != 0);
    CHECK(shmemx_team_buffer_register(team->team, odd_one ? (char *)l->pool.base[0][HEAP] : buffer, bytes, NULL) != 0);
    if (team->n > 1)
        CHECK(shmemx_team_buffer_register(team->team, buffer, odd_one ? bytes / 2 : bytes, NULL) != 0);
    CHECK_OR_EXIT(shmemx_team_buffer_register(team->team, buffer, bytes, &info) == 0);
    CHECK_EQ(info.mapped_bytes + info.staged_bytes, bytes);
    CHECK(shmemx_team_buffer_unregister(team->team, odd_one ? buffer + 8 : buffer) != 0);

    uint64_t value = 1000 + (uint64_t)shmem_my_pe(), seen = 0;
    int next = team->world[(team->me + 1) % team->n], last = team->world[(team->me + team->n - 1) % team->n];
    shmem_putmem(buffer + 4000, &value, 8, next);
    shmem_team_sync(team->team);
    shmem_quiet();
    shmem_team_sync(team->team);
    device_read(&seen, buffer + 4000, 8);
    CHECK_EQ(seen, 1000 + (uint64_t)last);
    turn_fill(&l->extras, buffer, s->room, TURN_POISON);
    shmem_team_sync(team->team);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 4; i++) {
            struct turn t;
            uint64_t words = 1 + check_random_below(&s->common, MOST_WORDS / 2), half = s->room / 2;
            turn_set(&t, &l->extras, team, kind, TURN_BOTH, words, ++s->calls);
            t.a.dest = (uint64_t *)(void *)buffer + check_random_below(&s->mine, half - turn_dest_words(t.a));
            t.a.source =
                (uint64_t *)(void *)buffer + half + check_random_below(&s->mine, half - turn_source_words(t.a));
            t.q.dest = t.a.dest;
            t.q.source = t.a.source;
            turn_enqueue(&t, l->stream, "in a buffer of a team");
            CHECK_EQ(shmemx_stream_synchronize(l->stream), 0);
            turn_check(&l->extras, "in a buffer of a team");
        }
    shmemx_coll_t q =
        shmemx_coll_of(SHMEMX_FCOLLECT, SHMEM_TEAM_WORLD, buffer, l->pool.base[1][HEAP], 1, SHMEMX_UINT64);
    if (shmem_n_pes() > 2)
        CHECK(shmemx_coll_on_stream(&q, l->stream) != 0); /* not all members have it */
    shmem_team_sync(team->team);
    CHECK_EQ(shmemx_team_buffer_unregister(team->team, buffer), 0);
    CHECK(shmemx_team_buffer_unregister(team->team, buffer) != 0);
    own_free(raw);
}

static void check_choices(const struct places_state *s)
{
    bool pointers = !device_flag("SHMEM_FORCE_PROXY") && getenv("SHMEM_VIRTUAL_NODES") == NULL;
    if (s->few)
        return;
    const char *text = getenv("SHMEM_COLL");
    for (int kind = 0; kind < KINDS && pointers && text != NULL && shmem_n_pes() > 1; kind++) {
        char wanted[40];
        snprintf(wanted, sizeof(wanted), "stream.%s=", kind_names[kind]);
        if (strstr(text, wanted) != NULL)
            CHECK_NAMED(s->chosen[kind] != 0, kind_names[kind]);
    }
}

static int test_main(void)
{
    COLL_INIT();
    struct places_state s;
    memset(&s, 0, sizeof(s));
    s.cpu = device_is_cpu();
    s.few = device_number("SHMEM_TEST_CALLS", CALLS) < ENOUGH_CALLS;
    s.room = (uint64_t)MOST_WORDS * (uint64_t)shmem_n_pes() + 500;
    coll_teams_make(s.teams);
    s.common = check_random_stream(5);
    s.mine = check_random_stream(2000 + (uint64_t)shmem_my_pe());
    for (int i = 0; i < LANES; i++)
        lane_make(&s, &s.lanes[i]);
    shmem_barrier_all();
    test_random(&s);
    check_choices(&s);
    for (int i = 0; i < (s.few ? LANES : GRAPHS); i++)
        test_graph(&s, &s.lanes[i % LANES]);
    test_engines(&s, &s.lanes[0]);
    test_team_buffer(&s, &s.lanes[1]);
    shmem_barrier_all();
    for (int i = 0; i < LANES; i++)
        lane_drop(&s, &s.lanes[i]);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
