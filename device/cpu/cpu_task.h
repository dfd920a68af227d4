/* SPDX-License-Identifier: MIT */
/* Shared by streams and graphs of the CPU device: tasks and events. Includes: cpu_fault.h, cpu_stream.h. Used by
 * cpu_stream.c, cpu_graph.c. */
#ifndef ISO_CPU_TASK_H
#define ISO_CPU_TASK_H

#include "cpu_fault.h"
#include "cpu_stream.h"

#include <pthread.h>

/* Done when the tasks that were in a stream at some moment are done. */
struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    unsigned users; /* atomic */
};

enum task_kind { TASK_LAUNCH, TASK_COPY, TASK_FILL, TASK_RECORD, TASK_WAIT, TASK_WORD, TASK_MARK };
struct task {
    struct task *next;
    enum task_kind kind;
    int byte;
    union {
        struct gpu_launch launch; /* its args are behind the task */
        struct {
            void *dest;
            const void *source;
            size_t len;
        } copy;
        struct event *event;
        struct gpu_word word;
        struct cpu_mark *mark;
        unsigned joint; /* in a graph, of RECORD and WAIT: which of graph->joints */
    } u;
};

struct tasks {
    struct task *first, *last;
};

/* The tasks that a graph has captured from one stream, and the stream that runs them at a launch. */
struct branch {
    struct branch *next;
    struct cpu_graph *graph;
    struct cpu_stream *from;    /* NULL: the capture is over, or the stream is gone */
    struct cpu_stream *runs;    /* of the pool; NULL: the stream of the launch */
    struct tasks tasks, flight; /* flight: of the launch in progress */
    unsigned n, n_to_join;      /* tasks so far; those up to the last that is more than RECORD and WAIT */
    unsigned n_joined;          /* those that the first branch waits for */
};

/* A RECORD in that branch: its first `at` tasks are done. */
struct joint {
    struct branch *branch;
    unsigned at;
    struct event *event; /* of the launch in progress */
};

struct cpu_graph {
    struct branch *branches; /* the first is of the stream that began the capture */
    struct joint *joints;
    unsigned n_joints;
    struct cpu_pool *pool; /* lends b->runs */
    int rc;                /* of what could not be recorded */
};

struct cpu_stream {
    struct cpu_order order;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a task has come, the last is done, or stop */
    struct tasks queue;
    uint64_t pending;      /* atomic; changed under the lock */
    struct branch *branch; /* what goes into the stream is captured there; NULL: it runs */
    struct fibers *fibers;
    uint64_t n_kernels; /* so far: each has an order of its own */
    pthread_t worker;
    char fault_stack[FAULT_STACK_BYTES]; /* of the worker */
    int pe;                              /* for the worker's messages */
    bool has_worker, stop;
    struct cpu_stream *next_of_pool;
    bool is_lent; /* to a graph; pool->lock */
};

/* ---- cpu_stream.c ---- */

struct task *iso_cpu_task_new(enum task_kind kind, size_t args_bytes); /* NULL: no memory */
struct task *iso_cpu_task_clone(const struct task *task);
void iso_cpu_tasks_append(struct tasks *tasks, struct task *task);
struct task *iso_cpu_tasks_take(struct tasks *tasks); /* the first one; NULL: none */
void iso_cpu_tasks_free(struct tasks *tasks);         /* events of theirs stay as they are */

struct event *iso_cpu_event_new(unsigned users);
void iso_cpu_event_drop(struct event *event); /* by each user once */

/* Takes the task, NULL for lack of memory: into the queue, or into the graph that is being captured. */
int iso_cpu_stream_submit(struct cpu_stream *s, struct task *task);
void iso_cpu_stream_capture(struct branch *branch, struct task *task); /* appends it */
/* Neither is being captured. */
int iso_cpu_stream_after(struct cpu_stream *later, struct cpu_stream *earlier);
int iso_cpu_stream_start(struct cpu_stream *s);             /* its worker, if it has none yet */
struct branch *iso_cpu_stream_branch(struct cpu_stream *s); /* NULL: it is not being captured */

#endif
