/* SPDX-License-Identifier: MIT */
/* The symmetric heap: its start and end. */
#ifndef ISO_MEMORY_H
#define ISO_MEMORY_H

#include "segment.h"

int iso_memory_start(void); /* makes ISO->alloc over the heap behind the control area, and the heap's two parts */
/* Freed memory of a segment, [from, from + size), may be allocated again; if it is large, the system has it back. */
void iso_memory_give_back(const struct segment *segment, size_t from, size_t size);
/* The pages in [from, to) of the host's heap, or of a part of it, go back to the system, but where a network has the
 * memory registered. They read as zero afterwards. */
void iso_memory_punch(const struct segment *segment, size_t from, size_t to);
/* The program may load and store the pages of [from, to) again. */
void iso_memory_allow(const struct segment *segment, size_t from, size_t to);
void iso_memory_stop(void);

#endif
