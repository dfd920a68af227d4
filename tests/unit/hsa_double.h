/* SPDX-License-Identifier: MIT */
/* A double of the HSA runtime beside that of HIP: agents, signals, owners of memory and copies by engines, with the
 * rules that ROCm's has for engines. A copy is made while its signal is polled and not before, so that whoever does
 * not wait sees old bytes. Reached by hsa_dlopen and hsa_dlsym alone. Includes nothing: hip_flavour.h includes it. */
#ifndef HSA_DOUBLE_H
#define HSA_DOUBLE_H

enum { HSA_SIGNALS = 40, HSA_HOST = 1, HSA_GPU = 10 /* and the number of the device */ };

/* What the runtime and the device are like, and what was seen of their use. */
static struct {
    bool loaded;
    const char *missing, *failing;  /* names of calls; what fails does so once */
    unsigned engines;               /* mask of all, the first two being the host's */
    unsigned busy, preferred;       /* masks */
    bool first_is_hosts;            /* gfx90a: engine 0 is for copies from the host */
    int peer;                       /* whose memory it is that a key opens */
    int polls_until_done, together; /* a copy is done after so many polls, and once so many have begun */
    int64_t done_at_ns;
    bool breaks; /* a copy ends by an error */

    unsigned used;    /* mask of engines that have copied */
    unsigned last;    /* the last one */
    int named, left;  /* copies by named engines, and by the runtime's choice */
    uint64_t last_to; /* agent */
    int asked;        /* for preferred engines */
    int begun;
} hsa;

static struct hsa_double_signal {
    bool live;
    int64_t value;
    void *dest; /* of the copy that it is for, NULL: none */
    const void *source;
    size_t len;
    int polls;
} hsa_signals[HSA_SIGNALS];

static hsa_status_t hsa_result(const char *name)
{
    pthread_mutex_lock(&hip_lock);
    bool fails = hip_is_failing();
    if (hsa.failing != NULL && strcmp(hsa.failing, name) == 0) {
        hsa.failing = NULL;
        fails = true;
    }
    pthread_mutex_unlock(&hip_lock);
    return fails ? HSA_STATUS_ERROR : HSA_STATUS_SUCCESS;
}

static void hsa_count(int n)
{
    pthread_mutex_lock(&hip_lock);
    hip.live += n;
    pthread_mutex_unlock(&hip_lock);
}

static int hsa_current(void)
{
    pthread_mutex_lock(&hip_lock);
    int device = hip_ours();
    pthread_mutex_unlock(&hip_lock);
    return device;
}

/* ---- the runtime, agents, owners ---- */

static hsa_status_t double_hsa_init(void)
{
    hsa_status_t status = hsa_result("hsa_init");
    hsa_count(status == HSA_STATUS_SUCCESS);
    return status;
}
static hsa_status_t double_hsa_shut_down(void)
{
    hsa_count(-1);
    return HSA_STATUS_SUCCESS;
}
static hsa_status_t double_hsa_status_string(hsa_status_t status, const char **words)
{
    *words = status == HSA_STATUS_ERROR_INVALID_ARGUMENT ? "invalid argument" : "as was asked";
    return HSA_STATUS_SUCCESS;
}
static hsa_status_t double_hsa_iterate_agents(hsa_status_t (*call)(hsa_agent_t, void *), void *data)
{
    hsa_status_t status = call((hsa_agent_t){HSA_HOST}, data);
    for (int i = 0; i < hip.devices && status == HSA_STATUS_SUCCESS; i++)
        status = call((hsa_agent_t){HSA_GPU + (uint64_t)i}, data);
    return status;
}
static hsa_status_t double_hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t which, void *value)
{
    uint32_t location = agent.handle >= HSA_GPU ? (uint32_t)(agent.handle - HSA_GPU) << 8 : 0, domain = 0;
    hsa_device_type_t kind = agent.handle >= HSA_GPU ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
    CHECK(agent.handle == HSA_HOST || (agent.handle >= HSA_GPU && agent.handle < HSA_GPU + (uint64_t)hip.devices));
    if (which == HSA_AGENT_INFO_DEVICE)
        memcpy(value, &kind, sizeof(kind));
    else
        memcpy(value, (int)which == HSA_AMD_AGENT_INFO_BDFID ? &location : &domain, sizeof(location));
    return hsa_result("hsa_agent_get_info");
}
/* ROCm's crashes for chunks of peers. */
static hsa_status_t double_hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info, void *(*make)(size_t),
                                                uint32_t *n_agents, hsa_agent_t **agents)
{
    const struct hip_range *range = hip_find(ptr);
    CHECK(make == NULL && n_agents == NULL && agents == NULL && info->size == sizeof(*info));
    CHECK_OR_EXIT(range == NULL || !range->is_chunk);
    info->type = HSA_EXT_POINTER_TYPE_UNKNOWN;
    if (range == NULL)
        return hsa_result("hsa_amd_pointer_info");
    info->type = range->opened > 0 ? HSA_EXT_POINTER_TYPE_IPC : HSA_EXT_POINTER_TYPE_HSA;
    info->agentOwner.handle = range->type != hipMemoryTypeDevice ? HSA_HOST
                              : range->opened > 0                ? HSA_GPU + (uint64_t)hsa.peer
                                                                 : HSA_GPU + (uint64_t)range->device;
    info->global_flags = range->is_coarse ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED
                                          : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    return hsa_result("hsa_amd_pointer_info");
}

