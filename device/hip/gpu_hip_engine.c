/* SPDX-License-Identifier: MIT */
/* AMD GPUs: copies between device memories by a chosen copy engine (SDMA), through the HSA runtime under HIP. HIP names
 * no engine, and for copies inside one device it may use compute units, which wait for kernels. Invariants: an engine
 * of this PE's device makes every copy, because in this process only its page tables have everything that our kernels
 * reach. So the owner of memory decides which engine is best, and never whether a copy is right. A call about engines
 * that has failed is not made again. Includes gpu_hip.h. Called by shmem/, gpu_hip.c, gpu_hip_memory.c. */
#include "gpu_hip.h"

#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../api/prim.h"

#include <dlfcn.h>
#include <errno.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_ENGINES = 32, MOST_ROUTES = 64, POLLS_BEFORE_NAP = 200 };

/* Calls that every ROCm has. Calls that came with ROCm 5.6 and later have types of our own, because older headers lack
 * them. */
#define HSA_CALLS(X)             \
    X(hsa_init)                  \
    X(hsa_shut_down)             \
    X(hsa_status_string)         \
    X(hsa_iterate_agents)        \
    X(hsa_agent_get_info)        \
    X(hsa_signal_create)         \
    X(hsa_signal_destroy)        \
    X(hsa_signal_store_relaxed)  \
    X(hsa_signal_load_scacquire) \
    X(hsa_amd_pointer_info)      \
    X(hsa_amd_memory_async_copy)
typedef hsa_status_t (*engine_copy)(void *dest, hsa_agent_t to, const void *source, hsa_agent_t from, size_t len,
                                    uint32_t n_before, const hsa_signal_t *before, hsa_signal_t done, unsigned engine,
                                    bool never_compute_units);
typedef hsa_status_t (*engine_mask)(hsa_agent_t to, hsa_agent_t from, uint32_t *mask);

struct hsa {
#define X(name) __typeof__(&name) name;
    HSA_CALLS(X)
#undef X
    engine_copy copy_on_engine;
    engine_mask free_engines;
    engine_mask preferred_engines; /* NULL: missing, or has failed */
};

/* Our engines towards one agent: bits as in hsa_amd_sdma_engine_id_t. */
struct route {
    hsa_agent_t to;
    uint32_t preferred; /* 0: all are alike */
    uint32_t seen;      /* that were free when it was asked: others are not accepted */
};

/* A peer's memory that is mapped here. */
struct peer_range {
    struct peer_range *next;
    char *at;
    size_t len;
    hsa_agent_t owner; /* handle 0: not known */
};

/* One copy at a time. */
struct engine {
    pthread_mutex_t lock;
    hsa_signal_t signal; /* made by the first copy */
    bool lost;           /* a copy may still write the signal */
};

struct engines {
    struct hsa hsa;
    hsa_agent_t ours, host;
    uint64_t timeout_ns;  /* SHMEM_TIMEOUT, 0: never */
    bool gives_up;        /* SHMEM_TIMEOUT_ABORT */
    pthread_mutex_t lock; /* hsa.preferred_engines and what follows, but `each` */
    bool we_choose;       /* copy_on_engine and free_engines work */
    bool runtime_chooses; /* hsa_amd_memory_async_copy works */
    unsigned last_bit;    /* of the engine that was chosen last */
    struct route routes[MOST_ROUTES];
    unsigned n_routes; /* the first is the host's, and that of copies inside the device */
    struct peer_range *peers;
    struct engine each[MOST_ENGINES + 1]; /* the last is for copies of which the runtime chooses the engine */
};

struct hsa_copy {
    void *dest;
    const void *source;
    size_t len;
    hsa_agent_t to;  /* the owner of dest, or ours */
    uint32_t engine; /* one bit; 0: the runtime chooses */
};

/* ---- the runtime's calls ---- */

