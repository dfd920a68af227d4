/* SPDX-License-Identifier: MIT */
/* Collectives on streams: kind x type x operator x size x team x place of dest and source x engines, each result
 * compared bit by bit, guards and all. Sizes are fixed ones, those about a packet of each block, and those about the
 * borders where the library's choice changes, which shmemx_coll_explain tells. Run once for each set of algorithms that
 * SHMEM_COLL forces: then every one of them must have been the choice of a case, or the run tested nothing.
 */
#include "matrix.h"

#include "coll_case.h"

static const char *const kind_names[] = {KIND_NAMES};
static const char *const team_names[] = {TEAM_NAMES};
static const char *const memory_names[] = {MEMORY_NAMES};

/* Bytes and a number of elements more or less; or where the algorithm changes, or the grid too, for the border-th time,
 * counted from 1 on. */
struct size {
    size_t bytes;
    int more;
    int border;
    bool of_shape;
};
#define PACKET 8192
#define EXACTLY(bytes, more)  \
    {                         \
        bytes, more, 0, false \
    }
#define ABOUT(bytes) EXACTLY(bytes, -1), EXACTLY(bytes, 0), EXACTLY(bytes, 1)
#define AT_BORDER(k) \
    {0, -1, k, false}, {0, 0, k, false}, { 0, 1, k, false }
#define AT_SHAPE(k) \
    {0, -1, k, true}, { 0, 0, k, true }
static const struct size sizes[] = {EXACTLY(0, 0),     EXACTLY(0, 1), EXACTLY(0, 7),      ABOUT(64),
                                    EXACTLY(1000, 0),  ABOUT(PACKET), EXACTLY(20000, 3),  ABOUT(3 * PACKET),
                                    ABOUT(8 * PACKET), AT_SHAPE(1),   AT_SHAPE(2),        AT_BORDER(1),
                                    AT_BORDER(2),      AT_BORDER(3),  EXACTLY(200000, 1), EXACTLY(SIZE_MAX / 4, 0)};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), SLOTS = 2, SLOT_STEP = 200, SHIFTS = 4 };

enum dim { KIND, TYPE, OP, SIZE, TEAM, IN_PLACE, DEST, SOURCE, SHIFT, WITH_ENGINES, SLOT };
static const struct matrix_dim dims[] = {{"kind", KINDS},      {"type", VALUES_TYPES}, {"op", VALUES_OPS},
                                         {"size", SIZES},      {"team", TEAMS},        {"in place", 2},
                                         {"dest", MEMORIES},   {"source", MEMORIES},   {"shift", SHIFTS},
                                         {"engines", ENGINES}, {"slot", SLOTS},        {NULL, 0}};

struct matrix_state {
    struct coll_state coll;
    struct coll_team teams[TEAMS];
    unsigned seen[KINDS]; /* cases by the forced algorithm of each kind */
    unsigned cases;
};

/* ---- which cases there are ---- */

static bool in_place_valid(const int *v)
{
    if (v[KIND] == SHMEMX_ALLTOALL || v[KIND] == SHMEMX_ALLTOALLV || v[KIND] == SHMEMX_PERMUTE)
        return false;
    return v[DEST] == v[SOURCE] && (v[SHIFT] == 0 || v[SHIFT] == SHIFTS - 1);
}
static bool engines_valid(const int *v)
{
    if (v[KIND] == SHMEMX_ALLTOALLV || v[KIND] < SHMEMX_FCOLLECT || !memory_is_near(v[DEST]))
        return false;
    return (v[WITH_ENGINES] == ENGINES_YES || v[KIND] == SHMEMX_FCOLLECT) && !device_flag("SHMEM_FORCE_PROXY");
}
/* Of types that are only moved one of each size is enough. */
static bool type_valid(const int *v)
{
    int t = v[TYPE];
    if (coll_reduces(v[KIND]))
        return values_has_op(t, v[OP]);
    if (v[KIND] == SHMEMX_ALLTOALLV)
        return v[OP] == 0 && t == SHMEMX_UINT8 && memory_is_symmetric(v[DEST]) && memory_is_symmetric(v[SOURCE]);
    return v[OP] == 0 &&
           (t == SHMEMX_UINT8 || t == SHMEMX_INT16 || t == SHMEMX_FLOAT || t == SHMEMX_UINT64 || t == SHMEMX_COMPLEXD);
}
/* The whole product is without those that are like others: not each memory with each, a slot with each of them, and
 * the longest buffers only for sums of the world. */
