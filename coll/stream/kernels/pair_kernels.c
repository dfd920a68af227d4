/* SPDX-License-Identifier: MIT */
/* The kernels of sends and receives on streams. Each block goes round its parts: a part of a sending pair stores pieces
 * while stages are free, a part of a receiving one takes those that have come. No part waits, only the block does, when
 * none of its parts can go on. Rule as in stages_device.h: data, counts and headers to a peer take one way, by pointer
 * with a fence between them, or by the ring of the block, which keeps its order. The block of a lane may be another one
 * in the next launch: its first count then waits for the other ring.
 * Launched by pairs.c. Includes: pairs.h, stages_device.h. */
#include "../pair/pairs.h" /* first */

#include "../../kernel/stages_device.h"

enum pair_progress { PAIR_BLOCKED, PAIR_MOVED, PAIR_DONE };

/* One part, in registers; alike on all threads but `seen`, which is the first one's. */
struct pair_part {
    struct isod_pair *pair;
    struct isod_pair_use use; /* a copy: a pointer that changes would have the compiler put all arguments on a stack */
    char *far, *near; /* the other end's record, as this PE names it, and by pointer or NULL */
    uint32_t number, parts;
    uint32_t lanes; /* sender: that its messages take */
    bool wrong;     /* a length differs */
    uint64_t expected, seen;
};

PRIM_FN uint64_t pair_piece(uint64_t left) { return left < ISOD_PAIR_PIECE ? left : ISOD_PAIR_PIECE; }
/* What lane `lane` of `lanes`, a power of two, has of a message. The first one has a piece also of an empty message. */
struct pair_span {
    uint64_t at, bytes, pieces;
};
PRIM_FN struct pair_span pair_span_of(uint64_t bytes, uint32_t lane, uint32_t lanes)
{
    uint64_t share = (isod_units(bytes) + lanes - 1) >> ((lanes > 1) + (lanes > 2) + (lanes > 4)) << 4;
    /* a division would be a function */
    struct pair_span s;
    s.at = lane * share;
    s.bytes = s.at >= bytes ? 0 : bytes - s.at < share ? bytes - s.at : share;
    s.pieces = (s.bytes + ISOD_PAIR_PIECE - 1) / ISOD_PAIR_PIECE;
    if (lane == 0 && s.pieces == 0)
        s.pieces = 1;
    return s;
}
/* Pieces of the message at hand that the lane has moved. Of a lane without pieces nothing is read: no sync stands
 * between this and the first thread's next word about it. */
PRIM_FN uint64_t pair_moved(const struct pair_part *p, uint32_t lane, uint64_t pieces)
{
    return pieces == 0 ? 0 : p->pair->own[lane].count - p->pair->own[lane].begun;
}

/* A count of the other end, seen alike by all threads, which may read what is behind it. A sync. */
PRIM_FN uint64_t pair_look(struct pair_part *p, const uint64_t *word)
{
    uint64_t seen = 0;
    if (prim_is_first(prim_group_block())) {
        seen = prim_peek_u64(word);
        prim_acquire_from_peer();
        p->seen = seen;
    }
    return prim_broadcast_u64(prim_group_block(), seen);
}

PRIM_FN void pair_find_peer(shmemd_t h, struct pair_part *p, uint64_t offset)
{
    p->far = h.heap + offset;
    p->near = isod_near(h, p->far, p->use.peer);
}

/* ---- the directory ---- */

PRIM_FN struct isod_pair_entry *pair_row(shmemd_t h, uint64_t directory, int32_t pe)
{
    return (struct isod_pair_entry *)(void *)(h.heap + directory) + (uint64_t)(uint32_t)pe * ISOD_PAIR_ENTRIES;
}

PRIM_FN uint64_t pair_known(const struct pair_part *p)
{
    bool first = prim_is_first(prim_group_block());
    return prim_broadcast_u64(prim_group_block(), first ? prim_load_relaxed_u64(&p->pair->where) : 0);
}
/* By the block: where the receiver's record is; 0: it has not received yet. Blocks that find it store the same. */
PRIM_FN uint64_t pair_where(shmemd_t h, uint64_t directory, const struct pair_part *p)
{
    const struct isod_pair_entry *row = pair_row(h, directory, p->use.peer);
    uint64_t where = pair_known(p);
    if (where != 0)
        return where;
    for (uint32_t i = prim_rank(prim_group_block()); i < ISOD_PAIR_ENTRIES; i += prim_size(prim_group_block())) {
        uint64_t told = prim_load_relaxed_u64(&row[i].where);
        if (prim_load_relaxed_u64(&row[i].check) == isod_pair_check(p->use.key, told))
            prim_store_relaxed_u64(&p->pair->where, told);
    }
    prim_sync(prim_group_block());
    return pair_known(p);
}

