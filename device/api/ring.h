/* SPDX-License-Identifier: MIT */
/* Requests of kernels to the host, for memory that no pointer reaches: rings of 64-byte entries in pinned host memory,
 * which the proxy thread of the PE executes in order. Tickets are words of device memory (a GPU has no fast atomics on
 * host memory), so the blocks and waves that share a ring need no other lock. A ticket is taken only when its entry is
 * free, and its entry is written at once: threads of a wave that run in lockstep never wait for each other here.
 * Invariants of a ring: done <= head <= done + entries; entry i is used by tickets t with t % entries == i, and by t
 * only after `done` has passed t - entries and turn[i] == t. PE numbers are the world's; addresses are symmetric, as
 * this PE names them. Includes: wait_device.h. Used by *_device.h; shmem/gpu/proxy.c executes the entries. */
#ifndef ISO_RING_H
#define ISO_RING_H

#include "wait_device.h"

/* Kinds of entries, and the meaning of their words. */
enum isod_ring_kind {
    ISOD_RING_INLINE,     /* put: the data */
    ISOD_RING_STAGED,     /* put: [0] number of the stage, [1] bytes */
    ISOD_RING_DIRECT,     /* put: [0] source, symmetric memory of this PE, [1] bytes */
    ISOD_RING_GET_STAGED, /* [0] number of the stage, [1] bytes */
    ISOD_RING_GET_DIRECT, /* [0] dest, symmetric memory of this PE, [1] bytes */
    ISOD_RING_AMO,        /* [0] operand, [1] compare, [2] 1: it fetches; op: enum isod_amo; old value: results[] */
    ISOD_RING_GET_WORD,   /* of 1, 2, 4 or 8 bytes, aligned; the value: results[] */
    ISOD_RING_SIGNAL      /* [0] value; op: as SHMEM_SIGNAL_; after all entries before it */
};

#define ISOD_RING_WORDS 4
#define ISOD_RING_INLINE_BYTES 16
#define ISOD_RING_ENTRIES 256u /* of a ring; a power of two */
#define ISOD_RING_STAGES 8u
#define ISOD_RING_STAGE_BYTES 4096u
#define ISOD_RINGS 16u /* of a PE; a power of two */

struct isod_entry {
    uint32_t kind; /* enum isod_ring_kind */
    int32_t pe;
    uint32_t op;
    uint32_t bytes; /* of an inline put, of the word of an atomic or a get */
    uint64_t addr;  /* at that PE */
    uint64_t word[ISOD_RING_WORDS];
    uint64_t seq; /* ticket + 1; stored last, system scope; pairs with the acquire load of the proxy */
};

/* In device memory; the first two are written by kernels, the rest never. */
struct isod_ring {
    uint64_t head; /* atomic: tickets handed out */
    uint64_t seen; /* atomic, only grows: the largest `done` that a kernel has read over the bus */
    uint64_t pad[6];
    struct isod_entry *entries; /* pinned */
    uint64_t *done;    /* pinned [2]; [0] tickets executed and visible at their targets; the proxy's release store,
                          which pairs with the peek in isod_ring_is_done; [1] 1 once a kernel has posted here */
    uint64_t *results; /* pinned [entries]: old values of atomics, stored before `done` */
    char *stages;      /* pinned [ISOD_RING_STAGES] of ISOD_RING_STAGE_BYTES */
    uint64_t *turns;   /* device [entries]: the ticket that may use the entry next: its last user needs the result no
                          longer */
    uint64_t *leases;  /* device [ISOD_RING_STAGES]: 2 * n: free once n tickets are done; odd: a thread fills it */
    uint32_t mask;     /* entries - 1 */
    uint32_t spare[3];
};

