/* SPDX-License-Identifier: MIT */
/* LL128: lines of 120 bytes of data and their epoch, in one store of 128 bytes. One part in 16 of the traffic is flags;
 * of LL it is every other byte. It is for teams whose members' stores of that size arrive whole
 * (ISOD_NEEDS_WHOLE_LINES: tried out when a slot is made, ll128_kernels.c). The rules of banks and epochs are those of
 * LL. The flag is the whole epoch, so nothing is cleared when its low half wraps. The memory is used by LL128 alone: a
 * word there that is not a flag has never been one.
 * Data is counted in words of 8 bytes, 15 a line. 8 threads handle a line, a piece of two words each, the last one of
 * one; the threads of a wave go through its lines together, since its votes say what has come. So `failed` is alike in
 * a wave. Includes: stream_device.h. Included by *_kernels.c here. */
#ifndef ISO_LL128_DEVICE_H
#define ISO_LL128_DEVICE_H

#include "stream_device.h"

#define ISOD_LL128_DATA 120u /* bytes of a line */
#define ISOD_LL128_LINE 128u
#define ISOD_LL128_PIECES 8u

enum isod_by { ISOD_BY_LL, ISOD_BY_LL128 }; /* of schedules that both of them have */

PRIM_FN uint32_t isod_ll128_lines(uint64_t bytes) { return ((uint32_t)bytes + ISOD_LL128_DATA - 1) / ISOD_LL128_DATA; }

/* ---- places ---- */

/* This thread's: lines first + nth, + every .. are its, pieces piece, + lanes .. of them. `first` is the wave's, for
 * loops that all its threads leave at once. */
struct isod_ll128 {
    uint32_t first, nth, every, piece, lanes;
};
PRIM_FN struct isod_ll128 isod_ll128_of(const struct isod_coll *c)
{
    struct isod_ll128 w;
    uint32_t in_wave = c->rank % prim_wave_size();
    w.lanes = prim_ll128_lanes();
    w.piece = c->rank % w.lanes;
    w.nth = in_wave / w.lanes;
    w.first = (c->rank - in_wave) / w.lanes;
    w.every = c->size / w.lanes;
    return w;
}

/* Where in a lane `sender`'s lines of a staged epoch are. */
PRIM_FN uint64_t isod_ll128_box(const struct isod_coll *c, int32_t sender, uint64_t staged)
{
    uint32_t n = (uint32_t)c->h.n_pes, one = isod_ll128_bytes(c->inbox_bytes);
    return isod_ll128_at(c->h.n_pes, c->inbox_bytes) + (uint64_t)(((uint32_t)staged & 1) * n + (uint32_t)sender) * one;
}
PRIM_FN char *isod_ll128_there(const struct isod_coll *c, int32_t to, uint32_t line)
{
    return isod_coll_memory(c, to) + isod_ll128_box(c, c->h.my_pe, c->staged) + (uint64_t)line * ISOD_LL128_LINE;
}

/* ---- the user's memory: pieces of 16 bytes or 8, none beyond `bytes` ---- */

typedef uint64_t __attribute__((__may_alias__)) isod_any64;

