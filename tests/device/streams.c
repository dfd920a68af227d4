/* SPDX-License-Identifier: MIT */
/* Every call of the form _on_stream: payloads that go by kernel and by copy engine, signals of both kinds, waits,
 * quiet, barrier and sync of the world and of a team, arguments that are refused, and a graph of all of them that is
 * replayed a thousand times. Run again with SHMEM_FORCE_PROXY=1. */
#include "device_test.h"

enum { SMALL = 1000, LARGE = (1 << 20) + 24, REPLAYS = 1000, WORDS = 64 };

struct streams {
    char *dest, *source, *back; /* device memory, symmetric, LARGE bytes */
    uint64_t *signal;           /* [4] */
    unsigned char *image;       /* host, LARGE bytes */
    shmemx_stream_t stream;
    int me, n, next, previous;
};

static void put_next(struct streams *s, size_t bytes, unsigned round)
{
    check_fill(s->image, bytes, s->me, s->next, round);
    device_write(s->source, s->image, bytes);
    memset(s->image, CHECK_POISON, bytes);
    device_write(s->dest, s->image, bytes);
    device_write(s->back, s->image, bytes);
    shmem_barrier_all();
}

static void has_come(struct streams *s, size_t bytes, unsigned round)
{
    device_read(s->image, s->dest, bytes);
    CHECK_FILLED(s->image, bytes, s->previous, s->me, round);
    shmem_barrier_all();
}

static uint64_t signal_of(struct streams *s, int i)
{
    uint64_t value;
    device_read(&value, &s->signal[i], 8);
    return value;
}

