/* SPDX-License-Identifier: MIT */
/* A kernel sends and ends without a quiet of its own. The host's fence, quiet, barrier, lock and finalize behind the end
 * of the kernel complete what it has sent, by pointer and by the ring alike; and a quiet of the host does not wait for
 * what a kernel that goes on posts later. */
#include "device_test.h"

enum { THREADS = 64, WORDS = 4096, ROUNDS = 5, PUTS = 250, BUFFER = 16 * 4096 };
/* While a kernel goes on posting, each waits for a ring full of copies, which a GPU makes one by one. */
enum { QUIETS = 3 };

enum sent { SENT_P, SENT_PUT, SENT_PUT_NBI, SENT_ATOMIC, SENT_PUT_SIGNAL, SENT_COUNT };
enum completed { BY_BARRIER_ALL, BY_QUIET, BY_CTX_QUIET, BY_PE_QUIET, BY_BARRIER, BY_FENCE, BY_LOCK, BY_COUNT };
static const char *const sent_names[] = {"p", "put", "put_nbi", "atomic_set", "put_signal"};
static const char *const completed_names[] = {"barrier_all", "quiet",          "ctx_quiet", "pe_quiet",
                                              "barrier",     "fence and a set", "clear_lock"};

struct send_args {
    shmemd_t h;
    uint64_t *dest; /* [WORDS] symmetric, as the next two */
    const uint64_t *source;
    uint64_t *word;
    uint64_t value;
    int32_t sent, pe;
};

SHMEMD_KERNEL(send_and_end, struct send_args, a)
{
    if (a.sent == SENT_PUT)
        shmemd_uint64_put_block(a.h, a.dest, a.source, WORDS, a.pe);
    else if (a.sent == SENT_PUT_NBI)
        shmemd_uint64_put_nbi_block(a.h, a.dest, a.source, WORDS, a.pe);
    else if (a.sent == SENT_PUT_SIGNAL)
        shmemd_uint64_put_signal_block(a.h, a.dest, a.source, WORDS, a.word, a.value, SHMEM_SIGNAL_SET, a.pe);
    else if (shmemd_thread_index() == 0 && a.sent == SENT_ATOMIC)
        shmemd_uint64_atomic_set(a.h, a.word, a.value, a.pe);
    else if (shmemd_thread_index() == 0)
        shmemd_uint64_p(a.h, a.word, a.value, a.pe);
}

struct bench {
    struct send_args args;
    uint64_t *flag;
    long *lock, *p_sync;
    int previous;
};

/* The calling PE's kernel has ended. When this returns on the next PE, what the kernel has sent must be there. */
static void complete(const struct bench *b, enum completed by)
{
    int next = b->args.pe;
    switch (by) {
    case BY_BARRIER_ALL:
        shmem_barrier_all();
        return;
    case BY_BARRIER:
        shmem_barrier(0, 0, shmem_n_pes(), b->p_sync);
        return;
    case BY_FENCE:
        shmem_fence();
        shmem_uint64_atomic_set(b->flag, b->args.value, next);
        shmem_uint64_wait_until(b->flag, SHMEM_CMP_EQ, b->args.value);
        return;
    case BY_QUIET:
        shmem_quiet();
        break;
    case BY_CTX_QUIET:
        shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
        break;
    case BY_PE_QUIET:
        shmem_pe_quiet(&next, 1);
        break;
    default:
        shmem_set_lock(b->lock);
        shmem_clear_lock(b->lock);
    }
    shmem_sync_all();
}

static void run_case(struct bench *b, enum sent sent, enum completed by, unsigned round)
{
    struct send_args *a = &b->args;
    uint64_t values[WORDS], seen[WORDS], word;
    char what[64];
    snprintf(what, sizeof what, "%s completed by %s", sent_names[sent], completed_names[by]);
    a->sent = sent;
    a->value = 1 + (((uint64_t)round * BY_COUNT + by) * SENT_COUNT + sent);
    for (size_t i = 0; i < WORDS; i++)
        values[i] = a->value * WORDS + i;
    device_write((void *)(uintptr_t)a->source, values, sizeof values);
    shmem_barrier_all();
    DEVICE_RUN(send_and_end, 1, THREADS, *a);
    complete(b, by);
    device_read(&word, a->word, sizeof word);
    device_read(seen, a->dest, sizeof seen);
    if (sent != SENT_PUT && sent != SENT_PUT_NBI)
        CHECK_EQ_NAMED(word, a->value, what);
    if (sent != SENT_P && sent != SENT_ATOMIC)
        CHECK_BYTES_NAMED((unsigned char *)seen, (unsigned char *)values, sizeof seen, what);
    shmem_barrier_all();
}

