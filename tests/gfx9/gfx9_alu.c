/* SPDX-License-Identifier: MIT */
/* Instructions that compute and branch: functions and their table, both made of gfx9_ops.h. */
#include "gfx9_own.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- arithmetic ---- */

static uint64_t ones(uint64_t a) { return (uint64_t)__builtin_popcountll(a); }
static uint64_t lowest(uint64_t a) { return a == 0 ? UINT32_MAX : (uint64_t)__builtin_ctzll(a); }
static uint64_t highest(uint64_t a, int bits)
{
    return a == 0 ? UINT32_MAX : (uint64_t)(__builtin_clzll(a) - (64 - bits));
}
static uint64_t reversed(uint64_t a)
{
    uint64_t d = 0;
    for (int i = 0; i < 64; i++)
        d |= (a >> i & 1) << (63 - i);
    return d;
}
static bool overflows(int64_t sum) { return sum != (int32_t)sum; }
static uint64_t field(uint64_t a, uint64_t at, uint64_t width, int bits)
{
    if (width >= (uint64_t)bits)
        return a >> at;
    return a >> at & ((1ull << width) - 1);
}
static uint64_t signed_field(uint64_t a, uint64_t at, uint64_t width, int bits)
{
    if (width == 0)
        return 0;
    if (width + at > (uint64_t)bits)
        width = (uint64_t)bits - at;
    return (uint64_t)((int64_t)(a << (64 - at - width)) >> (64 - width));
}
static int64_t int24(uint64_t a) { return (int64_t)(a << 40) >> 40; }
static uint64_t half(uint64_t a, unsigned high) { return high & 1 ? a >> 32 : (uint32_t)a; }
static int64_t middle(int64_t a, int64_t b, int64_t c)
{
    int64_t least = a < b ? a : b, most = a < b ? b : a;
    return c < least ? least : c > most ? most : c;
}
static uint64_t permuted(uint64_t bytes, uint64_t choice)
{
    uint64_t d = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = choice >> 8 * i & 0xff;
        uint64_t byte = from < 8    ? bytes >> 8 * from & 0xff
                        : from < 12 ? (bytes >> (16 * (from - 8) + 15) & 1) * 0xff
                        : from < 13 ? 0
                                    : 0xff;
        d |= byte << 8 * i;
    }
    return d;
}

static float f32(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, 4);
    return f;
}
static double f64(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, 8);
    return f;
}
static uint64_t word_of(float f)
{
    uint32_t word;
    memcpy(&word, &f, 4);
    return word;
}
static uint64_t long_of(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, 8);
    return bits;
}
static uint64_t to_u32(double f) { return !(f > 0) ? 0 : f >= 4294967295.0 ? UINT32_MAX : (uint64_t)f; }
static int64_t to_i32(double f)
{
    return f != f ? 0 : f <= -2147483648.0 ? INT32_MIN : f >= 2147483647.0 ? INT32_MAX : (int64_t)f;
}

/* ---- operands ---- */

void gfx9_fail(struct wave *w, const struct instruction *in, const char *why)
{
    if (w->error[0] == '\0')
        snprintf(w->error, ERROR_BYTES, "%s: '%s' at 0x%llx", why, in->text, (unsigned long long)in->pc);
    w->state = WAVE_ENDED;
}

uint64_t gfx9_scalar(const struct wave *w, const struct operand *o, int bits)
{
    switch (o->kind) {
    case OPERAND_SGPR:
        return bits == 64 ? (uint64_t)w->s[o->reg + 1] << 32 | w->s[o->reg] : w->s[o->reg];
    case OPERAND_VALUE:
        return bits == 64 ? o->value : (uint32_t)o->value;
    case OPERAND_SCC:
        return w->scc;
    case OPERAND_VCCZ:
        return vcc_of(w) == 0;
    case OPERAND_EXECZ:
        return exec_of(w) == 0;
    default:
        return 0;
    }
}

static void set_scalar(struct wave *w, const struct operand *o, int bits, uint64_t d)
{
    w->s[o->reg] = (uint32_t)d;
    if (bits == 64)
        w->s[o->reg + 1] = (uint32_t)(d >> 32);
}

static uint64_t width_mask(int bits) { return bits == 64 ? UINT64_MAX : (1ull << bits) - 1; }

