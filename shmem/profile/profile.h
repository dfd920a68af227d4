/* SPDX-License-Identifier: MIT */
/* The hooks of calls, one place in each call, and the counters of SHMEM_PROFILE and SHMEM_METRICS: calls, bytes, time
 * and waits of this PE, by call, by peer and by algorithm. Each thread has a block of its own. Its words have one
 * writer, the thread, with relaxed stores; the page and the metrics file read them by relaxed loads and add the blocks
 * up: counts that a reader misses are in its next look.
 *
 * Off, ISO->profile is NULL, and puts, gets and atomics do not ask for it: state.odd_words and state.odd_memory, which
 * they test anyway, send them to their slow half, where it is asked for.
 *
 * Time: the first PROFILE_EXACT short calls of a kind are timed, then one in PROFILE_STEP, which stands for them all.
 * A wait that outlasts its spinning is timed always. Where calls are traced (trace.h) or named for tools (ranges.h), all
 * of them are timed, and what these two do stands beside the clock. Kernels count nothing: what the host enqueues and
 * what the proxy executes for them is counted, each as any call. Used by ops/, node/wait.c and coll/; above it page.c,
 * metrics.c. */
#ifndef ISO_PROFILE_H
#define ISO_PROFILE_H

#include "../../bootstrap/trace_file.h"
#include "../state/pe_state.h"

#define ISO_PROFILE_CALLS(X)                                      \
    X(OTHER, "other") /* waits of all other calls */              \
    /* first those towards one PE, which are counted by peer */   \
    X(PUT, "put")                                                 \
    X(GET, "get")                                                 \
    X(P, "p")                                                     \
    X(G, "g")                                                     \
    X(IPUT, "iput")                                               \
    X(IGET, "iget")                                               \
    X(ATOMIC, "atomic")                                           \
    X(PUT_SIGNAL, "put_signal")                                   \
    X(SIGNAL, "signal")                                           \
    X(WAIT, "wait_until")                                         \
    X(TEST, "test")                                               \
    X(FENCE, "fence")                                             \
    X(QUIET, "quiet")                                             \
    X(BARRIER, "barrier")                                         \
    X(COLLECTIVE, "collective")                                   \
    X(HEAP, "heap")                                               \
    X(STREAM, "on_stream") /* enqueued */                         \
    X(LAUNCH, "launch")                                           \
    X(GRAPH, "graph_launch")                                      \
    X(PROXY, "proxy") /* for kernels */
enum profile_call {
#define X(id, name) PROFILE_##id,
    ISO_PROFILE_CALLS(X)
#undef X
        PROFILE_CALLS
};
enum { PROFILE_FIRST_TO = PROFILE_PUT, PROFILE_TO_CALLS = PROFILE_SIGNAL - PROFILE_PUT + 1 };
extern const char *const iso_profile_names[PROFILE_CALLS];

#define PROFILE_ALL UINT32_MAX
enum {
    PROFILE_EXACT = 64,
    PROFILE_STEP = 512,
    PROFILE_LONG_BYTES = 16384, /* from here on each call is timed: the clock is a small part of it */
    PROFILE_ROWS = 24,          /* of collectives; what finds no row counts in the last one */
    PROFILE_CELLS = 64,         /* likewise of a thread: algorithm, size and team */
    PROFILE_TEAMS = 16,         /* by the slot of a team; those from the last one on count together */
    PROFILE_NAME_BYTES = 24
};

/* All of 8 bytes: PE 0 gathers them as words. */
struct profile_count {
    uint64_t count, bytes, ns;
    uint64_t waited_ns;  /* of ns, in waits that outlasted their spinning */
    uint64_t longest_ns; /* such a wait */
    int64_t longest_pe;  /* the PE that it was for; -1: not known */
};
/* Calls with one peer, both directions, by kind: so a put adds to two words. The sums over peers are not in `calls`. */
struct profile_pair {
    uint64_t count, bytes;
};
struct profile_peer {
    struct profile_pair by_call[PROFILE_TO_CALLS];
};
/* Of the calls of a kind, the thread's own. */
struct profile_turn {
    uint32_t left;  /* short calls up to the next that is timed, that one counted; 1 or more */
    uint32_t exact; /* calls that are still all timed; PROFILE_ALL: for ever */
};
struct profile_row {
    char name[PROFILE_NAME_BYTES]; /* "reduce twoshot"; empty: free */
    uint64_t size;                 /* the bytes are below 1 << size */
    uint64_t count, bytes, ns, waited_ns;
    uint64_t call, team; /* of a thread's: enum profile_call; 0 .. PROFILE_TEAMS, that: none. Its only count */
};

