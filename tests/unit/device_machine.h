/* SPDX-License-Identifier: MIT */
/* PEs for tests of the in-kernel API without the host runtime: each a thread of this process that runs grids of fibers
 * of the CPU device, over heaps, worlds and teams laid out here by hand; everything is reached by pointer.
 * ThreadSanitizer sees all of it. SHMEM_TEST_SEED repeats a run, SHMEM_TEST_ROUNDS sets its length.
 * Included by the one source of a test program, which has no second machine: hence the static state. */
#ifndef DEVICE_MACHINE_H
#define DEVICE_MACHINE_H

#include "../../device/cpu/fiber.h"
#include "../check.h"

#include <shmem_device.h>

#include <pthread.h>

enum { PES = 4, BLOCKS = 3, JOBS = 24, REGION = 1024, GUARD = 64, SOURCES = JOBS };
/* Of each PE: a region for each job of each PE, then what is only read. Half of it is the device heap, the rest a
 * registered buffer. */
enum { WRITTEN = PES * JOBS * REGION, MEMORY = WRITTEN + SOURCES * REGION, HEAP = MEMORY / 2 };

struct run {
    pthread_t thread;
    struct fiber_grid grid;
    struct fibers *fibers; /* stacks, kept from run to run */
};

struct machine {
    char *memory; /* [PES][MEMORY] */
    char *model;
    struct isod_world world[PES];
    struct isod_team team[PES];
    struct isod_host host[PES];
    char *heaps[PES][PES]; /* of PE i: where member j's heap is */
    char *buffers[PES];
    int32_t world_of[PES];
    shmemd_t handle[PES];
    struct run runs[PES + 1]; /* the last one: on the calling thread */
};

static struct machine machine; /* of the one job that this process runs */

static char *memory_of(int pe) { return machine.memory + (size_t)pe * MEMORY; }
static inline char *model_of(int pe) { return machine.model + (size_t)pe * MEMORY; }

/* `turn`: member i is PE (i + turn) modulo PES; flat where that is a straight line. */
static void machine_lay_out(int turn, bool flat)
{
    for (int pe = 0; pe < PES; pe++) {
        struct isod_world *w = &machine.world[pe];
        struct isod_team *t = &machine.team[pe];
        shmemd_t *h = &machine.handle[pe];
        machine.world_of[pe] = (pe + turn) % PES;
        machine.buffers[pe] = memory_of(pe) + HEAP;
        w->my_pe = pe;
        w->n_pes = PES;
        w->n_segments = 2;
        w->host = &machine.host[pe];
        w->segments[0].base = memory_of(pe);
        w->segments[0].len = HEAP;
        w->segments[1].base = memory_of(pe) + HEAP;
        w->segments[1].len = MEMORY - HEAP;
        w->segments[1].peers = machine.buffers;
        t->my_pe = h->my_pe = (pe + PES - turn) % PES;
        t->n_pes = h->n_pes = PES;
        t->world_of = machine.world_of;
        t->heaps = machine.heaps[pe];
        for (int member = 0; member < PES; member++)
            machine.heaps[pe][member] = memory_of((member + turn) % PES);
        h->heap = memory_of(pe);
        h->heap_bytes = HEAP;
        h->flat = flat && turn == 0 ? machine.memory : NULL;
        h->flat_stride = MEMORY;
        h->team = t;
        h->world = w;
    }
}

/* ---- one grid on each PE, at the same time ---- */

static void *run_grid(void *argument)
{
    struct run *run = (struct run *)argument;
    if (run->fibers == NULL)
        run->fibers = iso_fibers_create();
    if (run->fibers == NULL || iso_fibers_run(run->fibers, &run->grid) != 0)
        abort();
    return NULL;
}

/* args: an array of PES structs of args_bytes. */
static void run_all(fiber_kernel kernel, const void *args, size_t args_bytes, struct check_random *random)
{
    struct run *runs = machine.runs;
    unsigned wave = check_random_below(random, 2) == 0 ? 32 : 64;
    unsigned threads = 1 + (unsigned)check_random_below(random, 150);
    for (int pe = 0; pe < PES; pe++) {
        runs[pe].grid.kernel = kernel;
        runs[pe].grid.args = (const char *)args + (size_t)pe * args_bytes;
        runs[pe].grid.blocks = BLOCKS;
        runs[pe].grid.threads = threads;
        runs[pe].grid.wave = wave;
        runs[pe].grid.seed = check_random_below(random, 2) == 0 ? 0 : check_random_next(random);
        if (pthread_create(&runs[pe].thread, NULL, run_grid, &runs[pe]) != 0)
            abort();
    }
    for (int pe = 0; pe < PES; pe++)
        pthread_join(runs[pe].thread, NULL);
}

/* One grid on the calling thread, which may then use checks. */
static inline void run_here(fiber_kernel kernel, const void *args, unsigned blocks, unsigned threads)
{
    struct fiber_grid grid = {kernel, args, blocks, threads, 32, 0};
    machine.runs[PES].grid = grid;
    run_grid(&machine.runs[PES]);
}

/* Rounds to run, and the seed of all. */
static unsigned machine_begin(void)
{
    const char *seed = getenv("SHMEM_TEST_SEED"), *rounds = getenv("SHMEM_TEST_ROUNDS");
    unsigned n = rounds != NULL ? (unsigned)atoi(rounds) : (unsigned)check_times(60);
    check_self.seed = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    printf("seed %llu, %u rounds\n", (unsigned long long)check_self.seed, n);
    machine.memory = (char *)aligned_alloc(64, (size_t)PES * MEMORY);
    machine.model = (char *)aligned_alloc(64, (size_t)PES * MEMORY);
    if (machine.memory == NULL || machine.model == NULL)
        abort();
    return n;
}
static int machine_end(void)
{
    for (int i = 0; i <= PES; i++)
        iso_fibers_destroy(machine.runs[i].fibers);
    free(machine.memory);
    free(machine.model);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
