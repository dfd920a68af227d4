/* SPDX-License-Identifier: MIT */
/* Teams: strided and 2-D splits and their members, numbers and translations, configurations, invalid parents and
 * triplets, nesting, many at once, and a long create and destroy. */
#include "../check.h"

/* The reference: a team of `size` PEs of which number i is start + i * stride in the parent. */
static void check_members(shmem_team_t parent, shmem_team_t team, int start, int stride, int size)
{
    int parent_me = shmem_team_my_pe(parent);
    int mine = -1;
    for (int i = 0; i < size; i++)
        if (start + i * stride == parent_me)
            mine = i;
    CHECK_EQ(team != SHMEM_TEAM_INVALID, mine >= 0);
    CHECK_EQ(shmem_team_my_pe(team), mine);
    if (mine < 0) {
        CHECK_EQ(shmem_team_n_pes(team), -1);
        return;
    }
    CHECK_EQ(shmem_team_n_pes(team), size);
    for (int i = 0; i < size; i++) {
        CHECK_EQ(shmem_team_translate_pe(team, i, parent), start + i * stride);
        CHECK_EQ(shmem_team_translate_pe(parent, start + i * stride, team), i);
    }
    for (int pe = 0; pe < shmem_team_n_pes(parent); pe++) {
        int at = shmem_team_translate_pe(parent, pe, team);
        CHECK(at == -1 || shmem_team_translate_pe(team, at, parent) == pe);
    }
    CHECK_EQ(shmem_team_translate_pe(team, size, parent), -1);
    CHECK_EQ(shmem_team_translate_pe(team, -1, parent), -1);
}

/* A sum over the team tells whether collectives run over exactly its members. */
static void check_works(shmem_team_t team, int *source, int *dest)
{
    int world_me = shmem_my_pe();
    int expected = 0;
    if (team == SHMEM_TEAM_INVALID)
        return;
    for (int i = 0; i < shmem_team_n_pes(team); i++)
        expected += 1 + shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
    *source = 1 + world_me;
    *dest = -1;
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_int_sum_reduce(team, dest, source, 1), 0);
    CHECK_EQ(*dest, expected);
    CHECK_EQ(shmem_team_sync(team), 0);
}

static void test_predefined(void)
{
    int npes = shmem_n_pes();
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, npes, SHMEM_TEAM_WORLD), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, -1, SHMEM_TEAM_WORLD), -1);
    for (int pe = 0; pe < npes; pe++)
        CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_WORLD), pe);
    int shared_me = shmem_team_my_pe(SHMEM_TEAM_SHARED);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_SHARED, shared_me, SHMEM_TEAM_WORLD), shmem_my_pe());
    shmem_team_destroy(SHMEM_TEAM_INVALID);
}

static void test_strided(int *source, int *dest)
{
    int npes = shmem_n_pes();
    for (int start = 0; start < npes; start++) {
        for (int stride = -3; stride <= 3; stride++) {
            for (int size = 1; size <= npes; size++) {
                int last = start + stride * (size - 1);
                shmem_team_t team = SHMEM_TEAM_WORLD;
                if ((stride == 0 && size != 1) || last < 0 || last >= npes)
                    continue;
                if (npes > 4 && (start + size + stride) % 3 != 0)
                    continue;
                CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &team), 0);
                check_members(SHMEM_TEAM_WORLD, team, start, stride, size);
                check_works(team, source, dest);
                shmem_team_destroy(team);
            }
        }
    }
}

