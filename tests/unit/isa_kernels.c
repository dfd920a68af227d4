/* SPDX-License-Identifier: MIT */
/* One tiny kernel for each primitive of device/api/prim.h whose right instructions no test on a stronger machine can
 * show: isa.sh compiles this file for AMD's architectures and looks at what came out, by the kernels' names. Never
 * run. */
#include "../../include/shmem_device.h"

struct isa_args {
    shmemd_t h;
    char *mine, *theirs;
    uint64_t bytes;
    uint64_t *flag, *word;
    uint32_t *word32;
    uint64_t value;
};

/* ---- flags ---- */

SHMEMD_KERNEL(isa_put_signal, struct isa_args, a)
{
    struct prim_group g = prim_group_block();
    prim_copy_put(g, a.theirs, a.mine, a.bytes);
    prim_signal_u64(g, a.flag, a.value);
}
SHMEMD_KERNEL(isa_put_signal_wave, struct isa_args, a)
{
    struct prim_group g = prim_group_wave();
    prim_copy_put(g, a.theirs, a.mine, a.bytes);
    prim_signal_u64(g, a.flag, a.value);
}
/* Every thread stores, then each of many stores a flag, as collectives do. */
SHMEMD_KERNEL(isa_gather, struct isa_args, a)
{
    uint32_t rank = prim_rank(prim_group_block());
    ((uint32_t *)a.theirs)[rank] = rank;
    prim_gather_stores(prim_group_block());
    if (rank < 8) {
        prim_fence_flag();
        prim_store_flag_u64(a.flag + rank, a.value);
    }
}
/* Nothing of this thread is pending here, as far as a compiler sees. */
SHMEMD_KERNEL(isa_signal_alone, struct isa_args, a)
{
    prim_fence_before_signal();
    prim_store_flag_u64(a.flag, a.value);
}
SHMEMD_KERNEL(isa_flag, struct isa_args, a) { prim_store_flag_u64(a.flag, a.value); }
SHMEMD_KERNEL(isa_flag32, struct isa_args, a) { prim_store_flag_u32(a.word32, (uint32_t)a.value); }
SHMEMD_KERNEL(isa_release, struct isa_args, a)
{
    a.word[0] = a.value;
    prim_store_release_u64(a.flag, a.value);
}

/* ---- waits ---- */

SHMEMD_KERNEL(isa_poll, struct isa_args, a)
{
    while (prim_peek_u64(a.flag) < a.value)
        prim_pause();
    prim_acquire_from_peer();
    a.word[0] = *(uint64_t *)(void *)a.mine;
}
SHMEMD_KERNEL(isa_poll32, struct isa_args, a)
{
    while (prim_peek_u32(a.word32) < (uint32_t)a.value)
        prim_pause();
    prim_acquire_from_peer();
    a.word[0] = *(uint64_t *)(void *)a.mine;
}
SHMEMD_KERNEL(isa_acquire, struct isa_args, a)
{
    if (prim_load_acquire_u64(a.flag) == a.value)
        a.word[0] = *(uint64_t *)(void *)a.mine;
}
SHMEMD_KERNEL(isa_quiet, struct isa_args, a)
{
    prim_store_relaxed_u64(a.flag, a.value);
    prim_fence_full();
    a.word[0] = prim_load_relaxed_u64(a.flag + 1);
}
SHMEMD_KERNEL(isa_quiet_alone, struct isa_args, a)
{
    prim_fence_full();
    a.word[0] = prim_load_relaxed_u64(a.flag);
}

/* ---- copies and lines ---- */

