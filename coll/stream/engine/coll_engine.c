/* SPDX-License-Identifier: MIT */
/* Collectives by copy engines, with no compute units. A round has three parts. The members synchronise in the caller's
 * stream. It and perhaps several streams of the slot go on behind that, and copy from this PE to the others: payload,
 * and flags behind it. The caller's stream goes on behind all of them when the flags of the others have come. Both
 * synchronisations are words that streams store and wait for (engine_words.c). Where streams cannot, and in graphs,
 * they are kernels of one block (engine_device.h), which take a wave's place while they wait. The first of the streams
 * is the caller's own, so a round that needs no other one has neither fork nor join; these are events, so a capture
 * takes all of it in.
 *
 * One stream sends to one peer after the other. This keeps the members in step, so that all of them send to different
 * peers: on four H200s 360 GB/s out of each, where three streams with a peer each had 230.
 *
 * Why a flag is not seen before its payload: the stream that copies the flag has copied the payload, or waits for the
 * streams that copied it. A word is stored by that stream with release of system scope, which pairs with the wait for
 * it. On NVIDIA and AMD a copy begins when the one before it in its stream is complete, its writes performed at the
 * memory that they went to, a peer's included; NCCL and RCCL copy flags behind payloads, too. The CPU device stores the
 * word with release, behind what its worker has copied or waited for. The receiver polls with acquire. Where the vendor
 * copies a few bytes by kernels of its own (ROCm before 7.1), engine_end stores the flags: a kernel that waits for a
 * free processor less. Signals are copies there, too.
 *
 * A call by a stage (engine_stage.c) is rounds whose dest is a row there; what is in the rows is then copied or summed.
 *
 * Enqueued copies cannot be stopped: when the first synchronisation gives up, they run all the same, into dests whose
 * owners may not have come to the call. shmemx_coll.h says so. Called by coll_stream.c (run of the table's rows),
 * stream_slot.c (close). */
#include "../../../bootstrap/log.h"
#include "../coll_stream.h"

#include <string.h>

extern void isod_stream_engine_begin_kernel(void);
extern void isod_stream_engine_end_kernel(void);

#define WAVE 32u
#define SPLIT_BYTES ((size_t)1 << 20) /* a copy below this gains nothing by a second engine */
#define SPLIT_ALIGN ((size_t)4096)
#define TWO_ROUNDS_BYTES ((size_t)4 << 20) /* of broadcast: from here on the bytes saved outweigh a round */

/* One round on this PE. The peers are members first, first + 1 .. , round the team, without this one. */
struct round {
    struct stream_call c; /* to and from as engine_end takes them */
    struct gpu *gpu;
    struct stream_engines *engines;
    struct engine_words *words; /* NULL: kernels */
    unsigned most;              /* streams to use at most, but for the one within this PE */
    int first, peers;
    int full; /* a peer that gets its flag alone; -1: none */
    /* Peer m gets `bytes` of source + m * source_stride; at its dest, which is named as this PE's. */
    char *dest;
    const char *source;
    size_t bytes, source_stride;
    size_t part, total; /* part != 0: peer m gets `bytes` from m * part on, of `total`, */
    size_t dest_part;   /* at m * dest_part of dest */
    bool splits;        /* `bytes` are those of a row from splits_at on */
    size_t splits_at;
    char *own_dest;
    const char *own_source;
    size_t own_bytes;  /* 0: nothing to copy within this PE */
    uint64_t *signals; /* the first of this PE's block; NULL: no signals */

    const struct segment *segment, *signal_segment;
    size_t unit, units; /* bytes of a copy; copies of a block */
    unsigned streams;   /* in use to peers: the first ones, the caller's before all */
    unsigned own;       /* 1: and the one behind them within this PE */
    unsigned each;      /* of them for each peer: peer i has streams i * each, i * each + 1 .. */
    int rc;
};

/* ---- streams ---- */

static gpu_stream stream_of(const struct round *r, unsigned stream)
{
    return stream == 0 ? r->c.stream : r->engines->streams[stream - 1];
}

/* Not of high priority: there the agent's streams are, which must never stand behind one that waits for peers. */
static bool engine_has_streams(struct round *r)
{
    for (int rc; r->engines->n + 1 < (int)(r->streams + r->own); r->engines->n++) {
        rc = iso_gpu_stream_create(r->gpu, false, &r->engines->streams[r->engines->n]);
        if (rc == 0)
            continue;
        log_error("shmemx_coll_on_stream, %s: no stream for copy engines: %s", r->c.call.name, iso_gpu_error(r->gpu));
        return false;
    }
    return true;
}

