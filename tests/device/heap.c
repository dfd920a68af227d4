/* SPDX-License-Identifier: MIT */
/* The device heap by host calls: kinds, alignment, growth over several chunks with the peers' views right after the
 * return, exhaustion, then RMA, atomics, signals and waits on device addresses against a model, with device memory on
 * either side. No kernels of its own. Run it on both rungs (SHMEM_DEVICE_SHARING) and under SHMEM_DEBUG. */
#include "device_test.h"

enum { STRIPE = 4096, KINDS = 3, WORDS = 16 };
#define MIB ((size_t)1 << 20)

static int next_pe(void) { return (check_self.pe + 1) % check_self.npes; }
static int previous_pe(void) { return (check_self.pe + check_self.npes - 1) % check_self.npes; }

/* The same number on all PEs? */
static void check_agrees(uint64_t value)
{
    uint64_t *words = (uint64_t *)shmem_malloc(2 * sizeof(uint64_t));
    CHECK_OR_EXIT(words != NULL);
    words[0] = value;
    shmem_barrier_all();
    CHECK_EQ(shmem_uint64_g(words, next_pe()), value);
    shmem_free(words);
}

static void put_byte(void *dest, unsigned char value, int pe) { shmem_putmem(dest, &value, 1, pe); }

static unsigned char get_byte(const void *source, int pe)
{
    unsigned char value;
    shmem_getmem(&value, source, 1, pe);
    return value;
}

/* ---- allocation ---- */

static void check_kinds(void)
{
    static const int kinds[KINDS] = {SHMEMX_HOST, SHMEMX_DEVICE, SHMEMX_DEVICE_BULK};
    for (int i = 0; i < KINDS; i++) {
        char *a = (char *)shmemx_malloc(1000, kinds[i]), *b = (char *)shmemx_align(4096, 5000, kinds[i]);
        CHECK_OR_EXIT(a != NULL && b != NULL);
        CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 4096 == 0);
        check_agrees((uint64_t)(b - a));
        CHECK(shmemx_malloc(0, kinds[i]) == NULL && shmemx_calloc(0, 8, kinds[i]) == NULL);
        CHECK(shmem_addr_accessible(a, next_pe()) == 1);
        CHECK((shmem_ptr(a, check_self.pe) != NULL) == (kinds[i] == SHMEMX_HOST));
        put_byte(a, (unsigned char)(3 + i), next_pe());
        shmem_barrier_all();
        CHECK_EQ(get_byte(a, check_self.pe), 3 + i);
        shmemx_free(b);
        shmem_free(a); /* either call frees either kind */
    }
    shmemx_free(NULL);
    CHECK_HEAP();
}

