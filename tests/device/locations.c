/* SPDX-License-Identifier: MIT */
/* maxloc and minloc inside kernels: reductions of a value and its location, of all types, short (LL) and long, by a
 * block and by a grid, in place, and as a reducescatter. Values are equal on several members, so the smaller location
 * has to be taken, whichever member has it. */
#include "device_test.h"

enum { BLOCKS = 2, THREADS = 96, MOST = 3000 };

#define LOC_TYPES(X)   \
    X(float, float)    \
    X(int32, int32_t)  \
    X(double, double)  \
    X(int64, int64_t)  \
    X(double2, double)

struct loc_args {
    shmemd_t h;
    char *dest, *source;
    uint64_t *wrong;
    uint32_t nelems, in_place;
};

/* Of member m, element i: few different values. Locations are not in the order of members. */
SHMEMD_FN int32_t loc_value(uint32_t m, uint32_t i) { return (int32_t)((m * 5 + i * 3) % 7) - 3; }
SHMEMD_FN int32_t loc_at(uint32_t m, uint32_t i, uint32_t n) { return (int32_t)((n - m) * 100 + i % 50); }
/* The member that is right. */
SHMEMD_FN uint32_t loc_best(uint32_t i, uint32_t n, bool most)
{
    uint32_t best = 0;
    for (uint32_t m = 1; m < n; m++) {
        const int32_t x = loc_value(best, i), y = loc_value(m, i);
        if ((most ? y > x : y < x) || (y == x && loc_at(m, i, n) < loc_at(best, i, n)))
            best = m;
    }
    return best;
}

#define LOC_KERNEL(NAME, T)                                                                                         \
    SHMEMD_KERNEL(loc_##NAME, struct loc_args, a)                                                                   \
    {                                                                                                               \
        const uint32_t me = (uint32_t)shmemd_my_pe(a.h), n = (uint32_t)shmemd_n_pes(a.h);                           \
        const uint32_t threads = shmemd_block_count() * shmemd_block_size();                                        \
        const uint32_t thread = shmemd_block_index() * shmemd_block_size() + shmemd_thread_index();                 \
        const bool grid = shmemd_block_count() > 1;                                                                 \
        shmemd_##NAME##_loc_t *source = (shmemd_##NAME##_loc_t *)(void *)a.source;                                  \
        shmemd_##NAME##_loc_t *dest = a.in_place != 0 ? source : (shmemd_##NAME##_loc_t *)(void *)a.dest;           \
        int bad = 0;                                                                                                \
        for (uint32_t turn = 0; turn < 2; turn++) {                                                                 \
            const bool most = turn == 0;                                                                            \
            for (uint32_t i = thread; i < a.nelems; i += threads) {                                                 \
                source[i].value = (T)loc_value(me, i);                                                              \
                source[i].at = loc_at(me, i, n);                                                                    \
            }                                                                                                       \
            if (grid)                                                                                               \
                bad += (most ? shmemd_##NAME##_maxloc_reduce_grid(a.h, dest, source, a.nelems)                      \
                             : shmemd_##NAME##_minloc_reduce_grid(a.h, dest, source, a.nelems)) != 0;               \
            else                                                                                                    \
                bad += (most ? shmemd_##NAME##_maxloc_reduce_block(a.h, dest, source, a.nelems)                     \
                             : shmemd_##NAME##_minloc_reduce_block(a.h, dest, source, a.nelems)) != 0;              \
            for (uint32_t i = thread; i < a.nelems; i += threads) {                                                 \
                const uint32_t best = loc_best(i, n, most);                                                         \
                bad += dest[i].value != (T)loc_value(best, i) || dest[i].at != loc_at(best, i, n);                  \
            }                                                                                                       \
            bad += shmemd_barrier_grid(a.h) != 0;                                                                   \
        }                                                                                                           \
        const uint32_t part = a.nelems / n;                                                                         \
        if (!grid && a.in_place == 0) {                                                                             \
            bad += shmemd_##NAME##_minloc_reducescatter_block(a.h, dest, source, part) != 0;                        \
            for (uint32_t i = thread; i < part; i += threads) {                                                     \
                const uint32_t best = loc_best(me * part + i, n, false);                                            \
                bad += dest[i].value != (T)loc_value(best, me * part + i);                                          \
                bad += dest[i].at != loc_at(best, me * part + i, n);                                                \
            }                                                                                                       \
            bad += shmemd_barrier_block(a.h) != 0;                                                                  \
        }                                                                                                           \
        if (bad != 0)                                                                                               \
            shmemd_uint64_atomic_add(a.h, a.wrong, (uint64_t)bad, (int)me);                                         \
    }
LOC_TYPES(LOC_KERNEL)

static void run_all(struct loc_args *a, unsigned blocks)
{
    const uint32_t sizes[] = {1, 2, 37, MOST};
    for (int k = 0; k < 4; k++)
        for (a->in_place = 0; a->in_place < 2; a->in_place++) {
            a->nelems = sizes[k];
#define LOC_RUN(NAME, T) DEVICE_RUN(loc_##NAME, blocks, THREADS, *a);
            LOC_TYPES(LOC_RUN)
        }
}

static int test_main(void)
{
    DEVICE_INIT();
    struct loc_args a;
    uint64_t wrong;
    memset(&a, 0, sizeof(a));
    a.dest = (char *)shmemx_calloc(MOST, 16, SHMEMX_DEVICE);
    a.source = (char *)shmemx_calloc(MOST, 16, SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.dest != NULL && a.source != NULL && a.wrong != NULL);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    run_all(&a, 1);
    run_all(&a, BLOCKS);
    device_read(&wrong, a.wrong, sizeof(wrong));
    CHECK_EQ(wrong, 0);
    shmem_barrier_all();
    shmemx_free(a.wrong);
    shmemx_free(a.source);
    shmemx_free(a.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
