/* SPDX-License-Identifier: MIT */
/* A libhsa-runtime64 for machines without a GPU: kernels run in threads, by gfx9.h's interpreter, and all memory is the
 * process's own. What its files share. Handles of the HSA API are addresses of the structs here (an isa's is 1). */
#ifndef HSA_OWN_H
#define HSA_OWN_H

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_AGENTS = 17, POOLS_OF_AGENT = 3, PAGE = 4096, ISA_HANDLE = 1 };
static const uint64_t MS = 1000000;                                       /* in ns */
#define INVALID_POOL ((hsa_status_t)HSA_STATUS_ERROR_INVALID_MEMORY_POOL) /* of another enum, for the compiler */

/* Answers of attributes: the caller's memory, `value`, has exactly the type of the HSA specification. */
#define ANSWER(type, ...)                         \
    do {                                          \
        const type answer_ = __VA_ARGS__;         \
        memcpy(value, &answer_, sizeof(answer_)); \
        return HSA_STATUS_SUCCESS;                \
    } while (0)

/* ---- hsa_agent.c ---- */

struct agent;
struct pool {
    struct agent *agent;
    hsa_amd_segment_t segment;
    uint32_t flags; /* hsa_amd_memory_pool_global_flag_t */
};

struct agent {
    hsa_device_type_t kind;
    uint32_t node;           /* 0 is the CPU's */
    uint64_t size;           /* bytes that its pools have together */
    _Atomic uint64_t in_use; /* of them */
    struct pool pools[POOLS_OF_AGENT];
};

struct agent *own_agent(hsa_agent_t handle); /* NULL: none of ours */
struct agent *own_agent_of_node(uint32_t node);
struct pool *own_pool(hsa_amd_memory_pool_t handle);
/* The agents of a list as bits 1 << node; 0: an unknown one is among them. */
uint64_t own_agent_mask(uint32_t n, const hsa_agent_t *agents);
uint64_t own_all_agents(void);
hsa_agent_t own_handle(const struct agent *agent);
uint64_t own_now(void); /* the clock of all time stamps, in ns */

/* ---- hsa_memory.c ---- */

/* NULL: no memory. Device memory is not zero. */
void *own_allocate(struct pool *pool, size_t len);
hsa_status_t own_free(void *base);

/* ---- hsa_code.c ---- */

bool own_is_fill(uint64_t kernel); /* the descriptor of HIP's own kernel that fills memory */

/* ---- hsa_signal.c ---- */

int64_t own_signal_load(hsa_signal_t signal);
void own_signal_subtract(hsa_signal_t signal, int64_t value); /* behind everything this thread has written */
void own_signal_times(hsa_signal_t signal, uint64_t start, uint64_t end);
/* Waits for at most some time, and returns the value that it saw last. */
int64_t own_signal_wait(hsa_signal_t signal, hsa_signal_condition_t condition, int64_t compare, uint64_t ns);
bool own_holds(hsa_signal_condition_t condition, int64_t value, int64_t compare);

/* For who waits for any of several things: read the count, look at them, sleep unless the count has changed since. */
uint32_t own_events(void);
void own_events_sleep(uint32_t seen, uint64_t ns);
void own_events_happened(void);

#endif
