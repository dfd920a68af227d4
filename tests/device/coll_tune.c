/* SPDX-License-Identifier: MIT */
/* The tuner of collectives on streams: what it refuses, what it writes, and that calls work by it afterwards, whether
 * there were calls before or not. With SHMEM_TEST_TUNE=0 only the calls, by the table that is there: coll_tune.sh looks
 * at what they say about it. */
#include "device_test.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1024, WORDS = 96 };

struct tune_state {
    int me, n;
    uint32_t *dest, *source; /* n * WORDS each, symmetric device memory */
    uint32_t *image;
    long *number; /* symmetric, of PE 0: names the file */
    char path[256];
    shmemx_stream_t stream;
};

static const int tune_kinds[] = {SHMEMX_ALLREDUCE, SHMEMX_REDUCESCATTER, SHMEMX_FCOLLECT,
                                 SHMEMX_ALLTOALL,  SHMEMX_BROADCAST,     SHMEMX_PERMUTE};
static const char *const tune_names[] = {"allreduce", "reducescatter", "fcollect", "alltoall", "broadcast", "permute"};
enum { TUNE_KINDS = sizeof(tune_kinds) / sizeof(tune_kinds[0]) };

/* ---- calls ---- */

static uint32_t word_of(int pe, uint32_t i) { return device_mix((uint32_t)pe, i); }

static uint32_t expected(const struct tune_state *s, int kind, uint32_t i)
{
    uint32_t sum = 0, own = (uint32_t)s->me * WORDS;
    switch (kind) {
    case SHMEMX_FCOLLECT:
        return word_of((int)(i / WORDS), i % WORDS);
    case SHMEMX_ALLTOALL:
        return word_of((int)(i / WORDS), own + i % WORDS);
    case SHMEMX_BROADCAST:
        return word_of(s->n - 1, i);
    case SHMEMX_PERMUTE:
        return word_of((s->me + s->n - 1) % s->n, i);
    default:
        for (int pe = 0; pe < s->n; pe++)
            sum += word_of(pe, kind == SHMEMX_REDUCESCATTER ? own + i : i);
        return sum;
    }
}

static void test_call(struct tune_state *s, int k)
{
    int kind = tune_kinds[k];
    uint32_t all = WORDS * (uint32_t)s->n, bad = 0;
    uint32_t words = kind == SHMEMX_FCOLLECT || kind == SHMEMX_ALLTOALL ? all : (uint32_t)WORDS;
    shmemx_coll_t c = shmemx_coll_of(kind, SHMEM_TEAM_WORLD, s->dest, s->source, WORDS, SHMEMX_UINT32);
    c.background = (int)device_number("SHMEM_TEST_BACKGROUND", 0);
    c.root = s->n - 1;
    c.to = (s->me + 1) % s->n;
    c.from = (s->me + s->n - 1) % s->n;
    for (uint32_t i = 0; i < all; i++)
        s->image[i] = word_of(s->me, i);
    device_write(s->source, s->image, (size_t)all * 4);
    CHECK_EQ(shmemx_coll_on_stream(&c, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    device_read(s->image, s->dest, (size_t)words * 4);
    for (uint32_t i = 0; i < words; i++)
        bad += s->image[i] != expected(s, kind, i);
    CHECK_EQ_NAMED(bad, 0, tune_names[k]);
}

static void test_calls(struct tune_state *s)
{
    for (int k = 0; k < TUNE_KINDS; k++)
        test_call(s, k);
    CHECK(shmemx_heap_is_valid());
}

/* ---- the table ---- */

static bool exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

/* Rows of each kind; comments begin with #, the header with a number. */
static void look_at_table(const struct tune_state *s)
{
    char line[256], beside[272], word[32];
    int rows[TUNE_KINDS] = {0}, others = 0;
    FILE *file = fopen(s->path, "r");
    CHECK_OR_EXIT(file != NULL);
    CHECK(fgets(line, sizeof(line), file) != NULL && strstr(line, " x ") != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        int k = 0;
        if (line[0] == '#' || sscanf(line, "%31s", word) != 1)
            continue;
        while (k < TUNE_KINDS && strcmp(word, tune_names[k]) != 0)
            k++;
        if (k < TUNE_KINDS)
            rows[k]++;
        else
            others++;
    }
    fclose(file);
    for (int k = 0; k < TUNE_KINDS; k++)
        CHECK(rows[k] > 0);
    CHECK_EQ(others, 0);
    snprintf(beside, sizeof(beside), "%s.try", s->path);
    CHECK(!exists(beside));
}

static void test_refused(const struct tune_state *s)
{
    char below[272];
    CHECK(shmemx_coll_tune(s->path, 1023, 0) != 0);
    CHECK(!exists(s->path));
    shmem_barrier_all();
    if (s->me == 0) {
        FILE *file = fopen(s->path, "w");
        CHECK_OR_EXIT(file != NULL);
        fclose(file);
    }
    shmem_barrier_all();
    snprintf(below, sizeof(below), "%s/table", s->path);
    CHECK(shmemx_coll_tune(below, MOST, 0) != 0);
    shmem_barrier_all();
}

static void test_tune(const struct tune_state *s)
{
    int refused = shmemx_coll_tune(s->path, MOST, 0);
    CHECK_EQ(refused != 0, s->n == 1);
    if (s->me == 0 && s->n > 1)
        look_at_table(s);
    if (s->me == 0)
        unlink(s->path);
    shmem_barrier_all();
}

static void name_table(struct tune_state *s)
{
    const char *folder = getenv("TMPDIR");
    *s->number = (long)getpid();
    shmem_barrier_all();
    snprintf(s->path, sizeof(s->path), "%s/coll_tune.%ld.table", folder != NULL ? folder : "/tmp",
             shmem_long_g(s->number, 0));
    shmem_barrier_all();
}

static void state_make(struct tune_state *s)
{
    memset(s, 0, sizeof(*s));
    s->me = shmem_my_pe();
    s->n = shmem_n_pes();
    size_t bytes = (size_t)s->n * WORDS * 4;
    s->dest = (uint32_t *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    s->source = (uint32_t *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    s->number = (long *)shmem_malloc(sizeof(long));
    s->image = (uint32_t *)malloc(bytes);
    CHECK_OR_EXIT(s->dest != NULL && s->source != NULL && s->number != NULL && s->image != NULL);
    CHECK_OR_EXIT(shmemx_stream_create(&s->stream) == 0);
}
static void state_drop(struct tune_state *s)
{
    CHECK_EQ(shmemx_stream_destroy(s->stream), 0);
    free(s->image);
    shmem_free(s->number);
    shmemx_free(s->source);
    shmemx_free(s->dest);
}

static int test_main(void)
{
    struct tune_state s;
    DEVICE_INIT();
    state_make(&s);
    if (device_number("SHMEM_TEST_TUNE", 1) != 0) {
        name_table(&s);
        test_refused(&s);
        test_tune(&s); /* no call before */
        test_calls(&s);
        test_tune(&s); /* and with calls before */
    }
    test_calls(&s);
    state_drop(&s);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
