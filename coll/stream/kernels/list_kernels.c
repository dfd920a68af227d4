/* SPDX-License-Identifier: MIT */
/* Kernels of calls whose blocks or splits the host knows: alltoallv through stages and by LL128, fcollect of splits, and
 * the kernel that stores the list of them. Each piece is a staged epoch. Launched by stream_algorithm.c.
 * Includes: list_device.h, ll128_device.h. */
#include "list_device.h"
#include "ll128_device.h"

/* ---- alltoallv: the head of each stage says how many bytes its sender has for the receiver, and how many at most for
 * any member. So after the first epoch all know the largest block, and go through the same number of epochs ---- */

#define HEAD_BYTES 16u

struct list_blocks {
    const struct isod_stream_coll *a;
    uint64_t most;  /* the largest block of this member, then of all */
    uint32_t piece; /* bytes of one */
    bool differ;    /* some member sends another number of bytes than this one expects; alike in all blocks */
};
PRIM_FN uint64_t blocks_word(const struct list_blocks *b, int32_t which, int32_t member)
{
    return prim_load_const_u64(&b->a->list[(uint64_t)(uint32_t)which * (uint32_t)b->a->h.n_pes + (uint32_t)member]);
}
enum { SENT, SENT_AT, RECEIVED, RECEIVED_AT };

/* This block's part of so many bytes. */
PRIM_FN struct isod_part blocks_part(uint64_t bytes)
{
    return isod_part_of(bytes, (uint32_t)prim_block_index(), (uint32_t)prim_block_count());
}
/* What of it is in the piece at `at`. */
PRIM_FN struct isod_part blocks_piece(const struct list_blocks *b, struct isod_part part, uint64_t at)
{
    struct isod_part p;
    p.at = part.at + at;
    p.bytes = part.bytes <= at ? 0 : part.bytes - at < b->piece ? part.bytes - at : b->piece;
    return p;
}

PRIM_FN void blocks_copy_own(const struct list_blocks *b)
{
    int32_t me = b->a->h.my_pe;
    struct isod_part own = blocks_part(blocks_word(b, SENT, me));
    if (own.bytes > 0)
        isod_coll_copy_own(b->a->dest + blocks_word(b, RECEIVED_AT, me) + own.at,
                           b->a->source + blocks_word(b, SENT_AT, me) + own.at, own.bytes);
}

PRIM_FN void blocks_send_head(struct isod_coll *c, const struct list_blocks *b, int32_t to, uint64_t bytes)
{
    char *memory = isod_coll_memory(c, to);
    uint64_t at = isod_stage_at(c, c->h.my_pe);
    if (memory != 0) {
        prim_store_relaxed_u64((uint64_t *)(void *)(memory + at), bytes);
        prim_store_relaxed_u64((uint64_t *)(void *)(memory + at) + 1, b->most);
    } else {
        char *far = isod_coll_far_memory(c, to) + at;
        isod_ring_put_words(c->h, far, isod_words_of(bytes, b->most, HEAD_BYTES), isod_world_pe(c->h, to));
    }
}

/* The piece at `at` of what goes to each other member. */
PRIM_FN void blocks_send(struct isod_coll *c, const struct list_blocks *b, uint64_t at)
{
    struct isod_waves waves = isod_waves_of(c);
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t to = isod_coll_other(c, i);
        if (i == 0)
            continue;
        uint64_t bytes = blocks_word(b, SENT, to), stage = isod_stage_at(c, c->h.my_pe) + HEAD_BYTES;
        struct isod_part piece = blocks_piece(b, blocks_part(bytes), at);
        struct isod_part p = isod_part_of(piece.bytes, waves.nth, waves.of);
        if (p.bytes > 0) {
            char *memory = isod_coll_memory(c, to);
            const char *from = b->a->source + blocks_word(b, SENT_AT, to) + piece.at + p.at;
            isod_coll_put_at(c, prim_group_wave(), to, memory != 0 ? memory + stage + p.at : memory,
                             isod_bytes_of(isod_coll_far_memory(c, to) + stage + p.at, from, p.bytes));
        }
        if (waves.nth == 0 && prim_is_first(prim_group_wave()))
            blocks_send_head(c, b, to, bytes);
    }
}

