/* SPDX-License-Identifier: MIT */
/* The symmetric heap: where its objects begin, its start and end. */
#ifndef ISO_MEMORY_H
#define ISO_MEMORY_H

#include "pe_state.h"

/* The first object of the heap lies behind the control area, at this offset of the heap segment. */
ISO_INLINE size_t iso_memory_heap_start(void)
{
    const size_t huge = (size_t)2 << 20;
    return (ISO->control_bytes + huge - 1) & ~(huge - 1);
}
int iso_memory_start(void); /* makes ISO->alloc over the heap behind the control area, and the heap's two parts */
/* Gives large freed memory, [from, from + size) of a host heap or of its parts, back to the system. */
void iso_memory_give_back(const struct segment *segment, size_t from, size_t size);
void iso_memory_stop(void);

#endif
