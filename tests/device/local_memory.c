/* SPDX-License-Identifier: MIT */
/* Memory of one PE alone: it grows while the other PEs call nothing, its objects differ on all PEs, and every kind of
 * call reaches it by the offset that its owner tells: put, get, atomics, signals and waits of the host, streams,
 * kernels. Objects of the heaps stay alike meanwhile. */
#include "device_test.h"

enum { KINDS = 2, WORDS = 64, OBJECTS = 6 };
#define MIB ((size_t)1 << 20)

static const int kinds[KINDS] = {SHMEMX_HOST, SHMEMX_DEVICE};
static int next_pe(void) { return (check_self.pe + 1) % check_self.npes; }
static int previous_pe(void) { return (check_self.pe + check_self.npes - 1) % check_self.npes; }

/* ---- the peers' objects ---- */

/* Of each PE, an object of words and where the others reach it. */
struct objects {
    uint64_t *mine;
    uint64_t *offsets; /* symmetric, [npes] */
};

static uint64_t *at(const struct objects *o, int pe)
{
    uint64_t *place = (uint64_t *)shmemx_at_offset(pe, o->offsets[pe]);
    CHECK_OR_EXIT(place != NULL);
    return place;
}

/* Each PE has other objects before it, so the offsets differ. */
static void make(struct objects *o, int kind)
{
    o->offsets = (uint64_t *)shmem_calloc((size_t)check_self.npes, sizeof(uint64_t));
    void *before = shmemx_local_malloc(1000 * (size_t)(check_self.pe + 1), kind);
    o->mine = (uint64_t *)shmemx_local_malloc(WORDS * sizeof(uint64_t), kind);
    CHECK_OR_EXIT(o->offsets != NULL && before != NULL && o->mine != NULL);
    CHECK((uintptr_t)o->mine % 256 == 0);
    uint64_t zeros[WORDS] = {0}, offset;
    device_write(o->mine, zeros, sizeof zeros);
    CHECK_EQ(shmemx_offset_of(o->mine, &offset), 0);
    for (int pe = 0; pe < check_self.npes; pe++)
        shmem_uint64_p(&o->offsets[check_self.pe], offset, pe);
    shmem_barrier_all();
    for (int pe = 1; pe < check_self.npes; pe++)
        CHECK(o->offsets[pe] != o->offsets[pe - 1]);
    CHECK(at(o, check_self.pe) == o->mine);
    shmemx_local_free(before);
}

static void drop(struct objects *o)
{
    shmem_barrier_all();
    shmemx_local_free(o->mine);
    shmem_free(o->offsets);
}

static uint64_t own(const struct objects *o, int i)
{
    uint64_t value;
    device_read(&value, o->mine + i, sizeof value);
    return value;
}

/* ---- by the host ---- */

static void check_host_calls(const struct objects *o)
{
    uint64_t block[8], seen[8];
    uint64_t *to = at(o, next_pe());
    for (int i = 0; i < 8; i++)
        block[i] = (uint64_t)(1000 * check_self.pe + i);
    shmem_uint64_put(to, block, 7, next_pe());
    shmem_uint64_p(to + 7, 77, next_pe());
    shmem_barrier_all();
    for (int i = 0; i < 7; i++)
        CHECK_EQ(own(o, i), (uint64_t)(1000 * previous_pe() + i));
    CHECK_EQ(own(o, 7), 77);
    shmem_uint64_get(seen, to, 7, next_pe());
    for (int i = 0; i < 7; i++)
        CHECK_EQ(seen[i], block[i]);
    for (int pe = 0; pe < check_self.npes; pe++)
        shmem_uint64_atomic_add(at(o, pe) + 8, 3, pe);
    shmem_barrier_all();
    CHECK_EQ(own(o, 8), (uint64_t)(3 * check_self.npes));
    shmem_uint64_put_signal(to + 10, block, 3, to + 9, 5, SHMEM_SIGNAL_SET, next_pe());
    shmem_signal_wait_until(o->mine + 9, SHMEM_CMP_EQ, 5);
    CHECK_EQ(own(o, 12), (uint64_t)(1000 * previous_pe() + 2));
    shmem_barrier_all();
}