/* ---- a piece, of either side: one function, since all of a kernel is inlined, and each way by the ring is long
 * ---- */

/* By the block: `bytes` of data into the next stage of the lane, or from there (NULL: to nowhere); then the
 * count for the other end. */
PRIM_FN void pair_move_piece(shmemd_t h, struct pair_part *p, uint32_t lane, char *data, uint64_t bytes)
{
    uint64_t count = p->pair->own[lane].count, stage = (uint64_t)lane * ISOD_PAIR_STAGES + count % ISOD_PAIR_STAGES;
    uint64_t at = sizeof(struct isod_pair) + stage * ISOD_PAIR_PIECE;
    bool sends = p->use.sends != 0;
    if (sends && p->near == 0)
        isod_ring_put(h, prim_group_block(), isod_bytes_of(p->far + at, data, bytes), p->use.peer);
    else if (data != 0) /* one copy for both, which saves a GPU's registers */
        prim_copy_put(prim_group_block(), sends ? p->near + at : data, sends ? data : (char *)p->pair + at, bytes);
    prim_gather_stores(prim_group_block()); /* and loads whose values were stored are done */
    if (prim_is_first(prim_group_block())) {
        if (!sends)
            pair_find_peer(h, p, prim_load_relaxed_u64(&p->pair->theirs[lane].at));
        uint64_t ring = (prim_block_index() & (h.world->n_rings - 1)) + 1;
        if (p->near == 0 && p->pair->rings[lane] != ring) { /* a count must not overtake those before it */
            if (p->pair->rings[lane] != 0)
                isod_ring_quiet_at(h.team);
            p->pair->rings[lane] = ring;
        }
        for (uint32_t step = sends && count == 0 ? 0 : 1; step < 2; step++) {
            const uint64_t *word = step == 0 ? &p->pair->theirs[lane].at : &p->pair->theirs[lane].count;
            uint64_t told = (uint64_t)((const char *)word - (const char *)p->pair);
            uint64_t value = step == 0 ? (uint64_t)((const char *)p->pair - h.heap) : count + 1;
            prim_fence_flag(); /* pairs with the acquire in pair_look */
            if (p->near != 0)
                prim_store_flag_u64((uint64_t *)(void *)(p->near + told), value);
            else
                isod_ring_signal(h.team, (uint64_t *)(void *)(p->far + told), value, ISOD_SIGNAL_SET, p->use.peer);
        }
        p->pair->own[lane].count = count + 1;
    }
    prim_sync(prim_group_block());
}

/* ---- a part that sends ---- */

PRIM_FN enum pair_progress pair_send_message(shmemd_t h, struct pair_part *p, const struct isod_pair_message *m)
{
    uint32_t lane = p->number;
    struct pair_span s = pair_span_of(m->bytes, lane, p->lanes);
    uint64_t done = pair_moved(p, lane, s.pieces);
    enum pair_progress all = PAIR_BLOCKED;
    for (; done < s.pieces; done++, all = PAIR_MOVED) {
        uint64_t at = done * ISOD_PAIR_PIECE, count = p->pair->own[lane].count;
        p->expected = count + 1 - ISOD_PAIR_STAGES;
        if (count - pair_look(p, &p->pair->theirs[lane].count) >= ISOD_PAIR_STAGES)
            return all;
        if (lane == 0 && done == 0 && prim_is_first(prim_group_block())) {
            uint64_t number = p->pair->messages + p->pair->own[0].message;
            uint64_t header = ISOD_PAIR_HEADER(m->bytes, p->lanes), epoch = (uint64_t)(uint32_t)(number + 1) << 32;
            uint64_t head = offsetof(struct isod_pair, headers) + number % ISOD_PAIR_HEADERS * sizeof(struct prim_ll);
            if (p->near != 0)
                prim_store_ll((struct prim_ll *)(void *)(p->near + head), (uint32_t)header, (uint32_t)(header >> 32),
                              (uint32_t)(number + 1));
            else
                isod_ring_put_words(h, p->far + head,
                                    isod_words_of((header & 0xffffffffu) | epoch, header >> 32 | epoch, 16),
                                    p->use.peer);
        }
        pair_move_piece(h, p, lane, m->data + s.at + at, pair_piece(s.bytes - at));
    }
    return PAIR_DONE;
}

