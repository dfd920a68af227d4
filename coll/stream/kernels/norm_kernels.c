/* SPDX-License-Identifier: MIT */
/* Kernels that sum rows of all members, add them to a residual, and normalise: see ../norm.h. Invariant: the bits of a
 * row depend on its values and its length alone, not on the schedule, the threads, or the row's place: elements are
 * combined in member order and rounded once, then added to the residual and rounded, and squares are summed by a tree
 * of ISOD_NORM_SUMS leaves, whoever adds them.
 * The next data is on its way while a row is normalised. Launched by stream_norm.c. Includes: norm.h, ll128_device.h. */
#define ISOD_LANES_ARE_CHOSEN /* a block has several: before the first include */
#include "../norm.h" /* first */

#include "ll128_device.h"

/* ---- the session of a thread: that of its lane. All threads of the block call these ---- */

/* A wave has one lane, or the votes of LL128 would mix those of two. */
PRIM_FN uint32_t norm_groups(const struct isod_stream_norm *a)
{
    uint32_t size = prim_size(prim_group_block());
    return size % (a->lanes * prim_wave_size()) == 0 ? a->lanes : 1;
}

PRIM_FN void norm_read(struct isod_coll *c, shmemd_t h, uint32_t call, uint32_t groups)
{
    isod_coll_read_team(c, h, call);
    c->size /= groups;
    c->rank %= c->size;
}

/* As isod_coll_clear_near, by the threads of each lane. true: given up. */
PRIM_COLD_FN bool norm_clear(struct isod_origin home, char *heap, uint32_t call_of, uint64_t epoch, uint32_t groups)
{
    struct isod_coll c;
    norm_read(&c, isod_coll_handle(home, heap, call_of), call_of & 0xffffu, groups);
    c.epoch = epoch;
    isod_coll_clear(&c, isod_flags_bytes(c.h.n_pes), 4 * (uint64_t)c.inbox_bytes * (uint64_t)c.h.n_pes);
    isod_coll_clear_places(&c);
    isod_coll_sync_near(&c);
    return !isod_coll_goes_on(&c);
}

/* As isod_coll_enter_near_for. The lanes of a block turn their numbers together, so that all its threads are in each
 * sync; the members' lanes are alike. */
PRIM_FN bool norm_enter(struct isod_coll *c, const struct isod_stream_norm *a, uint64_t epochs)
{
    uint32_t groups = norm_groups(a), each = prim_size(prim_group_block()) / groups;
    uint32_t lane = prim_block_index() * a->lanes + prim_rank(prim_group_block()) / each;
    norm_read(c, isod_with_lane(a->coll.h, lane), a->coll.call, groups);
    bool dead = c->lane->dead != 0;
    c->epoch = c->lane->epoch;
    c->staged = c->lane->staged;
    bool turns = isod_coll_numbers_turn(c->epoch, epochs);
    if (c->rank == 0) {
        c->users = prim_load_relaxed_u64(&c->lane->users);
        prim_store_relaxed_u64(&c->lane->users, 1);
        c->status = prim_load_relaxed_u64(&c->h.team->status);
    }
    if (!prim_sync_or(prim_group_block(), dead || turns))
        return true;
    if (prim_sync_or(prim_group_block(), dead)) {
        if (c->rank == 0)
            prim_store_relaxed_u64(&c->lane->users, 0);
        return false;
    }
    if (c->epoch == 0)
        c->epoch = 1;
    c->failed = norm_clear(isod_origin_of(c->h), c->h.heap, isod_coll_call_of(c->h, c->call), c->epoch + 1, groups);
    c->epoch = isod_coll_numbers_after(c->epoch);
    return true;
}

/* What isod_coll_leave does, for each lane. */
PRIM_FN int norm_leave(struct isod_coll *c)
{
    bool bad = c->failed;
    if (c->rank == 0) {
        c->lane->epoch = c->epoch;
        c->lane->staged = c->staged;
        bad = bad || c->users != 0 || c->status != 0;
        prim_store_relaxed_u64(&c->lane->users, 0);
    }
    prim_settle_stores(prim_group_block());
    if (!prim_sync_or(prim_group_block(), bad))
        return 0;
    if (c->rank == 0)
        c->lane->dead = 1;
    return isod_coll_fail(isod_origin_of(c->h), c->lane, c->call, c->users);
}

