/* SPDX-License-Identifier: MIT */
/* Collectives on streams as two-sided and irregular frameworks call them: gather, scatter and reduce to or from a root,
 * alltoallv whose blocks the host knows, fcollect and reducescatter of splits. Some calls at a time, of random kinds,
 * sizes, teams and slots, with ordinary calls among them and nothing between them; each member has its buffers in
 * another kind of memory; arrays of the host are destroyed as soon as a call returns. Then the same as graphs, the bits
 * of reduce beside those of allreduce, and wrong arguments. The reference is coll_values.h, byte by byte.
 * SHMEM_TEST_CALLS is how many (4000); fewer than 100 means fewer graphs and fewer pairs of type and operator, too. */
#include "coll_case.h"

/* SCATTERED: reducescatter of splits; ORDINARY: fcollect without. */
enum { GATHER, SCATTER, REDUCE, BLOCKS, FCOLLECT, SCATTERED, ORDINARY, TESTED };
static const char *const names[] = {"gather",           "scatter",              "reduce",  "alltoallv of host blocks",
                                    "fcollect of splits", "reducescatter of splits", "fcollect"};
static const int kinds[] = {SHMEMX_GATHER,   SHMEMX_SCATTER,       SHMEMX_REDUCE,  SHMEMX_ALLTOALLV,
                            SHMEMX_FCOLLECT, SHMEMX_REDUCESCATTER, SHMEMX_FCOLLECT};
enum { IN_FLIGHT = 4, SLOTS = 3, MOST_SPLITS = 1200, MOST_BYTES = 200000, GAP = 5 };

struct call {
    int kind, type, op, root;
    size_t nelems; /* BLOCKS: the most bytes of a block */
    const struct coll_team *team;
    bool in_place, packed, own; /* packed: offsets are NULL; own: memory that is symmetric on no member */
    bool dests, sources, to_float; /* of splits, by engines */
    size_t stage_bytes;
    unsigned shape, round; /* numbers from which sizes and data are made */
    struct buffer dest, source;
    size_t dest_shift, source_shift;
    size_t send_bytes[MOST_PES], send_offset[MOST_PES], receive_bytes[MOST_PES], receive_offset[MOST_PES];
    size_t n_splits, split_nelems[MOST_SPLITS], split_offset[MOST_SPLITS];
    void *split_dest[MOST_SPLITS];
    const void *split_source[MOST_SPLITS];
    shmemx_host_blocks_t blocks;
    shmemx_splits_t splits;
    shmemx_coll_t q;
};

struct state {
    struct coll_team teams[TEAMS];
    struct call calls[IN_FLIGHT];
    struct check_random common; /* the same numbers on all PEs */
    shmemx_stream_t stream;
    bool captures;
    bool nodes; /* then the order of sums is another one */
    unsigned wanted; /* calls */
    unsigned round;
    char what[256];
};

/* ---- sizes ---- */

static size_t elem(const struct call *c) { return values_types[c->type].bytes; }
static size_t unit(const struct call *c) { return c->nelems * elem(c); }
static size_t members(const struct call *c) { return (size_t)c->team->n; }
static bool is_root(const struct call *c) { return c->team->me == c->root; }
static bool reduces(const struct call *c) { return c->kind == REDUCE || c->kind == SCATTERED; }
static bool has_splits(const struct call *c) { return c->kind == FCOLLECT || c->kind == SCATTERED; }

static size_t dest_bytes(const struct call *c)
{
    if (c->kind == BLOCKS)
        return members(c) * (c->nelems + GAP);
    if (c->to_float)
        return c->nelems * sizeof(float);
    return unit(c) * (c->kind == GATHER || c->kind == FCOLLECT || c->kind == ORDINARY ? members(c) : 1);
}
static size_t source_bytes(const struct call *c)
{
    if (c->kind == BLOCKS)
        return members(c) * (c->nelems + GAP);
    return unit(c) * (c->kind == SCATTER || c->kind == SCATTERED ? members(c) : 1);
}
static bool has_dest(const struct call *c) { return (c->kind != GATHER && c->kind != REDUCE) || is_root(c); }
static bool has_source(const struct call *c) { return c->kind != SCATTER || is_root(c); }

