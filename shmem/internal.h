/* SPDX-License-Identifier: MIT */
/* What the files of shmem/ and coll/ share: the state of one PE, segments and their one table, teams, contexts, waits.
 * Invariant: every mutable word of the library hangs off struct state, so that PEs can be threads of one process.
 * Includes: the public headers, bootstrap/{log,env,boot}.h. Included by shmem/, coll/ and tests/unit. */
#ifndef ISO_INTERNAL_H
#define ISO_INTERNAL_H

#include "../bootstrap/boot.h"
#include "../bootstrap/env.h"
#include "../bootstrap/log.h"
#include "../include/shmem.h"
#include "../include/shmemx.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISO_LINE 64 /* bytes of a cache line */

#define ISO_LIKELY(x) __builtin_expect(!!(x), 1)
#define ISO_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ISO_INLINE static inline __attribute__((always_inline))
#define ISO_COLD __attribute__((cold, noinline))
#define ISO_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ISO_MAX(a, b) ((a) > (b) ? (a) : (b))

/* A public function shmem_NAME is defined as pshmem_NAME, with the declared name as its weak alias (profiling
 * interface, section 10). Write SHMEM_API(shmem_NAME, pshmem_NAME) in front of the definition of pshmem_NAME. */
#define SHMEM_API(name, pname)                                            \
    extern __typeof__(name) pname __attribute__((visibility("default"))); \
    extern __typeof__(name) name __attribute__((weak, alias(#pname), visibility("default")))

/* A thread of the library: the program's signals, and their handlers, are for its own. 0 or -errno (init.c). */
int iso_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* ---- errors (init.c) ---- */

/* "[pe 3] shmem_int_put: pe 9 is outside 0..7", then the whole job ends (in a forked child of a PE: the child alone).
 * `call` may begin with the p of pshmem_. */
_Noreturn ISO_COLD void iso_fatal(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the job with this status: tells peers, launcher, then exits. `sentence`: the cause, printed before; NULL: the
 * program wishes it (shmem_global_exit). */
_Noreturn ISO_COLD void iso_abort_job(int status, const char *sentence);
/* Another PE ends the job and has said why: leave with its status, without a word. */
_Noreturn ISO_COLD void iso_exit_quietly(int status);
/* "shmem_x" for "pshmem_x" and for "shmem_x". */
const char *iso_call_name(const char *call);

/* ---- segments (segment.c) ---- */

enum segment_kind { SEGMENT_HEAP, SEGMENT_DATA, SEGMENT_DEVICE, SEGMENT_BUFFER };

/* Where one PE's copy of a segment is, seen from here. The table that every operation looks into. */
struct segment_peer {
    char *cpu_ptr; /* loads and stores by this CPU; NULL: device memory, staged edge, another node, or never used so
                      far (heap and data; iso_segment_reach maps them). Atomic */
    char *gpu_ptr; /* loads and stores by this PE's GPU; NULL: not reachable by it */
    char *base;    /* its address in the owner's own address space */
    uint64_t key;  /* what the transport of that PE needs to address it */
};

/* invariant: limit <= len; peers[me].base == base; [base, base + len) of two segments never overlap. */
struct segment {
    _Alignas(ISO_LINE) char *base;
    size_t limit; /* bytes that objects may occupy now: [base, base + limit) is addressable */
    struct segment_peer *peers;
    size_t len;
    enum segment_kind kind;
    int fd;             /* memfd behind it, -1: none */
    bool staged;        /* partial page of a registered buffer: no pointers to it, puts and gets only */
    bool on_device;     /* device memory: of kind DEVICE, or a registered buffer of the GPU's own allocator */
    size_t first_bytes; /* buffers: the length given at registration, on the piece that begins it; else 0 */
    void *foreign;      /* device_buffer.c: what it has imported for this segment */
};

/* segment.c: heap [0], data [1] and device heap [2] always exist (limit 0 where unusable), then buffers. */
#define ISO_SEGMENTS_MAX 512
enum { SEGMENT_INDEX_HEAP = 0, SEGMENT_INDEX_DATA = 1, SEGMENT_INDEX_DEVICE = 2, SEGMENT_INDEX_FREE = 3 };

/* ---- the heap's offset allocator (alloc.c): no state but its own, never touches the memory it manages ---- */

struct alloc; /* alloc.h */

/* ---- peers (pe.c): the unix sockets between the PEs of one node ---- */

struct transport_ops;
struct node_file;
struct channel;
struct verbs;
struct device; /* device.h */

/* What a collective exchange between the PEs of a node carries (iso_pe_exchange). */
struct pe_offer {
    uint64_t base;
    uint64_t len;
    unsigned char key[64]; /* device memory: what the owner's device layer gave */
    int32_t extra;         /* the caller's own use */
    int fd;                /* -1: none */
};

struct peer {
    int pe;
    int node_number;                       /* 0..n_nodes-1, in the order of their lowest PEs */
    bool local;                            /* same node: reached by pointer */
    bool threaded;                         /* lives in this very process (test build) */
    bool left;                             /* is in shmem_finalize, behind its last barrier; atomic */
    uint32_t left_at;                      /* its last step of the world then, modulo 2^32 */
    int place;                             /* of local peers: their number on the node */
    int sock;                              /* -1: none; of a star around the lowest PE of the node */
    int pid;                               /* of local peers; 0: of another namespace */
    char *control;                         /* its control area, mapped here; NULL: not reached by pointer */
    const struct transport_ops *transport; /* for what pointers do not reach; never NULL after init */
    char host[64];
    char node[64];
};

/* ---- slots (slot.c): flags and staging of one ordered sequence of collectives ---- */

struct team;
struct slot_nodes;
struct slot {
    int index;       /* in the control area at the front of every PE's heap; -1: none (team of one PE) */
    int n_pes;       /* members */
    uint64_t seq;    /* steps done; a step's flag value; equal on all members between calls */
    uint64_t staged; /* staged steps done; its parity chooses the bank */
    char *memory;    /* this PE's part of the slot */
    char *central;   /* the leader's part; NULL: not all members reach each other by pointer (alike on all of them) */
    struct slot_nodes *nodes;                             /* slot.h; NULL: one node (alike on all of them) */
    struct slot_view *views;                              /* [n_pes of the team], slot.h */
    void (*barrier)(struct team *team, const char *call); /* the algorithm in force, chosen by the first barrier */
};

/* ---- teams (team.c) ---- */

struct team {
    shmem_team_t handle;
    int my_pe; /* -1 never: a PE has only teams that it belongs to */
    int n_pes;
    int start, stride; /* world_of[i] == start + i * stride, or stride == 0 && n_pes > 1: irregular (SHARED) */
    int *world_of;     /* [n_pes] */
    shmem_team_config_t config;
    struct slot slot;
    uint64_t splits;   /* splits of this team so far; part of the key of a new slot */
    int contexts_made; /* live contexts of this team, to destroy with it */
};

/* ---- contexts (ctx.c) ---- */

struct ctx {
    shmem_ctx_t handle;
    long options;
    struct team *team; /* PE arguments count in it */
    const int *world_of;
    int n_pes;
    bool remote_dirty; /* a transport may have work of this context outstanding; see iso_ctx_is_dirty */
    bool in_session;
    bool of_proxy; /* local memory is symmetric, or the host's */
    void *transport_priv;
};

/* ---- waiting (wait.c) ---- */

#define ISO_WAIT_RECORDS 8
#define ISO_WAIT_OF_KERNEL ISO_WAIT_RECORDS /* one more record: the last report of a kernel's wait */

enum wait_kind { WAIT_WORD, WAIT_LOCK, WAIT_STREAM, WAIT_KERNEL };

/* One wait, published for all PEs to read when it lasts. In the control area; writer: the waiting thread, relaxed
 * stores; readers: reports of any PE, relaxed loads (a torn report is acceptable, it is for people). */
struct wait_record {
    _Alignas(ISO_LINE) uint64_t since_ns; /* 0: free. CLOCK_MONOTONIC, comparable on one node */
    uint64_t addr;
    uint64_t expected;
    uint64_t seen;
    uint64_t cmp;       /* SHMEM_CMP_ of seen with expected, 0: none that the user gave */
    uint64_t is_signed; /* expected and seen are int64_t */
    int64_t peer;       /* world PE waited for, -1: any */
    uint64_t kind;      /* enum wait_kind; LOCK: addr is the lock; STREAM: the stream, 0: all */
    uint64_t first, stride, size; /* collectives: their team, stride 0: irregular; size 0: no collective */
    uint64_t call[5];             /* the name, zero padded */
};

/* Of the node's lowest PE: which report is under way or was the last. Claimed by compare-and-swap, since any PE of the
 * node may be the first whose deadline passes. CLOCK_MONOTONIC; done_ns: when the last complete one began. */
struct report_claim {
    _Alignas(ISO_LINE) uint64_t begun_ns;
    uint64_t done_ns;
};

/* On the stack of the waiting thread: struct wait w = ISO_WAIT(call, peer, addr, expected);
 * while (!(condition)) iso_wait_pause(&w, seen); iso_wait_end(&w); */
struct wait {
    const char *call;
    const void *addr;
    uint64_t expected;
    int cmp;        /* as in the record */
    bool is_signed; /* likewise */
    int peer;
    enum wait_kind kind;
    int record;              /* index published, -1: none */
    const struct slot *slot; /* of the collective that waits; NULL: none */
    unsigned polls;
    unsigned yields;
    uint64_t since_ns;   /* 0: has not looked at the clock yet */
    uint64_t shown_ns;   /* its record was published first; 0: not yet */
    uint64_t checked_ns; /* last look at the peers' sockets */
    uint64_t busy_ns;    /* when a look found that something has come from another node, at first: since_ns */
    bool worked;         /* it has, since then */
    bool sleeping;
    bool reported;
    int missing; /* 1 + the PE that had left, and that it needs, when it last looked; 0: none */
};
#define ISO_WAIT(call_, peer_, addr_, expected_)                                                 \
    {                                                                                            \
        .call = (call_), .addr = (addr_), .expected = (expected_), .peer = (peer_), .record = -1 \
    }

/* ---- the control area: at the front of every PE's heap segment, before its first object ---- */

struct control {
    struct wait_record waits[ISO_WAIT_RECORDS + 1];
    struct report_claim claim;
    uint64_t exited; /* not 0: the program ended with status 0 before shmem_finalize; relaxed, it is for people */
    char slots[];    /* slot.c lays it out, page aligned */
};

/* ---- the state of one PE ---- */

/* CHILD: a process forked by a PE, with no part in its job; whatever it calls ends this process and nothing else. */
enum life { LIFE_BEFORE, LIFE_RUNNING, LIFE_ENDING, LIFE_AFTER, LIFE_CHILD };

struct state {
    /* hot: read by every call */
    enum life life;
    int my_pe;
    int n_pes;
    unsigned spin; /* polls of a wait before it yields the core: 0 when PEs outnumber cores */
    bool careful;  /* SHMEM_DEBUG, or a device runs: a local argument may be what the CPU cannot load */
    struct segment *segments;
    int n_segments;
    struct ctx ctx_default;

    /* teams and contexts: [index of handle], NULL where free */
    struct team **teams;
    int n_teams;
    struct ctx **ctxs;
    int n_ctxs;
    struct team world, shared;
    pthread_mutex_t tables_lock; /* teams, ctxs */

    struct peer *peers; /* [n_pes] */
    int *local_pes;     /* [n_local], ascending, this PE among them */
    int n_local;
    int my_local;
    bool oversubscribed; /* more local PEs than cores that they may use */
    bool soft_network;   /* other nodes are reached by a device made of software, which needs the cores too */
    int *node_first;     /* [n_nodes] lowest PE of each node, ascending */
    int n_nodes;
    struct channel *channel; /* transport/channel.c; NULL: all PEs are on one node */
    struct verbs *verbs;     /* transport/verbs.c; NULL likewise */

    struct device *device;   /* device.h; NULL before shmemx_device_init */
    uint64_t *ring_used;     /* atomic; to a word that is 1 once a kernel has posted to a ring; NULL: no device runs */
    struct control *control; /* this PE's */
    size_t control_bytes;
    size_t slot_bytes;
    struct alloc *alloc;
    void *active_sets;  /* coll: implicit teams by (start, stride, size) */
    void *select;       /* coll: the algorithm table in force */
    unsigned wait_used; /* bit i: waits[i] is taken; atomic */

    int listener; /* unix socket, -1: none */
    struct node_file *node;     /* node_file.h; NULL: alone on its node */
    size_t node_bytes;          /* mapped */
    int node_fd;                /* -1: none */
    bool node_joined;           /* the others know this PE, and see its death */
    uint32_t node_left;         /* PEs of the node known to have left */
    pthread_mutex_t maps_lock;  /* first uses of peers' segments */
    int thread_level;
    int init_count;   /* shmem_init minus shmem_finalize */
    uint32_t left_at; /* the world's last step, for the good-bye */
    bool aborting;
    int parent_pid; /* the launcher's process on this host; 0: none that would have to live */
    bool leaving;   /* by shmem_global_exit */
    int leave_status;
    struct env env;
    struct boot boot;
    const char *data_refusal; /* why global variables are not symmetric; NULL: they are */
};

#ifdef ISO_PES_AS_THREADS
struct state *iso_state_of_thread(void) __attribute__((const));
#define ISO iso_state_of_thread()
/* A thread that belongs to a PE which another thread started. */
void iso_state_adopt(struct state *state);
#else
extern struct state iso_state __attribute__((visibility("hidden"))); /* no detour over the GOT */
#define ISO (&iso_state)
#endif

/* ---- checks and look-ups: the hot path ---- */

#ifndef ISO_CHECKS
#define ISO_CHECKS 1 /* -DISO_CHECKS=0 compiles argument checks out */
#endif

_Noreturn ISO_COLD void iso_fatal_life(const char *call);                    /* before init, after finalize */
_Noreturn ISO_COLD void iso_fatal_pe(const char *call, int pe, int n_pes);   /* PE out of range */
_Noreturn ISO_COLD void iso_fatal_ctx(const char *call, shmem_ctx_t ctx);    /* invalid context */
_Noreturn ISO_COLD void iso_fatal_team(const char *call, shmem_team_t team); /* invalid team */
/* Not symmetric, null, past the segment: says which; `arg` names the argument ("dest"). */
_Noreturn ISO_COLD void iso_fatal_address(const char *call, const char *arg, const void *addr, size_t len);
_Noreturn ISO_COLD void iso_fatal_aligned(const char *call, const char *arg, const void *addr, size_t bytes);
/* SHMEM_DEBUG: the range must lie in one live object of the heap. */
ISO_COLD void iso_debug_object(const char *call, const char *arg, const void *addr, size_t len);

/* Any call but the few that work before init. */
ISO_INLINE void iso_check_life(const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY(ISO->life != LIFE_RUNNING))
        iso_fatal_life(call);
}

/* The context behind a handle, SHMEM_CTX_DEFAULT without a table look-up. */
ISO_COLD struct ctx *iso_ctx_find(shmem_ctx_t handle, const char *call);
ISO_INLINE struct ctx *iso_ctx(shmem_ctx_t handle, const char *call)
{
    if (ISO_LIKELY(handle == SHMEM_CTX_DEFAULT))
        return &ISO->ctx_default;
    return iso_ctx_find(handle, call);
}

struct team *iso_team(shmem_team_t handle, const char *call); /* fatal when invalid */
struct team *iso_team_or_null(shmem_team_t handle);           /* NULL when invalid */

/* World PE of `pe` in the context's team; ends the job when out of range (also before init: n_pes is 0 then). */
ISO_INLINE int iso_world_pe(const struct ctx *ctx, int pe, const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY((unsigned)pe >= (unsigned)ctx->n_pes))
        iso_fatal_pe(call, pe, ctx->n_pes);
    return ctx == &ISO->ctx_default ? pe : ctx->world_of[pe];
}

struct segment *iso_segment_search(const void *addr, size_t len); /* segments after the first two; NULL: none */

/* The segment that holds [addr, addr + len) of this PE, or NULL. Heap or data segment is chosen without a branch, so
 * that global variables cost what heap objects cost. */
ISO_INLINE struct segment *iso_segment_of(const void *addr, size_t len)
{
    struct segment *s = ISO->segments;
    const struct segment *data = &s[SEGMENT_INDEX_DATA];
    s += (size_t)((const char *)addr - data->base) < data->limit;
    /* Relaxed: another thread of this PE may be in shmem_malloc; it passes its object on by its own means. */
    size_t offset = (size_t)((const char *)addr - s->base), limit = __atomic_load_n(&s->limit, __ATOMIC_RELAXED);
    if (ISO_LIKELY(offset < limit && len <= limit - offset))
        return s;
    return iso_segment_search(addr, len);
}

/* Where [addr, addr + len) of world PE `pe` lies: cpu != NULL: use it directly; else go by `iso_far_*`. */
struct place {
    char *cpu;
    struct segment *segment; /* NULL: the range spans pieces of one registered buffer */
    size_t offset;
    int pe;
};

/* Where this CPU loads and stores the copy of world PE `pe`; maps it if this is the first use. NULL: not by pointer. */
ISO_COLD char *iso_segment_reach(const struct segment *segment, int pe);
/* The same for reports: NULL also where it cannot be mapped. */
ISO_COLD char *iso_segment_look(const struct segment *segment, int pe);

ISO_COLD struct place iso_place_slow(const void *addr, size_t len, int pe, const char *call, const char *arg);

ISO_INLINE struct place iso_place(const void *addr, size_t len, int pe, const char *call, const char *arg)
{
    struct state *self = ISO;
    struct segment *s = ISO_UNLIKELY(self->life != LIFE_RUNNING) ? NULL : iso_segment_of(addr, len);
    if (ISO_UNLIKELY(s == NULL) || ISO_UNLIKELY(self->env.debug))
        return iso_place_slow(addr, len, pe, call, arg);
    struct place place = {NULL, s, (size_t)((const char *)addr - s->base), pe};
    char *cpu = __atomic_load_n(&s->peers[pe].cpu_ptr, __ATOMIC_RELAXED);
    if (ISO_LIKELY(cpu != NULL) || (cpu = iso_segment_reach(s, pe)) != NULL)
        place.cpu = cpu + place.offset;
    return place;
}

/* A word there is for the device to read, not for this CPU. */
ISO_INLINE bool iso_place_is_device(const struct place *place)
{
    return ISO_UNLIKELY(place->cpu == NULL) && place->segment != NULL && place->segment->on_device;
}

/* Local memory that a call writes its answer to. */
ISO_INLINE void iso_check_out(const char *call, const char *arg, const void *out)
{
    if (ISO_CHECKS && ISO_UNLIKELY(out == NULL))
        iso_fatal(call, "%s is a null pointer", arg);
}

/* Naturally aligned objects of 1, 2, 4, 8 bytes for atomics. */
ISO_INLINE void iso_check_aligned(const char *call, const char *arg, const void *addr, size_t bytes)
{
    if (ISO_CHECKS && ISO_UNLIKELY(((uintptr_t)addr & (bytes - 1)) != 0))
        iso_fatal_aligned(call, arg, addr, bytes);
}

/* ---- what pointers do not reach (transport/transport.c): device memory, staged edges, remote PEs ---- */

enum amo_op { AMO_FETCH, AMO_SET, AMO_SWAP, AMO_CSWAP, AMO_ADD, AMO_AND, AMO_OR, AMO_XOR };

struct amo {
    enum amo_op op;
    unsigned bytes; /* 4 or 8 */
    uint64_t operand;
    uint64_t compare;
    bool fetches; /* the old value is wanted */
};

/* Blocking: the source may be reused on return; delivery by fence and quiet of `ctx`. len > 0.
 * `place` as iso_place gave it (place.segment == NULL: split at the pieces of the buffer). */
void iso_far_put(struct ctx *ctx, struct place to, const void *dest, const void *source, size_t len, const char *call);
void iso_far_get(struct ctx *ctx, void *dest, struct place from, const void *source, size_t len, const char *call);
/* The old value, when op.fetches. */
uint64_t iso_far_amo(struct ctx *ctx, struct place at, struct amo op, const char *call);
/* An 8-byte write (or add) at `at` after all earlier far puts of ctx to the same PE. */
void iso_far_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op, const char *call);
/* Whole words of 1, 2, 4 or 8 bytes, aligned: what p and g, waits and tests need of device memory. */
uint64_t iso_far_load(struct ctx *ctx, struct place at, unsigned bytes, const char *call);
void iso_far_store(struct ctx *ctx, struct place at, uint64_t value, unsigned bytes, const char *call);
/* Is this local argument symmetric device memory? Then iso_far_put and _get move it, whatever the other side is. */
ISO_COLD bool iso_far_is_local_slow(const void *addr);
ISO_INLINE bool iso_far_is_local(const void *addr) { return ISO_UNLIKELY(ISO->careful) && iso_far_is_local_slow(addr); }
/* The source, or dest, is busy until quiet (or until a later blocking put, or get, of ctx with the same PE). */
void iso_far_put_nbi(struct ctx *ctx, struct place to, const void *dest, const void *source, size_t len,
                     const char *call);
void iso_far_get_nbi(struct ctx *ctx, void *dest, struct place from, const void *source, size_t len, const char *call);
/* fetch: host memory of op.bytes, written by quiet at the latest. */
void iso_far_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch, const char *call);
/* Data, then its signal; neither place has a CPU pointer. */
struct far_message {
    struct place to, at;
    const void *dest, *source;
    size_t len; /* > 0 */
    uint64_t signal;
    int sig_op;
    bool nbi;
    const char *call;
};
void iso_far_put_signal(struct ctx *ctx, const struct far_message *message);
/* n words of 8 bytes to host memory, each of which arrives whole, in any order among themselves and after all earlier
 * far puts of ctx to the same PE. They may be reused on return. */