/* The first failure says why; the rest of the round is not copied then, but its streams are joined. */
static void note(struct round *r, int rc)
{
    if (rc != 0 && r->rc == 0)
        log_error("shmemx_coll_on_stream, %s: %s", r->c.call.name, iso_gpu_error(r->gpu));
    r->rc = r->rc != 0 ? r->rc : rc;
}

static void copy(struct round *r, void *dest, const void *source, size_t bytes, unsigned stream)
{
    if (r->rc == 0 && bytes > 0 && dest != source)
        note(r, iso_gpu_copy(r->gpu, dest, source, bytes, stream_of(r, stream)));
}

/* ---- which member gets what, by which stream ---- */

/* Where this PE's engines write memory of member m: at the same place of the range that a rendezvous was about, or of
 * the segment. */
static char *near(const struct round *r, const struct stream_range *range, const struct segment *segment,
                  const void *addr, int m)
{
    if (range != NULL)
        return range->near[m] != NULL ? range->near[m] + ((const char *)addr - range->address) : NULL;
    char *base = m == r->c.args.h.my_pe ? segment->base : iso_handle_near(segment, r->c.call.team->world_of[m]);
    return base != NULL ? base + ((const char *)addr - segment->base) : NULL;
}

/* This PE's flag at member m, on lane 0; NULL: not reachable. Lane 0 is the first of slot memory, its flags the first
 * of the lane. */
static char *flag_near(const struct round *r, int m)
{
    char *memory = r->c.slot->memory[m];
    return memory != NULL ? memory + (size_t)r->c.args.h.my_pe * 8 : NULL;
}

static void plan(struct round *r)
{
    unsigned peers = (unsigned)r->peers;
    r->own = r->signals != NULL || (r->own_bytes > 0 && r->own_dest != r->own_source) ? 1 : 0;

    /* Fewer peers than streams: several for each. */
    r->each = peers > 0 ? ISO_MAX(r->most / peers, 1u) : 1;
    size_t pieces = ISO_MIN(r->bytes / SPLIT_BYTES, (size_t)r->each);
    if (r->signals != NULL)
        r->unit = r->c.call.coll->chunk_bytes;
    else if (pieces < 2)
        r->unit = ISO_MAX(r->bytes, (size_t)1);
    else
        r->unit = ((r->bytes - 1) / pieces / SPLIT_ALIGN + 1) * SPLIT_ALIGN;
    r->units = r->bytes > 0 ? (r->bytes - 1) / r->unit + 1 : 1;
    r->each = (unsigned)ISO_MIN((size_t)r->each, r->units);
    r->streams = ISO_MIN(r->most, peers * r->each);
}

/* ---- splits: as parts of a row of the stage, each at a unit of 16 bytes, as sums need it ---- */

struct row_part {
    size_t next, end; /* the split behind it; where it ends in a block, in elements */
    size_t at, bytes; /* in a row */
    const char *source;
    char *dest;
};

/* part is {0} before the first one. */
static bool next_part(const struct stream_call *c, struct row_part *part)
{
    const shmemx_splits_t *s = c->call.coll->splits;
    size_t elem = c->call.elem_bytes, n = (size_t)c->args.h.n_pes, i = part->next++;
    if (i >= s->n)
        return false;
    bool gathers = c->call.kind == CALL_FCOLLECT_SPLITS;
    size_t begin = s->offset != NULL ? s->offset[i] : part->end;
    part->end = begin + s->nelems[i];
    part->at = (part->at + part->bytes + 15) / 16 * 16;
    part->bytes = s->nelems[i] * elem;
    part->source = s->sources != NULL ? (const char *)s->sources[i] : c->args.source + begin * elem * (gathers ? 1 : n);
    part->dest = s->dests != NULL ? (char *)s->dests[i]
                                  : c->args.dest + begin * (gathers ? elem * n : c->args.to_float != 0 ? 4 : elem);
    return true;
}

/* Bytes of a row. */
struct row_range {
    size_t from, end;
};

