/* SPDX-License-Identifier: MIT */
/* One litmus test for each cell of the ordering table of shmem_device.h: block 0 of every PE sends to the next PE, by
 * one thread, a wave or the block in turns; block 1 waits for what says that the data is there and looks at all of it;
 * then it acknowledges, so that every round may overwrite. many_signals: many at once, to all PEs.
 * SHMEM_TEST_ROUNDS rounds for all cells together. */
#define PRIM_COLD_CALLS 1 /* of so many kernels, the rare paths may be calls: AMD's compiler takes minutes else */
#include "device_test.h"

/* X(cell, the receiver waits for a packet or barrier itself) */
#define CELLS(X)           \
    X(put_fence_p)         \
    X(put_fence_put)       \
    X(put_fence_signal)    \
    X(put_signal_set)      \
    X(put_signal_add)      \
    X(put_signal_nbi)      \
    X(put_empty_signal)    \
    X(put_nbi_quiet_p)     \
    X(put_nbi_pe_quiet_p)  \
    X(p_quiet_sync_signal) \
    X(atomics_quiet_p)     \
    X(stores_signal_get)   \
    X(packet)              \
    X(barrier)             \
    X(mixed_quiet_p)       \
    X(mixed_fence_p)       \
    X(two_blocks)          \
    X(many_signals)
#define AS_ENUM(name) CELL_##name,
enum { CELLS(AS_ENUM) CELL_COUNT };
#define AS_NAME(name) #name,
static const char *const cell_names[] = {CELLS(AS_NAME)};

enum { MANY = 24, PES_MOST = 8, WORDS = 96, THREADS = 64, BLOCKS = 3, SENDER = 0, RECEIVER = 1, HELPER = 2 };

/* In device memory, symmetric but for `wrong` and `pes`. */
struct scratch {
    uint64_t flag, ack;
    uint64_t pad[14];
    uint64_t data[WORDS];
    uint64_t source[WORDS];
    uint64_t bounce[WORDS];
    uint64_t packets[2 * WORDS + 2];  /* twice the payload */
    uint64_t many[PES_MOST][MANY][4]; /* of each sender: data, its signal; a plain put; its source there */
    uint64_t wrong[THREADS];          /* by the receiver's threads */
    uint64_t first_wrong[4];          /* round, index, expected, seen */
    int pes[2];
};

struct litmus_args {
    shmemd_t h;
    struct scratch *scratch;
    uint64_t *host_data; /* [WORDS] of the host heap */
    uint64_t first, rounds;
    int32_t cell, to, from;
};

SHMEMD_FN uint64_t word_of(uint64_t round, uint32_t i)
{
    return round * 0x100000001b3u ^ (uint64_t)form_mix((uint32_t)round, i) << 20;
}
SHMEMD_FN uint32_t length_of(uint64_t round) { return form_mix((uint32_t)round, 77) % WORDS + 1; }
SHMEMD_FN int32_t form_of(uint64_t round) { return (int32_t)(form_mix((uint32_t)round, 5) % FORM_COUNT); }
SHMEMD_FN void stagger(uint64_t round, uint32_t side)
{
    uint32_t x = form_mix((uint32_t)round, side);
    if (x % 16 == 0)
        form_dawdle(x / 16 % 64);
}

/* Is the calling thread one of the unit that acts: thread 0, wave 0, the block. */
SHMEMD_FN bool acts(int32_t form)
{
    uint64_t me = (uint64_t)shmemd_thread_index();
    return form == FORM_BLOCK || (form == FORM_THREAD ? me == 0 : me < (uint64_t)shmemd_group_size(shmemd_wave()));
}

SHMEMD_FN void fill_source(struct scratch *b, shmemd_group_t g, uint64_t round, uint32_t n)
{
    for (uint32_t i = (uint32_t)shmemd_group_rank(g); i < n; i += (uint32_t)shmemd_group_size(g))
        b->source[i] = word_of(round, i);
    shmemd_group_sync(g);
}
SHMEMD_FN void raise_flag(struct litmus_args a, shmemd_group_t g, uint64_t round)
{
    if (shmemd_group_rank(g) == 0)
        shmemd_uint64_p(a.h, &a.scratch->flag, round, a.to);
}
SHMEMD_FN void raise_signal(struct litmus_args a, shmemd_group_t g, uint64_t round)
{
    if (shmemd_group_rank(g) == 0)
        shmemd_signal_op(a.h, &a.scratch->flag, round, SHMEM_SIGNAL_SET, a.to);
}

