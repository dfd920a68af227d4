/* SPDX-License-Identifier: MIT */
/* traffic [operations [rounds [threads]]]: random puts, gets, atomics and signals from every thread of every PE to
 * random PEs, in random sizes, on several contexts, against a model. Each thread alone writes its lanes and cells at
 * every PE and keeps a copy of what they must hold, so every get and every fetched value has one right answer; fences
 * and quiets are called only where two operations touch the same bytes. After each round the owner of the memory
 * compares too. SHMEM_TEST_SEED repeats a run as far as the PEs do not depend on each other. SHMEM_TEST_FAULT=NAME
 * makes PE 0 do one thing wrong, that the test can be seen to find it (traffic_faults.sh). */
#include "../check.h"

#include <pthread.h>

enum { THREADS_MOST = 4, PES_MOST = 16, ACTORS_MOST = THREADS_MOST * PES_MOST };
enum { CONTEXTS = 3, LANES = 5, GLOBAL_LANE = 3, BIG_LANE = 4, CELLS = 32, TALLIES = 16, PENDING = 64 };
enum { LANE_BYTES = 128 << 10, GLOBAL_BYTES = 16 << 10, BIG_BYTES = 10 << 20, MAIL_BYTES = 64 << 10 };

/* One actor's part of the memory of a PE. */
struct mailbox {
    uint64_t signal, acknowledged;
    uint64_t sums[LANES];
    uint64_t cells[CONTEXTS][CELLS];
    long tally[TALLIES];
    char mail[MAIL_BYTES];
};

struct range {
    int pe;
    size_t offset, len;
};

struct lane {
    int context;
    char *base;                                   /* symmetric, of this actor alone */
    size_t len;                                   /* bytes */
    size_t grain;                                 /* bytes of one stamp */
    char *model;                                  /* what `base` of PE pe holds: model + pe * len */
    uint32_t *put_fence, *put_quiet, *read_quiet; /* epochs of the last put and the last unfinished get of each grain */
};

struct pending { /* an unfinished get */
    struct range range;
    const void *seen;
    const void *expected; /* or NULL: `value` is */
    uint64_t value;
};

struct pool { /* memory of unfinished operations, taken in turn, free again after a quiet */
    char *base;
    size_t len, used;
};

struct context {
    shmem_ctx_t ctx;
    uint32_t fence_epoch, quiet_epoch;
    struct pool symmetric, own;
    struct pending pending[PENDING];
    int npending;
};

struct cell { /* the same stamps for one word of one PE */
    uint64_t value;
    uint32_t set_fence, set_quiet, read_quiet;
};

struct actor {
    int id, thread;
    struct check self;
    struct check_random random;
    struct context contexts[CONTEXTS];
    struct lane lanes[LANES];
    struct cell cells[PES_MOST][CONTEXTS][CELLS];
    long tally[PES_MOST][TALLIES]; /* added so far to the common words of each PE */
    uint64_t sent[PES_MOST], seen[PES_MOST];
    long operations;
};

static struct {
    int threads, rounds, actors;
    long operations;
    pthread_barrier_t meet;
    struct mailbox *boxes;        /* [actor], symmetric */
    long *common;                 /* [TALLIES], symmetric: words that all add to */
    char *lanes[LANES], *scratch; /* [actor], symmetric */
} traffic;
static char traffic_globals[ACTORS_MOST * GLOBAL_BYTES];

static size_t below(struct actor *a, size_t limit) { return check_random_below(&a->random, limit); }
static bool chance(struct actor *a, size_t one_in) { return below(a, one_in) == 0; }

static void complain(const struct actor *a, const char *what, int pe, size_t offset, size_t len)
{
    if (check_failed_at(__FILE__, __LINE__))
        fprintf(stderr, "[pe %d] traffic: thread %d, operation %ld: %s, PE %d, offset %zu, %zu bytes\n", check_self.pe,
                a->thread, a->operations, what, pe, offset, len);
}

