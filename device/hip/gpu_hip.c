/* SPDX-License-Identifier: MIT */
/* AMD GPUs: the device, its kernels, streams, graphs and the copies in them; device/gpu.h over libamdhip64. All files
 * of the flavour compile with the headers of HIP 5.2 and run with HIP 5.2 to 7: newer features are numbers, tried at
 * run time, and each has a way without it. Waits poll and sleep, because a spinning host thread takes the core from the
 * threads that make the device go on. HIP 7 gives a capture up when its stream is queried, so captured streams are
 * never queried. Includes gpu_hip.h. Called by shmem/, coll/, gpu_hip_*.c. */
#include "gpu_hip.h"

#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIRST_TO_COPY_WORDS_BY_ENGINES 70100000
#define FIRST_TO_LOSE_COPIES 70000000
#define FIRST_TO_END_JOINED_CAPTURES 50600000 /* of hipRuntimeGetVersion: 5.6, the oldest that is known to */

#define WITHOUT_COMPUTE_UNITS 1024 /* hipMemcpyDeviceToDeviceNoCU of HIP 6: by a copy engine */
#define STAGE_BYTES ((size_t)256 << 10)
#define POLLS_BEFORE_SLEEP 200

/* ---- failures ---- */

int iso_hip_result(struct gpu *gpu, const char *call, hipError_t e)
{
    if (e == hipSuccess)
        return 0;
    (void)hipGetLastError(); /* HIP would report it again, by a call that it does not concern */
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof(gpu->error), "%s: %s (%s)", call, hipGetErrorName(e), hipGetErrorString(e));
    pthread_mutex_unlock(&gpu->lock);
    switch (e) {
    case hipErrorOutOfMemory:
        return -ENOMEM;
    case hipErrorInvalidValue:
        return -EINVAL;
    case hipErrorNotSupported:
        return -ENOTSUP;
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
        return -ENODEV;
    default:
        return -EIO;
    }
}

