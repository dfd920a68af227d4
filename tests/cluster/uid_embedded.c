/* SPDX-License-Identifier: MIT */
/* Start without a launcher: a parent forks N children, child 0 makes the unique id, and pipes carry it to the others,
 * as a program's own store would. `uid_embedded N`; ends 0 if all children saw N PEs and each other.
 * `uid_embedded N parent`, `uid_embedded N child`: the parent makes the id before it forks, and it or a child becomes
 * rank 0. A bystander, forked as the others, must inherit nothing that listens. */
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

/* The port of the id; 0: none, which is an error. */
static int port_of(const shmemx_uniqueid_t *id)
{
    char text[sizeof id->bytes];
    memcpy(text, id->bytes, sizeof text);
    char *secret = strrchr(text, ':');
    if (secret == NULL)
        return 0;
    *secret = '\0';
    char *port = strrchr(text, ':');
    return port != NULL ? atoi(port + 1) : 0;
}

/* A line of /proc/net/tcp: number, own address and port, the other's, and the state, 0A for a socket that listens. */
static int listens(int port)
{
    FILE *file = fopen("/proc/net/tcp", "re");
    char line[512];
    unsigned at, state;
    int found = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        found |= sscanf(line, " %*[^:]: %*[^:]:%x %*s %x", &at, &state) == 2 && (int)at == port && state == 0x0A;
    if (file != NULL)
        fclose(file);
    return found;
}

/* The id is older than all processes but this one. */
static int run_forked(int size, int parent_is_0)
{
    shmemx_uniqueid_t id;
    int bad = 0, go_on[2];
    pid_t bystander;
    if (pipe(go_on) || shmemx_get_uniqueid(&id) || port_of(&id) == 0)
        return 1;
    if (listens(port_of(&id)))
        return printf("something listens before rank 0 starts\n"), 1;
    if ((bystander = fork()) == 0) { /* lives longer than the job, and has the reservation's descriptor */
        char byte;
        close(go_on[1]);
        _exit(read(go_on[0], &byte, 1) != 0);
    }
    for (int rank = parent_is_0; rank < size; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            close(go_on[1]);
            exit(start(rank, size, &id));
        }
        bad |= pid < 0;
    }
    if (parent_is_0)
        bad |= start(0, size, &id);
    for (int rank = parent_is_0, status; rank < size; rank++)
        bad |= wait(&status) < 0 || status != 0;
    if (listens(port_of(&id)))
        bad = printf("something listens after the job\n");
    close(go_on[1]);
    int status;
    return bad | (waitpid(bystander, &status, 0) != bystander || status != 0);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 2, bad = 0, pipes[MOST][2];
    if (size < 1 || size > MOST)
        return 2;
    if (argc > 2)
        return run_forked(size, strcmp(argv[2], "parent") == 0) != 0;
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
