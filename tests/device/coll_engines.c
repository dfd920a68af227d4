/* SPDX-License-Identifier: MIT */
/* Collectives by copy engines: fcollect, alltoall, broadcast and permute of odd sizes, small ones and those that are
 * split over several engines or sent in two rounds; back to back with kernels' collectives in the same slot; two slots
 * at once; a consumer that waits for the signals of pieces in another branch of the same graph, where it was put first,
 * a thousand times; and what is refused: a slot whose engines are part of a capture, and a PE that has given up. The
 * table may give engines fewer streams: run again with SHMEM_COLL=stream.fcollect=engines:1,... and so on. */
#include "device_test.h"

enum { MIB = 1 << 20, MOST_BLOCK = 3 * MIB + 13, MOST_WHOLE = 5 * MIB + 13, SLOT = 2, OTHER_SLOT = 3, REPLAYS = 1000 };
enum { ENGINE_KINDS = 4, PIECE_WORDS = 24, BLOCK_WORDS = 200, PIECES = (BLOCK_WORDS + PIECE_WORDS - 1) / PIECE_WORDS };

static const int engine_kinds[ENGINE_KINDS] = {SHMEMX_FCOLLECT, SHMEMX_ALLTOALL, SHMEMX_BROADCAST, SHMEMX_PERMUTE};
static const char *const kind_names[ENGINE_KINDS] = {"fcollect", "alltoall", "broadcast", "permute"};

struct engines {
    struct area dest, source;
    unsigned char *block;
    shmemx_stream_t streams[2];
    int me, n;
    unsigned round;
};

/* ---- sizes ---- */

static shmemx_coll_t call_of(struct engines *s, int k, size_t bytes, bool in_place)
{
    char *dest = area_data(&s->dest), *source = area_data(&s->source);
    if (in_place && engine_kinds[k] == SHMEMX_FCOLLECT)
        source = dest + (size_t)s->me * bytes;
    if (in_place && engine_kinds[k] == SHMEMX_BROADCAST)
        source = dest;
    shmemx_coll_t q = shmemx_coll_of(engine_kinds[k], SHMEM_TEAM_WORLD, dest, source, bytes, SHMEMX_UINT8);
    int by = (int)(s->round % (unsigned)s->n);
    q.root = by;
    q.to = (s->me + by) % s->n;
    q.from = (s->me + s->n - by) % s->n;
    q.engines = 1;
    q.slot = SLOT;
    return q;
}

/* What PE `from` sends to PE `to`. */
static void expect_block(struct engines *s, size_t at, size_t bytes, int from, int to)
{
    check_fill(s->block, bytes, from, to, s->round);
    area_expect(&s->dest, at, s->block, bytes);
}

/* The image becomes what must be in dest: before the call (only what is there in place), or after it. */
static void expect(struct engines *s, const shmemx_coll_t *q, size_t bytes, bool after)
{
    bool all = q->kind == SHMEMX_FCOLLECT || q->kind == SHMEMX_ALLTOALL;
    for (int m = 0; m < s->n && all; m++)
        if (after || (q->source >= q->dest && m == s->me))
            expect_block(s, (size_t)m * bytes, bytes, m, q->kind == SHMEMX_ALLTOALL ? s->me : m);
    if (q->kind == SHMEMX_BROADCAST && (after || s->me == q->root))
        expect_block(s, 0, bytes, q->root, q->root);
    if (q->kind == SHMEMX_PERMUTE && after)
        expect_block(s, 0, bytes, q->from, q->from);
}

static void fill_source(struct engines *s, const shmemx_coll_t *q, size_t bytes)
{
    for (int m = 0; m < s->n && (m == 0 || q->kind == SHMEMX_ALLTOALL); m++) {
        check_fill(s->block, bytes, s->me, q->kind == SHMEMX_ALLTOALL ? m : s->me, s->round);
        device_write(area_data(&s->source) + (size_t)m * bytes, s->block, bytes);
    }
}

