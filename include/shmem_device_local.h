/* SPDX-License-Identifier: MIT */
/* What threads of one PE do among themselves, portably: places in three dimensions, dynamic shared memory, votes and
 * shuffles of a wave, barriers of some waves, atomics of block and device scope. Included by shmem_device.h. No call
 * here names a PE or takes a handle, and none concerns what is under way to other PEs, except as its comment says. */
#ifndef SHMEM_DEVICE_LOCAL_H
#define SHMEM_DEVICE_LOCAL_H

#include "shmem_device.h" /* may be included in either order */

/* ---- places ----
 * Sizes of the grid and of a block as launched, and the places of the calling thread, in x, y, z. In one dimension:
 * shmemd_block_index and so on; x counts fastest there. */
typedef struct prim_dim shmemd_dim_t;
PRIM_FN shmemd_dim_t shmemd_grid_dim(void) { return prim_grid_dim(); }
PRIM_FN shmemd_dim_t shmemd_block_dim(void) { return prim_block_dim(); }
PRIM_FN shmemd_dim_t shmemd_block_place(void) { return prim_block_place(); }
PRIM_FN shmemd_dim_t shmemd_thread_place(void) { return prim_thread_place(); }

/* Declares, at the start of a kernel's body, `TYPE *const name`: the dynamic shared memory of the block, as many bytes
 * as the launch says (shared_bytes). Aligned to 16, uninitialised, the same for all threads of a block, and the same
 * memory under all names. */
#define SHMEMD_DYNAMIC_SHARED(TYPE, name) PRIM_SHARED_DYNAMIC(TYPE, name)

/* ---- votes and values of a group ----
 * By all threads of the group. The group synchronises, as by shmemd_group_sync. Only one kind of group at a time: a
 * part of a wave must not call. */

/* 1 when p was not 0 for any (for all) of the threads, else 0. */
PRIM_FN int shmemd_group_any(shmemd_group_t g, int p)
{
    prim_settle_stores(g);
    return prim_sync_or(g, p != 0) ? 1 : 0;
}
PRIM_FN int shmemd_group_all(shmemd_group_t g, int p) { return 1 - shmemd_group_any(g, p == 0); }
/* The value that the first thread of the group gave. */
PRIM_FN uint64_t shmemd_group_broadcast(shmemd_group_t g, uint64_t value)
{
    prim_settle_stores(g);
    return prim_broadcast_u64(g, value);
}

/* By all threads of a wave; these order no memory. Bit i of the result is whether p was not 0 for thread i of the wave.
 */
PRIM_FN uint64_t shmemd_wave_ballot(int p) { return prim_ballot(p != 0); }

/* shmemd_NAME_shuffle(value, thread): the value that thread `thread` of the wave gave, 0 .. its size - 1. Each thread
 * may ask for another one. NAME: the types of 4 and 8 bytes that have atomics. The sum over a wave of a power of two:
 *     for (unsigned step = shmemd_group_size(shmemd_wave()) / 2; step != 0; step /= 2)
 *         sum += shmemd_float_shuffle(sum, shmemd_group_rank(shmemd_wave()) ^ step); */
#define SHMEMD_SHUFFLE(NAME, TYPE, ...)                                                                        \
    PRIM_FN TYPE shmemd_##NAME##_shuffle(TYPE value, unsigned thread)                                          \
    {                                                                                                          \
        uint64_t bits = isod_bits(&value, sizeof(value));                                                      \
        bits = sizeof(value) == 4 ? prim_shuffle_u32((uint32_t)bits, thread) : prim_shuffle_u64(bits, thread); \
        isod_unbits(&value, bits, sizeof(value));                                                              \
        return value;                                                                                          \
    }
SHMEM_EXT_TYPES(SHMEMD_SHUFFLE, )

/* ---- barriers of some waves of a block ----
 * An object in shared memory: SHMEMD_SHARED(shmemd_named_barrier_t, half, 2). One thread initialises it, then the block
 * synchronises. `threads` is how many threads meet: whole waves, each of which calls with all its threads. `id` is 1 ..
 * 15, another one for each object that is in use; NVIDIA's hardware has so many, and code of others in the kernel may
 * use some. After sync, threads see each other's earlier stores; and as after shmemd_group_sync, a later fence or quiet
 * of any of them covers what all of them have issued before. */
typedef struct prim_named shmemd_named_barrier_t;
PRIM_FN void shmemd_named_barrier_init(shmemd_named_barrier_t *b, unsigned id, unsigned threads)
{
    b->id = id;
    b->threads = threads;
    b->arrived = b->generation = 0;
}
PRIM_FN void shmemd_named_barrier_sync(shmemd_named_barrier_t *b) { prim_named_sync(b); }