void iso_far_put_words(struct ctx *ctx, struct place to, const uint64_t *words, size_t n, const char *call);
void iso_far_fence(struct ctx *ctx);
void iso_far_quiet(struct ctx *ctx);
void iso_far_pe_quiet(struct ctx *ctx, int pe); /* towards one PE of the world */
/* By waits, which may be for what this PE itself has under way. True: something came or was completed. */
bool iso_transport_progress(void);
/* Sleeps for so long, or until something comes from another node: by waits that have lasted. */
void iso_transport_rest(uint64_t ns);

/* ---- order.c ---- */

/* Set before an operation of a transport; relaxed, since it tells a thread of its own operations. A quiet ends it, but
 * not for a context that threads share: what another of them has begun meanwhile would be hidden from its own quiet. */
ISO_INLINE bool iso_ctx_is_dirty(const struct ctx *ctx)
{
    return __atomic_load_n(&ctx->remote_dirty, __ATOMIC_RELAXED);
}
ISO_INLINE void iso_ctx_mark_dirty(struct ctx *ctx)
{
    if (!iso_ctx_is_dirty(ctx))
        __atomic_store_n(&ctx->remote_dirty, true, __ATOMIC_RELAXED);
}
ISO_INLINE void iso_ctx_clean(struct ctx *ctx)
{
    bool shared =
        ISO->thread_level == SHMEM_THREAD_MULTIPLE && (ctx->options & (SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED)) == 0;
    if (!shared)
        __atomic_store_n(&ctx->remote_dirty, false, __ATOMIC_RELAXED);
}

