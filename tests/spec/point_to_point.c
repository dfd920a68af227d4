/* SPDX-License-Identifier: MIT */
/* Waits and tests of every type: all comparison operators on both sides of the border and across the sign, arrays with
 * any, all, some and vectors, status masks, empty sets, and waits that end when a peer writes. */
#include "../check.h"
#include "p2p_table.h"

enum { OPERATORS = 6, ELEMENTS = 11 };

static const int operators[OPERATORS] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_LT,
                                         SHMEM_CMP_LE, SHMEM_CMP_GT, SHMEM_CMP_GE};

static bool compare_signed(int64_t a, int cmp, int64_t b)
{
    switch (cmp) {
    case SHMEM_CMP_EQ:
        return a == b;
    case SHMEM_CMP_NE:
        return a != b;
    case SHMEM_CMP_LT:
        return a < b;
    case SHMEM_CMP_LE:
        return a <= b;
    case SHMEM_CMP_GT:
        return a > b;
    default:
        return a >= b;
    }
}

/* As the type sees it: -1 is the largest value of an unsigned one. */
static bool holds(const struct p2p *row, int64_t a, int cmp, int64_t b)
{
    if (row->is_signed)
        return compare_signed(a, cmp, b);
    return compare_signed((int64_t)((uint64_t)a ^ ((uint64_t)1 << 63)), cmp,
                          (int64_t)((uint64_t)b ^ ((uint64_t)1 << 63)));
}

/* Values already there: every operator, on values next to each other and across zero. */
static void test_operators(unsigned char *words, const struct p2p *row)
{
    const int64_t values[] = {-1, 0, 1, 77, 78, 127};
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) {
            row->store(words, 0, values[i]);
            for (int k = 0; k < OPERATORS; k++) {
                bool expected = holds(row, values[i], operators[k], values[j]);
                CHECK_EQ_NAMED(row->test(words, operators[k], values[j]), expected, row->name);
                if (expected)
                    row->wait_until(words, operators[k], values[j]); /* returns at once */
                size_t index = 99;
                CHECK_EQ_NAMED(row->test_all(words, 1, NULL, operators[k], values[j]), expected, row->name);
                CHECK_EQ_NAMED(row->test_any(words, 1, NULL, operators[k], values[j]) == 0, expected, row->name);
                CHECK_EQ_NAMED(row->test_some(words, 1, &index, NULL, operators[k], values[j]), expected, row->name);
                CHECK_EQ_NAMED(index, expected ? 0 : 99, row->name);
            }
        }
    }
}

/* The wait ends when the neighbour has written, not before: with each operator. */
static void test_waits(unsigned char *words, const struct p2p *row)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    const int64_t start[OPERATORS] = {1, 5, 9, 9, 5, 5};
    const int64_t wanted[OPERATORS] = {7, 5, 8, 7, 6, 7};
    for (int k = 0; k < OPERATORS; k++) {
        row->store(words, 1, start[k]);
        CHECK_EQ_NAMED(row->test(words + row->size, operators[k], wanted[k]), 0, row->name);
        shmem_barrier_all();
        row->set(words + row->size, 7, right);
        row->wait_until(words + row->size, operators[k], wanted[k]);
        CHECK_EQ_NAMED(row->test(words + row->size, SHMEM_CMP_EQ, 7), 1, row->name);
        shmem_barrier_all();
    }
}

/* Sets of no elements: length 0, or everything masked. */
static void test_empty(unsigned char *words, const struct p2p *row)
{
    int masked[ELEMENTS];
    size_t indices[ELEMENTS];
    for (size_t i = 0; i < ELEMENTS; i++) {
        masked[i] = 1 + (int)i;
        row->store(words, i, 4);
    }
    for (int way = 0; way < 3; way++) {
        size_t n = way == 2 ? ELEMENTS : 0;
        const int *status = way == 0 ? NULL : masked;
        memset(indices, 0x7f, sizeof(indices));
        row->wait_all(words, n, status, SHMEM_CMP_EQ, 9);
        row->wait_all_vector(words, n, status, SHMEM_CMP_EQ, words);
        CHECK(row->wait_any(words, n, status, SHMEM_CMP_EQ, 9) == SIZE_MAX);
        CHECK(row->wait_any_vector(words, n, status, SHMEM_CMP_EQ, words) == SIZE_MAX);
        CHECK_EQ(row->wait_some(words, n, indices, status, SHMEM_CMP_EQ, 4), 0);
        CHECK_EQ(row->wait_some_vector(words, n, indices, status, SHMEM_CMP_EQ, words), 0);
        CHECK_EQ(row->test_all(words, n, status, SHMEM_CMP_EQ, 9), 1);
        CHECK_EQ(row->test_all_vector(words, n, status, SHMEM_CMP_NE, words), 1);
        CHECK(row->test_any(words, n, status, SHMEM_CMP_EQ, 4) == SIZE_MAX);
        CHECK(row->test_any_vector(words, n, status, SHMEM_CMP_EQ, words) == SIZE_MAX);
        CHECK_EQ(row->test_some(words, n, indices, status, SHMEM_CMP_EQ, 4), 0);
        CHECK_EQ(row->test_some_vector(words, n, indices, status, SHMEM_CMP_EQ, words), 0);
        CHECK(check_all_bytes(indices, 0x7f, sizeof(indices)));
    }
}

