/* SPDX-License-Identifier: MIT */
/* What threads of one PE do among themselves (shmem_device_local.h), and the launches of shmemx_launch_attr: places in
 * grids of three dimensions, dynamic shared memory, votes, shuffles, barriers of some waves, atomics of block and
 * device scope that hand data on, cooperative launches. */
#include "device_test.h"

enum { THREADS = 192, BLOCKS = 4, ROUNDS = 20 };

/* ---- places and dynamic shared memory ---- */

struct place_args {
    shmemd_t h;
    uint32_t *places; /* [blocks][threads][12], symmetric: grid, block, place of the block, place of the thread */
    uint64_t *sums;   /* [blocks] of what the threads have left in dynamic shared memory */
};
SHMEMD_FN void place_note(uint32_t *to, shmemd_dim_t d)
{
    to[0] = d.x;
    to[1] = d.y;
    to[2] = d.z;
}
SHMEMD_KERNEL(note_places, struct place_args, a)
{
    SHMEMD_DYNAMIC_SHARED(uint64_t, shared);
    uint32_t block = shmemd_block_index(), thread = shmemd_thread_index(), threads = shmemd_block_size();
    uint32_t *to = a.places + ((size_t)block * threads + thread) * 12;
    place_note(to, shmemd_grid_dim());
    place_note(to + 3, shmemd_block_dim());
    place_note(to + 6, shmemd_block_place());
    place_note(to + 9, shmemd_thread_place());
    shared[thread] = (uint64_t)block * 1000 + thread;
    shmemd_group_sync(shmemd_block());
    if (thread == 0) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < threads; i++)
            sum += shared[i];
        a.sums[block] = sum;
    }
}

