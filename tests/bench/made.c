/* SPDX-License-Identifier: MIT */
/* made [TEAMS [SLOTS]]: what it costs to make things, on each PE's clock; PE 0 prints medians and the least of the
 * slowest PEs as JSON lines. A team of all PEs from a list (shmemx_team_create), until it returns; memory of
 * shmemx_local_malloc that is mapped already; the first call of a slot on a stream, to its end. Then SLOTS slots in each
 * of TEAMS teams, at the same time alive, one all-reduce in each, whose sum is checked; 0 teams: no such thing. */
#include <shmem.h>
#include <shmemx.h>
#include <shmemx_coll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 201, TEAMS_MOST = 64 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "made: %s failed\n", what);
    shmem_global_exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of each repeat the slowest PE counts. `times` is symmetric. */
static void say(const char *what, double *times, int n)
{
    double *slowest = (double *)shmem_calloc((size_t)n, sizeof *slowest);
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, slowest, times, (size_t)n);
    qsort(slowest, (size_t)n, sizeof *slowest, by_size);
    if (shmem_my_pe() == 0)
        printf("{\"what\": \"%s\", \"pes\": %d, \"times\": %d, \"least_us\": %.2f, \"median_us\": %.2f}\n", what,
               shmem_n_pes(), n, slowest[0], slowest[n / 2]);
    fflush(stdout);
    shmem_free(slowest);
}

static shmem_team_t new_team(int tag)
{
    int *pes = (int *)malloc(sizeof *pes * (size_t)shmem_n_pes());
    shmem_team_t team = SHMEM_TEAM_INVALID;
    check(pes != NULL, "malloc");
    for (int i = 0; i < shmem_n_pes(); i++)
        pes[i] = shmem_n_pes() - 1 - i;
    check(shmemx_team_create(pes, shmem_n_pes(), (uint64_t)tag, &team) == 0, "shmemx_team_create");
    free(pes);
    return team;
}

static void measure_teams(double *times)
{
    for (int i = 0; i < REPEATS; i++) {
        shmem_barrier_all();
        double begun = now_us();
        shmem_team_t team = new_team(i);
        times[i] = now_us() - begun;
        shmem_team_destroy(team);
    }
    say("shmemx_team_create", times, REPEATS);
}

/* 1000 calls a repeat, of objects that fit what is there. */
static void measure_local(double *times)
{
    enum { CALLS = 1000 };
    static void *objects[CALLS];
    for (int i = 0; i < REPEATS; i++) {
        double begun = now_us();
        for (int k = 0; k < CALLS; k++)
            objects[k] = shmemx_local_malloc(1000, SHMEMX_HOST);
        times[i] = (now_us() - begun) / CALLS;
        for (int k = 0; k < CALLS; k++) {
            check(objects[k] != NULL, "shmemx_local_malloc");
            shmemx_local_free(objects[k]);
        }
        shmem_barrier_all();
    }
    say("shmemx_local_malloc, mapped", times + 1, REPEATS - 1);
}

static void sum(shmem_team_t team, int slot, int *dest, int *source)
{
    shmemx_coll_t coll = shmemx_coll_of(SHMEMX_ALLREDUCE, team, dest, source, 1, SHMEMX_INT32);
    coll.slot = slot;
    check(shmemx_coll_on_stream(&coll, NULL) == 0 && shmemx_stream_synchronize(NULL) == 0, "a collective on a stream");
}

/* All but the first, which starts the streams. */
static void measure_slots(double *times, int *dest, int *source)
{
    enum { SLOTS = 41 };
    shmem_team_t team = new_team(1);
    for (int i = 0; i < SLOTS; i++) {
        shmem_team_sync(team);
        double begun = now_us();
        sum(team, i, dest, source);
        times[i] = now_us() - begun;
    }
    say("first call of a slot", times + 1, SLOTS - 1);
    shmem_team_destroy(team);
}

static void fill_slots(int teams, int slots, int *dest, int *source)
{
    shmem_team_t all[TEAMS_MOST];
    int n = shmem_n_pes(), one = shmem_my_pe() + 1, result;
    for (int t = 0; t < teams; t++) {
        all[t] = new_team(t);
        for (int slot = 0; slot < slots; slot++)
            check(shmemx_slot_prepare(all[t], slot, 1) == 0, "shmemx_slot_prepare");
    }
    shmem_putmem(source, &one, sizeof one, shmem_my_pe());
    shmem_barrier_all();
    for (int t = 0; t < teams; t++)
        for (int slot = 0; slot < slots; slot++) {
            sum(all[t], slot, dest, source);
            shmem_getmem(&result, dest, sizeof result, shmem_my_pe());
            check(result == n * (n + 1) / 2, "the sum of a slot");
        }
    if (shmem_my_pe() == 0)
        printf("{\"what\": \"slots at once\", \"pes\": %d, \"teams\": %d, \"slots\": %d, \"sums\": \"right\"}\n", n,
               teams, slots);
    for (int t = 0; t < teams; t++)
        shmem_team_destroy(all[t]);
}

int main(int argc, char **argv)
{
    int teams = argc > 1 ? atoi(argv[1]) : 0, slots = argc > 2 ? atoi(argv[2]) : 256;
    if (teams < 0 || teams > TEAMS_MOST || slots < 1 || slots > 256) {
        fprintf(stderr, "usage: made [TEAMS [SLOTS]], at most %d and 256\n", TEAMS_MOST);
        return 2;
    }
    shmem_init();
    double *times = (double *)shmem_calloc(REPEATS, sizeof *times);
    measure_teams(times);
    measure_local(times);
    if (shmemx_device_init() == 0) {
        int *dest = (int *)shmemx_calloc(1, sizeof *dest, SHMEMX_DEVICE);
        int *source = (int *)shmemx_calloc(1, sizeof *source, SHMEMX_DEVICE);
        check(dest != NULL && source != NULL, "shmemx_calloc");
        measure_slots(times, dest, source);
        if (teams > 0)
            fill_slots(teams, slots, dest, source);
    }
    shmem_free(times);
    shmem_finalize();
    return 0;
}
