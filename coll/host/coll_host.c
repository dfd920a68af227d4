/* SPDX-License-Identifier: MIT */
/* Host collectives: checks of arguments, and the far halves of the hooks.
 * Called by coll_sync.c, coll_move.c, coll_reduce.c and the algorithms. */
#include "../../shmem/transport/far.h"
#include "coll.h"

/* ---- arguments ---- */

size_t iso_coll_bytes(size_t a, size_t b, size_t c)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product))
        return SIZE_MAX;
    return product;
}

struct team *iso_coll_team(shmem_team_t handle, const char *call)
{
    iso_check_life(call);
    if (ISO_LIKELY(handle == SHMEM_TEAM_WORLD))
        return &ISO->world;
    if (handle == SHMEM_TEAM_INVALID)
        return NULL;
    return iso_team(handle, call);
}

struct coll_mem iso_coll_mem(const void *addr, size_t bytes, const char *arg, const char *call)
{
    struct coll_mem mem = {(char *)(uintptr_t)addr, NULL, 0};
    if (bytes == 0)
        return mem;
    mem.segment = iso_segment_of(addr, bytes);
    if (ISO_UNLIKELY(mem.segment == NULL) || ISO_UNLIKELY(ISO->debug)) {
        struct place place = iso_place_slow(addr, bytes, ISO->my_pe, call, arg);
        mem.segment = place.segment;
    }
    if (ISO_UNLIKELY(mem.segment == NULL))
        return mem;
    if (ISO_UNLIKELY(mem.segment->on_device))
        iso_fatal(call,
                  "%s %p is device memory: collectives of the host work on host memory; use those of shmem_device.h in "
                  "a kernel",
                  arg, addr);
    if (ISO_UNLIKELY(mem.segment->kind == SEGMENT_LOCAL))
        iso_fatal(call,
                  "%s %p is local memory (shmemx_local_malloc), not the same object on all members: allocate it by "
                  "shmem_malloc or shmemx_team_malloc",
                  arg, addr);
    mem.offset = (size_t)(mem.base - mem.segment->base);
    return mem;
}

/* ---- far halves of the hooks ---- */

static struct place mem_place(struct coll *c, const struct coll_mem *mem, size_t offset, int pe)
{
    struct place place = {NULL, mem->segment, mem->offset + offset, c->views[pe].pe};
    return place;
}

void iso_coll_far_put(struct coll *c, const struct coll_mem *to, size_t offset, const void *source, size_t bytes,
                      int pe)
{
    char *dest = to->base + offset;
    struct place place =
        to->segment != NULL ? mem_place(c, to, offset, pe) : iso_place(dest, bytes, c->views[pe].pe, c->call, "dest");
    if (place.cpu != NULL) {
        memcpy(place.cpu, source, bytes);
        return;
    }
    iso_far_put(&ISO->ctx_default, place, dest, source, bytes, c->call);
    if (c->views[pe].near != NULL)
        iso_far_pe_quiet(&ISO->ctx_default, place.pe); /* the flag goes by pointer and must not overtake the data */
}

void iso_coll_far_read(struct coll *c, void *into, const struct coll_mem *from, size_t offset, size_t bytes, int pe)
{
    const char *source = from->base + offset;
    struct place place = from->segment != NULL ? mem_place(c, from, offset, pe)
                                               : iso_place(source, bytes, c->views[pe].pe, c->call, "source");
    if (place.cpu != NULL)
        memcpy(into, place.cpu, bytes);
    else
        iso_far_get(&ISO->ctx_default, into, place, source, bytes, c->call);
}

/* Flags of a near member would go by pointer and overtake a transport. */
void iso_coll_far_put_flag(struct coll *c, const struct coll_mem *to, size_t offset, const void *source, size_t bytes,
                           int pe)
{
    if (bytes == 0 || to->segment == NULL || c->views[pe].near != NULL) {
        if (bytes > 0)
            iso_coll_far_put(c, to, offset, source, bytes, pe);
        coll_flag_set(c, pe);
        return;
    }
    struct far_message message = {mem_place(c, to, offset, pe),
                                  iso_slot_place(c->slot, iso_slot_flag_offset(c->me), c->views[pe].pe),
                                  to->base + offset,
                                  source,
                                  bytes,
                                  c->epoch,
                                  SHMEM_SIGNAL_SET,
                                  true,
                                  c->call};
    iso_far_put_signal(&ISO->ctx_default, &message);
}

void iso_coll_far_done(void)
{
    if (iso_ctx_is_dirty(&ISO->ctx_default))
        iso_far_quiet(&ISO->ctx_default);
}