/* By one thread, behind the call: the last block marks the handle, not before, since the others need the ring. The word
 * behind the list counts them, which is 0 when the call begins: it is this device's own, and orders nothing, since
 * isod_coll_leave has ended each block's part before. */
PRIM_COLD_FN void blocks_mark(struct isod_team *team, uint64_t *count)
{
    if (prim_fetch_add_u64(count, 1) == prim_block_count() - 1)
        isod_handle_give_up(team);
}
PRIM_FN int blocks_leave(struct isod_coll *c, const struct list_blocks *b)
{
    int rc = isod_coll_leave(c);
    if (b->differ && c->rank == 0)
        blocks_mark(c->h.team, (uint64_t *)(uintptr_t)b->a->list + 4 * (uint64_t)(uint32_t)c->h.n_pes);
    return rc;
}

/* By all threads. */
PRIM_FN void blocks_compare(const struct isod_coll *c, struct list_blocks *b, int32_t from, uint64_t sent)
{
    uint64_t expected = blocks_word(b, RECEIVED, from);
    if (sent == expected)
        return;
    b->differ = true;
    if (c->rank == 0 && prim_block_index() == 0)
        isod_coll_record_misuse(c->h.team, isod_who(c->call, isod_world_pe(c->h, from)), ISOD_MISUSE_BLOCKS, expected,
                                sent);
}

PRIM_FN const uint64_t *blocks_head(const struct isod_coll *c, int32_t from)
{
    return (const uint64_t *)(const void *)(c->here + isod_stage_at(c, from));
}
PRIM_FN void blocks_receive(struct isod_coll *c, const struct list_blocks *b, uint64_t at)
{
    struct isod_waves waves = isod_waves_of(c);
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t from = isod_coll_other(c, i);
        if (i == 0)
            continue;
        uint64_t sent = prim_load_relaxed_u64(blocks_head(c, from)), expected = blocks_word(b, RECEIVED, from);
        struct isod_part piece = blocks_piece(b, blocks_part(sent), at);
        uint64_t room = expected > piece.at ? expected - piece.at : 0;
        struct isod_part p = isod_part_of(piece.bytes < room ? piece.bytes : room, waves.nth, waves.of);
        if (p.bytes > 0)
            prim_copy(prim_group_wave(), b->a->dest + blocks_word(b, RECEIVED_AT, from) + piece.at + p.at,
                      c->here + isod_stage_at(c, from) + HEAD_BYTES + p.at, p.bytes);
    }
}

/* Lengths differ between members, so all blocks take part, each with its part of each length. */
PRIM_FN int alltoallv_staged(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct list_blocks b;
    uint64_t at = 0, share = 0, most_units = (uint64_t)1 << 32; /* of less than 64 GiB */
    b.a = a;
    b.most = a->bytes;
    b.differ = false;
    b.piece = a->h.inbox_bytes - HEAD_BYTES;
    uint64_t epochs = most_units / prim_block_count() * 16 / b.piece + 2;
    if (!isod_coll_enter_for(&c, a->h, a->call, epochs))
        return 1;
    blocks_copy_own(&b);
    prim_sync(prim_group_block());
    do {
        isod_coll_begin_staged_epoch(&c);
        blocks_send(&c, &b, at);
        isod_coll_sync(&c);
        if (!isod_coll_goes_on(&c))
            break;
        blocks_receive(&c, &b, at);
        for (uint32_t i = 1; at == 0 && i <= isod_coll_others(&c); i++) {
            int32_t from = isod_coll_other(&c, i);
            uint64_t sent = prim_load_relaxed_u64(blocks_head(&c, from));
            uint64_t theirs = prim_load_relaxed_u64(blocks_head(&c, from) + 1);
            b.most = theirs > b.most ? theirs : b.most;
            blocks_compare(&c, &b, from, sent);
        }
        share = (uint64_t)isod_ceil_div((uint32_t)isod_units(b.most), (uint32_t)prim_block_count()) * 16;
        at += b.piece;
    } while (at < share);
    return blocks_leave(&c, &b);
}

