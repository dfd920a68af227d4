/* SPDX-License-Identifier: MIT */
/* Waits for and tests of words of this PE (section 9.11), also the deprecated ones. Values of all types become keys,
 * unsigned 64-bit numbers in the same order, so that there is one comparison. A call on a single word looks at it
 * inline first. All waits, and all calls on several words, go through one core over struct word_set. Words are read at
 * the caller's own address, for every kind of host memory; the agent reads words of device memory. */
#include "../node/wait.h"
#include "target.h"
#include "../transport/word.h"

/* ---- keys ---- */

struct kind {
    unsigned bytes;
    bool is_signed;
};
#define KIND(TYPE) \
    (struct kind) { sizeof(TYPE), (TYPE)-1 < (TYPE)1 }

/* Order-preserving: sign-extended with the sign bit turned over. */
ISO_INLINE uint64_t key_of(uint64_t word, struct kind kind)
{
    unsigned shift = 64 - 8 * kind.bytes;
    if (!kind.is_signed)
        return word;
    return (uint64_t)((int64_t)(word << shift) >> shift) ^ ((uint64_t)1 << 63);
}

/* Acquire: pairs with p, atomics and signals of any PE; see word.h. */
ISO_INLINE uint64_t load_key(const void *at, struct kind kind) { return key_of(iso_word_load(at, kind.bytes), kind); }

/* The value itself, sign-extended, for the report of a wait. */
static uint64_t plain(uint64_t key, struct kind kind) { return kind.is_signed ? key ^ ((uint64_t)1 << 63) : key; }

ISO_INLINE bool compare(uint64_t a, int cmp, uint64_t b)
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

/* ---- a set of words; one word is a set of one ---- */

struct word_set {
    const char *ivars;
    size_t nelems;
    const int *status;  /* NULL: all are in */
    const char *values; /* to compare with, as the user has them */
    size_t value_step;  /* bytes between them; 0: one for all */
    int cmp;
    struct kind kind;
    const char *call;
    bool on_device; /* the agent looks at the words; set by check_words */
    struct place place;
};

ISO_INLINE void check_cmp(int cmp, const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY((unsigned)cmp - SHMEM_CMP_EQ > SHMEM_CMP_GE - SHMEM_CMP_EQ))
        iso_fatal(call, "cmp is %d, allowed: SHMEM_CMP_EQ (%d) .. SHMEM_CMP_GE (%d)", cmp, SHMEM_CMP_EQ, SHMEM_CMP_GE);
}

/* Also sets s->on_device and s->place. */
static void check_words(struct word_set *s, const char *arg, size_t len)
{
    struct place at = iso_place(s->ivars, len, ISO->my_pe, s->call, arg);
    iso_check_aligned(s->call, arg, s->ivars, s->kind.bytes);
    s->on_device = iso_place_is_device(&at);
    s->place = at;
}

static void check_set(struct word_set *s)
{
    check_cmp(s->cmp, s->call);
    if (s->nelems == 0) {
        iso_check_life(s->call);
        return;
    }
    size_t len = s->nelems > SIZE_MAX / s->kind.bytes ? SIZE_MAX : s->nelems * s->kind.bytes;
    check_words(s, "ivars", len);
    if (ISO_CHECKS && s->values == NULL)
        iso_fatal(s->call, "cmp_values is null");
}

static bool is_in(const struct word_set *s, size_t i) { return s->status == NULL || s->status[i] == 0; }

static uint64_t value_key(const struct word_set *s, size_t i)
{
    return key_of(iso_word_of(s->values + i * s->value_step, s->kind.bytes), s->kind);
}

static ISO_COLD uint64_t load_device_key(const struct word_set *s, size_t i)
{
    struct place at = iso_place_behind(s->place, i * s->kind.bytes);
    return key_of(iso_far_load(&ISO->ctx_default, at, s->kind.bytes, s->call), s->kind);
}

static uint64_t seen_key(const struct word_set *s, size_t i)
{
    if (ISO_UNLIKELY(s->on_device))
        return load_device_key(s, i);
    return load_key(s->ivars + i * s->kind.bytes, s->kind);
}