/* The next part that has bytes in a range of a row: *cut is these, the addresses still those of the part. */
static bool next_cut(const struct stream_call *c, struct row_part *part, struct row_range in, struct row_part *cut)
{
    while (next_part(c, part)) {
        *cut = *part;
        cut->at = ISO_MAX(part->at, in.from);
        if (part->bytes > 0 && cut->at < in.end && part->at + part->bytes > cut->at) {
            cut->bytes = ISO_MIN(part->at + part->bytes, in.end) - cut->at;
            return true;
        }
    }
    return false;
}

/* ---- copies ---- */

/* What member m gets of a row, in a range of it. */
static void send_splits(struct round *r, char *dest, int m, struct row_range in, unsigned stream)
{
    struct row_part part = {0}, cut;
    size_t each = r->c.call.kind == CALL_FCOLLECT_SPLITS ? 0 : (size_t)m;
    while (next_cut(&r->c, &part, in, &cut))
        copy(r, dest + (cut.at - in.from), cut.source + each * part.bytes + (cut.at - part.at), cut.bytes, stream);
}

static void send_signal(struct round *r, int m, size_t u, unsigned stream)
{
    if (r->signals != NULL)
        copy(r, near(r, r->c.signal_range, r->signal_segment, r->signals + u, m), r->c.call.coll->signal_value, 8,
             stream);
}

static void send_unit(struct round *r, int i, size_t u)
{
    int m = (r->first + i) % r->c.args.h.n_pes;
    unsigned first = (unsigned)i * r->each % r->streams, stream = (first + (unsigned)(u % r->each)) % r->streams;
    size_t at = u * r->unit, part_at = (size_t)m * r->part, bytes = r->bytes;
    if (m == r->full || part_at > r->total)
        bytes = 0;
    else if (r->part != 0)
        bytes = ISO_MIN(r->bytes, r->total - part_at);
    if (at < bytes && r->splits)
        send_splits(r, near(r, r->c.dest_range, r->segment, r->dest, m) + at, m,
                    (struct row_range){r->splits_at + at, r->splits_at + ISO_MIN(at + r->unit, bytes)}, stream);
    else if (at < bytes)
        copy(r, near(r, r->c.dest_range, r->segment, r->dest, m) + (size_t)m * r->dest_part + at,
             r->source + (size_t)m * (r->part + r->source_stride) + at, ISO_MIN(r->unit, bytes - at), stream);
    send_signal(r, m, u, stream);
    if (u + 1 < r->units)
        return;

    /* The flag, behind all units of that peer. */
    for (unsigned s = 1; s < r->each; s++)
        note(r, iso_gpu_stream_after(r->gpu, stream_of(r, first), stream_of(r, first + s)));
    if (r->words == NULL && r->c.device->info->kernels_copy_words)
        r->c.args.tell = (uint32_t)r->peers, r->c.args.tell_first = r->first;
    else if (r->words == NULL)
        copy(r, flag_near(r, m), &ISOD_LANES(r->c.args.h.team)->engine, 8, first);
    else if (r->rc == 0)
        r->rc = iso_words_send(r->words, &r->c, m, stream_of(r, first));
}

/* Unit by unit round the peers, so that the first ones arrive early everywhere. Within this PE data goes in units only
 * where signals announce them: a kernel that waits for signals may begin early here, too. */
static void send_all(struct round *r)
{
    for (size_t u = 0; u < r->units; u++) {
        for (int i = 0; i < r->peers; i++)
            send_unit(r, i, u);
        size_t at = u * r->unit;
        if (r->signals != NULL)
            copy(r, r->own_dest + at, r->own_source + at, ISO_MIN(r->unit, r->own_bytes - at), r->streams);
        else if (u == 0)
            copy(r, r->own_dest, r->own_source, r->own_bytes, r->streams);
        send_signal(r, r->c.args.h.my_pe, u, r->streams);
    }
}

/* ---- a round ---- */

static bool says(const struct round *r, const char *sentence)
{
    log_error("shmemx_coll_on_stream, %s: %s", r->c.call.name, sentence);
    return false;
}

/* Looked at before engine_begin: later a failure would leave the peers waiting, or copy into dests that do not expect
 * it. */
