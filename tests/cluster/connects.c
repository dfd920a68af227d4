/* SPDX-License-Identifier: MIT */
/* Connections are made once, whoever wants them at the same moment: several threads of every PE begin to use the same
 * peers by contexts of one group, on all PEs at once. Each pair of PEs of different nodes must have one queue pair for
 * each direction and group afterwards, and all data must be there. PEs on two nodes; elsewhere it is skipped. */
#include "../check.h"

#include <pthread.h>

enum { THREADS = 4, GROUPS = 4 };

/* As PE `pe` and thread `thread` write it at every other PE. */
static uint64_t value_of(int pe, int thread, int round)
{
    return (uint64_t)pe << 32 | (uint64_t)thread << 16 | (uint64_t)round | (uint64_t)1 << 60;
}

struct job {
    pthread_barrier_t start;
    uint64_t *words; /* [n_pes][THREADS] */
    int round;
};

struct thread {
    pthread_t id;
    struct job *job;
    int number;
    shmem_ctx_t ctx;
};

static uint64_t count_queue_pairs(bool *has_network)
{
    size_t len = shmemx_info_text(NULL, 0) + 256;
    char *text = (char *)malloc(len);
    CHECK_OR_EXIT(text != NULL);
    shmemx_info_text(text, len);
    const char *network = strstr(text, "network of PE");
    const char *at = network != NULL ? strstr(network, " queue_pairs ") : NULL;
    uint64_t count = at != NULL ? strtoull(at + strlen(" queue_pairs "), NULL, 10) : 0;
    *has_network = network != NULL;
    free(text);
    return count;
}

static void *act(void *arg)
{
    struct thread *t = (struct thread *)arg;
    int me = shmem_my_pe(), n = shmem_n_pes();
    pthread_barrier_wait(&t->job->start);
    for (int i = 1; i < n; i++) {
        uint64_t *word = t->job->words + (size_t)me * THREADS + (size_t)t->number;
        shmem_ctx_uint64_p(t->ctx, word, value_of(me, t->number, t->job->round), (me + i) % n);
    }
    shmem_ctx_quiet(t->ctx);
    return NULL;
}

/* THREADS contexts whose handles are GROUPS apart share the queue pairs; those between them stay unused. */
static void make_contexts(shmem_ctx_t all[THREADS * GROUPS])
{
    for (int i = 0; i < THREADS * GROUPS; i++)
        CHECK_OR_EXIT(shmem_ctx_create(0, &all[i]) == 0);
}

static void run_threads(struct job *job, const shmem_ctx_t *ctxs)
{
    struct thread threads[THREADS];
    pthread_barrier_init(&job->start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.job = job, .number = i, .ctx = ctxs[i * GROUPS]};
        CHECK_OR_EXIT(pthread_create(&threads[i].id, NULL, act, &threads[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    pthread_barrier_destroy(&job->start);
}

static void check_words(const struct job *job)
{
    for (int pe = 0; pe < check_self.npes; pe++)
        for (int i = 0; i < THREADS && pe != check_self.pe; i++)
            CHECK_EQ(job->words[pe * THREADS + i], value_of(pe, i, job->round));
}

/* The default context's own, whichever of them the barrier uses. */
static void sync_all(const struct job *job)
{
    for (int pe = 0; pe < check_self.npes; pe++)
        shmem_uint64_p(job->words + (size_t)check_self.pe * THREADS, 0, pe);
    shmem_barrier_all();
}

static int count_far(const void *symmetric)
{
    int far = 0;
    for (int pe = 0; pe < check_self.npes; pe++)
        far += shmem_ptr(symmetric, pe) == NULL;
    return far;
}

/* How many queue pairs it made. */
static uint64_t run_round(struct job *job, const shmem_ctx_t *ctxs)
{
    bool has_network;
    shmem_barrier_all();
    uint64_t before = count_queue_pairs(&has_network);
    shmem_barrier_all();
    run_threads(job, ctxs + job->round);
    shmem_barrier_all();
    check_words(job);
    return count_queue_pairs(&has_network) - before;
}

int main(void)
{
    int provided;
    uint64_t made = 0;
    bool has_network;
    shmem_ctx_t ctxs[THREADS * GROUPS];
    struct job job = {.round = 0};
    CHECK_OR_EXIT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    check_self.pe = shmem_my_pe();
    check_self.npes = shmem_n_pes();
    count_queue_pairs(&has_network);
    if (!has_network) {
        shmem_finalize();
        return CHECK_SKIP("needs PEs on two nodes");
    }
    job.words = (uint64_t *)shmem_calloc((size_t)check_self.npes * THREADS, 8);
    CHECK_OR_EXIT(job.words != NULL);
    make_contexts(ctxs);
    sync_all(&job);
    for (job.round = 0; job.round < GROUPS; job.round++)
        made += run_round(&job, ctxs);
    /* Ours and the others'; one group is the default context's, too, and was there. */
    CHECK_EQ(made, (GROUPS - 1) * 2 * count_far(job.words));
    shmem_barrier_all();
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
