/* SPDX-License-Identifier: MIT */
/* All atomic memory operations as rows of a table: one function for each TYPENAME and family (extended, standard,
 * bitwise), which takes the operation as a number, values as bit patterns, and the context by pointer (NULL: the form
 * without one). Nonblocking forms are completed by a quiet before they return. */
#ifndef AMO_TABLE_H
#define AMO_TABLE_H

#include <shmem.h>
#include <shmem_types.h>
#include <stdbool.h>
#include <string.h>

enum amo {
    FETCH,
    SET,
    SWAP,
    FETCH_NBI,
    SWAP_NBI, /* extended */
    CSWAP,
    FINC,
    INC,
    FADD,
    ADD,
    CSWAP_NBI,
    FINC_NBI,
    FADD_NBI, /* standard */
    FAND,
    AND,
    FOR,
    OR,
    FXOR,
    XOR,
    FAND_NBI,
    FOR_NBI,
    FXOR_NBI, /* bitwise */
    AMOS
};

struct amo_row {
    const char *name;
    size_t size;
    enum amo first, end;
    /* The old value, 0 for operations that fetch nothing. */
    uint64_t (*call)(const shmem_ctx_t *ctx, enum amo amo, void *dest, uint64_t compare, uint64_t value, int pe);
};

/* shmem_NAME(...) or shmem_ctx_NAME(*ctx, ...), as an expression. */
#define AMO(NAME, ...) (ctx != NULL ? shmem_ctx_##NAME(*ctx, __VA_ARGS__) : shmem_##NAME(__VA_ARGS__))
#define AMO_QUIET() shmem_ctx_quiet(ctx != NULL ? *ctx : SHMEM_CTX_DEFAULT)

#define AMO_BEGIN(FAMILY, NAME, TYPE)                                                                         \
    static uint64_t amo_##FAMILY##_##NAME(const shmem_ctx_t *ctx, enum amo amo, void *dest, uint64_t compare, \
                                          uint64_t value, int pe)                                             \
    {                                                                                                         \
        TYPE *at = (TYPE *)dest;                                                                              \
        TYPE old, v, c;                                                                                       \
        uint64_t bits = 0;                                                                                    \
        memset(&old, 0, sizeof(old));                                                                         \
        memcpy(&v, &value, sizeof(v)); /* the low bytes: little endian */                                     \
        memcpy(&c, &compare, sizeof(c));                                                                      \
        (void)c;                                                                                              \
        switch (amo) {
#define AMO_END()                         \
    default:                              \
        break;                            \
        }                                 \
        memcpy(&bits, &old, sizeof(old)); \
        return bits;                      \
        }
/* One case: an operation that fetches, one that does not, one that fetches without blocking. */
#define AMO_GETS(OP, CALL, ...)              \
    case OP:                                 \
        old = AMO(CALL, at __VA_ARGS__, pe); \
        break;
#define AMO_ONLY(OP, CALL, ...)        \
    case OP:                           \
        AMO(CALL, at __VA_ARGS__, pe); \
        break;
#define AMO_LATER(OP, CALL, ...)             \
    case OP:                                 \
        AMO(CALL, &old, at __VA_ARGS__, pe); \
        AMO_QUIET();                         \
        break;
#define AMO_VALUE , v
#define AMO_BOTH , c, v

