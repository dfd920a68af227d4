/* SPDX-License-Identifier: MIT */
/* The host half of collectives on streams: a checked call, the algorithms, the table that chooses among them, and what
 * is kept per (team, slot). The files, from the top: coll_group.c has the calls of users, coll_stream.c checks and runs
 * a collective, stream_slot.c and stream_state.c keep, pairs.c sends and receives, stream_choice.c chooses,
 * stream_algorithm.c has the algorithms of kernels, coll_engine.c those of copy engines, stream_launch.c launches.
 * Everything hangs off ISO->device->streams.
 * Includes: call/, select/select.h, shmem/gpu/device.h. Used by coll/. */
#ifndef ISO_COLL_STREAM_H
#define ISO_COLL_STREAM_H

#include "../../shmem/gpu/device.h"
#include "../call/check.h"
#include "../call/lists.h"
#include "../select/select.h"

/* ---- one call, checked ---- */

struct stream_slot;  /* below */
struct stream_range; /* below */
#define ISO_STREAM_NONE ((gpu_stream)-1) /* a stream that no device makes; NULL is the default stream */

/* The place of a call among those of a batch that one kernel does, and their number; {0, 0}: alone. */
struct stream_merged {
    uint32_t nth, of;
};
struct stream_call {
    struct coll_call call;
    struct device *device;
    struct stream_slot *slot;
    shmemx_stream_t stream;
    struct isod_stream_coll args; /* h, addresses, places and strides in bytes; as kernels get them */
    const struct stream_range *dest_range, *signal_range; /* NULL: no rendezvous was about it */
    struct select_facts facts;
    struct stream_merged merged;
};

/* ---- coll_stream.c ---- */

/* All that shmemx_coll_on_stream does before the choice, collective as that is. A call of no bytes, on all members
 * alike, is checked and has no slot. 0; -EINVAL after a sentence on an argument, with nothing done; or another error
 * after its sentence. */
int iso_stream_admit(struct stream_call *c, const shmemx_coll_t *coll, shmemx_stream_t stream);
int iso_stream_run(const struct stream_call *c);  /* enqueues it: 0, or nonzero after a sentence */
int iso_stream_note(const struct stream_call *c); /* SHMEM_DEBUG: compares it alone, likewise */

/* ---- call/notes.c: SHMEM_DEBUG=1 compares the calls of a slot between its members ---- */

struct stream_notes; /* of one slot */
struct stream_notes *iso_notes_open(const struct team *team, int slot, shmemd_t handle); /* NULL: no memory */
void iso_notes_close(struct stream_notes *notes);                                         /* NULL-tolerant */
void iso_notes_reset(struct stream_notes *notes); /* slot memory is as new, on all members */
/* Before the call is enqueued. Ends the job when a member's call of the same number is another one. */
int iso_notes_call(struct stream_notes *notes, const struct stream_call *c);

/* ---- stream_state.c: what is kept of the device ---- */

enum { SLOT_LISTS = 512 };

/* Of one device. */
struct streams {
    struct select_table *table;  /* for this device */
    struct select_table *common; /* for any: when members have different ones */
    unsigned most_blocks, most_threads, pair_blocks;
    struct stream_slot *lists[SLOT_LISTS]; /* by team and number; device->lock */
    struct stream_slot *watched;           /* likewise: what the proxy looks at */
    pthread_mutex_t order; /* slots' last streams, where they change; `ends`. Taken before device->lock */
    gpu_stream ends; /* comes behind all work of streams that were destroyed while slots had calls in them; or NULL */
};

/* Made by the first call of any thread; acquire, and release where it is stored, under the lock. */
static inline struct streams *iso_streams_of(const struct device *d)
{
    return (struct streams *)__atomic_load_n(&d->streams, __ATOMIC_ACQUIRE);
}
struct streams *iso_streams_need(struct device *d); /* makes it; NULL after a sentence */
void iso_streams_drop(struct streams *s);           /* NULL-tolerant; no slot is left */
/* The stream waits for the last call of a sequence of calls, if that is in another one. `last`: the streams of the last
 * call and of the last captured one (struct stream_slot). 0, or an error without a sentence. */
