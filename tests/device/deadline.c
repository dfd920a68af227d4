/* SPDX-License-Identifier: MIT */
/* A wait in a kernel that nobody ends: past SHMEM_TIMEOUT there is a record that says who waits for what, and the wait
 * goes on; after shmemx_device_abort the kernel returns, its handle is silent, the host's calls on streams say that it
 * gave up, and a collective reset repairs it. For a wait on a word, for a collective that one PE does not join, for
 * loops of the kernel's own, and for collectives that are called wrongly. Run with SHMEM_TIMEOUT of a fraction of a
 * second. */
#include "device_test.h"

enum { SLOT = 6, THREADS = 64 };

struct wait_args {
    shmemd_t h;
    uint64_t *word, *other; /* symmetric; this PE's word is waited for */
    uint64_t *told;         /* [4] status before, the wait's value, status after, what a barrier returned */
    uint64_t value;
    int32_t in_barrier; /* or which loop, which misuse */
};

SHMEMD_KERNEL(wait_for_word, struct wait_args, a)
{
    int status = shmemd_status(a.h), result = 0;
    uint64_t seen = 0;
    if (a.in_barrier != 0)
        result = shmemd_barrier_block(a.h);
    else
        seen = shmemd_signal_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, a.value);
    if (shmemd_thread_index() != 0)
        return;
    a.told[0] = (uint64_t)status;
    a.told[1] = seen;
    a.told[2] = (uint64_t)shmemd_status(a.h);
    a.told[3] = (uint64_t)result;
}

/* Loops of a kernel's own for a word that does not come, each over another call. They end by the status alone. */
enum { BY_FETCH, BY_PAUSE, BY_TEST, OWN_LOOPS };
SHMEMD_KERNEL(own_loop, struct wait_args, a)
{
    if (shmemd_thread_index() == 0)
        while (shmemd_status(a.h) == 0) {
            if (a.in_barrier == BY_FETCH && shmemd_signal_fetch(a.h, a.word) == a.value)
                break;
            if (a.in_barrier == BY_TEST && shmemd_uint64_test(a.h, a.word, SHMEM_CMP_EQ, a.value))
                break;
            shmemd_pause();
        }
    shmemd_group_sync(shmemd_block());
    uint64_t barrier = (uint64_t)shmemd_barrier_block(shmemd_lane(a.h, 0)) + 1;
    if (shmemd_thread_index() != 0)
        return;
    a.told[2] = (uint64_t)shmemd_status(a.h);
    a.told[3] = barrier;
}

/* Collectives that cannot be done, by all members alike. */
enum { NO_ROOT, ROOT_BELOW, NO_PARTNER, NO_LANE, GRID_NO_ROOT, GRID_NO_PARTNER, MISUSES };
static const char *const misuse_names[] = {"a root outside",   "a negative root",       "a partner outside",
                                           "a lane too large", "a grid's root outside", "a grid's partner outside"};
SHMEMD_KERNEL(misuse, struct wait_args, a)
{
    int n = shmemd_n_pes(a.h), me = shmemd_my_pe(a.h), rc = 0;
    if (a.in_barrier == NO_ROOT || a.in_barrier == ROOT_BELOW)
        rc = shmemd_uint64_broadcast_block(a.h, a.other, a.word, 1, a.in_barrier == NO_ROOT ? n : -1);
    else if (a.in_barrier == NO_PARTNER)
        rc = shmemd_uint64_permute_block(a.h, a.other, a.word, 1, n, (me + 1) % n);
    else if (a.in_barrier == NO_LANE)
        rc = shmemd_uint64_fcollect_block(shmemd_lane(a.h, 30000), a.other, a.word, 1);
    else if (a.in_barrier == GRID_NO_ROOT)
        rc = shmemd_uint64_broadcast_grid(a.h, a.other, a.word, 1, n + 1);
    else
        rc = shmemd_uint64_permute_grid(a.h, a.other, a.word, 1, me, -1);
    if (shmemd_thread_index() == 0)
        a.told[3] = (uint64_t)rc;
}

