/* SPDX-License-Identifier: MIT */
/* Device memory lent back and taken again: addresses, handles and a captured graph are right afterwards, contents too
 * where they are kept, and the memory is free meanwhile. What needs the memory is refused. Objects of the heap, of a
 * team and of one PE alone, the last of another size on each PE. Where memory cannot be lent back, a sentence says
 * so. */
#include "device_test.h"

#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 3000, BIG_BYTES = 24 << 20, OBJECTS = 3 };

struct suspend_state {
    int me, n;
    uint32_t *objects[OBJECTS]; /* of the heap, of a team, of this PE alone: [words(s, i)] */
    uint32_t *dest, *source;    /* [WORDS] */
    char *big;                  /* [BIG_BYTES], all of it written */
    uint32_t *image, *seen;
    uint64_t at_peer; /* the place of the next PE's own object */
    shmemx_stream_t stream;
    shmemx_graph_t graph;
};

static size_t words(const struct suspend_state *s, int object)
{
    return object == 2 ? (size_t)WORDS * 100 * (size_t)(s->me + 1) : WORDS;
}

static void write_objects(struct suspend_state *s, unsigned round)
{
    for (int o = 0; o < OBJECTS; o++) {
        for (size_t i = 0; i < words(s, o); i++)
            s->image[i] = device_mix((uint32_t)(s->me * 10 + o), (uint32_t)i + round);
        device_write(s->objects[o], s->image, words(s, o) * 4);
    }
}

static void check_objects(struct suspend_state *s, unsigned round)
{
    for (int o = 0; o < OBJECTS; o++) {
        for (size_t i = 0; i < words(s, o); i++)
            s->image[i] = device_mix((uint32_t)(s->me * 10 + o), (uint32_t)i + round);
        device_read(s->seen, s->objects[o], words(s, o) * 4);
        CHECK_BYTES_NAMED(s->seen, s->image, words(s, o) * 4, "an object that was kept");
    }
}

/* The sum of all PEs' source in dest: by the graph, or by a new call. */
static void check_sum(struct suspend_state *s, unsigned round, bool by_graph)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, s->dest, s->source, WORDS, SHMEMX_UINT32);
    for (uint32_t i = 0; i < WORDS; i++)
        s->image[i] = device_mix((uint32_t)s->me + round, i);
    device_write(s->source, s->image, WORDS * 4);
    memset(s->seen, CHECK_POISON, WORDS * 4);
    device_write(s->dest, s->seen, WORDS * 4);
    shmem_barrier_all();
    CHECK_EQ(by_graph ? shmemx_graph_launch(s->graph, s->stream) : shmemx_coll_on_stream(&c, s->stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(s->stream), 0);
    for (uint32_t i = 0; i < WORDS; i++) {
        s->image[i] = 0;
        for (int pe = 0; pe < s->n; pe++)
            s->image[i] += device_mix((uint32_t)pe + round, i);
    }
    device_read(s->seen, s->dest, WORDS * 4);
    CHECK_BYTES_NAMED(s->seen, s->image, WORDS * 4, by_graph ? "sum by the graph" : "sum by a call");
}

/* A word goes to the next PE's own object, which is mapped here again. */
static void check_peer(struct suspend_state *s, unsigned round)
{
    int next = (s->me + 1) % s->n, before = (s->me + s->n - 1) % s->n;
    uint32_t word = device_mix((uint32_t)s->me, round), seen;
    shmem_barrier_all();
    shmem_putmem(shmemx_at_offset(next, s->at_peer), &word, sizeof word, next);
    shmem_barrier_all();
    device_read(&seen, s->objects[2], sizeof seen);
    CHECK_EQ(seen, device_mix((uint32_t)before, round));
}

static void fill_big(const struct suspend_state *s)
{
    char *bytes = (char *)malloc(BIG_BYTES);
    CHECK_OR_EXIT(bytes != NULL);
    memset(bytes, 7, BIG_BYTES);
    device_write(s->big, bytes, BIG_BYTES);
    free(bytes);
}

/* Of the CPU device: how many whole pages of the object are there. */
static size_t pages_of_big(const struct suspend_state *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = BIG_BYTES / page - 1, there = 0;
    char *first = s->big + (page - (uintptr_t)s->big % page);
    unsigned char *seen = (unsigned char *)calloc(n, 1);
    CHECK_OR_EXIT(seen != NULL);
    CHECK_EQ(mincore(first, n * page, seen), 0);
    for (size_t i = 0; i < n; i++)
        there += seen[i] & 1;
    free(seen);
    return there;
}

/* Objects are known, and may be freed. */
static void check_freed(void *of_all, void *own, void *of_team)
{
    shmemx_address_info_t info;
    uint64_t place;
    CHECK_EQ(shmemx_address_info(own, &info), 0);
    CHECK_EQ(info.place, SHMEMX_PLACE_LOCAL);
    CHECK_EQ(info.object == own, 1);
    CHECK_EQ(shmemx_offset_of(of_team, &place), 0);
    shmemx_free(of_all);
    shmemx_local_free(own);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, of_team), 0);
    CHECK_EQ(shmemx_address_info(own, &info), 0);
    CHECK_EQ(info.object == NULL, 1);
}

