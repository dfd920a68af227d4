/* SPDX-License-Identifier: MIT */
/* Graphs of the CPU device. The tasks captured from one stream are a branch, and branches wait for each other by
 * joints. A launch clones all tasks, with events of its own for the joints, and puts each branch into its stream. The
 * calls on its streams guard a graph that is being captured: one thread of the program at a time begins, joins and ends
 * a capture. */
#include "cpu_task.h"

#include <errno.h>
#include <stdlib.h>

struct cpu_pool {
    struct cpu_order order;
    pthread_mutex_t lock;
    struct cpu_stream *streams;
};

/* ---- what is captured ---- */

static void set_branch(struct cpu_stream *s, struct branch *branch)
{
    pthread_mutex_lock(&s->lock);
    s->branch = branch;
    pthread_mutex_unlock(&s->lock);
}

/* Appends a branch to the graph. `from` NULL: of no stream. */
static struct branch *branch_add(struct cpu_graph *graph, struct cpu_stream *from)
{
    struct branch *branch = (struct branch *)calloc(1, sizeof *branch), **at = &graph->branches;
    if (branch == NULL)
        return NULL;
    branch->graph = graph;
    branch->from = from;
    while (*at != NULL)
        at = &(*at)->next;
    *at = branch;
    if (from != NULL)
        set_branch(from, branch);
    return branch;
}

/* Makes room for n more joints. */
static int joints_add(struct cpu_graph *graph, unsigned n)
{
    size_t bytes = ((size_t)graph->n_joints + n) * sizeof *graph->joints;
    struct joint *joints = n > 0 ? (struct joint *)realloc(graph->joints, bytes) : graph->joints;
    if (n > 0 && joints == NULL)
        return graph->rc = -ENOMEM;
    graph->joints = joints;
    graph->n_joints += n;
    return 0;
}

static int capture_joint(struct cpu_stream *s, enum task_kind kind, unsigned joint)
{
    struct task *task = iso_cpu_task_new(kind, 0);
    if (task != NULL)
        task->u.joint = joint;
    return iso_cpu_stream_submit(s, task);
}

int iso_cpu_graph_after(struct cpu_stream *later, struct cpu_stream *earlier)
{
    struct branch *to = iso_cpu_stream_branch(later), *from = iso_cpu_stream_branch(earlier);
    if (later == NULL || earlier == NULL)
        return -EBADF;
    if (to == NULL && from == NULL)
        return iso_cpu_stream_after(later, earlier);
    if (to == from)
        return 0;
    if (from == NULL || (to != NULL && to->graph != from->graph))
        return -EBUSY;
    struct cpu_graph *graph = from->graph;
    unsigned joint = graph->n_joints;
    if (to == NULL && branch_add(graph, later) == NULL)
        return graph->rc = -ENOMEM;
    int rc = joints_add(graph, 1);
    if (rc == 0)
        rc = capture_joint(earlier, TASK_RECORD, joint);
    if (rc != 0)
        return rc;
    graph->joints[joint].branch = from;
    graph->joints[joint].at = from->n;
    return capture_joint(later, TASK_WAIT, joint);
}

/* True when the end of the first branch waits for all that the others do. GPUs insist on it. */
static bool graph_is_joined(struct cpu_graph *graph)
{
    bool changed = true, joined = true;
    graph->branches->n_joined = graph->branches->n;
    while (changed) {
        changed = false;
        for (struct branch *b = graph->branches; b != NULL; b = b->next) {
            const struct task *task = b->tasks.first;
            for (unsigned i = 0; i < b->n_joined; i++, task = task->next) {
                const struct joint *joint = task->kind == TASK_WAIT ? &graph->joints[task->u.joint] : NULL;
                if (joint == NULL || joint->branch->n_joined >= joint->at)
                    continue;
                joint->branch->n_joined = joint->at; /* a joined task waits for these: they are joined, too */
                changed = true;
            }
        }
    }
    for (struct branch *b = graph->branches; b != NULL; b = b->next)
        joined = joined && b->n_joined >= b->n_to_join;
    return joined;
}

/* Ends the capture of all streams of the graph. */
static void capture_ends(struct cpu_graph *graph)
{
    for (struct branch *b = graph->branches; b != NULL; b = b->next) {
        if (b->from != NULL)
            set_branch(b->from, NULL);
        b->from = NULL;
    }
}

static void graph_free(struct cpu_graph *graph)
{
    for (struct branch *b; (b = graph->branches) != NULL;) {
        graph->branches = b->next;
        iso_cpu_tasks_free(&b->tasks);
        free(b);
    }
    free(graph->joints);
    free(graph);
}

void iso_cpu_graph_leave(struct cpu_stream *s)
{
    struct branch *branch = s != NULL ? iso_cpu_stream_branch(s) : NULL;
    if (branch == NULL)
        return;
    branch->from = NULL;
    if (branch != branch->graph->branches)
        return;
    capture_ends(branch->graph);
    graph_free(branch->graph);
}

/* ---- the pool: streams of no program, for graphs ---- */

