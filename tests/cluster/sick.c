/* SPDX-License-Identifier: MIT */
/* Jobs that are sick, for profile.sh: `sick late` (PE 2 is late to each of 5 barriers), `sick hot` (all put to PE 1),
 * `sick grows` (all allocate 1 MiB more each round), `sick signal` (PE 2 signals late), `sick differs` (the last PE
 * reduces more than the others do, and all wait); `sick`: nothing but a start and an end. */
#include <shmem.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_US = 100000, ROUNDS = 5, BYTES = 1 << 20 };

static void late(void)
{
    usleep(shmem_my_pe() == 2 ? LATE_US : 0);
    shmem_barrier_all();
}

static void hot(char *block)
{
    shmem_putmem(block, block + BYTES / 2, 10, (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_putmem(block + 1000 * shmem_my_pe(), block + BYTES / 2, 1000, 1);
}

static void late_signal(uint64_t *signal, uint64_t round)
{
    if (shmem_my_pe() != 2) {
        shmem_signal_wait_until(signal, SHMEM_CMP_GE, round);
        return;
    }
    usleep(LATE_US);
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        shmem_uint64_atomic_set(signal, round, pe);
}

static void differs(long *cells)
{
    shmem_barrier_all();
    for (int i = 0; i < 3; i++)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cells, cells + 2048, 4);
    if (shmem_my_pe() == shmem_n_pes() - 1)
        shmem_team_sync(SHMEM_TEAM_WORLD);
    else
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cells, cells + 2048, 1024);
    shmem_barrier_all();
    shmem_barrier_all();
    sleep(60);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    shmem_init();
    char *block = (char *)shmem_calloc(1, BYTES);
    uint64_t *signal = (uint64_t *)shmem_calloc(1, sizeof *signal);
    if (block == NULL || signal == NULL)
        shmem_global_exit(1);
    if (strcmp(how, "differs") == 0)
        differs((long *)(void *)block);
    for (uint64_t i = 1; i <= ROUNDS; i++)
        if (strcmp(how, "late") == 0)
            late();
        else if (strcmp(how, "hot") == 0)
            hot(block);
        else if (strcmp(how, "signal") == 0)
            late_signal(signal, i);
        else if (strcmp(how, "grows") == 0 && shmem_malloc(BYTES) == NULL)
            shmem_global_exit(1);
    shmem_finalize();
    return EXIT_SUCCESS;
}
