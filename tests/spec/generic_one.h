/* SPDX-License-Identifier: MIT */
/* Include template: every type-generic name with one type, with and without a context. Before each inclusion: T (the
 * type), NAME (for the function's name), and FAMILIES: what the type has, an or of EXT, STD,
 * BIT, LOGIC, OLD_EXT, OLD_STD, SHORTS, COMPLEX.
 * Compiled as C11 (generic selection) and as C++ (overloads). */

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FUNCTION(part) PASTE(part, NAME)

#if !(FAMILIES & COMPLEX)
/* Eight elements for each form of put, then everything is looked at, and got back. */
static void FUNCTION(generic_rma)(const struct generic *g)
{
    enum { FORMS = 14, N = 8 };
    T *dest = (T *)g->area;
    T mine[N], theirs[N], got[N];
    const T *source = mine;
    shmem_ctx_t ctx = g->ctx;
    for (int i = 0; i < N; i++) {
        mine[i] = (T)(i + 1 + 2 * g->me);
        theirs[i] = (T)(i + 1 + 2 * g->left);
    }
    memset(g->area, 0, FORMS * N * sizeof(T));
    *g->signal = 0;
    shmem_barrier_all();
    shmem_put(dest, source, N, g->right);
    shmem_put(ctx, dest + N, source, N, g->right);
    shmem_put_nbi(dest + 2 * N, source, N, g->right);
    shmem_put_nbi(ctx, dest + 3 * N, source, N, g->right);
    shmem_iput(dest + 4 * N, source, 1, 1, N, g->right);
    shmem_iput(ctx, dest + 5 * N, source, 1, 1, N, g->right);
    shmem_ibput(dest + 6 * N, source, 4, 4, 4, N / 4, g->right);
    shmem_ibput(ctx, dest + 7 * N, source, 4, 4, 4, N / 4, g->right);
    shmem_put_signal(dest + 8 * N, source, N, g->signal, 1, SHMEM_SIGNAL_ADD, g->right);
    shmem_put_signal(ctx, dest + 9 * N, source, N, g->signal, 1, SHMEM_SIGNAL_ADD, g->right);
    shmem_put_signal_nbi(dest + 10 * N, source, N, g->signal, 1, SHMEM_SIGNAL_ADD, g->right);
    shmem_put_signal_nbi(ctx, dest + 11 * N, source, N, g->signal, 1, SHMEM_SIGNAL_ADD, g->right);
    for (int i = 0; i < N; i++) {
        shmem_p(dest + 12 * N + i, mine[i], g->right);
        shmem_p(ctx, dest + 13 * N + i, mine[i], g->right);
    }
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK_EQ(*g->signal, 4);
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < N; i++)
            CHECK(dest[form * N + i] == theirs[i]);
    for (int form = 0; form < 8; form++) {
        memset(got, 0, sizeof(got));
        switch (form) {
        case 0:
            shmem_get(got, dest, N, g->right);
            break;
        case 1:
            shmem_get(ctx, got, dest, N, g->right);
            break;
        case 2:
            shmem_get_nbi(got, dest, N, g->right);
            break;
        case 3:
            shmem_get_nbi(ctx, got, dest, N, g->right);
            break;
        case 4:
            shmem_iget(got, dest, 1, 1, N, g->right);
            break;
        case 5:
            shmem_iget(ctx, got, dest, 1, 1, N, g->right);
            break;
        case 6:
            shmem_ibget(got, dest, 4, 4, 4, N / 4, g->right);
            break;
        default:
            shmem_ibget(ctx, got, dest, 4, 4, 4, N / 4, g->right);
        }
        shmem_quiet();
        shmem_ctx_quiet(ctx);
        for (int i = 0; i < N; i++)
            CHECK(got[i] == mine[i]);
    }
    CHECK(shmem_g(dest + 3, g->right) == mine[3]);
    CHECK(shmem_g(ctx, dest + 4, g->right) == mine[4]);
    shmem_barrier_all();
}

#endif

