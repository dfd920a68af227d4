/* SPDX-License-Identifier: MIT */
/* The stage of a slot: memory where peers reach it, for calls from and to memory that peers do not reach, by copy
 * engines where all reach each other, else by kernels; and for what engines bring to be summed. It has a row for each
 * member. The first call that needs one makes it, with all members, as the slot's first call makes the slot; a call that
 * needs longer rows makes another one.
 * Invariant: the members have stages of the same size, or none; all that decides about that is alike on them.
 * Called by coll_stream.c, coll_engine.c and stream_slot.c. */
#include "../../../bootstrap/log.h"
#include "../../../include/pshmem.h"
#include "../../../shmem/team/agree.h"
#include "../../../shmem/team/slot.h"
#include "../coll_stream.h"

#include <errno.h>

static const char call[] = "shmemx_coll_on_stream";
static const size_t row_align = 4096, grows_by = (size_t)32 << 20;

static size_t bytes_of(const struct stream_stage *s) { return s->range != NULL ? s->range->bytes : 0; }

size_t iso_stage_most(const struct stream_call *c)
{
    const struct stream_stage *s = &c->slot->stage;
    size_t most = c->call.coll->stage_bytes;
    if (c->call.coll->signals != NULL || (c->facts.bytes < row_align && !c->facts.apart)) /* behind pieces of dest */
        return 0;
    most = s->refused ? ISO_MIN(most, bytes_of(s)) : most;
    return iso_stage_row(most, 1, c->slot->handle.n_pes) > 0 ? most : 0;
}

size_t iso_stage_row(size_t most, size_t each, int n_pes)
{
    return ISO_MIN((each + row_align - 1) / row_align * row_align, most / (size_t)n_pes / row_align * row_align);
}

void iso_stage_drop(struct stream_stage *stage)
{
    if (stage->range != NULL)
        pshmemx_local_free(stage->range->address);
    iso_stream_range_drop(stage->range);
    stage->range = NULL;
}

/* Peers write to a stage between the two ends of a call here, so none does when the last call has ended here. */
static int forget(const struct stream_call *c)
{
    gpu_stream last = __atomic_load_n(&c->slot->last[0], __ATOMIC_RELAXED);
    if (c->slot->stage.range != NULL && last != ISO_STREAM_NONE && iso_gpu_stream_wait(c->device->gpu, last) != 0) {
        log_error("%s, %s: %s", call, c->call.name, iso_gpu_error(c->device->gpu));
        return -EIO;
    }
    if (iso_slot_rc(&c->call.team->slot, call) != 0) /* the last call has given up, maybe not yet on the others */
        return -EIO;
    iso_stage_drop(&c->slot->stage);
    return 0;
}

int iso_stage_need(const struct stream_call *c, size_t each)
{
    struct stream_slot *slot = c->slot;
    struct first_call first;
    size_t n = (size_t)slot->handle.n_pes, least = iso_stage_row(c->facts.stage, each, slot->handle.n_pes) * n;
    if (bytes_of(&slot->stage) >= least)
        return 0;
    size_t bytes = ISO_MIN((least + grows_by - 1) / grows_by * grows_by, c->facts.stage);
    if (forget(c) != 0 || iso_first_call_begin(&first, c->call.team, ISO_SLOT_STREAM_FIRST + slot->number, call) != 0)
        return -EIO;
    void *address = pshmemx_local_malloc(bytes, SHMEMX_DEVICE);
    slot->stage.range = iso_stream_range_make(&first.members, address, bytes, call);
    iso_first_call_end(&first);
    if (slot->stage.range != NULL) {
        slot->stage.range->team = slot->team;
        return 0;
    }
    slot->stage.refused = true;
    if (iso_slot_rc(&c->call.team->slot, call) != 0) /* other members may know the address, so the memory stays */
        return -EIO;
    if (address != NULL)
        pshmemx_local_free(address);
    if (slot->handle.my_pe == 0)
        log_warn("%s: a member has no room for a stage of %zu bytes; calls of slot %d of this team go on without", call,
                 bytes, slot->number);
    return -ENOMEM;
}
