/* SPDX-License-Identifier: MIT */
/* Collectives of data by few threads of a block: one, or a wave, in the sequence of the block's lane. Kernels of 1024
 * threads make them too, so they take few registers. Short ones but permute go by LL, two units at a time. Long ones
 * have two synchronisations of the members, and between them puts, or loads of what is combined. The first: all sources
 * may be read and all dests written; the second: all of it is done. The groups of all members are of one kind: what is
 * short depends on it. Includes: move_device.h, reduce_device.h, sync_device.h. Included by
 * include/shmem_device_coll.h. */
#ifndef ISO_FEW_DEVICE_H
#define ISO_FEW_DEVICE_H

#include "move_device.h"
#include "reduce_device.h"
#include "sync_device.h"

/* A long call makes it twice, in a loop. AMD inlines all calls, and this one would be most of the code. */
PRIM_FN int isod_few_meet(shmemd_t h, struct prim_group g, uint32_t call)
{
    return isod_synchronise(h, g, call, ISOD_DATA);
}

/* ---- short: one staged epoch by LL ---- */

/* On two H200 a thread's unit of LL takes 0.17 us and a put of one 0.04, so its long way is shorter above 512 bytes. A
 * wave's gather of 2 KiB takes 1.7 us by LL, and 4.7 the long way. */
#define ISOD_FEW_LL_BYTES(g) ((g).kind == PRIM_THREAD ? 512u : 4096u)
/* Not with -rdc=true, where a kernel of 1024 threads would have too many registers: all programs of a job are compiled
 * with it, or none is. */
PRIM_FN bool isod_few_takes_ll(shmemd_t h, struct prim_group g, uint64_t bytes)
{
#ifdef PRIM_CALLS_BY_ABI
    (void)h, (void)g, (void)bytes;
    return false;
#else
    return isod_is_direct(h) && h.n_pes > 1 && h.n_pes <= ISOD_NEAR && isod_lane_of(h) < h.lanes &&
           bytes <= ISOD_FEW_LL_BYTES(g) && bytes <= h.inbox_bytes;
#endif
}

struct isod_few {
    struct isod_lane *lane;
    uint64_t epoch; /* 0: the call returns nonzero at once */
    uint32_t inbox_at, call, users, status;
    bool turns; /* the long way it is: its first synchronisation makes the numbers begin again */
    bool bad;   /* of this thread */
};
PRIM_FN struct isod_few isod_few_begin(shmemd_t h, struct prim_group g, uint32_t call)
{
    struct isod_few f = {ISOD_LANES(h.team) + isod_lane_of(h), 0, 0, call, 0, 0, false, false};
    const uint64_t done = f.lane->epoch, dead = f.lane->dead, staged = f.lane->staged + 1;
    f.turns = isod_coll_numbers_turn(done, ISOD_EPOCHS_OF_CALL); /* on all members alike */
    if (f.turns)
        return f;
    prim_sync(g); /* all have read the lane; what they have stored is part of the source */
    f.epoch = dead != 0 ? 0 : done + 1;
    f.inbox_at = (uint32_t)isod_flags_bytes(h.n_pes) + ((uint32_t)staged & 1) * 2 * h.inbox_bytes * (uint32_t)h.n_pes;
    if (prim_is_first(g) && dead == 0) {
        f.users = (uint32_t)prim_load_relaxed_u64(&f.lane->users);
        f.status = (uint32_t)prim_load_relaxed_u64(&h.team->status);
        prim_store_relaxed_u64(&f.lane->users, 1);
        f.lane->epoch = f.epoch;
        f.lane->staged = staged;
    }
    return f;
}
PRIM_FN int isod_few_end(shmemd_t h, struct prim_group g, struct isod_few f)
{
    uint64_t epoch = 0; /* the first thread alone has to do with the lane from here on */
    if (prim_is_first(g)) {
        epoch = f.lane->epoch;
        prim_store_relaxed_u64(&f.lane->users, 0);
        f.bad = f.bad || f.users != 0 || f.status != 0;
        if (f.users != 0)
            isod_coll_leave_misuse(h.team, isod_who(f.call, -1), ISOD_MISUSE_USERS, 0, f.users);
    }
    prim_settle_stores(g); /* dest and lane */
    return isod_synchronise_end(h, g, f.lane, epoch, f.call, f.bad);
}