static void one_size(struct engines *s, int k, size_t bytes, bool in_place)
{
    char text[100];
    bool of_blocks = engine_kinds[k] == SHMEMX_FCOLLECT || engine_kinds[k] == SHMEMX_ALLTOALL;
    shmemx_coll_t q = call_of(s, k, bytes, in_place);
    bool is_there = q.source >= q.dest && q.source != area_data(&s->source);
    snprintf(text, sizeof(text), "%s of %zu bytes%s", kind_names[k], bytes, in_place ? ", in place" : "");
    area_poison(&s->dest, bytes * (of_blocks ? (size_t)s->n : 1));
    if (is_there)
        expect(s, &q, bytes, false);
    area_upload(&s->dest);
    fill_source(s, &q, bytes);
    shmem_barrier_all();
    CHECK_OR_EXIT(shmemx_coll_on_stream(&q, s->streams[0]) == 0);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(s->streams[0]), 0, text);
    expect(s, &q, bytes, true);
    area_check(&s->dest, text);
    s->round++;
    shmem_barrier_all();
}

/* All roots and partners take their turn. */
static void test_sizes(struct engines *s)
{
    static const size_t sizes[] = {1, 7, 8, 4097, MIB - 1, 2 * MIB, MOST_BLOCK};
    unsigned number = 0; /* of the large ones */
    for (int k = 0; k < ENGINE_KINDS; k++)
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (int in_place = 0; in_place < (k % 2 == 0 ? 2 : 1); in_place++)
                if (sizes[i] <= 4097 || check_has_case(number++))
                    one_size(s, k, sizes[i], in_place != 0);
    for (int root = 0; root < s->n; root++) {
        if (check_has_case(number++))
            one_size(s, 2, MOST_WHOLE, root % 2 == 0);
        one_size(s, 3, 4096, false);
    }
}

/* ---- one after the other, with kernels' collectives between, and two slots at once ---- */

/* Word i of member `from` for member `to` in turn number `turn`. */
SHMEMD_FN uint64_t word_of(uint64_t turn, int32_t from, int32_t to, uint64_t i)
{
    return turn << 40 ^ (uint64_t)form_mix((uint32_t)(from * 64 + to), (uint32_t)i + 7u);
}

struct turn_args {
    uint64_t *source, *dest;
    uint64_t *signals, *value; /* of pieces */
    uint64_t *turn, *wrong;
    int32_t me, n, kind;
    uint32_t late;
};

SHMEMD_KERNEL(make_source, struct turn_args, a)
{
    uint64_t turn = *a.turn;
    if (a.late != 0)
        form_dawdle(form_mix(a.late, (uint32_t)turn) % 100);
    for (uint64_t i = shmemd_thread_index(); i < (uint64_t)BLOCK_WORDS * (uint64_t)a.n; i += shmemd_block_size()) {
        int32_t to = a.kind == SHMEMX_ALLTOALL ? (int32_t)(i / BLOCK_WORDS) : 0;
        if (i < BLOCK_WORDS || a.kind == SHMEMX_ALLTOALL)
            a.source[i] = word_of(turn, a.me, to, i % BLOCK_WORDS);
    }
    if (shmemd_thread_index() == 0)
        *a.value = turn + 1;
}

SHMEMD_FN void look_at(struct turn_args a, uint64_t turn, int32_t from, uint64_t first, uint64_t words)
{
    int32_t to = a.kind == SHMEMX_ALLTOALL ? a.me : 0;
    for (uint64_t i = first + shmemd_thread_index(); i < first + words; i += shmemd_block_size())
        if (a.dest[(uint64_t)from * BLOCK_WORDS + i] != word_of(turn, from, to, i))
            *a.wrong = turn + 1; /* by any thread */
}

SHMEMD_KERNEL(look_at_all, struct turn_args, a)
{
    for (int32_t from = 0; from < a.n; from++)
        look_at(a, *a.turn, from, 0, BLOCK_WORDS);
}

/* Piece by piece, while the call is under way. */
struct consume_args {
    shmemd_t h;
    struct turn_args t;
};
SHMEMD_KERNEL(consume, struct consume_args, a)
{
    uint64_t turn = *a.t.turn;
    for (uint64_t piece = 0; piece < PIECES; piece++) {
        for (int32_t k = 0; k < a.t.n; k++) {
            int32_t from = (a.t.me + k) % a.t.n;
            uint64_t first = piece * PIECE_WORDS, left = BLOCK_WORDS - first;
            (void)shmemd_signal_wait_until_block(a.h, &a.t.signals[(uint64_t)from * PIECES + piece], SHMEM_CMP_EQ,
                                                 turn + 1);
            look_at(a.t, turn, from, first, left < PIECE_WORDS ? left : PIECE_WORDS);
        }
    }
}

