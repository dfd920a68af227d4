/* SPDX-License-Identifier: MIT */
/* The CPU as a device: the functions of gpu.h, by mmap, memfd_create and streams that are threads. Memory that peers
 * map is a memfd: its descriptor is the key. All mutable state is in struct gpu, so that several PEs of one process
 * each have a device of their own. */
#include "../gpu.h"

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/memory_file.h"
#include "cpu_fault.h"
#include "cpu_stream.h"
#include "fiber.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define SPARSE_BYTES ((size_t)16 << 30)
#define SHARED_BYTES ((size_t)227 << 10) /* the most that a GPU has: no kernel is refused that some GPU takes */
enum { MOST_BLOCKS = 1024, ENGINES = 2 };
enum area_kind { AREA_CHUNK, AREA_SHARED, AREA_IMPORTED, AREA_OWN, AREA_HOST };
struct area {
    struct area *next;
    char *base;
    size_t len;
    enum area_kind kind;
    int fd; /* AREA_OWN: what export_foreign hands out; else -1 */
};

/* A thread of its own, from the first copy on. */
struct cpu_engine {
    pthread_mutex_t lock; /* one copy at a time, so that waiting for the stream is waiting for it */
    struct cpu_stream *stream;
};

/* What the program has of a kind: any other pointer is none of it. */
struct handed {
    void **at;
    size_t n, room;
};

struct gpu {
    struct gpu_info info;
    struct cpu_order order;
    uint64_t busy; /* atomic: tasks that are not done */
    struct cpu_stream *default_stream;
    struct cpu_pool *pool; /* of graphs */
    struct cpu_engine engines[ENGINES];
    unsigned turn;        /* atomic: which engine is next */
    pthread_mutex_t lock; /* areas, handed, error */
    struct handed streams, graphs;
    struct area *areas;
    char error[256];
};

static size_t cpu_whole_pages(size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (len + page - 1) / page * page;
}

/* Notes the sentence and returns rc. */
static int failed(struct gpu *gpu, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int failed(struct gpu *gpu, int rc, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&gpu->lock);
    vsnprintf(gpu->error, sizeof gpu->error, format, values);
    pthread_mutex_unlock(&gpu->lock);
    va_end(values);
    return rc;
}

const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }

/* ---- the device ---- */

static int64_t env_number(const char *name)
{
    const struct env_row *row = iso_env_rows;
    while (strcmp(row->name, name) != 0)
        row++;
    return strtoll(iso_env_text(row), NULL, 10);
}

static int read_order(struct cpu_order *order, char *why, size_t why_bytes)
{
    int64_t wave = env_number("SHMEM_WAVE");
    order->wave = (unsigned)wave;
    order->seed = (uint64_t)env_number("SHMEM_SEED");
    struct env env;
    if (iso_env_read(&env, why, why_bytes) == 0) { /* else the start of the library has reported it */
        order->timeout_ns = (uint64_t)(env.timeout * 1e9);
        order->gives_up = env.timeout_abort;
    }
    if (wave == 32 || wave == 64)
        return 0;
    snprintf(why, why_bytes, "SHMEM_WAVE is %" PRId64 ", allowed is 32 or 64", wave);
    return -EINVAL;
}

static int cpu_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static void destroy_streams(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    iso_cpu_graph_leave(gpu->default_stream);
    iso_cpu_stream_destroy(gpu->default_stream);
    iso_cpu_pool_destroy(gpu->pool);
    for (int i = 0; i < ENGINES; i++) {
        if (gpu->engines[i].stream != NULL)
            pthread_mutex_destroy(&gpu->engines[i].lock);
        iso_cpu_stream_destroy(gpu->engines[i].stream);
    }
}

