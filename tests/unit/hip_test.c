/* SPDX-License-Identifier: MIT */
/* The AMD flavour's host code over a double of HIP: which memory it chooses on older and newer HIPs, that no unpinned
 * memory ever reaches HIP, and that whatever call fails, there is a sentence and nothing is left behind. */
#include "../check.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#if !__has_include(<hip/hip_runtime_api.h>) || !__has_include(<hsa/hsa_ext_amd.h>)
int main(void) { return CHECK_SKIP("no headers hip/hip_runtime_api.h and hsa/hsa_ext_amd.h on this machine"); }
#else

/* A copy of a small library of the system, under a name of HIP's. Before the double, which stands for dlopen. */
static void *load_as(const char *name)
{
    struct link_map *map = NULL;
    char bytes[1 << 16], path[64];
    static void *small; /* stays: its name is the copies', too */
    small = small != NULL ? small : dlopen("libdl.so.2", RTLD_NOW);
    CHECK_OR_EXIT(small != NULL && dlinfo(small, RTLD_DI_LINKMAP, &map) == 0);
    snprintf(path, sizeof path, "/tmp/hip_test_%d", (int)getpid());
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "/tmp/hip_test_%d/%s", (int)getpid(), name);
    FILE *from = fopen(map->l_name, "rb"), *to = fopen(path, "wb");
    CHECK_OR_EXIT(from != NULL);
    CHECK_OR_EXIT(to != NULL);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, from)) > 0;)
        CHECK(fwrite(bytes, 1, n, to) == n);
    fclose(from);
    fclose(to);
    void *loaded = dlopen(path, RTLD_NOW);
    CHECK_NAMED(loaded != NULL, dlerror());
    unlink(path);
    return loaded;
}

#include "hip_flavour.h"

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- opening ---- */

static void refuses(const char *choice, int rc, const char *sentence)
{
    struct gpu *gpu = NULL;
    char why[200] = "";
    CHECK_EQ(iso_gpu_open(&gpu, 0, choice, why, sizeof(why)), rc);
    CHECK(gpu == NULL);
    CHECK_NAMED(strstr(why, sentence) != NULL, why);
    CHECK_EQ(hip.live, 0);
}

/* HIP reads it at its first call, which the double looks at too. */
static void test_branches_run_side_by_side(void)
{
    static const char name[] = "DEBUG_HIP_GRAPH_MIN_OVERLAP";
    machine();
    unsetenv(name);
    closed(opened());
    CHECK(getenv(name) != NULL && strcmp(getenv(name), "0") == 0);
    setenv(name, "3", 1);
    closed(opened());
    CHECK(strcmp(getenv(name), "3") == 0);
    unsetenv(name);
}

static void test_two_runtimes_are_refused(void)
{
    char folder[64];
    machine();
    void *first = load_as("libamdhip64.so.6");
    if (strcmp(ISO_GPU, "hip") != 0) /* which has loaded the machine's own */
        closed(opened());
    void *second = load_as("libamdhip64.so.7");
    refuses("0", -ELIBACC, "two HIP runtimes are in this process, /tmp/hip_test_");
    dlclose(second);
    closed(opened());
    dlclose(first);
    snprintf(folder, sizeof folder, "/tmp/hip_test_%d", (int)getpid());
    CHECK(rmdir(folder) == 0);
}

static void test_open(void)
{
    machine();
    struct gpu *gpu = opened();
    CHECK_EQ(gpu->info.device, 1); /* 5 modulo 4 */
    CHECK_EQ(hip.current, 1);
    CHECK(gpu->info.can_ipc && gpu->info.multiprocessors == 304);
    CHECK(strcmp(iso_gpu_error(gpu), "") == 0);
    CHECK(iso_gpu_reaches(gpu, gpu->info.id) && iso_gpu_reaches(gpu, "0000:02:00.0"));
    CHECK(!iso_gpu_reaches(gpu, "0000:03:00.0") && !iso_gpu_reaches(gpu, "ffff:09:00.0"));
    closed(gpu);
    refuses("4", -EINVAL, "SHMEM_DEVICE=4 is not a number in 0..3");
    refuses("-1", -EINVAL, "0..3");
    refuses("1x", -EINVAL, "0..3");
    hip.wave = 32;
    refuses("", -ENODEV, "waves are not of 64");
    hip.devices = 0;
    refuses("", -ENODEV, "hipErrorNoDevice");
}

