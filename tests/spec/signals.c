/* SPDX-License-Identifier: MIT */
/* Signals: put_signal and put_signal_nbi of every type, SIZE and mem with both operators, signal_set, signal_add,
 * signal_fetch, signal_wait_until: whoever sees the signal sees the data. */
#include "../check.h"
#include "rma_table.h"

enum { SLOT = 2048 };

struct buffers {
    unsigned char *slots; /* SLOT bytes for each sender */
    uint64_t *signals;    /* one for each sender */
    shmem_ctx_t ctx;
};

static void put(const struct rma *rma, const shmem_ctx_t *ctx, bool nonblocking, void *dest, const void *source,
                size_t n, uint64_t *signal_at, uint64_t signal, int op, int pe)
{
    if (nonblocking)
        rma->put_signal_nbi(ctx, dest, source, n, signal_at, signal, op, pe);
    else
        rma->put_signal(ctx, dest, source, n, signal_at, signal, op, pe);
}

/* Everybody to everybody, no barrier between signal and look. */
static void exchange(struct buffers *buffers, const struct rma *rma, unsigned round, size_t n, int op)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    size_t len_bytes = n * rma->size;
    const shmem_ctx_t *ctx = round & 1 ? &buffers->ctx : NULL;
    const uint64_t start = op == SHMEM_SIGNAL_ADD ? 0xfffffffffffffff0u : 0; /* the sum wraps */
    const uint64_t signal = op == SHMEM_SIGNAL_ADD ? 0x1000u + round : 0x123456789abcdef0u + round;
    unsigned char *source = (unsigned char *)malloc((size_t)npes * SLOT);
    CHECK_OR_EXIT(source != NULL);
    check_poison(buffers->slots);
    for (int pe = 0; pe < npes; pe++)
        buffers->signals[pe] = start;
    shmem_barrier_all();
    for (int i = 0; i < npes; i++) {
        int pe = (me + i) % npes;
        unsigned char *mine = source + (size_t)pe * SLOT;
        check_fill(mine, len_bytes, me, pe, round);
        put(rma, ctx, (round & 2) != 0, buffers->slots + (size_t)me * SLOT, mine, n, &buffers->signals[me], signal, op,
            pe);
        if ((round & 2) == 0)
            memset(mine, 0xee, len_bytes);
    }
    for (int i = 0; i < npes; i++) {
        int pe = (me + npes - i) % npes;
        const unsigned char *slot = buffers->slots + (size_t)pe * SLOT;
        uint64_t seen = shmem_signal_wait_until(&buffers->signals[pe], SHMEM_CMP_NE, start);
        CHECK_NAMED(seen == start + signal, rma->name);
        CHECK_NAMED(check_filled(slot, len_bytes, pe, me, round), rma->name);
        CHECK_NAMED(check_all_bytes(slot + len_bytes, CHECK_POISON, SLOT - len_bytes), rma->name);
        CHECK_NAMED(shmem_signal_fetch(&buffers->signals[pe]) == start + signal, rma->name);
    }
    shmem_ctx_quiet(buffers->ctx);
    shmem_barrier_all();
    free(source);
}

static void test_forms(struct buffers *buffers)
{
    const size_t counts[] = {1, 0, 3, 100};
    for (int row = 0; row < RMA_ROWS; row++) {
        for (unsigned i = 0; i < 4; i++) {
            exchange(buffers, &rma_table[row], i, counts[(i + (unsigned)row) % 4], SHMEM_SIGNAL_SET);
            exchange(buffers, &rma_table[row], i, counts[(i + (unsigned)row + 1) % 4], SHMEM_SIGNAL_ADD);
        }
    }
}

/* Many senders add to one signal; nothing is lost, and signal_wait_until returns what satisfied it. */
static void test_adds(uint64_t *signal)
{
    const int times = check_times(2000);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    *signal = 0;
    shmem_barrier_all();
    for (int i = 0; i < times; i++) {
        for (int pe = 0; pe < npes; pe++) {
            if (i % 2)
                shmem_signal_add(signal, (uint64_t)me + 1, pe);
            else
                shmem_ctx_signal_add(ctx, signal, (uint64_t)me + 1, pe);
        }
    }
    uint64_t total = (uint64_t)times * (uint64_t)npes * ((uint64_t)npes + 1) / 2;
    uint64_t seen = 0;
    while (seen < total) {
        uint64_t more = shmem_signal_wait_until(signal, SHMEM_CMP_GT, seen);
        CHECK(more > seen);
        seen = more;
    }
    CHECK_EQ(seen, total);
    shmem_ctx_destroy(ctx);
    shmem_barrier_all();
    CHECK_EQ(shmem_signal_fetch(signal), total);
    shmem_barrier_all();
}

