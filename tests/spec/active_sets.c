/* SPDX-License-Identifier: MIT */
/* Collectives on active sets (deprecated): barrier, sync, broadcast, collect, fcollect, alltoall, alltoalls of 32 and
 * 64 bits, and the reductions of every operator and type, with a pSync of exactly the size that each of them needs. */
#include "../check.h"

#include <shmem_types.h>

enum { MOST = 3200, SETS = 5 };

struct set {
    int start, log_stride, size;
    int me; /* place of this PE, -1: not a member */
};

static struct set sets_of(int index, int npes)
{
    const struct set all[SETS] = {
        {0, 0, npes, -1},           {npes > 1 ? 1 : 0, 0, npes > 1 ? npes - 1 : 1, -1},
        {0, 1, (npes + 1) / 2, -1}, {npes > 1 ? 1 : 0, 1, npes > 1 ? npes / 2 : 1, -1},
        {0, 2, (npes + 3) / 4, -1},
    };
    struct set set = all[index];
    int offset = shmem_my_pe() - set.start;
    int stride = 1 << set.log_stride;
    if (offset >= 0 && offset % stride == 0 && offset / stride < set.size)
        set.me = offset / stride;
    return set;
}

/* pSync in the heap, of `n` words; two, for calls that follow each other. */
struct sync {
    long *words[2];
    size_t n;
};

static struct sync make_sync(size_t n)
{
    struct sync sync;
    sync.n = n;
    for (int i = 0; i < 2; i++) {
        sync.words[i] = (long *)check_alloc(n * sizeof(long));
        for (size_t k = 0; k < n; k++)
            sync.words[i][k] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
    return sync;
}

static void check_restored(const struct sync *sync)
{
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sync->n; k++)
            CHECK_EQ(sync->words[i][k], SHMEM_SYNC_VALUE);
}

static void free_sync(struct sync *sync)
{
    check_restored(sync);
    check_free(sync->words[1]);
    check_free(sync->words[0]);
}

static void test_barriers(void)
{
    int npes = shmem_n_pes();
    struct sync barrier = make_sync(SHMEM_BARRIER_SYNC_SIZE);
    long *arrived = (long *)check_alloc(sizeof(long));
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, npes);
        *arrived = 0;
        shmem_barrier_all();
        for (long round = 1; set.me >= 0 && round <= 30; round++) {
            shmem_long_atomic_inc(arrived, set.start); /* completed by the barrier */
            /* The same pSync may be used by the next call for the same set. */
            shmem_barrier(set.start, set.log_stride, set.size, barrier.words[0]);
            CHECK(shmem_long_atomic_fetch(arrived, set.start) >= round * set.size);
        }
        shmem_barrier_all();
    }
    check_free(arrived);
    free_sync(&barrier);
}

static void test_syncs(void)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    int npes = shmem_n_pes();
    struct sync any = make_sync(SHMEM_SYNC_SIZE);
    long *arrived = (long *)check_alloc(sizeof(long));
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, npes);
        *arrived = 0;
        shmem_barrier_all();
        for (long round = 1; set.me >= 0 && round <= 30; round++) {
            shmem_long_atomic_inc(arrived, set.start);
            shmem_quiet();
            shmem_sync(set.start, set.log_stride, set.size, any.words[0]);
            CHECK(shmem_long_atomic_fetch(arrived, set.start) >= round * set.size);
        }
        shmem_barrier_all();
    }
    check_free(arrived);
    free_sync(&any);
#endif
}

struct buffers {
    unsigned char *source, *dest; /* symmetric */
    size_t bytes;
};

/* Rounds alternate two pSyncs and two halves of dest, with a barrier of the set in between where one is used again. */
static void begin(struct buffers *buffers, size_t used)
{
    memset(buffers->dest, CHECK_POISON, used + 64);
    shmem_barrier_all();
}

