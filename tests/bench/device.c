/* SPDX-License-Identifier: MIT */
/* How long in-kernel operations take, each with its data checked: one line of CSV per measurement, by PE 0.
 *     isomer,METRIC,bytes,value,unit,bad words
 * (put_signal_block_last: only the last message of a launch is, since the peers' programs do not look at theirs.)
 * Ping-pongs run between PE 0 and PE 1 and report half a round trip: the median over some places of flag and inbox,
 * since on a GPU it depends on the half of the cache in which the polled word lies; the lowest and the highest are a
 * comment behind it. Collectives run over all PEs. The plain copies (store_copy, load_copy) are the limit that put and
 * get are held against in the same run.
 * usage: device [iterations [largest copy in MiB]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SMALL_WORDS 128 /* sources of up to 1 KiB stand in block-shared memory, one for each pattern */
#define PATTERNS 8
#define PLACES 8 /* of flag and inbox, PLACE_BYTES apart */
#define PLACE_BYTES (12 * 1024 + 256)

struct bench_args {
    shmemd_t h;
    uint64_t *flag;       /* symmetric */
    uint64_t *inbox;      /* symmetric, written by the peer */
    uint64_t *source;     /* [PATTERNS][words] */
    uint64_t *bad;        /* not 0: a thread saw a wrong word */
    uint64_t words, base; /* flags begin behind base */
    uint64_t iters;
    int first; /* this PE sends first */
    char *to, *from;
    size_t bytes;
    int peer;
};

SHMEMD_FN uint64_t pattern(uint64_t step, uint64_t w) { return step % PATTERNS * 1000003u + w; }

struct wide {
    uint64_t a, b;
} __attribute__((aligned(16)));

#define PAIRS_AT_ONCE 8

/* Every word of a message, in pairs; a thread's loads are under way before the first of them is waited for. */
SHMEMD_FN uint64_t wrong_pairs(const struct wide *pairs, uint32_t n, uint64_t step)
{
    const uint32_t size = shmemd_block_size();
    uint64_t wrong = 0;
    for (uint32_t i = shmemd_thread_index(); i < n; i += PAIRS_AT_ONCE * size) {
        struct wide v[PAIRS_AT_ONCE];
        for (uint32_t k = 0; k < PAIRS_AT_ONCE; k++)
            if (i + k * size < n)
                v[k] = pairs[i + k * size];
        for (uint32_t k = 0; k < PAIRS_AT_ONCE; k++)
            if (i + k * size < n)
                wrong |=
                    (v[k].a ^ pattern(step, 2 * (i + k * size))) | (v[k].b ^ pattern(step, 2 * (i + k * size) + 1));
    }
    return wrong;
}
SHMEMD_FN void check_words(struct bench_args a, const uint64_t *seen, uint64_t step)
{
    const uint64_t w = shmemd_thread_index();
    uint64_t wrong = 0;
    if (a.words > shmemd_block_size())
        wrong = wrong_pairs((const struct wide *)(const void *)seen, (uint32_t)a.words / 2, step);
    else if (w < a.words)
        wrong = seen[w] ^ pattern(step, w);
    if (wrong != 0)
        shmemd_uint64_atomic_inc(a.h, a.bad, shmemd_my_pe(a.h));
}

SHMEMD_FN void fill_patterns(uint64_t *shared, uint64_t words)
{
    for (uint64_t i = shmemd_thread_index(); i < PATTERNS * words; i += shmemd_block_size())
        shared[i] = pattern(i / words, i % words);
    shmemd_group_sync(shmemd_block());
}

SHMEMD_KERNEL(pong_p, struct bench_args, a)
{
    for (uint64_t i = 1; i <= a.iters; i++) {
        if (a.first)
            shmemd_uint64_p(a.h, a.flag, a.base + i, a.peer);
        shmemd_uint64_wait_until(a.h, a.flag, SHMEM_CMP_GE, a.base + i);
        if (!a.first)
            shmemd_uint64_p(a.h, a.flag, a.base + i, a.peer);
    }
}

SHMEMD_FN void send(struct bench_args a, const uint64_t *sources, uint64_t step)
{
    shmemd_uint64_put_signal_block(a.h, a.inbox, sources + step % PATTERNS * a.words, (size_t)a.words, a.flag,
                                   a.base + step, SHMEM_SIGNAL_SET, a.peer);
}

