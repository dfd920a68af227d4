/* SPDX-License-Identifier: MIT */
/* In-kernel collectives on the CPU device: random jobs of 1 to 8 PEs, in which kernels on two slots at once make many
 * calls back to back, out of epoch; every operation in both forms, every representation and operator, sizes around every
 * threshold, misaligned, in place, numbers of epochs that wrap. Each call is repeated serially on a copy of all memory,
 * and all of it is compared, bit by bit.
 * Then: wrong calls, deadlines, giving up.
 * usage: coll_device_test [full | bench [ROUNDS]]      full: every combination by every shape, not one shape each
 * SHMEM_TEST_SEED repeats a run. */
#include "coll_device_serial.h"

struct args {
    shmemd_t h;
    const struct plan *plan;
    char *objects;
    uint64_t *failures; /* calls that returned nonzero */
};

/* ---- the kernel ---- */

#define REDUCE_CASE(name, ...) \
    case REPR_##name:          \
        return isod_reduce_block(h, w, ISOD_ELEM_##name, op, isod_reduce_pipelined_##name);
#define REDUCE_GRID_CASE(name, ...) \
    case REPR_##name:               \
        return isod_reduce_grid(h, w, ISOD_ELEM_##name, op, isod_reduce_pipelined_##name);

static __attribute__((noinline)) int reduce_block(shmemd_t h, struct isod_reduce w, int repr, int op)
{
    switch (repr) {
        REPRS(REDUCE_CASE)
    }
    return 1;
}
static __attribute__((noinline)) int reduce_grid(shmemd_t h, struct isod_reduce w, int repr, int op)
{
    switch (repr) {
        REPRS(REDUCE_GRID_CASE)
    }
    return 1;
}

static __attribute__((noinline)) int move_block(shmemd_t h, const struct call *c, char *dest, const char *source)
{
    int me = shmemd_my_pe(h);
    switch (c->what.kind) {
    case BROADCAST:
        return shmemd_broadcastmem_block(h, dest, source, c->bytes, c->root);
    case FCOLLECT:
        return shmemd_fcollectmem_block(h, dest, source, c->bytes);
    case ALLTOALL:
        return shmemd_alltoallmem_block(h, dest, source, c->bytes);
    case PERMUTE:
        return shmemd_permutemem_block(h, dest, source, c->bytes, c->to[me], c->from[me]);
    case BARRIER:
        return shmemd_barrier_block(h);
    default:
        return shmemd_sync_block(h);
    }
}
static __attribute__((noinline)) int move_grid(shmemd_t h, const struct call *c, char *dest, const char *source)
{
    int me = shmemd_my_pe(h);
    switch (c->what.kind) {
    case BROADCAST:
        return shmemd_broadcastmem_grid(h, dest, source, c->bytes, c->root);
    case FCOLLECT:
        return shmemd_fcollectmem_grid(h, dest, source, c->bytes);
    case ALLTOALL:
        return shmemd_alltoallmem_grid(h, dest, source, c->bytes);
    case PERMUTE:
        return shmemd_permutemem_grid(h, dest, source, c->bytes, c->to[me], c->from[me]);
    case BARRIER:
        return shmemd_barrier_grid(h);
    default:
        return shmemd_sync_grid(h);
    }
}

static int call_it(shmemd_t h, const struct call *c, char *objects)
{
    unsigned instance = c->what.form == GRID ? 0 : shmemd_block_index();
    char *dest = objects + dest_of(c, instance, shmemd_my_pe(h)), *source = objects + c->source[instance];
    if (c->what.kind < REDUCE)
        return c->what.form == GRID ? move_grid(h, c, dest, source) : move_block(h, c, dest, source);
    struct isod_reduce w = isod_reduce_of(dest, source, c->bytes, c->what.kind == SCATTER ? c->bytes : 0);
    return c->what.form == GRID ? reduce_grid(h, w, c->what.repr, c->what.op)
                                : reduce_block(h, w, c->what.repr, c->what.op);
}

/* Some blocks come late. */
static void delay(const struct args *a, int i)
{
    uint64_t key = a->plan->seed + (uint64_t)(i * 64 + shmemd_my_pe(a->h) * 8) + shmemd_block_index();
    struct check_random random = {key};
    size_t what = check_random_below(&random, 16);
    if (shmemd_thread_index() != 0)
        return;
    if (what == 0)
        usleep((unsigned)check_random_below(&random, 300));
    for (size_t k = 0; what < 4 && k < 200 * what; k++)
        prim_pause();
}

SHMEMD_KERNEL(all_calls, struct args, a)
{
    for (int i = 0; i < a.plan->n_calls; i++) {
        delay(&a, i);
        if (call_it(a.h, &a.plan->calls[i], a.objects) != 0)
            (void)prim_fetch_add_u64(a.failures, 1);
    }
}

/* ---- random plans ---- */

static void fill_elems(struct check_random *random, int repr, char *p, size_t nelems)
{
    for (size_t i = 0; i < nelems; i++, p += repr_bytes[repr]) {
        double x = (double)(int64_t)check_random_next(random) * 0x1p-60,
               y = (double)(int64_t)check_random_next(random) * 0x1p-60;
        if (repr < REPR_f32) {
            check_random_fill(random, p, repr_bytes[repr]);
        } else if (repr < REPR_c32) {
            real_put(repr, p, check_random_below(random, 50) == 0 ? x * 0x1p-14 : x);
        } else {
            real_put(repr == REPR_c32 ? REPR_f32 : REPR_f64, p, x);
            real_put(repr == REPR_c32 ? REPR_f32 : REPR_f64, p + repr_bytes[repr] / 2, y);
        }
    }
}

/* Room for `bytes`, behind a guard, aligned to an element or to 16. */
static size_t take(struct plan *p, struct check_random *random, size_t bytes, size_t elem_bytes)
{
    size_t at = (p->used + 31) / 16 * 16;
    if (check_random_below(random, 3) == 0)
        at += elem_bytes * (1 + check_random_below(random, 5));
    p->used = at + bytes;
    return at;
}

static size_t random_nelems(struct check_random *random, const struct shape *s, const struct combo *what, size_t elem)
{
    size_t packet = s->inbox_bytes / elem, parts = what->form == GRID ? s->blocks : 1;
    switch (check_random_below(random, 9)) {
    case 0:
        return check_random_below(random, 3); /* 0, 1, 2 */
    case 1:
        return 1 + check_random_below(random, 40);
    case 2:
        return packet > 0 ? packet - 1 : 1;
    case 3:
        return packet;
    case 4:
        return packet + 1;
    case 5:
        return packet * parts + check_random_below(random, 3);
    case 6:
        return 3 * packet + 7;
    case 7:
        return 1024 / elem * parts + check_random_below(random, 3) - 1;
    default:
        return 1 + check_random_below(random, 3000) / elem;
    }
}

/* In place upon what the call before has left. */
static bool chain(struct plan *p, struct call *c, struct check_random *random)
{
    const struct call *last = p->n_calls > 0 ? c - 1 : NULL;
    if (last == NULL || c->what.kind != REDUCE || last->what.kind != REDUCE || last->what.repr != c->what.repr ||
        last->what.form != c->what.form || check_random_below(random, 2) == 0)
        return false;
    struct combo what = c->what;
    *c = *last;
    c->what = what;
    memcpy(c->source, c->dest, sizeof(c->source));
    return true;
}

static void random_partners(struct call *c, int n, struct check_random *random)
{
    for (int pe = 0; pe < n; pe++)
        c->to[pe] = pe;
    for (int pe = n - 1; pe > 0; pe--) {
        int other = (int)check_random_below(random, (size_t)pe + 1), swap = c->to[pe];
        c->to[pe] = c->to[other];
        c->to[other] = swap;
    }
    for (int pe = 0; pe < n; pe++)
        c->from[c->to[pe]] = pe;
}

static void place(struct plan *p, const struct shape *s, struct call *c, struct check_random *random)
{
    size_t n = (size_t)s->n;
    size_t dests = c->what.kind == FCOLLECT || c->what.kind == ALLTOALL ? n : 1;
    size_t sources = c->what.kind == ALLTOALL || c->what.kind == SCATTER ? n : 1;
    bool in_place = (c->what.kind == REDUCE || c->what.kind == BROADCAST) && check_random_below(random, 3) == 0;
    c->own_block = c->what.kind == SCATTER && check_random_below(random, 3) == 0;
    for (unsigned i = 0; i < s->blocks; i++) {
        c->source[i] = take(p, random, sources * c->bytes, c->elem_bytes);
        c->dest[i] = in_place || c->own_block ? c->source[i] : take(p, random, dests * c->bytes, c->elem_bytes);
    }
}

static void add_call(struct plan *p, const struct shape *s, struct combo what, struct check_random *random)
{
    struct call *c = &p->calls[p->n_calls];
    memset(c, 0, sizeof(*c));
    c->what = what;
    if (!chain(p, c, random)) {
        c->elem_bytes = what.kind >= REDUCE ? repr_bytes[what.repr] : (size_t)1 << check_random_below(random, 5);
        c->nelems = what.kind == SYNC || what.kind == BARRIER ? 0 : random_nelems(random, s, &what, c->elem_bytes);
        c->bytes = c->nelems * c->elem_bytes;
        c->root = (int)check_random_below(random, (size_t)s->n);
        random_partners(c, s->n, random);
        size_t used = p->used;
        place(p, s, c, random);
        if (p->used > OBJECT_BYTES - 64) { /* no room: a short one */
            p->used = used;
            c->nelems = c->nelems > 0;
            c->bytes = c->nelems * c->elem_bytes;
            place(p, s, c, random);
        }
    }
    if (p->used <= OBJECT_BYTES - 64)
        p->n_calls++;
}

/* Memory before the first call: noise, and elements where a reduction reads them first. */
static void fill_objects(const struct plan *p, const struct shape *s, char *memory, struct check_random *random)
{
    size_t n = (size_t)s->n;
    for (size_t pe = 0; pe < n; pe++) {
        char *objects = memory + pe * OBJECT_BYTES;
        for (size_t i = 0; i + 8 <= OBJECT_BYTES && i < p->used + 64; i += 8) {
            uint64_t noise = check_random_next(random);
            memcpy(objects + i, &noise, 8);
        }
        for (int i = 0; i < p->n_calls; i++)
            for (unsigned b = 0; b < s->blocks && p->calls[i].what.kind >= REDUCE; b++)
                fill_elems(random, p->calls[i].what.repr, objects + p->calls[i].source[b],
                           p->calls[i].nelems * (p->calls[i].what.kind == SCATTER ? n : 1));
    }
}

/* ---- a job: plans on two slots at once ---- */

struct job {
    struct model *m;
    struct plan plans[SLOTS];
    char *expected[SLOTS]; /* [n][OBJECT_BYTES] */
    uint64_t failures[SLOTS];
};

static void job_prepare(struct job *j, struct shape shape, struct check_random *random)
{
    j->m = model_create(shape);
    for (int slot = 0; slot < SLOTS; slot++) {
        struct plan *p = &j->plans[slot];
        p->seed = check_random_next(random);
        j->failures[slot] = 0;
        j->expected[slot] = (char *)malloc((size_t)shape.n * OBJECT_BYTES);
        if (j->expected[slot] == NULL)
            abort();
        fill_objects(p, &shape, j->expected[slot], random);
        for (int pe = 0; pe < shape.n; pe++)
            memcpy(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES, compared_bytes(p));
        for (int i = 0; i < p->n_calls; i++)
            repeat(&p->calls[i], shape.blocks, j->expected[slot], shape.n);
    }
}

static void job_run(struct job *j, struct check_random *random)
{
    struct model_grid grids[SLOTS][MOST_PES];
    struct args args[SLOTS][MOST_PES];
    memset(grids, 0, sizeof(grids));
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            struct args a = {model_handle(j->m, slot, pe), &j->plans[slot], model_objects(j->m, slot, pe),
                             &j->failures[slot]};
            args[slot][pe] = a;
            grids[slot][pe].delay_us =
                check_random_below(random, 4) == 0 ? (unsigned)check_random_below(random, 500) : 0;
            model_grid_start(&grids[slot][pe], &j->m->shape, all_calls, &args[slot][pe],
                             check_random_below(random, 2) == 0 ? 0 : check_random_next(random));
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        for (int pe = 0; pe < j->m->shape.n; pe++)
            model_grid_join(&grids[slot][pe]);
}

static const char *const kind_names[] = {"sync",     "barrier", "broadcast", "fcollect",
                                         "alltoall", "permute", "reduce",    "reducescatter"};

/* Says which call it was: the last one that writes what is wrong. */
static void job_explain(const struct job *j, int slot, int pe)
{
    const struct shape *s = &j->m->shape;
    const char *seen = model_objects(j->m, slot, pe), *expected = j->expected[slot] + (size_t)pe * OBJECT_BYTES;
    size_t at = 0;
    while (seen[at] == expected[at])
        at++;
    fprintf(stderr,
            "n %d, blocks %u, threads %u, lanes %u, packet %u, direct %d, epoch %llu, slot %d, pe %d, byte %zu\n", s->n,
            s->blocks, s->threads, s->lanes, s->inbox_bytes, s->direct, (unsigned long long)s->epoch, slot, pe, at);
    for (int i = 0; i < j->plans[slot].n_calls; i++) {
        const struct call *c = &j->plans[slot].calls[i];
        for (unsigned b = 0; b < s->blocks; b++)
            if (at >= dest_of(c, b, pe) &&
                at < dest_of(c, b, pe) + c->bytes * (c->what.kind < PERMUTE ? (size_t)s->n : 1))
                fprintf(stderr, "  call %d: %s by %s %u, repr %d, op %d, %zu bytes, dest %zu, source %zu\n", i,
                        kind_names[c->what.kind], c->what.form == GRID ? "grid" : "block", b, c->what.repr, c->what.op,
                        c->bytes, dest_of(c, b, pe), c->source[b]);
    }
}

static void job_check(struct job *j)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        CHECK_EQ(j->failures[slot], 0);
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            size_t bytes = compared_bytes(&j->plans[slot]);
            if (!CHECK_BYTES(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES, bytes))
                job_explain(j, slot, pe);
        }
        free(j->expected[slot]);
    }
    model_destroy(j->m);
}

