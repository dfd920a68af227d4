/* SPDX-License-Identifier: MIT */
/* Data collectives in kernels: operation x type x form (block, grid) x size x blocks x threads x team and slot. In the
 * block form every block has a sequence of its own. Each kernel makes several calls in a row, its blocks and PEs out of
 * step, with a part of dest and source for each. */
#include "matrix.h"

enum { OP_BROADCAST, OP_FCOLLECT, OP_ALLTOALL, OP_PERMUTE, OP_COUNT };
static const char *const op_names[] = {"broadcast", "fcollect", "alltoall", "permute"};
enum { ROUNDS = 3, ROOM = 1 << 20, LATE = 60 };

struct move_args {
    shmemd_t h;
    char *dest;
    const char *source;
    uint64_t nelems, dest_step, source_step; /* of one call's part */
    uint64_t *status;                        /* [blocks] what the calls returned, or-ed */
    int32_t op, grid, root, to, from;
    uint32_t late;
};

/* Which part the calling block works on in this round. */
SHMEMD_FN uint64_t part_of(struct move_args a, uint32_t round)
{
    uint64_t sequence = a.grid != 0 ? 0 : (uint64_t)shmemd_block_index();
    return sequence * ROUNDS + round;
}
SHMEMD_FN void stagger(struct move_args a, uint32_t round)
{
    uint32_t block = (uint32_t)shmemd_block_index();
    form_dawdle(form_mix(a.late + round, block) % LATE * (uint32_t)(form_mix(a.late, round) % 4 == 0));
}

