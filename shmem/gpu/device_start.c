/* SPDX-License-Identifier: MIT */
/* Start and end of the device: the heap, then copy engines, agent, proxy, handles and collectives on streams; and all
 * of it down again. Above all other files of this room. Invariant: every step is collective and ends in an agreement,
 * so all PEs succeed or fail together. Called by memory.c, coll/stream/tune, init.c (stop) and users. */
#include "../../bootstrap/log.h"
#include "../collectives.h"
#include "../node/wait.h"
#include "../transport/transport.h"
#include "device.h"

#include <errno.h>
#include <stdlib.h>

#define LEAVE_NS 10000000000u /* for what is in the streams when no kernel waits any more */

/* Memory is given back when no PE maps it any more; by shmemx_leave at once: it lives until the last mapping goes. */
static void take_down(struct device *d)
{
    struct state *self = ISO;
    d->running = false;
    iso_set_careful(self, false);
    iso_device_trace_look(d);
    iso_device_trace_stop(d);
    ISO->coll->streams.stop(d);
    if (d->handles != NULL)
        iso_handles_stop(d);
    if (d->proxy != NULL)
        iso_proxy_stop(d);
    if (self->n_nodes > 1 && !iso_job_is_broken())
        iso_barrier_sync(self->world, "shmem_finalize"); /* no proxy sends into our memory any more */
    for (int i = SEGMENT_INDEX_DEVICE; i < SEGMENT_INDEX_FREE; i++)
        if (ISO->segments[i].on_device)
            iso_transport_forget(&ISO->segments[i]);
    for (int i = ISO->n_segments - 1; i >= SEGMENT_INDEX_FREE; i--)
        if (ISO->segments[i].on_device)
            iso_device_buffer_forget(&ISO->segments[i]);
    iso_agent_stop();
    iso_pool_close(d, &d->images);
    iso_pool_close(d, &d->told);
    iso_grow_stop(d);
    iso_heap_unmap(d);
    if (!iso_job_is_broken())
        iso_barrier_sync(self->world, "shmem_finalize");
    iso_heap_free(d);
    if (d->gpu != NULL)
        iso_gpu_close(d->gpu);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->grow_lock);
    free(d->reaches);
    free(d);
    self->device = NULL;
}

void iso_device_stop(void)
{
    if (ISO->device == NULL)
        return;
    if (iso_device_end_suspension(ISO->device, false, "shmem_finalize") != 0)
        iso_fatal("shmem_finalize", "there is no device memory for what shmemx_suspend has lent back");
    take_down(ISO->device);
}

int iso_device_leave(const char *call)
{
    struct device *d = ISO->device;
    int rc = d != NULL ? iso_device_end_suspension(d, true, call) : 0;
    if (rc != 0)
        return rc;
    iso_proxy_give_up(); /* kernels of teams that mask deaths, too */
    rc = d != NULL && d->running ? iso_device_idle_within(LEAVE_NS) : 0;
    if (rc == -ETIMEDOUT)
        log_error("%s: a stream of this PE is not idle %d s after the waits of its kernels gave up; nothing was freed, "
                  "so the call may be repeated", iso_call_name(call), (int)(LEAVE_NS / 1000000000u));
    else if (d != NULL)
        take_down(d);
    return rc == -ETIMEDOUT ? rc : 0;
}

static int start_agent(struct device *d) { return iso_agent_start(d->gpu); }

int iso_device_start(const char *call)
{
    struct state *self = ISO;
    int rc = iso_enter(call);
    if (rc == 0 && self->device != NULL && self->device->running)
        rc = iso_device_running(call) != NULL ? 0 : -EBUSY;
    if (rc != 0 || self->device != NULL)
        return rc;
    uint64_t begun = iso_clock_now_ns(), heap_made;
    struct device *d = (struct device *)calloc(1, sizeof *d);
    rc = iso_device_agree(call, d != NULL ? 0 : -ENOMEM, "has no memory left");
    if (rc != 0) {
        free(d);
        return rc;
    }
    pthread_mutex_init(&d->lock, NULL);
    d->told.of_host = true;
    pthread_mutex_init(&d->grow_lock, NULL);
    self->device = d;
    rc = iso_heap_open(d, call);
    heap_made = iso_clock_now_ns();
    int (*const parts[])(struct device *) = {iso_engines_start, start_agent, iso_proxy_start, iso_handles_start,
                                             self->coll->streams.start};
    for (size_t i = 0; rc == 0 && i < sizeof parts / sizeof parts[0]; i++)
        rc = iso_device_agree(call, parts[i](d), "cannot start what serves its kernels");
    if (rc != 0) {
        take_down(d);
        return rc;
    }
    iso_device_trace_start(d);
    d->running = true;
    iso_set_careful(self, true);
    iso_transport_exchange_device(&self->segments[SEGMENT_INDEX_DEVICE]);
    log_info("device started in %.3f s: device and its heap %.3f, kernels and what serves them %.3f",
             (double)(iso_clock_now_ns() - begun) / 1e9, (double)(heap_made - begun) / 1e9,
             (double)(iso_clock_now_ns() - heap_made) / 1e9);
    log_debug("device %d (%s), heap %p of %zu bytes by %s: %s", d->info->device, d->info->name,
              (void *)self->segments[SEGMENT_INDEX_DEVICE].base, d->heap_bytes,
              d->sharing == GPU_SHARE_VMM ? "vmm" : "ipc", d->sharing_why);
    return 0;
}

struct device *iso_device_need(const char *call) { return iso_device_start(call) == 0 ? ISO->device : NULL; }

/* ---- public ---- */

SHMEM_API(shmemx_device_init, pshmemx_device_init);
int pshmemx_device_init(void) { return iso_device_start(__func__) == 0 ? 0 : 1; }

SHMEM_API(shmemx_device_handle, pshmemx_device_handle);
int pshmemx_device_handle(shmem_team_t team_handle, int slot, struct shmemd_handle *handle)
{
    if (iso_enter(__func__) != 0)
        return 1;
    struct team *team = iso_team_or_null(team_handle);
    if (team == NULL)
        (void)iso_refuse(__func__, "team %p is not a team of this PE", (void *)team_handle);
    else if (handle == NULL)
        (void)iso_refuse(__func__, "handle is a null pointer");
    if (team == NULL || handle == NULL || !iso_handle_slot_is_valid(__func__, slot))
        return 1;
    struct device *d = team == ISO->world ? iso_device_need(__func__) : iso_device_running(__func__);
    if (d == NULL)
        return 1;
    if (d->captures > 0) {
        log_error("shmemx_device_handle: a stream is being captured; make handles before shmemx_graph_begin");
        return 1;
    }
    return iso_handle_open(team, slot, handle, __func__) == 0 ? 0 : 1;
}
