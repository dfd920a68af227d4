/* SPDX-License-Identifier: MIT */
/* All-gather and matrix product at once, as a tensor-parallel layer has it: every PE has a shard of the rows of A and
 * its own columns of B, and wants its columns of C = A x B. Copy engines carry the shards, each with a signal behind
 * it; the products are a ring pipeline that begins with the local shard and takes the others as they arrive. Checked
 * against a serial product. usage: 13_allgather_matmul [rows of a shard [k [columns [rounds]]]] */
#include "matmul.h"

#include <stdio.h>

struct layer {
    size_t rows, k, n; /* of a shard, inner, columns of this PE */
    uint16_t *shard;   /* [rows][k], device */
    uint16_t *a;       /* [pes][rows][k], symmetric: all-gathered */
    uint16_t *b;       /* [k][n], device */
    float *c;          /* [pes][rows][n], device */
    uint64_t *arrived; /* [pes], symmetric: round in which the shard of that PE has last arrived */
    uint64_t *round;   /* device: what signals are set to */
};

/* The gather of one round on one stream, its products on another: each waits for nothing but its shard. */
static int forward(const struct layer *l, uint64_t round, matmul_t by, shmemx_stream_t moves, shmemx_stream_t computes)
{
    int me = shmem_my_pe(), n = shmem_n_pes();
    size_t elems = l->rows * l->k;
    shmemx_coll_t gather = shmemx_coll_of(SHMEMX_FCOLLECT, SHMEM_TEAM_WORLD, l->a, l->shard, elems, SHMEMX_BFLOAT16);
    gather.engines = 1;
    gather.signals = l->arrived;
    gather.signal_value = l->round;
    gather.chunk_bytes = elems * sizeof *l->a; /* a shard is one piece */
    shmem_putmem(l->round, &round, sizeof round, me);
    int bad = matmul(by, l->c + (size_t)me * l->rows * l->n, l->shard, l->b, l->rows, l->k, l->n);
    bad |= shmemx_coll_on_stream(&gather, moves);
    for (int i = 1; i < n && !bad; i++) { /* in the order in which they come */
        int pe = (me + n - i) % n;
        bad = shmemx_signal_wait_until_on_stream(l->arrived + pe, SHMEM_CMP_GE, round, computes) ||
              matmul(by, l->c + (size_t)pe * l->rows * l->n, l->a + (size_t)pe * elems, l->b, l->rows, l->k, l->n);
    }
    return bad || shmemx_stream_synchronize(computes) || shmemx_stream_synchronize(moves);
}

/* Some elements of each shard's rows. */
static size_t count_wrong(const struct layer *l)
{
    size_t wrong = 0, part = l->rows * l->n;
    float seen;
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        for (size_t i = 0; i < part; i += part / 50 + 1) {
            double sum = 0;
            for (size_t x = 0; x < l->k; x++)
                sum += a_of(pe, i / l->n * l->k + x) * b_of(shmem_my_pe(), x * l->n + i % l->n);
            shmem_getmem(&seen, l->c + (size_t)pe * part + i, sizeof seen, shmem_my_pe());
            wrong += seen != (float)sum;
        }
    return wrong;
}

int main(int argc, char **argv)
{
    shmem_init();
    struct layer l;
    shmemx_stream_t moves, computes;
    matmul_t by;
    size_t n = (size_t)shmem_n_pes(), wrong = 0;
    l.rows = argc > 1 ? strtoull(argv[1], NULL, 0) : 48;
    l.k = argc > 2 ? strtoull(argv[2], NULL, 0) : 64;
    l.n = argc > 3 ? strtoull(argv[3], NULL, 0) : 32;
    uint64_t rounds = argc > 4 ? strtoull(argv[4], NULL, 0) : 3;
    if (shmemx_device_init() != 0 || shmemx_stream_create(&moves) != 0 || shmemx_stream_create(&computes) != 0 ||
        matmul_open(&by, computes) != 0)
        shmem_global_exit(1);
    l.shard = (uint16_t *)shmemx_malloc(l.rows * l.k * sizeof *l.shard, SHMEMX_DEVICE);
    l.a = (uint16_t *)shmemx_malloc(n * l.rows * l.k * sizeof *l.a, SHMEMX_DEVICE);
    l.b = (uint16_t *)shmemx_malloc(l.k * l.n * sizeof *l.b, SHMEMX_DEVICE);
    l.c = (float *)shmemx_malloc(n * l.rows * l.n * sizeof *l.c, SHMEMX_DEVICE);
    l.arrived = (uint64_t *)shmemx_calloc(n + 1, sizeof *l.arrived, SHMEMX_DEVICE);
    l.round = l.arrived + n;
    if (l.shard == NULL || l.a == NULL || l.b == NULL || l.c == NULL || l.arrived == NULL)
        shmem_global_exit(1);
    fill(l.shard, l.rows * l.k, a_of);
    fill(l.b, l.k * l.n, b_of);
    double both = 0, products = 0; /* ms of the last round */
    for (uint64_t round = 1; round <= rounds; round++) {
        shmem_barrier_all();
        double begin = matmul_ms();
        if (forward(&l, round, by, moves, computes) != 0)
            shmem_global_exit(1);
        both = matmul_ms() - begin;
        wrong += count_wrong(&l);
        begin = matmul_ms();
        for (size_t pe = 0; pe < n; pe++)
            wrong += matmul(by, l.c + pe * l.rows * l.n, l.a + pe * l.rows * l.k, l.b, l.rows, l.k, l.n) != 0;
        wrong += shmemx_stream_synchronize(computes) != 0;
        products = matmul_ms() - begin;
    }
    printf("[pe %d] %zux%zux%zu by %s, shards as they arrive, %llu rounds: %s; %.3f ms, products alone %.3f ms, "
           "ratio %.3f\n",
           shmem_my_pe(), n * l.rows, l.k, l.n, MATMUL_BY, (unsigned long long)rounds,
           wrong == 0 ? "equal to the serial product" : "WRONG", both, products, both / products);
    matmul_close(by);
    shmemx_stream_destroy(moves);
    shmemx_stream_destroy(computes);
    shmem_finalize();
    return wrong != 0;
}