/* ---- what a lane does in a step ---- */

/* A block goes over sets of `parts` rows, each in `rounds` steps. In a step each lane has a slice: `units` of each part. */
struct norm_steps {
    uint64_t set; /* at hand */
    uint32_t sets, parts, units, rounds, round, groups, group;
};
PRIM_FN struct norm_steps norm_steps_of(const struct isod_stream_norm *a, uint32_t parts)
{
    struct norm_steps s;
    uint32_t units = a->row_bytes / 16;
    s.parts = parts;
    s.sets = isod_ceil_div(a->rows, parts);
    s.set = prim_block_index();
    s.round = 0;
    s.groups = norm_groups(a);
    s.group = prim_rank(prim_group_block()) / (prim_size(prim_group_block()) / s.groups);
    s.rounds = isod_ceil_div(units, s.groups * (a->coll.h.inbox_bytes / 16));
    s.units = isod_ceil_div(units, s.groups * s.rounds);
    return s;
}
PRIM_FN bool norm_step_next(struct norm_steps *s)
{
    if (++s->round == s->rounds) {
        s->round = 0;
        s->set += prim_block_count();
    }
    return s->set < s->sets;
}
/* The lane's slice. One without bytes takes no epoch: two banks are enough where all members send in each of them. */
PRIM_FN struct isod_move norm_slice(const struct isod_stream_norm *a, const struct norm_steps *s)
{
    uint64_t row = a->row_bytes, begin = s->set * s->parts * row, slice = (uint64_t)s->parts * s->units * 16;
    uint64_t all = a->coll.bytes - begin < s->parts * row ? a->coll.bytes - begin : s->parts * row;
    uint64_t at = (s->round * s->groups + s->group) * slice, left = at < all ? all - at : 0;
    return isod_move_of(a->coll.dest + begin + at, a->coll.source + begin + at, left < slice ? left : slice);
}

/* The sum, rounded, and what it is added to. */
PRIM_FN struct prim_vec16 norm_add(enum isod_elem elem, struct prim_vec16 sum, struct prim_vec16 to)
{
    struct isod_acc a;
    isod_acc_of(elem, &a, to);
    isod_acc_join(elem, &a, sum, 1, 2, ISOD_OP_sum_reduce);
    return isod_acc_vec(elem, &a);
}

/* LL. */
PRIM_FN void norm_ll_send(struct isod_coll *c, const struct isod_move *w)
{
    for (uint64_t u = c->rank; u < w->bytes / 16; u += c->size)
        isod_unit_send_all(c, u, prim_load16(w->source + u * 16));
}
PRIM_FN void norm_ll_take(struct isod_coll *c, const struct isod_move *w, enum isod_elem elem)
{
    for (uint64_t u = c->rank; u < w->bytes / 16 && !c->failed; u += c->size) {
        struct prim_vec16 mine = prim_load16(w->source + u * 16), to = prim_load16(w->dest + u * 16);
        struct prim_vec16 sum = isod_ll_combine(c, u, mine, elem, ISOD_OP_sum_reduce);
        if (!c->failed)
            prim_store16(w->dest + u * 16, norm_add(elem, sum, to));
    }
}

