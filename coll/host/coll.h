/* SPDX-License-Identifier: MIT */
/* The base of the host's schedules, and their argument (struct coll_work).
 * A schedule is a function `static void name(struct coll *c, const struct coll_work *w)` in a header of coll/host/. It
 * knows members, epochs and the functions below, and not how a member is reached. Schedules of kernels have a base of
 * their own, coll/kernel/session_device.h.
 * Invariants: every member goes through the same epochs of the same kinds in the same order, also for zero lengths. In
 * a call that returns errors, a member whose wait gave up (iso_job_is_broken) begins no other hop or piece: the others
 * would take what it sends, and what it overwrites in their stages, for right. */
#ifndef ISO_COLL_H
#define ISO_COLL_H

#include "../../shmem/team/inbox.h"

#include <string.h>

/* One symmetric argument: the same object on every member. */
struct coll_mem {
    char *base;              /* its address here */
    struct segment *segment; /* NULL: it spans pieces of a registered buffer; only put, get and read work then */
    size_t offset;           /* of base in the segment */
};

/* One call of a collective, on the stack of the caller. */
struct coll {
    struct slot *slot;
    struct slot_view *views; /* slot->views; NULL when n == 1 */
    uint64_t epoch;          /* the one in progress */
    int me, n;               /* in the team */
    const char *call;
    struct team *team;
};

/* into[i] = left[i] op right[i]; into may be left or right, no other overlap. */
typedef void coll_combine_fn(void *into, const void *left, const void *right, size_t nelems);

/* The work of a call. Equal on all members but for the addresses behind dest and source, and `nelems` of collect. */
struct coll_work {
    struct coll_mem dest, source;
    size_t nelems; /* per member block; reductions: of the whole array; collect: this member's */
    size_t elem_bytes;
    size_t bytes;             /* nelems * elem_bytes */
    int root;                 /* broadcast */
    bool root_dest;           /* broadcast: the root's own dest is written too (teams; active sets: not) */
    bool exclusive;           /* scan */
    ptrdiff_t dst, sst;       /* alltoalls: strides in elements */
    coll_combine_fn *combine; /* reductions and scans */
    bool exact;               /* these: the order of the members does not matter to the bits (integers) */
};

/* ---- epochs ----
 * An epoch is one number; its flags and inboxes carry it. Beginning one is local and costs nothing. In a plain epoch
 * any member may flag any other, and only flagged members wait. */

ISO_INLINE void coll_begin_epoch(struct coll *c) { c->epoch = ++c->slot->seq; }

/* A staged epoch may use inboxes, stages and the node scratch. They have two banks, used alternately. Two are enough
 * only under this rule: in a staged epoch EVERY member sends to (inbox, or stage and flag) and waits for EVERY other
 * member, or all pass the node scratch. A member that begins staged epoch k + 2 has finished k + 1, so all have
 * finished reading k. */
ISO_INLINE void coll_begin_staged_epoch(struct coll *c)
{
    c->slot->staged++;
    coll_begin_epoch(c);
}

/* The i-th other member, i = 1 .. n - 1, counted from this one: so members do not all begin with the same. */
ISO_INLINE int coll_other(const struct coll *c, int i) { return c->me + i < c->n ? c->me + i : c->me + i - c->n; }

ISO_INLINE void coll_copy(void *PRIM_RESTRICT into, const void *PRIM_RESTRICT from, size_t bytes)
{
    if (bytes > 0) /* addresses of nothing may be NULL */
        memcpy(into, from, bytes);
}

/* ---- flags ---- */

/* All earlier stores and puts of this member are visible to `to` once `to` has waited for the flag, and all its earlier
 * reads are done. */
