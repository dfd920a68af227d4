/* SPDX-License-Identifier: MIT */
/* Every function of gpu.h on the CPU device: choosing it, memory that peers map (chunks in a range, fixed allocations,
 * the program's own), in this process and in another one, private and pinned memory, the order within and between
 * streams, marks, capture and graphs, launches, copy engines, and that nothing is left: descriptors, mappings, threads. */
#include "../check.h"

#include "../../device/gpu.h"
#include "../../device/api/prim.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define GRAIN ((size_t)2 << 20)

static struct gpu *open_gpu(void)
{
    char why[200];
    struct gpu *gpu = NULL;
    CHECK_EQ_NAMED(iso_gpu_open(&gpu, 0, "", why, sizeof why), 0, why);
    return gpu;
}

/* ---- the device ---- */

static void test_choice(void)
{
    static const char *const bad[] = {"1", "-1", "x", "0x", "7 "};
    char why[200];
    struct gpu *gpu = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(iso_gpu_open(&gpu, 3, bad[i], why, sizeof why), -EINVAL);
        CHECK_NAMED(strstr(why, "SHMEM_DEVICE") != NULL && strstr(why, "0..0") != NULL, why);
    }
    CHECK_EQ(iso_gpu_open(&gpu, 3, "0", why, sizeof why), 0);
    iso_gpu_close(gpu);
    iso_gpu_close(NULL);
    setenv("SHMEM_WAVE", "48", 1);
    CHECK_EQ(iso_gpu_open(&gpu, 0, "", why, sizeof why), -EINVAL);
    CHECK_NAMED(strstr(why, "SHMEM_WAVE is 48, allowed is 32 or 64") != NULL, why);
    setenv("SHMEM_WAVE", "64", 1);
    gpu = open_gpu();
    const struct gpu_info *info = iso_gpu_describe(gpu);
    CHECK(strcmp(info->flavour, "cpu") == 0 && strcmp(info->name, "CPU") == 0 && strcmp(info->id, "cpu") == 0);
    CHECK(info->n_devices == 1 && info->device == 0 && info->wave_size == 64 && info->multiprocessors >= 1);
    CHECK(info->can_vmm && info->can_ipc && info->memory_bytes > (1u << 20));
    CHECK(iso_gpu_reaches(gpu, "cpu") && !iso_gpu_reaches(gpu, "0000:01:00.0"));
    iso_gpu_close(gpu);
    unsetenv("SHMEM_WAVE");
    iso_gpu_survey(why, sizeof why);
    CHECK(strstr(why, "cores") != NULL);
}

/* ---- memory ---- */

static bool is_zero(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i += 509)
        if (p[i] != 0)
            return false;
    return true;
}

static void test_private_memory(void)
{
    struct gpu *gpu = open_gpu();
    void *device, *host, *same;
    char local;
    CHECK_EQ(iso_gpu_alloc(gpu, 100001, &device), 0);
    CHECK_EQ(iso_gpu_host_alloc(gpu, 5000, &host, &same), 0);
    CHECK(host == same && is_zero((char *)device, 100001) && is_zero((char *)host, 5000));
    CHECK_EQ(iso_gpu_pointer_kind(gpu, device), GPU_POINTER_DEVICE);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, (char *)device + 100000), GPU_POINTER_DEVICE);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, (char *)host + 4999), GPU_POINTER_PINNED);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, &local), GPU_POINTER_HOST);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, NULL), GPU_POINTER_HOST);
    iso_gpu_free(gpu, device);
    iso_gpu_host_free(gpu, host);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, device), GPU_POINTER_HOST);
    CHECK_EQ(iso_gpu_pointer_kind(gpu, host), GPU_POINTER_HOST);
    iso_gpu_free(gpu, NULL);
    iso_gpu_host_free(gpu, NULL);
    iso_gpu_close(gpu);
}

