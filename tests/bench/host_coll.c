/* SPDX-License-Identifier: MIT */
/* Collectives by size, on the active set of all PEs and (with a 1.5 library) on the team of all PEs. The size is the
 * contribution of one PE to one PE. Broadcast is measured to its last receiver: PEs meet in a barrier of our own, the
 * root notes when it calls, everybody when it has the data, all by one clock. The others are timed as a loop. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

enum { STAMPS = 4096 }; /* broadcasts of one batch whose times are kept */

static long *psync[2]; /* alternately used, for PEs that are still inside the call before */
static int *work;
static double *stamp_of; /* when this PE called (root) or had the data (others), per iteration */
static long turn;
static char **dest_of; /* the heap's dest of every PE, for the bare copies */

static long *next_psync(void) { return psync[turn++ & 1]; }

static int *ints(char *buffer) { return (int *)(void *)buffer; }

/* -- data: what PE `from` has for PE `to` ------------------------------------------------------------------------- */

static uint64_t seed(long stamp, int from, int to) { return (uint64_t)stamp * 4096 + (uint64_t)(from * 64 + to); }

static void prepare_blocks(struct bench *b, long stamp)
{
    for (int to = 0; to < bench_npes; to++)
        bench_fill(b->source + (size_t)to * b->len_bytes, b->len_bytes, seed(stamp, bench_me, to));
    memset(b->dest, 0xff, b->len_bytes * (size_t)bench_npes);
}
static void prepare_bare(struct bench *b, long stamp)
{
    for (int pe = 0; pe < bench_npes; pe++)
        dest_of[pe] = (char *)shmem_ptr(b->dest, pe);
    prepare_blocks(b, stamp);
}
static void prepare_block(struct bench *b, long stamp)
{
    bench_fill(b->source, b->len_bytes, seed(stamp, bench_me, 0));
    memset(b->dest, 0xff, b->len_bytes * (size_t)bench_npes);
}
static bool blocks_arrived(const struct bench *b, long stamp)
{
    for (int from = 0; from < bench_npes; from++)
        if (!bench_holds(b->dest + (size_t)from * b->len_bytes, b->len_bytes, seed(stamp, from, bench_me)))
            return false;
    return true;
}
static bool all_collected(const struct bench *b, long stamp)
{
    for (int from = 0; from < bench_npes; from++)
        if (!bench_holds(b->dest + (size_t)from * b->len_bytes, b->len_bytes, seed(stamp, from, 0)))
            return false;
    return true;
}
/* On active sets the root's destination is not written. */
static bool broadcast_arrived(const struct bench *b, long stamp)
{
    return bench_me == 0 || bench_holds(b->dest, b->len_bytes, seed(stamp, 0, 0));
}

static int term(long stamp, size_t i, int pe) { return (int)((i % 1021 + (size_t)stamp % 97 + 1) * (size_t)(pe + 1)); }

static void prepare_terms(struct bench *b, long stamp)
{
    for (size_t i = 0; i < b->len_bytes / sizeof(int); i++)
        ints(b->source)[i] = term(stamp, i, bench_me);
    memset(b->dest, 0xff, b->len_bytes);
}
static bool sums_to(const struct bench *b, long stamp, int first, int last)
{
    for (size_t i = 0; i < b->len_bytes / sizeof(int); i++) {
        int sum = 0;
        for (int pe = first; pe <= last; pe++)
            sum += term(stamp, i, pe);
        if (ints(b->dest)[i] != sum)
            return false;
    }
    return true;
}
static bool reduced(const struct bench *b, long stamp) { return sums_to(b, stamp, 0, bench_npes - 1); }

/* -- bodies: one line of library call each ------------------------------------------------------------------------- */

#define LOOP for (long i = 0; i < iters; i++)
#define WORLD 0, 0, bench_npes

