/* SPDX-License-Identifier: MIT */
/* The processes: starting, signalling, collecting.
 * Each PE leads a process group of its own, dies with its oshrun (PR_SET_PDEATHSIG), and stays a zombie until the job
 * ends: so a signal to its group always reaches its own processes, never another one with a reused id. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- descriptors ---- */

/* PMIx opens a socket for every PE that connects and lets programs inherit it. */
enum { FILES_MOST = 65536 }; /* of our own, where close_range has no flag */

static int compare_numbers(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

void pes_note_files(struct job *job)
{
    DIR *list = opendir("/proc/self/fd");
    bool noted = list;
    for (struct dirent *entry; noted && (entry = readdir(list));) {
        int fd = atoi(entry->d_name);
        if (fd <= 2 || fd == dirfd(list))
            continue;
        int *more = (int *)realloc(job->inherited, ((size_t)job->n_inherited + 1) * sizeof *more);
        noted = more;
        if (more) {
            job->inherited = more;
            job->inherited[job->n_inherited++] = fd;
        }
    }
    if (list)
        closedir(list);
    if (!noted)
        job->n_inherited = -1;
    else if (job->n_inherited)
        qsort(job->inherited, (size_t)job->n_inherited, sizeof *job->inherited, compare_numbers);
}

static void hide_range(int first, int last)
{
    if (first > last || close_range((unsigned)first, (unsigned)last, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = first; fd <= last && fd < FILES_MOST; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* ---- start ---- */

struct launch {
    const struct job *job;
    char **argv, **environment;
    struct pe_streams streams;
    pid_t parent;
    const char *volatile failed; /* written by the child in our memory (vfork): the call that failed, and */
    volatile int error;          /* its errno */
};

static _Noreturn void give_up_pes(struct launch *launch, const char *call)
{
    launch->error = errno;
    launch->failed = call;
    _exit(STATUS_NOT_FOUND);
}

/* Runs in our memory until exec: changes nothing but `launch`. */
static _Noreturn void become_pe(struct launch *launch)
{
    const struct job *job = launch->job;
    setpgid(0, 0);
    if (job->options.part != PART_HEAD) /* the end of its stdin ends an agent: its oshrun has something to say then */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launch->parent) /* it died before the line above */
        _exit(STATUS_FAILED);
    const int from[3] = {launch->streams.in, launch->streams.out, launch->streams.err};
    for (int i = 0; i < 3; i++)
        if (from[i] >= 0 && dup2(from[i], i) < 0)
            give_up_pes(launch, "dup2");

    /* exec closes all descriptors that oshrun did not inherit. */
    int first = 3;
    for (int i = 0; i < job->n_inherited; i++) {
        hide_range(first, job->inherited[i] - 1);
        first = job->inherited[i] + 1;
    }
    if (job->n_inherited >= 0)
        hide_range(first, INT_MAX);

    setrlimit(RLIMIT_NOFILE, &job->file_limit);
    if (job->options.part != PART_HEAD && job->options.wdir && chdir(job->options.wdir))
        give_up_pes(launch, "chdir");
    watch_add(job, getpid()); /* before it may kill oshrun, and while SIGPIPE is blocked */
    sigprocmask(SIG_SETMASK, &job->caller_mask, NULL);
    execve(job->program, launch->argv, launch->environment);
    give_up_pes(launch, "execve");
}

static __attribute__((noinline)) pid_t spawn(struct launch *launch)
{
    pid_t pid = vfork(); /* fork would copy the page tables of the PMIx server for every PE */
    if (pid == 0)
        become_pe(launch);
    return pid;
}

int pes_start(struct job *job)
{
    for (int pe = 0; pe < job->options.npes; pe++) {
        struct launch launch = {.job = job, .argv = job->options.argv, .parent = getpid()};
        if (job->options.part == PART_HEAD)
            launch.argv = hosts_argv(job, pe);
        if (relay_streams(job, pe, &launch.streams))
            return STATUS_FAILED;
        launch.environment = job->options.part == PART_ALONE ? pmix_environment(job, pe) : hosts_environment(job, pe);
        pid_t pid = launch.environment ? spawn(&launch) : 0;
        int error = errno;
        if (launch.streams.out >= 0) /* the PE has these ends now */
            close(launch.streams.out);
        if (launch.streams.err >= 0)
            close(launch.streams.err);
        if (job->options.part == PART_HEAD) /* its own end; only when all writers are gone does the agent's stdin end */
            close(job->pes[pe].control);
        environment_free(launch.environment);
        if (pid > 0 && !launch.failed) {
            job->pes[pe].pid = pid;
            continue;
        }
        if (pid > 0)
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
        if (launch.failed)
            oshrun_say("PE %d: cannot run '%s': %s: %s", job->options.first_pe + pe, job->program, launch.failed,
                       strerror(launch.error));
        else if (pid < 0)
            oshrun_say("PE %d of %d: cannot start a process: %s", pe, job->options.npes, strerror(error));
        return launch.failed ? STATUS_NOT_EXECUTABLE : STATUS_FAILED;
    }
    return 0;
}

/* ---- life and end ---- */

int pes_collect(struct job *job)
{
    int running = 0;
    for (int i = 0; i < job->options.npes; i++) {
        struct pe *pe = &job->pes[i];
        if (!pe->pid || pe->ended)
            continue;
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_PID, (id_t)pe->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pe->pid) {
            running++;
            continue;
        }
        pe->ended = true;
        pe->killed = info.si_code != CLD_EXITED;
        pe->core_dumped = info.si_code == CLD_DUMPED;
        pe->status = info.si_status;
    }
    return running;
}

void pes_signal(struct job *job, int signal_number)
{
    if (job->options.part == PART_HEAD && signal_number != SIGKILL) {
        hosts_signal(job, signal_number);
        return;
    }
    for (int i = 0; i < job->options.npes; i++)
        if (job->pes[i].pid)
            kill(-job->pes[i].pid, signal_number);
}

void pes_finish(struct job *job)
{
    pes_signal(job, SIGKILL);
    for (int i = 0; i < job->options.npes; i++) {
        struct pe *pe = &job->pes[i];
        while (pe->pid && waitpid(pe->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        pe->pid = 0; /* another process may have this id now */
    }
}
