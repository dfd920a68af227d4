/* SPDX-License-Identifier: MIT */
/* What members of a collective on a stream have in their sources, and what must come out of it: values of every way in
 * which elements are kept, made from (PE, round, place), and a serial reference. Integers have all bits and wrap;
 * floating ones are such that sums round, and are combined in the order of members, short formats in float with one
 * rounding at the end, which is what shmemx_coll.h promises: so results are compared bit by bit, and what equals the
 * reference is equal on all members and by every algorithm. Products of complex numbers are exact (of small integers),
 * since compilers may fuse their multiplications. No value is zero or NaN where min and max might differ about it. */
#ifndef COLL_VALUES_H
#define COLL_VALUES_H

#include "device_test.h"

#include <math.h>

enum { VALUES_TYPES = SHMEMX_BOOL + 1, VALUES_OPS = SHMEMX_SCALED_SUM + 1, VALUES_CHUNK = 512 };
enum values_class {
    VALUES_UNSIGNED,
    VALUES_SIGNED,
    VALUES_BOOL, /* the last that is an integer */
    VALUES_HALF,
    VALUES_BFLOAT,
    VALUES_E4M3,
    VALUES_E5M2, /* the last that is combined in float and rounded */
    VALUES_FLOAT,
    VALUES_DOUBLE
};

struct values_type {
    const char *name;
    size_t bytes; /* of an element */
    enum values_class scalars;
    size_t parts; /* scalars of an element: 2 of complex numbers */
};

static const struct values_type values_types[VALUES_TYPES] = {
    {"uint8", 1, VALUES_UNSIGNED, 1},  {"int8", 1, VALUES_SIGNED, 1},     {"uint16", 2, VALUES_UNSIGNED, 1},
    {"int16", 2, VALUES_SIGNED, 1},    {"uint32", 4, VALUES_UNSIGNED, 1}, {"int32", 4, VALUES_SIGNED, 1},
    {"uint64", 8, VALUES_UNSIGNED, 1}, {"int64", 8, VALUES_SIGNED, 1},    {"float", 4, VALUES_FLOAT, 1},
    {"double", 8, VALUES_DOUBLE, 1},   {"half", 2, VALUES_HALF, 1},       {"bfloat16", 2, VALUES_BFLOAT, 1},
    {"complexf", 8, VALUES_FLOAT, 2},  {"complexd", 16, VALUES_DOUBLE, 2},  {"float8_e4m3", 1, VALUES_E4M3, 1},
    {"float8_e5m2", 1, VALUES_E5M2, 1}, {"bool", 1, VALUES_BOOL, 1}};
/* How short floats are kept: the rest is the sign and the exponent. By class; C++ has no designators. */
static const struct values_short {
    int fraction_bits, bias;
    unsigned largest, nan; /* codes without sign: of infinity, or the largest number where there is none; of NaN */
} values_shorts[VALUES_E5M2 + 1] = {
    {0, 0, 0, 0},       {0, 0, 0, 0},       {0, 0, 0, 0}, {10, 15, 0x7c00, 0x7e00}, {7, 127, 0x7f80, 0x7fc0},
    {3, 7, 0x7e, 0x7f}, {2, 15, 0x7c, 0x7f}};
static const char *const values_op_names[VALUES_OPS] = {"sum", "prod", "min", "max",       "and",
                                                        "or",  "xor",  "avg", "scaled sum"};
#define VALUES_SCALE 0.3 /* of a scaled sum: no power of two */

static inline bool values_is_integer(const struct values_type *t) { return t->scalars <= VALUES_BOOL; }
static inline bool values_is_short(const struct values_type *t)
{
    return t->scalars > VALUES_BOOL && t->scalars <= VALUES_E5M2;
}
static inline bool values_has_op(int type, int op)
{
    const struct values_type *t = &values_types[type];
    if (op >= SHMEMX_AVG)
        return !values_is_integer(t) && t->parts == 1;
    return op <= SHMEMX_PROD || (op <= SHMEMX_MAX && t->parts == 1) || values_is_integer(t);
}

/* ---- sources ---- */

