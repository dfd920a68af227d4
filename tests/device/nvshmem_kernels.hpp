// SPDX-License-Identifier: MIT
// The kernels of nvshmem_calls.cpp and of nvshmem_kernels.cpp, which is a module.
#ifndef TEST_NVSHMEM_KERNELS_HPP
#define TEST_NVSHMEM_KERNELS_HPP

enum { THREADS = 128, MOST = 1000 };

extern "C" {
SHMEMD_GLOBAL void ring_of_values(int *box, int *result, int *own);
SHMEMD_GLOBAL void ring_of_sums(int *dest, const int *source, size_t nelems, uint64_t *signal, size_t chunk);
SHMEMD_GLOBAL void send_by_groups(int *dest, int *source, uint64_t *signal, int round);
SHMEMD_GLOBAL void collectives(nvshmem_team_t team, long long *area, int *wrong);
SHMEMD_GLOBAL void asks_of_team(nvshmem_team_t team, int *answers);
}

#ifndef TEST_MODULE

// ---- a value goes around, each PE adds its number, which it puts to itself in memory that is not symmetric ----
SHMEMD_GLOBAL void ring_of_values(int *box, int *result, int *own)
{
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    nvshmem_int_p(own, me, me);
    nvshmem_int_put(own + 1, own, 1, me);
    nvshmem_quiet();
    int value = nvshmem_int_g(own + 1, me);
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
#ifdef COMPAT_CUDA
typedef __half half_type;
typedef __nv_bfloat16 bfloat16_type;
#else
typedef shmemd_half_t half_type;
typedef shmemd_bfloat16_t bfloat16_type;
#endif

SHMEMD_GLOBAL void asks_of_team(nvshmem_team_t team, int *answers)
{
    answers[0] = nvshmem_team_my_pe(team);
    answers[1] = nvshmem_team_n_pes(team);
    answers[2] = nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD);
}

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
        bad += nvshmemx_longlong_broadcast_warp(team, sum, area, 40, n) == 0; // there is no such root
        bad += nvshmemx_longlong_broadcast_warp(team, sum, area, 40, -1) == 0;
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
    // halves: 8 sums by a thread, 8 maxima by a warp, 8 sums by a block, every second one to this PE
    uint16_t *bits = (uint16_t *)(area + 512), *sums = bits + 64, *sent = bits + 128;
    for (int i = rank; i < 8; i += (int)shmemd_block_size()) {
        bits[i] = shmemd_half_from_float((float)(me + i)).bits;
        bits[8 + i] = shmemd_bfloat16_from_float((float)(me + i)).bits;
    }
    shmemd::group_sync(shmemd::block());
    if (rank == 0) {
        bad += nvshmem_half_sum_reduce(team, (half_type *)sums, (half_type *)bits, 8) != 0;
        bad += nvshmem_bfloat16_fcollect(team, (bfloat16_type *)(sums + 32), (bfloat16_type *)(bits + 8), 1) != 0;
        bad += nvshmem_half_broadcast(team, (half_type *)sent, (half_type *)bits, 8, n - 1) != 0;
        bad += sums[32 + n - 1] != shmemd_bfloat16_from_float((float)(n - 1)).bits;
        bad += sent[7] != shmemd_half_from_float((float)(n - 1 + 7)).bits;
    }
    shmemd::group_sync(shmemd::block());
    if (in_first_wave)
        bad += nvshmemx_bfloat16_max_reduce_warp(team, (bfloat16_type *)(sums + 8), (bfloat16_type *)(bits + 8), 8) != 0;
    bad += nvshmemx_half_sum_reduce_block(team, (half_type *)(sums + 16), (half_type *)bits, 8) != 0;
    nvshmemx_half_iput_block((half_type *)(sums + 24), (half_type *)bits, 1, 2, 4, nvshmem_my_pe());
    bad += nvshmemx_barrier_block(team) != 0;
    bad += sums[7] != shmemd_half_from_float((float)(n * (n - 1) / 2 + 7 * n)).bits || sums[16 + 7] != sums[7];
    bad += sums[8 + 7] != shmemd_bfloat16_from_float((float)(n - 1 + 7)).bits || sums[24 + 3] != bits[6];
    shmemd::group_sync(shmemd::block());
    nvshmemx_longlong_get_block(all, area, 20, nvshmem_my_pe());
    bad += all[19] != me * 100 + 19;
    nvshmem_int_atomic_add(wrong, bad, nvshmem_my_pe());
    nvshmemx_barrier_block(team);
}

#endif

#endif
