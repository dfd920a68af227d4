/* SPDX-License-Identifier: MIT */
/* Conversions of the short formats in kernels, which a target may have instructions for, beside those of the host:
 * floats of every exponent with fractions around all places where the formats round, and every code back. */
#include "coll_values.h"

#include <math.h>

enum { THREADS = 128, BLOCKS = 4, FRACTIONS = 1 << 10, FLOATS = 512 * FRACTIONS, CODES = 1 << 16, FORMATS = 4 };
static const int formats[FORMATS] = {SHMEMX_HALF, SHMEMX_BFLOAT16, SHMEMX_FLOAT8_E4M3, SHMEMX_FLOAT8_E5M2};

struct convert_args {
    const float *floats; /* [FLOATS] */
    uint16_t *codes;     /* [FORMATS][FLOATS] */
    float *back;         /* [FORMATS][CODES] */
};

SHMEMD_KERNEL(convert, struct convert_args, a)
{
    size_t first = (size_t)shmemd_block_index() * shmemd_block_size() + shmemd_thread_index();
    size_t step = (size_t)shmemd_block_count() * shmemd_block_size();
    for (size_t i = first; i < FLOATS; i += step) {
        a.codes[i] = isod_half_from_float(a.floats[i]);
        a.codes[FLOATS + i] = isod_bfloat16_from_float(a.floats[i]);
        a.codes[2 * (size_t)FLOATS + i] = isod_e4m3_from_float(a.floats[i]);
        a.codes[3 * (size_t)FLOATS + i] = isod_e5m2_from_float(a.floats[i]);
    }
    for (size_t i = first; i < CODES; i += step) {
        a.back[i] = isod_half_to_float((uint16_t)i);
        a.back[CODES + i] = isod_bfloat16_to_float((uint16_t)i);
        a.back[2 * (size_t)CODES + i] = isod_e4m3_to_float((uint8_t)i);
        a.back[3 * (size_t)CODES + i] = isod_e5m2_to_float((uint8_t)i);
    }
}

/* A half: the upper bits random, below them all ones, all zeros or one around half of what some format drops. */
static float float_of(struct check_random *random, unsigned i)
{
    static const unsigned dropped[] = {13, 16, 20, 21};
    unsigned bits = dropped[check_random_below(random, 4)], half = 1u << (bits - 1);
    unsigned lower = half + (unsigned)check_random_below(random, 3) - 1;
    unsigned fraction = ((unsigned)check_random_below(random, 1u << 23) >> bits << bits) + lower;
    if (check_random_below(random, 8) == 0)
        fraction = (unsigned)check_random_below(random, 2) == 0 ? 0 : 0x7fffffu;
    uint32_t whole = (i / FRACTIONS) << 23 | (fraction & 0x7fffffu);
    float f;
    memcpy(&f, &whole, sizeof f);
    return f;
}

static float decoded(int type, const unsigned char *code)
{
    union values_chunk c;
    values_decode(&values_types[type], code, 1, &c);
    return c.f[0];
}

static void check_codes(int type, const float *floats, const uint16_t *codes)
{
    int wrong = 0;
    for (size_t i = 0; i < FLOATS; i++) {
        union values_chunk c;
        uint16_t expected = 0, seen = codes[i];
        c.f[0] = floats[i];
        values_encode(&values_types[type], &c, 1, (unsigned char *)&expected);
        if (isnan(floats[i]) ? !isnan(decoded(type, (const unsigned char *)&seen)) : seen != expected)
            wrong += wrong < 5 ? (fprintf(stderr, "%s of %a: expected 0x%x, seen 0x%x\n", values_types[type].name,
                                          (double)floats[i], expected, seen), 1) : 1;
    }
    CHECK_EQ_NAMED(wrong, 0, values_types[type].name);
}

static void check_back(int type, const float *back)
{
    int wrong = 0;
    for (unsigned code = 0; code < (values_types[type].bytes == 2 ? 65536u : 256u); code++) {
        const uint16_t bits = (uint16_t)code;
        float expected = decoded(type, (const unsigned char *)&bits);
        wrong += isnan(expected) ? !isnan(back[code]) : memcmp(&expected, &back[code], sizeof expected) != 0;
    }
    CHECK_EQ_NAMED(wrong, 0, values_types[type].name);
}

static int test_main(void)
{
    DEVICE_INIT();
    struct check_random random = check_random_stream(0);
    size_t codes_bytes = (size_t)FORMATS * FLOATS * sizeof(uint16_t),
           back_bytes = (size_t)FORMATS * CODES * sizeof(float);
    float *floats = (float *)malloc(FLOATS * sizeof *floats), *back = (float *)malloc(back_bytes);
    uint16_t *codes = (uint16_t *)malloc(codes_bytes);
    struct convert_args a = {(float *)shmemx_malloc(FLOATS * sizeof *floats, SHMEMX_DEVICE),
                             (uint16_t *)shmemx_malloc(codes_bytes, SHMEMX_DEVICE),
                             (float *)shmemx_malloc(back_bytes, SHMEMX_DEVICE)};
    CHECK_OR_EXIT(floats != NULL && back != NULL && codes != NULL && a.floats != NULL && a.codes != NULL &&
                  a.back != NULL);
    for (unsigned i = 0; i < FLOATS; i++)
        floats[i] = float_of(&random, i);
    device_write((void *)(uintptr_t)a.floats, floats, FLOATS * sizeof *floats);
    CHECK_EQ(shmemx_launch(SHMEMX_KERNEL(convert), BLOCKS, THREADS, 0, &a, sizeof a, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    device_read(codes, a.codes, codes_bytes);
    device_read(back, a.back, back_bytes);
    for (int f = 0; f < FORMATS; f++) {
        check_codes(formats[f], floats, codes + (size_t)f * FLOATS);
        check_back(formats[f], back + (size_t)f * CODES);
    }
    free(codes);
    free(back);
    free(floats);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