int iso_hip_refuse(struct gpu *gpu, int status, const char *sentence)
{
    pthread_mutex_lock(&gpu->lock);
    snprintf(gpu->error, sizeof(gpu->error), "%s", sentence);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* ---- before and after a call ---- */

int iso_hip_enter(const struct gpu *gpu)
{
    int before = -1;
    if (hipGetDevice(&before) == hipSuccess && before == gpu->info.device)
        return -1;
    (void)hipSetDevice(gpu->info.device);
    return before;
}
void iso_hip_give_back(const int *before)
{
    if (*before >= 0)
        (void)hipSetDevice(*before);
}

bool iso_hip_is_off(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && strcmp(text, "0") == 0;
}

hipStreamCaptureMode iso_hip_relax(void)
{
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    (void)hipThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
void iso_hip_restore(hipStreamCaptureMode mode) { (void)hipThreadExchangeStreamCaptureMode(&mode); }

/* ---- kernels ---- */

/* The address by which clang's host pass registers a kernel; C has no conversion for it. */
static const void *address_of(gpu_kernel kernel)
{
    const void *address;
    memcpy(&address, &kernel, sizeof(address));
    return address;
}

static dim3 hip_dim_of(struct gpu_dim d)
{
    dim3 dim = {d.x, d.y != 0 ? d.y : 1, d.z != 0 ? d.z : 1};
    return dim;
}

int iso_gpu_launch(struct gpu *gpu, const struct gpu_launch *launch, gpu_stream stream)
{
    void *argument = (void *)(uintptr_t)launch->args; /* HIP copies the arguments and does not write them */
    void **arguments = launch->arguments != NULL ? (void **)(uintptr_t)launch->arguments : &argument;
    const void *kernel = address_of(launch->kernel);
    const dim3 grid = hip_dim_of(launch->grid), block = hip_dim_of(launch->block);
    iso_hip_use(gpu);
    if (launch->cooperative)
        return iso_hip_result(gpu, "hipLaunchCooperativeKernel",
                              hipLaunchCooperativeKernel(kernel, grid, block, arguments, (unsigned)launch->shared_bytes,
                                                         (hipStream_t)stream));
    return iso_hip_result(gpu, "hipLaunchKernel",
                          hipLaunchKernel(kernel, grid, block, arguments, launch->shared_bytes, (hipStream_t)stream));
}

int iso_gpu_preload(struct gpu *gpu, gpu_kernel kernel)
{
    struct hipFuncAttributes attributes;
    char sentence[240];
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipFuncGetAttributes", hipFuncGetAttributes(&attributes, address_of(kernel)));
    if (status == 0)
        return 0;
    snprintf(sentence, sizeof(sentence),
             "%.110s; this build has kernels for " ISO_HIP_ARCH
             ": for another device (rocminfo names it) configure with "
             "-DISO_HIP_ARCH",
             gpu->error);
    return iso_hip_refuse(gpu, status, sentence);
}

int iso_gpu_module_write(struct gpu *gpu, void *module, const char *name, const void *value, size_t len)
{
    hipDeviceptr_t at = NULL;
    size_t bytes = 0;
    iso_hip_use(gpu);
    if (iso_hip_result(gpu, "hipModuleGetGlobal", hipModuleGetGlobal(&at, &bytes, (hipModule_t)module, name)) != 0)
        return -ENOENT;
    if (bytes != len)
        return iso_hip_refuse(gpu, -ENOENT, "hipModuleGetGlobal: the variable has another size");
    int status = iso_gpu_copy(gpu, at, value, len, gpu->stream);
    return status == 0 ? iso_gpu_stream_wait(gpu, gpu->stream) : status;
}

int iso_gpu_library_module(struct gpu *gpu, void *library, void **module)
{
    (void)library;
    *module = NULL;
    return iso_hip_refuse(gpu, -ENOTSUP, "libraries are CUDA's; HIP has modules");
}

int iso_gpu_max_blocks(struct gpu *gpu, gpu_kernel kernel, unsigned block, size_t shared_bytes, int *blocks)
{
    int each = 0;
    iso_hip_use(gpu);
    int status = iso_hip_result(
        gpu, "hipOccupancyMaxActiveBlocksPerMultiprocessor",
        hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, address_of(kernel), (int)block, shared_bytes));
    *blocks = status == 0 ? each * gpu->info.multiprocessors : 0;
    return status;
}

/* ---- streams ---- */

/* Polls, then sleeps between polls: a spinning host thread takes the core from threads that drive the device. */
static hipError_t wait_stream(hipStream_t stream)
{
    struct timespec nap = {0, 20000};
    hipStreamCaptureMode mode = iso_hip_relax();
    hipError_t e = hipStreamQuery(stream);
    for (unsigned polls = 0; e == hipErrorNotReady; polls++) {
        if (polls < POLLS_BEFORE_SLEEP)
            sched_yield();
        else
            nanosleep(&nap, NULL);
        e = hipStreamQuery(stream);
    }
    iso_hip_restore(mode);
    return e;
}

struct made_stream {
    struct made_stream *next;
    hipStream_t stream;
};

static void forget_stream(struct gpu *gpu, hipStream_t stream)
{
    struct made_stream **at = &gpu->streams, *gone;
    pthread_mutex_lock(&gpu->lock);
    while (*at != NULL && (*at)->stream != stream)
        at = &(*at)->next;
    gone = *at;
    if (gone != NULL)
        *at = gone->next;
    pthread_mutex_unlock(&gpu->lock);
    free(gone);
}

/* HIP 7 gives a capture up when its stream is queried. Therefore a captured stream is not, and *captures says that
 * there is one. */
static bool made_are_idle(struct gpu *gpu, bool *captures)
{
    bool idle = true;
    *captures = false;
    pthread_mutex_lock(&gpu->lock);
    for (struct made_stream *made = gpu->streams; made != NULL && idle; made = made->next) {
        bool captured = iso_gpu_stream_is_capturing(gpu, made->stream);
        *captures = *captures || captured;
        idle = captured || hipStreamQuery(made->stream) != hipErrorNotReady;
    }
    pthread_mutex_unlock(&gpu->lock);
    return idle && (*captures || hipStreamQuery(NULL) != hipErrorNotReady);
}

bool iso_hip_settle(struct gpu *gpu)
{
    const struct timespec nap = {0, 20000};
    bool captures;
    hipStreamCaptureMode mode = iso_hip_relax();
    while (!made_are_idle(gpu, &captures))
        nanosleep(&nap, NULL);
    (void)hipGetLastError();
    iso_hip_restore(mode);
    return captures;
}

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    int least = 0, greatest = 0;
    hipStream_t made = NULL;
    iso_hip_use(gpu);
    if (high_priority && hipDeviceGetStreamPriorityRange(&least, &greatest) != hipSuccess)
        greatest = 0;
    int status = iso_hip_result(gpu, "hipStreamCreateWithPriority",
                                hipStreamCreateWithPriority(&made, hipStreamNonBlocking, high_priority ? greatest : 0));
    struct made_stream *record = status == 0 ? (struct made_stream *)malloc(sizeof *record) : NULL;
    if (record != NULL) {
        record->stream = made;
        pthread_mutex_lock(&gpu->lock);
        record->next = gpu->streams;
        gpu->streams = record;
        pthread_mutex_unlock(&gpu->lock);
    } else if (status == 0) {
        (void)hipStreamDestroy(made);
        made = NULL;
        status = iso_hip_refuse(gpu, -ENOMEM, "no host memory left for the record of a stream");
    }
    *stream = made;
    return status;
}

