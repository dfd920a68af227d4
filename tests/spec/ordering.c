/* SPDX-License-Identifier: MIT */
/* shmem_fence, shmem_quiet, shmem_pe_quiet, shmem_barrier_all as litmus tests: a reader that sees a flag must see what
 * was issued before it, for every kind of operation in front of the fence and after it. */
#include "../check.h"

enum { WORDS = 515 };

enum kind { PUT, PUT_NBI, P, IPUT, SET, ADD, STORE_PTR, KINDS };

struct area {
    long data[WORDS];
    long flag;
    uint64_t signal;
};

/* Fewer where each word is a message. Equal on all PEs: every PE has a peer without pointer, or none has. */
static int rounds(struct area *area)
{
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (shmem_ptr(area, pe) == NULL)
            return 16;
    return 60;
}

static void write_data(shmem_ctx_t ctx, enum kind kind, long *data, const long *values, int pe)
{
    long *there = (long *)shmem_ptr(data, pe);
    switch (kind) {
    case PUT:
        shmem_ctx_long_put(ctx, data, values, WORDS, pe);
        break;
    case PUT_NBI:
        shmem_ctx_long_put_nbi(ctx, data, values, WORDS, pe);
        break;
    case P:
        for (int i = 0; i < WORDS; i++)
            shmem_ctx_long_p(ctx, &data[i], values[i], pe);
        break;
    case IPUT:
        shmem_ctx_long_iput(ctx, data, values, 1, 1, WORDS, pe);
        break;
    case SET:
        for (int i = 0; i < WORDS; i++)
            shmem_ctx_long_atomic_set(ctx, &data[i], values[i], pe);
        break;
    case ADD:
        /* Adding to what the round before left: it was one less. */
        for (int i = 0; i < WORDS; i++)
            shmem_ctx_long_atomic_add(ctx, &data[i], 1, pe);
        break;
    default:
        if (there == NULL)
            shmem_ctx_long_put(ctx, data, values, WORDS, pe);
        else
            memcpy(there, values, WORDS * sizeof(long));
    }
}

static void raise_flag(shmem_ctx_t ctx, enum kind kind, struct area *area, long round, int pe)
{
    switch (kind) {
    case PUT:
        shmem_ctx_long_put(ctx, &area->flag, &round, 1, pe);
        break;
    case SET:
        shmem_ctx_long_atomic_set(ctx, &area->flag, round, pe);
        break;
    case ADD:
        shmem_ctx_long_atomic_inc(ctx, &area->flag, pe);
        break;
    default:
        shmem_ctx_long_p(ctx, &area->flag, round, pe);
    }
}

/* One writer, the right neighbour reads; the reader answers through the writer's signal before the next round. */
static void litmus(struct area *area, shmem_ctx_t ctx, enum kind kind, enum kind flag_kind, bool with_quiet)
{
    const int n_rounds = rounds(area);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    char words[64];
    long values[WORDS];
    snprintf(words, sizeof(words), "data kind %d, flag kind %d, %s", (int)kind, (int)flag_kind,
             with_quiet ? "quiet" : "fence");
    memset(area, 0, sizeof(*area));
    shmem_barrier_all();
    for (long round = 1; round <= n_rounds; round++) {
        for (int i = 0; i < WORDS; i++)
            values[i] = round;
        write_data(ctx, kind, area->data, values, right);
        if (with_quiet)
            shmem_ctx_quiet(ctx);
        else
            shmem_ctx_fence(ctx);
        raise_flag(ctx, flag_kind, area, round, right);
        if (round % 2 != 0) {
            shmem_long_wait_until(&area->flag, SHMEM_CMP_GE, round);
        } else {
            while (!shmem_long_test(&area->flag, SHMEM_CMP_GE, round))
                check_pause();
        }
        int stale = 0;
        for (int i = 0; i < WORDS; i++)
            stale += area->data[i] != round;
        CHECK_EQ_NAMED(stale, 0, words);
        shmem_signal_set(&area->signal, (uint64_t)round, left);
        CHECK_EQ(shmem_signal_wait_until(&area->signal, SHMEM_CMP_GE, (uint64_t)round), round);
        shmem_ctx_quiet(ctx); /* put_nbi: the values are used again */
    }
    shmem_barrier_all();
}

