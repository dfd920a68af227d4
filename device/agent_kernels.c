/* SPDX-License-Identifier: MIT */
/* The kernel by which the host acts on one word of device memory: a word belongs to the processor of its memory.
 * One thread, so nothing is synchronised. Launched by shmem/transport/device_agent.c. Includes: state.h. */
#include "api/state.h"

PRIM_FN uint64_t word_apply32(const struct isod_word_task *t)
{
    uint32_t *word = (uint32_t *)t->word;
    uint32_t operand = (uint32_t)t->operand;
    switch (t->op) {
    case ISOD_AMO_FETCH:
        return prim_load_acquire_u32(word);
    case ISOD_AMO_SET:
        prim_store_release_u32(word, operand);
        return 0;
    case ISOD_AMO_SWAP:
        return prim_swap_u32(word, operand);
    case ISOD_AMO_CSWAP:
        return prim_cas_u32(word, (uint32_t)t->compare, operand);
    case ISOD_AMO_ADD:
        return prim_fetch_add_u32(word, operand);
    case ISOD_AMO_AND:
        return prim_fetch_and_u32(word, operand);
    case ISOD_AMO_OR:
        return prim_fetch_or_u32(word, operand);
    default:
        return prim_fetch_xor_u32(word, operand);
    }
}

PRIM_FN uint64_t word_apply64(const struct isod_word_task *t)
{
    uint64_t *word = (uint64_t *)t->word;
    switch (t->op) {
    case ISOD_AMO_FETCH:
        return prim_load_acquire_u64(word);
    case ISOD_AMO_SET:
        prim_store_release_u64(word, t->operand);
        return 0;
    case ISOD_AMO_SWAP:
        return prim_swap_u64(word, t->operand);
    case ISOD_AMO_CSWAP:
        return prim_cas_u64(word, t->compare, t->operand);
    case ISOD_AMO_ADD:
        return prim_fetch_add_u64(word, t->operand);
    case ISOD_AMO_AND:
        return prim_fetch_and_u64(word, t->operand);
    case ISOD_AMO_OR:
        return prim_fetch_or_u64(word, t->operand);
    default:
        return prim_fetch_xor_u64(word, t->operand);
    }
}

/* System scope throughout: composes with kernels of any PE that poll or change the word. A read-modify-write need not
 * order anything here: the host has waited for what came before, and waits for the end of this kernel. */
PRIM_KERNEL(isod_word_kernel, struct isod_word_task, task)
{
    uint64_t old = 0;
    if (task.bytes == 1) /* narrow words are only set */
        prim_store_relaxed_u8((uint8_t *)task.word, (uint8_t)task.operand);
    else if (task.bytes == 2)
        prim_store_relaxed_u16((uint16_t *)task.word, (uint16_t)task.operand);
    else
        old = task.bytes == 4 ? word_apply32(&task) : word_apply64(&task);
    prim_store_release_u64(task.old, old);
}
