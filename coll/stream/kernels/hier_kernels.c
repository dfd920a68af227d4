/* SPDX-License-Identifier: MIT */
/* Kernels of collectives on streams for teams that span nodes, in two stages that run at the same time: pieces go to
 * other nodes by the ring, each with a word behind it, while what is for the own node goes by stores; a piece that has
 * come is handed on to the node, or combined, at once. Reductions: a node's members combine what they have for a member
 * of another node into one part, so a part crosses once, whatever is on a node. Order: hier_stream.h,
 * reduce_any_kernels.c. Launched by stream_algorithm.c. Includes: hier_stream.h, reduce_any.h. */
#include "hier_stream.h"
#include "reduce_any.h"

/* ---- data: straight into dest, from where it is handed on. A piece stays where it has arrived, so a member that waits
 * for its word may read it at any time, and nothing has to be given back ---- */

#define PIECE_BYTES 32768u

/* GATHER: one block to each rail, handed on there. EXCHANGE: a block to each far member itself. */
enum way { GATHER, EXCHANGE };

struct exchange {
    struct isod_hier t;
    struct isod_move w;
    struct isod_touched dest;
    enum way way;
    uint64_t base;            /* the epoch before the call */
    uint32_t pieces;          /* of a block */
    uint32_t targets, posted; /* members that this one sends to by the ring, those that it has sent to */
};

PRIM_FN int32_t target_of(const struct isod_coll *c, const struct exchange *x, uint32_t i)
{
    return x->way == GATHER ? isod_hier_rail_of(c, &x->t, i) : isod_hier_far(&x->t, i);
}
PRIM_FN struct isod_move exchange_piece(const struct exchange *x, uint32_t k)
{
    return isod_move_piece(&x->w, (uint64_t)k * PIECE_BYTES, PIECE_BYTES);
}

/* A sync. */
PRIM_FN void exchange_post(struct isod_coll *c, struct exchange *x)
{
    int32_t to = target_of(c, x, x->posted++);
    for (uint32_t k = 0; k < x->pieces; k++) {
        struct isod_move p = exchange_piece(x, k);
        char *dest = isod_hier_name(c, x->dest, to, 0, p.dest + (uint64_t)(uint32_t)c->h.my_pe * p.dest_stride);
        isod_hier_put_far(c, to, dest, p.source + (uint64_t)(uint32_t)to * p.source_stride, p.bytes);
        if (c->rank == 0)
            isod_hier_tell(c, to, ISOD_HIER_DATA, c->h.my_pe, x->base + 2 + k);
    }
}
/* To the own node. Between two pieces, blocks are posted for far members that have become ready. */
PRIM_FN void exchange_near(struct isod_coll *c, struct exchange *x)
{
    uint64_t me = (uint64_t)(uint32_t)c->h.my_pe;
    for (uint32_t k = 0; k < x->pieces; k++) {
        struct isod_move p = exchange_piece(x, k);
        bool ready = true;
        while (x->posted < x->targets && ready) {
            struct isod_places place;
            ready = c->rank == 0 && isod_places_look(c, target_of(c, x, x->posted), 1, &place);
            ready = prim_sync_or(prim_group_block(), ready);
            if (ready)
                exchange_post(c, x);
        }
        isod_hier_put_peers(c, &x->t, isod_bytes_of(p.dest + me * p.dest_stride, p.source, p.bytes), p.source_stride);
        isod_coll_copy_own(p.dest + me * p.dest_stride, p.source + me * p.source_stride, p.bytes);
    }
    isod_hier_tell_peers(c, &x->t, ISOD_HIER_DATA, c->h.my_pe, x->base + 1 + x->pieces);
}

/* All pieces of the others have come. */
PRIM_FN void await_all(struct isod_coll *c, uint64_t value)
{
    for (int32_t m = (int32_t)c->rank; m < c->h.n_pes; m += (int32_t)c->size)
        if (m != c->h.my_pe)
            isod_hier_wait(c, ISOD_HIER_DATA, m, value);
}