/* Stores before it are seen before stores after it, by whoever acquires the later ones (wait_until, test, fetch).
 * glibc's memcpy ends its non-temporal copies with sfence, so a release fence is enough on x86. */
ISO_INLINE void iso_fence(struct ctx *ctx)
{
#ifndef __SANITIZE_THREAD__ /* TSan does not model fences; there every flag is itself a release store */
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
    if (ISO_UNLIKELY(iso_ctx_is_dirty(ctx)))
        iso_far_fence(ctx);
}

/* All earlier operations of ctx are complete and visible, also before this PE's later loads: a full fence. */
ISO_INLINE void iso_quiet(struct ctx *ctx)
{
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    if (ISO_UNLIKELY(iso_ctx_is_dirty(ctx)))
        iso_far_quiet(ctx);
}
/* Waits until the proxy has completed what kernels of this PE have posted to their rings so far. Only kernels that have
 * ended are covered: their entries are visible here since the host knows of their end. proxy.c */
ISO_COLD void iso_proxy_drain(const char *call);
ISO_INLINE void iso_drain_rings(const char *call)
{
    const uint64_t *used = __atomic_load_n(&ISO->ring_used, __ATOMIC_ACQUIRE); /* pairs with iso_proxy_start */
    if (ISO_UNLIKELY(used != NULL) && __atomic_load_n(used, __ATOMIC_RELAXED) != 0)
        iso_proxy_drain(call);
}
/* The rings of kernels, and every context of this PE that is not private to another thread: allocation, finalize. */
void iso_quiet_all(const char *call);

