/* SPDX-License-Identifier: MIT */
/* The first handles, operations and collectives on streams of a program, made by several threads of each PE at the same
 * moment, each on a team of its own: what the first call of a device makes is made once, and what it finds out is right
 * for all. Then the first calls of the slots of one team, by threads that come in another order on each PE, while the
 * main thread is in collectives of the host on that team: members find each other by slot, not by order. */
#include "device_test.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 3, ROUNDS = 4, STEP_US = 2000, NELEMS = 1000, SLOT = 1, BLOCK = 64 };

struct pass_args {
    shmemd_t h;
    uint32_t *dest, *source;
};

/* The source of the member before. */
SHMEMD_KERNEL(pass_on, struct pass_args, a)
{
    int next = (shmemd_my_pe(a.h) + 1) % shmemd_n_pes(a.h);
    shmemd_uint32_put_block(a.h, a.dest, a.source, NELEMS, next);
    (void)shmemd_barrier_block(a.h);
}

struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    shmem_team_t team;
    uint32_t *source, *dest; /* symmetric: [NELEMS], [n_pes][NELEMS] */
    int number, round;
    struct check self;
};

static uint32_t value_of(const struct worker *w, int pe, int turn, int i)
{
    return (uint32_t)(((pe * THREADS + w->number) * TURNS + turn) * NELEMS + i);
}

static const size_t row = NELEMS * sizeof(uint32_t);

/* What PE `from` had in this turn. */
static bool check_row(const struct worker *w, const uint32_t *seen, int from, int turn)
{
    for (int i = 0; i < NELEMS; i++)
        if (!CHECK_EQ(seen[i], value_of(w, from, turn, i)))
            return false;
    return true;
}

static void fill(struct worker *w, uint32_t *host, int turn)
{
    for (int i = 0; i < NELEMS; i++)
        host[i] = value_of(w, check_self.pe, turn, i);
    device_write(w->source, host, row);
}

