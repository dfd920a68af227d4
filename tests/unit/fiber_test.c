/* SPDX-License-Identifier: MIT */
/* The CPU device's scheduler: places in the grid, meetings of blocks and waves (of 32 and of 64), calls that one thread
 * does for its block, threads that return early, blocks that wait for each other, orders by seed, the sentence when
 * nobody can go on, and that the sanitizers see through it: a missing barrier and a write behind shared memory are
 * found. */
#include "../check.h"

#include "../../device/cpu/fiber.h"
#include "../../device/api/prim.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Thread_local struct fibers *kept; /* from grid to grid, as a stream keeps them */

static void run(fiber_kernel kernel, const void *args, unsigned blocks, unsigned threads, unsigned wave, uint64_t seed)
{
    struct fiber_grid grid = {kernel, args, blocks, threads, wave, seed, {0, 0}, {0, 0}, 0};
    if (kept == NULL)
        kept = iso_fibers_create();
    CHECK(kept != NULL);
    CHECK_EQ(iso_fibers_run(kept, &grid), 0);
}

static void run_ends(void)
{
    iso_fibers_destroy(kept);
    kept = NULL;
}

/* What most kernels here take: words that all threads see. */
struct words {
    uint64_t *words;
    uint64_t rounds;
};

#ifdef PRIM_CPU_TSAN
enum { ORDERS = 2 }; /* it is slow with many threads */
#else
enum { ORDERS = 4 };
#endif
/* Every kernel test in both waves, in round robin and in random orders. */
static void run_all(fiber_kernel kernel, const void *args, unsigned blocks, unsigned threads)
{
    for (unsigned wave = 32; wave <= 64; wave += 32)
        for (uint64_t seed = 0; seed < ORDERS; seed++)
            run(kernel, args, blocks, threads, wave, seed);
}

/* ---- places ---- */

PRIM_KERNEL(place_kernel, struct words, a)
{
    uint32_t rank = prim_rank(prim_group_block()), wave = prim_wave_size();
    uint32_t lane = prim_rank(prim_group_wave()), first = rank - lane, left = prim_size(prim_group_block()) - first;
    bool right = lane == rank % wave && prim_size(prim_group_wave()) == (left < wave ? left : wave) &&
                 prim_rank(prim_group_thread()) == 0 && prim_size(prim_group_thread()) == 1;
    uint64_t at = (uint64_t)prim_block_index() * prim_size(prim_group_block()) + rank;
    a.words[at] += right ? 1 + prim_block_count() : 1000;
}

static void test_places(void)
{
    static const unsigned threads[] = {1, 31, 32, 33, 63, 64, 65, 100, 128, 1000, 1024};
    static const unsigned blocks[] = {1, 2, 7};
    uint64_t *words = (uint64_t *)calloc(7 * 1024, sizeof *words);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (size_t b = 0; b < 3; b++) {
            struct words args = {words, 0};
            memset(words, 0, 7 * 1024 * sizeof *words);
            run_all(place_kernel, &args, blocks[b], threads[t]);
            for (uint64_t i = 0; i < (uint64_t)blocks[b] * threads[t]; i++)
                CHECK_EQ(words[i], 2 * ORDERS * (1 + blocks[b]));
        }
    free(words);
    CHECK_EQ(prim_size(prim_group_block()), 1); /* a host thread is a block of one */
    CHECK_EQ(prim_rank(prim_group_wave()), 0);
    CHECK(!prim_sync_or(prim_group_block(), false) && prim_sync_or(prim_group_wave(), true));
    prim_pause();
}

/* ---- blocks and waves meet ---- */