/* The memory that a block sends or receives in a round. odd: not of whole words at addresses of words. */
struct isod_ll128_data {
    uint64_t bytes;
    bool odd;
};
PRIM_FN struct isod_ll128_data isod_ll128_data_of(uint64_t addresses, uint64_t bytes)
{
    struct isod_ll128_data d;
    d.bytes = bytes;
    d.odd = ((addresses | bytes) & 7) != 0;
    return d;
}
PRIM_FN uint64_t isod_ll128_left(const struct isod_ll128_data *d, uint64_t at, uint32_t piece)
{
    uint64_t most = piece != ISOD_LL128_PIECES - 1 ? 16 : 8, left = at < d->bytes ? d->bytes - at : 0;
    return left < most ? left : most;
}
/* At `at` of p; words beyond the end are 0. */
PRIM_FN struct prim_vec16 isod_ll128_load(const struct isod_ll128_data *d, const char *p, uint64_t at, uint32_t piece)
{
    struct prim_vec16 v = {{0, 0}};
    uint64_t left = isod_ll128_left(d, at, piece);
    if (!d->odd) {
        if (left >= 8)
            v.word[0] = *(const isod_any64 *)(const void *)(p + at);
        if (left >= 16)
            v.word[1] = *(const isod_any64 *)(const void *)(p + at + 8);
    } else if (left > 0) {
        v = isod_unit_load_odd(p + at, left);
    }
    return v;
}
PRIM_FN void isod_ll128_store(const struct isod_ll128_data *d, char *p, uint64_t at, uint32_t piece,
                              struct prim_vec16 v)
{
    uint64_t left = isod_ll128_left(d, at, piece);
    if (!d->odd) {
        if (left >= 8)
            *(isod_any64 *)(void *)(p + at) = v.word[0];
        if (left >= 16)
            *(isod_any64 *)(void *)(p + at + 8) = v.word[1];
    } else if (left > 0) {
        isod_unit_store_odd(p + at, v, left);
    }
}

/* ---- send: source + m * stride to each other member m, in a staged epoch ---- */

PRIM_FN struct prim_vec16 isod_ll128_flagged(struct prim_vec16 v, uint32_t piece, uint64_t flag)
{
    if (piece == ISOD_LL128_PIECES - 1)
        v.word[1] = flag;
    return v;
}

/* A thread's piece of a line. */
struct isod_ll128_piece {
    uint32_t line, piece;
    bool yes; /* there is such a line */
};
PRIM_FN struct isod_ll128_piece isod_ll128_piece_of(uint32_t line, uint32_t piece, bool yes)
{
    struct isod_ll128_piece p = {line, piece, yes};
    return p;
}

/* The same piece to all. */
PRIM_FN void isod_ll128_send_piece(const struct isod_coll *c, struct isod_ll128_piece p, struct prim_vec16 v)
{
    v = isod_ll128_flagged(v, p.piece, c->epoch);
    for (uint32_t i = 1; i <= isod_coll_others(c); i++)
        prim_ll128_store(isod_ll128_there(c, isod_coll_other(c, i), p.line), p.piece, v, p.yes);
}
/* The same in the epoch after this one. */
PRIM_FN void isod_ll128_send_piece_ahead(struct isod_coll *c, struct isod_ll128_piece p, struct prim_vec16 v)
{
    c->epoch++;
    c->staged++;
    isod_ll128_send_piece(c, p, v);
    c->epoch--;
    c->staged--;
}
PRIM_FN void isod_ll128_send_all(const struct isod_coll *c, const char *source, uint64_t bytes)
{
    struct isod_ll128 w = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)source, bytes);
    for (uint32_t first = w.first; first < isod_ll128_lines(bytes); first += w.every) {
        uint32_t line = first + w.nth;
        for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
            uint64_t at = (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            struct prim_vec16 v = isod_ll128_load(&d, source, at, piece);
            isod_ll128_send_piece(c, isod_ll128_piece_of(line, piece, line < isod_ll128_lines(bytes)), v);
        }
    }
}
PRIM_FN void isod_ll128_send_each(const struct isod_coll *c, const char *source, uint64_t stride, uint64_t bytes)
{
    struct isod_ll128 w = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)source | stride, bytes);
    for (uint32_t first = w.first; first < isod_ll128_lines(bytes); first += w.every) {
        uint32_t line = first + w.nth;
        bool yes = line < isod_ll128_lines(bytes);
        for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
            uint64_t at = (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
                int32_t m = isod_coll_other(c, i);
                struct prim_vec16 v = isod_ll128_load(&d, source + (uint64_t)(uint32_t)m * stride, at, piece);
                prim_ll128_store(isod_ll128_there(c, m, line), piece, isod_ll128_flagged(v, piece, c->epoch), yes);
            }
        }
    }
}
PRIM_FN void isod_ll128_send(const struct isod_coll *c, const char *source, uint64_t stride, uint64_t bytes)
{
    if (stride == 0)
        isod_ll128_send_all(c, source, bytes);
    else
        isod_ll128_send_each(c, source, stride, bytes);
}
PRIM_FN void isod_ll128_send_one(const struct isod_coll *c, int32_t to, const char *source, uint64_t bytes)
{
    struct isod_ll128 w = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)source, bytes);
    for (uint32_t first = w.first; first < isod_ll128_lines(bytes); first += w.every) {
        uint32_t line = first + w.nth;
        for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
            uint64_t at = (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            struct prim_vec16 v = isod_ll128_flagged(isod_ll128_load(&d, source, at, piece), piece, c->epoch);
            prim_ll128_store(isod_ll128_there(c, to, line), piece, v, line < isod_ll128_lines(bytes));
        }
    }
}