/* ---- wait.c ---- */

ISO_INLINE void iso_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}
void iso_wait_slow(struct wait *wait, uint64_t seen);
void iso_wait_finish(struct wait *wait);

/* One poll has failed: `seen` is what it saw (for the report). Spins, then yields, then sleeps; makes progress;
 * notices dead peers; reports at the deadline. */
ISO_INLINE void iso_wait_pause(struct wait *wait, uint64_t seen)
{
    if (++wait->polls < ISO->spin)
        iso_cpu_relax();
    else
        iso_wait_slow(wait, seen);
}
ISO_INLINE void iso_wait_end(struct wait *wait)
{
    if (ISO_UNLIKELY(wait->since_ns != 0))
        iso_wait_finish(wait);
}
uint64_t iso_wait_now_ns(void);
/* A test has failed, which is a poll of a loop in the program: it makes progress as a wait does, since the answer may
 * depend on what this PE has under way, and with more PEs than cores it leaves the core to the PE that it tests for. */
void iso_wait_polled(void);
/* Publishes a wait that is not polled: the library is inside a call of the device's. Ended by iso_wait_end. */
void iso_wait_show(struct wait *wait);
/* The last wait of a kernel of this PE that passed SHMEM_TIMEOUT; call NULL: it has ended. */
void iso_wait_show_kernel(const char *call, int pe, uint64_t addr, uint64_t waited_ns);

