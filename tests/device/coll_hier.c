/* SPDX-License-Identifier: MIT */
/* fcollect, alltoall, reducescatter and allreduce on streams of teams that span nodes, which SHMEM_VIRTUAL_NODES makes
 * of one host: cases of random kind, type, operator, size, team, slot and place of the buffers, each PE late at random,
 * compared bit by bit with a serial reference that combines a node's members first and then the nodes' parts. Run by
 * the library's choice, which must be "hier" where that can do it, and again with the flat algorithms forced: both give
 * the bits of the reference, so the same. Sizes lie around what a piece and several of them are, and odd ones between.
 * SHMEM_TEST_CASES: how many cases. */
#include "coll_case.h"

enum { CASES = 400, SLOTS = 2, MOST_BACK_TO_BACK = 4 };

static const char *const kind_names[] = {KIND_NAMES};
static const int kinds[] = {SHMEMX_FCOLLECT, SHMEMX_ALLTOALL, SHMEMX_REDUCESCATTER, SHMEMX_ALLREDUCE};
/* Bytes of a block: nothing, less than a unit, units, a packet and half of one, pieces, many of them. */
static const size_t sizes[] = {0,    1,    16,    48,    1024,  2048,  4096,  4112,   8192,
                               8200, 9000, 16384, 32768, 32800, 65536, 70000, 131072, 300000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct hier_state {
    struct coll_team teams[TEAMS];
    struct coll_state coll;
    struct check_random common; /* the same numbers on all PEs */
    struct check_random mine;
    unsigned rounds;
    unsigned seen[KINDS]; /* calls by "hier" */
};

static void expect(struct hier_state *s, const struct coll_case *c)
{
    bool inside = c->in_place && !coll_holder_is_dest(c);
    struct buffer *b = inside ? &s->coll.source : &s->coll.dest;
    size_t at = inside ? c->source_shift + coll_inner_at(c) : c->dest_shift;
    if (!coll_reduces(c->kind) || !coll_spans_nodes(c->team)) /* parts of one node are not rounded on their way */
        coll_expect(&s->coll, c);
    else
        coll_reduce_by_nodes(c, c->kind == SHMEMX_ALLREDUCE ? 0 : (size_t)c->team->me * c->nelems, c->nelems,
                        buffer_image(b) + at);
}

/* ---- a case ---- */

static uint64_t pick(struct hier_state *s, uint64_t below) { return check_random_below(&s->common, below); }

static void set_type(struct hier_state *s, struct coll_case *c)
{
    do {
        c->type = (int)pick(s, VALUES_TYPES);
        c->op = (int)pick(s, VALUES_OPS);
    } while (!values_has_op(c->type, c->op));
}

/* Mostly the device heap, so that "hier" can do it. */
static int random_memory(struct hier_state *s) { return pick(s, 6) == 0 ? (int)pick(s, MEMORIES) : MEMORY_HEAP; }

static void set_case(struct hier_state *s, struct coll_case *c)
{
    memset(c, 0, sizeof(*c));
    c->kind = kinds[pick(s, sizeof(kinds) / sizeof(kinds[0]))];
    set_type(s, c);
    size_t each = values_types[c->type].bytes, scalar = each / values_types[c->type].parts;
    c->team = &s->teams[pick(s, TEAMS)];
    c->slot = (int)pick(s, SLOTS);
    c->dest_memory = random_memory(s);
    c->source_memory = random_memory(s);
    c->in_place = c->kind != SHMEMX_ALLTOALL && pick(s, 3) == 0;
    c->dest_shift = pick(s, 3) == 0 ? scalar * (1 + pick(s, 7)) : 0;
    c->source_shift = c->in_place ? c->dest_shift : pick(s, 3) == 0 ? scalar * (1 + pick(s, 7)) : 0;
    size_t bytes = sizes[pick(s, SIZES)], most = coll_needs() / (size_t)c->team->n / each - 8;
    c->nelems = bytes / each + (pick(s, 3) == 0 ? pick(s, 5) : 0);
    c->nelems = c->nelems < most ? c->nelems : most;
    c->round = ++s->rounds;
}

/* What is registered is device memory where the device is not the CPU, and that is reached as the heap is. */
static bool is_reached(int memory)
{
    return memory_is_near(memory) || (memory == MEMORY_REGISTERED && !device_is_cpu());
}

/* Where the peers' pointers reach what they touch. */
static bool can_be_hier(struct hier_state *s, const struct coll_case *c)
{
    bool dest = is_reached(s->coll.dest.memory), source = is_reached(s->coll.source.memory);
    if (c->in_place)
        dest = source = coll_holder_is_dest(c) ? dest : source;
    if (c->kind == SHMEMX_ALLREDUCE)
        return dest && source;
    return c->kind == SHMEMX_REDUCESCATTER ? source : dest;
}

/* A line such as "fcollect of 64 bytes on 4 PEs, on a stream: hier, 2 blocks of 64 threads (...)". */
static void check_choice(struct hier_state *s, const struct coll_case *c, const shmemx_coll_t *q, const char *text)
{
    const char *forced = getenv("SHMEM_COLL");
    char choice[400];
    (void)shmemx_coll_explain(q, choice, sizeof(choice));
    bool hier = strstr(choice, "stream: hier,") != NULL;
    s->seen[c->kind] += hier;
    if (c->nelems > 0 && (forced == NULL || *forced == '\0'))
        CHECK_EQ_NAMED(hier, coll_spans_nodes(c->team) && can_be_hier(s, c), text);
    if (!coll_spans_nodes(c->team))
        CHECK_EQ_NAMED(hier, false, text);
}

static void describe(const struct coll_case *c, char *text, size_t bytes)
{
    snprintf(text, bytes, "round %u: %s of %s %s, %zu elements, %d members, slot %d, memory %d + %zu, %d + %zu%s",
             c->round, kind_names[c->kind], values_types[c->type].name,
             coll_reduces(c->kind) ? values_op_names[c->op] : "", c->nelems, c->team->n, c->slot, c->dest_memory,
             c->dest_shift, c->source_memory, c->source_shift, c->in_place ? ", in place" : "");
}

static void be_late(struct hier_state *s)
{
    if (check_random_below(&s->mine, 4) == 0)
        usleep((useconds_t)check_random_below(&s->mine, 300));
}

/* Several times in a row where it can be repeated: then the second call meets what the first one has left. */
static void one_case(struct hier_state *s)
{
    struct coll_case c;
    char text[300];
    set_case(s, &c);
    describe(&c, text, sizeof(text));
    coll_prepare(&s->coll, &c);
    shmemx_coll_t q = coll_request(&s->coll, &c);
    uint64_t calls = c.in_place && coll_reduces(c.kind) ? 1 : 1 + pick(s, MOST_BACK_TO_BACK);
    if (device_flag("SHMEM_TEST_VERBOSE"))
        fprintf(stderr, "[pe %d] %s\n", check_self.pe, text);
    for (uint64_t i = 0; i < calls; i++) {
        be_late(s);
        CHECK_EQ_NAMED(shmemx_coll_on_stream(&q, s->coll.stream), 0, text);
    }
    CHECK_EQ_NAMED(shmemx_stream_synchronize(s->coll.stream), 0, text);
    expect(s, &c);
    buffer_check(&s->coll.dest, text);
    buffer_check(&s->coll.source, text);
    check_choice(s, &c, &q, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct hier_state s;
    long cases = device_number("SHMEM_TEST_CASES", CASES);
    memset(&s, 0, sizeof(s));
    coll_teams_make(s.teams);
    coll_state_make(&s.coll);
    s.common = check_random_stream(11);
    s.mine = check_random_stream(2000 + (uint64_t)shmem_my_pe());
    for (long i = 0; i < cases && i < CASES; i++)
        one_case(&s);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && check_self.pe == 0; i++)
        printf("%s by hier: %u\n", kind_names[kinds[i]], s.seen[kinds[i]]);
    coll_state_drop(&s.coll);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