/* LL128: this member's pieces of `lines` lines, whose data begins at `at` of the slice; `ahead`: results go to all. */
enum norm_shots { NORM_ONESHOT, NORM_TWOSHOT };
PRIM_FN void norm_ll128_take(struct isod_coll *c, const struct isod_move *w, uint64_t from, uint32_t lines,
                             enum norm_shots shots, enum isod_elem elem)
{
    struct isod_ll128 t = isod_ll128_of(c);
    struct isod_ll128_data d = isod_ll128_data_of(0, w->bytes);
    for (uint32_t first = t.first; first < lines && !c->failed; first += t.every) {
        uint32_t line = first + t.nth;
        bool yes = line < lines && from + (uint64_t)line * ISOD_LL128_DATA < w->bytes;
        for (uint32_t piece = t.piece; piece < ISOD_LL128_PIECES; piece += t.lanes) {
            uint64_t at = from + (uint64_t)line * ISOD_LL128_DATA + piece * 16;
            struct prim_vec16 mine = {{0, 0}}, to = {{0, 0}};
            if (yes) {
                mine = isod_ll128_load(&d, w->source, at, piece);
                to = isod_ll128_load(&d, w->dest, at, piece);
            }
            struct isod_acc sum;
            isod_acc_of(elem, &sum, mine);
            for (int32_t m = 0; m < c->h.n_pes && !c->failed; m += ISOD_BATCH) {
                struct prim_vec16 v[ISOD_BATCH] = {mine, mine, mine, mine};
                isod_ll128_wait(c, m, ISOD_BATCH, line, piece, yes, v);
                isod_acc_batch(elem, &sum, v, m, c->h.n_pes, ISOD_OP_sum_reduce);
            }
            struct prim_vec16 result = norm_add(elem, isod_acc_vec(elem, &sum), to);
            if (c->failed)
                return;
            if (shots == NORM_TWOSHOT)
                isod_ll128_send_piece_ahead(c, line, piece, result, yes);
            if (yes)
                isod_ll128_store(&d, w->dest, at, piece, result);
        }
    }
}

/* Two-shot: part m goes to member m, which adds it up and sends the result to all. */
PRIM_FN void norm_twoshot_ll_take(struct isod_coll *c, const struct isod_move *w, uint32_t each, enum isod_elem elem)
{
    struct isod_spread s = {w->bytes, each, each * isod_coll_others(c)};
    uint64_t at = (uint64_t)c->h.my_pe * each * 16;
    for (uint64_t u = c->rank; u < each && at + u * 16 < w->bytes && !c->failed; u += c->size) {
        struct prim_vec16 mine = prim_load16(w->source + at + u * 16), to = prim_load16(w->dest + at + u * 16);
        struct prim_vec16 sum = isod_ll_combine(c, u, mine, elem, ISOD_OP_sum_reduce);
        if (!c->failed) {
            struct prim_vec16 result = norm_add(elem, sum, to);
            isod_unit_send_ahead(c, u, result);
            prim_store16(w->dest + at + u * 16, result);
        }
    }
    isod_coll_begin_staged_epoch(c);
    isod_spread_receive(c, &s, w->dest);
}
PRIM_FN void norm_twoshot_ll128_take(struct isod_coll *c, const struct isod_move *w, uint32_t each, enum isod_elem elem)
{
    struct isod_ll128_parts p = isod_ll128_parts_of(c, w->bytes, 0, each);
    norm_ll128_take(c, w, (uint64_t)c->h.my_pe * each * ISOD_LL128_DATA, each, NORM_TWOSHOT, elem);
    isod_coll_begin_staged_epoch(c);
    isod_ll128_parts_receive(c, &p, w->dest);
}

/* A step in two halves. The first one begins behind a sync, in front of which all threads have read what has come to the
 * lane before; so banks may be written again. */
