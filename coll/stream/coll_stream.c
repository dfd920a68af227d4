/* SPDX-License-Identifier: MIT */
/* Collectives on streams, the public calls: what the user has written becomes a struct stream_call, argument by
 * argument, with a sentence for what is wrong; then the slot, made by its first call; then the table chooses, and the
 * algorithm enqueues. Invariant: whatever the choice depends on is alike on all members, or the caller has broken the
 * contract of shmemx_coll.h. The kernels are in coll_kernels.c and reduce_kernels.c. Called by users. */
#include "coll_stream.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../shmem/team/slot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define API "shmemx_coll_on_stream"

static unsigned is(const struct stream_call *c, unsigned what) { return call_is(&c->call, what); }

/* ---- checks: numbers ---- */

#define MOST_BLOCK_BYTES ((uint64_t)1 << 36) /* kernels count units of 16 bytes in 32 bits */

/* Kernels get numbers, and find the factor of a sum. */
static void fill_reduction(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->call.coll;
    c->facts.type = SHMEMX_UINT8;
    c->facts.op = SHMEMX_SUM;
    if (!is(c, REDUCES))
        return;
    c->facts.type = coll->type;
    c->facts.op = coll->op;
    c->args.op = CALL_IS_OR(coll->type, coll->op) ? (int)ISOD_OP_or_reduce : iso_call_ops[coll->op].for_kernels;
    c->args.dtype = iso_call_types[coll->type].for_kernels;
    c->args.scaling = iso_call_ops[coll->op].scaling;
    c->args.scale = coll->scale;
    c->args.scale_from = coll->scale_from;

    /* The same bits as by division, which takes many more instructions. */
    int n = c->call.team->n_pes;
    if (c->args.scaling == ISOD_SCALING_BY_MEMBERS && (n & (n - 1)) == 0) {
        c->args.scaling = ISOD_SCALING_TIMES;
        c->args.scale = 1.0 / n;
        c->args.scale_from = NULL;
    }
    c->facts.scaled = c->args.scaling == ISOD_SCALING_TIMES;
}

static void fill_sizes(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->call.coll;
    c->facts.kind = coll->rms_norm != NULL ? SHMEMX_ALLREDUCE : c->call.kind;
    c->facts.engines = coll->engines != 0;
    c->facts.apart =
        coll->to_float != 0 || (coll->splits != NULL && (coll->splits->dests != NULL || coll->splits->sources != NULL));
    c->args.to_float = (uint32_t)coll->to_float;
    c->facts.bytes = is(c, OF_BLOCKS) ? c->call.all : c->call.block;
    c->facts.block = c->args.bytes = c->call.block;
    c->args.dest_stride = is(c, MANY_TO) ? c->call.block : 0;
    c->args.source_stride = is(c, MANY_FROM) ? c->call.block : 0;
    c->args.to = coll->kind == SHMEMX_PERMUTE ? coll->to : 0;
    c->args.from = is(c, ROOTED) ? coll->root : coll->kind == SHMEMX_PERMUTE ? coll->from : 0;
    c->args.call = iso_call_kinds[c->call.kind].for_kernels;
}

static bool engines_are_valid(const struct stream_call *c)
{
    const shmemx_coll_t *coll = c->call.coll;
    if (!check_range(&c->call, "engines", coll->engines, 1))
        return false;
    if (coll->engines != 0 && !is(c, HAS_ENGINES))
        return iso_check_wrong(&c->call, "engines is 1; only fcollect without splits, alltoall, broadcast and permute "
                                         "may use copy engines");
    if (coll->signals == NULL)
        return (coll->signal_value == NULL && coll->chunk_bytes == 0) ||
               iso_check_wrong(&c->call, "signal_value or chunk_bytes is given, but signals is a null pointer");
    if (coll->kind != SHMEMX_FCOLLECT || coll->engines == 0)
        return iso_check_wrong(&c->call, "signals is given; only SHMEMX_FCOLLECT with engines has signals");
    if (coll->chunk_bytes == 0)
        return iso_check_wrong(&c->call, "chunk_bytes is 0; with signals it is the bytes of a piece, at least 1");
    return coll->signal_value != NULL ||
           iso_check_wrong(&c->call, "signal_value is a null pointer, but signals is given");
}

