/* SPDX-License-Identifier: MIT */
/* Batches of collectives: random lists of small and large all-gathers and all-to-alls, with other calls, sends and
 * receives between them, of several teams, slots and streams, in every kind of memory and in place, at once and in
 * graphs. The reference is the list, which all PEs make alike; the streams are each PE's own choice. And wrong use:
 * groups without a begin, wrong calls in a group, of which then none is enqueued. SHMEM_TEST_CALLS: rounds. */
#include "coll_case.h"

enum { MOST_CALLS = 120, STREAMS = 3, SLOTS = 2, ROUNDS = 40, REPLAYS = 8 };

struct call {
    int kind, team, slot; /* kind -1: a message round the ring of the team */
    size_t bytes;
    bool in_place;
    size_t source_at, dest_at;
};

struct batches {
    struct coll_team teams[TEAMS];
    struct buffer dest, source;
    shmemx_stream_t streams[STREAMS];
    struct call calls[MOST_CALLS];
    int n;
    uint64_t random; /* alike on all PEs */
    unsigned round;
};

static uint64_t next(struct batches *b, uint64_t below) { return coll_random(&b->random, below); }

/* ---- the list; places are for the world, so that they are the same in all parts of a team ---- */

static size_t any_bytes(struct batches *b)
{
    static const size_t bounds[] = {0, 1, 8, 15, 16, 17, 1000, 1024, 2047, 8191, 8192, 8193, 20000};
    return next(b, 3) == 0 ? bounds[next(b, sizeof bounds / sizeof bounds[0])] : (size_t)next(b, 1100);
}

static void make_list(struct batches *b, bool small)
{
    static const int kinds[] = {SHMEMX_FCOLLECT, SHMEMX_FCOLLECT, SHMEMX_FCOLLECT, SHMEMX_ALLTOALL,
                                SHMEMX_BROADCAST, SHMEMX_ALLREDUCE, SHMEMX_BARRIER, -1};
    size_t sent = 0, received = 0, n = (size_t)shmem_n_pes();
    int wanted = 1 + (int)next(b, MOST_CALLS), mixed = (int)next(b, 2);
    b->round++;
    b->n = 0;
    for (int i = 0; i < wanted; i++) {
        struct call *c = &b->calls[b->n];
        c->kind = small ? SHMEMX_FCOLLECT : kinds[next(b, mixed != 0 ? 8 : 4)];
        c->team = mixed != 0 ? (int)next(b, TEAMS) : TEAM_WORLD;
        c->slot = (int)next(b, SLOTS);
        c->bytes = small ? 1024 : any_bytes(b);
        c->in_place = c->kind == SHMEMX_FCOLLECT && next(b, 4) == 0;
        c->source_at = sent + next(b, 2) * next(b, 16);
        c->dest_at = received + next(b, 2) * next(b, 16);
        size_t sends = c->source_at + (c->kind == SHMEMX_ALLTOALL ? n : 1) * c->bytes + 16;
        size_t receives = c->dest_at + n * c->bytes + 16;
        if (sends > coll_needs() || receives > coll_needs())
            continue;
        sent = (sends + 15) / 16 * 16;
        received = (receives + 15) / 16 * 16;
        b->n++;
    }
}

static unsigned number_of(const struct batches *b, int i, unsigned turn)
{
    return (b->round * MOST_CALLS + (unsigned)i) * 16 + turn;
}
static int root_of(const struct batches *b, const struct call *c, int i)
{
    return (int)(b->round + (unsigned)i) % b->teams[c->team].n;
}

/* ---- buffers ---- */

/* What this PE sends, into its source, or its block of dest. */
static void fill_source(struct batches *b, int i, unsigned turn)
{
    const struct call *c = &b->calls[i];
    const struct coll_team *t = &b->teams[c->team];
    int me = shmem_my_pe();
    unsigned char *to = buffer_image(&b->source) + c->source_at;
    if (c->kind == SHMEMX_BARRIER)
        return;
    if (c->in_place)
        to = buffer_image(&b->dest) + c->dest_at + (size_t)t->me * c->bytes;
    for (int m = 0; m < (c->kind == SHMEMX_ALLTOALL ? t->n : 1); m++)
        check_fill(to + (size_t)m * c->bytes, c->bytes, me, c->kind == SHMEMX_ALLTOALL ? t->world[m] : me,
                   number_of(b, i, turn));
}