PRIM_KERNEL(neighbour_kernel, struct words, a)
{
    struct prim_group block = prim_group_block();
    PRIM_SHARED(uint64_t, mine, 1024);
    PRIM_SHARED(uint32_t, narrow, 1024);
    uint32_t rank = prim_rank(block), next = (rank + 1) % prim_size(block);
    uint64_t wrong = 0;
    for (uint64_t round = 1; round <= a.rounds; round++) {
        mine[rank] = round * 10000 + rank;
        narrow[rank] = (uint32_t)round;
        prim_sync(block);
        wrong += mine[next] != round * 10000 + next || narrow[next] != round;
        wrong += prim_sync_or(block, rank == round % prim_size(block)) != true;
        wrong += prim_sync_or(block, false) != false;
    }
    prim_fetch_add_u64(&a.words[wrong == 0 ? 0 : 1], 1);
}

PRIM_KERNEL(wave_kernel, struct words, a)
{
    struct prim_group wave = prim_group_wave();
    PRIM_SHARED(uint64_t, mine, 1024);
    uint32_t rank = prim_rank(prim_group_block()), lane = prim_rank(wave), first = rank - lane;
    uint32_t next = first + (lane + 1) % prim_size(wave);
    uint64_t wrong = 0, rounds = a.rounds * (1 + first / prim_wave_size()); /* waves go apart, and meet at the end */
    for (uint64_t round = 1; round <= rounds; round++) {
        mine[rank] = round;
        prim_sync(wave);
        wrong += mine[next] != round;
        wrong += prim_sync_or(wave, lane == round % prim_size(wave)) != true;
        wrong += prim_sync_or(wave, false) != false;
    }
    wrong += prim_sync_or(prim_group_block(), rank == 0) != true;
    prim_fetch_add_u64(&a.words[wrong == 0 ? 0 : 1], 1);
}

static void test_rendezvous(void)
{
    static const unsigned threads[] = {1, 2, 32, 33, 64, 96, 100, 256};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        uint64_t words[2] = {0, 0};
        struct words args = {words, 5};
        run_all(neighbour_kernel, &args, 3, threads[t]);
        run_all(wave_kernel, &args, 3, threads[t]);
        CHECK_EQ(words[0], 2 * 2 * ORDERS * 3 * threads[t]);
        CHECK_EQ(words[1], 0);
    }
}

/* Thread r meets r times, then returns: those that have returned are not waited for. */
PRIM_KERNEL(early_kernel, struct words, a)
{
    struct prim_group block = prim_group_block();
    PRIM_SHARED(uint64_t, count, 1);
    uint64_t expected = 0, wrong = 0;
    if (prim_rank(block) == 0)
        count[0] = 0;
    prim_sync(block);
    for (uint32_t round = 0; round < prim_rank(block); round++) {
        prim_fetch_add_u64(count, 1);
        prim_sync(block);
        expected += prim_size(block) - 1 - round;
        wrong += prim_load_relaxed_u64(count) < expected;
    }
    prim_fetch_add_u64(&a.words[wrong == 0 ? 0 : 1], 1);
}

static void test_early_return(void)
{
    static const unsigned threads[] = {1, 5, 32, 70, 130};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        uint64_t words[2] = {0, 0};
        struct words args = {words, 0};
        run_all(early_kernel, &args, 2, threads[t]);
        CHECK_EQ(words[0], 2 * ORDERS * 2 * threads[t]);
        CHECK_EQ(words[1], 0);
    }
}

PRIM_KERNEL(last_kernel, struct words, a)
{
    uint32_t rank = prim_rank(prim_group_block());
    if (rank % 2 == 1) /* half of each wave leaves, after some polls */
        for (uint32_t i = 0; i < rank; i++)
            prim_pause();
    else {
        prim_sync(prim_group_wave());
        prim_sync(prim_group_block());
        prim_fetch_add_u64(a.words, 1);
    }
}

static void test_half_return(void)
{
    uint64_t word = 0;
    struct words args = {&word, 0};
    run_all(last_kernel, &args, 2, 200);
    CHECK_EQ(word, 2 * ORDERS * 2 * 100);
}

/* ---- one thread for all ---- */

