/* SPDX-License-Identifier: MIT */
/* Copies between ends that are misaligned to each other, as prim_cuda.h makes them by aligned vectors of 16 bytes: each
 * alignment of both ends and each length up to some vectors. No byte is read outside of source, none is missed, and
 * heads and tails are short. */
#include "../../device/api/prim.h"

#include "../../device/api/odd_device.h"
#include "../check.h"

#include <string.h>

enum { MOST = 200, EDGE = 64 };

static struct prim_vec16 vector_at(const unsigned char *memory, const unsigned char *at, size_t from, size_t to)
{
    struct prim_vec16 v;
    size_t place = (size_t)(at - memory);
    CHECK(((uintptr_t)at & 15) == 0 && place >= from && place + 16 <= to);
    memcpy(&v, at, sizeof v);
    return v;
}

static void copy(size_t to, size_t from, size_t bytes)
{
    static _Alignas(16) unsigned char source[MOST + 2 * EDGE], dest[MOST + 2 * EDGE];
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 7 + 1);
    memset(dest, 0, sizeof dest);
    struct prim_odd_body b = prim_odd_body_of((uintptr_t)(dest + EDGE + to), (uintptr_t)(source + EDGE + from), bytes);
    if (b.shift == 0 || b.count == 0) { /* by words */
        CHECK(b.shift == 0 || bytes < 64);
        return;
    }
    size_t end = b.head + 16 * b.count;
    CHECK(b.head < 32 && end <= bytes && bytes - end < 32);
    unsigned char *d = dest + EDGE + to;
    const unsigned char *s = source + EDGE + from;
    CHECK(((uintptr_t)(d + b.head) & 15) == 0);
    memcpy(d, s, b.head);
    for (size_t i = 0; i < b.count; i++) {
        const unsigned char *at = s + b.head - b.shift + 16 * i;
        struct prim_vec16 v = prim_odd_vec(vector_at(source, at, EDGE + from, EDGE + from + bytes),
                                           vector_at(source, at + 16, EDGE + from, EDGE + from + bytes), b.shift);
        memcpy(d + b.head + 16 * i, &v, sizeof v);
    }
    memcpy(d + end, s + end, bytes - end);
    CHECK(memcmp(d, s, bytes) == 0);
}

int main(void)
{
    for (size_t to = 0; to < 16; to++)
        for (size_t from = 0; from < 16; from++)
            for (size_t bytes = 0; bytes <= MOST; bytes++)
                copy(to, from, bytes);
    struct prim_vec16 first = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}}, none = {{0, 0}};
    struct prim_vec16 same = prim_odd_vec(first, none, 0);
    CHECK(same.word[0] == first.word[0] && same.word[1] == first.word[1]);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
