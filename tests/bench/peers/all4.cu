// SPDX-License-Identifier: MIT
// How fast 4 GPUs can all send to all others at once, by way of sending. GB/s sent (= received) per GPU.
#include <cstdio>
#include <algorithm>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e_)); return 1;} } while (0)
template <int U> __device__ void cp(uint4 *d, const uint4 *s, size_t n, size_t t, size_t T) {
    size_t i = t; for (; i + (U - 1) * T < n; i += U * T) { uint4 v[U];
        #pragma unroll
        for (int u = 0; u < U; u++) v[u] = s[i + u * T];
        #pragma unroll
        for (int u = 0; u < U; u++) d[i + u * T] = v[u]; }
    for (; i < n; i += T) d[i] = s[i]; }
// each block serves one peer (block % 3)
template <int U> __global__ void push(uint4 *d0, uint4 *d1, uint4 *d2, const uint4 *s, size_t n) { uint4 *d[3] = {d0, d1, d2}; int p = blockIdx.x % 3; size_t nb = (gridDim.x - p + 2) / 3; cp<U>(d[p], s, n, (blockIdx.x / 3) * blockDim.x + threadIdx.x, nb * blockDim.x); }
template <int U> __global__ void pull(uint4 *dst, const uint4 *s0, const uint4 *s1, const uint4 *s2, size_t n) { const uint4 *s[3] = {s0, s1, s2}; int p = blockIdx.x % 3; size_t nb = (gridDim.x - p + 2) / 3; cp<U>(dst + p * n, s[p], n, (blockIdx.x / 3) * blockDim.x + threadIdx.x, nb * blockDim.x); }
int main() {
    const int n = 4; size_t sz = 64u << 20; char *src[n], *dst[n]; cudaStream_t st[n][3]; cudaEvent_t a[n], b[n], j[n][3];
    for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); for (int k = 0; k < n; k++) if (i != k) CK(cudaDeviceEnablePeerAccess(k, 0)); CK(cudaMalloc(&src[i], sz)); CK(cudaMalloc(&dst[i], 4 * sz)); CK(cudaMemset(src[i], i, sz)); CK(cudaEventCreate(&a[i])); CK(cudaEventCreate(&b[i])); for (int k = 0; k < 3; k++) { CK(cudaStreamCreateWithFlags(&st[i][k], cudaStreamNonBlocking)); CK(cudaEventCreateWithFlags(&j[i][k], cudaEventDisableTiming)); } }
    auto run = [&](const char *name, auto f, size_t bytes) { float best = 1e9; const int K = 10;
        for (int r = 0; r < 4; r++) { for (int i = 0; i < n; i++) { cudaSetDevice(i); cudaDeviceSynchronize(); }
            for (int i = 0; i < n; i++) { cudaSetDevice(i); cudaEventRecord(a[i], st[i][0]); for (int k = 1; k < 3; k++) cudaStreamWaitEvent(st[i][k], a[i], 0); for (int q = 0; q < K; q++) f(i); for (int k = 1; k < 3; k++) { cudaEventRecord(j[i][k], st[i][k]); cudaStreamWaitEvent(st[i][0], j[i][k], 0); } cudaEventRecord(b[i], st[i][0]); }
            float w = 0, ms; for (int i = 0; i < n; i++) { cudaSetDevice(i); cudaStreamSynchronize(st[i][0]); cudaEventElapsedTime(&ms, a[i], b[i]); w = std::max(w, ms); } best = std::min(best, w); }
        printf("%-28s %8zu B per peer: %.1f GB/s per GPU\n", name, bytes, 3.0 * bytes * K / best / 1e6); };
    for (size_t b : {(size_t)1 << 20, (size_t)4 << 20, (size_t)16 << 20, (size_t)64 << 20}) {
        auto D = [&](int i, int p) { return dst[(i + p) % 4] + (size_t)i * sz; };
        run("copy engine, 1 stream", [&](int i) { for (int p = 1; p < 4; p++) cudaMemcpyAsync(D(i, p), src[i], b, cudaMemcpyDeviceToDevice, st[i][0]); }, b);
        run("copy engine, 3 streams", [&](int i) { for (int p = 1; p < 4; p++) cudaMemcpyAsync(D(i, p), src[i], b, cudaMemcpyDeviceToDevice, st[i][p - 1]); }, b);
        run("copy engine pull, 3 streams", [&](int i) { for (int p = 1; p < 4; p++) cudaMemcpyAsync(dst[i] + (size_t)((i + p) % 4) * sz, src[(i + p) % 4], b, cudaMemcpyDeviceToDevice, st[i][p - 1]); }, b);
        for (int g : {24, 48, 96, 132}) { char nm[64];
            snprintf(nm, 64, "push U4 grid %d x 512", g); run(nm, [&](int i) { push<4><<<g, 512, 0, st[i][0]>>>((uint4 *)D(i, 1), (uint4 *)D(i, 2), (uint4 *)D(i, 3), (uint4 *)src[i], b / 16); }, b);
            snprintf(nm, 64, "pull U4 grid %d x 512", g); run(nm, [&](int i) { pull<4><<<g, 512, 0, st[i][0]>>>((uint4 *)dst[i], (uint4 *)src[(i + 1) % 4], (uint4 *)src[(i + 2) % 4], (uint4 *)src[(i + 3) % 4], b / 16); }, b); }
    }
    return 0;
}
