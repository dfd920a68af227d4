/* SPDX-License-Identifier: MIT */
/* Operations of other nodes on words of this PE. A word belongs to the processor of its memory: host words get CPU
 * atomics here, as from local PEs; device words go to the agent. Called by the networks, by any thread. */
#ifndef ISO_APPLY_H
#define ISO_APPLY_H

#include "device_agent.h"

/* False: there is no such word in a segment of this PE, and nothing is done. */
bool iso_apply_amo(uint64_t addr, struct amo op, uint64_t *before);

#endif
