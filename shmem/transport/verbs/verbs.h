/* SPDX-License-Identifier: MIT */
/* RDMA between nodes by libibverbs: the state of one PE, ISO->verbs, which exists only in a job with PEs on other
 * nodes. A reliable-connected queue pair belongs to the PE that asked for it: (initiator, target, context group). Its
 * partner at the target carries only answers. Puts, gets and signal stores are one-sided. Atomics and signal additions
 * are messages, applied by the target's CPU in the order of their queue pair. Order on a queue pair: as posted, so a
 * store after data is seen after it, and a message is read after it. Invariant: network.lock guards everything here.
 * Included by verbs*.c only. */
#ifndef ISO_VERBS_H
#define ISO_VERBS_H

#include "../network/network.h"
#include "../network/range.h"
#include "../transport.h"
#include "verbs_library.h"

struct gpu; /* device/gpu.h */

enum {
    VERBS_EXPOSED = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    VERBS_DEPTH = 128,       /* work requests of one queue pair, power of 2 */
    VERBS_BATCH = 32,        /* requests that one post may carry */
    VERBS_CREDITS = 64,      /* unanswered messages of one queue pair, power of 2 */
    VERBS_INLINE = 128,      /* asked of the device; data that goes within the request */
    VERBS_SLOT_BYTES = 8192, /* of the ring of copies */
    VERBS_SLOTS = 64,
    VERBS_COPY_MAX = VERBS_SLOT_BYTES, /* a blocking put up to here is copied, and returns */
    VERBS_REGISTER_MIN = 65536,        /* from here on memory outside segments is registered for the operation */
    VERBS_SOFTWARE_READ = 65536,       /* of a device made of software: several reads under way are faster than one */
    VERBS_RECEIVES = 512,              /* messages that may wait to be read */
    VERBS_RECEIVE_BYTES = 512,         /* several messages may travel as one */
    VERBS_STAGE_BYTES = 262144,        /* host memory through which a peer reaches device memory of this PE */
    VERBS_COMPLETIONS = 2048,
    VERBS_ENDS_BYTES = 384
};

/* Calls of the library, not the provider's; printed by verbs.c. System calls are those of operations; where completions
 * wake a wait or the thread, events are counted. */
#define VERBS_COUNTS(X) \
    X(requests)         \
    X(joined)           \
    X(posts)            \
    X(completions)      \
    X(messages)         \
    X(answers)          \
    X(copies)           \
    X(system_calls)     \
    X(events)           \
    X(sleeps)           \
    X(registrations)    \
    X(queue_pairs)
struct verbs_counts {
#define X(name) uint64_t name;
    VERBS_COUNTS(X)
#undef X
};

/* How the RDMA device reaches device memory, best first: as a dma-buf; by the address, which takes a kernel module that
 * knows both devices (the CPU device needs none); not at all, so that the host copies. */
#define VERBS_METHODS(X)                      \
    X(VERBS_DMABUF, "dmabuf", "by dma-buf") \
    X(VERBS_PEER, "peer", "by peer memory") \
    X(VERBS_STAGED, "staged", "staged by the host")
enum verbs_method {
#define X(id, wish, text) id,
    VERBS_METHODS(X)
#undef X
        VERBS_ANY_METHOD
};

/* The choice for all device memory of this PE, made when its first range is registered. */
struct verbs_reach {
    enum verbs_method wish; /* SHMEM_DEVICE_RDMA; VERBS_ANY_METHOD: the first that works */
    enum verbs_method method; /* VERBS_ANY_METHOD: not chosen yet */
    bool flushes;         /* keys say so: kernels may see a signal before the data that was written before it */
    char why[384];        /* reasons against the better methods */
};

/* VERBS_AMO: the old value is not wanted. */
enum verbs_type { VERBS_AMO = 1, VERBS_FETCH, VERBS_TO_DEVICE, VERBS_FROM_DEVICE, VERBS_ANSWER };

