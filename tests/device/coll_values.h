/* SPDX-License-Identifier: MIT */
/* What members of a collective on a stream have in their sources, and what must come out of it: values of every way in
 * which elements are kept, made from (PE, round, place), and a serial reference. Integers have all bits and wrap;
 * floating ones are such that sums round, and are combined in the order of members, 16-bit formats in float with one
 * rounding at the end, which is what shmemx_coll.h promises: so results are compared bit by bit, and what equals the
 * reference is equal on all members and by every algorithm. Products of complex numbers are exact (of small integers),
 * since compilers may fuse their multiplications. No value is zero or NaN where min and max might differ about it. */
#ifndef COLL_VALUES_H
#define COLL_VALUES_H

#include "device_test.h"

#include <math.h>

enum { VALUES_TYPES = SHMEMX_COMPLEXD + 1, VALUES_OPS = SHMEMX_SCALED_SUM + 1, VALUES_CHUNK = 512 };
enum values_class { VALUES_UNSIGNED, VALUES_SIGNED, VALUES_HALF, VALUES_BFLOAT, VALUES_FLOAT, VALUES_DOUBLE };

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
    {"complexf", 8, VALUES_FLOAT, 2},  {"complexd", 16, VALUES_DOUBLE, 2}};
static const char *const values_op_names[VALUES_OPS] = {"sum", "prod", "min", "max",       "and",
                                                        "or",  "xor",  "avg", "scaled sum"};
#define VALUES_SCALE 0.3 /* of a scaled sum: no power of two */

static inline bool values_is_integer(const struct values_type *t) { return t->scalars <= VALUES_SIGNED; }
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
    unsigned bits = fraction == 52 ? 63 : fraction == 10 || fraction == 7 ? 15 : 31;
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
    bits = t->scalars == VALUES_HALF     ? values_float_bits(word, 10, 15, op)
           : t->scalars == VALUES_BFLOAT ? values_float_bits(word, 7, 127, op)
           : t->scalars == VALUES_FLOAT  ? values_float_bits(word, 23, 127, op)
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

static inline float values_from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    float f = exponent != 0 ? ldexpf((float)(1024 + (bits & 1023)), exponent - 25) : ldexpf((float)(bits & 1023), -24);
    if (exponent == 31)
        f = (bits & 1023) != 0 ? NAN : INFINITY;
    return (bits & 0x8000) != 0 ? -f : f;
}
/* Rounds to nearest, ties to even, by the host's own rounding to whole numbers. */
static inline uint16_t values_to_half(float f)
{
    uint16_t sign = signbit(f) ? 0x8000 : 0;
    float size = fabsf(f);
    int exponent;
    if (size >= 65520.0f)
        return (uint16_t)(sign | 0x7c00);
    if (size == 0)
        return sign;
    (void)frexpf(size, &exponent);
    exponent = exponent - 1 < -14 ? -14 : exponent - 1;
    return (uint16_t)(sign | (unsigned)(((exponent + 14) << 10) + (int)nearbyintf(ldexpf(size, 10 - exponent))));
}
static inline float values_from_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
}
static inline uint16_t values_to_bfloat(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void values_decode(const struct values_type *t, const unsigned char *from, size_t n,
                                 union values_chunk *c)
{
    size_t each = t->bytes / t->parts;
    unsigned unused = 64 - 8 * (unsigned)each;
    uint16_t bits;
    for (size_t i = 0; i < n; i++, from += each) {
        if (t->scalars <= VALUES_SIGNED) {
            c->u[i] = 0;
            memcpy(&c->u[i], from, each);
            if (t->scalars == VALUES_SIGNED)
                c->u[i] = (uint64_t)((int64_t)(c->u[i] << unused) >> unused);
        } else if (t->scalars <= VALUES_BFLOAT) {
            memcpy(&bits, from, 2);
            c->f[i] = t->scalars == VALUES_HALF ? values_from_half(bits) : values_from_bfloat(bits);
        } else
            memcpy(t->scalars == VALUES_FLOAT ? (void *)&c->f[i] : (void *)&c->d[i], from, each);
    }
}
static inline void values_encode(const struct values_type *t, const union values_chunk *c, size_t n, unsigned char *to)
{
    size_t each = t->bytes / t->parts;
    uint16_t bits;
    for (size_t i = 0; i < n; i++, to += each) {
        if (t->scalars == VALUES_HALF || t->scalars == VALUES_BFLOAT) {
            bits = t->scalars == VALUES_HALF ? values_to_half(c->f[i]) : values_to_bfloat(c->f[i]);
            memcpy(to, &bits, 2);
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
            c->u[i] = values_fold_word(op, t->scalars == VALUES_SIGNED, c->u[i], next->u[i]);
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
static inline void values_reduce(int type, int op, const int *world, int members, unsigned round, size_t first,
                                 size_t n, unsigned char *out)
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
        values_encode(t, &sum, some * t->parts, out + at * t->bytes);
    }
}

#endif
