/* SPDX-License-Identifier: MIT */
/* The machine as programs see it: a CPU, GFX9_DEVICES devices (2) with GFX9_UNITS compute units each (104), and their
 * memory pools. What a program asks for, it gets as in the table of the HSA specification; numbers are an MI210's. */
#include "hsa_own.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ISA_NAME "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"

enum { WAVE = 64, GROUP_BYTES = 64 << 10, MOST_WORK_ITEMS = 1024, MOST_UNITS = 1024 };
static const uint64_t DEVICE_BYTES = (uint64_t)8 << 30;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two */
static unsigned opened;                                  /* hsa_init less hsa_shut_down */
static uint32_t n_agents;                                /* 0: not made yet; stays then */
static struct agent agents[MOST_AGENTS];
static uint32_t n_units;
static uint32_t flush_register; /* a write to it orders the host's writes on real hardware */

static hsa_status_t answer_text(void *value, const char *text, size_t len)
{
    memset(value, 0, len);
    snprintf(value, len, "%s", text);
    return HSA_STATUS_SUCCESS;
}

/* ---- start and stop ---- */

static uint32_t number_of(const char *name, uint32_t usual, uint32_t most)
{
    const char *text = getenv(name);
    long n = text != NULL ? strtol(text, NULL, 10) : (long)usual;
    return n < 0 ? 0 : n > (long)most ? most : (uint32_t)n;
}

static void make_agent(uint32_t node, hsa_device_type_t kind, uint64_t size, const struct pool pools[POOLS_OF_AGENT])
{
    struct agent *a = &agents[node];
    a->kind = kind;
    a->node = node;
    a->size = size;
    memcpy(a->pools, pools, sizeof(a->pools));
    for (int i = 0; i < POOLS_OF_AGENT; i++)
        a->pools[i].agent = a;
}

static void make_agents(void)
{
    const uint32_t fine = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    const uint32_t coarse = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    const struct pool of_host[POOLS_OF_AGENT] = {
        {NULL, HSA_AMD_SEGMENT_GLOBAL, fine},
        {NULL, HSA_AMD_SEGMENT_GLOBAL, fine | HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT},
        {NULL, HSA_AMD_SEGMENT_GLOBAL, coarse},
    };
    const struct pool of_device[POOLS_OF_AGENT] = {
        {NULL, HSA_AMD_SEGMENT_GLOBAL, coarse},
        {NULL, HSA_AMD_SEGMENT_GLOBAL, fine},
        {NULL, HSA_AMD_SEGMENT_GROUP, 0},
    };
    uint32_t n = number_of("GFX9_DEVICES", 2, MOST_AGENTS - 1);
    n_units = number_of("GFX9_UNITS", 104, MOST_UNITS);
    n_units = n_units > 0 ? n_units : 1;
    make_agent(0, HSA_DEVICE_TYPE_CPU, (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE, of_host);
    for (uint32_t i = 1; i <= n; i++)
        make_agent(i, HSA_DEVICE_TYPE_GPU, DEVICE_BYTES, of_device);
    n_agents = n + 1;
}

hsa_status_t hsa_init(void)
{
    pthread_mutex_lock(&lock);
    if (n_agents == 0)
        make_agents();
    opened++;
    pthread_mutex_unlock(&lock);
    return HSA_STATUS_SUCCESS;
}

/* Agents and threads stay: a thread may be the caller. */
hsa_status_t hsa_shut_down(void)
{
    pthread_mutex_lock(&lock);
    bool was_open = opened > 0;
    opened -= was_open;
    pthread_mutex_unlock(&lock);
    return was_open ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

/* ---- handles ---- */

struct agent *own_agent(hsa_agent_t handle)
{
    uint64_t at = handle.handle - (uintptr_t)agents;
    return at < n_agents * sizeof(struct agent) && at % sizeof(struct agent) == 0 ? &agents[at / sizeof(struct agent)]
                                                                                  : NULL;
}

struct agent *own_agent_of_node(uint32_t node) { return node < n_agents ? &agents[node] : NULL; }

hsa_agent_t own_handle(const struct agent *agent) { return (hsa_agent_t){(uintptr_t)agent}; }

struct pool *own_pool(hsa_amd_memory_pool_t handle)
{
    for (uint32_t i = 0; i < n_agents; i++)
        for (int j = 0; j < POOLS_OF_AGENT; j++)
            if ((uintptr_t)&agents[i].pools[j] == handle.handle)
                return &agents[i].pools[j];
    return NULL;
}

uint64_t own_agent_mask(uint32_t n, const hsa_agent_t *list)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < n && list != NULL; i++) {
        const struct agent *a = own_agent(list[i]);
        if (a == NULL)
            return 0;
        mask |= (uint64_t)1 << a->node;
    }
    return mask;
}

