/* SPDX-License-Identifier: MIT */
/* Teams that their members make alone, from lists of PEs in any order, and teams split by color: members and their
 * numbers, collectives over them, children, contexts, groups that overlap, wrong and different lists, and nothing that
 * is left behind by many of them. */
#include "../check.h"

#include <dirent.h>
#include <malloc.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc 12 has no header for it */
#endif

enum { PES_MOST = 64 };

struct group {
    int pes[PES_MOST];
    int n, mine; /* the caller's place; -1: not a member */
    shmem_team_t team;
};

/* The reference: `n` PEs of the world, drawn and put in any order. */
static void draw(struct group *g, struct check_random *random, int least)
{
    int all[PES_MOST], left = check_self.npes;
    for (int i = 0; i < left; i++)
        all[i] = i;
    g->n = least + (int)check_random_below(random, (size_t)(left - least + 1));
    g->mine = -1;
    g->team = SHMEM_TEAM_INVALID;
    for (int i = 0; i < g->n; i++) {
        size_t at = check_random_below(random, (size_t)left);
        g->pes[i] = all[at];
        all[at] = all[--left];
        if (g->pes[i] == check_self.pe)
            g->mine = i;
    }
}

static void check_members(const struct group *g)
{
    CHECK_EQ(shmem_team_my_pe(g->team), g->mine);
    CHECK_EQ(shmem_team_n_pes(g->team), g->n);
    for (int i = 0; i < g->n; i++) {
        CHECK_EQ(shmem_team_translate_pe(g->team, i, SHMEM_TEAM_WORLD), g->pes[i]);
        CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, g->pes[i], g->team), i);
    }
    CHECK_EQ(shmem_team_translate_pe(g->team, g->n, SHMEM_TEAM_WORLD), -1);
}

/* Place i of the team's order shows in fcollect, the exact members in a sum. Memory is the caller's: dest has room for
 * all PEs. */
static void check_works(shmem_team_t team, const int *pes, int n, int *source, int *dest)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += pes[i] + 1;
    source[0] = check_self.pe + 1;
    source[1] = -1;
    for (int i = 0; i < n; i++)
        dest[i] = -1;
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_int_fcollect(team, dest, source, 1), 0);
    for (int i = 0; i < n; i++)
        CHECK_EQ(dest[i], pes[i] + 1);
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_int_sum_reduce(team, dest, source, 1), 0);
    CHECK_EQ(dest[0], sum);
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_int_broadcast(team, dest, source, 1, n - 1), 0);
    CHECK_EQ(dest[0], pes[n - 1] + 1);
    CHECK_EQ(shmem_team_sync(team), 0);
}

static void create(struct group *g, uint64_t tag)
{
    if (g->mine < 0)
        return;
    g->team = SHMEM_TEAM_WORLD;
    CHECK_EQ(shmemx_team_create(g->pes, g->n, tag, &g->team), 0);
    CHECK(g->team != SHMEM_TEAM_WORLD && g->team != SHMEM_TEAM_INVALID);
}

static void destroy(struct group *g)
{
    if (g->mine >= 0)
        shmem_team_destroy(g->team);
}

/* No barrier of the world stands between: PEs that are in fewer groups run ahead. */
static void test_random_lists(int *source, int *dest)
{
    struct check_random random = check_random_stream(1);
    struct group g;
    for (int i = 0; i < 60; i++) {
        draw(&g, &random, 1);
        create(&g, (uint64_t)i);
        if (g.mine >= 0) {
            check_members(&g);
            check_works(g.team, g.pes, g.n, source, dest);
        }
        destroy(&g);
    }
    shmem_barrier_all();
}

/* One PE has to wait for the others in the world's barrier while they make their team. */
static void test_without_the_others(int *source, int *dest)
{
    struct group g = {{0}, check_self.npes - 1, check_self.pe, SHMEM_TEAM_INVALID};
    if (g.n < 1)
        return;
    for (int i = 0; i < g.n; i++)
        g.pes[i] = i;
    if (check_self.pe == g.n)
        g.mine = -1;
    for (int i = 0; i < 20; i++) {
        create(&g, 7);
        if (g.mine >= 0)
            check_works(g.team, g.pes, g.n, source, dest);
        destroy(&g);
    }
    shmem_barrier_all();
}

/* Two halves with one tag; then the same list and tag again and again, before and after the earlier team ends. */
static void test_tags(int *source, int *dest)
{
    enum { AT_ONCE = 5 };
    struct group half = {{0}, 0, -1, SHMEM_TEAM_INVALID};
    int middle = (check_self.npes + 1) / 2, upper = check_self.pe >= middle;
    for (int pe = upper ? middle : 0; pe < (upper ? check_self.npes : middle); pe++) {
        if (pe == check_self.pe)
            half.mine = half.n;
        half.pes[half.n++] = pe;
    }
    create(&half, UINT64_MAX);
    check_members(&half);
    shmem_team_t teams[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQ(shmemx_team_create(half.pes, half.n, 0, &teams[i]), 0);
        for (int j = 0; j < i; j++)
            CHECK(teams[i] != teams[j]);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        check_works(teams[i], half.pes, half.n, source, dest);
        shmem_team_destroy(teams[i]);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQ(shmemx_team_create(half.pes, half.n, 0, &teams[0]), 0);
        check_works(teams[0], half.pes, half.n, source, dest);
        shmem_team_destroy(teams[0]);
    }
    check_works(half.team, half.pes, half.n, source, dest);
    destroy(&half);
    shmem_barrier_all();
}

