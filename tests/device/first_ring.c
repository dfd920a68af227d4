/* SPDX-License-Identifier: MIT */
/* By the ring: the first operation of a PE's kernels is one thread's, not the group's first, and the fence or quiet of
 * its group behind it waits all the same; and words at the ends of registered buffers of any length and place, for
 * whose sake nothing around them is read. Run with SHMEM_FORCE_PROXY=1: the first use is one of a PE's life. */
#include "device_test.h"

enum { THREADS = 64, POSTER = 37, PAGE = 4096, ROOM = 4 * PAGE, LENGTHS = 4 };

struct first_args {
    shmemd_t h;
    uint64_t *word; /* symmetric */
    uint64_t *told; /* [2] tickets that were handed out, and done, when the call had returned */
    int32_t pe, form, fences;
};

SHMEMD_KERNEL(post_first, struct first_args, a)
{
    bool in_group =
        a.form == FORM_BLOCK || (uint32_t)shmemd_thread_index() / prim_wave_size() == POSTER / prim_wave_size();
    if (shmemd_thread_index() == POSTER)
        shmemd_uint64_p(a.h, a.word, 7, a.pe);
    if (in_group && a.fences != 0)
        shmemd_fence_group(a.h, form_group(a.form));
    else if (in_group)
        shmemd_quiet_group(a.h, form_group(a.form));
    if (!in_group || prim_rank(form_group(a.form)) != 0)
        return;
    const struct isod_ring *ring = isod_ring_of(a.h.world);
    a.told[0] = prim_load_relaxed_u64(&ring->head);
    a.told[1] = prim_peek_u64(ring->done);
}

/* Each PE in a way of its own. */
static void test_first(const struct device_team *world)
{
    struct first_args a;
    uint64_t told[2] = {0, 0};
    memset(&a, 0, sizeof a);
    a.h = world->handle;
    a.word = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    a.told = (uint64_t *)shmemx_calloc(2, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.word != NULL && a.told != NULL);
    a.pe = (world->me + 1) % world->n;
    a.fences = world->me % 2;
    a.form = world->me / 2 % 2 == 0 ? FORM_BLOCK : FORM_WAVE;
    DEVICE_RUN(post_first, 1, THREADS, a);
    device_read(told, a.told, sizeof told);
    CHECK_EQ(told[0], (uint64_t)(world->n > 1)); /* its own memory needs no ring */
    CHECK_EQ(told[1], told[0]);
    shmem_barrier_all();
    shmemx_free(a.told);
    shmemx_free(a.word);
}

struct ends_args {
    shmemd_t h;
    const uint8_t *bytes;
    const uint16_t *halves; /* aligned, both ends of the buffer; likewise words and longs */
    const uint32_t *words;
    const uint64_t *longs;
    uint8_t *told;         /* [2] and */
    uint16_t *told_halves; /* [2] first and last */
    uint32_t *told_words;
    uint64_t *told_longs;
    uint64_t n_bytes, n_halves, n_words, n_longs;
    int32_t pe;
};

SHMEMD_KERNEL(get_ends, struct ends_args, a)
{
    if (shmemd_thread_index() != 0)
        return;
    a.told[0] = shmemd_uint8_g(a.h, a.bytes, a.pe);
    a.told[1] = shmemd_uint8_g(a.h, a.bytes + a.n_bytes - 1, a.pe);
    a.told_halves[0] = shmemd_uint16_g(a.h, a.halves, a.pe);
    a.told_halves[1] = shmemd_uint16_g(a.h, a.halves + a.n_halves - 1, a.pe);
    a.told_words[0] = shmemd_uint32_g(a.h, a.words, a.pe);
    a.told_words[1] = shmemd_uint32_g(a.h, a.words + a.n_words - 1, a.pe);
    a.told_longs[0] = shmemd_uint64_g(a.h, a.longs, a.pe);
    a.told_longs[1] = shmemd_uint64_g(a.h, a.longs + a.n_longs - 1, a.pe);
}

/* The first and the last aligned element of `size` bytes in the buffer that begins at room + at. */
static void find_ends(size_t at, size_t len, size_t size, size_t *first, size_t *count)
{
    *first = (at + size - 1) / size * size;
    *count = (at + len - *first) / size;
}

static void check_ends(const unsigned char *expected, size_t first, size_t count, const void *told, size_t size)
{
    unsigned char seen[16], ends[16];
    device_read(seen, told, 2 * size);
    memcpy(ends, expected + first, size);
    memcpy(ends + size, expected + first + (count - 1) * size, size);
    CHECK_BYTES_NAMED(seen, ends, 2 * size, "the ends of a registered buffer");
}

static void test_buffer(const struct device_team *world, unsigned char *room, size_t at, size_t len)
{
    struct ends_args a;
    unsigned char of_next[ROOM];
    size_t first[4], count[4];
    memset(&a, 0, sizeof a);
    a.pe = (world->me + 1) % world->n;
    check_fill(room, ROOM, world->me, world->me, (unsigned)len);
    check_fill(of_next, ROOM, a.pe, a.pe, (unsigned)len);
    CHECK_OR_EXIT(shmemx_buffer_register(room + at, len, NULL) == 0);
    for (int i = 0; i < 4; i++)
        find_ends(at, len, (size_t)1 << i, &first[i], &count[i]);
    a.bytes = room + first[0];
    a.halves = (const uint16_t *)(const void *)(room + first[1]);
    a.words = (const uint32_t *)(const void *)(room + first[2]);
    a.longs = (const uint64_t *)(const void *)(room + first[3]);
    a.n_bytes = count[0], a.n_halves = count[1], a.n_words = count[2], a.n_longs = count[3];
    char *told = (char *)shmemx_calloc(4, 16, SHMEMX_DEVICE);
    CHECK_OR_EXIT(told != NULL);
    a.told = (uint8_t *)told;
    a.told_halves = (uint16_t *)(void *)(told + 16);
    a.told_words = (uint32_t *)(void *)(told + 32);
    a.told_longs = (uint64_t *)(void *)(told + 48);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    shmem_barrier_all();
    DEVICE_RUN(get_ends, 1, THREADS, a);
    for (int i = 0; i < 4; i++)
        check_ends(of_next, first[i], count[i], told + 16 * (size_t)i, (size_t)1 << i);
    shmem_barrier_all();
    shmemx_free(told);
    CHECK_EQ(shmemx_buffer_unregister(room + at), 0);
}

static int test_main(void)
{
    static const size_t at[LENGTHS] = {0, 2, 1, 3}, len[LENGTHS] = {2 * PAGE - 2, 2 * PAGE, 3 * PAGE + 1, 2 * PAGE - 1};
    DEVICE_INIT();
    struct device_team world;
    device_team_open(&world, SHMEM_TEAM_WORLD, 0);
    test_first(&world);
    unsigned char *room = (unsigned char *)aligned_alloc(PAGE, ROOM);
    CHECK_OR_EXIT(room != NULL);
    for (int i = 0; i < LENGTHS; i++)
        test_buffer(&world, room, at[i], len[i]);
    free(room);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