static bool can_run(struct round *r)
{
    const shmemx_coll_t *coll = r->c.call.coll;
    struct isod_host *for_kernels, *host = iso_proxy_host(r->c.device, &for_kernels);
    size_t blocks = r->c.args.dest_stride != 0 ? (size_t)r->c.args.h.n_pes : 1;
    r->segment = iso_segment_of(r->c.args.dest, blocks * r->c.args.bytes);
    if (coll->signals != NULL)
        r->signal_segment = iso_segment_of(coll->signals, 8);
    if (r->segment == NULL || (coll->signals != NULL && r->signal_segment == NULL))
        return says(r, "copy engines need dest and signals that all members reach");
    for (int m = 0; m < r->c.args.h.n_pes; m++)
        if (near(r, r->c.dest_range, r->segment, r->c.args.dest, m) == NULL || flag_near(r, m) == NULL ||
            (r->signals != NULL && near(r, r->c.signal_range, r->signal_segment, coll->signals, m) == NULL))
            return says(r, "copy engines of this PE do not reach the memory of all members");
    if (r->engines->n > 0 && iso_gpu_stream_is_capturing(r->gpu, r->engines->streams[0]) &&
        !iso_gpu_stream_is_capturing(r->gpu, r->c.stream))
        return says(r, "a graph with copy engines of this slot is being captured; end it first, or take another slot");
    if (__atomic_load_n(&host->abort, __ATOMIC_RELAXED) != 0) /* as kernels look at it */
        return says(r, "this PE's kernels have been told to give up; copy engines would go on: shmemx_device_reset "
                       "first");
    return true;
}

static int launch_ends(struct round *r, gpu_kernel kernel)
{
    struct select_shape one = {1, r->c.args.h.n_pes <= (int)WAVE ? WAVE : 2 * WAVE};
    return iso_stream_launch(&r->c, kernel, one, false);
}

/* When copies cannot be enqueued, the peers wait for their flags in vain; then the call has failed with a sentence. */
static int run(struct round *r)
{
    plan(r);
    if (!engine_has_streams(r))
        return 1;
    int rc = r->words != NULL ? iso_words_begin(r->words, &r->c) : launch_ends(r, isod_stream_engine_begin_kernel);
    if (rc != 0)
        return 1;

    for (unsigned s = 1; s < r->streams + r->own; s++)
        note(r, iso_gpu_stream_after(r->gpu, stream_of(r, s), r->c.stream));
    send_all(r);
    for (unsigned s = 1; s < r->streams + r->own; s++)
        note(r, iso_gpu_stream_after(r->gpu, r->c.stream, stream_of(r, s)));

    if (r->rc != 0)
        r->c.args.tell = 0; /* of copies that were not made */
    rc = r->words != NULL ? iso_words_end(r->words, &r->c) : launch_ends(r, isod_stream_engine_end_kernel);
    return rc == 0 && r->rc == 0 ? 0 : 1;
}

/* A round in which nothing leaves this PE. */
static struct round round_of(const struct stream_call *c, struct select_shape shape)
{
    struct round r;
    memset(&r, 0, sizeof r);
    r.c = *c;
    r.gpu = c->device->gpu;
    r.engines = &c->slot->engines;
    r.words = iso_words_of(c);
    r.most = ISO_MIN(ISO_MAX(shape.grid, 1u), (unsigned)ISO_ENGINE_STREAMS);
    r.first = c->args.h.my_pe + 1;
    r.c.args.tell = 0;
    r.full = -1;
    r.dest = c->args.dest;
    r.source = c->args.source;
    r.bytes = c->args.bytes;
    return r;
}

/* ---- fcollect, alltoall ---- */

int iso_engine_exchange(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct round r = round_of(c, shape);
    size_t me = (size_t)c->args.h.my_pe;
    (void)a;
    r.c.args.to = -1; /* all send to all */
    r.peers = c->args.h.n_pes - 1;
    r.source_stride = c->args.source_stride;
    r.dest += me * c->args.dest_stride;
    r.own_dest = r.dest;
    r.own_source = r.source + me * r.source_stride;
    r.own_bytes = r.bytes;
    if (c->call.coll->signals != NULL)
        r.signals = c->call.coll->signals + me * ((r.bytes - 1) / c->call.coll->chunk_bytes + 1);
    return can_run(&r) ? run(&r) : 1;
}

/* ---- broadcast ---- */

static void own_all(struct round *r)
{
    r->own_dest = r->c.args.dest;
    r->own_source = r->c.args.source;
    r->own_bytes = r->c.args.bytes;
}

/* Each member gets a part of its own, then gives it to the others: each link carries 2 (n - 1) / n times the bytes, not
 * n - 1 times those of the root alone. */