/* HIP 5 would wait for the stream while it holds its lock, as iso_hip_settle says. */
int iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    if (stream == NULL)
        return 0;
    iso_hip_use(gpu);
    forget_stream(gpu, (hipStream_t)stream);
    (void)iso_gpu_stream_wait(gpu, stream);
    return iso_hip_result(gpu, "hipStreamDestroy", hipStreamDestroy((hipStream_t)stream));
}

int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    iso_hip_use(gpu);
    if (iso_gpu_stream_is_capturing(gpu, stream)) /* HIP 7 would give the capture up */
        return iso_hip_refuse(gpu, -EBUSY, "the stream is being captured: its work runs when the graph is launched");
    return iso_hip_result(gpu, "hipStreamQuery", wait_stream((hipStream_t)stream));
}

/* The second wait is for streams that the program has made by HIP. HIP 7 gives a capture up when the device is
 * synchronised. */
int iso_gpu_wait_all(struct gpu *gpu)
{
    iso_hip_use(gpu);
    hipStreamCaptureMode mode = iso_hip_relax();
    hipError_t e = iso_hip_settle(gpu) ? hipSuccess : hipDeviceSynchronize();
    iso_hip_restore(mode);
    return iso_hip_result(gpu, "hipDeviceSynchronize", e);
}

/* The last captured nodes of a stream: its next node comes behind them. */
struct captured {
    const hipGraphNode_t *nodes;
    size_t n;
};

static hipError_t last_captured(hipStream_t stream, struct captured *last)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    unsigned long long id = 0;
    hipGraph_t graph = NULL;
    last->nodes = NULL;
    last->n = 0;
    return hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &last->nodes, &last->n);
}

static bool has_node(const struct captured *last, hipGraphNode_t node)
{
    for (size_t i = 0; i < last->n; i++)
        if (last->nodes[i] == node)
            return true;
    return false;
}

static int after_by_event(struct gpu *gpu, hipStream_t later, hipStream_t earlier)
{
    hipEvent_t event;
    int status = iso_hip_result(gpu, "hipEventCreateWithFlags", hipEventCreateWithFlags(&event, hipEventDisableTiming));
    if (status != 0)
        return status;
    status = iso_hip_result(gpu, "hipEventRecord", hipEventRecord(event, earlier));
    if (status == 0)
        status = iso_hip_result(gpu, "hipStreamWaitEvent", hipStreamWaitEvent(later, event, 0));
    (void)hipEventDestroy(event); /* takes effect when no stream waits for it any more */
    return status;
}

int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier)
{
    iso_hip_use(gpu);
    if (later == earlier)
        return 0;
    if (!iso_gpu_stream_is_capturing(gpu, earlier))
        return after_by_event(gpu, (hipStream_t)later, (hipStream_t)earlier);
    if (!gpu->info.joins_captures)
        return iso_hip_refuse(gpu, -ENOTSUP,
                              "the stream is being captured, and HIP before 5.6 never ends the capture of a second "
                              "stream that joins: use one stream, no copy engines, or a newer HIP");
    if (!iso_gpu_stream_is_capturing(gpu, later))
        return after_by_event(gpu, (hipStream_t)later, (hipStream_t)earlier);

    /* Both streams are part of a capture. An event would not do: HIP, at least to 6.2, takes every stream but the first
     * for a child of the stream whose event it waits for, and follows a stream and its child for ever when the capture
     * ends. HIP before 6.2 refuses a node that is named twice. */
    struct captured before, after;
    int status = iso_hip_result(gpu, "hipStreamGetCaptureInfo_v2", last_captured((hipStream_t)earlier, &before));
    for (size_t i = 0; i < before.n && status == 0; i++) {
        hipGraphNode_t node = before.nodes[i];
        status = iso_hip_result(gpu, "hipStreamGetCaptureInfo_v2", last_captured((hipStream_t)later, &after));
        if (status == 0 && !has_node(&after, node))
            status = iso_hip_result(
                gpu, "hipStreamUpdateCaptureDependencies",
                hipStreamUpdateCaptureDependencies((hipStream_t)later, &node, 1, hipStreamAddCaptureDependencies));
    }
    return status;
}

bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    iso_hip_use(gpu);
    if (stream == NULL || hipStreamIsCapturing((hipStream_t)stream, &status) != hipSuccess)
        return false;
    return status != hipStreamCaptureStatusNone;
}

/* HIP's streams wait only for words of special memory, which peers cannot map. */
bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream)
{
    (void)gpu, (void)stream;
    return false;
}

int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream)
{
    (void)words, (void)n, (void)stream;
    return iso_hip_refuse(gpu, -ENOTSUP, "streams of HIP do not wait for words of memory that peers reach");
}

/* ---- marks: events, which the command processor stamps ---- */

int iso_gpu_mark_create(struct gpu *gpu, gpu_mark *mark)
{
    hipEvent_t event = NULL;
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipEventCreateWithFlags", hipEventCreateWithFlags(&event, hipEventDefault));
    *mark = event;
    return status;
}

void iso_gpu_mark_destroy(struct gpu *gpu, gpu_mark mark)
{
    iso_hip_use(gpu);
    if (mark != NULL)
        (void)hipEventDestroy((hipEvent_t)mark);
}

int iso_gpu_mark_set(struct gpu *gpu, gpu_mark mark, gpu_stream stream)
{
    iso_hip_use(gpu);
    return iso_hip_result(gpu, "hipEventRecord", hipEventRecord((hipEvent_t)mark, (hipStream_t)stream));
}

int iso_gpu_mark_time(struct gpu *gpu, gpu_mark since, gpu_mark mark, int64_t *ns)
{
    float ms = 0;
    iso_hip_use(gpu);
    hipStreamCaptureMode mode = iso_hip_relax();
    hipError_t e = hipEventQuery((hipEvent_t)mark);
    if (e == hipSuccess)
        e = hipEventElapsedTime(&ms, (hipEvent_t)since, (hipEvent_t)mark);
    iso_hip_restore(mode);
    *ns = (int64_t)((double)ms * 1e6);
    if (e != hipErrorNotReady)
        return iso_hip_result(gpu, "hipEventElapsedTime", e);
    (void)hipGetLastError();
    return -EBUSY;
}

/* ---- graphs ---- */

/* Relaxed: the proxy's and the agent's streams go on while a program captures one of its own. */
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream)
{
    iso_hip_use(gpu);
    return iso_hip_result(gpu, "hipStreamBeginCapture",
                          hipStreamBeginCapture((hipStream_t)stream, hipStreamCaptureModeRelaxed));
}

/* True when a node without successors stands in another stream than this one. False where HIP does not tell. */
static bool has_loose_end(hipGraph_t graph, const struct captured *last)
{
    bool loose = false;
    size_t n = 0;
    if (hipGraphGetNodes(graph, NULL, &n) != hipSuccess || n == 0)
        return false;
    hipGraphNode_t *nodes = (hipGraphNode_t *)calloc(n, sizeof *nodes);
    if (nodes == NULL || hipGraphGetNodes(graph, nodes, &n) != hipSuccess)
        n = 0;
    for (size_t i = 0; i < n && !loose; i++) {
        size_t behind = 0;
        loose = hipGraphNodeGetDependentNodes(nodes[i], NULL, &behind) == hipSuccess && behind == 0 &&
                !has_node(last, nodes[i]);
    }
    free(nodes);
    return loose;
}

/* Checked before HIP does: HIP would free the graph and leave the stream in its capture for ever. */
static bool is_unjoined(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    unsigned long long id = 0;
    hipGraph_t graph = NULL;
    struct captured last = {NULL, 0};
    if (hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &last.nodes, &last.n) != hipSuccess ||
        status != hipStreamCaptureStatusActive || graph == NULL) {
        (void)hipGetLastError();
        return false;
    }
    bool loose = has_loose_end(graph, &last);
    (void)hipGetLastError();
    return loose;
}