/* ---- all combinations, in shapes by chance ---- */

static struct shape random_shape(int n, struct check_random *random)
{
    static const unsigned threads[] = {1, 5, 32, 64, 96};
    static const uint32_t packets[] = {16, 64, 240, 512, 1024};
    static const uint64_t epochs[] = {0,
                                     1,
                                     77,
                                     ((uint64_t)1 << 32) - 3,
                                     ((uint64_t)1 << 32) - 1,
                                     ((uint64_t)1 << 32) - 15,
                                     ((uint64_t)5 << 32) - 8,
                                     ((uint64_t)5 << 32) - 20};
    struct shape s;
    s.n = n;
    s.blocks = 1 + (unsigned)check_random_below(random, 3);
    s.threads = threads[check_random_below(random, 5)];
    s.lanes = s.blocks + (unsigned)check_random_below(random, 2);
    s.wave = check_random_below(random, 2) == 0 ? 32 : 64;
    s.inbox_bytes = packets[check_random_below(random, 5)];
    s.direct = check_random_below(random, 5) != 0;
    s.flat = check_random_below(random, 2) == 0;
    s.epoch = epochs[check_random_below(random, 8)];
    return s;
}

/* Every combination once, in jobs of MOST_CALLS calls a slot. */
static void run_combos(int n, struct check_random *random)
{
    struct combos all = combos_all();
    combos_shuffle(&all, random);
    struct job *j = (struct job *)malloc(sizeof(*j));
    for (int next = 0; j != NULL && next < all.count;) {
        struct shape s = random_shape(n, random);
        memset(j->plans, 0, sizeof(j->plans));
        for (int slot = 0; slot < SLOTS; slot++)
            for (int i = 0; i < MOST_CALLS; i++, next++)
                add_call(&j->plans[slot], &s, all.list[next % all.count], random);
        job_prepare(j, s, random);
        job_run(j, random);
        job_check(j);
    }
    free(j);
}

