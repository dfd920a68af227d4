/* SPDX-License-Identifier: MIT */
/* Deadlines of waits on sockets. */
#include "deadline.h"
#include "../clock.h"

int64_t iso_deadline_now(void) { return (int64_t)iso_clock_now_ns(); }

int64_t iso_deadline_in(double seconds)
{
    double ns = seconds * 1e9;
    return seconds <= 0 || ns >= (double)(INT64_MAX / 2) ? DEADLINE_NEVER : iso_deadline_now() + (int64_t)ns;
}

int iso_deadline_poll_ms(int64_t deadline)
{
    if (deadline == DEADLINE_NEVER)
        return -1;
    int64_t left = deadline - iso_deadline_now();
    if (left <= 0)
        return 0;
    int64_t ms = left / 1000000 + 1; /* rounded up, so that a poll that timed out is past its deadline */
    return ms > 1000000 ? 1000000 : (int)ms;
}
