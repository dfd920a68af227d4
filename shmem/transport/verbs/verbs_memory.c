/* SPDX-License-Identifier: MIT */
/* Registered memory. Segments of this PE are registered range by range, when an operation of this PE or of a peer first
 * needs a byte: a sparse heap, or large arrays among the globals, are never pinned whole. One registration serves as
 * local and as remote key. It stays until the end or until `forget`. Peers' keys are requested through the channel,
 * once per range. Ranges are [start, end) of the owner's addresses; no two regions of this PE overlap. */
#include "../../../bootstrap/log.h"
#include "../../gpu/device.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { EXPOSED = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* ---- the transport's own memory: mapped as shared, so that a fork leaves its pages alone ---- */

static char *map_shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED ? (char *)at : NULL;
}

int iso_verbs_memory_start(struct verbs *v)
{
    size_t receives = (size_t)VERBS_RECEIVES * VERBS_RECEIVE_BYTES;
    size_t slots = (size_t)VERBS_SLOTS * VERBS_SLOT_BYTES;
    v->memory_bytes = receives + slots + ISO_LINE;
    v->memory = map_shared(v->memory_bytes);
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
    struct verbs_region *regions = (struct verbs_region *)v->regions.rows;
    for (int i = 0; i < v->regions.n; i++)
        if (regions[i].mr != NULL)
            v->lib.dereg_mr(regions[i].mr);
    free(regions);
    v->regions = (struct range_table){0};
    for (int pe = 0; v->peers != NULL && pe < ISO->n_pes; pe++) {
        struct verbs_peer *peer = &v->peers[pe];
        if (peer->stage_mr != NULL)
            v->lib.dereg_mr(peer->stage_mr);
        if (peer->stage != NULL)
            munmap(peer->stage, VERBS_STAGE_BYTES);
        free(peer->keys.rows);
    }
    if (v->memory_mr != NULL)
        v->lib.dereg_mr(v->memory_mr);
    if (v->memory != NULL)
        munmap(v->memory, v->memory_bytes);
}

/* ---- ranges of this PE's segments ---- */

static struct verbs_region *find_region(struct verbs *v, uint64_t addr)
{
    return (struct verbs_region *)iso_range_find(&v->regions, sizeof(struct verbs_region), addr);
}

/* The region of segment s around addr, registered or staged. NULL: *error says why. */
static struct verbs_region *region_at(struct verbs *v, const struct segment *s, const void *addr, int *error)
{
    uint64_t at = (uint64_t)(uintptr_t)addr;
    struct verbs_region *region = find_region(v, at);
    *error = 0;
    if (region != NULL)
        return region;
    struct range r = iso_range_gap(&v->regions, sizeof *region, iso_range_around(s, addr), at);
    size_t len = r.end - r.start;
    bool on_device = s->on_device;
    errno = 0; /* not every provider sets it */
    struct ibv_mr *mr = on_device ? iso_verbs_register_device(v, ISO->device->gpu,
                                                              (struct verbs_range){r.start, len, EXPOSED})
                                  : v->lib.reg_mr(v->pd, (void *)(uintptr_t)r.start, len, EXPOSED);
    v->counts.registrations++;
    v->counts.system_calls++;
    if (mr == NULL && !on_device) {
        *error = errno != 0 ? -errno : -ENOMEM;
        return NULL;
    }
    log_debug("verbs: %s %llu KiB at %#llx", mr != NULL ? "registered" : "stages", (unsigned long long)len >> 10,
              (unsigned long long)r.start);
    const struct verbs_region fresh = {r.start, r.end, mr};
    region = (struct verbs_region *)iso_range_add(&v->regions, sizeof fresh, &fresh);
    *error = region != NULL ? 0 : -ENOMEM;
    if (region == NULL && mr != NULL)
        iso_verbs_unregister(v, mr);
    return region;
}

struct verbs_region *iso_verbs_region_of(struct verbs *v, const void *addr, int *error)
{
    struct verbs_region *region = find_region(v, (uint64_t)(uintptr_t)addr);
    *error = 0;
    if (region == NULL) {
        const struct segment *s = iso_segment_of(addr, 1);
        region = s != NULL ? region_at(v, s, addr, error) : NULL;
    }
    return region != NULL && region->mr != NULL ? region : NULL;
}

struct ibv_mr *iso_verbs_register_once(struct verbs *v, const void *addr, size_t len, bool written)
{
    struct ibv_mr *mr = v->lib.reg_mr(v->pd, (void *)(uintptr_t)addr, len, written ? (int)IBV_ACCESS_LOCAL_WRITE : 0);
    v->counts.registrations++;
    v->counts.system_calls++;
    return mr;
}

/* ---- keys of peers ---- */