/* ---- receive ---- */

/* Lines of members first, first + 1, .. of which a thread wants its piece. */
struct isod_ll128_wanted {
    const char *from; /* the line of the first */
    uint32_t sender;  /* bytes from one member's to the next */
    int32_t first, count;
    uint32_t piece;
    bool yes; /* this thread wants any */
};
PRIM_FN bool isod_ll128_wants(const struct isod_coll *c, const struct isod_ll128_wanted *w, int32_t k)
{
    return w->yes && k < w->count && w->first + k < c->h.n_pes && w->first + k != c->h.my_pe;
}
/* One look at each, all under way at once. The last k whose line has not come, -1: all have. */
PRIM_FN int32_t isod_ll128_missing(const struct isod_coll *c, const struct isod_ll128_wanted *w, struct prim_vec16 *v)
{
    int32_t missing = -1;
    PRIM_UNROLL
    for (int32_t k = 0; k < ISOD_BATCH; k++)
        if (isod_ll128_wants(c, w, k) &&
            !prim_ll128_look(w->from + (uint64_t)(uint32_t)k * w->sender, w->piece, c->epoch, &v[k]))
            missing = k;
    return missing;
}
PRIM_FN void isod_ll128_late(struct isod_coll *c, struct isod_waiting *w, const struct isod_ll128_wanted *of, int32_t k)
{
    isod_coll_look(c, w, of->first + k, of->from + (uint64_t)(uint32_t)k * of->sender, 0);
}

/* All of a wave look until a vote has found nothing missing. Whether a thread has failed before is asked behind the
 * first look that found something missing. */
PRIM_FN void isod_ll128_wait_together(struct isod_coll *c, const struct isod_ll128_wanted *of, struct prim_vec16 *v)
{
    struct isod_waiting w = {0, 0};
    uint32_t most = 1;
    for (;;) {
        int32_t missing = -1;
        PRIM_WAIT_FOR_LINES
        for (uint32_t polls = most; polls != 0; polls--) {
            missing = isod_ll128_missing(c, of, v);
            if (!prim_wave_or(missing >= 0))
                return;
            prim_pause();
        }
        if (most != 1 && missing >= 0 && !c->failed)
            isod_ll128_late(c, &w, of, missing);
        c->failed = prim_wave_or(c->failed);
        if (c->failed)
            return;
        most = ISOD_POLLS_PER_LOOK;
    }
}
/* Each looks until it misses nothing, then a vote. */
PRIM_FN void isod_ll128_wait_alone(struct isod_coll *c, const struct isod_ll128_wanted *of, struct prim_vec16 *v)
{
    struct isod_waiting w = {0, 0};
    uint32_t polls = 0;
    for (;;) {
        int32_t missing = isod_ll128_missing(c, of, v);
        if (missing < 0 || c->failed)
            break;
        prim_pause();
        if (++polls % ISOD_POLLS_PER_LOOK == 0)
            isod_ll128_late(c, &w, of, missing);
    }
    c->failed = prim_wave_or(c->failed);
}

/* v[k] becomes the piece of member first + k's line, k < count <= ISOD_BATCH (of this member: stays as it is), if there
 * is one. By a whole wave, which waits for all that its threads wait for, and fails as one. */
