/* SPDX-License-Identifier: MIT */
/* Other nodes by libfabric: the state of one PE, ISO->ofi, which exists only in a job that uses it. One endpoint (RDM)
 * serves all peers and contexts. Nothing is asked of a provider but reliable messages: puts, gets, atomics and signals
 * are messages with data, applied by the target's CPU, whole words at a time, and answered. Large gets go by RMA where
 * the provider has that with delivery completion. Large puts do, too: straight to their place where a device writes it,
 * else to a stage at the target, whose CPU copies on at a message, since software may write a part of a word first.
 * Device memory goes by RMA where a device drives the network and the provider takes such memory (FI_HMEM), else by
 * messages.
 * Nothing relies on the provider's order: messages of a queue (initiator, target, context group) have serial numbers
 * and are applied in their order; a message that must follow an RMA is sent at its completion. Signals, and words of
 * slots, are not answered one by one: nobody waits for that, unless a quiet does, which sends a flush.
 * Invariant: network.lock guards everything here, the endpoint included, so a provider may be of FI_THREAD_DOMAIN.
 * Included by ofi*.c only. */
#ifndef ISO_OFI_H
#define ISO_OFI_H

#include "../network/network.h"
#include "../network/range.h"
#include "../transport.h"
#include "ofi_library.h"

enum {
    OFI_JOIN_MIN = 4,       /* with so many messages of a queue under way, the next ones travel together */
    OFI_CREDITS = 64,       /* unanswered messages of one queue, and its RMAs under way: the bits of a window */
    OFI_DATA_BYTES = 8192,  /* at most, of one message */
    OFI_BULK_MIN = 32768,   /* from here on by RMA */
    OFI_PART_BYTES = 131072, /* of a stage: the bytes of one put to it */
    OFI_PARTS = 8,
    OFI_STAGE_BYTES = OFI_PARTS * OFI_PART_BYTES,
    OFI_OPS_MAX = 512,      /* operations of this PE under way; answers come on top */
    OFI_SLAB_OPS = 32,
    OFI_RECEIVES = 128,     /* messages that may wait to be read */
    OFI_POSTED_MAX = 1024,  /* operations that the provider may have at once */
    OFI_NAME_BYTES = 72,    /* address of an endpoint */
    OFI_PROVIDER_BYTES = 32,
    OFI_ENDS_BYTES = 400
};

#define OFI_COUNTS(X) \
    X(messages)       \
    X(joined)         \
    X(answers)        \
    X(writes)         \
    X(reads)          \
    X(completions)    \
    X(blocked)        \
    X(held)           \
    X(sleeps)         \
    X(registrations)  \
    X(strangers)
struct ofi_counts {
#define X(name) uint64_t name;
    OFI_COUNTS(X)
#undef X
};

/* OFI_AMO, OFI_PUT, OFI_COPY, OFI_FLUSH: no value is wanted, and one answer may serve several. A flush is there to be
 * answered; op 1: the target flushes what the network has written to its device. */
enum ofi_type { OFI_AMO = 1, OFI_FETCH, OFI_PUT, OFI_GET, OFI_COPY, OFI_FLUSH, OFI_ANSWER };
/* When the target answers. Later: with one for more messages, at the latest for half of a window, or at a flush. */
enum ofi_haste { OFI_NOW, OFI_LATER, OFI_NEVER_WANTED };
enum ofi_result { OFI_DONE, OFI_REFUSED };

/* `len` bytes of data follow in a put and in the answer to a get. Other messages of the sender may follow behind. */
struct ofi_message {
    uint8_t type, op, bytes, group; /* answer: op is an enum ofi_result */
    int32_t pe;                     /* the sender */
    uint64_t token;                 /* the receiver's: see struct ofi_hello */
    uint64_t serial;                /* answer: of the message; those before it that want no value are applied too */
    uint64_t addr;                  /* at the receiver; answer: of the message */
    uint64_t operand;               /* answer: the old value; copy: from here in the stage */
    uint64_t compare;               /* copy: bytes */
    uint32_t len; /* get: bytes that are wanted */
    uint16_t shared; /* answer: 1: to no message of its own, but to those up to `serial` that want no value */
    uint16_t haste;  /* others: an enum ofi_haste; OFI_NEVER_WANTED: later, and no quiet waits for it */
};