static void test_cases(const struct device_team *world)
{
    struct bench b;
    memset(&b, 0, sizeof b);
    b.args.h = world->handle;
    b.args.pe = (world->me + 1) % world->n;
    b.args.dest = (uint64_t *)shmemx_calloc(WORDS, 8, SHMEMX_DEVICE);
    b.args.source = (uint64_t *)shmemx_calloc(WORDS, 8, SHMEMX_DEVICE);
    b.args.word = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    b.flag = (uint64_t *)shmem_calloc(1, 8);
    b.lock = (long *)shmem_calloc(1, sizeof(long));
    b.p_sync = (long *)shmem_malloc(SHMEM_BARRIER_SYNC_SIZE * sizeof(long));
    CHECK_OR_EXIT(b.args.dest != NULL && b.args.source != NULL && b.args.word != NULL && b.flag != NULL &&
                  b.lock != NULL && b.p_sync != NULL);
    for (int i = 0; i < SHMEM_BARRIER_SYNC_SIZE; i++)
        b.p_sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    for (unsigned round = 0; round < ROUNDS; round++)
        for (int sent = 0; sent < SENT_COUNT; sent++)
            for (int by = 0; by < BY_COUNT; by++)
                run_case(&b, (enum sent)sent, (enum completed)by, round);
    shmem_free(b.p_sync);
    shmem_free(b.lock);
    shmem_free(b.flag);
    shmemx_free(b.args.word);
    shmemx_free((void *)(uintptr_t)b.args.source);
    shmemx_free(b.args.dest);
}

struct go_on_args {
    shmemd_t h;
    uint64_t *words; /* symmetric: [0] what is sent to, [1] not 0: the kernel ends, [2] 1: it has begun */
    int32_t pe;
};

SHMEMD_KERNEL(send_and_go_on, struct go_on_args, a)
{
    shmemd_uint64_p(a.h, &a.words[2], 1, shmemd_my_pe(a.h));
    for (uint64_t n = 1; shmemd_signal_fetch(a.h, &a.words[1]) == 0; n++)
        shmemd_uint64_p(a.h, a.words, n, a.pe);
}

/* The ring is never empty meanwhile, so a quiet that waited for all of it would never end. */
static void test_goes_on(const struct device_team *world)
{
    struct go_on_args a;
    shmemx_stream_t stream;
    memset(&a, 0, sizeof a);
    a.h = world->handle;
    a.pe = (world->me + 1) % world->n;
    a.words = (uint64_t *)shmemx_calloc(3, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.words != NULL && shmemx_stream_create(&stream) == 0);
    shmem_barrier_all();
    DEVICE_LAUNCH(send_and_go_on, 1, 1, a, stream);
    shmem_uint64_wait_until(&a.words[2], SHMEM_CMP_EQ, 1);
    for (int i = 0; i < QUIETS; i++)
        shmem_quiet();
    shmem_uint64_p(&a.words[1], 1, world->me);
    shmem_quiet();
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    shmem_barrier_all();
    shmemx_free(a.words);
}

struct last_args {
    shmemd_t h;
    char *dest; /* symmetric, as the source: BUFFER bytes; the last 8 are sent at last */
    const char *source;
    int32_t pe;
};

SHMEMD_KERNEL(send_much_and_end, struct last_args, a)
{
    for (int i = 0; i < PUTS; i++)
        shmemd_putmem_nbi(a.h, a.dest, a.source, BUFFER - 8, a.pe);
    shmemd_uint64_p(a.h, (uint64_t *)(void *)(a.dest + BUFFER - 8), 77, a.pe);
}

/* A kernel is the last thing of the program; its dest is memory of the program's own, which outlives the job. */
static int test_finalize(const struct device_team *world)
{
    struct last_args a;
    uint64_t *buffer = (uint64_t *)aligned_alloc(4096, BUFFER);
    CHECK_OR_EXIT(buffer != NULL);
    memset(buffer, 0, BUFFER);
    memset(&a, 0, sizeof a);
    a.source = (const char *)shmemx_calloc(1, BUFFER, SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.source != NULL && shmemx_buffer_register(buffer, BUFFER, NULL) == 0);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    a.dest = (char *)buffer;
    a.pe = (world->me + 1) % world->n;
    DEVICE_LAUNCH(send_much_and_end, 1, 1, a, NULL);
    shmem_finalize();
    CHECK_EQ(buffer[BUFFER / 8 - 1], 77);
    free(buffer);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

static int test_main(void)
{
    DEVICE_INIT();
    struct device_team world;
    device_team_open(&world, SHMEM_TEAM_WORLD, 0);
    test_cases(&world);
    test_goes_on(&world);
    return test_finalize(&world);
}
CHECK_MAIN(test_main)
