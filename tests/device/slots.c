/* SPDX-License-Identifier: MIT */
/* Kernels with collectives, one after the other and at once: two teams and three slots on three streams in another
 * order on every second PE, each PE late in its turn, and a graph that is launched a thousand times. Run once more with
 * SHMEM_DEVICE_EPOCH=4294967293, where the low half of the epochs wraps around soon. */
#include "device_test.h"

enum { WORDS = 40, BLOCKS = 2, THREADS = 64, STREAMS = 3, REPLAYS = 1000 };

/* One block's part of one handle's scratch, in device memory, symmetric. */
struct turn {
    uint64_t epoch; /* rounds done, over all launches */
    uint64_t wrong, signal, gave_up;
    uint64_t pad[12];
    uint64_t source[WORDS], sum[WORDS], landed[WORDS];
};
/* Behind it: [n_pes][WORDS] */
#define TURN_ALL(t) ((uint64_t *)(void *)((t) + 1))

struct turn_args {
    shmemd_t h;
    char *scratch;
    uint64_t turn_bytes;
    uint32_t rounds, late;
};

SHMEMD_FN uint64_t word_of(uint32_t pe, uint64_t epoch, uint32_t i)
{
    return (uint64_t)form_mix(pe * 64 + i, (uint32_t)epoch) << 11 ^ epoch;
}

/* By the threads of the block, all words: how many are not what member `pe`, or the sum of all (-1), should give. */
SHMEMD_FN void look(struct turn_args a, struct turn *t, const uint64_t *seen, int32_t pe)
{
    for (uint32_t i = (uint32_t)shmemd_thread_index(); i < WORDS; i += (uint32_t)shmemd_block_size()) {
        uint64_t expected = 0;
        for (int32_t p = 0; p < (int32_t)shmemd_n_pes(a.h); p++)
            if (pe < 0 || p == pe)
                expected += word_of((uint32_t)p, t->epoch, i);
        if (seen[i] != expected)
            t->wrong = 1 + i; /* by any thread */
    }
}

SHMEMD_FN int take_turn(struct turn_args a, struct turn *t)
{
    int32_t me = (int32_t)shmemd_my_pe(a.h), n = (int32_t)shmemd_n_pes(a.h);
    for (uint32_t i = (uint32_t)shmemd_thread_index(); i < WORDS; i += (uint32_t)shmemd_block_size())
        t->source[i] = word_of((uint32_t)me, t->epoch, i);
    shmemd_group_sync(shmemd_block());
    int status = shmemd_uint64_sum_reduce_block(a.h, t->sum, t->source, WORDS);
    look(a, t, t->sum, -1);
    status |= shmemd_uint64_fcollect_block(a.h, TURN_ALL(t), t->source, WORDS);
    for (int32_t pe = 0; pe < n; pe++)
        look(a, t, TURN_ALL(t) + pe * WORDS, pe);
    shmemd_uint64_put_signal_block(a.h, t->landed, t->source, WORDS, &t->signal, t->epoch + 1, SHMEM_SIGNAL_SET,
                                   (me + 1) % n);
    (void)shmemd_signal_wait_until_block(a.h, &t->signal, SHMEM_CMP_EQ, t->epoch + 1);
    look(a, t, t->landed, (me + n - 1) % n);
    shmemd_group_sync(shmemd_block());
    return status;
}

SHMEMD_KERNEL(turns, struct turn_args, a)
{
    struct turn *t = (struct turn *)(void *)(a.scratch + (uint64_t)shmemd_block_index() * a.turn_bytes);
    for (uint32_t r = 0; r < a.rounds; r++) {
        uint32_t x = form_mix(a.late + r, (uint32_t)shmemd_block_index());
        if (a.late != 0 && x % 4 == 0)
            form_dawdle(x / 4 % 200);
        int status = take_turn(a, t);
        if (shmemd_thread_index() == 0) {
            t->epoch++;
            t->gave_up |= (uint64_t)(status != 0);
        }
        shmemd_group_sync(shmemd_block());
    }
}

