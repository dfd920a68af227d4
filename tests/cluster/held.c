/* SPDX-License-Identifier: MIT */
/* Holds threads of oshrun while its PEs go on, as a busy machine does: `held main|pmix MS oshrun arguments`. oshrun's
 * first thread, or its others, which are PMIx's, are stopped when a PE has printed a line; then PE 0 gets a byte, and
 * the threads go on MS milliseconds later. Ends as oshrun does; 77 where no process may be traced. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIP = 77, THREADS_MOST = 64 };

static int n_held;
static pid_t held[THREADS_MOST];

static int hold(pid_t thread)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        return -errno;
    held[n_held++] = thread;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 || waitpid(thread, NULL, __WALL) != thread)
        return -errno;
    return 0;
}

static int hold_threads(pid_t oshrun, int of_pmix)
{
    char path[64];
    int rc = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)oshrun);
    DIR *list = opendir(path);
    if (list == NULL)
        return -errno;
    for (struct dirent *entry; rc == 0 && (entry = readdir(list)) != NULL;) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        if (thread > 0 && n_held < THREADS_MOST && (thread != oshrun) == of_pmix)
            rc = hold(thread);
    }
    closedir(list);
    return rc != 0 ? rc : n_held > 0 ? 0 : -ESRCH;
}

int main(int argc, char **argv)
{
    int in[2], out[2], status = 0, told = 0;
    char line[4096];
    if (argc < 4 || pipe(in) != 0 || pipe(out) != 0) {
        fprintf(stderr, "usage: held main|pmix MS oshrun arguments\n");
        return 2;
    }
    pid_t oshrun = fork();
    if (oshrun == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    while (lines != NULL && fgets(line, sizeof line, lines) != NULL) {
        fputs(line, stdout);
        if (told++)
            continue;
        int rc = hold_threads(oshrun, strcmp(argv[1], "pmix") == 0);
        if (rc == 0 && write(in[1], "", 1) == 1)
            usleep((useconds_t)atoi(argv[2]) * 1000);
        for (int i = 0; i < n_held; i++)
            ptrace(PTRACE_DETACH, held[i], NULL, NULL);
        if (rc != 0) {
            fprintf(stderr, "held: threads cannot be held: %s\n", strerror(-rc));
            kill(oshrun, SIGTERM);
            return SKIP;
        }
    }
    while (waitpid(oshrun, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
