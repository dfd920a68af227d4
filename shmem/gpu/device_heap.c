/* SPDX-License-Identifier: MIT */
/* The device of this PE and its symmetric heap: opens the device, agrees with all PEs on how device memory is shared,
 * maps the heaps of the node, and takes all of it down again. VMM: one window of
 * addresses, local PE i's heap at window + i * stride on every PE; physical memory in few chunks that each about double
 * the heap. All PEs have mapped a chunk before any of them goes on, and keep it until the end. IPC: one fixed
 * allocation. PEs that are threads of one process use the owner's addresses. Invariant: every step is collective and
 * ends in an agreement, so all PEs succeed or fail together. Called by device_start.c and memory.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "../collectives.h"
#include "../transport/transport.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t smallest(uint64_t value, const char *call) { return iso_agree_min(ISO->world, value, call); }
static uint64_t largest(uint64_t value, const char *call) { return ~smallest(~value, call); }

/* ---- the device and the method of sharing ---- */

static int open_device(struct device *d, const char *call)
{
    char why[256] = "", sentence[320];
    int rc = iso_gpu_open(&d->gpu, ISO->my_local, ISO->env->device, why, sizeof why);
    snprintf(sentence, sizeof sentence, "has no device: %s", why);
    rc = iso_device_agree(call, rc, sentence);
    if (rc == 0)
        d->info = iso_gpu_describe(d->gpu);
    return rc;
}

enum wish { WISH_NONE, WISH_VMM, WISH_IPC };

/* VMM, unless a PE has none or the user asks for IPC. A method that the user asks for and a PE lacks is an error. */
static int choose_method(struct device *d, const char *call)
{
    /* Other words were refused when the variables were read. */
    const char *text = ISO->env->device_sharing;
    enum wish wish = strcmp(text, "vmm") == 0 ? WISH_VMM : strcmp(text, "ipc") == 0 ? WISH_IPC : WISH_NONE;
    char sentence[512];
    snprintf(sentence, sizeof sentence, "has SHMEM_DEVICE_SHARING \"%s\", another PE has not; it must be equal on all",
             text);
    uint64_t least = smallest(wish, call);
    int rc = iso_device_agree(call, least == largest(wish, call) ? 0 : -EINVAL, sentence);
    if (rc != 0)
        return rc;
    bool vmm = smallest(d->info->can_vmm, call) != 0;
    snprintf(sentence, sizeof sentence, "cannot share device memory by vmm, which SHMEM_DEVICE_SHARING asks for: %s",
             d->info->vmm_why);
    rc = wish == WISH_VMM ? iso_device_agree(call, d->info->can_vmm ? 0 : -ENOTSUP, sentence) : 0;
    if (rc != 0)
        return rc;
    d->sharing = vmm && wish != WISH_IPC ? GPU_SHARE_VMM : GPU_SHARE_IPC;
    snprintf(sentence, sizeof sentence, "cannot share device memory at all: no ipc on %s%s%s, and no vmm: %s",
             d->info->name, d->info->ipc_why != NULL ? ": " : "", d->info->ipc_why != NULL ? d->info->ipc_why : "",
             d->info->can_vmm ? "another PE has none" : d->info->vmm_why);
    if (d->sharing == GPU_SHARE_IPC)
        rc = iso_device_agree(call, d->info->can_ipc ? 0 : -ENOTSUP, sentence);
    const char *why = wish != WISH_NONE          ? "SHMEM_DEVICE_SHARING"
                      : vmm                      ? "the heap grows as it is used"
                      : d->info->can_vmm         ? "another PE has no vmm"
                      : d->info->vmm_why[0] != 0 ? d->info->vmm_why
                                                 : "no vmm here";
    snprintf(d->sharing_why, sizeof d->sharing_why, "%s", why);
    return rc;
}

/* ---- who shares a device, who is reached ---- */

