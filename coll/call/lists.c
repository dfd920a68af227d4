/* SPDX-License-Identifier: MIT */
/* Blocks and splits in arrays of the host: are they right, how long are they? Called by coll_on_host.c, coll_stream.c
 * and notes.c. */
#include "lists.h"
#include "../host/coll.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES ((uint64_t)1 << 36) /* kernels count units of 16 bytes in 32 bits */

/* Of one direction, "send" or "receive". */
static const char *check_side(const char *side, const size_t *bytes, const size_t *offset, int n, char sentence[256])
{
    size_t sum = 0, end;
    if (bytes == NULL) {
        snprintf(sentence, 256, "host_blocks->%s_bytes is a null pointer", side);
        return sentence;
    }
    for (int m = 0; m < n; m++) {
        size_t at = offset != NULL ? offset[m] : sum;
        if (bytes[m] >= MOST_BYTES) {
            snprintf(sentence, 256, "host_blocks->%s_bytes[%d] is %zu; a block has to be less than 64 GiB", side, m,
                     bytes[m]);
            return sentence;
        }
        sum += bytes[m];
        if (__builtin_add_overflow(at, bytes[m], &end) || end > PTRDIFF_MAX) {
            snprintf(sentence, 256, "host_blocks->%s_offset[%d] is %zu, which is more than an address space has", side,
                     m, at);
            return sentence;
        }
    }
    return NULL;
}

const char *iso_list_check_blocks(const shmemx_host_blocks_t *b, int n, char sentence[256])
{
    const char *what = check_side("send", b->send_bytes, b->send_offset, n, sentence);
    return what != NULL ? what : check_side("receive", b->receive_bytes, b->receive_offset, n, sentence);
}

const char *iso_list_check_splits(const shmemx_splits_t *s, size_t nelems, char sentence[256])
{
    size_t end = 0;
    if (s->nelems == NULL && s->n > 0) {
        snprintf(sentence, 256, "splits->nelems is a null pointer");
        return sentence;
    }
    for (size_t i = 0; i < s->n; i++) {
        size_t at = s->offset != NULL ? s->offset[i] : end;
        if (at < end) {
            snprintf(sentence, 256, "splits->offset[%zu] is %zu, but the split before it ends at %zu", i, at, end);
            return sentence;
        }
        if (__builtin_add_overflow(at, s->nelems[i], &end) || end > nelems) {
            snprintf(sentence, 256, "split %zu has %zu elements from %zu on, but a block has %zu (nelems)", i,
                     s->nelems[i], at, nelems);
            return sentence;
        }
    }
    return NULL;
}

size_t iso_list_extent(const size_t *bytes, const size_t *offset, int n)
{
    size_t sum = 0, end = 0;
    for (int m = 0; m < n; m++) {
        size_t at = offset != NULL ? offset[m] : sum;
        sum += bytes[m];
        if (bytes[m] > 0)
            end = ISO_MAX(end, at + bytes[m]);
    }
    return end;
}

uint64_t iso_list_sum(const shmemx_splits_t *s)
{
    uint64_t sum = s->n + 1;
    for (size_t i = 0, end = 0; i < s->n; i++) {
        size_t at = s->offset != NULL ? s->offset[i] : end;
        end = at + s->nelems[i];
        sum = (sum ^ at) * 0x9e3779b97f4a7c15u + 1;
        sum = (sum ^ s->nelems[i]) * 0x9e3779b97f4a7c15u + 1;
    }
    return sum;
}

uint64_t iso_list_norm_sum(const shmemx_rms_norm_t *norm)
{
    uint64_t eps, sum = norm->hidden << 8 | (unsigned)norm->dest_type << 1 | (norm->scale != NULL ? 1 : 0);
    memcpy(&eps, &norm->eps, sizeof eps);
    return (sum ^ eps * 0x9e3779b97f4a7c15u) * 0x9e3779b97f4a7c15u | 1;
}
