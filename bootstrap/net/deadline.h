/* SPDX-License-Identifier: MIT */
/* Times by which a wait ends: CLOCK_MONOTONIC nanoseconds. Used wherever a socket is waited for. */
#ifndef ISO_DEADLINE_H
#define ISO_DEADLINE_H

#include <stdint.h>

#define DEADLINE_NEVER INT64_MAX

int64_t iso_deadline_now(void);
int64_t iso_deadline_in(double seconds); /* from now; 0: DEADLINE_NEVER */
/* For poll(2): milliseconds, rounded up; 0 when the deadline has passed, -1 for DEADLINE_NEVER. */
int iso_deadline_poll_ms(int64_t deadline);

#endif