/* Only the copy of the runtime that HIP has loaded: another one would know nothing of HIP's memory. */
static bool look_up_engine(struct hsa *hsa)
{
    void *entry, *library = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return false;
#define X(name)                    \
    entry = dlsym(library, #name); \
    if (entry == NULL)             \
        return false;              \
    memcpy(&hsa->name, &entry, sizeof(entry));
    HSA_CALLS(X)
#undef X
    entry = dlsym(library, "hsa_amd_memory_async_copy_on_engine");
    memcpy(&hsa->copy_on_engine, &entry, sizeof(entry));
    entry = dlsym(library, "hsa_amd_memory_copy_engine_status");
    memcpy(&hsa->free_engines, &entry, sizeof(entry));
    entry = dlsym(library, "hsa_amd_memory_get_preferred_copy_engine");
    memcpy(&hsa->preferred_engines, &entry, sizeof(entry));
    return true;
}

static const char *words_of(const struct engines *e, hsa_status_t status)
{
    const char *words = NULL;
    return e->hsa.hsa_status_string(status, &words) == HSA_STATUS_SUCCESS && words != NULL ? words : "unknown error";
}

/* ---- agents ---- */

/* The owner of memory that HIP has allocated or opened by a key; handle 0: unknown. Not for chunks: the runtime crashes
 * when it is asked for the owner of an imported chunk. */
static hsa_agent_t owner_of(const struct engines *e, const void *ptr)
{
    const hsa_agent_t unknown = {0};
    hsa_amd_pointer_info_t info;
    memset(&info, 0, sizeof(info));
    info.size = sizeof(info);
    hsa_status_t status = e->hsa.hsa_amd_pointer_info(ptr, &info, NULL, NULL, NULL);
    return status == HSA_STATUS_SUCCESS && info.type != HSA_EXT_POINTER_TYPE_UNKNOWN ? info.agentOwner : unknown;
}

static bool is_a(const struct engines *e, hsa_agent_t agent, hsa_device_type_t kind)
{
    hsa_device_type_t is;
    return agent.handle != 0 && e->hsa.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &is) == HSA_STATUS_SUCCESS &&
           is == kind;
}

struct agent_search {
    const struct hsa *hsa;
    unsigned domain, location; /* as the runtime packs bus, device and function */
    hsa_agent_t found;
};

static hsa_status_t compare_engines(hsa_agent_t agent, void *argument)
{
    struct agent_search *search = (struct agent_search *)argument;
    uint32_t domain = 0, location = 0;
    hsa_status_t status = search->hsa->hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &location);
    if (status == HSA_STATUS_SUCCESS)
        status = search->hsa->hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &domain);
    if (status != HSA_STATUS_SUCCESS || domain != search->domain || location != search->location)
        return HSA_STATUS_SUCCESS;
    search->found = agent;
    return HSA_STATUS_INFO_BREAK;
}

/* ---- memory of peers ---- */

void iso_hip_note_peer(struct gpu *gpu, char *at, size_t len, const char *id)
{
    struct engines *e = gpu->engines;
    struct peer_range *peer = e != NULL ? (struct peer_range *)malloc(sizeof(*peer)) : NULL;
    if (peer == NULL)
        return;
    peer->at = at;
    peer->len = len;
    if (id == NULL) {
        peer->owner = owner_of(e, at);
    } else {
        /* By the PCI address; handle 0: this process does not see that device. */
        struct agent_search search = {&e->hsa, 0, 0, {0}};
        unsigned bus, device, function;
        if (sscanf(id, "%x:%x:%x.%x", &search.domain, &bus, &device, &function) == 4) {
            search.location = bus << 8 | device << 3 | function;
            (void)e->hsa.hsa_iterate_agents(compare_engines, &search);
        }
        peer->owner = search.found;
    }
    if (!is_a(e, peer->owner, HSA_DEVICE_TYPE_GPU))
        peer->owner.handle = 0;
    pthread_mutex_lock(&e->lock);
    peer->next = e->peers;
    e->peers = peer;
    pthread_mutex_unlock(&e->lock);
}