/* ---- memory that peers poll ---- */

static void check_shared(struct gpu *gpu)
{
    char *ours = NULL, *theirs = NULL;
    struct gpu_key key;
    CHECK_OR_EXIT(iso_gpu_shared_create(gpu, 8192, GPU_COMMUNICATION, &ours, &key) == 0);
    CHECK(ours[0] == 0 && ours[8191] == 0 && key.fd == -1);
    CHECK_EQ(iso_gpu_shared_import(gpu, &key, 8192, &theirs), 0);
    ours[77] = 5;
    CHECK_EQ(theirs[77], 5);
    iso_gpu_shared_close(gpu, theirs, 8192);
    hip.hides_peers = true;
    CHECK_EQ(iso_gpu_shared_import(gpu, &key, 8192, &theirs), -EINVAL);
    CHECK(theirs == NULL && strstr(iso_gpu_error(gpu), "below 4, the number of devices here") != NULL);
    CHECK(strstr(iso_gpu_error(gpu), "hipIpcOpenMemHandle: ") != NULL && strstr(iso_gpu_error(gpu), "all PEs") != NULL);
    CHECK(strstr(iso_gpu_error(gpu), "--network=host --pid=host") != NULL); /* HIP finds the owner by a socket */
    hip.hides_peers = false;
    iso_gpu_shared_destroy(gpu, ours, 8192);
}

static void test_shared(void)
{
    char *base = NULL;
    struct gpu_key key;
    machine();
    struct gpu *gpu = opened();
    CHECK_EQ(gpu->communication, 3);
    check_shared(gpu);
    closed(gpu);
    hip.uncached = false;
    gpu = opened();
    CHECK_EQ(gpu->communication, hipDeviceMallocFinegrained);
    check_shared(gpu);
    closed(gpu);
    hip.coarse = true; /* HIP 5 where there is no pool of the other kind; only HSA tells */
    gpu = opened();
    CHECK(!gpu->info.can_ipc && strstr(gpu->info.ipc_why, "gives coarse-grained memory") != NULL);
    CHECK_EQ(iso_gpu_shared_create(gpu, 4096, GPU_COMMUNICATION, &base, &key), -ENOTSUP);
    closed(gpu);
    hsa.missing = "hsa_amd_pointer_info"; /* then nobody knows */
    gpu = opened();
    CHECK(gpu->info.can_ipc);
    closed(gpu);
    hsa.missing = NULL;
    hip.fine_grained = false;
    gpu = opened();
    CHECK(!gpu->info.can_ipc);
    CHECK_EQ(iso_gpu_shared_create(gpu, 4096, GPU_COMMUNICATION, &base, &key), -ENOTSUP);
    CHECK(strstr(iso_gpu_error(gpu), "fine-grained") != NULL && base == NULL);
    closed(gpu);
}

static void check_foreign(struct gpu *gpu)
{
    void *memory = NULL;
    char *theirs = NULL;
    struct gpu_allocation a;
    CHECK_EQ(iso_gpu_alloc(gpu, 12345, &memory), 0);
    CHECK_EQ(iso_gpu_export_foreign(gpu, (char *)memory + 100, &a), 0);
    CHECK(a.start == memory && a.len == 12345 && a.method == GPU_SHARE_IPC);
    CHECK_EQ(iso_gpu_shared_import(gpu, &a.key, a.len, &theirs), 0);
    iso_gpu_shared_close(gpu, theirs, a.len);
    hip.ipc = false;
    CHECK_EQ(iso_gpu_export_foreign(gpu, memory, &a), -ENOTSUP);
    iso_gpu_free(gpu, memory);
}

