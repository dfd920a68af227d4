/* SPDX-License-Identifier: MIT */
/* The device of this PE while it runs: may a call use it, what PEs agree on and exchange about it, and the wait until
 * all its streams are idle. Below all other files of this room. */
#include "../../bootstrap/log.h"
#include "../../bootstrap/thread.h"
#include "../team/agree.h"
#include "../node/wait.h"
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- is it running ---- */

struct device *iso_device_running(const char *call)
{
    struct device *d = iso_enter(call) == 0 ? iso_device_left(call) : NULL;
    if (d == NULL || !iso_device_is_suspended(d))
        return d;
    log_error("%s: device memory is lent back; call shmemx_resume first, on all PEs", iso_call_name(call));
    return NULL;
}

struct device *iso_device_left(const char *call)
{
    struct device *d = ISO->device;
    if (ISO->life != LIFE_RUNNING)
        (void)iso_refuse_entry(call);
    else if (d != NULL && d->running)
        return d;
    else
        log_error("%s: no device is in use; call shmemx_device_init first, on all PEs", iso_call_name(call));
    return NULL;
}

/* ---- what PEs agree on and exchange ---- */

int iso_device_agree(const char *call, int rc, const char *sentence)
{
    return iso_agree_outcome(ISO->world, rc, sentence, call);
}

int iso_device_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call)
{
    int rc = iso_pe_exchange(mine, theirs, call);
    return iso_device_agree(call, rc, "cannot send to the other PEs of its node");
}

struct pe_offer *iso_device_new_offers(void)
{
    struct pe_offer *offers = (struct pe_offer *)calloc((size_t)ISO->n_local, sizeof *offers);
    for (int i = 0; offers != NULL && i < ISO->n_local; i++)
        offers[i].fd = -1;
    return offers;
}

void iso_device_close_offers(struct pe_offer *offers)
{
    for (int i = 0; offers != NULL && i < ISO->n_local; i++)
        if (offers[i].fd >= 0)
            close(offers[i].fd);
    free(offers);
}

/* Not our own, not in this process. */
bool iso_device_imports(const struct device *d, int i)
{
    int pe = ISO->local_pes[i];
    return pe != ISO->my_pe && d->reaches[i] && !ISO->peers[pe].threaded;
}

/* ---- the end of all streams ---- */

/* A device cannot be polled as a whole, so a thread of its own waits for the device. Meanwhile the calling thread
 * watches the peers and reports a wait that lasts. */
struct finish {
    struct gpu *gpu;
    int rc;
    uint64_t done; /* atomic; 1: the thread is done; 2: the caller has given up */
};

static void *finish_main(void *argument)
{
    struct finish *f = (struct finish *)argument;
    f->rc = iso_gpu_wait_all(f->gpu);
    if (__atomic_exchange_n(&f->done, 1, __ATOMIC_ACQ_REL) == 2) /* pairs with iso_device_idle_within and the loads */
        free(f);
    return NULL;
}

int iso_device_idle_within(uint64_t timeout_ns)
{
    const struct timespec pause = {0, 1000000};
    uint64_t begun = iso_clock_now_ns();
    pthread_t thread;
    struct finish *f = (struct finish *)calloc(1, sizeof *f);
    if (f == NULL)
        return -ENOMEM;
    f->gpu = ISO->device->gpu;
    int rc = iso_thread_start(&thread, "isomer-finish", finish_main, f);
    if (rc != 0) {
        free(f);
        return rc;
    }
    while (__atomic_load_n(&f->done, __ATOMIC_ACQUIRE) == 0 && iso_clock_now_ns() - begun < timeout_ns)
        nanosleep(&pause, NULL);
    if (__atomic_exchange_n(&f->done, 2, __ATOMIC_ACQ_REL) == 0) { /* pairs with finish_main, which frees it */
        pthread_detach(thread);
        return -ETIMEDOUT;
    }
    pthread_join(thread, NULL);
    rc = f->rc;
    free(f);
    return rc;
}

int iso_device_finish_streams(const char *call)
{
    struct device *d = ISO->device;
    pthread_t thread;
    if (d == NULL || !d->running)
        return 0;
    struct finish f = {d->gpu, 0, 0};
    if (iso_thread_start(&thread, "isomer-finish", finish_main, &f) != 0) {
        f.rc = iso_gpu_wait_all(d->gpu);
    } else {
        struct wait w = ISO_WAIT(call, -1, NULL, 1);
        w.kind = WAIT_STREAM;
        while (__atomic_load_n(&f.done, __ATOMIC_ACQUIRE) == 0 && iso_wait_pause(&w, 0) == 0)
            continue;
        iso_wait_end(&w);
        pthread_join(thread, NULL);
    }
    if (f.rc != 0)
        log_error("%s: waiting for the work in the streams failed: %s", iso_call_name(call), iso_gpu_error(d->gpu));
    return f.rc;
}
