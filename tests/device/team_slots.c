/* SPDX-License-Identifier: MIT */
/* Teams that their members make alone, and their slots: collectives in kernels and on streams over lists of PEs in any
 * order, in memory that other slots have used before; slots that are made ahead, with few blocks and in great number;
 * calls of one slot on different streams, in graphs too. */
#include "device_test.h"

enum { PES_MOST = 16, WORDS = 300, ROUNDS = 12, CALLS = 24, REPLAYS = 20 };

struct sum_args {
    shmemd_t h;
    uint64_t *dest;
    const uint64_t *source;
    uint64_t *status;
    uint32_t late;
};

SHMEMD_KERNEL(sum_block, struct sum_args, a)
{
    form_dawdle(a.late);
    int status = shmemd_uint64_sum_reduce_block(a.h, a.dest, a.source, WORDS);
    if (shmemd_thread_index() == 0)
        *a.status = (uint64_t)status;
}

/* Work that holds up a stream. */
SHMEMD_KERNEL(dawdle, struct sum_args, a) { form_dawdle(a.late); }

struct buffers {
    uint64_t *source, *dest, *status; /* symmetric device memory; room for a block of each PE, or of each call */
    uint64_t seen[CALLS * WORDS];
};

static uint64_t word_of(int pe, int i) { return (uint64_t)pe * 1000003u + (uint64_t)i * 17 + 1; }

static shmemx_coll_t call_of(int kind, shmem_team_t team, int slot, uint64_t *dest, const uint64_t *source)
{
    shmemx_coll_t c = shmemx_coll_of(kind, team, dest, source, WORDS, SHMEMX_UINT64);
    c.op = SHMEMX_SUM;
    c.slot = slot;
    return c;
}

static void check_sum(struct buffers *b, const int *pes, int n)
{
    device_read(b->seen, b->dest, WORDS * sizeof(uint64_t));
    for (int i = 0; i < WORDS; i++) {
        uint64_t sum = 0;
        for (int m = 0; m < n; m++)
            sum += word_of(pes[m], i);
        if (!CHECK_EQ(b->seen[i], sum))
            return;
    }
}

static void check_collected(struct buffers *b, const int *pes, int n)
{
    device_read(b->seen, b->dest, (size_t)n * WORDS * sizeof(uint64_t));
    for (int m = 0; m < n; m++)
        for (int i = 0; i < WORDS; i++)
            if (!CHECK_EQ(b->seen[m * WORDS + i], word_of(pes[m], i)))
                return;
}

