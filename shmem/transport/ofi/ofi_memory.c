/* SPDX-License-Identifier: MIT */
/* Registered memory, for RMA only: messages need no key of the peer. Segments of this PE are registered range by range
 * (range.h), when an RMA of this PE or of a peer first needs a byte. Peers' keys are requested through the channel,
 * once per range. */
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- registrations ---- */

/* The region of segment s around addr. NULL: *error says why, and of device memory nothing is reached by RMA then. */
static struct ofi_region *region_at(struct ofi *o, const struct segment *s, const void *addr, int *error)
{
    uint64_t at = (uint64_t)(uintptr_t)addr;
    struct ofi_region *region = (struct ofi_region *)iso_range_find(&o->regions, sizeof *region, at);
    *error = 0;
    if (region != NULL)
        return region;
    struct range r = iso_range_gap(&o->regions, sizeof *region, iso_range_around(s, addr), at);
    struct ofi_region fresh = {r.start, r.end, NULL};
    *error = iso_ofi_register(o, (const void *)(uintptr_t)r.start, (size_t)(r.end - r.start),
                              s->on_device ? OFI_DEVICE : OFI_REMOTE, &fresh.mr);
    if (*error != 0 && s->on_device) {
        o->device_rma = false;
        snprintf(o->device_why, sizeof o->device_why, "registering %llu KiB failed: %.100s",
                 (unsigned long long)(r.end - r.start) >> 10, o->lib.error_text(-*error));
        log_info("ofi: device memory goes by messages: %s", o->device_why);
    }
    if (*error != 0)
        return NULL;
    region = (struct ofi_region *)iso_range_add(&o->regions, sizeof fresh, &fresh);
    if (region == NULL) {
        iso_ofi_close_region(&fresh);
        *error = -ENOMEM;
        return NULL;
    }
    log_debug("ofi: registered %llu KiB at %#llx", (unsigned long long)(r.end - r.start) >> 10,
              (unsigned long long)r.start);
    return region;
}

struct fid_mr *iso_ofi_local(struct ofi *o, const void *addr, size_t *len, struct fid_mr **once)
{
    int error = 0;
    *once = NULL;
    const struct segment *s = o->local_keys || o->regions.n > 0 ? iso_segment_of(addr, 1) : NULL;
    if (!o->local_keys && (s == NULL || !s->on_device))
        return NULL;
    const struct ofi_region *r = s != NULL ? region_at(o, s, addr, &error) : NULL; /* a device's is there */
    if (r != NULL) {
        *len = (size_t)ISO_MIN((uint64_t)*len, r->end - (uint64_t)(uintptr_t)addr);
        return r->mr;
    }
    if (error == 0)
        error = iso_ofi_register(o, addr, *len, OFI_LOCAL, once);
    if (error != 0)
        iso_network_lose(&o->net, -1, "registering %zu bytes at %p of pe %d (host %s) with libfabric's provider %s failed: %s; the "
                     "limit of locked memory is %llu KiB", *len, addr, ISO->my_pe, ISO->boot.host,
                     o->info->fabric_attr->prov_name, o->lib.error_text(-error),
                     (unsigned long long)iso_range_locked_limit() >> 10);
    return *once;
}

/* ---- keys of peers ---- */

struct ofi_key iso_ofi_key_of(struct ofi *o, int pe, uint64_t addr)
{
    struct ofi_peer *peer = &o->peers[pe];
    const struct ofi_key none = {.start = addr, .end = UINT64_MAX, .by_message = 1}; /* while lost */
    const char *host = ISO->peers[pe].host;
    const struct ofi_key *known = (const struct ofi_key *)iso_range_find(&peer->keys, sizeof *known, addr);
    if (ISO_LIKELY(known != NULL))
        return *known;
    struct ofi_key_info info = {.type = OFI_KEY, .addr = addr};
    if (o->net.lost)
        return none;
    if (iso_network_ask(&o->net, pe, &info, sizeof info) != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) was not told the key of a segment of pe %d (host %s)", ISO->my_pe,
                     ISO->boot.host, pe, host);
    if (o->net.lost)
        return none;
    if (info.error == -EFAULT || (info.error == 0 && addr - info.key.start >= info.key.end - info.key.start))
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no segment at address %#llx, which pe %d (host %s) wants to reach", pe,
                     host, (unsigned long long)addr, ISO->my_pe, ISO->boot.host);
    else if (info.error != 0)
        iso_network_lose(&o->net, -1, "pe %d (host %s) cannot register memory at address %#llx with libfabric's provider %s for pe "
                     "%d (host %s): %s", pe, host, (unsigned long long)addr, o->info->fabric_attr->prov_name,
                     ISO->my_pe, ISO->boot.host, o->lib.error_text(-info.error));
    else if (iso_range_add(&peer->keys, sizeof info.key, &info.key) == NULL)
        iso_network_lose(&o->net, -1, "pe %d (host %s) has no memory for the keys of pe %d", ISO->my_pe, ISO->boot.host, pe);
    o->counts.keys++;
    return o->net.lost ? none : info.key;
}