SHMEMD_KERNEL(next_turn, struct turn_args, a)
{
    if (shmemd_thread_index() == 0)
        *a.turn += 1;
}

struct turns {
    struct turn_args a;
    shmemx_coll_t q;
    shmemx_stream_t stream;
    long done;
};

static uint64_t *words(size_t n)
{
    uint64_t *p = (uint64_t *)shmemx_calloc(n, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(p != NULL);
    return p;
}

/* Collective. */
static void turns_make(struct turns *t, int kind, int slot, shmemx_stream_t stream)
{
    size_t n = (size_t)shmem_n_pes();
    memset(t, 0, sizeof(*t));
    t->a.source = words(BLOCK_WORDS * n);
    t->a.dest = words(BLOCK_WORDS * n);
    t->a.signals = words(PIECES * n);
    t->a.value = words(1);
    t->a.turn = words(1);
    t->a.wrong = words(1);
    t->a.me = shmem_my_pe();
    t->a.n = shmem_n_pes();
    t->a.kind = kind;
    t->a.late = (uint32_t)shmem_my_pe() + 1;
    t->q = shmemx_coll_of(kind, SHMEM_TEAM_WORLD, t->a.dest, t->a.source, BLOCK_WORDS, SHMEMX_UINT64);
    t->q.engines = 1;
    t->q.slot = slot;
    t->stream = stream;
    shmem_barrier_all();
}
static void turns_drop(struct turns *t)
{
    shmem_barrier_all();
    shmemx_free(t->a.wrong);
    shmemx_free(t->a.turn);
    shmemx_free(t->a.value);
    shmemx_free(t->a.signals);
    shmemx_free(t->a.dest);
    shmemx_free(t->a.source);
}
static void turns_check(struct turns *t, const char *what)
{
    uint64_t turn, wrong;
    CHECK_EQ_NAMED(shmemx_stream_synchronize(t->stream), 0, what);
    device_read(&turn, t->a.turn, 8);
    device_read(&wrong, t->a.wrong, 8);
    CHECK_EQ_NAMED(turn, t->done, what);
    CHECK_EQ_NAMED(wrong, 0, what);
}

static void turns_call(struct turns *t)
{
    if (!CHECK_EQ(shmemx_coll_on_stream(&t->q, t->stream), 0))
        shmem_global_exit(CHECK_FAILED);
}
static void turns_enqueue(struct turns *t)
{
    DEVICE_LAUNCH(make_source, 1, 64, t->a, t->stream);
    turns_call(t);
    DEVICE_LAUNCH(look_at_all, 1, 64, t->a, t->stream);
    DEVICE_LAUNCH(next_turn, 1, 1, t->a, t->stream);
}

/* The same slot by engines and by kernels in turn: one sequence of epochs. */
static void test_mixed(struct engines *s, long turns)
{
    struct turns t;
    turns_make(&t, SHMEMX_ALLTOALL, SLOT, s->streams[0]);
    for (; t.done < turns; t.done++) {
        t.q.engines = t.done % 3 != 2;
        turns_enqueue(&t);
    }
    turns_check(&t, "engines and kernels in turn");
    turns_drop(&t);
}

/* In another order on every second PE. */
static void test_at_once(struct engines *s, long turns)
{
    struct turns t[2];
    turns_make(&t[0], SHMEMX_FCOLLECT, SLOT, s->streams[0]);
    turns_make(&t[1], SHMEMX_ALLTOALL, OTHER_SLOT, s->streams[1]);
    for (long turn = 0; turn < turns; turn++)
        for (int k = 0; k < 2; k++) {
            turns_enqueue(&t[(k + s->me) % 2]);
            t[(k + s->me) % 2].done++;
        }
    turns_check(&t[0], "two slots at once");
    turns_check(&t[1], "two slots at once");
    turns_drop(&t[1]);
    turns_drop(&t[0]);
}

/* ---- a consumer in another branch of the graph ---- */

/* The consumer comes first, so where branches did not run at once it would wait forever. */
static void enqueue_branches(struct turns *t, shmemx_stream_t side, shmemd_t h)
{
    struct consume_args c = {h, t->a};
    DEVICE_LAUNCH(make_source, 1, 64, t->a, t->stream);
    CHECK_EQ(shmemx_stream_wait_stream(side, t->stream), 0);
    DEVICE_LAUNCH(consume, 1, 64, c, side);
    turns_call(t);
    CHECK_EQ(shmemx_stream_wait_stream(t->stream, side), 0);
    DEVICE_LAUNCH(look_at_all, 1, 64, t->a, t->stream);
    DEVICE_LAUNCH(next_turn, 1, 1, t->a, t->stream);
}

static void test_signals(struct engines *s, long replays)
{
    struct turns t;
    shmemx_graph_t graph;
    shmemd_t h;
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, SLOT, &h) == 0);
    for (int in_place = 0; in_place < 2; in_place++) {
        turns_make(&t, SHMEMX_FCOLLECT, SLOT, s->streams[0]);
        uint64_t *source = t.a.source;
        if (in_place != 0)
            t.q.source = t.a.source = t.a.dest + t.a.me * BLOCK_WORDS;
        t.q.signals = t.a.signals;
        t.q.signal_value = t.a.value;
        t.q.chunk_bytes = PIECE_WORDS * 8;
        enqueue_branches(&t, s->streams[1], h);
        t.done++;
        turns_check(&t, "signals, without a graph");
        CHECK_OR_EXIT(shmemx_graph_begin(t.stream) == 0);
        enqueue_branches(&t, s->streams[1], h);
        CHECK_OR_EXIT(shmemx_graph_end(t.stream, &graph) == 0);
        for (long i = 0; i < replays; i++, t.done++)
            CHECK_OR_EXIT(shmemx_graph_launch(graph, t.stream) == 0);
        turns_check(&t, "signals, replayed");
        CHECK_EQ(shmemx_graph_destroy(graph), 0);
        t.a.source = source;
        turns_drop(&t);
    }
}

