/* SPDX-License-Identifier: MIT */
/* Batches of collectives on streams beside the same calls one by one, and messages between two PEs: CSV by PE 0.
 *     isomer,allgather x16,BYTES of a block,symmetric or private,plain or graph,us one by one,us in a batch
 *     isomer,send,BYTES,us one way (half of a round trip)
 * Results are checked. A sample is 20 rounds, waited for; the slowest PE counts; the value is the median of 11
 * samples. usage: batch [most bytes of a message] */
#include <shmem.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 16, ROUNDS = 20, SAMPLES = 11, MOST_BLOCK = 8192 };

struct bench {
    int me, n;
    char *dest, *source; /* of all calls */
    size_t bytes;        /* of a block */
    shmemx_stream_t stream;
    int batched;
};

static void need(int failed, const char *what)
{
    if (failed == 0)
        return;
    fprintf(stderr, "batch: %s failed\n", what);
    shmem_global_exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void allgathers(const struct bench *b)
{
    size_t room = b->bytes * (size_t)b->n;
    if (b->batched)
        need(shmemx_coll_group_begin(), "shmemx_coll_group_begin");
    for (size_t i = 0; i < CALLS; i++)
        need(shmemx_fcollectmem_on_stream(SHMEM_TEAM_WORLD, b->dest + i * room, b->source + i * b->bytes, b->bytes,
                                          b->stream),
             "shmemx_fcollectmem_on_stream");
    if (b->batched)
        need(shmemx_coll_group_end(), "shmemx_coll_group_end");
}

/* There and back. */
static void messages(const struct bench *b)
{
    int other = 1 - b->me;
    for (int i = 0; i < 2 && b->me < 2; i++)
        if (i == b->me)
            need(shmemx_send_on_stream(SHMEM_TEAM_WORLD, b->source, b->bytes, other, 0, b->stream), "a send");
        else
            need(shmemx_recv_on_stream(SHMEM_TEAM_WORLD, b->dest, b->bytes, other, 0, b->stream), "a receive");
}

/* Of one round. graph NULL: launched. */
static double median_us(const struct bench *b, void (*round)(const struct bench *), shmemx_graph_t graph)
{
    static double mine, slowest; /* symmetric */
    double samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        shmem_barrier_all();
        double begin = seconds();
        for (int r = 0; r < ROUNDS; r++)
            if (graph != NULL)
                need(shmemx_graph_launch(graph, b->stream), "shmemx_graph_launch");
            else
                round(b);
        need(shmemx_stream_synchronize(b->stream), "shmemx_stream_synchronize");
        mine = (seconds() - begin) * 1e6 / ROUNDS;
        shmem_double_max_reduce(SHMEM_TEAM_WORLD, &slowest, &mine, 1);
        samples[s] = slowest;
    }
    qsort(samples, SAMPLES, sizeof samples[0], by_value);
    return samples[SAMPLES / 2];
}

static void fill(char *device, size_t bytes, int value, int me)
{
    char *host = (char *)malloc(bytes);
    need(host == NULL, "malloc");
    memset(host, value, bytes);
    shmem_putmem(device, host, bytes, me);
    shmem_quiet();
    free(host);
}
static void check(const char *device, size_t bytes, int value, int me)
{
    char *host = (char *)malloc(bytes);
    need(host == NULL, "malloc");
    shmem_getmem(host, device, bytes, me);
    for (size_t i = 0; i < bytes; i++)
        need(host[i] != (char)value, "the check of the data");
    free(host);
}

static void measure_batch(struct bench *b, const char *where)
{
    for (int graphs = 0; graphs < 2; graphs++) {
        double us[2];
        for (b->batched = 0; b->batched < 2; b->batched++) {
            shmemx_graph_t graph = NULL;
            fill(b->dest, CALLS * b->bytes * (size_t)b->n, 99, b->me);
            fill(b->source, CALLS * b->bytes, 1 + b->me, b->me);
            shmem_barrier_all();
            allgathers(b);
            need(shmemx_stream_synchronize(b->stream), "shmemx_stream_synchronize");
            if (graphs) {
                need(shmemx_graph_begin(b->stream), "shmemx_graph_begin");
                allgathers(b);
                need(shmemx_graph_end(b->stream, &graph), "shmemx_graph_end");
            }
            us[b->batched] = median_us(b, allgathers, graph);
            for (int i = 0; i < CALLS * b->n; i++)
                check(b->dest + (size_t)i * b->bytes, b->bytes, 1 + i % b->n, b->me);
            if (graph != NULL)
                shmemx_graph_destroy(graph);
        }
        if (b->me == 0)
            printf("isomer,allgather x%d,%zu,%s,%s,%.2f,%.2f\n", CALLS, b->bytes, where, graphs ? "graph" : "plain",
                   us[0], us[1]);
    }
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)64 << 20;
    struct bench b;
    shmem_init();
    memset(&b, 0, sizeof b);
    b.me = shmem_my_pe();
    b.n = shmem_n_pes();
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return 77;
    }
    size_t room = CALLS * (size_t)MOST_BLOCK * (size_t)b.n;
    room = room < most ? most : room;
    need(shmemx_stream_create(&b.stream), "shmemx_stream_create");
    for (int symmetric = 1; symmetric >= 0; symmetric--) {
        for (int i = 0; i < 2; i++) {
            void *memory = symmetric ? shmemx_malloc(room, SHMEMX_DEVICE) : shmemx_local_malloc(room, SHMEMX_DEVICE);
            *(i == 0 ? &b.dest : &b.source) = (char *)memory;
        }
        need(b.dest == NULL || b.source == NULL, "an allocation");
        for (b.bytes = 64; b.bytes <= MOST_BLOCK; b.bytes *= b.bytes == 64 ? 16 : 8)
            measure_batch(&b, symmetric ? "symmetric" : "private");
    }
    for (b.bytes = 8; b.n > 1 && b.bytes <= most; b.bytes *= 8) {
        fill(b.dest, b.bytes, 99, b.me);
        fill(b.source, b.bytes, 1 + b.me, b.me);
        shmem_barrier_all();
        double us = median_us(&b, messages, NULL) / 2;
        if (b.me < 2)
            check(b.dest, b.bytes, 2 - b.me, b.me);
        if (b.me == 0)
            printf("isomer,send,%zu,%.2f\n", b.bytes, us);
    }
    shmemx_stream_destroy(b.stream);
    shmem_finalize();
    return 0;
}
