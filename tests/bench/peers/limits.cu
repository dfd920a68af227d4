// SPDX-License-Identifier: MIT
// Physical limits of the GPUs of one host, one process with peer access: the floor any runtime stands on.
#include <cstdio>
#include <vector>
#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%d %s\n", __LINE__, cudaGetErrorString(e_)); return 1;} } while (0)
// Latencies are medians over places of flag and data, as in ours: they depend on the half of the cache in which the polled word lies.
enum { PLACES = 8, PLACE_BYTES = 12 * 1024 + 256 };
static float median(std::vector<float> us) { std::sort(us.begin(), us.end()); return (us[PLACES / 2 - 1] + us[PLACES / 2]) / 2; }
__global__ void empty() {}
__global__ void pong(volatile uint64_t *mine, volatile uint64_t *theirs, int iters, int first) {
    for (uint64_t i = 1; i <= (uint64_t)iters; i++) {
        if (first) { *theirs = i; while (*mine < i); } else { while (*mine < i); *theirs = i; }
    }
}
__global__ void pong_atomic(unsigned long long *mine, unsigned long long *theirs, int iters, int first) {
    for (unsigned long long i = 1; i <= iters; i++) {
        if (first) { atomicAdd_system(theirs, 1ull); while (*(volatile unsigned long long *)mine < i); }
        else { while (*(volatile unsigned long long *)mine < i); atomicAdd_system(theirs, 1ull); }
    }
}
// release/acquire pingpong: what a put_signal needs
__global__ void pong_rel(uint64_t *mine, uint64_t *theirs, int iters, int first) {
    for (uint64_t i = 1; i <= (uint64_t)iters; i++) {
        uint64_t v;
        if (first) { asm volatile("st.release.sys.u64 [%0], %1;" :: "l"(theirs), "l"(i) : "memory"); do asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(mine) : "memory"); while (v < i); }
        else { do asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(mine) : "memory"); while (v < i); asm volatile("st.release.sys.u64 [%0], %1;" :: "l"(theirs), "l"(i) : "memory"); }
    }
}
// payload by a whole block, block sync, one system fence by the flag-storing thread, flag: what a put_signal costs with its data outstanding
__global__ void pong_data(uint64_t *mine, uint64_t *theirs, uint64_t *mydata, uint64_t *theirdata, int words, int iters, int first, int *bad) {
    for (uint64_t i = 1; i <= (uint64_t)iters; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == (first != 0)) {
                for (int w = threadIdx.x; w < words; w += blockDim.x) theirdata[w] = i;
                __syncthreads();
                if (threadIdx.x == 0) asm volatile("fence.acq_rel.sys; st.relaxed.sys.u64 [%0], %1;" :: "l"(theirs), "l"(i) : "memory");
            } else {
                if (threadIdx.x == 0) { uint64_t v; do asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(mine) : "memory"); while (v < i); }
                __syncthreads();
                for (int w = threadIdx.x; w < words; w += blockDim.x) if (((volatile uint64_t *)mydata)[w] != i) atomicAdd(bad, 1);
            }
        }
    }
}
// all-to-all flag barrier, one block, n GPUs
struct Flags { volatile uint64_t *f[8]; };
__global__ void barrier_loop(Flags fl, int me, int n, int iters) {
    for (uint64_t i = 1; i <= (uint64_t)iters; i++) {
        if (threadIdx.x < n) { fl.f[threadIdx.x][me] = i; while (fl.f[me][threadIdx.x] < i); }
        __syncthreads();
    }
}
__global__ void remote_read(volatile uint64_t *p, uint64_t *out, int iters) { uint64_t s = 0; for (int i = 0; i < iters; i++) s += p[(s & 1) + (i & 7)]; *out = s; }
__global__ void remote_faa(unsigned long long *p, unsigned long long *out, int iters) { unsigned long long s = 0; for (int i = 0; i < iters; i++) s = atomicAdd_system(p, s + 1); *out = s; }
__global__ void copy16(uint4 *d, const uint4 *s, size_t n) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) d[i] = s[i]; }
__global__ void copy16_all(uint4 *d0, uint4 *d1, uint4 *d2, const uint4 *s, size_t n) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) { uint4 v = s[i]; d0[i] = v; d1[i] = v; d2[i] = v; } }
int main() {
    int n; CK(cudaGetDeviceCount(&n)); if (n < 2) return 1;
    uint64_t *f[8]; cudaStream_t s[8]; cudaEvent_t a[8], b[8]; char *src[8], *dst[8]; size_t big = 512u << 20;
    for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); for (int j = 0; j < n; j++) if (i != j) CK(cudaDeviceEnablePeerAccess(j, 0)); CK(cudaMalloc(&f[i], PLACES * PLACE_BYTES)); CK(cudaMalloc(&src[i], big)); CK(cudaMalloc(&dst[i], big)); CK(cudaMemset(src[i], 1, big)); CK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking)); CK(cudaEventCreate(&a[i])); CK(cudaEventCreate(&b[i])); }
    const int it = 2000; float ms; std::vector<float> us;
    auto at = [](uint64_t *p, int k) { return p + (size_t)k * PLACE_BYTES / 8; };
    auto zero = [&] { for (int i = 0; i < n; i++) { cudaSetDevice(i); cudaMemset(f[i], 0, PLACES * PLACE_BYTES); cudaDeviceSynchronize(); } };
    for (int rep = 0; rep < 2; rep++) {
        us.clear();
        for (int k = 0; k < PLACES; k++) {
            zero(); for (int i = 1; i >= 0; i--) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); pong<<<1, 1, 0, s[i]>>>(at(f[i], k), at(f[1 - i], k), it, i == 0); CK(cudaEventRecord(b[i], s[i])); }
            for (int i = 0; i < 2; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); } CK(cudaSetDevice(0)); CK(cudaEventElapsedTime(&ms, a[0], b[0])); us.push_back(ms * 1e3 / it / 2);
        }
        if (rep) printf("limit,store_half_rtt,%.3f us\n", median(us));
        us.clear();
        for (int k = 0; k < PLACES; k++) {
            zero(); for (int i = 1; i >= 0; i--) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); pong_rel<<<1, 1, 0, s[i]>>>(at(f[i], k), at(f[1 - i], k), it, i == 0); CK(cudaEventRecord(b[i], s[i])); }
            for (int i = 0; i < 2; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); } CK(cudaSetDevice(0)); CK(cudaEventElapsedTime(&ms, a[0], b[0])); us.push_back(ms * 1e3 / it / 2);
        }
        if (rep) printf("limit,release_acquire_half_rtt,%.3f us\n", median(us));
        us.clear();
        for (int k = 0; k < PLACES; k++) {
            zero(); for (int i = 1; i >= 0; i--) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); pong_atomic<<<1, 1, 0, s[i]>>>((unsigned long long *)at(f[i], k), (unsigned long long *)at(f[1 - i], k), it, i == 0); CK(cudaEventRecord(b[i], s[i])); }
            for (int i = 0; i < 2; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); } CK(cudaSetDevice(0)); CK(cudaEventElapsedTime(&ms, a[0], b[0])); us.push_back(ms * 1e3 / it / 2);
        }
        if (rep) printf("limit,atomic_half_rtt,%.3f us\n", median(us));
        for (int words : {1, 128, 8192}) {
            int threads = words < 256 ? 128 : 256, K = words > 1000 ? 300 : it, hb = 0; int *bad[2];
            for (int i = 0; i < 2; i++) { CK(cudaSetDevice(i)); CK(cudaMalloc(&bad[i], 4)); CK(cudaMemset(bad[i], 0, 4)); CK(cudaDeviceSynchronize()); }
            us.clear();
            for (int k = 0; k < PLACES; k++) {
                zero(); for (int i = 1; i >= 0; i--) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); pong_data<<<1, threads, 0, s[i]>>>(at(f[i], k), at(f[1 - i], k), at((uint64_t *)dst[i], k), at((uint64_t *)dst[1 - i], k), words, K, i == 0, bad[i]); CK(cudaEventRecord(b[i], s[i])); }
                for (int i = 0; i < 2; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); } CK(cudaSetDevice(0)); CK(cudaEventElapsedTime(&ms, a[0], b[0])); us.push_back(ms * 1e3 / K / 2);
            }
            for (int i = 0; i < 2; i++) { int t; CK(cudaSetDevice(i)); CK(cudaMemcpy(&t, bad[i], 4, cudaMemcpyDeviceToHost)); hb += t; }
            if (rep) printf("limit,put_fence_flag_half_rtt,%d B,%.3f us,bad %d\n", words * 8, median(us), hb);
        }
        zero(); Flags fl; for (int i = 0; i < n; i++) fl.f[i] = f[i];
        for (int i = n - 1; i >= 0; i--) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); barrier_loop<<<1, 32, 0, s[i]>>>(fl, i, n, it); CK(cudaEventRecord(b[i], s[i])); }
        for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); } CK(cudaSetDevice(0)); CK(cudaEventElapsedTime(&ms, a[0], b[0])); if (rep) printf("limit,flag_barrier_%d,%.3f us\n", n, ms * 1e3 / it);
        zero(); CK(cudaSetDevice(0)); CK(cudaEventRecord(a[0], s[0])); remote_read<<<1, 1, 0, s[0]>>>(f[1], f[0] + 100, it); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); if (rep) printf("limit,remote_read,%.3f us\n", ms * 1e3 / it);
        us.clear();
        for (int k = 0; k < PLACES; k++) {
            CK(cudaEventRecord(a[0], s[0])); remote_faa<<<1, 1, 0, s[0]>>>((unsigned long long *)at(f[1], k), (unsigned long long *)f[0] + 100, it); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); us.push_back(ms * 1e3 / it);
        }
        if (rep) printf("limit,remote_fetch_add,%.3f us\n", median(us));
    }
    // empty kernel inside a graph
    CK(cudaSetDevice(0)); cudaGraph_t g; cudaGraphExec_t e; CK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeRelaxed)); for (int i = 0; i < 200; i++) empty<<<1, 32, 0, s[0]>>>(); CK(cudaStreamEndCapture(s[0], &g)); CK(cudaGraphInstantiate(&e, g, 0));
    for (int r = 0; r < 3; r++) { CK(cudaEventRecord(a[0], s[0])); CK(cudaGraphLaunch(e, s[0])); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); } printf("limit,empty_kernel_in_graph,%.3f us\n", ms * 1e3 / 200);
    for (size_t sz : {(size_t)1 << 20, (size_t)16 << 20, (size_t)256 << 20}) {
        for (int grid : {8, 16, 32, 64, 132}) { for (int r = 0; r < 3; r++) { CK(cudaEventRecord(a[0], s[0])); for (int k = 0; k < 10; k++) copy16<<<grid, 1024, 0, s[0]>>>((uint4 *)dst[1], (uint4 *)src[0], sz / 16); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); } printf("limit,store_copy_bw,%zu,grid%d,%.1f GB/s\n", sz, grid, sz * 10 / ms / 1e6); }
        for (int grid : {16, 64, 132}) { for (int r = 0; r < 3; r++) { CK(cudaEventRecord(a[0], s[0])); for (int k = 0; k < 10; k++) copy16<<<grid, 1024, 0, s[0]>>>((uint4 *)dst[0], (uint4 *)src[1], sz / 16); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); } printf("limit,load_copy_bw,%zu,grid%d,%.1f GB/s\n", sz, grid, sz * 10 / ms / 1e6); }
        for (int r = 0; r < 3; r++) { CK(cudaEventRecord(a[0], s[0])); for (int k = 0; k < 10; k++) CK(cudaMemcpyAsync(dst[1], src[0], sz, cudaMemcpyDeviceToDevice, s[0])); CK(cudaEventRecord(b[0], s[0])); CK(cudaStreamSynchronize(s[0])); CK(cudaEventElapsedTime(&ms, a[0], b[0])); } printf("limit,copy_engine_bw,%zu,,%.1f GB/s\n", sz, sz * 10 / ms / 1e6);
    }
    if (n >= 4) {   // all GPUs send to all peers at once: the all-gather limit (bytes received per GPU per second)
        size_t sz = 64u << 20;
        for (int mode = 0; mode < 2; mode++) for (int r = 0; r < 3; r++) {
            for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); CK(cudaDeviceSynchronize()); }
            for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); CK(cudaEventRecord(a[i], s[i])); for (int k = 0; k < 10; k++) {
                if (mode == 0) copy16_all<<<132, 1024, 0, s[i]>>>((uint4 *)(dst[(i + 1) % 4] + i * sz), (uint4 *)(dst[(i + 2) % 4] + i * sz), (uint4 *)(dst[(i + 3) % 4] + i * sz), (uint4 *)src[i], sz / 16);
                else for (int p = 1; p < 4; p++) CK(cudaMemcpyAsync(dst[(i + p) % 4] + i * sz, src[i], sz, cudaMemcpyDeviceToDevice, s[i])); } CK(cudaEventRecord(b[i], s[i])); }
            float worst = 0; for (int i = 0; i < n; i++) { CK(cudaSetDevice(i)); CK(cudaStreamSynchronize(s[i])); CK(cudaEventElapsedTime(&ms, a[i], b[i])); worst = std::max(worst, ms); }
            if (r == 2) printf("limit,all4_send_bw_%s,%zu,,%.1f GB/s per GPU\n", mode ? "copy_engine" : "stores", sz, 3.0 * sz * 10 / worst / 1e6);
        }
    }
    return 0;
}