static inline uint64_t values_word(int pe, unsigned round, uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + ((uint64_t)round << 8 | (unsigned)pe) * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Bytes at .. at + len - 1 of what PE `pe` has in its source. */
static inline void values_bytes(int pe, unsigned round, size_t at, size_t len, unsigned char *out)
{
    while (len > 0) {
        uint64_t word = values_word(pe, round, at / 8);
        size_t skip = at % 8, n = 8 - skip < len ? 8 - skip : len;
        memcpy(out, (const unsigned char *)&word + skip, n);
        out += n;
        at += n;
        len -= n;
    }
}

/* Sign, an exponent about that of 1 and a random fraction, by the width of the fraction in bits. */
static inline uint64_t values_float_bits(uint64_t word, unsigned fraction, unsigned bias, int op)
{
    uint64_t sign = word >> 63, spread = op == SHMEMX_PROD ? word >> 60 & 1 : word >> 60 & 7;
    unsigned exponent = op == SHMEMX_PROD ? bias - (unsigned)spread : bias + 3 - (unsigned)spread;
    unsigned bits = fraction == 52 ? 63 : fraction <= 3 ? 7 : fraction <= 10 ? 15 : 31;
    return sign << bits | (uint64_t)exponent << fraction | (word & (((uint64_t)1 << fraction) - 1));
}

/* Scalar i of a floating source. */
static inline void values_scalar(const struct values_type *t, int op, int pe, unsigned round, size_t i,
                                 unsigned char *out)
{
    uint64_t word = values_word(pe, round, i), bits;
    if (t->parts == 2 && op == SHMEMX_PROD) {
        double d = (double)(word % 3) - 1;
        float f = (float)d;
        memcpy(out, t->scalars == VALUES_FLOAT ? (const void *)&f : (const void *)&d, t->bytes / 2);
        return;
    }
    if (values_is_short(t)) {
        const struct values_short *s = &values_shorts[t->scalars];
        bits = values_float_bits(word, (unsigned)s->fraction_bits, (unsigned)s->bias, op);
    } else
        bits = t->scalars == VALUES_FLOAT ? values_float_bits(word, 23, 127, op)
                                          : values_float_bits(word, 52, 1023, op);
    memcpy(out, &bits, t->bytes / t->parts); /* little endian, as all of our devices */
}

/* Elements first .. first + n - 1 of what PE `pe` has in its source of a reduction. */
static inline void values_make(const struct values_type *t, int op, int pe, unsigned round, size_t first, size_t n,
                               unsigned char *out)
{
    size_t each = t->bytes / t->parts;
    if (values_is_integer(t)) {
        values_bytes(pe, round, first * t->bytes, n * t->bytes, out);
        for (size_t i = 0; i < n && t->scalars == VALUES_BOOL; i++)
            out[i] = (out[i] & 7) != 0; /* mostly 1 */
        return;
    }
    for (size_t i = 0; i < n * t->parts; i++)
        values_scalar(t, op, pe, round, first * t->parts + i, out + i * each);
}

/* ---- the reference: a chunk of scalars, decoded, folded, encoded ---- */

union values_chunk {
    uint64_t u[VALUES_CHUNK];
    float f[VALUES_CHUNK];
    double d[VALUES_CHUNK];
};

static inline float values_from_short(const struct values_short *s, unsigned code, unsigned sign)
{
    int exponent = (int)(code >> s->fraction_bits), fraction = (int)(code & ((1u << s->fraction_bits) - 1));
    float f = exponent != 0 ? ldexpf((float)((1 << s->fraction_bits) + fraction), exponent - s->bias - s->fraction_bits)
                            : ldexpf((float)fraction, 1 - s->bias - s->fraction_bits);
    bool has_infinity = s->largest + 1 != s->nan;
    if (code > s->largest)
        f = NAN;
    else if (code == s->largest && has_infinity)
        f = INFINITY;
    return sign != 0 ? -f : f;
}
/* Rounds to nearest, ties to even, by the host's own rounding to whole numbers. A code without sign. */
static inline unsigned values_to_short(const struct values_short *s, float f)
{
    float size = fabsf(f);
    unsigned code;
    int exponent;
    if (isnan(f) || isinf(f))
        return isnan(f) ? s->nan : s->largest;
    if (size == 0)
        return 0;
    (void)frexpf(size, &exponent);
    exponent = exponent - 1 < 1 - s->bias ? 1 - s->bias : exponent - 1;
    code = (unsigned)(((exponent - 1 + s->bias) << s->fraction_bits) +
                      (int)nearbyintf(ldexpf(size, s->fraction_bits - exponent)));
    return code > s->largest ? s->largest : code;
}

static inline void values_decode(const struct values_type *t, const unsigned char *from, size_t n,
                                 union values_chunk *c)
{
    size_t each = t->bytes / t->parts;
    unsigned unused = 64 - 8 * (unsigned)each;
    for (size_t i = 0; i < n; i++, from += each) {
        unsigned bits = 0, sign = 1u << (8 * each - 1) % 32;
        if (values_is_integer(t)) {
            c->u[i] = 0;
            memcpy(&c->u[i], from, each);
            if (t->scalars == VALUES_SIGNED)
                c->u[i] = (uint64_t)((int64_t)(c->u[i] << unused) >> unused);
        } else if (values_is_short(t)) {
            memcpy(&bits, from, each);
            c->f[i] = values_from_short(&values_shorts[t->scalars], bits & (sign - 1), bits & sign);
        } else
            memcpy(t->scalars == VALUES_FLOAT ? (void *)&c->f[i] : (void *)&c->d[i], from, each);
    }
}
static inline void values_encode(const struct values_type *t, const union values_chunk *c, size_t n, unsigned char *to)
{
    size_t each = t->bytes / t->parts;
    for (size_t i = 0; i < n; i++, to += each) {
        if (values_is_short(t)) {
            unsigned bits = values_to_short(&values_shorts[t->scalars], c->f[i]);
            bits |= signbit(c->f[i]) ? 1u << (8 * each - 1) : 0;
            memcpy(to, &bits, each);
        } else
            memcpy(to,
                   t->scalars == VALUES_FLOAT    ? (const void *)&c->f[i]
                   : t->scalars == VALUES_DOUBLE ? (const void *)&c->d[i]
                                                 : (const void *)&c->u[i],
                   each);
    }
}

static inline uint64_t values_fold_word(int op, bool is_signed, uint64_t a, uint64_t b)
{
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case SHMEMX_SUM:
        return a + b;
    case SHMEMX_PROD:
        return a * b;
    case SHMEMX_MIN:
        return less ? a : b;
    case SHMEMX_MAX:
        return less ? b : a;
    case SHMEMX_AND:
        return a & b;
    case SHMEMX_OR:
        return a | b;
    default:
        return a ^ b;
    }
}
#define VALUES_FOLD(T, op, a, b)                           \
    ((T)((op) == SHMEMX_SUM                    ? (a) + (b) \
         : (op) == SHMEMX_PROD                 ? (a) * (b) \
         : ((op) == SHMEMX_MIN) == ((a) < (b)) ? (a)       \
                                               : (b)))