/* Found by the caller alone: no other PE takes part. */
static void test_wrong_arguments(void)
{
    int npes = check_self.npes, me = check_self.pe;
    int one[] = {me}, outside[] = {me, npes}, below[] = {-1, me}, twice[] = {me, me}, others[] = {(me + 1) % npes};
    shmem_team_t team = SHMEM_TEAM_WORLD;
    CHECK(shmemx_team_create(NULL, 1, 1, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    CHECK(shmemx_team_create(one, 1, 1, NULL) != 0);
    CHECK(shmemx_team_create(one, 0, 1, &team) != 0);
    CHECK(shmemx_team_create(one, -1, 1, &team) != 0);
    CHECK(shmemx_team_create(one, npes + 1, 1, &team) != 0);
    if (npes > 1) {
        team = SHMEM_TEAM_WORLD;
        CHECK(shmemx_team_create(outside, 2, 1, &team) != 0);
        CHECK(team == SHMEM_TEAM_INVALID);
        CHECK(shmemx_team_create(below, 2, 1, &team) != 0);
        CHECK(shmemx_team_create(twice, 2, 1, &team) != 0);
        CHECK(shmemx_team_create(others, 1, 1, &team) != 0);
    }
    CHECK_EQ(shmemx_team_create(one, 1, 1, &team), 0);
    CHECK_EQ(shmem_team_n_pes(team), 1);
    shmem_team_destroy(team);
}

/* PEs 0 and 1 by each other's order; by all orders; with PE 2 led by another one; with one that lists fewer. All that
 * wait for each other get an error, and the next team works. */
static void test_different_lists(int *source, int *dest)
{
    int npes = check_self.npes, me = check_self.pe;
    int order[] = {me, 1 - me}, three[] = {0, 1, 2}, last[] = {2, 1}, two[] = {0, 1}, right[PES_MOST];
    shmem_team_t team = SHMEM_TEAM_INVALID;
    for (int i = 0; i < npes; i++)
        right[i] = npes - 1 - i;
    for (int i = 0; i < 10; i++) {
        if (npes > 1 && me < 2)
            CHECK(shmemx_team_create(order, 2, 5, &team) != 0);
        if (npes > 2 && me < 3)
            CHECK(shmemx_team_create(me == 2 ? last : three, me == 2 ? 2 : 3, 5, &team) != 0);
        if (npes > 2 && me < 2)
            CHECK(shmemx_team_create(me == 0 ? three : two, me == 0 ? 3 : 2, 6, &team) != 0);
        else if (npes > 2 && me == 2)
            CHECK(shmemx_team_create(three, 3, 6, &team) != 0);
        CHECK(team == SHMEM_TEAM_INVALID);
        CHECK_EQ(shmemx_team_create(right, npes, 5, &team), 0);
        check_works(team, right, npes, source, dest);
        shmem_team_destroy(team);
        team = SHMEM_TEAM_INVALID;
    }
    shmem_barrier_all();
}

/* A list is a parent like any other. */
static void test_children(int *source, int *dest)
{
    struct check_random random = check_random_stream(2);
    struct group g;
    for (int i = 0; i < 20; i++) {
        draw(&g, &random, 2 < check_self.npes ? 2 : check_self.npes);
        create(&g, 1000);
        if (g.mine < 0)
            continue;
        shmem_team_t back, row, column;
        int reversed[PES_MOST];
        for (int k = 0; k < g.n; k++)
            reversed[k] = g.pes[g.n - 1 - k];
        CHECK_EQ(shmem_team_split_strided(g.team, g.n - 1, -1, g.n, NULL, 0, &back), 0);
        check_works(back, reversed, g.n, source, dest);
        CHECK_EQ(shmem_team_split_2d(back, 2, NULL, 0, &row, NULL, 0, &column), 0);
        int first = (g.n - 1 - g.mine) / 2 * 2, n = g.n - first < 2 ? 1 : 2;
        check_works(row, reversed + first, n, source, dest);
        shmem_ctx_t ctx;
        CHECK_EQ(shmem_team_create_ctx(back, 0, &ctx), 0);
        int to = (g.n - 1 - g.mine + 1) % g.n, from = (g.n - 1 - g.mine + g.n - 1) % g.n;
        dest[0] = -1;
        CHECK_EQ(shmem_team_sync(back), 0);
        shmem_ctx_int_p(ctx, dest, check_self.pe, to);
        shmem_ctx_quiet(ctx);
        CHECK_EQ(shmem_team_sync(back), 0);
        CHECK_EQ(dest[0], reversed[from]);
        CHECK_EQ(shmem_team_sync(back), 0);
        shmem_ctx_destroy(ctx);
        shmem_team_destroy(row);
        shmem_team_destroy(g.team); /* before its children */
        check_works(back, reversed, g.n, source, dest);
        shmem_team_destroy(column);
        shmem_team_destroy(back);
    }
    shmem_barrier_all();
}

/* The reference sorts by insertion: `pes` of the caller's color by key, then by number in the parent. */
static int of_color(shmem_team_t parent, int color, const int *colors, const int *keys, int *pes)
{
    int n = 0, key_of[PES_MOST];
    for (int i = 0; i < shmem_team_n_pes(parent); i++) {
        int at = n;
        if (colors[i] != color)
            continue;
        for (; at > 0 && key_of[at - 1] > keys[i]; at--) {
            key_of[at] = key_of[at - 1];
            pes[at] = pes[at - 1];
        }
        key_of[at] = keys[i];
        pes[at] = shmem_team_translate_pe(parent, i, SHMEM_TEAM_WORLD);
        n++;
    }
    return n;
}

static void test_colors(shmem_team_t parent, int *source, int *dest)
{
    struct check_random random = check_random_stream(3);
    int n = shmem_team_n_pes(parent), me = shmem_team_my_pe(parent), colors[PES_MOST], keys[PES_MOST], pes[PES_MOST];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < n; i++) {
            colors[i] = (int)check_random_below(&random, 4) - 1;
            keys[i] = (int)check_random_below(&random, 3) - 1;
        }
        if (round == 0)
            keys[n - 1] = -2147483647 - 1, keys[0] = 2147483647, colors[0] = colors[n - 1] = 2147483647;
        shmem_team_t team = SHMEM_TEAM_WORLD;
        CHECK_EQ(shmemx_team_split_color(parent, colors[me], keys[me], &team), 0);
        CHECK_EQ(team == SHMEM_TEAM_INVALID, colors[me] == SHMEMX_COLOR_NONE);
        if (team == SHMEM_TEAM_INVALID)
            continue;
        int members = of_color(parent, colors[me], colors, keys, pes);
        CHECK_EQ(shmem_team_n_pes(team), members);
        check_works(team, pes, members, source, dest);
        shmem_team_destroy(team);
    }
    shmem_team_t none = SHMEM_TEAM_WORLD;
    CHECK(shmemx_team_split_color(SHMEM_TEAM_INVALID, 0, 0, &none) != 0);
    CHECK(none == SHMEM_TEAM_INVALID);
    shmem_team_sync(parent);
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* glibc's numbers tell nothing of a sanitizer's allocator. */
static size_t bytes_in_use(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

/* 40 groups at once, made and destroyed in an order of numbers, so that no cycle of waits can arise; used in between.
 * */
static void test_many(int *source, int *dest)
{
    enum { GROUPS = 40, ROUNDS = 100, WARM = 20 };
    struct check_random random = check_random_stream(4);
    struct group *groups = (struct group *)calloc(GROUPS, sizeof(*groups));
    int descriptors = 0;
    size_t bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < GROUPS; i++) {
            draw(&groups[i], &random, 1);
            create(&groups[i], (uint64_t)i);
        }
        if (round % 10 == 0)
            for (int i = 0; i < GROUPS; i++)
                if (groups[i].mine >= 0)
                    check_works(groups[i].team, groups[i].pes, groups[i].n, source, dest);
        for (int i = 0; i < GROUPS; i++)
            destroy(&groups[i]);
        if (round == WARM) {
            shmem_barrier_all();
            descriptors = count_descriptors();
            bytes = bytes_in_use();
        }
    }
    shmem_barrier_all();
    if (!CHECK_PES_ARE_THREADS) /* the others open the directory, and allocate, too */
        CHECK_EQ(count_descriptors(), descriptors);
    if (!CHECK_PES_ARE_THREADS)
        CHECK(bytes_in_use() < bytes + ((size_t)64 << 10)); /* one int per group would be more */
    shmem_barrier_all();
    free(groups);
}

static int test_main(void)
{
    CHECK_INIT();
    int *source = (int *)check_alloc(2 * sizeof(int));
    int *dest = (int *)check_alloc(PES_MOST * sizeof(int));
    test_random_lists(source, dest);
    test_without_the_others(source, dest);
    test_tags(source, dest);
    test_wrong_arguments();
    test_different_lists(source, dest);
    test_children(source, dest);
    test_colors(SHMEM_TEAM_WORLD, source, dest);
    int back[PES_MOST];
    for (int i = 0; i < check_self.npes; i++)
        back[i] = (i + check_self.npes / 2) % check_self.npes;
    shmem_team_t rotated;
    CHECK_EQ(shmemx_team_create(back, check_self.npes, 1, &rotated), 0);
    test_colors(rotated, source, dest);
    shmem_team_destroy(rotated);
    test_many(source, dest);
    check_free(dest);
    check_free(source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
