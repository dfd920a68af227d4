/* SPDX-License-Identifier: MIT */
/* Waits and tests in kernels and on streams: operation x type x comparison x which words are excluded x form (thread,
 * wave, block, stream). Block 1 of each PE stores into the words of the next PE, late and in another order; block 0,
 * its first wave or its first thread waits, and leaves what it was told; or a stream waits while the kernel only
 * stores. */
#include "matrix.h"

enum { UNTIL_EACH, UNTIL_ALL, UNTIL_ANY, UNTIL_SOME, TEST_EACH, TEST_ALL, TEST_ANY, TEST_SOME, OP_COUNT };
static const char *const op_names[] = {"wait_until", "wait_until_all", "wait_until_any", "wait_until_some",
                                       "test",       "test_all",       "test_any",       "test_some"};
enum { WORDS = 7, LATE = 200 };
enum { FORM_STREAM = FORM_COUNT, WAIT_FORMS };
static const char *const form_names[] = {FORM_NAMES, "stream"};

#define AS_TYPE(NAME, T, ...) TYPE_##NAME,
enum { SHMEM_STD_TYPES(AS_TYPE, ) TYPE_COUNT };

struct wait_args {
    shmemd_t h;
    char *words;                /* waited for; the next PE's are stored to */
    const char *goal, *compare; /* what is stored; what is compared with: one value, or one for each word */
    int *excluded, *said;       /* this PE's, and those that the waiter has been told of too */
    const int *to_exclude;      /* of the next PE: the same */
    size_t *indices;            /* room for _some */
    uint64_t *told;             /* [0] how many, then the indices in the order in which the waiter was told */
    char *seen;                 /* the words when it was told */
    int32_t op, type, cmp, vector, pe, has_status, form;
    uint32_t late;
};

/* One call each, of the type's. */
#define TYPED(NAME, T, CALL, ...) (shmemd_##NAME##_##CALL(a.h, (T *)(void *)a.words, __VA_ARGS__))
#define STATUS (a.has_status != 0 ? a.said : (int *)0)
#define ONE(T) (*(const T *)(const void *)a.compare)
#define EACH(T, i) (((const T *)(const void *)a.compare)[a.vector != 0 ? (i) : 0])
#define MANY(T) ((T *)(uintptr_t)(const void *)a.compare)

#define CASE_UNTIL(NAME, T, ...)                                                                \
    case TYPE_##NAME:                                                                           \
        if (a.form == FORM_THREAD)                                                              \
            shmemd_##NAME##_wait_until(a.h, (T *)(void *)a.words + i, a.cmp, EACH(T, i));       \
        else if (a.form == FORM_WAVE)                                                           \
            shmemd_##NAME##_wait_until_wave(a.h, (T *)(void *)a.words + i, a.cmp, EACH(T, i));  \
        else                                                                                    \
            shmemd_##NAME##_wait_until_block(a.h, (T *)(void *)a.words + i, a.cmp, EACH(T, i)); \
        break;
/* By the whole group that the form names; the other calls by one thread. */
SHMEMD_FN void until(struct wait_args a, size_t i)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_UNTIL, )
    }
}
#define CASE_TEST(NAME, T, ...) \
    case TYPE_##NAME:           \
        return shmemd_##NAME##_test(a.h, (T *)(void *)a.words + i, a.cmp, EACH(T, i)) != 0;
SHMEMD_FN bool test(struct wait_args a, size_t i)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_TEST, )
    }
    return false;
}
/* true: all are there. */
#define CASE_ALL(NAME, T, ...)                                                                     \
    case TYPE_##NAME:                                                                              \
        if (a.op == TEST_ALL)                                                                      \
            return (a.vector != 0 ? TYPED(NAME, T, test_all_vector, WORDS, STATUS, a.cmp, MANY(T)) \
                                  : TYPED(NAME, T, test_all, WORDS, STATUS, a.cmp, ONE(T))) != 0;  \
        if (a.vector != 0)                                                                         \
            TYPED(NAME, T, wait_until_all_vector, WORDS, STATUS, a.cmp, MANY(T));                  \
        else                                                                                       \
            TYPED(NAME, T, wait_until_all, WORDS, STATUS, a.cmp, ONE(T));                          \
        return true;
