/* SPDX-License-Identifier: MIT */
/* A collective beside a matrix product: what each loses. For each kind of call, as such and with `background`, and for
 * bare copies of an all-gather's bytes, which is what copy engines cost at the least. PE 0 prints a line of CSV for
 * each, medians of the slowest PE, samples in turns, so that a disturbance hits all of them:
 *   isomer,KIND,HOW,bytes,n,us of a call alone,beside products,product's speed beside calls (1: alone),us lost a call
 * What a call does not outlast is not measured: while a product is timed calls are under way, and the other way round.
 * peers/overlap.py prints the same of NCCL.
 * usage: overlap [n of n x n x n [products of a sample [bytes of the larger buffer [kind]]]] */
#include "../../examples/matmul.h"

#include <stdio.h>
#include <time.h>

enum { TURNS = 5, MOST_PES = 64, WAYS = 11 };

/* Of one call: bytes of the larger buffer are `all`; bfloat16 where it sums. */
struct way {
    const char *kind, *how;
    int call, background; /* call < 0: bare copies */
};
static const struct way ways[WAYS] = {
    {"fcollect", "plain", SHMEMX_FCOLLECT, 0},           {"fcollect", "background", SHMEMX_FCOLLECT, 1},
    {"fcollect", "copies", -1, 0},                       {"reducescatter", "plain", SHMEMX_REDUCESCATTER, 0},
    {"reducescatter", "background", SHMEMX_REDUCESCATTER, 1}, {"allreduce", "plain", SHMEMX_ALLREDUCE, 0},
    {"allreduce", "background", SHMEMX_ALLREDUCE, 1},    {"alltoall", "plain", SHMEMX_ALLTOALL, 0},
    {"alltoall", "background", SHMEMX_ALLTOALL, 1},      {"broadcast", "plain", SHMEMX_BROADCAST, 0},
    {"broadcast", "background", SHMEMX_BROADCAST, 1},
};

struct bench {
    int me, pes, products;
    size_t n, bytes; /* bytes: of all blocks */
    uint16_t *a, *b;
    float *c;
    char *from, *to; /* symmetric */
    matmul_t by;
    shmemx_stream_t computes, moves[MOST_PES];
};

static void need(int failed, const char *what)
{
    if (failed == 0)
        return;
    fprintf(stderr, "overlap: %s failed\n", what);
    shmem_global_exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void move(struct bench *x, const struct way *w)
{
    size_t block = x->bytes / (size_t)x->pes;
    if (w->call < 0) {
        char *shard = x->to + (size_t)x->me * block;
        for (int i = 1; i < x->pes; i++)
            need(shmemx_putmem_on_stream(shard, x->from, block, (x->me + i) % x->pes, x->moves[i]), "a copy");
        return;
    }
    int sums = w->call == SHMEMX_REDUCESCATTER || w->call == SHMEMX_ALLREDUCE;
    int whole = w->call == SHMEMX_ALLREDUCE || w->call == SHMEMX_BROADCAST;
    shmemx_coll_t q =
        shmemx_coll_of(w->call, SHMEM_TEAM_WORLD, x->to, x->from, (whole ? x->bytes : block) / (sums ? 2 : 1),
                       sums ? SHMEMX_BFLOAT16 : SHMEMX_UINT8);
    q.same_place = 1;
    q.background = w->background;
    q.stage_bytes = x->bytes;
    need(shmemx_coll_on_stream(&q, x->moves[0]), w->kind);
}

enum work { CALLS, PRODUCTS };

static void begin_work(struct bench *x, const struct way *w, enum work work, int n)
{
    for (int i = 0; i < n; i++)
        if (work == CALLS)
            move(x, w);
        else
            need(matmul(x->by, x->c, x->a, x->b, x->n, x->n, x->n), "a product");
}
static void end_work(struct bench *x, enum work work)
{
    if (work == PRODUCTS)
        need(shmemx_stream_synchronize(x->computes), "the products");
    for (int i = 0; work == CALLS && i < x->pes; i++)
        need(shmemx_stream_synchronize(x->moves[i]), "the calls");
}

/* us of one of n calls, or products, while `others` of the other ones are under way. */
static double sample(struct bench *x, const struct way *w, enum work work, int n, int others)
{
    enum work other = work == CALLS ? PRODUCTS : CALLS;
    shmem_barrier_all();
    begin_work(x, w, other, others);
    double begin = now_us();
    begin_work(x, w, work, n);
    end_work(x, work);
    double us = (now_us() - begin) / n;
    end_work(x, other);
    return us;
}

static double slowest(double us)
{
    static double mine, all;
    mine = us;
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &all, &mine, 1);
    return all;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}
