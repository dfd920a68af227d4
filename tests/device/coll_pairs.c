/* SPDX-License-Identifier: MIT */
/* Sends and receives on streams: random traffic of all PEs, with tags, teams, lengths around every bound and buffers in
 * every kind of memory, as single calls, in batches of any order, on two streams, and in graphs that are replayed. The
 * reference is the list of messages, which all PEs make alike: what each byte of each buffer must be follows from it.
 * SHMEM_TEST_CALLS: rounds of each form. */
#include "coll_case.h"

enum { MOST_MESSAGES = 48, STREAMS = 2, TAGS = 3, ROUNDS = 40, REPLAYS = 12, CHAIN = 40 };

/* In world PEs. The number of a message is its place in the list. */
struct message {
    int team, from, to, tag, stream;
    size_t bytes;
    size_t source_at, dest_at; /* in the buffers of its two PEs */
};

struct traffic {
    struct coll_team teams[TEAMS];
    struct buffer dest, source;
    shmemx_stream_t streams[STREAMS];
    struct message messages[MOST_MESSAGES];
    int n;
    uint64_t random; /* alike on all PEs */
    unsigned round;
};

static uint64_t next(struct traffic *t, uint64_t below) { return coll_random(&t->random, below); }

/* ---- the list ---- */

/* The part of the team that a PE is in. */
static int part_of(int team, int pe)
{
    int n = shmem_n_pes();
    return team == TEAM_WORLD ? 0 : team == TEAM_PARITY ? pe % 2 : pe == n - 1;
}
static int member(const struct coll_team *team, int world)
{
    int i = 0;
    while (team->world[i] != world)
        i++;
    return i;
}

static size_t any_bytes(struct traffic *t)
{
    static const size_t bounds[] = {0, 1, 16, 100, 8192, 16384, 32768, 65536, 131072, 262144};
    size_t bytes = bounds[next(t, sizeof bounds / sizeof bounds[0])];
    uint64_t beside = next(t, 4);
    return beside == 0               ? bytes + 1
           : beside == 1 && bytes > 0 ? bytes - 1
           : beside == 2              ? bytes + 17 * next(t, 9)
                                      : bytes;
}

/* Room in both buffers, at any alignment, with a gap behind. */
static bool place(struct traffic *t, struct message *m, size_t *sent, size_t *received)
{
    m->source_at = sent[m->from] + next(t, 2) * next(t, 16);
    m->dest_at = received[m->to] + next(t, 2) * next(t, 16);
    size_t sends = m->source_at + (m->bytes + 31) / 16 * 16, receives = m->dest_at + (m->bytes + 31) / 16 * 16;
    if (sends > coll_needs() || receives > coll_needs())
        return false;
    sent[m->from] = sends;
    received[m->to] = receives;
    return true;
}

static void make_list(struct traffic *t, bool with_self)
{
    size_t sent[MOST_PES] = {0}, received[MOST_PES] = {0};
    int n = shmem_n_pes(), wanted = 1 + (int)next(t, MOST_MESSAGES);
    t->n = 0;
    t->round++;
    for (int i = 0; i < wanted; i++) {
        struct message *m = &t->messages[t->n];
        m->team = (int)next(t, TEAMS);
        m->from = (int)next(t, (uint64_t)n);
        m->to = (int)next(t, (uint64_t)n);
        m->tag = (int)next(t, TAGS) * 1000003;
        m->stream = (m->from + m->tag + m->team) % STREAMS;
        m->bytes = any_bytes(t);
        if (part_of(m->team, m->from) == part_of(m->team, m->to) && (with_self || m->from != m->to))
            t->n += place(t, m, sent, received);
    }
}

/* ---- buffers ---- */

static unsigned number_of(const struct traffic *t, int i, unsigned turn)
{
    return (t->round * MOST_MESSAGES + (unsigned)i) * 64 + turn;
}

static size_t used(const struct traffic *t, bool sends)
{
    size_t most = 0;
    for (int i = 0; i < t->n; i++) {
        const struct message *m = &t->messages[i];
        size_t end = (sends ? m->source_at : m->dest_at) + m->bytes;
        if ((sends ? m->from : m->to) == shmem_my_pe() && end > most)
            most = end;
    }
    return most;
}

/* Images before the calls. */
static void prepare(struct traffic *t, unsigned turn)
{
    int me = shmem_my_pe();
    buffer_begin(&t->source, (int)((t->round + (unsigned)me) % MEMORIES), used(t, true));
    buffer_begin(&t->dest, (int)((t->round / 3 + 2 * (unsigned)me) % MEMORIES), used(t, false));
    for (int i = 0; i < t->n; i++) {
        const struct message *m = &t->messages[i];
        if (m->from == me)
            check_fill(buffer_image(&t->source) + m->source_at, m->bytes, m->from, m->to, number_of(t, i, turn));
    }
    buffer_upload(&t->source);
    buffer_upload(&t->dest);
}

