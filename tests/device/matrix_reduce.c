/* SPDX-License-Identifier: MIT */
/* Reductions in kernels: operator x type x reduce or reduce-scatter x form (block, grid) x size x blocks x threads x
 * team. Against a serial fold of the same values, chosen so that no order of evaluation rounds: integers of all bits,
 * small whole numbers where the type is a floating one. */
#define PRIM_COLD_CALLS 1 /* on AMD: compiles in a bearable time */
#include "matrix.h"

enum { OP_MAX, OP_MIN, OP_SUM, OP_PROD, OP_AND, OP_OR, OP_XOR, OP_COUNT };
static const char *const op_names[] = {"max", "min", "sum", "prod", "and", "or", "xor"};
enum { ROUNDS = 3, ROOM = 1 << 20, LATE = 60 };

struct reduce_args {
    shmemd_t h;
    char *dest;
    const char *source;
    uint64_t nelems, dest_step, source_step; /* of one call's part */
    uint64_t *status;
    int32_t op, grid, scatter;
    uint32_t late;
};

SHMEMD_FN uint64_t part_of(struct reduce_args a, uint32_t round)
{
    uint64_t sequence = a.grid != 0 ? 0 : (uint64_t)shmemd_block_index();
    return sequence * ROUNDS + round;
}

/* Every name of a type that is kept alike becomes the same code, and compiling it takes long: the block form of reduce
 * has all names (without the second ones under sanitizers), the other forms have a few, one of each way to be kept. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REDUCE_C_NAMES(X, ...) SHMEM_DISTINCT_TYPES(SHMEM_IF_DEVICE, X, __VA_ARGS__)
#define REDUCE_LOGIC_NAMES(X, ...) SHMEM_DISTINCT_TYPES(SHMEM_IF_LOGIC, X, __VA_ARGS__)
#else
#define REDUCE_C_NAMES(X, ...) SHMEM_DEVICE_ARITH_TYPES(X, __VA_ARGS__)
#define REDUCE_LOGIC_NAMES(X, ...) SHMEM_LOGIC_TYPES(X, __VA_ARGS__)
#endif
#define REDUCE_NAMES(X, ...) REDUCE_C_NAMES(X, __VA_ARGS__) SHMEM_DEVICE_HALF_TYPES(X, __VA_ARGS__)
#define REDUCE_FEW_NAMES(X, ...)     \
    X(int64, int64_t, __VA_ARGS__)   \
    X(uint16, uint16_t, __VA_ARGS__) \
    X(float, float, __VA_ARGS__)     \
    X(bfloat16, shmemd_bfloat16_t, __VA_ARGS__)
#define REDUCE_FEW_LOGIC_NAMES(X, ...) \
    X(int64, int64_t, __VA_ARGS__)     \
    X(uint16, uint16_t, __VA_ARGS__)

/* and, or, xor are parts of words here, since alone they are tokens of C++. */
#define REDUCE_CALL(NAME, OP, REDUCE) \
    if (a.op == OP)                   \
        return shmemd_##NAME##_##REDUCE##_block(a.h, dest, source, a.nelems);
#define REDUCE_OTHER(NAME, OP, REDUCE)                                                               \
    if (a.op == OP)                                                                                  \
        return a.scatter == 0 ? shmemd_##NAME##_##REDUCE##_grid(a.h, dest, source, a.nelems)         \
               : a.grid == 0  ? shmemd_##NAME##_##REDUCE##scatter_block(a.h, dest, source, a.nelems) \
                              : shmemd_##NAME##_##REDUCE##scatter_grid(a.h, dest, source, a.nelems);
#define REDUCE_ARITH(NAME, CALL)   \
    CALL(NAME, OP_MAX, max_reduce) \
    CALL(NAME, OP_MIN, min_reduce) \
    CALL(NAME, OP_SUM, sum_reduce) \
    CALL(NAME, OP_PROD, prod_reduce)
#define REDUCE_LOGIC(NAME, CALL)   \
    CALL(NAME, OP_AND, and_reduce) \
    CALL(NAME, OP_OR, or_reduce)   \
    CALL(NAME, OP_XOR, xor_reduce)

