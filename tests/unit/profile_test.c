/* SPDX-License-Identifier: MIT */
/* SHMEM_PROFILE and SHMEM_METRICS: a program whose calls are known is compared with the numbers that they write. The
 * last PE is late to a barrier, and is named. */
#include "../check.h"

enum { PUTS = 150, LONG_BYTES = 20000, GETS = 7, HEAP_BYTES = 1 << 20, LATE_MS = 300 };

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = (char *)calloc(1, 1 << 20);
    if (in == NULL || text == NULL || fread(text, 1, (1 << 20) - 1, in) == 0)
        fprintf(stderr, "%s is not there, or empty\n", path);
    if (in != NULL)
        fclose(in);
    return text;
}

/* The number behind `key` behind `at`; -2: none. */
static long long number_after(const char *at, const char *key)
{
    const char *found = at != NULL ? strstr(at, key) : NULL;
    return found != NULL ? strtoll(found + strlen(key), NULL, 10) : -2;
}

static const char *find_pe(const char *text, int pe)
{
    char key[32];
    snprintf(key, sizeof key, "{\"pe\": %d,", pe);
    return strstr(text, key);
}

static long long of_call(const char *text, int pe, const char *call, const char *what)
{
    char name[64], key[64];
    const char *at = find_pe(text, pe);
    snprintf(name, sizeof name, "\"%s\": {", call);
    snprintf(key, sizeof key, "\"%s\": ", what);
    return number_after(at != NULL ? strstr(at, name) : NULL, key);
}

/* Of the peer that is the `n`th in the list of `pe`. */
static long long of_peer(const char *text, int pe, int n, const char *what)
{
    char key[32];
    const char *at = find_pe(text, pe);
    at = at != NULL ? strstr(at, "\"peers\": [") : NULL;
    for (int i = 0; at != NULL && i <= n; i++)
        at = strstr(at + 1, "{\"calls\"");
    snprintf(key, sizeof key, "\"%s\": ", what);
    return number_after(at, key);
}

struct work {
    long *cells;
    char *block;
    int right;
};

static void make_calls(const struct work *w)
{
    static const char source[LONG_BYTES] = {0};
    char sink[64];
    long value = 5, strided[4] = {0};
    for (int i = 0; i < PUTS + check_self.pe; i++)
        shmem_long_put(&w->cells[0], &value, 1, w->right);
    shmem_putmem(w->block, source, sizeof source, w->right);
    for (int i = 0; i < GETS; i++)
        shmem_getmem(sink, w->block, sizeof sink, w->right);
    for (int i = 0; i < 5; i++)
        shmem_long_p(&w->cells[1], i, w->right);
    (void)shmem_long_g(&w->cells[1], w->right);
    for (int i = 0; i < 3; i++)
        shmem_long_atomic_add(&w->cells[2], 1, w->right);
    shmem_long_iput(&w->cells[8], strided, 2, 1, 4, w->right);
    shmem_putmem_signal(w->block, source, 100, (uint64_t *)&w->cells[3], 1, SHMEM_SIGNAL_SET, w->right);
    (void)shmem_signal_wait_until((uint64_t *)&w->cells[3], SHMEM_CMP_EQ, 1);
    shmem_fence();
    shmem_quiet();
    for (int i = 0; i < 3; i++)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &w->cells[16], &w->cells[32], 16);
    /* More kinds and sizes than the page has rows: what finds none is not lost. */
    for (size_t bytes = 1; bytes <= LONG_BYTES / 4; bytes *= 2) {
        shmem_broadcastmem(SHMEM_TEAM_WORLD, w->block, w->block + LONG_BYTES / 2, bytes, 0);
        shmem_barrier_all(); /* all have read what the next call overwrites */
        shmem_fcollectmem(SHMEM_TEAM_WORLD, w->block, w->block + LONG_BYTES / 2, bytes / 4 + 1);
        shmem_barrier_all();
    }
    void *most = shmem_malloc(HEAP_BYTES);
    CHECK(most != NULL);
    shmem_free(most);
}

static void be_late(void)
{
    struct timespec late = {0, LATE_MS * 1000000L};
    shmem_barrier_all();
    if (check_self.pe == check_self.npes - 1)
        nanosleep(&late, NULL);
    shmem_barrier_all();
}