/* What member `from` sends to member `to`: nothing, all, some. */
static size_t block_bytes(const struct call *c, int from, int to)
{
    uint64_t word = values_word(c->team->world[from], c->shape, 100000 + (uint64_t)c->team->world[to]);
    return word % 4 == 0 ? 0 : word / 4 % 3 == 0 ? c->nelems : (size_t)(word / 16 % (c->nelems + 1));
}
/* In ascending order without gaps, or in descending order with gaps. */
static void fill_offsets(const struct call *c, const size_t *bytes, size_t *offset)
{
    size_t at = 0;
    for (int i = 0; i < c->team->n; i++) {
        int m = c->packed ? i : c->team->n - 1 - i;
        offset[m] = at;
        at += bytes[m] + (c->packed ? 0 : GAP);
    }
}
static void fill_blocks(struct call *c)
{
    for (int m = 0; m < c->team->n; m++) {
        c->send_bytes[m] = block_bytes(c, c->team->me, m);
        c->receive_bytes[m] = block_bytes(c, m, c->team->me);
    }
    fill_offsets(c, c->send_bytes, c->send_offset);
    fill_offsets(c, c->receive_bytes, c->receive_offset);
    c->blocks.send_bytes = c->send_bytes;
    c->blocks.send_offset = c->packed ? NULL : c->send_offset;
    c->blocks.receive_bytes = c->receive_bytes;
    c->blocks.receive_offset = c->packed ? NULL : c->receive_offset;
}

/* Splits of about nelems / most, some empty, as many as there is room for. */
static void fill_splits(struct call *c, size_t most)
{
    size_t at = 0;
    c->n_splits = 0;
    for (size_t i = 0; i < MOST_SPLITS && at <= c->nelems; i++) {
        uint64_t word = values_word(0, c->shape, 200000 + i);
        size_t left = c->nelems - at, n = word % 5 == 0 ? 0 : (size_t)(word / 8 % (c->nelems / most + 2));
        c->split_offset[i] = at;
        c->split_nelems[i] = n < left ? n : left;
        at += c->split_nelems[i] + (c->packed ? 0 : (size_t)(word >> 40) % 4);
        c->n_splits++;
    }
    c->splits.n = c->n_splits;
    c->splits.nelems = c->split_nelems;
    c->splits.offset = c->packed ? NULL : c->split_offset;
    c->splits.dests = c->dests ? c->split_dest : NULL;
    c->splits.sources = c->sources ? c->split_source : NULL;
}

/* Splits that lie apart are those of the buffer in descending order. */
static size_t apart(const struct call *c, size_t i)
{
    return c->nelems - c->split_offset[i] - c->split_nelems[i];
}
static size_t dest_at(const struct call *c, size_t i)
{
    size_t at = c->dests ? apart(c, i) : c->split_offset[i];
    return at * (c->kind == FCOLLECT ? members(c) : 1) * (c->to_float ? sizeof(float) : elem(c));
}
static size_t source_at(const struct call *c, size_t i) /* in elements */
{
    return (c->sources ? apart(c, i) : c->split_offset[i]) * (c->kind == SCATTERED ? members(c) : 1);
}
static void fill_addresses(struct call *c)
{
    for (size_t i = 0; i < c->n_splits; i++) {
        c->split_dest[i] = c->split_nelems[i] > 0 ? (char *)buffer_data(&c->dest) + c->dest_shift + dest_at(c, i) : NULL;
        c->split_source[i] = c->split_nelems[i] > 0
                                 ? (char *)buffer_data(&c->source) + c->source_shift + source_at(c, i) * elem(c)
                                 : NULL;
    }
}

