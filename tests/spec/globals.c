/* SPDX-License-Identifier: MIT */
/* Global and static variables are symmetric: with and without an initializer, inside functions, arrays, structures,
 * first and last of the program's data; variables of a thread, constants and the stack are not. The programs of the
 * other chapters run over a static array as well (*_globals). */
#include "../check.h"

struct mixed {
    char letter;
    double number;
    short list[7];
    uint64_t signal;
    long lock;
};

long initialized = 41;
long not_initialized;
static long of_this_file = -3;
static struct mixed structure = {'a', 1.5, {1, 2, 3, 4, 5, 6, 7}, 0, 0};
static unsigned char large[1 << 20];
static unsigned char large_initialized[70000] = {1, 2, 3};
static int matrix[30][40];
volatile int is_volatile = 5;
static CHECK_PER_THREAD long of_a_thread;

static long *in_a_function(void)
{
    static long cell = 17;
    return &cell;
}

static void test_values_survive(void)
{
    CHECK_EQ(initialized, 41);
    CHECK_EQ(not_initialized, 0);
    CHECK_EQ(of_this_file, -3);
    CHECK_EQ(structure.letter, 'a');
    CHECK_EQ(structure.list[6], 7);
    CHECK(structure.number == 1.5);
    CHECK_EQ(large_initialized[2], 3);
    CHECK_EQ(large_initialized[69999], 0);
    CHECK(check_all_bytes(large, 0, sizeof(large)));
    CHECK_EQ(is_volatile, 5);
    CHECK_EQ(*in_a_function(), 17);
}

static void test_accessible(void)
{
    long on_stack = 0;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        CHECK_EQ(shmem_addr_accessible(&initialized, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&not_initialized, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&structure.list[3], pe), 1);
        CHECK_EQ(shmem_addr_accessible(&large[sizeof(large) - 1], pe), 1);
        CHECK_EQ(shmem_addr_accessible(in_a_function(), pe), 1);
        CHECK_EQ(shmem_addr_accessible(&on_stack, pe), 0);
        CHECK_EQ(shmem_addr_accessible(&of_a_thread, pe), 0);
        CHECK_EQ(shmem_addr_accessible((const void *)(uintptr_t)test_accessible, pe), 0);
        CHECK_EQ(shmem_addr_accessible("a constant", pe), 0);
    }
}

/* Each variable is a PE's own, and the neighbour's is another. */
static void test_puts(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    short list[7] = {0};
    for (int i = 0; i < 7; i++)
        list[i] = (short)(10 * me + i);
    shmem_long_p(&initialized, 100 + me, right);
    shmem_long_p(&not_initialized, 200 + me, right);
    shmem_long_p(&of_this_file, 300 + me, right);
    shmem_long_p(in_a_function(), 400 + me, right);
    shmem_double_p(&structure.number, 0.5 + me, right);
    shmem_char_p(&structure.letter, (char)('b' + me), right);
    shmem_short_put(structure.list, list, 7, right);
    shmem_int_iput(&matrix[0][5], &me, 40, 1, 1, right);
    shmem_barrier_all();
    CHECK_EQ(initialized, 100 + left);
    CHECK_EQ(not_initialized, 200 + left);
    CHECK_EQ(of_this_file, 300 + left);
    CHECK_EQ(*in_a_function(), 400 + left);
    CHECK(structure.number == 0.5 + left);
    CHECK_EQ(structure.letter, 'b' + left);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(structure.list[i], 10 * left + i);
    CHECK_EQ(matrix[0][5], left);
    CHECK_EQ(matrix[0][4], 0);
    CHECK_EQ(shmem_long_g(&initialized, right), 100 + me);
    shmem_barrier_all();
}

