/* SPDX-License-Identifier: MIT */
/* Kernels of reductions on streams for all operators and all ways in which elements are kept, which are arguments.
 * Launched by stream_algorithm.c. Includes: hier_stream.h, list_device.h, reduce_any.h. */
#include "hier_stream.h"
#include "list_device.h"
#include "reduce_any.h"

/* ---- LL: isod_reduce_ll once more, with what a batch of members and formats of 8 bits need ---- */

PRIM_FN void any_ll_unit(struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_move *w,
                         uint64_t u)
{
    uint64_t left = w->bytes - u * 16;
    struct prim_vec16 mine = isod_unit_load(w->source + (uint64_t)c->h.my_pe * w->source_stride + u * 16, left);
    struct prim_vec16 result = {{0, 0}};
    for (uint32_t part = 0; part < any_parts(what); part++) {
        struct any_acc a = any_begin(part);
        for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
            isod_units_wait(c, first, ISOD_BATCH, u, v);
            any_batch(what, &a, v, first, c->h.n_pes);
        }
        any_unite(&result, any_result(what, &a));
    }
    if (!c->failed)
        isod_unit_store(w->dest + u * 16, result, left);
}

PRIM_FN int any_ll(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(what, &w))
        return 0;
    if (!isod_coll_enter_near(&c, what->h, what->call))
        return 1;
    do {
        struct isod_move piece = isod_move_piece(&w, at, c.inbox_bytes);
        isod_coll_begin_staged_epoch(&c);
        prim_sync(prim_group_block());
        isod_ll_send(&c, piece.source, piece.source_stride, piece.bytes);
        for (uint64_t u = c.rank; u < isod_units(piece.bytes) && !c.failed; u += c.size)
            any_ll_unit(&c, what, &piece, u);
        at += c.inbox_bytes;
    } while (at < w.bytes && isod_coll_goes_on(&c));
    return isod_coll_leave(&c);
}

/* ---- any memory, any path: isod_reduce_pipelined in one loop. Where pointers reach all that peers touch: one
 * iteration of reads, and a synchronisation at its end; else iterations over stages. The host chooses, by facts on
 * which the members agree ---- */

/* Member m's operand of the span: isod_operand with the members' places. */
PRIM_FN const char *any_operand(const struct isod_coll *c, const struct isod_span *s, int32_t m)
{
    if (s->from != ISOD_SPAN_STAGES)
        return s->source + isod_table_source()[m];
    return m == c->h.my_pe ? s->source : c->here + isod_stage_at(c, m);
}
PRIM_FN struct prim_vec16 any_in_order(const struct isod_coll *c, const struct isod_stream_coll *what,
                                       const struct isod_span *s, uint64_t u, uint32_t part)
{
    struct any_acc a = any_begin(part);
    for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_BATCH; k++)
            if (first + k < c->h.n_pes)
                v[k] = isod_unit_load(any_operand(c, s, first + k) + u * 16, s->bytes - u * 16);
        any_batch(what, &a, v, first, c->h.n_pes);
    }
    return any_result(what, &a);
}
/* One of two, word by word: a choice between pointers would put both on the stack. */
PRIM_FN struct any_acc any_choose(bool first, const struct any_acc *a, const struct any_acc *b)
{
    struct any_acc one = *a;
    PRIM_UNROLL
    for (int i = 0; i < 4; i++)
        one.acc.word[i] = first ? a->acc.word[i] : b->acc.word[i];
    return one;
}
/* As the schedules of hier_kernels.c do it: a part of each node, then the parts. A part joins in an iteration behind
 * those of its members, so that the code of a join, which is long, stands here once. */
PRIM_FN struct prim_vec16 any_by_nodes(const struct isod_coll *c, const struct isod_stream_coll *what,
                                       const struct isod_span *s, uint64_t u, uint32_t half)
{
    struct isod_hier t = isod_hier_of(what);
    struct any_acc whole = any_begin(half), part = whole;
    for (int32_t node = 0; node < t.nodes; node++) {
        int32_t begin = isod_hier_begin(&t, node), size = isod_hier_size(&t, node);
        for (int32_t i = 0; i <= size; i++) {
            bool last = i == size;
            const char *from = any_operand(c, s, isod_hier_sorted(&t, begin + (last ? 0 : i)));
            struct prim_vec16 v = last ? any_vec(what, &part) : isod_unit_load(from + u * 16, s->bytes - u * 16);
            struct any_acc a = any_choose(last, &whole, &part);
            any_join(what, &a, v, last ? node : i, last ? t.nodes : size);
            whole = any_choose(last, &a, &whole);
            part = any_choose(last, &part, &a);
        }
    }
    return any_result(what, &whole);
}
PRIM_FN void any_span(struct isod_coll *c, const struct isod_stream_coll *what, const struct isod_span *s)
{
    for (uint64_t u = s->first + c->rank; u < s->last; u += c->size) {
        struct prim_vec16 v = {{0, 0}};
        for (uint32_t part = 0; part < any_parts(what); part++)
            any_unite(&v, what->nodes != 0 ? any_by_nodes(c, what, s, u, part) : any_in_order(c, what, s, u, part));
        for (uint32_t i = 0; i <= (s->to == ISOD_SPAN_ALL ? isod_coll_others(c) : 0); i++) { /* as isod_reduce_span */
            char *dest = i == 0 ? s->dest : s->dest + isod_table_dest()[isod_coll_other(c, i)];
            isod_unit_store(dest + u * 16, v, s->bytes - u * 16);
        }
    }
}

