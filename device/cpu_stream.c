/* SPDX-License-Identifier: MIT */
/* Tasks, workers, events and graphs of the CPU device.
 * A stream's lock guards its queue and its capture; no two locks are held at once, but a graph's stream list is guarded
 * by its origin's calls alone: capture is begun, joined and ended by one thread of the program at a time.
 * pending counts the tasks that have been put in and are not done: 0 is idle. */
#include "cpu_stream.h"

#include "../bootstrap/log.h"
#include "fiber.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { YIELDS_BEFORE_SLEEP = 64, ARGS_ALIGN = 64 };

/* Done when all that was in a stream at some moment is done. */
struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    unsigned users; /* atomic */
};

enum task_kind { TASK_LAUNCH, TASK_COPY, TASK_FILL, TASK_RECORD, TASK_WAIT };
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
    } u;
};
#define ARGS_AT ((sizeof(struct task) + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN)

struct tasks {
    struct task *first, *last;
};

struct cpu_graph {
    struct tasks tasks;
    struct cpu_stream *origin, *streams; /* by next_of_graph, while it is captured */
    int rc;                              /* of what could not be recorded */
};

struct cpu_stream {
    struct cpu_order order;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a task has come, the last is done, or stop */
    struct tasks queue;
    uint64_t pending; /* atomic; changed under the lock */
    struct cpu_graph *capture;
    struct cpu_stream *next_of_graph;
    struct fibers *fibers;
    pthread_t worker;
    bool has_worker, stop;
};

/* ---- tasks ---- */

