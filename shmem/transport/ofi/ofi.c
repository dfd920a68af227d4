/* SPDX-License-Identifier: MIT */
/* Other nodes by libfabric: start and end, the text for isomer-info, and the row in transport.c. ofi.h describes the
 * state. */
#include "ofi.h"
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : ISO->prefers_ofi && ISO->env->transport[0] == '\0'
                                                           ? "another node: by libfabric, as a host has no RDMA port"
                                                           : "another node: by libfabric (SHMEM_TRANSPORT)";
    return !peer->local;
}

static const char *moves_text(const struct ofi *o)
{
    return !o->bulk ? "messages" : o->staged ? "RMA, puts through a stage" : "RMA";
}

static size_t text(char *at, size_t bytes)
{
    const struct ofi *o = ISO->ofi;
    char name[96];
    size_t n;
    if (o == NULL || o->info == NULL)
        return 0;
    n = (size_t)snprintf(at, bytes, "libfabric %s at %s, large moves by %s%s%s%s%s%s: keys %llu, ",
                         o->info->fabric_attr->prov_name,
                         iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, name, sizeof name),
                         moves_text(o), o->local_keys ? ", FI_MR_LOCAL" : "",
                         o->virt_addr ? ", FI_MR_VIRT_ADDR" : "", o->prov_key ? ", FI_MR_PROV_KEY" : "",
                         o->net.pins ? ", FI_MR_ALLOCATED" : "", o->bind_endpoint ? ", FI_MR_ENDPOINT" : "",
                         (unsigned long long)o->net.asked_keys);
#define X(field)                                                                                     \
    n += (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "%s %llu, ", #field, \
                          (unsigned long long)o->counts.field);
    OFI_COUNTS(X)
#undef X
    return n + (size_t)snprintf(n < bytes ? at + n : NULL, n < bytes ? bytes - n : 0, "device memory by %s%s%s",
                                o->net.device_direct ? "RMA" : "messages: ", o->device_why,
                                o->net.device_direct && o->hmem ? ", FI_HMEM" : "");
}

static const char *error_text(int error) { return ISO->ofi->lib.error_text(error); }

static void complete(void)
{
    struct ofi *o = ISO->ofi;
    for (int group = 0; group < NETWORK_GROUPS; group++)
        for (struct ofi_queue *q = iso_ofi_first(o, group); q != NULL; q = iso_ofi_next(q))
            iso_ofi_settle(o, q, q->asks.made, q->moves.made, "shmem_finalize");
}

const struct network_port iso_ofi_port = {
    .name = "ofi",
    .drop = iso_ofi_drop_all,
    .drops_late = true,
    .connect = iso_ofi_connect,
    .fence = iso_ofi_fence,
    .begin_quiet = iso_ofi_begin_quiet,
    .end_quiet = iso_ofi_end_quiet,
    .complete = complete,
    .look = iso_ofi_look,
    .sleep = iso_ofi_sleep,
    .text = text,
    .error_text = error_text,
    .expose = iso_ofi_expose,
    .conceal = iso_ofi_conceal,
    .make_key = iso_ofi_make_key,
    .answer = iso_ofi_answer,
};

/* ---- start ---- */

static const struct library_function functions[] = {
#define X(field, name) {#name, offsetof(struct ofi_library, field)},
    OFI_FUNCTIONS(X)
#undef X
    {NULL, 0}};
static const struct library_needs needs = {
    .file = "libfabric.so.1",
    .purpose = "this job has PEs on several nodes, which needs an active RDMA port on each host, or libfabric",
    .install = "the package libfabric1",
    .newer = "libfabric1 1.15 or later",
    .functions = functions,
};

static int open_ofi(void)
{
    struct ofi *o = (struct ofi *)calloc(1, sizeof *o);
    if (o == NULL)
        return -ENOMEM;
    ISO->ofi = o;
    o->fd = o->first_waiting = -1;
    o->peers = (struct ofi_peer *)calloc((size_t)ISO->n_pes, sizeof *o->peers);
    o->net.nowhere = &o->nowhere.link;
    int rc = iso_network_open(&o->net, &iso_ofi_port);
    if (rc == 0)
        rc = o->peers != NULL ? iso_library_open(&needs, &o->lib) : -ENOMEM;
    return rc != 0 ? rc : iso_ofi_fabric_open(o);
}

NETWORK_FORWARDERS(ofi)

static int start(void)
{
    struct ofi *o = ISO->ofi;
    char at[96];
    iso_ofi_lock(o);
    int rc = iso_ofi_post_start(o);
    iso_ofi_unlock(o);
    if (rc != 0)
        return rc;
    ISO->soft_network = o->info->nic == NULL; /* its packets take time of these cores */
    iso_channel_set_handler(answer);
    log_debug("ofi: %s at %s, large moves by %s", o->info->fabric_attr->prov_name,
              iso_ofi_name_text(o->name, o->name_len, o->info->addr_format, at, sizeof at),
              moves_text(o));
    return iso_network_thread_start(&o->net);
}

/* ---- end ---- */

static void destroy(struct ofi *o)
{
    iso_ofi_endpoint_close(o);
    iso_ofi_unregister(o);
    iso_ofi_memory_stop(o);
    iso_ofi_post_stop(o);
    iso_ofi_fabric_close(o);
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++) {
        for (int group = 0; group < NETWORK_GROUPS; group++) {
            struct ofi_incoming *in = o->peers[pe].in != NULL ? &o->peers[pe].in[group] : NULL;
            while (in != NULL && in->held != NULL) {
                struct ofi_held *held = in->held;
                in->held = held->next;
                free(held);
            }
            free(o->net.peers[pe].out[group]);
        }
        free(o->peers[pe].in);
    }
    iso_network_close(&o->net);
    free(o->peers);
    free(o);
}

static void stop(void)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return;
    iso_network_stop(&o->net);
    ISO->ofi = NULL;
    destroy(o);
}

const struct transport_ops iso_transport_ofi = {
    .name = "ofi",
    .open = open_ofi,
    .start = start,
    .stop = stop,
    NETWORK_ROW,
    .text = text,
    .reaches = reaches,
    .put = iso_ofi_put,
    .get = iso_ofi_get,
    .amo = iso_ofi_amo,
    .amo_nbi = iso_ofi_amo_nbi,
    .signal = iso_ofi_signal,
    .put_signal = iso_ofi_put_signal,
    .put_words = iso_ofi_put_words,
    .progress = iso_ofi_progress,
    .rest = iso_ofi_rest,
};
