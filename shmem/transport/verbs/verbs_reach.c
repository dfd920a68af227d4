/* SPDX-License-Identifier: MIT */
/* Device memory and the RDMA device: the method by which the one reaches the other, chosen when the first range is
 * registered, and the flush that makes its writes visible. A completion says that bytes are on their way to a GPU over
 * the bus, not that a kernel sees them. Where the GPU does not keep writes in order, a read of the same memory by the
 * same RDMA device goes between the writes and the signal. Called by the other verbs files. */
#include "../../../bootstrap/env.h"
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const wishes[] = {
#define X(id, wish, text) wish,
    VERBS_METHODS(X)
#undef X
};
static const char *const texts[] = {
#define X(id, wish, text) text,
    VERBS_METHODS(X)
#undef X
        "not in use",
};

int iso_verbs_reach_start(struct verbs *v)
{
    int wish = 0;
    while (wish < VERBS_ANY_METHOD && strcmp(ISO->env->device_rdma, wishes[wish]) != 0)
        wish++;
    v->reach.wish = (enum verbs_method)wish;
    v->reach.method = VERBS_ANY_METHOD;
    if (wish < VERBS_ANY_METHOD || ISO->env->device_rdma[0] == '\0')
        return 0;
    log_error("shmem_init: SHMEM_DEVICE_RDMA is \"%s\"; allowed: dmabuf, peer, staged, or empty",
              ISO->env->device_rdma);
    return -EINVAL;
}

/* ---- the methods ---- */

static void note(struct verbs_reach *reach, enum verbs_method method, const char *call, const char *why)
{
    size_t n = strlen(reach->why);
    snprintf(reach->why + n, sizeof reach->why - n, "%s%s: %s%s%s", n > 0 ? "; " : "", wishes[method], call,
             call[0] != '\0' ? ": " : "", why);
}

/* The registration keeps the memory, so the descriptor is closed at once. */
static struct ibv_mr *register_dmabuf(struct verbs *v, struct gpu *gpu, const struct range *range)
{
    uint64_t offset = 0;
    int fd = -1;
    if (v->lib.reg_dmabuf_mr == NULL) {
        note(&v->reach, VERBS_DMABUF, "", "libibverbs has no ibv_reg_dmabuf_mr: it is older than 34");
        return NULL;
    }
    if (iso_gpu_export_dmabuf(gpu, (char *)(uintptr_t)range->start, range->end - range->start, &fd, &offset) != 0) {
        note(&v->reach, VERBS_DMABUF, "", iso_gpu_error(gpu));
        return NULL;
    }
    errno = 0;
    struct ibv_mr *mr = v->lib.reg_dmabuf_mr(v->pd, offset, range->end - range->start, range->start, fd, VERBS_EXPOSED);
    if (mr == NULL)
        note(&v->reach, VERBS_DMABUF, "ibv_reg_dmabuf_mr", strerror(errno));
    close(fd);
    return mr;
}

/* Tries the chosen or requested method, else all from the best one down. *method is the last one tried. */
static struct ibv_mr *register_by_best(struct verbs *v, struct gpu *gpu, const struct range *range,
                                       enum verbs_method *method)
{
    const struct verbs_reach *reach = &v->reach;
    enum verbs_method only = reach->method != VERBS_ANY_METHOD ? reach->method : reach->wish;
    struct ibv_mr *mr = NULL;
    *method = only != VERBS_ANY_METHOD ? only : VERBS_DMABUF;
    if (*method == VERBS_DMABUF) {
        mr = register_dmabuf(v, gpu, range);
        if (mr == NULL && only == VERBS_ANY_METHOD)
            *method = VERBS_PEER;
    }
    if (*method == VERBS_PEER) {
        errno = 0;
        mr = v->lib.reg_mr(v->pd, (void *)(uintptr_t)range->start, range->end - range->start, VERBS_EXPOSED);
        if (mr == NULL)
            note(&v->reach, VERBS_PEER, "ibv_reg_mr", strerror(errno));
        if (mr == NULL && only == VERBS_ANY_METHOD)
            *method = VERBS_STAGED;
    }
    return mr;
}

struct ibv_mr *iso_verbs_register_device(struct verbs *v, struct gpu *gpu, struct range range)
{
    struct verbs_reach *reach = &v->reach;
    enum verbs_method method;
    bool first = reach->method == VERBS_ANY_METHOD;
    char before[sizeof reach->why];
    memcpy(before, reach->why, sizeof before);
    reach->why[0] = '\0';
    struct ibv_mr *mr = register_by_best(v, gpu, &range, &method);
    if (mr == NULL && method != VERBS_STAGED && reach->wish != VERBS_ANY_METHOD)
        iso_network_lose(&v->net, -1, "SHMEM_DEVICE_RDMA is \"%s\", but %s of pe %d (host %s) cannot reach %llu KiB of "
                         "device memory at %#llx by that method: %s", wishes[reach->wish], v->port.device, ISO->my_pe,
                         ISO->boot.host, (unsigned long long)(range.end - range.start) >> 10,
                         (unsigned long long)range.start, reach->why);
    if (first) {
        reach->method = method;
        reach->flushes |= !iso_gpu_describe(gpu)->orders_writes;
        log_debug("verbs: device memory %s%s%s", texts[method], reach->why[0] != '\0' ? ": no " : "", reach->why);
        return mr;
    }
    if (mr == NULL && method != VERBS_STAGED)
        log_info("verbs: %llu KiB of device memory at %#llx are staged by the host, all else %s: %s",
                 (unsigned long long)(range.end - range.start) >> 10, (unsigned long long)range.start,
                 texts[method], reach->why);
    memcpy(reach->why, before, sizeof before);
    return mr;
}

size_t iso_verbs_reach_text(const struct verbs *v, char *text, size_t bytes)
{
    const struct verbs_reach *reach = &v->reach;
    bool wished = reach->wish != VERBS_ANY_METHOD;
    return (size_t)snprintf(text, bytes, "device memory %s%s%s%s", texts[reach->method],
                            reach->why[0] != '\0' ? " (no " : "", reach->why,
                            reach->why[0] != '\0' ? ")"
                            : wished              ? " (SHMEM_DEVICE_RDMA)"
                                                  : "");
}

/* ---- visibility of writes ---- */

void iso_verbs_flush(struct verbs *v, struct verbs_queue *q)
{
    if (ISO_LIKELY(q->unflushed == 0))
        return;
    iso_verbs_make_room(v, q, 1, 0);
    const struct verbs_request request = {
        .remote = q->unflushed, .len = 1, .slot = -1, .opcode = (uint8_t)IBV_WR_RDMA_READ};
    if (q->unflushed == 0) /* another thread was faster */
        return;
    struct ibv_send_wr *wr = iso_verbs_add(v, q, &request);
    *wr->sg_list = (struct ibv_sge){(uint64_t)(uintptr_t)v->scratch, 1, v->memory_mr->lkey};
    wr->wr.rdma.remote_addr = q->unflushed;
    wr->wr.rdma.rkey = q->unflushed_key;
    q->unflushed = 0;
    q->reads_first = true;
}

void iso_verbs_flush_own(struct verbs_queue *q)
{
    if (ISO_LIKELY(!q->fills_device))
        return;
    q->fills_device = q->done < q->made; /* another thread's may still be under way: it will wait, too */
    iso_gpu_flush_writes(ISO->device->gpu);
}