#define MOVE_FORMS(NAME, ...) \
    (a.grid != 0 ? shmemd_##NAME##_grid(a.h, __VA_ARGS__) : shmemd_##NAME##_block(a.h, __VA_ARGS__))
#define MOVE_KERNEL(ID, T, BROADCAST, FCOLLECT, ALLTOALL, PERMUTE)                                         \
    SHMEMD_FN int move_call_##ID(struct move_args a, T *dest, const T *source)                             \
    {                                                                                                      \
        if (a.op == OP_BROADCAST)                                                                          \
            return MOVE_FORMS(BROADCAST, dest, source, a.nelems, a.root);                                  \
        if (a.op == OP_FCOLLECT)                                                                           \
            return MOVE_FORMS(FCOLLECT, dest, source, a.nelems);                                           \
        if (a.op == OP_ALLTOALL)                                                                           \
            return MOVE_FORMS(ALLTOALL, dest, source, a.nelems);                                           \
        return MOVE_FORMS(PERMUTE, dest, source, a.nelems, a.to, a.from);                                  \
    }                                                                                                      \
    SHMEMD_KERNEL(move_##ID, struct move_args, a)                                                          \
    {                                                                                                      \
        int status = 0;                                                                                    \
        for (uint32_t r = 0; r < ROUNDS; r++) {                                                            \
            stagger(a, r);                                                                                 \
            status |= move_call_##ID(a, (T *)(void *)(a.dest + part_of(a, r) * a.dest_step),               \
                                     (const T *)(const void *)(a.source + part_of(a, r) * a.source_step)); \
        }                                                                                                  \
        if (shmemd_thread_index() == 0)                                                                    \
            a.status[shmemd_block_index()] = (uint64_t)status;                                             \
    }
#define MOVE_TYPED(NAME, TYPE, ...) \
    MOVE_KERNEL(NAME, TYPE, NAME##_broadcast, NAME##_fcollect, NAME##_alltoall, NAME##_permute)
SHMEM_DEVICE_TYPES(MOVE_TYPED, )
MOVE_KERNEL(mem, char, broadcastmem, fcollectmem, alltoallmem, permutemem)

struct move_row {
    const char *name;
    size_t size;
    shmemx_kernel_t kernel;
};
#define ROW(NAME, T, ...) {#NAME, sizeof(T), SHMEMX_KERNEL(move_##NAME)},
static const struct move_row rows[] = {SHMEM_DEVICE_TYPES(ROW, ){"mem", 1, SHMEMX_KERNEL(move_mem)}};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const size_t counts[] = {1, 0, 2, 3, 7, 33, 64, 255, 1000, 2049, 4097, 16390};
static const unsigned block_counts[] = {1, 3}, thread_counts[] = {64, 256};
enum dim { TYPE, OP, GRID, COUNT, BLOCKS, THREADS, TEAM, SHIFT };
enum { TEAMS = 3 };
static const struct matrix_dim dims[] = {{"type", ROWS}, {"op", OP_COUNT}, {"grid", 2},  {"count", 12}, {"blocks", 2},
                                         {"threads", 2}, {"team", TEAMS},  {"shift", 3}, {NULL, 0}};

struct moves {
    struct device_team team[TEAMS];
    struct area dest, source, status;
    unsigned round;
};

/* One case: sizes in bytes. */
struct shape {
    size_t unit, dest_step, source_step, shift; /* unit: nelems of one PE */
    unsigned parts;
    int root, to, from;
};

static size_t step_of(size_t bytes) { return (bytes + 15) / 16 * 16 + 32; }

static struct shape move_shape(const int *v, const struct device_team *team, unsigned round)
{
    struct shape s;
    size_t n = (size_t)team->n;
    s.unit = counts[v[COUNT]] * rows[v[TYPE]].size;
    s.shift = (size_t)v[SHIFT] * rows[v[TYPE]].size;
    s.dest_step = step_of(v[OP] == OP_FCOLLECT || v[OP] == OP_ALLTOALL ? s.unit * n : s.unit) + s.shift;
    s.dest_step = step_of(s.dest_step);
    s.source_step = step_of(step_of(v[OP] == OP_ALLTOALL ? s.unit * n : s.unit) + s.shift);
    s.parts = ROUNDS * (v[GRID] != 0 ? 1 : block_counts[v[BLOCKS]]);
    s.root = (int)(round % (unsigned)team->n);
    s.to = (team->me + (int)(round / 3)) % team->n;
    s.from = (team->me + team->n - (int)(round / 3) % team->n) % team->n;
    return s;
}

static bool move_valid(const int *v)
{
    size_t unit = counts[v[COUNT]] * rows[v[TYPE]].size * (size_t)shmem_n_pes();
    unsigned parts = ROUNDS * (v[GRID] != 0 ? 1 : block_counts[v[BLOCKS]]);
    return step_of(step_of(unit) + 32) * parts <= ROOM && unit / (size_t)shmem_n_pes() <= (64 << 10);
}

/* dest of this PE gets `len` bytes at `at` of what world PE `from` has at `offset` of its source. */
static void move_expect(struct moves *m, size_t at, int from, size_t offset, size_t len)
{
    unsigned char *to = m->dest.image + AREA_MARGIN + at;
    for (size_t k = 0; k < len; k++)
        to[k] = check_byte(from, from, m->round, offset + k);
}
static void move_model(struct moves *m, const int *v, const struct shape *s)
{
    const struct device_team *team = &m->team[v[TEAM]];
    for (size_t part = 0; part < s->parts; part++) {
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

static void move_args_fill(struct moves *m, const int *v, const struct shape *s, struct move_args *a)
{
    memset(a, 0, sizeof(*a));
    a->h = m->team[v[TEAM]].handle;
    a->dest = area_data(&m->dest) + s->shift;
    a->source = area_data(&m->source) + s->shift;
    a->nelems = counts[v[COUNT]];
    a->dest_step = s->dest_step;
    a->source_step = s->source_step;
    a->status = (uint64_t *)(void *)area_data(&m->status);
    a->op = v[OP];
    a->grid = v[GRID];
    a->root = s->root;
    a->to = s->to;
    a->from = s->from;
    a->late = device_mix(m->round, (uint32_t)shmem_my_pe());
}

static void move_case(void *state, const int *v)
{
    struct moves *m = (struct moves *)state;
    struct move_args a;
    uint64_t zero[3] = {0, 0, 0};
    char text[140];
    struct shape s = move_shape(v, &m->team[v[TEAM]], ++m->round);
    unsigned blocks = block_counts[v[BLOCKS]], threads = thread_counts[v[THREADS]];
    snprintf(text, sizeof(text), "%s %s_%s, %zu, %u blocks of %u, team %d, shift %d", rows[v[TYPE]].name,
             op_names[v[OP]], v[GRID] != 0 ? "grid" : "block", counts[v[COUNT]], blocks, threads, v[TEAM], v[SHIFT]);
    area_fill(&m->source, s.parts * s.source_step, shmem_my_pe(), m->round);
    area_poison(&m->dest, s.parts * s.dest_step);
    area_poison(&m->status, sizeof(zero));
    move_args_fill(m, v, &s, &a);
    shmem_barrier_all();
    device_run(rows[v[TYPE]].kernel, blocks, threads, &a, sizeof(a));
    shmem_barrier_all();
    move_model(m, v, &s);
    area_check(&m->dest, text);
    area_check(&m->source, text);
    area_expect(&m->status, 0, zero, blocks * 8);
    area_check(&m->status, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct moves m;
    shmem_team_t parity = device_team_of_parity();
    memset(&m, 0, sizeof(m));
    area_make(&m.dest, ROOM, SHMEMX_DEVICE);
    area_make(&m.source, ROOM, SHMEMX_DEVICE);
    area_make(&m.status, 64, SHMEMX_DEVICE);
    device_team_open(&m.team[0], SHMEM_TEAM_WORLD, 0);
    device_team_open(&m.team[1], parity, 5);
    device_team_open(&m.team[2], SHMEM_TEAM_WORLD, 9);
    struct matrix matrix = {"moves", dims, move_valid, move_case, &m};
    matrix_run(&matrix);
    area_drop(&m.status);
    area_drop(&m.source);
    area_drop(&m.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