/* The bytes are right, or the first and the last wrong one are named. */
static void expect_bytes(const struct actor *a, const char *what, struct range r, const void *seen,
                         const void *expected)
{
    const char *s = (const char *)seen, *e = (const char *)expected;
    size_t first = 0, last = r.len - 1;
    if (memcmp(s, e, r.len) == 0)
        return;
    while (s[first] == e[first])
        first++;
    while (s[last] == e[last])
        last--;
    complain(a, what, r.pe, r.offset, r.len);
    if (check_self.failures < CHECK_MOST_LINES)
        fprintf(stderr,
                "[pe %d] traffic: wrong from byte %zu (%02x, expected %02x) to byte %zu (%02x, expected %02x)\n",
                check_self.pe, first, (unsigned char)s[first], (unsigned char)e[first], last, (unsigned char)s[last],
                (unsigned char)e[last]);
}

/* ---- order ---- */

static void check_pending(struct actor *a, struct context *c)
{
    for (int i = 0; i < c->npending; i++) {
        const struct pending *p = &c->pending[i];
        expect_bytes(a, "a get that quiet completed has other bytes", p->range, p->seen,
                     p->expected != NULL ? p->expected : &p->value);
    }
    c->npending = 0;
}

/* What was unfinished is checked, and its memory overwritten at once. */
static void settle(struct actor *a, int context)
{
    struct context *c = &a->contexts[context];
    shmem_ctx_quiet(c->ctx);
    c->quiet_epoch++;
    c->fence_epoch++;
    check_pending(a, c);
    memset(c->symmetric.base, 0xee, c->symmetric.used);
    memset(c->own.base, 0xdd, c->own.used);
    c->symmetric.used = c->own.used = 0;
}

static void order(struct actor *a, int context)
{
    if (chance(a, 4)) {
        settle(a, context);
        return;
    }
    shmem_ctx_fence(a->contexts[context].ctx);
    a->contexts[context].fence_epoch++;
}

static bool stamped(const struct lane *lane, const uint32_t *stamps, struct range r, uint32_t epoch)
{
    size_t grains = lane->len / lane->grain, first = r.offset / lane->grain,
           last = (r.offset + r.len - 1) / lane->grain;
    for (size_t i = first; i <= last; i++)
        if (stamps[(size_t)r.pe * grains + i] == epoch)
            return true;
    return false;
}

static void stamp(const struct lane *lane, uint32_t *stamps, struct range r, uint32_t epoch)
{
    size_t grains = lane->len / lane->grain, first = r.offset / lane->grain,
           last = (r.offset + r.len - 1) / lane->grain;
    for (size_t i = first; i <= last; i++)
        stamps[(size_t)r.pe * grains + i] = epoch;
}

static void before_put(struct actor *a, struct lane *lane, struct range r)
{
    struct context *c = &a->contexts[lane->context];
    if (stamped(lane, lane->read_quiet, r, c->quiet_epoch))
        settle(a, lane->context);
    if (stamped(lane, lane->put_fence, r, c->fence_epoch))
        order(a, lane->context);
}

/* Apart, because the memory for it is taken between: after what may settle, and settling itself. */
static void stamp_put(struct actor *a, struct lane *lane, struct range r)
{
    struct context *c = &a->contexts[lane->context];
    stamp(lane, lane->put_fence, r, c->fence_epoch);
    stamp(lane, lane->put_quiet, r, c->quiet_epoch);
}

static void before_get(struct actor *a, struct lane *lane, struct range r)
{
    if (stamped(lane, lane->put_quiet, r, a->contexts[lane->context].quiet_epoch))
        settle(a, lane->context);
}

/* Memory for `len` bytes, symmetric or not, at a random alignment. */
static char *take(struct actor *a, int context, size_t len)
{
    struct context *c = &a->contexts[context];
    struct pool *pool = chance(a, 2) ? &c->symmetric : &c->own;
    size_t align = below(a, 8);
    if (pool->used + len + 16 > pool->len || c->npending == PENDING)
        settle(a, context);
    char *p = pool->base + ((pool->used + 7) & ~(size_t)7) + align;
    pool->used = (size_t)(p - pool->base) + len;
    return p;
}

/* ---- puts and gets ---- */

static size_t random_len(struct actor *a, const struct lane *lane)
{
    size_t most = below(a, 100) < 70 ? 64 : below(a, 100) < 80 ? 4096 : lane->len;
    return 1 + below(a, most < lane->len ? most : lane->len);
}

static struct range random_range(struct actor *a, const struct lane *lane, size_t len)
{
    struct range r = {(int)below(a, (size_t)check_self.npes), below(a, lane->len - len + 1), len};
    return r;
}

