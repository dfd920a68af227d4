/* SPDX-License-Identifier: MIT */
/* Handles: of the world and of teams, several slots at once, the same twice, again after a team was destroyed and made
 * anew, and everything that is refused with a sentence: slots out of range, captures, no handle to reset.
 * SHMEM_TEST_TURNS: barriers of each kernel. */
#include "device_test.h"

enum { THREADS = 64, ROUNDS = 50 };

struct meet_args {
    shmemd_t h;
    uint64_t *from; /* symmetric [n_pes of the world]: who has sent here, plus 1 */
    uint64_t *told; /* [4] who, of how many, collectives that failed, status */
    uint32_t rounds;
};

/* Every member puts its number to every other, and they meet: a handle knows its team. */
SHMEMD_KERNEL(meet, struct meet_args, a)
{
    int failed = 0, me = shmemd_my_pe(a.h);
    for (int pe = (int)shmemd_thread_index(); pe < shmemd_n_pes(a.h); pe += (int)shmemd_block_size())
        shmemd_uint64_p(a.h, &a.from[me], (uint64_t)me + 1, pe);
    for (uint32_t i = 0; i < a.rounds; i++)
        failed += shmemd_barrier_block(a.h) != 0;
    if (shmemd_thread_index() != 0)
        return;
    a.told[0] = (uint64_t)me;
    a.told[1] = (uint64_t)shmemd_n_pes(a.h);
    a.told[2] = (uint64_t)failed;
    a.told[3] = (uint64_t)shmemd_status(a.h);
}

struct scratch {
    uint64_t *from, *told; /* device memory, symmetric */
    uint64_t seen[64];
};

static void scratch_make(struct scratch *b)
{
    CHECK_OR_EXIT(shmem_n_pes() <= 64);
    b->from = (uint64_t *)shmemx_calloc((size_t)shmem_n_pes(), 8, SHMEMX_DEVICE);
    b->told = (uint64_t *)shmemx_calloc(4, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(b->from != NULL && b->told != NULL);
}
static void scratch_drop(struct scratch *b)
{
    shmemx_free(b->told);
    shmemx_free(b->from);
}
static void scratch_clear(struct scratch *b, int n)
{
    memset(b->seen, 0, sizeof(b->seen));
    device_write(b->from, b->seen, (size_t)n * 8);
    device_write(b->told, b->seen, 4 * 8);
}

static struct meet_args args_of(const struct scratch *b, shmemd_t h)
{
    struct meet_args a = {h, b->from, b->told, (uint32_t)device_number("SHMEM_TEST_TURNS", ROUNDS)};
    return a;
}

static void scratch_check(struct scratch *b, int me, int n)
{
    device_read(b->seen, b->told, 4 * 8);
    CHECK_EQ(b->seen[0], me);
    CHECK_EQ(b->seen[1], n);
    CHECK_EQ(b->seen[2], 0);
    CHECK_EQ(b->seen[3], 0);
    device_read(b->seen, b->from, (size_t)n * 8);
    for (int i = 0; i < n; i++)
        CHECK_EQ(b->seen[i], i + 1);
}

/* Collective over the team. */
static void use(struct scratch *b, shmem_team_t team, int slot)
{
    shmemd_t h;
    int n = shmem_team_n_pes(team), me = shmem_team_my_pe(team);
    scratch_clear(b, n);
    shmem_team_sync(team);
    CHECK_OR_EXIT(shmemx_device_handle(team, slot, &h) == 0);
    struct meet_args a = args_of(b, h);
    DEVICE_RUN(meet, 1, THREADS, a);
    scratch_check(b, me, n);
    shmem_team_sync(team);
}

static void test_same_twice(void)
{
    shmemd_t a, b, c;
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &b), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 255, &c), 0);
    CHECK_BYTES(&a, &b, sizeof(a));
    CHECK(memcmp(&a, &c, sizeof(a)) != 0);
    CHECK(sizeof(a) <= 64);
}

/* Two slots on two streams: neither waits for the other. */
static void test_two_slots(struct scratch *one, struct scratch *two)
{
    shmemd_t h[2];
    shmemx_stream_t streams[2];
    int n = shmem_n_pes(), me = shmem_my_pe(), first = me % 2;
    scratch_clear(one, n);
    scratch_clear(two, n);
    shmem_barrier_all();
    for (int i = 0; i < 2; i++) {
        CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 3 + i, &h[i]) == 0);
        CHECK_OR_EXIT(shmemx_stream_create(&streams[i]) == 0);
    }
    for (int i = 0; i < 2; i++) { /* PEs begin with different ones */
        struct meet_args a = args_of((i ^ first) == 0 ? one : two, h[i ^ first]);
        DEVICE_LAUNCH(meet, 1, THREADS, a, streams[i ^ first]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(shmemx_stream_synchronize(streams[i]), 0);
        CHECK_EQ(shmemx_stream_destroy(streams[i]), 0);
    }
    scratch_check(one, me, n);
    scratch_check(two, me, n);
    shmem_barrier_all();
}

