/* SPDX-License-Identifier: MIT */
/* Put, get, p, g, strided and blocked-strided forms, non-blocking forms (section 9.6). One core per operation, stamped
 * over types, sizes and contexts. The fast half of a core copies by pointer. The slow half checks everything, and
 * iso_far_ decides how the bytes move (pointer, agent, transport). A put by pointer is complete at the target when the
 * copy ends, so there the non-blocking forms are the blocking ones. */
#include "target.h"
#include "../transport/word.h"

#include <string.h>

/* ---- put and get ---- */

/* Nothing to move, but the call and its PE are still checked. */
static void move_nothing(const struct target *t)
{
    iso_check_life(t->call);
    (void)iso_world_pe(t->ctx, t->pe, t->call);
}

/* Moves the bytes where the fast half does not; blocking or not. */
typedef void far_put(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call);
typedef void far_get(struct ctx *ctx, struct place from, void *dest, size_t len, const char *call);

struct sides {
    void *dest;
    const void *source;
};

/* How the bytes go: by the pointer that the fast half has found (NULL: none), else by a call. */
struct put_way {
    far_put *far;
    char *to;
};
struct get_way {
    far_get *far;
    const char *from;
};

static ISO_NOINLINE void put_checked(struct who who, int pe, struct sides s, size_t len, far_put *far)
{
    const struct target t = {who.ctx, who.call, pe};
    struct profile_span span = iso_target_count(PROFILE_PUT, &t, s.dest, len);
    if (len == 0) {
        move_nothing(&t);
    } else {
        struct place to = iso_target_place(&t, s.dest, len, "dest");
        iso_target_check_local(s.source, "source", t.call);
        far(t.ctx, to, s.source, len, t.call);
    }
    iso_profile_leave(&span);
}

/* The pointer is found again: with it there would be more arguments than registers, and put_other needed a frame. */
static ISO_NOINLINE void put_timed(struct who who, int pe, struct sides s, size_t len)
{
    const struct target t = {who.ctx, who.call, pe};
    struct profile_span span = iso_target_count(PROFILE_PUT, &t, s.dest, len);
    iso_target_copy(iso_target_seek(&t, s.dest, len, 1), s.source, len);
    iso_profile_leave(&span);
}

ISO_INLINE void put_other(const struct target *t, struct sides s, size_t len, struct put_way way)
{
    if (ISO_UNLIKELY(s.source == NULL || way.to == NULL || ISO->careful))
        put_checked(ISO_WHO(t), t->pe, s, len, way.far);
    else if (ISO_LIKELY(iso_target_is_counted(PROFILE_PUT, &ISO->careful, t, way.to, len)))
        iso_target_copy(way.to, s.source, len);
    else
        put_timed(ISO_WHO(t), t->pe, s, len);
}

static ISO_NOINLINE void put_slow(struct who who, int pe, struct sides s, size_t len, struct put_way way)
{
    const struct target t = {who.ctx, who.call, pe};
    put_other(&t, s, len, way);
}

/* Of the default context, the usual one: all arguments travel in registers, in the order of the call, so the
 * fast half jumps here. */
static ISO_NOINLINE void put_default(struct sides s, size_t len, int pe, char *to, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    put_other(&t, s, len, (struct put_way){iso_far_put, to});
}

static ISO_NOINLINE void put_nbi_default(struct sides s, size_t len, int pe, char *to, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    put_other(&t, s, len, (struct put_way){iso_far_put_nbi, to});
}

static const struct put_how {
    far_put *far;
    void (*slow)(struct sides s, size_t len, int pe, char *to, const char *call);
} blocking_put = {iso_far_put, put_default}, nbi_put = {iso_far_put_nbi, put_nbi_default};

static ISO_NOINLINE void get_checked(struct who who, int pe, struct sides s, size_t len, far_get *far)
{
    const struct target t = {who.ctx, who.call, pe};
    struct profile_span span = iso_target_count(PROFILE_GET, &t, s.source, len);
    if (len == 0) {
        move_nothing(&t);
    } else {
        struct place from = iso_target_place(&t, s.source, len, "source");
        iso_target_check_local(s.dest, "dest", t.call);
        far(t.ctx, from, s.dest, len, t.call);
    }
    iso_profile_leave(&span);
}