SHMEMD_FN bool all(struct wait_args a)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_ALL, )
    }
    return true;
}
#define CASE_ANY(NAME, T, ...)                                                                      \
    case TYPE_##NAME:                                                                               \
        if (a.op == TEST_ANY)                                                                       \
            return a.vector != 0 ? TYPED(NAME, T, test_any_vector, WORDS, STATUS, a.cmp, MANY(T))   \
                                 : TYPED(NAME, T, test_any, WORDS, STATUS, a.cmp, ONE(T));          \
        return a.vector != 0 ? TYPED(NAME, T, wait_until_any_vector, WORDS, STATUS, a.cmp, MANY(T)) \
                             : TYPED(NAME, T, wait_until_any, WORDS, STATUS, a.cmp, ONE(T));
SHMEMD_FN size_t any(struct wait_args a)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_ANY, )
    }
    return SIZE_MAX;
}
#define CASE_SOME(NAME, T, ...)                                                                                 \
    case TYPE_##NAME:                                                                                           \
        if (a.op == TEST_SOME)                                                                                  \
            return a.vector != 0 ? TYPED(NAME, T, test_some_vector, WORDS, a.indices, STATUS, a.cmp, MANY(T))   \
                                 : TYPED(NAME, T, test_some, WORDS, a.indices, STATUS, a.cmp, ONE(T));          \
        return a.vector != 0 ? TYPED(NAME, T, wait_until_some_vector, WORDS, a.indices, STATUS, a.cmp, MANY(T)) \
                             : TYPED(NAME, T, wait_until_some, WORDS, a.indices, STATUS, a.cmp, ONE(T));
SHMEMD_FN size_t some(struct wait_args a)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_SOME, )
    }
    return 0;
}
#define CASE_STORE(NAME, T, ...)                                                                      \
    case TYPE_##NAME:                                                                                 \
        shmemd_##NAME##_p(a.h, (T *)(void *)a.words + i, ((const T *)(const void *)a.goal)[i], a.pe); \
        break;
SHMEMD_FN void store(struct wait_args a, size_t i)
{
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_STORE, )
    }
}
#define CASE_NOTE(NAME, T, ...)                                             \
    case TYPE_##NAME:                                                       \
        ((T *)(void *)a.seen)[i] = *((const T *)(const void *)a.words + i); \
        break;
/* The waiter was told that word i is there; of a group its last thread says so, which is not the one that polled. */
SHMEMD_FN void note(struct wait_args a, size_t i)
{
    shmemd_group_t g = form_group(a.form);
    if (shmemd_group_rank(g) + 1 != shmemd_group_size(g))
        return;
    switch (a.type) {
        SHMEM_STD_TYPES(CASE_NOTE, )
    }
    a.told[1 + a.told[0]] = i;
    a.told[0]++;
    a.said[i] = 1;
}

SHMEMD_FN void wait_each(struct wait_args a)
{
    for (size_t i = 0; i < WORDS; i++) {
        if (a.excluded[i] != 0)
            continue;
        if (a.op == UNTIL_EACH)
            until(a, i);
        while (a.op == TEST_EACH && !test(a, i))
            form_dawdle(1);
        note(a, i);
    }
}
SHMEMD_FN void wait_all(struct wait_args a)
{
    while (!all(a))
        form_dawdle(1);
    for (size_t i = 0; i < WORDS; i++)
        if (a.excluded[i] == 0)
            note(a, i);
}
/* Without a status array the words already seen are reported again; then only the first call counts. */
SHMEMD_FN void wait_any(struct wait_args a, uint32_t missing)
{
    while (missing > 0) {
        size_t i = any(a);
        if (i < WORDS) {
            note(a, i);
            missing = a.has_status != 0 ? missing - 1 : 0;
        } else {
            form_dawdle(1);
        }
    }
    if (a.has_status != 0 && any(a) != SIZE_MAX) /* nothing is left to wait for */
        a.told[0] += 1000;
}
SHMEMD_FN void wait_some(struct wait_args a, uint32_t missing)
{
    while (missing > 0) {
        size_t n = some(a);
        for (size_t k = 0; k < n; k++)
            note(a, a.indices[k]);
        if (n == 0)
            form_dawdle(1);
        missing = a.has_status != 0 ? missing - (uint32_t)n : n > 0 ? 0 : missing;
    }
    if (a.has_status != 0 && some(a) != 0)
        a.told[0] += 1000;
}

