/* SPDX-License-Identifier: MIT */
/* Thread levels, and SHMEM_THREAD_MULTIPLE in earnest: threads with contexts of their own, threads on shared contexts,
 * waits in one thread for another thread or PE, collectives of different threads on different teams.
 * usage: threads LEVEL (0 .. 3, a SHMEM_THREAD_ constant's place in the order) */
#include "../check.h"

#include <pthread.h>

enum { THREADS = 4, SYNCS = 330 };

static int times(void) { return 20 * check_times(15); }

struct worker {
    pthread_t thread;
    int index;
    struct check self; /* of the main thread: PE, seed */
    shmem_ctx_t shared_ctx;
    shmem_team_t team;
    long *counters; /* [THREADS] */
    long *flags;    /* [THREADS] */
    unsigned char *slots;
    long *dest, *source; /* [THREADS] */
    long *syncs;         /* [THREADS][SYNCS] pSync arrays */
    long *lock, *locked; /* one lock, and what it protects */
};

enum { SLOT = 600 };

static int run(struct worker *workers, void *(*body)(void *))
{
    int failures = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i].index = i;
        workers[i].self = check_self;
        if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0)
            shmem_global_exit(CHECK_FAILED);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].self.failures;
    }
    check_self.failures += failures;
    return failures;
}

/* A private context each: puts, gets and atomics of the threads do not disturb each other. */
static void *private_contexts(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx), 0);
    unsigned char *slot = worker->slots + worker->index * SLOT;
    unsigned char source[SLOT], got[SLOT];
    for (int i = 0; i < times(); i++) {
        size_t len_bytes = 1 + (size_t)i * 7 % SLOT;
        check_fill(source, len_bytes, me, worker->index, (unsigned)i);
        if (i % 2)
            shmem_ctx_putmem(ctx, slot, source, len_bytes, right);
        else
            shmem_ctx_putmem_nbi(ctx, slot, source, len_bytes, right);
        shmem_ctx_quiet(ctx);
        shmem_ctx_getmem(ctx, got, slot, len_bytes, right);
        CHECK_BYTES(got, source, len_bytes);
        for (int pe = 0; pe < npes; pe++)
            shmem_ctx_long_atomic_inc(ctx, &worker->counters[worker->index], pe);
        (void)shmem_ctx_long_atomic_fetch_add(ctx, &worker->counters[0], 0, right);
    }
    shmem_ctx_destroy(ctx);
    worker->self = check_self;
    return NULL;
}

/* One context for all threads, the default one in every second thread. */
static void *shared_contexts(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int npes = shmem_n_pes();
    shmem_ctx_t ctx = worker->index % 2 ? worker->shared_ctx : SHMEM_CTX_DEFAULT;
    for (int i = 0; i < times(); i++) {
        for (int pe = 0; pe < npes; pe++)
            shmem_ctx_long_atomic_add(ctx, &worker->counters[0], 1, pe);
        shmem_ctx_t more = SHMEM_CTX_INVALID;
        if (i % 20 == 0) {
            CHECK_EQ(shmem_ctx_create(0, &more), 0);
            shmem_ctx_long_atomic_inc(more, &worker->counters[1], 0);
            shmem_ctx_destroy(more);
        }
        shmem_ctx_fence(ctx);
    }
    shmem_ctx_quiet(ctx);
    worker->self = check_self;
    return NULL;
}

/* The quiets of other threads on the same context take nothing from this one's. */
static void *shared_quiets(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int right = (shmem_my_pe() + 1) % shmem_n_pes(), i = 0, gets = check_times(5000);
    long *dest = &worker->dest[worker->index];
    do {
        *dest = -1;
        shmem_long_get_nbi(dest, &worker->source[worker->index], 1, right);
        shmem_quiet();
    } while (CHECK_EQ(*(volatile long *)dest, THREADS * right + worker->index) && ++i < gets);
    worker->self = check_self;
    return NULL;
}

