/* SPDX-License-Identifier: MIT */
/* Two-level segregated fit over offsets, with all bookkeeping in an array of its own.
 * Invariants: the blocks, in the order of `next`, tile [0, cap); two free blocks are never neighbours; every free block
 * is in the bin of its size, every used one in the tree; blocks[FIRST].offset == 0; iso_alloc_is_valid() checks them.
 * Called by memory.c, local.c and the unit tests. */
#include "alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT_LOG2 = 6,
    SPLIT_LOG2 = 5, /* each power of two is divided into 32 bins: a good fit wastes at most 1/32 */
    SPLITS = 1 << SPLIT_LOG2,
    LEVELS = 35, /* 16 TiB are 2^38 units: 1 level for 1..31 units, one each for 2^5 .. 2^38 */
    N_BINS = LEVELS * SPLITS,
    CLOSE_BLOCKS = 8,
    BLOCKS_AT_START = 64,
    SPARES_OF_GET = 2 /* a block in the middle of a free one makes two more */
};
enum { NIL = 0, FIRST = 1 }; /* index 0 is no block */

/* The meaning of the two links of a block. */
enum { BIN_BEFORE = 0, BIN_AFTER = 1 };   /* free: neighbours in its bin */
enum { TREE_LOWER = 0, TREE_HIGHER = 1 }; /* used: children in the tree */
enum { SPARE_AFTER = 1 };                 /* neither: list of unused entries */

struct block {
    uint64_t offset;
    uint64_t size;      /* a multiple of the unit; 0: unused entry */
    uint64_t requested : 62; /* size == requested rounded up; 0: free */
    uint64_t kept : 1;       /* false where it is free, as is the next one */
    uint64_t lent : 1;
    uint32_t prev;      /* neighbours in memory */
    uint32_t next;
    uint32_t links[2];
    void *owner; /* NULL where it is free */
};

struct alloc {
    pthread_mutex_t lock;
    struct block *blocks;
    size_t n_blocks;    /* entries of the array, NIL included */
    size_t most_blocks; /* n_blocks <= most_blocks */
    size_t n_spare;
    uint32_t spare;
    uint32_t root; /* of the tree of used blocks, by offset */
    uint64_t cap, used, most, rises, top;
    uint64_t objects;
    uint64_t levels;         /* bit l: splits[l] != 0 */
    uint32_t splits[LEVELS]; /* bit s: bins[l * SPLITS + s] != NIL */
    uint32_t bins[N_BINS];
};

static uint64_t round_to_unit(uint64_t size) { return (size + ISO_ALLOC_UNIT - 1) & ~(uint64_t)(ISO_ALLOC_UNIT - 1); }

/* ---- bins: free blocks by size ---- */

static unsigned log2_floor(uint64_t value) { return 63u - (unsigned)__builtin_clzll(value); }

/* Never decreases with size, so bins from bin_of(size) on hold all blocks that could fit. */
static unsigned bin_of(uint64_t size)
{
    uint64_t units = size >> UNIT_LOG2;
    if (units < SPLITS)
        return (unsigned)units;
    unsigned shift = log2_floor(units) - SPLIT_LOG2;
    return (shift + 1) * SPLITS + (unsigned)((units >> shift) - SPLITS);
}

/* The first bin that is not empty, from `bin` on; N_BINS: none. */
static unsigned bin_not_empty(const struct alloc *a, unsigned bin)
{
    unsigned level = bin / SPLITS;
    if (level >= LEVELS)
        return N_BINS;
    uint32_t splits = a->splits[level] & (UINT32_MAX << (bin % SPLITS));
    if (splits == 0) {
        uint64_t levels = a->levels & (UINT64_MAX << (level + 1));
        if (levels == 0)
            return N_BINS;
        level = (unsigned)__builtin_ctzll(levels);
        splits = a->splits[level];
    }
    return level * SPLITS + (unsigned)__builtin_ctz(splits);
}

/* The newest block goes first: its memory is warm in the caches. */
static void bin_insert(struct alloc *a, uint32_t index)
{
    unsigned bin = bin_of(a->blocks[index].size);
    uint32_t head = a->bins[bin];
    a->blocks[index].links[BIN_BEFORE] = NIL;
    a->blocks[index].links[BIN_AFTER] = head;
    if (head != NIL)
        a->blocks[head].links[BIN_BEFORE] = index;
    a->bins[bin] = index;
    a->splits[bin / SPLITS] |= UINT32_C(1) << (bin % SPLITS);
    a->levels |= UINT64_C(1) << (bin / SPLITS);
}