/* Collectives on the host of the teams that had this slot, one after the other. */
struct profile_team {
    uint64_t count, bytes, ns, waited_ns;
};

struct profile_block {
    struct profile_block *next;
    uint32_t taken; /* atomic: a thread has it; that of a thread which ended is another's later, its counts stay */
    uint32_t current; /* enum profile_call; the thread's own */
    struct profile_turn turns[PROFILE_CALLS];
    struct trace_thread *trace; /* NULL: not traced; the thread's own */
    struct profile_count calls[PROFILE_CALLS];
    struct profile_row cells[PROFILE_CELLS];
    uintptr_t keys[PROFILE_CELLS]; /* the algorithm and the team; the thread's own, as is what follows */
    struct profile_row *recent;    /* the cell of the last collective, NULL: none yet; its key and size */
    uintptr_t recent_key;
    uint64_t recent_size;
    struct profile_peer peers[];        /* [n_pes] */
};

/* What all threads have counted. */
struct profile_sums {
    struct profile_count calls[PROFILE_CALLS];
    struct profile_row rows[PROFILE_ROWS]; /* by name and size */
    struct profile_team teams[PROFILE_TEAMS];
    struct profile_peer peers[]; /* [n_pes] */
};

struct profile {
    uint64_t began_ns;
    struct profile_block *blocks; /* atomic; grows at the front */
    pthread_key_t key;            /* gives blocks of threads that end back */
    struct metrics *metrics;      /* metrics.c; NULL: no file is written */
    bool counts;                  /* SHMEM_PROFILE or SHMEM_METRICS: times are added up */
    bool counts_ticks;            /* the clock is the processor's, and takes half as long as the system's */
    double ns_per_tick;           /* of the clock */
    struct trace_clock first_clock;
    bool traces, trace_stops; /* SHMEM_TRACE; no new file is made: atomic */
    int trace_threads;        /* files so far; atomic */
    uint32_t trace_events;    /* of a file */
    struct trace_sync syncs[TRACE_SYNCS];
    struct trace_segment segments[TRACE_SEGMENTS];
    int (*range_push)(const char *name); /* ranges.h; NULL: no tool wants them */
    int (*range_pop)(void);
};

/* This thread's block, and whose it is. Initial-exec: a put cannot afford the call of the other models; it is 16 bytes
 * of the surplus that a library loaded late may take. */
struct profile_mine {
    uint64_t life; /* as state.profile_life was when it took the block; 1, which that never is, before */
    struct profile_block *block;
};
extern _Thread_local struct profile_mine iso_profile_mine __attribute__((tls_model("initial-exec"), visibility("hidden")));

bool iso_profile_is_asked(const struct env *env); /* SHMEM_PROFILE; alike on all PEs */
void iso_profile_measure_clock(void); /* at the end of the start; no-op where nothing is counted */
int iso_profile_start(void); /* 0, or -ENOMEM after a sentence; no-op where no variable asks for it */
void iso_profile_stop(void);
struct profile_block *iso_profile_take_block(void);
size_t iso_profile_sums_bytes(void);
void iso_profile_sum(struct profile_sums *sum);
void iso_profile_add_row(struct profile_row sums[PROFILE_ROWS], const struct profile_row *row); /* has a name */
const char *iso_profile_team_name(int index); /* "world", "shared", "slot 2", .. "slot 15 and above" */

