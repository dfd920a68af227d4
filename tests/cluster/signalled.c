/* SPDX-License-Identifier: MIT */
/* The thread that began the job has ended, and signals with a handler come all the time: while PEs wait, each asks the
 * processes of the others whether they live, and a call that a signal interrupts is not a death. */
#define _GNU_SOURCE
#include "../check.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 10, LATE_US = 100000, TIMER_US = 50 };

static volatile sig_atomic_t n_signals;

static void on_alarm(int number)
{
    (void)number;
    n_signals++;
}

static void *begin(void *unused)
{
    int provided;
    (void)unused;
    CHECK_EQ(shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided), 0);
    return NULL;
}

/* Not one sleep: each signal would end it. */
static void be_late(void)
{
    struct timespec now, begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        check_pause();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < LATE_US);
}

int main(void)
{
    pthread_t thread;
    struct sigaction action;
    struct itimerval timer = {{0, TIMER_US}, {0, TIMER_US}}, none = {{0, 0}, {0, 0}};
    CHECK_OR_EXIT(pthread_create(&thread, NULL, begin, NULL) == 0 && pthread_join(thread, NULL) == 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        if (shmem_my_pe() == 0)
            be_late();
        shmem_barrier_all(); /* the others wait in it, and look who lives */
    }
    CHECK_EQ(setitimer(ITIMER_REAL, &none, NULL), 0);
    CHECK(n_signals > 0);
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