/* What calls move: len bytes between memory here and memory of a PE, both as this PE names them. */
struct isod_bytes {
    void *dest;
    const void *source;
    size_t len;
};
PRIM_FN struct isod_bytes isod_bytes_of(void *dest, const void *source, size_t len)
{
    struct isod_bytes b = {dest, source, len};
    return b;
}
/* 1 to 16 bytes as bits, in the order that a copy of both words would have in memory. */
struct isod_words {
    uint64_t word0, word1;
    uint32_t bytes;
};
PRIM_FN struct isod_words isod_words_of(uint64_t word0, uint64_t word1, uint32_t bytes)
{
    struct isod_words w = {word0, word1, bytes};
    return w;
}
/* An atomic on a word. */
struct isod_word_op {
    uint32_t op, bytes; /* enum isod_amo; 4 or 8 */
    uint64_t operand, compare;
    bool fetches; /* the old value is wanted: the ring waits for it */
};

#ifdef SHMEMD_NO_RING
#include "no_ring.h"
#else

/* ---- parts ---- */

/* True when a kernel of this PE uses the ring. Costs one load of device memory; issue it ahead of a fence. */
PRIM_FN bool isod_ring_used(shmemd_t h) { return prim_load_relaxed_u64(&h.world->ring_used) != 0; }

/* A block's operations go by one ring, so they are executed in their order. */
PRIM_FN struct isod_ring *isod_ring_of(struct isod_world *world)
{
    return &world->rings[prim_block_index() & (world->n_rings - 1)];
}

/* What a kernel writes of an entry: scalars, so that it stays in registers on its way there; nothing here takes the
 * address of a local, which would give every kernel that may use the ring a stack. what: kind, op and bytes of the
 * entry, of 8 bits each. */
struct isod_post {
    uint32_t what;
    int32_t pe;
    uint64_t addr, word0, word1;
};
PRIM_FN struct isod_post isod_ring_order(uint32_t kind, const void *addr, int32_t pe)
{
    struct isod_post e;
    e.what = kind;
    e.pe = pe;
    e.addr = (uint64_t)(uintptr_t)addr;
    e.word0 = e.word1 = 0;
    return e;
}
PRIM_FN uint32_t isod_ring_op_bytes(uint32_t op, uint32_t bytes) { return (op & 0xffu) << 8 | bytes << 16; }

/* Have `count` tickets been executed? The answer comes from `seen` in device memory where that is large enough. Else
 * the thread reads `done` over the bus and stores it to `seen` behind a fence. So a thread that peeks at `seen` knows
 * everything that `done` stands for. Data of the proxy may be read after prim_acquire_from_peer(). */
PRIM_FN bool isod_ring_is_done(struct isod_ring *r, uint64_t count)
{
    if (prim_peek_u64(&r->seen) >= count)
        return true;
    uint64_t done = prim_peek_u64(r->done);
    if (done < count)
        return false;
    prim_acquire_from_peer();
    prim_fence_before_signal();
    prim_fetch_max_u64(&r->seen, done);
    return true;
}

/* The entry of ticket t belongs to ticket t + entries from here on. Release: the result was read before; pairs with the
 * peek in isod_ring_try. */
PRIM_FN void isod_ring_leave(struct isod_ring *r, uint64_t ticket)
{
    prim_store_release_u64(&r->turns[ticket & r->mask], ticket + r->mask + 1);
}

/* Relaxed stores of words, then the number behind a fence of system scope. The fence also covers earlier stores of this
 * thread: a signal by the ring may follow data by pointer. Pairs with the acquire load of the proxy. */
PRIM_FN void isod_ring_write(struct isod_entry *to, struct isod_post e, bool fetches, uint64_t seq)
{
    uint64_t *words = (uint64_t *)(void *)to;
    prim_store_relaxed_u64(&words[0], (e.what & 0xffu) | (uint64_t)(uint32_t)e.pe << 32);
    prim_store_relaxed_u64(&words[1], (e.what >> 8 & 0xffu) | (uint64_t)(e.what >> 16) << 32);
    prim_store_relaxed_u64(&to->addr, e.addr);
    prim_store_relaxed_u64(&to->word[0], e.word0);
    prim_store_relaxed_u64(&to->word[1], e.word1);
    prim_store_relaxed_u64(&to->word[2], fetches ? 1 : 0);
    prim_fence_before_signal();
    prim_store_flag_u64(&to->seq, seq);
}