SHMEMD_FN void wait_for_all(struct wait_args a)
{
    uint32_t missing = 0;
    for (size_t i = 0; i < WORDS; i++) {
        if (a.form == FORM_THREAD)
            a.said[i] = a.excluded[i];
        missing += a.excluded[i] == 0;
    }
    if (a.op == UNTIL_EACH || a.op == TEST_EACH)
        wait_each(a);
    else if (a.op == UNTIL_ALL || a.op == TEST_ALL)
        wait_all(a);
    else if (a.op == UNTIL_ANY || a.op == TEST_ANY)
        wait_any(a, missing);
    else
        wait_some(a, missing);
}

SHMEMD_KERNEL(wait_words, struct wait_args, a)
{
    uint32_t thread = (uint32_t)shmemd_thread_index();
    if (shmemd_block_index() == 0) {
        if (a.form < FORM_STREAM && thread < (uint32_t)shmemd_group_size(form_group(a.form)))
            wait_for_all(a);
        return;
    }
    if (thread != 0)
        return;
    for (uint32_t k = 0; k < WORDS; k++) {
        size_t i = (k * 3 + a.late) % WORDS;
        form_dawdle(form_mix(a.late, k) % LATE);
        if (a.to_exclude[i] == 0)
            store(a, i);
    }
    shmemd_quiet(a.h);
}

/* ---- the host's side ---- */

struct wait_row {
    const char *name;
    size_t size;
};
#define ROW(NAME, T, ...) {#NAME, sizeof(T)},
static const struct wait_row rows[] = {SHMEM_STD_TYPES(ROW, ){NULL, 0}};

/* Compared with v; before it is stored, the word holds v + before; then v + after. */
struct comparison {
    const char *name;
    int cmp, before, after;
};
static const struct comparison comparisons[] = {{"eq", SHMEM_CMP_EQ, 1, 0},  {"ne", SHMEM_CMP_NE, 0, 1},
                                                {"gt", SHMEM_CMP_GT, 0, 1},  {"ge", SHMEM_CMP_GE, -1, 0},
                                                {"lt", SHMEM_CMP_LT, 0, -1}, {"le", SHMEM_CMP_LE, 1, 0}};
enum dim { OP, TYPE, CMP, VECTOR, STATUS_KIND, BASE, FORM, GRAPH };
enum { NO_STATUS, NONE_EXCLUDED, SOME_EXCLUDED, ALL_EXCLUDED };
static const struct matrix_dim dims[] = {{"op", OP_COUNT},     {"type", TYPE_COUNT}, {"cmp", 6},
                                         {"vector", 2},        {"status", 4},        {"base", 2},
                                         {"form", WAIT_FORMS}, {"graph", 2},         {NULL, 0}};
static const int bases[] = {5, -40};

static bool wait_valid(const int *v)
{
    bool one = v[OP] == UNTIL_EACH || v[OP] == TEST_EACH;
    if (v[FORM] != FORM_THREAD && v[OP] != UNTIL_EACH)
        return false;
    if (v[FORM] == FORM_STREAM ? v[TYPE] != TYPE_uint64 : v[GRAPH] != 0)
        return false;
    return !one || v[VECTOR] == 0;
}

struct wait {
    struct device_team team;
    struct area words, goal, compare, excluded, said, to_exclude, indices, told, seen;
    shmemx_stream_t stream;
    unsigned round;
};