void iso_ofi_answer_key(struct ofi *o, struct ofi_key_info *info)
{
    const void *addr = (const void *)(uintptr_t)info->addr;
    const struct segment *s = iso_segment_of(addr, 1);
    info->error = s == NULL ? -EFAULT : 0;
    if (s == NULL)
        return;
    bool by_rma = !s->on_device || o->device_rma;
    const struct ofi_region *r = by_rma ? region_at(o, s, addr, &info->error) : NULL;
    if (r != NULL) {
        bool flushes = s->on_device && !iso_gpu_describe(ISO->device->gpu)->orders_writes;
        info->key = (struct ofi_key){r->start, r->end, o->virt_addr ? 0 : r->start, fi_mr_key(r->mr), 0, flushes};
    } else if (s->on_device) { /* of any range: messages find out */
        struct range around = iso_range_around(s, addr);
        info->error = 0;
        info->key = (struct ofi_key){.start = around.start, .end = around.end, .by_message = 1};
    }
}

/* ---- device memory ---- */

void iso_ofi_exchange_device(const struct segment *segment)
{
    struct ofi *o = ISO->ofi;
    int error;
    iso_ofi_lock(o);
    if (o->device_rma)
        (void)region_at(o, segment, segment->base, &error);
    iso_ofi_unlock(o);
}

bool iso_ofi_moves_device(struct place at, const void *local, size_t len)
{
    struct ofi *o = ISO->ofi;
    uint64_t here = (uint64_t)(uintptr_t)local, end = here + len;
    uint64_t remote = (uint64_t)(uintptr_t)at.segment->peers[at.pe].base + at.offset;
    int error;
    iso_ofi_lock(o);
    while (here < end && o->device_rma) {
        const void *from = (const void *)(uintptr_t)here;
        const struct segment *s = iso_segment_of(from, 1);
        const struct ofi_region *r = s != NULL ? region_at(o, s, from, &error) : NULL;
        uint64_t n = r != NULL ? ISO_MIN(end, r->end) - here : 0;
        const struct ofi_key key = r != NULL ? iso_ofi_key_of(o, at.pe, remote) : (struct ofi_key){.by_message = 1};
        if (key.by_message != 0)
            break;
        n = ISO_MIN(n, key.end - remote);
        here += n;
        remote += n;
    }
    iso_ofi_unlock(o);
    return here == end;
}

/* ---- stages ---- */

struct ofi_key iso_ofi_stage_of(struct ofi *o, int pe)
{
    struct ofi_peer *peer = &o->peers[pe];
    struct ofi_key_info info = {.type = OFI_STAGE};
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

/* Mapped as shared, so that a fork leaves the pages alone. */
void iso_ofi_answer_stage(struct ofi *o, int pe, struct ofi_key_info *info)
{
    struct ofi_peer *peer = &o->peers[pe];
    info->error = 0;
    if (peer->stage == NULL) {
        void *at = mmap(NULL, OFI_STAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        info->error = -ENOMEM;
        if (at != MAP_FAILED)
            info->error = iso_ofi_register(o, at, OFI_STAGE_BYTES, OFI_REMOTE, &peer->stage_mr);
        if (info->error != 0 && at != MAP_FAILED)
            munmap(at, OFI_STAGE_BYTES);
        if (info->error != 0)
            return;
        peer->stage = (char *)at;
    }
    uint64_t start = (uint64_t)(uintptr_t)peer->stage;
    uint64_t end = start + OFI_STAGE_BYTES, origin = o->virt_addr ? 0 : start;
    info->key = (struct ofi_key){start, end, origin, fi_mr_key(peer->stage_mr), 0, 0};
}

/* ---- the end of a segment ---- */

void iso_ofi_forget(const struct segment *segment)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return;
    iso_ofi_lock(o);
    iso_range_forget(&o->regions, sizeof(struct ofi_region), iso_range_of(segment->base, 0, segment->len),
                     iso_ofi_close_region);
    for (int pe = 0; pe < ISO->n_pes && segment->peers != NULL; pe++)
        iso_range_forget(&o->peers[pe].keys, sizeof(struct ofi_key),
                         iso_range_of(segment->peers[pe].base, 0, segment->len), NULL);
    iso_ofi_unlock(o);
}

/* Only a provider that wants pages to be there when they are registered (FI_MR_ALLOCATED) may keep them. Returns true
 * with the lock held, since a peer's request for a key would register the whole range around it, at any moment. */
bool iso_ofi_lock_unpinned(const struct segment *segment, size_t offset, size_t len)
{
    struct ofi *o = ISO->ofi;
    if (o == NULL)
        return true;
    iso_ofi_lock(o);
    bool pinned = o->pins && iso_range_overlaps(&o->regions, sizeof(struct ofi_region),
                                                iso_range_of(segment->base, offset, len));
    if (pinned)
        iso_ofi_unlock(o);
    return !pinned;
}

void iso_ofi_unlock_unpinned(void)
{
    if (ISO->ofi != NULL)
        iso_ofi_unlock(ISO->ofi);
}

void iso_ofi_memory_stop(struct ofi *o)
{
    free(o->regions.rows);
    for (int pe = 0; o->peers != NULL && pe < ISO->n_pes; pe++) {
        if (o->peers[pe].stage != NULL)
            munmap(o->peers[pe].stage, OFI_STAGE_BYTES);
        free(o->peers[pe].keys.rows);
    }
}
