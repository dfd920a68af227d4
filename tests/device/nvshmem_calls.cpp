// SPDX-License-Identifier: MIT
// Kernels and host code with NVSHMEM's names (include/compat): the handle that nobody passes, syncs at both ends of
// group calls, barriers and collectives by a thread, a warp and a block in turns, teams in kernels, calls on streams.
// Shapes of NVSHMEM's examples in own words: a ring of single puts, a ring reduction in chunks with signals, a shuffle
// of tokens.
#include "../check.h"

#include <compat/nvshmemx.h>

enum { THREADS = 128, MOST = 1000 };

// ---- a value goes around, each PE adds its number ----
SHMEMD_GLOBAL void ring_of_values(int *box, int *result)
{
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    int value = me;
    for (int i = 0; i < n; i++) {
        nvshmem_int_p(box, value, (me + 1) % n);
        nvshmem_barrier_all();
        value = *(volatile int *)box + me;
        nvshmem_barrier_all();
    }
    *result = value;
}

// ---- a sum goes around in chunks, then its result; one thread sends ----
SHMEMD_GLOBAL void ring_of_sums(int *dest, const int *source, size_t nelems, uint64_t *signal, size_t chunk)
{
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), right = (me + 1) % n;
    const size_t rank = shmemd_thread_index(), size = shmemd_block_size(), chunks = nelems / chunk;
    for (size_t c = 0; c < chunks; c++) {
        if (me != 0) {
            if (rank == 0)
                nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, c + 1);
            shmemd::group_sync(shmemd::block());
            for (size_t i = c * chunk + rank; i < (c + 1) * chunk; i += size)
                dest[i] += source[i];
            shmemd::group_sync(shmemd::block());
        }
        if (rank == 0)
            nvshmem_int_put_signal_nbi(dest + c * chunk, (me == 0 ? source : dest) + c * chunk, chunk, signal, 1,
                                       NVSHMEM_SIGNAL_ADD, right);
    }
    if (rank == 0)
        for (size_t c = 0; c < chunks; c++) {
            if (me < n - 1)
                nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, me == 0 ? c + 1 : chunks + c + 1);
            if (me < n - 2)
                nvshmem_int_put_signal_nbi(dest + c * chunk, dest + c * chunk, chunk, signal, 1, NVSHMEM_SIGNAL_ADD,
                                           right);
        }
}

// ---- puts that rely on the syncs at both ends ----
// All threads fill `source`, the group sends it without a sync of the kernel's own, one thread fences and signals.
SHMEMD_GLOBAL void send_by_groups(int *dest, int *source, uint64_t *signal, int round)
{
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    const int rank = (int)shmemd_thread_index(), size = (int)shmemd_block_size();
    const int wave = (int)shmemd::rank(shmemd::wave()), waves = (int)shmemd::size(shmemd::wave()), first = rank - wave;
    for (int i = rank; i < MOST; i += size)
        source[i] = me * 10000 + round * 1000 + i % 1000;
    nvshmemx_int_put_nbi_block(dest, source, MOST, right);
    if (rank == 0) {
        nvshmem_fence();
        nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_ADD, right);
    }
    source[MOST + rank] = me * 10000 + round * 1000 + rank;
    nvshmemx_putmem_nbi_warp(dest + MOST + first, source + MOST + first, (size_t)waves * sizeof(int), right);
    if (wave == 0) {
        nvshmem_fence();
        nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_ADD, right);
    }
    const uint64_t each = 1 + (uint64_t)(size + waves - 1) / (uint64_t)waves;
    if (rank == 0)
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, each * ((uint64_t)round + 1));
    shmemd::group_sync(shmemd::block());
    for (int i = rank; i < MOST; i += size)
        if (dest[i] != left * 10000 + round * 1000 + i % 1000)
            nvshmem_uint64_atomic_add(signal + 1, 1, me);
    if (dest[MOST + rank] != left * 10000 + round * 1000 + rank)
        nvshmem_uint64_atomic_add(signal + 1, 1, me);
    nvshmemx_barrier_all_block();
}

#ifdef __CUDACC__
typedef double2 located;
#else
struct located {
    double x, y;
};
#endif

