/* SPDX-License-Identifier: MIT */
/* All C types of OpenSHMEM and the operations that each type has: the only place where a type name is spelled. There
 * are two master lists with one line for each type. Every other table is a filter over their columns, so a new type is
 * one line.
 *
 * A table is an X-macro: SHMEM_RMA_TYPES(X, extra...) stamps X(NAME, TYPE, extra...) for each of its rows. X takes
 * `...` at its end, and at least one extra argument is given (an empty one will do), as -Wpedantic demands. X must not
 * use a table itself: a macro does not expand inside its own expansion.
 *
 * Macros only, and no include: device compilers read it too. A file that stamps from a table has size_t and int8_t
 * declared, and SHMEM_COMPLEX(T) where complex types are in the table (shmem.h does all of it). */
#ifndef SHMEM_TYPES_H
#define SHMEM_TYPES_H

/* ---- the master lists ----
 * Columns: NAME in function names, C TYPE, then
 * AMO: AMO_NONE; AMO_EXT fetch, set, swap; AMO_STD also compare_swap, inc, add, wait and test; AMO_BIT also and, or,
 * xor; AMO_BIT_SIGNED the same for a signed alias. RED (team reductions): RED_ARITH max, min, sum, prod; RED_LOGIC also
 * and, or, xor; RED_LOGIC_SIGNED likewise. OLD (deprecated families): OLD_NONE; OLD_REAL, OLD_LONG_REAL floating point;
 * OLD_SHORT, OLD_INT signed integers; OLD_USHORT, which has wait_until and test only.
 *
 * The first list holds each C type once: _Generic and C++ overloads are made from it. The second holds second names of
 * types in the first. Where a family has a signed type only under its second name (int32_t has bitwise atomics, int has
 * not), the _SIGNED marks put that name into the family's distinct types. */
#define SHMEM_DISTINCT_TYPES(X, ...)                                            \
    X(float, float, AMO_EXT, RED_ARITH, OLD_REAL, __VA_ARGS__)                  \
    X(double, double, AMO_EXT, RED_ARITH, OLD_REAL, __VA_ARGS__)                \
    X(longdouble, long double, AMO_NONE, RED_ARITH, OLD_LONG_REAL, __VA_ARGS__) \
    X(char, char, AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__)                   \
    X(schar, signed char, AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__)           \
    X(short, short, AMO_NONE, RED_ARITH, OLD_SHORT, __VA_ARGS__)                \
    X(int, int, AMO_STD, RED_ARITH, OLD_INT, __VA_ARGS__)                       \
    X(long, long, AMO_STD, RED_ARITH, OLD_INT, __VA_ARGS__)                     \
    X(longlong, long long, AMO_STD, RED_ARITH, OLD_INT, __VA_ARGS__)            \
    X(uchar, unsigned char, AMO_NONE, RED_LOGIC, OLD_NONE, __VA_ARGS__)         \
    X(ushort, unsigned short, AMO_NONE, RED_LOGIC, OLD_USHORT, __VA_ARGS__)     \
    X(uint, unsigned int, AMO_BIT, RED_LOGIC, OLD_NONE, __VA_ARGS__)            \
    X(ulong, unsigned long, AMO_BIT, RED_LOGIC, OLD_NONE, __VA_ARGS__)          \
    X(ulonglong, unsigned long long, AMO_BIT, RED_LOGIC, OLD_NONE, __VA_ARGS__)

#define SHMEM_ALIAS_TYPES(X, ...)                                              \
    X(int8, int8_t, AMO_NONE, RED_LOGIC_SIGNED, OLD_NONE, __VA_ARGS__)         \
    X(int16, int16_t, AMO_NONE, RED_LOGIC_SIGNED, OLD_NONE, __VA_ARGS__)       \
    X(int32, int32_t, AMO_BIT_SIGNED, RED_LOGIC_SIGNED, OLD_NONE, __VA_ARGS__) \
    X(int64, int64_t, AMO_BIT_SIGNED, RED_LOGIC_SIGNED, OLD_NONE, __VA_ARGS__) \
    X(uint8, uint8_t, AMO_NONE, RED_LOGIC, OLD_NONE, __VA_ARGS__)              \
    X(uint16, uint16_t, AMO_NONE, RED_LOGIC, OLD_NONE, __VA_ARGS__)            \
    X(uint32, uint32_t, AMO_BIT, RED_LOGIC, OLD_NONE, __VA_ARGS__)             \
    X(uint64, uint64_t, AMO_BIT, RED_LOGIC, OLD_NONE, __VA_ARGS__)             \
    X(size, size_t, AMO_STD, RED_LOGIC, OLD_NONE, __VA_ARGS__)                 \
    X(ptrdiff, ptrdiff_t, AMO_STD, RED_ARITH, OLD_NONE, __VA_ARGS__)

