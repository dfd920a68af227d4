/* SPDX-License-Identifier: MIT */
/* Collectives between nodes against a slow and obvious reference: every PE works out alone what it must get. Sizes lie
 * at 0, 1, odd ones, and one below, at and above each threshold of the table and of the schedules; members come late at
 * random, dest lies at odd addresses, the source is used again at once, and reductions come again with the same dest.
 * Sums of doubles round, so they tell the order in which members were combined: it has to be theirs, for every
 * algorithm. Which one runs, and which PEs share a node, the caller says by SHMEM_COLL and SHMEM_TEST_NODES. */
#include "../check.h"
#include "team_set.h"

enum { REPEATS = 2 };
static const size_t most_bytes = ((size_t)1 << 18) + 24;

/* Packets, what collect takes along, shares of a board for 3 to 8 PEs, stages, chunks and several of them. */
static const size_t sizes[] = {0,     1,     7,     8,     47,    48,    49,     55,     56,     57,     240,   255,
                               256,   257,   439,   440,   511,   512,   513,    667,    1008,   1023,   1024,  1025,
                               2049,  4095,  4096,  4097,  8191,  8192,  8193,   16383,  16384,  16385,  24577, 32768,
                               33001, 65535, 65536, 65537, 98304, 99999, 131071, 131072, 131073, 200003, 262144};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct across {
    unsigned char *source, *dest; /* symmetric: room for a block of each PE */
    double *expected;             /* private */
    shmem_team_t team;
    int me, n;
    struct check_random late; /* this PE's own */
    unsigned round;
};

/* Now and then a PE comes late, another one each time. */
static void come(struct across *a)
{
    memset(a->dest, CHECK_POISON, 64);
    shmem_team_sync(a->team);
    for (size_t i = check_random_below(&a->late, 4) == 0 ? check_random_below(&a->late, 40) : 0; i > 0; i--)
        check_pause();
    a->round++;
}

static void say(const struct across *a, const char *call, size_t bytes, bool ok)
{
    char words[96];
    snprintf(words, sizeof(words), "%s of %zu bytes on %d PEs", call, bytes, a->n);
    CHECK_NAMED(ok, words);
}

/* ---- data that moves ---- */

static void test_broadcast(struct across *a, size_t bytes)
{
    int root = (int)(a->round % (unsigned)a->n);
    unsigned char *dest = a->dest + bytes % 3;
    come(a);
    check_fill(a->source, bytes, a->me, 0, a->round);
    CHECK_EQ(shmem_broadcastmem(a->team, dest, a->source, bytes, root), 0);
    memset(a->source, 0xee, bytes);
    say(a, "broadcast", bytes, check_filled(dest, bytes, root, 0, a->round));
    shmem_team_sync(a->team);
}

static void test_fcollect(struct across *a, size_t bytes)
{
    unsigned char *dest = a->dest + bytes % 5;
    bool ok = true;
    come(a);
    check_fill(a->source, bytes, a->me, 1, a->round);
    CHECK_EQ(shmem_fcollectmem(a->team, dest, a->source, bytes), 0);
    memset(a->source, 0xee, bytes);
    for (int pe = 0; pe < a->n; pe++)
        ok = ok && check_filled(dest + (size_t)pe * bytes, bytes, pe, 1, a->round);
    say(a, "fcollect", bytes, ok);
    shmem_team_sync(a->team);
}

/* Nothing, all of it, a bit, or half. */
static size_t collect_bytes(const struct across *a, size_t bytes, int pe)
{
    size_t of[] = {0, bytes, bytes > 5 ? 5 : bytes, bytes / 2};
    return of[((unsigned)pe + a->round) % 4];
}

static void test_collect(struct across *a, size_t bytes)
{
    const unsigned char *at = a->dest;
    bool ok = true;
    come(a);
    size_t mine = collect_bytes(a, bytes, a->me);
    check_fill(a->source, mine, a->me, 2, a->round);
    CHECK_EQ(shmem_collectmem(a->team, a->dest, a->source, mine), 0);
    memset(a->source, 0xee, mine);
    for (int pe = 0; pe < a->n; pe++) {
        ok = ok && check_filled(at, collect_bytes(a, bytes, pe), pe, 2, a->round);
        at += collect_bytes(a, bytes, pe);
    }
    say(a, "collect", bytes, ok);
    shmem_team_sync(a->team);
}

static void test_alltoall(struct across *a, size_t bytes)
{
    bool ok = true;
    come(a);
    for (int pe = 0; pe < a->n; pe++)
        check_fill(a->source + (size_t)pe * bytes, bytes, a->me, pe, a->round);
    CHECK_EQ(shmem_alltoallmem(a->team, a->dest, a->source, bytes), 0);
    memset(a->source, 0xee, bytes * (size_t)a->n);
    for (int pe = 0; pe < a->n; pe++)
        ok = ok && check_filled(a->dest + (size_t)pe * bytes, bytes, pe, a->me, a->round);
    say(a, "alltoall", bytes, ok);
    shmem_team_sync(a->team);
}