/* ---- what is refused ---- */

/* Streams of the slot's engines are part of the capture until it ends. One PE alone needs none. */
static void test_captured(struct engines *s)
{
    struct turns t;
    shmemx_graph_t graph;
    turns_make(&t, SHMEMX_FCOLLECT, SLOT, s->streams[0]);
    CHECK_OR_EXIT(shmemx_graph_begin(s->streams[0]) == 0);
    turns_call(&t);
    CHECK(s->n == 1 || shmemx_coll_on_stream(&t.q, s->streams[1]) != 0);
    CHECK_OR_EXIT(shmemx_graph_end(s->streams[0], &graph) == 0);
    t.stream = s->streams[1];
    turns_enqueue(&t);
    t.done++;
    turns_check(&t, "after a capture");
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    turns_drop(&t);
}

/* Copies would go on: so they are not enqueued, until the reset. */
static void test_given_up(struct engines *s)
{
    struct turns t;
    turns_make(&t, SHMEMX_ALLTOALL, SLOT, s->streams[0]);
    shmemx_device_abort();
    CHECK(shmemx_coll_on_stream(&t.q, t.stream) != 0);
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, SLOT), 0);
    turns_enqueue(&t);
    t.done++;
    turns_check(&t, "after a reset");
    turns_drop(&t);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct engines s;
    long replays = device_number("SHMEM_TEST_REPLAYS", REPLAYS);
    memset(&s, 0, sizeof(s));
    s.me = shmem_my_pe();
    s.n = shmem_n_pes();
    area_make(&s.dest, (size_t)MOST_BLOCK * (size_t)s.n + MOST_WHOLE, SHMEMX_DEVICE);
    area_make(&s.source, (size_t)MOST_BLOCK * (size_t)s.n + MOST_WHOLE, SHMEMX_DEVICE);
    s.block = (unsigned char *)malloc(MOST_WHOLE);
    CHECK_OR_EXIT(s.block != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&s.streams[0]) == 0 && shmemx_stream_create(&s.streams[1]) == 0);
    test_sizes(&s);
    test_mixed(&s, replays / 4 + 10);
    test_at_once(&s, replays / 4 + 10);
    test_signals(&s, replays);
    test_captured(&s);
    test_given_up(&s);
    CHECK_EQ(shmemx_stream_destroy(s.streams[1]), 0);
    CHECK_EQ(shmemx_stream_destroy(s.streams[0]), 0);
    free(s.block);
    area_drop(&s.source);
    area_drop(&s.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