enum ofi_kind { OFI_SEND, OFI_WRITE, OFI_READ, OFI_RECEIVE };

/* What the provider has to do; its context comes first. */
struct ofi_op {
    struct fi_context2 context;
    enum ofi_kind kind;
    int pe;
    struct ofi_op *next; /* in a list of free ones, or of those that wait to be posted */
    char *buffer;        /* its own, for one message */
    struct fid_mr *buffer_mr;
    bool own;               /* not an answer */
    void *local;            /* the bytes to send, write or read into */
    size_t len;
    struct fid_mr *mr;      /* of local memory; NULL: the provider needs none */
    struct fid_mr *once;    /* the same, where it is for this operation only */
    uint64_t remote, key;   /* RMA */
    struct ofi_queue *q;    /* RMA */
    uint64_t number;        /* RMA: in q->moves; a message of q->first_held: the moves before it */
    struct ofi_op *then;    /* the message that follows its completion; NULL: none */
};

struct ofi_slab {
    struct ofi_slab *next;
    char *memory;
    size_t bytes;
    struct fid_mr *mr;
    struct ofi_op ops[OFI_SLAB_OPS];
};

/* Numbered operations that end in any order. invariant: made - done <= OFI_CREDITS; all below `done` have ended. */
struct ofi_window {
    uint64_t made, done;
    uint64_t ended; /* bit n & 63: number n, which is not below `done` */
};
ISO_INLINE void iso_ofi_window_end(struct ofi_window *w, uint64_t number)
{
    w->ended |= (uint64_t)1 << (number & 63);
    for (; w->done < w->made && (w->ended >> (w->done & 63) & 1) != 0; w->done++)
        w->ended &= ~((uint64_t)1 << (w->done & 63));
}

struct ofi_ask {
    void *into;   /* the old value, or the bytes of a get; NULL: not wanted */
    uint32_t len;
    bool plain;   /* may share an answer with others */
    bool now;     /* an answer is on its way without being asked for */
    int part;     /* of the stage, free then; -1: none */
    uint64_t addr;
};

struct ofi_queue {
    struct network_queue link;
    int pe, group;
    struct ofi_window asks;  /* messages, until they are answered */
    struct ofi_window moves; /* RMAs */
    uint64_t wanted;         /* asks that a quiet waits for */
    uint64_t prompt;         /* asks that are answered without a flush */
    unsigned due;            /* of those not answered: answers on their way */
    unsigned burst;          /* messages since poll number `burst_look` */
    uint64_t burst_look;
    unsigned hurry;          /* so many more signals are to be answered at once, since a quiet has waited for some */
    uint64_t fenced;         /* `wanted` at the last fence: an RMA waits for them */
    bool unflushed;          /* RMAs to device memory that must be flushed there */
    bool fills_device;       /* RMAs into device memory of this PE */
    uint64_t follow;        /* messages follow the first so many RMAs, see first_held */
    struct ofi_op *first_held, *last_held; /* messages that wait for RMAs */
    struct ofi_op *pack; /* messages that will travel together, from the next poll on; NULL: none */
    struct ofi_queue *next_packed;
    struct ofi_ask asked[OFI_CREDITS];
};

/* A message that came before its turn, or before the address of its sender, without which there is no answer. */
struct ofi_held {
    struct ofi_held *next;
    size_t len;
    char bytes[];
};

struct ofi_incoming {
    uint64_t expected; /* serial of the next message to apply */
    struct ofi_held *held;
    bool unacked; /* messages without an answer are applied; on the list below */
    unsigned later; /* messages since the last answer that could wait for it */
    int pe, group;
    struct ofi_incoming *next_unacked;
};

struct ofi_peer {
    bool known;          /* the address is there, and both tokens */
    bool heard;          /* a message of it has come */
    bool waits;          /* on the list of peers with operations that wait to be posted */
    fi_addr_t address;
    uint64_t token_in, token_out; /* that its messages must carry, and ours */
    uint64_t first_ns;            /* when the first operation was made; 0: not yet */
    struct ofi_op *first_op, *last_op;
    int next_waiting; /* PE, -1: none */
    struct network_key there; /* the stage at the peer for puts of this PE; end 0: not known yet */
    unsigned free_parts;  /* of it; bits */
    char *stage;          /* here, for the peer's */
    struct fid_mr *stage_mr;
    struct ofi_incoming *in; /* [NETWORK_GROUPS]; NULL: none has come */
};

