/* SPDX-License-Identifier: MIT */
/* Waits that last: `waits late S` (PE 0 comes S tenths of a second late to a barrier), `waits signal` (PE 1 waits for a
 * signal that PE 0 sends late), `waits collective`, `waits team S` (a team with a limit of its own), `waits freed` (a
 * registered buffer freed too early); `waits left CALL` (PE 1 ends, the others make one more call), `waits sessions N`
 * (all end and begin again); `waits lock S`, `waits stream S`, `waits returned S` (PE 1 holds a lock, waits for a
 * stream, returns from main). A PE that is late S tenths also stays away until the words of the next argument stand in
 * the file WAITS_SAID, the stderr of the job: so the report is there on a slow machine, too. Prints "pe R of N ok" at
 * the end. */
#include <shmem.h>
#include <shmemx.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int lines_with(const char *words)
{
    FILE *said = fopen(getenv("WAITS_SAID"), "r");
    char line[1024];
    int n = 0;
    while (said != NULL && fgets(line, sizeof(line), said) != NULL)
        n += strstr(line, words) != NULL;
    if (said != NULL)
        fclose(said);
    return n;
}

/* The script's time limit ends a job whose words do not come. */
static void await_words(const char *words, int times)
{
    while (words != NULL && lines_with(words) < times)
        usleep(10000);
}

static void stay_away(int tenths, const char *words, int times)
{
    usleep((useconds_t)tenths * 100000u);
    await_words(words, times);
}

static void one_more(const char *call, uint64_t *signal, int *sum, shmem_team_t team)
{
    if (strcmp(call, "malloc") == 0)
        (void)shmem_malloc(8);
    else if (strcmp(call, "reduce") == 0)
        shmem_int_sum_reduce(SHMEM_TEAM_WORLD, sum + 1, sum, 1);
    else if (strcmp(call, "team") == 0)
        shmem_team_sync(team);
    else if (strcmp(call, "signal") == 0)
        shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 7);
    else if (strcmp(call, "barrier") == 0)
        shmem_barrier_all();
}

/* The end of PE 1 pairs with the first barrier of the others. */
static void left(const char *call, uint64_t *signal, int *sum)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    if (shmem_my_pe() == 1)
        return;
    shmem_barrier_all();
    one_more(call, signal, sum, team);
}

/* PEs come to the end of a session at different times, and leave it while others are still inside. */
static void sessions(int n)
{
    for (int i = 0; i < n; i++) {
        shmem_init();
        if ((i + shmem_my_pe()) % 3 == 0)
            usleep(1000);
        shmem_finalize();
        shmem_finalize();
        shmem_init();
    }
}

/* PE 1 holds two locks for so long, of which another PE is the home of one at least. */
static void lock(int tenths, const char *words)
{
    long *locks = (long *)shmem_calloc(2, sizeof(*locks));
    for (int i = 0; i < 2; i++) {
        if (shmem_my_pe() == 1)
            shmem_set_lock(&locks[i]);
        shmem_barrier_all();
        if (shmem_my_pe() == 1)
            stay_away(tenths, words, i + 1);
        else
            shmem_set_lock(&locks[i]);
        shmem_clear_lock(&locks[i]);
        shmem_barrier_all();
    }
}

/* PE 0 comes late to a team whose waits are reported after 0.5 s. Before that, late to one that is never reported. */
static void team_of_all(int tenths, const char *words)
{
    shmem_team_t teams[2];
    for (int i = 0; i < 2; i++) {
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &teams[i]);
        if (shmemx_team_set_timeout(teams[i], i == 0 ? 0 : 0.5) != 0)
            exit(1);
        if (shmem_my_pe() == 0)
            stay_away(tenths, i == 0 ? NULL : words, 1);
        shmem_team_sync(teams[i]);
        if (i == 0 && lines_with("longer than") != 0)
            exit(1);
    }
}

/* PE 1 waits in a stream for PE 0, which comes late; the others wait in a barrier once its kernel has reported. */
static void stream(int tenths, const char *words)
{
    if (shmemx_device_init() != 0)
        exit(77);
    uint64_t *signal = (uint64_t *)shmemx_malloc(sizeof(*signal), SHMEMX_DEVICE), one = 1;
    shmemx_stream_t on = NULL;
    shmemx_stream_create(&on);
    shmem_barrier_all();
    if (shmem_my_pe() == 1) {
        shmemx_signal_wait_until_on_stream(signal, SHMEM_CMP_EQ, one, on);
        shmemx_stream_synchronize(on);
    }
    if (shmem_my_pe() == 0) {
        stay_away(tenths, words, 1);
        shmem_putmem(signal, &one, sizeof(one), 1);
    } else
        await_words("[pe 1] shmemx_signal_wait_until_on_stream: ", 1);
    shmem_barrier_all();
    shmemx_stream_destroy(on);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int tenths = argc > 2 ? atoi(argv[2]) : 20;
    const char *words = argc > 3 ? argv[3] : NULL;
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes();
    uint64_t *signal = (uint64_t *)shmem_calloc(1, sizeof(*signal));
    int *sum = (int *)shmem_calloc(4, sizeof(*sum));
    bool late = strcmp(mode, "late") == 0 || strcmp(mode, "collective") == 0 || strcmp(mode, "signal") == 0;
    if (me == 0 && late)
        stay_away(tenths, words, 1);
    if (strcmp(mode, "late") == 0)
        shmem_barrier_all();
    else if (strcmp(mode, "collective") == 0)
        shmem_int_sum_reduce(SHMEM_TEAM_WORLD, sum + 1, sum, 1);
    else if (strcmp(mode, "signal") == 0 && me == 0)
        shmem_signal_set(signal, 7, 1 % npes);
    else if (strcmp(mode, "signal") == 0 && me == 1)
        shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 7);
    else if (strcmp(mode, "freed") == 0) {
        void *buffer = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        shmemx_buffer_register(buffer, 8192, NULL);
        munmap(buffer, 8192);
        shmemx_buffer_unregister(buffer);
    } else if (strcmp(mode, "left") == 0)
        left(argc > 2 ? argv[2] : "", signal, sum);
    else if (strcmp(mode, "sessions") == 0)
        sessions(tenths);
    else if (strcmp(mode, "lock") == 0)
        lock(tenths, words);
    else if (strcmp(mode, "team") == 0)
        team_of_all(tenths, words);
    else if (strcmp(mode, "stream") == 0)
        stream(tenths, words);
    else if (strcmp(mode, "returned") == 0) {
        if (me == 1)
            return 0;
        stay_away(tenths, words, 1);
        shmem_barrier_all(); /* meets the end of PE 1 */
        shmem_barrier_all();
    }
    printf("pe %d of %d ok\n", me, npes);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
