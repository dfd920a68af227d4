/* SPDX-License-Identifier: MIT */
/* No test by itself: tests/cluster/guest_tests.sh starts it, over two nodes of one PE each. Device memory (the CPU
 * device's) by the method that the argument names: peer, staged, or dmabuf, for which a descriptor and the call of
 * libibverbs are doubles. Moves of all kinds between host and device memory against a copy of both, then the requests
 * that they cost; with `flushes` as the second argument the device's writes need a read to be seen.
 * It knows the inside of the library, which it contains. */
#include "../check.h"

#include "../../device/gpu.h"
#include "../../shmem/gpu/device.h"
#include "../../shmem/transport/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

enum { BYTES = 12 << 20, MOVES = 60, ROUNDS = 20 };

static bool doubles; /* dma-bufs are there */
static int descriptor = -1, registered, flushed;

/* ---- the doubles ---- */

int __real_iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset);
int __wrap_iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset);
int __wrap_iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    if (!doubles)
        return __real_iso_gpu_export_dmabuf(gpu, at, len, fd, offset);
    CHECK(iso_segment_of(at, 1)->on_device);
    *fd = descriptor = memfd_create("dmabuf", MFD_CLOEXEC);
    *offset = (uintptr_t)at & 4095;
    return 0;
}

void __real_iso_gpu_flush_writes(struct gpu *gpu);
void __wrap_iso_gpu_flush_writes(struct gpu *gpu);
void __wrap_iso_gpu_flush_writes(struct gpu *gpu)
{
    __atomic_fetch_add(&flushed, 1, __ATOMIC_RELAXED);
    __real_iso_gpu_flush_writes(gpu);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
    CHECK(fd == descriptor && offset == (iova & 4095));
    registered++;
    return ISO->verbs->lib.reg_mr(pd, (void *)(uintptr_t)iova, len, access);
}

/* ---- moves, against a model ---- */

/* Symmetric memory of one kind, and what it holds at the other PE, as PE 0 has written it. */
struct side {
    char *here;
    char *model; /* of the other PE's */
};

static uint64_t draw(uint64_t below)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void fill(char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)draw(256);
}

static size_t any_len(void)
{
    static const size_t most[] = {9, 200, 9000, 300000, 5 << 20};
    return (size_t)draw(most[draw(5)]);
}

static void move_one(struct side *far, struct side *near)
{
    size_t len = any_len(), to = (size_t)draw(BYTES - len), from = (size_t)draw(BYTES - len);
    switch (draw(4)) {
    case 0:
        fill(near->here + from, len);
        shmem_putmem(far->here + to, near->here + from, len, 1);
        break;
    case 1:
        fill(near->here + from, len);
        shmem_putmem_nbi(far->here + to, near->here + from, len, 1);
        shmem_quiet();
        break;
    case 2:
        fill(near->here + from, len);
        shmem_putmem_signal(far->here + to, near->here + from, len, (uint64_t *)(void *)far->here, 7,
                            draw(2) ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD, 1);
        shmem_quiet();
        shmem_getmem(far->model, far->here, 8, 1); /* of the signal, which data may have met */
        shmem_getmem(far->model + to, far->here + to, len, 1);
        if (to >= 8)
            CHECK_BYTES(far->model + to, near->here + from, len);
        return;
    default:
        memset(near->here + from, 0, len);
        if (draw(2))
            shmem_getmem(near->here + from, far->here + to, len, 1);
        else
            shmem_getmem_nbi(near->here + from, far->here + to, len, 1);
        shmem_quiet();
        CHECK_BYTES(near->here + from, far->model + to, len);
        return;
    }
    memcpy(far->model + to, near->here + from, len);
}

/* Memory of the device that is not symmetric goes with device memory of the peer. */
static void check_moves(struct side *host, struct side *device)
{
    struct side alone = {NULL, NULL}, *const sides[] = {host, device, &alone};
    void *memory = NULL;
    CHECK_OR_EXIT(iso_gpu_alloc(ISO->device->gpu, BYTES, &memory) == 0);
    alone.here = (char *)memory;
    for (int i = 0; i < MOVES; i++) {
        struct side *far = sides[draw(2)];
        move_one(far, sides[draw(far == device ? 3 : 2)]);
    }
    iso_gpu_free(ISO->device->gpu, memory);
    shmem_quiet();
    for (int i = 0; i < 2; i++) {
        shmem_getmem(sides[i]->here, sides[i]->here, BYTES, 1);
        CHECK_BYTES(sides[i]->here, sides[i]->model, BYTES);
    }
}

/* ---- what they cost ---- */

static struct verbs_counts counts(void)
{
    pthread_mutex_lock(&ISO->verbs->net.lock);
    struct verbs_counts c = ISO->verbs->counts;
    pthread_mutex_unlock(&ISO->verbs->net.lock);
    return c;
}

