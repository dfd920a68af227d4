/* SPDX-License-Identifier: MIT */
/* Data in units of 16 bytes; the last one of a piece may have fewer. */
#ifndef ISO_UNITS_DEVICE_H
#define ISO_UNITS_DEVICE_H

#include "../../device/api/prim.h"

typedef uint32_t __attribute__((__may_alias__)) isod_any32;
typedef uint8_t __attribute__((__may_alias__)) isod_any8;

PRIM_FN uint64_t isod_units(uint64_t bytes) { return (bytes + 15) / 16; }
/* The unit at which part i of n begins; part n begins at the end. By a division of 32 bits: one of 64 is a function of a
 * hundred instructions. From 2^32 units on, 64 GiB, parts begin at multiples of 2^16. */
PRIM_FN uint64_t isod_part_at(uint64_t units, uint32_t i, uint32_t n)
{
    const unsigned coarse = units >> 32 != 0 ? 16 : 0;
    const uint32_t u = (uint32_t)(units >> coarse), rest = u % n;
    return i == n ? units : (uint64_t)(u / n * i + (i < rest ? i : rest)) << coarse;
}
PRIM_FN bool isod_unit_is_whole(const void *p, uint64_t bytes) { return bytes >= 16 && ((uintptr_t)p & 15) == 0; }

/* Elements may be aligned to their own size only; bytes < 16 at the end of a piece. */
PRIM_COLD_FN struct prim_vec16 isod_unit_load_odd(const char *p, uint64_t bytes)
{
    struct prim_vec16 v = {{0, 0}};
    uint32_t n = bytes < 16 ? (uint32_t)bytes : 16u, step = (((uintptr_t)p | n) & 3) == 0 ? 4 : 1;
    for (uint32_t i = 0; i < n; i += step) {
        const void *from = p + i;
        uint64_t part = step == 4 ? *(const isod_any32 *)from : *(const isod_any8 *)from;
        part <<= (i & 7) * 8;
        if (i < 8) /* no index: an array would be stack */
            v.word[0] |= part;
        else
            v.word[1] |= part;
    }
    return v;
}
PRIM_COLD_FN void isod_unit_store_odd(char *p, struct prim_vec16 v, uint64_t bytes)
{
    uint32_t n = bytes < 16 ? (uint32_t)bytes : 16u;
    if ((((uintptr_t)p | n) & 3) == 0)
        for (uint32_t i = 0; i < n; i += 4)
            *(isod_any32 *)(void *)(p + i) = (uint32_t)((i < 8 ? v.word[0] : v.word[1]) >> (i & 4) * 8);
    else
        for (uint32_t i = 0; i < n; i++)
            *(isod_any8 *)(void *)(p + i) = (uint8_t)((i < 8 ? v.word[0] : v.word[1]) >> (i & 7) * 8);
}
/* Bytes of an array that are whole units at addresses of units: all but the end, or none. */
PRIM_FN uint64_t isod_whole_bytes(const void *p, uint64_t bytes)
{
    return ((uintptr_t)p & 15) == 0 ? bytes / 16 * 16 : 0;
}
/* `bytes` is what is left of the piece from p on. */
PRIM_FN struct prim_vec16 isod_unit_load(const char *p, uint64_t bytes)
{
    return isod_unit_is_whole(p, bytes) ? prim_load16(p) : isod_unit_load_odd(p, bytes);
}
PRIM_FN void isod_unit_store(char *p, struct prim_vec16 v, uint64_t bytes)
{
    if (isod_unit_is_whole(p, bytes))
        prim_store16(p, v);
    else
        isod_unit_store_odd(p, v, bytes);
}

#endif