/* Sent by the initiator, answered in order. A message that wants the old value has an answer of its own. Several others
 * may share one answer, that of the last, which `serial` names. */
struct verbs_message {
    uint8_t type, op, bytes, group;
    int32_t pe; /* the sender */
    uint64_t serial;
    uint64_t addr;    /* at the receiver; answer: 0, or 1: refused */
    uint64_t operand; /* answer: the old value */
    uint64_t compare; /* or length; answer: `addr` of the message */
};

/* The work left when a request is complete, and its description for messages. */
struct verbs_request {
    struct ibv_mr *mr; /* registered for this operation only */
    void *dest;        /* a get by a slot: where its bytes go */
    uint64_t remote;
    uint32_t len;
    int16_t slot; /* -1: none */
    uint8_t opcode;
};

struct verbs_ask {
    void *fetch; /* NULL: the value is not wanted */
    unsigned bytes;
};

/* invariant: done + VERBS_DEPTH >= made; the last n_batch of the made are not posted yet; answered + VERBS_CREDITS >=
 * asked; late_done + VERBS_CREDITS >= late_made, since the peer keeps to its credits. Completions come in order, and
 * only the last request of a post has one. */
struct verbs_queue {
    struct network_queue link;
    struct ibv_qp *qp;
    int pe, group;
    bool incoming; /* made for the peer's requests: posts answers only */
    bool ready;
    bool on_batched;
    uint32_t index; /* in verbs.queues */
    uint32_t inline_bytes;
    char peer_port[96]; /* for sentences: device and address of the other end */
    uint64_t made, done;
    uint64_t asked, answered;
    uint64_t asked_posted; /* of `asked`, those posted */
    uint64_t fenced;       /* requests made by the last fence: later ones must not join them */
    uint64_t unflushed;    /* address of the last write to device memory since the last flush, 0: none */
    uint32_t unflushed_key;
    bool reads_first;  /* the next request waits for the reads before it */
    bool fills_device; /* gets into device memory of this PE are under way, or not flushed yet */
    uint64_t unacked_serial; /* incoming: of the last message that has no answer yet */
    bool unacked;            /* incoming: there is such a message */
    uint64_t watched; /* done, when last looked at */
    unsigned stuck;   /* consecutive looks without progress, with requests under way */
    unsigned n_batch;
    unsigned in_flight; /* completions to come, as in struct verbs */
    struct verbs_queue *next_batched;
    struct ibv_send_wr batch[VERBS_BATCH];
    struct ibv_sge sges[VERBS_BATCH];
    struct verbs_message small[VERBS_BATCH]; /* inline data of the library, until posted */
    struct verbs_request requests[VERBS_DEPTH];
    uint64_t late_made, late_done; /* incoming: answers that had to wait for room, and how many of them were added */
    struct verbs_queue *next_late;
    union {
        struct verbs_ask asks[VERBS_CREDITS];
        struct verbs_message late[VERBS_CREDITS]; /* incoming */
    };
};

struct verbs_peer {
    bool staging;    /* a thread uses the stage at the peer */
    struct verbs_queue *in[NETWORK_GROUPS];
    struct ibv_mr *stage_mr; /* for the peer's access to device memory of this PE */
    char *stage;
};

/* wr_id: index of the queue and the number of requests made by then. */
#define VERBS_ID_BITS 48
#define VERBS_QUEUES_MAX ((uint32_t)1 << (64 - VERBS_ID_BITS))
#define VERBS_ID_MASK (((uint64_t)1 << VERBS_ID_BITS) - 1)

/* The one port that this PE uses, and how it is named. */
struct verbs_port {
    char device[64];
    uint8_t number;
    uint8_t gid_index;
    bool ethernet;
    bool global;   /* every address needs a GID */
    bool software; /* no bus behind it: the network takes CPU time of this host */
    uint8_t mtu;   /* enum ibv_mtu */
    uint16_t lid;
    uint32_t max_message, max_read; /* bytes of one request */
    uint8_t read_depth;             /* reads under way, as initiator and as target */
    union ibv_gid gid;
};

