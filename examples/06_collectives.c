/* SPDX-License-Identifier: MIT */
/* Collectives at work: a matrix, distributed by rows, is transposed with alltoall; then its norm with a reduction,
 * the row sums of everybody with fcollect, the number of the first row of each PE with a scan. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64 }; /* of each PE */

static double entry(int row, int column) { return row + 0.001 * column; }

static void *symmetric(size_t bytes)
{
    void *memory = shmem_malloc(bytes);
    if (!memory)
        shmem_global_exit(EXIT_FAILURE);
    return memory;
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes(), wrong = 0, n = ROWS * npes;
    size_t cells = (size_t)ROWS * (size_t)n;
    /* Block b of `out` holds what PE b gets: my rows of its columns. It comes back from PE b as block b of `in`. */
    double *out = (double *)symmetric(cells * sizeof *out), *in = (double *)symmetric(cells * sizeof *in);
    for (int pe = 0; pe < npes; pe++)
        for (int i = 0; i < ROWS * ROWS; i++)
            out[pe * ROWS * ROWS + i] = entry(me * ROWS + i % ROWS, pe * ROWS + i / ROWS);
    wrong += shmem_alltoall(SHMEM_TEAM_WORLD, in, out, ROWS * ROWS) != 0;
    for (int pe = 0; pe < npes; pe++)
        for (int i = 0; i < ROWS * ROWS; i++)
            wrong += in[pe * ROWS * ROWS + i] != entry(pe * ROWS + i % ROWS, me * ROWS + i / ROWS);

    double *part = (double *)symmetric(sizeof *part), *norm = (double *)symmetric(sizeof *norm);
    *part = 0;
    for (size_t i = 0; i < cells; i++)
        *part += in[i] * in[i];
    wrong += shmem_sum_reduce(SHMEM_TEAM_WORLD, norm, part, 1) != 0;
    double *parts = (double *)symmetric((size_t)npes * sizeof *parts), sum = 0;
    wrong += shmem_fcollect(SHMEM_TEAM_WORLD, parts, part, 1) != 0;
    for (int pe = 0; pe < npes; pe++)
        sum += parts[pe];
    wrong += sum - *norm > 1e-12 * sum || *norm - sum > 1e-12 * sum; /* the order of additions may differ */

    long *rows = (long *)symmetric(sizeof *rows), *first = (long *)symmetric(sizeof *first);
    *rows = ROWS;
    wrong += shmem_sum_exscan(SHMEM_TEAM_WORLD, first, rows, 1) != 0;
    wrong += *first != (long)me * ROWS;

    /* PE 0 says whether everybody is content: a reduction of the errors, and a broadcast of the verdict. */
    int *errors = (int *)symmetric(sizeof *errors), *total = (int *)symmetric(2 * sizeof *total);
    *errors = wrong;
    shmem_max_reduce(SHMEM_TEAM_WORLD, &total[0], errors, 1);
    shmem_broadcast(SHMEM_TEAM_WORLD, &total[1], &total[0], 1, 0);
    if (me == 0)
        printf("a %d x %d matrix transposed over %d PEs, squared norm %.6g, %s\n", n, n, npes, *norm,
               total[1] ? "WRONG" : "all right");
    wrong = total[1];
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
