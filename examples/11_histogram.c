/* SPDX-License-Identifier: MIT */
/* A histogram that is spread over all PEs: every thread of every kernel adds to the bin of its value, wherever that bin
 * lives, by an atomic. Checked against a serial count. usage: 11_histogram [values per PE [bins]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>

struct count_args {
    shmemd_t h;
    uint64_t *bins; /* this PE's share, symmetric */
    uint64_t values, bins_per_pe;
};

/* Value i of a PE: a multiplicative hash, so that some bins are fuller than others. */
static inline uint64_t bin_of(uint64_t pe, uint64_t i, uint64_t bins)
{
    uint64_t x = (pe * 1000003u + i) * 0x9e3779b97f4a7c15u;
    x = (x >> 40) * (x >> 52);
    return (x >> 7) % bins;
}
SHMEMD_FN uint64_t device_bin_of(uint64_t pe, uint64_t i, uint64_t bins)
{
    uint64_t x = (pe * 1000003u + i) * 0x9e3779b97f4a7c15u;
    x = (x >> 40) * (x >> 52);
    return (x >> 7) % bins;
}

SHMEMD_KERNEL(count_values, struct count_args, a)
{
    uint64_t me = (uint64_t)shmemd_my_pe(a.h), all = a.bins_per_pe * (uint64_t)shmemd_n_pes(a.h);
    uint64_t threads = shmemd_block_count() * shmemd_block_size();
    for (uint64_t i = shmemd_block_index() * shmemd_block_size() + shmemd_thread_index(); i < a.values; i += threads) {
        uint64_t bin = device_bin_of(me, i, all);
        shmemd_uint64_atomic_inc(a.h, &a.bins[bin % a.bins_per_pe], (int)(bin / a.bins_per_pe));
    }
    shmemd_barrier_grid(a.h); /* quiet and barrier: all counts have arrived everywhere */
}

int main(int argc, char **argv)
{
    shmem_init();
    struct count_args a;
    int me = shmem_my_pe(), n = shmem_n_pes(), wrong = 0;
    a.values = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000;
    a.bins_per_pe = argc > 2 ? strtoull(argv[2], NULL, 0) : 97;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        shmem_global_exit(1);
    a.bins = (uint64_t *)shmemx_calloc(a.bins_per_pe, sizeof(uint64_t), SHMEMX_DEVICE);
    if (a.bins == NULL || shmemx_launch(SHMEMX_KERNEL(count_values), 4, 64, 0, &a, sizeof a, NULL) != 0 ||
        shmemx_stream_synchronize(NULL) != 0)
        shmem_global_exit(1);

    uint64_t all = a.bins_per_pe * (uint64_t)n, *expected = (uint64_t *)calloc(all, sizeof *expected);
    uint64_t *mine = (uint64_t *)malloc(a.bins_per_pe * sizeof *mine);
    for (int pe = 0; pe < n; pe++)
        for (uint64_t i = 0; i < a.values; i++)
            expected[bin_of((uint64_t)pe, i, all)]++;
    shmem_getmem(mine, a.bins, a.bins_per_pe * sizeof *mine, me);
    for (uint64_t b = 0; b < a.bins_per_pe; b++)
        wrong |= mine[b] != expected[(uint64_t)me * a.bins_per_pe + b];
    printf("[pe %d] %llu values counted into bins of %d PEs by atomics in kernels: %s\n", me,
           (unsigned long long)a.values, n, wrong ? "WRONG" : "equal to the serial count");
    free(expected);
    free(mine);
    shmem_finalize();
    return wrong;
}
