/* SPDX-License-Identifier: MIT */
/* Loading libraries without their signal handlers. Numbers below the real-time range that libc keeps for itself are
 * refused by sigaction, and are left alone. */
#include "library.h"

#include <dlfcn.h>
#include <stdlib.h>

void iso_library_save(struct library_signals *signals)
{
    for (int n = 1; n < NSIG; n++)
        if (sigaction(n, NULL, &signals->of[n]) != 0)
            signals->of[n].sa_handler = SIG_ERR;
}

/* Only what has changed is set, so that another thread that sets its own meanwhile is rarely undone. */
void iso_library_restore(const struct library_signals *signals)
{
    struct sigaction now;
    for (int n = 1; n < NSIG; n++)
        if (signals->of[n].sa_handler != SIG_ERR && sigaction(n, NULL, &now) == 0 &&
            now.sa_handler != signals->of[n].sa_handler)
            (void)sigaction(n, &signals->of[n], NULL);
}

void *iso_library_load(const char *name, int flags)
{
    struct library_signals signals;
    setenv("IPATH_NO_BACKTRACE", "1", 0); /* libinfinipath and libpsm2 then leave signals alone by themselves */
    setenv("HFI_NO_BACKTRACE", "1", 0);
    iso_library_save(&signals);
    void *library = dlopen(name, flags);
    iso_library_restore(&signals);
    return library;
}