/* Are `found` indices of `indices` exactly the elements of `expected`? In any order, each once. */
static void check_indices(const size_t *indices, size_t found, const bool *expected, const char *name)
{
    bool seen[ELEMENTS] = {false};
    size_t wanted = 0;
    for (size_t i = 0; i < ELEMENTS; i++)
        wanted += expected[i];
    CHECK_EQ_NAMED(found, wanted, name);
    for (size_t i = 0; i < found && i < ELEMENTS; i++) {
        if (!CHECK_NAMED(indices[i] < ELEMENTS, name))
            return;
        CHECK_NAMED(expected[indices[i]] && !seen[indices[i]], name);
        seen[indices[i]] = true;
    }
}

/* Random contents, masks and operators against the definition; where the set holds, the waits return at once. */
static void test_arrays(unsigned char *words, unsigned char *values, const struct p2p *row)
{
    enum { TIMES = 30 };
    struct check_random random = check_random_stream(500);
    for (int t = 0; t < TIMES; t++) {
        int status[ELEMENTS];
        size_t indices[ELEMENTS];
        bool equal_value[ELEMENTS], equal_vector[ELEMENTS];
        size_t members = 0, n_value = 0, n_vector = 0;
        int cmp = operators[check_random_below(&random, OPERATORS)];
        int64_t value = (int64_t)check_random_below(&random, 5) - 2;
        bool use_status = check_random_below(&random, 3) != 0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            int64_t at = (int64_t)check_random_below(&random, 5) - 2;
            int64_t own = (int64_t)check_random_below(&random, 5) - 2;
            row->store(words, i, at);
            row->store(values, i, own);
            status[i] = (int)check_random_below(&random, 3) - 1;
            bool member = !use_status || status[i] == 0;
            equal_value[i] = member && holds(row, at, cmp, value);
            equal_vector[i] = member && holds(row, at, cmp, own);
            members += member;
            n_value += equal_value[i];
            n_vector += equal_vector[i];
        }
        const int *mask = use_status ? status : NULL;
        CHECK_EQ_NAMED(row->test_all(words, ELEMENTS, mask, cmp, value), n_value == members, row->name);
        CHECK_EQ_NAMED(row->test_all_vector(words, ELEMENTS, mask, cmp, values), n_vector == members, row->name);
        size_t at = row->test_any(words, ELEMENTS, mask, cmp, value);
        CHECK_NAMED(n_value == 0 ? at == SIZE_MAX : at < ELEMENTS && equal_value[at], row->name);
        at = row->test_any_vector(words, ELEMENTS, mask, cmp, values);
        CHECK_NAMED(n_vector == 0 ? at == SIZE_MAX : at < ELEMENTS && equal_vector[at], row->name);
        check_indices(indices, row->test_some(words, ELEMENTS, indices, mask, cmp, value), equal_value, row->name);
        check_indices(indices, row->test_some_vector(words, ELEMENTS, indices, mask, cmp, values), equal_vector,
                      row->name);
        if (n_value == members)
            row->wait_all(words, ELEMENTS, mask, cmp, value);
        if (n_vector == members)
            row->wait_all_vector(words, ELEMENTS, mask, cmp, values);
        if (n_value > 0) {
            at = row->wait_any(words, ELEMENTS, mask, cmp, value);
            CHECK_NAMED(at < ELEMENTS && equal_value[at], row->name);
            size_t found = row->wait_some(words, ELEMENTS, indices, mask, cmp, value);
            CHECK_NAMED(found >= 1 && found <= n_value && equal_value[indices[0]], row->name);
        }
        if (n_vector > 0) {
            at = row->wait_any_vector(words, ELEMENTS, mask, cmp, values);
            CHECK_NAMED(at < ELEMENTS && equal_vector[at], row->name);
            size_t found = row->wait_some_vector(words, ELEMENTS, indices, mask, cmp, values);
            CHECK_NAMED(found >= 1 && found <= n_vector && equal_vector[indices[0]], row->name);
        }
    }
}

