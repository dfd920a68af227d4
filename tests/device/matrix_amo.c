/* SPDX-License-Identifier: MIT */
/* Atomics from kernels: operation x type x route. First one thread a word, the old and the new value against a serial
 * model on bits; then all threads of all PEs on one word of PE 0, whose end, and whose old values, must add up. */
#include "matrix.h"

enum amo_name {
    AMO_FETCH,
    AMO_SET,
    AMO_SWAP,
    AMO_COMPARE_SWAP,
    AMO_INC,
    AMO_FETCH_INC,
    AMO_ADD,
    AMO_FETCH_ADD,
    AMO_AND,
    AMO_FETCH_AND,
    AMO_OR,
    AMO_FETCH_OR,
    AMO_XOR,
    AMO_FETCH_XOR,
    AMO_COUNT
};
static const char *const op_names[] = {"fetch",     "set",      "swap",      "compare_swap", "inc",
                                       "fetch_inc", "add",      "fetch_add", "and",          "fetch_and",
                                       "or",        "fetch_or", "xor",       "fetch_xor"};

enum { WORDS = 150, THREADS = 64, CROWD_BLOCKS = 2, CROWD_ROUNDS = 4, CROWD_APART = 8 };

/* Thread i works on word i; of `operand`, `cond`, `old` it has item i. */
struct amo_args {
    shmemd_t h;
    char *words;
    const char *operand, *cond;
    char *old;
    int32_t op, pe;
    uint32_t n;
};

SHMEMD_FN uint32_t thread_of_grid(void)
{
    return (uint32_t)(shmemd_block_index() * shmemd_block_size() + shmemd_thread_index());
}

#define AMO_BEGIN(T)                                     \
    uint32_t i = thread_of_grid();                       \
    T *word = (T *)(void *)a.words + i;                  \
    const T *v = (const T *)(const void *)a.operand + i; \
    T *old = (T *)(void *)a.old + i;                     \
    if (i >= a.n)                                        \
        return;

#define AMO_EXT_KERNEL(NAME, T, ...)                                 \
    SHMEMD_KERNEL(amo_ext_##NAME, struct amo_args, a)                \
    {                                                                \
        AMO_BEGIN(T)                                                 \
        if (a.op == AMO_FETCH)                                       \
            *old = shmemd_##NAME##_atomic_fetch(a.h, word, a.pe);    \
        else if (a.op == AMO_SET)                                    \
            shmemd_##NAME##_atomic_set(a.h, word, *v, a.pe);         \
        else                                                         \
            *old = shmemd_##NAME##_atomic_swap(a.h, word, *v, a.pe); \
        shmemd_quiet(a.h);                                           \
    }
#define AMO_STD_KERNEL(NAME, T, ...)                                                                               \
    SHMEMD_KERNEL(amo_std_##NAME, struct amo_args, a)                                                              \
    {                                                                                                              \
        AMO_BEGIN(T)                                                                                               \
        if (a.op == AMO_COMPARE_SWAP)                                                                              \
            *old = shmemd_##NAME##_atomic_compare_swap(a.h, word, ((const T *)(const void *)a.cond)[i], *v, a.pe); \
        else if (a.op == AMO_INC)                                                                                  \
            shmemd_##NAME##_atomic_inc(a.h, word, a.pe);                                                           \
        else if (a.op == AMO_FETCH_INC)                                                                            \
            *old = shmemd_##NAME##_atomic_fetch_inc(a.h, word, a.pe);                                              \
        else if (a.op == AMO_ADD)                                                                                  \
            shmemd_##NAME##_atomic_add(a.h, word, *v, a.pe);                                                       \
        else                                                                                                       \
            *old = shmemd_##NAME##_atomic_fetch_add(a.h, word, *v, a.pe);                                          \
        shmemd_quiet(a.h);                                                                                         \
    }
#define AMO_BIT_KERNEL(NAME, T, ...)                                      \
    SHMEMD_KERNEL(amo_bit_##NAME, struct amo_args, a)                     \
    {                                                                     \
        AMO_BEGIN(T)                                                      \
        if (a.op == AMO_AND)                                              \
            shmemd_##NAME##_atomic_and(a.h, word, *v, a.pe);              \
        else if (a.op == AMO_FETCH_AND)                                   \
            *old = shmemd_##NAME##_atomic_fetch_and(a.h, word, *v, a.pe); \
        else if (a.op == AMO_OR)                                          \
            shmemd_##NAME##_atomic_or(a.h, word, *v, a.pe);               \
        else if (a.op == AMO_FETCH_OR)                                    \
            *old = shmemd_##NAME##_atomic_fetch_or(a.h, word, *v, a.pe);  \
        else if (a.op == AMO_XOR)                                         \
            shmemd_##NAME##_atomic_xor(a.h, word, *v, a.pe);              \
        else                                                              \
            *old = shmemd_##NAME##_atomic_fetch_xor(a.h, word, *v, a.pe); \
        shmemd_quiet(a.h);                                                \
    }
SHMEM_EXT_TYPES(AMO_EXT_KERNEL, )
SHMEM_STD_TYPES(AMO_STD_KERNEL, )
SHMEM_BIT_TYPES(AMO_BIT_KERNEL, )

/* Everybody on word 0 of PE 0: by one addition, and by one compare-and-swap loop on word 1. old[] gets what the
 * additions saw: all numbers below their count, each once. */
struct crowd_args {
    shmemd_t h;
    char *words, *old;
    uint32_t rounds, apart; /* every apart-th thread also loops */
    int32_t type;
};
#define CROWD_TYPE(NAME, T, ...) CROWD_##NAME,
enum { SHMEM_STD_TYPES(CROWD_TYPE, ) CROWD_TYPES };

#define CROWD_ADD(NAME, T, ...)                                                                         \
    case CROWD_##NAME:                                                                                  \
        ((T *)(void *)a.old)[i] = shmemd_##NAME##_atomic_fetch_add(a.h, (T *)(void *)a.words, (T)1, 0); \
        break;
SHMEMD_FN void crowd_add(struct crowd_args a, uint32_t i)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CROWD_ADD, )
    }
}
#define CROWD_SWAP(NAME, T, ...)                                                                                      \
    case CROWD_##NAME:                                                                                                \
        return (uint64_t)shmemd_##NAME##_atomic_compare_swap(a.h, (T *)(void *)a.words + 1, (T)guess, (T)(guess + 2), \
                                                             0);
