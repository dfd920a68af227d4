/* SPDX-License-Identifier: MIT */
/* Data collectives in kernels: operation x type x form (block, grid) x size x blocks x threads x team and slot. In the
 * block form every block has a sequence of its own. Each kernel makes several calls in a row, its blocks and PEs out of
 * step, with a part of dest and source for each. */
#include "matrix_calls.h"

enum { OP_BROADCAST, OP_FCOLLECT, OP_ALLTOALL, OP_PERMUTE, OP_COUNT };
static const char *const op_names[] = {"broadcast", "fcollect", "alltoall", "permute"};

struct move_args {
    shmemd_t h;
    struct calls calls;
    int32_t op, root, to, from;
};

#define MOVE_FORMS(NAME, ...) \
    (a.calls.grid != 0 ? shmemd_##NAME##_grid(a.h, __VA_ARGS__) : shmemd_##NAME##_block(a.h, __VA_ARGS__))
#define MOVE_KERNEL(ID, T, BROADCAST, FCOLLECT, ALLTOALL, PERMUTE)              \
    SHMEMD_FN int move_call_##ID(struct move_args a, T *dest, const T *source)  \
    {                                                                           \
        if (a.op == OP_BROADCAST)                                               \
            return MOVE_FORMS(BROADCAST, dest, source, a.calls.nelems, a.root); \
        if (a.op == OP_FCOLLECT)                                                \
            return MOVE_FORMS(FCOLLECT, dest, source, a.calls.nelems);          \
        if (a.op == OP_ALLTOALL)                                                \
            return MOVE_FORMS(ALLTOALL, dest, source, a.calls.nelems);          \
        return MOVE_FORMS(PERMUTE, dest, source, a.calls.nelems, a.to, a.from); \
    }                                                                           \
    CALLS_KERNEL(move_##ID, move_args, T, move_call_##ID)
#define MOVE_TYPED(NAME, TYPE, ...) \
    MOVE_KERNEL(NAME, TYPE, NAME##_broadcast, NAME##_fcollect, NAME##_alltoall, NAME##_permute)
MATRIX_C_TYPES(MOVE_TYPED, )
SHMEM_DEVICE_HALF_TYPES(MOVE_TYPED, )
MOVE_KERNEL(mem, char, broadcastmem, fcollectmem, alltoallmem, permutemem)

struct move_row {
    const char *name;
    size_t size;
    shmemx_kernel_t kernel;
};
#define ROW(NAME, T, ...) {#NAME, sizeof(T), SHMEMX_KERNEL(move_##NAME)},
static const struct move_row rows[] = {MATRIX_C_TYPES(ROW, )
                                           SHMEM_DEVICE_HALF_TYPES(ROW, ){"mem", 1, SHMEMX_KERNEL(move_mem)}};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

enum dim { TYPE = CALLS_DIMS, OP, SHIFT };
static const struct matrix_dim dims[] = {CALLS_ALL_DIMS, {"type", ROWS}, {"op", OP_COUNT}, {"shift", 3}, {NULL, 0}};

/* One case: sizes in bytes. */
struct shape {
    size_t unit, dest_step, source_step, shift; /* unit: nelems of one PE */
    int root, to, from;
};

static struct shape move_shape(const int *v, const struct device_team *team, unsigned round)
{
    struct shape s;
    size_t n = (size_t)team->n;
    s.unit = calls_count(v) * rows[v[TYPE]].size;
    s.shift = (size_t)v[SHIFT] * rows[v[TYPE]].size;
    s.dest_step = calls_step((v[OP] == OP_FCOLLECT || v[OP] == OP_ALLTOALL ? s.unit * n : s.unit) + s.shift);
    s.source_step = calls_step((v[OP] == OP_ALLTOALL ? s.unit * n : s.unit) + s.shift);
    s.root = (int)(round % (unsigned)team->n);
    s.to = (team->me + (int)(round / 3)) % team->n;
    s.from = (team->me + team->n - (int)(round / 3) % team->n) % team->n;
    return s;
}

static bool move_valid(const int *v) { return calls_fit(v, calls_count(v) * rows[v[TYPE]].size); }

/* dest of this PE gets `len` bytes at `at` of what world PE `from` has at `offset` of its source. */
static void move_expect(struct calls_state *m, size_t at, int from, size_t offset, size_t len)
{
    unsigned char *to = m->dest.image + AREA_MARGIN + at;
    for (size_t k = 0; k < len; k++)
        to[k] = check_byte(from, from, m->round, offset + k);
}
static void move_model(struct calls_state *m, const int *v, const struct shape *s)
{
    const struct device_team *team = &m->team[v[CALLS_TEAM]];
    for (size_t part = 0; part < calls_parts(v); part++) {
        size_t at = part * s->dest_step + s->shift, offset = part * s->source_step + s->shift;
        if (v[OP] == OP_BROADCAST)
            move_expect(m, at, device_world_pe(team, s->root), offset, s->unit);
        else if (v[OP] == OP_PERMUTE)
            move_expect(m, at, device_world_pe(team, s->from), offset, s->unit);
        for (int pe = 0; pe < team->n && (v[OP] == OP_FCOLLECT || v[OP] == OP_ALLTOALL); pe++)
            move_expect(m, at + (size_t)pe * s->unit, device_world_pe(team, pe),
                        offset + (v[OP] == OP_ALLTOALL ? (size_t)team->me * s->unit : 0), s->unit);
    }
}

static struct move_args move_args_of(const struct calls_state *m, const int *v, const struct shape *s)
{
    struct move_args a;
    memset(&a, 0, sizeof(a));
    a.h = m->team[v[CALLS_TEAM]].handle;
    a.calls = calls_of(m, v, s->shift);
    a.calls.dest_step = s->dest_step;
    a.calls.source_step = s->source_step;
    a.op = v[OP];
    a.root = s->root;
    a.to = s->to;
    a.from = s->from;
    return a;
}

static void move_case(void *state, const int *v)
{
    struct calls_state *m = (struct calls_state *)state;
    struct shape s = move_shape(v, &m->team[v[CALLS_TEAM]], ++m->round);
    struct move_args a = move_args_of(m, v, &s);
    char calls[60], text[140];
    calls_text(v, calls, sizeof(calls));
    snprintf(text, sizeof(text), "%s %s_%s, %s, shift %d", rows[v[TYPE]].name, op_names[v[OP]],
             v[CALLS_GRID] != 0 ? "grid" : "block", calls, v[SHIFT]);
    area_fill(&m->source, calls_parts(v) * s.source_step, shmem_my_pe(), m->round);
    area_poison(&m->dest, calls_parts(v) * s.dest_step);
    calls_run(m, v, rows[v[TYPE]].kernel, &a, sizeof(a));
    move_model(m, v, &s);
    calls_check(m, v, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct calls_state m;
    calls_open(&m);
    struct matrix matrix = {"moves", dims, move_valid, move_case, &m};
    matrix_run(&matrix);
    calls_close(&m);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
