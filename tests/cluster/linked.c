/* SPDX-License-Identifier: MIT */
/* A program whose global variables are symmetric, however it is linked (data_segment.sh): `linked`, `linked fork`,
 * `linked refused`. Prints "pe R of N ok". */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 3000 };

static long initialised[WORDS] = {1, 2, 3};
static long zeroed[WORDS];
static char huge[64 << 20]; /* untouched pages of .bss must cost nothing */
static const char *const pointers[] = {"relocated", "and read-only after it"};
long counter = 41;

static int failures;

static void expect(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "pe %d: not as expected: %s\n", shmem_my_pe(), what);
    failures++;
}

static long resident_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kb;
}

static void exchange(int me, int npes)
{
    int next = (me + 1) % npes, previous = (me + npes - 1) % npes;
    long mine[WORDS];
    expect(initialised[0] == 1 && initialised[2] == 3 && initialised[WORDS - 1] == 0, "initial values");
    expect(counter == 41 && strcmp(pointers[0], "relocated") == 0, "values in other sections");
    for (int i = 0; i < WORDS; i++)
        mine[i] = me * 10000L + i;
    shmem_barrier_all();
    shmem_long_put(zeroed, mine, WORDS, next);
    shmem_long_atomic_add(&counter, 1, next);
    shmem_char_p(&huge[sizeof(huge) / 2], (char)('a' + me), next);
    shmem_barrier_all();
    int wrong = 0;
    for (int i = 0; i < WORDS; i++)
        wrong += zeroed[i] != previous * 10000L + i;
    expect(wrong == 0, "words put by the previous PE");
    expect(counter == 42, "an atomic add of the previous PE");
    expect(huge[sizeof(huge) / 2] == (char)('a' + previous), "a byte in the middle of a large array");
    expect(shmem_ptr(&counter, next) != NULL, "shmem_ptr of a global variable");
    expect(resident_kb() < (long)(sizeof(huge) / 1024), "untouched pages stay untouched");
    shmem_barrier_all();
}

/* The child sees the values of the fork, and neither sees later stores of the other. */
static void fork_apart(int me)
{
    int status = -1;
    initialised[0] = 100 + me;
    pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        int same = initialised[0] == 100 + me && zeroed[7] != 5;
        initialised[1] = 77;
        _exit(same ? 0 : 1);
    }
    initialised[0] = 200 + me;
    zeroed[7] = 5;
    expect(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "the child kept the values that it had at fork");
    expect(initialised[1] == 2, "the child's store is its own");
    expect(system("exit 3") == 3 << 8, "system() runs");
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes();
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "refused") == 0)
        shmem_long_p(&counter, 1, 0); /* ends the job with a sentence */
    exchange(me, npes);
    if (strcmp(mode, "fork") == 0)
        fork_apart(me);
    if (failures == 0)
        printf("pe %d of %d ok\n", me, npes);
    fflush(stdout);
    shmem_finalize();
    return failures != 0;
}
