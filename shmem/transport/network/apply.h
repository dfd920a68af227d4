/* SPDX-License-Identifier: MIT */
/* Operations of other nodes on memory of this PE, for which its CPU acts. A word belongs to the processor of its
 * memory: host words get CPU atomics here, as from local PEs; device words go to the agent. Called by the networks, by
 * any thread. */
#ifndef ISO_APPLY_H
#define ISO_APPLY_H

#include "../device_agent.h"

/* False: there is no such word in a segment of this PE, and nothing is done. */
bool iso_apply_amo(uint64_t addr, struct amo op, uint64_t *before);
/* Copies into, or out of, segments of this PE, of which several may follow one another: the pieces of a registered
 * buffer end elsewhere on each node. Each aligned word of 2, 4 or 8 bytes in host memory is stored, and
 * loaded, whole, since a wait or an atomic may look at it. False likewise; len > 0. */
bool iso_apply_put(uint64_t addr, const void *data, size_t len);
bool iso_apply_get(void *data, uint64_t addr, size_t len);

#endif
