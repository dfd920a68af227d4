/* SPDX-License-Identifier: MIT */
/* libpmix, loaded when a launcher that speaks PMIx has started this process: another one, and a program that embeds the
 * library, needs none. These functions are in every version from 4 on; what later headers have made functions of as
 * well (the copies and ends of values) boot_pmix.c does by itself. */
#ifndef ISO_PMIX_LIBRARY_H
#define ISO_PMIX_LIBRARY_H

#include <pmix.h>

#define PMIX_FUNCTIONS(X)      \
    X(init, PMIx_Init)         \
    X(finalize, PMIx_Finalize) \
    X(get, PMIx_Get)           \
    X(put, PMIx_Put)           \
    X(commit, PMIx_Commit)     \
    X(fence_nb, PMIx_Fence_nb) \
    X(abort, PMIx_Abort)       \
    X(error_string, PMIx_Error_string)

struct pmix_library {
    void *handle; /* NULL: not loaded */
#define X(field, name) __typeof__(&name) field;
    PMIX_FUNCTIONS(X)
#undef X
};

/* Idempotent. 0, or -errno after a sentence that says what to install. */
int iso_pmix_library_open(struct pmix_library *lib);

#endif
