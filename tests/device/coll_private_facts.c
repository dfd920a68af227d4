/* SPDX-License-Identifier: MIT */
/* Facts of a call that are each member's own differ between the members, for every kind of call: the memory of a buffer
 * that no peer touches (heap, local, registered by all, by some members, in part, in two buffers, private), the place of
 * one that they touch, alignment, the stream, a batch of this call alone, a capture where no engine may carry the call.
 * All members have to choose the same schedule all the same. When one chose by a fact of its own, or refused its call,
 * dests were wrong or the other members waited for ever. */
#include "coll_case.h"

enum { MOST_WORDS = 24000, TURNS = 3, STREAMS = 2 };

/* Where a buffer lies. All members take one of the first ones, or the same one of the others, where peers touch it. */
enum where {
    HEAP, LOCAL, TEAM, ANY_NEAR, REGISTERED = ANY_NEAR, OWN, ANY_TOUCHED, SOME = ANY_TOUCHED, PART, TWO, WHERES
};
#define WHERE_NAMES "heap", "local", "team", "registered", "own", "registered by some", "registered in part", "in two"
enum way { PLAIN, IN_BATCH, CAPTURED, WAYS };
#define WAY_NAMES "plain", "in a batch", "captured"

enum lists { NO_LIST, BLOCKS, HOST_BLOCKS, SPLITS };
enum { MESSAGE = -1 };
static const struct variant {
    const char *name;
    int kind;
    enum lists lists;
    bool dest_touched, source_touched, engines;
} variants[] = {
    {"allreduce", SHMEMX_ALLREDUCE, NO_LIST, true, true, false},
    {"reducescatter", SHMEMX_REDUCESCATTER, NO_LIST, false, true, false},
    {"fcollect", SHMEMX_FCOLLECT, NO_LIST, true, false, true},
    {"alltoall", SHMEMX_ALLTOALL, NO_LIST, true, false, true},
    {"alltoallv", SHMEMX_ALLTOALLV, BLOCKS, true, false, false},
    {"alltoallv of host blocks", SHMEMX_ALLTOALLV, HOST_BLOCKS, false, false, false},
    {"broadcast", SHMEMX_BROADCAST, NO_LIST, true, true, true},
    {"permute", SHMEMX_PERMUTE, NO_LIST, true, false, true},
    {"barrier", SHMEMX_BARRIER, NO_LIST, false, false, false},
    {"sync", SHMEMX_SYNC, NO_LIST, false, false, false},
    {"gather", SHMEMX_GATHER, NO_LIST, false, false, false},
    {"scatter", SHMEMX_SCATTER, NO_LIST, false, false, false},
    {"reduce", SHMEMX_REDUCE, NO_LIST, false, false, false},
    {"fcollect of splits", SHMEMX_FCOLLECT, SPLITS, false, false, false},
    {"reducescatter of splits", SHMEMX_REDUCESCATTER, SPLITS, false, false, false},
    {"message", MESSAGE, NO_LIST, false, false, false},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

struct facts {
    char *base[2][WHERES]; /* dest, source: room for all words and 4 more; TWO and PART: their border is in the middle */
    size_t room;           /* bytes */
    uint64_t *staging;     /* device heap */
    uint64_t *blocks;      /* alltoallv: bytes, source and dest offsets, received; n each */
    uint64_t *host;
    shmemx_stream_t streams[STREAMS];
    struct check_random common, mine;
    int me, n;
    unsigned round;
    char what[200];
};
struct call {
    const struct variant *v;
    uint64_t words; /* of a block */
    uint64_t *dest, *source;
    shmemx_coll_t q;
    shmemx_blocks_t blocks;
    size_t bytes[MOST_PES], parts[2];
    shmemx_host_blocks_t host_blocks;
    shmemx_splits_t splits;
};

/* ---- data ---- */

static bool is_root(const struct facts *f, const struct call *c) { return f->me == c->q.root; }
static uint64_t blocks_of(const struct facts *f, const struct call *c, bool dest)
{
    int kind = c->v->kind;
    bool many = kind == SHMEMX_ALLTOALL || kind == SHMEMX_ALLTOALLV;
    many |= dest ? kind == SHMEMX_FCOLLECT || kind == SHMEMX_GATHER
                 : kind == SHMEMX_REDUCESCATTER || kind == SHMEMX_SCATTER;
    return kind == SHMEMX_BARRIER || kind == SHMEMX_SYNC ? 0 : many ? (uint64_t)f->n : 1;
}
static bool has(const struct facts *f, const struct call *c, bool dest)
{
    int kind = c->v->kind;
    return blocks_of(f, c, dest) > 0 && (is_root(f, c) || (dest ? kind != SHMEMX_GATHER && kind != SHMEMX_REDUCE
                                                                : kind != SHMEMX_SCATTER));
}
/* Word i of member m's block, among the blocks of all. */
static uint64_t place_of(const struct facts *f, const struct call *c, int m, uint64_t i)
{
    uint64_t n = (uint64_t)f->n, first = c->parts[0], rest = c->parts[1];
    if (c->v->lists != SPLITS)
        return (uint64_t)m * c->words + i;
    return i < first ? (uint64_t)m * first + i : first * n + (uint64_t)m * rest + i - first;
}
static uint64_t word_of(const struct facts *f, int pe, uint64_t i)
{
    return device_mix((uint32_t)pe * 4096 + f->round, (uint32_t)i) | (uint64_t)1 << (pe % 32 + 20);
}
static uint64_t combined(const struct facts *f, const struct call *c, uint64_t i)
{
    uint64_t result = 0;
    for (int m = 0; m < f->n; m++) {
        uint64_t word = word_of(f, m, i);
        result = c->q.op == SHMEMX_SUM ? result + word : word > result ? word : result;
    }
    return result;
}
static uint64_t expected(const struct facts *f, const struct call *c, int m, uint64_t i)
{
    switch (c->v->kind) {
    case SHMEMX_ALLREDUCE:
    case SHMEMX_REDUCE:
        return combined(f, c, i);
    case SHMEMX_REDUCESCATTER:
        return combined(f, c, place_of(f, c, f->me, i));
    case SHMEMX_FCOLLECT:
    case SHMEMX_GATHER:
        return word_of(f, m, i);
    case SHMEMX_BROADCAST:
        return word_of(f, c->q.root, i);
    case SHMEMX_SCATTER:
        return word_of(f, c->q.root, (uint64_t)f->me * c->words + i);
    case SHMEMX_PERMUTE:
    case MESSAGE:
        return word_of(f, c->q.from, i);
    default:
        return word_of(f, m, (uint64_t)f->me * c->words + i);
    }
}

/* By way of the heap, since the host of a GPU does not write private memory. */
static void write_words(struct facts *f, uint64_t *to, uint64_t words)
{
    device_write(f->staging, f->host, words * 8);
    shmem_getmem(to, f->staging, words * 8, f->me);
}
static void read_words(struct facts *f, const uint64_t *from, uint64_t words)
{
    device_write(f->staging, from, words * 8);
    device_read(f->host, f->staging, words * 8);
}

/* ---- a call ---- */

/* dest of alltoallv with blocks of the device has to be reachable. */
static enum where where_of(struct facts *f, const struct call *c, int buffer)
{
    bool touched = buffer == 0 ? c->v->dest_touched : c->v->source_touched;
    enum where common = (enum where)check_random_below(&f->common, ANY_TOUCHED), own;
    if (touched && common >= ANY_NEAR)
        return common == OWN && c->v->lists == BLOCKS ? REGISTERED : common;
    do
        own = (enum where)check_random_below(&f->mine, touched ? ANY_NEAR : WHERES);
    while (f->base[buffer][own] == NULL);
    return own;
}
/* A range across the middle of the room, or anywhere in front of it. */
static uint64_t *somewhere(struct facts *f, enum where where, int buffer, uint64_t words)
{
    uint64_t room = f->room / 8, at = check_random_below(&f->mine, 4);
    if (where == PART || where == TWO)
        at = room / 2 - words / 2;
    return (uint64_t *)(void *)f->base[buffer][where] + at;
}

static void fill_lists(struct facts *f, struct call *c)
{
    uint64_t n = (uint64_t)f->n;
    for (uint64_t m = 0; m < n; m++) {
        c->bytes[m] = f->host[m] = c->words * 8;
        f->host[n + m] = m * c->words * 8;
        f->host[2 * n + m] = (uint64_t)f->me * c->words * 8;
    }
    c->parts[0] = c->words / 2;
    c->parts[1] = c->words - c->words / 2;
    c->host_blocks.send_bytes = c->host_blocks.receive_bytes = c->bytes;
    c->splits.n = 2;
    c->splits.nelems = c->parts;
    c->blocks.bytes = f->blocks;
    c->blocks.source_offset = f->blocks + n;
    c->blocks.dest_offset = f->blocks + 2 * n;
    c->blocks.received = f->blocks + 3 * n;
    if (c->v->lists == BLOCKS)
        device_write(f->blocks, f->host, 3 * n * 8);
}

static void make_call(struct facts *f, struct call *c)
{
    int by = (int)(f->round % (unsigned)f->n);
    enum where dest = where_of(f, c, 0), source = where_of(f, c, 1);
    fill_lists(f, c);
    c->dest = somewhere(f, dest, 0, blocks_of(f, c, true) * c->words);
    c->source = somewhere(f, source, 1, blocks_of(f, c, false) * c->words);
    c->q = shmemx_coll_of(c->v->kind, SHMEM_TEAM_WORLD, c->dest, c->source, c->words, SHMEMX_UINT64);
    c->q.op = f->round % 2 != 0 ? SHMEMX_MAX : SHMEMX_SUM; /* kernels for any operator, and for sums alone */
    c->q.root = by;
    c->q.to = (f->me + by) % f->n;
    c->q.from = (f->me + f->n - by) % f->n;
    c->q.blocks = c->v->lists == BLOCKS ? &c->blocks : NULL;
    c->q.host_blocks = c->v->lists == HOST_BLOCKS ? &c->host_blocks : NULL;
    c->q.splits = c->v->lists == SPLITS ? &c->splits : NULL;
    static const char *const names[] = {WHERE_NAMES};
    snprintf(f->what, sizeof f->what, "%s of %llu words, dest %s, source %s", c->v->name, (unsigned long long)c->words,
             names[dest], names[source]);
}

/* A call that is refused on one PE would leave the others waiting. */
static void enqueue(struct facts *f, struct call *c, shmemx_stream_t stream)
{
    int rc = 0;
    if (c->v->kind == MESSAGE) {
        CHECK_EQ(shmemx_coll_group_begin(), 0);
        (void)shmemx_recv_on_stream(SHMEM_TEAM_WORLD, c->dest, c->words * 8, c->q.from, 0, stream);
        (void)shmemx_send_on_stream(SHMEM_TEAM_WORLD, c->source, c->words * 8, c->q.to, 0, stream);
        rc = shmemx_coll_group_end();
    } else {
        rc = shmemx_coll_on_stream(&c->q, stream);
    }
    if (!CHECK_EQ_NAMED(rc, 0, f->what))
        shmem_global_exit(CHECK_FAILED);
}

static void run(struct facts *f, struct call *c)
{
    static const char *const names[] = {WAY_NAMES};
    shmemx_stream_t stream = f->streams[check_random_below(&f->mine, STREAMS)];
    enum way way = (enum way)check_random_below(&f->mine, WAYS);
    shmemx_graph_t graph;
    if (way == CAPTURED && (c->v->engines || device_flag("SHMEM_TEST_NO_GRAPHS")))
        way = PLAIN;
    snprintf(f->what + strlen(f->what), sizeof f->what - strlen(f->what), ", %s", names[way]);
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] %u: %s\n", f->me, f->round, f->what);
    if (way == IN_BATCH)
        CHECK_EQ(shmemx_coll_group_begin(), 0);
    if (way == CAPTURED)
        CHECK_OR_EXIT(shmemx_graph_begin(stream) == 0);
    enqueue(f, c, stream);
    if (way == IN_BATCH && !CHECK_EQ_NAMED(shmemx_coll_group_end(), 0, f->what))
        shmem_global_exit(CHECK_FAILED);
    if (way == CAPTURED) {
        CHECK_OR_EXIT(shmemx_graph_end(stream, &graph) == 0);
        CHECK_OR_EXIT(shmemx_graph_launch(graph, stream) == 0);
    }
    CHECK_EQ_NAMED(shmemx_stream_synchronize(stream), 0, f->what);
    if (way == CAPTURED)
        CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

static void one_call(struct facts *f, const struct variant *v, uint64_t words)
{
    struct call c;
    uint64_t bad = 0;
    f->round++;
    memset(&c, 0, sizeof c);
    c.v = v;
    c.words = words;
    make_call(f, &c);
    for (uint64_t i = 0; i < blocks_of(f, &c, false) * words; i++)
        f->host[i] = word_of(f, f->me, i);
    if (has(f, &c, false))
        write_words(f, c.source, blocks_of(f, &c, false) * words);
    shmem_barrier_all();
    run(f, &c);
    if (has(f, &c, true)) {
        read_words(f, c.dest, blocks_of(f, &c, true) * words);
        for (int m = 0; m < (int)blocks_of(f, &c, true); m++)
            for (uint64_t i = 0; i < words; i++)
                bad += f->host[blocks_of(f, &c, true) > 1 ? place_of(f, &c, m, i) : i] != expected(f, &c, m, i);
    }
    CHECK_EQ_NAMED(bad, 0, f->what);
    shmem_barrier_all();
}

/* ---- memory ---- */

static void make_buffer(struct facts *f, int buffer, shmem_team_t some)
{
    char **base = f->base[buffer];
    size_t half = f->room / 2, me = (size_t)f->me;
    void *before = shmemx_local_malloc(64 * (1 + 3 * me), SHMEMX_DEVICE); /* so places differ */
    base[HEAP] = (char *)shmemx_malloc(f->room, SHMEMX_DEVICE);
    base[LOCAL] = (char *)shmemx_local_malloc(f->room, SHMEMX_DEVICE);
    base[TEAM] = (char *)shmemx_team_malloc(SHMEM_TEAM_WORLD, f->room, SHMEMX_DEVICE);
    CHECK_OR_EXIT(before != NULL && base[HEAP] != NULL && base[LOCAL] != NULL && base[TEAM] != NULL);
    shmemx_local_free(before);
    for (int i = ANY_NEAR; i < WHERES; i++)
        CHECK_OR_EXIT((base[i] = (char *)own_malloc(f->room)) != NULL);
    CHECK_OR_EXIT(shmemx_buffer_register(base[REGISTERED], f->room, NULL) == 0);
    CHECK_OR_EXIT(shmemx_team_buffer_register(some, base[SOME], f->room, NULL) == 0);
    CHECK_OR_EXIT(shmemx_buffer_register(base[PART], half, NULL) == 0);
    CHECK_OR_EXIT(shmemx_buffer_register(base[TWO], half, NULL) == 0);
    CHECK_OR_EXIT(shmemx_buffer_register(base[TWO] + half, half, NULL) == 0);
}
static void drop_buffer(struct facts *f, int buffer, shmem_team_t some)
{
    char **base = f->base[buffer];
    CHECK_EQ(shmemx_buffer_unregister(base[TWO] + f->room / 2), 0);
    CHECK_EQ(shmemx_buffer_unregister(base[TWO]), 0);
    CHECK_EQ(shmemx_buffer_unregister(base[PART]), 0);
    CHECK_EQ(shmemx_team_buffer_unregister(some, base[SOME]), 0);
    CHECK_EQ(shmemx_buffer_unregister(base[REGISTERED]), 0);
    for (int i = ANY_NEAR; i < WHERES; i++)
        own_free(base[i]);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, base[TEAM]), 0);
    shmemx_local_free(base[LOCAL]);
    shmemx_free(base[HEAP]);
}

