// SPDX-License-Identifier: MIT
// Kernels and host code with NVSHMEM's names (include/compat): the handle that nobody passes, syncs at both ends of
// group calls, barriers and collectives by a thread, a warp and a block in turns, teams in kernels, calls on streams.
// Shapes of NVSHMEM's examples in own words: a ring of single puts, a ring reduction in chunks with signals, a shuffle
// of tokens.
#include "../check.h"

#include <compat/nvshmem_host.h>
#include <compat/host/nvshmem_api.h>
#include <compat/host/nvshmemx_api.h>

#include "nvshmem_kernels.hpp"

#ifdef TEST_MODULE // the path of nvshmem_kernels.cpp
#include <dlfcn.h>
static void *module;
#define KERNEL(name) reinterpret_cast<decltype(&name)>(dlsym(module, #name))
#else
#define KERNEL(name) name
#endif

static int at(const int *p)
{
    int v;
    nvshmem_getmem(&v, p, sizeof v, nvshmem_my_pe());
    return v;
}

static int test_main(void)
{
    setenv("NVSHMEM_SYMMETRIC_SIZE", "1.5m", 0); /* for what is allocated here; slots come on top */
#ifdef TEST_MODULE
    module = dlopen(TEST_MODULE, RTLD_NOW | RTLD_LOCAL);
    CHECK_OR_EXIT(module != NULL);
    CHECK(nvshmemx_cumodule_init(module) != 0); // too early
    nvshmem_init();
    CHECK(nvshmemx_cumodule_init(dlopen(NULL, RTLD_NOW)) != 0); // without the variable
    CHECK(nvshmemx_culibrary_init(NULL) != 0 && nvshmemx_culibrary_init(dlopen(NULL, RTLD_NOW)) != 0);
    CHECK_EQ(nvshmem_my_pe() % 2 == 0 ? nvshmemx_cumodule_init(module) : nvshmemx_culibrary_init(module), 0);
#else
    nvshmem_init();
#endif
    const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    int *box = (int *)nvshmem_calloc(3 * MOST, sizeof(int)), *source = (int *)nvshmem_calloc(3 * MOST, sizeof(int));
    uint64_t *signals = (uint64_t *)nvshmem_calloc(8, sizeof(uint64_t));
    long long *area = (long long *)nvshmem_align(128, 1024 * sizeof(long long));
    CHECK_OR_EXIT(box != NULL && source != NULL && signals != NULL && area != NULL);

#ifdef __CUDACC__
    int *own = NULL;
    CHECK_EQ((int)cudaMalloc(reinterpret_cast<void **>(&own), 2 * sizeof(int)), 0);
#else
    int *own = new int[2];
#endif
    CHECK_EQ(shmemd::launch_cooperative(KERNEL(ring_of_values), 1, 1, 0, NULL, box, source, own), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
#ifdef __CUDACC__
    cudaFree(own);
#else
    delete[] own;
#endif
    CHECK_EQ(at(source), n * (n - 1) / 2 + me);

    for (int i = 0; i < MOST; i++)
        nvshmem_int_p(source + i, me + i, me);
    nvshmem_barrier_all();
    CHECK_EQ(shmemd::launch_cooperative(KERNEL(ring_of_sums), 1, THREADS, 0, NULL, box + MOST, source, MOST, signals,
                                        250), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    nvshmem_barrier_all();
    for (int i = 0; i < MOST; i += 333)
        CHECK_EQ(at(box + MOST + i), n > 1 ? n * (n - 1) / 2 + n * i : at(source + i));

    const uint64_t none[2] = {0, 0};
    nvshmem_putmem(signals, none, sizeof none, me);
    nvshmem_barrier_all();
    for (int round = 0; round < 4; round++)
        CHECK_EQ(shmemd::launch_cooperative(KERNEL(send_by_groups), 1, THREADS, 0, NULL, box, source, signals, round),
                 0);
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
        CHECK_EQ(nvshmemx_collective_launch_query_gridsize(KERNEL(collectives), THREADS, args, 0, &most), 0);
        CHECK(most > 0);
        for (int turn = 0; turn < 2; turn++)
            CHECK_EQ(nvshmemx_collective_launch(KERNEL(collectives), 1, THREADS, args, 0, NULL), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        if (!CHECK_EQ(at(wrong), 0))
            printf("nvshmem_calls: team %d\n", i);
        nvshmem_barrier_all();
    }
    CHECK_EQ(nvshmem_team_translate_pe(half, 0, NVSHMEM_TEAM_WORLD), me % 2);
    nvshmem_team_destroy(half);
    const nvshmem_team_t no_teams[] = {NVSHMEM_TEAM_INVALID, half, 99, 100000};
    for (nvshmem_team_t team : no_teams) {
        CHECK_EQ(shmemd::launch(KERNEL(asks_of_team), 1, 1, 0, NULL, team, source), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        CHECK(at(source) == -1 && at(source + 1) == -1 && at(source + 2) == -1);
    }

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
    CHECK(nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, box) == NULL);
    nvshmem_barrier_all();
    uint64_t before = nvshmem_uint64_g(signals, me);
    nvshmem_barrier_all();
    nvshmemx_signal_op(signals, 7, NVSHMEM_SIGNAL_ADD, (me + 1) % n); // by the host
    nvshmem_barrier_all();
    CHECK_EQ(nvshmem_uint64_g(signals, me), before + 7);

#ifdef TEST_MODULE
    CHECK(nvshmemx_cumodule_finalize(module) == 0 && nvshmemx_culibrary_finalize(module) == 0);
#endif
    nvshmem_free(area);
    nvshmem_free(signals);
    nvshmem_free(source);
    nvshmem_free(box);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
