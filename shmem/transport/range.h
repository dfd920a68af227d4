/* SPDX-License-Identifier: MIT */
/* The ranges by which segments are registered with a network: as few as possible, of a bounded size, so that a sparse
 * heap is never pinned whole. Included by the networks' files. */
#ifndef ISO_RANGE_H
#define ISO_RANGE_H

#include "../segment.h"

/* [start, end) of this PE's addresses. */
struct range {
    uint64_t start, end;
};

/* The range of segment s to register when the byte at addr is first needed. The same address always gives the same
 * start; the end grows with the segment. */
struct range iso_range_around(const struct segment *s, const void *addr);
ISO_INLINE bool iso_range_touches(uint64_t start, uint64_t end, uint64_t base, uint64_t len)
{
    return start < base + len && base < end;
}
uint64_t iso_range_locked_limit(void); /* bytes of memory that this process may lock; UINT64_MAX: no limit */

#endif