SHMEMD_FN uint64_t crowd_swap(struct crowd_args a, uint64_t guess)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CROWD_SWAP, )
    }
    return guess;
}

SHMEMD_KERNEL(crowd_words, struct crowd_args, a)
{
    for (uint32_t r = 0; r < a.rounds; r++) {
        uint64_t guess = 0, seen = 0;
        crowd_add(a, thread_of_grid() * a.rounds + r);
        if (thread_of_grid() % a.apart != 0)
            continue;
        do {
            guess = seen;
            seen = crowd_swap(a, guess);
        } while (seen != guess);
    }
    shmemd_quiet(a.h);
}

struct amo_row {
    const char *name;
    size_t size;
    int first, last; /* the operations of its kernel */
    shmemx_kernel_t kernel;
};
#define ROW_EXT(NAME, T, ...) {#NAME, sizeof(T), AMO_FETCH, AMO_SWAP, SHMEMX_KERNEL(amo_ext_##NAME)},
#define ROW_STD(NAME, T, ...) {#NAME, sizeof(T), AMO_COMPARE_SWAP, AMO_FETCH_ADD, SHMEMX_KERNEL(amo_std_##NAME)},
#define ROW_BIT(NAME, T, ...) {#NAME, sizeof(T), AMO_AND, AMO_FETCH_XOR, SHMEMX_KERNEL(amo_bit_##NAME)},
static const struct amo_row rows[] = {SHMEM_EXT_TYPES(ROW_EXT, ) SHMEM_STD_TYPES(ROW_STD, )
                                          SHMEM_BIT_TYPES(ROW_BIT, ){NULL, 0, 0, 0, NULL}};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) - 1 };
#define ROW_CROWD(NAME, T, ...) {#NAME, sizeof(T), 0, 0, SHMEMX_KERNEL(crowd_words)},
static const struct amo_row crowds[] = {SHMEM_STD_TYPES(ROW_CROWD, ){NULL, 0, 0, 0, NULL}};

