/* SPDX-License-Identifier: MIT */
/* Collectives on streams, bfloat16, each result checked: one line of CSV per measurement, by PE 0.
 *     isomer,KIND,bf16,bytes,us of a call,graph or plain,bad elements,algorithm
 * bytes: of the whole message (all-gather: output, reduce-scatter and all-to-all: input), as the peers' programs count.
 * KIND_max, _min, _prod: by that operator. KIND_odd: blocks have an element more. KIND_own: memory that is not
 * symmetric, by the vendor's allocator. These are measured at a few sizes.
 * A sample is a graph of calls replayed (or the calls launched one by one) and waited for; a call counts for its
 * slowest PE; the value is the median of the samples. usage: coll [most bytes [kind,kind,... or all [samples]]] */
#include <shmem.h>
#include <shmemx.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 11, REPLAYS = 4, CHECKED = 4096 };

enum way { USUAL, ODD, OWN };
struct kind {
    int kind;
    const char *name;
    int whole; /* bytes are of n blocks */
    int op;
    enum way way;
};
static const struct kind kinds[] = {
    {SHMEMX_ALLREDUCE, "allreduce", 0, SHMEMX_SUM, USUAL},
    {SHMEMX_FCOLLECT, "allgather", 1, SHMEMX_SUM, USUAL},
    {SHMEMX_REDUCESCATTER, "reducescatter", 1, SHMEMX_SUM, USUAL},
    {SHMEMX_ALLTOALL, "alltoall", 1, SHMEMX_SUM, USUAL},
    {SHMEMX_BROADCAST, "broadcast", 0, SHMEMX_SUM, USUAL},
    {SHMEMX_PERMUTE, "permute", 0, SHMEMX_SUM, USUAL},
    {SHMEMX_BARRIER, "barrier", 0, SHMEMX_SUM, USUAL},
    {SHMEMX_SYNC, "sync", 0, SHMEMX_SUM, USUAL},
    {SHMEMX_ALLREDUCE, "allreduce_max", 0, SHMEMX_MAX, USUAL},
    {SHMEMX_ALLREDUCE, "allreduce_min", 0, SHMEMX_MIN, USUAL},
    {SHMEMX_ALLREDUCE, "allreduce_prod", 0, SHMEMX_PROD, USUAL},
    {SHMEMX_REDUCESCATTER, "reducescatter_max", 1, SHMEMX_MAX, USUAL},
    {SHMEMX_REDUCESCATTER, "reducescatter_prod", 1, SHMEMX_PROD, USUAL},
    {SHMEMX_FCOLLECT, "allgather_odd", 1, SHMEMX_SUM, ODD},
    {SHMEMX_ALLTOALL, "alltoall_odd", 1, SHMEMX_SUM, ODD},
    {SHMEMX_REDUCESCATTER, "reducescatter_odd", 1, SHMEMX_SUM, ODD},
    {SHMEMX_BROADCAST, "broadcast_odd", 0, SHMEMX_SUM, ODD},
    {SHMEMX_ALLREDUCE, "allreduce_own", 0, SHMEMX_SUM, OWN},
    {SHMEMX_FCOLLECT, "allgather_own", 1, SHMEMX_SUM, OWN},
    {SHMEMX_REDUCESCATTER, "reducescatter_own", 1, SHMEMX_SUM, OWN},
    {SHMEMX_ALLTOALL, "alltoall_own", 1, SHMEMX_SUM, OWN},
    {SHMEMX_BROADCAST, "broadcast_own", 0, SHMEMX_SUM, OWN},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct bench {
    int me, n;
    uint16_t *dest, *source;         /* symmetric device memory of `most` bytes and a block's odd element each */
    uint16_t *own_dest, *own_source; /* the same, not symmetric */
    size_t most;
    shmemx_stream_t stream;
    const char *wanted;
    int samples;
};

static void need(int failed, const char *what)
{
    if (failed == 0)
        return;
    fprintf(stderr, "coll: %s failed\n", what);
    shmem_global_exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- data: small integers ---- */

static unsigned value_of(int pe, size_t i) { return (unsigned)(((size_t)pe * 3 + i * 5 + i / 251) % 16); }

/* Rounded to nearest even. */
static uint16_t bf16_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void fill(const struct bench *b, const struct kind *k, size_t elems)
{
    uint16_t *host = (uint16_t *)malloc(elems * 2);
    need(host == NULL, "malloc");
    for (size_t i = 0; i < elems; i++)
        host[i] = bf16_of((float)value_of(b->me, i));
    shmem_putmem(b->source, host, elems * 2, b->me);
    memset(host, 0xff, elems * 2);
    shmem_putmem(b->dest, host, elems * 2, b->me);
    shmem_quiet();
    free(host);
    if (k->way == OWN) {
        shmem_getmem(b->own_source, b->source, elems * 2, b->me);
        shmem_getmem(b->own_dest, b->dest, elems * 2, b->me);
    }
}

static float combined(int op, float x, float y)
{
    switch (op) {
    case SHMEMX_MAX:
        return x > y ? x : y;
    case SHMEMX_MIN:
        return x < y ? x : y;
    case SHMEMX_PROD:
        return x * y;
    default:
        return x + y;
    }
}

static uint16_t expected(const struct bench *b, const struct kind *k, size_t nelems, size_t i)
{
    size_t at = k->kind == SHMEMX_REDUCESCATTER ? (size_t)b->me * nelems + i : i;
    float all = (float)value_of(0, at);
    switch (k->kind) {
    case SHMEMX_FCOLLECT:
        return bf16_of((float)value_of((int)(i / nelems), i % nelems));
    case SHMEMX_ALLTOALL:
        return bf16_of((float)value_of((int)(i / nelems), (size_t)b->me * nelems + i % nelems));
    case SHMEMX_BROADCAST:
        return bf16_of((float)value_of(0, i));
    case SHMEMX_PERMUTE:
        return bf16_of((float)value_of((b->me + b->n - 1) % b->n, i));
    default:
        for (int pe = 1; pe < b->n; pe++)
            all = combined(k->op, all, (float)value_of(pe, at));
        return bf16_of(all);
    }
}

/* The ends and the middle of dest. */
static size_t count_bad(const struct bench *b, const struct kind *k, size_t nelems)
{
    static const size_t parts = 3;
    size_t whole = k->kind == SHMEMX_FCOLLECT || k->kind == SHMEMX_ALLTOALL ? nelems * (size_t)b->n : nelems, bad = 0;
    size_t len = whole < CHECKED ? whole : CHECKED;
    uint16_t seen[CHECKED];
    if (k->way == OWN) {
        shmem_putmem(b->dest, b->own_dest, whole * 2, b->me);
        shmem_quiet();
    }
    for (size_t p = 0; p < parts && k->kind < SHMEMX_BARRIER; p++) {
        size_t at = (whole - len) / (parts - 1) * p;
        shmem_getmem(seen, b->dest + at, len * 2, b->me);
        for (size_t i = 0; i < len; i++)
            bad += seen[i] != expected(b, k, nelems, at + i);
    }
    return bad;
}

/* ---- one measurement ---- */

static shmemx_coll_t call_of(const struct bench *b, const struct kind *k, size_t nelems)
{
    shmemx_coll_t c = shmemx_coll_of(k->kind, SHMEM_TEAM_WORLD, k->way == OWN ? b->own_dest : b->dest,
                                     k->way == OWN ? b->own_source : b->source, nelems, SHMEMX_BFLOAT16);
    c.op = k->op;
    c.same_place = k->way != OWN;
    c.to = (b->me + 1) % b->n;
    c.from = (b->me + b->n - 1) % b->n;
    return c;
}

static void enqueue(const struct bench *b, const shmemx_coll_t *c, int calls)
{
    for (int i = 0; i < calls; i++)
        need(shmemx_coll_on_stream(c, b->stream), "shmemx_coll_on_stream");
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* graph NULL: launches one by one. */
static double median_us(const struct bench *b, const shmemx_coll_t *c, shmemx_graph_t graph, int calls)
{
    static double mine, slowest; /* symmetric */
    double samples[SAMPLES];
    for (int s = 0; s < b->samples; s++) {
        shmem_barrier_all();
        double begin = seconds();
        for (int r = 0; r < REPLAYS; r++) {
            if (graph != NULL)
                need(shmemx_graph_launch(graph, b->stream), "shmemx_graph_launch");
            else
                enqueue(b, c, calls);
        }
        need(shmemx_stream_synchronize(b->stream), "shmemx_stream_synchronize");
        mine = (seconds() - begin) * 1e6 / (double)(calls * REPLAYS);
        shmem_double_max_reduce(SHMEM_TEAM_WORLD, &slowest, &mine, 1);
        samples[s] = slowest;
    }
    qsort(samples, (size_t)b->samples, sizeof samples[0], by_value);
    return samples[b->samples / 2];
}

static void report(const struct bench *b, const struct kind *k, size_t bytes, double us, const char *way,
                   const shmemx_coll_t *c)
{
    static long bad, all_bad; /* symmetric */
    char line[256];
    bad = (long)count_bad(b, k, c->nelems);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &all_bad, &bad, 1);
    shmemx_coll_explain(c, line, sizeof line);
    if (b->me == 0)
        printf("isomer,%s,bf16,%zu,%.2f,%s,%ld,%s\n", k->name, bytes, us, way, all_bad, line);
    if (b->me == 0)
        fflush(stdout);
    need(all_bad != 0, "the check of the data");
}

static void measure(const struct bench *b, const struct kind *k, size_t bytes)
{
    size_t nelems = (k->whole ? bytes / 2 / (size_t)b->n : bytes / 2) + (k->way == ODD);
    int calls = bytes <= ((size_t)4 << 20) ? 50 : 10;
    shmemx_coll_t c = call_of(b, k, nelems);
    shmemx_graph_t graph;
    fill(b, k, k->whole ? nelems * (size_t)b->n : nelems);
    enqueue(b, &c, 5);
    need(shmemx_stream_synchronize(b->stream), "shmemx_stream_synchronize");
    need(shmemx_graph_begin(b->stream), "shmemx_graph_begin");
    enqueue(b, &c, calls);
    need(shmemx_graph_end(b->stream, &graph), "shmemx_graph_end");
    double us = median_us(b, &c, graph, calls);
    report(b, k, bytes, us, "graph", &c);
    us = median_us(b, &c, NULL, calls);
    report(b, k, bytes, us, "plain", &c);
    shmemx_graph_destroy(graph);
}

static int is_wanted(const struct bench *b, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = b->wanted; at != NULL && (at = strstr(at, name)) != NULL; at++)
        if ((at == b->wanted || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return 1;
    return b->wanted == NULL;
}

/* By the vendor's allocator where the program is linked with one. */
static uint16_t *own_malloc(size_t bytes)
{
    static const char *const names[] = {"cudaMalloc", "hipMalloc"};
    void *memory = NULL;
    for (size_t i = 0; i < 2; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        int (*vendor)(void **, size_t);
        memcpy(&vendor, &symbol, sizeof vendor);
        if (symbol != NULL && vendor(&memory, bytes) == 0)
            return (uint16_t *)memory;
    }
    return (uint16_t *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

static int is_measured(const struct kind *k, size_t bytes)
{
    int few = k->way != USUAL || (k->kind < SHMEMX_BARRIER && k->op != SHMEMX_SUM);
    if (k->kind >= SHMEMX_BARRIER)
        return bytes == (size_t)1 << 10;
    return !few || bytes == (size_t)64 << 10 || bytes == (size_t)1 << 20 || bytes == (size_t)2 << 20 ||
           bytes >= (size_t)16 << 20;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {(size_t)1 << 10,   (size_t)8 << 10,  (size_t)64 << 10, (size_t)256 << 10,
                                   (size_t)512 << 10, (size_t)1 << 20,  (size_t)2 << 20,  (size_t)4 << 20,
                                   (size_t)16 << 20,  (size_t)64 << 20, (size_t)256 << 20};
    struct bench b;
    shmem_init();
    b.me = shmem_my_pe();
    b.n = shmem_n_pes();
    b.most = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)256 << 20;
    b.wanted = argc > 2 && strcmp(argv[2], "all") != 0 ? argv[2] : NULL;
    b.samples = argc > 3 ? atoi(argv[3]) : SAMPLES;
    if (b.samples < 1 || b.samples > SAMPLES) {
        fprintf(stderr, "coll: %s samples: the number must be 1..%d\n", argv[3], SAMPLES);
        shmem_global_exit(2);
    }
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return 77;
    }
    size_t room = b.most + 2 * (size_t)b.n;
    b.dest = (uint16_t *)shmemx_malloc(room, SHMEMX_DEVICE);
    b.source = (uint16_t *)shmemx_malloc(room, SHMEMX_DEVICE);
    need(b.dest == NULL || b.source == NULL, "shmemx_malloc");
    b.own_dest = own_malloc(room);
    b.own_source = own_malloc(room);
    need(b.own_dest == NULL || b.own_source == NULL, "the vendor's allocator");
    need(shmemx_stream_create(&b.stream), "shmemx_stream_create");
    for (int k = 0; k < KINDS; k++) {
        for (size_t s = 0; is_wanted(&b, kinds[k].name) && s < sizeof sizes / sizeof sizes[0]; s++)
            if (sizes[s] <= b.most && is_measured(&kinds[k], sizes[s]))
                measure(&b, &kinds[k], sizes[s]);
    }
    shmemx_stream_destroy(b.stream);
    shmem_finalize();
    return 0;
}