PRIM_FN void isod_ll128_wait(struct isod_coll *c, int32_t first, int32_t count, struct isod_ll128_piece p,
                             struct prim_vec16 *v)
{
    struct isod_ll128_wanted of;
    of.from = c->here + isod_ll128_box(c, first, c->staged) + (uint64_t)p.line * ISOD_LL128_LINE;
    of.sender = isod_ll128_bytes(c->inbox_bytes);
    of.first = first;
    of.count = count;
    of.piece = p.piece;
    of.yes = p.yes;
    if (prim_votes_between_polls())
        isod_ll128_wait_together(c, &of, v);
    else
        isod_ll128_wait_alone(c, &of, v);
    PRIM_UNROLL
    for (int32_t k = 0; k < ISOD_BATCH && !c->failed; k++)
        if (isod_ll128_wants(c, &of, k))
            prim_ll128_take(of.from + (uint64_t)(uint32_t)k * of.sender, p.piece, &v[k]);
}

/* The data of each other member m goes to dest + m * stride. */
PRIM_FN void isod_ll128_receive(struct isod_coll *c, char *dest, uint64_t stride, uint64_t bytes)
{
    struct isod_ll128 w = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)dest | stride, bytes);
    for (uint32_t first = w.first; first < isod_ll128_lines(bytes); first += w.every) {
        uint32_t line = first + w.nth;
        bool yes = line < isod_ll128_lines(bytes);
        for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
            uint64_t at = (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            for (int32_t m = 0; m < c->h.n_pes && !c->failed; m += ISOD_BATCH) {
                struct prim_vec16 v[ISOD_BATCH];
                isod_ll128_wait(c, m, ISOD_BATCH, isod_ll128_piece_of(line, piece, yes), v);
                PRIM_UNROLL
                for (int32_t k = 0; k < ISOD_BATCH && !c->failed; k++)
                    if (yes && m + k < c->h.n_pes && m + k != c->h.my_pe)
                        isod_ll128_store(&d, dest + (uint64_t)(uint32_t)(m + k) * stride, at, piece, v[k]);
            }
        }
    }
}
PRIM_FN void isod_ll128_receive_one(struct isod_coll *c, int32_t from, char *dest, uint64_t bytes)
{
    struct isod_ll128 w = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)dest, bytes);
    for (uint32_t first = w.first; first < isod_ll128_lines(bytes) && !c->failed; first += w.every) {
        uint32_t line = first + w.nth;
        bool yes = line < isod_ll128_lines(bytes);
        for (uint32_t piece = w.piece; piece < ISOD_LL128_PIECES; piece += w.lanes) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_ll128_wait(c, from, 1, isod_ll128_piece_of(line, piece, yes), v);
            if (yes && !c->failed)
                isod_ll128_store(&d, dest, (uint64_t)line * ISOD_LL128_DATA + piece * 16, piece, v[0]);
        }
    }
}

/* ---- LL128 in parts: `bytes` in parts of `each` lines, the first one is member `first`'s, the next one the next
 * member's, around the team; the last ones may be short or empty. Threads are spread over the lines of all other parts
 * ---- */