void iso_hip_forget_peer(struct gpu *gpu, const char *at)
{
    struct engines *e = gpu->engines;
    if (e == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    struct peer_range **link = &e->peers;
    while (*link != NULL && (*link)->at != at)
        link = &(*link)->next;
    struct peer_range *peer = *link;
    if (peer != NULL)
        *link = peer->next;
    pthread_mutex_unlock(&e->lock);
    free(peer);
}

/* True for device memory that our engines reach; *owner is its agent. For memory of other devices that the program has,
 * only HIP knows whether we reach it. */
static bool find_owner(struct gpu *gpu, const void *ptr, hsa_agent_t *owner)
{
    struct engines *e = gpu->engines;
    *owner = e->ours;
    pthread_mutex_lock(&e->lock);
    const struct peer_range *peer = e->peers;
    while (peer != NULL && (uintptr_t)ptr - (uintptr_t)peer->at >= peer->len)
        peer = peer->next;
    if (peer != NULL && peer->owner.handle != 0)
        *owner = peer->owner;
    pthread_mutex_unlock(&e->lock);
    return peer != NULL || iso_hip_is_own_memory(gpu, ptr);
}

/* ---- the choice of an engine; under the lock ---- */

static void stop_choosing(struct engines *e, const char *call, hsa_status_t status)
{
    if (e->we_choose)
        log_info("%s: %s; from now on the HSA runtime chooses the engines of copies", call, words_of(e, status));
    e->we_choose = false;
}

static struct route *route_to(struct engines *e, hsa_agent_t agent)
{
    struct route *route = e->routes;
    while (route < e->routes + e->n_routes && route->to.handle != agent.handle)
        route++;
    if (route == e->routes + MOST_ROUTES)
        return e->routes;
    if (route < e->routes + e->n_routes)
        return route;
    e->n_routes++;
    route->to = agent;
    if (e->hsa.preferred_engines != NULL &&
        e->hsa.preferred_engines(agent, e->ours, &route->preferred) != HSA_STATUS_SUCCESS) {
        e->hsa.preferred_engines = NULL;
        route->preferred = 0;
    }
    return route;
}

static uint32_t free_engines(struct engines *e, struct route *route)
{
    uint32_t mask = 0;
    hsa_status_t status = e->hsa.free_engines(route->to, e->ours, &mask);
    if (status == HSA_STATUS_ERROR_OUT_OF_RESOURCES)
        return 0; /* all of them are busy */
    if (status != HSA_STATUS_SUCCESS) {
        stop_choosing(e, "hsa_amd_memory_copy_engine_status", status);
        return 0;
    }
    route->seen |= mask;
    return mask;
}

/* Data from a peer goes by the engine of the link to it, or by any of ours. The next one of those that are idle, or of
 * all where none is. */
static uint32_t choose_engine(struct engines *e, hsa_agent_t to, hsa_agent_t from)
{
    hsa_agent_t peer = to.handle != e->ours.handle ? to : from;
    struct route *route = peer.handle != e->ours.handle ? route_to(e, peer) : e->routes;
    if (to.handle == e->ours.handle && route->preferred == 0)
        route = e->routes;
    uint32_t idle = free_engines(e, route);
    uint32_t usable = route->preferred != 0 ? route->preferred : route->seen;
    if (!e->we_choose || usable == 0)
        return 0;
    if ((usable & idle) != 0)
        usable &= idle;
    uint32_t later = usable & ~((2u << e->last_bit) - 1);
    e->last_bit = (unsigned)__builtin_ctz(later != 0 ? later : usable);
    return 1u << e->last_bit;
}

/* Chooses owner and engine of a copy. False: only HIP can make it. */
static bool plan_engines(struct gpu *gpu, struct hsa_copy *copy)
{
    struct engines *e = gpu->engines;
    hsa_agent_t from;
    if (!find_owner(gpu, copy->dest, &copy->to) || !find_owner(gpu, copy->source, &from))
        return false;
    if (from.handle != e->ours.handle)
        copy->to = e->ours; /* named as a copy inside our device: the peer's engines would make it otherwise */
    pthread_mutex_lock(&e->lock);
    copy->engine = e->we_choose ? choose_engine(e, copy->to, from) : 0;
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* ---- copies ---- */

static int refuse_engine(struct gpu *gpu, int status, const struct hsa_copy *copy, const char *why)
{
    char text[200];
    snprintf(text, sizeof(text), "a copy of %zu bytes from %p to %p by a copy engine: %s", copy->len, copy->source,
             copy->dest, why);
    return iso_hip_refuse(gpu, status, text);
}

static bool begin_copy(struct engines *e, struct engine *engine, struct hsa_copy *copy)
{
    if (engine->lost)
        return false;
    if (engine->signal.handle == 0 && e->hsa.hsa_signal_create(1, 0, NULL, &engine->signal) != HSA_STATUS_SUCCESS) {
        engine->signal.handle = 0;
        return false;
    }
    e->hsa.hsa_signal_store_relaxed(engine->signal, 1); /* handing over the copy orders it */
    if (copy->engine != 0) {
        hsa_status_t status = e->hsa.copy_on_engine(copy->dest, copy->to, copy->source, e->ours, copy->len, 0, NULL,
                                                    engine->signal, copy->engine, true);
        if (status == HSA_STATUS_SUCCESS)
            return true;
        pthread_mutex_lock(&e->lock);
        stop_choosing(e, "hsa_amd_memory_async_copy_on_engine", status);
        pthread_mutex_unlock(&e->lock);
        copy->engine = 0;
    }

    pthread_mutex_lock(&e->lock);
    bool runtime_chooses = e->runtime_chooses;
    pthread_mutex_unlock(&e->lock);
    if (!runtime_chooses || copy->to.handle == e->ours.handle) /* inside a device the runtime takes compute units */
        return false;
    hsa_status_t status = e->hsa.hsa_amd_memory_async_copy(copy->dest, copy->to, copy->source, e->ours, copy->len, 0,
                                                           NULL, engine->signal);
    if (status == HSA_STATUS_SUCCESS)
        return true;

    /* Such a copy may have been cut in pieces of which some have begun, so that the signal is no longer ours. */
    log_info("hsa_amd_memory_async_copy: %s; from now on HIP makes such copies", words_of(e, status));
    engine->lost = true;
    pthread_mutex_lock(&e->lock);
    e->runtime_chooses = false;
    pthread_mutex_unlock(&e->lock);
    return false;
}

/* Polls and, after a while, sleeps in between, like iso_gpu_stream_wait. The engine's runtime takes one off the signal
 * behind the data, which pairs with the acquiring load, or makes it negative. */
static int64_t wait_for_engine(const struct engines *e, const struct engine *engine, const struct hsa_copy *copy)
{
    const struct timespec nap = {0, 20000};
    uint64_t since = prim_clock_ns(), timeout = e->timeout_ns;
    int64_t value;
    for (unsigned polls = 0; (value = e->hsa.hsa_signal_load_scacquire(engine->signal)) > 0; polls++) {
        if (polls < POLLS_BEFORE_NAP) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
        uint64_t waited = prim_clock_ns() - since;
        if (timeout == 0 || waited < timeout)
            continue;
        char name[40] = "of the HSA runtime's choice";
        if (copy->engine != 0)
            snprintf(name, sizeof(name), "%d", __builtin_ctz(copy->engine));
        log_error(
            "a copy of %zu bytes from %p to %p by copy engine %s is not done after %.1f s, longer than SHMEM_TIMEOUT: "
            "its signal is 1, expected 0 (set HSA_ENABLE_PEER_SDMA=0 so that no engine is chosen here)",
            copy->len, copy->source, copy->dest, name, (double)waited / 1e9);
        timeout = 0; /* once */
        if (e->gives_up)
            break;
    }
    return value;
}

int iso_gpu_copy_by_engine(struct gpu *gpu, void *dest, const void *source, size_t len)
{
    struct hsa_copy copy = {dest, source, len, {0}, 0};
    if (len == 0)
        return 0;
    if (gpu->engines == NULL || !plan_engines(gpu, &copy))
        return refuse_engine(gpu, -ENOTSUP, &copy, "no engine can be chosen for it");
    struct engine *chosen = &gpu->engines->each[copy.engine != 0 ? __builtin_ctz(copy.engine) : MOST_ENGINES];
    pthread_mutex_lock(&chosen->lock);
    bool begun = begin_copy(gpu->engines, chosen, &copy);
    int64_t value = begun ? wait_for_engine(gpu->engines, chosen, &copy) : 0;
    if (value != 0)
        chosen->lost = true;
    pthread_mutex_unlock(&chosen->lock);
    if (!begun)
        return refuse_engine(gpu, -ENOTSUP, &copy, "the HSA runtime refuses it");
    if (value > 0)
        return refuse_engine(gpu, -ETIMEDOUT, &copy, "not done after SHMEM_TIMEOUT, and SHMEM_TIMEOUT_ABORT is set");
    return value == 0 ? 0 : refuse_engine(gpu, -EIO, &copy, "the HSA runtime reports that it failed");
}

/* ---- start and stop ---- */

void iso_hip_open_engines(struct gpu *gpu)
{
    /* HSA's own variables: switching its copy engines off means these too. */
    if (iso_hip_is_off("HSA_ENABLE_SDMA") || iso_hip_is_off("HSA_ENABLE_PEER_SDMA"))
        return;
    struct engines *e = (struct engines *)calloc(1, sizeof(*e));
    if (e == NULL || !look_up_engine(&e->hsa) || e->hsa.hsa_init() != HSA_STATUS_SUCCESS) {
        free(e);
        return;
    }
    pthread_mutex_init(&e->lock, NULL);
    for (int i = 0; i <= MOST_ENGINES; i++)
        pthread_mutex_init(&e->each[i].lock, NULL);
    gpu->engines = e;

    /* The agents are found by memory of which the owner is known: a PCI address does not tell the parts of a divided
     * device from each other. */
    void *piece = NULL;
    iso_hip_use(gpu);
    int status = iso_hip_result(gpu, "hipMalloc", hipMalloc(&piece, 4096));
    if (status == 0) {
        e->ours = owner_of(e, piece);
        e->host = owner_of(e, gpu->stage);
        (void)hipFree(piece);
    }
    if (status != 0 || !is_a(e, e->ours, HSA_DEVICE_TYPE_GPU) || !is_a(e, e->host, HSA_DEVICE_TYPE_CPU)) {
        iso_hip_close_engines(gpu);
        return;
    }

    struct env env;
    char error[200];
    if (iso_env_read(&env, error, sizeof(error)) == 0) { /* else the start of the library has reported it */
        e->timeout_ns = (uint64_t)(env.timeout * 1e9);
        e->gives_up = env.timeout_abort;
    }
    e->runtime_chooses = true;
    e->we_choose = e->hsa.copy_on_engine != NULL && e->hsa.free_engines != NULL;
    e->last_bit = MOST_ENGINES - 1;
    e->n_routes = 1;
    e->routes[0].to = e->host;
    if (e->we_choose)
        (void)free_engines(e, &e->routes[0]); /* those are seen */
}

void iso_hip_close_engines(struct gpu *gpu)
{
    struct engines *e = gpu->engines;
    if (e == NULL)
        return;
    gpu->engines = NULL;
    for (int i = 0; i <= MOST_ENGINES; i++) {
        if (e->each[i].signal.handle != 0 && !e->each[i].lost)
            (void)e->hsa.hsa_signal_destroy(e->each[i].signal);
        pthread_mutex_destroy(&e->each[i].lock);
    }
    for (struct peer_range *peer; (peer = e->peers) != NULL;) {
        e->peers = peer->next;
        free(peer);
    }
    pthread_mutex_destroy(&e->lock);
    (void)e->hsa.hsa_shut_down();
    free(e);
}