static bool begin_stream_call(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    memset(c, 0, sizeof *c);
    c->stream = stream;
    c->device = iso_device_running(API);
    if (c->device == NULL || !iso_check_kind(&c->call, API, coll) ||
        !check_range(&c->call, "slot", coll->slot, ISO_SLOTS_OF_USERS - 1) || !iso_check_numbers(&c->call))
        return false;
    if (c->call.block >= MOST_BLOCK_BYTES)
        return iso_check_wrong(&c->call,
                               "nelems %zu of %zu bytes is a block of %zu bytes; it has to be less than 64 GiB",
                               coll->nelems, c->call.elem_bytes, c->call.block);
    if (iso_slot_is_broken(&c->call.team->slot)) {
        (void)iso_slot_refuse(&c->call.team->slot, API);
        return false;
    }
    fill_reduction(c);
    fill_sizes(c);
    return engines_are_valid(c);
}

static bool is_nothing(const struct stream_call *c) { return is(c, OF_TYPE) && c->call.block == 0; }

/* ---- checks: memory ---- */

static bool is_cpu_device(const struct device *d) { return strcmp(d->info->flavour, "cpu") == 0; }

/* A range, as the kernels of the members reach it. */
struct call_range {
    bool reached; /* symmetric or local: others find it by its place */
    bool near;    /* and pointers reach it wherever they reach device heaps */
    bool local;
    uint64_t place;
};

/* The host's memory is a kernel's own on the CPU device only. */
static bool is_of_device(const struct stream_call *c, const char *arg, const void *addr)
{
    const struct segment *s = is_cpu_device(c->device) ? NULL : iso_segment_of(addr, 1);
    return s == NULL || s->on_device ||
           iso_check_wrong(&c->call, "%s %p is memory of the host, which kernels of this device do not use", arg, addr);
}

/* Of memory that peers touch. The pieces of a registered buffer have places behind each other, another one has none of
 * these: so a range that passes its end would be found by no peer. Registered memory of the host may have edges without
 * pointers, on some PEs and not on others: never near, so that all decide alike. */
static bool look_up(const struct stream_call *c, const char *arg, const void *addr, size_t len,
                    struct call_range *range)
{
    const struct segment *whole = iso_segment_of(addr, len), *first = whole != NULL ? whole : iso_segment_of(addr, 1);
    const char *last = (const char *)addr + len - 1;
    *range = (struct call_range){false, false, false, first != NULL ? iso_segment_place(addr) : 0};
    if (whole == NULL &&
        (first != NULL ? iso_segment_place(last) != range->place + len - 1 : iso_segment_of(last, 1) != NULL))
        return iso_check_wrong(&c->call,
                               "%s %p (%zu bytes) passes an end of the device heap or of a registered buffer; register "
                               "all of it as one buffer, or none of it",
                               arg, addr, len);
    if (first == NULL)
        return true;
    for (int m = 0; m < c->call.team->n_pes && first->kind == SEGMENT_BUFFER; m++)
        if (first->peers[c->call.team->world_of[m]].base == NULL)
            return iso_check_wrong(&c->call,
                                   "%s %p is in a buffer that is not registered for pe %d; register it for a team of "
                                   "all members",
                                   arg, addr, c->call.team->world_of[m]);
    range->reached = true;
    range->near = whole != NULL && (whole->on_device || whole->kind != SEGMENT_BUFFER);
    range->local = first->kind == SEGMENT_LOCAL;
    return first->on_device || is_of_device(c, arg, addr);
}

/* Asking the driver is slow. */
static bool pointer_is_valid(const struct coll_call *c, const char *arg, const void *addr, size_t alignment)
{
    struct device *d = ISO->device;
    if (((uintptr_t)addr & (alignment - 1)) != 0)
        return iso_check_wrong(c, "%s %p is not aligned to %zu bytes", arg, addr, alignment);
    if (!ISO_UNLIKELY(ISO->debug) || is_cpu_device(d) || iso_segment_of(addr, 1) != NULL)
        return true;
    return iso_gpu_pointer_kind(d->gpu, addr) != GPU_POINTER_HOST ||
           iso_check_wrong(c, "%s %p is memory of the host that is not pinned; device memory is needed", arg, addr);
}

