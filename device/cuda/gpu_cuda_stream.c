/* SPDX-License-Identifier: MIT */
/* NVIDIA GPUs: streams, graphs of them, and copies and words in them, by the CUDA runtime and the driver's calls.
 * Invariant: every call makes the device current in its thread first, and gives back the device that was current.
 * Includes gpu_cuda.h. Called by shmem/, coll/, gpu_cuda*.c. */
#include "gpu_cuda.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* ---- streams ---- */

static cudaStream_t stream_of(gpu_stream stream) { return (cudaStream_t)stream; }

static cudaError_t query(cudaStream_t stream)
{
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    cudaError_t e = cudaStreamQuery(stream);
    iso_cuda_restore(mode);
    return e;
}

static int make_stream(struct gpu *gpu, bool high_priority, cudaStream_t *stream)
{
    int least = 0, greatest = 0;
    iso_cuda_use(gpu);
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return RUNTIME(gpu, cudaStreamCreateWithPriority, stream, cudaStreamNonBlocking, high_priority ? greatest : least);
}

int iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    cudaStream_t s = NULL;
    iso_cuda_use(gpu);

    /* Takes an idle stream only: work that still runs in a destroyed stream may wait for work of the new one. */
    pthread_mutex_lock(&gpu->lock);
    for (unsigned i = high_priority ? 0 : gpu->n_spare; i-- > 0 && s == NULL;)
        if (query(gpu->spare[i]) == cudaSuccess) {
            s = gpu->spare[i];
            gpu->spare[i] = gpu->spare[--gpu->n_spare];
        }
    pthread_mutex_unlock(&gpu->lock);
    int rc = s == NULL ? make_stream(gpu, high_priority, &s) : 0;
    *stream = s;
    return rc;
}

void iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    cudaStream_t s = stream_of(stream);
    int least = 0, greatest = 0, priority = 1;
    unsigned flags = 0;
    iso_cuda_use(gpu);

    /* iso_gpu_stream_create hands a stream out again, if it is like its own: the program may have made this one. */
    (void)cudaDeviceGetStreamPriorityRange(&least, &greatest);
    bool again = cudaStreamGetPriority(s, &priority) == cudaSuccess && priority == least &&
                 cudaStreamGetFlags(s, &flags) == cudaSuccess && (flags & cudaStreamNonBlocking) != 0;
    pthread_mutex_lock(&gpu->lock);
    bool kept = again && gpu->n_spare < ISO_CUDA_SPARE_STREAMS;
    if (kept)
        gpu->spare[gpu->n_spare++] = s;
    pthread_mutex_unlock(&gpu->lock);
    if (!kept)
        (void)RUNTIME(gpu, cudaStreamDestroy, s);
}

/* A query takes about a microsecond: short work is met by polling, longer work leaves the core to others. */
int iso_gpu_stream_wait(struct gpu *gpu, gpu_stream stream)
{
    const struct timespec nap = {0, 50000};
    cudaError_t e;
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    for (unsigned polls = 0; (e = cudaStreamQuery(stream_of(stream))) == cudaErrorNotReady; polls++) {
        if (polls > 4000)
            nanosleep(&nap, NULL);
        else if (polls > 50)
            sched_yield();
    }
    iso_cuda_restore(mode);
    return iso_cuda_check(gpu, "cudaStreamQuery", e);
}

int iso_gpu_wait_all(struct gpu *gpu)
{
    iso_cuda_use(gpu);
    enum cudaStreamCaptureMode mode = iso_cuda_relax();
    cudaError_t e = cudaDeviceSynchronize();
    iso_cuda_restore(mode);
    return e == cudaErrorCudartUnloading ? 0 : iso_cuda_check(gpu, "cudaDeviceSynchronize", e); /* after its exit */
}

int iso_gpu_stream_after(struct gpu *gpu, gpu_stream later, gpu_stream earlier)
{
    cudaEvent_t event;
    iso_cuda_use(gpu);
    int rc = RUNTIME(gpu, cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    if (rc != 0)
        return rc;
    rc = RUNTIME(gpu, cudaEventRecord, event, stream_of(earlier));
    if (rc == 0)
        rc = RUNTIME(gpu, cudaStreamWaitEvent, stream_of(later), event, 0);
    (void)cudaEventDestroy(event); /* freed when it has happened */
    return rc;
}

/* The default stream may not even be asked while another one is captured: then it counts as captured. */
bool iso_gpu_stream_is_capturing(struct gpu *gpu, gpu_stream stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    iso_cuda_use(gpu);
    cudaError_t e = cudaStreamIsCapturing(stream_of(stream), &status);
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return e == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
}

/* ---- copies and words ---- */

int iso_gpu_copy(struct gpu *gpu, void *dest, const void *source, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemcpyAsync, dest, source, len, cudaMemcpyDefault, stream_of(stream));
}

int iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len)
{
    (void)gpu, (void)theirs, (void)ours, (void)len;
    return 0; /* not asked: no runtime is known to lose copies */
}

int iso_gpu_fill(struct gpu *gpu, void *dest, int byte, size_t len, gpu_stream stream)
{
    return RUNTIME(gpu, cudaMemsetAsync, dest, byte, len, stream_of(stream));
}

bool iso_gpu_has_words(struct gpu *gpu, gpu_stream stream)
{
    return gpu->has_words && !iso_gpu_stream_is_capturing(gpu, stream);
}

int iso_gpu_stream_words(struct gpu *gpu, const struct gpu_word *words, int n, gpu_stream stream)
{
    enum { AT_ONCE = 64 };
    CUstreamBatchMemOpParams ops[AT_ONCE];
    int rc = 0;
    for (int done = 0, some; done < n && rc == 0; done += some) {
        some = n - done < AT_ONCE ? n - done : AT_ONCE;
        memset(ops, 0, (size_t)some * sizeof ops[0]);
        for (int i = 0; i < some; i++) {
            const struct gpu_word *word = &words[done + i];
            if (word->waits) {
                ops[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
                ops[i].waitValue.address = (CUdeviceptr)(uintptr_t)word->at;
                ops[i].waitValue.value64 = word->value;
                ops[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
            } else {
                /* Stores come with a barrier of their own; this version of the call has no flag that leaves it out. */
                ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
                ops[i].writeValue.address = (CUdeviceptr)(uintptr_t)word->at;
                ops[i].writeValue.value64 = word->value;
                ops[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
            }
        }
        rc = DRIVER(gpu, cuStreamBatchMemOp, (CUstream)stream_of(stream), (unsigned)some, ops, 0);
    }
    return rc;
}

/* ---- graphs ---- */

/* Relaxed: other threads of this PE may allocate and wait during the capture. */
int iso_gpu_graph_begin(struct gpu *gpu, gpu_stream stream)
{
    return RUNTIME(gpu, cudaStreamBeginCapture, stream_of(stream), cudaStreamCaptureModeRelaxed);
}

int iso_gpu_graph_end(struct gpu *gpu, gpu_stream stream, gpu_graph *graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t executable = NULL;
    iso_cuda_use(gpu);
    int rc = RUNTIME(gpu, cudaStreamEndCapture, stream_of(stream), &captured);
    if (rc == 0)
        rc = RUNTIME(gpu, cudaGraphInstantiate, &executable, captured, 0);
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    *graph = executable;
    return rc;
}

int iso_gpu_graph_launch(struct gpu *gpu, gpu_graph graph, gpu_stream stream)
{
    return RUNTIME(gpu, cudaGraphLaunch, (cudaGraphExec_t)graph, stream_of(stream));
}

void iso_gpu_graph_destroy(struct gpu *gpu, gpu_graph graph)
{
    (void)RUNTIME(gpu, cudaGraphExecDestroy, (cudaGraphExec_t)graph);
}

/* ---- copy engines: the driver's own choice ---- */

int iso_gpu_copy_by_engine(struct gpu *gpu, int engine, void *dest, const void *source, size_t len)
{
    (void)engine, (void)dest, (void)source, (void)len;
    return iso_cuda_failed(gpu, -ENOTSUP, "a copy by a chosen engine", "CUDA chooses engines itself");
}

/* ---- start and stop ---- */

int iso_cuda_open_streams(struct gpu *gpu)
{
    int rc = RUNTIME(gpu, cudaStreamCreateWithFlags, &gpu->stream, cudaStreamNonBlocking);
    for (; gpu->n_spare < ISO_CUDA_SPARE_STREAMS && rc == 0; gpu->n_spare += rc == 0)
        rc = make_stream(gpu, false, &gpu->spare[gpu->n_spare]);
    return rc;
}

void iso_cuda_close_streams(struct gpu *gpu)
{
    if (gpu->stream == NULL) /* the driver's calls may not even be looked up */
        return;
    iso_cuda_use(gpu);
    (void)cudaStreamDestroy(gpu->stream);
    while (gpu->n_spare > 0)
        (void)cudaStreamDestroy(gpu->spare[--gpu->n_spare]);
}