#define REDUCE_KERNEL(ID, NAME, T, CALLS, CALL)                                                                       \
    SHMEMD_FN int reduce_call_##ID##_##NAME(struct reduce_args a, T *dest, const T *source)                           \
    {                                                                                                                 \
        CALLS(NAME, CALL)                                                                                             \
        return -1;                                                                                                    \
    }                                                                                                                 \
    SHMEMD_KERNEL(reduce_##ID##_##NAME, struct reduce_args, a)                                                        \
    {                                                                                                                 \
        int status = 0;                                                                                               \
        for (uint32_t r = 0; r < ROUNDS; r++) {                                                                       \
            form_dawdle(form_mix(a.late, r * 16 + (uint32_t)shmemd_block_index()) % LATE);                            \
            status |= reduce_call_##ID##_##NAME(a, (T *)(void *)(a.dest + part_of(a, r) * a.dest_step),               \
                                                (const T *)(const void *)(a.source + part_of(a, r) * a.source_step)); \
        }                                                                                                             \
        if (shmemd_thread_index() == 0)                                                                               \
            a.status[shmemd_block_index()] = (uint64_t)status;                                                        \
    }
#define ARITH_KERNEL(NAME, T, ...) REDUCE_KERNEL(arith, NAME, T, REDUCE_ARITH, REDUCE_CALL)
#define LOGIC_KERNEL(NAME, T, ...) REDUCE_KERNEL(logic, NAME, T, REDUCE_LOGIC, REDUCE_CALL)
#define FEW_ARITH_KERNEL(NAME, T, ...) REDUCE_KERNEL(few_arith, NAME, T, REDUCE_ARITH, REDUCE_OTHER)
#define FEW_LOGIC_KERNEL(NAME, T, ...) REDUCE_KERNEL(few_logic, NAME, T, REDUCE_LOGIC, REDUCE_OTHER)
REDUCE_NAMES(ARITH_KERNEL, )
REDUCE_LOGIC_NAMES(LOGIC_KERNEL, )
REDUCE_FEW_NAMES(FEW_ARITH_KERNEL, )
REDUCE_FEW_LOGIC_NAMES(FEW_LOGIC_KERNEL, )

/* ---- the host's model: values are int64, brought to the type's bytes ---- */