struct verbs {
    struct network net;
    struct verbs_library lib;
    struct verbs_port port;
    struct ibv_context *device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *events;
    struct ibv_cq *sent, *received; /* ours are done; others' have come */
    struct ibv_srq *srq;
    struct verbs_peer *peers; /* [n_pes] */
    struct verbs_queue **queues;
    uint32_t n_queues, max_queues;
    struct verbs_queue *batched;              /* with requests that are not posted yet */
    struct verbs_queue *late;                 /* with answers that wait for room */
    unsigned in_flight;                       /* completions to come, also of requests that are not posted yet */

    char *memory; /* receive buffers and slots, one registration */
    size_t memory_bytes;
    struct ibv_mr *memory_mr;
    char *slots;   /* in memory */
    char *scratch; /* in memory: 8 bytes for flushes, never read */
    int16_t free_slots[VERBS_SLOTS];
    int n_free_slots;

    struct verbs_reach reach;

    struct verbs_queue nowhere; /* to a peer that is lost and has no connection */
    struct ibv_qp no_qp;        /* of the queues of PEs that are gone */
    bool armed;                 /* an event will come for the next message */
    bool armed_sent;            /* and for the next completion */
    struct verbs_counts counts;
};

extern const struct network_port iso_verbs_port;

/* NULL: not connected. */
ISO_INLINE struct verbs_queue *iso_verbs_out(const struct verbs *v, int pe, int group)
{
    return (struct verbs_queue *)(void *)v->net.peers[pe].out[group];
}

/* ---- verbs_device.c ---- */

int iso_verbs_device_open(struct verbs *v); /* chooses and opens the port; 0 or -errno after a sentence */

int iso_verbs_memory_start(struct verbs *v); /* receive buffers, ring of copies */
void iso_verbs_memory_stop(struct verbs *v);
/* Registers memory outside segments for one operation. NULL: not possible. */
struct ibv_mr *iso_verbs_register_once(struct verbs *v, const void *addr, size_t len, bool written);
ISO_INLINE void iso_verbs_unregister(struct verbs *v, struct ibv_mr *mr)
{
    v->counts.system_calls++;
    v->lib.dereg_mr(mr);
}
/* These are of struct network_port. */
int iso_verbs_expose(const struct segment *segment, struct range range, void **mr);
void iso_verbs_conceal(struct network *n, void *mr);
int iso_verbs_make_key(int pe, const struct segment *segment, const void *addr, struct network_key *key);

/* Device memory. */
int iso_verbs_reach_start(struct verbs *v); /* reads SHMEM_DEVICE_RDMA; 0, or -errno after a sentence */
/* Registers by the best method. NULL: this range is staged. Ends the job if SHMEM_DEVICE_RDMA forbids that. */
struct ibv_mr *iso_verbs_register_device(struct verbs *v, struct gpu *gpu, struct range range);
size_t iso_verbs_reach_text(const struct verbs *v, char *text, size_t bytes); /* like snprintf */
/* Adds a request that reads back from device memory, if the queue has written to it. The next request waits for it.
 * Gives up the lock meanwhile. */
void iso_verbs_flush(struct verbs *v, struct verbs_queue *q);
/* Makes complete gets into device memory of this PE visible to its kernels. */
void iso_verbs_flush_own(struct verbs_queue *q);

/* ---- verbs.c ---- */

/* A request through the channel, and its answer. */
enum verbs_request_type { VERBS_CONNECT = 1 };
struct verbs_hello {
    uint32_t type;
    int32_t error; /* answer: -errno, 0 */
    uint32_t qpn, psn, group;
    uint16_t lid;
    uint8_t mtu, read_depth, ethernet, port, global;
    uint8_t gid[16];
    char device[32];
};
ISO_INLINE struct verbs_queue *iso_verbs_queue_to(struct verbs *v, const struct ctx *ctx, int pe)
{
    return (struct verbs_queue *)(void *)iso_network_queue_to(&v->net, ctx, pe);
}

