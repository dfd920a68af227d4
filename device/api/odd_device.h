/* SPDX-License-Identifier: MIT */
/* Copies between ends that are misaligned to each other, by vectors of 16 bytes: each is aligned at dest, and at source
 * it lies in two aligned ones. Which vectors those are, and what is made of the two.
 * Includes nothing: PRIM_FN and struct prim_vec16 are there. Included by prim_cuda.h and coll/stream/kernels/. */
#ifndef ISO_ODD_DEVICE_H
#define ISO_ODD_DEVICE_H

/* The 16 bytes from byte `shift` of two neighbours on; shift < 16, and 0 is the first of them. */
PRIM_FN struct prim_vec16 prim_odd_vec(struct prim_vec16 first, struct prim_vec16 second, unsigned shift)
{
    uint64_t low = shift < 8 ? first.word[0] : first.word[1], middle = shift < 8 ? first.word[1] : second.word[0];
    uint64_t high = shift < 8 ? second.word[0] : second.word[1];
    unsigned bits = (shift & 7) * 8;
    struct prim_vec16 v;
    v.word[0] = low >> bits | middle << 1 << (63 - bits);
    v.word[1] = middle >> bits | high << 1 << (63 - bits);
    return v;
}

/* dest + head is aligned. Vector i of `count` goes to dest + head + 16 * i, from byte `shift` of the aligned vectors at
 * source + head - shift + 16 * i and behind that. All of them lie inside of source; `head` and what is left behind are
 * less than 32 bytes each. count is 0 where there is no such vector. */
struct prim_odd_body {
    size_t head, count;
    unsigned shift;
};
PRIM_FN struct prim_odd_body prim_odd_body_of(uintptr_t dest, uintptr_t source, size_t bytes)
{
    struct prim_odd_body b;
    b.head = (0u - dest) & 15u;
    b.shift = (unsigned)(source + b.head) & 15u;
    b.head += b.head < b.shift ? 16 : 0;
    size_t more = b.head + 16 - b.shift; /* the last vector's second one ends so much behind 16 * count */
    b.count = bytes > more ? (bytes - more) / 16 : 0;
    return b;
}

#endif
