/* SPDX-License-Identifier: MIT */
/* The kernels of collectives on streams, on the CPU device: random jobs of 1 to 8 PEs, in which each PE launches kernel
 * after kernel on two slots at once, out of epoch with the others; every kernel, every representation and operator, in
 * several grids, sizes around every threshold, misaligned, in place, numbers of epochs that wrap. Around its kernels a
 * PE writes into dest before and into source after, as its stream may: whoever writes or reads too early or too late is
 * found. Each call is repeated serially on a copy of all memory, and all of it is compared, bit by bit.
 * Then: members that do not come, for every kernel.
 * usage: stream_kernels_test [full]     full: all of it twenty times
 * SHMEM_TEST_SEED repeats a run. */
#include "stream_kernels_script.h"

/* ---- a job: scripts on two slots at once ---- */

struct job {
    struct model *m;
    struct script scripts[SLOTS];
    char *expected[SLOTS]; /* [n][OBJECT_BYTES] */
    char *buffers[SLOTS][MOST_PES];
};

/* Of each PE, the objects as a registered buffer. */
static void lay_out_buffers(struct job *j)
{
    for (int pe = 0; pe < j->m->shape.n; pe++) {
        struct isod_world *w = &j->m->pes[pe].world;
        w->n_segments = 1 + SLOTS;
        for (int slot = 0; slot < SLOTS; slot++) {
            j->buffers[slot][pe] = model_objects(j->m, slot, pe);
            w->segments[1 + slot].base = model_objects(j->m, slot, pe);
            w->segments[1 + slot].len = OBJECT_BYTES;
            w->segments[1 + slot].peers = j->buffers[slot];
        }
    }
}

static void job_prepare(struct job *j, struct shape shape, struct check_random *random)
{
    j->m = model_create(shape);
    lay_out_buffers(j);
    for (int slot = 0; slot < SLOTS; slot++) {
        struct script *p = &j->scripts[slot];
        j->expected[slot] = (char *)malloc((size_t)shape.n * OBJECT_BYTES);
        if (j->expected[slot] == NULL)
            abort();
        fill_objects(&p->plan, &shape, j->expected[slot], random);
        for (int pe = 0; pe < shape.n; pe++)
            memcpy(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES,
                   compared_bytes(&p->plan));
        for (int i = 0; i < p->plan.n_calls; i++)
            repeat_launch(&p->plan.calls[i], &p->launches[i], j->expected[slot], shape.n);
    }
}

static void job_run(struct job *j, struct check_random *random)
{
    struct pe_side sides[SLOTS][MOST_PES];
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            struct pe_side *s = &sides[slot][pe];
            s->m = j->m;
            s->script = &j->scripts[slot];
            s->slot = slot;
            s->pe = pe;
            s->seed = check_random_next(random);
            if (pthread_create(&s->thread, NULL, pe_run, s) != 0)
                abort();
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        for (int pe = 0; pe < j->m->shape.n; pe++)
            pthread_join(sides[slot][pe].thread, NULL);
}

/* Says which call it was: those that write what is wrong. */
static void job_explain(const struct job *j, int slot, int pe)
{
    const struct shape *s = &j->m->shape;
    const struct script *p = &j->scripts[slot];
    const char *seen = model_objects(j->m, slot, pe), *expected = j->expected[slot] + (size_t)pe * OBJECT_BYTES;
    size_t at = 0;
    while (seen[at] == expected[at])
        at++;
    fprintf(stderr, "n %d, packet %u, direct %d, flat %d, epoch %llu, slot %d, pe %d, byte %zu\n", s->n, s->inbox_bytes,
            s->direct, s->flat, (unsigned long long)s->epoch, slot, pe, at);
    for (int i = 0; i < p->plan.n_calls; i++) {
        const struct call *c = &p->plan.calls[i];
        const struct launch *l = &p->launches[i];
        size_t dest = dest_of(c, 0, pe);
        bool here = at >= dest && at < dest + c->bytes * dests_of(c, s->n);
        fprintf(stderr, "%s call %d: %s, %u blocks of %u, repr %d, op %d, %zu bytes, dest %zu, source %zu%s\n",
                here ? "->" : "  ", i, l->algorithm->name, l->blocks, l->threads, c->what.repr, c->what.op, c->bytes,
                dest, source_at(c, l, pe), l->in_buffer ? ", in a buffer" : "");
    }
}

