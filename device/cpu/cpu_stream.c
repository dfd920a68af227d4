/* SPDX-License-Identifier: MIT */
/* Tasks, events, workers and streams of the CPU device.
 * A stream's lock guards its queue and its branch; no two locks are held at once.
 * pending counts the tasks that have been put in and are not done: 0 is idle. */
#include "cpu_stream.h"

#include "../../bootstrap/log.h"
#include "../../bootstrap/thread.h"
#include "../../bootstrap/yield.h"
#include "cpu_task.h"
#include "fiber.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { YIELDS_BEFORE_SLEEP = 64, WORD_NAP_NS = 50000, ARGS_ALIGN = 64 };
#define ARGS_AT ((sizeof(struct task) + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN)

/* ---- tasks ---- */

struct task *iso_cpu_task_new(enum task_kind kind, size_t args_bytes)
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
    struct task *task = iso_cpu_task_new(TASK_LAUNCH, launch->args_bytes);
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
    struct task *task = iso_cpu_task_new(kind, 0);
    if (task == NULL)
        return NULL;
    task->u.copy.dest = dest;
    task->u.copy.source = source;
    task->u.copy.len = len;
    return task;
}

struct task *iso_cpu_task_clone(const struct task *task)
{
    if (task->kind == TASK_LAUNCH)
        return task_new_launch(&task->u.launch);
    struct task *clone = iso_cpu_task_new(task->kind, 0);
    if (clone != NULL) {
        *clone = *task;
        clone->next = NULL;
    }
    return clone;
}

void iso_cpu_tasks_append(struct tasks *tasks, struct task *task)
{
    task->next = NULL;
    if (tasks->last != NULL)
        tasks->last->next = task;
    else
        tasks->first = task;
    tasks->last = task;
}

struct task *iso_cpu_tasks_take(struct tasks *tasks)
{
    struct task *task = tasks->first;
    if (task == NULL)
        return NULL;
    tasks->first = task->next;
    if (tasks->first == NULL)
        tasks->last = NULL;
    return task;
}

void iso_cpu_tasks_free(struct tasks *tasks)
{
    for (struct task *task; (task = iso_cpu_tasks_take(tasks)) != NULL;)
        free(task);
}

/* ---- events ---- */

struct event *iso_cpu_event_new(unsigned users)
{
    struct event *event = (struct event *)calloc(1, sizeof *event);
    if (event == NULL)
        return NULL;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    event->users = users;
    return event;
}

void iso_cpu_event_drop(struct event *event)
{
    if (__atomic_sub_fetch(&event->users, 1, __ATOMIC_ACQ_REL) > 0) /* the last comes after all others' uses */
        return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

/* ---- the worker ---- */

static void run_cpu_kernel(struct cpu_stream *s, const struct gpu_launch *launch)
{
    struct fiber_grid grid = {.kernel = (fiber_kernel)launch->kernel,
                              .args = launch->args,
                              .blocks = (unsigned)iso_gpu_count(launch->grid),
                              .threads = (unsigned)iso_gpu_count(launch->block),
                              .wave = s->order.wave,
                              .seed = s->order.seed * (2 * s->n_kernels++ + 1), /* 0 only where the seed is */
                              .grid_dim = {launch->grid.x, launch->grid.y},
                              .block_dim = {launch->block.x, launch->block.y},
                              .shared_bytes = launch->shared_bytes};
    if (s->fibers == NULL) {
        s->fibers = iso_fibers_create();
        if (s->fibers != NULL)
            iso_fibers_report_after(s->fibers, s->order.timeout_ns, s->order.gives_up);
    }
    int rc = s->fibers != NULL ? iso_fibers_run(s->fibers, &grid) : -ENOMEM;
    if (rc == 0)
        return;
    log_error("a kernel of %u blocks of %u threads cannot run on the CPU device: %s", grid.blocks, grid.threads,
              strerror(-rc));
    abort(); /* the stream's order is broken: what comes later must not run */
}

/* With a seed: 20 ppm fast, and not from the host's begin. */
static uint64_t device_clock_ns(const struct cpu_order *order)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return order->seed != 0 ? ns + ns / 50000 + order->seed % 1000000007 : ns;
}

