/* SPDX-License-Identifier: MIT */
/* RDMA between nodes: its start and end, its text for isomer-info, and its row in transport.c. verbs.h describes the
 * state. */
#include "verbs.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static bool reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : "another node: by RDMA (libibverbs)";
    return !peer->local;
}

static size_t text(char *at, size_t bytes)
{
    const struct verbs *v = ISO->verbs;
    size_t n;
    if (v == NULL)
        return 0;
    n = (size_t)snprintf(at, bytes, "%s port %d gid %d: keys %llu, ", v->port.device, v->port.number, v->port.gid_index,
                         (unsigned long long)v->net.asked_keys);
#define X(name)                                                                                     \
    n += (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "%s %llu, ", #name, \
                          (unsigned long long)v->counts.name);
    VERBS_COUNTS(X)
#undef X
    return n + iso_verbs_reach_text(v, n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0);
}

static const char *error_text(int error) { return strerror(error); }

static void complete(void)
{
    struct verbs *v = ISO->verbs;
    for (uint32_t i = 0; i < v->n_queues; i++) {
        iso_verbs_post(v, v->queues[i]);
        iso_verbs_wait(v, v->queues[i], v->queues[i]->made, v->queues[i]->asked, "shmem_finalize");
    }
}

const struct network_port iso_verbs_port = {
    .name = "verbs",
    .drop = iso_verbs_drop_all,
    .connect = iso_verbs_connect,
    .fence = iso_verbs_fence,
    .begin_quiet = iso_verbs_begin_quiet,
    .end_quiet = iso_verbs_end_quiet,
    .complete = complete,
    .look = iso_verbs_look,
    .sleep = iso_verbs_sleep,
    .text = text,
    .error_text = error_text,
    .expose = iso_verbs_expose,
    .conceal = iso_verbs_conceal,
    .make_key = iso_verbs_make_key,
    .answer = iso_verbs_answer,
};

/* ---- start ---- */

static int make_queues(struct verbs *v)
{
    v->events = v->lib.create_comp_channel(v->device);
    if (v->events != NULL) {
        v->sent = v->lib.create_cq(v->device, VERBS_COMPLETIONS, NULL, v->events, 0);
        v->received = v->lib.create_cq(v->device, VERBS_RECEIVES, NULL, v->events, 0);
    }
    if (v->sent == NULL || v->received == NULL) {
        log_error("shmem_init: the RDMA device %s of host %s gives no completion queues of %d and %d entries: %m",
                  v->port.device, ISO->boot.host, VERBS_COMPLETIONS, VERBS_RECEIVES);
        return -EIO;
    }
    /* A thread that takes an event must never sleep in the read: another thread may have been faster. */
    fcntl(v->events->fd, F_SETFL, fcntl(v->events->fd, F_GETFL) | O_NONBLOCK);
    fcntl(v->device->async_fd, F_SETFL, fcntl(v->device->async_fd, F_GETFL) | O_NONBLOCK);
    return 0;
}

static const struct library_function functions[] = {
#define X(field, name) {#name, offsetof(struct verbs_library, field)},
    VERBS_FUNCTIONS(X)
#undef X
    {NULL, 0}};
static const struct library_needs needs = {
    .file = "libibverbs.so.1",
    .purpose = "this job has PEs on several nodes, which needs RDMA",
    .install = "the packages libibverbs1 and ibverbs-providers",
    .newer = "libibverbs1 28 or later",
    .functions = functions,
};

static int open_verbs(void)
{
    struct verbs *v = (struct verbs *)calloc(1, sizeof *v);
    if (v == NULL)
        return -ENOMEM;
    ISO->verbs = v;
    v->net.device_direct = v->net.pins = true;
    v->peers = (struct verbs_peer *)calloc((size_t)ISO->n_pes, sizeof *v->peers);
    v->net.nowhere = &v->nowhere.link;
    int rc = iso_network_open(&v->net, &iso_verbs_port);
    if (rc == 0)
        rc = v->peers != NULL ? iso_verbs_reach_start(v) : -ENOMEM;
    if (rc == 0)
        rc = iso_library_open(&needs, &v->lib);
    if (rc == 0) {
        void *newer = dlsym(v->lib.handle, "ibv_reg_dmabuf_mr");
        memcpy(&v->lib.reg_dmabuf_mr, &newer, sizeof newer);
        rc = iso_verbs_device_open(v);
    }
    if (rc == 0)
        rc = make_queues(v);
    return rc;
}

NETWORK_FORWARDERS(verbs)

static int start(void)
{
    struct verbs *v = ISO->verbs;
    int rc = iso_verbs_memory_start(v);
    if (rc == 0)
        rc = iso_verbs_receive_start(v);
    if (rc != 0)
        return rc;
    if (v->port.software) { /* polls that do not yield would keep the network from the cores */
        ISO->oversubscribed = ISO->soft_network = true;
        prctl(PR_SET_TIMERSLACK, 1000ul); /* sleeps of this thread: 1 us late instead of 50 */
    }
    iso_channel_set_handler(answer);
    log_debug("verbs: %s port %d, GID %d%s", v->port.device, v->port.number, v->port.gid_index,
              v->port.software ? ", made of software" : "");
    return iso_network_thread_start(&v->net);
}

/* ---- end ---- */

static void destroy(struct verbs *v)
{
    for (uint32_t i = 0; i < v->n_queues; i++) {
        v->lib.destroy_qp(v->queues[i]->qp);
        free(v->queues[i]);
    }
    free(v->queues);
    if (v->srq != NULL)
        v->lib.destroy_srq(v->srq);
    if (v->received != NULL)
        v->lib.destroy_cq(v->received);
    if (v->sent != NULL)
        v->lib.destroy_cq(v->sent);
    if (v->events != NULL)
        v->lib.destroy_comp_channel(v->events);
    iso_verbs_memory_stop(v);
    if (v->pd != NULL)
        v->lib.dealloc_pd(v->pd);
    if (v->device != NULL)
        v->lib.close_device(v->device);
    iso_network_close(&v->net);
    free(v->peers);
    free(v);
}

static void stop(void)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL)
        return;
    iso_network_stop(&v->net);
    ISO->verbs = NULL;
    destroy(v);
}

const struct transport_ops iso_transport_verbs = {
    .name = "verbs",
    .open = open_verbs,
    .start = start,
    .stop = stop,
    NETWORK_ROW,
    .text = text,
    .reaches = reaches,
    .put = iso_verbs_put,
    .get = iso_verbs_get,
    .amo = iso_verbs_amo,
    .amo_nbi = iso_verbs_amo_nbi,
    .signal = iso_verbs_signal,
    .put_signal = iso_verbs_put_signal,
    .put_words = iso_verbs_put_words,
    .progress = iso_verbs_progress,
    .rest = iso_verbs_rest,
};
