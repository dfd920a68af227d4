/* SPDX-License-Identifier: MIT */
/* Ranges for tools. NVTX has no library: a tool names its own by NVTX_INJECTION64_PATH, and each user of NVTX loads
 * that and gives it a table of places, which the tool fills with its functions (nvtx3/nvtxDetail/nvtxTypes.h). rocTX is
 * a library, which rocprof loads before the program, or SHMEM_RANGES names. */
#include "ranges.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/library.h"
#include "../../bootstrap/log.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- NVTX: numbers of nvtxTypes.h ---- */

typedef void nvtx_function(void); /* a function of the tool, of any type */
enum {
    TABLE_CALLBACKS = 1,
    TABLE_VERSION = 3,
    MODULES = 7,
    CORE = 1,
    CORE_PLACES = 16,
    RANGE_PUSH = 9,
    RANGE_POP = 11,
    PLACES = 16
};

struct callbacks {
    size_t bytes;
    int (*get_table)(int module, nvtx_function ****table, unsigned *n);
};
struct version {
    size_t bytes;
    uint32_t version, zero;
    void (*set)(uint32_t version);
};

/* Of the process, as NVTX's own are: a tool fills them when it is loaded, and may empty them when it goes. The modules
 * beside the core are there since tools ask for them; nothing of theirs is called. */
static ISO_PER_PE nvtx_function *places[MODULES][PLACES];
static ISO_PER_PE nvtx_function **tables[MODULES][PLACES + 1];

static int get_table(int module, nvtx_function ****table, unsigned *n)
{
    static const unsigned sizes[MODULES] = {0, CORE_PLACES, 9, 15, 7, 16, 7};
    if (module <= 0 || module >= MODULES)
        return 0;
    for (unsigned i = 1; i < sizes[module]; i++)
        tables[module][i] = &places[module][i];
    if (table != NULL)
        *table = tables[module];
    if (n != NULL)
        *n = sizes[module];
    return 1;
}

static void set_version(uint32_t version) { (void)version; }

static const void *get_export(uint32_t id)
{
    static const struct callbacks callbacks = {sizeof callbacks, get_table};
    static const struct version version = {sizeof version, 3, 0, set_version};
    return id == TABLE_CALLBACKS ? (const void *)&callbacks : id == TABLE_VERSION ? (const void *)&version : NULL;
}

static int nvtx_push(const char *name)
{
    int (*push)(const char *);
    nvtx_function *at = __atomic_load_n(&places[CORE][RANGE_PUSH], __ATOMIC_RELAXED);
    memcpy(&push, &at, sizeof push);
    return at != NULL ? push(name) : -1;
}

static int nvtx_pop(void)
{
    int (*pop)(void);
    nvtx_function *at = __atomic_load_n(&places[CORE][RANGE_POP], __ATOMIC_RELAXED);
    memcpy(&pop, &at, sizeof pop);
    return at != NULL ? pop() : -1;
}

static bool start_nvtx(struct profile *p)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*initialize)(const void *(*)(uint32_t)) = NULL;
    void *tool = path != NULL && *path != '\0' ? iso_library_load(path, RTLD_LAZY) : NULL;
    void *symbol = tool != NULL ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
    memcpy(&initialize, &symbol, sizeof initialize);
    if (initialize == NULL || initialize(get_export) == 0)
        return false;
    p->range_push = nvtx_push;
    p->range_pop = nvtx_pop;
    return true;
}

/* ---- rocTX ---- */

static const char *const roctx[] = {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", NULL};

static bool start_roctx(struct profile *p, const char *file, int flags)
{
    void *library = iso_library_load(file, RTLD_NOW | flags);
    void *push = library != NULL ? dlsym(library, "roctxRangePushA") : NULL;
    void *pop = library != NULL ? dlsym(library, "roctxRangePop") : NULL;
    if (push == NULL || pop == NULL)
        return false;
    memcpy(&p->range_push, &push, sizeof push);
    memcpy(&p->range_pop, &pop, sizeof pop);
    return true;
}

static bool any_roctx(struct profile *p, int flags)
{
    for (int i = 0; roctx[i] != NULL; i++)
        if (start_roctx(p, roctx[i], flags))
            return true;
    return false;
}

/* ---- both ---- */

/* Nonzero ends the search. dlopen with RTLD_NOLOAD would look through the file system for a library that is not there,
 * at each start. */
static int is_roctx(struct dl_phdr_info *library, size_t bytes, void *unused)
{
    const char *slash = strrchr(library->dlpi_name, '/'), *name = slash != NULL ? slash + 1 : library->dlpi_name;
    (void)bytes;
    (void)unused;
    for (int i = 0; roctx[i] != NULL; i++) /* the number of the version may be missing */
        if (strncmp(name, roctx[i], strlen(roctx[i]) - strlen(".1")) == 0)
            return 1;
    return 0;
}

bool iso_ranges_are_asked(const struct env *env)
{
    const char *nvtx = getenv("NVTX_INJECTION64_PATH");
    if (env->ranges[0] != '\0')
        return strcmp(env->ranges, "0") != 0;
    return (nvtx != NULL && *nvtx != '\0') || dl_iterate_phdr(is_roctx, NULL) != 0;
}

void iso_ranges_start(struct profile *p)
{
    const char *asked = ISO->env->ranges;
    bool any = asked[0] == '\0' || strcmp(asked, "1") == 0;
    if (any ? start_nvtx(p) || any_roctx(p, RTLD_NOLOAD) || (asked[0] != '\0' && any_roctx(p, 0))
            : start_roctx(p, asked, 0))
        return;
    if (asked[0] != '\0')
        log_warn("SHMEM_RANGES is \"%s\", and no tool takes ranges: NVTX_INJECTION64_PATH names none, and no library "
                 "of rocTX can be "
                 "loaded; start the program by nsys or rocprofv3, or name the library's file",
                 asked);
}
