/* SPDX-License-Identifier: MIT */
/* Collectives by a thread, a wave and a block in turns, in one sequence: moves of bytes, and reductions of every way in
 * which elements are kept; barriers between them by different groups on different PEs. Short and long, in place,
 * misaligned, of no element; what stands beside dest stays. Two blocks at once, each in its own sequence, then one
 * sequence on a chosen lane. SHMEM_TEST_CASES: at most so many sizes, the smallest. */
#define PRIM_COLD_CALLS 1 /* of so many calls, the rare paths may be calls: AMD's compiler takes minutes else */
#include "device_test.h"

enum { BLOCKS = 2, THREADS = 96, MOST = 2053, GUARD = 16 };

struct few_args {
    shmemd_t h;
    char *dest, *source; /* for each block `room` bytes */
    uint64_t *wrong, room;
    uint32_t nelems, bytes, turn, in_place, shift;
};

/* ---- which threads call ---- */

/* CALL(g) by the threads of the group of this turn on this PE, between syncs of the block. */
SHMEMD_FN int few_calls(uint32_t turn)
{
    const uint32_t rank = shmemd_thread_index();
    return turn % 3 == 0 ? rank == 0 : turn % 3 == 2 || rank == shmemd_group_rank(shmemd_wave());
}
#define FEW_AS(kind, group, turn, bad, call)       \
    if ((turn) % 3 == (kind) && few_calls(kind)) { \
        const shmemd_group_t g = group;            \
        bad += (call) != 0;                        \
    }
#define FEW(turn, bad, call)                    \
    shmemd_group_sync(shmemd_block());          \
    FEW_AS(0, shmemd_thread(), turn, bad, call) \
    FEW_AS(1, shmemd_wave(), turn, bad, call)   \
    FEW_AS(2, shmemd_block(), turn, bad, call)  \
    shmemd_group_sync(shmemd_block())

/* ---- moves ---- */

SHMEMD_FN unsigned char few_byte(uint32_t m, uint32_t i, uint32_t round)
{
    return (unsigned char)(m * 29 + i * 7 + i / 251 + round * 101 + 3);
}
/* How many of `bytes` at dest are not those of member m from `at` on; the guards are poison. */
SHMEMD_FN int few_differs(const char *dest, uint32_t bytes, uint32_t m, uint32_t at, uint32_t round)
{
    int bad = 0;
    for (uint32_t i = shmemd_thread_index(); i < bytes; i += shmemd_block_size())
        bad += (unsigned char)dest[i] != few_byte(m, at + i, round);
    return bad;
}
SHMEMD_FN int few_guards(const char *dest, uint64_t bytes)
{
    int bad = 0;
    for (uint32_t i = shmemd_thread_index(); i < GUARD; i += shmemd_block_size())
        bad += dest[-1 - (int32_t)i] != 0x5a || dest[bytes + i] != 0x5a;
    return bad;
}
SHMEMD_FN void few_poison(char *dest, uint64_t bytes)
{
    for (uint64_t i = shmemd_thread_index(); i < bytes + 2 * GUARD; i += shmemd_block_size())
        dest[(int64_t)i - GUARD] = 0x5a;
}

SHMEMD_KERNEL(few_moves, struct few_args, a)
{
    const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h), bytes = a.bytes;
    char *source = a.source + shmemd_block_index() * a.room + a.shift;
    char *dest = a.dest + shmemd_block_index() * a.room + GUARD + a.shift / 2;
    int bad = 0;
    for (uint32_t round = 0; round < 4; round++) {
        const uint32_t all = a.turn + round / 2, turn = all + me, root = round % n;
        for (uint32_t i = shmemd_thread_index(); i < bytes * n; i += shmemd_block_size())
            source[i] = (char)few_byte(me, i, round);
        few_poison(dest, (uint64_t)bytes * n);
        FEW(all, bad, shmemd_broadcastmem_group(a.h, g, dest, source, bytes, (int)root));
        bad += few_differs(dest, bytes, root, 0, round) + few_guards(dest, bytes);
        FEW(turn + 1 + me, bad, shmemd_barrier_group(a.h, g)); /* no member writes before all have looked */
        few_poison(dest, (uint64_t)bytes * n);
        FEW(all + 2, bad, shmemd_fcollectmem_group(a.h, g, dest, source, bytes));
        for (uint32_t m = 0; m < n; m++)
            bad += few_differs(dest + (uint64_t)m * bytes, bytes, m, 0, round);
        bad += few_guards(dest, (uint64_t)bytes * n);
        FEW(turn, bad, shmemd_sync_group(a.h, g));
        few_poison(dest, (uint64_t)bytes * n);
        FEW(all + 1, bad, shmemd_alltoallmem_group(a.h, g, dest, source, bytes));
        for (uint32_t m = 0; m < n; m++)
            bad += few_differs(dest + (uint64_t)m * bytes, bytes, m, me * bytes, round);
        bad += few_guards(dest, (uint64_t)bytes * n);
        FEW(turn + 2, bad, shmemd_barrier_group(a.h, g));
        few_poison(dest, (uint64_t)bytes * n);
        const uint32_t step = round % n;
        FEW(all, bad,
            shmemd_permutemem_group(a.h, g, dest, source, bytes, (int)((me + step) % n), (int)((me + n - step) % n)));
        bad += few_differs(dest, bytes, (me + n - step) % n, 0, round) + few_guards(dest, bytes);
        FEW(turn + 1, bad, shmemd_barrier_group(a.h, g));
    }
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, (int)me);
}

