/* SPDX-License-Identifier: MIT */
/* Put and get of kernels: the handful of cores that the typed names of include/shmem_device.h forward to. A copy of a
 * member that has a pointer is reached by loads and stores, any other by the ring. Sizes are constants wherever these
 * functions are inlined, so the compiler keeps one line of each chain of sizes. Every thread of the group calls, with
 * equal arguments. Includes: place_device.h, ring.h. Used by include/shmem_device.h, signal_device.h. */
#ifndef ISO_RMA_DEVICE_H
#define ISO_RMA_DEVICE_H

#include "place_device.h"
#include "ring.h"

/* ---- words of 1, 2, 4 and 8 bytes, naturally aligned: one access each ---- */

/* On the CPU words of 4 and 8 bytes are release stores, since they may be flags. Elsewhere the fence before them orders
 * them. */
PRIM_FN void isod_store_word(void *to, const void *value, size_t bytes)
{
    uint64_t v8 = 0;
    uint32_t v4 = 0;
    uint16_t v2 = 0;
    if (bytes == 8) {
        __builtin_memcpy(&v8, value, 8);
        prim_store_flag_u64((uint64_t *)to, v8);
    } else if (bytes == 4) {
        __builtin_memcpy(&v4, value, 4);
        prim_store_flag_u32((uint32_t *)to, v4);
    } else if (bytes == 2) {
        __builtin_memcpy(&v2, value, 2);
        prim_store_relaxed_u16((uint16_t *)to, v2);
    } else {
        prim_store_relaxed_u8((uint8_t *)to, *(const uint8_t *)value);
    }
}

/* Never answered by a stale cache. */
PRIM_FN void isod_load_word(void *value, const void *from, size_t bytes)
{
    if (bytes == 8) {
        uint64_t v = prim_load_relaxed_u64((const uint64_t *)from);
        __builtin_memcpy(value, &v, 8);
    } else if (bytes == 4) {
        uint32_t v = prim_load_relaxed_u32((const uint32_t *)from);
        __builtin_memcpy(value, &v, 4);
    } else if (bytes == 2) {
        uint16_t v = prim_load_relaxed_u16((const uint16_t *)from);
        __builtin_memcpy(value, &v, 2);
    } else {
        *(uint8_t *)value = prim_load_relaxed_u8((const uint8_t *)from);
    }
}

/* Values as bits: an address of a local variable would give the kernel a stack. */
PRIM_FN uint64_t isod_bits(const void *value, size_t bytes)
{
    uint64_t v8 = 0;
    uint32_t v4 = 0;
    uint16_t v2 = 0;
    if (bytes == 8)
        __builtin_memcpy(&v8, value, 8);
    else if (bytes == 4)
        __builtin_memcpy(&v4, value, 4);
    else if (bytes == 2)
        __builtin_memcpy(&v2, value, 2);
    return bytes == 8 ? v8 : bytes == 4 ? v4 : bytes == 2 ? v2 : *(const uint8_t *)value;
}
PRIM_FN void isod_unbits(void *value, uint64_t bits, size_t bytes)
{
    uint32_t v4 = (uint32_t)bits;
    uint16_t v2 = (uint16_t)bits;
    if (bytes == 8)
        __builtin_memcpy(value, &bits, 8);
    else if (bytes == 4)
        __builtin_memcpy(value, &v4, 4);
    else if (bytes == 2)
        __builtin_memcpy(value, &v2, 2);
    else
        *(uint8_t *)value = (uint8_t)bits;
}

PRIM_FN void isod_p(shmemd_t h, void *dest, const void *value, size_t bytes, int pe)
{
    if (isod_is_even(h, dest)) { /* without the question whether there is a pointer */
        isod_store_word((char *)dest + isod_shift(h, pe), value, bytes);
        return;
    }
    char *to = isod_near_by_table(isod_origin_of(h), dest, pe);
    if (to != 0)
        isod_store_word(to, value, bytes);
    else
        isod_ring_put_words(h, dest, isod_words_of(isod_bits(value, bytes), 0, (uint32_t)bytes), isod_world_pe(h, pe));
}

