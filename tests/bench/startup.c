/* SPDX-License-Identifier: MIT */
/* startup [library [round]]: what starting and stopping costs, measured inside each process; every PE prints its own
 * JSON lines after the end, the reader takes the slowest PE. Few globals, so that resident memory is the library's.
 * Compiled with BENCH_BARE_PMIX it is the comparison: a PMIx client with one collecting fence and nothing else. */
#ifdef BENCH_BARE_PMIX
#include <pmix.h>
#else
#include <shmem.h>
#endif

#include "resident.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

#ifdef BENCH_BARE_PMIX
static pmix_proc_t self;

static void fail(const char *call, int status)
{
    fprintf(stderr, "startup: %s: %s\n", call, PMIx_Error_string(status));
    exit(1);
}
static void job_fence(void)
{
    pmix_info_t info;
    bool collect = true;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    int status = PMIx_Fence(NULL, 0, &info, 1);
    if (status != PMIX_SUCCESS)
        fail("PMIx_Fence", status);
}
static void job_start(void)
{
    int status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS)
        fail("PMIx_Init", status);
    job_fence();
}
static void job_size(int *pe, int *npes)
{
    pmix_proc_t job = self;
    pmix_value_t *value;
    job.rank = PMIX_RANK_WILDCARD;
    int status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        fail("PMIx_Get", status);
    *npes = (int)value->data.uint32;
    *pe = (int)self.rank;
    PMIX_VALUE_RELEASE(value);
}
static void job_barrier(void) { job_fence(); }
static void job_stop(void)
{
    int status = PMIx_Finalize(NULL, 0);
    if (status != PMIX_SUCCESS)
        fail("PMIx_Finalize", status);
}
#else
static void job_start(void) { shmem_init(); }
static void job_size(int *pe, int *npes) { *pe = shmem_my_pe(), *npes = shmem_n_pes(); }
static void job_barrier(void) { shmem_barrier_all(); }
static void job_stop(void) { shmem_finalize(); }
#endif

int main(int argc, char **argv)
{
    const char *library = argc > 1 ? argv[1] : "unknown";
    int round_number = argc > 2 ? atoi(argv[2]) : 0, pe, npes;
    double begin = now_ms();
    job_start();
    double started = now_ms();
    long after_init = resident_kib();
    job_size(&pe, &npes);
    double before_barrier = now_ms();
    job_barrier();
    double after_barrier = now_ms();
    long used = resident_kib();
    double stopping = now_ms();
    job_stop();
    double end = now_ms();
    const struct {
        const char *name, *unit;
        double value;
    } metric[] = {
        {"init_time", "ms", started - begin},         {"first_barrier_time", "ms", after_barrier - before_barrier},
        {"finalize_time", "ms", end - stopping},      {"init_to_finalize_time", "ms", end - begin},
        {"rss_after_init", "kB", (double)after_init}, {"rss_after_barrier", "kB", (double)used}};
    char text[2048];
    size_t len = 0;
    for (size_t i = 0; i < sizeof metric / sizeof metric[0]; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "{\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"lib\":\"%s\",\"npes\":%d,"
                                "\"round\":%d,\"pe\":%d}\n",
                                metric[i].name, metric[i].value, metric[i].unit, library, npes, round_number, pe);
    /* One write, so that the lines of several PEs do not mix. */
    return write(STDOUT_FILENO, text, len) == (ssize_t)len ? 0 : 1;
}