static char *model_of(const struct lane *lane, struct range r)
{
    return lane->model + (size_t)r.pe * lane->len + r.offset;
}

static void fill(struct actor *a, char *bytes, size_t len)
{
    uint64_t word = check_random_next(&a->random);
    for (size_t i = 0; i < len; i += 8, word += 0x9e3779b97f4a7c15u)
        memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
}

static void do_put(struct actor *a, struct lane *lane)
{
    struct range r = random_range(a, lane, random_len(a, lane));
    shmem_ctx_t ctx = a->contexts[lane->context].ctx;
    bool unfinished = chance(a, 2);
    before_put(a, lane, r);
    char *source = take(a, lane->context, r.len);
    stamp_put(a, lane, r);
    fill(a, source, r.len);
    memcpy(model_of(lane, r), source, r.len);
    if (unfinished) {
        shmem_ctx_putmem_nbi(ctx, lane->base + r.offset, source, r.len, r.pe);
        return;
    }
    shmem_ctx_putmem(ctx, lane->base + r.offset, source, r.len, r.pe);
    memset(source, 0xcc, r.len); /* a put that returned needs its source no more */
}

static void do_get(struct actor *a, struct lane *lane)
{
    struct range r = random_range(a, lane, random_len(a, lane));
    struct context *c = &a->contexts[lane->context];
    before_get(a, lane, r);
    char *dest = take(a, lane->context, r.len);
    memset(dest, 0xbb, r.len);
    if (chance(a, 2)) {
        struct pending p = {.range = r, .seen = dest, .expected = model_of(lane, r)};
        c->pending[c->npending++] = p;
        stamp(lane, lane->read_quiet, r, c->quiet_epoch);
        shmem_ctx_getmem_nbi(c->ctx, dest, lane->base + r.offset, r.len, r.pe);
        return;
    }
    shmem_ctx_getmem(c->ctx, dest, lane->base + r.offset, r.len, r.pe);
    expect_bytes(a, "a get has other bytes", r, dest, model_of(lane, r));
}

static void do_strided(struct actor *a, struct lane *lane)
{
    size_t n = 1 + below(a, 40), far = 1 + below(a, 5), near = 1 + below(a, 3);
    struct range r = random_range(a, lane, ((n - 1) * far + 1) * 4);
    shmem_ctx_t ctx = a->contexts[lane->context].ctx;
    int32_t local[40 * 3], *remote;
    r.offset &= ~(size_t)3;
    remote = (int32_t *)(void *)(lane->base + r.offset);
    if (chance(a, 2)) {
        before_put(a, lane, r);
        stamp_put(a, lane, r);
        check_random_fill(&a->random, local, sizeof(local));
        for (size_t i = 0; i < n; i++)
            memcpy(model_of(lane, r) + 4 * i * far, &local[i * near], 4);
        shmem_ctx_int32_iput(ctx, remote, local, (ptrdiff_t)far, (ptrdiff_t)near, n, r.pe);
        return;
    }
    before_get(a, lane, r);
    shmem_ctx_int32_iget(ctx, local, remote, (ptrdiff_t)near, (ptrdiff_t)far, n, r.pe);
    for (size_t i = 0; i < n; i++)
        if (memcmp(model_of(lane, r) + 4 * i * far, &local[i * near], 4) != 0)
            complain(a, "an element of iget is another", r.pe, r.offset + 4 * i * far, 4);
}

static void do_one_word(struct actor *a, struct lane *lane)
{
    struct range r = random_range(a, lane, 8);
    shmem_ctx_t ctx = a->contexts[lane->context].ctx;
    uint64_t value = check_random_next(&a->random);
    r.offset &= ~(size_t)7;
    uint64_t *remote = (uint64_t *)(void *)(lane->base + r.offset);
    if (chance(a, 2)) {
        before_put(a, lane, r);
        stamp_put(a, lane, r);
        memcpy(model_of(lane, r), &value, 8);
        shmem_ctx_uint64_p(ctx, remote, value, r.pe);
        return;
    }
    before_get(a, lane, r);
    value = shmem_ctx_uint64_g(ctx, remote, r.pe);
    if (memcmp(model_of(lane, r), &value, 8) != 0)
        complain(a, "g has another value", r.pe, r.offset, 8);
}

/* ---- atomics ---- */