PRIM_FN void isod_g(shmemd_t h, void *value, const void *source, size_t bytes, int pe)
{
    const char *from = isod_near(h, source, pe);
    if (from != 0)
        isod_load_word(value, from, bytes);
    else
        isod_unbits(value, isod_ring_get_word(h, source, (uint32_t)bytes, isod_world_pe(h, pe)), bytes);
    prim_look("shmemd_g", source, isod_bits(value, bytes));
}

/* ---- contiguous ---- */

/* The data of a put is no flag, unlike that of a p, so the CPU device may hold it back. */
PRIM_FN void isod_put_word(char *to, const void *value, size_t bytes)
{
    if (!prim_hold_put(to, value, bytes))
        isod_store_word(to, value, bytes);
}

/* One word for each thread is the frequent small case: it does without the general copy. */
PRIM_FN void isod_copy_out(shmemd_group_t g, char *to, struct isod_bytes b)
{
    const uintptr_t all = (uintptr_t)to | (uintptr_t)b.source | b.len;
    const size_t step = 8 * (size_t)prim_size(g);
    const bool is_short = b.len <= 2 * step; /* asked first: what is long meets no other question */
    if (is_short && (all & 7) == 0 && b.len <= step) {
        size_t at = 8 * (size_t)prim_rank(g);
        if (at < b.len)
            isod_put_word(to + at, __builtin_assume_aligned((const char *)b.source + at, 8), 8);
    } else if (g.kind == PRIM_THREAD && b.len == 4 && (all & 3) == 0) {
        isod_put_word(to, __builtin_assume_aligned(b.source, 4), 4);
    } else if (!is_short || !prim_put_vector_each(g, to, (const char *)b.source, b.len)) {
        prim_copy_put(g, to, b.source, b.len);
    }
}

/* Without the last sync: `source` may be reused when all threads of the group have synchronised again. */
PRIM_FN void isod_put_nbi(shmemd_t h, shmemd_group_t g, struct isod_bytes b, int pe)
{
    char *to = b.len != 0 ? isod_near(h, b.dest, pe) : (char *)0;
    if (to != 0)
        isod_copy_out(g, to, b);
    else if (b.len != 0)
        isod_ring_put(h, g, b, isod_world_pe(h, pe));
}
PRIM_FN void isod_put(shmemd_t h, shmemd_group_t g, struct isod_bytes b, int pe)
{
    isod_put_nbi(h, g, b, pe);
    prim_sync_settled(g);
}

/* As isod_copy_out. */
PRIM_FN void isod_copy_in(shmemd_group_t g, const char *from, struct isod_bytes b)
{
    const uintptr_t all = (uintptr_t)b.dest | (uintptr_t)from | b.len;
    if (PRIM_GETS_WORDS(g) && (all & 7) == 0 && b.len <= 8 * (size_t)prim_size(g)) {
        const size_t at = 8 * (size_t)prim_rank(g);
        if (at < b.len)
            isod_load_word(__builtin_assume_aligned((char *)b.dest + at, 8), from + at, 8);
    } else if (PRIM_GETS_WORDS(g) && b.len == 4 && (all & 3) == 0) {
        if (prim_rank(g) == 0)
            isod_load_word(__builtin_assume_aligned(b.dest, 4), from, 4);
    } else if (!prim_get_vector_each(g, (char *)b.dest, from, b.len)) {
        prim_copy_get(g, b.dest, from, b.len);
    }
}
PRIM_FN void isod_get_nbi(shmemd_t h, shmemd_group_t g, struct isod_bytes b, int pe)
{
    const char *from = b.len != 0 ? isod_near(h, b.source, pe) : (const char *)0;
    if (from != 0)
        isod_copy_in(g, from, b);
    else if (b.len != 0)
        isod_ring_get(h, g, b, isod_world_pe(h, pe));
}
PRIM_FN void isod_get(shmemd_t h, shmemd_group_t g, struct isod_bytes b, int pe)
{
    isod_get_nbi(h, g, b, pe);
    prim_sync_settled(g); /* every thread may read all of dest */
    if (g.kind == PRIM_THREAD)
        prim_look_at_bytes("shmemd_get", b.source, b.dest, b.len);
}

