/* SPDX-License-Identifier: MIT */
/* The state of one PE. Every mutable word of the library hangs off it, so that PEs can be threads of one process. */
#ifndef ISO_PE_STATE_H
#define ISO_PE_STATE_H

#include "base.h"
#include "../team/ctx.h"
#include "error.h"

#include <pthread.h>

struct agent;
struct alloc;
struct boot;
struct channel;
struct collectives;
struct control;
struct device;
struct env;
struct node_file;
struct peer;
struct profile;
struct segment;
struct slot;
struct ofi;
struct team;
struct team_table;
struct verbs;

/* What of the host's memory shmemx_suspend has lent back: nothing; the slots' stages; objects that are not kept, too. */
enum lent { LENT_NOTHING, LENT_STAGES, LENT_OBJECTS };

/* CHILD: a process forked by a PE, with no part in its job; whatever it calls ends this process and nothing else. */
enum life { LIFE_BEFORE, LIFE_RUNNING, LIFE_ENDING, LIFE_AFTER, LIFE_CHILD };

/* What a room of shmem/ calls of the rooms above it (tests/includes has their order). A part sets its hooks when it
 * starts; NULL before. They stay callable after it has stopped. A put, a get and a wait that spins use no hook. */
struct hooks_above {
    /* For waits past their spinning, by transport.c: iso_transport_progress and iso_transport_rest. Set by pe.c. */
    bool (*progress)(void);
    bool (*rest)(uint64_t ns);
    int (*lock_holder)(const struct segment *segment, size_t offset); /* for reports: iso_lock_holder. Set by pe.c */
    int (*give_up_team)(const struct slot *slot, const char *call); /* for waits: iso_slot_give_up. Set by pe.c */
    void (*hear_team_end)(int index, const void *end); /* for channel.c: iso_slot_hear_end. Set by pe.c */
    void (*drain_rings)(const char *call); /* for fence and quiet, when a kernel has used a ring. Set by proxy.c */
    /* For teams, once a device has run. Set by handle.c. finish: before the team is destroyed, collective over it; no
     * kernel of any member uses its memory when it returns. Of a broken team: its end is known, and no member waits.
     * forget: when it is destroyed. tell_kernels: slot.timeout_ns or masks_deaths has changed, or it was broken. */
    void (*finish_team)(struct team *team, const char *call);
    bool (*team_has_handles)(const struct team *team);
    void (*forget_team)(struct team *team);
    void (*tell_kernels)(const struct team *team);
};

struct state {
    /* hot: read by every call */
    enum life life;
    int my_pe;
    int n_pes;
    unsigned spin_most;  /* polls of a wait before it yields the core: 0 when PEs outnumber cores */
    unsigned spin;       /* now: fewer where waits take turns on a core. Relaxed, as is the next one */
    unsigned spin_alone; /* the first of these; the others look at the network, too, where that needs calls of a PE */
    bool odd_words;  /* debug, or calls are counted: the fast half of calls whose other side is a value is left */
    bool odd_memory; /* careful, or calls are counted: likewise of those whose other side is local memory */
    bool debug;      /* SHMEM_DEBUG */
    bool careful;    /* SHMEM_DEBUG, or a device runs: a local argument may be what the CPU cannot load */
    struct segment *segments;
    int n_segments;
    struct ctx ctx_default;
    struct ctx ctx_words; /* of slots: in order with what ctx_default sends; a quiet of that need not wait for them */

    struct team_table *teams; /* team/team.c */
    struct ctx **ctxs;        /* [index of handle], NULL where free */
    int n_ctxs, free_ctx;     /* places in use so far; the last one that is free again, 0: none */
    struct team *world, *shared; /* NULL before the first start */
    pthread_mutex_t tables_lock; /* teams, ctxs */
    pthread_mutex_t slots_lock;  /* grants and requests of slot.c: reading keys */

    const char *host;   /* the launcher's name of this one */
    struct peer *peers; /* [n_pes] */
    int *local_pes;     /* [n_local], ascending, this PE among them */
    int n_local;
    int my_local;
    bool oversubscribed; /* more local PEs than cores that they may use */
    bool prefers_ofi;    /* not all hosts of the job have an RDMA port, and SHMEM_TRANSPORT is empty */
    bool soft_network;   /* other nodes are reached by a device made of software, which needs the cores too */
    int *node_first;     /* [n_nodes] lowest PE of each node, ascending */
    int n_nodes;
    struct channel *channel; /* transport/channel.c; NULL: all PEs are on one node */
    struct ofi *ofi;         /* transport/ofi/ofi.c; NULL likewise */
    struct verbs *verbs;     /* transport/verbs.c; NULL likewise */