/* ---- images ---- */

static unsigned char *dest_image(struct call *c)
{
    if (c->in_place && is_root(c) && c->kind == SCATTER)
        return buffer_image(&c->source) + c->source_shift + (size_t)c->team->me * unit(c);
    return buffer_image(&c->dest) + c->dest_shift;
}
static unsigned char *source_image(struct call *c)
{
    if (c->in_place && is_root(c) && c->kind != SCATTER)
        return buffer_image(&c->dest) + c->dest_shift + (c->kind == GATHER ? (size_t)c->team->me * unit(c) : 0);
    return buffer_image(&c->source) + c->source_shift;
}

static void fill_source(struct call *c)
{
    const struct values_type *t = &values_types[c->type];
    int pe = c->team->world[c->team->me];
    unsigned char *at = source_image(c);
    for (int m = 0; m < c->team->n && c->kind == BLOCKS; m++)
        values_bytes(pe, c->round, (size_t)m * MOST_BYTES, c->send_bytes[m], at + c->send_offset[m]);
    if (c->kind == BLOCKS || !has_source(c))
        return;
    if (reduces(c))
        values_make(t, c->op, pe, c->round, 0, source_bytes(c) / t->bytes, at);
    else
        values_bytes(pe, c->round, 0, source_bytes(c), at);
}

static void expect_splits(struct call *c, unsigned char *dest)
{
    for (size_t i = 0; i < c->n_splits; i++) {
        size_t n = c->split_nelems[i], from = source_at(c, i), at = dest_at(c, i);
        if (c->kind == SCATTERED)
            values_reduce_as(&values_types[c->to_float ? SHMEMX_FLOAT : c->type], c->type, c->op, c->team->world,
                             c->team->n, c->round, from + (size_t)c->team->me * n, n, dest + at);
        for (int m = 0; m < c->team->n && c->kind == FCOLLECT; m++)
            values_bytes(c->team->world[m], c->round, from * elem(c), n * elem(c), dest + at + (size_t)m * n * elem(c));
    }
}
static void expect(struct call *c)
{
    unsigned char *dest = dest_image(c);
    size_t me = (size_t)c->team->me;
    if (!has_dest(c))
        return;
    if (has_splits(c))
        expect_splits(c, dest);
    else if (c->kind == REDUCE)
        values_reduce(c->type, c->op, c->team->world, c->team->n, c->round, 0, c->nelems, dest);
    else if (c->kind == SCATTER)
        values_bytes(c->team->world[c->root], c->round, me * unit(c), unit(c), dest);
    for (int m = 0; m < c->team->n; m++) {
        if (c->kind == BLOCKS)
            values_bytes(c->team->world[m], c->round, me * MOST_BYTES, c->receive_bytes[m],
                         dest + c->receive_offset[m]);
        if (c->kind == GATHER || c->kind == ORDINARY)
            values_bytes(c->team->world[m], c->round, 0, unit(c), dest + (size_t)m * unit(c));
    }
}

/* ---- a call ---- */

/* Another kind of memory on each member, except where the contract wants one. */
static int memory_of(const struct call *c, unsigned which)
{
    uint64_t word = values_word(c->team->world[c->team->me], c->shape, 300000 + which);
    return c->own || c->kind == ORDINARY ? MEMORY_OWN : (int)(word % MEMORIES);
}

/* Images and upload; then the images are what must be there afterwards. */
static void prepare(struct call *c)
{
    buffer_begin(&c->dest, memory_of(c, 0), dest_bytes(c) + c->dest_shift);
    buffer_begin(&c->source, memory_of(c, 1), source_bytes(c) + c->source_shift);
    fill_source(c);
    buffer_upload(&c->dest);
    buffer_upload(&c->source);
    expect(c);
}

