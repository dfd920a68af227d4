/* SPDX-License-Identifier: MIT */
/* net LIBRARY [start]: what a job of two nodes gets from its network, or with `start` how it starts. PE 0 moves data to
 * and from the first PE of the other half (N / 2, which is on the other node when PEs are numbered node by node); the
 * others wait in a barrier. Prints lines of `net,LIBRARY,METRIC,value,unit`: medians of BATCHES batches. Start-up is
 * from the start of the process; resident memory is that of the fattest PE after the first barrier, and at the end
 * without what this program itself touched. Only OpenSHMEM 1.4, so that the same source measures a peer. */
#include <shmem.h>

#include "resident.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 9, LONGEST = 4 << 20, STREAM = 1000 };

struct net {
    const char *library;
    int me, npes, peer;
    char *dest, *source; /* LONGEST bytes, symmetric */
    long *word, *result; /* STREAM words each, symmetric */
    uint64_t *signal, signals; /* symmetric; how many were sent each way */
    size_t len;
    long sequence;
};

typedef void body(struct net *, long iterations);

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* -- what is measured: PE 0 alone, or everybody ------------------------------------------------------------------- */

static void put_quiet(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        shmem_putmem(n->dest, n->source, n->len, n->peer);
        shmem_quiet();
    }
}
static void get(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_getmem(n->dest, n->source, n->len, n->peer);
}
static void fetch_add(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        (void)shmem_long_atomic_fetch_add(n->word, 1, n->peer);
}
static void put_stream(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_putmem(n->dest, n->source, n->len, n->peer);
    shmem_quiet();
}
static void nbi_rate(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_long_put_nbi(&n->word[i % STREAM], &n->result[i % STREAM], 1, n->peer);
    shmem_quiet();
}
static void put_rate(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_long_put(&n->word[i % STREAM], &n->result[i % STREAM], 1, n->peer);
    shmem_quiet();
}
/* There and back; where the library has no such call, by what a program has to write instead. */
static void ping_pong(struct net *n, long iterations)
{
    for (long i = 0; i < iterations && (n->me == 0 || n->me == n->peer); i++) {
        n->signals++;
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) != (n->me == 0)) {
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
                (void)shmem_signal_wait_until(n->signal, SHMEM_CMP_GE, n->signals);
                continue;
            }
            shmem_putmem_signal(n->dest, n->source, n->len, n->signal, n->signals, SHMEM_SIGNAL_SET, n->peer - n->me);
#else
                shmem_long_wait_until((long *)(void *)n->signal, SHMEM_CMP_GE, (long)n->signals);
                continue;
            }
            shmem_putmem(n->dest, n->source, n->len, n->peer - n->me);
            shmem_fence();
            shmem_long_p((long *)(void *)n->signal, (long)n->signals, n->peer - n->me);
#endif
        }
    }
}
static void barrier_all(struct net *n, long iterations)
{
    (void)n;
    for (long i = 0; i < iterations; i++)
        shmem_barrier_all();
}

#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
static void reduce(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, n->result, n->word, 1);
}
#else
static long reduce_sync[2][SHMEM_REDUCE_SYNC_SIZE], reduce_work[2][SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static void reduce(struct net *n, long iterations)
{
    for (long i = 0; i < iterations; i++)
        shmem_long_sum_to_all(n->result, n->word, 1, 0, 0, n->npes, reduce_work[i & 1], reduce_sync[i & 1]);
}
static void reduce_start(void)
{
    for (int i = 0; i < 2 * SHMEM_REDUCE_SYNC_SIZE; i++)
        (&reduce_sync[0][0])[i] = SHMEM_SYNC_VALUE;
}
#define REDUCE_START() reduce_start()
#endif
#ifndef REDUCE_START
#define REDUCE_START() ((void)0)
#endif

/* -- batches --------------------------------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_us(struct net *n, body *run, bool all, long iterations)
{
    double took[BATCHES];
    for (int b = -1; b < BATCHES; b++) { /* the first one sets up what is set up on first use */
        shmem_barrier_all();
        double begin = now_us();
        if (all || n->me == 0)
            run(n, iterations);
        if (b >= 0)
            took[b] = (now_us() - begin) / (double)iterations;
    }
    shmem_barrier_all();
    qsort(took, BATCHES, sizeof took[0], by_value);
    return took[BATCHES / 2];
}

static void say(const struct net *n, const char *metric, double value, const char *unit)
{
    if (n->me == 0)
        printf("net,%s,%s,%.6g,%s\n", n->library, metric, value, unit);
    fflush(stdout);
}

static void stop_if(bool wrong, const char *what)
{
    if (!wrong)
        return;
    fprintf(stderr, "net: wrong data after %s\n", what);
    shmem_global_exit(1);
}

static void latency(struct net *n, const char *metric, body *run, bool all, long iterations)
{
    n->len = 8;
    say(n, metric, median_us(n, run, all, iterations), "us");
}

