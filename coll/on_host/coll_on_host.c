/* SPDX-License-Identifier: MIT */
/* shmemx_coll_on_host: a shmemx_coll_t on host memory at any address. Members see nothing of each other's dest and
 * source: each sends pieces into its stages at the others, who copy them out, or combine them into their dest. So
 * private, symmetric, misaligned memory is all the same, on one node and between nodes. Long blocks of one node are read
 * where they lie by those who need them (pull.h), if the kernel allows it. Every piece is one staged epoch
 * (coll.h), in which all members send to all, if only a flag. Invariant: members differ in addresses and in an
 * alltoallv's blocks only; the epochs depend on what is equal, or was told to all. Called by users. */
#include "../../bootstrap/log.h"
#include "../../device/api/half_device.h"
#include "../../include/shmemx_coll.h"
#include "../../shmem/team/agree.h"
#include "../../shmem/transport/order.h"
#include "../call/check.h"
#include "../call/call_word.h"
#include "pull.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define CALL "shmemx_coll_on_host"

/* Where block m begins when the blocks lie one behind the other: a sum that goes on from call to call. */
struct running_sum {
    int m;
    size_t at;
};

/* The split at which a packed block is looked at, from low to high. */
struct split_place {
    size_t i, begin, at; /* it begins at byte `begin` of a packed block, and at element `at` of a member's block */
};

/* One call, on the stack of the caller. */
struct host_call {
    const shmemx_coll_t *coll;
    struct coll_call *call;
    struct coll c;
    char *dest;
    const char *source;
    coll_combine_fn *combine; /* reductions */
    bool is_short;            /* of formats of 16 and 8 bits, which are combined in float */
    struct running_sum sent, received; /* host_blocks */
    bool differs;                      /* host_blocks: not what a member sends, or expects */
    bool has_word;                     /* word.h */
    bool is_over;                      /* no further piece: the calls differ, or the job is broken */
    int rc;                            /* the calls differ */
    struct slot_word word;             /* of the first piece's epoch */
    struct split_place split;
    struct pull *pull;        /* room for it */
    bool pulls;               /* reductions: pieces of others are read from their source; false: are in the stages */
    size_t pulled_at;         /* where in their source the piece is */
};

/* ---- kinds and types ---- */

static unsigned host_call_is(const struct host_call *h, unsigned what) { return call_is(h->call, what); }
static bool is_root(const struct host_call *h) { return h->c.me == h->coll->root; }

/* ---- checks ---- */

/* The host cannot load from device memory, except on the CPU device. */
static bool host_pointer_is_valid(const struct coll_call *c, const char *arg, const void *addr, size_t alignment)
{
    const struct segment *s = strcmp(ISO_GPU, "cpu") == 0 ? NULL : iso_segment_of(addr, 1);
    (void)alignment; /* any */
    if (iso_segment_lent(addr) != NULL)
        return iso_check_wrong(c, "%s %p " ISO_LENT_BACK, arg, addr);
    return s == NULL || !s->on_device ||
           iso_check_wrong(c, "%s %p is device memory; shmemx_coll_on_stream takes it", arg, addr);
}

static bool begin_host_call(struct host_call *h)
{
    const shmemx_coll_t *coll = h->coll;
    if (!iso_check_kind(h->call, CALL, coll))
        return false;
    if (coll->engines != 0)
        return iso_check_wrong(h->call, "engines is %d; copy engines are for device memory, so it is 0 here",
                               coll->engines);
    if (coll->rms_norm != NULL)
        return iso_check_wrong(h->call, "rms_norm is given; shmemx_coll_on_stream takes it");
    if (coll->signals != NULL || coll->signal_value != NULL || coll->chunk_bytes != 0)
        return iso_check_wrong(
            h->call, "signals, signal_value or chunk_bytes is given; they are for copy engines, so they are 0 here");
    if (coll->to_float != 0 || (coll->splits != NULL && (coll->splits->dests != NULL || coll->splits->sources != NULL)))
        return iso_check_wrong(h->call,
                               "to_float, splits->dests or splits->sources is given; they are for copy engines, "
                               "so they are 0 and null pointers here");
    if (!iso_check_numbers(h->call) || !iso_check_memory(h->call, host_pointer_is_valid))
        return false;
    struct team *team = h->call->team;
    h->c = (struct coll){&team->slot, team->slot.views, 0, team->my_pe, team->n_pes, CALL, team};
    h->dest = (char *)coll->dest;
    h->source = (const char *)coll->source;
    h->is_short =
        host_call_is(h, REDUCES) && iso_call_types[coll->type].is == REAL && h->call->elem_bytes < sizeof(float);
    h->combine = host_call_is(h, REDUCES) ? iso_reduce_combine(coll->type, coll->op) : NULL;
    h->sent = h->received = (struct running_sum){0, 0};
    h->split = (struct split_place){0, 0, 0};
    h->word.call = h->pulled_at = 0;
    h->differs = h->has_word = h->is_over = h->pulls = false;
    h->rc = 0;
    return true;
}

