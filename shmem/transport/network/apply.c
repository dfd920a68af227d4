/* SPDX-License-Identifier: MIT */
/* Operations of other nodes on memory of this PE: see apply.h. */
#include "apply.h"
#include "../word.h"

#define T word32
#define DIRECT direct32
#include "../amo_direct.h"
#define T word64
#define DIRECT direct64
#include "../amo_direct.h"

bool iso_apply_amo(uint64_t addr, struct amo op, uint64_t *before)
{
    char *word = (char *)(uintptr_t)addr;
    const struct segment *s = iso_segment_of(word, op.bytes);
    if (s == NULL || (op.bytes != 4 && op.bytes != 8) || (addr & (op.bytes - 1u)) != 0)
        return false;
    if (s->on_device)
        *before = iso_agent_amo(word, op);
    else
        *before = op.bytes == 4 ? direct32((word32 *)(void *)word, op) : direct64((word64 *)(void *)word, op);
    return true;
}

/* Bytes of the largest aligned word at addr that is not longer than len. */
static size_t bytes_at(uint64_t addr, size_t len)
{
    size_t n = 8;
    while (n > 1 && ((addr & (n - 1)) != 0 || n > len))
        n /= 2;
    return n;
}

/* The bytes from addr on, at most len, that are in one segment, *s. 0: there is none. */
static size_t piece_at(uint64_t addr, size_t len, const struct segment **s)
{
    const char *at = (const char *)(uintptr_t)addr;
    *s = iso_segment_of(at, len);
    if (*s != NULL)
        return len;
    *s = iso_segment_of(at, 1);
    size_t limit = *s != NULL ? __atomic_load_n(&(*s)->limit, __ATOMIC_RELAXED) : 0; /* as in iso_segment_of */
    return *s != NULL ? ISO_MIN(len, limit - (size_t)(at - (*s)->base)) : 0;
}

static bool range_is_symmetric(uint64_t addr, size_t len)
{
    const struct segment *s;
    size_t n = 1;
    for (; len > 0 && n > 0; len -= n, addr += n)
        n = piece_at(addr, len, &s);
    return n > 0;
}

/* Words by the target's alignment; those of 8 bytes, nearly all of a long move, in a loop that asks no length. */
static void put_words(char *to, const char *from, size_t len)
{
    while (len > 0) {
        uint64_t word = 0;
        size_t n = bytes_at((uintptr_t)to, len);
        memcpy(&word, from, n);
        iso_word_store(to, iso_word_of(&word, n), n);
        for (len -= n, from += n, to += n; n == 8 && len >= 8; len -= 8, from += 8, to += 8) {
            memcpy(&word, from, 8);
            iso_word_store(to, word, 8);
        }
    }
}

static void get_words(char *to, const char *from, size_t len)
{
    while (len > 0) {
        uint64_t word = 0;
        size_t n = bytes_at((uintptr_t)from, len);
        iso_word_to(&word, iso_word_load(from, n), n);
        memcpy(to, &word, n);
        for (len -= n, from += n, to += n; n == 8 && len >= 8; len -= 8, from += 8, to += 8) {
            word = iso_word_load(from, 8);
            memcpy(to, &word, 8);
        }
    }
}

bool iso_apply_put(uint64_t addr, const void *data, size_t len)
{
    const char *from = (const char *)data;
    const struct segment *s;
    if (!range_is_symmetric(addr, len))
        return false;
    for (size_t n; len > 0; len -= n, from += n, addr += n) {
        char *to = (char *)(uintptr_t)addr;
        n = piece_at(addr, len, &s);
        if (s->on_device)
            iso_agent_copy(to, from, n);
        else
            put_words(to, from, n);
    }
    return true;
}

bool iso_apply_get(void *data, uint64_t addr, size_t len)
{
    char *to = (char *)data;
    const struct segment *s;
    if (!range_is_symmetric(addr, len))
        return false;
    for (size_t n; len > 0; len -= n, to += n, addr += n) {
        const char *from = (const char *)(uintptr_t)addr;
        n = piece_at(addr, len, &s);
        if (s->on_device)
            iso_agent_copy(to, from, n);
        else
            get_words(to, from, n);
    }
    return true;
}