enum kind { SIGNED, UNSIGNED, FLOAT, HALF, BFLOAT };
struct reduce_row {
    const char *name;
    size_t size;
    enum kind kind;
    bool logic, few; /* few: its kernel has the other forms */
    shmemx_kernel_t kernel;
};
#define KIND(T) ((T)0.5 != (T)0 ? FLOAT : (T)(-1) < (T)1 ? SIGNED : UNSIGNED)
#define ROW(ID, NAME, T, KIND_OF_T, logic, few) \
    {#NAME, sizeof(T), KIND_OF_T, logic, few, SHMEMX_KERNEL(reduce_##ID##_##NAME)},
#define ROW_ARITH(NAME, T, ...) ROW(arith, NAME, T, KIND(T), false, false)
#define ROW_LOGIC(NAME, T, ...) ROW(logic, NAME, T, KIND(T), true, false)
#define ROW_FEW_LOGIC(NAME, T, ...) ROW(few_logic, NAME, T, KIND(T), true, true)
static const struct reduce_row rows[] = {
    REDUCE_C_NAMES(ROW_ARITH, ) REDUCE_LOGIC_NAMES(ROW_LOGIC, ) REDUCE_FEW_LOGIC_NAMES(ROW_FEW_LOGIC, ) ROW(
        arith, half, shmemd_half_t, HALF, false, false) ROW(arith, bfloat16, shmemd_bfloat16_t, BFLOAT, false, false)
        ROW(few_arith, int64, int64_t, SIGNED, false, true) ROW(few_arith, uint16, uint16_t, UNSIGNED, false, true)
            ROW(few_arith, float, float, FLOAT, false, true)
                ROW(few_arith, bfloat16, shmemd_bfloat16_t, BFLOAT, false, true)};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* A small whole number's bits; exact. */
static uint16_t bits_of_bfloat(int64_t value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}
static uint16_t bits_of_half(int64_t value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (value == 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | ((((bits >> 23) & 0xff) - 127 + 15) << 10) | ((bits >> 13) & 0x3ff));
}
static void encode(const struct reduce_row *row, int64_t value, void *out)
{
    float f = (float)value;
    double d = (double)value;
    uint16_t half = row->kind == HALF ? bits_of_half(value) : bits_of_bfloat(value);
    const void *from = row->kind >= HALF   ? (const void *)&half
                       : row->kind < FLOAT ? (const void *)&value
                       : row->size == 4    ? (const void *)&f
                                           : (const void *)&d;
    memcpy(out, from, row->size);
}
/* As the type holds it: the low bytes, with their sign. */
static int64_t wrap(const struct reduce_row *row, uint64_t value)
{
    unsigned unused = 64 - 8 * (unsigned)row->size;
    return row->kind == SIGNED ? (int64_t)(value << unused) >> unused : (int64_t)(value << unused >> unused);
}
static int64_t value_of(const struct reduce_row *row, int op, int pe, size_t i, unsigned round)
{
    uint64_t x =
        (uint64_t)device_mix((uint32_t)i * 8 + (uint32_t)pe, round) << 32 | device_mix((uint32_t)pe, (uint32_t)i);
    if (row->kind < FLOAT)
        return wrap(row, x);
    if (op == OP_PROD)
        return pe % 3 == 0 ? 2 : x % 2 == 0 ? 1 : -1;
    return (int64_t)(x % 15) - 7;
}
static int64_t fold(const struct reduce_row *row, int op, int64_t a, int64_t b)
{
    bool less = row->kind == UNSIGNED ? (uint64_t)a < (uint64_t)b : a < b;
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    uint64_t result = op == OP_MAX   ? (less ? y : x)
                      : op == OP_MIN ? (less ? x : y)
                      : op == OP_SUM ? x + y
                      : op == OP_AND ? (x & y)
                      : op == OP_OR  ? (x | y)
                      : op == OP_XOR ? (x ^ y)
                                     : x * y;
    return row->kind < FLOAT ? wrap(row, result) : (int64_t)result;
}

/* ---- cases ---- */

static const size_t counts[] = {1, 0, 2, 3, 7, 33, 64, 255, 1000, 2049, 4097, 8195};
static const unsigned block_counts[] = {1, 3}, thread_counts[] = {64, 256};
enum dim { TYPE, OP, SCATTER, GRID, COUNT, BLOCKS, THREADS, TEAM };
enum { TEAMS = 2 };
static const struct matrix_dim dims[] = {{"type", ROWS}, {"op", OP_COUNT}, {"scatter", 2},  {"grid", 2}, {"count", 12},
                                         {"blocks", 2},  {"threads", 2},   {"team", TEAMS}, {NULL, 0}};

struct reduce {
    struct device_team team[TEAMS];
    struct area dest, source, status;
    unsigned round;
};

static size_t step_of(size_t bytes) { return (bytes + 15) / 16 * 16 + 32; }
static unsigned parts_of(const int *v) { return ROUNDS * (v[GRID] != 0 ? 1 : block_counts[v[BLOCKS]]); }
static size_t source_count(const int *v, int team_size)
{
    return counts[v[COUNT]] * (v[SCATTER] != 0 ? (size_t)team_size : 1);
}

static bool reduce_valid(const int *v)
{
    const struct reduce_row *row = &rows[v[TYPE]];
    if (row->logic != (v[OP] >= OP_AND) || row->few != (v[SCATTER] != 0 || v[GRID] != 0))
        return false;
    return step_of(source_count(v, shmem_n_pes()) * row->size) * parts_of(v) <= ROOM &&
           counts[v[COUNT]] * row->size <= (64 << 10);
}

static void reduce_prepare(struct reduce *m, const int *v, size_t dest_step, size_t source_step)
{
    const struct reduce_row *row = &rows[v[TYPE]];
    size_t n = source_count(v, m->team[v[TEAM]].n);
    unsigned char element[8];
    area_poison(&m->source, parts_of(v) * source_step);
    for (unsigned part = 0; part < parts_of(v); part++)
        for (size_t i = 0; i < n; i++) {
            encode(row, value_of(row, v[OP], shmem_my_pe(), i, m->round + part), element);
            area_expect(&m->source, part * source_step + i * row->size, element, row->size);
        }
    area_upload(&m->source);
    area_poison(&m->dest, parts_of(v) * dest_step);
    area_poison(&m->status, 3 * 8);
}

static void reduce_model(struct reduce *m, const int *v, size_t dest_step)
{
    const struct reduce_row *row = &rows[v[TYPE]];
    const struct device_team *team = &m->team[v[TEAM]];
    size_t n = counts[v[COUNT]], first = v[SCATTER] != 0 ? n * (size_t)team->me : 0;
    unsigned char element[8];
    int world[64];
    for (int pe = 0; pe < team->n; pe++)
        world[pe] = device_world_pe(team, pe);
    for (unsigned part = 0; part < parts_of(v); part++)
        for (size_t i = 0; i < n; i++) {
            int64_t sum = value_of(row, v[OP], world[0], first + i, m->round + part);
            for (int pe = 1; pe < team->n; pe++)
                sum = fold(row, v[OP], sum, value_of(row, v[OP], world[pe], first + i, m->round + part));
            encode(row, sum, element);
            area_expect(&m->dest, part * dest_step + i * row->size, element, row->size);
        }
}

static void reduce_case(void *state, const int *v)
{
    struct reduce *m = (struct reduce *)state;
    const struct reduce_row *row = &rows[v[TYPE]];
    unsigned blocks = block_counts[v[BLOCKS]], threads = thread_counts[v[THREADS]];
    size_t dest_step = step_of(counts[v[COUNT]] * row->size);
    size_t source_step = step_of(source_count(v, m->team[v[TEAM]].n) * row->size);
    struct reduce_args a;
    uint64_t zero[3] = {0, 0, 0};
    char text[140];
    snprintf(text, sizeof(text), "%s %s_%s_%s, %zu, %u blocks of %u, team %d", row->name, op_names[v[OP]],
             v[SCATTER] != 0 ? "reducescatter" : "reduce", v[GRID] != 0 ? "grid" : "block", counts[v[COUNT]], blocks,
             threads, v[TEAM]);
    m->round += 100;
    reduce_prepare(m, v, dest_step, source_step);
    memset(&a, 0, sizeof(a));
    a.h = m->team[v[TEAM]].handle;
    a.dest = area_data(&m->dest);
    a.source = area_data(&m->source);
    a.nelems = counts[v[COUNT]];
    a.dest_step = dest_step;
    a.source_step = source_step;
    a.status = (uint64_t *)(void *)area_data(&m->status);
    a.op = v[OP];
    a.grid = v[GRID];
    a.scatter = v[SCATTER];
    a.late = device_mix(m->round, (uint32_t)shmem_my_pe());
    shmem_barrier_all();
    device_run(row->kernel, blocks, threads, &a, sizeof(a));
    shmem_barrier_all();
    reduce_model(m, v, dest_step);
    area_check(&m->dest, text);
    area_check(&m->source, text);
    area_expect(&m->status, 0, zero, blocks * 8);
    area_check(&m->status, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct reduce m;
    shmem_team_t parity = device_team_of_parity();
    memset(&m, 0, sizeof(m));
    area_make(&m.dest, ROOM, SHMEMX_DEVICE);
    area_make(&m.source, ROOM, SHMEMX_DEVICE);
    area_make(&m.status, 64, SHMEMX_DEVICE);
    device_team_open(&m.team[0], SHMEM_TEAM_WORLD, 0);
    device_team_open(&m.team[1], parity, 1);
    struct matrix matrix = {"reduce", dims, reduce_valid, reduce_case, &m};
    matrix_run(&matrix);
    area_drop(&m.status);
    area_drop(&m.source);
    area_drop(&m.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