int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph)
{
    hipGraph_t captured = NULL;
    hipGraphExec_t made = NULL;
    iso_hip_use(gpu);
    *graph = NULL;
    if (gpu->info.joins_captures && is_unjoined((hipStream_t)stream)) /* older ones take no stream along */
        return iso_hip_refuse(gpu, -EINVAL,
                              "a stream that the capture took along has not joined; the capture goes on: let the "
                              "captured stream wait for that one (shmemx_stream_wait_stream), then end it again");
    int status = iso_hip_result(gpu, "hipStreamEndCapture", hipStreamEndCapture((hipStream_t)stream, &captured));
    if (status != 0 && iso_gpu_stream_is_capturing(gpu, stream))
        return iso_hip_refuse(gpu, -EIO,
                              "hipStreamEndCapture failed, and HIP leaves the stream in its capture: it can neither be "
                              "used nor destroyed any more");
    if (status != 0)
        return status;
    status = iso_hip_result(gpu, "hipGraphInstantiate", hipGraphInstantiate(&made, captured, NULL, NULL, 0));
    (void)hipGraphDestroy(captured);
    *graph = made;
    return status;
}

int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream)
{
    iso_hip_use(gpu);
    return iso_hip_result(gpu, "hipGraphLaunch", hipGraphLaunch((hipGraphExec_t)graph, (hipStream_t)stream));
}

int iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph)
{
    iso_hip_use(gpu);
    return graph == NULL ? 0 : iso_hip_result(gpu, "hipGraphExecDestroy", hipGraphExecDestroy((hipGraphExec_t)graph));
}

/* ---- copies ---- */

struct staged_copy {
    char *dest;
    const char *source;
    size_t len;
    hipMemcpyKind kind; /* to the device, or from it */
};

/* With pageable host memory at one side: piece by piece through the stage, waiting. The vendor would pin and unpin
 * pages for large copies, which synchronises the device. */
static int copy_staged(struct gpu *gpu, struct staged_copy c, hipStream_t stream)
{
    bool up = c.kind == hipMemcpyHostToDevice;
    int status = 0;
    pthread_mutex_lock(&gpu->stage_lock);
    for (size_t done = 0, piece; done < c.len && status == 0; done += piece) {
        piece = c.len - done < STAGE_BYTES ? c.len - done : STAGE_BYTES;
        if (up)
            memcpy(gpu->stage, c.source + done, piece);
        hipError_t e =
            hipMemcpyAsync(up ? c.dest + done : gpu->stage, up ? gpu->stage : c.source + done, piece, c.kind, stream);
        if (e == hipSuccess)
            e = wait_stream(stream);
        if (e == hipSuccess && !up)
            memcpy(c.dest + done, gpu->stage, piece);
        status = iso_hip_result(gpu, "hipMemcpyAsync", e);
    }
    pthread_mutex_unlock(&gpu->stage_lock);
    return status;
}

int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream)
{
    iso_hip_use(gpu);
    if (len == 0)
        return 0;
    enum gpu_pointer to = iso_gpu_pointer_kind(gpu, dest), from = iso_gpu_pointer_kind(gpu, source);
    if (to == GPU_POINTER_DEVICE && from == GPU_POINTER_DEVICE && gpu->engine_copies) {
        /* By a copy engine: a copy by compute units could wait for a kernel that waits for it. */
        hipError_t e = hipMemcpyAsync(dest, source, len, (hipMemcpyKind)WITHOUT_COMPUTE_UNITS, (hipStream_t)stream);
        if (e != hipErrorInvalidMemcpyDirection && e != hipErrorInvalidValue && e != hipErrorNotSupported)
            return iso_hip_result(gpu, "hipMemcpyAsync", e);
        (void)hipGetLastError();
        pthread_mutex_lock(&gpu->lock);
        gpu->engine_copies = false;
        pthread_mutex_unlock(&gpu->lock);
    }
    if (to != GPU_POINTER_HOST && from != GPU_POINTER_HOST)
        return iso_hip_result(gpu, "hipMemcpyAsync",
                              hipMemcpyAsync(dest, source, len, hipMemcpyDefault, (hipStream_t)stream));
    if (iso_gpu_stream_is_capturing(gpu, stream))
        return iso_hip_refuse(gpu, -EINVAL, "a copy in a captured stream needs host memory that is pinned");
    if (to == GPU_POINTER_DEVICE || from == GPU_POINTER_DEVICE)
        return copy_staged(
            gpu,
            (struct staged_copy){(char *)dest, (const char *)source, len,
                                 to == GPU_POINTER_DEVICE ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost},
            (hipStream_t)stream);
    int status = iso_gpu_stream_wait(gpu, stream);
    if (status == 0)
        memcpy(dest, source, len);
    return status;
}