/* ---- report.c ---- */

/* The deadline of `wait` has passed: prints one report for the node, unless a complete one covers this wait (then
 * wait->reported is set too) or another PE is printing one (then it is to be called again). */
void iso_report_wait(struct wait *wait, uint64_t now);
/* This PE of the node has ended its program with status 0 and without shmem_finalize. */
bool iso_report_has_exited(int pe);

/* ---- lock.c ---- */

/* The PE that holds the lock at this offset, as far as loads show it; -1: not known. For people: it may change. */
int iso_lock_holder(const struct segment *segment, size_t offset);

/* ---- alloc.c and memory.c ---- */

/* The first object of the heap lies behind the control area, at this offset of the heap segment. */
ISO_INLINE size_t iso_memory_heap_start(void)
{
    const size_t huge = (size_t)2 << 20;
    return (ISO->control_bytes + huge - 1) & ~(huge - 1);
}
int iso_memory_start(void); /* makes ISO->alloc over the heap behind the control area */
void iso_memory_stop(void);

/* ---- segment.c ---- */

int iso_segment_start(size_t heap_bytes); /* heap and data segment of this PE; peers' pointers come by pe.c */
void iso_segment_stop(void);
void iso_segment_set_peer(struct segment *segment, int pe, char *base); /* where it is for its owner */
int iso_segment_map(const struct segment *segment, int pe, int fd);     /* takes fd. 0, or -errno after a sentence */
/* Collective over the world: where PEs of other nodes have what lies at `base` here, whole in one segment or in the
 * pieces of a buffer. Nothing at all on one node. 0 or -errno after a sentence (another PE's `len` differs). */