static void bandwidth(struct net *n, const char *metric, body *run, size_t len, long iterations)
{
    n->len = len;
    n->sequence++;
    for (size_t i = 0; i < len; i++)
        n->source[i] = (char)(i * 7 + (i >> 9) + (size_t)n->sequence + (run == get ? (size_t)n->me : 0));
    memset(n->dest, 0, len);
    say(n, metric, (double)len / median_us(n, run, false, iterations), "MB/s");
    bool receiver = n->me == (run == get ? 0 : n->peer);
    for (size_t i = 0; receiver && i < len; i++)
        stop_if(n->dest[i] != (char)(i * 7 + (i >> 9) + (size_t)n->sequence + (run == get ? (size_t)n->peer : 0)),
                metric);
}

/* Every PE puts its own into a row of PE 0. */
static double most_of_all(struct net *n, double mine)
{
    long most = 0, value = (long)mine;
    shmem_long_put(&n->word[n->me], &value, 1, 0);
    shmem_barrier_all();
    for (int pe = 0; n->me == 0 && pe < n->npes; pe++)
        most = n->word[pe] > most ? n->word[pe] : most;
    shmem_barrier_all();
    return (double)most;
}

/* Since the process started: its start in clock ticks since boot is field 22. */
static double since_start_ms(void)
{
    char text[1024] = "", *field = NULL;
    struct timespec t;
    FILE *stat = fopen("/proc/self/stat", "r");
    if (stat) {
        size_t got = fread(text, 1, sizeof text - 1, stat);
        text[got] = '\0';
        fclose(stat);
        field = strrchr(text, ')');
    }
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    clock_gettime(CLOCK_BOOTTIME, &t);
    return field ? 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec -
                       1e3 * strtod(field, NULL) / (double)sysconf(_SC_CLK_TCK)
                 : 0;
}

static void run_all(struct net *n)
{
    latency(n, "put+quiet 8 B", put_quiet, false, 200);
    latency(n, "get 8 B", get, false, 200);
    latency(n, "fetch_add", fetch_add, false, 100);
    stop_if(n->me == n->peer && n->word[0] != 100 * (BATCHES + 1), "fetch_add");
    latency(n, "put_signal ping-pong", ping_pong, true, 100);
    latency(n, "barrier_all", barrier_all, true, 50);
    n->word[0] = n->me + 1;
    latency(n, "reduce 8 B", reduce, true, 50);
    stop_if(n->result[0] != (long)n->npes * (n->npes + 1) / 2, "reduce");
    for (int i = 0; i < STREAM; i++)
        n->word[i] = 0, n->result[i] = i + 1;
    latency(n, "put 8 B stream", put_rate, false, STREAM);
    latency(n, "put_nbi 8 B stream", nbi_rate, false, STREAM);
    for (int i = 0; n->me == n->peer && i < STREAM; i++)
        stop_if(n->word[i] != i + 1, "put_nbi 8 B stream");
    bandwidth(n, "put 64 KiB", put_stream, 64 << 10, 16);
    bandwidth(n, "put 1 MiB", put_stream, 1 << 20, 2);
    bandwidth(n, "put 4 MiB", put_stream, 4 << 20, 1);
    bandwidth(n, "get 1 MiB", get, 1 << 20, 2);
}

int main(int argc, char **argv)
{
    struct net n = {.library = argc > 1 ? argv[1] : "unknown"};
    shmem_init();
    double started = since_start_ms();
    n.me = shmem_my_pe();
    n.npes = shmem_n_pes();
    n.peer = n.npes / 2;
    REDUCE_START();
    shmem_barrier_all();
    long resident = resident_kib();
    n.dest = (char *)shmem_malloc(LONGEST);
    n.source = (char *)shmem_malloc(LONGEST);
    n.word = (long *)shmem_malloc(STREAM * sizeof(long));
    n.result = (long *)shmem_malloc(STREAM * sizeof(long));
    n.signal = (uint64_t *)shmem_malloc(sizeof *n.signal);
    if (!n.dest || !n.source || !n.word || !n.result || !n.signal || n.npes < 2)
        return 1;
    memset(n.word, 0, STREAM * sizeof(long));
    *n.signal = n.signals = 0;
    shmem_barrier_all();
    say(&n, "start to the end of shmem_init", most_of_all(&n, started), "ms");
    say(&n, "resident after the first barrier", most_of_all(&n, (double)resident) / 1024, "MiB");
    if (argc > 2) {
        shmem_finalize();
        return 0;
    }
    n.word[0] = 0;
    run_all(&n);
    say(&n, "resident at the end", most_of_all(&n, (double)(resident_kib() - 2 * LONGEST / 1024)) / 1024, "MiB");
    double stopping = now_us();
    shmem_finalize();
    say(&n, "finalize", (now_us() - stopping) / 1e3, "ms");
    return 0;
}