static int meet(struct device *d, const char *call)
{
    struct state *self = ISO;
    struct pe_offer mine = {0, 0, {0}, 0, -1}, *theirs = iso_device_new_offers();
    _Static_assert(sizeof mine.key >= sizeof d->info->id, "the id of a device travels as a key");
    d->reaches = (bool *)calloc((size_t)self->n_local, sizeof *d->reaches);
    memcpy(mine.key, d->info->id, sizeof d->info->id);
    int rc = iso_device_agree(call, theirs != NULL && d->reaches != NULL ? 0 : -ENOMEM, "has no memory left");
    if (rc == 0)
        rc = iso_device_exchange(&mine, theirs, call);
    for (int i = 0; rc == 0 && i < self->n_local; i++) {
        const char *id = (const char *)theirs[i].key;
        int pe = self->local_pes[i];
        bool same = strcmp(id, d->info->id) == 0;
        d->device_peers += same;
        /* The transport's word counts too: the test double hides peers' pointers. */
        d->reaches[i] = pe == self->my_pe || (self->peers[pe].by_pointer && (same || iso_gpu_reaches(d->gpu, id)));
    }
    free(theirs);
    return rc;
}

/* ---- sizes ---- */

/* VMM: address space only, so all there is, as long as all heaps of the node fit the address space of one PE. */
static uint64_t default_cap(const struct device *d, const char *call)
{
    uint64_t memory = smallest(d->info->memory_bytes, call), sharers = largest((uint64_t)d->device_peers, call);
    uint64_t space = (uint64_t)8 << 40;
#ifdef __SANITIZE_THREAD__
    space = (uint64_t)1 << 38;
#endif
    if (d->sharing == GPU_SHARE_VMM)
        return ISO_MIN(memory, space / (unsigned)ISO->n_local);
    if (strcmp(d->info->flavour, "cpu") == 0)
        return 256 * MIB;
    return ISO_MIN(GIB, memory / (4 * sharers));
}

/* Slot memory of handles: a share of small heaps, at most 64 MiB; of large ones a small share, at most 512 MiB, which
 * is for about twenty handles of 8 PEs that all blocks may use. The CPU device has memory where it is touched only, so
 * there it is addresses: for thousands of such handles. Equal on all PEs; most_local: PEs of the fullest node. */
static size_t control_for(const struct device *d, size_t cap, unsigned most_local)
{
    const size_t unit = (size_t)64 << 10;
    size_t share = ISO_MAX(ISO_MIN(cap / 8, 64 * MIB), ISO_MIN(cap / 128, 512 * MIB));
    if (strcmp(d->info->flavour, "cpu") == 0)
#ifdef __SANITIZE_THREAD__
        share = ISO_MAX(share, (size_t)64 * GIB / most_local);
#else
        share = ISO_MAX(share, ISO_MIN(256 * GIB, 4096 * GIB / most_local));
#endif
    return ISO_MAX(share / unit * unit, unit);
}

static int choose_sizes(struct device *d, const char *call)
{
    uint64_t wish = ISO->env->device_heap_size;
    uint64_t lowest = smallest(wish, call), highest = largest(wish, call);
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "has SHMEM_DEVICE_HEAP_SIZE %llu, others up to %llu; it must be equal on all PEs",
             (unsigned long long)wish, (unsigned long long)highest);
    int rc = iso_device_agree(call, lowest == highest ? 0 : -EINVAL, sentence);
    if (rc != 0)
        return rc;
    d->granularity = (size_t)largest(iso_gpu_granularity(d->gpu), call);
    uint64_t cap = wish != 0 ? wish : default_cap(d, call), least = smallest(cap, call);
    if (cap > ISO_ALLOC_MOST) {
        snprintf(sentence, sizeof sentence, "has SHMEM_DEVICE_HEAP_SIZE %llu; at most 16 TiB are possible",
                 (unsigned long long)cap);
        return iso_device_agree(call, -EINVAL, sentence);
    }
    size_t objects = round_up((size_t)least, ISO_ALLOC_UNIT);
    d->control_bytes = control_for(d, objects, (unsigned)largest((uint64_t)ISO->n_local, call));
    d->heap_bytes = round_up(d->control_bytes + objects, d->granularity);
    size_t part = ISO_MIN(objects / 4, GIB * 1024);
#ifndef __SANITIZE_THREAD__
    if (d->sharing == GPU_SHARE_VMM) /* only addresses */
        part = ISO_MIN(objects, GIB * 1024);
#endif
    size_t local = (size_t)ISO->env->local_size;
    d->part_bytes = round_up(local != 0 ? local : ISO_MAX(part, 2 * MIB), d->granularity);
    d->span_bytes = d->heap_bytes + 2 * d->part_bytes;
    d->alloc = iso_alloc_create(objects, 0);
    d->control = iso_alloc_create(d->control_bytes, 0);
    return iso_device_agree(call, d->alloc != NULL && d->control != NULL ? 0 : -ENOMEM,
                            "has no memory for a heap's bookkeeping");
}