/* Slot memory is given back: far more teams than would fit. */
static void test_teams(struct scratch *b)
{
    for (int round = 0; round < 12; round++) {
        shmem_team_t parity = device_team_of_parity();
        use(b, parity, 0);
        use(b, parity, 7);
        use(b, SHMEM_TEAM_WORLD, 0);
        shmem_barrier_all();
        shmem_team_destroy(parity);
        shmem_barrier_all();
    }
    use(b, SHMEM_TEAM_SHARED, 1);
}

static void test_refused(void)
{
    shmemd_t h;
    shmemx_stream_t stream;
    shmemx_graph_t graph;
    CHECK(shmemx_device_handle(SHMEM_TEAM_WORLD, -1, &h) != 0);
    CHECK(shmemx_device_handle(SHMEM_TEAM_WORLD, 256, &h) != 0);
    CHECK(shmemx_device_reset(SHMEM_TEAM_WORLD, 77) != 0);
    CHECK(shmemx_launch(NULL, 1, 1, 0, NULL, 0, NULL) != 0);
    CHECK(shmemx_launch(SHMEMX_KERNEL(meet), 0, 1, 0, &h, sizeof(h), NULL) != 0);
    CHECK(shmemx_launch(SHMEMX_KERNEL(meet), 1, 1025, 0, &h, sizeof(h), NULL) != 0);
    for (int bit = 32; bit < 64; bit++) { /* a vendor's call may cut the number to 32 bits, which leaves 0 or 512 */
        const size_t beyond = (size_t)1 << bit;
        CHECK(shmemx_launch(SHMEMX_KERNEL(meet), 1, 1, beyond, &h, sizeof(h), NULL) != 0);
        CHECK_EQ(shmemx_max_blocks(SHMEMX_KERNEL(meet), 1, beyond + 512), -1);
    }
    CHECK_EQ(shmemx_max_blocks(SHMEMX_KERNEL(meet), 1025, 0), -1);
    CHECK_EQ(shmemx_max_blocks(SHMEMX_KERNEL(meet), -1, 0), -1);
    CHECK(shmemx_stream_destroy(NULL) != 0);
    CHECK(shmemx_graph_begin(NULL) != 0);
    CHECK(shmemx_graph_end(NULL, &graph) != 0);
    CHECK_OR_EXIT(shmemx_stream_create(&stream) == 0);
    CHECK_OR_EXIT(shmemx_graph_begin(stream) == 0);
    CHECK(shmemx_device_handle(SHMEM_TEAM_WORLD, 9, &h) != 0);
    CHECK_EQ(shmemx_graph_end(stream, &graph), 0);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 9, &h), 0);
}

static void test_max_blocks(void)
{
    int blocks = shmemx_max_blocks(SHMEMX_KERNEL(meet), THREADS, 0);
    CHECK(blocks >= 1);
    CHECK(blocks <= device_number("SHMEM_DEVICE_BLOCKS", 64));
    CHECK_EQ(shmemx_max_blocks(NULL, THREADS, 0), -1);
    CHECK_EQ(shmemx_max_blocks(SHMEMX_KERNEL(meet), 0, 0), -1);
}

/* Nobody waits; an abort makes handles silent all the same once a wait looks at it, and a reset repairs them. */
static void test_reset(struct scratch *b)
{
    shmemx_device_error_t error;
    use(b, SHMEM_TEAM_WORLD, 0);
    shmemx_device_abort();
    shmem_barrier_all();
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, 0), 0);
    for (int i = 0; i < 3; i++)
        use(b, SHMEM_TEAM_WORLD, 0);
    CHECK_EQ(shmemx_device_error(&error), 0);
}

static int test_main(void)
{
    struct scratch one, two;
    shmem_team_t early;
    shmemd_t h;
    CHECK_INIT();
    early = device_team_of_parity();
    CHECK(shmemx_device_handle(early, 0, &h) != 0); /* no device yet, and this call is not collective over the world */
    shmem_barrier_all();
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &h) != 0) {
        shmem_team_destroy(early);
        shmem_finalize();
        return CHECK_SKIP("there is no device for every PE");
    }
    scratch_make(&one);
    scratch_make(&two);
    use(&one, early, 0);
    test_same_twice();
    use(&one, SHMEM_TEAM_WORLD, 0);
    test_two_slots(&one, &two);
    test_teams(&one);
    test_refused();
    test_max_blocks();
    test_reset(&one);
    shmem_team_destroy(early);
    shmem_barrier_all();
    scratch_drop(&two);
    scratch_drop(&one);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
