/* SPDX-License-Identifier: MIT */
/* Producer and consumer on two streams of every PE, joined by signals and by nothing else: one kernel produces tiles
 * and sends each to the PE on its right as soon as it is ready, another works on the tiles that come from the left
 * while later ones are still on their way. A ring of a few tiles; the consumer gives its place back by a signal of its
 * own. Checked against a serial sum. usage: 12_pipeline [tiles [elements of a tile]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <stdio.h>
#include <stdlib.h>

#define PLACES 4 /* tiles that may be on their way */

struct pipe_args {
    shmemd_t h;
    uint32_t *staging;  /* [PLACES][elems]: where the producer makes its tiles */
    uint32_t *inbox;    /* [PLACES][elems], symmetric: written by the left neighbour */
    uint64_t *arrived;  /* symmetric: tiles that have arrived here */
    uint64_t *consumed; /* symmetric: tiles that the right neighbour has consumed */
    uint64_t *sum;      /* out */
    uint64_t tiles, elems;
};

SHMEMD_KERNEL(produce, struct pipe_args, a)
{
    int me = shmemd_my_pe(a.h), right = (me + 1) % shmemd_n_pes(a.h);
    for (uint64_t t = 0; t < a.tiles; t++) {
        uint64_t place = t % PLACES * a.elems;
        if (t >= PLACES) /* the place is free once the tile before has been consumed */
            shmemd_signal_wait_until_block(a.h, a.consumed, SHMEM_CMP_GE, t - PLACES + 1);
        for (uint64_t i = shmemd_thread_index(); i < a.elems; i += shmemd_block_size())
            a.staging[place + i] = (uint32_t)((uint64_t)me * 1000 + t * 10 + i % 10);
        shmemd_group_sync(shmemd_block());
        shmemd_uint32_put_signal_block(a.h, a.inbox + place, a.staging + place, (size_t)a.elems, a.arrived, t + 1,
                                       SHMEM_SIGNAL_SET, right);
    }
}

SHMEMD_KERNEL(consume, struct pipe_args, a)
{
    SHMEMD_SHARED(uint64_t, part, 1024);
    int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h), left = (me + n - 1) % n;
    unsigned thread = shmemd_thread_index();
    uint64_t sum = 0;
    for (uint64_t t = 0; t < a.tiles; t++) {
        uint64_t place = t % PLACES * a.elems;
        shmemd_signal_wait_until_block(a.h, a.arrived, SHMEM_CMP_GE, t + 1);
        for (uint64_t i = thread; i < a.elems; i += shmemd_block_size())
            sum += a.inbox[place + i];
        shmemd_group_sync(shmemd_block());
        if (thread == 0)
            shmemd_signal_op(a.h, a.consumed, t + 1, SHMEM_SIGNAL_SET, left);
    }
    part[thread] = sum;
    shmemd_group_sync(shmemd_block());
    for (unsigned i = 1; thread == 0 && i < shmemd_block_size(); i++)
        part[0] += part[i];
    if (thread == 0)
        *a.sum = part[0];
}

int main(int argc, char **argv)
{
    shmem_init();
    struct pipe_args a;
    int me = shmem_my_pe(), n = shmem_n_pes(), left = (me + n - 1) % n;
    a.tiles = argc > 1 ? strtoull(argv[1], NULL, 0) : 50;
    a.elems = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000;
    shmemx_stream_t makes, uses;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0 || shmemx_stream_create(&makes) != 0 ||
        shmemx_stream_create(&uses) != 0)
        shmem_global_exit(1);
    a.staging = (uint32_t *)shmemx_malloc(PLACES * a.elems * sizeof(uint32_t), SHMEMX_DEVICE);
    a.inbox = (uint32_t *)shmemx_malloc(PLACES * a.elems * sizeof(uint32_t), SHMEMX_DEVICE);
    a.arrived = (uint64_t *)shmemx_calloc(3, sizeof(uint64_t), SHMEMX_DEVICE);
    if (a.staging == NULL || a.inbox == NULL || a.arrived == NULL)
        shmem_global_exit(1);
    a.consumed = a.arrived + 1;
    a.sum = a.arrived + 2;
    if (shmemx_launch(SHMEMX_KERNEL(consume), 1, 64, 0, &a, sizeof a, uses) != 0 ||
        shmemx_launch(SHMEMX_KERNEL(produce), 1, 64, 0, &a, sizeof a, makes) != 0 ||
        shmemx_stream_synchronize(makes) != 0 || shmemx_stream_synchronize(uses) != 0)
        shmem_global_exit(1);

    uint64_t expected = 0, seen;
    for (uint64_t t = 0; t < a.tiles; t++)
        for (uint64_t i = 0; i < a.elems; i++)
            expected += (uint64_t)left * 1000 + t * 10 + i % 10;
    shmem_getmem(&seen, a.sum, sizeof seen, me);
    printf("[pe %d] %llu tiles from pe %d, produced and consumed on two streams: %s\n", me, (unsigned long long)a.tiles,
           left, seen == expected ? "equal to the serial sum" : "WRONG");
    shmemx_stream_destroy(makes);
    shmemx_stream_destroy(uses);
    shmem_finalize();
    return seen != expected;
}