ISO_INLINE struct profile_block *iso_profile_block(void)
{
    struct profile_block *block =
        ISO_LIKELY(iso_profile_mine.life == ISO->profile_life) ? iso_profile_mine.block : NULL;
    return ISO_LIKELY(block != NULL) ? block : iso_profile_take_block();
}

ISO_INLINE void iso_profile_add(uint64_t *word, uint64_t value) /* one writer */
{
    __atomic_store_n(word, *word + value, __ATOMIC_RELAXED);
}

/* One call in progress, on the stack. block NULL: nothing is counted. What stands behind weight is for the trace. */
struct profile_span {
    struct profile_block *block;
    uint64_t began;     /* of the clock; 0: not timed */
    uint64_t waited_ns; /* of calls of this kind before */
    struct profile_row *row; /* of a collective, else NULL */
    uint32_t call, before;
    uint32_t weight; /* calls that it stands for */
    int pe;          /* world PE of the other side, -1: none */
    const char *name;
    uint64_t bytes, key, more; /* as in struct trace_event */
};
uint64_t iso_profile_ticks(const struct profile *p);
ISO_COLD uint64_t iso_profile_begin_timed(struct profile_block *block, enum profile_call call, const char *name);
ISO_COLD void iso_profile_end_timed(struct profile_span span); /* by value: a span lies in registers until here */
/* A collective. key: the address of what only its algorithm has, a multiple of 16, or of something longer. */
struct profile_what {
    enum profile_call call;
    uintptr_t key;
    int slot; /* of the team; -1: none */
    size_t bytes;
    const char *name; /* of the call */
};
ISO_INLINE unsigned iso_profile_team(int slot)
{
    return slot < 0 ? PROFILE_TEAMS : ISO_MIN((unsigned)slot, (unsigned)PROFILE_TEAMS - 1);
}
/* The cell of such calls in this thread's block, in two steps; NULL: it has none yet. The call is counted there. */
struct profile_row *iso_profile_seek_row(struct profile_block *block, uintptr_t key, uint64_t size);
struct profile_row *iso_profile_new_row(struct profile_block *block, struct profile_what what, const char *kind,
                                        const char *name);
ISO_INLINE uint64_t iso_profile_size(size_t bytes) { return bytes == 0 ? 0 : 64 - (uint64_t)__builtin_clzll(bytes); }
ISO_INLINE struct profile_row *iso_profile_row(struct profile_block *block, struct profile_what what)
{
    uint64_t size = iso_profile_size(what.bytes);
    uintptr_t key = what.key + iso_profile_team(what.slot);
    struct profile_row *row = block->recent;
    if (ISO_UNLIKELY((block->recent_key != key) | (block->recent_size != size)))
        row = iso_profile_seek_row(block, key, size);
    if (ISO_UNLIKELY(row == NULL))
        return NULL;
    iso_profile_add(&row->count, 1);
    if (what.bytes != 0)
        iso_profile_add(&row->bytes, what.bytes);
    return row;
}
/* A call that a stream has run, in the events of the calling thread; times are ticks. */
struct profile_run {
    const char *name, *how; /* how: its algorithm, NULL: it has none; constants of the library both */
    uint64_t begin, end, enqueued, bytes;
    int pe; /* as of a span */
    unsigned stream, thread; /* as in the trace's file */
};
ISO_COLD void iso_profile_ran(const struct profile_run *run);
/* After a look at the streams. first: of the pending calls the one that was enqueued first; NULL: none is. */
ISO_COLD void iso_profile_note_streams(const struct trace_streams *streams, const struct profile_run *first);
#define TRACE_KERNEL_NS 50000u /* a shorter wait of a kernel is not traced */
/* A piece of a kernel's wait for `pe`, which ends now, in the events of the calling thread. */
ISO_COLD void iso_profile_kernel_wait(const char *call, int pe, uint64_t ns);
/* A wait of this thread is over that has lasted so long: by wait.c. */
struct wait;
ISO_COLD void iso_profile_wait(const struct wait *wait, uint64_t ns, int pe);
struct profile_block *iso_profile_first_block(struct profile *p);

