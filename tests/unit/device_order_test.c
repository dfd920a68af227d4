/* SPDX-License-Identifier: MIT */
/* The in-kernel API on the CPU device: what is ordered (by put_signal, fence, quiet, packets) is seen by who waits, in
 * every type and group form; arrays of flags, sets against the obvious, counters that all change, slices, conversions,
 * and giving up. */
#include "device_machine.h"

/* ---- talk: what is ordered is seen ---- */

enum { TALK_BYTES = 300, TALK_ROUNDS = 12 };
enum method { BY_PUT_SIGNAL, BY_FENCE, BY_QUIET, BY_PE_QUIET, BY_ATOMIC, BY_PACKET, METHODS };

struct scratch { /* at the begin of each PE's memory */
    uint64_t signal, ack;
    uint64_t words[2]; /* of any of the types, never of two in one run */
    unsigned char data[TALK_BYTES + 20];
    _Alignas(16) char area[2][(2 * TALK_BYTES + 15) / 16 * 16];
    uint64_t flags[2 * PES];
    uint32_t fresh[2][PES];
    uint64_t counters[4];
};

struct talk {
    shmemd_t h;
    enum method method;
    enum prim_group_kind kind;
    int type;
    size_t bytes;
    unsigned char *source, *got; /* TALK_BYTES, this PE's own */
    uint64_t *errors;
};

static struct scratch *scratch_of(shmemd_t h) { return (struct scratch *)(void *)h.heap; }

