/* SPDX-License-Identifier: MIT */
/* Two 16-bit floating-point formats, binary16 and the upper half of binary32, and two of 8 bits, e4m3 and e5m2, to and
 * from float: by instructions where prim.h has them, else by integer code. Rounds to nearest even, keeps the sign of
 * zero and infinities, subnormals are right even where float's are flushed to zero; a NaN stays a NaN, quiet, by
 * integer code of the same sign. Includes: prim.h. Used by reductions and by the user's kernels. */
#ifndef ISO_HALF_DEVICE_H
#define ISO_HALF_DEVICE_H

#include "prim.h"

PRIM_FN uint32_t isod_float_bits(float f)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof(bits));
    return bits;
}
PRIM_FN float isod_float_of_bits(uint32_t bits)
{
    float f;
    __builtin_memcpy(&f, &bits, sizeof(f));
    return f;
}

/* ---- binary16: 1 sign, 5 exponent (bias 15), 10 fraction ---- */

PRIM_FN float isod_half_to_float(uint16_t half)
{
#ifdef PRIM_HAS_HALF
    return prim_half_to_float(half);
#else
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity; NaN, with the quiet bit */
        return isod_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0u));
    if (rest >= 0x400u)
        return isod_float_of_bits(sign | ((rest << 13) + (112u << 23)));
    float subnormal = (float)rest * 5.9604644775390625e-08f; /* 2^-24, exact */
    return isod_float_of_bits(sign | isod_float_bits(subnormal));
#endif
}

PRIM_FN uint16_t isod_half_from_float(float f)
{
#ifdef PRIM_HAS_HALF
    return prim_half_from_float(f);
#else
    uint32_t bits = isod_float_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* below 2^-14: the adder rounds, since an ulp of 0.5 is 2^-24 */
        float magic = isod_float_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (isod_float_bits(magic) - 0x3f000000u));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | ((rest - (112u << 23)) >> 13));
#endif
}

/* ---- the upper half of binary32 ---- */

PRIM_FN float isod_bfloat16_to_float(uint16_t b) { return isod_float_of_bits((uint32_t)b << 16); }

PRIM_FN uint16_t isod_bfloat16_from_float(float f)
{
#ifdef PRIM_HAS_BFLOAT16
    return prim_bfloat16_from_float(f);
#else
    uint32_t bits = isod_float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

/* ---- 8 bits, as torch.float8_e4m3fn and torch.float8_e5m2 have them ---- */

/* 1 sign, 4 exponent (bias 7), 3 fraction: no infinity, the largest number is 448, and all ones are NaN. */
PRIM_FN float isod_e4m3_to_float(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80u) << 24, rest = b & 0x7fu;
    float subnormal = (float)rest * 0.001953125f; /* 2^-9, exact */
    uint32_t bits = rest >= 8 ? (rest << 20) + (120u << 23) : isod_float_bits(subnormal);
    return isod_float_of_bits(sign | (rest == 0x7fu ? 0x7ff00000u : bits));
}

/* Saturates: what is larger than 448, an infinity too, becomes 448. */
PRIM_FN uint8_t isod_e4m3_from_float(float f)
{
#ifdef PRIM_HAS_E4M3
    return prim_e4m3_from_float(f);
#else
    uint32_t bits = isod_float_bits(f), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    if (rest >= 0x43e00000u)
        return (uint8_t)(sign | (rest > 0x7f800000u ? 0x7fu : 0x7eu));
    if (rest < 0x3c800000u) { /* below 2^-6: an ulp of 2^14 is 2^-9 */
        float magic = isod_float_of_bits(rest) + 16384.0f;
        return (uint8_t)(sign | (isod_float_bits(magic) - 0x46800000u));
    }
    rest += 0x7ffffu + (rest >> 20 & 1u);
    return (uint8_t)(sign | ((rest - (120u << 23)) >> 20));
#endif
}

/* The upper half of binary16. */
PRIM_FN float isod_e5m2_to_float(uint8_t b) { return isod_half_to_float((uint16_t)(b << 8)); }

/* 61440 and more become infinity. */
PRIM_FN uint8_t isod_e5m2_from_float(float f)
{
    uint32_t bits = isod_float_bits(f), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    if (rest >= 0x47700000u)
        return (uint8_t)(sign | (rest > 0x7f800000u ? 0x7fu : 0x7cu));
    if (rest < 0x38800000u) { /* below 2^-14: an ulp of 2^7 is 2^-16 */
        float magic = isod_float_of_bits(rest) + 128.0f;
        return (uint8_t)(sign | (isod_float_bits(magic) - 0x43000000u));
    }
    rest += 0xfffffu + (rest >> 21 & 1u);
    return (uint8_t)(sign | ((rest - (112u << 23)) >> 21));
}

#endif
