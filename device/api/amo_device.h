/* SPDX-License-Identifier: MIT */
/* Atomics of kernels on words of 4 and 8 bytes, as bits: by the processor's own system-scope atomics where there is a
 * pointer, else by the ring, where the host that owns the word's memory does it. `op` and `bytes` are constants
 * wherever this is inlined. Order: fetch acquires, swap and the fetch-ops do where the target does it for nothing; else
 * by fence. Includes: half_device.h, rma_device.h. Used by include/shmem_device.h, signal_device.h. */
#ifndef ISO_AMO_DEVICE_H
#define ISO_AMO_DEVICE_H

#include "half_device.h"
#include "rma_device.h"

PRIM_FN uint64_t isod_amo_at_u64(uint64_t *at, struct isod_word_op o)
{
    if (o.op == ISOD_AMO_SET)
        prim_store_flag_u64(at, o.operand); /* pairs with wait, test and fetch */
    else if (!o.fetches && o.op == ISOD_AMO_AND)
        prim_and_u64(at, o.operand);
    else if (!o.fetches && o.op == ISOD_AMO_OR)
        prim_or_u64(at, o.operand);
    else if (!o.fetches && o.op == ISOD_AMO_XOR)
        prim_xor_u64(at, o.operand);
    else
        return o.op == ISOD_AMO_FETCH   ? prim_load_acquire_u64(at)
               : o.op == ISOD_AMO_SWAP  ? prim_swap_u64(at, o.operand)
               : o.op == ISOD_AMO_CSWAP ? prim_cas_u64(at, o.compare, o.operand)
               : o.op == ISOD_AMO_ADD   ? prim_fetch_add_u64(at, o.operand)
               : o.op == ISOD_AMO_AND   ? prim_fetch_and_u64(at, o.operand)
               : o.op == ISOD_AMO_OR    ? prim_fetch_or_u64(at, o.operand)
                                        : prim_fetch_xor_u64(at, o.operand);
    return 0;
}
PRIM_FN uint64_t isod_amo_at_u32(uint32_t *at, struct isod_word_op o)
{
    uint32_t operand = (uint32_t)o.operand;
    if (o.op == ISOD_AMO_SET)
        prim_store_flag_u32(at, operand); /* pairs with wait, test and fetch */
    else if (!o.fetches && o.op == ISOD_AMO_AND)
        prim_and_u32(at, operand);
    else if (!o.fetches && o.op == ISOD_AMO_OR)
        prim_or_u32(at, operand);
    else if (!o.fetches && o.op == ISOD_AMO_XOR)
        prim_xor_u32(at, operand);
    else
        return o.op == ISOD_AMO_FETCH   ? prim_load_acquire_u32(at)
               : o.op == ISOD_AMO_SWAP  ? prim_swap_u32(at, operand)
               : o.op == ISOD_AMO_CSWAP ? prim_cas_u32(at, (uint32_t)o.compare, operand)
               : o.op == ISOD_AMO_ADD   ? prim_fetch_add_u32(at, operand)
               : o.op == ISOD_AMO_AND   ? prim_fetch_and_u32(at, operand)
               : o.op == ISOD_AMO_OR    ? prim_fetch_or_u32(at, operand)
                                        : prim_fetch_xor_u32(at, operand);
    return 0;
}

/* A fetching atomic may be a look of a loop: a lock that spins, a counter that is watched. */
PRIM_FN uint64_t isod_amo(shmemd_t h, struct isod_word_op o, const void *addr, int pe)
{
    char *at = isod_near(h, addr, pe);
    uint64_t old;
    if (at == 0)
        old = isod_ring_amo(h, o, addr, isod_world_pe(h, pe));
    else
        old = o.bytes == 8 ? isod_amo_at_u64((uint64_t *)(void *)at, o) : isod_amo_at_u32((uint32_t *)(void *)at, o);
    if (o.fetches)
        prim_look(o.op == ISOD_AMO_FETCH   ? "shmemd_atomic_fetch"
                  : o.op == ISOD_AMO_SWAP  ? "shmemd_atomic_swap"
                  : o.op == ISOD_AMO_CSWAP ? "shmemd_atomic_compare_swap"
                  : o.op == ISOD_AMO_ADD   ? "shmemd_atomic_fetch_add"
                  : o.op == ISOD_AMO_AND   ? "shmemd_atomic_fetch_and"
                  : o.op == ISOD_AMO_OR    ? "shmemd_atomic_fetch_or"
                                           : "shmemd_atomic_fetch_xor",
                  addr, old);
    return old;
}