/* HIP of 2026 chooses the engine of such a copy, and may choose one that the HSA runtime refuses for this peer. For
 * some months that was a copy by compute units; then, until September, none, with success reported. The second stream
 * gets another engine. */
int iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len)
{
    char *wanted = (char *)malloc(len), *seen = (char *)malloc(len);
    gpu_stream other = NULL;
    bool same = true;
    iso_hip_use(gpu);
    int status = wanted != NULL && seen != NULL ? 0 : iso_hip_refuse(gpu, -ENOMEM, "no host memory left");
    if (status == 0)
        status = iso_gpu_stream_create(gpu, false, &other);
    for (unsigned i = 0; i < 4 && status == 0 && same; i++) {
        gpu_stream stream = i % 2 == 0 ? (gpu_stream)gpu->stream : other;
        char *dest = i < 2 ? theirs : ours, *source = i < 2 ? ours : theirs;
        for (size_t k = 0; k < len; k++)
            wanted[k] = (char)(1 + (k * 7 + k / 251 + i * 13) % 255);
        memset(seen, 0, len);
        status = iso_gpu_copy(gpu, source, wanted, len, stream); /* waits: memory of the host */
        if (status == 0)
            status = iso_gpu_copy(gpu, dest, source, len, stream);
        if (status == 0)
            status = iso_gpu_stream_wait(gpu, stream);
        if (status == 0)
            status = iso_gpu_copy(gpu, seen, dest, len, stream);
        same = memcmp(seen, wanted, len) == 0;
    }
    if (status == 0)
        status = iso_hip_clear(gpu, theirs, len);
    if (status == 0 && !same)
        status =
            iso_hip_refuse(gpu, -EIO,
                           "HIP has reported success for a copy by a copy engine that did not arrive; take a HIP of "
                           "October 2026 or later");
    if (status != 0) {
        pthread_mutex_lock(&gpu->lock);
        gpu->engine_copies = false;
        pthread_mutex_unlock(&gpu->lock);
    }
    iso_gpu_stream_destroy(gpu, other);
    free(wanted);
    free(seen);
    return status;
}

int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream)
{
    iso_hip_use(gpu);
    return len == 0 ? 0 : iso_hip_result(gpu, "hipMemsetAsync", hipMemsetAsync(dest, byte, len, (hipStream_t)stream));
}

int iso_hip_clear(struct gpu *gpu, void *ptr, size_t len)
{
    int status = iso_gpu_fill(gpu, ptr, 0, len, gpu->stream);
    return status != 0 ? status : iso_gpu_stream_wait(gpu, gpu->stream);
}

/* ---- the device ---- */

static int attribute(hipDeviceAttribute_t which, int device)
{
    int value = 0;
    return hipDeviceGetAttribute(&value, which, device) == hipSuccess ? value : 0;
}

struct runtimes {
    const char *first;
    char *why;
    size_t why_bytes;
};

/* 1, with a sentence: it is a second HIP runtime. Streams and memory of one are unknown to the other. */
static int find_second_runtime(struct dl_phdr_info *library, size_t bytes, void *arg)
{
    static const char name[] = "/libamdhip64";
    struct runtimes *found = (struct runtimes *)arg;
    const char *file = strrchr(library->dlpi_name, '/');
    (void)bytes;
    if (file == NULL || strncmp(file, name, sizeof(name) - 1) != 0)
        return 0;
    if (found->first == NULL) {
        found->first = library->dlpi_name;
        return 0;
    }
    snprintf(found->why, found->why_bytes,
             "two HIP runtimes are in this process, %.60s and %.60s; build Isomer with the HIP that the program loads "
             "(PyTorch brings one), of the same major release",
             found->first, library->dlpi_name);
    return 1;
}

