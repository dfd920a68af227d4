/* SPDX-License-Identifier: MIT */
/* Signals and packets of kernels. A signal is behind the data of its group whichever way each of the two goes: both by
 * pointer, a fence; data by the ring and signal by pointer, the ring is waited for; both by the ring, its order. A
 * packet needs neither signal nor fence, since each 8-byte half of its lines says by itself that it has arrived.
 * Includes: amo_device.h, wait_device.h. Used by include/shmem_device.h. */
#ifndef ISO_SIGNAL_DEVICE_H
#define ISO_SIGNAL_DEVICE_H

#include "amo_device.h"
#include "wait_device.h"

enum isod_signal_op { ISOD_SIGNAL_SET = 1, ISOD_SIGNAL_ADD = 2 }; /* SHMEM_SIGNAL_ of shmem.h */

struct isod_signal {
    uint64_t *addr;
    uint64_t value;
    int op;
};
PRIM_FN struct isod_signal isod_signal_of(uint64_t *addr, uint64_t value, int op)
{
    struct isod_signal s = {addr, value, op};
    return s;
}

/* By one thread. On the CPU both are releases; elsewhere the fence, where there is one, came before. */
PRIM_FN void isod_signal_at(char *at, uint64_t value, int op)
{
    if (op == ISOD_SIGNAL_SET)
        prim_store_flag_u64((uint64_t *)(void *)at, value); /* pairs with the peek of waits */
    else
        (void)prim_fetch_add_u64((uint64_t *)(void *)at, value); /* likewise */
}

/* The update alone. A handle that has given up announces nothing. */
PRIM_FN void isod_signal_send(shmemd_t h, struct isod_signal s, int pe)
{
    char *at = isod_near(h, s.addr, pe);
    if (isod_is_dead(h))
        return;
    if (at != 0)
        isod_signal_at(at, s.value, s.op);
    else
        isod_ring_signal(h.team, s.addr, s.value, s.op, isod_world_pe(h, pe));
}

/* By the first thread of a group, behind its data and prim_gather_stores. `overtakes`: data is on the ring that a signal
 * by pointer would overtake. The look-ups for the signal stand behind the data, which leaves earlier. The fence does not
 * hide them: it takes 1.51 us between two H100, with no store outstanding as with 1024. A look at the status before the
 * data took 0.05 us more. */
PRIM_FN void isod_signal_behind(shmemd_t h, struct isod_signal s, int pe, bool overtakes)
{
    bool dead = isod_is_dead(h);
    char *at = isod_near(h, s.addr, pe);
    if (overtakes && at != 0)
        isod_ring_quiet(h);
    prim_fence_flag(); /* the second half of gather_stores */
    if (dead)
        return;
    if (at != 0)
        isod_signal_at(at, s.value, s.op);
    else
        isod_ring_signal(h.team, s.addr, s.value, s.op, isod_world_pe(h, pe));
}

/* The data by the whole group, then the signal by its first thread, who alone decides whether the handle is dead: the
 * others may see it otherwise, and all have to come to the sync. After that sync `source` is free. Where both places are
 * in evenly spaced heaps, one distance is all that is looked up; the other ways are a function of their own. */
#if defined(SHMEMD_NO_RING) || defined(PRIM_FEW_SCALARS) || defined(PRIM_CALLS_BY_ABI)
#define ISOD_FAR_FN PRIM_FN
#else
#define ISOD_FAR_FN PRIM_CALL_FN
#endif
ISOD_FAR_FN void isod_put_signal_anywhere(shmemd_t h, shmemd_group_t g, struct isod_bytes b, struct isod_signal s,
                                          int pe)
{
    char *to = b.len != 0 ? isod_near(h, b.dest, pe) : (char *)0;
    if (to != 0)
        isod_copy_out(g, to, b);
    else if (b.len != 0)
        isod_ring_put(h, g, b, isod_world_pe(h, pe));
    prim_gather_stores(g); /* pairs with the acquire of who sees the signal */
    if (prim_is_first(g))
        isod_signal_behind(h, s, pe, to == 0 && b.len != 0);
}
PRIM_FN void isod_put_signal(shmemd_t h, shmemd_group_t g, struct isod_bytes b, struct isod_signal s, int pe)
{
    bool even = h.flat != 0;
#ifdef PRIM_FEW_SCALARS
    even = false;
#elif defined(SHMEMD_NO_RING) || defined(PRIM_CALLS_BY_ABI)
    even = even && g.kind == PRIM_THREAD; /* two copies of a group's would take more registers */
#endif
    if (((int)isod_in_heap(h, b.dest) & (int)isod_in_heap(h, s.addr) & (int)even) == 0) { /* one branch */
        isod_put_signal_anywhere(h, g, b, s, pe);
        return;
    }
    int64_t shift = isod_shift(h, pe);
    isod_copy_out(g, (char *)b.dest + shift, b);
    prim_gather_stores(g); /* pairs with the acquire of who sees the signal */
    if (!prim_is_first(g))
        return;
    bool dead = isod_is_dead(h);
    prim_fence_flag(); /* the second half of gather_stores */
    if (!dead)
        isod_signal_at((char *)s.addr + shift, s.value, s.op);
}

