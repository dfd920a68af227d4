/* SPDX-License-Identifier: MIT */
/* Contexts: options, team contexts and their PE numbers, shmem_ctx_get_team, SHMEM_CTX_INVALID, sessions. */
#include "../check.h"

enum { OPTION_SETS = 8 };

static long option_set(int i)
{
    return (i & 1 ? SHMEM_CTX_SERIALIZED : 0) | (i & 2 ? SHMEM_CTX_PRIVATE : 0) | (i & 4 ? SHMEM_CTX_NOSTORE : 0);
}

/* Every kind of operation once on `ctx`, towards the right neighbour in the team of the context. */
static void use(shmem_ctx_t ctx, shmem_team_t team, long *cells)
{
    int n = shmem_team_n_pes(team);
    int me = shmem_team_my_pe(team);
    int right = (me + 1) % n;
    int left = (me + n - 1) % n;
    const long value = 5000 + me;
    for (int i = 0; i < 6; i++)
        cells[i] = i == 5 ? 40 : -1;
    shmem_quiet();
    shmem_team_sync(team);
    shmem_ctx_long_p(ctx, &cells[0], value, right);
    shmem_ctx_fence(ctx);
    shmem_ctx_long_put(ctx, &cells[1], &value, 1, right);
    shmem_ctx_long_put_nbi(ctx, &cells[2], &value, 1, right);
    shmem_ctx_long_atomic_set(ctx, &cells[3], value, right);
    shmem_ctx_putmem(ctx, &cells[4], &value, sizeof(value), right);
    CHECK_EQ(shmem_ctx_long_atomic_fetch_add(ctx, &cells[5], 2, right), 40);
    shmem_ctx_quiet(ctx);
    shmem_quiet(); /* a context with NOSTORE does not order the plain stores above */
    shmem_team_sync(team);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(cells[i], 5000 + left);
    CHECK_EQ(cells[5], 42);
    long got[2] = {-1, -1};
    CHECK_EQ(shmem_ctx_long_g(ctx, &cells[0], right), 5000 + me);
    shmem_ctx_long_get(ctx, &got[0], &cells[1], 1, right);
    shmem_ctx_long_get_nbi(ctx, &got[1], &cells[2], 1, right);
    int target = right;
    shmem_ctx_pe_quiet(ctx, &target, 1);
    shmem_ctx_pe_quiet(ctx, NULL, 0);
    CHECK_EQ(got[0], 5000 + me);
    CHECK_EQ(got[1], 5000 + me);
    shmem_team_sync(team);
}

static void test_options(long *cells)
{
    for (int i = 0; i < OPTION_SETS; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_ctx_create(option_set(i), &ctx), 0);
        CHECK(ctx != SHMEM_CTX_INVALID);
        CHECK(ctx != SHMEM_CTX_DEFAULT);
        CHECK_EQ(shmem_ctx_get_team(ctx, &team), 0);
        CHECK(team == SHMEM_TEAM_WORLD);
        use(ctx, SHMEM_TEAM_WORLD, cells);
        shmem_ctx_destroy(ctx);
    }
    use(SHMEM_CTX_DEFAULT, SHMEM_TEAM_WORLD, cells);
}

static void test_invalid(void)
{
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    CHECK_EQ(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team), 0);
    CHECK(team == SHMEM_TEAM_WORLD);
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0);
    CHECK(ctx == SHMEM_CTX_INVALID);
    /* No operation. */
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, NULL, 0);
}

/* PE numbers of a team context count in the team, here in the reverse of the odd PEs and in rows of three. */
static void test_team_contexts(long *cells)
{
    int npes = shmem_n_pes();
    shmem_team_config_t config = {4};
    shmem_team_t teams[3] = {SHMEM_TEAM_INVALID, SHMEM_TEAM_INVALID, SHMEM_TEAM_INVALID};
    int odd = npes / 2;
    if (odd > 0)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 2 * odd - 1, -2, odd, &config, SHMEM_TEAM_NUM_CONTEXTS,
                                          &teams[0]),
                 0);
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, &config, SHMEM_TEAM_NUM_CONTEXTS, &teams[1], &config,
                                 SHMEM_TEAM_NUM_CONTEXTS, &teams[2]),
             0);
    for (int t = 0; t < 3; t++) {
        shmem_ctx_t ctxs[4];
        if (teams[t] == SHMEM_TEAM_INVALID)
            continue;
        for (int i = 0; i < 4; i++) {
            shmem_team_t team = SHMEM_TEAM_INVALID;
            ctxs[i] = SHMEM_CTX_INVALID;
            CHECK_EQ(shmem_team_create_ctx(teams[t], option_set(2 * i), &ctxs[i]), 0);
            CHECK_EQ(shmem_ctx_get_team(ctxs[i], &team), 0);
            CHECK(team == teams[t]);
        }
        for (int i = 0; i < 4; i++)
            use(ctxs[i], teams[t], cells);
        for (int i = 0; i < 4; i++)
            shmem_ctx_destroy(ctxs[(i + 1) % 4]);
    }
    shmem_barrier_all();
    for (int t = 0; t < 3; t++)
        shmem_team_destroy(teams[t]);
    shmem_barrier_all();
}

