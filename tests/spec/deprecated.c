/* SPDX-License-Identifier: MIT */
/* The deprecated calls other than active sets: start_pes with its implicit end, _my_pe, _num_pes, shmalloc and its kin,
 * atomics without atomic_ in their names, shmem_wait, short and unsigned short waits, constants with an underscore, and
 * the headers in mpp/. */
#include <mpp/shmem.h>
#include <mpp/shmemx.h>

#include "../check.h"

/* Each wants its value on all PEs before and after. */
#define OLD_EXTENDED(NAME, TYPE, ...)                                                \
    static void old_extended_##NAME(void *word, int pe)                              \
    {                                                                                \
        TYPE *at = (TYPE *)word;                                                     \
        shmem_##NAME##_set(at, (TYPE)5, pe);                                         \
        CHECK_NAMED(shmem_##NAME##_fetch(at, pe) == (TYPE)5, #NAME "_fetch");        \
        CHECK_NAMED(shmem_##NAME##_swap(at, (TYPE)7, pe) == (TYPE)5, #NAME "_swap"); \
        CHECK_NAMED(shmem_##NAME##_fetch(at, pe) == (TYPE)7, #NAME "_fetch");        \
    }
#define OLD_STANDARD(NAME, TYPE, ...)                                                           \
    static void old_standard_##NAME(void *word, int pe)                                         \
    {                                                                                           \
        TYPE *at = (TYPE *)word;                                                                \
        shmem_##NAME##_set(at, (TYPE)5, pe);                                                    \
        CHECK_NAMED(shmem_##NAME##_cswap(at, (TYPE)4, (TYPE)9, pe) == (TYPE)5, #NAME "_cswap"); \
        CHECK_NAMED(shmem_##NAME##_cswap(at, (TYPE)5, (TYPE)9, pe) == (TYPE)5, #NAME "_cswap"); \
        CHECK_NAMED(shmem_##NAME##_finc(at, pe) == (TYPE)9, #NAME "_finc");                     \
        shmem_##NAME##_inc(at, pe);                                                             \
        shmem_quiet();                                                                          \
        CHECK_NAMED(shmem_##NAME##_fadd(at, (TYPE)4, pe) == (TYPE)11, #NAME "_fadd");           \
        shmem_##NAME##_add(at, (TYPE)-5, pe);                                                   \
        shmem_quiet();                                                                          \
        CHECK_NAMED(shmem_##NAME##_fetch(at, pe) == (TYPE)10, #NAME "_add");                    \
    }
#define OLD_WAIT(NAME, TYPE, ...)                                 \
    static void old_wait_##NAME(void *word, int pe)               \
    {                                                             \
        TYPE *at = (TYPE *)word;                                  \
        *at = (TYPE)3;                                            \
        shmem_barrier_all();                                      \
        shmem_##NAME##_p(at, (TYPE)4, pe);                        \
        shmem_##NAME##_wait(at, (TYPE)3); /* until it is not 3 */ \
        CHECK_NAMED(*at == (TYPE)4, #NAME "_wait");               \
        shmem_barrier_all();                                      \
        shmem_##NAME##_p(at, (TYPE)6, pe);                        \
        shmem_##NAME##_wait_until(at, _SHMEM_CMP_GT, (TYPE)5);    \
        CHECK_NAMED(*at == (TYPE)6, #NAME "_wait_until");         \
        shmem_barrier_all();                                      \
    }

SHMEM_OLD_EXT_TYPES(OLD_EXTENDED, )
SHMEM_OLD_STD_TYPES(OLD_STANDARD, )
SHMEM_OLD_WAIT_TYPES(OLD_WAIT, )

#define OLD_EXTENDED_CALL(NAME, TYPE, ...) old_extended_##NAME(&words[me], right);
#define OLD_STANDARD_CALL(NAME, TYPE, ...) old_standard_##NAME(&words[me], right);
#define OLD_WAIT_CALL(NAME, TYPE, ...) old_wait_##NAME(&words[0], right);

static void test_atomics_and_waits(void)
{
    int me = _my_pe();
    int right = (me + 1) % _num_pes();
    long long *words = (long long *)shmem_calloc((size_t)_num_pes(), sizeof(long long));
    CHECK_OR_EXIT(words != NULL);
    SHMEM_OLD_EXT_TYPES(OLD_EXTENDED_CALL, )
    SHMEM_OLD_STD_TYPES(OLD_STANDARD_CALL, )
    shmem_barrier_all();
    SHMEM_OLD_WAIT_TYPES(OLD_WAIT_CALL, )
    shmem_barrier_all();
    long *flag = (long *)(void *)words;
    *flag = 1;
    shmem_barrier_all();
    shmem_long_p(flag, 2, right);
    shmem_wait(flag, 1);
    CHECK_EQ(*flag, 2);
    shmem_wait_until(flag, SHMEM_CMP_EQ, 2L);
    (shmem_wait_until)(flag, SHMEM_CMP_EQ, 2L); /* the function, not the type-generic macro */
    shmem_barrier_all();
    shmem_free(words);
}

static void test_memory(void)
{
    int me = _my_pe();
    int right = (me + 1) % _num_pes();
    int left = (me + _num_pes() - 1) % _num_pes();
    int *object = (int *)shmalloc(10 * sizeof(int));
    CHECK_OR_EXIT(object != NULL);
    CHECK(shmalloc(0) == NULL);
    object[9] = 100 + me;
    shmem_barrier_all();
    object = (int *)shrealloc(object, 3000 * sizeof(int));
    CHECK_OR_EXIT(object != NULL);
    CHECK_EQ(object[9], 100 + me);
    shmem_int_p(&object[2999], me, right);
    shmem_barrier_all();
    CHECK_EQ(object[2999], left);
    shfree(object);
    shfree(NULL);
    void *aligned = shmemalign(4096, 77);
    CHECK_OR_EXIT(aligned != NULL);
    CHECK_EQ((uintptr_t)aligned % 4096, 0);
    shfree(aligned);
    CHECK_HEAP();
}

static void test_constants(void)
{
    CHECK_EQ(_SHMEM_MAJOR_VERSION, SHMEM_MAJOR_VERSION);
    CHECK_EQ(_SHMEM_MINOR_VERSION, SHMEM_MINOR_VERSION);
    CHECK_EQ(_SHMEM_MAX_NAME_LEN, SHMEM_MAX_NAME_LEN);
    CHECK(strcmp(_SHMEM_VENDOR_STRING, SHMEM_VENDOR_STRING) == 0);
    CHECK_EQ(_SHMEM_CMP_EQ, SHMEM_CMP_EQ);
    CHECK_EQ(_SHMEM_CMP_NE, SHMEM_CMP_NE);
    CHECK_EQ(_SHMEM_CMP_LT, SHMEM_CMP_LT);
    CHECK_EQ(_SHMEM_CMP_LE, SHMEM_CMP_LE);
    CHECK_EQ(_SHMEM_CMP_GT, SHMEM_CMP_GT);
    CHECK_EQ(_SHMEM_CMP_GE, SHMEM_CMP_GE);
    CHECK_EQ(_SHMEM_SYNC_VALUE, SHMEM_SYNC_VALUE);
    CHECK_EQ(_SHMEM_BARRIER_SYNC_SIZE, SHMEM_BARRIER_SYNC_SIZE);
    CHECK_EQ(_SHMEM_BCAST_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE);
    CHECK_EQ(_SHMEM_COLLECT_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_MIN_WRKDATA_SIZE, SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    /* One that serves any collective. */
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_BARRIER_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_BCAST_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_COLLECT_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_REDUCE_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_ALLTOALL_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_ALLTOALLS_SYNC_SIZE);
}

/* A PE may end by returning from main without shmem_finalize: the library is finalized then, which is collective and
 * completes what is under way, so PE 0's late put must not meet a PE that is gone. */
int main(void)
{
    start_pes(0);
    start_pes(4711); /* no effect */
    check_self.pe = _my_pe();
    check_self.npes = _num_pes();
    CHECK_EQ(_my_pe(), shmem_my_pe());
    CHECK_EQ(_num_pes(), shmem_n_pes());
    test_constants();
    test_memory();
    test_atomics_and_waits();
    int *cell = (int *)shmalloc(sizeof(int));
    CHECK_OR_EXIT(cell != NULL);
    if (_my_pe() == 0) {
        usleep(100000);
        for (int pe = 0; pe < _num_pes(); pe++)
            shmem_int_p(cell, 1, pe);
    }
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