static void bare_yield(struct bench *b, long iters)
{
    (void)b;
    LOOP bench_bare_yield();
}
static void bare_futex(struct bench *b, long iters)
{
    (void)b;
    LOOP bench_bare_futex();
}
/* What an alltoall cannot do without: this PE's share of the copies, without any agreement. */
static void bare_copies(struct bench *b, long iters)
{
    LOOP for (int to = 0; to < bench_npes; to++)
        memcpy(dest_of[to] + (size_t)bench_me * b->len_bytes, b->source + (size_t)to * b->len_bytes, b->len_bytes);
}
static void barrier_all(struct bench *b, long iters)
{
    (void)b;
    LOOP shmem_barrier_all();
}
static void sync_all(struct bench *b, long iters)
{
    (void)b;
    LOOP shmem_sync_all();
}
static void barrier_aset(struct bench *b, long iters)
{
    (void)b;
    LOOP shmem_barrier(WORLD, next_psync());
}
static void sync_aset(struct bench *b, long iters)
{
    (void)b;
    LOOP(shmem_sync)(WORLD, next_psync()); /* in brackets: never the type-generic macro */
}
static void reduce_aset(struct bench *b, long iters)
{
    LOOP shmem_int_sum_to_all(ints(b->dest), ints(b->source), (int)(b->len_bytes / sizeof(int)), WORLD, work,
                              next_psync());
}
static void fcollect_aset(struct bench *b, long iters)
{
    LOOP shmem_fcollect64(b->dest, b->source, b->len_bytes / 8, WORLD, next_psync());
}
static void collect_aset(struct bench *b, long iters)
{
    LOOP shmem_collect64(b->dest, b->source, b->len_bytes / 8, WORLD, next_psync());
}
static void alltoall_aset(struct bench *b, long iters)
{
    LOOP shmem_alltoall64(b->dest, b->source, b->len_bytes / 8, WORLD, next_psync());
}
static void alltoalls_aset(struct bench *b, long iters)
{
    LOOP shmem_alltoalls64(b->dest, b->source, 1, 1, b->len_bytes / 8, WORLD, next_psync());
}
static void broadcast_aset(struct bench *b, long iters)
{
    LOOP
    {
        bench_bare_yield();
        if (bench_me == 0)
            stamp_of[i % STAMPS] = bench_now();
        shmem_broadcast64(b->dest, b->source, b->len_bytes / 8, 0, WORLD, next_psync());
        if (bench_me != 0)
            stamp_of[i % STAMPS] = bench_now();
    }
}
#ifdef HAVE_15
static void team_sync(struct bench *b, long iters) { LOOP b->failed |= shmem_team_sync(SHMEM_TEAM_WORLD); }
static void reduce_team(struct bench *b, long iters)
{
    LOOP b->failed |=
        shmem_int_sum_reduce(SHMEM_TEAM_WORLD, ints(b->dest), ints(b->source), b->len_bytes / sizeof(int));
}
static void fcollect_team(struct bench *b, long iters)
{
    LOOP b->failed |= shmem_fcollectmem(SHMEM_TEAM_WORLD, b->dest, b->source, b->len_bytes);
}
static void collect_team(struct bench *b, long iters)
{
    LOOP b->failed |= shmem_collectmem(SHMEM_TEAM_WORLD, b->dest, b->source, b->len_bytes);
}
static void alltoall_team(struct bench *b, long iters)
{
    LOOP b->failed |= shmem_alltoallmem(SHMEM_TEAM_WORLD, b->dest, b->source, b->len_bytes);
}
static void alltoalls_team(struct bench *b, long iters)
{
    long *dest = (long *)(void *)b->dest, *source = (long *)(void *)b->source;
    LOOP b->failed |= shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 1, 1, b->len_bytes / 8);
}
static void broadcast_team(struct bench *b, long iters)
{
    LOOP
    {
        bench_bare_yield();
        if (bench_me == 0)
            stamp_of[i % STAMPS] = bench_now();
        b->failed |= shmem_broadcastmem(SHMEM_TEAM_WORLD, b->dest, b->source, b->len_bytes, 0);
        if (bench_me != 0)
            stamp_of[i % STAMPS] = bench_now();
    }
}
#endif
#ifdef HAVE_16
static bool scanned(const struct bench *b, long stamp) { return sums_to(b, stamp, 0, bench_me); }
static bool exscanned(const struct bench *b, long stamp) { return sums_to(b, stamp, 0, bench_me - 1); }
static void inscan_team(struct bench *b, long iters)
{
    LOOP b->failed |=
        shmem_int_sum_inscan(SHMEM_TEAM_WORLD, ints(b->dest), ints(b->source), b->len_bytes / sizeof(int));
}
static void exscan_team(struct bench *b, long iters)
{
    LOOP b->failed |=
        shmem_int_sum_exscan(SHMEM_TEAM_WORLD, ints(b->dest), ints(b->source), b->len_bytes / sizeof(int));
}
#endif