/* The part that SDWA selects, extended. */
static uint64_t selected(const struct operand *o, uint64_t a)
{
    if (o->select >= SELECT_WORD) {
        a = a >> 16 * (o->select - SELECT_WORD) & 0xffff;
        return o->is_signed ? (uint32_t)(int16_t)a : a;
    }
    if (o->select >= SELECT_BYTE) {
        a = a >> 8 * (o->select - SELECT_BYTE) & 0xff;
        return o->is_signed ? (uint32_t)(int8_t)a : a;
    }
    return a;
}

/* A source in all lanes. */
static void fetch(const struct wave *w, const struct operand *o, int bits, uint64_t *out)
{
    uint64_t mask = width_mask(bits), top = 1ull << (bits - 1);
    if (o->kind == OPERAND_VGPR) {
        const uint32_t *low = lanes_of(w, o->reg);
        for (int l = 0; l < LANES; l++)
            out[l] = low[l];
        if (bits == 64)
            for (int l = 0; l < LANES; l++)
                out[l] |= (uint64_t)low[LANES + l] << 32;
    } else {
        uint64_t a = gfx9_scalar(w, o, bits);
        for (int l = 0; l < LANES; l++)
            out[l] = a;
    }
    if (o->select != SELECT_ALL || o->is_signed)
        for (int l = 0; l < LANES; l++)
            out[l] = selected(o, out[l]);
    if (bits < 32)
        for (int l = 0; l < LANES; l++)
            out[l] &= mask;
    if (o->absolute)
        for (int l = 0; l < LANES; l++)
            out[l] &= ~top;
    if (o->negative)
        for (int l = 0; l < LANES; l++)
            out[l] ^= top;
}

/* Into the lanes that are on. */
static void store(struct wave *w, const struct instruction *in, const struct operand *o, int bits, const uint64_t *d)
{
    uint32_t *low = lanes_of(w, o->reg);
    uint64_t exec = exec_of(w);
    uint32_t shift = 0, mask = UINT32_MAX;
    if (in->dest_select >= SELECT_WORD) {
        mask = 0xffff, shift = 16 * (in->dest_select - SELECT_WORD);
    } else if (in->dest_select >= SELECT_BYTE) {
        mask = 0xff, shift = 8 * (in->dest_select - SELECT_BYTE);
    } else if (bits == 16) {
        mask = 0xffff;
    }
    for (int l = 0; l < LANES; l++) {
        if ((exec >> l & 1) == 0)
            continue;
        uint32_t part = ((uint32_t)d[l] & mask) << shift;
        low[l] = in->keeps_rest ? (low[l] & ~(mask << shift)) | part : part;
        if (bits == 64)
            low[LANES + l] = (uint32_t)(d[l] >> 32);
    }
}

static void set_mask(struct wave *w, const struct operand *o, uint64_t mask)
{
    set_scalar(w, o, 64, mask & exec_of(w));
}

/* ---- functions of the table ---- */

#define SCALAR(name, dest_bits, a_bits, b_bits, ...)                                                             \
    static void x_##name(struct wave *w, const struct instruction *in)                                           \
    {                                                                                                            \
        uint64_t a = gfx9_scalar(w, &in->o[1], a_bits), b = b_bits != 0 ? gfx9_scalar(w, &in->o[2], b_bits) : 0; \
        uint64_t exec = exec_of(w), was = exec, old = gfx9_scalar(w, &in->o[0], dest_bits), d = 0;               \
        bool scc = w->scc;                                                                                       \
        (void)a, (void)b, (void)old;                                                                             \
        __VA_ARGS__;                                                                                             \
        w->scc = scc;                                                                                            \
        if (exec != was) {                                                                                       \
            w->s[EXEC] = (uint32_t)exec;                                                                         \
            w->s[EXEC + 1] = (uint32_t)(exec >> 32);                                                             \
        }                                                                                                        \
        set_scalar(w, &in->o[0], dest_bits, d);                                                                  \
    }
#define COMPARE(name, bits, ...)                                                           \
    static void x_##name(struct wave *w, const struct instruction *in)                     \
    {                                                                                      \
        uint64_t a = gfx9_scalar(w, &in->o[0], bits), b = gfx9_scalar(w, &in->o[1], bits); \
        bool scc;                                                                          \
        __VA_ARGS__;                                                                       \
        w->scc = scc;                                                                      \
    }
