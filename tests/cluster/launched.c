/* SPDX-License-Identifier: MIT */
/* What the launcher tests start: `launched ACTION [arguments]`. Prints one line per fact for the scripts to look at.
 * Without OpenSHMEM calls before shmem_init, so that PE N means what the launcher meant. */
#define _GNU_SOURCE
#include <shmem.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST_PES = 64 };

static long seen[MOST_PES]; /* symmetric: [pe] = 1 + pe, written by that PE */
static long total;

/* Every PE writes its mark to every PE: sizes, ranks and paths are right when all marks are in. */
static int check_ranks(int expected)
{
    int me = shmem_my_pe(), npes = shmem_n_pes(), bad = 0;
    if (npes != expected || me < 0 || me >= npes || npes > MOST_PES) {
        fprintf(stderr, "launched: PE %d of %d, expected a PE of %d\n", me, npes, expected);
        return 1;
    }
    memset(seen, 0, sizeof seen);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        shmem_long_p(&seen[me], me + 1, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        bad += seen[pe] != pe + 1;
    if (bad)
        fprintf(stderr, "launched: PE %d of %d: %d marks are missing\n", me, npes, bad);
    else
        printf("pe %d of %d ok\n", me, npes);
    return bad != 0;
}

static int ranks(int expected)
{
    shmem_init();
    int bad = check_ranks(expected);
    shmem_finalize();
    return bad;
}

static int again(int expected)
{
    int bad = 0;
    for (int round = 0; round < 3; round++) {
        shmem_init();
        bad |= check_ranks(expected);
        long *word = (long *)shmem_calloc(1, sizeof *word);
        shmem_long_atomic_add(word, 1, 0);
        shmem_barrier_all();
        bad |= !word || (shmem_my_pe() == 0 && *word != shmem_n_pes());
        shmem_free(word);
        shmem_finalize();
    }
    return bad;
}

/* The library has taken none of the first descriptors, which were closed, for itself. */
static int stdio(void)
{
    struct stat of;
    shmem_init();
    for (int fd = 0; fd < 3; fd++)
        if (fstat(fd, &of) != 0 || !S_ISCHR(of.st_mode))
            return 1;
    shmem_finalize();
    return 0;
}

/* PE 0 counts its input, the others must have none. */
static int input(void)
{
    long bytes = 0;
    shmem_init();
    while (getchar() != EOF)
        bytes++;
    printf("pe %d read %ld bytes\n", shmem_my_pe(), bytes);
    shmem_finalize();
    return 0;
}

/* PE `pe` ends in its own way while the others wait for it. */
static void end(const char *how, const char *value, int pe)
{
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == pe) {
        if (!strcmp(how, "exit"))
            _exit(atoi(value));
        if (!strcmp(how, "global"))
            shmem_global_exit(atoi(value));
        raise(atoi(value));
    }
    shmem_barrier_all();
}

static int wait_for_ever(void)
{
    shmem_init();
    shmem_barrier_all();
    printf("pe %d ready\n", shmem_my_pe());
    fflush(stdout);
    shmem_long_wait_until(&total, SHMEM_CMP_NE, 0);
    shmem_finalize();
    return 0;
}

static void leave_at_once(int number)
{
    (void)number;
    _exit(0);
}

/* For held.c: PE 0 goes on when its stdin has a byte. "global": PE 2 ends the job with status 3. "late": PE 0 tells PMIx
 * that it leaves, and ends without an answer; PE 1 ends later. */
static int held(bool global)
{
    shmem_init();
    int me = shmem_my_pe();
    shmem_barrier_all();
    printf("pe %d ready\n", me);
    if (me == 0 && getchar() == EOF)
        return 1;
    shmem_barrier_all();
    if (global && me == 2)
        shmem_global_exit(3);
    if (global)
        shmem_barrier_all(); /* until PE 2 has ended the job */
    shmem_finalize();
    if (me == 0) {
        signal(SIGALRM, leave_at_once);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 300000}}, NULL);
    } else {
        usleep(1600000);
    }
    return 0;
}

enum { LIBRARIES = 6 };
static pthread_barrier_t together;

/* A library of this process that starts OpenSHMEM, or ends it, and knows of no other. */
static void *library(void *ends)
{
    int provided = -1, running = 0;
    pthread_barrier_wait(&together);
    if (ends != NULL) {
        shmem_finalize();
        return NULL;
    }
    int rc = shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    shmem_query_initialized(&running);
    return rc == 0 && provided == SHMEM_THREAD_MULTIPLE && running ? NULL : &together;
}

static int threads(int expected)
{
    int bad = 0, running = 1;
    pthread_barrier_init(&together, NULL, LIBRARIES);
    for (int ends = 0; ends < 2; ends++) {
        pthread_t thread[LIBRARIES];
        for (int i = 0; i < LIBRARIES; i++)
            pthread_create(&thread[i], NULL, library, ends ? &together : NULL);
        for (int i = 0; i < LIBRARIES; i++) {
            void *failed;
            pthread_join(thread[i], &failed);
            bad |= failed != NULL;
        }
        bad |= ends == 0 && check_ranks(expected);
    }
    shmem_query_initialized(&running);
    return bad || running;
}

static void clean_up(void) { shmem_finalize(); }

/* PE 0 starts this program once more, in the place that PE 0 has in the job. */
static int nested(const char *program)
{
    char command[4096];
    snprintf(command, sizeof command, "%s ranks 1", program);
    shmem_init();
    if (shmem_my_pe() == 0)
        printf("the inner program failed: %d\n", system(command) != 0);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

int main(int argc, char **argv)
{
    const char *action = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(action, "ranks"))
        return ranks(number);
    if (!strcmp(action, "again"))
        return again(number);
    if (!strcmp(action, "input"))
        return input();
    if (!strcmp(action, "stdio"))
        return stdio();
    if (!strcmp(action, "wait"))
        return wait_for_ever();
    if (!strcmp(action, "global") && argc == 2)
        return held(true);
    if (!strcmp(action, "late"))
        return held(false);
    if (!strcmp(action, "threads"))
        return threads(number);
    if (!strcmp(action, "atexit")) { /* before the library registers its own */
        atexit(clean_up);
        shmem_init();
        return check_ranks(number);
    }
    if (!strcmp(action, "nested"))
        return nested(argv[0]);
    if (!strcmp(action, "closed")) { /* descriptors of others, as careless daemons do */
        shmem_init();
        shmem_barrier_all();
        for (int fd = 3; fd < 200; fd++)
            close(fd);
        return 0;
    }
    if (argc == 4) {
        end(action, argv[2], atoi(argv[3]));
        return 0;
    }
    fprintf(stderr,
            "usage: launched ranks N | again N | threads N | atexit N | nested | closed | input | stdio | wait | global | "
            "late | exit|global|raise VALUE PE\n");
    return 2;
}
