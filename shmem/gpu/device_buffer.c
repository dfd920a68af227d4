/* SPDX-License-Identifier: MIT */
/* Registered buffers of device memory that the program got from the vendor's own allocator. The allocation around the
 * buffer is exported by the first method that the device layer knows (vmm, then ipc), each PE's by its own; the peers
 * import it whole and find the buffer at its offset. There is no staged method: only the device can copy this memory.
 * Called by buffer.c. */
#include "../team/agree.h"
#include "../team/team_offer.h"
#include "../transport/transport.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What was imported from one local PE. */
struct buffer_import {
    char *base; /* NULL: nothing */
    size_t len;
    enum gpu_sharing method;
};

enum gpu_pointer iso_device_pointer_kind(const void *ptr)
{
    const struct device *d = ISO->device;
    return d != NULL && d->running ? iso_gpu_pointer_kind(d->gpu, ptr) : GPU_POINTER_HOST;
}

int iso_device_buffer_is(const struct buffer *b, bool *is_device)
{
    char sentence[160];
    bool mine = iso_device_pointer_kind(b->addr) == GPU_POINTER_DEVICE;
    bool all = iso_agree_min(b->team, mine, b->call) != 0, none = iso_agree_min(b->team, !mine, b->call) != 0;
    snprintf(sentence, sizeof sentence,
             "has %s memory at addr %p, and not all PEs have; it must be of the same kind everywhere",
             mine ? "device" : "host", (void *)b->addr);
    *is_device = mine;
    return all || none ? 0 : iso_agree_outcome(b->team, -EINVAL, sentence, b->call);
}

static int export_buffer(struct gpu *gpu, const struct buffer *b, struct gpu_allocation *a)
{
    char sentence[384];
    memset(a, 0, sizeof *a);
    a->key.fd = -1;
    int rc = iso_gpu_export_foreign(gpu, b->addr, a);
    snprintf(
        sentence, sizeof sentence,
        "cannot share the device memory at %p: vmm and ipc were tried: %s; use shmemx_malloc, or an allocator that "
        "makes memory which can be exported",
        (void *)b->addr, rc != 0 ? iso_gpu_error(gpu) : "");
    rc = iso_agree_outcome(b->team, rc, sentence, b->call);
    if (rc != 0)
        return rc;
    size_t room = (size_t)(a->start + a->len - b->addr);
    snprintf(sentence, sizeof sentence, "has only %zu bytes from %p to the end of its allocation, len_bytes is %zu",
             room, (void *)b->addr, b->len);
    return iso_agree_outcome(b->team, b->len <= room ? 0 : -EINVAL, sentence, b->call);
}

static int exchange_offers(const struct buffer *b, const struct pe_offer *mine, struct pe_offer *theirs)
{
    int rc = iso_team_exchange(b->team, mine, theirs, b->call);
    return iso_agree_outcome(b->team, rc, "cannot send to the other PEs of its node", b->call);
}

/* Two exchanges, each closed by an agreement: the buffers, then the allocations around them. */
static int trade(const struct buffer *b, struct gpu_allocation *a, struct pe_offer *buffers, struct pe_offer *whole)
{
    struct pe_offer buffer = {(uint64_t)(uintptr_t)b->addr, b->len, {0}, 0, -1};
    int rc = iso_agree_outcome(b->team, buffers != NULL && whole != NULL ? 0 : -ENOMEM, "has no memory left", b->call);
    if (rc == 0)
        rc = exchange_offers(b, &buffer, buffers);
    if (rc != 0)
        return rc;
    for (int i = 0; i < ISO->n_local; i++)
        if (buffers[i].len != b->len && buffers[i].len != 0) /* 0: not a member */
            rc = -EINVAL;
    rc = iso_agree_outcome(b->team, rc, "has another len_bytes than other PEs; it must be equal", b->call);
    struct pe_offer mine = {(uint64_t)(uintptr_t)a->start, a->len, {0}, (int32_t)a->method, a->key.fd};
    memcpy(mine.key, a->key.bytes, sizeof mine.key);
    return rc == 0 ? exchange_offers(b, &mine, whole) : rc;
}

/* The whole allocation of another PE, whose key->fd is taken. import->base is NULL before, and after a failure. */
static int import_whole(struct gpu *gpu, const struct gpu_key *key, struct buffer_import *import)
{
    char *base = NULL;
    int rc;
    if (import->method == GPU_SHARE_IPC) {
        rc = iso_gpu_shared_import(gpu, key, import->len, &base);
        import->base = rc == 0 ? base : NULL;
        return rc;
    }
    rc = iso_gpu_reserve(gpu, import->len, &base);
    if (rc != 0) {
        close(key->fd);
        return rc;
    }
    rc = iso_gpu_chunk_import(gpu, base, import->len, key);
    if (rc != 0)
        iso_gpu_unreserve(gpu, base, import->len);
    else
        import->base = base;
    return rc;
}

