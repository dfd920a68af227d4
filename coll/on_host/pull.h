/* SPDX-License-Identifier: MIT */
/* Long blocks of shmemx_coll_on_host are read where they lie: memory of this library by pointer, private memory of other
 * processes by the kernel (process_vm_readv). By stages each byte is copied twice, and members wait for each other every
 * ISO_STAGE_BYTES, which costs a change of threads each where PEs outnumber cores.
 * Invariant: pull_begin has one answer on all members; where it is true, every member's source and dest can be read by
 * all others until pull_meet. Included by coll_on_host.c. */
#ifndef ISO_PULL_H
#define ISO_PULL_H

#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "../../shmem/transport/far.h"
#include "../host/coll.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define PULL_MEMBERS 64
#define PULL_ROOM_BYTES ((size_t)1 << 19) /* the pieces of all members that are combined at a time */
#define PULL_PAGE ((size_t)4096)
#define PLACE_BITS 48

enum { PULL_SOURCE, PULL_DEST, PULL_ARRAYS };

/* One argument as the other members find it. addr 0: they do not read it. place: 1 + its segment, which has one index on
 * all PEs, and the offset there; 0: private memory, or a registered buffer, which has no offset. */
struct pull_array {
    uint64_t place, addr;
};

/* What members tell each other. A number of a process means another process in another container, so the word at
 * `sign_addr` shows whose memory it is. */
struct pull_member {
    struct pull_array array[PULL_ARRAYS];
    uint64_t sign, sign_addr;
};
_Static_assert(sizeof(struct pull_member) <= ISO_INBOX_BYTES, "one exchange");

/* The arrays of this member. bytes of one that is 0, or a null pointer: nobody reads it. */
struct pull_arrays {
    const void *addr[PULL_ARRAYS];
    size_t bytes[PULL_ARRAYS];
    bool differ;  /* bytes differ between members; else they are equal */
    size_t share; /* bytes of a member's source that one member combines; 0: it does not */
};

struct pull {
    struct coll *c;
    uint64_t sign; /* of this member */
    char *room;   /* for pieces that no pointer reaches; NULL: not wanted */
    size_t piece; /* of one member there */
    struct pull_member members[PULL_MEMBERS];
};

static struct pull_array pull_array(const void *addr, size_t bytes)
{
    struct pull_array array = {0, bytes > 0 ? (uint64_t)(uintptr_t)addr : 0};
    const struct segment *s = array.addr != 0 ? iso_segment_of(addr, bytes) : NULL;
    if (s != NULL && !s->on_device && s->kind != SEGMENT_BUFFER)
        array.place = ((uint64_t)(s - ISO->segments) << PLACE_BITS | (uint64_t)((const char *)addr - s->base)) + 1;
    return array;
}

/* A pointer to `offset` of another member's array; NULL: the kernel must read it. */
static const char *pull_pointer(const struct pull *p, int from, int which, size_t offset)
{
    const struct pull_array *array = &p->members[from].array[which];
    if (array->place == 0)
        return NULL;
    struct segment *s = &ISO->segments[(array->place - 1) >> PLACE_BITS];
    size_t at = (size_t)((array->place - 1) & ((UINT64_C(1) << PLACE_BITS) - 1));
    struct coll_mem mem = {s->base + at, s, at};
    const char *near = coll_pointer(p->c, &mem, from);
    return near != NULL ? near + offset : NULL;
}

/* 0 or -errno. The first and the last byte of an array stand for all of it; the first alone where lengths differ. */
static int pull_try(const struct pull *p, int from, const struct pull_arrays *arrays)
{
    const struct pull_member *member = &p->members[from];
    struct iovec words[1 + 2 * PULL_ARRAYS] = {{(void *)(uintptr_t)member->sign_addr, sizeof member->sign}};
    char seen[sizeof member->sign + 2 * PULL_ARRAYS];
    int n = 1;
    for (int which = 0; which < PULL_ARRAYS; which++) {
        char *addr = (char *)(uintptr_t)member->array[which].addr;
        if (addr == NULL || pull_pointer(p, from, which, 0) != NULL)
            continue;
        words[n++] = (struct iovec){addr, 1};
        if (!arrays->differ)
            words[n++] = (struct iovec){addr + arrays->bytes[which] - 1, 1};
    }
    int rc = n == 1 ? 0 : iso_far_read_private(p->c->views[from].pe, words, n, seen);
    return n > 1 && rc == 0 && memcmp(seen, &member->sign, sizeof member->sign) != 0 ? -ESRCH : rc;
}