/* Everything that a handle does, in a ring: a signal to the next PE, a wait for the previous one, a barrier. */
SHMEMD_KERNEL(exchange, struct wait_args, a)
{
    int32_t next = ((int32_t)shmemd_my_pe(a.h) + 1) % (int32_t)shmemd_n_pes(a.h);
    if (shmemd_thread_index() == 0)
        shmemd_uint64_put_signal(a.h, a.other, &a.told[3], 1, a.word, a.value, SHMEM_SIGNAL_SET, next);
    uint64_t seen = shmemd_signal_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, a.value);
    int result = shmemd_barrier_block(a.h);
    if (shmemd_thread_index() != 0)
        return;
    a.told[0] = (uint64_t)(result != 0);
    a.told[1] = seen;
    a.told[2] = (uint64_t)shmemd_status(a.h);
}

/* On a handle that has given up: each kind of wait for a word that never comes returns, and says so where it can. */
enum { SAID_PE_WAIT = 1, SAID_ALL = 2, SAID_ANY = 4, SAID_SOME = 8, SAID_PACKET = 16, SAID_FOR = 32, SAID_FEW = 64 };
enum { SAID = 127 };
SHMEMD_KERNEL(wait_in_vain, struct wait_args, a)
{
    size_t index = 7;
    uint64_t said = SAID_ALL;
    if (shmemd_thread_index() != 0)
        return;
    shmemd_uint64_wait_until(a.h, a.word, SHMEM_CMP_EQ, a.value);
    if (shmemd_pe_signal_wait_until(a.h, a.word, SHMEM_CMP_EQ, a.value, shmemd_my_pe(a.h)) != 0)
        said |= SAID_PE_WAIT;
    shmemd_uint64_wait_until_all(a.h, a.word, 1, NULL, SHMEM_CMP_EQ, a.value);
    if (shmemd_uint64_wait_until_any(a.h, a.word, 1, NULL, SHMEM_CMP_EQ, a.value) == SIZE_MAX)
        said |= SAID_ANY;
    if (shmemd_uint64_wait_until_some(a.h, a.word, 1, &index, NULL, SHMEM_CMP_EQ, a.value) == 0)
        said |= SAID_SOME;
    if (shmemd_get_packet(a.h, &index, a.other, 8, 1) != 0)
        said |= SAID_PACKET;
    if (shmemd_uint64_wait_until_for(a.h, a.word, SHMEM_CMP_EQ, a.value, (uint64_t)1 << 50) == 0)
        said |= SAID_FOR;
    if (shmemd_uint64_max_reduce_group(a.h, shmemd_thread(), a.other, a.other, 1) != 0)
        said |= SAID_FEW;
    a.told[1] = said;
}

struct deadline {
    struct wait_args args;
    shmemx_stream_t stream, idle;
    shmemx_graph_t graph; /* that nothing waits in */
    int slot;
};

/* Until one with this mark comes; others may be on the list. */
static bool error_of(shmemx_device_error_t *error, int gave_up)
{
    do {
        if (!CHECK(device_next_error(error)))
            return false;
    } while (error->gave_up != gave_up);
    return true;
}

static void write_words(struct deadline *d)
{
    uint64_t zero[4] = {0, 0, 0, 0};
    device_write(d->args.word, zero, 8);
    device_write(d->args.other, zero, 16);
    device_write(d->args.told, zero, 32);
    shmem_barrier_all();
}