static void test_broadcast(struct buffers *buffers, int bits, size_t n, unsigned round)
{
    struct sync sync = make_sync(SHMEM_BCAST_SYNC_SIZE);
    size_t len_bytes = n * (size_t)bits / 8;
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, shmem_n_pes());
        int root = (int)(round % (unsigned)set.size); /* counts in the set */
        begin(buffers, len_bytes);
        if (set.me >= 0) {
            check_fill(buffers->source, len_bytes, set.me, 0, round);
            if (bits == 32)
                shmem_broadcast32(buffers->dest, buffers->source, n, root, set.start, set.log_stride, set.size,
                                  sync.words[0]);
            else
                shmem_broadcast64(buffers->dest, buffers->source, n, root, set.start, set.log_stride, set.size,
                                  sync.words[0]);
            /* The root's own dest is not written. */
            if (set.me == root)
                CHECK(check_all_bytes(buffers->dest, CHECK_POISON, len_bytes));
            else
                CHECK_FILLED(buffers->dest, len_bytes, root, 0, round);
            CHECK(check_all_bytes(buffers->dest + len_bytes, CHECK_POISON, 64));
        }
        shmem_barrier_all();
    }
    free_sync(&sync);
}

static void test_fcollect(struct buffers *buffers, int bits, size_t n, unsigned round)
{
    struct sync sync = make_sync(SHMEM_COLLECT_SYNC_SIZE);
    size_t len_bytes = n * (size_t)bits / 8;
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, shmem_n_pes());
        begin(buffers, len_bytes * (size_t)set.size);
        if (set.me >= 0) {
            check_fill(buffers->source, len_bytes, set.me, 0, round);
            if (bits == 32)
                shmem_fcollect32(buffers->dest, buffers->source, n, set.start, set.log_stride, set.size, sync.words[0]);
            else
                shmem_fcollect64(buffers->dest, buffers->source, n, set.start, set.log_stride, set.size, sync.words[0]);
            for (int pe = 0; pe < set.size; pe++)
                CHECK_FILLED(buffers->dest + (size_t)pe * len_bytes, len_bytes, pe, 0, round);
            CHECK(check_all_bytes(buffers->dest + len_bytes * (size_t)set.size, CHECK_POISON, 64));
        }
        shmem_barrier_all();
    }
    free_sync(&sync);
}

static size_t collect_count(size_t n, int pe) { return pe % 3 == 1 ? 0 : n / (size_t)(1 + pe % 2) + (size_t)pe; }

static void test_collect(struct buffers *buffers, int bits, size_t n, unsigned round)
{
    struct sync sync = make_sync(SHMEM_COLLECT_SYNC_SIZE);
    size_t size = (size_t)bits / 8;
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, shmem_n_pes());
        size_t total = 0;
        for (int pe = 0; pe < set.size; pe++)
            total += collect_count(n, pe) * size;
        begin(buffers, total);
        if (set.me >= 0) {
            size_t mine = collect_count(n, set.me);
            const unsigned char *at = buffers->dest;
            check_fill(buffers->source, mine * size, set.me, 0, round);
            if (bits == 32)
                shmem_collect32(buffers->dest, buffers->source, mine, set.start, set.log_stride, set.size,
                                sync.words[0]);
            else
                shmem_collect64(buffers->dest, buffers->source, mine, set.start, set.log_stride, set.size,
                                sync.words[0]);
            for (int pe = 0; pe < set.size; pe++) {
                CHECK_FILLED(at, collect_count(n, pe) * size, pe, 0, round);
                at += collect_count(n, pe) * size;
            }
            CHECK(check_all_bytes(at, CHECK_POISON, 64));
        }
        shmem_barrier_all();
    }
    free_sync(&sync);
}

