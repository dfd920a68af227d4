/* SPDX-License-Identifier: MIT */
/* The words that every file of shmem/ and coll/ is written with: cache lines, hints to the compiler, public names.
 * Includes nothing of ours. */
#ifndef ISO_BASE_H
#define ISO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISO_LINE 64 /* bytes of a cache line */

#define ISO_LIKELY(x) __builtin_expect(!!(x), 1)
#define ISO_UNLIKELY(x) __builtin_expect(!!(x), 0)
#ifdef SHMEMD_CPU_CALLS
#define ISO_INLINE static inline
#else
#define ISO_INLINE static inline __attribute__((always_inline))
#endif
#define ISO_COLD __attribute__((cold, noinline))
#define ISO_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ISO_MAX(a, b) ((a) > (b) ? (a) : (b))

#ifndef ISO_CHECKS
#define ISO_CHECKS 1 /* -DISO_CHECKS=0 compiles argument checks out */
#endif

/* A public function shmem_NAME is defined as pshmem_NAME, with the declared name as its weak alias (profiling
 * interface, section 10). Write SHMEM_API(shmem_NAME, pshmem_NAME) in front of the definition of pshmem_NAME. */
#define SHMEM_API(name, pname)                                            \
    extern __typeof__(name) pname __attribute__((visibility("default"))); \
    extern __typeof__(name) name __attribute__((weak, alias(#pname), visibility("default")))

#endif
