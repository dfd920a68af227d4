/* SPDX-License-Identifier: MIT */
/* Registered user buffers: page-aligned and not, small and large, mapped and staged parts, every kind of call. */
#include "../check.h"

#include <sys/mman.h>

struct shape {
    size_t align_offset; /* bytes behind a page boundary, may differ by PE */
    size_t len_bytes;
};

static void check_puts(char *buffer, size_t len)
{
    int me = check_self.pe, npes = check_self.npes, next = (me + 1) % npes, previous = (me + npes - 1) % npes;
    char *source = (char *)calloc(len, 1), *back = (char *)calloc(len, 1);
    CHECK_OR_EXIT(source != NULL && back != NULL);
    check_fill(source, len, me, next, 1);
    shmem_putmem(buffer, source, len, next);
    shmem_barrier_all();
    CHECK_FILLED(buffer, len, previous, me, 1);
    shmem_barrier_all();
    struct check_random random = check_random_stream(1000 + (uint64_t)me);
    for (int i = 0; i < 50; i++) { /* pieces anywhere, also across the borders of the mapped part */
        size_t from = check_random_below(&random, len), n = check_random_below(&random, len - from + 1);
        memset(back, 0, len);
        shmem_getmem(back, buffer + from, n, next);
        for (size_t k = 0; k < n; k++)
            CHECK(back[k] == (char)check_byte(me, next, 1, from + k));
        shmem_putmem(buffer + from, source + from, n, next);
    }
    shmem_barrier_all();
    CHECK_FILLED(buffer, len, previous, me, 1);
    shmem_barrier_all();
    free(source);
    free(back);
}

/* The wait is on this PE's own memory, whatever carries the put. */
static void check_words(char *buffer, size_t len)
{
    int me = check_self.pe, npes = check_self.npes, next = (me + 1) % npes;
    if (len < 16)
        return;
    long *word = (long *)(((uintptr_t)buffer + 7) & ~(uintptr_t)7);
    size_t offset = (size_t)((char *)word - buffer);
    *word = 0;
    shmem_barrier_all();
    long value = 77;
    shmem_putmem(buffer + offset, &value, sizeof(value), next);
    shmem_long_wait_until(word, SHMEM_CMP_EQ, 77);
    shmem_barrier_all();
}

static void check_collectives(char *buffer, size_t len)
{
    int me = check_self.pe, npes = check_self.npes;
    size_t each = len / (size_t)npes;
    char *source = (char *)shmem_calloc(each + 1, 1);
    CHECK_OR_EXIT(source != NULL);
    check_fill(source, each, me, 0, 2);
    shmem_barrier_all();
    CHECK_EQ(shmem_fcollectmem(SHMEM_TEAM_WORLD, buffer, source, each), 0);
    for (int pe = 0; pe < npes; pe++)
        CHECK_FILLED(buffer + (size_t)pe * each, each, pe, 0, 2);
    shmem_barrier_all();
    check_fill(buffer, len, me, 0, 3);
    shmem_barrier_all();
    CHECK_EQ(shmem_broadcastmem(SHMEM_TEAM_WORLD, source, buffer, each, npes - 1), 0);
    CHECK_FILLED(source, each, npes - 1, 0, 3);
    shmem_free(source);
}

/* Atomics work where the buffer is mapped. */
static void check_atomics(char *buffer, size_t len)
{
    long *word = (long *)(((uintptr_t)buffer + 4095) & ~(uintptr_t)4095);
    if ((char *)(word + 1) > buffer + len)
        return;
    *word = 0;
    shmem_barrier_all();
    shmem_long_atomic_add(word, check_self.pe + 1, (check_self.pe + 1) % check_self.npes);
    shmem_barrier_all();
    CHECK_EQ(*word, (check_self.pe + check_self.npes - 1) % check_self.npes + 1);
}

static void check_shape(struct shape shape, bool same_offset)
{
    size_t page = 4096, offset = shape.align_offset;
    char *area =
        (char *)mmap(NULL, shape.len_bytes + 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OR_EXIT(area != (char *)MAP_FAILED);
    if (!same_offset)
        offset = (offset + 24 * (size_t)check_self.pe) % page;
    char *buffer = area + page + offset;
    memset(area, 0x33, shape.len_bytes + 3 * page);
    check_fill(buffer, shape.len_bytes, check_self.pe, 9, 9);
    shmemx_buffer_info_t info = {1, 1, 1, "none"};
    CHECK_EQ(shmemx_buffer_register(buffer, shape.len_bytes, &info), 0);
    CHECK_EQ(info.mapped_bytes + info.staged_bytes, shape.len_bytes);
    if (offset == 0 && same_offset && shape.len_bytes % page == 0)
        CHECK_EQ(info.staged_bytes, 0);
    CHECK_FILLED(buffer, shape.len_bytes, check_self.pe, 9, 9); /* registration keeps the contents */
    shmem_barrier_all();
    check_puts(buffer, shape.len_bytes);
    check_words(buffer, shape.len_bytes);
    check_collectives(buffer, shape.len_bytes);
    if (info.staged_bytes == 0)
        check_atomics(buffer, shape.len_bytes);
    check_fill(buffer, shape.len_bytes, check_self.pe, 8, 8);
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    CHECK_FILLED(buffer, shape.len_bytes, check_self.pe, 8, 8); /* and so does giving it back */
    CHECK(buffer[-1] == 0x33 && buffer[shape.len_bytes] == 0x33);
    munmap(area, shape.len_bytes + 3 * page);
}

static int test_main(void)
{
    static const struct shape shapes[] = {{0, 4096},     {0, 65536},  {16, 1},           {16, 100},
                                          {16, 4096},    {100, 8192}, {16, 50000},       {4095, 2},
                                          {4090, 12293}, {0, 4097},   {8, (1 << 20) + 5}};
    CHECK_INIT();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        check_shape(shapes[i], true);
        check_shape(shapes[i], false);
    }
    /* From the C library's heap, and left registered at the end. */
    char *left = (char *)calloc(300000, 1);
    CHECK_OR_EXIT(left != NULL);
    CHECK_EQ(shmemx_buffer_register(left, 300000, NULL), 0);
    check_puts(left, 300000);
    return CHECK_DONE();
}

CHECK_MAIN(test_main)
