/* SPDX-License-Identifier: MIT */
/* MPI and OpenSHMEM in one program: `mpi_both mpi|shmem` says which is initialised first. Both must agree on the size,
 * and messages of the one must be usable between calls of the other. `mpi_both none` is linked with MPI and does not
 * call it. */
#include <mpi.h>
#include <shmem.h>

#include <stdio.h>
#include <string.h>

static long mark;

static int check_both(void)
{
    int rank, size, sum = 0, me = shmem_my_pe(), npes = shmem_n_pes();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    shmem_long_p(&mark, rank + 1, (me + 1) % npes);
    shmem_barrier_all();
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int left = (me + npes - 1) % npes;
    int bad = size != npes || sum != npes * (npes - 1) / 2 || (rank == me && mark != left + 1);
    printf("%s: MPI rank %d of %d, PE %d of %d\n", bad ? "bad" : "good", rank, size, me, npes);
    return bad;
}

int main(int argc, char **argv)
{
    int mpi_first = argc > 1 && !strcmp(argv[1], "mpi");
    if (mpi_first)
        MPI_Init(&argc, &argv);
    shmem_init();
    if (argc > 1 && !strcmp(argv[1], "none")) {
        printf("pe %d of %d ok\n", shmem_my_pe(), shmem_n_pes());
        shmem_finalize();
        return 0;
    }
    if (!mpi_first)
        MPI_Init(&argc, &argv);
    int bad = check_both();
    if (!mpi_first)
        MPI_Finalize();
    shmem_finalize();
    if (mpi_first)
        MPI_Finalize();
    return bad;
}