/* Whether calls are done by one thread, in a grid of this seed. */
static bool one_for_all(uint64_t seed)
{
#ifdef PRIM_CPU_TSAN
    (void)seed;
    return false;
#else
    return seed == 0;
#endif
}

/* Of the calls and threads below, in the orders of run_all: how often begin is true. */
static uint64_t entries(uint64_t calls, uint64_t threads)
{
    uint64_t n = 0;
    for (uint64_t seed = 0; seed < ORDERS; seed++)
        n += 2 * (one_for_all(seed) ? calls : threads);
    return n;
}

static bool place_is(struct prim_group g, uint32_t rank, uint32_t size)
{
    return prim_rank(g) == rank && prim_size(g) == size;
}

struct call_words {
    uint64_t *words; /* [0]: entries, [1]: threads that saw something wrong, [2]: threads that saw nothing wrong */
    uint64_t rounds;
};

/* The inside of a call, by one thread or by all: true for what is right. */
static bool inside_call(struct call_words a, const uint64_t *mine, uint32_t threads, uint64_t round)
{
    struct prim_group block = prim_group_block(), wave = prim_group_wave();
    bool alone = prim_size(block) == 1;
    PRIM_SHARED(uint64_t, sum, 1);
    prim_fetch_add_u64(&a.words[0], 1);
    bool right = !alone || (place_is(block, 0, 1) && place_is(wave, 0, 1));
    prim_sync(block);
    for (uint32_t i = 0; i < threads; i++) /* all have arrived */
        right = right && mine[i] == round;
    if (prim_is_first(block))
        sum[0] = round;
    prim_sync(wave);
    prim_pause();
    right = right && prim_sync_or(wave, false) == false && prim_sync_or(block, true) == true;
    right = right && sum[0] == round && prim_broadcast_u64(block, round + prim_rank(block)) == round;
    int rc = -1;
    if (prim_call_begin()) /* within a call: by whoever does that one */
        rc = (int)round;
    right = right && prim_call_end(rc) == (int)round && (!alone || place_is(block, 0, 1));
    return !prim_sync_or(block, !right);
}

PRIM_KERNEL(call_kernel, struct call_words, a)
{
    struct prim_group block = prim_group_block(), wave = prim_group_wave();
    PRIM_SHARED(uint64_t, mine, 1024);
    uint32_t rank = prim_rank(block), size = prim_size(block), lane = prim_rank(wave), lanes = prim_size(wave);
    uint32_t index = prim_block_index();
    uint64_t wrong = 0;
    for (uint64_t round = 1; round <= a.rounds; round++) {
        int rc = -1; /* of threads that only wait */
        mine[rank] = round;
        if (prim_call_begin())
            rc = inside_call(a, mine, size, round) ? (int)(round % 3) : -2;
        wrong += prim_call_end(rc) != (int)(round % 3);
        wrong += !place_is(block, rank, size) || !place_is(wave, lane, lanes) || prim_block_index() != index;
        prim_sync(wave); /* meets all of it again */
    }
    prim_fetch_add_u64(&a.words[wrong == 0 ? 2 : 1], 1);
}

static void test_calls(void)
{
    static const unsigned threads[] = {1, 2, 33, 64, 100, 200};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        uint64_t words[3] = {0, 0, 0};
        struct call_words args = {words, 7};
        run_all(call_kernel, &args, 3, threads[t]);
        CHECK_EQ(words[0], entries(3 * args.rounds, 3 * args.rounds * threads[t]));
        CHECK_EQ(words[1], 0);
        CHECK_EQ(words[2], 2 * ORDERS * 3 * threads[t]);
    }
    int rc = 5; /* a host thread is a block of one */
    CHECK(prim_call_begin());
    CHECK_EQ(prim_call_end(rc), 5);
}

/* Thread r makes r calls (rounds = 0), or size - 1 - r (rounds = 1), and returns: before the others arrive, or while
 * they wait for it. */