/* Chunks as HIP 7 has them, whether it takes a descriptor or its address, which the probe has to find out. */
static void test_chunks(bool fd_by_value)
{
    char *ours = NULL, *theirs = NULL;
    struct gpu_key key;
    machine();
    hip.fd_by_value = fd_by_value;
    struct gpu *gpu = opened();
    size_t len = iso_gpu_granularity(gpu);
    CHECK_EQ(probe_granule(gpu), 0);
    CHECK_EQ(gpu->fd_by_pointer, !fd_by_value);
    CHECK_EQ(iso_gpu_reserve(gpu, 4 * len, &ours), 0);
    CHECK_EQ(iso_gpu_reserve(gpu, 4 * len, &theirs), 0);
    CHECK_OR_EXIT(iso_gpu_chunk_create(gpu, ours + len, 2 * len, GPU_COMMUNICATION, &key) == 0);
    CHECK_OR_EXIT(iso_gpu_chunk_import(gpu, theirs, 2 * len, &key) == 0);
    CHECK_EQ(theirs[2 * len - 1], 0);
    ours[len + 9] = 4;
    CHECK_EQ(theirs[9], 4);
    iso_gpu_chunk_release(gpu, ours + len, 2 * len);
    CHECK_EQ(theirs[9], 4); /* the memory lives as long as somebody maps it */
    iso_gpu_chunk_release(gpu, theirs, 2 * len);
    iso_gpu_unreserve(gpu, ours, 4 * len);
    iso_gpu_unreserve(gpu, theirs, 4 * len);
    hip.uncached_chunks = false;
    CHECK(probe_granule(gpu) != 0);
    check_foreign(gpu);
    closed(gpu);
}

/* ---- memory that network devices reach ---- */

/* The descriptor stands for `whole` bytes, of which `at` is the offset-th. */
static void check_dmabuf(struct gpu *gpu, char *at, size_t len, uint64_t offset, size_t whole)
{
    int fd = -1;
    uint64_t there = 0;
    struct stat stat;
    CHECK_OR_EXIT(iso_gpu_export_dmabuf(gpu, at, len, &fd, &there) == 0);
    CHECK_EQ(there, offset);
    CHECK(fstat(fd, &stat) == 0 && (size_t)stat.st_size == whole);
    close(fd);
}

static void refuses_dmabuf(struct gpu *gpu, char *at, const char *sentence)
{
    int fd = 0;
    uint64_t offset = 0;
    CHECK_EQ(iso_gpu_export_dmabuf(gpu, at, 64, &fd, &offset), -ENOTSUP);
    CHECK_EQ(fd, -1);
    CHECK_NAMED(strstr(iso_gpu_error(gpu), sentence) != NULL, iso_gpu_error(gpu));
}

