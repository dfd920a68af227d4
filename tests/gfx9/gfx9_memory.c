/* SPDX-License-Identifier: MIT */
/* Instructions that reach memory. Accesses of 4 and 8 aligned bytes are whole and relaxed, those of 16 are two; atomics
 * are sequentially consistent: stronger than hardware, unless gfx9_held.c makes stores late. */
#include "gfx9_own.h"

#include <stdlib.h>
#include <string.h>

/* ---- addresses ---- */

/* Where lane l's scratch memory begins, at `offset` of it; NULL when it does not reach so far. */
static uint8_t *scratch_at(struct wave *w, const struct instruction *in, int lane, uint64_t offset, uint32_t bytes)
{
    if (offset + bytes > w->scratch_bytes) {
        gfx9_fail(w, in, "beyond scratch memory");
        return NULL;
    }
    return w->scratch + (size_t)lane * w->scratch_bytes + offset;
}

static uint8_t *shared_at(struct wave *w, const struct instruction *in, uint64_t offset, uint32_t bytes)
{
    if (offset + bytes > w->shared_bytes) {
        gfx9_fail(w, in, "beyond shared memory");
        return NULL;
    }
    return w->group->shared + offset;
}

static uint64_t vector64(const struct wave *w, const struct operand *o, int lane)
{
    const uint32_t *low = lanes_of(w, o->reg);
    return (uint64_t)low[LANES + lane] << 32 | low[lane];
}

/* address is the operand of the address, base the one behind it (a scalar base, or off). */
static uint8_t *global_at(struct wave *w, const struct instruction *in, const struct operand *address,
                          const struct operand *base, int lane)
{
    uint64_t at = (uint64_t)in->offset;
    if (base->kind == OPERAND_SGPR)
        at += gfx9_scalar(w, base, 64) + lanes_of(w, address->reg)[lane];
    else
        at += vector64(w, address, lane);
    return (uint8_t *)(uintptr_t)at;
}

static uint8_t *flat_at(struct wave *w, const struct instruction *in, const struct operand *address, int lane,
                        uint32_t bytes)
{
    uint64_t at = vector64(w, address, lane) + (uint64_t)in->offset;
    if (at >> 32 == SHARED_HIGH)
        return shared_at(w, in, (uint32_t)at, bytes);
    if (at >> 32 == PRIVATE_HIGH)
        return scratch_at(w, in, lane, (uint32_t)at, bytes);
    return (uint8_t *)(uintptr_t)at;
}

static uint8_t *private_at(struct wave *w, const struct instruction *in, const struct operand *address,
                           const struct operand *base, int lane, uint32_t bytes)
{
    int64_t at = in->offset;
    if (address->kind == OPERAND_VGPR)
        at += (int32_t)lanes_of(w, address->reg)[lane];
    if (base->kind == OPERAND_SGPR)
        at += (int32_t)gfx9_scalar(w, base, 32);
    return scratch_at(w, in, lane, (uint64_t)at, bytes);
}

/* o: data, vector index or off, resource, scalar offset in bytes of the whole wave. */
static uint8_t *buffer_at(struct wave *w, const struct instruction *in, int lane, uint32_t bytes)
{
    uint64_t at = (uint64_t)in->offset + gfx9_scalar(w, &in->o[3], 32) / LANES;
    if (w->s[in->o[2].reg] != SCRATCH_RESOURCE) {
        gfx9_fail(w, in, "a buffer that is not scratch memory");
        return NULL;
    }
    if (in->has_vector_index)
        at += lanes_of(w, in->o[1].reg)[lane];
    return scratch_at(w, in, lane, (uint32_t)at, bytes);
}

/* ---- pieces ---- */

