/* SPDX-License-Identifier: MIT */
/* The profiling interface: pshmem_ names do the work, a shmem_ function defined in the program replaces the library's
 * for the program but not inside of the library, and shmem_pcontrol takes anything. */
#include "../check.h"

#include <pshmem.h>

static int seen_putmem, seen_barrier, seen_reduce, seen_malloc;

void shmem_putmem(void *dest, const void *source, size_t nelems, int pe)
{
    seen_putmem++;
    pshmem_putmem(dest, source, nelems, pe);
}

void shmem_barrier_all(void)
{
    seen_barrier++;
    pshmem_barrier_all();
}

int shmem_int_sum_reduce(shmem_team_t team, int *dest, const int *source, size_t nreduce)
{
    seen_reduce++;
    return pshmem_int_sum_reduce(team, dest, source, nreduce);
}

void *shmem_malloc(size_t size)
{
    seen_malloc++;
    return pshmem_malloc(size);
}

/* One call of each chapter by its shifted name. */
static void test_shifted_names(void)
{
    int me = pshmem_my_pe();
    int npes = pshmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    CHECK_EQ(me, shmem_my_pe());
    CHECK_EQ(npes, shmem_n_pes());
    long *cells = (long *)pshmem_calloc(9, sizeof(long));
    CHECK_OR_EXIT(cells != NULL);
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK_EQ(pshmem_ctx_create(0, &ctx), 0);
    CHECK_EQ(pshmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team), 0);
    const long value = 11 + me;
    pshmem_long_put(&cells[0], &value, 1, right);
    pshmem_ctx_long_p(ctx, &cells[1], value, right);
    pshmem_put64(&cells[2], &value, 1, right);
    pshmem_long_atomic_add(&cells[3], 2, right);
    pshmem_long_iput(&cells[4], &value, 1, 1, 1, right);
    pshmem_putmem_signal(&cells[5], &value, sizeof(value), (uint64_t *)(void *)&cells[6], 1, SHMEM_SIGNAL_SET, right);
    pshmem_ctx_quiet(ctx);
    pshmem_fence();
    pshmem_quiet();
    CHECK_EQ(pshmem_signal_wait_until((uint64_t *)(void *)&cells[6], SHMEM_CMP_EQ, 1), 1);
    pshmem_long_wait_until(&cells[3], SHMEM_CMP_EQ, 2);
    CHECK_EQ(pshmem_team_sync(team), 0);
    CHECK_EQ(cells[0], 11 + left);
    CHECK_EQ(cells[1], 11 + left);
    CHECK_EQ(cells[2], 11 + left);
    CHECK_EQ(cells[4], 11 + left);
    CHECK_EQ(cells[5], 11 + left);
    CHECK_EQ(pshmem_long_g(&cells[0], right), 11 + me);
    CHECK_EQ(pshmem_long_sum_reduce(team, &cells[7], &cells[3], 1), 0);
    CHECK_EQ(cells[7], 2L * npes);
    pshmem_set_lock(&cells[8]);
    pshmem_clear_lock(&cells[8]);
    pshmem_ctx_destroy(ctx);
    pshmem_team_destroy(team);
    pshmem_barrier_all();
    pshmem_free(cells);
}

int main(void)
{
    pshmem_init();
    check_self.pe = shmem_my_pe();
    /* What the library did in init is not the program's. */
    CHECK_EQ(seen_barrier, 0);
    CHECK_EQ(seen_putmem, 0);
    int *cells = (int *)shmem_malloc(4 * sizeof(int));
    CHECK_OR_EXIT(cells != NULL);
    int npes = shmem_n_pes();
    int value = 100 + shmem_my_pe();
    cells[1] = 1;
    CHECK_EQ(seen_malloc, 1);
    CHECK_EQ(seen_barrier, 0); /* the barrier inside of malloc is not shmem_barrier_all */
    shmem_putmem(&cells[0], &value, sizeof(value), (shmem_my_pe() + 1) % npes);
    shmem_barrier_all();
    CHECK_EQ(cells[0], 100 + (shmem_my_pe() + npes - 1) % npes);
    CHECK_EQ(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &cells[2], &cells[1], 1), 0);
    CHECK_EQ(cells[2], npes);
    CHECK_EQ(seen_putmem, 1);
    CHECK_EQ(seen_barrier, 1);
    CHECK_EQ(seen_reduce, 1);
    /* Others go to the library as ever, and nothing of it comes back here. */
    shmem_int_put(&cells[3], &value, 1, shmem_my_pe());
    shmem_sync_all();
    CHECK_EQ(cells[3], value);
    test_shifted_names();
    CHECK_EQ(seen_putmem, 1);
    CHECK_EQ(seen_barrier, 1);
    CHECK_EQ(seen_reduce, 1);
    shmem_pcontrol(0);
    shmem_pcontrol(1);
    shmem_pcontrol(2, "more", 3, 4.0);
    pshmem_pcontrol(-1);
    shmem_free(cells);
    shmem_finalize();
    CHECK_EQ(seen_barrier, 1);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
