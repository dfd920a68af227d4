/* SPDX-License-Identifier: MIT */
/* Do all members of a team make the same call of shmemx_coll_on_host? Each sends a word of its call to every other one,
 * beside the flag of its first piece (struct slot_word). Every member has the words of all before it takes a byte of
 * theirs. So all find a difference in the same epoch, all return it, and the team can be used further.
 * Whether calls have words depends on what is equal on all members. Included by coll_on_host.c. */
#ifndef ISO_CALL_WORD_H
#define ISO_CALL_WORD_H

#include "../call/kinds.h"
#include "coll.h"
#include "../call/lists.h"

#include <inttypes.h>
#include <stdio.h>

#define WORD_TEXT_BYTES 192

/* struct slot_word.call, from the low bits on. */
enum { WORD_EPOCH_BITS = 32, WORD_ROOT_BITS = 16, WORD_KIND_BITS = 4, WORD_TYPE_BITS = 5, WORD_OP_BITS = 5 };
enum {
    WORD_ROOT = WORD_EPOCH_BITS,
    WORD_KIND = WORD_ROOT + WORD_ROOT_BITS,
    WORD_TYPE = WORD_KIND + WORD_KIND_BITS,
    WORD_OP = WORD_TYPE + WORD_TYPE_BITS,
    WORD_LISTS = WORD_OP + WORD_OP_BITS /* 1: the call has host_blocks or splits */
};
_Static_assert(CALL_USER_KINDS <= 1 << WORD_KIND_BITS && CALL_TYPES_END <= 1 << WORD_TYPE_BITS &&
                   CALL_OPS_END <= 1 << WORD_OP_BITS && WORD_LISTS < 64,
               "a call fits its word");

static unsigned word_field(const struct slot_word *w, int at, int bits)
{
    return (unsigned)(w->call >> at & ((UINT64_C(1) << bits) - 1));
}

/* Arguments that the kind does not use are 0. What concerns a pair of members is 0, too. */
static struct slot_word word_of(const shmemx_coll_t *coll, uint64_t epoch)
{
    unsigned is = iso_call_kinds[coll->kind].is;
    struct slot_word w = {0, 0, (uint32_t)epoch | (uint64_t)coll->kind << WORD_KIND};
    if ((is & OF_TYPE) != 0) {
        w.amount = coll->nelems;
        w.call |= (uint64_t)coll->type << WORD_TYPE;
    }
    if ((is & ROOTED) != 0)
        w.call |= (uint64_t)(uint16_t)coll->root << WORD_ROOT;
    if ((is & REDUCES) != 0)
        w.call |= (uint64_t)coll->op << WORD_OP;
    if ((is & REDUCES) != 0 && coll->op == SHMEMX_SCALED_SUM)
        memcpy(&w.more, coll->scale_from != NULL ? coll->scale_from : &coll->scale, sizeof w.more);
    if (coll->splits != NULL)
        w.more ^= iso_list_sum(coll->splits);
    w.call |= (uint64_t)(coll->splits != NULL || coll->host_blocks != NULL) << WORD_LISTS;
    return w;
}

static bool word_is_equal(const struct slot_word *a, const struct slot_word *b)
{
    return a->call == b->call && a->amount == b->amount && a->more == b->more;
}

/* The first argument that differs. They are not equal. */
static const char *word_difference(const struct slot_word *a, const struct slot_word *b)
{
    uint64_t differs = a->call ^ b->call;
    struct slot_word bits = {0, 0, differs};
    if (word_field(&bits, WORD_KIND, WORD_KIND_BITS) != 0)
        return "kind";
    if (word_field(&bits, WORD_LISTS, 1) != 0)
        return word_field(a, WORD_KIND, WORD_KIND_BITS) == SHMEMX_ALLTOALLV ? "host_blocks" : "splits";
    if (a->amount != b->amount)
        return "nelems";
    if (word_field(&bits, WORD_TYPE, WORD_TYPE_BITS) != 0)
        return "type";
    if (word_field(&bits, WORD_OP, WORD_OP_BITS) != 0)
        return "op";
    if (word_field(&bits, WORD_ROOT, WORD_ROOT_BITS) != 0)
        return "root";
    return word_field(a, WORD_LISTS, 1) != 0 ? "splits" : "the factor";
}

/* "SHMEMX_REDUCE(16 of SHMEMX_FLOAT, SHMEMX_SUM, root 0)" */
static const char *word_text(const struct slot_word *w, char text[WORD_TEXT_BYTES])
{
    const struct call_kind *kind = &iso_call_kinds[word_field(w, WORD_KIND, WORD_KIND_BITS)];
    const char *lists = word_field(w, WORD_LISTS, 1) != 0 ? ", splits" : "";
    char op[64] = "", root[32] = "";
    double factor;
    unsigned number = word_field(w, WORD_OP, WORD_OP_BITS);
    memcpy(&factor, &w->more, sizeof factor);
    if ((kind->is & REDUCES) != 0)
        snprintf(op, sizeof op, ", %s", iso_call_ops[number].name);
    if ((kind->is & REDUCES) != 0 && number == SHMEMX_SCALED_SUM && lists[0] == '\0')
        snprintf(op, sizeof op, ", %s by %g", iso_call_ops[number].name, factor);
    if ((kind->is & ROOTED) != 0)
        snprintf(root, sizeof root, ", root %u", word_field(w, WORD_ROOT, WORD_ROOT_BITS));
    if ((kind->is & OF_TYPE) != 0)
        snprintf(text, WORD_TEXT_BYTES, "%s(%" PRIu64 " of %s%s%s%s)", kind->name, w->amount,
                 iso_call_types[word_field(w, WORD_TYPE, WORD_TYPE_BITS)].name, op, root, lists);
    else
        snprintf(text, WORD_TEXT_BYTES, "%s%s", kind->name, lists[0] != '\0' ? "(host_blocks)" : "");
    return text;
}

#endif
