/* SPDX-License-Identifier: MIT */
/* shmemx_team_set_timeout: a wait in a kernel by a team's handle, in a collective of the team on a stream, and on a
 * stream for a word of the team's memory is reported at the team's own limit and goes on to its end; the waits of other
 * teams keep SHMEM_TIMEOUT. Run with a SHMEM_TIMEOUT that is longer than the program. tests/cluster/waits.sh has the
 * host's waits. */
#include "device_test.h"

enum { SLOT = 3, STREAM_SLOT = 4, THREADS = 64 };
#define SHORT_S 0.2
#define SILENCE_US 700000 /* more than SHORT_S */

struct wait_args {
    shmemd_t h;
    uint64_t *word; /* symmetric */
    uint64_t value;
};
SHMEMD_KERNEL(wait_for_word, struct wait_args, a)
{
    shmemd_signal_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, a.value);
}

struct test {
    struct wait_args args;
    shmem_team_t team;
    shmemx_stream_t stream;
    uint64_t *word; /* of the host */
    int *told;      /* [2], symmetric: the error came, here and on all */
};

static void check_reported(shmem_team_t team, int slot, const char *call)
{
    shmemx_device_error_t error;
    if (!CHECK(device_next_error(&error)))
        return;
    CHECK_NAMED(strstr(error.call, call) != NULL, error.call);
    CHECK_EQ(error.gave_up, 0);
    CHECK_EQ(error.team_slot, slot);
    CHECK(error.team == team);
    CHECK(error.waited_seconds >= SHORT_S && error.waited_seconds < DEVICE_PATIENCE_S);
}

static void check_silent(void)
{
    shmemx_device_error_t error;
    usleep(SILENCE_US);
    CHECK_EQ(shmemx_device_error(&error), 0);
}

/* A wait of this PE's kernel that the host ends. */
static void wait_in_kernel(struct test *t, shmem_team_t team, bool late)
{
    CHECK_EQ(shmemx_device_handle(team, SLOT, &t->args.h), 0);
    t->args.value++;
    DEVICE_LAUNCH(wait_for_word, 1, THREADS, t->args, t->stream);
    if (late)
        check_reported(team, SLOT, "shmemd_signal_wait_until");
    else
        check_silent();
    shmem_signal_set(t->args.word, t->args.value, check_self.pe);
    CHECK_EQ(shmemx_stream_synchronize(t->stream), 0);
    shmem_barrier_all();
}

/* PE 0 comes when all others have been late, or silent for longer than the limit. */
static void wait_on_stream(struct test *t, shmem_team_t team, bool late)
{
    shmemx_coll_t coll = shmemx_coll_of(SHMEMX_SYNC, team, NULL, NULL, 0, SHMEMX_UINT8);
    coll.slot = STREAM_SLOT;
    CHECK_EQ(shmemx_slot_prepare(team, STREAM_SLOT, 1), 0);
    shmem_barrier_all();
    if (check_self.pe != 0) {
        CHECK_EQ(shmemx_coll_on_stream(&coll, t->stream), 0);
        if (late)
            check_reported(team, STREAM_SLOT, "on a stream");
        else
            check_silent();
        shmem_uint64_atomic_inc(t->word, 0);
    } else {
        shmem_uint64_wait_until(t->word, SHMEM_CMP_EQ, (uint64_t)check_self.npes - 1);
        *t->word = 0;
        CHECK_EQ(shmemx_coll_on_stream(&coll, t->stream), 0);
    }
    CHECK_EQ(shmemx_stream_synchronize(t->stream), 0);
    shmem_barrier_all();
}

/* A wait on a stream for a word of the team's memory. */
static void wait_for_signal(struct test *t, shmem_team_t team, bool late)
{
    uint64_t *word = (uint64_t *)shmemx_team_malloc(team, sizeof *word, SHMEMX_DEVICE);
    if (!CHECK(word != NULL))
        return;
    shmem_signal_set(word, 0, check_self.pe);
    CHECK_EQ(shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 1, t->stream), 0);
    if (late)
        check_reported(team, -1, "shmemx_signal_wait_until_on_stream");
    else
        check_silent();
    shmem_signal_set(word, 1, check_self.pe);
    CHECK_EQ(shmemx_stream_synchronize(t->stream), 0);
    CHECK_EQ(shmemx_team_free(team, word), 0);
}

