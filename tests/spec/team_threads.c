/* SPDX-License-Identifier: MIT */
/* Threads of each PE make, use and destroy teams from lists at the same time: overlapping groups in no common order,
 * which only their tags tell apart. More threads than a PE may have in the call at once, too. */
#include "../check.h"

#include <pthread.h>

enum { THREADS = 4, CROWD = 12, ROUNDS = 60, PES_MOST = 16 };

struct worker {
    pthread_t thread;
    int index;
    struct check self; /* of the main thread: PE, seed */
    int *source, *dest;
};

static void check_works(shmem_team_t team, const int *pes, int n, struct worker *worker)
{
    *worker->source = check_self.pe + 1;
    for (int i = 0; i < n; i++)
        worker->dest[i] = -1;
    CHECK_EQ(shmem_team_n_pes(team), n);
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_int_fcollect(team, worker->dest, worker->source, 1), 0);
    for (int i = 0; i < n; i++)
        CHECK_EQ(worker->dest[i], pes[i] + 1);
    CHECK_EQ(shmem_team_sync(team), 0);
}

/* Thread i of all PEs draws the same lists, of PEs in any order. */
static void *make_teams(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    struct check_random random = check_random_stream(10 + (uint64_t)worker->index);
    for (int round = 0; round < ROUNDS; round++) {
        int all[PES_MOST], pes[PES_MOST], left = check_self.npes;
        int n = 1 + (int)check_random_below(&random, (size_t)left);
        bool member = false;
        for (int i = 0; i < left; i++)
            all[i] = i;
        for (int i = 0; i < n; i++) {
            size_t at = check_random_below(&random, (size_t)left);
            pes[i] = all[at];
            all[at] = all[--left];
            member = member || pes[i] == check_self.pe;
        }
        shmem_team_t team;
        if (!member || !CHECK_EQ(shmemx_team_create(pes, n, (uint64_t)worker->index, &team), 0))
            continue;
        check_works(team, pes, n, worker);
        shmem_team_destroy(team);
    }
    worker->self = check_self;
    return NULL;
}

/* Each thread of a crowd makes one team of all PEs; PEs start their threads in opposite orders. */
static void *make_one(void *argument)
{
    struct worker *worker = (struct worker *)argument;
    check_self = worker->self;
    check_self.failures = 0;
    int pes[PES_MOST];
    shmem_team_t team;
    for (int i = 0; i < check_self.npes; i++)
        pes[i] = (i + worker->index) % check_self.npes;
    if (CHECK_EQ(shmemx_team_create(pes, check_self.npes, 100 + (uint64_t)worker->index, &team), 0)) {
        check_works(team, pes, check_self.npes, worker);
        shmem_team_destroy(team);
    }
    worker->self = check_self;
    return NULL;
}

static void run(struct worker *workers, int n, bool backwards, void *(*body)(void *))
{
    for (int i = 0; i < n; i++) {
        struct worker *worker = &workers[backwards ? n - 1 - i : i];
        worker->self = check_self;
        CHECK_OR_EXIT(pthread_create(&worker->thread, NULL, body, worker) == 0);
    }
    int failures = check_self.failures;
    for (int i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        failures += workers[i].self.failures;
    }
    check_self.failures = failures;
}

static int test_main(void)
{
    struct worker workers[CROWD];
    int provided = -1;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0 || provided != SHMEM_THREAD_MULTIPLE)
        return CHECK_SKIP("no SHMEM_THREAD_MULTIPLE");
    check_started();
    int *source = (int *)check_alloc(CROWD * sizeof(int));
    int *dest = (int *)check_alloc(CROWD * PES_MOST * sizeof(int));
    for (int i = 0; i < CROWD; i++)
        workers[i] = (struct worker){.index = i, .source = &source[i], .dest = &dest[i * PES_MOST]};
    shmem_barrier_all();
    run(workers, THREADS, false, make_teams);
    shmem_barrier_all();
    run(workers, 8, check_self.pe % 2 != 0, make_one);
    shmem_barrier_all();
    check_free(dest);
    check_free(source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