static bool is_excluded(int kind, int pe, unsigned round, size_t i)
{
    return kind == ALL_EXCLUDED || (kind == SOME_EXCLUDED && (i + (size_t)pe + round) % 3 != 0);
}
static long long value_of(const int *v, size_t i)
{
    return (long long)bases[v[BASE]] + (v[VECTOR] != 0 ? 3 * (long long)i : 0);
}
static void put_value(struct area *a, size_t size, size_t i, long long value)
{
    area_expect(a, i * size, &value, size); /* little endian: the low bytes */
}

static void wait_prepare(struct wait *w, const int *v)
{
    size_t size = rows[v[TYPE]].size;
    const struct comparison *c = &comparisons[v[CMP]];
    int me = w->team.me, to = (me + 1) % w->team.n;
    area_poison(&w->words, WORDS * size);
    area_poison(&w->goal, WORDS * size);
    area_poison(&w->compare, WORDS * size);
    area_poison(&w->excluded, WORDS * sizeof(int));
    area_poison(&w->to_exclude, WORDS * sizeof(int));
    area_poison(&w->said, WORDS * sizeof(int));
    area_poison(&w->indices, WORDS * sizeof(size_t));
    area_poison(&w->seen, WORDS * size);
    area_poison(&w->told, (1 + WORDS) * 8);
    for (size_t i = 0; i < WORDS; i++) {
        int mine = is_excluded(v[STATUS_KIND], me, w->round, i), theirs = is_excluded(v[STATUS_KIND], to, w->round, i);
        put_value(&w->words, size, i, value_of(v, i) + c->before);
        put_value(&w->goal, size, i, value_of(v, i) + c->after);
        put_value(&w->compare, size, i, value_of(v, i));
        area_expect(&w->excluded, i * sizeof(int), &mine, sizeof(int));
        area_expect(&w->to_exclude, i * sizeof(int), &theirs, sizeof(int));
    }
    uint64_t zero = 0;
    area_expect(&w->told, 0, &zero, 8);
    area_upload(&w->words);
    area_upload(&w->goal);
    area_upload(&w->compare);
    area_upload(&w->excluded);
    area_upload(&w->to_exclude);
    area_upload(&w->told);
}

/* Each index at most once, none that was excluded; all of them when there was a status array to say so. */
static void wait_check(struct wait *w, const int *v, const char *text)
{
    uint64_t told[1 + WORDS], times[WORDS] = {0};
    size_t size = rows[v[TYPE]].size, wanted = 0;
    const struct comparison *c = &comparisons[v[CMP]];
    bool single = v[OP] == UNTIL_ANY || v[OP] == TEST_ANY || v[OP] == UNTIL_SOME || v[OP] == TEST_SOME;
    area_fetch(&w->told);
    memcpy(told, w->told.seen + AREA_MARGIN, sizeof(told));
    for (size_t i = 0; i < WORDS; i++)
        wanted += !is_excluded(v[STATUS_KIND], w->team.me, w->round, i);
    if (v[STATUS_KIND] == NO_STATUS && single)
        CHECK_NAMED(told[0] >= 1 && told[0] <= (v[OP] == UNTIL_ANY || v[OP] == TEST_ANY ? 1 : WORDS), text);
    else
        CHECK_EQ_NAMED(told[0], wanted, text);
    for (size_t k = 0; k < told[0] && k < WORDS; k++) {
        size_t i = (size_t)told[1 + k];
        if (!CHECK_NAMED(i < WORDS && !is_excluded(v[STATUS_KIND], w->team.me, w->round, i) && times[i] == 0, text))
            continue;
        times[i] = 1;
        put_value(&w->seen, size, i, value_of(v, i) + c->after);
    }
    area_check(&w->seen, text);
    for (size_t i = 0; i < WORDS; i++)
        if (!is_excluded(v[STATUS_KIND], w->team.me, w->round, i))
            put_value(&w->words, size, i, value_of(v, i) + c->after);
    area_check(&w->words, text);
    area_check(&w->excluded, text);
}