SHMEMD_KERNEL(isa_put, struct isa_args, a) { prim_copy_put(prim_group_block(), a.theirs, a.mine, a.bytes); }
SHMEMD_KERNEL(isa_get, struct isa_args, a) { prim_copy_get(prim_group_block(), a.mine, a.theirs, a.bytes); }
SHMEMD_KERNEL(isa_ll128_store, struct isa_args, a)
{
    struct prim_vec16 v = {{a.value, a.value + 1}};
    uint32_t rank = prim_rank(prim_group_wave());
    prim_ll128_store(a.theirs + (uint64_t)(rank / 8) * 128, rank % 8, v, rank < a.bytes);
}
SHMEMD_KERNEL(isa_ll128_load, struct isa_args, a)
{
    struct prim_vec16 v = {{0, 0}};
    uint32_t rank = prim_rank(prim_group_wave());
    while (prim_wave_or(!prim_ll128_look(a.mine + (uint64_t)(rank / 8) * 128, rank % 8, a.value, &v)))
        prim_pause();
    a.word[rank] = v.word[0] + v.word[1];
}
SHMEMD_KERNEL(isa_ll_store, struct isa_args, a)
{
    prim_store_ll((struct prim_ll *)(void *)a.theirs, (uint32_t)a.bytes, (uint32_t)a.value, 7);
}
SHMEMD_KERNEL(isa_ll_load, struct isa_args, a)
{
    struct prim_ll line = prim_load_ll((const struct prim_ll *)(const void *)a.mine);
    while (line.epoch0 != 7 || line.epoch1 != 7)
        line = prim_load_ll((const struct prim_ll *)(const void *)a.mine);
    a.word[0] = (uint64_t)line.data0 << 32 | line.data1;
}
SHMEMD_KERNEL(isa_narrow, struct isa_args, a)
{
    prim_store_relaxed_u8((uint8_t *)a.theirs, prim_load_relaxed_u8((const uint8_t *)a.theirs + 8));
    prim_store_relaxed_u16((uint16_t *)(void *)a.theirs + 1,
                           prim_load_relaxed_u16((const uint16_t *)(void *)a.theirs + 8));
}

/* ---- atomics: with and without a use of the old value ---- */

SHMEMD_KERNEL(isa_fetch, struct isa_args, a)
{
    uint64_t v = prim_fetch_add_u64(a.flag, a.value);
    v += prim_fetch_and_u64(a.flag + 1, a.value) + prim_fetch_or_u64(a.flag + 2, a.value);
    v += prim_fetch_xor_u64(a.flag + 3, a.value) + prim_swap_u64(a.flag + 4, a.value);
    v += prim_cas_u64(a.flag + 5, a.value, a.bytes);
    v += prim_fetch_add_u32(a.word32, 1) + prim_swap_u32(a.word32 + 1, 2) + prim_cas_u32(a.word32 + 2, 3, 4);
    a.word[0] = v;
}
SHMEMD_KERNEL(isa_update, struct isa_args, a)
{
    (void)prim_fetch_add_u64(a.flag, a.value);
    prim_or_u32(a.word32, 1);
    prim_and_u32(a.word32 + 1, 2);
    prim_xor_u32(a.word32 + 2, 3);
    prim_or_u64(a.flag + 1, a.value);
    prim_and_u64(a.flag + 2, a.value);
    prim_xor_u64(a.flag + 3, a.value);
}
SHMEMD_KERNEL(isa_fetch_bits32, struct isa_args, a)
{
    a.word[0] = (uint64_t)prim_fetch_and_u32(a.word32, 1) + prim_fetch_or_u32(a.word32 + 1, 2) +
                prim_fetch_xor_u32(a.word32 + 2, 3);
}
/* A lock is taken, then what it guards is read. */
SHMEMD_KERNEL(isa_lock, struct isa_args, a)
{
    while (prim_cas_u64(a.flag, 0, 1) != 0)
        ;
    prim_acquire_after_atomic();
    a.word[0] = *(uint64_t *)(void *)a.mine;
}

/* ---- the block ---- */

SHMEMD_KERNEL(isa_barrier, struct isa_args, a)
{
    PRIM_SHARED(uint32_t, part, 1024);
    uint32_t rank = prim_rank(prim_group_block());
    part[rank] = ((const uint32_t *)(const void *)a.mine)[rank];
    prim_sync(prim_group_block());
    ((uint32_t *)(void *)a.theirs)[rank] = part[rank ^ 65];
}
SHMEMD_KERNEL(isa_vote, struct isa_args, a)
{
    uint32_t rank = prim_rank(prim_group_block());
    if (prim_sync_or(prim_group_block(), a.mine[rank] != 0))
        a.mine[rank] = (char)prim_broadcast_u64(prim_group_block(), a.value + rank);
}
SHMEMD_KERNEL(isa_table, struct isa_args, a)
{
    a.word[prim_block_index()] = prim_load_const_u64(a.flag) + prim_load_const_u32(a.word32) + prim_block_count();
}