static void check(struct traffic *t, unsigned turn, const char *how)
{
    char what[120];
    for (int i = 0; i < t->n; i++) {
        const struct message *m = &t->messages[i];
        if (m->to == shmem_my_pe())
            check_fill(buffer_image(&t->dest) + m->dest_at, m->bytes, m->from, m->to, number_of(t, i, turn));
    }
    snprintf(what, sizeof what, "%s, round %u: ", how, t->round);
    size_t end = strlen(what);
    snprintf(what + end, sizeof what - end, "dest");
    (void)buffer_check(&t->dest, what);
    snprintf(what + end, sizeof what - end, "source");
    (void)buffer_check(&t->source, what);
}

static void synchronise(struct traffic *t)
{
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_synchronize(t->streams[i]), 0);
}

/* ---- calls ---- */

static void send(struct traffic *t, const struct message *m, shmemx_stream_t stream)
{
    const struct coll_team *team = &t->teams[m->team];
    if (m->from == shmem_my_pe())
        CHECK_OR_EXIT(shmemx_send_on_stream(team->team, buffer_data(&t->source) + m->source_at, m->bytes,
                                            member(team, m->to), m->tag, stream) == 0);
}
static void receive(struct traffic *t, const struct message *m, shmemx_stream_t stream)
{
    const struct coll_team *team = &t->teams[m->team];
    if (m->to == shmem_my_pe())
        CHECK_OR_EXIT(shmemx_recv_on_stream(team->team, buffer_data(&t->dest) + m->dest_at, m->bytes,
                                            member(team, m->from), m->tag, stream) == 0);
}

/* All messages in one order on one stream: the first that is not done can always go on. */
static void one_by_one(struct traffic *t)
{
    make_list(t, false);
    prepare(t, 0);
    for (int i = 0; i < t->n; i++) {
        send(t, &t->messages[i], t->streams[0]);
        receive(t, &t->messages[i], t->streams[0]);
    }
    synchronise(t);
    check(t, 0, "one by one");
}

/* Sends on one stream and receives on another, always the same ones for these tags: else a stream would wait for all
 * that is in the other one. */
static void two_streams(struct traffic *t)
{
    make_list(t, true);
    for (int i = 0; i < t->n; i++)
        t->messages[i].tag += 1;
    prepare(t, 0);
    for (int i = 0; i < t->n; i++)
        receive(t, &t->messages[i], t->streams[0]);
    for (int i = 0; i < t->n; i++)
        send(t, &t->messages[i], t->streams[1]);
    shmemx_stream_t sends = t->streams[1];
    CHECK_EQ(shmemx_stream_synchronize(sends), 0);
    synchronise(t);
    check(t, 0, "two streams");
}

/* In an order that differs between PEs; only messages of one pair and tag keep theirs. */
static void batch(struct traffic *t)
{
    int last = (int)((unsigned)shmem_my_pe() + t->round) % 3;
    CHECK_EQ(shmemx_coll_group_begin(), 0);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < t->n; i++) {
            const struct message *m = &t->messages[i];
            if (last == 0 ? pass == 0 : last == 1 ? pass == 1 : (m->from + m->tag) % 2 == pass)
                send(t, m, t->streams[m->stream]);
            if (last == 0 ? pass == 1 : last == 1 ? pass == 0 : (m->to + m->tag) % 2 == pass)
                receive(t, m, t->streams[m->stream]);
        }
    CHECK_EQ(shmemx_coll_group_end(), 0);
}

static void in_a_batch(struct traffic *t)
{
    make_list(t, true);
    prepare(t, 0);
    batch(t);
    synchronise(t);
    check(t, 0, "a batch");
}

static void in_a_graph(struct traffic *t)
{
    shmemx_graph_t graph;
    make_list(t, true);
    for (int i = 0; i < t->n; i++)
        t->messages[i].stream = 0;
    prepare(t, 0);
    CHECK_OR_EXIT(shmemx_graph_begin(t->streams[0]) == 0);
    batch(t);
    CHECK_OR_EXIT(shmemx_graph_end(t->streams[0], &graph) == 0);
    for (unsigned turn = 0; turn < REPLAYS; turn++) {
        if (turn > 0)
            prepare(t, turn);
        if (turn % 4 == 3) /* the sequence goes on through both */
            batch(t);
        else
            CHECK_OR_EXIT(shmemx_graph_launch(graph, t->streams[0]) == 0);
        synchronise(t);
        check(t, turn, "a graph");
    }
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
}