/* Before the first ticket of a ring is taken. The owner of every later ticket has seen `head` beyond 0, so these words
 * are in memory before any entry is. The host looks at them when the kernel has ended (iso_drain_rings); kernels look
 * at the world's word before a fence and a quiet. */
PRIM_FN void isod_ring_tell_used(struct isod_world *world, struct isod_ring *r)
{
    prim_store_relaxed_u64(&r->done[1], 1);
    prim_store_relaxed_u64(&world->host->ring_used, 1);
    prim_store_relaxed_u64(&world->ring_used, 1);
    prim_fence_before_signal();
}

/* One attempt to post: its ticket + 1, or 0. A ticket whose result is wanted keeps its entry until isod_ring_leave. */
PRIM_FN uint64_t isod_ring_try(struct isod_world *world, struct isod_ring *r, struct isod_post e, bool fetches)
{
    uint64_t t = prim_load_relaxed_u64(&r->head), size = (uint64_t)r->mask + 1;
    if (t >= size && !isod_ring_is_done(r, t - size + 1))
        return 0; /* no credit */
    if (prim_peek_u64(&r->turns[t & r->mask]) != t)
        return 0; /* the last user of this entry still reads its result, or t has gone to another thread */
    if (t == 0)
        isod_ring_tell_used(world, r);
    if (prim_cas_u64(&r->head, t, t + 1) != t)
        return 0;
    if (!fetches)
        isod_ring_leave(r, t);
    isod_ring_write(&r->entries[t & r->mask], e, fetches, t + 1);
    return t + 1;
}

/* When isod_ring_run returns: the entry is posted, it is executed, or its result was read. */
enum isod_ring_until { ISOD_RING_POSTED, ISOD_RING_DONE, ISOD_RING_RESULT };

/* The state of one entry. count: its ticket + 1, 0 before it is posted; with REACHED when nothing is left to do. */
#define ISOD_RING_REACHED ((uint64_t)1 << 63)
struct isod_ring_progress {
    uint64_t count, old;
};

/* Some rounds of one loop that posts, waits, and reads the old value of an atomic. It is one loop because threads of a
 * wave run in lockstep: a thread must not wait in a loop that comes before the loop of another. The loop makes no call,
 * so no register is saved over one. */
PRIM_FN struct isod_ring_progress isod_ring_rounds(struct isod_team *team, struct isod_post e,
                                                   enum isod_ring_until until, uint64_t count)
{
    struct isod_ring *r = isod_ring_of(team->world);
    struct isod_ring_progress p = {count, 0};
    for (uint32_t i = 0; i < ISOD_POLLS_PER_LOOK && (p.count & ISOD_RING_REACHED) == 0; i++) {
        if (p.count == 0)
            p.count = isod_ring_try(team->world, r, e, until == ISOD_RING_RESULT);
        bool reached = p.count != 0 && (until == ISOD_RING_POSTED || isod_ring_is_done(r, p.count));
        if (reached && until == ISOD_RING_RESULT) {
            prim_acquire_from_peer(); /* pairs with the release store of `done` */
            p.old = prim_load_relaxed_u64(&r->results[(p.count - 1) & r->mask]);
            isod_ring_leave(r, p.count - 1);
        }
        if (reached)
            p.count |= ISOD_RING_REACHED;
        else
            prim_pause();
    }
    return p;
}