/* ---- pieces ---- */

enum { PAIR_SENDS = 1, PAIR_EXPECTS = 2 }; /* a permute, in place of the root */

/* Removes and compares the fields that concern this pair alone (host_blocks, permute). Members outside the pair do not
 * know of a difference, so the call goes on. */
static void compare_pair(struct host_call *h, int m, struct slot_word *theirs)
{
    const shmemx_coll_t *coll = h->coll;
    const shmemx_host_blocks_t *hb = coll->host_blocks;
    int pe = h->c.team->world_of[m];
    uint64_t amount = theirs->amount;
    unsigned pair = word_field(theirs, WORD_ROOT, WORD_ROOT_BITS);
    if (((theirs->call ^ h->word.call) & ~((uint64_t)UINT16_MAX << WORD_ROOT)) != 0)
        return; /* another call */
    theirs->call = h->word.call;
    if (hb != NULL)
        theirs->amount = 0;
    if (h->differs)
        return;
    h->differs = true;
    if (hb != NULL && amount != hb->send_bytes[m])
        (void)iso_check_wrong(h->call, "host_blocks->send_bytes[%d] is %zu, but pe %d expects %" PRIu64 " bytes", m,
                              hb->send_bytes[m], pe, amount);
    else if (hb == NULL && ((pair & PAIR_SENDS) != 0) != (coll->from == m))
        (void)iso_check_wrong(h->call, "from is %d, but pe %d %s a block to this PE", coll->from, pe,
                              (pair & PAIR_SENDS) != 0 ? "sends" : "does not send");
    else if (hb == NULL && ((pair & PAIR_EXPECTS) != 0) != (coll->to == m))
        (void)iso_check_wrong(h->call, "to is %d, but pe %d %s a block of this PE", coll->to, pe,
                              (pair & PAIR_EXPECTS) != 0 ? "expects" : "does not expect");
    else
        h->differs = false;
}

static void begin_piece(struct host_call *h)
{
    coll_begin_staged_epoch(&h->c);
    if (h->has_word && h->word.call == 0)
        h->word = word_of(h->coll, h->c.epoch, h->coll->scale_from != NULL ? h->coll->scale_from : &h->coll->scale);
}
/* The first piece of a call has its word. */
static bool has_its_word(const struct host_call *h)
{
    return h->has_word && (uint32_t)h->word.call == (uint32_t)h->c.epoch;
}

/* The word directly before the flag: the receiver looks at their line, so each store that is alone costs a hop. */
static void set_flag(struct host_call *h, int to)
{
    if (has_its_word(h)) {
        const shmemx_coll_t *coll = h->coll;
        struct slot_word word = h->word;
        if (coll->host_blocks != NULL)
            word.amount = coll->host_blocks->receive_bytes[to];
        else if (coll->kind == SHMEMX_PERMUTE)
            word.call |= (uint64_t)((coll->to == to ? PAIR_SENDS : 0) | (coll->from == to ? PAIR_EXPECTS : 0))
                         << WORD_ROOT;
        coll_word_put(&h->c, to, &word);
    }
    coll_flag_set(&h->c, to);
}

/* `data` NULL: the flag alone. */
static void send_piece(struct host_call *h, int to, const char *data, size_t bytes)
{
    if (data != NULL)
        coll_stage_put(&h->c, to, 0, data, bytes);
    set_flag(h, to);
}

/* Says that member `from` is in another call. Where its word is an old one, it is in a call without a word. Then the
 * other members cannot know, and the job breaks. */
static ISO_COLD void refuse_word(struct host_call *h, int from, const struct slot_word *theirs)
{
    int pe = h->c.team->world_of[from];
    char ours[WORD_TEXT_BYTES], other[WORD_TEXT_BYTES];
    h->is_over = true;
    iso_word_text(&h->word, ours);
    iso_word_text(theirs, other);
    if ((uint32_t)theirs->call != (uint32_t)h->word.call)
        h->rc = iso_refuse_alone(CALL, "collective mismatch of kind: pe %d calls %s, pe %d calls another collective",
                               ISO->my_pe, iso_word_end(ours), pe);
    else
        h->rc = iso_refuse(CALL, "collective mismatch of %s: pe %d calls %s, pe %d calls %s",
                         iso_word_difference(&h->word, theirs), ISO->my_pe, iso_word_end(ours), pe,
                         iso_word_end(other));
}

