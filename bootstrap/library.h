/* SPDX-License-Identifier: MIT */
/* Loads a library of a vendor or launcher while the process runs. Constructors of such libraries (Debian's libpsm2 and
 * libinfinipath below libfabric) catch the program's signals and exit with status 1, so that a PE that crashes would not
 * end by its signal. Invariant: loading leaves the disposition of every signal as it was.
 * Used by pmix_library.c, verbs_library.c, ofi_library.c and network_info.c: nothing else calls dlopen with a name that
 * may not be loaded yet. */
#ifndef ISO_LIBRARY_H
#define ISO_LIBRARY_H

#include <signal.h>

/* dlopen; NULL: dlerror says why. */
void *iso_library_load(const char *name, int flags);

/* Around a first call of a library that may load parts of its own, as fi_getinfo does. */
struct library_signals {
    struct sigaction of[NSIG];
};
void iso_library_save(struct library_signals *signals);
void iso_library_restore(const struct library_signals *signals);

#endif