int iso_segment_tell_nodes(char *base, size_t len, const char *call);
const char *iso_segment_kind_name(enum segment_kind kind);
/* The build id of the program (up to 20 bytes, zero padded) and the size of its data segment: equal on all PEs. */
void iso_segment_identity(unsigned char build_id[20], size_t *data_bytes);

/* ---- buffer.c: user buffers as segments ---- */

void iso_buffer_stop(void);                      /* gives back what was never unregistered */
void iso_buffer_forget(struct segment *segment); /* closes what it maps, takes it out of the table */

/* ---- info.c, variables.c ---- */

void iso_info_print_at_start(void); /* SHMEM_VERSION, SHMEM_INFO; PE 0 */
void iso_variables_warn(void);      /* of names that are not known; PE 0 */
/* What the doctor says about environment variables; reads them into env, all zero when one is wrong. */
void iso_variables_examine(struct env *env, void (*find)(void *doctor, int severity, const char *sentence),
                           void *doctor);

/* ---- pe.c ---- */

int iso_pe_start(void); /* allgather, node map, handshake; fills ISO->peers and the peers of the two first segments */
void iso_pe_part(void); /* after the last barrier: nothing is under way to or from another node any more */
void iso_pe_stop(void); /* good-bye to all */
ISO_INLINE int iso_pe_my_node(void) { return ISO->peers[ISO->my_pe].node_number; }
/* Reads what peers have said and notices the dead: ends the job when one died (in whose wait: `wait`, may be NULL). */
void iso_pe_poll(const struct wait *wait);
/* Peer `pe` has said that it left, with its last step of the world. */
void iso_pe_take_left(int pe, uint32_t left_at);
void iso_pe_tell_exit(int status); /* local peers end with this status at their next wait, or by SIGTERM soon */
/* Last resort of an abort without a launcher: SIGTERM for local peers that are still there after a grace. */
void iso_pe_end_stragglers(void);
/* Collective over local peers: gives {base, len, fd} to all, gets theirs; by local index. */
int iso_pe_exchange(const struct pe_offer *mine, struct pe_offer *theirs, const char *call);

