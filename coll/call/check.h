/* SPDX-License-Identifier: MIT */
/* A shmemx_coll_t, checked: what is alike for calls on host memory, on streams and in batches. A sentence names the
 * call, the kind, the argument, its value, and what is allowed. Includes: kinds.h. Used by coll/. */
#ifndef ISO_CHECK_H
#define ISO_CHECK_H

#include "kinds.h"

struct team;

struct coll_call {
    const shmemx_coll_t *coll;
    const char *api;  /* "shmemx_coll_on_stream" */
    const char *name; /* "SHMEMX_ALLREDUCE"; "" before it is known */
    struct team *team;
    int kind;                        /* as tables know it */
    unsigned is;                     /* of kinds.h */
    size_t elem_bytes, block, all;   /* bytes of an element, of nelems, of those of all members; 0: of no type */
    size_t dest_bytes, source_bytes; /* of this member, as far as known before the call runs; 0: it is not looked at */
};

/* "shmemx_coll_on_host, SHMEMX_BROADCAST: root 9 is outside 0..3". Always false. */
bool iso_check_wrong(const struct coll_call *c, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
static inline bool check_range(const struct coll_call *c, const char *arg, int value, int most)
{
    return (value >= 0 && value <= most) || iso_check_wrong(c, "%s %d is outside 0..%d", arg, value, most);
}

/* What a pointer may be there, which is not NULL. False after a sentence. */
typedef bool check_pointer_fn(const struct coll_call *c, const char *arg, const void *addr, size_t alignment);
bool iso_check_pointer(const struct coll_call *c, const char *arg, const void *addr, size_t alignment,
                       check_pointer_fn *place);

/* In this order: the kind, its lists, the team; then numbers and lists, which fill in the sizes; then pointers and what
 * overlaps. False after a sentence. */
bool iso_check_kind(struct coll_call *c, const char *api, const shmemx_coll_t *coll);
bool iso_check_numbers(struct coll_call *c);
bool iso_check_memory(const struct coll_call *c, check_pointer_fn *place);

/* Where the collective writes: the sums of one with a norm may go elsewhere than its result. */
static inline void *call_dest(const struct coll_call *c)
{
    const shmemx_rms_norm_t *norm = c->coll->rms_norm;
    return norm != NULL && norm->sum != NULL ? norm->sum : c->coll->dest;
}
static inline unsigned call_is(const struct coll_call *c, unsigned what) { return c->is & what; }

#endif
