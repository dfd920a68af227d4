/* SPDX-License-Identifier: MIT */
/* host [-l library] [-r round] [-m expression] [-t ms]: measures an OpenSHMEM library on the host, one JSON line per
 * metric. A value is the best of BATCHES batches of about `ms` milliseconds each (what else runs on the machine only
 * adds time); a batch's time is that of its slowest PE. Streams of a job with more PEs than cores are the mean of all
 * batches: the other PEs' waiting is part of what is measured, and the best batch is the one that they spared. Every
 * batch has fresh data, which is checked afterwards: a wrong byte ends the job with status 1. */
#include "host.h"
#include "resident.h"

#include <errno.h>
#include <linux/futex.h>
#include <regex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 15, GROUP = 16, LINE = 128 };
#define GLOB_BYTES ((size_t)8 << 20)

/* Symmetric without being allocated: the "global variables" of the metrics' names. */
static char glob_source[GLOB_BYTES] __attribute__((aligned(4096)));
static char glob_dest[GLOB_BYTES] __attribute__((aligned(4096)));
static uint64_t glob_flag[LINE / 8] __attribute__((aligned(LINE)));

struct bare {
    uint32_t yield_count __attribute__((aligned(LINE)));
    uint32_t yield_epoch __attribute__((aligned(LINE)));
    uint32_t futex_count __attribute__((aligned(LINE)));
    uint32_t futex_epoch __attribute__((aligned(LINE)));
    uint32_t futex_sleepers __attribute__((aligned(LINE)));
};

int bench_me, bench_npes;
const char *const bench_place_name[PLACES] = {"heap", "glob"};

static const char *library = "unknown";
static int round_number;
static double batch_seconds = 0.002;
static regex_t wanted;
static char *heap_source, *heap_dest;
static uint64_t *heap_flag;
static double *elapsed_of; /* on PE 0: one per PE */
static long *agreed_iters;
static struct bare *bare_local, *bare;
static long cores;
static struct bench group[GROUP];
static int n_group;

