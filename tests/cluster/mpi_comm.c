/* SPDX-License-Identifier: MIT */
/* A start by a communicator of MPI, with NVSHMEM's names: its ranks become the PEs. The first rank of MPI is a job of
 * its own, the others are one, numbered backwards. launchers_mpirun.sh starts it; each rank prints "pe R of N ok". */
#include <mpi.h>

#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, mine, number;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, number == 0, -number, &part);
    MPI_Comm_rank(part, &rank);
    MPI_Comm_size(part, &size);
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    int rc = nvshmemx_set_attr_mpi_comm_args(&part, &attr);
    rc = rc == 0 ? nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) : rc;
    mine = rc == 0 ? nvshmem_my_pe() : -1;
    if (rc != 0 || mine != rank || nvshmem_n_pes() != size) {
        fprintf(stderr, "mpi_comm: status %d, pe expected %d of %d, seen %d\n", rc, rank, size, mine);
        return 1;
    }
    printf("pe %d of %d ok\n", number, size);
    nvshmem_finalize();
    MPI_Finalize();
    return 0;
}