/* Number of the device that `choice` or the local rank means, or -errno after a sentence. The first HIP call, unless
 * the program has made one. HIP 7 puts branches of a graph that look small into one stream, and then a kernel that
 * waits for another branch never ends: so the variable is set here, unless it is set already. */
static int choose_hip_device(int local_rank, const char *choice, int *n_devices, char *why, size_t why_bytes)
{
    char *end = NULL;
    int n = 0;
    if (dl_iterate_phdr(find_second_runtime, &(struct runtimes){NULL, why, why_bytes}) != 0)
        return -ELIBACC;
    (void)setenv("DEBUG_HIP_GRAPH_MIN_OVERLAP", "0", 0);
    hipError_t e = hipGetDeviceCount(&n);
    if (e != hipSuccess || n == 0) {
        snprintf(why, why_bytes, "no AMD device: hipGetDeviceCount says %s", hipGetErrorName(e));
        return -ENODEV;
    }
    *n_devices = n;
    if (choice == NULL || choice[0] == '\0')
        return local_rank % n;
    long number = strtol(choice, &end, 10);
    if (*end == '\0' && number >= 0 && number < n)
        return (int)number;
    snprintf(why, why_bytes, "SHMEM_DEVICE=%.40s is not a number in 0..%d", choice, n - 1);
    return -EINVAL;
}

static int describe_hip(struct gpu *gpu)
{
    struct gpu_info *info = &gpu->info;
    size_t bytes = 0;
    int version = 0, device = info->device;
    const char *queues = getenv("GPU_MAX_HW_QUEUES"); /* HIP's own variable; it makes 4 */
    info->flavour = "hip";
    info->lock_calls = "hipFree, hipHostFree, hipStreamDestroy, hipDeviceSynchronize of HIP 5";
    int status = iso_hip_result(gpu, "hipDeviceGetName", hipDeviceGetName(info->name, (int)sizeof(info->name), device));
    if (status == 0)
        status =
            iso_hip_result(gpu, "hipDeviceGetPCIBusId", hipDeviceGetPCIBusId(info->id, (int)sizeof(info->id), device));
    if (status == 0)
        status = iso_hip_result(gpu, "hipDeviceTotalMem", hipDeviceTotalMem(&bytes, device));
    info->memory_bytes = bytes;
    info->multiprocessors = attribute(hipDeviceAttributeMultiprocessorCount, device);
    info->wave_size = attribute(hipDeviceAttributeWarpSize, device);
    info->shared_bytes = (size_t)attribute(hipDeviceAttributeMaxSharedMemoryPerBlock, device);
    info->hardware_queues = queues != NULL && atoi(queues) > 0 ? (unsigned)atoi(queues) : 4;
    if (hipRuntimeGetVersion(&version) != hipSuccess)
        version = 0;
    info->joins_captures = version >= FIRST_TO_END_JOINED_CAPTURES;
    info->tries_engines = version >= FIRST_TO_LOSE_COPIES;
    info->kernels_copy_words = version < FIRST_TO_COPY_WORDS_BY_ENGINES;
    if (status == 0 && info->wave_size != 64)
        status = iso_hip_refuse(gpu, -ENODEV,
                                "its waves are not of 64 threads: only gfx9 (MI200, MI300, MI350) is supported");
    return status;
}

/* After a failure iso_gpu_close releases what is there. */
static int hip_start(struct gpu *gpu)
{
    gpu_stream stream = NULL;
    void *stage = NULL, *unused = NULL;
    iso_hip_use(gpu);
    int status = describe_hip(gpu);
    /* Refused where the device is in use already: then it waits as the program has chosen. */
    if (status == 0 && hipSetDeviceFlags(hipDeviceScheduleBlockingSync) != hipSuccess)
        (void)hipGetLastError();
    if (status == 0)
        status = iso_gpu_stream_create(gpu, true, &stream);
    if (status == 0)
        status = iso_gpu_host_alloc(gpu, STAGE_BYTES, &stage, &unused);
    gpu->stream = (hipStream_t)stream;
    gpu->stage = (char *)stage;
    if (status != 0)
        return status;
    gpu->engine_copies = !iso_hip_is_off("HSA_ENABLE_SDMA"); /* without it such copies overtake events, HIP 7 */
    gpu->info.tries_engines = gpu->info.tries_engines && gpu->engine_copies;
    iso_hip_open_engines(gpu);
    iso_hip_probe_memory(gpu);
    gpu->error[0] = '\0'; /* of the probes */
    return 0;
}