/* Compares the words of the first piece. All that have come, also in a broken job: the difference may be why. */
static void compare_words(struct host_call *h)
{
    struct coll *c = &h->c;
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        if (ISO_UNLIKELY(h->is_over) && coll_flag_of(c, from) < c->epoch)
            continue;
        struct slot_word theirs = *coll_word_from(c, from);
        if (h->coll->host_blocks != NULL || h->coll->kind == SHMEMX_PERMUTE)
            compare_pair(h, from, &theirs);
        if (ISO_UNLIKELY(!word_is_equal(&h->word, &theirs))) {
            refuse_word(h, from, &theirs);
            return;
        }
    }
}

/* Waits for the pieces of all. False: none of them may be used, nor may more be sent. */
static bool have_come(struct host_call *h)
{
    coll_flag_wait_all(&h->c);
    h->is_over = iso_job_is_broken() || iso_slot_is_broken(h->c.slot);
    if (has_its_word(h))
        compare_words(h);
    return !h->is_over;
}

/* ---- moves ---- */

/* The block for member m, and where the block from member m goes; NULL: there is none. */
static const char *outgoing(const struct host_call *h, int m)
{
    const shmemx_coll_t *coll = h->coll;
    bool sends = host_call_is(h, TO_ROOT)  ? m == coll->root
                 : host_call_is(h, ROOTED) ? is_root(h)
                                           : coll->kind != SHMEMX_PERMUTE || m == coll->to;
    return sends ? h->source + (host_call_is(h, MANY_FROM) ? (size_t)m * h->call->block : 0) : NULL;
}
static char *incoming(const struct host_call *h, int m)
{
    const shmemx_coll_t *coll = h->coll;
    bool comes = host_call_is(h, TO_ROOT)  ? is_root(h)
                 : host_call_is(h, ROOTED) ? m == coll->root
                                           : coll->kind != SHMEMX_PERMUTE || m == coll->from;
    return comes ? h->dest + (host_call_is(h, MANY_TO) ? (size_t)m * h->call->block : 0) : NULL;
}

/* ---- long blocks: members read them where they lie (pull.h) ---- */

#define LONG_BYTES ((size_t)2 * ISO_STAGE_BYTES) /* above: worth the exchange of places */

/* One piece, by which members tell each other where they have what. The same on all members. */
static bool begin_pull(struct host_call *h, const struct pull_arrays *arrays)
{
    struct coll *c = &h->c;
    struct pull *p = h->pull;
    if (!pull_offer(p, c, arrays))
        return false;
    begin_piece(h);
    for (int i = 1; i < c->n; i++)
        send_piece(h, coll_other(c, i), (const char *)&p->members[c->me], sizeof p->members[0]);
    if (!have_come(h))
        return false;
    for (int i = 1; i < c->n; i++)
        memcpy(&p->members[coll_other(c, i)], coll_stage_from(c, coll_other(c, i)), sizeof p->members[0]);
    return pull_begin(p, arrays);
}

/* The same on all members. False: nothing was moved. */
static bool pull_data(struct host_call *h)
{
    struct coll *c = &h->c;
    bool sends = !host_call_is(h, ROOTED) || host_call_is(h, TO_ROOT) || is_root(h);
    const struct pull_arrays arrays = {{sends ? h->source : NULL, NULL},
                                       {h->call->block * (host_call_is(h, MANY_FROM) ? (size_t)c->n : 1), 0},
                                       false,
                                       0};
    if (h->call->block <= LONG_BYTES || !begin_pull(h, &arrays))
        return false;
    size_t at = host_call_is(h, MANY_FROM) ? (size_t)c->me * h->call->block : 0;
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        char *to = incoming(h, from);
        if (to != NULL)
            pull_read(h->pull, (struct pull_range){from, PULL_SOURCE, at, h->call->block}, to);
    }
    pull_end(h->pull);
    return true;
}