/* Unit u of `from`'s data in the lane of member `at`. */
PRIM_FN struct prim_ll *isod_few_line(shmemd_t h, const struct isod_few *f, int32_t at, int32_t from, uint32_t u)
{
    const uint32_t line = f->inbox_at + (uint32_t)from * 2 * h.inbox_bytes + u * 32;
    return (struct prim_ll *)(void *)(ISOD_LOAD_POINTER(&f->lane->near[at]) + line);
}
PRIM_FN void isod_few_send_unit(shmemd_t h, const struct isod_few *f, int32_t to, uint32_t u, struct prim_vec16 v)
{
    struct prim_ll *line = isod_few_line(h, f, to, h.my_pe, u);
    prim_store_ll(line, (uint32_t)v.word[0], (uint32_t)(v.word[0] >> 32), (uint32_t)f->epoch);
    prim_store_ll(line + 1, (uint32_t)v.word[1], (uint32_t)(v.word[1] >> 32), (uint32_t)f->epoch);
}
/* A thread has two units under way, u and the next of its own; where there is none, u twice. Loads of two units take as
 * long as those of one. */
PRIM_FN uint32_t isod_few_next(struct prim_group g, uint32_t u, uint32_t bytes)
{
    const uint32_t next = u + prim_size(g);
    return next * 16 < bytes ? next : u;
}
PRIM_FN void isod_few_take_two(shmemd_t h, struct isod_few *f, int32_t from, uint32_t u, uint32_t next,
                               struct prim_vec16 v[2])
{
    const struct prim_ll *line = isod_few_line(h, f, h.my_pe, from, u), *second = line + (next - u) * 2;
    struct isod_waiting w = {0, 0};
    for (;;) {
        const bool is_there = isod_unit_look(line, (uint32_t)f->epoch, &v[0]);
        if ((isod_unit_look(second, (uint32_t)f->epoch, &v[1]) && is_there) || f->bad)
            return;
        prim_pause();
        if (++w.polls % ISOD_POLLS_PER_LOOK != 0)
            continue;
        w = isod_wait_look(
            h.team, w,
            isod_missed_at(isod_who(f->call, isod_world_pe(h, from)), is_there ? second : line, f->epoch, 0));
        f->bad = isod_has_given_up(w);
    }
}
PRIM_FN void isod_few_load_two(const char *from, uint32_t u, uint32_t next, uint32_t bytes, struct prim_vec16 v[2])
{
    v[0] = isod_unit_load(from + u * 16, bytes - u * 16);
    v[1] = next != u ? isod_unit_load(from + next * 16, bytes - next * 16) : v[0];
}
PRIM_FN void isod_few_store_two(char *to, uint32_t u, uint32_t next, uint32_t bytes, const struct prim_vec16 v[2])
{
    isod_unit_store(to + u * 16, v[0], bytes - u * 16);
    if (next != u)
        isod_unit_store(to + next * 16, v[1], bytes - next * 16);
}

/* To each other member m what is at source + m * stride; the own part goes to dest. */
PRIM_FN void isod_few_send_all(shmemd_t h, struct prim_group g, const struct isod_few *f, struct isod_move w)
{
    const uint32_t bytes = (uint32_t)w.bytes;
    PRIM_ROLLED
    for (int32_t m = 0; m < h.n_pes; m++) {
        PRIM_ROLLED
        for (uint32_t u = prim_rank(g); u * 16 < bytes; u += 2 * prim_size(g)) {
            const uint32_t next = isod_few_next(g, u, bytes);
            struct prim_vec16 v[2];
            isod_few_load_two(w.source + (uint64_t)(uint32_t)m * w.source_stride, u, next, bytes, v);
            if (m != h.my_pe) {
                isod_few_send_unit(h, f, m, u, v[0]);
                if (next != u) /* what is sent is waited for, once */
                    isod_few_send_unit(h, f, m, next, v[1]);
            } else if (w.dest != (char *)0) {
                isod_few_store_two(w.dest + (uint64_t)(uint32_t)m * w.dest_stride, u, next, bytes, v);
            }
        }
    }
}
PRIM_FN void isod_few_take_all(shmemd_t h, struct prim_group g, struct isod_few *f, struct isod_move w, int32_t from)
{
    const uint32_t bytes = (uint32_t)w.bytes;
    PRIM_ROLLED
    for (uint32_t u = prim_rank(g); u * 16 < bytes && !f->bad; u += 2 * prim_size(g)) {
        const uint32_t next = isod_few_next(g, u, bytes);
        struct prim_vec16 v[2];
        isod_few_take_two(h, f, from, u, next, v);
        if (!f->bad)
            isod_few_store_two(w.dest + (uint64_t)(uint32_t)from * w.dest_stride, u, next, bytes, v);
    }
}

