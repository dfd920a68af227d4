/* SPDX-License-Identifier: MIT */
/* The fence of one thread, behind a sync, covers what the other threads have issued: all of the block sends to the next
 * PE, its calls or shmemd_group_sync synchronise it, then one thread fences and signals. The receiver looks at all of
 * it. On gfx9 a barrier waits for no stores of other waves, and with a seed the CPU device keeps puts back in the same
 * way. SHMEM_TEST_ROUNDS rounds for all shapes together. */
#define PRIM_COLD_CALLS 1 /* of so many shapes, the rare paths may be calls: AMD's compiler takes minutes else */
#include "device_test.h"

#define SHAPES(X)        \
    X(put_fence)         \
    X(nbi_sync_quiet)    \
    X(waves_sync_signal) \
    X(iput_fence)        \
    X(words_sync_fence)  \
    X(sets_sync_fence)   \
    X(stores_sync_fence) \
    X(get_fence)         \
    X(permute_fence)     \
    X(nbi_wait_fence)
#define AS_ENUM(name) SHAPE_##name,
enum { SHAPES(AS_ENUM) SHAPE_COUNT };
#define AS_NAME(name) #name,
static const char *const shape_names[] = {SHAPES(AS_NAME)};

enum { THREADS = 256, WORDS = 640 }; /* four waves at least; a word a thread, or a piece of 16 bytes */

/* In device memory, symmetric but for `wrong`. */
struct scratch {
    uint64_t flag, ready;
    uint64_t pad[14];
    uint64_t data[WORDS], source[WORDS], bounce[WORDS];
    uint64_t wrong[THREADS];
};

struct fence_args {
    shmemd_t h;
    struct scratch *scratch;
    uint64_t first, rounds;
    int32_t shape, to, from;
};

SHMEMD_FN uint64_t word_of(uint64_t round, uint32_t i, int32_t pe)
{
    return round * 0x100000001b3u ^ (uint64_t)form_mix((uint32_t)round, i) << 20 ^ (uint64_t)pe << 56;
}

/* By all threads; all but those that synchronise by themselves leave that to `send`. */
SHMEMD_FN void send_data(struct fence_args a, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    shmemd_group_t block = shmemd_block();
    uint32_t me = (uint32_t)shmemd_thread_index(), size = (uint32_t)shmemd_block_size();
    uint32_t lanes = (uint32_t)shmemd_group_size(shmemd_wave()), wave = me / lanes, waves = size / lanes;
    uint32_t begin = n * wave / waves, end = n * (wave + 1) / waves; /* of this wave */
    uint64_t *near_data = (uint64_t *)shmemd_ptr(a.h, b->data, a.to);
    if (a.shape == SHAPE_put_fence)
        shmemd_uint64_put_block(a.h, b->data, b->source, n, a.to);
    else if (a.shape == SHAPE_nbi_sync_quiet || a.shape == SHAPE_nbi_wait_fence)
        shmemd_uint64_put_nbi_block(a.h, b->data, b->source, n, a.to);
    else if (a.shape == SHAPE_waves_sync_signal)
        shmemd_uint64_put_nbi_wave(a.h, b->data + begin, b->source + begin, end - begin, a.to);
    else if (a.shape == SHAPE_iput_fence)
        shmemd_uint64_iput_block(a.h, b->data, b->source, 1, 1, n, a.to);
    else if (a.shape == SHAPE_get_fence)
        shmemd_uint64_get_block(a.h, b->data, b->source, n, shmemd_my_pe(a.h));
    else if (a.shape == SHAPE_permute_fence)
        (void)shmemd_uint64_permute_block(a.h, b->data, b->source, n, a.to, a.from);
    else
        for (uint32_t i = me; i < n; i += size) {
            if (a.shape == SHAPE_stores_sync_fence && near_data != 0)
                near_data[i] = word_of(round, i, shmemd_my_pe(a.h));
            else if (a.shape == SHAPE_sets_sync_fence)
                shmemd_uint64_atomic_set(a.h, &b->data[i], word_of(round, i, shmemd_my_pe(a.h)), a.to);
            else
                shmemd_uint64_p(a.h, &b->data[i], word_of(round, i, shmemd_my_pe(a.h)), a.to);
        }
    if (a.shape == SHAPE_nbi_wait_fence)
        shmemd_uint64_wait_until_block(a.h, &b->ready, SHMEM_CMP_NE, 0);
    else if (a.shape != SHAPE_put_fence && a.shape != SHAPE_iput_fence && a.shape != SHAPE_get_fence &&
             a.shape != SHAPE_permute_fence)
        shmemd_group_sync(block);
}