/* ---- atomics of block and device scope ----
 * By the calling thread, on a word in shared memory of its block (SHMEMD_SCOPE_BLOCK only) or in memory of its device,
 * which no other PE changes meanwhile. They are faster than shmemd_NAME_atomic_ on the own PE. Both of one word at once
 * is wrong. A word that peers or the host read or write takes those.
 *
 *     shmemd_NAME_local_load(p, order, scope)                  store(p, value, order, scope)
 *     shmemd_NAME_local_fetch_add(p, value, order, scope)      swap likewise: they return the old value
 *     shmemd_NAME_local_compare_swap(p, cond, value, order, scope)
 *
 * NAME: the standard AMO types. `order` and `scope` are constants: SHMEMD_RELAXED; SHMEMD_ACQUIRE (not of stores);
 * SHMEMD_RELEASE (not of loads); SHMEMD_ACQ_REL (neither). An acquire that reads what a release of the same scope has
 * written sees all that the releasing thread stored before, and a fence or quiet of it then covers what that thread had
 * put. On the CPU device they may stand in polling loops without shmemd_pause, and such a loop that sees no change for
 * SHMEM_TIMEOUT is reported. */
#define SHMEMD_RELAXED PRIM_RELAXED
#define SHMEMD_ACQUIRE PRIM_ACQUIRE
#define SHMEMD_RELEASE PRIM_RELEASE
#define SHMEMD_ACQ_REL PRIM_ACQ_REL
#define SHMEMD_SCOPE_BLOCK PRIM_OF_BLOCK
#define SHMEMD_SCOPE_DEVICE PRIM_OF_DEVICE

/* Words of 4 or 8 bytes; `is_wide` is a constant. */
PRIM_FN uint64_t isod_local_load(const void *p, bool is_wide, int order, int scope)
{
    uint64_t v = is_wide ? prim_local_load_u64((const uint64_t *)p, order, scope)
                         : prim_local_load_u32((const uint32_t *)p, order, scope);
    prim_look("shmemd_local_load", p, v);
    return v;
}
PRIM_FN void isod_local_store(void *p, bool is_wide, uint64_t v, int order, int scope)
{
    if (is_wide)
        prim_local_store_u64((uint64_t *)p, v, order, scope);
    else
        prim_local_store_u32((uint32_t *)p, (uint32_t)v, order, scope);
}
PRIM_FN uint64_t isod_local_add(void *p, bool is_wide, uint64_t v, int order, int scope)
{
    uint64_t old = is_wide ? prim_local_fetch_add_u64((uint64_t *)p, v, order, scope)
                           : prim_local_fetch_add_u32((uint32_t *)p, (uint32_t)v, order, scope);
    prim_look("shmemd_local_fetch_add", p, old);
    return old;
}
PRIM_FN uint64_t isod_local_swap(void *p, bool is_wide, uint64_t v, int order, int scope)
{
    uint64_t old = is_wide ? prim_local_swap_u64((uint64_t *)p, v, order, scope)
                           : prim_local_swap_u32((uint32_t *)p, (uint32_t)v, order, scope);
    prim_look("shmemd_local_swap", p, old);
    return old;
}
/* With the old value that it expects, and the new one. */
struct isod_local_words {
    uint64_t cond, value;
};
PRIM_FN uint64_t isod_local_cas(void *p, bool is_wide, struct isod_local_words w, int order, int scope)
{
    uint64_t old = is_wide ? prim_local_cas_u64((uint64_t *)p, w.cond, w.value, order, scope)
                           : prim_local_cas_u32((uint32_t *)p, (uint32_t)w.cond, (uint32_t)w.value, order, scope);
    prim_look("shmemd_local_compare_swap", p, old);
    return old;
}

#define SHMEMD_LOCAL(NAME, TYPE, ...)                                                                     \
    PRIM_FN TYPE shmemd_##NAME##_local_load(const TYPE *p, int order, int scope)                          \
    {                                                                                                     \
        return (TYPE)isod_local_load(p, sizeof(TYPE) == 8, order, scope);                                 \
    }                                                                                                     \
    PRIM_FN void shmemd_##NAME##_local_store(TYPE *p, TYPE value, int order, int scope)                   \
    {                                                                                                     \
        isod_local_store(p, sizeof(TYPE) == 8, (uint64_t)value, order, scope);                            \
    }                                                                                                     \
    PRIM_FN TYPE shmemd_##NAME##_local_fetch_add(TYPE *p, TYPE value, int order, int scope)               \
    {                                                                                                     \
        return (TYPE)isod_local_add(p, sizeof(TYPE) == 8, (uint64_t)value, order, scope);                 \
    }                                                                                                     \
    PRIM_FN TYPE shmemd_##NAME##_local_swap(TYPE *p, TYPE value, int order, int scope)                    \
    {                                                                                                     \
        return (TYPE)isod_local_swap(p, sizeof(TYPE) == 8, (uint64_t)value, order, scope);                \
    }                                                                                                     \
    PRIM_FN TYPE shmemd_##NAME##_local_compare_swap(TYPE *p, TYPE cond, TYPE value, int order, int scope) \
    {                                                                                                     \
        const struct isod_local_words w = {(uint64_t)cond, (uint64_t)value};                              \
        return (TYPE)isod_local_cas(p, sizeof(TYPE) == 8, w, order, scope);                               \
    }
SHMEM_STD_TYPES(SHMEMD_LOCAL, )

#endif