/* The row of local PE i. */
static int describe_buffer(struct segment *s, int i, const struct pe_offer *buffer, struct pe_offer *whole)
{
    const struct peer *peer = &ISO->peers[ISO->local_pes[i]];
    struct segment_peer *row = &s->peers[peer->pe];
    struct buffer_import *import = &((struct buffer_import *)s->foreign)[i];
    if (buffer->len == 0)
        return 0;
    row->base = (char *)(uintptr_t)buffer->base;
    if (peer->pe == ISO->my_pe || (peer->threaded && ISO->device->reaches[i]))
        row->gpu_ptr = row->base;
    if (row->gpu_ptr != NULL || peer->threaded || !ISO->device->reaches[i])
        return 0;
    struct gpu_key key;
    memcpy(key.bytes, whole->key, sizeof key.bytes);
    key.fd = whole->fd;
    whole->fd = -1; /* the import takes it */
    import->len = (size_t)whole->len;
    import->method = (enum gpu_sharing)whole->extra;
    int rc = import_whole(ISO->device->gpu, &key, import);
    if (rc == 0)
        row->gpu_ptr = import->base + (buffer->base - whole->base);
    return rc;
}

static struct segment *new_segment(const struct buffer *b)
{
    struct state *self = ISO;
    if (self->n_segments == ISO_SEGMENTS_MAX)
        return NULL;
    struct segment *s = &self->segments[self->n_segments];
    memset(s, 0, sizeof *s);
    s->peers = (struct segment_peer *)calloc((size_t)self->n_pes, sizeof *s->peers);
    s->foreign = calloc((size_t)self->n_local, sizeof(struct buffer_import));
    s->base = b->addr;
    s->len = s->limit = s->first_bytes = b->len;
    s->kind = SEGMENT_BUFFER;
    s->fd = -1;
    s->number = b->number;
    s->on_device = true;
    if (s->peers == NULL || s->foreign == NULL) {
        free(s->peers);
        free(s->foreign);
        return NULL;
    }
    self->n_segments++;
    return s;
}

static int add_segment(const struct buffer *b, const struct pe_offer *buffers, struct pe_offer *whole)
{
    struct segment *s = new_segment(b);
    int rc = iso_agree_outcome(b->team, s != NULL ? 0 : -ENOSPC, "has no place for another registered buffer", b->call);
    if (rc == 0) {
        char sentence[384];
        for (int i = 0; rc == 0 && i < ISO->n_local; i++)
            rc = describe_buffer(s, i, &buffers[i], &whole[i]);
        snprintf(sentence, sizeof sentence, "cannot map the buffer of another PE: %s",
                 rc != 0 ? iso_gpu_error(ISO->device->gpu) : "");
        rc = iso_agree_outcome(b->team, rc, sentence, b->call);
    }
    if (rc == 0)
        rc = iso_agree_addresses(b->team, b->addr, b->len, b->call);
    if (rc != 0 && s != NULL)
        iso_device_buffer_forget(s);
    return rc;
}

int iso_device_buffer_register(const struct buffer *b, shmemx_buffer_info_t *info)
{
    struct gpu_allocation a;
    struct pe_offer *buffers = iso_device_new_offers(), *whole = iso_device_new_offers();
    int rc = export_buffer(ISO->device->gpu, b, &a);
    if (rc == 0)
        rc = trade(b, &a, buffers, whole);
    if (rc == 0)
        rc = add_segment(b, buffers, whole);
    if (a.key.fd >= 0)
        close(a.key.fd);
    iso_device_close_offers(buffers);
    iso_device_close_offers(whole);
    if (rc == 0)
        iso_device_table_changed();
    if (rc == 0 && info != NULL) {
        memset(info, 0, sizeof *info);
        info->mapped_bytes = b->len;
        info->is_device = 1;
        snprintf(info->method, sizeof info->method, "%s", a.method == GPU_SHARE_VMM ? "vmm" : "ipc");
    }
    return rc;
}

void iso_device_buffer_forget(struct segment *segment)
{
    struct buffer_import *imports = (struct buffer_import *)segment->foreign;
    iso_transport_forget(segment);
    for (int i = 0; i < ISO->n_local; i++) {
        const struct buffer_import *import = &imports[i];
        if (import->base == NULL)
            continue;
        if (import->method == GPU_SHARE_IPC) {
            iso_gpu_shared_close(ISO->device->gpu, import->base, import->len);
        } else {
            iso_gpu_chunk_release(ISO->device->gpu, import->base, import->len);
            iso_gpu_unreserve(ISO->device->gpu, import->base, import->len);
        }
    }
    free(imports);
    iso_segment_remove(segment);
}

void iso_device_table_changed(void)
{
    if (ISO->device->running)
        iso_handles_refresh();
}