/* each: every message is looked at before it is answered, else the last one. In turns, so that the code stands here
 * once as it does in a program, and 128 registers a thread are enough. */
SHMEMD_FN void pong_signal(struct bench_args a, const uint64_t *sources, int each)
{
    for (uint64_t turn = 0; turn < 2 * a.iters; turn++) {
        uint64_t i = turn / 2 + 1;
        if ((turn % 2 == 0) == (a.first != 0)) {
            send(a, sources, i);
        } else {
            shmemd_signal_wait_until_block(a.h, a.flag, SHMEM_CMP_GE, a.base + i);
            if (each || i == a.iters)
                check_words(a, a.inbox, i);
        }
    }
}

SHMEMD_KERNEL(pong_signal_shared, struct bench_args, a)
{
    SHMEMD_SHARED(uint64_t, shared, PATTERNS * SMALL_WORDS);
    fill_patterns(shared, a.words);
    pong_signal(a, shared, 1);
}

SHMEMD_KERNEL_BOUNDED(pong_signal_global, struct bench_args, a, 512) { pong_signal(a, a.source, 1); }
SHMEMD_KERNEL_BOUNDED(pong_signal_last, struct bench_args, a, 512) { pong_signal(a, a.source, 0); }

/* Two areas in turn: the sender may run one packet ahead of the receiver's reading. */
SHMEMD_FN void send_packet(struct bench_args a, const uint64_t *shared, uint64_t i)
{
    shmemd_put_packet_block(a.h, a.inbox + (i & 1) * 2 * a.words, shared + i % PATTERNS * a.words, a.words * 8,
                            (uint32_t)(a.base + i), a.peer);
}

/* A thread has a word. */
SHMEMD_FN void check_packet(struct bench_args a, const uint64_t *landed, uint64_t step)
{
    uint32_t w = shmemd_thread_index();
    if (w < (uint32_t)a.words && landed[w] != pattern(step, w))
        *a.bad = 1;
}

SHMEMD_KERNEL(pong_packet, struct bench_args, a)
{
    SHMEMD_SHARED(uint64_t, shared, PATTERNS * SMALL_WORDS);
    SHMEMD_SHARED(uint64_t, landed, SMALL_WORDS);
    fill_patterns(shared, a.words);
    for (uint64_t i = 1; i <= a.iters; i++) {
        if (a.first)
            send_packet(a, shared, i);
        shmemd_get_packet_block(a.h, landed, a.inbox + (i & 1) * 2 * a.words, a.words * 8, (uint32_t)(a.base + i));
        check_packet(a, landed, i);
        if (!a.first)
            send_packet(a, shared, i);
        shmemd_group_sync(shmemd_block()); /* landed has been read */
    }
}

/* To all other PEs, many at once: to those of other nodes by the ring. */
SHMEMD_KERNEL(loop_put_signals, struct bench_args, a)
{
    for (uint64_t i = 1; i <= a.iters; i++)
        for (int pe = 1; pe < shmemd_n_pes(a.h); pe++) {
            uint64_t *source = a.source + i % PATTERNS * a.words;
            source[0] = a.base + i;
            shmemd_uint64_put_signal(a.h, a.inbox, source, (size_t)a.words, a.flag, a.base + i, SHMEM_SIGNAL_SET, pe);
        }
    shmemd_quiet(a.h);
}

SHMEMD_KERNEL(chain_fetch_add, struct bench_args, a)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < a.iters; i++) /* each waits for the one before */
        sum = shmemd_uint64_atomic_fetch_add(a.h, a.flag, 1 + (sum >> 63), a.peer);
    if (sum != a.base + a.iters - 1)
        shmemd_uint64_atomic_inc(a.h, a.bad, shmemd_my_pe(a.h));
}

SHMEMD_KERNEL(loop_sync, struct bench_args, a)
{
    for (uint64_t i = 0; i < a.iters; i++)
        shmemd_sync_block(a.h);
}

SHMEMD_KERNEL(loop_barrier, struct bench_args, a)
{
    for (uint64_t i = 0; i < a.iters; i++)
        shmemd_barrier_block(a.h);
}

SHMEMD_KERNEL(loop_allreduce, struct bench_args, a)
{
    for (uint64_t i = 0; i < a.iters; i++)
        shmemd_float_sum_reduce_block(a.h, (float *)(void *)a.to, (const float *)(const void *)a.from,
                                      a.bytes / sizeof(float));
}