/* ---- the shapes that the typed names have; values travel as bits ---- */

PRIM_FN uint64_t isod_bits_of(uint64_t value, size_t bytes) { return bytes == 8 ? value : (uint32_t)value; }

/* Only the effect is wanted: the call returns before it has happened. */
PRIM_FN struct isod_word_op isod_op_post(uint32_t op, uint64_t operand, size_t bytes)
{
    struct isod_word_op o = {op, (uint32_t)bytes, isod_bits_of(operand, bytes), 0, false};
    return o;
}
PRIM_FN struct isod_word_op isod_op_fetch(uint32_t op, uint64_t operand, size_t bytes)
{
    struct isod_word_op o = {op, (uint32_t)bytes, isod_bits_of(operand, bytes), 0, true};
    return o;
}
PRIM_FN struct isod_word_op isod_op_compare(uint64_t compare, uint64_t value, size_t bytes)
{
    struct isod_word_op o = isod_op_fetch(ISOD_AMO_CSWAP, value, bytes);
    o.compare = isod_bits_of(compare, bytes);
    return o;
}

/* ---- sums of floats: a loop of compare_swap ---- */

enum isod_real { ISOD_FLOAT, ISOD_DOUBLE, ISOD_HALF, ISOD_BFLOAT16 };
struct isod_addend {
    uint64_t bits;
    uint32_t bytes; /* 2: of one half; 4 of halves: of two */
    enum isod_real type;
};

PRIM_FN uint64_t isod_real_sum(enum isod_real type, uint64_t a, uint64_t b)
{
    if (type == ISOD_DOUBLE) {
        double x, y;
        isod_unbits(&x, a, 8);
        isod_unbits(&y, b, 8);
        x += y;
        return isod_bits(&x, 8);
    }
    if (type == ISOD_FLOAT)
        return isod_float_bits(isod_float_of_bits((uint32_t)a) + isod_float_of_bits((uint32_t)b));
    const uint16_t x = (uint16_t)a, y = (uint16_t)b;
    return type == ISOD_HALF ? isod_half_from_float(isod_half_to_float(x) + isod_half_to_float(y))
                             : isod_bfloat16_from_float(isod_bfloat16_to_float(x) + isod_bfloat16_to_float(y));
}
/* The low 16 bits and those above them; a half alone leaves the others of its word as they are. */
PRIM_FN uint64_t isod_halves_sum(struct isod_addend a, uint64_t word, unsigned at)
{
    if (a.bytes == 4)
        return isod_real_sum(a.type, word, a.bits) | isod_real_sum(a.type, word >> 16, a.bits >> 16) << 16;
    return (word & ~((uint64_t)0xffff << at)) | isod_real_sum(a.type, word >> at, a.bits) << at;
}
/* Returns the bits that were there. A half alone is exchanged with the aligned word around it. */
PRIM_FN uint64_t isod_amo_add(shmemd_t h, struct isod_addend a, void *dest, int pe)
{
    const size_t bytes = a.type == ISOD_DOUBLE ? 8 : 4;
    const unsigned upper = a.bytes == 2 ? (unsigned)((uintptr_t)dest & 2) : 0;
    const void *word = (const char *)dest - upper;
    uint64_t seen, now = isod_amo(h, isod_op_fetch(ISOD_AMO_FETCH, 0, bytes), word, pe);
    do {
        seen = now;
        const uint64_t sum = a.type == ISOD_FLOAT || a.type == ISOD_DOUBLE ? isod_real_sum(a.type, seen, a.bits)
                                                                           : isod_halves_sum(a, seen, 8 * upper);
        now = isod_amo(h, isod_op_compare(seen, sum, bytes), word, pe);
    } while (now != seen);
    return seen >> 8 * upper;
}

#endif
