/* SPDX-License-Identifier: MIT */
/* SHMEM_DEBUG=1: do the members of a (team, slot) make the same calls of collectives on streams? Each member numbers
 * its calls, leaves a note of each in the slot memory of every other member, behind what kernels use, and compares the
 * notes that have come with those of its own calls. No member waits for a note: of two members, the one that comes
 * later to a call finds the note of the other, and ends or breaks the job. Each member has STREAM_NOTES places at each
 * other member, so calls are compared as long as the members are no further apart. A call that is captured leaves its
 * note at its capture; replays leave none. Invariant: a note is whole when its number is there and its sum is right.
 * Called by coll_stream.c and stream_slot.c. */
#include "../../shmem/transport/order.h"
#include "../stream/coll_stream.h"
#include "call_word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char call[] = "shmemx_coll_on_stream";

enum { STREAM_NOTES = ISO_HANDLE_NOTES };

struct note {
    uint64_t number; /* of the call, from 1 on; stored last */
    uint64_t sum;    /* of all below */
    struct slot_word call; /* the factor is 0 where the host does not know it */
    uint64_t chunk_bytes, stage_bytes;
    int32_t dest, source; /* enum reach, when peers touch them */
    int32_t to, from, engines;
    int32_t flags;         /* NOTE_ */
    uint64_t place;        /* of dest, in calls that copy engines carry; else 0 */
    uint64_t range;        /* in which that is: the number of a rendezvous; 0: of symmetric memory */
    uint64_t sends, expects; /* alltoallv with host_blocks: bytes to the receiver of this note, and from it */
    uint32_t merged_nth, merged_of; /* struct stream_merged */
};
_Static_assert(sizeof(struct note) <= ISO_HANDLE_NOTE_BYTES, "it fits its place");
enum {
    NOTE_IN_PLACE = 1,
    NOTE_CAPTURED = 2,
    NOTE_RECEIVED = 4,
    NOTE_SIGNALS = 8,
    NOTE_SAME = 16,
    NOTE_FLOAT = 32,
    NOTE_DESTS = 64,
    NOTE_SOURCES = 128
};
static const char *const flag_names[] = {"dest == source", "capture",  "blocks->received", "signals",
                                         "same_place",     "to_float", "splits->dests",    "splits->sources"};

struct stream_notes {
    const struct team *team;
    int slot, n, me;
    uint64_t *offsets; /* [n] where the notes at that member begin, in its device heap */
    uint64_t calls;    /* made so far */
    uint64_t *looked;  /* [n] the last call of that member that needs no look any more */
    uint64_t *blocks;  /* [STREAM_NOTES][n][2] of the notes in `mine`: sends, expects */
    struct note mine[STREAM_NOTES];
};

/* ---- life ---- */

struct stream_notes *iso_notes_open(const struct team *team, int slot, shmemd_t handle)
{
    struct isod_team image;
    size_t n = (size_t)handle.n_pes;
    struct stream_notes *s = (struct stream_notes *)calloc(1, sizeof *s);
    uint64_t *offsets = (uint64_t *)calloc(2 * n + STREAM_NOTES * 2 * n, sizeof *offsets);
    if (s == NULL || offsets == NULL) {
        free(s);
        free(offsets);
        return NULL;
    }
    *s = (struct stream_notes){.team = team, .slot = slot, .n = handle.n_pes, .me = handle.my_pe};
    s->offsets = offsets;
    s->looked = offsets + n;
    s->blocks = offsets + 2 * n;
    iso_agent_copy(&image, handle.team, sizeof image);
    iso_agent_copy(offsets, image.offsets, n * sizeof *offsets);
    for (size_t m = 0; m < n; m++)
        offsets[m] += isod_slot_bytes(handle.n_pes, handle.inbox_bytes, handle.lanes);
    return s;
}

void iso_notes_close(struct stream_notes *s)
{
    if (s == NULL)
        return;
    free(s->offsets);
    free(s);
}