#define VECTOR_OF(has_old, name, dest_bits, a_bits, b_bits, c_bits, ...)                                             \
    static void x_##name(struct wave *w, const struct instruction *in)                                               \
    {                                                                                                                \
        uint64_t as[LANES], bs[LANES], cs[LANES], ds[LANES];                                                         \
        unsigned select = in->select;                                                                                \
        fetch(w, &in->o[1], a_bits, as);                                                                             \
        if (b_bits != 0)                                                                                             \
            fetch(w, &in->o[2], b_bits != 0 ? b_bits : 32, bs);                                                      \
        if (c_bits != 0)                                                                                             \
            fetch(w, &in->o[3], c_bits != 0 ? c_bits : 32, cs);                                                      \
        if (has_old)                                                                                                 \
            fetch(w, &in->o[0], dest_bits, ds);                                                                      \
        (void)select;                                                                                                \
        for (int l = 0; l < LANES; l++) {                                                                            \
            uint64_t a = as[l], b = b_bits != 0 ? bs[l] : 0, c = c_bits != 0 ? cs[l] : 0, old = has_old ? ds[l] : 0, \
                     d;                                                                                              \
            (void)a, (void)b, (void)c, (void)old;                                                                    \
            __VA_ARGS__;                                                                                             \
            ds[l] = d;                                                                                               \
        }                                                                                                            \
        store(w, in, &in->o[0], dest_bits, ds);                                                                      \
    }
#define VECTOR(...) VECTOR_OF(false, __VA_ARGS__)
#define UPDATE(...) VECTOR_OF(true, __VA_ARGS__)
#define MASK(name, bits, ...)                                          \
    static void x_##name(struct wave *w, const struct instruction *in) \
    {                                                                  \
        uint64_t as[LANES], bs[LANES], mask = 0;                       \
        fetch(w, &in->o[1], bits, as);                                 \
        fetch(w, &in->o[2], bits, bs);                                 \
        for (int l = 0; l < LANES; l++) {                              \
            uint64_t a = as[l], b = bs[l];                             \
            mask |= (uint64_t)(__VA_ARGS__) << l;                      \
        }                                                              \
        set_mask(w, &in->o[0], mask);                                  \
    }
#define CARRY(name, ...)                                                \
    static void x_##name(struct wave *w, const struct instruction *in)  \
    {                                                                   \
        uint64_t as[LANES], bs[LANES], ds[LANES], out = 0;              \
        uint64_t given = in->n > 4 ? gfx9_scalar(w, &in->o[4], 64) : 0; \
        fetch(w, &in->o[2], 32, as);                                    \
        fetch(w, &in->o[3], 32, bs);                                    \
        for (int l = 0; l < LANES; l++) {                               \
            uint64_t a = as[l], b = bs[l], d;                           \
            uint64_t carry = given >> l & 1;                            \
            __VA_ARGS__;                                                \
            ds[l] = d;                                                  \
            out |= (uint64_t)(carry != 0) << l;                         \
        }                                                               \
        store(w, in, &in->o[0], 32, ds);                                \
        set_mask(w, &in->o[1], out);                                    \
    }
#define PACKED(name, ...)                                                                                            \
    static void x_##name(struct wave *w, const struct instruction *in)                                               \
    {                                                                                                                \
        uint64_t ds[LANES], x[3][LANES];                                                                             \
        memset(x, 0, sizeof(x));                                                                                     \
        for (int i = 1; i < in->n; i++)                                                                              \
            fetch(w, &in->o[i], 64, x[i - 1]);                                                                       \
        for (int l = 0; l < LANES; l++) {                                                                            \
            ds[l] = 0;                                                                                               \
            for (int high = 0; high < 2; high++) {                                                                   \
                unsigned select = high ? in->select_high : in->select, negate = high ? in->negate_high : in->negate; \
                uint64_t a = half(x[0][l], select) ^ (uint64_t)(negate & 1) << 31;                                   \
                uint64_t b = half(x[1][l], select >> 1) ^ (uint64_t)(negate >> 1 & 1) << 31;                         \
                uint64_t c = half(x[2][l], select >> 2) ^ (uint64_t)(negate >> 2 & 1) << 31;                         \
                (void)c;                                                                                             \
                ds[l] |= word_of(__VA_ARGS__) << 32 * high;                                                          \
            }                                                                                                        \
        }                                                                                                            \
        store(w, in, &in->o[0], 64, ds);                                                                             \
    }
