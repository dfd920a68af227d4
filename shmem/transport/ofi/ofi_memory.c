/* SPDX-License-Identifier: MIT */
/* Registered memory, for RMA only: messages need no key of the peer. Ranges of segments are for network_memory.c. */
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

/* ---- registrations ---- */

/* When registering device memory fails, none is reached by RMA any more. */
int iso_ofi_expose(const struct segment *s, struct range r, void **mr)
{
    struct ofi *o = ISO->ofi;
    struct fid_mr *fid = NULL;
    size_t len = (size_t)(r.end - r.start);
    int rc = iso_ofi_register(o, (const void *)(uintptr_t)r.start, len, s->on_device ? OFI_DEVICE : OFI_REMOTE, &fid);
    *mr = fid;
    if (rc == 0 || !s->on_device)
        return rc;
    o->net.device_direct = false;
    snprintf(o->device_why, sizeof o->device_why, "registering %zu KiB failed: %.100s", len >> 10,
             o->lib.error_text(-rc));
    log_info("ofi: device memory goes by messages: %s", o->device_why);
    return rc;
}

void iso_ofi_conceal(struct network *n, void *mr)
{
    (void)n;
    fi_close(&((struct fid_mr *)mr)->fid);
}

struct fid_mr *iso_ofi_local(struct ofi *o, const void *addr, size_t *len, struct fid_mr **once)
{
    int error = 0;
    *once = NULL;
    const struct segment *s = o->local_keys || o->net.regions.n > 0 ? iso_segment_of(addr, 1) : NULL;
    if (!o->local_keys && (s == NULL || !s->on_device))
        return NULL;
    const struct network_region *r =
        s != NULL ? iso_network_region_at(&o->net, s, addr, &error) : NULL; /* a device's is there */
    if (r != NULL) {
        *len = (size_t)ISO_MIN((uint64_t)*len, r->end - (uint64_t)(uintptr_t)addr);
        return (struct fid_mr *)r->mr;
    }
    if (error == 0)
        error = iso_ofi_register(o, addr, *len, OFI_LOCAL, once);
    if (error != 0)
        iso_network_lose(&o->net, -1, "registering %zu bytes at %p of pe %d (host %s) with libfabric's provider %s "
                         "failed: %s; the limit of locked memory is %llu KiB", *len, addr, ISO->my_pe, ISO->boot.host,
                         o->info->fabric_attr->prov_name, o->lib.error_text(-error),
                         (unsigned long long)iso_range_locked_limit() >> 10);
    return *once;
}

/* ---- keys of peers ---- */

int iso_ofi_make_key(int pe, const struct segment *s, const void *addr, struct network_key *key)
{
    struct ofi *o = ISO->ofi;
    int error = 0;
    (void)pe;
    bool by_rma = !s->on_device || o->net.device_direct;
    const struct network_region *r = by_rma ? iso_network_region_at(&o->net, s, addr, &error) : NULL;
    if (r != NULL) {
        bool flushes = s->on_device && !iso_gpu_describe(ISO->device->gpu)->orders_writes;
        *key = (struct network_key){.start = r->start,
                                    .end = r->end,
                                    .at = o->virt_addr ? 0 : r->start,
                                    .key = fi_mr_key((struct fid_mr *)r->mr),
                                    .flushes = flushes};
        return 0;
    }
    struct range around = iso_range_around(s, addr); /* of any range: messages find out */
    *key = (struct network_key){.start = around.start, .end = around.end, .by_cpu = 1};
    return s->on_device ? 0 : error;
}

/* ---- stages ---- */

struct network_key iso_ofi_stage_of(struct ofi *o, int pe)
{
    struct ofi_peer *peer = &o->peers[pe];
    struct network_key_info info = {.type = OFI_STAGE};
    if (ISO_LIKELY(peer->there.end != 0 || o->net.lost))
        return peer->there;
    int rc = iso_network_ask(&o->net, pe, &info, sizeof info);
    if (rc != 0 || info.error != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no stage of %d bytes for puts of pe %d (host %s): %s", pe,
                         ISO->peers[pe].host, OFI_STAGE_BYTES, ISO->my_pe, ISO->boot.host,
                         o->lib.error_text(rc != 0 ? -rc : -info.error));
    if (peer->there.end == 0 && !o->net.lost) { /* else another thread was faster */
        peer->there = info.key;
        peer->free_parts = (1u << OFI_PARTS) - 1;
    }
    return peer->there;
}

int iso_ofi_answer_stage(struct ofi *o, int pe, struct network_key *key)
{
    struct ofi_peer *peer = &o->peers[pe];
    if (peer->stage == NULL) {
        char *at = iso_network_map(OFI_STAGE_BYTES);
        int rc = at != NULL ? iso_ofi_register(o, at, OFI_STAGE_BYTES, OFI_REMOTE, &peer->stage_mr) : -ENOMEM;
        if (rc != 0 && at != NULL)
            munmap(at, OFI_STAGE_BYTES);
        if (rc != 0)
            return rc;
        peer->stage = at;
    }
    uint64_t start = (uint64_t)(uintptr_t)peer->stage;
    *key = (struct network_key){.start = start,
                                .end = start + OFI_STAGE_BYTES,
                                .at = o->virt_addr ? 0 : start,
                                .key = fi_mr_key(peer->stage_mr)};
    return 0;
}

void iso_ofi_memory_stop(struct ofi *o)
{
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++)
        if (o->peers[pe].stage != NULL)
            munmap(o->peers[pe].stage, OFI_STAGE_BYTES);

}
