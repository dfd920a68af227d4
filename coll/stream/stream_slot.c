/* SPDX-License-Identifier: MIT */
/* The slots of collectives on streams: per (team, slot) the handle, the streams of engines, and what the members have
 * agreed on: how many blocks may wait at once, and by which table they choose; and what becomes of slots and pairs when
 * a stream, a team or the device ends. Invariant: a slot is in the list iff all members have one, with equal limits and
 * equal rows.
 * Called by coll_stream.c and by shmem/ (struct collectives). */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "../../shmem/collectives.h"
#include "../../shmem/node/wait.h"
#include "../../shmem/team/slot.h"
#include "coll_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct stream_slot **slot_list_of(struct streams *s, const struct team *team, int number)
{
    return &s->lists[(unsigned)(iso_handle_team_number(team) + 61 * number) % SLOT_LISTS];
}

static const char call[] = "shmemx_coll_on_stream";

/* ---- one slot: what is this PE's own ---- */

static void destroy(struct device *d, struct stream_slot *slot)
{
    if (slot == NULL)
        return;
    while (slot->engines.n > 0)
        iso_gpu_stream_destroy(d->gpu, slot->engines.streams[--slot->engines.n]);
    iso_stage_drop(&slot->stage);
    iso_words_close(slot->words);
    iso_notes_close(slot->notes);
    iso_gpu_free(d->gpu, slot->nodes);
    iso_gpu_free(d->gpu, slot->list);
    free(slot->memory);
    free(slot);
}

static struct stream_slot *create_stream_slot(struct device *d, const struct team *team, int number, shmemd_t handle)
{
    struct isod_team image;
    size_t bytes = (size_t)handle.n_pes * sizeof(char *);
    struct stream_slot *slot = (struct stream_slot *)calloc(1, sizeof *slot);
    char **memory = (char **)malloc(bytes);
    if (slot == NULL || memory == NULL) {
        log_error("%s: no memory", call);
        free(memory);
        free(slot);
        return NULL;
    }
    slot->last[0] = slot->last[1] = ISO_STREAM_NONE;
    slot->memory = memory;
    if (iso_gpu_alloc(d->gpu, ISO_MAX((size_t)STREAM_LIST_WORDS, 4 * (size_t)handle.n_pes + 1) * 8, &slot->list) != 0) {
        log_error("%s: no device memory for a list of blocks", call);
        destroy(d, slot);
        return NULL;
    }
    slot->team = team;
    slot->number = number;
    slot->handle = handle;

    /* The members' addresses are in the image of the handle alone. */
    iso_agent_copy(&image, handle.team, sizeof image);
    iso_agent_copy(memory, image.memory, bytes);

    if (handle.direct != 0 && iso_gpu_has_words(d->gpu, NULL))
        slot->words = iso_words_open(d, team, number, handle, memory);
    if (ISO_UNLIKELY(ISO->debug))
        slot->notes = iso_notes_open(team, number, handle);
    return slot;
}

/* ---- one slot: what the members tell each other ---- */

struct slot_member {
    uint64_t blocks; /* 0: it failed */
    uint64_t threads;
    uint64_t table;
    uint32_t nodes; /* 1: it reaches just the members that have found the same node */
    uint32_t notes; /* 1: it leaves notes */
    uint64_t ll128; /* enum stream_ll128 */
    uint64_t clock; /* of the first: the number of a probe */
    uint64_t words; /* 1: its streams wait without a kernel */
};

/* Equal on all members afterwards: blocks and threads, the smallest of all; the table, if theirs are the same; nodes,
 * if all have found the same ones. -EIO: a member failed, and has said why. */
