/* SPDX-License-Identifier: MIT */
/* One way to end a job by shmem_global_exit; global_exit.sh runs them and looks at exit status, output and time.
 * usage: global_exit WHO STATUS; WHO is first, last, all, or waiting (PE 0 while the others wait for it); inside: no
 * shmem_global_exit, but exit() by a second thread of each PE while the first one is in barriers; handler: an error
 * that ends the job, with a handler. */
#include "../check.h"

#include <pthread.h>

/* At a moment of its own on each PE and in each run. */
static void *exit_soon(void *status)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep((useconds_t)((now.tv_nsec / 1000 + getpid() * 977) % 4000));
    exit((int)(intptr_t)status);
}

static void exit_inside(int status)
{
    int provided;
    pthread_t second;
    CHECK_OR_EXIT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    CHECK_OR_EXIT(pthread_create(&second, NULL, exit_soon, (void *)(intptr_t)status) == 0);
    for (;;)
        shmem_barrier_all();
}

/* As a framework's clean-up does, which knows of no global exit: the others are not there, and do not wait for it. */
static void say_good_bye(void)
{
    printf("atexit of pe %d\n", check_self.pe);
    shmem_finalize();
}

static void handle(const char *sentence, void *arg)
{
    printf("handled with %s: %s\n", (const char *)arg, sentence);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *who = argc > 1 ? argv[1] : "first";
    int status = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(who, "inside") == 0)
        exit_inside(status);
    shmem_init();
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    check_self.pe = me;
    long *cell = (long *)shmem_calloc(1, sizeof(long));
    atexit(say_good_bye);
    if (strcmp(who, "handler") == 0) {
        static char arg[] = "its argument";
        CHECK_EQ(shmemx_set_error_handler(handle, arg), 0);
        if (me == npes - 1)
            shmem_long_p(cell, 1, 99);
        for (;;)
            shmem_barrier_all();
    }
    bool mine = (strcmp(who, "first") == 0 && me == 0) || (strcmp(who, "last") == 0 && me == npes - 1) ||
                (strcmp(who, "waiting") == 0 && me == 0) || strcmp(who, "all") == 0;
    if (mine) {
        printf("pe %d leaves without a newline", me); /* still in the buffer of stdio */
        shmem_global_exit(status);
    }
    if (strcmp(who, "waiting") == 0)
        shmem_long_wait_until(cell, SHMEM_CMP_NE, 0);
    if (strcmp(who, "last") == 0)
        shmem_barrier_all();
    for (;;)
        sleep(1); /* computes, without a call of the library */
}