/* Each thread its own words. */
SHMEMD_FN void send_words(struct litmus_args a, shmemd_group_t g, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    for (uint32_t i = (uint32_t)shmemd_group_rank(g); i < n; i += (uint32_t)shmemd_group_size(g)) {
        if (a.cell == CELL_atomics_quiet_p)
            shmemd_uint64_atomic_set(a.h, &b->data[i], word_of(round, i), a.to);
        else
            shmemd_uint64_p(a.h, &b->data[i], word_of(round, i), a.to);
    }
    shmemd_quiet(a.h);
    shmemd_group_sync(g);
    if (a.cell == CELL_atomics_quiet_p)
        raise_flag(a, g, round);
    else
        raise_signal(a, g, round);
}

SHMEMD_FN void send_fenced(struct litmus_args a, int32_t form, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    shmemd_group_t g = form_group(form);
    if (a.cell == CELL_put_fence_put) { /* the second one wins */
        BY_FORM(form, uint64_put, a.h, b->data, b->packets, n, a.to);
        BY_FORM(form, fence, a.h);
    }
    BY_FORM(form, uint64_put, a.h, b->data, b->source, n, a.to);
    if (a.cell == CELL_mixed_fence_p)
        BY_FORM(form, uint64_put, a.h, a.host_data, b->source, n, a.to);
    BY_FORM(form, fence, a.h);
    if (a.cell == CELL_put_fence_signal)
        raise_signal(a, g, round);
    else
        raise_flag(a, g, round);
}

SHMEMD_FN void send_quieted(struct litmus_args a, int32_t form, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    BY_FORM(form, uint64_put_nbi, a.h, b->data, b->source, n, a.to);
    if (a.cell == CELL_mixed_quiet_p)
        BY_FORM(form, uint64_put_nbi, a.h, a.host_data, b->source, n, a.to);
    if (a.cell == CELL_put_nbi_pe_quiet_p)
        BY_FORM(form, pe_quiet, a.h, b->pes, 1);
    else
        BY_FORM(form, quiet, a.h);
    raise_flag(a, form_group(form), round);
}

SHMEMD_FN void send_signalled(struct litmus_args a, int32_t form, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    if (a.cell == CELL_put_signal_set)
        BY_FORM(form, uint64_put_signal, a.h, b->data, b->source, n, &b->flag, round, SHMEM_SIGNAL_SET, a.to);
    else if (a.cell == CELL_put_signal_add)
        BY_FORM(form, uint64_put_signal, a.h, b->data, b->source, n, &b->flag, 1, SHMEM_SIGNAL_ADD, a.to);
    else if (a.cell == CELL_put_empty_signal) {
        BY_FORM(form, uint64_put, a.h, b->data, b->source, n, a.to);
        BY_FORM(form, uint64_put_signal, a.h, b->data, b->source, 0, &b->flag, round, SHMEM_SIGNAL_SET, a.to);
    } else
        BY_FORM(form, uint64_put_signal_nbi, a.h, b->data, b->source, n, &b->flag, round, SHMEM_SIGNAL_SET, a.to);
}

/* What the acting unit does in one round, with its data in b->source. */
SHMEMD_FN void send(struct litmus_args a, int32_t form, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    shmemd_group_t g = form_group(form);
    fill_source(b, g, round, n);
    if (a.cell == CELL_put_fence_p || a.cell == CELL_put_fence_put || a.cell == CELL_put_fence_signal ||
        a.cell == CELL_mixed_fence_p) {
        send_fenced(a, form, round, n);
    } else if (a.cell <= CELL_put_empty_signal) {
        send_signalled(a, form, round, n);
    } else if (a.cell == CELL_p_quiet_sync_signal || a.cell == CELL_atomics_quiet_p) {
        send_words(a, g, round, n);
    } else if (a.cell == CELL_stores_signal_get) {
        BY_FORM(form, fence, a.h);
        raise_signal(a, g, round);
    } else if (a.cell == CELL_packet) {
        BY_FORM(form, put_packet, a.h, b->packets, b->source, (size_t)n * 8, (uint32_t)round, a.to);
    } else {
        send_quieted(a, form, round, n);
    }
    shmemd_group_sync(g); /* the source may be written again */
}

SHMEMD_FN void look(struct scratch *b, const uint64_t *seen, uint64_t round, uint32_t n)
{
    uint32_t me = (uint32_t)shmemd_thread_index();
    for (uint32_t i = me; i < n; i += (uint32_t)shmemd_block_size())
        if (seen[i] != word_of(round, i)) {
            b->wrong[me]++;
            b->first_wrong[0] = round;
            b->first_wrong[1] = i;
            b->first_wrong[2] = word_of(round, i);
            b->first_wrong[3] = seen[i];
        }
    shmemd_group_sync(shmemd_block());
}