/* Many messages of one pair and tag in one batch: more than a receiver has headers and stages for; on one lane and on
 * several, by turns. Each `every`-th one is long. */
static void chain(struct traffic *t, int every, size_t long_bytes, size_t short_bytes)
{
    int n = shmem_n_pes(), me = shmem_my_pe();
    size_t end = 0;
    t->round++;
    t->n = 0;
    for (int i = 0; i < CHAIN; i++) {
        size_t one = i % every == every - 1 ? long_bytes : short_bytes + (size_t)i;
        if (end + one + 64 > coll_needs())
            break;
        t->messages[t->n++] = (struct message){TEAM_WORLD, me, (me + 1) % n, 5, 0, one, end, end};
        end += one + 16 + (size_t)i;
    }
    prepare(t, 0);
    for (int half = 0; half < 2; half++) { /* here a member sends to the next and receives from the one before */
        if (half == 0)
            CHECK_EQ(shmemx_coll_group_begin(), 0);
        for (int i = 0; i < t->n; i++) {
            struct message m = t->messages[i];
            m.from = half == 0 ? me : (me + n - 1) % n;
            m.to = half == 0 ? (me + 1) % n : me;
            if (half == 0)
                send(t, &m, t->streams[0]);
            else
                receive(t, &m, t->streams[0]);
            t->messages[i] = m;
        }
    }
    CHECK_EQ(shmemx_coll_group_end(), 0);
    synchronise(t);
    for (int i = 0; i < t->n; i++)
        check_fill(buffer_image(&t->dest) + t->messages[i].dest_at, t->messages[i].bytes, (me + n - 1) % n, me,
                   number_of(t, i, 0));
    (void)buffer_check(&t->dest, "a chain of messages of one tag: dest");
}

/* Messages of one tag, each in a batch of its own behind 0 to 3 messages of other tags: so each goes out from another
 * block, over another ring, than the one before it. */
static void moving_blocks(struct traffic *t)
{
    int n = shmem_n_pes(), me = shmem_my_pe(), before = (me + n - 1) % n;
    for (unsigned turn = 0; turn < 8; turn++) {
        size_t end = 0;
        t->round++;
        t->n = 0;
        for (int i = 0; t->n + 4 <= MOST_MESSAGES; i = (i + 3) % 4)
            for (int k = i; k >= 0; k--, end += 32)
                t->messages[t->n++] = (struct message){TEAM_WORLD, me, (me + 1) % n, 90 + k, 0, 17, end, end};
        prepare(t, turn);
        for (int i = 0; i < t->n; i++) {
            struct message to_me = t->messages[i];
            to_me.from = before;
            to_me.to = me;
            if (i == 0 || t->messages[i - 1].tag == 90)
                CHECK_EQ(shmemx_coll_group_begin(), 0);
            send(t, &t->messages[i], t->streams[0]);
            receive(t, &to_me, t->streams[0]);
            if (to_me.tag == 90)
                CHECK_EQ(shmemx_coll_group_end(), 0);
        }
        synchronise(t);
        for (int i = 0; i < t->n; i++)
            check_fill(buffer_image(&t->dest) + t->messages[i].dest_at, 17, before, me, number_of(t, i, turn));
        (void)buffer_check(&t->dest, "messages of one tag from block to block: dest");
    }
}

/* Tags in the other order at the other end, which is more than is kept for later receives. */
static void other_order(struct traffic *t)
{
    int me = shmem_my_pe();
    t->round++;
    t->n = 0;
    for (int i = 0; i < 3 && shmem_n_pes() > 1; i++)
        t->messages[t->n++] =
            (struct message){TEAM_WORLD, 0, 1, 10 + i, 0, 200000, (size_t)i * 200016, (size_t)i * 200016};
    prepare(t, 0);
    CHECK_EQ(shmemx_coll_group_begin(), 0);
    for (int i = 0; i < t->n; i++) {
        send(t, &t->messages[i], t->streams[0]);
        receive(t, &t->messages[2 - i], t->streams[me % 2]);
    }
    CHECK_EQ(shmemx_coll_group_end(), 0);
    synchronise(t);
    check(t, 0, "tags in another order");
}

/* A short message is sent before it is received: its receiver has received that tag before. */
static void early(struct traffic *t)
{
    int me = shmem_my_pe();
    t->round++;
    t->n = 0;
    for (int i = 0; i < 4 && shmem_n_pes() > 1; i++)
        t->messages[t->n++] = (struct message){TEAM_WORLD, 0, 1, 77, 0, 16384, (size_t)i * 16400, (size_t)i * 16400};
    for (int round = 0; round < 3; round++) {
        prepare(t, (unsigned)round);
        for (int i = 0; i < t->n; i++)
            send(t, &t->messages[i], t->streams[0]);
        if (me == 0 && round > 0)
            CHECK_EQ(shmemx_stream_synchronize(t->streams[0]), 0); /* no receive has been called yet */
        if (round > 0)
            shmem_barrier_all();
        for (int i = 0; i < t->n; i++)
            receive(t, &t->messages[i], t->streams[0]);
        synchronise(t);
        check(t, (unsigned)round, "a message before its receive");
        shmem_barrier_all();
    }
}

