/* SPDX-License-Identifier: MIT */
/* The element-wise kernels of all reductions: out[i] = a[i] OP b[i], for each operator and each way in which a type is
 * kept in memory (int, long and int64_t share kernels where they look alike). A new operator is a line in
 * shmem_types.h and a KERNEL line below; a new representation is three lines of stamp at the end.
 * Invariant: integers wrap; nothing here is undefined for any value. Includes: shmem.h.
 * Included by coll_reduce.c and tests/unit; includes itself once per representation. */
#ifndef REDUCE_T
#ifndef ISO_REDUCE_OP_H
#define ISO_REDUCE_OP_H

#include "../../include/shmem.h" /* shmem_types.h, and what its types are made of */

/* OP_sum_reduce and so on, in the order of SHMEM_REDUCE_OPS. */
enum reduce_op {
#define REDUCE_ENUMERATOR(op, ...) OP_##op,
    SHMEM_REDUCE_OPS(REDUCE_ENUMERATOR, )
#undef REDUCE_ENUMERATOR
        REDUCE_OPS
};

/* out is a, or is b, or overlaps neither; all are aligned to the type. */
typedef void reduce_apply(void *out, const void *a, const void *b, size_t nelems);

struct reduce_kernels {
    reduce_apply *apply[REDUCE_OPS]; /* NULL: the type has no such operator */
    size_t elem_bytes;
};

#define REDUCE_PASTE_(a, b) a##_##b
#define REDUCE_PASTE(a, b) REDUCE_PASTE_(a, b)
#define REDUCE_NAMED(what) REDUCE_PASTE(what, REDUCE_NAME)

/* Bytes that one step of a loop handles: a constant, so that the inner loop becomes vector code also at -O2. */
#define REDUCE_STEP_BYTES 128

/* That out may be a or b does not make one element depend on another: no run-time overlap check is needed. */
#if defined(__GNUC__) && !defined(__clang__)
#define REDUCE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define REDUCE_INDEPENDENT
#endif

/* The operator as a function of two elements, and its kernel. */
#define KERNEL(op, expression)                                                                                         \
    static inline REDUCE_NAMED(reduce_elem)                                                                            \
        REDUCE_NAMED(one_##op)(REDUCE_NAMED(reduce_elem) x, REDUCE_NAMED(reduce_elem) y)                               \
    {                                                                                                                  \
        return (REDUCE_NAMED(reduce_elem))(expression);                                                                \
    }                                                                                                                  \
    static void REDUCE_NAMED(apply_##op)(void *out, const void *a, const void *b, size_t nelems)                       \
    {                                                                                                                  \
        REDUCE_NAMED(reduce_each)                                                                                      \
        ((REDUCE_NAMED(reduce_elem) *)out, (const REDUCE_NAMED(reduce_elem) *)a, (const REDUCE_NAMED(reduce_elem) *)b, \
         nelems, REDUCE_NAMED(one_##op));                                                                              \
    }

/* ---- the representations: REDUCE_T, REDUCE_NAME, and of integers REDUCE_WRAP, the unsigned type to compute in ---- */

#define REDUCE_T int8_t
#define REDUCE_NAME i8
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T uint8_t
#define REDUCE_NAME u8
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T int16_t
#define REDUCE_NAME i16
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T uint16_t
#define REDUCE_NAME u16
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T int32_t
#define REDUCE_NAME i32
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T uint32_t
#define REDUCE_NAME u32
#define REDUCE_WRAP uint32_t
#include "reduce_op.h"
#define REDUCE_T int64_t
#define REDUCE_NAME i64
#define REDUCE_WRAP uint64_t
#include "reduce_op.h"
#define REDUCE_T uint64_t
#define REDUCE_NAME u64
#define REDUCE_WRAP uint64_t
#include "reduce_op.h"
#define REDUCE_T float
#define REDUCE_NAME f32
#include "reduce_op.h"
#define REDUCE_T double
#define REDUCE_NAME f64
#include "reduce_op.h"
#define REDUCE_T long double
#define REDUCE_NAME fmax
#include "reduce_op.h"
#define REDUCE_T SHMEM_COMPLEX(float)
#define REDUCE_NAME c32
#define REDUCE_COMPLEX
#include "reduce_op.h"
#define REDUCE_T SHMEM_COMPLEX(double)
#define REDUCE_NAME c64
#define REDUCE_COMPLEX
#include "reduce_op.h"

/* The kernels of an integer type: [is it signed][its bytes]. */
static const struct reduce_kernels *const reduce_integers[2][9] = {
    {NULL, &reduce_u8, &reduce_u16, NULL, &reduce_u32, NULL, NULL, NULL, &reduce_u64},
    {NULL, &reduce_i8, &reduce_i16, NULL, &reduce_i32, NULL, NULL, NULL, &reduce_i64},
};

#undef KERNEL
#endif

#else /* ---- the template ---- */

/* The user's object may be declared as another type of the same form. */
typedef REDUCE_T REDUCE_NAMED(reduce_elem) __attribute__((__may_alias__));

static inline __attribute__((always_inline)) void
REDUCE_NAMED(reduce_each)(REDUCE_NAMED(reduce_elem) * out, const REDUCE_NAMED(reduce_elem) * a,
                          const REDUCE_NAMED(reduce_elem) * b, size_t nelems,
                          REDUCE_NAMED(reduce_elem) (*one)(REDUCE_NAMED(reduce_elem), REDUCE_NAMED(reduce_elem)))
{
    const size_t epoch = REDUCE_STEP_BYTES / sizeof(REDUCE_T);
    size_t i = 0;
    for (; i + epoch <= nelems; i += epoch) {
        REDUCE_INDEPENDENT
        for (size_t j = 0; j < epoch; j++)
            out[i + j] = one(a[i + j], b[i + j]);
    }
    for (; i < nelems; i++)
        out[i] = one(a[i], b[i]);
}

#ifdef REDUCE_WRAP
KERNEL(and_reduce, x &y)
KERNEL(or_reduce, x | y)
KERNEL(xor_reduce, x ^ y)
KERNEL(sum_reduce, (REDUCE_WRAP)x + (REDUCE_WRAP)y)
KERNEL(prod_reduce, (REDUCE_WRAP)x *(REDUCE_WRAP)y)
#define REDUCE_HAS_LOGIC(op) REDUCE_NAMED(apply_##op),
#else
KERNEL(sum_reduce, x + y)
KERNEL(prod_reduce, x *y)
#define REDUCE_HAS_LOGIC(op) NULL,
#endif

#ifdef REDUCE_COMPLEX
#define REDUCE_HAS_MINMAX(op) NULL,
#else
KERNEL(max_reduce, x > y ? x : y)
KERNEL(min_reduce, x < y ? x : y)
#define REDUCE_HAS_MINMAX(op) REDUCE_NAMED(apply_##op),
#endif
#define REDUCE_HAS_SUM(op) REDUCE_NAMED(apply_##op),
#define REDUCE_ENTRY(op, old, table, ...) REDUCE_HAS_##table(op)

static const struct reduce_kernels REDUCE_NAMED(reduce) = {{SHMEM_REDUCE_OPS(REDUCE_ENTRY, )}, sizeof(REDUCE_T)};

#undef REDUCE_ENTRY
#undef REDUCE_HAS_SUM
#undef REDUCE_HAS_MINMAX
#undef REDUCE_HAS_LOGIC
#undef REDUCE_COMPLEX
#undef REDUCE_WRAP
#undef REDUCE_NAME
#undef REDUCE_T

#endif
