/* SPDX-License-Identifier: MIT */
/* What collectives on streams keep per device: the tables and the limits of kernels, made by the first call; and the
 * order of calls that different streams make. Called by stream_slot.c and pairs.c. */
#include "../../bootstrap/log.h"
#include "coll_stream.h"
#include "pair/pairs.h"

#include <errno.h>
#include <stdlib.h>

static const char call[] = "shmemx_coll_on_stream";

/* ---- the state ---- */

/* Blocks of the kernel that can have the fewest; 0: one of them cannot run in blocks of so many threads. */
static int blocks_of(struct device *d, const gpu_kernel *kernels, int n, unsigned threads)
{
    int least = SELECT_MOST_BLOCKS;
    for (int i = 0; i < n && least > 0; i++) {
        int blocks = 0;
        if (iso_gpu_max_blocks(d->gpu, kernels[i], threads, 0, &blocks) != 0)
            blocks = 0;
        least = ISO_MIN(least, blocks);
    }
    return least;
}

static int find_limits(struct device *d, struct streams *s)
{
    int blocks = 0;
    unsigned threads = ISOD_STREAM_THREADS * 2;
    while (blocks == 0 && threads > 32)
        blocks = blocks_of(d, iso_stream_kernels, iso_stream_n_kernels, threads /= 2);
    int of_pairs = blocks_of(d, iso_pair_kernels, iso_pair_n_kernels, ISOD_PAIR_THREADS);
    if (blocks == 0 || of_pairs == 0) {
        log_error("%s: no block of 32 threads of its kernels can run here: %s", call, iso_gpu_error(d->gpu));
        return -ENOTSUP;
    }
    s->most_blocks = (unsigned)ISO_MAX(blocks / ISO_MAX(d->device_peers, 1), 1);
    s->most_threads = threads;
    s->pair_blocks = (unsigned)ISO_MAX(of_pairs / ISO_MAX(d->device_peers, 1), 1);
    return 0;
}

/* So that no first launch has to load code while another kernel waits. */
static int preload(struct device *d)
{
    int rc = 0;
    for (int i = 0; i < iso_stream_n_kernels && rc == 0; i++)
        rc = iso_gpu_preload(d->gpu, iso_stream_kernels[i]);
    for (int i = 0; i < iso_pair_n_kernels && rc == 0; i++)
        rc = iso_gpu_preload(d->gpu, iso_pair_kernels[i]);
    for (int i = 0; i < iso_norm_n_kernels && rc == 0; i++)
        rc = iso_gpu_preload(d->gpu, iso_norm_kernels[i]);
    if (rc != 0)
        log_error("%s: its kernels cannot be loaded: %s", call, iso_gpu_error(d->gpu));
    return rc;
}

void iso_streams_drop(struct streams *s)
{
    if (s == NULL)
        return;
    iso_select_close(s->table);
    iso_select_close(s->common);
    pthread_mutex_destroy(&s->order);
    free(s);
}

/* Threads that make them at the same time: the first one's are taken. */
static struct streams *publish(struct device *d, struct streams *s)
{
    pthread_mutex_lock(&d->lock);
    struct streams *first = iso_streams_of(d);
    if (first == NULL)
        __atomic_store_n(&d->streams, s, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    if (first == NULL)
        return s;
    iso_streams_drop(s);
    return first;
}

struct streams *iso_streams_need(struct device *d)
{
    struct streams *s = iso_streams_of(d);
    if (s != NULL)
        return s;
    s = (struct streams *)calloc(1, sizeof *s);
    if (s == NULL) {
        log_error("%s: no memory", call);
        return NULL;
    }
    pthread_mutex_init(&s->order, NULL);
    s->table = iso_stream_table_open(d->info);
    s->common = s->table != NULL ? iso_stream_table_open(NULL) : NULL;
    if (s->common == NULL || preload(d) != 0 || find_limits(d, s) != 0) {
        iso_streams_drop(s);
        return NULL;
    }
    return publish(d, s);
}

int iso_stream_pair_blocks(struct device *d, const char *who, gpu_stream stream, unsigned *blocks)
{
    if (iso_streams_of(d) == NULL && (d->captures != 0 || iso_gpu_stream_is_capturing(d->gpu, stream))) {
        log_error("%s: the first call of this PE on a stream loads kernels, which a capture does not allow; make a "
                  "call before",
                  who);
        return 1;
    }
    const struct streams *s = iso_streams_need(d);
    if (s == NULL)
        return 1;
    *blocks = s->pair_blocks;
    return 0;
}

/* ---- the order of calls ---- */

static gpu_stream last_of(const gpu_stream *last, int captured)
{
    return __atomic_load_n(&last[captured], __ATOMIC_RELAXED);
}

/* A stream orders its own calls. So while no call was captured in another stream than the last one, no question to the
 * device is needed. A capture cannot wait for work outside of it, nor the other way round. */
int iso_stream_order(struct device *d, gpu_stream *last, gpu_stream stream)
{
    struct streams *s = iso_streams_of(d);
    struct gpu *gpu = d->gpu;
    int rc = 0;
    if (ISO_LIKELY(last_of(last, 0) == stream && last_of(last, 1) == ISO_STREAM_NONE))
        return 0;
    pthread_mutex_lock(&s->order); /* until the stream of the last call is waited for, it is not destroyed */
    int captured = iso_gpu_stream_is_capturing(gpu, stream);
    gpu_stream before = last_of(last, captured);
    if (before == ISO_STREAM_NONE)
        before = last_of(last, 0);
    if (before != ISO_STREAM_NONE && before != stream && iso_gpu_stream_is_capturing(gpu, before) == (captured != 0))
        rc = iso_gpu_stream_after(gpu, stream, before);
    if (rc == 0)
        __atomic_store_n(&last[captured], stream, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&s->order);
    return rc != 0 ? 1 : 0;
}
bool iso_stream_forget_capture(gpu_stream *last, gpu_stream stream)
{
    if (last_of(last, 1) == stream) /* no capture goes on in it */
        __atomic_store_n(&last[1], ISO_STREAM_NONE, __ATOMIC_RELAXED);
    return last_of(last, 0) == stream;
}
void iso_stream_move(gpu_stream *last, gpu_stream stream, gpu_stream to)
{
    if (last_of(last, 0) == stream)
        __atomic_store_n(&last[0], to, __ATOMIC_RELAXED);
}