static void test_network(void)
{
    char *chunks = NULL, *whole = NULL;
    struct gpu_key key;
    int before = descriptors();
    machine();
    struct gpu *gpu = opened();
    size_t len = iso_gpu_granularity(gpu);
    CHECK(!gpu->info.orders_writes);
    CHECK_EQ(iso_gpu_reserve(gpu, 4 * len, &chunks), 0);
    CHECK_OR_EXIT(iso_gpu_chunk_create(gpu, chunks + len, 2 * len, GPU_COMMUNICATION, &key) == 0);
    close(key.fd);
    check_dmabuf(gpu, chunks + len, 2 * len, 0, 2 * len);
    check_dmabuf(gpu, chunks + 2 * len + 7, 100, len + 7, 2 * len);
    CHECK_OR_EXIT(iso_gpu_shared_create(gpu, 3 * len, GPU_COMMUNICATION, &whole, &key) == 0);
    check_dmabuf(gpu, whole + 4096, len, 4096, 3 * len);
    hsa.failing = "hsa_amd_portable_export_dmabuf";
    refuses_dmabuf(gpu, whole, "makes no dma-buf of this memory");
    iso_gpu_flush_writes(gpu);
    CHECK_EQ(hip.flush, 1);
    iso_gpu_shared_destroy(gpu, whole, 3 * len);
    iso_gpu_chunk_release(gpu, chunks + len, 2 * len);
    iso_gpu_unreserve(gpu, chunks, 4 * len);
    closed(gpu);
    hsa.missing = "hsa_amd_portable_export_dmabuf";
    gpu = opened();
    CHECK_OR_EXIT(iso_gpu_shared_create(gpu, len, GPU_COMMUNICATION, &whole, &key) == 0);
    refuses_dmabuf(gpu, whole, "this ROCm has no hsa_amd_portable_export_dmabuf");
    iso_gpu_shared_destroy(gpu, whole, len);
    closed(gpu);
    CHECK_EQ(descriptors(), before);
}

/* ---- copies by engines that are lost, with success reported ---- */

/* Every copy, every other one, only one of the directions: the first look at a peer finds it, and the next copies of a
 * stream arrive. */
static void test_lost_copies(void)
{
    enum { LEN = 65536 };
    static char seen[LEN];
    for (int loses = 0; loses <= 4; loses++) {
        void *ours = NULL;
        char *theirs = NULL;
        struct gpu_key key;
        machine();
        hip.version = 70200000;
        struct gpu *gpu = opened();
        CHECK(gpu->info.tries_engines && !gpu->info.kernels_copy_words);
        CHECK_OR_EXIT(iso_gpu_alloc(gpu, LEN, &ours) == 0);
        CHECK_OR_EXIT(iso_gpu_shared_create(gpu, LEN, GPU_COMMUNICATION, &theirs, &key) == 0);
        hip.loses = loses;
        hip.engine = 0;
        CHECK_EQ(iso_gpu_try_engines(gpu, theirs, (char *)ours, LEN), loses == 0 ? 0 : -EIO);
        CHECK(loses == 0 || strstr(iso_gpu_error(gpu), "did not arrive") != NULL);
        CHECK_EQ(gpu->engine_copies, loses == 0);
        for (int i = 0; i < LEN; i++)
            CHECK_OR_EXIT(theirs[i] == 0);
        for (int i = 0; i < 4; i++) {
            memset(ours, 1 + i, LEN);
            memset(seen, 1 + i, LEN);
            CHECK_EQ(iso_gpu_copy(gpu, theirs, ours, LEN, NULL), 0);
            CHECK(memcmp(theirs, seen, LEN) == 0);
        }
        iso_gpu_shared_destroy(gpu, theirs, LEN);
        iso_gpu_free(gpu, ours);
        closed(gpu);
    }

    /* Without SDMA nothing is tried: HIP makes such copies by itself. */
    setenv("HSA_ENABLE_SDMA", "0", 1);
    machine();
    hip.version = 70200000;
    struct gpu *gpu = opened();
    CHECK(!gpu->info.tries_engines);
    unsetenv("HSA_ENABLE_SDMA");
    closed(gpu);

    /* An older HIP chooses the engines that the HSA runtime takes, and copies words by kernels. */
    machine();
    hip.version = 60400000;
    gpu = opened();
    CHECK(!gpu->info.tries_engines && gpu->info.kernels_copy_words);
    closed(gpu);
}

/* ---- copies: every mixture of kinds, sizes around the stage ---- */

static void check_copy(struct gpu *gpu, char *dest, char *source, size_t len)
{
    static unsigned char seed = 1;
    seed = (unsigned char)(seed * 5 + 3);
    memset(source, seed, len);
    memset(dest, 0, len);
    CHECK_EQ(iso_gpu_copy(gpu, dest, source, len, gpu->stream), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, gpu->stream), 0);
    CHECK_BYTES(dest, source, len);
}

