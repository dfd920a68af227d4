/* SPDX-License-Identifier: MIT */
/* Loading libraries without their signal handlers. Numbers below the real-time range that libc keeps for itself are
 * refused by sigaction, and are left alone. */
#include "library.h"

#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The declared types of the functions are those of the vendor's header. */
int iso_library_open(const struct library_needs *needs, void *library)
{
    void *handle = iso_library_load(needs->file, RTLD_NOW | RTLD_LOCAL), **found = (void **)library;
    char path[PATH_MAX];
    *found = NULL;
    if (handle == NULL && needs->folder != NULL) {
        snprintf(path, sizeof path, "%s/%s", needs->folder, needs->file);
        handle = iso_library_load(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == NULL) {
        log_error("shmem_init: %s, and %s cannot be loaded (%s); install %s", needs->purpose, needs->file, dlerror(),
                  needs->install);
        return -ENOENT;
    }
    for (const struct library_function *f = needs->functions; f->name != NULL; f++) {
        void *symbol = dlsym(handle, f->name); /* POSIX lets a data pointer be a function's here; ISO C has no cast */
        if (symbol == NULL) {
            log_error("shmem_init: %s has no %s: it is too old; install %s", needs->file, f->name, needs->newer);
            return -ENOSYS;
        }
        memcpy((char *)library + f->offset, &symbol, sizeof symbol);
    }
    *found = handle;
    return 0;
}
