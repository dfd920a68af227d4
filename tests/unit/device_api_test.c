/* SPDX-License-Identifier: MIT */
/* The in-kernel API on the CPU device: random lists of puts, gets, put_signals and atomics, every type and every group
 * form, from four PEs at once, against a serial model of all memory, so that a byte too many is seen wherever it lands.
 * Waits and order: device_order_test.c. */
#include "device_machine.h"

/* ---- jobs: one operation of one PE each, all of them independent ---- */

enum form { FORM_THREAD, FORM_WAVE, FORM_BLOCK, FORM_GROUP, FORMS };
enum op { OP_PUT, OP_GET, OP_PUT_NBI, OP_GET_NBI, OP_IPUT, OP_IGET, OP_SIGNAL, OP_SIGNAL_NBI, OP_P, OP_G, OP_WORD };
enum word_op {
    WORD_FETCH,
    WORD_SET,
    WORD_SWAP,
    WORD_CSWAP,
    WORD_INC,
    WORD_FETCH_INC,
    WORD_ADD,
    WORD_FETCH_ADD,
    WORD_AND,
    WORD_FETCH_AND,
    WORD_OR,
    WORD_FETCH_OR,
    WORD_XOR,
    WORD_FETCH_XOR,
    WORD_OPS
};

struct job {
    enum op op;
    enum form form;
    int type;                  /* row of movers or worders */
    enum prim_group_kind kind; /* who calls */
    unsigned block, first;     /* the block; a thread of the wave, or the thread */
    int pe;                    /* member */
    void *dest;
    const void *source;
    size_t nelems, bytes; /* bytes of an element */
    ptrdiff_t dst, sst;
    uint64_t *sig;
    uint64_t signal, value, cond, result;
    int sig_op;
    enum word_op word_op;
};

struct jobs {
    shmemd_t h;
    struct job *jobs;
};

static shmemd_group_t group_of(const struct job *j) { return prim_group_of(j->kind); }

#define IN_FORM(name, ...)                                      \
    do {                                                        \
        if (j->form == FORM_THREAD)                             \
            shmemd_##name(h, __VA_ARGS__);                      \
        else if (j->form == FORM_WAVE)                          \
            shmemd_##name##_wave(h, __VA_ARGS__);               \
        else if (j->form == FORM_BLOCK)                         \
            shmemd_##name##_block(h, __VA_ARGS__);              \
        else                                                    \
            shmemd_##name##_group(h, group_of(j), __VA_ARGS__); \
    } while (0)

#define CONTIGUOUS(T) (T *)j->dest, (const T *)j->source, j->nelems, j->pe
#define STRIDED(T) (T *)j->dest, (const T *)j->source, j->dst, j->sst, j->nelems, j->pe
#define SIGNALLED(T) (T *)j->dest, (const T *)j->source, j->nelems, j->sig, j->signal, j->sig_op, j->pe