/* A peer's object by the pointer that this PE's device uses, where it reaches it. */
static void check_pointers(const struct objects *o, int kind)
{
    CHECK(shmemx_device_ptr(o->mine, -1) == NULL && shmemx_device_ptr(o->mine, check_self.npes) == NULL);
    CHECK(shmemx_device_ptr(&kind, check_self.pe) == NULL);
    uint64_t value = (uint64_t)(500 + check_self.pe);
    device_write(o->mine + 40, &value, sizeof value);
    shmem_barrier_all();
    if (kind == SHMEMX_DEVICE)
        CHECK(shmemx_device_ptr(o->mine, check_self.pe) == o->mine);
    for (int pe = 0; pe < check_self.npes; pe++) {
        uint64_t *near = (uint64_t *)shmemx_device_ptr(at(o, pe) + 40, pe);
        CHECK(kind == SHMEMX_DEVICE || near == NULL);
        CHECK(!device_flag("SHMEM_FORCE_PROXY") || pe == check_self.pe || near == NULL);
        if (near == NULL)
            continue;
        shmem_putmem(o->mine + 41, near, sizeof value, check_self.pe);
        CHECK_EQ(own(o, 41), (uint64_t)(500 + pe));
    }
    shmem_barrier_all();
}

/* ---- by streams and kernels ---- */

struct args {
    shmemd_t h;
    uint64_t *to, *from, *signal;
    int pe;
};

SHMEMD_KERNEL(pass_on, struct args, a)
{
    shmemd_uint64_put_signal_block(a.h, a.to, a.from, 4, a.signal, 9, SHMEM_SIGNAL_SET, a.pe);
}

