/* SPDX-License-Identifier: MIT */
/* Tensor-parallel inference ends each layer with: sum the partial outputs of all PEs, add the residual, normalise
 * (RMSNorm), scale. One kernel does it all: a block takes a token, all-reduces its row with its likes of the other PEs,
 * and goes on with the row while it is in the cache. Weights and activations are bfloat16, sums are float.
 * Checked against a serial run in double. usage: 10_rmsnorm [tokens [width]] */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct norm_args {
    shmemd_t h;
    const shmemd_bfloat16_t *partial; /* [tokens][width], symmetric */
    shmemd_bfloat16_t *sum;           /* [tokens][width], symmetric: what the all-reduce writes */
    shmemd_bfloat16_t *residual;      /* [tokens][width]: read, and written with residual + sum */
    const shmemd_bfloat16_t *weight;  /* [width] */
    shmemd_bfloat16_t *out;           /* [tokens][width] */
    int tokens, width;
};

/* Newton's method: no vendor's mathematics is needed to build this file. */
SHMEMD_FN float root(float x)
{
    float r = x > 1 ? x : 1;
    for (int i = 0; i < 30; i++)
        r = 0.5f * (r + x / r);
    return r;
}

SHMEMD_KERNEL(allreduce_rmsnorm, struct norm_args, a)
{
    SHMEMD_SHARED(float, squares, 1024);
    unsigned me = shmemd_thread_index(), threads = shmemd_block_size();
    for (int t = (int)shmemd_block_index(); t < a.tokens; t += (int)shmemd_block_count()) {
        size_t row = (size_t)t * (size_t)a.width;
        shmemd_bfloat16_sum_reduce_block(a.h, a.sum + row, a.partial + row, (size_t)a.width);
        float mine = 0;
        for (int i = (int)me; i < a.width; i += (int)threads) {
            float x = shmemd_bfloat16_to_float(a.sum[row + (size_t)i]) +
                      shmemd_bfloat16_to_float(a.residual[row + (size_t)i]);
            a.residual[row + (size_t)i] = shmemd_bfloat16_from_float(x);
            mine += x * x;
        }
        squares[me] = mine;
        shmemd_group_sync(shmemd_block());
        for (unsigned half = threads / 2; half > 0; half /= 2) { /* threads is a power of two */
            if (me < half)
                squares[me] += squares[me + half];
            shmemd_group_sync(shmemd_block());
        }
        float scale = 1.0f / root(squares[0] / (float)a.width + 1e-6f);
        shmemd_group_sync(shmemd_block());
        for (int i = (int)me; i < a.width; i += (int)threads)
            a.out[row + (size_t)i] = shmemd_bfloat16_from_float(shmemd_bfloat16_to_float(a.residual[row + (size_t)i]) *
                                                                scale * shmemd_bfloat16_to_float(a.weight[i]));
    }
}

/* ---- host ---- */

static double partial(int pe, int t, int i) { return (double)((t * 37 + i * 11 + pe * 5) % 64 - 32) / 32; }
static double residual(int t, int i) { return (double)((t * 3 + i * 7) % 16 - 8) / 8; }
static double weight(int i) { return 1 + (double)(i % 5) / 4; }

static float to_float(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}
static uint16_t to_bits(double value) /* of values that bfloat16 holds exactly */
{
    float f = (float)value;
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return (uint16_t)(word >> 16);
}

static int check_row(const uint16_t *out, int t, int width, int n)
{
    double squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < width; i++) {
            double x = residual(t, i);
            for (int pe = 0; pe < n; pe++)
                x += partial(pe, t, i);
            if (pass == 0)
                squares += x * x;
            else if (fabs(to_float(out[i]) - x / sqrt(squares / width + 1e-6) * weight(i)) > 0.03 * (1 + fabs(x)))
                return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    shmem_init();
    struct norm_args a;
    int me = shmem_my_pe(), wrong = 0;
    a.tokens = argc > 1 ? atoi(argv[1]) : 8;
    a.width = argc > 2 ? atoi(argv[2]) : 1024;
    size_t width = (size_t)a.width, nelems = (size_t)a.tokens * width;
    uint16_t *host = (uint16_t *)malloc(3 * nelems * 2), *rest = host + nelems, *scale = rest + nelems;
    shmemd_bfloat16_t *device = (shmemd_bfloat16_t *)shmemx_malloc(5 * nelems * 2, SHMEMX_DEVICE);
    if (host == NULL || device == NULL || shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        shmem_global_exit(1);
    for (size_t k = 0; k < nelems; k++) {
        host[k] = to_bits(partial(me, (int)(k / width), (int)(k % width)));
        rest[k] = to_bits(residual((int)(k / width), (int)(k % width)));
        scale[k] = to_bits(weight((int)(k % width)));
    }
    shmem_putmem(device, host, 3 * nelems * 2, me);
    a.partial = device;
    a.residual = device + nelems;
    a.weight = device + 2 * nelems;
    a.sum = device + 3 * nelems;
    a.out = device + 4 * nelems;
    shmem_barrier_all();
    if (shmemx_launch(SHMEMX_KERNEL(allreduce_rmsnorm), 4, 64, 0, &a, sizeof a, NULL) != 0 ||
        shmemx_stream_synchronize(NULL) != 0)
        shmem_global_exit(1);
    shmem_getmem(host, a.out, nelems * 2, me);
    for (int t = 0; t < a.tokens; t++)
        wrong |= check_row(host + (size_t)t * width, t, a.width, shmem_n_pes());
    printf("[pe %d] all-reduce and RMSNorm of %d tokens in one kernel: %s\n", me, a.tokens,
           wrong ? "WRONG" : "equal to the serial result");
    free(host);
    shmem_finalize();
    return wrong;
}