    struct device *device;   /* device.h; NULL before shmemx_device_init */
    struct agent *agent;     /* transport/device_agent.c; NULL: no device runs */
    uint64_t *ring_used;     /* atomic; to a word that is 1 once a kernel has posted to a ring; NULL: no device runs */
    struct control *control; /* this PE's */
    size_t control_bytes;
    size_t slot_bytes;
    size_t part_bytes; /* behind the heap: of local objects, and as much of those of teams */
    struct alloc *alloc;
    enum lent lent; /* atomic, relaxed: of the host's memory; lending.c */
    void *active_sets;  /* coll: implicit teams by (start, stride, size) */
    uint32_t said_no_pull; /* coll/on_host/pull.h; atomic */
    const struct collectives *coll; /* collectives.h */
    void *select;       /* coll: the algorithm table in force */
    unsigned wait_used; /* bit i: waits[i] is taken; atomic */

    int listener; /* unix socket, -1: none */
    struct node_file *node;     /* node_file.h; NULL: alone on its node */
    int node_fd;                /* -1: none */
    bool node_joined;           /* the others know this PE, and see its death */
    uint32_t node_left;         /* PEs of the node known to have left */
    pthread_mutex_t maps_lock;  /* first uses of peers' segments */
    int thread_level;
    uint32_t left_at; /* the world's last step, for the good-bye */
    bool aborting; /* this PE ends the job; read by iso_is_aborting */
    struct end_hooks at_end;
    struct hooks_above above;
    int errors; /* SHMEMX_ERRORS_ */
    struct broken broken;
    int n_gone; /* peers that are gone, in a broken job; atomic */
    shmemx_error_handler_t on_error; /* NULL: none */
    void *on_error_arg;
    int parent_pid; /* the launcher's process on this host; 0: none that would have to live */
    struct env *env; /* bootstrap/env.h; all zero before the first start */
    struct boot *boot;       /* bootstrap/boot.h; NULL before the first start */
    uint64_t flights;        /* calls that flight.h has recorded */
    uint64_t flight_ns, flight_since_ns; /* last look at a clock; begin of the last call's first wait: relaxed */
    struct profile *profile; /* profile.h; NULL: nothing is counted */
    uint64_t profile_life;   /* another number for each start of each PE of a process; 0: nothing is counted */
    const char *data_refusal; /* why global variables are not symmetric; NULL: they are */
};

#if defined ISO_PES_AS_THREADS || defined ISO_STATE_BY_CALL /* the latter: objects for both kinds of PEs */
struct state *iso_state_of_thread(void) __attribute__((const));
#define ISO iso_state_of_thread()
#else
extern struct state iso_state __attribute__((visibility("hidden"))); /* no detour over the GOT */
#define ISO (&iso_state)
#endif

/* The first call in a thread of the library (iso_thread_start): it works for this PE. */
void iso_thread_adopt(struct state *state);

/* Relaxed, pairs with nothing: threads of the library look less after it, or once more before it. */
ISO_INLINE bool iso_is_aborting(const struct state *state)
{
    return __atomic_load_n(&state->aborting, __ATOMIC_RELAXED);
}

/* ---- checks and look-ups: the hot path ---- */

/* A device runs, or does not any more; also at the start, when `debug` and `profile` are set. */
ISO_INLINE void iso_set_careful(struct state *self, bool device_runs)
{
    self->careful = self->debug || device_runs;
    self->odd_words = self->debug || self->profile != NULL;
    self->odd_memory = self->careful || self->profile != NULL;
}

/* Any call but the few that work before init. */
ISO_INLINE void iso_check_life(const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY(ISO->life != LIFE_RUNNING))
        iso_fatal_life(call);
}

/* At the begin of a call that returns its errors. 0, or a negative errno after a sentence: before init, after finalize,
 * or in a broken job. Where the mode or the call does not return errors, the job ends. */
ISO_INLINE int iso_enter(const char *call)
{
    const struct state *self = ISO;
    if (ISO_LIKELY(self->life == LIFE_RUNNING && __atomic_load_n(&self->broken.stage, __ATOMIC_ACQUIRE) != 2))
        return 0;
    return iso_refuse_entry(call);
}

/* The context behind a handle, SHMEM_CTX_DEFAULT without a table look-up. */
ISO_INLINE struct ctx *iso_ctx(shmem_ctx_t handle, const char *call)
{
    if (ISO_LIKELY(handle == SHMEM_CTX_DEFAULT))
        return &ISO->ctx_default;
    return iso_ctx_find(handle, call);
}

/* World PE of `pe` in the context's team; ends the job when out of range (also before init: n_pes is 0 then). */
ISO_INLINE int iso_world_pe(const struct ctx *ctx, int pe, const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY((unsigned)pe >= (unsigned)ctx->n_pes))
        iso_fatal_pe(call, pe, ctx->n_pes);
    return ctx == &ISO->ctx_default ? pe : ctx->world_of[pe];
}

#endif