static void test_places(const struct device_team *t, shmemx_dim_t grid, shmemx_dim_t block)
{
    const uint32_t gx = grid.x ? grid.x : 1, gy = grid.y ? grid.y : 1, gz = grid.z ? grid.z : 1;
    const uint32_t bx = block.x ? block.x : 1, by = block.y ? block.y : 1, bz = block.z ? block.z : 1;
    const uint32_t blocks = gx * gy * gz, threads = bx * by * bz;
    const size_t n = (size_t)blocks * threads * 12;
    uint32_t *places = (uint32_t *)shmemx_calloc(n, 4, SHMEMX_DEVICE), *seen = (uint32_t *)malloc(n * 4);
    uint64_t *sums = (uint64_t *)shmemx_calloc(blocks, 8, SHMEMX_DEVICE), *sums_seen = (uint64_t *)malloc(blocks * 8);
    CHECK_OR_EXIT(places != NULL && seen != NULL && sums != NULL && sums_seen != NULL);
    struct place_args a = {t->handle, places, sums};
    void *arguments[] = {&a};
    shmemx_launch_attr_t attr = SHMEMX_LAUNCH_ATTR;
    attr.grid = grid;
    attr.block = block;
    attr.shared_bytes = threads * 8;
    attr.arguments = arguments;
    CHECK_EQ(shmemx_launch_attr(SHMEMX_KERNEL(note_places), &attr, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    device_read(seen, places, n * 4);
    device_read(sums_seen, sums, blocks * 8);
    for (uint32_t b = 0; b < blocks; b++) {
        CHECK_EQ(sums_seen[b], (uint64_t)b * 1000 * threads + (uint64_t)threads * (threads - 1) / 2);
        for (uint32_t i = 0; i < threads; i++) {
            const uint32_t wanted[12] = {
                gx, gy, gz, bx, by, bz, b % gx, b / gx % gy, b / (gx * gy), i % bx, i / bx % by, i / (bx * by)};
            if (!CHECK(memcmp(seen + ((size_t)b * threads + i) * 12, wanted, sizeof wanted) == 0))
                b = blocks, i = threads;
        }
    }
    shmemx_free(places);
    shmemx_free(sums);
    free(seen);
    free(sums_seen);
}

/* ---- votes and shuffles ---- */

struct vote_args {
    shmemd_t h;
    uint64_t *wrong; /* [1], symmetric */
};
/* Each turn another thread says yes. */
SHMEMD_KERNEL(vote, struct vote_args, a)
{
    const shmemd_group_t wave = shmemd_wave(), block = shmemd_block();
    const uint32_t lane = shmemd_group_rank(wave), lanes = shmemd_group_size(wave), rank = shmemd_group_rank(block);
    uint64_t wrong = 0;
    for (uint32_t turn = 0; turn < shmemd_block_size(); turn += 7) {
        int yes = rank == turn, in_wave = rank / lanes == turn / lanes;
        wrong += shmemd_wave_ballot(yes) != (in_wave ? (uint64_t)1 << turn % lanes : 0);
        wrong += shmemd_group_any(wave, yes) != in_wave;
        wrong += shmemd_group_all(wave, !yes) != !in_wave;
        wrong += shmemd_group_any(block, yes) != 1;
        wrong += shmemd_group_all(block, yes) != 0;
        wrong += shmemd_group_all(block, 1) != 1;
        wrong += shmemd_group_broadcast(wave, 100 + rank) != 100 + rank - lane;
        wrong += shmemd_group_broadcast(block, 100 + rank) != 100;
        wrong +=
            shmemd_int_shuffle((int)rank - 5, (lane + turn) % lanes) != (int)(rank - lane + (lane + turn) % lanes) - 5;
        wrong += shmemd_double_shuffle(rank + 0.5, lane ^ 1) != (rank ^ 1) + 0.5;
        wrong += shmemd_uint64_shuffle((uint64_t)rank << 40, 3) != (uint64_t)(rank - lane + 3) << 40;
    }
    float sum = (float)lane;
    for (unsigned step = lanes / 2; step != 0; step /= 2)
        sum += shmemd_float_shuffle(sum, lane ^ step);
    wrong += sum != (float)(lanes * (lanes - 1) / 2);
    shmemd_uint64_atomic_add(a.h, a.wrong, wrong, shmemd_my_pe(a.h));
}

/* ---- barriers of some waves ----
 * Halves of the block hand a value around, each at its own pace: thread i reads what its neighbour in the half has
 * written in this turn. Between turns all of the half meets again. Then one thread signals to the next PE what the
 * others have put before the barrier. */
struct half_args {
    shmemd_t h;
    uint64_t *wrong, *signal; /* [1], symmetric */
    uint32_t *inbox;          /* [THREADS], symmetric */
};
SHMEMD_KERNEL(sync_halves, struct half_args, a)
{
    SHMEMD_SHARED(shmemd_named_barrier_t, halves, 2);
    SHMEMD_SHARED(uint32_t, values, THREADS);
    const uint32_t rank = shmemd_thread_index(), lanes = 64, first = rank < lanes ? 0 : lanes; /* 64 and 128 threads */
    const uint32_t n = rank < lanes ? lanes : THREADS - lanes, next = first + (rank - first + 1) % n;
    const int to = (shmemd_my_pe(a.h) + 1) % shmemd_n_pes(a.h);
    shmemd_named_barrier_t *half = &halves[rank < lanes ? 0 : 1];
    uint64_t wrong = 0;
    if (rank == 0) {
        shmemd_named_barrier_init(&halves[0], 1, lanes);
        shmemd_named_barrier_init(&halves[1], 2, THREADS - lanes);
    }
    shmemd_group_sync(shmemd_block());
    for (uint32_t turn = 0; turn < (rank < lanes ? ROUNDS : ROUNDS / 4); turn++) {
        if (turn % 3 == rank % 3)
            form_dawdle(20);
        values[rank] = turn * 1000 + rank;
        shmemd_named_barrier_sync(half);
        wrong += values[next] != turn * 1000 + next;
        shmemd_named_barrier_sync(half);
    }
    shmemd_uint32_put(a.h, a.inbox + rank, &values[rank], 1, to);
    shmemd_named_barrier_sync(half);
    if (rank == first) {
        shmemd_fence(a.h);
        shmemd_signal_op(a.h, a.signal, 1, SHMEM_SIGNAL_ADD, to);
    }
    shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_EQ, 2);
    const uint32_t last = (rank < lanes ? ROUNDS : ROUNDS / 4) - 1;
    wrong += a.inbox[rank] != last * 1000 + rank;
    shmemd_uint64_atomic_add(a.h, a.wrong, wrong, shmemd_my_pe(a.h));
}

/* ---- atomics of block and device scope ----
 * Block scope: a word of shared memory is a turn that goes round the waves' first threads. Device scope: blocks take a
 * lock, and a counter's last block reads what the others have stored. */
struct local_args {
    shmemd_t h;
    uint64_t *wrong;          /* [1], symmetric */
    uint32_t *lock, *count;   /* [1] device memory of this PE */
    uint64_t *guarded, *left; /* [1], [BLOCKS] likewise */
};
SHMEMD_KERNEL(hand_on, struct local_args, a)
{
    SHMEMD_SHARED(uint32_t, turn, 2);
    SHMEMD_SHARED(uint64_t, total, 1);
    const uint32_t lane = shmemd_group_rank(shmemd_wave()), lanes = shmemd_group_size(shmemd_wave());
    const uint32_t rank = shmemd_thread_index(), wave = rank / lanes, waves = shmemd_block_size() / lanes;
    uint64_t wrong = 0;
    if (rank == 0)
        turn[0] = turn[1] = 0, total[0] = 0;
    shmemd_group_sync(shmemd_block());
    if (lane == 0)
        for (uint32_t i = wave; i < ROUNDS * waves; i += waves) {
            while (shmemd_uint32_local_load(&turn[0], SHMEMD_ACQUIRE, SHMEMD_SCOPE_BLOCK) != i)
                ;
            total[0] += i; /* no other wave does it now */
            shmemd_uint32_local_store(&turn[0], i + 1, SHMEMD_RELEASE, SHMEMD_SCOPE_BLOCK);
        }
    (void)shmemd_uint32_local_fetch_add(&turn[1], 2, SHMEMD_RELAXED, SHMEMD_SCOPE_BLOCK);
    shmemd_group_sync(shmemd_block());
    if (rank == 0) {
        const uint64_t all = (uint64_t)ROUNDS * waves;
        wrong += total[0] != all * (all - 1) / 2;
        wrong += turn[1] != 2 * shmemd_block_size();
        wrong += shmemd_uint32_local_swap(&turn[1], 9, SHMEMD_ACQ_REL, SHMEMD_SCOPE_BLOCK) != 2 * shmemd_block_size();
        for (int i = 0; i < ROUNDS; i++) {
            while (shmemd_uint32_local_compare_swap(a.lock, 0, 1, SHMEMD_ACQUIRE, SHMEMD_SCOPE_DEVICE) != 0)
                ;
            a.guarded[0] += 3;
            shmemd_uint32_local_store(a.lock, 0, SHMEMD_RELEASE, SHMEMD_SCOPE_DEVICE);
        }
        a.left[shmemd_block_index()] = 5;
        if (shmemd_uint32_local_fetch_add(a.count, 1, SHMEMD_ACQ_REL, SHMEMD_SCOPE_DEVICE) == BLOCKS - 1) {
            for (int i = 0; i < BLOCKS; i++)
                wrong += a.left[i] != 5;
            wrong += a.guarded[0] != (uint64_t)ROUNDS * BLOCKS * 3;
        }
    }
    shmemd_uint64_atomic_add(a.h, a.wrong, wrong, shmemd_my_pe(a.h));
}

static uint64_t word_at(const void *p)
{
    uint64_t v;
    device_read(&v, p, sizeof v);
    return v;
}

/* A grid that cannot run at once is refused; the largest that can runs, and its blocks meet. */
struct grid_args {
    shmemd_t h;
    uint64_t *met; /* [1], symmetric */
};
SHMEMD_KERNEL(sync_in_grid, struct grid_args, a)
{
    if (shmemd_thread_index() == 0)
        shmemd_uint64_atomic_add(a.h, a.met, 1, shmemd_my_pe(a.h));
    (void)shmemd_grid_sync(a.h);
    if (shmemd_thread_index() == 0 && shmemd_uint64_atomic_fetch(a.h, a.met, shmemd_my_pe(a.h)) < shmemd_block_count())
        shmemd_uint64_atomic_add(a.h, a.met, 1000000, shmemd_my_pe(a.h));
}
static void test_cooperative(const struct device_team *t, uint64_t *met)
{
    struct grid_args a = {t->handle, met};
    const unsigned blocks = 2;
    int most = shmemx_max_grid(SHMEMX_KERNEL(sync_in_grid), 64, 0);
    CHECK(most >= (int)blocks);
    CHECK(most >= shmemx_max_blocks(SHMEMX_KERNEL(sync_in_grid), 64, 0));
    CHECK_EQ(shmemx_launch_cooperative(SHMEMX_KERNEL(sync_in_grid), blocks, 64, 0, &a, sizeof a, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    CHECK_EQ(word_at(met), blocks);
    CHECK_EQ(shmemx_set_error_mode(SHMEMX_ERRORS_RETURN), 0);
    CHECK(shmemx_launch_cooperative(SHMEMX_KERNEL(sync_in_grid), (unsigned)most + 1, 64, 0, &a, sizeof a, NULL) != 0);
    char text[300];
    shmemx_error_text(text, sizeof text);
    CHECK(strstr(text, "must run at once") != NULL);
    shmemx_launch_attr_t attr = {0, {1, 1, 1}, {1, 1, 1}, 0, NULL, 0, NULL, 0};
    CHECK(shmemx_launch_attr(SHMEMX_KERNEL(sync_in_grid), &attr, NULL) != 0);
    shmemx_error_text(text, sizeof text);
    CHECK(strstr(text, "struct_bytes is 0") != NULL);
    CHECK_EQ(shmemx_set_error_mode(SHMEMX_ERRORS_ABORT), 0);
}

static int test_main(void)
{
    struct device_team t;
    DEVICE_INIT();
    device_team_open(&t, SHMEM_TEAM_WORLD, 0);
    const shmemx_dim_t flat = {3, 0, 0}, grid = {2, 3, 2}, line = {64, 1, 1}, block = {8, 3, 4};
    test_places(&t, flat, line);
    test_places(&t, grid, block);

    uint64_t *words = (uint64_t *)shmemx_calloc(8 + BLOCKS, 8, SHMEMX_DEVICE);
    uint32_t *inbox = (uint32_t *)shmemx_calloc(THREADS, 4, SHMEMX_DEVICE);
    CHECK_OR_EXIT(words != NULL && inbox != NULL);
    struct vote_args votes = {t.handle, words};
    DEVICE_RUN(vote, 2, THREADS, votes);
    CHECK_EQ(word_at(words), 0);
    struct half_args halves = {t.handle, words, words + 1, inbox};
    shmem_barrier_all();
    DEVICE_RUN(sync_halves, 1, THREADS, halves);
    CHECK_EQ(word_at(words), 0);
    struct local_args locals = {t.handle,  words,    (uint32_t *)(words + 2), (uint32_t *)(words + 3),
                                words + 4, words + 8};
    DEVICE_RUN(hand_on, BLOCKS, THREADS, locals);
    CHECK_EQ(word_at(words), 0);
    test_cooperative(&t, words + 5);
    shmem_barrier_all();
    shmemx_free(words);
    shmemx_free(inbox);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