/* Chunks of one range appear at the same places of another. */
static void test_chunks(void)
{
    struct gpu *gpu = open_gpu();
    char *mine, *theirs;
    struct gpu_key keys[3];
    CHECK_EQ(iso_gpu_granularity(gpu), GRAIN);
    CHECK_EQ(iso_gpu_reserve(gpu, 16 * GRAIN, &mine), 0);
    CHECK_EQ(iso_gpu_reserve(gpu, 16 * GRAIN, &theirs), 0);
    CHECK((uintptr_t)mine % GRAIN == 0 && (uintptr_t)theirs % GRAIN == 0 && mine != theirs);
    for (size_t i = 0; i < 3; i++) {
        size_t at = i * 4 * GRAIN, len = (i + 1) * GRAIN;
        CHECK_EQ(iso_gpu_chunk_create(gpu, mine + at, len, i == 0 ? GPU_BULK : GPU_COMMUNICATION, &keys[i]), 0);
        CHECK(keys[i].fd >= 0 && is_zero(mine + at, len));
        memset(mine + at, 'a' + (int)i, len);
        CHECK_EQ(iso_gpu_chunk_import(gpu, theirs + at, len, &keys[i]), 0);
        CHECK(theirs[at] == 'a' + (int)i && theirs[at + len - 1] == 'a' + (int)i);
        theirs[at + 5] = 'z';
        CHECK_EQ(mine[at + 5], 'z');
        CHECK_EQ(iso_gpu_pointer_kind(gpu, mine + at + len - 1), GPU_POINTER_DEVICE);
        CHECK_EQ(iso_gpu_pointer_kind(gpu, theirs + at), GPU_POINTER_DEVICE);
        CHECK_EQ(iso_gpu_pointer_kind(gpu, mine + at + len), GPU_POINTER_HOST);
    }
    iso_gpu_chunk_release(gpu, mine + 4 * GRAIN, 2 * GRAIN);
    CHECK_EQ(theirs[4 * GRAIN], 'b'); /* the importer keeps it alive */
    CHECK_EQ(iso_gpu_chunk_create(gpu, mine + 4 * GRAIN, 2 * GRAIN, GPU_BULK, &keys[1]), 0);
    CHECK_EQ(mine[4 * GRAIN], 0);
    close(keys[1].fd);
    for (size_t i = 0; i < 3; i++) {
        iso_gpu_chunk_release(gpu, mine + i * 4 * GRAIN, (i + 1) * GRAIN);
        iso_gpu_chunk_release(gpu, theirs + i * 4 * GRAIN, (i + 1) * GRAIN);
    }
    iso_gpu_unreserve(gpu, mine, 16 * GRAIN);
    iso_gpu_unreserve(gpu, theirs, 16 * GRAIN);
    iso_gpu_unreserve(gpu, NULL, 0);
    iso_gpu_close(gpu);
}

static void test_bad_keys(void)
{
    struct gpu *gpu = open_gpu();
    struct gpu_key key;
    char *base, *other;
    CHECK_EQ(iso_gpu_shared_create(gpu, 10000, GPU_COMMUNICATION, &base, &key), 0);
    CHECK_EQ(iso_gpu_shared_import(gpu, &key, 10000 * 100, &other), -EINVAL);
    CHECK_NAMED(strstr(iso_gpu_error(gpu), "expected") != NULL, iso_gpu_error(gpu));
    CHECK(iso_gpu_shared_import(gpu, &key, 10000, &other) < 0); /* an import takes the descriptor, whatever happens */
    key.fd = -1;
    CHECK_EQ(iso_gpu_shared_import(gpu, &key, 10000, &other), -EBADF);
    iso_gpu_shared_destroy(gpu, base, 10000);
    CHECK(iso_gpu_reserve(gpu, (size_t)1 << 60, &base) < 0);
    CHECK_NAMED(strstr(iso_gpu_error(gpu), "address space") != NULL, iso_gpu_error(gpu));
    iso_gpu_close(gpu);
}

static void test_foreign(void)
{
    struct gpu *gpu = open_gpu();
    void *own;
    char *again, *shared;
    struct gpu_key key;
    struct gpu_allocation a;
    CHECK_EQ(iso_gpu_alloc(gpu, 3 * 4096, &own), 0);
    CHECK_EQ(iso_gpu_export_foreign(gpu, (char *)own + 5000, &a), 0);
    CHECK(a.start == own && a.len == 3 * 4096 && a.method == GPU_SHARE_IPC && a.key.fd >= 0);
    CHECK_EQ(iso_gpu_shared_import(gpu, &a.key, a.len, &again), 0);
    ((char *)own)[12287] = 'q';
    CHECK_EQ(again[12287], 'q');
    iso_gpu_shared_close(gpu, again, a.len);
    iso_gpu_free(gpu, own);
    CHECK_EQ(iso_gpu_export_foreign(gpu, own, &a), -ENOTSUP);
    CHECK_EQ(iso_gpu_export_foreign(gpu, &a, &a), -ENOTSUP);
    CHECK(iso_gpu_error(gpu)[0] != '\0');
    CHECK_EQ(iso_gpu_shared_create(gpu, 4096, GPU_BULK, &shared, &key), 0);
    close(key.fd);
    iso_gpu_shared_destroy(gpu, shared, 4096);
    iso_gpu_close(gpu);
}

/* ---- another process ---- */

