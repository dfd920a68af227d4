/* SPDX-License-Identifier: MIT */
/* One-sided benchmarks between PE 0 and PE 1: put, get, p, g, atomics, locks, and the two ways to send a message.
 * "lat" is one completed operation (put and p with their quiet), "bw" and "rate" a stream with a quiet every WINDOW.
 * All other PEs wait in a barrier meanwhile, as in OSU's benchmarks. With more PEs than two only streams are measured:
 * what waiting PEs leave of the cores. */
#include "host.h"

#include <string.h>

enum { WINDOW = 64 };

static long *word_of(char *buffer) { return (long *)(void *)buffer; }

/* -- put and get ------------------------------------------------------------------------------------------------ */

/* The sender fills its source, the receiver clears its destination; which PE is which depends on the direction. */
static void prepare_put(struct bench *b, long stamp)
{
    if (bench_me == 0)
        bench_fill(b->source, b->len_bytes, (uint64_t)stamp);
    else if (bench_me == 1)
        memset(b->dest, 0xff, b->len_bytes);
}
static bool put_is_right(const struct bench *b, long stamp)
{
    return bench_me != 1 || bench_holds(b->dest, b->len_bytes, (uint64_t)stamp);
}
static void prepare_get(struct bench *b, long stamp)
{
    if (bench_me == 1)
        bench_fill(b->source, b->len_bytes, (uint64_t)stamp);
    else if (bench_me == 0)
        memset(b->dest, 0xff, b->len_bytes);
}
static bool get_is_right(const struct bench *b, long stamp)
{
    return bench_me != 0 || bench_holds(b->dest, b->len_bytes, (uint64_t)stamp);
}

static void put_lat(struct bench *b, long iters)
{
    for (long i = 0; i < iters; i++) {
        shmem_putmem(b->dest, b->source, b->len_bytes, 1);
        shmem_quiet();
    }
}
static void get_lat(struct bench *b, long iters)
{
    for (long i = 0; i < iters; i++)
        shmem_getmem(b->dest, b->source, b->len_bytes, 1);
}
static void put_bw(struct bench *b, long iters)
{
    for (long i = 0; i < iters; i++) {
        shmem_putmem(b->dest, b->source, b->len_bytes, 1);
        if (i % WINDOW == WINDOW - 1)
            shmem_quiet();
    }
    shmem_quiet();
}
static void put_nbi_bw(struct bench *b, long iters)
{
    for (long i = 0; i < iters; i++) {
        shmem_putmem_nbi(b->dest, b->source, b->len_bytes, 1);
        if (i % WINDOW == WINDOW - 1)
            shmem_quiet();
    }
    shmem_quiet();
}
static void get_nbi_bw(struct bench *b, long iters)
{
    for (long i = 0; i < iters; i++) {
        shmem_getmem_nbi(b->dest, b->source, b->len_bytes, 1);
        if (i % WINDOW == WINDOW - 1)
            shmem_quiet();
    }
    shmem_quiet();
}

struct move {
    const char *name;
    void (*body)(struct bench *, long);
    bool is_put, is_latency;
};

static void bench_move(const struct move *move, size_t len_bytes)
{
    for (int place = HEAP; place < PLACES; place++) {
        struct bench b = {.unit = move->is_latency ? "us" : "MB/s", .body = move->body, .place = (enum place)place};
        b.prepare = move->is_put ? prepare_put : prepare_get;
        b.right = move->is_put ? put_is_right : get_is_right;
        b.len_bytes = len_bytes;
        bench_add(b, "%s_%s_%s", move->name, bench_size_name(len_bytes), bench_place_name[place]);
    }
    bench_go();
}

static void bench_put_get(void)
{
    static const size_t latency_bytes[] = {8, 1024, 65536};
    static const size_t bandwidth_bytes[] = {8, 64, 1024, 8192, 65536, 1 << 20, 8 << 20};
    static const struct move moves[] = {{"put_lat", put_lat, true, true},  {"get_lat", get_lat, false, true},
                                        {"put_bw", put_bw, true, false},   {"put_nbi_bw", put_nbi_bw, true, false},
                                        {"get_bw", get_lat, false, false}, {"get_nbi_bw", get_nbi_bw, false, false}};
    for (size_t m = 0; m < sizeof moves / sizeof moves[0]; m++) {
        if (moves[m].is_latency)
            for (size_t s = 0; bench_npes == 2 && s < sizeof latency_bytes / sizeof latency_bytes[0]; s++)
                bench_move(&moves[m], latency_bytes[s]);
        else
            for (size_t s = 0; s < sizeof bandwidth_bytes / sizeof bandwidth_bytes[0]; s++)
                bench_move(&moves[m], bandwidth_bytes[s]);
    }
}