/* ---- the public calls: no scratch memory, no spills ---- */

SHMEMD_KERNEL(isa_api_put_signal, struct isa_args, a)
{
    shmemd_putmem_signal_block(a.h, a.theirs, a.mine, a.bytes, a.flag, a.value, SHMEM_SIGNAL_SET, 1);
}
SHMEMD_KERNEL(isa_api_wait, struct isa_args, a)
{
    shmemd_signal_wait_until_block(a.h, a.flag, SHMEM_CMP_GE, a.value);
    shmemd_getmem_block(a.h, a.mine, a.theirs, a.bytes, 1);
}
SHMEMD_KERNEL(isa_api_quiet, struct isa_args, a)
{
    shmemd_putmem_nbi_block(a.h, a.theirs, a.mine, a.bytes, 1);
    shmemd_quiet_block(a.h);
    shmemd_signal_op(a.h, a.flag, a.value, SHMEM_SIGNAL_ADD, 1);
}


/* ---- the data of a block, then the fence and the signal of one thread ---- */

SHMEMD_FN void isa_signal_of_one(struct isa_args a)
{
    if (shmemd_thread_index() != 0)
        return;
    shmemd_fence(a.h);
    shmemd_signal_op(a.h, a.flag, a.value, SHMEM_SIGNAL_ADD, 1);
}
SHMEMD_KERNEL(isa_one_put_kernel, struct isa_args, a)
{
    shmemd_putmem_block(a.h, a.theirs, a.mine, a.bytes, 1);
    isa_signal_of_one(a);
}
SHMEMD_KERNEL(isa_one_iput_kernel, struct isa_args, a)
{
    shmemd_iput8_block(a.h, a.theirs, a.mine, 2, 1, a.bytes, 1);
    isa_signal_of_one(a);
}
SHMEMD_KERNEL(isa_one_get_kernel, struct isa_args, a)
{
    shmemd_getmem_block(a.h, a.mine, a.theirs, a.bytes, 1);
    isa_signal_of_one(a);
}
SHMEMD_KERNEL(isa_one_wait_kernel, struct isa_args, a)
{
    shmemd_putmem_nbi_block(a.h, a.theirs, a.mine, a.bytes, 1);
    shmemd_uint64_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, a.value);
    isa_signal_of_one(a);
}
SHMEMD_KERNEL(isa_one_sync_kernel, struct isa_args, a)
{
    shmemd_putmem_nbi_wave(a.h, a.theirs, a.mine, a.bytes, 1);
    shmemd_group_sync(shmemd_block());
    if (shmemd_thread_index() != 0)
        return;
    shmemd_quiet(a.h);
    shmemd_signal_op(a.h, a.flag, a.value, SHMEM_SIGNAL_ADD, 1);
}
/* Of prim.h alone, as a bare sync would leave it. */
SHMEMD_KERNEL(isa_settle, struct isa_args, a)
{
    prim_copy_put(prim_group_block(), a.theirs, a.mine, a.bytes);
    prim_settle_stores(prim_group_block());
    prim_sync(prim_group_block());
    if (prim_is_first(prim_group_block())) {
        prim_fence_before_signal();
        (void)prim_fetch_add_u64(a.flag, a.value);
    }
}

/* ---- collectives: the rules for every kernel ---- */

SHMEMD_KERNEL(collective_barrier, struct isa_args, a) { a.word[0] = (uint64_t)shmemd_barrier_block(a.h); }
SHMEMD_KERNEL(collective_reduce, struct isa_args, a)
{
    a.word[0] =
        (uint64_t)shmemd_float_sum_reduce_block(a.h, (float *)(void *)a.mine, (const float *)(void *)a.theirs, a.bytes);
}
SHMEMD_KERNEL(collective_broadcast, struct isa_args, a)
{
    a.word[0] = (uint64_t)shmemd_broadcastmem_block(a.h, a.mine, a.theirs, a.bytes, 0);
}
