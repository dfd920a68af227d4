/* SPDX-License-Identifier: MIT */
/* Reductions in kernels: operator x type x reduce or reducescatter x form (block, grid) x size x blocks x threads x
 * team x place of dest, against the serial reference of coll_values.h: bit by bit, since elements are combined in the
 * order of members, rounding and all. The kernels are in matrix_reduce_*.c. */
#include "matrix_reduce.h"

#include <shmemx_coll.h>

#include "coll_values.h"

/* ---- tables ---- */

#define ENUMERATE_OP(OP, ...) OP_##OP,
enum { SHMEM_REDUCE_OPS(ENUMERATE_OP, ) OP_COUNT };
#define ENUMERATE_TYPE(NAME, T, ...) TYPE_##NAME,
enum { REDUCE_SUM_TYPES(ENUMERATE_TYPE, ) TYPE_COUNT };

/* Operators as coll_values.h numbers them. */
enum {
    VALUE_and_reduce = SHMEMX_AND,
    VALUE_or_reduce = SHMEMX_OR,
    VALUE_xor_reduce = SHMEMX_XOR,
    VALUE_max_reduce = SHMEMX_MAX,
    VALUE_min_reduce = SHMEMX_MIN,
    VALUE_sum_reduce = SHMEMX_SUM,
    VALUE_prod_reduce = SHMEMX_PROD
};
struct reduce_op {
    const char *name;
    int value;
};
#define ROW_OP(OP, ...) {#OP, VALUE_##OP},
static const struct reduce_op ops[] = {SHMEM_REDUCE_OPS(ROW_OP, ){NULL, 0}};

/* How a type of C is kept, by what its values do. */
#define DTYPE_REAL(T) (sizeof(T) == 4 ? SHMEMX_FLOAT : SHMEMX_DOUBLE)
#define DTYPE_INTEGER(T) \
    (SHMEMX_UINT8 + 2 * ((sizeof(T) > 1) + (sizeof(T) > 2) + (sizeof(T) > 4)) + ((T)(-1) < (T)1 ? 1 : 0))
struct reduce_type {
    const char *name;
    int kept; /* SHMEMX_UINT8 .. */
};
#define ROW_TYPE(NAME, T, ...) {#NAME, (int)((T)0.5 != (T)0 ? DTYPE_REAL(T) : DTYPE_INTEGER(T))},
static const struct reduce_type types[] = {MATRIX_C_TYPES(ROW_TYPE, ){"half", SHMEMX_HALF},
                                           {"bfloat16", SHMEMX_BFLOAT16},
                                           {"complexf", SHMEMX_COMPLEXF},
                                           {"complexd", SHMEMX_COMPLEXD}};

struct reduce_cell {
    int type, op;
    shmemx_kernel_t kernel;
};
#define DECLARE_CELL(NAME, T, OP, ...) SHMEMX_DECLARE_KERNEL(reduce_##NAME##_##OP);
#define DECLARE_OP(OP, OLD, TABLE, ...) REDUCE_##TABLE##_TYPES(DECLARE_CELL, OP, )
#define ROW_CELL(NAME, T, OP, ...) {TYPE_##NAME, OP_##OP, SHMEMX_KERNEL(reduce_##NAME##_##OP)},
#define ROW_CELLS(OP, OLD, TABLE, ...) REDUCE_##TABLE##_TYPES(ROW_CELL, OP, )
SHMEM_REDUCE_OPS(DECLARE_OP, )
static const struct reduce_cell cells[] = {SHMEM_REDUCE_OPS(ROW_CELLS, ){0, 0, NULL}};

/* NULL: the operator is not for this type. */
static const struct reduce_cell *cell_of(int type, int op)
{
    const struct reduce_cell *cell = cells;
    while (cell->kernel != NULL && (cell->type != type || cell->op != op))
        cell++;
    return cell->kernel != NULL ? cell : NULL;
}

/* ---- cases ---- */

enum dim { TYPE = CALLS_DIMS, OP, SCATTER, PLACE };
enum { PLACE_APART, PLACE_SHIFTED, PLACE_SAME, PLACES };
static const char *const place_names[] = {"apart", "shifted by an element", "in place"};
static const struct matrix_dim dims[] = {CALLS_ALL_DIMS, {"type", TYPE_COUNT}, {"op", OP_COUNT},
                                         {"scatter", 2}, {"place", PLACES},    {NULL, 0}};