#ifndef CHECK_FOREIGN
/* Undefined in the specification; here: nonzero, and nothing happens. */
static void test_collectives_on_no_team(int *source, int *dest)
{
    shmem_team_t none = SHMEM_TEAM_INVALID;
    *dest = 77;
    CHECK(shmem_team_sync(none) != 0);
    CHECK(shmem_int_sum_reduce(none, dest, source, 1) != 0);
    CHECK(shmem_int_sum_inscan(none, dest, source, 1) != 0);
    CHECK(shmem_int_broadcast(none, dest, source, 1, 0) != 0);
    CHECK(shmem_int_fcollect(none, dest, source, 1) != 0);
    CHECK(shmem_int_collect(none, dest, source, 1) != 0);
    CHECK(shmem_int_alltoall(none, dest, source, 1) != 0);
    CHECK(shmem_int_alltoalls(none, dest, source, 1, 1, 1) != 0);
    CHECK_EQ(*dest, 77);
}
#endif

/* Nonzero and no team, on all PEs alike, and the parent goes on working. */
static void test_invalid(int *source, int *dest)
{
    int npes = shmem_n_pes();
    const int bad[][3] = {{-1, 1, 1}, {npes, 1, 1}, {0, 1, npes + 1}, {0, 2, npes + 1},   {npes - 1, 1, 2},
                          {0, -1, 2}, {0, 1, 0},    {0, 1, -1},       {0, 0x40000000, 3}, {npes - 1, -1, npes + 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, bad[i][0], bad[i][1], bad[i][2], NULL, 0, &team) != 0);
        CHECK(team == SHMEM_TEAM_INVALID);
        check_works(SHMEM_TEAM_WORLD, source, dest);
    }
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_team_t other = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    team = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 2, NULL, 0, &team, NULL, 0, &other) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    CHECK(other == SHMEM_TEAM_INVALID);
}

static void test_2d(int *source, int *dest)
{
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    const int ranges[] = {1, 2, 3, 5, npes, npes + 1, 1000};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        int xrange = ranges[i] < npes ? ranges[i] : npes;
        int x = me % xrange;
        int y = me / xrange;
        int row = npes - y * xrange < xrange ? npes - y * xrange : xrange; /* the last row may be ragged */
        int column = (npes - x + xrange - 1) / xrange;
        shmem_team_t xteam = SHMEM_TEAM_INVALID;
        shmem_team_t yteam = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, ranges[i], NULL, 0, &xteam, NULL, 0, &yteam), 0);
        check_members(SHMEM_TEAM_WORLD, xteam, y * xrange, 1, row);
        check_members(SHMEM_TEAM_WORLD, yteam, x, xrange, column);
        check_works(xteam, source, dest);
        check_works(yteam, source, dest);
        shmem_team_destroy(i % 2 ? xteam : yteam);
        shmem_team_destroy(i % 2 ? yteam : xteam);
    }
    for (int xrange = -1; xrange <= 0; xrange++) {
        shmem_team_t xteam = SHMEM_TEAM_WORLD, yteam = SHMEM_TEAM_WORLD;
        CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, xrange, NULL, 0, &xteam, NULL, 0, &yteam) != 0);
        CHECK(xteam == SHMEM_TEAM_INVALID && yteam == SHMEM_TEAM_INVALID);
    }
}

/* A 2-D split of the column of a 2-D split: three dimensions, every PE at one point of them. */
static void test_3d(int *source, int *dest)
{
    int me = shmem_my_pe();
    shmem_team_t xteam, yzteam, yteam, zteam;
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &xteam, NULL, 0, &yzteam), 0);
    CHECK_EQ(shmem_team_split_2d(yzteam, 2, NULL, 0, &yteam, NULL, 0, &zteam), 0);
    int x = shmem_team_my_pe(xteam);
    int y = shmem_team_my_pe(yteam);
    int z = shmem_team_my_pe(zteam);
    CHECK_EQ(x + 2 * (y + 2 * z), me);
    check_works(xteam, source, dest);
    check_works(yteam, source, dest);
    check_works(zteam, source, dest);
    shmem_team_destroy(xteam);
    shmem_team_destroy(yzteam); /* its children stay valid */
    check_works(zteam, source, dest);
    check_works(yteam, source, dest);
    shmem_team_destroy(zteam);
    shmem_team_destroy(yteam);
}

