/* SPDX-License-Identifier: MIT */
/* Copies by copy engines of the AMD flavour, over the doubles of HIP and HSA: which engine is taken towards waited, that
 * a copy is awaited, side by side with others, what becomes of it when each call fails or is missing, and that a copy
 * that does not end is reported. Of hardware it says nothing. */
#include "../check.h"

#include <stdio.h>

#if !__has_include(<hip/hip_runtime_api.h>) || !__has_include(<hsa/hsa_ext_amd.h>)
int main(void) { return CHECK_SKIP("no headers hip/hip_runtime_api.h and hsa/hsa_ext_amd.h on this machine"); }
#else

#include "hip_flavour.h"

enum { LEN = 10000, OUR_AGENT = HSA_GPU + 1, PEER_AGENT = HSA_GPU + 2 };

/* The device, memory of ours and memory of device 2, opened by a key. */
static struct {
    struct gpu *gpu;
    char *ours, *second, *theirs;
} it;

static void begin_with(void)
{
    struct gpu_key key;
    char *shared = NULL;
    void *own[2] = {NULL};
    it.gpu = opened();
    for (int i = 0; i < 2; i++)
        CHECK_OR_EXIT(iso_gpu_alloc(it.gpu, LEN, &own[i]) == 0);
    it.ours = (char *)own[0];
    it.second = (char *)own[1];
    CHECK_OR_EXIT(iso_gpu_shared_create(it.gpu, LEN, GPU_COMMUNICATION, &shared, &key) == 0);
    CHECK_OR_EXIT(iso_gpu_shared_import(it.gpu, &key, LEN, &it.theirs) == 0);
}

static void end(void)
{
    iso_gpu_shared_close(it.gpu, it.theirs, LEN);
    iso_gpu_shared_destroy(it.gpu, it.theirs, LEN);
    iso_gpu_free(it.gpu, it.ours);
    iso_gpu_free(it.gpu, it.second);
    closed(it.gpu);
}

static void begin(void)
{
    machine();
    begin_with();
}

static int copy(char *dest, char *source)
{
    static unsigned char seed = 7;
    seed = (unsigned char)(seed * 5 + 3);
    memset(source, seed, LEN);
    memset(dest, 0, LEN);
    int rc = iso_gpu_copy_by_engine(it.gpu, dest + 3, source + 3, LEN - 7);
    if (rc == 0)
        CHECK_BYTES(dest + 3, source + 3, LEN - 7);
    CHECK(dest[2] == 0 && dest[LEN - 4] == 0 && (rc == 0 || dest[LEN / 2] == 0));
    return rc;
}

/* Their memory once more, now of another device. */
static void open_again(int peer)
{
    struct gpu_key key;
    hsa.peer = peer;
    CHECK_OR_EXIT(export_ipc(it.gpu, it.theirs, &key) == 0);
    iso_gpu_shared_close(it.gpu, it.theirs, LEN);
    CHECK_OR_EXIT(iso_gpu_shared_import(it.gpu, &key, LEN, &it.theirs) == 0);
}

/* Engine by which a copy went. */
static unsigned by(char *dest, char *source)
{
    hsa.last = 0;
    CHECK_EQ(copy(dest, source), 0);
    return hsa.last;
}

/* ---- which engine ---- */

static void test_directions(void)
{
    begin();
    CHECK_EQ(by(it.theirs, it.ours), 1 << 2); /* the first of those for links */
    CHECK_EQ(hsa.last_to, PEER_AGENT);
    CHECK_EQ(by(it.ours, it.theirs), 1 << 3); /* ours as well: the peer's do not know our memory */
    CHECK_EQ(hsa.last_to, OUR_AGENT);
    CHECK_EQ(by(it.second, it.ours), 1 << 4);
    CHECK_EQ(hsa.last_to, OUR_AGENT);
    CHECK_EQ(hsa.left, 0);
    end();
    machine();
    hsa.engines = 0x1f; /* gfx90a */
    hsa.first_is_hosts = true;
    begin_with();
    CHECK_EQ(by(it.ours, it.second), 1 << 1);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 2);
    end();
}

