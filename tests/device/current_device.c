/* SPDX-License-Identifier: MIT */
/* The call that starts the device leaves it current. Every other host call gives back the device that was current,
 * which here is another one than the PE's: after each call the program looks, in the thread that started the device and
 * in one that has called nothing before. The results show that calls worked on the PE's device meanwhile. Skipped on
 * the CPU device, which is never current, and where a PE sees one device alone. The vendor's library is looked up at
 * run time: the program builds for every device. */
#include "device_test.h"

#include <dlfcn.h>
#include <pthread.h>

enum { WORDS = 1024, BYTES = WORDS * 8 };

/* Alike for both vendors but for the names. */
struct vendor {
    int (*count)(int *n);
    int (*get)(int *device);
    int (*set)(int device);
    int (*release)(void *memory);
};

static bool find(const char *flavour, const char *name, void *to)
{
    char full[40];
    snprintf(full, sizeof full, "%s%s", flavour, name);
    void *symbol = dlsym(RTLD_DEFAULT, full);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_vendor(struct vendor *v)
{
    char text[200], flavour[8] = "";
    shmemx_device_text(text, sizeof text);
    if (strncmp(text, "cuda", 4) == 0 || strncmp(text, "hip", 3) == 0)
        snprintf(flavour, sizeof flavour, "%.*s", text[0] == 'c' ? 4 : 3, text);
    return flavour[0] != '\0' && find(flavour, "GetDeviceCount", &v->count) && find(flavour, "GetDevice", &v->get) &&
           find(flavour, "SetDevice", &v->set) && find(flavour, "Free", &v->release);
}

struct current {
    struct vendor vendor;
    int me, n, next, own, other; /* own: number of the PE's device */
    uint64_t *source, *dest;     /* symmetric, [WORDS] */
    struct check self;           /* of the second thread */
};

#define UNCHANGED(c, call) check_unchanged(c, CHECK_EQ(call, 0), #call)
#define UNCHANGED_VOID(c, call) check_unchanged(c, ((void)(call), true), #call)
static void check_unchanged(const struct current *c, bool worked, const char *call)
{
    int device = -1;
    CHECK_NAMED(worked && c->vendor.get(&device) == 0 && device == c->other, call);
}

struct fill_args {
    uint64_t *dest;
    uint64_t first;
};
SHMEMD_KERNEL(fill_words, struct fill_args, a)
{
    for (uint32_t i = (uint32_t)shmemd_thread_index(); i < WORDS; i += (uint32_t)shmemd_block_size())
        a.dest[i] = a.first + i;
}

/* Word i of dest is `first` + i * step. */
static void expect(struct current *c, uint64_t first, uint64_t step, const char *what)
{
    uint64_t seen[WORDS], expected[WORDS];
    memset(seen, CHECK_POISON, sizeof seen);
    UNCHANGED_VOID(c, shmem_getmem(seen, c->dest, BYTES, c->me));
    for (uint64_t i = 0; i < WORDS; i++)
        expected[i] = first + i * step;
    CHECK_BYTES_NAMED((unsigned char *)seen, (unsigned char *)expected, BYTES, what);
}

/* Host calls on device memory: to itself and, between barriers, to the next PE. */
static void test_host_calls(struct current *c, uint64_t round)
{
    uint64_t words[WORDS];
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = round + (uint64_t)c->me + i;
    UNCHANGED_VOID(c, shmem_putmem(c->dest, words, BYTES, c->next));
    UNCHANGED_VOID(c, shmem_quiet());
    UNCHANGED_VOID(c, shmem_barrier_all());
    expect(c, round + (uint64_t)((c->me + c->n - 1) % c->n), 1, "put");
    UNCHANGED_VOID(c, shmem_barrier_all());
    UNCHANGED_VOID(c, shmem_uint64_atomic_add(c->dest, 5, c->next));
    UNCHANGED_VOID(c, shmem_barrier_all());
    CHECK_EQ(shmem_uint64_atomic_fetch(c->dest, c->me), round + (uint64_t)((c->me + c->n - 1) % c->n) + 5);
    UNCHANGED_VOID(c, shmem_barrier_all());
}

static void fill_and_sum(struct current *c, uint64_t first, shmemx_stream_t stream)
{
    struct fill_args args;
    memset(&args, 0, sizeof args);
    args.dest = c->source;
    args.first = first;
    UNCHANGED(c, shmemx_launch(SHMEMX_KERNEL(fill_words), 1, 64, 0, &args, sizeof args, stream));
    UNCHANGED(c, shmemx_allreduce_on_stream(SHMEM_TEAM_WORLD, c->dest, c->source, WORDS, SHMEMX_UINT64, SHMEMX_SUM,
                                            stream));
}

static void test_streams(struct current *c, uint64_t round)
{
    shmemx_stream_t stream = NULL, second = NULL;
    shmemx_graph_t graph = NULL;
    UNCHANGED(c, shmemx_stream_create(&stream));
    UNCHANGED(c, shmemx_stream_create(&second));
    fill_and_sum(c, round, stream);
    UNCHANGED(c, shmemx_stream_wait_stream(second, stream));
    UNCHANGED(c, shmemx_stream_synchronize(second));
    expect(c, round * (uint64_t)c->n, (uint64_t)c->n, "allreduce on a stream");
    UNCHANGED(c, shmemx_graph_begin(stream));
    fill_and_sum(c, round + 7, stream);
    UNCHANGED(c, shmemx_graph_end(stream, &graph));
    UNCHANGED(c, shmemx_graph_launch(graph, stream));
    UNCHANGED(c, shmemx_stream_synchronize(stream));
    expect(c, (round + 7) * (uint64_t)c->n, (uint64_t)c->n, "allreduce in a graph");
    UNCHANGED(c, shmemx_graph_destroy(graph));
    UNCHANGED(c, shmemx_barrier_on_stream(SHMEM_TEAM_WORLD, stream));
    UNCHANGED(c, shmemx_stream_synchronize(stream));
    UNCHANGED(c, shmemx_stream_destroy(second));
    UNCHANGED(c, shmemx_stream_destroy(stream));
}

static void test_calls(struct current *c, uint64_t round)
{
    shmemd_t handle;
    UNCHANGED_VOID(c, c->source = (uint64_t *)shmemx_calloc(WORDS, 8, SHMEMX_DEVICE));
    UNCHANGED_VOID(c, c->dest = (uint64_t *)shmemx_malloc(BYTES, SHMEMX_DEVICE));
    CHECK_OR_EXIT(c->source != NULL && c->dest != NULL);
    UNCHANGED(c, shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &handle));
    test_host_calls(c, round);
    test_streams(c, round);
    UNCHANGED_VOID(c, shmemx_free(c->dest));
    UNCHANGED_VOID(c, shmemx_free(c->source));
}