/* The child imports what it inherited the descriptor of and answers in it, by a kernel. */
struct answer {
    uint64_t *flags;
};
PRIM_KERNEL(answer_kernel, struct answer, a)
{
    while (prim_peek_u64(&a.flags[0]) != 41)
        prim_pause();
    prim_acquire_from_peer();
    a.flags[8] = a.flags[1] + 1;
    prim_store_flag_u64(&a.flags[2], 42);
}

static int launch(struct gpu *gpu, gpu_kernel kernel, unsigned grid, unsigned block, const void *args, size_t bytes,
                  gpu_stream stream)
{
    struct gpu_launch what = {.kernel = kernel, .grid.x = grid, .block.x = block, .args = args, .args_bytes = bytes};
    return iso_gpu_launch(gpu, &what, stream);
}

static int answer_in(const struct gpu_key *key, bool is_chunk)
{
    struct gpu *gpu = open_gpu();
    char *base;
    if (is_chunk) {
        CHECK_EQ(iso_gpu_reserve(gpu, 4 * GRAIN, &base), 0);
        base += GRAIN;
        CHECK_EQ(iso_gpu_chunk_import(gpu, base, GRAIN, key), 0);
    } else {
        CHECK_EQ(iso_gpu_shared_import(gpu, key, 9000, &base), 0);
    }
    struct answer args = {(uint64_t *)(void *)base};
    CHECK_EQ(launch(gpu, (gpu_kernel)answer_kernel, 1, 1, &args, sizeof args, NULL), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, NULL), 0);
    if (is_chunk)
        iso_gpu_chunk_release(gpu, base, GRAIN);
    else
        iso_gpu_shared_close(gpu, base, 9000);
    iso_gpu_close(gpu);
    return check_self.failures;
}

static void test_processes(bool is_chunk)
{
    struct gpu *gpu = open_gpu();
    char *range = NULL, *base;
    struct gpu_key key;
    int status = -1;
    if (is_chunk) {
        CHECK_EQ(iso_gpu_reserve(gpu, GRAIN, &range), 0);
        CHECK_EQ(iso_gpu_chunk_create(gpu, base = range, GRAIN, GPU_COMMUNICATION, &key), 0);
    } else {
        CHECK_EQ(iso_gpu_shared_create(gpu, 9000, GPU_COMMUNICATION, &base, &key), 0);
    }
    pid_t child = fork();
    if (child == 0)
        _exit(answer_in(&key, is_chunk)); /* what the parent has is no leak of the child */
    close(key.fd);
    uint64_t *flags = (uint64_t *)(void *)base;
    flags[1] = 1000;
    prim_store_flag_u64(&flags[0], 41);
    while (prim_peek_u64(&flags[2]) != 42 && waitpid(child, &status, WNOHANG) == 0)
        check_pause();
    CHECK_EQ(prim_peek_u64(&flags[2]), 42);
    CHECK_EQ(flags[8], 1001);
    CHECK(status == 0 || (waitpid(child, &status, 0) == child && status == 0));
    if (is_chunk) {
        iso_gpu_chunk_release(gpu, base, GRAIN);
        iso_gpu_unreserve(gpu, range, GRAIN);
    } else {
        iso_gpu_shared_destroy(gpu, base, 9000);
    }
    iso_gpu_close(gpu);
}

/* ---- launches and the order of streams ---- */

struct step {
    uint64_t *word, *gate;
    uint64_t from, to, opened;
};
/* Once the gate has the value (if there is one): the word must be `from` and becomes `to`; else it becomes 999999. */
PRIM_KERNEL(step_kernel, struct step, a)
{
    if (prim_block_index() != 0 || prim_rank(prim_group_block()) != 0)
        return;
    while (a.gate != NULL && prim_peek_u64(a.gate) != a.opened)
        prim_pause();
    *a.word = *a.word == a.from ? a.to : 999999;
}

static void put_step(struct gpu *gpu, gpu_stream stream, uint64_t *word, uint64_t from)
{
    struct step args = {word, NULL, from, from + 1, 0};
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 2, 40, &args, sizeof args, stream), 0);
    memset(&args, 0, sizeof args); /* they were copied */
}

static void put_gate(struct gpu *gpu, gpu_stream stream, uint64_t *word, uint64_t *gate, uint64_t opened)
{
    struct step args = {word, gate, *word, *word, opened};
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 1, 1, &args, sizeof args, stream), 0);
}

