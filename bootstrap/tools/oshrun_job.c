/* SPDX-License-Identifier: MIT */
/* What the files of oshrun have in common: sentences, time, the search for the program, the environment of a PE. */
#define _GNU_SOURCE
#include "oshrun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void oshrun_say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (used > (int)sizeof line - 2)
        used = (int)sizeof line - 2;
    dprintf(STDERR_FILENO, "oshrun: %.*s\n", used, line);
}

int oshrun_fail(const char *what)
{
    oshrun_say("%s: %s", what, strerror(errno));
    return STATUS_FAILED;
}

int64_t oshrun_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the program ---- */

/* 0 or -errno. Relative paths count from the PEs' working directory. */
static int probe(int dir_fd, const char *path)
{
    struct stat info;
    if (fstatat(dir_fd, path, &info, 0))
        return -errno;
    if (S_ISDIR(info.st_mode))
        return -EISDIR;
    return faccessat(dir_fd, path, X_OK, AT_EACCESS) ? -errno : 0;
}

static int search_path(int dir_fd, const char *name, char found[PATH_MAX])
{
    const char *path = getenv("PATH");
    int error = -ENOENT;
    for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; at;) {
        size_t len = strcspn(at, ":");
        int used = snprintf(found, PATH_MAX, "%.*s%s%s", (int)len, at, len ? "/" : "./", name);
        int now = used < PATH_MAX ? probe(dir_fd, found) : -ENAMETOOLONG;
        if (!now)
            return 0;
        if (now == -EACCES)
            error = now; /* a program that cannot be executed explains more than none */
        at = at[len] ? at + len + 1 : NULL;
    }
    return error;
}

int job_find_program(struct job *job, const char *name, const char *wdir)
{
    int dir_fd = wdir ? open(wdir, O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
    if (wdir && dir_fd < 0) {
        oshrun_say("cannot use --wdir %s: %s", wdir, strerror(errno));
        return STATUS_USAGE;
    }
    bool naked = !strchr(name, '/');
    int error = -ENOENT;
    if (name[0] && naked) {
        error = search_path(dir_fd, name, job->program);
    } else if (name[0]) {
        int len = snprintf(job->program, sizeof job->program, "%s", name);
        error = len < (int)sizeof job->program ? probe(dir_fd, name) : -ENAMETOOLONG;
    }
    if (dir_fd >= 0)
        close(dir_fd);
    if (!error)
        return 0;
    oshrun_say("cannot run '%s': %s", name, naked && error == -ENOENT ? "not found in PATH" : strerror(-error));
    return error == -ENOENT || error == -ENOTDIR ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* ---- the environment of a PE ---- */

char **environment_copy(const char *except)
{
    size_t count = 0, n = 0;
    while (environ[count])
        count++;
    char **copy = (char **)calloc(count + 2, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        if (except && !strncmp(environ[i], except, strlen(except)))
            continue;
        copy[n] = strdup(environ[i]);
        if (!copy[n++]) {
            environment_free(copy);
            return NULL;
        }
    }
    return copy;
}

void environment_free(char **environment)
{
    for (char **entry = environment; entry && *entry; entry++)
        free(*entry);
    free(environment);
}