/* The kernel of a handle, then the same by calls on the stream. */
static void pass(struct worker *w, uint32_t *host, int turn, shmemx_stream_t stream)
{
    int right = (check_self.pe + 1) % check_self.npes, left = (check_self.pe + check_self.npes - 1) % check_self.npes;
    struct pass_args args;
    memset(&args, 0, sizeof(args));
    args.dest = w->dest;
    args.source = w->source;
    CHECK_OR_EXIT(shmemx_device_handle(w->team, SLOT, &args.h) == 0);
    DEVICE_LAUNCH(pass_on, 1, BLOCK, args, stream);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    device_read(host, w->dest, row);
    check_row(w, host, left, turn);
    CHECK_EQ(shmemx_barrier_on_stream(w->team, stream), 0);
    CHECK_EQ(shmemx_putmem_on_stream(w->dest + NELEMS, w->source, row, right, stream), 0);
    CHECK_EQ(shmemx_barrier_on_stream(w->team, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    device_read(host, w->dest + NELEMS, row);
    check_row(w, host, left, turn);
    CHECK_EQ(shmemx_barrier_on_stream(w->team, stream), 0);
}

static void gather(struct worker *w, uint32_t *host, int turn, shmemx_stream_t stream)
{
    CHECK_EQ(shmemx_uint32_fcollect_on_stream(w->team, w->dest, w->source, NELEMS, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    device_read(host, w->dest, row * (size_t)check_self.npes);
    for (int pe = 0; pe < check_self.npes; pe++)
        check_row(w, host + pe * NELEMS, pe, turn);
}

static void *work(void *argument)
{
    struct worker *w = (struct worker *)argument;
    shmemx_stream_t stream;
    check_self = w->self;
    CHECK_OR_EXIT(shmemx_stream_create(&stream) == 0);
    uint32_t *host = (uint32_t *)malloc(row * (size_t)check_self.npes);
    CHECK_OR_EXIT(host != NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        fill(w, host, turn);
        pthread_barrier_wait(w->start);
        if ((turn + w->number) % 2 == 0)
            pass(w, host, turn, stream);
        gather(w, host, turn, stream);
        CHECK_EQ(shmemx_barrier_on_stream(w->team, stream), 0); /* the next turn writes dests that have been read */
        CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    }
    free(host);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    w->self = check_self;
    return NULL;
}

static void run(struct worker *workers)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];
        w->number = i;
        w->start = &start;
        w->self = check_self;
        w->source = (uint32_t *)shmemx_malloc(row, SHMEMX_DEVICE);
        w->dest = (uint32_t *)shmemx_malloc(row * (size_t)(check_self.npes < 2 ? 2 : check_self.npes), SHMEMX_DEVICE);
        CHECK_OR_EXIT(w->source != NULL && w->dest != NULL);
        CHECK_OR_EXIT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, check_self.npes, NULL, 0, &w->team) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_OR_EXIT(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        check_self.failures += workers[i].self.failures;
    }
    shmem_barrier_all();
    for (int i = THREADS; i-- > 0;)
        shmem_team_destroy(workers[i].team);
    pthread_barrier_destroy(&start);
}

/* ---- the slots of one team ---- */

/* What makes the slot of this thread: alike on all PEs. */
static void first_of_slot(struct worker *w, shmemx_stream_t stream)
{
    shmemd_t handle;
    int slot = w->number;
    switch ((w->number + w->round) % THREADS) {
    case 0:
        CHECK_EQ(shmemx_slot_prepare(w->team, slot, 1), 0);
        break;
    case 1:
        CHECK_EQ(shmemx_device_handle(w->team, slot, &handle), 0);
        break;
    case 2:
        CHECK_EQ(shmemx_barrier_on_stream(w->team, stream), 0);
        break;
    default:
        break;
    }
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_FCOLLECT, w->team, w->dest, w->source, NELEMS, SHMEMX_UINT32);
    c.slot = slot;
    CHECK_EQ(shmemx_coll_on_stream(&c, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
}

/* PEs of odd numbers begin with the last thread. */
static void *work_on_slot(void *argument)
{
    struct worker *w = (struct worker *)argument;
    shmemx_stream_t stream;
    check_self = w->self;
    uint32_t *host = (uint32_t *)malloc(row * (size_t)check_self.npes);
    CHECK_OR_EXIT(host != NULL && shmemx_stream_create(&stream) == 0);
    fill(w, host, w->round);
    pthread_barrier_wait(w->start);
    usleep((useconds_t)((check_self.pe % 2 == 0 ? w->number : THREADS - 1 - w->number) * STEP_US));
    first_of_slot(w, stream);
    device_read(host, w->dest, row * (size_t)check_self.npes);
    for (int pe = 0; pe < check_self.npes; pe++)
        check_row(w, host + pe * NELEMS, pe, w->round);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    free(host);
    w->self = check_self;
    return NULL;
}

static void run_slots(struct worker *workers, int round)
{
    pthread_barrier_t start;
    shmem_team_t team;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    CHECK_OR_EXIT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, check_self.npes, NULL, 0, &team) == 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i].start = &start;
        workers[i].team = team;
        workers[i].round = round;
        workers[i].self.failures = 0;
        CHECK_OR_EXIT(pthread_create(&workers[i].thread, NULL, work_on_slot, &workers[i]) == 0);
    }
    pthread_barrier_wait(&start);
    for (int i = 0; i < THREADS; i++) {
        usleep((useconds_t)(check_self.pe % 3 * STEP_US));
        CHECK_EQ(shmem_team_sync(team), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        check_self.failures += workers[i].self.failures;
    }
    shmem_team_destroy(team);
    pthread_barrier_destroy(&start);
}

int main(void)
{
    struct worker workers[THREADS];
    int provided;
    CHECK_OR_EXIT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    check_started();
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return CHECK_SKIP("there is no device for every PE");
    }
    memset(workers, 0, sizeof(workers));
    run(workers);
    for (int round = 0; round < ROUNDS; round++)
        run_slots(workers, round);
    for (int i = THREADS; i-- > 0;) {
        shmemx_free(workers[i].dest);
        shmemx_free(workers[i].source);
    }
    return CHECK_DONE();
}