/* ---- the heap's addresses ---- */

static struct segment *segment(void) { return &ISO->segments[SEGMENT_INDEX_DEVICE]; }

/* As iso_device_agree; the sentence is `what` and the error of the device. */
static int agree_on_device(struct device *d, const char *call, int rc, const char *what)
{
    char sentence[384];
    snprintf(sentence, sizeof sentence, "%s: %s (a heap may have %zu bytes, see SHMEM_DEVICE_HEAP_SIZE)", what,
             rc != 0 ? iso_gpu_error(d->gpu) : "", d->heap_bytes);
    return iso_device_agree(call, rc, sentence);
}

/* Only addresses; PEs of one process need no window, each has its own heap. */
static int reserve(struct device *d, const char *call)
{
    struct state *self = ISO;
    bool alone = false;
    for (int i = 0; i < self->n_local; i++)
        alone = alone || self->peers[self->local_pes[i]].threaded;
    char *base = NULL;
    d->window_bytes = alone ? d->span_bytes : d->span_bytes * (size_t)self->n_local;
    int rc = iso_gpu_reserve(d->gpu, d->window_bytes, &base);
    if (rc != 0)
        d->window_bytes = 0;
    rc = agree_on_device(d, call, rc, "cannot reserve addresses for the device heaps of its node");
    segment()->base = base; /* also the address to give back */
    if (rc != 0 || alone)
        return rc;
    d->window = base;
    d->window_stride = d->span_bytes;
    segment()->base = base + (size_t)self->my_local * d->window_stride;
    return 0;
}

static int create_fixed(struct device *d, struct pe_offer *mine, const char *call)
{
    struct gpu_key key = {{0}, -1};
    _Static_assert(sizeof key.bytes == sizeof mine->key, "keys travel whole");
    char *base = NULL;
    int rc = iso_gpu_shared_create(d->gpu, d->span_bytes, GPU_COMMUNICATION, &base, &key);
    segment()->base = rc == 0 ? base : NULL;
    d->backed_bytes = rc == 0 ? d->heap_bytes : 0;
    memcpy(mine->key, key.bytes, sizeof mine->key);
    mine->fd = key.fd;
    return agree_on_device(d, call, rc, "cannot allocate its device heap");
}

/* Where this PE's device finds the heap of local PE i; NULL: it does not. */
static int describe_peer(struct device *d, int i, struct pe_offer *offer)
{
    struct segment_peer *peer = &segment()->peers[ISO->local_pes[i]];
    struct gpu_key key;
    peer->base = (char *)(uintptr_t)offer->base;
    if (!iso_device_imports(d, i) || d->window != NULL) {
        peer->gpu_ptr = !d->reaches[i]      ? NULL
                        : d->window != NULL ? d->window + (size_t)i * d->window_stride
                                            : peer->base;
        return 0;
    }
    memcpy(key.bytes, offer->key, sizeof key.bytes);
    key.fd = offer->fd;
    offer->fd = -1; /* the import takes it */
    return iso_gpu_shared_import(d->gpu, &key, d->span_bytes, &peer->gpu_ptr);
}

/* The parts behind the heap, when the base of each PE is known. */
static int add_heap_parts(struct device *d)
{
    int rc = iso_segment_add_part(SEGMENT_INDEX_DEVICE_LOCAL, segment(), d->heap_bytes, d->part_bytes);
    if (rc == 0)
        rc = iso_segment_add_part(SEGMENT_INDEX_DEVICE_TEAM, segment(), d->heap_bytes + d->part_bytes, d->part_bytes);
    for (int i = 0; i < 2 && d->sharing == GPU_SHARE_IPC; i++)
        d->grown_bytes[i] = d->part_bytes;
    return rc;
}