PRIM_KERNEL(early_call_kernel, struct call_words, a)
{
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    uint32_t calls = a.rounds == 0 ? rank : size - 1 - rank;
    uint64_t wrong = 0;
    for (uint32_t round = 0; round < calls; round++) {
        int rc = -1;
        if (prim_call_begin()) {
            rc = (int)round;
            prim_fetch_add_u64(&a.words[0], 1);
        }
        wrong += prim_call_end(rc) != (int)round;
    }
    prim_fetch_add_u64(&a.words[wrong == 0 ? 2 : 1], 1);
}

static void test_calls_of_some(void)
{
    static const unsigned threads[] = {1, 5, 32, 70, 130};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (uint64_t late = 0; late < 2; late++) {
            uint64_t words[3] = {0, 0, 0}, n = threads[t];
            struct call_words args = {words, late};
            run_all(early_call_kernel, &args, 2, threads[t]);
            CHECK_EQ(words[0], entries(2 * (n - 1), n * (n - 1)));
            CHECK_EQ(words[1], 0);
            CHECK_EQ(words[2], 2 * ORDERS * 2 * n);
        }
}

/* Blocks that wait for all others, each within its call. */
PRIM_KERNEL(call_token_kernel, struct words, a)
{
    struct prim_group block = prim_group_block();
    for (uint64_t round = 1; round <= a.rounds; round++) {
        int rc = 0;
        if (prim_call_begin()) {
            prim_signal_u64(block, &a.words[prim_block_index()], round);
            for (uint32_t i = prim_rank(block); i < prim_block_count(); i += prim_size(block))
                while (prim_peek_u64(&a.words[i]) < round)
                    prim_pause();
            prim_acquire_from_peer();
            prim_sync(block);
        }
        (void)prim_call_end(rc);
    }
}

static void test_calls_wait(void)
{
    for (unsigned threads = 1; threads <= 81; threads += 40)
        for (uint64_t seed = 0; seed < ORDERS; seed++) {
            uint64_t words[8] = {0};
            struct words args = {words, 20};
            run(call_token_kernel, &args, 8, threads, 32, seed);
            for (int i = 0; i < 8; i++)
                CHECK_EQ(words[i], 20);
        }
}

/* ---- blocks and OS threads that wait for each other ---- */

/* A token goes round the blocks; the last thread of each waits for it. */
PRIM_KERNEL(token_kernel, struct words, a)
{
    struct prim_group block = prim_group_block();
    uint32_t index = prim_block_index(), next = (index + 1) % prim_block_count();
    uint64_t *data = a.words + prim_block_count();
    for (uint64_t round = 1; round <= a.rounds; round++) {
        if (prim_rank(block) == prim_size(block) - 1 && (index != 0 || round != 1)) {
            uint64_t expected = index == 0 ? round - 1 : round;
            while (prim_peek_u64(&a.words[index]) != expected)
                prim_pause();
            prim_acquire_from_peer();
        }
        prim_sync(block);
        if (prim_rank(block) == 0)
            data[0]++; /* not atomic: the token orders it */
        prim_signal_u64(block, &a.words[next], round);
    }
}

static void test_blocks_wait(void)
{
    for (unsigned threads = 1; threads <= 64; threads *= 8) {
        uint64_t words[9] = {0};
        struct words args = {words, 20};
        for (uint64_t seed = 0; seed < 4; seed++) {
            memset(words, 0, sizeof words);
            run(token_kernel, &args, 8, threads, 32, seed);
            CHECK_EQ(words[8], 8 * 20);
        }
    }
}

/* A grid and an OS thread answer each other. */
PRIM_KERNEL(pong_kernel, struct words, a)
{
    for (uint64_t round = 1; round <= a.rounds; round++) {
        prim_signal_u64(prim_group_block(), &a.words[0], round);
        while (prim_peek_u64(&a.words[1]) < round)
            prim_pause();
        prim_sync(prim_group_block());
    }
}

static void *pong_thread(void *argument)
{
    run(pong_kernel, argument, 1, 33, 32, 5);
    run_ends();
    return NULL;
}