PRIM_FN void norm_send(struct isod_coll *c, const struct isod_move *w, uint32_t units, enum isod_by by,
                       enum norm_shots shots)
{
    if (w->bytes == 0)
        return;
    isod_coll_begin_staged_epoch(c);
    if (shots == NORM_ONESHOT && by == ISOD_BY_LL) {
        norm_ll_send(c, w);
    } else if (shots == NORM_ONESHOT) {
        isod_ll128_send_all(c, w->source, w->bytes);
    } else if (by == ISOD_BY_LL) {
        struct isod_spread s = {w->bytes, units, units * isod_coll_others(c)};
        isod_spread_send(c, &s, w->source);
    } else {
        struct isod_ll128_parts p = isod_ll128_parts_of(c, w->bytes, 0, isod_ll128_lines(units * 16));
        isod_ll128_parts_send(c, &p, w->source);
    }
}
PRIM_FN void norm_take(struct isod_coll *c, const struct isod_move *w, uint32_t units, enum isod_by by,
                       enum norm_shots shots, enum isod_elem elem)
{
    if (w->bytes == 0)
        return;
    if (shots == NORM_ONESHOT && by == ISOD_BY_LL)
        norm_ll_take(c, w, elem);
    else if (shots == NORM_ONESHOT)
        norm_ll128_take(c, w, 0, isod_ll128_lines(w->bytes), NORM_ONESHOT, elem);
    else if (by == ISOD_BY_LL)
        norm_twoshot_ll_take(c, w, units, elem);
    else
        norm_twoshot_ll128_take(c, w, isod_ll128_lines(units * 16), elem);
}

/* ---- a row, normalised by a block: its sums ---- */

#define ISOD_NORM_SUMS 512u /* leaves of the tree */

struct norm_floats {
    float e[8]; /* of a unit; where it has four, the others are 0 */
};
PRIM_FN struct norm_floats norm_floats_of(enum isod_elem elem, struct prim_vec16 v)
{
    struct isod_acc a = {{0, 0, 0, 0}};
    struct norm_floats f;
    isod_acc_of(elem, &a, v);
    __builtin_memcpy(&f, &a, sizeof(f));
    return f;
}
PRIM_FN struct prim_vec16 norm_floats_vec(enum isod_elem elem, const struct norm_floats *f)
{
    struct isod_acc a;
    __builtin_memcpy(&a, f, sizeof(a));
    return isod_acc_vec(elem, &a);
}

/* A square is exact, in float of the short types, in double of floats: so it does not matter where a compiler makes one
 * instruction of a product and a sum. */
PRIM_FN float norm_squares(enum isod_elem elem, struct prim_vec16 v)
{
    struct norm_floats f = norm_floats_of(elem, v);
    if (elem == ISOD_ELEM_f32) {
        double d[4] = {(double)f.e[0], (double)f.e[1], (double)f.e[2], (double)f.e[3]};
        return (float)((d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]));
    }
    float low = (f.e[0] * f.e[0] + f.e[1] * f.e[1]) + (f.e[2] * f.e[2] + f.e[3] * f.e[3]);
    float high = (f.e[4] * f.e[4] + f.e[5] * f.e[5]) + (f.e[6] * f.e[6] + f.e[7] * f.e[7]);
    return low + high;
}

/* Of n values, `stride` apart: value i with value i + n / 2, and so on. Not by a loop over an array, which would be stack. */
PRIM_FN float norm_4(const float *p, uint32_t stride)
{
    return (p[0] + p[2 * stride]) + (p[stride] + p[3 * stride]);
}
PRIM_FN float norm_16(const float *p, uint32_t stride)
{
    return (norm_4(p, 4 * stride) + norm_4(p + 2 * stride, 4 * stride)) +
           (norm_4(p + stride, 4 * stride) + norm_4(p + 3 * stride, 4 * stride));
}

/* Memory of the block: leaf p has the units p, p + ISOD_NORM_SUMS .. in this order. */
PRIM_FN float *norm_leaves(void)
{
    PRIM_SHARED(float, leaves, 512);
    return leaves;
}
/* Their sum, for all threads. Two syncs. */
PRIM_FN float norm_sum(void)
{
    PRIM_SHARED(float, branches, 32);
    prim_sync(prim_group_block());
    for (uint32_t q = prim_rank(prim_group_block()); q < 32; q += prim_size(prim_group_block()))
        branches[q] = norm_16(norm_leaves() + q, 32);
    prim_sync(prim_group_block());
    return norm_16(branches, 2) + norm_16(branches + 1, 2);
}

