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
        return ISO->world;
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

static struct place place_of_member(struct coll *c, struct coll_range r, const char *arg)
{
    int pe = c->views[r.pe].pe;
    if (ISO_LIKELY(r.mem->segment != NULL))
        return (struct place){NULL, r.mem->segment, r.mem->base + r.offset, pe};
    return iso_place(r.mem->base + r.offset, r.bytes, pe, c->call, arg);
}

void iso_coll_far_put_slot(struct coll *c, int to, size_t offset, const void *source, size_t bytes)
{
    iso_far_put(&ISO->ctx_words, iso_slot_place(c->slot, offset, c->views[to].pe), source, bytes, c->call);
}

void iso_coll_far_put(struct coll *c, struct coll_range to, const void *source)
{
    struct place place = place_of_member(c, to, "dest");
    if (place.cpu != NULL) {
        memcpy(place.cpu, source, to.bytes);
        return;
    }
    iso_far_put(&ISO->ctx_default, place, source, to.bytes, c->call);
    if (c->views[to.pe].near != NULL)
        iso_far_pe_quiet(&ISO->ctx_default, place.pe); /* the flag goes by pointer and must not overtake the data */
}

void iso_coll_far_read(struct coll *c, void *into, struct coll_range from)
{
    struct place place = place_of_member(c, from, "source");
    if (place.cpu != NULL)
        memcpy(into, place.cpu, from.bytes);
    else
        iso_far_get(&ISO->ctx_default, place, into, from.bytes, c->call);
}

/* Flags of a near member would go by pointer and overtake a transport. */
void iso_coll_far_put_flag(struct coll *c, struct coll_range to, const void *source)
{
    if (to.bytes == 0 || to.mem->segment == NULL || c->views[to.pe].near != NULL) {
        if (to.bytes > 0)
            iso_coll_far_put(c, to, source);
        coll_flag_set(c, to.pe);
        return;
    }
    struct far_message message = {place_of_member(c, to, "dest"),
                                  iso_slot_place(c->slot, iso_slot_flag_offset(c->me), c->views[to.pe].pe),
                                  source,
                                  to.bytes,
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