static void test_threads_wait(void)
{
    uint64_t words[2] = {0, 0};
    struct words args = {words, 300};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, pong_thread, &args), 0);
    for (uint64_t round = 1; round <= args.rounds; round++) {
        while (prim_peek_u64(&words[0]) < round)
            prim_pause();
        if (round == args.rounds / 2) { /* long enough for the grid to sleep between its rounds */
            struct timespec pause = {0, 300000000};
            nanosleep(&pause, NULL);
        }
        prim_store_flag_u64(&words[1], round);
    }
    pthread_join(thread, NULL);
}

/* ---- orders ---- */

/* Who comes when: words[0] counts, the others are the thread of each event. */
PRIM_KERNEL(log_kernel, struct words, a)
{
    uint32_t who = prim_block_index() * prim_size(prim_group_block()) + prim_rank(prim_group_block());
    for (uint64_t round = 0; round < a.rounds; round++) {
        a.words[1 + prim_fetch_add_u64(&a.words[0], 1)] = who;
        if (round % 3 == 2)
            prim_sync(prim_group_block());
        else
            prim_pause();
    }
}

static uint64_t order_of(uint64_t seed)
{
    enum { BLOCKS = 3, THREADS = 8, ROUNDS = 9 };
    uint64_t words[1 + BLOCKS * THREADS * ROUNDS] = {0}, sum = 0;
    struct words args = {words, ROUNDS};
    run(log_kernel, &args, BLOCKS, THREADS, 32, seed);
    CHECK_EQ(words[0], BLOCKS * THREADS * ROUNDS);
    for (uint64_t i = 1; i <= words[0]; i++)
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u + (sum >> 29);
    return sum;
}

static void test_orders(void)
{
    enum { SEEDS = 50 };
    uint64_t sums[SEEDS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sums[seed] = order_of(seed);
        CHECK_EQ(order_of(seed), sums[seed]);
        for (uint64_t other = 0; other < seed; other++)
            CHECK(sums[other] != sums[seed]);
    }
}

/* ---- copies, lines, flags ---- */

struct copy {
    unsigned char *to;
    const unsigned char *from;
    uint64_t bytes;
};
PRIM_KERNEL(copy_kernel, struct copy, a)
{
    struct prim_group block = prim_group_block(), wave = prim_group_wave(), thread = prim_group_thread();
    bool first_wave = prim_rank(block) < prim_wave_size();
    prim_copy(block, a.to, a.from, a.bytes);
    if (first_wave)
        prim_copy_put(wave, a.to + a.bytes, a.from, a.bytes);
    if (prim_rank(block) == 0)
        prim_copy_get(thread, a.to + 2 * a.bytes, a.from, a.bytes);
}

static void test_copies(void)
{
    static const size_t bytes[] = {0, 1, 7, 64, 65, 1000, 4096, 4097, 100000};
    unsigned char *from = (unsigned char *)malloc(100000), *to = (unsigned char *)malloc(300001);
    check_fill(from, 100000, 1, 2, 3);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        for (unsigned threads = 1; threads <= 100; threads += 33) {
            struct copy args = {to, from, bytes[i]};
            memset(to, 0xee, 300001);
            run(copy_kernel, &args, 1, threads, 32, threads);
            for (int part = 0; part < 3; part++)
                CHECK_BYTES(to + (size_t)part * bytes[i], from, bytes[i]);
            CHECK_EQ(to[3 * bytes[i]], 0xee);
        }
    free(from);
    free(to);
}

PRIM_KERNEL(line_kernel, struct words, a)
{
    struct prim_ll *lines = (struct prim_ll *)(void *)a.words;
    uint32_t rank = prim_rank(prim_group_block()), from = (rank + 1) % prim_size(prim_group_block());
    struct prim_ll line;
    prim_store_ll(&lines[rank], rank * 3, rank * 5, 77);
    do {
        prim_pause();
        line = prim_load_ll(&lines[from]);
    } while (line.epoch0 != 77 || line.epoch1 != 77);
    prim_fetch_add_u64(&a.words[2 * a.rounds], line.data0 == from * 3 && line.data1 == from * 5);
}