int iso_stream_order(struct device *d, gpu_stream *last, gpu_stream stream);
/* When `stream` is destroyed, both under the lock `order`: no capture goes on in it (true: the last call is in it); that
 * call is in `to` now. */
bool iso_stream_forget_capture(gpu_stream *last, gpu_stream stream);
void iso_stream_move(gpu_stream *last, gpu_stream stream, gpu_stream to);
/* How many blocks of kernels of sends and receives may wait at once. The first call of a PE loads all kernels. 0, or
 * nonzero after a sentence for `who`. */
int iso_stream_pair_blocks(struct device *d, const char *who, gpu_stream stream, unsigned *blocks);

/* ---- stream_slot.c: what is kept of one (team, slot) on this PE ---- */

/* Do stores of 128 bytes arrive whole at all members? */
enum stream_ll128 { STREAM_LL128_TORN, STREAM_LL128_UNKNOWN, STREAM_LL128_WHOLE };

/* Streams of copies, taken when a call first needs so many: to the members, and within the PE. */
enum { ISO_ENGINE_STREAMS = 8 };
struct stream_engines {
    gpu_stream streams[ISO_ENGINE_STREAMS]; /* beside the caller's, which is the first */
    int n;
};

/* Memory of this PE in which members put what is brought to its end here, or from which they take it: a row for each
 * member. It grows, on all members alike. */
struct stream_stage {
    struct stream_range *range; /* where it is on all members; NULL: none */
    bool refused;               /* some member had no room: it grows no more */
};

enum { STREAM_LIST_WORDS = 1024 };

struct stream_slot {
    struct stream_slot *next, *next_watched;
    const struct team *team;
    int number;
    shmemd_t handle;
    char **memory; /* [n_pes] the members' slot memory for this PE's kernels and engines; NULL: not reachable */
    void *nodes;   /* device: the table of hier_nodes.c; NULL: none is needed */
    void *list;    /* device: STREAM_LIST_WORDS or 4 n + 1 words for what the host knows of a call's blocks or splits */
    struct stream_engines engines;
    struct stream_stage stage;
    struct engine_words *words; /* NULL: a member's streams cannot wait for words, or pointers do not reach all */
    bool watched;               /* its streams have waited without a kernel */
    /* Atomic, relaxed: the stream of the last call; [1]: of the last one that was captured. ISO_STREAM_NONE: no call
     * yet, or its stream was destroyed. Any thread that destroys a stream changes them, under the lock `order`. */
    gpu_stream last[2];
    struct stream_notes *notes; /* SHMEM_DEBUG on all members; else NULL */
    struct select_table *table; /* shared by the slots of the device */
    enum stream_ll128 ll128;
    unsigned most_blocks, most_threads;
};

/* The slot of the call, made with all members when it is new; NULL after a sentence. */
struct stream_slot *iso_stream_slot_need(const struct stream_call *c);
struct stream_slot *iso_stream_slot_find(const struct stream_call *c); /* NULL: has made no call yet */
/* The call's stream waits for the slot's last call, if that is in another one. 0, or nonzero after a sentence. */
int iso_stream_slot_order(const struct stream_call *c);

/* ---- engine_words.c: members synchronise by words that their streams store and wait for ---- */

struct engine_words; /* of one slot */
/* NULL: no memory. `memory`: the members' slot memory, which stays. */
struct engine_words *iso_words_open(struct device *d, const struct team *team, int number, shmemd_t handle,
                                    char *const *memory);
void iso_words_close(struct engine_words *w); /* NULL-tolerant; no stream waits */
void iso_words_reset(struct engine_words *w); /* slot memory is as new, and no stream waits */
/* A round, alike on all members. begin: the call's stream goes on when all members have come to it. send, behind what
 * `stream` copies to the member. end: the stream goes on when all, or the member that sends to this one (args.to,
 * args.from), have sent. 0, or nonzero after a sentence. */
