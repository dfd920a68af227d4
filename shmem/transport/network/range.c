/* SPDX-License-Identifier: MIT */
/* The ranges by which segments are registered with a network: see range.h. */
#include "range.h"
#include "../../gpu/device.h"

#include <stdlib.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
#define FIRST_RANGE (4 * MIB)
#define LAST_RANGE (1024 * MIB)

/* Ranges double behind `front` bytes of control area: few registrations cover a large heap, and a small one costs
 * little. */
static struct range heap_range(size_t offset, size_t front)
{
    size_t first = FIRST_RANGE;
    if (offset < front) {
        size_t start = offset & ~(first - 1);
        return (struct range){start, ISO_MIN(start + first, front)};
    }
    size_t at = offset - front, start = 0, len = first;
    while (at >= start + len) {
        start += len;
        len = ISO_MIN(start, LAST_RANGE);
    }
    return (struct range){front + start, front + start + len};
}

/* Physical memory around that offset from the heap's base, also in the parts behind the heap: a chunk, or all of a fixed
 * allocation. Chunks stay. Acquire: pairs with the release of add_chunk (device_heap.c), which has filled the row. */
static struct device_chunk chunk_of(const struct device *d, size_t offset)
{
    int n = __atomic_load_n(&d->n_chunks, __ATOMIC_ACQUIRE);
    for (int i = 0; i < n; i++)
        if (offset - d->chunks[i].at < d->chunks[i].len)
            return d->chunks[i];
    n = __atomic_load_n(&d->n_grown, __ATOMIC_ACQUIRE); /* of iso_grow_back, likewise */
    for (int i = 0; i < n; i++)
        if (offset - d->grown[i].at < d->grown[i].len)
            return d->grown[i];
    return (struct device_chunk){0, d->span_bytes};
}

/* By address. Goes a little beyond the limit, so that many small objects do not become as many registrations; in a
 * device heap, not beyond its physical memory there. */
struct range iso_range_around(const struct segment *s, const void *addr)
{
    uint64_t base = (uint64_t)(uintptr_t)s->base;
    size_t offset = (size_t)((const char *)addr - s->base);
    struct range r = {0, s->len};
    if (s->kind == SEGMENT_DATA) {
        r = heap_range(offset, 0);
        r.end = ISO_MIN(r.end, s->len);
    }
    if (s->kind == SEGMENT_HEAP || s->kind == SEGMENT_DEVICE) {
        size_t limit = __atomic_load_n(&s->limit, __ATOMIC_RELAXED); /* as in iso_segment_of */
        r = heap_range(offset, s->on_device ? ISO->device->control_bytes : iso_segment_heap_start());
        limit = (ISO_MAX(limit, offset + 1) + MIB - 1) & ~(MIB - 1); /* an object that is kept lies behind the limit */
        r.end = ISO_MIN(r.end, ISO_MIN(limit, s->len));
    }
    if (s->alloc != NULL) { /* a part: all of it is within the limit, so not beyond its objects */
        size_t top = ISO_MAX(iso_alloc_top(s->alloc), offset + 1);
        r = heap_range(offset, 0);
        r.end = ISO_MIN(r.end, ISO_MIN((top + MIB - 1) & ~(MIB - 1), s->len));
    }
    if (s->kind == SEGMENT_DEVICE || (s->alloc != NULL && s->on_device)) {
        size_t before = s->within != NULL ? (size_t)(s->base - s->within->base) : 0; /* chunks count from the heap on */
        struct device_chunk c = chunk_of(ISO->device, before + offset);
        r = (struct range){ISO_MAX(r.start + before, c.at) - before, ISO_MIN(r.end + before, c.at + c.len) - before};
    }
    return (struct range){base + r.start, base + r.end};
}

uint64_t iso_range_locked_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

/* ---- tables ---- */

static struct range range_at(const struct range_table *t, size_t row_bytes, int i)
{
    struct range r;
    memcpy(&r, (const char *)t->rows + row_bytes * (size_t)i, sizeof r);
    return r;
}

static bool overlap(struct range a, struct range b) { return a.start < b.end && b.start < a.end; }

void *iso_range_add(struct range_table *t, size_t row_bytes, const void *row)
{
    struct range r;
    int i = 0;
    memcpy(&r, row, sizeof r);
    while (i < t->n && range_at(t, row_bytes, i).start != r.start)
        i++;
    if (i == t->n) {
        void *grown = realloc(t->rows, row_bytes * (size_t)(t->n + 1));
        if (grown == NULL)
            return NULL;
        t->rows = grown;
        t->last = t->n++;
    }
    return memcpy((char *)t->rows + row_bytes * (size_t)i, row, row_bytes);
}

struct range iso_range_gap(const struct range_table *t, size_t row_bytes, struct range r, uint64_t at)
{
    for (int i = 0; i < t->n; i++) {
        struct range other = range_at(t, row_bytes, i);
        if (other.end <= at)
            r.start = ISO_MAX(r.start, other.end);
        else if (other.start > at)
            r.end = ISO_MIN(r.end, other.start);
    }
    return r;
}

bool iso_range_overlaps(const struct range_table *t, size_t row_bytes, struct range r)
{
    for (int i = 0; i < t->n; i++)
        if (overlap(range_at(t, row_bytes, i), r))
            return true;
    return false;
}

void iso_range_forget(struct range_table *t, size_t row_bytes, struct range r, void (*close)(void *row, void *owner),
                      void *owner)
{
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        char *row = (char *)t->rows + row_bytes * (size_t)i;
        if (!overlap(range_at(t, row_bytes, i), r))
            memmove((char *)t->rows + row_bytes * (size_t)n++, row, row_bytes);
        else if (close != NULL)
            close(row, owner);
    }
    t->n = n;
    t->last = 0;
}