PRIM_FN void exchange_run(struct isod_coll *c, struct exchange *x)
{
    /* Peers may store here, and far members put here. */
    isod_hier_announce(c, &x->t, 1, x->dest.place, 0);
    for (uint32_t i = c->rank; i < isod_hier_fars(&x->t); i += c->size) {
        int32_t m = isod_hier_far(&x->t, i);
        if (x->way == EXCHANGE || isod_hier_serves(&x->t, m))
            isod_place_send(c, m, 0, x->dest.place);
    }
    if (!isod_hier_meet_peers(c, &x->t, 1, x->dest, x->dest))
        return;

    exchange_near(c, x);
    while (x->posted < x->targets) {
        if (c->rank == 0)
            (void)isod_places_wait(c, target_of(c, x, x->posted), 1);
        if (!isod_hier_met(c))
            return;
        exchange_post(c, x);
    }
    for (uint32_t k = 0; x->way == GATHER && x->t.size > 1 && k < x->pieces; k++) { /* handed on to the peers */
        struct isod_move p = exchange_piece(x, k);
        for (uint32_t i = 0; i < isod_hier_fars(&x->t); i++) {
            int32_t m = isod_hier_far(&x->t, i);
            if (!isod_hier_serves(&x->t, m))
                continue;
            if (!isod_hier_await(c, ISOD_HIER_DATA, m, x->base + 2 + k))
                return;
            char *at = p.dest + (uint64_t)(uint32_t)m * p.dest_stride; /* goes on to the peers */
            isod_hier_put_peers(c, &x->t, isod_bytes_of(at, at, p.bytes), 0);
            isod_hier_tell_peers(c, &x->t, ISOD_HIER_DATA, m, x->base + 2 + k);
        }
    }
    await_all(c, x->base + 1 + x->pieces);
    (void)isod_hier_met(c);
}

PRIM_FN int exchange(const struct isod_stream_coll *a, enum way way)
{
    struct isod_coll c;
    struct exchange x;
    if (!isod_stream_part(a, &x.w))
        return 0;
    if (!isod_coll_enter_for(&c, a->h, a->call, isod_units(x.w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    x.t = isod_hier_of(a);
    x.way = way;
    x.dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), a->dest);
    x.base = c.epoch;
    isod_coll_begin_epoch(&c); /* that of the places */
    x.pieces = (uint32_t)((x.w.bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    x.targets = way == GATHER ? isod_hier_rails(&x.t) : isod_hier_fars(&x.t);
    x.posted = 0;
    exchange_run(&c, &x);
    isod_hier_flush(&c);
    c.epoch = x.base + 2 + x.pieces;
    return isod_coll_leave(&c);
}

/* ---- reductions. Member m's span comes from all members; its owner is m, which gets a part from each other node. The
 * part comes from m's rail there. The rail reads what the members of that node have for the span, combines it in their
 * order in a slot of its own, puts that into a slot of m, and flags; m does the same for its own node. An iteration:
 * send the parts of piece k; combine those of piece k - 1; hand on results of piece k - 2. So an iteration waits only
 * for earlier iterations of others. There are two slots for each sender: piece k goes where piece k - 2 was, when its
 * reader has told that it has read that ---- */

struct hier_reduction {
    const struct isod_stream_coll *what;
    struct isod_hier t;
    struct isod_push p; /* dests NULL: reducescatter */
    struct isod_touched source, dest;
    uint64_t base; /* the epoch before the call */
};

/* ---- slots, behind the words: two for the part of each node, then two for the part that goes to each member ---- */

PRIM_FN uint64_t slot_in(const struct isod_coll *c, const struct hier_reduction *r, int32_t node, uint32_t k)
{
    uint64_t words = (uint64_t)ISOD_HIER_WORDS * (uint32_t)c->h.n_pes * 8;
    uint64_t slots = isod_flags_bytes(c->h.n_pes) + (words + 127) / 128 * 128;
    return slots + ((uint64_t)(k & 1) * (uint32_t)c->h.n_pes + (uint32_t)node) * r->p.piece;
}

/* Piece k of member m's span: where it begins in the span, and its bytes. */
PRIM_FN uint64_t piece_at(const struct hier_reduction *r, uint32_t k) { return (uint64_t)k * r->p.piece; }
PRIM_FN uint64_t piece_bytes(const struct hier_reduction *r, int32_t m, uint32_t k)
{
    uint64_t left = isod_push_left(&r->p, m, piece_at(r, k));
    return left < r->p.piece ? left : r->p.piece;
}
PRIM_FN char *piece_dest(const struct hier_reduction *r, int32_t m, uint32_t k)
{
    return r->p.dest + (r->p.dests != 0 ? (uint64_t)(uint32_t)m * r->p.each : 0) + piece_at(r, k);
}

/* ---- parts ---- */

/* A unit of what the members of this node have at `from`, as this member names it, rounded as the elements are. */
PRIM_FN struct prim_vec16 part_of(const struct hier_reduction *r, const char *from, uint64_t left)
{
    const int64_t *sources = isod_table_source();
    struct prim_vec16 whole = {{0, 0}};
    for (uint32_t part = 0; part < any_parts(r->what); part++) {
        struct any_acc a = any_begin(part);
        for (int32_t first = 0; first < r->t.size; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH; k++)
                if (first + k < r->t.size)
                    v[k] = isod_unit_load(from + sources[isod_hier_sorted(&r->t, r->t.begin + first + k)], left);
            any_batch(r->what, &a, v, first, r->t.size);
        }
        any_unite(&whole, any_vec(r->what, &a));
    }
    return whole;
}

/* This node's part of piece k for member m, which may be this one. A sync. */
PRIM_FN void send_part(struct isod_coll *c, const struct hier_reduction *r, int32_t m, uint32_t k)
{
    bool own = m == c->h.my_pe;
    uint64_t bytes = piece_bytes(r, m, k), in = slot_in(c, r, r->t.node, k);
    uint64_t out = slot_in(c, r, m, k) + 2 * (uint64_t)(uint32_t)c->h.n_pes * r->p.piece;
    char *part = c->here + (own ? in : out);
    const char *from = r->p.source + (uint64_t)(uint32_t)m * r->p.stride + piece_at(r, k);
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size)
        prim_store16(part + u * 16, part_of(r, from + u * 16, bytes - u * 16));
    if (own) {
        prim_sync(prim_group_block());
        return;
    }
    isod_hier_put_far(c, m, isod_coll_far_memory(c, m) + in, part, isod_units(bytes) * 16);
    if (c->rank == 0)
        isod_hier_tell(c, m, ISOD_HIER_PART, c->h.my_pe, r->base + 2 + k);
}
PRIM_FN bool send_parts(struct isod_coll *c, const struct hier_reduction *r, uint32_t k)
{
    uint32_t fars = isod_hier_fars(&r->t);
    for (uint32_t i = 0; i <= fars; i++) {
        int32_t m = i < fars ? isod_hier_far(&r->t, i) : c->h.my_pe;
        if (!isod_hier_serves(&r->t, m))
            continue;
        if (i < fars && k >= 2 && !isod_hier_await(c, ISOD_HIER_USED, m, r->base + k)) /* of piece k - 2 */
            return false;
        send_part(c, r, m, k);
    }
    return true;
}

/* ---- results ---- */

/* A unit of the parts of all nodes, in their order. */
PRIM_FN struct prim_vec16 result_of(struct isod_coll *c, const struct hier_reduction *r, uint32_t k, uint64_t u)
{
    struct prim_vec16 whole = {{0, 0}};
    for (uint32_t part = 0; part < any_parts(r->what); part++) {
        struct any_acc a = any_begin(part);
        for (int32_t first = 0; first < r->t.nodes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            PRIM_UNROLL
            for (int32_t i = 0; i < ISOD_BATCH; i++)
                if (first + i < r->t.nodes)
                    v[i] = prim_load16(c->here + slot_in(c, r, first + i, k) + u * 16);
            any_batch(r->what, &a, v, first, r->t.nodes);
        }
        any_unite(&whole, any_result(r->what, &a));
    }
    return whole;
}

/* Of piece k of the own span. dest may be source: units that are overwritten, here and at the peers, have been read for
 * the parts of the result. */
PRIM_FN void combine(struct isod_coll *c, const struct hier_reduction *r, uint32_t k)
{
    uint64_t bytes = piece_bytes(r, c->h.my_pe, k);
    char *dest = piece_dest(r, c->h.my_pe, k);
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size) {
        struct prim_vec16 v = result_of(c, r, k, u);
        char *to = dest + u * 16;
        isod_unit_store(to, v, bytes - u * 16);
        for (uint32_t i = 1; r->p.dests != 0 && i <= isod_hier_peers(&r->t); i++)
            isod_unit_store(to + r->p.dests[isod_hier_peer(&r->t, i)], v, bytes - u * 16);
    }
}

