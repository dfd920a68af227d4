/* SPDX-License-Identifier: MIT */
/* The mappings of this process. See mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int iso_mapping_find(uintptr_t at, struct mapping *m)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return -errno;
    int rc = -ENXIO;
    while (rc != 0 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        memset(m, 0, sizeof *m);
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255[^\n]", &from, &to, m->protection, m->path) < 3 || to <= at)
            continue;
        m->from = (uintptr_t)from;
        m->to = (uintptr_t)to;
        rc = 0;
    }
    fclose(maps);
    return rc;
}

int iso_mapping_examine(const void *addr, size_t len, char *why, size_t why_bytes)
{
    struct mapping m;
    int rc = 0;
    for (uintptr_t at = (uintptr_t)addr, end = at + len; at < end && rc == 0; at = m.to) {
        int found = iso_mapping_find(at, &m);
        rc = -EINVAL;
        if (found != 0 && found != -ENXIO) {
            snprintf(why, why_bytes, "/proc/self/maps cannot be read (%s), which tells private memory from shared; %s",
                     strerror(-found), found == -EMFILE ? "raise ulimit -n" : "mount /proc");
            return found;
        }
        if (found != 0 || m.from > at)
            snprintf(why, why_bytes, "nothing is mapped at %p", (void *)at);
        else if (m.protection[3] != 'p')
            snprintf(
                why, why_bytes,
                "the memory at %p is a shared mapping (%.120s), which it would be cut off from; give private memory "
                "(malloc, or mmap with MAP_PRIVATE)",
                (void *)at, m.path);
        else if (memcmp(m.protection, "rw-", 3) != 0)
            snprintf(why, why_bytes,
                     "the protection of the memory at %p is %.3s; it must be readable and writable, and not executable",
                     (void *)at, m.protection);
        else
            rc = 0;
    }
    return rc;
}