struct ofi {
    struct network net;
    struct ofi_library lib;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cq *bell; /* NULL, or a second queue without completions, for its descriptor: see open_completions */
    int fd; /* of the completion queue, or of `bell`; -1: the provider has none */
    unsigned char name[OFI_NAME_BYTES];
    size_t name_len;
    bool bulk;        /* RMA with delivery completion is there */
    bool staged;      /* large puts go by the stage */
    bool local_keys;  /* FI_MR_LOCAL: local memory must be registered */
    bool virt_addr, prov_key, bind_endpoint;
    bool hmem;        /* FI_HMEM: memory of a GPU is registered as such */
    char device_why[160]; /* why device memory goes by messages (net.device_direct is false) */
    size_t data_max;  /* bytes of data in one message */
    size_t bulk_max;  /* of one RMA */
    unsigned depth;   /* operations that may be posted at once */

    struct ofi_peer *peers; /* [n_pes] */
    int first_waiting; /* PE with operations that wait to be posted, -1: none */
    struct ofi_incoming *unacked;
    struct ofi_queue *packed; /* queues with a pack */
    bool early; /* the address of a peer is there whose messages came before it */
    unsigned posted; /* completions to come, of other than receives */
    unsigned own;    /* operations of this PE, posted or not */
    uint64_t looks;  /* polls so far */

    struct ofi_slab *slabs;
    struct ofi_op *free_ops;
    struct ofi_op *unposted; /* receives */

    struct ofi_queue nowhere; /* to a peer that is lost and has no queue */
    uint64_t received;        /* messages of the provider that have come */
    uint64_t looked_events;   /* completions and `received` at the thread's last look */
    bool asleep;              /* the thread, until the completion queue's descriptor or `wake` says so */
    struct ofi_counts counts;
};

/* Through the channel; both ends of a pair tell each other theirs at once. The token is made by the receiver of later
 * messages: a stranger who connects to the endpoint does not know it. */
enum ofi_request_type { OFI_HELLO = 101, OFI_STAGE };
struct ofi_hello {
    uint32_t type;
    int32_t error; /* answer: -errno, 0 */
    uint64_t token;
    uint32_t format;
    uint16_t name_len, reserved;
    unsigned char name[OFI_NAME_BYTES];
    char provider[OFI_PROVIDER_BYTES];
};
extern const struct network_port iso_ofi_port;

/* ---- ofi_fabric.c ---- */

int iso_ofi_fabric_open(struct ofi *o); /* chooses provider and address, opens the endpoint; 0 or -errno likewise */
void iso_ofi_fabric_close(struct ofi *o); /* the endpoint first; memory is unregistered by then */
void iso_ofi_endpoint_close(struct ofi *o); /* behind the registrations that are bound to it */
void iso_ofi_unregister(struct ofi *o);     /* all */
/* "192.0.2.1:4711", or the bytes, of an endpoint's name; for sentences. */
const char *iso_ofi_name_text(const unsigned char *name, size_t len, uint32_t format, char *text, size_t bytes);

/* 0 or -errno. *mr stays NULL where the provider needs no registration of local memory on the host. */
enum ofi_memory { OFI_LOCAL, OFI_REMOTE, OFI_DEVICE }; /* the last two: peers reach it, too */
int iso_ofi_register(struct ofi *o, const void *addr, size_t len, enum ofi_memory memory, struct fid_mr **mr);

/* The registration of [addr, addr + *len) as local side of an RMA: that of its segment's region, else *once, made for
 * it. *len is cut where the region ends. NULL: none is needed, or it is not possible and all is lost. */
struct fid_mr *iso_ofi_local(struct ofi *o, const void *addr, size_t *len, struct fid_mr **once);
/* These are of struct network_port. */
int iso_ofi_expose(const struct segment *segment, struct range range, void **mr);
void iso_ofi_conceal(struct network *n, void *mr);
int iso_ofi_make_key(int pe, const struct segment *segment, const void *addr, struct network_key *key);
/* The stage at the peer, by its key; asks for it if need be, and gives up the lock meanwhile. */
struct network_key iso_ofi_stage_of(struct ofi *o, int pe);
int iso_ofi_answer_stage(struct ofi *o, int pe, struct network_key *key); /* 0 or -errno */
void iso_ofi_memory_stop(struct ofi *o); /* the endpoint is closed: peers may write to a stage until then */

