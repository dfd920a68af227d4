/* SPDX-License-Identifier: MIT */
/* Sends and receives that do not fit: a receive without a send is reported past SHMEM_TIMEOUT and still ends when
 * its message comes; after shmemx_device_abort it gives up, calls of that tag do nothing, and a reset repairs the pair;
 * a message of another length than its receive is an error there, never a byte in dest, and the sender goes on.
 * Run with SHMEM_TIMEOUT of a fraction of a second. */
#include "coll_case.h"

enum { MOST = 300000, TAG = 4 };

struct pair_errors {
    struct buffer dest, source;
    shmemx_stream_t stream;
    unsigned round;
};

/* From the last PE to PE 0. */
static int sender(void) { return shmem_n_pes() - 1; }

static void prepare(struct pair_errors *p, size_t bytes)
{
    buffer_begin(&p->source, MEMORY_OWN, bytes);
    buffer_begin(&p->dest, MEMORY_OWN, MOST);
    check_fill(buffer_image(&p->source), bytes, sender(), 0, ++p->round);
    buffer_upload(&p->source);
    buffer_upload(&p->dest);
}
static void send(struct pair_errors *p, size_t bytes, int tag)
{
    if (shmem_my_pe() == sender())
        CHECK_EQ(shmemx_send_on_stream(SHMEM_TEAM_WORLD, buffer_data(&p->source), bytes, 0, tag, p->stream), 0);
}
static void receive(struct pair_errors *p, size_t bytes, int tag)
{
    if (shmem_my_pe() == 0)
        CHECK_EQ(shmemx_recv_on_stream(SHMEM_TEAM_WORLD, buffer_data(&p->dest), bytes, sender(), tag, p->stream), 0);
}
static void check_came(struct pair_errors *p, size_t bytes, const char *what)
{
    if (shmem_my_pe() == 0)
        check_fill(buffer_image(&p->dest), bytes, sender(), 0, p->round);
    (void)buffer_check(&p->dest, what);
}

static void works(struct pair_errors *p, size_t bytes, const char *what)
{
    prepare(p, bytes);
    send(p, bytes, TAG);
    receive(p, bytes, TAG);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(p->stream), 0, what);
    check_came(p, bytes, what);
    shmem_barrier_all();
}

/* The next record with this mark. */
static void expect_record(int gave_up, const char *call, int pe)
{
    shmemx_device_error_t error;
    do {
        if (!CHECK_NAMED(device_next_error(&error), "a record comes in time"))
            return;
    } while (error.gave_up != gave_up);
    CHECK_NAMED(strcmp(error.call, call) == 0, "the record names the call");
    CHECK_EQ_NAMED(error.pe, pe, "the PE that is waited for");
}

static void test_late(struct pair_errors *p)
{
    prepare(p, 1000);
    receive(p, 1000, TAG);
    if (shmem_my_pe() == 0)
        expect_record(0, "shmemx_recv_on_stream", sender());
    shmem_barrier_all();
    send(p, 1000, TAG);
    CHECK_EQ(shmemx_stream_synchronize(p->stream), 0);
    check_came(p, 1000, "a message that comes late");
    shmem_barrier_all();
}

/* More than is kept: the sender waits. */
static void test_late_receive(struct pair_errors *p)
{
    prepare(p, MOST);
    send(p, MOST, TAG + 1);
    if (shmem_my_pe() == sender())
        expect_record(0, "shmemx_send_on_stream", 0);
    shmem_barrier_all();
    receive(p, MOST, TAG + 1);
    CHECK_EQ(shmemx_stream_synchronize(p->stream), 0);
    check_came(p, MOST, "a receive that comes late");
    shmem_barrier_all();
}

static void reset(void)
{
    shmem_barrier_all();
    CHECK_EQ(shmemx_device_reset(SHMEM_TEAM_WORLD, 0), 0);
    shmemx_device_error_t error;
    while (shmemx_device_error(&error) != 0)
        continue;
    shmem_barrier_all();
}

static void test_given_up(struct pair_errors *p)
{
    prepare(p, 1000);
    receive(p, 1000, TAG);
    if (shmem_my_pe() == 0)
        expect_record(0, "shmemx_recv_on_stream", sender());
    shmem_barrier_all();
    shmemx_device_abort();
    int rc = shmemx_stream_synchronize(p->stream);
    CHECK_NAMED(shmem_my_pe() != 0 || rc != 0, "the host's wait returns nonzero when a receive has given up");
    receive(p, 1000, TAG);
    rc = shmemx_stream_synchronize(p->stream);
    CHECK_NAMED(shmem_my_pe() != 0 || rc != 0, "and for each call until the reset");
    (void)buffer_check(&p->dest, "dest of a receive that has given up");
    reset();
    works(p, 1000, "after a reset");
    works(p, MOST, "after a reset, a long message");
}

static void test_lengths(struct pair_errors *p, size_t sent, size_t received)
{
    char what[100];
    snprintf(what, sizeof what, "%zu bytes sent, %zu received", sent, received);
    prepare(p, sent);
    send(p, sent, TAG);
    receive(p, received, TAG);
    int rc = shmemx_stream_synchronize(p->stream);
    CHECK_NAMED((rc != 0) == (shmem_my_pe() == 0), what);
    if (shmem_my_pe() == 0)
        expect_record(2, "shmemx_recv_on_stream", sender());
    (void)buffer_check(&p->dest, what);
    reset();
    works(p, 70000, what);
}

static int test_main(void)
{
    static const size_t lengths[][2] = {{0, 1},      {8, 0},      {100, 101},       {16384, 16385},
                                        {100, MOST}, {MOST, 100}, {MOST, MOST - 1}};
    COLL_INIT();
    struct pair_errors p;
    memset(&p, 0, sizeof p);
    buffer_make(&p.dest, MOST + 256);
    buffer_make(&p.source, MOST + 256);
    CHECK_OR_EXIT(shmemx_stream_create(&p.stream) == 0);
    works(&p, 1000, "the first");
    test_late(&p);
    test_late_receive(&p);
    test_given_up(&p);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        test_lengths(&p, lengths[i][0], lengths[i][1]);
    CHECK_EQ(shmemx_stream_destroy(p.stream), 0);
    shmem_barrier_all();
    buffer_drop(&p.source);
    buffer_drop(&p.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