static int agree(struct device *d, const struct streams *s, struct stream_slot *slot, const struct slot_member *members)
{
    struct slot_member least = members[0];
    bool same = true, nodes = members[0].nodes != 0, notes = members[0].notes != 0;
    for (int i = 1; i < slot->handle.n_pes; i++) {
        least.blocks = ISO_MIN(least.blocks, members[i].blocks);
        least.threads = ISO_MIN(least.threads, members[i].threads);
        same = same && members[i].table == least.table;
        nodes = nodes && members[i].nodes != 0;
        notes = notes && members[i].notes != 0;
        least.words = ISO_MIN(least.words, members[i].words);
        least.ll128 = ISO_MIN(least.ll128, members[i].ll128); /* unknown is more than torn: then a probe decides */
    }
    if (least.blocks == 0)
        return -EIO;
    slot->ll128 = (enum stream_ll128)least.ll128;
    slot->most_blocks = (unsigned)ISO_MIN(least.blocks, (uint64_t)slot->handle.lanes);
    slot->most_threads = (unsigned)least.threads;
    slot->table = same ? s->table : s->common;
    if (!nodes) {
        iso_gpu_free(d->gpu, slot->nodes);
        slot->nodes = NULL;
    }
    if (!notes) {
        iso_notes_close(slot->notes);
        slot->notes = NULL;
    }
    if (least.words == 0) {
        iso_words_close(slot->words);
        slot->words = NULL;
    }
    if (!same && slot->handle.my_pe == 0)
        log_warn("%s: the members of this team have different tables of algorithms (devices or SHMEM_COLL_TABLE "
                 "differ); they take the built-in one for any device",
                 call);
    return 0;
}

/* All members get a slot, or none does. */
static struct stream_slot *make_with(struct device *d, struct first_call *f, int number, int lanes)
{
    struct team *members = &f->members;
    struct slot_member mine = {0, 0, 0, 0, 0, STREAM_LL128_TORN, 0, 0},
                       *all = (struct slot_member *)calloc((size_t)members->n_pes, sizeof *all);
    shmemd_t handle;
    if (all == NULL) {
        (void)iso_refuse_alone(call, "no memory for a team of %d", members->n_pes);
        return NULL;
    }
    if (iso_handle_make(f, lanes, &handle, call) != 0) {
        free(all);
        return NULL;
    }
    struct streams *s = iso_streams_need(d);
    struct stream_slot *slot = s != NULL ? create_stream_slot(d, f->team, number, handle) : NULL;
    if (slot != NULL) {
        mine.blocks = s->most_blocks;
        mine.threads = s->most_threads;
        mine.table = iso_select_sum(s->table);
        mine.ll128 = iso_stream_probe_ask(d, f->team, handle.direct != 0);
        mine.clock = iso_clock_now_ns();
        mine.words = slot->words != NULL;
        mine.notes = slot->notes != NULL;
    }
    if (iso_hier_share(d, members, slot, &mine.nodes) != 0)
        mine.blocks = 0;
    int rc = iso_agree_gather(members, &mine, sizeof mine, all, call);
    if (slot != NULL && rc != 0) {
        destroy(d, slot);
        slot = NULL;
    }
    if (slot != NULL && agree(d, s, slot, all) != 0) {
        iso_log_elsewhere("%s: another member of the team failed and says why", call);
        destroy(d, slot);
        slot = NULL;
    }
    if (slot != NULL && slot->ll128 == STREAM_LL128_UNKNOWN) {
        iso_handle_note_lanes(f->team, f->number, slot->most_blocks);
        slot->ll128 = iso_stream_probe_run(d, members, handle, slot->most_blocks, all[0].clock);
    }
    free(all);
    if (slot == NULL)
        return NULL;
    struct stream_slot **list = slot_list_of(s, f->team, number);
    pthread_mutex_lock(&d->lock);
    slot->next = *list;
    *list = slot;
    pthread_mutex_unlock(&d->lock);
    return slot;
}

/* Collective over the team. */
static struct stream_slot *make(struct device *d, struct team *team, int number, int lanes)
{
    struct first_call first;
    if (iso_first_call_begin(&first, team, ISO_SLOT_STREAM_FIRST + number, call) != 0)
        return NULL;
    struct stream_slot *slot = make_with(d, &first, number, lanes);
    iso_first_call_end(&first);
    return slot;
}

/* ---- find and need ---- */

struct stream_slot *iso_stream_slot_find(const struct stream_call *c)
{
    struct device *d = c->device;
    struct streams *s = iso_streams_of(d);
    if (s == NULL)
        return NULL;
    pthread_mutex_lock(&d->lock);
    struct stream_slot *slot = *slot_list_of(s, c->call.team, c->call.coll->slot);
    while (slot != NULL && (slot->team != c->call.team || slot->number != c->call.coll->slot))
        slot = slot->next;
    pthread_mutex_unlock(&d->lock);
    return slot;
}