/* ---- signals ---- */

static hsa_status_t double_hsa_signal_create(hsa_signal_value_t value, uint32_t n_consumers,
                                             const hsa_agent_t *consumers, hsa_signal_t *signal)
{
    hsa_status_t status = hsa_result("hsa_signal_create");
    CHECK(n_consumers == 0 && consumers == NULL);
    if (status != HSA_STATUS_SUCCESS)
        return status;
    pthread_mutex_lock(&hip_lock);
    int i = 0;
    while (hsa_signals[i].live)
        i++;
    hsa_signals[i] = (struct hsa_double_signal){.live = true, .value = value};
    signal->handle = (uint64_t)i + 1;
    hip.live++;
    pthread_mutex_unlock(&hip_lock);
    return status;
}
static hsa_status_t double_hsa_signal_destroy(hsa_signal_t signal)
{
    struct hsa_double_signal *s = &hsa_signals[signal.handle - 1];
    CHECK(s->live && s->dest == NULL);
    s->live = false;
    hip.live--;
    return HSA_STATUS_SUCCESS;
}
static void double_hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value)
{
    struct hsa_double_signal *s = &hsa_signals[signal.handle - 1];
    pthread_mutex_lock(&hip_lock);
    CHECK(s->live && s->dest == NULL);
    s->value = value;
    pthread_mutex_unlock(&hip_lock);
}
static int64_t hsa_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static hsa_signal_value_t double_hsa_signal_load_scacquire(hsa_signal_t signal)
{
    struct hsa_double_signal *s = &hsa_signals[signal.handle - 1];
    pthread_mutex_lock(&hip_lock);
    CHECK(s->live);
    if (s->dest != NULL && s->polls-- <= 0 && hsa.begun >= hsa.together && hsa_now_ns() >= hsa.done_at_ns) {
        if (!hsa.breaks)
            memcpy(s->dest, s->source, s->len);
        s->value = hsa.breaks ? -1 : s->value - 1;
        s->dest = NULL;
    }
    int64_t value = s->value;
    pthread_mutex_unlock(&hip_lock);
    return value;
}

/* ---- copies ---- */

static bool hsa_is_device_memory(const void *ptr, size_t len)
{
    const struct hip_range *range = hip_find(ptr);
    return range != NULL && range->type == hipMemoryTypeDevice &&
           (uintptr_t)ptr - (uintptr_t)range->at + len <= range->len;
}

/* In this process only our own device has all of it mapped, and the engines that copy are those of the source's agent.
 */
static void hsa_begin(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from, size_t len, hsa_signal_t signal)
{
    struct hsa_double_signal *s = &hsa_signals[signal.handle - 1];
    CHECK_EQ(from.handle, HSA_GPU + hip_ours());
    CHECK(to.handle >= HSA_GPU && len > 0 && hsa_is_device_memory(dest, len) && hsa_is_device_memory(source, len));
    CHECK(s->live && s->value == 1 && s->dest == NULL);
    s->dest = dest;
    s->source = source;
    s->len = len;
    s->polls = hsa.polls_until_done;
    hsa.last_to = to.handle;
    hsa.begun++;
}

static hsa_status_t double_hsa_amd_memory_async_copy(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from,
                                                     size_t len, uint32_t n_before, const hsa_signal_t *before,
                                                     hsa_signal_t signal)
{
    hsa_status_t status = hsa_result("hsa_amd_memory_async_copy");
    CHECK(n_before == 0 && before == NULL);
    CHECK(to.handle != from.handle); /* by compute units */
    if (status != HSA_STATUS_SUCCESS)
        return status;
    pthread_mutex_lock(&hip_lock);
    hsa_begin(dest, to, source, from, len, signal);
    hsa.left++;
    pthread_mutex_unlock(&hip_lock);
    return status;
}