int iso_words_begin(struct engine_words *w, const struct stream_call *c);
int iso_words_send(struct engine_words *w, const struct stream_call *c, int member, gpu_stream stream);
int iso_words_end(struct engine_words *w, const struct stream_call *c);
void iso_words_watch(struct engine_words *w, bool stop, uint64_t deadline_ns);
/* The words of the call's streams, which the proxy watches from now on; NULL: in this call kernels have to wait. */
struct engine_words *iso_words_of(const struct stream_call *c);

/* ---- stream_probe.c: finds out whether stores of 128 bytes arrive whole ---- */

int iso_stream_probe_start(struct device *d); /* with the device; 0, or -errno after a sentence */
void iso_stream_probe_stop(struct device *d); /* also when it was not started */
/* The knowledge of this PE alone about a team's members; `direct`: all reach each other by pointers. */
enum stream_ll128 iso_stream_probe_ask(const struct device *d, const struct team *team, bool direct);
/* Collective over the team of the handle, by at most so many blocks; the same on all members: WHOLE or TORN. `number`:
 * equal on all, and larger than that of any earlier time. */
enum stream_ll128 iso_stream_probe_run(struct device *d, struct team *team, shmemd_t handle, unsigned blocks,
                                       uint64_t number);
/* One line on what is known; like snprintf. */
size_t iso_stream_probe_text(const struct device *d, char *text, size_t bytes);

/* ---- hier_nodes.c ---- */

/* Collective over the team. Fills slot->nodes where the team needs that table. *agrees: pointers of this member reach
 * just the members that have found the same node. `slot` NULL: this member has none. 0, or -errno after a sentence. */
int iso_hier_share(struct device *d, struct team *team, struct stream_slot *slot, uint32_t *agrees);

/* ---- stream_algorithm.c, stream_launch.c ---- */

/* All kernels, each once: to be loaded before any of them waits for a peer. */
extern const gpu_kernel iso_stream_kernels[];
extern const int iso_stream_n_kernels;
extern const gpu_kernel iso_pair_kernels[]; /* the same of sends and receives, whose blocks have other limits */
extern const int iso_pair_n_kernels;
int iso_stream_launch(const struct stream_call *c, gpu_kernel kernel, struct select_shape shape, bool early);

/* ---- stream_list.c: blocks and splits that the host knows ---- */

