/* SPDX-License-Identifier: MIT */
/* How a wait leaves its core to others: by a yield, or by a short sleep where programs that wait for nobody keep the
 * core for whole slices of time. Behind those a PE that yields gets one look in milliseconds; one that wakes up gets it
 * at once. What is learned holds for all threads of the process. */
#ifndef ISO_YIELD_H
#define ISO_YIELD_H

#include <stdbool.h>

bool iso_yield(void); /* true: it slept */

#endif