/* Once on a PE: the calls go on, and take longer. */
static void pull_say_why_not(const struct coll *c, int from, int rc)
{
    if (__atomic_exchange_n(&ISO->said_no_pull, 1, __ATOMIC_RELAXED) != 0)
        return;
    log_warn("%s: long blocks go by stages, which takes longer, since private memory of pe %d cannot be read: %s; "
             "memory of the library needs no reading",
             iso_call_name(c->call), c->views[from].pe,
             rc == -ESRCH ? "it is in another PID namespace (give the containers one for all PEs)" : strerror(-rc));
}

/* Fills this member's row of p->members, which all others need. False, on all members: this team cannot read. */
static bool pull_offer(struct pull *p, struct coll *c, const struct pull_arrays *arrays)
{
    struct timespec t;
    if (c->n == 1 || c->n > PULL_MEMBERS || !coll_is_direct(c))
        return false;
    /* A word that no other process has at its place. */
    clock_gettime(CLOCK_MONOTONIC, &t);
    p->sign = ((uint64_t)t.tv_sec << 32 ^ (uint64_t)t.tv_nsec << 2 ^ (uint64_t)ISO->my_pe << 48) | 1;
    p->c = c;
    p->room = NULL;
    p->members[c->me] = (struct pull_member){{pull_array(arrays->addr[PULL_SOURCE], arrays->bytes[PULL_SOURCE]),
                                              pull_array(arrays->addr[PULL_DEST], arrays->bytes[PULL_DEST])},
                                             p->sign,
                                             (uint64_t)(uintptr_t)&p->sign};
    iso_far_allow_reads();
    return true;
}

/* All rows of p->members are there. True on all: arrays can be read. False after an error too, upon which the job is
 * broken. */
static bool pull_begin(struct pull *p, const struct pull_arrays *arrays)
{
    struct coll *c = p->c;
    size_t share = arrays->share;
    bool some_private = false;
    p->piece = PULL_ROOM_BYTES / (size_t)(c->n - 1) / PULL_PAGE * PULL_PAGE;
    for (int m = 0; m < c->n; m++)
        for (int which = 0; which < PULL_ARRAYS; which++)
            some_private |= p->members[m].array[which].addr != 0 && p->members[m].array[which].place == 0;
    if (!some_private) /* all members see that */
        return true;
    p->piece = ISO_MIN(p->piece, share);
    p->room = share > 0 ? (char *)malloc((size_t)c->n * p->piece) : NULL;
    bool ok = share == 0 || p->room != NULL;
    for (int i = 1, rc; i < c->n && ok; i++) {
        ok = (rc = pull_try(p, coll_other(c, i), arrays)) == 0;
        if (!ok)
            pull_say_why_not(c, coll_other(c, i), rc);
    }
    if (iso_agree_min(c->team, ok, c->call) != 0)
        return true;
    free(p->room);
    return false;
}

/* A part of another member's array. */
struct pull_range {
    int from, which;
    size_t offset, bytes;
};

/* Other pages of the array than those that pull_begin tried may be missing. */
static void pull_read(const struct pull *p, struct pull_range r, void *into)
{
    const char *near = pull_pointer(p, r.from, r.which, r.offset);
    struct iovec there = {(void *)(uintptr_t)(p->members[r.from].array[r.which].addr + r.offset), r.bytes};
    int pe = p->c->views[r.from].pe, rc = 0;
    if (near != NULL)
        coll_copy(into, near, r.bytes);
    else
        rc = iso_far_read_private(pe, &there, 1, into);
    if (rc != 0 && !iso_job_is_broken() && !iso_slot_is_broken(p->c->slot))
        (void)iso_refuse_alone(p->c->call, "%zu bytes at %p of pe %d cannot be read (%s); is all of its %s there?",
                               r.bytes, there.iov_base, pe, strerror(-rc), r.which == PULL_SOURCE ? "source" : "dest");
}

static char *pull_room(const struct pull *p, int from) { return p->room + (size_t)from * p->piece; }

/* All have come to this point, their stores are seen and their reads are done. In a broken job or team a read may have
 * failed: then this member does not say so. */
static void pull_meet(const struct pull *p)
{
    if (iso_job_is_broken() || iso_slot_is_broken(p->c->slot))
        return;
    coll_begin_epoch(p->c);
    coll_flag_set_all(p->c);
    coll_flag_wait_all(p->c);
}

/* Sources and dests stay until all have read. */
static void pull_end(struct pull *p)
{
    pull_meet(p);
    free(p->room);
}

#endif
