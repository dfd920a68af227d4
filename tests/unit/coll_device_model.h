/* SPDX-License-Identifier: MIT */
/* PEs for tests of in-kernel collectives, without the host runtime: heaps, worlds, teams and slots laid out by hand in
 * one process; every PE runs its grids of fibers in an OS thread of its own for each slot, so that ThreadSanitizer sees
 * what PEs do to each other. Included by coll_device_test.c. */
#ifndef COLL_DEVICE_MODEL_H
#define COLL_DEVICE_MODEL_H

#include "../../device/cpu/fiber.h"
#include "../check.h"

#include <shmem_device.h>

#include <pthread.h>

enum { MOST_PES = 8, MOST_LANES = 4, SLOTS = 2, OBJECT_BYTES = 1 << 20 };

/* What a job looks like. */
struct shape {
    int n;
    unsigned blocks, threads, lanes, wave;
    uint32_t inbox_bytes;
    bool direct; /* false: everything is near all the same, but the schedules for what is not are used */
    bool flat;
    uint64_t epoch; /* of the last call before the first */
};

struct model_slot {
    struct isod_team team;
    struct isod_lane lanes[MOST_LANES]; /* ISOD_LANES(team) */
    struct isod_grid grid;
    char *memory[MOST_PES];
    uint64_t offsets[MOST_PES];
};

struct model_pe {
    struct isod_world world;
    struct isod_host host;
    struct model_slot slots[SLOTS];
    char *heaps[MOST_PES];
};

struct model {
    struct shape shape;
    size_t slot_bytes, heap_bytes; /* a heap: slot memory of all slots, then the objects of all slots */
    char *heaps;                   /* [n][heap_bytes] */
    int32_t world_of[MOST_PES];
    struct model_pe *pes;
};

static char *model_heap(const struct model *m, int pe) { return m->heaps + (size_t)pe * m->heap_bytes; }
static char *model_objects(const struct model *m, int slot, int pe)
{
    return model_heap(m, pe) + SLOTS * m->slot_bytes + (size_t)slot * OBJECT_BYTES;
}

static void model_lay_out_slot(struct model *m, int pe, int slot)
{
    struct model_slot *s = &m->pes[pe].slots[slot];
    struct isod_team *t = &s->team;
    t->my_pe = pe;
    t->n_pes = m->shape.n;
    t->lanes = (int32_t)m->shape.lanes;
    t->direct = m->shape.direct;
    t->inbox_bytes = m->shape.inbox_bytes;
    t->slot = slot;
    t->world_of = m->world_of;
    t->heaps = m->pes[pe].heaps;
    t->memory = s->memory;
    t->offsets = s->offsets;
    t->grid = &s->grid;
    for (int member = 0; member < m->shape.n; member++) {
        s->offsets[member] = (uint64_t)slot * m->slot_bytes;
        s->memory[member] = model_heap(m, member) + s->offsets[member];
    }
    for (unsigned lane = 0; lane < m->shape.lanes; lane++) {
        s->lanes[lane].epoch = m->shape.epoch;
        for (int member = 0; member < m->shape.n && member < ISOD_NEAR; member++)
            s->lanes[lane].near[member] =
                s->memory[member] + lane * isod_lane_bytes(m->shape.n, m->shape.inbox_bytes);
    }
}

static void model_lay_out(struct model *m, int pe)
{
    struct isod_world *w = &m->pes[pe].world;
    w->my_pe = pe;
    w->n_pes = m->shape.n;
    w->n_segments = 1;
    w->host = &m->pes[pe].host;
    w->segments[0].base = model_heap(m, pe);
    w->segments[0].len = m->heap_bytes;
    for (int member = 0; member < m->shape.n; member++)
        m->pes[pe].heaps[member] = model_heap(m, member);
    for (int slot = 0; slot < SLOTS; slot++)
        model_lay_out_slot(m, pe, slot);
}

static struct model *model_create(struct shape shape)
{
    struct model *m = (struct model *)calloc(1, sizeof(*m));
    if (m == NULL)
        abort();
    m->shape = shape;
    m->slot_bytes = (shape.lanes * isod_lane_bytes(shape.n, shape.inbox_bytes) + 4095) / 4096 * 4096;
    m->heap_bytes = SLOTS * (m->slot_bytes + OBJECT_BYTES);
    m->heaps = (char *)aligned_alloc(4096, (size_t)shape.n * m->heap_bytes);
    m->pes = (struct model_pe *)calloc((size_t)shape.n, sizeof(*m->pes));
    if (m->heaps == NULL || m->pes == NULL)
        abort();
    for (int pe = 0; pe < shape.n; pe++) {
        memset(model_heap(m, pe), 0, SLOTS * m->slot_bytes);
        m->world_of[pe] = pe;
        model_lay_out(m, pe);
    }
    return m;
}

static void model_destroy(struct model *m)
{
    free(m->heaps);
    free(m->pes);
    free(m);
}

static shmemd_t model_handle(struct model *m, int slot, int pe)
{
    shmemd_t h;
    memset(&h, 0, sizeof(h));
    h.heap = model_heap(m, pe);
    h.heap_bytes = m->heap_bytes;
    h.flat = m->shape.flat ? m->heaps : NULL;
    h.flat_stride = (int64_t)m->heap_bytes;
    h.team = &m->pes[pe].slots[slot].team;
    h.world = &m->pes[pe].world;
    h.my_pe = pe;
    h.n_pes = m->shape.n;
    h.lanes = (uint16_t)m->shape.lanes;
    h.direct = m->shape.direct;
    h.inbox_bytes = m->shape.inbox_bytes;
    return h;
}

/* ---- grids, one OS thread each ---- */

struct model_grid {
    pthread_t thread;
    struct fiber_grid grid;
    unsigned delay_us; /* before it starts */
};

static void *model_grid_run(void *argument)
{
    struct model_grid *g = (struct model_grid *)argument;
    struct fibers *fibers = iso_fibers_create();
    usleep(g->delay_us);
    if (fibers == NULL || iso_fibers_run(fibers, &g->grid) != 0)
        abort();
    iso_fibers_destroy(fibers);
    return NULL;
}

static void model_grid_start(struct model_grid *g, const struct shape *shape, fiber_kernel kernel, const void *args,
                             uint64_t seed)
{
    g->grid.kernel = kernel;
    g->grid.args = args;
    g->grid.blocks = shape->blocks;
    g->grid.threads = shape->threads;
    g->grid.wave = shape->wave;
    g->grid.seed = seed;
    if (pthread_create(&g->thread, NULL, model_grid_run, g) != 0)
        abort();
}

static void model_grid_join(struct model_grid *g) { pthread_join(g->thread, NULL); }

#endif