static void test_lines(void)
{
    enum { THREADS = 40 };
    _Alignas(16) uint64_t words[2 * THREADS + 1] = {0};
    struct words args = {words, THREADS};
    run(line_kernel, &args, 1, THREADS, 32, 9);
    CHECK_EQ(words[(size_t)2 * THREADS], THREADS);
}

/* ---- many and large grids ---- */

PRIM_KERNEL(deep_kernel, struct words, a)
{
    volatile char deep[16 << 10]; /* of the stack */
    deep[0] = deep[sizeof deep - 1] = (char)prim_rank(prim_group_block());
    prim_sync(prim_group_block());
    prim_fetch_add_u64(a.words, deep[0] == deep[sizeof deep - 1]);
    while (prim_peek_u64(a.words) < (uint64_t)prim_block_count() * prim_size(prim_group_block()))
        prim_pause(); /* for all threads of the grid */
}

static void test_large_grids(void)
{
    unsigned most = iso_fibers_most_waiting();
    struct fibers *fibers = iso_fibers_create();
    for (unsigned blocks = most / 256; blocks > 0; blocks /= 4) {
        uint64_t word = 0;
        struct words args = {&word, 0};
        struct fiber_grid grid = {deep_kernel, &args, blocks, 256, 64, blocks % 3, {0, 0}, {0, 0}, 0};
        CHECK_EQ(iso_fibers_run(fibers, &grid), 0);
        CHECK_EQ(word, blocks * 256);
    }
    iso_fibers_destroy(fibers);
}

static void test_many_grids(void)
{
    struct fibers *fibers = iso_fibers_create();
    const unsigned times = (unsigned)check_times(2000);
    for (unsigned i = 0; i < times; i++) {
        uint64_t words[2] = {0, 0};
        struct words args = {words, i % 3};
        unsigned threads = 1 + i * 7 % 97, blocks = 1 + i % 5;
        struct fiber_grid grid = {neighbour_kernel, &args, blocks, threads, i % 2 ? 32 : 64, i % 4, {0, 0}, {0, 0}, 0};
        CHECK_EQ(iso_fibers_run(fibers, &grid), 0);
        CHECK_EQ(words[0], blocks * threads);
    }
    iso_fibers_destroy(fibers);
    iso_fibers_destroy(NULL);
}

static void test_bad_grids(void)
{
    uint64_t words[4];
    struct words args = {words, 0};
    struct fiber_grid bad[] = {{NULL, &args, 1, 1, 32, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 0, 1, 32, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 1, 0, 32, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 1, 1025, 32, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 1, 1, 16, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 1, 1, 0, 0, {0, 0}, {0, 0}, 0},
                               {place_kernel, &args, 1025, 1024, 32, 0, {0, 0}, {0, 0}, 0}};
    struct fibers *fibers = iso_fibers_create();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(iso_fibers_run(fibers, &bad[i]), -EINVAL);
    iso_fibers_destroy(fibers);
}

/* ---- what must end the process ---- */

/* In a child: its status, and what it wrote to stderr. */
static int end_of(fiber_kernel kernel, unsigned threads, char *text, size_t bytes)
{
    int ends[2], status;
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        uint64_t words[4] = {0};
        struct words args = {words, 0};
        dup2(ends[1], 2);
        run(kernel, &args, 2, threads, 32, 0);
        exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], text + len, bytes - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[0]);
    return waitpid(child, &status, 0) == child ? status : -1;
}

PRIM_KERNEL(stuck_kernel, struct words, a)
{
    (void)a;
    uint32_t rank = prim_rank(prim_group_block());
    if (rank == 0)
        return;
    prim_sync(rank % 2 == 1 ? prim_group_wave() : prim_group_block());
}

