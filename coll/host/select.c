/* SPDX-License-Identifier: MIT */
/* Which algorithm runs: one table, read from top to bottom. Rows are chosen by what all members know alike (operation,
 * bytes, team size, load of the node, reachability), so nobody has to ask anybody.
 * Forced by SHMEM_COLL=operation=algorithm,..., explained by SHMEM_COLL_EXPLAIN=1.
 * Called by coll_host.c, barrier.c and init.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../shmem/collectives.h"
#include "../stream/coll_stream.h"
#include "alltoall.h"
#include "bcast.h"
#include "collect.h"
#include "hier_move.h"
#include "hier_reduce.h"
#include "reduce.h"
#include "scan.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const op_names[COLL_OPS] = {"barrier",  "broadcast", "collect", "fcollect",
                                               "alltoall", "alltoalls", "reduce",  "scan"};

#define KIB 1024u
#define ALL_PES INT_MAX
#define ALL_BYTES SIZE_MAX
#define RUN(function) function, NULL
#define BARRIER(function) NULL, function

/* clang-format off */
static const struct coll_row rows[] = {
/*   operation       name             function                           needs              load        PEs      bytes       why */
    {COLL_BARRIER,   "central",       BARRIER(iso_barrier_central),       NEEDS_SCRATCH_PIECES, LOAD_OVER,  ALL_PES, ALL_BYTES,
     "PEs share cores: one atomic each, and each is scheduled once"},
    {COLL_BARRIER,   "hier",         BARRIER(iso_barrier_hier),         NEEDS_NODES,        LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: a counter on each, log2 n messages for each"},
    {COLL_BARRIER,   "flags",         BARRIER(iso_barrier_flags),         NEEDS_ANY,          LOAD_ANY,   8,       ALL_BYTES,
     "one hop"},
    {COLL_BARRIER,   "dissemination", BARRIER(iso_barrier_dissemination), NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "log2 n hops instead of n lines to read"},

    {COLL_BROADCAST, "hier",         RUN(hier_bcast),                  NEEDS_NODES,        LOAD_ANY,   ALL_PES, 16 * KIB,
     "PEs of several nodes: one message to each, handed on by pointer"},
    {COLL_BROADCAST, "pipe",          RUN(hier_bcast_pipe),             NEEDS_NODES,        LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: from node to node in chunks, each node sends them once"},
    {COLL_BROADCAST, "push",          RUN(bcast_push),                    NEEDS_ANY,          LOAD_ANY,   16,      2 * KIB,
     "one hop, nobody answers"},
    {COLL_BROADCAST, "tree",          RUN(bcast_tree),                    NEEDS_ANY,          LOAD_ANY,   ALL_PES, 2 * KIB,
     "the root writes log2 n dests instead of n"},
    {COLL_BROADCAST, "pipe",          RUN(hier_bcast_pipe),             NEEDS_PIPE,         LOAD_ANY,   ALL_PES, ALL_BYTES,
     "a PE on each node: from one to the next in chunks, and nobody answers"},
    {COLL_BROADCAST, "pull",          RUN(bcast_pull),                    NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "receivers copy at the same time, and each line crosses once"},

    {COLL_COLLECT,   "hier",         RUN(hier_collect),                NEEDS_NODES_HEADS,  LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: each block once to each node, copied there by pointer"},
    {COLL_COLLECT,   "push",          RUN(collect_push),                  NEEDS_FAR,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "lengths and short blocks in one hop, long blocks straight into dest, all under way at once"},
    {COLL_COLLECT,   "pull",          RUN(collect_pull),                  NEEDS_ANY,          LOAD_SPARE, ALL_PES, ALL_BYTES,
     "lengths and short blocks in one hop; of long blocks, each line crosses once"},
    {COLL_COLLECT,   "push",          RUN(collect_push),                  NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "lengths and short blocks in one hop, long blocks straight into dest"},

    {COLL_FCOLLECT,  "node_scratch",         RUN(fcollect_scratch),                NEEDS_SCRATCH,        LOAD_OVER,  ALL_PES, ISO_INBOX_BYTES,
     "PEs share cores: each touches few lines and is scheduled once"},
    {COLL_FCOLLECT,  "hier",         RUN(hier_fcollect),               NEEDS_NODES_SCRATCH,  LOAD_ANY,   ALL_PES, 1 * KIB,
     "PEs of several nodes: all blocks of a node in one message"},
    {COLL_FCOLLECT,  "rails",         RUN(hier_fcollect_rails),         NEEDS_NODES,        LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: each block once to each node, copied there by pointer as it comes"},
    {COLL_FCOLLECT,  "inbox",        RUN(fcollect_inbox),               NEEDS_INBOX,       LOAD_ANY,   ALL_PES, ISO_INBOX_BYTES,
     "one hop, data and flag in one line"},
    {COLL_FCOLLECT,  "push",          RUN(fcollect_push),                 NEEDS_ANY,          LOAD_ANY,   ALL_PES, 1 * KIB,
     "one hop, straight into dest"},
    {COLL_FCOLLECT,  "push",          RUN(fcollect_push),                 NEEDS_FAR,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "a PE on each node: straight into dest, all under way at once"},
    {COLL_FCOLLECT,  "pull",          RUN(fcollect_pull),                 NEEDS_ANY,          LOAD_SPARE, ALL_PES, ALL_BYTES,
     "each line crosses once, which is worth a second meeting"},
    {COLL_FCOLLECT,  "push",          RUN(fcollect_push),                 NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs share cores: one meeting, straight into dest"},

    {COLL_ALLTOALL,  "node_scratch",         RUN(alltoall_scratch),                NEEDS_SCRATCH_ROWS,   LOAD_OVER,  ALL_PES, ISO_INBOX_BYTES,
     "PEs share cores: each touches few lines and is scheduled once"},
    {COLL_ALLTOALL,  "hier",         RUN(hier_alltoall),               NEEDS_NODES_ROWS,   LOAD_ANY,   ALL_PES, 256,
     "PEs of several nodes: all blocks from node to node in one message"},
    {COLL_ALLTOALL,  "inbox",        RUN(alltoall_inbox),               NEEDS_INBOX,       LOAD_ANY,   ALL_PES, ISO_INBOX_BYTES,
     "one hop, data and flag in one line"},
    {COLL_ALLTOALL,  "push",          RUN(alltoall_push),                 NEEDS_ANY,          LOAD_ANY,   ALL_PES, 1 * KIB,
     "one hop, straight into dest"},
    {COLL_ALLTOALL,  "push",          RUN(alltoall_push),                 NEEDS_FAR,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "blocks for other nodes all under way at once, while those for this one are copied"},
    {COLL_ALLTOALL,  "pull",          RUN(alltoall_pull),                 NEEDS_ANY,          LOAD_SPARE, ALL_PES, ALL_BYTES,
     "each line crosses once, which is worth a second meeting"},
    {COLL_ALLTOALL,  "push",          RUN(alltoall_push),                 NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs share cores: one meeting, straight into dest"},

    {COLL_ALLTOALLS, "inbox",        RUN(alltoalls_inbox),              NEEDS_INBOX,       LOAD_ANY,   ALL_PES, ISO_INBOX_BYTES,
     "one hop, data and flag in one line"},
    {COLL_ALLTOALLS, "staged",        RUN(alltoalls_staged),              NEEDS_FAR,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "packed where no pointer reaches"},
    {COLL_ALLTOALLS, "push",          RUN(alltoalls_push),                NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "one hop, straight into dest"},

    {COLL_REDUCE,    "node_scratch",         RUN(reduce_scratch),                  NEEDS_SCRATCH_PIECES, LOAD_OVER,  ALL_PES, 512,
     "PEs share cores: one meeting"},
    {COLL_REDUCE,    "hier",         RUN(hier_reduce),                 NEEDS_NODES_SCRATCH,  LOAD_ANY,   ALL_PES, 1 * KIB,
     "PEs of several nodes: all operands of a node in one message"},
    {COLL_REDUCE,    "inbox",        RUN(reduce_inbox),                 NEEDS_INBOX,       LOAD_ANY,   ALL_PES,      ISO_INBOX_BYTES,
     "one hop, data and flag in one line"},
    {COLL_REDUCE,    "staged",        RUN(reduce_staged),                 NEEDS_FAR_STAGE,    LOAD_ANY,   2,       ISO_STAGE_BYTES,
     "a PE on each of two nodes: no more bytes than any other way, and one hop"},
    {COLL_REDUCE,    "staged",        RUN(reduce_staged),                 NEEDS_FAR_STAGE,    LOAD_ANY,   4,       2 * KIB,
     "few PEs on several nodes: more bytes, but one hop"},
    {COLL_REDUCE,    "staged",        RUN(reduce_staged),                 NEEDS_STAGE,        LOAD_OVER,  8,       2 * KIB,
     "one hop, everybody reduces everything"},
    {COLL_REDUCE,    "staged",        RUN(reduce_staged),                 NEEDS_STAGE,        LOAD_ANY,   8,       512,
     "one hop, everybody reduces everything; above, a part each is faster"},
    {COLL_REDUCE,    "twoshot",       RUN(reduce_twoshot),                NEEDS_PIPE,         LOAD_ANY,   2,       ALL_BYTES,
     "a PE on each of two nodes: as many bytes as by chain, both ways from the begin"},
    {COLL_REDUCE,    "chain",         RUN(hier_reduce_chain),           NEEDS_CHAIN,        LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: parts run through the nodes in chunks, results back"},
    {COLL_REDUCE,    "twoshot_central", RUN(reduce_twoshot_central),      NEEDS_SCRATCH_PIECES, LOAD_OVER,  ALL_PES, ALL_BYTES,
     "everybody reduces a part; PEs share cores and meet at a counter"},
    {COLL_REDUCE,    "twoshot",       RUN(reduce_twoshot),                NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "everybody reduces a part for all"},

    {COLL_SCAN,      "node_scratch",         RUN(scan_scratch),                    NEEDS_SCRATCH_PIECES, LOAD_OVER,  ALL_PES, 512,
     "PEs share cores: one meeting"},
    {COLL_SCAN,      "hier",         RUN(hier_scan),                   NEEDS_NODES_SCRATCH,  LOAD_ANY,   ALL_PES, 1 * KIB,
     "PEs of several nodes: all operands of a node in one message"},
    {COLL_SCAN,      "inbox",        RUN(scan_inbox),                   NEEDS_INBOX,       LOAD_ANY,   ALL_PES,      ISO_INBOX_BYTES,
     "one hop, data and flag in one line"},
    {COLL_SCAN,      "chain",         RUN(hier_scan_chain),             NEEDS_CHAIN_SCAN,   LOAD_ANY,   ALL_PES, ALL_BYTES,
     "PEs of several nodes: sums run through the nodes in chunks"},
    {COLL_SCAN,      "twoshot_central", RUN(scan_twoshot_central),        NEEDS_SCRATCH_PIECES, LOAD_OVER,  ALL_PES, ALL_BYTES,
     "everybody scans a part; PEs share cores and meet at a counter"},
    {COLL_SCAN,      "twoshot",       RUN(scan_twoshot),                  NEEDS_ANY,          LOAD_ANY,   ALL_PES, ALL_BYTES,
     "everybody scans a part for all"},
};
/* clang-format on */

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What is in force on this PE. */
struct select {
    const struct coll_row *first[COLL_OPS];
    const struct coll_row *forced[COLL_OPS]; /* NULL: none */
    bool explain;
    unsigned char explained[ROWS];
};

static struct select *in_force(void) { return (struct select *)ISO->select; }

/* ---- the choice ---- */

/* The facts of a call that are equal on all members of the team: all that a row may be chosen by. The functions below
 * get nothing else of a call: a member that chose by a fact of its own (an address, its number, what it reaches) would
 * run another schedule than the others. */
struct coll_facts {
    enum coll_op op;
    size_t bytes; /* of a member's block; of collect 0, since members collect different lengths */
    int n_pes;
    int most_near;       /* members of the fullest of several nodes; 0: the team is on one node */
    bool in_order;       /* of several nodes: members are numbered node by node */
    bool central;        /* all members reach the leader by pointer */
    enum coll_load load; /* of that one node, whose PEs have counted its cores together */
    bool exact;          /* the type and operator of a reduction: any order gives the same bits */
    bool in_place;       /* dest is source, which the specification has alike on all members; never of 0 bytes */
};

static struct coll_facts facts_of(enum coll_op op, const struct team *team, const struct coll_work *w)
{
    const struct slot_nodes *nodes = team->slot.nodes;
    struct coll_facts f = {.op = op, .n_pes = team->n_pes, .load = LOAD_SPARE};
    f.central = team->slot.central != NULL;
    if (ISO->oversubscribed && f.central)
        f.load = LOAD_OVER;
    if (nodes != NULL) {
        f.most_near = nodes->most_near;
        f.in_order = nodes->in_order;
    }
    if (w != NULL) {
        f.bytes = op == COLL_COLLECT ? 0 : w->bytes;
        f.exact = w->exact;
        f.in_place = f.bytes > 0 && w->dest.base == w->source.base;
    }
    return f;
}

static bool fits_scratch(const struct coll_facts *f, size_t bytes)
{
    return f->most_near > 1 && bytes <= ISO_SCRATCH_BYTES && (bytes + 16) * ((size_t)f->n_pes + 1) <= ISO_SCRATCH_BYTES;
}

/* What needs several nodes. */
static bool meets_hier_needs(const struct coll_row *row, const struct coll_facts *f)
{
    switch (row->needs) {
    case NEEDS_NODES:
        return f->most_near > 1;
    case NEEDS_NODES_SCRATCH:
        return fits_scratch(f, f->bytes);
    case NEEDS_NODES_HEADS:
        return fits_scratch(f, ISO_INBOX_BYTES);
    case NEEDS_NODES_ROWS:
        return f->most_near > 1 && f->bytes <= ISO_SCRATCH_BYTES / (size_t)f->n_pes / (size_t)f->most_near;
    case NEEDS_PIPE:
        return f->most_near > 0;
    case NEEDS_CHAIN:
        return f->most_near > 0 && (f->in_order || f->exact);
    case NEEDS_CHAIN_SCAN:
        return f->most_near > 0 && f->in_order && !f->in_place;
    default:
        return false;
    }
}

static bool meets_needs(const struct coll_row *row, const struct coll_facts *f)
{
    size_t n = (size_t)f->n_pes;
    switch (row->needs) {
    case NEEDS_ANY:
        return true;
    case NEEDS_INBOX:
        return f->bytes <= ISO_INBOX_BYTES;
    case NEEDS_STAGE:
        return f->bytes <= ISO_STAGE_BYTES;
    case NEEDS_SCRATCH:
        return f->central && f->bytes <= ISO_SCRATCH_BYTES / n;
    case NEEDS_SCRATCH_ROWS:
        return f->central && f->bytes <= ISO_SCRATCH_BYTES / n / n;
    case NEEDS_SCRATCH_PIECES:
        return f->central;
    case NEEDS_FAR:
        return !f->central;
    case NEEDS_FAR_STAGE:
        return !f->central && f->bytes <= ISO_STAGE_BYTES;
    default:
        return meets_hier_needs(row, f);
    }
}

static bool is_choice(const struct coll_row *row, const struct coll_facts *f)
{
    return f->bytes <= row->max_bytes && f->n_pes <= row->max_pes &&
           (row->load == LOAD_ANY || row->load == f->load) && meets_needs(row, f);
}

static ISO_COLD void explain(struct select *self, const struct coll_row *row, const struct team *team, size_t bytes)
{
    if (self->explained[row - rows] || team->my_pe != 0)
        return;
    self->explained[row - rows] = 1;
    const char *why = row->why, *how = "chosen";
    if (row == self->forced[row->op])
        how = "forced by SHMEM_COLL";
    else if (self->forced[row->op] != NULL)
        how = "chosen, because the forced one cannot do this";
    log_answer("%s of %zu bytes on %d PEs%s: %s (%s: %s)", op_names[row->op], bytes, team->n_pes,
               ISO->oversubscribed ? ", more PEs than cores" : "", row->name, how, why);
}

const struct coll_row *iso_select_row(enum coll_op op, const struct team *team, const struct coll_work *w)
{
    struct select *self = in_force();
    struct coll_facts facts = facts_of(op, team, w);
    const struct coll_row *row = self->forced[op];
    if (ISO_LIKELY(row == NULL) || !meets_needs(row, &facts))
        /* Each operation has a row without conditions: the walk ends inside the operation's rows. */
        for (row = self->first[op]; !is_choice(row, &facts); row++)
            continue;
    if (ISO_UNLIKELY(self->explain))
        explain(self, row, team, facts.bytes);
    return row;
}

void (*iso_coll_choose_barrier(struct team *team))(struct team *team, const char *call)
{
    return iso_select_row(COLL_BARRIER, team, NULL)->barrier;
}

/* ---- SHMEM_COLL ---- */

static bool is_word(const char *begin, const char *end, const char *name)
{
    size_t length = (size_t)(end - begin);
    return strlen(name) == length && memcmp(begin, name, length) == 0;
}

/* The last row of this algorithm, which may have more than one, the later the more general; NULL: there is no such. */
static const struct coll_row *find_row(enum coll_op op, const char *begin, const char *end)
{
    for (int i = ROWS; i-- > 0;)
        if (rows[i].op == op && is_word(begin, end, rows[i].name))
            return &rows[i];
    return NULL;
}

/* The names of an operation's algorithms, or of all operations (op == COLL_OPS), for a sentence. */
static void list_names(enum coll_op op, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < (op == COLL_OPS ? (int)COLL_OPS : (int)ROWS) && used < bytes; i++) {
        const char *name = op == COLL_OPS ? op_names[i] : rows[i].name;
        if (op == COLL_OPS || (rows[i].op == op && find_row(op, name, name + strlen(name)) == &rows[i]))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

static int force(struct select *self, const char *begin, const char *equals, const char *end)
{
    char names[256];
    enum coll_op op = COLL_OPS;
    for (int i = 0; i < COLL_OPS; i++)
        if (is_word(begin, equals, op_names[i]))
            op = (enum coll_op)i;
    if (op == COLL_OPS) {
        list_names(op, names, sizeof(names));
        log_error("SHMEM_COLL: \"%.*s\" is no operation; there are %s", (int)(equals - begin), begin, names);
        return -EINVAL;
    }
    self->forced[op] = equals < end ? find_row(op, equals + 1, end) : NULL;
    if (self->forced[op] != NULL)
        return 0;
    list_names(op, names, sizeof(names));
    log_error("SHMEM_COLL: \"%.*s\" names no algorithm of %s; there are %s", (int)(end - begin), begin, op_names[op],
              names);
    return -EINVAL;
}

static int read_forced(struct select *self, const char *text)
{
    for (const char *begin = text; *begin != '\0';) {
        const char *end = begin + strcspn(begin, ","), *equals = begin + strcspn(begin, "=,");
        int status = equals == begin && end == begin ? 0 : force(self, begin, equals, end);
        if (status != 0)
            return status;
        begin = *end == ',' ? end + 1 : end;
    }
    return 0;
}

/* Rows of an operation stand together, in the order of enum coll_op; each has one that is always possible. */
static __attribute__((unused)) bool table_is_valid(void)
{
    bool is_total[COLL_OPS] = {false};
    for (int i = 0; i < ROWS; i++) {
        const struct coll_row *row = &rows[i];
        if (i > 0 && row->op != row[-1].op && (int)row->op != (int)row[-1].op + 1)
            return false;
        is_total[row->op] |=
            row->max_bytes == ALL_BYTES && row->max_pes == ALL_PES && row->load == LOAD_ANY && row->needs == NEEDS_ANY;
    }
    for (int op = 0; op < COLL_OPS; op++)
        if (!is_total[op])
            return false;
    return true;
}

static int check_on_stream(const char *text)
{
    struct stream_rows unused = {.n = 0};
    return iso_stream_text_forced(text, &unused);
}

/* What is in it is for the device to judge. */
static int check_table(const char *path)
{
    FILE *file = *path != '\0' ? fopen(path, "re") : NULL;
    int rc = file == NULL && *path != '\0' ? -errno : 0;
    if (rc != 0)
        log_error("SHMEM_COLL_TABLE: %s: %m", path);
    if (file != NULL)
        fclose(file);
    return rc;
}

int iso_coll_check(const struct env *env)
{
    struct select unused;
    memset(&unused, 0, sizeof unused);
    int rc = read_forced(&unused, env->coll);
    if (rc == 0)
        rc = check_on_stream(env->coll_on_stream);
    return rc != 0 ? rc : check_table(env->coll_table);
}

int iso_coll_start(void)
{
    assert(table_is_valid());
    struct select *self = (struct select *)calloc(1, sizeof(*self));
    if (self == NULL)
        return -ENOMEM;
    for (int i = ROWS; i-- > 0;)
        self->first[rows[i].op] = &rows[i];
    self->explain = ISO->env->coll_explain;
    int status = read_forced(self, ISO->env->coll);
    if (status == 0)
        status = iso_active_set_start();
    if (status != 0)
        free(self);
    else
        ISO->select = self;
    return status;
}

void iso_coll_stop(void)
{
    iso_active_set_stop();
    free(ISO->select);
    ISO->select = NULL;
}

/* ---- the table as text ---- */

struct text {
    char *at;
    size_t bytes, used;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = t->used < t->bytes ? t->bytes - t->used : 0;
    int n = vsnprintf(left > 0 ? t->at + t->used : NULL, left, format, args);
    va_end(args);
    t->used += n > 0 ? (size_t)n : 0;
}

static void add_row(struct text *t, const struct coll_row *row)
{
    static const char *const loads[] = {"any", "spare cores", "PEs > cores"};
    char bytes[24] = "any", pes[16] = "any";
    if (row->max_bytes != ALL_BYTES)
        snprintf(bytes, sizeof(bytes), "<= %zu", row->max_bytes);
    if (row->max_pes != ALL_PES)
        snprintf(pes, sizeof(pes), "<= %d", row->max_pes);
    bool forced = in_force() != NULL && in_force()->forced[row->op] == row;
    add(t, "%-10s %-16s %-8s %-6s %-12s %s%s\n", op_names[row->op], row->name, bytes, pes, loads[row->load], row->why,
        forced ? " [forced by SHMEM_COLL]" : "");
}

size_t iso_coll_table_text(char *text, size_t bytes)
{
    struct text t = {text, bytes, 0};
    add(&t, "%-10s %-16s %-8s %-6s %-12s %s\n", "operation", "algorithm", "bytes", "PEs", "load", "why");
    for (int i = 0; i < ROWS; i++)
        add_row(&t, &rows[i]);
    return t.used;
}
