/* SPDX-License-Identifier: MIT */
/* SHMEM_RANGES: calls as ranges of NVTX or rocTX, so that Nsight and rocprof show them by name. Used by profile.c. */
#ifndef ISO_RANGES_H
#define ISO_RANGES_H

#include "profile.h"

/* A tool says that it listens, or the variable asks. */
bool iso_ranges_are_asked(const struct env *env);
/* Sets range_push and range_pop, or leaves them NULL where nothing listens: a sentence then, if the variable asks. */
void iso_ranges_start(struct profile *p);

#endif