static int broadcast_in_two(struct round *r)
{
    bool is_root = r->c.args.h.my_pe == r->c.args.from;
    size_t n = (size_t)r->c.args.h.n_pes, total = r->bytes;
    size_t part = (total / n + SPLIT_ALIGN) / SPLIT_ALIGN * SPLIT_ALIGN, mine = (size_t)r->c.args.h.my_pe * part;
    struct round first = *r, second = *r;
    first.part = first.dest_part = first.bytes = part;
    first.total = total;
    if (is_root)
        own_all(&first);
    else
        first.peers = 0;
    second.c.args.to = -1;
    second.full = r->c.args.from;
    second.bytes = mine < total ? ISO_MIN(part, total - mine) : 0;
    second.dest += second.bytes > 0 ? mine : 0;
    second.source = is_root ? r->source + (second.dest - r->dest) : second.dest;
    return run(&first) == 0 ? run(&second) : 1;
}

int iso_engine_broadcast(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct round r = round_of(c, shape);
    (void)a;
    r.c.args.to = c->args.from;
    r.peers = c->args.h.n_pes - 1;
    if (!can_run(&r))
        return 1;
    if (c->args.h.n_pes > 2 && r.bytes >= TWO_ROUNDS_BYTES)
        return broadcast_in_two(&r);
    if (c->args.h.my_pe == c->args.from)
        own_all(&r);
    else
        r.peers = 0;
    return run(&r);
}

/* ---- permute ---- */

int iso_engine_permute(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct round r = round_of(c, shape);
    (void)a;
    if (c->args.to == c->args.h.my_pe) {
        own_all(&r);
    } else {
        r.first = c->args.to;
        r.peers = 1;
    }
    return can_run(&r) ? run(&r) : 1;
}

/* ---- by a stage: fcollect to any dest; what is summed ---- */

static size_t members_of(const struct stream_call *c) { return (size_t)c->args.h.n_pes; }

size_t iso_engine_row(const struct stream_call *c)
{
    size_t n = members_of(c), units = (c->args.bytes + 15) / 16;
    struct row_part part = {0};
    if (c->call.coll->splits != NULL) {
        while (next_part(c, &part))
            ;
        return ISO_MAX(part.at + part.bytes, (size_t)1);
    }
    return call_is(&c->call, OF_BLOCKS) ? c->args.bytes : (units + n - 1) / n * 16;
}

/* A call by rows: a piece of what each member sends to each other one, then the next. */
struct rows {
    struct round r;
    char *stage;
    size_t each, row; /* bytes for a member; of a row */
    size_t at, bytes; /* the piece */
};

/* From every member to its row of every other one. */
static bool begin_rows(struct rows *w, const struct stream_call *c, unsigned streams)
{
    const struct stream_range *stage = c->slot->stage.range;
    w->r = round_of(c, (struct select_shape){streams, 1});
    w->stage = stage->address;
    w->each = iso_engine_row(c);
    w->row = iso_stage_row(stage->bytes, w->each, c->args.h.n_pes);
    w->at = w->bytes = 0;
    w->r.splits = c->call.coll->splits != NULL;
    w->r.c.dest_range = stage;
    w->r.c.args.dest = w->stage;
    w->r.c.args.bytes = w->row;
    w->r.c.args.dest_stride = 0;
    w->r.c.args.to = -1;
    w->r.peers = c->args.h.n_pes - 1;
    w->r.dest = w->stage + (size_t)c->args.h.my_pe * w->row;
    return can_run(&w->r);
}
static bool next_piece(struct rows *w)
{
    w->at += w->bytes;
    w->bytes = ISO_MIN(w->row, w->each - w->at);
    return w->bytes > 0;
}
/* Of the piece. */
static int send_rows(const struct rows *w, const char *source, size_t source_stride, size_t bytes)
{
    struct round r = w->r;
    r.source = source;
    r.source_stride = source_stride;
    r.bytes = bytes;
    r.splits_at = w->at;
    return run(&r);
}

/* Of the piece, what has come from member m, or is here. */
static void take_splits(struct rows *w, const struct stream_call *c, size_t m)
{
    struct row_part part = {0}, cut;
    while (next_cut(c, &part, (struct row_range){w->at, w->at + w->bytes}, &cut)) {
        size_t in = cut.at - part.at;
        const char *from = w->stage + m * w->row + (cut.at - w->at);
        copy(&w->r, cut.dest + m * part.bytes + in, m == (size_t)c->args.h.my_pe ? cut.source + in : from, cut.bytes, 0);
    }
}

