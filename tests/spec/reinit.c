/* SPDX-License-Identifier: MIT */
/* Finalize ends everything, and the library can be started again: the heap, teams, contexts and the symmetry of global
 * variables are there in every round, and nothing of an earlier round is. */
#include "../check.h"

#include <shmemx.h>

enum { ROUNDS = 5 };

static long global_cell = -1;

static void one_round(int round)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    long *heap_cell = (long *)shmem_malloc(sizeof(long));
    CHECK_OR_EXIT(heap_cell != NULL);
    *heap_cell = -1;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &team), 0);
    CHECK_EQ(shmem_team_my_pe(team), npes - 1 - me);
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    shmem_ctx_long_p(ctx, heap_cell, 10L * round + me, right);
    shmem_ctx_long_p(ctx, &global_cell, 1000L * round + me, right);
    shmem_ctx_quiet(ctx);
    shmem_team_sync(team);
    CHECK_EQ(*heap_cell, 10L * round + left);
    CHECK_EQ(global_cell, 1000L * round + left);
    shmem_ctx_destroy(ctx);
    /* The team and the object are left to shmem_finalize. */
}

/* A level that does not exist is refused by a status, and the library can be started all the same. */
static void refuse_levels(void)
{
    static const int wrong[] = {9, -1, SHMEM_THREAD_MULTIPLE + 1};
    shmemx_uniqueid_t id;
    memset(&id, 0, sizeof id);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int provided = -2, state = 1;
        shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
        attr.id = &id;
        attr.size = 1;
        attr.requested = wrong[i];
        CHECK(shmem_init_thread(wrong[i], &provided) != 0);
        CHECK_EQ(provided, -2);
        CHECK(shmemx_init_attr(&attr) != 0);
        shmem_query_initialized(&state);
        CHECK_EQ(state, 0);
    }
}

int main(void)
{
    refuse_levels();
    int state = 0;
    int first_me = -1;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 2 == 0) {
            shmem_init();
        } else {
            int provided = -1;
            CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
            int level = -2;
            shmem_query_thread(&level);
            CHECK_EQ(level, provided);
        }
        shmem_query_initialized(&state);
        CHECK(state != 0);
        check_self.pe = shmem_my_pe();
        if (round == 0)
            first_me = shmem_my_pe();
        CHECK_EQ(shmem_my_pe(), first_me);
        one_round(round);
        long kept = global_cell;
        shmem_finalize();
        shmem_query_initialized(&state);
        CHECK_EQ(state, 0);
        /* The variable itself lives on as an ordinary one. */
        CHECK_EQ(global_cell, kept);
        global_cell++;
        CHECK_EQ(global_cell, kept + 1);
    }
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