/* The result of piece k, which the peers have, to the rails. A sync. */
PRIM_FN void send_result(struct isod_coll *c, const struct hier_reduction *r, uint32_t k)
{
    char *dest = piece_dest(r, c->h.my_pe, k);
    for (uint32_t i = 0; i < isod_hier_rails(&r->t); i++) {
        int32_t to = isod_hier_rail_of(c, &r->t, i);
        isod_hier_put_far(c, to, isod_hier_name(c, r->dest, to, 1, dest), dest, piece_bytes(r, c->h.my_pe, k));
        if (c->rank == 0)
            isod_hier_tell(c, to, ISOD_HIER_DATA, c->h.my_pe, r->base + 2 + k);
    }
}

/* A rail's part says that it is here, and that its place has come before, by the same ring; its node is here when it
 * hands results on. */
PRIM_FN bool receive_parts(struct isod_coll *c, const struct hier_reduction *r, uint32_t k)
{
    for (uint32_t i = c->rank; i < isod_hier_rails(&r->t); i += c->size)
        isod_hier_wait(c, ISOD_HIER_PART, isod_hier_rail_of(c, &r->t, i), r->base + 2 + k);
    if (!isod_hier_met(c))
        return false;
    combine(c, r, k);
    if (r->p.dests != 0)
        isod_hier_tell_peers(c, &r->t, ISOD_HIER_DATA, c->h.my_pe, r->base + 2 + k);
    else
        prim_sync(prim_group_block()); /* all have read the slots */
    for (uint32_t i = c->rank; i < isod_hier_rails(&r->t); i += c->size)
        isod_hier_tell(c, isod_hier_rail_of(c, &r->t, i), ISOD_HIER_USED, c->h.my_pe, r->base + 2 + k);

    if (r->p.dests != 0)
        send_result(c, r, k);
    return true;
}