int iso_gpu_open(struct gpu **result, int local_rank, const char *choice, char *why, size_t why_bytes)
{
    (void)local_rank; /* all PEs of the node use the one CPU */
    struct cpu_order order = {0};
    char *end;
    long number = strtol(choice, &end, 10);
    if (*end != '\0' || number != 0) {
        snprintf(why, why_bytes, "SHMEM_DEVICE is \"%.40s\", allowed is 0..0: this build's only device is the CPU",
                 choice);
        return -EINVAL;
    }
    int rc = read_order(&order, why, why_bytes);
    if (rc != 0)
        return rc;
    struct gpu *gpu = (struct gpu *)calloc(1, sizeof *gpu);
    if (gpu == NULL)
        goto fail;
    order.busy = &gpu->busy;
    rc = iso_cpu_stream_create(order, &gpu->default_stream);
    if (rc == 0)
        rc = iso_cpu_pool_create(order, &gpu->pool);
    for (int i = 0; rc == 0 && i < ENGINES; i++) {
        rc = iso_cpu_stream_create(order, &gpu->engines[i].stream);
        if (rc == 0)
            pthread_mutex_init(&gpu->engines[i].lock, NULL);
    }
    if (rc != 0)
        goto fail;
    gpu->order = order;
    pthread_mutex_init(&gpu->lock, NULL);
    iso_cpu_faults_watch();
    struct gpu_info *info = &gpu->info;
    info->flavour = "cpu";
    info->lock_calls = "";
    snprintf(info->name, sizeof info->name, "CPU");
    snprintf(info->id, sizeof info->id, "cpu");
    info->n_devices = 1;
    info->multiprocessors = cpu_cores();
    info->wave_size = (int)gpu->order.wave;
    info->shared_bytes = SHARED_BYTES;
    info->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info->can_vmm = info->can_ipc = info->joins_captures = info->polls_foreign = true;
    info->tries_engines = true;
    info->kernels_copy_words = gpu->order.seed != 0;
    info->orders_writes = gpu->order.seed == 0; /* with a seed it promises as little as a device may */
    *result = gpu;
    return 0;
fail:
    destroy_streams(gpu);
    free(gpu);
    snprintf(why, why_bytes, "no memory for the CPU device");
    return -ENOMEM;
}

static void area_unmap(struct area *area)
{
    munmap(area->base, area->len);
    if (area->fd >= 0)
        close(area->fd);
    free(area);
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    destroy_streams(gpu);
    for (struct area *area; (area = gpu->areas) != NULL;) {
        gpu->areas = area->next;
        log_debug("the CPU device is closed with %zu bytes at %p still in use", area->len, (void *)area->base);
        area_unmap(area);
    }
    iso_cpu_faults_leave();
    pthread_mutex_destroy(&gpu->lock);
    free(gpu->streams.at);
    free(gpu->graphs.at);
    free(gpu);
}

const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }

bool iso_gpu_reaches(struct gpu *gpu, const char *id) { return strcmp(gpu->info.id, id) == 0; }

void iso_gpu_survey(char *text, size_t bytes)
{
    snprintf(text, bytes, "the CPU is the device of this build: %d cores; GPUs are not looked for", cpu_cores());
}

/* ---- areas: the memory of this layer ---- */

static int area_add(struct gpu *gpu, char *base, size_t len, enum area_kind kind, int fd)
{
    struct area *area = (struct area *)calloc(1, sizeof *area);
    if (area == NULL)
        return failed(gpu, -ENOMEM, "no memory for the CPU device's tables");
    area->base = base;
    area->len = len;
    area->kind = kind;
    area->fd = fd;
    pthread_mutex_lock(&gpu->lock);
    area->next = gpu->areas;
    gpu->areas = area;
    pthread_mutex_unlock(&gpu->lock);
    return 0;
}

/* Takes the area that begins there off the list; NULL: none. */
static struct area *area_take(struct gpu *gpu, const void *base)
{
    pthread_mutex_lock(&gpu->lock);
    struct area **at = &gpu->areas;
    while (*at != NULL && (*at)->base != base)
        at = &(*at)->next;
    struct area *area = *at;
    if (area != NULL)
        *at = area->next;
    pthread_mutex_unlock(&gpu->lock);
    return area;
}

static bool area_find(struct gpu *gpu, const void *ptr, struct area *copy)
{
    pthread_mutex_lock(&gpu->lock);
    const struct area *area = gpu->areas;
    while (area != NULL && (uintptr_t)ptr - (uintptr_t)area->base >= area->len)
        area = area->next;
    if (area != NULL)
        *copy = *area;
    pthread_mutex_unlock(&gpu->lock);
    return area != NULL;
}

static void area_drop(struct gpu *gpu, const void *base)
{
    struct area *area = base != NULL ? area_take(gpu, base) : NULL;
    if (area != NULL)
        area_unmap(area);
}

enum gpu_pointer iso_gpu_pointer_kind(struct gpu *gpu, const void *ptr)
{
    struct area area;
    if (!area_find(gpu, ptr, &area))
        return GPU_POINTER_HOST;
    return area.kind == AREA_HOST ? GPU_POINTER_PINNED : GPU_POINTER_DEVICE;
}