/* ---- what is wrong ---- */

static void refuses(struct traffic *t)
{
    char *data = buffer_data(&t->dest);
    shmemx_stream_t s = t->streams[0];
    int n = shmem_n_pes();
    CHECK(shmemx_send_on_stream(SHMEM_TEAM_INVALID, data, 8, 0, 0, s) != 0);
    CHECK(shmemx_send_on_stream(SHMEM_TEAM_WORLD, data, 8, n, 0, s) != 0);
    CHECK(shmemx_recv_on_stream(SHMEM_TEAM_WORLD, data, 8, -1, 0, s) != 0);
    CHECK(shmemx_recv_on_stream(SHMEM_TEAM_WORLD, data, 8, 0, -1, s) != 0);
    CHECK(shmemx_send_on_stream(SHMEM_TEAM_WORLD, NULL, 8, 0, 0, s) != 0);
    CHECK(shmemx_recv_on_stream(SHMEM_TEAM_WORLD, data, (size_t)1 << 36, 0, 0, s) != 0);
}

/* Every team gets tags of its own, and gives them back. */
static void teams_come_and_go(struct traffic *t)
{
    int n = shmem_n_pes(), me = shmem_my_pe();
    for (int i = 0; i < 20; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_OR_EXIT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team) == 0);
        t->round++;
        t->n = 0;
        t->messages[t->n++] = (struct message){TEAM_WORLD, (me + n - 1) % n, me, 1, 0, 20000, 0, 0};
        buffer_begin(&t->source, MEMORY_HEAP, 20000);
        buffer_begin(&t->dest, MEMORY_OWN, 20000);
        check_fill(buffer_image(&t->source), 20000, me, (me + 1) % n, t->round);
        buffer_upload(&t->source);
        buffer_upload(&t->dest);
        CHECK_EQ(shmemx_coll_group_begin(), 0);
        for (int tag = 0; tag < 3; tag++) {
            CHECK_EQ(shmemx_send_on_stream(team, buffer_data(&t->source) + tag * 5000, 5000, (me + 1) % n, tag,
                                           t->streams[0]),
                     0);
            CHECK_EQ(shmemx_recv_on_stream(team, buffer_data(&t->dest) + tag * 5000, 5000, (me + n - 1) % n, tag,
                                           t->streams[0]),
                     0);
        }
        CHECK_EQ(shmemx_coll_group_end(), 0);
        CHECK_EQ(shmemx_stream_synchronize(t->streams[0]), 0);
        check_fill(buffer_image(&t->dest), 15000, (me + n - 1) % n, me, t->round);
        (void)buffer_check(&t->dest, "a team that goes");
        shmem_team_destroy(team);
    }
}

static int test_main(void)
{
    COLL_INIT();
    struct traffic t;
    memset(&t, 0, sizeof t);
    t.random = check_self.seed * 2 + 1;
    coll_teams_make(t.teams);
    buffer_make(&t.dest, coll_needs() + 256);
    buffer_make(&t.source, coll_needs() + 256);
    for (int i = 0; i < STREAMS; i++)
        CHECK_OR_EXIT(shmemx_stream_create(&t.streams[i]) == 0);
    buffer_begin(&t.dest, MEMORY_HEAP, 64);
    refuses(&t);
    int rounds = (int)device_number("SHMEM_TEST_CALLS", ROUNDS);
    in_a_batch(&t); /* whatever a capture may not do is done */
    for (int i = 0; i < rounds; i++) {
        one_by_one(&t);
        two_streams(&t);
        in_a_batch(&t);
        if (i % 8 == 0 && !device_flag("SHMEM_TEST_NO_GRAPHS"))
            in_a_graph(&t);
    }
    static const size_t lengths[] = {40, 16384, 150000, 300000};
    for (int i = 0; i < 4; i++)
        chain(&t, 5, lengths[i], lengths[i] / 50);
    /* The first block of the receiver is soon done with its part of the long message, then takes short ones alone. */
    for (int i = 0; i < 8; i++)
        chain(&t, 14, 500000 + (size_t)i, 0);
    moving_blocks(&t);
    other_order(&t);
    early(&t);
    teams_come_and_go(&t);
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(shmemx_stream_destroy(t.streams[i]), 0);
    shmem_barrier_all();
    buffer_drop(&t.source);
    buffer_drop(&t.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