static void check_device_calls(const struct objects *o)
{
    struct args a;
    uint64_t block[4] = {0, 1, 2, 3}, *to = at(o, next_pe());
    shmemx_stream_t stream;
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    uint64_t *source = (uint64_t *)shmemx_local_malloc(sizeof block, SHMEMX_DEVICE);
    CHECK_OR_EXIT(source != NULL);
    block[0] = (uint64_t)check_self.pe;
    device_write(source, block, sizeof block);
    CHECK_EQ(shmemx_putmem_on_stream(to + 20, source, sizeof block, next_pe(), stream), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h), 0);
    a.to = to + 30;
    a.from = source;
    a.signal = to + 29;
    a.pe = next_pe();
    CHECK_EQ(shmemx_launch(SHMEMX_KERNEL(pass_on), 1, 64, 0, &a, sizeof a, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    shmem_signal_wait_until(o->mine + 29, SHMEM_CMP_EQ, 9);
    shmem_barrier_all();
    CHECK_EQ(own(o, 20), (uint64_t)previous_pe());
    CHECK_EQ(own(o, 23), 3);
    CHECK_EQ(own(o, 30), (uint64_t)previous_pe());
    CHECK_EQ(own(o, 33), 3);
    shmem_barrier_all();
    shmemx_local_free(source);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
}

/* On one member the dest is local, on the others it is private or symmetric: what peers do not touch may differ. */
static void check_collective(void)
{
    enum { N = 1000 };
    uint64_t *symmetric = (uint64_t *)shmemx_malloc(N * sizeof(uint64_t), SHMEMX_DEVICE);
    uint64_t *local = (uint64_t *)shmemx_local_malloc(N * sizeof(uint64_t), SHMEMX_DEVICE);
    uint64_t *source = (uint64_t *)shmemx_local_malloc(N * sizeof(uint64_t), SHMEMX_DEVICE), host[N];
    CHECK_OR_EXIT(symmetric != NULL && local != NULL && source != NULL);
    shmemx_stream_t stream;
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    for (uint64_t i = 0; i < N; i++)
        host[i] = i * (uint64_t)(check_self.pe + 1);
    device_write(source, host, sizeof host);
    shmemx_coll_t c;
    memset(&c, 0, sizeof c);
    c.kind = SHMEMX_ALLREDUCE;
    c.team = SHMEM_TEAM_WORLD;
    c.type = SHMEMX_UINT64;
    c.op = SHMEMX_SUM;
    c.dest = local;
    c.source = source;
    c.nelems = N;
    CHECK_EQ(shmemx_coll_on_stream(&c, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    device_read(host, local, sizeof host);
    for (uint64_t i = 0; i < N; i++)
        CHECK_EQ(host[i], i * (uint64_t)(check_self.npes * (check_self.npes + 1) / 2));
    shmem_barrier_all();
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    shmemx_local_free(source);
    shmemx_local_free(local);
    shmemx_free(symmetric);
}

/* ---- growth ---- */

/* PE `grower` adds memory while the others look at a word of their own by loads alone. Then it is there for all. */
static void check_growth_of(int grower, int kind)
{
    const size_t bytes = 5 * MIB;
    uint64_t *word = (uint64_t *)shmem_calloc(1, sizeof *word);
    char *objects[OBJECTS];
    CHECK_OR_EXIT(word != NULL);
    if (check_self.pe == grower) {
        uint64_t offset = 0;
        for (int i = 0; i < OBJECTS; i++) {
            objects[i] = (char *)shmemx_local_malloc(bytes, kind);
            CHECK_OR_EXIT(objects[i] != NULL);
        }
        CHECK_EQ(shmemx_offset_of(objects[OBJECTS - 1], &offset), 0);
        for (int pe = 0; pe < check_self.npes; pe++)
            if (pe != grower)
                shmem_uint64_p(word, offset + 1, pe);
    } else if (CHECK_PES_ARE_THREADS || getenv("SHMEM_VIRTUAL_NODES") == NULL) {
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
            usleep(1000);
    } else {
        shmem_uint64_wait_until(word, SHMEM_CMP_NE, 0);
    }
    shmem_barrier_all();
    if (check_self.pe == (grower + 1) % check_self.npes && check_self.pe != grower) {
        unsigned char value = 0xa5;
        char *last = (char *)shmemx_at_offset(grower, *word - 1);
        CHECK_OR_EXIT(last != NULL);
        shmem_putmem(last + bytes - 1, &value, 1, grower);
        value = 0;
        shmem_quiet();
        shmem_getmem(&value, last + bytes - 1, 1, grower);
        CHECK_EQ(value, 0xa5);
    }
    shmem_barrier_all();
    for (int i = 0; check_self.pe == grower && i < OBJECTS; i++)
        shmemx_local_free(objects[i]);
    shmem_free(word);
}

/* All at once: each thread that maps others' memory serves while its own PE waits for answers. */
static void check_growth_of_all(int kind)
{
    void *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = shmemx_local_malloc((size_t)(8 + check_self.pe) * MIB, kind);
        CHECK(objects[i] != NULL);
    }
    for (int i = 0; i < OBJECTS; i++)
        shmemx_local_free(objects[i]);
    shmem_barrier_all();
}

/* ---- as torch calls it ---- */

struct slow_args {
    shmemd_t h;
    uint64_t *words;
    uint64_t value;
};

SHMEMD_KERNEL(fill_slowly, struct slow_args, a)
{
    for (uint64_t round = 0; round < 2000; round++)
        for (uint64_t i = 0; i < 128; i++)
            shmemd_uint64_p(a.h, a.words + i, a.value + round / 2000, shmemd_my_pe(a.h));
}

/* A free waits for the stream: the next owner's words are not overwritten. */
static void check_torch(void)
{
    enum { BYTES = 128 * 8 };
    struct slow_args a;
    shmemx_stream_t stream;
    int device = 0;
    char text[200];
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h), 0);
    shmemx_device_text(text, sizeof text); /* "cuda 0: ..." */
    CHECK_EQ(sscanf(text + strcspn(text, "0123456789"), "%d", &device), 1);
    for (int round = 0; round < 5; round++) {
        a.words = (uint64_t *)shmemx_torch_malloc(BYTES, device, stream);
        CHECK_OR_EXIT(a.words != NULL);
        a.value = 1;
        CHECK_EQ(shmemx_launch(SHMEMX_KERNEL(fill_slowly), 1, 1, 0, &a, sizeof a, stream), 0);
        shmemx_torch_free(a.words, BYTES, device, stream);
        uint64_t *next = (uint64_t *)shmemx_local_malloc(BYTES, SHMEMX_DEVICE), words[128] = {0}, seen[128];
        CHECK(next == a.words);
        device_write(next, words, sizeof words);
        CHECK_EQ(shmemx_stream_synchronize(stream), 0);
        device_read(seen, next, sizeof seen);
        CHECK(memcmp(seen, words, sizeof seen) == 0);
        shmemx_local_free(next);
    }
    CHECK(shmemx_torch_malloc(-1, device, stream) == NULL);
    CHECK(shmemx_torch_malloc(BYTES, device + 1, stream) == NULL);
    CHECK(shmemx_torch_malloc(0, device, stream) == NULL);
    shmemx_torch_free(NULL, 0, device, stream);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    shmem_barrier_all();
}