/* ---- slot.c, barrier.c ---- */

size_t iso_slot_control_bytes(int n_pes); /* size of the control area, page aligned; sets ISO->slot_bytes */
/* Identifies a new sequence of collectives: equal on all members, different from all others that are alive. */
struct slot_key {
    int32_t start, stride, size; /* of the team */
    int32_t parent;              /* slot index of the parent team, -1: active set, -2: world and shared */
    uint64_t split;              /* number of the split in the parent */
};
/* Collective over the members. Index 0 is the world's, 1 SHARED's: no agreement needed (key.parent == -2).
 * -ENOSPC: no slot is free on all members (a sentence was logged). */
int iso_slot_open(struct slot *slot, struct slot_key key, const int *world_of, int n_pes, int my_pe);
void iso_slot_close(struct slot *slot, const int *world_of, int n_pes, int my_pe);
/* All members have arrived. No quiet. */
void iso_barrier_sync(struct team *team, const char *call);
/* select.c: one of the algorithms of barrier.c. */
void (*iso_coll_choose_barrier(struct team *team))(struct team *team, const char *call);

/* ---- team.c, ctx.c, coll/ ---- */

int iso_team_start(void); /* world and shared */
void iso_team_stop(void);
int iso_ctx_start(void);
void iso_ctx_stop(void);
void iso_ctx_destroy_of_team(struct team *team);
int iso_coll_start(void); /* selection table */
void iso_coll_stop(void); /* active sets */
/* 0, or -errno after a sentence: what the variables about collectives say. */
int iso_coll_check(const struct env *env);
/* SHMEM_DEBUG: all members call the same operation with the same sizes and root, else the job ends. No-op otherwise. */
struct coll_args {
    const char *call;
    uint64_t bytes;
    int root;
};
void iso_coll_debug_match(struct team *team, struct coll_args args);
/* Likewise for one more argument, by its name. */
void iso_coll_debug_same(struct team *team, const char *call, const char *what, int64_t value);
/* The smallest of the members' values, on every member. Collective, small, for agreement on success. */
uint64_t iso_coll_all_min(struct team *team, uint64_t mine, const char *call);
/* Member i's `bytes` (at most 56) at all + i * bytes, on every member. Nobody has it before all have called. */
void iso_coll_all_gather(struct team *team, const void *mine, size_t bytes, void *all, const char *call);
size_t iso_coll_table_text(char *text, size_t bytes); /* printable selection table, like snprintf */
/* Collectives on streams: their table, likewise; what is made when the device starts, since a call would wait for
 * kernels that run (0, or -errno after a sentence); and what they keep goes with a team, and with the device. */
size_t iso_coll_streams_text(char *text, size_t bytes);
struct device;
int iso_coll_streams_start(struct device *device);
void iso_coll_streams_forget_team(const struct team *team);
void iso_coll_streams_reset(const struct team *team, int slot); /* slot memory is as new, on all members */
/* Streams that wait without a kernel: past the deadline a record; *abort not 0: their end. By the proxy. */
void iso_coll_streams_watch(const uint64_t *abort);
void iso_coll_streams_stop(struct device *device);
void iso_coll_streams_forget(void); /* tables and all slots: the next call begins anew */

#endif
