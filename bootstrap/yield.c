/* SPDX-License-Identifier: MIT */
/* A crowded core shows by a yield that takes as long as a slice. Yields then become sleeps for a while, twice as long
 * where one of the first yields after it shows the same. */
#include "yield.h"
#include "clock.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>

#define SLICE_NS 1000000u /* what a busy program keeps, 1.4 ms with two cores; a yield among waiting PEs takes 1 us */
#define TURN_MIN_NS 2000u /* a yield takes less where nobody else wants the core */
#define TURN_MAX_NS 200000u
#define NAP_MIN_NS 10000 /* and the timer's slack, 50 us */
#define NAP_MAX_NS 1000000
#define NAP_SHARE 4 /* of what was waited already */
#define CROWDED_MIN_NS 1000000u
#define CROWDED_MAX_NS 64000000u

/* Relaxed, and read and written apart: hints. */
static uint64_t crowded_until, crowded_ns;

enum yielded iso_yield(uint64_t *since_ns)
{
    uint64_t begin = iso_clock_now_ns(), until = __atomic_load_n(&crowded_until, __ATOMIC_RELAXED);
    if (since_ns != NULL && *since_ns == 0)
        *since_ns = begin;
    if (begin < until) {
        uint64_t share = since_ns != NULL ? (begin - *since_ns) / NAP_SHARE : 0;
        long ns = share < NAP_MIN_NS ? NAP_MIN_NS : share > NAP_MAX_NS ? NAP_MAX_NS : (long)share;
        const struct timespec nap = {0, ns};
        (void)nanosleep(&nap, NULL);
        return YIELDED_SLEPT;
    }
    (void)sched_yield();
    uint64_t turn = iso_clock_now_ns() - begin, last = __atomic_load_n(&crowded_ns, __ATOMIC_RELAXED), span = last / 2;
    if (turn >= SLICE_NS) {
        span = last == 0 ? CROWDED_MIN_NS : last < CROWDED_MAX_NS ? 2 * last : last;
        __atomic_store_n(&crowded_until, begin + turn + span, __ATOMIC_RELAXED);
    }
    if (span != last) /* 0 again after some that were short */
        __atomic_store_n(&crowded_ns, span, __ATOMIC_RELAXED);
    return turn >= TURN_MIN_NS && turn < TURN_MAX_NS ? YIELDED_TURN : YIELDED_ALONE;
}
