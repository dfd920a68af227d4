/* SPDX-License-Identifier: MIT */
/* What a matrix product loses beside a transfer: alone, beside our all-gather by copy engines, and beside bare copies
 * of the same bytes to the same places, which is what copy engines cost at the least. In turns, so that a disturbance
 * hits all of them. PE 0 prints one line of CSV for each, of the slowest PE: isomer,matmul,SIDE,n,us of a product
 * (median),its speed alone = 1 usage: overlap [n of n x n x n [products of a sample [bytes of a shard]]] */
#include "../../examples/matmul.h"

#include <stdio.h>
#include <time.h>

enum { ALONE, ENGINES, COPIES, SIDES, TURNS = 9, MOST_PES = 64 };
static const char *const sides[SIDES] = {"alone", "beside_engines", "beside_copies"};

struct bench {
    int me, pes, products;
    size_t n, bytes; /* bytes: of a shard */
    uint16_t *a, *b;
    float *c;
    char *all; /* symmetric, [pes][bytes] */
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

/* One all-gather's worth of transfers, in place. */
static void move(struct bench *x, int side)
{
    char *shard = x->all + (size_t)x->me * x->bytes;
    if (side == ENGINES) {
        shmemx_coll_t gather = shmemx_coll_of(SHMEMX_FCOLLECT, SHMEM_TEAM_WORLD, x->all, shard, x->bytes, SHMEMX_UINT8);
        gather.same_place = 1;
        gather.engines = 1;
        need(shmemx_coll_on_stream(&gather, x->moves[0]), "the all-gather");
    }
    for (int i = 1; side == COPIES && i < x->pes; i++)
        need(shmemx_putmem_on_stream(shard, shard, x->bytes, (x->me + i) % x->pes, x->moves[i]), "a copy");
}

/* us of a product; `transfers` are under way from before the first product until after the last. */
static double sample(struct bench *x, int side, int transfers)
{
    shmem_barrier_all();
    for (int i = 0; i < transfers; i++)
        move(x, side);
    double begin = now_us();
    for (int i = 0; i < x->products; i++)
        need(matmul(x->by, x->c, x->a, x->b, x->n, x->n, x->n), "a product");
    need(shmemx_stream_synchronize(x->computes), "the products");
    double us = (now_us() - begin) / x->products;
    for (int i = 0; i < x->pes; i++)
        need(shmemx_stream_synchronize(x->moves[i]), "the transfers");
    return us;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double slowest(double us)
{
    static double mine, all;
    mine = us;
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &all, &mine, 1);
    return all;
}

static void run(struct bench *x)
{
    double us[SIDES][TURNS], moved;
    (void)sample(x, ALONE, 0);
    double product = slowest(sample(x, ALONE, 0));
    shmem_barrier_all();
    double begin = now_us();
    move(x, ENGINES);
    need(shmemx_stream_synchronize(x->moves[0]), "the all-gather");
    moved = slowest(now_us() - begin);
    int transfers = 2 + (int)(2 * product * x->products / moved);
    for (int turn = 0; turn < TURNS; turn++)
        for (int side = 0; side < SIDES; side++)
            us[side][turn] = slowest(sample(x, side, side != ALONE ? transfers : 0));
    for (int side = 0; side < SIDES; side++)
        qsort(us[side], TURNS, sizeof us[side][0], by_value);
    for (int side = 0; side < SIDES && x->me == 0; side++)
        printf("isomer,matmul,%s,%zu,%.1f,%.3f\n", sides[side], x->n, us[side][TURNS / 2],
               us[ALONE][TURNS / 2] / us[side][TURNS / 2]);
}

int main(int argc, char **argv)
{
    static struct bench x;
    shmem_init();
    x.me = shmem_my_pe();
    x.pes = shmem_n_pes();
    x.n = argc > 1 ? strtoull(argv[1], NULL, 0) : 4096;
    x.products = argc > 2 ? atoi(argv[2]) : 20;
    x.bytes = argc > 3 ? strtoull(argv[3], NULL, 0) : (size_t)64 << 20;
    if (shmemx_device_init() != 0)
        return 77;
    need(x.pes > MOST_PES || x.products < 1, "the number of PEs, at most 64, or of products, at least 1,");
    need(shmemx_stream_create(&x.computes) || matmul_open(&x.by, x.computes), "the start");
    for (int i = 0; i < x.pes; i++)
        need(shmemx_stream_create(&x.moves[i]), "a stream");
    x.a = (uint16_t *)shmemx_malloc(x.n * x.n * sizeof *x.a, SHMEMX_DEVICE);
    x.b = (uint16_t *)shmemx_malloc(x.n * x.n * sizeof *x.b, SHMEMX_DEVICE);
    x.c = (float *)shmemx_malloc(x.n * x.n * sizeof *x.c, SHMEMX_DEVICE);
    x.all = (char *)shmemx_malloc((size_t)x.pes * x.bytes, SHMEMX_DEVICE);
    need(x.a == NULL || x.b == NULL || x.c == NULL || x.all == NULL, "an allocation");
    fill(x.a, x.n * x.n, a_of);
    fill(x.b, x.n * x.n, b_of);
    run(&x);
    matmul_close(x.by);
    shmem_finalize();
    return 0;
}