static void job_check(struct job *j)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int pe = 0; pe < j->m->shape.n; pe++) {
            CHECK_EQ(prim_load_relaxed_u64(&j->m->pes[pe].slots[slot].team.status), 0);
            CHECK_EQ(prim_load_relaxed_u64(&j->m->pes[pe].world.records_used), 0);
            if (!CHECK_BYTES(model_objects(j->m, slot, pe), j->expected[slot] + (size_t)pe * OBJECT_BYTES,
                             compared_bytes(&j->scripts[slot].plan)))
                job_explain(j, slot, pe);
        }
        free(j->expected[slot]);
    }
    for (int pe = 1; pe < j->m->shape.n; pe++) /* lanes are equal on all members */
        for (unsigned lane = 0; lane < j->m->shape.lanes; lane++)
            CHECK_EQ(j->m->pes[pe].slots[0].lanes[lane].epoch, j->m->pes[0].slots[0].lanes[lane].epoch);
    model_destroy(j->m);
}

static struct shape random_shape(int n, struct check_random *random)
{
    static const unsigned threads[] = {1, 5, 32, 64, 130};
    static const uint32_t packets[] = {32, 64, 240, 512, 2048};
    static const uint64_t below[] = {2, 3, 15, 20, 60, 300};
    struct shape s;
    memset(&s, 0, sizeof(s));
    s.n = n;
    s.blocks = 1 + (unsigned)check_random_below(random, 3);
    s.threads = threads[check_random_below(random, 5)];
    s.lanes = s.blocks + (unsigned)check_random_below(random, 2);
    s.wave = check_random_below(random, 2) == 0 ? 32 : 64;
    s.inbox_bytes = packets[check_random_below(random, 5)];
    s.direct = check_random_below(random, 5) != 0;
    s.flat = check_random_below(random, 2) == 0;
    s.epoch = check_random_below(random, 2) == 0
                 ? check_random_below(random, 3)
                 : ((uint64_t)(1 + check_random_below(random, 5)) << 32) - below[check_random_below(random, 6)];
    return s;
}

/* Every kind, representation and operator, alltoallv among them, in jobs of MOST_CALLS calls a slot. */
static void run_combos(int n, struct check_random *random)
{
    struct combos all = combos_all();
    combos_shuffle(&all, random);
    struct job *j = (struct job *)malloc(sizeof(*j));
    for (int next = 0; j != NULL && next < all.count;) {
        struct shape s = random_shape(n, random);
        memset(j->scripts, 0, sizeof(j->scripts));
        for (int slot = 0; slot < SLOTS; slot++)
            for (int i = 0; i < MOST_CALLS; i++, next++) {
                struct combo what = all.list[next % all.count];
                what.form = GRID;
                if (check_random_below(random, 12) == 0)
                    what.kind = (enum kind)ALLTOALLV;
                else if (check_random_below(random, 3) == 0)
                    what.op = ISOD_OP_sum_reduce;
                add_call(&j->scripts[slot], &s, what, random);
            }
        job_prepare(j, s, random);
        job_run(j, random);
        job_check(j);
    }
    free(j);
}

/* ---- members that do not come ---- */

static const struct isod_record *record_of(struct model *m, int pe, uint64_t state)
{
    for (int i = 0; i < ISOD_RECORDS; i++)
        if (prim_poll_u64(&m->pes[pe].host.records[i].state) == state)
            return &m->pes[pe].host.records[i];
    return NULL;
}

/* The first of three PEs alone: its kernel leaves a record, gives up and ends, and so does the next one, at once. What
 * the others wait for in memory is not written: no flag of a later epoch. */