static void move_data(struct host_call *h)
{
    struct coll *c = &h->c;
    if (outgoing(h, c->me) != NULL && incoming(h, c->me) != NULL)
        coll_copy_own(incoming(h, c->me), outgoing(h, c->me), h->call->block);
    if (pull_data(h))
        return;
    for (size_t at = 0; at < h->call->block && c->n > 1 && !h->is_over; at += ISO_STAGE_BYTES) {
        size_t bytes = ISO_MIN(h->call->block - at, (size_t)ISO_STAGE_BYTES);
        begin_piece(h);
        for (int i = 1; i < c->n; i++) {
            const char *from = outgoing(h, coll_other(c, i));
            send_piece(h, coll_other(c, i), from != NULL ? from + at : NULL, bytes);
        }
        if (!have_come(h))
            return;
        for (int i = 1; i < c->n; i++) {
            int from = coll_other(c, i);
            char *to = incoming(h, from);
            if (to != NULL)
                memcpy(to + at, coll_stage_from(c, from), bytes);
        }
    }
}

/* ---- blocks of any size ---- */

/* Before each piece of an alltoallv. */
struct piece_head {
    uint64_t bytes;  /* of the whole block */
    uint64_t place;  /* of the block in the receiver's dest */
    uint64_t most;   /* the largest block that this sender has for any member */
    uint64_t source; /* where the block is in the sender's source */
};
#define PIECE_BYTES (ISO_STAGE_BYTES - sizeof(struct piece_head))

/* What goes to member m, and what it is said to send. */
struct outgoing {
    uint64_t bytes, source, dest; /* dest: of the receiver; with host_blocks it knows */
};
static size_t offset_of(struct running_sum *s, const size_t *bytes, const size_t *offset, int m)
{
    if (offset != NULL)
        return offset[m];
    if (m < s->m)
        *s = (struct running_sum){0, 0};
    while (s->m < m)
        s->at += bytes[s->m++];
    return s->at;
}
static struct outgoing block_to(struct host_call *h, int m)
{
    const shmemx_blocks_t *b = h->coll->blocks;
    const shmemx_host_blocks_t *hb = h->coll->host_blocks;
    if (hb == NULL)
        return (struct outgoing){b->bytes[m], b->source_offset[m], b->dest_offset[m]};
    return (struct outgoing){hb->send_bytes[m], offset_of(&h->sent, hb->send_bytes, hb->send_offset, m), 0};
}
/* The head as this member's own arrays have it: no byte too many. */
static void expect_host(struct host_call *h, struct piece_head *head, int from)
{
    const shmemx_host_blocks_t *hb = h->coll->host_blocks;
    uint64_t bytes = hb->receive_bytes[from];
    if (bytes != head->bytes && !h->differs) {
        (void)iso_check_wrong(h->call, "host_blocks->receive_bytes[%d] is %zu, but pe %d sends %llu bytes", from,
                              hb->receive_bytes[from], h->c.team->world_of[from], (unsigned long long)head->bytes);
        h->differs = true;
    }
    head->place = offset_of(&h->received, hb->receive_bytes, hb->receive_offset, from);
    head->bytes = ISO_MIN(head->bytes, bytes);
}

static void send_blocks(struct host_call *h, uint64_t at, uint64_t most)
{
    struct coll *c = &h->c;
    begin_piece(h);
    for (int i = 1; i < c->n; i++) {
        int to = coll_other(c, i);
        struct outgoing block = block_to(h, to);
        struct piece_head head = {block.bytes, block.dest, most, block.source};
        coll_stage_put(c, to, 0, &head, sizeof head);
        if (at < head.bytes)
            coll_stage_put(c, to, sizeof head, h->source + block.source + at, ISO_MIN(head.bytes - at, PIECE_BYTES));
        set_flag(h, to);
    }
}

/* The largest of `most` and of what the others have said. heads: of each member, with its block's bytes and place as
 * this member has them; NULL: not wanted. */
static uint64_t receive_blocks(struct host_call *h, uint64_t at, uint64_t most, struct piece_head *heads)
{
    struct coll *c = &h->c;
    if (!have_come(h))
        return 0;
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        struct piece_head head;
        memcpy(&head, coll_stage_from(c, from), sizeof head);
        if (h->coll->host_blocks != NULL)
            expect_host(h, &head, from);
        if (at < head.bytes)
            memcpy(h->dest + head.place + at, coll_stage_from(c, from) + sizeof head,
                   ISO_MIN(head.bytes - at, PIECE_BYTES));
        if (h->coll->host_blocks == NULL && h->coll->blocks->received != NULL)
            h->coll->blocks->received[from] = head.bytes;
        if (heads != NULL)
            heads[from] = head;
        most = ISO_MAX(most, head.most);
    }
    return most;
}