/* Every third element to every second place; what lies between stays. */
static void test_alltoalls(struct across *a, size_t nelems)
{
    short *source = (short *)(void *)a->source, *dest = (short *)(void *)a->dest;
    size_t n = (size_t)a->n;
    bool ok = true;
    come(a);
    for (size_t i = 0; i < nelems * n; i++) {
        source[i * 3] = (short)((size_t)a->me * 1000 + i * 7 + a->round);
        dest[i * 2] = dest[i * 2 + 1] = -1;
    }
    shmem_team_sync(a->team);
    CHECK_EQ(shmem_short_alltoalls(a->team, dest, source, 2, 3, nelems), 0);
    for (size_t pe = 0; pe < n; pe++)
        for (size_t i = 0; i < nelems; i++) {
            size_t at = pe * nelems + i, from = (size_t)a->me * nelems + i;
            ok = ok && dest[at * 2] == (short)(pe * 1000 + from * 7 + a->round);
            ok = ok && (at == nelems * n - 1 || dest[at * 2 + 1] == -1);
        }
    say(a, "alltoalls", nelems * sizeof(short), ok);
    shmem_team_sync(a->team);
}

/* ---- reductions and scans ---- */

/* Of many magnitudes: another order gives other bits. */
static double operand_of(int pe, size_t i, unsigned round)
{
    double tenths = (double)((size_t)(pe * 7919 + 13) * (i % 1009 + 1) % 1000003 + round) / 10;
    return (pe + (int)i) % 3 == 0 ? tenths * 1e9 : tenths;
}

/* In the order of the members, up to and with `last`; none: zeros. */
static void add_up(const struct across *a, size_t n, int last)
{
    for (size_t i = 0; i < n; i++) {
        double sum = last < 0 ? 0 : operand_of(0, i, a->round);
        for (int pe = 1; pe <= last; pe++)
            sum += operand_of(pe, i, a->round);
        a->expected[i] = sum;
    }
}

static void test_sums(struct across *a, size_t bytes, bool in_place)
{
    size_t n = bytes / sizeof(double);
    double *dest = (double *)(void *)a->dest, *source = in_place ? dest : (double *)(void *)a->source;
    const int kinds[] = {a->n - 1, a->me, a->me - 1}; /* sum, inscan, exscan */
    const char *const names[] = {"sum", "inscan", "exscan"};
    for (int kind = 0; kind < 3; kind++) {
        int rc;
        come(a);
        for (size_t i = 0; i < n; i++)
            source[i] = operand_of(a->me, i, a->round);
        if (kind == 0)
            rc = shmem_double_sum_reduce(a->team, dest, source, n);
        else if (kind == 1)
            rc = shmem_double_sum_inscan(a->team, dest, source, n);
        else
            rc = shmem_double_sum_exscan(a->team, dest, source, n);
        CHECK_EQ(rc, 0);
        if (!in_place)
            memset(source, 0xee, n * sizeof(double));
        add_up(a, n, kinds[kind]);
        say(a, names[kind], n * sizeof(double), memcmp(dest, a->expected, n * sizeof(double)) == 0);
        memset(dest, 0xee, n * sizeof(double)); /* nobody needs it any more, on whatever way it was */
        shmem_team_sync(a->team);
    }
}

/* Integers may be combined in any order. The second call has the same dest, and nobody waits for anybody before. */
static void test_integers(struct across *a, size_t bytes)
{
    size_t n = bytes / sizeof(int);
    int *source = (int *)(void *)a->source, *dest = (int *)(void *)a->dest;
    bool ok = true;
    come(a);
    for (int again = 0; again < 3; again++) {
        for (size_t i = 0; i < n; i++)
            source[i] = (int)i * (a->me + 1) + again;
        CHECK_EQ(shmem_int_sum_reduce(a->team, dest, source, n), 0);
        for (size_t i = 0; i < n; i++)
            ok = ok && dest[i] == (int)i * (a->n * (a->n + 1) / 2) + again * a->n;
    }
    say(a, "int sum", n * sizeof(int), ok);
    shmem_team_sync(a->team);
}

static void test_size(struct across *a, size_t bytes, bool in_place)
{
    if (in_place) {
        test_sums(a, bytes, true);
        return;
    }
    test_broadcast(a, bytes);
    test_fcollect(a, bytes);
    test_collect(a, bytes);
    test_alltoall(a, bytes);
    test_alltoalls(a, bytes / 8);
    test_sums(a, bytes, false);
    test_integers(a, bytes);
}

static void test_team(struct across *a)
{
    a->me = shmem_team_my_pe(a->team);
    a->n = shmem_team_n_pes(a->team);
    const int few = SIZES / check_times(SIZES), first = (int)(check_self.seed % (unsigned)few);
    for (int i = first; i < SIZES; i += few)
        test_size(a, sizes[i], i / few % 2 == (int)(a->round % 2));
    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (int i = SIZES; i-- > 0;)
            if (i % 3 == repeat && i % few == first)
                test_size(a, sizes[i], repeat == 0);
}

static int test_main(void)
{
    CHECK_INIT();
    struct across a = {.team = SHMEM_TEAM_WORLD};
    struct team_set set = team_set_make();
    size_t each = most_bytes * (size_t)shmem_n_pes();
    a.source = (unsigned char *)shmem_malloc(each);
    a.dest = (unsigned char *)shmem_malloc(each);
    a.expected = (double *)malloc(most_bytes);
    CHECK_OR_EXIT(a.source != NULL && a.dest != NULL && a.expected != NULL);
    a.late = check_random_stream(500 + (uint64_t)shmem_my_pe());
    test_team(&a);
    for (int t = 1; t < TEAMS; t++) {
        a.team = set.teams[t];
        a.round = 0;
        if (a.team != SHMEM_TEAM_INVALID && shmem_team_n_pes(a.team) > 2)
            test_team(&a);
        shmem_barrier_all();
    }
    team_set_destroy(&set);
    free(a.expected);
    shmem_free(a.dest);
    shmem_free(a.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
