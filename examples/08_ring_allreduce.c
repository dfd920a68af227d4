/* SPDX-License-Identifier: MIT */
/* An all-reduce written by the user, inside one kernel: a ring of put_signal. Each PE adds what comes from its left to
 * its own data and passes it on to its right; after n - 1 steps every PE has one chunk of the sum, after n - 1 more it
 * has all of it. Blocks work on slices of their own and meet nobody but their likes in the other PEs.
 * Checked against a serial sum. usage: 08_ring_allreduce [elements [blocks [rounds]]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct ring_args {
    shmemd_t h;
    float *data;      /* n chunks, symmetric */
    float *inbox;     /* n - 1 chunks that arrive from the left, symmetric */
    uint64_t *signal; /* [blocks][2 * n], symmetric, zero at first */
    size_t chunk;
    uint64_t round; /* 1, 2, ... */
};

/* A chunk of mine goes to `dest` on the right, then signal number `step` of this block. */
SHMEMD_FN void pass_on(struct ring_args a, float *dest, const float *source, int step, struct shmemd_slice slice)
{
    uint64_t *signal = a.signal + shmemd_block_index() * 2 * (unsigned)shmemd_n_pes(a.h) + (unsigned)step;
    int right = (shmemd_my_pe(a.h) + 1) % shmemd_n_pes(a.h);
    shmemd_float_put_signal_block(a.h, dest + slice.first, source + slice.first, slice.count, signal, a.round,
                                  SHMEM_SIGNAL_SET, right);
    shmemd_signal_wait_until_block(a.h, signal, SHMEM_CMP_GE, a.round);
}

SHMEMD_KERNEL(ring_allreduce, struct ring_args, a)
{
    int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h);
    struct shmemd_slice slice = shmemd_slice_of_block(a.chunk);
    for (int s = 0; s < n - 1; s++) {
        float *mine = a.data + (size_t)((me - s + n) % n) * a.chunk;
        float *sum = a.data + (size_t)((me - s - 1 + n) % n) * a.chunk, *in = a.inbox + (size_t)s * a.chunk;
        pass_on(a, in, mine, s, slice);
        for (size_t i = slice.first + shmemd_thread_index(); i < slice.first + slice.count; i += shmemd_block_size())
            sum[i] += in[i];
        shmemd_group_sync(shmemd_block());
    }
    for (int s = 0; s < n - 1; s++) {
        float *done = a.data + (size_t)((me + 1 - s + n) % n) * a.chunk;
        pass_on(a, done, done, n - 1 + s, slice);
    }
}

static float value(int pe, size_t i, uint64_t round) { return (float)((i * 7 + (size_t)pe * 13 + round) % 1000) / 8; }

static int check(const float *host, size_t nelems, int n, uint64_t round)
{
    for (size_t i = 0; i < nelems; i++) {
        double sum = 0;
        for (int pe = 0; pe < n; pe++)
            sum += value(pe, i, round);
        if (fabs(host[i] - sum) > 1e-4 * sum) {
            fprintf(stderr, "[pe %d] round %llu: element %zu is %g instead of %g\n", shmem_my_pe(),
                    (unsigned long long)round, i, (double)host[i], sum);
            return 1;
        }
    }
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), wrong = 0;
    unsigned blocks = argc > 2 ? (unsigned)atoi(argv[2]) : 4, threads = 64;
    size_t chunk = ((argc > 1 ? strtoul(argv[1], NULL, 0) : 65536) + (size_t)n - 1) / (size_t)n;
    size_t nelems = chunk * (size_t)n, bytes = nelems * sizeof(float);
    uint64_t rounds = argc > 3 ? strtoul(argv[3], NULL, 0) : 10;
    char device[128];
    struct ring_args a;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        shmem_global_exit(1);
    a.data = (float *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    a.inbox = (float *)shmemx_malloc(bytes, SHMEMX_DEVICE);
    a.signal = (uint64_t *)shmemx_calloc((size_t)blocks * 2 * (unsigned)n, sizeof(uint64_t), SHMEMX_DEVICE);
    a.chunk = chunk;
    float *host = (float *)malloc(bytes);
    double spent = 0;
    if (a.data == NULL || a.inbox == NULL || a.signal == NULL || host == NULL)
        shmem_global_exit(1);
    for (a.round = 1; a.round <= rounds; a.round++) {
        for (size_t i = 0; i < nelems; i++)
            host[i] = value(me, i, a.round);
        shmem_putmem(a.data, host, bytes, me);
        shmem_barrier_all();
        double start = seconds();
        if (shmemx_launch(SHMEMX_KERNEL(ring_allreduce), blocks, threads, 0, &a, sizeof a, NULL) != 0 ||
            shmemx_stream_synchronize(NULL) != 0)
            shmem_global_exit(1);
        spent += seconds() - start;
        shmem_getmem(host, a.data, bytes, me);
        wrong |= check(host, nelems, n, a.round);
        shmem_barrier_all();
    }
    shmemx_device_text(device, sizeof device);
    printf("[pe %d] ring all-reduce of %zu floats in a kernel on %s: %s, %.1f us each\n", me, nelems, device,
           wrong ? "WRONG" : "equal to the serial sum", spent / (double)rounds * 1e6);
    free(host);
    shmem_finalize();
    return wrong;
}