/* Atomics: one call of each on a word of this PE at its right neighbour. */
#if FAMILIES & EXT
static void FUNCTION(generic_extended)(const struct generic *g)
{
    T *word = (T *)g->area;
    int pe = g->right;
    shmem_ctx_t ctx = g->ctx;
    T old = (T)0;
    shmem_atomic_set(word, (T)5, pe);
    shmem_quiet();
    CHECK(shmem_atomic_fetch(word, pe) == (T)5);
    shmem_atomic_set(ctx, word, (T)6, pe);
    shmem_ctx_quiet(ctx);
    CHECK(shmem_atomic_fetch(ctx, word, pe) == (T)6);
    CHECK(shmem_atomic_swap(word, (T)7, pe) == (T)6);
    CHECK(shmem_atomic_swap(ctx, word, (T)8, pe) == (T)7);
    shmem_atomic_fetch_nbi(&old, word, pe);
    shmem_quiet();
    CHECK(old == (T)8);
    shmem_atomic_swap_nbi(ctx, &old, word, (T)9, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)8);
    shmem_atomic_fetch_nbi(ctx, &old, word, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)9);
    shmem_atomic_swap_nbi(&old, word, (T)10, pe);
    shmem_quiet();
    CHECK(old == (T)9);
    shmem_barrier_all();
}
#endif

#if FAMILIES & STD
static void FUNCTION(generic_standard)(const struct generic *g)
{
    T *word = (T *)g->area;
    int pe = g->right;
    shmem_ctx_t ctx = g->ctx;
    T old = (T)0;
    shmem_atomic_set(word, (T)10, pe);
    shmem_quiet();
    CHECK(shmem_atomic_compare_swap(word, (T)10, (T)20, pe) == (T)10);
    CHECK(shmem_atomic_compare_swap(ctx, word, (T)20, (T)30, pe) == (T)20);
    shmem_atomic_compare_swap_nbi(&old, word, (T)30, (T)40, pe);
    shmem_quiet();
    CHECK(old == (T)30);
    shmem_atomic_compare_swap_nbi(ctx, &old, word, (T)40, (T)50, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)40);
    CHECK(shmem_atomic_fetch_inc(word, pe) == (T)50);
    CHECK(shmem_atomic_fetch_inc(ctx, word, pe) == (T)51);
    shmem_atomic_fetch_inc_nbi(&old, word, pe);
    shmem_quiet();
    CHECK(old == (T)52);
    shmem_atomic_fetch_inc_nbi(ctx, &old, word, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)53);
    shmem_atomic_inc(word, pe);
    shmem_quiet();
    shmem_atomic_inc(ctx, word, pe);
    shmem_ctx_quiet(ctx);
    CHECK(shmem_atomic_fetch_add(word, (T)4, pe) == (T)56);
    CHECK(shmem_atomic_fetch_add(ctx, word, (T)10, pe) == (T)60);
    shmem_atomic_fetch_add_nbi(&old, word, (T)10, pe);
    shmem_quiet();
    CHECK(old == (T)70);
    shmem_atomic_fetch_add_nbi(ctx, &old, word, (T)10, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)80);
    shmem_atomic_add(word, (T)5, pe);
    shmem_quiet();
    shmem_atomic_add(ctx, word, (T)5, pe);
    shmem_ctx_quiet(ctx);
    CHECK(shmem_atomic_fetch(word, pe) == (T)100);
    shmem_barrier_all();
}
#endif

#if FAMILIES & BIT
static void FUNCTION(generic_bitwise)(const struct generic *g)
{
    T *word = (T *)g->area;
    int pe = g->right;
    shmem_ctx_t ctx = g->ctx;
    T old = (T)0;
    shmem_atomic_set(word, (T)0x0f, pe);
    shmem_quiet();
    CHECK(shmem_atomic_fetch_and(word, (T)0x3c, pe) == (T)0x0f);
    CHECK(shmem_atomic_fetch_or(word, (T)0x41, pe) == (T)0x0c);
    CHECK(shmem_atomic_fetch_xor(word, (T)0x0f, pe) == (T)0x4d);
    CHECK(shmem_atomic_fetch_and(ctx, word, (T)0x7f, pe) == (T)0x42);
    CHECK(shmem_atomic_fetch_or(ctx, word, (T)0, pe) == (T)0x42);
    CHECK(shmem_atomic_fetch_xor(ctx, word, (T)0, pe) == (T)0x42);
    shmem_atomic_and(word, (T)0x40, pe);
    shmem_quiet();
    shmem_atomic_and(ctx, word, (T)0x7f, pe);
    shmem_ctx_quiet(ctx);
    shmem_atomic_or(word, (T)1, pe);
    shmem_quiet();
    shmem_atomic_or(ctx, word, (T)2, pe);
    shmem_ctx_quiet(ctx);
    shmem_atomic_xor(word, (T)1, pe);
    shmem_quiet();
    shmem_atomic_xor(ctx, word, (T)4, pe);
    shmem_ctx_quiet(ctx);
    shmem_atomic_fetch_and_nbi(&old, word, (T)0x7f, pe);
    shmem_quiet();
    CHECK(old == (T)0x46);
    shmem_atomic_fetch_or_nbi(&old, word, (T)0, pe);
    shmem_quiet();
    shmem_atomic_fetch_xor_nbi(&old, word, (T)0, pe);
    shmem_quiet();
    shmem_atomic_fetch_and_nbi(ctx, &old, word, (T)0x7f, pe);
    shmem_ctx_quiet(ctx);
    shmem_atomic_fetch_or_nbi(ctx, &old, word, (T)0, pe);
    shmem_ctx_quiet(ctx);
    shmem_atomic_fetch_xor_nbi(ctx, &old, word, (T)0, pe);
    shmem_ctx_quiet(ctx);
    CHECK(old == (T)0x46);
    shmem_barrier_all();
}
#endif