static void copy_piece(void *to, const void *from, uint32_t bytes)
{
    uintptr_t both = (uintptr_t)to | (uintptr_t)from;
    if (bytes >= 8 && both % 8 == 0) {
        for (uint32_t i = 0; i < bytes / 8; i++)
            __atomic_store_n((uint64_t *)to + i, __atomic_load_n((const uint64_t *)from + i, __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        bytes -= bytes / 8 * 8;
        if (bytes != 0)
            memcpy((char *)to + 8, (const char *)from + 8, bytes); /* of 12 */
    } else if (bytes >= 4 && both % 4 == 0) {
        for (uint32_t i = 0; i < bytes / 4; i++)
            __atomic_store_n((uint32_t *)to + i, __atomic_load_n((const uint32_t *)from + i, __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

/* A load's words into lane l of the destination. */
static void load_lane(struct wave *w, const struct operand *dest, int lane, const uint8_t *from,
                      const struct rule *rule)
{
    uint32_t bytes = rule->bits[0];
    uint64_t words[8] = {0};
    copy_piece(words, from, bytes);
    if (w->group->held != NULL)
        gfx9_held_look(w, from, words, bytes);
    uint32_t word0 = (uint32_t)words[0];
    if (rule->bits[1] == 'i')
        word0 = bytes == 1 ? (uint32_t)(int8_t)word0 : (uint32_t)(int16_t)word0;
    uint32_t *low = lanes_of(w, dest->reg);
    if (rule->bits[1] == 'l') { /* d16: one half of the register */
        low[lane] = (low[lane] & 0xffff0000u) | (word0 & 0xffff);
        return;
    }
    if (rule->bits[1] == 'h') {
        low[lane] = (low[lane] & 0xffff) | word0 << 16;
        return;
    }
    low[lane] = word0;
    for (uint32_t i = 1; i < (bytes + 3) / 4; i++)
        low[i * LANES + (uint32_t)lane] = (uint32_t)(words[i / 2] >> 32 * (i % 2));
}

static bool is_global(const struct wave *w, const uint8_t *at)
{
    return (at < w->group->shared || at >= w->group->shared + w->shared_bytes) &&
           (at < w->scratch || at >= w->scratch + (size_t)w->scratch_bytes * LANES);
}

static void store_lane(struct wave *w, const struct operand *source, int lane, uint8_t *to, const struct rule *rule)
{
    uint32_t bytes = rule->bits[0];
    const uint32_t *low = lanes_of(w, source->reg);
    uint64_t words[8] = {0};
    for (uint32_t i = 0; i < (bytes + 3) / 4; i++)
        words[i / 2] |= (uint64_t)low[i * LANES + (uint32_t)lane] << 32 * (i % 2);
    if (rule->bits[1] == 'h')
        words[0] >>= 16;
    if (w->group->held != NULL && is_global(w, to))
        gfx9_hold(w, to, words, bytes);
    else
        copy_piece(to, words, bytes);
}

#define EACH_LANE(l)                                       \
    for (int l = 0; l < LANES && w->error[0] == '\0'; l++) \
        if (exec_of(w) >> l & 1)

static void x_global_load(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    struct operand address = in->o[1]; /* the destination may be the address */
    uint8_t *at[LANES];
    EACH_LANE(l)
    at[l] = global_at(w, in, &address, &in->o[2], l);
    EACH_LANE(l)
    load_lane(w, &in->o[0], l, at[l], in->rule);
}
static void x_global_store(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    EACH_LANE(l)
    store_lane(w, &in->o[1], l, global_at(w, in, &in->o[0], &in->o[2], l), in->rule);
}
static void x_flat_load(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    uint8_t *at[LANES];
    EACH_LANE(l)
    at[l] = flat_at(w, in, &in->o[1], l, in->rule->bits[0]);
    EACH_LANE(l)
    load_lane(w, &in->o[0], l, at[l], in->rule);
}
static void x_flat_store(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    EACH_LANE(l)
    {
        uint8_t *to = flat_at(w, in, &in->o[0], l, in->rule->bits[0]);
        if (to != NULL)
            store_lane(w, &in->o[1], l, to, in->rule);
    }
}
static void x_scratch_load(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    uint8_t *at[LANES];
    EACH_LANE(l)
    at[l] = private_at(w, in, &in->o[1], &in->o[2], l, in->rule->bits[0]);
    EACH_LANE(l)
    load_lane(w, &in->o[0], l, at[l], in->rule);
}
static void x_scratch_store(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    EACH_LANE(l)
    {
        uint8_t *to = private_at(w, in, &in->o[0], &in->o[2], l, in->rule->bits[0]);
        if (to != NULL)
            store_lane(w, &in->o[1], l, to, in->rule);
    }
}
static void x_buffer_load(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    uint8_t *at[LANES];
    EACH_LANE(l)
    at[l] = buffer_at(w, in, l, in->rule->bits[0]);
    EACH_LANE(l)
    load_lane(w, &in->o[0], l, at[l], in->rule);
}
static void x_buffer_store(struct wave *w, const struct instruction *in)
{
    w->n_memory++;
    EACH_LANE(l)
    {
        uint8_t *to = buffer_at(w, in, l, in->rule->bits[0]);
        if (to != NULL)
            store_lane(w, &in->o[0], l, to, in->rule);
    }
}

/* ---- shared memory ---- */

/* The sum wraps around: compilers put what is left of a negative index into the offset. */
static uint8_t *ds_at(struct wave *w, const struct instruction *in, const struct operand *address, int lane,
                      int64_t offset)
{
    return shared_at(w, in, lanes_of(w, address->reg)[lane] + (uint32_t)offset, in->rule->bits[0]);
}
static void x_ds_read(struct wave *w, const struct instruction *in)
{
    uint8_t *at[LANES];
    EACH_LANE(l)
    at[l] = ds_at(w, in, &in->o[1], l, in->offset);
    EACH_LANE(l)
    load_lane(w, &in->o[0], l, at[l], in->rule);
}
static void x_ds_write(struct wave *w, const struct instruction *in)
{
    EACH_LANE(l)
    {
        uint8_t *to = ds_at(w, in, &in->o[0], l, in->offset);
        if (to != NULL)
            store_lane(w, &in->o[1], l, to, in->rule);
    }
}
/* Two at once; their offsets count elements. */
static void x_ds_read2(struct wave *w, const struct instruction *in)
{
    uint8_t *at[2][LANES];
    struct operand second = in->o[0];
    second.reg += in->rule->bits[0] / 4;
    EACH_LANE(l)
    {
        at[0][l] = ds_at(w, in, &in->o[1], l, in->offset0 * in->rule->bits[0]);
        at[1][l] = ds_at(w, in, &in->o[1], l, in->offset1 * in->rule->bits[0]);
    }
    EACH_LANE(l)
    {
        load_lane(w, &in->o[0], l, at[0][l], in->rule);
        load_lane(w, &second, l, at[1][l], in->rule);
    }
}
static void x_ds_write2(struct wave *w, const struct instruction *in)
{
    EACH_LANE(l)
    {
        uint8_t *first = ds_at(w, in, &in->o[0], l, in->offset0 * in->rule->bits[0]);
        uint8_t *second = ds_at(w, in, &in->o[0], l, in->offset1 * in->rule->bits[0]);
        if (first != NULL && second != NULL) {
            store_lane(w, &in->o[1], l, first, in->rule);
            store_lane(w, &in->o[2], l, second, in->rule);
        }
    }
}

/* ---- atomics ---- */

static uint64_t computed(char op, uint64_t old, uint64_t a, int bytes)
{
    int64_t sold = bytes == 4 ? (int32_t)old : (int64_t)old, sa = bytes == 4 ? (int32_t)a : (int64_t)a;
    switch (op) {
    case '+':
        return old + a;
    case '-':
        return old - a;
    case '&':
        return old & a;
    case '|':
        return old | a;
    case '^':
        return old ^ a;
    case 'u':
        return old < a ? old : a;
    case 'U':
        return old > a ? old : a;
    case 's':
        return sold < sa ? old : a;
    case 'S':
        return sold > sa ? old : a;
    default:
        return a; /* swap */
    }
}

static uint64_t change(char op, void *at, uint64_t a, uint64_t expected, int bytes)
{
    uint64_t old64 = 0;
    uint32_t old32 = 0;
    bool done = false;
    if (bytes == 8)
        old64 = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED);
    else
        old32 = __atomic_load_n((uint32_t *)at, __ATOMIC_RELAXED);
    while (!done) {
        uint64_t old = bytes == 8 ? old64 : old32;
        uint64_t d = op == 'c' ? (old == expected ? a : old) : computed(op, old, a, bytes);
        if (bytes == 8)
            done = __atomic_compare_exchange_n((uint64_t *)at, &old64, d, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        else
            done = __atomic_compare_exchange_n((uint32_t *)at, &old32, (uint32_t)d, false, __ATOMIC_SEQ_CST,
                                               __ATOMIC_SEQ_CST);
    }
    return bytes == 8 ? old64 : old32;
}

/* o: [old value,] address, data, base. Data of a compare and swap: new, then expected. */
static void atomic(struct wave *w, const struct instruction *in, bool is_flat)
{
    int bytes = in->rule->bits[0], first = in->returns_old ? 1 : 0;
    const struct operand *data = &in->o[first + 1];
    uint64_t olds[LANES] = {0};
    w->n_memory++;
    EACH_LANE(l)
    {
        uint8_t *at = is_flat ? flat_at(w, in, &in->o[first], l, (uint32_t)bytes)
                              : global_at(w, in, &in->o[first], &in->o[first + 2], l);
        struct operand second = *data;
        second.reg += bytes / 4;
        uint64_t a = bytes == 8 ? vector64(w, data, l) : lanes_of(w, data->reg)[l], expected = 0;
        if (in->rule->bits[1] == 'c')
            expected = bytes == 8 ? vector64(w, &second, l) : lanes_of(w, second.reg)[l];
        if (at != NULL && w->group->held != NULL)
            gfx9_held_word(w, at);
        if (at != NULL)
            olds[l] = change((char)in->rule->bits[1], at, a, expected, bytes);
    }
    if (!in->returns_old)
        return;
    EACH_LANE(l)
    {
        lanes_of(w, in->o[0].reg)[l] = (uint32_t)olds[l];
        if (bytes == 8)
            lanes_of(w, in->o[0].reg + 1)[l] = (uint32_t)(olds[l] >> 32);
    }
}
static void x_global_atomic(struct wave *w, const struct instruction *in) { atomic(w, in, false); }
static void x_flat_atomic(struct wave *w, const struct instruction *in) { atomic(w, in, true); }

/* ---- scalar loads, caches ---- */

/* o: destination, base, offset. */
static void x_s_load(struct wave *w, const struct instruction *in)
{
    uint64_t at = gfx9_scalar(w, &in->o[1], 64) + (uint64_t)in->offset;
    const struct operand *offset = &in->o[2];
    at += offset->kind == OPERAND_VALUE ? (uint64_t)(int64_t)offset->value : gfx9_scalar(w, offset, 32);
    const uint32_t *from = (const uint32_t *)(uintptr_t)(at & ~(uint64_t)3);
    for (int i = 0; i < in->rule->bits[0] / 4; i++)
        w->s[in->o[0].reg + i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}
static void x_fence(struct wave *w, const struct instruction *in)
{
    (void)w, (void)in;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- the table ---- */

#define LOADS(space, fn)                                                                         \
    {#space "_ubyte", fn, {1, 'u', 0, 0}}, {#space "_sbyte", fn, {1, 'i', 0, 0}},                \
        {#space "_ushort", fn, {2, 'u', 0, 0}}, {#space "_sshort", fn, {2, 'i', 0, 0}},          \
        {#space "_short_d16", fn, {2, 'l', 0, 0}}, {#space "_short_d16_hi", fn, {2, 'h', 0, 0}}, \
        {#space "_ubyte_d16", fn, {1, 'l', 0, 0}}, {#space "_ubyte_d16_hi", fn, {1, 'h', 0, 0}}, \
        {#space "_dword", fn, {4, 'u', 0, 0}}, {#space "_dwordx2", fn, {8, 'u', 0, 0}},          \
        {#space "_dwordx3", fn, {12, 'u', 0, 0}},                                                \
    {                                                                                            \
#space "_dwordx4", fn, { 16, 'u', 0, 0 }                                                 \
    }
#define STORES(space, fn)                                                                          \
    {#space "_byte", fn, {1, 'u', 0, 0}}, {#space "_short", fn, {2, 'u', 0, 0}},                   \
        {#space "_short_d16_hi", fn, {2, 'h', 0, 0}}, {#space "_byte_d16_hi", fn, {1, 'h', 0, 0}}, \
        {#space "_dword", fn, {4, 'u', 0, 0}}, {#space "_dwordx2", fn, {8, 'u', 0, 0}},            \
        {#space "_dwordx3", fn, {12, 'u', 0, 0}},                                                  \
    {                                                                                              \
#space "_dwordx4", fn, { 16, 'u', 0, 0 }                                                   \
    }
#define ATOMICS_OF(space, suffix, bytes, fn)                                                              \
    {#space "_swap" suffix, fn, {bytes, '=', 0, 0}}, {#space "_cmpswap" suffix, fn, {bytes, 'c', 0, 0}},  \
        {#space "_add" suffix, fn, {bytes, '+', 0, 0}}, {#space "_sub" suffix, fn, {bytes, '-', 0, 0}},   \
        {#space "_and" suffix, fn, {bytes, '&', 0, 0}}, {#space "_or" suffix, fn, {bytes, '|', 0, 0}},    \
        {#space "_xor" suffix, fn, {bytes, '^', 0, 0}}, {#space "_umin" suffix, fn, {bytes, 'u', 0, 0}},  \
        {#space "_umax" suffix, fn, {bytes, 'U', 0, 0}}, {#space "_smin" suffix, fn, {bytes, 's', 0, 0}}, \
    {                                                                                                     \
#space "_smax" suffix, fn, { bytes, 'S', 0, 0 }                                                   \
    }

static const struct rule rules[] = {
    LOADS(global_load, x_global_load),
    STORES(global_store, x_global_store),
    LOADS(flat_load, x_flat_load),
    STORES(flat_store, x_flat_store),
    LOADS(scratch_load, x_scratch_load),
    STORES(scratch_store, x_scratch_store),
    LOADS(buffer_load, x_buffer_load),
    STORES(buffer_store, x_buffer_store),
    ATOMICS_OF(global_atomic, "", 4, x_global_atomic),
    ATOMICS_OF(global_atomic, "_x2", 8, x_global_atomic),
    ATOMICS_OF(flat_atomic, "", 4, x_flat_atomic),
    ATOMICS_OF(flat_atomic, "_x2", 8, x_flat_atomic),
    {"ds_read_u8", x_ds_read, {1, 'u', 0, 0}},
    {"ds_read_i8", x_ds_read, {1, 'i', 0, 0}},
    {"ds_read_u16", x_ds_read, {2, 'u', 0, 0}},
    {"ds_read_i16", x_ds_read, {2, 'i', 0, 0}},
    {"ds_read_b32", x_ds_read, {4, 'u', 0, 0}},
    {"ds_read_b64", x_ds_read, {8, 'u', 0, 0}},
    {"ds_read_b96", x_ds_read, {12, 'u', 0, 0}},
    {"ds_read_b128", x_ds_read, {16, 'u', 0, 0}},
    {"ds_read2_b32", x_ds_read2, {4, 'u', 0, 0}},
    {"ds_read2_b64", x_ds_read2, {8, 'u', 0, 0}},
    {"ds_write_b8", x_ds_write, {1, 'u', 0, 0}},
    {"ds_write_b16", x_ds_write, {2, 'u', 0, 0}},
    {"ds_write_b32", x_ds_write, {4, 'u', 0, 0}},
    {"ds_write_b64", x_ds_write, {8, 'u', 0, 0}},
    {"ds_write_b96", x_ds_write, {12, 'u', 0, 0}},
    {"ds_write_b128", x_ds_write, {16, 'u', 0, 0}},
    {"ds_write2_b32", x_ds_write2, {4, 'u', 0, 0}},
    {"ds_write2_b64", x_ds_write2, {8, 'u', 0, 0}},
    {"s_load_dword", x_s_load, {4, 0, 0, 0}},
    {"s_load_dwordx2", x_s_load, {8, 0, 0, 0}},
    {"s_load_dwordx4", x_s_load, {16, 0, 0, 0}},
    {"s_load_dwordx8", x_s_load, {32, 0, 0, 0}},
    {"s_load_dwordx16", x_s_load, {64, 0, 0, 0}},
    {"buffer_wbl2", x_fence, {0, 0, 0, 0}},
    {"buffer_inv", x_fence, {0, 0, 0, 0}},
    {"buffer_invl2", x_fence, {0, 0, 0, 0}},
    {"buffer_wbinvl1", x_fence, {0, 0, 0, 0}},
    {"buffer_wbinvl1_vol", x_fence, {0, 0, 0, 0}},
    {"s_dcache_wb", x_fence, {0, 0, 0, 0}},
    {"s_dcache_inv", x_fence, {0, 0, 0, 0}},
    {"s_icache_inv", x_fence, {0, 0, 0, 0}},
};

const struct rule *gfx9_memory_rule(const char *name)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}
