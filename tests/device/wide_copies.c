/* SPDX-License-Identifier: MIT */
/* Puts and gets by blocks of up to 1024 threads, some no multiple of a wave: lengths around one, two, four, five and
 * six vectors of 16 bytes for each thread, with and without odd ends, of elements of 4, 2 and 1 bytes. A copy with many
 * threads goes another way than one with few, and a part at its end another way than the whole. */
#define PRIM_MAX_THREADS 1024
#include "device_test.h"

enum { THREADS = 1024, MOST = 7 * THREADS * 16 + 64 };

struct wide_args {
    shmemd_t h;
    char *dest, *source;
    uint64_t bytes;
    int32_t pe, get;
};

SHMEMD_KERNEL(wide_copy, struct wide_args, a)
{
    if (a.get)
        shmemd_getmem_block(a.h, a.dest, a.source, a.bytes, a.pe);
    else
        shmemd_putmem_block(a.h, a.dest, a.source, a.bytes, a.pe);
}

static void wide_case(struct area *dest, struct area *source, struct wide_args a, unsigned threads, size_t shift,
                      size_t apart)
{
    const int me = shmem_my_pe(), n = shmem_n_pes(), from = a.get ? (me + 1) % n : (me + n - 1) % n;
    const size_t to = shift + apart;
    unsigned char *expected = (unsigned char *)malloc(shift + a.bytes + 1);
    char what[128];
    CHECK_OR_EXIT(expected != NULL);
    area_poison(dest, to + a.bytes);
    check_fill(expected, shift + a.bytes, from, from, 1);
    area_expect(dest, to, expected + shift, a.bytes);
    free(expected);
    shmem_barrier_all();
    a.dest = area_data(dest) + to;
    a.source = area_data(source) + shift;
    a.pe = (me + 1) % n;
    DEVICE_RUN(wide_copy, 1, threads, a);
    shmem_barrier_all();
    snprintf(what, sizeof(what), "%s of %zu bytes by %u threads, at %zu from %zu", a.get ? "get" : "put",
             (size_t)a.bytes, threads, to, shift);
    (void)area_check(dest, what);
}

static int test_main(void)
{
    DEVICE_INIT();
    static const unsigned threads[] = {1, 96, 511, 512, 544, THREADS}, vectors[] = {0, 1, 2, 4, 5, 6, 7};
    struct check_random random = check_random_stream(1); /* the same on all PEs */
    struct area dest, source;
    struct wide_args a;
    memset(&a, 0, sizeof(a));
    area_make(&dest, MOST, SHMEMX_DEVICE);
    area_make(&source, MOST, SHMEMX_DEVICE);
    area_fill(&source, MOST, shmem_my_pe(), 1);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (unsigned t = 0; t < sizeof(threads) / sizeof(threads[0]); t++)
        for (unsigned v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++)
            for (a.get = 0; a.get < 2; a.get++)
                for (int side = -1; side <= 1; side++) {
                    const size_t element = (size_t)1 << check_random_below(&random, 5);
                    const size_t units = (size_t)vectors[v] * threads[t] + 1;
                    const size_t odd = check_random_below(&random, 2) * check_random_below(&random, 16 / element);
                    const size_t shift = check_random_below(&random, 32 / element) * element;
                    const size_t apart = check_random_below(&random, 2) * 16;
                    a.bytes = (units + (size_t)(side + 1)) * 16 - 32 + odd * element;
                    if (units + (size_t)(side + 1) >= 2)
                        wide_case(&dest, &source, a, threads[t], shift, apart);
                }
    area_drop(&source);
    area_drop(&dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