/* It is the turn of a short call to be timed: how many it stands for. */
ISO_INLINE uint32_t iso_profile_turn(struct profile_turn *turn)
{
    uint32_t weight = turn->exact > 0 ? 1 : PROFILE_STEP;
    turn->exact -= turn->exact - 1 < PROFILE_EXACT; /* PROFILE_ALL stays */
    turn->left = turn->exact > 0 ? 1 : PROFILE_STEP;
    return weight;
}
ISO_INLINE struct profile_span iso_profile_start_span(struct profile_block *b, enum profile_call call, const char *name,
                                                      size_t bytes)
{
    struct profile_span span = {.block = b,
                                .waited_ns = b->calls[call].waited_ns,
                                .call = (uint32_t)call,
                                .before = b->current,
                                .weight = 1,
                                .pe = -1,
                                .name = name,
                                .bytes = bytes};
    b->current = (uint32_t)call;
    if (ISO_UNLIKELY(bytes >= PROFILE_LONG_BYTES)) {
        span.began = iso_profile_begin_timed(b, call, name);
    } else if (ISO_UNLIKELY(--b->turns[call].left == 0)) {
        span.weight = iso_profile_turn(&b->turns[call]);
        span.began = iso_profile_begin_timed(b, call, name);
    }
    return span;
}
ISO_INLINE struct profile_span iso_profile_begin(enum profile_call call, const char *name, size_t bytes)
{
    struct profile_block *b = iso_profile_block();
    iso_profile_add(&b->calls[call].count, 1);
    iso_profile_add(&b->calls[call].bytes, bytes);
    return iso_profile_start_span(b, call, name, bytes);
}
/* A collective. span.row NULL: its cell is to be made, by iso_profile_new_row. */
ISO_INLINE struct profile_span iso_profile_begin_row(struct profile_what what)
{
    struct profile_span span = iso_profile_start_span(iso_profile_block(), what.call, what.name, what.bytes);
    span.row = iso_profile_row(span.block, what);
    return span;
}
ISO_INLINE void iso_profile_add_to(struct profile_block *b, enum profile_call call, size_t bytes, int pe)
{
    struct profile_pair *pair = &b->peers[pe].by_call[call - PROFILE_FIRST_TO];
    iso_profile_add(&pair->count, 1);
    iso_profile_add(&pair->bytes, bytes);
}
/* A short call towards world PE `pe` that waits for nothing. False: it is not counted, as it is its turn to be timed, or
 * the first one of its thread. Calls no function, so that its callers are leaves. */
ISO_INLINE bool iso_profile_count(enum profile_call call, size_t bytes, int pe)
{
    struct profile_block *b = iso_profile_mine.block;
    if (ISO_UNLIKELY(iso_profile_mine.life != ISO->profile_life) || ISO_UNLIKELY(bytes >= PROFILE_LONG_BYTES))
        return false;
    if (ISO_UNLIKELY(--b->turns[call].left == 0)) {
        b->turns[call].left = 1;
        return false;
    }
    iso_profile_add_to(b, call, bytes, pe);
    return true;
}
/* The call is over; true: it was timed or has waited, and iso_profile_end_timed is to be called. */
ISO_INLINE bool iso_profile_close(const struct profile_span *span)
{
    span->block->current = span->before;
    return (span->began != 0) | (span->block->calls[span->call].waited_ns != span->waited_ns);
}
ISO_INLINE void iso_profile_end(const struct profile_span *span)
{
    if (ISO_UNLIKELY(iso_profile_close(span)))
        iso_profile_end_timed(*span);
}

/* The same for calls that are made whether calls are counted or not. */
ISO_INLINE struct profile_span iso_profile_enter(enum profile_call call, const char *name, size_t bytes)
{
    struct profile_span span;
    span.block = NULL; /* alone: off, nothing else is read, and nothing else is stored */
    if (ISO_UNLIKELY(ISO->profile != NULL))
        span = iso_profile_begin(call, name, bytes);
    return span;
}
ISO_INLINE void iso_profile_leave(const struct profile_span *span)
{
    if (ISO_UNLIKELY(span->block != NULL))
        iso_profile_end(span);
}

#endif