/* By the calling thread. Returns the ticket + 1, or 0 when the kernel gave up; for RESULT the old value, or 0. */
PRIM_PART_FN uint64_t isod_ring_run(struct isod_team *team, struct isod_post e, enum isod_ring_until until)
{
    struct isod_waiting w = {0, 0};
    struct isod_ring_progress p = {0, 0};
    bool goes_on = prim_load_relaxed_u64(&team->status) != ISOD_STATUS_GAVE_UP;
    while (goes_on && (p.count & ISOD_RING_REACHED) == 0) {
        p = isod_ring_rounds(team, e, until, p.count);
        if ((p.count & ISOD_RING_REACHED) == 0) {
            struct isod_waited who = isod_who(ISOD_CALL_RING, e.pe);
            w = isod_wait_look(team, w, isod_missed_at(who, (const void *)(uintptr_t)e.addr, 0, 0));
            goes_on = !isod_has_given_up(w);
        }
    }
    if (!goes_on && until == ISOD_RING_RESULT && p.count != 0)
        isod_ring_leave(isod_ring_of(team->world), p.count - 1);
    prim_acquire_from_peer();
    if (until == ISOD_RING_RESULT)
        return p.old;
    return goes_on ? p.count & ~ISOD_RING_REACHED : 0;
}
PRIM_COLD_FN uint64_t isod_ring_do(struct isod_team *team, struct isod_post e, enum isod_ring_until until)
{
    return isod_ring_run(team, e, until);
}

/* ---- stages: pinned memory for data that the proxy cannot reach where it lies (shared memory, registers) ---- */

/* A free stage, or ISOD_RING_STAGES. The last user's accesses came before its release store of the lease, which this
 * thread has acquired. */
PRIM_FN uint32_t isod_ring_take_stage(struct isod_ring *r)
{
#ifndef PRIM_FEW_SCALARS /* a loop's own */
    PRIM_ROLLED
#endif
    for (uint32_t i = 0; i < ISOD_RING_STAGES; i++) {
        uint64_t lease = prim_load_relaxed_u64(&r->leases[i]);
        if ((lease & 1) == 0 && isod_ring_is_done(r, lease >> 1) &&
            prim_cas_u64(&r->leases[i], lease, lease | 1) == lease) {
            (void)prim_peek_u64(&r->leases[i]); /* acquire: pairs with the release in isod_ring_give_stage */
            return i;
        }
    }
    return ISOD_RING_STAGES;
}
PRIM_FN void isod_ring_give_stage(struct isod_ring *r, uint32_t i, uint64_t done)
{
    prim_store_release_u64(&r->leases[i], done << 1);
}

/* Gives all threads of the group the number that the first thread passes, 0 .. 15. */
PRIM_FN uint32_t isod_ring_tell(struct prim_group g, uint32_t number)
{
    uint32_t all = 0;
    bool first = prim_is_first(g);
    for (uint32_t bit = 1; bit < 16; bit <<= 1)
        if (prim_sync_or(g, first && (number & bit) != 0))
            all |= bit;
    return all;
}

PRIM_FN bool isod_ring_is_symmetric(struct isod_world *world, const void *addr, uint64_t bytes)
{
    for (uint32_t i = 0; i < world->n_segments; i++) {
        const struct isod_segment *s = &world->segments[i];
        /* As constants: AMD's compiler does not know that the world which a team names is device memory. */
        uint64_t len = prim_load_const_u64(&s->len);
        uint64_t offset = (uintptr_t)addr - prim_load_const_u64((const uint64_t *)(const void *)&s->base);
        if (offset < len && bytes <= len - offset)
            return true;
    }
    return false;
}

/* Between a stage and the local end. A function of its own, whose registers are no part of longer chains of calls. The
 * loop is short, since the bus is slower than any loop. Loads are atomic: data that the proxy has put into a stage must
 * not come out of a stale cache. */
