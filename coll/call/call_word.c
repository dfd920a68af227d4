/* SPDX-License-Identifier: MIT */
/* The sentences about two calls that differ. Called by coll_on_host.c and notes.c. */
#include "call_word.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* What WORD_LISTS stands for. */
static const char *word_list_of(const struct slot_word *w)
{
    unsigned kind = word_field(w, WORD_KIND, WORD_KIND_BITS);
    return kind == SHMEMX_ALLTOALLV ? "host_blocks" : kind == SHMEMX_ALLREDUCE ? "rms_norm" : "splits";
}

const char *iso_word_difference(const struct slot_word *a, const struct slot_word *b)
{
    struct slot_word bits = {a->amount ^ b->amount, a->more ^ b->more, a->call ^ b->call};
    bool scaled = word_field(a, WORD_OP, WORD_OP_BITS) == SHMEMX_SCALED_SUM, lists = word_field(a, WORD_LISTS, 1) != 0;
    if (word_field(&bits, WORD_KIND, WORD_KIND_BITS) != 0)
        return "kind";
    if (word_field(&bits, WORD_LISTS, 1) != 0)
        return word_list_of(a);
    if (bits.amount != 0)
        return "nelems";
    if (word_field(&bits, WORD_TYPE, WORD_TYPE_BITS) != 0)
        return "type";
    if (word_field(&bits, WORD_OP, WORD_OP_BITS) != 0)
        return "op";
    if (word_field(&bits, WORD_ROOT, WORD_ROOT_BITS) != 0)
        return "root";
    if (word_field(&bits, WORD_BACKGROUND, 1) != 0)
        return "background";
    return bits.more == 0 ? NULL : !lists ? "scale" : scaled ? "splits or scale" : word_list_of(a);
}

/* Pieces stand in brackets behind the name, with commas between them. */
void iso_word_add(char text[WORD_TEXT_BYTES], const char *format, ...)
{
    size_t n = strlen(text), left = WORD_TEXT_BYTES - n;
    va_list args;
    int lead = snprintf(text + n, left, "%s", strchr(text, '(') != NULL ? ", " : "(");
    if ((size_t)lead >= left)
        return;
    va_start(args, format);
    vsnprintf(text + n + lead, left - (size_t)lead, format, args);
    va_end(args);
}

void iso_word_text(const struct slot_word *w, char text[WORD_TEXT_BYTES])
{
    const struct call_kind *kind = &iso_call_kinds[word_field(w, WORD_KIND, WORD_KIND_BITS)];
    const struct call_op *op = &iso_call_ops[word_field(w, WORD_OP, WORD_OP_BITS)];
    bool lists = word_field(w, WORD_LISTS, 1) != 0;
    double factor;
    memcpy(&factor, &w->more, sizeof factor);
    snprintf(text, WORD_TEXT_BYTES, "%s", kind->name);
    if ((kind->is & OF_TYPE) != 0)
        iso_word_add(text, "%" PRIu64 " of %s", w->amount,
                     iso_call_types[word_field(w, WORD_TYPE, WORD_TYPE_BITS)].name);
    if ((kind->is & REDUCES) != 0 && op->scaling == ISOD_SCALING_TIMES && !lists && w->more != 0)
        iso_word_add(text, "%s by %g", op->name, factor);
    else if ((kind->is & REDUCES) != 0)
        iso_word_add(text, "%s", op->name);
    if ((kind->is & ROOTED) != 0)
        iso_word_add(text, "root %u", word_field(w, WORD_ROOT, WORD_ROOT_BITS));
    if (lists)
        iso_word_add(text, "%s", word_list_of(w));
    if (word_field(w, WORD_BACKGROUND, 1) != 0)
        iso_word_add(text, "background");
}

const char *iso_word_end(char text[WORD_TEXT_BYTES])
{
    size_t n = strlen(text);
    if (strchr(text, '(') != NULL && n < WORD_TEXT_BYTES - 1)
        memcpy(text + n, ")", 2);
    return text;
}
