/* SPDX-License-Identifier: MIT */
/* The symmetric heap: its start and end. */
#ifndef ISO_MEMORY_H
#define ISO_MEMORY_H

#include "segment.h"

int iso_memory_start(void); /* makes ISO->alloc over the heap behind the control area, and the heap's two parts */
/* Gives large freed memory, [from, from + size) of a host heap or of its parts, back to the system. */
void iso_memory_give_back(const struct segment *segment, size_t from, size_t size);
void iso_memory_stop(void);

#endif