PRIM_FN int isod_exchange_few_ll(shmemd_t h, struct prim_group g, struct isod_few f, struct isod_move w)
{
    if (f.epoch == 0)
        return 1;
    isod_few_send_all(h, g, &f, w);
    PRIM_ROLLED
    for (int32_t m = 0; m < h.n_pes; m++)
        if (m != h.my_pe)
            isod_few_take_all(h, g, &f, w, m);
    return isod_few_end(h, g, f);
}

/* Those that are not the root send flags, which all wait for: the rule of staged epochs. */
PRIM_FN int isod_broadcast_few_ll(shmemd_t h, struct prim_group g, struct isod_few f, struct isod_move w)
{
    if (f.epoch == 0)
        return 1;
    PRIM_ROLLED
    for (int32_t m = (int32_t)prim_rank(g); m < h.n_pes && h.my_pe != w.from; m += (int32_t)prim_size(g))
        if (m != h.my_pe)
            isod_synchronise_send(h, f.lane, f.epoch, m);
    if (h.my_pe == w.from)
        isod_few_send_all(h, g, &f, w);
    else
        isod_few_take_all(h, g, &f, w, w.from);
    PRIM_ROLLED
    for (int32_t m = (int32_t)prim_rank(g); m < h.n_pes && !f.bad; m += (int32_t)prim_size(g))
        if (m != h.my_pe && m != w.from)
            f.bad = !isod_synchronise_wait(h, f.lane, f.epoch, f.call, ISOD_ARRIVAL, m);
    return isod_few_end(h, g, f);
}

/* dest may be source: a thread writes a unit after it has sent and read its own. */
PRIM_FN int isod_reduce_few_ll(shmemd_t h, struct prim_group g, struct isod_few f, struct isod_reduce w,
                               enum isod_elem elem, int op)
{
    const char *own = w.source + (uint64_t)(uint32_t)h.my_pe * w.stride;
    const uint32_t bytes = (uint32_t)w.bytes;
    struct isod_move all = isod_move_of((void *)0, w.source, w.bytes);
    all.source_stride = w.stride;
    if (f.epoch == 0)
        return 1;
    isod_few_send_all(h, g, &f, all);
    PRIM_ROLLED
    for (uint32_t u = prim_rank(g); u * 16 < bytes && !f.bad; u += 2 * prim_size(g)) {
        const uint32_t next = isod_few_next(g, u, bytes);
        struct isod_acc a[2] PRIM_UNSET; /* by the first join */
        struct prim_vec16 v[2];
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++) {
            if (m == h.my_pe)
                isod_few_load_two(own, u, next, bytes, v);
            else
                isod_few_take_two(h, &f, m, u, next, v);
            isod_acc_join(elem, &a[0], v[0], m, h.n_pes, op);
            isod_acc_join(elem, &a[1], v[1], m, h.n_pes, op);
        }
        v[0] = isod_acc_vec(elem, &a[0]);
        v[1] = isod_acc_vec(elem, &a[1]);
        if (!f.bad)
            isod_few_store_two(w.dest, u, next, bytes, v);
    }
    return isod_few_end(h, g, f);
}

/* ---- moves, short and long ---- */

