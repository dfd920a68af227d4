/* SPDX-License-Identifier: MIT */
/* The 16-bit floating-point formats of kernels against their definition: all values there and back, and the float in
 * the middle of any two neighbours with the floats beside it. */
#include "../../device/api/half_device.h"
#include "../check.h"

#include <math.h>

/* ---- the 16-bit formats ---- */

/* value = fraction * 2^(exponent - bias - fraction bits), by definition. */
static double half_value(uint16_t bits, int fraction_bits, int bias)
{
    int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    int top = (0x7fff >> fraction_bits);
    double x = exponent == 0     ? ldexp(fraction, 1 - bias - fraction_bits)
               : exponent == top ? (fraction == 0 ? HUGE_VAL : NAN)
                                 : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return (bits & 0x8000) != 0 ? -x : x;
}

struct half_format {
    int fraction_bits, bias;
    float (*to)(uint16_t);
    uint16_t (*from)(float);
};
static float f16_to(uint16_t x) { return isod_half_to_float(x); }
static uint16_t f16_from(float x) { return isod_half_from_float(x); }
static float bf16_to(uint16_t x) { return isod_bfloat16_to_float(x); }
static uint16_t bf16_from(float x) { return isod_bfloat16_from_float(x); }

/* All values there and back, NaNs stay NaNs. */
static bool half_is_right(const struct half_format *f, uint16_t bits)
{
    double x = half_value(bits, f->fraction_bits, f->bias);
    float y = f->to(bits);
    if (isnan(x))
        return isnan(y) && isnan(f->to(f->from(y))) && (f->from(y) & 0x8000) == (bits & 0x8000);
    return (double)y == x && f->from(y) == bits && (signbit(y) != 0) == (signbit(x) != 0);
}

/* Between two neighbours the middle goes to the even one, what is beside it to the nearer one: with all halves, that is
 * all floats, since rounding is monotone. The largest one's upper neighbour is where infinity begins. */
static bool half_rounds_right(const struct half_format *f, uint16_t lower)
{
    int top = 0x7fff >> f->fraction_bits;
    double a = half_value(lower, f->fraction_bits, f->bias);
    double b = lower + 1 == top << f->fraction_bits ? ldexp(1, top - f->bias)
                                                    : half_value((uint16_t)(lower + 1), f->fraction_bits, f->bias);
    float middle = (float)((a + b) / 2);
    if ((double)middle != (a + b) / 2) /* no float between */
        return true;
    uint16_t even = (uint16_t)((lower & 1) == 0 ? lower : lower + 1);
    return f->from(middle) == even && f->from(nextafterf(middle, 0)) == lower &&
           f->from(nextafterf(middle, INFINITY)) == lower + 1 && f->from(-middle) == (even | 0x8000);
}

static void test_halves(void)
{
    static const struct half_format formats[] = {{10, 15, f16_to, f16_from}, {7, 127, bf16_to, bf16_from}};
    for (int f = 0; f < 2; f++) {
        uint16_t infinity = (uint16_t)(0x7fff >> formats[f].fraction_bits << formats[f].fraction_bits);
        int wrong = 0;
        for (unsigned bits = 0; bits < 65536; bits++)
            wrong += !half_is_right(&formats[f], (uint16_t)bits);
        for (uint16_t bits = 0; bits < infinity; bits++)
            wrong += !half_rounds_right(&formats[f], bits);
        CHECK_EQ(wrong, 0);
        CHECK_EQ(formats[f].from(3.4e38f), f == 0 ? infinity : 0x7f80);
        CHECK_EQ(formats[f].from(-INFINITY), infinity | 0x8000);
    }
}

int main(void)
{
    test_halves();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
