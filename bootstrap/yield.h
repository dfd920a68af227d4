/* SPDX-License-Identifier: MIT */
/* How a wait leaves its core to others: by a yield, or by a short sleep where programs that wait for nobody keep the
 * core for whole slices of time. Behind those a PE that yields gets one look in milliseconds; one that wakes up gets it
 * at once. What is learned holds for all threads of the process. Each sleep lasts a quarter of the wait so far, so that
 * a program that keeps its core is not interrupted for ever: it may be a PE that works while the others wait for it. */
#ifndef ISO_YIELD_H
#define ISO_YIELD_H

#include <stdint.h>

enum yielded {
    YIELDED_ALONE, /* nobody wanted the core, or a program that kept it */
    YIELDED_TURN,  /* somebody gave it back soon: another wait, and the two take turns on the core */
    YIELDED_SLEPT
};
/* since_ns: when the caller's wait began, 0: now, which is stored; NULL: of no known length. */
enum yielded iso_yield(uint64_t *since_ns);

#endif