static void test_predefined_teams(long *cells)
{
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_create_ctx(SHMEM_TEAM_WORLD, 0, &ctx), 0);
    CHECK_EQ(shmem_ctx_get_team(ctx, &team), 0);
    CHECK(team == SHMEM_TEAM_WORLD);
    use(ctx, SHMEM_TEAM_WORLD, cells);
    shmem_ctx_destroy(ctx);
    CHECK_EQ(shmem_team_create_ctx(SHMEM_TEAM_SHARED, 0, &ctx), 0);
    CHECK_EQ(shmem_ctx_get_team(ctx, &team), 0);
    CHECK(team == SHMEM_TEAM_SHARED);
    use(ctx, SHMEM_TEAM_SHARED, cells);
    shmem_ctx_destroy(ctx);
}

/* shmem_team_destroy takes the shareable contexts of the team with it. */
static void test_destroyed_with_team(long *cells)
{
    int npes = shmem_n_pes();
    shmem_team_config_t config = {2};
    for (int i = 0; i < 100; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        shmem_ctx_t first, second;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, &config, SHMEM_TEAM_NUM_CONTEXTS, &team), 0);
        CHECK_EQ(shmem_team_create_ctx(team, 0, &first), 0);
        CHECK_EQ(shmem_team_create_ctx(team, SHMEM_CTX_SERIALIZED, &second), 0);
        if (i % 25 == 0)
            use(second, team, cells);
        shmem_team_destroy(team);
    }
}

/* A context's operations are complete when it is destroyed. */
static void test_destroy_is_quiet(long *cells)
{
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    int left = (me + npes - 1) % npes;
    for (long i = 0; i < 20; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        const long value = 100 * i + me;
        CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
        shmem_ctx_long_put_nbi(ctx, &cells[0], &value, 1, (me + 1) % npes);
        shmem_ctx_destroy(ctx);
        shmem_sync_all();
        CHECK_EQ(cells[0], 100 * i + left);
        shmem_sync_all();
    }
}

static void test_many(long *cells)
{
    enum { MANY = 64 };
    int npes = shmem_n_pes();
    shmem_ctx_t ctxs[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(shmem_ctx_create(option_set(i % OPTION_SETS), &ctxs[i]), 0);
        for (int j = 0; j < i; j++)
            CHECK(ctxs[i] != ctxs[j]);
    }
    cells[0] = 0;
    shmem_barrier_all();
    for (int i = 0; i < MANY; i++)
        for (int pe = 0; pe < npes; pe++)
            shmem_ctx_long_atomic_inc(ctxs[i], &cells[0], pe);
    for (int i = 0; i < MANY; i++)
        shmem_ctx_destroy(ctxs[(i * 5) % MANY]);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_atomic_fetch(&cells[0], shmem_my_pe()), (long)MANY * npes);
    for (int i = 0; i < 5000; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        if (!CHECK_EQ(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx), 0))
            break;
        shmem_ctx_destroy(ctx);
    }
}

/* As many as there can be. The time for each must not grow with their number, or this takes minutes. */
static void test_most(void)
{
    enum { MOST = 65536 };
    shmem_ctx_t *ctxs = (shmem_ctx_t *)malloc(MOST * sizeof *ctxs);
    int made = 0;
    CHECK_OR_EXIT(ctxs != NULL);
    while (made < MOST && shmem_ctx_create(0, &ctxs[made]) == 0)
        made++;
    CHECK(made > 60000 && made < MOST);
    for (int i = 0; i < made; i += 2)
        shmem_ctx_destroy(ctxs[i]);
    for (int i = 0; i < made; i += 2)
        CHECK_EQ(shmem_ctx_create(0, &ctxs[i]), 0);
    CHECK(shmem_ctx_create(0, &ctxs[made]) != 0);
    for (int i = 0; i < made; i++)
        shmem_ctx_destroy(ctxs[i]);
    free(ctxs);
}

/* Hints only: results are the same inside a session, stopping twice and nesting is allowed. */
static void test_sessions(long *cells)
{
    shmem_ctx_session_config_t config = {10};
    const long options[] = {0, SHMEM_CTX_SESSION_BATCH};
    shmem_ctx_t made = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &made), 0);
    for (int i = 0; i < 4; i++) {
        shmem_ctx_t ctx = i % 2 ? made : SHMEM_CTX_DEFAULT;
        shmem_ctx_session_start(ctx, options[i / 2], NULL, 0);
        use(ctx, SHMEM_TEAM_WORLD, cells);
        config.total_ops = i < 2 ? 1 : SIZE_MAX;
        shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
        use(ctx, SHMEM_TEAM_WORLD, cells);
        shmem_ctx_session_stop(ctx);
        use(ctx, SHMEM_TEAM_WORLD, cells);
        shmem_ctx_session_stop(ctx);
        shmem_ctx_session_start(ctx, options[i / 2], &config, 0);
        shmem_ctx_session_stop(ctx);
    }
    shmem_ctx_session_start(made, SHMEM_CTX_SESSION_BATCH | 1L << 20, NULL, 0); /* a hint that is not known is none */
    use(made, SHMEM_TEAM_WORLD, cells);
    shmem_ctx_session_stop(made);
    shmem_ctx_session_start(made, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    shmem_ctx_destroy(made);
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    long *cells = (long *)check_alloc(6 * sizeof(long));
    test_options(cells);
    test_invalid();
    test_team_contexts(cells);
    test_predefined_teams(cells);
    test_destroyed_with_team(cells);
    test_destroy_is_quiet(cells);
    test_many(cells);
    test_sessions(cells);
    if (shmem_my_pe() == 0)
        test_most();
    check_free(cells);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