static void test_alone(const struct algorithm *a)
{
    struct shape shape = {3, 2, 40, 2, 32, 64, true, false, 100};
    struct job j;
    struct call c;
    struct launch l;
    memset(&j, 0, sizeof(j));
    memset(&c, 0, sizeof(c));
    memset(&l, 0, sizeof(l));
    j.m = model_create(shape);
    lay_out_buffers(&j);
    memset(model_objects(j.m, 0, 0), 0, 4096);
    c.what.kind = (enum kind)a->kind;
    c.what.repr = a->repr == ANY ? REPR_i32 : a->repr;
    c.bytes = 96;
    c.root = 1;
    c.to[0] = c.from[0] = 1;
    c.dest[0] = 2048;
    l.algorithm = a;
    l.blocks = a->kind == SYNC || a->kind == BARRIER ? 1 : 2;
    struct pe_side s = {.m = j.m, .slot = 0, .pe = 0};
    struct isod_stream_coll args = args_of(&s, &c, &l);
    uint64_t words[3 * MOST_PES];
    if (a->kind == ALLTOALLV)
        blocks_of(&s, &c, &l, words, &args);
    struct model_grid grid;
    memset(&grid, 0, sizeof(grid));
    shape.blocks = l.blocks;
    j.m->pes[0].world.deadline_ns = 5 * 1000 * 1000;
    model_grid_start(&grid, &shape, a->kernel, &args, 0);
    for (int i = 0; i < 3000 && record_of(j.m, 0, ISOD_RECORD_LATE) == NULL; i++)
        usleep(2000);
    const struct isod_record *r = record_of(j.m, 0, ISOD_RECORD_LATE);
    if (CHECK_NAMED(r != NULL, a->name)) {
        CHECK_EQ_NAMED(r->call, ISOD_CALL_ON_STREAM_ALLREDUCE, a->name);
        CHECK_NAMED(r->pe == 1 || r->pe == 2, a->name);
    }
    prim_store_relaxed_u64(&j.m->pes[0].host.abort, 1);
    model_grid_join(&grid);
    model_grid_start(&grid, &shape, a->kernel, &args, 0);
    model_grid_join(&grid);
    CHECK_EQ_NAMED(shmemd_status(args.h), 1, a->name);
    for (unsigned lane = 0; lane < l.blocks; lane++) {
        uint64_t *flags = (uint64_t *)(void *)j.m->pes[0].slots[0].lanes[lane].near[1];
        CHECK_NAMED(flags[0] <= shape.epoch + 1, a->name);
        CHECK_EQ_NAMED(j.m->pes[0].slots[0].lanes[lane].dead, 1, a->name);
    }
    model_destroy(j.m);
}

/* More blocks than lanes: those without one say so, and nothing is written. */
static void test_lanes(void)
{
    struct shape shape = {1, 3, 8, 2, 32, 64, true, true, 0};
    struct model *m = model_create(shape);
    struct pe_side s = {.m = m, .slot = 0, .pe = 0};
    struct call c;
    struct launch l;
    memset(&c, 0, sizeof(c));
    memset(&l, 0, sizeof(l));
    c.what.kind = FCOLLECT;
    c.bytes = 96;
    c.dest[0] = 2048;
    l.algorithm = &algorithms[0]; /* one that splits nothing */
    l.blocks = 3;
    struct isod_stream_coll args = args_of(&s, &c, &l);
    memset(args.dest, 1, 96);
    memset(model_objects(m, 0, 0), 2, 96);
    struct model_grid grid;
    memset(&grid, 0, sizeof(grid));
    model_grid_start(&grid, &shape, isod_stream_exchange_push_kernel, &args, 0);
    model_grid_join(&grid);
    const struct isod_record *r = record_of(m, 0, ISOD_RECORD_MISUSE);
    if (CHECK(r != NULL))
        CHECK_EQ(r->waited_ns, ISOD_MISUSE_LANES);
    CHECK_EQ(args.dest[63], 2);
    CHECK_EQ(args.dest[64], 1);
    model_destroy(m);
}

static uint64_t random_seed(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED");
    return seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
}

int main(int argc, char **argv)
{
#ifdef PRIM_CPU_TSAN
    static const int sizes[] = {1, 2, 3}; /* races need no more, and each PE is several times slower */
#else
    static const int sizes[] = {1, 2, 3, 4, 8};
#endif
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    check_self.seed = random_seed();
    printf("seed %llu\n", (unsigned long long)check_self.seed);
    struct check_random random = check_random_stream(1);
    for (int i = 0; i < ALGORITHMS; i++)
        test_alone(&algorithms[i]);
    test_lanes();
    for (int round = 0; round < (full ? 20 : 1); round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            run_combos(sizes[i], &random);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