static ISO_NOINLINE void get_timed(struct who who, int pe, struct sides s, size_t len)
{
    const struct target t = {who.ctx, who.call, pe};
    struct profile_span span = iso_target_count(PROFILE_GET, &t, s.source, len);
    iso_target_copy(s.dest, iso_target_seek(&t, s.source, len, 1), len);
    iso_profile_leave(&span);
}

ISO_INLINE void get_other(const struct target *t, struct sides s, size_t len, struct get_way way)
{
    if (ISO_UNLIKELY(s.dest == NULL || way.from == NULL || ISO->careful))
        get_checked(ISO_WHO(t), t->pe, s, len, way.far);
    else if (ISO_LIKELY(iso_target_is_counted(PROFILE_GET, &ISO->careful, t, way.from, len)))
        iso_target_copy(s.dest, way.from, len);
    else
        get_timed(ISO_WHO(t), t->pe, s, len);
}

static ISO_NOINLINE void get_slow(struct who who, int pe, struct sides s, size_t len, struct get_way way)
{
    const struct target t = {who.ctx, who.call, pe};
    get_other(&t, s, len, way);
}

static ISO_NOINLINE void get_default(struct sides s, size_t len, int pe, const char *from, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    get_other(&t, s, len, (struct get_way){iso_far_get, from});
}

static ISO_NOINLINE void get_nbi_default(struct sides s, size_t len, int pe, const char *from, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    get_other(&t, s, len, (struct get_way){iso_far_get_nbi, from});
}

static const struct get_how {
    far_get *far;
    void (*slow)(struct sides s, size_t len, int pe, const char *from, const char *call);
} blocking_get = {iso_far_get, get_default}, nbi_get = {iso_far_get_nbi, get_nbi_default};

/* By pointer a put is complete when the copy ends: waiting costs nothing. */
ISO_INLINE void put_by(const struct target *t, void *dest, const void *source, size_t len, const struct put_how *how)
{
    char *to = iso_target_seek(t, dest, len, 1);
    if (ISO_LIKELY(to != NULL) && ISO_LIKELY(source != NULL) && ISO_LIKELY(!ISO->odd_memory))
        iso_target_copy(to, source, len);
    else if (ISO_TARGET_IS_DEFAULT(t))
        how->slow((struct sides){dest, source}, len, t->pe, to, t->call);
    else
        put_slow(ISO_WHO(t), t->pe, (struct sides){dest, source}, len, (struct put_way){how->far, to});
}

ISO_INLINE void get_by(const struct target *t, void *dest, const void *source, size_t len, const struct get_how *how)
{
    const char *from = iso_target_seek(t, source, len, 1);
    if (ISO_LIKELY(from != NULL) && ISO_LIKELY(dest != NULL) && ISO_LIKELY(!ISO->odd_memory))
        iso_target_copy(dest, from, len);
    else if (ISO_TARGET_IS_DEFAULT(t))
        how->slow((struct sides){dest, source}, len, t->pe, from, t->call);
    else
        get_slow(ISO_WHO(t), t->pe, (struct sides){dest, source}, len, (struct get_way){how->far, from});
}

/* ---- p and g: one store, one load; up to 8 bytes whole, so that a wait may look at the object ---- */

static ISO_NOINLINE void p_checked(struct target t, void *dest, const void *value, size_t bytes)
{
    struct profile_span span = iso_target_count(PROFILE_P, &t, dest, bytes);
    struct place to = iso_target_place(&t, dest, bytes, "dest");
    if (bytes <= 8)
        iso_check_aligned(t.call, "dest", dest, bytes);
    if (to.cpu == NULL && bytes <= 8)
        iso_far_store(t.ctx, to, iso_word_of(value, bytes), (unsigned)bytes, t.call);
    else if (to.cpu == NULL)
        iso_far_put(t.ctx, to, value, bytes, t.call);
    else if (bytes <= 8)
        iso_word_store(to.cpu, iso_word_of(value, bytes), bytes); /* as in p */
    else
        memcpy(to.cpu, value, bytes);
    iso_profile_leave(&span);
}