/* Distance to the target, where its words are, how many threads. */
enum dim { ROW, OP, DISTANCE, WHERE, COUNT, TEAM };
static const uint32_t counts[] = {1, 63, WORDS};
static const struct matrix_dim dims[] = {{"type", ROWS}, {"op", AMO_COUNT}, {"distance", 2}, {"where", 2},
                                         {"count", 3},   {"team", 2},       {NULL, 0}};
static bool amo_valid(const int *v) { return v[OP] >= rows[v[ROW]].first && v[OP] <= rows[v[ROW]].last; }

struct amo {
    struct device_team team[2];
    struct area words[2], operand, cond, old;
    unsigned round;
};

static uint64_t item(const unsigned char *bytes, size_t size, size_t i)
{
    uint64_t value = 0;
    memcpy(&value, bytes + i * size, size);
    return value;
}

/* On bits, which for two's complement is arithmetic too; the caller stores the low `size` bytes. */
static uint64_t amo_model(int op, uint64_t old, uint64_t v, uint64_t cond)
{
    switch (op) {
    case AMO_SET:
    case AMO_SWAP:
        return v;
    case AMO_COMPARE_SWAP:
        return old == cond ? v : old;
    case AMO_INC:
    case AMO_FETCH_INC:
        return old + 1;
    case AMO_ADD:
    case AMO_FETCH_ADD:
        return old + v;
    case AMO_AND:
    case AMO_FETCH_AND:
        return old & v;
    case AMO_OR:
    case AMO_FETCH_OR:
        return old | v;
    case AMO_XOR:
    case AMO_FETCH_XOR:
        return old ^ v;
    default:
        return old;
    }
}
static bool amo_fetches(int op)
{
    return op != AMO_SET && op != AMO_INC && op != AMO_ADD && op != AMO_AND && op != AMO_OR && op != AMO_XOR;
}

/* What PE `pe` starts from: words, operands, conditions; every second condition is true of the word it meets. */
static void amo_inputs(struct amo *m, size_t size, int pe, int target, unsigned char *out)
{
    unsigned char *words = out, *operand = out + WORDS * 8, *cond = out + 2 * WORDS * 8;
    check_fill(words, WORDS * size, target, target, m->round);
    check_fill(operand, WORDS * size, pe, 50, m->round);
    check_fill(cond, WORDS * size, pe, 51, m->round);
    for (size_t i = 0; i < WORDS; i += 2)
        memcpy(cond + i * size, words + i * size, size);
}

/* The words of this PE as `from` changes them, and what this PE sees in those of `target`. */
static void amo_expect(struct amo *m, const int *v, int from, int target)
{
    unsigned char in[3 * WORDS * 8];
    size_t size = rows[v[ROW]].size, n = counts[v[COUNT]];
    int me = shmem_my_pe();
    amo_inputs(m, size, from, me, in);
    for (size_t i = 0; i < n; i++) {
        uint64_t now =
            amo_model(v[OP], item(in, size, i), item(in + WORDS * 8, size, i), item(in + 16 * WORDS, size, i));
        area_expect(&m->words[v[WHERE]], i * size, &now, size);
    }
    amo_inputs(m, size, me, target, in);
    if (amo_fetches(v[OP]))
        area_expect(&m->old, 0, in, n * size);
}

static void amo_prepare(struct amo *m, const int *v, int target)
{
    unsigned char in[3 * WORDS * 8];
    size_t bytes = WORDS * rows[v[ROW]].size;
    amo_inputs(m, rows[v[ROW]].size, shmem_my_pe(), target, in);
    area_poison(&m->old, bytes);
    area_fill(&m->words[v[WHERE]], bytes, shmem_my_pe(), m->round);
    area_poison(&m->operand, bytes);
    area_expect(&m->operand, 0, in + 8 * WORDS, bytes);
    area_upload(&m->operand);
    area_poison(&m->cond, bytes);
    area_expect(&m->cond, 0, in + 16 * WORDS, bytes);
    area_upload(&m->cond);
}