struct player {
    struct device_team team;
    struct turn_args args;
    uint64_t epochs;
    shmemx_stream_t stream;
};

static void player_open(struct player *p, shmem_team_t team, int slot)
{
    memset(p, 0, sizeof(*p));
    device_team_open(&p->team, team, slot);
    p->args.h = p->team.handle;
    p->args.turn_bytes = (sizeof(struct turn) + (size_t)shmem_n_pes() * WORDS * 8 + 127) / 128 * 128;
    p->args.scratch = (char *)shmemx_calloc(BLOCKS, p->args.turn_bytes, SHMEMX_DEVICE);
    CHECK_OR_EXIT(p->args.scratch != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&p->stream) == 0);
    shmem_barrier_all();
}
static void player_start(struct player *p, uint32_t rounds, uint32_t late)
{
    p->args.rounds = rounds;
    p->args.late = late;
    p->epochs += rounds;
    DEVICE_LAUNCH(turns, BLOCKS, THREADS, p->args, p->stream);
}
static void player_finish(struct player *p, const char *what)
{
    struct turn seen;
    CHECK_EQ(shmemx_stream_synchronize(p->stream), 0);
    for (size_t b = 0; b < BLOCKS; b++) {
        device_read(&seen, p->args.scratch + b * p->args.turn_bytes, sizeof(seen));
        CHECK_EQ_NAMED(seen.wrong, 0, what);
        CHECK_EQ_NAMED(seen.gave_up, 0, what);
        CHECK_EQ_NAMED(seen.epoch, p->epochs, what);
    }
}

static void at_once(struct player *players, int n, uint32_t reps)
{
    for (uint32_t rep = 0; rep < reps; rep++) {
        uint32_t late = device_mix(rep + 1, (uint32_t)shmem_my_pe()) | 1;
        for (int k = 0; k < n; k++)
            player_start(&players[shmem_my_pe() % 2 == 0 ? k : n - 1 - k], 3, late + (uint32_t)k);
        for (int k = 0; k < n && (rep % 2 == 1 || rep + 1 == reps); k++)
            player_finish(&players[k], "players at once");
    }
}

static void one_late(struct player *p)
{
    for (int late = 0; late < shmem_n_pes(); late++) {
        if (shmem_my_pe() == late)
            usleep(30000);
        player_start(p, 2, 1);
        player_start(p, 1, 0);
    }
    player_finish(p, "one PE late");
}

static void replay(struct player *p, long replays)
{
    shmemx_graph_t graph = NULL;
    uint64_t before = p->epochs;
    shmem_barrier_all();
    CHECK_EQ(shmemx_graph_begin(p->stream), 0);
    player_start(p, 1, 0);
    player_start(p, 1, (uint32_t)shmem_my_pe() + 1);
    CHECK_EQ(shmemx_graph_end(p->stream, &graph), 0);
    uint64_t each = p->epochs - before;
    p->epochs = before;
    player_finish(p, "captured, not run");
    for (long i = 0; i < replays; i++) {
        CHECK_EQ(shmemx_graph_launch(graph, p->stream), 0);
        p->epochs += each;
        if (i % 100 == 99)
            player_finish(p, "replayed");
    }
    player_finish(p, "replayed");
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    player_start(p, 1, 0); /* and launched without a graph again */
    player_finish(p, "after the graph");
}

static int test_main(void)
{
    DEVICE_INIT();
    struct player players[STREAMS];
    long replays = device_number("SHMEM_TEST_REPLAYS", REPLAYS);
    shmem_team_t parity = device_team_of_parity();
    player_open(&players[0], SHMEM_TEAM_WORLD, 10);
    player_open(&players[1], SHMEM_TEAM_WORLD, 11);
    player_open(&players[2], parity, 10);
    at_once(players, STREAMS, replays < 1000 ? 6 : 20);
    one_late(&players[0]);
    replay(&players[1], replays);
    for (int k = STREAMS - 1; k >= 0; k--) {
        CHECK_EQ(shmemx_stream_destroy(players[k].stream), 0);
        shmemx_free(players[k].args.scratch);
    }
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