static void set_timeout(shmem_team_t team, double seconds) { CHECK_EQ(shmemx_team_set_timeout(team, seconds), 0); }

static void test_refused(const struct test *t)
{
    CHECK(shmemx_team_set_timeout(SHMEM_TEAM_INVALID, 1) != 0);
    CHECK(shmemx_team_set_timeout(t->team, strtod("nan", NULL)) != 0);
}

/* The error of a team that is gone when it is told, and whose number another team has. False: on a PE the machine had
 * no time for the kernel, so there is none. */
static bool destroy_and_ask(struct test *t, const int *pes, useconds_t silence_us)
{
    shmemx_device_error_t error;
    int rc = 0;
    set_timeout(t->team, SHORT_S);
    CHECK_EQ(shmemx_device_handle(t->team, SLOT, &t->args.h), 0);
    t->args.value++;
    DEVICE_LAUNCH(wait_for_word, 1, THREADS, t->args, t->stream);
    usleep(silence_us);
    shmem_signal_set(t->args.word, t->args.value, check_self.pe);
    CHECK_EQ(shmemx_stream_synchronize(t->stream), 0);
    shmem_team_destroy(t->team);
    CHECK_OR_EXIT(shmemx_team_create(pes, check_self.npes, 2, &t->team) == 0);
    CHECK_EQ(shmemx_status(t->team, SLOT, &error), 0);
    for (int ms = 0; ms < 2000 && (rc = shmemx_device_error(&error)) == 0; ms++)
        usleep(1000);
    CHECK(rc == 0 || (error.team == SHMEM_TEAM_INVALID && error.team_slot == SLOT));
    t->told[0] = rc != 0;
    CHECK_EQ(shmem_int_min_reduce(SHMEM_TEAM_WORLD, &t->told[1], &t->told[0], 1), 0);
    return t->told[1] != 0;
}

static int test_main(void)
{
    struct test t = {.team = SHMEM_TEAM_INVALID};
    int pes[256];
    DEVICE_INIT();
    CHECK_OR_EXIT(check_self.npes <= 256);
    for (int i = 0; i < check_self.npes; i++)
        pes[i] = i;
    CHECK_OR_EXIT(shmemx_team_create(pes, check_self.npes, 1, &t.team) == 0);
    CHECK_EQ(shmemx_stream_create(&t.stream), 0);
    t.args.word = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    t.word = (uint64_t *)shmem_calloc(1, sizeof(uint64_t));
    t.told = (int *)shmem_calloc(2, sizeof(int));
    CHECK_OR_EXIT(t.args.word != NULL && t.word != NULL && t.told != NULL);

    set_timeout(t.team, SHORT_S); /* before it has a handle */
    wait_in_kernel(&t, t.team, true);
    wait_in_kernel(&t, SHMEM_TEAM_WORLD, false);
    set_timeout(t.team, 0);
    wait_in_kernel(&t, t.team, false);
    set_timeout(t.team, SHORT_S); /* and of handles that there are */
    wait_in_kernel(&t, t.team, true);
    wait_on_stream(&t, t.team, true);
    wait_for_signal(&t, t.team, true);
    set_timeout(t.team, -1);
    wait_in_kernel(&t, t.team, false);
    wait_on_stream(&t, t.team, false);
    wait_for_signal(&t, t.team, false);
    wait_on_stream(&t, SHMEM_TEAM_WORLD, false);
    set_timeout(SHMEM_TEAM_WORLD, SHORT_S);
    wait_for_signal(&t, SHMEM_TEAM_WORLD, true);
    wait_in_kernel(&t, SHMEM_TEAM_WORLD, true);
    wait_in_kernel(&t, t.team, false);
    set_timeout(SHMEM_TEAM_WORLD, -1);
    test_refused(&t);
    for (useconds_t silence_us = SILENCE_US; !destroy_and_ask(&t, pes, silence_us); silence_us *= 4)
        CHECK_OR_EXIT(silence_us < DEVICE_PATIENCE_S * 1000000u);

    shmem_team_destroy(t.team);
    CHECK_EQ(shmemx_stream_destroy(t.stream), 0);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