/* What this member sends: to m from source + m * stride, to dest + my_pe * dest_stride there. */
PRIM_CALL_FN void isod_few_send(shmemd_t h, struct prim_group g, struct isod_move w, int32_t to)
{
    char *dest = w.dest + (uint64_t)(uint32_t)h.my_pe * w.dest_stride;
    const char *source = w.source + (uint64_t)(uint32_t)to * w.source_stride;
    if (to != h.my_pe || dest != source)
        isod_put_nbi(h, g, isod_bytes_of(dest, source, w.bytes), to);
}
/* To `count` members, from w.to on. */
PRIM_FN int isod_few_send_long(shmemd_t h, struct prim_group g, struct isod_move w, uint32_t call, int32_t count)
{
    PRIM_ROLLED
    for (int behind = 0;; behind = 1) {
        const int rc = isod_few_meet(h, g, call);
        if (rc != 0 || behind)
            return rc;
        PRIM_ROLLED
        for (int32_t i = 0; i < count; i++)
            isod_few_send(h, g, w, w.to + i);
    }
}
PRIM_FN int isod_exchange_few(shmemd_t h, struct prim_group g, struct isod_move w, uint32_t call)
{
    if (w.bytes == 0)
        return isod_coll_nothing_by(h, g);
    if (isod_few_takes_ll(h, g, w.bytes)) {
        const struct isod_few f = isod_few_begin(h, g, call);
        if (!f.turns)
            return isod_exchange_few_ll(h, g, f, w);
    }
    w.to = 0;
    return isod_few_send_long(h, g, w, call, h.n_pes);
}
PRIM_FN int isod_broadcast_few(shmemd_t h, struct prim_group g, struct isod_move w)
{
    if ((uint32_t)w.from >= (uint32_t)h.n_pes)
        return isod_broadcast_refuse(h, g, &w);
    if (w.bytes == 0)
        return isod_coll_nothing_by(h, g);
    if (isod_few_takes_ll(h, g, w.bytes)) {
        const struct isod_few f = isod_few_begin(h, g, ISOD_CALL_BROADCAST);
        if (!f.turns)
            return isod_broadcast_few_ll(h, g, f, w);
    }
    w.to = 0;
    return isod_few_send_long(h, g, w, ISOD_CALL_BROADCAST, h.my_pe == w.from ? h.n_pes : 0);
}
PRIM_FN int isod_permute_few(shmemd_t h, struct prim_group g, struct isod_move w)
{
    if (!isod_permute_is_right(h, &w))
        return isod_permute_refuse(h, g, &w);
    if (w.bytes == 0)
        return isod_coll_nothing_by(h, g);
    return isod_few_send_long(h, g, w, ISOD_CALL_PERMUTE, 1);
}

/* ---- reductions, short and long ---- */

/* The unit at `at` in member m's array, where `left` bytes are left of it. */
PRIM_FN struct prim_vec16 isod_few_load(shmemd_t h, const char *at, uint64_t left, int32_t m)
{
    const char *near = isod_near(h, at, m);
    struct prim_vec16 v = {{0, 0}};
    if (near != 0)
        return isod_unit_load(near, left);
    const uint32_t n = left < 16 ? (uint32_t)left : 16u, odd = (uint32_t)(uintptr_t)at | n;
    const uint32_t width = (odd & 7) == 0 ? 8 : (odd & 3) == 0 ? 4 : 1;
    PRIM_ROLLED
    for (uint32_t i = 0; i < n; i += width) {
        const uint64_t part = isod_ring_get_word(h, at + i, width, isod_world_pe(h, m)) << (i & 7) * 8;
        if (i < 8) /* no index: an array would be stack */
            v.word[0] |= part;
        else
            v.word[1] |= part;
    }
    return v;
}
PRIM_FN void isod_few_store(shmemd_t h, char *at, struct prim_vec16 v, uint64_t left, int32_t m)
{
    char *near = isod_near(h, at, m);
    if (near != 0)
        isod_unit_store(near, v, left);
    else
        isod_ring_put_words(h, at, isod_words_of(v.word[0], v.word[1], left < 16 ? (uint32_t)left : 16u),
                            isod_world_pe(h, m));
}

/* This thread's units from u on, two at once, since few threads have few loads in flight: as long as they are whole and
 * pointers reach them. Returns the first that is left. */
