/* SPDX-License-Identifier: MIT */
/* Jobs that hang, for `isomer-info --job` to look at: `stuck late FILE` (PE 0 runs in user code until FILE is there),
 * `stuck stop FILE` (PE 1 stops itself), `stuck locks` (PE 0 and 1 each wait for the lock that the other one holds),
 * `stuck signal` (PE 1 waits for a signal that no PE sends).
 * Prints "pe R of N ok" at the end. */
#include <shmem.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : "";
    shmem_init();
    int me = shmem_my_pe();
    long *locks = (long *)shmem_calloc(2, sizeof(*locks));
    uint64_t *signal_word = (uint64_t *)shmem_calloc(1, sizeof(*signal_word));
    shmem_barrier_all();
    if (strcmp(mode, "late") == 0 && me == 0)
        while (access(file, F_OK) != 0)
            continue;
    if (strcmp(mode, "stop") == 0 && me == 1)
        raise(SIGSTOP);
    if (strcmp(mode, "locks") == 0 && me < 2) {
        shmem_set_lock(&locks[me]);
        usleep(300000);
        shmem_set_lock(&locks[1 - me]);
    }
    if (strcmp(mode, "signal") == 0 && me == 1)
        shmem_signal_wait_until(signal_word, SHMEM_CMP_EQ, 7);
    shmem_barrier_all();
    printf("pe %d of %d ok\n", me, shmem_n_pes());
    shmem_finalize();
    return 0;
}