#if FAMILIES & OLD_EXT
static void FUNCTION(generic_old)(const struct generic *g)
{
    T *word = (T *)g->area;
    int pe = g->right;
    shmem_set(word, (T)3, pe);
    shmem_quiet();
    CHECK(shmem_swap(word, (T)4, pe) == (T)3);
    CHECK(shmem_fetch(word, pe) == (T)4);
#if FAMILIES & OLD_STD
    CHECK(shmem_cswap(word, (T)4, (T)5, pe) == (T)4);
    CHECK(shmem_finc(word, pe) == (T)5);
    shmem_inc(word, pe);
    shmem_quiet();
    CHECK(shmem_fadd(word, (T)3, pe) == (T)7);
    shmem_add(word, (T)1, pe);
    shmem_quiet();
    CHECK(shmem_fetch(word, pe) == (T)11);
#endif
    shmem_barrier_all();
}
#endif

#if !(FAMILIES & COMPLEX)
static void FUNCTION(generic_waits)(const struct generic *g)
{
    T *ivars = (T *)g->area;
    (void)ivars;
#if FAMILIES & (STD | SHORTS)
    for (int i = 0; i < 3; i++)
        ivars[i] = (T)(i + 1);
    shmem_wait_until(&ivars[1], SHMEM_CMP_EQ, (T)2);
    CHECK_EQ(shmem_test(&ivars[1], SHMEM_CMP_EQ, (T)2), 1);
    CHECK_EQ(shmem_test(&ivars[1], SHMEM_CMP_GT, (T)2), 0);
#ifdef __cplusplus /* in C it would pass as well, with a warning */
    volatile T *words = ivars;
    shmem_wait_until(&words[1], SHMEM_CMP_EQ, (T)2);
    CHECK_EQ(shmem_test(&words[1], SHMEM_CMP_EQ, (T)2), 1);
#endif
    const T wanted[3] = {(T)1, (T)2, (T)9};
    const int status[3] = {0, 0, 1};
    size_t indices[3];
    shmem_wait_until_all(ivars, 3, NULL, SHMEM_CMP_GT, (T)0);
    shmem_wait_until_all_vector(ivars, 3, status, SHMEM_CMP_EQ, wanted);
    CHECK_EQ(shmem_wait_until_any(ivars, 3, NULL, SHMEM_CMP_EQ, (T)3), 2);
    CHECK(shmem_wait_until_any_vector(ivars, 3, status, SHMEM_CMP_EQ, wanted) < 2);
    CHECK_EQ(shmem_wait_until_some(ivars, 3, indices, NULL, SHMEM_CMP_EQ, (T)3), 1);
    CHECK(shmem_wait_until_some_vector(ivars, 3, indices, status, SHMEM_CMP_EQ, wanted) >= 1);
    CHECK_EQ(shmem_test_all(ivars, 3, NULL, SHMEM_CMP_GT, (T)0), 1);
    CHECK_EQ(shmem_test_all_vector(ivars, 3, NULL, SHMEM_CMP_EQ, wanted), 0);
    CHECK_EQ(shmem_test_any(ivars, 3, NULL, SHMEM_CMP_EQ, (T)2), 1);
    CHECK(shmem_test_any_vector(ivars, 3, NULL, SHMEM_CMP_GT, wanted) == SIZE_MAX);
    CHECK_EQ(shmem_test_some(ivars, 3, indices, NULL, SHMEM_CMP_EQ, (T)1), 1);
    CHECK_EQ(shmem_test_some_vector(ivars, 3, indices, NULL, SHMEM_CMP_EQ, wanted), 2);
#ifdef __cplusplus
    shmem_wait_until_all(words, 3, NULL, SHMEM_CMP_GT, (T)0);
    CHECK_EQ(shmem_wait_until_some(words, 3, indices, NULL, SHMEM_CMP_EQ, (T)3), 1);
    CHECK_EQ(shmem_test_any_vector(words, 1, NULL, SHMEM_CMP_EQ, wanted), 0);
#endif
#endif
    shmem_barrier_all();
}