/* By one thread, another one in each round. */
SHMEMD_FN void send_signal(struct fence_args a, uint64_t round)
{
    struct scratch *b = a.scratch;
    if (a.shape == SHAPE_waves_sync_signal) {
        shmemd_uint64_put_signal(a.h, b->data, b->source, 0, &b->flag, round, SHMEM_SIGNAL_SET, a.to);
    } else if (a.shape == SHAPE_nbi_sync_quiet) {
        shmemd_quiet(a.h);
        shmemd_uint64_p(a.h, &b->flag, round, a.to);
    } else {
        shmemd_fence(a.h);
        shmemd_signal_op(a.h, &b->flag, round, SHMEM_SIGNAL_SET, a.to);
    }
}

/* What came, or what the sender has got or received. */
SHMEMD_FN void look(struct fence_args a, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    bool fetched = a.shape == SHAPE_get_fence || a.shape == SHAPE_permute_fence;
    int32_t writer = a.from;
    if (fetched)
        shmemd_uint64_get_block(a.h, b->bounce, b->data, n, a.from);
    if (a.shape == SHAPE_permute_fence)
        writer = (a.from + shmemd_n_pes(a.h) - 1) % shmemd_n_pes(a.h);
    const uint64_t *seen = fetched ? b->bounce : b->data;
    uint32_t me = (uint32_t)shmemd_thread_index();
    for (uint32_t i = me; i < n; i += (uint32_t)shmemd_block_size())
        if (seen[i] != word_of(round, i, writer))
            b->wrong[me]++;
}

SHMEMD_KERNEL(one_fence, struct fence_args, a)
{
    struct scratch *b = a.scratch;
    uint32_t me = (uint32_t)shmemd_thread_index(), size = (uint32_t)shmemd_block_size();
    for (uint64_t round = a.first; round < a.first + a.rounds; round++) {
        uint32_t n = form_mix((uint32_t)round, 77) % WORDS + 1;
        for (uint32_t i = me; i < n; i += size)
            b->source[i] = word_of(round, i, shmemd_my_pe(a.h));
        shmemd_group_sync(shmemd_block());
        send_data(a, round, n);
        if (me == form_mix((uint32_t)round, 5) % size)
            send_signal(a, round);
        (void)shmemd_signal_wait_until_block(a.h, &b->flag, SHMEM_CMP_EQ, round);
        look(a, round, n);
        (void)shmemd_barrier_block(a.h); /* data may be overwritten */
    }
}

static int test_main(void)
{
    DEVICE_INIT();
    static const uint64_t one = 1;
    uint64_t wrong[THREADS], rounds = (uint64_t)device_number("SHMEM_TEST_ROUNDS", 1000) / SHAPE_COUNT + 1;
    int me = shmem_my_pe(), n = shmem_n_pes();
    struct fence_args a;
    memset(&a, 0, sizeof(a));
    a.scratch = (struct scratch *)shmemx_calloc(1, sizeof(struct scratch), SHMEMX_DEVICE);
    a.to = (me + 1) % n;
    a.from = (me + n - 1) % n;
    a.rounds = rounds;
    CHECK_OR_EXIT(a.scratch != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    device_write(&a.scratch->ready, &one, sizeof(one));
    for (a.shape = 0, a.first = 1; a.shape < SHAPE_COUNT; a.shape++, a.first += rounds) {
        uint64_t sum = 0;
        shmem_barrier_all();
        DEVICE_RUN(one_fence, 1, THREADS, a);
        device_read(wrong, a.scratch->wrong, sizeof(wrong));
        for (int i = 0; i < THREADS; i++)
            sum += wrong[i];
        CHECK_EQ_NAMED(sum, 0, shape_names[a.shape]);
        memset(wrong, 0, sizeof(wrong));
        device_write(a.scratch->wrong, wrong, sizeof(wrong));
    }
    shmem_barrier_all();
    shmemx_free(a.scratch);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