static double median(double *us)
{
    qsort(us, TURNS, sizeof *us, by_value);
    return us[TURNS / 2];
}

/* `product`: us of one alone, about. */
static void run(struct bench *x, const struct way *w, double product)
{
    double alone[TURNS], beside[TURNS], products[TURNS], beside_calls[TURNS];
    (void)sample(x, w, CALLS, 1, 0); /* makes the slot */
    double call = slowest(sample(x, w, CALLS, 2, 0));
    int calls = 2 + (int)(product * x->products / call), lasting = 2 + (int)(3 * product * x->products / call);
    for (int turn = 0; turn < TURNS; turn++) {
        alone[turn] = slowest(sample(x, w, CALLS, calls, 0));
        products[turn] = slowest(sample(x, w, PRODUCTS, x->products, 0));
        beside[turn] = slowest(sample(x, w, CALLS, calls, 3 * x->products));
        beside_calls[turn] = slowest(sample(x, w, PRODUCTS, x->products, lasting));
    }
    double speed = median(products) / median(beside_calls), us = median(beside);
    if (x->me == 0)
        printf("isomer,%s,%s,%zu,%zu,%.1f,%.1f,%.3f,%.1f\n", w->kind, w->how, x->bytes, x->n, median(alone), us, speed,
               us * (1 - speed));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bench x;
    shmem_init();
    x.me = shmem_my_pe();
    x.pes = shmem_n_pes();
    x.n = argc > 1 ? strtoull(argv[1], NULL, 0) : 4096;
    x.products = argc > 2 ? atoi(argv[2]) : 20;
    x.bytes = argc > 3 ? strtoull(argv[3], NULL, 0) : (size_t)384 << 20;
    if (shmemx_device_init() != 0)
        return 77;
    need(x.pes > MOST_PES || x.products < 1, "the number of PEs, at most 64, or of products, at least 1,");
    need(shmemx_stream_create(&x.computes) || matmul_open(&x.by, x.computes), "the start");
    for (int i = 0; i < x.pes; i++)
        need(shmemx_stream_create(&x.moves[i]), "a stream");
    x.bytes = x.bytes / (size_t)x.pes / 16 * 16 * (size_t)x.pes;
    x.a = (uint16_t *)shmemx_malloc(x.n * x.n * sizeof *x.a, SHMEMX_DEVICE);
    x.b = (uint16_t *)shmemx_malloc(x.n * x.n * sizeof *x.b, SHMEMX_DEVICE);
    x.c = (float *)shmemx_malloc(x.n * x.n * sizeof *x.c, SHMEMX_DEVICE);
    x.from = (char *)shmemx_calloc(1, x.bytes, SHMEMX_DEVICE);
    x.to = (char *)shmemx_calloc(1, x.bytes, SHMEMX_DEVICE);
    need(x.a == NULL || x.b == NULL || x.c == NULL || x.from == NULL || x.to == NULL, "an allocation");
    fill(x.a, x.n * x.n, a_of);
    fill(x.b, x.n * x.n, b_of);
    (void)sample(&x, NULL, PRODUCTS, 1, 0);
    double product = slowest(sample(&x, NULL, PRODUCTS, x.products, 0));
    for (const struct way *w = ways; w < ways + WAYS; w++)
        if (argc < 5 || strcmp(argv[4], w->kind) == 0)
            run(&x, w, product);
    matmul_close(x.by);
    shmem_finalize();
    return 0;
}