static void test_alltoall(struct buffers *buffers, int bits, size_t n, unsigned round)
{
    struct sync sync = make_sync(SHMEM_ALLTOALL_SYNC_SIZE);
    size_t len_bytes = n * (size_t)bits / 8;
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, shmem_n_pes());
        begin(buffers, len_bytes * (size_t)set.size);
        if (set.me >= 0) {
            for (int pe = 0; pe < set.size; pe++)
                check_fill(buffers->source + (size_t)pe * len_bytes, len_bytes, set.me, pe, round);
            if (bits == 32)
                shmem_alltoall32(buffers->dest, buffers->source, n, set.start, set.log_stride, set.size, sync.words[0]);
            else
                shmem_alltoall64(buffers->dest, buffers->source, n, set.start, set.log_stride, set.size, sync.words[0]);
            for (int pe = 0; pe < set.size; pe++)
                CHECK_FILLED(buffers->dest + (size_t)pe * len_bytes, len_bytes, pe, set.me, round);
        }
        shmem_barrier_all();
    }
    free_sync(&sync);
}

static uint64_t element(int from, int to, size_t i) { return 1000000u * (unsigned)from + 1000u * (unsigned)to + i; }

static void test_alltoalls(struct buffers *buffers, int bits, size_t n)
{
    enum { DST = 3, SST = 2 };
    struct sync sync = make_sync(SHMEM_ALLTOALLS_SYNC_SIZE);
    size_t size = (size_t)bits / 8;
    for (int s = 0; s < SETS; s++) {
        struct set set = sets_of(s, shmem_n_pes());
        begin(buffers, n * (size_t)set.size * DST * size);
        for (size_t k = 0; set.me >= 0 && k < n * (size_t)set.size; k++) {
            uint64_t value = element(set.me, (int)(k / n), k % n);
            memcpy(buffers->source + k * SST * size, &value, size);
        }
        if (set.me >= 0 && bits == 32)
            shmem_alltoalls32(buffers->dest, buffers->source, DST, SST, n, set.start, set.log_stride, set.size,
                              sync.words[0]);
        else if (set.me >= 0)
            shmem_alltoalls64(buffers->dest, buffers->source, DST, SST, n, set.start, set.log_stride, set.size,
                              sync.words[0]);
        for (size_t k = 0; set.me >= 0 && k < n * (size_t)set.size; k++) {
            uint64_t value = element((int)(k / n), set.me, k % n);
            const unsigned char *at = buffers->dest + k * DST * size;
            CHECK_BYTES(at, &value, size);
            CHECK(check_all_bytes(at + size, CHECK_POISON, (DST - 1) * size));
        }
        shmem_barrier_all();
    }
    free_sync(&sync);
}

/* Consecutive calls with two pSyncs in turn, each used again only behind a barrier. */
static void test_alternating(struct buffers *buffers)
{
    struct set set = sets_of(0, shmem_n_pes());
    struct sync sync = make_sync(SHMEM_COLLECT_SYNC_SIZE);
    size_t block = 50 * 8;
    size_t area = block * (size_t)set.size;
    for (unsigned round = 0; round < 40; round += 2) {
        for (unsigned k = 0; k < 2; k++) {
            check_fill(buffers->source, block, set.me, 0, round + k);
            shmem_fcollect64(buffers->dest + k * area, buffers->source, 50, 0, 0, set.size, sync.words[k]);
        }
        for (unsigned k = 0; k < 2; k++)
            for (int pe = 0; pe < set.size; pe++)
                CHECK_FILLED(buffers->dest + k * area + (size_t)pe * block, block, pe, 0, round + k);
        shmem_barrier_all();
    }
    free_sync(&sync);
}

/* Two calls with one pSync: what is sent and where it must be. */
static void use_sync(struct buffers *buffers, const struct set *set, long *sync, unsigned round)
{
    unsigned char *dest = buffers->dest + round % 8 * 16 * (size_t)shmem_n_pes();
    check_fill(buffers->source, 16, set->me, 0, round);
    if (round % 3 == 0) {
        shmem_broadcast64(dest, buffers->source, 2, 0, set->start, set->log_stride, set->size, sync);
        if (set->me != 0)
            CHECK_FILLED(dest, 16, 0, 0, round);
        shmem_barrier(set->start, set->log_stride, set->size, sync);
        return;
    }
    shmem_fcollect64(dest, buffers->source, 2, set->start, set->log_stride, set->size, sync);
    for (int pe = 0; pe < set->size; pe++)
        CHECK_FILLED(dest + (size_t)pe * 16, 16, pe, 0, round);
}

