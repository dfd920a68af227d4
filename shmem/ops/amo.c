/* SPDX-License-Identifier: MIT */
/* Atomic memory operations (section 9.7), also the non-blocking and the deprecated ones. One core, stamped over
 * operations, types and contexts: a look-up, then a CPU atomic where this CPU has a pointer, else iso_far_amo. A word
 * belongs to the processor of its memory: host words see CPU atomics only, from any PE. Values travel as bits, so float
 * and double need no code of their own. By pointer the non-blocking forms are the blocking ones: the value is there at
 * once. */
#include "target.h"
#include "../transport/word.h"

#define T word32
#define DIRECT direct32
#include "../transport/amo_direct.h"
#define T word64
#define DIRECT direct64
#include "../transport/amo_direct.h"

ISO_INLINE uint64_t direct(char *at, struct amo op)
{
    return op.bytes == 4 ? direct32((word32 *)(void *)at, op) : direct64((word64 *)(void *)at, op);
}

/* The word as the caller names it, and how the call names the argument. */
struct amo_word {
    const void *addr;
    const char *arg;
};

static ISO_NOINLINE uint64_t amo_checked(struct target t, struct amo_word word, struct amo op)
{
    struct profile_span span = iso_target_count(PROFILE_ATOMIC, &t, word.addr, op.bytes);
    struct place at = iso_target_place(&t, word.addr, op.bytes, word.arg);
    iso_check_aligned(t.call, word.arg, word.addr, op.bytes);
    uint64_t before = at.cpu != NULL ? direct(at.cpu, op) : iso_far_amo(t.ctx, at, op, t.call);
    iso_profile_leave(&span);
    return before;
}

/* `at`: what the fast half has found, NULL for nothing. */
static ISO_NOINLINE uint64_t amo_slow(struct who who, int pe, char *at, struct amo_word word, struct amo op)
{
    const struct target t = {who.ctx, who.call, pe};
    return iso_target_is_counted(PROFILE_ATOMIC, &ISO->debug, &t, at, op.bytes) ? direct(at, op)
                                                                                : amo_checked(t, word, op);
}

/* The value arrives later only without a pointer. */
static ISO_NOINLINE void amo_nbi_slow(struct target t, struct amo_word word, struct amo op, void *fetch)
{
    struct profile_span span = iso_target_count(PROFILE_ATOMIC, &t, word.addr, op.bytes);
    struct place at = iso_target_place(&t, word.addr, op.bytes, word.arg);
    iso_check_aligned(t.call, word.arg, word.addr, op.bytes);
    if (at.cpu != NULL)
        iso_word_to(fetch, direct(at.cpu, op), op.bytes);
    else
        iso_far_amo_nbi(t.ctx, at, op, fetch, t.call);
    iso_profile_leave(&span);
}

ISO_INLINE void amo_nbi(const struct target *t, struct amo_word word, struct amo op, void *fetch)
{
    char *at = iso_target_near(t, word.addr, op.bytes, op.bytes);
    if (ISO_LIKELY(at != NULL))
        iso_word_to(fetch, direct(at, op), op.bytes);
    else
        amo_nbi_slow(*t, word, op, fetch);
}

ISO_INLINE uint64_t amo(const struct target *t, struct amo_word word, struct amo op)
{
    char *at = iso_target_seek(t, word.addr, op.bytes, op.bytes);
    return ISO_LIKELY(at != NULL) && ISO_LIKELY(!ISO->odd_words) ? direct(at, op)
                                                                 : amo_slow(ISO_WHO(t), t->pe, at, word, op);
}

/* ---- stamps: the three ways a call ends ---- */

