/* SPDX-License-Identifier: MIT */
/* Heat in a box, cut into slabs along z: the kernel that computes also exchanges its borders with the neighbours, time
 * step after time step, in one launch. A block owns columns (x, y) and talks to the same block of the neighbours only.
 * Checked against a serial run. usage: 09_halo [side [steps]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct halo_args {
    shmemd_t h;
    float *now, *next;       /* planes -1 .. depth of the slab, side * side each; symmetric */
    uint64_t *below, *above; /* [blocks]: time step whose border plane has arrived; symmetric */
    int side, depth, steps;
};

/* A block reads one row more at each side than it owns, hence the barrier of the grid between two time steps; of the
 * halo planes it reads its own rows only, hence a signal per block is enough between PEs. */
SHMEMD_FN float relax(const float *p, int side, size_t at)
{
    size_t row = (size_t)side, plane = row * row;
    return p[at] +
           0.1f * (p[at - 1] + p[at + 1] + p[at - row] + p[at + row] + p[at - plane] + p[at + plane] - 6 * p[at]);
}

SHMEMD_FN void compute(struct halo_args a, const float *now, float *next, int y_first, int y_last)
{
    for (int z = 1; z <= a.depth; z++)
        for (int y = y_first + 1; y <= y_last; y++)
            for (int x = 1 + (int)shmemd_thread_index(); x < a.side - 1; x += (int)shmemd_block_size()) {
                size_t at = ((size_t)z * (size_t)a.side + (size_t)y) * (size_t)a.side + (size_t)x;
                next[at] = relax(now, a.side, at);
            }
    shmemd_group_sync(shmemd_block());
}

SHMEMD_KERNEL(halo_step, struct halo_args, a)
{
    int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h);
    struct shmemd_slice rows = shmemd_slice_of_block((size_t)a.side - 2);
    size_t plane = (size_t)a.side * (size_t)a.side, first = (rows.first + 1) * (size_t)a.side;
    size_t count = rows.count * (size_t)a.side;
    unsigned b = shmemd_block_index();
    float *now = a.now, *next = a.next;
    for (int t = 1; t <= a.steps; t++) {
        compute(a, now, next, (int)rows.first, (int)(rows.first + rows.count));
        if (me > 0) /* my lowest plane is the plane above the slab of the PE below */
            shmemd_float_put_signal_block(a.h, next + (size_t)(a.depth + 1) * plane + first, next + plane + first,
                                          count, &a.above[b], (uint64_t)t, SHMEM_SIGNAL_SET, me - 1);
        if (me < n - 1)
            shmemd_float_put_signal_block(a.h, next + first, next + (size_t)a.depth * plane + first, count, &a.below[b],
                                          (uint64_t)t, SHMEM_SIGNAL_SET, me + 1);
        if (me > 0)
            shmemd_signal_wait_until_block(a.h, &a.below[b], SHMEM_CMP_GE, (uint64_t)t);
        if (me < n - 1)
            shmemd_signal_wait_until_block(a.h, &a.above[b], SHMEM_CMP_GE, (uint64_t)t);
        shmemd_grid_sync(a.h); /* rows of the neighbour blocks; other PEs are waited for by signals alone */
        float *spare = now;
        now = next;
        next = spare;
    }
}

/* ---- host ---- */

/* A warm cube in a cold box. */
static float warmth(int side, int height, size_t x, size_t y, size_t z)
{
    size_t s = (size_t)side, h = (size_t)height;
    return x > s / 4 && x < s / 2 && y > s / 4 && y < s / 2 && z > h / 4 && z < h / 2 ? 100.0f : (float)(x % 3);
}

static void serial(float *now, float *next, struct halo_args a, size_t height)
{
    size_t side = (size_t)a.side, plane = side * side, bytes = plane * (height + 2) * sizeof(float);
    for (size_t at = 0; at < plane * (height + 2); at++)
        now[at] = warmth(a.side, (int)height, at % side, at / side % side, at / plane);
    for (int t = 0; t < a.steps; t++) {
        memcpy(next, now, bytes);
        for (size_t at = plane; at < plane * (height + 1); at++)
            if (at % side > 0 && at % side < side - 1 && at / side % side > 0 && at / side % side < side - 1)
                next[at] = now[at] + 0.1f * (now[at - 1] + now[at + 1] + now[at - side] + now[at + side] +
                                             now[at - plane] + now[at + plane] - 6 * now[at]);
        memcpy(now, next, bytes);
    }
}

int main(int argc, char **argv)
{
    shmem_init();
    struct halo_args a;
    int me = shmem_my_pe(), n = shmem_n_pes(), blocks = 3, wrong = 0;
    a.side = argc > 1 ? atoi(argv[1]) : 18;
    a.steps = argc > 2 ? atoi(argv[2]) : 9;
    a.depth = 4;
    size_t side = (size_t)a.side, plane = side * side, depth = (size_t)a.depth, height = depth * (size_t)n;
    size_t bytes = plane * (depth + 2) * sizeof(float), lowest = (size_t)me * depth;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        shmem_global_exit(1);
    a.now = (float *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    a.next = (float *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    a.below = (uint64_t *)shmemx_calloc((size_t)blocks, sizeof(uint64_t), SHMEMX_DEVICE);
    a.above = (uint64_t *)shmemx_calloc((size_t)blocks, sizeof(uint64_t), SHMEMX_DEVICE);
    float *box = (float *)malloc(2 * plane * (height + 2) * sizeof(float)), *mine = (float *)malloc(bytes);
    if (a.now == NULL || a.next == NULL || a.below == NULL || a.above == NULL || box == NULL || mine == NULL)
        shmem_global_exit(1);
    for (size_t at = 0; at < plane * (depth + 2); at++)
        mine[at] = warmth(a.side, (int)height, at % side, at / side % side, lowest + at / plane);
    shmem_putmem(a.now, mine, bytes, me);
    shmem_putmem(a.next, mine, bytes, me);
    shmem_barrier_all();
    if (shmemx_launch(SHMEMX_KERNEL(halo_step), (unsigned)blocks, 32, 0, &a, sizeof a, NULL) != 0 ||
        shmemx_stream_synchronize(NULL) != 0)
        shmem_global_exit(1);
    shmem_getmem(mine, a.steps % 2 ? a.next : a.now, bytes, me);
    serial(box, box + plane * (height + 2), a, height);
    for (size_t at = plane; at < plane * (depth + 1); at++) /* a GPU multiplies and adds in one rounding */
        wrong |= fabsf(mine[at] - box[lowest * plane + at]) > 1e-3f;
    printf("[pe %d] %d steps of a box of %d x %d x %zu, borders exchanged inside the kernel: %s\n", me, a.steps, a.side,
           a.side, height, wrong ? "WRONG" : "equal to the serial run");
    free(box);
    free(mine);
    shmem_finalize();
    return wrong;
}
