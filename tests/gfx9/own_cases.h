/* SPDX-License-Identifier: MIT */
/* Instructions that own_kernels.c makes, one each, and what own_test.c expects of them. Additions that carry: by SDWA
 * each source is a part of its register, and the carry that goes out stands between the destination and the sources. */
#ifndef OWN_CASES_H
#define OWN_CASES_H

#include <stdint.h>

/* Parts of the two sources: X(instruction, text of the carry that comes in, result, part, part). */
#define OWN_PARTS(X, name, carry_in, result)  \
    X(name, carry_in, result, BYTE_0, WORD_1) \
    X(name, carry_in, result, BYTE_3, DWORD)  \
    X(name, carry_in, result, WORD_0, BYTE_1) \
    X(name, carry_in, result, DWORD, BYTE_2)  \
    X(name, carry_in, result, DWORD, DWORD)
/* In 64 bits: bit 32 of the result is the carry that goes out. */
#define OWN_CARRIES(X)                                  \
    OWN_PARTS(X, v_add_co_u32, "", a + b)               \
    OWN_PARTS(X, v_sub_co_u32, "", a - b)               \
    OWN_PARTS(X, v_subrev_co_u32, "", b - a)            \
    OWN_PARTS(X, v_addc_co_u32, ", vcc", a + b + carry) \
    OWN_PARTS(X, v_subb_co_u32, ", vcc", a - b - carry) \
    OWN_PARTS(X, v_subbrev_co_u32, ", vcc", b - a - carry)

#define OWN_COUNT(name, carry_in, result, first, second) +1
enum { OWN_CASES = OWN_CARRIES(OWN_COUNT), OWN_LANES = 64 };

struct carry_args {
    const uint32_t *a, *b; /* [OWN_LANES] */
    uint64_t *results;     /* [OWN_CASES][OWN_LANES] bit 32: the carry that went out; to odd lanes one came in */
};

#endif
