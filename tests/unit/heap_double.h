/* SPDX-License-Identifier: MIT */
/* For doubles of a network: one PE without a job, whose heap is here, and peers of which only the addresses are known.
 * Included by verbs_double.h, ofi_double.h. */
#ifndef HEAP_DOUBLE_H
#define HEAP_DOUBLE_H

#include "../check.h"

#include "../../shmem/state/error.h"
#include "../../shmem/node/peer.h"
#include "../../shmem/memory/segment.h"

enum { HEAP_BYTES = 1 << 22 };
#define REMOTE_BASE ((uint64_t)1 << 40) /* of every peer's heap */

static inline void open_heap(int n_pes)
{
    struct segment_peer *peers = (struct segment_peer *)calloc((size_t)n_pes, sizeof *peers);
    ISO->n_pes = n_pes;
    ISO->peers = (struct peer *)calloc((size_t)n_pes, sizeof *ISO->peers);
    ISO->segments = (struct segment *)aligned_alloc(ISO_LINE, SEGMENT_INDEX_FREE * sizeof(struct segment));
    CHECK_OR_EXIT(ISO->segments != NULL && ISO->peers != NULL && peers != NULL);
    memset(ISO->segments, 0, SEGMENT_INDEX_FREE * sizeof(struct segment));
    ISO->n_segments = SEGMENT_INDEX_FREE;
    for (int pe = 0; pe < n_pes; pe++)
        peers[pe].base = (char *)(uintptr_t)REMOTE_BASE;
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP];
    heap->base = (char *)calloc(1, HEAP_BYTES);
    CHECK_OR_EXIT(heap->base != NULL);
    heap->len = heap->limit = HEAP_BYTES;
    heap->kind = SEGMENT_HEAP;
    heap->peers = peers;
}

static inline void close_heap(void)
{
    free(ISO->segments[SEGMENT_INDEX_HEAP].base);
    free(ISO->segments[SEGMENT_INDEX_HEAP].peers);
    free(ISO->segments);
    free(ISO->peers);
    ISO->segments = NULL;
    ISO->peers = NULL;
}

static inline struct place place_at(int pe, size_t offset)
{
    struct segment *heap = &ISO->segments[SEGMENT_INDEX_HEAP];
    return (struct place){NULL, heap, heap->base + offset, pe};
}

/* A thread that finds out, a moment later, why the network fails: it has said so already. */
static inline void *find_death(void *none)
{
    usleep(50000);
    iso_job_break(1, "pe 1 died");
    return none;
}

/* How many lines of the text have the word. */
static inline int lines_with(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at, word), n++)
        at = at + strcspn(at, "\n");
    return n;
}

#endif
