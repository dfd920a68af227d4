/* SPDX-License-Identifier: MIT */
/* The rings between kernels and the proxy, without either end's surroundings: grids of the CPU device on two OS threads
 * post to rings of eight entries, and a slow proxy that trusts nobody executes them against the
 * memory of a PE that no pointer reaches. Wrap-around and want of credit all the time, order within a block, old values
 * of atomics, quiet; kernels that give up while the proxy sleeps leave nothing behind. ThreadSanitizer sees all of it.
 * SHMEM_TEST_SEED repeats a run, SHMEM_TEST_ROUNDS sets its length. */
#include "../../device/cpu/fiber.h"
#include "../../device/api/amo_device.h"
#include "../check.h"

#include <shmem_device.h>

#include <pthread.h>

enum {
    GRIDS = 2,
    BLOCKS = 5,
    THREADS = 48, /* a whole wave and a part of one */
    RINGS = 2,
    ENTRIES = 8,
    STAGE_BYTES = ISOD_RING_STAGE_BYTES,
    PIECE_MOST = 3 * STAGE_BYTES / 2, /* bytes of a put: one stage, several, or where it lies */
    LANES = GRIDS * BLOCKS,
    TARGET = 1 /* the PE behind the ring */
};

/* Of this PE's memory, and the same of the target's. */
struct far_part {
    uint64_t counter;
    uint64_t cells[LANES][THREADS];
    uint64_t signals[LANES];
    uint64_t sizes[LANES]; /* bytes of the put that a signal stands for */
    unsigned char data[LANES][PIECE_MOST];
    unsigned char back[LANES][PIECE_MOST];
};

struct ring_memory {
    struct isod_entry entries[ENTRIES];
    uint64_t done[2], pad[6];
    uint64_t results[ENTRIES], turns[ENTRIES], leases[ISOD_RING_STAGES];
    char stages[ISOD_RING_STAGES * STAGE_BYTES];
};

struct bench {
    struct isod_world world;
    struct isod_team team;
    struct isod_host host;
    struct isod_ring rings[RINGS];
    struct ring_memory memory[RINGS];
    struct far_part here, there;
    uint32_t asleep, stop;      /* atomic */
    uint64_t executed;          /* atomic */
    unsigned failures;          /* of the proxy's own checks; read after it has ended */
    struct check_random random; /* the proxy's */
};

static struct bench bench; /* of the one job that this process runs */

/* ---- the proxy ---- */

static unsigned char pattern(unsigned lane, uint64_t round, size_t i)
{
    return (unsigned char)(lane * 37 + round * 11 + i);
}

static void proxy_check(bool fine, const char *what)
{
    if (!fine && bench.failures++ < 10)
        fprintf(stderr, "ring_test: the proxy: %s\n", what);
}

static char *target_of(const struct isod_entry *e, uint64_t bytes)
{
    uint64_t offset = e->addr - (uint64_t)(uintptr_t)&bench.here;
    bool fine = e->pe == TARGET && offset < sizeof(bench.there) && bytes <= sizeof(bench.there) - offset;
    proxy_check(fine, "an entry with a wrong PE or address");
    return (char *)&bench.there + (fine ? offset : 0);
}

/* Everything that the block has put before is there. */
static void look_at_signal(const struct isod_entry *e)
{
    uint64_t *to = (uint64_t *)(void *)target_of(e, 8);
    unsigned lane = (unsigned)(to - bench.there.signals);
    uint64_t round = e->word[0];
    proxy_check(lane < LANES && e->op == SHMEM_SIGNAL_SET, "a signal to a wrong place");
    for (size_t i = 0; lane < LANES && i < bench.there.sizes[lane]; i++)
        if (bench.there.data[lane][i] != pattern(lane, round, i)) {
            proxy_check(false, "a signal has passed the data before it");
            break;
        }
    __atomic_store_n(to, round, __ATOMIC_RELEASE);
}

static void put(const struct isod_entry *e, const void *source, uint64_t bytes)
{
    char *to = target_of(e, bytes);
    if (bytes == 8)
        __atomic_store_n((uint64_t *)(void *)to, *(const uint64_t *)source, __ATOMIC_RELEASE); /* read by kernels */
    else
        memcpy(to, source, bytes);
}