/* Waits for each word and copies it; then `told` is what a kernel would have said, in this order. */
static void stream_wait(struct wait *w, const int *v, const struct wait_args *a, uint64_t *told)
{
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t *word = (uint64_t *)(void *)a->words + i;
        if (is_excluded(v[STATUS_KIND], w->team.me, w->round, i))
            continue;
        CHECK_EQ(shmemx_signal_wait_until_on_stream(word, a->cmp, (uint64_t)value_of(v, i), w->stream), 0);
        CHECK_EQ(shmemx_getmem_on_stream(a->seen + i * 8, word, 8, shmem_my_pe(), w->stream), 0);
        told[1 + told[0]++] = i;
    }
}
/* The kernel stores on the default stream meanwhile. */
static void stream_run(struct wait *w, const int *v, const struct wait_args *a)
{
    uint64_t told[1 + WORDS] = {0};
    shmemx_graph_t graph = NULL;
    if (v[GRAPH] != 0)
        CHECK_OR_EXIT(shmemx_graph_begin(w->stream) == 0);
    stream_wait(w, v, a, told);
    if (v[GRAPH] != 0) {
        CHECK_OR_EXIT(shmemx_graph_end(w->stream, &graph) == 0);
        CHECK_EQ(shmemx_graph_launch(graph, w->stream), 0);
    }
    DEVICE_RUN(wait_words, 2, 64, *a);
    CHECK_OR_EXIT(shmemx_stream_synchronize(w->stream) == 0);
    if (v[GRAPH] != 0)
        CHECK_EQ(shmemx_graph_destroy(graph), 0);
    device_write(a->told, told, (1 + told[0]) * 8);
}

static void wait_case(void *state, const int *v)
{
    struct wait *w = (struct wait *)state;
    struct wait_args a;
    char text[120];
    memset(&a, 0, sizeof(a));
    w->round++;
    snprintf(text, sizeof(text), "%s %s%s by %s%s, %s, status %d, base %d", rows[v[TYPE]].name, op_names[v[OP]],
             v[VECTOR] != 0 ? "_vector" : "", form_names[v[FORM]], v[GRAPH] != 0 ? " in a graph" : "",
             comparisons[v[CMP]].name, v[STATUS_KIND], bases[v[BASE]]);
    wait_prepare(w, v);
    a.h = w->team.handle;
    a.words = area_data(&w->words);
    a.goal = area_data(&w->goal);
    a.compare = area_data(&w->compare);
    a.excluded = (int *)(void *)area_data(&w->excluded);
    a.to_exclude = (const int *)(const void *)area_data(&w->to_exclude);
    a.said = (int *)(void *)area_data(&w->said);
    a.indices = (size_t *)(void *)area_data(&w->indices);
    a.told = (uint64_t *)(void *)area_data(&w->told);
    a.seen = area_data(&w->seen);
    a.op = v[OP];
    a.type = v[TYPE];
    a.cmp = comparisons[v[CMP]].cmp;
    a.vector = v[VECTOR];
    a.pe = (w->team.me + 1) % w->team.n;
    a.has_status = v[STATUS_KIND] != NO_STATUS;
    a.form = v[FORM];
    a.late = device_mix(w->round, (uint32_t)w->team.me);
    shmem_barrier_all();
    if (v[FORM] == FORM_STREAM)
        stream_run(w, v, &a);
    else
        DEVICE_RUN(wait_words, 2, 64, a);
    shmem_barrier_all();
    wait_check(w, v, text);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct wait w;
    memset(&w, 0, sizeof(w));
    struct area *areas[] = {&w.words,      &w.goal,    &w.compare, &w.excluded, &w.said,
                            &w.to_exclude, &w.indices, &w.told,    &w.seen};
    for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
        area_make(areas[i], (WORDS + 1) * 8, SHMEMX_DEVICE);
    device_team_open(&w.team, SHMEM_TEAM_WORLD, 0);
    CHECK_OR_EXIT(shmemx_stream_create(&w.stream) == 0);
    struct matrix matrix = {"wait", dims, wait_valid, wait_case, &w};
    matrix_run(&matrix);
    CHECK_EQ(shmemx_stream_destroy(w.stream), 0);
    for (size_t i = sizeof(areas) / sizeof(areas[0]); i > 0; i--)
        area_drop(areas[i - 1]);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