/* -- one word ---------------------------------------------------------------------------------------------------- */

static void p_lat(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = 0; i < iters; i++) {
        shmem_long_p(dest, b->sequence + i, 1);
        shmem_quiet();
    }
}
static bool p_is_right(const struct bench *b, long stamp)
{
    return bench_me == 0 || *word_of(b->dest) == stamp + b->iters - 1;
}
static void prepare_g(struct bench *b, long stamp) { *word_of(b->source) = stamp + bench_me; }
static void g_lat(struct bench *b, long iters)
{
    const long *source = word_of(b->source);
    long differences = 0;
    for (long i = 0; i < iters; i++)
        differences |= shmem_long_g(source, 1) ^ (b->sequence + 1);
    b->failed = differences;
}

/* Consecutive words, so that every message counts; all PEs of the lower half send to the upper half. */
static void message_rate(struct bench *b, long iters)
{
    long *dest = word_of(b->dest), *source = word_of(b->source);
    int peer = bench_me + bench_npes / 2;
    if (peer >= bench_npes)
        return;
    for (long i = 0; i < iters; i++) {
        shmem_long_put_nbi(&dest[i % WINDOW], &source[i % WINDOW], 1, peer);
        if (i % WINDOW == WINDOW - 1)
            shmem_quiet();
    }
    shmem_quiet();
}
static void prepare_rate(struct bench *b, long stamp)
{
    bench_fill(b->source, WINDOW * 8, (uint64_t)stamp);
    memset(b->dest, 0xff, WINDOW * 8);
}
static bool rate_is_right(const struct bench *b, long stamp)
{
    size_t words = b->iters < WINDOW ? (size_t)b->iters : WINDOW;
    return bench_me < bench_npes / 2 || bench_holds(b->dest, words * 8, (uint64_t)stamp);
}

/* -- atomics: every one leaves a count by which the target is checked ------------------------------------------------
 */

static void prepare_amo(struct bench *b, long stamp) { *word_of(b->dest) = stamp; }
static bool amo_counted(const struct bench *b, long stamp)
{
    return bench_me == 0 || *word_of(b->dest) == stamp + b->iters;
}
static void fetch_add_lat(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = 0; i < iters; i++)
        b->failed |= shmem_long_atomic_fetch_add(dest, 1, 1) ^ (b->sequence + i);
}
static void compare_swap_lat(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = b->sequence; i < b->sequence + iters; i++)
        b->failed |= shmem_long_atomic_compare_swap(dest, i, i + 1, 1) ^ i;
}
static void swap_lat(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = b->sequence; i < b->sequence + iters; i++)
        b->failed |= shmem_long_atomic_swap(dest, i + 1, 1) ^ i;
}
static void fetch_lat(struct bench *b, long iters)
{
    const long *dest = word_of(b->dest);
    for (long i = 0; i < iters; i++)
        b->failed |= shmem_long_atomic_fetch(dest, 1) ^ b->sequence;
}
static void add_rate(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = 0; i < iters; i++)
        shmem_long_atomic_add(dest, 1, 1);
    shmem_quiet();
}
static void inc_rate(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = 0; i < iters; i++)
        shmem_long_atomic_inc(dest, 1);
    shmem_quiet();
}
static void set_rate(struct bench *b, long iters)
{
    long *dest = word_of(b->dest);
    for (long i = b->sequence; i < b->sequence + iters; i++)
        shmem_long_atomic_set(dest, i + 1, 1);
    shmem_quiet();
}

/* -- locks --------------------------------------------------------------------------------------------------------- */

static void prepare_lock(struct bench *b, long stamp)
{
    *word_of(b->dest) = 0; /* the lock: free */
    *word_of(b->source) = stamp;
}
/* A plain counter on PE 0 that only the lock protects. */
static void lock_unlock(struct bench *b, long iters)
{
    long *lock = word_of(b->dest), *counter = word_of(b->source);
    for (long i = 0; i < iters; i++) {
        shmem_set_lock(lock);
        if (b->everybody)
            shmem_long_p(counter, shmem_long_g(counter, 0) + 1, 0);
        shmem_clear_lock(lock);
    }
    if (!b->everybody)
        *counter += iters;
}
static bool lock_counted(const struct bench *b, long stamp)
{
    long holders = b->everybody ? bench_npes : 1;
    return bench_me != 0 || *word_of(b->source) == stamp + holders * b->iters;
}

