/* SPDX-License-Identifier: MIT */
/* Locks, for reports of waits. */
#ifndef ISO_LOCK_H
#define ISO_LOCK_H


#include <stddef.h>

struct segment;

/* The PE that holds the lock at this offset, as far as loads show it; -1: not known. For people: it may change. */
int iso_lock_holder(const struct segment *segment, size_t offset);

#endif