/* dest or source, as `buffer` says: facts and places of what peers touch. The rest is this member's own: nothing is
 * asked of it that might make this member alone refuse the call. */
static bool side_is_valid(struct stream_call *c, unsigned buffer, const void *addr, size_t len)
{
    bool writes = buffer == ISOD_NEEDS_DEST, told = c->call.coll->same_place != 0 || c->facts.engines;
    const char *arg = writes ? "dest" : "source";
    struct select_facts *f = &c->facts;
    struct call_range range;
    if (!is(c, writes ? PEERS_WRITE : PEERS_READ))
        return is_of_device(c, arg, addr);
    if (!look_up(c, arg, addr, len, &range))
        return false;
    f->has |= range.reached ? buffer : 0;
    f->near |= range.near ? buffer : 0;
    if (!writes) {
        c->args.source_place = range.place;
        return true;
    }
    c->args.dest_place = range.place;
    if (is(c, HAS_ENGINES) && range.reached)
        c->dest_range = iso_stream_range_find(c->device, c->call.team, addr, len);
    /* That dest is symmetric is this member's own fact, unless the caller says where it is on all of them. */
    f->known = c->dest_range != NULL || (told && range.reached && !range.local);
    return true;
}

/* What of `blocks` kernels get. */
static bool fill_blocks(struct stream_call *c)
{
    const shmemx_blocks_t *b = c->call.coll->blocks;
    struct call_range received = {true, true, false, 0};
    if (b->received != NULL &&
        !look_up(c, "blocks->received", b->received, (size_t)c->call.team->n_pes * 8, &received))
        return false;
    bool reached = (c->facts.has & ISOD_NEEDS_DEST) != 0;
    if (!reached || !received.reached)
        return iso_check_wrong(&c->call,
                               "%s is neither symmetric nor local: not from shmemx_malloc, shmemx_team_malloc or "
                               "shmemx_local_malloc, and not in a registered buffer",
                               reached ? "blocks->received" : "dest");
    c->args.v_bytes = b->bytes;
    c->args.v_source = b->source_offset;
    c->args.v_dest = b->dest_offset;
    c->args.v_received = b->received;
    c->args.v_received_place = received.place;
    return true;
}

/* Signals are written by engines, behind each piece. */
static bool signals_are_valid(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->call.coll;
    struct call_range range;
    if (coll->signals == NULL)
        return true;
    size_t pieces = (c->args.bytes - 1) / coll->chunk_bytes + 1, n = (size_t)c->call.team->n_pes;
    if (pieces > PTRDIFF_MAX / 8 / n)
        return iso_check_wrong(&c->call, "chunk_bytes %zu makes more signals than an address space has",
                               coll->chunk_bytes);
    if (!pointer_is_valid(&c->call, "signals", coll->signals, 8) ||
        !pointer_is_valid(&c->call, "signal_value", coll->signal_value, 8) ||
        !look_up(c, "signals", coll->signals, pieces * n * 8, &range))
        return false;
    c->signal_range = iso_stream_range_find(c->device, c->call.team, coll->signals, pieces * n * 8);
    if (range.near && range.local && c->signal_range == NULL)
        return iso_check_wrong(&c->call,
                               "signals %p is local memory, of which the other members do not know the place; call "
                               "shmemx_rendezvous for it before",
                               (void *)coll->signals);
    return range.near || iso_check_wrong(&c->call, "signals %p is not symmetric device memory", (void *)coll->signals);
}

static bool norm_is_of_device(const struct stream_call *c, const shmemx_rms_norm_t *norm)
{
    return is_of_device(c, "dest", c->call.coll->dest) && is_of_device(c, "rms_norm->residual", norm->residual) &&
           is_of_device(c, "rms_norm->weight", norm->weight) &&
           (norm->scale == NULL || is_of_device(c, "rms_norm->scale", norm->scale)) &&
           (norm->scales == NULL || is_of_device(c, "rms_norm->scales", norm->scales));
}

