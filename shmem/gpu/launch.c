/* SPDX-License-Identifier: MIT */
/* Streams, launches and graphs of the public API: thin forms of device/gpu.h that check arguments and say a sentence
 * when the device refuses. Called by users. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../node/wait.h"
#include "../collectives.h"
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* 0 or 1: the public result of a vendor call. */
static int result(const char *call, struct device *d, int rc)
{
    if (rc != 0)
        log_error("%s: %s", iso_call_name(call), iso_gpu_error(d->gpu));
    return rc == 0 ? 0 : 1;
}

/* false after a sentence. */
static bool is_given(const char *call, const char *arg, bool given)
{
    if (!given)
        log_error("%s: %s is a null pointer", iso_call_name(call), arg);
    return given;
}

/* ---- streams ---- */

SHMEM_API(shmemx_stream_create, pshmemx_stream_create);
int pshmemx_stream_create(shmemx_stream_t *stream)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "stream", stream != NULL))
        return 1;
    return result(__func__, d, iso_gpu_stream_create(d->gpu, false, stream));
}

SHMEM_API(shmemx_stream_destroy, pshmemx_stream_destroy);
int pshmemx_stream_destroy(shmemx_stream_t stream)
{
    struct device *d = iso_device_left(__func__);
    if (d == NULL || !is_given(__func__, "stream (the default stream, which stays)", stream != NULL))
        return 1;
    if (iso_gpu_stream_is_capturing(d->gpu, stream)) {
        log_error("shmemx_stream_destroy: the stream is being captured; call shmemx_graph_end first");
        return 1;
    }
    ISO->coll->streams.forget_stream(stream);
    return result(__func__, d, iso_gpu_stream_destroy(d->gpu, stream));
}

SHMEM_API(shmemx_stream_synchronize, pshmemx_stream_synchronize);
int pshmemx_stream_synchronize(shmemx_stream_t stream)
{
    struct device *d = iso_device_running(__func__);
    struct wait w = ISO_WAIT(__func__, -1, stream, 0);
    if (d == NULL)
        return 1;
    w.kind = WAIT_STREAM;
    iso_wait_show(&w); /* the device's call cannot be polled: the reports of other PEs tell of this wait */
    int rc = iso_gpu_stream_wait(d->gpu, stream);
    iso_wait_end(&w);
    iso_wait_show_kernel(NULL, -1, 0, 0);
    iso_device_trace_look(d);
    if (result(__func__, d, rc) != 0 || iso_handles_gave_up(d, __func__))
        return 1;
    if (iso_job_is_broken()) /* also where no wait gave up: a peer's part of a result may be missing */
        return iso_refuse_broken(__func__);
    return 0;
}

SHMEM_API(shmemx_stream_wait_stream, pshmemx_stream_wait_stream);
int pshmemx_stream_wait_stream(shmemx_stream_t later, shmemx_stream_t earlier)
{
    struct device *d = iso_device_running(__func__);
    return d != NULL ? result(__func__, d, iso_gpu_stream_after(d->gpu, later, earlier)) : 1;
}

/* ---- launch ---- */

/* The number of blocks of the kernel that can be resident on this PE's share of the device, or -1 after a sentence. */
static int resident(const char *call, struct device *d, shmemx_kernel_t kernel, unsigned threads, size_t shared_bytes)
{
    int blocks = 0;
    int rc = iso_gpu_max_blocks(d->gpu, kernel, threads, shared_bytes, &blocks);
    if (rc == 0 && blocks != 0)
        return blocks / ISO_MAX(d->device_peers, 1);
    log_error("%s: blocks of %u threads with %zu shared bytes: %s", iso_call_name(call), threads, shared_bytes,
              rc != 0 ? iso_gpu_error(d->gpu) : "the device has no room for one");
    return -1;
}

/* false after a sentence. HIP cuts the number of shared bytes to 32 bits, and CUDA's attribute is an int, so neither
 * gets one that no device has. */
static bool block_is_possible(const char *call, const struct device *d, int64_t threads, size_t shared_bytes)
{
    size_t most = iso_gpu_describe(d->gpu)->shared_bytes;
    if (threads < 1 || threads > 1024)
        log_error("%s: block_threads is %lld; allowed: 1..1024", iso_call_name(call), (long long)threads);
    else if (shared_bytes > most)
        log_error("%s: shared_bytes is %zu; allowed on this device: 0..%zu", iso_call_name(call), shared_bytes, most);
    else
        return true;
    return false;
}