/* Everything that one type has to do with waiting: flag the right neighbour, wait for the left one. */
#define TALKER(NAME, TYPE, ...)                                                                                     \
    static void flag_##NAME(shmemd_t h, void *word, uint64_t round, int pe)                                         \
    {                                                                                                               \
        if (round % 3 == 0)                                                                                         \
            shmemd_##NAME##_p(h, (TYPE *)word, (TYPE)round, pe);                                                    \
        else if (round % 3 == 1)                                                                                    \
            shmemd_##NAME##_atomic_set(h, (TYPE *)word, (TYPE)round, pe);                                           \
        else                                                                                                        \
            shmemd_##NAME##_atomic_inc(h, (TYPE *)word, pe);                                                        \
    }                                                                                                               \
    static void await_##NAME(shmemd_t h, shmemd_group_t g, const void *word, uint64_t round)                        \
    {                                                                                                               \
        const TYPE *at = (const TYPE *)word, now = (TYPE)round;                                                     \
        if (g.kind == PRIM_THREAD)                                                                                  \
            shmemd_##NAME##_wait_until(h, at, SHMEM_CMP_EQ, now);                                                   \
        else if (g.kind == PRIM_WAVE)                                                                               \
            shmemd_##NAME##_wait_until_wave(h, at, SHMEM_CMP_NE, (TYPE)(now - 1));                                  \
        else if (round % 2 == 0)                                                                                    \
            shmemd_##NAME##_wait_until_block(h, at, SHMEM_CMP_GT, (TYPE)(now - 1));                                 \
        else                                                                                                        \
            shmemd_##NAME##_wait_until_group(h, g, at, SHMEM_CMP_GE, now);                                          \
        while (!shmemd_##NAME##_test(h, at, SHMEM_CMP_GE, now)) /* holds by now */                                  \
            ;                                                                                                       \
    }                                                                                                               \
    static void gather_##NAME(shmemd_t h, void *flags, uint64_t round)                                              \
    {                                                                                                               \
        TYPE *at = (TYPE *)flags, now = (TYPE)round, each[PES];                                                     \
        int done[PES] = {0};                                                                                        \
        size_t some[PES], left = PES, n;                                                                            \
        for (int i = 0; i < PES; i++)                                                                               \
            each[i] = now;                                                                                          \
        if (round % 4 == 0)                                                                                         \
            shmemd_##NAME##_wait_until_all(h, at, PES, NULL, SHMEM_CMP_GE, now);                                    \
        else if (round % 4 == 1)                                                                                    \
            shmemd_##NAME##_wait_until_all_vector(h, at, PES, NULL, SHMEM_CMP_GE, each);                            \
        for (; round % 4 == 2 && left > 0; left--)                                                                  \
            done[left % 2 == 0 ? shmemd_##NAME##_wait_until_any(h, at, PES, done, SHMEM_CMP_GE, now)                \
                               : shmemd_##NAME##_wait_until_any_vector(h, at, PES, done, SHMEM_CMP_GE, each)] = 1;  \
        for (; round % 4 == 3 && left > 0; left -= n) {                                                             \
            n = left % 2 == 0 ? shmemd_##NAME##_wait_until_some(h, at, PES, some, done, SHMEM_CMP_GE, now)          \
                              : shmemd_##NAME##_wait_until_some_vector(h, at, PES, some, done, SHMEM_CMP_GE, each); \
            for (size_t i = 0; i < n; i++)                                                                          \
                done[some[i]] = 1;                                                                                  \
        }                                                                                                           \
    }                                                                                                               \
    static void set_flag_##NAME(shmemd_t h, void *flags, uint64_t round, int pe)                                    \
    {                                                                                                               \
        shmemd_##NAME##_p(h, (TYPE *)flags + h.my_pe, (TYPE)round, pe);                                             \
    }
SHMEM_STD_TYPES(TALKER, )

struct talker {
    void (*flag)(shmemd_t h, void *word, uint64_t round, int pe);
    void (*await)(shmemd_t h, shmemd_group_t g, const void *word, uint64_t round);
    void (*gather)(shmemd_t h, void *flags, uint64_t round);
    void (*set_flag)(shmemd_t h, void *flags, uint64_t round, int pe);
};
static const struct talker talkers[] = {
#define ROW(NAME, TYPE, ...) {flag_##NAME, await_##NAME, gather_##NAME, set_flag_##NAME},
    SHMEM_STD_TYPES(ROW, )
#undef ROW
};
enum { TALKERS = (int)(sizeof(talkers) / sizeof(talkers[0])) };

static void send(const struct talk *t, shmemd_group_t g, uint64_t round, int to)
{
    struct scratch *b = scratch_of(t->h);
    shmemd_t h = t->h;
    if (t->method == BY_PUT_SIGNAL) {
        shmemd_putmem_signal_group(h, g, b->data, t->source, t->bytes, &b->signal, round % 2 == 0 ? round : 1,
                                   round % 2 == 0 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD, to);
        return;
    }
    if (t->method == BY_PACKET) {
        shmemd_put_packet_group(h, g, b->area[round % 2], t->source, t->bytes, (uint32_t)round, to);
        return;
    }
    shmemd_putmem_nbi_group(h, g, b->data, t->source, t->bytes, to);
    if (t->method == BY_FENCE || t->method == BY_ATOMIC)
        shmemd_fence_group(h, g);
    else if (t->method == BY_QUIET)
        shmemd_quiet_group(h, g);
    else
        shmemd_pe_quiet_group(h, g, &to, 1);
    if (shmemd_group_rank(g) != shmemd_group_size(g) - 1)
        return;
    if (t->method == BY_ATOMIC)
        talkers[t->type].flag(h, b->words, round, to);
    else
        shmemd_signal_op(h, &b->signal, 1, SHMEM_SIGNAL_ADD, to);
}

/* Where the data is. */
static const unsigned char *receive(const struct talk *t, shmemd_group_t g, uint64_t round)
{
    struct scratch *b = scratch_of(t->h);
    uint64_t seen = round;
    if (t->method == BY_PACKET) {
        if (shmemd_get_packet_group(t->h, g, t->got, b->area[round % 2], t->bytes, (uint32_t)round) != 0)
            prim_fetch_add_u64(t->errors, 1);
        return t->got;
    }
    if (t->method == BY_ATOMIC)
        talkers[t->type].await(t->h, g, b->words, round);
    else
        seen = shmemd_signal_wait_until_group(t->h, g, &b->signal, round % 2 ? SHMEM_CMP_EQ : SHMEM_CMP_GE, round);
    if (seen != round || (t->method != BY_ATOMIC && shmemd_signal_fetch(t->h, &b->signal) != round))
        prim_fetch_add_u64(t->errors, 1);
    return b->data;
}

SHMEMD_KERNEL(run_talk, struct talk, t)
{
    shmemd_group_t g = prim_group_of(t.kind);
    int right = (shmemd_my_pe(t.h) + 1) % PES, left = (shmemd_my_pe(t.h) + PES - 1) % PES;
    struct scratch *b = scratch_of(t.h);
    if (shmemd_block_index() != 0 || shmemd_thread_index() != prim_rank(g))
        return;
    for (uint64_t round = 1; round <= TALK_ROUNDS; round++) {
        for (size_t i = shmemd_group_rank(g); i < t.bytes; i += shmemd_group_size(g))
            t.source[i] = check_byte(shmemd_my_pe(t.h), right, (unsigned)round, i);
        shmemd_group_sync(g);
        send(&t, g, round, right);
        const unsigned char *data = receive(&t, g, round);
        for (size_t i = 0; i < t.bytes; i++)
            if (data[i] != check_byte(left, shmemd_my_pe(t.h), (unsigned)round, i))
                prim_fetch_add_u64(t.errors, 1);
        shmemd_group_sync(g); /* all have read */
        if (shmemd_group_rank(g) == 0)
            shmemd_signal_op(t.h, &b->ack, round, SHMEM_SIGNAL_SET, left);
        shmemd_signal_wait_until_group(t.h, g, &b->ack, SHMEM_CMP_GE, round);
    }
}

static void test_talk(enum method method, int type, struct check_random *random)
{
    static unsigned char bytes[PES][2][TALK_BYTES];
    static uint64_t errors[PES];
    struct talk args[PES];
    enum prim_group_kind kind = (enum prim_group_kind)check_random_below(random, 3);
    size_t len = check_random_below(random, TALK_BYTES + 1);
    machine_lay_out((int)check_random_below(random, PES), check_random_below(random, 2) == 0);
    memset(machine.memory, 0, (size_t)PES * MEMORY);
    for (int pe = 0; pe < PES; pe++) {
        args[pe].h = machine.handle[pe];
        args[pe].method = method;
        args[pe].kind = kind;
        args[pe].type = type;
        args[pe].bytes = len;
        args[pe].source = bytes[pe][0];
        args[pe].got = bytes[pe][1];
        args[pe].errors = &errors[pe];
        errors[pe] = 0;
    }
    run_all(run_talk, args, sizeof(args[0]), random);
    for (int pe = 0; pe < PES; pe++) {
        char what[80];
        snprintf(what, sizeof(what), "method %d, kind %d, type %d, %zu bytes: errors", (int)method, (int)kind, type,
                 len);
        CHECK_EQ_NAMED(errors[pe], 0, what);
    }
}

/* ---- all to all by arrays of flags, and counters that all change ---- */

SHMEMD_KERNEL(run_gather, struct talk, t)
{
    struct scratch *b = scratch_of(t.h);
    shmemd_uint64_atomic_inc(t.h, &b->counters[0], 0);
    uint64_t ticket = shmemd_uint64_atomic_fetch_add(t.h, &b->counters[1], 1, 0);
    shmemd_uint64_atomic_add(t.h, &b->counters[2], ticket, 0);
    shmemd_uint32_atomic_xor(t.h, (uint32_t *)(void *)&b->counters[3], 1u << ticket % 32, 0);
    if (shmemd_block_index() != 0 || shmemd_thread_index() != 0)
        return;
    for (uint64_t round = 1; round <= TALK_ROUNDS; round++) {
        for (int pe = 0; pe < PES; pe++) {
            shmemd_uint32_p(t.h, &b->fresh[round % 2][shmemd_my_pe(t.h)], (uint32_t)round + 7u, pe);
            shmemd_fence(t.h);
            talkers[t.type].set_flag(t.h, b->flags, round, pe);
        }
        talkers[t.type].gather(t.h, b->flags, round);
        for (int pe = 0; pe < PES; pe++)
            if (b->fresh[round % 2][pe] != round + 7)
                prim_fetch_add_u64(t.errors, 1);
    }
}

static void test_gather(int type, struct check_random *random)
{
    static uint64_t errors[PES];
    struct talk args[PES];
    machine_lay_out((int)check_random_below(random, PES), check_random_below(random, 2) == 0);
    memset(machine.memory, 0, (size_t)PES * MEMORY);
    memset(args, 0, sizeof(args));
    for (int pe = 0; pe < PES; pe++) {
        args[pe].h = machine.handle[pe];
        args[pe].type = type;
        args[pe].errors = &errors[pe];
        errors[pe] = 0;
    }
    run_all(run_gather, args, sizeof(args[0]), random);
    const struct scratch *b = (const struct scratch *)(const void *)memory_of(machine.world_of[0]);
    uint64_t n = b->counters[0];
    uint32_t bits = n % 64 < 32 ? (1u << n % 32) - 1u : ~((1u << n % 32) - 1u);
    CHECK(n % (PES * BLOCKS) == 0 && n > 0);
    CHECK_EQ(b->counters[1], n);
    CHECK_EQ(b->counters[2], n * (n - 1) / 2);
    CHECK_EQ((uint32_t)b->counters[3], bits);
    for (int pe = 0; pe < PES; pe++)
        CHECK_EQ(errors[pe], 0);
}

/* ---- tests of sets against the obvious ---- */

enum { SET_MOST = 20 };

static bool obvious(int cmp, int sign)
{
    return cmp == SHMEM_CMP_EQ   ? sign == 0
           : cmp == SHMEM_CMP_NE ? sign != 0
           : cmp == SHMEM_CMP_LT ? sign < 0
           : cmp == SHMEM_CMP_LE ? sign <= 0
           : cmp == SHMEM_CMP_GT ? sign > 0
                                 : sign >= 0;
}

struct sets {
    shmemd_t h;
    struct check_random *random;
};

/* `holds`: which elements do; what the tests find is compared with it. */
#define SETTER(NAME, TYPE, ...)                                                                              \
    static void set_##NAME(shmemd_t h, struct check_random *random)                                          \
    {                                                                                                        \
        TYPE words[SET_MOST], values[SET_MOST];                                                              \
        int status[SET_MOST], cmp = 1 + (int)check_random_below(random, 6);                                  \
        size_t n = check_random_below(random, SET_MOST + 1), in = 0, hold = 0, indices[SET_MOST], i;         \
        bool each = check_random_below(random, 2) == 0, holds[SET_MOST], all = true;                         \
        const int *left_out = check_random_below(random, 4) == 0 ? NULL : status;                            \
        for (i = 0; i < SET_MOST; i++) {                                                                     \
            words[i] = (TYPE)(check_random_below(random, 4) - 2);                                            \
            values[i] = (TYPE)(check_random_below(random, 4) - 2);                                           \
            status[i] = check_random_below(random, 3) == 0;                                                  \
        }                                                                                                    \
        for (i = 0; i < n; i++) {                                                                            \
            TYPE value = values[each ? i : 0];                                                               \
            holds[i] = obvious(cmp, words[i] < value ? -1 : words[i] > value);                               \
            if (left_out != NULL && left_out[i] != 0) {                                                      \
                holds[i] = false;                                                                            \
                continue;                                                                                    \
            }                                                                                                \
            in++;                                                                                            \
            all = all && holds[i];                                                                           \
            hold += holds[i];                                                                                \
        }                                                                                                    \
        CHECK_EQ((each ? shmemd_##NAME##_test_all_vector(h, words, n, left_out, cmp, values)                 \
                       : shmemd_##NAME##_test_all(h, words, n, left_out, cmp, values[0])),                   \
                 all);                                                                                       \
        i = each ? shmemd_##NAME##_test_any_vector(h, words, n, left_out, cmp, values)                       \
                 : shmemd_##NAME##_test_any(h, words, n, left_out, cmp, values[0]);                          \
        CHECK(hold == 0 ? i == SIZE_MAX : i < n && holds[i]);                                                \
        CHECK_EQ((each ? shmemd_##NAME##_test_some_vector(h, words, n, indices, left_out, cmp, values)       \
                       : shmemd_##NAME##_test_some(h, words, n, indices, left_out, cmp, values[0])),         \
                 hold);                                                                                      \
        for (i = 0; i < hold; i++)                                                                           \
            CHECK(indices[i] < n && holds[indices[i]] && (i == 0 || indices[i] > indices[i - 1]));           \
        CHECK_EQ(shmemd_##NAME##_test(h, words, cmp, values[0]),                                             \
                 obvious(cmp, words[0]<values[0] ? -1 : words[0]> values[0]));                               \
        if (in > 0 && hold == 0)                                                                             \
            return; /* these would wait */                                                                   \
        i = shmemd_##NAME##_wait_until_any_vector(h, words, each ? n : 0, left_out, cmp, values);            \
        CHECK(!each || hold == 0 ? i == SIZE_MAX : i < n && holds[i]);                                       \
        CHECK_EQ((each ? shmemd_##NAME##_wait_until_some_vector(h, words, n, indices, left_out, cmp, values) \
                       : shmemd_##NAME##_wait_until_some(h, words, n, indices, left_out, cmp, values[0])),   \
                 hold);                                                                                      \
        if (all && each)                                                                                     \
            shmemd_##NAME##_wait_until_all_vector(h, words, n, left_out, cmp, values);                       \
        else if (all)                                                                                        \
            shmemd_##NAME##_wait_until_all(h, words, n, left_out, cmp, values[0]);                           \
    }
SHMEM_STD_TYPES(SETTER, )

/* Checks are of the thread that runs the test: one grid of one thread, here. */
SHMEMD_KERNEL(run_sets, struct sets, s)
{
#define ROW(NAME, TYPE, ...) set_##NAME(s.h, s.random);
    SHMEM_STD_TYPES(ROW, )
#undef ROW
}

/* ---- places, slices, conversions ---- */

struct places {
    shmemd_t h, other;
    uint64_t *covered; /* how often each of the elements fell into a slice */
    size_t nelems;
};

SHMEMD_KERNEL(run_places, struct places, p)
{
    struct shmemd_slice slice = shmemd_slice_of_block(p.nelems);
    for (size_t i = shmemd_thread_index(); i < slice.count; i += shmemd_block_size())
        p.covered[slice.first + i]++;
    if (shmemd_block_index() != 0 || shmemd_thread_index() != 0)
        return;
    CHECK_EQ(shmemd_status(p.h), 0);
    CHECK_EQ(shmemd_n_pes(p.h), PES);
    for (int pe = 0; pe < PES; pe++) {
        CHECK_EQ(shmemd_translate_pe(p.h, pe, p.other), (pe + 1) % PES);
        CHECK(shmemd_ptr(p.h, p.h.heap + 8, pe) == memory_of(pe) + 8);
        CHECK(shmemd_ptr(p.h, p.h.heap + HEAP + 8, pe) == memory_of(pe) + HEAP + 8);
        CHECK(shmemd_ptr(p.h, &slice, pe) == NULL);
    }
    p.other.n_pes = 1;
    CHECK_EQ(shmemd_translate_pe(p.h, 0, p.other), -1);
}

static void test_places(void)
{
    static uint64_t covered[1001];
    static int32_t turned[PES];
    struct places args;
    struct isod_team other;
    machine_lay_out(0, true);
    other = machine.team[0];
    other.world_of = turned;
    for (int i = 0; i < PES; i++)
        turned[i] = (i + PES - 1) % PES;
    args.h = args.other = machine.handle[0];
    args.other.team = &other;
    args.covered = covered;
    for (args.nelems = 0; args.nelems <= 1001; args.nelems += 77) {
        memset(covered, 0, sizeof(covered));
        run_here(run_places, &args, 5, 40);
        for (size_t i = 0; i < 1001; i++)
            CHECK_EQ(covered[i], i < args.nelems);
    }
    for (uint32_t bits = 0; bits < 65536; bits++) {
        shmemd_half_t half = {(uint16_t)bits};
        shmemd_bfloat16_t brain = {(uint16_t)bits};
        if ((bits & 0x7fff) <= 0x7c00)
            CHECK_EQ(shmemd_half_from_float(shmemd_half_to_float(half)).bits, bits);
        if ((bits & 0x7fff) <= 0x7f80)
            CHECK_EQ(shmemd_bfloat16_from_float(shmemd_bfloat16_to_float(brain)).bits, bits);
    }
}

/* ---- giving up ---- */

SHMEMD_KERNEL(run_give_up, struct talk, t)
{
    struct scratch *b = scratch_of(t.h);
    uint64_t four[4] = {1, 2, 3, 4};
    size_t indices[4];
    char packet[16];
    if (shmemd_status(t.h) != 0)
        prim_fetch_add_u64(t.errors, 1);
    shmemd_signal_wait_until_block(t.h, &b->signal, SHMEM_CMP_EQ, 99);
    if (shmemd_status(t.h) == 0 || shmemd_uint64_wait_until_any(t.h, four, 4, NULL, SHMEM_CMP_EQ, 9) != SIZE_MAX ||
        shmemd_uint64_wait_until_some(t.h, four, 4, indices, NULL, SHMEM_CMP_EQ, 9) != 0 ||
        shmemd_get_packet_block(t.h, packet, b->area[0], 16, 5) == 0)
        prim_fetch_add_u64(t.errors, 1);
    shmemd_uint64_wait_until_all(t.h, four, 4, NULL, SHMEM_CMP_EQ, 9);
    shmemd_uint64_wait_until_wave(t.h, four, SHMEM_CMP_EQ, 9);
    shmemd_signal_op(t.h, &b->ack, 1, SHMEM_SIGNAL_SET, 0);
    shmemd_putmem_signal_block(t.h, b->data, b->area, shmemd_block_index() == 0 ? 5 : 0, &b->ack, 1, SHMEM_SIGNAL_SET,
                               shmemd_my_pe(t.h));
}

/* When every block has reported that its wait is late. */
static void *abort_later(void *argument)
{
    (void)argument;
    for (int pe = 0; pe < PES; pe++)
        while (prim_load_acquire_u64(&machine.host[pe].records[BLOCKS - 1].state) == ISOD_RECORD_FREE)
            check_pause();
    for (int pe = 0; pe < PES; pe++)
        prim_store_release_u64(&machine.host[pe].abort, 1);
    return NULL;
}

static void test_give_up(struct check_random *random)
{
    static uint64_t errors[PES];
    struct talk args[PES];
    pthread_t later;
    machine_lay_out(0, true);
    memset(machine.memory, 0, (size_t)PES * MEMORY);
    memset(args, 0, sizeof(args));
    for (int pe = 0; pe < PES; pe++) {
        machine.world[pe].deadline_ns = 5000000;
        args[pe].h = machine.handle[pe];
        args[pe].errors = &errors[pe];
    }
    if (pthread_create(&later, NULL, abort_later, NULL) != 0)
        abort();
    run_all(run_give_up, args, sizeof(args[0]), random);
    pthread_join(later, NULL);
    for (int pe = 0; pe < PES; pe++) {
        const struct scratch *b = (const struct scratch *)(const void *)memory_of(pe);
        const struct isod_record *r = machine.host[pe].records;
        CHECK_EQ(errors[pe], 0);
        CHECK_EQ(machine.team[pe].status, 1);
        CHECK_EQ(b->ack, 0);
        CHECK_EQ(r[0].state, ISOD_RECORD_LATE);
        CHECK_EQ(r[0].call, ISOD_CALL_SIGNAL_WAIT_UNTIL);
        CHECK_EQ(r[0].expected, 99);
        CHECK_EQ(r[BLOCKS].state, ISOD_RECORD_GAVE_UP);
    }
}

/* ---- */

int main(void)
{
    unsigned n = machine_begin();
    struct check_random random = check_random_stream(2);
    for (unsigned i = 0; i < n; i++)
        test_talk((enum method)(i % METHODS), (int)check_random_below(&random, TALKERS), &random);
    for (int type = 0; type < TALKERS; type++)
        test_gather(type, &random);
    machine_lay_out(0, true);
    struct sets sets = {machine.handle[0], &random};
    for (unsigned i = 0; i < n; i++)
        run_here(run_sets, &sets, 1, 1);
    test_places();
    test_give_up(&random);
    return machine_end();
}