static bool word_holds(const struct word_set *s, size_t i) { return compare(seen_key(s, i), s->cmp, value_key(s, i)); }

static struct wait begin_wait(const struct word_set *s, size_t i)
{
    struct wait wait = ISO_WAIT(s->call, -1, s->ivars + i * s->kind.bytes, plain(value_key(s, i), s->kind));
    wait.cmp = s->cmp;
    wait.is_signed = s->kind.is_signed;
    return wait;
}

static void pause_wait(struct wait *wait, const struct word_set *s, size_t i)
{
    iso_wait_pause(wait, plain(seen_key(s, i), s->kind));
}

/* Word i; the key that satisfied. */
static uint64_t wait_one(const struct word_set *s, size_t i)
{
    uint64_t value = value_key(s, i), seen = seen_key(s, i);
    if (compare(seen, s->cmp, value))
        return seen;
    struct wait wait = begin_wait(s, i);
    while (!compare(seen = seen_key(s, i), s->cmp, value))
        iso_wait_pause(&wait, plain(seen, s->kind));
    iso_wait_end(&wait);
    return seen;
}

/* ---- all, any, some ---- */

static size_t wait_failed(size_t result)
{
    iso_transport_polled();
    return result;
}

/* A test is counted, and its progress is not timed. */
static void count_test(void)
{
    struct profile_span span = iso_profile_enter(PROFILE_TEST, "shmem_test", 0);
    iso_profile_leave(&span);
}

static struct profile_span begin_call(const struct word_set *s)
{
    struct profile_span span = iso_profile_enter(PROFILE_WAIT, s->call, 0);
    span.key = (uint64_t)(uintptr_t)s->ivars;
    span.more = s->nelems * s->kind.bytes;
    return span;
}

static void wait_all(struct word_set *s)
{
    struct profile_span span = begin_call(s);
    check_set(s);
    for (size_t i = 0; i < s->nelems; i++)
        if (is_in(s, i))
            (void)wait_one(s, i);
    iso_profile_leave(&span);
}

static int test_all(struct word_set *s)
{
    count_test();
    check_set(s);
    for (size_t i = 0; i < s->nelems; i++)
        if (is_in(s, i) && !word_holds(s, i))
            return (int)wait_failed(0);
    return 1;
}

/* Where a search begins: anywhere, so that no satisfied word starves behind others. A counter would not do, since
 * alternating calls on two sets could keep it in step with both. The clock is mixed and mapped to 0 .. nelems - 1
 * without a division. */
static size_t anywhere(size_t nelems)
{
    uint64_t mixed = iso_clock_now_ns() * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
    return nelems >> 32 != 0 ? (size_t)(mixed % nelems) : (size_t)(((mixed >> 32) * nelems) >> 32);
}

enum { EMPTY = -1, NONE, FOUND };

/* One round over the set from `start`: FOUND and *found; NONE: nothing holds; EMPTY: nothing is in the set. */
static int find_word(const struct word_set *s, size_t start, size_t *found)
{
    int result = EMPTY;
    for (size_t n = 0, i = start; n < s->nelems; n++, i = i + 1 == s->nelems ? 0 : i + 1) {
        if (!is_in(s, i))
            continue;
        result = NONE;
        *found = i;
        if (word_holds(s, i))
            return FOUND;
    }
    return result;
}

static size_t find_any(struct word_set *s)
{
    check_set(s);
    size_t start = s->nelems > 1 ? anywhere(s->nelems) : 0, i = 0;
    int result = find_word(s, start, &i);
    if (result == EMPTY)
        return SIZE_MAX;
    if (result == FOUND)
        return i;
    struct wait wait = begin_wait(s, i);
    while (find_word(s, start, &i) != FOUND)
        pause_wait(&wait, s, i);
    iso_wait_end(&wait);
    return i;
}

static size_t wait_any(struct word_set *s)
{
    struct profile_span span = begin_call(s);
    size_t i = find_any(s);
    iso_profile_leave(&span);
    return i;
}