/* This PE's heap, then the heaps of its node: a row of the segment table. */
static int make_heap(struct device *d, const char *call)
{
    struct pe_offer mine = {0, d->heap_bytes, {0}, 0, -1}, *theirs = iso_device_new_offers();
    int rc = iso_device_agree(call, theirs != NULL ? 0 : -ENOMEM, "has no memory left");
    if (rc == 0)
        rc = d->sharing == GPU_SHARE_VMM ? reserve(d, call) : create_fixed(d, &mine, call);
    mine.base = (uint64_t)(uintptr_t)segment()->base;
    if (rc == 0)
        rc = iso_device_agree(call, iso_grow_start(d, &mine), "cannot start the thread that maps memory of other PEs");
    if (rc == 0)
        rc = iso_device_exchange(&mine, theirs, call);
    if (rc == 0) {
        iso_grow_meet(d, theirs);
        for (int i = 0; rc == 0 && i < ISO->n_local; i++)
            rc = describe_peer(d, i, &theirs[i]);
        rc = agree_on_device(d, call, rc, "cannot map the device heap of another PE");
    }
    if (rc == 0) {
        segment()->len = d->heap_bytes;
        rc = iso_agree_addresses(ISO->world, segment()->base, d->heap_bytes, call);
    }
    if (rc == 0)
        rc = iso_device_agree(call, add_heap_parts(d), "has no memory for a heap's bookkeeping");
    if (mine.fd >= 0)
        close(mine.fd);
    iso_device_close_offers(theirs);
    return rc;
}

/* ---- physical memory (VMM) ---- */

static void release_chunk(struct device *d, struct device_chunk c, int mapped)
{
    struct segment *s = segment();
    for (int i = 0; i < mapped; i++)
        if (iso_device_imports(d, i))
            iso_gpu_chunk_release(d->gpu, s->peers[ISO->local_pes[i]].gpu_ptr + c.at, c.len);
}

/* When all PEs have made their own chunks: the mappings of the peers' chunks. */
static int share_chunk(struct device *d, struct device_chunk c, const struct gpu_key *key, const char *call)
{
    struct pe_offer mine = {c.at, c.len, {0}, 0, key->fd}, *theirs = iso_device_new_offers();
    int mapped = 0, rc = iso_device_agree(call, theirs != NULL ? 0 : -ENOMEM, "has no memory left");
    memcpy(mine.key, key->bytes, sizeof mine.key);
    if (rc == 0)
        rc = iso_device_exchange(&mine, theirs, call);
    if (rc == 0) {
        while (rc == 0 && mapped < ISO->n_local) {
            struct pe_offer *offer = &theirs[mapped];
            struct gpu_key peers = {{0}, offer->fd};
            memcpy(peers.bytes, offer->key, sizeof peers.bytes);
            if (iso_device_imports(d, mapped)) {
                char *at = segment()->peers[ISO->local_pes[mapped]].gpu_ptr + c.at;
                offer->fd = -1; /* the import takes it */
                rc = iso_gpu_chunk_import(d->gpu, at, c.len, &peers);
            }
            mapped += rc == 0;
        }
        rc = agree_on_device(d, call, rc, "cannot map a chunk of another PE's heap");
    }
    if (rc != 0)
        release_chunk(d, c, mapped);
    iso_device_close_offers(theirs);
    return rc;
}

/* This PE's chunk and the mappings of its peers'. `quiet`: a failure to create is no news yet, a smaller chunk is tried
 * next. */
static int make_chunk(struct device *d, struct device_chunk c, bool quiet, const char *call)
{
    struct gpu_key key = {{0}, -1};
    char what[128];
    int rc = iso_gpu_chunk_create(d->gpu, segment()->base + c.at, c.len, GPU_COMMUNICATION, &key);
    bool made = rc == 0;
    snprintf(what, sizeof what, "has no device memory for its heap to grow by %zu to %zu bytes", c.len, c.at + c.len);
    if (quiet)
        rc = smallest(made, call) != 0 ? 0 : -ENOMEM;
    else
        rc = agree_on_device(d, call, rc, what);
    if (rc == 0)
        rc = share_chunk(d, c, &key, call);
    if (key.fd >= 0)
        close(key.fd);
    if (rc != 0 && made)
        iso_gpu_chunk_release(d->gpu, segment()->base + c.at, c.len);
    return rc;
}

static int add_chunk(struct device *d, size_t len, bool quiet, const char *call)
{
    struct device_chunk c = {d->backed_bytes, len};
    int rc = make_chunk(d, c, quiet, call);
    if (rc != 0)
        return rc;
    d->chunks[d->n_chunks] = c;
    __atomic_store_n(&d->n_chunks, d->n_chunks + 1, __ATOMIC_RELEASE); /* pairs with chunk_of (range.c) */
    d->backed_bytes += len;
    return 0;
}