static void amo_case(void *state, const int *v)
{
    struct amo *m = (struct amo *)state;
    const struct device_team *team = &m->team[v[TEAM]];
    int distance = v[DISTANCE] % team->n, target = (team->me + distance) % team->n;
    int from = (team->me - distance + team->n) % team->n;
    struct amo_args a;
    char text[120];
    snprintf(text, sizeof(text), "%s atomic_%s, %u threads, distance %d, %s, team %d", rows[v[ROW]].name,
             op_names[v[OP]], counts[v[COUNT]], distance, v[WHERE] == 0 ? "device" : "host heap", v[TEAM]);
    m->round++;
    amo_prepare(m, v, device_world_pe(team, target));
    memset(&a, 0, sizeof(a));
    a.h = team->handle;
    a.words = area_data(&m->words[v[WHERE]]);
    a.operand = area_data(&m->operand);
    a.cond = area_data(&m->cond);
    a.old = area_data(&m->old);
    a.op = v[OP];
    a.pe = target;
    a.n = counts[v[COUNT]];
    shmem_barrier_all();
    device_run(rows[v[ROW]].kernel, (WORDS + THREADS - 1) / THREADS, THREADS, &a, sizeof(a));
    shmem_barrier_all();
    amo_expect(m, v, device_world_pe(team, from), device_world_pe(team, target));
    area_check(&m->words[v[WHERE]], text);
    area_check(&m->old, text);
}

/* ---- all on one word ---- */

/* Each number below `total` at most once here, and together with the other PEs exactly once. */
static void crowd_check(struct amo *m, const struct amo_row *row, uint64_t *taken, uint64_t mine, uint64_t total)
{
    area_fetch(&m->old);
    for (uint64_t i = 0; i < mine; i++) {
        uint64_t old = item(m->old.seen + AREA_MARGIN, row->size, i);
        if (CHECK_NAMED(old < total, row->name))
            shmem_uint64_atomic_inc(&taken[old], 0);
    }
    shmem_barrier_all();
    if (shmem_my_pe() != 0)
        return;
    for (uint64_t i = 0; i < total; i++)
        CHECK_EQ_NAMED(taken[i], 1, row->name);
    area_fetch(&m->words[0]);
    CHECK_EQ_NAMED(item(m->words[0].seen + AREA_MARGIN, row->size, 0), total, row->name);
    CHECK_EQ_NAMED(item(m->words[0].seen + AREA_MARGIN, row->size, 1), 2 * total / CROWD_APART, row->name);
}

static void crowd(struct amo *m, const struct amo_row *row, uint64_t *taken)
{
    uint64_t mine = CROWD_BLOCKS * THREADS * CROWD_ROUNDS, total = mine * (uint64_t)shmem_n_pes(), zero[2] = {0, 0};
    struct crowd_args a;
    memset(&a, 0, sizeof(a));
    a.h = m->team[0].handle;
    a.words = area_data(&m->words[0]);
    a.old = area_data(&m->old);
    a.rounds = CROWD_ROUNDS;
    a.apart = CROWD_APART;
    a.type = (int32_t)(row - crowds);
    area_poison(&m->old, mine * row->size);
    area_poison(&m->words[0], WORDS * row->size);
    device_write(a.words, zero, 2 * row->size);
    memset(taken, 0, total * sizeof(*taken));
    shmem_barrier_all();
    device_run(row->kernel, CROWD_BLOCKS, THREADS, &a, sizeof(a));
    shmem_barrier_all();
    crowd_check(m, row, taken, mine, total);
    shmem_barrier_all();
}

static int test_main(void)
{
    DEVICE_INIT();
    struct amo m;
    size_t most = CROWD_BLOCKS * THREADS * CROWD_ROUNDS;
    shmem_team_t parity = device_team_of_parity();
    uint64_t *taken = (uint64_t *)shmem_malloc(most * (size_t)shmem_n_pes() * sizeof(*taken));
    memset(&m, 0, sizeof(m));
    area_make(&m.words[0], WORDS * 8, SHMEMX_DEVICE);
    area_make(&m.words[1], WORDS * 8, SHMEMX_HOST);
    area_make(&m.operand, WORDS * 8, SHMEMX_DEVICE);
    area_make(&m.cond, WORDS * 8, SHMEMX_DEVICE);
    area_make(&m.old, most * 8, SHMEMX_DEVICE);
    device_team_open(&m.team[0], SHMEM_TEAM_WORLD, 0);
    device_team_open(&m.team[1], parity, 255);
    struct matrix matrix = {"amo", dims, amo_valid, amo_case, &m};
    matrix_run(&matrix);
    for (const struct amo_row *row = crowds; row->name != NULL; row++)
        crowd(&m, row, taken);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