static void fill_dest(struct batches *b, int i, unsigned turn)
{
    const struct call *c = &b->calls[i];
    const struct coll_team *t = &b->teams[c->team];
    unsigned char *to = buffer_image(&b->dest) + c->dest_at;
    unsigned number = number_of(b, i, turn);
    int me = shmem_my_pe(), root = t->world[root_of(b, c, i)], before = t->world[(t->me + t->n - 1) % t->n];
    if (c->kind == SHMEMX_FCOLLECT || c->kind == SHMEMX_ALLTOALL)
        for (int m = 0; m < t->n; m++)
            check_fill(to + (size_t)m * c->bytes, c->bytes, t->world[m],
                       c->kind == SHMEMX_ALLTOALL ? me : t->world[m], number);
    else if (c->kind == SHMEMX_BROADCAST)
        check_fill(to, c->bytes, root, root, number);
    else if (c->kind == -1)
        check_fill(to, c->bytes, before, before, number);
    else if (c->kind == SHMEMX_ALLREDUCE)
        for (size_t k = 0; k < c->bytes; k++) {
            to[k] = 0;
            for (int m = 0; m < t->n; m++)
                to[k] = (unsigned char)(to[k] + check_byte(t->world[m], t->world[m], number, k));
        }
}

static void prepare(struct batches *b, unsigned turn)
{
    size_t sends = 0, receives = 0;
    for (int i = 0; i < b->n; i++) {
        sends = b->calls[i].source_at + (size_t)shmem_n_pes() * b->calls[i].bytes;
        receives = b->calls[i].dest_at + (size_t)shmem_n_pes() * b->calls[i].bytes;
    }
    buffer_begin(&b->source, (int)(b->round % MEMORIES), sends);
    buffer_begin(&b->dest, (int)(b->round / 2 % MEMORIES), receives);
    for (int i = 0; i < b->n; i++)
        fill_source(b, i, turn);
    buffer_upload(&b->source);
    buffer_upload(&b->dest);
    shmem_barrier_all(); /* an upload is no work of a stream */
}
static void check(struct batches *b, unsigned turn, const char *how)
{
    char what[100];
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_synchronize(b->streams[i]), 0);
    for (int i = 0; i < b->n; i++)
        fill_dest(b, i, turn);
    snprintf(what, sizeof what, "%s, round %u: dest", how, b->round);
    (void)buffer_check(&b->dest, what);
    snprintf(what, sizeof what, "%s, round %u: source", how, b->round);
    (void)buffer_check(&b->source, what);
}

/* ---- calls ---- */

static shmemx_coll_t coll_of(struct batches *b, int i)
{
    const struct call *c = &b->calls[i];
    const struct coll_team *t = &b->teams[c->team];
    char *dest = buffer_data(&b->dest) + c->dest_at, *source = buffer_data(&b->source) + c->source_at;
    if (c->in_place)
        source = dest + (size_t)t->me * c->bytes;
    shmemx_coll_t q = shmemx_coll_of(c->kind, t->team, dest, source, c->bytes, SHMEMX_UINT8);
    q.op = SHMEMX_SUM;
    q.root = root_of(b, c, i);
    q.slot = c->slot;
    return q;
}

static void enqueue(struct batches *b, int i, shmemx_stream_t stream)
{
    const struct call *c = &b->calls[i];
    const struct coll_team *t = &b->teams[c->team];
    shmemx_coll_t q = coll_of(b, i);
    if (c->kind != -1) {
        CHECK_EQ(shmemx_coll_on_stream(&q, stream), 0);
        return;
    }
    CHECK_EQ(shmemx_recv_on_stream(t->team, buffer_data(&b->dest) + c->dest_at, c->bytes,
                                   (t->me + t->n - 1) % t->n, 1, stream),
             0);
    CHECK_EQ(shmemx_send_on_stream(t->team, buffer_data(&b->source) + c->source_at, c->bytes, (t->me + 1) % t->n, 1,
                                   stream),
             0);
}

/* Another one on each PE. */
static int own_stream(const struct batches *b, int i)
{
    return (int)(device_mix((uint32_t)shmem_my_pe() + b->round * 64u, (uint32_t)i) % STREAMS);
}

