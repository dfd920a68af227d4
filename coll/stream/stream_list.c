/* SPDX-License-Identifier: MIT */
/* Collectives on streams whose blocks or splits the host knows: the list of them that kernels read. The words of a list
 * are arguments of small kernels, in front of the call's own. So a graph has them, too, and no memory of the host has
 * to outlive the call. A list lies in memory of the slot, whose calls follow one another. Invariant: more splits than a
 * list has become several calls, at the same splits on all members.
 * Called through the table. */
#include "../../bootstrap/log.h"
#include "coll_stream.h"

#include <stdlib.h>
#include <string.h>

extern void isod_stream_list_kernel(void);

/* Each kernel begins when the work before it has ended, so the slot's last call has read its list. */
static int put_list(const struct stream_call *c, const uint64_t *words, size_t n)
{
    struct isod_stream_list args;
    struct gpu_launch l = {
        .kernel = isod_stream_list_kernel, .grid.x = 1, .block.x = 64, .args = &args, .args_bytes = sizeof args};
    int rc = 0;
    memset(&args, 0, sizeof args);
    for (size_t at = 0; at < n && rc == 0; at += ISOD_STREAM_LIST_WORDS) {
        args.to = (uint64_t *)c->slot->list + at;
        args.n = ISO_MIN(n - at, (size_t)ISOD_STREAM_LIST_WORDS);
        memcpy(args.word, words + at, args.n * sizeof *words);
        rc = iso_gpu_launch(c->device->gpu, &l, c->stream);
    }
    if (rc != 0)
        log_error("shmemx_coll_on_stream, %s: %s", c->call.name, iso_gpu_error(c->device->gpu));
    return rc == 0 ? 0 : 1;
}

int iso_list_run_blocks(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const shmemx_host_blocks_t *b = c->call.coll->host_blocks;
    size_t n = (size_t)c->args.h.n_pes, sent = 0, received = 0;
    struct stream_call staged = *c;
    uint64_t *words = (uint64_t *)malloc((4 * n + 1) * sizeof *words);
    if (words == NULL) {
        log_error("shmemx_coll_on_stream, %s: no memory", c->call.name);
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
    words[4 * n] = 0; /* blocks that have left a call whose lengths differ */
    int rc = put_list(c, words, 4 * n + 1);
    free(words);
    return rc != 0 ? rc : iso_stream_launch(&staged, a->move, shape, true);
}

enum { SPLITS_OF_LIST = (STREAM_LIST_WORDS - 1) / 2 };

int iso_list_run_splits(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape)
{
    const shmemx_splits_t *s = c->call.coll->splits;
    size_t next = 0, end = 0, elem_bytes = c->args.bytes / c->call.coll->nelems;
    int rc = 0;
    while (next < s->n && rc == 0) {
        uint64_t words[STREAM_LIST_WORDS], places[SPLITS_OF_LIST];
        struct stream_call some = *c;
        uint32_t n = 0;
        for (words[0] = 0; next < s->n && n < SPLITS_OF_LIST; next++) { /* splits that are not empty; in bytes */
            size_t at = s->offset != NULL ? s->offset[next] : end;
            end = at + s->nelems[next];
            if (s->nelems[next] == 0)
                continue;
            places[n] = at * elem_bytes;
            words[n + 1] = words[n] + s->nelems[next] * elem_bytes;
            n++;
        }
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
