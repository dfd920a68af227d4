// SPDX-License-Identifier: MIT
// Kernels and host code with rocSHMEM's names (include/compat/rocshmem): contexts of teams, calls of waves and
// work-groups that synchronise them, barriers and collectives by a thread, a wave and a work-group in turns, waits for
// types of all sizes, calls on streams. Shapes of its examples in own words: a token that goes around behind a signal,
// an exchange, updates of random words.
#include "../check.h"

#include <compat/rocshmem/rocshmem.hpp>

using namespace rocshmem;

enum { THREADS = 128, MOST = 700 };

// ---- a token goes around behind a signal, by one thread ----
SHMEMD_GLOBAL void token(uint64_t *data, uint64_t *signal, size_t nelems)
{
    const int me = rocshmem_my_pe(), n = rocshmem_n_pes(), right = (me + 1) % n;
    rocshmem_wg_init();
    if (shmemd_thread_index() == 0) {
        if (me != 0)
            rocshmem_ulong_wait_until(signal, ROCSHMEM_CMP_EQ, 1);
        rocshmem_ulong_put_signal(data, data, nelems, signal, 1, ROCSHMEM_SIGNAL_SET, right);
        if (me == 0)
            rocshmem_ulong_wait_until(signal, ROCSHMEM_CMP_EQ, 1);
    }
    rocshmem_wg_finalize();
}

// ---- puts that rely on the syncs of their group ----
SHMEMD_GLOBAL void send_by_groups(int *dest, int *source, uint64_t *signal, int round)
{
    SHMEMD_SHARED(rocshmem_ctx_t, ctx, 1);
    const int me = rocshmem_my_pe(), n = rocshmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    const int rank = (int)shmemd_thread_index(), size = (int)shmemd_block_size();
    const int wave = (int)shmemd::rank(shmemd::wave()), waves = (int)shmemd::size(shmemd::wave()), first = rank - wave;
    int bad = rocshmem_wg_ctx_create(ROCSHMEM_CTX_WG_PRIVATE, &ctx[0]) != 0;
    bad += rocshmem_ctx_n_pes(ctx[0]) != n || ctx[0] == ROCSHMEM_CTX_INVALID;
    for (int i = rank; i < MOST; i += size)
        source[i] = me * 10000 + round * 1000 + i;
    rocshmem_ctx_int_put_nbi_wg(ctx[0], dest, source, MOST, right);
    source[MOST + rank] = me * 10000 + round * 1000 + rank;
    rocshmem_putmem_signal_nbi_wave(dest + MOST + first, source + MOST + first, (size_t)waves * sizeof(int), signal, 1,
                                    ROCSHMEM_SIGNAL_ADD, right);
    if (rank == 0) {
        rocshmem_ctx_fence(ctx[0], right);
        rocshmem_ctx_ulong_atomic_add(ctx[0], (unsigned long *)signal, 1, right);
        rocshmem_uint64_wait_until(signal, ROCSHMEM_CMP_GE,
                                   (1 + (uint64_t)(size + waves - 1) / (uint64_t)waves) * ((uint64_t)round + 1));
    }
    bad += rocshmem_signal_fetch_wg(signal) == 0;
    for (int i = rank; i < MOST; i += size)
        bad += dest[i] != left * 10000 + round * 1000 + i;
    bad += dest[MOST + rank] != left * 10000 + round * 1000 + rank;
    rocshmem_uint64_atomic_add(signal + 1, (uint64_t)bad, me);
    rocshmem_ctx_quiet(ctx[0]);
    rocshmem_wg_ctx_destroy(&ctx[0]);
    rocshmem_wg_barrier_all();
}