static void check_zeroed(void)
{
    enum { LEN = 20000 };
    unsigned char seen[LEN];
    char *dirty = (char *)shmemx_malloc(LEN, SHMEMX_DEVICE);
    CHECK_OR_EXIT(dirty != NULL);
    memset(seen, 0x77, LEN);
    shmem_putmem(dirty, seen, LEN, check_self.pe);
    shmemx_free(dirty);
    char *clean = (char *)shmemx_calloc(LEN / 8, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(clean != NULL);
    shmem_getmem(seen, clean, LEN, next_pe());
    CHECK(check_all_bytes(seen, 0, LEN));
    shmemx_free(clean);
}

/* Each object is written by a peer as soon as it is there, at its two ends; later ones must not touch it. */
static void check_growth(void)
{
    enum { OBJECTS = 5 };
    const size_t len = 24 * MIB;
    char *objects[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = (char *)shmemx_malloc(len, SHMEMX_DEVICE);
        CHECK_OR_EXIT(objects[i] != NULL);
        put_byte(objects[i], (unsigned char)(10 * i + check_self.pe), next_pe());
        put_byte(objects[i] + len - 1, (unsigned char)(10 * i + check_self.pe + 1), next_pe());
        check_agrees((uint64_t)(objects[i] - objects[0]));
    }
    shmem_barrier_all();
    for (int i = 0; i < OBJECTS; i++) {
        CHECK_EQ(get_byte(objects[i], check_self.pe), 10 * i + previous_pe());
        CHECK_EQ(get_byte(objects[i] + len - 1, check_self.pe), 10 * i + previous_pe() + 1);
        CHECK_EQ(get_byte(objects[i], next_pe()), 10 * i + check_self.pe);
    }
    for (int i = 0; i < OBJECTS; i++)
        shmemx_free(objects[i]);
}

/* Refused with a sentence on stderr, and nothing is lost. */
static void check_exhaustion(void)
{
    CHECK(shmemx_malloc((size_t)15 << 40, SHMEMX_DEVICE) == NULL);
    CHECK(shmemx_calloc(SIZE_MAX / 2, 4, SHMEMX_DEVICE) == NULL);
    CHECK_HEAP();
    char *object = (char *)shmemx_malloc(1000, SHMEMX_DEVICE);
    CHECK_OR_EXIT(object != NULL);
    put_byte(object, 1, next_pe());
    shmemx_free(object);
}

/* ---- put and get against a model: on every PE, stripe i is written by PE i alone ---- */

struct plane {
    char *symmetric[2];     /* host, device: [npes] stripes */
    char *local[KINDS];     /* private, host heap, device heap: one stripe */
    unsigned char *model;   /* what this PE has written: [2][npes] stripes */
    unsigned char *scratch; /* one stripe */
};

static void plane_make(struct plane *p)
{
    size_t all = (size_t)check_self.npes * STRIPE;
    for (int k = 0; k < 2; k++)
        p->symmetric[k] = (char *)shmemx_calloc(all, 1, k);
    p->local[0] = (char *)malloc(STRIPE);
    for (int k = 0; k < 2; k++)
        p->local[1 + k] = (char *)shmemx_calloc(STRIPE, 1, k);
    p->model = (unsigned char *)calloc(2, all);
    p->scratch = (unsigned char *)malloc(STRIPE);
    CHECK_OR_EXIT(p->symmetric[0] != NULL && p->symmetric[1] != NULL && p->local[0] != NULL && p->local[1] != NULL);
    CHECK_OR_EXIT(p->local[2] != NULL && p->model != NULL && p->scratch != NULL);
    memset(p->local[0], 0, STRIPE);
}

static void plane_drop(struct plane *p)
{
    for (int k = 1; k >= 0; k--)
        shmemx_free(p->local[1 + k]);
    for (int k = 1; k >= 0; k--)
        shmemx_free(p->symmetric[k]);
    free(p->local[0]);
    free(p->model);
    free(p->scratch);
}

struct move {
    int kind;  /* of the symmetric side: 0 host, 1 device */
    int local; /* of the local side */
    int pe;
    size_t at, from, len; /* in the stripe, in the local object */
};

static struct move move_any(struct check_random *random)
{
    struct move m;
    m.kind = (int)check_random_below(random, 2);
    m.local = (int)check_random_below(random, KINDS);
    m.pe = (int)check_random_below(random, (size_t)check_self.npes);
    m.at = check_random_below(random, STRIPE);
    m.from = check_random_below(random, STRIPE);
    m.len = check_random_below(random, 1 + STRIPE - (m.at > m.from ? m.at : m.from));
    return m;
}

static char *stripe(const struct plane *p, const struct move *m)
{
    return p->symmetric[m->kind] + (size_t)check_self.pe * STRIPE + m->at;
}
static unsigned char *model(const struct plane *p, const struct move *m)
{
    return p->model + ((size_t)m->kind * (size_t)check_self.npes + (size_t)m->pe) * STRIPE + m->at;
}

/* What the local object holds, whatever it is made of. */
static void local_write(const struct plane *p, const struct move *m, const void *bytes)
{
    if (m->local == 0)
        memcpy(p->local[0] + m->from, bytes, m->len);
    else
        shmem_putmem(p->local[m->local] + m->from, bytes, m->len, check_self.pe);
}
static void local_read(const struct plane *p, const struct move *m, void *bytes)
{
    if (m->local == 0)
        memcpy(bytes, p->local[0] + m->from, m->len);
    else
        shmem_getmem(bytes, p->local[m->local] + m->from, m->len, check_self.pe);
}

static void put_once(struct plane *p, struct check_random *random, const struct move *m)
{
    check_random_fill(random, p->scratch, m->len);
    local_write(p, m, p->scratch);
    if (check_random_below(random, 2) != 0)
        shmem_putmem(stripe(p, m), p->local[m->local] + m->from, m->len, m->pe);
    else
        shmem_putmem_nbi(stripe(p, m), p->local[m->local] + m->from, m->len, m->pe);
    memcpy(model(p, m), p->scratch, m->len);
    shmem_quiet();
}

static void get_once(struct plane *p, const struct move *m)
{
    shmem_getmem(p->local[m->local] + m->from, stripe(p, m), m->len, m->pe);
    local_read(p, m, p->scratch);
    CHECK_BYTES(p->scratch, model(p, m), m->len);
}

/* Three of every five bytes in threes: strides in units of a byte. */
static void strided_once(struct plane *p, struct check_random *random, struct move *m)
{
    enum { N = 7, STRIDE = 3 };
    m->at %= STRIPE - 64;
    m->from %= STRIPE - 64;
    m->len = N;
    check_random_fill(random, p->scratch, N);
    local_write(p, m, p->scratch);
    shmem_iput8(stripe(p, m), p->local[m->local] + m->from, STRIDE, 1, N, m->pe);
    for (int i = 0; i < N; i++)
        model(p, m)[i * STRIDE] = p->scratch[i];
    shmem_iget8(p->local[m->local] + m->from, stripe(p, m), 1, STRIDE, N, m->pe);
    local_read(p, m, p->scratch);
    for (int i = 0; i < N; i++)
        CHECK_EQ(p->scratch[i], model(p, m)[i * STRIDE]);
}

static void check_moves(void)
{
    struct plane p;
    struct check_random random = check_random_stream(1000 + (uint64_t)check_self.pe);
    int rounds = (int)device_number("SHMEM_TEST_ROUNDS", 400);
    plane_make(&p);
    for (int i = 0; i < rounds; i++) {
        struct move m = move_any(&random);
        switch (check_random_below(&random, 4)) {
        case 0:
            get_once(&p, &m);
            break;
        case 1:
            strided_once(&p, &random, &m);
            break;
        default:
            put_once(&p, &random, &m);
            break;
        }
    }
    shmem_barrier_all();
    plane_drop(&p);
}

/* Longer than the stages of the copy agent, at odd addresses, from memory of every kind. */
static void check_long_copies(void)
{
    const size_t len = 5 * MIB + 4321;
    char *object = (char *)shmemx_malloc(len + 8, SHMEMX_DEVICE),
         *other = (char *)shmemx_malloc(len + 8, SHMEMX_DEVICE);
    char *out = (char *)malloc(len), *back = (char *)malloc(len);
    CHECK_OR_EXIT(object != NULL && other != NULL && out != NULL && back != NULL);
    check_fill(out, len, check_self.pe, next_pe(), 5);
    shmem_putmem(object + 3, out, len, next_pe());
    shmem_barrier_all();
    shmem_getmem(back, object + 3, len, check_self.pe);
    CHECK_FILLED(back, len, previous_pe(), check_self.pe, 5);
    shmem_getmem(other + 5, object + 3, len, next_pe()); /* device to device, then out */
    memset(back, 0, len);
    shmem_getmem(back, other + 5, len, check_self.pe);
    CHECK_FILLED(back, len, check_self.pe, next_pe(), 5);
    free(out);
    free(back);
    shmemx_free(other);
    shmemx_free(object);
}

/* ---- words ---- */

static void check_p_and_g(char *words)
{
    long *l = (long *)(void *)words;
    short *s = (short *)(void *)(words + 64);
    double *d = (double *)(void *)(words + 72);
    shmem_long_p(l, 1000 + check_self.pe, next_pe());
    shmem_short_p(s + 1, (short)(7 + check_self.pe), next_pe());
    shmem_double_p(d, 0.5 + check_self.pe, next_pe());
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(l, check_self.pe), 1000 + previous_pe());
    CHECK_EQ(shmem_short_g(s + 1, check_self.pe), 7 + previous_pe());
    CHECK(shmem_double_g(d, next_pe()) == 0.5 + check_self.pe);
    CHECK_EQ(shmem_long_test(l, SHMEM_CMP_EQ, 1000 + previous_pe()), 1);
    CHECK_EQ(shmem_long_test(l, SHMEM_CMP_LT, 1000 + previous_pe()), 0);
    CHECK_EQ(shmem_short_test(s + 1, SHMEM_CMP_GE, (short)(7 + previous_pe())), 1);
    shmem_barrier_all();
}

