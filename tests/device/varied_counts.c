/* SPDX-License-Identifier: MIT */
/* alltoallv inside kernels: the numbers of each pair come from the kernel itself, are zero or large, and dests lie in
 * any order with gaps, which stay as they were. By a block, on a chosen lane, and by a grid. Numbers that differ are an
 * error of both members of the pair, and the smaller number arrives; so are numbers that are too large, even if they are
 * equal, and of those nothing arrives. */
#include "device_test.h"

enum { BLOCKS = 3, THREADS = 64, CALLS = 12, MOST = 5000 };
enum { ONE_MORE = 1, SENDS_TOO_MANY, BOTH_TOO_MANY }; /* how the numbers of PE 0 and PE 1 differ */

struct varied_args {
    shmemd_t h;
    int32_t *dest, *source;
    size_t *numbers; /* [4][n_pes]: dest_nelems, dest_displs, source_nelems, source_displs */
    uint64_t *wrong; /* [2]: wrong elements and results, of what must fail */
    uint32_t turn;
    int32_t differs;
};

/* What `from` sends `to` in this round, in elements. */
SHMEMD_FN size_t varied_count(uint32_t from, uint32_t to, uint32_t round)
{
    const uint32_t x = (from * 7 + to * 13 + round * 29) * 2654435761u >> 16;
    return round % 4 == 0 && x % 3 == 0 ? 0 : round % 3 == 2 ? x % MOST : x % 40;
}
SHMEMD_FN int32_t varied_value(uint32_t from, uint32_t to, uint32_t i, uint32_t round)
{
    return (int32_t)(from * 1000003u + to * 10007u + i * 3u + round);
}

/* By one thread: dests in falling order of members, with a gap of `me` elements in front of each. */
SHMEMD_FN void varied_numbers(struct varied_args a, uint32_t me, uint32_t n)
{
    size_t at = 0, from = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t m = n - 1 - k;
        at += me;
        a.numbers[m] = varied_count(m, me, a.turn);
        a.numbers[n + m] = at;
        at += a.numbers[m];
        a.numbers[2 * n + k] = varied_count(me, k, a.turn);
        a.numbers[3 * n + k] = from;
        from += a.numbers[2 * n + k] + 1;
    }
    if (a.differs == ONE_MORE && me == 0) /* PE 0 sends PE 1 one more than it expects */
        a.numbers[2 * n + 1]++;
}
/* For the time of the call. */
SHMEMD_FN void varied_too_many(struct varied_args a, uint32_t me, uint32_t n)
{
    if (a.differs >= SENDS_TOO_MANY && me == 0)
        a.numbers[2 * n + 1] = (size_t)-1;
    if (a.differs == BOTH_TOO_MANY && me == 1)
        a.numbers[0] = (size_t)-1;
}

SHMEMD_KERNEL(varied, struct varied_args, a)
{
    const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h);
    const bool first = shmemd_block_index() == 0;
    const bool grid = shmemd_block_count() > 1;
    uint64_t bad = 0;
    if (first && shmemd_thread_index() == 0)
        varied_numbers(a, me, n);
    if (first)
        shmemd_group_sync(shmemd_block());
    for (uint32_t m = 0; first && m < n; m++)
        for (uint32_t i = shmemd_thread_index(); i < a.numbers[2 * n + m]; i += shmemd_block_size())
            a.source[a.numbers[3 * n + m] + i] = varied_value(me, m, i, a.turn);
    const size_t *d = a.numbers, *s = a.numbers + 2 * n;
    int rc = 0;
    if (a.differs != 0) {
        shmemd_group_sync(shmemd_block());
        if (shmemd_thread_index() == 0)
            varied_too_many(a, me, n);
    }
    if (grid)
        rc = shmemd_int32_alltoallv_grid(a.h, a.dest, d, d + n, a.source, s, s + n);
    else
        rc = shmemd_int32_alltoallv_block(a.turn % 2 == 0 ? a.h : shmemd_lane(a.h, 5), a.dest, d, d + n, a.source, s,
                                          s + n);
    if (a.differs != 0) {
        bad += (rc != 0) != (me < 2 && n > 1); /* the two that differ, no other */
        if (shmemd_thread_index() == 0 && me < 2)
            varied_numbers(a, me, n);
        shmemd_group_sync(shmemd_block());
    } else {
        bad += rc != 0;
    }
    for (uint32_t m = 0; first && m < n; m++)
        for (uint32_t i = shmemd_thread_index(); i < a.numbers[m]; i += shmemd_block_size())
            bad += a.dest[a.numbers[n + m] + i] !=
                   (a.differs == BOTH_TOO_MANY && me == 1 && m == 0 ? -1 : varied_value(m, me, i, a.turn));
    if (first && shmemd_thread_index() == 0)
        for (uint32_t m = 0; m < n; m++)
            for (uint32_t i = 1; i <= me; i++)
                bad += a.dest[a.numbers[n + m] - i] != -1;
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, bad, (int)me);
}