static void run_task(struct cpu_stream *s, struct task *task)
{
    const struct timespec nap = {0, WORD_NAP_NS};
    struct event *event = task->u.event;
    const struct gpu_word *word = &task->u.word;
    switch (task->kind) {
    case TASK_LAUNCH:
        run_cpu_kernel(s, &task->u.launch);
        break;
    case TASK_COPY:
        iso_cpu_faults_in("a copy");
        /* An aligned word travels whole, after all that the stream has copied before: peers poll such words. Pairs with
         * their peek, and with the stores of flags. */
        if (task->u.copy.len == 8 && ((uintptr_t)task->u.copy.dest | (uintptr_t)task->u.copy.source) % 8 == 0)
            __atomic_store_n((uint64_t *)task->u.copy.dest,
                             __atomic_load_n((const uint64_t *)task->u.copy.source, __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        else
            memmove(task->u.copy.dest, task->u.copy.source, task->u.copy.len);
        iso_cpu_faults_in(NULL);
        break;
    case TASK_FILL:
        iso_cpu_faults_in("a fill");
        memset(task->u.copy.dest, task->byte, task->u.copy.len);
        iso_cpu_faults_in(NULL);
        break;
    case TASK_RECORD:
        pthread_mutex_lock(&event->lock);
        event->done = true;
        pthread_cond_broadcast(&event->changed);
        pthread_mutex_unlock(&event->lock);
        iso_cpu_event_drop(event);
        break;
    case TASK_WAIT:
        pthread_mutex_lock(&event->lock);
        while (!event->done)
            pthread_cond_wait(&event->changed, &event->lock);
        pthread_mutex_unlock(&event->lock);
        iso_cpu_event_drop(event);
        break;
    case TASK_WORD:
        /* Release and acquire, which pair with each other and with the flags of kernels. A worker that waits leaves its
         * core to the threads that it waits for. */
        if (!word->waits)
            __atomic_store_n(word->at, word->value, __ATOMIC_RELEASE);
        for (unsigned looks = 0; word->waits && __atomic_load_n(word->at, __ATOMIC_ACQUIRE) < word->value; looks++)
            if (looks < YIELDS_BEFORE_SLEEP)
                (void)iso_yield(NULL);
            else
                (void)nanosleep(&nap, NULL);
        break;
    case TASK_MARK:
        task->u.mark->ns = device_clock_ns(&s->order);
        (void)__atomic_fetch_add(&task->u.mark->reached, 1, __ATOMIC_RELEASE); /* pairs with iso_gpu_mark_time */
        break;
    }
    free(task);
}

/* Looks at pending for a while before the thread sleeps: a wake-up costs more than most tasks. */
static void yield_while(const struct cpu_stream *s, bool idle)
{
    for (int i = 0; i < YIELDS_BEFORE_SLEEP; i++) {
        if ((__atomic_load_n(&s->pending, __ATOMIC_ACQUIRE) == 0) != idle) /* enqueue_locked, worker_main */
            return;
        if (iso_yield(NULL) == YIELDED_SLEPT)
            return;
    }
}

static void *worker_main(void *argument)
{
    struct cpu_stream *s = (struct cpu_stream *)argument;
    iso_log_set_pe(s->pe);
    iso_cpu_faults_stack(s->fault_stack);
    for (;;) {
        yield_while(s, true);
        pthread_mutex_lock(&s->lock);
        while (s->queue.first == NULL && !s->stop)
            pthread_cond_wait(&s->changed, &s->lock);
        struct task *task = iso_cpu_tasks_take(&s->queue);
        pthread_mutex_unlock(&s->lock);
        if (task == NULL) /* the stream ends */
            return NULL;

        run_task(s, task);
        pthread_mutex_lock(&s->lock);
        if (__atomic_sub_fetch(&s->pending, 1, __ATOMIC_RELEASE) == 0) /* pairs with yield_while and is_idle */
            pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        (void)__atomic_fetch_sub(s->order.busy, 1, __ATOMIC_RELEASE); /* pairs with iso_gpu_wait_all */
    }
}

/* The caller holds the lock. */
static int worker_start_locked(struct cpu_stream *s)
{
    if (s->has_worker)
        return 0;
    s->pe = iso_log_pe();
    int rc = iso_thread_start(&s->worker, "isomer-stream", worker_main, s);
    if (rc != 0)
        return rc;
    s->has_worker = true;
    return 0;
}

int iso_cpu_stream_start(struct cpu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int rc = worker_start_locked(s);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The caller holds the lock. */
static int enqueue_locked(struct cpu_stream *s, struct task *task)
{
    int rc = worker_start_locked(s);
    if (rc != 0)
        return rc;
    iso_cpu_tasks_append(&s->queue, task);
    (void)__atomic_fetch_add(s->order.busy, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&s->pending, 1, __ATOMIC_RELEASE); /* pairs with yield_while of the worker */
    pthread_cond_broadcast(&s->changed);
    return 0;
}

void iso_cpu_stream_capture(struct branch *branch, struct task *task)
{
    iso_cpu_tasks_append(&branch->tasks, task);
    branch->n++;
    if (task->kind != TASK_RECORD && task->kind != TASK_WAIT)
        branch->n_to_join = branch->n;
}

int iso_cpu_stream_submit(struct cpu_stream *s, struct task *task)
{
    int rc = 0;
    if (s == NULL) {
        free(task);
        return -EBADF;
    }
    pthread_mutex_lock(&s->lock);
    if (s->branch == NULL)
        rc = task != NULL ? enqueue_locked(s, task) : -ENOMEM;
    else if (task != NULL)
        iso_cpu_stream_capture(s->branch, task);
    else
        rc = s->branch->graph->rc = -ENOMEM;
    pthread_mutex_unlock(&s->lock);
    if (rc != 0)
        free(task);
    return rc;
}

/* ---- streams ---- */

struct branch *iso_cpu_stream_branch(struct cpu_stream *s)
{
    if (s == NULL)
        return NULL;
    pthread_mutex_lock(&s->lock);
    struct branch *branch = s->branch;
    pthread_mutex_unlock(&s->lock);
    return branch;
}

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

void iso_cpu_stream_destroy(struct cpu_stream *s)
{
    if (s == NULL)
        return;
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
    return __atomic_load_n(&s->pending, __ATOMIC_ACQUIRE) == 0; /* pairs with worker_main */
}

bool iso_cpu_stream_is_capturing(struct cpu_stream *s) { return iso_cpu_stream_branch(s) != NULL; }

int iso_cpu_stream_wait(struct cpu_stream *s)
{
    if (s == NULL)
        return -EBADF;
    if (iso_cpu_stream_is_capturing(s))
        return -EBUSY;
    yield_while(s, false);
    pthread_mutex_lock(&s->lock);
    while (s->pending > 0)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int submit_event(struct cpu_stream *s, enum task_kind kind, struct event *event)
{
    struct task *task = iso_cpu_task_new(kind, 0);
    if (task != NULL)
        task->u.event = event;
    int rc = iso_cpu_stream_submit(s, task);
    if (rc != 0)
        iso_cpu_event_drop(event);
    return rc;
}

int iso_cpu_stream_after(struct cpu_stream *later, struct cpu_stream *earlier)
{
    if (later == earlier || iso_cpu_stream_is_idle(earlier))
        return 0;
    struct event *event = iso_cpu_event_new(2);
    if (event == NULL)
        return -ENOMEM;
    int rc = submit_event(earlier, TASK_RECORD, event);
    if (rc == 0)
        return submit_event(later, TASK_WAIT, event);
    iso_cpu_event_drop(event);
    return rc;
}

int iso_cpu_stream_launch(struct cpu_stream *s, const struct gpu_launch *launch)
{
    return iso_cpu_stream_submit(s, task_new_launch(launch));
}

int iso_cpu_stream_copy(struct cpu_stream *s, void *dest, const void *source, size_t len)
{
    return len > 0 ? iso_cpu_stream_submit(s, task_new_copy(TASK_COPY, dest, source, len)) : 0;
}

int iso_cpu_stream_fill(struct cpu_stream *s, void *dest, int byte, size_t len)
{
    if (len == 0)
        return 0;
    struct task *task = task_new_copy(TASK_FILL, dest, NULL, len);
    if (task != NULL)
        task->byte = byte;
    return iso_cpu_stream_submit(s, task);
}

int iso_cpu_stream_word(struct cpu_stream *s, const struct gpu_word *word)
{
    struct task *task = iso_cpu_task_new(TASK_WORD, 0);
    if (task != NULL)
        task->u.word = *word;
    return iso_cpu_stream_submit(s, task);
}

int iso_cpu_stream_mark(struct cpu_stream *s, struct cpu_mark *mark)
{
    struct task *task = iso_cpu_task_new(TASK_MARK, 0);
    if (task != NULL)
        task->u.mark = mark;
    mark->set++;
    int rc = iso_cpu_stream_submit(s, task);
    mark->set -= rc != 0;
    return rc;
}