struct verbs_key iso_verbs_key_of(struct verbs *v, int pe, uint64_t addr)
{
    const struct verbs_key none = {.start = addr, .end = UINT64_MAX}; /* while lost */
    struct verbs_peer *peer = &v->peers[pe];
    const struct verbs_key *known = (const struct verbs_key *)iso_range_find(&peer->keys, sizeof *known, addr);
    if (ISO_LIKELY(known != NULL))
        return *known;
    struct verbs_key_info row = {.type = VERBS_KEY, .addr = addr};
    if (v->net.lost)
        return none;
    const char *host = ISO->peers[pe].host;
    int rc = iso_network_ask(&v->net, pe, &row, sizeof row);
    v->counts.keys++;
    errno = -row.error;
    if (rc != 0)
        iso_network_lose(&v->net, -1, "pe %d (host %s) was not told the key of a segment of pe %d (host %s)", ISO->my_pe,
                       ISO->boot.host, pe, host);
    else if (row.error == -EFAULT || (row.error == 0 && addr - row.key.start >= row.key.end - row.key.start))
        iso_network_lose(&v->net, -1, "pe %d (host %s) has no segment at address %#llx, which pe %d (host %s) wants to reach", pe,
                       host, (unsigned long long)addr, ISO->my_pe, ISO->boot.host);
    else if (row.error != 0)
        __extension__ iso_network_lose(
            &v->net, -1,
            "pe %d (host %s) cannot register memory at address %#llx with its RDMA device for pe %d (host %s): %m; the "
            "limit of locked memory there is %llu KiB (raise it: ulimit -l unlimited, or LimitMEMLOCK of the service "
            "that starts the job)",
            pe, host, (unsigned long long)addr, ISO->my_pe, ISO->boot.host, (unsigned long long)row.limit >> 10);
    else if (iso_range_add(&peer->keys, sizeof row.key, &row.key) == NULL)
        iso_network_lose(&v->net, -1, "no memory for the keys of pe %d", pe);
    return v->net.lost ? none : row.key;
}

void iso_verbs_answer_key(struct verbs *v, int pe, struct verbs_key_info *row)
{
    const void *addr = (const void *)(uintptr_t)row->addr;
    const struct segment *s = iso_segment_of(addr, 1);
    row->limit = iso_range_locked_limit();
    row->error = s == NULL ? -EFAULT : 0;
    const struct verbs_region *r = s != NULL ? region_at(v, s, addr, &row->error) : NULL;
    if (r == NULL)
        return;
    row->key = (struct verbs_key){.start = r->start, .end = r->end, .flushes = s->on_device && v->reach.flushes};
    if (r->mr != NULL) {
        row->key.rkey = r->mr->rkey;
        return;
    }

    /* The region is staged: the key is that of the pair's stage, made if need be. */
    struct verbs_peer *peer = &v->peers[pe];
    if (peer->stage == NULL)
        peer->stage = map_shared(VERBS_STAGE_BYTES);
    if (peer->stage != NULL && peer->stage_mr == NULL) {
        peer->stage_mr = v->lib.reg_mr(v->pd, peer->stage, VERBS_STAGE_BYTES, EXPOSED);
        v->counts.registrations++;
        v->counts.system_calls++;
    }
    row->error = peer->stage_mr != NULL ? 0 : -ENOMEM;
    if (peer->stage_mr == NULL)
        return;
    row->key.stage = (uint64_t)(uintptr_t)peer->stage;
    row->key.rkey = peer->stage_mr->rkey;
}

/* ---- device memory ---- */

void iso_verbs_exchange_device(const struct segment *segment)
{
    struct verbs *v = ISO->verbs;
    int error;
    iso_verbs_lock(v);
    (void)iso_verbs_region_of(v, segment->base, &error);
    iso_verbs_unlock(v);
}

bool iso_verbs_moves_device(struct place at, const void *local, size_t len)
{
    struct verbs *v = ISO->verbs;
    uint64_t remote = iso_verbs_remote(at), here = (uint64_t)(uintptr_t)local, end = here + len;
    int error;
    iso_verbs_lock(v);
    while (here < end) {
        const struct verbs_region *r = iso_verbs_region_of(v, (const void *)(uintptr_t)here, &error);
        uint64_t n = r != NULL ? ISO_MIN(end, r->end) - here : 0;
        struct verbs_key key = r != NULL ? iso_verbs_key_of(v, at.pe, remote) : (struct verbs_key){.stage = 1};
        if (key.stage != 0)
            break;
        n = ISO_MIN(n, key.end - remote);
        here += n;
        remote += n;
    }
    iso_verbs_unlock(v);
    return here == end;
}

/* ---- the end of a segment ---- */

static void close_region(void *row)
{
    const struct verbs_region *r = (const struct verbs_region *)row;
    if (r->mr != NULL)
        iso_verbs_unregister(ISO->verbs, r->mr);
}

void iso_verbs_forget(const struct segment *segment)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL)
        return;
    iso_verbs_lock(v);
    iso_range_forget(&v->regions, sizeof(struct verbs_region), iso_range_of(segment->base, 0, segment->len),
                     close_region);
    for (int pe = 0; pe < ISO->n_pes && segment->peers != NULL; pe++)
        iso_range_forget(&v->peers[pe].keys, sizeof(struct verbs_key),
                         iso_range_of(segment->peers[pe].base, 0, segment->len), NULL);
    iso_verbs_unlock(v);
}

/* Returns true with the lock held, since a peer's request for a key would register the whole range around it, at any
 * moment. iso_verbs_unlock_unpinned releases it. */
bool iso_verbs_lock_unpinned(const struct segment *segment, size_t offset, size_t len)
{
    struct verbs *v = ISO->verbs;
    if (v == NULL)
        return true;
    iso_verbs_lock(v);
    bool pinned = iso_range_overlaps(&v->regions, sizeof(struct verbs_region),
                                     iso_range_of(segment->base, offset, len));
    if (pinned)
        iso_verbs_unlock(v);
    return !pinned;
}

void iso_verbs_unlock_unpinned(void)
{
    if (ISO->verbs != NULL)
        iso_verbs_unlock(ISO->verbs);
}