struct stream_slot *iso_stream_slot_need(const struct stream_call *c)
{
    struct stream_slot *slot = iso_stream_slot_find(c);
    if (slot != NULL)
        return slot;
    if (c->device->captures == 0 && !iso_gpu_stream_is_capturing(c->device->gpu, c->stream))
        return make(c->device, c->call.team, c->call.coll->slot, 0);
    log_error("%s, %s: the first call of a (team, slot) makes what it needs, which a capture does not allow; make one "
              "call of slot %d of this team before",
              call, c->call.name, c->call.coll->slot);
    return NULL;
}

int iso_stream_slot_order(const struct stream_call *c)
{
    int rc = iso_stream_order(c->device, c->slot->last, c->stream);
    if (rc != 0)
        log_error("%s, %s: the stream cannot wait for that of the last call of slot %d: %s", call, c->call.name,
                  c->slot->number, iso_gpu_error(c->device->gpu));
    return rc;
}

SHMEM_API(shmemx_slot_prepare, pshmemx_slot_prepare);
int pshmemx_slot_prepare(shmem_team_t team, int slot, int max_blocks)
{
    shmemx_coll_t coll = {.slot = slot};
    struct stream_call c = {.call = {.coll = &coll, .team = iso_team_or_null(team)},
                            .device = iso_device_running(__func__)};
    if (c.device == NULL)
        return 1;
    if (c.call.team == NULL || slot < 0 || slot >= ISO_SLOTS_OF_USERS || max_blocks < 0) {
        if (c.call.team == NULL)
            log_error("shmemx_slot_prepare: team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)");
        else if (max_blocks < 0)
            log_error("shmemx_slot_prepare: max_blocks is %d; it must be 0 or more", max_blocks);
        else
            log_error("shmemx_slot_prepare: slot is %d; allowed: 0..%d", slot, ISO_SLOTS_OF_USERS - 1);
        return 1;
    }
    if (c.device->captures != 0) {
        log_error("shmemx_slot_prepare: a stream is being captured; prepare slots before");
        return 1;
    }
    return iso_stream_slot_find(&c) != NULL || make(c.device, c.call.team, slot, max_blocks) != NULL ? 0 : 1;
}

/* ---- all slots ---- */

void iso_coll_streams_watch(const uint64_t *abort)
{
    struct device *d = ISO->device;
    iso_handles_end_broken(d);
    pthread_mutex_lock(&d->lock); /* d->streams is changed under it, by other threads, and the abort word cleared */
    bool stop = __atomic_load_n(abort, __ATOMIC_RELAXED) != 0; /* as kernels look at it */
    struct streams *s = iso_streams_of(d);
    for (struct stream_slot *slot = s != NULL ? s->watched : NULL; slot != NULL; slot = slot->next_watched)
        iso_words_watch(slot->words, stop || iso_slot_is_broken(&slot->team->slot),
                        iso_report_timeout_ns(&slot->team->slot));
    pthread_mutex_unlock(&d->lock);
}

void iso_coll_streams_reset(const struct team *team, int number)
{
    struct device *d = ISO->device;
    struct streams *s = d != NULL ? iso_streams_of(d) : NULL;
    if (s == NULL)
        return;
    iso_pairs_reset(d, team);
    pthread_mutex_lock(&d->lock);
    for (struct stream_slot *slot = *slot_list_of(s, team, number); slot != NULL; slot = slot->next)
        if (slot->team == team && slot->number == number) {
            if (slot->words != NULL)
                iso_words_reset(slot->words);
            if (slot->notes != NULL)
                iso_notes_reset(slot->notes);
        }
    pthread_mutex_unlock(&d->lock);
}

/* ---- the end ---- */

/* Of a slot whose last call is in this stream: later calls in other streams wait for `ends` instead. */
void iso_coll_streams_forget_stream(gpu_stream stream)
{
    struct device *d = ISO->device;
    struct streams *s = d != NULL ? iso_streams_of(d) : NULL;
    bool used = false, kept = false;
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->order);
    pthread_mutex_lock(&d->lock); /* the lists */
    for (int i = 0; i < SLOT_LISTS; i++)
        for (struct stream_slot *slot = s->lists[i]; slot != NULL; slot = slot->next)
            used = iso_stream_forget_capture(slot->last, stream) || used;
    used = iso_pairs_forget_capture(d, stream) || used;
    pthread_mutex_unlock(&d->lock);
    if (used) {
        if (s->ends == NULL && iso_gpu_stream_create(d->gpu, false, &s->ends) != 0)
            s->ends = NULL;
        kept = s->ends != NULL && iso_gpu_stream_after(d->gpu, s->ends, stream) == 0;
        if (!kept)
            (void)iso_gpu_stream_wait(d->gpu, stream);
    }
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < SLOT_LISTS && used; i++)
        for (struct stream_slot *slot = s->lists[i]; slot != NULL; slot = slot->next)
            iso_stream_move(slot->last, stream, kept ? s->ends : ISO_STREAM_NONE);
    if (used)
        iso_pairs_move_stream(d, stream, kept ? s->ends : ISO_STREAM_NONE);
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&s->order);
}