/* All that copies of this direction may name. */
static unsigned hsa_allowed(hsa_agent_t to, hsa_agent_t from)
{
    if (to.handle != from.handle && to.handle >= HSA_GPU && hsa.engines > 3)
        return hsa.engines & ~3u;
    return hsa.engines & ~(to.handle != from.handle && hsa.first_is_hosts ? 1u : 0u);
}

static hsa_status_t double_hsa_amd_memory_async_copy_on_engine(void *dest, hsa_agent_t to, const void *source,
                                                               hsa_agent_t from, size_t len, uint32_t n_before,
                                                               const hsa_signal_t *before, hsa_signal_t signal,
                                                               unsigned engine, bool never_compute_units)
{
    hsa_status_t status = hsa_result("hsa_amd_memory_async_copy_on_engine");
    CHECK(n_before == 0 && before == NULL && never_compute_units);
    CHECK_EQ(__builtin_popcount(engine), 1);
    if (status != HSA_STATUS_SUCCESS)
        return status;
    if ((engine & (hsa_allowed(to, from) | hsa.preferred)) == 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&hip_lock);
    hsa_begin(dest, to, source, from, len, signal);
    hsa.named++;
    hsa.used |= engine;
    hsa.last = engine;
    pthread_mutex_unlock(&hip_lock);
    return status;
}
static hsa_status_t double_hsa_amd_memory_copy_engine_status(hsa_agent_t to, hsa_agent_t from, uint32_t *mask)
{
    hsa_status_t status = hsa_result("hsa_amd_memory_copy_engine_status");
    CHECK_EQ(from.handle, HSA_GPU + hsa_current());
    if (to.handle == from.handle)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    *mask = hsa_allowed(to, from) & ~hsa.busy;
    if (status != HSA_STATUS_SUCCESS)
        return status;
    return *mask != 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}
static hsa_status_t double_hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t to, hsa_agent_t from, uint32_t *mask)
{
    CHECK(to.handle != from.handle && from.handle == HSA_GPU + (uint64_t)hsa_current());
    *mask = hsa.preferred;
    hsa.asked++;
    return hsa_result("hsa_amd_memory_get_preferred_copy_engine");
}

/* A file as long as the allocation in place of a dma-buf. */
static int double_hsa_amd_portable_export_dmabuf(const void *at, size_t len, int *fd, uint64_t *offset)
{
    const struct hip_range *range = hip_find(at);
    CHECK(range != NULL && !range->is_chunk); /* which the runtime does not know */
    *offset = (uint64_t)((const char *)at - range->at);
    CHECK(*offset + len <= range->len);
    if (hsa_result("hsa_amd_portable_export_dmabuf") != HSA_STATUS_SUCCESS)
        return (int)HSA_STATUS_ERROR;
    *fd = memfd_create("dmabuf", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(*fd, (off_t)range->len), 0);
    return 0;
}

/* ---- the library ---- */

#define HSA_DOUBLES(X)                          \
    HSA_CALLS(X)                                \
    X(hsa_amd_memory_async_copy_on_engine)      \
    X(hsa_amd_memory_copy_engine_status)        \
    X(hsa_amd_memory_get_preferred_copy_engine) \
    X(hsa_amd_portable_export_dmabuf)

static void *hsa_dlopen(const char *name, int flags)
{
    CHECK(strcmp(name, "libhsa-runtime64.so.1") == 0 && (flags & RTLD_NOLOAD) != 0);
    return hsa.loaded ? &hsa : NULL;
}
static void *hsa_dlsym(void *library, const char *name)
{
    void *entry = NULL;
    CHECK(library == &hsa);
    if (hsa.missing != NULL && strcmp(hsa.missing, name) == 0)
        return NULL;
#define X(call)                                              \
    if (strcmp(name, #call) == 0) {                          \
        __typeof__(&double_##call) function = double_##call; \
        memcpy(&entry, &function, sizeof(entry));            \
    }
    HSA_DOUBLES(X)
#undef X
    CHECK_NAMED(entry != NULL, name);
    return entry;
}

/* MI300X under a recent ROCm: 2 engines for the host, 14 for links to peers. */
static void hsa_machine(void)
{
    memset(&hsa, 0, sizeof(hsa));
    memset(hsa_signals, 0, sizeof(hsa_signals));
    hsa.loaded = true;
    hsa.engines = 0xffff;
    hsa.peer = 2;
    hsa.polls_until_done = 3;
}

#endif