/* The median over the iterations of (last receiver has it - root calls). Runs on PE 0, the others are done. */
static double last_receiver(struct bench *b, long iters)
{
    (void)b;
    static double last[STAMPS], other[STAMPS];
    size_t count = iters < STAMPS ? (size_t)iters : STAMPS;
    for (size_t i = 0; i < count; i++)
        last[i] = stamp_of[i];
    for (int pe = 1; pe < bench_npes; pe++) {
        shmem_getmem(other, stamp_of, count * sizeof(double), pe);
        for (size_t i = 0; i < count; i++)
            last[i] = other[i] > last[i] ? other[i] : last[i];
    }
    for (size_t i = 0; i < count; i++)
        last[i] -= stamp_of[i];
    return bench_median(last, count);
}

/* -- the list ------------------------------------------------------------------------------------------------------ */

struct row {
    const char *name, *suffix;
    void (*body)(struct bench *b, long iters);
    void (*prepare)(struct bench *b, long stamp);
    bool (*right)(const struct bench *b, long stamp);
    double (*seconds_per_iter)(struct bench *b, long iters);
};

static const struct row data_rows[] = {
    {"reduce_sum_int", "aset", reduce_aset, prepare_terms, reduced, NULL},
    {"broadcast", "aset", broadcast_aset, prepare_block, broadcast_arrived, last_receiver},
    {"fcollect", "aset", fcollect_aset, prepare_block, all_collected, NULL},
    {"collect", "aset", collect_aset, prepare_block, all_collected, NULL},
    {"alltoall", "aset", alltoall_aset, prepare_blocks, blocks_arrived, NULL},
    {"alltoalls", "aset", alltoalls_aset, prepare_blocks, blocks_arrived, NULL},
#ifdef HAVE_15
    {"reduce_sum_int", "team", reduce_team, prepare_terms, reduced, NULL},
    {"broadcast", "team", broadcast_team, prepare_block, broadcast_arrived, last_receiver},
    {"fcollect", "team", fcollect_team, prepare_block, all_collected, NULL},
    {"collect", "team", collect_team, prepare_block, all_collected, NULL},
    {"alltoall", "team", alltoall_team, prepare_blocks, blocks_arrived, NULL},
    {"alltoalls", "team", alltoalls_team, prepare_blocks, blocks_arrived, NULL},
#endif
#ifdef HAVE_16
    {"inscan_sum_int", "team", inscan_team, prepare_terms, scanned, NULL},
    {"exscan_sum_int", "team", exscan_team, prepare_terms, exscanned, NULL},
#endif
};

static const struct row sync_rows[] = {
    {"bare_yield_barrier", "", bare_yield, NULL, NULL, NULL}, {"bare_futex_barrier", "", bare_futex, NULL, NULL, NULL},
    {"barrier_all", "", barrier_all, NULL, NULL, NULL},       {"sync_all", "", sync_all, NULL, NULL, NULL},
    {"barrier", "_aset", barrier_aset, NULL, NULL, NULL},     {"sync", "_aset", sync_aset, NULL, NULL, NULL},
#ifdef HAVE_15
    {"sync", "_team", team_sync, NULL, NULL, NULL},
#endif
};

