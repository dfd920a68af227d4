/* SPDX-License-Identifier: MIT */
/* Contiguous remote memory access: put, get, p, g, put_nbi, get_nbi of every type, SIZE and mem, with and without a
 * context, at odd sizes and offsets and of no elements, from private and symmetric memory, between all pairs of PEs.
 * Every byte of the target's buffer is looked at, not only those that should change. */
#include "../check.h"
#include "rma_table.h"

enum { SLOT = 4096, COUNTS = 8, LARGE = (1 << 18) + 77 };

static const size_t counts[COUNTS] = {0, 1, 2, 3, 5, 17, 64, 99};

struct buffers {
    unsigned char *slots;     /* symmetric: SLOT bytes of this PE for each PE */
    unsigned char *symmetric; /* a source or destination on this PE that is symmetric too */
    unsigned char *local;     /* and one that is not */
    shmem_ctx_t ctx;
};

/* One transfer of the round: n elements at byte `offset` of the slot. */
struct transfer {
    const struct rma *rma;
    size_t n;
    size_t offset;
    unsigned round;
    const shmem_ctx_t *ctx;
    bool nonblocking;
    unsigned char *mine; /* the side on the calling PE */
};

static void check_slot(const struct transfer *transfer, const unsigned char *slot, int from, int to)
{
    size_t len_bytes = transfer->n * transfer->rma->size;
    const unsigned char *data = slot + transfer->offset;
    CHECK_NAMED(check_all_bytes(slot, CHECK_POISON, transfer->offset), transfer->rma->name);
    CHECK_NAMED(check_filled(data, len_bytes, from, to, transfer->round), transfer->rma->name);
    CHECK_NAMED(check_all_bytes(data + len_bytes, CHECK_POISON, SLOT - transfer->offset - len_bytes),
                transfer->rma->name);
}

/* Everybody puts to everybody. */
static void test_put(struct buffers *buffers, const struct transfer *transfer)
{
    const struct rma *rma = transfer->rma;
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    size_t len_bytes = transfer->n * rma->size;
    check_poison(buffers->slots);
    shmem_barrier_all();
    for (int i = 0; i < npes; i++) {
        int pe = (me + i) % npes;
        unsigned char *slot = buffers->slots + (size_t)me * SLOT + transfer->offset;
        check_fill(transfer->mine, len_bytes, me, pe, transfer->round);
        if (transfer->nonblocking) {
            rma->put_nbi(transfer->ctx, slot, transfer->mine, transfer->n, pe);
            shmem_ctx_quiet(transfer->ctx != NULL ? *transfer->ctx : SHMEM_CTX_DEFAULT);
        } else {
            rma->put(transfer->ctx, slot, transfer->mine, transfer->n, pe);
        }
        /* The source may be used again at once. */
        memset(transfer->mine, 0xee, len_bytes);
    }
    if (transfer->ctx != NULL)
        shmem_ctx_quiet(*transfer->ctx);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        check_slot(transfer, buffers->slots + (size_t)pe * SLOT, pe, me);
    shmem_barrier_all();
}

/* Everybody gets from everybody; the target of a get is looked at like the target of a put. */
static void test_get(struct buffers *buffers, const struct transfer *transfer)
{
    const struct rma *rma = transfer->rma;
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    unsigned char *got = transfer->mine - transfer->offset;
    for (int pe = 0; pe < npes; pe++)
        check_fill(buffers->slots + (size_t)pe * SLOT + transfer->offset, transfer->n * rma->size, me, pe,
                   transfer->round);
    shmem_barrier_all();
    for (int i = 0; i < npes; i++) {
        int pe = (me + i) % npes;
        const unsigned char *slot = buffers->slots + (size_t)me * SLOT + transfer->offset;
        memset(got, CHECK_POISON, SLOT);
        if (transfer->nonblocking) {
            rma->get_nbi(transfer->ctx, transfer->mine, slot, transfer->n, pe);
            shmem_ctx_quiet(transfer->ctx != NULL ? *transfer->ctx : SHMEM_CTX_DEFAULT);
        } else {
            rma->get(transfer->ctx, transfer->mine, slot, transfer->n, pe);
        }
        check_slot(transfer, got, pe, me);
    }
    shmem_barrier_all();
}

