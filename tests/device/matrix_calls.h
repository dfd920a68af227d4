/* SPDX-License-Identifier: MIT */
/* Kernels that make collectives: every block, or the grid as one, makes some calls in a row, blocks and PEs out of
 * step, with a part of dest and of source for each. Here is what matrices of collectives share: the kernel around the
 * call, sizes and launches, teams and slots, buffers. Includes: matrix.h. */
#ifndef MATRIX_CALLS_H
#define MATRIX_CALLS_H

#include "matrix.h"

enum { CALLS_ROUNDS = 3, CALLS_LATE = 60, CALLS_BLOCKS = 3, CALLS_TEAMS = 3, CALLS_COUNTS = 12 };
enum { CALLS_ROOM = 1 << 20, CALLS_MOST_BYTES = 64 << 10 }; /* of dest and of source; of one PE's part in a call */

/* ---- in kernels ---- */

/* The member `calls` of a kernel's arguments, beside a handle h. */
struct calls {
    char *dest;
    const char *source;
    uint64_t nelems, dest_step, source_step; /* of one call's part */
    uint64_t *status;                        /* [blocks] what the calls returned, or-ed */
    int32_t grid;
    uint32_t late;
};

/* Which part the calling block works on in this round. */
SHMEMD_FN uint64_t calls_part(struct calls c, uint32_t round)
{
    uint64_t sequence = c.grid != 0 ? 0 : (uint64_t)shmemd_block_index();
    return sequence * CALLS_ROUNDS + round;
}
SHMEMD_FN void calls_stagger(struct calls c, uint32_t round)
{
    uint32_t block = (uint32_t)shmemd_block_index();
    form_dawdle(form_mix(c.late + round, block) % CALLS_LATE * (uint32_t)(form_mix(c.late, round) % 4 == 0));
}

/* CALL(a, dest, source): one call, and what it returns; a is the kernel's struct ARGS. */
#define CALLS_KERNEL(name, ARGS, T, CALL)                                                           \
    SHMEMD_KERNEL(name, struct ARGS, a)                                                             \
    {                                                                                               \
        int status = 0;                                                                             \
        for (uint32_t round = 0; round < CALLS_ROUNDS; round++) {                                   \
            uint64_t part = calls_part(a.calls, round);                                             \
            calls_stagger(a.calls, round);                                                          \
            status |= CALL(a, (T *)(void *)(a.calls.dest + part * a.calls.dest_step),               \
                           (const T *)(const void *)(a.calls.source + part * a.calls.source_step)); \
        }                                                                                           \
        if (shmemd_thread_index() == 0)                                                             \
            a.calls.status[shmemd_block_index()] = (uint64_t)status;                                \
    }

/* ---- cases: these dimensions stand first in the program's own ---- */

enum { CALLS_GRID, CALLS_COUNT, CALLS_GRID_BLOCKS, CALLS_THREADS, CALLS_TEAM, CALLS_DIMS };
#define CALLS_ALL_DIMS \
    {"grid", 2}, {"count", CALLS_COUNTS}, {"blocks", 2}, {"threads", 2}, { "team", CALLS_TEAMS }

static inline size_t calls_count(const int *v)
{
    static const size_t counts[CALLS_COUNTS] = {1, 0, 2, 3, 7, 33, 64, 255, 1000, 2049, 4097, 16390};
    return counts[v[CALLS_COUNT]];
}
static inline unsigned calls_blocks(const int *v) { return v[CALLS_GRID_BLOCKS] == 0 ? 1 : CALLS_BLOCKS; }
static inline unsigned calls_threads(const int *v) { return v[CALLS_THREADS] == 0 ? 64 : 256; }
static inline unsigned calls_parts(const int *v) { return CALLS_ROUNDS * (v[CALLS_GRID] != 0 ? 1 : calls_blocks(v)); }

/* A part of so many bytes and a gap; the next one is aligned to 16 as this one is. */
static inline size_t calls_step(size_t bytes) { return (bytes + 15) / 16 * 16 + 32; }
/* Whether there is room for parts of n_pes times `unit` bytes, as the longest of dest and source are, and a shift. */
static inline bool calls_fit(const int *v, size_t unit)
{
    return calls_step(unit * (size_t)shmem_n_pes() + 32) * calls_parts(v) <= CALLS_ROOM && unit <= CALLS_MOST_BYTES;
}

/* ---- the host's side ---- */

struct calls_state {
    struct device_team team[CALLS_TEAMS];
    struct area dest, source, status;
    unsigned round; /* of the case */
};

/* Collective over the world. */
static inline void calls_open(struct calls_state *s)
{
    shmem_team_t parity = device_team_of_parity();
    memset(s, 0, sizeof(*s));
    area_make(&s->dest, CALLS_ROOM, SHMEMX_DEVICE);
    area_make(&s->source, CALLS_ROOM, SHMEMX_DEVICE);
    area_make(&s->status, CALLS_BLOCKS * 8, SHMEMX_DEVICE);
    device_team_open(&s->team[0], SHMEM_TEAM_WORLD, 0);
    device_team_open(&s->team[1], parity, 5);
    device_team_open(&s->team[2], SHMEM_TEAM_WORLD, 9);
}
static inline void calls_close(struct calls_state *s)
{
    area_drop(&s->status);
    area_drop(&s->source);
    area_drop(&s->dest);
}

/* dest and source are prepared, and begin `shift` bytes into their areas. */
static inline struct calls calls_of(const struct calls_state *s, const int *v, size_t shift)
{
    struct calls c;
    memset(&c, 0, sizeof(c));
    c.dest = area_data(&s->dest) + shift;
    c.source = area_data(&s->source) + shift;
    c.nelems = calls_count(v);
    c.status = (uint64_t *)(void *)area_data(&s->status);
    c.grid = v[CALLS_GRID];
    c.late = device_mix(s->round, (uint32_t)shmem_my_pe());
    return c;
}
static inline void calls_run(struct calls_state *s, const int *v, shmemx_kernel_t kernel, const void *args,
                             size_t args_bytes)
{
    area_poison(&s->status, CALLS_BLOCKS * 8);
    shmem_barrier_all();
    device_run(kernel, calls_blocks(v), calls_threads(v), args, args_bytes);
    shmem_barrier_all();
}
/* dest and source hold their images, and every call of every block has returned 0. */
static inline void calls_check(struct calls_state *s, const int *v, const char *text)
{
    const uint64_t zero[CALLS_BLOCKS] = {0};
    area_check(&s->dest, text);
    area_check(&s->source, text);
    area_expect(&s->status, 0, zero, calls_blocks(v) * 8);
    area_check(&s->status, text);
}

/* "2049, 3 blocks of 64, team 1" */
static inline void calls_text(const int *v, char *text, size_t bytes)
{
    snprintf(text, bytes, "%zu, %u blocks of %u, team %d", calls_count(v), calls_blocks(v), calls_threads(v),
             v[CALLS_TEAM]);
}

#endif
