/* SPDX-License-Identifier: MIT */
/* iput, iget, ibput, ibget of every type and SIZE, with and without a context, against images that are made element by
 * element: also what lies between the strides must stay as it was. */
#include "../check.h"
#include "rma_table.h"

enum { SLOT = 8192, SHAPES = 9 };

struct shape {
    ptrdiff_t dst;
    ptrdiff_t sst;
    size_t bsize; /* 0: iput and iget */
    size_t n;
};

static const struct shape shapes[SHAPES] = {
    {1, 1, 0, 20}, {2, 1, 0, 13}, {1, 3, 0, 13}, {5, 4, 0, 25}, {7, 3, 0, 0},
    {1, 1, 1, 9},  {3, 5, 3, 7},  {9, 4, 4, 11}, {6, 6, 2, 0},
};

/* What `dest` must hold after the transfer. */
static void reference(unsigned char *dest, const unsigned char *source, size_t size, const struct shape *shape)
{
    size_t block = shape->bsize != 0 ? shape->bsize : 1;
    for (size_t i = 0; i < shape->n; i++)
        memcpy(dest + i * (size_t)shape->dst * size, source + i * (size_t)shape->sst * size, block * size);
}

static void put(const struct rma *rma, const shmem_ctx_t *ctx, void *dest, const void *source,
                const struct shape *shape, int pe)
{
    if (shape->bsize == 0)
        rma->iput(ctx, dest, source, shape->dst, shape->sst, shape->n, pe);
    else
        rma->ibput(ctx, dest, source, shape->dst, shape->sst, shape->bsize, shape->n, pe);
}

static void get(const struct rma *rma, const shmem_ctx_t *ctx, void *dest, const void *source,
                const struct shape *shape, int pe)
{
    if (shape->bsize == 0)
        rma->iget(ctx, dest, source, shape->dst, shape->sst, shape->n, pe);
    else
        rma->ibget(ctx, dest, source, shape->dst, shape->sst, shape->bsize, shape->n, pe);
}

struct buffers {
    unsigned char *area;     /* symmetric */
    unsigned char *local;    /* source of puts, destination of gets */
    unsigned char *expected; /* image */
};

static void test_put(struct buffers *buffers, const struct rma *rma, const shmem_ctx_t *ctx, const struct shape *shape,
                     size_t offset)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    check_poison(buffers->area);
    check_fill(buffers->local, SLOT, me, right, (unsigned)shape->n);
    shmem_barrier_all();
    put(rma, ctx, buffers->area + offset, buffers->local, shape, right);
    memset(buffers->local, 0xee, SLOT); /* copied out when the call returns */
    if (ctx != NULL)
        shmem_ctx_quiet(*ctx);
    shmem_barrier_all();
    memset(buffers->expected, CHECK_POISON, SLOT);
    check_fill(buffers->local, SLOT, left, me, (unsigned)shape->n);
    reference(buffers->expected + offset, buffers->local, rma->size, shape);
    CHECK_BYTES_NAMED(buffers->area, buffers->expected, SLOT, rma->name);
    shmem_barrier_all();
}

static void test_get(struct buffers *buffers, const struct rma *rma, const shmem_ctx_t *ctx, const struct shape *shape,
                     size_t offset)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    check_fill(buffers->area, SLOT, me, 0, (unsigned)shape->n);
    memset(buffers->local, CHECK_POISON, SLOT);
    shmem_barrier_all();
    get(rma, ctx, buffers->local + offset, buffers->area, shape, right);
    shmem_barrier_all();
    memset(buffers->expected, CHECK_POISON, SLOT);
    check_fill(buffers->area, SLOT, right, 0, (unsigned)shape->n);
    reference(buffers->expected + offset, buffers->area, rma->size, shape);
    CHECK_BYTES_NAMED(buffers->local, buffers->expected, SLOT, rma->name);
}

/* The specification: a block size of 1 is iput. */
static void test_one_element_blocks(struct buffers *buffers)
{
    int npes = shmem_n_pes();
    int right = (shmem_my_pe() + 1) % npes;
    for (int row = 0; row < RMA_ROWS; row++) {
        const struct rma *rma = &rma_table[row];
        if (rma->ibput == NULL)
            continue;
        check_poison(buffers->area);
        check_fill(buffers->local, SLOT, 1, 2, (unsigned)row);
        shmem_barrier_all();
        rma->ibput(NULL, buffers->area, buffers->local, 3, 2, 1, 20, right);
        rma->iput(NULL, buffers->area + SLOT / 2, buffers->local, 3, 2, 20, right);
        shmem_barrier_all();
        CHECK_BYTES_NAMED(buffers->area, buffers->area + SLOT / 2, SLOT / 2, rma->name);
        shmem_barrier_all();
    }
}

/* Large matrices: one column, one block of columns. */
static void test_matrix(double *matrix, int rows, int columns)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    double *column = (double *)malloc((size_t)rows * 4 * sizeof(double));
    CHECK_OR_EXIT(column != NULL);
    for (int i = 0; i < rows * columns; i++)
        matrix[i] = me;
    for (int i = 0; i < rows * 4; i++)
        column[i] = 1000.0 * (me + 1) + i;
    shmem_barrier_all();
    shmem_double_iput(matrix + 3, column, columns, 4, (size_t)rows, right);
    shmem_double_ibput(matrix + 10, column, columns, 4, 4, (size_t)rows, right);
    shmem_barrier_all();
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            double expected = me;
            if (c == 3)
                expected = 1000.0 * (left + 1) + 4 * r;
            else if (c >= 10 && c < 14)
                expected = 1000.0 * (left + 1) + 4 * r + c - 10;
            if (!CHECK(matrix[r * columns + c] == expected))
                break;
        }
    }
    shmem_double_iget(column, matrix + 3, 4, columns, (size_t)rows, right);
    for (int r = 0; r < rows; r++)
        if (!CHECK(column[4 * r] == 1000.0 * (me + 1) + 4 * r))
            break;
    shmem_barrier_all();
    free(column);
}

static int test_main(void)
{
    CHECK_INIT();
    enum { ROWS = 150, COLUMNS = 120 };
    struct buffers buffers;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    buffers.area = (unsigned char *)check_alloc(SLOT);
    buffers.local = (unsigned char *)malloc(SLOT);
    buffers.expected = (unsigned char *)malloc(SLOT);
    CHECK_OR_EXIT(buffers.local != NULL && buffers.expected != NULL);
    for (int row = 0; row < RMA_ROWS; row++) {
        const struct rma *rma = &rma_table[row];
        if (rma->iput == NULL)
            continue;
        for (int i = 0; i < SHAPES; i++) {
            size_t offset = rma->size * (size_t)(i % 3);
            test_put(&buffers, rma, NULL, &shapes[i], offset);
            test_put(&buffers, rma, &ctx, &shapes[i], offset);
            test_get(&buffers, rma, NULL, &shapes[i], offset);
            test_get(&buffers, rma, &ctx, &shapes[i], offset);
        }
    }
    test_one_element_blocks(&buffers);
    double *matrix = (double *)check_alloc(ROWS * COLUMNS * sizeof(double));
    test_matrix(matrix, ROWS, COLUMNS);
    check_free(matrix);
    free(buffers.local);
    free(buffers.expected);
    check_free(buffers.area);
    shmem_ctx_destroy(ctx);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