/* Doubles the heap, where the device has so much memory left. Else the heap grows by the bytes that were asked for. */
int iso_device_back(size_t bytes, const char *call)
{
    struct device *d = ISO->device;
    if (bytes <= d->backed_bytes)
        return 0;
    size_t least = round_up(bytes - d->backed_bytes, d->granularity), left = d->heap_bytes - d->backed_bytes;
    size_t objects = d->backed_bytes - ISO_MIN(d->backed_bytes, d->control_bytes);
    size_t wanted = ISO_MIN(ISO_MAX(least, round_up(objects, d->granularity)), left);
    if (least > left || d->n_chunks == ISO_DEVICE_CHUNKS)
        return -ENOSPC; /* the allocator's cap and the doubling prevent both */
    if (wanted > least && add_chunk(d, wanted, true, call) == 0)
        return 0;
    return add_chunk(d, least, false, call);
}

static int back_first(struct device *d, const char *call)
{
    size_t first = round_up(d->control_bytes + 32 * MIB, d->granularity);
    int rc = d->sharing == GPU_SHARE_VMM ? iso_device_back(ISO_MIN(first, d->heap_bytes), call) : 0;
    if (rc == 0) {
        segment()->len = d->heap_bytes;
        segment()->limit = d->control_bytes;
    }
    return rc;
}

/* ---- all of it ---- */

int iso_heap_open(struct device *d, const char *call)
{
    int (*const steps[])(struct device *, const char *) = {open_device,  choose_method, meet,
                                                           choose_sizes, make_heap,   back_first};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof steps / sizeof steps[0]; i++)
        rc = steps[i](d, call);
    return rc;
}

/* ---- lent back, and there again ---- */

void iso_heap_drop_peers(struct device *d)
{
    for (int c = d->n_chunks - 1; c >= 0; c--)
        release_chunk(d, d->chunks[c], ISO->n_local);
}

void iso_heap_drop_own(struct device *d)
{
    char *base = segment()->base;
    for (int c = d->n_grown - 1; c >= 0; c--)
        iso_gpu_chunk_release(d->gpu, base + d->grown[c].at, d->grown[c].len);
    for (int c = d->n_chunks - 1; c >= 0; c--)
        iso_gpu_chunk_release(d->gpu, base + d->chunks[c].at, d->chunks[c].len);
}

int iso_heap_make_again(struct device *d, const char *call)
{
    int rc = 0, made = 0;
    while (rc == 0 && made < d->n_chunks) {
        rc = make_chunk(d, d->chunks[made], false, call);
        made += rc == 0;
    }
    for (int c = made - 1; rc != 0 && c >= 0; c--) {
        release_chunk(d, d->chunks[c], ISO->n_local);
        iso_gpu_chunk_release(d->gpu, segment()->base + d->chunks[c].at, d->chunks[c].len);
    }
    return rc;
}

/* ---- the end ---- */

void iso_heap_unmap(struct device *d)
{
    struct segment *s = segment();
    iso_heap_drop_peers(d);
    for (int i = 0; i < ISO->n_local; i++) {
        char *at = s->peers[ISO->local_pes[i]].gpu_ptr;
        if (d->reaches != NULL && iso_device_imports(d, i) && at != NULL && d->window == NULL)
            iso_gpu_shared_close(d->gpu, at, d->span_bytes);
    }
}

void iso_heap_free(struct device *d)
{
    char *base = segment()->base;
    iso_heap_drop_own(d);
    if (d->window_bytes != 0)
        iso_gpu_unreserve(d->gpu, d->window != NULL ? d->window : base, d->window_bytes);
    else if (d->backed_bytes != 0)
        iso_gpu_shared_destroy(d->gpu, base, d->span_bytes);
    struct segment *s = segment();
    iso_segment_clear_part(SEGMENT_INDEX_DEVICE_LOCAL);
    iso_segment_clear_part(SEGMENT_INDEX_DEVICE_TEAM);
    s->base = NULL;
    s->limit = s->len = 0;
    memset(s->peers, 0, (size_t)ISO->n_pes * sizeof *s->peers);
    iso_alloc_destroy(d->alloc);
    iso_alloc_destroy(d->control);
}