static const struct row bare_row = {"bare_copies", "aset", bare_copies, prepare_bare, blocks_arrived, NULL};

static long *make_psync(void)
{
    /* The largest of all needs: the sizes are constants of the library, not of the interface. */
    size_t count = SHMEM_SYNC_SIZE;
    const size_t need[] = {SHMEM_REDUCE_SYNC_SIZE,  SHMEM_BCAST_SYNC_SIZE,    SHMEM_COLLECT_SYNC_SIZE,
                           SHMEM_BARRIER_SYNC_SIZE, SHMEM_ALLTOALL_SYNC_SIZE, SHMEM_ALLTOALLS_SYNC_SIZE};
    for (size_t i = 0; i < sizeof need / sizeof need[0]; i++)
        count = need[i] > count ? need[i] : count;
    long *sync = (long *)shmem_align(128, count * sizeof *sync);
    for (size_t i = 0; sync && i < count; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    return sync;
}

static void allocate_once(void)
{
    if (work)
        return;
    size_t words = ((size_t)1 << 20) / sizeof(int) / 2 + 1;
    words = words > SHMEM_REDUCE_MIN_WRKDATA_SIZE ? words : SHMEM_REDUCE_MIN_WRKDATA_SIZE;
    work = (int *)shmem_align(128, words * sizeof *work);
    stamp_of = (double *)shmem_align(128, STAMPS * sizeof *stamp_of);
    psync[0] = make_psync();
    psync[1] = make_psync();
    dest_of = (char **)calloc((size_t)bench_npes, sizeof *dest_of);
    if (!dest_of || !work || !stamp_of || !psync[0] || !psync[1])
        shmem_global_exit(1);
    shmem_barrier_all();
}

void bench_sync(void)
{
    allocate_once();
    for (size_t r = 0; r < sizeof sync_rows / sizeof sync_rows[0]; r++)
        if (r >= 2 || bench_bare_ready()) {
            struct bench b = {.unit = "us", .body = sync_rows[r].body, .everybody = true};
            bench_add(b, "%s%s", sync_rows[r].name, sync_rows[r].suffix);
        }
    bench_go();
}

static void add_row(const struct row *row, enum place place, size_t len_bytes)
{
    struct bench b = {.unit = "us", .body = row->body, .prepare = row->prepare, .right = row->right};
    if (row->seconds_per_iter && !bench_bare_ready())
        return;
    b.seconds_per_iter = row->seconds_per_iter;
    b.everybody = true;
    b.place = place;
    b.len_bytes = len_bytes;
    bench_add(b, "%s_%s_%s%s", row->name, bench_size_name(len_bytes), row->suffix, place == GLOB ? "_glob" : "");
}

/* All variants of the operation of this row: on active set and team, on the heap and, while they fit, on globals. */
static void bench_variants(const struct row *first, size_t len_bytes)
{
    for (size_t r = 0; r < sizeof data_rows / sizeof data_rows[0]; r++)
        for (int place = HEAP; place < PLACES && strcmp(data_rows[r].name, first->name) == 0; place++)
            if (place == HEAP || bench_npes <= 8)
                add_row(&data_rows[r], (enum place)place, len_bytes);
    if (strcmp(first->name, "alltoall") == 0 && bench_bare_ready())
        add_row(&bare_row, HEAP, len_bytes);
    bench_go();
}

void bench_coll(void)
{
    static const size_t bytes[] = {8, 1024, 65536, 1 << 20};
    allocate_once();
    for (size_t r = 0; r < sizeof data_rows / sizeof data_rows[0]; r++) {
        bool again = false; /* a row of this operation was there before, and took all others with it */
        for (size_t before = 0; before < r; before++)
            again |= strcmp(data_rows[before].name, data_rows[r].name) == 0;
        for (size_t s = 0; !again && s < sizeof bytes / sizeof bytes[0]; s++)
            bench_variants(&data_rows[r], bytes[s]);
    }
}