static size_t test_any(struct word_set *s)
{
    count_test();
    check_set(s);
    size_t i = 0;
    return find_word(s, s->nelems > 1 ? anywhere(s->nelems) : 0, &i) == FOUND ? i : wait_failed(SIZE_MAX);
}

/* One round, all words: as fair as can be. *last: a word that is in the set, for the report. */
static size_t find_all(const struct word_set *s, size_t *indices, size_t *last, bool *empty)
{
    size_t n = 0;
    *empty = true;
    for (size_t i = 0; i < s->nelems; i++) {
        if (!is_in(s, i))
            continue;
        *empty = false;
        *last = i;
        if (word_holds(s, i))
            indices[n++] = i;
    }
    return n;
}

static void check_some(struct word_set *s, const size_t *indices)
{
    check_set(s);
    if (ISO_CHECKS && s->nelems > 0 && indices == NULL)
        iso_fatal(s->call, "indices is null");
}

static size_t find_some(struct word_set *s, size_t *indices)
{
    check_some(s, indices);
    size_t last = 0;
    bool empty;
    size_t n = find_all(s, indices, &last, &empty);
    if (n > 0 || empty)
        return n;
    struct wait wait = begin_wait(s, last);
    while ((n = find_all(s, indices, &last, &empty)) == 0)
        pause_wait(&wait, s, last);
    iso_wait_end(&wait);
    return n;
}

static size_t wait_some(struct word_set *s, size_t *indices)
{
    struct profile_span span = begin_call(s);
    size_t n = find_some(s, indices);
    iso_profile_leave(&span);
    return n;
}

static size_t test_some(struct word_set *s, size_t *indices)
{
    count_test();
    check_some(s, indices);
    size_t last;
    bool empty;
    size_t n = find_all(s, indices, &last, &empty);
    return n > 0 ? n : wait_failed(0);
}

/* ---- the calls; a single word first ---- */

static ISO_COLD uint64_t wait_slow(const void *ivar, struct kind kind, int cmp, uint64_t value, const char *call)
{
    uint64_t bits = 0;
    iso_word_to(&bits, value, kind.bytes);
    struct word_set s = {.ivars = (const char *)ivar,
                         .nelems = 1,
                         .values = (const char *)&bits,
                         .cmp = cmp,
                         .kind = kind,
                         .call = call};
    struct profile_span span = begin_call(&s);
    check_words(&s, "ivar", kind.bytes);
    uint64_t key = wait_one(&s, 0);
    iso_profile_leave(&span);
    return key;
}

static ISO_COLD int test_slow(const void *ivar, struct kind kind, int cmp, uint64_t value, const char *call)
{
    struct word_set s = {.ivars = (const char *)ivar, .nelems = 1, .cmp = cmp, .kind = kind, .call = call};
    count_test();
    check_words(&s, "ivar", kind.bytes);
    return compare(seen_key(&s, 0), cmp, key_of(value, kind)) ? 1 : (int)wait_failed(0);
}

/* The ordinary case, a word in the heap or the data segment, needs no call. */
ISO_INLINE bool is_near(const void *ivar, struct kind kind, int cmp, const char *call)
{
    const struct target own = {&ISO->ctx_default, call, ISO->my_pe};
    check_cmp(cmp, call);
    return ISO_LIKELY(iso_target_near(&own, ivar, kind.bytes, kind.bytes) != NULL);
}

/* The key that satisfied; of an unsigned type it is the value. */
ISO_INLINE uint64_t wait_word(const void *ivar, struct kind kind, int cmp, const void *value, const char *call)
{
    uint64_t word = iso_word_of(value, kind.bytes);
    if (is_near(ivar, kind, cmp, call)) {
        uint64_t seen = load_key(ivar, kind);
        if (ISO_LIKELY(compare(seen, cmp, key_of(word, kind))))
            return seen;
    }
    return wait_slow(ivar, kind, cmp, word, call);
}

