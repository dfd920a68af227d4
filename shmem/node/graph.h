/* SPDX-License-Identifier: MIT */
/* Who waits for whom in a job, and which PE is the cause: sentences and JSON. Filled by report.c from the memory of the
 * own node, and by job_look.c from outside of the job. Knows nothing of the PE that it runs in. */
#ifndef ISO_GRAPH_H
#define ISO_GRAPH_H

#include "wait.h"

#include <stdio.h>

/* ELSEWHERE: on another node or host, not looked at. CLOSED: near, but its memory cannot be read. */
enum graph_state {
    GRAPH_ELSEWHERE,
    GRAPH_CLOSED,
    GRAPH_WAITS,
    GRAPH_OUTSIDE, /* does not wait in the library */
    GRAPH_EXITED,
    GRAPH_LEFT,
    GRAPH_STOPPED,
    GRAPH_DIED
};

struct graph_pe {
    enum graph_state state;
    int pid;      /* 0: not known */
    char process; /* state letter of /proc/PID/stat; 0: not known, 'X': there is no such process */
    double cpu_s; /* of the process so far */
    uint64_t resident_bytes, heap_bytes, steps; /* as struct control has them */
    char host[64], node[64];
    int first, n_waits; /* in graph.waits */
};

struct graph_wait {
    int pe;
    bool printed;
    struct wait_record record; /* a copy; peer of a lock: its holder, -1: not known */
};

struct graph {
    int n_pes, n_waits;
    struct graph_pe *pes;
    struct graph_wait *waits;
    uint64_t now;
    bool *set, *others; /* [n_pes] what a line is about, and what it waits for */
    int *cycle, n_cycle;
    bool *culprit; /* [n_pes] */
    bool is_judged;
};

/* NULL: no memory. */
struct graph *iso_graph_create(int n_pes, uint64_t now);
void iso_graph_destroy(struct graph *graph); /* NULL-tolerant */
/* The waits that a PE has published. Once for each PE at most; `control` may be another process's. */
void iso_graph_take(struct graph *graph, int pe, const struct control *control);
/* Process state, CPU time, memory of `pid`, which /proc of this process must know: before iso_graph_take. */
void iso_graph_look_at_process(struct graph_pe *pe, int pid);

typedef void graph_line(void *out, const char *line);
/* "pe 1-31 wait in shmem_barrier_all for pe 0, for 5.0 s", ..., "cycle: ...", "culprit: ...". */
void iso_graph_write(struct graph *graph, graph_line *line, void *out);
/* The members "processes", "cycle" and "culprits" of an object. */
void iso_graph_write_json(struct graph *graph, FILE *out);
/* The object of NCCL's RAS, a job as a communicator. */
void iso_graph_write_ras(struct graph *graph, uint32_t job, FILE *out);

#endif