/* More pSync arrays than a library has places for sequences of collectives, each on two sets in turn. */
static void test_many_syncs(struct buffers *buffers)
{
    enum { MANY = 1300 };
    const size_t words = SHMEM_BARRIER_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE;
    struct sync sync = make_sync(MANY * words);
    for (unsigned round = 0; round < 2 * MANY; round++) {
        struct set set = sets_of((int)(round % SETS), shmem_n_pes());
        if (set.me >= 0)
            use_sync(buffers, &set, sync.words[0] + round % MANY * words, round);
        if (round % 8 == 7)
            shmem_barrier_all(); /* dest is used again */
    }
    free_sync(&sync);
}

/* ---- reductions: one row for each operator and type ---- */

struct reduction {
    const char *name;
    size_t size;
    void (*call)(void *dest, const void *source, int n, const struct set *set, void *work, long *sync);
    void (*make)(void *out, int n, int pe);
    bool (*right)(const void *dest, int n, int n_pes);
};

/* The value of member pe at i; products of at most three twos. */
static int small(int i, int pe) { return (i * 3 + pe * 5) % 13 + 1; }
static int factor(int i, int pe) { return pe % 3 == 0 && i % 2 == 0 ? 2 : 1; }

#define SET_REDUCTION(NAME, TYPE, OP, VALUE, START, EXPRESSION)                                                 \
    static void call_##OP##_##NAME(void *dest, const void *source, int n, const struct set *set, void *work,    \
                                   long *sync)                                                                  \
    {                                                                                                           \
        shmem_##NAME##_##OP((TYPE *)dest, (TYPE *)(uintptr_t)source, n, set->start, set->log_stride, set->size, \
                            (TYPE *)work, sync);                                                                \
    }                                                                                                           \
    static void make_##OP##_##NAME(void *out, int n, int pe)                                                    \
    {                                                                                                           \
        for (int i = 0; i < n; i++)                                                                             \
            ((TYPE *)out)[i] = (TYPE)VALUE(i, pe);                                                              \
    }                                                                                                           \
    static bool right_##OP##_##NAME(const void *dest, int n, int n_pes)                                         \
    {                                                                                                           \
        for (int i = 0; i < n; i++) {                                                                           \
            int a = START;                                                                                      \
            for (int pe = 0; pe < n_pes; pe++) {                                                                \
                int b = VALUE(i, pe);                                                                           \
                a = EXPRESSION;                                                                                 \
            }                                                                                                   \
            if (((const TYPE *)dest)[i] != (TYPE)a)                                                             \
                return false;                                                                                   \
        }                                                                                                       \
        return true;                                                                                            \
    }
#define SET_SUM(NAME, TYPE, ...)                           \
    SET_REDUCTION(NAME, TYPE, sum_to_all, small, 0, a + b) \
    SET_REDUCTION(NAME, TYPE, prod_to_all, factor, 1, a *b)
#define SET_MINMAX(NAME, TYPE, ...)                                \
    SET_REDUCTION(NAME, TYPE, max_to_all, small, 0, a > b ? a : b) \
    SET_REDUCTION(NAME, TYPE, min_to_all, small, 1000, a < b ? a : b)
#define SET_LOGIC(NAME, TYPE, ...)                         \
    SET_REDUCTION(NAME, TYPE, and_to_all, small, -1, a &b) \
    SET_REDUCTION(NAME, TYPE, or_to_all, small, 0, a | b)  \
    SET_REDUCTION(NAME, TYPE, xor_to_all, small, 0, a ^ b)

SHMEM_SET_SUM_TYPES(SET_SUM, )
SHMEM_SET_MINMAX_TYPES(SET_MINMAX, )
SHMEM_SET_LOGIC_TYPES(SET_LOGIC, )