/* The wait of this PE's kernel is reported, then aborted. */
static void expire(struct deadline *d, bool in_barrier)
{
    shmemx_device_error_t error;
    uint64_t told[4];
    write_words(d);
    d->args.value = 4711;
    d->args.in_barrier = in_barrier;
    DEVICE_LAUNCH(wait_for_word, 1, THREADS, d->args, d->stream);
    if (error_of(&error, 0)) {
        CHECK_NAMED(strstr(error.call, in_barrier ? "shmemd_barrier" : "shmemd_signal_wait_until") != NULL, error.call);
        CHECK_EQ(error.team_slot, d->slot);
        CHECK(error.waited_seconds >= 0.1 && error.waited_seconds < DEVICE_PATIENCE_S);
        CHECK_EQ(error.block, 0);
        CHECK(in_barrier || error.addr == (const void *)d->args.word);
        CHECK(in_barrier || (error.expected == 4711 && error.seen == 0));
    }
    shmem_barrier_all(); /* all have been late */
    CHECK_EQ(shmemx_stream_synchronize(d->idle), 0);
    shmemx_device_abort();
    CHECK(shmemx_stream_synchronize(d->stream) != 0);
    CHECK(shmemx_stream_synchronize(d->idle) != 0);
    CHECK(shmemx_graph_launch(d->graph, d->idle) != 0);
    if (error_of(&error, 1))
        CHECK_EQ(error.team_slot, d->slot);
    device_read(told, d->args.told, sizeof(told));
    CHECK_EQ(told[0], 0);
    CHECK(in_barrier ? told[3] != 0 : told[1] == 0);
    CHECK(told[2] != 0);
    shmem_barrier_all();
}

/* On the dead handle nothing waits, and nobody is told anything. */
static void stay_silent(struct deadline *d)
{
    uint64_t told[4], word;
    write_words(d);
    d->args.value = 815;
    DEVICE_LAUNCH(exchange, 1, THREADS, d->args, d->stream);
    CHECK(shmemx_stream_synchronize(d->stream) != 0);
    shmem_barrier_all();
    device_read(told, d->args.told, sizeof(told));
    device_read(&word, d->args.word, 8);
    CHECK(told[0] != 0);
    CHECK(told[2] != 0);
    CHECK_EQ(word, 0);
    DEVICE_LAUNCH(wait_in_vain, 1, THREADS, d->args, d->stream);
    CHECK(shmemx_stream_synchronize(d->stream) != 0);
    device_read(told, d->args.told, sizeof(told));
    CHECK_EQ(told[1], SAID);
}

static void reset(struct deadline *d)
{
    shmemx_device_error_t error;
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, d->slot), 0);
    CHECK_EQ(shmemx_stream_synchronize(d->idle), 0);
    while (shmemx_device_error(&error) != 0)
        continue;
}

static void recover(struct deadline *d)
{
    uint64_t told[4];
    reset(d);
    CHECK_EQ(shmemx_graph_launch(d->graph, d->idle), 0);
    CHECK_EQ(shmemx_stream_synchronize(d->idle), 0);
    for (uint64_t round = 1; round <= 5; round++) {
        write_words(d);
        d->args.value = round;
        DEVICE_LAUNCH(exchange, 1, THREADS, d->args, d->stream);
        CHECK_EQ(shmemx_stream_synchronize(d->stream), 0);
        device_read(told, d->args.told, sizeof(told));
        CHECK_EQ(told[0], 0);
        CHECK_EQ(told[1], round);
        CHECK_EQ(told[2], 0);
        shmem_barrier_all();
    }
}

/* Only PE 0 is late: the others report that they wait for it, nothing is aborted, and all goes well in the end. */
static void late_only(struct deadline *d)
{
    shmemx_device_error_t error;
    uint64_t told[4];
    int n = shmem_n_pes();
    write_words(d);
    d->args.in_barrier = 1;
    if (shmem_my_pe() == 0) {
        DEVICE_LAUNCH(wait_for_word, 1, THREADS, d->args, d->stream);
        if (error_of(&error, 0))
            CHECK(error.pe > 0 && error.pe < n);
    }
    shmem_barrier_all();
    if (shmem_my_pe() != 0)
        DEVICE_LAUNCH(wait_for_word, 1, THREADS, d->args, d->stream);
    CHECK_EQ(shmemx_stream_synchronize(d->stream), 0);
    device_read(told, d->args.told, sizeof(told));
    CHECK_EQ(told[2], 0);
    CHECK_EQ(told[3], 0);
    shmem_barrier_all();
}