static void bin_remove(struct alloc *a, uint32_t index)
{
    unsigned bin = bin_of(a->blocks[index].size);
    uint32_t before = a->blocks[index].links[BIN_BEFORE], after = a->blocks[index].links[BIN_AFTER];
    if (after != NIL)
        a->blocks[after].links[BIN_BEFORE] = before;
    if (before != NIL) {
        a->blocks[before].links[BIN_AFTER] = after;
        return;
    }
    a->bins[bin] = after;
    if (after != NIL)
        return;
    a->splits[bin / SPLITS] &= ~(UINT32_C(1) << (bin % SPLITS));
    if (a->splits[bin / SPLITS] == 0)
        a->levels &= ~(UINT64_C(1) << (bin / SPLITS));
}

/* ---- tree: used blocks by offset. A treap, its priorities a hash of the offset: no balancing to keep in step ---- */

static uint64_t priority(const struct alloc *a, uint32_t index)
{
    uint64_t x = (a->blocks[index].offset >> UNIT_LOG2) + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 29); /* one to one, so never equal for two blocks */
}

static void tree_insert(struct alloc *a, uint32_t index)
{
    struct block *b = &a->blocks[index];
    uint64_t mine = priority(a, index);
    uint32_t *link = &a->root;
    while (*link != NIL && priority(a, *link) > mine)
        link = &a->blocks[*link].links[a->blocks[*link].offset < b->offset ? TREE_HIGHER : TREE_LOWER];
    uint32_t below = *link; /* this tree is divided at the block's offset */
    uint32_t *lower = &b->links[TREE_LOWER], *higher = &b->links[TREE_HIGHER];
    *link = index;
    while (below != NIL) {
        if (a->blocks[below].offset < b->offset) {
            *lower = below;
            lower = &a->blocks[below].links[TREE_HIGHER];
            below = *lower;
        } else {
            *higher = below;
            higher = &a->blocks[below].links[TREE_LOWER];
            below = *higher;
        }
    }
    *lower = NIL;
    *higher = NIL;
}

static void tree_remove(struct alloc *a, uint32_t index)
{
    const struct block *b = &a->blocks[index];
    uint32_t *link = &a->root;
    while (*link != index)
        link = &a->blocks[*link].links[a->blocks[*link].offset < b->offset ? TREE_HIGHER : TREE_LOWER];
    uint32_t lower = b->links[TREE_LOWER], higher = b->links[TREE_HIGHER];
    while (lower != NIL && higher != NIL) {
        if (priority(a, lower) > priority(a, higher)) {
            *link = lower;
            link = &a->blocks[lower].links[TREE_HIGHER];
            lower = *link;
        } else {
            *link = higher;
            link = &a->blocks[higher].links[TREE_LOWER];
            higher = *link;
        }
    }
    *link = lower != NIL ? lower : higher;
}

/* The used block with the highest offset <= `offset`; NIL: none. */
static uint32_t tree_at_or_below(const struct alloc *a, uint64_t offset)
{
    uint32_t best = NIL;
    for (uint32_t i = a->root; i != NIL;) {
        if (a->blocks[i].offset > offset) {
            i = a->blocks[i].links[TREE_LOWER];
        } else {
            best = i;
            i = a->blocks[i].links[TREE_HIGHER];
        }
    }
    return best;
}

static uint32_t tree_find(const struct alloc *a, uint64_t offset)
{
    uint32_t index = tree_at_or_below(a, offset);
    return index != NIL && a->blocks[index].offset == offset ? index : NIL;
}

/* ---- blocks ---- */

static bool is_free(const struct alloc *a, uint32_t index) { return index != NIL && a->blocks[index].requested == 0; }

static void spare_insert(struct alloc *a, uint32_t index)
{
    memset(&a->blocks[index], 0, sizeof a->blocks[index]);
    a->blocks[index].links[SPARE_AFTER] = a->spare;
    a->spare = index;
    a->n_spare++;
}