#define SET_ROW(NAME, TYPE, OP) \
    {#NAME "_" #OP, sizeof(TYPE), call_##OP##_##NAME, make_##OP##_##NAME, right_##OP##_##NAME},
#define SET_SUM_ROWS(NAME, TYPE, ...) SET_ROW(NAME, TYPE, sum_to_all) SET_ROW(NAME, TYPE, prod_to_all)
#define SET_MINMAX_ROWS(NAME, TYPE, ...) SET_ROW(NAME, TYPE, max_to_all) SET_ROW(NAME, TYPE, min_to_all)
#define SET_LOGIC_ROWS(NAME, TYPE, ...) \
    SET_ROW(NAME, TYPE, and_to_all) SET_ROW(NAME, TYPE, or_to_all) SET_ROW(NAME, TYPE, xor_to_all)

static const struct reduction reductions[] = {SHMEM_SET_SUM_TYPES(SET_SUM_ROWS, ) SHMEM_SET_MINMAX_TYPES(
    SET_MINMAX_ROWS, ) SHMEM_SET_LOGIC_TYPES(SET_LOGIC_ROWS, )};
enum { REDUCTIONS = sizeof(reductions) / sizeof(reductions[0]) };

static void reduce_once(struct buffers *buffers, const struct reduction *row, const struct set *set, int n, long *sync,
                        bool in_place)
{
    size_t work = (size_t)n / 2 + 1;
    if (work < SHMEM_REDUCE_MIN_WRKDATA_SIZE)
        work = SHMEM_REDUCE_MIN_WRKDATA_SIZE;
    void *work_array = check_alloc(work * row->size);
    begin(buffers, (size_t)n * row->size);
    if (set->me >= 0) {
        unsigned char *source = in_place ? buffers->dest : buffers->source;
        row->make(source, n, set->me);
        /* The specification wants dest ready on all PEs before any PE calls: in place it is the source, too. */
    }
    shmem_barrier_all();
    if (set->me >= 0) {
        row->call(buffers->dest, in_place ? buffers->dest : buffers->source, n, set, work_array, sync);
        CHECK_NAMED(row->right(buffers->dest, n, set->size), row->name);
        CHECK_NAMED(check_all_bytes(buffers->dest + (size_t)n * row->size, CHECK_POISON, 64), row->name);
    }
    check_free(work_array);
}

static void test_reductions(struct buffers *buffers)
{
    const int counts[] = {1, 7, 100};
    struct sync sync = make_sync(SHMEM_REDUCE_SYNC_SIZE);
    for (int row = 0; row < REDUCTIONS; row++) {
        for (int s = 0; s < SETS; s++) {
            struct set set = sets_of(s, shmem_n_pes());
            if (s == 0 || (row + s) % 3 == 0)
                for (int i = 0; i < 3; i++)
                    reduce_once(buffers, &reductions[row], &set, counts[i], sync.words[0], (i + s) % 2 != 0);
        }
    }
    free_sync(&sync);
}

static int test_main(void)
{
    CHECK_INIT();
    size_t npes = (size_t)shmem_n_pes();
    struct buffers buffers;
    buffers.bytes = npes * MOST * 8 + npes * 64 + 64;
    buffers.source = (unsigned char *)check_alloc(buffers.bytes);
    buffers.dest = (unsigned char *)check_alloc(buffers.bytes);
    const size_t counts[] = {0, 1, 3, 6, 7, 8, 33, 513, 1023};
    test_barriers();
    test_syncs();
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (int bits = 32; bits <= 64; bits += 32) {
            test_broadcast(&buffers, bits, counts[i], i);
            test_fcollect(&buffers, bits, counts[i], i);
            test_collect(&buffers, bits, counts[i], i);
            test_alltoall(&buffers, bits, counts[i], i);
            test_alltoalls(&buffers, bits, counts[i]);
        }
    }
    test_alternating(&buffers);
    test_many_syncs(&buffers);
    test_reductions(&buffers);
    check_free(buffers.dest);
    check_free(buffers.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
