/* SPDX-License-Identifier: MIT */
/* The PEs as a grid: teams of rows and of columns, a sum along each, and what a PE is called in which team. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes(), wrong = 0, width = 1;
    while (width * width < npes)
        width++;

    shmem_team_t row, column, even = SHMEM_TEAM_INVALID;
    if (shmem_team_split_2d(SHMEM_TEAM_WORLD, width, NULL, 0, &row, NULL, 0, &column) != 0)
        shmem_global_exit(EXIT_FAILURE);
    wrong += shmem_team_my_pe(row) != me % width || shmem_team_my_pe(column) != me / width;

    /* Symmetric source and destination of the sums. */
    int *mine = (int *)shmem_malloc(sizeof *mine), *sum = (int *)shmem_malloc(2 * sizeof *sum);
    if (!mine || !sum)
        shmem_global_exit(EXIT_FAILURE);
    *mine = me;
    wrong += shmem_sum_reduce(row, &sum[0], mine, 1) != 0;
    wrong += shmem_sum_reduce(column, &sum[1], mine, 1) != 0;
    int row_sum = 0, column_sum = 0;
    for (int pe = 0; pe < npes; pe++) {
        row_sum += pe / width == me / width ? pe : 0;
        column_sum += pe % width == me % width ? pe : 0;
    }
    wrong += sum[0] != row_sum || sum[1] != column_sum;
    printf("PE %d is %d of %d in its row (sum %d), %d of %d in its column (sum %d)\n", me, shmem_team_my_pe(row),
           shmem_team_n_pes(row), sum[0], shmem_team_my_pe(column), shmem_team_n_pes(column), sum[1]);

    /* Every second PE. Who does not belong gets SHMEM_TEAM_INVALID. */
    int status = shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, NULL, 0, &even);
    wrong += me % 2 == 0 && status != 0;
    wrong += (even == SHMEM_TEAM_INVALID) != (me % 2);
    if (even != SHMEM_TEAM_INVALID) {
        int last = shmem_team_n_pes(even) - 1;
        wrong += shmem_team_translate_pe(even, last, SHMEM_TEAM_WORLD) != 2 * last;
        shmem_team_sync(even);
        shmem_team_destroy(even);
    }
    shmem_team_destroy(row);
    shmem_team_destroy(column);
    if (wrong)
        fprintf(stderr, "04_teams: PE %d found %d wrong results\n", me, wrong);
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