/* At least n unused entries, before anything is changed: a call that fails has done nothing. */
static int spare_reserve(struct alloc *a, size_t n)
{
    if (a->n_spare >= n)
        return 0;
    size_t grown = a->n_blocks == 0 ? BLOCKS_AT_START : 2 * a->n_blocks;
    if (grown > a->most_blocks)
        grown = a->most_blocks;
    if (grown < a->n_blocks + n - a->n_spare)
        return -ENOMEM;
    struct block *blocks = (struct block *)realloc(a->blocks, grown * sizeof *blocks);
    if (blocks == NULL)
        return -ENOMEM;
    a->blocks = blocks;
    for (size_t i = grown; i-- > a->n_blocks;)
        if (i != NIL)
            spare_insert(a, (uint32_t)i);
    a->n_blocks = grown;
    return 0;
}

/* Cuts a block that is in no bin and no tree; the index of the part from offset + at on, or NIL when that is empty. */
static uint32_t split(struct alloc *a, uint32_t index, uint64_t at)
{
    struct block *b = &a->blocks[index];
    if (at == b->size)
        return NIL;
    uint32_t rest = a->spare;
    struct block *r = &a->blocks[rest];
    a->spare = r->links[SPARE_AFTER];
    a->n_spare--;
    *r = (struct block){.offset = b->offset + at, .size = b->size - at, .prev = index, .next = b->next};
    if (r->next != NIL)
        a->blocks[r->next].prev = rest;
    b->next = rest;
    b->size = at;
    return rest;
}

/* The block after `index`, in no bin and no tree, becomes its end. */
static void absorb_next(struct alloc *a, uint32_t index)
{
    struct block *b = &a->blocks[index];
    uint32_t gone = b->next;
    b->size += a->blocks[gone].size;
    b->next = a->blocks[gone].next;
    if (b->next != NIL)
        a->blocks[b->next].prev = index;
    spare_insert(a, gone);
}

/* A block that is in no bin and no tree becomes free. */
static void release_block(struct alloc *a, uint32_t index)
{
    a->blocks[index].requested = a->blocks[index].kept = a->blocks[index].lent = 0;
    a->blocks[index].owner = NULL;
    if (is_free(a, a->blocks[index].next)) {
        bin_remove(a, a->blocks[index].next);
        absorb_next(a, index);
    }
    uint32_t prev = a->blocks[index].prev;
    if (is_free(a, prev)) {
        bin_remove(a, prev);
        absorb_next(a, prev);
        index = prev;
    }
    bin_insert(a, index);
}

/* Bytes to skip at the front of a block for the alignment. */
static uint64_t padding(const struct block *b, uint64_t align)
{
    return (align - (b->offset & (align - 1))) & (align - 1);
}

/* The first of the `most` smallest free blocks that can hold the request. */
static uint32_t search(const struct alloc *a, uint64_t align, uint64_t size, uint64_t most)
{
    for (unsigned bin = bin_not_empty(a, bin_of(size)); bin < N_BINS; bin = bin_not_empty(a, bin + 1))
        for (uint32_t i = a->bins[bin]; i != NIL; i = a->blocks[i].links[BIN_AFTER], most--) {
            if (most == 0)
                return NIL;
            const struct block *b = &a->blocks[i];
            uint64_t pad = padding(b, align);
            if (pad <= b->size && size <= b->size - pad)
                return i;
        }
    return NIL;
}

/* A few close blocks come first: the bin of exactly this size is not one that surely fits, and a program that frees and
 * allocates the same size should get the same place. A bin that surely fits comes second. All others come last, which
 * makes a failure exact. */
static uint32_t pick_block(const struct alloc *a, uint64_t align, uint64_t size)
{
    uint32_t index = search(a, align, size, CLOSE_BLOCKS);
    if (index != NIL)
        return index;

    /* The first bin all of whose blocks surely fit: the size is rounded up to the start of a bin. */
    uint64_t surely = size + (align > ISO_ALLOC_UNIT ? align - ISO_ALLOC_UNIT : 0), units = surely >> UNIT_LOG2;
    if (units >= SPLITS)
        units += (UINT64_C(1) << (log2_floor(units) - SPLIT_LOG2)) - 1;
    unsigned bin = surely <= a->cap ? bin_not_empty(a, bin_of(units << UNIT_LOG2)) : N_BINS;
    return bin < N_BINS ? a->bins[bin] : search(a, align, size, UINT64_MAX);
}