static void use_team(struct buffers *b, shmem_team_t team, const int *pes, int n, int slot)
{
    struct sum_args a = {.dest = b->dest, .source = b->source, .status = b->status, .late = 0};
    CHECK_OR_EXIT(shmemx_device_handle(team, slot, &a.h) == 0);
    DEVICE_RUN(sum_block, 1, 64, a);
    check_sum(b, pes, n);
    shmem_team_sync(team);
    shmemx_coll_t sum = call_of(SHMEMX_ALLREDUCE, team, slot, b->dest, b->source);
    shmemx_coll_t collect = call_of(SHMEMX_FCOLLECT, team, slot, b->dest, b->source);
    CHECK_EQ(shmemx_coll_on_stream(&collect, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    check_collected(b, pes, n);
    shmem_team_sync(team);
    CHECK_EQ(shmemx_coll_on_stream(&sum, NULL), 0);
    CHECK_EQ(shmemx_barrier_on_stream(team, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    check_sum(b, pes, n);
    shmem_team_sync(team);
}

/* Members alone, teams of other sizes in the same memory each time. */
static void test_lists(struct buffers *b)
{
    struct check_random random = check_random_stream(1);
    for (int round = 0; round < check_times(ROUNDS); round++) {
        int all[PES_MOST], pes[PES_MOST], left = check_self.npes;
        int n = 1 + (int)check_random_below(&random, (size_t)left), slot = (int)check_random_below(&random, 256);
        bool member = false;
        shmem_team_t team;
        for (int i = 0; i < left; i++)
            all[i] = i;
        for (int i = 0; i < n; i++) {
            size_t at = check_random_below(&random, (size_t)left);
            pes[i] = all[at];
            all[at] = all[--left];
            member = member || pes[i] == check_self.pe;
        }
        if (!member)
            continue;
        CHECK_OR_EXIT(shmemx_team_create(pes, n, 1, &team) == 0);
        if (round % 3 == 0)
            CHECK_EQ(shmemx_slot_prepare(team, slot, 1 + round), 0);
        use_team(b, team, pes, n, slot);
        use_team(b, team, pes, n, 255 - slot);
        shmem_team_destroy(team);
    }
    shmem_barrier_all();
}

static void test_prepare(struct buffers *b)
{
    int pes[PES_MOST];
    shmem_team_t team;
    for (int i = 0; i < check_self.npes; i++)
        pes[i] = check_self.npes - 1 - i;
    CHECK_OR_EXIT(shmemx_team_create(pes, check_self.npes, 2, &team) == 0);
    CHECK(shmemx_slot_prepare(SHMEM_TEAM_INVALID, 0, 1) != 0);
    CHECK(shmemx_slot_prepare(team, -1, 1) != 0);
    CHECK(shmemx_slot_prepare(team, 256, 1) != 0);
    CHECK(shmemx_slot_prepare(team, 0, -1) != 0);
    for (int slot = 0; slot < 256; slot++)
        if (!CHECK_EQ(shmemx_slot_prepare(team, slot, 1), 0))
            break;
    CHECK_EQ(shmemx_slot_prepare(team, 255, 0), 0);
    for (int slot = 0; slot < 256; slot += 51) {
        shmemx_coll_t sum = call_of(SHMEMX_ALLREDUCE, team, slot, b->dest, b->source);
        CHECK_EQ(shmemx_coll_on_stream(&sum, NULL), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        check_sum(b, pes, check_self.npes);
        shmem_team_sync(team);
    }
    shmem_team_destroy(team);
}

/* Each call reduces what the one before has reduced. Streams take turns; the first one is held up. */
static void enqueue_chain(struct buffers *b, const shmemx_stream_t *streams, int n_streams, int slot)
{
    struct sum_args hold = {.late = 3000 + 500 * (uint32_t)check_self.pe};
    DEVICE_LAUNCH(dawdle, 1, 64, hold, streams[0]);
    for (int i = 0; i + 1 < CALLS; i++) {
        shmemx_coll_t sum = call_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, slot, b->dest + (i + 1) * WORDS,
                                    b->dest + i * WORDS);
        CHECK_EQ(shmemx_coll_on_stream(&sum, streams[i / 2 % n_streams]), 0);
    }
}

static void reset_chain(struct buffers *b)
{
    memset(b->seen, 0, sizeof(b->seen));
    for (int i = 0; i < WORDS; i++)
        b->seen[i] = word_of(check_self.pe, i);
    device_write(b->dest, b->seen, sizeof(b->seen));
    shmem_barrier_all();
}

static void check_chain(struct buffers *b)
{
    device_read(b->seen, b->dest, sizeof(b->seen));
    for (int i = 0; i < WORDS; i++) {
        uint64_t expected = 0;
        for (int pe = 0; pe < check_self.npes; pe++)
            expected += word_of(pe, i);
        for (int call = 1; call < CALLS; call++, expected *= (uint64_t)check_self.npes)
            if (!CHECK_EQ(b->seen[call * WORDS + i], expected))
                return;
    }
}

static void test_streams(struct buffers *b)
{
    enum { STREAMS = 3 };
    shmemx_stream_t streams[STREAMS];
    streams[0] = NULL;
    for (int round = 0; round < check_times(6); round++) {
        for (int i = 1; i < STREAMS; i++)
            CHECK_EQ(shmemx_stream_create(&streams[i]), 0);
        reset_chain(b);
        enqueue_chain(b, streams + round % 2, STREAMS - round % 2, 9);
        for (int i = 1; i < STREAMS; i++) /* with work in it, and a slot's last call: the next call comes behind it */
            CHECK_EQ(shmemx_stream_destroy(streams[i]), 0);
        shmemx_coll_t last = call_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, 9, b->dest + (CALLS - 1) * WORDS,
                                     b->dest + (CALLS - 2) * WORDS);
        CHECK_EQ(shmemx_coll_on_stream(&last, NULL), 0);
        CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
        check_chain(b);
        shmem_barrier_all();
    }
}

/* Two streams in one capture, which nothing joins but the calls of the slot, and the end. */
static void test_graph(struct buffers *b)
{
    shmemx_stream_t streams[2];
    shmemx_graph_t graph;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(shmemx_stream_create(&streams[i]), 0);
    reset_chain(b);
    CHECK_EQ(shmemx_graph_begin(streams[0]), 0);
    CHECK(shmemx_slot_prepare(SHMEM_TEAM_WORLD, 10, 0) != 0);
    CHECK_EQ(shmemx_stream_wait_stream(streams[1], streams[0]), 0);
    enqueue_chain(b, streams, 2, 9);
    CHECK_EQ(shmemx_stream_wait_stream(streams[0], streams[1]), 0);
    CHECK_OR_EXIT(shmemx_graph_end(streams[0], &graph) == 0);
    for (int i = 0; i < check_times(REPLAYS); i++) {
        reset_chain(b);
        CHECK_EQ(shmemx_graph_launch(graph, streams[i % 2]), 0);
        CHECK_EQ(shmemx_stream_synchronize(streams[i % 2]), 0);
        check_chain(b);
        reset_chain(b);
        enqueue_chain(b, streams, 2, 9); /* the slot's sequence goes on without the graph */
        CHECK_EQ(shmemx_stream_synchronize(streams[0]), 0);
        CHECK_EQ(shmemx_stream_synchronize(streams[1]), 0);
        check_chain(b);
    }
    shmem_barrier_all();
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(shmemx_stream_destroy(streams[i]), 0);
}

static int test_main(void)
{
    CHECK_INIT();
    if (shmemx_device_init() != 0)
        return CHECK_SKIP("no device");
    struct buffers *b = (struct buffers *)calloc(1, sizeof(*b));
    CHECK_OR_EXIT(b != NULL && check_self.npes <= PES_MOST);
    b->source = (uint64_t *)shmemx_malloc(WORDS * sizeof(uint64_t), SHMEMX_DEVICE);
    b->dest = (uint64_t *)shmemx_malloc(CALLS * WORDS * sizeof(uint64_t), SHMEMX_DEVICE);
    b->status = (uint64_t *)shmemx_malloc(sizeof(uint64_t), SHMEMX_DEVICE);
    CHECK_OR_EXIT(b->source != NULL && b->dest != NULL && b->status != NULL);
    for (int i = 0; i < WORDS; i++)
        b->seen[i] = word_of(check_self.pe, i);
    device_write(b->source, b->seen, WORDS * sizeof(uint64_t));
    shmem_barrier_all();
    test_lists(b);
    test_prepare(b);
    test_streams(b);
    if (!device_flag("SHMEM_TEST_ONE_STREAM")) /* captures of several streams */
        test_graph(b);
    shmemx_free(b->status);
    shmemx_free(b->dest);
    shmemx_free(b->source);
    free(b);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