PRIM_COLD_FN void isod_ring_copy(struct prim_group g, char *staged, char *local, uint64_t bytes, bool gets)
{
    uint64_t step = prim_size(g), i = prim_rank(g);
    if ((((uintptr_t)local | bytes) & 7) == 0) {
        for (i *= 8; i < bytes; i += 8 * step) {
            uint64_t *s = (uint64_t *)(void *)(staged + i), *l = (uint64_t *)(void *)(local + i);
            if (gets)
                *l = prim_load_relaxed_u64(s);
            else
                *s = *l;
        }
        return;
    }
    for (; i < bytes; i += step)
        if (gets)
            local[i] = (char)prim_load_relaxed_u8((const uint8_t *)staged + i);
        else
            staged[i] = local[i];
}

/* ---- put and get ---- */

enum isod_ring_way { ISOD_RING_PUT, ISOD_RING_PUT_NBI, ISOD_RING_GET };
struct isod_ring_span {
    uint64_t addr; /* at the PE */
    char *local;
    uint64_t bytes;
};

/* One attempt by the whole group to move the span, at most a stage, through a stage. 1: moved; 0: no stage is free;
 * -1: given up. The same on all threads. */
PRIM_PART_FN int isod_ring_stage(struct isod_team *team, struct prim_group g, struct isod_ring_span s, int32_t pe,
                                 bool gets)
{
    struct isod_ring *r = isod_ring_of(team->world);
    uint32_t stage = isod_ring_tell(g, prim_is_first(g) ? isod_ring_take_stage(r) : 0);
    uint64_t count = 1;
    if (stage >= ISOD_RING_STAGES)
        return 0;
    if (!gets)
        isod_ring_copy(g, r->stages + (uint64_t)stage * ISOD_RING_STAGE_BYTES, s.local, s.bytes, false);
    prim_gather_stores(g); /* the fence behind it is in isod_ring_write */
    if (prim_is_first(g)) {
        struct isod_post e = isod_ring_order(gets ? ISOD_RING_GET_STAGED : ISOD_RING_STAGED,
                                             (const void *)(uintptr_t)s.addr, pe);
        e.word0 = stage;
        e.word1 = s.bytes;
        count = isod_ring_run(team, e, gets ? ISOD_RING_DONE : ISOD_RING_POSTED);
    }
    bool lost = prim_sync_or(g, count == 0);
    r = isod_ring_of(team->world);
    if (gets && !lost)
        isod_ring_copy(g, r->stages + (uint64_t)stage * ISOD_RING_STAGE_BYTES, s.local, s.bytes, true);
    prim_sync(g);
    if (prim_is_first(g)) /* a get that was given up: the proxy may still write there until all posted is done */
        isod_ring_give_stage(r, stage, lost ? prim_load_relaxed_u64(&r->head) : gets ? 0 : count);
    return lost ? -1 : 1;
}

/* Data goes through a stage piece by piece. */
PRIM_FN void isod_ring_move_staged(struct isod_team *team, struct prim_group g, struct isod_ring_span s, int32_t pe,
                                   bool gets)
{
    struct isod_waiting w = {0, 0};
    int moved = 1;
    while (s.bytes > 0 && moved >= 0) {
        struct isod_ring_span piece = s;
        if (piece.bytes > ISOD_RING_STAGE_BYTES)
            piece.bytes = ISOD_RING_STAGE_BYTES;
        moved = isod_ring_stage(team, g, piece, pe, gets);
        if (moved > 0) {
            s.addr += piece.bytes;
            s.local += piece.bytes;
            s.bytes -= piece.bytes;
            w.since = w.polls = 0; /* the next piece waits anew */
        } else if (moved == 0) {
            const void *addr = (const void *)(uintptr_t)s.addr;
            struct isod_missed m = isod_missed_at(isod_who(ISOD_CALL_RING, pe), addr, 0, 0);
            bool stop = prim_is_first(g) && !isod_wait_pause(team, &w, m);
            moved = prim_sync_or(g, stop) ? -1 : 0;
        }
    }
}

/* Whose handle it is. A function gets its team alone, and reads the world there. Where rare paths are inlined, the world
 * is an argument of the kernel, which takes no register. */