/* What is left of the blocks behind their first pieces, as pull_data. end: of the last block in this member's source. */
static bool pull_blocks(struct host_call *h, uint64_t most, uint64_t end, const struct piece_head *heads)
{
    struct coll *c = &h->c;
    const struct pull_arrays arrays = {{h->source, NULL}, {end, 0}, true, 0};
    if (most <= LONG_BYTES || !begin_pull(h, &arrays))
        return false;
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        const struct piece_head *head = &heads[from];
        if (head->bytes > PIECE_BYTES)
            pull_read(h->pull,
                      (struct pull_range){from, PULL_SOURCE, head->source + PIECE_BYTES, head->bytes - PIECE_BYTES},
                      h->dest + head->place + PIECE_BYTES);
    }
    pull_end(h->pull);
    return true;
}

/* All have the same largest block after the first piece, and so the same number of pieces. */
static void move_blocks(struct host_call *h)
{
    const shmemx_host_blocks_t *hb = h->coll->host_blocks;
    int me = h->c.me;
    uint64_t mine = 0, most = 0, end = 0;
    for (int m = 0; m < h->c.n; m++) {
        struct outgoing block = block_to(h, m);
        mine = ISO_MAX(mine, block.bytes);
        end = block.bytes > 0 ? ISO_MAX(end, block.source + block.bytes) : end;
    }
    struct outgoing own = block_to(h, me);
    if (hb != NULL)
        own.dest = offset_of(&h->received, hb->receive_bytes, hb->receive_offset, me);
    else if (h->coll->blocks->received != NULL)
        h->coll->blocks->received[me] = own.bytes;
    if (own.bytes > 0)
        coll_copy(h->dest + own.dest, h->source + own.source, own.bytes);
    for (uint64_t at = 0; h->c.n > 1 && !h->is_over && (at == 0 || at < most); at += PIECE_BYTES) {
        struct piece_head heads[PULL_MEMBERS];
        bool is_first = at == 0 && h->c.n <= PULL_MEMBERS;
        send_blocks(h, at, mine);
        most = receive_blocks(h, at, mine, is_first ? heads : NULL);
        if (is_first && pull_blocks(h, most, end, heads))
            return;
    }
}

/* ---- reductions ---- */

#define CHUNK_BYTES 4096 /* combined at a time, in the first cache */
union chunk {
    char bytes[CHUNK_BYTES];
    float f[CHUNK_BYTES / sizeof(float)];
    double d[CHUNK_BYTES / sizeof(double)];
    long double aligned;
};

/* SHMEMX type, the name in half_device.h, its bits: X(type, name, T). */
#define SHORT_FLOATS(X)                    \
    X(SHMEMX_HALF, half, uint16_t)         \
    X(SHMEMX_BFLOAT16, bfloat16, uint16_t) \
    X(SHMEMX_FLOAT8_E4M3, e4m3, uint8_t)   \
    X(SHMEMX_FLOAT8_E5M2, e5m2, uint8_t)

/* Elements as they are combined: where they lie, or in `room`. */
static const void *widen(const struct host_call *h, const char *from, size_t nelems, union chunk *room)
{
    if (!h->is_short) {
        if (((uintptr_t)from & (sizeof(long double) - 1)) == 0)
            return from;
        return memcpy(room->bytes, from, nelems * h->call->elem_bytes);
    }
#define WIDEN(type, name, T)                                    \
    case type:                                                  \
        for (size_t i = 0; i < nelems; i++) {                   \
            T bits;                                             \
            memcpy(&bits, from + sizeof bits * i, sizeof bits); \
            room->f[i] = isod_##name##_to_float(bits);          \
        }                                                       \
        break;
    switch (h->coll->type) {
        SHORT_FLOATS(WIDEN)
    }
    return room->f;
}

static void scale(const struct host_call *h, union chunk *sum, size_t nelems)
{
    const shmemx_coll_t *coll = h->coll;
    double by = coll->op == SHMEMX_AVG ? (double)h->c.n : coll->scale_from != NULL ? *coll->scale_from : coll->scale;
    bool divides = coll->op == SHMEMX_AVG;
    if (coll->type == SHMEMX_DOUBLE) {
        for (size_t i = 0; i < nelems; i++)
            sum->d[i] = divides ? sum->d[i] / by : sum->d[i] * by;
    } else {
        for (size_t i = 0; i < nelems; i++)
            sum->f[i] = divides ? sum->f[i] / (float)by : sum->f[i] * (float)by;
    }
}

static void narrow(const struct host_call *h, char *to, const union chunk *sum, size_t nelems)
{
    if (!h->is_short) {
        memcpy(to, sum->bytes, nelems * h->call->elem_bytes);
        return;
    }
#define NARROW(type, name, T)                                 \
    case type:                                                \
        for (size_t i = 0; i < nelems; i++) {                 \
            T bits = isod_##name##_from_float(sum->f[i]);     \
            memcpy(to + sizeof bits * i, &bits, sizeof bits); \
        }                                                     \
        break;
    switch (h->coll->type) {
        SHORT_FLOATS(NARROW)
    }
}

