/* SPDX-License-Identifier: MIT */
/* What the start of this PE has taken, phase by phase: told with SHMEM_LOG=info, and judged there and by the doctor. */
#ifndef ISO_START_TIMES_H
#define ISO_START_TIMES_H

#include "../node/node_socket.h"

/* In the order in which they are told. */
enum start_phase { START_BOOTSTRAP, START_EXCHANGE, START_MAPPING, START_NETWORK, START_TEAMS, START_PHASES };

void iso_start_times_begin(void);
void iso_start_times_end(enum start_phase phase); /* what has passed since the last end counts for it */
void iso_start_times_take(const struct row *rows); /* of all PEs: which one came last */
void iso_start_times_tell(void);                   /* PE 0 by SHMEM_LOG=info, the others by debug */
uint64_t iso_start_times_begun(void);              /* row.begun_us */
/* A finding for each phase that is unusual and its likely cause, else one that none is. Severities are info.c's. */
void iso_start_times_judge(void (*find)(void *to, int severity, const char *sentence), void *to);

#endif