int iso_gpu_open(struct gpu **result, int local_rank, const char *choice, char *why, size_t why_bytes)
{
    int n_devices = 0, device = choose_hip_device(local_rank, choice, &n_devices, why, why_bytes);
    *result = NULL;
    if (device < 0)
        return device;
    struct gpu *made = (struct gpu *)calloc(1, sizeof(*made));
    if (made == NULL) {
        snprintf(why, why_bytes, "no host memory left");
        return -ENOMEM;
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->stage_lock, NULL);
    made->info.device = device;
    made->info.n_devices = n_devices;
    if (hip_start(made) != 0) {
        snprintf(why, why_bytes, "AMD device %d cannot be used: %s", device, made->error);
        iso_gpu_close(made);
        return -ENODEV;
    }
    (void)hipSetDevice(device); /* the program's own calls mean it from now on, in this thread */
    *result = made;
    return 0;
}

void iso_gpu_close(struct gpu *gpu)
{
    if (gpu == NULL)
        return;
    iso_hip_close_engines(gpu);
    iso_gpu_stream_destroy(gpu, gpu->stream);
    while (gpu->streams != NULL)
        forget_stream(gpu, gpu->streams->stream); /* the program has not destroyed it */
    iso_gpu_host_free(gpu, gpu->stage);
    pthread_mutex_destroy(&gpu->stage_lock);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

const char *iso_gpu_error(const struct gpu *gpu) { return gpu->error; }
const struct gpu_info *iso_gpu_describe(const struct gpu *gpu) { return &gpu->info; }

bool iso_gpu_reaches(struct gpu *gpu, const char *id)
{
    int peer = -1, can = 0;
    if (strcmp(id, gpu->info.id) == 0)
        return true;
    iso_hip_use(gpu);
    if (hipDeviceGetByPCIBusId(&peer, id) != hipSuccess) {
        /* Hidden from this process (HIP_VISIBLE_DEVICES): opening its memory is what tells. */
        char path[80];
        (void)hipGetLastError();
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.40s", id);
        return access(path, F_OK) == 0;
    }
    if (hipDeviceCanAccessPeer(&can, gpu->info.device, peer) != hipSuccess || !can) {
        (void)hipGetLastError();
        return false;
    }
    hipError_t e = hipDeviceEnablePeerAccess(peer, 0);
    if (e != hipSuccess)
        (void)hipGetLastError();
    return e == hipSuccess || e == hipErrorPeerAccessAlreadyEnabled;
}

/* ---- survey: the kernel driver's own list, nothing is started ---- */

/* The gfx number of a node of the topology, 0: not a GPU. */
static unsigned node_version(const char *node)
{
    char path[160], name[64];
    unsigned long value = 0, version = 0, simds = 0;
    snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%.60s/properties", node);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    while (fscanf(file, "%63s %lu", name, &value) == 2) {
        if (strcmp(name, "simd_count") == 0)
            simds = value;
        else if (strcmp(name, "gfx_target_version") == 0)
            version = value;
    }
    fclose(file);
    return simds > 0 ? (unsigned)version : 0;
}

void iso_gpu_survey(char *text, size_t bytes)
{
    unsigned devices = 0, version = 0;
    DIR *nodes = opendir("/sys/class/kfd/kfd/topology/nodes");
    struct dirent *entry;
    while (nodes != NULL && (entry = readdir(nodes)) != NULL) {
        unsigned found = entry->d_name[0] == '.' ? 0 : node_version(entry->d_name);
        devices += found != 0;
        version = found != 0 ? found : version;
    }
    if (nodes != NULL)
        closedir(nodes);
    if (devices == 0)
        snprintf(text, bytes, "hip: no AMD device on this machine (the amdgpu driver lists none)");
    else
        snprintf(text, bytes, "hip: %u AMD device%s of gfx%u%u%x, kernels of this build for " ISO_HIP_ARCH "%s",
                 devices, devices == 1 ? "" : "s", version / 10000, version / 100 % 100, version % 100,
                 access("/dev/kfd", R_OK | W_OK) == 0 ? ""
                                                      : ", but this user may not open /dev/kfd: join the group render");
}