/* Kernels, copies and fills of one stream come one after the other. */
static void test_one_stream(gpu_stream stream, struct gpu *gpu)
{
    uint64_t words[4] = {0, 0, 0, 0};
    unsigned char bytes[100], filled[100];
    memset(filled, 0x5a, sizeof filled);
    for (uint64_t i = 0; i < 200; i++) {
        put_step(gpu, stream, &words[0], i);
        if (i % 10 == 9) {
            CHECK_EQ(iso_gpu_copy(gpu, &words[1], &words[0], 8, stream), 0);
            put_step(gpu, stream, &words[1], i + 1);
        }
    }
    CHECK_EQ(iso_gpu_fill(gpu, bytes, 0x5a, sizeof bytes, stream), 0);
    CHECK_EQ(iso_gpu_copy(gpu, bytes, bytes + 50, 0, stream), 0);
    CHECK_EQ(iso_gpu_fill(gpu, bytes, 0, 0, stream), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, stream), 0);
    CHECK_EQ(words[0], 200);
    CHECK_EQ(words[1], 201);
    CHECK_BYTES(bytes, filled, sizeof bytes);
}

static void test_streams(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream streams[4];
    uint64_t word = 0, gate = 0;
    test_one_stream(NULL, gpu);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(iso_gpu_stream_create(gpu, i % 2 == 0, &streams[i]), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, streams[0]), 0);
    test_one_stream(streams[1], gpu);
    put_gate(gpu, NULL, &word, &gate, 1); /* the default stream is held up, the others are not */
    test_one_stream(streams[2], gpu);
    put_step(gpu, NULL, &word, 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, streams[3], NULL), 0);
    put_step(gpu, streams[3], &word, 1);
    CHECK_EQ(iso_gpu_stream_after(gpu, streams[0], streams[3]), 0);
    put_step(gpu, streams[0], &word, 2);
    CHECK_EQ(iso_gpu_stream_after(gpu, NULL, streams[0]), 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, NULL, NULL), 0);
    put_step(gpu, NULL, &word, 3);
    CHECK_EQ(word, 0); /* the steps wait behind the gate */
    prim_store_flag_u64(&gate, 1);
    CHECK_EQ(iso_gpu_stream_wait(gpu, NULL), 0);
    CHECK_EQ(word, 4);
    for (uint64_t i = 0; i < 100; i++)
        put_step(gpu, streams[1], &word, 4 + i);
    CHECK_EQ(iso_gpu_stream_after(gpu, streams[2], streams[1]), 0);
    put_step(gpu, streams[2], &word, 104);
    CHECK_EQ(iso_gpu_wait_all(gpu), 0);
    CHECK_EQ(word, 105);
    for (int i = 0; i < 4; i++)
        iso_gpu_stream_destroy(gpu, streams[i]);
    iso_gpu_stream_destroy(gpu, NULL);
    iso_gpu_close(gpu);
}

/* Two streams in turn by words alone: one waits for what the other stores, and stores what that waits for; a larger
 * number ends a wait, too. What is copied before a store is there behind the wait. */
static void test_words(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream ours, theirs;
    gpu_graph graph;
    uint64_t here = 0, there = 0, last = 0, source[100], dest[100] = {0};
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &ours), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &theirs), 0);
    CHECK(iso_gpu_has_words(gpu, ours));
    for (uint64_t i = 0; i < 100; i++) {
        const struct gpu_word ping[] = {{&there, i + 1, false}, {&here, i + 1, true}};
        const struct gpu_word pong[] = {{&there, i + 1, true}, {&here, i + 1 + i % 2, false}};
        source[i] = i + 7;
        CHECK_EQ(iso_gpu_copy(gpu, &dest[i], &source[i], 8, theirs), 0);
        CHECK_EQ(iso_gpu_stream_words(gpu, pong, 2, theirs), 0);
        CHECK_EQ(iso_gpu_stream_words(gpu, ping, 2, ours), 0);
        CHECK_EQ(iso_gpu_copy(gpu, &last, &dest[i], 8, ours), 0);
    }
    const struct gpu_word late = {&here, 1000, true};
    CHECK_EQ(iso_gpu_stream_words(gpu, &late, 1, ours), 0);
    CHECK_EQ(iso_gpu_fill(gpu, dest, 0, sizeof dest, ours), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, theirs), 0);
    CHECK_EQ(dest[99], 106); /* the fill waits for the word */
    prim_store_flag_u64(&here, 1000);
    CHECK_EQ(iso_gpu_stream_wait(gpu, ours), 0);
    CHECK_EQ(last, 106);
    CHECK_EQ(there, 100);
    CHECK_EQ(iso_gpu_graph_begin(gpu, ours), 0);
    CHECK(!iso_gpu_has_words(gpu, ours));
    CHECK(iso_gpu_has_words(gpu, theirs));
    CHECK_EQ(iso_gpu_graph_end(gpu, ours, &graph), 0);
    iso_gpu_graph_destroy(gpu, graph);
    iso_gpu_stream_destroy(gpu, ours);
    iso_gpu_stream_destroy(gpu, theirs);
    iso_gpu_close(gpu);
}

