/* SPDX-License-Identifier: MIT */
/* Memory: each allocation is a mapping of a memfd of its own, so that another process can map it too, through
 * /proc/PID/fd/FD: there are no names, and nothing outlives the processes. An address is the same for host and devices,
 * and nothing is out of reach for the interpreter: who may access what is only recorded. */
#include "hsa_own.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POISON = 0xcd, MOST_POISONED = 16 << 20, HANDLE_MAGIC = 0x39786667 };

/* An allocation, memory of another process, or (in a list of its own) locked memory of the program. */
struct range {
    char *base;
    size_t len; /* whole pages, but for locked memory */
    hsa_amd_pointer_type_t type;
    int fd; /* -1: not an allocation */
    struct agent *owner;
    uint32_t flags;
    uint64_t access; /* agents, as bits 1 << node */
    void *userdata;
};

/* Sorted by base. Locked ranges may overlap each other. */
struct ranges {
    struct range *all;
    size_t n, room;
};

/* What an hsa_amd_ipc_memory_t holds. */
struct ipc {
    uint32_t magic;
    int32_t pid, fd;
    uint32_t node; /* of the owner */
    uint64_t len, inode;
};
_Static_assert(sizeof(struct ipc) == sizeof(hsa_amd_ipc_memory_t), "the handle's size is HSA's");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ranges mapped, locked; /* under the lock */

static size_t whole_pages(size_t len) { return (len + PAGE - 1) & ~(size_t)(PAGE - 1); }

/* ---- ranges; under the lock ---- */

/* The first that begins behind ptr. */
static size_t behind(const struct ranges *ranges, const void *ptr)
{
    size_t low = 0, high = ranges->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)ranges->all[middle].base <= (uintptr_t)ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct range *find(const struct ranges *ranges, const void *ptr)
{
    for (size_t i = behind(ranges, ptr); i > 0; i--) {
        struct range *r = &ranges->all[i - 1];
        if ((uintptr_t)ptr - (uintptr_t)r->base < r->len)
            return r;
        if (ranges == &mapped)
            break; /* of ranges that do not overlap, only the nearest can be it */
    }
    return NULL;
}

static struct range *find_base(const struct ranges *ranges, const void *base)
{
    size_t i = behind(ranges, base);
    return i > 0 && ranges->all[i - 1].base == base ? &ranges->all[i - 1] : NULL;
}

static bool add(struct ranges *ranges, const struct range *r)
{
    if (ranges->n == ranges->room) {
        size_t room = ranges->room != 0 ? 2 * ranges->room : 64;
        struct range *more = realloc(ranges->all, room * sizeof(*more));
        if (more == NULL)
            return false;
        ranges->all = more;
        ranges->room = room;
    }
    size_t i = behind(ranges, r->base);
    memmove(&ranges->all[i + 1], &ranges->all[i], (ranges->n - i) * sizeof(*r));
    ranges->all[i] = *r;
    ranges->n++;
    return true;
}

static struct range take(struct ranges *ranges, struct range *r)
{
    struct range copy = *r;
    size_t left = (size_t)(&ranges->all[--ranges->n] - r);
    memmove(r, r + 1, left * sizeof(*r));
    return copy;
}

/* ---- the same with the lock ---- */

static bool add_range(struct ranges *ranges, const struct range *r)
{
    pthread_mutex_lock(&lock);
    bool added = add(ranges, r);
    pthread_mutex_unlock(&lock);
    return added;
}

/* The one with that base, if it is of that type. */
static bool take_range(struct ranges *ranges, hsa_amd_pointer_type_t type, const void *base, struct range *taken)
{
    pthread_mutex_lock(&lock);
    struct range *r = find_base(ranges, base);
    bool found = r != NULL && r->type == type;
    if (found)
        *taken = take(ranges, r);
    pthread_mutex_unlock(&lock);
    return found;
}

static bool look_up(const void *ptr, struct range *found)
{
    pthread_mutex_lock(&lock);
    const struct range *r = find(&mapped, ptr);
    if (r == NULL)
        r = find(&locked, ptr);
    if (r != NULL)
        *found = *r;
    pthread_mutex_unlock(&lock);
    return r != NULL;
}

/* ---- allocations ---- */

static bool map_fresh(struct range *r)
{
    r->fd = memfd_create("gfx9", MFD_CLOEXEC);
    if (r->fd < 0)
        return false;
    void *at = MAP_FAILED;
    if (ftruncate(r->fd, (off_t)r->len) == 0)
        at = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (at == MAP_FAILED) {
        close(r->fd);
        return false;
    }
    r->base = at;
    return true;
}

