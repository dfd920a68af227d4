/* SPDX-License-Identifier: MIT */
/* The host's hands on device memory: copies between any two kinds of memory, and atomics on words of it.
 * Between device memories a copy engine copies. All else goes by two streams of this PE's own, of high priority, which
 * wait for no kernel of the program, one caller at a time. Host memory that is not pinned passes through pinned stages,
 * so that no copy synchronises the device or waits for one that does. A copy or an atomic is done on return.
 * Called by transport.c, memory.c, p2p.c, proxy.c. */
#include "../../bootstrap/log.h"
#include "../../device/api/state.h"
#include "../../device/gpu.h"
#include "device_agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_BYTES ((size_t)1 << 20) /* large enough that a copy engine is at full speed */
#define STAGES 2

struct stage {
    gpu_stream stream;
    char *host; /* pinned; copies take its host address */
};

struct agent {
    pthread_mutex_t lock;
    struct gpu *gpu;
    struct stage stages[STAGES];
    uint64_t *old; /* pinned: what an atomic saw; the host's address */
    uint64_t *old_for_kernels;
};

extern void isod_word_kernel(void); /* device/agent_kernels.c */

/* The copy or launch of a PE cannot be given up alone: the device is lost, or the address is not its memory. Where this
 * returns the job is broken, so nothing relies on what was to be copied. */
static ISO_COLD void fail(const struct agent *a, const char *what)
{
    (void)iso_refuse_alone("the copy agent", "%s failed: %s", what, iso_gpu_error(a->gpu));
}

/* ---- copies ---- */

/* Symmetric memory is known; the driver is asked only about other memory. Pinned memory needs no stage either. */
static enum agent_side side_of(const struct agent *a, const void *addr)
{
    const struct state *self = ISO;
    for (int i = 0; i < self->n_segments; i++) {
        const struct segment *s = &self->segments[i];
        if ((size_t)((const char *)addr - s->base) < s->limit)
            return s->on_device ? AGENT_DEVICE : AGENT_HOST;
    }

    /* Device memory of another PE has an address of its own where it is mapped here. */
    for (int i = SEGMENT_INDEX_DEVICE; i < self->n_segments; i++) {
        const struct segment *s = &self->segments[i];
        for (int l = 0; s->on_device && l < self->n_local; l++) {
            const char *base = s->peers[self->local_pes[l]].gpu_ptr;
            if (base != NULL && (size_t)((const char *)addr - base) < s->limit)
                return AGENT_DEVICE;
        }
    }
    return iso_gpu_pointer_kind(a->gpu, addr) == GPU_POINTER_HOST ? AGENT_HOST : AGENT_DEVICE;
}

static void enqueue_copy(struct agent *a, struct stage *s, void *dest, const void *source, size_t len)
{
    if (iso_gpu_copy(a->gpu, dest, source, len, s->stream) != 0)
        fail(a, "a copy");
}

static void wait_for(struct agent *a, struct stage *s)
{
    if (iso_gpu_stream_wait(a->gpu, s->stream) != 0)
        fail(a, "waiting for a copy");
}

/* While one stage is on its way the other is filled. */
static void copy_up(struct agent *a, char *dest, const char *source, size_t len)
{
    int i = 0;
    for (size_t done = 0, n; done < len; done += n, i ^= 1) {
        struct stage *s = &a->stages[i];
        n = ISO_MIN(len - done, STAGE_BYTES);
        wait_for(a, s);
        memcpy(s->host, source + done, n);
        enqueue_copy(a, s, dest + done, s->host, n);
    }
    for (i = 0; i < STAGES; i++)
        wait_for(a, &a->stages[i]);
}

/* The next piece is on its way while this one is copied out. */
static void copy_down(struct agent *a, char *dest, const char *source, size_t len)
{
    int i = 0;
    size_t n = ISO_MIN(len, STAGE_BYTES);
    enqueue_copy(a, &a->stages[0], a->stages[0].host, source, n);
    for (size_t done = 0, next; done < len; done += n, n = next, i ^= 1) {
        next = ISO_MIN(len - done - n, STAGE_BYTES);
        if (next > 0)
            enqueue_copy(a, &a->stages[i ^ 1], a->stages[i ^ 1].host, source + done + n, next);
        wait_for(a, &a->stages[i]);
        memcpy(dest + done, a->stages[i].host, n);
    }
}

void iso_agent_copy(void *dest, const void *source, size_t len)
{
    iso_agent_move(dest, AGENT_UNKNOWN, source, AGENT_UNKNOWN, len);
}

void iso_agent_move(void *dest, enum agent_side to, const void *source, enum agent_side from, size_t len)
{
    struct agent *a = ISO->agent;
    if (len == 0 || dest == source)
        return;
    to = to != AGENT_UNKNOWN ? to : side_of(a, dest);
    from = from != AGENT_UNKNOWN ? from : side_of(a, source);
    if (to == AGENT_HOST && from == AGENT_HOST) {
        memcpy(dest, source, len);
        return;
    }
    if (to == AGENT_DEVICE && from == AGENT_DEVICE) {
        /* By an engine of this device's own, in turn, where one can choose: several threads' copies go side by side. */
        int rc = iso_gpu_copy_by_engine(a->gpu, dest, source, len);
        if (rc != 0 && rc != -ENOTSUP)
            fail(a, "a copy by a copy engine");
        if (rc == 0)
            return;
    }
    pthread_mutex_lock(&a->lock);
    if (from == AGENT_HOST) {
        copy_up(a, (char *)dest, (const char *)source, len);
    } else if (to == AGENT_HOST) {
        copy_down(a, (char *)dest, (const char *)source, len);
    } else {
        enqueue_copy(a, &a->stages[0], dest, source, len);
        wait_for(a, &a->stages[0]);
    }
    pthread_mutex_unlock(&a->lock);
}