/* ---- a part that receives ---- */

PRIM_FN enum pair_progress pair_take_lane(shmemd_t h, struct pair_part *p, const struct isod_pair_message *m,
                                          uint32_t lane, uint64_t header)
{
    uint64_t sent = ISOD_PAIR_BYTES_OF(header);
    struct pair_span s = pair_span_of(sent, lane, ISOD_PAIR_LANES_OF(header));
    uint64_t done = pair_moved(p, lane, s.pieces);
    enum pair_progress all = PAIR_BLOCKED;
    for (; done < s.pieces; done++, all = PAIR_MOVED) {
        uint64_t at = done * ISOD_PAIR_PIECE;
        p->expected = p->pair->own[lane].count + 1;
        if (pair_look(p, &p->pair->theirs[lane].count) <= p->pair->own[lane].count)
            return all;
        pair_move_piece(h, p, lane, sent == m->bytes && s.bytes > 0 ? m->data + s.at + at : (char *)0,
                        pair_piece(s.bytes - at));
    }
    return PAIR_DONE;
}

PRIM_FN enum pair_progress pair_receive_message(shmemd_t h, struct pair_part *p, const struct isod_pair_message *m)
{
    enum pair_progress all = PAIR_BLOCKED;
    uint64_t lane = p->pair->own[p->number].lane; /* before the header, whose sync parts this from the write below */
    uint64_t number = p->pair->messages + p->pair->own[p->number].message, header = 0;
    if (prim_is_first(prim_group_block())) {
        struct prim_ll l = prim_load_ll(&p->pair->headers[number % ISOD_PAIR_HEADERS]);
        if (l.epoch0 == (uint32_t)(number + 1) && l.epoch1 == (uint32_t)(number + 1))
            header = l.data0 | (uint64_t)l.data1 << 32;
        p->seen = l.epoch0;
        p->expected = (uint32_t)(number + 1);
    }
    header = prim_broadcast_u64(prim_group_block(), header); /* 0: it has not come */
    if (header == 0)
        return PAIR_BLOCKED;

    /* May the first part take the message at hand? Headers have few places. The sender overwrites that of a message
     * only when the first part has taken a later one, so each other part has to have read those before. */
    if (p->number == 0 && p->parts > 1 && number != p->pair->messages) { /* the first of a launch follows all others */
        bool late = false;
        if (prim_is_first(prim_group_block()))
            for (uint32_t i = 1; i < p->parts && !late; i++) {
                p->seen = prim_peek_u64(&p->pair->own[i].read);
                p->expected = number;
                late = p->seen < number;
            }
        if (prim_sync_or(prim_group_block(), late))
            return PAIR_BLOCKED;
    }
    if (lane == 0) { /* 0: none at hand, else its number plus 1 */
        lane = p->number + 1;
        if (p->number != 0 && prim_is_first(prim_group_block()))
            prim_store_relaxed_u64(&p->pair->own[p->number].read, number + 1);
    }
    for (; lane <= ISOD_PAIR_LANES_OF(header); lane += p->parts) {
        enum pair_progress one = pair_take_lane(h, p, m, (uint32_t)lane - 1, header);
        if (one != PAIR_DONE) {
            all = one == PAIR_MOVED ? PAIR_MOVED : all;
            break;
        }
        all = PAIR_MOVED;
        if (prim_is_first(prim_group_block()))
            p->pair->own[lane - 1].begun = p->pair->own[lane - 1].count;
    }
    bool done = lane > ISOD_PAIR_LANES_OF(header);
    if (done && ISOD_PAIR_BYTES_OF(header) != m->bytes) {
        p->wrong = true;
        p->expected = m->bytes;
        p->seen = ISOD_PAIR_BYTES_OF(header);
    }
    if (prim_is_first(prim_group_block()))
        p->pair->own[p->number].lane = done ? 0 : lane;
    prim_sync(prim_group_block());
    return done ? PAIR_DONE : all;
}

/* ---- parts of a block ---- */

struct pair_round {
    shmemd_t h;
    uint64_t directory;
    const struct isod_pair_use *uses;
    const struct isod_pair_message *messages;
    uint32_t n, parts;
};

