/* SPDX-License-Identifier: MIT */
/* Reductions of every operator and type and both scans, on eight teams, in place and not, at odd and long lengths and
 * of nothing, against a serial reference; floating-point results are the same bits on all PEs and from call to call. */
#include "../check.h"
#include "reduce_table.h"
#include "team_set.h"

static const size_t most_bytes = ((size_t)1 << 20) + 48;

struct buffers {
    unsigned char *source;   /* symmetric, like dest */
    unsigned char *dest;     /* most_bytes and 128 behind them */
    unsigned char *expected; /* private */
    unsigned char *more;
};

struct call {
    const struct reduction *row;
    shmem_team_t team;
    const char *where;
    size_t n;
    unsigned round;
    bool in_place;
};

static void say(char *words, size_t bytes, const struct call *call)
{
    snprintf(words, bytes, "%s, %zu elements%s, team %s", call->row->name, call->n, call->in_place ? " in place" : "",
             call->where);
}

static void reduce(struct buffers *buffers, const struct call *call)
{
    const struct reduction *row = call->row;
    char words[128];
    size_t len_bytes = call->n * row->size;
    int me = shmem_team_my_pe(call->team);
    say(words, sizeof(words), call);
    reduce_reference(row, buffers->expected, buffers->more, call->n, me, shmem_team_n_pes(call->team), call->round);
    /* Aligned for the type and no better. */
    unsigned char *dest = buffers->dest + row->size * (call->round % 4);
    unsigned char *source = call->in_place ? dest : buffers->source + row->size * (call->round % 3);
    memset(dest, CHECK_POISON, len_bytes + 64);
    row->make(source, call->n, me, call->round);
    shmem_team_sync(call->team);
    CHECK_EQ_NAMED(row->call(call->team, dest, source, call->n), 0, words);
    if (!call->in_place)
        memset(source, 0xee, len_bytes); /* may be used again */
    CHECK_NAMED(row->same(dest, buffers->expected, call->n), words);
    CHECK_NAMED(check_all_bytes(dest + len_bytes, CHECK_POISON, 64), words);
    shmem_team_sync(call->team);
}

/* Every operator of every type, short. */
static void test_types(struct buffers *buffers, const struct team_set *set)
{
    const size_t counts[] = {1, 0, 3, 9, 50};
    for (int t = 0; t < TEAMS; t++) {
        for (int row = 0; row < REDUCE_ROWS && set->teams[t] != SHMEM_TEAM_INVALID; row++) {
            for (unsigned i = 0; i < 5; i++) {
                struct call call = {&reduce_table[row], set->teams[t], team_names[t], counts[i], i, (i + t) % 2 != 0};
                if ((t == 0 || (i + (unsigned)row) % 3 == 0) && check_has_case((unsigned)row))
                    reduce(buffers, &call);
            }
        }
        shmem_barrier_all();
    }
}

/* Lengths in bytes around the usual thresholds, for types of 1, 2, 4, 8 and 16 bytes. */
static void test_lengths(struct buffers *buffers, const struct team_set *set)
{
    const char *const rows[] = {"uchar_sum_reduce",  "short_max_reduce",     "float_sum_reduce",
                                "double_min_reduce", "uint64_xor_reduce",    "complexd_prod_reduce",
                                "int_sum_inscan",    "longdouble_sum_exscan"};
    const size_t lengths[] = {48, 56, 64, 512, 2048, 4096, 8192, 65536};
    for (int t = 0; t < TEAMS; t++) {
        for (int row = 0; row < REDUCE_ROWS && set->teams[t] != SHMEM_TEAM_INVALID; row++) {
            const struct reduction *reduction = &reduce_table[row];
            bool wanted = false;
            for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                wanted = wanted || strcmp(rows[i], reduction->name) == 0;
            for (unsigned i = 0; wanted && i < 18; i++) {
                size_t n = lengths[i / 3] / reduction->size + i % 3 - 1;
                struct call call = {reduction, set->teams[t], team_names[t], n, i, (i / 3 + i) % 2 != 0};
                if ((t == 0 || t == 3 || i % 8 == (unsigned)t) && check_has_case(i))
                    reduce(buffers, &call);
            }
        }
        shmem_barrier_all();
    }
}