ISO_INLINE void coll_flag_set(struct coll *c, int to) { iso_slot_flag_set(c->slot, c->me, to, c->epoch, c->call); }
/* Returns once `from` has set its flag of this epoch or of a later one. */
ISO_INLINE void coll_flag_wait(struct coll *c, int from) { (void)iso_slot_flag_wait(c->slot, from, c->epoch, c->call); }
/* The epoch that `from` has set last. */
ISO_INLINE uint64_t coll_flag_of(const struct coll *c, int from)
{
    return prim_poll_u64((const uint64_t *)(const void *)(c->slot->memory + iso_slot_flag_offset(from)));
}

ISO_INLINE void coll_flag_set_all(struct coll *c)
{
    for (int i = 1; i < c->n; i++)
        coll_flag_set(c, coll_other(c, i));
}
ISO_INLINE void coll_flag_wait_all(struct coll *c)
{
    for (int i = 1; i < c->n; i++)
        coll_flag_wait(c, coll_other(c, i));
}

/* Into `offset` of the slot of member `to`, which no pointer reaches: in order with its flags. */
ISO_COLD void iso_coll_far_put_slot(struct coll *c, int to, size_t offset, const void *source, size_t bytes);

/* ---- words of calls: beside a flag of the same epoch; staged epochs only ---- */

/* Then coll_flag_set(c, to). */
ISO_INLINE void coll_word_put(struct coll *c, int to, const struct slot_word *word)
{
    char *near = c->views[to].near;
    if (ISO_LIKELY(near != NULL))
        memcpy(near + iso_slot_word_offset(c->me, c->slot->staged), word, sizeof *word);
    else
        iso_coll_far_put_slot(c, to, iso_slot_word_offset(c->me, c->slot->staged), word, sizeof *word);
}
/* What `from` has put, after coll_flag_wait(c, from); valid as an inbox is. */
ISO_INLINE const struct slot_word *coll_word_from(const struct coll *c, int from)
{
    return (const struct slot_word *)(const void *)(c->slot->memory + iso_slot_word_offset(from, c->slot->staged));
}

/* ---- inboxes: at most ISO_INBOX_BYTES that arrive with their epoch in one cache line; staged epochs only ---- */

ISO_INLINE struct inbox coll_inbox(const struct coll *c)
{
    struct inbox box = {c->slot, c->epoch, c->me, c->call};
    return box;
}

ISO_INLINE struct slot_inbox *coll_inbox_at(struct coll *c, char *memory, int sender)
{
    return iso_inbox_at(coll_inbox(c), memory, sender);
}

/* At most once for each other member in an epoch; bytes may be 0. */
ISO_INLINE void coll_inbox_send(struct coll *c, int to, const void *data, size_t bytes)
{
    iso_inbox_send(coll_inbox(c), c->views[to].near, to, data, bytes);
}

/* The payload that `from` has sent in this epoch: see iso_inbox_wait. */
ISO_INLINE const void *coll_inbox_wait(struct coll *c, int from)
{
    return iso_inbox_wait(coll_inbox(c), &c->views[from], from);
}

ISO_INLINE void coll_inbox_recv(struct coll *c, int from, void *into, size_t bytes)
{
    coll_copy(into, coll_inbox_wait(c, from), bytes);
}

/* At the end of an epoch with inboxes: fetches the cache lines that the next one stores into. Their receivers hold them
 * since they read them, and the next store would wait for that. All members have read them, having sent this epoch. */
ISO_INLINE void coll_inbox_prepare(struct coll *c)
{
    for (int i = 1; i < c->n; i++) {
        const char *near = c->views[coll_other(c, i)].near;
        if (near != NULL)
            prim_expect_store(near + iso_slot_inbox_offset(c->me, c->slot->staged + 1));
    }
}

/* ---- stages: ISO_STAGE_BYTES per sender and bank in the receiver's memory; staged epochs only ---- */

ISO_INLINE size_t coll_stage_offset(struct coll *c, int sender)
{
    return iso_slot_stage_offset(ISO) + ((size_t)sender * 2 + (size_t)(c->slot->staged & 1)) * ISO_STAGE_BYTES;
}