/* Thread i of this PE with thread i of the next: a wait blocks the calling thread only. */
static void *ping_pong(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    for (long round = 1; round <= check_times(60); round++) {
        shmem_long_atomic_set(&worker->flags[worker->index], round, (me + 1) % npes);
        shmem_long_wait_until(&worker->flags[worker->index], SHMEM_CMP_GE, round);
        /* And with another thread of this PE, through an atomic on itself. */
        int other = worker->index ^ 1;
        shmem_long_atomic_set(&worker->flags[THREADS + other], round, me);
        shmem_long_wait_until(&worker->flags[THREADS + worker->index], SHMEM_CMP_GE, round);
    }
    worker->self = check_self;
    return NULL;
}

/* A team for each thread: collectives at the same time. */
static void *collectives(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int n = shmem_team_n_pes(worker->team);
    int me = shmem_team_my_pe(worker->team);
    long *source = &worker->source[worker->index];
    long *dest = &worker->dest[worker->index];
    for (long round = 0; round < check_times(60); round++) {
        *source = round + me + worker->index;
        CHECK_EQ(shmem_long_sum_reduce(worker->team, dest, source, 1), 0);
        CHECK_EQ(*dest, n * (round + worker->index) + n * (n - 1L) / 2);
        CHECK_EQ(shmem_team_sync(worker->team), 0);
    }
    worker->self = check_self;
    return NULL;
}

/* The same active set in all threads at the same time: pSync tells the calls apart, and there are more of these than
 * there are places for sequences of collectives. PE 0 runs ahead of the others where it may. */
static void *active_sets(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int me = shmem_my_pe(), npes = shmem_n_pes();
    long *source = &worker->source[worker->index], *dest = &worker->dest[worker->index];
    for (long i = 0; i < check_times(SYNCS); i++) {
        long *sync = worker->syncs + (worker->index * SYNCS + i) * SHMEM_BCAST_SYNC_SIZE;
        *source = 1000 * i + worker->index + me;
        *dest = -1;
        shmem_barrier(0, 0, npes, sync);
        shmem_broadcast64(dest, source, 1, npes - 1, 0, 0, npes, sync);
        CHECK_EQ(*dest, me != npes - 1 ? 1000 * i + worker->index + npes - 1 : -1);
        shmem_barrier(0, 0, npes, sync);
    }
    worker->self = check_self;
    return NULL;
}

/* A lock keeps the threads of one PE apart as it keeps PEs apart. */
static void *one_lock(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    for (int i = 0; i < times() / 10; i++) {
        usleep((useconds_t)(10 * worker->index + 5 * i)); /* while another thread of this PE holds it */
        if (i % 3 != 0)
            shmem_set_lock(worker->lock);
        else
            while (shmem_test_lock(worker->lock) != 0)
                check_pause();
        long value = shmem_long_g(worker->locked, 0);
        usleep(200); /* the others come, and have to wait */
        shmem_long_p(worker->locked, value + 1, 0);
        shmem_clear_lock(worker->lock);
    }
    worker->self = check_self;
    return NULL;
}

static void test_active_sets_and_locks(struct worker *workers)
{
    long *syncs = (long *)check_alloc(THREADS * SYNCS * SHMEM_BCAST_SYNC_SIZE * sizeof(long));
    long *lock = (long *)check_alloc(sizeof(long)), *locked = (long *)check_alloc(sizeof(long));
    for (int i = 0; i < THREADS * SYNCS * SHMEM_BCAST_SYNC_SIZE; i++)
        syncs[i] = SHMEM_SYNC_VALUE;
    *lock = *locked = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i].syncs = syncs;
        workers[i].lock = lock;
        workers[i].locked = locked;
    }
    shmem_barrier_all();
    run(workers, active_sets);
    run(workers, one_lock);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(locked, 0), (long)THREADS * (times() / 10) * shmem_n_pes());
    shmem_barrier_all();
    check_free(locked);
    check_free(lock);
    check_free(syncs);
}