/* At most `each` calls a batch; some of them in a group within. */
static void batch(struct batches *b, int each, bool one_stream)
{
    for (int i = 0; i < b->n; i += each) {
        CHECK_EQ(shmemx_coll_group_begin(), 0);
        for (int k = i; k < b->n && k < i + each; k++) {
            const struct call *c = &b->calls[k];
            if (k % 5 == 0)
                CHECK_EQ(shmemx_coll_group_begin(), 0);
            enqueue(b, k, b->streams[one_stream || c->kind == -1 ? 0 : own_stream(b, k)]);
            if (k % 5 == 0)
                CHECK_EQ(shmemx_coll_group_end(), 0);
        }
        CHECK_EQ_NAMED(shmemx_coll_group_end(), 0, "the end of a group of right calls");
    }
}

static void random_batches(struct batches *b)
{
    int each = 1 + (int)next(b, 40);
    make_list(b, next(b, 4) == 0);
    prepare(b, 0);
    batch(b, each, next(b, 2) == 0);
    check(b, 0, "batches");
}

static void in_a_graph(struct batches *b)
{
    shmemx_graph_t graph;
    make_list(b, false);
    prepare(b, 0);
    CHECK_OR_EXIT(shmemx_graph_begin(b->streams[0]) == 0);
    for (int i = 1; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_wait_stream(b->streams[i], b->streams[0]), 0);
    batch(b, 40, false);
    for (int i = 1; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_wait_stream(b->streams[0], b->streams[i]), 0);
    CHECK_OR_EXIT(shmemx_graph_end(b->streams[0], &graph) == 0);
    for (unsigned turn = 0; turn < REPLAYS; turn++) {
        if (turn > 0)
            prepare(b, turn);
        if (turn % 3 == 2)
            batch(b, 40, true);
        else
            CHECK_OR_EXIT(shmemx_graph_launch(graph, b->streams[0]) == 0);
        check(b, turn, "a graph of batches");
    }
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

/* Slots and kernels are made before a capture needs them. */
static void make_slots(struct batches *b)
{
    for (int team = 0; team < TEAMS; team++)
        for (int slot = 0; slot < SLOTS; slot++)
            CHECK_OR_EXIT(shmemx_slot_prepare(b->teams[team].team, slot, 0) == 0);
}

static void wrong_use(struct batches *b)
{
    CHECK_NAMED(shmemx_coll_group_end() != 0, "an end without a begin");
    make_list(b, true);
    prepare(b, 0);
    CHECK_EQ(shmemx_coll_group_begin(), 0);
    CHECK_EQ(shmemx_coll_group_end(), 0); /* of nothing */
    for (int wrong = 0; wrong < 3; wrong++) {
        shmemx_coll_t q = coll_of(b, 0);
        CHECK_EQ(shmemx_coll_group_begin(), 0);
        CHECK_EQ(shmemx_coll_on_stream(&q, b->streams[0]), 0);
        q.slot = wrong == 0 ? -1 : 0;
        q.dest = wrong == 1 ? NULL : q.dest;
        if (wrong == 2)
            CHECK_EQ(shmemx_send_on_stream(SHMEM_TEAM_WORLD, q.dest, 8, shmem_n_pes(), 0, b->streams[0]), 0);
        else
            CHECK_EQ(shmemx_coll_on_stream(&q, b->streams[0]), 0);
        CHECK_NAMED(shmemx_coll_group_end() != 0, "the end of a group with a wrong call");
    }
    CHECK_NAMED(shmemx_coll_group_end() != 0, "an end behind the last one");
    CHECK_EQ(shmemx_stream_synchronize(b->streams[0]), 0);
    (void)buffer_check(&b->dest, "dest of a group with a wrong call");
    shmem_barrier_all();
    batch(b, 40, true);
    check(b, 0, "a right batch behind wrong ones");
}

static int test_main(void)
{
    COLL_INIT();
    struct batches b;
    memset(&b, 0, sizeof b);
    b.random = check_self.seed * 2 + 1;
    coll_teams_make(b.teams);
    buffer_make(&b.dest, coll_needs() + 256);
    buffer_make(&b.source, coll_needs() + 256);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OR_EXIT(shmemx_stream_create(&b.streams[i]) == 0);
    make_slots(&b);
    wrong_use(&b);
    int rounds = (int)device_number("SHMEM_TEST_CALLS", ROUNDS);
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < 4; k++)
            random_batches(&b);
        if (i % 2 == 0 && !device_flag("SHMEM_TEST_NO_GRAPHS"))
            in_a_graph(&b);
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_destroy(b.streams[i]), 0);
    shmem_barrier_all();
    buffer_drop(&b.source);
    buffer_drop(&b.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