static void execute(struct ring_memory *m, const struct isod_entry *e, uint64_t *result)
{
    char *stage = m->stages + e->word[0] % ISOD_RING_STAGES * STAGE_BYTES, *local = (char *)(uintptr_t)e->word[0];
    switch (e->kind) {
    case ISOD_RING_INLINE:
        put(e, e->word, e->bytes);
        break;
    case ISOD_RING_STAGED:
        proxy_check(e->word[1] <= STAGE_BYTES, "a stage that is too long");
        put(e, stage, e->word[1]);
        break;
    case ISOD_RING_DIRECT:
        put(e, local, e->word[1]);
        break;
    case ISOD_RING_GET_STAGED:
        memcpy(stage, target_of(e, e->word[1]), e->word[1]);
        break;
    case ISOD_RING_GET_DIRECT:
        memcpy(local, target_of(e, e->word[1]), e->word[1]);
        break;
    case ISOD_RING_AMO: {
        uint64_t *word = (uint64_t *)(void *)target_of(e, 8);
        proxy_check(e->op == ISOD_AMO_ADD && e->bytes == 8, "an atomic without a request");
        __atomic_store_n(result, __atomic_fetch_add(word, e->word[0], __ATOMIC_ACQ_REL), __ATOMIC_RELAXED);
        break;
    }
    case ISOD_RING_SIGNAL:
        look_at_signal(e);
        break;
    default:
        proxy_check(false, "an entry of unknown kind");
    }
}

/* One entry of the ring, if there is one. */
static bool serve(unsigned ring)
{
    struct ring_memory *m = &bench.memory[ring];
    uint64_t ticket = m->done[0];
    struct isod_entry *e = &m->entries[ticket % ENTRIES];
    uint64_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE); /* pairs with isod_ring_write */
    if (seq != ticket + 1) {
        proxy_check(seq == 0 || seq + ENTRIES == ticket + 1, "an entry was written before its turn");
        return false;
    }
    execute(m, e, &m->results[ticket % ENTRIES]);
    __atomic_fetch_add(&bench.executed, 1, __ATOMIC_RELAXED);
    __atomic_store_n(m->done, ticket + 1, __ATOMIC_RELEASE); /* pairs with isod_ring_is_done */
    return true;
}

static void *proxy_main(void *unused)
{
    (void)unused;
    while (__atomic_load_n(&bench.stop, __ATOMIC_ACQUIRE) == 0) {
        bool any = false;
        if (__atomic_load_n(&bench.asleep, __ATOMIC_ACQUIRE) == 0)
            for (unsigned i = 0; i < RINGS; i++)
                any |= serve(i);
        if (!any || check_random_below(&bench.random, 40) == 0)
            sched_yield();
    }
    return NULL;
}

/* ---- kernels ---- */

struct work {
    shmemd_t h;
    struct far_part *here;
    uint64_t *olds;  /* [LANES * THREADS * rounds] old values of the counter */
    uint64_t *wrong; /* atomic */
    uint32_t grid, rounds, first, salt;
};

PRIM_FN uint32_t work_bytes(const struct work *w, uint32_t lane, uint32_t round)
{
    uint32_t x = (w->salt + lane * 7919u + round * 104729u) * 2654435761u;
    uint32_t most = (x >> 8) % 4 == 0 ? (uint32_t)PIECE_MOST : (x >> 8) % 4 == 1 ? 400u : 40u;
    return 1 + (x >> 12) % most;
}

/* The block puts data (from its shared memory, or from symmetric memory), its size before it and a signal behind it,
 * and gets it back. */
PRIM_FN void exchange(const struct work *w, uint32_t lane, uint32_t round, unsigned char *local)
{
    struct prim_group g = prim_group_block();
    uint32_t bytes = work_bytes(w, lane, round);
    unsigned char *source = round % 2 == 0 ? local : w->here->data[lane], *back = w->here->back[lane];
    uint64_t size = bytes;
    for (uint32_t i = prim_rank(g); i < bytes; i += prim_size(g))
        source[i] = (unsigned char)(lane * 37 + round * 11 + i);
    prim_sync(g);
    if (prim_is_first(g)) /* no data of another round may stand behind a size */
        isod_ring_put(w->h, prim_group_thread(), isod_bytes_of(&w->here->sizes[lane], &size, 8), TARGET);
    if (round % 3 == 0)
        isod_ring_put_nbi(w->h, g, isod_bytes_of(w->here->data[lane], source, bytes), TARGET);
    else
        isod_ring_put(w->h, g, isod_bytes_of(w->here->data[lane], source, bytes), TARGET);
    prim_gather_stores(g);
    if (prim_is_first(g))
        isod_ring_signal(w->h.team, &w->here->signals[lane], round, SHMEM_SIGNAL_SET, TARGET);
    isod_ring_get(w->h, g, isod_bytes_of(round % 4 < 2 ? back : local, w->here->data[lane], bytes), TARGET);
    for (uint32_t i = prim_rank(g); i < bytes; i += prim_size(g))
        if ((round % 4 < 2 ? back : local)[i] != (unsigned char)(lane * 37 + round * 11 + i))
            prim_fetch_add_u64(w->wrong, 1);
    prim_sync(g);
}

