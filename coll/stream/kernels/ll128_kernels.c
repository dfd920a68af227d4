/* SPDX-License-Identifier: MIT */
/* Kernels that move data on streams by LL128, and the one that finds out whether stores of 128 bytes arrive whole.
 * Launched by stream_algorithm.c and stream_probe.c. Includes: move_stream.h. */
#include "move_stream.h"

/* ---- broadcast in two hops ---- */

/* In as few rounds as inboxes allow, each about as long. */
PRIM_FN int twoshot_rounds(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct isod_move w;
    uint64_t at = 0;
    if (!isod_stream_part(a, &w))
        return 0;
    if (!isod_coll_enter_near(&c, a->h, a->call))
        return 1;
    uint32_t parts = a->h.n_pes > 1 ? (uint32_t)a->h.n_pes - 1 : 1;
    uint32_t span = isod_ceil_div(isod_ll128_lines(a->share), parts);
    uint32_t each = isod_ceil_div(span, isod_ceil_div(span, isod_ll128_lines(c.inbox_bytes)));
    int32_t first = w.from + 1 < a->h.n_pes ? w.from + 1 : 0; /* so the root's own part is behind the end */
    prim_sync(prim_group_block());
    do {
        uint64_t most = (uint64_t)each * ISOD_LL128_DATA * parts;
        struct isod_move piece = isod_move_piece(&w, at, most);
        isod_coll_begin_staged_epoch(&c);
        /* The root sends a part to each other member, which sends it to the others, line by line: in one epoch, since
         * lines from the root and lines from a member lie apart. A part may be empty, hence flags of all to all. */
        struct isod_ll128_parts p = isod_ll128_parts_of(&c, piece.bytes, first, each);
        if (a->h.my_pe == w.from) {
            isod_ll128_parts_send(&c, &p, piece.source);
            isod_flags_send_near(&c);
            isod_coll_copy_own(piece.dest, piece.source, piece.bytes);
        } else {
            isod_flags_send_near(&c);
            isod_ll128_parts_forward(&c, &p, w.from, piece.dest);
            isod_ll128_parts_receive(&c, &p, piece.dest);
        }
        isod_flags_wait(&c, -1, ISOD_ARRIVAL);
        at += most;
    } while (at < w.bytes && isod_coll_goes_on(&c));
    return isod_coll_leave(&c);
}

/* ---- do they arrive whole? ---- */

/* Word i of a member's line in an epoch; of no other line, nor of another epoch. */
PRIM_FN uint64_t probe_word(uint64_t epoch, int32_t sender, uint32_t line, uint32_t i)
{
    return epoch << 24 | (uint64_t)((uint32_t)sender & 0xff) << 16 | (line & 0xfff) << 4 | i;
}
PRIM_FN struct prim_vec16 probe_piece(const struct isod_coll *c, int32_t sender, uint32_t line, uint32_t piece)
{
    struct prim_vec16 v;
    v.word[0] = probe_word(c->epoch, sender, line, 2 * piece);
    v.word[1] = piece != ISOD_LL128_PIECES - 1 ? probe_word(c->epoch, sender, line, 2 * piece + 1) : c->epoch;
    return v;
}
/* Words that are not what the flag promises. */
PRIM_FN uint64_t probe_look(struct isod_coll *c, struct isod_ll128_piece p)
{
    uint64_t wrong = 0;
    for (int32_t first = 0; first < c->h.n_pes && !c->failed; first += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH];
        isod_ll128_wait(c, first, ISOD_BATCH, p, v);
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_BATCH; k++)
            if (p.yes && !c->failed && first + k < c->h.n_pes && first + k != c->h.my_pe) {
                struct prim_vec16 right = probe_piece(c, first + k, p.line, p.piece);
                wrong += v[k].word[0] != right.word[0];
                wrong += p.piece != ISOD_LL128_PIECES - 1 && v[k].word[1] != right.word[1];
            }
    }
    return wrong;
}
/* Nothing of the lane but its LL128 memory is used, so its epochs stay as they are. */
PRIM_FN int ll128_probe(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    uint64_t wrong = 0;
    isod_coll_read_team(&c, a->h, a->call);
    c.epoch = a->share;
    c.staged = 0;
    uint32_t fit = isod_ll128_lines(c.inbox_bytes), lines = fit < ISOD_PROBE_LINES ? fit : ISOD_PROBE_LINES;
    prim_sync(prim_group_block());
    for (uint64_t round = 0; round < a->bytes; round++) {
        isod_coll_begin_staged_epoch(&c);
        struct isod_ll128 w = isod_ll128_of(&c);
        for (uint32_t first = w.first; first < lines; first += w.every)
            for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes)
                isod_ll128_send_piece(&c, isod_ll128_piece_of(first + w.nth, piece, first + w.nth < lines),
                                      probe_piece(&c, c.h.my_pe, first + w.nth, piece));
        for (uint32_t first = w.first; first < lines && !c.failed; first += w.every)
            for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes)
                wrong += probe_look(&c, isod_ll128_piece_of(first + w.nth, piece, first + w.nth < lines));
        if (!isod_coll_goes_on(&c))
            break;
    }
    if (c.failed || wrong != 0) /* what has not come has not arrived whole */
        (void)prim_fetch_add_u64(a->v_received, wrong != 0 ? wrong : 1);
    return c.failed ? 1 : 0;
}

/* ---- kernels ---- */

ISOD_STREAM_KERNEL(exchange_ll128, move_pieces(&a, EXCHANGE_LL128))
ISOD_STREAM_KERNEL(broadcast_ll128, move_pieces(&a, BROADCAST_LL128))
ISOD_STREAM_KERNEL(permute_ll128, move_pieces(&a, PERMUTE_LL128))
ISOD_STREAM_KERNEL(broadcast_twoshot_ll128, twoshot_rounds(&a))
ISOD_STREAM_KERNEL(ll128_probe, ll128_probe(&a))
