/* SPDX-License-Identifier: MIT */
/* Matrix product and reduce-scatter at once, the other half of a tensor-parallel layer: every PE has some columns of A
 * and the rows of B that belong to them, so its product is a summand of all of C, of which each PE wants a block of
 * rows. The products are made block by block, each block is sent to its owner by a copy engine while the next one is
 * computed, the own one last; the owner adds them in the order of PEs. Checked against a serial product.
 * usage: 14_matmul_reducescatter [rows of a block [k of a PE [columns [rounds]]]] */
#include "matmul.h"

#include <stdio.h>

struct layer {
    size_t rows, k, n; /* of a block, inner of this PE, columns */
    uint16_t *a;       /* [pes][rows][k], device */
    uint16_t *b;       /* [k][n], device */
    float *part;       /* [pes][rows][n], device: this PE's summands */
    float *inbox;      /* [pes][rows][n], symmetric: the summands of this PE's block, by sender */
    float *c;          /* [rows][n], device */
    uint64_t *arrived; /* [pes], symmetric: round in which that PE's summand has last arrived */
};

struct add_args {
    float *c;
    const float *inbox, *own;
    size_t elems;
    int me, pes;
};

SHMEMD_KERNEL(add_blocks, struct add_args, a)
{
    size_t first = (size_t)shmemd_block_index() * shmemd_block_size() + shmemd_thread_index();
    for (size_t i = first; i < a.elems; i += (size_t)shmemd_block_count() * shmemd_block_size()) {
        float sum = 0;
        for (int pe = 0; pe < a.pes; pe++)
            sum += pe == a.me ? a.own[i] : a.inbox[(size_t)pe * a.elems + i];
        a.c[i] = sum;
    }
}

static int backward(const struct layer *l, uint64_t round, matmul_t by, shmemx_stream_t moves, shmemx_stream_t computes)
{
    int me = shmem_my_pe(), n = shmem_n_pes(), bad = 0;
    size_t block = l->rows * l->n, bytes = block * sizeof *l->part;
    for (int i = 1; i <= n && !bad; i++) {
        int pe = (me + i) % n;
        bad = matmul(by, l->part + (size_t)pe * block, l->a + (size_t)pe * l->rows * l->k, l->b, l->rows, l->k, l->n);
        if (pe == me)
            break;
        bad = bad || shmemx_stream_wait_stream(moves, computes) ||
              shmemx_putmem_signal_on_stream(l->inbox + (size_t)me * block, l->part + (size_t)pe * block, bytes,
                                             l->arrived + me, round, SHMEM_SIGNAL_SET, pe, moves);
    }
    for (int i = 1; i < n && !bad; i++)
        bad = shmemx_signal_wait_until_on_stream(l->arrived + (me + i) % n, SHMEM_CMP_GE, round, computes);
    struct add_args add = {l->c, l->inbox, l->part + (size_t)me * block, block, me, n};
    unsigned blocks = block < 4096 * 1024 ? (unsigned)(block / 4096 + 1) : 1024; /* as many as a large device holds */
    bad = bad || shmemx_launch(SHMEMX_KERNEL(add_blocks), blocks, 256, 0, &add, sizeof add, computes);
    /* The next round overwrites inboxes and summands: everybody has added, and everything of ours has left. */
    return bad || shmemx_stream_wait_stream(computes, moves) || shmemx_sync_on_stream(SHMEM_TEAM_WORLD, computes);
}

static size_t count_wrong(const struct layer *l)
{
    size_t wrong = 0, block = l->rows * l->n, first = (size_t)shmem_my_pe() * l->rows;
    float seen;
    for (size_t i = 0; i < block; i += block / 50 + 1) {
        double sum = 0;
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            for (size_t x = 0; x < l->k; x++)
                sum += a_of(pe, (first + i / l->n) * l->k + x) * b_of(pe, x * l->n + i % l->n);
        shmem_getmem(&seen, l->c + i, sizeof seen, shmem_my_pe());
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
    l.k = argc > 2 ? strtoull(argv[2], NULL, 0) : 32;
    l.n = argc > 3 ? strtoull(argv[3], NULL, 0) : 64;
    uint64_t rounds = argc > 4 ? strtoull(argv[4], NULL, 0) : 3;
    if (shmemx_device_init() != 0 || shmemx_stream_create(&moves) != 0 || shmemx_stream_create(&computes) != 0 ||
        matmul_open(&by, computes) != 0)
        shmem_global_exit(1);
    size_t all = n * l.rows * l.n * sizeof(float);
    l.a = (uint16_t *)shmemx_malloc(n * l.rows * l.k * sizeof *l.a, SHMEMX_DEVICE);
    l.b = (uint16_t *)shmemx_malloc(l.k * l.n * sizeof *l.b, SHMEMX_DEVICE);
    l.part = (float *)shmemx_malloc(all, SHMEMX_DEVICE);
    l.inbox = (float *)shmemx_malloc(all, SHMEMX_DEVICE);
    l.c = (float *)shmemx_malloc(all / n, SHMEMX_DEVICE);
    l.arrived = (uint64_t *)shmemx_calloc(n, sizeof *l.arrived, SHMEMX_DEVICE);
    if (l.a == NULL || l.b == NULL || l.part == NULL || l.inbox == NULL || l.c == NULL || l.arrived == NULL)
        shmem_global_exit(1);
    fill(l.a, n * l.rows * l.k, a_of);
    fill(l.b, l.k * l.n, b_of);
    double both = 0, products = 0; /* ms of the last round */
    for (uint64_t round = 1; round <= rounds; round++) {
        shmem_barrier_all();
        double begin = matmul_ms();
        if (backward(&l, round, by, moves, computes) != 0 || shmemx_stream_synchronize(computes) != 0)
            shmem_global_exit(1);
        both = matmul_ms() - begin;
        wrong += count_wrong(&l);
        begin = matmul_ms();
        for (size_t pe = 0; pe < n; pe++)
            wrong += matmul(by, l.part + pe * l.rows * l.n, l.a + pe * l.rows * l.k, l.b, l.rows, l.k, l.n) != 0;
        wrong += shmemx_stream_synchronize(computes) != 0;
        products = matmul_ms() - begin;
    }
    printf(
        "[pe %d] %zux%zux%zu by %s, blocks to their owners as they are made, %llu rounds: %s; %.3f ms, products alone "
        "%.3f ms, ratio %.3f\n",
        shmem_my_pe(), n * l.rows, n * l.k, l.n, MATMUL_BY, (unsigned long long)rounds,
        wrong == 0 ? "equal to the serial product" : "WRONG", both, products, both / products);
    matmul_close(by);
    shmemx_stream_destroy(moves);
    shmemx_stream_destroy(computes);
    shmem_finalize();
    return wrong != 0;
}