#ifdef PRIM_FEW_SCALARS
typedef const shmemd_t *isod_ring_caller_t;
#define ISOD_RING_CALLER(h) (&(h))
#define ISOD_RING_TEAM(caller) ((caller)->team)
#else
typedef struct isod_team *isod_ring_caller_t;
#define ISOD_RING_CALLER(h) ((h).team)
#define ISOD_RING_TEAM(caller) (caller)
#endif

/* A local end in symmetric memory: the proxy reads or writes it in place, by one entry. */
PRIM_COLD_FN void isod_ring_move(isod_ring_caller_t caller, struct prim_group g, struct isod_ring_span s, int32_t pe,
                                 enum isod_ring_way way)
{
    struct isod_team *team = ISOD_RING_TEAM(caller);
    prim_gather_stores(g); /* the group's stores, the source among them; the fence behind it is in isod_ring_write */
    const bool given_up = prim_load_relaxed_u64(&team->status) == ISOD_STATUS_GAVE_UP;
    if (s.bytes == 0 || prim_sync_or(g, given_up))
        return;
    if (s.bytes <= (way == ISOD_RING_PUT_NBI ? ISOD_RING_INLINE_BYTES : ISOD_RING_STAGE_BYTES) ||
        !isod_ring_is_symmetric(caller->world, s.local, s.bytes)) {
        isod_ring_move_staged(team, g, s, pe, way == ISOD_RING_GET);
        return;
    }
    if (prim_is_first(g)) {
        struct isod_post e = isod_ring_order(way == ISOD_RING_GET ? ISOD_RING_GET_DIRECT : ISOD_RING_DIRECT,
                                             (const void *)(uintptr_t)s.addr, pe);
        e.word0 = (uint64_t)(uintptr_t)s.local;
        e.word1 = s.bytes;
        (void)isod_ring_do(team, e, way == ISOD_RING_PUT_NBI ? ISOD_RING_POSTED : ISOD_RING_DONE);
    }
    prim_sync(g);
}
PRIM_FN struct isod_ring_span isod_ring_span_of(const void *addr, const void *local, uint64_t bytes)
{
    struct isod_ring_span s = {(uint64_t)(uintptr_t)addr, (char *)(uintptr_t)local, bytes};
    return s;
}

/* By all threads of g. The source may be reused on return; delivery by isod_ring_quiet, or ahead of a later signal of
 * this block on the ring. */
PRIM_FN void isod_ring_put(shmemd_t h, struct prim_group g, struct isod_bytes b, int32_t pe)
{
    isod_ring_move(ISOD_RING_CALLER(h), g, isod_ring_span_of(b.dest, b.source, b.len), pe, ISOD_RING_PUT);
}
/* The same, but a source in symmetric memory may be reused only after isod_ring_quiet. */
PRIM_FN void isod_ring_put_nbi(shmemd_t h, struct prim_group g, struct isod_bytes b, int32_t pe)
{
    isod_ring_move(ISOD_RING_CALLER(h), g, isod_ring_span_of(b.dest, b.source, b.len), pe, ISOD_RING_PUT_NBI);
}
/* By all threads of g. Done on return. */
PRIM_FN void isod_ring_get(shmemd_t h, struct prim_group g, struct isod_bytes b, int32_t pe)
{
    isod_ring_move(ISOD_RING_CALLER(h), g, isod_ring_span_of(b.source, b.dest, b.len), pe, ISOD_RING_GET);
}

/* ---- by one thread: small puts, atomics, signals, quiet ---- */

/* Words of 1, 2, 4 and 8 bytes that are aligned arrive whole. */
PRIM_FN void isod_ring_put_words(shmemd_t h, void *dest, struct isod_words w, int32_t pe)
{
    struct isod_post e = isod_ring_order(ISOD_RING_INLINE, dest, pe);
    e.what |= isod_ring_op_bytes(0, w.bytes);
    e.word0 = w.word0;
    e.word1 = w.word1;
    (void)isod_ring_do(h.team, e, ISOD_RING_POSTED);
}

