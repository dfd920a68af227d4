/* SPDX-License-Identifier: MIT */
/* The symmetric heap: shmem_malloc, shmem_calloc, shmem_align, shmem_realloc, shmem_free, shmem_malloc_with_hints, and
 * long random sequences of them. Addresses are symmetric when what a neighbour puts at mine arrives at mine. */
#include "../check.h"

#include <stddef.h>

static void step(void) { CHECK_HEAP(); }

/* Writes `len` bytes into the neighbour's object and looks at what came from the other side. */
static void check_symmetric(void *object, size_t len_bytes, unsigned round)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    unsigned char *source = (unsigned char *)malloc(len_bytes);
    CHECK_OR_EXIT(source != NULL);
    check_fill(source, len_bytes, me, right, round);
    shmem_barrier_all();
    shmem_putmem(object, source, len_bytes, right);
    shmem_barrier_all();
    CHECK_FILLED(object, len_bytes, left, me, round);
    free(source);
}

static void test_malloc(void)
{
    const size_t sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 65535, 65537, 1048576 + 3};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *objects[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = shmem_malloc(sizes[i]);
        CHECK_OR_EXIT(objects[i] != NULL);
        CHECK_EQ((uintptr_t)objects[i] % _Alignof(max_align_t), 0);
        step();
        check_symmetric(objects[i], sizes[i], (unsigned)i);
    }
    /* All at the same time: nothing overlaps. */
    for (size_t i = 0; i < COUNT; i++)
        memset(objects[i], (int)i, sizes[i]);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(check_all_bytes(objects[i], (unsigned char)i, sizes[i]));
    for (size_t i = 0; i < COUNT; i++) {
        shmem_free(objects[(i * 5) % COUNT]);
        step();
    }
}

static void test_nothing(void)
{
    CHECK(shmem_malloc(0) == NULL);
    CHECK(shmem_calloc(0, 8) == NULL);
    CHECK(shmem_calloc(8, 0) == NULL);
    CHECK(shmem_calloc(0, 0) == NULL);
    CHECK(shmem_align(64, 0) == NULL);
    CHECK(shmem_malloc_with_hints(0, SHMEM_MALLOC_ATOMICS_REMOTE) == NULL);
    CHECK(shmem_realloc(NULL, 0) == NULL);
    shmem_free(NULL);
    step();
}

/* No action, hence no barrier: one PE alone may do it. */
static void test_nothing_alone(void)
{
    if (shmem_my_pe() == 0)
        test_nothing();
    shmem_barrier_all();
}

/* Half of the machine's memory, which a heap without SHMEM_SYMMETRIC_SIZE is as large as; less where the address space
 * is limited. */
static size_t most_alignment(void)
{
    size_t half = (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE), most = (size_t)1 << 30;
#ifndef __SANITIZE_THREAD__
    while (2 * most <= half && getenv("SHMEM_SYMMETRIC_SIZE") == NULL)
        most *= 2;
#endif
    return most;
}

static void test_align(void)
{
    const size_t most = most_alignment();
    for (size_t alignment = 1; alignment <= most; alignment *= 2) {
        size_t len_bytes = alignment > 4096 ? 100 : alignment + 1;
        void *object = shmem_align(alignment, len_bytes);
        CHECK_OR_EXIT(object != NULL);
        CHECK_EQ((uintptr_t)object % alignment, 0);
        check_symmetric(object, len_bytes, (unsigned)alignment);
        shmem_free(object);
        step();
    }
}

/* Undefined in the specification; here: a null pointer, or at least an object that can be freed. */
static void test_bad_align(void)
{
    const size_t bad[] = {0, 3, 24, 100};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        void *object = shmem_align(bad[i], 40);
        if (object != NULL)
            check_symmetric(object, 40, (unsigned)i);
        shmem_free(object);
        step();
    }
}

static void test_calloc(void)
{
    const size_t counts[] = {1, 3, 1000, 65537};
    for (size_t i = 0; i < 4; i++) {
        /* Dirty memory first, so that fresh pages cannot pass for zeroed ones. */
        void *dirty = shmem_malloc(counts[i] * 12);
        CHECK_OR_EXIT(dirty != NULL);
        memset(dirty, 0xff, counts[i] * 12);
        shmem_free(dirty);
        void *object = shmem_calloc(counts[i], 12);
        CHECK_OR_EXIT(object != NULL);
        CHECK(check_all_bytes(object, 0, counts[i] * 12));
        CHECK_EQ((uintptr_t)object % _Alignof(max_align_t), 0);
        check_symmetric(object, counts[i] * 12, (unsigned)i);
        shmem_free(object);
        step();
    }
    CHECK(shmem_calloc(SIZE_MAX / 2, 4) == NULL); /* the product overflows */
    step();
}

static void test_realloc(void)
{
    const size_t sizes[] = {10, 100, 5000, 5001, 200000, 300, 17, 1, 70000};
    int me = shmem_my_pe();
    size_t had = sizes[0];
    unsigned char *object = (unsigned char *)shmem_realloc(NULL, had);
    CHECK_OR_EXIT(object != NULL);
    check_fill(object, had, me, 0, 0);
    for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t kept = sizes[i] < had ? sizes[i] : had;
        object = (unsigned char *)shmem_realloc(object, sizes[i]);
        CHECK_OR_EXIT(object != NULL);
        CHECK_FILLED(object, kept, me, 0, (unsigned)(i - 1));
        step();
        check_symmetric(object, sizes[i], (unsigned)i);
        check_fill(object, sizes[i], me, 0, (unsigned)i);
        had = sizes[i];
    }
    CHECK(shmem_realloc(object, 0) == NULL); /* frees it */
    step();
}

