/* SPDX-License-Identifier: MIT */
/* The offset allocator of a symmetric heap: hands out ranges of [0, cap) and never touches the memory behind them.
 * Its answers depend on the calls made and on their order only, not on addresses: PEs that make the same calls get
 * the same offsets, so objects are symmetric by construction. Calls may come from several threads.
 * Offsets and sizes are multiples of ISO_ALLOC_UNIT inside; the size asked for is remembered. Includes nothing of ours.
 */
#ifndef ISO_ALLOC_H
#define ISO_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#define ISO_ALLOC_UNIT 64                 /* a cache line: objects of different owners never share one */
#define ISO_ALLOC_MOST ((size_t)16 << 40) /* the largest cap, 16 TiB */

struct alloc;

struct alloc_object {
    size_t offset;
    size_t size; /* as it was asked for */
    bool kept;   /* iso_alloc_keep */
    bool lent;   /* iso_alloc_lend */
    void *owner; /* iso_alloc_own */
};

struct alloc_stats {
    size_t cap;
    size_t used;         /* bytes in objects, each rounded up to the unit */
    size_t largest_free; /* size of the largest free range */
    size_t objects;
    size_t top;  /* end of the highest object that ever was: nothing above it was ever handed out */
    size_t most;  /* `used` at its highest */
    size_t rises; /* how often an object has raised that */
};

/* cap is rounded down to the unit; most_blocks bounds the bookkeeping (0: no bound but memory).
 * NULL with errno: EINVAL (cap is 0 or above ISO_ALLOC_MOST), ENOMEM. */
struct alloc *iso_alloc_create(size_t cap, size_t most_blocks);
void iso_alloc_destroy(struct alloc *alloc); /* NULL-tolerant */

/* align: a power of two; size > 0. 0; -ENOSPC: no free range fits (exact: there is none); -ENOMEM: no memory for the
 * bookkeeping; -EINVAL. After a failure nothing has changed. */
int iso_alloc_get(struct alloc *alloc, size_t align, size_t size, size_t *offset);
/* For allocators of several PEs that shall give one offset: *offset becomes the lowest one at or above `from` where
 * `size` bytes are free. 0; -ENOSPC. Takes nothing; costs a walk over all blocks. */
int iso_alloc_first(struct alloc *alloc, size_t from, size_t size, size_t *offset);
/* An object at this offset, a multiple of the unit. 0; -ENOSPC: not free; -ENOMEM; -EINVAL. */
int iso_alloc_take(struct alloc *alloc, size_t offset, size_t size);
/* 0; -ENOENT: no object begins at offset. */
int iso_alloc_free(struct alloc *alloc, size_t offset);
/* Gives the object at offset another size > 0 where it is. 0, -ENOSPC (what follows it is not free), -ENOENT, -ENOMEM.
 */
int iso_alloc_resize(struct alloc *alloc, size_t offset, size_t size);

/* What users of objects note at them. An object gets `kept` and an owner once; `lent` is what all that are not kept get,
 * and lose again. New objects have none of it. keep, own: 0; -ENOENT: no object begins at offset. */
int iso_alloc_keep(struct alloc *alloc, size_t offset);
int iso_alloc_own(struct alloc *alloc, size_t offset, void *owner);
void iso_alloc_lend(struct alloc *alloc);
void iso_alloc_end_lending(struct alloc *alloc);

/* The live object whose bytes contain offset (the bytes that fill it up to the unit included); false: none. */
bool iso_alloc_find(struct alloc *alloc, size_t offset, struct alloc_object *object);
/* The first object at or above `from`; false: none. */
bool iso_alloc_next(struct alloc *alloc, size_t from, struct alloc_object *object);
size_t iso_alloc_top(struct alloc *alloc);
struct alloc_stats iso_alloc_stats(struct alloc *alloc);

/* Walks everything: neighbours add up to cap and free ones are merged, bins and tree hold exactly what they should. */
bool iso_alloc_is_valid(struct alloc *alloc);

#endif
