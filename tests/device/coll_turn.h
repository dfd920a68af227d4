/* SPDX-License-Identifier: MIT */
/* A turn: a kernel that makes the source, a collective on the stream, a kernel that looks at the dest, nothing else
 * between them, each PE late in its turn. Before and after a turn every word of both buffers is poison: who writes a
 * dest too early or too late, or reads a source too late, is found out by the kernels in front of and behind the call.
 * Words are uint64; reductions are sums. The number of the turn may lie in device memory, then turns can be in graphs.
 * Rule of shmemx_coll.h that all of this stands on: peers touch dest and source only while the call runs here. */
#ifndef COLL_TURN_H
#define COLL_TURN_H

#include "coll_case.h"

enum { TURN_THREADS = 64, TURN_BLOCKS = 2, TURN_LATE = 200 };
#define TURN_POISON 0xa5a5a5a5a5a5a5a5u /* CHECK_POISON, eight times */
enum turn_phase { TURN_BEFORE_DEST = 1, TURN_BEFORE_SOURCE, TURN_DEST, TURN_SOURCE, TURN_RECEIVED, TURN_SIGNALS };
#define TURN_PHASES \
    "", "dest before the call", "source before the call", "dest", "source after the call", "received", "signals"

struct turn_args {
    uint64_t *dest, *source;
    uint64_t *blocks;          /* alltoallv: bytes, source and dest offsets, received: n each */
    uint64_t *signals, *value; /* fcollect by engines: n_signals words, and what they become */
    uint64_t *wrong;           /* [3] phase, turn, place of the last word that was not what it should be */
    const uint64_t *count;     /* the number of the turn; NULL: `turn` is */
    uint64_t turn;
    uint64_t words, n_signals; /* words of one member's block */
    int32_t kind, me, n, root, from;
    int32_t first, stride; /* member m is PE first + m * stride of the world */
    uint32_t late;         /* 0: never */
    uint32_t salt;
};

/* ---- in kernels ---- */

SHMEMD_FN uint64_t turn_of(struct turn_args a) { return a.count != 0 ? *a.count : a.turn; }

SHMEMD_FN uint64_t turn_word(struct turn_args a, int32_t member, uint64_t turn, uint64_t i)
{
    uint64_t pe = (uint64_t)(a.first + member * a.stride);
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + (turn << 16 ^ pe << 8 ^ a.salt) * 0xd1342543de82ef95u;
    return z ^ z >> 29;
}
/* alltoallv: words from member `from` to member `to` */
SHMEMD_FN uint64_t turn_v_words(struct turn_args a, int32_t from, int32_t to, uint64_t turn)
{
    uint32_t x = form_mix((uint32_t)(from * 64 + to) ^ a.salt, (uint32_t)turn);
    return x % 4 == 0 ? 0 : x / 4 % (a.words + 1);
}
/* Of the host, too. */
#if defined(__CUDACC__) || defined(__HIP__)
#define TURN_FN static __attribute__((host, device, unused))
#else
#define TURN_FN static __attribute__((unused))
#endif
TURN_FN uint64_t turn_dest_words(struct turn_args a)
{
    bool all = a.kind == SHMEMX_FCOLLECT || a.kind == SHMEMX_ALLTOALL || a.kind == SHMEMX_ALLTOALLV;
    return all ? a.words * (uint64_t)a.n : a.words;
}
TURN_FN uint64_t turn_source_words(struct turn_args a)
{
    bool all = a.kind == SHMEMX_REDUCESCATTER || a.kind == SHMEMX_ALLTOALL || a.kind == SHMEMX_ALLTOALLV;
    return all ? a.words * (uint64_t)a.n : a.words;
}

/* What must be in word i of dest. */
SHMEMD_FN uint64_t turn_expected(struct turn_args a, uint64_t turn, uint64_t i)
{
    int32_t member = (int32_t)(i / a.words);
    uint64_t mine = (uint64_t)a.me * a.words, at = i % a.words, sum = 0;
    if (a.kind == SHMEMX_FCOLLECT)
        return turn_word(a, member, turn, at);
    if (a.kind == SHMEMX_ALLTOALL)
        return turn_word(a, member, turn, mine + at);
    if (a.kind == SHMEMX_ALLTOALLV)
        return at < turn_v_words(a, member, a.me, turn) ? turn_word(a, member, turn, mine + at) : TURN_POISON;
    if (a.kind == SHMEMX_BROADCAST)
        return turn_word(a, a.root, turn, i);
    if (a.kind == SHMEMX_PERMUTE)
        return turn_word(a, a.from, turn, i);
    for (int32_t m = 0; m < a.n; m++)
        sum += turn_word(a, m, turn, a.kind == SHMEMX_REDUCESCATTER ? mine + i : i);
    return sum;
}

