/* SPDX-License-Identifier: MIT */
/* A call in three words (struct slot_word), by which members find out whether all make the same one: on host memory
 * beside the flag of the first piece (coll_on_host.c), on streams in notes (notes.c). Includes: kinds.h, lists.h.
 * Used by coll/. */
#ifndef ISO_CALL_WORD_H
#define ISO_CALL_WORD_H

#include "../../shmem/team/slot.h"
#include "kinds.h"
#include "lists.h"

#include <string.h>

/* struct slot_word.call, from the low bits on. */
enum { WORD_EPOCH_BITS = 32, WORD_ROOT_BITS = 16, WORD_KIND_BITS = 4, WORD_TYPE_BITS = 5, WORD_OP_BITS = 5 };
enum {
    WORD_ROOT = WORD_EPOCH_BITS,
    WORD_KIND = WORD_ROOT + WORD_ROOT_BITS,
    WORD_TYPE = WORD_KIND + WORD_KIND_BITS,
    WORD_OP = WORD_TYPE + WORD_TYPE_BITS,
    WORD_LISTS = WORD_OP + WORD_OP_BITS, /* 1: the call has host_blocks, splits or rms_norm */
    WORD_BACKGROUND                      /* 1: as its field */
};
_Static_assert(CALL_USER_KINDS <= 1 << WORD_KIND_BITS && CALL_TYPES_END <= 1 << WORD_TYPE_BITS &&
                   CALL_OPS_END <= 1 << WORD_OP_BITS && WORD_BACKGROUND < 64,
               "a call fits its word");

static inline unsigned word_field(const struct slot_word *w, int at, int bits)
{
    return (unsigned)(w->call >> at & ((UINT64_C(1) << bits) - 1));
}

/* Arguments that the kind does not use are 0. What concerns a pair of members is 0, too. factor: of SHMEMX_SCALED_SUM;
 * NULL: the host does not know it. */
static inline struct slot_word word_of(const shmemx_coll_t *coll, uint64_t epoch, const double *factor)
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
    if ((is & REDUCES) != 0 && coll->op == SHMEMX_SCALED_SUM && factor != NULL)
        memcpy(&w.more, factor, sizeof w.more);
    if (coll->splits != NULL)
        w.more ^= iso_list_sum(coll->splits);
    if (coll->rms_norm != NULL)
        w.more ^= iso_list_norm_sum(coll->rms_norm);
    w.call |= (uint64_t)(coll->splits != NULL || coll->host_blocks != NULL || coll->rms_norm != NULL) << WORD_LISTS;
    w.call |= (uint64_t)(coll->background != 0) << WORD_BACKGROUND;
    return w;
}

static inline bool word_is_equal(const struct slot_word *a, const struct slot_word *b)
{
    return a->call == b->call && a->amount == b->amount && a->more == b->more;
}

/* The first argument that differs; NULL: none. */
ISO_COLD const char *iso_word_difference(const struct slot_word *a, const struct slot_word *b);

/* "SHMEMX_REDUCE(16 of SHMEMX_FLOAT, SHMEMX_SUM, root 0": the end is for what else there is to say. */
enum { WORD_TEXT_BYTES = 384 };
ISO_COLD void iso_word_text(const struct slot_word *w, char text[WORD_TEXT_BYTES]);
ISO_COLD void iso_word_add(char text[WORD_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
ISO_COLD const char *iso_word_end(char text[WORD_TEXT_BYTES]); /* returns text */

#endif