/* ---- every name is there, and leads to the right representation ---- */

static int isod_reduce_probe(shmemd_t h, struct isod_reduce w, enum isod_elem elem, int op, isod_pipelined *pipelined)
{
#define OWN(name, ...) isod_reduce_pipelined_##name,
    static isod_pipelined *const own[] = {ISOD_ELEMS(OWN)};
#undef OWN
    (void)h, (void)w, (void)op;
    CHECK(pipelined == own[elem]);
    return (int)elem;
}

static int expected_elem(size_t bytes, bool is_real, bool is_signed)
{
    if (is_real)
        return bytes == 4 ? ISOD_ELEM_f32 : ISOD_ELEM_f64;
    int row = bytes == 1 ? ISOD_ELEM_u8 : bytes == 2 ? ISOD_ELEM_u16 : bytes == 4 ? ISOD_ELEM_u32 : ISOD_ELEM_u64;
    return is_signed ? row + 1 : row;
}

static void test_names(void)
{
    shmemd_t h;
    struct isod_reduce w = isod_reduce_of(NULL, NULL, 0, 0);
    memset(&h, 0, sizeof(h));
#define PROBE_TYPE(NAME, TYPE, ...)                      \
    CHECK_EQ_NAMED(SHMEMD_BY_TYPE(TYPE, probe, h, w, 0), \
                   expected_elem(sizeof(TYPE), (TYPE)1 / 2 != 0, (TYPE)-1 < (TYPE)1), #NAME);
    SHMEM_DEVICE_ARITH_TYPES(PROBE_TYPE, )
#undef PROBE_TYPE
}

/* ---- typed names, chosen to touch each way of stamping once ---- */

struct typed_args {
    shmemd_t h;
    float *f; /* [2 * n] */
    unsigned char *u;
    shmemd_half_t *half;
    shmemd_complexd_t *z;
    int *failures;
};

SHMEMD_KERNEL(typed_calls, struct typed_args, a)
{
    int n = shmemd_n_pes(a.h);
    int bad = shmemd_float_sum_reduce_block(a.h, a.f, a.f, 3);
    bad |= shmemd_uint8_xor_reducescatter_grid(a.h, a.u + 64, a.u, 4);
    bad |= shmemd_half_max_reduce_grid(a.h, a.half, a.half, 2);
    bad |= shmemd_complexd_prod_reduce_block(a.h, a.z, a.z, 1);
    bad |= shmemd_float_fcollect_block(a.h, a.f + 3, a.f, 1);
    bad |= shmemd_half_broadcast_grid(a.h, a.half + 2, a.half, 1, n - 1);
    bad |= shmemd_grid_sync(a.h);
    if (shmemd_thread_index() == 0)
        *a.failures |= bad;
}

static void test_typed(uint64_t seed)
{
    struct shape s = {3, 1, 33, 1, 32, 64, true, true, 9};
    struct model *m = model_create(s);
    struct model_grid grids[3];
    struct typed_args args[3];
    int failures[3] = {0, 0, 0};
    memset(grids, 0, sizeof(grids));
    for (int pe = 0; pe < s.n; pe++) {
        char *o = model_objects(m, 0, pe);
        memset(o, 0, 4096);
        struct typed_args a = {model_handle(m, 0, pe),
                               (float *)(void *)o,
                               (unsigned char *)o + 512,
                               (shmemd_half_t *)(void *)(o + 1024),
                               (shmemd_complexd_t *)(void *)(o + 2048),
                               &failures[pe]};
        for (int i = 0; i < 3; i++)
            a.f[i] = (float)(i + pe);
        memset(a.u, 1 << pe, 12);
        a.half[0] = shmemd_half_from_float((float)pe - 7);
        a.z[0].im = 1;
        args[pe] = a;
        model_grid_start(&grids[pe], &s, typed_calls, &args[pe], seed);
    }
    for (int pe = 0; pe < s.n; pe++)
        model_grid_join(&grids[pe]);
    for (int pe = 0; pe < s.n; pe++) {
        CHECK_EQ(failures[pe], 0);
        CHECK_EQ(args[pe].f[2], 9);
        CHECK_EQ(args[pe].f[5], 3);
        CHECK_EQ(args[pe].u[67], 7);
        CHECK_EQ(shmemd_half_to_float(args[pe].half[2]), -5);
        CHECK_EQ(args[pe].z[0].im, -1);
    }
    model_destroy(m);
}

/* ---- what goes wrong ---- */

enum wrong { WRONG_LANES, WRONG_ROOT, WRONG_PARTNER, WRONG_USERS, LATE_SYNC, LATE_LINES, LATE_LONG };
struct wrong_args {
    shmemd_t h;
    enum wrong what;
    uint64_t *failed; /* threads that got nonzero */
    uint64_t *failed_again;
    char *dest;
    uint64_t *entered; /* threads that are about to call; may be NULL */
};

static __attribute__((noinline)) int wrong_call(struct wrong_args a)
{
    if (a.what == WRONG_ROOT)
        return shmemd_broadcastmem_block(a.h, a.dest, a.dest, 8, shmemd_n_pes(a.h));
    if (a.what == WRONG_PARTNER)
        return shmemd_permutemem_grid(a.h, a.dest, a.dest + 64, 8, shmemd_my_pe(a.h), -1);
    if (a.what == LATE_LINES || a.what == LATE_LONG) {
        char *dest = a.dest + (size_t)shmemd_block_index() * 2048;
        struct isod_reduce w = isod_reduce_of(dest, dest, a.what == LATE_LINES ? 24 : 1000, 0);
        return reduce_block(a.h, w, REPR_i32, ISOD_OP_sum_reduce);
    }
    return shmemd_sync_block(a.h);
}

SHMEMD_KERNEL(wrong_calls, struct wrong_args, a)
{
    if (a.entered != NULL)
        (void)prim_fetch_add_u64(a.entered, 1);
    if (wrong_call(a) != 0)
        (void)prim_fetch_add_u64(a.failed, 1);
    if (a.what != WRONG_USERS && shmemd_sync_block(a.h) != 0)
        (void)prim_fetch_add_u64(a.failed_again, 1);
}

static const struct isod_record *record_of(struct model *m, int pe, uint64_t state)
{
    for (int i = 0; i < ISOD_RECORDS; i++)
        if (prim_poll_u64(&m->pes[pe].host.records[i].state) == state)
            return &m->pes[pe].host.records[i];
    return NULL;
}

/* Threads of all PEs that should fail, in the call and in the sync behind it. */
struct misuse {
    enum wrong what;
    unsigned blocks;
    uint64_t fail, fail_again; /* at least: blocks that are right may find that another one was not */
    enum isod_misuse reason;
};
static const struct misuse misuses[] = {{WRONG_LANES, 3, 80, 80, ISOD_MISUSE_LANES},
                                        {WRONG_ROOT, 2, 160, 160, ISOD_MISUSE_ROOT},
                                        {WRONG_PARTNER, 2, 160, 160, ISOD_MISUSE_PARTNER}};

static void test_misuse(const struct misuse *w, uint64_t seed)
{
    struct shape s = {2, w->blocks, 40, 2, 32, 64, true, true, 0};
    struct model *m = model_create(s);
    struct model_grid grids[2];
    struct wrong_args args[2];
    uint64_t failed = 0, failed_again = 0;
    memset(grids, 0, sizeof(grids));
    for (int pe = 0; pe < s.n; pe++) {
        struct wrong_args a = {model_handle(m, 0, pe), w->what, &failed, &failed_again, model_objects(m, 0, pe), NULL};
        args[pe] = a;
        model_grid_start(&grids[pe], &s, wrong_calls, &args[pe], seed);
    }
    for (int pe = 0; pe < s.n; pe++)
        model_grid_join(&grids[pe]);
    CHECK(failed >= w->fail && failed_again >= w->fail_again);
    CHECK(shmemd_status(args[0].h) != 0 && shmemd_status(args[1].h) != 0);
    const struct isod_record *r = record_of(m, 1, ISOD_RECORD_MISUSE);
    if (CHECK(r != NULL))
        CHECK_EQ(r->waited_ns, w->reason);
    model_destroy(m);
}

/* Two kernels of the first PE on one lane at once: the second is told so. A race by intention, nothing for
 * ThreadSanitizer. */
static void test_users(uint64_t seed)
{
    (void)seed;
#ifndef PRIM_CPU_TSAN
    struct shape s = {2, 1, 8, 1, 32, 64, true, true, 5};
    struct model *m = model_create(s);
    struct model_grid grids[3];
    struct wrong_args args[2];
    uint64_t failed = 0, failed_again = 0, entered = 0;
    memset(grids, 0, sizeof(grids));
    for (int i = 0; i < 3; i++) {
        struct wrong_args a = {model_handle(m, 0, i / 2), WRONG_USERS, &failed, &failed_again,
                               model_objects(m, 0, 0),    &entered};
        args[i / 2] = a;
        model_grid_start(&grids[i], &s, wrong_calls, &args[i / 2], seed);
        while (i < 2 && prim_load_relaxed_u64(&entered) != (uint64_t)(i + 1) * s.threads)
            usleep(1000);
        usleep(100000); /* from there into the call */
    }
    for (int i = 0; i < 3; i++)
        model_grid_join(&grids[i]);
    CHECK(failed >= s.threads && failed <= 2 * s.threads);
    const struct isod_record *r = record_of(m, 0, ISOD_RECORD_MISUSE);
    if (CHECK(r != NULL)) {
        CHECK_EQ(r->waited_ns, ISOD_MISUSE_USERS);
        CHECK_EQ(r->seen, 1);
    }
    model_destroy(m);
#endif
}

/* The first PE alone: it leaves a record, and goes on or gives up. */
static void test_late(enum wrong what, bool gives_up, uint64_t seed)
{
    struct shape s = {3, 2, 40, 2, 32, 64, true, false, ((uint64_t)1 << 32) - 40};
    struct model *m = model_create(s);
    struct model_grid grids[3];
    struct wrong_args args[3];
    uint64_t failed = 0, failed_again = 0;
    memset(grids, 0, sizeof(grids));
    for (int pe = 0; pe < s.n; pe++) {
        struct wrong_args a = {model_handle(m, 0, pe), what, &failed, &failed_again, model_objects(m, 0, pe), NULL};
        args[pe] = a;
        m->pes[pe].world.deadline_ns = 20 * 1000 * 1000;
    }
    model_grid_start(&grids[0], &s, wrong_calls, &args[0], seed);
    for (int i = 0; i < 3000 && record_of(m, 0, ISOD_RECORD_LATE) == NULL; i++)
        usleep(10 * 1000);
    if (gives_up)
        prim_store_relaxed_u64(&m->pes[0].host.abort, 1);
    for (int pe = 1; pe < s.n && !gives_up; pe++)
        model_grid_start(&grids[pe], &s, wrong_calls, &args[pe], seed);
    for (int pe = 0; pe < (gives_up ? 1 : s.n); pe++)
        model_grid_join(&grids[pe]);
    const struct isod_record *r = record_of(m, 0, ISOD_RECORD_LATE);
    if (CHECK(r != NULL)) {
        CHECK_EQ(r->call, what == LATE_SYNC ? ISOD_CALL_SYNC : ISOD_CALL_REDUCE);
        CHECK(r->pe == 1 || r->pe == 2);
        CHECK_EQ(r->expected, s.epoch + 1);
        CHECK_EQ(r->seen, 0);
    }
    CHECK_EQ(failed, gives_up ? s.blocks * s.threads : 0);
    CHECK_EQ(failed_again, failed);
    CHECK_EQ(record_of(m, 0, ISOD_RECORD_GAVE_UP) != NULL, gives_up);
    CHECK_EQ(shmemd_status(args[0].h), gives_up);
    model_destroy(m);
}

/* ---- speed, by hand ---- */

struct bench_args {
    shmemd_t h;
    float *x;
    int rounds, what;
    uint64_t *ns;
};
SHMEMD_KERNEL(bench_calls, struct bench_args, a)
{
    int bad = shmemd_barrier_block(a.h);
    uint64_t begin = shmemd_clock_ns();
    for (int i = 0; i < a.rounds; i++)
        bad |= a.what == 0 ? shmemd_float_sum_reduce_block(a.h, a.x, a.x, 256) : shmemd_sync_block(a.h);
    if (shmemd_thread_index() == 0)
        *a.ns = bad != 0 ? 0 : shmemd_clock_ns() - begin;
}

static void bench(int what, int rounds)
{
    struct shape s = {4, 1, 64, 1, 32, 4096, true, true, 0};
    struct model *m = model_create(s);
    struct model_grid grids[4];
    struct bench_args args[4];
    uint64_t ns[4];
    memset(grids, 0, sizeof(grids));
    for (int pe = 0; pe < s.n; pe++) {
        struct bench_args a = {model_handle(m, 0, pe), (float *)(void *)model_objects(m, 0, pe), rounds, what, &ns[pe]};
        memset(a.x, 0, 1024);
        args[pe] = a;
        model_grid_start(&grids[pe], &s, bench_calls, &args[pe], 0);
    }
    for (int pe = 0; pe < s.n; pe++)
        model_grid_join(&grids[pe]);
    printf("%s, 4 PEs, a block of 64: %.2f us\n", what == 0 ? "float sum of 1 KiB" : "sync",
           (double)ns[0] / rounds / 1000);
    model_destroy(m);
}

static void test_few(uint64_t seed)
{
    test_typed(seed);
    for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++)
        test_misuse(&misuses[i], seed);
    test_users(seed);
    for (int what = LATE_SYNC; what <= LATE_LONG; what++) {
        test_late((enum wrong)what, false, seed);
        test_late((enum wrong)what, true, seed);
    }
}