// ---- barriers and collectives of a team, PE numbers of a context that count in it ----
SHMEMD_GLOBAL void of_team(rocshmem_team_t team, long long *area, int *wrong)
{
    SHMEMD_SHARED(rocshmem_ctx_t, ctx, 1);
    long long *all = area + 64, *sum = area + 512, *swapped = area + 600, *box = area + 800;
    int bad = rocshmem_wg_team_create_ctx(team, 0, &ctx[0]) != 0;
    const int me = rocshmem_ctx_my_pe(ctx[0]), n = rocshmem_ctx_n_pes(ctx[0]), rank = (int)shmemd_thread_index();
    const bool in_first_wave =
        rank < (int)shmemd_group_size(shmemd_wave()) && rank == (int)shmemd::rank(shmemd::wave());
    bad += me != rocshmem_team_my_pe(team) || n != rocshmem_team_n_pes(team);
    for (int i = rank; i < 64; i += (int)shmemd_block_size())
        area[i] = me * 100 + i;
    rocshmem_ctx_barrier_wg(ctx[0], team);
    if (rank == 0) {
        rocshmem_ctx_longlong_p(ctx[0], box, me + 1, (me + 1) % n);
        rocshmem_ctx_barrier(ctx[0], team);
        bad += box[0] != (me + n - 1) % n + 1 || rocshmem_ctx_longlong_g(ctx[0], area + 7, n - 1) != (n - 1) * 100 + 7;
        rocshmem_ctx_sync(ctx[0], team);
    }
    shmemd_group_sync(shmemd_block());
    if (in_first_wave) {
        bad += rocshmem_ctx_longlong_fcollect_wave(ctx[0], team, all, area, 3) != 0;
        for (int pe = 0; pe < n; pe++)
            bad += all[3 * pe + 2] != pe * 100 + 2;
        bad += rocshmem_ctx_longlong_sum_reduce_wave(ctx[0], team, sum, area, 5) != 0;
        bad += sum[4] != (long long)n * (n - 1) / 2 * 100 + 4 * n;
        rocshmem_ctx_sync_wave(ctx[0], team);
    }
    shmemd_group_sync(shmemd_block());
    bad += rocshmem_ctx_longlong_wg_alltoall(ctx[0], team, swapped, all, 2) != 0;
    for (int pe = 0; pe < n; pe++)
        bad += swapped[2 * pe] != all[2 * me];
    bad += rocshmem_ctx_longlong_broadcast_wg(ctx[0], team, sum, area, 40, n - 1) != 0 || sum[39] != (n - 1) * 100 + 39;
    bad += rocshmem_ctx_longlong_max_wg_reduce(ctx[0], team, sum, area, 40) != 0 || sum[39] != (n - 1) * 100 + 39;
    bad += rocshmem_ctx_longlong_xor_reduce_wg(ctx[0], team, sum, area, 1) != 0; // signed: theirs only
    long long bits = 0;
    for (int pe = 0; pe < n; pe++)
        bits ^= pe * 100;
    bad += sum[0] != bits;
    bad += rocshmem_ctx_longlong_sum_reduce_scatter_wg(ctx[0], team, swapped, area, 4) != 0;
    bad += swapped[3] != (long long)n * (n - 1) / 2 * 100 + (long long)n * (4 * me + 3);
    rocshmem_ctx_sync_wg(ctx[0], team);
    size_t *numbers = (size_t *)(all + 64); // me + 1 elements to each PE, as many as its number and 1 from each
    for (int pe = rank; pe < n; pe += (int)shmemd_block_size()) {
        numbers[pe] = (size_t)pe + 1;
        numbers[n + pe] = (size_t)pe * 10;
        numbers[2 * n + pe] = (size_t)me + 1;
        numbers[3 * n + pe] = (size_t)pe;
    }
    shmemd_group_sync(shmemd_block());
    rocshmem_longlong_alltoallv_wg(team, all + 200, numbers, numbers + n, area, numbers + 2 * n, numbers + 3 * n);
    for (int pe = 0; pe < n; pe++)
        bad += all[200 + pe * 10 + pe] != pe * 100 + me + pe;
    rocshmem_int_atomic_add(wrong, bad, rocshmem_my_pe());
    rocshmem_wg_ctx_destroy(&ctx[0]);
    rocshmem_ctx_wg_team_sync(ROCSHMEM_CTX_DEFAULT, team);
}

// ---- waits for a float and a short, then updates of words of random PEs ----
SHMEMD_GLOBAL void waits_and_updates(float *f, short *s, unsigned *words, int rounds)
{
    const int me = rocshmem_my_pe(), n = rocshmem_n_pes(), right = (me + 1) % n;
    if (shmemd_thread_index() == 0) {
        rocshmem_float_p(f, 2.5f, right);
        rocshmem_float_wait_until(f, ROCSHMEM_CMP_GT, 2.0f);
        rocshmem_short_p(s, (short)-3, right);
        while (!rocshmem_short_test(s, ROCSHMEM_CMP_LT, (short)0))
            ;
    }
    unsigned x = (unsigned)me * 1000 + shmemd_thread_index() + 1;
    for (int i = 0; i < rounds; i++) {
        x = x * 1664525u + 1013904223u;
        rocshmem_uint_atomic_inc(words + (x >> 8) % 64, (int)((x >> 16) % (unsigned)n));
    }
    rocshmem_threadfence_system();
    rocshmem_barrier_all_wg();
}

template <class T> static T at(const T *p) { return got(p, rocshmem_my_pe()); }
template <class T> static void fill(T *p, T value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rocshmem_putmem(p + i, &value, sizeof value, rocshmem_my_pe());
    rocshmem_barrier_all();
}