SHMEMD_FN void receive(struct litmus_args a, int32_t form, uint64_t round, uint32_t n)
{
    struct scratch *b = a.scratch;
    if (a.cell == CELL_packet) {
        if (acts(form))
            BY_FORM(form, get_packet, a.h, b->bounce, b->packets, (size_t)n * 8, (uint32_t)round);
    } else if (shmemd_thread_index() == 0) {
        shmemd_uint64_wait_until(a.h, &b->flag, SHMEM_CMP_EQ, round);
    }
    shmemd_group_sync(shmemd_block());
    if (a.cell == CELL_stores_signal_get) {
        if (acts(form))
            BY_FORM(form, uint64_get, a.h, b->bounce, b->source, n, a.from);
        shmemd_group_sync(shmemd_block());
    }
    look(b, a.cell == CELL_packet || a.cell == CELL_stores_signal_get ? b->bounce : b->data, round, n);
    if (a.cell == CELL_mixed_quiet_p ||
        a.cell == CELL_mixed_fence_p) { /* the host heap, by a get from this PE: a GPU cannot load it */
        shmemd_uint64_get_block(a.h, b->bounce, a.host_data, n, shmemd_my_pe(a.h));
        shmemd_group_sync(shmemd_block());
        look(b, b->bounce, round, n);
    }
    if (shmemd_thread_index() == 0)
        shmemd_signal_op(a.h, &b->ack, round, SHMEM_SIGNAL_SET, a.from);
}

SHMEMD_FN void wait_for_ack(struct litmus_args a, uint64_t round)
{
    if (shmemd_thread_index() == 0)
        (void)shmemd_signal_wait_until(a.h, &a.scratch->ack, SHMEM_CMP_EQ, round);
    shmemd_group_sync(shmemd_block());
}

SHMEMD_KERNEL(litmus, struct litmus_args, a)
{
    for (uint64_t round = a.first; round < a.first + a.rounds; round++) {
        uint32_t n = length_of(round);
        int32_t form = form_of(round);
        stagger(round, (uint32_t)shmemd_block_index() + 3 * (uint32_t)a.to);
        if (shmemd_block_index() == SENDER) {
            if (acts(form))
                send(a, form, round, n);
            wait_for_ack(a, round);
        } else if (shmemd_block_index() == RECEIVER) {
            receive(a, form, round, n);
        }
    }
}

/* A barrier between the put and the look, another one before the next put. */
SHMEMD_KERNEL(litmus_barrier, struct litmus_args, a)
{
    struct scratch *b = a.scratch;
    for (uint64_t round = a.first; round < a.first + a.rounds; round++) {
        uint32_t n = length_of(round);
        int32_t form = form_of(round);
        stagger(round, (uint32_t)a.to);
        if (acts(form)) {
            fill_source(b, form_group(form), round, n);
            BY_FORM(form, uint64_put_nbi, a.h, b->data, b->source, n, a.to);
        }
        shmemd_barrier_block(a.h);
        look(b, b->data, round, n);
        shmemd_barrier_block(a.h);
    }
}

/* The sender's block puts, all blocks of the grid meet, another block quiets and signals. */
SHMEMD_KERNEL(litmus_two_blocks, struct litmus_args, a)
{
    struct scratch *b = a.scratch;
    for (uint64_t round = a.first; round < a.first + a.rounds; round++) {
        uint32_t n = length_of(round);
        if (shmemd_block_index() == SENDER) {
            fill_source(b, shmemd_block(), round, n);
            shmemd_uint64_put_nbi_block(a.h, b->data, b->source, n, a.to);
        }
        shmemd_grid_sync(a.h);
        if (shmemd_block_index() == HELPER) {
            shmemd_quiet_block(a.h);
            raise_signal(a, shmemd_block(), round);
            wait_for_ack(a, round);
        } else if (shmemd_block_index() == RECEIVER) {
            receive(a, FORM_BLOCK, round, n);
        }
        shmemd_grid_sync(a.h);
    }
}

/* Each signal on its own: its data are there when it is seen. Signals set and add in turns, and a plain put follows
 * every fourth message. The receiver looks at the last messages first. */