SHMEMD_KERNEL(copy_put, struct bench_args, a)
{
    size_t share = a.bytes / shmemd_block_count(), at = share * shmemd_block_index();
    shmemd_putmem_nbi_block(a.h, a.to + at, a.from + at, share, a.peer);
}

SHMEMD_KERNEL(copy_get, struct bench_args, a)
{
    size_t share = a.bytes / shmemd_block_count(), at = share * shmemd_block_index();
    shmemd_getmem_nbi_block(a.h, a.to + at, a.from + at, share, a.peer);
}

SHMEMD_KERNEL(copy_plain, struct bench_args, a)
{
    struct wide *to = (struct wide *)(void *)a.to;
    const struct wide *from = (const struct wide *)(const void *)a.from;
    size_t threads = (size_t)shmemd_block_count() * shmemd_block_size();
    for (size_t i = (size_t)shmemd_block_index() * shmemd_block_size() + shmemd_thread_index(); i < a.bytes / 16;
         i += threads)
        to[i] = from[i];
}

SHMEMD_KERNEL(find_pointer, struct bench_args, a) /* out: a.bad[1] = the address of a.to at the peer */
{
    if (shmemd_thread_index() == 0)
        a.bad[1] = (uint64_t)(uintptr_t)shmemd_ptr(a.h, a.to, a.peer);
}

/* ---- host ---- */

