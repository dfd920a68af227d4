/* SPDX-License-Identifier: MIT */
/* What the networks (verbs, ofi) have in common: the lock, the end by a failure, questions to the same network of
 * another PE, the progress thread, and registered memory with the keys of peers. A network is a port: a struct that
 * begins with struct network, and a const row of what differs. Invariants: `lock` guards everything in both structs. The
 * channel's lock is taken before it, so no function of channel.h is called with it held. Included by the networks'
 * files. */
#ifndef ISO_NETWORK_H
#define ISO_NETWORK_H

#include "../../state/base.h"
#include "../transport.h"
#include "range.h"

#include <pthread.h>

struct wait;

enum {
    NETWORK_GROUPS = 4,      /* queues to one peer: contexts take turns, see iso_network_group */
    NETWORK_BUSY_POLLS = 16, /* polls by waits within NETWORK_LOOK_NS that show that waits do the thread's work */
    NETWORK_LOOK_NS = 1000000,
    NETWORK_WATCH_NS = 100000000 /* between two looks for what is stuck */
};

/* A registered range of a segment of this PE. A row of a range_table, of which no two overlap. */
struct network_region {
    uint64_t start, end;
    void *mr; /* the library's registration; NULL: device memory that the CPU of this PE moves */
};

/* A range of a peer's memory, by the peer's addresses, as the peer described it. A row of a range_table. */
struct network_key {
    uint64_t start, end;
    uint64_t at;      /* ofi: subtracted from an address to give what the provider wants; verbs: see `by_cpu` */
    uint64_t key;
    uint32_t by_cpu;  /* device memory that the network does not reach: by messages (ofi), or by the stage of the peer,
                         which begins at `at` and has this key (verbs) */
    uint32_t flushes; /* device memory that does not keep the order of writes: a flush goes between them and a signal */
};

/* A request through the channel, and its answer. Each begins with a type and an error; types below NETWORK_KEY are the
 * port's. */
enum { NETWORK_KEY = 200 };
struct network_answer { /* how each begins */
    uint32_t type;
    int32_t error; /* -ESHUTDOWN: the network there is lost */
};
struct network_key_info {
    uint32_t type;
    int32_t error;        /* answer: -errno; -EFAULT: no segment; 0 */
    uint64_t addr, limit; /* limit: of locked memory, in bytes */
    struct network_key key;
};

struct network;

/* A queue to a peer. The first member of the port's. */
struct network_queue {
    struct network_queue *next_in_group;
};

struct network_peer {
    struct range_table keys; /* of struct network_key: what is known of the peer's memory */
    struct network_queue *out[NETWORK_GROUPS];
    bool connecting; /* a thread is in port->connect */
    bool gone;       /* operations on it have no effect, and waits for it end */
};

/* What a network does by itself. Each is called with the lock held, if nothing else is said. */
struct network_port {
    const char *name;
    /* The job is broken: ends all operations of the network, and sets `lost`. */
    void (*drop)(void);
    bool drops_late; /* behind the sentence of a failure: peers would see the end before it */
    /* The PE is gone: all that is under way to it is over, without effect. Never waits. */
    void (*drop_pe)(int pe);
    /* A queue without effect, where iso_network_has_lost the PE. */
    struct network_queue *(*nowhere)(int pe);
    /* A queue to the PE. NULL: it is lost. Gives up the lock meanwhile, as all below may that wait. */
    struct network_queue *(*connect)(int pe, int group);
    /* What the queue has sent is before what it sends from now on. */
    void (*fence)(struct network_queue *q);
    /* Sends all that a quiet waits for; waits for it. */
    void (*begin_quiet)(const struct ctx *ctx, struct network_queue *q);
    void (*end_quiet)(const struct ctx *ctx, struct network_queue *q);
    /* Waits for all operations of this PE. */
    void (*complete)(void);
    /* The thread, without the lock: looks, and says after how many nanoseconds to look again; 0: when woken. */
    uint64_t (*look)(void);
    void (*sleep)(uint64_t look_ns); /* likewise; until something comes, `wake` is written to, or that time is over */
    size_t (*text)(char *text, size_t bytes); /* without the lock; as in struct transport_ops */
    const char *(*error_text)(int error); /* any thread */