#define HALVES(name, ...)                                                                                       \
    static void x_##name(struct wave *w, const struct instruction *in)                                          \
    {                                                                                                           \
        uint64_t as[LANES], bs[LANES];                                                                          \
        fetch(w, &in->o[1], 32, as);                                                                            \
        fetch(w, &in->o[2], 32, bs);                                                                            \
        for (int l = 0; l < LANES; l++) {                                                                       \
            uint64_t d = 0;                                                                                     \
            for (int high = 0; high < 2; high++) {                                                              \
                unsigned select = high ? in->select_high : in->select;                                          \
                uint64_t a = as[l] >> 16 * (select & 1) & 0xffff, b = bs[l] >> 16 * (select >> 1 & 1) & 0xffff; \
                d |= (uint64_t)(uint16_t)(__VA_ARGS__) << 16 * high;                                            \
            }                                                                                                   \
            as[l] = d;                                                                                          \
        }                                                                                                       \
        store(w, in, &in->o[0], 32, as);                                                                        \
    }
#define SPECIAL(name) static void x_##name(struct wave *w, const struct instruction *in);
#include "gfx9_ops.h"

/* ---- functions of their own ---- */

static void branch(struct wave *w, const struct instruction *in, bool taken)
{
    if (taken)
        w->pc += (uint64_t)((int64_t)(int16_t)in->o[0].value * 4);
}
static void x_s_branch(struct wave *w, const struct instruction *in) { branch(w, in, true); }
static void x_s_cbranch_scc0(struct wave *w, const struct instruction *in) { branch(w, in, !w->scc); }
static void x_s_cbranch_scc1(struct wave *w, const struct instruction *in) { branch(w, in, w->scc); }
static void x_s_cbranch_vccz(struct wave *w, const struct instruction *in) { branch(w, in, vcc_of(w) == 0); }
static void x_s_cbranch_vccnz(struct wave *w, const struct instruction *in) { branch(w, in, vcc_of(w) != 0); }
static void x_s_cbranch_execz(struct wave *w, const struct instruction *in) { branch(w, in, exec_of(w) == 0); }
static void x_s_cbranch_execnz(struct wave *w, const struct instruction *in) { branch(w, in, exec_of(w) != 0); }
static void x_s_getpc_b64(struct wave *w, const struct instruction *in) { set_scalar(w, &in->o[0], 64, w->pc); }
static void x_s_setpc_b64(struct wave *w, const struct instruction *in) { w->pc = gfx9_scalar(w, &in->o[0], 64); }
static void x_s_swappc_b64(struct wave *w, const struct instruction *in)
{
    uint64_t to = gfx9_scalar(w, &in->o[1], 64);
    set_scalar(w, &in->o[0], 64, w->pc);
    w->pc = to;
}

static void x_s_endpgm(struct wave *w, const struct instruction *in)
{
    (void)in;
    if (w->n_held != 0)
        gfx9_held_wait(w, 0);
    w->state = WAVE_ENDED;
}
static void x_s_barrier(struct wave *w, const struct instruction *in)
{
    (void)in;
    w->state = WAVE_AT_BARRIER;
}
static void x_s_sleep(struct wave *w, const struct instruction *in)
{
    (void)in;
    w->state = WAVE_SLEEPS;
}
static void x_s_nop(struct wave *w, const struct instruction *in) { (void)w, (void)in; }
static void x_v_nop(struct wave *w, const struct instruction *in) { (void)w, (void)in; }
/* Loads and atomics are done at once, and so are stores, unless they are held. Bits 14, 15, 3 to 0: vmcnt. */
static void x_s_waitcnt(struct wave *w, const struct instruction *in)
{
    uint32_t counts = (uint32_t)in->raw[0] & 0xffff;
    if (w->n_held != 0)
        gfx9_held_wait(w, (counts >> 14 & 3) << 4 | (counts & 15));
}
static void x_s_setreg_imm32_b32(struct wave *w, const struct instruction *in) { (void)w, (void)in; }
static void x_s_trap(struct wave *w, const struct instruction *in) { gfx9_fail(w, in, "the kernel trapped"); }

/* 100 MHz, as on the hardware. */
static void x_s_memrealtime(struct wave *w, const struct instruction *in)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    set_scalar(w, &in->o[0], 64, (uint64_t)now.tv_sec * 100000000 + (uint64_t)now.tv_nsec / 10);
}
static void x_s_memtime(struct wave *w, const struct instruction *in) { x_s_memrealtime(w, in); }