/* The block becomes an object of `requested` bytes; what it has above that becomes free. */
static void occupy(struct alloc *a, uint32_t index, uint64_t requested)
{
    uint64_t size = round_to_unit(requested);
    uint32_t rest = split(a, index, size);
    struct block *b = &a->blocks[index];
    b->requested = requested;
    a->used += size;
    a->rises += a->used > a->most;
    a->most = a->used > a->most ? a->used : a->most;
    if (b->offset + size > a->top)
        a->top = b->offset + size;
    if (rest != NIL)
        release_block(a, rest);
}

/* An object `pad` bytes behind the front of a free block that has room for it there. */
static int place(struct alloc *a, uint32_t index, uint64_t pad, uint64_t requested, size_t *offset)
{
    int rc = spare_reserve(a, SPARES_OF_GET);
    if (rc != 0)
        return rc;
    bin_remove(a, index);
    if (pad > 0) {
        uint32_t front = index;
        index = split(a, front, pad);
        bin_insert(a, front);
    }
    occupy(a, index, requested);
    tree_insert(a, index);
    a->objects++;
    *offset = (size_t)a->blocks[index].offset;
    return 0;
}

/* The free block that holds the first place at or above `from`; NIL: there is no such place. */
static uint32_t first_from(const struct alloc *a, uint64_t from, uint64_t size, uint64_t *pad)
{
    for (uint32_t i = FIRST; i != NIL; i = a->blocks[i].next) {
        const struct block *b = &a->blocks[i];
        *pad = from > b->offset ? from - b->offset : 0;
        if (b->requested == 0 && *pad <= b->size && size <= b->size - *pad)
            return i;
    }
    return NIL;
}

static int resize(struct alloc *a, uint32_t index, uint64_t requested)
{
    uint64_t size = round_to_unit(requested);
    uint32_t next = a->blocks[index].next;
    uint64_t available = a->blocks[index].size + (is_free(a, next) ? a->blocks[next].size : 0);
    if (size > available)
        return -ENOSPC;
    int rc = spare_reserve(a, 1);
    if (rc != 0)
        return rc;
    a->used -= a->blocks[index].size;
    if (is_free(a, next)) {
        bin_remove(a, next);
        absorb_next(a, index);
    }
    occupy(a, index, requested);
    return 0;
}

/* ---- what others call: each under the lock ---- */

struct alloc *iso_alloc_create(size_t cap, size_t most_blocks)
{
    cap &= ~(size_t)(ISO_ALLOC_UNIT - 1);
    if (cap == 0 || cap > ISO_ALLOC_MOST) {
        errno = EINVAL;
        return NULL;
    }
    struct alloc *a = (struct alloc *)calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    pthread_mutex_init(&a->lock, NULL);
    a->cap = cap;
    a->most_blocks = most_blocks == 0 || most_blocks >= UINT32_MAX ? UINT32_MAX : most_blocks + 1;
    if (spare_reserve(a, 1) != 0) {
        iso_alloc_destroy(a);
        errno = ENOMEM;
        return NULL;
    }
    a->spare = a->blocks[FIRST].links[SPARE_AFTER];
    a->n_spare--;
    a->blocks[FIRST] = (struct block){.size = cap};
    bin_insert(a, FIRST);
    return a;
}

void iso_alloc_destroy(struct alloc *a)
{
    if (a == NULL)
        return;
    pthread_mutex_destroy(&a->lock);
    free(a->blocks);
    free(a);
}