/* The largest of the threads' values, which are no NaN. Two syncs. */
PRIM_FN float norm_most(float mine)
{
    PRIM_SHARED(float, all, 512);
    PRIM_SHARED(float, most, 32);
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    all[rank] = mine;
    prim_sync(prim_group_block());
    for (uint32_t q = rank; q < 32; q += size) {
        float m = 0;
        for (uint32_t i = q; i < size; i += 32)
            m = all[i] > m ? all[i] : m;
        most[q] = m;
    }
    prim_sync(prim_group_block());
    float m = 0;
    PRIM_UNROLL
    for (uint32_t q = 0; q < 32; q++)
        m = most[q] > m ? most[q] : m;
    return m;
}

/* ---- a unit of it: of the residual, and of the weight ---- */

struct norm_unit {
    struct prim_vec16 x, weight;
};
struct norm_row {
    const char *from;
    char *to;
    uint32_t units;
    float factor, by; /* of the norm; of e4m3, 1 / scale */
};

PRIM_FN struct norm_unit norm_unit_load(const struct isod_stream_norm *a, const struct norm_row *r, uint32_t u)
{
    struct norm_unit v;
    v.x = prim_load16(r->from + (uint64_t)u * 16);
    v.weight = prim_load16(a->weight + (uint64_t)u * 16);
    return v;
}
PRIM_FN struct norm_floats norm_unit_of(const struct norm_row *r, const struct norm_unit *v, enum isod_elem elem)
{
    struct norm_floats x = norm_floats_of(elem, v->x), w = norm_floats_of(elem, v->weight);
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        x.e[i] = x.e[i] * r->factor * w.e[i];
    return x;
}
PRIM_FN float norm_unit_most(const struct norm_row *r, const struct norm_unit *v, float most, enum isod_elem elem)
{
    struct norm_floats x = norm_unit_of(r, v, elem);
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        float size = x.e[i] < 0 ? -x.e[i] : x.e[i];
        most = size > most ? size : most;
    }
    return most;
}
PRIM_FN void norm_unit_store(const struct isod_stream_norm *a, const struct norm_row *r, uint32_t u,
                             const struct norm_unit *v, enum isod_elem elem)
{
    struct norm_floats x = norm_unit_of(r, v, elem);
    uint64_t bytes = 0;
    if (a->to != ISOD_NORM_E4M3) {
        prim_store16(r->to + (uint64_t)u * 16, norm_floats_vec(elem, &x));
        return;
    }
    PRIM_UNROLL
    for (uint32_t i = 0; i < 8; i++)
        bytes |= (uint64_t)isod_e4m3_from_float(x.e[i] * r->by) << 8 * i;
    if (elem == ISOD_ELEM_f32)
        *(isod_any32 *)(void *)(r->to + (uint64_t)u * 4) = (uint32_t)bytes;
    else
        *(isod_any64 *)(void *)(r->to + (uint64_t)u * 8) = bytes;
}

/* ---- the row. Where a thread has few units, it keeps them between its passes ---- */

#define ISOD_NORM_KEPT 4u
#define ISOD_E4M3_MOST 448.0f
#define ISOD_E4M3_LEAST (1.0f / (448.0f * 512.0f)) /* of a scale */

PRIM_FN float norm_factor(const struct isod_stream_norm *a)
{
    return 1.0f / prim_sqrt(norm_sum() / (float)a->hidden + a->eps);
}
/* most: of this thread; not looked at where the scale is given. */
PRIM_FN float norm_by(const struct isod_stream_norm *a, uint64_t row, float most)
{
    if (a->scale != 0)
        return 1.0f / *a->scale;
    float scale = norm_most(most) / ISOD_E4M3_MOST;
    scale = scale > ISOD_E4M3_LEAST ? scale : ISOD_E4M3_LEAST;
    if (prim_is_first(prim_group_block()))
        a->scales[row] = scale;
    return 1.0f / scale;
}