    /* Registers a range of the segment for this PE and its peers. 0, with *mr NULL where the CPU of this PE moves that
     * device memory; or -errno. */
    int (*expose)(const struct segment *segment, struct range range, void **mr);
    void (*conceal)(struct network *n, void *mr);
    /* The key of the range around addr, for that peer; registers it if need be. 0 or -errno. */
    int (*make_key)(int pe, const struct segment *segment, const void *addr, struct network_key *key);
    /* Answers a request of another type; both have CHANNEL_BODY_BYTES. 0 or -errno, for the answer's error. */
    int (*answer)(int pe, const void *request, void *answer);
};

struct network {
    const struct network_port *port;
    struct state *state; /* of the PE, for the thread */
    pthread_mutex_t lock;
    bool failed; /* atomic: the job is ending by an error, nothing is posted any more */
    bool lost;   /* the job is broken and this PE goes on: operations have no effect, and waits end */
    bool bereft; /* lost, or a peer is gone: see iso_network_has_lost */
    bool ended;  /* atomic: all PEs have nothing under way any more, errors are of no interest */

    struct range_table regions; /* of struct network_region */
    struct network_peer *peers; /* [n_pes] */
    struct network_queue *groups[NETWORK_GROUPS]; /* all of `out` */
    bool device_direct;         /* the network may move device memory of this PE */
    bool pins;                  /* registered pages must stay where they are */
    uint64_t asked_keys;        /* count, for the text */
    struct transport_counts counts; /* by iso_network_add */

    /* the progress thread */
    pthread_t thread;
    bool has_thread;
    bool stopping;       /* atomic */
    int wake;            /* eventfd, -1: none */
    unsigned sleepers;   /* waits that sleep until something comes: the thread leaves that to them */
    bool pending_events; /* something came since a wait last looked */
    unsigned polls;      /* by waits, since the thread looked */
    unsigned busy_looks; /* consecutive looks of the thread at which waits did its work; ofi: and nothing had come */
    uint64_t looked_ns;  /* when the last was */
    uint64_t watched_ns; /* when it last looked for what is stuck */
};

/* ---- life ---- */

int iso_network_open(struct network *n, const struct network_port *port); /* 0 or -ENOMEM; close follows either */
/* Before the port destroys itself. In shmem_finalize it first waits for the operations of all PEs. No thread runs
 * behind it, and no request of a peer comes. */
void iso_network_stop(struct network *n);
void iso_network_unregister(struct network *n); /* all regions */
void iso_network_close(struct network *n);      /* the last one */

/* ---- the lock ---- */

/* As pthread_mutex_lock; after a failure the call never returns, since another thread is ending the process. */
void iso_network_lock(struct network *n);
/* For handlers of the channel, which must come back. False after a failure, without the lock. */
bool iso_network_lock_unless_failed(struct network *n);
ISO_INLINE void iso_network_unlock(struct network *n) { pthread_mutex_unlock(&n->lock); }
/* Has the process begun to end by a failure of the network? Pairs with the release in network.c. */
ISO_INLINE bool iso_network_failed(const struct network *n) { return __atomic_load_n(&n->failed, __ATOMIC_ACQUIRE); }
/* Does this PE end, so that errors of the other end are no news? */
ISO_INLINE bool iso_network_ended(const struct network *n) { return __atomic_load_n(&n->ended, __ATOMIC_RELAXED); }

/* ---- failure ---- */

/* Do operations on the PE have no effect? */
ISO_INLINE bool iso_network_has_lost(const struct network *n, int pe)
{
    return ISO_UNLIKELY(n->bereft) && (n->lost || n->peers[pe].gone);
}
/* The network or a peer fails (pe: which one is not reached; -1: none, or not known). Ends the job; or, with
 * SHMEMX_ERRORS_RETURN, sets `lost`, drops all operations, breaks the job and returns. Where this PE masks deaths and
 * one peer is not reached, that one is gone instead. Gives up the lock meanwhile, and first lets a report of a peer's
 * death arrive, which explains more. No effect where iso_network_has_lost. */