void iso_notes_reset(struct stream_notes *s)
{
    s->calls = 0;
    memset(s->looked, 0, (size_t)s->n * sizeof *s->looked);
}

/* ---- what a note says ---- */

/* Facts of a buffer, which decide how peers touch it. Where it lies is told by the call itself. */
enum reach { UNREACHED, BY_RING, BY_POINTER };
static const char *const reach_names[] = {"not reachable", "in registered memory of the host", "reachable"};
static int32_t reach_of(const struct stream_call *c, unsigned buffer)
{
    if ((c->facts.has & buffer) == 0)
        return UNREACHED;
    return (c->facts.near & buffer) != 0 ? BY_POINTER : BY_RING;
}

/* Hosts enqueue copies, so they have to mean the same place. */
static void note_place(struct note *note, const struct stream_call *c)
{
    struct select_choice choice = {0};
    if (c->slot != NULL)
        choice = iso_stream_choose(c->slot->table, &c->facts);
    if (choice.algorithm == NULL || !choice.algorithm->engines || choice.algorithm->stages)
        return;
    note->range = c->dest_range != NULL ? c->dest_range->number : 0;
    note->place = c->dest_range != NULL ? (uint64_t)(c->args.dest - c->dest_range->address) : c->args.dest_place;
}

static uint64_t sum_of(const struct note *note)
{
    const uint64_t *words = (const uint64_t *)(const void *)note;
    uint64_t sum = note->number;
    for (size_t i = offsetof(struct note, call) / 8; i < sizeof *note / 8; i++)
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u + 1;
    return sum;
}

static struct note note_of_call(const struct stream_call *c, uint64_t number)
{
    struct note note;
    const shmemx_coll_t *coll = c->call.coll;
    memset(&note, 0, sizeof note);
    note.number = number;
    note.call = word_of(coll, 0, coll->scale_from == NULL ? &coll->scale : NULL);
    note.engines = coll->engines;
    note.chunk_bytes = coll->chunk_bytes;
    note.stage_bytes = coll->stage_bytes;
    if (coll->kind == SHMEMX_PERMUTE) {
        note.to = coll->to;
        note.from = coll->from;
    }
    note.dest = reach_of(c, ISOD_NEEDS_DEST);
    note.source = reach_of(c, ISOD_NEEDS_SOURCE);
    note_place(&note, c);
    if ((c->call.kind == SHMEMX_ALLREDUCE || coll->kind == SHMEMX_BROADCAST) && coll->nelems != 0 &&
        coll->dest == coll->source)
        note.flags |= NOTE_IN_PLACE;
    bool by_engines = call_is(&c->call, HAS_ENGINES) || (call_is(&c->call, HAS_STAGE) && coll->stage_bytes != 0);
    if (by_engines && iso_gpu_stream_is_capturing(c->device->gpu, c->stream))
        note.flags |= NOTE_CAPTURED;
    if (coll->kind == SHMEMX_ALLTOALLV && coll->blocks != NULL && coll->blocks->received != NULL)
        note.flags |= NOTE_RECEIVED;
    if (coll->same_place != 0)
        note.flags |= NOTE_SAME;
    if (coll->signals != NULL)
        note.flags |= NOTE_SIGNALS;
    if (coll->to_float != 0)
        note.flags |= NOTE_FLOAT;
    if (coll->splits != NULL)
        note.flags |=
            (coll->splits->dests != NULL ? NOTE_DESTS : 0) | (coll->splits->sources != NULL ? NOTE_SOURCES : 0);
    note.merged_nth = c->merged.nth;
    note.merged_of = c->merged.of;
    note.sum = sum_of(&note);
    return note;
}