static bool memory_is_valid(struct stream_call *c)
{
    const struct coll_call *call = &c->call;
    c->args.dest = (char *)call_dest(call);
    c->args.source = (const char *)call->coll->source;
    if (!iso_check_memory(call, pointer_is_valid) ||
        (call->dest_bytes > 0 && !side_is_valid(c, ISOD_NEEDS_DEST, c->args.dest, call->dest_bytes)) ||
        (call->source_bytes > 0 && !side_is_valid(c, ISOD_NEEDS_SOURCE, c->args.source, call->source_bytes)))
        return false;
    /* Kernels do not touch the other side of a member that is not the root, but add to its address. */
    if (is(c, TO_ROOT) && call->dest_bytes == 0)
        c->args.dest = (char *)(uintptr_t)c->args.source;
    if (is(c, FROM_ROOT) && call->source_bytes == 0)
        c->args.source = c->args.dest;
    if (call->coll->rms_norm != NULL && call->block > 0 && !norm_is_of_device(c, call->coll->rms_norm))
        return false;
    return call->kind == SHMEMX_ALLTOALLV ? fill_blocks(c) : signals_are_valid(c);
}

/* ---- the call ---- */

/* Members capture alike, or they would choose different algorithms here; engines are in use on all PEs or on none. */
static bool has_streams(const struct stream_call *c)
{
    return c->device->engines_why[0] == '\0' &&
           (c->device->info->joins_captures || !iso_gpu_stream_is_capturing(c->device->gpu, c->stream));
}

static void describe(struct stream_call *c, struct stream_slot *slot)
{
    struct select_facts *f = &c->facts;
    c->slot = slot;
    c->args.h = slot->handle;
    c->args.nodes = (const int32_t *)slot->nodes;
    f->n_pes = slot->handle.n_pes;
    f->inbox_bytes = slot->handle.inbox_bytes;
    f->direct = slot->handle.direct != 0;
    f->most_blocks = slot->most_blocks;
    f->most_threads = slot->most_threads;
    if (c->call.coll->kind != SHMEMX_ALLREDUCE || c->args.dest != c->args.source)
        f->has |= ISOD_NEEDS_APART;
    if (f->direct && f->n_pes <= ISOD_STREAM_MEMBERS)
        f->has |= ISOD_NEEDS_DIRECT;
    if (!f->direct)
        f->has |= ISOD_NEEDS_FAR;
    if (c->call.coll->background != 0)
        f->has |= ISOD_NEEDS_BACKGROUND;
    if (slot->ll128 == STREAM_LL128_WHOLE)
        f->has |= ISOD_NEEDS_WHOLE_LINES;
    if (c->args.nodes != NULL && f->n_pes <= ISOD_STREAM_MEMBERS)
        f->has |= ISOD_NEEDS_NODES;
    if (is(c, HAS_ENGINES) && has_streams(c)) /* of other kinds no fact */
        f->has |= ISOD_NEEDS_STREAMS;
    f->stage = is(c, HAS_STAGE) && (!f->direct || has_streams(c)) ? iso_stage_most(c) : 0;
    if (f->stage > 0 && iso_gpu_stream_is_capturing(c->device->gpu, c->stream))
        f->stage = 0;
    f->has &= ~(unsigned)ISOD_NEEDS_STAGE;
    f->has |= f->stage > 0 ? (unsigned)ISOD_NEEDS_STAGE : 0;
}

int iso_stream_admit(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    if (!begin_stream_call(c, coll, stream)) {
        bool is_broken = iso_job_is_broken() || (c->call.team != NULL && iso_slot_is_broken(&c->call.team->slot));
        return is_broken ? -EIO : -EINVAL;
    }
    if (is_nothing(c))
        return 0;
    if (!memory_is_valid(c))
        return -EINVAL;
    struct stream_slot *slot = iso_stream_slot_need(c);
    if (slot == NULL)
        return -EIO;
    describe(c, slot);
    return 0;
}

/* The slot of a call of no bytes, if any member has made it yet. */
int iso_stream_note(const struct stream_call *c)
{
    if (ISO_LIKELY(!ISO->debug))
        return 0;
    const struct stream_slot *slot = c->slot != NULL ? c->slot : iso_stream_slot_find(c);
    return slot != NULL && slot->notes != NULL ? iso_notes_call(slot->notes, c) : 0;
}