PRIM_FN void norm_finish_kept(const struct isod_stream_norm *a, struct norm_row *r, uint64_t row, enum isod_elem elem)
{
    uint32_t rank = prim_rank(prim_group_block());
    struct prim_vec16 x[ISOD_NORM_KEPT] PRIM_UNSET, weight[ISOD_NORM_KEPT] PRIM_UNSET;
    float sum = 0, most = 0;
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
        if (rank + k * ISOD_NORM_SUMS < r->units) {
            struct norm_unit v = norm_unit_load(a, r, rank + k * ISOD_NORM_SUMS);
            x[k] = v.x;
            weight[k] = v.weight;
        }
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++)
        if (rank + k * ISOD_NORM_SUMS < r->units)
            sum += norm_squares(elem, x[k]);
    norm_leaves()[rank] = sum;
    r->factor = norm_factor(a);
    if (a->scales != 0) {
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++) {
            struct norm_unit v = {x[k], weight[k]};
            if (rank + k * ISOD_NORM_SUMS < r->units)
                most = norm_unit_most(r, &v, most, elem);
        }
    }
    if (a->to == ISOD_NORM_E4M3)
        r->by = norm_by(a, row, most);
    PRIM_UNROLL
    for (uint32_t k = 0; k < ISOD_NORM_KEPT; k++) {
        struct norm_unit v = {x[k], weight[k]};
        if (rank + k * ISOD_NORM_SUMS < r->units)
            norm_unit_store(a, r, rank + k * ISOD_NORM_SUMS, &v, elem);
    }
}
PRIM_FN void norm_finish_any(const struct isod_stream_norm *a, struct norm_row *r, uint64_t row, enum isod_elem elem)
{
    uint32_t rank = prim_rank(prim_group_block()), size = prim_size(prim_group_block());
    float most = 0;
    for (uint32_t p = rank; p < ISOD_NORM_SUMS; p += size) {
        float sum = 0;
        for (uint32_t u = p; u < r->units; u += ISOD_NORM_SUMS)
            sum += norm_squares(elem, prim_load16(r->from + (uint64_t)u * 16));
        norm_leaves()[p] = sum;
    }
    r->factor = norm_factor(a);
    for (uint32_t u = rank; a->scales != 0 && u < r->units; u += size) {
        struct norm_unit v = norm_unit_load(a, r, u);
        most = norm_unit_most(r, &v, most, elem);
    }
    if (a->to == ISOD_NORM_E4M3)
        r->by = norm_by(a, row, most);
    for (uint32_t u = rank; u < r->units; u += size) {
        struct norm_unit v = norm_unit_load(a, r, u);
        norm_unit_store(a, r, u, &v, elem);
    }
}

/* The row is in the residual. Not a sync at its end: the next row's leaves come behind one. */
PRIM_FN void norm_finish(const struct isod_stream_norm *a, uint64_t row, enum isod_elem elem)
{
    struct norm_row r;
    r.from = a->coll.dest + row * a->row_bytes;
    r.to = a->out + row * (a->to == ISOD_NORM_E4M3 ? a->hidden : a->row_bytes);
    r.units = a->row_bytes / 16;
    r.factor = r.by = 0;
    if (prim_size(prim_group_block()) == ISOD_NORM_SUMS && r.units <= ISOD_NORM_KEPT * ISOD_NORM_SUMS)
        norm_finish_kept(a, &r, row, elem);
    else
        norm_finish_any(a, &r, row, elem);
}

/* ---- the schedules ---- */

PRIM_FN int norm_run(const struct isod_stream_norm *a, enum isod_by by, enum norm_shots shots, enum isod_elem elem)
{
    struct isod_coll c;
    struct norm_steps s = norm_steps_of(a, shots == NORM_ONESHOT ? 1 : (uint32_t)a->coll.h.n_pes);
    if (s.set >= s.sets)
        return 0;
    if (!norm_enter(&c, a, 2 * (uint64_t)s.rounds * (s.sets / prim_block_count() + 1)))
        return 1;
    struct isod_move w = norm_slice(a, &s);
    bool on = true, more = true;
    norm_send(&c, &w, s.units, by, shots);
    while (on && more) {
        uint64_t set = s.set;
        norm_take(&c, &w, s.units, by, shots, elem);
        on = isod_coll_goes_on(&c); /* the block has the residual, too */
        more = norm_step_next(&s);
        if (on && more) {
            w = norm_slice(a, &s);
            norm_send(&c, &w, s.units, by, shots);
        }
        for (uint32_t part = 0; on && s.set != set && part < s.parts && set * s.parts + part < a->rows; part++)
            norm_finish(a, set * s.parts + part, elem);
    }
    return norm_leave(&c);
}