static void test_turns(void)
{
    begin();
    for (int i = 0; i < 28; i++)
        CHECK_EQ(by(it.theirs, it.ours), 1 << (2 + i % 14));
    CHECK_EQ(hsa.used, 0xfffc);
    CHECK_EQ(by(it.ours, it.theirs), 1 << 0);
    CHECK_EQ(by(it.second, it.ours), 1 << 1);
    end();
}

static void test_busy(void)
{
    begin();
    hsa.busy = 0xffff & ~(1u << 9 | 1u << 11);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 9); /* only these have been seen */
    CHECK_EQ(by(it.theirs, it.ours), 1 << 11);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 9);
    hsa.busy = 0xffff; /* all: one behind another */
    CHECK_EQ(by(it.theirs, it.ours), 1 << 11);
    CHECK_EQ(by(it.ours, it.theirs), 1 << 12);
    hsa.busy = 0;
    CHECK_EQ(by(it.theirs, it.ours), 1 << 13);
    hsa.busy = 0xffff & ~(1u << 4 | 1u << 5);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 4);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 5);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 4);
    end();
    machine();
    hsa.busy = 0xffff; /* from the start: none is known, the runtime knows better */
    begin_with();
    CHECK_EQ(by(it.theirs, it.ours), 0);
    CHECK_EQ(hsa.left, 1);
    CHECK_EQ(copy(it.ours, it.theirs), -ENOTSUP);
    hsa.busy = 0;
    CHECK_EQ(by(it.ours, it.theirs), 1 << 0);
    end();
}

static void test_preferred(void)
{
    begin();
    hsa.preferred = 1 << 7;
    hsa.busy = 1 << 7;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(by(it.theirs, it.ours), 1 << 7);
        CHECK_EQ(by(it.ours, it.theirs), 1 << 7); /* by the same link */
    }
    CHECK_EQ(hsa.asked, 1);
    CHECK_EQ(by(it.second, it.ours), 1 << 8);
    end();
    begin();
    hsa.preferred = 1 << 7 | 1 << 8;
    CHECK_EQ(by(it.theirs, it.ours), 1 << 7);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 8);
    end();
}

/* ---- whose memory ---- */

/* Of chunks, the key says it: the runtime cannot be asked. */
static void test_chunk(const char *owner, uint64_t agent)
{
    char *ours = NULL, *theirs = NULL;
    struct gpu_key key;
    begin();
    size_t len = iso_gpu_granularity(it.gpu);
    CHECK_OR_EXIT(iso_gpu_reserve(it.gpu, len, &ours) == 0 && iso_gpu_reserve(it.gpu, len, &theirs) == 0);
    CHECK_OR_EXIT(iso_gpu_chunk_create(it.gpu, ours, len, GPU_COMMUNICATION, &key) == 0);
    CHECK(strcmp((const char *)key.bytes, it.gpu->info.id) == 0);
    memset(key.bytes, 'x', sizeof(key.bytes));
    memcpy(key.bytes, owner, strlen(owner) + 1);
    CHECK_OR_EXIT(iso_gpu_chunk_import(it.gpu, theirs, len, &key) == 0);
    CHECK_EQ(copy(theirs + len - LEN, it.ours), 0);
    CHECK_EQ(hsa.last_to, agent);
    CHECK_EQ(copy(it.ours, theirs), 0);
    CHECK_EQ(copy(it.theirs, theirs), 0); /* from one peer to another */
    CHECK_EQ(hsa.last_to, agent == PEER_AGENT ? OUR_AGENT : PEER_AGENT);
    CHECK_EQ(copy(it.ours, ours), 0);
    iso_gpu_chunk_release(it.gpu, theirs, len);
    CHECK(it.gpu->engines->peers != NULL && it.gpu->engines->peers->at == it.theirs);
    iso_gpu_chunk_release(it.gpu, ours, len);
    iso_gpu_unreserve(it.gpu, ours, len);
    iso_gpu_unreserve(it.gpu, theirs, len);
    end();
}

