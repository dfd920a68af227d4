/* SPDX-License-Identifier: MIT */
/* What the library's memory on this PE is for: shmemx_memory_stats. It asks the allocators, and of host memory the
 * system, since what was never touched has no pages. Invariant: nothing is counted here, so memory costs no more by it.
 * Called by users. */
#include "../../bootstrap/log.h"
#include "../collectives.h"
#include "../gpu/device.h"
#include "../state/alloc.h"
#include "../team/slot.h"
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t used_of(int index)
{
    struct alloc *alloc = ISO->segments[index].alloc;
    return alloc != NULL ? iso_alloc_stats(alloc).used : 0;
}

/* Of [at, at + len), which begins and ends at a page. The pages of a memory file are there as long as it has them,
 * whoever has touched them. 0 or -errno. */
static int touched_bytes(char *at, size_t len, size_t *bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (len + page - 1) / page;
    unsigned char *is_there = (unsigned char *)malloc(pages);
    int rc = is_there == NULL ? -ENOMEM : mincore(at, len, is_there) != 0 ? -errno : 0;
    *bytes = 0;
    for (size_t i = 0; rc == 0 && i < pages; i++)
        *bytes += (is_there[i] & 1) != 0 ? page : 0;
    free(is_there);
    return rc;
}

static int host_stats(const struct team *team, shmemx_memory_stats_t *stats)
{
    struct stat file;
    const struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP];
    int rc = fstat(heap->fd, &file) != 0 ? -errno : 0;
    char *memory = team->slot.memory;
    if (rc == 0 && memory != NULL) { /* else a team of one PE, which has no slot */
        size_t front = iso_slot_stage_offset(ISO);
        rc = touched_bytes(memory, front, &stats->slot_bytes);
        if (rc == 0)
            rc = touched_bytes(memory + front, ISO->slot_bytes - front, &stats->stage_bytes);
    }
    stats->heap_bytes = iso_alloc_stats(ISO->alloc).used;
    stats->local_bytes = used_of(SEGMENT_INDEX_LOCAL);
    stats->team_bytes = used_of(SEGMENT_INDEX_TEAM);
    stats->ring_bytes = ISO->device != NULL && ISO->device->running ? iso_proxy_ring_bytes(false) : 0;
    stats->held_bytes = rc == 0 ? (size_t)file.st_blocks * 512 : 0; /* the unit of st_blocks */
    return rc;
}

static void device_stats(const struct team *team, shmemx_memory_stats_t *stats)
{
    struct device *d = ISO->device;
    if (d == NULL || !d->running)
        return;
    ISO->coll->streams.memory(team, &stats->stage_bytes, &stats->pair_bytes);
    stats->slot_bytes = iso_handle_slot_bytes(team);
    stats->heap_bytes = iso_alloc_stats(d->alloc).used;
    stats->local_bytes = used_of(SEGMENT_INDEX_DEVICE_LOCAL);
    stats->team_bytes = used_of(SEGMENT_INDEX_DEVICE_TEAM);
    stats->ring_bytes = iso_proxy_ring_bytes(true);
    if (iso_device_is_suspended(d))
        return;
    /* Chunks of the CPU device are addresses, which get pages as they are touched. */
    bool is_cpu = strcmp(d->info->flavour, "cpu") == 0;
    size_t objects = stats->heap_bytes + stats->local_bytes + stats->team_bytes;
    stats->held_bytes = is_cpu ? iso_alloc_stats(d->control).used + objects : d->backed_bytes;
    for (int i = 0; !is_cpu && i < 2; i++)
        stats->held_bytes += __atomic_load_n(&d->grown_bytes[i], __ATOMIC_RELAXED);
}

SHMEM_API(shmemx_memory_stats, pshmemx_memory_stats);
int pshmemx_memory_stats(shmem_team_t team_handle, int kind, shmemx_memory_stats_t *stats)
{
    static const char call[] = "shmemx_memory_stats";
    if (iso_enter(call) != 0)
        return 1;
    const struct team *team = iso_team_or_null(team_handle);
    int rc = 0;
    if (team == NULL || stats == NULL) {
        log_error("%s: %s %p is %s", call, team == NULL ? "team" : "stats", team == NULL ? (void *)team_handle : NULL,
                  team == NULL ? "not a team of this PE, or was destroyed" : "a null pointer");
        return 1;
    }
    memset(stats, 0, sizeof *stats);
    if (kind == SHMEMX_DEVICE) {
        device_stats(team, stats);
    } else if (kind == SHMEMX_HOST) {
        rc = host_stats(team, stats);
        if (rc != 0)
            log_error("%s: the system does not tell which pages of the heap have memory: %s", call, strerror(-rc));
    } else {
        log_error("%s: kind is %d, allowed: SHMEMX_HOST (%d), SHMEMX_DEVICE (%d)", call, kind, SHMEMX_HOST,
                  SHMEMX_DEVICE);
        rc = -EINVAL;
    }
    return rc != 0;
}
