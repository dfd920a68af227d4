/* SPDX-License-Identifier: MIT */
/* Loads a library of a vendor or launcher while the process runs. Constructors of such libraries (Debian's libpsm2 and
 * libinfinipath below libfabric) catch the program's signals and exit with status 1, so that a PE that crashes would not
 * end by its signal. Invariant: loading leaves the disposition of every signal as it was.
 * Used by boot_pmix.c, the transports of networks and network_info.c: nothing else calls dlopen with a name that may
 * not be loaded yet. */
#ifndef ISO_LIBRARY_H
#define ISO_LIBRARY_H

#include <signal.h>
#include <stddef.h>

/* dlopen; NULL: dlerror says why. */
void *iso_library_load(const char *name, int flags);

/* A library whose functions are pointers in a struct. The struct begins with `void *handle`. */
struct library_function {
    const char *name; /* NULL: the list ends */
    size_t offset;    /* of the pointer in the struct */
};
struct library_needs {
    const char *file, *folder; /* folder: tried where the system does not find the file; NULL: none */
    const char *purpose;       /* "this job has PEs on several nodes": why it is needed */
    const char *install;       /* the remedy where it is missing */
    const char *newer;         /* the remedy where it lacks a function */
    const struct library_function *functions;
};
/* Loads the library, and keeps it until the process exits, as where it is linked: it may have threads of its own. 0, or
 * -errno after a sentence, with handle NULL. */
int iso_library_open(const struct library_needs *needs, void *library);

/* Around a first call of a library that may load parts of its own, as fi_getinfo does. */
struct library_signals {
    struct sigaction of[NSIG];
};
void iso_library_save(struct library_signals *signals);
void iso_library_restore(const struct library_signals *signals);

#endif