/* ---- what is refused, and what an address is ---- */

static void check_refusals(int kind)
{
    char on_stack;
    uint64_t offset;
    char *object = (char *)shmemx_local_malloc(1000, kind);
    CHECK_OR_EXIT(object != NULL);
    CHECK(shmemx_local_malloc(0, kind) == NULL);
    CHECK(shmemx_local_malloc(8, 77) == NULL);
    CHECK(shmemx_local_malloc((size_t)15 << 40, kind) == NULL);
    shmemx_local_free(NULL);
    shmemx_local_free(&on_stack);
    shmemx_local_free(object + 1);
    CHECK(shmemx_offset_of(&on_stack, &offset) != 0);
    CHECK(shmemx_offset_of(object, NULL) != 0);
    CHECK(shmemx_at_offset(-1, 0) == NULL && shmemx_at_offset(check_self.npes, 0) == NULL);
    CHECK(shmemx_at_offset(0, UINT64_MAX) == NULL);
    shmemx_local_free(object);
    shmemx_local_free(object);
}

static void check_info(int kind)
{
    shmemx_address_info_t info;
    char on_stack, *local = (char *)shmemx_local_malloc(1000, kind), *object = (char *)shmemx_malloc(500, kind);
    CHECK_OR_EXIT(local != NULL && object != NULL);
    CHECK_EQ(shmemx_address_info(local + 7, &info), 0);
    CHECK(info.place == SHMEMX_PLACE_LOCAL && info.kind == kind && info.is_symmetric == 0);
    CHECK(info.object == local && info.object_bytes == 1000);
    CHECK_EQ(shmemx_address_info(object + 499, &info), 0);
    CHECK(info.place == SHMEMX_PLACE_HEAP && info.kind == kind && info.is_symmetric == 1);
    CHECK(info.object == object && info.object_bytes == 500);
    CHECK(shmemx_address_info(&on_stack, &info) != 0);
    CHECK(info.place == SHMEMX_PLACE_NONE && info.object == NULL);
    CHECK(shmemx_address_info(local, NULL) != 0);
    shmemx_local_free(local);
    shmemx_free(object);
}

/* ---- time ---- */

static void show_times(int kind)
{
    enum { ROUNDS = 1000000, KEPT = 16 };
    void *kept[KEPT] = {NULL};
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < ROUNDS; i++) {
        shmemx_local_free(kept[i % KEPT]);
        kept[i % KEPT] = shmemx_local_malloc((size_t)(i % 7 + 1) * 512, kind);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (int i = 0; i < KEPT; i++)
        shmemx_local_free(kept[i]);
    if (check_self.pe == 0)
        printf("kind %d: %.0f ns for shmemx_local_malloc and shmemx_local_free\n", kind,
               ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / ROUNDS);
}

static int test_main(void)
{
    DEVICE_INIT();
    for (int k = 0; k < KINDS; k++) {
        struct objects o;
        make(&o, kinds[k]);
        check_host_calls(&o);
        check_pointers(&o, kinds[k]);
        if (kinds[k] == SHMEMX_DEVICE)
            check_device_calls(&o);
        drop(&o);
        for (int grower = 0; grower < check_self.npes; grower++)
            check_growth_of(grower, kinds[k]);
        check_growth_of_all(kinds[k]);
        check_refusals(kinds[k]);
        check_info(kinds[k]);
        if (device_flag("SHMEM_TEST_TIMES"))
            show_times(kinds[k]);
    }
    check_torch();
    check_collective();
    CHECK_HEAP();
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
