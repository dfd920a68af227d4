/* SPDX-License-Identifier: MIT */
/* One PE of a fault test: `fault_victim SEED MILLISECONDS PE [early]` does random puts, atomics, barriers, collectives,
 * locks and waits without end until PE is killed by SIGKILL after that time, by a timer, so at any instruction. The
 * time counts from after shmem_init, or from the start of main if `early`. With PE < 0 no PE dies and the loop ends by
 * itself after 300 rounds. The sequence is equal on all PEs. */
#define _GNU_SOURCE
#include "../check.h"

enum { WORDS = 512, QUIET_ROUNDS = 300 };

static long lock;
static long flag;
static long block[WORDS];
static uint64_t state;

static unsigned next_random(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static void put_around(long *heap, long round)
{
    int peer = (int)next_random((unsigned)shmem_n_pes());
    shmem_long_put(heap, block, WORDS, peer);
    shmem_long_put_nbi(block, heap, WORDS / 2, peer);
    shmem_long_atomic_add(&heap[WORDS], round, peer);
    shmem_quiet();
}

static void pass_on(long round)
{
    int right = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_long_p(&flag, round, right);
    shmem_long_wait_until(&flag, SHMEM_CMP_GE, round);
}

static void take_lock(long *heap)
{
    shmem_set_lock(&lock);
    shmem_long_p(&heap[1], shmem_my_pe(), 0);
    shmem_clear_lock(&lock);
}

static void do_one(long *heap, long *target, long round)
{
    switch (next_random(7)) {
    case 0:
        shmem_barrier_all();
        break;
    case 1:
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, target, heap, 64);
        break;
    case 2:
        shmem_long_broadcast(SHMEM_TEAM_WORLD, target, heap, 128, (int)next_random((unsigned)shmem_n_pes()));
        break;
    case 3:
        take_lock(heap);
        break;
    case 4:
        pass_on(round);
        break;
    case 5:
        shmem_sync_all();
        break;
    default:
        put_around(heap, round);
    }
}

/* Before shmem_init; -1: not known. */
static int rank_of_launcher(void)
{
    const char *text = getenv("PMIX_RANK");
    if (!text)
        text = getenv("SHMEM_RANK");
    return text ? atoi(text) : -1;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    state = strtoull(argv[1], NULL, 0);
    long milliseconds = atol(argv[2]);
    int victim = atoi(argv[3]);
    bool early = argc > 4;
    if (early && rank_of_launcher() == victim)
        check_die_after(milliseconds);
    shmem_init();
    long *heap = (long *)shmem_calloc(WORDS + 1, sizeof *heap);
    long *target = (long *)shmem_calloc((size_t)WORDS, sizeof *target);
    if (!heap || !target)
        return 2;
    if (!early && shmem_my_pe() == victim)
        check_die_after(milliseconds);
    for (long round = 1; victim >= 0 || round <= QUIET_ROUNDS; round++)
        do_one(heap, target, round);
    shmem_free(target);
    shmem_free(heap);
    shmem_finalize();
    return 0;
}