/* Data of each thread's own, then one signal for all of them: only the first thread knows no way but its own, so it asks
 * whether anything is on the ring. */
PRIM_FN void isod_put_each_signal(shmemd_t h, shmemd_group_t g, struct isod_bytes b, struct isod_signal s, int pe)
{
    isod_put_nbi(h, prim_group_thread(), b, pe);
    prim_gather_stores(g); /* pairs with the acquire of who sees the signal */
    if (prim_is_first(g))
        isod_signal_behind(h, s, pe, isod_ring_used(h));
}

PRIM_FN uint64_t isod_signal_fetch(const uint64_t *addr)
{
    uint64_t v = prim_peek_u64(addr);
    prim_acquire_from_peer(); /* pairs with the release of put_signal */
    prim_look("shmemd_signal_fetch", addr, v);
    return v;
}

/* The first thread waits, and tells. */
PRIM_FN uint64_t isod_signal_wait(shmemd_t h, shmemd_group_t g, const uint64_t *addr, int cmp, uint64_t value)
{
    uint64_t seen = 0;
    if (prim_is_first(g))
        (void)isod_wait(h, isod_until_of(ISOD_U64, addr, cmp, value), isod_who(ISOD_CALL_SIGNAL_WAIT_UNTIL, -1), &seen);
    prim_settle_stores(g);
    return prim_broadcast_u64(g, seen);
}

/* ---- packets: 8 bytes of data a line, line i at 16 * i ---- */

#define ISOD_LL_AT_ONCE 4 /* lines that a thread has in flight */
#define ISOD_GAVE_UP (~(size_t)0)

/* Lines of eight bytes each of an aligned area: nearly all there are. */
PRIM_FN size_t isod_whole_ll(const void *data, size_t bytes) { return ((uintptr_t)data & 7) == 0 ? bytes / 8 : 0; }
PRIM_FN uint64_t isod_whole_load(const char *from)
{
    uint64_t v;
    __builtin_memcpy(&v, __builtin_assume_aligned(from, 8), 8);
    return v;
}
PRIM_FN void isod_whole_store(char *to, uint64_t v) { __builtin_memcpy(__builtin_assume_aligned(to, 8), &v, 8); }

/* The others, at most 8 bytes of memory, the first one lowest: no code of the calls, whose size is latency. */
PRIM_COLD_FN uint64_t isod_half_load(const char *from, size_t left)
{
    uint64_t v = 0;
    for (size_t i = 0; i < left && i < 8; i++)
        v |= (uint64_t)(uint8_t)from[i] << (8 * i);
    return v;
}
PRIM_COLD_FN void isod_half_store(char *to, uint64_t v, size_t left)
{
    for (size_t i = 0; i < left && i < 8; i++)
        to[i] = (char)(uint8_t)(v >> (8 * i));
}

struct isod_packet {
    const void *source; /* of put: the data; of get: the area */
    size_t bytes;
    uint32_t epoch;
};
PRIM_FN struct isod_packet isod_packet_of(const void *source, size_t bytes, uint32_t epoch)
{
    struct isod_packet p = {source, bytes, epoch};
    return p;
}

/* Where there is a thread for each line the first branch is all of it. */
PRIM_FN void isod_put_packet(shmemd_t h, shmemd_group_t g, void *dest, struct isod_packet p, int pe)
{
    char *to = isod_near(h, dest, pe);
    const char *from = (const char *)p.source;
    size_t lines = (p.bytes + 7) / 8, whole = isod_whole_ll(from, p.bytes);
    uint32_t rank = prim_rank(g), size = prim_size(g);
    if (to != 0 && lines <= size && rank < (uint32_t)whole) {
        uint64_t data = isod_whole_load(from + rank * 8);
        prim_store_ll((struct prim_ll *)(void *)to + rank, (uint32_t)data, (uint32_t)(data >> 32), p.epoch);
        return;
    }
    for (size_t i = rank; i < lines; i += size) {
        uint64_t data = i < whole ? isod_whole_load(from + i * 8) : isod_half_load(from + i * 8, p.bytes - i * 8);
        if (to != 0) {
            prim_store_ll((struct prim_ll *)(void *)to + i, (uint32_t)data, (uint32_t)(data >> 32), p.epoch);
        } else { /* by the ring: both halves of a line at once, each as a word */
            uint64_t behind = (uint64_t)p.epoch << 32;
            isod_ring_put_words(h, (char *)dest + i * 16,
                                isod_words_of((uint32_t)data | behind, (data >> 32) | behind, 16),
                                isod_world_pe(h, pe));
        }
    }
}