PRIM_FN int any_pipelined(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    struct isod_move w;
    if (!isod_stream_part(what, &w))
        return 0;
    if (!isod_coll_enter_for(&c, what->h, what->call, isod_units(w.bytes) + 2)) /* a piece is a unit or more */
        return 1;
    struct isod_reduce all = isod_reduce_of(w.dest, w.source, w.bytes, w.source_stride);
    bool direct = what->by_pointer != 0, to_all = what->source_stride == 0, on = true, odd = false;
    if (direct) { /* all members are here */
        struct isod_touched source =
            isod_touched_of(what->source, what->source_place, isod_table_source(), what->source);
        struct isod_touched dest = isod_touched_of(what->dest, what->dest_place, isod_table_dest(), what->dest);
        isod_places_announce(&c, to_all ? 2 : 1, what->source_place, what->dest_place);
        isod_table_expect(&c, source);
        if (to_all)
            isod_table_expect(&c, dest);
        on = isod_places_await(&c, to_all ? 2 : 1, source, dest, &odd);
    }
    for (uint64_t at = 0; on && at < w.bytes; at += direct ? w.bytes : c.inbox_bytes) {
        struct isod_span s = direct ? isod_span_direct(&c, &all) : isod_span_staged(&c, &all, at);
        if (!direct) {
            isod_coll_begin_staged_epoch(&c);
            isod_stages_put(&c, all.source + at, all.stride, s.bytes);
            isod_coll_sync(&c);
            if (!isod_coll_goes_on(&c))
                break;
        }
        any_span(&c, what, &s);
    }
    if (direct && !c.failed) {
        isod_coll_begin_epoch(&c);
        isod_coll_sync_near(&c);
    }
    return isod_coll_leave(&c);
}

/* ---- reduce: a piece of n stages in two epochs. Its span m goes to member m, which combines it; the result goes to
 * the root. What is left at the end and fits a stage goes to the root at once: its span is all, those of others are
 * empty. dest may be source at the root: results come after all members have sent what they had there ---- */

struct rooted {
    struct isod_move w; /* the piece */
    uint64_t each;      /* bytes of a span; 0: all are the root's */
};
PRIM_FN struct isod_part rooted_span(const struct rooted *r, int32_t m)
{
    struct isod_part p;
    p.at = r->each * (uint64_t)(uint32_t)m;
    p.bytes = p.at >= r->w.bytes ? 0 : r->w.bytes - p.at < r->each ? r->w.bytes - p.at : r->each;
    if (r->each == 0) {
        p.at = 0;
        p.bytes = m == r->w.from ? r->w.bytes : 0;
    }
    return p;
}

/* Spans into the stages of their owners. */
PRIM_FN void rooted_send(struct isod_coll *c, const struct rooted *r)
{
    struct isod_waves waves = isod_waves_of(c);
    uint64_t stage = isod_stage_at(c, c->h.my_pe);
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t to = isod_coll_other(c, i);
        struct isod_part span = rooted_span(r, to), p = isod_part_of(span.bytes, waves.nth, waves.of);
        if (i == 0 || p.bytes == 0)
            continue;
        const char *source = r->w.source + span.at + p.at;
        char *memory = isod_coll_memory(c, to);
        isod_coll_put_at(c, prim_group_wave(), to, memory != 0 ? memory + stage + p.at : memory,
                         isod_bytes_of(isod_coll_far_memory(c, to) + stage + p.at, source, p.bytes));
    }
}

/* Results, which are in the owners' own stages of the epoch before, to the root. */
PRIM_FN void rooted_collect(struct isod_coll *c, const struct rooted *r, const char *result)
{
    struct isod_waves waves = isod_waves_of(c);
    bool root = c->h.my_pe == r->w.from;
    struct isod_part mine = rooted_span(r, c->h.my_pe);
    isod_coll_begin_staged_epoch(c);
    prim_gather_stores(prim_group_block());
    if (!root && mine.bytes > 0)
        isod_stage_put(c, r->w.from, result, mine.bytes);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c) || !root)
        return;
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t m = isod_coll_other(c, i);
        struct isod_part span = rooted_span(r, m), p = isod_part_of(span.bytes, waves.nth, waves.of);
        if (i != 0 && p.bytes > 0)
            prim_copy(prim_group_wave(), r->w.dest + span.at + p.at, c->here + isod_stage_at(c, m) + p.at, p.bytes);
    }
}