/* The kernel and what it gets have been looked at. */
static int launch_kernel(const char *call, struct device *d, const struct gpu_launch *l, shmemx_stream_t stream)
{
    uint64_t blocks = iso_gpu_count(l->grid);
    if (blocks == 0 || blocks > INT32_MAX) {
        log_error("%s: blocks is %llu; allowed: at least 1, at most %d", iso_call_name(call),
                  (unsigned long long)blocks, INT32_MAX);
        return 1;
    }
    if (!block_is_possible(call, d, (int64_t)iso_gpu_count(l->block), l->shared_bytes))
        return 1;
    if (l->cooperative) {
        int room = resident(call, d, l->kernel, (unsigned)iso_gpu_count(l->block), l->shared_bytes);
        if (room >= 0 && blocks > (uint64_t)room)
            log_error("%s: blocks is %llu, and they must run at once; allowed for this kernel: 1..%d",
                      iso_call_name(call), (unsigned long long)blocks, room);
        if (room < 0 || blocks > (uint64_t)room)
            return 1;
    }
    struct stream_span span;
    iso_device_trace_enter(&span, PROFILE_LAUNCH, call, 0, stream);
    int rc = result(call, d, iso_gpu_launch(d->gpu, l, stream));
    iso_device_trace_leave(&span);
    return rc;
}

static int launch_line(const char *call, const struct gpu_launch *l, shmemx_stream_t stream)
{
    struct device *d = iso_device_running(call);
    if (d == NULL || !is_given(call, "kernel", l->kernel != NULL) ||
        !is_given(call, "args", l->args != NULL || l->args_bytes == 0))
        return 1;
    return launch_kernel(call, d, l, stream);
}

SHMEM_API(shmemx_launch, pshmemx_launch);
int pshmemx_launch(shmemx_kernel_t kernel, unsigned blocks, unsigned block_threads, size_t shared_bytes,
                   const void *args, size_t args_bytes, shmemx_stream_t stream)
{
    const struct gpu_launch l = {.kernel = kernel,
                                 .grid.x = blocks,
                                 .block.x = block_threads,
                                 .shared_bytes = shared_bytes,
                                 .args = args,
                                 .args_bytes = args_bytes};
    return launch_line(__func__, &l, stream);
}

SHMEM_API(shmemx_launch_cooperative, pshmemx_launch_cooperative);
int pshmemx_launch_cooperative(shmemx_kernel_t kernel, unsigned blocks, unsigned block_threads, size_t shared_bytes,
                               const void *args, size_t args_bytes, shmemx_stream_t stream)
{
    const struct gpu_launch l = {.kernel = kernel,
                                 .grid.x = blocks,
                                 .block.x = block_threads,
                                 .shared_bytes = shared_bytes,
                                 .args = args,
                                 .args_bytes = args_bytes,
                                 .cooperative = true};
    return launch_line(__func__, &l, stream);
}

static struct gpu_dim launch_dim_of(shmemx_dim_t d)
{
    struct gpu_dim dim = {d.x != 0 ? d.x : 1, d.y, d.z};
    return dim;
}

SHMEM_API(shmemx_launch_attr, pshmemx_launch_attr);
int pshmemx_launch_attr(shmemx_kernel_t kernel, const shmemx_launch_attr_t *attr, shmemx_stream_t stream)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "kernel", kernel != NULL) || !is_given(__func__, "attr", attr != NULL))
        return 1;
    if (attr->struct_bytes != sizeof *attr) {
        log_error("shmemx_launch_attr: attr->struct_bytes is %zu; allowed: %zu. Begin with SHMEMX_LAUNCH_ATTR",
                  attr->struct_bytes, sizeof *attr);
        return 1;
    }
    if (!is_given(__func__, "attr->args", attr->args != NULL || attr->args_bytes == 0 || attr->arguments != NULL))
        return 1;
    if (attr->cooperative != 0 && attr->cooperative != 1) {
        log_error("shmemx_launch_attr: attr->cooperative is %d; allowed: 0, 1", attr->cooperative);
        return 1;
    }
    const struct gpu_launch l = {.kernel = kernel,
                                 .grid = launch_dim_of(attr->grid),
                                 .block = launch_dim_of(attr->block),
                                 .shared_bytes = attr->shared_bytes,
                                 .args = attr->args,
                                 .args_bytes = attr->args_bytes,
                                 .arguments = attr->arguments,
                                 .cooperative = attr->cooperative != 0};
    return launch_kernel(__func__, d, &l, stream);
}