static void fill_call(struct state *s, struct call *c)
{
    const struct values_type *t = &values_types[c->type];
    size_t own = (size_t)c->team->me * unit(c);
    bool in_place = c->in_place && is_root(c);
    c->q = shmemx_coll_of(kinds[c->kind], c->team->team, buffer_data(&c->dest) + c->dest_shift,
                          buffer_data(&c->source) + c->source_shift, c->nelems, c->type);
    if (in_place && c->kind == SCATTER)
        c->q.dest = buffer_data(&c->source) + c->source_shift + own;
    else if (in_place)
        c->q.source = (char *)c->q.dest + (c->kind == GATHER ? own : 0);
    if (!has_dest(c) && c->shape % 2 == 0)
        c->q.dest = NULL;
    if (!has_source(c) && c->shape % 2 == 0)
        c->q.source = NULL;
    c->q.op = reduces(c) ? c->op : 0;
    c->q.scale = VALUES_SCALE;
    c->q.root = c->root;
    c->q.host_blocks = c->kind == BLOCKS ? &c->blocks : NULL;
    c->q.splits = has_splits(c) ? &c->splits : NULL;
    if (has_splits(c))
        fill_addresses(c);
    c->q.dest = c->dests ? NULL : c->q.dest;
    c->q.source = c->sources ? NULL : c->q.source;
    c->q.to_float = c->to_float;
    c->q.stage_bytes = c->stage_bytes;
    snprintf(s->what, sizeof s->what, "%s, call %u: %zu of %s, op %d, root %d of %d, %s%s", names[c->kind], c->shape,
             c->nelems, t->name, c->op, c->root, c->team->n, c->in_place ? "in place " : "",
             c->packed ? "packed" : "with gaps");
}

static size_t random_size(struct state *s)
{
    static const size_t sizes[] = {0, 1, 3, 15, 16, 17, 100, 1000, 8159, 8160, 8161, 8176, 8177, 8191, 8192, 8193};
    size_t x = check_random_below(&s->common, 1000);
    size_t odd = check_random_below(&s->common, 2) == 0 ? check_random_below(&s->common, 3) : 1;
    if (x < 650)
        return sizes[x % (sizeof sizes / sizeof sizes[0])];
    if (x < 900) /* beside multiples of an inbox, times blocks of some number */
        return 8192 * (1 + x % 5) + odd - 1;
    return x < 970 ? 24576 * (1 + x % 3) + odd - 1 : MOST_BYTES - x % 50 * 16 - odd;
}

/* Of splits, most with what engines alone do, unless they are integers that they do not sum. */
static void choose_engines(struct state *s, struct call *c)
{
    unsigned how = check_random_below(&s->common, 16);
    bool sums = c->op == SHMEMX_SUM || c->op == SHMEMX_AVG || c->op == SHMEMX_SCALED_SUM;
    c->dests = c->sources = c->to_float = false;
    c->stage_bytes = has_splits(c) ? (size_t)device_number("SHMEM_TEST_STAGE", 0) : 0;
    if (c->stage_bytes == 0 || s->captures ||
        (c->kind == SCATTERED && (!sums || elem(c) == 1 || c->type == SHMEMX_INT16 || c->type == SHMEMX_UINT16)))
        return;
    c->dests = how % 2 != 0;
    c->sources = how / 2 % 2 != 0;
    c->to_float = how / 4 != 0 && c->kind == SCATTERED && (c->type == SHMEMX_HALF || c->type == SHMEMX_BFLOAT16);
}