/* Maps the descriptor at `at`, or anywhere when that is NULL; *base gets where. */
static int map_fd(struct gpu *gpu, char *at, size_t len, int fd, char **base)
{
    void *mapped = mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, 0);
    if (mapped == MAP_FAILED)
        return failed(gpu, -errno, "mmap of %zu bytes of the CPU device's memory: %s", len, strerror(errno));
    if (len >= SPARSE_BYTES)
        (void)madvise(mapped, len, MADV_DONTDUMP); /* mostly holes, which a core dump would visit page by page */
    *base = (char *)mapped;
    return 0;
}

static void unmap(char *base, size_t len, bool keeps_range)
{
    if (keeps_range)
        (void)mmap(base, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else
        (void)munmap(base, len);
}

/* New zeroed memory; its descriptor, or -errno. The area keeps it only for AREA_OWN. */
static int new_memory(struct gpu *gpu, char *at, size_t len, enum area_kind kind, char **base)
{
    char why[200];
    int fd = iso_memory_file_make("isomer-device", 0, len, why, sizeof why);
    if (fd < 0)
        return failed(gpu, fd, "memory of the CPU device: %s", why);
    int rc = map_fd(gpu, at, len, fd, base);
    if (rc == 0) {
        rc = area_add(gpu, *base, len, kind, kind == AREA_OWN ? fd : -1);
        if (rc == 0)
            return fd;
        unmap(*base, len, at != NULL);
    }
    close(fd);
    return rc;
}

static void make_key(struct gpu_key *key, size_t len, int fd)
{
    uint64_t bytes = len;
    memset(key, 0, sizeof *key);
    memcpy(key->bytes, &bytes, sizeof bytes);
    key->fd = fd;
}

/* Maps what the key says and closes its descriptor, whatever happens. */
static int import_memory(struct gpu *gpu, char *at, size_t len, const struct gpu_key *key, char **base)
{
    struct stat stat;
    int rc = 0;
    if (fstat(key->fd, &stat) != 0)
        return failed(gpu, -errno, "a peer's key has no descriptor that can be used: %s", strerror(errno));
    if (stat.st_size < 0 || (uint64_t)stat.st_size < len)
        rc = failed(gpu, -EINVAL, "a peer's memory has %lld bytes, expected are %zu", (long long)stat.st_size, len);
    if (rc == 0)
        rc = map_fd(gpu, at, len, key->fd, base);
    close(key->fd);
    if (rc != 0)
        return rc;
    rc = area_add(gpu, *base, len, AREA_IMPORTED, -1);
    if (rc != 0)
        unmap(*base, len, at != NULL);
    return rc;
}

/* ---- memory that peers map ---- */

size_t iso_gpu_granularity(struct gpu *gpu)
{
    (void)gpu;
    return GRANULARITY;
}

int iso_gpu_reserve(struct gpu *gpu, size_t len, char **base)
{
    void *range = mmap(NULL, len + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return failed(gpu, -errno, "no range of %zu bytes of address space: %s", len, strerror(errno));
    size_t before = (GRANULARITY - (uintptr_t)range % GRANULARITY) % GRANULARITY;
    if (before > 0)
        munmap(range, before);
    *base = (char *)range + before;
    munmap(*base + len, GRANULARITY - before);
    return 0;
}

void iso_gpu_unreserve(struct gpu *gpu, char *base, size_t len)
{
    (void)gpu;
    if (base != NULL)
        munmap(base, len);
}

int iso_gpu_chunk_create(struct gpu *gpu, char *at, size_t len, enum gpu_memory kind, struct gpu_key *key)
{
    (void)kind; /* a CPU keeps all of its memory coherent */
    char *base;
    int fd = new_memory(gpu, at, len, AREA_CHUNK, &base);
    if (fd < 0)
        return fd;
    make_key(key, len, fd);
    return 0;
}

int iso_gpu_chunk_import(struct gpu *gpu, char *at, size_t len, const struct gpu_key *key)
{
    char *base = NULL;
    return import_memory(gpu, at, len, key, &base);
}

void iso_gpu_chunk_release(struct gpu *gpu, char *at, size_t len)
{
    struct area *area = area_take(gpu, at);
    if (area == NULL)
        return;
    unmap(at, len, true);
    free(area);
}

int iso_gpu_shared_create(struct gpu *gpu, size_t len, enum gpu_memory kind, char **base, struct gpu_key *key)
{
    (void)kind;
    int fd = new_memory(gpu, NULL, cpu_whole_pages(len), AREA_SHARED, base);
    if (fd < 0)
        return fd;
    make_key(key, cpu_whole_pages(len), fd);
    return 0;
}

int iso_gpu_shared_import(struct gpu *gpu, const struct gpu_key *key, size_t len, char **base)
{
    return import_memory(gpu, NULL, cpu_whole_pages(len), key, base);
}

void iso_gpu_shared_close(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    area_drop(gpu, base);
}

void iso_gpu_shared_destroy(struct gpu *gpu, char *base, size_t len)
{
    (void)len;
    area_drop(gpu, base);
}

int iso_gpu_export_foreign(struct gpu *gpu, void *ptr, struct gpu_allocation *a)
{
    struct area area;
    if (!area_find(gpu, ptr, &area) || area.kind != AREA_OWN)
        return failed(gpu, -ENOTSUP, "%p is not memory that the CPU device has allocated for the program", ptr);
    int fd = fcntl(area.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return failed(gpu, -errno, "the descriptor of the memory at %p: %s", ptr, strerror(errno));
    a->start = area.base;
    a->len = area.len;
    a->method = GPU_SHARE_IPC;
    make_key(&a->key, area.len, fd);
    return 0;
}

/* ---- memory that network devices reach: they reach it as what it is, host memory ---- */

int iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    (void)at;
    (void)len;
    *fd = -1;
    *offset = 0;
    return failed(gpu, -ENOTSUP, "memory of the CPU device is no dma-buf");
}

void iso_gpu_flush_writes(struct gpu *gpu) { (void)gpu; }

/* ---- memory of this PE alone ---- */

int iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    char *base;
    int fd = new_memory(gpu, NULL, cpu_whole_pages(len), AREA_OWN, &base);
    if (fd < 0)
        return fd;
    *ptr = base;
    return 0;
}

void iso_gpu_free(struct gpu *gpu, void *ptr) { area_drop(gpu, ptr); }

int iso_gpu_host_alloc(struct gpu *gpu, size_t len, void **host, void **device)
{
    len = cpu_whole_pages(len);
    void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return failed(gpu, -errno, "mmap of %zu bytes of host memory: %s", len, strerror(errno));
    int rc = area_add(gpu, (char *)base, len, AREA_HOST, -1);
    if (rc != 0) {
        munmap(base, len);
        return rc;
    }
    *host = *device = base;
    return 0;
}

void iso_gpu_host_free(struct gpu *gpu, void *host) { area_drop(gpu, host); }

/* ---- streams ---- */

static int handed_add(struct gpu *gpu, struct handed *all, void *one)
{
    pthread_mutex_lock(&gpu->lock);
    if (all->n == all->room) {
        size_t room = all->room * 2 + 8;
        void **at = (void **)realloc(all->at, room * sizeof *at);
        if (at != NULL) {
            all->at = at;
            all->room = room;
        }
    }
    const bool fits = all->n < all->room;
    if (fits)
        all->at[all->n++] = one;
    pthread_mutex_unlock(&gpu->lock);
    return fits ? 0 : -ENOMEM;
}
/* NULL: it is not among them; takes: it is not from now on. */
static void *handed_find(struct gpu *gpu, struct handed *all, void *one, bool takes)
{
    size_t i = 0;
    pthread_mutex_lock(&gpu->lock);
    while (i < all->n && all->at[i] != one)
        i++;
    if (i == all->n)
        one = NULL;
    else if (takes)
        all->at[i] = all->at[--all->n];
    pthread_mutex_unlock(&gpu->lock);
    return one;
}

/* NULL, of which all functions of streams say -EBADF: there is none. */
static struct cpu_stream *cpu_stream_of(struct gpu *gpu, gpu_stream stream)
{
    return stream != NULL ? (struct cpu_stream *)handed_find(gpu, &gpu->streams, stream, false) : gpu->default_stream;
}

/* The sentence of a call on a stream that returned rc. */
static int streamed(struct gpu *gpu, int rc, const char *what)
{
    if (rc == -EBUSY)
        return failed(gpu, rc, "%s is not possible: a stream of it is being captured into another graph", what);
    if (rc == -EBADF)
        return failed(gpu, rc, "%s is not possible: a stream or graph of it is not there: destroyed, or never made",
                      what);
    return rc == 0 ? 0 : failed(gpu, rc, "%s: %s", what, strerror(-rc));
}

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    (void)high_priority; /* every stream has a thread of its own */
    struct cpu_stream *s = NULL;
    int rc = iso_cpu_stream_create(gpu->order, &s);
    if (rc == 0 && (rc = handed_add(gpu, &gpu->streams, s)) != 0) {
        iso_cpu_stream_destroy(s);
        s = NULL;
    }
    *stream = s;
    return streamed(gpu, rc, "a new stream");
}

int iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    struct cpu_stream *s = (struct cpu_stream *)handed_find(gpu, &gpu->streams, stream, true);
    if (s == NULL)
        return stream == NULL ? 0 : streamed(gpu, -EBADF, "destroying a stream");
    iso_cpu_graph_leave(s);
    iso_cpu_stream_destroy(s);
    return 0;
}

int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    int rc = iso_cpu_stream_wait(cpu_stream_of(gpu, stream));
    if (rc == -EBUSY)
        return failed(gpu, rc, "waiting for a stream is not possible while it is being captured");
    return streamed(gpu, rc, "waiting for a stream");
}

int iso_gpu_wait_all(struct gpu *gpu)
{
    const struct timespec nap = {0, 20000};
    while (__atomic_load_n(&gpu->busy, __ATOMIC_ACQUIRE) != 0) /* pairs with worker_main of cpu_stream.c */
        (void)nanosleep(&nap, NULL);
    return 0;
}

int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier)
{
    return streamed(gpu, iso_cpu_graph_after(cpu_stream_of(gpu, later), cpu_stream_of(gpu, earlier)),
                    "waiting for another stream");
}

bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream)
{
    return iso_cpu_stream_is_capturing(cpu_stream_of(gpu, stream));
}

int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream)
{
    return streamed(gpu, iso_cpu_stream_copy(cpu_stream_of(gpu, stream), dest, source, len), "a copy");
}