/* A mark has the time when its stream came to it, and the last one where it was set again before. With a seed the clock
 * is another one than the host's. */
static void test_marks(const char *seed)
{
    setenv("SHMEM_SEED", seed, 1);
    struct gpu *gpu = open_gpu();
    const struct timespec pause = {0, 2000000};
    gpu_stream stream;
    gpu_mark marks[3];
    int64_t ns = 0, later = 0;
    uint64_t gate = 0;
    const struct gpu_word opened = {&gate, 1, true}, again = {&gate, 2, true};
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &stream), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(iso_gpu_mark_create(gpu, &marks[i]), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[0], stream), 0);
    CHECK_EQ(iso_gpu_stream_words(gpu, &opened, 1, stream), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[1], stream), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[2], stream), 0);
    CHECK_EQ(iso_gpu_stream_words(gpu, &again, 1, stream), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[2], stream), 0);
    while (iso_gpu_mark_time(gpu, marks[0], marks[0], &ns) == -EBUSY)
        check_pause();
    CHECK_EQ(ns, 0);
    nanosleep(&pause, NULL);
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[1], &ns), -EBUSY);
    prim_store_flag_u64(&gate, 1);
    while (iso_gpu_mark_time(gpu, marks[0], marks[1], &ns) == -EBUSY)
        check_pause();
    CHECK(ns >= 2000000);
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[2], &later), -EBUSY);
    prim_store_flag_u64(&gate, 2);
    CHECK_EQ(iso_gpu_stream_wait(gpu, stream), 0);
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[0], marks[2], &later), 0);
    CHECK(later >= ns);
    CHECK_EQ(iso_gpu_mark_time(gpu, marks[2], marks[0], &ns), 0);
    CHECK_EQ(ns, -later);
    CHECK_EQ(iso_gpu_graph_begin(gpu, stream), 0);
    CHECK_EQ(iso_gpu_mark_set(gpu, marks[0], stream), -EBUSY);
    for (int i = 0; i < 3; i++)
        iso_gpu_mark_destroy(gpu, marks[i]);
    iso_gpu_mark_destroy(gpu, NULL);
    iso_gpu_stream_destroy(gpu, stream);
    iso_gpu_close(gpu);
    unsetenv("SHMEM_SEED");
}

/* A stream that is destroyed does first what is in it. */
static void test_destroyed_stream(void)
{
    struct gpu *gpu = open_gpu();
    uint64_t word = 0;
    for (uint64_t i = 0; i < 50; i++) {
        gpu_stream stream;
        CHECK_EQ(iso_gpu_stream_create(gpu, false, &stream), 0);
        put_step(gpu, stream, &word, 2 * i);
        put_step(gpu, stream, &word, 2 * i + 1);
        iso_gpu_stream_destroy(gpu, stream);
        CHECK_EQ(word, 2 * i + 2);
    }
    iso_gpu_close(gpu);
}

static void test_bad_launches(void)
{
    struct gpu *gpu = open_gpu();
    struct step args = {NULL, NULL, 0, 0, 0};
    int blocks = 0;
    CHECK_EQ(launch(gpu, NULL, 1, 1, &args, sizeof args, NULL), -EINVAL);
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 0, 1, &args, sizeof args, NULL), -EINVAL);
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 1025, 1024, &args, sizeof args, NULL), -EINVAL);
    CHECK_NAMED(strstr(iso_gpu_error(gpu), "1..1024 blocks") != NULL, iso_gpu_error(gpu));
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 1, 0, &args, sizeof args, NULL), -EINVAL);
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 1, 1025, &args, sizeof args, NULL), -EINVAL);
    CHECK_NAMED(strstr(iso_gpu_error(gpu), "1..1024") != NULL, iso_gpu_error(gpu));
    CHECK_EQ(iso_gpu_max_blocks(gpu, (gpu_kernel)step_kernel, 0, 0, &blocks), -EINVAL);
    for (unsigned block = 1; block <= 1024; block *= 4) {
        CHECK_EQ(iso_gpu_max_blocks(gpu, (gpu_kernel)step_kernel, block, 0, &blocks), 0);
        CHECK(blocks >= 1 && blocks <= 1024);
    }
    CHECK_EQ(iso_gpu_preload(gpu, (gpu_kernel)step_kernel), 0);
    CHECK_EQ(iso_gpu_preload(gpu, NULL), -EINVAL);
    iso_gpu_close(gpu);
}

/* ---- graphs ---- */

