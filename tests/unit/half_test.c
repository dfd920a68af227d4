/* SPDX-License-Identifier: MIT */
/* The short floating-point formats of kernels against their definition: all values there and back, and the float in the
 * middle of any two neighbours with the floats beside it. */
#include "../../device/api/half_device.h"
#include "../check.h"

#include <math.h>

struct short_format {
    const char *name;
    int fraction_bits, bias;
    unsigned codes;    /* without the sign */
    unsigned infinity; /* its code, or that of NaN where the format has none */
    unsigned beyond;   /* what numbers become that are too large */
    float (*to)(uint16_t);
    uint16_t (*from)(float);
};
static float f16_to(uint16_t x) { return isod_half_to_float(x); }
static uint16_t f16_from(float x) { return isod_half_from_float(x); }
static float bf16_to(uint16_t x) { return isod_bfloat16_to_float(x); }
static uint16_t bf16_from(float x) { return isod_bfloat16_from_float(x); }
static float e4m3_to(uint16_t x) { return isod_e4m3_to_float((uint8_t)x); }
static uint16_t e4m3_from(float x) { return isod_e4m3_from_float(x); }
static float e5m2_to(uint16_t x) { return isod_e5m2_to_float((uint8_t)x); }
static uint16_t e5m2_from(float x) { return isod_e5m2_from_float(x); }
static const struct short_format formats[] = {{"half", 10, 15, 0x8000, 0x7c00, 0x7c00, f16_to, f16_from},
                                              {"bfloat16", 7, 127, 0x8000, 0x7f80, 0x7f80, bf16_to, bf16_from},
                                              {"e4m3", 3, 7, 0x80, 0x7f, 0x7e, e4m3_to, e4m3_from},
                                              {"e5m2", 2, 15, 0x80, 0x7c, 0x7c, e5m2_to, e5m2_from}};

/* value = fraction * 2^(exponent - bias - fraction bits), by definition. e4m3 has all ones as NaN, and no infinity. */
static double value_of(const struct short_format *f, unsigned bits)
{
    unsigned code = bits & (f->codes - 1), fraction = code & ((1u << f->fraction_bits) - 1);
    int exponent = (int)(code >> f->fraction_bits);
    bool has_infinity = f->infinity + 1 != f->codes;
    double x = exponent == 0 ? ldexp(fraction, 1 - f->bias - f->fraction_bits)
                             : ldexp(fraction + (1 << f->fraction_bits), exponent - f->bias - f->fraction_bits);
    if (code >= f->infinity)
        x = code == f->infinity && has_infinity ? HUGE_VAL : NAN;
    return (bits & f->codes) != 0 ? -x : x;
}

/* All values there and back, NaNs stay NaNs. */
static bool is_right(const struct short_format *f, uint16_t bits)
{
    double x = value_of(f, bits);
    float y = f->to(bits);
    if (isnan(x))
        return isnan(y) && isnan(f->to(f->from(y))) && (f->from(y) & f->codes) == (bits & f->codes);
    return (double)y == x && f->from(y) == bits && (signbit(y) != 0) == (signbit(x) != 0);
}

/* Between two neighbours the middle goes to the even one, what is beside it to the nearer one: with all codes, that is
 * all floats, since rounding is monotone. The largest one's upper neighbour is where infinity begins: the number that
 * its code would be; where there is none, all of them stay the largest one. */
static bool rounds_right(const struct short_format *f, uint16_t lower)
{
    unsigned next = lower + 1u, fraction = next & ((1u << f->fraction_bits) - 1);
    double a = value_of(f, lower);
    double b = next == f->infinity ? ldexp(fraction + (1 << f->fraction_bits),
                                           (int)(next >> f->fraction_bits) - f->bias - f->fraction_bits)
                                   : value_of(f, next);
    float middle = (float)((a + b) / 2);
    if ((double)middle != (a + b) / 2) /* no float between */
        return true;
    if (next == f->infinity && f->beyond == lower)
        next = lower;
    uint16_t even = (uint16_t)((lower & 1) == 0 ? lower : next);
    return f->from(middle) == even && f->from(nextafterf(middle, 0)) == lower &&
           f->from(nextafterf(middle, INFINITY)) == next && f->from(-middle) == (even | f->codes);
}

static void test_format(const struct short_format *f)
{
    int wrong = 0;
    for (unsigned bits = 0; bits < 2 * f->codes; bits++)
        wrong += !is_right(f, (uint16_t)bits);
    CHECK_EQ(wrong, 0);
    for (uint16_t bits = 0; bits < f->infinity; bits++)
        wrong += !rounds_right(f, bits);
    CHECK_NAMED(wrong == 0, f->name);
    CHECK_EQ(f->from(3.4e38f), f->beyond);
    CHECK_EQ(f->from(INFINITY), f->beyond);
    CHECK_EQ(f->from(-INFINITY), f->beyond | f->codes);
    CHECK_EQ(f->from(0.0f), 0);
    CHECK_EQ(f->from(-0.0f), f->codes);
    CHECK(isnan(f->to(f->from(NAN))));
}

int main(void)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        test_format(&formats[i]);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