/* Element offsets for typed and SIZE calls, which need alignment; any byte offset for mem. */
static void test_forms(struct buffers *buffers)
{
    struct check_random random = check_random_stream(2);
    for (int row = 0; row < RMA_ROWS; row++) {
        const struct rma *rma = &rma_table[row];
        /* Each form (context or not, blocking or not) meets half of the counts. */
        for (unsigned i = 0; i < 2 * COUNTS; i++) {
            size_t n = counts[i / 2];
            struct transfer transfer = {rma, n, 0, i + 20u * (unsigned)row, NULL, false, NULL};
            unsigned form = i / 2 + i % 2;
            size_t room = SLOT / rma->size - n;
            transfer.offset = rma->size * (check_random_below(&random, 3) == 0 ? 0 : check_random_below(&random, room));
            transfer.ctx = form & 1 ? &buffers->ctx : NULL;
            transfer.nonblocking = (form & 2) != 0;
            transfer.mine = (check_random_below(&random, 2) ? buffers->symmetric : buffers->local) + transfer.offset;
            test_put(buffers, &transfer);
            test_get(buffers, &transfer);
        }
    }
}

/* p and g: one element, its neighbours stay. */
static void test_scalars(struct buffers *buffers)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    for (int row = 0; row < RMA_ROWS; row++) {
        const struct rma *rma = &rma_table[row];
        if (rma->p == NULL)
            continue;
        const shmem_ctx_t *ctx = row % 2 ? &buffers->ctx : NULL;
        check_poison(buffers->slots);
        shmem_barrier_all();
        for (int pe = 0; pe < npes; pe++)
            rma->p(ctx, buffers->slots + (size_t)me * SLOT + 3 * rma->size, 1 + 7 * me + pe, pe);
        if (ctx != NULL)
            shmem_ctx_quiet(*ctx);
        shmem_barrier_all();
        for (int pe = 0; pe < npes; pe++) {
            const unsigned char *slot = buffers->slots + (size_t)pe * SLOT;
            CHECK_NAMED(check_all_bytes(slot, CHECK_POISON, 3 * rma->size), rma->name);
            CHECK_NAMED(check_all_bytes(slot + 4 * rma->size, CHECK_POISON, SLOT - 4 * rma->size), rma->name);
            CHECK_EQ_NAMED(rma->g(ctx, slot + 3 * rma->size, me), 1 + 7 * pe + me, rma->name);
            CHECK_EQ_NAMED(rma->g(ctx, buffers->slots + (size_t)me * SLOT + 3 * rma->size, pe), 1 + 7 * me + pe,
                           rma->name);
        }
        shmem_barrier_all();
    }
}

