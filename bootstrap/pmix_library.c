/* SPDX-License-Identifier: MIT */
/* Loads libpmix. The process may use it too (MPI): the same name is the same library, so both are one client. */
#include "pmix_library.h"

#include "library.h"
#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Its threads run until the process exits: the library is never closed, as where it is linked. */
#define LIBRARY "libpmix.so.2"

int iso_pmix_library_open(struct pmix_library *lib)
{
    if (lib->handle != NULL)
        return 0;
    void *handle = iso_library_load(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        handle = iso_library_load(ISO_PMIX_FOLDER "/" LIBRARY, RTLD_NOW | RTLD_LOCAL); /* where the build found it */
    if (handle == NULL) {
        log_error(
            "shmem_init: a launcher started this process by PMIx (PMIX_NAMESPACE is set), and %s cannot be loaded "
            "(%s); install the package libpmix2, or start the job by a unique id",
            LIBRARY, dlerror());
        return -ENOENT;
    }
    const char *missing = NULL;
    void *symbol; /* POSIX lets a data pointer be a function's here; ISO C has no cast for it */
#define X(field, name)                           \
    symbol = dlsym(handle, #name);               \
    memcpy(&lib->field, &symbol, sizeof symbol); \
    missing = symbol == NULL ? #name : missing;
    PMIX_FUNCTIONS(X)
#undef X
    if (missing != NULL) {
        log_error("shmem_init: %s has no %s: it is too old; install PMIx 4 or later", LIBRARY, missing);
        dlclose(handle);
        return -ENOSYS;
    }
    lib->handle = handle;
    return 0;
}
