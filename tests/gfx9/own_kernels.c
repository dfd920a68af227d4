/* SPDX-License-Identifier: MIT */
/* Kernels of own_test.c: code objects of their own, which that program loads by itself. */
#include "../../include/shmem_device.h"

#include "own_cases.h"

struct held_args {
    uint64_t *data, *seen, *flag;
    uint64_t settles;
};

/* All waves store, then the first thread fences and stores a flag. The waves sleep behind the barrier, so that the flag
 * can be looked at while none has ended. */
PRIM_KERNEL(held_put, struct held_args, a)
{
    struct prim_group block = prim_group_block();
    uint32_t rank = prim_rank(block), size = prim_size(block);
    a.data[rank] = rank + 1;
    if (a.settles != 0)
        prim_settle_stores(block);
    prim_sync(block);
    if (rank == 0) {
        prim_fence_before_signal();
        prim_store_flag_u64(a.flag, 1);
        prim_fence_before_signal(); /* the flag has left */
    }
    for (int i = 0; i < 8; i++)
        prim_pause();
    a.seen[rank] = a.data[size - 1 - rank];
}

#define CARRY(name, carry_in, result, first, second)                                               \
    asm volatile("v_cmp_ne_u32_e32 vcc, 0, %4\n" #name "_sdwa %0, vcc, %2, %3" carry_in            \
                 " dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:" #first " src1_sel:" #second "\n" \
                 "v_cndmask_b32_e64 %1, 0, 1, vcc"                                                 \
                 : "=&v"(sum), "=&v"(carry)                                                        \
                 : "v"(a.a[lane]), "v"(a.b[lane]), "v"(lane & 1)                                   \
                 : "vcc");                                                                         \
    *out = (uint64_t)carry << 32 | sum;                                                            \
    out += OWN_LANES;
PRIM_KERNEL(own_carries, struct carry_args, a)
{
    uint32_t lane = prim_rank(prim_group_block()), sum, carry;
    uint64_t *out = a.results + lane;
    OWN_CARRIES(CARRY)
}
