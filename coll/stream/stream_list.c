/* SPDX-License-Identifier: MIT */
/* Collectives on streams whose blocks or splits the host knows: checks of the host's arrays, and the list of them that
 * kernels read. The words of a list are arguments of small kernels, in front of the call's own: so they are in a graph,
 * too, and no memory of the host has to outlive the call. A list lies in memory of the slot, whose calls follow one
 * another. Invariant: more splits than a list has become several calls, at the same splits on all members.
 * Called by coll_stream.c, stream_notes.c and, through the table, by the choice. */
#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void isod_stream_list_kernel(void);

/* ---- checks ---- */

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

/* ---- lists ---- */

/* Each kernel begins when the work before it has ended, so the slot's last call has read its list. */
static int put_list(const struct stream_call *c, const uint64_t *words, size_t n)
{
    struct isod_stream_list args;
    struct gpu_launch l = {isod_stream_list_kernel, 1, 64, 0, &args, sizeof args, false};
    int rc = 0;
    memset(&args, 0, sizeof args);
    for (size_t at = 0; at < n && rc == 0; at += ISOD_STREAM_LIST_WORDS) {
        args.to = (uint64_t *)c->slot->list + at;
        args.n = ISO_MIN(n - at, (size_t)ISOD_STREAM_LIST_WORDS);
        memcpy(args.word, words + at, args.n * sizeof *words);
        rc = iso_gpu_launch(c->device->gpu, &l, c->stream);
    }
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->name, iso_gpu_error(c->device->gpu));
    return rc == 0 ? 0 : 1;
}

int iso_list_run_blocks(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const shmemx_host_blocks_t *b = c->coll->host_blocks;
    size_t n = (size_t)c->args.h.n_pes, sent = 0, received = 0;
    struct stream_call staged = *c;
    uint64_t *words = (uint64_t *)malloc(4 * n * sizeof *words);
    if (words == NULL) {
        log_error("shmemx_coll_on_stream, %s: no memory", c->name);
        return 1;
    }
    staged.args.bytes = 0;
    staged.args.list = (const uint64_t *)c->slot->list;
    for (size_t m = 0; m < n; m++) {
        words[m] = b->send_bytes[m];
        words[n + m] = b->send_offset != NULL ? b->send_offset[m] : sent;
        words[2 * n + m] = b->receive_bytes[m];
        words[3 * n + m] = b->receive_offset != NULL ? b->receive_offset[m] : received;
        sent += b->send_bytes[m];
        received += b->receive_bytes[m];
        if (m != (size_t)c->args.h.my_pe)
            staged.args.bytes = ISO_MAX(staged.args.bytes, (uint64_t)b->send_bytes[m]);
    }
    int rc = put_list(c, words, 4 * n);
    free(words);
    return rc != 0 ? rc : iso_stream_launch(&staged, a->move, shape, true);
}

enum { SPLITS_OF_LIST = (STREAM_LIST_WORDS - 1) / 2 };

/* Splits that are not empty, from *next on, as many as a list has; in bytes. Returns their number. */
static uint32_t fill_list(const shmemx_splits_t *s, size_t elem_bytes, size_t *next, size_t *end,
                          uint64_t begins[SPLITS_OF_LIST + 1], uint64_t places[SPLITS_OF_LIST])
{
    uint32_t n = 0;
    for (begins[0] = 0; *next < s->n && n < SPLITS_OF_LIST; ++*next) {
        size_t at = s->offset != NULL ? s->offset[*next] : *end;
        *end = at + s->nelems[*next];
        if (s->nelems[*next] == 0)
            continue;
        places[n] = at * elem_bytes;
        begins[n + 1] = begins[n] + s->nelems[*next] * elem_bytes;
        n++;
    }
    return n;
}

int iso_list_run_splits(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const shmemx_splits_t *s = c->coll->splits;
    size_t next = 0, end = 0, elem_bytes = c->args.bytes / c->coll->nelems;
    int rc = 0;
    while (next < s->n && rc == 0) {
        uint64_t words[STREAM_LIST_WORDS], places[SPLITS_OF_LIST];
        struct stream_call some = *c;
        uint32_t n = fill_list(s, elem_bytes, &next, &end, words, places);
        if (n == 0)
            break;
        memcpy(words + n + 1, places, n * sizeof *places);
        some.args.bytes = words[n];
        some.args.n_splits = n;
        some.args.list = (const uint64_t *)c->slot->list;
        rc = put_list(c, words, 2 * (size_t)n + 1);
        if (rc == 0)
            rc = iso_stream_launch(&some, a->move != NULL ? a->move : a->any, shape, true);
    }
    return rc;
}
