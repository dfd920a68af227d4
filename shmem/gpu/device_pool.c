/* SPDX-License-Identifier: MIT */
/* Small pieces of memory of the device, or of pinned host memory: cut from blocks, so that thousands of handles do not
 * cost as many allocations of the device's. Any thread. Blocks are given back when the device stops.
 * Called by handle.c and coll/stream/engine/engine_words.c. */
#include "device.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_BYTES ((size_t)1 << 20)

struct pool_block {
    struct pool_block *next;
    char *base;       /* for the CPU, where it is host memory */
    char *for_device; /* the same for kernels and streams */
    size_t len;
    struct alloc *pieces;
};

/* Of the blocks there are; -ENOSPC: none has room. The lock is held. */
static int cut_chunk(struct device_pool *pool, size_t len, char **base, char **for_device)
{
    for (struct pool_block *b = pool->blocks; b != NULL; b = b->next) {
        size_t offset;
        if (iso_alloc_get(b->pieces, ISO_LINE, len, &offset) == 0) {
            *base = b->base + offset;
            *for_device = b->for_device + offset;
            return 0;
        }
    }
    return -ENOSPC;
}

/* Without the lock: the device may take its time. */
static struct pool_block *open_block(struct device *d, const struct device_pool *pool, size_t len, int *rc)
{
    struct pool_block *b = (struct pool_block *)calloc(1, sizeof *b);
    void *base = NULL, *for_device = NULL;
    *rc = -ENOMEM;
    if (b == NULL)
        return NULL;
    b->len = ISO_MAX(len, pool->of_host ? BLOCK_BYTES / 16 : BLOCK_BYTES);
    b->pieces = iso_alloc_create(b->len, 0);
    if (b->pieces != NULL)
        *rc = pool->of_host ? iso_gpu_host_alloc(d->gpu, b->len, &base, &for_device)
                            : iso_gpu_alloc(d->gpu, b->len, &base);
    b->base = (char *)base;
    b->for_device = (char *)(pool->of_host ? for_device : base);
    if (*rc == 0)
        return b;
    iso_alloc_destroy(b->pieces);
    free(b);
    return NULL;
}

int iso_pool_get(struct device *d, struct device_pool *pool, size_t len, char **base, char **for_device)
{
    pthread_mutex_lock(&d->lock);
    int rc = cut_chunk(pool, len, base, for_device);
    pthread_mutex_unlock(&d->lock);
    if (rc == 0)
        return 0;
    struct pool_block *b = open_block(d, pool, (len + ISO_LINE - 1) / ISO_LINE * ISO_LINE, &rc);
    if (b == NULL)
        return rc;
    pthread_mutex_lock(&d->lock);
    b->next = pool->blocks;
    pool->blocks = b;
    rc = cut_chunk(pool, len, base, for_device);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

void iso_pool_put(struct device *d, struct device_pool *pool, const void *base)
{
    pthread_mutex_lock(&d->lock);
    for (struct pool_block *b = pool->blocks; b != NULL; b = b->next)
        if ((size_t)((const char *)base - b->base) < b->len)
            (void)iso_alloc_free(b->pieces, (size_t)((const char *)base - b->base));
    pthread_mutex_unlock(&d->lock);
}

void iso_pool_close(struct device *d, struct device_pool *pool)
{
    while (pool->blocks != NULL) {
        struct pool_block *b = pool->blocks;
        if (pool->of_host)
            iso_gpu_host_free(d->gpu, b->base);
        else
            iso_gpu_free(d->gpu, b->base);
        iso_alloc_destroy(b->pieces);
        pool->blocks = b->next;
        free(b);
    }
}
