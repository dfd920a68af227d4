/* SPDX-License-Identifier: MIT */
/* Start without a launcher: a parent forks N children, child 0 makes the unique id, and pipes carry it to the others,
 * as a program's own store would. `uid_embedded N`; ends 0 if all children saw N PEs and each other. */
#include <shmem.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 32 };

static long mark[MOST];

static int use_shmem(int rank, int size)
{
    int npes = shmem_n_pes(), me = shmem_my_pe(), bad = npes != size || me != rank;
    for (int pe = 0; pe < npes; pe++)
        shmem_long_p(&mark[me], me + 1, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        bad |= mark[pe] != pe + 1;
    printf("pe %d of %d %s\n", me, npes, bad ? "bad" : "ok");
    return bad;
}

static int start(int rank, int size, const shmemx_uniqueid_t *id)
{
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    attr.rank = rank;
    attr.size = size;
    attr.id = id;
    attr.requested = SHMEM_THREAD_SINGLE;
    if (shmemx_init_attr(&attr))
        return 1;
    int bad = use_shmem(rank, size);
    shmem_finalize();
    return bad;
}

/* Child 0 sends the id to everybody's pipe, the others read theirs. */
static int run_child(int rank, int size, int pipes[][2])
{
    shmemx_uniqueid_t id;
    memset(&id, 0, sizeof id);
    if (rank == 0 && shmemx_get_uniqueid(&id))
        return 1;
    for (int peer = 1; rank == 0 && peer < size; peer++)
        if (write(pipes[peer][1], &id, sizeof id) != (ssize_t)sizeof id)
            return 1;
    if (rank != 0 && read(pipes[rank][0], &id, sizeof id) != (ssize_t)sizeof id)
        return 1;
    return start(rank, size, &id);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 2, bad = 0, pipes[MOST][2];
    if (size < 1 || size > MOST)
        return 2;
    for (int i = 0; i < size; i++)
        if (pipe(pipes[i]))
            return 1;
    for (int rank = 0; rank < size; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            exit(run_child(rank, size, pipes));
        bad |= pid < 0;
    }
    for (int i = 0, status; i < size; i++)
        bad |= wait(&status) < 0 || status != 0;
    return bad;
}
