/* SPDX-License-Identifier: MIT */
/* Registered memory. Segments of this PE are registered range by range (range.h), when an operation of this PE or of a
 * peer first needs a byte: a sparse heap, or large arrays among the globals, are never pinned whole. One registration
 * serves both ends, and stays until the end or until `forget`. Peers' keys are requested through the channel, once per
 * range. */
#include "../../../bootstrap/log.h"
#include "../../node/channel.h"
#include "../../node/peer.h"
#include "network.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

char *iso_network_map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED ? (char *)at : NULL;
}

/* ---- regions of this PE ---- */

struct network_region *iso_network_region_at(struct network *n, const struct segment *s, const void *addr, int *error)
{
    uint64_t at = (uint64_t)(uintptr_t)addr;
    struct network_region *region = (struct network_region *)iso_range_find(&n->regions, sizeof *region, at);
    *error = 0;
    if (region != NULL)
        return region;
    struct range r = iso_range_gap(&n->regions, sizeof *region, iso_range_around(s, addr), at);
    struct network_region fresh = {r.start, r.end, NULL};
    *error = n->port->expose(s, r, &fresh.mr);
    if (*error != 0)
        return NULL;
    log_debug("%s: %s %llu KiB at %#llx", n->port->name, fresh.mr != NULL ? "registered" : "stages",
              (unsigned long long)(r.end - r.start) >> 10, (unsigned long long)r.start);
    region = (struct network_region *)iso_range_add(&n->regions, sizeof fresh, &fresh);
    *error = region != NULL ? 0 : -ENOMEM;
    if (region == NULL && fresh.mr != NULL)
        n->port->conceal(n, fresh.mr);
    return region;
}

static void close_region(void *row, void *network)
{
    struct network *n = (struct network *)network;
    const struct network_region *r = (const struct network_region *)row;
    if (r->mr != NULL)
        n->port->conceal(n, r->mr);
}

void iso_network_unregister(struct network *n)
{
    iso_range_forget(&n->regions, sizeof(struct network_region), (struct range){0, UINT64_MAX}, close_region, n);
}

/* ---- keys of peers ---- */

struct network_key iso_network_ask_key(struct network *n, int pe, uint64_t addr)
{
    const struct network_key none = {.start = addr, .end = UINT64_MAX}; /* while lost: operations have no effect */
    const char *host = ISO->peers[pe].host;
    struct network_key_info info = {.type = NETWORK_KEY, .addr = addr};
    if (iso_network_has_lost(n, pe))
        return none;
    int rc = iso_network_ask(n, pe, &info, sizeof info);
    if (iso_network_has_lost(n, pe))
        return none;
    if (rc != 0 || info.error == -ESHUTDOWN)
        iso_network_lose(n, pe, "pe %d (host %s) was not told the key of a segment of pe %d (host %s)", ISO->my_pe,
                         ISO->host, pe, host);
    else if (info.error == -EFAULT || (info.error == 0 && addr - info.key.start >= info.key.end - info.key.start))
        iso_network_lose(n, -1, "pe %d (host %s) has no segment at address %#llx, which pe %d (host %s) wants to reach",
                         pe, host, (unsigned long long)addr, ISO->my_pe, ISO->host);
    else if (info.error != 0)
        iso_network_lose(n, -1, "pe %d (host %s) cannot register memory at address %#llx with its network (%s) for pe "
                         "%d (host %s): %s; the limit of locked memory there is %llu KiB (raise it: ulimit -l "
                         "unlimited, or LimitMEMLOCK of the service that starts the job)", pe, host,
                         (unsigned long long)addr, n->port->name, ISO->my_pe, ISO->host,
                         n->port->error_text(-info.error), (unsigned long long)info.limit >> 10);
    else if (iso_range_add(&n->peers[pe].keys, sizeof info.key, &info.key) == NULL)
        iso_network_lose(n, -1, "pe %d (host %s) has no memory for the keys of pe %d", ISO->my_pe, ISO->host, pe);
    n->asked_keys++;
    return n->lost ? none : info.key;
}

void iso_network_answer(struct network *n, int pe, const void *request, void *answer)
{
    struct network_key_info info;
    struct network_answer head = {0, -EPROTO}; /* while this PE ends */
    _Static_assert(sizeof info <= CHANNEL_BODY_BYTES, "one message of the channel");
    memcpy(&info, request, sizeof info);
    head.type = info.type;
    if (n != NULL && iso_network_lock_unless_failed(n)) {
        if (!n->lost && info.type == NETWORK_KEY) {
            const void *addr = (const void *)(uintptr_t)info.addr;
            const struct segment *s = iso_segment_of(addr, 1);
            info.limit = iso_range_locked_limit();
            info.error = s != NULL ? n->port->make_key(pe, s, addr, &info.key) : -EFAULT;
            memcpy(answer, &info, sizeof info);
            head.error = info.error;
        } else {
            head.error = n->lost ? -ESHUTDOWN : n->port->answer(pe, request, answer);
        }
        iso_network_unlock(n);
    }
    memcpy(answer, &head, sizeof head);
}

/* ---- device memory ---- */

void iso_network_exchange_device(struct network *n, const struct segment *segment)
{
    int error;
    iso_network_lock(n);
    if (n->device_direct)
        (void)iso_network_region_at(n, segment, segment->base, &error);
    iso_network_unlock(n);
}

bool iso_network_moves_device(struct network *n, struct place at, const void *local, size_t len)
{
    uint64_t remote = iso_network_remote(at);
    uint64_t here = (uint64_t)(uintptr_t)local, end = here + len;
    int error;
    iso_network_lock(n);
    while (here < end && n->device_direct) {
        const struct network_region *r = iso_network_region_of(n, (const void *)(uintptr_t)here, &error);
        uint64_t bytes = r != NULL ? ISO_MIN(end, r->end) - here : 0;
        const struct network_key key =
            r != NULL ? iso_network_key_of(n, at.pe, remote) : (struct network_key){.by_cpu = 1};
        if (key.by_cpu != 0)
            break;
        bytes = ISO_MIN(bytes, key.end - remote);
        here += bytes;
        remote += bytes;
    }
    iso_network_unlock(n);
    return here == end;
}

/* ---- the end of a segment ---- */

void iso_network_forget(struct network *n, const struct segment *segment)
{
    if (n == NULL)
        return;
    iso_network_lock(n);
    iso_range_forget(&n->regions, sizeof(struct network_region), iso_range_of(segment->base, 0, segment->len),
                     close_region, n);
    for (int pe = 0; pe < ISO->n_pes && segment->peers != NULL; pe++)
        iso_range_forget(&n->peers[pe].keys, sizeof(struct network_key),
                         iso_range_of(segment->peers[pe].base, 0, segment->len), NULL, NULL);
    iso_network_unlock(n);
}

/* Returns true with the lock held, since a peer's request for a key would register the whole range around it, at any
 * moment. */
bool iso_network_lock_unpinned(struct network *n, const struct segment *segment, size_t offset, size_t len)
{
    if (n == NULL)
        return true;
    iso_network_lock(n);
    bool pinned = n->pins && iso_range_overlaps(&n->regions, sizeof(struct network_region),
                                                iso_range_of(segment->base, offset, len));
    if (pinned)
        iso_network_unlock(n);
    return !pinned;
}