/* Every PE's kernel hangs in a barrier: of n PEs, one does not come. */
static void barrier_expires(struct deadline *d)
{
    int missing = shmem_n_pes() - 1;
    shmemx_device_error_t error;
    if (shmem_my_pe() != missing) {
        expire(d, true);
        return;
    }
    write_words(d);
    shmem_barrier_all();
    shmemx_device_abort();
    shmem_barrier_all();
    while (shmemx_device_error(&error) != 0)
        continue;
}

/* Nothing but the status tells such a loop that the word will not come. */
static void own_loops_end(struct deadline *d)
{
    uint64_t told[4];
    for (int way = 0; way < OWN_LOOPS; way++) {
        write_words(d);
        d->args.value = 4711;
        d->args.in_barrier = way;
        DEVICE_LAUNCH(own_loop, 1, THREADS, d->args, d->stream);
        usleep(2000);
        shmemx_device_abort();
        CHECK(shmemx_stream_synchronize(d->stream) != 0);
        device_read(told, d->args.told, sizeof(told));
        CHECK(told[2] != 0 && told[3] > 1);
        reset(d);
    }
}

/* The host hears of results that are missing. */
static void misuse_is_told(struct deadline *d)
{
    shmemx_device_error_t error;
    uint64_t told[4];
    for (int what = 0; what < MISUSES; what++) {
        write_words(d);
        d->args.in_barrier = what;
        DEVICE_LAUNCH(misuse, 1, THREADS, d->args, d->stream);
        CHECK_NAMED(shmemx_stream_synchronize(d->stream) != 0, misuse_names[what]);
        CHECK_NAMED(shmemx_stream_synchronize(d->idle) != 0, misuse_names[what]);
        device_read(told, d->args.told, sizeof(told));
        CHECK_NAMED(told[3] != 0, misuse_names[what]);
        if (error_of(&error, 2))
            CHECK_EQ_NAMED(error.team_slot, d->slot, misuse_names[what]);
        CHECK_EQ_NAMED(shmemx_status(SHMEM_TEAM_WORLD, d->slot, &error), 1, misuse_names[what]);
        CHECK_EQ_NAMED(error.gave_up, 2, misuse_names[what]);
        stay_silent(d);
        reset(d);
    }
    recover(d);
}

static void make_graph(struct deadline *d)
{
    CHECK_OR_EXIT(shmemx_stream_create(&d->stream) == 0 && shmemx_stream_create(&d->idle) == 0);
    CHECK_OR_EXIT(shmemx_graph_begin(d->idle) == 0);
    CHECK_OR_EXIT(shmemx_quiet_on_stream(d->idle) == 0);
    CHECK_OR_EXIT(shmemx_graph_end(d->idle, &d->graph) == 0);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct deadline d;
    memset(&d, 0, sizeof(d));
    d.slot = SLOT;
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, SLOT, &d.args.h) == 0);
    d.args.word = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    d.args.other = (uint64_t *)shmemx_calloc(2, 8, SHMEMX_DEVICE); /* or an area of a packet */
    d.args.told = (uint64_t *)shmemx_calloc(4, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(d.args.word != NULL && d.args.other != NULL && d.args.told != NULL);
    make_graph(&d);
    for (int round = 0; round < 2; round++) {
        expire(&d, false);
        stay_silent(&d);
        recover(&d);
        if (shmem_n_pes() > 1) {
            late_only(&d);
            barrier_expires(&d);
            recover(&d);
        }
    }
    own_loops_end(&d);
    misuse_is_told(&d);
    CHECK_EQ(shmemx_graph_destroy(d.graph), 0);
    CHECK_EQ(shmemx_stream_destroy(d.idle), 0);
    CHECK_EQ(shmemx_stream_destroy(d.stream), 0);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
