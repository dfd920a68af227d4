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
    int64_t enqueued_ns; /* of a stream's call, as what follows */
    const char *how;     /* its algorithm; NULL: none */
};

struct line { /* one file, a thread of a PE, which lies in a mapping; or one stream of a PE */
    const struct trace_head *head; /* of a stream: of the PE's first file with a call of it */
    int stream;                    /* -1: a thread */
    int track;                     /* for Perfetto: of this line alone, and no number of a process */
    struct mark *marks; /* by the time when they ended */
    size_t n;
    uint64_t lost; /* older ones that the file has no room for */
    bool is_whole; /* counters by peer are there */
};

/* What was waited for, and what ended the wait; or what a thread enqueued, and the stream's call. */
struct arrow {
    const struct line *from_line, *to_line;
    const struct mark *from, *to;
    int64_t from_ns; /* inside of `from` */
};

struct arrows {
    struct arrow *of;
    size_t n;
};

struct trace {
    uint32_t job;
    int n_pes;
    struct line *lines; /* by PE, its threads before its streams */
    size_t n_lines, n_files;
    struct arrows waits, queued; /* the longest first */
    int64_t end_ns;
    uint64_t *bytes; /* [n_pes * n_pes]: of calls of one PE, row by row, to and from each other */
};

/* 0; 1 after a sentence. */
int info_trace(const char *folder);
/* How long an arrow's wait was, or its call was in the queue. */
static inline int64_t info_trace_length(const struct arrow *a)
{
    return a->to_line->stream < 0 ? a->to->end_ns - a->to->begin_ns : a->to->begin_ns - a->to->enqueued_ns;
}
void info_trace_draw(const struct trace *trace, FILE *out); /* as SVG */

#endif
