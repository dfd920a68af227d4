/* SPDX-License-Identifier: MIT */
/* Atomics of kernels on words of 4 and 8 bytes, as bits: by the processor's own system-scope atomics where there is a
 * pointer, else by the ring, where the host that owns the word's memory does it. `op` and `bytes` are constants
 * wherever this is inlined. Order: fetch acquires, swap and the fetch-ops do where the target does it for nothing; else
 * by fence. Includes: rma_device.h. Used by include/shmem_device.h, signal_device.h. */
#ifndef ISO_AMO_DEVICE_H
#define ISO_AMO_DEVICE_H

#include "rma_device.h"

struct isod_word_op {
    uint32_t op, bytes; /* enum isod_amo of ring.h; 4 or 8 */
    uint64_t operand, compare;
    bool fetches; /* the old value is wanted: the ring waits for it */
};

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
        old = isod_ring_amo(h, o.op, o.bytes, (void *)(uintptr_t)addr, o.operand, o.compare, o.fetches,
                            isod_world_pe(h, pe));
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

#endif