/* Copies that engines do not make: none is tried. */
static void test_others(void)
{
    static char host[LEN], host2[LEN];
    void *pinned = NULL, *device = NULL;
    begin();
    CHECK_EQ(iso_gpu_host_alloc(it.gpu, LEN, &pinned, &device), 0);
    CHECK_EQ(copy(it.ours, host), -ENOTSUP);
    CHECK_NAMED(strstr(iso_gpu_error(it.gpu), "a copy of 9993 bytes") != NULL, iso_gpu_error(it.gpu));
    CHECK_EQ(copy(host, it.theirs), -ENOTSUP);
    CHECK_EQ(copy(host, host2), -ENOTSUP);
    CHECK_EQ(copy(it.ours, (char *)pinned), -ENOTSUP);
    hip_find(it.second)->device = 3; /* of another device of the program's */
    CHECK_EQ(copy(it.second, it.ours), -ENOTSUP);
    hip_find(it.second)->device = 1;
    CHECK_EQ(copy(it.second, it.ours), 0);
    CHECK_EQ(iso_gpu_copy_by_engine(it.gpu, it.ours, host, 0), 0);
    CHECK_EQ(hsa.begun, 1);
    iso_gpu_host_free(it.gpu, pinned);
    end();
}

/* ---- side by side ---- */

static void *copy_beside(void *unused)
{
    (void)unused;
    CHECK_EQ(iso_gpu_copy_by_engine(it.gpu, it.theirs, it.ours, 100), 0);
    return (void *)(intptr_t)check_self.failures;
}

/* Neither copy ends before both have begun. */
static void test_side_by_side(void)
{
    pthread_t thread;
    void *failures = NULL;
    begin();
    memset(it.ours, 6, 200);
    hsa.together = 2;
    CHECK_EQ(pthread_create(&thread, NULL, copy_beside, NULL), 0);
    CHECK_EQ(iso_gpu_copy_by_engine(it.gpu, it.theirs + 100, it.ours + 100, 100), 0);
    CHECK_EQ(pthread_join(thread, &failures), 0);
    CHECK_EQ((intptr_t)failures, 0);
    CHECK_BYTES(it.theirs, it.ours, 200);
    CHECK_EQ(hsa.used, 1 << 2 | 1 << 3);
    end();
}

/* Those that get the same engine come one after the other. */
static void *copy_many(void *number)
{
    size_t at = 100 * (size_t)(intptr_t)number;
    for (int i = 0; i < 200; i++)
        CHECK_EQ(iso_gpu_copy_by_engine(it.gpu, it.theirs + at, it.ours + at, 100), 0);
    return (void *)(intptr_t)check_self.failures;
}

static void test_crowd(void)
{
    pthread_t threads[4];
    void *failures = NULL;
    begin();
    hsa.preferred = 7 << 2; /* fewer engines than threads */
    memset(it.ours, 9, 400);
    for (intptr_t i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, copy_many, (void *)i), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(threads[i], &failures), 0);
        CHECK_EQ((intptr_t)failures, 0);
    }
    CHECK_BYTES(it.theirs, it.ours, 400);
    CHECK_EQ(hsa.named, 800);
    CHECK_EQ(hsa.used, 7 << 2);
    end();
}

/* ---- what is missing or fails ---- */

static void check_none(const char *why)
{
    begin_with();
    CHECK_EQ(copy(it.theirs, it.ours), -ENOTSUP);
    CHECK_NAMED(hsa.begun == 0 && strstr(iso_gpu_error(it.gpu), "by a copy engine") != NULL, why);
    end();
}