/* As far as the part can go. */
PRIM_FN enum pair_progress pair_advance(const struct pair_round *r, struct pair_part *p)
{
    shmemd_t h = r->h;
    enum pair_progress all = PAIR_BLOCKED, one = PAIR_DONE;
    p->expected = p->use.sends; /* of a send whose receiver has not told where it is: 1, and seen is 0 */
    p->seen = 0;
    p->lanes = p->use.lanes;
    if (p->use.sends != 0) {
        uint64_t where = pair_where(h, r->directory, p);
        if (where == 0)
            return PAIR_BLOCKED;
        pair_find_peer(h, p, where / ISOD_PAIR_UNIT * ISOD_PAIR_UNIT);
        p->lanes = (uint32_t)(where % ISOD_PAIR_UNIT);
        p->lanes = p->parts < p->lanes ? p->parts : p->lanes;
    }
    uint64_t i = p->pair->own[p->number].message;
    prim_sync(prim_group_block()); /* all have read what the first thread writes below */
    for (; i < p->use.n; i++) {
        struct isod_pair_message m = r->messages[p->use.first + i];
        if (p->use.sends == 0)
            one = pair_receive_message(h, p, &m);
        else if (p->number < p->lanes)
            one = pair_send_message(h, p, &m);
        if (one != PAIR_DONE)
            return one == PAIR_MOVED ? PAIR_MOVED : all;
        all = PAIR_MOVED;
        if (prim_is_first(prim_group_block())) {
            p->pair->own[p->number].message = i + 1;
            if (p->use.sends != 0)
                p->pair->own[p->number].begun = p->pair->own[p->number].count;
        }
        prim_sync(prim_group_block());
    }
    if (prim_is_first(prim_group_block())) {
        p->pair->own[p->number].message = 0;
        if (prim_fetch_add_u64(&p->pair->left, 1) == p->parts - 1) { /* the last part of the pair in this launch */
            p->pair->messages += p->use.n;
            prim_store_relaxed_u64(&p->pair->left, 0);
        }
    }
    return PAIR_DONE;
}

PRIM_FN struct pair_part pair_part_of(const struct pair_round *r, uint32_t number)
{
    struct pair_part p;
    p.use = r->uses[number / r->parts];
    p.pair = (struct isod_pair *)(void *)(r->h.heap + (uint64_t)p.use.at * ISOD_PAIR_UNIT);
    p.number = number % r->parts;
    p.parts = r->parts;
    p.far = p.near = (char *)0;
    p.lanes = 0;
    p.wrong = false;
    p.expected = p.seen = 0;
    return p;
}

/* All pairs of the launch do nothing from here on. The ring does nothing either, so other launches of this handle give
 * up, too. */
PRIM_FN int pairs_fail(const struct pair_round *r)
{
    for (uint32_t i = prim_rank(prim_group_block()); i < r->n; i += prim_size(prim_group_block())) {
        struct pair_part p = pair_part_of(r, i * r->parts);
        prim_store_relaxed_u64(&p.pair->dead, 1);
    }
    if (prim_is_first(prim_group_block()))
        isod_handle_give_up(r->h.team);
    return 1;
}

/* The last block of a launch in which a length was wrong: not before, since the others need the ring. */
PRIM_FN int pairs_leave(const struct pair_round *r, bool wrong)
{
    bool fails = false;
    if (prim_is_first(prim_group_block())) {
        uint64_t *blocks = &pair_part_of(r, 0).pair->blocks, add = wrong ? ((uint64_t)1 << 32) + 1 : 1;
        uint64_t all = prim_fetch_add_u64(blocks, add) + add;
        if ((uint32_t)all == prim_block_count()) {
            prim_store_relaxed_u64(blocks, 0);
            fails = all >> 32 != 0;
        }
    }
    return prim_sync_or(prim_group_block(), fails) ? pairs_fail(r) : 0;
}

/* Which of a block's parts are done: no array, which would be stack. */
struct pair_done {
    uint64_t low, high;
};

