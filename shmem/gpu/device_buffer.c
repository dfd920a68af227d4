/* SPDX-License-Identifier: MIT */
/* Registered buffers of device memory that the program got from the vendor's own allocator. The allocation around the
 * buffer is exported by the first method that the device layer knows (vmm, then ipc), each PE's by its own; the peers
 * import it whole and find the buffer at its offset. There is no staged method: nobody but the device can copy it.
 * Called by buffer.c. */
#include "../agree.h"
#include "../transport/transport.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const call = "shmemx_buffer_register";

/* What was imported from one local PE. */
struct import {
    char *base; /* NULL: nothing */
    size_t len;
    enum gpu_sharing method;
};

/* One PE's allocation around its buffer. */
struct allocation {
    char *start;
    size_t len;
    struct gpu_key key;
    enum gpu_sharing method;
};

static const char *method_name(enum gpu_sharing method) { return method == GPU_SHARE_VMM ? "vmm" : "ipc"; }

int iso_device_buffer_is(const void *addr, bool *is_device, const char *name)
{
    char sentence[160];
    bool mine = ISO->device->running && iso_gpu_pointer_kind(ISO->device->gpu, addr) == GPU_POINTER_DEVICE;
    bool all = iso_agree_min(&ISO->world, mine, name) != 0, none = iso_agree_min(&ISO->world, !mine, name) != 0;
    snprintf(sentence, sizeof sentence,
             "has %s memory at addr %p, and not all PEs have; it must be of the same kind everywhere",
             mine ? "device" : "host", addr);
    *is_device = mine;
    return all || none ? 0 : iso_device_agree(name, -EINVAL, sentence);
}

static int export_buffer(struct gpu *gpu, char *addr, size_t len, struct allocation *a)
{
    char sentence[384];
    memset(a, 0, sizeof *a);
    a->key.fd = -1;
    int rc = iso_gpu_export_foreign(gpu, addr, &a->start, &a->len, &a->key, &a->method);
    snprintf(
        sentence, sizeof sentence,
        "cannot share the device memory at %p: vmm and ipc were tried: %s; use shmemx_malloc, or an allocator that "
        "makes memory which can be exported",
        (void *)addr, rc != 0 ? iso_gpu_error(gpu) : "");
    rc = iso_device_agree(call, rc, sentence);
    if (rc != 0)
        return rc;
    size_t room = (size_t)(a->start + a->len - addr);
    snprintf(sentence, sizeof sentence, "has only %zu bytes from %p to the end of its allocation, len_bytes is %zu",
             room, (void *)addr, len);
    return iso_device_agree(call, len <= room ? 0 : -EINVAL, sentence);
}

/* Two exchanges, each closed by an agreement: the buffers, then the allocations around them. */
static int trade(const struct pe_offer *buffer, struct allocation *a, struct pe_offer *buffers, struct pe_offer *whole)
{
    int rc = iso_device_agree(call, buffers != NULL && whole != NULL ? 0 : -ENOMEM, "has no memory left");
    if (rc == 0)
        rc = iso_device_exchange(buffer, buffers, call);
    if (rc != 0)
        return rc;
    for (int i = 0; i < ISO->n_local; i++)
        if (buffers[i].len != buffer->len)
            rc = -EINVAL;
    rc = iso_device_agree(call, rc, "has another len_bytes than other PEs; it must be equal");
    struct pe_offer mine = {(uint64_t)(uintptr_t)a->start, a->len, {0}, (int32_t)a->method, a->key.fd};
    memcpy(mine.key, a->key.bytes, sizeof mine.key);
    return rc == 0 ? iso_device_exchange(&mine, whole, call) : rc;
}

static int import_one(struct gpu *gpu, struct pe_offer *whole, struct import *import)
{
    struct gpu_key key;
    memcpy(key.bytes, whole->key, sizeof key.bytes);
    key.fd = whole->fd;
    whole->fd = -1; /* the import takes it */
    import->len = (size_t)whole->len;
    import->method = (enum gpu_sharing)whole->extra;
    int rc = iso_gpu_import_foreign(gpu, &key, import->method, import->len, &import->base);
    if (rc != 0)
        import->base = NULL;
    return rc;
}