static void test_copies(void)
{
    static const size_t sizes[] = {1, 65536, STAGE_BYTES, STAGE_BYTES + 1, 3 * STAGE_BYTES + 7};
    enum { MOST = 1 << 20 };
    void *memory[2][3] = {{NULL}}, *alias = NULL;
    machine();
    struct gpu *gpu = opened();
    for (int i = 0; i < 2; i++) {
        memory[i][0] = malloc(MOST);
        CHECK_EQ(iso_gpu_host_alloc(gpu, MOST, &memory[i][1], &alias), 0);
        CHECK_EQ(iso_gpu_alloc(gpu, MOST, &memory[i][2]), 0);
        for (int kind = 0; kind < 3; kind++)
            CHECK_EQ((int)iso_gpu_pointer_kind(gpu, memory[i][kind]), kind);
    }
    for (int round = 0; round < 3; round++) { /* with a copy engine, and without from the second on */
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (int to = 0; to < 3; to++)
                for (int from = 0; from < 3; from++)
                    check_copy(gpu, (char *)memory[0][to], (char *)memory[1][from], sizes[s]);
        CHECK_EQ(hip.engine, 5);
        hip.engine_copies = false;
    }
    CHECK_EQ(hip.pageable, 0);
    hip_stream_of(gpu->stream)->captured = true;
    CHECK_EQ(iso_gpu_copy(gpu, memory[0][2], memory[1][0], 8, gpu->stream), -EINVAL);
    CHECK_EQ(iso_gpu_copy(gpu, memory[0][0], memory[1][1], 8, gpu->stream), -EINVAL);
    CHECK(strstr(iso_gpu_error(gpu), "pinned") != NULL);
    CHECK_EQ(iso_gpu_copy(gpu, memory[0][2], memory[1][2], 8, gpu->stream), 0);
    hip_stream_of(gpu->stream)->captured = false;
    for (int i = 0; i < 2; i++) {
        free(memory[i][0]);
        iso_gpu_host_free(gpu, memory[i][1]);
        iso_gpu_free(gpu, memory[i][2]);
    }
    closed(gpu);
}

/* The double checks that what is forbidden to others meanwhile is done in the mode that allows it. */
static void test_while_captured(void)
{
    void *memory = NULL, *host = NULL, *alias = NULL;
    machine();
    struct gpu *gpu = opened();
    hip.capturing = true;
    CHECK_EQ(iso_gpu_alloc(gpu, 4096, &memory), 0);
    CHECK_EQ(iso_gpu_host_alloc(gpu, 4096, &host, &alias), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, gpu->stream), 0);
    CHECK_EQ(iso_gpu_wait_all(gpu), 0);
    iso_gpu_host_free(gpu, host);
    iso_gpu_free(gpu, memory);
    CHECK_EQ((int)hip_mode, (int)hipStreamCaptureModeGlobal);
    hip.capturing = false;
    closed(gpu);
}

/* The double checks that no captured stream is asked how far it is, and the device not synchronised meanwhile. */
static void test_captures_are_left_alone(void)
{
    gpu_stream one = NULL, two = NULL;
    gpu_graph graph = NULL;
    machine();
    struct gpu *gpu = opened();
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &one), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &two), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, one), -EBUSY);
    CHECK(strstr(iso_gpu_error(gpu), "is being captured") != NULL);
    hip.polled = 2;
    CHECK_EQ(iso_gpu_wait_all(gpu), 0);
    CHECK_EQ(hip.polled, 0); /* the other stream was waited for */
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), 0);
    hip.polled = 2;
    CHECK_EQ(iso_gpu_stream_wait(gpu, one), 0);
    CHECK_EQ(iso_gpu_wait_all(gpu), 0);
    iso_gpu_graph_destroy(gpu, graph);
    iso_gpu_stream_destroy(gpu, one);
    iso_gpu_stream_destroy(gpu, two);
    closed(gpu);
}