PRIM_FN void rooted_piece(struct isod_coll *c, const struct isod_stream_coll *what, const struct rooted *r)
{
    struct isod_part mine = rooted_span(r, c->h.my_pe);
    struct isod_span s;
    isod_coll_begin_staged_epoch(c);
    rooted_send(c, r);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    char *result = isod_own_stage(c);
    s.dest = c->h.my_pe == r->w.from ? r->w.dest + mine.at : result;
    s.source = r->w.source + mine.at;
    s.bytes = mine.bytes;
    s.first = 0;
    s.last = isod_units(mine.bytes);
    s.from = ISOD_SPAN_STAGES;
    s.to = ISOD_SPAN_OWN;
    any_span(c, what, &s);
    if (r->each != 0)
        rooted_collect(c, r, result);
}

PRIM_FN int any_rooted(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    struct isod_move w;
    struct rooted r;
    uint64_t at = 0, n = (uint64_t)(uint32_t)what->h.n_pes;
    if (!isod_stream_part(what, &w))
        return 0;
    if (!isod_coll_enter_for(&c, what->h, what->call, isod_units(w.bytes) + 2)) /* two epochs are two units or more */
        return 1;
    prim_sync(prim_group_block());
    for (; at < w.bytes && !c.failed; at += r.w.bytes) {
        r.w = isod_move_piece(&w, at, n * c.inbox_bytes);
        r.each = (uint64_t)isod_ceil_div((uint32_t)isod_units(r.w.bytes), (uint32_t)n) * 16;
        if (r.w.bytes <= c.inbox_bytes)
            r.each = 0;
        rooted_piece(&c, what, &r);
    }
    return isod_coll_leave(&c);
}

/* ---- reducescatter of splits: packed pieces into the stages of their owner, which combines them in its own ---- */

PRIM_FN void splits_send(struct isod_coll *c, const struct isod_stream_coll *what, uint64_t at, uint64_t end)
{
    struct isod_waves waves = isod_waves_of(c);
    struct isod_part p = isod_part_of(end - at, waves.nth, waves.of);
    uint64_t stage = isod_stage_at(c, c->h.my_pe), bytes, stop = at + p.at + p.bytes;
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t to = isod_coll_other(c, i);
        char *memory = isod_coll_memory(c, to), *far = isod_coll_far_memory(c, to) + stage;
        uint64_t from = at + p.at;
        for (uint32_t k = isod_split_find(what, from); from < stop; k++, from += bytes) {
            const char *source = what->source + isod_split_place(what, k, from, to);
            bytes = isod_split_bytes(what, k, from, stop);
            isod_coll_put_at(c, prim_group_wave(), to, memory != 0 ? memory + stage + (from - at) : memory,
                             isod_bytes_of(far + (from - at), source, bytes));
        }
    }
}

PRIM_FN void splits_piece(struct isod_coll *c, const struct isod_stream_coll *what, uint64_t at, uint64_t end)
{
    struct isod_waves all = isod_waves_among(c, 1);
    struct isod_part p = isod_part_of(end - at, all.nth, all.of);
    struct isod_span s;
    isod_coll_begin_staged_epoch(c);
    splits_send(c, what, at, end);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;

    /* Whole units, as far as the stages go: what is behind `end` in the last one goes nowhere. */
    s.dest = isod_own_stage(c);
    s.source = s.dest;
    s.last = isod_units(end - at);
    s.first = 0;
    s.bytes = s.last * 16;
    s.from = ISOD_SPAN_STAGES;
    s.to = ISOD_SPAN_OWN;
    any_span(c, what, &s);
    prim_sync(prim_group_block());
    isod_splits_unpack(what, ISOD_SPLITS_OWN, s.dest + p.at, at + p.at, at + p.at + p.bytes);
}

PRIM_FN int any_splits(const struct isod_stream_coll *what)
{
    struct isod_coll c;
    uint64_t at = prim_block_index() * what->share, left = at < what->bytes ? what->bytes - at : 0;
    uint64_t end = at + (left < what->share ? left : what->share);
    if (left == 0)
        return 0;
    if (!isod_coll_enter_for(&c, what->h, what->call, isod_units(end - at))) /* a piece is a unit or more */
        return 1;
    prim_sync(prim_group_block());
    for (; at < end && !c.failed; at += c.inbox_bytes)
        splits_piece(&c, what, at, end - at < c.inbox_bytes ? end : at + c.inbox_bytes);
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

ISOD_STREAM_KERNEL(reduce_ll_any, any_ll(&a))
ISOD_STREAM_KERNEL(reduce_pipelined_any, any_pipelined(&a))
ISOD_STREAM_KERNEL(reduce_rooted_any, any_rooted(&a))
ISOD_STREAM_KERNEL(reduce_splits_any, any_splits(&a))