/* Quiet makes a put visible to everybody: PE 0 puts to PE 1, quiets, tells the last PE, which gets from PE 1. */
static void test_quiet_to_third(struct area *area)
{
    const int n_rounds = rounds(area);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int middle = npes > 1 ? 1 : 0;
    int last = npes - 1;
    long got[WORDS];
    memset(area, 0, sizeof(*area));
    shmem_barrier_all();
    for (long round = 1; round <= n_rounds; round++) {
        if (me == 0) {
            for (int i = 0; i < WORDS; i++)
                got[i] = round;
            shmem_long_put_nbi(area->data, got, WORDS, middle);
            shmem_quiet();
            shmem_long_atomic_set(&area->flag, round, last);
        }
        if (me == last) {
            shmem_long_wait_until(&area->flag, SHMEM_CMP_EQ, round);
            shmem_long_get(got, area->data, WORDS, middle);
            for (int i = 0; i < WORDS; i++)
                if (!CHECK_EQ(got[i], round))
                    break;
        }
        shmem_barrier_all();
    }
}

/* Quiet towards some PEs only. */
static void test_pe_quiet(struct area *area)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int *targets = (int *)malloc((size_t)npes * sizeof(int));
    long values[WORDS];
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_OR_EXIT(targets != NULL);
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    shmem_pe_quiet(NULL, 0);
    shmem_pe_quiet(targets, 0);
    for (long round = 1; round <= 20; round++) {
        size_t n = 0;
        shmem_barrier_all();
        for (int i = 0; i < WORDS; i++)
            values[i] = 1000 * round + me;
        for (int pe = 0; pe < npes; pe++)
            if ((pe + round) % 2 == 0)
                targets[n++] = pe;
        shmem_ctx_t with = round % 2 ? SHMEM_CTX_DEFAULT : ctx;
        for (size_t i = 0; i < n; i++)
            shmem_ctx_long_put_nbi(with, &area->data[me], values, 1, targets[i]);
        if (with == SHMEM_CTX_DEFAULT)
            shmem_pe_quiet(targets, n);
        else
            shmem_ctx_pe_quiet(with, targets, n);
        shmem_sync_all();
        for (int pe = 0; (me + round) % 2 == 0 && pe < npes; pe++)
            CHECK_EQ(area->data[pe], 1000 * round + pe);
    }
    shmem_barrier_all();
    shmem_ctx_destroy(ctx);
    free(targets);
}

/* A nonblocking get is complete after quiet, pe_quiet or barrier_all. */
static void test_get_completion(struct area *area)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    long got[WORDS];
    for (int i = 0; i < WORDS; i++)
        area->data[i] = 7 * me + i;
    shmem_barrier_all();
    for (int way = 0; way < 3; way++) {
        memset(got, 0xff, sizeof(got));
        shmem_long_get_nbi(got, area->data, WORDS, right);
        if (way == 0)
            shmem_quiet();
        else if (way == 1)
            shmem_pe_quiet(&right, 1);
        else
            shmem_barrier_all();
        for (int i = 0; i < WORDS; i++)
            CHECK_EQ(got[i], 7 * right + i);
    }
    shmem_barrier_all();
}

/* Message passing over three PEs: what was seen before a put is seen after it, too. */
static void test_transitive(struct area *area)
{
    const int n_rounds = rounds(area);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    memset(area, 0, sizeof(*area));
    shmem_barrier_all();
    for (long round = 1; round <= n_rounds; round++) {
        /* A token with one word for each PE goes once around; everybody adds its word on PE 0. */
        if (me == 0) {
            shmem_long_atomic_set(&area->data[0], round, 0);
            shmem_fence();
        } else {
            shmem_long_wait_until(&area->flag, SHMEM_CMP_EQ, round);
            for (int pe = 0; pe < me; pe++)
                CHECK_EQ(shmem_long_atomic_fetch(&area->data[pe], 0), round);
            shmem_long_atomic_set(&area->data[me], round, 0);
        }
        shmem_quiet();
        if (me + 1 < npes)
            shmem_long_p(&area->flag, round, me + 1);
        shmem_barrier_all();
    }
}