/* The double checks that each call which HIP 5 makes with its lock in hand finds the streams idle. */
static void test_frees_behind_work(void)
{
    void *memory = NULL, *host = NULL, *alias = NULL;
    gpu_stream stream = NULL;
    machine();
    struct gpu *gpu = opened();
    CHECK_EQ(iso_gpu_alloc(gpu, 4096, &memory), 0);
    CHECK_EQ(iso_gpu_host_alloc(gpu, 4096, &host, &alias), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &stream), 0);
    hip.polled = 2;
    iso_gpu_free(gpu, memory);
    CHECK_EQ(hip.polled, 0);
    hip.polled = 2;
    iso_gpu_host_free(gpu, host);
    CHECK_EQ(hip.polled, 0);
    hip.polled = 2;
    iso_gpu_stream_destroy(gpu, stream);
    CHECK_EQ(hip.polled, 0);
    closed(gpu);
}

/* ---- kernels, streams, graphs ---- */

struct count_args {
    int *count, step;
};
static void count_up(void *args)
{
    struct count_args *a = (struct count_args *)args;
    *a->count += a->step;
}

static void test_launch(void)
{
    int count = 0, blocks = 0;
    struct count_args args = {&count, 2};
    gpu_stream one = NULL, two = NULL;
    gpu_graph graph = NULL;
    machine();
    struct gpu *gpu = opened();
    struct gpu_launch launch = {
        .kernel = (gpu_kernel)count_up, .grid.x = 3, .block.x = 64, .args = &args, .args_bytes = sizeof(args)};
    CHECK_EQ(iso_gpu_stream_create(gpu, true, &one), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &two), 0);
    CHECK_EQ(iso_gpu_preload(gpu, launch.kernel), 0);
    CHECK(iso_gpu_preload(gpu, NULL) != 0 && strstr(iso_gpu_error(gpu), "kernels for gfx90a, gfx942: ") != NULL);
    CHECK_EQ(iso_gpu_launch(gpu, &launch, one), 0);
    CHECK_EQ(count, 2 * 3 * 64);
    struct hip_module module = {"state", 0};
    const uint64_t value = 7;
    CHECK_EQ(iso_gpu_module_write(gpu, &module, "state", &value, sizeof value), 0);
    CHECK_EQ(module.value, 7);
    CHECK_EQ(iso_gpu_module_write(gpu, &module, "other", &value, sizeof value), -ENOENT);
    CHECK_EQ(iso_gpu_module_write(gpu, &module, "state", &value, 4), -ENOENT);
    void *of_library = &module;
    CHECK(iso_gpu_library_module(gpu, &module, &of_library) == -ENOTSUP && of_library == NULL);
    CHECK_EQ(iso_gpu_max_blocks(gpu, launch.kernel, 256, 0, &blocks), 0);
    CHECK_EQ(blocks, 304 * 8);
    CHECK_EQ(iso_gpu_stream_after(gpu, two, one), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    CHECK(iso_gpu_stream_is_capturing(gpu, one) && !iso_gpu_stream_is_capturing(gpu, NULL));
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), 0);
    CHECK_EQ(iso_gpu_graph_launch(gpu, graph, two), 0);
    iso_gpu_graph_destroy(gpu, graph);
    iso_gpu_stream_destroy(gpu, one);
    iso_gpu_stream_destroy(gpu, two);
    closed(gpu);
}

