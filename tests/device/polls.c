/* SPDX-License-Identifier: MIT */
/* Loops that a kernel polls in by itself, over each call that looks: what they wait for is stored by another thread of
 * the block, by another block, by a host or by another PE's kernel, and comes. Where threads run in turn, a loop that
 * kept the others from running would never end. */
#include "device_test.h"

enum { THREADS = 160 /* more than a wave */, SETTER = 133, MANY = 100 };

#define WAYS(X)                                                                                      \
    X(TEST, !shmemd_uint64_test(a.h, word, SHMEM_CMP_EQ, 1))                                         \
    X(TEST_TRUE, shmemd_uint64_test(a.h, word, SHMEM_CMP_EQ, 0))                                     \
    X(TEST_ALL, !shmemd_uint64_test_all(a.h, word, 1, none, SHMEM_CMP_EQ, 1))                        \
    X(TEST_ANY, shmemd_uint64_test_any(a.h, a.words, MANY, none, SHMEM_CMP_EQ, 1) == SIZE_MAX)       \
    X(TEST_SOME, shmemd_uint64_test_some(a.h, word, 1, &index, none, SHMEM_CMP_EQ, 1) == 0)          \
    X(SIGNAL_FETCH, shmemd_signal_fetch(a.h, word) != 1)                                             \
    X(MANY_SIGNALS, shmemd_signal_fetch(a.h, &a.words[turn++ % MANY]) != 1)                          \
    X(FETCH, shmemd_uint64_atomic_fetch(a.h, word, me) != 1)                                         \
    X(COMPARE_SWAP, shmemd_uint64_atomic_compare_swap(a.h, word, 1, 2, me) != 1)                     \
    X(SWAP, shmemd_uint64_atomic_swap(a.h, lock, 7, me) != 1)                                        \
    X(FETCH_OR, (shmemd_uint64_atomic_fetch_or(a.h, lock, 2, me) & 1) == 0)                          \
    X(G, shmemd_uint64_g(a.h, word, me) != 1)                                                        \
    X(GET, (shmemd_uint64_get(a.h, a.got, word, 1, me), a.got[0] != 1))                              \
    X(GET_LONG, (shmemd_uint64_get(a.h, a.got, a.words, MANY, me), a.got[MANY - 1] != 1))            \
    X(IGET, (shmemd_uint64_iget(a.h, a.got, a.words, 1, MANY - 1, 2, me), a.got[1] != 1))            \
    X(PAUSE, prim_load_relaxed_u64(word) != 1 && (shmemd_pause(), 1))                                \
    X(CLOCK, prim_load_relaxed_u64(word) != 1 && shmemd_clock_ns() != 0)                             \
    X(QUIET, prim_load_relaxed_u64(word) != 1 && (shmemd_quiet(a.h), 1))                             \
    X(FENCE, prim_load_relaxed_u64(word) != 1 && (shmemd_fence(a.h), 1))                             \
    X(STATUS, prim_load_relaxed_u64(word) != 1 && shmemd_status(a.h) == 0)
#define WAY(name, ...) WAY_##name,
enum way { WAYS(WAY) WAY_COUNT };
#undef WAY
#define WAY(name, ...) #name,
static const char *const way_names[] = {WAYS(WAY)};
#undef WAY

enum by { BY_THREAD, BY_BLOCK, BY_HOST, BY_PEER, BY_COUNT };
static const char *const by_names[] = {"a thread", "a block", "the host", "a peer"};

struct poll_args {
    shmemd_t h;
    uint64_t *words; /* [MANY] symmetric; the last one is polled */
    uint64_t *got;   /* [MANY] */
    int32_t way, by;
};

SHMEMD_KERNEL(poll_word, struct poll_args, a)
{
    const int me = shmemd_my_pe(a.h), *none = (const int *)0;
    uint64_t *word = &a.words[MANY - 1], *lock = word;
    size_t index = 0;
    uint32_t turn = 0, setter = a.by == BY_THREAD ? 0 : 1;
    int32_t to = a.by == BY_PEER ? (me + 1) % (int32_t)shmemd_n_pes(a.h) : me;
    (void)index;
    if (shmemd_block_index() == 0 && shmemd_thread_index() == 0) {
#define WAY(name, ...)        \
    if (a.way == WAY_##name)  \
        while (__VA_ARGS__) { \
        }
        WAYS(WAY)
#undef WAY
        (void)turn;
    }
    if (a.by != BY_HOST && shmemd_block_index() == setter && shmemd_thread_index() == SETTER)
        shmemd_uint64_p(a.h, word, 1, to);
}

/* A get is no atomic access: its bytes may come one by one, which ThreadSanitizer reports beside a p. */
static bool is_race(int way)
{
#ifdef __SANITIZE_THREAD__
    return way == WAY_GET || way == WAY_GET_LONG || way == WAY_IGET;
#else
    (void)way;
    return false;
#endif
}

static void check_way(struct poll_args *a, int way, int by)
{
    char what[64];
    uint64_t zero[MANY] = {0}, last;
    snprintf(what, sizeof(what), "%s, set by %s", way_names[way], by_names[by]);
    device_write(a->words, zero, sizeof(zero));
    shmem_barrier_all();
    a->way = way;
    a->by = by;
    DEVICE_LAUNCH(poll_word, 2, THREADS, *a, NULL);
    if (by == BY_HOST)
        shmem_uint64_atomic_set(&a->words[MANY - 1], 1, shmem_my_pe());
    CHECK_NAMED(shmemx_stream_synchronize(NULL) == 0, what);
    device_read(&last, &a->words[MANY - 1], 8);
    CHECK_NAMED(last == (way == WAY_COMPARE_SWAP ? 2u : way == WAY_SWAP ? 7u : way == WAY_FETCH_OR ? 3u : 1u), what);
    shmem_barrier_all();
}

static int test_main(void)
{
    DEVICE_INIT();
    struct poll_args a;
    memset(&a, 0, sizeof(a));
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    a.words = (uint64_t *)shmemx_calloc(MANY, 8, SHMEMX_DEVICE);
    a.got = (uint64_t *)shmemx_calloc(MANY, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.words != NULL && a.got != NULL);
    for (int way = 0; way < WAY_COUNT; way++)
        for (int by = 0; by < BY_COUNT && !is_race(way); by++)
            check_way(&a, way, by);
    shmemx_free(a.got);
    shmemx_free(a.words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