static void expect_value(struct actor *a, uint64_t seen, uint64_t expected, const char *what, int pe)
{
    if (seen != expected)
        complain(a, what, pe, 0, 8);
}

/* One cell holds a 64-bit word, the next one a 32-bit word, the third a double; `old` is what the model says. */
static uint64_t change_64(struct actor *a, shmem_ctx_t ctx, uint64_t *word, uint64_t old, int pe)
{
    uint64_t v = check_random_next(&a->random);
    switch (below(a, 8)) {
    case 0:
        shmem_ctx_uint64_atomic_add(ctx, word, v, pe);
        return old + v;
    case 1:
        shmem_ctx_uint64_atomic_xor(ctx, word, v, pe);
        return old ^ v;
    case 2:
        shmem_ctx_uint64_atomic_set(ctx, word, v, pe);
        return v;
    case 3:
        shmem_ctx_uint64_atomic_inc(ctx, word, pe);
        return old + 1;
    case 4:
        expect_value(a, shmem_ctx_uint64_atomic_fetch_add(ctx, word, v, pe), old, "fetch_add has another value", pe);
        return old + v;
    case 5:
        expect_value(a, shmem_ctx_uint64_atomic_swap(ctx, word, v, pe), old, "swap has another value", pe);
        return v;
    case 6:
        expect_value(a, shmem_ctx_uint64_atomic_compare_swap(ctx, word, old, v, pe), old, "compare_swap missed", pe);
        return v;
    default:
        expect_value(a, shmem_ctx_uint64_atomic_compare_swap(ctx, word, old + 1, v, pe), old, "compare_swap hit", pe);
        return old;
    }
}

static uint64_t change_32(struct actor *a, shmem_ctx_t ctx, uint64_t *cell, uint64_t old, int pe)
{
    uint32_t *word = (uint32_t *)(void *)cell, v = (uint32_t)check_random_next(&a->random), was = (uint32_t)old;
    switch (below(a, 4)) {
    case 0:
        shmem_ctx_uint32_atomic_add(ctx, word, v, pe);
        return was + v;
    case 1:
        shmem_ctx_uint32_atomic_or(ctx, word, v, pe);
        return was | v;
    case 2:
        expect_value(a, shmem_ctx_uint32_atomic_fetch_and(ctx, word, v, pe), was, "fetch_and has another value", pe);
        return was & v;
    default:
        expect_value(a, shmem_ctx_uint32_atomic_fetch_inc(ctx, word, pe), was, "fetch_inc has another value", pe);
        return (uint32_t)(was + 1);
    }
}

static uint64_t change_double(struct actor *a, shmem_ctx_t ctx, uint64_t *cell, uint64_t old, int pe)
{
    double *word = (double *)(void *)cell, v = (double)below(a, 1 << 30) / 7, was, seen;
    uint64_t bits;
    memcpy(&was, &old, 8);
    memcpy(&bits, &v, 8);
    if (chance(a, 2)) {
        shmem_ctx_double_atomic_set(ctx, word, v, pe);
        return bits;
    }
    seen = shmem_ctx_double_atomic_swap(ctx, word, v, pe);
    if (seen < was || seen > was)
        complain(a, "swap of a double has another value", pe, 0, 8);
    return bits;
}

static void fetch_later(struct actor *a, int context, struct cell *cell, uint64_t *word, int pe)
{
    struct context *c = &a->contexts[context];
    uint64_t *dest = (uint64_t *)(void *)(((uintptr_t)take(a, context, 16) + 7) & ~(uintptr_t)7);
    struct pending p = {.range = {pe, 0, 8}, .seen = dest, .value = cell->value};
    c->pending[c->npending++] = p;
    cell->read_quiet = c->quiet_epoch;
    shmem_ctx_uint64_atomic_fetch_nbi(c->ctx, dest, word, pe);
}

