/* SPDX-License-Identifier: MIT */
/* Every type-generic name with variables of every type that the specification lists for it, with a context and without:
 * C11 generic selection here, and the same calls as C++ overloads in overloads.cpp. The types are spelled as users
 * spell them, not taken from a table. */
#include "../check.h"

#define EXT 1      /* fetch, set, swap */
#define STD 2      /* compare_swap, inc, add; wait and test */
#define BIT 4      /* and, or, xor */
#define LOGIC 8    /* and, or, xor reductions */
#define OLD_EXT 16 /* deprecated atomics */
#define OLD_STD 32
#define SHORTS 64   /* waits and tests only */
#define COMPLEX 128 /* sums and products only */

struct generic {
    shmem_ctx_t ctx;
    char *area;
    uint64_t *signal;
    int me, npes, right, left;
};

#define T float
#define NAME float
#define FAMILIES (EXT | OLD_EXT)
#include "generic_one.h"

#define T double
#define NAME double
#define FAMILIES (EXT | OLD_EXT)
#include "generic_one.h"

#define T long double
#define NAME longdouble
#define FAMILIES (0)
#include "generic_one.h"

#define T char
#define NAME char
#define FAMILIES (0)
#include "generic_one.h"

#define T signed char
#define NAME schar
#define FAMILIES (0)
#include "generic_one.h"

#define T short
#define NAME short
#define FAMILIES (SHORTS)
#include "generic_one.h"

#define T int
#define NAME int
#define FAMILIES (EXT | STD | OLD_EXT | OLD_STD)
#include "generic_one.h"

#define T long
#define NAME long
#define FAMILIES (EXT | STD | OLD_EXT | OLD_STD)
#include "generic_one.h"

#define T long long
#define NAME longlong
#define FAMILIES (EXT | STD | OLD_EXT | OLD_STD)
#include "generic_one.h"

#define T unsigned char
#define NAME uchar
#define FAMILIES (LOGIC)
#include "generic_one.h"

#define T unsigned short
#define NAME ushort
#define FAMILIES (LOGIC | SHORTS)
#include "generic_one.h"

#define T unsigned int
#define NAME uint
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T unsigned long
#define NAME ulong
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T unsigned long long
#define NAME ulonglong
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T int8_t
#define NAME int8
#define FAMILIES (LOGIC)
#include "generic_one.h"

#define T int16_t
#define NAME int16
#define FAMILIES (LOGIC)
#include "generic_one.h"

#define T int32_t
#define NAME int32
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T int64_t
#define NAME int64
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T uint8_t
#define NAME uint8
#define FAMILIES (LOGIC)
#include "generic_one.h"

#define T uint16_t
#define NAME uint16
#define FAMILIES (LOGIC)
#include "generic_one.h"

#define T uint32_t
#define NAME uint32
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T uint64_t
#define NAME uint64
#define FAMILIES (EXT | STD | BIT | LOGIC)
#include "generic_one.h"

#define T size_t
#define NAME size
#define FAMILIES (EXT | STD | LOGIC)
#include "generic_one.h"

#define T ptrdiff_t
#define NAME ptrdiff
#define FAMILIES (EXT | STD)
#include "generic_one.h"

#define T SHMEM_COMPLEX(float)
#define NAME complexf
#define FAMILIES (COMPLEX)
#include "generic_one.h"

#define T SHMEM_COMPLEX(double)
#define NAME complexd
#define FAMILIES (COMPLEX)
#include "generic_one.h"

static void test_signals(const struct generic *g)
{
    *g->signal = 0;
    shmem_barrier_all();
    shmem_signal_set(g->signal, 5, g->right);
    shmem_signal_wait_until(g->signal, SHMEM_CMP_EQ, 5);
    shmem_barrier_all();
    shmem_signal_set(g->ctx, g->signal, 6, g->right);
    shmem_ctx_quiet(g->ctx);
    shmem_signal_add(g->signal, 1, g->right);
    shmem_quiet();
    shmem_signal_add(g->ctx, g->signal, 1, g->right);
    shmem_ctx_quiet(g->ctx);
    shmem_signal_wait_until(g->signal, SHMEM_CMP_EQ, 8);
    shmem_barrier_all();
}

static int test_main(void)
{
    CHECK_INIT();
    struct generic g;
    g.me = shmem_my_pe();
    g.npes = shmem_n_pes();
    g.right = (g.me + 1) % g.npes;
    g.left = (g.me + g.npes - 1) % g.npes;
    g.area = (char *)check_alloc(4096 + 64 * (size_t)g.npes);
    g.signal = (uint64_t *)check_alloc(sizeof(uint64_t));
    g.ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &g.ctx), 0);
    test_signals(&g);
    generic_all_float(&g);
    generic_all_double(&g);
    generic_all_longdouble(&g);
    generic_all_char(&g);
    generic_all_schar(&g);
    generic_all_short(&g);
    generic_all_int(&g);
    generic_all_long(&g);
    generic_all_longlong(&g);
    generic_all_uchar(&g);
    generic_all_ushort(&g);
    generic_all_uint(&g);
    generic_all_ulong(&g);
    generic_all_ulonglong(&g);
    generic_all_int8(&g);
    generic_all_int16(&g);
    generic_all_int32(&g);
    generic_all_int64(&g);
    generic_all_uint8(&g);
    generic_all_uint16(&g);
    generic_all_uint32(&g);
    generic_all_uint64(&g);
    generic_all_size(&g);
    generic_all_ptrdiff(&g);
    generic_all_complexf(&g);
    generic_all_complexd(&g);
    shmem_ctx_destroy(g.ctx);
    check_free(g.signal);
    check_free(g.area);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