/* Enqueue the list, and the kernel behind it. 0, or nonzero after a sentence. */
int iso_list_run_blocks(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
int iso_list_run_splits(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);

/* ---- stream_norm.c ---- */

int iso_norm_run(const struct stream_call *c); /* behind the all-reduce. 0, or nonzero after a sentence */
extern const gpu_kernel iso_norm_kernels[];
extern const int iso_norm_n_kernels;

/* ---- stream_choice.c ---- */

/* The table for a device: what SHMEM_COLL forces, then the file that isomer-info --tune has written (SHMEM_COLL_TABLE
 * names it), then the built-in rows. NULL: the rows for any device alone, which are the same everywhere. NULL after a
 * sentence: a variable, or the file that it names, is wrong. */
struct select_table *iso_stream_table_open(const struct gpu_info *device);
/* Without variables and files; NULL: likewise. */
struct select_table *iso_stream_table_built_in(const struct gpu_info *device);
/* The algorithm's kernel that does the call, a reduction: of sums of the type or of any; or NULL. */
gpu_kernel iso_stream_reduction(const struct select_algorithm *a, const struct select_facts *f);
/* The same on all members. NULL algorithm: no row can do it, which happens for alltoallv without a reachable dest and
 * with engines asked for alone. */
struct select_choice iso_stream_choose(const struct select_table *table, const struct select_facts *f);
/* A tuned row alone: can it do the call, and by which shape? */
bool iso_stream_row_can(const struct select_row *row, const struct select_facts *f, struct select_shape *shape);

/* ---- coll_rendezvous.c: memory of which the hosts know where it is on all members, for copy engines ---- */

/* The members have the same list of ranges of a team, in the same order. */
struct stream_range {
    struct stream_range *next;
    const struct team *team;
    uint64_t number;  /* of the rendezvous of this team; equal on all members */
    char *address;    /* here */
    size_t bytes;     /* equal on all members */
    uint64_t *places; /* [n_pes] */
    char *near[];     /* [n_pes] for this PE's kernels and engines; NULL: no pointer reaches it */
};
/* The range that holds all of it; NULL: none. */
const struct stream_range *iso_stream_range_find(struct device *d, const struct team *team, const void *addr,
                                                 size_t bytes);
void iso_stream_ranges_forget(struct device *d, const struct team *team); /* NULL: of all teams */

/* One that the caller alone keeps: collective over `members`. address NULL: this member has none. NULL on all members:
 * some member has none, after its sentence, or an exchange failed. */
struct stream_range *iso_stream_range_make(struct team *members, void *address, size_t bytes, const char *who);
void iso_stream_range_drop(struct stream_range *range); /* NULL-tolerant */

/* ---- engine_stage.c ---- */

/* The bytes that the slot's stage may have for this call; 0: none. */
size_t iso_stage_most(const struct stream_call *c);
/* The bytes of a row, which takes a piece of `each` bytes that a member sends. */
size_t iso_stage_row(size_t most, size_t each, int n_pes);
/* The slot's stage has n_pes rows for pieces of `each` bytes, or gets them, with all members. 0; -ENOMEM on all members:
 * no room, so iso_stage_most is less now; or another error after a sentence. */
int iso_stage_need(const struct stream_call *c, size_t each);
void iso_stage_drop(struct stream_stage *stage);

/* ---- coll_engine.c ---- */

/* What a member sends to each other one: the size of a row of the stage. */
size_t iso_engine_row(const struct stream_call *c);
int iso_engine_fcollect_staged(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
int iso_engine_reducescatter(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
int iso_engine_allreduce(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);

int iso_engine_exchange(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
int iso_engine_broadcast(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);
int iso_engine_permute(const struct stream_call *c, const struct select_algorithm *a, struct select_shape shape);

/* ---- pairs.c: sends and receives ---- */

/* As the user has written it. */
struct pair_call {
    shmem_team_t team;
    void *data;
    size_t bytes;
    int peer, tag;
    bool sends;
    shmemx_stream_t stream;
};
int iso_pairs_check(const struct pair_call *c); /* 0; -EINVAL after a sentence on an argument; or -EIO */
/* Calls that are right, those of a stream by one launch. Reorders `calls`. 0, or nonzero after a sentence. */
int iso_pairs_enqueue(const struct pair_call **calls, size_t n);

void iso_group_stop(void); /* the batch that this thread has begun and not ended */
int iso_pairs_start(struct device *d); /* with the device: 0 or -errno */
void iso_pairs_stop(struct device *d); /* also when it was not started */
bool iso_pairs_has_team(const struct team *team);
bool iso_pairs_are_joint(const struct team *team); /* some do not end with it alone */
size_t iso_pairs_bytes(struct device *d, const struct team *team); /* of slot memory */
void iso_pairs_forget_team(struct device *d, const struct team *team); /* as iso_coll_streams_forget_team */
void iso_pairs_reset(struct device *d, const struct team *team);
/* device->lock is held. No capture goes on in the stream. True: some pair's last call is in it. */
bool iso_pairs_forget_capture(struct device *d, gpu_stream stream);
void iso_pairs_move_stream(struct device *d, gpu_stream stream, gpu_stream to);

/* ---- stream_slot.c: what struct collectives registers ---- */

int iso_coll_streams_start(struct device *device); /* 0, or -errno after a sentence */

void iso_coll_streams_reset(const struct team *team, int number);
void iso_coll_streams_memory(const struct team *team, size_t *stages, size_t *pairs);
void iso_coll_streams_forget_team(const struct team *team);
void iso_coll_streams_forget_stream(gpu_stream stream);
void iso_coll_streams_watch(const uint64_t *abort);
void iso_coll_streams_stop(struct device *device);
void iso_coll_streams_forget(void); /* tables and all slots: the next call begins anew */

#endif