static void do_cell(struct actor *a)
{
    int context = (int)below(a, CONTEXTS), pe = (int)below(a, (size_t)check_self.npes), i = (int)below(a, CELLS);
    struct context *c = &a->contexts[context];
    struct cell *cell = &a->cells[pe][context][i];
    uint64_t *word = &traffic.boxes[a->id].cells[context][i];
    if (cell->read_quiet == c->quiet_epoch)
        settle(a, context);
    if (cell->set_fence == c->fence_epoch)
        order(a, context);
    if (i % 3 == 0 && chance(a, 4)) {
        if (cell->set_quiet == c->quiet_epoch) /* what is not fetched at once may come before what is not quiet */
            settle(a, context);
        fetch_later(a, context, cell, word, pe);
        return;
    }
    cell->set_fence = c->fence_epoch;
    cell->set_quiet = c->quiet_epoch;
    if (i % 3 == 0)
        cell->value = change_64(a, c->ctx, word, cell->value, pe);
    else if (i % 3 == 1)
        cell->value = change_32(a, c->ctx, word, cell->value, pe);
    else
        cell->value = change_double(a, c->ctx, word, cell->value, pe);
}

/* Words that everybody adds to: their sums are right after the round. */
static void do_common(struct actor *a)
{
    int pe = (int)below(a, (size_t)check_self.npes), i = (int)below(a, TALLIES);
    shmem_ctx_t ctx = a->contexts[below(a, CONTEXTS)].ctx;
    long v = (long)below(a, 1000);
    switch (below(a, 3)) {
    case 0:
        shmem_ctx_long_atomic_add(ctx, &traffic.common[i], v, pe);
        break;
    case 1:
        (void)shmem_ctx_long_atomic_fetch_add(ctx, &traffic.common[i], v, pe);
        break;
    default:
        v = 1;
        shmem_ctx_long_atomic_inc(ctx, &traffic.common[i], pe);
    }
    a->tally[pe][i] += v;
}

/* ---- signals: one message under way from each actor to the same thread of each PE ---- */

static void send_mail(struct actor *a, int pe)
{
    int context = (int)below(a, CONTEXTS);
    shmem_ctx_t ctx = a->contexts[context].ctx;
    struct mailbox *box = &traffic.boxes[a->id]; /* mine at the receiver */
    uint64_t number = ++a->sent[pe];
    size_t len = 16 + below(a, chance(a, 8) ? MAIL_BYTES - 16 : 500);
    char *source = take(a, context, len);
    memcpy(source, &number, 8);
    memcpy(source + 8, &len, 8);
    check_fill(source + 16, len - 16, a->id, pe, (unsigned)number);
    bool add = chance(a, 2);
    uint64_t value = add ? 1 : number;
    if (chance(a, 2)) {
        shmem_ctx_putmem_signal_nbi(ctx, box->mail, source, len, &box->signal, value,
                                    add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET, pe);
        return;
    }
    shmem_ctx_putmem_signal(ctx, box->mail, source, len, &box->signal, value, add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET,
                            pe);
    memset(source, 0xaa, len);
}

static void receive_mail(struct actor *a, int pe)
{
    int sender = pe * traffic.threads + a->thread;
    struct mailbox *box = &traffic.boxes[sender];
    uint64_t signal = shmem_signal_fetch(&box->signal), number;
    size_t len;
    if (signal == a->seen[pe])
        return;
    a->seen[pe]++;
    memcpy(&number, box->mail, 8);
    memcpy(&len, box->mail + 8, 8);
    if (signal != a->seen[pe] || number != signal || len < 16 || len > MAIL_BYTES ||
        !check_filled(box->mail + 16, len - 16, sender, check_self.pe, (unsigned)number))
        complain(a, "the signal is here and its message is not", pe, (size_t)signal, (size_t)number);
    /* My word at the sender: indexed by me. */
    struct mailbox *there = &traffic.boxes[a->id];
    if (chance(a, 2))
        shmem_uint64_p(&there->acknowledged, a->seen[pe], pe);
    else
        shmem_uint64_atomic_set(&there->acknowledged, a->seen[pe], pe);
}

static void do_mail(struct actor *a)
{
    int pe = (int)below(a, (size_t)check_self.npes), receiver = pe * traffic.threads + a->thread;
    receive_mail(a, (int)below(a, (size_t)check_self.npes));
    if (shmem_uint64_test(&traffic.boxes[receiver].acknowledged, SHMEM_CMP_EQ, a->sent[pe]))
        send_mail(a, pe);
}

/* ---- a round ---- */