/* Halves of halves, and reversed teams of reversed teams. */
static void test_nested(int *source, int *dest)
{
    shmem_team_t chain[8];
    int depth = 0;
    shmem_team_t parent = SHMEM_TEAM_WORLD;
    while (depth < 8) {
        int n = shmem_team_n_pes(parent);
        int lower = n - n / 2;
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_strided(parent, lower - 1, -1, lower, NULL, 0, &team), 0);
        check_members(parent, team, lower - 1, -1, lower);
        check_works(team, source, dest);
        if (team == SHMEM_TEAM_INVALID)
            break;
        chain[depth++] = team;
        parent = team;
        if (n == 1)
            break;
    }
    while (depth > 0)
        shmem_team_destroy(chain[--depth]);
    shmem_barrier_all();
}

/* SHMEM_TEAM_SHARED is a parent like any other. */
static void test_of_shared(int *source, int *dest)
{
    int n = shmem_team_n_pes(SHMEM_TEAM_SHARED);
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_t row = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_SHARED, n - 1, -1, n, NULL, 0, &team), 0);
    check_members(SHMEM_TEAM_SHARED, team, n - 1, -1, n);
    check_works(team, source, dest);
    shmem_team_t column = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_2d(team, 2, NULL, 0, &row, NULL, 0, &column), 0);
    check_works(row, source, dest);
    check_works(column, source, dest);
    shmem_team_destroy(column);
    shmem_team_destroy(row);
    shmem_team_destroy(team);
    shmem_barrier_all();
}

/* Different teams at the same time, used in different orders by different PEs is allowed only where members differ. */
static void test_disjoint(int *source, int *dest)
{
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    shmem_team_t even = SHMEM_TEAM_INVALID;
    shmem_team_t odd = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, NULL, 0, &even), 0);
    if (npes > 1)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0, &odd), 0);
    shmem_team_t mine = me % 2 ? odd : even;
    CHECK(mine != SHMEM_TEAM_INVALID);
    CHECK((me % 2 ? even : odd) == SHMEM_TEAM_INVALID);
    for (int i = 0; i < 50 * (1 + me % 2); i++)
        check_works(mine, source, dest);
    CHECK_EQ(shmem_team_translate_pe(mine, shmem_team_my_pe(mine), SHMEM_TEAM_WORLD), me);
    shmem_team_destroy(mine);
    shmem_barrier_all();
}

static void test_config(void)
{
    int npes = shmem_n_pes();
    shmem_team_config_t config;
    memset(&config, 0, sizeof(config));
    config.num_contexts = 3;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_config_t seen;
    memset(&seen, 0x7f, sizeof(seen));
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, &config, SHMEM_TEAM_NUM_CONTEXTS, &team), 0);
    CHECK_EQ(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &seen), 0);
    CHECK(seen.num_contexts >= 3);
    CHECK_EQ(shmem_team_get_config(team, 0, NULL), 0);
    memset(&seen, 0x7f, sizeof(seen));
    shmem_team_config_t untouched = seen;
    CHECK_EQ(shmem_team_get_config(team, 0, &seen), 0);
    CHECK_BYTES(&seen, &untouched, sizeof(seen));
    CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &seen) != 0);
    CHECK_BYTES(&seen, &untouched, sizeof(seen));
    CHECK_EQ(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &seen), 0);
    shmem_team_destroy(team);

    /* What the mask does not name is ignored. */
    config.num_contexts = 1 << 20;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, &config, 0, &team), 0);
    CHECK_EQ(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &seen), 0);
    CHECK_EQ(seen.num_contexts, 0);
    shmem_team_destroy(team);

    /* Rows and columns with configurations of their own. */
    shmem_team_config_t row = {2 + shmem_my_pe() / 2};
    shmem_team_config_t column = {5 + shmem_my_pe() % 2};
    shmem_team_t xteam, yteam;
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, &row, SHMEM_TEAM_NUM_CONTEXTS, &xteam, &column,
                                 SHMEM_TEAM_NUM_CONTEXTS, &yteam),
             0);
    CHECK_EQ(shmem_team_get_config(xteam, SHMEM_TEAM_NUM_CONTEXTS, &seen), 0);
    CHECK(seen.num_contexts >= row.num_contexts);
    CHECK_EQ(shmem_team_get_config(yteam, SHMEM_TEAM_NUM_CONTEXTS, &seen), 0);
    CHECK(seen.num_contexts >= column.num_contexts);
    shmem_team_destroy(xteam);
    shmem_team_destroy(yteam);
}