static int test_main(void)
{
    static const uint64_t sizes[] = {1, 700, 1025, MOST_WORDS};
    DEVICE_INIT();
    struct facts f;
    memset(&f, 0, sizeof f);
    f.me = shmem_my_pe();
    f.n = shmem_n_pes();
    f.common = check_random_stream(5);
    f.mine = check_random_stream(1000 + (uint64_t)f.me);
    f.room = (((size_t)MOST_WORDS * (size_t)f.n + 8) * 8 + 8191) / 8192 * 8192; /* two halves of pages */
    shmem_team_t some = device_team_of_parity();
    for (int i = 0; i < 2; i++)
        make_buffer(&f, i, some);
    f.staging = (uint64_t *)shmemx_malloc(f.room, SHMEMX_DEVICE);
    f.blocks = (uint64_t *)shmemx_malloc(4 * 8 * (size_t)f.n, SHMEMX_DEVICE);
    f.host = (uint64_t *)malloc(f.room);
    CHECK_OR_EXIT(f.staging != NULL && f.blocks != NULL && f.host != NULL);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OR_EXIT(shmemx_stream_create(&f.streams[i]) == 0);
    CHECK_OR_EXIT(shmemx_slot_prepare(SHMEM_TEAM_WORLD, 0, 0) == 0); /* before a capture */
    for (int v = 0; v < VARIANTS; v++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int i = 0; i < TURNS; i++)
                one_call(&f, &variants[v], sizes[s]);
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_destroy(f.streams[i]), 0);
    shmem_barrier_all();
    free(f.host);
    shmemx_free(f.blocks);
    shmemx_free(f.staging);
    for (int i = 1; i >= 0; i--)
        drop_buffer(&f, i, some);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