static bool full_valid(const int *v)
{
    if (!device_flag("SHMEM_TEST_FULL"))
        return true;
    if (v[SIZE] == SIZES - 1 && (v[OP] != SHMEMX_SUM || v[TEAM] != TEAM_WORLD || v[SHIFT] != 0))
        return false;
    bool mixed = v[DEST] == MEMORY_REGISTERED || v[SOURCE] == MEMORY_REGISTERED || v[DEST] == MEMORY_HOST ||
                 v[SOURCE] == MEMORY_HOST;
    return v[SLOT] == (v[DEST] + v[SHIFT]) % SLOTS && (v[DEST] == v[SOURCE] || !mixed);
}
static bool case_valid(const int *v)
{
    return full_valid(v) && type_valid(v) && (v[IN_PLACE] == 0 || in_place_valid(v)) &&
           (v[WITH_ENGINES] == 0 || engines_valid(v));
}

/* ---- the choice ---- */

/* The name that SHMEM_COLL gives for the kind; false: none. */
static bool forced_name(int kind, char *name, size_t bytes)
{
    const char *text = getenv("SHMEM_COLL");
    char wanted[40];
    size_t len = (size_t)snprintf(wanted, sizeof(wanted), "stream.%s", kind_names[kind]);
    for (; text != NULL && *text != 0; text = strchr(text, ',') != NULL ? strchr(text, ',') + 1 : NULL)
        if (strncmp(text, wanted, len) == 0 && text[len] == '=') {
            snprintf(name, bytes, "%.*s", (int)strcspn(text + len + 1, ":,"), text + len + 1);
            return true;
        }
    return false;
}

/* "allreduce of 64 bytes on 4 PEs, on a stream: lines, 2 blocks of 32 threads (why)": "lines", or all up to why. */
static void choice_of(struct matrix_state *m, const struct coll_case *c, const char *end, char *text, size_t bytes)
{
    char line[700];
    shmemx_coll_t q = coll_request(&m->coll, c);
    (void)shmemx_coll_explain(&q, line, sizeof(line));
    const char *name = strstr(line, ": ") != NULL ? strstr(line, ": ") + 2 : line;
    snprintf(text, bytes, "%.*s", (int)strcspn(name, end), name);
}
static bool choice_differs(struct matrix_state *m, const struct coll_case *c, size_t a, size_t b, const char *end)
{
    char first[200], second[200];
    struct coll_case other = *c;
    other.nelems = a;
    choice_of(m, &other, end, first, sizeof(first));
    other.nelems = b;
    choice_of(m, &other, end, second, sizeof(second));
    return strcmp(first, second) != 0;
}

/* The least number of elements behind the size's border; `most` where there are fewer borders. */
static size_t border_of(struct matrix_state *m, const struct coll_case *c, const struct size *size, size_t most)
{
    const char *end = size->of_shape ? "(" : ",";
    int left = size->border;
    for (size_t low = 1; low < most; low *= 2) {
        size_t high = 2 * low < most ? 2 * low : most;
        if (!choice_differs(m, c, low, high, end) || --left > 0)
            continue;
        size_t a = low;
        while (high - a > 1) {
            size_t middle = a + (high - a) / 2;
            if (choice_differs(m, c, a, middle, end))
                high = middle;
            else
                a = middle;
        }
        return high;
    }
    return most;
}

static void count_choice(struct matrix_state *m, const struct coll_case *c)
{
    char forced[40], text[200];
    if (c->nelems == 0 || !forced_name(c->kind, forced, sizeof(forced)))
        return;
    choice_of(m, c, ",", text, sizeof(text));
    m->seen[c->kind] += strcmp(text, forced) == 0;
}

/* ---- a case ---- */

static size_t most_elements(const struct coll_case *c)
{
    return coll_needs() / values_types[c->type].bytes / (size_t)c->team->n - 32;
}
static void set_size(struct matrix_state *m, struct coll_case *c, const struct size *size)
{
    size_t most = most_elements(c), n = size->bytes / values_types[c->type].bytes;
    if (size->border > 0 && c->kind != SHMEMX_ALLTOALLV) { /* lengths of blocks are not the library's business */
        buffer_begin(&m->coll.dest, c->dest_memory, 0);
        buffer_begin(&m->coll.source, c->source_memory, 0);
        n = border_of(m, c, size, most / 4);
    }
    n = size->more < 0 ? (n > 0 ? n - 1 : 0) : n + (size_t)size->more;
    c->nelems = n < most ? n : most;
}

