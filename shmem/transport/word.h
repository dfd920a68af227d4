/* SPDX-License-Identifier: MIT */
/* Words of 1, 2, 4 and 8 bytes in symmetric memory, for RMA of one element, atomics, signals and waits. Whatever the C
 * type, they travel as uint64_t and are accessed by one atomic of their size. `bytes` is a constant wherever these
 * functions are inlined. Invariant: addresses are naturally aligned; the callers have checked. Included by shmem/ only.
 */
#ifndef ISO_WORD_H
#define ISO_WORD_H

#include "../state/base.h"

#include <string.h>

/* The user's object may have any type of that size. */
typedef uint8_t word8 __attribute__((__may_alias__));
typedef uint16_t word16 __attribute__((__may_alias__));
typedef uint32_t word32 __attribute__((__may_alias__));
typedef uint64_t word64 __attribute__((__may_alias__));

/* The bits of a local value, zero-extended, and back. */
ISO_INLINE uint64_t iso_word_of(const void *value, size_t bytes)
{
    switch (bytes) {
    case 1:
        return *(const word8 *)value;
    case 2:
        return *(const word16 *)value;
    case 4:
        return *(const word32 *)value;
    default:
        return *(const word64 *)value;
    }
}

ISO_INLINE void iso_word_to(void *value, uint64_t word, size_t bytes)
{
    switch (bytes) {
    case 1:
        *(word8 *)value = (uint8_t)word;
        break;
    case 2:
        *(word16 *)value = (uint16_t)word;
        break;
    case 4:
        *(word32 *)value = (uint32_t)word;
        break;
    default:
        *(word64 *)value = word;
        break;
    }
}

/* Acquire: pairs with iso_word_store and with the read-modify-writes of amo.c and signal.c, of any PE. The writer's
 * earlier stores are visible after a load that sees its value. */
ISO_INLINE uint64_t iso_word_load(const void *at, size_t bytes)
{
    switch (bytes) {
    case 1:
        return __atomic_load_n((const word8 *)at, __ATOMIC_ACQUIRE);
    case 2:
        return __atomic_load_n((const word16 *)at, __ATOMIC_ACQUIRE);
    case 4:
        return __atomic_load_n((const word32 *)at, __ATOMIC_ACQUIRE);
    default:
        return __atomic_load_n((const word64 *)at, __ATOMIC_ACQUIRE);
    }
}

/* Release: pairs with iso_word_load of the PE that owns the word, in wait, test and fetch. */
ISO_INLINE void iso_word_store(void *at, uint64_t word, size_t bytes)
{
    switch (bytes) {
    case 1:
        __atomic_store_n((word8 *)at, (uint8_t)word, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((word16 *)at, (uint16_t)word, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((word32 *)at, (uint32_t)word, __ATOMIC_RELEASE);
        break;
    default:
        __atomic_store_n((word64 *)at, word, __ATOMIC_RELEASE);
        break;
    }
}

#endif
