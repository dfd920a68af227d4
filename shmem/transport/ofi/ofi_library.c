/* SPDX-License-Identifier: MIT */
/* Loads libfabric. The names are declared by its headers. Structures that it reads and writes are allocated by itself
 * (dupinfo), so a newer library with longer ones fits. */
#include "ofi_library.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Providers keep threads and handlers of their own: the library is never closed, as where it is linked. */
#define LIBRARY "libfabric.so.1"

/* POSIX lets a data pointer be a function's here; ISO C has no cast for it. */
static int find(struct ofi_library *lib, const char *name, void *field)
{
    void *symbol = dlsym(lib->handle, name);
    memcpy(field, &symbol, sizeof symbol);
    if (symbol == NULL)
        log_error("shmem_init: %s has no %s: it is too old; install libfabric1 1.15 or later", LIBRARY, name);
    return symbol != NULL ? 0 : -ENOSYS;
}

int iso_ofi_library_open(struct ofi_library *lib)
{
    int rc = 0;
    lib->handle = iso_library_load(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (lib->handle == NULL) {
        log_error("shmem_init: this job has PEs on several nodes, which needs an active RDMA port on each host, or "
                  "libfabric, and %s cannot be loaded (%s); install the package libfabric1",
                  LIBRARY, dlerror());
        return -ENOENT;
    }
#define X(field, name) rc = rc != 0 ? rc : find(lib, #name, &lib->field);
    OFI_FUNCTIONS(X)
#undef X
    return rc;
}