// ---- barriers and collectives: by a thread, by a warp, by a block ----
SHMEMD_GLOBAL void collectives(nvshmem_team_t team, long long *area, int *wrong)
{
    const int me = nvshmem_team_my_pe(team), n = nvshmem_team_n_pes(team), rank = (int)shmemd_thread_index();
    const bool in_first_wave =
        rank < (int)shmemd_group_size(shmemd_wave()) && rank == (int)shmemd::rank(shmemd::wave());
    long long *all = area + 64, *sum = area + 512, *swapped = area + 600;
    int bad = 0;
    for (int i = rank; i < 64; i += (int)shmemd_block_size())
        area[i] = me * 100 + i;
    shmemd::group_sync(shmemd::block());
    if (rank == 0) {
        bad += nvshmem_longlong_fcollect(team, all, area, 3) != 0 || nvshmem_barrier(team) != 0;
        for (int pe = 0; pe < n; pe++)
            bad += all[3 * pe + 2] != pe * 100 + 2;
        bad += nvshmem_longlong_sum_reduce(team, sum, area, 5) != 0;
        bad += sum[4] != (long long)n * (n - 1) / 2 * 100 + 4 * n;
        bad += nvshmem_longlong_max_reduce(team, sum, sum, 5) != 0; // in place
        bad += sum[3] != (long long)n * (n - 1) / 2 * 100 + 3 * n;
    }
    shmemd::group_sync(shmemd::block());
    if (in_first_wave) {
        bad += nvshmemx_longlong_alltoall_warp(team, swapped, all, 2) != 0;
        for (int pe = 0; pe < n; pe++)
            bad += swapped[2 * pe] != all[2 * me];
        bad += nvshmemx_longlong_broadcast_warp(team, sum, area, 40, n - 1) != 0;
        bad += sum[39] != (n - 1) * 100 + 39;
        bad += nvshmemx_longlong_min_reduce_warp(team, swapped, area, 40) != 0;
        bad += swapped[39] != 39;
        bad += nvshmemx_longlong_sum_reducescatter_warp(team, swapped, area, 4) != 0;
        bad += swapped[3] != (long long)n * (n - 1) / 2 * 100 + (long long)n * (4 * me + 3);
        bad += nvshmemx_barrier_warp(team) != 0;
    }
    shmemd::group_sync(shmemd::block());
    bad += nvshmemx_longlong_sum_reduce_block(team, sum, area, 50) != 0;
    bad += sum[49] != (long long)n * (n - 1) / 2 * 100 + 49 * n;
    bad += nvshmemx_longlong_fcollect_block(team, all, area, 10) != 0 || all[10 * n - 1] != (n - 1) * 100 + 9;
    bad += nvshmemx_team_sync_block(team) != 0;
    located *pairs = (located *)(area + 512), *best = pairs + 20; // the largest of each: of PE n - 1, or equal on all
    for (int i = rank; i < 20; i += (int)shmemd_block_size()) {
        pairs[i].x = i % 2 == 0 ? me : 7;
        pairs[i].y = me + i;
    }
    shmemd::group_sync(shmemd::block());
    bad += nvshmemx_double2_maxloc_reduce_block(team, best, pairs, 20) != 0;
    bad += best[18].x != n - 1 || best[18].y != n - 1 + 18 || best[19].x != 7 || best[19].y != 19;
    if (in_first_wave) {
        bad += nvshmemx_double2_maxloc_reduce_warp(team, pairs, pairs, 20) != 0;
        bad += pairs[4].x != n - 1 || pairs[4].y != n - 1 + 4 || pairs[5].y != 5;
    }
    shmemd::group_sync(shmemd::block());
    nvshmemx_longlong_get_block(all, area, 20, nvshmem_my_pe());
    bad += all[19] != me * 100 + 19;
    nvshmem_int_atomic_add(wrong, bad, nvshmem_my_pe());
    nvshmemx_barrier_block(team);
}

static int at(const int *p)
{
    int v;
    nvshmem_getmem(&v, p, sizeof v, nvshmem_my_pe());
    return v;
}