/* Complex types have sum and product only, so no filter reads their columns. */
#define SHMEM_COMPLEX_LIST(X, ...)                                                \
    X(complexf, SHMEM_COMPLEX(float), AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__) \
    X(complexd, SHMEM_COMPLEX(double), AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__)

/* Types of kernels only, as bits. They move, and coll/ reduces them. shmem_device.h makes their C types. */
#define SHMEM_HALF_LIST(X, ...)                                        \
    X(half, shmemd_half_t, AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__) \
    X(bfloat16, shmemd_bfloat16_t, AMO_NONE, RED_ARITH, OLD_NONE, __VA_ARGS__)

/* Fixed-size forms: X(BITS, BYTES, ...). The deprecated active-set collectives have the second list only. */
#define SHMEM_SIZES(X, ...) \
    X(8, 1, __VA_ARGS__)    \
    X(16, 2, __VA_ARGS__)   \
    X(32, 4, __VA_ARGS__)   \
    X(64, 8, __VA_ARGS__)   \
    X(128, 16, __VA_ARGS__)
#define SHMEM_SET_SIZES(X, ...) \
    X(32, 4, __VA_ARGS__)       \
    X(64, 8, __VA_ARGS__)

/* ---- operations: X(names, extra...) ---- */

/* Bitwise atomics: whole words, because `and` is a token of C++ and a macro of iso646.h. */
#define SHMEM_BIT_OPS(X, ...)                    \
    X(atomic_and, atomic_fetch_and, __VA_ARGS__) \
    X(atomic_or, atomic_fetch_or, __VA_ARGS__)   \
    X(atomic_xor, atomic_fetch_xor, __VA_ARGS__)

/* Team reductions X(reduce name, active-set name, tables SHMEM_G_TYPES and SHMEM_SET_G_TYPES): a new operator is a line
 * here and a body in coll/. */
#define SHMEM_REDUCE_OPS(X, ...)                   \
    X(and_reduce, and_to_all, LOGIC, __VA_ARGS__)  \
    X(or_reduce, or_to_all, LOGIC, __VA_ARGS__)    \
    X(xor_reduce, xor_to_all, LOGIC, __VA_ARGS__)  \
    X(max_reduce, max_to_all, MINMAX, __VA_ARGS__) \
    X(min_reduce, min_to_all, MINMAX, __VA_ARGS__) \
    X(sum_reduce, sum_to_all, SUM, __VA_ARGS__)    \
    X(prod_reduce, prod_to_all, SUM, __VA_ARGS__)

/* Scans, over the types of SUM. */
#define SHMEM_SCAN_OPS(X, ...) \
    X(sum_inscan, __VA_ARGS__) \
    X(sum_exscan, __VA_ARGS__)

/* Waits for and tests of arrays: X(result, name); each also as name_vector. ALL takes no indices, SOME does. */
#define SHMEM_ARRAY_WAIT_OPS(X, ...)       \
    X(void, wait_until_all, __VA_ARGS__)   \
    X(size_t, wait_until_any, __VA_ARGS__) \
    X(int, test_all, __VA_ARGS__)          \
    X(size_t, test_any, __VA_ARGS__)
#define SHMEM_ARRAY_SOME_OPS(X, ...) \
    X(wait_until_some, __VA_ARGS__)  \
    X(test_some, __VA_ARGS__)

/* ---- filters: a row passes to X, or is dropped, by the value of one column ---- */

#define SHMEM_KEEP(X, ...) X(__VA_ARGS__)
#define SHMEM_DROP(X, ...)

#define SHMEM_IF_ANY(NAME, TYPE, AMO, RED, OLD, X, ...) X(NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_ANY_(NAME, TYPE, AMO, RED, OLD, X, ...) X(_##NAME, TYPE, __VA_ARGS__)

