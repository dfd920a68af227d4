/* SPDX-License-Identifier: MIT */
/* A program captures a stream of its own by the vendor's calls, in the mode that is their default and forbids waits and
 * allocations to every thread: what the library does meanwhile, in its own threads and in calls of this one, works and
 * leaves the capture whole. Skipped on the CPU, whose streams have no other owner. The vendor's library is looked up at
 * run time: the program builds for every device. */
#include "device_test.h"

#include <dlfcn.h>

enum { BYTES = 4096, GLOBAL_MODE = 0, NON_BLOCKING = 1, ROUNDS = 20 };

/* Alike for both vendors but for the names. */
struct vendor {
    int (*create)(void **stream, unsigned flags);
    int (*destroy)(void *stream);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*fill)(void *at, unsigned char byte, size_t bytes, void *stream);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, void *stream);
    int (*synchronize)(void *stream);
};

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_vendor(struct vendor *v)
{
    char text[200];
    shmemx_device_text(text, sizeof text);
    if (strncmp(text, "cuda", 4) == 0) {
        void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
        return cuda != NULL && find(cuda, "cuStreamCreate", &v->create) &&
               find(cuda, "cuStreamDestroy_v2", &v->destroy) && find(cuda, "cuStreamBeginCapture_v2", &v->begin) &&
               find(cuda, "cuStreamEndCapture", &v->end) && find(cuda, "cuMemsetD8Async", &v->fill) &&
               find(cuda, "cuGraphInstantiateWithFlags", &v->instantiate) && find(cuda, "cuGraphLaunch", &v->launch) &&
               find(cuda, "cuStreamSynchronize", &v->synchronize);
    }
    void *hip = strncmp(text, "hip", 3) == 0 ? RTLD_DEFAULT : NULL;
    return strncmp(text, "hip", 3) == 0 && find(hip, "hipStreamCreateWithFlags", &v->create) &&
           find(hip, "hipStreamDestroy", &v->destroy) && find(hip, "hipStreamBeginCapture", &v->begin) &&
           find(hip, "hipStreamEndCapture", &v->end) && find(hip, "hipMemsetD8Async", &v->fill) &&
           find(hip, "hipGraphInstantiateWithFlags", &v->instantiate) && find(hip, "hipGraphLaunch", &v->launch) &&
           find(hip, "hipStreamSynchronize", &v->synchronize);
}

struct captured {
    unsigned char *filled, *dest, *source; /* symmetric, [BYTES] */
    long *count;                           /* symmetric */
    int me, n, next;
};

/* Copies and atomics on device memory, from both sides: their waits are in the way of captures. */
static void work_meanwhile(struct captured *c, unsigned round)
{
    unsigned char bytes[BYTES], expected[BYTES];
    shmemx_stream_t stream = NULL;
    check_fill(bytes, BYTES, c->me, c->next, round);
    shmem_putmem(c->dest, bytes, BYTES, c->next);
    shmem_long_atomic_add(c->count, 1, c->next);
    shmem_barrier_all();
    device_read(bytes, c->dest, BYTES);
    check_fill(expected, BYTES, (c->me + c->n - 1) % c->n, c->me, round);
    CHECK_BYTES_NAMED(bytes, expected, BYTES, "put while a stream is captured");
    CHECK_EQ(shmem_long_atomic_fetch(c->count, c->me), (long)round + 1);
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    CHECK_EQ(shmemx_putmem_on_stream(c->dest, c->source, BYTES, c->me, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    shmem_barrier_all();
}

static void capture(const struct vendor *v, struct captured *c, unsigned round)
{
    void *stream = NULL, *graph = NULL, *executable = NULL;
    unsigned char bytes[BYTES], expected[BYTES];
    memset(expected, (int)round + 1, BYTES);
    CHECK_EQ(v->create(&stream, NON_BLOCKING), 0);
    CHECK_EQ(v->begin(stream, GLOBAL_MODE), 0);
    CHECK_EQ(v->fill(c->filled, (unsigned char)(round + 1), BYTES, stream), 0);
    work_meanwhile(c, round);
    CHECK_EQ(v->end(stream, &graph), 0);
    if (!CHECK(graph != NULL))
        return;
    CHECK_EQ(v->instantiate(&executable, graph, 0), 0);
    CHECK_EQ(v->launch(executable, stream), 0);
    CHECK_EQ(v->synchronize(stream), 0);
    device_read(bytes, c->filled, BYTES);
    CHECK_BYTES_NAMED(bytes, expected, BYTES, "what was captured");
    CHECK_EQ(v->destroy(stream), 0);
}

static int test_main(void)
{
    struct vendor vendor;
    DEVICE_INIT();
    if (!open_vendor(&vendor)) {
        shmem_finalize();
        return CHECK_SKIP("the device has no streams but the library's, or its vendor's library is too old");
    }
    struct captured c;
    c.me = shmem_my_pe();
    c.n = shmem_n_pes();
    c.next = (c.me + 1) % c.n;
    c.filled = (unsigned char *)shmemx_malloc(BYTES, SHMEMX_DEVICE);
    c.dest = (unsigned char *)shmemx_malloc(BYTES, SHMEMX_DEVICE);
    c.source = (unsigned char *)shmemx_calloc(1, BYTES, SHMEMX_DEVICE);
    c.count = (long *)shmemx_calloc(1, sizeof *c.count, SHMEMX_DEVICE);
    CHECK_OR_EXIT(c.filled != NULL && c.dest != NULL && c.source != NULL && c.count != NULL);
    for (unsigned round = 0; round < ROUNDS; round++)
        capture(&vendor, &c, round);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