/* One stamp: a random walk of one word of the next PE that nobody else changes. */
#define WALK(NAME, TYPE)                                                                  \
    static void walk_##NAME(TYPE *word)                                                   \
    {                                                                                     \
        struct check_random random = check_random_stream(2000 + (uint64_t)check_self.pe); \
        TYPE now = (TYPE)check_random_next(&random);                                      \
        int pe = next_pe();                                                               \
        shmem_##NAME##_atomic_set(word, now, pe);                                         \
        for (int i = 0; i < 40; i++) {                                                    \
            TYPE v = (TYPE)check_random_next(&random), old = now, seen = now;             \
            switch (check_random_below(&random, 8)) {                                     \
            case 0:                                                                       \
                seen = shmem_##NAME##_atomic_fetch_add(word, v, pe);                      \
                now = (TYPE)(now + v);                                                    \
                break;                                                                    \
            case 1:                                                                       \
                seen = shmem_##NAME##_atomic_swap(word, v, pe);                           \
                now = v;                                                                  \
                break;                                                                    \
            case 2:                                                                       \
                seen = shmem_##NAME##_atomic_compare_swap(word, now, v, pe);              \
                now = v;                                                                  \
                break;                                                                    \
            case 3:                                                                       \
                seen = shmem_##NAME##_atomic_compare_swap(word, (TYPE)(now + 1), v, pe);  \
                break;                                                                    \
            case 4:                                                                       \
                seen = shmem_##NAME##_atomic_fetch_xor(word, v, pe);                      \
                now ^= v;                                                                 \
                break;                                                                    \
            case 5:                                                                       \
                seen = shmem_##NAME##_atomic_fetch_and(word, v, pe);                      \
                now &= v;                                                                 \
                break;                                                                    \
            case 6:                                                                       \
                seen = shmem_##NAME##_atomic_fetch_or(word, v, pe);                       \
                now |= v;                                                                 \
                break;                                                                    \
            default:                                                                      \
                shmem_##NAME##_atomic_inc(word, pe);                                      \
                now = (TYPE)(now + 1);                                                    \
                break;                                                                    \
            }                                                                             \
            CHECK(seen == old);                                                           \
        }                                                                                 \
        CHECK(shmem_##NAME##_atomic_fetch(word, pe) == now);                              \
    }
WALK(uint32, uint32_t)
WALK(uint64, uint64_t)

static void check_atomics(char *words)
{
    enum { TIMES = 25 };
    uint64_t *sum = (uint64_t *)(void *)words;
    uint32_t *small = (uint32_t *)(void *)(words + 8);
    uint64_t *large = (uint64_t *)(void *)(words + 16);
    shmem_uint64_atomic_set(sum, 0, check_self.pe);
    shmem_barrier_all();
    walk_uint32(small);
    walk_uint64(large);
    for (int i = 0; i < TIMES; i++)
        shmem_uint64_atomic_add(sum, (uint64_t)(1 + check_self.pe), 0);
    shmem_barrier_all();
    int n = check_self.npes;
    CHECK_EQ(shmem_uint64_atomic_fetch(sum, 0), (long long)TIMES * n * (n + 1) / 2);
    shmem_barrier_all();
}

/* Data and signal each of either kind: what the signal says is there. */
static void check_put_signal(char *device_words)
{
    enum { LEN = 3000, ROUNDS = 6 };
    uint64_t *host_words = (uint64_t *)shmem_calloc(WORDS, sizeof(uint64_t));
    char *data[2];
    char back[LEN], out[LEN];
    data[0] = (char *)shmem_malloc(LEN);
    data[1] = (char *)shmemx_malloc(LEN, SHMEMX_DEVICE);
    CHECK_OR_EXIT(host_words != NULL && data[0] != NULL && data[1] != NULL);
    for (unsigned combination = 0; combination < 4; combination++) {
        char *to = data[combination & 1];
        uint64_t *sig = (combination & 2) != 0 ? (uint64_t *)(void *)device_words + 4 : host_words + 4;
        shmem_uint64_atomic_set(sig, 0, check_self.pe);
        shmem_barrier_all();
        for (unsigned i = 1; i <= ROUNDS; i++) {
            int op = (i & 1) != 0 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD;
            check_fill(out, LEN, check_self.pe, next_pe(), i);
            shmem_putmem_signal(to, out, LEN, sig, op == SHMEM_SIGNAL_SET ? i : 1, op, next_pe());
            CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GE, i), i);
            CHECK_EQ(shmem_signal_fetch(sig), i);
            shmem_getmem(back, to, LEN, check_self.pe);
            CHECK_FILLED(back, LEN, previous_pe(), check_self.pe, i);
            shmem_barrier_all();
        }
    }
    shmemx_free(data[1]);
    shmem_free(data[0]);
    shmem_free(host_words);
}