/* fetch, set, swap */
#define SHMEM_IF_EXT(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_EXT_##AMO(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_EXT_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_EXT_##AMO(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_EXT_AMO_NONE SHMEM_DROP
#define SHMEM_IF_EXT_AMO_EXT SHMEM_KEEP
#define SHMEM_IF_EXT_AMO_STD SHMEM_KEEP
#define SHMEM_IF_EXT_AMO_BIT SHMEM_KEEP
#define SHMEM_IF_EXT_AMO_BIT_SIGNED SHMEM_KEEP

/* compare_swap, inc, add, wait, test */
#define SHMEM_IF_STD(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_STD_##AMO(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_STD_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_STD_##AMO(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_STD_AMO_NONE SHMEM_DROP
#define SHMEM_IF_STD_AMO_EXT SHMEM_DROP
#define SHMEM_IF_STD_AMO_STD SHMEM_KEEP
#define SHMEM_IF_STD_AMO_BIT SHMEM_KEEP
#define SHMEM_IF_STD_AMO_BIT_SIGNED SHMEM_KEEP

/* and, or, xor */
#define SHMEM_IF_BIT(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_BIT_##AMO(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_BIT_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_BIT_##AMO(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_BIT_AMO_NONE SHMEM_DROP
#define SHMEM_IF_BIT_AMO_EXT SHMEM_DROP
#define SHMEM_IF_BIT_AMO_STD SHMEM_DROP
#define SHMEM_IF_BIT_AMO_BIT SHMEM_KEEP
#define SHMEM_IF_BIT_AMO_BIT_SIGNED SHMEM_KEEP

/* bitwise, under a second name only */
#define SHMEM_IF_BIT_ALIAS_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_BIT_ALIAS_##AMO(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_BIT_ALIAS_AMO_NONE SHMEM_DROP
#define SHMEM_IF_BIT_ALIAS_AMO_EXT SHMEM_DROP
#define SHMEM_IF_BIT_ALIAS_AMO_STD SHMEM_DROP
#define SHMEM_IF_BIT_ALIAS_AMO_BIT SHMEM_DROP
#define SHMEM_IF_BIT_ALIAS_AMO_BIT_SIGNED SHMEM_KEEP

/* and, or, xor reductions */
#define SHMEM_IF_LOGIC(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_LOGIC_##RED(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_LOGIC_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_LOGIC_##RED(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_LOGIC_RED_ARITH SHMEM_DROP
#define SHMEM_IF_LOGIC_RED_LOGIC SHMEM_KEEP
#define SHMEM_IF_LOGIC_RED_LOGIC_SIGNED SHMEM_KEEP

/* such reductions, under a second name only */
#define SHMEM_IF_LOGIC_ALIAS_(NAME, TYPE, AMO, RED, OLD, X, ...) \
    SHMEM_IF_LOGIC_ALIAS_##RED(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_LOGIC_ALIAS_RED_ARITH SHMEM_DROP
#define SHMEM_IF_LOGIC_ALIAS_RED_LOGIC SHMEM_DROP
#define SHMEM_IF_LOGIC_ALIAS_RED_LOGIC_SIGNED SHMEM_KEEP

/* types that GPUs have: all but long double */
#define SHMEM_IF_DEVICE(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_DEVICE_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_DEVICE_OLD_NONE SHMEM_KEEP
#define SHMEM_IF_DEVICE_OLD_REAL SHMEM_KEEP
#define SHMEM_IF_DEVICE_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_DEVICE_OLD_SHORT SHMEM_KEEP
#define SHMEM_IF_DEVICE_OLD_INT SHMEM_KEEP
#define SHMEM_IF_DEVICE_OLD_USHORT SHMEM_KEEP

/* deprecated wait_until and test */
#define SHMEM_IF_P2P_SHORT(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_P2P_SHORT_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_P2P_SHORT_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_P2P_SHORT_##OLD(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_P2P_SHORT_OLD_NONE SHMEM_DROP
#define SHMEM_IF_P2P_SHORT_OLD_REAL SHMEM_DROP
#define SHMEM_IF_P2P_SHORT_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_P2P_SHORT_OLD_SHORT SHMEM_KEEP
#define SHMEM_IF_P2P_SHORT_OLD_INT SHMEM_DROP
#define SHMEM_IF_P2P_SHORT_OLD_USHORT SHMEM_KEEP