void iso_coll_streams_memory(const struct team *team, size_t *stages, size_t *pairs)
{
    struct device *d = ISO->device;
    const struct streams *s = iso_streams_of(d);
    *stages = 0;
    *pairs = iso_pairs_bytes(d, team);
    pthread_mutex_lock(&d->lock);
    for (int i = 0; s != NULL && i < SLOT_LISTS; i++)
        for (const struct stream_slot *slot = s->lists[i]; slot != NULL; slot = slot->next)
            if (slot->team == team && slot->stage.range != NULL)
                *stages += slot->stage.range->bytes;
    pthread_mutex_unlock(&d->lock);
}

/* NULL: slots of all teams. */
void iso_coll_streams_forget_team(const struct team *team)
{
    struct device *d = ISO->device;
    struct streams *s = d != NULL ? iso_streams_of(d) : NULL;
    struct stream_slot *gone = NULL;
    if (d != NULL && team != NULL)
        iso_stream_ranges_forget(d, team);
    if (d != NULL)
        iso_pairs_forget_team(d, team); /* others may have written to this PE, which has called nothing */
    if (s == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    for (struct stream_slot **at = &s->watched; *at != NULL;)
        if (team == NULL || (*at)->team == team)
            *at = (*at)->next_watched;
        else
            at = &(*at)->next_watched;
    for (int i = 0; i < SLOT_LISTS; i++)
        for (struct stream_slot **at = &s->lists[i]; *at != NULL;) {
            struct stream_slot *slot = *at;
            if (team == NULL || slot->team == team) {
                *at = slot->next;
                slot->next = gone;
                gone = slot;
            } else {
                at = &slot->next;
            }
        }
    pthread_mutex_unlock(&d->lock);

    while (gone != NULL) {
        struct stream_slot *next = gone->next;
        destroy(d, gone);
        gone = next;
    }
}

void iso_coll_streams_forget(void)
{
    struct device *d = ISO->device;
    if (d == NULL || iso_streams_of(d) == NULL)
        return;
    iso_coll_streams_forget_team(NULL);
    pthread_mutex_lock(&d->lock);
    struct streams *s = iso_streams_of(d);
    __atomic_store_n(&d->streams, NULL, __ATOMIC_RELEASE);
    if (s->ends != NULL)
        iso_pairs_move_stream(d, s->ends, ISO_STREAM_NONE);
    pthread_mutex_unlock(&d->lock);
    if (s->ends != NULL)
        iso_gpu_stream_destroy(d->gpu, s->ends);
    iso_streams_drop(s);
}

int iso_coll_streams_start(struct device *device)
{
    int rc = iso_pairs_start(device);
    return rc == 0 ? iso_stream_probe_start(device) : rc;
}

void iso_coll_streams_stop(struct device *device)
{
    iso_coll_streams_forget();
    iso_stream_ranges_forget(device, NULL);
    iso_pairs_stop(device);
    iso_stream_probe_stop(device);
}

/* ---- for isomer-info ---- */

/* Starts nothing. Without a device the table is the one for any device, or for the CPU in a build for it. */
size_t iso_coll_streams_text(char *text, size_t bytes)
{
    struct device *d = ISO->device;
    struct gpu_info cpu = {.flavour = ISO_GPU, .n_devices = 1};
    const struct gpu_info *info = strcmp(cpu.flavour, "cpu") == 0 ? &cpu : NULL;
    if (d != NULL && iso_streams_of(d) != NULL) {
        size_t used = iso_select_table_text(iso_streams_of(d)->table, text, bytes), at = ISO_MIN(used, bytes);
        return used + iso_stream_probe_text(d, at < bytes ? text + at : NULL, bytes - at);
    }
    if (d != NULL && d->running)
        info = d->info;
    struct select_table *table = iso_stream_table_open(info);
    size_t len = table != NULL ? iso_select_table_text(table, text, bytes) : 0;
    iso_select_close(table);
    return len;
}