static void test_multiple(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    struct worker workers[THREADS];
    memset(workers, 0, sizeof(workers));
    long *counters = (long *)check_alloc(THREADS * sizeof(long));
    long *flags = (long *)check_alloc(2 * THREADS * sizeof(long));
    long *source = (long *)check_alloc(THREADS * sizeof(long));
    long *dest = (long *)check_alloc(THREADS * sizeof(long));
    unsigned char *slots = (unsigned char *)check_alloc(THREADS * SLOT);
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    memset(counters, 0, THREADS * sizeof(long));
    memset(flags, 0, 2 * THREADS * sizeof(long));
    for (int i = 0; i < THREADS; i++) {
        workers[i].shared_ctx = ctx;
        workers[i].counters = counters;
        workers[i].flags = flags;
        workers[i].slots = slots;
        workers[i].source = source;
        workers[i].dest = dest;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, i % 2 ? 0 : npes - 1, i % 2 ? 1 : -1, npes, NULL, 0,
                                          &workers[i].team),
                 0);
    }
    shmem_barrier_all();
    run(workers, private_contexts);
    shmem_barrier_all();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(shmem_long_atomic_fetch(&counters[i], me), (long)times() * npes);
    shmem_barrier_all();
    memset(counters, 0, THREADS * sizeof(long));
    shmem_barrier_all();
    run(workers, shared_contexts);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_atomic_fetch(&counters[0], me), (long)times() * THREADS * npes);
    if (me == 0)
        CHECK_EQ(shmem_long_atomic_fetch(&counters[1], me), (long)times() / 20 * THREADS * npes);
    for (int i = 0; i < THREADS; i++)
        source[i] = (long)THREADS * me + i;
    shmem_barrier_all();
    run(workers, shared_quiets);
    shmem_barrier_all();
    run(workers, ping_pong);
    shmem_barrier_all();
    run(workers, collectives);
    shmem_barrier_all();
    test_active_sets_and_locks(workers);
    for (int i = 0; i < THREADS; i++)
        shmem_team_destroy(workers[i].team);
    shmem_ctx_destroy(ctx);
    check_free(slots);
    check_free(dest);
    check_free(source);
    check_free(flags);
    check_free(counters);
}

/* SERIALIZED: another thread than the one of init calls, one at a time. */
static void *one_thread(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int npes = shmem_n_pes();
    int level = -1;
    shmem_query_thread(&level);
    CHECK(level >= SHMEM_THREAD_SERIALIZED);
    long *object = (long *)shmem_calloc(1, sizeof(long)); /* of the PE as a whole */
    CHECK_OR_EXIT(object != NULL);
    shmem_long_p(object, 9 + shmem_my_pe(), (shmem_my_pe() + 1) % npes);
    shmem_barrier_all();
    CHECK_EQ(*object, 9 + (shmem_my_pe() + npes - 1) % npes);
    shmem_free(object);
    worker->self = check_self;
    return NULL;
}

static void test_serialized(void)
{
    struct worker worker;
    memset(&worker, 0, sizeof(worker));
    for (int i = 0; i < 3; i++) {
        worker.self = check_self;
        if (pthread_create(&worker.thread, NULL, one_thread, &worker) != 0)
            shmem_global_exit(CHECK_FAILED);
        pthread_join(worker.thread, NULL);
        check_self.failures += worker.self.failures;
    }
}

int main(int argc, char **argv)
{
    const int levels[] = {SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE};
    int requested = levels[(argc > 1 ? atoi(argv[1]) : 3) & 3];
    int provided = -1;
    int level = -2;
    if (shmem_init_thread(requested, &provided) != 0) {
        fprintf(stderr, "threads: shmem_init_thread failed\n");
        return CHECK_FAILED;
    }
    check_started();
    CHECK(provided >= SHMEM_THREAD_SINGLE && provided <= SHMEM_THREAD_MULTIPLE);
#ifndef CHECK_FOREIGN
    CHECK(provided >= requested); /* all levels are there */
#endif
    shmem_query_thread(&level);
    CHECK_EQ(level, provided);
    if (provided >= SHMEM_THREAD_SERIALIZED)
        test_serialized();
    if (provided == SHMEM_THREAD_MULTIPLE)
        test_multiple();
    return CHECK_DONE();
}