#define MOVES(put, get, iput, iget, T)           \
    switch (j->op) {                             \
    case OP_PUT:                                 \
        IN_FORM(put, CONTIGUOUS(T));             \
        break;                                   \
    case OP_GET:                                 \
        IN_FORM(get, CONTIGUOUS(T));             \
        break;                                   \
    case OP_PUT_NBI:                             \
        IN_FORM(put##_nbi, CONTIGUOUS(T));       \
        break;                                   \
    case OP_GET_NBI:                             \
        IN_FORM(get##_nbi, CONTIGUOUS(T));       \
        break;                                   \
    case OP_IPUT:                                \
        IN_FORM(iput, STRIDED(T));               \
        break;                                   \
    case OP_IGET:                                \
        IN_FORM(iget, STRIDED(T));               \
        break;                                   \
    case OP_SIGNAL:                              \
        IN_FORM(put##_signal, SIGNALLED(T));     \
        break;                                   \
    case OP_SIGNAL_NBI:                          \
        IN_FORM(put##_signal_nbi, SIGNALLED(T)); \
        break;                                   \
    default:                                     \
        break;                                   \
    }

#define MOVER(NAME, TYPE, ...)                                                       \
    static void move_##NAME(shmemd_t h, struct job *j)                               \
    {                                                                                \
        if (j->op == OP_P) {                                                         \
            shmemd_##NAME##_p(h, (TYPE *)j->dest, *(const TYPE *)j->source, j->pe);  \
        } else if (j->op == OP_G) {                                                  \
            *(TYPE *)j->dest = shmemd_##NAME##_g(h, (const TYPE *)j->source, j->pe); \
        } else {                                                                     \
            MOVES(NAME##_put, NAME##_get, NAME##_iput, NAME##_iget, TYPE)            \
        }                                                                            \
    }
#define SIZED_MOVER(BITS, BYTES, ...) \
    static void move_##BITS(shmemd_t h, struct job *j) { MOVES(put##BITS, get##BITS, iput##BITS, iget##BITS, void) }
SHMEM_DEVICE_TYPES(MOVER, )
SHMEM_SIZES(SIZED_MOVER, )
#define shmemd_iputmem shmemd_iput8 /* there is none, and it would be this */
#define shmemd_iputmem_wave shmemd_iput8_wave
#define shmemd_iputmem_block shmemd_iput8_block
#define shmemd_iputmem_group shmemd_iput8_group
#define shmemd_igetmem shmemd_iget8
#define shmemd_igetmem_wave shmemd_iget8_wave
#define shmemd_igetmem_block shmemd_iget8_block
#define shmemd_igetmem_group shmemd_iget8_group
SIZED_MOVER(mem, 1, )

struct mover {
    void (*move)(shmemd_t h, struct job *j);
    size_t bytes;
    bool has_one; /* p and g */
};
static const struct mover movers[] = {
#define ROW(NAME, TYPE, ...) {move_##NAME, sizeof(TYPE), true},
#define SIZED_ROW(BITS, BYTES, ...) {move_##BITS, BYTES, false},
    SHMEM_DEVICE_TYPES(ROW, ) SHMEM_SIZES(SIZED_ROW, ) SIZED_ROW(mem, 1, )
#undef ROW
};
enum { MOVERS = (int)(sizeof(movers) / sizeof(movers[0])) };

/* ---- atomics ---- */

#define WORDS_EXT(NAME, TYPE, ...)                                               \
    static void word_ext_##NAME(shmemd_t h, struct job *j)                       \
    {                                                                            \
        TYPE value, old;                                                         \
        memcpy(&value, &j->value, sizeof(value));                                \
        memset(&old, 0, sizeof(old));                                            \
        if (j->word_op == WORD_FETCH)                                            \
            old = shmemd_##NAME##_atomic_fetch(h, (const TYPE *)j->dest, j->pe); \
        else if (j->word_op == WORD_SET)                                         \
            shmemd_##NAME##_atomic_set(h, (TYPE *)j->dest, value, j->pe);        \
        else                                                                     \
            old = shmemd_##NAME##_atomic_swap(h, (TYPE *)j->dest, value, j->pe); \
        memcpy(&j->result, &old, sizeof(old));                                   \
    }
SHMEM_EXT_TYPES(WORDS_EXT, )

#define WORDS_STD(NAME, TYPE, ...)                                                           \
    static void word_std_##NAME(shmemd_t h, struct job *j)                                   \
    {                                                                                        \
        TYPE *dest = (TYPE *)j->dest, value = (TYPE)j->value, old = 0;                       \
        if (j->word_op == WORD_CSWAP)                                                        \
            old = shmemd_##NAME##_atomic_compare_swap(h, dest, (TYPE)j->cond, value, j->pe); \
        else if (j->word_op == WORD_INC)                                                     \
            shmemd_##NAME##_atomic_inc(h, dest, j->pe);                                      \
        else if (j->word_op == WORD_FETCH_INC)                                               \
            old = shmemd_##NAME##_atomic_fetch_inc(h, dest, j->pe);                          \
        else if (j->word_op == WORD_ADD)                                                     \
            shmemd_##NAME##_atomic_add(h, dest, value, j->pe);                               \
        else                                                                                 \
            old = shmemd_##NAME##_atomic_fetch_add(h, dest, value, j->pe);                   \
        memcpy(&j->result, &old, sizeof(old));                                               \
    }
SHMEM_STD_TYPES(WORDS_STD, )

#define WORDS_BIT(NAME, TYPE, ...)                                         \
    static void word_bit_##NAME(shmemd_t h, struct job *j)                 \
    {                                                                      \
        TYPE *dest = (TYPE *)j->dest, value = (TYPE)j->value, old = 0;     \
        if (j->word_op == WORD_AND)                                        \
            shmemd_##NAME##_atomic_and(h, dest, value, j->pe);             \
        else if (j->word_op == WORD_OR)                                    \
            shmemd_##NAME##_atomic_or(h, dest, value, j->pe);              \
        else if (j->word_op == WORD_XOR)                                   \
            shmemd_##NAME##_atomic_xor(h, dest, value, j->pe);             \
        else if (j->word_op == WORD_FETCH_AND)                             \
            old = shmemd_##NAME##_atomic_fetch_and(h, dest, value, j->pe); \
        else if (j->word_op == WORD_FETCH_OR)                              \
            old = shmemd_##NAME##_atomic_fetch_or(h, dest, value, j->pe);  \
        else                                                               \
            old = shmemd_##NAME##_atomic_fetch_xor(h, dest, value, j->pe); \
        memcpy(&j->result, &old, sizeof(old));                             \
    }
SHMEM_BIT_TYPES(WORDS_BIT, )

struct worder {
    void (*word)(shmemd_t h, struct job *j);
    size_t bytes;
    enum word_op first, last;
};
static const struct worder worders[] = {
#define ROW(NAME, TYPE, family, first, last) {word_##family##_##NAME, sizeof(TYPE), first, last},
    SHMEM_EXT_TYPES(ROW, ext, WORD_FETCH, WORD_SWAP) SHMEM_STD_TYPES(ROW, std, WORD_CSWAP, WORD_FETCH_ADD)
        SHMEM_BIT_TYPES(ROW, bit, WORD_AND, WORD_FETCH_XOR)
#undef ROW
};
enum { WORDERS = (int)(sizeof(worders) / sizeof(worders[0])) };

/* ---- the kernel ---- */

static bool takes_part(const struct job *j)
{
    unsigned thread = shmemd_thread_index(), wave = prim_wave_size();
    if (j->block != shmemd_block_index())
        return false;
    if (j->kind == PRIM_THREAD)
        return thread == j->first % shmemd_block_size();
    return j->kind == PRIM_BLOCK || thread / wave == j->first % shmemd_block_size() / wave;
}

SHMEMD_KERNEL(run_jobs, struct jobs, a)
{
    for (int i = 0; i < JOBS; i++) {
        struct job *j = &a.jobs[i];
        if (!takes_part(j))
            continue;
        if (j->op == OP_WORD)
            worders[j->type].word(a.h, j);
        else
            movers[j->type].move(a.h, j);
    }
    shmemd_quiet_block(a.h);
}

/* ---- the model ---- */

/* What stands at `p`, an address of some PE's memory, in the model of `pe`. */
static char *model_at(const void *p, int named_by, int pe)
{
    return model_of(pe) + ((const char *)p - memory_of(named_by));
}

static uint64_t model_word(const struct job *j, uint64_t old)
{
    switch (j->word_op) {
    case WORD_SET:
    case WORD_SWAP:
        return j->value;
    case WORD_CSWAP:
        return old == j->cond ? j->value : old;
    case WORD_INC:
    case WORD_FETCH_INC:
        return old + 1;
    case WORD_ADD:
    case WORD_FETCH_ADD:
        return old + j->value;
    case WORD_AND:
    case WORD_FETCH_AND:
        return old & j->value;
    case WORD_OR:
    case WORD_FETCH_OR:
        return old | j->value;
    case WORD_XOR:
    case WORD_FETCH_XOR:
        return old ^ j->value;
    default:
        return old;
    }
}

static bool model_fetches(enum word_op op)
{
    return op == WORD_FETCH || op == WORD_SWAP || op == WORD_CSWAP || op == WORD_FETCH_INC || op == WORD_FETCH_ADD ||
           op == WORD_FETCH_AND || op == WORD_FETCH_OR || op == WORD_FETCH_XOR;
}

static void model_do_word(const struct job *j, int self, int other)
{
    uint64_t old = 0, now;
    char *at = model_at(j->dest, self, other);
    memcpy(&old, at, j->bytes);
    now = model_word(j, old);
    memcpy(at, &now, j->bytes);
    CHECK_EQ_NAMED(j->result, model_fetches(j->word_op) ? old : 0, "the old value of an atomic");
}

static void model_do(const struct job *j, int self, int turn)
{
    int other = (j->pe + turn) % PES;
    bool gets = j->op == OP_GET || j->op == OP_GET_NBI || j->op == OP_IGET || j->op == OP_G;
    bool strided = j->op == OP_IPUT || j->op == OP_IGET;
    if (j->op == OP_WORD) {
        model_do_word(j, self, other);
        return;
    }
    char *to = model_at(j->dest, self, gets ? self : other);
    const char *from = model_at(j->source, self, gets ? other : self);
    for (size_t i = 0; i < j->nelems; i++)
        memcpy(to + i * j->bytes * (strided ? (size_t)j->dst : 1), from + i * j->bytes * (strided ? (size_t)j->sst : 1),
               j->bytes);
    if (j->op == OP_SIGNAL || j->op == OP_SIGNAL_NBI) {
        uint64_t word;
        char *at = model_at(j->sig, self, other);
        memcpy(&word, at, 8);
        word = j->sig_op == SHMEM_SIGNAL_SET ? j->signal : word + j->signal;
        memcpy(at, &word, 8);
    }
}

/* ---- random jobs ---- */

static void choose_move(struct job *j, struct check_random *random)
{
    const struct mover *m = &movers[j->type = (int)check_random_below(random, MOVERS)];
    size_t most = (REGION - 2 * GUARD - 16) / m->bytes, offset = check_random_below(random, 16);
    if (m->has_one) /* typed: aligned */
        offset -= offset % m->bytes;
    j->op = (enum op)check_random_below(random, m->has_one ? OP_WORD : OP_P);
    j->bytes = m->bytes;
    j->dest = (char *)j->dest + offset;
    offset = check_random_below(random, 16);
    j->source = (const char *)j->source + (m->has_one ? offset - offset % m->bytes : offset);
    j->dst = j->sst = 1;
    if (j->op == OP_IPUT || j->op == OP_IGET) {
        j->dst = 1 + (ptrdiff_t)check_random_below(random, 4);
        j->sst = 1 + (ptrdiff_t)check_random_below(random, 4);
        most /= 4;
    }
    j->nelems = j->op >= OP_P                        ? 1
                : check_random_below(random, 3) == 0 ? check_random_below(random, 3) % (most + 1)
                                                     : check_random_below(random, most + 1);
    if (j->op >= OP_P)
        j->kind = PRIM_THREAD;
}

static void choose_word(struct job *j, int self, struct check_random *random)
{
    const struct worder *w = &worders[j->type = (int)check_random_below(random, WORDERS)];
    j->op = OP_WORD;
    j->kind = PRIM_THREAD;
    j->bytes = w->bytes;
    j->word_op = (enum word_op)((size_t)w->first + check_random_below(random, (size_t)(w->last - w->first) + 1));
    j->value = check_random_next(random);
    j->cond = check_random_next(random);
    if (check_random_below(random, 2) == 0)
        memcpy(&j->cond, memory_of(machine.world_of[j->pe]) + ((char *)j->dest - memory_of(self)), 8);
    if (w->bytes == 4) {
        j->value = (uint32_t)j->value;
        j->cond = (uint32_t)j->cond;
    }
    j->result = 0;
}

/* Job i of PE `self`: where it writes is its own, on every PE. */
static void choose_job(struct job *j, int self, int i, struct check_random *random)
{
    char *region = memory_of(self) + ((size_t)self * JOBS + (size_t)i) * REGION;
    memset(j, 0, sizeof(*j));
    j->kind = (enum prim_group_kind)check_random_below(random, 3);
    j->block = (unsigned)check_random_below(random, BLOCKS);
    j->first = (unsigned)check_random_below(random, 1024);
    j->pe = (int)check_random_below(random, PES);
    j->dest = region + GUARD;
    j->source = memory_of(self) + WRITTEN + check_random_below(random, SOURCES) * REGION;
    j->sig = (uint64_t *)(void *)(region + REGION - GUARD);
    j->signal = check_random_next(random);
    j->sig_op = check_random_below(random, 2) == 0 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD;
    if (check_random_below(random, 4) == 0)
        choose_word(j, self, random);
    else
        choose_move(j, random);
    j->form = check_random_below(random, 2) == 0 ? FORM_GROUP : (enum form)j->kind;
}

static void test_jobs(unsigned round, struct check_random *random)
{
    static struct job jobs[PES][JOBS]; /* written by the kernels of this call, read after it */
    struct jobs args[PES];
    int turn = (int)check_random_below(random, PES);
    machine_lay_out(turn, check_random_below(random, 2) == 0);
    check_random_fill(random, machine.memory, (size_t)PES * MEMORY);
    memcpy(machine.model, machine.memory, (size_t)PES * MEMORY);
    for (int pe = 0; pe < PES; pe++) {
        for (int i = 0; i < JOBS; i++)
            choose_job(&jobs[pe][i], pe, i, random);
        args[pe].h = machine.handle[pe];
        args[pe].jobs = jobs[pe];
    }
    run_all(run_jobs, args, sizeof(args[0]), random);
    for (int pe = 0; pe < PES; pe++)
        for (int i = 0; i < JOBS; i++)
            model_do(&jobs[pe][i], pe, turn);
    for (int pe = 0; pe < PES; pe++)
        for (int i = 0; i < PES * JOBS; i++) {
            char what[96];
            const struct job *j = &jobs[i / JOBS][i % JOBS];
            snprintf(what, sizeof(what), "round %u, PE %d, region of job %d of PE %d: op %d, form %d, kind %d, type %d",
                     round, pe, i % JOBS, i / JOBS, (int)j->op, (int)j->form, (int)j->kind, j->type);
            CHECK_BYTES_NAMED(memory_of(pe) + i * REGION, model_of(pe) + i * REGION, REGION, what);
        }
    CHECK_BYTES(machine.memory, machine.model, (size_t)PES * MEMORY);
}

int main(void)
{
    unsigned n = machine_begin();
    struct check_random random = check_random_stream(1);
    for (unsigned i = 0; i < n; i++)
        test_jobs(i, &random);
    return machine_end();
}
