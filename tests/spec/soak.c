/* SPDX-License-Identifier: MIT */
/* A random sequence of collectives over random teams, with puts and atomics in between, without barriers except where
 * the specification asks for them: every call of a window has a dest of its own, sources are reused at once. */
#include "../check.h"
#include "move_table.h"
#include "reduce_table.h"
#include "team_set.h"

enum { WINDOW = 12, WINDOWS = 40, MOST = 3008, KINDS = 8 };

struct step {
    int kind, team, root, row;
    size_t n; /* bytes, or elements of a reduction */
};

static struct step choose(struct check_random *random)
{
    struct step step;
    step.kind = (int)check_random_below(random, KINDS);
    step.team = (int)check_random_below(random, TEAMS);
    step.root = (int)check_random_below(random, 1000);
    step.row = (int)check_random_below(random, REDUCE_ROWS);
    step.n = check_random_below(random, 4) == 0 ? check_random_below(random, MOST) : check_random_below(random, 100);
    if (step.kind >= 5)
        step.n /= 16; /* elements of up to 32 bytes */
    return step;
}

struct area {
    unsigned char *source;
    unsigned char *dests; /* WINDOW of dest_bytes */
    size_t dest_bytes;
    unsigned char *expected, *more;
};

static void check_blocks(const unsigned char *dest, size_t n, int n_pes, int to, unsigned round, const char *words)
{
    for (int pe = 0; pe < n_pes; pe++)
        CHECK_NAMED(check_filled(dest + (size_t)pe * n, n, pe, to, round), words);
}

/* Odd members give one byte less. */
static void do_collect(struct area *area, unsigned char *dest, shmem_team_t team, size_t n, unsigned round)
{
    int me = shmem_team_my_pe(team);
    const unsigned char *at = dest;
    CHECK_EQ(shmem_collectmem(team, dest, area->source, n - (size_t)(n > 0 && me % 2)), 0);
    for (int pe = 0; pe < shmem_team_n_pes(team); pe++) {
        size_t len_bytes = n - (size_t)(n > 0 && pe % 2);
        CHECK_NAMED(check_filled(at, len_bytes, pe, 0, round), "soak: collect");
        at += len_bytes;
    }
}

static void do_step(struct area *area, unsigned char *dest, shmem_team_t team, const struct step *step, unsigned round)
{
    const struct move *mem = &move_table[MOVE_MEM];
    const struct reduction *row = &reduce_table[step->row];
    int me = shmem_team_my_pe(team);
    int n_pes = shmem_team_n_pes(team);
    int root = step->root % n_pes;
    for (int pe = 0; step->kind < 4 && pe < n_pes; pe++)
        check_fill(area->source + (size_t)pe * step->n, step->n, me, pe, round);
    switch (step->kind) {
    case 0:
        CHECK_EQ(mem->broadcast(team, dest, area->source, step->n, root), 0);
        CHECK_NAMED(check_filled(dest, step->n, root, 0, round), "soak: broadcast");
        break;
    case 1:
        CHECK_EQ(mem->fcollect(team, dest, area->source, step->n), 0);
        check_blocks(dest, step->n, n_pes, 0, round, "soak: fcollect");
        break;
    case 2:
        CHECK_EQ(mem->alltoall(team, dest, area->source, step->n), 0);
        check_blocks(dest, step->n, n_pes, me, round, "soak: alltoall");
        break;
    case 3:
        do_collect(area, dest, team, step->n, round);
        break;
    case 4:
        CHECK_EQ(shmem_team_sync(team), 0);
        break;
    default:
        row->make(area->source, step->n, me, round);
        CHECK_EQ_NAMED(row->call(team, dest, area->source, step->n), 0, row->name);
        reduce_reference(row, area->expected, area->more, step->n, me, n_pes, round);
        CHECK_NAMED(row->same(dest, area->expected, step->n), row->name);
    }
}

static int test_main(void)
{
    CHECK_INIT();
    size_t npes = (size_t)shmem_n_pes();
    int me = shmem_my_pe();
    struct area area;
    area.dest_bytes = npes * MOST + 64;
    area.source = (unsigned char *)check_alloc(area.dest_bytes);
    area.dests = (unsigned char *)check_alloc(area.dest_bytes * WINDOW);
    area.expected = (unsigned char *)malloc(2 * MOST);
    area.more = (unsigned char *)malloc(2 * MOST);
    long *counters = (long *)check_alloc(npes * sizeof(long));
    CHECK_OR_EXIT(area.expected != NULL && area.more != NULL);
    struct team_set set = team_set_make();
    struct check_random common = check_random_stream(800);
    struct check_random own = check_random_stream(801 + (uint64_t)me);
    memset(counters, 0, npes * sizeof(long));
    shmem_barrier_all();
    long added = 0;
    for (unsigned window = 0; window < WINDOWS; window++) {
        for (unsigned i = 0; i < WINDOW; i++) {
            struct step step = choose(&common);
            shmem_team_t team = set.teams[step.team];
            if (check_random_below(&own, 30) == 0)
                check_pause();
            if (team != SHMEM_TEAM_INVALID)
                do_step(&area, area.dests + i * area.dest_bytes, team, &step, window * WINDOW + i);
            shmem_long_atomic_inc(&counters[me], (int)check_random_below(&own, npes));
            added++;
        }
        shmem_barrier_all();
    }
    /* counters[me] of all PEs together: what this PE added. */
    for (int pe = 0; pe < (int)npes; pe++)
        added -= shmem_long_g(&counters[me], pe);
    CHECK_EQ(added, 0);
    team_set_destroy(&set);
    check_free(counters);
    free(area.more);
    free(area.expected);
    check_free(area.dests);
    check_free(area.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