/* *how: the algorithm, for the trace. */
static int enqueue_call(const struct stream_call *c, const char **how)
{
    struct select_table *table = c->slot->table;
    struct select_choice choice = iso_stream_choose(table, &c->facts);
    if (choice.algorithm != NULL && choice.algorithm->stages) {
        int rc = iso_stage_need(c, iso_engine_row(c));
        struct stream_call less = *c;
        describe(&less, c->slot);
        if (rc == -ENOMEM)
            return enqueue_call(&less, how);
        if (rc != 0)
            return 1;
    }
    if (choice.algorithm == NULL && c->facts.apart) {
        (void)iso_check_wrong(
            &c->call,
            "only copy engines take splits->dests, splits->sources and to_float, and they cannot carry "
            "this: %s",
            c->device->engines_why[0] != '\0' ? c->device->engines_why
            : !c->facts.direct                ? "not all members reach each other's memory by pointers"
            : c->facts.stage > 0              ? "they sum half, bfloat16 and types of 4 and 8 bytes alone"
            : c->slot->stage.refused
                ? "a member has no room for a stage"
                : "stage_bytes is less than 4096 for each member, or the stream is being captured");
        return 1;
    }
    if (choice.algorithm == NULL) {
        (void)iso_check_wrong(&c->call, "copy engines cannot do this: %s",
                    c->device->engines_why[0] != '\0'        ? c->device->engines_why
                    : (c->facts.has & ISOD_NEEDS_DEST) == 0  ? "dest is neither symmetric nor local memory"
                    : (c->facts.near & ISOD_NEEDS_DEST) == 0 ? "dest is registered memory of the host"
                    : !c->facts.known
                        ? "dest is local memory, of which the other members do not know the place; call "
                          "shmemx_rendezvous for it before, on all members of the team"
                    : !has_streams(c)
                        ? "the stream is being captured, and HIP before 5.6 never ends the capture of a second one"
                        : "not all members reach each other's memory by pointers");
        return 1;
    }
    if (ISO_UNLIKELY(ISO->env->coll_explain) && c->args.h.my_pe == 0)
        iso_select_explain(table, &c->facts, &choice);
    *how = choice.algorithm->name;
    if (iso_stream_slot_order(c) != 0)
        return 1;
    if (choice.algorithm->run(c, choice.algorithm, choice.shape) != 0)
        return 1;
    return c->call.coll->rms_norm != NULL ? iso_norm_run(c) : 0;
}

int iso_stream_run(const struct stream_call *c)
{
    struct stream_span span;
    iso_device_trace_enter(&span, PROFILE_STREAM, c->call.name, c->facts.bytes, c->stream);
    int rc = iso_stream_note(c) == 0 && (c->slot == NULL || enqueue_call(c, &span.how) == 0) ? 0 : 1;
    iso_device_trace_leave(&span);
    return rc;
}

/* ---- what it would do ---- */

SHMEM_API(shmemx_coll_explain, pshmemx_coll_explain);
size_t pshmemx_coll_explain(const shmemx_coll_t *coll, char *text, size_t bytes)
{
    struct stream_call c;
    if (text == NULL)
        bytes = 0;
    if (bytes > 0)
        text[0] = '\0';
    if (!begin_stream_call(&c, coll, NULL))
        return 0;
    if (is_nothing(&c))
        return (size_t)snprintf(text, bytes, "%s of 0 bytes: nothing is enqueued",
                                iso_select_stream.kinds[c.facts.kind]);
    if (!memory_is_valid(&c))
        return 0;

    struct stream_slot *slot = iso_stream_slot_find(&c);
    if (slot == NULL)
        return (size_t)snprintf(text, bytes,
                                "%s: slot %d of this team has made no call yet; its first one shows what is possible",
                                iso_select_stream.kinds[c.facts.kind], coll->slot);
    describe(&c, slot);
    struct select_choice choice = iso_stream_choose(slot->table, &c.facts);
    return iso_select_choice_text(&iso_select_stream, &c.facts, &choice, text, bytes);
}
