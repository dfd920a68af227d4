/* SPDX-License-Identifier: MIT */
/* Handles: what the host lays out for kernels. One image of the world per PE (segments, peers, rings, host words) and
 * one of each (team, slot): its tables, its lanes, and its slot memory at the front of the device heap, allocated by
 * each PE for itself, so the members tell each other where. Invariant: slot memory is zero before any member can know
 * where it is: memory of the device begins so, and what was written is cleared when a team ends. Lanes, epochs and
 * `direct` of a handle are equal on all its members. Called by users, stream.c, device_start.c, team.c (when a team
 * goes), buffer.c (when the segment table has changed). */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../team/agree.h"
#include "../collectives.h"
#include "../node/wait.h"
#include "../profile/profile.h"
#include "../team/slot.h"
#include "../transport/order.h"
#include "device.h"

#include "../../device/api/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_ALIGN 128   /* what flags of different PEs never share */
#define HANDLE_LISTS 512
#define RESET_MARGIN 16u /* epochs that no flag, packet or block of before can have reached */

#define DECLARE(name) extern void name(void);
ISOD_STREAM_KERNELS(DECLARE)
#undef DECLARE

struct handle {
    struct handle *next;
    const struct team *team;
    int slot;
    shmemd_t value;
    char *memory; /* device: struct isod_team and all it points to; of d->images */
    size_t bytes;
    size_t offset; /* of its slot memory in the heap */
    int written;   /* lanes that were written without an epoch */
    bool spoiled;  /* some member's kernels gave up: any lane may have been written */
    bool ended;    /* the team was broken, and the kernels have been told; device->lock, as the next one */
    bool end_told; /* and the program */
    struct isod_team image;
};

struct handles {
    struct isod_world *world; /* device */
    struct isod_world *image; /* the host's copy; counters in it mean nothing */
    char **peers;             /* host's copy of the peers' tables: [ISOD_SEGMENTS][n_pes] */
    char **peers_on_device;
    struct handle *local; /* no slot memory: for operations on streams that no collective makes */
    struct handle *lists[HANDLE_LISTS]; /* by team and slot; device->lock */
};

/* ---- the image of the world ---- */

/* A piece of a buffer whose ends share their pages: a range may begin in one piece and end in the next, which no single
 * pointer reaches. */
static bool has_staged_neighbour(const struct segment *s)
{
    const struct state *self = ISO;
    for (int i = SEGMENT_INDEX_FREE; i < self->n_segments; i++) {
        const struct segment *other = &self->segments[i];
        if (other->staged && (other->base + other->len == s->base || s->base + s->len == other->base))
            return true;
    }
    return s->staged;
}

/* By SHMEM_VIRTUAL_NODES, which is right: a number for each PE, as often as needed from the begin. */
static long virtual_node(int pe)
{
    const char *at = ISO->env->virtual_nodes;
    int numbers = 1;
    for (const char *c = at; *c != '\0'; c++)
        numbers += *c == ',';
    for (int skip = pe % numbers; skip > 0; skip--)
        at = strchr(at, ',') + 1;
    return strtol(at, NULL, 10);
}

/* The host's memory is a kernel's own memory on the CPU device only. */
char *iso_handle_near(const struct segment *s, int pe)
{
    bool on_cpu = strcmp(ISO->device->info->flavour, "cpu") == 0;
    if (pe != ISO->my_pe && (ISO->env->force_proxy || virtual_node(pe) != virtual_node(ISO->my_pe)))
        return NULL;
    if (s->on_device)
        return s->peers[pe].gpu_ptr;
    if (!on_cpu || (pe != ISO->my_pe && s->kind == SEGMENT_BUFFER && has_staged_neighbour(s)))
        return NULL;
    return iso_segment_reach(s, pe);
}

static void add_handle_segment(struct device *d, const struct segment *s)
{
    struct handles *t = d->handles;
    size_t row = (size_t)s->number * (size_t)ISO->n_pes;
    struct isod_segment *to = &t->image->segments[s->number];
    if (s->base == NULL || s->limit == 0)
        return;
    to->base = s->base;
    to->len = s->kind == SEGMENT_DEVICE ? d->heap_bytes
              : s->kind == SEGMENT_HEAP ? s->len
                                        : s->limit; /* objects come and go */
    to->peers = t->peers_on_device + row;
    for (int pe = 0; pe < ISO->n_pes; pe++)
        t->peers[row + (size_t)pe] = iso_handle_near(s, pe);
    t->image->n_segments = ISO_MAX(t->image->n_segments, (uint32_t)s->number + 1);
}

/* Rows of segments that stay are written as they are: kernels of teams that have no part in a change may run. */
static void fill_segments(struct device *d)
{
    struct state *self = ISO;
    _Static_assert(ISOD_SEGMENTS == ISO_SEGMENTS_MAX, "a number for each segment");
    memset(d->handles->image->segments, 0, sizeof d->handles->image->segments);
    d->handles->image->n_segments = ISOD_SEGMENT_BUFFERS;
    for (int i = 0; i < self->n_segments; i++)
        add_handle_segment(d, &self->segments[i]);
}