static void test_graph(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream stream, side;
    gpu_graph graph, bad;
    uint64_t words[2] = {0, 7};
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &stream), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &side), 0);
    CHECK(!iso_gpu_stream_is_capturing(gpu, stream));
    CHECK_EQ(iso_gpu_graph_end(gpu, stream, &bad), -EINVAL);
    CHECK_EQ(iso_gpu_graph_begin(gpu, stream), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, stream), -EBUSY);
    CHECK(iso_gpu_stream_is_capturing(gpu, stream) && !iso_gpu_stream_is_capturing(gpu, side));
    put_step(gpu, stream, words, 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, stream), -EBUSY);
    CHECK_EQ(iso_gpu_stream_after(gpu, stream, side), -EBUSY); /* side is no part of the graph yet */
    CHECK_EQ(iso_gpu_stream_after(gpu, side, stream), 0);
    CHECK(iso_gpu_stream_is_capturing(gpu, side));
    put_step(gpu, side, words, 1);
    CHECK_EQ(iso_gpu_graph_end(gpu, side, &bad), -EINVAL);
    CHECK_EQ(iso_gpu_stream_after(gpu, stream, side), 0);
    put_step(gpu, stream, words, 2);
    CHECK_EQ(iso_gpu_copy(gpu, &words[1], &words[0], 8, stream), 0);
    CHECK_EQ(iso_gpu_fill(gpu, &words[0], 0, 8, stream), 0);
    CHECK_EQ(iso_gpu_graph_end(gpu, stream, &graph), 0);
    CHECK(!iso_gpu_stream_is_capturing(gpu, stream) && !iso_gpu_stream_is_capturing(gpu, side));
    CHECK(words[0] == 0 && words[1] == 7); /* nothing ran */
    for (int i = 0; i < 100; i++)
        CHECK_EQ(iso_gpu_graph_launch(gpu, graph, stream), 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, NULL, stream), 0);
    CHECK_EQ(iso_gpu_graph_launch(gpu, graph, NULL), 0);
    iso_gpu_graph_destroy(gpu, graph); /* the launches go on */
    CHECK_EQ(iso_gpu_stream_wait(gpu, NULL), 0);
    CHECK(words[0] == 0 && words[1] == 3);
    CHECK_EQ(iso_gpu_graph_begin(gpu, stream), 0); /* unfinished: goes with its stream */
    CHECK_EQ(iso_gpu_stream_after(gpu, side, stream), 0);
    put_step(gpu, side, words, 0);
    iso_gpu_stream_destroy(gpu, side);
    put_step(gpu, stream, words, 1);
    iso_gpu_stream_destroy(gpu, stream);
    iso_gpu_graph_destroy(gpu, NULL);
    iso_gpu_close(gpu);
}

/* One turn, captured: on `side` a kernel that waits for what only `other` does, although it was put in before it. The
 * words grow by 3, 1 and 1. */
static void put_fork(struct gpu *gpu, gpu_stream stream, gpu_stream side, gpu_stream other, uint64_t *words)
{
    struct step waits = {&words[0], &words[1], 1, 2, 1};
    put_step(gpu, stream, &words[0], 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, side, stream), 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, other, stream), 0);
    CHECK_EQ(launch(gpu, (gpu_kernel)step_kernel, 1, 1, &waits, sizeof waits, side), 0);
    put_step(gpu, other, &words[2], 0);
    CHECK_EQ(iso_gpu_copy(gpu, &words[1], &words[2], 8, other), 0); /* a word behind a kernel: its flag */
    CHECK_EQ(iso_gpu_stream_after(gpu, side, other), 0);
    CHECK_EQ(iso_gpu_stream_after(gpu, stream, side), 0);
    put_step(gpu, stream, &words[0], 2);
}

/* Back to where a turn begins, in the same stream. */
static void put_zeroes(struct gpu *gpu, gpu_stream stream, uint64_t *words)
{
    CHECK_EQ(iso_gpu_copy(gpu, &words[4], &words[0], 8, stream), 0);
    CHECK_EQ(iso_gpu_fill(gpu, words, 0, 3 * sizeof *words, stream), 0);
}