/* put_signal with ADD and signal_add are atomic with each other. */
static void test_mixed_adds(uint64_t *signal, unsigned char *slots)
{
    const int times = check_times(100);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    *signal = 0;
    shmem_barrier_all();
    unsigned char byte = (unsigned char)me;
    for (int i = 0; i < times; i++) {
        shmem_putmem_signal(slots + (size_t)me * SLOT, &byte, 1, signal, 1, SHMEM_SIGNAL_ADD, 0);
        shmem_signal_add(signal, 1, 0);
        shmem_putmem_signal_nbi(slots + (size_t)me * SLOT + 1, &byte, 1, signal, 1, SHMEM_SIGNAL_ADD, 0);
    }
    shmem_barrier_all();
    if (me == 0)
        CHECK_EQ(shmem_signal_fetch(signal), 3 * times * npes);
    shmem_barrier_all();
}

static void test_set(uint64_t *signals)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    memset(signals, 0, 2 * sizeof(uint64_t));
    shmem_barrier_all();
    const uint64_t wide = 0x8000000000000000u;
    shmem_signal_set(&signals[0], wide + (uint64_t)me, right);
    CHECK(shmem_signal_wait_until(&signals[0], SHMEM_CMP_GE, wide) == wide + (uint64_t)left); /* unsigned */
    shmem_ctx_signal_set(ctx, &signals[1], (uint64_t)me + 5, right);
    CHECK_EQ(shmem_signal_wait_until(&signals[1], SHMEM_CMP_EQ, (uint64_t)left + 5), left + 5);
    CHECK_EQ(shmem_signal_wait_until(&signals[1], SHMEM_CMP_LE, (uint64_t)left + 5), left + 5);
    CHECK_EQ(shmem_signal_wait_until(&signals[1], SHMEM_CMP_LT, UINT64_MAX), left + 5);
    shmem_ctx_destroy(ctx);
    shmem_barrier_all();
}

/* A stream of messages through two buffers, credits coming back as signals: large and small. */
static void test_stream(struct buffers *buffers, unsigned char *area, size_t len_bytes)
{
    enum { DEEP = 2 };
    const unsigned messages = (unsigned)check_times(len_bytes > 10000 ? 600 : 1000);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    uint64_t *arrived = &buffers->signals[0];
    uint64_t *credit = &buffers->signals[npes]; /* one more than senders */
    unsigned char *source = (unsigned char *)malloc(len_bytes);
    CHECK_OR_EXIT(source != NULL);
    *arrived = 0;
    *credit = DEEP;
    shmem_barrier_all();
    for (unsigned i = 1; i <= messages; i++) {
        shmem_signal_wait_until(credit, SHMEM_CMP_GE, i);
        check_fill(source, len_bytes, me, right, i);
        shmem_putmem_signal(area + (i % DEEP) * len_bytes, source, len_bytes, arrived, i, SHMEM_SIGNAL_SET, right);
        shmem_signal_wait_until(arrived, SHMEM_CMP_GE, i);
        CHECK_FILLED(area + (i % DEEP) * len_bytes, len_bytes, left, me, i);
        shmem_signal_add(credit, 1, left);
        shmem_fence();
    }
    shmem_barrier_all();
    free(source);
}

/* Data and signal lie in different kinds of memory in tests of global variables; here they are apart at least. */
static int test_main(void)
{
    CHECK_INIT();
    struct buffers buffers;
    size_t npes = (size_t)shmem_n_pes();
    buffers.slots = (unsigned char *)check_alloc(npes * SLOT);
    buffers.signals = (uint64_t *)check_alloc((npes + 2) * sizeof(uint64_t));
    CHECK_EQ(shmem_ctx_create(0, &buffers.ctx), 0);
    test_forms(&buffers);
    test_adds(buffers.signals);
    test_mixed_adds(buffers.signals, buffers.slots);
    test_set(buffers.signals);
    unsigned char *area = (unsigned char *)check_alloc(2 * 70001);
    const size_t sizes[] = {1, 7, 64, 4097, 70001};
    for (int i = 0; i < 5; i++)
        test_stream(&buffers, area, sizes[i]);
    check_free(area);
    shmem_ctx_destroy(buffers.ctx);
    check_free(buffers.signals);
    check_free(buffers.slots);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