static void check_waits(char *words)
{
    long *l = (long *)(void *)words, values[4] = {1, 2, 3, 4};
    size_t indices[4];
    int left_out[4] = {0, 1, 0, 0};
    for (int i = 0; i < 4; i++)
        shmem_long_p(l + i, 0, check_self.pe);
    shmem_barrier_all();
    CHECK(shmem_long_test_any(l, 4, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);
    CHECK_EQ(shmem_long_test_all(l, 4, NULL, SHMEM_CMP_NE, 0), 0);
    shmem_barrier_all();
    shmem_long_p(l + 2, 3, next_pe());
    shmem_long_wait_until(l + 2, SHMEM_CMP_EQ, 3);
    CHECK_EQ(shmem_long_wait_until_any(l, 4, NULL, SHMEM_CMP_NE, 0), 2);
    CHECK_EQ(shmem_long_wait_until_some(l, 4, indices, left_out, SHMEM_CMP_NE, 0), 1);
    CHECK_EQ(indices[0], 2);
    shmem_barrier_all();
    for (int i = 0; i < 4; i++)
        shmem_signal_set((uint64_t *)(void *)(l + i), (uint64_t)(i + 1), next_pe());
    shmem_long_wait_until_all_vector(l, 4, NULL, SHMEM_CMP_EQ, values);
    CHECK_EQ(shmem_long_test_all_vector(l, 4, NULL, SHMEM_CMP_EQ, values), 1);
    CHECK_EQ(shmem_long_test_some(l, 4, indices, left_out, SHMEM_CMP_NE, 0), 3);
    shmem_barrier_all();
}

static void check_words(void)
{
    char *words = (char *)shmemx_calloc(WORDS, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(words != NULL);
    check_p_and_g(words);
    check_atomics(words);
    check_put_signal(words);
    check_waits(words);
    shmemx_free(words);
}

static void check_texts(void)
{
    char line[256], *text = (char *)malloc(100000);
    CHECK(shmemx_device_text(line, sizeof(line)) > 0 && strstr(line, "shared by") != NULL);
    CHECK_OR_EXIT(text != NULL);
    CHECK(shmemx_info_text(text, 100000) > 0 && strstr(text, "memory is shared by") != NULL);
    CHECK(shmemx_doctor_text(text, 100000) > 0 && strstr(text, "this PE uses") != NULL);
    free(text);
}

static void check_everything(void)
{
    CHECK_EQ(shmemx_device_init(), 0); /* once more: nothing happens */
    check_kinds();
    check_zeroed();
    check_growth();
    check_exhaustion();
    check_long_copies();
    check_words();
    check_moves();
    check_texts();
}

static int test_main(void)
{
    DEVICE_INIT();
    check_everything();
    if (!CHECK_PES_ARE_THREADS) { /* a second life */
        shmem_barrier_all();
        shmem_finalize();
        shmem_init();
        CHECK_EQ(shmemx_device_init(), 0);
        check_kinds();
        check_words();
    }
    return CHECK_DONE();
}

CHECK_MAIN(test_main)