static int test_main(void)
{
    setenv("NVSHMEM_SYMMETRIC_SIZE", "1.5m", 0); /* for what is allocated here; slots come on top */
    nvshmem_init();
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    int *box = (int *)nvshmem_calloc(3 * MOST, sizeof(int)), *source = (int *)nvshmem_calloc(3 * MOST, sizeof(int));
    uint64_t *signals = (uint64_t *)nvshmem_calloc(8, sizeof(uint64_t));
    long long *area = (long long *)nvshmem_align(128, 1024 * sizeof(long long));
    CHECK_OR_EXIT(box != NULL && source != NULL && signals != NULL && area != NULL);

    CHECK_EQ(shmemd::launch_cooperative(ring_of_values, 1, 1, 0, NULL, box, source), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(at(source), n * (n - 1) / 2 + me);

    for (int i = 0; i < MOST; i++)
        nvshmem_int_p(source + i, me + i, me);
    nvshmem_barrier_all();
    CHECK_EQ(shmemd::launch_cooperative(ring_of_sums, 1, THREADS, 0, NULL, box + MOST, source, MOST, signals, 250), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    nvshmem_barrier_all();
    for (int i = 0; i < MOST; i += 333)
        CHECK_EQ(at(box + MOST + i), n > 1 ? n * (n - 1) / 2 + n * i : at(source + i));

    const uint64_t none[2] = {0, 0};
    nvshmem_putmem(signals, none, sizeof none, me);
    nvshmem_barrier_all();
    for (int round = 0; round < 4; round++)
        CHECK_EQ(shmemd::launch_cooperative(send_by_groups, 1, THREADS, 0, NULL, box, source, signals, round), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(nvshmem_uint64_g(signals + 1, me), 0);

    nvshmem_team_t half = NVSHMEM_TEAM_INVALID,
                   teams[3] = {NVSHMEM_TEAM_WORLD, NVSHMEMX_TEAM_NODE, NVSHMEM_TEAM_INVALID};
    for (int which = 0; which < 2; which++) { // PEs of each parity
        nvshmem_team_t made = NVSHMEM_TEAM_INVALID;
        if (which < n)
            CHECK_EQ(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, which, 2, (n + 1 - which) / 2, NULL, 0, &made), 0);
        if (me % 2 == which)
            half = made;
    }
    teams[2] = half;
    int *wrong = box;
    for (int i = 0; i < 3; i++) {
        nvshmem_int_p(wrong, 0, me);
        nvshmem_barrier_all();
        void *args[] = {&teams[i], &area, &wrong};
        int most = 0;
        CHECK_EQ(nvshmemx_collective_launch_query_gridsize(collectives, THREADS, args, 0, &most), 0);
        CHECK(most > 0);
        for (int turn = 0; turn < 2; turn++)
            CHECK_EQ(nvshmemx_collective_launch(collectives, 1, THREADS, args, 0, NULL), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        if (!CHECK_EQ(at(wrong), 0))
            printf("nvshmem_calls: team %d\n", i);
        nvshmem_barrier_all();
    }
    CHECK_EQ(nvshmem_team_translate_pe(half, 0, NVSHMEM_TEAM_WORLD), me % 2);
    nvshmem_team_destroy(half);

    nvshmem_int_p(source, me + 1, me);
    nvshmemx_barrier_all_on_stream(NULL);
    CHECK_EQ(nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, box, source, 1, NULL), 0);
    nvshmemx_int_put_on_stream(box + 1, source, 1, (me + 1) % n, NULL);
    nvshmemx_quiet_on_stream(NULL);
    nvshmemx_barrier_all_on_stream(NULL);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(at(box), n * (n + 1) / 2);
    CHECK_EQ(at(box + 1), (me + n - 1) % n + 1);
    CHECK_EQ(nvshmem_int_max_reduce(NVSHMEM_TEAM_WORLD, box, source, 1), 0); // by the host
    CHECK_EQ(at(box), n);
    CHECK(nvshmem_ptr(box, me) == box);

    nvshmem_free(area);
    nvshmem_free(signals);
    nvshmem_free(source);
    nvshmem_free(box);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