static int test_main(void)
{
    setenv("ROCSHMEM_HEAP_SIZE", "64M", 0);
    const int me = rocshmem_my_pe(), n = rocshmem_n_pes(); // before the start, as its examples do
    uint64_t seen = 0;
    rocshmem_init();
    int *box = (int *)rocshmem_malloc(2 * MOST * sizeof(int)), *source = (int *)rocshmem_malloc(2 * MOST * sizeof(int));
    uint64_t *signals = (uint64_t *)rocshmem_malloc(1000 * sizeof(uint64_t)), *data = signals + 8;
    long long *area = (long long *)rocshmem_malloc(1024 * sizeof(long long));
    CHECK_OR_EXIT(box != NULL && source != NULL && signals != NULL && area != NULL);
    int version[3] = {0};
    CHECK_EQ(sscanf(VERSION, "%d.%d.%d", &version[0], &version[1], &version[2]), 3);
    CHECK(version[0] > 3 || (version[0] == 3 && version[1] >= 3)); // as PyTorch asks
    CHECK_EQ(rocshmem_buffer_register(&seen, sizeof seen), ROCSHMEM_SUCCESS);
    CHECK_EQ(rocshmem_buffer_unregister(&seen), ROCSHMEM_SUCCESS);
    CHECK_EQ(rocshmem_buffer_register(NULL, 8), ROCSHMEM_ERROR);

    fill(signals, (uint64_t)0, 2);
    fill(data, (uint64_t)me + 7, 300);
    CHECK_EQ(shmemd::launch_cooperative(token, 1, THREADS, 0, NULL, data, signals, 300), 0);
    rocshmem_barrier_all_on_stream(NULL);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(at(data), 7);
    CHECK_EQ(at(data + 299), 7);

    fill(signals, (uint64_t)0, 2);
    for (int round = 0; round < 4; round++)
        CHECK_EQ(shmemd::launch_cooperative(send_by_groups, 1, THREADS, 0, NULL, box, source, signals, round), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(at(signals + 1), 0);

    rocshmem_team_t teams[2] = {ROCSHMEM_TEAM_WORLD, ROCSHMEM_TEAM_INVALID};
    for (int which = 0; which < 2 && which < n; which++) { // PEs of each parity
        rocshmem_team_t made = nullptr;
        CHECK_EQ(rocshmem_team_split_strided(ROCSHMEM_TEAM_WORLD, which, 2, (n + 1 - which) / 2, nullptr, 0, &made), 0);
        if (me % 2 == which)
            teams[1] = made;
        else
            CHECK(made == ROCSHMEM_TEAM_INVALID);
    }
    for (rocshmem_team_t team : teams) {
        fill(box, 0, 1);
        for (int turn = 0; turn < 2; turn++)
            CHECK_EQ(shmemd::launch_cooperative(of_team, 1, THREADS, 0, NULL, team, area, box), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        CHECK_EQ(at(box), 0);
    }
    CHECK_EQ(rocshmem_team_translate_pe(teams[1], 0, ROCSHMEM_TEAM_WORLD), me % 2);
    rocshmem_team_destroy(teams[1]);

    float *f = (float *)area;
    short *s = (short *)(area + 1);
    fill(area, 0LL, 2);
    fill(box, 0, 64);
    CHECK_EQ(shmemd::launch_cooperative(waits_and_updates, 1, THREADS, 0, NULL, f, s, (unsigned *)box, 20), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    rocshmem_barrier_all();
    for (int i = 0; i < 64; i++)
        seen += (uint64_t)at(box + i);
    rocshmem_uint64_p(signals + 2, seen, me);
    CHECK_EQ(rocshmem_ctx_uint64_sum_reduce(ROCSHMEM_CTX_DEFAULT, ROCSHMEM_TEAM_WORLD, signals + 3, signals + 2, 1), 0);
    CHECK_EQ(at(signals + 3), (uint64_t)n * THREADS * 20);
    rocshmem_barrier_all();

    rocshmem_int_p(source, me + 1, me);
    rocshmem_barrier_all_on_stream(NULL);
    CHECK_EQ(rocshmem_ctx_int_sum_reduce_on_stream(ROCSHMEM_CTX_DEFAULT, ROCSHMEM_TEAM_WORLD, box, source, 1, NULL), 0);
    rocshmem_putmem_on_stream(box + 1, source, sizeof(int), (me + 1) % n, NULL);
    rocshmem_quiet_on_stream(NULL);
    rocshmem_barrier_all_on_stream(NULL);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(at(box), n * (n + 1) / 2);
    CHECK_EQ(at(box + 1), (me + n - 1) % n + 1);
    CHECK(rocshmem_ptr(box, me) == box);

    rocshmem_free(area);
    rocshmem_free(signals);
    rocshmem_free(source);
    rocshmem_free(box);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
