/* SPDX-License-Identifier: MIT */
/* What a group call has synchronised when it returns, as the table in shmem_device.h says: each thread leaves a mark
 * before the call, some of them late, and must see the marks of its whole group behind it. And the shape of a ported
 * all-to-all: non-blocking puts by the block between two syncs, then fence and signal by one thread. */
#include "device_test.h"

enum { THREADS = 130, BYTES = 1000, PACKET = 2 * BYTES + 16, ROUNDS = 10 };

#define ENDS(X)                                                                                             \
    X(put, (shmemd_putmem_group(a.h, g, to, from, BYTES, me)))                                              \
    X(get, (shmemd_getmem_group(a.h, g, to, from, BYTES, me)))                                              \
    X(iput, (shmemd_iput8_group(a.h, g, to, from, 1, 1, BYTES, me)))                                        \
    X(iget, (shmemd_iget8_group(a.h, g, to, from, 1, 1, BYTES, me)))                                        \
    X(put_signal, (shmemd_putmem_signal_group(a.h, g, to, from, BYTES, word, 1, SHMEM_SIGNAL_SET, me)))     \
    X(put_signal_nbi, (shmemd_putmem_signal_nbi_group(a.h, g, to, from, 9, word, 1, SHMEM_SIGNAL_SET, me))) \
    X(put_packet, (shmemd_put_packet_group(a.h, g, to, from, 100, a.round, me)))                            \
    X(get_packet, ((void)shmemd_get_packet_group(a.h, g, from, a.packet + unit * PACKET, 0, a.round)))      \
    X(wait_until, (shmemd_uint64_wait_until_group(a.h, g, word, SHMEM_CMP_GE, 0)))                          \
    X(signal_wait_until, ((void)shmemd_signal_wait_until_group(a.h, g, word, SHMEM_CMP_GE, 0)))             \
    X(fence, (shmemd_fence_group(a.h, g)))                                                                  \
    X(quiet, (shmemd_quiet_group(a.h, g)))                                                                  \
    X(pe_quiet, (shmemd_pe_quiet_group(a.h, g, &a.pe, 1)))                                                  \
    X(barrier, ((void)shmemd_barrier_block(a.h)))                                                           \
    X(sync, ((void)shmemd_sync_block(a.h)))                                                                 \
    X(fcollect, ((void)shmemd_fcollectmem_block(a.h, a.all, from, 8)))                                      \
    X(fcollect_nothing, ((void)shmemd_fcollectmem_block(a.h, a.all, from, 0)))
#define END(name, ...) END_##name,
enum end { ENDS(END) END_COUNT };
#undef END
#define END(name, ...) #name,
static const char *const end_names[] = {ENDS(END)};
#undef END

struct end_args {
    shmemd_t h;
    char *packet, *source, *all; /* symmetric; a part for each unit */
    uint64_t *words, *marks, *missed;   /* [THREADS] each; words are symmetric */
    uint32_t round;
    int32_t form, end, pe;
};