ISO_INLINE void p_near(char *to, const void *value, size_t bytes)
{
    if (bytes <= 8)
        iso_word_store(to, iso_word_of(value, bytes), bytes); /* release: pairs with wait, test, fetch there */
    else
        memcpy(to, value, bytes);
}

/* `to`, `from`: what the fast half has found, NULL for nothing. */
ISO_INLINE void p_other(const struct target *t, struct sides s, size_t bytes, char *to)
{
    if (iso_target_is_counted(PROFILE_P, &ISO->debug, t, to, bytes))
        p_near(to, s.source, bytes);
    else
        p_checked(*t, s.dest, s.source, bytes);
}

static ISO_NOINLINE void p_slow(struct who who, int pe, struct sides s, size_t bytes, char *to)
{
    const struct target t = {who.ctx, who.call, pe};
    p_other(&t, s, bytes, to);
}

static ISO_NOINLINE void p_default(struct sides s, int pe, size_t bytes, char *to, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    p_other(&t, s, bytes, to);
}

static ISO_NOINLINE void g_checked(struct target t, void *value, const void *source, size_t bytes)
{
    struct profile_span span = iso_target_count(PROFILE_G, &t, source, bytes);
    struct place from = iso_target_place(&t, source, bytes, "source");
    if (bytes <= 8)
        iso_check_aligned(t.call, "source", source, bytes);
    if (from.cpu == NULL && bytes <= 8)
        iso_word_to(value, iso_far_load(t.ctx, from, (unsigned)bytes, t.call), bytes);
    else if (from.cpu == NULL)
        iso_far_get(t.ctx, from, value, bytes, t.call);
    else if (bytes <= 8)
        iso_word_to(value, iso_word_load(from.cpu, bytes), bytes); /* as in g */
    else
        memcpy(value, from.cpu, bytes);
    iso_profile_leave(&span);
}

ISO_INLINE void p(const struct target *t, void *dest, const void *value, size_t bytes)
{
    char *to = iso_target_seek(t, dest, bytes, bytes <= 8 ? bytes : 1);
    if (ISO_LIKELY(to != NULL) && ISO_LIKELY(!ISO->odd_words))
        p_near(to, value, bytes);
    else if (ISO_TARGET_IS_DEFAULT(t))
        p_default((struct sides){dest, value}, t->pe, bytes, to, t->call);
    else
        p_slow(ISO_WHO(t), t->pe, (struct sides){dest, value}, bytes, to);
}

ISO_INLINE void g_near(void *value, const char *from, size_t bytes)
{
    if (bytes <= 8)
        iso_word_to(value, iso_word_load(from, bytes), bytes); /* acquire: pairs with p and atomics of any PE */
    else
        memcpy(value, from, bytes);
}

ISO_INLINE void g_other(const struct target *t, struct sides s, size_t bytes, const char *from)
{
    if (iso_target_is_counted(PROFILE_G, &ISO->debug, t, from, bytes))
        g_near(s.dest, from, bytes);
    else
        g_checked(*t, s.dest, s.source, bytes);
}

static ISO_NOINLINE void g_slow(struct who who, int pe, struct sides s, size_t bytes, const char *from)
{
    const struct target t = {who.ctx, who.call, pe};
    g_other(&t, s, bytes, from);
}

static ISO_NOINLINE void g_default(struct sides s, int pe, size_t bytes, const char *from, const char *call)
{
    const struct target t = {&ISO->ctx_default, call, pe};
    g_other(&t, s, bytes, from);
}

ISO_INLINE void g(const struct target *t, void *value, const void *source, size_t bytes)
{
    const char *from = iso_target_seek(t, source, bytes, bytes <= 8 ? bytes : 1);
    if (ISO_LIKELY(from != NULL) && ISO_LIKELY(!ISO->odd_words))
        g_near(value, from, bytes);
    else if (ISO_TARGET_IS_DEFAULT(t))
        g_default((struct sides){value, source}, t->pe, bytes, from, t->call);
    else
        g_slow(ISO_WHO(t), t->pe, (struct sides){value, source}, bytes, from);
}