static void do_one(struct actor *a)
{
    size_t kind = below(a, 100);
    struct lane *lane = &a->lanes[chance(a, 1000) ? BIG_LANE : below(a, BIG_LANE)];
    a->operations++;
    if (kind < 25)
        do_put(a, lane);
    else if (kind < 45)
        do_get(a, lane);
    else if (kind < 55)
        do_strided(a, lane);
    else if (kind < 65)
        do_one_word(a, lane);
    else if (kind < 80)
        do_cell(a);
    else if (kind < 85)
        do_common(a);
    else if (kind < 99)
        do_mail(a);
    else
        settle(a, (int)below(a, CONTEXTS));
}

static uint64_t sum_of(const char *bytes, size_t len)
{
    uint64_t sum = 0xcbf29ce484222325u, word;
    for (size_t i = 0; i < len; i += 8) {
        memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

static bool lane_is_summed(int lane, int round) { return lane != BIG_LANE || round == traffic.rounds - 1; }

/* The writer reads its lanes back. */
static void read_back(struct actor *a)
{
    for (int pe = 0; pe < check_self.npes; pe++)
        for (int i = 0; i < BIG_LANE; i++) {
            struct lane *lane = &a->lanes[i];
            struct range r = {pe, 0, lane->len};
            char *dest = take(a, lane->context, r.len);
            shmem_getmem(dest, lane->base, r.len, pe);
            expect_bytes(a, "a lane read back has other bytes", r, dest, model_of(lane, r));
        }
}

/* The writer tells the sums of what must be there, the owner of the memory makes its own. */
static void tell_sums(struct actor *a, int round)
{
    for (int pe = 0; pe < check_self.npes; pe++) {
        struct mailbox *box = &traffic.boxes[a->id];
        for (int i = 0; i < LANES; i++)
            if (lane_is_summed(i, round))
                shmem_uint64_p(&box->sums[i], sum_of(a->lanes[i].model + (size_t)pe * a->lanes[i].len, a->lanes[i].len),
                               pe);
        shmem_long_put(box->tally, a->tally[pe], TALLIES, pe);
    }
    shmem_quiet();
}

static void check_sums(struct actor *a, int round)
{
    for (int writer = a->thread; writer < traffic.actors; writer += traffic.threads)
        for (int i = 0; i < LANES; i++)
            if (lane_is_summed(i, round) && sum_of(traffic.lanes[i] + (size_t)writer * a->lanes[i].len,
                                                   a->lanes[i].len) != traffic.boxes[writer].sums[i])
                complain(a, "memory here is not what its writer wrote: PE = writer, offset = lane", writer, (size_t)i,
                         0);
}

static void check_common(struct actor *a)
{
    for (int i = 0; i < TALLIES; i++) {
        long sum = 0;
        for (int writer = 0; writer < traffic.actors; writer++)
            sum += traffic.boxes[writer].tally[i];
        if (sum != traffic.common[i])
            complain(a, "a common word is not the sum of what was added: offset = word", check_self.pe, (size_t)i, 8);
    }
}

/* ---- faults on purpose: what a library could get wrong, done once, at the end of the first round ---- */

static struct range far_range(size_t offset, size_t len) { return (struct range){check_self.npes - 1, offset, len}; }

/* The model differs from the memory while it is read, at once or later. */
static void fault_get(struct actor *a, bool later)
{
    struct lane *lane = &a->lanes[0];
    struct range r = far_range(4096, 64);
    char dest[64];
    model_of(lane, r)[40] ^= 1;
    if (later) {
        struct pending p = {.range = r, .seen = dest, .expected = model_of(lane, r)};
        a->contexts[0].pending[a->contexts[0].npending++] = p;
        shmem_getmem_nbi(dest, lane->base + r.offset, r.len, r.pe);
        settle(a, 0);
    } else {
        shmem_getmem(dest, lane->base + r.offset, r.len, r.pe);
        expect_bytes(a, "a get has other bytes", r, dest, model_of(lane, r));
    }
    model_of(lane, r)[40] ^= 1;
}

/* A put that never comes, or one to the wrong place. */
static void fault_put(struct actor *a, bool lost)
{
    struct lane *lane = &a->lanes[2];
    struct range r = far_range(lane->len - 8, 8);
    uint64_t value;
    memcpy(&value, model_of(lane, r), 8);
    value++;
    if (lost)
        memcpy(model_of(lane, r), &value, 8);
    else
        shmem_putmem(lane->base + r.offset, &value, 8, r.pe);
}

/* An atomic that is done twice, or a fetched value of another one. */
static void fault_atomic(struct actor *a, bool twice)
{
    int pe = check_self.npes - 1;
    if (twice) {
        shmem_long_atomic_add(&traffic.common[0], 1, pe);
        return;
    }
    uint64_t *word = &traffic.boxes[a->id].cells[0][0], old = a->cells[pe][0][0].value;
    expect_value(a, shmem_uint64_atomic_fetch_add(word, 1, pe) + 1, old, "fetch_add has another value", pe);
    shmem_uint64_atomic_add(word, (uint64_t)-1, pe);
    shmem_quiet();
}

/* A signal whose message is not there. */
static void fault_signal(struct actor *a)
{
    int pe = check_self.npes - 1;
    shmem_uint64_atomic_set(&traffic.boxes[a->id].signal, ++a->sent[pe], pe);
}

static void do_fault(struct actor *a)
{
    const char *name = getenv("SHMEM_TEST_FAULT");
    if (name == NULL || a->id != 0)
        return;
    for (int i = 0; i < CONTEXTS; i++)
        settle(a, i);
    if (strcmp(name, "get") == 0 || strcmp(name, "get_nbi") == 0)
        fault_get(a, name[3] != '\0');
    else if (strcmp(name, "lost") == 0 || strcmp(name, "stray") == 0)
        fault_put(a, name[0] == 'l');
    else if (strcmp(name, "twice") == 0 || strcmp(name, "fetched") == 0)
        fault_atomic(a, name[0] == 't');
    else if (strcmp(name, "signal") == 0)
        fault_signal(a);
    else
        complain(a, "SHMEM_TEST_FAULT knows get, get_nbi, lost, stray, twice, fetched, signal", 0, 0, 0);
}

static void meet(const struct actor *a)
{
    pthread_barrier_wait(&traffic.meet);
    if (a->thread == 0)
        shmem_barrier_all();
    pthread_barrier_wait(&traffic.meet);
}

static void open_contexts(struct actor *a)
{
    static const long options[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE};
    for (int i = 1; i < CONTEXTS; i++)
        if (shmem_ctx_create(traffic.threads > 1 ? SHMEM_CTX_PRIVATE : options[below(a, 3)], &a->contexts[i].ctx) != 0)
            a->contexts[i].ctx = SHMEM_CTX_DEFAULT;
}

/* What reads back may settle, too: over the default context. */
static void close_contexts(struct actor *a)
{
    for (int i = 1; i < CONTEXTS; i++) {
        if (a->contexts[i].ctx != SHMEM_CTX_DEFAULT)
            shmem_ctx_destroy(a->contexts[i].ctx);
        a->contexts[i].ctx = SHMEM_CTX_DEFAULT;
    }
}

static void do_round(struct actor *a, int round)
{
    open_contexts(a);
    for (long i = 0; i < traffic.operations / traffic.rounds; i++)
        do_one(a);
    if (round == 0)
        do_fault(a);
    for (int i = 0; i < CONTEXTS; i++)
        settle(a, i);
    close_contexts(a);
    read_back(a);
    tell_sums(a, round);
    meet(a);
    for (int pe = 0; pe < check_self.npes; pe++)
        receive_mail(a, pe);
    check_sums(a, round);
    if (a->thread == 0)
        check_common(a);
    meet(a);
}

/* ---- start ---- */

static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n, size);
    CHECK_OR_EXIT(p != NULL);
    return p;
}

