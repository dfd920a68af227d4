/* SPDX-License-Identifier: MIT */
/* The functions of device/externs.c for kernels without threads (Triton), called by whole blocks on the CPU device. Each
 * acts once for its block, covers the stores that the block's threads have made before, and tells all of them the same.
 * Two blocks on each PE, each with its own scratch, in a ring of PEs. */
#include "../../device/externs.c"
#include "../device/device_test.h"

enum { BLOCKS = 2, THREADS = 100, BYTES = 1003 };

/* One for each block of a PE; of symmetric device memory. */
struct scratch {
    uint64_t arrived, announced, total, set, each64[THREADS];
    uint32_t counter, masked, each32[THREADS];
    uint8_t bytes[THREADS];
    unsigned char source[BYTES], dest[BYTES], fetched[BYTES];
    uint64_t told[4][THREADS]; /* what each thread was told */
    uint32_t wrong[THREADS];   /* how often a thread saw something else than it should */
};

struct args {
    const shmemd_t *handle;
    struct scratch *scratch;
    int32_t right, left, rounds;
};

SHMEMD_FN unsigned char byte_of(int pe, uint32_t block, uint64_t round, uint32_t i)
{
    return (unsigned char)(pe * 37 + (int)(block * 11 + round * 5 + i * 7));
}
#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

/* Data by a put with its signal and by a get, both of a source that all threads have just written. */
SHMEMD_FN uint32_t exchange(struct args a, struct scratch *s, uint64_t round)
{
    uint32_t me = shmemd_thread_index(), size = shmemd_block_size(), block = shmemd_block_index(), wrong = 0;
    uint64_t h = ADDRESS(a.handle);
    for (uint32_t i = me; i < BYTES; i += size)
        s->source[i] = byte_of(shmemd_program_my_pe(h), block, round, i);
    (void)shmemd_program_putmem_signal(h, ADDRESS(s->dest), ADDRESS(s->source), BYTES, ADDRESS(&s->arrived), 1,
                                       SHMEM_SIGNAL_ADD, a.right);
    wrong += shmemd_program_uint64_wait_until(h, ADDRESS(&s->arrived), SHMEM_CMP_GE, 2 * round - 1) != 0;
    for (uint32_t i = me; i < BYTES; i += size)
        wrong += s->dest[i] != byte_of(a.left, block, round, i);
    (void)shmemd_program_getmem(h, ADDRESS(s->fetched), ADDRESS(s->source), BYTES, a.left);
    for (uint32_t i = me; i < BYTES; i += size)
        wrong += s->fetched[i] != byte_of(a.left, block, round, i);
    wrong += shmemd_program_barrier(h) != 0;
    /* the other way: no signal of its own, but one behind it */
    for (uint32_t i = me; i < BYTES; i += size)
        s->source[i] = byte_of(shmemd_program_my_pe(h), block, round + 100, i);
    (void)shmemd_program_putmem_nbi(h, ADDRESS(s->dest), ADDRESS(s->source), BYTES, a.left);
    (void)shmemd_program_signal_op(h, ADDRESS(&s->arrived), 1, SHMEM_SIGNAL_ADD, a.left);
    wrong += shmemd_program_uint64_wait_until(h, ADDRESS(&s->arrived), SHMEM_CMP_GE, 2 * round) != 0;
    for (uint32_t i = me; i < BYTES; i += size)
        wrong += s->dest[i] != byte_of(a.right, block, round + 100, i);
    wrong += shmemd_program_uint64_test(h, ADDRESS(&s->arrived), SHMEM_CMP_EQ, 2 * round) != 1;
    wrong += shmemd_program_uint64_test(h, ADDRESS(&s->arrived), SHMEM_CMP_LT, 2 * round) != 0;
    (void)shmemd_program_quiet(h);
    return wrong + (shmemd_program_sync(h) != 0);
}

/* Elements: one for the block, and one for each thread with a mask. */
SHMEMD_FN uint32_t elements(struct args a, struct scratch *s, uint64_t round)
{
    uint32_t me = shmemd_thread_index(), wrong = 0;
    uint64_t h = ADDRESS(a.handle);
    int pe = shmemd_program_my_pe(h);
    uint64_t mine = round << 40 | (uint64_t)pe << 20, theirs = round << 40 | (uint64_t)a.left << 20;
    (void)shmemd_program_uint64_p(h, ADDRESS(&s->set), mine, a.right);
    (void)shmemd_program_uint64_p_each(h, ADDRESS(&s->each64[me]), mine | me, a.right, 1);
    (void)shmemd_program_uint32_p_each(h, ADDRESS(&s->each32[me]), (uint32_t)(mine >> 20) ^ me, a.right, me % 3 != 0);
    (void)shmemd_program_uint8_p_each(h, ADDRESS(&s->bytes[me]), (uint32_t)me + 0xab00, a.right, 1);
    wrong += shmemd_program_barrier(h) != 0;
    wrong += s->set != theirs || s->each64[me] != (theirs | me) || s->bytes[me] != (uint8_t)me;
    wrong += s->each32[me] != (me % 3 != 0 ? (uint32_t)(theirs >> 20) ^ me : 0);
    wrong += shmemd_program_uint64_g(h, ADDRESS(&s->set), a.right) != mine;
    wrong += shmemd_program_uint64_g_each(h, ADDRESS(&s->each64[me]), a.right, 1) != (mine | me);
    wrong += shmemd_program_uint32_g_each(h, ADDRESS(&s->each32[me]), a.right, 0) != 0;
    wrong += shmemd_program_uint8_g(h, ADDRESS(&s->bytes[99]), a.left) != 99;
    wrong += shmemd_program_ptr(h, ADDRESS(s), pe) != ADDRESS(s);
    return wrong + (shmemd_program_barrier(h) != 0);
}