/* shmem_TYPE_wait */
#define SHMEM_IF_OLD_WAIT(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_OLD_WAIT_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_OLD_WAIT_OLD_NONE SHMEM_DROP
#define SHMEM_IF_OLD_WAIT_OLD_REAL SHMEM_DROP
#define SHMEM_IF_OLD_WAIT_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_OLD_WAIT_OLD_SHORT SHMEM_KEEP
#define SHMEM_IF_OLD_WAIT_OLD_INT SHMEM_KEEP
#define SHMEM_IF_OLD_WAIT_OLD_USHORT SHMEM_DROP

/* deprecated fetch, set, swap */
#define SHMEM_IF_OLD_EXT(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_OLD_EXT_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_OLD_EXT_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_OLD_EXT_##OLD(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_OLD_EXT_OLD_NONE SHMEM_DROP
#define SHMEM_IF_OLD_EXT_OLD_REAL SHMEM_KEEP
#define SHMEM_IF_OLD_EXT_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_OLD_EXT_OLD_SHORT SHMEM_DROP
#define SHMEM_IF_OLD_EXT_OLD_INT SHMEM_KEEP
#define SHMEM_IF_OLD_EXT_OLD_USHORT SHMEM_DROP

/* deprecated cswap, inc, add */
#define SHMEM_IF_OLD_STD(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_OLD_STD_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_OLD_STD_(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_OLD_STD_##OLD(X, _##NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_OLD_STD_OLD_NONE SHMEM_DROP
#define SHMEM_IF_OLD_STD_OLD_REAL SHMEM_DROP
#define SHMEM_IF_OLD_STD_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_OLD_STD_OLD_SHORT SHMEM_DROP
#define SHMEM_IF_OLD_STD_OLD_INT SHMEM_KEEP
#define SHMEM_IF_OLD_STD_OLD_USHORT SHMEM_DROP

/* active-set and, or, xor */
#define SHMEM_IF_SET_LOGIC(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_SET_LOGIC_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_SET_LOGIC_OLD_NONE SHMEM_DROP
#define SHMEM_IF_SET_LOGIC_OLD_REAL SHMEM_DROP
#define SHMEM_IF_SET_LOGIC_OLD_LONG_REAL SHMEM_DROP
#define SHMEM_IF_SET_LOGIC_OLD_SHORT SHMEM_KEEP
#define SHMEM_IF_SET_LOGIC_OLD_INT SHMEM_KEEP
#define SHMEM_IF_SET_LOGIC_OLD_USHORT SHMEM_DROP

/* active-set max, min */
#define SHMEM_IF_SET_MINMAX(NAME, TYPE, AMO, RED, OLD, X, ...) SHMEM_IF_SET_MINMAX_##OLD(X, NAME, TYPE, __VA_ARGS__)
#define SHMEM_IF_SET_MINMAX_OLD_NONE SHMEM_DROP
#define SHMEM_IF_SET_MINMAX_OLD_REAL SHMEM_KEEP
#define SHMEM_IF_SET_MINMAX_OLD_LONG_REAL SHMEM_KEEP
#define SHMEM_IF_SET_MINMAX_OLD_SHORT SHMEM_KEEP
#define SHMEM_IF_SET_MINMAX_OLD_INT SHMEM_KEEP
#define SHMEM_IF_SET_MINMAX_OLD_USHORT SHMEM_DROP

/* ---- the tables ----
 * SHMEM_F_TYPES: every name of the family, X(NAME, TYPE, ...), to stamp shmem_##NAME##_op.
 * SHMEM_F_DISTINCT: every C type once, X(_NAME, TYPE, ...), to stamp shmem##NAME##_op. The underscore is pasted on
 * before NAME can become a macro of the user's (uchar, ulong): the generics expand in the user's program. */

#define SHMEM_FILTER(IF, ...) SHMEM_DISTINCT_TYPES(IF, __VA_ARGS__) SHMEM_ALIAS_TYPES(IF, __VA_ARGS__)
#define SHMEM_COMPLEX_TYPES(...) SHMEM_COMPLEX_LIST(SHMEM_IF_ANY, __VA_ARGS__)

/* Standard RMA types, section 9.6: RMA, put_signal, data collectives. */
#define SHMEM_RMA_TYPES(...) SHMEM_FILTER(SHMEM_IF_ANY, __VA_ARGS__)
#define SHMEM_RMA_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_ANY_, __VA_ARGS__)