int iso_alloc_get(struct alloc *a, size_t align, size_t size, size_t *offset)
{
    if (size == 0 || align == 0 || (align & (align - 1)) != 0)
        return -EINVAL;
    if (size > a->cap) /* also: nothing wraps around after this */
        return -ENOSPC;
    pthread_mutex_lock(&a->lock);
    uint32_t index = pick_block(a, align, round_to_unit(size));
    int rc = index == NIL ? -ENOSPC : place(a, index, padding(&a->blocks[index], align), size, offset);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

int iso_alloc_first(struct alloc *a, size_t from, size_t size, size_t *offset)
{
    uint64_t pad;
    if (from > a->cap || size > a->cap)
        return -ENOSPC;
    pthread_mutex_lock(&a->lock);
    uint32_t index = first_from(a, round_to_unit(from), round_to_unit(size), &pad);
    if (index != NIL)
        *offset = (size_t)(a->blocks[index].offset + pad);
    pthread_mutex_unlock(&a->lock);
    return index == NIL ? -ENOSPC : 0;
}

int iso_alloc_take(struct alloc *a, size_t offset, size_t size)
{
    uint64_t pad;
    size_t taken;
    if (size == 0 || offset % ISO_ALLOC_UNIT != 0)
        return -EINVAL;
    if (offset > a->cap || size > a->cap)
        return -ENOSPC;
    pthread_mutex_lock(&a->lock);
    uint32_t index = first_from(a, offset, round_to_unit(size), &pad);
    bool is_there = index != NIL && a->blocks[index].offset + pad == offset;
    int rc = is_there ? place(a, index, pad, size, &taken) : -ENOSPC;
    pthread_mutex_unlock(&a->lock);
    return rc;
}

int iso_alloc_free(struct alloc *a, size_t offset)
{
    pthread_mutex_lock(&a->lock);
    uint32_t index = tree_find(a, offset);
    if (index != NIL) {
        tree_remove(a, index);
        a->used -= a->blocks[index].size;
        a->objects--;
        release_block(a, index);
    }
    pthread_mutex_unlock(&a->lock);
    return index == NIL ? -ENOENT : 0;
}

int iso_alloc_resize(struct alloc *a, size_t offset, size_t size)
{
    if (size == 0)
        return -EINVAL;
    pthread_mutex_lock(&a->lock);
    uint32_t index = tree_find(a, offset);
    int rc = index == NIL ? -ENOENT : size > a->cap ? -ENOSPC : resize(a, index, size);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

int iso_alloc_keep(struct alloc *a, size_t offset)
{
    pthread_mutex_lock(&a->lock);
    uint32_t index = tree_find(a, offset);
    if (index != NIL)
        a->blocks[index].kept = 1;
    pthread_mutex_unlock(&a->lock);
    return index == NIL ? -ENOENT : 0;
}

int iso_alloc_own(struct alloc *a, size_t offset, void *owner)
{
    pthread_mutex_lock(&a->lock);
    uint32_t index = tree_find(a, offset);
    if (index != NIL)
        a->blocks[index].owner = owner;
    pthread_mutex_unlock(&a->lock);
    return index == NIL ? -ENOENT : 0;
}

void iso_alloc_lend(struct alloc *a)
{
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = FIRST; i != NIL; i = a->blocks[i].next)
        a->blocks[i].lent = !is_free(a, i) && !a->blocks[i].kept;
    pthread_mutex_unlock(&a->lock);
}

void iso_alloc_end_lending(struct alloc *a)
{
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = FIRST; i != NIL; i = a->blocks[i].next)
        a->blocks[i].lent = 0;
    pthread_mutex_unlock(&a->lock);
}

static struct alloc_object object_of(const struct block *b)
{
    return (struct alloc_object){(size_t)b->offset, (size_t)b->requested, b->kept, b->lent, b->owner};
}

bool iso_alloc_find(struct alloc *a, size_t offset, struct alloc_object *object)
{
    pthread_mutex_lock(&a->lock);
    uint32_t index = tree_at_or_below(a, offset);
    const struct block *b = &a->blocks[index];
    bool found = index != NIL && offset - b->offset < b->size;
    if (found)
        *object = object_of(b);
    pthread_mutex_unlock(&a->lock);
    return found;
}

bool iso_alloc_next(struct alloc *a, size_t from, struct alloc_object *object)
{
    uint32_t found = NIL;
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = a->root; i != NIL;) {
        bool behind = a->blocks[i].offset >= from;
        found = behind ? i : found;
        i = a->blocks[i].links[behind ? TREE_LOWER : TREE_HIGHER];
    }
    if (found != NIL)
        *object = object_of(&a->blocks[found]);
    pthread_mutex_unlock(&a->lock);
    return found != NIL;
}

size_t iso_alloc_top(struct alloc *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t top = a->top;
    pthread_mutex_unlock(&a->lock);
    return (size_t)top;
}

struct alloc_stats iso_alloc_stats(struct alloc *a)
{
    uint64_t largest = 0;
    pthread_mutex_lock(&a->lock);