static void random_call(struct state *s, struct call *c, int kind)
{
    size_t bytes = random_size(s), splits = 1 + check_random_below(&s->common, MOST_SPLITS);
    c->shape = c->round = ++s->round;
    c->kind = kind;
    c->team = &s->teams[check_random_below(&s->common, TEAMS)];
    c->root = (int)(check_random_below(&s->common, 1000) % members(c));
    bool fits;
    do {
        c->type = (int)check_random_below(&s->common, VALUES_TYPES);
        c->op = (int)check_random_below(&s->common, VALUES_OPS);
        fits = values_has_op(c->type, c->op) && (!s->nodes || values_is_integer(&values_types[c->type]));
    } while (reduces(c) && !fits);
    if (kind == BLOCKS)
        c->type = SHMEMX_UINT8;
    c->nelems = bytes / elem(c);
    c->packed = check_random_below(&s->common, 2) == 0;
    c->in_place = kind <= REDUCE && check_random_below(&s->common, 3) == 0;
    size_t alignment = elem(c) / values_types[c->type].parts;
    c->dest_shift = check_random_below(&s->common, 4) * alignment;
    c->source_shift = check_random_below(&s->common, 4) * alignment;
    choose_engines(s, c);
    if (c->to_float)
        c->dest_shift *= 2;
    if (kind == BLOCKS)
        fill_blocks(c);
    if (has_splits(c))
        fill_splits(c, splits);
}

/* Refused on one PE, a call would leave the others waiting. */
static void enqueue(struct state *s, struct call *c, int slot)
{
    fill_call(s, c);
    c->q.slot = slot;
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] slot %d, %s\n", check_self.pe, slot, s->what);
    if (!CHECK_EQ_NAMED(shmemx_coll_on_stream(&c->q, s->stream), 0, s->what))
        shmem_global_exit(CHECK_FAILED);
}
/* The library has read them. */
static void destroy_arrays(struct call *c)
{
    memset(c->send_bytes, 0xee, sizeof c->send_bytes);
    memset(c->send_offset, 0xee, sizeof c->send_offset);
    memset(c->receive_bytes, 0xee, sizeof c->receive_bytes);
    memset(c->receive_offset, 0xee, sizeof c->receive_offset);
    memset(c->split_nelems, 0xee, sizeof c->split_nelems);
    memset(c->split_offset, 0xee, sizeof c->split_offset);
    memset(c->split_dest, 0xee, sizeof c->split_dest);
    memset(c->split_source, 0xee, sizeof c->split_source);
}
static void check(struct state *s, struct call *c, const char *how)
{
    char what[300];
    fill_call(s, c);
    snprintf(what, sizeof what, "%s, %s", s->what, how);
    buffer_check(&c->dest, what);
    buffer_check(&c->source, what);
}

static void test_random(struct state *s)
{
    for (unsigned done = 0; done < s->wanted; done += IN_FLIGHT) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            random_call(s, &s->calls[i], (int)check_random_below(&s->common, TESTED));
            prepare(&s->calls[i]);
        }
        for (int i = 0; i < IN_FLIGHT; i++) {
            enqueue(s, &s->calls[i], (int)check_random_below(&s->common, SLOTS));
            destroy_arrays(&s->calls[i]);
        }
        CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
        for (int i = 0; i < IN_FLIGHT; i++)
            check(s, &s->calls[i], "plain");
    }
}

/* ---- graphs: other data at each replay ---- */

static void test_graph(struct state *s, int first)
{
    shmemx_graph_t graph;
    s->captures = true;
    for (int i = 0; i < IN_FLIGHT; i++) {
        random_call(s, &s->calls[i], (first + i) % TESTED);
        prepare(&s->calls[i]);
    }
    CHECK_OR_EXIT(shmemx_graph_begin(s->stream) == 0);
    for (int i = 0; i < IN_FLIGHT; i++)
        enqueue(s, &s->calls[i], i % SLOTS);
    CHECK_OR_EXIT(shmemx_graph_end(s->stream, &graph) == 0);
    for (int replay = 0; replay < 3; replay++) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            s->calls[i].round = ++s->round;
            prepare(&s->calls[i]);
        }
        CHECK_EQ(shmemx_graph_launch(graph, s->stream), 0);
        CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
        for (int i = 0; i < IN_FLIGHT; i++)
            check(s, &s->calls[i], "graph");
    }
    CHECK_EQ(shmemx_graph_destroy(graph), 0);
    s->captures = false;
}