static void test_large(unsigned char *heap)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    /* Source in one segment, dest in the other, both ways. */
    check_fill(heap, 70000, me, right, 1);
    shmem_barrier_all();
    shmem_putmem(large + 12345, heap, 70000, right);
    shmem_barrier_all();
    CHECK_FILLED(large + 12345, 70000, left, me, 1);
    CHECK(check_all_bytes(large, 0, 12345));
    CHECK(check_all_bytes(large + 82345, 0, sizeof(large) - 82345));
    shmem_getmem(large_initialized, large + 12345, 70000, right);
    CHECK_FILLED(large_initialized, 70000, me, right, 1);
    shmem_barrier_all();
    shmem_putmem(heap, large_initialized, 70000, left);
    shmem_barrier_all();
    CHECK_FILLED(heap, 70000, right, (right + 1) % npes, 1);
    shmem_barrier_all();
}

/* Signal here, data there, and the reverse. */
static void test_signals(unsigned char *heap, uint64_t *heap_signal)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int right = (me + 1) % npes;
    int left = (me + npes - 1) % npes;
    unsigned char data[500];
    structure.signal = 0;
    *heap_signal = 0;
    shmem_barrier_all();
    for (unsigned round = 1; round <= 50; round++) {
        check_fill(data, sizeof(data), me, right, round);
        shmem_putmem_signal(heap, data, sizeof(data), &structure.signal, round, SHMEM_SIGNAL_SET, right);
        shmem_signal_wait_until(&structure.signal, SHMEM_CMP_EQ, round);
        CHECK_FILLED(heap, sizeof(data), left, me, round);
        shmem_putmem_signal(large, data, sizeof(data), heap_signal, 1, SHMEM_SIGNAL_ADD, right);
        shmem_signal_wait_until(heap_signal, SHMEM_CMP_EQ, round);
        CHECK_FILLED(large, sizeof(data), left, me, round);
        shmem_barrier_all();
    }
}

static void test_rest(void)
{
    int npes = shmem_n_pes();
    int me = shmem_my_pe();
    /* shmem_ptr, and what is written there is the variable. */
    for (int pe = 0; pe < npes; pe++) {
        int *there = (int *)shmem_ptr(&matrix[20][me], pe);
        if (there != NULL)
            *there = 1000 * me + pe;
        else
            shmem_int_p(&matrix[20][me], 1000 * me + pe, pe);
    }
    shmem_barrier_all();
    for (int pe = 0; pe < npes && pe < 40; pe++)
        CHECK_EQ(matrix[20][pe], 1000 * pe + me);
    /* Atomics, a lock, a wait, a reduction. */
    not_initialized = 0;
    of_this_file = 0;
    shmem_barrier_all();
    for (int i = 0; i < 30; i++) {
        shmem_long_atomic_inc(&not_initialized, 0);
        shmem_set_lock(&structure.lock);
        shmem_long_p(&of_this_file, shmem_long_g(&of_this_file, 0) + 1, 0);
        shmem_clear_lock(&structure.lock);
    }
    if (me == 0)
        shmem_long_wait_until(&not_initialized, SHMEM_CMP_EQ, 30L * npes);
    shmem_barrier_all();
    if (me == 0)
        CHECK_EQ(of_this_file, 30L * npes);
    matrix[1][0] = me;
    CHECK_EQ(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &matrix[2][0], &matrix[1][0], 1), 0);
    CHECK_EQ(matrix[2][0], npes * (npes - 1) / 2);
    shmem_barrier_all();
}

int main(void)
{
    test_values_survive();
    CHECK_INIT();
    test_values_survive();
    unsigned char *heap = (unsigned char *)check_alloc(70000);
    uint64_t *heap_signal = (uint64_t *)check_alloc(sizeof(uint64_t));
    of_a_thread = 6;
    test_accessible();
    test_puts();
    test_large(heap);
    test_signals(heap, heap_signal);
    test_rest();
    CHECK_EQ(of_a_thread, 6);
    check_free(heap_signal);
    check_free(heap);
    int failed = CHECK_DONE();
    /* The variables are the program's own again, with their last values. */
    CHECK_EQ(matrix[2][0], check_self.npes * (check_self.npes - 1) / 2);
    initialized = 7;
    CHECK_EQ(initialized, 7);
    return failed != CHECK_PASSED || check_self.failures != 0 ? CHECK_FAILED : CHECK_PASSED;
}