static void test_put_get(struct streams *s, size_t bytes, unsigned round)
{
    put_next(s, bytes, round);
    CHECK_EQ(shmemx_putmem_on_stream(s->dest, s->source, bytes, s->next, s->stream), 0);
    CHECK_EQ(shmemx_quiet_on_stream(s->stream), 0);
    CHECK_EQ(shmemx_barrier_on_stream(SHMEM_TEAM_WORLD, s->stream), 0);
    CHECK_EQ(shmemx_getmem_on_stream(s->back, s->dest, bytes, s->next, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    device_read(s->image, s->back, bytes);
    CHECK_FILLED(s->image, bytes, s->me, s->next, round);
    has_come(s, bytes, round);
}

static void test_put_signal(struct streams *s, size_t bytes, unsigned round)
{
    uint64_t value = 1000 + round;
    put_next(s, bytes, round);
    CHECK_EQ(shmemx_putmem_signal_on_stream(s->dest, s->source, bytes, &s->signal[0], value, SHMEM_SIGNAL_SET, s->next,
                                            s->stream),
             0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(&s->signal[0], SHMEM_CMP_EQ, value, s->stream), 0);
    CHECK_EQ(shmemx_getmem_on_stream(s->back, s->dest, bytes, s->me, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    device_read(s->image, s->back, bytes);
    CHECK_FILLED(s->image, bytes, s->previous, s->me, round);
    has_come(s, bytes, round);
}

static void test_signals(struct streams *s)
{
    uint64_t before = signal_of(s, 1);
    shmem_barrier_all();
    for (int pe = 0; pe < s->n; pe++)
        CHECK_EQ(shmemx_signal_op_on_stream(&s->signal[1], 3, SHMEM_SIGNAL_ADD, pe, s->stream), 0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(&s->signal[1], SHMEM_CMP_GE, before + 3 * (uint64_t)s->n, s->stream),
             0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    CHECK_EQ(signal_of(s, 1), before + 3 * (uint64_t)s->n);
    shmem_barrier_all();
    CHECK_EQ(shmemx_putmem_signal_on_stream(NULL, NULL, 0, &s->signal[1], 7, SHMEM_SIGNAL_SET, s->next, s->stream), 0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(&s->signal[1], SHMEM_CMP_EQ, 7, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    CHECK_EQ(signal_of(s, 1), 7);
    shmem_barrier_all();
}

/* Two streams, one behind the other. */
static void test_order(struct streams *s)
{
    shmemx_stream_t other;
    CHECK_OR_EXIT(shmemx_stream_create(&other) == 0);
    put_next(s, LARGE, 77);
    CHECK_EQ(shmemx_putmem_on_stream(s->dest, s->source, LARGE, s->next, s->stream), 0);
    CHECK_EQ(shmemx_quiet_on_stream(s->stream), 0);
    CHECK_EQ(shmemx_stream_wait_stream(other, s->stream), 0);
    CHECK_EQ(shmemx_signal_op_on_stream(&s->signal[2], 1, SHMEM_SIGNAL_ADD, s->next, other), 0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(&s->signal[2], SHMEM_CMP_GE, 1, other), 0);
    CHECK_EQ(shmemx_stream_synchronize(other), 0);
    CHECK_EQ(shmemx_stream_destroy(other), 0);
    has_come(s, LARGE, 77);
}

static void test_teams(struct streams *s)
{
    shmem_team_t parity = device_team_of_parity();
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(shmemx_sync_on_stream(parity, s->stream), 0);
        CHECK_EQ(shmemx_barrier_on_stream(SHMEM_TEAM_WORLD, s->stream), 0);
        CHECK_EQ(shmemx_barrier_on_stream(parity, s->stream), 0);
    }
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    shmem_barrier_all();
    shmem_team_destroy(parity);
}

static void test_refused(struct streams *s)
{
    shmemx_stream_t st = s->stream;
    char *d = s->dest;
    uint64_t *w = s->signal;
    char local[8] = {0};
    CHECK(shmemx_putmem_on_stream(d, s->source, 8, s->n, st) != 0);
    CHECK(shmemx_putmem_on_stream(d, s->source, 8, -1, st) != 0);
    CHECK(shmemx_putmem_on_stream(local, s->source, 8, 0, st) != 0);
    CHECK(shmemx_putmem_on_stream(d, NULL, 8, 0, st) != 0);
    CHECK(shmemx_putmem_on_stream(d, s->source, SIZE_MAX - 15, 0, st) != 0); /* its end lies before its begin */
    CHECK(shmemx_getmem_on_stream(s->back, d, SIZE_MAX - 15, 0, st) != 0);
    CHECK(shmemx_putmem_on_stream(d, s->source, (size_t)1 << 46, 0, st) != 0);
    CHECK(shmemx_getmem_on_stream(s->back, local, 8, 0, st) != 0);
    CHECK(shmemx_getmem_on_stream(NULL, d, 8, 0, st) != 0);
    CHECK(shmemx_signal_op_on_stream(w, 1, 77, 0, st) != 0);
    CHECK(shmemx_signal_op_on_stream((uint64_t *)(void *)((char *)w + 4), 1, SHMEM_SIGNAL_SET, 0, st) != 0);
    CHECK(shmemx_putmem_signal_on_stream(d, s->source, 8, NULL, 1, SHMEM_SIGNAL_SET, 0, st) != 0);
    CHECK(shmemx_signal_wait_until_on_stream(w, 0, 1, st) != 0);
    CHECK(shmemx_signal_wait_until_on_stream(NULL, SHMEM_CMP_EQ, 1, st) != 0);
    CHECK_EQ(shmemx_putmem_on_stream(d, NULL, 0, 0, st), 0); /* nothing to do */
    CHECK_EQ(shmemx_stream_synchronize(st), 0);
}

/* ---- a graph, replayed: one block of 64 threads makes data, the others' arrives, another kernel looks at it ---- */

struct turn_args {
    shmemd_t h;
    uint64_t *source, *dest; /* WORDS of each */
    uint64_t *count, *wrong; /* replays so far; words that were not what they should be */
    uint64_t *signal;
    int32_t me, previous;
};

SHMEMD_FN uint64_t turn_word(uint64_t round, int32_t pe, uint32_t i)
{
    return round * 1000003u + (uint64_t)pe * 131u + i;
}

SHMEMD_KERNEL(turn_make, struct turn_args, a)
{
    uint64_t round = *a.count + 1;
    shmemd_group_sync(shmemd_block());
    for (uint32_t i = (uint32_t)shmemd_thread_index(); i < WORDS; i += (uint32_t)shmemd_block_size())
        a.source[i] = turn_word(round, a.me, i);
    if (shmemd_thread_index() == 0)
        *a.count = round;
}

SHMEMD_KERNEL(turn_look, struct turn_args, a)
{
    uint64_t wrong = 0;
    if (shmemd_thread_index() != 0)
        return;
    for (uint32_t i = 0; i < WORDS; i++)
        wrong += shmemd_uint64_g(a.h, &a.dest[i], shmemd_my_pe(a.h)) != turn_word(*a.count, a.previous, i);
    *a.wrong += wrong;
    shmemd_uint64_atomic_add(a.h, a.signal, (uint64_t)0 - 1, shmemd_my_pe(a.h)); /* this turn's has been taken */
    shmemd_quiet(a.h);
}

static void enqueue_turn(struct streams *s, struct turn_args *a)
{
    DEVICE_LAUNCH(turn_make, 1, 64, *a, s->stream);
    CHECK_EQ(shmemx_putmem_signal_on_stream(a->dest, a->source, WORDS * 8, a->signal, 1, SHMEM_SIGNAL_ADD, s->next,
                                            s->stream),
             0);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(a->signal, SHMEM_CMP_GE, 1, s->stream), 0);
    DEVICE_LAUNCH(turn_look, 1, 64, *a, s->stream);
    CHECK_EQ(shmemx_quiet_on_stream(s->stream), 0);
    CHECK_EQ(shmemx_barrier_on_stream(SHMEM_TEAM_WORLD, s->stream), 0);
}

static void test_graph(struct streams *s)
{
    shmemx_graph_t graph;
    uint64_t zero[2] = {0, 0};
    long replays = device_number("SHMEM_TEST_REPLAYS", REPLAYS);
    struct turn_args a;
    memset(&a, 0, sizeof a);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    a.source = (uint64_t *)(void *)s->source;
    a.dest = (uint64_t *)(void *)s->dest;
    a.count = (uint64_t *)(void *)s->back;
    a.wrong = a.count + 1;
    a.signal = &s->signal[3];
    a.me = s->me;
    a.previous = s->previous;
    device_write(a.count, zero, sizeof(zero));
    shmem_barrier_all();
    CHECK_OR_EXIT(shmemx_graph_begin(s->stream) == 0);
    enqueue_turn(s, &a);
    CHECK_OR_EXIT(shmemx_graph_end(s->stream, &graph) == 0);
    for (long i = 0; i < replays; i++)
        CHECK_EQ(shmemx_graph_launch(graph, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    device_read(zero, a.count, sizeof(zero));
    CHECK_EQ(zero[0], replays);
    CHECK_EQ(zero[1], 0);
    CHECK_EQ(signal_of(s, 3), 0);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    shmem_barrier_all();
}

/* The first barrier of a team makes a handle, which a capture does not allow. */
static void test_capture(struct streams *s)
{
    shmemx_graph_t graph;
    shmem_team_t parity = device_team_of_parity();
    CHECK_OR_EXIT(shmemx_graph_begin(s->stream) == 0);
    CHECK(shmemx_barrier_on_stream(parity, s->stream) != 0);
    CHECK_EQ(shmemx_graph_end(s->stream, &graph), 0);
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    shmem_team_destroy(parity);
    shmem_barrier_all();
}

static void make(struct streams *s)
{
    s->me = shmem_my_pe();
    s->n = shmem_n_pes();
    s->next = (s->me + 1) % s->n;
    s->previous = (s->me + s->n - 1) % s->n;
    s->dest = (char *)shmemx_calloc(LARGE, 1, SHMEMX_DEVICE);
    s->source = (char *)shmemx_calloc(LARGE, 1, SHMEMX_DEVICE);
    s->back = (char *)shmemx_calloc(LARGE, 1, SHMEMX_DEVICE);
    s->signal = (uint64_t *)shmemx_calloc(4, 8, SHMEMX_DEVICE);
    s->image = (unsigned char *)malloc(LARGE);
    CHECK_OR_EXIT(s->dest != NULL && s->source != NULL && s->back != NULL && s->signal != NULL && s->image != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&s->stream) == 0);
}

static void drop(struct streams *s)
{
    CHECK_EQ(shmemx_stream_destroy(s->stream), 0);
    shmemx_free(s->signal);
    shmemx_free(s->back);
    shmemx_free(s->source);
    shmemx_free(s->dest);
    free(s->image);
}

static int test_main(void)
{
    static const size_t sizes[] = {1, 8, 33, SMALL, 65536, LARGE};
    struct streams s;
    DEVICE_INIT();
    make(&s);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        test_put_get(&s, sizes[i], i);
        test_put_signal(&s, sizes[i], 50 + i);
    }
    test_signals(&s);
    test_order(&s);
    test_teams(&s);
    test_refused(&s);
    test_graph(&s);
    test_capture(&s);
    drop(&s);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
