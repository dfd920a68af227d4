/* SPDX-License-Identifier: MIT */
/* Queues: a ring of packets, and one thread that processes them, strictly one after the other. It holds no lock
 * while a kernel runs, since a kernel may wait for one of another queue, or of another process. */
#include "gfx9.h"
#include "hsa_own.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACKET = 64, MOST_PACKETS = 1 << 17, BUSY_BEFORE_YIELD = 16, WAITS_BEFORE_NAP = 4, NAP_US = 50 };

struct queue {
    amd_queue_t amd; /* first: what the program and kernels see */
    pthread_t thread;
    atomic_bool stop;
    void (*failed)(hsa_status_t status, hsa_queue_t *queue, void *data);
    void *data;
};

static _Atomic uint64_t last_id;

static struct queue *queue_of(const hsa_queue_t *queue) { return (struct queue *)(uintptr_t)queue; }

static void fail(struct queue *q, hsa_status_t status, const char *why)
{
    fprintf(stderr, "libhsa-runtime64 without a GPU: %s\n", why);
    if (q->failed == NULL)
        abort();
    q->failed(status, &q->amd.hsa_queue, q->data);
    atomic_store(&q->stop, true); /* nothing behind it is processed */
}

/* ---- packets: each returns whether it is done, and not given up ---- */

/* A nap after some waits in a row, since what it waits for needs the processor. */
static void give_way(unsigned *busy, unsigned *waits, enum gfx9_progress progress)
{
    *waits = progress == GFX9_WAITING ? *waits + 1 : 0;
    if (*waits > WAITS_BEFORE_NAP)
        usleep(NAP_US);
    else if (*waits > 0 || ++*busy % BUSY_BEFORE_YIELD == 0)
        sched_yield();
}

static enum gfx9_progress run(struct queue *q, struct gfx9_run *kernel)
{
    enum gfx9_progress progress = GFX9_BUSY;
    unsigned busy = 0, waits = 0;
    while (progress == GFX9_BUSY || progress == GFX9_WAITING) {
        if (atomic_load_explicit(&q->stop, memory_order_relaxed))
            break;
        progress = gfx9_go_on(kernel);
        give_way(&busy, &waits, progress);
    }
    return progress;
}

/* The arguments of HIP 5's own kernel that fills memory: one of the four pointers is there, and says how wide an
 * element is. Thread i of `threads` writes the pattern to elements offset + i * elements and after. */
struct fill {
    void *bytes, *shorts, *words, *longs;
    const char *pattern;
    uint32_t elements;
    uint64_t offset, threads;
};

/* Not by the interpreter, which takes seconds for a heap: that kernel is not what is tested. GFX9_FILLS=1: by it. */
static bool fill(const hsa_kernel_dispatch_packet_t *packet)
{
    const struct fill *a = packet->kernarg_address;
    if (!own_is_fill(packet->kernel_object) || getenv("GFX9_FILLS") != NULL)
        return false;
    size_t width = a->longs != NULL ? 8 : a->words != NULL ? 4 : a->shorts != NULL ? 2 : 1;
    char *to = a->longs != NULL ? a->longs : a->words != NULL ? a->words : a->shorts != NULL ? a->shorts : a->bytes;
    size_t len = a->elements * width, done = len;
    if (to == NULL || len == 0 || a->threads == 0)
        return false;
    to += a->offset * width;
    memcpy(to, a->pattern, len);
    for (size_t all = len * a->threads; done < all; done *= 2)
        memcpy(to + done, to, all - done < done ? all - done : done);
    return true;
}

static bool dispatch(struct queue *q, const hsa_kernel_dispatch_packet_t *packet)
{
    const char *isa = getenv("GFX9_ISA");
    struct gfx9_dispatch d = {packet, &q->amd, isa != NULL ? isa : "gfx90a", q->amd.read_dispatch_id};
    uint64_t start = own_now();
    if (fill(packet)) {
        if (packet->completion_signal.handle != 0)
            own_signal_times(packet->completion_signal, start, own_now());
        return true;
    }
    struct gfx9_run *kernel = gfx9_start(&d);
    if (kernel == NULL) {
        fail(q, HSA_STATUS_ERROR_OUT_OF_RESOURCES, "no memory for the state of a kernel");
        return false;
    }
    enum gfx9_progress progress = run(q, kernel);
    if (progress == GFX9_FAILED)
        fail(q, HSA_STATUS_ERROR_EXCEPTION, gfx9_error(kernel));
    gfx9_end(kernel);
    if (packet->completion_signal.handle != 0)
        own_signal_times(packet->completion_signal, start, own_now());
    return progress == GFX9_ENDED;
}

static bool wait_while_running(struct queue *q, hsa_signal_t signal, hsa_signal_condition_t condition, int64_t compare)
{
    while (!own_holds(condition, own_signal_wait(signal, condition, compare, 10 * MS), compare))
        if (atomic_load(&q->stop))
            return false;
    return true;
}