static void test_stuck(void)
{
    static char text[1 << 16];
    int status = end_of(stuck_kernel, 40, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_NAMED(strstr(text, "can never end: of the 40 threads of block 0 of 2, 19 wait for the whole block, 20 wait "
                             "for their wave, 1 have returned") != NULL,
                text);
}

#ifndef PRIM_CPU_TSAN
/* One thread syncs where the others make a call. */
PRIM_KERNEL(stuck_call_kernel, struct words, a)
{
    (void)a;
    if (prim_rank(prim_group_block()) == 3)
        prim_sync(prim_group_block());
    else if (prim_call_begin())
        (void)prim_call_end(0);
}

static void test_stuck_call(void)
{
    static char text[1 << 16];
    int status = end_of(stuck_call_kernel, 40, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_NAMED(strstr(text, "of the 40 threads of block 0 of 2, 1 wait for the whole block, 0 wait for their wave, 0 "
                             "have returned, 39 are in a collective that the others have not called") != NULL,
                text);
}
#else
static void test_stuck_call(void) {}
#endif

#if defined(PRIM_CPU_TSAN)
PRIM_KERNEL(race_kernel, struct words, a)
{
    a.words[0] += prim_rank(prim_group_block()); /* nothing orders these */
    prim_sync(prim_group_block());
}

static void test_sanitizer(void)
{
    static char text[1 << 16];
    int status = end_of(race_kernel, 2, text, sizeof text);
    CHECK(status != 0);
    CHECK_NAMED(strstr(text, "data race") != NULL, text);
}
#elif defined(__SANITIZE_ADDRESS__)
PRIM_KERNEL(overflow_kernel, struct words, a)
{
    PRIM_SHARED(uint64_t, mine, 40);
    mine[prim_rank(prim_group_block()) + 1] = a.rounds;
}

static void test_sanitizer(void)
{
    static char text[1 << 16];
    int status = end_of(overflow_kernel, 40, text, sizeof text);
    CHECK(status != 0);
    CHECK_NAMED(strstr(text, "heap-buffer-overflow") != NULL, text);
}
#else
static void test_sanitizer(void) {}
#endif

/* ---- guard pages: a process has no mappings left for the next one ---- */

#if !defined(PRIM_CPU_TSAN) && !defined(__SANITIZE_ADDRESS__)
static int guards_left = -1; /* -1: no end */

int mprotect(void *at, size_t len, int protection)
{
    if (guards_left == 0) {
        errno = ENOMEM;
        return -1;
    }
    guards_left -= guards_left > 0;
    return (int)syscall(SYS_mprotect, at, len, protection);
}

PRIM_KERNEL(meet_kernel, struct words, a)
{
    prim_sync(prim_group_block());
    a.words[prim_rank(prim_group_block())] += a.rounds;
}

static void test_few_guards(void)
{
    enum { THREADS = 100 };
    uint64_t words[THREADS] = {0};
    struct words args = {words, 3};
    struct fiber_grid grid = {meet_kernel, &args, 1, THREADS, 32, 0, {0, 0}, {0, 0}, 0};
    struct fibers *own = iso_fibers_create();
    CHECK_OR_EXIT(own != NULL);
    guards_left = 5; /* the others get canaries, also in the slab where some have guards */
    CHECK_EQ(iso_fibers_run(own, &grid), 0);
    CHECK_EQ(guards_left, 0);
    guards_left = -1;
    iso_fibers_destroy(own);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(words[i], 3);
}
#else
static void test_few_guards(void) {}
#endif

int main(void)
{
    test_few_guards();
    test_stuck();
    test_stuck_call();
    test_sanitizer();
    test_places();
    test_rendezvous();
    test_early_return();
    test_half_return();
    test_calls();
    test_calls_of_some();
    test_calls_wait();
    test_blocks_wait();
    test_threads_wait();
    test_orders();
    test_copies();
    test_lines();
    test_large_grids();
    test_many_grids();
    test_bad_grids();
    run_ends();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