/* Writes into this member's stage at `to`; then coll_flag_set(c, to). offset + bytes <= ISO_STAGE_BYTES. */
ISO_INLINE void coll_stage_put(struct coll *c, int to, size_t offset, const void *data, size_t bytes)
{
    char *near = c->views[to].near;
    if (ISO_LIKELY(near != NULL))
        coll_copy(near + coll_stage_offset(c, c->me) + offset, data, bytes);
    else if (bytes > 0)
        iso_coll_far_put_slot(c, to, coll_stage_offset(c, c->me) + offset, data, bytes);
}
/* The bytes that `from` has staged here, after coll_flag_wait(c, from); 64-byte aligned, valid as an inbox is. */
ISO_INLINE const char *coll_stage_from(struct coll *c, int from)
{
    return c->slot->memory + coll_stage_offset(c, from);
}

/* ---- node scratch: ISO_SCRATCH_BYTES in the leader's memory that all members write and read; direct teams only ----
 * Where PEs outnumber cores it beats inboxes: each member touches few lines and is scheduled once.
 *     coll_begin_staged_epoch(c);  write own part of coll_scratch(c);  coll_scratch_pass(c);  read all parts */

/* All members reach the leader by pointer: the same answer on all members. */
ISO_INLINE bool coll_is_direct(const struct coll *c) { return c->slot->central != NULL; }
ISO_INLINE char *coll_scratch(struct coll *c)
{
    return c->slot->central + iso_slot_scratch_offset(ISO) + (c->slot->staged & 1) * ISO_SCRATCH_BYTES;
}
/* All members have arrived, and their earlier stores are visible: a barrier on the leader's counter. */
ISO_INLINE void coll_scratch_pass(struct coll *c) { iso_slot_central_pass(c->slot, c->n, c->epoch, c->call); }

/* ---- the user's memory: direct puts and reads ---- */

/* A part of member `pe`'s object, `offset` bytes behind its start. */
struct coll_range {
    const struct coll_mem *mem;
    size_t offset, bytes;
    int pe;
};
ISO_INLINE struct coll_range coll_range(const struct coll_mem *mem, size_t offset, size_t bytes, int pe)
{
    struct coll_range range = {mem, offset, bytes, pe};
    return range;
}

void iso_coll_far_put(struct coll *c, struct coll_range to, const void *source);
void iso_coll_far_read(struct coll *c, void *into, struct coll_range from);

/* The object of member `pe` (itself included) for loads and stores, or NULL: then only coll_put and coll_read reach. */
ISO_INLINE char *coll_pointer(struct coll *c, const struct coll_mem *mem, int pe)
{
    if (pe == c->me)
        return mem->base;
    if (ISO_UNLIKELY(mem->segment == NULL))
        return NULL;
    int world_pe = c->views[pe].pe;
    char *cpu = __atomic_load_n(&mem->segment->peers[world_pe].cpu_ptr, __ATOMIC_RELAXED);
    if (ISO_UNLIKELY(cpu == NULL))
        cpu = iso_segment_reach(mem->segment, world_pe);
    return ISO_LIKELY(cpu != NULL) ? cpu + mem->offset : NULL;
}

/* Then coll_flag_set(c, to.pe). Allowed in every collective whose dest must be ready on all PEs before any PE calls
 * (broadcast, collect, alltoall, reductions). */
ISO_INLINE void coll_put(struct coll *c, struct coll_range to, const void *source)
{
    char *near = coll_pointer(c, to.mem, to.pe);
    if (ISO_LIKELY(near != NULL))
        coll_copy(near + to.offset, source, to.bytes);
    else if (to.bytes > 0)
        iso_coll_far_put(c, to, source);
}

void iso_coll_far_put_flag(struct coll *c, struct coll_range to, const void *source);
void iso_coll_far_done(void);