int iso_engine_fcollect_staged(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct rows w;
    size_t me = (size_t)c->args.h.my_pe, n = members_of(c);
    (void)a;
    if (!begin_rows(&w, c, shape.grid))
        return 1;
    while (next_piece(&w)) {
        const char *mine = c->args.source + w.at;
        if (send_rows(&w, mine, 0, w.bytes) != 0)
            return 1;
        for (size_t i = 0; i < n; i++) {
            size_t m = (me + i) % n;
            if (w.r.splits)
                take_splits(&w, c, m);
            else
                copy(&w.r, c->args.dest + m * w.each + w.at, m == me ? mine : w.stage + m * w.row, w.bytes, 0);
        }
        if (w.r.rc != 0)
            return 1;
    }
    return 0;
}

/* What has come and the own block, to dest. */
static int sum_rows(const struct rows *w, const struct stream_call *c, gpu_kernel sum, struct select_shape shape)
{
    struct stream_call s = *c;
    s.args.brought = w->stage;
    s.args.dest_stride = w->row;
    return s.args.bytes > 0 ? iso_stream_launch(&s, sum, shape, false) : 0;
}

/* The same of the piece of each split. */
static int sum_splits(const struct rows *w, const struct stream_call *c, gpu_kernel sum, struct select_shape shape)
{
    struct row_part part = {0}, cut;
    struct stream_call s = *c;
    struct rows of_part = *w;
    int rc = 0;
    while (rc == 0 && next_cut(c, &part, (struct row_range){w->at, w->at + w->bytes}, &cut)) {
        size_t in = cut.at - part.at;
        of_part.stage = w->stage + (cut.at - w->at);
        s.args.source = cut.source + (size_t)c->args.h.my_pe * part.bytes + in;
        s.args.dest = cut.dest + (c->args.to_float != 0 ? 2 * in : in);
        s.args.bytes = cut.bytes;
        rc = sum_rows(&of_part, &s, sum, shape);
    }
    return rc;
}

int iso_engine_reducescatter(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct rows w;
    struct stream_call own = *c;
    int rc = begin_rows(&w, c, 1) ? 0 : 1;
    while (rc == 0 && next_piece(&w)) {
        rc = send_rows(&w, c->args.source + w.at, c->args.source_stride, w.bytes);
        if (w.r.splits) {
            rc = rc == 0 ? sum_splits(&w, c, iso_stream_reduction(a, &c->facts), shape) : rc;
            continue;
        }
        own.args.source = c->args.source + (size_t)c->args.h.my_pe * c->args.source_stride + w.at;
        own.args.dest = c->args.dest + w.at;
        own.args.bytes = w.bytes;
        rc = rc == 0 ? sum_rows(&w, &own, iso_stream_reduction(a, &c->facts), shape) : rc;
    }
    return rc;
}

/* Of the piece, the bytes that are in member m's part. */
static size_t bytes_in(const struct rows *w, const struct stream_call *c, size_t m)
{
    size_t begin = m * w->each + w->at;
    return begin < c->args.bytes ? ISO_MIN(w->bytes, c->args.bytes - begin) : 0;
}

/* A part each: it is sent to its member, which sums and sends its result to all. dest may be source: an own part is sent
 * to no one before it is a result. */
int iso_engine_allreduce(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    struct rows w;
    struct stream_call own = *c;
    size_t me = (size_t)c->args.h.my_pe, n = members_of(c);
    int rc = begin_rows(&w, c, 1) ? 0 : 1;
    while (rc == 0 && next_piece(&w)) {
        w.r.part = w.each;
        w.r.total = c->args.bytes - w.at;
        rc = send_rows(&w, c->args.source + w.at, 0, w.bytes);
        own.args.bytes = bytes_in(&w, c, me);
        own.args.source = c->args.source + (own.args.bytes > 0 ? me * w.each + w.at : 0);
        own.args.dest = c->args.dest + (own.args.source - c->args.source);
        rc = rc == 0 ? sum_rows(&w, &own, iso_stream_reduction(a, &c->facts), shape) : rc;
        w.r.part = 0;
        rc = rc == 0 ? send_rows(&w, own.args.dest, 0, own.args.bytes) : rc;
        for (size_t i = 1; i < n && rc == 0; i++) {
            size_t m = (me + i) % n;
            copy(&w.r, c->args.dest + m * w.each + w.at, w.stage + m * w.row, bytes_in(&w, c, m), 0);
            rc = w.r.rc;
        }
    }
    return rc;
}
