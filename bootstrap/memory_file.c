/* SPDX-License-Identifier: MIT */
/* Files of memory: memfd_create and ftruncate, each with its own causes. See memory_file.h. */
#include "memory_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

static const char *remedy_of(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
    case ENOSYS:
        return "allow it in the seccomp rules of the container";
    case EMFILE:
        return "raise ulimit -n";
    case ENFILE:
        return "raise fs.file-max of this machine";
    default:
        return "this machine is short of memory";
    }
}

int iso_memory_file_make(const char *name, unsigned flags, size_t bytes, char *why, size_t why_bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
        snprintf(
            why, why_bytes,
            "files may have at most %llu bytes here (ulimit -f), and a file of shared memory of %zu bytes is needed; "
            "raise ulimit -f",
            (unsigned long long)limit.rlim_cur, bytes);
        return -EFBIG;
    }
    int fd = memfd_create(name, flags | MFD_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        snprintf(why, why_bytes, "memfd_create failed: %s; %s", strerror(error), remedy_of(error));
        return -error;
    }
    if (bytes <= (size_t)__INT64_MAX__ && ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    int error = bytes <= (size_t)__INT64_MAX__ ? errno : EFBIG;
    snprintf(why, why_bytes, "a file of shared memory cannot have %zu bytes (ftruncate: %s); ask for less", bytes,
             strerror(error));
    close(fd);
    return -error;
}