static void test_long(struct buffers *buffers, const struct team_set *set)
{
    unsigned number = 0; /* of four, of which one is enough where a case takes long */
    for (int row = 0; row < REDUCE_ROWS; row++) {
        const struct reduction *reduction = &reduce_table[row];
        bool sum = strcmp(reduction->name, "int_sum_reduce") == 0;
        if (!sum && strcmp(reduction->name, "double_max_reduce") != 0 &&
            strcmp(reduction->name, "uint8_or_reduce") != 0 && strcmp(reduction->name, "long_sum_inscan") != 0)
            continue;
        if (check_few() > 4 && number++ % 4 != check_self.seed % 4)
            continue;
        for (int t = 0; t < TEAMS; t += 3) {
            struct call call = {reduction, set->teams[t], team_names[t], most_bytes / reduction->size - 1, 3, sum};
            if (set->teams[t] != SHMEM_TEAM_INVALID && (sum || t == 0))
                reduce(buffers, &call);
            shmem_barrier_all();
        }
    }
}

/* Sums that round: the same bits on all PEs, the same in the next call, and near the serial sum. */
static void test_identical(struct buffers *buffers, const struct team_set *set)
{
    const size_t counts[] = {1, 7, 130, 3000};
    for (int t = 0; t < TEAMS; t++) {
        shmem_team_t team = set->teams[t];
        for (int row = 0; row < REDUCE_ROWS && team != SHMEM_TEAM_INVALID; row++) {
            const struct reduction *reduction = &reduce_table[row];
            bool real = strncmp(reduction->name, "float", 5) == 0 || strncmp(reduction->name, "double", 6) == 0 ||
                        strncmp(reduction->name, "longdouble", 10) == 0 || strncmp(reduction->name, "complex", 7) == 0;
            if (!real || reduction->make_rough == NULL)
                continue;
            for (unsigned i = 0; i < 4; i++) {
                size_t len_bytes = counts[i] * reduction->size;
                reduction->make_rough(buffers->source, counts[i], shmem_team_my_pe(team), i);
                memset(buffers->dest, 0, len_bytes);
                shmem_team_sync(team);
                CHECK_EQ(reduction->call(team, buffers->dest, buffers->source, counts[i]), 0);
                memcpy(buffers->expected, buffers->dest, len_bytes);
                shmem_quiet();
                shmem_team_sync(team);
                shmem_getmem(buffers->more, buffers->dest, len_bytes, team_world_pe(team, 0));
                CHECK_NAMED(reduction->same(buffers->expected, buffers->more, counts[i]), reduction->name);
                shmem_team_sync(team);
                CHECK_EQ(reduction->call(team, buffers->dest, buffers->source, counts[i]), 0);
                CHECK_NAMED(reduction->same(buffers->expected, buffers->dest, counts[i]), reduction->name);
                shmem_team_sync(team);
            }
        }
        shmem_barrier_all();
    }
}

static void test_near(struct buffers *buffers)
{
    enum { COUNT = 1000 };
    int npes = shmem_n_pes();
    double *source = (double *)(void *)buffers->source;
    double *dest = (double *)(void *)buffers->dest;
    for (size_t i = 0; i < COUNT; i++)
        source[i] = reduce_rough(i, shmem_my_pe(), 1);
    shmem_barrier_all();
    CHECK_EQ(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, COUNT), 0);
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int pe = 0; pe < npes; pe++)
            sum += reduce_rough(i, pe, 1);
        if (!CHECK(dest[i] > sum * (1 - 1e-12) && dest[i] < sum * (1 + 1e-12)))
            break;
    }
    shmem_barrier_all();
}

