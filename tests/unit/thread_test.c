/* SPDX-License-Identifier: MIT */
/* A thread of the library has its name before it runs, and takes no signal of the program. */
#include "../check.h"

#include "../../bootstrap/thread.h"

#include <errno.h>
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* its holder keeps new threads from running */
static void *(*body)(void *);
static int fails_with;

static void *run_late(void *argument)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return body(argument);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    body = run;
    return fails_with != 0 ? fails_with : __real_pthread_create(thread, attributes, run_late, argument);
}

static void *read_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, (sigset_t *)mask);
    return NULL;
}

static bool same_masks(const sigset_t *a, const sigset_t *b)
{
    int differ = 0;
    for (int signal = 1; signal < SIGRTMAX; signal++)
        differ += sigismember(a, signal) != sigismember(b, signal);
    return differ == 0;
}

int main(void)
{
    static const int program[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPROF};
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    char name[16] = "";
    sigset_t before, after, inside;
    pthread_t thread;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&lock);
    CHECK_OR_EXIT(iso_thread_start(&thread, "isomer-of-test", read_mask, &inside) == 0);
    CHECK_EQ(pthread_getname_np(thread, name, sizeof name), 0);
    CHECK(strcmp(name, "isomer-of-test") == 0);
    pthread_mutex_unlock(&lock);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (unsigned i = 0; i < sizeof program / sizeof program[0]; i++)
        CHECK_EQ(sigismember(&inside, program[i]), 1);
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
        CHECK_EQ(sigismember(&inside, own[i]), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(same_masks(&before, &after));

    fails_with = EAGAIN;
    CHECK_EQ(iso_thread_start(&thread, "isomer-none", read_mask, &inside), -EAGAIN);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(same_masks(&before, &after));
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