/* One case: sizes in bytes. */
struct shape {
    int kept, value_op;
    size_t n, size, shift, dest_step, source_step;
    size_t own; /* place of this PE's block in source */
    int members, world[64];
};

static struct shape reduce_shape(const int *v, const struct device_team *team)
{
    struct shape s;
    s.kept = types[v[TYPE]].kept;
    s.value_op = ops[v[OP]].value;
    s.n = calls_count(v);
    s.size = values_types[s.kept].bytes;
    s.shift = v[PLACE] == PLACE_SHIFTED ? s.size : 0;
    s.dest_step = calls_step(s.n * s.size + s.shift);
    s.source_step = calls_step(s.n * s.size * (v[SCATTER] != 0 ? (size_t)team->n : 1) + s.shift);
    s.own = v[SCATTER] != 0 ? (size_t)team->me * s.n * s.size : 0;
    s.members = team->n;
    for (int pe = 0; pe < team->n; pe++)
        s.world[pe] = device_world_pe(team, pe);
    return s;
}

static bool reduce_valid(const int *v)
{
    return cell_of(v[TYPE], v[OP]) != NULL && calls_fit(v, calls_count(v) * values_types[types[v[TYPE]].kept].bytes);
}

/* Of each call of a case another one. */
static unsigned round_of(const struct calls_state *m, unsigned part) { return m->round * 16 + part; }

static void reduce_prepare(struct calls_state *m, const int *v, const struct shape *s)
{
    size_t n = s->n * (v[SCATTER] != 0 ? (size_t)s->members : 1);
    area_poison(&m->source, calls_parts(v) * s->source_step);
    for (unsigned part = 0; part < calls_parts(v); part++)
        values_make(&values_types[s->kept], s->value_op, shmem_my_pe(), round_of(m, part), 0, n,
                    m->source.image + AREA_MARGIN + s->shift + part * s->source_step);
    area_upload(&m->source);
    area_poison(&m->dest, calls_parts(v) * s->dest_step);
}

static void reduce_model(struct calls_state *m, const int *v, const struct shape *s)
{
    struct area *dest = v[PLACE] == PLACE_SAME ? &m->source : &m->dest;
    size_t step = v[PLACE] == PLACE_SAME ? s->source_step : s->dest_step;
    size_t first = v[PLACE] == PLACE_SAME ? s->own : s->shift;
    for (unsigned part = 0; part < calls_parts(v); part++)
        values_reduce(s->kept, s->value_op, s->world, s->members, round_of(m, part), s->own / s->size, s->n,
                      dest->image + AREA_MARGIN + first + part * step);
}

static struct reduce_args reduce_args_of(const struct calls_state *m, const int *v, const struct shape *s)
{
    struct reduce_args a;
    memset(&a, 0, sizeof(a));
    a.h = m->team[v[CALLS_TEAM]].handle;
    a.calls = calls_of(m, v, s->shift);
    a.calls.dest_step = s->dest_step;
    a.calls.source_step = s->source_step;
    if (v[PLACE] == PLACE_SAME) {
        a.calls.dest = area_data(&m->source) + s->own;
        a.calls.dest_step = s->source_step;
    }
    a.scatter = v[SCATTER];
    return a;
}

static void reduce_case(void *state, const int *v)
{
    struct calls_state *m = (struct calls_state *)state;
    struct shape s = reduce_shape(v, &m->team[v[CALLS_TEAM]]);
    char calls[60], text[160];
    calls_text(v, calls, sizeof(calls));
    snprintf(text, sizeof(text), "%s %s%s_%s, %s, %s", types[v[TYPE]].name, ops[v[OP]].name,
             v[SCATTER] != 0 ? "scatter" : "", v[CALLS_GRID] != 0 ? "grid" : "block", calls, place_names[v[PLACE]]);
    m->round++;
    reduce_prepare(m, v, &s);
    struct reduce_args a = reduce_args_of(m, v, &s);
    calls_run(m, v, cell_of(v[TYPE], v[OP])->kernel, &a, sizeof(a));
    reduce_model(m, v, &s);
    calls_check(m, v, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct calls_state m;
    calls_open(&m);
    struct matrix matrix = {"reduce", dims, reduce_valid, reduce_case, &m};
    matrix_run(&matrix);
    calls_close(&m);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