/* Long random transfers at any byte alignment of both sides, many of them under way at once. */
static void test_random(unsigned char *area, shmem_ctx_t ctx)
{
    enum { AT_ONCE = 6, ROUNDS = 12 };
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    unsigned char *local = (unsigned char *)malloc(LARGE + 64);
    unsigned char *got = (unsigned char *)malloc(LARGE);
    CHECK_OR_EXIT(local != NULL && got != NULL);
    struct check_random common = check_random_stream(3);
    for (unsigned round = 0; round < ROUNDS; round++) {
        int shift = (int)check_random_below(&common, (size_t)npes);
        int to = (me + shift) % npes;
        int from = (me + npes - shift) % npes;
        size_t lead = check_random_below(&common, 64);
        size_t begin[AT_ONCE + 1];
        begin[0] = check_random_below(&common, 64);
        for (int i = 0; i < AT_ONCE; i++)
            begin[i + 1] = begin[i] + check_random_below(&common, LARGE / AT_ONCE - 40);
        check_poison(area);
        check_fill(local + lead, LARGE - 64, me, to, round);
        shmem_barrier_all();
        for (int i = AT_ONCE - 1; i >= 0; i--)
            shmem_ctx_putmem_nbi(ctx, area + begin[i], local + lead + begin[i], begin[i + 1] - begin[i], to);
        shmem_ctx_quiet(ctx);
        shmem_getmem(got, area + begin[0], begin[AT_ONCE] - begin[0], to);
        CHECK_BYTES(got, local + lead + begin[0], begin[AT_ONCE] - begin[0]);
        shmem_barrier_all();
        check_fill(local, LARGE - 64, from, me, round);
        CHECK(check_all_bytes(area, CHECK_POISON, begin[0]));
        CHECK_BYTES(area + begin[0], local + begin[0], begin[AT_ONCE] - begin[0]);
        CHECK(check_all_bytes(area + begin[AT_ONCE], CHECK_POISON, LARGE - begin[AT_ONCE]));
        shmem_barrier_all();
    }
    free(got);
    free(local);
}

/* A PE is its own peer like any other, also between two symmetric objects of its own. */
static void test_self(unsigned char *area)
{
    int me = shmem_my_pe();
    check_poison(area);
    check_fill(area, 1000, me, me, 1);
    shmem_putmem(area + 2000, area, 1000, me);
    shmem_getmem(area + 4000, area + 2000, 1000, me);
    CHECK_FILLED(area + 2000, 1000, me, me, 1);
    CHECK_FILLED(area + 4000, 1000, me, me, 1);
    CHECK(check_all_bytes(area + 3000, CHECK_POISON, 1000));
    shmem_barrier_all();
}

#ifndef CHECK_FOREIGN
/* Nothing moves, so nothing is looked at but the PE. */
static void test_nothing(shmem_ctx_t ctx)
{
    int pe = shmem_n_pes() - 1;
    for (int row = 0; row < RMA_ROWS; row++) {
        const struct rma *rma = &rma_table[row];
        rma->put(&ctx, NULL, NULL, 0, pe);
        rma->get(NULL, NULL, NULL, 0, pe);
        rma->put_nbi(NULL, NULL, NULL, 0, pe);
        rma->get_nbi(&ctx, NULL, NULL, 0, pe);
        if (rma->iput != NULL) {
            rma->iput(NULL, NULL, NULL, 1, 1, 0, pe);
            rma->iget(NULL, NULL, NULL, 2, 3, 0, pe);
            rma->ibput(NULL, NULL, NULL, 2, 2, 2, 0, pe);
            rma->ibget(NULL, NULL, NULL, 2, 2, 2, 0, pe);
        }
    }
}
#endif

static int test_main(void)
{
    CHECK_INIT();
    struct buffers buffers;
    size_t npes = (size_t)shmem_n_pes();
    buffers.slots = (unsigned char *)check_alloc(npes * SLOT);
    buffers.symmetric = (unsigned char *)check_alloc(SLOT);
    buffers.local = (unsigned char *)malloc(SLOT);
    CHECK_OR_EXIT(buffers.local != NULL);
    CHECK_EQ(shmem_ctx_create(0, &buffers.ctx), 0);
    unsigned char *area = (unsigned char *)check_alloc(LARGE);
    test_forms(&buffers);
    test_scalars(&buffers);
#ifndef CHECK_FOREIGN
    test_nothing(buffers.ctx);
#endif
    test_random(area, SHMEM_CTX_DEFAULT);
    test_random(area, buffers.ctx);
    test_self(area);
    check_free(area);
    shmem_ctx_destroy(buffers.ctx);
    free(buffers.local);
    check_free(buffers.symmetric);
    check_free(buffers.slots);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