struct run {
    struct bench_args a;
    char *flags, *inboxes; /* all places */
    uint64_t *bad;
    int me, n;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void report(struct run *r, const char *metric, size_t bytes, double value, const char *unit)
{
    uint64_t bad;
    shmem_getmem(&bad, r->bad, sizeof bad, r->me);
    if (r->me == 0 || bad != 0)
        printf("isomer,%s,%zu,%.3f,%s,%llu\n", metric, bytes, value, unit, (unsigned long long)bad);
    fflush(stdout);
}

/* Best of a few launches, microseconds per iteration: whatever else runs only adds time. */
static double timed(struct run *r, shmemx_kernel_t kernel, unsigned blocks, unsigned threads, int takes_part)
{
    double best = 1e30;
    for (int round = 0; round < 5; round++) {
        r->a.base += r->a.iters;
        shmem_barrier_all();
        double start = now_us();
        if (takes_part) {
            if (shmemx_launch(kernel, blocks, threads, 0, &r->a, sizeof r->a, NULL) != 0 ||
                shmemx_stream_synchronize(NULL) != 0)
                shmem_global_exit(1); /* it has said why */
        }
        double spent = (now_us() - start) / (double)r->a.iters;
        if (round > 0 && spent < best)
            best = spent;
        shmem_barrier_all();
    }
    return best;
}

static void place(struct run *r, int k)
{
    r->a.flag = (uint64_t *)(void *)(r->flags + (size_t)k * PLACE_BYTES);
    r->a.inbox = (uint64_t *)(void *)(r->inboxes + (size_t)k * PLACE_BYTES);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report_places(struct run *r, const char *metric, size_t bytes, double *us)
{
    qsort(us, PLACES, sizeof *us, compare);
    report(r, metric, bytes, (us[PLACES / 2 - 1] + us[PLACES / 2]) / 2, "us");
    if (r->me == 0)
        printf("# %s,%zu: %.3f .. %.3f us in %d places\n", metric, bytes, us[0], us[PLACES - 1], PLACES);
}

static void pingpong(struct run *r, const char *metric, size_t bytes, shmemx_kernel_t kernel, unsigned threads)
{
    double us[PLACES];
    r->a.words = bytes / 8;
    for (int k = 0; k < PLACES; k++) {
        place(r, k);
        us[k] = timed(r, kernel, 1, threads, r->me < 2) / 2;
    }
    report_places(r, metric, bytes, us);
}

/* The counters that PE 0 adds to begin at 0. */
static void fetch_adds(struct run *r)
{
    double us[PLACES];
    uint64_t base = r->a.base, zero = 0;
    for (int k = 0; k < PLACES; k++) {
        place(r, k);
        r->a.flag++;
        if (r->me == 1)
            shmem_putmem(r->a.flag, &zero, 8, 1);
        r->a.base = 0 - r->a.iters;
        us[k] = timed(r, SHMEMX_KERNEL(chain_fetch_add), 1, 1, r->me == 0);
    }
    r->a.base = base;
    report_places(r, "fetch_add", 8, us);
}

static void pingpongs(struct run *r)
{
    static const size_t shared[] = {8, 1024}, packets[] = {8, 256, 1024};
    uint64_t iters = r->a.iters, words = 65536 / 8;
    r->a.iters = iters / 4;
    r->a.peer = r->me == 0 ? 1 : 0;
    r->a.first = r->me == 0;
    pingpong(r, "p_half_rtt", 8, SHMEMX_KERNEL(pong_p), 1);
    for (size_t i = 0; i < 2; i++)
        pingpong(r, "put_signal_block_half_rtt", shared[i], SHMEMX_KERNEL(pong_signal_shared), 128);
    for (size_t i = 0; i < 3; i++)
        pingpong(r, "put_packet_block_half_rtt", packets[i], SHMEMX_KERNEL(pong_packet), 128);
    uint64_t *host = (uint64_t *)malloc(PATTERNS * 65536);
    for (uint64_t i = 0; i < PATTERNS * words; i++)
        host[i] = i / words * 1000003u + i % words;
    shmem_putmem(r->a.source, host, PATTERNS * 65536, r->me);
    free(host);
    pingpong(r, "put_signal_block_half_rtt", 65536, SHMEMX_KERNEL(pong_signal_global), 512);
    pingpong(r, "put_signal_block_last_half_rtt", 65536, SHMEMX_KERNEL(pong_signal_last), 512);
    fetch_adds(r);
    place(r, 0);
    r->a.iters = iters;
}

static void put_signals(struct run *r)
{
    for (size_t bytes = 8; bytes <= 1024; bytes *= 128) {
        uint64_t seen[2];
        r->a.words = bytes / 8;
        double us = timed(r, SHMEMX_KERNEL(loop_put_signals), 1, 1, r->me == 0) / (r->n - 1);
        shmem_getmem(&seen[0], r->a.inbox, 8, r->me);
        shmem_getmem(&seen[1], r->a.flag, 8, r->me);
        uint64_t wrong = r->me != 0 && (seen[0] != r->a.base + r->a.iters || seen[1] != seen[0]);
        if (wrong)
            shmem_putmem(r->bad, &wrong, 8, r->me);
        report(r, "put_signals", bytes, us, "us");
    }
}

static void collectives(struct run *r)
{
    float *host = (float *)malloc(1024);
    report(r, "sync_block", 0, timed(r, SHMEMX_KERNEL(loop_sync), 1, 128, 1), "us");
    report(r, "barrier_block", 0, timed(r, SHMEMX_KERNEL(loop_barrier), 1, 128, 1), "us");
    r->a.to = (char *)r->a.source;
    r->a.from = (char *)r->a.inbox;
    r->a.bytes = 1024;
    for (int i = 0; i < 256; i++)
        host[i] = (float)(r->me + i);
    shmem_putmem(r->a.from, host, 1024, r->me);
    double us = timed(r, SHMEMX_KERNEL(loop_allreduce), 1, 64, 1);
    shmem_getmem(host, r->a.to, 1024, r->me);
    for (int i = 0; i < 256; i++)
        if (host[i] != (float)(r->n * (r->n - 1) / 2 + r->n * i)) {
            uint64_t one = 1;
            shmem_putmem(r->bad, &one, 8, r->me);
        }
    report(r, "allreduce_block", 1024, us, "us");
    float *heap = (float *)shmem_malloc(2048);
    memset(heap, 0, 1024);
    double start = now_us();
    for (int i = 0; i < 1000; i++)
        shmem_float_sum_reduce(SHMEM_TEAM_WORLD, heap + 256, heap, 256);
    report(r, "host_allreduce", 1024, (now_us() - start) / 1000, "us");
    shmem_free(heap);
    free(host);
}

static int same_bytes(const char *device, const char *expected, size_t bytes, int pe)
{
    char *seen = (char *)malloc(bytes);
    shmem_getmem(seen, device, bytes, pe);
    int same = memcmp(seen, expected, bytes) == 0;
    free(seen);
    return same;
}

/* PE 0 copies to, or from, PE 1; a plain copy beside it by the pointer. */
static void copies(struct run *r, size_t most)
{
    char *here = (char *)shmemx_malloc(most, SHMEMX_DEVICE), *there = (char *)shmemx_malloc(most, SHMEMX_DEVICE);
    char *host = (char *)malloc(most);
    int *near = (int *)shmem_malloc(5 * sizeof *near);
    for (size_t i = 0; i < most; i++)
        host[i] = (char)(i * 7 + i / 4096);
    shmem_putmem(r->me == 0 ? here : there, host, most, r->me);
    shmem_barrier_all();
    uint64_t iters = r->a.iters;
    r->a.iters = 1;
    r->a.peer = 1;
    for (size_t bytes = most >= (16u << 20) ? 1u << 20 : most; bytes <= most; bytes *= 16) {
        static const char *const names[] = {"put_block_bw", "store_copy_bw", "get_block_bw", "load_copy_bw"};
        for (int what = 0; what < 4; what++) {
            int pull = what >= 2;
            int *found = near + what; /* at PE 0; the next ones are written before all have read this one */
            near[4] = 1;
            r->a.bytes = bytes;
            r->a.to = pull ? here : there;
            r->a.from = pull ? there : here;
            shmemx_kernel_t kernel = what == 0   ? SHMEMX_KERNEL(copy_put)
                                     : what == 2 ? SHMEMX_KERNEL(copy_get)
                                                 : SHMEMX_KERNEL(copy_plain);
            if (what % 2 == 1 && r->me == 0) { /* the peer's side by pointer */
                struct bench_args find = r->a;
                uint64_t address;
                find.to = there;
                shmemx_launch(SHMEMX_KERNEL(find_pointer), 1, 1, 0, &find, sizeof find, NULL);
                shmemx_stream_synchronize(NULL);
                shmem_getmem(&address, r->bad + 1, 8, 0);
                if (pull)
                    r->a.from = (char *)(uintptr_t)address;
                else
                    r->a.to = (char *)(uintptr_t)address;
                near[4] = address != 0; /* the peer may be on another node */
            }
            shmem_int_broadcast(SHMEM_TEAM_WORLD, found, near + 4, 1, 0);
            if (!*found)
                continue;
            double us = timed(r, kernel, 64, 1024, r->me == 0);
            if (!same_bytes(there, host, bytes, 1) || !same_bytes(here, host, bytes, 0)) {
                uint64_t one = 1;
                shmem_putmem(r->bad, &one, 8, r->me);
            }
            report(r, names[what], bytes, (double)bytes / us / 1e3, "GB/s");
        }
    }
    r->a.iters = iters;
    shmem_free(near);
    free(host);
    shmemx_free(there);
    shmemx_free(here);
}

int main(int argc, char **argv)
{
    struct run r;
    char device[160];
    shmem_init();
    memset(&r, 0, sizeof r);
    r.me = shmem_my_pe();
    r.n = shmem_n_pes();
    if (shmemx_device_init() != 0) { /* which has said why */
        shmem_finalize();
        return 77;
    }
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &r.a.h) != 0)
        shmem_global_exit(1);
    shmemx_device_text(device, sizeof device);
    int on_cpu = strncmp(device, "cpu", 3) == 0;
    r.a.iters = argc > 1 ? strtoull(argv[1], NULL, 0) : on_cpu ? 500 : 20000;
    r.flags = (char *)shmemx_calloc(PLACES, PLACE_BYTES, SHMEMX_DEVICE);
    r.bad = (uint64_t *)shmemx_calloc(2, 8, SHMEMX_DEVICE);
    r.a.bad = r.bad;
    r.inboxes = (char *)shmemx_calloc(65536 + PLACES * PLACE_BYTES, 1, SHMEMX_DEVICE);
    place(&r, 0);
    r.a.source = (uint64_t *)shmemx_calloc(PATTERNS * 65536, 1, SHMEMX_DEVICE);
    if (r.me == 0)
        printf("# %d PEs, %s, %llu iterations\n", r.n, device, (unsigned long long)r.a.iters);
    if (r.n >= 2) {
        pingpongs(&r);
        put_signals(&r);
    }
    collectives(&r);
    if (r.n >= 2)
        copies(&r, (argc > 2 ? strtoul(argv[2], NULL, 0) : on_cpu ? 4 : 256) << 20);
    uint64_t bad;
    shmem_getmem(&bad, r.bad, sizeof bad, r.me);
    shmem_finalize();
    return bad != 0;
}
