/* SPDX-License-Identifier: MIT */
#include "cpu_fault.h"

#include "../../bootstrap/log.h"
#include "fiber.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

enum { N_SIGNALS = 2 };
static const int signals[N_SIGNALS] = {SIGSEGV, SIGBUS};
static struct sigaction before[N_SIGNALS];
static unsigned users;
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local const char *volatile doing;

/* The access is made again behind it, with the action from before. */
static void report_fault(int number, siginfo_t *info, void *context)
{
    struct fiber_place at;
    const char *why = info->si_code == SI_KERNEL ? "is none that memory can have"
                      : number == SIGBUS         ? "has no memory behind it: the system is out of it"
                                                 : "has no memory: a wrong pointer, or beyond all objects of a heap";
    (void)context;
    (void)sigaction(number, &before[number == SIGBUS], NULL);
    if (info->si_code <= 0) /* sent by a process */
        (void)raise(number);
    else if (doing != NULL)
        log_error("%s in a stream: address %p, which it accesses, %s", doing, info->si_addr, why);
    else if (!iso_fibers_at(info->si_addr, &at))
        return;
    else if (at.is_behind_stack)
        log_error("a kernel: block %u, thread %u: it used more than its %zu bytes of stack; large arrays may lie in "
                  "shared memory (SHMEMD_SHARED) or in a heap",
                  at.block, at.thread, at.stack_bytes);
    else if (info->si_code == SI_KERNEL)
        log_error("a kernel: block %u, thread %u: the address that it accesses %s", at.block, at.thread, why);
    else
        log_error("a kernel: block %u, thread %u: address %p, which it accesses, %s", at.block, at.thread,
                  info->si_addr, why);
}

void iso_cpu_faults_watch(void)
{
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = report_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    pthread_mutex_lock(&users_lock);
    for (int i = 0; users == 0 && i < N_SIGNALS; i++)
        (void)sigaction(signals[i], &ours, &before[i]);
    users++;
    pthread_mutex_unlock(&users_lock);
}

void iso_cpu_faults_leave(void)
{
    struct sigaction now;
    pthread_mutex_lock(&users_lock);
    users--;
    for (int i = 0; users == 0 && i < N_SIGNALS; i++) /* a handler that came later stays */
        if (sigaction(signals[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
            now.sa_sigaction == report_fault)
            (void)sigaction(signals[i], &before[i], NULL);
    pthread_mutex_unlock(&users_lock);
}

void iso_cpu_faults_stack(char *stack)
{
    stack_t has;
    const stack_t ours = {.ss_sp = stack, .ss_size = FAULT_STACK_BYTES};
    if (sigaltstack(NULL, &has) == 0 && (has.ss_flags & SS_DISABLE) != 0)
        (void)sigaltstack(&ours, NULL);
}

void iso_cpu_faults_in(const char *what) { doing = what; }