static void test_hints(void)
{
    const long hints[] = {0, SHMEM_MALLOC_ATOMICS_REMOTE, SHMEM_MALLOC_SIGNAL_REMOTE,
                          SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE};
    int me = shmem_my_pe();
    for (size_t i = 0; i < 4; i++) {
        uint64_t *object = (uint64_t *)shmem_malloc_with_hints(5 * sizeof(uint64_t), hints[i]);
        CHECK_OR_EXIT(object != NULL);
        CHECK_EQ((uintptr_t)object % _Alignof(max_align_t), 0);
        check_symmetric(object, 5 * sizeof(uint64_t), (unsigned)i);
        memset(object, me + 1, 5 * sizeof(uint64_t));
        object = (uint64_t *)shmem_realloc(object, 5000);
        CHECK_OR_EXIT(object != NULL);
        CHECK(check_all_bytes(object, (unsigned char)(me + 1), 5 * sizeof(uint64_t)));
        shmem_free(object);
        step();
    }
}

/* The memory is usable on every PE when the call returns anywhere, and free waits for what the default context has
 * under way: no barrier of ours in here. */
static void test_barriers_inside(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    for (int round = 0; round < 20; round++) {
        long *object = (long *)shmem_calloc((size_t)npes, sizeof(long));
        CHECK_OR_EXIT(object != NULL);
        for (int pe = 0; pe < npes; pe++)
            shmem_long_atomic_add(&object[me], 1 + round, pe);
        long *second = (long *)shmem_malloc(8);
        CHECK_OR_EXIT(second != NULL);
        for (int pe = 0; pe < npes; pe++)
            CHECK_EQ(object[pe], 1 + round);
        shmem_free(second);
        shmem_free(object);
    }
}

/* More than there can be: a null pointer, on all PEs alike, and the heap goes on working. */
static void test_too_much(void)
{
#ifndef CHECK_FOREIGN
    CHECK(shmem_malloc(SIZE_MAX / 2) == NULL);
    CHECK(shmem_malloc(SIZE_MAX) == NULL);
    CHECK(shmem_align(4096, SIZE_MAX - 100) == NULL);
    CHECK(shmem_align((size_t)1 << 62, 8) == NULL);
    CHECK(shmem_align((size_t)1 << 63, 8) == NULL);
    unsigned char *object = (unsigned char *)shmem_malloc(100);
    CHECK_OR_EXIT(object != NULL);
    memset(object, 9, 100);
    CHECK(shmem_realloc(object, SIZE_MAX / 2) == NULL);
    CHECK(check_all_bytes(object, 9, 100));
    check_symmetric(object, 100, 3);
    shmem_free(object);
    step();
#endif
}

/* A random sequence, the same on all PEs: every object carries a pattern of its own that must survive the others. */
struct object {
    unsigned char *address;
    size_t len_bytes;
    unsigned tag;
};

static void random_step(struct check_random *random, struct object *object, unsigned tag)
{
    int me = shmem_my_pe();
    size_t len_bytes = check_random_below(random, (size_t)1 << (4 + check_random_below(random, 14))) + 1;
    size_t kind = check_random_below(random, 8);
    if (object->address != NULL)
        CHECK_FILLED(object->address, object->len_bytes, me, 1, object->tag);
    if (object->address != NULL && kind < 4) {
        shmem_free(object->address);
        object->address = NULL;
        return;
    }
    if (object->address != NULL) {
        size_t kept = len_bytes < object->len_bytes ? len_bytes : object->len_bytes;
        object->address = (unsigned char *)shmem_realloc(object->address, len_bytes);
        CHECK_OR_EXIT(object->address != NULL);
        CHECK_FILLED(object->address, kept, me, 1, object->tag);
    } else if (kind < 3) {
        object->address = (unsigned char *)shmem_malloc(len_bytes);
    } else if (kind < 5) {
        size_t alignment = (size_t)8 << check_random_below(random, 10);
        object->address = (unsigned char *)shmem_align(alignment, len_bytes);
        CHECK_EQ((uintptr_t)object->address % alignment, 0);
    } else if (kind < 7) {
        object->address = (unsigned char *)shmem_calloc(1, len_bytes);
        CHECK(check_all_bytes(object->address, 0, len_bytes));
    } else {
        object->address = (unsigned char *)shmem_malloc_with_hints(len_bytes, SHMEM_MALLOC_SIGNAL_REMOTE);
    }
    CHECK_OR_EXIT(object->address != NULL);
    object->len_bytes = len_bytes;
    object->tag = tag;
    check_fill(object->address, len_bytes, me, 1, tag);
}

static void test_random(void)
{
    enum { OBJECTS = 48, STEPS = 1200 };
    struct object objects[OBJECTS];
    struct check_random random = check_random_stream(1);
    memset(objects, 0, sizeof(objects));
    for (unsigned i = 0; i < STEPS; i++) {
        random_step(&random, &objects[check_random_below(&random, OBJECTS)], i);
        if (i % 64 == 0)
            step();
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i].address != NULL)
            check_symmetric(objects[i].address, objects[i].len_bytes, 5);
        shmem_free(objects[i].address);
    }
    step();
}

static int test_main(void)
{
    CHECK_INIT();
    test_malloc();
    test_nothing();
    test_nothing_alone();
    test_align();
    test_bad_align();
    test_calloc();
    test_realloc();
    test_hints();
    test_barriers_inside();
    test_too_much();
    test_random();
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
