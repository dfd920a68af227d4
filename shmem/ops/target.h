/* SPDX-License-Identifier: MIT */
/* The checks at the start of every one-sided call, and the stamp for its two public forms, on the default context and
 * on a given one. Included by rma.c, amo.c, signal.c and p2p.c. */
#ifndef ISO_TARGET_H
#define ISO_TARGET_H

#include "../profile/profile.h"
#include "../transport/far.h"

#include <string.h>

struct target {
    struct ctx *ctx;
    const char *call; /* for messages */
    int pe;           /* as the user gave it: in the context's team, unchecked */
};

/* What a target has besides its PE. The slow halves get their arguments by pairs of words, which travel in registers, so
 * that the fast halves store nothing. */
struct who {
    struct ctx *ctx;
    const char *call;
};
#define ISO_WHO(t) ((struct who){(t)->ctx, (t)->call})

/* Known when it is compiled: the form without a context. */
#define ISO_TARGET_IS_DEFAULT(t) \
    (__builtin_constant_p((t)->ctx == &ISO->ctx_default) && (t)->ctx == &ISO->ctx_default)

/* World PE of a target that is in range. */
ISO_INLINE int iso_target_pe(const struct target *t)
{
    return t->ctx == &ISO->ctx_default ? t->pe : t->ctx->world_of[t->pe];
}

/* The fast half of iso_place: where this CPU loads and stores [addr, addr + len) of the target. NULL: the case is not
 * ordinary (PE out of range, not the heap or the data segment, no pointer, misaligned, not running), and the caller's
 * slow half finds out. The caller asks for state.odd_words or odd_memory. Calls no function, so that callers are
 * leaves. */
ISO_INLINE char *iso_target_seek(const struct target *t, const void *addr, size_t len, size_t align)
{
    const struct state *self = ISO;
    const struct segment *s = self->segments;
    if (ISO_UNLIKELY((unsigned)t->pe >= (unsigned)t->ctx->n_pes) ||
        ISO_UNLIKELY((self->life != LIFE_RUNNING) | (((uintptr_t)addr & (align - 1)) != 0)))
        return NULL;
    s += (size_t)((const char *)addr - s[SEGMENT_INDEX_DATA].base) < s[SEGMENT_INDEX_DATA].limit;
    size_t offset = (size_t)((const char *)addr - s->base);
    if (ISO_UNLIKELY(offset >= s->limit) || ISO_UNLIKELY(len > s->limit - offset))
        return NULL;
    char *cpu = __atomic_load_n(&s->peers[iso_target_pe(t)].cpu_ptr, __ATOMIC_RELAXED);
    return ISO_LIKELY(cpu != NULL) ? cpu + offset : NULL;
}

/* For calls whose other side is a value. */
ISO_INLINE char *iso_target_near(const struct target *t, const void *addr, size_t len, size_t align)
{
    return ISO_LIKELY(!ISO->odd_words) ? iso_target_seek(t, addr, len, align) : NULL;
}

/* For calls whose other side is local memory: while a device runs that may be memory which the CPU cannot load. */
ISO_INLINE char *iso_target_near_memory(const struct target *t, const void *addr, size_t len, size_t align)
{
    return ISO_LIKELY(!ISO->odd_memory) ? iso_target_seek(t, addr, len, align) : NULL;
}

/* Where calls are counted, that alone may be why a fast half was left: its slow half gets what the fast half has found,
 * and asks here, `odd` being the flag of the other reasons. True: the call is counted, and is to be done there as the
 * fast half does it. False: the rest of the slow half does it, and counts it by iso_target_count .. iso_profile_leave;
 * it may be the turn of this call to be timed. */
ISO_INLINE bool iso_target_is_counted(enum profile_call call, const bool *odd, const struct target *t, const char *near,
                                      size_t len)
{
    return near != NULL && !*odd && iso_profile_count(call, len, iso_target_pe(t));
}
/* `addr`: what it writes first, of a put with a signal: the signal. A PE outside of the job counts nowhere: the call
 * refuses it. */
ISO_INLINE struct profile_span iso_target_count(enum profile_call call, const struct target *t, const void *addr,
                                                size_t bytes)
{
    struct profile_span span;
    span.block = NULL;
    if (ISO->profile == NULL)
        return span;
    struct profile_block *b = iso_profile_block();
    int pe = (unsigned)t->pe < (unsigned)t->ctx->n_pes ? iso_target_pe(t) : -1;
    if (pe >= 0)
        iso_profile_add_to(b, call, bytes, pe);
    span = iso_profile_start_span(b, call, t->call, bytes);
    span.pe = pe;
    span.key = (uint64_t)(uintptr_t)addr;
    span.more = call == PROFILE_PUT_SIGNAL ? 8 : bytes;
    return span;
}

/* Bytes of n elements; what does not fit becomes SIZE_MAX, which no segment holds. */
ISO_INLINE size_t iso_target_bytes(size_t n, size_t bytes)
{
    return ISO_UNLIKELY(n > SIZE_MAX / bytes) ? SIZE_MAX : n * bytes;
}

/* One word is the case that latency is measured by; memcpy would spend its time on finding that out. */
ISO_INLINE void iso_target_copy(void *to, const void *from, size_t len)
{
    if (len == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, len);
}

#define ISO_NOINLINE __attribute__((noinline))

/* The slow half: all checks, all segments. place.cpu may be NULL: iso_far_ then. */
ISO_INLINE struct place iso_target_place(const struct target *t, const void *addr, size_t len, const char *arg)
{
    return iso_place(addr, len, iso_world_pe(t->ctx, t->pe, t->call), t->call, arg);
}

/* Local memory that a call reads or writes. */
ISO_INLINE void iso_target_check_local(const void *addr, const char *arg, const char *call)
{
    if (ISO_CHECKS && ISO_UNLIKELY(addr == NULL))
        iso_fatal(call, "%s is null", arg);
}

/* Local memory that the CPU itself writes, as the word that an atomic fetches. */
ISO_INLINE void iso_target_check_host(const void *addr, const char *arg, const char *call)
{
    iso_target_check_local(addr, arg, call);
    if (ISO_CHECKS && ISO_UNLIKELY(iso_far_is_local(addr)))
        iso_fatal(call, "%s %p is device memory; it must be memory of the host", arg, addr);
}

/* Defines shmem_name(args) and shmem_ctx_name(ctx, args), R their result; args stand in parentheses and contain `pe`.
 * The rest is the body, one line that uses `target` and args. _DEFAULT: the first form alone. */
#define ISO_TARGET_STRIP(...) __VA_ARGS__
#define ISO_TARGET_DEFAULT(R, name, args, ...)                          \
    SHMEM_API(shmem_##name, pshmem_##name);                             \
    R pshmem_##name(ISO_TARGET_STRIP args)                              \
    {                                                                   \
        const struct target target = {&ISO->ctx_default, __func__, pe}; \
        __VA_ARGS__                                                     \
    }
#define ISO_TARGET_FORMS(R, name, args, ...)                                 \
    ISO_TARGET_DEFAULT(R, name, args, __VA_ARGS__)                           \
    SHMEM_API(shmem_ctx_##name, pshmem_ctx_##name);                          \
    R pshmem_ctx_##name(shmem_ctx_t ctx, ISO_TARGET_STRIP args)              \
    {                                                                        \
        const struct target target = {iso_ctx(ctx, __func__), __func__, pe}; \
        __VA_ARGS__                                                          \
    }

#endif