/* ---- strided: nblocks blocks of bsize elements; iput and iget are blocks of one element ---- */

struct strided {
    void *dest;
    const void *source;
    ptrdiff_t dst, sst; /* elements between the beginnings of two blocks */
    size_t bsize;       /* elements */
    size_t nblocks;
};

/* The same in bytes. */
struct rma_blocks {
    char *dest;
    const char *source;
    size_t dst, sst;
    size_t len; /* of a block */
    size_t n;
};

/* As iso_target_bytes: what does not fit becomes SIZE_MAX. */
static size_t times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t check_stride(ptrdiff_t stride, const char *arg, size_t bsize, const char *call)
{
    if (ISO_CHECKS && (stride < 1 || (size_t)stride < bsize))
        iso_fatal(call, "%s is %td elements, allowed: %zu or more", arg, stride, bsize);
    return (size_t)stride;
}

static struct rma_blocks rma_blocks_of(const struct strided *s, size_t bytes, const char *call)
{
    return (struct rma_blocks){.dest = (char *)s->dest,
                               .source = (const char *)s->source,
                               .dst = times(check_stride(s->dst, "dst", s->bsize, call), bytes),
                               .sst = times(check_stride(s->sst, "sst", s->bsize, call), bytes),
                               .len = times(s->bsize, bytes),
                               .n = s->nblocks};
}

/* Bytes from the beginning of the first block to the end of the last. */
static size_t span(const struct rma_blocks *b, size_t stride)
{
    size_t last = times(b->n - 1, stride);
    return last > SIZE_MAX - b->len ? SIZE_MAX : last + b->len;
}

/* `len` is b->len, as a constant where it is the size of one element. */
ISO_INLINE void copy_each(const struct rma_blocks *b, size_t len)
{
    char *to = b->dest;
    const char *from = b->source;
    for (size_t i = 0; i < b->n; i++, to += b->dst, from += b->sst)
        memcpy(to, from, len);
}

static void copy_blocks(const struct rma_blocks *b)
{
    if (b->dst == b->len && b->sst == b->len) {
        memcpy(b->dest, b->source, b->len * b->n);
        return;
    }
    switch (b->len) {
    case 1:
        copy_each(b, 1);
        break;
    case 2:
        copy_each(b, 2);
        break;
    case 4:
        copy_each(b, 4);
        break;
    case 8:
        copy_each(b, 8);
        break;
    case 16:
        copy_each(b, 16);
        break;
    default:
        copy_each(b, b->len);
        break;
    }
}

static void put_blocks(const struct target *t, const struct strided *s, size_t bytes)
{
    if (s->nblocks == 0 || s->bsize == 0) {
        move_nothing(t);
        return;
    }
    iso_target_check_local(s->source, "source", t->call);
    struct rma_blocks b = rma_blocks_of(s, bytes, t->call);
    struct place to = iso_target_place(t, s->dest, span(&b, b.dst), "dest");
    if (ISO_LIKELY(to.cpu != NULL) && !iso_far_is_local(b.source)) {
        b.dest = to.cpu;
        copy_blocks(&b);
        return;
    }
    for (size_t i = 0; i < b.n; i++)
        iso_far_put_nbi(t->ctx, iso_place_behind(to, i * b.dst), b.source + i * b.sst, b.len, t->call);
    iso_far_pe_quiet(t->ctx, to.pe); /* the source is the caller's again */
}

static void get_blocks(const struct target *t, const struct strided *s, size_t bytes)
{
    if (s->nblocks == 0 || s->bsize == 0) {
        move_nothing(t);
        return;
    }
    iso_target_check_local(s->dest, "dest", t->call);
    struct rma_blocks b = rma_blocks_of(s, bytes, t->call);
    struct place from = iso_target_place(t, s->source, span(&b, b.sst), "source");
    if (ISO_LIKELY(from.cpu != NULL) && !iso_far_is_local(b.dest)) {
        b.source = from.cpu;
        copy_blocks(&b);
        return;
    }
    for (size_t i = 0; i < b.n; i++)
        iso_far_get_nbi(t->ctx, iso_place_behind(from, i * b.sst), b.dest + i * b.dst, b.len, t->call);
    iso_far_pe_quiet(t->ctx, from.pe);
}