/* Atomics on PE 0: the host knows the sums. What all threads are told is kept. */
SHMEMD_FN uint32_t atomics(struct args a, struct scratch *s, uint64_t round)
{
    uint32_t me = shmemd_thread_index(), wrong = 0;
    uint64_t h = ADDRESS(a.handle);
    int pe = shmemd_program_my_pe(h);
    s->told[0][me] = shmemd_program_uint32_atomic_fetch_add(h, ADDRESS(&s->counter), 1, 0);
    (void)shmemd_program_uint64_atomic_add(h, ADDRESS(&s->total), (uint64_t)(pe + 1), 0);
    (void)shmemd_program_uint32_atomic_or(h, ADDRESS(&s->masked), 1u << (unsigned)pe, 0);
    (void)shmemd_program_quiet(h);
    wrong += shmemd_program_barrier(h) != 0;
    s->told[1][me] = shmemd_program_uint64_atomic_fetch(h, ADDRESS(&s->total), 0);
    s->told[2][me] = shmemd_program_uint64_atomic_swap(h, ADDRESS(&s->announced), round, pe);
    s->told[3][me] = shmemd_program_signal_fetch(h, ADDRESS(&s->arrived));
    wrong += s->told[2][me] != round - 1 || s->told[3][me] != 2 * round;
    wrong += shmemd_program_uint32_atomic_compare_swap(h, ADDRESS(&s->masked), 0, 7, pe) !=
             (pe == 0 ? (1u << (unsigned)shmemd_program_n_pes(h)) - 1 : 0);
    (void)shmemd_program_uint32_atomic_set(h, ADDRESS(&s->masked), 0, pe);
    return wrong + (shmemd_program_barrier(h) != 0) + (shmemd_program_status(h) != 0);
}

SHMEMD_KERNEL(programs, struct args, a)
{
    struct scratch *s = &a.scratch[shmemd_block_index()];
    uint32_t wrong = 0;
    for (uint64_t round = 1; round <= (uint64_t)a.rounds; round++) {
        wrong += exchange(a, s, round);
        wrong += elements(a, s, round);
        wrong += atomics(a, s, round);
    }
    s->wrong[shmemd_thread_index()] = wrong;
}

static void look(const struct scratch *s, int rounds)
{
    uint64_t n = (uint64_t)shmem_n_pes();
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(s->wrong[i], 0);
        for (int k = 0; k < 4; k++)
            CHECK_EQ(s->told[k][i], s->told[k][0]);
    }
    CHECK(s->told[0][0] >= (uint64_t)(rounds - 1) * n && s->told[0][0] < (uint64_t)rounds * n);
    CHECK_EQ(s->told[1][0], (uint64_t)rounds * n * (n + 1) / 2);
    if (shmem_my_pe() == 0) {
        CHECK_EQ(s->counter, (uint64_t)rounds * n);
        CHECK_EQ(s->total, (uint64_t)rounds * n * (n + 1) / 2);
    }
}

static int test_main(void)
{
    DEVICE_INIT();
    struct scratch *seen = (struct scratch *)calloc(BLOCKS, sizeof(*seen));
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmemd_t handle;
    struct args a;
    memset(&a, 0, sizeof(a));
    a.right = (me + 1) % n;
    a.left = (me + n - 1) % n;
    a.rounds = (int)device_number("SHMEM_TEST_ROUNDS", 20);
    a.scratch = (struct scratch *)shmemx_calloc(BLOCKS, sizeof(struct scratch), SHMEMX_DEVICE);
    shmemd_t *there = (shmemd_t *)shmemx_malloc(sizeof(shmemd_t), SHMEMX_DEVICE);
    CHECK_OR_EXIT(seen != NULL && a.scratch != NULL && there != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &handle) == 0);
    device_write(there, &handle, sizeof(handle));
    a.handle = there;
    shmem_barrier_all();
    DEVICE_RUN(programs, BLOCKS, THREADS, a);
    device_read(seen, a.scratch, BLOCKS * sizeof(*seen));
    for (int block = 0; block < BLOCKS; block++)
        look(&seen[block], a.rounds);
    shmem_barrier_all();
    shmemx_free(there);
    shmemx_free(a.scratch);
    free(seen);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
