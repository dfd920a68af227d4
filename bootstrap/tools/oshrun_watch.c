/* SPDX-License-Identifier: MIT */
/* The watcher: a small process in its own session that outlives a SIGKILL of oshrun.
 * It reads process group ids from a pipe. A 0 says that oshrun has cleaned up by itself; end of file without it says
 * that oshrun is dead: then the groups are killed and the temporary folder is removed. The PEs themselves die with
 * oshrun at once (PR_SET_PDEATHSIG); the watcher is for what they started and for the folder. The agents of hosts end
 * by themselves, since their stdin does; they are killed if they do not. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    (void)remove(path);
    return 0;
}

void watch_remove_folder(const char *folder)
{
    if (folder[0])
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

enum { AGENT_MS = 3000, AGENT_LOOK_MS = 20 }; /* longer than an oshrun gives its PEs after SIGTERM */

static _Noreturn void watch(int fd, const struct job *job)
{
    static pid_t groups[MAX_PES];
    int count = 0;
    setsid();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);

    /* A reader of oshrun's output must not wait for the watcher, nor a process that waits for a descriptor's end. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    int kept = dup2(fd, 3);
    close_range(kept == 3 ? 4 : 3, ~0u, 0);
    (void)!chdir("/");

    for (;;) {
        pid_t group;
        ssize_t got = read(3, &group, sizeof group);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == (ssize_t)sizeof group && group == 0)
            _exit(0);
        if (got != (ssize_t)sizeof group)
            break;
        if (count < MAX_PES)
            groups[count++] = group;
    }
    int wait_ms = job->options.part == PART_HEAD ? AGENT_MS : 0;
    for (int i = 0; i < count; i++) {
        for (; wait_ms > 0 && kill(-groups[i], 0) == 0; wait_ms -= AGENT_LOOK_MS)
            poll(NULL, 0, AGENT_LOOK_MS);
        kill(-groups[i], SIGKILL);
    }
    watch_remove_folder(job->folder);
    _exit(0);
}

int watch_start(struct job *job)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC))
        return oshrun_fail("cannot make a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[1]);
        watch(fd[0], job);
    }
    if (pid < 0)
        return oshrun_fail("cannot start a process");
    close(fd[0]);
    job->watch = (struct watch){.fd = fd[1], .pid = pid};
    return 0;
}

void watch_add(const struct job *job, pid_t group) { (void)!write(job->watch.fd, &group, sizeof group); }

void watch_dismiss(struct job *job)
{
    if (job->watch.fd == WATCH_NONE)
        return;
    watch_add(job, 0);
    close(job->watch.fd);
    while (waitpid(job->watch.pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    job->watch.fd = WATCH_NONE;
}