/* ---- strided: element i of dest at i * dst, of source at i * sst, in elements ---- */

struct isod_strided {
    void *dest;
    const void *source;
    ptrdiff_t dst, sst;
    size_t nelems;
    size_t bytes; /* of an element: 1, 2, 4, 8, 16 */
};

/* Where element i is, in bytes. */
PRIM_FN ptrdiff_t isod_strided_at(const struct isod_strided *s, size_t i, ptrdiff_t stride)
{
    return (ptrdiff_t)i * stride * (ptrdiff_t)s->bytes;
}

/* Aligned elements are stored and loaded whole; misaligned ones are copied as bytes. */
PRIM_FN void isod_store_element(char *to, const char *from, size_t bytes)
{
    size_t word = bytes == 16 ? 8 : bytes;
    if (((uintptr_t)to & (word - 1)) != 0)
        word = 1;
    for (size_t i = 0; i < bytes; i += word)
        if (word == 1)
            isod_put_word(to + i, from + i, 1);
        else
            isod_put_word(to + i, from + i, bytes == 16 ? 8 : bytes);
}
PRIM_FN void isod_load_element(char *to, const char *from, size_t bytes)
{
    size_t word = bytes == 16 ? 8 : bytes;
    if (((uintptr_t)from & (word - 1)) != 0)
        word = 1;
    for (size_t i = 0; i < bytes; i += word)
        if (word == 1)
            isod_load_word(to + i, from + i, 1);
        else
            isod_load_word(to + i, from + i, bytes == 16 ? 8 : bytes);
}

PRIM_FN void isod_iput(shmemd_t h, shmemd_group_t g, struct isod_strided s, int pe)
{
    char *to = s.nelems != 0 ? isod_near(h, s.dest, pe) : (char *)0;
    for (size_t i = prim_rank(g); i < s.nelems; i += prim_size(g)) {
        const char *from = (const char *)s.source + isod_strided_at(&s, i, s.sst);
        ptrdiff_t at = isod_strided_at(&s, i, s.dst);
        if (to != 0)
            isod_store_element(to + at, from, s.bytes);
        else
            isod_ring_put(h, prim_group_thread(), isod_bytes_of((char *)s.dest + at, from, s.bytes),
                          isod_world_pe(h, pe));
    }
    prim_sync_settled(g);
}
PRIM_FN void isod_iget(shmemd_t h, shmemd_group_t g, struct isod_strided s, int pe)
{
    const char *from = s.nelems != 0 ? isod_near(h, s.source, pe) : (const char *)0;
    for (size_t i = prim_rank(g); i < s.nelems; i += prim_size(g)) {
        char *to = (char *)s.dest + isod_strided_at(&s, i, s.dst);
        ptrdiff_t at = isod_strided_at(&s, i, s.sst);
        if (from != 0)
            isod_load_element(to, from + at, s.bytes);
        else
            isod_ring_get(h, prim_group_thread(), isod_bytes_of(to, (const char *)s.source + at, s.bytes),
                          isod_world_pe(h, pe));
    }
    prim_sync_settled(g);
    if (g.kind == PRIM_THREAD)
        prim_pass();
}

/* ---- places ---- */

/* The number in `other` of member `pe` of h; -1: not a member of `other`, or `pe` is not a member of h. */
PRIM_FN int isod_translate_pe(shmemd_t h, int pe, shmemd_t other)
{
    if ((uint32_t)pe >= (uint32_t)h.n_pes)
        return -1;
    int32_t world_pe = isod_world_pe(h, pe);
    for (int i = 0; i < other.n_pes; i++)
        if (isod_world_pe(other, i) == world_pe)
            return i;
    return -1;
}

#endif