void iso_agent_fill(void *dest, int byte, size_t len)
{
    struct agent *a = ISO->agent;
    if (len == 0)
        return;
    pthread_mutex_lock(&a->lock);
    if (iso_gpu_fill(a->gpu, dest, byte, len, a->stages[0].stream) != 0)
        fail(a, "filling device memory");
    wait_for(a, &a->stages[0]);
    pthread_mutex_unlock(&a->lock);
}

/* ---- words ---- */

/* By a kernel of one thread; its end orders the result before the load below. */
static uint64_t run_word_task(struct agent *a, struct isod_word_task task)
{
    const struct gpu_launch launch = {
        .kernel = isod_word_kernel, .grid.x = 1, .block.x = 1, .args = &task, .args_bytes = sizeof task};
    pthread_mutex_lock(&a->lock);
    task.old = a->old_for_kernels;
    if (iso_gpu_launch(a->gpu, &launch, a->stages[0].stream) != 0)
        fail(a, "an atomic on device memory");
    wait_for(a, &a->stages[0]);
    uint64_t old = __atomic_load_n(a->old, __ATOMIC_ACQUIRE); /* pairs with the release store of the kernel */
    pthread_mutex_unlock(&a->lock);
    return old;
}

_Static_assert((int)AMO_FETCH == (int)ISOD_AMO_FETCH && (int)AMO_XOR == (int)ISOD_AMO_XOR &&
                   (int)AMO_CSWAP == (int)ISOD_AMO_CSWAP && (int)AMO_ADD == (int)ISOD_AMO_ADD,
               "numbers of operations travel to kernels as they are");

uint64_t iso_agent_amo(void *word, struct amo op)
{
    struct isod_word_task task = {word, NULL, op.operand, op.compare, (uint32_t)op.op, op.bytes};
    return run_word_task(ISO->agent, task);
}

/* By a copy engine where there is one: it needs no place on the device, so kernels that fill it and wait for this very
 * store cannot hold it up; aligned words travel whole. A CPU device copies by memcpy, which promises neither. */
static bool has_engine(const struct agent *a) { return strcmp(iso_gpu_describe(a->gpu)->flavour, "cpu") != 0; }

uint64_t iso_agent_load(const void *word, unsigned bytes)
{
    struct agent *a = ISO->agent;
    uint64_t value = 0;
    if (!has_engine(a)) {
        /* Narrow words are cut out of the aligned word of 4 bytes around them. */
        uintptr_t at = (uintptr_t)word, within = bytes < 4 ? at & 3 : 0;
        struct isod_word_task task = {(void *)(at - within), NULL, 0, 0, ISOD_AMO_FETCH, bytes == 8 ? 8 : 4};
        value = run_word_task(a, task) >> (8 * within);
        return bytes == 8 ? value : value & (UINT64_MAX >> (64 - 8 * bytes));
    }
    pthread_mutex_lock(&a->lock);
    copy_down(a, (char *)&value, (const char *)word, bytes);
    pthread_mutex_unlock(&a->lock);
    return value;
}

void iso_agent_store(void *word, uint64_t value, unsigned bytes)
{
    struct agent *a = ISO->agent;
    struct isod_word_task task = {word, NULL, value, 0, ISOD_AMO_SET, bytes};
    if (!has_engine(a)) {
        (void)run_word_task(a, task);
        return;
    }
    pthread_mutex_lock(&a->lock);
    copy_up(a, (char *)word, (const char *)&value, bytes); /* little endian */
    pthread_mutex_unlock(&a->lock);
}

/* ---- start and stop ---- */

struct gpu *iso_agent_gpu(void) { return ISO->agent->gpu; }

int iso_agent_start(struct gpu *gpu)
{
    struct agent *a = (struct agent *)calloc(1, sizeof *a);
    void *host = NULL, *for_kernels = NULL;
    if (a == NULL)
        return -ENOMEM;
    pthread_mutex_init(&a->lock, NULL);
    a->gpu = gpu;
    ISO->agent = a;
    int rc = iso_gpu_preload(gpu, isod_word_kernel); /* a first launch may synchronise the device */
    for (int i = 0; rc == 0 && i < STAGES; i++) {
        rc = iso_gpu_stream_create(gpu, true, &a->stages[i].stream);
        if (rc == 0)
            rc = iso_gpu_host_alloc(gpu, STAGE_BYTES, &host, &for_kernels);
        a->stages[i].host = rc == 0 ? (char *)host : NULL;
    }
    if (rc == 0)
        rc = iso_gpu_host_alloc(gpu, ISO_LINE, &host, &for_kernels);
    if (rc != 0) {
        log_error("the streams and pinned memory of the copy agent cannot be made: %s", iso_gpu_error(gpu));
        iso_agent_stop();
        return rc;
    }
    a->old = (uint64_t *)host;
    a->old_for_kernels = (uint64_t *)for_kernels;
    return 0;
}

void iso_agent_stop(void)
{
    struct agent *a = ISO->agent;
    if (a == NULL)
        return;
    ISO->agent = NULL;
    for (int i = 0; i < STAGES; i++) {
        if (a->stages[i].stream != NULL)
            iso_gpu_stream_destroy(a->gpu, a->stages[i].stream);
        if (a->stages[i].host != NULL)
            iso_gpu_host_free(a->gpu, a->stages[i].host);
    }
    if (a->old != NULL)
        iso_gpu_host_free(a->gpu, a->old);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