static void strided_put(const struct target *t, const struct strided *s, size_t bytes)
{
    size_t whole = times(times(s->bsize, s->nblocks), bytes);
    struct profile_span span = iso_target_count(PROFILE_IPUT, t, s->dest, whole);
    put_blocks(t, s, bytes);
    iso_profile_leave(&span);
}

static void strided_get(const struct target *t, const struct strided *s, size_t bytes)
{
    size_t whole = times(times(s->bsize, s->nblocks), bytes);
    struct profile_span span = iso_target_count(PROFILE_IGET, t, s->source, whole);
    get_blocks(t, s, bytes);
    iso_profile_leave(&span);
}

/* ---- stamps ---- */

#define COPY(name, T, bytes, core, how)                                              \
    ISO_TARGET_FORMS(void, name, (T * dest, const T *source, size_t nelems, int pe), \
                     core(&target, dest, source, iso_target_bytes(nelems, bytes), &how);)
#define STRIDED(name, T, bytes, core)                                                                              \
    ISO_TARGET_FORMS(void, name, (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
                     core(&target, &(struct strided){dest, source, dst, sst, 1, nelems}, bytes);)
#define BLOCKS(name, T, bytes, core)                                                                                  \
    ISO_TARGET_FORMS(void, name,                                                                                      \
                     (T * dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe), \
                     core(&target, &(struct strided){dest, source, dst, sst, bsize, nblocks}, bytes);)

#define TYPED(NAME, TYPE, ...)                                                                                   \
    COPY(NAME##_put, TYPE, sizeof(TYPE), put_by, blocking_put)                                                   \
    COPY(NAME##_get, TYPE, sizeof(TYPE), get_by, blocking_get)                                                   \
    COPY(NAME##_put_nbi, TYPE, sizeof(TYPE), put_by, nbi_put)                                                    \
    COPY(NAME##_get_nbi, TYPE, sizeof(TYPE), get_by, nbi_get)                                                    \
    ISO_TARGET_FORMS(void, NAME##_p, (TYPE * dest, TYPE value, int pe), p(&target, dest, &value, sizeof value);) \
    ISO_TARGET_FORMS(TYPE, NAME##_g, (const TYPE *source, int pe), TYPE value;                                   \
                     g(&target, &value, source, sizeof value); return value;)                                    \
    STRIDED(NAME##_iput, TYPE, sizeof(TYPE), strided_put)                                                        \
    STRIDED(NAME##_iget, TYPE, sizeof(TYPE), strided_get)                                                        \
    BLOCKS(NAME##_ibput, TYPE, sizeof(TYPE), strided_put)                                                        \
    BLOCKS(NAME##_ibget, TYPE, sizeof(TYPE), strided_get)
SHMEM_RMA_TYPES(TYPED, )

#define SIZED_COPY(BITS, BYTES, ...)                    \
    COPY(put##BITS, void, BYTES, put_by, blocking_put)  \
    COPY(get##BITS, void, BYTES, get_by, blocking_get)  \
    COPY(put##BITS##_nbi, void, BYTES, put_by, nbi_put) \
    COPY(get##BITS##_nbi, void, BYTES, get_by, nbi_get)
SHMEM_SIZES(SIZED_COPY, )
SIZED_COPY(mem, 1, )

#define SIZED_STRIDED(BITS, BYTES, ...)           \
    STRIDED(iput##BITS, void, BYTES, strided_put) \
    STRIDED(iget##BITS, void, BYTES, strided_get) \
    BLOCKS(ibput##BITS, void, BYTES, strided_put) \
    BLOCKS(ibget##BITS, void, BYTES, strided_get)
SHMEM_SIZES(SIZED_STRIDED, )