static void x_v_cndmask_b32(struct wave *w, const struct instruction *in)
{
    uint64_t as[LANES], bs[LANES], mask = gfx9_scalar(w, &in->o[3], 64);
    fetch(w, &in->o[1], 32, as);
    fetch(w, &in->o[2], 32, bs);
    for (int l = 0; l < LANES; l++)
        as[l] = mask >> l & 1 ? bs[l] : as[l];
    store(w, in, &in->o[0], 32, as);
}
static void x_v_readlane_b32(struct wave *w, const struct instruction *in)
{
    unsigned lane = gfx9_scalar(w, &in->o[2], 32) & 63;
    set_scalar(w, &in->o[0], 32, lanes_of(w, in->o[1].reg)[lane]);
}
static void x_v_readfirstlane_b32(struct wave *w, const struct instruction *in)
{
    uint64_t exec = exec_of(w);
    unsigned lane = exec == 0 ? 0 : (unsigned)__builtin_ctzll(exec);
    set_scalar(w, &in->o[0], 32, lanes_of(w, in->o[1].reg)[lane]);
}
static void x_v_writelane_b32(struct wave *w, const struct instruction *in)
{
    unsigned lane = gfx9_scalar(w, &in->o[2], 32) & 63;
    lanes_of(w, in->o[0].reg)[lane] = (uint32_t)gfx9_scalar(w, &in->o[1], 32);
}

static void x_v_mad_u64_u32(struct wave *w, const struct instruction *in)
{
    uint64_t as[LANES], bs[LANES], cs[LANES], out = 0;
    fetch(w, &in->o[2], 32, as);
    fetch(w, &in->o[3], 32, bs);
    fetch(w, &in->o[4], 64, cs);
    for (int l = 0; l < LANES; l++) {
        uint64_t product = as[l] * bs[l];
        as[l] = product + cs[l];
        out |= (uint64_t)(as[l] < product) << l;
    }
    store(w, in, &in->o[0], 64, as);
    set_mask(w, &in->o[1], out);
}
static void x_v_mad_i64_i32(struct wave *w, const struct instruction *in)
{
    uint64_t as[LANES], bs[LANES], cs[LANES];
    fetch(w, &in->o[2], 32, as);
    fetch(w, &in->o[3], 32, bs);
    fetch(w, &in->o[4], 64, cs);
    for (int l = 0; l < LANES; l++)
        as[l] = (uint64_t)((int64_t)(int32_t)as[l] * (int32_t)bs[l]) + cs[l];
    store(w, in, &in->o[0], 64, as);
    set_mask(w, &in->o[1], 0);
}

/* Nothing is scaled: the last step of a division, v_div_fixup, divides. */
static void unscaled(struct wave *w, const struct instruction *in, int bits)
{
    uint64_t as[LANES];
    fetch(w, &in->o[2], bits, as);
    store(w, in, &in->o[0], bits, as);
    set_mask(w, &in->o[1], 0);
}
static void x_v_div_scale_f32(struct wave *w, const struct instruction *in) { unscaled(w, in, 32); }
static void x_v_div_scale_f64(struct wave *w, const struct instruction *in) { unscaled(w, in, 64); }

/* ---- the table ---- */

static const struct rule rules[] = {
#define SCALAR(name, dest_bits, a_bits, b_bits, ...) {#name, x_##name, {dest_bits, a_bits, b_bits, 0}},
#define COMPARE(name, bits, ...) {#name, x_##name, {bits, bits, 0, 0}},
#define VECTOR(name, dest_bits, a_bits, b_bits, c_bits, ...) {#name, x_##name, {dest_bits, a_bits, b_bits, c_bits}},
#define UPDATE VECTOR
#define MASK(name, bits, ...) {#name, x_##name, {64, bits, bits, 0}},
#define CARRY(name, ...) {#name, x_##name, {32, 64, 32, 32}},
#define PACKED(name, ...) {#name, x_##name, {64, 32, 32, 32}},
#define HALVES(name, ...) {#name, x_##name, {32, 32, 32, 0}},
#define SPECIAL(name) {#name, x_##name, {32, 32, 32, 32}},
#include "gfx9_ops.h"
};

const struct rule *gfx9_alu_rule(const char *name)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}
