/* SPDX-License-Identifier: MIT */
/* Collectives on streams, the public calls: what the user has written becomes a struct stream_call, argument by
 * argument, with a sentence for what is wrong; then the slot, made by its first call; then the table chooses, and the
 * algorithm enqueues. Invariant: whatever the choice depends on is alike on all members, or the caller has broken the
 * contract of shmemx_coll.h. The kernels are in coll_kernels.c and reduce_kernels.c. Called by users. */
#include "coll_stream.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- sentences ---- */

/* "shmemx_coll_on_stream, SHMEMX_BROADCAST: root 9 is outside 0..3". Always false. */
static bool wrong(const struct stream_call *c, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
static bool wrong(const struct stream_call *c, const char *format, ...)
{
    char text[384];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_error("shmemx_coll_on_stream%s%s: %s", c->name[0] != '\0' ? ", " : "", c->name, text);
    return false;
}

static bool in_range(const struct stream_call *c, const char *arg, int value, int most)
{
    return (value >= 0 && value <= most) || wrong(c, "%s %d is outside 0..%d", arg, value, most);
}

static unsigned is(const struct stream_call *c, unsigned what) { return iso_call_kinds[c->facts.kind].is & what; }

/* ---- checks: numbers ---- */

#define MOST_BLOCK_BYTES ((uint64_t)1 << 36) /* kernels count units of 16 bytes in 32 bits */

/* With host_blocks or splits a kind is another one to the table. False after a sentence. */
static bool choose_kind(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    c->facts.kind = coll->kind;
    if (coll->host_blocks != NULL) {
        c->facts.kind = CALL_ALLTOALLV_HOST;
        if (coll->kind != SHMEMX_ALLTOALLV || coll->blocks != NULL)
            return wrong(c, coll->kind != SHMEMX_ALLTOALLV
                                ? "host_blocks is given; only SHMEMX_ALLTOALLV has blocks"
                                : "blocks and host_blocks are given; one of them has to be a null pointer");
    }
    if (coll->splits == NULL)
        return true;
    c->facts.kind = coll->kind == SHMEMX_FCOLLECT ? CALL_FCOLLECT_SPLITS : CALL_REDUCESCATTER_SPLITS;
    return coll->kind == SHMEMX_FCOLLECT || coll->kind == SHMEMX_REDUCESCATTER ||
           wrong(c, "splits is given; only SHMEMX_FCOLLECT and SHMEMX_REDUCESCATTER take splits");
}

static bool begin(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    memset(c, 0, sizeof *c);
    c->name = "";
    c->coll = coll;
    c->stream = stream;
    c->device = iso_device_running("shmemx_coll_on_stream");
    if (c->device == NULL)
        return false;
    if (coll == NULL)
        return wrong(c, "coll is a null pointer");
    if (!in_range(c, "kind", coll->kind, CALL_USER_KINDS - 1))
        return false;
    c->name = iso_call_kinds[coll->kind].name;
    if (!choose_kind(c))
        return false;
    c->facts.engines = coll->engines != 0;
    c->team = iso_team_or_null(coll->team);
    return c->team != NULL || wrong(c, "team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)");
}

static bool type_and_op_are_valid(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    c->facts.type = SHMEMX_UINT8;
    c->facts.op = SHMEMX_SUM;
    if (!is(c, OF_TYPE))
        return true;
    if (!in_range(c, "type", coll->type, CALL_TYPES_END - 1))
        return false;
    if (!is(c, REDUCES))
        return true;
    if (!in_range(c, "op", coll->op, CALL_OPS_END - 1))
        return false;
    c->facts.type = coll->type;
    c->facts.op = coll->op;
    c->args.op = CALL_IS_OR(coll->type, coll->op) ? (int)ISOD_OP_or_reduce : iso_call_ops[coll->op].for_kernels;
    c->args.dtype = iso_call_types[coll->type].for_kernels;
    c->args.scaling = iso_call_ops[coll->op].scaling;
    c->args.scale = coll->scale;
    c->args.scale_from = coll->scale_from;

    /* The same bits as by division, which takes many more instructions. */
    bool by_shift = c->args.scaling == ISOD_SCALING_BY_MEMBERS && (c->team->n_pes & (c->team->n_pes - 1)) == 0;
    if (by_shift) {
        c->args.scaling = ISOD_SCALING_TIMES;
        c->args.scale = 1.0 / c->team->n_pes;
        c->args.scale_from = NULL;
    }
    c->facts.scaled = c->args.scaling == ISOD_SCALING_TIMES;
    bool has = iso_call_types[coll->type].is <= iso_call_ops[coll->op].most;
    if (iso_call_ops[coll->op].scaling != ISOD_SCALING_NONE)
        has = iso_call_types[coll->type].is == REAL;
    return has || wrong(c,
                        "op %s is not for type %s: integers and bool have sum to xor, real numbers sum, prod, min, "
                        "max, avg and scaled sum, complex ones sum and prod",
                        iso_call_ops[coll->op].name, iso_call_types[coll->type].name);
}

static bool partners_are_valid(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    int n = c->team->n_pes, me = c->team->my_pe;
    if (is(c, ROOTED)) {
        c->args.from = coll->root;
        return in_range(c, "root", coll->root, n - 1);
    }
    if (coll->kind != SHMEMX_PERMUTE)
        return true;
    c->args.to = coll->to;
    c->args.from = coll->from;
    if (!in_range(c, "to", coll->to, n - 1) || !in_range(c, "from", coll->from, n - 1))
        return false;
    return (coll->to == me) == (coll->from == me) ||
           wrong(c, "to is %d and from is %d on member %d; a member that sends to itself receives from itself",
                 coll->to, coll->from, me);
}

/* Bytes of one block, and of all: SIZE_MAX stays free, for "any" in tables. */
static bool size_is_valid(struct stream_call *c)
{
    size_t one = 0, all = 0, n = (size_t)c->team->n_pes;
    size_t elem_bytes = is(c, OF_TYPE) ? iso_call_types[c->coll->type].bytes : 1;
    if (is(c, OF_TYPE) && (__builtin_mul_overflow(c->coll->nelems, elem_bytes, &one) ||
                           __builtin_mul_overflow(one, n, &all) || all > PTRDIFF_MAX))
        return wrong(c, "nelems %zu of %u bytes for %zu members is more than an address space has", c->coll->nelems,
                     iso_call_types[c->coll->type].bytes, n);
    if (one >= MOST_BLOCK_BYTES)
        return wrong(c, "nelems %zu of %u bytes is a block of %zu bytes; it has to be less than 64 GiB",
                     c->coll->nelems, iso_call_types[c->coll->type].bytes, one);
    c->facts.bytes = is(c, OF_BLOCKS) ? all : one;
    c->facts.block = c->args.bytes = one;
    c->args.dest_stride = is(c, MANY_TO) ? one : 0;
    c->args.source_stride = is(c, MANY_FROM) ? one : 0;
    return true;
}

static bool lists_are_valid(const struct stream_call *c)
{
    char sentence[256];
    const char *what = NULL;
    if (c->facts.kind == CALL_ALLTOALLV_HOST)
        what = iso_list_check_blocks(c->coll->host_blocks, c->team->n_pes, sentence);
    if (c->coll->splits != NULL)
        what = iso_list_check_splits(c->coll->splits, c->coll->nelems, sentence);
    return what == NULL || wrong(c, "%s", what);
}

static bool engines_are_valid(const struct stream_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    if (!in_range(c, "engines", coll->engines, 1))
        return false;
    if (coll->engines != 0 && !is(c, HAS_ENGINES))
        return wrong(c, "engines is 1; only fcollect without splits, alltoall, broadcast and permute may use copy "
                        "engines");
    if (coll->signals == NULL)
        return (coll->signal_value == NULL && coll->chunk_bytes == 0) ||
               wrong(c, "signal_value or chunk_bytes is given, but signals is a null pointer");
    if (coll->kind != SHMEMX_FCOLLECT || coll->engines == 0)
        return wrong(c, "signals is given; only SHMEMX_FCOLLECT with engines has signals");
    if (coll->chunk_bytes == 0)
        return wrong(c, "chunk_bytes is 0; with signals it is the bytes of a piece, at least 1");
    return coll->signal_value != NULL || wrong(c, "signal_value is a null pointer, but signals is given");
}

static bool numbers_are_valid(struct stream_call *c)
{
    return in_range(c, "slot", c->coll->slot, ISO_SLOTS_OF_USERS - 1) && type_and_op_are_valid(c) &&
           partners_are_valid(c) && size_is_valid(c) && lists_are_valid(c) && engines_are_valid(c);
}

static bool is_nothing(const struct stream_call *c) { return is(c, OF_TYPE) && c->facts.bytes == 0; }

/* ---- checks: memory ---- */

static bool is_cpu(const struct stream_call *c) { return strcmp(c->device->info->flavour, "cpu") == 0; }

/* A range, as the kernels of the members reach it. */
struct range {
    bool reached; /* symmetric or local: others find it by its place */
    bool near;    /* and pointers reach it wherever they reach device heaps */
    bool local;
    uint64_t place;
};

/* The host's memory is a kernel's own on the CPU device only. */
static bool is_of_device(const struct stream_call *c, const char *arg, const void *addr)
{
    const struct segment *s = is_cpu(c) ? NULL : iso_segment_of(addr, 1);
    return s == NULL || s->on_device ||
           wrong(c, "%s %p is memory of the host, which kernels of this device do not use", arg, addr);
}

/* Of memory that peers touch. The pieces of a registered buffer have places behind each other, another one has none of
 * these: so a range that passes its end would be found by no peer. Registered memory of the host may have edges without
 * pointers, on some PEs and not on others: never near, so that all decide alike. */
static bool look_up(const struct stream_call *c, const char *arg, const void *addr, size_t len, struct range *range)
{
    const struct segment *whole = iso_segment_of(addr, len), *first = whole != NULL ? whole : iso_segment_of(addr, 1);
    const char *last = (const char *)addr + len - 1;
    *range = (struct range){false, false, false, first != NULL ? iso_segment_place(addr) : 0};
    if (whole == NULL &&
        (first != NULL ? iso_segment_place(last) != range->place + len - 1 : iso_segment_of(last, 1) != NULL))
        return wrong(c,
                     "%s %p (%zu bytes) passes an end of the device heap or of a registered buffer; register all of it "
                     "as one buffer, or none of it",
                     arg, addr, len);
    if (first == NULL)
        return true;
    for (int m = 0; m < c->team->n_pes && first->kind == SEGMENT_BUFFER; m++)
        if (first->peers[c->team->world_of[m]].base == NULL)
            return wrong(c, "%s %p is in a buffer that is not registered for pe %d; register it for a team of all "
                            "members", arg, addr, c->team->world_of[m]);
    range->reached = true;
    range->near = whole != NULL && (whole->on_device || whole->kind != SEGMENT_BUFFER);
    range->local = first->kind == SEGMENT_LOCAL;
    return first->on_device || is_of_device(c, arg, addr);
}

static bool pointer_is_valid(const struct stream_call *c, const char *arg, const void *addr, size_t alignment)
{
    if (addr == NULL)
        return wrong(c, "%s is a null pointer", arg);
    if (((uintptr_t)addr & (alignment - 1)) != 0)
        return wrong(c, "%s %p is not aligned to %zu bytes", arg, addr, alignment);
    if (!ISO_UNLIKELY(ISO->debug) || is_cpu(c) || iso_segment_of(addr, 1) != NULL) /* asking the driver is slow */
        return true;
    return iso_gpu_pointer_kind(c->device->gpu, addr) != GPU_POINTER_HOST ||
           wrong(c, "%s %p is memory of the host that is not pinned; device memory is needed", arg, addr);
}

/* The overlaps that are allowed. */
static bool is_in_place(const struct stream_call *c)
{
    const char *dest = (const char *)c->args.dest, *source = c->args.source;
    size_t own = (size_t)c->team->my_pe * c->args.bytes;
    switch (c->facts.kind) {
    case SHMEMX_REDUCESCATTER:
    case SHMEMX_SCATTER:
        return dest == source + own;
    case SHMEMX_FCOLLECT:
    case SHMEMX_GATHER:
        return source == dest + own;
    case SHMEMX_ALLREDUCE:
    case SHMEMX_BROADCAST:
    case SHMEMX_REDUCE:
        return dest == source;
    case SHMEMX_PERMUTE:
        return dest == source && c->args.to == c->team->my_pe;
    default:
        return false;
    }
}

/* dest or source, as `buffer` says: facts and places of what peers touch. The rest is this member's own: nothing is
 * asked of it that might make this member alone refuse the call. */
static bool side_is_valid(struct stream_call *c, unsigned buffer, const void *addr, size_t len)
{
    bool writes = buffer == ISOD_NEEDS_DEST, told = c->coll->same_place != 0 || c->facts.engines;
    const char *arg = writes ? "dest" : "source";
    struct select_facts *f = &c->facts;
    struct range range;
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
        c->dest_range = iso_stream_range_find(c->device, c->team, addr, len);
    /* That dest is symmetric is this member's own fact, unless the caller says where it is on all of them. */
    f->known = c->dest_range != NULL || (told && range.reached && !range.local);
    return true;
}

/* Of a member that is not the root: kernels do not touch the other side, but add to its address. */
static bool one_side_is_valid(struct stream_call *c, size_t alignment)
{
    bool sends = is(c, TO_ROOT) != 0;
    const char *arg = sends ? "source" : "dest", *addr = sends ? c->args.source : c->args.dest;
    if (!pointer_is_valid(c, arg, addr, alignment) ||
        !side_is_valid(c, sends ? ISOD_NEEDS_SOURCE : ISOD_NEEDS_DEST, addr, c->args.bytes))
        return false;
    if (sends)
        c->args.dest = (char *)(uintptr_t)addr;
    else
        c->args.source = addr;
    return true;
}

static bool data_is_valid(struct stream_call *c)
{
    size_t alignment = iso_call_types[c->coll->type].alignment;
    size_t dest_bytes = c->args.dest_stride != 0 ? c->facts.bytes : c->args.bytes;
    size_t source_bytes = c->args.source_stride != 0 ? c->facts.bytes : c->args.bytes;
    if (is(c, TO_ROOT | FROM_ROOT) && c->args.from != c->team->my_pe)
        return one_side_is_valid(c, alignment);
    uintptr_t to = (uintptr_t)c->args.dest, from = (uintptr_t)c->args.source;
    if (!pointer_is_valid(c, "dest", c->args.dest, alignment) ||
        !pointer_is_valid(c, "source", c->args.source, alignment))
        return false;
    if (to < from + source_bytes && from < to + dest_bytes && !is_in_place(c))
        return wrong(c, "dest %p (%zu bytes) and source %p (%zu bytes) overlap", (void *)c->args.dest, dest_bytes,
                     (const void *)c->args.source, source_bytes);
    return side_is_valid(c, ISOD_NEEDS_DEST, c->args.dest, dest_bytes) &&
           side_is_valid(c, ISOD_NEEDS_SOURCE, c->args.source, source_bytes);
}

/* Memory of one direction: of nothing it may be anywhere. */
static bool host_side_is_valid(struct stream_call *c, unsigned buffer, const size_t *bytes, const size_t *offset)
{
    bool receives = buffer == ISOD_NEEDS_DEST;
    const void *addr = receives ? c->args.dest : c->args.source;
    size_t extent = iso_list_extent(bytes, offset, c->team->n_pes);
    return extent == 0 || (pointer_is_valid(c, receives ? "dest" : "source", addr, 1) &&
                           side_is_valid(c, buffer, addr, extent));
}
static bool host_blocks_are_valid(struct stream_call *c)
{
    const shmemx_host_blocks_t *b = c->coll->host_blocks;
    int me = c->team->my_pe;
    if (b->send_bytes[me] != b->receive_bytes[me])
        return wrong(c, "host_blocks->send_bytes[%d] is %zu and receive_bytes[%d] is %zu on member %d itself", me,
                     b->send_bytes[me], me, b->receive_bytes[me], me);
    return host_side_is_valid(c, ISOD_NEEDS_DEST, b->receive_bytes, b->receive_offset) &&
           host_side_is_valid(c, ISOD_NEEDS_SOURCE, b->send_bytes, b->send_offset);
}

/* The lengths are known when the call runs: here only the begins of the buffers are looked at. */
static bool blocks_are_valid(struct stream_call *c)
{
    const shmemx_blocks_t *b = c->coll->blocks;
    struct range received = {true, true, false, 0};
    if (b == NULL)
        return wrong(c, "blocks is a null pointer");
    if (!pointer_is_valid(c, "dest", c->args.dest, 1) || !pointer_is_valid(c, "source", c->args.source, 1) ||
        !pointer_is_valid(c, "blocks->bytes", b->bytes, 8) ||
        !pointer_is_valid(c, "blocks->source_offset", b->source_offset, 8) ||
        !pointer_is_valid(c, "blocks->dest_offset", b->dest_offset, 8) ||
        !side_is_valid(c, ISOD_NEEDS_DEST, c->args.dest, 1) || !side_is_valid(c, ISOD_NEEDS_SOURCE, c->args.source, 1))
        return false;
    if (b->received != NULL && (!pointer_is_valid(c, "blocks->received", b->received, 8) ||
                                !look_up(c, "blocks->received", b->received, (size_t)c->team->n_pes * 8, &received)))
        return false;
    bool reached = (c->facts.has & ISOD_NEEDS_DEST) != 0;
    if (!reached || !received.reached)
        return wrong(c, "%s is neither symmetric nor local: not from shmemx_malloc, shmemx_team_malloc or "
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
    const shmemx_coll_t *coll = c->coll;
    struct range range;
    if (coll->signals == NULL)
        return true;
    size_t pieces = (c->args.bytes - 1) / coll->chunk_bytes + 1, n = (size_t)c->team->n_pes;
    if (pieces > PTRDIFF_MAX / 8 / n)
        return wrong(c, "chunk_bytes %zu makes more signals than an address space has", coll->chunk_bytes);
    if (!pointer_is_valid(c, "signals", coll->signals, 8) ||
        !pointer_is_valid(c, "signal_value", coll->signal_value, 8) ||
        !look_up(c, "signals", coll->signals, pieces * n * 8, &range))
        return false;
    c->signal_range = iso_stream_range_find(c->device, c->team, coll->signals, pieces * n * 8);
    if (range.near && range.local && c->signal_range == NULL)
        return wrong(c, "signals %p is local memory, of which the other members do not know the place; call "
                        "shmemx_rendezvous for it before", (void *)coll->signals);
    return range.near || wrong(c, "signals %p is not symmetric device memory", (void *)coll->signals);
}

static bool memory_is_valid(struct stream_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    c->args.dest = (char *)coll->dest;
    c->args.source = (const char *)coll->source;
    if (c->args.scaling == ISOD_SCALING_TIMES && c->args.scale_from != NULL &&
        !pointer_is_valid(c, "scale_from", coll->scale_from, 8))
        return false;
    c->args.call = iso_call_kinds[coll->kind].for_kernels;
    if (is(c, NO_DATA))
        return true;
    if (c->facts.kind == CALL_ALLTOALLV_HOST)
        return host_blocks_are_valid(c);
    return coll->kind == SHMEMX_ALLTOALLV ? blocks_are_valid(c) : data_is_valid(c) && signals_are_valid(c);
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
    if (c->coll->kind != SHMEMX_ALLREDUCE || c->args.dest != c->args.source)
        f->has |= ISOD_NEEDS_APART;
    if (f->direct && f->n_pes <= ISOD_STREAM_MEMBERS)
        f->has |= ISOD_NEEDS_DIRECT;
    if (slot->ll128 == STREAM_LL128_WHOLE)
        f->has |= ISOD_NEEDS_WHOLE_LINES;
    if (c->args.nodes != NULL && f->n_pes <= ISOD_STREAM_MEMBERS)
        f->has |= ISOD_NEEDS_NODES;
    if (is(c, HAS_ENGINES) && has_streams(c)) /* of other kinds no fact */
        f->has |= ISOD_NEEDS_STREAMS;
}

/* All that is left to do before the choice. */
static int complete(struct stream_call *c)
{
    if (!memory_is_valid(c))
        return -EINVAL;
    struct stream_slot *slot = iso_stream_slot_need(c);
    if (slot == NULL)
        return -EIO;
    describe(c, slot);
    return 0;
}

static int begin_checked(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    if (begin(c, coll, stream) && numbers_are_valid(c))
        return 0;
    return iso_job_is_broken() ? -EIO : -EINVAL;
}

int iso_stream_prepare(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    int rc = begin_checked(c, coll, stream);
    return rc == 0 ? complete(c) : rc;
}

int iso_stream_admit(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream)
{
    int rc = begin_checked(c, coll, stream);
    return rc != 0 || is_nothing(c) ? rc : complete(c);
}

/* The slot of a call of no bytes, if any member has made it yet. */
int iso_stream_note(const struct stream_call *c)
{
    if (ISO_LIKELY(!ISO->debug))
        return 0;
    const struct stream_slot *slot = c->slot != NULL ? c->slot : iso_stream_slot_find(c);
    return slot != NULL && slot->notes != NULL ? iso_notes_call(slot->notes, c) : 0;
}

static int enqueue(const struct stream_call *c)
{
    struct select_table *table = c->slot->table;
    struct select_choice choice = iso_stream_choose(table, &c->facts);
    if (choice.algorithm == NULL) {
        (void)wrong(c, "copy engines cannot do this: %s",
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
    if (iso_stream_slot_order(c) != 0)
        return 1;
    return choice.algorithm->run(c, choice.algorithm, choice.shape) == 0 ? 0 : 1;
}

int iso_stream_run(const struct stream_call *c)
{
    return iso_stream_note(c) == 0 && (c->slot == NULL || enqueue(c) == 0) ? 0 : 1;
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
    if (!begin(&c, coll, NULL) || !numbers_are_valid(&c))
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