/* ---- verbs_queue.c ---- */

/* The next request of the queue: room is there. `request` is what completion has to know. */
struct ibv_send_wr *iso_verbs_add(struct verbs *v, struct verbs_queue *q, const struct verbs_request *request);
/* Data of at most sizeof(struct verbs_message), copied: within the request where the device can, else by a slot. */
void iso_verbs_attach_small(struct verbs *v, struct verbs_queue *q, struct ibv_send_wr *wr, const void *data,
                            size_t len);
void iso_verbs_post(struct verbs *v, struct verbs_queue *q); /* all that is added */
void iso_verbs_post_all(struct verbs *v);
bool iso_verbs_small_needs_slot(const struct verbs_queue *q);
char *iso_verbs_slot(const struct verbs *v, int16_t slot);
int16_t iso_verbs_take_slot(struct verbs *v);
/* Loses the network by a request of the queue: what, between which ends, and why. */
ISO_COLD void iso_verbs_fail_request(struct verbs *v, const struct verbs_queue *q, const struct verbs_request *request,
                                     const char *why);
/* The job is broken and errors return: all that the queues have under way is over, without effect. */
void iso_verbs_drop_all(void);
void iso_verbs_drop_pe(int pe); /* of struct network_port */
ISO_INLINE void iso_verbs_lock(struct verbs *v) { iso_network_lock(&v->net); }
ISO_INLINE void iso_verbs_unlock(struct verbs *v) { iso_network_unlock(&v->net); }

int iso_verbs_receive_start(struct verbs *v); /* the shared receive queue, filled */

bool iso_verbs_poll(struct verbs *v); /* completions and messages that have come; true: there were some */
/* Waits until `requests` and `slots` can be had; gives up the lock meanwhile. */
void iso_verbs_make_room(struct verbs *v, struct verbs_queue *q, unsigned requests, int slots);
/* Until the first `made` requests, and `asked` messages, of the queue are done; gives up the lock meanwhile. */
void iso_verbs_wait(struct verbs *v, struct verbs_queue *q, uint64_t made, uint64_t asked, const char *what);

/* ---- verbs_message.c ---- */

/* Posts the message with the requests before it. The answer's value goes to `fetch` (message->bytes wide); NULL: it is
 * not wanted. */
void iso_verbs_send(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch);
/* The same, but waits while an earlier message has no answer yet, so that later messages can travel with this one.
 * iso_verbs_wait and iso_verbs_post end that. */
void iso_verbs_send_later(struct verbs *v, struct verbs_queue *q, struct verbs_message *message, void *fetch);
/* Bytes of device memory of the peer, through its stage: complete on return. `source` and `dest` are host memory. */
void iso_verbs_staged_put(struct verbs *v, struct verbs_queue *q, uint64_t remote, const char *source, size_t len);
void iso_verbs_staged_get(struct verbs *v, struct verbs_queue *q, uint64_t remote, char *dest, size_t len);

/* ---- verbs_ops.c ---- */

void iso_verbs_put(struct ctx *ctx, struct place to, const struct far_local *source);
void iso_verbs_get(struct ctx *ctx, struct place from, const struct far_local *dest);
uint64_t iso_verbs_amo(struct ctx *ctx, struct place at, struct amo op);
void iso_verbs_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch);
void iso_verbs_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op);
void iso_verbs_put_signal(struct ctx *ctx, const struct far_message *message, const struct far_local *source);
void iso_verbs_put_words(struct ctx *ctx, struct place to, const void *words, size_t len);
/* These are of struct network_port. */
void iso_verbs_fence(struct network_queue *queue);
void iso_verbs_begin_quiet(const struct ctx *ctx, struct network_queue *queue);
void iso_verbs_end_quiet(const struct ctx *ctx, struct network_queue *queue);

#endif