/* A CPU loses none. It asks to be asked, for the tests of its callers. */
int iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len)
{
    (void)gpu, (void)theirs, (void)ours, (void)len;
    return 0;
}

int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream)
{
    return streamed(gpu, iso_cpu_stream_fill(cpu_stream_of(gpu, stream), dest, byte, len), "a fill");
}

bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream)
{
    return !iso_cpu_stream_is_capturing(cpu_stream_of(gpu, stream));
}

int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream)
{
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++)
        rc = iso_cpu_stream_word(cpu_stream_of(gpu, stream), &words[i]);
    return streamed(gpu, rc, "a word of a stream");
}

int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream)
{
    return streamed(gpu, iso_cpu_graph_begin(cpu_stream_of(gpu, stream)), "beginning a capture");
}

int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph)
{
    struct cpu_graph *g = NULL;
    int rc = iso_cpu_graph_end(gpu->pool, cpu_stream_of(gpu, stream), &g);
    if (rc == 0 && (rc = handed_add(gpu, &gpu->graphs, g)) != 0) {
        iso_cpu_graph_destroy(g);
        g = NULL;
    }
    *graph = g;
    if (rc == -EINVAL)
        return failed(gpu, rc, "ending a capture: this stream has not begun one");
    if (rc == -ECHILD)
        return failed(gpu, rc,
                      "ending a capture: this stream does not wait for all work of the streams that joined it");
    return streamed(gpu, rc, "ending a capture");
}

int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream)
{
    struct cpu_graph *g = (struct cpu_graph *)handed_find(gpu, &gpu->graphs, graph, false);
    return streamed(gpu, iso_cpu_graph_launch(g, cpu_stream_of(gpu, stream)), "a launch of a graph");
}

int iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph)
{
    struct cpu_graph *g = (struct cpu_graph *)handed_find(gpu, &gpu->graphs, graph, true);
    if (g == NULL && graph != NULL)
        return streamed(gpu, -EBADF, "destroying a graph");
    iso_cpu_graph_destroy(g);
    return 0;
}

/* ---- marks ---- */

int iso_gpu_mark_create(struct gpu *gpu, gpu_mark *mark)
{
    *mark = calloc(1, sizeof(struct cpu_mark));
    return *mark != NULL ? 0 : failed(gpu, -ENOMEM, "no memory for a mark");
}

