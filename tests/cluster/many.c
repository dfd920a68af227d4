/* SPDX-License-Identifier: MIT */
/* `many [closed]`: what a PE keeps for the other PEs of its node does not grow with their number: no socket but one, no
 * mapping but those of PEs that it has used, and memory of its own that is flat. With "closed" no PE may open another
 * one's memory by /proc, as in pid namespaces: then all is mapped at start, and works alike. */
#define _GNU_SOURCE
#include "../check.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FEW_SOCKETS = 6, FEW_MAPS = 40 }; /* PMIx has some of both */

static long cell[4];

static int count_sockets(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[32], what[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, what, sizeof what - 1);
        n += len > 7 && strncmp(what, "socket:", 7) == 0;
    }
    return n;
}

/* Mappings whose name has `part` in it. */
static int count_maps(const char *part)
{
    char line[1024];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK_OR_EXIT(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        n += strstr(line, part) != NULL;
    fclose(maps);
    return n;
}

/* Those of libraries are not ours: libpmix comes when a launcher is there. */
static int count_own_maps(void) { return count_maps("") - count_maps(".so"); }

/* Root could look into processes that are not dumpable. */
static void close_memory(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct caps[2];
    CHECK_EQ(syscall(SYS_capget, &header, caps), 0);
    caps[0].effective &= ~(1u << CAP_SYS_PTRACE);
    caps[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    CHECK_EQ(syscall(SYS_capset, &header, caps), 0);
    CHECK_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
}

static void use_all(int me, int npes, long *object)
{
    for (int i = 0; i < npes; i++) {
        shmem_long_atomic_add(&object[0], 1, i);
        shmem_long_atomic_add(&cell[0], i == me, i);
        shmem_long_p(&object[1 + me], 1000 + me, i);
    }
    shmem_barrier_all();
    CHECK_EQ(object[0], npes);
    CHECK_EQ(cell[0], 1);
    for (int i = 0; i < npes; i++)
        CHECK_EQ(object[1 + i], 1000 + i);
}

int main(int argc, char **argv)
{
    bool closed = argc > 1 && strcmp(argv[1], "closed") == 0;
    int before = count_own_maps();
    if (closed)
        close_memory();
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes, own = closed ? npes : 1;
    long *object = (long *)shmem_calloc((size_t)npes + 1, sizeof *object);
    CHECK_OR_EXIT(object != NULL);
    CHECK(me == 0 || count_sockets() <= FEW_SOCKETS);
    CHECK(count_sockets() <= FEW_SOCKETS + npes);
    CHECK_EQ(count_maps("isomer-heap"), own);
    CHECK_EQ(count_maps("isomer-data"), own);
    CHECK(closed || count_own_maps() - before < FEW_MAPS);

    shmem_long_p(&cell[1], me, right); /* a first use of each segment of one PE */
    CHECK_EQ(shmem_long_g(&object[0], right), 0);
    shmem_barrier_all();
    CHECK_EQ(cell[1], (me + npes - 1) % npes);
    CHECK_EQ(count_maps("isomer-heap"), closed ? npes : 2);
    CHECK_EQ(count_maps("isomer-data"), closed ? npes : 2);
    CHECK_EQ(*(long *)shmem_ptr(&cell[1], right), me);

    shmem_barrier_all();
    if (npes <= 8)
        use_all(me, npes, object);
    shmem_finalize();
    CHECK_EQ(count_maps("isomer-heap"), 0);
    CHECK_EQ(count_maps("isomer-node"), 0);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
