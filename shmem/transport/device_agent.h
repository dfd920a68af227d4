/* SPDX-License-Identifier: MIT */
/* The agent: the host's hands on device memory, which no pointer of the CPU reaches. */
#ifndef ISO_DEVICE_AGENT_H
#define ISO_DEVICE_AGENT_H

#include "far.h"

struct gpu;

int iso_agent_start(struct gpu *gpu); /* of the device that runs: makes ISO->agent */
void iso_agent_stop(void);
struct gpu *iso_agent_gpu(void); /* while a device runs */
/* Any of dest and source may be device memory of any local PE. Done when it returns. Any thread. */
void iso_agent_copy(void *dest, const void *source, size_t len);
/* What is at an address; UNKNOWN: the agent looks. */
enum agent_side { AGENT_HOST, AGENT_DEVICE, AGENT_UNKNOWN };
/* As iso_agent_copy, for callers that know a side. */
void iso_agent_move(void *dest, enum agent_side to, const void *source, enum agent_side from, size_t len);
void iso_agent_fill(void *dest, int byte, size_t len); /* of device memory; as iso_agent_copy */
/* An atomic on a device word that this PE's GPU reaches, by a kernel of one thread. The old value. */
uint64_t iso_agent_amo(void *word, struct amo op);
uint64_t iso_agent_load(const void *word, unsigned bytes);        /* of a device word; as fresh as a poll */
void iso_agent_store(void *word, uint64_t value, unsigned bytes); /* whole, after all earlier copies */

#endif