static void check_cost(const char *what, struct verbs_counts before, uint64_t requests, uint64_t posts)
{
    struct verbs_counts now = counts();
    CHECK_EQ_NAMED(now.requests - before.requests, requests, what);
    CHECK_EQ_NAMED(now.posts - before.posts, posts, what);
    CHECK_EQ_NAMED(now.copies - before.copies, 0, what);
    CHECK_EQ_NAMED(now.messages - before.messages, 0, what);
}

/* Of data to device memory, and a signal to device or host memory; each with a quiet. */
static void check_costs(struct side *host, struct side *device, uint64_t flush)
{
    const size_t len = 100000;
    uint64_t *device_word = (uint64_t *)(void *)device->here, *host_word = (uint64_t *)(void *)host->here;
    shmem_quiet();
    struct verbs_counts before = counts();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        shmem_putmem_signal_nbi(device->here + 64, device->here + 64, len, device_word, i, SHMEM_SIGNAL_SET, 1);
        shmem_quiet();
    }
    /* The data goes out at once, being long; the flush and the signal together; then the flush of the signal. */
    check_cost("data and signal in device memory", before, (2 + 2 * flush) * ROUNDS, (2 + flush) * ROUNDS);
    before = counts();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        shmem_putmem_signal_nbi(device->here + 64, device->here + 64, len, host_word, i, SHMEM_SIGNAL_SET, 1);
        shmem_quiet();
    }
    check_cost("data in device, signal in host memory", before, (2 + flush) * ROUNDS, 2 * ROUNDS);
    before = counts();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        shmem_uint64_p(device_word, i, 1);
        shmem_quiet();
    }
    check_cost("a word of device memory", before, (1 + flush) * ROUNDS, (1 + flush) * ROUNDS);
    before = counts();
    for (uint64_t i = 0; i < ROUNDS; i++)
        shmem_getmem(device->here + 64, device->here + 64, 1000, 1);
    check_cost("a get between device memories", before, ROUNDS, ROUNDS);
}

/* What was written here is made visible once it is complete, and a put that waits for nothing is no reason to. */
static void check_own_flush(struct side *host, struct side *device)
{
    int before = flushed;
    shmem_getmem_nbi(device->here, device->here, 1 << 20, 1);
    shmem_uint64_p((uint64_t *)(void *)host->here, 1, 1);
    CHECK_EQ(flushed, before);
    shmem_quiet();
    CHECK_EQ(flushed, before + 1);
    shmem_getmem(device->here, device->here, 1000, 1);
    CHECK_EQ(flushed, before + 2);
    shmem_quiet();
    CHECK_EQ(flushed, before + 2);
}

static bool info_says(const char *text)
{
    size_t len = shmemx_info_text(NULL, 0) + 256;
    char *all = (char *)calloc(1, len);
    CHECK_OR_EXIT(all != NULL);
    shmemx_info_text(all, len);
    bool found = strstr(all, text) != NULL;
    if (!found)
        fprintf(stderr, "%s\n", strstr(all, "network of PE") != NULL ? strstr(all, "network of PE") : all);
    free(all);
    return found;
}

/* Both PEs have the same bytes to begin with. */
static struct side make_side(int kind)
{
    struct side s = {(char *)shmemx_malloc(BYTES, kind), (char *)malloc(BYTES)};
    CHECK_OR_EXIT(s.here != NULL && s.model != NULL);
    memset(s.here, 'a' + kind, BYTES);
    memset(s.model, 'a' + kind, BYTES);
    return s;
}

int main(int argc, char **argv)
{
    const char *method = argc > 1 ? argv[1] : "", *text = "device memory by peer memory";
    bool flushes = argc > 2 && strcmp(argv[2], "flushes") == 0, staged = strcmp(method, "staged") == 0;
    doubles = strcmp(method, "dmabuf") == 0;
    CHECK_INIT();
    if (shmem_n_pes() != 2 || ISO->verbs == NULL) {
        shmem_finalize();
        return CHECK_SKIP("needs two PEs on two nodes");
    }
    if (doubles)
        ISO->verbs->lib.reg_dmabuf_mr = reg_dmabuf_mr;
    ISO->verbs->reach.flushes = flushes;
    struct side host = make_side(SHMEMX_HOST), device = make_side(SHMEMX_DEVICE);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        check_moves(&host, &device);
        if (!staged) {
            check_costs(&host, &device, flushes);
            check_own_flush(&host, &device);
        }
    }
    shmem_barrier_all();
    CHECK(info_says(doubles ? "device memory by dma-buf" : staged ? "device memory staged by the host" : text));
    CHECK(!doubles || registered > 2); /* pieces of the heap */
    CHECK(descriptor < 0 || fcntl(descriptor, F_GETFD) < 0);
    free(host.model);
    free(device.model);
    shmemx_free(device.here);
    shmemx_free(host.here);
    return CHECK_DONE();
}