/* CUDA gives back only a device that the process uses: the release starts it. */
static void make_other_current(struct current *c)
{
    CHECK_EQ(c->vendor.set(c->other), 0);
    CHECK_EQ(c->vendor.release(NULL), 0);
}

static void *second_thread(void *argument)
{
    struct current *c = (struct current *)argument;
    check_self = c->self;
    make_other_current(c);
    test_calls(c, 2000);
    c->self = check_self;
    return NULL;
}

static int test_main(void)
{
    struct current c;
    int n_devices = 0;
    pthread_t thread;
    int provided = 0;
    memset(&c, 0, sizeof c);
    CHECK_OR_EXIT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
    check_started();
    if (shmemx_device_init() != 0) {
        shmem_finalize();
        return CHECK_SKIP("there is no device for every PE");
    }
    if (!open_vendor(&c.vendor) || c.vendor.count(&n_devices) != 0 || n_devices < 2) {
        shmem_finalize();
        return CHECK_SKIP("it takes a vendor's device, and a second one that this PE sees");
    }
    c.me = shmem_my_pe();
    c.n = shmem_n_pes();
    c.next = (c.me + 1) % c.n;
    CHECK_EQ(c.vendor.get(&c.own), 0);
    CHECK_EQ(c.own, c.me % n_devices); /* the start has left it current */
    c.other = (c.own + 1) % n_devices;
    make_other_current(&c);
    test_calls(&c, 1000);
    c.self = check_self;
    CHECK_OR_EXIT(pthread_create(&thread, NULL, second_thread, &c) == 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_self = c.self;
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