/* "SHMEMX_BROADCAST(16 of SHMEMX_INT32, root 0, dest ...)" */
static const char *note_text_of(const struct note *note, char text[WORD_TEXT_BYTES])
{
    int kind = (int)word_field(&note->call, WORD_KIND, WORD_KIND_BITS);
    bool lists = word_field(&note->call, WORD_LISTS, 1) != 0;
    unsigned is = lists ? 0 : iso_call_kinds[kind].is;
    char place[80] = "";
    iso_word_text(&note->call, text);
    if (kind == SHMEMX_ALLTOALLV && lists)
        iso_word_add(text, "sends it %llu, expects %llu bytes", (unsigned long long)note->sends,
                     (unsigned long long)note->expects);
    else if (kind == SHMEMX_ALLTOALLV)
        iso_word_add(text, "%s received", (note->flags & NOTE_RECEIVED) != 0 ? "with" : "no");
    if (kind == SHMEMX_PERMUTE)
        iso_word_add(text, "to %d, from %d", (int)note->to, (int)note->from);
    if (note->engines != 0)
        iso_word_add(text, "engines");
    if ((note->flags & NOTE_CAPTURED) != 0)
        iso_word_add(text, "captured");
    if ((note->flags & NOTE_SIGNALS) != 0)
        iso_word_add(text, "chunk_bytes %llu", (unsigned long long)note->chunk_bytes);
    if (note->stage_bytes != 0)
        iso_word_add(text, "stage_bytes %llu", (unsigned long long)note->stage_bytes);
    if (note->place != 0 || note->range != 0)
        snprintf(place, sizeof place, " at %#llx of %s %llu", (unsigned long long)note->place,
                 note->range != 0 ? "the range of rendezvous" : "segment", (unsigned long long)note->range);
    if ((is & PEERS_WRITE) != 0)
        iso_word_add(text, "dest %s%s", reach_names[note->dest], place);
    if ((is & PEERS_READ) != 0)
        iso_word_add(text, "source %s", reach_names[note->source]);
    if (note->merged_of != 0)
        iso_word_add(text, "%u of %u that a batch does at once", note->merged_nth + 1, note->merged_of);
    if ((note->flags & NOTE_IN_PLACE) != 0)
        iso_word_add(text, "in place");
    if ((note->flags & NOTE_SAME) != 0)
        iso_word_add(text, "same_place");
    for (int flag = 5; flag < 8; flag++)
        if ((note->flags & 1 << flag) != 0)
            iso_word_add(text, "%s", flag_names[flag]);
    return iso_word_end(text);
}

/* ---- comparing ---- */

/* The first difference; NULL: the calls fit. */
static const char *difference(const struct stream_notes *s, const struct note *mine, int m, const struct note *theirs)
{
    const char *what = iso_word_difference(&mine->call, &theirs->call);
    if (what != NULL)
        return what;
    if (mine->engines != theirs->engines || mine->chunk_bytes != theirs->chunk_bytes)
        return mine->engines != theirs->engines ? "engines" : "chunk_bytes";
    if (mine->stage_bytes != theirs->stage_bytes)
        return "stage_bytes";
    if (mine->sends != theirs->expects || mine->expects != theirs->sends)
        return "the sizes of host_blocks";
    bool permutes = word_field(&mine->call, WORD_KIND, WORD_KIND_BITS) == SHMEMX_PERMUTE;
    if (permutes && ((mine->to == m) != (theirs->from == s->me) || (mine->from == m) != (theirs->to == s->me)))
        return "to and from";
    if (mine->flags != theirs->flags)
        return flag_names[__builtin_ctz((unsigned)(mine->flags ^ theirs->flags))];
    if (mine->merged_nth != theirs->merged_nth || mine->merged_of != theirs->merged_of)
        return "the batch";
    if (mine->dest != theirs->dest || mine->source != theirs->source)
        return mine->dest != theirs->dest ? "the reach of dest" : "the reach of source";
    return mine->range != theirs->range || mine->place != theirs->place
               ? "the place of dest, which copy engines need alike or told by shmemx_rendezvous,"
               : NULL;
}

/* The own note of that call, or of a later one, as member m gets it. */
static struct note note_for(const struct stream_notes *s, int m, uint64_t number)
{
    struct note note = s->mine[number % STREAM_NOTES];
    const uint64_t *blocks = &s->blocks[((size_t)(number % STREAM_NOTES) * (size_t)s->n + (size_t)m) * 2];
    note.sends = blocks[0];
    note.expects = blocks[1];
    note.sum = sum_of(&note);
    return note;
}