static size_t peers_bytes(void) { return (size_t)ISOD_SEGMENTS * (size_t)ISO->n_pes * sizeof(char *); }

/* The counters of the image are the kernels': only what stands before and behind them is written. */
static void write_segments(struct device *d)
{
    struct handles *t = d->handles;
    size_t from = offsetof(struct isod_world, segments);
    iso_agent_copy(t->peers_on_device, t->peers, peers_bytes());
    iso_agent_copy((char *)t->world + from, (char *)t->image + from, sizeof *t->image - from);
    iso_agent_copy(&t->world->n_segments, &t->image->n_segments, sizeof t->image->n_segments);
}

void iso_handles_refresh(void)
{
    struct device *d = ISO->device;
    if (d == NULL || d->handles == NULL)
        return;
    fill_segments(d);
    write_segments(d);
}

static int make_world(struct device *d)
{
    struct handles *t = d->handles;
    void *world = NULL, *peers = NULL;
    t->image = (struct isod_world *)calloc(1, sizeof *t->image);
    t->peers = (char **)calloc(1, peers_bytes());
    if (t->image == NULL || t->peers == NULL)
        return -ENOMEM;
    int rc = iso_gpu_alloc(d->gpu, sizeof *t->world, &world);
    if (rc == 0)
        rc = iso_gpu_alloc(d->gpu, peers_bytes(), &peers);
    t->world = (struct isod_world *)world;
    t->peers_on_device = (char **)peers;
    if (rc != 0)
        return rc;
    t->image->my_pe = ISO->my_pe;
    t->image->n_pes = ISO->n_pes;
    t->image->deadline_ns = (uint64_t)(ISO->env->timeout * 1e9);
    t->image->trace_ns = ISO->profile != NULL && ISO->profile->traces ? TRACE_KERNEL_NS : 0;
    (void)iso_proxy_host(d, &t->image->host);
    t->image->rings = iso_proxy_rings(d, &t->image->n_rings);
    fill_segments(d);
    iso_agent_copy(t->world, t->image, sizeof *t->image);
    write_segments(d);
    return 0;
}

/* ---- one handle: sizes and memory ---- */

static uint32_t inbox_bytes_of(int n_pes) { return n_pes <= 8 ? 8192 : n_pes <= 32 ? 2048 : 512; }

/* The parts of handle->memory, in this order. */
struct layout {
    size_t world_of, heaps, memory, offsets, lane, grid, end;
};