#define AMO_EXTENDED(NAME, TYPE, ...)                      \
    AMO_BEGIN(ext, NAME, TYPE)                             \
    AMO_GETS(FETCH, NAME##_atomic_fetch, )                 \
    AMO_ONLY(SET, NAME##_atomic_set, AMO_VALUE)            \
    AMO_GETS(SWAP, NAME##_atomic_swap, AMO_VALUE)          \
    AMO_LATER(FETCH_NBI, NAME##_atomic_fetch_nbi, )        \
    AMO_LATER(SWAP_NBI, NAME##_atomic_swap_nbi, AMO_VALUE) \
    AMO_END()

#define AMO_STANDARD(NAME, TYPE, ...)                              \
    AMO_BEGIN(std, NAME, TYPE)                                     \
    AMO_GETS(CSWAP, NAME##_atomic_compare_swap, AMO_BOTH)          \
    AMO_GETS(FINC, NAME##_atomic_fetch_inc, )                      \
    AMO_ONLY(INC, NAME##_atomic_inc, )                             \
    AMO_GETS(FADD, NAME##_atomic_fetch_add, AMO_VALUE)             \
    AMO_ONLY(ADD, NAME##_atomic_add, AMO_VALUE)                    \
    AMO_LATER(CSWAP_NBI, NAME##_atomic_compare_swap_nbi, AMO_BOTH) \
    AMO_LATER(FINC_NBI, NAME##_atomic_fetch_inc_nbi, )             \
    AMO_LATER(FADD_NBI, NAME##_atomic_fetch_add_nbi, AMO_VALUE)    \
    AMO_END()

#define AMO_BITWISE(NAME, TYPE, ...)                            \
    AMO_BEGIN(bit, NAME, TYPE)                                  \
    AMO_GETS(FAND, NAME##_atomic_fetch_and, AMO_VALUE)          \
    AMO_ONLY(AND, NAME##_atomic_and, AMO_VALUE)                 \
    AMO_GETS(FOR, NAME##_atomic_fetch_or, AMO_VALUE)            \
    AMO_ONLY(OR, NAME##_atomic_or, AMO_VALUE)                   \
    AMO_GETS(FXOR, NAME##_atomic_fetch_xor, AMO_VALUE)          \
    AMO_ONLY(XOR, NAME##_atomic_xor, AMO_VALUE)                 \
    AMO_LATER(FAND_NBI, NAME##_atomic_fetch_and_nbi, AMO_VALUE) \
    AMO_LATER(FOR_NBI, NAME##_atomic_fetch_or_nbi, AMO_VALUE)   \
    AMO_LATER(FXOR_NBI, NAME##_atomic_fetch_xor_nbi, AMO_VALUE) \
    AMO_END()

SHMEM_EXT_TYPES(AMO_EXTENDED, )
SHMEM_STD_TYPES(AMO_STANDARD, )
SHMEM_BIT_TYPES(AMO_BITWISE, )

#define AMO_EXT_ROW(NAME, TYPE, ...) {#NAME, sizeof(TYPE), FETCH, CSWAP, amo_ext_##NAME},
#define AMO_STD_ROW(NAME, TYPE, ...) {#NAME, sizeof(TYPE), CSWAP, FAND, amo_std_##NAME},
#define AMO_BIT_ROW(NAME, TYPE, ...) {#NAME, sizeof(TYPE), FAND, AMOS, amo_bit_##NAME},

static const struct amo_row amo_table[] = {SHMEM_EXT_TYPES(AMO_EXT_ROW, ) SHMEM_STD_TYPES(AMO_STD_ROW, )
                                               SHMEM_BIT_TYPES(AMO_BIT_ROW, )};
enum { AMO_ROWS = sizeof(amo_table) / sizeof(amo_table[0]) };

static inline uint64_t amo_mask(size_t size) { return size == 8 ? UINT64_MAX : 0xffffffffu; }

/* What the word holds after the operation. */
static inline uint64_t amo_model(enum amo amo, uint64_t old, uint64_t compare, uint64_t value)
{
    switch (amo) {
    case SET:
    case SWAP:
    case SWAP_NBI:
        return value;
    case CSWAP:
    case CSWAP_NBI:
        return old == compare ? value : old;
    case FINC:
    case INC:
    case FINC_NBI:
        return old + 1;
    case FADD:
    case ADD:
    case FADD_NBI:
        return old + value;
    case FAND:
    case AND:
    case FAND_NBI:
        return old & value;
    case FOR:
    case OR:
    case FOR_NBI:
        return old | value;
    case FXOR:
    case XOR:
    case FXOR_NBI:
        return old ^ value;
    default:
        return old;
    }
}

static inline bool amo_fetches(enum amo amo)
{
    return amo != SET && amo != INC && amo != ADD && amo != AND && amo != OR && amo != XOR;
}

/* Floating-point words travel through registers of that type: keep clear of signalling NaNs. */
static inline uint64_t amo_value(const struct amo_row *row, uint64_t random)
{
    bool real = strcmp(row->name, "float") == 0 || strcmp(row->name, "double") == 0;
    uint64_t value = random & amo_mask(row->size);
    return real ? value & (row->size == 8 ? 0xbfefffffffffffffu : 0xbf7fffffu) : value;
}

#endif
