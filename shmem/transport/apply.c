/* SPDX-License-Identifier: MIT */
/* Operations of other nodes on memory of this PE: see apply.h. */
#include "apply.h"
#include "../ops/word.h"

#define T word32
#define DIRECT direct32
#include "../ops/amo_direct.h"
#define T word64
#define DIRECT direct64
#include "../ops/amo_direct.h"

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
static size_t word_at(uint64_t addr, size_t len)
{
    size_t n = 8;
    while (n > 1 && ((addr & (n - 1)) != 0 || n > len))
        n /= 2;
    return n;
}

/* One of the ends, `symmetric`, has to lie in a segment of this PE. */
static bool copy(const char *symmetric, char *to, const char *from, size_t len)
{
    const struct segment *s = iso_segment_of(symmetric, len);
    bool stores = symmetric == to;
    if (s == NULL)
        return false;
    if (s->on_device) {
        iso_agent_copy(to, from, len);
        return true;
    }
    for (size_t n; len > 0; len -= n, from += n, to += n) {
        uint64_t word = 0;
        n = word_at((uintptr_t)(stores ? to : from), len);
        if (stores) {
            memcpy(&word, from, n);
            iso_word_store(to, iso_word_of(&word, n), n);
        } else {
            iso_word_to(&word, iso_word_load(from, n), n);
            memcpy(to, &word, n);
        }
    }
    return true;
}

bool iso_apply_put(uint64_t addr, const void *data, size_t len)
{
    char *to = (char *)(uintptr_t)addr;
    return copy(to, to, (const char *)data, len);
}

bool iso_apply_get(void *data, uint64_t addr, size_t len)
{
    const char *from = (const char *)(uintptr_t)addr;
    return copy(from, (char *)data, from, len);
}
