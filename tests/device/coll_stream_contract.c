/* SPDX-License-Identifier: MIT */
/* The buffer contract of collectives on streams: source may be rewritten and dest read by what comes later in the
 * stream, and peers touch neither before this PE's stream has come to the call nor after the call has ended on it. So
 * calls follow one another on the same buffers with nothing between them but the kernels that rewrite and look, each
 * PE late at random; for every kind, place of the buffers, size and way (SHMEM_COLL forces it). Then chains
 * in which one call's dest is the next one's source, and consumers on another stream that wait for the signals of
 * pieces. SHMEM_TEST_TURNS is the number of turns a case; SHMEM_TEST_FEW=3: one case of three, others every time. */
#include "coll_turn.h"

static const char *const kind_names[] = {KIND_NAMES};
static const char *const where_names[] = {TURN_WHERE_NAMES};
/* About 16 bytes, a packet, three of them, and what is long. */
static const uint64_t word_counts[] = {1, 3, 130, 1025, 3071, 12301};
enum { COUNTS = sizeof(word_counts) / sizeof(word_counts[0]), MOST_WORDS = 12301, CHAIN = 6, ROUNDS = 8 };

struct contract {
    struct coll_team teams[TEAMS];
    struct turn_place place;
    shmemx_stream_t stream, other;
    unsigned cases, turns, asked;
};

static uint32_t lateness(const struct contract *c)
{
    return device_mix(c->turns + 1, (uint32_t)shmem_my_pe() + (uint32_t)check_self.seed) | 1;
}

/* ---- back to back on the same buffers ---- */

static void one_case(struct contract *c, int kind, enum turn_where where, uint64_t words, int engines)
{
    long rounds = device_number("SHMEM_TEST_TURNS", ROUNDS);
    const struct coll_team *team = &c->teams[c->cases++ % 2 == 0 ? TEAM_WORLD : TEAM_PARITY];
    struct turn t;
    char text[200];
    snprintf(text, sizeof(text), "%s, %s, %llu words, %d members%s", kind_names[kind], where_names[where],
             (unsigned long long)words, team->n, engines != 0 ? ", engines" : "");
    for (long r = 0; r < rounds; r++) {
        turn_set(&t, &c->place, team, kind, where, words, c->turns++);
        if (engines != 0)
            turn_set_engines(&t, engines == 2);
        t.a.late = lateness(c);
        turn_enqueue(&t, c->stream, text);
    }
    CHECK_EQ_NAMED(shmemx_stream_synchronize(c->stream), 0, text);
    turn_check(&c->place, text);
}

static void test_turns(struct contract *c, int kind)
{
    for (int where = 0; where < TURN_WHERES; where++) {
        if (!turn_has_where(kind, (enum turn_where)where))
            continue;
        int ways = turn_has_engines(kind, (enum turn_where)where) ? kind == SHMEMX_FCOLLECT ? 3 : 2 : 1;
        for (size_t i = 0; i < COUNTS; i++)
            for (int engines = 0; engines < ways; engines++)
                if (check_has_case(c->asked++))
                    one_case(c, kind, (enum turn_where)where, word_counts[i], engines);
    }
    turn_check_poison(&c->place, kind_names[kind]);
}

/* ---- chains: what a call has brought is what the next one sends ---- */

SHMEMD_KERNEL(be_late, struct turn_args, a) { turn_dawdle(a, a.turn); }

static void late(struct contract *c)
{
    struct turn_args a;
    memset(&a, 0, sizeof(a));
    a.turn = c->turns++;
    a.late = lateness(c);
    DEVICE_LAUNCH(be_late, 1, TURN_THREADS, a, c->stream);
}

static uint64_t chain_word(int pe, uint64_t i) { return values_word(pe, 4711, i); }

/* allreduce in place: sum * n ** (CHAIN - 1). permute, alltoall, broadcast: to and fro between two buffers. */
static uint64_t chain_expected(const struct coll_team *team, int kind, uint64_t i)
{
    uint64_t sum = 0;
    int n = team->n;
    if (kind == SHMEMX_BROADCAST)
        return chain_word(team->world[0], i);
    if (kind == SHMEMX_PERMUTE)
        return chain_word(team->world[((team->me - CHAIN) % n + n) % n], i);
    if (kind == SHMEMX_ALLTOALL)
        return chain_word(team->world[team->me], i);
    for (int m = 0; m < n; m++)
        sum += chain_word(team->world[m], i);
    for (int k = 1; k < CHAIN; k++)
        sum *= (uint64_t)n;
    return sum;
}

static void chain_calls(struct contract *c, const struct coll_team *team, int kind, bool own, uint64_t words)
{
    for (int k = 0; k < CHAIN; k++) {
        char *from = k % 2 == 0 ? c->place.source[own] : c->place.dest[own];
        char *to = k % 2 == 0 ? c->place.dest[own] : c->place.source[own];
        if (kind == SHMEMX_ALLREDUCE)
            from = to = c->place.source[own];
        shmemx_coll_t q = shmemx_coll_of(kind, team->team, to, from, words, SHMEMX_UINT64);
        q.same_place = coll_forces_engines();
        q.root = k % team->n;
        q.to = (team->me + 1) % team->n;
        q.from = (team->me + team->n - 1) % team->n;
        late(c);
        CHECK_EQ_NAMED(shmemx_coll_on_stream(&q, c->stream), 0, kind_names[kind]);
    }
}