static int test_main(void)
{
    DEVICE_INIT();
    const int n = shmem_n_pes();
    const size_t room = (size_t)n * (size_t)(MOST + n);
    struct varied_args a;
    uint64_t wrong;
    memset(&a, 0, sizeof(a));
    a.dest = (int32_t *)shmemx_malloc(room * sizeof(int32_t), SHMEMX_DEVICE);
    a.source = (int32_t *)shmemx_malloc(room * sizeof(int32_t), SHMEMX_DEVICE);
    a.numbers = (size_t *)shmemx_calloc(4 * (size_t)n, sizeof(size_t), SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    int32_t *clean = (int32_t *)malloc(room * sizeof(int32_t));
    CHECK_OR_EXIT(a.dest != NULL && a.source != NULL && a.numbers != NULL && a.wrong != NULL && clean != NULL);
    memset(clean, 0xff, room * sizeof(int32_t));
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (a.turn = 0; a.turn < CALLS; a.turn++) {
        device_write(a.dest, clean, room * sizeof(int32_t));
        shmem_barrier_all();
        DEVICE_RUN(varied, a.turn % 3 == 1 ? BLOCKS : 1, THREADS, a);
    }
    device_read(&wrong, a.wrong, sizeof(wrong));
    CHECK_EQ(wrong, 0);
    a.turn = 2;
    for (a.differs = ONE_MORE; a.differs <= BOTH_TOO_MANY && n > 1; a.differs++) { /* two handles give up */
        device_write(a.dest, clean, room * sizeof(int32_t));
        shmem_barrier_all();
        shmemx_device_error_t error;
        CHECK_OR_EXIT(shmemx_launch(SHMEMX_KERNEL(varied), 1, THREADS, 0, &a, sizeof(a), NULL) == 0);
        CHECK((shmemx_stream_synchronize(NULL) != 0) == (shmem_my_pe() < 2));
        CHECK_EQ(shmemx_status(SHMEM_TEAM_WORLD, 0, &error), shmem_my_pe() < 2);
        if (shmem_my_pe() < 2) {
            CHECK_EQ(error.gave_up, 2);
            CHECK_EQ(error.pe, 1 - shmem_my_pe());
            CHECK_EQ(error.seen == error.expected + sizeof(int32_t), a.differs == ONE_MORE);
            CHECK_EQ(error.seen == ((uint64_t)1 << 40) - 2, a.differs != ONE_MORE);
        }
        device_read(&wrong, a.wrong, sizeof(wrong));
        CHECK_EQ(wrong, 0);
        shmemx_device_abort();
        shmem_barrier_all();
        CHECK(shmemx_device_reset(SHMEM_TEAM_WORLD, 0) == 0);
    }
    shmem_barrier_all();
    free(clean);
    shmemx_free(a.wrong);
    shmemx_free(a.numbers);
    shmemx_free(a.source);
    shmemx_free(a.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