static int compare_notes(const struct stream_notes *s, int m, const struct note *theirs)
{
    struct note own = note_for(s, m, theirs->number), *mine = &own;
    const char *what = mine->number == theirs->number ? difference(s, mine, m, theirs) : NULL;
    char ours[WORD_TEXT_BYTES], other[WORD_TEXT_BYTES];
    if (what == NULL)
        return 0;
    /* The other member has enqueued its call and looks no more: it learns by the end of the job. */
    return iso_refuse_alone(call, "collective mismatch of %s in call %llu of slot %d: pe %d calls %s, pe %d calls %s",
                            what, (unsigned long long)theirs->number, s->slot, s->team->world_of[s->me],
                            note_text_of(mine, ours), s->team->world_of[m], note_text_of(theirs, other));
}

static size_t note_offset_of(const struct stream_notes *s, int at, int from, uint64_t number)
{
    return s->offsets[at] + ((size_t)from * STREAM_NOTES + number % STREAM_NOTES) * sizeof(struct note);
}

/* The number is stored behind the rest (quiet), which pairs with the load in take. */
static void leave(const struct stream_notes *s, int m, const struct note *note)
{
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_DEVICE];
    struct place to = {NULL, heap, heap->base + note_offset_of(s, m, s->me, note->number), s->team->world_of[m]};
    size_t skip = sizeof note->number;
    iso_far_put(&ISO->ctx_default, iso_place_behind(to, skip), (const char *)note + skip, sizeof *note - skip, call);
    iso_quiet(&ISO->ctx_default);
    iso_far_store(&ISO->ctx_default, to, note->number, 8, call);
}

/* The number that stands in the place of that call; *note is whole only when it is the number asked for. */
static uint64_t take(const struct stream_notes *s, int m, uint64_t number, struct note *note)
{
    const char *at = ISO->segments[SEGMENT_INDEX_DEVICE].base + note_offset_of(s, s->me, m, number);
    uint64_t seen = iso_agent_load(at, sizeof seen);
    if (seen == number)
        iso_agent_copy(note, at, sizeof *note);
    return seen;
}

/* Compares all notes that have come from member m for calls that this member has made. */
static int look_at_notes(struct stream_notes *s, int m)
{
    int rc = 0;
    while (s->looked[m] < s->calls) {
        struct note note;
        uint64_t number = s->looked[m] + 1, seen = take(s, m, number, &note);
        if (seen < number)
            return rc; /* m has not come to this call */
        if (seen == number && note.number == number && note.sum == sum_of(&note))
            rc = compare_notes(s, m, &note);
        s->looked[m] = number; /* else m is so far ahead that it has written over the note */
    }
    return rc;
}

/* The quiet between both halves is a full fence on each member: of two notes that are left at once, one is found. */
int iso_notes_call(struct stream_notes *s, const struct stream_call *c)
{
    struct note note = note_of_call(c, ++s->calls);
    const shmemx_host_blocks_t *b = c->call.coll->host_blocks;
    uint64_t *blocks = &s->blocks[(size_t)(note.number % STREAM_NOTES) * (size_t)s->n * 2];
    s->mine[note.number % STREAM_NOTES] = note;
    for (int m = 0; m < s->n; m++) {
        blocks[2 * m] = b != NULL ? b->send_bytes[m] : 0;
        blocks[2 * m + 1] = b != NULL ? b->receive_bytes[m] : 0;
    }
    for (int i = 1; i < s->n; i++) {
        int m = (s->me + i) % s->n;
        note = note_for(s, m, s->calls);
        leave(s, m, &note);
    }
    iso_quiet(&ISO->ctx_default);
    int rc = 0;
    for (int i = 1; i < s->n && rc == 0; i++)
        rc = look_at_notes(s, (s->me + i) % s->n);
    return rc;
}