/* ---- the bits of allreduce, also where the order of nodes is another one than that of the values ---- */

static void set_bits(struct state *s, struct call *c, int type, int op, size_t nelems)
{
    memset(c, 0, offsetof(struct call, dest));
    c->kind = REDUCE;
    c->type = type;
    c->op = op;
    c->nelems = nelems;
    c->team = &s->teams[TEAM_WORLD];
    c->root = (int)(s->round % members(c));
    c->own = true;
    c->shape = c->round = s->round;
    c->dest_shift = c->source_shift = 0;
    prepare(c);
}
static void test_bits_of(struct state *s, int type, int op, size_t nelems)
{
    struct call *reduce = &s->calls[0], *allreduce = &s->calls[1];
    s->round++;
    set_bits(s, reduce, type, op, nelems);
    set_bits(s, allreduce, type, op, nelems);
    enqueue(s, reduce, 0);
    fill_call(s, allreduce);
    allreduce->q.kind = SHMEMX_ALLREDUCE;
    allreduce->q.dest = buffer_data(&allreduce->dest);
    CHECK_EQ(shmemx_coll_on_stream(&allreduce->q, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    if (is_root(reduce))
        CHECK_BYTES_NAMED(buffer_data(&reduce->dest), buffer_data(&allreduce->dest), unit(reduce), s->what);
}
static void test_bits(struct state *s)
{
    static const size_t bytes[] = {48, 8176, 20000, 70000};
    const int step = s->wanted < 100 ? 4 : 1;
    for (int type = 0; type < VALUES_TYPES && device_is_cpu(); type++)
        for (int op = type % step; op < VALUES_OPS; op += step)
            if (values_has_op(type, op))
                test_bits_of(s, type, op, bytes[(type + op) % 4] / values_types[type].bytes);
}

/* ---- what is refused: by each member alone, with nothing enqueued ---- */

static void test_refused(struct state *s)
{
    static const size_t four[MOST_PES] = {4, 4, 4, 4}, falling[] = {8, 4}, huge[MOST_PES] = {(size_t)1 << 36};
    int n = shmem_n_pes(), me = shmem_my_pe();
    size_t own[MOST_PES];
    char *memory = s->calls[0].dest.base[MEMORY_HEAP];
    shmemx_blocks_t blocks = {NULL, NULL, NULL, NULL};
    for (int m = 0; m < MOST_PES; m++)
        own[m] = m == me ? 5 : 4;
#define REFUSED(of_kind, change)                                                                                \
    do {                                                                                                        \
        shmemx_host_blocks_t b = {four, NULL, four, NULL};                                                      \
        shmemx_splits_t p = {2, four, NULL, NULL, NULL};                                                        \
        shmemx_coll_t q = shmemx_coll_of(of_kind, SHMEM_TEAM_WORLD, memory, memory + 4096, 16, SHMEMX_INT32);   \
        q.host_blocks = (of_kind) == SHMEMX_ALLTOALLV ? &b : NULL;                                              \
        q.splits = (of_kind) == SHMEMX_FCOLLECT || (of_kind) == SHMEMX_REDUCESCATTER ? &p : NULL;               \
        change;                                                                                                 \
        CHECK_NAMED(shmemx_coll_on_stream(&q, s->stream) != 0, #change);                                        \
    } while (0)
    REFUSED(SHMEMX_GATHER, q.root = n);
    REFUSED(SHMEMX_SCATTER, q.root = -1);
    REFUSED(SHMEMX_REDUCE, q.root = n);
    REFUSED(SHMEMX_GATHER, q.source = NULL);
    REFUSED(SHMEMX_SCATTER, q.dest = NULL);
    REFUSED(SHMEMX_GATHER, q.root = me; q.dest = NULL);
    REFUSED(SHMEMX_SCATTER, q.root = me; q.source = NULL);
    REFUSED(SHMEMX_REDUCE, q.root = me; q.dest = NULL);
    REFUSED(SHMEMX_GATHER, q.root = me; q.source = memory + 4);
    REFUSED(SHMEMX_REDUCE, q.op = SHMEMX_AVG);
    REFUSED(SHMEMX_REDUCE, q.source = memory + 4097);
    REFUSED(SHMEMX_REDUCE, q.engines = 1);
    REFUSED(SHMEMX_REDUCE, q.splits = &p);
    REFUSED(SHMEMX_GATHER, q.host_blocks = &b);
    REFUSED(SHMEMX_ALLTOALLV, q.blocks = &blocks);
    REFUSED(SHMEMX_ALLTOALLV, b.send_bytes = NULL);
    REFUSED(SHMEMX_ALLTOALLV, b.receive_bytes = NULL);
    REFUSED(SHMEMX_ALLTOALLV, b.send_bytes = huge; b.receive_bytes = huge);
    REFUSED(SHMEMX_ALLTOALLV, b.send_bytes = own);
    REFUSED(SHMEMX_ALLTOALLV, q.dest = NULL);
    REFUSED(SHMEMX_ALLTOALLV, q.source = NULL);
    REFUSED(SHMEMX_FCOLLECT, p.nelems = NULL);
    REFUSED(SHMEMX_FCOLLECT, p.n = 4; q.nelems = 15);
    REFUSED(SHMEMX_FCOLLECT, p.offset = falling);
    REFUSED(SHMEMX_FCOLLECT, q.engines = 1);
    REFUSED(SHMEMX_FCOLLECT, q.source = memory + (size_t)me * 64);
    REFUSED(SHMEMX_REDUCESCATTER, q.nelems = 7);
    REFUSED(SHMEMX_REDUCESCATTER, q.op = SHMEMX_AVG);
    void *dests[2] = {memory, memory + 1024};
    REFUSED(SHMEMX_FCOLLECT, p.dests = dests); /* no stage */
    REFUSED(SHMEMX_FCOLLECT, p.dests = dests; q.stage_bytes = 1000);
    dests[1] = memory + 1025;
    REFUSED(SHMEMX_FCOLLECT, p.dests = dests; q.stage_bytes = 1 << 20);
    dests[1] = NULL;
    REFUSED(SHMEMX_FCOLLECT, p.dests = dests; q.stage_bytes = 1 << 20);
    REFUSED(SHMEMX_REDUCESCATTER, p.sources = (const void *const *)dests; q.stage_bytes = 1 << 20);
    REFUSED(SHMEMX_FCOLLECT, q.to_float = 1; q.stage_bytes = 1 << 20);
    REFUSED(SHMEMX_REDUCESCATTER, q.to_float = 1; q.stage_bytes = 1 << 20);
    REFUSED(SHMEMX_REDUCESCATTER, q.to_float = 1; q.type = SHMEMX_HALF);
    REFUSED(SHMEMX_REDUCESCATTER, q.to_float = 1; q.type = SHMEMX_HALF; q.op = SHMEMX_MAX);
    REFUSED(SHMEMX_REDUCESCATTER, q.to_float = 2; q.type = SHMEMX_HALF);
#undef REFUSED
}

/* Member 0 expects less, and member 1 more, than all others send: no byte too many, no hang, and an error of both, also
 * of the stream. */
static void test_mismatch(struct state *s)
{
    struct call *c = &s->calls[0];
    shmemx_device_error_t error;
    int rc = 0;
    memset(c, 0, offsetof(struct call, dest));
    c->kind = BLOCKS;
    c->nelems = 1000;
    c->team = &s->teams[TEAM_WORLD];
    c->type = SHMEMX_UINT8;
    c->dest_shift = c->source_shift = 0;
    c->shape = c->round = ++s->round;
    for (int m = 0; m < c->team->n; m++) {
        c->send_bytes[m] = c->receive_bytes[m] = 900;
        if (m != c->team->me && c->team->me < 2)
            c->receive_bytes[m] = c->team->me == 0 ? 700 : 990;
    }
    fill_offsets(c, c->send_bytes, c->send_offset);
    for (int m = 0; m < c->team->n; m++)
        c->receive_offset[m] = (size_t)m * 1000;
    c->blocks.send_bytes = c->send_bytes;
    c->blocks.send_offset = c->send_offset;
    c->blocks.receive_bytes = c->receive_bytes;
    c->blocks.receive_offset = c->receive_offset;
    for (int m = 0; m < c->team->n; m++)
        c->receive_bytes[m] = c->receive_bytes[m] > 900 ? 900 : c->receive_bytes[m]; /* what comes */
    prepare(c);
    for (int m = 0; m < c->team->n; m++)
        c->receive_bytes[m] = m != c->team->me && c->team->me == 1 ? 990 : c->receive_bytes[m];
    enqueue(s, c, 2);
    CHECK_EQ(shmemx_stream_synchronize(s->stream) != 0, c->team->me < 2);
    check(s, c, "sizes that differ");
    const char *forced = getenv("SHMEM_COLL") != NULL ? strstr(getenv("SHMEM_COLL"), "alltoallv_host=") : NULL;
    if (forced != NULL) {
        char text[700] = "", wanted[40];
        fill_call(s, c);
        (void)shmemx_coll_explain(&c->q, text, sizeof text);
        snprintf(wanted, sizeof wanted, ": %.*s,", (int)strcspn(forced + 15, ":,"), forced + 15);
        CHECK_NAMED(strstr(text, wanted) != NULL, text);
    }
    for (int i = 0; i < 10000 && rc == 0 && c->team->me < 2; i++, usleep(500))
        rc = shmemx_device_error(&error);
    if (c->team->me < 2) {
        CHECK_EQ(rc, 1);
        CHECK(strcmp(error.call, "SHMEMX_ALLTOALLV on a stream") == 0);
        CHECK_EQ(error.expected, c->team->me == 0 ? 700 : 990);
        CHECK_EQ(error.seen, 900);
        CHECK(error.pe >= 0 && error.pe < shmem_n_pes() && error.pe != shmem_my_pe());
    }
    CHECK_EQ(shmemx_device_reset(c->team->team, 2), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
}

static int test_main(void)
{
    COLL_INIT();
    struct state *s = (struct state *)calloc(1, sizeof *s);
    size_t n = (size_t)shmem_n_pes();
    CHECK_OR_EXIT(s != NULL);
    coll_teams_make(s->teams);
    s->common = check_random_stream(3);
    s->nodes = getenv("SHMEM_VIRTUAL_NODES") != NULL;
    s->wanted = (unsigned)device_number("SHMEM_TEST_CALLS", 4000);
    CHECK_OR_EXIT(shmemx_stream_create(&s->stream) == 0);
    for (int i = 0; i < IN_FLIGHT; i++) {
        buffer_make(&s->calls[i].dest, n * (MOST_BYTES + GAP) + 256);
        buffer_make(&s->calls[i].source, n * (MOST_BYTES + GAP) + 256);
    }
    for (int t = 0; t < TEAMS; t++)
        for (int slot = 0; slot < SLOTS; slot++)
            CHECK_EQ(shmemx_slot_prepare(s->teams[t].team, slot, 0), 0);
    test_refused(s);
    test_random(s);
    for (int i = 0; i < (s->wanted < 100 ? TESTED : 2 * TESTED); i++)
        test_graph(s, i);
    test_bits(s);
    if (n > 1 && !device_flag("SHMEM_DEBUG"))
        test_mismatch(s);
    CHECK_EQ(shmemx_stream_destroy(s->stream), 0);
    shmem_barrier_all();
    for (int i = 0; i < IN_FLIGHT; i++) {
        buffer_drop(&s->calls[i].source);
        buffer_drop(&s->calls[i].dest);
    }
    free(s);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