/* false: some pair is dead. Receiving pairs become known to their senders. A sync. */
PRIM_FN bool pairs_begin(const struct pair_round *r)
{
    bool dead = prim_load_relaxed_u64(&r->h.team->status) != 0;
    for (uint32_t i = prim_rank(prim_group_block()); i < r->n; i += prim_size(prim_group_block()))
        dead = prim_load_relaxed_u64(&pair_part_of(r, i * r->parts).pair->dead) != 0 || dead;
    if (prim_sync_or(prim_group_block(), dead))
        return false;
    for (uint32_t i = prim_block_index(); i < r->n * r->parts; i += prim_block_count()) {
        struct pair_part p = pair_part_of(r, i);
        if (p.use.sends != 0 || p.number != 0 || !prim_is_first(prim_group_block()) || p.pair->where != 0)
            continue;
        /* By one thread, once: the sender's kernel finds this record. */
        struct isod_pair_entry *entry = pair_row(r->h, r->directory, r->h.my_pe) + p.use.entry;
        uint64_t where = (uint64_t)p.use.at * ISOD_PAIR_UNIT + p.use.lanes, check = isod_pair_check(p.use.key, where);
        char *near = isod_near(r->h, entry, p.use.peer);
        if (near != 0) {
            prim_store_relaxed_u64(&((struct isod_pair_entry *)(void *)near)->where, where);
            prim_store_relaxed_u64(&((struct isod_pair_entry *)(void *)near)->check, check);
        } else {
            isod_ring_put_words(r->h, entry, isod_words_of(where, check, sizeof *entry), p.use.peer);
        }
        prim_store_relaxed_u64(&p.pair->where, 1);
    }
    return true;
}

PRIM_FN uint32_t pair_call_of(const struct pair_part *p)
{
    return p->use.sends != 0 ? (uint32_t)ISOD_CALL_ON_STREAM_SEND : (uint32_t)ISOD_CALL_ON_STREAM_RECV;
}

/* A block of a grid of as many blocks as there are parts, or fewer. It has at most 128 parts. */
PRIM_FN int pairs_run(const struct pair_round *r)
{
    struct pair_done done = {0, 0};
    struct isod_waiting w = {0, 0};
    bool wrong = false, going = true;
    if (!pairs_begin(r))
        return pairs_fail(r);
    while (going) {
        struct isod_missed missed = isod_missed_at(isod_who(0, -1), (const void *)0, 0, 0);
        bool moved = false, stop = false;
        uint32_t nth = 0;
        going = false;
        for (uint32_t i = prim_block_index(); i < r->n * r->parts; i += prim_block_count(), nth++) {
            struct pair_part p = pair_part_of(r, i);
            uint64_t bit = (uint64_t)1 << (nth & 63);
            if (((nth < 64 ? done.low : done.high) & bit) != 0)
                continue;
            enum pair_progress one = pair_advance(r, &p);
            if (p.wrong && p.number == 0 && prim_is_first(prim_group_block()))
                isod_coll_record_misuse(r->h.team, isod_who(pair_call_of(&p), p.use.peer),
                                        ISOD_MISUSE_LENGTH, p.expected, p.seen);
            done.low |= one == PAIR_DONE && nth < 64 ? bit : 0;
            done.high |= one == PAIR_DONE && nth >= 64 ? bit : 0;
            wrong = wrong || p.wrong;
            moved = moved || one != PAIR_BLOCKED;
            going = going || one != PAIR_DONE;
            missed = isod_missed_at(isod_who(pair_call_of(&p), p.use.peer), p.pair, p.expected, p.seen);
        }
        if (moved)
            w.since = w.polls = 0;
        else if (going && prim_is_first(prim_group_block()))
            stop = !isod_wait_pause(r->h.team, &w, missed) ||
                   (w.polls % ISOD_POLLS_PER_LOOK == 0 && prim_load_relaxed_u64(&r->h.team->status) != 0);
        if (prim_sync_or(prim_group_block(), stop))
            return pairs_fail(r);
    }
    return pairs_leave(r, wrong);
}

/* ---- kernels ---- */

#define PAIRS_KERNEL(name)                                                                          \
    PRIM_KERNEL_BOUNDED(isod_stream_##name##_kernel, struct isod_##name, a, ISOD_PAIR_THREADS)      \
    {                                                                                               \
        int rc = 0;                                                                                 \
        prim_stream_wait();                                                                         \
        if (prim_call_begin()) {                                                                    \
            struct pair_round r = {a.h, a.directory, a.uses, a.messages, a.n, a.parts};             \
            rc = pairs_run(&r);                                                                     \
        }                                                                                           \
        (void)prim_call_end(rc);                                                                    \
        prim_stream_pass();                                                                         \
    }
ISOD_STREAM_PAIRS(PAIRS_KERNEL)