SHMEMD_FN void turn_dawdle(struct turn_args a, uint64_t turn)
{
    uint32_t x = form_mix(a.late + (uint32_t)shmemd_block_index(), (uint32_t)turn);
    if (a.late != 0 && x % 3 == 0 && shmemd_thread_index() == 0)
        form_dawdle(x / 4 % TURN_LATE);
    shmemd_group_sync(shmemd_block());
}
SHMEMD_FN void turn_tell(struct turn_args a, enum turn_phase phase, uint64_t turn, uint64_t i)
{
    a.wrong[0] = (uint64_t)phase; /* by any thread */
    a.wrong[1] = turn;
    a.wrong[2] = i;
}
SHMEMD_FN bool turn_inside(const uint64_t *p, const uint64_t *begin, uint64_t words)
{
    return p >= begin && p < begin + words;
}
#define TURN_EACH(i, count)                                                                                      \
    for (uint64_t i = (uint64_t)shmemd_block_index() * shmemd_block_size() + shmemd_thread_index(); i < (count); \
         i += (uint64_t)shmemd_block_count() * shmemd_block_size())

/* Each word is one thread's, also in place. */
SHMEMD_KERNEL(turn_make, struct turn_args, a)
{
    uint64_t turn = turn_of(a), dest_words = turn_dest_words(a), source_words = turn_source_words(a);
    turn_dawdle(a, turn * 2);
    TURN_EACH(i, dest_words)
    if (!turn_inside(&a.dest[i], a.source, source_words) && a.dest[i] != TURN_POISON)
        turn_tell(a, TURN_BEFORE_DEST, turn, i);
    TURN_EACH(i, source_words)
    {
        if (a.source[i] != TURN_POISON)
            turn_tell(a, TURN_BEFORE_SOURCE, turn, i);
        a.source[i] = turn_word(a, a.me, turn, i);
    }
    TURN_EACH(m, (uint64_t)(a.kind == SHMEMX_ALLTOALLV ? a.n : 0))
    {
        a.blocks[m] = turn_v_words(a, a.me, (int32_t)m, turn) * 8;
        a.blocks[(uint64_t)a.n + m] = m * a.words * 8;
        a.blocks[2 * (uint64_t)a.n + m] = (uint64_t)a.me * a.words * 8;
    }
    TURN_EACH(one, (uint64_t)(a.n_signals != 0))
    {
        (void)one;
        *a.value = turn + 1;
    }
}

SHMEMD_KERNEL(turn_look, struct turn_args, a)
{
    uint64_t turn = turn_of(a), dest_words = turn_dest_words(a), source_words = turn_source_words(a);
    turn_dawdle(a, turn * 2 + 1);
    TURN_EACH(i, dest_words)
    {
        if (a.dest[i] != turn_expected(a, turn, i))
            turn_tell(a, TURN_DEST, turn, i);
        a.dest[i] = TURN_POISON;
    }
    TURN_EACH(i, source_words)
    if (!turn_inside(&a.source[i], a.dest, dest_words)) {
        if (a.source[i] != turn_word(a, a.me, turn, i))
            turn_tell(a, TURN_SOURCE, turn, i);
        a.source[i] = TURN_POISON;
    }
    TURN_EACH(m, (uint64_t)(a.kind == SHMEMX_ALLTOALLV ? a.n : 0))
    if (a.blocks[3 * (uint64_t)a.n + m] != turn_v_words(a, (int32_t)m, a.me, turn) * 8)
        turn_tell(a, TURN_RECEIVED, turn, m);
    TURN_EACH(w, a.n_signals)
    if (a.signals[w] != turn + 1)
        turn_tell(a, TURN_SIGNALS, turn, w);
}

struct turn_tick_args {
    uint64_t *count;
};
SHMEMD_KERNEL(turn_tick, struct turn_tick_args, a)
{
    if (shmemd_thread_index() == 0)
        *a.count += 1;
}

/* ---- on the host ---- */

/* Buffers of turns that follow one another; several turns of different kinds may take turns on them. */
struct turn_place {
    char *dest[2], *source[2]; /* symmetric, own */
    uint64_t *blocks, *signals, *value, *wrong;
    uint64_t words; /* of dest and of source */
    uint64_t *host;
};
enum { TURN_SIGNAL_WORDS = 256 };

/* One turn in waiting: what it calls, and what its kernels get. */
struct turn {
    shmemx_coll_t q;
    shmemx_blocks_t v;
    struct turn_args a;
};