/* Any memory, any path: a row of all members in turns of what a stage holds. */
PRIM_FN bool norm_staged_row(struct isod_coll *c, const struct isod_stream_norm *a, uint64_t begin, enum isod_elem elem)
{
    for (uint64_t at = 0, row = a->row_bytes; at < row; at += c->inbox_bytes) {
        uint64_t bytes = row - at < c->inbox_bytes ? row - at : c->inbox_bytes;
        const char *source = a->coll.source + begin + at;
        char *to = a->coll.dest + begin + at;
        isod_coll_begin_staged_epoch(c);
        for (uint32_t i = 1; i <= isod_coll_others(c); i++)
            isod_stage_put(c, isod_coll_other(c, i), source, bytes);
        isod_coll_sync(c);
        if (!isod_coll_goes_on(c))
            return false;
        for (uint64_t u = c->rank; u < bytes / 16; u += c->size) {
            struct isod_acc sum = {{0, 0, 0, 0}};
            for (int32_t m = 0; m < c->h.n_pes; m++) {
                const char *from = m == c->h.my_pe ? source : c->here + isod_stage_at(c, m);
                isod_acc_join(elem, &sum, prim_load16(from + u * 16), m, c->h.n_pes, ISOD_OP_sum_reduce);
            }
            prim_store16(to + u * 16, norm_add(elem, isod_acc_vec(elem, &sum), prim_load16(to + u * 16)));
        }
    }
    prim_sync(prim_group_block());
    return true;
}
PRIM_FN int norm_staged(const struct isod_stream_norm *a, enum isod_elem elem)
{
    struct isod_coll c;
    uint64_t row = a->row_bytes, at = prim_block_index();
    if (at >= a->rows)
        return 0;
    if (!isod_coll_enter_for(&c, a->coll.h, a->coll.call, (row / 16 + 1) * a->rows))
        return 1;
    prim_sync(prim_group_block());
    for (; at < a->rows && norm_staged_row(&c, a, at * row, elem); at += prim_block_count())
        norm_finish(a, at, elem);
    return isod_coll_leave(&c);
}
PRIM_FN int norm_staged_any(const struct isod_stream_norm *a)
{
    if (a->coll.dtype == ISOD_ELEM_f32)
        return norm_staged(a, ISOD_ELEM_f32);
    return norm_staged(a, a->coll.dtype == ISOD_ELEM_f16 ? ISOD_ELEM_f16 : ISOD_ELEM_bf16);
}

/* ---- kernels ---- */

#define NORM_KERNEL(name, call) ISOD_STREAM_KERNEL_OF(struct isod_stream_norm, name, call)
#define NORM_KERNELS(NAME, ...)                                                                              \
    NORM_KERNEL(norm_ll_sum_##NAME, norm_run(&a, ISOD_BY_LL, NORM_ONESHOT, ISOD_ELEM_##NAME))                \
    NORM_KERNEL(norm_ll128_sum_##NAME, norm_run(&a, ISOD_BY_LL128, NORM_ONESHOT, ISOD_ELEM_##NAME))          \
    NORM_KERNEL(norm_twoshot_ll_sum_##NAME, norm_run(&a, ISOD_BY_LL, NORM_TWOSHOT, ISOD_ELEM_##NAME))        \
    NORM_KERNEL(norm_twoshot_ll128_sum_##NAME, norm_run(&a, ISOD_BY_LL128, NORM_TWOSHOT, ISOD_ELEM_##NAME))
ISOD_STREAM_NORM_TYPES(NORM_KERNELS, )
NORM_KERNEL(norm_staged_any, norm_staged_any(&a))