/* Takes what has arrived off the list, by one of six ways, until everybody has written. */
static size_t take(const struct p2p *row, unsigned char *words, unsigned char *values, size_t n, int way,
                   size_t *indices, const int *status)
{
    switch (way) {
    case 0:
        indices[0] = row->wait_any(words, n, status, SHMEM_CMP_EQ, 3);
        return 1;
    case 1:
        indices[0] = row->wait_any_vector(words, n, status, SHMEM_CMP_EQ, values);
        return 1;
    case 2:
        return row->wait_some(words, n, indices, status, SHMEM_CMP_EQ, 3);
    case 3:
        return row->wait_some_vector(words, n, indices, status, SHMEM_CMP_EQ, values);
    case 4:
        while ((indices[0] = row->test_any(words, n, status, SHMEM_CMP_EQ, 3)) == SIZE_MAX)
            check_pause();
        return 1;
    default:
        for (;;) {
            size_t found = row->test_some_vector(words, n, indices, status, SHMEM_CMP_EQ, values);
            if (found > 0)
                return found;
            check_pause();
        }
    }
}

static void test_arrivals(unsigned char *words, unsigned char *values, const struct p2p *row)
{
    int me = shmem_my_pe();
    size_t n = (size_t)shmem_n_pes();
    size_t *indices = (size_t *)malloc(n * sizeof(size_t));
    int *status = (int *)malloc(n * sizeof(int));
    CHECK_OR_EXIT(indices != NULL && status != NULL);
    for (int way = 0; way < 8; way++) {
        for (size_t i = 0; i < n; i++) {
            row->store(words, i, 0);
            row->store(values, i, 3);
            status[i] = 0;
        }
        shmem_barrier_all();
        for (size_t i = 0; i < n; i++)
            row->set(words + (size_t)me * row->size, 3, (int)((i + (size_t)me) % n));
        size_t left = n;
        while (way < 6 && left > 0) {
            size_t found = take(row, words, values, n, way, indices, status);
            if (!CHECK_NAMED(found >= 1 && found <= left, row->name))
                break;
            for (size_t i = 0; i < found; i++) {
                if (!CHECK_NAMED(indices[i] < n && status[indices[i]] == 0, row->name))
                    break;
                status[indices[i]] = 1;
            }
            left -= found;
        }
        if (way == 6)
            row->wait_all(words, n, status, SHMEM_CMP_EQ, 3);
        if (way == 7)
            row->wait_all_vector(words, n, status, SHMEM_CMP_GE, values);
        CHECK_EQ_NAMED(row->test_all(words, n, NULL, SHMEM_CMP_EQ, 3), 1, row->name);
        shmem_barrier_all();
    }
    free(indices);
    free(status);
}

/* What was put before the flag is seen after the wait, for each wait of each type. */
static void test_data_behind_flag(unsigned char *words, long *data, const struct p2p *row)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    for (int round = 1; round <= 4; round++) {
        row->store(words, 0, 0);
        shmem_barrier_all();
        shmem_long_p(data, 100L * round + me, (me + 1) % npes);
        shmem_fence();
        row->set(words, round, (me + 1) % npes);
        if (round % 2) {
            row->wait_until(words, SHMEM_CMP_EQ, round);
        } else {
            while (!row->test(words, SHMEM_CMP_EQ, round))
                check_pause();
        }
        CHECK_EQ_NAMED(*data, 100L * round + (me + npes - 1) % npes, row->name);
        shmem_barrier_all();
    }
}

static int test_main(void)
{
    CHECK_INIT();
    size_t elements = shmem_n_pes() > ELEMENTS ? (size_t)shmem_n_pes() : ELEMENTS;
    unsigned char *words = (unsigned char *)check_alloc(elements * sizeof(uint64_t));
    unsigned char *values = (unsigned char *)malloc(elements * sizeof(uint64_t));
    long *data = (long *)check_alloc(sizeof(long));
    CHECK_OR_EXIT(values != NULL);
    for (int i = 0; i < P2P_ROWS; i++) {
        const struct p2p *row = &p2p_table[i];
        test_operators(words, row);
        test_waits(words, row);
        test_data_behind_flag(words, data, row);
        test_empty(words, row);
        test_arrays(words, values, row);
        test_arrivals(words, values, row);
    }
    check_free(data);
    free(values);
    check_free(words);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