static size_t after(size_t offset, size_t bytes) { return (offset + bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN; }

static struct layout lay_out(int n_pes, int lanes)
{
    struct layout l;
    size_t n = (size_t)n_pes;
    l.lane = sizeof(struct isod_team); /* ISOD_LANES */
    l.world_of = after(l.lane, (size_t)lanes * sizeof(struct isod_lane));
    l.heaps = after(l.world_of, n * sizeof(int32_t));
    l.memory = after(l.heaps, n * sizeof(char *));
    l.offsets = after(l.memory, n * sizeof(char *));
    l.grid = after(l.offsets, n * sizeof(uint64_t));
    l.end = after(l.grid, sizeof(struct isod_grid));
    return l;
}

static size_t slot_bytes(int n_pes, int lanes)
{
    size_t notes = ISO->debug ? (size_t)n_pes * ISO_HANDLE_NOTES * ISO_HANDLE_NOTE_BYTES : 0;
    return (size_t)isod_slot_bytes(n_pes, inbox_bytes_of(n_pes), lanes) + notes;
}

/* Everything that can fail, before the members hear of it. Takes as many lanes as fit, at most `lanes`. No handle gets
 * more than half of what is left, so that there is something for the next ones. -errno after a sentence. */
static int take_handle_memory(struct device *d, struct handle *h, int lanes, const char *call)
{
    int n = h->team->n_pes, fit = lanes;
    pthread_mutex_lock(&d->lock);
    size_t most = iso_alloc_stats(d->control).largest_free / 2;
    while (fit > 1 && slot_bytes(n, fit) > most)
        fit /= 2;
    while (fit > 0 && iso_alloc_get(d->control, SLOT_ALIGN, slot_bytes(n, fit), &h->offset) != 0)
        fit /= 2;
    if (fit > 0 && fit < lanes)
        log_info("slot %d has room for %d blocks that use collectives, not %d: slots use %zu of %zu bytes",
                 h->slot, fit, lanes, iso_alloc_stats(d->control).used, d->control_bytes);
    h->image.lanes = fit;
    pthread_mutex_unlock(&d->lock);
    if (fit == 0) {
        log_error("%s: no room for the slot memory of a team of %d: slots use %zu of %zu bytes; destroy teams, prepare "
                  "slots with fewer blocks (shmemx_slot_prepare) or raise SHMEM_DEVICE_HEAP_SIZE",
                  iso_call_name(call), n, iso_alloc_stats(d->control).used, d->control_bytes);
        return -ENOSPC;
    }
    h->bytes = lay_out(n, fit).end;
    int rc = iso_pool_get(d, &d->images, h->bytes, &h->memory, &h->memory);
    if (rc != 0) {
        log_error("%s: %zu bytes of device memory for a handle: %s", iso_call_name(call), h->bytes,
                  iso_gpu_error(d->gpu));
        return rc;
    }
    return 0;
}

/* ---- one handle: what the members tell each other ---- */

struct handle_member {
    uint64_t offset;
    uint64_t lanes; /* 0: it failed */
    uint64_t direct;
};

/* Lanes and direct: the smallest of all. -EIO: a member failed, and has said why. */
static int agree_on_handle(struct device *d, struct handle *h, const struct handle_member *members)
{
    uint64_t lanes = members[0].lanes, direct = 1;
    for (int i = 0; i < h->team->n_pes; i++) {
        lanes = ISO_MIN(lanes, members[i].lanes);
        direct &= members[i].direct;
    }
    if (lanes == 0)
        return -EIO;
    if ((int)lanes < h->image.lanes) {
        pthread_mutex_lock(&d->lock);
        (void)iso_alloc_resize(d->control, h->offset, slot_bytes(h->team->n_pes, (int)lanes)); /* smaller: succeeds */
        pthread_mutex_unlock(&d->lock);
    }
    h->image.lanes = (int32_t)lanes;
    h->image.direct = (int32_t)direct;
    return 0;
}

/* ---- one handle: its image ---- */

/* `members` NULL: no slot memory. */
static void fill_tables(struct handle *h, char *at, const struct handle_member *members)
{
    const struct segment *s = &ISO->segments[SEGMENT_INDEX_DEVICE];
    struct layout l = lay_out(h->team->n_pes, h->image.lanes);
    int32_t *world_of = (int32_t *)(void *)(at + l.world_of);
    char **heaps = (char **)(void *)(at + l.heaps), **memory = (char **)(void *)(at + l.memory);
    uint64_t *offsets = (uint64_t *)(void *)(at + l.offsets);
    for (int i = 0; i < h->team->n_pes; i++) {
        world_of[i] = h->team->world_of[i];
        heaps[i] = iso_handle_near(s, world_of[i]);
        if (members == NULL)
            continue;
        offsets[i] = members[i].offset;
        memory[i] = heaps[i] != NULL ? heaps[i] + offsets[i] : NULL;
    }
    /* Members whose heaps are equally spaced for our kernels are found by arithmetic, without a load. */
    int64_t stride = h->team->n_pes > 1 ? (int64_t)((uintptr_t)heaps[1] - (uintptr_t)heaps[0]) : 0;
    bool flat = true;
    for (int i = 0; i < h->team->n_pes; i++)
        flat &= heaps[i] != NULL && (uintptr_t)heaps[i] == (uintptr_t)heaps[0] + (uintptr_t)(stride * i);
    if (flat) {
        h->value.flat = heaps[0];
        h->value.flat_stride = stride;
    }
    struct isod_lane *lane = (struct isod_lane *)(void *)(at + l.lane);
    size_t bytes = (size_t)isod_lane_bytes(h->team->n_pes, h->image.inbox_bytes);
    for (int i = 0; i < h->image.lanes; i++) {
        lane[i].epoch = (uint64_t)ISO->env->device_epoch;
        for (int m = 0; m < ISO_MIN(h->team->n_pes, ISOD_NEAR); m++)
            lane[i].near[m] = memory[m] != NULL ? memory[m] + (size_t)i * bytes : NULL;
    }
}

/* Streams give up in any case: their calls are not of kernels that a program has written. */
static bool masks_deaths(const struct handle *h)
{
    return h->slot >= 0 && h->slot < ISO_SLOTS_OF_USERS && __atomic_load_n(&h->team->masks_deaths, __ATOMIC_RELAXED);
}

static void name_image(struct handle *h)
{
    h->image.team = iso_handle_team_number(h->team);
    h->image.deadline_ns = __atomic_load_n(&h->team->slot.timeout_ns, __ATOMIC_RELAXED);
    h->image.slot = iso_slot_of_users(h->slot);
    h->image.name = isod_name_of(h->image.team, h->image.slot);
}

static int write_image(struct device *d, struct handle *h, const struct handle_member *members)
{
    char *copy = (char *)calloc(1, h->bytes);
    if (copy == NULL)
        return -ENOMEM;
    struct layout l = lay_out(h->team->n_pes, h->image.lanes);
    char *at = h->memory;
    h->image.my_pe = h->team->my_pe;
    h->image.n_pes = h->team->n_pes;
    h->image.inbox_bytes = inbox_bytes_of(h->team->n_pes);
    h->image.world = d->handles->world;
    h->image.masks = masks_deaths(h);
    name_image(h);
    h->image.world_of = (int32_t *)(void *)(at + l.world_of);
    h->image.heaps = (char **)(void *)(at + l.heaps);
    h->image.memory = (char **)(void *)(at + l.memory);
    h->image.offsets = (uint64_t *)(void *)(at + l.offsets);
    h->image.grid = (struct isod_grid *)(void *)(at + l.grid);
    memcpy(copy, &h->image, sizeof h->image);
    fill_tables(h, copy, members);
    iso_agent_copy(h->memory, copy, h->bytes);
    free(copy);
    h->value.heap = ISO->segments[SEGMENT_INDEX_DEVICE].base;
    h->value.heap_bytes = d->heap_bytes;
    h->value.team = (struct isod_team *)(void *)h->memory;
    h->value.world = d->handles->world;
    h->value.my_pe = h->team->my_pe;
    h->value.n_pes = h->team->n_pes;
    h->value.lanes = (uint16_t)h->image.lanes;
    h->value.direct = (uint16_t)h->image.direct;
    h->value.inbox_bytes = h->image.inbox_bytes;
    return 0;
}

/* ---- open and close ---- */

static void destroy_handle(struct device *d, struct handle *h)
{
    if (h == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    if (h->image.lanes > 0)
        (void)iso_alloc_free(d->control, h->offset);
    pthread_mutex_unlock(&d->lock);
    iso_pool_put(d, &d->images, h->memory);
    free(h);
}

static void destroy_list(struct device *d, struct handle *list)
{
    while (list != NULL) {
        struct handle *next = list->next;
        destroy_handle(d, list);
        list = next;
    }
}

static void tell_kernels(const struct team *team);

static struct handle *create_handle(const struct team *team, int slot)
{
    struct handle *h = (struct handle *)calloc(1, sizeof *h);
    if (h != NULL) {
        h->team = team;
        h->slot = slot;
    }
    return h;
}

/* The one that there is; else `h` is added where it is not NULL. */
static struct handle *find_or_add_handle(struct device *d, const struct team *team, int slot, struct handle *h)
{
    struct handle **list = &d->handles->lists[(unsigned)(iso_handle_team_number(team) + 61 * slot) % HANDLE_LISTS];
    pthread_mutex_lock(&d->lock);
    struct handle *found = *list;
    while (found != NULL && (found->team != team || found->slot != slot))
        found = found->next;
    if (found == NULL && h != NULL) {
        h->next = *list;
        *list = found = h;
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}
static struct handle *find_handle(struct device *d, const struct team *team, int slot)
{
    return find_or_add_handle(d, team, slot, NULL);
}

/* Collective: everything that can fail comes before the exchange. */
static int open_handle(struct first_call *f, struct handle *h, int lanes, const char *call)
{
    struct device *d = ISO->device;
    struct team *team = &f->members;
    struct handle_member mine = {0, 0, 0}, *all = (struct handle_member *)calloc((size_t)team->n_pes, sizeof *all);
    if (all == NULL)
        return iso_refuse_alone(call, "no memory for a team of %d", team->n_pes);
    int rc = take_handle_memory(d, h, lanes, call);
    if (rc == 0) {
        mine.offset = h->offset;
        mine.lanes = (uint64_t)h->image.lanes;
        mine.direct = 1;
        for (int i = 0; i < team->n_pes; i++)
            mine.direct &= iso_handle_near(&ISO->segments[SEGMENT_INDEX_DEVICE], team->world_of[i]) != NULL;
    }
    int agreed = iso_agree_gather(team, &mine, sizeof mine, all, call);
    if (agreed == 0) {
        agreed = agree_on_handle(d, h, all);
        if (agreed != 0 && rc == 0)
            iso_log_elsewhere("%s: another member of the team failed and says why", iso_call_name(call));
    }
    if (agreed == 0 && write_image(d, h, all) != 0)
        agreed = iso_refuse_alone(call, "no memory for the image of a handle");
    free(all);
    return rc != 0 ? rc : agreed;
}

int iso_handle_make(struct first_call *f, int lanes, shmemd_t *handle, const char *call)
{
    struct device *d = ISO->device;
    struct handle *h = find_handle(d, f->team, f->number);
    /* A kernel of the program wants room beside it. Collectives on streams take all of the device while they last, and
     * large ones need it (allreduce of 256 MiB on H200s: 128 blocks take 0.92 of the time of 64). */
    int blocks = (int)ISO->env->device_blocks, most = f->number == ISO_SLOT_ON_STREAM ? 1 : blocks;
    if (f->number >= ISO_SLOT_STREAM_FIRST && d->info->multiprocessors >= 2 * blocks)
        most = 2 * blocks;
    if (h == NULL) {
        h = create_handle(f->team, f->number);
        if (h == NULL)
            return iso_refuse_alone(call, "no memory for a handle");
        int rc = open_handle(f, h, lanes > 0 ? ISO_MIN(lanes, most) : most, call);
        if (rc != 0) {
            if (iso_slot_is_broken(&f->team->slot))
                h->image.lanes = 0; /* kernels of other members may know its slot memory, which stays */
            destroy_handle(d, h);
            return rc;
        }
        (void)find_or_add_handle(d, f->team, f->number, h);
        tell_kernels(f->team); /* what has changed since name_image */
    }
    *handle = h->value;
    return 0;
}

int iso_handle_open(struct team *team, int slot, shmemd_t *handle, const char *call)
{
    struct first_call first;
    const struct handle *h = find_handle(ISO->device, team, slot);
    if (h != NULL) {
        *handle = h->value;
        return 0;
    }
    int rc = iso_first_call_begin(&first, team, slot, call);
    if (rc != 0)
        return rc;
    rc = iso_handle_make(&first, 0, handle, call);
    iso_first_call_end(&first);
    return rc;
}

bool iso_handle_is_open(struct team *team, int slot) { return find_handle(ISO->device, team, slot) != NULL; }

size_t iso_handle_slot_bytes(const struct team *team)
{
    struct device *d = ISO->device;
    size_t bytes = 0;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (const struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            bytes += h->team == team && h->image.lanes > 0 ? slot_bytes(team->n_pes, h->image.lanes) : 0;
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

shmemd_t iso_handle_local(void) { return ISO->device->handles->local->value; }

bool iso_handle_of_member(const struct team *team, shmemx_stream_t stream, shmemd_t *handle)
{
    struct device *d = ISO->device;
    struct handle *h = find_handle(d, team, ISO_SLOT_OF_MEMBER);
    if (h == NULL) {
        if (d->captures != 0 || iso_gpu_stream_is_capturing(d->gpu, stream))
            return false;
        h = create_handle(team, ISO_SLOT_OF_MEMBER);
        if (h == NULL || iso_pool_get(d, &d->images, sizeof h->image, &h->memory, &h->memory) != 0) {
            free(h);
            return false;
        }
        h->image = d->handles->local->image;
        name_image(h);
        iso_agent_copy(h->memory, &h->image, sizeof h->image);
        h->value = d->handles->local->value;
        h->value.team = (struct isod_team *)(void *)h->memory;
        struct handle *first = find_or_add_handle(d, team, ISO_SLOT_OF_MEMBER, h);
        if (first != h) /* by another thread, meanwhile */
            destroy_handle(d, h);
        h = first;
        tell_kernels(team); /* what has changed since name_image */
    }
    *handle = h->value;
    return true;
}

void iso_handle_note_lanes(const struct team *team, int slot, unsigned lanes)
{
    struct handle *h = find_handle(ISO->device, team, slot);
    if (h != NULL)
        h->written = ISO_MAX(h->written, (int)lanes);
}

/* ---- the end of a team ---- */

/* Both acquire, in this order: the host stores the second word before it takes the first one (look_at_records), and
 * kernels both behind a status. */
static bool any_gave_up(const struct isod_host *host)
{
    bool unreached = __atomic_load_n(&host->unreached, __ATOMIC_ACQUIRE) != 0;
    return __atomic_load_n(&host->gave_up, __ATOMIC_ACQUIRE) != 0 || unreached;
}

static bool has_given_up(const struct handle *h)
{
    return iso_agent_load(&h->value.team->status, sizeof h->value.team->status) != 0;
}

/* The number of handles of the team with slot memory; *gave_up: kernels of one of them have given up. */
static int count_handles(struct device *d, const struct team *team, bool *gave_up)
{
    struct isod_host *for_kernels, *host = iso_proxy_host(d, &for_kernels);
    bool any = any_gave_up(host);
    int n = 0;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (const struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            if (h->team == team && h->image.lanes > 0) {
                *gave_up = *gave_up || (any && has_given_up(h));
                n++;
            }
    pthread_mutex_unlock(&d->lock);
    return n;
}

/* ---- broken teams ---- */

/* Waits of the team's kernels end, and later calls do nothing. device->lock is held. */
static void end_handle(struct handle *h)
{
    if (h->ended)
        return;
    iso_handle_give_up(h->value);
    iso_agent_store(&h->value.team->ended, 1, sizeof h->value.team->ended);
    h->ended = true;
}

void iso_handles_end_broken(struct device *d)
{
    pthread_mutex_lock(&d->lock);
    for (int i = 0; d->handles != NULL && i < HANDLE_LISTS; i++)
        for (struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            if (iso_slot_is_broken(&h->team->slot))
                end_handle(h);
    pthread_mutex_unlock(&d->lock);
}

/* NULL: none that the program does not know of. device->lock is held. */
static const struct handle *first_dead(struct device *d)
{
    if (has_given_up(d->handles->local))
        return d->handles->local;
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (const struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            if (!h->end_told && has_given_up(h))
                return h;
    return NULL;
}

/* When a handle is good again, or the program knows of its end. The word is cleared first: a kernel of another handle
 * that gives up meanwhile sets its status before the word. So either the look finds its status, or the word is 1. */
static void forget_give_up(struct device *d)
{
    struct isod_host *for_kernels, *host = iso_proxy_host(d, &for_kernels);
    if (__atomic_exchange_n(&host->gave_up, 0, __ATOMIC_ACQ_REL) == 0) /* pairs with isod_handle_give_up */
        return;
    pthread_mutex_lock(&d->lock);
    if (first_dead(d) != NULL)
        __atomic_store_n(&host->gave_up, 1, __ATOMIC_RELEASE); /* pairs with iso_handles_gave_up */
    pthread_mutex_unlock(&d->lock);
}

/* The program knows of the end: synchronising a stream does not fail by it any more. */
static void note_end(struct device *d, const struct team *team)
{
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            if (h->team == team) {
                end_handle(h);
                h->end_told = true;
            }
    pthread_mutex_unlock(&d->lock);
    forget_give_up(d);
}

_Static_assert(ISOD_DEADLINE_NEVER == ISO_TIMEOUT_NEVER, "kernels name it as teams do");

static bool team_has_handles(const struct team *team)
{
    struct device *d = ISO->device;
    bool gave_up;
    return d != NULL && d->handles != NULL &&
           (count_handles(d, team, &gave_up) > 0 || find_handle(d, team, ISO_SLOT_OF_MEMBER) != NULL);
}

/* Whether this PE's streams may have calls that a member makes alone: only some members may. */
static bool has_calls_alone(struct device *d, const struct team *team)
{
    return ISO->coll->streams.has_pairs(team) || find_handle(d, team, ISO_SLOT_OF_MEMBER) != NULL;
}

/* Members have done equal numbers of epochs, unless kernels of a member gave up. Then other members may have written
 * lanes that this PE has never used. */
static void finish_team(struct team *team, const char *call)
{
    struct device *d = ISO->device;
    bool gave_up = false;
    if (d == NULL || d->handles == NULL)
        return;
    if (iso_slot_is_broken(&team->slot)) {
        note_end(d, team);
        return;
    }
    int handles = count_handles(d, team, &gave_up);
    if (handles == 0 && !has_calls_alone(d, team))
        return;
    if (d->captures != 0)
        iso_fatal(call, "a stream is being captured; call shmemx_graph_end before");
    if (iso_device_is_suspended(d))
        iso_fatal(call, "device memory is lent back; call shmemx_resume before, on all PEs");
    if (iso_device_finish_streams(call) != 0)
        iso_fatal(call, "kernels may still use the team's memory");
    iso_drain_rings(call); /* flags among them, whose slot memory other teams get */
    if (handles == 0) /* on all members */
        return;
    (void)count_handles(d, team, &gave_up);
    if (iso_agree_min(team, !gave_up, call) != 0)
        return;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            h->spoiled = h->spoiled || h->team == team;
    pthread_mutex_unlock(&d->lock);
}

/* Zeroes what was written of slot memory: the lanes up to the last that has an epoch behind it, and the words behind
 * the lanes. No member's kernels run. */
static void clear_slot_memory(const struct handle *h)
{
    int n = h->team->n_pes, used = h->spoiled ? h->image.lanes : h->written;
    size_t bytes = (size_t)h->image.lanes * sizeof(struct isod_lane);
    size_t lane = (size_t)isod_lane_bytes(n, h->image.inbox_bytes), words = lane * (size_t)h->image.lanes;
    char *memory = ISO->segments[SEGMENT_INDEX_DEVICE].base + h->offset;
    struct isod_lane *lanes = used < h->image.lanes ? (struct isod_lane *)malloc(bytes) : NULL;
    if (lanes != NULL)
        iso_agent_copy(lanes, ISOD_LANES(h->value.team), bytes);
    for (int i = used; i < h->image.lanes; i++)
        if (lanes == NULL || lanes[i].epoch != (uint64_t)ISO->env->device_epoch || lanes[i].users != 0)
            used = i + 1;
    free(lanes);
    iso_agent_fill(memory, 0, lane * (size_t)used);
    iso_agent_fill(memory + words, 0, slot_bytes(n, h->image.lanes) - words);
}

static void tell_kernels(const struct team *team)
{
    struct device *d = ISO->device;
    uint64_t own = __atomic_load_n(&team->slot.timeout_ns, __ATOMIC_RELAXED);
    if (d == NULL || d->handles == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (struct handle *h = d->handles->lists[i]; h != NULL; h = h->next)
            if (h->team == team) {
                h->image.deadline_ns = own;
                h->image.masks = masks_deaths(h);
                iso_agent_store(&h->value.team->deadline_ns, own, sizeof own);
                iso_agent_store(&h->value.team->masks, h->image.masks, sizeof h->image.masks);
                if (iso_slot_is_broken(&team->slot))
                    end_handle(h);
            }
    pthread_mutex_unlock(&d->lock);
}

static void forget_team(struct team *team)
{
    struct device *d = ISO->device;
    struct handle *gone = NULL;
    if (d == NULL || d->handles == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        for (struct handle **at = &d->handles->lists[i]; *at != NULL;) {
            struct handle *h = *at;
            if (h->team == team) {
                *at = h->next;
                h->next = gone;
                gone = h;
            } else {
                at = &h->next;
            }
        }
    pthread_mutex_unlock(&d->lock);
    if (gone == NULL)
        return;
    for (const struct handle *h = gone; h != NULL; h = h->next)
        if (h->image.lanes > 0)
            clear_slot_memory(h);
    destroy_list(d, gone);
    iso_proxy_forget_team(d, iso_handle_team_number(team));
}

/* ---- start and stop ---- */

int iso_handles_start(struct device *device)
{
    struct handles *t = (struct handles *)calloc(1, sizeof *t);
    if (t == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&device->lock); /* the proxy looks already */
    device->handles = t;
    pthread_mutex_unlock(&device->lock);
    ISO->above.finish_team = finish_team;
    ISO->above.team_has_handles = team_has_handles;
    ISO->above.forget_team = forget_team;
    ISO->above.tell_kernels = tell_kernels;
    int rc = make_world(device);
    struct handle *local = device->handles->local = create_handle(ISO->world, -1);
    if (rc == 0 && local == NULL)
        rc = -ENOMEM;
    if (rc == 0) {
        local->bytes = lay_out(ISO->n_pes, 0).end;
        rc = iso_pool_get(device, &device->images, local->bytes, &local->memory, &local->memory);
    }
    if (rc == 0)
        rc = write_image(device, local, NULL);
#define PRELOAD(name) \
    if (rc == 0)      \
        rc = iso_gpu_preload(device->gpu, name);
    ISOD_STREAM_KERNELS(PRELOAD) /* so that no first launch has to load code while another kernel waits */
#undef PRELOAD
    if (rc != 0) {
        log_error("the tables of kernels cannot be made: %s", rc == -ENOMEM ? "no memory" : iso_gpu_error(device->gpu));
        iso_handles_stop(device);
    }
    return rc;
}

void iso_handles_stop(struct device *device)
{
    struct handles *t = device->handles;
    if (t == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    device->handles = NULL;
    pthread_mutex_unlock(&device->lock);
    for (int i = 0; i < HANDLE_LISTS; i++)
        destroy_list(device, t->lists[i]);
    destroy_handle(device, t->local);
    iso_gpu_free(device->gpu, t->peers_on_device);
    iso_gpu_free(device->gpu, t->world);
    free(t->peers);
    free(t->image);
    free(t);
}

/* ---- public ---- */

SHMEM_API(shmemx_slots, pshmemx_slots);
int pshmemx_slots(void) { return ISO_SLOTS_OF_USERS; }

bool iso_handle_slot_is_valid(const char *call, int slot)
{
    if (slot >= 0 && slot < ISO_SLOTS_OF_USERS)
        return true;
    log_error("%s: slot is %d; allowed: 0..%d", iso_call_name(call), slot, ISO_SLOTS_OF_USERS - 1);
    return false;
}

/* ---- handles that have given up ---- */

void iso_handle_give_up(shmemd_t handle)
{
    struct isod_host *for_kernels, *host = iso_proxy_host(ISO->device, &for_kernels);
    iso_agent_store(&handle.team->status, 1, sizeof handle.team->status);
    __atomic_store_n(&host->gave_up, 1, __ATOMIC_RELEASE); /* pairs with iso_handles_gave_up */
}

bool iso_handles_gave_up(struct device *d, const char *call)
{
    struct isod_host *for_kernels, *host = iso_proxy_host(d, &for_kernels);
    char what[96] = "a put, get, signal, wait, quiet, send or receive on a stream";
    if (ISO_LIKELY(!any_gave_up(host)))
        return false;
    pthread_mutex_lock(&d->lock);
    const struct handle *h = first_dead(d);
    if (h != NULL && h->slot == ISO_SLOT_ON_STREAM)
        snprintf(what, sizeof what, "a barrier or sync on a stream of team %d", (int)h->image.team);
    else if (h != NULL && h->slot == ISO_SLOT_OF_MEMBER)
        snprintf(what, sizeof what, "a put, get, signal, wait, send or receive on a stream of team %d",
                 (int)h->image.team);
    else if (h != NULL && h->slot >= 0)
        snprintf(what, sizeof what, "a call of slot %d of team %d", (int)h->image.slot, (int)h->image.team);
    bool ended = h != NULL && h != d->handles->local && (h->ended || iso_slot_is_broken(&h->team->slot));
    if (ended)
        (void)iso_slot_refuse(&h->team->slot, call);
    pthread_mutex_unlock(&d->lock);
    if (h != NULL && !ended)
        log_error("%s: %s gave up or was misused (shmemx_device_error says how), so its results are not there; this is "
                  "repeated until shmemx_device_reset",
                  iso_call_name(call), what);
    return h != NULL;
}

/* "shmemd_barrier gave up waiting for pe 2 after 0.3 s (slot 0 of team 1); the job is broken: pe 2 died": kept as this
 * thread's last error, not printed: the proxy has done that. */
static void keep_status(const char *call, int team, int slot, const shmemx_device_error_t *e)
{
    char why[320] = "";
    if (iso_job_is_broken())
        snprintf(why, sizeof why, "; the job is broken: %s", ISO->broken.cause.why);
    if (e->call[0] == '\0')
        iso_log_elsewhere("%s: a call of slot %d of team %d gave up%s", iso_call_name(call), slot, team, why);
    else if (e->gave_up == 2)
        iso_log_elsewhere("%s: %s was misused (slot %d of team %d)%s", iso_call_name(call), e->call, slot, team, why);
    else
        iso_log_elsewhere("%s: %s gave up waiting for pe %d after %.1f s (slot %d of team %d)%s", iso_call_name(call),
                          e->call, e->pe, e->waited_seconds, slot, team, why);
}

SHMEM_API(shmemx_status, pshmemx_status);
int pshmemx_status(shmem_team_t team_handle, int slot, shmemx_device_error_t *error)
{
    struct device *d = ISO->device;
    shmemx_device_error_t first = {.pe = -1, .team_slot = slot, .broken_by = iso_job_broken_by()};
    if (error != NULL)
        *error = first;
    if (ISO->life != LIFE_RUNNING)
        return iso_refuse_entry(__func__);
    const struct team *team = iso_team_or_null(team_handle);
    if (team == NULL)
        return iso_refuse(__func__, "team %p is not a team of this PE", (void *)team_handle);
    if (!iso_handle_slot_is_valid(__func__, slot))
        return -EINVAL;
    if (iso_slot_is_broken(&team->slot)) {
        if (d != NULL && d->running)
            note_end(d, team);
        (void)iso_slot_rc(&team->slot, __func__);
        return 1;
    }
    if (d == NULL || !d->running) { /* no proxy looks at the other PEs */
        iso_wait_poll_peers(NULL);
        first.broken_by = iso_job_broken_by();
        if (error != NULL)
            *error = first;
    }
    (void)iso_job_rc(__func__); /* the reason becomes the text of the last error */
    if (d == NULL || !d->running)
        return 0;
    int number = iso_handle_team_number(team);
    const struct handle *handles[] = {find_handle(d, team, slot), find_handle(d, team, ISO_SLOT_STREAM_FIRST + slot),
                                      find_handle(d, team, ISO_SLOT_ON_STREAM), find_handle(d, team, ISO_SLOT_OF_MEMBER),
                                      d->handles->local};
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        if (handles[i] == NULL || !has_given_up(handles[i]))
            continue;
        first.gave_up = 1;
        if (!iso_proxy_first_error(d, number, handles[i]->image.slot, &first))
            (void)iso_proxy_first_error(d, number, -1, &first);
        keep_status(__func__, number, slot, &first);
        if (error != NULL)
            *error = first;
        return 1;
    }
    return 0;
}

/* ---- reset ---- */

static int renew(struct handle *h, struct team *team, const char *call)
{
    size_t bytes = (size_t)h->image.lanes * sizeof(struct isod_lane);
    struct isod_lane *lanes = (struct isod_lane *)calloc(1, bytes);
    if (lanes == NULL)
        return iso_refuse_alone(call, "no memory for %d lanes", (int)h->image.lanes);
    struct isod_lane *on_device = ISOD_LANES(h->value.team);
    iso_agent_copy(lanes, on_device, bytes);
    uint64_t largest = 0; /* that any lane of any member has reached: no flag or packet carries a larger one */
    for (int i = 0; i < h->image.lanes; i++)
        largest = ISO_MAX(largest, lanes[i].epoch);
    uint64_t epoch = ~iso_agree_min(team, ~largest, call) + RESET_MARGIN;
    for (int i = 0; i < h->image.lanes; i++) {
        lanes[i].epoch = epoch;
        lanes[i].staged = lanes[i].dead = lanes[i].users = 0;
    }
    iso_agent_copy(on_device, lanes, bytes);
    iso_agent_fill(h->image.grid, 0, sizeof *h->image.grid);
    iso_agent_fill(ISO->segments[SEGMENT_INDEX_DEVICE].base + h->offset, 0, slot_bytes(team->n_pes, h->image.lanes));
    iso_agent_fill(&h->value.team->status, 0, sizeof h->value.team->status);
    free(lanes);
    return iso_job_rc(call);
}

/* All members deliver what their kernels have posted before any of them clears its slot memory. No call begins before
 * all members have cleared theirs. */
SHMEM_API(shmemx_device_reset, pshmemx_device_reset);
int pshmemx_device_reset(shmem_team_t team_handle, int slot)
{
    struct device *d = iso_device_running(__func__);
    struct team *team = d != NULL ? iso_team_or_null(team_handle) : NULL;
    if (team == NULL && d != NULL)
        (void)iso_refuse(__func__, "team %p is not a team of this PE", (void *)team_handle);
    if (team == NULL || !iso_handle_slot_is_valid(__func__, slot))
        return 1;
    /* Each of them is there on all members, or on none: they were made collectively. */
    struct handle *handles[] = {find_handle(d, team, slot), find_handle(d, team, ISO_SLOT_STREAM_FIRST + slot),
                                find_handle(d, team, ISO_SLOT_ON_STREAM)};
    if (handles[0] == NULL && handles[1] == NULL && handles[2] == NULL &&
        iso_agree_min(team, !has_calls_alone(d, team), __func__) != 0) {
        log_error("shmemx_device_reset: slot %d of this team has no handle, and no call on a stream used it or was a "
                  "call of this team without a slot",
                  slot);
        return 1;
    }
    iso_drain_rings(__func__);
    int rc = iso_barrier_sync(team, __func__);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0] && rc == 0; i++)
        if (handles[i] != NULL)
            rc = renew(handles[i], team, __func__);
    if (rc != 0)
        return 1;
    struct handle *alone[] = {d->handles->local, find_handle(d, team, ISO_SLOT_OF_MEMBER)};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
        if (alone[i] != NULL)
            iso_agent_fill(&alone[i]->value.team->status, 0, sizeof alone[i]->value.team->status);
    ISO->coll->streams.reset(team, slot);
    forget_give_up(d);
    iso_proxy_resume(d, iso_handle_team_number(team), slot);
    return iso_barrier_sync(team, __func__) == 0 ? 0 : 1;
}
