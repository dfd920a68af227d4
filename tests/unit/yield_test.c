/* SPDX-License-Identifier: MIT */
/* When a wait sleeps instead of yielding, by a clock that only yields and sleeps move on. */
#include "../check.h"

#include "../../bootstrap/yield.h"

#include <sched.h>
#include <time.h>

static uint64_t now_ns = 1000000000, yield_ns;
static unsigned yields, sleeps;

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    now_ns += yield_ns;
    return 0;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)left;
    sleeps++;
    now_ns += (uint64_t)wanted->tv_nsec;
    return 0;
}

/* Sleeps until the next yield; that takes so long. */
static uint64_t slept_before_yield(uint64_t ns)
{
    uint64_t begin = now_ns;
    unsigned before = yields;
    yield_ns = ns;
    while (iso_yield(NULL) == YIELDED_SLEPT)
        continue;
    CHECK_EQ(yields, before + 1);
    return now_ns - begin - ns;
}

int main(void)
{
    static const uint64_t taken_ns[] = {0, 1999, 2000, 199999, 200000, 900000};
    for (int i = 0; i < 6; i++) {
        yield_ns = taken_ns[i];
        CHECK_EQ(iso_yield(NULL), i == 2 || i == 3 ? YIELDED_TURN : YIELDED_ALONE);
    }

    for (int i = 0; i < 1000; i++)
        CHECK_EQ(slept_before_yield(i % 2 == 0 ? 1000 : 900000), 0); /* shorter than a slice */
    CHECK_EQ(sleeps, 0);

    CHECK_EQ(slept_before_yield(1500000), 0);
    uint64_t last = slept_before_yield(1500000);
    CHECK(last > 0 && sleeps > 0);
    for (int i = 0; i < 10; i++) { /* crowded still: twice as long, up to a bound */
        uint64_t next = slept_before_yield(1500000);
        CHECK(next == 2 * last || (next == last && last < 100000000));
        last = next;
    }
    CHECK(last > 10000000);

    /* A wait that lasts is interrupted by fewer sleeps, and ends at most a quarter later. */
    uint64_t since = 0, begin = now_ns, naps = 0, longest = 0;
    for (uint64_t before = now_ns; iso_yield(&since) == YIELDED_SLEPT; before = now_ns, naps++) {
        CHECK(now_ns - before <= 10000 + (now_ns - begin) / 4);
        longest = now_ns - before > longest ? now_ns - before : longest;
    }
    CHECK_EQ(since, begin);
    CHECK(naps > 0 && naps < 200 && longest == 1000000);

    CHECK_EQ(slept_before_yield(1000), last);
    for (int i = 0; i < 64; i++) /* crowded no more */
        CHECK_EQ(slept_before_yield(1000), 0);
    CHECK_EQ(slept_before_yield(1500000), 0);
    CHECK(slept_before_yield(1000) < last / 8);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