/* (a + bi)(c + di), exact */
#define VALUES_FOLD_COMPLEX(T, at, by)                   \
    do {                                                 \
        T real_ = (at)[0] * (by)[0] - (at)[1] * (by)[1]; \
        (at)[1] = (at)[0] * (by)[1] + (at)[1] * (by)[0]; \
        (at)[0] = real_;                                 \
    } while (0)

/* c becomes c op next, scalar by scalar. */
static inline void values_fold(const struct values_type *t, int op, union values_chunk *c,
                               const union values_chunk *next, size_t n)
{
    bool is_product = t->parts == 2 && op == SHMEMX_PROD;
    for (size_t i = 0; i < n; i += is_product ? 2 : 1) {
        if (values_is_integer(t))
            c->u[i] = values_fold_word(t->scalars == VALUES_BOOL && op == SHMEMX_SUM ? SHMEMX_OR : op,
                                       t->scalars == VALUES_SIGNED, c->u[i], next->u[i]);
        else if (t->scalars == VALUES_DOUBLE && is_product)
            VALUES_FOLD_COMPLEX(double, &c->d[i], &next->d[i]);
        else if (t->scalars == VALUES_DOUBLE)
            c->d[i] = VALUES_FOLD(double, op, c->d[i], next->d[i]);
        else if (is_product)
            VALUES_FOLD_COMPLEX(float, &c->f[i], &next->f[i]);
        else
            c->f[i] = VALUES_FOLD(float, op, c->f[i], next->f[i]);
    }
}

/* How single elements are combined. */
static inline int values_folded(int op) { return op >= SHMEMX_AVG ? SHMEMX_SUM : op; }
/* What happens to the sum of all members, before it is rounded. */
static inline void values_scale(const struct values_type *t, int op, int members, union values_chunk *c, size_t n)
{
    for (size_t i = 0; op >= SHMEMX_AVG && i < n; i++)
        if (t->scalars == VALUES_DOUBLE)
            c->d[i] = op == SHMEMX_AVG ? c->d[i] / members : c->d[i] * VALUES_SCALE;
        else
            c->f[i] = op == SHMEMX_AVG ? c->f[i] / (float)members : c->f[i] * (float)VALUES_SCALE;
}

/* Elements first .. first + n - 1 of all members' sources, combined in the order of `world`, their numbers there. */
static inline void values_reduce_as(const struct values_type *as, int type, int op, const int *world, int members,
                                    unsigned round, size_t first, size_t n, unsigned char *out)
{
    const struct values_type *t = &values_types[type];
    unsigned char bytes[VALUES_CHUNK * 8];
    union values_chunk sum, next;
    size_t most = VALUES_CHUNK / t->parts;
    for (size_t at = 0; at < n; at += most) {
        size_t some = n - at < most ? n - at : most;
        for (int m = 0; m < members; m++) {
            values_make(t, op, world[m], round, first + at, some, bytes);
            values_decode(t, bytes, some * t->parts, m == 0 ? &sum : &next);
            if (m > 0)
                values_fold(t, values_folded(op), &sum, &next, some * t->parts);
        }
        values_scale(t, op, members, &sum, some);
        values_encode(as, &sum, some * t->parts, out + at * as->bytes);
    }
}
static inline void values_reduce(int type, int op, const int *world, int members, unsigned round, size_t first,
                                 size_t n, unsigned char *out)
{
    values_reduce_as(&values_types[type], type, op, world, members, round, first, n, out);
}

#endif