static uint64_t random_seed(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED");
    return seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
}

/* A unit of LL data is taken only when all four halves of its two LL words carry the epoch: each arrives by itself. */
static void test_units(void)
{
    for (unsigned here = 0; here < 16; here++) {
        struct prim_ll line[2];
        struct prim_vec16 v;
        for (unsigned i = 0; i < 2; i++) {
            prim_store_ll(&line[i], 10 + 2 * i, 11 + 2 * i, 7);
            line[i].epoch0 -= (here >> (2 * i) & 1) == 0; /* an old one */
            line[i].epoch1 -= (here >> (2 * i + 1) & 1) == 0;
        }
        CHECK_EQ(isod_unit_look(line, 7, &v), here == 15);
        CHECK(here != 15 || (v.word[0] == (10 | (uint64_t)11 << 32) && v.word[1] == (12 | (uint64_t)13 << 32)));
    }
}

int main(int argc, char **argv)
{
#ifdef PRIM_CPU_TSAN
    static const int sizes[] = {1, 2, 3}; /* races need no more, and each PE is several times slower */
#else
    static const int sizes[] = {1, 2, 3, 4, 8};
#endif
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        int rounds = argc > 2 ? atoi(argv[2]) : 2000;
        bench(0, rounds);
        bench(1, rounds);
        return 0;
    }
    check_self.seed = random_seed();
    printf("seed %llu\n", (unsigned long long)check_self.seed);
    struct check_random random = check_random_stream(1);
    test_names();
    test_units();
    for (uint64_t seed = 0; seed < 2; seed++) /* one thread of a block does a call for all; all take part */
        test_few(seed);
    for (int round = 0; round < (full ? 20 : 1); round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            run_combos(sizes[i], &random);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
