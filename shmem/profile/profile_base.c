/* SPDX-License-Identifier: MIT */
/* What all files of this room ask for: the names of calls, the clock of what is timed, the first of the blocks. Below
 * all of them. */
#include "../node/wait.h"
#include "profile.h"

const char *const iso_profile_names[PROFILE_CALLS] = {
#define X(id, name) name,
    ISO_PROFILE_CALLS(X)
#undef X
};

struct profile_block *iso_profile_first_block(struct profile *p)
{
    return __atomic_load_n(&p->blocks, __ATOMIC_ACQUIRE);
}

uint64_t iso_profile_ticks(const struct profile *p)
{
#if defined(__x86_64__)
    if (p->counts_ticks)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    if (p->counts_ticks) {
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#else
    (void)p;
#endif
    return iso_clock_now_ns();
}
