/* SPDX-License-Identifier: MIT */
/* Loads libibverbs. The names are declared by its header; a library that lacks one is too old. */
#include "verbs_library.h"
#include "../../../bootstrap/library.h"
#include "../../../bootstrap/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

/* Providers keep threads and handlers of their own: the library is never closed, as where it is linked. */
#define LIBRARY "libibverbs.so.1"

/* POSIX lets a data pointer be a function's here; ISO C has no cast for it. */
static int find(struct verbs_library *lib, const char *name, void *field)
{
    void *symbol = dlsym(lib->handle, name);
    memcpy(field, &symbol, sizeof symbol);
    if (symbol == NULL)
        log_error("shmem_init: %s has no %s: it is too old; install libibverbs1 28 or later", LIBRARY, name);
    return symbol != NULL ? 0 : -ENOSYS;
}

int iso_verbs_library_open(struct verbs_library *lib)
{
    int rc = 0;
    lib->handle = iso_library_load(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (lib->handle == NULL) {
        log_error("shmem_init: this job has PEs on several nodes, which needs RDMA, and %s cannot be loaded (%s); "
                  "install the packages libibverbs1 and ibverbs-providers",
                  LIBRARY, dlerror());
        return -ENOENT;
    }
#define X(field, name) rc = rc != 0 ? rc : find(lib, #name, &lib->field);
    VERBS_FUNCTIONS(X)
#undef X
    void *newer = dlsym(lib->handle, "ibv_reg_dmabuf_mr");
    memcpy(&lib->reg_dmabuf_mr, &newer, sizeof newer);
    return rc;
}