/* -- ping-pong: an iteration is one way ------------------------------------------------------------------------------
 */

static void prepare_pingpong(struct bench *b, long stamp)
{
    (void)stamp;
    *b->flag = 0;
    *word_of(b->dest) = -1;
}
/* One after the other PE 0 and PE 1 send the number of the hop; who receives it checks it. */
static void put_fence_p_pingpong(struct bench *b, long iters)
{
    long *dest = word_of(b->dest), *source = word_of(b->source), *flag = (long *)(void *)b->flag;
    for (long hop = 1; hop <= iters; hop++) {
        if (hop % 2 == (bench_me == 0)) {
            *source = hop;
            shmem_putmem(dest, source, b->len_bytes, 1 - bench_me);
            shmem_fence();
            shmem_long_p(flag, hop, 1 - bench_me);
        } else {
            shmem_long_wait_until(flag, SHMEM_CMP_GE, hop);
            b->failed |= *(volatile long *)dest ^ hop;
        }
    }
}
#ifdef HAVE_15
static void put_signal_pingpong(struct bench *b, long iters)
{
    long *dest = word_of(b->dest), *source = word_of(b->source);
    for (long hop = 1; hop <= iters; hop++) {
        if (hop % 2 == (bench_me == 0)) {
            *source = hop;
            shmem_putmem_signal(dest, source, b->len_bytes, b->flag, (uint64_t)hop, SHMEM_SIGNAL_SET, 1 - bench_me);
        } else {
            shmem_signal_wait_until(b->flag, SHMEM_CMP_GE, (uint64_t)hop);
            b->failed |= *(volatile long *)dest ^ hop;
        }
    }
}
#endif

/* ----------------------------------------------------------------------------------------------------------------- */

static void bench_pingpong(void)
{
    static const size_t bytes[] = {8, 1024, 65536};
    for (size_t s = 0; s < sizeof bytes / sizeof bytes[0]; s++) {
        for (int place = HEAP; place < PLACES; place++) {
            struct bench b = {.unit = "us", .body = put_fence_p_pingpong, .place = (enum place)place};
            b.prepare = prepare_pingpong;
            b.everybody = true;
            b.len_bytes = bytes[s];
            bench_add(b, "put_fence_p_pingpong_%s_%s", bench_size_name(bytes[s]), bench_place_name[place]);
#ifdef HAVE_15
            b.body = put_signal_pingpong;
            bench_add(b, "put_signal_pingpong_%s_%s", bench_size_name(bytes[s]), bench_place_name[place]);
#endif
        }
        bench_go();
    }
}

void bench_rma(void)
{
    static const struct {
        const char *name;
        struct bench b;
    } row[] = {
        {"p_lat_8B", {.unit = "us", .body = p_lat, .right = p_is_right}},
        {"g_lat_8B", {.unit = "us", .body = g_lat, .prepare = prepare_g}},
        {"message_rate_8B",
         {.unit = "Mmsg/s", .body = message_rate, .prepare = prepare_rate, .right = rate_is_right, .everybody = true}},
        {"atomic_fetch_add_lat", {.unit = "us", .body = fetch_add_lat, .prepare = prepare_amo, .right = amo_counted}},
        {"atomic_compare_swap_lat",
         {.unit = "us", .body = compare_swap_lat, .prepare = prepare_amo, .right = amo_counted}},
        {"atomic_swap_lat", {.unit = "us", .body = swap_lat, .prepare = prepare_amo, .right = amo_counted}},
        {"atomic_fetch_lat", {.unit = "us", .body = fetch_lat, .prepare = prepare_amo}},
        {"atomic_add_rate", {.unit = "us", .body = add_rate, .prepare = prepare_amo, .right = amo_counted}},
        {"atomic_inc_rate", {.unit = "us", .body = inc_rate, .prepare = prepare_amo, .right = amo_counted}},
        {"atomic_set_rate", {.unit = "us", .body = set_rate, .prepare = prepare_amo, .right = amo_counted}},
        {"lock_unlock_lat", {.unit = "us", .body = lock_unlock, .prepare = prepare_lock, .right = lock_counted}},
        {"lock_contended",
         {.unit = "us", .body = lock_unlock, .prepare = prepare_lock, .right = lock_counted, .everybody = true}},
    };
    bench_put_get();
    if (bench_npes > 2)
        return;
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        for (int place = HEAP; place < PLACES; place++) {
            struct bench b = row[r].b;
            b.place = (enum place)place;
            bench_add(b, "%s_%s", row[r].name, bench_place_name[place]);
        }
        bench_go();
    }
    bench_pingpong();
}