/* Copies to a peer go by engines of the runtime's choice; all others would go by compute units. */
static void check_unnamed(int copies)
{
    CHECK_EQ(copy(it.theirs, it.ours), 0);
    CHECK_EQ(hsa.last_to, PEER_AGENT);
    CHECK_EQ(copy(it.theirs, it.ours), 0);
    CHECK_EQ(copy(it.ours, it.theirs), -ENOTSUP);
    CHECK_EQ(copy(it.ours, it.second), -ENOTSUP);
    CHECK_EQ(hsa.left, copies + 2);
}

static void test_missing(void)
{
#define X(name) #name,
    static const char *const always[] = {HSA_CALLS(X)};
#undef X
    static const char *const newer[] = {"hsa_amd_memory_async_copy_on_engine", "hsa_amd_memory_copy_engine_status"};
    machine();
    hsa.loaded = false;
    check_none("no library");
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        machine();
        hsa.missing = always[i];
        check_none(always[i]);
    }
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
        machine();
        hsa.missing = newer[i];
        begin_with();
        check_unnamed(0);
        CHECK_EQ(hsa.named, 0);
        end();
    }
    machine();
    hsa.missing = "hsa_amd_memory_get_preferred_copy_engine";
    hsa.preferred = 1 << 7;
    begin_with();
    CHECK_EQ(by(it.theirs, it.ours), 1 << 2);
    end();
}

/* By an engine, or in the way that HIP chooses: without engines HIP 7 lets the other kind overtake events. */
static void check_stream_copy(bool by_engine)
{
    void *memory = NULL;
    machine();
    struct gpu *gpu = opened();
    CHECK_EQ(iso_gpu_alloc(gpu, 128, &memory), 0);
    CHECK_EQ(iso_gpu_copy(gpu, memory, (char *)memory + 64, 64, gpu->stream), 0);
    CHECK_EQ(hip.engine, by_engine);
    iso_gpu_free(gpu, memory);
    closed(gpu);
}

static void test_switched_off(void)
{
    static const char *const names[] = {"HSA_ENABLE_SDMA", "HSA_ENABLE_PEER_SDMA"};
    for (int i = 0; i < 2; i++) {
        machine();
        setenv(names[i], "0", 1);
        check_none(names[i]);
        check_stream_copy(i == 1);
        setenv(names[i], "1", 1);
        begin();
        CHECK_EQ(by(it.theirs, it.ours), 1 << 2);
        end();
        unsetenv(names[i]);
    }
}

static void test_failing_start(void)
{
    static const char *const calls[] = {"hsa_init", "hsa_amd_pointer_info", "hsa_agent_get_info"};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        machine();
        hsa.failing = calls[i];
        check_none(calls[i]);
        CHECK_NAMED(hsa.failing == NULL, calls[i]);
    }
}

static void test_failing_calls(void)
{
    begin();
    hsa.failing = "hsa_signal_create"; /* may work another time */
    CHECK_EQ(copy(it.theirs, it.ours), -ENOTSUP);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 3);
    hsa.failing = "hsa_amd_memory_copy_engine_status";
    check_unnamed(0);
    end();
    begin();
    hsa.preferred = 1 << 7;
    hsa.failing = "hsa_amd_memory_get_preferred_copy_engine"; /* then all engines are alike */
    CHECK_EQ(by(it.theirs, it.ours), 1 << 2);
    open_again(3);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 3);
    CHECK_EQ(hsa.last_to, PEER_AGENT + 1);
    CHECK_EQ(hsa.asked, 1);
    open_again(2);
    hsa.failing = "hsa_amd_memory_async_copy_on_engine";
    check_unnamed(0);
    CHECK_EQ(hsa.named, 2);
    hsa.failing = "hsa_amd_memory_async_copy";
    CHECK_EQ(copy(it.theirs, it.ours), -ENOTSUP);
    CHECK_EQ(copy(it.theirs, it.ours), -ENOTSUP);
    CHECK_EQ(hsa.left, 2);
    hip.live--; /* the signal of the copy of which part may have begun is left alone */
    end();
}