/* ---- the same by LL128. Line 0 of each epoch is the head: how many bytes its sender has for the receiver, and how
 * many epochs the largest block of the sender takes. An epoch has a head for each other member, so it says that this
 * member has read the epoch before ---- */

#define HEAD_BYTES_BITS 40 /* of a word; the rest of it counts epochs */

PRIM_FN uint32_t blocks_lines(uint64_t bytes) { return 1 + isod_ll128_lines(bytes); }

PRIM_FN void blocks_send_lines(struct isod_coll *c, const struct list_blocks *b, uint64_t at, uint32_t epochs)
{
    struct isod_ll128 w = isod_ll128_of(c);
    for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
        int32_t to = isod_coll_other(c, i);
        uint64_t bytes = blocks_word(b, SENT, to), head = bytes | (uint64_t)epochs << HEAD_BYTES_BITS;
        struct isod_part p = blocks_piece(b, blocks_part(bytes), at);
        const char *from = b->a->source + blocks_word(b, SENT_AT, to) + p.at;
        struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)from, p.bytes);
        for (uint32_t first = w.first; first < blocks_lines(p.bytes); first += w.every) {
            uint32_t line = first + w.nth;
            for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
                struct prim_vec16 v = {{head, head}}; /* each thread finds it in its own piece */
                if (line != 0)
                    v = isod_ll128_load(&d, from, (uint64_t)(line - 1) * ISOD_LL128_DATA + piece * 16, piece);
                prim_ll128_store(isod_ll128_there(c, to, line), piece, isod_ll128_flagged(v, piece, c->epoch),
                                 line < blocks_lines(p.bytes));
            }
        }
    }
}

/* The largest number of epochs of all members. */
PRIM_FN uint32_t blocks_receive_lines(struct isod_coll *c, struct list_blocks *b, uint64_t at, uint32_t epochs)
{
    struct isod_ll128 w = isod_ll128_of(c);
    for (uint32_t i = 1; i <= isod_coll_others(c) && !c->failed; i++) {
        int32_t from = isod_coll_other(c, i);
        struct prim_vec16 v[ISOD_BATCH];
        isod_ll128_wait(c, from, 1, isod_ll128_piece_of(0, w.piece, true), v);
        if (c->failed)
            break;
        uint64_t sent = v[0].word[0] & (((uint64_t)1 << HEAD_BYTES_BITS) - 1), expected = blocks_word(b, RECEIVED, from);
        uint32_t theirs = (uint32_t)(v[0].word[0] >> HEAD_BYTES_BITS);
        epochs = theirs > epochs ? theirs : epochs;
        struct isod_part p = blocks_piece(b, blocks_part(sent), at);
        uint64_t room = expected > p.at ? expected - p.at : 0;
        char *dest = b->a->dest + blocks_word(b, RECEIVED_AT, from) + p.at;
        struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)dest, p.bytes < room ? p.bytes : room);
        for (uint32_t first = w.first; first < blocks_lines(p.bytes) && !c->failed; first += w.every) {
            uint32_t line = first + w.nth;
            bool yes = line != 0 && line < blocks_lines(p.bytes);
            for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
                isod_ll128_wait(c, from, 1, isod_ll128_piece_of(line, piece, yes), v);
                if (yes && !c->failed)
                    isod_ll128_store(&d, dest, (uint64_t)(line - 1) * ISOD_LL128_DATA + piece * 16, piece, v[0]);
            }
        }
        if (at == 0)
            blocks_compare(c, b, from, sent);
    }
    return epochs;
}