static void set_up_lane(struct actor *a, int i)
{
    static const size_t lens[LANES] = {LANE_BYTES, LANE_BYTES, LANE_BYTES, GLOBAL_BYTES, BIG_BYTES};
    static const int contexts[LANES] = {0, 1, 2, 0, 1};
    struct lane *lane = &a->lanes[i];
    lane->context = contexts[i];
    lane->len = lens[i];
    lane->grain = i == BIG_LANE ? 4096 : 64;
    lane->base = traffic.lanes[i] + (size_t)a->id * lane->len;
    lane->model = (char *)zeros((size_t)check_self.npes, lane->len);
    size_t stamps = (size_t)check_self.npes * (lane->len / lane->grain);
    lane->put_fence = (uint32_t *)zeros(stamps, 4);
    lane->put_quiet = (uint32_t *)zeros(stamps, 4);
    lane->read_quiet = (uint32_t *)zeros(stamps, 4);
}

static size_t pool_bytes(int context) { return context == 1 ? BIG_BYTES + (1 << 20) : 1 << 20; }

static struct actor *new_actor(int thread)
{
    struct actor *a = (struct actor *)zeros(1, sizeof(*a));
    a->thread = thread;
    a->self = check_self;
    a->id = check_self.pe * traffic.threads + thread;
    a->random = check_random_stream(1000 + (uint64_t)a->id);
    char *scratch = traffic.scratch + (size_t)thread * (pool_bytes(0) + pool_bytes(1) + pool_bytes(2));
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *c = &a->contexts[i];
        c->ctx = SHMEM_CTX_DEFAULT;
        c->fence_epoch = c->quiet_epoch = 1;
        c->symmetric.base = scratch;
        c->own.base = (char *)zeros(1, pool_bytes(i));
        c->symmetric.len = c->own.len = pool_bytes(i);
        scratch += pool_bytes(i);
    }
    for (int i = 0; i < LANES; i++)
        set_up_lane(a, i);
    return a;
}