/* ---- ofi.c ---- */

ISO_INLINE struct ofi_queue *iso_ofi_queue_to(struct ofi *o, const struct ctx *ctx, int pe)
{
    return (struct ofi_queue *)(void *)iso_network_queue_to(&o->net, ctx, pe);
}
/* The queues of the group, one after the other; NULL: the last one was before. */
ISO_INLINE struct ofi_queue *iso_ofi_first(const struct ofi *o, int group)
{
    return (struct ofi_queue *)(void *)o->net.groups[group];
}
ISO_INLINE struct ofi_queue *iso_ofi_next(const struct ofi_queue *q)
{
    return (struct ofi_queue *)(void *)q->link.next_in_group;
}

/* ---- ofi_queue.c ---- */

int iso_ofi_post_start(struct ofi *o); /* the receives */
void iso_ofi_post_stop(struct ofi *o);
struct ofi_op *iso_ofi_take(struct ofi *o, int pe, enum ofi_kind kind); /* one is free */
/* Posts it, after those of the same peer that wait. */
void iso_ofi_submit(struct ofi *o, struct ofi_op *op);
void iso_ofi_submit_pack(struct ofi *o, struct ofi_queue *q); /* the queue has one */
void iso_ofi_submit_packs(struct ofi *o);
void iso_ofi_drop_pe(int pe); /* of struct network_port */
void iso_ofi_drop_all(void); /* the job is broken: the endpoint closes, and nothing is under way any more */
ISO_INLINE void iso_ofi_lock(struct ofi *o) { iso_network_lock(&o->net); }
ISO_INLINE void iso_ofi_unlock(struct ofi *o) { iso_network_unlock(&o->net); }
/* Bytes behind the message that belong to it. */
ISO_INLINE size_t iso_ofi_data_of(const struct ofi_message *m)
{
    return m->type == OFI_PUT || m->type == OFI_ANSWER ? m->len : 0;
}

bool iso_ofi_poll(struct ofi *o); /* completions and messages that have come; true: there were some */
/* Waits for room for one more message, or RMA, of the queue, and for a free part of the stage, or until all is lost;
 * gives up the lock meanwhile. */
enum ofi_need { OFI_NEEDS_ASK = 1, OFI_NEEDS_MOVE = 2, OFI_NEEDS_PART = 4 };
void iso_ofi_make_room(struct ofi *o, struct ofi_queue *q, unsigned needs);
/* Until so many of the queue's messages and RMAs are done, or all is lost; gives up the lock meanwhile. The answers are
 * on their way: `asked` is at most q->prompt. */
void iso_ofi_wait(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what);
void iso_ofi_watch(struct ofi *o); /* ends the job if a peer could not be contacted for SHMEM_BOOT_TIMEOUT */

/* Sends the message with `data`, m->len bytes (a get: none). While several answers are on their way, or several messages
 * were sent since the last poll, one that wants no value goes with the next poll. The answer's value or bytes go to
 * `into`; NULL: not wanted. Gives up the lock until there is room. */
void iso_ofi_send(struct ofi *o, struct ofi_queue *q, struct ofi_message *m, const void *data, void *into);
/* As iso_ofi_wait, for messages that are answered later, too. */
void iso_ofi_settle(struct ofi *o, struct ofi_queue *q, uint64_t asked, uint64_t moved, const char *what);

/* ---- ofi_ops.c ---- */

void iso_ofi_put(struct ctx *ctx, struct place to, const struct far_local *source);
void iso_ofi_get(struct ctx *ctx, struct place from, const struct far_local *dest);
uint64_t iso_ofi_amo(struct ctx *ctx, struct place at, struct amo op);
void iso_ofi_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch);
void iso_ofi_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op);
void iso_ofi_put_signal(struct ctx *ctx, const struct far_message *message, const struct far_local *source);
void iso_ofi_put_words(struct ctx *ctx, struct place to, const void *words, size_t len);
/* These are of struct network_port. */
void iso_ofi_fence(struct network_queue *queue);
void iso_ofi_begin_quiet(const struct ctx *ctx, struct network_queue *queue);
void iso_ofi_end_quiet(const struct ctx *ctx, struct network_queue *queue);

bool iso_ofi_rest(uint64_t ns); /* of ofi.c, for a test */

#endif