PRIM_FN bool isod_ll_word_is(struct prim_ll line, uint32_t epoch)
{
    return (line.epoch0 == epoch) & (line.epoch1 == epoch);
}
PRIM_FN uint64_t isod_ll_word_data(struct prim_ll line) { return line.data0 | (uint64_t)line.data1 << 32; }

/* Lines first, first + stride, ...: all of them looked at until each has come. False: given up. */
PRIM_FN bool isod_ll_wait(struct isod_team *team, const struct isod_packet *p, size_t first, size_t stride,
                          struct prim_ll *lines)
{
    struct isod_waiting w = {0, 0};
    struct isod_waited who = isod_who(ISOD_CALL_GET_PACKET, -1);
    for (;;) {
        const char *missing = (const char *)0;
        uint32_t seen = 0;
        for (size_t k = 0; k < ISOD_LL_AT_ONCE; k++)
            if ((first + k * stride) * 8 < p->bytes)
                lines[k] = prim_load_ll((const struct prim_ll *)p->source + (first + k * stride));
        for (size_t k = 0; k < ISOD_LL_AT_ONCE; k++) {
            if ((first + k * stride) * 8 >= p->bytes || isod_ll_word_is(lines[k], p->epoch))
                continue;
            missing = (const char *)p->source + (first + k * stride) * 16;
            seen = lines[k].epoch0;
        }
        if (missing == 0)
            return true;
        if (!isod_wait_pause(team, &w, isod_missed_at(who, missing, p->epoch, seen)))
            return false;
    }
}

/* A thread's lines from i on, some at once, until at most one is left: that one, or past the end; or ISOD_GAVE_UP. */
PRIM_COLD_FN size_t isod_ll_get(struct isod_team *team, void *dest, struct isod_packet p, size_t i, size_t stride)
{
    size_t lines = (p.bytes + 7) / 8, whole = isod_whole_ll(dest, p.bytes);
    for (; i + stride < lines; i += ISOD_LL_AT_ONCE * stride) {
        struct prim_ll got[ISOD_LL_AT_ONCE];
        if (!isod_ll_wait(team, &p, i, stride, got))
            return ISOD_GAVE_UP;
        for (size_t k = 0; k < ISOD_LL_AT_ONCE; k++) {
            size_t line = i + k * stride;
            if (line < whole)
                isod_whole_store((char *)dest + line * 8, isod_ll_word_data(got[k]));
            else if (line < lines)
                isod_half_store((char *)dest + line * 8, isod_ll_word_data(got[k]), p.bytes - line * 8);
        }
    }
    return i;
}

/* One line; as isod_wait. False: given up. */
PRIM_FN bool isod_ll_word_wait(struct isod_team *team, const struct prim_ll *from, uint32_t epoch, struct prim_ll *line)
{
    struct isod_waiting w = {0, 0};
    struct isod_waited who = isod_who(ISOD_CALL_GET_PACKET, -1);
    for (;;) {
        PRIM_WAIT_FOR_LINES
        for (uint32_t polls = ISOD_POLLS_PER_LOOK; polls != 0; polls--) {
            *line = prim_load_ll(from);
            if (isod_ll_word_is(*line, epoch))
                return true;
            prim_pause();
        }
        w = isod_wait_look(team, w, isod_missed_at(who, from, epoch, line->epoch0));
        if (isod_has_given_up(w))
            return false;
    }
}

/* A thread's last line goes the short way, which is the only one where there is a thread for each. */
PRIM_FN int isod_get_packet(shmemd_t h, shmemd_group_t g, void *dest, struct isod_packet p)
{
    size_t lines = (p.bytes + 7) / 8, stride = prim_size(g), i = prim_rank(g);
    size_t whole = isod_whole_ll(dest, p.bytes); /* known before the line comes */
    bool lost = false;
    if (i + stride < lines) {
        i = isod_ll_get(h.team, dest, p, i, stride);
        lost = i == ISOD_GAVE_UP;
    }
    if (i < lines) {
        struct prim_ll line;
        lost = !isod_ll_word_wait(h.team, (const struct prim_ll *)p.source + i, p.epoch, &line);
        if (!lost && i < whole)
            isod_whole_store((char *)dest + i * 8, isod_ll_word_data(line));
        else if (!lost)
            isod_half_store((char *)dest + i * 8, isod_ll_word_data(line), p.bytes - i * 8);
    }
    prim_settle_stores(g);
    return prim_sync_or(g, lost) ? 1 : 0; /* and every thread may read all of dest */
}

#endif