static void *thread_main(void *argument)
{
    struct actor *a = (struct actor *)argument;
    check_self = a->self; /* which is each thread's own */
    for (int round = 0; round < traffic.rounds; round++)
        do_round(a, round);
    a->self = check_self;
    return NULL;
}

static void *symmetric_zeros(size_t len)
{
    void *p = shmem_calloc(len, 1);
    CHECK_OR_EXIT(p != NULL);
    return p;
}

static void set_up(void)
{
    size_t actors = (size_t)traffic.actors;
    traffic.boxes = (struct mailbox *)symmetric_zeros(actors * sizeof(*traffic.boxes));
    traffic.common = (long *)symmetric_zeros(TALLIES * sizeof(*traffic.common));
    for (int i = 0; i < GLOBAL_LANE; i++)
        traffic.lanes[i] = (char *)symmetric_zeros(actors * LANE_BYTES);
    traffic.lanes[GLOBAL_LANE] = traffic_globals;
    traffic.lanes[BIG_LANE] = (char *)symmetric_zeros(actors * BIG_BYTES);
    traffic.scratch =
        (char *)symmetric_zeros((size_t)traffic.threads * (pool_bytes(0) + pool_bytes(1) + pool_bytes(2)));
    pthread_barrier_init(&traffic.meet, NULL, (unsigned)traffic.threads);
}

static void run(void)
{
    pthread_t threads[THREADS_MOST];
    struct actor *actors[THREADS_MOST];
    for (int t = 0; t < traffic.threads; t++)
        actors[t] = new_actor(t);
    for (int t = 1; t < traffic.threads; t++)
        CHECK_OR_EXIT(pthread_create(&threads[t], NULL, thread_main, actors[t]) == 0);
    (void)thread_main(actors[0]);
    for (int t = 1; t < traffic.threads; t++) {
        pthread_join(threads[t], NULL);
        check_self.failures += actors[t]->self.failures;
    }
}

int main(int argc, char **argv)
{
    int provided = SHMEM_THREAD_SINGLE;
    traffic.operations = argc > 1 ? atol(argv[1]) : 10000;
    traffic.rounds = argc > 2 ? atoi(argv[2]) : 4;
    traffic.threads = argc > 3 ? atoi(argv[3]) : 1;
    if (traffic.rounds < 1 || traffic.threads < 1 || traffic.threads > THREADS_MOST) {
        fprintf(stderr, "usage: traffic [operations [rounds [threads, 1..%d]]]\n", THREADS_MOST);
        return CHECK_FAILED;
    }
    if (shmem_init_thread(traffic.threads > 1 ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SINGLE, &provided) != 0)
        return CHECK_FAILED;
    check_started();
    if (traffic.threads > 1 && provided != SHMEM_THREAD_MULTIPLE)
        return CHECK_SKIP("no SHMEM_THREAD_MULTIPLE");
    CHECK_OR_EXIT(check_self.npes <= PES_MOST);
    traffic.actors = check_self.npes * traffic.threads;
    set_up();
    run();
    if (check_self.pe == 0)
        printf("%ld operations by each of %d threads of %d PEs\n", traffic.operations, traffic.threads,
               check_self.npes);
    return CHECK_DONE();
}
