/* SPDX-License-Identifier: MIT */
/* Pairs of shmem_init and shmem_finalize: the last ones cost what the first ones cost. Counted in the processor time
 * of this process, which other programs on the machine hardly change; all goes through the launcher's PMIx. */
#include "../check.h"

#include <time.h>

enum { PAIRS = 480, PART = 120 };

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double run_part(void)
{
    double begin = processor_seconds();
    for (int i = 0; i < PART; i++) {
        shmem_init();
        shmem_finalize();
    }
    return processor_seconds() - begin;
}

int main(void)
{
    shmem_init(); /* what is loaded once */
    int me = shmem_my_pe();
    shmem_finalize();
    double first = run_part(), last = first;
    for (int i = PART; i < PAIRS; i += PART)
        last = run_part();
    if (me == 0)
        printf("%.3f ms of processor time for each of the first %d pairs, %.3f ms for the last\n", 1e3 * first / PART,
               (int)PART, 1e3 * last / PART);
    CHECK(last < 2 * first);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
