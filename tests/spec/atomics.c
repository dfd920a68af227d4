/* SPDX-License-Identifier: MIT */
/* Atomic memory operations of every family and type, blocking and not, with and without a context: first one at a time
 * against a model, then all PEs on one word. */
#include "../check.h"
#include "amo_table.h"

/* Each PE has a word of its own on its right neighbour, between two words that must not change. */
static void test_model(unsigned char *words, const shmem_ctx_t *ctx, const struct amo_row *row)
{
    enum { TIMES = 3 };
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    struct check_random random = check_random_stream(400 + (uint64_t)me);
    unsigned char image[8];
    unsigned char *word = words + row->size;
    uint64_t now = 0;
    for (size_t i = 0; i < 3 * row->size; i++)
        words[i] = i >= row->size && i < 2 * row->size ? 0 : CHECK_POISON;
    shmem_barrier_all();
    for (int amo = (int)row->first; amo < (int)row->end; amo++) {
        for (int i = 0; i < TIMES; i++) {
            uint64_t value = amo_value(row, check_random_next(&random));
            uint64_t compare = i % 2 ? amo_value(row, check_random_next(&random)) : now;
            uint64_t old = row->call(ctx, (enum amo)amo, word, compare, value, right);
            if (amo_fetches((enum amo)amo))
                CHECK_NAMED(old == now, row->name);
            now = amo_model((enum amo)amo, now, compare, value) & amo_mask(row->size);
            memcpy(image, &now, sizeof(image));
            if (ctx != NULL)
                shmem_ctx_quiet(*ctx);
            else
                shmem_quiet();
            unsigned char seen[8] = {0};
            shmem_getmem(seen, word, row->size, right);
            CHECK_BYTES_NAMED(seen, image, row->size, row->name);
        }
    }
    shmem_barrier_all();
    CHECK_NAMED(check_all_bytes(words, CHECK_POISON, row->size), row->name);
    CHECK_NAMED(check_all_bytes(words + 2 * row->size, CHECK_POISON, row->size), row->name);
    shmem_barrier_all();
}

/* All PEs on the word of the last PE, which is busy with the same. */
static uint64_t together(unsigned char *word, const shmem_ctx_t *ctx, const struct amo_row *row, enum amo amo,
                         uint64_t start, int times, uint64_t value)
{
    int target = shmem_n_pes() - 1;
    uint64_t sum_of_old = 0;
    uint64_t last = 0;
    memcpy(word, &start, row->size);
    shmem_barrier_all();
    for (int i = 0; i < times; i++) {
        uint64_t old = row->call(i % 2 ? ctx : NULL, amo, word, 0, value, target); /* both forms on one word */
        if (amo_fetches(amo)) {
            CHECK_NAMED(i == 0 || amo == FXOR || amo == FXOR_NBI || old > last, row->name);
            last = old;
            sum_of_old += old;
        }
    }
    shmem_ctx_quiet(*ctx);
    shmem_barrier_all();
    return sum_of_old;
}

static uint64_t final_value(const unsigned char *word, const struct amo_row *row)
{
    unsigned char seen[8] = {0};
    uint64_t value = 0;
    shmem_getmem(seen, word, row->size, shmem_n_pes() - 1);
    memcpy(&value, seen, sizeof(value));
    return value;
}

/* A race is a matter of processors that share memory; where each operation is a message, fewer rounds do. Equal on all
 * PEs: every PE has such a peer, or none has. */
static int rounds(const void *word, int times)
{
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (shmem_ptr(word, pe) == NULL)
            return times / 100;
    return check_times(times);
}

/* Increments: the values fetched are 0 .. N - 1, each once. `total` adds up what everybody saw. */
static void test_increments(unsigned char *word, uint64_t *total, const shmem_ctx_t *ctx, const struct amo_row *row)
{
    const int times = rounds(word, 30000);
    const enum amo kinds[] = {FINC, FINC_NBI, FADD, FADD_NBI, INC, ADD};
    uint64_t all = (uint64_t)times * (uint64_t)shmem_n_pes();
    for (int k = 0; k < 6; k++) {
        *total = 0;
        uint64_t sum_of_old = together(word, ctx, row, kinds[k], 0, times, 1);
        CHECK_EQ_NAMED(final_value(word, row), all, row->name);
        shmem_uint64_atomic_add(total, sum_of_old, 0);
        shmem_barrier_all();
        if (shmem_my_pe() == 0 && k < 4)
            CHECK_EQ_NAMED(*total, all * (all - 1) / 2, row->name);
        shmem_barrier_all();
    }
}

