/* SPDX-License-Identifier: MIT */
/* No launcher: this program makes its own processes and starts the library with a unique id. Rank 0 makes the id; any
 * channel carries its 128 bytes to the others: a pipe here, in other programs MPI, a key-value store or a file. */
#include <shmem.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int one_pe(int rank, int size, const int channel[2])
{
    shmemx_uniqueid_t id;
    if (rank == 0) {
        if (shmemx_get_uniqueid(&id) != 0)
            return EXIT_FAILURE;
        for (int other = 1; other < size; other++)
            if (write(channel[1], &id, sizeof id) != (ssize_t)sizeof id) /* below PIPE_BUF: in one piece */
                return EXIT_FAILURE;
    } else {
        close(channel[1]); /* so that the read ends if rank 0 dies */
        if (read(channel[0], &id, sizeof id) != (ssize_t)sizeof id)
            return EXIT_FAILURE;
    }
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    attr.rank = rank;
    attr.size = size;
    attr.id = &id;
    if (shmemx_init_attr(&attr) != 0)
        return EXIT_FAILURE;

    long *ranks = (long *)shmem_calloc((size_t)size, sizeof *ranks);
    if (!ranks)
        shmem_global_exit(EXIT_FAILURE);
    for (int pe = 0; pe < size; pe++)
        shmem_long_p(&ranks[rank], rank + 1, pe);
    shmem_barrier_all();
    int wrong = shmem_my_pe() != rank || shmem_n_pes() != size;
    for (int pe = 0; pe < size; pe++)
        wrong += ranks[pe] != pe + 1;
    printf("process %d is PE %d of %d and has heard from all\n", (int)getpid(), shmem_my_pe(), shmem_n_pes());
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 4, channel[2], failed = 0, status;
    if (size < 1 || size > 64 || pipe(channel) != 0) {
        fprintf(stderr, "07_unique_id: the number of PEs must be 1..64\n");
        return EXIT_FAILURE;
    }
    for (int rank = 0; rank < size; rank++) {
        pid_t child = fork();
        if (child == 0)
            exit(one_pe(rank, size, channel));
        if (child < 0)
            return EXIT_FAILURE;
    }
    close(channel[1]);
    for (int rank = 0; rank < size; rank++)
        failed += wait(&status) < 0 || status != 0;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