static struct task *task_new(enum task_kind kind, size_t args_bytes)
{
    size_t bytes = ARGS_AT + (args_bytes + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN;
    struct task *task = (struct task *)aligned_alloc(ARGS_ALIGN, bytes);
    if (task == NULL)
        return NULL;
    memset(task, 0, sizeof *task);
    task->kind = kind;
    return task;
}

static struct task *task_new_launch(const struct gpu_launch *launch)
{
    struct task *task = task_new(TASK_LAUNCH, launch->args_bytes);
    if (task == NULL)
        return NULL;
    char *args = (char *)task + ARGS_AT;
    if (launch->args_bytes > 0)
        memcpy(args, launch->args, launch->args_bytes);
    task->u.launch = *launch;
    task->u.launch.args = args;
    return task;
}

static struct task *task_new_copy(enum task_kind kind, void *dest, const void *source, size_t len)
{
    struct task *task = task_new(kind, 0);
    if (task == NULL)
        return NULL;
    task->u.copy.dest = dest;
    task->u.copy.source = source;
    task->u.copy.len = len;
    return task;
}

static struct task *task_clone(const struct task *task)
{
    if (task->kind == TASK_LAUNCH)
        return task_new_launch(&task->u.launch);
    struct task *clone = task_new(task->kind, 0);
    if (clone != NULL) {
        *clone = *task;
        clone->next = NULL;
    }
    return clone;
}

static void tasks_append(struct tasks *tasks, struct task *task)
{
    task->next = NULL;
    if (tasks->last != NULL)
        tasks->last->next = task;
    else
        tasks->first = task;
    tasks->last = task;
}

static struct task *tasks_take(struct tasks *tasks)
{
    struct task *task = tasks->first;
    if (task == NULL)
        return NULL;
    tasks->first = task->next;
    if (tasks->first == NULL)
        tasks->last = NULL;
    return task;
}

static void tasks_free(struct tasks *tasks)
{
    for (struct task *task; (task = tasks_take(tasks)) != NULL;)
        free(task);
}

/* ---- events ---- */

static struct event *event_new(unsigned users)
{
    struct event *event = (struct event *)calloc(1, sizeof *event);
    if (event == NULL)
        return NULL;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    event->users = users;
    return event;
}

static void event_drop(struct event *event)
{
    if (__atomic_sub_fetch(&event->users, 1, __ATOMIC_ACQ_REL) > 0) /* the last comes after all others' uses */
        return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static void event_set(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    event->done = true;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static void event_wait(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    while (!event->done)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

/* ---- the worker ---- */

static void run_kernel(struct cpu_stream *s, const struct gpu_launch *launch)
{
    struct fiber_grid grid = {
        (fiber_kernel)launch->kernel, launch->args, launch->grid, launch->block, s->order.wave, s->order.seed};
    if (s->fibers == NULL)
        s->fibers = iso_fibers_create();
    int rc = s->fibers != NULL ? iso_fibers_run(s->fibers, &grid) : -ENOMEM;
    if (rc == 0)
        return;
    log_error("a kernel of %u blocks of %u threads cannot run on the CPU device: %s", launch->grid, launch->block,
              strerror(-rc));
    abort(); /* the stream's order is broken: what comes later must not run */
}

/* An aligned word travels whole, after all that the stream has copied before: peers poll such words. Pairs with their
 * peek, and with the stores of flags. */
static void run_copy(void *dest, const void *source, size_t len)
{
    bool is_word = len == 8 && ((uintptr_t)dest | (uintptr_t)source) % 8 == 0;
    if (is_word)
        __atomic_store_n((uint64_t *)dest, __atomic_load_n((const uint64_t *)source, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    else
        memmove(dest, source, len);
}

static void run_task(struct cpu_stream *s, struct task *task)
{
    switch (task->kind) {
    case TASK_LAUNCH:
        run_kernel(s, &task->u.launch);
        break;
    case TASK_COPY:
        run_copy(task->u.copy.dest, task->u.copy.source, task->u.copy.len);
        break;
    case TASK_FILL:
        memset(task->u.copy.dest, task->byte, task->u.copy.len);
        break;
    case TASK_RECORD:
        event_set(task->u.event);
        event_drop(task->u.event);
        break;
    case TASK_WAIT:
        event_wait(task->u.event);
        event_drop(task->u.event);
        break;
    }
    free(task);
}

/* Looks at pending a little before somebody sleeps: a wake-up costs more than most tasks. */
static void yield_while(const struct cpu_stream *s, bool idle)
{
    for (int i = 0; i < YIELDS_BEFORE_SLEEP; i++) {
        if ((__atomic_load_n(&s->pending, __ATOMIC_ACQUIRE) == 0) != idle) /* pairs with submit and task_done */
            return;
        (void)sched_yield();
    }
}

/* NULL: the stream ends. */
static struct task *next_task(struct cpu_stream *s)
{
    yield_while(s, true);
    pthread_mutex_lock(&s->lock);
    while (s->queue.first == NULL && !s->stop)
        pthread_cond_wait(&s->changed, &s->lock);
    struct task *task = tasks_take(&s->queue);
    pthread_mutex_unlock(&s->lock);
    return task;
}

static void task_done(struct cpu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    if (__atomic_sub_fetch(&s->pending, 1, __ATOMIC_RELEASE) == 0) /* pairs with yield_while and is_idle */
        pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void *worker_main(void *argument)
{
    struct cpu_stream *s = (struct cpu_stream *)argument;
    for (struct task *task; (task = next_task(s)) != NULL;) {
        run_task(s, task);
        task_done(s);
    }
    return NULL;
}

/* Signals are for the program's own threads. */
static int worker_start(struct cpu_stream *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->worker, NULL, worker_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return -rc;
    (void)pthread_setname_np(s->worker, "isomer-stream");
    s->has_worker = true;
    return 0;
}

/* Under the lock. */
static int enqueue(struct cpu_stream *s, struct task *task)
{
    int rc = s->has_worker ? 0 : worker_start(s);
    if (rc != 0)
        return rc;
    tasks_append(&s->queue, task);
    (void)__atomic_fetch_add(&s->pending, 1, __ATOMIC_RELEASE); /* pairs with yield_while of the worker */
    pthread_cond_broadcast(&s->changed);
    return 0;
}

/* Takes the task, NULL for lack of memory: into the queue, or into the graph that is being captured. */
static int submit(struct cpu_stream *s, struct task *task)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    if (s->capture == NULL)
        rc = task != NULL ? enqueue(s, task) : -ENOMEM;
    else if (task != NULL)
        tasks_append(&s->capture->tasks, task);
    else
        rc = s->capture->rc = -ENOMEM;
    pthread_mutex_unlock(&s->lock);
    if (rc != 0)
        free(task);
    return rc;
}

/* ---- streams ---- */

int iso_cpu_stream_create(struct cpu_order order, struct cpu_stream **stream)
{
    struct cpu_stream *s = (struct cpu_stream *)calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->order = order;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    *stream = s;
    return 0;
}

/* A stream that goes in the middle of a capture takes the unfinished graph with it, when it is the graph's origin. */
static void leave_capture(struct cpu_stream *s)
{
    struct cpu_graph *graph = s->capture;
    if (graph == NULL)
        return;
    if (graph->origin == s) {
        if (iso_cpu_graph_end(s, &graph) == 0)
            iso_cpu_graph_destroy(graph);
        return;
    }
    struct cpu_stream **at = &graph->streams;
    while (*at != s)
        at = &(*at)->next_of_graph;
    *at = s->next_of_graph;
}

void iso_cpu_stream_destroy(struct cpu_stream *s)
{
    if (s == NULL)
        return;
    leave_capture(s);
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_worker)
        pthread_join(s->worker, NULL);
    iso_fibers_destroy(s->fibers);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool iso_cpu_stream_is_idle(struct cpu_stream *s)
{
    return __atomic_load_n(&s->pending, __ATOMIC_ACQUIRE) == 0; /* pairs with task_done */
}

static struct cpu_graph *capture_of(struct cpu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    struct cpu_graph *graph = s->capture;
    pthread_mutex_unlock(&s->lock);
    return graph;
}

static void set_capture(struct cpu_stream *s, struct cpu_graph *graph)
{
    pthread_mutex_lock(&s->lock);
    s->capture = graph;
    pthread_mutex_unlock(&s->lock);
}

bool iso_cpu_stream_is_capturing(struct cpu_stream *s) { return capture_of(s) != NULL; }

int iso_cpu_stream_wait(struct cpu_stream *s)
{
    if (iso_cpu_stream_is_capturing(s))
        return -EBUSY;
    yield_while(s, false);
    pthread_mutex_lock(&s->lock);
    while (s->pending > 0)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void join_capture(struct cpu_graph *graph, struct cpu_stream *s)
{
    s->next_of_graph = graph->streams;
    graph->streams = s;
    set_capture(s, graph);
}

static int submit_event(struct cpu_stream *s, enum task_kind kind, struct event *event)
{
    struct task *task = task_new(kind, 0);
    if (task != NULL)
        task->u.event = event;
    int rc = submit(s, task);
    if (rc != 0)
        event_drop(event);
    return rc;
}

int iso_cpu_stream_after(struct cpu_stream *later, struct cpu_stream *earlier)
{
    struct cpu_graph *graph = capture_of(earlier), *own = capture_of(later);
    if (own != NULL)
        return own == graph ? 0 : -EBUSY;
    if (graph != NULL) {
        join_capture(graph, later);
        return 0;
    }
    if (later == earlier || iso_cpu_stream_is_idle(earlier))
        return 0;
    struct event *event = event_new(2);
    if (event == NULL)
        return -ENOMEM;
    int rc = submit_event(earlier, TASK_RECORD, event);
    if (rc == 0)
        return submit_event(later, TASK_WAIT, event);
    event_drop(event);
    return rc;
}

int iso_cpu_stream_launch(struct cpu_stream *s, const struct gpu_launch *launch)
{
    return submit(s, task_new_launch(launch));
}

int iso_cpu_stream_copy(struct cpu_stream *s, void *dest, const void *source, size_t len)
{
    return len > 0 ? submit(s, task_new_copy(TASK_COPY, dest, source, len)) : 0;
}

int iso_cpu_stream_fill(struct cpu_stream *s, void *dest, int byte, size_t len)
{
    if (len == 0)
        return 0;
    struct task *task = task_new_copy(TASK_FILL, dest, NULL, len);
    if (task != NULL)
        task->byte = byte;
    return submit(s, task);
}

/* ---- graphs ---- */

int iso_cpu_graph_begin(struct cpu_stream *s)
{
    if (iso_cpu_stream_is_capturing(s))
        return -EBUSY;
    struct cpu_graph *graph = (struct cpu_graph *)calloc(1, sizeof *graph);
    if (graph == NULL)
        return -ENOMEM;
    graph->origin = s;
    join_capture(graph, s);
    return 0;
}

int iso_cpu_graph_end(struct cpu_stream *s, struct cpu_graph **result)
{
    struct cpu_graph *graph = capture_of(s);
    if (graph == NULL || graph->origin != s)
        return -EINVAL;
    while (graph->streams != NULL) {
        struct cpu_stream *member = graph->streams;
        graph->streams = member->next_of_graph;
        set_capture(member, NULL);
    }
    if (graph->rc == 0) {
        *result = graph;
        return 0;
    }
    int rc = graph->rc;
    iso_cpu_graph_destroy(graph);
    return rc;
}

int iso_cpu_graph_launch(const struct cpu_graph *graph, struct cpu_stream *s)
{
    int rc = 0;
    for (const struct task *task = graph->tasks.first; task != NULL && rc == 0; task = task->next)
        rc = submit(s, task_clone(task));
    return rc;
}

void iso_cpu_graph_destroy(struct cpu_graph *graph)
{
    if (graph == NULL)
        return;
    tasks_free(&graph->tasks);
    free(graph);
}