/* A fetching atomic returns the old value. Any other returns 0 at once. */
PRIM_FN uint64_t isod_ring_amo(shmemd_t h, struct isod_word_op o, const void *addr, int32_t pe)
{
    struct isod_post e = isod_ring_order(ISOD_RING_AMO, addr, pe);
    e.what |= isod_ring_op_bytes(o.op, o.bytes);
    e.word0 = o.operand;
    e.word1 = o.compare;
    uint64_t old = isod_ring_do(h.team, e, o.fetches ? ISOD_RING_RESULT : ISOD_RING_POSTED);
    return o.fetches ? old : 0;
}

/* The word of 1, 2, 4 or 8 bytes, aligned. Done on return. */
PRIM_FN uint64_t isod_ring_get_word(shmemd_t h, const void *source, uint32_t bytes, int32_t pe)
{
    struct isod_post e = isod_ring_order(ISOD_RING_GET_WORD, source, pe);
    e.what |= isod_ring_op_bytes(0, bytes);
    return isod_ring_do(h.team, e, ISOD_RING_RESULT);
}

/* By the calling thread. The signal comes after all earlier operations of this block on the ring, and after data of the
 * threads with which this thread has synchronised (prim_gather_stores). Not by isod_ring_do: the flags of barriers come
 * this way, at the end of long chains of calls, and a signal takes fewer registers. */
PRIM_COLD_FN void isod_ring_signal(struct isod_team *team, uint64_t *sig, uint64_t value, int op, int32_t pe)
{
    struct isod_post e = isod_ring_order(ISOD_RING_SIGNAL, sig, pe);
    e.what |= isod_ring_op_bytes((uint32_t)op, 8);
    e.word0 = value;
    (void)isod_ring_run(team, e, ISOD_RING_POSTED);
}

/* Until `count` tickets of the ring are done. false: given up. */
PRIM_FN bool isod_ring_wait(struct isod_team *team, struct isod_ring *r, uint64_t count, struct isod_waited who)
{
    struct isod_waiting w = {0, 0};
    bool goes_on = true;
    while (goes_on && !isod_ring_is_done(r, count))
        goes_on = isod_wait_pause(team, &w, isod_missed_at(who, r->done, count, prim_load_relaxed_u64(&r->seen)));
    return goes_on;
}

/* Waits until all entries of this block are visible at their targets. By one thread, which has posted them or has
 * synchronised with the threads that did. false: given up, now or before. */
PRIM_FN bool isod_ring_flush(struct isod_team *team, uint32_t call)
{
    struct isod_ring *r = isod_ring_of(team->world);
    bool done = isod_ring_wait(team, r, prim_load_relaxed_u64(&r->head), isod_who(call, -1));
    prim_acquire_from_peer(); /* pairs with the release store of `done` */
    return done && prim_load_relaxed_u64(&team->status) == 0;
}

/* Waits until all entries that this PE's kernels have posted so far are visible at their targets. */
PRIM_COLD_FN void isod_ring_quiet_at(struct isod_team *team)
{
    bool goes_on = prim_load_relaxed_u64(&team->status) != ISOD_STATUS_GAVE_UP;
    for (uint32_t i = 0; i < team->world->n_rings && goes_on; i++) {
        struct isod_ring *r = &team->world->rings[i];
        uint64_t head = prim_load_relaxed_u64(&r->head);
        if (head > prim_peek_u64(&r->seen))
            goes_on = isod_ring_wait(team, r, head, isod_who(ISOD_CALL_QUIET, -1));
    }
    prim_acquire_from_peer();
}
PRIM_FN void isod_ring_quiet(shmemd_t h) { isod_ring_quiet_at(h.team); }

#endif /* SHMEMD_NO_RING */

#endif