static void test_barrier_completes(struct area *area)
{
    const int n_rounds = rounds(area);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    const int right = (me + 1) % npes;
    const int left = (me + npes - 1) % npes;
    memset(area, 0, sizeof(*area));
    shmem_barrier_all();
    for (long round = 1; round <= n_rounds; round++) {
        const long value = 10 * round + me;
        shmem_long_put_nbi(&area->data[0], &value, 1, right);
        shmem_long_p(&area->data[1], value, right);
        shmem_long_atomic_add(&area->data[2], 1, right);
        shmem_barrier_all();
        CHECK_EQ(area->data[0], 10 * round + left);
        CHECK_EQ(area->data[1], 10 * round + left);
        CHECK_EQ(area->data[2], round);
        shmem_barrier_all();
    }
}

/* The reader stays out of the library until it sees the flag: what it then finds is the order of arrival, not what its
 * own calls have let in. */
static void look_for(const long *flag, long value)
{
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value) /* pairs with the release of p and atomics */
        check_pause();
}

/* Atomics that need the target's processor, a fence, a put that needs only its memory; and the other way round. */
static void test_fence_of_atomics(struct area *area)
{
    enum { MANY = 40 };
    const int n_rounds = rounds(area);
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    memset(area, 0, sizeof(*area));
    shmem_barrier_all();
    for (long round = 1; round <= n_rounds; round++) {
        if (round % 2 != 0) {
            for (int i = 0; i < MANY; i++)
                shmem_long_atomic_add(&area->data[i], 2, right);
            shmem_fence();
            shmem_long_p(&area->flag, round, right);
        } else {
            for (int i = 0; i < MANY; i++)
                shmem_long_p(&area->data[MANY + i], round, right);
            shmem_fence();
            shmem_long_atomic_set(&area->flag, round, right);
        }
        shmem_quiet(); /* without it all this may stay under way as long as nobody is in the library */
        look_for(&area->flag, round);
        int stale = 0;
        for (int i = 0; i < MANY; i++) {
            stale += __atomic_load_n(&area->data[i], __ATOMIC_RELAXED) != (round + 1) / 2 * 2;
            stale += __atomic_load_n(&area->data[MANY + i], __ATOMIC_RELAXED) != round / 2 * 2;
        }
        CHECK_EQ_NAMED(stale, 0, round % 2 != 0 ? "atomics, fence, p" : "p, fence, atomic");
        shmem_signal_set(&area->signal, (uint64_t)round, left);
        CHECK_EQ(shmem_signal_wait_until(&area->signal, SHMEM_CMP_GE, (uint64_t)round), round);
    }
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    struct area *area = (struct area *)check_alloc(sizeof(*area));
    const enum kind of_processes[] = {P, PUT, SET, ADD};
    const enum kind of_threads[] = {P, SET, ADD, SET}; /* a put is no atomic store: TSan is right to call it a race */
    const enum kind *flags = CHECK_PES_ARE_THREADS ? of_threads : of_processes;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx), 0);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int f = 0; f < 4; f++)
            litmus(area, (kind + f) % 2 ? ctx : SHMEM_CTX_DEFAULT, (enum kind)kind, flags[f], (kind + f / 2) % 2 != 0);
    }
    shmem_ctx_destroy(ctx);
    test_fence_of_atomics(area);
    test_quiet_to_third(area);
    test_pe_quiet(area);
    test_get_completion(area);
    test_transitive(area);
    test_barrier_completes(area);
    check_free(area);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