/* Branches of a graph run at the same time, and all of them before what comes after the launch. */
static void test_branches(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream streams[3];
    gpu_graph graph, twice;
    uint64_t words[5] = {0, 0, 0, 0, 0};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(iso_gpu_stream_create(gpu, false, &streams[i]), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, streams[0]), 0);
    put_fork(gpu, streams[0], streams[1], streams[2], words);
    CHECK_EQ(iso_gpu_graph_end(gpu, streams[0], &graph), 0);
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(iso_gpu_graph_launch(gpu, graph, streams[i / 100]), 0);
        put_zeroes(gpu, streams[i / 100], words);
        if (i % 100 == 99)
            CHECK_EQ(iso_gpu_stream_wait(gpu, streams[i / 100]), 0);
        if (i % 100 == 99)
            CHECK_EQ(words[4], 3);
    }
    CHECK_EQ(iso_gpu_graph_begin(gpu, streams[1]), 0); /* a graph in a graph */
    CHECK_EQ(iso_gpu_stream_after(gpu, streams[2], streams[1]), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(iso_gpu_graph_launch(gpu, graph, streams[2]), 0);
        put_zeroes(gpu, streams[2], words);
    }
    CHECK_EQ(iso_gpu_stream_after(gpu, streams[1], streams[2]), 0);
    CHECK_EQ(iso_gpu_graph_end(gpu, streams[1], &twice), 0);
    iso_gpu_graph_destroy(gpu, graph);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(iso_gpu_graph_launch(gpu, twice, streams[0]), 0);
    iso_gpu_graph_destroy(gpu, twice); /* the launches go on */
    CHECK_EQ(iso_gpu_stream_wait(gpu, streams[0]), 0);
    CHECK(words[0] == 0 && words[4] == 3);
    for (int i = 0; i < 3; i++)
        iso_gpu_stream_destroy(gpu, streams[i]);
    iso_gpu_close(gpu);
}

/* Streams and graphs that are destroyed, or never were: each call says so, and changes nothing. */
static void test_gone(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream stream, other;
    gpu_graph graph;
    char byte = 0;
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &stream), 0);
    CHECK_EQ(iso_gpu_stream_create(gpu, false, &other), 0);
    CHECK_EQ(iso_gpu_graph_begin(gpu, stream), 0);
    CHECK_EQ(iso_gpu_graph_end(gpu, stream, &graph), 0);
    CHECK_EQ(iso_gpu_graph_launch(gpu, graph, stream), 0);
    CHECK_EQ(iso_gpu_stream_wait(gpu, stream), 0);
    CHECK_EQ(iso_gpu_graph_destroy(gpu, graph), 0);
    CHECK_EQ(iso_gpu_stream_destroy(gpu, stream), 0);
    const gpu_stream gone[] = {stream, (gpu_stream)&byte};
    for (int i = 0; i < 2; i++) {
        gpu_graph none = NULL;
        CHECK_EQ(iso_gpu_fill(gpu, &byte, 1, 1, gone[i]), -EBADF);
        CHECK(strstr(iso_gpu_error(gpu), "destroyed, or never made") != NULL);
        CHECK_EQ(iso_gpu_stream_wait(gpu, gone[i]), -EBADF);
        CHECK_EQ(iso_gpu_stream_after(gpu, other, gone[i]), -EBADF);
        CHECK_EQ(iso_gpu_stream_after(gpu, gone[i], other), -EBADF);
        CHECK_EQ(iso_gpu_graph_begin(gpu, gone[i]), -EBADF);
        CHECK_EQ(iso_gpu_graph_end(gpu, gone[i], &none), -EINVAL);
        CHECK(!iso_gpu_stream_is_capturing(gpu, gone[i]));
        CHECK_EQ(iso_gpu_stream_destroy(gpu, gone[i]), -EBADF);
    }
    CHECK_EQ(iso_gpu_graph_launch(gpu, graph, other), -EBADF);
    CHECK_EQ(iso_gpu_graph_destroy(gpu, graph), -EBADF);
    CHECK_EQ(byte, 0);
    CHECK_EQ(iso_gpu_stream_destroy(gpu, other), 0);
    iso_gpu_close(gpu);
}

/* What nobody waits for: an error, as on GPUs. */
static void test_unjoined(void)
{
    struct gpu *gpu = open_gpu();
    gpu_stream streams[3];
    gpu_graph graph;
    uint64_t words[2] = {0, 0};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(iso_gpu_stream_create(gpu, false, &streams[i]), 0);
    for (int late = 0; late < 3; late++) {
        CHECK_EQ(iso_gpu_graph_begin(gpu, streams[0]), 0);
        CHECK_EQ(iso_gpu_stream_after(gpu, streams[1], streams[0]), 0);
        CHECK_EQ(iso_gpu_stream_after(gpu, streams[2], streams[1]), 0);
        put_step(gpu, streams[2], &words[0], 0);
        CHECK_EQ(iso_gpu_stream_after(gpu, streams[1], streams[2]), 0);
        if (late != 1)
            CHECK_EQ(iso_gpu_stream_after(gpu, streams[0], streams[1]), 0);
        if (late == 2)
            put_step(gpu, streams[1], &words[1], 0);
        CHECK_EQ(iso_gpu_graph_end(gpu, streams[0], &graph), late == 0 ? 0 : -ECHILD);
        if (late == 0)
            iso_gpu_graph_destroy(gpu, graph);
        CHECK_NAMED(late == 0 || strstr(iso_gpu_error(gpu), "does not wait") != NULL, iso_gpu_error(gpu));
        CHECK(!iso_gpu_stream_is_capturing(gpu, streams[1]) && !iso_gpu_stream_is_capturing(gpu, streams[2]));
    }
    CHECK(words[0] == 0 && words[1] == 0);
    for (int i = 0; i < 3; i++)
        iso_gpu_stream_destroy(gpu, streams[i]);
    iso_gpu_close(gpu);
}