/* The pieces of all members, which have come, this one's at `own`, in the order of members. */
static void combine(struct host_call *h, char *to, const char *own, size_t bytes)
{
    union chunk sum, room;
    size_t one = h->call->elem_bytes, most = CHUNK_BYTES / (h->is_short ? sizeof(float) : one) * one;
    for (size_t at = 0; at < bytes; at += most) {
        size_t nelems = ISO_MIN(bytes - at, most) / one;
        for (int m = 0; m < h->c.n; m++) {
            const char *from = own;
            if (m != h->c.me)
                from = h->pulls ? pull_pointer(h->pull, m, PULL_SOURCE, h->pulled_at) : coll_stage_from(&h->c, m);
            if (from == NULL) /* no pointer reaches it: the kernel has read it into a room */
                from = pull_room(h->pull, m);
            const void *operand = widen(h, from + at, nelems, m == 0 ? &sum : &room);
            if (m > 0)
                h->combine(&sum, &sum, operand, nelems);
            else if (operand != (const void *)&sum)
                memcpy(&sum, operand, nelems * h->call->elem_bytes);
        }
        if (iso_call_ops[h->coll->op].scaling != ISOD_SCALING_NONE)
            scale(h, &sum, nelems);
        narrow(h, to + at, &sum, nelems);
    }
}

/* `bytes` at `offset` of the sources of all members, combined. */
static void combine_pulled(struct host_call *h, char *to, size_t offset, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += h->pull->piece) {
        size_t piece = ISO_MIN(bytes - at, h->pull->piece);
        h->pulled_at = offset + at;
        for (int i = 1; i < h->c.n; i++) {
            int from = coll_other(&h->c, i);
            if (pull_pointer(h->pull, from, PULL_SOURCE, h->pulled_at) == NULL)
                pull_read(h->pull, (struct pull_range){from, PULL_SOURCE, h->pulled_at, piece},
                          pull_room(h->pull, from));
        }
        combine(h, to + at, h->source + h->pulled_at, piece);
    }
}

/* As pull_data, for reductions of source, and where `dest` is not 0 of dest, of which a member combines `share`. */
static bool pull_start(struct host_call *h, size_t source, size_t dest, size_t share)
{
    const struct pull_arrays arrays = {{h->source, h->dest}, {source, dest}, false, share};
    h->pulls = share > LONG_BYTES && begin_pull(h, &arrays);
    return h->pulls;
}

/* `bytes` of each member's block m, at `at` in it, to member m, who combines them. */
static void reduce_scatter(struct host_call *h)
{
    struct coll *c = &h->c;
    if (pull_start(h, h->call->block * (size_t)c->n, 0, h->call->block)) {
        combine_pulled(h, h->dest, (size_t)c->me * h->call->block, h->call->block);
        pull_end(h->pull);
        return;
    }
    for (size_t at = 0; at < h->call->block && !h->is_over; at += ISO_STAGE_BYTES) {
        size_t bytes = ISO_MIN(h->call->block - at, (size_t)ISO_STAGE_BYTES);
        begin_piece(h);
        for (int i = 1; i < c->n; i++)
            send_piece(h, coll_other(c, i), outgoing(h, coll_other(c, i)) + at, bytes);
        if (have_come(h))
            combine(h, h->dest + at, outgoing(h, c->me) + at, bytes);
    }
}

/* Short: each member gets all, and combines all. */
#define SHORT_BYTES 2048
/* Member m's share of `bytes`. */
struct share {
    size_t at, bytes;
};
static struct share share_of(const struct host_call *h, int m, size_t bytes)
{
    size_t n = (size_t)h->c.n, unit = ISO_MAX(h->call->elem_bytes, (size_t)ISO_LINE);
    size_t most = (bytes / n + (bytes % n != 0) + unit - 1) / unit * unit;
    size_t at = ISO_MIN((size_t)m * most, bytes);
    return (struct share){at, ISO_MIN(bytes - at, most)};
}