/* ---- reductions ---- */

enum { OF_sum_reduce, OF_prod_reduce, OF_max_reduce };
/* Small whole numbers, none of them 0: sums and products are exact in every type. */
SHMEMD_FN int few_value(uint32_t m, uint32_t i) { return (int)((m * 5 + i * 3) % 7) % 3 + 1; }
/* Of all members. */
SHMEMD_FN int few_all(uint32_t n, uint32_t i, int op)
{
    int all = few_value(0, i);
    for (uint32_t m = 1; m < n; m++) {
        const int next = few_value(m, i);
        all = op == OF_prod_reduce ? all * next : op == OF_max_reduce ? (next > all ? next : all) : all + next;
    }
    return all;
}
#define FEW_CAST(NAME, T)                             \
    SHMEMD_FN T few_as_##NAME(int x) { return (T)x; } \
    SHMEMD_FN int few_is_##NAME(T x, int y) { return x == (T)y; }
FEW_CAST(ushort, unsigned short)
FEW_CAST(int, int)
FEW_CAST(double, double)
SHMEMD_FN shmemd_half_t few_as_half(int x) { return shmemd_half_from_float((float)x); }
SHMEMD_FN int few_is_half(shmemd_half_t x, int y) { return shmemd_half_to_float(x) == (float)y; }
SHMEMD_FN shmemd_complexf_t few_as_complexf(int x)
{
    shmemd_complexf_t z;
    z.re = (float)x;
    z.im = 0;
    return z;
}
SHMEMD_FN int few_is_complexf(shmemd_complexf_t x, int y) { return x.re == (float)y && x.im == 0; }

/* X(NAME, T, the operator of a thread and a wave) */
#define FEW_TYPES(X)                      \
    X(ushort, unsigned short, max_reduce) \
    X(int, int, prod_reduce)              \
    X(double, double, max_reduce)         \
    X(half, shmemd_half_t, sum_reduce)    \
    X(complexf, shmemd_complexf_t, sum_reduce)
/* By a thread and a wave in turn a reducescatter of sums, of nelems / n each, and the operator; by a block sums. Each
 * has a kernel: one of all spills thousands of registers on AMD, where clang has faults (device/hip/hip_spills.sh). */
#define FEW_REDUCE(NAME, OP)                                                        \
    (scatters ? shmemd_##NAME##_sum_reducescatter_group(a.h, g, dest, source, part) \
              : shmemd_##NAME##_##OP##_group(a.h, g, dest, source, part))
#define FEW_KERNEL(NAME, T, BY, KIND, SCATTERS, CALL, WANTED)                                                       \
    SHMEMD_KERNEL(few_##NAME##_##BY, struct few_args, a)                                                            \
    {                                                                                                               \
        const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h);                           \
        T *source = (T *)(void *)(a.source + shmemd_block_index() * a.room) + a.shift;                              \
        char *bytes = a.dest + shmemd_block_index() * a.room + GUARD + a.shift / 2 * sizeof(T);                     \
        int bad = 0;                                                                                                \
        for (uint32_t turn = a.turn; turn < a.turn + 2; turn++) {                                                   \
            const bool scatters = SCATTERS, in_place = a.in_place != 0 && !scatters;                                \
            const uint32_t part = scatters ? a.nelems / n : a.nelems;                                               \
            T *dest = in_place ? source : (T *)(void *)bytes;                                                       \
            for (uint32_t i = shmemd_thread_index(); i < a.nelems; i += shmemd_block_size())                        \
                source[i] = few_as_##NAME(few_value(me, i));                                                        \
            if (!in_place)                                                                                          \
                few_poison(bytes, part * sizeof(T));                                                                \
            shmemd_group_sync(shmemd_block());                                                                      \
            FEW_AS(KIND, shmemd_##BY(), KIND, bad, CALL)                                                            \
            shmemd_group_sync(shmemd_block());                                                                      \
            for (uint32_t i = shmemd_thread_index(); i < part; i += shmemd_block_size())                            \
                bad += !few_is_##NAME(dest[i],                                                                      \
                                      few_all(n, scatters ? me * part + i : i, scatters ? OF_sum_reduce : WANTED)); \
            if (!in_place)                                                                                          \
                bad += few_guards(bytes, part * sizeof(T));                                                         \
            bad += shmemd_barrier_block(a.h) != 0; /* no member writes before all have looked */                    \
        }                                                                                                           \
        if (bad != 0)                                                                                               \
            shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, (int)me);                                         \
    }
