/* SPDX-License-Identifier: MIT */
/* Streams of the CPU device: each has a worker thread, which runs the tasks of its stream one after the other. Graphs
 * are the same tasks, recorded instead of run, with a branch for each stream. Functions return 0 or -errno. Includes:
 * gpu.h. Used by gpu_cpu.c. */
#ifndef ISO_CPU_STREAM_H
#define ISO_CPU_STREAM_H

#include "../gpu.h"

struct cpu_stream;
struct cpu_graph;
struct cpu_pool;

/* How kernels of this device run, see fiber.h. */
struct cpu_order {
    unsigned wave;
    uint64_t seed;
    uint64_t timeout_ns; /* SHMEM_TIMEOUT, 0: never */
    bool gives_up;       /* SHMEM_TIMEOUT_ABORT */
    uint64_t *busy;      /* atomic: tasks of all streams of the device that are not done */
};

/* The worker starts when the first task comes. */
int iso_cpu_stream_create(struct cpu_order order, struct cpu_stream **stream);
void iso_cpu_stream_destroy(struct cpu_stream *stream); /* not captured; waits until it is idle; NULL-tolerant */
int iso_cpu_stream_wait(struct cpu_stream *stream);     /* -EBUSY: it is being captured */
bool iso_cpu_stream_is_idle(struct cpu_stream *stream);
bool iso_cpu_stream_is_capturing(struct cpu_stream *stream);

int iso_cpu_stream_launch(struct cpu_stream *stream, const struct gpu_launch *launch);
int iso_cpu_stream_copy(struct cpu_stream *stream, void *dest, const void *source, size_t len);
int iso_cpu_stream_fill(struct cpu_stream *stream, void *dest, int byte, size_t len);
int iso_cpu_stream_word(struct cpu_stream *stream, const struct gpu_word *word);

/* A mark of gpu.h. */
struct cpu_mark {
    uint64_t ns;           /* of the device's clock: with a seed that is another one than the host's, and faster */
    uint64_t set, reached; /* how often; reached is atomic */
};
int iso_cpu_stream_mark(struct cpu_stream *stream, struct cpu_mark *mark);

/* Streams that graphs borrow, one for each branch but the first, which runs where the graph is launched: so branches
 * run at the same time, as on GPUs. */
int iso_cpu_pool_create(struct cpu_order order, struct cpu_pool **pool);
void iso_cpu_pool_destroy(struct cpu_pool *pool); /* after all graphs; waits until it is idle; NULL-tolerant */

int iso_cpu_graph_begin(struct cpu_stream *stream); /* -EBUSY: is being captured already */
/* What comes into `later` waits for what is in `earlier`, captured or not. -EBUSY: `later` is being captured and
 * `earlier` is not, or into another graph. When only `earlier` is, `later` joins the capture until it ends. */
int iso_cpu_graph_after(struct cpu_stream *later, struct cpu_stream *earlier);
/* The stream is about to go. An unfinished graph whose capture it has begun goes with it. NULL-tolerant. */
void iso_cpu_graph_leave(struct cpu_stream *stream);
/* -EINVAL: it did not begin one. -ECHILD: work of another stream was captured that this one does not wait for. */
int iso_cpu_graph_end(struct cpu_pool *pool, struct cpu_stream *s, struct cpu_graph **result);
int iso_cpu_graph_launch(struct cpu_graph *graph, struct cpu_stream *stream); /* by one thread at a time */
void iso_cpu_graph_destroy(struct cpu_graph *graph); /* what was launched goes on; NULL-tolerant */

#endif