/* Two hops for each n stages: share m of it goes to member m, and combined to all, or to the root. */
static void reduce_shares(struct host_call *h, size_t at, size_t bytes)
{
    struct coll *c = &h->c;
    struct share mine = share_of(h, c->me, bytes);
    bool all = h->coll->kind != SHMEMX_REDUCE;
    char room[ISO_STAGE_BYTES], *result = all || is_root(h) ? h->dest + at + mine.at : room;
    begin_piece(h);
    for (int i = 1; i < c->n; i++) {
        struct share theirs = share_of(h, coll_other(c, i), bytes);
        send_piece(h, coll_other(c, i), h->source + at + theirs.at, theirs.bytes);
    }
    if (!have_come(h))
        return;
    combine(h, result, h->source + at + mine.at, mine.bytes);

    begin_piece(h);
    for (int i = 1; i < c->n; i++)
        send_piece(h, coll_other(c, i), all || coll_other(c, i) == h->coll->root ? result : NULL, mine.bytes);
    if (!have_come(h) || !(all || is_root(h)))
        return;
    for (int i = 1; i < c->n; i++) {
        struct share theirs = share_of(h, coll_other(c, i), bytes);
        coll_copy(h->dest + at + theirs.at, coll_stage_from(c, coll_other(c, i)), theirs.bytes);
    }
}

/* The same at once, and each member reads for itself. */
static void reduce_pulled(struct host_call *h)
{
    struct share mine = share_of(h, h->c.me, h->call->block);
    combine_pulled(h, h->dest + mine.at, mine.at, mine.bytes);
    pull_meet(h->pull);
    for (int i = 1; i < h->c.n; i++) {
        int from = coll_other(&h->c, i);
        struct share theirs = share_of(h, from, h->call->block);
        pull_read(h->pull, (struct pull_range){from, PULL_DEST, theirs.at, theirs.bytes}, h->dest + theirs.at);
    }
    pull_end(h->pull);
}

/* The root reads and combines all. */
static bool reduce_at_root(struct host_call *h)
{
    const struct pull_arrays arrays = {{h->source, NULL}, {h->call->block, 0}, false, is_root(h) ? h->call->block : 0};
    if (h->call->block <= LONG_BYTES || !begin_pull(h, &arrays))
        return false;
    h->pulls = true;
    if (is_root(h))
        combine_pulled(h, h->dest, 0, h->call->block);
    pull_end(h->pull);
    return true;
}

static void reduce_all(struct host_call *h)
{
    size_t most = (size_t)h->c.n * ISO_STAGE_BYTES;
    if (h->call->block <= SHORT_BYTES) { /* all of it to each member that gets the result */
        bool all = h->coll->kind != SHMEMX_REDUCE;
        begin_piece(h);
        for (int i = 1; i < h->c.n; i++) {
            int to = coll_other(&h->c, i);
            send_piece(h, to, all || to == h->coll->root ? h->source : NULL, h->call->block);
        }
        if (have_come(h) && (all || is_root(h)))
            combine(h, h->dest, h->source, h->call->block);
        return;
    }
    if (h->coll->kind == SHMEMX_REDUCE) {
        if (reduce_at_root(h))
            return;
    } else if (pull_start(h, h->call->block, h->call->block, share_of(h, 0, h->call->block).bytes)) {
        reduce_pulled(h);
        return;
    }
    for (size_t at = 0; at < h->call->block && !h->is_over; at += most)
        reduce_shares(h, at, ISO_MIN(h->call->block - at, most));
}

/* ---- splits: packed on the way. A piece is a range of a packed block ---- */

/* `bytes` from `at` on of a packed block: between packed memory, where the first comes to `packed`, and `array`, which
 * is a member's block (member -1) or has the blocks of all, among them this member's. */
struct packing {
    char *packed, *array;
    int member;
    size_t at, bytes;
};
static void copy_splits(struct host_call *h, const struct packing *p, bool pack)
{
    const shmemx_splits_t *s = h->coll->splits;
    size_t one = h->call->elem_bytes, at = p->at, end = p->at + p->bytes;
    for (struct split_place k = h->split; at < end; k.i++) {
        size_t bytes = s->nelems[k.i] * one, stop = ISO_MIN(k.begin + bytes, end);
        k.at = s->offset != NULL ? s->offset[k.i] : k.at;
        size_t place = p->member < 0 ? k.at * one : k.at * one * (size_t)h->c.n + (size_t)p->member * bytes;
        if (stop > at) {
            char *there = p->array + place + (at - k.begin), *here = p->packed + (at - p->at);
            coll_copy(pack ? here : there, pack ? there : here, stop - at);
            at = stop;
        }
        k.begin += bytes;
        k.at += s->nelems[k.i];
    }
}
static void collect_splits(struct host_call *h, size_t at, size_t bytes)
{
    struct coll *c = &h->c;
    char room[ISO_STAGE_BYTES];
    copy_splits(h, &(struct packing){room, (char *)(uintptr_t)h->source, -1, at, bytes}, true);
    begin_piece(h);
    for (int i = 1; i < c->n; i++)
        send_piece(h, coll_other(c, i), room, bytes);
    copy_splits(h, &(struct packing){room, h->dest, c->me, at, bytes}, false);
    if (!have_come(h))
        return;
    for (int i = 1; i < c->n; i++) {
        int from = coll_other(c, i);
        copy_splits(h, &(struct packing){(char *)(uintptr_t)coll_stage_from(c, from), h->dest, from, at, bytes}, false);
    }
}