/* Errors (negative values) count as done: a failed copy must not block what is behind it. */
static bool barrier_and(struct queue *q, const hsa_barrier_and_packet_t *packet)
{
    for (int i = 0; i < 5; i++)
        if (packet->dep_signal[i].handle != 0 &&
            !wait_while_running(q, packet->dep_signal[i], HSA_SIGNAL_CONDITION_LT, 1))
            return false;
    return true;
}

static bool barrier_or(struct queue *q, const hsa_barrier_or_packet_t *packet)
{
    for (uint32_t seen = own_events();; seen = own_events()) {
        int n = 0;
        for (int i = 0; i < 5; i++) {
            if (packet->dep_signal[i].handle == 0)
                continue;
            n++;
            if (own_signal_load(packet->dep_signal[i]) <= 0)
                return true;
        }
        if (n == 0 || atomic_load(&q->stop))
            return n == 0;
        own_events_sleep(seen, MS);
    }
}

static bool barrier_value(struct queue *q, const hsa_amd_barrier_value_packet_t *packet)
{
    if (packet->header.AmdFormat != HSA_AMD_PACKET_TYPE_BARRIER_VALUE) {
        fail(q, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "a vendor's packet of an unknown format");
        return false;
    }
    if (packet->signal.handle == 0)
        return true;
    for (uint32_t seen = own_events();; seen = own_events()) {
        int64_t value = own_signal_load(packet->signal) & packet->mask;
        if (own_holds(packet->cond, value, packet->value))
            return true;
        if (atomic_load(&q->stop))
            return false;
        own_events_sleep(seen, MS);
    }
}

/* The completion signal is at the same place in all of them. */
static bool process(struct queue *q, const void *packet, unsigned type)
{
    switch (type) {
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        return barrier_value(q, packet);
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        return dispatch(q, packet);
    case HSA_PACKET_TYPE_BARRIER_AND:
        return barrier_and(q, packet);
    case HSA_PACKET_TYPE_BARRIER_OR:
        return barrier_or(q, packet);
    }
    fail(q, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "a packet of a type that is not supported");
    return false;
}

_Static_assert(offsetof(hsa_kernel_dispatch_packet_t, completion_signal) ==
                       offsetof(hsa_amd_barrier_value_packet_t, completion_signal) &&
                   offsetof(hsa_barrier_and_packet_t, completion_signal) ==
                       offsetof(hsa_amd_barrier_value_packet_t, completion_signal),
               "process_next takes any of them");

/* ---- the thread ---- */

/* False: there is none yet. The signal comes last, since who waits for it may destroy the queue. */
static bool process_next(struct queue *q)
{
    uint64_t index = q->amd.read_dispatch_id;
    char *packet = (char *)q->amd.hsa_queue.base_address + index % q->amd.hsa_queue.size * PACKET;
    uint16_t header = __atomic_load_n((uint16_t *)packet, __ATOMIC_ACQUIRE);
    unsigned type = header >> HSA_PACKET_HEADER_TYPE & ((1 << HSA_PACKET_HEADER_WIDTH_TYPE) - 1);
    if (type == HSA_PACKET_TYPE_INVALID || index >= __atomic_load_n(&q->amd.write_dispatch_id, __ATOMIC_ACQUIRE))
        return false;
    if (!process(q, packet, type))
        return true;
    hsa_signal_t done = ((hsa_amd_barrier_value_packet_t *)packet)->completion_signal;
    __atomic_store_n((uint16_t *)packet, HSA_PACKET_TYPE_INVALID << HSA_PACKET_HEADER_TYPE, __ATOMIC_RELEASE);
    __atomic_store_n(&q->amd.read_dispatch_id, index + 1, __ATOMIC_RELEASE);
    if (done.handle != 0)
        own_signal_subtract(done, 1);
    return true;
}

static void *process_all(void *argument)
{
    struct queue *q = argument;
    hsa_signal_t doorbell = q->amd.hsa_queue.doorbell_signal;
    while (!atomic_load(&q->stop)) {
        int64_t seen = own_signal_load(doorbell);
        if (!process_next(q))
            own_signal_wait(doorbell, HSA_SIGNAL_CONDITION_NE, seen, 20 * MS);
    }
    return NULL;
}

/* ---- life ---- */

static bool prepare(struct queue *q, uint32_t size, hsa_queue_type32_t type)
{
    hsa_queue_t *queue = &q->amd.hsa_queue;
    queue->type = type;
    queue->features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    queue->size = size;
    queue->id = atomic_fetch_add(&last_id, 1) + 1;
    q->amd.read_dispatch_id_field_base_byte_offset = offsetof(amd_queue_t, read_dispatch_id);
    q->amd.queue_properties = AMD_QUEUE_PROPERTIES_IS_PTR64 | AMD_QUEUE_PROPERTIES_ENABLE_PROFILING;
    queue->base_address = aligned_alloc(PAGE, (size_t)size * PACKET < PAGE ? PAGE : (size_t)size * PACKET);
    if (queue->base_address == NULL)
        return false;
    memset(queue->base_address, 0, (size_t)size * PACKET);
    for (uint32_t i = 0; i < size; i++)
        *(uint16_t *)((char *)queue->base_address + i * PACKET) = HSA_PACKET_TYPE_INVALID << HSA_PACKET_HEADER_TYPE;
    return hsa_signal_create(-1, 0, NULL, &queue->doorbell_signal) == HSA_STATUS_SUCCESS;
}