static void set_case(struct matrix_state *m, const int *v, struct coll_case *c)
{
    size_t each = values_types[v[TYPE]].bytes / values_types[v[TYPE]].parts;
    memset(c, 0, sizeof(*c));
    c->kind = v[KIND];
    c->type = v[TYPE];
    c->op = v[OP];
    c->team = &m->teams[v[TEAM]];
    c->dest_memory = v[DEST];
    c->source_memory = v[SOURCE];
    c->in_place = v[IN_PLACE] != 0;
    c->engines = v[WITH_ENGINES];
    c->slot = v[SLOT] * SLOT_STEP;
    c->round = ++m->cases;
    c->root = (int)(c->round % (unsigned)c->team->n);
    int turn = (int)(c->round / 3 % (unsigned)c->team->n);
    c->to = (c->team->me + turn) % c->team->n;
    c->from = (c->team->me + c->team->n - turn) % c->team->n;
    /* Memory that is nobody else's may lie otherwise on each member. */
    size_t dest_own = v[DEST] == MEMORY_OWN ? (size_t)c->team->me : 0;
    size_t source_own = v[SOURCE] == MEMORY_OWN ? (size_t)c->team->me : 0;
    c->dest_shift = each * ((v[SHIFT] & 1) != 0 ? 1 + dest_own : 0);
    c->source_shift = each * ((v[SHIFT] & 2) != 0 ? 1 + source_own : 0);
    if (c->in_place)
        c->source_shift = c->dest_shift;
    set_size(m, c, &sizes[v[SIZE]]);
}

static void describe(const struct coll_case *c, const int *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s of %s %s, %zu elements, team %s, slot %d%s, dest %s + %zu, source %s + %zu%s",
             kind_names[c->kind], values_types[c->type].name, coll_reduces(c->kind) ? values_op_names[c->op] : "",
             c->nelems, team_names[v[TEAM]], c->slot, c->in_place ? ", in place" : "", memory_names[c->dest_memory],
             c->dest_shift, memory_names[c->source_memory], c->source_shift,
             c->engines == ENGINES_YES      ? ", engines"
             : c->engines == ENGINES_SIGNAL ? ", engines with signals"
                                            : "");
}

static void run_case(void *state, const int *v)
{
    struct matrix_state *m = (struct matrix_state *)state;
    struct coll_case c;
    char text[300], choice[300];
    set_case(m, v, &c);
    describe(&c, v, text, sizeof(text));
    coll_prepare_all(&m->coll, &c);
    shmemx_coll_t q = coll_request(&m->coll, &c);
    if (device_flag("SHMEM_TEST_VERBOSE")) {
        choice_of(m, &c, "", choice, sizeof(choice));
        fprintf(stderr, "[pe %d] %s: %s\n", check_self.pe, text, choice);
    }
    CHECK_EQ_NAMED(shmemx_coll_on_stream(&q, m->coll.stream), 0, text);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(m->coll.stream), 0, text);
    coll_check_all(&m->coll, &c, text);
    count_choice(m, &c);
}

/* Every algorithm that was asked for has been chosen; through the proxy some cannot. */
static void check_choices(const struct matrix_state *m)
{
    char forced[40], text[120];
    for (int kind = 0; kind < KINDS; kind++) {
        if (!forced_name(kind, forced, sizeof(forced)))
            continue;
        snprintf(text, sizeof(text), "cases in which %s was by %s: %u", kind_names[kind], forced, m->seen[kind]);
        CHECK_NAMED(m->seen[kind] > 0 || device_flag("SHMEM_FORCE_PROXY"), text);
        if (check_self.pe == 0)
            printf("%s\n", text);
    }
}

/* ---- cases that a selection may miss ---- */

static int size_of(size_t bytes)
{
    int i = 0;
    while (sizes[i].bytes != bytes)
        i++;
    return i;
}

/* Each kind plainly, which every algorithm can do. */
static void run_plain(struct matrix_state *m)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int v[MATRIX_DIMS] = {0};
        v[KIND] = kind;
        v[TYPE] = kind == SHMEMX_ALLTOALLV ? SHMEMX_UINT8 : SHMEMX_FLOAT;
        v[SIZE] = size_of(20000);
        CHECK_OR_EXIT(type_valid(v));
        run_case(m, v);
    }
}