static void FUNCTION(generic_collectives)(const struct generic *g)
{
    T *source = (T *)g->area;
    T *dest = source + g->npes;
    shmem_team_t team = SHMEM_TEAM_WORLD;
    int last = g->npes - 1;
    for (int pe = 0; pe < g->npes; pe++)
        source[pe] = (T)(g->me + pe + 1);
    shmem_sync(team);
    CHECK_EQ(shmem_broadcast(team, dest, source, 1, last), 0);
    CHECK(dest[0] == (T)(last + 1));
    shmem_sync(team);
    CHECK_EQ(shmem_fcollect(team, dest, source, 1), 0);
    CHECK(dest[last] == (T)(last + 1));
    shmem_sync(team);
    CHECK_EQ(shmem_collect(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)1);
    shmem_sync(team);
    CHECK_EQ(shmem_alltoall(team, dest, source, 1), 0);
    CHECK(dest[last] == (T)(last + g->me + 1));
    shmem_sync(team);
    CHECK_EQ(shmem_alltoalls(team, dest, source, 1, 1, 1), 0);
    CHECK(dest[0] == (T)(g->me + 1));
    shmem_sync(team);
    CHECK_EQ(shmem_max_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)(last + 1));
    shmem_sync(team);
    CHECK_EQ(shmem_min_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)1);
    shmem_sync(team);
#if FAMILIES & LOGIC
    source[0] = (T)(1 << (g->me % 7));
    shmem_sync(team);
    CHECK_EQ(shmem_or_reduce(team, dest, source, 1), 0);
    CHECK((dest[0] & source[0]) == source[0]);
    shmem_sync(team);
    source[0] = (T)3;
    CHECK_EQ(shmem_and_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)3);
    shmem_sync(team);
    CHECK_EQ(shmem_xor_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)(g->npes % 2 ? 3 : 0));
    shmem_sync(team);
#endif
    shmem_barrier_all();
}

#endif

static void FUNCTION(generic_sums)(const struct generic *g)
{
    T *source = (T *)g->area;
    T *dest = source + 1;
    shmem_team_t team = SHMEM_TEAM_WORLD;
    source[0] = (T)2;
    shmem_sync(team);
    CHECK_EQ(shmem_sum_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)(2 * g->npes));
    shmem_sync(team);
    CHECK_EQ(shmem_sum_inscan(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)(2 * (g->me + 1)));
    shmem_sync(team);
    CHECK_EQ(shmem_sum_exscan(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)(2 * g->me));
    shmem_sync(team);
    source[0] = (T)(g->me == 0 ? 3 : 1);
    CHECK_EQ(shmem_prod_reduce(team, dest, source, 1), 0);
    CHECK(dest[0] == (T)3);
    shmem_barrier_all();
}

static void FUNCTION(generic_all)(const struct generic *g)
{
#if !(FAMILIES & COMPLEX)
    FUNCTION(generic_rma)(g);
#if FAMILIES & EXT
    FUNCTION(generic_extended)(g);
#endif
#if FAMILIES & STD
    FUNCTION(generic_standard)(g);
#endif
#if FAMILIES & BIT
    FUNCTION(generic_bitwise)(g);
#endif
#if FAMILIES & OLD_EXT
    FUNCTION(generic_old)(g);
#endif
    FUNCTION(generic_waits)(g);
    FUNCTION(generic_collectives)(g);
#endif
    FUNCTION(generic_sums)(g);
}

#undef T
#undef NAME
#undef FAMILIES
#undef FUNCTION
#undef PASTE
#undef PASTE_