static void release(struct queue *q)
{
    if (q->amd.hsa_queue.doorbell_signal.handle != 0)
        hsa_signal_destroy(q->amd.hsa_queue.doorbell_signal);
    free(q->amd.hsa_queue.base_address);
    free(q);
}

hsa_status_t hsa_queue_create(hsa_agent_t handle, uint32_t size, hsa_queue_type32_t type,
                              void (*failed)(hsa_status_t status, hsa_queue_t *source, void *data), void *data,
                              uint32_t private_size, uint32_t group_size, hsa_queue_t **queue)
{
    const struct agent *agent = own_agent(handle);
    (void)private_size; /* a kernel gets what its descriptor says */
    (void)group_size;
    if (agent == NULL || agent->kind != HSA_DEVICE_TYPE_GPU)
        return agent == NULL ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
    if (queue == NULL || size == 0 || (size & (size - 1)) != 0 || size > MOST_PACKETS || type > 2)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct queue *q = aligned_alloc(64, sizeof(*q));
    if (q == NULL)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    memset(q, 0, sizeof(*q));
    q->failed = failed;
    q->data = data;
    if (!prepare(q, size, type) || pthread_create(&q->thread, NULL, process_all, q) != 0) {
        release(q);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *queue = &q->amd.hsa_queue;
    return HSA_STATUS_SUCCESS;
}

/* Like the hardware, it does not wait for what is still in the queue. */
hsa_status_t hsa_queue_destroy(hsa_queue_t *queue)
{
    if (queue == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct queue *q = queue_of(queue);
    atomic_store(&q->stop, true);
    hsa_signal_store_relaxed(queue->doorbell_signal, INT64_MIN);
    if (pthread_equal(pthread_self(), q->thread)) {
        pthread_detach(q->thread); /* called by the queue's error callback: the thread still needs the struct */
        return HSA_STATUS_SUCCESS;
    }
    pthread_join(q->thread, NULL);
    release(q);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_queue_inactivate(hsa_queue_t *queue)
{
    if (queue == NULL)
        return HSA_STATUS_ERROR_INVALID_QUEUE;
    atomic_store(&queue_of(queue)->stop, true);
    return HSA_STATUS_SUCCESS;
}

/* Threads have no priorities here, and the interpreter no units that could be masked. */
hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t *queue, hsa_amd_queue_priority_t priority)
{
    (void)priority;
    return queue != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_QUEUE;
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t *queue, uint32_t n, const uint32_t *mask)
{
    (void)n;
    (void)mask;
    return queue != NULL ? HSA_STATUS_ERROR : HSA_STATUS_ERROR_INVALID_QUEUE;
}

/* ---- indices: whatever order is asked for, they are sequentially consistent ---- */

#define LOAD_INDEX(which, order)                                                             \
    uint64_t hsa_queue_load_##which##_index_##order(const hsa_queue_t *queue)                \
    {                                                                                        \
        return __atomic_load_n(&queue_of(queue)->amd.which##_dispatch_id, __ATOMIC_SEQ_CST); \
    }
#define STORE_INDEX(which, order)                                                             \
    void hsa_queue_store_##which##_index_##order(const hsa_queue_t *queue, uint64_t value)    \
    {                                                                                         \
        __atomic_store_n(&queue_of(queue)->amd.which##_dispatch_id, value, __ATOMIC_SEQ_CST); \
    }
#define ADD_INDEX(order)                                                                             \
    uint64_t hsa_queue_add_write_index_##order(const hsa_queue_t *queue, uint64_t value)             \
    {                                                                                                \
        return __atomic_fetch_add(&queue_of(queue)->amd.write_dispatch_id, value, __ATOMIC_SEQ_CST); \
    }
#define CAS_INDEX(order)                                                                                    \
    uint64_t hsa_queue_cas_write_index_##order(const hsa_queue_t *queue, uint64_t expected, uint64_t value) \
    {                                                                                                       \
        __atomic_compare_exchange_n(&queue_of(queue)->amd.write_dispatch_id, &expected, value, false,       \
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                    \
        return expected;                                                                                    \
    }
#define LOADS(order) LOAD_INDEX(read, order) LOAD_INDEX(write, order)
#define STORES(order) STORE_INDEX(read, order) STORE_INDEX(write, order)
#define CHANGES(order) ADD_INDEX(order) CAS_INDEX(order)
LOADS(relaxed)
LOADS(acquire)
LOADS(scacquire)
STORES(relaxed)
STORES(release)
STORES(screlease)
CHANGES(relaxed)
CHANGES(acquire)
CHANGES(scacquire)
CHANGES(release)
CHANGES(screlease)
CHANGES(acq_rel)
CHANGES(scacq_screl)