ISO_COLD void iso_network_lose(struct network *n, int pe, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* While `bereft`: waits until the thread that found the loss has broken the job, and gives up the lock meanwhile. An
 * operation without effect must not return before, as if it had had one. */
ISO_COLD void iso_network_await_break(struct network *n);

/* ---- peers ---- */

/* The queues of a context: 0 for those that most programs use. */
ISO_INLINE int iso_network_group(const struct ctx *ctx)
{
    if (ISO_LIKELY(ctx == &ISO->ctx_default || ctx == &ISO->ctx_words))
        return 0;
    return (int)(((uintptr_t)ctx->handle + NETWORK_GROUPS - 1) % NETWORK_GROUPS);
}
/* The queue for the context's operations on pe, connected; gives up the lock meanwhile. Where iso_network_has_lost the
 * PE: perhaps port->nowhere. */
struct network_queue *iso_network_connect(struct network *n, int pe, int group);
ISO_INLINE struct network_queue *iso_network_queue_to(struct network *n, const struct ctx *ctx, int pe)
{
    int group = iso_network_group(ctx);
    struct network_queue *q = n->peers[pe].out[group];
    return ISO_LIKELY(q != NULL) ? q : iso_network_connect(n, pe, group);
}
/* Asks the PE through the channel. `info`, a struct that begins with its type, is replaced by the answer. Gives up the
 * lock meanwhile. 0, or -errno: there was no answer, and all of `info` is 0. iso_network_has_lost says whether that was
 * the end of the PE. */
int iso_network_ask(struct network *n, int pe, void *info, size_t bytes);
/* The channel's handler, by way of the port's; n: NULL while there is no network. */
void iso_network_answer(struct network *n, int pe, const void *request, void *answer);

/* ---- memory ---- */

/* The address by which the peer knows the place. */
ISO_INLINE uint64_t iso_network_remote(struct place at)
{
    return (uint64_t)(uintptr_t)at.segment->peers[at.pe].base + iso_place_offset(at);
}
/* The fields by which a network's message asks for an atomic. */
#define NETWORK_AMO(remote, amo)                                                                        \
    .op = (uint8_t)(amo).op, .bytes = (uint8_t)(amo).bytes, .addr = (remote), .operand = (amo).operand, \
    .compare = (amo).compare

/* Memory of the network itself, zeroed. Shared mappings, so that a fork leaves the pages alone. NULL: there is none. */
char *iso_network_map(size_t bytes);
/* The region of segment s around addr, registered now if need be. NULL: *error says why. */
struct network_region *iso_network_region_at(struct network *n, const struct segment *s, const void *addr, int *error);
/* The registered range of this PE's segments that holds addr. NULL: outside of them, or device memory that the CPU
 * moves, or an error (*error is -errno then). */
ISO_INLINE struct network_region *iso_network_region_of(struct network *n, const void *addr, int *error)
{
    struct network_region *r =
        (struct network_region *)iso_range_find(&n->regions, sizeof *r, (uint64_t)(uintptr_t)addr);
    const struct segment *s = ISO_LIKELY(r != NULL) ? NULL : iso_segment_of(addr, 1);
    *error = 0;
    if (s != NULL)
        r = iso_network_region_at(n, s, addr, error);
    return r != NULL && r->mr != NULL ? r : NULL;
}
/* The key of the peer's range that holds addr; asks the peer when it is not known. A peer without one loses the network,
 * and the range has no end then. Gives up the lock meanwhile. */
struct network_key iso_network_ask_key(struct network *n, int pe, uint64_t addr);
ISO_INLINE struct network_key iso_network_key_of(struct network *n, int pe, uint64_t addr)
{
    const struct network_key *known =
        (const struct network_key *)iso_range_find(&n->peers[pe].keys, sizeof *known, addr);
    return ISO_LIKELY(known != NULL) ? *known : iso_network_ask_key(n, pe, addr);
}

/* These are of struct transport_ops; n: NULL while there is no network, where that may be. */
void iso_network_exchange_device(struct network *n, const struct segment *segment);
bool iso_network_moves_device(struct network *n, struct place at, const void *local, size_t len);
void iso_network_forget(struct network *n, const struct segment *segment);
void iso_network_drop_pe(struct network *n, int pe);
bool iso_network_lock_unpinned(struct network *n, const struct segment *segment, size_t offset, size_t len);
ISO_INLINE void iso_network_unlock_unpinned(struct network *n)
{
    if (n != NULL)
        iso_network_unlock(n);
}

/* ---- waits ---- */

/* The begin and the end of a look by a wait of the program. False: not now, and without the lock. */
ISO_INLINE bool iso_network_begin_look(struct network *n)
{
    if (iso_network_failed(n) || pthread_mutex_trylock(&n->lock) != 0)
        return false;
    n->polls++;
    return true;
}
/* True: something came; also to a wait that was about to sleep, or to the thread. */
ISO_INLINE bool iso_network_end_look(struct network *n)
{
    bool any = n->pending_events;
    n->pending_events = false;
    pthread_mutex_unlock(&n->lock);
    return any;
}
/* One more of the counts: relaxed, as the profile reads them without the lock. */
ISO_INLINE void iso_network_add(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, *word + value, __ATOMIC_RELAXED);
}
/* iso_wait_end, and counts the wait if it has lasted. */
void iso_network_end_wait(struct network *n, struct wait *wait);
void iso_network_count(const struct network *n, struct transport_counts *sum); /* n: NULL while there is no network */
/* Between two looks of a wait of the network; gives up the lock meanwhile. False: the job is broken, and
 * iso_network_has_lost wait->peer. */