#define BITS(value) iso_word_of(&(value), sizeof(value))
#define WORD(addr_) \
    (struct amo_word) { .addr = addr_, .arg = #addr_ }
/* struct amo of a stamp; compare is 0 but for compare_swap */
#define OP(op_, TYPE, operand_, compare_, fetches_) \
    (struct amo) { .op = op_, .bytes = sizeof(TYPE), .operand = operand_, .compare = compare_, .fetches = fetches_ }

#define UPDATE(op_, TYPE, operand_) (void)amo(&target, WORD(dest), OP(op_, TYPE, operand_, 0, false));
#define RETURN(op_, TYPE, addr, operand_, compare_)                                                         \
    TYPE before;                                                                                            \
    iso_word_to(&before, amo(&target, WORD(addr), OP(op_, TYPE, operand_, compare_, true)), sizeof before); \
    return before;
#define FETCH(op_, TYPE, addr, operand_, compare_)      \
    iso_target_check_host(fetch, "fetch", target.call); \
    amo_nbi(&target, WORD(addr), OP(op_, TYPE, operand_, compare_, true), fetch);

/* fetch, set, swap */
#define EXTENDED(N, TYPE, ...)                                                                                    \
    ISO_TARGET_FORMS(TYPE, N##_atomic_fetch, (const TYPE *source, int pe), RETURN(AMO_FETCH, TYPE, source, 0, 0)) \
    ISO_TARGET_FORMS(void, N##_atomic_fetch_nbi, (TYPE * fetch, const TYPE *source, int pe),                      \
                     FETCH(AMO_FETCH, TYPE, source, 0, 0))                                                        \
    ISO_TARGET_FORMS(void, N##_atomic_set, (TYPE * dest, TYPE value, int pe), UPDATE(AMO_SET, TYPE, BITS(value))) \
    ISO_TARGET_FORMS(TYPE, N##_atomic_swap, (TYPE * dest, TYPE value, int pe),                                    \
                     RETURN(AMO_SWAP, TYPE, dest, BITS(value), 0))                                                \
    ISO_TARGET_FORMS(void, N##_atomic_swap_nbi, (TYPE * fetch, TYPE * dest, TYPE value, int pe),                  \
                     FETCH(AMO_SWAP, TYPE, dest, BITS(value), 0))
SHMEM_EXT_TYPES(EXTENDED, )

/* An arithmetic or bitwise operation: name, fetch_name, fetch_name_nbi. */
#define VALUE(N, TYPE, name, fetch_name)                                                                            \
    ISO_TARGET_FORMS(void, N##_##name, (TYPE * dest, TYPE value, int pe), UPDATE(AMO_OF_##name, TYPE, BITS(value))) \
    ISO_TARGET_FORMS(TYPE, N##_##fetch_name, (TYPE * dest, TYPE value, int pe),                                     \
                     RETURN(AMO_OF_##name, TYPE, dest, BITS(value), 0))                                             \
    ISO_TARGET_FORMS(void, N##_##fetch_name##_nbi, (TYPE * fetch, TYPE * dest, TYPE value, int pe),                 \
                     FETCH(AMO_OF_##name, TYPE, dest, BITS(value), 0))
#define AMO_OF_atomic_add AMO_ADD
#define AMO_OF_atomic_and AMO_AND
#define AMO_OF_atomic_or AMO_OR
#define AMO_OF_atomic_xor AMO_XOR

/* compare_swap, inc, add */
#define STANDARD(N, TYPE, ...)                                                                                      \
    ISO_TARGET_FORMS(TYPE, N##_atomic_compare_swap, (TYPE * dest, TYPE cond, TYPE value, int pe),                   \
                     RETURN(AMO_CSWAP, TYPE, dest, BITS(value), BITS(cond)))                                        \
    ISO_TARGET_FORMS(void, N##_atomic_compare_swap_nbi, (TYPE * fetch, TYPE * dest, TYPE cond, TYPE value, int pe), \
                     FETCH(AMO_CSWAP, TYPE, dest, BITS(value), BITS(cond)))                                         \
    ISO_TARGET_FORMS(void, N##_atomic_inc, (TYPE * dest, int pe), UPDATE(AMO_ADD, TYPE, 1))                         \
    ISO_TARGET_FORMS(TYPE, N##_atomic_fetch_inc, (TYPE * dest, int pe), RETURN(AMO_ADD, TYPE, dest, 1, 0))          \
    ISO_TARGET_FORMS(void, N##_atomic_fetch_inc_nbi, (TYPE * fetch, TYPE * dest, int pe),                           \
                     FETCH(AMO_ADD, TYPE, dest, 1, 0))                                                              \
    VALUE(N, TYPE, atomic_add, atomic_fetch_add)
SHMEM_STD_TYPES(STANDARD, )

#define BITWISE(name, fetch_name, ...) SHMEM_BIT_TYPES(BITWISE_TYPE, name, fetch_name)
#define BITWISE_TYPE(N, TYPE, name, fetch_name) VALUE(N, TYPE, name, fetch_name)
SHMEM_BIT_OPS(BITWISE, )

/* Deprecated names, on the default context only. */
#define OLD_EXTENDED(N, TYPE, ...)                                                                           \
    ISO_TARGET_DEFAULT(TYPE, N##_fetch, (const TYPE *source, int pe), RETURN(AMO_FETCH, TYPE, source, 0, 0)) \
    ISO_TARGET_DEFAULT(void, N##_set, (TYPE * dest, TYPE value, int pe), UPDATE(AMO_SET, TYPE, BITS(value))) \
    ISO_TARGET_DEFAULT(TYPE, N##_swap, (TYPE * dest, TYPE value, int pe), RETURN(AMO_SWAP, TYPE, dest, BITS(value), 0))
SHMEM_OLD_EXT_TYPES(OLD_EXTENDED, )
#define OLD_STANDARD(N, TYPE, ...)                                                                                     \
    ISO_TARGET_DEFAULT(TYPE, N##_cswap, (TYPE * dest, TYPE cond, TYPE value, int pe),                                  \
                       RETURN(AMO_CSWAP, TYPE, dest, BITS(value), BITS(cond)))                                         \
    ISO_TARGET_DEFAULT(TYPE, N##_finc, (TYPE * dest, int pe), RETURN(AMO_ADD, TYPE, dest, 1, 0))                       \
    ISO_TARGET_DEFAULT(void, N##_inc, (TYPE * dest, int pe), UPDATE(AMO_ADD, TYPE, 1))                                 \
    ISO_TARGET_DEFAULT(TYPE, N##_fadd, (TYPE * dest, TYPE value, int pe), RETURN(AMO_ADD, TYPE, dest, BITS(value), 0)) \
    ISO_TARGET_DEFAULT(void, N##_add, (TYPE * dest, TYPE value, int pe), UPDATE(AMO_ADD, TYPE, BITS(value)))
SHMEM_OLD_STD_TYPES(OLD_STANDARD, )