/* The row of local PE i. */
static int describe(struct segment *s, int i, const struct pe_offer *buffer, struct pe_offer *whole)
{
    const struct peer *peer = &ISO->peers[ISO->local_pes[i]];
    struct segment_peer *row = &s->peers[peer->pe];
    struct import *import = &((struct import *)s->foreign)[i];
    row->base = (char *)(uintptr_t)buffer->base;
    if (peer->pe == ISO->my_pe || (peer->threaded && ISO->device->reaches[i]))
        row->gpu_ptr = row->base;
    if (row->gpu_ptr != NULL || peer->threaded || !ISO->device->reaches[i])
        return 0;
    int rc = import_one(ISO->device->gpu, whole, import);
    if (rc == 0)
        row->gpu_ptr = import->base + (buffer->base - whole->base);
    return rc;
}

static struct segment *new_segment(char *addr, size_t len, int number)
{
    struct state *self = ISO;
    if (self->n_segments == ISO_SEGMENTS_MAX)
        return NULL;
    struct segment *s = &self->segments[self->n_segments];
    memset(s, 0, sizeof *s);
    s->peers = (struct segment_peer *)calloc((size_t)self->n_pes, sizeof *s->peers);
    s->foreign = calloc((size_t)self->n_local, sizeof(struct import));
    s->base = addr;
    s->len = s->limit = s->first_bytes = len;
    s->kind = SEGMENT_BUFFER;
    s->fd = -1;
    s->number = number;
    s->on_device = true;
    if (s->peers == NULL || s->foreign == NULL) {
        free(s->peers);
        free(s->foreign);
        return NULL;
    }
    self->n_segments++;
    return s;
}

static int add_segment(char *addr, size_t len, int number, const struct pe_offer *buffers, struct pe_offer *whole)
{
    struct segment *s = new_segment(addr, len, number);
    int rc = iso_device_agree(call, s != NULL ? 0 : -ENOSPC, "has no place for another registered buffer");
    if (rc == 0) {
        char sentence[384];
        for (int i = 0; rc == 0 && i < ISO->n_local; i++)
            rc = describe(s, i, &buffers[i], &whole[i]);
        snprintf(sentence, sizeof sentence, "cannot map the buffer of another PE: %s",
                 rc != 0 ? iso_gpu_error(ISO->device->gpu) : "");
        rc = iso_device_agree(call, rc, sentence);
    }
    if (rc == 0)
        rc = iso_agree_addresses(addr, len, call);
    if (rc != 0 && s != NULL)
        iso_device_buffer_forget(s);
    return rc;
}

int iso_device_buffer_register(char *addr, size_t len, int number, shmemx_buffer_info_t *info)
{
    struct allocation a;
    struct pe_offer buffer = {(uint64_t)(uintptr_t)addr, len, {0}, 0, -1};
    struct pe_offer *buffers = iso_device_new_offers(), *whole = iso_device_new_offers();
    int rc = export_buffer(ISO->device->gpu, addr, len, &a);
    if (rc == 0)
        rc = trade(&buffer, &a, buffers, whole);
    if (rc == 0)
        rc = add_segment(addr, len, number, buffers, whole);
    if (a.key.fd >= 0)
        close(a.key.fd);
    iso_device_close_offers(buffers);
    iso_device_close_offers(whole);
    if (rc == 0)
        iso_device_table_changed();
    if (rc == 0 && info != NULL) {
        memset(info, 0, sizeof *info);
        info->mapped_bytes = len;
        info->is_device = 1;
        snprintf(info->method, sizeof info->method, "%s", method_name(a.method));
    }
    return rc;
}

void iso_device_buffer_forget(struct segment *segment)
{
    struct import *imports = (struct import *)segment->foreign;
    iso_transport_forget(segment);
    for (int i = 0; i < ISO->n_local; i++)
        if (imports[i].base != NULL)
            iso_gpu_close_foreign(ISO->device->gpu, imports[i].base, imports[i].len, imports[i].method);
    free(imports);
    iso_segment_remove(segment);
}

void iso_device_table_changed(void)
{
    if (ISO->device->running)
        iso_handles_refresh();
}