size_t bench_bytes(void)
{
    size_t collective = ((size_t)1 << 20) * (size_t)bench_npes;
    return collective > GLOB_BYTES ? collective : GLOB_BYTES;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

const char *bench_size_name(size_t bytes)
{
    static char names[4][24];
    static int turn;
    char *name = names[turn = (turn + 1) % 4];
    if (bytes >= (size_t)1 << 20)
        snprintf(name, sizeof names[0], "%zuMiB", bytes >> 20);
    else if (bytes >= 1024)
        snprintf(name, sizeof names[0], "%zuKiB", bytes >> 10);
    else
        snprintf(name, sizeof names[0], "%zuB", bytes);
    return name;
}

void bench_fill(void *dest, size_t len_bytes, uint64_t seed)
{
    uint64_t *word = (uint64_t *)dest;
    for (size_t i = 0; i < len_bytes / 8; i++)
        word[i] = seed * 0x9e3779b97f4a7c15u + i;
}

bool bench_holds(const void *data, size_t len_bytes, uint64_t seed)
{
    const uint64_t *word = (const uint64_t *)data;
    for (size_t i = 0; i < len_bytes / 8; i++)
        if (word[i] != seed * 0x9e3779b97f4a7c15u + i)
            return false;
    return true;
}

/* -- barriers without the library ------------------------------------------------------------------------------- */

bool bench_bare_ready(void) { return bare != NULL; }

/* Last to arrive resets the count and releases the others; the release of the epoch pairs with their acquire. */
static bool bare_arrive(uint32_t *count, uint32_t *epoch, uint32_t seen)
{
    if (__atomic_add_fetch(count, 1, __ATOMIC_ACQ_REL) != (uint32_t)bench_npes)
        return false;
    __atomic_store_n(count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(epoch, seen + 1, __ATOMIC_RELEASE);
    return true;
}

void bench_bare_yield(void)
{
    uint32_t seen = __atomic_load_n(&bare->yield_epoch, __ATOMIC_ACQUIRE);
    if (bare_arrive(&bare->yield_count, &bare->yield_epoch, seen))
        return;
    while (__atomic_load_n(&bare->yield_epoch, __ATOMIC_ACQUIRE) == seen)
        sched_yield();
}

/* Spins first only where every PE has a core: the faster choice in either case. */
void bench_bare_futex(void)
{
    uint32_t *epoch = &bare->futex_epoch;
    uint32_t seen = __atomic_load_n(epoch, __ATOMIC_ACQUIRE);
    if (bare_arrive(&bare->futex_count, epoch, seen)) {
        /* Pairs with the sleeper's count: either this sees the sleeper, or the sleeper's FUTEX_WAIT sees the epoch. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&bare->futex_sleepers, __ATOMIC_RELAXED) != 0)
            syscall(SYS_futex, epoch, FUTEX_WAKE, bench_npes, NULL, NULL, 0);
        return;
    }
    long spins = cores >= bench_npes ? 1000 : 0;
    while (spins-- > 0 && __atomic_load_n(epoch, __ATOMIC_ACQUIRE) == seen)
        continue;
    if (__atomic_load_n(epoch, __ATOMIC_ACQUIRE) != seen)
        return;
    __atomic_add_fetch(&bare->futex_sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(epoch, __ATOMIC_ACQUIRE) == seen)
        syscall(SYS_futex, epoch, FUTEX_WAIT, seen, NULL, NULL, 0);
    __atomic_sub_fetch(&bare->futex_sleepers, 1, __ATOMIC_RELAXED);
}

/* -- one benchmark ---------------------------------------------------------------------------------------------- */

static void must(bool right, const char *name, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "[pe %d] host: %s with %s, %d PEs: %s\n", bench_me, name, library, bench_npes, what);
    shmem_global_exit(1);
}

/* Seconds per iteration of one batch, valid on PE 0. */
static double run_batch(struct bench *b, const char *name, long iters)
{
    long stamp = ++b->sequence;
    b->iters = iters;
    b->failed = 0;
    if (b->prepare)
        b->prepare(b, stamp);
    shmem_barrier_all();
    double start = bench_now();
    if (b->everybody || bench_me == 0)
        b->body(b, iters);
    double elapsed = bench_now() - start;
    shmem_barrier_all();
    must(!b->failed, name, "wrong data inside the loop");
    if (b->right)
        must(b->right(b, stamp), name, "wrong data after the loop");
    shmem_double_p(&elapsed_of[bench_me], b->everybody || bench_me == 0 ? elapsed : 0, 0);
    shmem_barrier_all();
    if (bench_me != 0)
        return 0;
    if (b->seconds_per_iter)
        return b->seconds_per_iter(b, iters);
    double slowest = 0;
    for (int pe = 0; pe < bench_npes; pe++)
        slowest = elapsed_of[pe] > slowest ? elapsed_of[pe] : slowest;
    return slowest / (double)iters;
}

/* PE 0 chooses how many iterations fill a batch and tells everybody. */
static long calibrate(struct bench *b, const char *name)
{
    long iters = 4;
    run_batch(b, name, 1);
    for (int pass = 0; pass < 2; pass++) {
        double per_iter = run_batch(b, name, iters);
        if (bench_me == 0) {
            double goal = pass == 0 ? batch_seconds / 8 : batch_seconds;
            double fit = goal / (per_iter > 1e-10 ? per_iter : 1e-10);
            iters = fit < 4 ? 4 : fit > 1e6 ? 1000000 : (long)fit;
            for (int pe = 0; pe < bench_npes; pe++)
                shmem_long_p(agreed_iters, iters, pe);
        }
        shmem_barrier_all();
        iters = *agreed_iters;
        shmem_barrier_all();
    }
    return iters;
}

static double in_unit(const struct bench *b, double seconds)
{
    if (strcmp(b->unit, "MB/s") == 0)
        return (double)b->len_bytes / seconds * 1e-6;
    if (strcmp(b->unit, "Mmsg/s") == 0)
        return 1e-6 / seconds;
    return seconds * 1e6;
}

static void print_metric(const char *name, double value, const char *unit)
{
    printf("{\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"lib\":\"%s\",\"npes\":%d,\"round\":%d}\n", name, value,
           unit, library, bench_npes, round_number);
    fflush(stdout);
}

/* The place decides about the objects. */
static void bind_objects(struct bench *b)
{
    b->source = b->place == HEAP ? heap_source : glob_source;
    b->dest = b->place == HEAP ? heap_dest : glob_dest;
    b->flag = b->place == HEAP ? heap_flag : glob_flag;
}

void bench_add(struct bench b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b.name, sizeof b.name, format, args);
    va_end(args);
    if (regexec(&wanted, b.name, 0, NULL, 0) != 0)
        return;
    must(n_group < GROUP, b.name, "the group of benchmarks is full");
    bind_objects(&b);
    group[n_group++] = b;
}

void bench_go(void)
{
    double best[GROUP], sum[GROUP] = {0};
    long iters[GROUP];
    for (int g = 0; g < n_group; g++)
        iters[g] = calibrate(&group[g], group[g].name);
    for (int i = 0; i < BATCHES; i++)
        for (int g = 0; g < n_group; g++) {
            double seconds = run_batch(&group[g], group[g].name, iters[g]);
            best[g] = i == 0 || seconds < best[g] ? seconds : best[g];
            sum[g] += seconds;
        }
    for (int g = 0; g < n_group && bench_me == 0; g++) {
        bool crowded = bench_npes > cores && strcmp(group[g].unit, "MB/s") == 0;
        print_metric(group[g].name, in_unit(&group[g], crowded ? sum[g] / BATCHES : best[g]), group[g].unit);
    }
    n_group = 0;
}

/* -- the program ------------------------------------------------------------------------------------------------ */

static void resident_memory(void)
{
    if (bench_me == 0 && regexec(&wanted, "rss_with_16MiB_globals", 0, NULL, 0) == 0)
        print_metric("rss_with_16MiB_globals", (double)resident_kib(), "kB");
}

static void read_options(int argc, char **argv)
{
    const char *expression = "";
    for (int c; (c = getopt(argc, argv, "l:r:m:t:")) != -1;) {
        if (c == 'l')
            library = optarg;
        else if (c == 'r')
            round_number = atoi(optarg);
        else if (c == 'm')
            expression = optarg;
        else if (c == 't')
            batch_seconds = atof(optarg) * 1e-3;
        else
            exit(2);
    }
    if (regcomp(&wanted, expression, REG_EXTENDED | REG_NOSUB) != 0) {
        fprintf(stderr, "host: -m %s is no extended regular expression\n", expression);
        exit(2);
    }
}

static void allocate(void)
{
    heap_source = (char *)shmem_align(4096, bench_bytes());
    heap_dest = (char *)shmem_align(4096, bench_bytes());
    heap_flag = (uint64_t *)shmem_align(LINE, LINE);
    elapsed_of = (double *)shmem_align(LINE, (size_t)bench_npes * sizeof *elapsed_of);
    agreed_iters = (long *)shmem_align(LINE, LINE);
    bare_local = (struct bare *)shmem_align(LINE, sizeof *bare_local);
    if (!heap_source || !heap_dest || !heap_flag || !elapsed_of || !agreed_iters || !bare_local)
        must(false, "start", "the symmetric heap is too small");
    memset(bare_local, 0, sizeof *bare_local);
    memset(heap_source, 0, bench_bytes());
    memset(heap_dest, 0, bench_bytes());
    shmem_barrier_all();
    bare = (struct bare *)shmem_ptr(bare_local, 0);
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    shmem_init();
    bench_me = shmem_my_pe();
    bench_npes = shmem_n_pes();
    resident_memory();
    if (bench_npes < 2) {
        fprintf(stderr, "host: needs at least 2 PEs, this job has %d\n", bench_npes);
        shmem_finalize();
        return 77;
    }
    cores = sysconf(_SC_NPROCESSORS_ONLN);
    allocate();
    bench_sync();
    bench_rma();
    bench_coll();
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