PRIM_KERNEL(ring_work, struct work, w)
{
    PRIM_SHARED(unsigned char, local, PIECE_MOST);
    uint32_t lane = w.grid * BLOCKS + prim_block_index(), me = prim_rank(prim_group_block());
    for (uint32_t i = 0; i < w.rounds; i++) {
        uint32_t round = w.first + i;
        uint64_t value = (uint64_t)round << 32 | lane << 16 | me, seen = 0;
        uint64_t *old = &w.olds[(i * LANES + lane) * THREADS + me];
        if ((me + round) % 3 != 0) /* diverging threads */
            *old = isod_ring_amo(w.h, isod_op_fetch(ISOD_AMO_ADD, 1, 8), &w.here->counter, TARGET);
        else
            (void)isod_ring_amo(w.h, isod_op_post(ISOD_AMO_ADD, 1, 8), &w.here->counter, TARGET);
        if (me % 2 == 0)
            isod_ring_put_words(w.h, &w.here->cells[lane][me], isod_words_of(value, 0, 8), TARGET);
        else
            isod_ring_put(w.h, prim_group_thread(), isod_bytes_of(&w.here->cells[lane][me], &value, 8), TARGET);
        if (me % 16 == 5)
            isod_ring_quiet(w.h);
        isod_ring_get(w.h, prim_group_thread(), isod_bytes_of(&seen, &w.here->cells[lane][me], 8), TARGET);
        if (seen != value)
            prim_fetch_add_u64(w.wrong, 1);
        exchange(&w, lane, round, local);
    }
    isod_ring_quiet(w.h);
}

/* ---- the host's side ---- */

static void lay_out(void)
{
    memset(&bench, 0, sizeof(bench));
    bench.random.state = check_self.seed;
    bench.world.n_pes = 2;
    bench.world.n_segments = 1;
    bench.world.n_rings = RINGS;
    bench.world.host = &bench.host;
    bench.world.rings = bench.rings;
    bench.world.segments[0].base = (char *)&bench.here;
    bench.world.segments[0].len = sizeof(bench.here);
    bench.team.n_pes = 2;
    bench.team.world = &bench.world;
    for (unsigned i = 0; i < RINGS; i++) {
        struct isod_ring *r = &bench.rings[i];
        struct ring_memory *m = &bench.memory[i];
        r->entries = m->entries;
        r->done = m->done;
        r->results = m->results;
        r->stages = m->stages;
        r->turns = m->turns;
        r->leases = m->leases;
        r->mask = ENTRIES - 1;
        for (unsigned t = 0; t < ENTRIES; t++)
            m->turns[t] = t;
    }
}

static shmemd_t handle(void)
{
    shmemd_t h = {(char *)&bench.here, sizeof(bench.here), NULL, 0, &bench.team, &bench.world, 0, 2, 0, 0, 0};
    return h;
}

struct grid_run {
    pthread_t thread;
    struct fiber_grid grid;
    struct work work;
};

static void *grid_main(void *argument)
{
    struct grid_run *run = (struct grid_run *)argument;
    struct fibers *fibers = iso_fibers_create();
    if (fibers == NULL || iso_fibers_run(fibers, &run->grid) != 0)
        abort();
    iso_fibers_destroy(fibers);
    return NULL;
}