/* As many as can be resident, or -1. */
static int max_grid(const char *call, shmemx_kernel_t kernel, int block_threads, size_t shared_bytes)
{
    struct device *d = iso_device_running(call);
    if (d == NULL || !is_given(call, "kernel", kernel != NULL) ||
        !block_is_possible(call, d, block_threads, shared_bytes))
        return -1;
    return resident(call, d, kernel, (unsigned)block_threads, shared_bytes);
}

SHMEM_API(shmemx_max_grid, pshmemx_max_grid);
int pshmemx_max_grid(shmemx_kernel_t kernel, int block_threads, size_t shared_bytes)
{
    return max_grid(__func__, kernel, block_threads, shared_bytes);
}

SHMEM_API(shmemx_max_blocks, pshmemx_max_blocks);
int pshmemx_max_blocks(shmemx_kernel_t kernel, int block_threads, size_t shared_bytes)
{
    int blocks = max_grid(__func__, kernel, block_threads, shared_bytes);
    return blocks < 0 ? -1 : (int)ISO_MIN((int64_t)blocks, ISO->env->device_blocks);
}

SHMEM_API(shmemx_module_write, pshmemx_module_write);
int pshmemx_module_write(void *module, const char *name, const void *value, size_t bytes)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "module", module != NULL) || !is_given(__func__, "name", name != NULL) ||
        !is_given(__func__, "value", value != NULL))
        return 1;
    if (iso_gpu_module_write(d->gpu, module, name, value, bytes) == 0)
        return 0;
    log_error("shmemx_module_write: variable %s of %zu bytes cannot be written: %s", name, bytes,
              iso_gpu_error(d->gpu));
    return 1;
}

SHMEM_API(shmemx_library_write, pshmemx_library_write);
int pshmemx_library_write(void *library, const char *name, const void *value, size_t bytes)
{
    struct device *d = iso_device_running(__func__);
    void *module;
    if (d == NULL || !is_given(__func__, "library", library != NULL))
        return 1;
    int rc = iso_gpu_library_module(d->gpu, library, &module);
    return rc == 0 ? pshmemx_module_write(module, name, value, bytes) : result(__func__, d, rc);
}

/* ---- graphs ---- */

/* While `captures` is not 0, no handle is made (relaxed: the program orders its own calls). */
SHMEM_API(shmemx_graph_begin, pshmemx_graph_begin);
int pshmemx_graph_begin(shmemx_stream_t stream)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "stream (the default stream cannot be captured)", stream != NULL))
        return 1;
    int rc = iso_gpu_graph_begin(d->gpu, stream);
    if (rc == 0)
        __atomic_fetch_add(&d->captures, 1, __ATOMIC_RELAXED);
    return result(__func__, d, rc);
}

SHMEM_API(shmemx_graph_end, pshmemx_graph_end);
int pshmemx_graph_end(shmemx_stream_t stream, shmemx_graph_t *graph)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "graph", graph != NULL))
        return 1;
    if (__atomic_load_n(&d->captures, __ATOMIC_RELAXED) == 0 || stream == NULL ||
        !iso_gpu_stream_is_capturing(d->gpu, stream)) {
        log_error("shmemx_graph_end: the stream is not being captured; call shmemx_graph_begin with it first");
        return 1;
    }
    int rc = iso_gpu_graph_end(d->gpu, stream, graph);
    if (!iso_gpu_stream_is_capturing(d->gpu, stream)) /* else it had joined, and the capture goes on */
        __atomic_fetch_sub(&d->captures, 1, __ATOMIC_RELAXED);
    return result(__func__, d, rc);
}

SHMEM_API(shmemx_graph_launch, pshmemx_graph_launch);
int pshmemx_graph_launch(shmemx_graph_t graph, shmemx_stream_t stream)
{
    struct device *d = iso_device_running(__func__);
    if (d == NULL || !is_given(__func__, "graph", graph != NULL) || iso_handles_gave_up(d, __func__))
        return 1;
    struct stream_span span;
    iso_device_trace_enter(&span, PROFILE_GRAPH, __func__, 0, stream);
    int rc = result(__func__, d, iso_gpu_graph_launch(d->gpu, graph, stream));
    iso_device_trace_leave(&span);
    return rc;
}

SHMEM_API(shmemx_graph_destroy, pshmemx_graph_destroy);
int pshmemx_graph_destroy(shmemx_graph_t graph)
{
    struct device *d = iso_device_left(__func__);
    if (d == NULL || !is_given(__func__, "graph", graph != NULL))
        return 1;
    return result(__func__, d, iso_gpu_graph_destroy(d->gpu, graph));
}
