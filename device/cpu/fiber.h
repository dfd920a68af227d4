/* SPDX-License-Identifier: MIT */
/* Runs a grid of the CPU device on the calling OS thread. Every thread of every block is a fiber, and all of them live
 * until they return. They switch where they synchronise (blocks, waves), between polls, and at looks that find nothing
 * new. The order is round robin, or random by a seed: the same seed gives the same order. The OS thread yields when all
 * threads that could run only poll. Includes nothing of ours. Used by gpu_cpu.c, and by unit tests. */
#ifndef ISO_FIBER_H
#define ISO_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel as PRIM_KERNEL makes it. It returns the size of its struct; with args NULL it does nothing else. */
typedef size_t (*fiber_kernel)(const void *args);

struct fiber_grid {
    fiber_kernel kernel;
    const void *args; /* aligned as its struct; lives until the grid has ended */
    unsigned blocks;
    unsigned threads; /* of a block */
    unsigned wave;    /* 32 or 64 */
    uint64_t seed;    /* of the order, 0: round robin, and one thread does a block's prim_call_begin for all */
    uint32_t grid_dim[2], block_dim[2]; /* x and y of both, z follows from the number; 0: x is all, y is 1 */
    size_t shared_bytes;                /* dynamic */
};
enum { FIBER_MOST_THREADS = 1024 /* of a block */, FIBER_MOST_OF_GRID = 1 << 20 };

/* Threads that may wait at once: each needs a stack, of which it uses a page or two. More is not refused. */
unsigned iso_fibers_most_waiting(void);

struct fibers; /* stacks and tables, kept from grid to grid; of one OS thread at a time */

struct fibers *iso_fibers_create(void);         /* NULL: no memory */
void iso_fibers_destroy(struct fibers *fibers); /* NULL-tolerant; by the OS thread that ran the grids, or after it */
/* A thread whose looks (prim_look) have found nothing new for so long is reported, once a grid until something is; 0,
 * as at first: never. gives_up: the process ends after it. */
void iso_fibers_report_after(struct fibers *fibers, uint64_t timeout_ns, bool gives_up);
/* Returns when all threads have returned: 0, or -EINVAL and -ENOMEM before any has begun. Threads that wait for each
 * other in a way that can never end, and a lack of stacks, end the process with a sentence. */
int iso_fibers_run(struct fibers *fibers, const struct fiber_grid *grid);

/* Which thread of a kernel the calling OS thread runs, for a handler of signals. False: none. */
struct fiber_place {
    unsigned block, thread;
    bool is_behind_stack; /* addr is just below a stack: it was full */
    size_t stack_bytes;
};
bool iso_fibers_at(const void *addr, struct fiber_place *place);

#endif