/* Where dest and source of a turn lie. */
enum turn_where {
    TURN_BOTH,
    TURN_NEITHER,
    TURN_DEST_ONLY,
    TURN_SOURCE_ONLY,
    TURN_IN_PLACE,
    TURN_IN_PLACE_OWN,
    TURN_WHERES
};
#define TURN_WHERE_NAMES \
    "both symmetric", "none symmetric", "dest symmetric", "source symmetric", "in place", "in place, not symmetric"

static inline void turn_fill(struct turn_place *p, void *device, uint64_t words, uint64_t value)
{
    for (uint64_t i = 0; i < words; i++)
        p->host[i] = value;
    device_write(device, p->host, words * 8);
}

/* Own memory of a GPU is written by way of symmetric memory, which was poisoned before. */
static inline void turn_fill_own(struct turn_place *p, char *own, const char *poisoned)
{
    if (device_is_cpu())
        memset(own, CHECK_POISON, p->words * 8);
    else
        shmem_getmem(own, poisoned, p->words * 8, shmem_my_pe());
}

/* Collective. */
static inline void turn_place_make(struct turn_place *p, uint64_t words)
{
    size_t bytes = (words * 8 + 4095) / 4096 * 4096;
    p->words = words;
    p->host = (uint64_t *)malloc((words > 4 * MOST_PES ? words : 4 * MOST_PES) * 8 + TURN_SIGNAL_WORDS * 8);
    p->dest[0] = (char *)shmemx_align(128, bytes, SHMEMX_DEVICE);
    p->source[0] = (char *)shmemx_align(128, bytes, SHMEMX_DEVICE);
    p->dest[1] = (char *)own_malloc(bytes);
    p->source[1] = (char *)own_malloc(bytes);
    p->blocks = (uint64_t *)shmemx_calloc(4 * MOST_PES, 8, SHMEMX_DEVICE);
    p->signals = (uint64_t *)shmemx_calloc(TURN_SIGNAL_WORDS, 8, SHMEMX_DEVICE);
    p->value = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    p->wrong = (uint64_t *)shmemx_calloc(3, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(p->host != NULL && p->dest[0] != NULL && p->source[0] != NULL && p->dest[1] != NULL);
    CHECK_OR_EXIT(p->source[1] != NULL && p->blocks != NULL && p->signals != NULL && p->value != NULL);
    turn_fill(p, p->dest[0], words, TURN_POISON);
    turn_fill(p, p->source[0], words, TURN_POISON);
    turn_fill_own(p, p->dest[1], p->dest[0]);
    turn_fill_own(p, p->source[1], p->source[0]);
}
static inline void turn_place_drop(struct turn_place *p)
{
    shmem_barrier_all();
    shmemx_free(p->wrong);
    shmemx_free(p->value);
    shmemx_free(p->signals);
    shmemx_free(p->blocks);
    own_free(p->source[1]);
    own_free(p->dest[1]);
    shmemx_free(p->source[0]);
    shmemx_free(p->dest[0]);
    free(p->host);
}

static inline bool turn_is_in_place(enum turn_where where) { return where >= TURN_IN_PLACE; }
static inline bool turn_has_where(int kind, enum turn_where where)
{
    if (kind == SHMEMX_ALLTOALLV)
        return where == TURN_BOTH;
    return !turn_is_in_place(where) || (kind != SHMEMX_ALLTOALL && kind != SHMEMX_PERMUTE);
}
static inline bool turn_has_engines(int kind, enum turn_where where)
{
    if (kind < SHMEMX_FCOLLECT || kind == SHMEMX_ALLTOALLV || device_flag("SHMEM_FORCE_PROXY") ||
        getenv("SHMEM_VIRTUAL_NODES") != NULL)
        return false;
    return where == TURN_BOTH || where == TURN_DEST_ONLY || where == TURN_IN_PLACE;
}

/* Sets both addresses. */
static inline void turn_set_where(struct turn *t, struct turn_place *p, enum turn_where where)
{
    int dest = where == TURN_NEITHER || where == TURN_SOURCE_ONLY || where == TURN_IN_PLACE_OWN;
    int source = where == TURN_NEITHER || where == TURN_DEST_ONLY || where == TURN_IN_PLACE_OWN;
    uint64_t inner = (uint64_t)t->a.me * t->a.words;
    t->a.dest = (uint64_t *)(void *)p->dest[dest];
    t->a.source = (uint64_t *)(void *)p->source[source];
    if (!turn_is_in_place(where))
        return;
    if (t->a.kind == SHMEMX_REDUCESCATTER)
        t->a.dest = t->a.source + inner;
    else if (t->a.kind == SHMEMX_FCOLLECT)
        t->a.source = t->a.dest + inner;
    else
        t->a.source = t->a.dest;
}

static inline void turn_set_extras(struct turn *t, struct turn_place *p)
{
    uint64_t n = (uint64_t)t->a.n;
    t->a.blocks = p->blocks;
    t->a.signals = p->signals;
    t->a.value = p->value;
    t->a.wrong = p->wrong;
    t->v.bytes = p->blocks;
    t->v.source_offset = p->blocks + n;
    t->v.dest_offset = p->blocks + 2 * n;
    t->v.received = p->blocks + 3 * n;
}

/* `turn` numbers which: the root and the permutation depend on it. */
static inline void turn_set(struct turn *t, struct turn_place *p, const struct coll_team *team, int kind,
                            enum turn_where where, uint64_t words, unsigned turn)
{
    int by = (int)(turn / 2 % (unsigned)team->n);
    memset(t, 0, sizeof(*t));
    t->a.kind = kind;
    t->a.me = team->me;
    t->a.n = team->n;
    t->a.first = team->world[0];
    t->a.stride = team->n > 1 ? team->world[1] - team->world[0] : 0;
    t->a.words = words;
    t->a.turn = turn;
    t->a.root = (int)(turn % (unsigned)team->n);
    t->a.from = (team->me + team->n - by) % team->n;
    turn_set_where(t, p, where);
    turn_set_extras(t, p);
    t->q = shmemx_coll_of(kind, team->team, t->a.dest, t->a.source, words, SHMEMX_UINT64);
    t->q.same_place = coll_forces_engines();
    t->q.stage_bytes = (size_t)device_number("SHMEM_TEST_STAGE", 0) * (1 + turn % 3); /* it grows */
    t->q.root = t->a.root;
    t->q.from = t->a.from;
    t->q.to = (team->me + by) % team->n;
    t->q.blocks = kind == SHMEMX_ALLTOALLV ? &t->v : NULL;
    if (kind == SHMEMX_ALLTOALLV)
        t->q.type = SHMEMX_UINT8;
}

/* By engines; of fcollect with signals, when they fit. */
static inline void turn_set_engines(struct turn *t, bool signals)
{
    uint64_t chunk = t->a.words / 3 * 8 + 8, each = (t->a.words * 8 + chunk - 1) / chunk;
    t->q.engines = 1;
    if (!signals || t->a.kind != SHMEMX_FCOLLECT || each * (uint64_t)t->a.n > TURN_SIGNAL_WORDS)
        return;
    t->a.n_signals = each * (uint64_t)t->a.n;
    t->q.signals = t->a.signals;
    t->q.signal_value = t->a.value;
    t->q.chunk_bytes = chunk;
}

/* A call that is refused on one PE would leave the others waiting. */
static inline void turn_call(const struct turn *t, shmemx_stream_t stream, const char *what)
{
    if (!CHECK_EQ_NAMED(shmemx_coll_on_stream(&t->q, stream), 0, what))
        shmem_global_exit(CHECK_FAILED);
}
static inline void turn_enqueue(const struct turn *t, shmemx_stream_t stream, const char *what)
{
    DEVICE_LAUNCH(turn_make, TURN_BLOCKS, TURN_THREADS, t->a, stream);
    turn_call(t, stream, what);
    DEVICE_LAUNCH(turn_look, TURN_BLOCKS, TURN_THREADS, t->a, stream);
}

/* After the stream is done: nothing was wrong since the last look. */
static inline bool turn_check(struct turn_place *p, const char *what)
{
    static const char *const phases[] = {TURN_PHASES};
    uint64_t wrong[3], zero[3] = {0, 0, 0};
    char text[400];
    device_read(wrong, p->wrong, sizeof(wrong));
    if (wrong[0] == 0)
        return true;
    snprintf(text, sizeof(text), "%s: %s, turn %llu, word %llu", what, phases[wrong[0] % 7],
             (unsigned long long)wrong[1], (unsigned long long)wrong[2]);
    CHECK_NAMED(false, text);
    device_write(p->wrong, zero, sizeof(zero));
    return false;
}

/* Both symmetric buffers are poison from end to end: nobody wrote behind what was used. */
static inline void turn_check_poison(struct turn_place *p, const char *what)
{
    for (int i = 0; i < 2; i++) {
        device_read(p->host, i == 0 ? p->dest[0] : p->source[0], p->words * 8);
        for (uint64_t k = 0; k < p->words; k++)
            if (!CHECK_EQ_NAMED(p->host[k], TURN_POISON, what))
                return;
    }
}

#endif