SHMEMD_KERNEL(litmus_many, struct litmus_args, a)
{
    struct scratch *b = a.scratch;
    uint32_t n = (uint32_t)shmemd_n_pes(a.h), me = (uint32_t)shmemd_my_pe(a.h);
    if (shmemd_thread_index() != 0)
        return;
    for (uint64_t round = a.first; round < a.first + a.rounds; round++) {
        for (uint32_t i = 0; i < MANY * n && shmemd_block_index() == SENDER; i++) {
            uint64_t *m = b->many[me][i / n];
            int adds = (int)(i / n % 2), pe = (int)(i % n);
            m[3] = word_of(round, i / n);
            shmemd_uint64_put_signal(a.h, &m[0], &m[3], 1, &m[1], adds ? 1 : round,
                                     adds ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET, pe);
            if (i % 4 == 0)
                shmemd_uint64_put(a.h, &m[2], &m[3], 1, pe);
        }
        if (shmemd_block_index() == SENDER) {
            (void)shmemd_signal_wait_until(a.h, &b->ack, SHMEM_CMP_GE, round * n);
            continue;
        }
        for (uint32_t i = MANY * n; i-- > 0;) {
            uint64_t *m = b->many[i % n][i / n];
            (void)shmemd_signal_wait_until(a.h, &m[1], SHMEM_CMP_GE, round);
            if (prim_peek_u64(&m[0]) != word_of(round, i / n))
                b->wrong[0]++;
        }
        for (uint32_t pe = 0; pe < n; pe++)
            shmemd_signal_op(a.h, &b->ack, 1, SHMEM_SIGNAL_ADD, (int)pe);
    }
}

/* ---- the host's side ---- */

static void litmus_check(struct scratch *scratch, const char *name)
{
    static const size_t first = offsetof(struct scratch, first_wrong);
    uint64_t wrong[THREADS], where[4], sum = 0;
    char text[160];
    device_read(wrong, scratch->wrong, sizeof(wrong));
    device_read(where, (char *)scratch + first, sizeof(where));
    for (int i = 0; i < THREADS; i++)
        sum += wrong[i];
    snprintf(text, sizeof(text), "%s: words that were not there, one in round %llu, word %llu, 0x%llx for 0x%llx", name,
             (unsigned long long)where[0], (unsigned long long)where[1], (unsigned long long)where[3],
             (unsigned long long)where[2]);
    CHECK_EQ_NAMED(sum, 0, text);
}

static void litmus_run(int cell, uint64_t rounds, struct scratch *scratch, uint64_t *host_data, shmemd_t handle)
{
    enum { AT_ONCE = 20000 }; /* no kernel for longer than some displays allow */
    int me = shmem_my_pe(), n = shmem_n_pes(), pes[2] = {(me + 1) % n, 0};
    struct litmus_args a;
    struct scratch *empty = (struct scratch *)calloc(1, sizeof(*empty));
    memset(&a, 0, sizeof(a));
    a.h = handle;
    a.scratch = scratch;
    a.host_data = host_data;
    a.cell = cell;
    a.to = (me + 1) % n;
    a.from = (me + n - 1) % n;
    device_write(scratch, empty, sizeof(*scratch));
    device_write(scratch->pes, pes, sizeof(pes));
    free(empty);
    shmem_barrier_all();
    for (a.first = 1; a.first <= rounds; a.first += a.rounds) {
        a.rounds = rounds + 1 - a.first < AT_ONCE ? rounds + 1 - a.first : (uint64_t)AT_ONCE;
        if (cell == CELL_barrier)
            DEVICE_RUN(litmus_barrier, 1, THREADS, a);
        else if (cell == CELL_many_signals)
            DEVICE_RUN(litmus_many, 2, THREADS, a);
        else if (cell == CELL_two_blocks)
            DEVICE_RUN(litmus_two_blocks, BLOCKS, THREADS, a);
        else
            DEVICE_RUN(litmus, 2, THREADS, a);
    }
    shmem_barrier_all();
    litmus_check(scratch, cell_names[cell]);
}

static int test_main(void)
{
    DEVICE_INIT();
    shmemd_t handle;
    uint64_t rounds = (uint64_t)device_number("SHMEM_TEST_ROUNDS", 15000) / CELL_COUNT + 1;
    struct scratch *scratch = (struct scratch *)shmemx_align(128, sizeof(*scratch), SHMEMX_DEVICE);
    uint64_t *host_data = (uint64_t *)shmem_calloc(WORDS, sizeof(*host_data));
    CHECK_OR_EXIT(scratch != NULL && host_data != NULL && shmem_n_pes() <= PES_MOST);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &handle) == 0);
    for (int cell = 0; cell < CELL_COUNT; cell++)
        litmus_run(cell, rounds, scratch, host_data, handle);
    shmem_free(host_data);
    shmemx_free(scratch);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
