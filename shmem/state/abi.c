/* SPDX-License-Identifier: MIT */
/* What other languages' bindings compare before they call: the version of the library that runs, and the sizes of the
 * structs that it was built with. A new public struct is one line of the table (tests/spec/symbols.sh looks). */
#include "../../device/api/state.h"
#include "../../include/shmemx.h"
#include "base.h"

#include <string.h>

#define PUBLIC_STRUCTS(X)         \
    X(shmem_team_config_t)        \
    X(shmem_ctx_session_config_t) \
    X(shmemx_uniqueid_t)          \
    X(shmemx_init_attr_t)         \
    X(shmemx_buffer_info_t)       \
    X(shmemx_address_info_t)      \
    X(shmemx_memory_stats_t)      \
    X(shmemx_device_error_t)      \
    X(shmemx_dim_t)               \
    X(shmemx_launch_attr_t)       \
    X(shmemx_blocks_t)            \
    X(shmemx_host_blocks_t)       \
    X(shmemx_splits_t)            \
    X(shmemx_rms_norm_t)          \
    X(shmemx_coll_t)              \
    X(shmemd_t)

SHMEM_API(shmemx_version, pshmemx_version);
int pshmemx_version(void) { return ISOMER_VERSION; }

SHMEM_API(shmemx_struct_bytes, pshmemx_struct_bytes);
size_t pshmemx_struct_bytes(const char *name)
{
    static const struct {
        const char *name;
        size_t bytes;
    } table[] = {
#define X(type) {#type, sizeof(type)},
        PUBLIC_STRUCTS(X)
#undef X
    };
    for (size_t i = 0; name != NULL && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(name, table[i].name) == 0)
            return table[i].bytes;
    return 0;
}