int iso_cpu_pool_create(struct cpu_order order, struct cpu_pool **pool)
{
    struct cpu_pool *p = (struct cpu_pool *)calloc(1, sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    p->order = order;
    pthread_mutex_init(&p->lock, NULL);
    *pool = p;
    return 0;
}

void iso_cpu_pool_destroy(struct cpu_pool *pool)
{
    if (pool == NULL)
        return;
    for (struct cpu_stream *s; (s = pool->streams) != NULL;) {
        pool->streams = s->next_of_pool;
        iso_cpu_stream_destroy(s);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* An idle one: what an earlier graph has left in a stream would stand in the way. NULL: no memory. */
static struct cpu_stream *pool_lend(struct cpu_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    struct cpu_stream *s = pool->streams;
    while (s != NULL && (s->is_lent || !iso_cpu_stream_is_idle(s)))
        s = s->next_of_pool;
    if (s == NULL && iso_cpu_stream_create(pool->order, &s) == 0) {
        s->next_of_pool = pool->streams;
        pool->streams = s;
    }
    if (s != NULL)
        s->is_lent = true;
    pthread_mutex_unlock(&pool->lock);
    return s;
}

/* ---- graphs ---- */

int iso_cpu_graph_begin(struct cpu_stream *s)
{
    if (s == NULL)
        return -EBADF;
    if (iso_cpu_stream_is_capturing(s))
        return -EBUSY;
    struct cpu_graph *graph = (struct cpu_graph *)calloc(1, sizeof *graph);
    if (graph == NULL)
        return -ENOMEM;
    if (branch_add(graph, s) != NULL)
        return 0;
    free(graph);
    return -ENOMEM;
}

int iso_cpu_graph_end(struct cpu_pool *pool, struct cpu_stream *s, struct cpu_graph **result)
{
    struct branch *branch = iso_cpu_stream_branch(s);
    if (branch == NULL || branch->graph->branches != branch)
        return -EINVAL;
    struct cpu_graph *graph = branch->graph;
    capture_ends(graph);
    int rc = graph->rc;
    if (rc == 0 && !graph_is_joined(graph))
        rc = -ECHILD;
    graph->pool = pool;
    for (struct branch *b = graph->branches->next; b != NULL && rc == 0; b = b->next) {
        b->runs = pool_lend(pool);
        if (b->runs == NULL)
            rc = -ENOMEM;
    }
    if (rc == 0)
        *result = graph;
    else
        iso_cpu_graph_destroy(graph);
    return rc;
}

/* Into a branch of a graph that is being captured, whose joints from number `joints` on are those of b's graph. */
static int branch_append(struct branch *to, const struct branch *b, unsigned joints)
{
    for (const struct task *task = b->tasks.first; task != NULL; task = task->next) {
        struct task *clone = iso_cpu_task_clone(task);
        if (clone == NULL)
            return -ENOMEM;
        iso_cpu_stream_capture(to, clone);
        if (task->kind == TASK_RECORD || task->kind == TASK_WAIT)
            clone->u.joint += joints;
        if (task->kind == TASK_RECORD) {
            to->graph->joints[clone->u.joint].branch = to;
            to->graph->joints[clone->u.joint].at = to->n;
        }
    }
    return 0;
}

/* One launch, before anything of it is in a stream. */
static int flight_make(struct cpu_graph *graph)
{
    for (unsigned i = 0; i < graph->n_joints; i++)
        graph->joints[i].event = iso_cpu_event_new(2); /* users: RECORD, WAIT */
    for (unsigned i = 0; i < graph->n_joints; i++)
        if (graph->joints[i].event == NULL)
            return -ENOMEM;
    for (struct branch *b = graph->branches; b != NULL; b = b->next) {
        for (const struct task *task = b->tasks.first; task != NULL; task = task->next) {
            struct task *clone = iso_cpu_task_clone(task);
            if (clone == NULL)
                return -ENOMEM;
            if (task->kind == TASK_RECORD || task->kind == TASK_WAIT)
                clone->u.event = graph->joints[task->u.joint].event;
            iso_cpu_tasks_append(&b->flight, clone);
        }
    }
    return 0;
}

/* Each branch follows that of the launch before, in its stream. */
int iso_cpu_graph_launch(struct cpu_graph *graph, struct cpu_stream *s)
{
    struct branch *into = iso_cpu_stream_branch(s);
    if (s == NULL || graph == NULL)
        return -EBADF;
    if (into != NULL) {
        /* The stream is being captured: the graph's branches become branches of the other graph. */
        struct cpu_graph *outer = into->graph;
        unsigned joints = outer->n_joints;
        outer->rc = joints_add(outer, graph->n_joints);
        for (const struct branch *b = graph->branches; b != NULL && outer->rc == 0; b = b->next) {
            struct branch *to = b == graph->branches ? into : branch_add(outer, NULL);
            outer->rc = to != NULL ? branch_append(to, b, joints) : -ENOMEM;
        }
        return outer->rc;
    }

    /* All workers start first: after that nothing can fail. */
    int rc = flight_make(graph);
    if (rc == 0)
        rc = iso_cpu_stream_start(s);
    for (const struct branch *b = graph->branches->next; b != NULL && rc == 0; b = b->next)
        rc = iso_cpu_stream_start(b->runs);
    if (rc != 0) {
        for (struct branch *b = graph->branches; b != NULL; b = b->next)
            iso_cpu_tasks_free(&b->flight);
        for (unsigned i = 0; i < graph->n_joints; i++)
            for (int user = 0; user < 2 && graph->joints[i].event != NULL; user++)
                iso_cpu_event_drop(graph->joints[i].event);
        return rc;
    }

    for (struct branch *b = graph->branches; b != NULL; b = b->next)
        for (struct task *task; (task = iso_cpu_tasks_take(&b->flight)) != NULL;)
            (void)iso_cpu_stream_submit(b->runs != NULL ? b->runs : s, task);
    return 0;
}

void iso_cpu_graph_destroy(struct cpu_graph *graph)
{
    if (graph == NULL)
        return;
    for (struct branch *b = graph->branches; b != NULL; b = b->next)
        if (b->runs != NULL) {
            pthread_mutex_lock(&graph->pool->lock);
            b->runs->is_lent = false;
            pthread_mutex_unlock(&graph->pool->lock);
        }
    graph_free(graph);
}