ISO_INLINE int test_word(const void *ivar, struct kind kind, int cmp, const void *value, const char *call)
{
    uint64_t word = iso_word_of(value, kind.bytes);
    if (!is_near(ivar, kind, cmp, call))
        return test_slow(ivar, kind, cmp, word, call);
    if (ISO_LIKELY(compare(load_key(ivar, kind), cmp, key_of(word, kind))))
        return 1;
    return (int)wait_failed(0);
}

/* ---- stamps ---- */

#define FUNCTION(R, name, args, ...)        \
    SHMEM_API(shmem_##name, pshmem_##name); \
    R pshmem_##name args { __VA_ARGS__ }

#define WORD(NAME, TYPE, ...)                                                 \
    FUNCTION(void, NAME##_wait_until, (TYPE * ivar, int cmp, TYPE cmp_value), \
             wait_word(ivar, KIND(TYPE), cmp, &cmp_value, __func__);)         \
    FUNCTION(int, NAME##_test, (TYPE * ivar, int cmp, TYPE cmp_value),        \
             return test_word(ivar, KIND(TYPE), cmp, &cmp_value, __func__);)
SHMEM_P2P_TYPES(WORD, )

/* One value for all, or one for each. */
#define SET(TYPE, values, step)                                                                              \
    &(struct word_set)                                                                                       \
    {                                                                                                        \
        (const char *)ivars, nelems, status, (const char *)(values), step, cmp, KIND(TYPE), __func__, false, \
            {NULL, NULL, 0, 0}                                                                               \
    }

#define RETURN_void
#define RETURN_int return
#define RETURN_size_t return
#define CORE_wait_until_all wait_all
#define CORE_wait_until_any wait_any
#define CORE_wait_until_some wait_some
#define CORE_test_all test_all
#define CORE_test_any test_any
#define CORE_test_some test_some

#define ARRAY(R, op, ...) SHMEM_P2P_TYPES(ARRAY_TYPE, R, op)
#define ARRAY_TYPE(NAME, TYPE, R, op)                                                                   \
    FUNCTION(R, NAME##_##op, (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value), \
             RETURN_##R CORE_##op(SET(TYPE, &cmp_value, 0));)                                           \
    FUNCTION(R, NAME##_##op##_vector,                                                                   \
             (TYPE * ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values),         \
             RETURN_##R CORE_##op(SET(TYPE, cmp_values, sizeof(TYPE)));)
SHMEM_ARRAY_WAIT_OPS(ARRAY, )

#define SOME(op, ...) SHMEM_P2P_TYPES(SOME_TYPE, op)
#define SOME_TYPE(NAME, TYPE, op)                                                                                 \
    FUNCTION(size_t, NAME##_##op,                                                                                 \
             (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp, TYPE cmp_value),         \
             return CORE_##op(SET(TYPE, &cmp_value, 0), indices);)                                                \
    FUNCTION(size_t, NAME##_##op##_vector,                                                                        \
             (TYPE * ivars, size_t nelems, size_t * indices, const int *status, int cmp, const TYPE *cmp_values), \
             return CORE_##op(SET(TYPE, cmp_values, sizeof(TYPE)), indices);)
SHMEM_ARRAY_SOME_OPS(SOME, )

FUNCTION(uint64_t, signal_wait_until, (uint64_t * sig_addr, int cmp, uint64_t cmp_value),
         return wait_word(sig_addr, KIND(uint64_t), cmp, &cmp_value, __func__);)

/* Deprecated. */
#define OLD_WAIT(NAME, TYPE, ...)                              \
    FUNCTION(void, NAME##_wait, (TYPE * ivar, TYPE cmp_value), \
             wait_word(ivar, KIND(TYPE), SHMEM_CMP_NE, &cmp_value, __func__);)
SHMEM_OLD_WAIT_TYPES(OLD_WAIT, )
FUNCTION(void, wait, (long *ivar, long cmp_value), wait_word(ivar, KIND(long), SHMEM_CMP_NE, &cmp_value, __func__);)
FUNCTION(void, wait_until, (long *ivar, int cmp, long cmp_value),
         wait_word(ivar, KIND(long), cmp, &cmp_value, __func__);)