#define FEW_KERNELS(NAME, T, OP)                                                 \
    FEW_KERNEL(NAME, T, thread, 0, turn % 2 == 0, FEW_REDUCE(NAME, OP), OF_##OP) \
    FEW_KERNEL(NAME, T, wave, 1, turn % 2 == 0, FEW_REDUCE(NAME, OP), OF_##OP)   \
    FEW_KERNEL(NAME, T, block, 2, false, shmemd_##NAME##_sum_reduce_group(a.h, g, dest, source, part), OF_sum_reduce)
FEW_TYPES(FEW_KERNELS)

/* ---- one sequence of two blocks ---- */

SHMEMD_KERNEL(few_on_a_lane, struct few_args, a)
{
    const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h);
    const shmemd_t h = shmemd_lane(a.h, 5);
    int bad = 0;
    int *source = (int *)(void *)a.source, *dest = (int *)(void *)(a.dest + GUARD);
    for (uint32_t round = 0; round < 8; round++) {
        if (shmemd_block_index() == round % BLOCKS) {
            for (uint32_t i = shmemd_thread_index(); i < a.nelems; i += shmemd_block_size())
                source[i] = few_value(me, i + round);
            FEW(round / 2, bad, shmemd_int_sum_reduce_group(h, g, dest, source, a.nelems));
            for (uint32_t i = shmemd_thread_index(); i < a.nelems; i += shmemd_block_size())
                bad += dest[i] != few_all(n, i + round, 0);
            FEW(round + me, bad, shmemd_barrier_group(h, g));
        }
        bad += shmemd_grid_sync(a.h) != 0;
    }
    if (bad != 0)
        shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, (int)me);
}

static int test_main(void)
{
    DEVICE_INIT();
    /* A thread's bytes are long above 512, a wave's above 4096. */
    static const uint32_t nelems[] = {0, 1, 3, 37, 64, 200, 530, MOST}, bytes[] = {0, 1, 17, 37, 512, 513, 4096, 4097};
    const size_t n = (size_t)shmem_n_pes();
    struct few_args a;
    uint64_t wrong;
    memset(&a, 0, sizeof(a));
    a.room = (MOST + 8) * 8 * n + 128;
    a.dest = (char *)shmemx_calloc(BLOCKS, a.room, SHMEMX_DEVICE);
    a.source = (char *)shmemx_calloc(BLOCKS, a.room, SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.dest != NULL && a.source != NULL && a.wrong != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    for (unsigned k = 0; k < sizeof(nelems) / sizeof(nelems[0]) && k < device_number("SHMEM_TEST_CASES", 8); k++)
        for (a.turn = 0; a.turn < 3; a.turn++) {
            a.nelems = nelems[k];
            a.bytes = bytes[k];
            a.shift = (a.turn + k) % 3;
            a.in_place = (a.turn + k) % 2;
            DEVICE_RUN(few_moves, BLOCKS, THREADS, a);
#define FEW_RUN(NAME, T, OP)                             \
    DEVICE_RUN(few_##NAME##_thread, BLOCKS, THREADS, a); \
    DEVICE_RUN(few_##NAME##_wave, BLOCKS, THREADS, a);   \
    DEVICE_RUN(few_##NAME##_block, BLOCKS, THREADS, a);
            FEW_TYPES(FEW_RUN)
            DEVICE_RUN(few_on_a_lane, BLOCKS, THREADS, a);
            device_read(&wrong, a.wrong, sizeof(wrong));
            CHECK_EQ(wrong, 0);
        }
    shmem_barrier_all();
    shmemx_free(a.wrong);
    shmemx_free(a.source);
    shmemx_free(a.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