static void unmap(const struct range *r)
{
    munmap(r->base, r->len);
    if (r->fd >= 0)
        close(r->fd);
}

/* Takes bytes of an agent's memory, or not. */
static bool charge(struct agent *agent, size_t len)
{
    if (atomic_fetch_add(&agent->in_use, len) + len <= agent->size)
        return true;
    atomic_fetch_sub(&agent->in_use, len);
    return false;
}

void *own_allocate(struct pool *pool, size_t len)
{
    uint64_t access = (uint64_t)1 << pool->agent->node | 1;
    struct range r = {NULL, whole_pages(len), HSA_EXT_POINTER_TYPE_HSA, -1, pool->agent, pool->flags, access, NULL};
    if (len > pool->agent->size || !charge(pool->agent, r.len))
        return NULL;
    if (map_fresh(&r)) {
        if (pool->agent->kind == HSA_DEVICE_TYPE_GPU && len <= MOST_POISONED)
            memset(r.base, POISON, r.len); /* a device does not clear it either */
        if (add_range(&mapped, &r))
            return r.base;
        unmap(&r);
    }
    atomic_fetch_sub(&pool->agent->in_use, r.len);
    return NULL;
}

hsa_status_t own_free(void *base)
{
    struct range r;
    if (!take_range(&mapped, HSA_EXT_POINTER_TYPE_HSA, base, &r))
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    unmap(&r);
    atomic_fetch_sub(&r.owner->in_use, r.len);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t handle, size_t size, uint32_t flags, void **ptr)
{
    struct pool *pool = own_pool(handle);
    if (pool == NULL || pool->segment != HSA_AMD_SEGMENT_GLOBAL)
        return INVALID_POOL;
    if (size == 0 || ptr == NULL || flags != 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *ptr = own_allocate(pool, size);
    return *ptr != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

hsa_status_t hsa_amd_memory_pool_free(void *ptr) { return ptr == NULL ? HSA_STATUS_SUCCESS : own_free(ptr); }

hsa_status_t hsa_amd_agents_allow_access(uint32_t n, const hsa_agent_t *agents, const uint32_t *flags, const void *ptr)
{
    uint64_t mask = own_agent_mask(n, agents);
    if (n == 0 || agents == NULL || flags != NULL || ptr == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (mask == 0)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    pthread_mutex_lock(&lock);
    struct range *r = find_base(&mapped, ptr);
    if (r != NULL)
        r->access = mask | (uint64_t)1 << r->owner->node | 1;
    pthread_mutex_unlock(&lock);
    return r != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR;
}

/* ---- the program's own memory ---- */

/* mincore fails when a page is not mapped. */
static bool is_mapped(const void *ptr, size_t len)
{
    uintptr_t first = (uintptr_t)ptr & ~(uintptr_t)(PAGE - 1);
    size_t pages = whole_pages((uintptr_t)ptr + len - first) / PAGE;
    unsigned char *residency = malloc(pages);
    bool mapped_there = residency != NULL && mincore((void *)first, pages * PAGE, residency) == 0;
    free(residency);
    return mapped_there;
}

static hsa_status_t lock_memory(void *ptr, size_t size, uint64_t access, const struct pool *pool, void **agent_ptr)
{
    if (ptr == NULL || size == 0 || agent_ptr == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct range r = {ptr, size, HSA_EXT_POINTER_TYPE_LOCKED, -1, pool->agent, pool->flags, access | 1, NULL};
    *agent_ptr = NULL;
    if (!is_mapped(ptr, size) || !add_range(&locked, &r))
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *agent_ptr = ptr;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_lock_to_pool(void *ptr, size_t size, hsa_agent_t *agents, int n,
                                         hsa_amd_memory_pool_t handle, uint32_t flags, void **agent_ptr)
{
    const struct pool *pool = own_pool(handle);
    uint64_t access = n > 0 && agents != NULL ? own_agent_mask((uint32_t)n, agents) : own_all_agents();
    if (pool == NULL || pool->agent->kind != HSA_DEVICE_TYPE_CPU)
        return INVALID_POOL;
    if (access == 0)
        return HSA_STATUS_ERROR_INVALID_AGENT;
    return flags == 0 ? lock_memory(ptr, size, access, pool, agent_ptr) : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_memory_lock(void *ptr, size_t size, hsa_agent_t *agents, int n, void **agent_ptr)
{
    hsa_amd_memory_pool_t pool = {(uintptr_t)&own_agent_of_node(0)->pools[0]};
    return hsa_amd_memory_lock_to_pool(ptr, size, agents, n, pool, 0, agent_ptr);
}

hsa_status_t hsa_amd_memory_unlock(void *ptr)
{
    struct range r;
    return take_range(&locked, HSA_EXT_POINTER_TYPE_LOCKED, ptr, &r) ? HSA_STATUS_SUCCESS
                                                                     : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* Every device reaches all of the process's memory. */
hsa_status_t hsa_memory_register(void *ptr, size_t size)
{
    return size == 0 && ptr != NULL ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_deregister(void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
    return HSA_STATUS_SUCCESS;
}

/* ---- whose is it? ---- */

static hsa_status_t list_agents(uint64_t mask, void *(*alloc)(size_t), uint32_t *n, hsa_agent_t **list)
{
    *n = (uint32_t)__builtin_popcountll(mask);
    *list = alloc(*n * sizeof(**list));
    if (*list == NULL)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    for (uint32_t i = 0; mask != 0; mask &= mask - 1)
        (*list)[i++] = own_handle(own_agent_of_node((uint32_t)__builtin_ctzll(mask)));
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info, void *(*alloc)(size_t), uint32_t *n,
                                  hsa_agent_t **accessible)
{
    hsa_amd_pointer_info_t all = {sizeof(all), HSA_EXT_POINTER_TYPE_UNKNOWN, NULL, NULL, 0, NULL, {0}, 0};
    struct range r;
    if (info == NULL || info->size == 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    bool found = look_up(ptr, &r);
    if (found)
        all = (hsa_amd_pointer_info_t){sizeof(all),         r.type, r.base, r.base, r.len, r.userdata,
                                       own_handle(r.owner), r.flags};
    size_t size = info->size < sizeof(all) ? info->size : sizeof(all); /* a caller may know a shorter struct */
    all.size = (uint32_t)size;
    memcpy(info, &all, size);
    if (alloc == NULL || n == NULL || accessible == NULL)
        return HSA_STATUS_SUCCESS;
    *n = 0;
    *accessible = NULL;
    return found ? list_agents(r.access, alloc, n, accessible) : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *userdata)
{
    pthread_mutex_lock(&lock);
    struct range *r = find(&mapped, ptr);
    if (r != NULL)
        r->userdata = userdata;
    pthread_mutex_unlock(&lock);
    return r != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* ---- memory of other processes ---- */

hsa_status_t hsa_amd_ipc_memory_create(void *ptr, size_t len, hsa_amd_ipc_memory_t *handle)
{
    struct range r;
    struct stat about;
    if (handle == NULL || !look_up(ptr, &r) || r.base != ptr || r.len != len || r.fd < 0 || fstat(r.fd, &about) != 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT; /* only whole allocations, as ROCr wants it */
    struct ipc ipc = {HANDLE_MAGIC, getpid(), r.fd, r.owner->node, len, about.st_ino};
    memcpy(handle, &ipc, sizeof(ipc));
    return HSA_STATUS_SUCCESS;
}

/* The file may be another one by now: then the inode differs. */
static int open_theirs(const struct ipc *ipc)
{
    char path[64];
    struct stat about;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &about) != 0 || about.st_ino != ipc->inode)) {
        close(fd);
        return -1;
    }
    return fd;
}

static hsa_status_t map_theirs(const struct ipc *ipc, uint64_t access, void **ptr)
{
    struct agent *owner = own_agent_of_node(ipc->node);
    int fd = owner != NULL ? open_theirs(ipc) : -1;
    if (fd < 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    void *at = mmap(NULL, ipc->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    struct range r = {at, ipc->len, HSA_EXT_POINTER_TYPE_IPC, -1, owner, owner->pools[0].flags, access | 1, NULL};
    if (!add_range(&mapped, &r)) {
        unmap(&r);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *ptr = at;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t *handle, size_t len, uint32_t n,
                                       const hsa_agent_t *agents, void **ptr)
{
    struct ipc ipc;
    if (handle == NULL || ptr == NULL || (n > 0 && agents == NULL))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    memcpy(&ipc, handle, sizeof(ipc));
    uint64_t access = n > 0 ? own_agent_mask(n, agents) : own_all_agents();
    if (ipc.magic != HANDLE_MAGIC || whole_pages(len) != ipc.len || access == 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return map_theirs(&ipc, access, ptr);
}

hsa_status_t hsa_amd_ipc_memory_detach(void *ptr)
{
    struct range r;
    if (!take_range(&mapped, HSA_EXT_POINTER_TYPE_IPC, ptr, &r))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    unmap(&r);
    return HSA_STATUS_SUCCESS;
}