/* ---- the call ---- */

PRIM_FN void reduce_run(struct isod_coll *c, const struct hier_reduction *r)
{
    uint32_t pieces = r->p.pieces, count = r->p.dests != 0 ? 2 : 1;
    isod_hier_announce(c, &r->t, count, r->source.place, r->dest.place);
    for (uint32_t i = c->rank; r->p.dests != 0 && i < isod_hier_fars(&r->t); i += c->size)
        if (isod_hier_serves(&r->t, isod_hier_far(&r->t, i)))
            isod_place_send(c, isod_hier_far(&r->t, i), 1, r->dest.place);
    if (!isod_hier_meet_peers(c, &r->t, count, r->source, r->dest))
        return;
    for (uint32_t turn = 0; turn < pieces + 2; turn++) {
        if (turn < pieces && !send_parts(c, r, turn))
            return;
        if (turn >= 1 && turn <= pieces && !receive_parts(c, r, turn - 1))
            return;
        for (uint32_t i = 0; turn >= 2 && r->p.dests != 0 && r->t.size > 1 && i < isod_hier_fars(&r->t); i++) {
            int32_t m = isod_hier_far(&r->t, i); /* whose result this member hands on to its peers */
            if (!isod_hier_serves(&r->t, m))
                continue;
            if (!isod_hier_await(c, ISOD_HIER_DATA, m, r->base + turn))
                return;
            char *at = piece_dest(r, m, turn - 2);
            isod_hier_put_peers(c, &r->t, isod_bytes_of(at, at, piece_bytes(r, m, turn - 2)), 0);
            isod_hier_tell_peers(c, &r->t, ISOD_HIER_DATA, m, r->base + turn);
        }
    }

    /* All results are here, so all sources have been read. Where only the own result comes here, the peers tell: loads
     * whose values were stored before a sync are done, hence no fence. And slots are free for the next call. */
    uint64_t all = r->base + 1 + pieces;
    if (r->p.dests != 0) {
        await_all(c, all);
    } else { /* the words announce no stores, hence no fence */
        for (uint32_t i = c->rank + 1; i <= isod_hier_peers(&r->t); i += c->size)
            isod_hier_tell(c, isod_hier_peer(&r->t, i), ISOD_HIER_HERE, c->h.my_pe, all);
        for (uint32_t i = c->rank + 1; i <= isod_hier_peers(&r->t); i += c->size)
            isod_hier_wait(c, ISOD_HIER_HERE, isod_hier_peer(&r->t, i), all);
    }
    for (uint32_t i = c->rank; i < isod_hier_fars(&r->t); i += c->size)
        if (isod_hier_serves(&r->t, isod_hier_far(&r->t, i)))
            isod_hier_wait(c, ISOD_HIER_USED, isod_hier_far(&r->t, i), all);
    (void)isod_hier_met(c);
}

PRIM_FN int reduce(const struct isod_stream_coll *a)
{
    enum isod_span_to to = a->source_stride == 0 ? ISOD_SPAN_ALL : ISOD_SPAN_OWN; /* allreduce, reducescatter */
    struct isod_coll c;
    struct isod_move w;
    struct hier_reduction r;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter_for(&c, a->h, a->call, isod_units(w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    r.what = a;
    r.t = isod_hier_of(a);
    r.p = isod_push_of(&c, &w, a->span, to);
    r.source = isod_touched_of(a->source, a->source_place, isod_table_source(), a->source);
    r.dest = isod_touched_of(a->dest, a->dest_place, isod_table_dest(), a->dest);
    r.base = c.epoch;
    isod_coll_begin_epoch(&c); /* that of the places */
    reduce_run(&c, &r);
    isod_hier_flush(&c);
    c.epoch = r.base + 2 + r.p.pieces;
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

ISOD_STREAM_KERNEL(gather_hier, exchange(&a, GATHER))
ISOD_STREAM_KERNEL(exchange_hier, exchange(&a, EXCHANGE))
ISOD_STREAM_KERNEL(reduce_hier_any, reduce(&a))
