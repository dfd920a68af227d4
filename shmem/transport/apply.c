/* SPDX-License-Identifier: MIT */
/* Operations of other nodes on words of this PE: see apply.h. */
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