static void broadcast_by_engines_from_registered_memory(struct matrix_state *m)
{
    int v[MATRIX_DIMS] = {0};
    v[KIND] = SHMEMX_BROADCAST;
    v[SIZE] = size_of(20000);
    v[SOURCE] = MEMORY_REGISTERED;
    v[WITH_ENGINES] = ENGINES_YES;
    if (engines_valid(v))
        run_case(m, v);
    else
        CHECK(device_flag("SHMEM_FORCE_PROXY"));
}

/* Before its first call a slot explains nothing. */
static void make_slots(struct matrix_state *m)
{
    for (int team = 0; team < TEAMS; team++)
        for (int slot = 0; slot < SLOTS; slot++) {
            shmemx_coll_t q = shmemx_coll_of(SHMEMX_BARRIER, m->teams[team].team, NULL, NULL, 0, SHMEMX_UINT8);
            q.slot = slot * SLOT_STEP;
            CHECK_OR_EXIT(shmemx_coll_on_stream(&q, m->coll.stream) == 0);
        }
    CHECK_EQ(shmemx_stream_synchronize(m->coll.stream), 0);
}

/* ---- the reference itself ---- */

enum { REFERENCE_MEMBERS = 5, REFERENCE_ELEMENTS = 100 };

/* Element i of floating ones, its first part. */
static double as_double(const struct values_type *t, const unsigned char *elements, size_t i)
{
    union values_chunk c;
    values_decode(t, elements + i * t->bytes, 1, &c);
    return t->scalars == VALUES_DOUBLE ? c.d[0] : (double)c.f[0];
}

/* What is compared bit by bit is as far from the same in double as rounding allows. */
static void check_reference_of(int type, int op)
{
    static const int world[REFERENCE_MEMBERS] = {0, 1, 2, 3, 4};
    const struct values_type *t = &values_types[type];
    int fraction = values_is_short(t) ? values_shorts[t->scalars].fraction_bits : t->scalars == VALUES_FLOAT ? 23 : 52;
    unsigned char result[REFERENCE_ELEMENTS * 8], source[REFERENCE_ELEMENTS * 8];
    double exact[REFERENCE_ELEMENTS], size[REFERENCE_ELEMENTS];
    char text[100];
    snprintf(text, sizeof(text), "the reference: %s %s", t->name, values_op_names[op]);
    values_reduce(type, op, world, REFERENCE_MEMBERS, 1, 0, REFERENCE_ELEMENTS, result);
    for (int m = 0; m < REFERENCE_MEMBERS; m++) {
        values_make(t, op, world[m], 1, 0, REFERENCE_ELEMENTS, source);
        for (size_t i = 0; i < REFERENCE_ELEMENTS; i++) {
            double x = as_double(t, source, i);
            exact[i] = m == 0 ? x : VALUES_FOLD(double, values_folded(op), exact[i], x);
            size[i] = m == 0 ? fabs(x) : op == SHMEMX_PROD ? size[i] * fabs(x) : size[i] + fabs(x);
        }
    }
    double scale = op == SHMEMX_AVG ? 1.0 / REFERENCE_MEMBERS : op == SHMEMX_SCALED_SUM ? VALUES_SCALE : 1.0;
    for (size_t i = 0; i < REFERENCE_ELEMENTS; i++)
        exact[i] *= scale;
    for (size_t i = 0; i < REFERENCE_ELEMENTS; i++)
        CHECK_NAMED(fabs(as_double(t, result, i) - exact[i]) <= REFERENCE_MEMBERS * ldexp(size[i], -fraction), text);
}
static void check_reference(void)
{
    for (int type = SHMEMX_FLOAT; type < VALUES_TYPES; type++)
        for (int op = SHMEMX_SUM; op < VALUES_OPS; op++)
            if (!values_is_integer(&values_types[type]) && values_types[type].parts == 1 && values_has_op(type, op))
                check_reference_of(type, op);
}

static int test_main(void)
{
    COLL_INIT();
    struct matrix_state m;
    check_reference();
    memset(&m, 0, sizeof(m));
    coll_teams_make(m.teams);
    coll_state_make(&m.coll);
    make_slots(&m);
    run_plain(&m);
    broadcast_by_engines_from_registered_memory(&m);
    struct matrix matrix = {"collectives on streams", dims, case_valid, run_case, &m};
    matrix_run(&matrix);
    check_choices(&m);
    coll_state_drop(&m.coll);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