static void check_pe(const char *text, int pe)
{
    int n = check_self.npes, right = (pe + 1) % n;
    CHECK_EQ(of_call(text, pe, "put", "count"), PUTS + pe + 1);
    CHECK_EQ(of_call(text, pe, "put", "bytes"), (PUTS + pe) * (long long)sizeof(long) + LONG_BYTES);
    CHECK_EQ(of_call(text, pe, "get", "count"), GETS + 1); /* the seed */
    CHECK_EQ(of_call(text, pe, "get", "bytes"), GETS * 64 + 8);
    CHECK_EQ(of_call(text, pe, "p", "count"), 5);
    CHECK_EQ(of_call(text, pe, "g", "count"), 1);
    CHECK_EQ(of_call(text, pe, "atomic", "count"), 3);
    CHECK_EQ(of_call(text, pe, "iput", "bytes"), 4 * (long long)sizeof(long));
    CHECK_EQ(of_call(text, pe, "put_signal", "count"), 1);
    CHECK_EQ(of_call(text, pe, "put_signal", "bytes"), 100);
    CHECK_EQ(of_call(text, pe, "wait_until", "count"), 1);
    CHECK_EQ(of_call(text, pe, "fence", "count"), 1);
    CHECK_EQ(of_call(text, pe, "quiet", "count"), 1);
    if (n > 1) { /* of one PE some are a copy */
        long long bytes = 3 * 16 * (long long)sizeof(long), count = 3;
        for (long long size = 1; size <= LONG_BYTES / 4; size *= 2, count += 2)
            bytes += size + size / 4 + 1;
        CHECK_EQ(of_call(text, pe, "collective", "count"), count);
        CHECK_EQ(of_call(text, pe, "collective", "bytes"), bytes);
    }
    CHECK(of_call(text, pe, "put", "ns") > 0);
    long long calls = PUTS + pe + 1 + GETS + 5 + 1 + 3 + 1 + 1 + (right == 0);
    if (n > 1)
        CHECK_EQ(of_peer(text, pe, right, "calls"), calls);
    long long most = number_after(find_pe(text, pe), "\"heap_most_bytes\": ");
    CHECK(most >= HEAP_BYTES && most < HEAP_BYTES + (128 << 10));
}

/* The others have waited for the last PE, and it for nobody so long. */
static void check_late(const char *text)
{
    int late = check_self.npes - 1;
    const char *nodes = strstr(text, "\"n_nodes\": 1,");
    for (int pe = 0; pe < late; pe++) {
        CHECK(of_call(text, pe, "barrier", "longest_wait_ns") > LATE_MS * 500000LL);
        CHECK(of_call(text, pe, "barrier", "ns") >= of_call(text, pe, "barrier", "longest_wait_ns"));
        if (nodes != NULL) /* else not all PEs are seen from here */
            CHECK_EQ(of_call(text, pe, "barrier", "longest_wait_for"), late);
    }
    if (late > 0)
        CHECK(of_call(text, late, "barrier", "longest_wait_ns") < LATE_MS * 500000LL);
}

static int test_main(void)
{
    const char *path = getenv("SHMEM_PROFILE"), *metrics = getenv("SHMEM_METRICS");
    if (path == NULL || metrics == NULL)
        return CHECK_SKIP("SHMEM_PROFILE and SHMEM_METRICS name no files");
    CHECK_INIT();
    struct work w = {(long *)shmem_calloc(64, sizeof(long)), (char *)shmem_malloc(LONG_BYTES), 0};
    CHECK_OR_EXIT(w.cells != NULL && w.block != NULL);
    w.right = (check_self.pe + 1) % check_self.npes;
    shmem_barrier_all();
    make_calls(&w);
    be_late();
    shmem_free(w.block);
    shmem_free(w.cells);
    int result = CHECK_DONE();
    if (check_self.pe == 0) {
        char *text = read_file(path), name[4096];
        for (int pe = 0; pe < check_self.npes; pe++)
            check_pe(text, pe);
        check_late(text);
        CHECK((strstr(text, "\"name\": \"reduce ") != NULL) == (check_self.npes > 1));
        CHECK(check_self.npes == 1 || strstr(text, "\"name\": \"all others\"") != NULL);
        free(text);
        snprintf(name, sizeof name, "%s.0.prom", metrics);
        text = read_file(name);
        CHECK_EQ(number_after(text, "isomer_calls_total{pe=\"0\",call=\"put\"} "), PUTS + 1);
        CHECK_EQ(number_after(text, "isomer_bytes_total{pe=\"0\",call=\"put_signal\"} "), 100);
        free(text);
    }
    return check_self.failures == 0 ? result : CHECK_FAILED;
}
CHECK_MAIN(test_main)