/* The whole range of a type: the ends for max and min, wrap-around for unsigned sums, infinities. */
static void test_extremes(struct buffers *buffers)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    long long *source = (long long *)(void *)buffers->source;
    long long *dest = (long long *)(void *)buffers->dest;
    source[0] = me == 0 ? INT64_MIN : INT64_MAX;
    source[1] = me == npes - 1 ? INT64_MAX : INT64_MIN;
    shmem_barrier_all();
    CHECK_EQ(shmem_longlong_max_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);
    CHECK(dest[0] == (npes > 1 ? INT64_MAX : INT64_MIN) && dest[1] == INT64_MAX);
    shmem_barrier_all();
    CHECK_EQ(shmem_longlong_min_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);
    CHECK(dest[0] == INT64_MIN && dest[1] == (npes > 1 ? INT64_MIN : INT64_MAX));
    shmem_barrier_all();
    uint64_t *bits = (uint64_t *)(void *)buffers->source;
    uint64_t *sum = (uint64_t *)(void *)buffers->dest;
    bits[0] = UINT64_MAX;
    shmem_barrier_all();
    CHECK_EQ(shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, sum, bits, 1), 0);
    CHECK(sum[0] == (uint64_t)0 - (uint64_t)npes);
    shmem_barrier_all();
}

/* Each call has a dest of its own; the source is filled again as soon as a call returns. */
static void test_back_to_back(struct buffers *buffers, const struct team_set *set, size_t count)
{
    enum { STREAM = 8 };
    for (int t = 0; t < TEAMS; t++) {
        shmem_team_t team = set->teams[t];
        for (int repeat = 0; team != SHMEM_TEAM_INVALID && repeat < 4; repeat++) {
            int me = shmem_team_my_pe(team);
            int n_pes = shmem_team_n_pes(team);
            long *source = (long *)(void *)buffers->source;
            long *dests = (long *)(void *)buffers->dest;
            for (int k = 0; k < STREAM; k++) {
                for (size_t i = 0; i < count; i++)
                    source[i] = 1000L * k + me + (long)i;
                CHECK_EQ(k % 3 == 2 ? shmem_long_max_reduce(team, dests + (size_t)k * count, source, count)
                                    : shmem_long_sum_reduce(team, dests + (size_t)k * count, source, count),
                         0);
            }
            for (int k = 0; k < STREAM; k++) {
                long sum = n_pes * (n_pes - 1L) / 2;
                for (size_t i = 0; i < count; i++) {
                    long expected = k % 3 == 2 ? 1000L * k + n_pes - 1 + (long)i : sum + n_pes * (1000L * k + (long)i);
                    if (!CHECK_EQ_NAMED(dests[(size_t)k * count + i], expected, team_names[t]))
                        break;
                }
            }
            shmem_team_sync(team);
        }
        shmem_barrier_all();
    }
}

static int test_main(void)
{
    CHECK_INIT();
    struct buffers buffers;
    buffers.source = (unsigned char *)check_alloc(most_bytes + 64);
    buffers.dest = (unsigned char *)check_alloc(most_bytes + 128);
    buffers.expected = (unsigned char *)malloc(most_bytes);
    buffers.more = (unsigned char *)malloc(most_bytes);
    CHECK_OR_EXIT(buffers.expected != NULL && buffers.more != NULL);
    struct team_set set = team_set_make();
    test_types(&buffers, &set);
    test_lengths(&buffers, &set);
    test_long(&buffers, &set);
    test_identical(&buffers, &set);
    test_near(&buffers);
    test_extremes(&buffers);
    const size_t counts[] = {1, 6, 100, 4000};
    for (int i = 0; i < 4; i++)
        test_back_to_back(&buffers, &set, counts[i]);
    team_set_destroy(&set);
    free(buffers.more);
    free(buffers.expected);
    check_free(buffers.dest);
    check_free(buffers.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