/* Own memory is read and written by way of the symmetric buffer. */
static void chain_copy(struct contract *c, bool own, bool back, uint64_t words)
{
    void *to = back ? c->place.host : (void *)c->place.source[own];
    if (!own && back)
        device_read(to, c->place.source[0], words * 8);
    else if (!own)
        device_write(to, c->place.host, words * 8);
    else if (device_is_cpu())
        memcpy(to, back ? (void *)c->place.source[1] : c->place.host, words * 8);
    else if (back) {
        device_write(c->place.source[0], c->place.source[1], words * 8);
        device_read(to, c->place.source[0], words * 8);
    } else {
        device_write(c->place.source[0], c->place.host, words * 8);
        shmem_getmem(to, c->place.source[0], words * 8, shmem_my_pe());
    }
}

static void one_chain(struct contract *c, const struct coll_team *team, int kind, bool own, uint64_t words)
{
    uint64_t whole = kind == SHMEMX_ALLTOALL ? words * (uint64_t)team->n : words;
    char text[120];
    snprintf(text, sizeof(text), "chain of %s, %llu words, %d members%s", kind_names[kind], (unsigned long long)words,
             team->n, own ? ", not symmetric" : "");
    for (uint64_t i = 0; i < whole; i++)
        c->place.host[i] = chain_word(team->world[team->me], i);
    chain_copy(c, own, false, whole);
    chain_calls(c, team, kind, own, words);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(c->stream), 0, text);
    chain_copy(c, own, true, whole);
    for (uint64_t i = 0; i < whole; i++)
        if (!CHECK_EQ_NAMED(c->place.host[i], chain_expected(team, kind, i), text))
            break;
}

static void test_chains(struct contract *c)
{
    static const int kinds[] = {SHMEMX_ALLREDUCE, SHMEMX_ALLTOALL, SHMEMX_BROADCAST, SHMEMX_PERMUTE};
    for (size_t k = 0; k < 4; k++)
        for (int team = 0; team < TEAMS; team++)
            for (size_t i = 0; i < COUNTS; i++)
                if (check_has_case(c->asked++))
                    one_chain(c, &c->teams[team], kinds[k], i % 2 == 1, word_counts[i]);
}

/* ---- pieces: whoever waits for the signal of one may use it, while the call goes on ---- */

struct piece_args {
    struct turn_args a;
    uint64_t first, count; /* words of dest */
};
SHMEMD_KERNEL(look_at_piece, struct piece_args, p)
{
    TURN_EACH(i, p.count)
    if (p.a.dest[p.first + i] != turn_expected(p.a, p.a.turn, p.first + i))
        turn_tell(p.a, TURN_DEST, p.a.turn, p.first + i);
}

static void enqueue_consumers(struct contract *c, const struct turn *t)
{
    uint64_t chunk = t->q.chunk_bytes / 8, each = t->a.n_signals / (uint64_t)t->a.n;
    for (uint64_t w = 0; w < t->a.n_signals; w++) {
        uint64_t begin = w % each * chunk, end = begin + chunk < t->a.words ? begin + chunk : t->a.words;
        struct piece_args p = {t->a, w / each * t->a.words + begin, end - begin};
        CHECK_EQ(shmemx_signal_wait_until_on_stream(&t->a.signals[w], SHMEM_CMP_EQ, t->a.turn + 1, c->other), 0);
        DEVICE_LAUNCH(look_at_piece, 1, TURN_THREADS, p, c->other);
    }
}

static void test_pieces(struct contract *c)
{
    struct turn t;
    if (!turn_has_engines(SHMEMX_FCOLLECT, TURN_BOTH))
        return;
    for (int r = 0; r < 10; r++) {
        turn_set(&t, &c->place, &c->teams[TEAM_WORLD], SHMEMX_FCOLLECT, TURN_BOTH, word_counts[r % COUNTS], c->turns++);
        turn_set_engines(&t, true);
        t.a.late = lateness(c);
        DEVICE_LAUNCH(turn_make, TURN_BLOCKS, TURN_THREADS, t.a, c->stream);
        CHECK_EQ(shmemx_stream_wait_stream(c->other, c->stream), 0); /* the turn before is looked at */
        turn_call(&t, c->stream, "pieces of fcollect by engines");
        enqueue_consumers(c, &t);
        CHECK_EQ(shmemx_stream_wait_stream(c->stream, c->other), 0);
        DEVICE_LAUNCH(turn_look, TURN_BLOCKS, TURN_THREADS, t.a, c->stream);
    }
    CHECK_EQ(shmemx_stream_synchronize(c->stream), 0);
    turn_check(&c->place, "pieces of fcollect by engines");
}

static int test_main(void)
{
    COLL_INIT();
    struct contract c;
    memset(&c, 0, sizeof(c));
    coll_teams_make(c.teams);
    turn_place_make(&c.place, (uint64_t)MOST_WORDS * (uint64_t)shmem_n_pes() + 64);
    CHECK_OR_EXIT(shmemx_stream_create(&c.stream) == 0 && shmemx_stream_create(&c.other) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        test_turns(&c, kind);
    test_pieces(&c);
    test_chains(&c);
    CHECK_EQ(shmemx_stream_destroy(c.other), 0);
    CHECK_EQ(shmemx_stream_destroy(c.stream), 0);
    turn_place_drop(&c.place);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