/* ---- several threads of the program, several devices of one process ---- */

static void *pe_main(void *argument)
{
    struct gpu *gpu = open_gpu();
    (void)argument;
    for (int i = 0; i < 3; i++)
        test_one_stream(NULL, gpu);
    iso_gpu_close(gpu);
    return (void *)(intptr_t)check_self.failures; /* counted by each thread for itself */
}

struct add {
    uint64_t *sum;
};
PRIM_KERNEL(add_kernel, struct add, a) { prim_fetch_add_u64(a.sum, 1); }

struct sender {
    struct gpu *gpu;
    uint64_t *sum;
};
static void *sender_main(void *argument)
{
    struct sender *self = (struct sender *)argument;
    struct add args = {self->sum};
    for (int i = 0; i < 200; i++)
        CHECK_EQ(launch(self->gpu, (gpu_kernel)add_kernel, 1, 3, &args, sizeof args, NULL), 0);
    return (void *)(intptr_t)check_self.failures;
}

static void join_all(pthread_t threads[4])
{
    for (int i = 0; i < 4; i++) {
        void *failures = NULL;
        CHECK_EQ(pthread_join(threads[i], &failures), 0);
        CHECK_EQ((intptr_t)failures, 0);
    }
}

static void test_threads(void)
{
    pthread_t threads[4];
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, pe_main, NULL), 0);
    join_all(threads);
    struct sender sender = {open_gpu(), &sum};
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, sender_main, &sender), 0);
    join_all(threads);
    CHECK_EQ(iso_gpu_stream_wait(sender.gpu, NULL), 0);
    CHECK_EQ(sum, 4 * 200 * 3);
    iso_gpu_close(sender.gpu);
}

/* ---- copy engines ---- */

struct pieces {
    struct gpu *gpu;
    char *to, *from;
};
static void *copier_main(void *argument)
{
    struct pieces *p = (struct pieces *)argument;
    for (size_t i = 0; i < 300; i++)
        CHECK_EQ(iso_gpu_copy_by_engine(p->gpu, p->to + i, p->from + i, 1 + i % 9), 0);
    return (void *)(intptr_t)check_self.failures;
}

/* Of several threads, while a stream waits. */
static void test_engines(void)
{
    struct gpu *gpu = open_gpu();
    uint64_t word = 0, gate = 0;
    char from[4 * 320], to[4 * 320] = {0};
    pthread_t threads[4];
    struct pieces pieces[4];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 7 + 1);
    put_gate(gpu, NULL, &word, &gate, 1);
    for (int i = 0; i < 4; i++) {
        pieces[i] = (struct pieces){gpu, to + 320 * i, from + 320 * i};
        CHECK_EQ(pthread_create(&threads[i], NULL, copier_main, &pieces[i]), 0);
    }
    join_all(threads);
    for (int i = 0; i < 4; i++)
        CHECK_BYTES(to + 320 * i, from + 320 * i, 300);
    CHECK_EQ(iso_gpu_copy_by_engine(gpu, to, from, 0), 0);
    prim_store_flag_u64(&gate, 1);
    CHECK_EQ(iso_gpu_stream_wait(gpu, NULL), 0);
    iso_gpu_close(gpu);
}

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void test_all(void)
{
    test_private_memory();
    test_chunks();
    test_bad_keys();
    test_foreign();
    test_streams();
    test_words();
    test_marks("0");
    test_marks("7");
    test_destroyed_stream();
    test_bad_launches();
    test_graph();
    test_branches();
    test_gone();
    test_unjoined();
    test_threads();
    test_engines();
}

int main(void)
{
    test_processes(true); /* first: a process that forks should have no other threads */
    test_processes(false);
    test_choice();
    test_all();
    int fds = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
    test_all();
    CHECK_EQ(entries_of("/proc/self/fd"), fds);
    CHECK_EQ(entries_of("/proc/self/task"), threads);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
