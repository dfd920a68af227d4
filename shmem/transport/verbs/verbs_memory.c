/* SPDX-License-Identifier: MIT */
/* Registered memory: of the transport itself, and of segments, for network_memory.c. Device memory that the RDMA device
 * does not reach is staged: the key is that of a stage of the pair. */
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "verbs.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- the transport's own memory ---- */

int iso_verbs_memory_start(struct verbs *v)
{
    size_t receives = (size_t)VERBS_RECEIVES * VERBS_RECEIVE_BYTES;
    size_t slots = (size_t)VERBS_SLOTS * VERBS_SLOT_BYTES;
    v->memory_bytes = receives + slots + ISO_LINE;
    v->memory = iso_network_map(v->memory_bytes);
    if (v->memory == NULL)
        return -ENOMEM;
    v->memory_mr = v->lib.reg_mr(v->pd, v->memory, v->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (v->memory_mr == NULL) {
        log_error("shmem_init: registering %zu bytes with the RDMA device %s failed: %m; the limit of locked memory is "
                  "%llu KiB (raise it: ulimit -l unlimited, or LimitMEMLOCK of the service that starts the job)",
                  v->memory_bytes, v->port.device, (unsigned long long)iso_range_locked_limit() >> 10);
        return -ENOMEM;
    }
    v->slots = v->memory + receives;
    v->scratch = v->slots + slots;
    for (int i = 0; i < VERBS_SLOTS; i++)
        v->free_slots[v->n_free_slots++] = (int16_t)(VERBS_SLOTS - 1 - i);
    return 0;
}

void iso_verbs_memory_stop(struct verbs *v)
{
    iso_network_unregister(&v->net);
    for (int pe = 0; v->peers != NULL && pe < ISO->n_pes; pe++) {
        struct verbs_peer *peer = &v->peers[pe];
        if (peer->stage_mr != NULL)
            v->lib.dereg_mr(peer->stage_mr);
        if (peer->stage != NULL)
            munmap(peer->stage, VERBS_STAGE_BYTES);
    }
    if (v->memory_mr != NULL)
        v->lib.dereg_mr(v->memory_mr);
    if (v->memory != NULL)
        munmap(v->memory, v->memory_bytes);
}

/* ---- segments ---- */

int iso_verbs_expose(const struct segment *s, struct range r, void **mr)
{
    struct verbs *v = ISO->verbs;
    errno = 0; /* not every provider sets it */
    *mr = s->on_device ? iso_verbs_register_device(v, ISO->device->gpu, r)
                       : v->lib.reg_mr(v->pd, (void *)(uintptr_t)r.start, r.end - r.start, VERBS_EXPOSED);
    v->counts.registrations++;
    v->counts.system_calls++;
    return *mr != NULL || s->on_device ? 0 : errno != 0 ? -errno : -ENOMEM;
}

void iso_verbs_conceal(struct network *n, void *mr)
{
    iso_verbs_unregister((struct verbs *)(void *)n, (struct ibv_mr *)mr);
}

struct ibv_mr *iso_verbs_register_once(struct verbs *v, const void *addr, size_t len, bool written)
{
    struct ibv_mr *mr = v->lib.reg_mr(v->pd, (void *)(uintptr_t)addr, len, written ? (int)IBV_ACCESS_LOCAL_WRITE : 0);
    v->counts.registrations++;
    v->counts.system_calls++;
    return mr;
}

/* The stage of the pair, made if need be. NULL: it cannot be registered. */
static struct ibv_mr *stage_of(struct verbs *v, struct verbs_peer *peer)
{
    if (peer->stage == NULL)
        peer->stage = iso_network_map(VERBS_STAGE_BYTES);
    if (peer->stage == NULL || peer->stage_mr != NULL)
        return peer->stage_mr;
    peer->stage_mr = v->lib.reg_mr(v->pd, peer->stage, VERBS_STAGE_BYTES, VERBS_EXPOSED);
    v->counts.registrations++;
    v->counts.system_calls++;
    return peer->stage_mr;
}

int iso_verbs_make_key(int pe, const struct segment *s, const void *addr, struct network_key *key)
{
    struct verbs *v = ISO->verbs;
    int error;
    const struct network_region *r = iso_network_region_at(&v->net, s, addr, &error);
    if (r == NULL)
        return error;
    const struct ibv_mr *mr = (const struct ibv_mr *)r->mr;
    bool staged = mr == NULL;
    if (staged && (mr = stage_of(v, &v->peers[pe])) == NULL)
        return -ENOMEM;
    *key = (struct network_key){.start = r->start,
                                .end = r->end,
                                .at = staged ? (uint64_t)(uintptr_t)v->peers[pe].stage : 0,
                                .key = mr->rkey,
                                .by_cpu = staged,
                                .flushes = s->on_device && v->reach.flushes};
    return 0;
}