uint64_t own_all_agents(void) { return ((uint64_t)1 << n_agents) - 1; }

uint64_t own_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the system ---- */

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void *value)
{
    if (value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch ((int)attribute) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
        ANSWER(uint16_t, 1);
    case HSA_SYSTEM_INFO_VERSION_MINOR:
        ANSWER(uint16_t, 1);
    case HSA_SYSTEM_INFO_TIMESTAMP:
        ANSWER(uint64_t, own_now());
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
        ANSWER(uint64_t, 1000000000);
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
        ANSWER(uint64_t, UINT64_MAX);
    case HSA_SYSTEM_INFO_ENDIANNESS:
        ANSWER(hsa_endianness_t, HSA_ENDIANNESS_LITTLE);
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
        ANSWER(hsa_machine_model_t, HSA_MACHINE_MODEL_LARGE);
    case HSA_SYSTEM_INFO_EXTENSIONS:
        memset(value, 0, 128);
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
        ANSWER(char *, (char *)"1.1.9 of gfx9");
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
        ANSWER(bool, false);
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
        ANSWER(bool, false);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*call)(hsa_agent_t agent, void *data), void *data)
{
    if (opened == 0)
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    if (call == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (uint32_t i = 0; i < n_agents && status == HSA_STATUS_SUCCESS; i++)
        status = call(own_handle(&agents[i]), data);
    return status;
}

/* ---- agents ---- */

static hsa_status_t common_info(const struct agent *a, int attribute, void *value)
{
    bool is_gpu = a->kind == HSA_DEVICE_TYPE_GPU;
    char uuid[21];
    switch (attribute) {
    case HSA_AGENT_INFO_NAME:
        return answer_text(value, is_gpu ? "gfx90a" : "CPU", 64);
    case HSA_AGENT_INFO_VENDOR_NAME:
        return answer_text(value, is_gpu ? "AMD" : "CPU", 64);
    case HSA_AGENT_INFO_FEATURE:
        ANSWER(hsa_agent_feature_t, is_gpu ? HSA_AGENT_FEATURE_KERNEL_DISPATCH : (hsa_agent_feature_t)0);
    case HSA_AGENT_INFO_MACHINE_MODEL:
        ANSWER(hsa_machine_model_t, HSA_MACHINE_MODEL_LARGE);
    case HSA_AGENT_INFO_PROFILE:
        ANSWER(hsa_profile_t, is_gpu ? HSA_PROFILE_BASE : HSA_PROFILE_FULL);
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
    case HSA_AGENT_INFO_BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES:
        ANSWER(hsa_default_float_rounding_mode_t, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR);
    case HSA_AGENT_INFO_NODE:
        ANSWER(uint32_t, a->node);
    case HSA_AGENT_INFO_DEVICE:
        ANSWER(hsa_device_type_t, a->kind);
    case HSA_AGENT_INFO_EXTENSIONS:
        memset(value, 0, 128);
        return HSA_STATUS_SUCCESS;
    case HSA_AGENT_INFO_VERSION_MAJOR:
        ANSWER(uint16_t, 1);
    case HSA_AGENT_INFO_VERSION_MINOR:
        ANSWER(uint16_t, 1);
    case HSA_AGENT_INFO_CACHE_SIZE:
        ANSWER(struct { uint32_t level[4]; }, {{16 << 10, is_gpu ? 8 << 20 : 0, 0, 0}});
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
        ANSWER(uint32_t, is_gpu ? 128 : 64);
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
        ANSWER(uint32_t, a->node);
    case HSA_AMD_AGENT_INFO_BDFID:
        ANSWER(uint32_t, is_gpu ? (a->node + 0x40) << 8 : 0);
    case HSA_AMD_AGENT_INFO_DOMAIN:
        ANSWER(uint32_t, 0);
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
        return answer_text(value, is_gpu ? "Emulated gfx90a" : "CPU", 64);
    case HSA_AMD_AGENT_INFO_UUID:
        snprintf(uuid, sizeof(uuid), "%s-%016x", is_gpu ? "GPU" : "CPU", 0x9000u + a->node);
        return answer_text(value, uuid, sizeof(uuid));
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
        ANSWER(uint32_t, is_gpu ? n_units : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
        ANSWER(uint32_t, 1700);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t device_info(int attribute, void *value)
{
    switch (attribute) {
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
        ANSWER(bool, true);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
        ANSWER(uint32_t, WAVE);
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
        ANSWER(struct { uint16_t of[3]; }, {{1024, 1024, 1024}});
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
        ANSWER(uint32_t, MOST_WORK_ITEMS);
    case HSA_AGENT_INFO_GRID_MAX_DIM:
        ANSWER(hsa_dim3_t, {UINT32_MAX, UINT32_MAX, UINT32_MAX});
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
        ANSWER(uint32_t, UINT32_MAX);
    case HSA_AGENT_INFO_FBARRIER_MAX_SIZE:
        ANSWER(uint32_t, 32);
    case HSA_AGENT_INFO_QUEUES_MAX:
        ANSWER(uint32_t, 128);
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
        ANSWER(uint32_t, 64);
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
        ANSWER(uint32_t, 131072);
    case HSA_AGENT_INFO_QUEUE_TYPE:
        ANSWER(hsa_queue_type32_t, HSA_QUEUE_TYPE_MULTI);
    case HSA_AGENT_INFO_ISA:
        ANSWER(hsa_isa_t, {ISA_HANDLE});
    case HSA_AMD_AGENT_INFO_CHIP_ID:
        ANSWER(uint32_t, 0x740f);
    case HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS:
        ANSWER(uint32_t, 4);
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
        ANSWER(uint32_t, 4096);
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
        ANSWER(uint32_t, 1600);
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
        ANSWER(uint32_t, 32);
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
        ANSWER(uint32_t, 4);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
        ANSWER(uint32_t, 8);
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
        ANSWER(uint32_t, 1);
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
        ANSWER(hsa_amd_hdp_flush_t, {&flush_register, &flush_register});
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
        ANSWER(bool, true);
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
        ANSWER(uint32_t, 1);
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
        ANSWER(bool, true);
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
        ANSWER(uint32_t, n_units);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t handle, hsa_agent_info_t attribute, void *value)
{
    const struct agent *a = own_agent(handle);
    if (a == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    if (value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = common_info(a, (int)attribute, value);
    if (status != HSA_STATUS_SUCCESS && a->kind == HSA_DEVICE_TYPE_GPU)
        status = device_info((int)attribute, value);
    return status;
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t handle, hsa_status_t (*call)(hsa_isa_t isa, void *data), void *data)
{
    const struct agent *a = own_agent(handle);
    if (a == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    if (call == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return a->kind == HSA_DEVICE_TYPE_GPU ? call((hsa_isa_t){ISA_HANDLE}, data) : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void *value)
{
    if (isa.handle != ISA_HANDLE)
        return HSA_STATUS_ERROR_INVALID_ISA;
    if (value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    switch ((int)attribute) {
    case HSA_ISA_INFO_NAME_LENGTH:
        ANSWER(uint32_t, sizeof(ISA_NAME));
    case HSA_ISA_INFO_NAME:
        return answer_text(value, ISA_NAME, sizeof(ISA_NAME));
    case HSA_ISA_INFO_MACHINE_MODELS:
        ANSWER(struct { bool of[2]; }, {{false, true}});
    case HSA_ISA_INFO_PROFILES:
        ANSWER(struct { bool of[2]; }, {{true, false}});
    case HSA_ISA_INFO_FAST_F16_OPERATION:
        ANSWER(bool, true);
    case HSA_ISA_INFO_WORKGROUP_MAX_DIM:
        ANSWER(struct { uint16_t of[3]; }, {{1024, 1024, 1024}});
    case HSA_ISA_INFO_WORKGROUP_MAX_SIZE:
        ANSWER(uint32_t, MOST_WORK_ITEMS);
    case HSA_ISA_INFO_GRID_MAX_DIM:
        ANSWER(hsa_dim3_t, {UINT32_MAX, UINT32_MAX, UINT32_MAX});
    case HSA_ISA_INFO_GRID_MAX_SIZE:
        ANSWER(uint64_t, UINT64_MAX);
    case HSA_ISA_INFO_FBARRIER_MAX_SIZE:
        ANSWER(uint32_t, 32);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* ---- memory pools ---- */

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t handle,
                                                hsa_status_t (*call)(hsa_amd_memory_pool_t pool, void *data),
                                                void *data)
{
    struct agent *a = own_agent(handle);
    if (a == NULL)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    if (call == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (int i = 0; i < POOLS_OF_AGENT && status == HSA_STATUS_SUCCESS; i++)
        status = call((hsa_amd_memory_pool_t){(uintptr_t)&a->pools[i]}, data);
    return status;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t handle, hsa_amd_memory_pool_info_t attribute,
                                          void *value)
{
    const struct pool *pool = own_pool(handle);
    if (pool == NULL)
        return INVALID_POOL;
    if (value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    bool is_global = pool->segment == HSA_AMD_SEGMENT_GLOBAL;
    switch ((int)attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        ANSWER(hsa_amd_segment_t, pool->segment);
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        ANSWER(uint32_t, pool->flags);
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
        ANSWER(size_t, is_global ? pool->agent->size : GROUP_BYTES);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        ANSWER(bool, is_global);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
        ANSWER(size_t, is_global ? PAGE : 0);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
        ANSWER(size_t, is_global ? PAGE : 0);
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
        ANSWER(bool, pool->agent->kind == HSA_DEVICE_TYPE_CPU);
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
        ANSWER(size_t, is_global ? pool->agent->size : 0);
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* Devices are linked by xGMI with each other, and by PCIe with the host. */
static hsa_amd_memory_pool_link_info_t link_between(const struct agent *a, const struct agent *b)
{
    bool peers = a->kind == HSA_DEVICE_TYPE_GPU && b->kind == HSA_DEVICE_TYPE_GPU;
    hsa_amd_memory_pool_link_info_t link = {0, 0, 0, 0, true, true, true, HSA_AMD_LINK_INFO_TYPE_PCIE, 20};
    link.min_bandwidth = link.max_bandwidth = peers ? 50000 : 32000;
    if (peers) {
        link.link_type = HSA_AMD_LINK_INFO_TYPE_XGMI;
        link.numa_distance = 15;
    }
    return link;
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent, hsa_amd_memory_pool_t handle,
                                                hsa_amd_agent_memory_pool_info_t attribute, void *value)
{
    const struct agent *a = own_agent(agent);
    const struct pool *pool = own_pool(handle);
    if (a == NULL || pool == NULL)
        return a == NULL ? HSA_STATUS_ERROR_INVALID_AGENT : INVALID_POOL;
    if (value == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    bool own = a == pool->agent, never = !own && pool->segment != HSA_AMD_SEGMENT_GLOBAL;
    switch ((int)attribute) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
        ANSWER(hsa_amd_memory_pool_access_t, never ? HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED
                                             : own ? HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT
                                                   : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
        ANSWER(uint32_t, own || never ? 0 : 1);
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
        if (own || never)
            return HSA_STATUS_SUCCESS; /* an array without elements */
        ANSWER(hsa_amd_memory_pool_link_info_t, link_between(a, pool->agent));
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_coherency_set_type(hsa_agent_t agent, hsa_amd_coherency_type_t type)
{
    (void)type; /* deprecated: succeeds everywhere, and does nothing */
    return own_agent(agent) != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_AGENT;
}

/* ---- extensions: only the loader's ---- */

hsa_status_t hsa_system_extension_supported(uint16_t extension, uint16_t major, uint16_t minor, bool *result)
{
    (void)minor;
    if (result == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *result = extension == HSA_EXTENSION_AMD_LOADER && major == 1;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_extension_supported(uint16_t extension, hsa_agent_t agent, uint16_t major, uint16_t minor,
                                           bool *result)
{
    return own_agent(agent) == NULL ? HSA_STATUS_ERROR_INVALID_AGENT
                                    : hsa_system_extension_supported(extension, major, minor, result);
}

/* ---- errors ---- */

hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {HSA_STATUS_SUCCESS, "success"},
        {HSA_STATUS_INFO_BREAK, "a callback has ended the iteration"},
        {HSA_STATUS_ERROR, "a generic error"},
        {HSA_STATUS_ERROR_INVALID_ARGUMENT, "an argument is not valid"},
        {HSA_STATUS_ERROR_INVALID_QUEUE_CREATION, "such a queue is not possible"},
        {HSA_STATUS_ERROR_INVALID_ALLOCATION, "not an allocation"},
        {HSA_STATUS_ERROR_INVALID_AGENT, "not an agent"},
        {HSA_STATUS_ERROR_INVALID_SIGNAL, "not a signal"},
        {HSA_STATUS_ERROR_INVALID_QUEUE, "not a queue"},
        {HSA_STATUS_ERROR_OUT_OF_RESOURCES, "out of resources"},
        {HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "a packet is malformed"},
        {HSA_STATUS_ERROR_NOT_INITIALIZED, "not initialized"},
        {HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, "arguments that do not fit together"},
        {HSA_STATUS_ERROR_INVALID_ISA, "not an instruction set"},
        {HSA_STATUS_ERROR_INVALID_CODE_OBJECT, "a code object is malformed"},
        {HSA_STATUS_ERROR_INVALID_EXECUTABLE, "not an executable"},
        {HSA_STATUS_ERROR_FROZEN_EXECUTABLE, "the executable is frozen"},
        {HSA_STATUS_ERROR_INVALID_SYMBOL_NAME, "no symbol has that name"},
        {HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED, "the variable is defined already"},
        {HSA_STATUS_ERROR_VARIABLE_UNDEFINED, "a variable is not defined"},
        {HSA_STATUS_ERROR_EXCEPTION, "a kernel failed"},
        {HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER, "not a code object reader"},
        {HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL, "not a symbol"},
        {HSA_STATUS_ERROR_INVALID_MEMORY_POOL, "not a memory pool"},
    };
    for (size_t i = 0; text != NULL && i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].status == (int)status) {
            *text = texts[i].text;
            return HSA_STATUS_SUCCESS;
        }
    }
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