static void check_refused(struct suspend_state *s)
{
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, s->dest, s->source, WORDS, SHMEMX_UINT32);
    shmemx_stream_t stream = NULL;
    CHECK(shmemx_suspend(1) != 0);
    CHECK(shmemx_coll_on_stream(&c, s->stream) != 0);
    CHECK(shmemx_coll_on_host(&c) != 0);
    CHECK(shmemx_malloc(64, SHMEMX_DEVICE) == NULL);
    CHECK(shmemx_local_malloc(64, SHMEMX_DEVICE) == NULL);
    CHECK(shmemx_team_malloc(SHMEM_TEAM_WORLD, 64, SHMEMX_DEVICE) == NULL);
    CHECK(shmemx_graph_launch(s->graph, s->stream) != 0);
    CHECK(shmemx_stream_create(&stream) != 0);
    CHECK(shmemx_device_init() != 0);
}

static void state_make(struct suspend_state *s)
{
    memset(s, 0, sizeof *s);
    s->me = shmem_my_pe();
    s->n = shmem_n_pes();
    uint64_t *places = (uint64_t *)shmem_malloc(sizeof(uint64_t));
    size_t most = (size_t)WORDS * 100 * (size_t)s->n * 4;
    s->image = (uint32_t *)malloc(most);
    s->seen = (uint32_t *)malloc(most);
    s->objects[0] = (uint32_t *)shmemx_malloc(WORDS * 4, SHMEMX_DEVICE);
    s->objects[1] = (uint32_t *)shmemx_team_malloc(SHMEM_TEAM_WORLD, WORDS * 4, SHMEMX_DEVICE);
    s->objects[2] = (uint32_t *)shmemx_local_malloc(words(s, 2) * 4, SHMEMX_DEVICE);
    s->dest = (uint32_t *)shmemx_malloc(WORDS * 4, SHMEMX_DEVICE);
    s->source = (uint32_t *)shmemx_malloc(WORDS * 4, SHMEMX_DEVICE);
    s->big = (char *)shmemx_malloc(BIG_BYTES, SHMEMX_DEVICE);
    CHECK_OR_EXIT(places != NULL && s->image != NULL && s->seen != NULL && s->dest != NULL && s->source != NULL &&
                  s->big != NULL && s->objects[0] != NULL && s->objects[1] != NULL && s->objects[2] != NULL);
    CHECK_EQ(shmemx_offset_of(s->objects[2], places), 0);
    shmem_barrier_all();
    s->at_peer = shmem_uint64_g(places, (s->me + 1) % s->n);
    shmem_barrier_all();
    shmem_free(places);
    fill_big(s);
    CHECK_EQ(shmemx_stream_create(&s->stream), 0);
    check_sum(s, 0, false);
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, s->dest, s->source, WORDS, SHMEMX_UINT32);
    CHECK_EQ(shmemx_graph_begin(s->stream), 0);
    CHECK_EQ(shmemx_coll_on_stream(&c, s->stream), 0);
    CHECK(shmemx_suspend(1) != 0); /* a capture is no time for it */
    CHECK_EQ(shmemx_graph_end(s->stream, &s->graph), 0);
}

static int test_main(void)
{
    struct suspend_state s;
    DEVICE_INIT();
    const char *sharing = getenv("SHMEM_DEVICE_SHARING");
    bool can = sharing == NULL || strcmp(sharing, "ipc") != 0;
    char text[200];
    state_make(&s);
    shmemx_device_text(text, sizeof text);
    bool of_cpu = strncmp(text, "cpu", 3) == 0;
    CHECK(shmemx_suspend(2) != 0);
    CHECK(shmemx_resume() != 0); /* nothing is lent */
    for (unsigned round = 1; can && round <= (check_few() > 1 ? 3 : 6); round++) {
        int keep = round % 3 != 0;
        write_objects(&s, round);
        CHECK(!of_cpu || pages_of_big(&s) > 0);
        void *of_all = shmemx_malloc(WORDS, SHMEMX_DEVICE);
        void *own = shmemx_local_malloc(WORDS, SHMEMX_DEVICE);
        void *of_team = shmemx_team_malloc(SHMEM_TEAM_WORLD, WORDS, SHMEMX_DEVICE);
        shmem_barrier_all();
        CHECK_EQ(shmemx_suspend(keep), 0);
        CHECK(!of_cpu || pages_of_big(&s) == 0);
        check_refused(&s);
        check_freed(of_all, own, of_team);
        CHECK_EQ(shmemx_resume(), 0);
        if (keep)
            check_objects(&s, round);
        else
            fill_big(&s);
        check_sum(&s, round, true);
        check_sum(&s, round + 100, false);
        check_peer(&s, round);
        CHECK(shmemx_heap_is_valid());
    }
    if (!can)
        CHECK(shmemx_suspend(1) != 0);
    check_sum(&s, 50, true);
    CHECK_EQ(shmemx_graph_destroy(s.graph), 0);
    CHECK_EQ(shmemx_stream_destroy(s.stream), 0);
    if (can) /* the end takes it again */
        CHECK_EQ(shmemx_suspend(0), 0);
    free(s.image);
    free(s.seen);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