/* coll_put and coll_flag_set, together on the way to another node. The source is busy until coll_put_done. */
ISO_INLINE void coll_put_flag(struct coll *c, struct coll_range to, const void *source)
{
    char *near = coll_pointer(c, to.mem, to.pe);
    if (ISO_LIKELY(near != NULL)) {
        coll_copy(near + to.offset, source, to.bytes);
        coll_flag_set(c, to.pe);
    } else {
        iso_coll_far_put_flag(c, to, source);
    }
}
ISO_INLINE void coll_put_done(struct coll *c)
{
    if (ISO_UNLIKELY(!coll_is_direct(c)))
        iso_coll_far_done();
}

/* Is this member reached without pointers? Then its data should be under way before near members are served. */
ISO_INLINE bool coll_is_far(const struct coll *c, int pe) { return c->views[pe].near == NULL; }

/* Reads from member `pe`, after its flag said that it has entered the call. The owner must not return before the
 * reader's flag said that it is done. */
ISO_INLINE void coll_read(struct coll *c, void *into, struct coll_range from)
{
    const char *near = coll_pointer(c, from.mem, from.pe);
    if (ISO_LIKELY(near != NULL))
        coll_copy(into, near + from.offset, from.bytes);
    else if (from.bytes > 0)
        iso_coll_far_read(c, into, from);
}

/* This member's own block; nothing where source and dest are the same. */
ISO_INLINE void coll_copy_own(void *into, const void *from, size_t bytes)
{
    if (into != from)
        coll_copy(into, from, bytes);
}

/* ---- operations and algorithms (host_algorithm.c) ---- */

enum coll_op {
    COLL_BARRIER,
    COLL_BROADCAST,
    COLL_COLLECT,
    COLL_FCOLLECT,
    COLL_ALLTOALL,
    COLL_ALLTOALLS,
    COLL_REDUCE,
    COLL_SCAN,
    COLL_OPS
};

/* host_choice.c: the algorithm of the first row that fits (coll/select/select.h). The same on all members. `w` NULL: a
 * barrier. */
struct select_algorithm;
const struct select_algorithm *iso_host_choose(enum coll_op op, const struct team *team, const struct coll_work *w);
/* The host's table with what `forced` says, a value of SHMEM_COLL; NULL after a sentence. */
struct select_table *iso_host_table_open(const char *forced);
/* iso_barrier_sync, counted. */
void iso_host_count_barrier(struct team *team, const char *call);
/* Runs it, after the comparison that SHMEM_DEBUG asks for. Teams of one PE included. */
void iso_coll_run(enum coll_op op, struct team *team, const struct coll_work *w, const char *call);

/* ---- entry: checks of arguments (coll_host.c); every failure is a sentence and ends the job ---- */

/* The team behind a handle, for a call that may be made now; NULL for SHMEM_TEAM_INVALID, upon which the call returns
 * nonzero. `call` is __func__. */
struct team *iso_coll_team(shmem_team_t handle, const char *call);
/* The implicit team of an active set; checks that it lies in the world, has this PE, and that pSync is symmetric. */
struct coll_set {
    int start, log_stride, size;
    const long *psync;
    size_t psync_longs;
};
struct team *iso_coll_active_set(struct coll_set a, const char *call);
/* Elements of a SHMEMX_ type by a SHMEMX_ operator, both in range; half and bfloat16 as float, averages and scaled sums
 * as sums. NULL: the type has no such operator (coll_reduce.c). */
coll_combine_fn *iso_reduce_combine(int type, int op);
/* After the collective: the team may be gone. */
void iso_coll_active_set_end(struct team *team, const char *call);
int iso_active_set_start(void);
void iso_active_set_stop(void);
/* [addr, addr + bytes) as a symmetric argument; bytes == 0: addr is not looked at. */
struct coll_mem iso_coll_mem(const void *addr, size_t bytes, const char *arg, const char *call);
/* a * b * c, or SIZE_MAX when that overflows (no object is that large: iso_coll_mem refuses it). */
size_t iso_coll_bytes(size_t a, size_t b, size_t c);

#endif
