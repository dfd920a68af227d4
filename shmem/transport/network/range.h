/* SPDX-License-Identifier: MIT */
/* The ranges by which segments are registered with a network: as few as possible, of a bounded size, so that a sparse
 * heap is never pinned whole. Included by the networks' files. */
#ifndef ISO_RANGE_H
#define ISO_RANGE_H

#include "../../memory/segment.h"

#include <string.h>

/* [start, end) of this PE's addresses. */
struct range {
    uint64_t start, end;
};

/* The range of segment s to register when the byte at addr is first needed. The same address always gives the same
 * start; the end grows with the segment. */
struct range iso_range_around(const struct segment *s, const void *addr);
uint64_t iso_range_locked_limit(void); /* bytes of memory that this process may lock; UINT64_MAX: no limit */


/* A table of ranges of one PE: registrations of this PE's, or keys of a peer's. Its rows are structs of a network, of
 * row_bytes each, which begin with `start` and `end`. A call may move the rows. All zero: empty. */
struct range_table {
    void *rows; /* the owner frees them */
    int n, last; /* last: the row that was found or added last, a hint */
};
/* The row whose range holds addr. NULL: none. */
ISO_INLINE void *iso_range_find(struct range_table *t, size_t row_bytes, uint64_t addr)
{
    for (int n = 0, i = t->last < t->n ? t->last : 0; n < t->n; n++, i = i + 1 < t->n ? i + 1 : 0) {
        char *row = (char *)t->rows + row_bytes * (size_t)i;
        struct range r;
        memcpy(&r, row, sizeof r);
        if (addr - r.start < r.end - r.start) {
            t->last = i;
            return row;
        }
    }
    return NULL;
}
/* Adds a copy of the row. A row with the same start is older (its range was shorter, or is gone) and replaced. NULL: no
 * memory. */
void *iso_range_add(struct range_table *t, size_t row_bytes, const void *row);
/* The part of r around the address `at`, which no row holds, that overlaps no row's range. */
struct range iso_range_gap(const struct range_table *t, size_t row_bytes, struct range r, uint64_t at);
/* Is there a row whose range overlaps with r? */
bool iso_range_overlaps(const struct range_table *t, size_t row_bytes, struct range r);
/* Removes the rows whose ranges overlap with r; `close` (NULL: nothing) is called with each, and the owner, before. */
void iso_range_forget(struct range_table *t, size_t row_bytes, struct range r, void (*close)(void *row, void *owner),
                      void *owner);
/* The addresses [offset, offset + len) of a segment by its base on some PE. */
ISO_INLINE struct range iso_range_of(const void *base, size_t offset, size_t len)
{
    uint64_t start = (uint64_t)(uintptr_t)base + offset;
    return (struct range){start, start + len};
}

#endif