bool iso_network_pause(struct network *n, struct wait *wait, uint64_t seen);

/* ---- order and completion ---- */

/* These are of struct transport_ops; n: NULL while there is no network. */
void iso_network_fence(struct network *n, const struct ctx *ctx);
void iso_network_quiet(struct network *n, const struct ctx *ctx);
void iso_network_pe_quiet(struct network *n, const struct ctx *ctx, int pe); /* there is one */

/* ---- the thread ---- */

int iso_network_thread_start(struct network *n); /* 0, or -errno after a sentence */
void iso_network_thread_stop(struct network *n);
/* Do waits of the program do the thread's work? Counts from one call to the next; `many`: polls in NETWORK_LOOK_NS. */
bool iso_network_is_busy(struct network *n, uint64_t now_ns, unsigned many);
/* Is it time to look for what is stuck? Not where errors are of no interest. */
bool iso_network_watches(struct network *n);

/* ---- the row of a network ---- */

/* The functions of struct transport_ops that are the same for all networks, and the channel's handler. `field` of struct
 * state is the port, or NULL. Used once in the file of the row. */
#define NETWORK_FORWARDERS(field)                                                                                      \
    static struct network *network(void) { return ISO->field != NULL ? &ISO->field->net : NULL; }                      \
    static void answer(int pe, const void *request, void *to) { iso_network_answer(network(), pe, request, to); }      \
    static void forget(const struct segment *segment) { iso_network_forget(network(), segment); }                      \
    static void drop_pe(int pe) { iso_network_drop_pe(network(), pe); }                                                \
    static bool lock_unpinned(const struct segment *segment, size_t offset, size_t len)                                \
    {                                                                                                                  \
        return iso_network_lock_unpinned(network(), segment, offset, len);                                             \
    }                                                                                                                  \
    static void unlock(void) { iso_network_unlock_unpinned(network()); }                                               \
    static void exchange_device(const struct segment *segment) { iso_network_exchange_device(network(), segment); }    \
    static bool moves_device(struct place at, const void *local, size_t len)                                           \
    {                                                                                                                  \
        return iso_network_moves_device(network(), at, local, len);                                                    \
    }                                                                                                                  \
    static void fence(struct ctx *ctx) { iso_network_fence(network(), ctx); }                                          \
    static void quiet(struct ctx *ctx) { iso_network_quiet(network(), ctx); }                                          \
    static void pe_quiet(struct ctx *ctx, int pe) { iso_network_pe_quiet(network(), ctx, pe); }                        \
    static void count(struct transport_counts *sum) { iso_network_count(network(), sum); }
#define NETWORK_ROW                                                                                                    \
    .forget = forget, .drop_pe = drop_pe, .lock_unpinned = lock_unpinned, .unlock = unlock,                            \
    .exchange_device = exchange_device, .moves_device = moves_device, .fence = fence, .quiet = quiet,                  \
    .pe_quiet = pe_quiet, .count = count

#endif