void iso_gpu_mark_destroy(struct gpu *gpu, gpu_mark mark)
{
    (void)gpu;
    free(mark);
}

int iso_gpu_mark_set(struct gpu *gpu, gpu_mark mark, gpu_stream stream)
{
    struct cpu_stream *s = cpu_stream_of(gpu, stream);
    if (iso_cpu_stream_is_capturing(s)) /* a graph would set it at each launch, also when it is gone */
        return failed(gpu, -EBUSY, "a mark is not possible: the stream is being captured");
    return streamed(gpu, iso_cpu_stream_mark(s, (struct cpu_mark *)mark), "a mark");
}

int iso_gpu_mark_time(struct gpu *gpu, gpu_mark since, gpu_mark mark, int64_t *ns)
{
    const struct cpu_mark *from = (const struct cpu_mark *)since, *to = (const struct cpu_mark *)mark;
    (void)gpu;
    if (__atomic_load_n(&to->reached, __ATOMIC_ACQUIRE) != to->set) /* pairs with run_task of cpu_stream.c */
        return -EBUSY;
    *ns = (int64_t)(to->ns - from->ns);
    return 0;
}

/* ---- copy engines ---- */

int iso_gpu_copy_by_engine(struct gpu *gpu, void *dest, const void *source, size_t len)
{
    struct cpu_engine *e = &gpu->engines[__atomic_fetch_add(&gpu->turn, 1, __ATOMIC_RELAXED) % ENGINES];
    pthread_mutex_lock(&e->lock);
    int rc = iso_cpu_stream_copy(e->stream, dest, source, len);
    if (rc == 0)
        rc = iso_cpu_stream_wait(e->stream);
    pthread_mutex_unlock(&e->lock);
    return streamed(gpu, rc, "a copy by a copy engine");
}

/* ---- kernels ---- */

static int check_block(struct gpu *gpu, uint64_t block)
{
    if (block >= 1 && block <= FIBER_MOST_THREADS)
        return 0;
    return failed(gpu, -EINVAL, "a block of %llu threads, allowed are 1..%d", (unsigned long long)block,
                  FIBER_MOST_THREADS);
}

/* A kernel has one struct here, so of arguments there is one. */
int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    struct gpu_launch it = *launch;
    uint64_t blocks = iso_gpu_count(it.grid), threads = iso_gpu_count(it.block);
    int rc = check_block(gpu, threads);
    if (rc != 0)
        return rc;
    if (it.kernel == NULL)
        return failed(gpu, -EINVAL, "a launch without a kernel");
    if (blocks < 1 || blocks > FIBER_MOST_OF_GRID / threads)
        return failed(gpu, -EINVAL, "a grid of %llu blocks of %llu threads, allowed are 1..%llu blocks",
                      (unsigned long long)blocks, (unsigned long long)threads,
                      (unsigned long long)(FIBER_MOST_OF_GRID / threads));
    size_t struct_bytes = ((fiber_kernel)it.kernel)(NULL);
    if (it.arguments != NULL) {
        it.args = it.arguments[0];
        it.args_bytes = struct_bytes;
    }
    if (it.args_bytes != struct_bytes)
        return failed(gpu, -EINVAL, "args_bytes is %zu, but the struct that the kernel takes has %zu bytes",
                      it.args_bytes, struct_bytes);
    return streamed(gpu, iso_cpu_stream_launch(cpu_stream_of(gpu, stream), &it), "a launch");
}

int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel)
{
    return kernel != NULL ? 0 : failed(gpu, -EINVAL, "no kernel to load");
}

int iso_gpu_module_write(struct gpu *gpu, void *module, const char *name, const void *value, size_t len)
{
    void *at = dlsym(module, name);
    if (at == NULL)
        return failed(gpu, -ENOENT, "%s", dlerror());
    memcpy(at, value, len);
    return 0;
}

int iso_gpu_library_module(struct gpu *gpu, void *library, void **module)
{
    (void)gpu;
    *module = library;
    return 0;
}

int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks)
{
    (void)kernel;
    (void)shared_bytes;
    int rc = check_block(gpu, block);
    if (rc != 0)
        return rc;
    int room = (int)(iso_fibers_most_waiting() / block);
    *blocks = room < MOST_BLOCKS ? room : MOST_BLOCKS;
    return 0;
}
