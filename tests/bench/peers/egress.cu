// SPDX-License-Identifier: MIT
// One GPU sending the same bytes to all peers (broadcast's root): GB/s out of the root.
#include <cstdio>
#include <algorithm>
#include <cuda_runtime.h>
__global__ void push3(uint4 *a, uint4 *b, uint4 *c, const uint4 *s, size_t n) { size_t T = (size_t)gridDim.x * blockDim.x; for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += 4 * T) { uint4 v[4];
    #pragma unroll
    for (int u = 0; u < 4; u++) if (i + u * T < n) v[u] = s[i + u * T];
    #pragma unroll
    for (int u = 0; u < 4; u++) if (i + u * T < n) { a[i + u * T] = v[u]; b[i + u * T] = v[u]; c[i + u * T] = v[u]; } } }
int main() { char *src, *dst[4]; for (int i = 0; i < 4; i++) { cudaSetDevice(i); cudaMalloc(&dst[i], 256u << 20); } cudaSetDevice(0); for (int p = 1; p < 4; p++) cudaDeviceEnablePeerAccess(p, 0); cudaMalloc(&src, 256u << 20); cudaMemset(src, 1, 256u << 20);
    cudaStream_t st[3]; cudaEvent_t a, b, j; cudaEventCreate(&a); cudaEventCreate(&b); cudaEventCreateWithFlags(&j, cudaEventDisableTiming); for (auto &s : st) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); float ms;
    for (size_t b2 : {(size_t)1 << 20, (size_t)4 << 20, (size_t)16 << 20, (size_t)64 << 20, (size_t)256 << 20}) { float k = 1e9, c = 1e9;
        for (int r = 0; r < 4; r++) { cudaEventRecord(a, st[0]); for (int q = 0; q < 10; q++) push3<<<132, 512, 0, st[0]>>>((uint4 *)dst[1], (uint4 *)dst[2], (uint4 *)dst[3], (uint4 *)src, b2 / 16); cudaEventRecord(b, st[0]); cudaEventSynchronize(b); cudaEventElapsedTime(&ms, a, b); k = std::min(k, ms);
            cudaEventRecord(a, st[0]); for (int p = 1; p < 3; p++) cudaStreamWaitEvent(st[p], a, 0); for (int q = 0; q < 10; q++) for (int p = 0; p < 3; p++) cudaMemcpyAsync(dst[p + 1], src, b2, cudaMemcpyDeviceToDevice, st[p]); for (int p = 1; p < 3; p++) { cudaEventRecord(j, st[p]); cudaStreamWaitEvent(st[0], j, 0); } cudaEventRecord(b, st[0]); cudaEventSynchronize(b); cudaEventElapsedTime(&ms, a, b); c = std::min(c, ms); }
        printf("egress to 3 peers, %zu B each: stores %.1f GB/s, copy engines %.1f GB/s\n", b2, 3.0 * b2 * 10 / k / 1e6, 3.0 * b2 * 10 / c / 1e6); } return 0; }
