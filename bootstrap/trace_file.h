/* SPDX-License-Identifier: MIT */
/* The files of SHMEM_TRACE: one for each thread of each PE, FOLDER/isomer.PE.THREAD.trace, written by
 * shmem/profile/trace.c and read by isomer-info (tools/info_trace.c). A file is mapped memory: what was traced is in it
 * even where the PE is killed. Its size is fixed when it is made: a head, names, bytes by peer, and a ring of events of
 * which the newest stay. All numbers are of the host's byte order. */
#ifndef ISO_TRACE_FILE_H
#define ISO_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC 0x32656361727469ull /* "itrace2" */
enum { TRACE_NAMES = 512, TRACE_NAME_BYTES = 48, TRACE_KINDS = 32, TRACE_KIND_BYTES = 16 };
enum { TRACE_SYNCS = 2, TRACE_SEGMENTS = 8 };

/* A call or a wait that has ended. Written before `written` of the head grows, which is a release. */
struct trace_event {
    uint64_t begin, ticks; /* of the head's clock */
    uint64_t bytes;
    uint64_t key;  /* where it writes or waits, as this PE names it; collectives: number of the call in its team; heap:
                      bytes in use */
    uint64_t more; /* bytes at the key; collectives: the team, as its slot << 32 | its first PE + 1 */
    uint64_t what; /* trace_what */
};
#define TRACE_KIND_WAIT (TRACE_KINDS - 1)
#define TRACE_KIND_KERNEL (TRACE_KINDS - 2) /* a wait of a kernel */
/* A call that a stream has run, in the file of any thread of its PE. begin and ticks are of the stream, brought to the
 * head's clock; more: when the host began to enqueue it; key: trace_stream. */
#define TRACE_KIND_STREAM (TRACE_KINDS - 3)

/* pe: world PE of the other side, or that was waited for; -1: none. kind: enum profile_call, or TRACE_KIND_WAIT: a wait
 * inside of a call. name: a number of the head's. One word: an event is six stores. */
static inline uint64_t trace_what(int pe, unsigned kind, unsigned name)
{
    return (uint64_t)(uint32_t)pe << 32 | kind << 16 | name;
}
static inline int trace_pe(uint64_t what) { return (int)(uint32_t)(what >> 32); }
static inline unsigned trace_kind(uint64_t what) { return (unsigned)(what >> 16) & 0xffff; }
static inline unsigned trace_name(uint64_t what) { return (unsigned)what & 0xffff; }

/* stream: a number of the PE's, 0: the default stream. how: the name of the algorithm, 0: none. thread: the number of
 * the file of the thread that has enqueued it. */
static inline uint64_t trace_stream(unsigned stream, unsigned how, unsigned thread)
{
    return (uint64_t)stream << 32 | (uint64_t)(how & 0xffff) << 16 | (thread & 0xffff);
}
static inline unsigned trace_stream_number(uint64_t key) { return (unsigned)(key >> 32); }
static inline unsigned trace_stream_how(uint64_t key) { return (unsigned)(key >> 16) & 0xffff; }
static inline unsigned trace_stream_thread(uint64_t key) { return (unsigned)key & 0xffff; }

/* Memory that all PEs of the job have, at addresses of their own. bytes 0: none. */
struct trace_segment {
    uint64_t base, bytes;
};

struct trace_clock {
    uint64_t ticks, ns; /* of the events; CLOCK_MONOTONIC: at the same time */
};

/* The clock of this PE's node is ahead of PE 0's by `low` to `high` ns, at `ns` of its own CLOCK_MONOTONIC. */
struct trace_sync {
    uint64_t ns;
    int64_t low, high;
};

/* What a PE knows of its streams at its last look at them, which is the newest of all its files. */
struct trace_streams {
    uint64_t ticks;    /* 0: the thread has never looked */
    uint64_t pending;  /* calls that have not ended */
    uint64_t enqueued, first; /* of these, the one that was enqueued first: when, and trace_stream with its name */
    uint64_t unmarked; /* calls so far without times: too many were in the streams at once */
    uint64_t error_ns; /* the device's clock is known to within that; UINT64_MAX: not at all */
};

struct trace_head {
    uint64_t magic;
    uint32_t job;
    int32_t pe, n_pes, node, thread; /* node: number of it; thread: number of the file */
    uint32_t pid, tid;
    uint32_t capacity; /* events: a power of two */
    uint64_t began_s;  /* since 1970 */
    uint64_t written;  /* events so far, of which the last `capacity` are there; atomic, release */
    uint32_t n_names, whole; /* whole: the PE has finalized, and bytes by peer are there */
    struct trace_clock first, last; /* last: the newest pair */
    struct trace_sync syncs[TRACE_SYNCS]; /* at the begin and at the end; ns 0: none, or this is the node of PE 0 */
    struct trace_segment segments[TRACE_SEGMENTS];
    struct trace_streams streams;
    double ns_per_tick; /* measured at the start: where `last` is too near to `first` */
    char host[64], label[64]; /* label: of the thread */
    char kinds[TRACE_KINDS][TRACE_KIND_BYTES];
    char names[TRACE_NAMES][TRACE_NAME_BYTES];
    /* then uint64_t bytes[n_pes]; then struct trace_event [capacity] */
};

static inline size_t trace_events_at(int n_pes) { return sizeof(struct trace_head) + (size_t)n_pes * sizeof(uint64_t); }

#endif