static void reduce_splits(struct host_call *h, size_t at, size_t bytes)
{
    struct coll *c = &h->c;
    char room[ISO_STAGE_BYTES], *source = (char *)(uintptr_t)h->source;
    begin_piece(h);
    for (int i = 1; i <= c->n; i++) { /* itself last */
        int to = i < c->n ? coll_other(c, i) : c->me;
        copy_splits(h, &(struct packing){room, source, to, at, bytes}, true);
        if (to != c->me)
            send_piece(h, to, room, bytes);
    }
    if (!have_come(h))
        return;
    combine(h, room, room, bytes);
    copy_splits(h, &(struct packing){room, h->dest, -1, at, bytes}, false);
}

static void move_splits(struct host_call *h)
{
    const shmemx_splits_t *s = h->coll->splits;
    struct split_place *k = &h->split;
    size_t all = 0;
    for (size_t i = 0; i < s->n; i++)
        all += s->nelems[i] * h->call->elem_bytes;
    for (size_t at = 0; at < all && !h->is_over; at += ISO_STAGE_BYTES) {
        for (; k->i < s->n && k->begin + s->nelems[k->i] * h->call->elem_bytes <= at; k->i++) {
            k->begin += s->nelems[k->i] * h->call->elem_bytes;
            k->at = (s->offset != NULL ? s->offset[k->i] : k->at) + s->nelems[k->i];
        }
        if (host_call_is(h, REDUCES))
            reduce_splits(h, at, ISO_MIN(all - at, (size_t)ISO_STAGE_BYTES));
        else
            collect_splits(h, at, ISO_MIN(all - at, (size_t)ISO_STAGE_BYTES));
    }
}

/* ---- the call ---- */

#define SYNC_MEMBERS 8 /* of a synchronisation by one piece; more by the barrier of the table, without a word */

static int run_on_host(struct host_call *h)
{
    int kind = h->coll->kind;
    bool syncs = kind == SHMEMX_BARRIER || kind == SHMEMX_SYNC;
    if (kind == SHMEMX_BARRIER)
        iso_quiet_all(CALL);
    h->has_word = h->c.n > 1 && (ISO->debug || (coll_is_direct(&h->c) && (!syncs || h->c.n <= SYNC_MEMBERS)));
    if (syncs && !h->has_word)
        return iso_barrier_sync(h->c.team, CALL);
    if (kind == SHMEMX_ALLTOALLV) {
        move_blocks(h);
    } else if (syncs || (h->call->block == 0 && ISO->debug)) { /* a piece without data, for the words and the flags */
        begin_piece(h);
        for (int i = 1; i < h->c.n; i++)
            set_flag(h, coll_other(&h->c, i));
        (void)have_come(h);
    } else if (h->call->block == 0) {
        return 0;
    } else if (h->coll->splits != NULL) {
        move_splits(h);
    } else if (kind == SHMEMX_ALLREDUCE || kind == SHMEMX_REDUCE) {
        reduce_all(h);
    } else if (kind == SHMEMX_REDUCESCATTER) {
        reduce_scatter(h);
    } else {
        move_data(h);
    }
    return h->rc != 0 ? h->rc : h->differs ? -EIO : iso_slot_rc(h->c.slot, CALL);
}

SHMEM_API(shmemx_coll_on_host, pshmemx_coll_on_host);
int pshmemx_coll_on_host(const shmemx_coll_t *coll)
{
    struct pull pull;
    struct coll_call call;
    struct host_call h; /* an initializer would zero it whole, which a short call feels */
    h.coll = coll;
    h.call = &call;
    h.pull = &pull;
    int rc = iso_enter(CALL);
    if (rc == 0 && !begin_host_call(&h))
        rc = -EINVAL;
    if (rc == 0)
        rc = iso_slot_rc(h.c.slot, CALL);
    if (rc == 0) /* SHMEM_DEBUG: is another member in a call of shmem.h? */
        rc = iso_agree_match(h.c.team, (struct agree_args){CALL, 0, 0, 0});
    return rc == 0 ? run_on_host(&h) : rc;
}