/* Extended, standard and bitwise AMO types, section 9.7. */
#define SHMEM_EXT_TYPES(...) SHMEM_FILTER(SHMEM_IF_EXT, __VA_ARGS__)
#define SHMEM_EXT_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_EXT_, __VA_ARGS__)
#define SHMEM_STD_TYPES(...) SHMEM_FILTER(SHMEM_IF_STD, __VA_ARGS__)
#define SHMEM_STD_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_STD_, __VA_ARGS__)
#define SHMEM_BIT_TYPES(...) SHMEM_FILTER(SHMEM_IF_BIT, __VA_ARGS__)
#define SHMEM_BIT_DISTINCT(...) \
    SHMEM_DISTINCT_TYPES(SHMEM_IF_BIT_, __VA_ARGS__) SHMEM_ALIAS_TYPES(SHMEM_IF_BIT_ALIAS_, __VA_ARGS__)

/* Deprecated atomics without atomic_ in their names. */
#define SHMEM_OLD_EXT_TYPES(...) SHMEM_FILTER(SHMEM_IF_OLD_EXT, __VA_ARGS__)
#define SHMEM_OLD_EXT_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_OLD_EXT_, __VA_ARGS__)
#define SHMEM_OLD_STD_TYPES(...) SHMEM_FILTER(SHMEM_IF_OLD_STD, __VA_ARGS__)
#define SHMEM_OLD_STD_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_OLD_STD_, __VA_ARGS__)

/* Waits and tests: the standard AMO types, and two short types (deprecated); section 9.11. shmem_TYPE_wait. */
#define SHMEM_P2P_SHORT_TYPES(...) SHMEM_FILTER(SHMEM_IF_P2P_SHORT, __VA_ARGS__)
#define SHMEM_P2P_TYPES(...) SHMEM_P2P_SHORT_TYPES(__VA_ARGS__) SHMEM_STD_TYPES(__VA_ARGS__)
#define SHMEM_P2P_DISTINCT(...) SHMEM_DISTINCT_TYPES(SHMEM_IF_P2P_SHORT_, __VA_ARGS__) SHMEM_STD_DISTINCT(__VA_ARGS__)
#define SHMEM_OLD_WAIT_TYPES(...) SHMEM_FILTER(SHMEM_IF_OLD_WAIT, __VA_ARGS__)

/* Team reductions, section 9.10.9. */
#define SHMEM_LOGIC_TYPES(...) SHMEM_FILTER(SHMEM_IF_LOGIC, __VA_ARGS__)
#define SHMEM_LOGIC_DISTINCT(...) \
    SHMEM_DISTINCT_TYPES(SHMEM_IF_LOGIC_, __VA_ARGS__) SHMEM_ALIAS_TYPES(SHMEM_IF_LOGIC_ALIAS_, __VA_ARGS__)
#define SHMEM_MINMAX_TYPES(...) SHMEM_RMA_TYPES(__VA_ARGS__)
#define SHMEM_MINMAX_DISTINCT(...) SHMEM_RMA_DISTINCT(__VA_ARGS__)
#define SHMEM_SUM_TYPES(...) SHMEM_RMA_TYPES(__VA_ARGS__) SHMEM_COMPLEX_TYPES(__VA_ARGS__)
#define SHMEM_SUM_DISTINCT(...) SHMEM_RMA_DISTINCT(__VA_ARGS__) SHMEM_COMPLEX_LIST(SHMEM_IF_ANY_, __VA_ARGS__)

/* In kernels: types that move, and types that can be added and compared. Atomics, waits and logic: the tables above. */
#define SHMEM_DEVICE_HALF_TYPES(...) SHMEM_HALF_LIST(SHMEM_IF_ANY, __VA_ARGS__)
#define SHMEM_DEVICE_ARITH_TYPES(...) SHMEM_FILTER(SHMEM_IF_DEVICE, __VA_ARGS__)
#define SHMEM_DEVICE_TYPES(...) SHMEM_DEVICE_ARITH_TYPES(__VA_ARGS__) SHMEM_DEVICE_HALF_TYPES(__VA_ARGS__)

/* Deprecated active-set reductions. */
#define SHMEM_SET_LOGIC_TYPES(...) SHMEM_FILTER(SHMEM_IF_SET_LOGIC, __VA_ARGS__)
#define SHMEM_SET_MINMAX_TYPES(...) SHMEM_FILTER(SHMEM_IF_SET_MINMAX, __VA_ARGS__)
#define SHMEM_SET_SUM_TYPES(...) SHMEM_SET_MINMAX_TYPES(__VA_ARGS__) SHMEM_COMPLEX_TYPES(__VA_ARGS__)

#endif