    /* The bins are in the order of size, so the largest block is in the highest one that is not empty. */
    if (a->levels != 0) {
        unsigned level = log2_floor(a->levels);
        for (uint32_t i = a->bins[level * SPLITS + log2_floor(a->splits[level])]; i != NIL;
             i = a->blocks[i].links[BIN_AFTER])
            if (a->blocks[i].size > largest)
                largest = a->blocks[i].size;
    }
    struct alloc_stats stats = {(size_t)a->cap, (size_t)a->used, (size_t)largest, (size_t)a->objects, (size_t)a->top,
                                (size_t)a->most, (size_t)a->rises};
    pthread_mutex_unlock(&a->lock);
    return stats;
}

/* ---- validity ---- */

struct census {
    uint64_t free, used; /* blocks */
    uint64_t used_bytes;
};

static bool chain_is_valid(const struct alloc *a, struct census *census)
{
    uint64_t end = 0, seen = 0;
    uint32_t prev = NIL;
    for (uint32_t i = FIRST; i != NIL; i = a->blocks[i].next) {
        const struct block *b = &a->blocks[i];
        if (i >= a->n_blocks || ++seen > a->n_blocks || b->offset != end || b->prev != prev)
            return false;
        if (b->size == 0 || b->size % ISO_ALLOC_UNIT != 0)
            return false;
        if (b->requested == 0 ? is_free(a, b->next) || b->kept || b->lent || b->owner != NULL
                              : b->size != round_to_unit(b->requested) || b->offset + b->size > a->top)
            return false;
        census->free += b->requested == 0;
        census->used += b->requested != 0;
        census->used_bytes += b->requested == 0 ? 0 : b->size;
        end = b->offset + b->size;
        prev = i;
    }
    return end == a->cap && census->used == a->objects && census->used_bytes == a->used &&
           census->free + census->used + a->n_spare + 1 == a->n_blocks;
}

static bool bins_are_valid(const struct alloc *a, const struct census *census)
{
    uint64_t seen = 0;
    for (unsigned bin = 0; bin < N_BINS; bin++) {
        uint32_t before = NIL;
        for (uint32_t i = a->bins[bin]; i != NIL; before = i, i = a->blocks[i].links[BIN_AFTER]) {
            const struct block *b = &a->blocks[i];
            if (b->size == 0 || b->requested != 0 || bin_of(b->size) != bin || b->links[BIN_BEFORE] != before)
                return false;
            if (++seen > a->n_blocks)
                return false;
        }
        if (((a->splits[bin / SPLITS] >> (bin % SPLITS)) & 1) != (a->bins[bin] != NIL))
            return false;
    }
    for (unsigned level = 0; level < LEVELS; level++)
        if (((a->levels >> level) & 1) != (a->splits[level] != 0))
            return false;
    return seen == census->free;
}

/* Blocks of the tree whose offsets lie in [from, to), UINT64_MAX when something is wrong. */
static uint64_t tree_count(const struct alloc *a, uint32_t tree, uint64_t from, uint64_t to)
{
    if (tree == NIL)
        return 0;
    const struct block *b = &a->blocks[tree];
    if (b->requested == 0 || b->offset < from || b->offset >= to)
        return UINT64_MAX;
    for (int side = TREE_LOWER; side <= TREE_HIGHER; side++)
        if (b->links[side] != NIL && priority(a, b->links[side]) >= priority(a, tree))
            return UINT64_MAX;
    uint64_t lower = tree_count(a, b->links[TREE_LOWER], from, b->offset);
    uint64_t higher = tree_count(a, b->links[TREE_HIGHER], b->offset + b->size, to);
    return lower == UINT64_MAX || higher == UINT64_MAX ? UINT64_MAX : lower + higher + 1;
}

static bool spares_are_valid(const struct alloc *a)
{
    uint64_t seen = 0;
    for (uint32_t i = a->spare; i != NIL && seen <= a->n_spare; i = a->blocks[i].links[SPARE_AFTER], seen++)
        if (a->blocks[i].size != 0)
            return false;
    return seen == a->n_spare;
}

bool iso_alloc_is_valid(struct alloc *a)
{
    struct census census = {0, 0, 0};
    pthread_mutex_lock(&a->lock);
    bool valid = chain_is_valid(a, &census) && bins_are_valid(a, &census) && spares_are_valid(a) &&
                 tree_count(a, a->root, 0, a->cap) == census.used;
    pthread_mutex_unlock(&a->lock);
    return valid;
}