struct isod_ll128_parts {
    struct isod_ll128 w;
    uint64_t bytes;
    int32_t first;
    uint32_t each, count; /* count: lines to go over, short parts counted as full ones */
};
PRIM_FN struct isod_ll128_parts isod_ll128_parts_of(const struct isod_coll *c, uint64_t bytes, int32_t first,
                                                    uint32_t each)
{
    struct isod_ll128_parts p;
    p.w = isod_ll128_of(c);
    p.bytes = bytes;
    p.first = first;
    p.each = each;
    p.count = each * isod_coll_others(c);
    return p;
}
PRIM_FN uint32_t isod_ll128_part_at(const struct isod_coll *c, const struct isod_ll128_parts *p, int32_t member)
{
    return (uint32_t)(member - p->first + (member < p->first ? c->h.n_pes : 0)) * p->each;
}
/* The i-th line that this member exchanges with others: whose part it is of, the number in it, where it is. */
struct isod_ll128_place {
    int32_t member;
    uint32_t line;
    uint64_t at;
    bool yes; /* there is such a line */
};
PRIM_FN struct isod_ll128_place isod_ll128_place_of(const struct isod_coll *c, const struct isod_ll128_parts *p,
                                                    uint32_t i)
{
    struct isod_ll128_place l;
    uint32_t other = i / p->each;
    l.member = isod_coll_other(c, other + 1);
    l.line = i - other * p->each;
    l.at = (uint64_t)(isod_ll128_part_at(c, p, l.member) + l.line) * ISOD_LL128_DATA;
    l.yes = i < p->count && l.at < p->bytes;
    return l;
}
PRIM_FN void isod_ll128_parts_send(const struct isod_coll *c, const struct isod_ll128_parts *p, const char *source)
{
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)source, p->bytes);
    for (uint32_t first = p->w.first; first < p->count; first += p->w.every) {
        struct isod_ll128_place l = isod_ll128_place_of(c, p, first + p->w.nth);
        char *to = l.yes ? isod_ll128_there(c, l.member, l.line) : c->here;
        for (uint32_t piece = p->w.piece; piece < ISOD_LL128_PIECES; piece += p->w.lanes) {
            struct prim_vec16 v = {{0, 0}};
            if (l.yes)
                v = isod_ll128_load(&d, source, l.at + piece * 16, piece);
            prim_ll128_store(to, piece, isod_ll128_flagged(v, piece, c->epoch), l.yes);
        }
    }
}
PRIM_FN void isod_ll128_parts_receive(struct isod_coll *c, const struct isod_ll128_parts *p, char *dest)
{
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)dest, p->bytes);
    for (uint32_t first = p->w.first; first < p->count && !c->failed; first += p->w.every) {
        struct isod_ll128_place l = isod_ll128_place_of(c, p, first + p->w.nth);
        for (uint32_t piece = p->w.piece; piece < ISOD_LL128_PIECES; piece += p->w.lanes) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_ll128_wait(c, l.member, 1, isod_ll128_piece_of(l.line, piece, l.yes), v);
            if (l.yes && !c->failed)
                isod_ll128_store(&d, dest, l.at + piece * 16, piece, v[0]);
        }
    }
}
/* The own part, as it comes from member `from`, to dest and to all others but `from`, in the same epoch: there it is in
 * boxes of another sender. */
PRIM_FN void isod_ll128_parts_forward(struct isod_coll *c, const struct isod_ll128_parts *p, int32_t from, char *dest)
{
    struct isod_ll128_data d = isod_ll128_data_of((uintptr_t)dest, p->bytes);
    uint32_t own = isod_ll128_part_at(c, p, c->h.my_pe);
    for (uint32_t first = p->w.first; first < p->each && !c->failed; first += p->w.every) {
        uint32_t line = first + p->w.nth;
        uint64_t at = (uint64_t)(own + line) * ISOD_LL128_DATA;
        bool yes = line < p->each && at < p->bytes;
        for (uint32_t piece = p->w.piece; piece < ISOD_LL128_PIECES; piece += p->w.lanes) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_ll128_wait(c, from, 1, isod_ll128_piece_of(line, piece, yes), v);
            if (c->failed)
                break;
            v[0] = isod_ll128_flagged(v[0], piece, c->epoch);
            for (uint32_t i = 1; i <= isod_coll_others(c); i++)
                if (isod_coll_other(c, i) != from)
                    prim_ll128_store(isod_ll128_there(c, isod_coll_other(c, i), line), piece, v[0], yes);
            if (yes)
                isod_ll128_store(&d, dest, at + piece * 16, piece, v[0]);
        }
    }
}

/* ---- moves: isod_exchange_ll128, isod_broadcast_ll128, isod_permute_ll128 ---- */

#define ISOD_NAME ll128
#define ISOD_LL(what) isod_ll128_##what
#include "../../kernel/move_ll.h"

#endif