/* A bit for each PE: or sets all, and clears all, an even number of xors leaves what was. */
static void test_bits(unsigned char *word, const shmem_ctx_t *ctx, const struct amo_row *row)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    uint64_t bit = (uint64_t)1 << (me % 32);
    uint64_t bits = npes >= 32 ? 0xffffffffu : ((uint64_t)1 << npes) - 1;
    const enum amo ors[] = {FOR, FOR_NBI, OR};
    const enum amo ands[] = {FAND, FAND_NBI, AND};
    const enum amo xors[] = {FXOR, FXOR_NBI, XOR};
    for (int k = 0; k < 3; k++) {
        (void)together(word, ctx, row, ors[k], 0, 1, bit);
        CHECK_EQ_NAMED(final_value(word, row), bits, row->name);
        shmem_barrier_all();
        (void)together(word, ctx, row, ands[k], amo_mask(row->size), 1, ~bit & amo_mask(row->size));
        CHECK_NAMED(final_value(word, row) == (amo_mask(row->size) & ~bits), row->name);
        shmem_barrier_all();
        (void)together(word, ctx, row, xors[k], 0, 41, bit);
        CHECK_EQ_NAMED(final_value(word, row), bits, row->name);
        shmem_barrier_all();
    }
}

/* Compare and swap as the loop that everybody writes with it; swap hands one token around. */
static void test_swaps(unsigned char *word, const shmem_ctx_t *ctx, const struct amo_row *row)
{
    enum { TIMES = 1500 };
    int target = shmem_n_pes() - 1;
    memset(word, 0, row->size);
    shmem_barrier_all();
    for (int i = 0; i < TIMES; i++) {
        uint64_t seen = 0;
        uint64_t expected = 0;
        do {
            expected = seen;
            seen = row->call(i % 4 < 2 ? ctx : NULL, i % 2 ? CSWAP : CSWAP_NBI, word, expected, expected + 3, target);
        } while (seen != expected);
    }
    shmem_barrier_all();
    CHECK_EQ_NAMED(final_value(word, row), 3 * TIMES * shmem_n_pes(), row->name);
    shmem_barrier_all();
}

/* Values that are never torn: everybody swaps words of equal bytes. */
static void test_whole_words(unsigned char *word, const shmem_ctx_t *ctx, const struct amo_row *row)
{
    enum { TIMES = 1500 };
    int me = shmem_my_pe();
    int target = shmem_n_pes() - 1;
    memset(word, 1, row->size);
    shmem_barrier_all();
    for (int i = 0; i < TIMES; i++) {
        const enum amo amo = (enum amo)((int)row->first + i % ((int)row->end - (int)row->first));
        unsigned char bytes[8];
        uint64_t value;
        memset(bytes, 2 + me, sizeof(bytes));
        memcpy(&value, bytes, sizeof(value));
        uint64_t old = row->call(i / 5 % 2 ? ctx : NULL, amo, word, 0, value & amo_mask(row->size), target);
        if (!amo_fetches(amo))
            continue;
        memcpy(bytes, &old, sizeof(bytes));
        CHECK_NAMED(check_all_bytes(bytes, bytes[0], row->size), row->name);
    }
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    unsigned char *words = (unsigned char *)check_alloc(3 * 16);
    uint64_t *total = (uint64_t *)check_alloc(sizeof(uint64_t));
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    for (int i = 0; i < AMO_ROWS; i++) {
        const struct amo_row *row = &amo_table[i];
        test_model(words, NULL, row);
        test_model(words, &ctx, row);
        if (row->first == FETCH) {
            test_whole_words(words, &ctx, row);
        } else if (row->first == CSWAP) {
            test_increments(words, total, &ctx, row);
            test_swaps(words, &ctx, row);
        } else {
            test_bits(words, &ctx, row);
        }
    }
    shmem_ctx_destroy(ctx);
    check_free(total);
    check_free(words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