static void start_grids(struct grid_run *runs, struct work work, struct check_random *random)
{
    for (uint32_t i = 0; i < GRIDS; i++) {
        memset(&runs[i], 0, sizeof runs[i]);
        runs[i].work = work;
        runs[i].work.grid = i;
        runs[i].grid.kernel = ring_work;
        runs[i].grid.args = &runs[i].work;
        runs[i].grid.blocks = BLOCKS;
        runs[i].grid.threads = THREADS;
        runs[i].grid.wave = check_random_below(random, 2) == 0 ? 32 : 64;
        runs[i].grid.seed = check_random_below(random, 2) == 0 ? 0 : check_random_next(random);
        if (pthread_create(&runs[i].thread, NULL, grid_main, &runs[i]) != 0)
            abort();
    }
}
static void join_grids(struct grid_run *runs)
{
    for (int i = 0; i < GRIDS; i++)
        pthread_join(runs[i].thread, NULL);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Every old value was seen by one thread at most; UINT64_MAX stands where no old value was asked for. */
static void check_olds(uint64_t *olds, size_t n, uint64_t below)
{
    qsort(olds, n, sizeof(*olds), by_value);
    for (size_t i = 1; i < n; i++)
        if (olds[i] != UINT64_MAX && !CHECK(olds[i] != olds[i - 1] && olds[i] < below))
            return;
}

static void run_work(struct check_random *random, uint32_t rounds, uint32_t first)
{
    struct grid_run runs[GRIDS];
    size_t n = (size_t)rounds * LANES * THREADS;
    uint64_t wrong = 0, before = bench.there.counter, *olds = (uint64_t *)malloc(n * sizeof(*olds));
    struct work work = {handle(), &bench.here, olds, &wrong, 0, rounds, first, (uint32_t)check_random_next(random)};
    memset(olds, 0xff, n * sizeof(*olds));
    start_grids(runs, work, random);
    join_grids(runs);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(bench.there.counter, before + n); /* all quiet */
    check_olds(olds, n, before + n);
    for (int lane = 0; lane < LANES; lane++)
        CHECK_EQ(bench.there.signals[lane], first + rounds - 1);
    free(olds);
}

/* The handle has given up: a wait that does so later tells the host nothing more. */
static void run_later_wait(void)
{
    static const uint64_t never = 0;
    uint64_t v, used = bench.world.records_used;
    struct isod_waited who = {0, 1};
    CHECK(!isod_wait_quietly(handle().team, isod_until_of(ISOD_U64, &never, ISOD_EQ, 1), who, &v));
    CHECK_EQ(bench.world.records_used, used);
}

/* The proxy sleeps until the rings are full; then the kernels give up. What they had posted is still executed. */
static void run_abort(struct check_random *random)
{
    struct grid_run runs[GRIDS];
    uint64_t wrong = 0, *olds = (uint64_t *)calloc(LANES * THREADS, sizeof(*olds));
    struct work work = {handle(), &bench.here, olds, &wrong, 0, 1, 1, 0};
    __atomic_store_n(&bench.asleep, 1, __ATOMIC_RELEASE);
    start_grids(runs, work, random);
    usleep(1000 + (unsigned)check_random_below(random, 20000));
    __atomic_store_n(&bench.host.abort, 1, __ATOMIC_RELAXED);
    join_grids(runs);
    CHECK(bench.team.status != 0);
    CHECK(bench.world.records_used > 0);
    CHECK_EQ(bench.host.records[0].state, ISOD_RECORD_GAVE_UP);
    run_later_wait();
    __atomic_store_n(&bench.asleep, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < RINGS; i++)
        while (__atomic_load_n(bench.memory[i].done, __ATOMIC_ACQUIRE) < bench.rings[i].head)
            usleep(100);
    bench.host.abort = bench.team.status = 0;
    free(olds);
}

int main(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED"), *text = getenv("SHMEM_TEST_ROUNDS");
    uint32_t rounds = text != NULL ? (uint32_t)strtoul(text, NULL, 0) : 12;
    pthread_t proxy;
    check_self.seed = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("seed %llu\n", (unsigned long long)check_self.seed);
    struct check_random random = check_random_stream(1);
    lay_out();
    CHECK(!isod_ring_used(handle()));
    if (pthread_create(&proxy, NULL, proxy_main, NULL) != 0)
        abort();
    run_work(&random, rounds, 1);
    CHECK(isod_ring_used(handle()));
    for (uint32_t i = 0; i < 4; i++) {
        run_abort(&random);
        run_work(&random, rounds / 4 + 1, 1000 * (i + 1));
    }
    __atomic_store_n(&bench.stop, 1, __ATOMIC_RELEASE);
    pthread_join(proxy, NULL);
    CHECK_EQ(bench.failures, 0);
    CHECK(bench.executed > ENTRIES * RINGS * 100);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