PRIM_FN uint64_t isod_reduce_few_pairs(shmemd_t h, struct isod_reduce w, uint64_t u, uint64_t last, uint64_t step,
                                       enum isod_elem elem, int op)
{
    const char *source = w.source + (uint64_t)(uint32_t)h.my_pe * w.stride;
    const uint64_t whole = isod_whole_bytes(source, w.bytes) / 16;
    const bool reached = isod_goes_direct(h) && isod_in_heap(h, source) && isod_in_heap(h, w.dest);
    last = last < whole ? last : whole;
    PRIM_ROLLED
    for (; reached && u + step < last; u += 2 * step) {
        struct isod_acc a[2] PRIM_UNSET;
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++) {
            const char *near = isod_near(h, source, m) + u * 16;
            struct prim_vec16 v = prim_load16(near), next = prim_load16(near + step * 16);
            isod_acc_join(elem, &a[0], v, m, h.n_pes, op);
            isod_acc_join(elem, &a[1], next, m, h.n_pes, op);
        }
        PRIM_ROLLED
        for (int32_t m = 0; m < h.n_pes; m++) {
            if (w.stride != 0 && m != h.my_pe)
                continue;
            char *near = isod_near(h, w.dest, m) + u * 16;
            isod_unit_store(near, isod_acc_vec(elem, &a[0]), 16);
            isod_unit_store(near + step * 16, isod_acc_vec(elem, &a[1]), 16);
        }
    }
    return u;
}

/* Member m combines part m of all arrays and stores it to all; of a reducescatter its own block, to itself. dest may be
 * source, and of a reducescatter this member's block of it: a part of an array is read and then written by one thread.
 */
PRIM_FN int isod_reduce_few(shmemd_t h, struct prim_group g, struct isod_reduce w, enum isod_elem elem, int op)
{
    const uint64_t units = isod_units(w.bytes);
    const uint32_t me = (uint32_t)h.my_pe, n = (uint32_t)h.n_pes;
    const bool all = w.stride == 0;
    const uint64_t last = all ? isod_part_at(units, me + 1, n) : units;
    if (w.bytes == 0)
        return isod_coll_nothing_by(h, g);
    if (isod_few_takes_ll(h, g, w.bytes)) {
        const struct isod_few f = isod_few_begin(h, g, w.call);
        if (!f.turns)
            return isod_reduce_few_ll(h, g, f, w, elem, op);
    }
    PRIM_ROLLED
    for (int behind = 0;; behind = 1) {
        const int rc = isod_few_meet(h, g, w.call);
        if (rc != 0 || behind)
            return rc;
        uint64_t u = (all ? isod_part_at(units, me, n) : 0) + prim_rank(g);
#ifndef PRIM_CALLS_BY_ABI /* as above */
        u = isod_reduce_few_pairs(h, w, u, last, prim_size(g), elem, op);
#endif
        PRIM_ROLLED
        for (; u < last; u += prim_size(g)) {
            const uint64_t left = w.bytes - u * 16;
            const char *source = w.source + me * w.stride + u * 16;
            struct isod_acc a[1] PRIM_UNSET; /* by the first join */
            PRIM_ROLLED
            for (int32_t m = 0; m < h.n_pes; m++)
                isod_acc_join(elem, a, isod_few_load(h, source, left, m), m, h.n_pes, op);
            PRIM_ROLLED
            for (int32_t m = all ? 0 : h.my_pe; m < (all ? h.n_pes : h.my_pe + 1); m++)
                isod_few_store(h, w.dest + u * 16, isod_acc_vec(elem, a), left, m);
        }
    }
}

/* ---- by any group ---- */

PRIM_FN int isod_exchange_group(shmemd_t h, struct prim_group g, struct isod_move w, uint32_t call)
{
    return g.kind == PRIM_BLOCK ? isod_exchange_block(h, w, call) : isod_exchange_few(h, g, w, call);
}
PRIM_FN int isod_broadcast_group(shmemd_t h, struct prim_group g, struct isod_move w)
{
    return g.kind == PRIM_BLOCK ? isod_broadcast_block(h, w) : isod_broadcast_few(h, g, w);
}
PRIM_FN int isod_permute_group(shmemd_t h, struct prim_group g, struct isod_move w)
{
    return g.kind == PRIM_BLOCK ? isod_permute_block(h, w) : isod_permute_few(h, g, w);
}
PRIM_FN int isod_reduce_group(shmemd_t h, struct prim_group g, struct isod_reduce w, enum isod_elem elem, int op,
                              isod_pipelined *pipelined)
{
    return g.kind == PRIM_BLOCK ? isod_reduce_block(h, w, elem, op, pipelined) : isod_reduce_few(h, g, w, elem, op);
}

#endif