SHMEMD_KERNEL(end_together, struct end_args, a)
{
    const shmemd_group_t g = form_group(a.form);
    const uint32_t t = shmemd_thread_index(), first = t - (uint32_t)shmemd_group_rank(g), me = (uint32_t)a.pe;
    const int32_t unit = form_unit(a.form);
    char *to = a.packet + unit * PACKET, *from = a.source + unit * PACKET;
    uint64_t *word = a.words + unit;
    uint64_t missed = 0;
    form_dawdle(form_mix(t, a.round) % 5);
    prim_store_relaxed_u64(&a.marks[t], a.round);
#define END(name, call)       \
    if (a.end == END_##name)  \
        call;
    ENDS(END)
#undef END
    for (uint32_t i = 0; i < (uint32_t)shmemd_group_size(g); i++)
        missed += prim_load_relaxed_u64(&a.marks[first + i]) != a.round;
    a.missed[t] += missed;
}

/* From PE to PE one message each, by the block of that number; the data is made by all threads. */
struct exchange_args {
    shmemd_t h;
    uint32_t *send, *other, *inbox; /* [n_pes][WORDS]; inbox [n_pes][2][WORDS] symmetric */
    uint64_t *signals;              /* [n_pes] symmetric */
    uint64_t *wrong;
    uint32_t round;
};
enum { WORDS = 400 };

SHMEMD_FN uint32_t word_of(uint32_t from, uint32_t to, uint32_t round, uint32_t i)
{
    return form_mix(from * 64 + to, round * 1000 + i);
}

SHMEMD_KERNEL(exchange_by_two_puts, struct exchange_args, a)
{
    const uint32_t me = (uint32_t)shmemd_my_pe(a.h), peer = shmemd_block_index(), size = shmemd_block_size();
    const uint32_t t = shmemd_thread_index();
    uint32_t *first = a.send + peer * WORDS, *second = a.other + peer * WORDS;
    for (uint32_t i = t; i < WORDS; i += size) {
        first[i] = word_of(me, peer, a.round, i);
        second[i] = ~first[i];
    }
    shmemd_group_sync(shmemd_block());
    shmemd_putmem_nbi_block(a.h, a.inbox + (me * 2) * WORDS, first, WORDS * 4, (int)peer);
    shmemd_putmem_nbi_block(a.h, a.inbox + (me * 2 + 1) * WORDS, second, WORDS * 4, (int)peer);
    shmemd_group_sync(shmemd_block());
    if (t == 0) {
        shmemd_fence(a.h);
        shmemd_signal_op(a.h, a.signals + me, a.round, SHMEM_SIGNAL_SET, (int)peer);
    }
    (void)shmemd_signal_wait_until_block(a.h, a.signals + peer, SHMEM_CMP_EQ, a.round);
    uint64_t wrong = 0;
    for (uint32_t i = t; i < WORDS; i += size) {
        wrong += a.inbox[peer * 2 * WORDS + i] != word_of(peer, me, a.round, i);
        wrong += a.inbox[(peer * 2 + 1) * WORDS + i] != ~word_of(peer, me, a.round, i);
    }
    a.wrong[peer * size + t] += wrong;
}

static void *symmetric(size_t bytes)
{
    void *p = shmemx_calloc(1, bytes, SHMEMX_DEVICE);
    CHECK_OR_EXIT(p != NULL);
    return p;
}

static void test_ends(void)
{
    struct end_args a;
    uint64_t missed[THREADS], zero[THREADS] = {0};
    memset(&a, 0, sizeof(a));
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 1, &a.h) == 0);
    a.pe = shmem_my_pe();
    a.packet = (char *)symmetric((size_t)THREADS * PACKET);
    a.source = (char *)symmetric((size_t)THREADS * PACKET);
    a.all = (char *)symmetric((size_t)shmem_n_pes() * 8);
    a.words = (uint64_t *)symmetric(sizeof(missed));
    a.marks = (uint64_t *)symmetric(sizeof(missed));
    a.missed = (uint64_t *)symmetric(sizeof(missed));
    for (a.end = 0; a.end < END_COUNT; a.end++)
        for (a.form = a.end < END_barrier ? FORM_WAVE : FORM_BLOCK; a.form < FORM_COUNT; a.form++) {
            uint64_t all = 0;
            device_write(a.missed, zero, sizeof(zero));
            for (int i = 0; i < ROUNDS; i++) {
                a.round++;
                DEVICE_LAUNCH(end_together, 1, THREADS, a, NULL);
            }
            CHECK_OR_EXIT(shmemx_stream_synchronize(NULL) == 0);
            device_read(missed, a.missed, sizeof(missed));
            for (int t = 0; t < THREADS; t++)
                all += missed[t];
            CHECK_EQ_NAMED(all, 0, end_names[a.end]);
        }
}

static void test_exchange(void)
{
    struct exchange_args a;
    const int n = shmem_n_pes();
    const size_t threads = (size_t)n * THREADS;
    uint64_t *wrong = (uint64_t *)malloc(threads * 8), all = 0;
    memset(&a, 0, sizeof(a));
    CHECK_OR_EXIT(wrong != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 1, &a.h) == 0);
    a.send = (uint32_t *)symmetric((size_t)n * WORDS * 4);
    a.other = (uint32_t *)symmetric((size_t)n * WORDS * 4);
    a.inbox = (uint32_t *)symmetric((size_t)n * 2 * WORDS * 4);
    a.signals = (uint64_t *)symmetric((size_t)n * 8);
    a.wrong = (uint64_t *)symmetric(threads * 8);
    for (a.round = 1; a.round <= ROUNDS; a.round++) {
        DEVICE_RUN(exchange_by_two_puts, (unsigned)n, THREADS, a);
        shmem_barrier_all();
    }
    device_read(wrong, a.wrong, threads * 8);
    for (size_t i = 0; i < threads; i++)
        all += wrong[i];
    CHECK_EQ_NAMED(all, 0, "an all-to-all by two puts, fence and signal");
    free(wrong);
}

static int test_main(void)
{
    DEVICE_INIT();
    test_ends();
    test_exchange();
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