/* Also while somebody captures. */
static void test_marks(void)
{
    gpu_mark marks[2];
    int64_t ns = 0;
    machine();
    struct gpu *gpu = opened();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(iso_gpu_mark_create(gpu, &marks[i]), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[0], gpu->stream), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[1], gpu->stream), 0);
    hip.capturing = true;
    hip.marks_reached = hip.marks - 1;
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[1], &ns), -EBUSY);
    hip.marks_reached = hip.marks;
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[1], &ns), 0);
    CHECK_EQ(ns, 250000);
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[1], marks[0], &ns), 0);
    CHECK_EQ(ns, -250000);
    hip.capturing = false;
    hip.fail_at = hip.calls + 1;
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[1], &ns), -EIO);
    CHECK(strstr(iso_gpu_error(gpu), "hipEventElapsedTime") != NULL);
    for (int i = 0; i < 2; i++)
        iso_gpu_mark_destroy(gpu, marks[i]);
    iso_gpu_mark_destroy(gpu, NULL);
    closed(gpu);
}

static hipGraphNode_t node(uintptr_t number) { return (hipGraphNode_t)number; }

/* A second stream joins by an event; the way back is by nodes, each once. */
static void check_joined(struct gpu *gpu, gpu_stream one, gpu_stream two)
{
    struct hip_stream *first = hip_stream_of((hipStream_t)one), *second = hip_stream_of((hipStream_t)two);
    CHECK_EQ(iso_gpu_stream_after(gpu, two, one), 0);
    CHECK_EQ(second->joins, 1);
    second->captured = true;
    first->n = 1, first->last[0] = node(1);
    second->n = 2, second->last[0] = node(1), second->last[1] = node(2);
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(iso_gpu_stream_after(gpu, one, two), 0);
        CHECK(first->joins == 0 && first->n == 2 && first->last[1] == node(2));
    }
    second->captured = false;
}

static void has_nodes(size_t n, size_t behind_first, size_t behind_second)
{
    hip_graph.n = n;
    hip_graph.nodes[0] = node(1), hip_graph.behind[0] = behind_first;
    hip_graph.nodes[1] = node(2), hip_graph.behind[1] = behind_second;
}

/* Node 2 is of a stream that the capture took along. HIP would end the capture for ever, so it is not asked to. */
static void test_unjoined(void)
{
    gpu_stream one = NULL;
    gpu_graph graph = NULL;
    machine();
    hip.version = 71500000;
    struct gpu *gpu = opened();
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &one), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    struct hip_stream *s = hip_stream_of((hipStream_t)one);
    s->n = 1, s->last[0] = node(1);
    has_nodes(2, 0, 0);
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), -EINVAL);
    CHECK(strstr(iso_gpu_error(gpu), "has not joined; the capture goes on") != NULL);
    CHECK(graph == NULL && s->captured);
    s->n = 2, s->last[1] = node(2);
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), 0);
    iso_gpu_graph_destroy(gpu, graph);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    s->n = 1, s->last[0] = node(1);
    has_nodes(2, 0, 1); /* another node comes behind the second */
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), 0);
    iso_gpu_graph_destroy(gpu, graph);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    hip.stays_captured = true;
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), -EIO);
    CHECK(strstr(iso_gpu_error(gpu), "leaves the stream in its capture") != NULL && graph == NULL);
    has_nodes(0, 0, 0);
    iso_gpu_stream_destroy(gpu, one);
    closed(gpu);
}

static void test_captured_streams(int version)
{
    gpu_stream one = NULL, two = NULL;
    gpu_graph graph = NULL;
    machine();
    hip.version = version;
    struct gpu *gpu = opened();
    CHECK_EQ(gpu->info.joins_captures, version >= 50600000);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &one), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &two), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, one), 0);
    if (gpu->info.joins_captures) {
        check_joined(gpu, one, two);
    } else {
        CHECK_EQ(iso_gpu_stream_after(gpu, two, one), -ENOTSUP);
        CHECK(strstr(iso_gpu_error(gpu), "before 5.6") != NULL && hip_stream_of((hipStream_t)two)->joins == 0);
    }
    CHECK_EQ(iso_gpu_graph_end(gpu, one, &graph), 0);
    iso_gpu_graph_destroy(gpu, graph);
    iso_gpu_stream_destroy(gpu, one);
    iso_gpu_stream_destroy(gpu, two);
    closed(gpu);
}