/* Pieces are of whole units, so of lines in pairs. */
PRIM_FN int alltoallv_ll128(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    struct list_blocks b;
    uint32_t units = (isod_ll128_bytes(a->h.inbox_bytes) / ISOD_LL128_LINE - 1) / 2 * (2 * ISOD_LL128_DATA / 16);
    uint64_t at = 0, most_units = (uint64_t)1 << 32; /* of less than 64 GiB */
    b.a = a;
    b.most = a->bytes;
    b.differ = false;
    b.piece = units * 16;
    if (!isod_coll_enter_near_for(&c, a->h, a->call, most_units / prim_block_count() / units + 2))
        return 1;
    uint32_t share = isod_ceil_div((uint32_t)isod_units(b.most), (uint32_t)prim_block_count());
    uint32_t epochs = isod_ceil_div(share, units);
    blocks_copy_own(&b);
    prim_sync(prim_group_block());
    do {
        isod_coll_begin_staged_epoch(&c);
        blocks_send_lines(&c, &b, at, epochs);
        epochs = blocks_receive_lines(&c, &b, at, epochs);
        at += b.piece;
    } while (isod_coll_goes_on(&c) && at < (uint64_t)epochs * b.piece);
    return blocks_leave(&c, &b);
}

/* ---- fcollect of splits ---- */

/* The piece at `at`, `end` is behind it: from the own stage to the others, out of the stages into dest. */
PRIM_FN void splits_piece(struct isod_coll *c, const struct isod_stream_coll *a, uint64_t at, uint64_t end)
{
    struct isod_waves all = isod_waves_among(c, 1), waves = isod_waves_of(c);
    struct isod_part mine = isod_part_of(end - at, all.nth, all.of), p = isod_part_of(end - at, waves.nth, waves.of);
    isod_coll_begin_staged_epoch(c);
    isod_splits_pack(a, isod_own_stage(c) + mine.at, at + mine.at, at + mine.at + mine.bytes);
    prim_gather_stores(prim_group_block());
    isod_stages_put(c, isod_own_stage(c), 0, end - at);
    isod_coll_sync(c);
    if (!isod_coll_goes_on(c))
        return;
    for (uint32_t i = waves.first; i <= isod_coll_others(c); i += waves.stride) {
        int32_t m = isod_coll_other(c, i);
        isod_splits_unpack(a, m, c->here + isod_stage_at(c, m) + p.at, at + p.at, at + p.at + p.bytes);
    }
}

PRIM_FN int splits_staged(const struct isod_stream_coll *a)
{
    struct isod_coll c;
    uint64_t at = prim_block_index() * a->share, left = at < a->bytes ? a->bytes - at : 0;
    uint64_t end = at + (left < a->share ? left : a->share);
    if (left == 0)
        return 0;
    if (!isod_coll_enter_for(&c, a->h, a->call, isod_units(end - at))) /* a piece is a unit or more */
        return 1;
    prim_sync(prim_group_block());
    for (; at < end && !c.failed; at += c.inbox_bytes)
        splits_piece(&c, a, at, end - at < c.inbox_bytes ? end : at + c.inbox_bytes);
    return isod_coll_leave(&c);
}

/* ---- kernels ---- */

ISOD_STREAM_KERNEL(alltoallv_staged, alltoallv_staged(&a))
ISOD_STREAM_KERNEL(alltoallv_ll128, alltoallv_ll128(&a))
ISOD_STREAM_KERNEL(splits_staged, splits_staged(&a))

/* The calls behind it read the list when it has ended. */
PRIM_KERNEL_BOUNDED(isod_stream_list_kernel, struct isod_stream_list, a, ISOD_STREAM_THREADS)
{
    prim_stream_wait();
    for (uint64_t i = prim_rank(prim_group_block()); i < a.n; i += prim_size(prim_group_block()))
        a.to[i] = a.word[i];
}
