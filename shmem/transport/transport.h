/* SPDX-License-Identifier: MIT */
/* How to reach what no pointer reaches. A transport has one const table, and one row in transport.c. An operation that
 * is NULL is not supported there: transport.c then does it by another one, or ends the job with a sentence. */
#ifndef ISO_TRANSPORT_H
#define ISO_TRANSPORT_H

#include "../node/peer.h"
#include "far.h"

/* The local side of a put or get. */
struct far_local {
    void *addr; /* a put only reads it */
    size_t len;
    bool on_device; /* device memory of this PE, for which moves_device is true */
    bool nbi;       /* in use until quiet, or until a later blocking put or get of the context with the same PE */
};

/* What networks have done for this PE, for the profile and the metrics. Each word has one writer at a time and relaxed
 * stores; whoever reads adds nothing up that must agree. */
struct transport_counts {
    uint64_t posts;        /* given to the device or the provider */
    uint64_t refused;      /* of them not at once: it had no room */
    uint64_t retries;      /* attempts in vain, also while it connects. What a device repeats itself is not known */
    uint64_t credit_waits; /* operations that had to wait for room in a queue, or for a credit of the peer */
    uint64_t waits, waited_ns; /* for completions and for room: those that outlasted their spinning */
    uint64_t longest_ns;       /* of them */
    int64_t longest_pe;        /* which it was for */
};

struct transport_ops {
    const char *name;
    bool by_pointer; /* the segments of its peers are mapped here; else only the operations below reach them */

    /* ---- life cycle, called by pe.c and buffer.c through the functions at the end of this file ---- */

    /* The job has PEs on other nodes. Opens what is needed to reach them. 0, or -errno after a sentence. */
    int (*open)(void);
    /* All peers' bases are known and the channel works: from here on any operation may come. 0 or -errno likewise. */
    int (*start)(void);
    /* The last barrier is over; also after an open or start that failed. */
    void (*stop)(void);
    /* The segment is about to go, on all PEs; nothing is under way to it. Drops local registrations and peers' keys. */
    void (*forget)(const struct segment *segment);
    /* True: no registration has pinned bytes of [offset, offset + len), and none is made until `unlock`. False: their
     * pages must stay where they are. */
    bool (*lock_unpinned)(const struct segment *segment, size_t offset, size_t len);
    void (*unlock)(void);
    /* The PE is gone, and this one outlives that: operations on it end. NULL: nothing is under way to it. */
    void (*drop_pe)(int pe);
    /* A device runs, and this is its heap. */
    void (*exchange_device)(const struct segment *segment);
    /* For isomer-info and the debug log: device, method, counters; like snprintf. */
    size_t (*text)(char *text, size_t bytes);
    /* Adds its own. NULL: it counts nothing. */
    void (*count)(struct transport_counts *sum);

    /* ---- operations ---- */

    /* Does it reach `peer`? *why gets a short reason either way, for isomer-info. */
    bool (*reaches)(const struct peer *peer, const char **why);
    /* May `len` bytes at `local`, device memory of this PE, be the local side of a move to or from `at`? NULL: never.
     */
    bool (*moves_device)(struct place at, const void *local, size_t len);
    void (*put)(struct ctx *ctx, struct place to, const struct far_local *source);
    void (*get)(struct ctx *ctx, struct place from, const struct far_local *dest);
    uint64_t (*amo)(struct ctx *ctx, struct place at, struct amo op);
    /* The old value is in *fetch (op.bytes wide) after quiet. NULL: amo. */
    void (*amo_nbi)(struct ctx *ctx, struct place at, struct amo op, void *fetch);
    /* Ordered after earlier puts of ctx to the same PE; sig_op as in put_signal. */
    void (*signal)(struct ctx *ctx, struct place at, uint64_t value, int sig_op);
    /* The data, then the signal. NULL: put and signal. `source` says where and how long message->source is. */
    void (*put_signal)(struct ctx *ctx, const struct far_message *message, const struct far_local *source);
    /* Aligned words of 8 bytes in host memory. Each arrives whole, in any order, after earlier puts of ctx to the same
     * PE. */
    void (*put_words)(struct ctx *ctx, struct place to, const void *words, size_t len);
    void (*fence)(struct ctx *ctx);
    void (*quiet)(struct ctx *ctx);
    /* Quiet towards one PE. NULL: quiet. */
    void (*pe_quiet)(struct ctx *ctx, int pe);
    /* Called by waits, now and then: advances operations under way. True: something came or was completed. */
    bool (*progress)(void);
    /* Sleeps for so long, or until there is work for progress. False: not now. */
    bool (*rest)(uint64_t ns);
};

extern const struct transport_ops iso_transport_ipc; /* local peers: staged edges by cross-memory attach */
/* PEs of other nodes: RDMA. Without libibverbs at build time a row that says so. */
extern const struct transport_ops iso_transport_verbs;
/* PEs of other nodes: libfabric, where SHMEM_TRANSPORT asks for it, or a host of the job has no RDMA port. Without its
 * headers at build time a row that says so. */
extern const struct transport_ops iso_transport_ofi;
#ifdef ISO_PES_AS_THREADS
/* Test double: peers whose pointers are hidden (SHMEM_TEST_FAR=1), so that every call goes the far way. */
extern const struct transport_ops iso_transport_double;
#endif

/* Is SHMEM_TRANSPORT the name of a network? 0, or -EINVAL after a sentence. */
int iso_transport_check(void);
/* May RDMA be possible from here: does the user name a port, or has this host an active one? Starts nothing. */
bool iso_network_has_rdma(void);
/* The first row that reaches the peer, NULL: none (`why` says what each said). */
const struct transport_ops *iso_transport_choose(const struct peer *peer, const char **why);

/* The hooks of all rows that are some peer's, see above; no-ops in a job on one node. pe.c: open after
 * iso_transport_choose for all, start after the channel's, stop in finalize, drop_pe. buffer.c: forget. memory.c:
 * lock_unpinned, and unlock where that was true. device_start.c: exchange_device. */
int iso_transport_open(void);
int iso_transport_start(void);
void iso_transport_stop(void);
void iso_transport_forget(const struct segment *segment);
void iso_transport_drop_pe(int pe);
bool iso_transport_lock_unpinned(const struct segment *segment, size_t offset, size_t len);
void iso_transport_unlock(void);
void iso_transport_exchange_device(const struct segment *segment);
size_t iso_transport_text(char *text, size_t bytes);
struct transport_counts iso_transport_count(void);

/* network_info.c: the doctor's findings about the network of this host; severity: 0 fine, 1 works but. */
void iso_network_examine(void (*find)(void *doctor, int severity, const char *sentence), void *doctor);

#endif