static void test_many_at_once(int *source, int *dest)
{
    enum { TEAMS = 24 };
    int npes = shmem_n_pes();
    shmem_team_t teams[TEAMS];
    for (int i = 0; i < TEAMS; i++) {
        int size = 1 + i % npes;
        int start = (i % 2) ? size - 1 : npes - size;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, i % 2 ? -1 : 1, size, NULL, 0, &teams[i]), 0);
        for (int j = 0; j < i; j++)
            CHECK(teams[i] == SHMEM_TEAM_INVALID || teams[i] != teams[j]);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TEAMS; i++)
            check_works(teams[round ? TEAMS - 1 - i : i], source, dest);
    for (int i = 0; i < TEAMS; i++)
        shmem_team_destroy(teams[(i * 7) % TEAMS]);
    shmem_barrier_all();
}

/* No resource may run out, and no use of an old team may show in a new one. */
static void test_create_and_destroy(int *source, int *dest)
{
    const int times = check_times(3000);
    int npes = shmem_n_pes();
    for (int i = 0; i < times; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        int size = 1 + i % npes;
        if (!CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, size, NULL, 0, &team), 0))
            break;
        if (i % 50 == 0)
            check_works(team, source, dest);
        shmem_team_destroy(team);
    }
}

/* Finalize ends teams that nobody has destroyed, while other PEs may have left already. */
static void leave_to_finalize(int *source, int *dest)
{
    for (int i = 0; i < 24; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team), 0);
        check_works(team, source, dest);
    }
}

/* The time for each must not grow with their number. Each PE makes its own, of a team of itself. */
static void test_most(void)
{
    enum { MOST = 40000, SECONDS = 4 };
    shmem_team_t self, column, *teams = (shmem_team_t *)malloc(MOST * sizeof *teams);
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &self, NULL, 0, &column), 0);
    clock_t begin = clock();
    int made = 0;
    if (shmem_my_pe() == 0)
        while (made < MOST && shmem_team_split_strided(self, 0, 1, 1, NULL, 0, &teams[made]) == 0)
            made++;
    CHECK_EQ(made, shmem_my_pe() == 0 ? MOST : 0);
    for (int i = 0; i < made; i++)
        shmem_team_destroy(teams[i]);
    CHECK(clock() - begin < SECONDS * CLOCKS_PER_SEC);
    shmem_team_destroy(column);
    shmem_team_destroy(self);
    free(teams);
}

static int test_main(void)
{
    CHECK_INIT();
    int *source = (int *)check_alloc(sizeof(int));
    int *dest = (int *)check_alloc(sizeof(int));
    test_predefined();
    test_strided(source, dest);
    test_invalid(source, dest);
#ifndef CHECK_FOREIGN
    test_collectives_on_no_team(source, dest);
#endif
    test_2d(source, dest);
    test_3d(source, dest);
    test_nested(source, dest);
    test_of_shared(source, dest);
    test_disjoint(source, dest);
    test_config();
    test_many_at_once(source, dest);
#ifndef CHECK_FOREIGN
    test_most();
#endif
    test_create_and_destroy(source, dest);
    leave_to_finalize(source, dest);
    check_free(dest);
    check_free(source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