/* ---- every call fails once ---- */

/* Everything that makes something, and undoes it. Number of steps that failed. */
static int use(struct gpu *gpu)
{
    char *base = NULL, *theirs = NULL;
    void *memory = NULL, *device = NULL;
    char words[64] = "words";
    struct gpu_key key;
    gpu_stream stream = NULL;
    gpu_graph graph = NULL;
    size_t len = iso_gpu_granularity(gpu);
    int failed = 0, made = iso_gpu_shared_create(gpu, 4096, GPU_COMMUNICATION, &base, &key);
    failed += made != 0;
    if (made == 0)
        iso_gpu_shared_destroy(gpu, base, 4096);
    made = iso_gpu_reserve(gpu, len, &theirs);
    failed += made != 0;
    if (made == 0 && iso_gpu_chunk_create(gpu, theirs, len, GPU_BULK, &key) == 0) {
        close(key.fd);
        iso_gpu_chunk_release(gpu, theirs, len);
    } else {
        failed++;
    }
    iso_gpu_unreserve(gpu, theirs, len);
    failed += iso_gpu_host_alloc(gpu, 64, &memory, &device) != 0;
    iso_gpu_host_free(gpu, memory);
    failed += iso_gpu_stream_create(gpu, false, &stream) != 0;
    if (iso_gpu_alloc(gpu, 64, &memory) == 0) {
        failed += iso_gpu_copy(gpu, memory, words, 64, stream) != 0;
        failed += iso_gpu_copy(gpu, words, memory, 64, stream) != 0;
        failed += iso_gpu_copy_by_engine(gpu, (char *)memory + 32, memory, 32) != 0;
    } else {
        failed++;
    }
    failed += stream != NULL && (iso_gpu_stream_after(gpu, stream, gpu->stream) != 0 ||
                                 iso_gpu_graph_begin(gpu, stream) != 0 || iso_gpu_graph_end(gpu, stream, &graph) != 0);
    iso_gpu_graph_destroy(gpu, graph);
    iso_gpu_free(gpu, memory);
    iso_gpu_stream_destroy(gpu, stream);
    return failed;
}

static void test_failures(void)
{
    int at = 0, before = descriptors(), refused = 0, calls = 0; /* the first time none fails */
    for (; at <= calls; at++) {
        struct gpu *gpu = NULL;
        char why[200] = "";
        machine();
        hip.fail_at = at;
        if (iso_gpu_open(&gpu, 0, "", why, sizeof(why)) == 0) {
            (void)probe_granule(gpu);
            iso_hip_refuse(gpu, 0, "");
            CHECK_EQ(hip.current, 0);
            hip.current = 2; /* the program's choice, which calls give back on every way out */
            hip.user = 1;
            CHECK(use(gpu) == 0 || iso_gpu_error(gpu)[0] != '\0');
            iso_gpu_close(gpu);
            CHECK_EQ(hip.current, 2);
        } else {
            refused++;
            CHECK_NAMED(strstr(why, "AMD device 0 cannot be used: hip") != NULL, why);
        }
        CHECK_EQ(hip.live, 0);
        calls = hip.calls > calls ? hip.calls : calls;
    }
    CHECK(refused >= 4 && at > 40);
    CHECK_EQ(descriptors(), before);
}

int main(void)
{
    char text[200] = "";
    test_branches_run_side_by_side();
    test_two_runtimes_are_refused();
    test_open();
    test_shared();
    test_chunks(true);
    test_chunks(false);
    test_network();
    test_copies();
    test_lost_copies();
    test_while_captured();
    test_captures_are_left_alone();
    test_frees_behind_work();
    test_unjoined();
    test_launch();
    test_marks();
    test_captured_streams(50600000);
    test_captured_streams(50599999);
    test_failures();
    iso_gpu_survey(text, sizeof(text));
    CHECK(strncmp(text, "hip: ", 5) == 0);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
