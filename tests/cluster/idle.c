/* SPDX-License-Identifier: MIT */
/* idle SECONDS WAKES MIB: what PEs that have nothing to do take of a core over that time, and of memory. The last PE is
 * outside of the library (asleep in the program), all others wait for its signal. Prints CPU time, how often a thread of
 * the PE woke up in a second, and what the process has in memory. Ends with 1 where there are more than WAKES, more than
 * MIB, or a tenth of a core: many times what is right, since a busy machine makes CPU time longer. */
#include <shmem.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double resident_mib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    int n = f != NULL ? fscanf(f, "%*d %ld", &pages) : 0;
    if (f != NULL)
        fclose(f);
    return n == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20) : 1e9;
}

static double used_s(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) +
           1e-6 * (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 3;
    double most = argc > 2 ? atof(argv[2]) : 1000, most_mib = argc > 3 ? atof(argv[3]) : 100;
    struct rusage before, after;
    shmem_init();
    uint64_t *word = (uint64_t *)shmem_calloc(1, sizeof *word);
    int me = shmem_my_pe(), last = shmem_n_pes() - 1;
    if (word == NULL || last == 0)
        return 1;
    for (int pe = 0; pe <= last; pe++) /* connections are there */
        shmem_uint64_atomic_add(word, 1, pe);
    shmem_barrier_all();
    double begin_s = now_s();
    getrusage(RUSAGE_SELF, &before);
    if (me == last) {
        const struct timespec t = {seconds, 0};
        nanosleep(&t, NULL);
    } else {
        shmem_uint64_wait_until(word, SHMEM_CMP_GT, (uint64_t)last + 1);
    }
    getrusage(RUSAGE_SELF, &after);
    double mib = resident_mib();
    double took_s = now_s() - begin_s, wakes = (double)(after.ru_nvcsw - before.ru_nvcsw) / took_s;
    for (int pe = 0; me == last && pe < last; pe++)
        shmem_uint64_atomic_add(word, 1, pe);
    double percent = 100 * (used_s(&after) - used_s(&before)) / took_s;
    printf("pe %d %s: %.2f %% of a core, %.0f wakes a second, at most %.0f allowed, %.0f MiB, at most %.0f\n", me,
           me == last ? "outside" : "waiting", percent, wakes, most, mib, most_mib);
    shmem_barrier_all();
    shmem_finalize();
    return wakes > most || mib > most_mib || percent > 10;
}