/* A runtime that does not take the engine that it prefers, and the owner that is not known. */
static void test_refused(void)
{
    begin();
    hsa.failing = "hsa_amd_memory_async_copy_on_engine";
    CHECK_EQ(copy(it.ours, it.theirs), -ENOTSUP);
    check_unnamed(0);
    end();
    begin();
    hsa.failing = "hsa_amd_pointer_info";
    open_again(2);
    CHECK_EQ(by(it.theirs, it.ours), 1 << 0);
    CHECK_EQ(hsa.last_to, OUR_AGENT);
    open_again(HSA_HOST - HSA_GPU); /* not a device's */
    CHECK_EQ(by(it.theirs, it.ours), 1 << 1);
    CHECK_EQ(hsa.last_to, OUR_AGENT);
    end();
}

/* A copy that fails on its way: its data is lost, the engine's signal is not used again. */
static void test_broken(void)
{
    begin();
    hsa.preferred = 1 << 7;
    hsa.breaks = true;
    CHECK_EQ(copy(it.theirs, it.ours), -EIO);
    CHECK_NAMED(strstr(iso_gpu_error(it.gpu), "failed") != NULL, iso_gpu_error(it.gpu));
    hsa.breaks = false;
    CHECK_EQ(copy(it.theirs, it.ours), -ENOTSUP);
    CHECK_EQ(by(it.second, it.ours), 1 << 8);
    hip.live--;
    end();
}

/* ---- what does not end ---- */

/* What iso_gpu_copy_by_engine returns while stderr goes to `text`. */
static int heard(char *text, size_t bytes)
{
    FILE *file = tmpfile();
    CHECK_OR_EXIT(file != NULL);
    int before = dup(2);
    dup2(fileno(file), 2);
    int rc = iso_gpu_copy_by_engine(it.gpu, it.theirs, it.ours, LEN);
    dup2(before, 2);
    close(before);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
    return rc;
}

static void test_late(void)
{
    char text[2000];
    setenv("SHMEM_TIMEOUT", "0.05", 1);
    begin();
    hsa.done_at_ns = hsa_now_ns() + 1500000000; /* on a busy machine the wait begins late */
    CHECK_EQ(heard(text, sizeof(text)), 0);
    const char *said = strstr(text, "copy engine 2 is not done after ");
    CHECK_NAMED(said != NULL && strstr(said + 1, "copy engine 2") == NULL, text); /* once */
    CHECK_NAMED(strstr(text, "a copy of 10000 bytes from ") != NULL && strstr(text, "SHMEM_TIMEOUT") != NULL, text);
    end();
    setenv("SHMEM_TIMEOUT_ABORT", "1", 1);
    begin();
    hsa.done_at_ns = hsa_now_ns() + 3600000000000;
    CHECK_EQ(heard(text, sizeof(text)), -ETIMEDOUT);
    CHECK_NAMED(strstr(text, "not done") != NULL, text);
    CHECK_NAMED(strstr(iso_gpu_error(it.gpu), "SHMEM_TIMEOUT_ABORT") != NULL, iso_gpu_error(it.gpu));
    hip.live--;
    end();
    unsetenv("SHMEM_TIMEOUT_ABORT");
    setenv("SHMEM_TIMEOUT", "0", 1);
    begin();
    hsa.done_at_ns = hsa_now_ns() + 100000000;
    CHECK_EQ(heard(text, sizeof(text)), 0);
    CHECK_NAMED(text[0] == '\0', text);
    end();
    unsetenv("SHMEM_TIMEOUT");
}

int main(void)
{
    test_directions();
    test_turns();
    test_busy();
    test_preferred();
    test_chunk("0000:02:00.0", PEER_AGENT);
    test_chunk("0000:07:00.0", OUR_AGENT); /* not visible here */
    test_chunk("nonsense", OUR_AGENT);
    test_others();
    test_side_by_side();
    test_crowd();
    test_missing();
    test_switched_off();
    test_failing_start();
    test_failing_calls();
    test_refused();
    test_broken();
    test_late();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
