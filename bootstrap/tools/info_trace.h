/* SPDX-License-Identifier: MIT */
/* `isomer-info --trace FOLDER`: the files of SHMEM_TRACE (../trace_file.h) as one time line. */
#ifndef INFO_TRACE_H
#define INFO_TRACE_H

#include "../trace_file.h"

#include <stdbool.h>
#include <stdio.h>

/* An event on the clock of PE 0, since the first event of the job. */
struct mark {
    int64_t begin_ns, end_ns;
    const char *name, *kind;
    struct trace_event e;
};

struct line { /* one file: a thread of a PE, which lies in a mapping */
    const struct trace_head *head;
    struct mark *marks; /* by the time when they ended */
    size_t n;
    uint64_t lost; /* older ones that the file has no room for */
    bool is_whole; /* counters by peer are there */
};

/* What was waited for, and what ended the wait. */
struct arrow {
    const struct line *from_line, *to_line;
    const struct mark *from, *to;
    int64_t from_ns; /* inside of `from` */
};

struct trace {
    uint32_t job;
    int n_pes;
    struct line *lines; /* by PE and thread */
    size_t n_lines;
    struct arrow *arrows; /* the longest waits first */
    size_t n_arrows;
    int64_t end_ns;
    uint64_t *bytes; /* [n_pes * n_pes]: of calls of one PE, row by row, to and from each other */
};

/* 0; 1 after a sentence. */
int info_trace(const char *folder);
void info_trace_draw(const struct trace *trace, FILE *out); /* as SVG */

#endif
